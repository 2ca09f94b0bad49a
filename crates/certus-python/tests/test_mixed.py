"""Linear mixed models: predictions and effects against dense matrices, and what the fit offers.

The reference fits of lme4 are in the tests of the command line, which reads the same settings.
"""

import pickle

import numpy as np
import pandas as pd
import pytest
from test_groups import table

import certus


def row(fit, name):
    return next(p for p in fit.parameters if p.name == name)


def dense(y, X, Z, G, sigma):
    """Means and covariance of (beta, b) given the variances: Henderson's equations."""
    W = np.hstack([X, Z])
    precision = W.T @ W / sigma**2
    p = X.shape[1]
    precision[p:, p:] += np.linalg.inv(G)
    covariance = np.linalg.inv(precision)
    return covariance @ (W.T @ y) / sigma**2, covariance


def slopes():
    data = table("lme4", "sleepstudy")
    fit = certus.linear("Reaction ~ Days + (Days | Subject)", data=data, reml=True).fit()
    codes, levels = pd.factorize(data["Subject"].astype(str), sort=True)
    one, days = np.ones(len(data)), data["Days"].to_numpy(float)
    member = np.eye(len(levels))[codes]
    Z = np.hstack([member, member * days[:, None]])
    sds = [row(fit, n).mean for n in ("sd(Subject)", "sd(Subject: Days)")]
    r = row(fit, "cor(Subject: (Intercept), Days)").mean
    S = np.array([[sds[0] ** 2, r * sds[0] * sds[1]], [r * sds[0] * sds[1], sds[1] ** 2]])
    G = np.kron(S, np.eye(len(levels)))
    return data, fit, np.column_stack([one, days]), Z, G, data["Reaction"].to_numpy()


def crossed():
    data = table("lme4", "Penicillin")
    fit = certus.linear("diameter ~ 1 + (1 | plate) + (1 | sample)", data=data, reml=True).fit()
    Z = np.hstack([np.eye(len(lv))[c] for c, lv in (pd.factorize(data[k], sort=True) for k in ("plate", "sample"))])
    sds = [row(fit, f"sd({k})").mean for k in ("plate", "sample")]
    G = np.diag(np.repeat([sds[0] ** 2, sds[1] ** 2], [24, 6]))
    return data, fit, np.ones((len(data), 1)), Z, G, data["diameter"].to_numpy()


