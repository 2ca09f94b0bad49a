"""NumPyro: AutoMultivariateNormal with Adam as in its examples, and with clipped Adam under an exponentially decaying rate."""
from common import Clock, run
import jax_scan
import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoMultivariateNormal


def build_model(problem):
    """The problem as a NumPyro model; its latents flatten in the benchmark's order (theta before z)."""
    X, y, d = jnp.asarray(problem.X), jnp.asarray(problem.y), problem.X.shape[1]

    def model():
        if problem.group is None:
            t = X @ numpyro.sample("w", dist.Normal(jnp.zeros(d), 1.0).to_event(1))
        else:
            theta = numpyro.sample("theta", dist.Normal(jnp.zeros(d), 1.0).to_event(1))
            groups = int(problem.group.max()) + 1
            z = numpyro.sample("z", dist.Normal(jnp.broadcast_to(theta, (groups, d)), 1.0).to_event(2))
            t = jnp.sum(X * z[problem.group], axis=1)
        likelihood = dist.Normal(t, 1.0) if problem.linear else dist.Bernoulli(logits=t)
        numpyro.sample("y", likelihood.to_event(1), obs=y)

    return model


def decayed(first, last, steps):
    """Learning rate that falls exponentially from first to last."""
    return lambda i: first * (last / first) ** (i / steps)


def fit(problem, options, seed, limit):
    steps, particles = options["steps"], options["particles"]
    building = Clock()
    model = build_model(problem)
    guide = AutoMultivariateNormal(model)
    svi = SVI(model, guide, options["optimizer"](steps), Trace_ELBO(num_particles=particles))
    key = jax.random.PRNGKey(seed)
    state = svi.init(key)
    built = building()
    # svi.run does the same updates, but compiles inside the call, so that its time could not be told apart.
    state, seconds, compiled = jax_scan.run_scan(lambda s, _: svi.update(s)[0], state, key, steps, limit)
    posterior = guide.get_posterior(svi.get_params(state))
    return {
        "mean": jax_scan.double(posterior.loc),
        "factor": jax_scan.double(posterior.scale_tril),
        "gradients": steps * particles,
        "cpu_seconds": seconds,
        "compile_seconds": built + compiled,
        "said": "nothing",
    }


SETTINGS = {
    "Adam 0.01 x 2000": ({"steps": 2000, "particles": 1, "optimizer": lambda n: numpyro.optim.Adam(0.01)}, False),
    "ClippedAdam decayed, 50000 gradients": (
        {"steps": 5000, "particles": 10, "optimizer": lambda n: numpyro.optim.ClippedAdam(decayed(0.02, 2e-5, n))},
        True,
    ),
}

if __name__ == "__main__":
    run("NumPyro", numpyro.__version__, SETTINGS, fit)
