"""Small posteriors of every common kind, as PyMC models with simulated or tiny data.

`MODELS` maps a name to a function that makes the model. `REFERENCE` says where the reference moments of a model come
from, if not from a long run on the model itself: another parametrisation with the same variables, draws of another
sampler (with their source), or moments that are exact or sums over a grid. `WITHOUT_SD` are variables whose posterior
has no finite variance, which are not compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.special import gammaln

MODELS: dict[str, Callable[[], pm.Model]] = {}
REFERENCE: dict[str, Callable[[], Any]] = {}
WITHOUT_SD: dict[str, list[str]] = {}
Moments = dict[str, tuple[float, float]]
"""Mean and sd by variable."""
SHORT_STEPS = {"stochastic_volatility"}
"""Models whose reference run needs short steps."""


def model(make: Callable[[], None]) -> Callable[[], pm.Model]:
    """Registers a function that defines variables as a function that returns the model."""

    def build() -> pm.Model:
        with pm.Model() as built:
            make()
        return built

    MODELS[make.__name__] = build
    return build


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


@model
def linear() -> None:
    r = rng(1)
    x = r.normal(size=(40, 3)) * [1.0, 5.0, 0.2]
    y = 2 + x @ [1.0, -0.3, 2.0] + r.normal(scale=1.5, size=40)
    a, b = pm.Normal("a", 0, 10), pm.Normal("b", 0, 5, shape=3)
    pm.Normal("y", a + pm.math.dot(x, b), pm.HalfNormal("sigma", 5), observed=y)


@model
def logistic() -> None:
    r = rng(2)
    x = r.normal(size=(80, 4))
    y = r.random(80) < 1 / (1 + np.exp(-(x @ [1.5, -1.0, 0.3, 0.0] + 0.5)))
    tau = pm.HalfNormal("tau", 2)
    b = pm.Normal("b", 0, tau, shape=4)
    pm.Bernoulli("y", logit_p=pm.Normal("a", 0, 3) + pm.math.dot(x, b), observed=y.astype(int))


@model
def poisson() -> None:
    r = rng(3)
    x = r.normal(size=(60, 4))
    y = r.poisson(np.exp(0.5 + x @ [0.6, -0.4, 0.1, 0.0]))
    tau = pm.HalfNormal("tau", 1)
    b = pm.Normal("b", 0, tau, shape=4)
    pm.Poisson("y", pm.math.exp(pm.Normal("a", 0, 3) + pm.math.dot(x, b)), observed=y)


def outliers() -> tuple[np.ndarray, np.ndarray]:
    r = rng(4)
    x = r.normal(size=50)
    return x, 1 + 2 * x + 0.7 * r.standard_t(3, size=50)


@model
def student_t() -> None:
    x, y = outliers()
    mu = pm.Normal("a", 0, 5) + pm.Normal("b", 0, 5) * x
    pm.StudentT("y", nu=pm.Gamma("nu", 2, 0.1), mu=mu, sigma=pm.HalfNormal("sigma", 3), observed=y)


def student_t_on_a_grid() -> Moments:
    """Sums over a grid of a, b and the logarithms of sigma and nu."""
    x, y = outliers()
    a, b = np.linspace(0, 2, 30), np.linspace(1, 3, 30)
    log_sigma, log_nu = np.linspace(-2, 1, 36), np.linspace(-1, 5.5, 44)
    sigma, nu = np.exp(log_sigma)[:, None], np.exp(log_nu)
    log_p = np.empty((30, 30, 36, 44))
    constant = 50 * (gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(nu)) + 2 * log_nu - 0.1 * nu
    constant = constant - 49 * log_sigma[:, None] - sigma**2 / 18
    for i, j in np.ndindex(30, 30):
        square = ((y - a[i] - b[j] * x) / sigma) ** 2
        kernel = np.log1p(square[:, None] / nu[:, None]).sum(2)
        log_p[i, j] = constant - (nu + 1) / 2 * kernel - (a[i] ** 2 + b[j] ** 2) / 50
    return on_a_grid({"a": a, "b": b, "sigma": sigma.ravel(), "nu": nu}, log_p)


def on_a_grid(values: dict[str, np.ndarray], log_p: np.ndarray) -> Moments:
    """Means and sds of the variables along the axes of a grid, from the log density in the grid's own coordinates."""
    weight = np.exp(log_p - log_p.max())
    weight /= weight.sum()
    out = {}
    for axis, (name, value) in enumerate(values.items()):
        margin = weight.sum(axis=tuple({*range(weight.ndim)} - {axis}))
        assert max(margin[0], margin[-1]) < 1e-3, f"the grid of {name} ends where the posterior does not: {margin}"
        mean = float(margin @ value)
        out[name] = (mean, float(np.sqrt(margin @ (value - mean) ** 2)))
    return out


