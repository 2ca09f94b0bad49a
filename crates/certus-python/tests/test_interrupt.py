"""Ctrl-C in a process of its own: the fit comes back with what it has, and the interpreter goes on."""

import os
import signal
import subprocess
import sys
import time

import pytest

TARGET = """
import sys, time, numpy as np, certus
def slow(z):
    time.sleep(0.002)
    return -np.cosh(z).sum(1), -np.sinh(z)
print("go", flush=True)
began = time.time()
fit = certus.fit(certus.target(slow, dim=20), gap=1e-9, progress=False)
print(fit.status, fit.mean.shape, fit.certificate.gap.level, flush=True)
again = certus.fit(certus.target(lambda z: (-0.5*(z**2).sum(1), -z), dim=2))
print(again.status, flush=True)
"""

INSIDE = TARGET.replace("time.sleep(0.002)", "time.sleep(30)")

MODEL = """
import numpy as np, certus
rng = np.random.default_rng(0)
X = rng.normal(size=(20_000, 20)); y = (rng.random(20_000) < 0.5).astype(float)
model = certus.logistic(X, y)
print("go", flush=True)
fit = model.fit(gap=1e-12, method="prox-energy", iterations=10**9, progress=False)
print(fit.status, fit.mean.shape, fit.certificate.gap.level, flush=True)
print(certus.logistic(X[:100], y[:100]).fit().status, flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="SIGINT is sent in another way there")
@pytest.mark.parametrize("program, wait", [(TARGET, 1.0), (INSIDE, 1.0), (MODEL, 2.0)], ids=["target", "inside the function", "model"])
def test_interrupts(program, wait):
    # a shell starts its background jobs deaf to Ctrl-C, and so would be everything below them
    child = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert child.stdout.readline().strip() == "go"
        time.sleep(wait)
        sent = time.monotonic()
        child.send_signal(signal.SIGINT)
        first = child.stdout.readline()
        took = time.monotonic() - sent
        # not communicate(), which does not see what readline has read ahead
        out, err = child.stdout.read(), child.stderr.read()
        child.wait(timeout=120)
    finally:
        child.kill()
    assert first.startswith("interrupted"), (first, out, err)
    assert took < 10 and "reached" in out and child.returncode == 0, (took, out, err)
