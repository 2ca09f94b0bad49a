"""Verdicts and errors of certus on the posteriors of models.py, beside other approximations.

    python run.py reference [MODEL ...]     long runs of NUTS (nutpie), merged into reference.json
    python run.py fit [MODEL ...]           every method on every model, kept in WORK/METHOD-MODEL.json
    python run.py table                     the tables, from what is kept

`--methods certus,advi,fullrank,pathfinder,svi` selects methods, `--work DIR` the directory [posteriors-work]; what is
kept there is not run again. Needs certus, pymc, nutpie, pymc-extras, numpyro. Every fit has the defaults of its
library, except the number of steps of SVI, which has no default.
"""

from __future__ import annotations

import argparse
import json
import logging
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

import numpy as np  # noqa: E402
import pymc as pm  # noqa: E402

from models import MODELS, REFERENCE, SHORT_STEPS, WITHOUT_SD  # noqa: E402

HERE = Path(__file__).parent
METHODS = ("certus", "advi", "fullrank", "pathfinder", "svi")
DRAWS, KEPT = 4000, 2500
"""Draws of an approximation, and of each chain of a reference."""
KINDS = ("within 0.1 sd and 10 %", "between", "outside 0.2 sd or 0.8-1.25")
Moments = dict[str, list[float]]


def digits(values: Any) -> list[float]:
    return [float(f"{v:.5g}") for v in np.ravel(values)]


# ---- references


def reference(name: str) -> dict[str, Any]:
    """Means and sds of the variables with their Monte Carlo errors."""
    made = REFERENCE.get(name, MODELS[name])()
    if isinstance(made, dict):
        exact = {
            v: {"mean": digits(m), "sd": digits(s), "mean_error": digits(0 * m), "sd_error": digits(0 * s)}
            for v, (m, s) in made.items()
        }
        return {"source": "exact", "variables": exact}
    first, second = made if isinstance(made, tuple) else (made, None)
    begun = time.perf_counter()
    if isinstance(first, str):
        (source, draws), divergences, after = made, 0, None
    else:
        (draws, divergences, source), after = long_run(first, 0.99 if name in SHORT_STEPS else 0.9), second
        source += "" if REFERENCE.get(name) is None else ", in another parametrisation"
    seconds = time.perf_counter() - begun
    shown = [
        v.name for v in MODELS[name]().unobserved_RVs if v.name in draws and v.name not in WITHOUT_SD.get(name, [])
    ]
    out: dict[str, Any] = {}
    r_hat, least = 1.0, np.inf
    for variable in shown:
        values = draws[variable]
        flat = values.reshape(*values.shape[:2], -1)
        found = [monte_carlo(flat[..., k]) for k in range(flat.shape[2])]
        r_hat, least = max(r_hat, *(f[0] for f in found)), min(least, *(f[1] for f in found))
        flat = (values if after is None else after({variable: values})[variable]).reshape(-1, flat.shape[2])
        out[variable] = {
            "mean": digits(flat.mean(0)),
            "sd": digits(flat.std(0)),
            "mean_error": digits([f[2] for f in found]),
            "sd_error": digits([f[3] for f in found]),
        }
    return {
        "source": source,
        "r_hat": round(float(r_hat), 4),
        "ess": round(float(least)),
        "divergences": divergences,
        "seconds": round(seconds, 1),
        "variables": out,
    }