REFERENCE["student_t"] = student_t_on_a_grid


SCHOOLS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12]), np.array([15.0, 10, 16, 11, 9, 11, 10, 18])


@model
def eight_schools_centred() -> None:
    y, sigma = SCHOOLS
    mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
    pm.Normal("y", pm.Normal("theta", mu, tau, shape=8), sigma, observed=y)


@model
def eight_schools_noncentred() -> None:
    y, sigma = SCHOOLS
    mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
    theta = pm.Deterministic("theta", mu + tau * pm.Normal("z", 0, 1, shape=8))
    pm.Normal("y", theta, sigma, observed=y)


REFERENCE["eight_schools_centred"] = eight_schools_noncentred


def counties() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r = rng(5)
    county = np.repeat(np.arange(20), r.integers(2, 10, size=20))
    floor = (r.random(county.size) < 0.3).astype(float)
    y = 1.4 + r.normal(scale=0.35, size=20)[county] - (0.7 + r.normal(scale=0.2, size=20)[county]) * floor
    return county, floor, y + r.normal(scale=0.7, size=county.size)


@model
def varying_intercepts() -> None:
    county, floor, y = counties()
    mu, tau = pm.Normal("mu", 0, 5), pm.HalfNormal("tau", 1)
    a = pm.Normal("a", mu, tau, shape=20)
    pm.Normal("y", a[county] + pm.Normal("b", 0, 2) * floor, pm.HalfNormal("sigma", 2), observed=y)


def intercepts_by_z() -> pm.Model:
    county, floor, y = counties()
    with pm.Model() as built:
        mu, tau = pm.Normal("mu", 0, 5), pm.HalfNormal("tau", 1)
        a = pm.Deterministic("a", mu + tau * pm.Normal("z", 0, 1, shape=20))
        pm.Normal("y", a[county] + pm.Normal("b", 0, 2) * floor, pm.HalfNormal("sigma", 2), observed=y)
    return built


REFERENCE["varying_intercepts"] = intercepts_by_z


@model
def varying_slopes() -> None:
    county, floor, y = counties()
    mu, tau = pm.Normal("mu", 0, 5, shape=2), pm.HalfNormal("tau", 1, shape=2)
    a = mu[0] + tau[0] * pm.Normal("za", 0, 1, shape=20)
    b = mu[1] + tau[1] * pm.Normal("zb", 0, 1, shape=20)
    pm.Normal("y", a[county] + b[county] * floor, pm.HalfNormal("sigma", 2), observed=y)


