"""What is made of a fit: draws, files, pickles, pictures, ArviZ."""

import copy
import json
import os
import pickle
import re
import subprocess

import numpy as np
import pandas as pd
import pytest

import certus


@pytest.fixture(scope="module")
def fit(df):
    return certus.logistic("y ~ a + b + (1 | site)", data=df, group_sd=0.5).fit()


@pytest.fixture(scope="module")
def dense(df):
    return certus.logistic("y ~ a + b", data=df).fit()


def test_attributes_are_the_keys_of_fit_json(fit):
    record = fit.to_dict()
    for key in record:
        assert hasattr(fit, key), key
    assert fit.certificate.gap.bound == record["certificate"]["gap"]["bound"]
    assert fit.certificate["gap"]["level"] == "proved"
    assert fit.parameters[0].name == "(Intercept)" and fit.counts.gradients > 0
    assert dict(fit.settings)["model"] == "logistic" and "model" in dir(fit) and "gap" in dir(fit.certificate)
    with pytest.raises(AttributeError, match="elbow"):
        fit.elbow
    with pytest.raises(AttributeError):
        fit.certificate.gap.bound = 0.0


@pytest.mark.parametrize("which", ["printed", "gaussian"])
def test_draws_have_the_moments_of_the_fit(dense, which):
    dense = dense.gaussian if which == "gaussian" else dense
    n = 20_000
    draws = dense.sample(n, seed=5)
    # means to 5 standard errors, covariances to 5 % of the product of sds
    assert (abs(draws.mean(axis=0) - dense.mean) < 5 * dense.sd / np.sqrt(n)).all()
    assert (abs(np.cov(draws.T) - dense.covariance) < 0.05 * np.outer(dense.sd, dense.sd)).all()
    np.testing.assert_allclose(np.sqrt(np.diag(dense.covariance)), dense.sd, rtol=1e-12)
    assert np.array_equal(dense.sample(7, seed=5), draws[:7])
    assert not np.array_equal(dense.sample(7, seed=6), draws[:7])


def test_latents_are_those_of_the_draws(df):
    target = certus.fit(certus.target(lambda z: (-0.5 * (z**2).sum(1), -z), dim=2))
    assert np.array_equal(target.latents(9, seed=3), target.sample(9, seed=3))
    with pytest.raises(certus.UsageError, match="latents has 9 columns, but the model has 3"):
        certus.logistic("y ~ a + b", data=df)._model.log_density(np.zeros((2, 9)))


def test_log_weights_are_those_of_the_posterior(dense, df):
    # log p - log q is nearly constant, as q is close to the posterior, and its spread is the KL that is certified
    dense = dense.gaussian
    weights = dense.log_weights(4000)
    kl = np.log(np.mean(np.exp(weights - weights.mean())))
    assert 0 <= kl < dense.certificate.posterior.bound + 0.01
    # against a log posterior written by hand, on the design's own scale
    z = dense.latents(5)
    x = df[["a", "b"]].to_numpy()
    design = np.column_stack([np.ones(len(x)), (x - x.mean(0)) / x.std(0)])
    t = z @ design.T
    by_hand = (t * df.y.to_numpy() - np.logaddexp(0, t)).sum(1) - 0.5 * ((z / [10, 2.5, 2.5]) ** 2).sum(1)
    difference = weights[:5] + dense.log_q(z) - by_hand
    np.testing.assert_allclose(difference, difference[0], atol=1e-8)


def test_summary(fit):
    table = fit.summary()
    assert list(table.index) == fit.names and list(table.columns) == ["mean", "sd", "q05", "q50", "q95"]
    assert np.array_equal(table["mean"], fit.mean)


def test_predictions(fit, df):
    table = fit.predict(df)
    assert isinstance(table, pd.DataFrame) and (table.index == df.index).all() and len(table) == len(df)
    draws = fit.predict_draws(df.head(20), 20_000, seed=3)
    # 5 standard errors of a mean over 20,000 draws
    assert (abs(draws.mean(0) - table["mean"][:20]) < 5 * table["sd"][:20] / np.sqrt(20_000)).all()
    np.testing.assert_allclose(draws.std(0), table["sd"][:20], rtol=0.03)
    np.testing.assert_allclose(np.quantile(draws, 0.05, axis=0), table["q05"][:20], rtol=0.03)
    with pytest.raises(certus.DataError, match="no level 'elsewhere'"):
        fit.predict(df.assign(site="elsewhere"))
    with pytest.raises(certus.DataError, match="column 'a'"):
        fit.predict(df.drop(columns="a"))
    assert fit.predict(df.head(0)).shape == (0, 7)
    with pytest.raises(certus.UsageError, match="predict"):
        certus.fit(certus.target(lambda z: (-0.5 * (z**2).sum(1), -z), dim=1)).predict(df)


