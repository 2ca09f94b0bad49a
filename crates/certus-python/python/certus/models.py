"""Regression models on data frames and matrices: `certus.logistic("y ~ a + b", data=df)` or `certus.logistic(X, y)`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _certus
from .errors import DataError, UsageError
from .fit import Fit
from .fit import fit as _fit
from .frames import Column, Frame
from .progress import Show
from .result import Section
from .settings import coefficient_prior, infinite, number, run_settings

if TYPE_CHECKING:
    from .formulas import Formula

CoefficientPrior = float | tuple[float, float] | Mapping[str, float]
"""The prior of one coefficient: its sd, (mean, sd), or {"mean": ..., "sd": ...}."""


class Plan(list[tuple[str, str]]):
    """What a fit would do, as pairs of a label and a value; prints the same as `certus plan`.

    `theorems` has what the theorems guarantee for the paper's methods and ours, as fields: `curvature`, `ball`, and for every method and set of constants
    in `methods` the theorem, its constants, step sizes, the bounds after T iterations and the iterations for the gap; None if no theorem applies.
    """

    def __init__(self, text: str, fields: str) -> None:
        words = json.loads(fields)
        super().__init__((what, value) for what, value in words["lines"])
        self._text = text
        self.theorems: Section | None = None if words["theorems"] is None else Section(words["theorems"])

    def __repr__(self) -> str:
        return self._text.rstrip("\n")


class NewColumns:
    """How new data become the columns of a model."""

    def __init__(self, words: dict[str, Any], formula: Formula | None, names: list[str] | None) -> None:
        self.roles = [words[role] for role in ("offset", "exposure", "trials") if role in words]
        self.formula = formula
        self.names = names

    def of(self, data: Any, groups: bool = True) -> dict[str, Column]:
        """Columns of new data for `predict`, without those of groups if they are not needed."""
        if self.names is not None and isinstance(data, np.ndarray):
            return matrix_columns(data, self.names)
        frame = Frame(data)
        columns = frame.columns() if self.formula is None else {**frame.columns(self.roles), **self.formula.new_columns(frame, groups)}
        # a model without features still has rows to predict
        return columns or {"": ("number", np.zeros(frame.rows))}


class Model:
    """A model with its data. `fit` fits it, `plan` describes the fit and its cost.

    A pickle of it holds the data as they are when it is made: do not change them in place before.
    """

    def __init__(self, model: _certus.Model, words: dict[str, Any], formula: Formula | None, names: list[str] | None, made: tuple[Any, ...]) -> None:
        self._model = model
        self._words = words
        self._formula = formula
        self._new = NewColumns(words, formula, names)
        self._made = made
        """The function that makes the model again, and its arguments."""

    def __reduce__(self):
        again, *given = self._made
        return again, tuple(given)

    @property
    def names(self) -> list[str]:
        """Names of the coefficients."""
        return self._model.names

    @property
    def dim(self) -> int:
        """Number of latents."""
        return self._model.dim

    @property
    def rows(self) -> int:
        """Number of rows used."""
        return self._model.rows

    @property
    def notes(self) -> list[str]:
        """Notes about the data, and the prior on the scale of the data."""
        return self._model.notes

    def fit(
        self,
        *,
        gap: float = 0.01,
        delta: float = 0.01,
        accuracy: float | None = None,
        posterior: str = "auto",
        rigorous: bool = False,
        method: str = "auto",
        seed: int = 0,
        max_time: float | None = None,
        level: str | None = None,
        threads: int | None = None,
        progress: bool | Show | None = None,
        constants: str | None = None,
        steps: str | None = None,
        batch: int | None = None,
        iterations: int | None = None,
        row_batch: int | None = None,
        factor: str | None = None,
    ) -> Fit:
        """Fits the model and certifies the result; see `certus.fit`. `factor="diagonal"` requests independent coefficients (mean field)."""
        return _fit(
            self, gap=gap, delta=delta, accuracy=accuracy, posterior=posterior, rigorous=rigorous, method=method, seed=seed, max_time=max_time, level=level,
            threads=threads, progress=progress, constants=constants, steps=steps, batch=batch, iterations=iterations, row_batch=row_batch, factor=factor,
        )

    def plan(self, **settings: Any) -> Plan:
        """Describes `fit` with the same settings without running it, and what the theorems guarantee for the paper's methods."""
        return Plan(*self._model.plan(infinite(run_settings(**settings))))

    def new_columns(self, data: Any, groups: bool = True) -> dict[str, Column]:
        """Columns of new data for `predict`, without those of groups if they are not needed."""
        return self._new.of(data, groups)

    def __repr__(self) -> str:
        groups = f", groups {', '.join(self._formula.groups)}" if self._formula is not None and self._formula.groups else ""
        response = self._words["response"] if self._formula is None else self._formula.response
        return f"<certus {self._words['model']} regression of {response}: {self.rows} rows, {self.dim} latents{groups}>"


