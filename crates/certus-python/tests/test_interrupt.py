"""Ctrl-C and max_time: the fit comes back with what it has within 2 s, or raises, and the interpreter goes on.

The product promises 2 s; on a machine with more to do than cores 4 s are allowed here.
"""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import certus


def allowed():
    return 2.0 if os.getloadavg()[0] <= (os.cpu_count() or 1) + 1 else 4.0


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
    assert took < allowed() and "reached" in out and child.returncode == 0, (took, out, err)


WIDE = """
import numpy as np, pandas as pd, certus
rng = np.random.default_rng(0)
n, levels = 8000, {levels}
g = np.concatenate([np.arange(levels), rng.integers(0, levels, n - levels)])
frame = pd.DataFrame(dict(y=(rng.random(n) < 0.4).astype(float), g=["l%d" % k for k in g]))
"""

# 4,000 coefficients: one factorisation takes longer than 2 s
FACTORISATION = WIDE.format(levels=4000) + """
model = certus.logistic("y ~ g", data=frame)
print("go", flush=True)
try:
    print(model.fit(method="stochastic", progress=False).status, flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
print(certus.fit(certus.target(lambda z: (-0.5*(z**2).sum(1), -z), dim=2)).status, flush=True)
"""

# 1,500 coefficients: the data, the mode, steps
CONSTRUCTION = WIDE.format(levels=1500) + """
print("go", flush=True)
try:
    while True:
        model = certus.logistic("y ~ g", data=frame)
except KeyboardInterrupt:
    print("interrupted", flush=True)
print(certus.logistic("y ~ 1", data=frame).fit().status, flush=True)
"""

# the grid of scales, or the search before it
SCALES = """
import numpy as np, pandas as pd, certus
rng = np.random.default_rng(0)
n = 100_000
frame = pd.DataFrame(dict(y=(rng.random(n) < 0.4).astype(float), x=rng.normal(size=n), g=rng.integers(0, 20_000, n).astype(str)))
model = certus.logistic("y ~ x + (1 | g)", data=frame)
print("go", flush=True)
try:
    print(model.fit(progress=False).status, flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
print(certus.logistic("y ~ x", data=frame[:500]).fit().status, flush=True)
"""

# certified answers: many rows at many points
EFFECTS = """
import numpy as np, pandas as pd, certus
rng = np.random.default_rng(0)
n = 20_000
frame = pd.DataFrame(rng.normal(size=(n, 8)), columns=list("abcdefgh"))
frame["y"] = (rng.random(n) < 1 / (1 + np.exp(-frame.a))).astype(float)
fit = certus.logistic("y ~ a + b + c + d + e + f + g + h", data=frame).fit(progress=False)
print("go", flush=True)
try:
    while True:
        fit.effects(frame, slope=list("abcdefgh"))
except KeyboardInterrupt:
    print("interrupted", flush=True)
print(certus.logistic("y ~ a", data=frame[:500]).fit().status, flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="SIGINT is sent in another way there")
@pytest.mark.parametrize("program, wait", [(FACTORISATION, 3.0), (CONSTRUCTION, 1.0), (SCALES, 1.0), (EFFECTS, 1.0)], ids=["factorisation", "construction", "scales", "effects"])
def test_long_steps_are_interrupted(program, wait):
    test_interrupts(program, wait)


def wide(levels):
    scope = {}
    exec(WIDE.format(levels=levels), scope)
    return scope["frame"]


@pytest.mark.parametrize("levels, method", [(1500, "auto"), (1500, "stochastic")])
@pytest.mark.parametrize("seconds", [0.5, 3.0])
def test_max_time_holds(levels, method, seconds):
    model = certus.logistic("y ~ g", data=wide(levels))
    began = time.monotonic()
    try:
        fit = model.fit(method=method, max_time=seconds, progress=False)
        assert fit.status == "limit"
    except certus.Error as error:
        assert error.exit_code == 10 and "max_time" in str(error)
    assert time.monotonic() - began < seconds + allowed()


def test_a_stopped_fit_leaves_the_model_as_it_was():
    frame = wide(200)
    fresh = certus.logistic("y ~ g", data=frame).fit(progress=False)
    model = certus.logistic("y ~ g", data=frame)
    for seconds in (0.0, 0.05, 0.2):
        try:
            model.fit(max_time=seconds, progress=False)
        except certus.Error as error:
            assert error.exit_code == 10
    again = model.fit(progress=False)
    assert again.status == fresh.status and np.array_equal(again.mean, fresh.mean) and np.array_equal(again.sd, fresh.sd)


def test_max_time_between_calls_of_a_function():
    def slow(z):
        time.sleep(0.05)
        return -np.cosh(z).sum(1), -np.sinh(z)

    began = time.monotonic()
    fit = certus.fit(certus.target(slow, dim=50), gap=1e-9, max_time=1.0, progress=False)
    assert fit.status == "limit" and time.monotonic() - began < 1.0 + allowed()
