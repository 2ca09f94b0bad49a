"""Fits for the package marginaleffects: `avg_slopes(fit.to_marginaleffects(data))`."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .errors import UsageError
from .frames import Frame
from .targets import Target

try:
    import polars as pl
    from marginaleffects.classes import ModelAbstract, ModelVault
except ImportError as error:
    raise UsageError(f"to_marginaleffects needs the package marginaleffects, 0.6 or newer: pip install marginaleffects ({error})") from error

if (version("marginaleffects"), int(version("polars").partition(".")[0])) == ("0.6.0", 2):
    raise UsageError("marginaleffects 0.6.0 uses what polars 2 has removed: pip install 'polars<2', or a later marginaleffects")

if TYPE_CHECKING:
    from .fit import Fit

Array = NDArray[np.float64]


class MarginalModel(ModelAbstract):
    """A fit as marginaleffects has models: coefficients, their covariance, and predictions at any coefficients."""

    def __init__(self, fit: Fit, data: Any, linear_predictor: bool) -> None:
        if isinstance(fit.source, Target) or fit.to_dict()["model"] == "target":
            raise UsageError("the fit of a log density has no data, so there are no predictions of which marginaleffects could take differences")
        self._linear = linear_predictor
        response, rows = _modeldata(fit, data)
        others = [name for name in rows.columns if name != response]
        vault = ModelVault(
            coef=fit.mean,
            coefnames=np.array(fit.names),
            # never called: a text would be read as a formula of formulaic
            formula=lambda new: (None, self.get_exog(new)),
            modeldata=rows,
            package="certus",
            vcov=fit.covariance,
            variable_names=[response, *others],
        )
        super().__init__(fit, vault)

    def validation(self) -> None:
        """What marginaleffects would check and look up by a formula; its own look at numbers fails with polars 2."""
        self.coef = self.vault.coef
        self.response_name = self.vault.variable_names[0]
        self.vault.variables_type = {name: _kind(column) for name, column in zip(self.vault.modeldata.columns, self.vault.modeldata, strict=True)}

    def get_exog(self, newdata: Any) -> Array:
        """X and, as its last column, the offset: the linear predictors are X b + offset, b the parameters of the fit."""
        fit = self.model
        columns = fit._new_columns(newdata, groups=not fit._fitted.is_mixture)
        rows, coefficients, offset = fit._fitted.linear_rows(columns)
        # t = a z and b = Q z, so t = x b for every x with x Q = a; scales have no weight
        x = np.linalg.lstsq(coefficients.T, rows.T, rcond=None)[0].T
        return np.hstack([x, np.zeros((len(x), len(fit.names) - x.shape[1])), offset[:, None]])

    def get_predict(self, params: Array, newdata: Any) -> Any:
        """The expected responses, of one trial each, or the linear predictors, if the parameters were `params`."""
        rows = newdata if isinstance(newdata, np.ndarray) else self.get_exog(newdata)
        linear = rows[:, :-1] @ np.asarray(params, dtype=np.float64) + rows[:, -1]
        estimate = linear if self._linear else self.model._fitted.expected(np.ascontiguousarray(linear))
        return pl.DataFrame({"rowid": np.arange(len(estimate), dtype=np.int32), "estimate": estimate})


def _modeldata(fit: Fit, data: Any) -> tuple[str, Any]:
    """The response, and the complete rows of the columns of the model, levels as marginaleffects orders them."""
    frame = Frame(data)
    response, inputs = fit._fitted.inputs()
    levels = dict(inputs)
    formula = getattr(fit._new, "formula", None)
    # the columns of which Python evaluates terms
    known: set[str] = getattr(formula, "known", set())
    response = response if formula is None else formula.response
    names = dict.fromkeys([response, *levels, *frame.names])
    used = [name for name in names if name in frame and (name == response or name in levels or name in known)]
    table = pl.DataFrame({name: _series(frame, name, levels.get(name)) for name in used}).drop_nulls()
    if not len(table):
        raise UsageError("no row has a value in every column of the model: there is nothing to average over")
    return response, table


def _series(frame: Frame, name: str, levels: list[str] | None) -> Any:
    kind, cells = frame.column(name)
    if kind == "boolean":
        return pl.Series([None if cell < 0 else bool(cell) for cell in cells], dtype=pl.Boolean)
    if kind == "text" or levels is not None:
        text = cells if kind == "text" else [_matching(cell, levels or []) for cell in cells]
        order = levels if levels is not None else sorted({cell for cell in text if cell is not None})
        # a row whose level the fit has not seen cannot be predicted
        return pl.Series([cell if cell in order else None for cell in text], dtype=pl.Enum(order))
    series = pl.Series(np.asarray(cells, dtype=np.float64)).fill_nan(None)
    whole = np.nan_to_num(cells) == np.floor(np.nan_to_num(cells))
    # counts have contrasts of one step
    return series.cast(pl.Int64) if kind == "number" and whole.all() and np.abs(np.nan_to_num(cells)).max(initial=0) < 2**53 else series


def _kind(column: Any) -> str:
    """The kind of a variable in the words of marginaleffects."""
    if column.dtype == pl.Boolean:
        return "boolean"
    if not column.dtype.is_numeric():
        return "character"
    cells = column.to_numpy()
    if ((cells == 0) | (cells == 1)).all():
        return "binary"
    return "integer" if column.dtype.is_integer() else "numeric"


def _matching(cell: float, levels: list[str]) -> str | None:
    """The level of a number that is read as one."""
    return next((level for level in levels if _number(level) == cell), None)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
