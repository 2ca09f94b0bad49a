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
import importlib.metadata
import json
import logging
import multiprocessing
import os
import resource
import signal
import textwrap
import time
import warnings
from dataclasses import dataclass
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
LIMIT = 300
"""Seconds of the processor after which a fit is stopped."""
KINDS = ("within 0.1 sd and 10 %", "between", "outside 0.2 sd or 0.8-1.25")
Moments = dict[str, list[float]]


def digits(values: Any) -> list[float]:
    return [float(f"{v:.5g}") for v in np.ravel(values)]


# ---- references


def reference(name: str) -> dict[str, Any]:
    """Means and sds of the variables with their Monte Carlo errors.

    What models.REFERENCE makes is moments by variable, a model, a model and a change of its draws, or a source and
    draws.
    """
    begun = time.perf_counter()
    made = REFERENCE.get(name, MODELS[name])()
    if isinstance(made, dict):
        exact = {
            v: {"mean": digits(m), "sd": digits(s), "mean_error": digits(0 * m), "sd_error": digits(0 * s)}
            for v, (m, s) in made.items()
        }
        return {"source": "a sum over a grid or a closed form", "variables": exact}
    first, second = made if isinstance(made, tuple) else (made, None)
    divergences, after = 0, None
    if isinstance(first, str):
        source, draws = first, second
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
        "route": fit.to_dict().get("route"),
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
    from numpyro.infer import SVI, Trace_ELBO
    from numpyro.infer.autoguide import AutoMultivariateNormal
    from pymc.sampling.jax import get_jaxified_graph, get_jaxified_logp

    point = model.initial_point()
    starts = [np.asarray(point[v.name], dtype=float) for v in model.value_vars]
    ends = np.cumsum([0, *(s.size for s in starts)])
    log_density = get_jaxified_logp(model)
    shown = [*model.free_RVs, *model.deterministics]
    constrain = get_jaxified_graph(model.value_vars, model.replace_rvs_by_values(shown))

    def split(z: Any) -> list[Any]:
        return [z[a:b].reshape(s.shape) for a, b, s in zip(ends, ends[1:], starts, strict=False)]

    def density() -> None:
        real = numpyro.distributions.constraints.real
        z = numpyro.sample("z", numpyro.distributions.ImproperUniform(real, (), event_shape=(int(ends[-1]),)))
        numpyro.factor("log_density", log_density(split(z)))

    origin = np.concatenate([s.ravel() for s in starts])
    with jax.enable_x64(True):
        guide = AutoMultivariateNormal(density, init_loc_fn=numpyro.infer.init_to_value(values={"z": origin}))
        svi = SVI(density, guide, numpyro.optim.Adam(0.01), Trace_ELBO())
        run = svi.run(jax.random.PRNGKey(1), 10_000, progress_bar=False)
        z = guide.sample_posterior(jax.random.PRNGKey(2), run.params, sample_shape=(DRAWS,))["z"]
        values = jax.jit(jax.vmap(lambda z: constrain(*split(z))))(z)
    return {"moments": moments(dict(zip([v.name for v in shown], values, strict=True)))}


RUN = {
    "certus": by_certus,
    "advi": by_pymc("advi"),
    "fullrank": by_pymc("fullrank_advi"),
    "pathfinder": by_pathfinder,
    "svi": by_svi,
}


def attempt(method: str, name: str, kept: Path) -> None:
    """Writes what a method says of a model and the seconds that it took, compilation included."""
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))
    model = MODELS[name]()
    begun, before = time.perf_counter(), processor()
    try:
        found = RUN[method](model)
    except Exception as error:  # a failure is a result
        found = {"failed": f"{type(error).__name__}: {error}"[:2000]}
    found |= {"seconds": round(time.perf_counter() - begun, 1), "processor": round(processor() - before, 1)}
    kept.write_text(json.dumps(found, indent=1))


