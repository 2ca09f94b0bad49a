"""Runs a JAX optimiser step many times as a compiled scan, with the compilation timed apart from the fit."""
import jax
import numpy as np

from common import Clock, check_limit

# The problems are posed in double precision; the tools' default of single precision is faster but cannot resolve small gaps.
jax.config.update("jax_enable_x64", True)

CHUNKS = 20


def run_scan(step, init, key, steps, limit):
    """step(state, key) -> state, `steps` times from `init`. Returns state, CPU seconds of the fit and of the compilation."""

    def chunk(state, keys):
        return jax.lax.scan(lambda s, k: (step(s, k), None), state, keys)[0]

    assert steps % CHUNKS == 0
    compiling = Clock()
    keys = jax.random.split(key, steps)
    keys = keys.reshape((CHUNKS, steps // CHUNKS) + keys.shape[1:])
    compiled = jax.jit(chunk).lower(init, keys[0]).compile()
    parts = [jax.block_until_ready(part) for part in keys]
    compile_seconds = compiling()
    clock = Clock()
    state = init
    for i, part in enumerate(parts):
        state = jax.block_until_ready(compiled(state, part))
        check_limit(clock(), (i + 1) / CHUNKS, limit)
    return state, clock(), compile_seconds


def double(a):
    """A JAX array as numpy doubles."""
    return np.asarray(a, dtype=float)
