"""Stan programs as targets: the compile step, the loader, values, gradients, names, constrained draws, errors."""

import importlib.util
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from certus.errors import DataError, InputError, UsageError
from test_adapters_oracle import (
    CONCENTRATION, COUNTS, GROUP, Y, check_gradients, check_hierarchy, logistic_data, logistic_log_density, normal,
)

if importlib.util.find_spec("httpstan") is None or shutil.which("g++") is None:
    pytest.skip("httpstan or g++ is not installed", allow_module_level=True)

from certus._certus import StanModel  # noqa: E402
from certus.adapters import stan as adapter  # noqa: E402
from certus.adapters import stan_build  # noqa: E402

LOGISTIC = """
data { int<lower=0> N; int<lower=1> D; matrix[N, D] X; array[N] int<lower=0, upper=1> y; }
parameters { real a; vector[D] b; }
model { a ~ normal(0, 10); b ~ normal(0, 2.5); y ~ bernoulli_logit_glm(X, a, b); }
generated quantities { vector[N] log_lik; for (n in 1:N) log_lik[n] = bernoulli_logit_lpmf(y[n] | a + X[n] * b); }
"""

HIERARCHY = """
data { int N; array[N] int g; vector[N] y; vector[4] alpha; array[4] int counts; }
parameters { real mu; real<lower=0> tau; vector[3] theta; simplex[4] p; }
transformed parameters { vector[3] doubled = 2 * theta; }
model {
  mu ~ normal(0, 1); tau ~ lognormal(0, 0.3); theta ~ normal(mu, tau); p ~ dirichlet(alpha);
  y ~ normal(theta[g], 1); target += dot_product(to_vector(counts), log(p));
}
generated quantities { vector[N] log_lik; for (n in 1:N) log_lik[n] = normal_lpdf(y[n] | theta[g[n]], 1); }
"""

REJECTING = """
parameters { matrix[2, 3] w; }
model { to_vector(w) ~ normal(1, 1); if (w[1, 1] < 0.5) reject("w[1, 1] is ", w[1, 1]); }
generated quantities { real r = normal_rng(0, w[1, 1] - 0.6); }
"""


def logistic_target():
    X, y = logistic_data()
    return adapter.target(LOGISTIC, {"N": 300, "D": 3, "X": X, "y": y}, observed="y")


@pytest.fixture(scope="module")
def logistic():
    return logistic_target()


def hierarchical_target():
    data = {"N": len(Y), "g": GROUP + 1, "y": Y, "alpha": CONCENTRATION, "counts": COUNTS}
    return adapter.target(HIERARCHY, data, observed="y")


@pytest.fixture(scope="module")
def hierarchical():
    return hierarchical_target()


