"""What a certificate says, in plain sentences for people."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import Any


def figure(x: float | None, digits: int = 3) -> str:
    """A number that people read: few digits, rounded up, so that a bound stays one."""
    if x is None:
        return "?"
    return f"{float(Context(prec=digits, rounding=ROUND_CEILING).create_decimal_from_float(x)):.{digits}g}"


def gap(certificate: dict[str, Any]) -> str:
    """The gap to the best Gaussian."""
    stated = certificate["gap"]
    bound, level = stated["bound"], stated["level"]
    if level == "none" or bound is None:
        return f"nothing is known of the distance to the best Gaussian: {stated['reason'] or 'nothing was measured'}"
    words = f"{figure(bound)} nats from the best Gaussian"
    if level == "proved":
        return f"proved: at most {words}"
    if level == "probable":
        return f"probable: with probability {1 - stated['delta']:g} at most {words}"
    return f"only estimated: about {words} or less"


def posterior(certificate: dict[str, Any]) -> str:
    """The distance from the posterior."""
    stated = certificate["posterior"]
    bound, level = stated["bound"], stated["level"]
    if level == "none" or bound is None:
        return f"the distance from the posterior is not known: {stated['reason'] or 'nothing was measured'}"
    words = f"KL(q, posterior) at most {figure(bound)} nats"
    if level == "proved":
        return f"{words}, proved"
    if level == "probable":
        return f"{words}, with probability {1 - stated['delta']:g}"
    return f"{words}, only estimated"


def scale(stated: dict[str, Any]) -> str:
    """Scales that were not given."""
    name, estimate = stated["name"], stated["estimate"]
    if stated["interval"] is None:
        others = "".join(f" with {other['name']} about {other['estimate']:.5g}" for other in stated["others"])
        return f"{name} about {estimate:.5g}{others} maximises the {objective(stated)}; nothing is proved of it: {stated['reason']}"
    low, high = stated["interval"]
    ends = f"{_end(low, up=False, digits=7)} and {_end(high, up=True, digits=7)}"
    return f"proved: the {objective(stated)} has a maximum at {name} between {ends}"


def _end(x: float, *, up: bool, digits: int = 4) -> str:
    """The end of an interval, rounded up or down."""
    rounding = ROUND_CEILING if up else ROUND_FLOOR
    return f"{float(Context(prec=digits, rounding=rounding).create_decimal_from_float(x)):.{digits}g}"


def objective(stated: dict[str, Any]) -> str:
    """What is maximised, as fit.json says it; older files do not say, and a flat prior is a penalty of 0."""
    return str(stated.get("objective", "penalised likelihood"))


def maxima(stated: dict[str, Any]) -> list[str]:
    """Other maxima: those that were found, and where others are not excluded."""
    lines: list[str] = []
    found = stated.get("maxima") or []
    if len(found) > 1:
        top = found[0]["log_objective"]
        others = ", ".join(f"{m['estimate']:.5g} ({top - m['log_objective']:.5g} nats lower)" for m in found[1:])
        lines.append(f"{len(found)} maxima of the {objective(stated)} were found; the estimate is the highest, the others are at {others}")
    searched, left, reason = stated.get("searched"), stated.get("not_excluded"), stated.get("not_excluded_reason")
    if searched is None:
        return [*lines, f"other maxima of the {objective(stated)} are not excluded"] if found else lines
    # what holds of the whole range is said of a smaller one
    between = f"{_end(searched[0], up=True)} to {_end(searched[1], up=False)}"
    if left is not None:
        parts = " and ".join(f"{_end(low, up=False)} to {_end(high, up=True)}" for low, high in left)
        return [*lines, f"proved: from {between} every {stated['name']} outside {parts} has a lower {objective(stated)}"]
    why = f": {reason}" if reason else ""
    return [*lines, f"searched from {between}; other maxima of the {objective(stated)} are not excluded{why}"]


def errors(stated: dict[str, Any]) -> str | None:
    """Errors of means and sds, if they are bounded."""
    mean, sd = stated.get("mean_error"), stated.get("sd_error")
    if mean is None and sd is None:
        return None
    parts = []
    if mean is not None:
        parts.append(f"means within {figure(mean)} sd")
    if sd is not None:
        parts.append(f"sds within {figure(100 * sd)} %")
    return f"{' and '.join(parts)} of the best Gaussian's"


def verdict(record: dict[str, Any]) -> list[str]:
    """The certificate, a sentence each."""
    certificate = record["certificate"]
    if certificate.get("scale") is not None:
        stated = certificate["scale"]
        likelihood = stated["log_likelihood"]
        groups = f"{stated['groups']} groups integrated out; " if stated["groups"] else ""
        lines = [scale(stated), *maxima(stated), f"{groups}log likelihood at the maximum {likelihood:.4f}"]
        return [*lines, f"the rest is estimated: {certificate['posterior']['reason']}"]
    lines = [gap(certificate)]
    of_gap = errors(certificate["gap"])
    if of_gap:
        lines.append(of_gap)
    lines.append(posterior(certificate))
    return lines
