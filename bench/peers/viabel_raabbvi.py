"""viabel: RAABBVI through viabel.bbvi, on a full-rank Gaussian family, which viabel lacks and which is defined here.

viabel 0.5.1 imports PyStan 2, which current Pythons cannot install, and its wheel lacks the Stan file of the small weighted
regression inside RAABBVI's stopping rule. Both are replaced at run time: an empty `pystan`, and the posterior means of that
regression (two numbers, from a handful of points) by quadrature instead of by sampling.
"""
from common import Clock, Skip, run
import contextlib
import importlib.metadata
import io
import os
import sys
import types

os.environ["TQDM_DISABLE"] = "1"
sys.modules.setdefault("pystan", types.ModuleType("pystan"))
import autograd.numpy as np  # noqa: E402
import numpy as plain  # noqa: E402
import viabel  # noqa: E402
from viabel import optimization  # noqa: E402


def regression_means(x, y, rho, weights):
    """Posterior means of kappa and log c: y ~ N(log c + 2 log(rho^-kappa - 1) + 2 kappa x, sigma), weighted; kappa uniform on
    (0, 1), log c Cauchy(0, 10), sigma half-Cauchy(0, 10)."""
    x, y, w = (plain.asarray(a, float)[:, None, None] for a in (x, y, weights))
    kappa = ((plain.arange(64) + 0.5) / 64)[None, :, None]
    shift = 2 * plain.log(rho**-kappa - 1) + 2 * kappa * x  # points x kappa x 1
    u = plain.linspace(-8, 8, 257)[None, None, :]
    center = plain.sum(w * (y - shift), axis=0, keepdims=True) / plain.sum(w)
    log_c = center + 0.3 * plain.sinh(u)  # 1 x kappa x u, so that peak and tails have nodes
    squares = plain.sum(w * (y - log_c - shift) ** 2, axis=0)
    log_sigma = plain.linspace(plain.log(1e-3), plain.log(1e4), 161)
    sigma = plain.exp(log_sigma)
    log_p = -0.5 * squares[..., None] / sigma**2 - plain.sum(w) * log_sigma + log_sigma - plain.log1p((sigma / 10) ** 2)
    log_p += (plain.log(plain.cosh(u[0])) - plain.log1p((log_c[0] / 10) ** 2))[..., None]
    p = plain.exp(log_p - log_p.max())
    mass = p.sum(axis=2)
    return float(plain.sum(mass * kappa[0]) / mass.sum()), float(plain.sum(mass * log_c[0]) / mass.sum())


def weighted_linear_regression(self, model, y, x, s=9, a=0.25, n_chains=4):
    """Stands in for RAABBVI's method of this name, with its weights."""
    weights = 1 / (1 + plain.arange(len(y))[::-1] ** 2 / s) ** a
    kappa, log_c = regression_means(x, y, self._rho, weights)
    return {"kappa": plain.array([kappa]), "log_c": plain.array([log_c])}, kappa, plain.exp(log_c)


optimization.StanModel_cache = lambda **_: None
optimization.RAABBVI.weighted_linear_regression = weighted_linear_regression
original_wls = optimization.RAABBVI.wls
optimization.RAABBVI.wls = lambda self, x, y: tuple(b.item() for b in original_wls(self, np.asarray(x), np.asarray(y)))


class FullRankGaussian(viabel.ApproximationFamily):
    """N(mean, L L') with parameters mean, log diagonal of L, entries below it; starts like viabel's mean-field family."""

    def __init__(self, dim, seed):
        self._rs = plain.random.RandomState(seed)
        rows, columns = plain.tril_indices(dim, -1)
        self._place = plain.full((dim, dim), dim + rows.size)  # the last entry of the list of values is zero
        self._place[plain.diag_indices(dim)] = plain.arange(dim)
        self._place[rows, columns] = dim + plain.arange(rows.size)
        super().__init__(dim, 2 * dim + rows.size, True, True)

    def init_param(self):
        return np.concatenate([np.zeros(self.dim), 2 * np.ones(self.dim), np.zeros(self.var_param_dim - 2 * self.dim)])

    def factor(self, param):
        d = self.dim
        return np.concatenate([np.exp(param[d : 2 * d]), param[2 * d :], np.zeros(1)])[self._place]

    def sample(self, param, n_samples, seed=None):
        rs = self._rs if seed is None else plain.random.RandomState(seed)
        return param[: self.dim] + np.dot(rs.randn(n_samples, self.dim), self.factor(param).T)

    def _entropy(self, param):
        return 0.5 * self.dim * (1 + np.log(2 * np.pi)) + np.sum(param[self.dim : 2 * self.dim])

    def _kl(self, param0, param1):
        d, L0, L1 = self.dim, self.factor(param0), self.factor(param1)
        whitened = np.linalg.solve(L1, np.concatenate([L0, (param0[:d] - param1[:d])[:, None]], axis=1))
        return 0.5 * (np.sum(whitened**2) - d) + np.sum(param1[d : 2 * d] - param0[d : 2 * d])

    def log_density(self, param, x):
        white = np.linalg.solve(self.factor(param), (x - param[: self.dim]).T)
        return -0.5 * np.sum(white**2, axis=0) - 0.5 * self.dim * np.log(2 * np.pi) - np.sum(param[self.dim : 2 * self.dim])

    def mean_and_cov(self, param):
        L = self.factor(param)
        return param[: self.dim], L @ L.T

    def _pth_moment(self, param, p):
        raise NotImplementedError

    def supports_pth_moment(self, p):
        return False


def fit(problem, options, seed, limit):
    if problem.group is not None or problem.dim > 50:
        raise Skip("expected above the limit: FASO keeps the history of all d(d + 3)/2 parameters and checks them in Python loops")
    X, y, calls, clock = problem.X, problem.y, [0], Clock()

    def log_density(w):
        calls[0] += 1
        if clock() > limit:
            raise Skip(f"stopped after {limit:.0f} CPU s and {10 * calls[0]} gradients, before it said anything")
        t = np.dot(w, X.T)
        prior = -0.5 * np.sum(w**2, axis=-1)
        if problem.linear:
            return prior - 0.5 * np.sum((y - t) ** 2, axis=-1)
        return prior + np.sum(y * t - np.logaddexp(0, t), axis=-1)

    approx = FullRankGaussian(problem.dim, seed + 1)
    heard = io.StringIO()
    with contextlib.redirect_stdout(heard):
        result = viabel.bbvi(problem.dim, approx=approx, log_density=log_density, **options)
    seconds = clock()
    said = [line for line in heard.getvalue().splitlines() if "Termination rule" in line or "stopping rule" in line]
    param = result["opt_param"]
    return {
        "mean": param[: problem.dim],
        "factor": approx.factor(param),
        "gradients": 10 * calls[0],
        "cpu_seconds": seconds,
        "said": "; ".join(said) or "nothing",
    }


SETTINGS = {
    "RAABBVI, default": ({}, False),
    "RAABBVI, at most 100000 iterations": ({"n_iters": 100_000}, True),
}

if __name__ == "__main__":
    run("viabel", importlib.metadata.version("viabel"), SETTINGS, fit)
