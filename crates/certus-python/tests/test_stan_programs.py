"""Stan programs as people write them, fitted with the defaults, against oracles that share no code with them.

Compiling and fitting takes some minutes: only with CERTUS_FULL=1 (scripts/check stan).
"""

import importlib.util
import itertools
import os
import shutil

import certus
import numpy as np
import pytest

if not os.environ.get("CERTUS_FULL"):
    pytest.skip("takes minutes: CERTUS_FULL=1", allow_module_level=True)
if importlib.util.find_spec("httpstan") is None or shutil.which("g++") is None:
    pytest.skip("httpstan or g++ is not installed", allow_module_level=True)

VARYING = """
data {
  int<lower=1> N; int<lower=1> J; array[N] int<lower=1, upper=J> subject; vector[N] day; vector[N] y;
  real centre; vector<lower=0>[2] beta_sd; vector<lower=0>[3] scale;
}
transformed data { real mean_day = mean(day); }
parameters {
  real at_mean; real slope; vector<lower=0>[2] tau; real<lower=0> sigma;
  cholesky_factor_corr[2] L; matrix[2, J] z;
}
transformed parameters {
  matrix[J, 2] b = (diag_pre_multiply(tau, L) * z)';
  real rho = L[2, 1];
}
model {
  at_mean ~ normal(centre, beta_sd[1]); slope ~ normal(0, beta_sd[2]);
  tau ~ normal(0, scale[1:2]); sigma ~ normal(0, scale[3]);
  L ~ lkj_corr_cholesky(2); to_vector(z) ~ std_normal();
  y ~ normal(at_mean + slope * (day - mean_day) + b[subject, 1] + b[subject, 2] .* day, sigma);
}
"""

PROCESS = """
data { int<lower=1> N; array[N] real x; vector[N] y; }
parameters { real<lower=0> rho; real<lower=0> alpha; real<lower=0> sigma; }
model {
  matrix[N, N] K = add_diag(gp_exp_quad_cov(x, alpha, rho), square(sigma));
  rho ~ lognormal(0.5, 0.5); alpha ~ lognormal(0, 0.5); sigma ~ lognormal(-1, 0.5);
  y ~ multi_normal_cholesky(rep_vector(0, N), cholesky_decompose(K));
}
generated quantities { real noise_share = square(sigma) / (square(sigma) + square(alpha)); }
"""

GROWTH = """
functions {
  vector growth(real t, vector n, real r, real K) { return r * n .* (1 - n / K); }
}
data { int<lower=1> T; array[T] real<lower=0> t; array[T] real<lower=0> y; real<lower=0> n0; }
parameters { real<lower=0> r; real<lower=0> K; real<lower=0> sigma; }
transformed parameters { array[T] vector[1] n = ode_rk45_tol(growth, rep_vector(n0, 1), 0.0, t, 1e-10, 1e-10, 100000, r, K); }
model {
  r ~ lognormal(0, 0.5); K ~ lognormal(3, 0.5); sigma ~ normal(0, 0.5);
  for (i in 1:T) y[i] ~ lognormal(log(n[i, 1]), sigma);
}
"""


def agrees(fit, expected):
    """Every mean within 0.1 sd, every sd within 10 %, of numbers that are usable."""
    assert fit.verdict in ("accurate", "usable after correction"), fit.verdict
    table = fit.summary()
    for name, (mean, sd) in expected.items():
        row = table.loc[name]
        assert abs(row["mean"] - mean) < 0.1 * sd, (name, row["mean"], mean, sd)
        assert 0.9 < row["sd"] / sd < 1.1, (name, row["sd"], sd)


def lognormal(x, m, s):
    return -0.5 * ((np.log(x) - m) / s) ** 2 - np.log(x * s)


def moments(log_density, grids, functions):
    """Means and sds of functions of the parameters by a sum over a grid of their logarithms."""
    points = np.array(list(itertools.product(*grids)))
    values = np.array([log_density(*p) + np.log(p).sum() for p in points])
    weights = np.exp(values - values.max())
    weights /= weights.sum()
    found = {}
    for name, function in functions.items():
        x = np.array([function(*p) for p in points])
        mean = weights @ x
        found[name] = (mean, np.sqrt(weights @ (x - mean) ** 2))
    return found


