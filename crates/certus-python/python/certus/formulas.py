"""Converts a formula, parsed by `formulae`, to the terms that Rust knows.

Terms of plain columns keep their names and are encoded in Rust, as on the command line. A transformed term such as `np.log(x)`, or one whose
contrasts differ from ours, is evaluated here and becomes a numeric column; its term is kept to evaluate new data in the same way.
Group terms contribute their columns; their dense matrices are never made.
"""

from __future__ import annotations

import inspect
from difflib import get_close_matches
from typing import Any

import numpy as np
import pandas as pd
from formulae import model_description
from formulae.environment import Environment
from formulae.terms import Intercept, Variable
from formulae.terms import Model as Description
from numpy.typing import NDArray

from .errors import DataError, UsageError
from .frames import Column, Frame

PROPORTIONS = ("p(", "prop(", "proportion(")
SAMPLE = 1000


def environment(depth: int) -> Environment:
    """The names in the scope of the caller `depth` frames up, and NumPy as np."""
    frame = inspect.currentframe()
    for _ in range(depth + 1):
        frame = frame.f_back if frame is not None else None
    spaces: list[Any] = [{"np": np}] if frame is None else [frame.f_locals, frame.f_globals, {"np": np}]
    return Environment(spaces)


class Formula:
    """A formula with its table: response, features, groups, and the columns for Rust."""

    def __init__(self, text: str, frame: Frame, env: Environment) -> None:
        self.text = text
        if "~" not in text or text.lstrip().startswith("~"):
            raise UsageError(f"the formula {text!r} has no response: write 'y ~ ...'")
        try:
            description = model_description(text)
        except Exception as error:
            raise UsageError(f"the formula {text!r} cannot be read: {error}") from None
        # a name inside a call may also be one in the caller's scope
        _require(frame, {name for part in _parts(description) if isinstance(part, Variable) for name in part.var_names})
        known = {name for part in _parts(description) for name in part.var_names if name in frame}
        self.evaluated: dict[str, tuple[Any, int | None]] = {}
        """Columns made here: the term, and the index of its column."""
        self.joined: dict[str, tuple[str, ...]] = {}
        """Text columns that join the labels of others."""
        self.plain: list[str] = []
        self.offset: str | None = None
        self.trials: str | None = None
        self.intercept = any(isinstance(t, Intercept) for t in description.common_terms)
        self.known = known
        self._made: dict[str, Column] = {}
        self._pandas = frame.pandas(known)
        self._complete = ~self._pandas.isna().any(axis=1).to_numpy(dtype=bool)
        self.response = self._response(description.response.term, env)
        names = self._features(description, env)
        self.features = [column for columns in names.values() for column in columns]
        used = set(self.plain)
        self.groups = self._groups(description, names)
        self.factors = set(self.plain) - used
        """Columns that only name groups."""
        del self._pandas, self._complete

    def columns(self, frame: Frame) -> dict[str, Column]:
        """The columns of the table that the model uses."""
        return {**frame.columns(dict.fromkeys(self.plain)), **self._made, **self._join(frame)}

    def forget(self) -> None:
        """Releases the columns made for the fit."""
        self._made = {}

    def new_columns(self, frame: Frame, groups: bool = True) -> dict[str, Column]:
        """The same for new data; the response is not needed, and columns that only name groups are omitted without `groups`."""
        unused = {self.response} if groups else {self.response, *self.factors}
        out = frame.columns(name for name in dict.fromkeys(self.plain) if name not in unused)
        terms = {id(term): term for name, (term, _) in self.evaluated.items() if name != self.response}
        needed = {name for term in terms.values() for name in term.var_names if name in self.known}
        _require(frame, needed)
        data = frame.pandas(needed)
        values = {}
        for key, term in terms.items():
            try:
                values[key] = np.asarray(term.eval_new_data(data), dtype=np.float64)
            except ValueError as error:
                raise DataError(f"the term {term.name}: {error}") from None
        for name, (term, place) in self.evaluated.items():
            if name != self.response:
                value = values[id(term)]
                out[name] = ("number", np.ascontiguousarray(value if place is None else value[:, place]))
        return {**out, **(self._join(frame) if groups else {})}

    def _join(self, frame: Frame) -> dict[str, Column]:
        out: dict[str, Column] = {}
        for name, parts in self.joined.items():
            labels = [_labels(*frame.column(part)) for part in parts]
            out[name] = ("text", [None if None in row else "*".join(row) for row in zip(*labels, strict=True)])
        return out

    def _evaluate(self, term: Any, env: Environment, encoding: Any) -> NDArray[np.float64]:
        """A term on the complete rows; NaN elsewhere. Stateful transforms see complete rows only."""
        rows = self._pandas[self._complete]
        if not len(rows):
            raise DataError("there is no complete row of data")
        try:
            term.set_type(rows, env)
            term.set_data(encoding)
            data = np.asarray(term.data, dtype=np.float64)
        except Exception as error:
            raise UsageError(f"the term {term.name} of {self.text!r} cannot be evaluated: {error}") from error
        out = np.full((len(self._complete), *data.shape[1:]), np.nan)
        out[self._complete] = data
        return out

    def _add(self, name: str, term: Any, place: int | None, values: NDArray[np.float64]) -> str:
        self.evaluated[name] = (term, place)
        self._made[name] = ("number", np.ascontiguousarray(values))
        return name

    def _response(self, term: Any, env: Environment) -> str:
        (component,) = term.components
        if isinstance(component, Variable) and component.reference is None:
            self.plain.append(component.name)
            return component.name
        if component.name.startswith(PROPORTIONS):
            names = [str(a.name) for a in component.call.args if hasattr(a, "name")]
            if len(names) == len(component.call.args) == 2:
                self.trials = names[1]
                self.plain += names
                return names[0]
            raise UsageError(f"{component.name}: write prop(successes, trials) with two columns")
        return self._add(component.name, term, None, self._evaluate(term, env, False))

    def _features(self, description: Any, env: Environment) -> dict[str, list[str]]:
        """The columns of every common term."""
        common = [t for t in description.common_terms if not isinstance(t, Intercept)]
        if not common:
            return {}
        # a few complete rows determine the terms and their contrasts
        sample = self._pandas[self._complete].head(SAMPLE)
        if not len(sample):
            if not all(self._plain(t) for t in common):
                raise DataError("there is no complete row of data")
            # Rust reports which values are missing
            self.plain += [c.name for t in common for c in t.components]
            return {t.name: [t.name] for t in common}
        model = Description(*([Intercept()] if self.intercept else []), *common)
        try:
            model.eval(sample, env)
        except Exception as error:
            raise UsageError(f"the formula {self.text!r} cannot be evaluated: {error}") from error
        full = not self.intercept
        names: dict[str, list[str]] = {}
        for term in model.common_terms:
            if isinstance(term, Intercept):
                continue
            if term.kind == "offset":
                if self.offset is not None:
                    raise UsageError("there are two offsets in the formula: add them up")
                self.offset = self._add(term.name, term, None, np.asarray(self._evaluate(term, env, False)).reshape(-1))
                continue
            ours = self._plain(term)
            for component in term.components:
                if ours and component.kind == "categoric":
                    alone = len(term.components) == 1
                    expected = alone and full
                    full = full and not alone
                    ours = bool(component.spans_intercept) == expected and _in_our_order(self._pandas[component.name])
            if ours:
                names[term.name] = [term.name]
                self.plain += [c.name for c in term.components]
                continue
            encoding = {c.name: bool(c.spans_intercept) for c in term.components if c.kind == "categoric"}
            values = self._evaluate(term, env, encoding)
            if values.ndim == 1:
                names[term.name] = [self._add(_safe(term.name), term, None, values)]
            else:
                labels = [_safe(label) for label in term.labels]
                names[term.name] = [self._add(label, term, k, values[:, k]) for k, label in enumerate(labels)]
        return names

    def _plain(self, term: Any) -> bool:
        return all(isinstance(c, Variable) and c.reference is None for c in term.components)

    def _groups(self, description: Any, names: dict[str, list[str]]) -> list[str]:
        """Group terms in the notation of the command line: "g", "g: a,b"."""
        slopes: dict[tuple[str, ...], list[str]] = {}
        with_intercept: set[tuple[str, ...]] = set()
        for term in description.group_terms:
            if not self._plain(term.factor):
                raise UsageError(f"the group of ({term.name}) is not a column: make it a column")
            factor = tuple(c.name for c in term.factor.components)
            own = slopes.setdefault(factor, [])
            if isinstance(term.expr, Intercept):
                with_intercept.add(factor)
            elif term.expr.name in names:
                own += names[term.expr.name]
            else:
                raise UsageError(f"'{term.expr.name}' varies by {':'.join(factor)}, so it must be a feature too: add it to {self.text!r}")
        out = []
        for factor in sorted(slopes, key=len):
            written = ":".join(factor)
            if factor in with_intercept and not self.intercept:
                what = f"the intercept varies by {written}, but the model has no intercept"
                raise UsageError(f"{what}, which is not supported yet: write (1 + ... | {written}) and an intercept, or neither")
            own = [] if not self.intercept or factor in with_intercept else ["0"]
            if any(sign in part for part in factor for sign in ":/,="):
                raise UsageError(f"the group {written} has one of : / , = in its name: rename it")
            if len(factor) == 1 or all(factor[:k] in slopes for k in range(1, len(factor))):
                name = "/".join(factor)
                self.plain += factor
            else:
                name = "*".join(factor)
                self.joined[name] = factor
            terms = [*own, *slopes[factor]]
            out.append(f"{name}: {','.join(terms)}" if terms else name)
        return out


