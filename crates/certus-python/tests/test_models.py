"""Models on frames and matrices: formulas against matrices made by hand, all kinds of tables, roles, refusals."""

import numpy as np
import pandas as pd
import pytest

import certus


def same(a, b):
    """The same posterior to the bit."""
    return np.array_equal(a.mean, b.mean) and np.array_equal(a.sd, b.sd) and a.certificate.gap.bound == b.certificate.gap.bound


def test_a_formula_is_fitted(df):
    fit = certus.logistic("y ~ a + b", data=df).fit(gap=0.001)
    assert fit.status == "reached" and fit.certificate.gap.level == "proved"
    assert fit.certificate.gap.bound <= 0.001
    assert fit.names == ["(Intercept)", "a", "b"]
    assert abs(fit.mean[1] - 0.8) < 4 * fit.sd[1] and abs(fit.mean[2] + 0.4) < 4 * fit.sd[2]


def test_a_gaussian_posterior_in_closed_form(df):
    # y = X beta + N(0, 0.7²), beta ~ N(0, diag(10², 2², 2²)) on raw columns
    X = df[["a", "b"]].to_numpy(copy=True)
    y = df["value"].to_numpy()
    fit = certus.linear(X, y, sigma=0.7, prior_sd=2.0, standardise=False, names=["a", "b"]).fit(gap=1e-8)
    A = np.column_stack([np.ones(len(X)), X])
    precision = A.T @ A / 0.49 + np.diag([1 / 100, 1 / 4, 1 / 4])
    covariance = np.linalg.inv(precision)
    # a gap of 1e-8 nats moves a mean by √2e-8 sd at most
    np.testing.assert_allclose(fit.mean, covariance @ A.T @ y / 0.49, atol=2e-4 * fit.sd.max())
    np.testing.assert_allclose(fit.covariance, covariance, rtol=0, atol=1e-3 * covariance.max())
    # it is the best Gaussian, so that what is proved of the gap is proved of the posterior
    gap, posterior = fit.certificate.gap, fit.certificate.posterior
    assert (posterior.level, posterior.theorem, posterior.bound) == ("proved", "D7", gap.bound)
    assert (posterior.mean_error, posterior.sd_error) == (gap.mean_error, gap.sd_error)


def test_matrix_and_formula_are_the_same_fit(df):
    by_formula = certus.logistic("y ~ a + b", data=df).fit()
    x = np.ascontiguousarray(df[["a", "b"]].to_numpy())
    by_matrix = certus.logistic(x, df["y"].to_numpy(), names=["a", "b"]).fit()
    assert same(by_formula, by_matrix) and by_formula.data.fingerprint == by_matrix.data.fingerprint
    by_frame = certus.logistic(df[["a", "b"]], df["y"]).fit()
    assert same(by_formula, by_frame) and by_frame.names == by_formula.names


def test_every_kind_of_table_gives_the_same_fit(df):
    import polars as pl
    import pyarrow as pa

    formula = "y ~ a + city + old + day"
    expected = certus.logistic(formula, data=df).fit()
    assert expected.names == ["(Intercept)", "a", "city[Leiden]", "city[Utrecht]", "old", "day"]

    class Arrow:
        def __arrow_c_stream__(self, requested_schema=None):
            return pa.Table.from_pandas(df).__arrow_c_stream__(requested_schema)

    for table in [pl.from_pandas(df), pa.Table.from_pandas(df), Arrow(), {name: df[name].to_numpy() for name in df}, df.convert_dtypes(), df.astype({"city": "category"})]:
        assert same(certus.logistic(formula, data=table).fit(), expected), type(table)


def test_transformed_terms_are_evaluated_and_remembered(df):
    shift = 3.0
    fit = certus.logistic("y ~ np.log(b + shift) + center(a) + a:b", data=df).fit()
    by_hand = pd.DataFrame({"y": df.y, "l": np.log(df.b + shift), "c": df.a - df.a.mean(), "p": df.a * df.b})
    # the unit of an interaction is the product of those of its parts, not the sd of the product
    unit = by_hand.p.std(ddof=0) / (df.a.std(ddof=0) * df.b.std(ddof=0))
    other = certus.logistic("y ~ l + c + p", data=by_hand, priors={"p": 2.5 * unit}).fit()
    np.testing.assert_allclose(fit.mean, other.mean, rtol=1e-9)
    # new data are centred by the mean of the old
    new = df.head(3)
    made = pd.DataFrame({"l": np.log(new.b + shift), "c": new.a - df.a.mean(), "p": new.a * new.b})
    np.testing.assert_allclose(fit.predict(new), other.predict(made), rtol=1e-9)


