"""PyMC models: the log density of the unconstrained value variables as one compiled function of a batch of flat vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import UsageError
from ..targets import NonCentred, Target, Variable
from . import pymc_noncentred as decentring


def target(model: Any) -> Target:
    """The target of a `pymc.Model` whose free variables are all continuous."""
    pm = import_pymc()
    from pymc.model.transform.optimization import freeze_dims_and_data

    if not isinstance(model, pm.Model):
        raise UsageError(f"model is a {type(model).__name__}, but a pymc.Model is required")
    if not model.free_RVs:
        raise UsageError("the model has no free variables, so there is nothing to fit")
    if model.discrete_value_vars:
        names = ", ".join(v.name for v in model.discrete_value_vars)
        raise UsageError(
            f"the variables {names} are discrete, but a Gaussian needs continuous ones; "
            "marginalise them (pymc_extras.marginalize) or model them with continuous variables"
        )
    # constants instead of shared variables: static shapes, and a target that later pm.set_data cannot change
    point = model.initial_point(random_seed=0)
    with default_initial_values(model):
        frozen = freeze_dims_and_data(model)
    # freezing reorders the variables; users expect the order in which they wrote them
    free, derived, seen = (
        [frozen[v.name] for v in variables] for variables in (model.free_RVs, model.deterministics, model.observed_RVs)
    )
    model = frozen
    values = [model.rvs_to_values[v] for v in free]
    start = {v.name: np.asarray(point[v.name], dtype=np.float64) for v in values}
    flat, own_names, shown = Flat(values, start), coordinate_names(model, start), [*free, *derived]

    def functions(flat: Flat) -> tuple[Callable[..., Any], Callable[..., Any] | None]:
        """`constrain` and `log_likelihood`."""
        pointwise = flat.lazily([v.name for v in seen], lambda: model.logp(vars=seen, sum=False))
        constrained = flat.lazily([v.name for v in shown], lambda: model.replace_rvs_by_values(shown))
        return constrained, pointwise if seen else None

    constrained, pointwise = functions(flat)
    origin = flat.join(start)
    shapes = {name: value.shape[1:] for name, value in constrained(origin[None]).items()}
    observed = {v.name: np.asarray(model.rvs_to_values[v].eval()) for v in seen}
    own = Target(
        log_density=flat.with_gradient(model.logp()),
        dim=flat.dim,
        names=own_names,
        start=origin,
        starts=prior_draws(pm, unconstrained(model, free), flat.dim),
        variables=tuple(Variable(v.name, shapes[v.name], dims_of(model, v.name, len(shapes[v.name]))) for v in shown),
        coords=coords_of(model),
        constrain=constrained,
        observed=observed,
        observed_dims={name: dims_of(model, name, value.ndim) for name, value in observed.items()},
        log_likelihood=pointwise,
        noncentred=NonCentred(),
    )
    found = {one.value: one for one in decentring.located(model, free)}
    if not found:
        return own

    def noncentred() -> Target:
        """`own` on the coordinates with t in the place of x."""
        roots = [found[v].t if v in found else v for v in values]
        flat = Flat(roots, decentring.start(model, found, start), [(one.value, one.x) for one in found.values()])
        graphs = unconstrained(model, free)
        for one in found.values():
            graphs[free.index(one.variable)] = decentring.t_of(one, model)
        constrained, pointwise = functions(flat)
        by_entry = lambda variables: [v for v, x in zip(variables, start.values(), strict=True) for _ in range(x.size)]
        entries = zip(by_entry(values), by_entry(roots), own_names, strict=True)
        return replace(
            own,
            log_density=flat.with_gradient(decentring.log_density(model, list(found.values()))),
            # "theta[a]" becomes "theta_decentered[a]"
            names=[t.name + label.removeprefix(v.name) for v, t, label in entries],
            start=flat.join(flat.start),
            starts=prior_draws(pm, graphs, flat.dim),
            constrain=constrained,
            log_likelihood=pointwise,
        )

    variables = tuple(v.name for v in free if model.rvs_to_values[v] in found)
    return replace(own, noncentred=NonCentred(variables, noncentred))


@contextmanager
def default_initial_values(model: Any) -> Iterator[None]:
    """The model without the user's initial values, which PyMC cannot freeze."""
    given = dict(model.rvs_to_initial_values)
    model.rvs_to_initial_values.update(dict.fromkeys(given))
    try:
        yield
    finally:
        model.rvs_to_initial_values.update(given)


STARTS = 8
"""Draws of the prior."""


def unconstrained(model: Any, free: Sequence[Any]) -> list[Any]:
    """The graphs of variables on the unconstrained space."""
    transforms = [(v, model.rvs_to_transforms.get(v)) for v in free]
    return [v if transform is None else transform.forward(v, *v.owner.inputs) for v, transform in transforms]


def prior_draws(pm: Any, graphs: Sequence[Any], dim: int) -> np.ndarray | None:
    """Draws of the prior, from which other modes are searched for; None if a prior cannot be drawn from."""
    try:
        drawn = pm.draw(list(graphs), draws=STARTS, random_seed=0, mode="FAST_COMPILE")
    except NotImplementedError:
        return None
    rows = np.concatenate([np.asarray(values, dtype=np.float64).reshape(STARTS, -1) for values in drawn], axis=1)
    rows = rows[np.isfinite(rows).all(axis=1)]
    return rows if rows.shape[0] and rows.shape[1] == dim else None