@pytest.fixture(scope="module")
def without_threads():
    """A library as BridgeStan builds it by default, without STAN_THREADS."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stan_build, "FLAGS", [flag for flag in stan_build.FLAGS if flag != "-DSTAN_THREADS"])
        return stan_build.build(REJECTING)


def test_logistic_is_the_closed_form(logistic):
    assert logistic.names == ("a", "b[0]", "b[1]", "b[2]")
    np.testing.assert_array_equal(logistic.start, np.zeros(4))
    check_gradients(logistic)
    points = np.random.default_rng(2).normal(size=(9, 4))
    for ours, expected in zip(logistic.log_density(points), logistic_log_density(points), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-11)


def test_observed_data_and_pointwise_log_likelihood(logistic):
    X, y = logistic_data()
    np.testing.assert_array_equal(logistic.observed["y"], y)
    points = np.random.default_rng(2).normal(size=(9, 4))
    eta = points[:, :1] + points[:, 1:] @ X.T
    np.testing.assert_allclose(logistic.log_likelihood(points)["log_lik"], y * eta - np.logaddexp(0, eta), rtol=1e-12)
    assert [v.name for v in logistic.variables] == ["a", "b"]


def test_hierarchy_with_scale_and_simplex(hierarchical):
    check_gradients(hierarchical)
    check_hierarchy(hierarchical)
    assert hierarchical.names[:3] == ("mu", "unconstrained tau", "theta[0]")
    assert hierarchical.names[5:] == tuple(f"unconstrained p[{k}]" for k in (0, 1, 2))
    points = np.random.default_rng(5).normal(size=(6, 8))
    theta = hierarchical.constrain(points)["theta"]
    np.testing.assert_allclose(hierarchical.log_likelihood(points)["log_lik"], normal(Y, theta[:, GROUP], 1), rtol=1e-12)


def test_threads_do_not_mix_their_tapes(logistic, hierarchical):
    """Two programs, four threads: every answer is the one a single thread gives."""
    rng = np.random.default_rng(0)
    jobs = [(t, rng.normal(size=(16, t.dim))) for t in (logistic, hierarchical) for _ in range(20)]
    alone = [t.log_density(z) for t, z in jobs]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda job: job[0].log_density(job[1]), jobs))
    for (v1, g1), (v2, g2) in zip(alone, together, strict=True):
        np.testing.assert_array_equal(v1, v2)
        np.testing.assert_array_equal(g1, g2)


def test_a_library_without_threads_is_called_by_one_thread_at_a_time(without_threads):
    target = adapter.target(without_threads)
    assert not StanModel(without_threads).threads
    points = np.random.default_rng(1).normal(2.0, 0.3, size=(40, 8, 6))
    with ThreadPoolExecutor(4) as pool:
        for z, (values, gradients) in zip(points, pool.map(target.log_density, points), strict=True):
            np.testing.assert_allclose(values, normal(z, 1, 1).sum(1), rtol=1e-12)
            np.testing.assert_allclose(gradients, 1 - z, rtol=1e-12, atol=1e-14)


def test_matrices_and_rejected_points(without_threads):
    target = adapter.target(without_threads)
    # the origin is rejected, so the start is one of Stan's random points
    assert target.start[0] >= 0.5 and np.abs(target.start).max() < 2
    assert target.names == ("w[0, 0]", "w[1, 0]", "w[0, 1]", "w[1, 1]", "w[0, 2]", "w[1, 2]")
    np.testing.assert_array_equal(target.constrain(np.arange(1.0, 7.0)[None])["w"][0], [[1, 3, 5], [2, 4, 6]])
    model = StanModel(without_threads)
    values, gradients = model.log_density(np.array([[0.25, 0, 0, 0, 0, 0], [1.0, 0, 0, 0, 0, 0]]))
    assert values[0] == -np.inf and np.isnan(gradients[0]).all() and np.isfinite(values[1])
    assert "w[1, 1] is 0.25" in model.rejection


def test_generated_quantities_that_fail_are_nan(without_threads):
    target = adapter.target(without_threads)
    points = np.array([[0.55, 0, 0, 0, 0, 0], [1.0, 2, 0, 0, 0, 0]])
    with pytest.warns(RuntimeWarning, match="generated quantities of 1 of 2 draws are NaN.*[Ss]cale"):
        found = target.constrain(points)
    assert np.isnan(found["r"][0]) and np.isfinite(found["r"][1])
    np.testing.assert_array_equal(found["w"][:, 0, 0], [0.55, 1.0])


def test_programs_are_compiled_once(logistic):
    before = stan_build.build(LOGISTIC).stat().st_mtime_ns
    assert stan_build.build(LOGISTIC).stat().st_mtime_ns == before
    assert not list(stan_build.cache().glob("building-*"))


def test_files_with_includes(tmp_path, logistic):
    (tmp_path / "priors.stanfunctions").write_text("")
    (tmp_path / "model.stan").write_text("#include priors.stanfunctions\n" + LOGISTIC)
    (tmp_path / "broken.stan").write_text("#include absent.stan\n" + LOGISTIC)
    stan = stan_build.locate()
    assert "bernoulli_logit_glm" in stan_build.translate(stan, (tmp_path / "model.stan").read_text(), tmp_path)
    with pytest.raises(UsageError, match="absent.stan"):
        adapter.target(tmp_path / "broken.stan")


def test_errors_name_the_cause():
    X, y = logistic_data()
    good = {"N": 300, "D": 3, "X": X, "y": y}
    with pytest.raises(DataError, match="variable name=y"):
        adapter.target(LOGISTIC, {k: v for k, v in good.items() if k != "y"})
    with pytest.raises(DataError, match="must be less than or equal to 1"):
        adapter.target(LOGISTIC, good | {"y": y + 1})
    with pytest.raises(DataError, match=r"data\['y'\]"):
        adapter.target(LOGISTIC, good | {"y": ["yes"] * 300})
    with pytest.raises(DataError, match="observed names z"):
        adapter.target(LOGISTIC, good, observed=["z"])
    with pytest.raises(UsageError, match='";" expected'):
        adapter.target("parameters { real x }")
    with pytest.raises(InputError, match="absent.stan"):
        adapter.target("absent.stan")
    with pytest.raises(UsageError, match="neither Stan code"):
        adapter.target("a sentence")
    with pytest.raises(UsageError, match="model.hpp"):
        adapter.target(Path("model.hpp"))
    with pytest.raises(UsageError, match="seed is -1"):
        adapter.target(LOGISTIC, good, seed=-1)


def test_a_library_that_is_not_a_stan_program_is_refused():
    import _ctypes

    with pytest.raises(InputError, match="bs_model_construct"):
        StanModel(_ctypes.__file__)


def test_a_missing_compiler_is_named(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(UsageError, match="apt install g"):
        stan_build.build(LOGISTIC)


def test_wrong_shapes_are_refused(logistic):
    with pytest.raises(UsageError, match="3 columns"):
        logistic.log_density(np.zeros((2, 3)))
    with pytest.raises(TypeError):
        logistic.log_density(np.zeros((2, 4), dtype=np.float32))


def test_interpreter_ends_cleanly_after_threads_used_the_library(logistic):
    code = (
        "import sys; from certus._certus import StanModel; import numpy as np\n"
        "from certus.adapters.stan import library\n"
        "m = StanModel(library(sys.argv[1]), sys.argv[2]); m.log_density(np.zeros((64, m.dim))); del m\n"
    )
    X, y = logistic_data()
    data = adapter.data_text({"N": 20, "D": 3, "X": X[:20], "y": y[:20]})
    done = subprocess.run([sys.executable, "-c", code, LOGISTIC, data], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