def test_contrasts_that_are_not_ours_are_those_of_the_formula(df):
    from formulae import design_matrices

    formula = "y ~ 0 + city:a + old"
    fit = certus.logistic(formula, data=df, standardise=False).fit()
    matrix = np.ascontiguousarray(np.asarray(design_matrices(formula, df).common.design_matrix, dtype=float))
    other = certus.logistic(matrix, df.y.to_numpy(), standardise=False, intercept=False).fit()
    order = np.argsort(fit.mean), np.argsort(other.mean)
    np.testing.assert_allclose(fit.mean[order[0]], other.mean[order[1]], rtol=1e-6)


def test_the_order_of_categories_is_the_users(df):
    ordered = df.assign(city=pd.Categorical(df.city, ["Utrecht", "Delft", "Leiden"], ordered=True))
    fit = certus.logistic("y ~ city", data=ordered).fit()
    assert fit.names == ["(Intercept)", "city[Delft]", "city[Leiden]"]
    assert fit.predict(ordered.head(4)).shape == (4, 7)


def test_groups(df):
    model = certus.logistic("y ~ a + (a || site)", data=df, group_sd=0.5)
    assert model.dim == 2 + 2 * 8
    fit = model.fit()
    assert fit.status == "reached" and fit.certificate.gap.level == "proved"
    assert "a[site=s3]" in fit.names and "a[site=s3] - a" in fit.names
    # against one dummy per level with the same prior, the intercept and slope of all rows included
    dummies = np.column_stack([df.site == f"s{k}" for k in range(8)]).astype(float)
    X = np.ascontiguousarray(np.column_stack([df.a, dummies, dummies * df.a.to_numpy()[:, None]]))
    names = ["a", *[f"i{k}" for k in range(8)], *[f"s{k}" for k in range(8)]]
    raw = certus.logistic("y ~ a + (a || site)", data=df, group_sd=0.5, standardise=False).fit(gap=1e-6, posterior="gaussian")
    flat = certus.logistic(X, df.y.to_numpy(), names=names, standardise=False, priors={n: 0.5 for n in names[1:]}).fit(gap=1e-6, posterior="gaussian")
    for k in range(8):
        own = raw.mean[raw.names.index(f"a[site=s{k}] - a")]
        assert abs(own - flat.mean[flat.names.index(f"s{k}")]) < 0.01 * raw.sd.max()


def test_nested_and_joined_groups(df):
    nested = certus.logistic("y ~ a + (1 | city/site)", data=df, group_sd={"city": 1.0, "city:site": 0.5}).fit()
    assert "(Intercept)[city=Delft]" in nested.names and "(Intercept)[city/site=Delft/s0]" in nested.names
    joined = certus.logistic("y ~ a + (1 | city:site)", data=df, group_sd=0.5).fit()
    assert "(Intercept)[city:site=Delft/s0]" in joined.names
    assert joined.predict(df.head(2)).shape == (2, 7)


def test_what_formulae_evaluates_has_our_group_terms(df):
    ours = certus.logistic("y ~ a + b + (a || site)", data=df, group_sd=0.5)
    theirs = certus.logistic("y ~ np.positive(a) + b + (np.positive(a) || site)", data=df, group_sd=0.5)
    assert theirs._words["formula"] == "y ~ 1 + `np.positive(a)` + b + (1 + `np.positive(a)` || site)" and ours._words["formula"] == "y ~ a + b + (a || site)"
    assert np.array_equal(ours.fit().mean, theirs.fit().mean)
    assert "np.positive(a)[site=s3]" in theirs.names and theirs.fit().predict(df.head(2)).shape == (2, 7)
    with pytest.raises(certus.UsageError, match="not available yet"):
        certus.linear("value ~ np.log(n) + (np.log(n) | site)", data=df, sigma=1.0)