def matrix_columns(x: np.ndarray, names: Sequence[str]) -> dict[str, Column]:
    """The columns of a matrix."""
    if x.ndim != 2 or x.shape[1] != len(names):
        raise DataError(f"X has shape {x.shape}, but {len(names)} columns are required")
    return {name: ("number", np.ascontiguousarray(x[:, k], dtype=np.float64)) for k, name in enumerate(names)}


def _vector(name: str, values: Any, rows: int | None = None) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype == object or array.dtype.kind not in "fiub":
        raise DataError(f"{name} has dtype {array.dtype}, but numbers are required")
    if array.ndim != 1 or (rows is not None and len(array) != rows):
        required = "one entry per row" if rows is None else f"{rows} entries"
        raise DataError(f"{name} has shape {array.shape}, but {required} is required" if rows is None else f"{name} has shape {array.shape}, but {required} are required")
    return np.ascontiguousarray(array, dtype=np.float64)


BINARY = ("logistic", "probit")
ROLES = ("offset", "exposure", "trials", "weights")


def _response(values: Any, rows: int, binary: bool) -> np.ndarray | list[str | None]:
    """Numbers, or the levels of a binary response as text."""
    array = np.asarray(values)
    if not binary or array.dtype.kind not in "OUS" or array.shape != (rows,):
        return _vector("y", values, rows)
    return [None if x is None or x != x else str(x) for x in array.tolist()]


def _settings(
    model: str,
    *,
    prior_sd: float,
    intercept_prior_sd: float,
    priors: Mapping[str, CoefficientPrior] | None,
    group_sd: float | Mapping[str, float] | None,
    sd_prior: str | None,
    sd_prior_scale: float | None,
    scales: str | None,
    sigma: float | None,
    dispersion: float | None,
    standardise: bool,
    missing: str,
    reml: bool = False,
    ml: bool = False,
    prove: str | None = None,
    event: Any = None,
) -> dict[str, Any]:
    words: dict[str, Any] = {"model": model}
    if event is not None:
        words["event"] = str(event).lower() if isinstance(event, (bool, np.bool_)) else str(event)
    for name, asked in (("reml", reml), ("ml", ml)):
        if not isinstance(asked, (bool, np.bool_)):
            raise UsageError(f"{name} is {asked!r}, but True or False is required")
        if asked:
            words[name] = True
    for name, sd, usual in (("prior-sd", prior_sd, 2.5), ("intercept-prior-sd", intercept_prior_sd, 10.0)):
        if sd != usual:
            words[name] = number(name.replace("-", "_"), sd)
    if priors:
        words["priors"] = {str(name): coefficient_prior(f"priors[{name!r}]", prior) for name, prior in priors.items()}
    if isinstance(group_sd, Mapping):
        words["group-sd"] = [f"{str(g).replace(':', '/')}={number('group_sd', sd)!r}" for g, sd in group_sd.items()]
    elif group_sd is not None:
        words["group-sd"] = [repr(number("group_sd", group_sd))]
    for name, text in (("sd_prior", sd_prior), ("scales", scales), ("prove", prove)):
        if text is not None:
            if not isinstance(text, str):
                raise UsageError(f"{name} is {text!r}, but a word is required")
            words[name.replace("_", "-")] = text.replace("_", "-")
    for name, value in (("sigma", sigma), ("dispersion", dispersion), ("sd-prior-scale", sd_prior_scale)):
        if value is not None:
            words[name] = number(name.replace("-", "_"), value)
    if not isinstance(standardise, (bool, np.bool_)):
        raise UsageError(f"standardise is {standardise!r}, but True or False is required")
    if not standardise:
        words["no-standardise"] = True
    if missing != "error":
        words["missing"] = missing
    return words


