"""What a certificate says, in plain sentences for people."""

from __future__ import annotations

from decimal import ROUND_CEILING, Context
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
        return f"{name} about {estimate:.5g}{others} maximises the likelihood; nothing is proved of it: {stated['reason']}"
    low, high = stated["interval"]
    return f"proved: the likelihood has a maximum at {name} between {low:.6g} and {high:.6g}"


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
        lines = [scale(stated), f"{groups}log likelihood at the maximum {likelihood:.4f}"]
        return [*lines, f"the rest is estimated: {certificate['posterior']['reason']}"]
    lines = [gap(certificate)]
    of_gap = errors(certificate["gap"])
    if of_gap:
        lines.append(of_gap)
    lines.append(posterior(certificate))
    return lines
