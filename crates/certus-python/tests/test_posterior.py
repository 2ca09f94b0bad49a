"""What is printed of the posterior: where it comes from, the Gaussian beside it, draws and files."""

import pickle

import certus
import numpy as np
import pandas as pd
import pytest
from certus import UsageError


@pytest.fixture(scope="module")
def few():
    rng = np.random.default_rng(5)
    x = rng.normal(size=30)
    return pd.DataFrame({"x": x, "y": (rng.random(30) < 1 / (1 + np.exp(-1.5 * x))).astype(float)})


def test_the_table_is_the_posterior_and_the_gaussian_is_beside_it(few):
    model = certus.logistic("y ~ x", data=few)
    fit = model.fit()
    assert fit.table.source == "corrected" and fit.table.level == "probable"
    assert fit.parameters[0].source == "corrected" and fit.parameters[0].mean_error <= fit.table.mean_error
    old = model.fit(posterior="gaussian")
    assert "table" not in old.to_dict()
    assert np.array_equal(fit.gaussian.mean, old.mean) and np.array_equal(fit.gaussian.sd, old.sd)
    assert not np.array_equal(fit.mean, old.mean)
    assert np.array_equal(fit.gaussian.sample(5, 3), old.sample(5, 3))
    assert old.gaussian is old


def test_draws_belong_to_the_table(few):
    fit = certus.logistic("y ~ x", data=few).fit()
    draws = fit.sample(4000, 2)
    # 5 standard errors of 4,000 draws; resampled ones are not worth more than half of that
    np.testing.assert_allclose(draws.mean(axis=0), fit.mean, atol=5 * fit.sd.max() / np.sqrt(2000))
    np.testing.assert_allclose(np.sqrt(np.diag(fit.covariance)), fit.sd, rtol=1e-12)
    assert np.array_equal(draws[:10], fit.sample(10, 2))
    assert np.array_equal(fit.sample(4001, 2)[4000], draws[0])
    assert fit.log_weights(10) is None and fit.gaussian.log_weights(10).shape == (10,)
    linear = fit.predict(few).linear_mean
    expected = (draws @ np.vstack([np.ones(30), few.x])).mean(axis=0)
    np.testing.assert_allclose(linear, expected, rtol=1e-9)


def test_files_and_pickles_keep_the_draws(few, tmp_path):
    fit = certus.logistic("y ~ x", data=few).fit()
    fit.save(tmp_path / "fit")
    for other in (certus.load(tmp_path / "fit"), pickle.loads(pickle.dumps(fit))):
        assert np.array_equal(other.sample(20, 1), fit.sample(20, 1)) and other.to_dict() == fit.to_dict()
        assert np.array_equal(other.gaussian.mean, fit.gaussian.mean)


@pytest.mark.parametrize("source", ["exact", "importance", "nuts"])
def test_other_sources_agree(few, source):
    model = certus.logistic("y ~ x", data=few)
    fit, corrected = model.fit(posterior=source), model.fit(accuracy=0.02)
    assert fit.table.source == source and fit.table.level == "estimated"
    error = np.array([p.mean_error for p in fit.parameters]) + np.array([p.mean_error for p in corrected.parameters])
    assert (np.abs(fit.mean - corrected.mean) <= error * np.maximum(fit.sd, corrected.sd)).all()


def test_words_are_refused(few):
    with pytest.raises(UsageError, match="mcmc"):
        certus.logistic("y ~ x", data=few).fit(posterior="mcmc")