def _of_formula(words: dict[str, Any], text: str, data: Any, roles: dict[str, Any], depth: int) -> Model:
    if data is None:
        raise UsageError("a formula needs data=: a data frame with its columns")
    # formulae takes half a second to import, and matrices and targets don't need it
    from .formulas import environment
    from .formulas import read as read_formula

    frame = Frame(data)
    formula = read_formula(text, frame, environment(depth + 1))
    columns = formula.columns(frame)
    arrays: dict[str, Column] = {}
    for role, value in roles.items():
        own = getattr(formula, role, None)
        if value is None and own is None:
            continue
        if value is not None and (own is not None or role in formula.in_text):
            raise UsageError(f"{role} is given twice, by {role}= and in the formula: give it once")
        if value is None:
            words[role] = own
        elif isinstance(value, str):
            if value not in frame:
                raise DataError(f"{role} names the column '{value}', which is not found in the data: there are {', '.join(frame.names[:20])}")
            words[role] = value
            columns[value] = frame.column(value)
        else:
            if role in columns or role in arrays:
                raise UsageError(f"data already has a column '{role}': name it, {role}='{role}', or rename it")
            words[role] = role
            arrays[role] = ("number", _vector(role, value, frame.rows))
    words["formula"] = formula.text
    model = _certus.Model({**columns, **arrays}, infinite(words))
    formula.forget()
    return Model(model, words, formula, None, (_again, words, formula, frame.data, arrays))


def _again(words: dict[str, Any], formula: Formula, data: Any, arrays: dict[str, Column]) -> Model:
    """The model of a formula that was read before."""
    frame = Frame(data)
    columns = formula.again(frame)
    columns |= {name: frame.column(name) for role in ROLES if (name := words.get(role)) is not None and name in frame and name not in columns and name not in arrays}
    return Model(_certus.Model({**columns, **arrays}, infinite(words)), words, formula, None, (_again, words, formula, data, arrays))


def _of_matrix(words: dict[str, Any], x: Any, y: Any, roles: dict[str, Any], intercept: bool, names: Sequence[str] | None) -> Model:
    if y is None:
        raise UsageError("the response is not given: pass a formula with data=, or X and y")
    made = (_of_matrix, dict(words), x, y, roles, intercept, names)
    if not isinstance(x, np.ndarray) and not isinstance(x, (list, tuple)) and names is None:
        frame = Frame(x)
        names = frame.names
        kinds = {name: frame.column(name) for name in names}
        text = next((n for n, (kind, _) in kinds.items() if kind == "text"), None)
        if text is not None:
            raise DataError(f"the column '{text}' of X contains text: use a formula, which encodes it")
        x = np.column_stack([np.asarray(cells, dtype=np.float64) for _, cells in kinds.values()]) if names else np.empty((frame.rows, 0))
    x = np.asarray(x)
    if x.dtype.kind not in "fiub":
        raise DataError(f"X has dtype {x.dtype}, but numbers are required")
    if x.ndim != 2:
        raise DataError(f"X has shape {x.shape}, but a matrix (rows, columns) is required")
    names = [f"x{k}" for k in range(x.shape[1])] if names is None else [str(n) for n in names]
    if len(names) != x.shape[1]:
        raise UsageError(f"names has {len(names)} entries, but X has {x.shape[1]} columns")
    # float64 in C order is not copied
    x = np.ascontiguousarray(x, dtype=np.float64)
    response = "y"
    given = {role: _vector(role, value, len(x)) for role, value in roles.items() if value is not None}
    clash = next((n for n in (response, *given) if n in names), None)
    if clash is not None:
        raise UsageError(f"a column of X is called '{clash}', which is the name of another role: rename it with names=")
    y = _response(y, len(x), words["model"] in BINARY)
    words |= {"response": response, "features": [_certus.quoted(n) for n in names]} | {role: role for role in given}
    if not intercept:
        words["no-intercept"] = True
    settings = infinite(words)
    model = None
    if isinstance(y, np.ndarray) and not {"missing", "event", "exposure"} & words.keys():
        model = _certus.Model.of_matrix(x, y, list(names), settings, **given)
    if model is None:
        columns = matrix_columns(x, names) | {response: ("number" if isinstance(y, np.ndarray) else "text", y)} | {role: ("number", v) for role, v in given.items()}
        model = _certus.Model(columns, settings)
    return Model(model, words, None, list(names), made)


def _model(model: str, formula: Any, y: Any, data: Any, roles: dict[str, Any], intercept: bool, names: Sequence[str] | None, **prior: Any) -> Model:
    words = _settings(model, **prior)
    if isinstance(formula, str):
        if y is not None:
            raise UsageError("a formula names its response: leave out y and pass data=")
        if names is not None or not intercept:
            raise UsageError("names= and intercept= apply only to matrices; a formula has its own notation (y ~ 0 + ...)")
        return _of_formula(words, formula, data, roles, 2)
    if data is not None:
        raise UsageError("data= applies only to a formula, but the first argument is not a formula")
    return _of_matrix(words, formula, y, roles, intercept, names)


