"""PyMC: pm.fit(method="fullrank_advi") as it comes, and with Adam under a decaying rate."""
from common import Clock, check_limit, run
import logging
import warnings

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt

logging.getLogger("pymc").setLevel(logging.ERROR)
warnings.filterwarnings("ignore")


def build_model(problem, stable=False):
    """The problem as a PyMC model, latents in the benchmark's order; `stable` writes the logistic likelihood with softplus."""
    X, y, d = problem.X, problem.y, problem.X.shape[1]
    with pm.Model() as model:
        if problem.group is None:
            t = pt.dot(X, pm.Normal("w", 0.0, 1.0, shape=d))
        else:
            theta = pm.Normal("theta", 0.0, 1.0, shape=d)
            z = pm.Normal("z", theta, 1.0, shape=(int(problem.group.max()) + 1, d))
            t = pt.sum(X * z[problem.group], axis=1)
        if problem.linear:
            pm.Normal("y", t, 1.0, observed=y)
        elif stable:
            pm.Potential("y", pt.sum(y * t - pt.softplus(t)))
        else:
            pm.Bernoulli("y", logit_p=t, observed=y.astype(int))
    return model


def decayed_adam(first, last, steps):
    """PyMC's Adam with a learning rate that falls exponentially from first to last."""

    def updates(loss_or_grads, params):
        count = pytensor.shared(np.float64(0))
        rate = first * (last / first) ** (count / steps)
        out = pm.adam(loss_or_grads, params, learning_rate=rate)
        out[count] = count + 1
        return out

    return updates


def fit(problem, options, seed, limit):
    steps, samples = options["steps"], options["samples"]
    building = Clock()
    with build_model(problem, options.get("stable", False)):
        inference = pm.FullRankADVI(random_seed=seed)
        # pm.fit makes this object and this step function and loops over it as below; apart, so that compilation is not timed.
        keywords = {"obj_optimizer": options["optimizer"](steps)} if "optimizer" in options else {}
        if samples > 1:
            keywords["obj_n_mc"] = samples
        step = inference.objective.step_function(score=True, **keywords)
        shared = inference.approx.params
        built = building()
        clock, check_every, said = Clock(), max(1, steps // 20), "nothing"
        losses = np.empty(steps)
        for i in range(steps):
            losses[i] = step()
            if np.isnan(losses[i]):
                said = "FloatingPointError: NaN occurred in optimization"  # what pm.fit raises at this point
                break
            if (i + 1) % check_every == 0:
                check_limit(clock(), (i + 1) / steps, limit)
        seconds = clock()
    mu, tril = (next(p.get_value() for p in shared if p.name == name) for name in ("mu", "L_tril"))
    factor = np.zeros((problem.dim, problem.dim))
    factor[np.tril_indices(problem.dim)] = tril
    factor[np.diag_indices(problem.dim)] = np.logaddexp(0, np.diag(factor))
    nan = np.isnan(losses[i])
    return {
        "mean": mu if not nan else np.full(problem.dim, np.nan),
        "factor": factor,
        "gradients": (i + 1) * samples,
        "cpu_seconds": seconds,
        "compile_seconds": built,
        "said": said,
    }


SETTINGS = {
    "default (10000 steps)": ({"steps": 10000, "samples": 1}, False),
    # With pm.Bernoulli this one fails on logit_bc, logit_d100 and logit_d500 too (ParameterValueError: 0 <= p <= 1).
    "Adam decayed, stable likelihood, 50000 gradients": (
        {"steps": 5000, "samples": 10, "stable": True, "optimizer": lambda n: decayed_adam(0.02, 2e-5, n)},
        True,
    ),
}

if __name__ == "__main__":
    run("PyMC", pm.__version__, SETTINGS, fit)
