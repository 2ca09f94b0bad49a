"""Data sets that the posterior predicts for the rows of a fit, and the data beside them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from . import _certus
from .errors import UsageError
from .targets import Target

if TYPE_CHECKING:
    from .fit import Fit

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Ppc:
    """A posterior predictive check: statistics of the data beside those of simulated data sets, and residuals."""

    statistics: pd.DataFrame
    """A row for each statistic: `observed`, the `mean` over simulated data sets, `low` and `high` (5 % of them have less and 5 % more), and `above`,
    the share of them that have more (as much counts half). Where it is close to 0 or 1, the model does not reproduce that property of the data."""
    residuals: Array = field(repr=False)
    """Randomised quantile residuals of the rows, standard normal where the model is right."""
    draws: int
    """Data sets that were simulated."""
    note: str | None
    """What was assumed beyond the draws."""
    _words: str = field(repr=False)

    def __repr__(self) -> str:
        with pd.option_context("display.width", 100, "display.precision", 4):
            table = repr(self.statistics)
        return "\n".join([table, "", self._words, *([f"note: {self.note}"] if self.note else [])])


def rows_of(fit: Fit, what: str) -> Any:
    """The model with the rows of the fit."""
    if isinstance(fit.source, Target):
        raise UsageError(f"fit.{what}() needs the rows of a model, which a log density does not have")
    if fit.source is None:
        raise UsageError(f"fit.{what}() needs the rows of the fit, which a fit that was loaded or unpickled does not have: fit the model again")
    return fit.source._model


def check(fit: Fit) -> Ppc:
    """See `Fit.ppc`."""
    text, words, residuals = _certus.ppc(fit._fitted, rows_of(fit, "ppc"))
    found = json.loads(text)
    statistics = pd.DataFrame(found["statistics"]).set_index("name").rename_axis("statistic")
    return Ppc(statistics=statistics, residuals=residuals, draws=found["draws"], note=found["note"], _words=words)


def simulated(fit: Fit, n: int, seed: int) -> Array:
    """See `Fit.simulate`."""
    return np.ascontiguousarray(_certus.simulate(fit._fitted, rows_of(fit, "simulate"), n, seed).T)