Computed = Sequence[tuple[Any, Any]]


class Flat:
    """Graphs in the value variables of a model, as compiled functions of a (B, d) matrix of flat points.

    `values` are read from the point. `computed` are other value variables with their graphs, in an order in which each
    depends only on values and on those before it.
    """

    def __init__(self, values: Sequence[Any], start: dict[str, np.ndarray], computed: Computed = ()) -> None:
        self.values, self.start, self.computed = values, start, computed
        self.dim = sum(value.size for value in start.values())

    def join(self, point: dict[str, np.ndarray]) -> np.ndarray:
        return np.concatenate([np.ravel(point[name]) for name in self.start]).astype(np.float64)

    def over_points(self, graphs: Sequence[Any]) -> tuple[Any, list[Any]]:
        """The graphs with every value variable replaced by its piece of a row of one matrix."""
        import pytensor.tensor as pt
        from pytensor.graph.replace import graph_replace, vectorize_graph

        one = pt.vector("z", shape=(self.dim,), dtype="float64")
        pieces, begin = {}, 0
        for variable in self.values:
            value = self.start[variable.name]
            piece = one[begin : begin + value.size].reshape(value.shape).astype(variable.dtype)
            pieces[variable], begin = piece, begin + value.size
        for variable, graph in self.computed:
            pieces[variable] = pt.cast(graph_replace([graph], pieces, strict=False)[0], variable.dtype)
        graphs = graph_replace(graphs, pieces, strict=False)
        points = pt.matrix("points", shape=(None, self.dim), dtype="float64")
        # the zero adds an axis for the points even if the graph does not depend on z
        graphs = [pt.cast(graph, "float64") + pt.zeros_like(one[0]) for graph in graphs]
        return points, vectorize_graph(impossible_instead_of_errors(graphs), {one: points})

    def with_gradient(self, graph: Any) -> Callable[..., Any]:
        """Values (B,) and gradients (B, d); rows share no terms, so one gradient of their sum contains all of them."""
        import pytensor

        points, (values,) = self.over_points([graph])
        gradients: Any = pytensor.grad(values.sum(), points)
        compiled = pytensor.function([points], [values, gradients])
        compiled.trust_input = True  # the contract of a target: C-order float64
        return lambda z: tuple(compiled(z))

    def lazily(self, names: Sequence[str], graphs: Callable[[], Sequence[Any]]) -> Callable[..., Any]:
        """Draws (n, d) to a dict of arrays (n, ...), compiled on first use."""
        import pytensor

        compiled: list[Any] = []

        def evaluate(draws: np.ndarray) -> dict[str, np.ndarray]:
            if not compiled:
                points, outputs = self.over_points(graphs())
                compiled.append(pytensor.function([points], outputs))
            return dict(zip(names, compiled[0](np.ascontiguousarray(draws, dtype=np.float64)), strict=True))

        return evaluate


def impossible_instead_of_errors(graphs: Sequence[Any]) -> list[Any]:
    """Copies of graphs in which a point with impossible parameters (a scale that underflows to 0) has density 0, as in PyMC's own samplers.

    This must come before the graphs are vectorised: afterwards one such point would decide for the whole batch.
    """
    from pymc.logprob.utils import local_check_parameter_to_ninf_switch
    from pytensor.graph.fg import FunctionGraph
    from pytensor.graph.rewriting.basic import in2out

    copied = FunctionGraph(outputs=list(graphs), clone=True, copy_inputs=False)
    in2out(local_check_parameter_to_ninf_switch).rewrite(copied)
    return list(copied.outputs)


def coordinate_names(model: Any, start: dict[str, np.ndarray]) -> tuple[str, ...]:
    """One name per flat coordinate: labels of the model's coords if the variable is not transformed, otherwise numbers."""
    names: list[str] = []
    for name, value in start.items():
        dims = model.named_vars_to_dims.get(name, ())
        labels = [model.coords.get(d) if d else None for d in dims] if len(dims) == value.ndim else [None] * value.ndim
        for index in np.ndindex(value.shape):
            inner = ", ".join(str(i if label is None else label[i]) for i, label in zip(index, labels, strict=True))
            names.append(f"{name}[{inner}]" if index else name)
    return tuple(names)


def dims_of(model: Any, name: str, ndim: int) -> tuple[str, ...]:
    given = model.named_vars_to_dims.get(name) or (None,) * ndim
    return tuple(d if d is not None else f"{name}_dim_{k}" for k, d in enumerate(given))


def coords_of(model: Any) -> dict[str, np.ndarray]:
    lengths = {dim: int(length.eval()) for dim, length in model.dim_lengths.items()}
    return {dim: np.arange(lengths[dim]) if labels is None else np.asarray(labels) for dim, labels in model.coords.items()}


def import_pymc() -> Any:
    """PyMC 5 or later, or an error that tells how to install it."""
    try:
        import pymc
    except ImportError as error:
        raise ImportError(f'a PyMC model needs PyMC 5: pip install "pymc>=5" "matplotlib<3.11" ({error})') from error
    if int(pymc.__version__.split(".")[0]) < 5:
        raise ImportError(f'PyMC {pymc.__version__} is installed, but 5 or later is required: pip install "pymc>=5"')
    return pymc