@pytest.mark.parametrize(("make", "sd_error"), [(slopes, 1e-6), (crossed, 0.12)])
def test_effects_and_predictions(make, sd_error):
    """Those of crossed factors have sds from 1,000 draws, whose standard error is 2.2 %."""
    data, fit, X, Z, G, y = make()
    p = X.shape[1]
    mean, covariance = dense(y, X, Z, G, row(fit, "sigma").mean)
    assert fit.mean[:p] == pytest.approx(mean[:p], rel=1e-8)
    assert fit.groups["mean"].to_numpy() == pytest.approx(mean[p:], rel=1e-6, abs=1e-8)
    assert fit.groups["sd"].to_numpy() == pytest.approx(np.sqrt(np.diag(covariance)[p:]), rel=1e-6)
    # the common coefficient plus the deviation
    of = np.repeat(np.arange(p), len(fit.groups) // p)
    own = np.hstack([np.eye(p)[of], np.eye(len(of))])
    assert fit.groups["total"].to_numpy() == pytest.approx(own @ mean, rel=1e-7)
    total_sd = np.sqrt(np.einsum("ij,jk,ik->i", own, covariance, own))
    assert fit.groups["total_sd"].to_numpy() == pytest.approx(total_sd, rel=1e-6)
    W = np.hstack([X, Z])
    known = fit.predict(data)
    assert known["mean"].to_numpy() == pytest.approx(W @ mean, rel=1e-8)
    sd = np.sqrt(np.einsum("ij,jk,ik->i", W, covariance, W))
    assert known["sd"].to_numpy() == pytest.approx(sd, rel=sd_error)
    new = fit.predict(data, groups="new")
    sd = np.sqrt(np.einsum("ij,jk,ik->i", X, covariance[:p, :p], X) + np.einsum("ij,jk,ik->i", Z, G, Z))
    assert new["mean"].to_numpy() == pytest.approx(X @ mean[:p], rel=1e-8)
    assert new["sd"].to_numpy() == pytest.approx(sd, rel=1e-6)
    again = pickle.loads(pickle.dumps(fit))
    pd.testing.assert_frame_equal(again.predict(data), known)


def test_what_a_fit_says():
    fit = slopes()[1]
    assert fit.criterion.kind == "REML" and fit.criterion.value == pytest.approx(1743.628271958, abs=1e-6)
    (group,) = fit.to_dict()["groups"]
    assert group["name"] == "Subject" and group["effects"] == ["(Intercept)", "Days"] and group["levels"] == 18
    assert list(fit.groups.index.names) == ["term", "group", "coefficient"]
    # lme4's ranef()
    assert fit.groups.loc[("Subject", "308", "(Intercept)"), "mean"] == pytest.approx(2.2585654, rel=1e-4)
    assert fit.groups.loc[("Subject", "308", "Days"), "mean"] == pytest.approx(9.1989719, rel=1e-5)
    assert any("restricted likelihood" in line for line in fit.sentences)


def test_effects_around_zero():
    """(Days | Subject) without Days among the fixed effects, an intercept that only varies, and an effect for every level."""
    data = table("lme4", "sleepstudy")
    fit = certus.linear("Reaction ~ 1 + (Days | Subject)", data=data, reml=True).fit()
    assert fit.criterion.value == pytest.approx(1769.8449038587, abs=1e-6)
    codes, levels = pd.factorize(data["Subject"].astype(str), sort=True)
    member, days = np.eye(len(levels))[codes], data["Days"].to_numpy(float)
    a, b = (row(fit, n).mean for n in ("sd(Subject)", "sd(Subject: Days)"))
    c = row(fit, "cor(Subject: (Intercept), Days)").mean * a * b
    G = np.kron(np.array([[a**2, c], [c, b**2]]), np.eye(len(levels)))
    X, Z = np.ones((len(data), 1)), np.hstack([member, member * days[:, None]])
    mean, covariance = dense(data["Reaction"].to_numpy(), X, Z, G, row(fit, "sigma").mean)
    assert fit.groups["mean"].to_numpy() == pytest.approx(mean[1:], rel=1e-6, abs=1e-8)
    assert fit.groups["total"].to_numpy() == pytest.approx(mean[1:] + np.repeat([mean[0], 0.0], 18), rel=1e-7)
    known = fit.predict(data)
    W = np.hstack([X, Z])
    assert known["mean"].to_numpy() == pytest.approx(W @ mean, rel=1e-8)
    assert known["sd"].to_numpy() == pytest.approx(np.sqrt(np.einsum("ij,jk,ik->i", W, covariance, W)), rel=1e-6)
    new = fit.predict(data.drop(columns="Subject"), groups="new")
    sd = np.sqrt(covariance[0, 0] + np.einsum("ij,jk,ik->i", Z, G, Z))
    assert new["sd"].to_numpy() == pytest.approx(sd, rel=1e-6)
    pd.testing.assert_frame_equal(pickle.loads(pickle.dumps(fit)).predict(data), known)
    none = certus.linear("Reaction ~ 0 + Days + (1 | Subject)", data=data, reml=True).fit()
    assert none.criterion.value == pytest.approx(1861.68824153269, abs=1e-6)
    assert [p.name for p in none.parameters] == ["Days", "sd(Subject)", "icc(Subject)", "sigma"]


def test_weights_are_frequencies():
    data = table("lme4", "sleepstudy")
    weights = np.where(np.arange(len(data)) % 3 == 0, 2.0, 1.0)
    twice = pd.concat([data, data[weights == 2.0]])
    model = "Reaction ~ Days + (Days | Subject)"
    weighted = certus.linear(model, data=data, weights=weights, ml=True).fit()
    repeated = certus.linear(model, data=twice, ml=True).fit()
    assert weighted.mean == pytest.approx(repeated.mean, rel=1e-7)
    assert weighted.criterion.value == pytest.approx(repeated.criterion.value, abs=1e-7)


def test_crossed_intercepts_of_binary_responses_have_a_posterior():
    """Draws are what the table, the groups, predictions and ArviZ use alike."""
    rng = np.random.default_rng(3)
    a, b = np.arange(120) % 12, np.arange(120) // 12
    x = rng.normal(size=120)
    t = 0.3 + 0.5 * x + rng.normal(size=12)[a] + 0.7 * rng.normal(size=10)[b]
    data = pd.DataFrame({"y": rng.random(120) < 1 / (1 + np.exp(-t)), "x": x, "a": a, "b": b})
    fit = certus.logistic("y ~ x + (1 | a) + (1 | b)", data=data).fit()
    names = ["(Intercept)", "x", "sd(a)", "sd(b)"]
    assert [p.name for p in fit.parameters] == names and {p.source for p in fit.parameters} == {"importance"}
    assert all(p.mean_error < 0.1 and p.sd_error < 0.1 for p in fit.parameters)
    draws = fit.sample(2000)
    for own, values in zip(fit.parameters, draws.T, strict=True):
        # four standard errors of 2,000 draws, and of those that they are taken from
        assert abs(np.mean(values) - own.mean) < 4 * own.sd * np.sqrt(1 / 2000 + 1 / 4000)
    assert len(fit.groups) == 22
    known, new = fit.predict(data), fit.predict(data, groups="new")
    assert ((known["mean"] > 0) & (known["mean"] < 1)).all() and new["sd"].mean() > known["sd"].mean()


def test_what_is_refused():
    data = table("lme4", "sleepstudy")
    with pytest.raises(certus.UsageError, match="prior_sd applies only to fits without reml"):
        certus.linear("Reaction ~ Days + (Days | Subject)", data=data, reml=True, prior_sd=1.0)


def test_rows_without_columns():
    """A model without features predicts as many rows as there are."""
    data = table("lme4", "Penicillin")
    assert len(certus.linear("diameter ~ 1", data=data, sigma=1.0).fit().predict(data)) == len(data)