def test_levels_and_gaps_of_predictions(fit, df):
    new = df.head(4).copy()
    table = fit.predict(new, quantiles=[0.1, 0.975], observations=True)
    assert list(table.columns) == ["mean", "sd", "q10", "q97.5", "linear_mean", "linear_sd", "y10", "y97.5"]
    assert (table["q10"] < table["q97.5"]).all()
    with pytest.raises(certus.UsageError, match="quantiles has '50'"):
        fit.predict(new, quantiles=[50])
    new.loc[new.index[1], "a"] = np.nan
    with pytest.warns(UserWarning, match="1 of 4 rows has missing values"):
        gaps = fit.predict(new)
    assert gaps.iloc[1].isna().all()
    pd.testing.assert_frame_equal(gaps.iloc[[0, 2, 3]], fit.predict(df.head(4)).iloc[[0, 2, 3]])


def test_save_and_load(fit, df, tmp_path):
    place = tmp_path / "fit"
    fit.save(place)
    back = certus.load(place)
    assert back.to_dict() == fit.to_dict() and np.array_equal(back.sample(9), fit.sample(9))
    assert back.predict(df).equals(fit.predict(df))
    with pytest.raises(certus.OutputError, match="exists") as caught:
        fit.save(place)
    assert caught.value.exit_code == 73
    fit.save(place, overwrite=True)
    with pytest.raises(certus.InputError) as caught:
        certus.load(tmp_path / "nothing")
    assert caught.value.exit_code == 66 and isinstance(caught.value, FileNotFoundError)
    for name in ("arrays.safetensors", "fit.json", "settings.json", "meaning.json"):
        whole = (place / name).read_bytes()
        (place / name).write_bytes(whole.replace(b"e", b"E", 1))
        with pytest.raises(certus.DataError, match=f"{name} has changed since certus wrote it") as caught:
            certus.load(place)
        assert caught.value.exit_code == 65
        (place / name).write_bytes(whole)
    assert certus.load(place).to_dict() == fit.to_dict()
    (place / "manifest.json").unlink()
    with pytest.raises(certus.DataError, match="manifest.json"):
        certus.load(place)


def test_a_failed_write_is_an_output_error():
    error = certus.errors.of(74, "no space is left")
    assert isinstance(error, certus.OutputError) and error.exit_code == 74


def test_fits_of_schema_2_are_loaded_with_a_warning(fit, tmp_path):
    place = tmp_path / "fit"
    fit.save(place)
    (place / "manifest.json").unlink()
    text = (place / "fit.json").read_text()
    (place / "fit.json").write_text(text.replace('"schema": 3', '"schema": 2', 1))
    with pytest.warns(UserWarning, match="not checked"):
        assert certus.load(place).certificate.gap.bound == fit.certificate.gap.bound


def test_a_target_is_saved_and_loaded(tmp_path):
    fit = certus.fit(certus.target(lambda z: (-0.5 * (z**2).sum(1), -z), dim=2, names=["u", "v"]))
    fit.save(tmp_path / "t")
    back = certus.load(tmp_path / "t")
    assert back.names == ["u", "v"] and np.array_equal(back.covariance, fit.covariance) and back.log_weights(5) is None


def test_pickles_and_copies(fit, df):
    for back in (pickle.loads(pickle.dumps(fit)), copy.deepcopy(fit)):
        assert back.to_dict() == fit.to_dict() and np.array_equal(back.covariance, fit.covariance)
        assert back.predict(df.head(3)).equals(fit.predict(df.head(3)))
    assert pickle.loads(pickle.dumps(fit.certificate)).gap.bound == fit.certificate.gap.bound