def houses() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logarithms of radon levels in the houses of 40 counties, simulated: with and without a basement (floor 0 and 1);
    most counties have few houses, some have many."""
    r = rng(23)
    size = 1 + r.multinomial(660, r.dirichlet(np.full(40, 0.5)))
    county = np.repeat(np.arange(40), size)
    floor = (r.random(county.size) < 0.17).astype(float)
    y = 1.46 + r.normal(scale=0.33, size=40)[county] + (-0.68 + r.normal(scale=0.3, size=40)[county]) * floor
    return county, floor, y + r.normal(scale=0.73, size=county.size)


def radon_with(sd_prior: Callable[[str], Any], centred: bool) -> None:
    """Intercepts and slopes that vary by county; `sd_prior` makes the sds."""
    county, floor, y = houses()
    effects = []
    for name in ("a", "b"):
        mu, sd = pm.Normal(f"mu_{name}", 0, 10), sd_prior(f"sigma_{name}")
        if centred:
            effects.append(pm.Normal(name, mu, sd, shape=40))
        else:
            effects.append(pm.Deterministic(name, mu + sd * pm.Normal(f"z_{name}", 0, 1, shape=40)))
    a, b = effects
    pm.Normal("y", a[county] + b[county] * floor, sd_prior("sigma"), observed=y)


def half_normal(name: str) -> Any:
    return pm.HalfNormal(name, 1)


def half_cauchy(name: str) -> Any:
    return pm.HalfCauchy(name, 5)


def radon_by_z(sd_prior: Callable[[str], Any]) -> Callable[[], pm.Model]:
    def build() -> pm.Model:
        with pm.Model() as built:
            radon_with(sd_prior, centred=False)
        return built

    return build


@model
def radon() -> None:
    radon_with(half_normal, centred=True)


@model
def radon_half_cauchy() -> None:
    radon_with(half_cauchy, centred=True)


REFERENCE["radon"], REFERENCE["radon_half_cauchy"] = radon_by_z(half_normal), radon_by_z(half_cauchy)


def sparse() -> tuple[np.ndarray, np.ndarray]:
    r = rng(6)
    x = r.normal(size=(60, 8))
    return x, x @ [2.0, -1.0, 0.5, 0, 0, 0, 0, 0] + r.normal(size=60)


@model
def horseshoe() -> None:
    x, y = sparse()
    tau, local = pm.HalfCauchy("tau", 0.5), pm.HalfCauchy("local", 1, shape=8)
    b = pm.Deterministic("b", tau * local * pm.Normal("z", 0, 1, shape=8))
    pm.Normal("y", pm.math.dot(x, b), pm.HalfNormal("sigma", 2), observed=y)


# given the others, the likelihood falls as 1/local, so the tail of the posterior is that of local^-3
WITHOUT_SD["horseshoe"] = ["local"]


def horseshoe_by_gibbs() -> tuple[str, dict[str, np.ndarray]]:
    """Draws of 64 chains: the square of a half-Cauchy scale is an inverse gamma variable whose own scale is another;
    sigma moves by Metropolis steps."""
    x, y = sparse()
    r, chains, keep, every = rng(60), 64, 1500, 4
    inverse_gamma = lambda shape, scale: scale / r.gamma(shape, size=np.shape(scale))
    local, a = np.ones((chains, 8)), np.ones((chains, 8))
    tau, c, sigma = (np.full(chains, 0.5) for _ in range(3))
    kept: dict[str, list[np.ndarray]] = {"tau": [], "sigma": [], "b": [], "z": []}
    log_density = lambda s, rss: (1 - len(y)) * np.log(s) - rss / (2 * s**2) - s**2 / 8
    for k in range((keep + 500) * every):
        precision = x.T @ x / sigma[:, None, None] ** 2 + np.eye(8) / (tau[:, None, None] * local[:, None, :]) ** 2
        root = np.linalg.cholesky(precision)
        mean = np.linalg.solve(precision, (x.T @ y / sigma[:, None] ** 2)[..., None])
        b = (mean + np.linalg.solve(root.transpose(0, 2, 1), r.normal(size=(chains, 8, 1))))[..., 0]
        local = np.sqrt(inverse_gamma(1.0, 1 / a + b**2 / (2 * tau[:, None] ** 2)))
        a = inverse_gamma(1.0, 1 + 1 / local**2)
        tau = np.sqrt(inverse_gamma(4.5, 1 / c + (b**2 / (2 * local**2)).sum(1)))
        c = inverse_gamma(1.0, 4 + 1 / tau**2)
        rss = ((y - b @ x.T) ** 2).sum(1)
        for _ in range(2):
            tried = sigma * np.exp(0.2 * r.normal(size=chains))
            taken = np.log(r.random(chains)) < log_density(tried, rss) - log_density(sigma, rss)
            sigma = np.where(taken, tried, sigma)
        if k >= 500 * every and k % every == 0:
            for name, value in (("tau", tau), ("sigma", sigma), ("b", b), ("z", b / (tau[:, None] * local))):
                kept[name].append(value)
    return "a Gibbs sampler, 64 chains of 1500 draws", {name: np.stack(values, axis=1) for name, values in kept.items()}


REFERENCE["horseshoe"] = horseshoe_by_gibbs


def wave() -> tuple[np.ndarray, np.ndarray]:
    r = rng(7)
    x = np.sort(r.uniform(0, 10, size=25))
    return x, np.sin(x) + 0.3 * r.normal(size=25)


@model
def gaussian_process() -> None:
    x, y = wave()
    length, height, noise = pm.InverseGamma("length", 3, 3), pm.HalfNormal("height", 2), pm.HalfNormal("noise", 1)
    square = (x[:, None] - x[None]) ** 2
    cov = height**2 * pt.exp(-0.5 * square / length**2) + (noise**2 + 1e-8) * np.eye(25)
    pm.MvNormal("y", mu=np.zeros(25), cov=cov, observed=y)


def process_on_a_grid() -> Moments:
    """Sums over a grid of the logarithms of the three parameters."""
    x, y = wave()
    grid = [np.linspace(np.log(low), np.log(high), 44) for low, high in ((0.2, 8.0), (0.1, 9.0), (0.05, 2.5))]
    square, log_p = (x[:, None] - x[None]) ** 2, np.empty((44, 44, 44))
    noise = np.exp(grid[2])
    for i, length in enumerate(np.exp(grid[0])):
        for j, height in enumerate(np.exp(grid[1])):
            cov = height**2 * np.exp(-0.5 * square / length**2) + (noise[:, None, None] ** 2 + 1e-8) * np.eye(25)
            root = np.linalg.cholesky(cov)
            half = np.linalg.solve(root, np.broadcast_to(y[:, None], (44, 25, 1)))[..., 0]
            likelihood = -0.5 * (half**2).sum(1) - np.log(np.diagonal(root, axis1=1, axis2=2)).sum(1)
            # priors, and the Jacobians of the logarithms
            prior = -3 * np.log(length) - 3 / length - height**2 / 8 + np.log(height) - noise**2 / 2 + np.log(noise)
            log_p[i, j] = likelihood + prior
    return on_a_grid(dict(zip(("length", "height", "noise"), map(np.exp, grid), strict=True)), log_p)


REFERENCE["gaussian_process"] = process_on_a_grid


@model
def irt_1pl() -> None:
    r = rng(8)
    y = r.random((30, 8)) < 1 / (1 + np.exp(-(r.normal(size=30)[:, None] - np.linspace(-1.5, 1.5, 8))))
    ability, spread = pm.Normal("ability", 0, 1, shape=30), pm.HalfNormal("spread", 2)
    difficulty = pm.Normal("difficulty", 0, 2, shape=8)
    pm.Bernoulli("y", logit_p=spread * ability[:, None] - difficulty, observed=y.astype(int))


@model
def irt_2pl() -> None:
    r = rng(9)
    slope = r.lognormal(0, 0.4, size=8)
    y = r.random((40, 8)) < 1 / (1 + np.exp(-slope * (r.normal(size=40)[:, None] - np.linspace(-1.5, 1.5, 8))))
    ability, difficulty = pm.Normal("ability", 0, 1, shape=40), pm.Normal("difficulty", 0, 2, shape=8)
    slope = pm.LogNormal("slope", 0, 0.5, shape=8)
    pm.Bernoulli("y", logit_p=slope * (ability[:, None] - difficulty), observed=y.astype(int))


def clusters() -> np.ndarray:
    r = rng(10)
    return np.concatenate([r.normal(-1.5, 0.7, size=30), r.normal(1.8, 1.0, size=50)])


@model
def mixture_ordered() -> None:
    mu = pm.Normal("mu", 0, 3, shape=2, transform=pm.distributions.transforms.ordered, initval=np.array([-1.0, 1.0]))
    w, sigma = pm.Dirichlet("w", np.array([2.0, 2.0])), pm.HalfNormal("sigma", 2, shape=2)
    pm.NormalMixture("y", w=w, mu=mu, sigma=sigma, observed=clusters())


@model
def mixture_unordered() -> None:
    mu = pm.Normal("mu", 0, 3, shape=2)
    w, sigma = pm.Dirichlet("w", np.array([2.0, 2.0])), pm.HalfNormal("sigma", 2, shape=2)
    pm.NormalMixture("y", w=w, mu=mu, sigma=sigma, observed=clusters())


def exchanged(draws: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Draws of the ordered mixture, and the same with the components exchanged."""
    return {name: np.concatenate([x, x[..., ::-1]], axis=0) for name, x in draws.items()}


