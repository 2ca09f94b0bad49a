"""A fit in the package marginaleffects: its numbers beside closed forms, `fit.effects`, and the delta method written out here."""

import certus
import numpy as np
import pandas as pd
import pytest

me = pytest.importorskip("marginaleffects", reason="marginaleffects is not installed")


def made(rows=400, seed=5):
    r = np.random.default_rng(seed)
    data = pd.DataFrame({"arm": r.choice(["a", "b", "c"], rows), "age": r.normal(50, 10, rows), "old": r.random(rows) < 0.3, "site": r.choice(list("stuvwxyz"), rows)})
    t = -2 + 0.03 * data.age + data.arm.map({"a": 0.0, "b": 0.8, "c": -0.5}) + 0.5 * data.old
    data["cured"] = np.where(r.random(rows) < 1 / (1 + np.exp(-t)), "yes", "no")
    data["pain"] = 3 * t + r.normal(0, 2, rows)
    data["visits"] = r.poisson(np.exp(0.2 * t) * 2)
    return data


def numbers(table, column="estimate"):
    """By term and contrast, without the means that some versions write out."""
    rows = {(row["term"], row["contrast"].replace("mean(", "").replace(")", "")): row[column] for row in table.iter_rows(named=True)}
    return pd.Series(rows)


def test_a_linear_model_has_the_coefficients_and_their_sds():
    data = made()
    fit = certus.linear("pain ~ age + arm + old", data=data, sigma=2.0).fit(progress=False)
    found = me.avg_comparisons(fit.to_marginaleffects(data))
    estimate, error = numbers(found), numbers(found, "std_error")
    for term, contrast, name in [("age", "+1", "age"), ("arm", "b - a", "arm[b]"), ("arm", "c - a", "arm[c]"), ("old", "True - False", "old")]:
        np.testing.assert_allclose(estimate[term, contrast], fit.params[name], rtol=1e-9)
        np.testing.assert_allclose(error[term, contrast], fit.bse[name], rtol=1e-5)
    slopes = me.avg_slopes(fit.to_marginaleffects(data), variables="age")
    np.testing.assert_allclose(slopes["estimate"][0], fit.params["age"], rtol=1e-6)
    # predictions are linear predictors, with sds by the covariance of the coefficients
    rows = me.predictions(fit.to_marginaleffects(data), newdata=data.head(5).astype({"arm": "category"}))
    ours = fit.predict(data.head(5))
    np.testing.assert_allclose(rows["estimate"].to_numpy(), ours["mean"], rtol=1e-9)
    np.testing.assert_allclose(rows["std_error"].to_numpy(), ours["sd"], rtol=1e-5)


