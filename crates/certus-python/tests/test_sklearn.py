"""The estimators of scikit-learn: its own checks, pipelines, and what they predict beside the fit itself."""

import warnings

import certus
import numpy as np
import pytest

pytest.importorskip("sklearn", reason="scikit-learn is not installed")

from certus.sklearn import CertusClassifier, CertusRegressor  # noqa: E402
from sklearn.linear_model import LinearRegression, LogisticRegression  # noqa: E402
from sklearn.model_selection import GridSearchCV, cross_val_score  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import PolynomialFeatures  # noqa: E402
from sklearn.utils.estimator_checks import check_estimator  # noqa: E402

EXACT = "the responses are fitted without error, so that the noise has no sd to infer"
REFUSED = {
    "check_sample_weights_shape": EXACT,
    "check_sample_weights_not_overwritten": EXACT,
    "check_sample_weight_equivalence_on_dense_data": EXACT,
    "check_regressors_no_decision_function": EXACT,
}
"""Checks of scikit-learn with data of which a linear model with unknown noise has no posterior."""


def made(rows=400, seed=3):
    r = np.random.default_rng(seed)
    x = r.normal(size=(rows, 3)) * [1, 10, 0.1]
    t = 0.5 + x @ [1.0, -0.1, 5.0]
    return x, t, np.where(r.random(rows) < 1 / (1 + np.exp(-t)), "yes", "no"), t + r.normal(size=rows)


# weights are repeated rows, but for the units of default priors, and for the Monte Carlo error of NUTS, which the default runs where rows are few
@pytest.mark.parametrize(
    ("estimator", "refused"), [(CertusClassifier(posterior="gaussian", standardise=False), {}), (CertusRegressor(), REFUSED)]
)
def test_scikit_learn_accepts_them(estimator, refused):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(estimator, expected_failed_checks=refused, on_skip=None)
    assert sum(one["status"] == "passed" for one in found) > 50
    # what is expected to fail does, by our refusal
    failed = [one for one in found if one["status"] == "xfail"]
    assert {one["check_name"] for one in failed} == set(refused)
    assert all("fitted without error" in str(one["exception"]) for one in failed)


def test_a_classifier_is_the_fit():
    x, _, y, _ = made()
    ours = CertusClassifier().fit(x, y)
    fit = certus.logistic(x, (y == "yes").astype(float)).fit(progress=False)
    np.testing.assert_allclose(ours.predict_proba(x)[:, 1], fit.predict(x)["mean"], rtol=1e-12)
    np.testing.assert_allclose([ours.intercept_, *ours.coef_], fit.mean, rtol=1e-12)
    assert list(ours.classes_) == ["no", "yes"] and ours.fit_.status == "reached"
    # with this many rows the prior hardly matters
    theirs = LogisticRegression(C=np.inf).fit(x, y)
    assert abs(ours.predict_proba(x) - theirs.predict_proba(x)).max() < 0.03
    assert np.mean(ours.predict(x) == theirs.predict(x)) > 0.99


def test_a_regressor_is_the_fit():
    x, _, _, y = made()
    ours = CertusRegressor().fit(x, y)
    mean, sd = ours.predict(x, return_std=True)
    theirs = LinearRegression().fit(x, y)
    np.testing.assert_allclose(mean, theirs.predict(x), atol=0.02)
    # the noise has sd 1, of which 400 rows know 1 / sqrt(800)
    assert abs(sd.mean() - 1) < 0.15 and sd.min() > np.sqrt(np.mean((y - mean) ** 2)) * 0.98
    assert abs(np.mean(abs(y - mean) < 1.645 * sd) - 0.9) < 0.06


def test_pipelines_and_searches():
    x, _, y, _ = made(200)
    pipe = make_pipeline(PolynomialFeatures(2), CertusClassifier(posterior="gaussian"))
    assert cross_val_score(pipe, x, y, cv=3).min() > 0.6
    search = GridSearchCV(CertusClassifier(posterior="gaussian"), {"prior_sd": [0.01, 2.5]}, cv=3, scoring="neg_log_loss").fit(x, y)
    assert search.best_params_ == {"prior_sd": 2.5}


def test_columns_without_variation_have_no_coefficient():
    x, _, y, _ = made(100)
    ours = CertusClassifier().fit(np.column_stack([x, np.full(100, 7.0)]), y)
    assert ours.coef_[3] == 0 and len(ours.predict(np.column_stack([x, np.full(100, 9.0)]))) == 100


def test_three_classes_are_refused():
    x, _, _, _ = made(30)
    with pytest.raises(ValueError, match="y has 3 classes, and two are required"):
        CertusClassifier().fit(x, np.arange(30) % 3)