REFERENCE["mixture_unordered"] = lambda: (mixture_ordered(), exchanged)


@model
def michaelis_menten() -> None:
    r = rng(11)
    s = np.repeat([0.1, 0.3, 0.6, 1.0, 2.0, 4.0], 3)
    y = 3 * s / (0.8 + s) + 0.2 * r.normal(size=18)
    v, k = pm.HalfNormal("v", 10), pm.HalfNormal("k", 5)
    pm.Normal("y", v * s / (k + s), pm.HalfNormal("sigma", 1), observed=y)


@model
def logistic_growth() -> None:
    r = rng(12)
    t = np.linspace(0, 10, 20)
    y = 8 / (1 + np.exp(-0.9 * (t - 6))) * np.exp(0.15 * r.normal(size=20))
    top, rate, middle = pm.LogNormal("top", 2, 1), pm.LogNormal("rate", 0, 1), pm.Normal("middle", 5, 3)
    curve = pt.log(top) - pt.softplus(-rate * (t - middle))
    pm.LogNormal("y", curve, pm.HalfNormal("sigma", 1), observed=y)


@model
def autoregression() -> None:
    r = rng(13)
    y = np.zeros(60)
    for k in range(1, 60):
        y[k] = 0.3 + 0.8 * y[k - 1] + 0.5 * r.normal()
    c, phi, sigma = pm.Normal("c", 0, 2), pm.Uniform("phi", -1, 1), pm.HalfNormal("sigma", 2)
    pm.Normal("first", c / (1 - phi), sigma / pt.sqrt(1 - phi**2), observed=y[0])
    pm.Normal("y", c + phi * y[:-1], sigma, observed=y[1:])


