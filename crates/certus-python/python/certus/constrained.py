"""The variables of a model of another library on their own scale: one row per entry, from draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .targets import Target, Variable

if TYPE_CHECKING:
    from .fit import Fit

Array = NDArray[np.float64]

DRAWS = 4000
"""Draws that a fit keeps, at most."""
GAUSSIAN_DRAWS = 16_000
"""Draws of the Gaussian."""
QUANTILES = {"q05": 0.05, "q50": 0.5, "q95": 0.95}
NOTE = "on the scale of the model's variables, estimated from draws; what is said above is about fit.summary(unconstrained=True)"
"""Below a table of these numbers."""


def summary(fit: Fit, target: Target) -> pd.DataFrame:
    """Mean, sd and quantiles of every entry of the model's variables."""
    draws, weights = weighted_draws(fit)
    values = target.constrain(draws) if target.constrain is not None else {}
    names: list[str] = []
    rows: list[Array] = []
    for variable in target.variables or ():
        flat = np.asarray(values[variable.name], dtype=np.float64).reshape(len(draws), -1)
        names += entries(variable, target.coords or {})
        rows += [marginal(column, weights) for column in flat.T]
    return pd.DataFrame(rows, columns=["mean", "sd", *QUANTILES], index=pd.Index(names, name="parameter"))


def weighted_draws(fit: Fit) -> tuple[Array, Array]:
    """Draws of what is printed, with weights that sum to 1.

    An accurate Gaussian is so on the unconstrained scale, and a tail that hardly matters there may matter after exp: importance weights
    correct its draws. Draws of the posterior, and those of a Gaussian that was asked for or is unreliable, have equal weights.
    """
    if fit._fitted.has_draws:
        return fit.latents(DRAWS), np.full(DRAWS, 1 / DRAWS)
    draws, n = fit.latents(GAUSSIAN_DRAWS), GAUSSIAN_DRAWS
    wanted = fit._corrects and fit.verdict == "accurate"
    log_weights = fit.log_weights(n) if wanted else None
    if log_weights is None:
        return draws, np.full(n, 1 / n)
    weights = np.exp(log_weights - np.max(log_weights))
    # truncated at √n times their mean, which bounds the influence of a single draw
    weights = np.minimum(weights, np.sqrt(n) * weights.mean())
    return draws, weights / weights.sum()


def marginal(values: Array, weights: Array) -> Array:
    """Mean, sd and quantiles of weighted values."""
    mean = float(weights @ values)
    sd = float(np.sqrt(weights @ (values - mean) ** 2))
    order = np.argsort(values)
    below = np.cumsum(weights[order]) - 0.5 * weights[order]
    return np.array([mean, sd, *np.interp(list(QUANTILES.values()), below, values[order])])


def entries(variable: Variable, coords: Any) -> list[str]:
    """"theta[Choate]": the labels of the coordinates, or numbers."""
    dims: list[Any] = list(variable.dims) if len(variable.dims) == len(variable.shape) else [None] * len(variable.shape)
    label = lambda axis, i: str(coords[dims[axis]][i] if coords.get(dims[axis]) is not None else i)
    indices = np.ndindex(variable.shape)
    return [f"{variable.name}[{', '.join(label(a, i) for a, i in enumerate(index))}]" if index else variable.name for index in indices]