def test_names_between_backquotes(df):
    named = df.rename(columns={"a": "x:z", "b": "my b"})
    fit = certus.logistic("y ~ `x:z` + `my b`", data=named).fit()
    assert fit.names == ["(Intercept)", "x:z", "my b"]
    assert np.array_equal(fit.mean, certus.logistic("y ~ a + b", data=df).fit().mean)


def test_roles(df):
    counts = certus.poisson("count ~ a + offset(np.log(n))", data=df).fit()
    arrays = certus.poisson("count ~ a", data=df, offset=np.log(df.n)).fit()
    assert same(counts, arrays)
    named = certus.binomial("hits ~ a", data=df, trials="n").fit()
    assert same(named, certus.binomial("prop(hits, n) ~ a", data=df).fit())
    assert same(named, certus.binomial(np.ascontiguousarray(df[["a"]]), df.hits, trials=df.n, names=["a"]).fit())
    for own in (named, named.gaussian):
        assert own.predict(df.head(3))["mean"].to_numpy() == pytest.approx(own.predict_draws(df.head(3), 4000).mean(axis=0), rel=0.02)
    twice = certus.logistic("y ~ a", data=pd.concat([df, df])).fit()
    weighted = certus.logistic("y ~ a", data=df, weights=np.full(len(df), 2.0)).fit()
    np.testing.assert_allclose(twice.mean, weighted.mean, atol=1e-3 * twice.sd.max())
    assert certus.probit("y ~ a", data=df).fit().certificate.gap.level == "estimated"
    assert certus.negative_binomial("count ~ a", data=df, dispersion=2.0).fit().status == "reached"


def test_priors(df):
    tight = certus.logistic("y ~ a + b", data=df, priors={"a": 1e-3}).fit()
    assert abs(tight.mean[1]) < 0.01 and abs(tight.mean[2]) > 0.1
    flat = certus.logistic("y ~ a + b", data=df, prior_sd=float("inf"), intercept_prior_sd=float("inf")).fit()
    assert flat.status == "reached" and any("flat" in note for note in flat.notes)


def test_prior_means(df):
    """A mean and an sd for one coefficient, in the units of prior_sd; the same by a tuple and a dict, and a note that the prior wins."""
    unit = df.a.std(ddof=0)
    by_tuple = certus.logistic("y ~ a + b", data=df, priors={"a": (1.5, 1e-3)}).fit()
    assert by_tuple.mean[1] * unit == pytest.approx(1.5, abs=5e-3)
    assert any("prior and data disagree: a is" in note for note in by_tuple.notes)
    by_dict = certus.logistic("y ~ a + b", data=df, priors={"a": {"mean": 1.5, "sd": 1e-3}}).fit()
    assert np.array_equal(by_tuple.mean, by_dict.mean)
    half = certus.logistic("y ~ a + b", data=df, priors={"a": {"mean": 1.5}, "b": np.inf}).fit()
    assert any(f"a ~ N({1.5 / unit:.5g}" in note and "b ~ flat" in note for note in half.notes), half.notes
    usual = certus.logistic("y ~ a + b", data=df).fit()
    assert not any("disagree" in note or "separate" in note for note in usual.notes)


def test_dummies_are_not_scaled(df):
    """The prior of a two-valued column and of a level is about the coefficient itself, whichever way the column comes."""
    data = df.assign(rare=(np.arange(len(df)) % 20 == 0).astype(float), kind=np.where(np.arange(len(df)) % 20 == 0, "x", "u"))
    fits = [
        certus.logistic("y ~ rare", data=data).fit(gap=1e-8),
        certus.logistic("y ~ kind", data=data).fit(gap=1e-8),
        certus.logistic(np.ascontiguousarray(data[["rare"]]), data.y.to_numpy(dtype=float), names=["rare"]).fit(gap=1e-8),
    ]
    assert any("rare ~ N(0, 2.5²)" in note for note in fits[0].notes) and any("kind[x] ~ N(0, 2.5²)" in note for note in fits[1].notes)
    for fit in fits[1:]:
        assert fit.mean == pytest.approx(fits[0].mean, abs=1e-6)