def test_varying_slopes_are_those_of_the_mixed_model():
    rng = np.random.default_rng(4)
    subject, day = np.repeat(np.arange(18), 10), np.tile(np.arange(10.0), 18)
    b = rng.multivariate_normal([0, 0], [[600, 40], [40, 35]], 18)
    y = 250 + 10 * day + b[subject, 0] + b[subject, 1] * day + rng.normal(0, 25, 180)
    data = {"y": y, "day": day, "subject": [f"s{j}" for j in subject]}
    mixed = certus.fit(certus.linear("y ~ day + (day | subject)", data=data), accuracy=0.05)
    # the default priors, as the mixed model states them: sds of the response and of the day
    unit, spread = y.std(), day.std()
    program = {
        "N": 180, "J": 18, "subject": subject + 1, "day": day, "y": y, "centre": y.mean(),
        "beta_sd": [10 * unit, 2.5 * unit / spread], "scale": [2.5 * unit, 2.5 * unit / spread, 2.5 * unit],
    }
    assert f"half-normal({2.5 * unit:.3g})" in str(mixed.notes), mixed.notes
    fit = certus.fit(certus.stan(VARYING, program))
    table = mixed.summary()
    names = {
        "slope": "day", "tau[0]": "sd(subject)", "tau[1]": "sd(subject: day)", "sigma": "sigma",
        "rho": "cor(subject: (Intercept), day)",
    }
    agrees(fit, {ours: (table.loc[theirs, "mean"], table.loc[theirs, "sd"]) for ours, theirs in names.items()})


def test_a_gaussian_process_is_a_sum_over_a_grid():
    rng = np.random.default_rng(7)
    x = np.sort(rng.uniform(0, 10, 25))
    y = np.sin(x) + rng.normal(0, 0.3, 25)
    apart = (x[:, None] - x) ** 2

    def log_density(rho, alpha, sigma):
        K = alpha**2 * np.exp(-0.5 * apart / rho**2) + sigma**2 * np.eye(25)
        _, log_det = np.linalg.slogdet(K)
        prior = lognormal(rho, 0.5, 0.5) + lognormal(alpha, 0, 0.5) + lognormal(sigma, -1, 0.5)
        return prior - 0.5 * (log_det + y @ np.linalg.solve(K, y))

    grids = [np.exp(np.linspace(-0.6, 1.7, 40)), np.exp(np.linspace(-1.6, 1.8, 40)), np.exp(np.linspace(-2.2, 0.2, 40))]
    expected = moments(log_density, grids, {
        "rho": lambda r, a, s: r, "alpha": lambda r, a, s: a, "sigma": lambda r, a, s: s,
        "noise_share": lambda r, a, s: s**2 / (s**2 + a**2),
    })
    agrees(certus.fit(certus.stan(PROCESS, {"N": 25, "x": x, "y": y})), expected)


def test_a_differential_equation_has_its_closed_form():
    rng = np.random.default_rng(9)
    t, n0 = np.arange(1.0, 16.0), 1.0

    def solution(r, K):
        return K / (1 + (K / n0 - 1) * np.exp(-r * t))

    y = solution(0.7, 20.0) * np.exp(rng.normal(0, 0.15, 15))

    def log_density(r, K, sigma):
        prior = lognormal(r, 0, 0.5) + lognormal(K, 3, 0.5) - 0.5 * (sigma / 0.5) ** 2
        return prior + lognormal(y, np.log(solution(r, K)), sigma).sum()

    target = certus.stan(GROWTH, {"T": 15, "t": t, "y": y, "n0": n0}, observed="y")
    points = rng.normal([-0.3, 3.0, -1.5], 0.2, (5, 3))
    values, _ = target.log_density(points)
    exact = [log_density(*np.exp(p)) + p.sum() for p in points]
    # up to constants of the priors and the likelihood, the same at every point
    np.testing.assert_allclose(values - exact, (values - exact)[0], atol=1e-6)
    grids = [np.exp(np.linspace(-0.7, 0.0, 40)), np.exp(np.linspace(2.7, 3.4, 40)), np.exp(np.linspace(-2.7, -0.7, 40))]
    expected = moments(log_density, grids, {"r": lambda r, K, s: r, "K": lambda r, K, s: K, "sigma": lambda r, K, s: s})
    agrees(certus.fit(target), expected)
