#!/usr/bin/env python3
"""table.py CERTUS DATA: published mixed models through the command line beside their reference values, with what is proved.

DATA holds the data sets as CSV files: those of crates/certus-mixed/tests/data do, InstEval (R: lme4::InstEval, as insteval.csv) is left out if it is absent.
References of linear models: lme4 1.1-31, bobyqa with rhoend 1e-10, θ = sd/sigma or the Cholesky factor of Σ/sigma² by columns; InstEval's by REML to more
digits from a certified fit of another program. Of the others: lattices of our own making and the values that docs/mixed.md names.
Linear: θ to 2e-5 (1e-6 absolute at 0), the criterion to 1e-6 or 1e-9 of it. The others: each number to the tolerance beside it. Exits 1 if one is missed.
"""

import json
import math
import subprocess
import sys
from pathlib import Path

certus, data = sys.argv[1], Path(sys.argv[2])
missed = False

# file, formula, criterion, θ in the order of the named parameters, sigma, criterion
SLEEP = "Reaction ~ Days + (Days | Subject)"
ZERO = "Reaction ~ Days + (Days || Subject)"
PENICILLIN, PASTES = "diameter ~ (1 | plate) + (1 | sample)", "strength ~ (1 | batch/cask)"
NESTED, RANDOM = "score ~ Machine + (1 | Worker/Machine)", "score ~ Machine + (Machine | Worker)"
RATINGS = "y ~ factor(service) + (1 | s) + (1 | d) + (1 | dept)"
LINEAR = [
    ("sleepstudy", SLEEP, "reml", [0.96673291381, 0.01516905702, 0.23090959445], 25.5918157, 1743.628271958),
    ("sleepstudy", SLEEP, "ml", [0.92922530342, 0.01816572322, 0.22264542481], 25.59181592, 1751.939344463),
    ("sleepstudy", ZERO, "reml", [0.9798961447, 0.2342305866], 25.56528557, 1743.669293581),
    ("sleepstudy", ZERO, "ml", [0.9458106946, 0.2269282307], 25.55613471, 1752.00325514),
    ("penicillin", PENICILLIN, "reml", [1.539677603, 3.512415364], 0.5499231367, 330.8605889911),
    ("penicillin", PENICILLIN, "ml", [1.537593489, 3.219753461], 0.5499322013, 332.1883486685),
    ("pastes", PASTES, "reml", [1.563460092, 3.526901743], 0.823407566, 246.9907458535),
    ("pastes", PASTES, "ml", [1.329912218, 3.526901738], 0.8234075557, 247.9944658624),
    ("dyestuff", "Yield ~ (1 | Batch)", "reml", [0.8483237832], 49.51009997, 319.6542768423),
    ("dyestuff", "Yield ~ (1 | Batch)", "ml", [0.7525806953], 49.51009995, 327.3270598811),
    ("dyestuff2", "Yield ~ (1 | Batch)", "reml", [0.0], 3.715684274, 161.8282778123),
    ("dyestuff2", "Yield ~ (1 | Batch)", "ml", [0.0], 3.653231351, 162.8730366538),
    ("machines", NESTED, "reml", [4.972094978, 3.878565989], 0.9615766391, 215.6875680082),
    ("machines", NESTED, "ml", [4.538881074, 3.532776033], 0.9615766346, 225.2694469398),
    ("machines", RANDOM, "reml", [4.242281978, 2.958336793, -1.400626327, 5.348920819, 2.075424165, 2.907868741], 0.9615766881, 208.3112183164),
    ("machines", RANDOM, "ml", [3.865477535, 2.719970888, -1.266592702, 4.860684469, 1.890200019, 2.642436856], 0.9615766724, 216.4178273096),
    ("insteval", RATINGS, "reml", [0.2764959417, 0.4373651187, 0.0706057353], 1.177497498, 237733.8341275),
    ("insteval", RATINGS, "ml", [0.27646406751, 0.43735305976, 0.06669683617], 1.17749251, 237721.7687745),
]
CONTRACEPTION = "y ~ age + age2 + u + l1 + l2 + l3 + (1 + u | id)"
EPIL = "y ~ lbase4 * trtp + lage + visit + (1 + visit | subject)"
VERBAL = "y ~ Anger + Gender + btype + situ + (1 | id) + (1 | item)"
# likelihood, file, formula, log likelihood and its tolerance, {parameter: (value, tolerance)}
OTHERS = [
    ("logistic", "toenail", "y ~ trt * time + (1 + time | id)", -549.1623, 1e-4,
     {"sd(id)": (8.5919, 1e-4), "sd(id: time)": (1.01516, 1e-5), "cor(id: (Intercept), time)": (-0.5972, 1e-4)}),
    ("logistic", "contraception", CONTRACEPTION, -1180.007741, 1e-6,
     {"sd(id)": (0.626707, 1e-6), "sd(id: u)": (0.748990, 1e-6), "cor(id: (Intercept), u)": (-0.791442, 1e-6)}),
    ("poisson", "epil", EPIL, -655.350220, 1e-6,
     {"sd(subject)": (0.501034, 1e-6), "sd(subject: visit)": (0.736538, 1e-6), "cor(subject: (Intercept), visit)": (0.00912, 1e-5)}),
    ("logistic", "bacteria", "yy ~ drug + drugp + week + (1 + week | id)", -97.8485, 1e-4,
     {"sd(id)": (0.597, 5e-4), "sd(id: week)": (0.152, 5e-4), "cor(id: (Intercept), week)": (1.0, 1e-3)}),
    ("logistic", "salamander", "Mate ~ 0 + Cross + (1 | Female) + (1 | Male)", -207.597, 0.01,
     {"sd(Female)": (1.3837**0.5, 0.01), "sd(Male)": (1.2382**0.5, 0.01)}),
    ("logistic", "verbagg", VERBAL, -4072.292, 0.01, {"sd(id)": (1.34822, 1e-3), "sd(item)": (0.49856, 1e-3)}),
]