def test_units_of_linear_priors():
    """With or without sigma, priors are in sds of the response (sleepstudy with sigma 48 once gave 3.4)."""
    rng = np.random.default_rng(4)
    data = pd.DataFrame({"days": np.tile(np.arange(10.0), 18)})
    data["reaction"] = 251.4 + 10.5 * data.days + 48 * rng.normal(size=180)
    slope = np.polyfit(data.days, data.reaction, 1)[0]
    for sigma in (48.0, None):
        fit = certus.linear("reaction ~ days", data=data, sigma=sigma).fit()
        assert fit.mean[1] == pytest.approx(slope, rel=3e-3)


def test_separation_and_constants_are_noted(df):
    steps = df.assign(z=(df.a > 0.2).astype(float))
    fit = certus.logistic("z ~ a", data=steps).fit()
    assert any("the data separate the response: z is 1 wherever a > " in note for note in fit.notes), fit.notes
    same = certus.logistic("z ~ a", data=df.assign(z=1.0)).fit()
    assert any("the response 'z' is 1 in all" in note for note in same.notes)


def test_missing_values(df):
    holes = df.copy()
    holes.loc[[3, 7], "a"] = np.nan
    with pytest.raises(certus.DataError, match="row 4"):
        certus.logistic("y ~ a", data=holes)
    dropped = certus.logistic("y ~ a + center(a):b", data=holes, missing="drop")
    assert dropped.rows == len(df) - 2
    assert same(certus.logistic("y ~ a", data=holes, missing="drop").fit(), certus.logistic("y ~ a", data=holes.dropna()).fit())
    x = np.ascontiguousarray(holes[["a", "b"]])
    with pytest.raises(certus.DataError, match="row 4 of column 'x0'"):
        certus.logistic(x, df.y)
    assert certus.logistic(x, df.y, missing="drop").rows == len(df) - 2


def test_constant_columns_are_dropped(df):
    x = np.ascontiguousarray(np.column_stack([df.a, np.ones(len(df))]))
    model = certus.logistic(x, df.y)
    assert model.names == ["(Intercept)", "x0"] and any("x1" in note for note in model.notes)


REFUSED = [
    ("y ~ a + (1 | site)", {"sd_prior": "cauchy"}, certus.UsageError, "half-t"),
    ("y ~ a", {"scales": "estimate"}, certus.UsageError, "scales"),
    ("y ~ a + (0 + a | site)", {"group_sd": 1.0}, certus.UsageError, "site"),
    ("y ~ (a | site)", {"group_sd": 1.0}, certus.UsageError, "fixed effects"),
    ("y ~ a + (a | site)", {"group_sd": 1.0}, certus.UsageError, r"\(1 \+ a \|\| site\)"),
    ("y ~ a + (np.log(n) | site)", {}, certus.UsageError, "fixed effect"),
    ("y ~ a + (1 | np.log(n))", {}, certus.UsageError, "make the column first"),
    ("y ~ a", {"group_sd": 1.0}, certus.UsageError, "group"),
    ("y ~ a + (1 | site)", {"group_sd": {"sight": 1.0}}, certus.UsageError, "site"),
    ("y ~ aa", {}, certus.DataError, "did you mean"),
    ("y ~ a +", {}, certus.UsageError, "formula"),
    ("~ a", {}, certus.UsageError, "response"),
    ("y ~ nosuch(a)", {}, certus.UsageError, "nosuch"),
    ("b ~ a", {}, certus.DataError, "row 1, column 'b'"),
    ("city ~ a", {}, certus.DataError, "city"),
    ("y ~ a", {"missing": "ignore"}, certus.UsageError, "missing"),
    ("y ~ a", {"prior_sd": -1.0}, certus.UsageError, "prior-sd"),
    ("y ~ a", {"prior_sd": "wide"}, certus.UsageError, "prior_sd"),
    ("y ~ a", {"priors": {"c": 1.0}}, certus.UsageError, "'c'"),
    ("y ~ a", {"priors": {"a": (1.0,)}}, certus.UsageError, "pair"),
    ("y ~ a", {"priors": {"a": {"mu": 1.0}}}, certus.UsageError, "'mean'"),
    ("y ~ a", {"priors": {"a": (1.0, float("inf"))}}, certus.UsageError, "no effect"),
    ("y ~ a", {"offset": "nosuch"}, certus.DataError, "nosuch"),
    ("y ~ a", {"weights": [1.0]}, certus.DataError, "weights"),
    ("y ~ a", {"standardise": "no"}, certus.UsageError, "standardise"),
]


