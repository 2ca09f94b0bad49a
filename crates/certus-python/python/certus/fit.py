"""The fit of a target or a model, and the result."""

from __future__ import annotations

import json
import os
import pickle
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from . import _certus, constrained, ppc, reparametrise as forms, result
from .adapters.find import as_target
from .errors import Error, UsageError
from .frames import Frame
from .html import page
from .loo import Loo
from .loo import loo as _loo
from .ppc import Ppc
from .progress import Show, finish, watcher
from .settings import infinite, run_settings, whole
from .targets import Target

Array = NDArray[np.float64]

MOST_ENTRIES = 500_000_000
"""The largest covariance: 4 GB."""


class Fit:
    """A Gaussian with its certificate. The keys of fit.json are attributes: `fit.status`, `fit.certificate.gap.bound`."""

    schema: int
    model: str
    status: str
    message: str
    route: str
    neg_elbo: float | None
    neg_elbo_se: float | None
    certificate: result.Certificate
    k_hat: float | None
    comparison: result.Comparison | None
    parameters: list[result.Parameter]
    criterion: result.Criterion | None
    counts: result.Counts
    seconds: float
    trace: list[result.TracePoint]
    settings: result.Section
    seed: int
    versions: result.Section
    data: result.Data
    notes: list[str]

    def __init__(self, fitted: _certus.Fitted, source: Any = None) -> None:
        self._fitted = fitted
        self._source = source
        # how new data become columns, for fits that were pickled with it
        self._new = getattr(source, "_new", None)
        self._constrained: pd.DataFrame | None = None
        # calls of `effects`: each has draws and a part of delta of its own
        self._asked = 0
        # False if the Gaussian's own numbers were asked for
        self._corrects = True
        self._record: dict[str, Any] = json.loads(fitted.json())

    if not TYPE_CHECKING:  # only the declared fields are known to type checkers

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            fields = result.declared(Fit)
            if name in self._record:
                return result.typed(self._record[name], fields.get(name))
            if name in fields:
                return None
            raise AttributeError(f"a fit has no attribute {name!r}")

    def __dir__(self):
        return [*super().__dir__(), *self._record]

    def to_dict(self) -> dict[str, Any]:
        """The object of fit.json."""
        return json.loads(self._fitted.json())

    @property
    def names(self) -> list[str]:
        """Names of the parameters."""
        return [p["name"] for p in self._record["parameters"]]

    def _column(self, key: str) -> Array:
        values = [p[key] for p in self._record["parameters"]]
        return np.array([np.nan if v is None else v for v in values], dtype=np.float64)

    @property
    def mean(self) -> Array:
        """Means of the parameters."""
        return self._column("mean")

    @property
    def sd(self) -> Array:
        """Standard deviations of the parameters."""
        return self._column("sd")

    @property
    def params(self) -> pd.Series:
        """The means by name, as statsmodels has estimates."""
        return pd.Series(self.mean, index=self.names, name="mean")

    @property
    def bse(self) -> pd.Series:
        """The standard deviations by name, as statsmodels has standard errors."""
        return pd.Series(self.sd, index=self.names, name="sd")

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """The central interval of every parameter that contains it with probability 1 - alpha: its ends are the columns 0 and 1.

        `alpha=0.1` has the quantiles of `summary`; those of other levels come from 40,000 draws, or from all that the fit has.
        """
        if not 0 < alpha < 1:
            raise UsageError(f"alpha is {alpha!r}, but a number between 0 and 1 is required: 0.05 gives an interval of 95 %")
        if alpha == 0.1:
            ends = [self._column("q05"), self._column("q95")]
        else:
            ends = list(np.quantile(self.sample(40_000), [alpha / 2, 1 - alpha / 2], axis=0))
        return pd.DataFrame(np.column_stack(ends), index=self.names)

    @property
    def covariance(self) -> Array:
        """Covariance of the parameters."""
        if len(self.names) * max(self._fitted.dim, len(self.names)) > MOST_ENTRIES:
            raise UsageError(f"the covariance of {len(self.names)} parameters does not fit into memory: take draws, fit.sample(n)")
        spread = self._fitted.spread()
        return spread @ spread.T

    def sample(self, n: int, seed: int = 0) -> Array:
        """`n` draws, one per row; draw k depends on the seed and k only."""
        return self._fitted.sample(whole("n", n), whole("seed", seed))

    @property
    def gaussian(self) -> Fit:
        """The same fit with the Gaussian's own numbers and draws."""
        if not (self._fitted.has_draws or self._corrects):
            return self
        own = Fit(self._fitted.gaussian() if self._fitted.has_draws else self._fitted, self._source)
        own._corrects = False
        own._new = self._new
        return own

    @property
    def source(self) -> Any:
        """The target or model of the fit; None if it was loaded or unpickled."""
        return self._source

    @property
    def verdict(self) -> str | None:
        """What the printed numbers of a target are worth: "accurate", "usable after correction", "unreliable" or "failed"; None for models."""
        return self._record.get("verdict")

    @property
    def table(self) -> result.Table | None:
        """Where the printed numbers come from and how far off they may be; None if they are the Gaussian's own."""
        found = self._record.get("table")
        return None if found is None else result.Table(found)

    @property
    def sentences(self) -> list[str]:
        """The verdict and the certificate in words; of a target also what was done about its parametrisation."""
        notes = self._record["notes"] if self._record["model"] == "target" else []
        return [*self._fitted.sentences(), *notes]

    @property
    def groups(self) -> pd.DataFrame | None:
        """Effects of groups whose sd was not given, one row per group: rows, mean, sd and quantiles of its deviation, then mean
        and sd of the group's own coefficient (total, total_sd: lme4's coef, the common coefficient plus the deviation); otherwise None.

        With several effects the index is (term, group, coefficient), as in groups.parquet.
        """
        found = self._fitted.groups()
        if found is None:
            return None
        columns = ["rows", "mean", "sd", "q05", "q50", "q95", "total", "total_sd"]
        if len(found) == 1:
            _, _, names, values = found[0]
            return pd.DataFrame(values, columns=columns, index=pd.Index(names, name="group")).astype({"rows": int})
        rows = [(term, name, coefficient) for term, coefficient, names, _ in found for name in names]
        index = pd.MultiIndex.from_tuples(rows, names=["term", "group", "coefficient"])
        return pd.DataFrame(np.vstack([values for *_, values in found]), columns=columns, index=index).astype({"rows": int})

    def latents(self, n: int, seed: int = 0) -> Array:
        """The latents of the draws of `sample`: the coordinates of the target, or the coefficients of the design inside a model."""
        return self._fitted.latents(whole("n", n), whole("seed", seed))

    def log_q(self, latents: Array) -> Array:
        """log q at latents."""
        return self._fitted.log_q(np.ascontiguousarray(latents, dtype=np.float64))

    def log_weights(self, n: int, seed: int = 0) -> Array | None:
        """log p - log q at the draws of `sample`, up to a constant; None if the posterior is not available, or they are not draws of q
        (those of `fit.gaussian` are)."""
        if self._source is None or self._fitted.is_mixture or self._fitted.has_draws:
            return None
        latents = self.latents(n, seed)
        return self._log_density(latents) - self.log_q(latents)

    def _log_density(self, latents: Array) -> Array:
        """log p at latents, up to a constant."""
        if isinstance(self._source, Target):
            return np.asarray(self._source.log_density(latents)[0], dtype=np.float64)
        return self._source._model.log_density(latents)

    def summary(self, *, unconstrained: bool = False) -> pd.DataFrame:
        """A data frame with one row per parameter: mean, sd and quantiles.

        For a model of PyMC, NumPyro or Stan the parameters are its variables, deterministics included, on their own scale;
        `unconstrained=True` gives the coordinates on which the Gaussian is defined: `fit.names`, `fit.mean`, `fit.sd`. A fit that was loaded
        or unpickled has only these. Of an estimate (`reml`, `ml`, `scales="estimate"`) `mean` is the estimate and `sd` its standard error.
        """
        source = self._source
        if isinstance(source, Target) and source.constrain is not None and not unconstrained:
            if self._constrained is None:
                self._constrained = constrained.summary(self, source)
            return self._constrained.copy()
        keys = ("mean", "sd", "q05", "q50", "q95")
        return pd.DataFrame({key: self._column(key) for key in keys}, index=pd.Index(self.names, name="parameter"))

    def _new_columns(self, data: Any, groups: bool = True) -> dict[str, Any]:
        if isinstance(self._source, Target) or self._record["model"] == "target":
            raise UsageError("there is nothing to predict: the fit of a log density has no data; use fit.sample")
        if self._new is not None:
            return self._new.of(data, groups)
        if isinstance(data, np.ndarray):
            from .models import matrix_columns

            return matrix_columns(data, self._record["settings"].get("features", []))
        return Frame(data).columns()

    def predict(
        self, data: Any, *, groups: str | None = None, observations: bool = False, quantiles: Sequence[float] | None = None
    ) -> pd.DataFrame:
        """The expected response of every row of new data: mean, sd, quantiles, and mean and sd of the linear predictor.

        If the sd between groups was not given, `groups` selects the group: "known" (the rows' own groups, the default), "new" (an unseen
        group) or "population" (averaged over the population of groups). `observations=True` adds the 5 % and 95 % quantiles of a new
        observation, `y05` and `y95`, by simulation. `quantiles=[0.1, 0.9]` chooses the levels of both. A row with a missing value has NaN
        in every column; a warning states how many there are.
        """
        columns = self._new_columns(data, groups in (None, "known"))
        levels = None if quantiles is None else [float(level) for level in quantiles]
        values, names, note = self._fitted.predict(columns, groups, bool(observations), levels)
        if note:
            warnings.warn(note, stacklevel=2)
        return pd.DataFrame(values, columns=names, index=data.index if isinstance(data, pd.DataFrame) else None)

    def predict_draws(self, data: Any, n: int = 1000, seed: int = 0) -> Array:
        """The expected response of every row of new data (columns) at `n` draws (rows)."""
        return self._fitted.predict_draws(self._new_columns(data), whole("n", n), whole("seed", seed))

    def effects(
        self,
        data: Any,
        *,
        contrast: str | Sequence[str] = (),
        slope: str | Sequence[str] = (),
        at: Mapping[str, Any] | None = None,
        interval: float = 0.9,
        linear_predictor: bool = False,
    ) -> pd.DataFrame:
        """Answers about the expected response, averaged over the rows of `data` that have no gaps.

        `contrast` compares two values of a column: "arm: b - a", "arm: b / a", "arm: odds(b) / odds(a)", or "arm" for each level against the
        reference; `slope` is the rise per unit of a column of numbers; `at={"age": [40, 60]}` holds columns at values. With `at` alone the
        expected response there; with nothing, every column of the model. Where an sd between groups was not given, the expected response is
        the average over the population of groups. `linear_predictor=True` asks about the linear predictor in the place of the expected response.

        Where the posterior is certified, `error` says how far the posterior mean may be from the estimate, and `interval_error` how far the posterior
        quantiles may be from the ends of the interval: all of them together with probability 1 - `attrs["delta"]`, or proved if that is None. The n-th
        call on a fit has draws of its own and the part 6/(pi^2 n^2) of the fit's `delta`, so that the errors of all calls hold together with probability
        1 - `delta`, whatever is asked after having seen earlier answers; a copy that is loaded counts from 1 again. `attrs` also has how many rows and draws
        the other numbers are made of.
        """
        words = lambda x: [x] if isinstance(x, str) else list(x)
        one = lambda v: str(v).lower() if isinstance(v, (bool, np.bool_)) else str(v)
        many = lambda v: [one(v)] if isinstance(v, str) or not np.iterable(v) else [one(x) for x in v]
        held = [(str(name), many(values)) for name, values in (at or {}).items()]
        columns = self._new_columns(data, not self._fitted.is_mixture)
        # a target has no rows, and was refused
        model = None if self._source is None else self._source._model
        if model is None and not isinstance(data, np.ndarray):
            # the response too, if it is there: the rows may be those of the fit, whose model certifies errors
            columns = {**Frame(data).columns(), **columns}
        found = json.loads(
            _certus.effects(
                self._fitted,
                columns,
                words(contrast),
                words(slope),
                held,
                float(interval),
                bool(linear_predictor),
                model,
                self._asked + 1,
            )
        )
        self._asked += 1
        frame = pd.DataFrame(found.pop("rows"))
        frame.attrs.update(found)
        return frame

    def loo(self) -> Loo:
        """How well the model predicts rows that it has not seen: PSIS-LOO and WAIC, from 4,000 draws of the posterior.

        A target needs the log likelihood of every row, which PyMC and NumPyro models have and Stan programs name.
        """
        return _loo(self)

    def ppc(self) -> Ppc:
        """Compares the responses with data sets that the posterior predicts for the same rows: statistics and residuals, from 4,000 draws."""
        return ppc.check(self)

    def simulate(self, n: int = 100, seed: int = 0) -> Array:
        """`n` data sets for the rows of the model, one per row of the result: set k is what the posterior predicts at draw k of `sample(n, seed)`.

        Of estimates (`reml`, `ml`, `scales="estimate"`) it is a parametric bootstrap: estimated coefficients and scales, new effects of all groups.
        """
        return ppc.simulated(self, whole("n", n, 1), whole("seed", seed))

    def to_arviz(self, draws: int = 1000, seed: int = 0) -> Any:
        """Draws with names, dimensions, log weights, data and log likelihoods: a DataTree, or InferenceData for an ArviZ before 1.0."""
        from .arviz import convert

        return convert(self, whole("draws", draws, 1), whole("seed", seed))

    def to_marginaleffects(self, data: Any, *, linear_predictor: bool = False) -> Any:
        """The fit as a model of the package marginaleffects (`pip install marginaleffects`): `avg_slopes(fit.to_marginaleffects(data))`.

        Its coefficients are the posterior means, its covariance that of the posterior, and its standard errors come from the delta method; `effects` has
        posterior means and quantiles of the same questions. `data` are the rows to average over; rows with gaps are left out. Responses of several
        trials are per trial. `linear_predictor=True` predicts the linear predictor in the place of the expected response.
        """
        from .marginal import MarginalModel

        return MarginalModel(self, data, bool(linear_predictor))

    def plot(self, names: list[str] | None = None) -> Any:
        """A matplotlib figure: parameters, the gap (or the ELBO) during the run, and pairs of coordinates with importance-weighted draws."""
        from .plot import figure

        return figure(self, names)

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes a report as one HTML page that works offline: the question, the answer and how far to trust it, pictures, the certificate.

        A fit that was loaded or unpickled has no rows, so its report has no pictures of them; `certus report` reads the data again.
        """
        source = self._source
        if isinstance(source, Target) or self._record["model"] == "target":
            model, reason = None, "the fit is one of a log density, whose rows are not known"
        else:
            model, reason = None if source is None else source._model, "the fit was loaded or unpickled, so it has no rows"
        Path(path).write_text(_certus.report(self._fitted, model, reason), encoding="utf-8")

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes a fit directory, which `certus.load` and the command line read."""
        self._fitted.save(os.fspath(path), bool(overwrite))

    def __repr__(self) -> str:
        record = self._record
        first, *rest = self.sentences
        # the message of a black box begins with the verdict
        more = record["message"].removeprefix(first).lstrip("; ")
        lines = [first, *(f"  {line}" for line in rest), f"status: {record['status']}" + (f" ({more})" if more else ""), ""]
        table = self.summary()[["mean", "sd", "q05", "q95"]]
        scale = record["certificate"].get("scale") or {}
        if scale.get("scales") == "estimate":
            table = table.rename(columns={"mean": "estimate", "sd": "se"})
        with pd.option_context("display.width", 100, "display.precision", 4, "display.max_rows", 20):
            lines.append(repr(table))
        if self._constrained is not None:
            lines += ["", constrained.NOTE]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        table = self.summary()
        note = constrained.NOTE if self._constrained is not None else ""
        return page(self._record, self._fitted.level, self.sentences, table, note)

    def __reduce__(self):
        return _unpickled, (*self._fitted.parts(), self._asked, self._kept())

    def _kept(self) -> Any:
        """How new data become columns, if a pickle can hold it: a function of which a term is made may be none that can be found by name."""
        try:
            pickle.dumps(self._new)
        except Exception:
            return None
        return self._new