def test_words_come_certificate_first(fit, dense):
    assert repr(fit).startswith("means within ") and "of the posterior's (with probability 0.99)" in repr(fit)
    assert repr(fit.gaussian).startswith("gap at most")
    assert "(proved, " in repr(fit) and "status: reached" in repr(fit)
    html = dense._repr_html_()
    assert html.index("proved") < html.index("(Intercept)") and "<script" not in html
    evil = certus.fit(certus.target(lambda z: (-0.5 * (z**2).sum(1), -z), dim=1, names=["<b>x"]))
    assert "<b>" not in evil._repr_html_() and "(estimated, " in evil._repr_html_()
    assert "at most" not in evil._repr_html_() and "if q has found every mode" in evil._repr_html_()


def numbers_after(text, words):
    """The numbers that stand after words such as "at most", which claims that they are bounds."""
    return [float(x) for x in re.findall(rf"{words} ([0-9.]+(?:e-?[0-9]+)?)", text)]


def test_bounds_are_never_rounded_down_and_have_the_same_digits_everywhere(fit, tmp_path):
    gap = fit.certificate.gap
    fit.report(tmp_path / "report.html")
    report = re.sub("<[^>]*>", "", (tmp_path / "report.html").read_text(encoding="utf-8"))
    shown = {x for text in (repr(fit), fit._repr_html_(), fit.message, report) for x in numbers_after(text, "at most")}
    assert len(shown) == 1 and gap.bound <= min(shown) <= 1.1 * gap.bound
    assert min(numbers_after(repr(fit), "within")) >= min(gap.mean_error, 100 * gap.sd_error)