@pytest.mark.parametrize("formula, arguments, error, words", REFUSED)
def test_refusals(df, formula, arguments, error, words):
    with pytest.raises(error, match=words):
        certus.logistic(formula, data=df, **arguments)


def test_trials_are_needed(df):
    with pytest.raises(certus.UsageError, match="trials"):
        certus.binomial("hits ~ a", data=df)


def test_matrices_that_are_none(df):
    x, y = np.ones((4, 2)), np.array([0, 1, 0, 1])
    for arguments, error, words in [
        ((x.astype(object), y), certus.DataError, "X has dtype object"),
        ((x.astype(str), y), certus.DataError, "X has dtype"),
        ((x[0], y), certus.DataError, "X has shape"),
        ((x, y[:3]), certus.DataError, "y has shape"),
        ((x, np.array([0, 1, 2, 1])), certus.DataError, "row 3, column 'y'"),
        ((x,), certus.UsageError, "response"),
        ((np.empty((0, 2)), np.empty(0)), certus.DataError, "no row"),
        ((x * np.inf, y), certus.DataError, "row 1 of column 'x0'"),
    ]:
        with pytest.raises(error, match=words):
            certus.logistic(*arguments)
    with pytest.raises(certus.UsageError, match="names"):
        certus.logistic(x, y, names=["a"])
    with pytest.raises(certus.UsageError, match="data"):
        certus.logistic("y ~ a")
    with pytest.raises(certus.UsageError, match="data is a int"):
        certus.logistic("y ~ a", data=3)


def test_frames_that_hold_nothing_or_anything(df):
    with pytest.raises(certus.DataError, match="there is no row"):
        certus.logistic("y ~ a", data=df.head(0))
    with pytest.raises(certus.DataError, match="row"):
        certus.logistic("y ~ np.log(b)", data=df.head(0))
    with pytest.raises(certus.DataError, match="there is no column"):
        certus.logistic("y ~ a", data=pd.DataFrame())
    mixed = df.assign(a=[1, "two", *df.a[2:]])
    with pytest.raises(certus.DataError, match="column 'a'.*row 2 is 'two'"):
        certus.logistic("y ~ a", data=mixed)
    with pytest.raises(certus.DataError, match="column 'a'"):
        certus.logistic("y ~ a", data=df.assign(a=[[1]] * len(df)))
    with pytest.raises(certus.DataError, match="two columns"):
        certus.logistic("y ~ a", data=pd.concat([df, df[["a"]]], axis=1))
    with pytest.raises(certus.DataError, match="no value at all"):
        certus.logistic("y ~ a", data=df.assign(a=np.nan))


def test_an_improper_posterior_has_a_witness(df):
    separated = df.assign(y=(df.a > 0).astype(int))
    with pytest.raises(certus.AssumptionError, match="witness") as caught:
        certus.logistic("y ~ a", data=separated, prior_sd=float("inf"), intercept_prior_sd=float("inf")).fit()
    assert caught.value.exit_code == 13


def test_a_plan(df):
    plan = dict(certus.logistic("y ~ a", data=df).plan(gap=0.1))
    assert plan["rows"] == "400" and plan["route"].startswith("exact") and "0.1" in plan["goal"]
    assert "rows          400" in repr(certus.logistic("y ~ a", data=df).plan())


def test_a_plan_has_the_theorems(df):
    model = certus.logistic("y ~ a", data=df, prior_sd=1.0, intercept_prior_sd=1.0)
    # a gap at which the Laplace approximation is not good enough yet
    theorems = model.plan(method="proj_entropy", steps="paper", batch=1, iterations=500, gap=1e-6).theorems
    mu, m, d = theorems.curvature.strong_convexity, theorems.curvature.smoothness, 2
    assert mu == pytest.approx(1.0) and theorems.batch == 1 and theorems.iterations == 500
    a = 4 * (d + 3) * m**2
    assert theorems.run.numbers[0].value == pytest.approx(a) and theorems.run.first_step == pytest.approx(mu / (2 * a))
    assert theorems.run.last_step == pytest.approx(min(mu / (2 * a), 2 / mu * 999 / 500**2))
    counts = {(row.method, row.constants): row.iterations for row in theorems.methods}
    assert counts["proj-stl", "paper"] > counts["proj-stl", "sharp"] > counts["ball-stl", "local"] > 0
    assert counts["prox-energy", "paper"] is None and "not the gap" in theorems.methods[0].reason
    assert certus.linear("value ~ a", data=df).plan().theorems is None
    with pytest.raises(certus.UsageError, match="constants are 'sharp'"):
        model.fit(method="proj_stl", steps="paper", constants="sharp")
    with pytest.raises(certus.UsageError, match="applies only to the paper's methods"):
        model.plan(steps="paper")
    with pytest.raises(certus.UsageError, match="applies only to models"):
        certus.fit(certus.target(lambda z: (-0.5 * (z**2).sum(1), -z), dim=2), steps="paper")


