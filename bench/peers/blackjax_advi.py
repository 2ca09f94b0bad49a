"""BlackJAX: full-rank VI with its default 100 samples and Adam, and with fewer samples under two decaying schedules."""
from common import run
import jax_scan
import blackjax
import jax
import jax.numpy as jnp
import optax
from blackjax.vi.fullrank_vi import _unflatten_cholesky


def log_density(problem):
    """log p(y, w) up to a constant as a JAX function of the flat latents."""
    X, y, d = jnp.asarray(problem.X), jnp.asarray(problem.y), problem.X.shape[1]

    def density(w):
        if problem.group is None:
            prior, t = -0.5 * w @ w, X @ w
        else:
            theta, z = w[:d], w[d:].reshape(-1, d)
            prior = -0.5 * theta @ theta - 0.5 * jnp.sum((z - theta) ** 2)
            t = jnp.sum(X * z[problem.group], axis=1)
        if problem.linear:
            return prior - 0.5 * jnp.sum((y - t) ** 2)
        return prior + jnp.sum(y * t - jax.nn.softplus(t))

    return density


def fit(problem, options, seed, limit):
    steps, samples = options["steps"], options["samples"]
    algorithm = blackjax.fullrank_vi(log_density(problem), options["optimizer"](steps), samples)
    state = algorithm.init(jnp.zeros(problem.dim))
    key = jax.random.PRNGKey(seed)
    state, seconds, compiled = jax_scan.run_scan(lambda s, k: algorithm.step(k, s)[0], state, key, steps, limit)
    return {
        "mean": jax_scan.double(state.mu),
        "factor": jax_scan.double(_unflatten_cholesky(state.chol_params, problem.dim)),
        "gradients": steps * samples,
        "cpu_seconds": seconds,
        "compile_seconds": compiled,
        "said": "nothing",
    }


SETTINGS = {
    "100 samples, Adam 0.01 x 1000": ({"steps": 1000, "samples": 100, "optimizer": lambda n: optax.adam(0.01)}, False),
    "STL, cosine, 50000 gradients": (
        {"steps": 5000, "samples": 10, "optimizer": lambda n: optax.adam(optax.cosine_decay_schedule(0.02, n))},
        True,
    ),
    "STL, NumPyro's schedule, 50000 gradients": (
        {"steps": 5000, "samples": 10, "optimizer": lambda n: optax.adam(optax.exponential_decay(0.02, n, 1e-3))},
        True,
    ),
}

if __name__ == "__main__":
    run("BlackJAX", blackjax.__version__, SETTINGS, fit)
