#!/usr/bin/env python3
"""sleepstudy by bambi and by NUTS, beside certus: `python bambi_sleepstudy.py SLEEPSTUDY.csv` (pip install bambi nutpie).

bambi has priors of its own, and its effects of a group are independent; certus with the same formula, `(Days || Subject)`, has the priors of docs/priors.md.
"""
import sys
import time

import bambi
import pandas as pd

data = pd.read_csv(sys.argv[1])
data["Subject"] = data["Subject"].astype(str)
model = bambi.Model("Reaction ~ Days + (Days | Subject)", data)
began = time.process_time()
fit = model.fit(draws=5000, tune=1000, chains=4, cores=2, random_seed=1, inference_method="nutpie", progressbar=False)
print(f"bambi {bambi.__version__}, 20,000 draws by nutpie, {time.process_time() - began:.0f} s of CPU (compilation included, of this process)")
print(model)
draws = fit.posterior
for name in ("Intercept", "Days", "1|Subject_sigma", "Days|Subject_sigma", "sigma"):
    x = draws[name]
    print(f"{name:20} {float(x.mean()):10.4f} {float(x.std()):10.4f}")
