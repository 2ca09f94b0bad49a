"""Three plots of a fit: parameters, the gap (or the ELBO) during the run, and pairs of coordinates with importance-weighted draws."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from .fit import Fit

SHOWN, PAIRS, DRAWS = 25, 3, 4000
TITLE = 150
"""Characters of a line of the title."""


def figure(fit: Fit, names: list[str] | None = None) -> Any:
    """A matplotlib figure; `names` selects the parameters."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError("fit.plot() needs matplotlib: pip install matplotlib") from None
    unknown = [n for n in names or [] if n not in fit.names]
    if unknown:
        raise UsageError(f"names has '{unknown[0]}', which is not a parameter: there are {', '.join(fit.names[:10])}")
    chosen = [fit.names.index(n) for n in names] if names else list(range(min(len(fit.names), SHOWN)))
    pairs = chosen[: PAIRS + (fit.names[chosen[0]] == "(Intercept)" and len(chosen) > PAIRS)][-PAIRS:]
    table = fit.summary(unconstrained=True).iloc[chosen] if names else fit.summary()
    shown = table if names else table.head(SHOWN)
    height = max(4.0, 0.26 * len(shown) + 1.4)
    size = max(2, len(pairs))
    fig = Figure(figsize=(15, max(height, 5.4)), layout="constrained")
    left, middle, right = fig.subfigures(1, 3, width_ratios=[1.1, 1, 1.3])
    _parameters(left.subplots(), shown, len(table) - len(shown))
    if fit._fitted.is_mixture:
        _scale(middle.subplots(), fit)
    else:
        _trace(middle.subplots(), fit)
    _pairs(right, fit, pairs[:size])
    first = fit.sentences[0]
    fig.suptitle(fill(first[0].upper() + first[1:], TITLE), fontsize=12)
    return fig


def _parameters(axes: Any, shown: pd.DataFrame, hidden: int) -> None:
    y = np.arange(len(shown))[::-1]
    mean, low, high = (shown[k] for k in ("mean", "q05", "q95"))
    axes.hlines(y, low, high, color="#0969da", lw=2)
    axes.plot(mean, y, "o", color="#0969da", ms=4)
    axes.axvline(0, color="grey", lw=0.8)
    axes.set_yticks(y, list(shown.index))
    axes.set_title("mean and 90 % interval", fontsize=10)
    if hidden > 0:
        axes.set_xlabel(f"{hidden} more parameters are not shown")


def _trace(axes: Any, fit: Fit) -> None:
    trace = fit.to_dict()["trace"]
    bound, level = fit.certificate.gap.bound, fit.certificate.gap.level
    axes.set_xlabel("seconds")
    axes.set_ylabel("nats")
    if not bound:
        # no gap is stated, so none is drawn
        axes.set_title("ELBO during the run", fontsize=10)
        elbo = [(p["seconds"], -p["neg_elbo"]) for p in trace if p["neg_elbo"] is not None]
        axes.plot(*zip(*elbo, strict=True) if elbo else ([], []), "o-", color="#0969da", ms=3)
        return
    points = [(p["seconds"], p["bound"]) for p in trace if p["bound"]]
    axes.set_title("gap to the best Gaussian", fontsize=10)
    if points:
        seconds, bounds = zip(*points, strict=True)
        axes.semilogy(seconds, bounds, "o-", color="#0969da", ms=3, label="bound during the run" if level == "proved" else "estimate during the run")
    goal = fit.settings.get("gap", 0.01)
    axes.axhline(goal, color="grey", ls=":", label=f"goal {goal:g}")
    axes.axhline(bound, color="#1a7f37", ls="--", label=next(s for s in fit.sentences if s.startswith("gap ")).partition(" from ")[0])
    axes.set_yscale("log")
    axes.set_xlim(left=0.0)
    axes.legend(fontsize=8)


def _scale(axes: Any, fit: Fit) -> None:
    """A scale that was not given: its draws, and the interval that contains a maximum of its likelihood."""
    scale: Any = fit.certificate.scale
    draws = fit.sample(DRAWS, 1)[:, fit.names.index(scale.name)]
    axes.set_title(scale.name, fontsize=10)
    if np.ptp(draws) > 0:
        label = "normal approximation" if scale.scales == "estimate" else "posterior"
        axes.hist(draws, bins=60, density=True, color="lightgrey", label=label)
    objective = scale.objective
    axes.axvline(scale.estimate, color="#1a7f37", ls="--", label=f"maximum of the {objective} {scale.estimate:.4g}, {scale.level}")
    axes.set_yticks([])
    axes.legend(fontsize=8)


def _pairs(part: Any, fit: Fit, chosen: list[int]) -> None:
    size = len(chosen)
    axes = np.atleast_2d(part.subplots(size, size, squeeze=False))
    draws = fit.sample(DRAWS, 1)
    weights = fit.log_weights(DRAWS, 1)
    q = fit.gaussian
    mean, sd, covariance = q.mean, q.sd, q.covariance if len(fit.names) <= 2000 else None
    weighted = None
    if weights is not None:
        p = np.exp(weights - weights.max())
        weighted = draws[np.random.default_rng(0).choice(DRAWS, DRAWS, p=p / p.sum())]
    word = "grey: draws of the Gaussian weighted by the posterior" if weighted is not None else "grey: draws of the Gaussian"
    if fit._fitted.has_draws:
        word = "grey: draws of the posterior"
    own = getattr(fit.source, "constrain", None) is not None
    where = ", in the coordinates of the fit (the table has the model's own variables)" if own else ""
    part.suptitle(fill(f"{word}; blue: the fitted Gaussian (50 %, 90 %){where}", 70), fontsize=10)
    shown = draws if weighted is None else weighted
    angle = np.linspace(0, 2 * np.pi, 100)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    for i, a in enumerate(chosen):
        for j, b in enumerate(chosen):
            ax = axes[i, j]
            ax.tick_params(labelsize=6)
            if j > i:
                ax.set_visible(False)
                continue
            if i == j:
                ax.hist(shown[:, a], bins=40, density=True, color="lightgrey")
                x = np.linspace(mean[a] - 4 * sd[a], mean[a] + 4 * sd[a], 200)
                ax.plot(x, np.exp(-0.5 * ((x - mean[a]) / sd[a]) ** 2) / (sd[a] * np.sqrt(2 * np.pi)), color="#0969da", lw=1)
                ax.set_yticks([])
            else:
                ax.plot(shown[:, b], shown[:, a], ".", color="grey", ms=1, alpha=0.3)
                if covariance is not None and np.isfinite(covariance[np.ix_([b, a], [b, a])]).all():
                    root = np.linalg.cholesky(covariance[np.ix_([b, a], [b, a])] + 1e-300 * np.eye(2))
                    for mass in (0.5, 0.9):
                        ellipse = mean[[b, a], None] + np.sqrt(-2 * np.log(1 - mass)) * root @ circle
                        ax.plot(*ellipse, color="#0969da", lw=1)
            if i == size - 1:
                ax.set_xlabel(fit.names[b], fontsize=7)
            if j == 0 and i > 0:
                ax.set_ylabel(fit.names[a], fontsize=7)