def _unpickled(record: str, arrays: bytes, meaning: str | None, asked: int = 0, new: Any = None) -> Fit:
    fit = Fit(_certus.Fitted.of_parts(record, arrays, meaning))
    fit._asked = asked
    fit._new = new
    return fit


def fit(
    model: Any,
    *,
    gap: float = 0.01,
    delta: float = 0.01,
    accuracy: float | None = None,
    posterior: str = "auto",
    rigorous: bool = False,
    method: str = "auto",
    seed: int = 0,
    max_time: float | None = None,
    max_gradients: int | None = None,
    level: str | None = None,
    threads: int | None = None,
    progress: bool | Show | None = None,
    constants: str | None = None,
    steps: str | None = None,
    batch: int | None = None,
    iterations: int | None = None,
    row_batch: int | None = None,
    factor: str | None = None,
    log_concave: bool = False,
    reparametrise: Literal["auto"] | bool = "auto",
    **options: Any,
) -> Fit:
    """Fits a Gaussian to a target or a model and certifies it.

    `gap` is the distance to the best Gaussian at which the fit stops, in nats; `delta` is the probability with which a probable statement may be false;
    `accuracy` is how close the printed means (in sds) and sds (as a fraction) must be to the posterior's, even if
    that takes minutes (by default 0.1, if that takes seconds), and `posterior` is where they come from: "auto" (the first source that is
    accurate enough; for targets NUTS where the numbers of the Gaussian are unreliable, within `max_gradients`, by default 10^6), "gaussian",
    "corrected" (of targets only those declared log-concave), "importance", "nuts" and, for models such as `certus.logistic`, "exact";
    `rigorous=True` proves the gap of a linear, logistic, binomial or Poisson model without groups in ball arithmetic, with every rounding error included,
    the interval of an sd that is not given of a logistic or binomial model with one effect of one group, and those of all variance parameters of a linear mixed model by REML or maximum likelihood;
    `level` is the required level of certainty (proved, probable, estimated); `max_time` is in seconds, `max_gradients` limits the evaluations of
    a target, `batch` fixes the draws of its steps; `log_concave=True` declares that a target is log-concave, from which errors follow that hold with
    probability 1 - `delta`. Ctrl-C ends the fit and returns the result so far.
    `steps` of the paper's methods are "greedy", "paper" (those of the paper's theorem, with its constants), "horizon" (one constant step size, the best
    for `iterations`) or "decaying". `method="subsampled"` draws `row_batch` rows per iteration.
    `reparametrise` is about variables of PyMC and NumPyro models whose location or scale depends on others: "auto" also tries
    them non-centred if the fit is not accurate, and keeps the better form; True takes the non-centred one, False the model as written.
    `factor="diagonal"` requests the best Gaussian with independent coefficients (for models without groups; per sd of their features, if the
    model standardises). `threads` are used by models and do not change the result; a Python function is called on the caller's thread. `options` are
    passed to the adapter of a model of another library.
    """
    from .models import Model

    run = run_settings(
        gap=gap, delta=delta, accuracy=accuracy, posterior=posterior, rigorous=rigorous, method=method, seed=seed, max_time=max_time, max_gradients=max_gradients, level=level, threads=threads,
        constants=constants, steps=steps, batch=batch, iterations=iterations, row_batch=row_batch, factor=factor,
    )
    if not isinstance(model, (Target, Model)):
        model, options = as_target(model, options), {}
    if options:
        raise UsageError(f"unknown setting: {', '.join(options)}")
    chosen = posterior if posterior == "exact" else None
    for name, given in (("factor", factor), ("steps", steps), ("iterations", iterations), ("row_batch", row_batch), ("constants", constants), ("posterior", chosen), ("rigorous", rigorous or None)):
        if given is not None and isinstance(model, Target):
            raise UsageError(f"{name} is {given!r}, but it applies only to models such as certus.logistic: leave it out")
    if isinstance(model, Target) and log_concave:
        model = replace(model, log_concave=log_concave)
    form = None if reparametrise == "auto" else reparametrise
    for name, given in (("max_gradients", max_gradients), ("log_concave", log_concave or None), ("reparametrise", form)):
        if given is not None and not isinstance(model, Target):
            raise UsageError(f"{name} is {given!r}, but it applies only to log densities: leave it out")
    def one(model: Target | Model, run: dict[str, Any]) -> Fit:
        show = watcher(progress)
        try:
            fitted = model._model.fit(infinite(run), show) if isinstance(model, Model) else run_target(model, run, show)
        except Error as error:
            partial = error.__dict__.pop("partial", None)
            if partial is not None:
                error.fit = Fit(partial, model)
            raise
        finally:
            finish(show)
        found = Fit(fitted, model)
        found._corrects = posterior != "gaussian"
        return found

    return one(model, run) if isinstance(model, Model) else forms.fitted(model, run, reparametrise, one)


def run_target(target: Target, run: dict[str, Any], show: Any) -> _certus.Fitted:
    """The fit of a target with the settings of `run`."""
    start = None if target.start is None else [float(x) for x in target.start]
    return _certus.fit_target(
        target.log_density, int(target.dim), target.coordinate_names(), infinite(run), target.declared(), start, show,
        target.log_concave, [] if target.starts is None else np.asarray(target.starts).tolist(),
    )


def load(path: str | os.PathLike[str]) -> Fit:
    """Reads a fit directory that Python or the command line wrote."""
    return Fit(_certus.Fitted.load(os.fspath(path)))
