"""gpboost_fit.py insteval|good FILE: one fit of crossed intercepts by GPBoost, its CPU seconds and what it found."""

import sys
import time

import gpboost
import numpy as np
import pandas as pd

task, file = sys.argv[1:]
data = pd.read_csv(file)
X = np.column_stack([np.ones(len(data)), data["service"].astype(float)])
likelihood = "gaussian" if task == "insteval" else "bernoulli_logit"
y = data["y" if task == "insteval" else "good"].to_numpy(float)
start = time.process_time(), time.perf_counter()
model = gpboost.GPModel(group_data=data[["s", "d", "dept"]].astype(str).to_numpy(), likelihood=likelihood)
model.fit(y=y, X=X, params={"trace": False})
cpu, clock = time.process_time() - start[0], time.perf_counter() - start[1]
sds = np.sqrt(np.asarray(model.get_cov_pars()).reshape(-1))
print(f"{'gpboost':16s} {cpu:8.2f} s of CPU, {clock:.2f} s, -2 log L {2 * model.get_current_neg_log_likelihood():.4f}, sds {sds.round(5)} (maximum likelihood)")
