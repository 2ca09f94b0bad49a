"""Leave-one-out cross-validation: beside ArviZ on the same draws, and what is refused."""

import arviz as az
import numpy as np
import pandas as pd
import pytest

import certus


def frame(n=80):
    rng = np.random.default_rng(5)
    x, z = rng.normal(size=(2, n))
    y = 0.5 + x + rng.standard_t(4, size=n)
    return pd.DataFrame(dict(y=y, x=x, z=z, b=(rng.random(n) < 1 / (1 + np.exp(-x))).astype(float)))


@pytest.fixture(scope="module")
def fits():
    data = frame()
    return {name: certus.logistic(formula, data=data).fit(progress=False) for name, formula in [("with", "b ~ x"), ("without", "b ~ z")]}


def test_beside_arviz(fits):
    fit = fits["with"]
    own, theirs = fit.loo(), az.loo(fit.to_arviz(4000), pointwise=True)
    # the tail has 190 draws here and 189 there
    assert np.abs(own.pointwise - theirs.loo_i.values).max() < 1e-3
    assert abs(own.elpd - theirs.elpd_loo) < 0.01 and abs(own.p - theirs.p_loo) < 0.01
    # n - 1 here, n there
    assert own.se == pytest.approx(theirs.se * np.sqrt(80 / 79), rel=1e-3)
    waic = az.waic(fit.to_arviz(4000))
    assert own.elpd_waic == pytest.approx(waic.elpd_waic, rel=1e-4) and own.p_waic == pytest.approx(waic.p_waic, rel=1e-3)
    assert own.unreliable == 0 and own.k.shape == own.pointwise.shape == (80,)
    assert "elpd_loo" in repr(own) and "4000 draws" in repr(own)


def test_comparison(fits):
    table = certus.compare(fits)
    assert list(table.index) == ["with", "without"]
    apart = fits["without"].loo().pointwise - fits["with"].loo().pointwise
    assert table.loc["without", "difference"] == pytest.approx(apart.sum())
    assert table.loc["without", "difference_se"] == pytest.approx(np.sqrt(80 * apart.var(ddof=1)))
    assert table.loc["with", "difference"] == 0


def test_unknown_sigma_has_the_draws_of_the_fit():
    data = frame()
    fit = certus.linear("y ~ x", data=data).fit(progress=False)
    draws = fit.sample(4000)
    names = list(fit.names)
    at = lambda name: draws[:, names.index(name)][:, None]
    mean = at("(Intercept)") + at("x") * data.x.to_numpy()
    values = -0.5 * ((data.y.to_numpy() - mean) / at("sigma")) ** 2 - np.log(at("sigma")) - 0.5 * np.log(2 * np.pi)
    lppd = np.log(np.exp(values).mean(axis=0))
    p = values.var(axis=0, ddof=1)
    own = fit.loo()
    assert own.elpd_waic == pytest.approx((lppd - p).sum(), abs=1e-6) and own.p_waic == pytest.approx(p.sum(), abs=1e-6)


def test_targets_need_log_likelihoods(tmp_path, fits):
    y = np.array([0.3, -1.2, 2.0])
    density = lambda z: (-0.5 * ((y - z) ** 2).sum(1) - 0.5 * z[:, 0] ** 2, (y - z).sum(1, keepdims=True) - z)
    rows = lambda z: {"y": -0.5 * (y - z) ** 2 - 0.5 * np.log(2 * np.pi)}
    fit = certus.fit(certus.target(density, dim=1, log_likelihood=rows), progress=False)
    # mean and precision of the posterior without each row
    without = (y.sum() - y) / 3
    exact = -0.5 * ((y - without) ** 2 / (4 / 3) + np.log(2 * np.pi * 4 / 3))
    assert np.abs(fit.loo().pointwise - exact).max() < 0.1
    with pytest.raises(certus.UsageError, match="log_likelihood="):
        certus.fit(certus.target(density, dim=1), progress=False).loo()
    fits["with"].save(tmp_path / "fit")
    with pytest.raises(certus.UsageError, match="needs the rows"):
        certus.load(tmp_path / "fit").loo()
    with pytest.raises(certus.UsageError, match="at least two"):
        certus.compare({"a": fits["with"]})
    other = certus.logistic("b ~ x", data=frame(60)).fit(progress=False)
    with pytest.raises(certus.UsageError, match="80 rows and"):
        certus.compare({"a": fits["with"], "b": other})