@model
def stochastic_volatility() -> None:
    r = rng(14)
    n, h = 50, np.zeros(50)
    for k in range(1, n):
        h[k] = 0.95 * h[k - 1] + 0.3 * r.normal()
    y = np.exp(h / 2) * r.normal(size=n)
    mu, phi, sigma = pm.Normal("mu", 0, 2), pm.Beta("phi", 20, 1.5), pm.HalfNormal("sigma", 0.5)
    z = pm.Normal("z", 0, 1, shape=n)
    lag = np.arange(n)[:, None] - np.arange(n)
    # h[t] = phi h[t-1] + sigma z[t], with the stationary distribution at t = 0
    first = pt.concatenate([(1 / pt.sqrt(1 - phi**2))[None], pt.ones(n - 1)])
    past = pt.where(lag >= 0, phi ** np.maximum(lag, 0), 0.0)
    pm.Normal("y", 0, pt.exp((mu + sigma * pt.dot(past, first * z)) / 2), observed=y)


@model
def ordinal() -> None:
    r = rng(15)
    x = r.normal(size=(80, 2))
    y = np.digitize(x @ [1.2, -0.6] + r.logistic(size=80), [-1.5, 0.0, 1.8])
    cuts = pm.Normal(
        "cuts", 0, 4, shape=3, transform=pm.distributions.transforms.ordered, initval=np.array([-1.0, 0.0, 1.0])
    )
    pm.OrderedLogistic("y", eta=pm.math.dot(x, pm.Normal("b", 0, 3, shape=2)), cutpoints=cuts, observed=y)


@model
def negative_binomial() -> None:
    r = rng(16)
    x = r.normal(size=70)
    y = r.poisson(np.exp(1 + 0.5 * x) * r.gamma(1.5, 1 / 1.5, size=70))
    mu = pt.exp(pm.Normal("a", 0, 3) + pm.Normal("b", 0, 2) * x)
    pm.NegativeBinomial("y", mu=mu, alpha=pm.Gamma("alpha", 2, 0.5), observed=y)


@model
def zero_inflated_poisson() -> None:
    r = rng(17)
    x = r.normal(size=80)
    y = r.poisson(np.exp(0.8 + 0.5 * x)) * (r.random(80) < 0.6)
    mu = pt.exp(pm.Normal("a", 0, 3) + pm.Normal("b", 0, 2) * x)
    pm.ZeroInflatedPoisson("y", psi=pm.Beta("psi", 1, 1), mu=mu, observed=y)


@model
def beta_binomial() -> None:
    r = rng(18)
    n = r.integers(5, 30, size=20)
    y = r.binomial(n, r.beta(3, 7, size=20))
    mean, size = pm.Beta("mean", 1, 1), pm.HalfNormal("size", 20)
    pm.BetaBinomial("y", n=n, alpha=mean * size, beta=(1 - mean) * size, observed=y)


@model
def dirichlet_multinomial() -> None:
    r = rng(19)
    y = np.array([r.multinomial(20, r.dirichlet([2.0, 5.0, 1.0, 3.0])) for _ in range(12)])
    share, size = pm.Dirichlet("share", np.ones(4)), pm.HalfNormal("size", 20)
    pm.DirichletMultinomial("y", n=20, a=share * size, observed=y)