def fitted(kind: str, file: str, formula: str, how: str) -> tuple[dict, int] | None:
    if not (data / f"{file}.csv").exists():
        print(f"{file} {how}: {file}.csv is not there\n")
        return None
    run = subprocess.run([certus, "fit", kind, str(data / f"{file}.csv"), formula, f"--{how}", "--json", "-q"], capture_output=True, text=True)
    if not run.stdout:
        sys.exit(f"{file}: {run.stderr}")
    return json.loads(run.stdout), run.returncode


def theta(parameters: dict[str, float]) -> list[float]:
    """sd/sigma of every effect, or the Cholesky factor by columns where effects are correlated."""
    sigma = parameters["sigma"]
    sds = [value / sigma for name, value in parameters.items() if name.startswith("sd(")]
    pairs = [value for name, value in parameters.items() if name.startswith("cor(")]
    k = len(sds)
    if len(pairs) != k * (k - 1) // 2 or not pairs:
        return sds
    given = iter(pairs)
    by_rows = {(i, j): next(given) for j in range(k) for i in range(j + 1, k)}
    covariance = [[sds[i] * sds[j] * (1.0 if i == j else by_rows[max(i, j), min(i, j)]) for j in range(k)] for i in range(k)]
    factor = [[0.0] * k for _ in range(k)]
    for j in range(k):
        factor[j][j] = math.sqrt(covariance[j][j] - sum(factor[j][m] ** 2 for m in range(j)))
        for i in range(j + 1, k):
            factor[i][j] = (covariance[i][j] - sum(factor[i][m] * factor[j][m] for m in range(j))) / factor[j][j]
    return [factor[i][j] for j in range(k) for i in range(j, k)]


def judge(good: bool) -> str:
    global missed
    missed |= not good
    return "" if good else "  MISSED"


def proved(fit: dict) -> str:
    """What the fit says of the first scale."""
    scale = fit["certificate"]["scale"]
    if scale["level"] != "proved":
        return f"{scale['level']}: {scale['reason']}"
    low, high = scale["interval"]
    everywhere = ", the highest maximum of all (L3)" if scale.get("global") else ""
    return f"proved, {scale['theorem']}: {scale['name']} in [{low:.12g}, {high:.12g}]{everywhere}"


for file, formula, how, wanted, sigma, criterion in LINEAR:
    if (made := fitted("linear", file, formula, how)) is None:
        continue
    fit, code = made
    parameters = {p["name"]: p["mean"] for p in fit["parameters"]}
    found = theta(parameters)
    worst = max(abs(a - b) / b if b else abs(a) / 1e-6 * 2e-5 for a, b in zip(found, wanted, strict=True)) if all(wanted) else abs(found[0])
    good = all(abs(a - b) <= (2e-5 * abs(b) if b else 1e-6) for a, b in zip(found, wanted, strict=True))
    value = fit["criterion"]["value"]
    near = abs(value - criterion) <= max(1e-6, 1e-9 * criterion)
    print(f"{file} {how}: {formula}\n  θ {' '.join(f'{x:.10g}' for x in found)}; furthest from the reference: {worst:.1e}{judge(good)}; sigma {parameters['sigma']:.10g} ({abs(parameters['sigma'] / sigma - 1):.1e})")
    print(f"  criterion {value:.9f} (reference {criterion}, {value - criterion:+.1e}){judge(near)}; exit {code}\n  {proved(fit)}\n", flush=True)
for kind, file, formula, likelihood, tolerance, wanted in OTHERS:
    if (made := fitted(kind, file, formula, "ml")) is None:
        continue
    fit, code = made
    parameters = {p["name"]: p["mean"] for p in fit["parameters"]}
    value = -fit["criterion"]["value"] / 2
    print(f"{file}: {kind} {formula}\n  log likelihood {value:.6f} (reference {likelihood}){judge(abs(value - likelihood) <= tolerance)}; exit {code}")
    for name, (reference, within) in wanted.items():
        print(f"  {name} {parameters[name]:.6f} (reference {reference:.6g} ± {within:.0e}){judge(abs(parameters[name] - reference) <= within)}")
    print(f"  {proved(fit)}\n", flush=True)
sys.exit(missed)
