"""Estimators of scikit-learn: `CertusClassifier` (logistic regression of two classes) and `CertusRegressor` (linear regression).

They fit in pipelines, grid searches and cross-validation; the fit with its certificate is the attribute `fit_`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
except ImportError as missing:
    raise ImportError("certus.sklearn needs scikit-learn 1.6 or newer: pip install scikit-learn") from missing

from . import models
from .fit import Fit

Array = NDArray[np.float64]


class _Regression(BaseEstimator):
    """What both estimators share: settings, columns, coefficients."""

    fit_: Fit
    n_features_in_: int

    def __init__(
        self,
        *,
        prior_sd: float = 2.5,
        intercept_prior_sd: float = 10.0,
        fit_intercept: bool = True,
        standardise: bool = True,
        accuracy: float | None = None,
        posterior: str = "auto",
        max_time: float | None = None,
        seed: int = 0,
    ) -> None:
        self.prior_sd = prior_sd
        self.intercept_prior_sd = intercept_prior_sd
        self.fit_intercept = fit_intercept
        self.standardise = standardise
        self.accuracy = accuracy
        self.posterior = posterior
        self.max_time = max_time
        self.seed = seed

    def _fitted(self, make: Any, x: Array, y: Array, weights: Array | None) -> None:
        """Fits the model that `make` makes; columns without variation have the coefficient 0."""
        self.varies_ = np.ptp(x, axis=0) > 0 if self.fit_intercept else np.any(x != 0, axis=0)
        names = [f"x{k}" for k in np.flatnonzero(self.varies_)]
        model = make(
            x[:, self.varies_], y, names=names, weights=weights, intercept=self.fit_intercept, standardise=self.standardise,
            prior_sd=self.prior_sd, intercept_prior_sd=self.intercept_prior_sd,
        )
        self.fit_ = model.fit(accuracy=self.accuracy, posterior=self.posterior, max_time=self.max_time, seed=self.seed, progress=False)
        means = dict(zip(self.fit_.names, self.fit_.mean, strict=True))
        self.coef_ = np.array([means.get(f"x{k}", 0.0) for k in range(x.shape[1])])
        self.intercept_ = float(means.get("(Intercept)", 0.0))
        # the number of fits that were needed, as scikit-learn has it
        self.n_iter_ = 1

    def _predicted(self, x: Any) -> Any:
        check_is_fitted(self)
        x = validate_data(self, x, dtype=np.float64, reset=False)
        return self.fit_.predict(np.ascontiguousarray(x[:, self.varies_]))


class CertusClassifier(ClassifierMixin, _Regression):
    """Logistic regression of two classes. `predict_proba` has the posterior means of the probabilities.

    `prior_sd` is the prior sd of a coefficient per sd of its column, `posterior` and `accuracy` are those of `certus.fit`. `sample_weight` counts
    rows: in the likelihood a row of weight 3 is three equal rows.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> CertusClassifier:
        """Fits the posterior; `fit_` has what is known of it."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        weights, X, y = _weighted(X, y, sample_weight)
        self.classes_ = np.unique(y)
        if len(self.classes_) != 2:
            count = f"{len(self.classes_)} {'class' if len(self.classes_) == 1 else 'classes'}"
            raise ValueError(f"Only binary classification is supported: y has {count}, and two are required")
        self._fitted(models.logistic, X, (y == self.classes_[1]).astype(np.float64), weights)
        return self

    def predict_proba(self, X: Any) -> Array:
        """The posterior mean of the probability of each class."""
        p = self._predicted(X)["mean"].to_numpy()
        return np.column_stack([1 - p, p])

    def predict(self, X: Any) -> Any:
        """The class of the larger probability."""
        check_is_fitted(self)
        return self.classes_[(self.predict_proba(X)[:, 1] > 0.5).astype(int)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class CertusRegressor(RegressorMixin, _Regression):
    """Linear regression with an unknown sd of the noise. `predict` has the posterior means of the expected response.

    Settings are those of `CertusClassifier`; priors are in sds of the response.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> CertusRegressor:
        """Fits the posterior; `fit_` has what is known of it."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        weights, X, y = _weighted(X, y, sample_weight)
        self._fitted(models.linear, X, np.asarray(y, dtype=np.float64), weights)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The expected response, and with `return_std` the sd of a new observation."""
        found = self._predicted(X)
        if not return_std:
            return found["mean"].to_numpy()
        noise = self.fit_.names.index("sigma")
        variance = self.fit_.mean[noise] ** 2 + self.fit_.sd[noise] ** 2
        return found["mean"].to_numpy(), np.sqrt(found["sd"].to_numpy() ** 2 + variance)


def _weighted(x: Array, y: Any, sample_weight: Any) -> tuple[Array | None, Array, Any]:
    """The weights above 0 with their rows; no weights if none are given."""
    if sample_weight is None:
        return None, x, y
    weights = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
    kept = weights > 0
    return weights[kept], np.ascontiguousarray(x[kept]), y[kept]
