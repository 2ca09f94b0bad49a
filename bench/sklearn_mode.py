"""Times scikit-learn's mode fit of a logistic problem given as CSV (prior N(0, I), no intercept), one thread:
OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python bench/sklearn_mode.py FILE..."""
import sys, time
import numpy as np
from sklearn.linear_model import LogisticRegression

for path in sys.argv[1:]:
    with open(path) as f:
        names = f.readline().strip().split(",")
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    y = table[:, names.index("y")]
    x = np.ascontiguousarray(table[:, [j for j, n in enumerate(names) if n.startswith("x")]])
    times = []
    for _ in range(3):
        began = time.perf_counter()
        fit = LogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-8, fit_intercept=False, max_iter=1000).fit(x, y)
        times.append(time.perf_counter() - began)
    print(f"{path}: scikit-learn mode {min(times):.3f} s (best of 3), {fit.n_iter_} iterations")