def _parts(description: Any) -> list[Any]:
    """Columns and calls of all terms."""
    terms = [description.response.term, *description.common_terms]
    for term in description.group_terms:
        terms += [term.expr, term.factor]
    return [part for term in terms for part in getattr(term, "components", ())]


def _require(frame: Frame, names: set[str]) -> None:
    absent = sorted(name for name in names if name not in frame)
    if absent:
        near = get_close_matches(absent[0], frame.names, 1)
        hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(frame.names[:20])}"
        raise DataError(f"there is no column '{absent[0]}' in data: {hint}")


def _safe(name: str) -> str:
    """A name without the characters that have a meaning on the command line."""
    return name.replace(":", " * ").replace(",", ";")


def _labels(kind: str, cells: Any) -> list[str | None]:
    if kind == "text":
        return list(cells)
    if kind == "boolean":
        return [None if b < 0 else str(bool(b)).lower() for b in cells]
    return [None if np.isnan(x) else f"{x:g}" for x in cells]


def _in_our_order(series: pd.Series) -> bool:
    """False for an ordered categorical whose order differs from that of Rust: numbers by size, then names alphabetically."""
    dtype = series.dtype
    if not isinstance(dtype, pd.CategoricalDtype) or not dtype.ordered:
        return True

    def key(label: str) -> tuple[bool, float, str]:
        try:
            return False, float(label), label
        except ValueError:
            return True, 0.0, label

    labels = [str(c) for c in dtype.categories]
    return labels == sorted(labels, key=key)
