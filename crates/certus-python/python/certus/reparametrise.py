"""Hierarchical variables, centred as the model has them or non-centred: the form with the better ELBO is kept."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _certus, constrained
from .errors import Error, UsageError
from .targets import Target

if TYPE_CHECKING:
    from .fit import Fit

ACCURATE, CONFIDENCE = 0.1, 2.6
"""Those of the verdict: the error of an sd, and how many standard errors it has."""
ADVICE = (
    "if a scale of the model multiplies other parameters, theta ~ normal(mu, tau), write them non-centred: "
    "theta = mu + tau * z with z ~ normal(0, 1)"
)
SHARE = 0.25
"""Of a limit, without which the other form is not tried."""
Run = Callable[[Target, "dict[str, Any]"], "Fit"]
"""One fit of a target with settings."""


def fitted(target: Target, settings: dict[str, Any], choice: Any, run: Run) -> Fit:
    """The fit in the form that `choice` selects: with "auto" that with the better ELBO, if the own is not accurate."""
    if not any(choice is one for one in (True, False)) and choice != "auto":
        raise UsageError(f'reparametrise is {choice!r}, but "auto", True or False is required')
    declared = target.log_concave or target.strong_convexity is not None
    form = target.noncentred
    if choice is True:
        if form is None or form.make is None:
            raise UsageError("reparametrise is True, but no variable is known that could be non-centred: leave it out")
        if declared:
            raise UsageError("reparametrise is True, but what is declared is about the model as written: leave it out")
        found = doubted(run(form.make(), settings), form.variables)
        return noted(found, f"{was(form.variables)} non-centred, as was asked for")
    if choice is False or declared or form is None or form.make is None:
        found = run(target, settings)
        return noted(found, ADVICE) if form is None and wants_advice(found) else found
    return Trial(target, settings, run).fit()


class Trial:
    """Both forms. Without limits, first without chains, which take most of the time: the form that is kept has them.

    With limits of gradients or time nothing is run twice, and the other form has what the own one leaves.
    """

    def __init__(self, target: Target, settings: dict[str, Any], run: Run) -> None:
        self.target, self.settings, self.run = target, settings, run
        self.gradients = settings.get("max-gradients", math.inf)
        self.seconds = float(settings.get("max-time", "inf").removesuffix("s"))
        self.limited = math.isfinite(self.gradients) or math.isfinite(self.seconds)
        self.began, self.spent = time.monotonic(), 0

    def fit(self) -> Fit:
        form = self.target.noncentred
        assert form is not None and form.make is not None
        own = self.first(self.target)
        if own.verdict == "accurate" or own.status == "interrupted":
            return self.last(own)
        kept = f"the model was kept as written: with {listed(form.variables)} non-centred"
        gradients, seconds = self.left()
        if gradients < SHARE * self.gradients or seconds < SHARE * self.seconds:
            return noted(self.last(own), "the limits leave too little to try the model non-centred")
        try:
            other = self.first(form.make())
        except KeyboardInterrupt:
            return changed(own, settings=self.settings)
        except Exception as error:  # the fit of the model as written must not fail with the attempt
            why = f"{type(error).__name__}: {error}".partition("\n")[0]
            return noted(self.last(own), f"{kept} there is no fit ({why})")
        if other.status == "interrupted":
            return changed(own, settings=self.settings)
        ours, theirs = elbo(own), elbo(other)
        if not better(theirs, ours):
            return noted(self.last(own), f"{kept} the ELBO is {number(theirs)} against {number(ours)}")
        words = f"{was(form.variables)} non-centred (ELBO {number(theirs)} against {number(ours)})"
        return noted(doubted(self.last(other), form.variables), words)

    def first(self, target: Target) -> Fit:
        """A fit with what is left of the limits, or one without chains."""
        settings = dict(self.settings)
        gradients, seconds = self.left()
        if "max-gradients" in settings:
            settings["max-gradients"] = int(gradients)
        if "max-time" in settings:
            settings["max-time"] = f"{seconds!r}s"
        if not self.limited:
            settings["posterior"] = "gaussian"
        found = self.run(target, settings)
        self.spent += found.counts.gradients
        return found

    def left(self) -> tuple[float, float]:
        """Gradients and seconds."""
        return max(self.gradients - self.spent, 1), max(self.seconds - (time.monotonic() - self.began), 0.0)

    def last(self, found: Fit) -> Fit:
        """With what `posterior` asks for, if that is more than the Gaussian; the settings are those that were given."""
        asked = {name for name in ("posterior", "accuracy") if name in self.settings}
        done = self.limited or found.status == "interrupted" or self.settings.get("posterior") == "gaussian"
        if not done and (asked or found.verdict != "accurate"):
            found = self.run(found.source, self.settings)
        return changed(found, settings=self.settings)


def elbo(fit: Fit) -> tuple[float, float]:
    """An estimate from fresh draws and its standard error."""
    value, error = fit.neg_elbo, fit.neg_elbo_se
    return (-math.inf, 0.0) if value is None else (-value, error or 0.0)


def better(a: tuple[float, float], b: tuple[float, float]) -> bool:
    """By more than two standard errors of the difference."""
    return a[0] - b[0] > 2 * math.hypot(a[1], b[1])


def number(estimate: tuple[float, float]) -> str:
    """"-31.536 ± 0.0046"."""
    value, error = estimate
    if not math.isfinite(value):
        return "not known"
    # -0.0 + 0.0 is 0.0
    return f"{round(value, 3) + 0.0:.3f} ± {error:.2g}"


def listed(names: tuple[str, ...]) -> str:
    """"a, b and c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def was(names: tuple[str, ...]) -> str:
    return f"{listed(names)} {'was' if len(names) == 1 else 'were'}"


# The standard error of the sd of n draws, as a fraction of it, is √((κ - 1) / 4n) with their kurtosis κ; draws with the
# weights w, whose sum is 1, count as n = 1 / Σ w².
def doubted(fit: Fit, variables: tuple[str, ...]) -> Fit:
    """The fit, unreliable if it is called accurate but its draws do not give the sds of the non-centred variables.

    The verdict is about t. x = location + scale t may have tails that are far heavier, as in a funnel without data.
    """
    source = fit.source
    if fit.verdict != "accurate" or source.constrain is None:
        return fit
    draws, weights = constrained.weighted_draws(fit, source)
    values = source.constrain(draws)
    worst, where = 0.0, ""
    for variable in source.variables:
        if variable.name in variables:
            x = np.asarray(values[variable.name], dtype=np.float64).reshape(len(draws), -1)
            x = x - weights @ x
            kurtosis = weights @ x**4 / (weights @ x**2) ** 2
            errors = CONFIDENCE * np.sqrt((kurtosis - 1) / 4 * (weights**2).sum())
            if errors.max() > worst:
                worst = float(errors.max())
                where = constrained.entries(variable, source.coords or {})[int(errors.argmax())]
    if worst <= ACCURATE:
        return fit
    tails = f"the tails of {where} are so heavy that draws give its sd to about {100 * worst:.0f} % only"
    why = f"{tails}; {fit.to_dict()['comparison']['why']}"
    record = {"verdict": "unreliable", "status": "limit", "message": f"unreliable: {why}"}
    return changed(fit, **record, comparison=fit.to_dict()["comparison"] | {"why": why})


def wants_advice(fit: Fit) -> bool:
    """Numbers that fall short, for a reason that another parametrisation may remove."""
    short = fit.verdict in ("unreliable", "usable after correction") and fit.status != "reached"
    return short and fit.status != "interrupted" and len(fit.names) > 1 and not fit.to_dict()["comparison"]["missed"]


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