def processor() -> float:
    """Seconds of the processor that this process and the compilers that it called have used."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def fitted(method: str, name: str, work: Path) -> None:
    """Fits in a process of its own, which ends when it has used up its time."""
    kept = work / f"{method}-{name}.json"
    if kept.exists():
        return
    begun = time.perf_counter()
    process = multiprocessing.get_context("fork").Process(target=attempt, args=(method, name, kept))
    process.start()
    process.join()
    if process.exitcode:
        stopped = process.exitcode in (-signal.SIGXCPU, -signal.SIGKILL)
        words = f"stopped at {LIMIT} s" if stopped else f"ended with {process.exitcode}"
        kept.write_text(json.dumps({"failed": words, "seconds": round(time.perf_counter() - begun, 1)}, indent=1))
    found = json.loads(kept.read_text())
    words = found.get("verdict", "") or found.get("failed", "").partition("\n")[0][:150]
    seconds = f"{found['seconds']} s, of the processor {found.get('processor', '-')}"
    print(f"{method:10} {name:26} {seconds}  {words}", flush=True)


# ---- tables


@dataclass
class Errors:
    """How far moments are from those of the reference."""

    mean: float = 0.0
    """The largest error of a mean, in sds of the posterior."""
    low: float = np.inf
    high: float = 0.0
    """The smallest and the largest ratio of an sd to the posterior's."""
    where: str = ""
    """The variable with the largest error of a mean."""
    within: bool = True
    """Every mean within 0.1 sd and every sd within 10 %, up to two standard errors of the reference."""

    @property
    def kind(self) -> str:
        if self.within:
            return KINDS[0]
        return KINDS[1] if self.mean <= 0.2 and self.low >= 0.8 and self.high <= 1.25 else KINDS[2]

    @property
    def ratios(self) -> str:
        return f"{self.low:.2f}-{self.high:.2f}" if self.high < 100 else f"{self.low:.2f}-{self.high:.0e}"


def errors(found: dict[str, Moments], truth: dict[str, Any]) -> Errors:
    out = Errors()
    for name, exact in truth["variables"].items():
        ours = found[name]
        for k, (mean, sd) in enumerate(zip(exact["mean"], exact["sd"], strict=True)):
            if sd < 1e-12:  # the diagonal of a correlation matrix
                continue
            pair = abs(ours["mean"][k] - mean) / sd, ours["sd"][k] / sd
            error, ratio = (x if np.isfinite(x) else np.inf for x in pair)
            if error > out.mean:
                out.mean, out.where = error, f"{name}[{k}]" if len(exact["mean"]) > 1 else name
            out.low, out.high = min(out.low, ratio), max(out.high, ratio)
            noise = [2 * exact[key][k] / sd for key in ("mean_error", "sd_error")]
            out.within &= error <= 0.1 + noise[0] and 0.9 - noise[1] <= ratio <= 1.1 + noise[1]
    return out


def heading(truth: dict[str, Any], names: list[str]) -> list[str]:
    """What was run, on what, and what the columns are."""
    packages = ("certus", "pymc", "pymc-extras", "numpyro", "nutpie")
    versions = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in packages)
    each = [v for name in names for v in truth[name]["variables"].values()]
    noise = {
        key: max(e / sd for v in each for e, sd in zip(v[key], v["sd"], strict=True) if sd > 1e-12)
        for key in ("mean_error", "sd_error")
    }
    left_out = "; ".join(f"{v} of {name}" for name, variables in WITHOUT_SD.items() for v in variables)
    text = f"""
        Posteriors written in PyMC (bench/posteriors/models.py), what certus says of them with its defaults, and what
        others give: `python run.py table`, {time.strftime("%-d %B %Y")}, {os.cpu_count()} cores beside other jobs;
        {versions}.

        mean: the largest error of a printed mean in sds of the posterior; sd: the smallest and the largest ratio of a
        printed sd to the posterior's; both over every entry of every variable on the model's own scale,
        deterministics included. s: seconds of the processor, compilation included; in brackets those of the clock,
        which other jobs make longer, of fits for which no others were recorded; a fit is stopped after {LIMIT} s of
        the processor. The others have the defaults of their libraries
        (ADVI: 10,000 steps); SVI is NumPyro's AutoMultivariateNormal with 10,000 steps of Adam(0.01).

        References (reference.json, with their standard errors): long runs of nutpie, for centred models in the
        non-centred parametrisation, a Gibbs sampler, importance sampling from a conjugate posterior, sums over a
        grid, closed forms. Their standard errors are at most {noise["mean_error"]:.3f} sd (means) and
        {100 * noise["sd_error"]:.1f} % (sds), so that an error of this size is the reference's as much as the
        fit's: what is within 0.1 sd and 10 % up to two standard errors of the reference counts as within, and nothing
        is subtracted from an error that counts as outside. Not compared, because the posterior has no finite sd:
        {left_out}."""
    paragraphs = [" ".join(p.split()) for p in text.split("\n\n")]
    return "\n\n".join(textwrap.fill(p, 140) for p in paragraphs).splitlines()


