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
NOTE = "what is said above is about the coordinates of the fit, fit.summary(unconstrained=True); rows of other variables are estimated from draws"
"""Below a table of these numbers."""


def summary(fit: Fit, target: Target) -> pd.DataFrame:
    """Mean, sd and quantiles of every entry of the model's variables; where one is a coordinate of the fit, the numbers of that."""
    draws, weights = weighted_draws(fit, target)
    values = target.constrain(draws) if target.constrain is not None else {}
    own = fit.summary(unconstrained=True)[["mean", "sd", *QUANTILES]].to_numpy()
    coordinates = {column.tobytes(): row for column, row in zip(draws.T, own, strict=True)}
    names: list[str] = []
    rows: list[Array] = []
    for variable in target.variables or ():
        flat = np.asarray(values[variable.name], dtype=np.float64).reshape(len(draws), -1)
        names += entries(variable, target.coords or {})
        for column in flat.T:
            row = coordinates.get(column.tobytes())
            rows.append(marginal(column, weights) if row is None else row)
    return pd.DataFrame(rows, columns=["mean", "sd", *QUANTILES], index=pd.Index(names, name="parameter"))


def weighted_draws(fit: Fit, target: Target) -> tuple[Array, Array]:
    """Draws of what is printed, with weights that sum to 1.

    What is accurate or usable on the unconstrained scale may have a tail that matters after exp: draws of q, every other one twice as far from
    its mean, get importance weights. Draws of a sampler, and those of a Gaussian that was asked for or is unreliable, have equal weights.
    """
    sampled = (fit._record.get("table") or {}).get("source") == "nuts"
    usable = fit._corrects and fit.verdict in ("accurate", "usable after correction") and not sampled
    weighted = both_widths(fit.gaussian, target) if usable else None
    if weighted is not None:
        return weighted
    draws = fit.latents(DRAWS if fit._fitted.has_draws else GAUSSIAN_DRAWS)
    return draws, np.full(len(draws), 1 / len(draws))


def both_widths(q: Fit, target: Target) -> tuple[Array, Array] | None:
    """Draws of the mixture of q and of q twice as wide, with their weights; None where the log density cannot be had so far out."""
    draws, n = q.latents(GAUSSIAN_DRAWS), GAUSSIAN_DRAWS
    draws[::2] = 2 * draws[::2] - q.mean
    narrow, wide = q.log_q(draws), q.log_q((draws + q.mean) / 2) - draws.shape[1] * np.log(2)
    try:
        log_density = np.asarray(target.log_density(draws)[0], dtype=np.float64)
    except Exception:
        return None
    log_weights = log_density - np.logaddexp(narrow, wide)
    if not np.isfinite(np.max(log_weights)):
        return None
    weights = np.exp(log_weights - np.max(log_weights))
    # truncated at √n times their mean, which bounds the influence of a single draw
    weights = np.minimum(weights, np.sqrt(n) * weights.mean())
    seen = weights > 0
    return draws[seen], weights[seen] / weights.sum()


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