def long_run(model: pm.Model, accept: float) -> tuple[dict[str, np.ndarray], int, str]:
    """Draws of every variable (chains, draws, shape), divergences, and what made them.

    The log density is the function that the adapter of certus compiles, which its tests compare with PyMC's; the
    sampler is nutpie's.
    """
    import certus
    import nutpie
    from nutpie.compiled_pyfunc import from_pyfunc

    target = certus.pymc(model)
    start = np.asarray(target.start)

    def log_density(z: np.ndarray) -> tuple[float, np.ndarray]:
        values, gradients = target.log_density(np.ascontiguousarray(z[None]))
        return (float(values[0]), gradients[0]) if np.isfinite(values[0]) else (-np.inf, np.zeros_like(z))

    compiled = from_pyfunc(
        target.dim,
        lambda: log_density,
        lambda *_: lambda z: {"z": z},
        [np.dtype("float64")],
        [(target.dim,)],
        ["z"],
        make_initial_point_fn=lambda seed: start + np.random.default_rng(seed).uniform(-0.5, 0.5, size=start.shape),
    )
    run = nutpie.sample(
        compiled,
        draws=KEPT,
        tune=800,
        chains=4,
        cores=1,
        seed=1,
        target_accept=accept,
        progress_bar=False,
        save_warmup=False,
    )
    z = run.posterior["z"].values
    values = target.constrain(z.reshape(-1, target.dim)) if target.constrain is not None else {}
    draws = {name: np.asarray(x).reshape(*z.shape[:2], *np.shape(x)[1:]) for name, x in values.items()}
    divergences = int(run.sample_stats["diverging"].values.sum())
    return draws, divergences, f"nutpie {nutpie.__version__}, 4 chains of {KEPT} draws"


def monte_carlo(draws: np.ndarray) -> tuple[float, float, float, float]:
    """R-hat of split chains, the effective sample size, and the standard errors of mean and sd, by the means of 25
    batches of every chain."""
    if np.ptp(draws) == 0:
        return 1.0, np.inf, 0.0, 0.0
    mean, sd = draws.mean(), draws.std()
    halves = draws.reshape(2 * len(draws), -1)
    r_hat = np.sqrt(1 + halves.mean(1).var(ddof=1) / halves.var(axis=1, ddof=1).mean())
    spread = lambda x: x.reshape(25 * len(draws), -1).mean(1).std(ddof=1) / np.sqrt(25 * len(draws))
    mean_error = spread(draws)
    return r_hat, (sd / mean_error) ** 2, mean_error, spread((draws - mean) ** 2) / (2 * sd)


# ---- methods: moments of the variables by name, each flat


def moments(draws: dict[str, np.ndarray]) -> dict[str, Moments]:
    """Of draws by name, the draws along the first axis."""
    flat = {name: np.asarray(x, dtype=float).reshape(len(x), -1) for name, x in draws.items()}
    return {name: {"mean": digits(x.mean(0)), "sd": digits(x.std(0))} for name, x in flat.items()}


def of_arviz(posterior: Any) -> dict[str, Moments]:
    stacked = {name: posterior[name].values for name in posterior.data_vars}
    return moments({name: x.reshape(-1, *x.shape[2:]) for name, x in stacked.items()})


def by_certus(model: pm.Model) -> dict[str, Any]:
    import certus

    fit = certus.fit(model, progress=False)
    table = fit.summary()
    # rows are variables, entry by entry: "a", "b[0]", "b[1]"
    found: dict[str, Moments] = {}
    for row, values in table.iterrows():
        variable = found.setdefault(str(row).partition("[")[0], {"mean": [], "sd": []})
        for key in ("mean", "sd"):
            variable[key].append(float(values[key]))
    source = fit.table.source if "table" in fit.to_dict() else "gaussian"
    return {
        "moments": found,
        "verdict": fit.verdict,
        "status": fit.status,
        "source": source,
        "sentences": fit.sentences,
        "message": fit.message,
        "gradients": fit.to_dict()["counts"]["gradients"],
    }


def by_pymc(method: str) -> Any:
    def run(model: pm.Model) -> dict[str, Any]:
        with model:
            approximation = pm.fit(method=method, random_seed=1, progressbar=False)
            draws = approximation.sample(DRAWS, random_seed=1)
        return {"moments": of_arviz(draws.posterior)}

    return run


def by_pathfinder(model: pm.Model) -> dict[str, Any]:
    import pymc_extras

    with model:
        draws = pymc_extras.fit(method="pathfinder", random_seed=1, progressbar=False, display_summary=False)
    return {"moments": of_arviz(draws.posterior)}