def test_a_logistic_model_beside_the_delta_method_and_our_effects():
    data = made()
    fit = certus.logistic("cured ~ age*arm + old", data=data).fit(posterior="gaussian", progress=False)
    model = fit.to_marginaleffects(data)
    found = me.avg_comparisons(model, variables="arm")
    # the same at the posterior means by hand: x of the data with one arm everywhere
    parts = {name: value for name, value in fit.params.items()}

    def average(beta, arm):
        b = dict(zip(parts, beta, strict=True))
        t = b["(Intercept)"] + b["age"] * data.age + b["old"] * data.old
        t = t + (0 if arm == "a" else b[f"arm[{arm}]"] + b[f"age:arm[{arm}]"] * data.age)
        return (1 / (1 + np.exp(-t))).mean()

    for arm in "bc":
        at = fit.mean
        value = average(at, arm) - average(at, "a")
        steps = 1e-5 * fit.sd
        slope = np.array([(average(at + h, arm) - average(at + h, "a") - average(at - h, arm) + average(at - h, "a")) / (2 * h.sum()) for h in np.diag(steps)])
        np.testing.assert_allclose(numbers(found)["arm", f"{arm} - a"], value, rtol=1e-9)
        np.testing.assert_allclose(numbers(found, "std_error")["arm", f"{arm} - a"], np.sqrt(slope @ fit.covariance @ slope), rtol=1e-4)
    # our answers are means over the posterior, not values at its mean: near, not equal
    ours = fit.effects(data, contrast=["arm: b - a", "arm: c - a", "old: true - false"], slope="age").set_index("term")
    theirs = me.avg_comparisons(model, variables=["arm", "old"])
    for term, contrast, name in [("arm", "b - a", "arm: b - a"), ("arm", "c - a", "arm: c - a"), ("old", "True - False", "old: true - false")]:
        assert abs(numbers(theirs)[term, contrast] - ours.estimate[name]) < 0.1 * ours.std_error[name]
        assert abs(numbers(theirs, "std_error")[term, contrast] / ours.std_error[name] - 1) < 0.08
    slope = me.avg_slopes(model, variables="age")
    assert abs(slope["estimate"][0] - ours.estimate["age (slope)"]) < 0.1 * ours.std_error["age (slope)"]
    # the linear predictor, and a hypothesis about coefficients by name
    log_odds = me.avg_comparisons(fit.to_marginaleffects(data, linear_predictor=True), variables="old")
    np.testing.assert_allclose(log_odds["estimate"][0], fit.params["old"], rtol=1e-9)


def test_offsets_terms_levels_and_gaps_are_those_of_the_fit():
    data = made()
    data["year"] = np.resize([3.0, 1.0, 2.0], len(data))
    data["months"] = np.resize([1.0, 12.0, 6.0], len(data))
    data.loc[7, "age"] = np.nan
    fit = certus.poisson("visits ~ sqrt(age) + bs(age, 4) + factor(year, ref=2) + offset(log(months))", data=data, missing="drop").fit(posterior="gaussian", progress=False)
    model = fit.to_marginaleffects(data)
    whole = data.dropna()
    rows = me.predictions(model)
    np.testing.assert_allclose(rows["estimate"].to_numpy(), np.exp(fit.predict(whole)["linear_mean"]), rtol=1e-8)
    # the reference of the fit is that of the contrasts, although its cells are numbers
    contrasts = [key for key in numbers(me.avg_comparisons(model, variables="year")).index]
    assert contrasts == [("year", "1 - 2"), ("year", "3 - 2")]


def test_groups_are_averaged_over_in_linear_models_and_refused_elsewhere():
    data = made()
    fit = certus.linear("pain ~ age + (1 | site)", data=data).fit(progress=False)
    found = me.avg_slopes(fit.to_marginaleffects(data))
    np.testing.assert_allclose(numbers(found)["age", "dY/dX"], fit.params["age"], rtol=1e-6)
    # differences of differences: predictions near 10 have errors of 2e-15, over steps of 4e-3 in age and of 1.3e-9 in its coefficient 3e-4
    np.testing.assert_allclose(numbers(found, "std_error")["age", "dY/dX"], fit.bse["age"], rtol=1e-3)
    mixed = certus.logistic("cured ~ age + (1 | site)", data=data).fit(progress=False)
    with pytest.raises(certus.UsageError, match="average over the population of groups"):
        me.avg_slopes(mixed.to_marginaleffects(data))
    target = certus.fit(certus.target(lambda z: (-0.5 * (z**2).sum(1), -z), dim=2), progress=False)
    with pytest.raises(certus.UsageError, match="no data"):
        target.to_marginaleffects(data)


def test_a_fit_that_was_loaded_takes_the_data(tmp_path):
    data = made()
    fit = certus.logistic("cured ~ age + arm", data=data).fit(posterior="gaussian", progress=False)
    fit.save(tmp_path / "fit")
    first, again = (me.avg_comparisons(one.to_marginaleffects(data)) for one in (fit, certus.load(tmp_path / "fit")))
    np.testing.assert_array_equal(first["estimate"].to_numpy(), again["estimate"].to_numpy())
