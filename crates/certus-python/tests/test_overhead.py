"""The cost of a step through Python beyond the function itself."""

import time

import numpy as np
import pytest

from certus import _certus

jax = pytest.importorskip("jax")


def test_a_step_costs_little_beyond_the_function():
    jax.config.update("jax_enable_x64", True)
    function = jax.jit(jax.vmap(jax.value_and_grad(lambda z: -0.5 * jax.numpy.sum(z**2))))
    points = np.random.default_rng(0).normal(size=(10, 10))

    def bare(n):
        began = time.perf_counter()
        for _ in range(n):
            values, gradients = function(points)
            values.block_until_ready()
            gradients.block_until_ready()
        return (time.perf_counter() - began) / n

    bare(200)
    _certus.seconds_per_step(function, 10, 10, 200)
    # turn by turn, so that both see the same machine; the least of each is the cost without its neighbours
    pairs = [(bare(1000), _certus.seconds_per_step(function, 10, 10, 1000)) for _ in range(7)]
    alone, through = (min(column) for column in zip(*pairs, strict=True))
    print(f"bare {alone * 1e6:.1f} us, step {through * 1e6:.1f} us, difference {(through - alone) * 1e6:.1f} us")
    assert through - alone <= 60e-6
