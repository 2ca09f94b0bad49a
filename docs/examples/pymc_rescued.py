"""A PyMC model rescued: automatic variational inference stops early with the wrong slope; certus reports how accurate its fit is."""

import numpy as np
import pandas as pd
import pymc as pm

import certus

# 800 machines, some of which failed; `year` is a plain calendar year, so it is almost collinear with the intercept.
rng = np.random.default_rng(3)
year = rng.integers(2000, 2021, 800).astype(float)
load = rng.normal(size=800)
failed = (rng.random(800) < 1 / (1 + np.exp(-(0.12 * (year - 2010) - 0.8 * load)))).astype(int)

with pm.Model() as model:
    intercept = pm.Normal("intercept", 0, 1000)
    slope = pm.Normal("slope", 0, 2.5)
    by_load = pm.Normal("by_load", 0, 2.5)
    pm.Bernoulli("failed", logit_p=intercept + slope * year + by_load * load, observed=failed)

# PyMC's own variational inference, with its defaults: 10,000 iterations, without a report on whether they were enough.
with model:
    draws = pm.fit(random_seed=1, progressbar=False).sample(4000, random_seed=1).posterior
advi_mean, advi_sd = float(draws["slope"].mean()), float(draws["slope"].std())

# The same model object. No constants of a black box are known, so the gap is an estimate with a standard error, labelled as such.
fit = certus.fit(model, gap=0.01)
at = fit.names.index("slope")
print(fit)
assert fit.certificate.gap.level == "estimated"

# The same posterior as a model of certus: now the distance to the best Gaussian is proved.
data = pd.DataFrame({"failed": failed, "year": year, "load": load})
proved = certus.logistic("failed ~ year + load", data=data, intercept_prior_sd=1000.0, standardise=False).fit(gap=0.001)
print(proved)
assert proved.certificate.gap.level == "proved"
known = proved.names.index("year")

print(f"slope per year   ADVI {advi_mean:8.4f} ± {advi_sd:.4f}")
print(f"        certus, PyMC {fit.mean[at]:8.4f} ± {fit.sd[at]:.4f}   ({fit.certificate.gap.level})")
print(f"       certus, model {proved.mean[known]:8.4f} ± {proved.sd[known]:.4f}   ({proved.certificate.gap.level})")

# ADVI misses the slope by several posterior sds; the two fits of certus agree.
assert abs(advi_mean - proved.mean[known]) > 3 * proved.sd[known]
assert abs(fit.mean[at] - proved.mean[known]) < 0.2 * proved.sd[known]
assert abs(fit.sd[at] / proved.sd[known] - 1) < 0.1
