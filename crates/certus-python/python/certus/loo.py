"""How well fits predict rows that they have not seen: PSIS-LOO and WAIC."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from . import _certus
from .errors import UsageError
from .targets import Target

if TYPE_CHECKING:
    from .fit import Fit

Array = NDArray[np.float64]

# draws of the posterior that a target is evaluated at
DRAWS = 4000


@dataclass(frozen=True)
class Loo:
    """Leave-one-out cross-validation by smoothed importance sampling, and WAIC."""

    elpd: float
    """The expected log pointwise predictive density of new data: the sum of `pointwise`, each times the weight of its row."""
    se: float
    """Its standard error."""
    p: float
    """The effective number of parameters."""
    elpd_waic: float
    """The same by WAIC."""
    se_waic: float
    """Its standard error."""
    p_waic: float
    """The effective number of parameters by WAIC."""
    unreliable: int
    """Rows whose k̂ exceeds 0.7: they move the posterior too much."""
    note: str | None
    """What was assumed beyond the draws."""
    pointwise: Array = field(repr=False)
    """log p(y_i | the other rows)."""
    k: Array = field(repr=False)
    """k̂ of every row; NaN where its weights have no tail."""
    _own: _certus.CrossValidation = field(repr=False)

    def __repr__(self) -> str:
        rows = [
            f"elpd_loo  {self.elpd:12.2f} ± {self.se:.2f}",
            f"p_loo     {self.p:12.2f}",
            f"elpd_waic {self.elpd_waic:12.2f} ± {self.se_waic:.2f}",
            f"p_waic    {self.p_waic:12.2f}",
        ]
        return "\n".join([*rows, self._own.words(), *([f"note: {self.note}"] if self.note else [])])


def loo(fit: Fit) -> Loo:
    """See `Fit.loo`."""
    own = cross_validation(fit)
    found: dict[str, Any] = json.loads(own.json())
    one, waic = found["loo"], found["waic"]
    return Loo(
        elpd=one["elpd"],
        se=one["se"],
        p=one["p"],
        elpd_waic=waic["elpd"],
        se_waic=waic["se"],
        p_waic=waic["p"],
        unreliable=found["unreliable"],
        note=found["note"],
        pointwise=own.elpd(),
        k=own.k(),
        _own=own,
    )


def cross_validation(fit: Fit) -> _certus.CrossValidation:
    source = fit.source
    if source is None:
        raise UsageError("fit.loo() needs the rows of the fit, which a fit that was loaded or unpickled does not have: fit the model again")
    if not isinstance(source, Target):
        return _certus.CrossValidation.of_model(fit._fitted, source._model)
    if source.log_likelihood is None:
        raise UsageError("fit.loo() needs the log likelihood of every row: give the target log_likelihood=")
    each = source.log_likelihood(fit.latents(DRAWS, 0)).values()
    return _certus.CrossValidation.of_values(np.concatenate([np.asarray(v, dtype=np.float64).reshape(len(v), -1) for v in each], axis=1))


def compare(fits: Mapping[str, Fit]) -> pd.DataFrame:
    """Fits of the same responses by leave-one-out cross-validation, the best first.

    `compare({"small": a, "large": b})` has a row for each fit: `elpd_loo` with its standard error `se`, the effective number of parameters
    `p_loo`, the `difference` of elpd from that of the best fit with its standard error, and how many rows are `unreliable` (k̂ above 0.7).
    Of targets only the number of rows is checked, not that their responses are the same.
    """
    if len(fits) < 2:
        raise UsageError(f"compare needs at least two fits, but there {'is 1' if fits else 'are 0'}: compare({{'small': a, 'large': b}})")
    names, own = [str(name) for name in fits], list(fits.values())
    found = [cross_validation(fit) for fit in own]
    rows = json.loads(_certus.compare(names, [fit._fitted for fit in own], found))
    table = [
        {
            "model": row["name"],
            "elpd_loo": row["loo"]["elpd"],
            "se": row["loo"]["se"],
            "p_loo": row["loo"]["p"],
            "difference": row["difference"],
            "difference_se": row["difference_se"],
            "unreliable": row["unreliable"],
        }
        for row in rows
    ]
    return pd.DataFrame(table).set_index("model")