@model
def gamma_regression() -> None:
    r = rng(20)
    x = r.normal(size=(50, 2))
    mu = np.exp(1 + x @ [0.4, -0.2])
    y = r.gamma(2.5, mu / 2.5)
    shape = pm.HalfNormal("shape", 5)
    mean = pt.exp(pm.Normal("a", 0, 3) + pm.math.dot(x, pm.Normal("b", 0, 2, shape=2)))
    pm.Gamma("y", alpha=shape, beta=shape / mean, observed=y)


@model
def weibull_censored() -> None:
    r = rng(21)
    x = (np.arange(40) % 2).astype(float)
    t = np.exp(1.5 + 0.6 * x) * r.weibull(1.6, size=40)
    end = r.uniform(2, 10, size=40)
    seen, t = t <= end, np.minimum(t, end)
    shape = pm.HalfNormal("shape", 3)
    log_scale = pm.Normal("a", 0, 3) + pm.Normal("b", 0, 2) * x
    hazard = (t / pt.exp(log_scale)) ** shape
    log_likelihood = np.where(seen, 1.0, 0.0) * (pt.log(shape) + (shape - 1) * np.log(t) - shape * log_scale) - hazard
    pm.Potential("t", log_likelihood.sum())


@model
def funnel() -> None:
    v = pm.Normal("v", 0, 3)
    pm.Normal("x", 0, pt.exp(v / 2), shape=9)


# E exp(v) = exp(9/2)
REFERENCE["funnel"] = lambda: {"v": (0.0, 3.0), "x": (np.zeros(9), np.full(9, np.exp(9 / 4)))}


@model
def banana() -> None:
    x = pm.Normal("x", 0, 2)
    pm.Normal("y", 0.5 * (x**2 - 4), 0.5)


# Var x² = 2·2⁴
REFERENCE["banana"] = lambda: {"x": (0.0, 2.0), "y": (0.0, np.sqrt(0.25 * 32 + 0.25))}


def triples() -> np.ndarray:
    r = rng(22)
    a = np.array([[1.0, 0, 0], [0.6, 0.8, 0], [-0.3, 0.4, 0.9]])
    return 1 + r.normal(size=(40, 3)) @ a.T


@model
def lkj_covariance() -> None:
    chol, corr, sds = pm.LKJCholeskyCov("chol", n=3, eta=2, sd_dist=pm.HalfNormal.dist(2, shape=3))
    pm.MvNormal("y", mu=pm.Normal("mu", 0, 5, shape=3), chol=chol, observed=triples())


def covariance_by_weights() -> tuple[str, dict[str, np.ndarray]]:
    """Draws of the normal inverse Wishart posterior, chosen again with weights that replace its prior by ours."""
    y, r, count = triples(), rng(220), 400_000
    n, centre = len(y), y.mean(0)
    scatter = (y - centre).T @ (y - centre)
    # W is Wishart with n - 1 degrees of freedom (Bartlett), and cov its inverse
    lower = np.zeros((count, 3, 3))
    for i in range(3):
        lower[:, i, i] = np.sqrt(r.chisquare(n - 1 - i, size=count))
        lower[:, i, :i] = r.normal(size=(count, i))
    half = np.linalg.inv(np.linalg.cholesky(scatter)).T @ lower
    cov = np.linalg.inv(half @ half.transpose(0, 2, 1))
    chol = np.linalg.cholesky(cov)
    mu = centre + (chol @ r.normal(size=(count, 3, 1)))[..., 0] / np.sqrt(n)
    sds = np.sqrt(np.diagonal(cov, axis1=1, axis2=2))
    corr = cov / (sds[:, :, None] * sds[:, None, :])
    # the draws have |cov|^-(n + 4)/2 where the likelihood has |cov|^-n/2; d cov = 8 (product of sds)^3 d sds d corr
    log_weight = 2 * np.linalg.slogdet(cov)[1] + np.linalg.slogdet(corr)[1] - 3 * np.log(sds).sum(1)
    log_weight -= (sds**2).sum(1) / 8 + (mu**2).sum(1) / 50
    weight = np.exp(log_weight - log_weight.max())
    chosen = r.choice(count, size=100_000, p=weight / weight.sum())
    packed = chol[:, *np.tril_indices(3)]
    draws = {"chol": packed, "mu": mu, "chol_corr": corr, "chol_stds": sds}
    source = (
        f"importance sampling from the conjugate posterior, worth {weight.sum() ** 2 / (weight**2).sum():.0f} draws"
    )
    return source, {name: x[chosen].reshape(100, 1000, *x.shape[1:]) for name, x in draws.items()}


REFERENCE["lkj_covariance"] = covariance_by_weights
