"""Memory: a matrix is not copied into a model, and nothing is left behind by fits, refusals and exceptions."""

import gc
import os

import numpy as np
import pytest

import certus


def resident() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


linux = pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="the resident memory is read from /proc")


@linux
def test_a_matrix_is_not_copied():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1_000_000, 25))
    y = (x[:, 0] + rng.normal(size=len(x)) > 0).astype(np.float64)
    certus.logistic(x[:5000], y[:5000]).fit()
    gc.collect()
    before = resident()
    model = certus.logistic(x, y)
    grown = resident() - before
    # X has 200 MB; y is kept, and a leaf of 1024 rows is worked on at a time
    assert grown < 0.25 * x.nbytes, f"{grown / 1e6:.0f} MB"
    # the model reads the array itself and keeps it alive
    assert model.rows == len(x)
    latents = np.zeros((1, model.dim))
    at_zero = model._model.log_density(latents)[0]
    x[:, 1] += 1.0
    moved = np.zeros((1, model.dim))
    moved[0, 2] = 0.1
    changed = model._model.log_density(moved)[0]
    x[:, 1] -= 1.0
    assert changed != model._model.log_density(moved)[0] and at_zero == model._model.log_density(latents)[0]
    del x
    assert model._model.log_density(latents)[0] == at_zero


@linux
def test_repeats_leave_nothing_behind():
    x = np.random.default_rng(1).normal(size=(40, 2))
    y = (x[:, 0] > 0).astype(np.float64)
    target = certus.target(lambda z: (-0.5 * (z**2).sum(1), -z), dim=2)

    def bad(z):
        raise KeyError("mine")

    def once(k):
        if k % 4 == 0:
            certus.fit(target, progress=False)
        elif k % 4 == 1:
            assert certus.logistic(x, y).rows == 40
        elif k % 4 == 2:
            with pytest.raises(KeyError):
                certus.fit(certus.target(bad, dim=2), progress=False)
        else:
            with pytest.raises(certus.DataError):
                certus.logistic(x, y * 3)

    for k in range(2000):
        once(k)
    gc.collect()
    before = resident()
    for k in range(10_000):
        once(k)
    gc.collect()
    grown = resident() - before
    assert grown < 5e6, f"{grown / 1e6:.1f} MB"
