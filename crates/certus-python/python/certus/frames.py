"""Columns of any table: pandas, polars, Arrow, or a dict of arrays, whose cells are numbers, booleans, text or dates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from .errors import DataError, UsageError

Column = tuple[str, Any]
"""(kind, cells): number and date as float64, boolean as int8 with -1 for missing, text as a list of str or None."""


class Frame:
    """A table, read column by column."""

    def __init__(self, data: Any) -> None:
        self.data = _table(data)
        self.pandas_like = isinstance(self.data, pd.DataFrame)
        names = [str(name) for name in self.data.columns]
        twice = next((n for k, n in enumerate(names) if n in names[:k]), None)
        if twice is not None:
            raise DataError(f"two columns are called '{twice}': rename one")
        self.names = names
        self._places = {name: k for k, name in enumerate(names)}

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.data)

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def _series(self, name: str) -> Any:
        place = self._places[name]
        return self.data.iloc[:, place] if self.pandas_like else self.data[:, place]

    def column(self, name: str) -> Column:
        """A column in the form that Rust takes."""
        series = self._series(name)
        return _pandas_column(name, series) if self.pandas_like else _polars_column(name, series)

    def columns(self, names: Iterable[str] | None = None) -> dict[str, Column]:
        """The existing columns, of `names` or of all."""
        return {name: self.column(name) for name in (self.names if names is None else names) if name in self}

    def pandas(self, names: Iterable[str]) -> pd.DataFrame:
        """Some columns as in pandas, dates as days."""
        out: dict[str, Any] = {}
        for name in names:
            if name not in self:
                continue
            series = self._series(name)
            kind, cells = self.column(name)
            if self.pandas_like and kind != "date":
                out[name] = series.reset_index(drop=True)
            else:
                out[name] = pd.Series(cells == 1 if kind == "boolean" and (cells >= 0).all() else cells)
        return pd.DataFrame(out)


def _table(data: Any) -> Any:
    if isinstance(data, pd.DataFrame):
        return data
    if type(data).__module__.partition(".")[0] == "polars":
        frame = data.collect() if hasattr(data, "collect") else data
        return frame.to_frame() if hasattr(frame, "to_frame") else frame
    if isinstance(data, Mapping):
        try:
            return pd.DataFrame(dict(data))
        except (ValueError, TypeError) as error:
            raise DataError(f"data is a mapping, but not a table: {error}") from None
    if hasattr(data, "__arrow_c_stream__"):
        return _from_arrow(data)
    raise UsageError(f"data is a {type(data).__name__}, but a data frame (pandas, polars, Arrow) or a dict of columns is required")


def _from_arrow(data: Any) -> Any:
    try:
        import pyarrow

        return pyarrow.table(data).to_pandas()
    except ImportError:
        pass
    try:
        import polars

        return polars.DataFrame(data)
    except ImportError:
        raise UsageError("an Arrow table needs pyarrow or polars: pip install pyarrow") from None


def _bad(name: str, found: str) -> DataError:
    return DataError(f"column '{name}' holds {found}; required: numbers, truth values, text or dates")


def _pandas_column(name: str, series: pd.Series) -> Column:
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        labels = [str(c) for c in series.cat.categories]
        return "text", [labels[k] if k >= 0 else None for k in series.cat.codes]
    if pd.api.types.is_bool_dtype(dtype):
        return "boolean", series.astype("Int8").fillna(-1).to_numpy(dtype=np.int8)
    if pd.api.types.is_complex_dtype(dtype):
        raise _bad(name, "complex numbers")
    if pd.api.types.is_numeric_dtype(dtype):
        return "number", np.ascontiguousarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
    if pd.api.types.is_datetime64_any_dtype(dtype):
        return "date", _days(series)
    if dtype == object:
        return _object_column(name, series)
    if pd.api.types.is_string_dtype(dtype):
        return "text", [None if missing else str(x) for x, missing in zip(series, series.isna(), strict=True)]
    raise _bad(name, f"cells of type {dtype}")


def _object_column(name: str, series: pd.Series) -> Column:
    kind = pd.api.types.infer_dtype(series, skipna=True)
    if kind == "string":
        return "text", [None if missing else x for x, missing in zip(series, series.isna(), strict=True)]
    if kind == "boolean":
        return "boolean", np.array([-1 if missing else int(x) for x, missing in zip(series, series.isna(), strict=True)], dtype=np.int8)
    if kind in ("integer", "floating", "mixed-integer-float", "decimal"):
        return "number", np.array([np.nan if missing else float(x) for x, missing in zip(series, series.isna(), strict=True)])
    if kind in ("date", "datetime", "datetime64"):
        return "date", _days(pd.to_datetime(series))
    if kind == "empty":
        return "number", np.full(len(series), np.nan)
    plain = [(k, x) for k, x in enumerate(series) if not isinstance(x, (int, float, type(None)))]
    k, cell = plain[0] if plain else (0, None)
    raise DataError(
        f"column '{name}' holds objects of several types ({kind}): row {k + 1} is {cell!r}; required: numbers, truth values, text or dates"
    )


def _days(series: pd.Series) -> Any:
    if getattr(series.dt, "tz", None) is not None:
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
    days = (series - pd.Timestamp(0)) / pd.Timedelta(days=1)
    return days.to_numpy(dtype=np.float64, na_value=np.nan)


def _polars_column(name: str, series: Any) -> Column:
    import polars as pl

    dtype = series.dtype
    if dtype == pl.Boolean:
        return "boolean", series.cast(pl.Int8).fill_null(-1).to_numpy().astype(np.int8)
    if dtype.is_numeric():
        return "number", np.ascontiguousarray(series.cast(pl.Float64).to_numpy(), dtype=np.float64)
    if dtype == pl.String or dtype == pl.Categorical or dtype == pl.Enum:
        return "text", series.cast(pl.String).to_list()
    if dtype == pl.Date:
        return "date", series.cast(pl.Int32).cast(pl.Float64).to_numpy().astype(np.float64)
    if dtype == pl.Datetime:
        return "date", (series.dt.timestamp("us").cast(pl.Float64) / 86_400e6).to_numpy().astype(np.float64)
    if dtype == pl.Null:
        return "number", np.full(len(series), np.nan)
    raise _bad(name, f"cells of type {dtype}")
