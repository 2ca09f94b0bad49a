"""Formulas on data frames. What Rust can read is read there, as on the command line; the rest is evaluated by `formulae`.

A transformed term such as `np.log(x)`, or one whose contrasts differ from ours, becomes a numeric column, and the formula that Rust gets names it
between backquotes; its term is kept to evaluate new data in the same way. Group terms are cut out before: formulae would lose their correlations.
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

from . import _certus
from .errors import DataError, UsageError
from .frames import Column, Frame
from .kept_terms import kept, restored

PROPORTIONS = ("p(", "prop(", "proportion(")
SAMPLE = 1000


def environment(depth: int) -> Environment:
    """The names in the scope of the caller `depth` frames up, and NumPy as np."""
    frame = inspect.currentframe()
    for _ in range(depth + 1):
        frame = frame.f_back if frame is not None else None
    spaces: list[Any] = [{"np": np}] if frame is None else [frame.f_locals, frame.f_globals, {"np": np}]
    return Environment(spaces)


def read(text: str, frame: Frame, env: Environment) -> Formula:
    """A formula with its table, read in Rust or, where that is not possible, by formulae."""
    try:
        response, intercept, fixed, groups, offset, trials, others = _certus.read_formula(text)
    except UsageError as error:
        return Evaluated(text, frame, env, error)
    if others is not None:
        return _with_others(text, frame, response, fixed, groups, offset, trials)
    features = [name for term in fixed for name in term]
    used = [*features, *(offset or ())]
    absent = {name for name in used if name not in frame}
    if absent:
        # a name inside a call may be one in the caller's scope
        try:
            return Evaluated(text, frame, env, None)
        except UsageError:
            _require(frame, absent)
    if frame.pandas_like and not all(_in_our_order(series) for _, series in frame.pandas(features).items()):
        return Evaluated(text, frame, env, None)
    factors = [name for group in groups for name in group]
    own = Formula(text, response, groups, [response, *used, *([] if trials is None else [trials])], factors)
    own.in_text = {role for role, names in (("offset", offset), ("trials", trials)) if names is not None}
    _require(frame, {*own.plain})
    return own


def _with_others(
    text: str, frame: Frame, response: str, fixed: list[list[str]], groups: list[list[str]], offset: list[str] | None, trials: str | None
) -> Formula:
    """A formula with '.', for which Rust gets all columns."""
    factors = [name for group in groups for name in group]
    if frame.pandas_like and (name := next((n for n, series in frame.pandas(frame.names).items() if not _in_our_order(series)), None)) is not None:
        raise UsageError(f"'.' takes the levels of a column in sort order, but those of '{name}' have another: write the columns out, or .astype(str)")
    _require(frame, {response, *(name for term in fixed for name in term), *(offset or ()), *([] if trials is None else [trials]), *factors})
    own = Formula(text, response, groups, frame.names, [])
    own.factors = set(factors) - {name for term in fixed for name in term}
    own.in_text = {role for role, names in (("offset", offset), ("trials", trials)) if names is not None}
    return own


class Formula:
    """A formula that Rust reads: its text, and the columns that it names."""

    def __init__(self, text: str, response: str, groups: list[list[str]], names: list[str], factors: list[str]) -> None:
        self.text = text
        self.response = response
        self.groups = [":".join(group) for group in groups]
        self.plain = [*names, *factors]
        self.factors = set(factors) - set(names)
        """Columns that only name groups."""
        self.offset: str | None = None
        """The column of an offset that is not in the text."""
        self.in_text: set[str] = set()
        """Roles that the text names."""
        self.trials: str | None = None

    def columns(self, frame: Frame) -> dict[str, Column]:
        """The columns of the table that the model uses."""
        return frame.columns(dict.fromkeys(self.plain))

    def again(self, frame: Frame) -> dict[str, Column]:
        """The same for the data of the fit, after `forget`."""
        return self.columns(frame)

    def forget(self) -> None:
        """Releases the columns made for the fit."""

    def new_columns(self, frame: Frame, groups: bool = True) -> dict[str, Column]:
        """The same for new data; the response is not needed, and columns that only name groups are omitted without `groups`."""
        unused = {self.response} if groups else {self.response, *self.factors}
        return frame.columns(name for name in dict.fromkeys(self.plain) if name not in unused)


class Evaluated(Formula):
    """A formula whose fixed part is evaluated by formulae; its text is that of the formula with the columns made."""

    def __init__(self, text: str, frame: Frame, env: Environment, unread: UsageError | None) -> None:
        self._written = text
        fixed, groups = _certus.formula_pieces(text)
        if "~" not in text or text.lstrip().startswith("~"):
            raise unread or UsageError(f"the formula {text!r} has no response: write 'y ~ ...'")
        try:
            description = model_description(fixed)
        except Exception as error:
            raise unread or UsageError(f"the formula {text!r} cannot be read: {error}") from None
        if description.group_terms:
            raise unread or UsageError(f"the group terms of {text!r} cannot be read: write (1 + x | g)")
        # a name inside a call may also be one in the caller's scope
        _require(frame, {name for part in _parts(description) if isinstance(part, Variable) for name in part.var_names})
        known = {name for part in _parts(description) for name in part.var_names if name in frame}
        self.evaluated: dict[str, tuple[Any, int | None]] = {}
        """Columns made here: the term, and the index of its column."""
        self.plain = []
        self.offset = None
        self.in_text = set()
        self.trials = None
        self.intercept = any(isinstance(t, Intercept) for t in description.common_terms)
        self.known = known
        self._made: dict[str, Column] = {}
        self._pandas = frame.pandas(known)
        self._complete = ~self._pandas.isna().any(axis=1).to_numpy(dtype=bool)
        self.response = self._response(description.response.term, env)
        names = self._features(description, env)
        terms = ["1" if self.intercept else "0", *(column for columns in names.values() for column in columns)]
        terms += [self._group(names, *group) for group in groups]
        self.text = f"{_certus.quoted(self.response)} ~ {' + '.join(terms)}"
        factors = _certus.read_formula(self.text)[3]
        self.groups = [":".join(group) for group in factors]
        self.factors = {name for group in factors for name in group} - set(self.plain)
        self.plain += [name for group in factors for name in group]
        _require(frame, set(self.plain))
        del self._pandas, self._complete

    def __getstate__(self) -> dict[str, Any]:
        terms = {id(term): term for term, _ in self.evaluated.values()}
        packed = {key: kept(term) for key, term in terms.items()}
        return {**self.__dict__, "_made": {}, "evaluated": packed, "_places": {name: (id(term), place) for name, (term, place) in self.evaluated.items()}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        places = state.pop("_places")
        terms = {key: restored(*packed) for key, packed in state.pop("evaluated").items()}
        self.__dict__.update(state)
        self.evaluated = {name: (terms[key], place) for name, (key, place) in places.items()}

    def columns(self, frame: Frame) -> dict[str, Column]:
        """The columns of the table that the model uses, and those made here."""
        return {**super().columns(frame), **self._made}

    def again(self, frame: Frame) -> dict[str, Column]:
        """The same for the data of the fit, after `forget`: terms are evaluated on the complete rows, as they were for the fit."""
        data = frame.pandas(self.known)
        complete = ~data.isna().any(axis=1).to_numpy(dtype=bool)
        out = super().columns(frame)
        made: dict[int, NDArray[np.float64]] = {}
        for name, (term, place) in self.evaluated.items():
            if id(term) not in made:
                values = np.asarray(term.eval_new_data(data[complete]), dtype=np.float64)
                made[id(term)] = np.full((len(complete), *values.shape[1:]), np.nan)
                made[id(term)][complete] = values
            whole = made[id(term)]
            out[name] = ("number", np.ascontiguousarray(whole if place is None else whole[:, place]))
        return out

    def forget(self) -> None:
        """Releases the columns made for the fit."""
        self._made = {}

    def new_columns(self, frame: Frame, groups: bool = True) -> dict[str, Column]:
        """The same for new data."""
        out = super().new_columns(frame, groups)
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
            raise UsageError(f"the term {term.name} of {self._written!r} cannot be evaluated: {error}") from error
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
        """The columns of every common term, as a formula writes them."""
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
            return {t.name: [_product(t)] for t in common}
        model = Description(*([Intercept()] if self.intercept else []), *common)
        try:
            model.eval(sample, env)
        except Exception as error:
            raise UsageError(f"the formula {self._written!r} cannot be evaluated: {error}") from error
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
                names[term.name] = [_product(term)]
                self.plain += [c.name for c in term.components]
                continue
            encoding = {c.name: bool(c.spans_intercept) for c in term.components if c.kind == "categoric"}
            values = self._evaluate(term, env, encoding)
            if values.ndim == 1:
                names[term.name] = [_certus.quoted(self._add(_safe(term.name), term, None, values))]
            else:
                labels = [_safe(label) for label in term.labels]
                names[term.name] = [_certus.quoted(self._add(label, term, k, values[:, k])) for k, label in enumerate(labels)]
        return names

    def _plain(self, term: Any) -> bool:
        return all(isinstance(c, Variable) and c.reference is None for c in term.components)

    def _group(self, names: dict[str, list[str]], effects: str, correlated: bool, factor: str) -> str:
        """A group term, its effects with the columns made."""
        try:
            terms = model_description(f"y ~ {effects}").common_terms
        except Exception as error:
            raise UsageError(f"the effects {effects!r} of a group term cannot be read: {error}") from None
        columns = ["1" if any(isinstance(t, Intercept) for t in terms) else "0"]
        for term in terms:
            if isinstance(term, Intercept):
                continue
            if term.name not in names and self._plain(term):
                self.plain += [c.name for c in term.components]
                names[term.name] = [_product(term)]
            if term.name not in names:
                raise UsageError(f"'{term.name}' varies by {factor}, so it must be a fixed effect too: add it to {self._written!r}")
            columns += names[term.name]
        return f"({' + '.join(columns)} {'|' if correlated else '||'} {factor})"


def _product(term: Any) -> str:
    """A product of plain columns."""
    return ":".join(_certus.quoted(c.name) for c in term.components)


def _parts(description: Any) -> list[Any]:
    """Columns and calls of all terms."""
    terms = [description.response.term, *description.common_terms]
    return [part for term in terms for part in getattr(term, "components", ())]


def _require(frame: Frame, names: set[str]) -> None:
    absent = sorted(name for name in names if name not in frame)
    if absent:
        near = get_close_matches(absent[0], frame.names, 1)
        hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(frame.names[:20])}"
        raise DataError(f"there is no column '{absent[0]}' in data: {hint}")


def _safe(name: str) -> str:
    """A name without the characters that have a meaning in settings."""
    return name.replace(":", " * ").replace(",", ";")


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
