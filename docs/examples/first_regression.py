"""A first regression: does a longer study time help to pass, and how certain is the answer?"""

import numpy as np
import pandas as pd

import certus

# 400 students: hours of study, the course they took, and whether they passed.
rng = np.random.default_rng(1)
hours = rng.gamma(4.0, 2.0, 400)
course = rng.choice(["algebra", "biology", "chemistry"], 400)
eta = -2.0 + 0.3 * hours + np.where(course == "chemistry", -0.7, 0.0)
students = pd.DataFrame({"hours": hours, "course": course, "passed": (rng.random(400) < 1 / (1 + np.exp(-eta))).astype(int)})

model = certus.logistic("passed ~ hours + course", data=students)
fit = model.fit(gap=0.001)

# The certificate comes first: it is proved that no Gaussian is more than `bound` nats closer to the posterior.
print(fit)
assert fit.certificate.gap.level == "proved"
assert fit.certificate.gap.bound <= 0.001

# Means, sds and quantiles on the scale of the data.
print(fit.summary())
assert "hours" in fit.names and fit.mean[fit.names.index("hours")] > 0

# New students.
new = pd.DataFrame({"hours": [2.0, 8.0, 14.0], "course": ["biology", "biology", "chemistry"]})
print(fit.predict(new))