def cell(found: dict[str, Any], worst: Errors | None) -> str:
    if worst is None:
        numbers = f"{'failed' if found else 'not run':18}"
    else:
        numbers = f"{min(worst.mean, 999):6.2f} {worst.ratios:>11}"
    seconds = f"{found['processor']:.0f}" if "processor" in found else f"({found['seconds']:.0f})" if found else ""
    return f"{numbers} {seconds:>5}"


def table(work: Path, names: list[str], methods: list[str]) -> str:
    truth = json.loads((HERE / "reference.json").read_text())
    lines = [*heading(truth, names), ""]
    verdicts: list[tuple[str, str]] = []
    false, late, failures = [], [], []
    columns = f"{'mean':>6} {'sd':>11} {'s':>5}"
    ours = [f"{'model':25} {'d':>3}  {'verdict':23} {'printed':10} {columns}  worst mean"]
    theirs = [f"{'':25}" + "".join(f" | {m:24}" for m in methods if m != "certus")]
    theirs += [f"{'model':25}" + f" | {columns}" * (len(theirs[0].split("|")) - 1)]
    for name in names:
        cells = ""
        for method in methods:
            kept = work / f"{method}-{name}.json"
            found = json.loads(kept.read_text()) if kept.exists() else {}
            worst = errors(found["moments"], truth[name]) if "moments" in found else None
            if worst is None and kept.exists():
                failures.append(f"{method}, {name}: {found['failed'].partition(chr(10))[0][:100]}")
            if method != "certus":
                cells += f" | {cell(found, worst)}"
                continue
            verdict, kind = found.get("verdict", "error"), worst.kind if worst else KINDS[2]
            dim = sum(np.size(x) for x in MODELS[name]().initial_point().values())
            shown = f"{name:25} {dim:3}  {verdict:23} {found.get('source', ''):10} {cell(found, worst)}"
            ours.append(f"{shown}  {worst.where if worst else ''}")
            verdicts.append((verdict, kind))
            if worst and verdict == "accurate" and kind == KINDS[2]:
                false.append(f"{name}: {worst.where} by {worst.mean:.2f} sd, sds {worst.ratios}")
            if worst and verdict == "unreliable" and kind == KINDS[0]:
                late.append(f"{name}: {found['sentences'][0]}")
        theirs.append(f"{name:25}{cells}")
    others = [*theirs, ""] if methods != ["certus"] else []
    lines += [*ours, "", *others, f"{'verdict':26}" + "".join(f"{k:>28}" for k in KINDS)]
    for verdict in sorted({v for v, _ in verdicts}):
        lines.append(f"{verdict:26}" + "".join(f"{verdicts.count((verdict, k)):28}" for k in KINDS))
    lines += ["", f"accurate, but outside: {len(false)}", *(f"  {x}" for x in false)]
    lines += [f"unreliable, although within: {len(late)}", *(f"  {x}" for x in late)]
    lines += [f"failed: {len(failures)}", *(f"  {x}" for x in failures)]
    return "\n".join(line.rstrip() for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("reference", "fit", "table"))
    parser.add_argument("models", nargs="*")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--work", type=Path, default=Path("posteriors-work"))
    given = parser.parse_intermixed_args()
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
        # here and not in the processes of the fits, whose seconds it would add to
        for package in ("certus", "pymc_extras", "numpyro.infer.autoguide", "pymc.sampling.jax"):
            importlib.import_module(package)
        for name in names:
            for method in methods:
                fitted(method, name, given.work)
    else:
        print(table(given.work, names, methods))


if __name__ == "__main__":
    main()
