"""Hierarchical variables, centred as the model has them or non-centred: the form whose Gaussian has the better ELBO is kept."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import _certus
from .errors import Error, UsageError
from .targets import Target

if TYPE_CHECKING:
    from .fit import Fit

CHOICES = ("auto", True, False)
ADVICE = (
    "if a scale of the model multiplies other parameters, theta ~ normal(mu, tau), write them non-centred: "
    "theta = mu + tau * z with z ~ normal(0, 1)"
)
Run = Callable[[Target, "dict[str, Any]"], "Fit"]
"""One fit of a target with settings."""


def fitted(target: Target, settings: dict[str, Any], choice: Any, run: Run) -> Fit:
    """The fit of a target in the form that `choice` selects; with "auto" that with the better ELBO, if the own one is not accurate."""
    if not any(choice is one for one in (True, False)) and choice != "auto":
        raise UsageError(f'reparametrise is {choice!r}, but "auto", True or False is required')
    declared = target.log_concave or target.strong_convexity is not None
    form = target.noncentred
    if choice is True:
        if form is None or form.make is None:
            raise UsageError("reparametrise is True, but no variable is known that could be non-centred: leave it out")
        if declared:
            raise UsageError("reparametrise is True, but what is declared holds for the coordinates as they are: leave one of them out")
        return noted(run(form.make(), settings), f"{listed(form.variables)} non-centred, as was asked for")
    if choice is False or declared or form is None or form.make is None:
        found = run(target, settings)
        return noted(found, ADVICE) if form is None and wants_advice(found) else found
    return Trial(target, settings, run).fit()


class Trial:
    """Both forms, first without chains: these take most of the time and are run on the form that is kept."""

    def __init__(self, target: Target, settings: dict[str, Any], run: Run) -> None:
        self.target, self.settings, self.run_once = target, settings, run
        self.began, self.spent = time.monotonic(), 0

    def fit(self) -> Fit:
        own = self.run(self.target, chains=False)
        form = self.target.noncentred
        assert form is not None and form.make is not None
        if own.verdict == "accurate" or own.status == "interrupted":
            return self.finished(own, self.target)
        kept = f"the model was kept as written: with {listed(form.variables, past=False)} non-centred"
        if not self.enough():
            words = "the limits leave too little to try the model non-centred"
            return noted(self.finished(own, self.target), words)
        try:
            other_target = form.make()
            other = self.run(other_target, chains=False)
        except KeyboardInterrupt:
            return own
        except Exception as error:  # the fit of the model as written must not fail with the attempt
            words = f"{kept} there is no fit ({type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''})"
            return noted(self.finished(own, self.target), words)
        ours, theirs = elbo(own), elbo(other)
        if better(theirs, ours):
            words = f"{listed(form.variables)} non-centred (ELBO {number(theirs)} against {number(ours)})"
            return noted(self.finished(other, other_target), words)
        return noted(self.finished(own, self.target), f"{kept} the ELBO is {number(theirs)} against {number(ours)}")

    def run(self, target: Target, chains: bool) -> Fit:
        found = self.run_once(target, self.left() if chains else self.left() | {"posterior": "gaussian"})
        self.spent += found.counts.gradients
        return found

    def left(self) -> dict[str, Any]:
        """The settings with what is left of the limits."""
        left = dict(self.settings)
        if "max-gradients" in left:
            left["max-gradients"] = max(left["max-gradients"] - self.spent, 1)
        if "max-time" in left:
            seconds = float(left["max-time"].removesuffix("s")) - (time.monotonic() - self.began)
            left["max-time"] = f"{max(seconds, 0.0)!r}s"
        return left

    def enough(self) -> bool:
        """The other form takes about as much as the own one, and so does the last run."""
        left = self.left()
        elapsed = time.monotonic() - self.began
        time_left = float(left.get("max-time", "inf").removesuffix("s"))
        return left.get("max-gradients", math.inf) >= 2 * self.spent and time_left >= 2 * elapsed

    def finished(self, found: Fit, target: Target) -> Fit:
        """With what `posterior` asks for, if there is more to do than the Gaussian; the settings are those that were given."""
        settings = self.settings
        done = found.verdict == "accurate" and "posterior" not in settings and "accuracy" not in settings
        if not done and settings.get("posterior") != "gaussian" and found.status != "interrupted":
            found = self.run(target, chains=True)
        return changed(found, settings=settings)


def elbo(fit: Fit) -> tuple[float, float]:
    """An estimate from fresh draws and its standard error."""
    value, error = fit.neg_elbo, fit.neg_elbo_se
    return (-math.inf, 0.0) if value is None else (-value, error or 0.0)


def better(a: tuple[float, float], b: tuple[float, float]) -> bool:
    """By more than two standard errors of the difference."""
    return a[0] - b[0] > 2 * math.hypot(a[1], b[1])


def number(estimate: tuple[float, float]) -> str:
    """"-31.536 ± 0.0046": as many digits as the error has."""
    value, error = estimate
    if not math.isfinite(value) or not error > 0:
        return f"{value:.4g}"
    digits = max(0, 1 - math.floor(math.log10(error)))
    return f"{value:.{digits}f} ± {error:.{digits}f}"


def listed(names: tuple[str, ...], past: bool = True) -> str:
    """"a, b and c were"."""
    text = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return text + (" was" if len(names) == 1 else " were") * past


def wants_advice(fit: Fit) -> bool:
    """Numbers that fall short, for a reason that another parametrisation may remove."""
    short = fit.verdict in ("unreliable", "usable after correction") and fit.status != "reached"
    return short and fit.status != "interrupted" and len(fit.names) > 1 and not fit.comparison["missed"]


def noted(fit: Fit, words: str) -> Fit:
    """The fit with a note, which is among its sentences and stays in the directory and the report."""
    return changed(fit, notes=[*fit.notes, words])


def changed(fit: Fit, **fields: Any) -> Fit:
    """The fit with other fields of its record."""
    record, arrays, meaning = fit._fitted.parts()
    values = json.loads(record)
    if all(values.get(name) == value for name, value in fields.items()):
        return fit
    out = type(fit)(_certus.Fitted.of_parts(json.dumps(values | fields), arrays, meaning), fit.source)
    out._corrects = fit._corrects
    return out
