"""Data sets that the posterior predicts: closed forms, models that are right and wrong, what is refused."""

import io
import math
import subprocess

import certus
import numpy as np
import pandas as pd
import pytest
from test_groups import CERTUS


def linear(seed=1, rows=60):
    r = np.random.default_rng(seed)
    x = r.normal(size=(rows, 2))
    return x, 1 + x @ [0.5, -2.0] + 1.5 * r.normal(size=rows)


def test_residuals_are_those_of_the_predictive_distribution():
    """With known noise the posterior is normal, and so is a new response: N(x'm, sigma^2 + x'Sx)."""
    x, y = linear()
    fit = certus.linear(x, y, sigma=1.5, standardise=False).fit(progress=False)
    design = np.column_stack([np.ones(len(x)), x])
    sd = np.sqrt(1.5**2 + np.einsum("ij,jk,ik->i", design, fit.covariance, design))
    exact = (y - design @ fit.mean) / sd
    found = fit.ppc()
    # the probability of less than y is the share of 4,000 draws: its standard error over the density, at five of them
    below = np.array([0.5 * (1 + math.erf(z / 2**0.5)) for z in exact])
    error = np.sqrt(below * (1 - below) / found.draws) / (np.exp(-(exact**2) / 2) / np.sqrt(2 * np.pi))
    assert (abs(found.residuals - exact) < 5 * error + 0.02).all()
    mean = found.statistics.loc["mean"]
    assert mean.observed == pytest.approx(y.mean()) and found.statistics.loc["sd"].observed == pytest.approx(y.std(ddof=1))
    # the mean of n new responses is N(mean of x'm, sigma^2 / n + mean row ' S mean row)
    row = design.mean(axis=0)
    spread = np.sqrt(1.5**2 / len(x) + row @ fit.covariance @ row)
    assert abs(mean["mean"] - row @ fit.mean) < 5 * spread / np.sqrt(found.draws)
    assert abs((mean.high - mean.low) / (2 * 1.645 * spread) - 1) < 0.06
    assert 0.2 < mean.above < 0.8


def test_what_the_model_does_not_have_is_seen():
    r = np.random.default_rng(4)
    x = r.normal(size=300)
    rate = np.exp(1 + 0.5 * x)
    for counts, right in ((r.poisson(rate), True), (r.poisson(rate * r.gamma(1.0, 1.0, 300)), False)):
        found = certus.poisson("y ~ x", data=pd.DataFrame({"x": x, "y": counts.astype(float)})).fit(progress=False).ppc()
        above = found.statistics["above"]
        assert list(above.index) == ["mean", "sd", "smallest", "largest", "share of zeros"]
        # a share of 0.001 or less is no accident of 300 rows
        assert (0.005 < above["sd"] < 0.995) == right and (0.005 < above["share of zeros"] < 0.995) == right
        assert (abs(found.residuals.std() - 1) < 0.15) == right
        assert "simulated data sets" in repr(found) and "residuals: mean" in repr(found)


def test_simulated_data_sets_have_the_expected_response():
    r = np.random.default_rng(2)
    x = r.normal(size=(40, 2))
    y = (r.random(40) < 0.5).astype(float)
    fit = certus.logistic(x, y).fit(progress=False)
    sets = fit.simulate(4000, seed=3)
    assert sets.shape == (4000, 40) and set(np.unique(sets)) == {0.0, 1.0}
    np.testing.assert_array_equal(sets, fit.simulate(4000, seed=3))
    assert (sets != fit.simulate(4000, seed=4)).any()
    p = fit.predict(x)["mean"]
    assert (abs(sets.mean(axis=0) - p) < 5 * np.sqrt(p * (1 - p) / 4000) + 0.01).all()
    # neighbours share draws of the coefficients and nothing else: given those, responses of different rows are independent
    assert abs(np.corrcoef(sets[:, 0], sets[:, 1])[0, 1]) < 0.2


def test_groups_and_unknown_noise():
    r = np.random.default_rng(8)
    shop = np.repeat([f"s{k}" for k in range(20)], 10)
    effect = np.repeat(r.normal(size=20), 10)
    data = pd.DataFrame({"shop": shop, "sold": r.poisson(np.exp(1 + 0.7 * effect)).astype(float)})
    found = certus.poisson("sold ~ 1 + (1 | shop)", data=data).fit(progress=False).ppc()
    assert found.note is not None and "normal" in found.note
    assert (found.statistics["above"].drop("smallest").between(0.01, 0.99)).all() and abs(found.residuals.std() - 1) < 0.2
    x, y = linear()
    found = certus.linear(x, y).fit(progress=False).ppc()
    assert found.statistics["above"].between(0.01, 0.99).all() and abs(found.residuals.std() - 1) < 0.2


def test_arviz_has_the_predictions():
    pytest.importorskip("arviz", reason="ArviZ is not installed")
    x, y = linear()
    tree = certus.linear(x, y, sigma=1.5).fit(progress=False).to_arviz(draws=200)
    assert tree.posterior_predictive["y"].shape == (1, 200, 60) and tree.posterior_predictive["y"].dims[-1] == "row"
    reml = certus.linear("y ~ a + (1 | g)", data=pd.DataFrame({"y": y, "a": x[:, 0], "g": np.repeat(list("abcdef"), 10)}), reml=True)
    assert "posterior_predictive" not in reml.fit(progress=False).to_arviz(draws=50)