def logistic(
    formula: Any, y: Any = None, *, data: Any = None, event: Any = None, offset: Any = None, weights: Any = None, prior_sd: float = 2.5,
    intercept_prior_sd: float = 10.0, priors: Mapping[str, CoefficientPrior] | None = None, group_sd: float | Mapping[str, float] | None = None,
    sd_prior: str | None = None, sd_prior_scale: float | None = None, scales: str | None = None, ml: bool = False, standardise: bool = True, missing: str = "error", intercept: bool = True, names: Sequence[str] | None = None,
) -> Model:
    """Logistic regression of a response with two values: 0 and 1, True and False, or any two levels.

    `event` is the level that counts as 1; by default 1, true or yes, else the last level in sort order.

    Give `formula` with `data`, or a matrix X and `y`. `prior_sd` is the prior sd of a coefficient, per sd of a numeric column and per step of a
    two-valued column or a level (per unit of the data with `standardise=False`); infinity is flat. `priors` sets the priors of single coefficients by
    name, in the same units: an sd, (mean, sd) or {"mean": ..., "sd": ...}. `group_sd`, a number or one per group, is the sd of the random effects.
    Without it the groups are integrated out, and the posterior of the sd is computed (`sd_prior` half-normal, half-t, exponential or flat, with
    `sd_prior_scale`), or the sd is estimated (`scales="estimate"`).
    `ml=True` is maximum likelihood with flat priors, also of several random effects, `(1 | a) + (1 | b)`, `(1 | a/b)`, `(x | g)`; `scales="laplace"` is the
    same by the Laplace approximation alone, as in lme4.
    `offset` and `weights` are columns or arrays; weights are frequencies: in the likelihood a row with weight 3 counts as three equal rows (units of default priors are those of the rows as listed). `missing` is "error" or "drop". A float64 X in C order is not copied: do not change it
    while the model is in use.
    """
    return _model(
        "logistic", formula, y, data, {"offset": offset, "weights": weights}, intercept, names, prior_sd=prior_sd,
        intercept_prior_sd=intercept_prior_sd, priors=priors, group_sd=group_sd, sd_prior=sd_prior,
        sd_prior_scale=sd_prior_scale, scales=scales, sigma=None, dispersion=None, standardise=standardise,
        missing=missing, event=event, ml=ml,
    )


def probit(
    formula: Any, y: Any = None, *, data: Any = None, event: Any = None, offset: Any = None, weights: Any = None, prior_sd: float = 2.5,
    intercept_prior_sd: float = 10.0, priors: Mapping[str, CoefficientPrior] | None = None, group_sd: float | Mapping[str, float] | None = None,
    sd_prior: str | None = None, sd_prior_scale: float | None = None, scales: str | None = None, ml: bool = False, standardise: bool = True, missing: str = "error", intercept: bool = True, names: Sequence[str] | None = None,
) -> Model:
    """Probit regression of a response with two values; arguments as for `logistic`."""
    return _model(
        "probit", formula, y, data, {"offset": offset, "weights": weights}, intercept, names, prior_sd=prior_sd,
        intercept_prior_sd=intercept_prior_sd, priors=priors, group_sd=group_sd, sd_prior=sd_prior,
        sd_prior_scale=sd_prior_scale, scales=scales, sigma=None, dispersion=None, standardise=standardise,
        missing=missing, event=event, ml=ml,
    )


def poisson(
    formula: Any, y: Any = None, *, data: Any = None, offset: Any = None, exposure: Any = None, weights: Any = None, prior_sd: float = 2.5,
    intercept_prior_sd: float = 10.0, priors: Mapping[str, CoefficientPrior] | None = None, group_sd: float | Mapping[str, float] | None = None,
    sd_prior: str | None = None, sd_prior_scale: float | None = None, scales: str | None = None, ml: bool = False, standardise: bool = True, missing: str = "error", intercept: bool = True, names: Sequence[str] | None = None,
) -> Model:
    """Poisson regression of counts with the log link; the logarithm of `exposure`, a column or an array, is an offset; arguments as for `logistic`."""
    return _model(
        "poisson", formula, y, data, {"offset": offset, "exposure": exposure, "weights": weights}, intercept, names, prior_sd=prior_sd,
        intercept_prior_sd=intercept_prior_sd, priors=priors, group_sd=group_sd, sd_prior=sd_prior,
        sd_prior_scale=sd_prior_scale, scales=scales, sigma=None, dispersion=None, standardise=standardise,
        missing=missing, ml=ml,
    )