def test_the_report_is_written(fit, tmp_path):
    fit.report(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>") and "Logistic regression of y" in text and "8 groups" in text


def test_the_plot_is_drawn(fit, dense, tmp_path):
    for k, each in enumerate((fit, dense, pickle.loads(pickle.dumps(dense)))):
        figure = each.plot()
        figure.savefig(tmp_path / f"{k}.png", dpi=60)
        assert len(figure.subfigs) == 3 and (tmp_path / f"{k}.png").stat().st_size > 10_000
    assert len(dense.plot(names=["b"]).subfigs) == 3
    with pytest.raises(certus.UsageError, match="nosuch"):
        dense.plot(names=["nosuch"])


def test_arviz(fit, dense):
    import arviz as az

    data = fit.to_arviz(draws=500)
    posterior = data["posterior"]
    assert posterior["a"].shape == (1, 500)
    assert posterior["(Intercept)|site"].dims == ("chain", "draw", "site") and list(posterior["site"].values) == [f"s{k}" for k in range(8)]
    own = fit.sample(500)[:, fit.names.index("(Intercept)[site=s5]")]
    assert np.array_equal(posterior["(Intercept)|site"].sel(site="s5").values[0], own)
    data = dense.to_arviz(draws=1000)
    assert set(data["observed_data"]) == {"y"} and data["log_likelihood"]["y"].shape == (1, 1000, 400)
    assert "log_weight" not in data["sample_stats"]
    weights = dense.gaussian.to_arviz(draws=1000)["sample_stats"]["log_weight"]
    assert np.array_equal(weights.values[0], dense.gaussian.log_weights(1000))
    # the log likelihoods add up to the log density, but for the prior
    z = dense.latents(1000)
    prior = -0.5 * ((z / [10, 2.5, 2.5]) ** 2).sum(1)
    rest = data["sample_stats"]["lp"].values[0] - data["log_likelihood"]["y"].values[0].sum(1) - prior
    np.testing.assert_allclose(rest, rest[0], atol=1e-8)
    summary = az.summary(data, round_to="none")
    np.testing.assert_allclose(np.asarray(summary["mean"], dtype=float), dense.sample(1000).mean(0), rtol=1e-6)
    loo = az.loo(data)
    assert np.isfinite(float(loo.elpd_loo if hasattr(loo, "elpd_loo") else loo.elpd))


def test_arviz_of_a_target():
    fn = lambda z: (-0.5 * (z**2).sum(1), -z)  # noqa: E731
    assert certus.fit(certus.target(fn, dim=3)).to_arviz(10)["posterior"]["z"].shape == (1, 10, 3)
    named = certus.Target(
        fn,
        3,
        variables=(certus.Variable("tau"), certus.Variable("theta", (2,), ("school",))),
        coords={"school": ["A", "B"]},
        constrain=lambda z: {"tau": np.exp(z[:, 0]), "theta": z[:, 1:]},
        observed={"y": np.zeros(4)},
        log_likelihood=lambda z: {"y": np.tile(z[:, :1], (1, 4))},
    )
    data = certus.fit(named).to_arviz(10)
    assert data["posterior"]["theta"].dims == ("chain", "draw", "school") and (data["posterior"]["tau"] > 0).all()
    assert data["log_likelihood"]["y"].shape == (1, 10, 4) and data["observed_data"]["y"].shape == (4,)


def test_the_record_is_json(fit):
    assert json.loads(json.dumps(fit.to_dict())) == fit.to_dict()


def test_a_data_tree_where_arviz_is_new_or_absent(fit, dense, monkeypatch):
    import arviz_stats  # noqa: F401  (its functions are what a new ArviZ calls)
    from xarray import DataTree

    import certus.arviz as ours

    for answer in ("1.0.0", None):

        def version(_, answer=answer):
            if answer is None:
                raise ours.PackageNotFoundError
            return answer

        monkeypatch.setattr(ours, "version", version)
        data = fit.to_arviz(draws=100)
        assert isinstance(data, DataTree) and set(data.children) == {"posterior", "sample_stats", "observed_data", "log_likelihood", "posterior_predictive"}
        assert data["posterior"]["(Intercept)|site"].dims == ("chain", "draw", "site")
        assert data["log_likelihood"]["y"].dims == ("chain", "draw", "row") and data["observed_data"]["y"].dims == ("row",)
        assert np.array_equal(data["posterior"]["a"].values[0], fit.sample(100)[:, 1])
    loo = arviz_stats.loo(dense.to_arviz(draws=1000))
    assert np.isfinite(float(loo.elpd))


def test_effects_are_averages_over_draws():
    rng = np.random.default_rng(4)
    data = pd.DataFrame({"x": rng.normal(size=200), "arm": rng.choice(["a", "b"], 200), "treated": rng.random(200) < 0.5})
    p = 1 / (1 + np.exp(-(0.3 + 0.8 * data.x + 0.7 * (data.arm == "b"))))
    data["y"] = (rng.random(200) < p).astype(int)
    # nothing is certified, so that all numbers are those of the draws
    fit = certus.logistic("y ~ x + arm + treated", data=data).fit(posterior="importance")
    frame = fit.effects(data, contrast=["arm: b - a", "arm: b / a"], at={"treated": True, "x": [0.0, 1.0]}, interval=0.8)
    assert list(frame["at"].unique()) == ["treated = true, x = 0.0", "treated = true, x = 1.0"]
    draws = pd.DataFrame(fit.sample(4000), columns=[p["name"] for p in fit.to_dict()["parameters"]])
    t = draws["(Intercept)"] + draws["treated"]
    response = lambda t: 1 / (1 + np.exp(-t))
    wanted = response(t + draws["arm[b]"]) - response(t)
    row = frame.iloc[0]
    np.testing.assert_allclose(row.estimate, wanted.mean(), rtol=1e-9)
    np.testing.assert_allclose([row.conf_low, row.conf_high], np.quantile(wanted, [0.1, 0.9]), rtol=1e-9)
    assert frame.attrs["averaged"] == 200 and frame.attrs["draws"] == 4000
    assert list(fit.effects(data).term) == ["x (slope)", "arm: b - a", "treated: true - false"]
    assert list(fit.effects(data, at={"arm": "b"}).term) == ["expected y"]
    with pytest.raises(certus.UsageError, match="slope"):
        fit.effects(data, contrast="x")


def certified_data():
    rng = np.random.default_rng(7)
    data = pd.DataFrame({"x": rng.normal(size=120).round(4), "arm": rng.choice(["a", "b"], 120)})
    p = 1 / (1 + np.exp(-(0.2 + 0.8 * data.x + 0.5 * (data.arm == "b"))))
    data["y"] = (rng.random(120) < p).astype(int)
    return data


def test_effects_are_certified(tmp_path):
    """Errors in memory, after loading, after a pickle; calls divide delta; a linear model is exact."""
    data = certified_data()
    fit = certus.logistic("y ~ x + arm", data=data).fit(posterior="corrected", delta=0.02)
    asked = {"contrast": ["arm: b - a", "arm: b / a"], "slope": "x"}
    first = fit.effects(data, **asked)
    share = 0.02 * 6 / np.pi**2
    assert first.attrs["theorem"] == "D8" and first.attrs["delta"] == pytest.approx(share)
    assert first["error"].notna().tolist() == [True, False, True] and (first["interval_error"] > 0).all()
    # other draws, a smaller part of delta; both are right, so that their intervals overlap
    second = fit.effects(data, **asked)
    assert second.attrs["delta"] == pytest.approx(share / 4) and second.estimate[0] != first.estimate[0]
    assert abs(second.estimate[0] - first.estimate[0]) <= first["error"][0] + second["error"][0]
    assert pickle.loads(pickle.dumps(fit)).effects(data, **asked).attrs["delta"] == pytest.approx(share / 9)
    # rows of another table are averaged over as well
    assert fit.effects(data.head(20), **asked).attrs["theorem"] == "D8"
    fit.save(tmp_path / "fit")
    loaded = certus.load(tmp_path / "fit")
    pd.testing.assert_frame_equal(loaded.effects(data, **asked), first)
    # without the rows of the fit there is no model
    assert loaded.effects(data.head(20), **asked).attrs["theorem"] is None
    linear = fit.effects(data, contrast="arm: b - a", linear_predictor=True)
    assert linear["error"][0] < 0.1 * linear.std_error[0]
    with pytest.raises(certus.UsageError, match="ask for a difference"):
        fit.effects(data, contrast="arm: b / a", linear_predictor=True)
    exact = certus.linear("x ~ arm", data=data, sigma=1.0).fit()
    row = exact.effects(data, contrast="arm: b - a").iloc[0]
    np.testing.assert_allclose([row.estimate, row.std_error], [exact.mean[1], exact.sd[1]], rtol=1e-9)
    assert row.error < 1e-6 and row.interval_error < 1e-6


def test_effects_have_the_numbers_of_the_command_line(tmp_path):
    command = os.environ.get("CERTUS")
    if command is None:
        pytest.skip("CERTUS names no binary")
    data = certified_data()
    data.to_csv(tmp_path / "rows.csv", index=False)
    run = lambda *words: subprocess.run([command, *words], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    run("fit", "logistic", "rows.csv", "y ~ x + arm", "--posterior", "corrected", "--seed", "3", "--out", "fit", "--quiet")
    fit = certus.logistic("y ~ x + arm", data=data).fit(posterior="corrected", seed=3)
    for call, words in enumerate([["--slope", "x"], ["--contrast", "arm", "--linear-predictor"]], start=1):
        theirs = json.loads(run("effects", "fit", *words, "--call", str(call), "--format", "json"))
        ours = fit.effects(data, slope="x") if call == 1 else fit.effects(data, contrast="arm", linear_predictor=True)
        assert ours.to_dict("records") == theirs["rows"] and ours.attrs["delta"] == theirs["delta"]
    # what the command line wrote, loaded
    loaded = certus.load(tmp_path / "fit").effects(data, slope="x")
    theirs = json.loads(run("effects", "fit", "--slope", "x", "--format", "json"))
    assert loaded.to_dict("records") == theirs["rows"]


def test_the_names_of_statsmodels():
    r = np.random.default_rng(5)
    x = r.normal(size=(300, 2))
    fit = certus.linear(x, 1 + x @ [2.0, -1.0] + r.normal(size=300), names=["a", "b"], sigma=1.0).fit(progress=False)
    assert list(fit.params.index) == list(fit.bse.index) == ["(Intercept)", "a", "b"]
    assert fit.params["a"] == fit.mean[1] and fit.bse["a"] == fit.sd[1]
    np.testing.assert_array_equal(fit.conf_int(0.1), fit.summary()[["q05", "q95"]])
    # a Gaussian: 1.96 sds, to four standard errors of a quantile of 40,000 draws
    ends = fit.conf_int()
    np.testing.assert_allclose(ends[1] - ends[0], 2 * 1.96 * fit.bse, rtol=0.02)
    assert (ends[0] < fit.params).all() and (fit.params < ends[1]).all()
    with pytest.raises(certus.UsageError, match="alpha is 95"):
        fit.conf_int(95)