def test_the_papers_methods(df):
    fit = certus.logistic("y ~ a", data=df).fit(method="prox_energy", iterations=2000, batch=5, gap=10.0)
    assert fit.status in ("reached", "limit") and fit.settings.method == "prox-energy"
    with pytest.raises(certus.UsageError, match="batch"):
        certus.logistic("y ~ a", data=df).fit(batch=5)


def test_batches_of_rows(df):
    model = certus.logistic("y ~ a", data=df)
    fit = model.fit(method="subsampled", row_batch=50, gap=0.05)
    assert fit.status == "reached" and fit.certificate.gap.level == "proved" and fit.certificate.gap.bound <= 0.05
    assert fit.settings["row-batch"] == 50 and "50 rows" in fit.route
    assert (fit.mean == model.fit(method="subsampled", row_batch=50, gap=0.05, threads=1).mean).all()
    with pytest.raises(certus.UsageError, match="row.batch"):
        model.fit(row_batch=5)
    with pytest.raises(certus.UsageError, match="row_batch"):
        model.fit(method="subsampled", row_batch=0)


def test_independent_coefficients():
    """A linear model as given: sd_i = Λ_ii^(-1/2), and the family costs ½(Σ log Λ_ii − log det Λ)."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(60, 2))
    x[:, 1] += 0.8 * x[:, 0]
    y = x @ [1.0, -0.5] + 0.5 * rng.normal(size=60)
    model = certus.linear(x, y, sigma=0.5, intercept=False, standardise=False)
    fit = model.fit(factor="diagonal")
    precision = x.T @ x / 0.25 + np.eye(2) / 6.25
    assert np.allclose(fit.sd, np.diag(precision) ** -0.5, rtol=1e-9)
    assert fit.certificate.gap.family == "all Gaussians with independent coefficients" and fit.certificate.gap.level == "proved"
    cost = 0.5 * (np.log(np.diag(precision)).sum() - np.linalg.slogdet(precision)[1])
    assert abs(fit.neg_elbo - model.fit().neg_elbo - cost) < 1e-8
    with pytest.raises(certus.UsageError, match="factor is 'wide'"):
        model.fit(factor="wide")
    with pytest.raises(certus.UsageError, match="applies only to models"):
        certus.fit(certus.target(lambda z: (-0.5 * (z**2).sum(1), -z), dim=2), factor="diagonal")


def test_every_response_has_a_function():
    from certus import _certus

    assert [name for name in _certus.responses if not callable(getattr(certus, name.replace("-", "_"), None))] == []
    assert {name.replace("-", "_") for name in _certus.responses} <= set(certus.__all__)


def test_estimates_are_shown_as_estimates():
    r = np.random.default_rng(3)
    data = pd.DataFrame({"x": r.normal(size=60), "g": np.repeat(np.arange(12), 5)})
    data["y"] = data.x + r.normal(size=12)[data.g] + r.normal(size=60)
    model = certus.linear("y ~ x + (1 | g)", data=data, reml=True)
    fit = model.fit(progress=False)
    head = next(line for line in repr(fit).splitlines() if "q05" in line)
    assert head.split() == ["estimate", "se", "q05", "q95"]
    assert list(fit.summary().columns) == ["mean", "sd", "q05", "q50", "q95"]
    posterior = certus.linear("y ~ x + (1 | g)", data=data).fit(progress=False)
    head = next(line for line in repr(posterior).splitlines() if "q05" in line)
    assert head.split() == ["mean", "sd", "q05", "q95"]