def test_arviz_has_linear_models_with_groups():
    """Log likelihoods and predicted data are those of the draws of the posterior, one by one."""
    pytest.importorskip("arviz", reason="ArviZ is not installed")
    r = np.random.default_rng(5)
    data = pd.DataFrame({"a": r.normal(size=120), "g": np.repeat(list("abcdef"), 20)})
    data["y"] = 2.0 + np.repeat(r.normal(size=6), 20) + (1 + np.repeat(r.normal(size=6), 20)) * data["a"] + r.normal(size=120)
    for formula in ("y ~ a + (1 | g)", "y ~ a + (1 + a | g)"):
        fit = certus.linear(formula, data=data).fit(progress=False)
        tree = fit.to_arviz(draws=300, seed=4)
        likelihood, predicted = (tree[group]["y"] for group in ("log_likelihood", "posterior_predictive"))
        assert likelihood.shape == predicted.shape == (1, 300, 120) and likelihood.dims[-1] == predicted.dims[-1] == "row"
        assert tree["observed_data"]["y"].dims == ("row",)
        # sum log p = -n log(sigma sqrt(2 pi)) - squares / 2 sigma^2, and the squares of a draw do not follow its sigma
        sigma = tree["posterior"]["sigma"].values[0]
        squares = -2 * sigma**2 * (likelihood.values[0].sum(axis=1) + 120 * np.log(sigma * np.sqrt(2 * np.pi)))
        # they are the same residuals: about the noise that the data have plus that of a draw
        assert (squares > 0).all() and squares.std() / squares.mean() < 0.15, formula
        # predicted data scatter about the same linear predictor with the same sigma: n - 1 of 300 draws each
        apart = predicted.values[0] - predicted.values[0].mean(axis=0)
        assert abs(apart.std() / sigma.mean() - 1) < 0.25, formula
        assert fit.loo().unreliable <= 3


def test_the_report_has_pictures(tmp_path):
    x, y = linear()
    fit = certus.linear(x, y).fit(progress=False)
    frame = certus.logistic("y ~ a + arm", data=pd.DataFrame({"a": x[:, 0], "arm": np.where(x[:, 1] > 0, "b", "c"), "y": (y > 1).astype(float)}))
    for one in (fit, frame.fit(progress=False)):
        one.report(tmp_path / "report.html")
        page = (tmp_path / "report.html").read_text(encoding="utf-8")
        assert page.count('<figure class="plot"') >= 4 and "Not shown" not in page
        assert page.index('id="question"') < page.index('id="answer"') < page.index('id="trust"') < page.index('id="effects"') < page.index('id="technical"')
    fit.save(tmp_path / "fit")
    certus.load(tmp_path / "fit").report(tmp_path / "report.html")
    assert "Not shown: the fit was loaded or unpickled" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_refused():
    x, y = linear()
    weighted = certus.linear(x, y, sigma=1.0, weights=np.full(60, 2.0)).fit(progress=False)
    with pytest.raises(certus.UsageError, match="rows that count once"):
        weighted.ppc()
    target = certus.fit(certus.target(lambda z: (-0.5 * (z**2).sum(axis=1), -z), dim=2), progress=False)
    with pytest.raises(certus.UsageError, match="which a log density does not have"):
        target.simulate()
    reml = certus.linear("y ~ a + (1 | g)", data=pd.DataFrame({"y": y, "a": x[:, 0], "g": np.repeat(list("abcdef"), 10)}), reml=True)
    with pytest.raises(certus.UsageError, match="need draws of the posterior"):
        reml.fit(progress=False).loo()


def test_estimates_simulate_new_groups(tmp_path):
    """y = 2 + u + e by REML: a group's rows share an effect that is new in every data set; the command line has the same numbers."""
    r = np.random.default_rng(3)
    g = np.repeat(np.arange(20), 5)
    frame = pd.DataFrame({"y": 2 + r.normal(size=20)[g] + 0.5 * r.normal(size=100), "g": [f"g{k}" for k in g]})
    fit = certus.linear("y ~ 1 + (1 | g)", data=frame, reml=True).fit(progress=False)
    mean, sd, sigma = (p.mean for p in fit.parameters if p.name in ("(Intercept)", "sd(g)", "sigma"))
    sets = fit.simulate(4000, seed=3)
    np.testing.assert_array_equal(sets, fit.simulate(4000, seed=3))
    groups = sets.reshape(4000, 20, 5).mean(axis=2)
    # 20 variances of 4,000 group means, at 4.5 standard errors
    variance = sd**2 + sigma**2 / 5
    assert (abs(((groups - mean) ** 2).mean(axis=0) / variance - 1) < 4.5 * np.sqrt(2 / 4000)).all()
    assert abs(np.corrcoef(groups[:, 0], groups[:, 1])[0, 1]) < 4.5 / np.sqrt(4000)
    if not CERTUS:
        return
    rows, out = tmp_path / "rows.csv", tmp_path / "fit"
    frame.to_csv(rows, index=False)
    run = [CERTUS, "fit", "linear", rows, "y ~ 1 + (1 | g)", "--reml", "--quiet", "--out", out]
    subprocess.run(run, check=True, capture_output=True)
    run = [CERTUS, "simulate", out, "--draws", "50", "--seed", "3"]
    text = subprocess.run(run, check=True, capture_output=True, text=True).stdout
    np.testing.assert_array_equal(pd.read_csv(io.StringIO(text)).to_numpy().T, fit.simulate(50, seed=3))