def by_svi(model: pm.Model) -> dict[str, Any]:
    """NumPyro's AutoMultivariateNormal, 10,000 steps of Adam, on the unconstrained space of the PyMC model."""
    import jax
    import numpyro
    from pymc.sampling.jax import get_jaxified_logp
    from numpyro.infer import SVI, Trace_ELBO
    from numpyro.infer.autoguide import AutoMultivariateNormal

    point = model.initial_point()
    values = model.value_vars
    starts = [np.asarray(point[v.name], dtype=float) for v in values]
    log_density = get_jaxified_logp(model)
    ends = np.cumsum([0, *(s.size for s in starts)])

    def split(z: Any) -> list[Any]:
        return [z[..., a:b].reshape(*z.shape[:-1], *s.shape) for a, b, s in zip(ends, ends[1:], starts, strict=False)]

    def density() -> None:
        real = numpyro.distributions.constraints.real
        z = numpyro.sample("z", numpyro.distributions.ImproperUniform(real, (), event_shape=(int(ends[-1]),)))
        numpyro.factor("log_density", log_density(split(z)))

    origin = np.concatenate([s.ravel() for s in starts])
    with jax.enable_x64(True):
        guide = AutoMultivariateNormal(density, init_loc_fn=numpyro.infer.init_to_value(values={"z": origin}))
        svi = SVI(density, guide, numpyro.optim.Adam(0.01), Trace_ELBO())
        run = svi.run(jax.random.PRNGKey(1), 10_000, progress_bar=False)
        z = np.asarray(guide.sample_posterior(jax.random.PRNGKey(2), run.params, sample_shape=(DRAWS,))["z"])
    import certus

    target = certus.pymc(model)
    order = [v.name for v in values]
    pieces = dict(zip(order, split(z), strict=True))
    # the order of the target's coordinates is that in which the variables are written
    written = dict.fromkeys(n.partition("[")[0] for n in target.names or ())
    flat = np.concatenate([pieces[n].reshape(DRAWS, -1) for n in written], axis=1)
    return {"moments": moments(dict(target.constrain(flat)))}


RUN = {
    "certus": by_certus,
    "advi": by_pymc("advi"),
    "fullrank": by_pymc("fullrank_advi"),
    "pathfinder": by_pathfinder,
    "svi": by_svi,
}


def fitted(method: str, name: str, work: Path) -> None:
    kept = work / f"{method}-{name}.json"
    if kept.exists():
        return
    model = MODELS[name]()
    begun = time.perf_counter()
    try:
        found = RUN[method](model)
    except Exception as error:  # a failure is a result
        found = {"failed": f"{type(error).__name__}: {error}"[:2000], "trace": traceback.format_exc()[-2000:]}
    found["seconds"] = round(time.perf_counter() - begun, 1)
    kept.write_text(json.dumps(found, indent=1))
    print(
        f"{method:10} {name:26} {found['seconds']:7.1f} s  {found.get('verdict', '')}  {found.get('failed', '')[:150]}",
        flush=True,
    )


# ---- tables


def errors(found: dict[str, Moments], truth: dict[str, Any]) -> tuple[float, float, float, str]:
    """The largest error of a mean in posterior sds and where it is, the smallest and the largest ratio of sds."""
    worst, low, high, where = 0.0, np.inf, 0.0, ""
    for name, exact in truth["variables"].items():
        ours = found[name]
        for k, (mean, sd) in enumerate(zip(exact["mean"], exact["sd"], strict=True)):
            if sd < 1e-12:  # the diagonal of a correlation matrix
                continue
            error, ratio = abs(ours["mean"][k] - mean) / sd, ours["sd"][k] / sd
            if not error <= worst:
                worst, where = error, f"{name}[{k}]" if len(exact["mean"]) > 1 else name
            low, high = min(low, ratio), max(high, ratio)
    return worst, low, high, where


