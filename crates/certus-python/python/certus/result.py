"""What fit.json holds, as typed attributes (docs/fit-json.md explains every field)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, get_args, get_type_hints


class Fields(Mapping[str, Any]):
    """An object of fit.json whose keys are attributes; a declared field that the file does not have is None."""

    __slots__ = ("_values",)

    def __init__(self, values: dict[str, Any]) -> None:
        object.__setattr__(self, "_values", values)

    _values: dict[str, Any]

    if not TYPE_CHECKING:  # only the declared fields are known to type checkers

        def __getattr__(self, name: str) -> Any:
            if name in self._values:
                return typed(self._values[name], declared(type(self)).get(name))
            if name in declared(type(self)):
                return None
            raise AttributeError(f"there is no attribute {name!r}: there are {', '.join(self._values)}")

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a fit cannot be changed")

    def __getitem__(self, name: str) -> Any:
        return typed(self._values[name], declared(type(self)).get(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __dir__(self):
        return [*super().__dir__(), *self._values]

    def __repr__(self) -> str:
        return json.dumps(self._values, indent=2, ensure_ascii=False)

    def __reduce__(self):
        return type(self), (self._values,)


class Section(Fields):
    """An object whose keys depend on the fit: settings, versions, constants."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


class Assumption(Fields):
    """What a statement rests on, and who says so: "model", "user" or "estimate"."""

    __slots__ = ()
    what: str
    by: str
    reason: str | None


class Statement(Fields):
    """A bound in nats and how strong it is: "proved", "probable", "estimated" or "none"."""

    __slots__ = ()
    bound: float | None
    level: str
    delta: float | None
    theorem: str | None
    reason: str | None
    assumptions: list[Assumption]
    constants: Section
    mean_error: float | None
    sd_error: float | None


class Gap(Statement):
    """The distance to the best Gaussian."""

    __slots__ = ()
    family: str


class Posterior(Statement):
    """The distance from the posterior."""

    __slots__ = ()
    log_evidence: list[float] | None


class GroupEffect(Fields):
    """The posterior of one group's effect."""

    __slots__ = ()
    group: str
    rows: int
    mean: float
    sd: float
    q05: float
    q50: float
    q95: float


class OtherScale(Fields):
    """A scale beside the first."""

    __slots__ = ()
    name: str
    prior: str | None
    estimate: float | None
    log_standard_error: float | None
    interval: list[float] | None


class ScaleMaximum(Fields):
    """A maximum of the objective over the scales and the coefficients."""

    __slots__ = ()
    estimate: float
    others: list[float]
    log_likelihood: float
    log_objective: float


class Scale(Fields):
    """What is known of scales that were not given; `scale["global"]` says whether a maximum is proved to be the highest."""

    __slots__ = ()
    name: str
    group: str | None
    groups: int
    scales: str
    prior: str | None
    objective: str
    estimate: float | None
    log_standard_error: float | None
    interval: list[float] | None
    level: str
    theorem: str | None
    reason: str | None
    radius: float | None
    exclusion: float | None
    global_reason: str | None
    zero: list[str] | None
    others: list[OtherScale]
    maxima: list[ScaleMaximum]
    searched: list[float] | None
    not_excluded: list[list[float]] | None
    not_excluded_reason: str | None
    log_likelihood: float | None
    log_likelihood_error: float | None
    log_evidence: float | None
    nodes: int
    refinement: float | None
    smallest: list[GroupEffect]
    largest: list[GroupEffect]


class Certificate(Fields):
    """What is known about the Gaussian."""

    __slots__ = ()
    gap: Gap
    posterior: Posterior
    scale: Scale | None


class Parameter(Fields):
    """One printed row, and how far its numbers may be from the posterior's."""

    __slots__ = ()
    name: str
    mean: float | None
    sd: float | None
    q05: float | None
    q50: float | None
    q95: float | None
    mean_error: float | None
    sd_error: float | None
    quantile_error: float | None
    level: str | None
    source: str | None


class Table(Fields):
    """Where the printed numbers come from, if they are not the Gaussian's own."""

    __slots__ = ()
    source: str
    level: str
    delta: float | None
    mean_error: float | None
    sd_error: float | None
    quantile_error: float | None
    made: str
    constants: Section


class Mode(Fields):
    """A maximum of a log density."""

    __slots__ = ()
    point: list[float]
    log_density: float
    log_mass: float
    distance: float
    symmetry: str | None


class Comparison(Fields):
    """What the verdict on a log density was decided by."""

    __slots__ = ()
    why: str
    mean_shift: float | None
    mean_shift_se: float | None
    sd_shift: float | None
    sd_shift_se: float | None
    log_concave: str
    not_certified: str | None
    starts: int
    unended: int
    missed: int
    modes: list[Mode]


class Criterion(Fields):
    """What was maximised, of a mixed model estimated by REML or ML."""

    __slots__ = ()
    kind: str
    value: float
    log_likelihood: float
    df: int
    aic: float
    bic: float
    r2_marginal: float | None
    r2_conditional: float | None


class Counts(Fields):
    """What was spent."""

    __slots__ = ()
    gradients: int
    hessians: int
    exact_passes: int


class TracePoint(Fields):
    """One recorded point of the run."""

    __slots__ = ()
    seconds: float
    iteration: int
    gradients: int
    neg_elbo: float | None
    bound: float | None


class Data(Fields):
    """What was read."""

    __slots__ = ()
    rows: int | None
    fingerprint: str | None
    responses: str | None


@cache
def declared(kind: type) -> dict[str, Any]:
    """The declared fields of a kind of object, and their types."""
    hints = get_type_hints(kind)
    return {name: hint for name, hint in hints.items() if not name.startswith("_")}


def typed(value: Any, hint: Any) -> Any:
    """A value of fit.json as its declared type has it."""
    if isinstance(value, dict):
        kinds = [kind for kind in (hint, *get_args(hint)) if isinstance(kind, type) and issubclass(kind, Fields)]
        return (kinds[0] if kinds else Section)(value)
    if isinstance(value, list):
        lists = [kind for kind in (hint, *get_args(hint)) if getattr(kind, "__origin__", None) is list]
        entry = get_args(lists[0])[0] if lists else None
        return [typed(entry_value, entry) for entry_value in value]
    return value
