"""A hierarchical model with 1,000 groups: partial pooling of schools with few pupils each, and a proof for all 1,002 coefficients."""

import numpy as np
import pandas as pd

import certus

rng = np.random.default_rng(5)
schools, pupils = 1000, 20
effect = rng.normal(0.0, 0.7, schools)
school = np.repeat(np.arange(schools), pupils)
practice = rng.normal(size=schools * pupils)
eta = -0.3 + 0.5 * practice + effect[school]
data = pd.DataFrame({
    "passed": (rng.random(len(eta)) < 1 / (1 + np.exp(-eta))).astype(int),
    "practice": practice,
    "school": [f"s{k:04d}" for k in school],
})

# `group_sd` is the sd of the schools' effects, known here from earlier years. The Gaussian's own numbers take seconds; without `posterior`, draws of NUTS
# follow, which take minutes for so many rows and coefficients.
fit = certus.logistic("passed ~ practice + (1 | school)", data=data, group_sd=0.7).fit(gap=0.01, posterior="gaussian")
print(fit)
assert fit.certificate.gap.level == "proved" and fit.certificate.gap.bound <= 0.01

# Every school's own intercept, with names.
tree = fit.to_arviz(draws=500)
own = tree["posterior"]["(Intercept)|school"]
assert own.sizes["school"] == schools
means = own.mean(("chain", "draw")).values
print("the five weakest schools:", ", ".join(own["school"].values[np.argsort(means)[:5]]))

# Shrinkage helps: on average, the estimates are closer to the truth than each school's raw pass rate.
share = data.groupby("school")["passed"].mean().clip(0.025, 0.975).to_numpy()
raw = np.log(share / (1 - share))
truth = effect - 0.3
print(f"mean squared error: certus {np.mean((means - truth) ** 2):.3f}, raw shares {np.mean((raw - truth) ** 2):.3f}")
assert np.mean((means - truth) ** 2) < 0.7 * np.mean((raw - truth) ** 2)