def table(work: Path, names: list[str], methods: list[str]) -> str:
    truth = json.loads((HERE / "reference.json").read_text())
    lines: list[str] = []
    head = f"{'model':26} {'d':>3}  {'verdict':23} {'source':10} {'mean':>5} {'sd':>10} {'s':>5}"
    lines += [head + "".join(f" | {m + ' mean':>9} {'sd':>10} {'s':>4}" for m in methods if m != "certus")]
    false, late, rows = [], [], []
    for name in names:
        cells = ""
        for method in methods:
            kept = work / f"{method}-{name}.json"
            found = json.loads(kept.read_text()) if kept.exists() else {"failed": "not run", "seconds": np.nan}
            failed = "moments" not in found
            if not failed:
                worst, low, high, where = errors(found["moments"], truth[name])
                span = f"{low:.2f}-{high:.2f}" if high < 100 else f"{low:.2f}-{high:.0e}"
            if method == "certus":
                dim = found.get("dim", MODELS[name]().initial_point())
                dim = sum(np.size(v) for v in dim.values()) if isinstance(dim, dict) else dim
                verdict = "error" if failed else found["verdict"]
                off = "    -          -" if failed else f"{worst:5.2f} {span:>10}"
                cells += f"{name:26} {dim:3}  {verdict:23} {found.get('source', ''):10} {off} {found['seconds']:5.0f}"
                good = not failed and worst <= 0.1 and low >= 0.9 and high <= 1.1
                bad = failed or worst > 0.2 or low < 0.8 or high > 1.25
                rows.append((verdict, KINDS[0] if good else KINDS[2] if bad else KINDS[1]))
                if verdict == "accurate" and bad:
                    false.append(f"{name}: {where} by {worst:.2f} sd, sds {span}")
                if verdict in ("unreliable", "failed", "error") and good:
                    late.append(f"{name}: {found['message'][:300]}")
            else:
                cells += (
                    f" | {'failed':>9} {'':10} {found['seconds']:4.0f}"
                    if failed
                    else f" | {min(worst, 999):9.2f} {span:>10} {found['seconds']:4.0f}"
                )
        lines.append(cells)
    lines += ["", f"{'verdict':26}" + "".join(f"{k:>28}" for k in KINDS)]
    for verdict in dict.fromkeys(v for v, _ in sorted(rows)):
        lines.append(f"{verdict:26}" + "".join(f"{rows.count((verdict, k)):28}" for k in KINDS))
    lines += ["", f"accurate, but outside: {len(false)}", *(f"  {x}" for x in false)]
    lines += [f"unreliable, although within: {len(late)}", *(f"  {x}" for x in late)]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("reference", "fit", "table"))
    parser.add_argument("models", nargs="*")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--work", type=Path, default=Path("posteriors-work"))
    given = parser.parse_args()
    names, methods = given.models or list(MODELS), given.methods.split(",")
    unknown = (set(names) - set(MODELS)) | (set(methods) - set(METHODS))
    if unknown:
        parser.error(
            f"unknown: {', '.join(sorted(unknown))}; models are {', '.join(MODELS)}; methods are {', '.join(METHODS)}"
        )
    given.work.mkdir(parents=True, exist_ok=True)
    if given.what == "reference":
        for name in names:
            path = HERE / "reference.json"
            kept = json.loads(path.read_text()) if path.exists() else {}
            kept[name] = reference(name)
            lines = [f"{json.dumps(n)}: {json.dumps(kept[n])}" for n in MODELS if n in kept]
            path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
            print(
                f"{time.process_time():.0f} s of CPU",
                name,
                {k: v for k, v in kept[name].items() if k != "variables"},
                flush=True,
            )
    elif given.what == "fit":
        for name in names:
            for method in methods:
                fitted(method, name, given.work)
    else:
        print(table(given.work, names, methods))


if __name__ == "__main__":
    main()