def linear(
    formula: Any, y: Any = None, *, data: Any = None, sigma: float | None = None, offset: Any = None, weights: Any = None,
    prior_sd: float = 2.5, intercept_prior_sd: float = 10.0, priors: Mapping[str, CoefficientPrior] | None = None,
    group_sd: float | Mapping[str, float] | None = None, sd_prior: str | None = None, sd_prior_scale: float | None = None,
    scales: str | None = None, reml: bool = False, ml: bool = False, prove: str | None = None, standardise: bool = True, missing: str = "error", intercept: bool = True, names: Sequence[str] | None = None,
) -> Model:
    """Linear regression; arguments as for `logistic`.

    If the sd of the noise, `sigma`, is not given, it is inferred like the sd of groups. In both cases priors are in sds of the response, and the prior of
    the intercept is about the mean of the response (unless `standardise=False`).
    `reml=True` and `ml=True` estimate a model with any number of random effects, `(x | g)`, `(1 | a) + (1 | b)`, `(1 | a/b)`, as lme4 does: by (restricted)
    maximum likelihood, with flat priors of the coefficients. `scales="estimate"` is `reml=True` unless priors are given.
    `prove="global"` asks for a proof that no other variances have a higher likelihood (one or two terms of one effect each; tried anyway if it is quick).
    """
    return _model(
        "linear", formula, y, data, {"offset": offset, "weights": weights}, intercept, names, prior_sd=prior_sd,
        intercept_prior_sd=intercept_prior_sd, priors=priors, group_sd=group_sd, sd_prior=sd_prior,
        sd_prior_scale=sd_prior_scale, scales=scales, sigma=sigma, dispersion=None, standardise=standardise,
        missing=missing, reml=reml, ml=ml, prove=prove,
    )


def binomial(
    formula: Any, y: Any = None, *, data: Any = None, trials: Any = None, offset: Any = None, weights: Any = None, prior_sd: float = 2.5,
    intercept_prior_sd: float = 10.0, priors: Mapping[str, CoefficientPrior] | None = None, group_sd: float | Mapping[str, float] | None = None,
    sd_prior: str | None = None, sd_prior_scale: float | None = None, scales: str | None = None, ml: bool = False, standardise: bool = True, missing: str = "error", intercept: bool = True, names: Sequence[str] | None = None,
) -> Model:
    """Logistic regression of successes among `trials`, a column or an array (or prop(y, n) ~ ...); arguments as for `logistic`."""
    return _model(
        "binomial", formula, y, data, {"offset": offset, "weights": weights, "trials": trials}, intercept, names, prior_sd=prior_sd,
        intercept_prior_sd=intercept_prior_sd, priors=priors, group_sd=group_sd, sd_prior=sd_prior,
        sd_prior_scale=sd_prior_scale, scales=scales, sigma=None, dispersion=None, standardise=standardise,
        missing=missing, ml=ml,
    )


def negative_binomial(
    formula: Any, y: Any = None, *, data: Any = None, dispersion: float | None = None, offset: Any = None, exposure: Any = None, weights: Any = None,
    prior_sd: float = 2.5, intercept_prior_sd: float = 10.0, priors: Mapping[str, CoefficientPrior] | None = None,
    group_sd: float | Mapping[str, float] | None = None, sd_prior: str | None = None, sd_prior_scale: float | None = None,
    scales: str | None = None, ml: bool = False, standardise: bool = True, missing: str = "error", intercept: bool = True, names: Sequence[str] | None = None,
) -> Model:
    """Negative-binomial regression of counts with an `exposure` as for `poisson`; a `dispersion` that is not given is inferred like the sd of groups; arguments as for `logistic`."""
    return _model(
        "negative-binomial", formula, y, data, {"offset": offset, "exposure": exposure, "weights": weights}, intercept, names, prior_sd=prior_sd,
        intercept_prior_sd=intercept_prior_sd, priors=priors, group_sd=group_sd, sd_prior=sd_prior,
        sd_prior_scale=sd_prior_scale, scales=scales, sigma=None, dispersion=dispersion, standardise=standardise,
        missing=missing, ml=ml,
    )
