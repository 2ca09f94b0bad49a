"""Non-centring of hierarchical variables: the same density in other coordinates, the better form is kept, draws are the model's own variables."""

import pickle

import certus
import numpy as np
import pytest
from certus import reparametrise
from certus.errors import UsageError
from certus.targets import NonCentred
from test_adapters_oracle import check_gradients

Y, SIGMA = np.array([28.0, 8, -3, 7, -1, 1, 18, 12]), np.array([15.0, 10, 16, 11, 9, 11, 10, 18])


def eight_schools():
    """Exact means and sds of mu, tau and theta with mu ~ N(0, 5), tau ~ half-Cauchy(5): by sums over log tau, given which all is normal.

    With v = 1/(σ² + τ²): Var(mu | τ) = V = 1/(1/25 + Σ v), E(mu | τ) = m = V Σ v y, and with b = τ²/(σ² + τ²) theta has the mean
    (1 - b) m + b y and the variance σ² b + (1 - b)² V.
    """
    tau = np.exp(np.linspace(np.log(1e-4), np.log(1e4), 20_000))[:, None]
    v, b = 1 / (SIGMA**2 + tau**2), tau**2 / (SIGMA**2 + tau**2)
    spread = 1 / (1 / 25 + v.sum(1))
    m = spread * (v * Y).sum(1)
    log_p = 0.5 * (np.log(v).sum(1) + np.log(spread) - (v * Y**2).sum(1) + m**2 / spread)
    log_p += np.log(tau[:, 0]) - np.log1p((tau[:, 0] / 5) ** 2)
    w = np.exp(log_p - log_p.max())
    w /= w.sum()
    means = np.column_stack([m, tau, (1 - b) * m[:, None] + b * Y])
    variances = np.column_stack([spread, 0 * tau, SIGMA**2 * b + (1 - b) ** 2 * spread[:, None]])
    mean = w @ means
    return mean, np.sqrt(w @ (variances + (means - mean) ** 2))


def check_eight_schools(fit):
    mean, sd = eight_schools()
    # 4.4 and 3.6 are also what long runs of NUTS on the non-centred model give
    assert abs(mean[0] - 4.4) < 0.05 and abs(mean[1] - 3.6) < 0.05
    table = fit.summary()
    assert list(table.index) == ["mu", "tau", *(f"theta[{k}]" for k in range(8))]
    assert (abs(table["mean"] - mean) < 0.15 * sd).all()
    assert (abs(table["sd"] / sd - 1) < 0.15).all()


def standard(points):
    return -0.5 * (points**2).sum(1) - np.log(2 * np.pi) * points.shape[1] / 2, -points


def funnel(points):
    v, x = points[:, :1], points[:, 1:]
    # finite where L-BFGS falls into the neck
    inverse = np.exp(np.minimum(-v, 300))
    square = x**2 * inverse
    value = -v[:, 0] ** 2 / 18 - 0.5 * (square + v).sum(1) - np.log(3) - np.log(2 * np.pi) * points.shape[1] / 2
    return value, np.column_stack([-v[:, 0] / 9 + 0.5 * (square - 1).sum(1), -x * inverse])


def forms(own, other, variables=("x",), **fields):
    made = certus.target(other, dim=3) if other is not None else None
    return certus.Target(own, 3, noncentred=NonCentred(variables, lambda: made), **fields)


# ---- which form is kept


def test_the_form_with_the_better_elbo_is_kept():
    fit = certus.fit(forms(funnel, standard), progress=False)
    assert fit.verdict == "accurate" and fit.neg_elbo == pytest.approx(0, abs=1e-9)
    assert fit.sentences[-1].startswith("x was non-centred (ELBO 0.000 ± ") and " against -" in fit.sentences[-1]
    assert "x was non-centred" in repr(fit) and "x was non-centred" in fit._repr_html_()
    assert fit.to_dict()["settings"] == {}
    fit = certus.fit(forms(funnel, funnel, ("x", "y")), progress=False, posterior="gaussian")
    assert fit.notes[0].startswith("the model was kept as written: with x and y non-centred the ELBO is ")
    assert fit.to_dict()["settings"] == {"posterior": "gaussian"}


def same(a, b):
    """In all but what measures time."""
    records = [{k: v for k, v in f.to_dict().items() if k not in ("seconds", "trace")} for f in (a, b)]
    assert records[0] == records[1]
    assert a.sentences == b.sentences
    np.testing.assert_array_equal(a.sample(5), b.sample(5))
    return True


def test_an_accurate_fit_and_one_without_such_variables_are_not_touched():
    never = NonCentred(("x",), lambda: pytest.fail("the other form was made"))
    plain = certus.fit(certus.target(standard, dim=3), progress=False)
    for form in (never, NonCentred(), None):
        assert same(certus.fit(certus.Target(standard, 3, noncentred=form), progress=False), plain)
    own = certus.fit(certus.Target(funnel, 3, noncentred=NonCentred()), progress=False, posterior="gaussian")
    off = certus.fit(certus.Target(funnel, 3, noncentred=never), progress=False, posterior="gaussian", reparametrise=False)
    assert same(own, off) and own.notes == []


def test_the_form_can_be_asked_for():
    fit = certus.fit(forms(standard, standard), progress=False, reparametrise=True)
    assert fit.notes == ["x was non-centred, as was asked for"]
    with pytest.raises(UsageError, match="reparametrise is 'always'"):
        certus.fit(forms(standard, standard), reparametrise="always")
    with pytest.raises(UsageError, match="no variable is known"):
        certus.fit(certus.target(standard, dim=3), reparametrise=True)
    with pytest.raises(UsageError, match="declared"):
        certus.fit(forms(standard, standard, log_concave=True), reparametrise=True)
    with pytest.raises(UsageError, match="reparametrise is True, but it applies only to log densities"):
        certus.fit(certus.logistic(np.eye(4), np.array([0, 1, 0, 1])), reparametrise=True)


def test_what_goes_wrong_with_the_other_form_leaves_the_own_one():
    def broken(points):
        raise RuntimeError("no such density")

    for other in (None, broken):
        fit = certus.fit(forms(funnel, other), progress=False, posterior="gaussian")
        assert fit.notes[0].startswith("the model was kept as written: with x non-centred there is no fit (")
        assert len(fit.notes) == 1 and fit.verdict == "unreliable"


@pytest.mark.parametrize("limit", [5_000, 60_000, 400_000])
def test_limits_hold_for_both_forms_together(limit):
    evaluated = [0]

    def counted(fn):
        def count(points):
            evaluated[0] += len(points)
            return fn(points)

        return count

    fit = certus.fit(forms(counted(funnel), counted(standard)), progress=False, posterior="gaussian", max_gradients=limit)
    assert evaluated[0] <= limit
    assert fit.settings["max-gradients"] == limit
    tried = "x was non-centred" in fit.notes[0]
    assert tried if limit == 400_000 else fit.notes == ["the limits leave too little to try the model non-centred"]


def test_notes_are_saved_and_pickled(tmp_path):
    fit = certus.fit(forms(funnel, standard), progress=False)
    fit.save(tmp_path / "fit")
    for again in (certus.load(tmp_path / "fit"), pickle.loads(pickle.dumps(fit))):
        assert again.sentences == fit.sentences
    fit.report(tmp_path / "report.html")
    assert "x was non-centred" in (tmp_path / "report.html").read_text()


def test_functions_get_advice_where_it_may_help():
    advised = certus.fit(certus.target(funnel, dim=3), progress=False, posterior="gaussian")
    assert advised.verdict == "unreliable" and advised.sentences[-1] == reparametrise.ADVICE
    modes = certus.fit(certus.target(two_modes, dim=2, start=[6.0, 0.0]), progress=False, posterior="gaussian")
    assert modes.verdict == "unreliable" and modes.notes == []


def two_modes(points):
    x = points[:, 0]
    value = np.logaddexp(-0.5 * (x - 6) ** 2, -0.5 * (x + 6) ** 2) - 0.5 * points[:, 1] ** 2
    return value, np.column_stack([-x + 6 * np.tanh(6 * x), -points[:, 1]])


# ---- PyMC


@pytest.fixture
def pm():
    pymc = pytest.importorskip("pymc", reason="PyMC is not installed")
    import pytensor

    # no C code is compiled
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        yield pymc


def test_pymc_densities_differ_by_the_jacobian(pm):
    """log p(t) = log p(x(t)) + Σ log scale, where one variable is a parent of the others."""
    with pm.Model(coords={"school": ["a", "b"]}) as model:
        size = pm.LogNormal("size", pm.Normal("mu", 0, 5), pm.HalfNormal("tau", 2), shape=2, initval=np.array([1.0, 2.0]))
        theta = pm.Normal("theta", model["mu"], model["tau"], dims="school")
        g = pm.StudentT("g", nu=pm.Gamma("nu", 3, 1), mu=theta, sigma=pm.math.exp(theta / 5), shape=(3, 2))
        pm.Deterministic("total", g.sum() + size)
        pm.Normal("y", g.sum(0), size[0], observed=[1.0, 2.0])
        pm.Potential("bound", -(theta.sum() ** 2))
    own = certus.pymc(model)
    assert own.noncentred.variables == ("size", "theta", "g")
    other = own.noncentred.make()
    assert other.names[:6] == ("mu", "tau_log__", "size_decentered[0]", "size_decentered[1]", "theta_decentered[a]", "theta_decentered[b]")
    assert other.variables == own.variables and other.starts.shape == own.starts.shape
    points = np.random.default_rng(0).normal(size=(5, own.dim))
    for t in (points, other.start[None]):
        seen = other.constrain(t)
        log_tau = np.log(seen["tau"])[:, None]
        x = np.concatenate([seen["mu"][:, None], log_tau, np.log(seen["size"]), seen["theta"], np.log(seen["nu"])[:, None], seen["g"].reshape(-1, 6)], axis=1)
        jacobian = 4 * log_tau[:, 0] + 3 * (seen["theta"] / 5).sum(1)
        np.testing.assert_allclose(other.log_density(t)[0], own.log_density(x)[0] + jacobian, rtol=0, atol=1e-10)
        for name, values in own.constrain(x).items():
            np.testing.assert_allclose(seen[name], values, rtol=1e-12)
        np.testing.assert_allclose(other.log_likelihood(t)["y"], own.log_likelihood(x)["y"], rtol=1e-9)
    # the start is the same point, with the initial value of the user
    np.testing.assert_allclose(x[0], own.start, rtol=1e-12, atol=1e-15)
    check_gradients(other)


def test_pymc_leaves_other_variables_alone(pm):
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", 1)
        pm.Normal("w", 0, 1, shape=2)
        pm.HalfNormal("half", tau)
        pm.TruncatedNormal("cut", 0, tau, lower=0)
        pm.Normal("cuts", 0, tau, shape=2, transform=pm.distributions.transforms.ordered, initval=np.array([0.0, 1.0]))
        pm.Normal("y", 0, tau, observed=[1.0])
    assert certus.pymc(model).noncentred == NonCentred()


def test_scales_that_are_far_below_the_location_keep_their_digits(pm):
    with pm.Model() as model:
        pm.Normal("x", pm.Normal("mu", 0, 1e6), pm.LogNormal("s", 0, 10))
    other = certus.pymc(model).noncentred.make()
    at = np.array([[1e6, -40.0, 0.0], [1e6, -40.0, 2.0], [1e6, -800.0, 2.0]])
    values, gradients = other.log_density(at)
    assert values[0] - values[1] == pytest.approx(2.0, abs=1e-9) and gradients[1, 2] == pytest.approx(-2.0, abs=1e-9)
    assert values[2] == -np.inf


def test_draws_of_a_conjugate_model_have_its_moments(pm):
    """mu ~ N(0, 3²), theta ~ N(mu, 2²), y ~ N(theta, σ²) is normal: the precision of (mu, theta) is known."""
    y, sigma = np.array([1.0, 4.0, -2.0]), np.array([0.5, 1.0, 3.0])
    with pm.Model() as model:
        theta = pm.Normal("theta", pm.Normal("mu", 0, 3), 2, shape=3)
        pm.Normal("y", theta, sigma, observed=y)
    precision = np.diag([1 / 9 + 3 / 4, *(1 / 4 + 1 / sigma**2)])
    precision[0, 1:] = precision[1:, 0] = -1 / 4
    covariance = np.linalg.inv(precision)
    mean, sd = covariance @ np.array([0, *(y / sigma**2)]), np.sqrt(np.diag(covariance))
    fit = certus.fit(model, reparametrise=True, progress=False)
    assert fit.verdict == "accurate" and fit.names[1] == "theta_decentered[0]"
    table = fit.summary()
    assert list(table.index) == ["mu", "theta[0]", "theta[1]", "theta[2]"]
    # five standard errors of 16,000 draws
    assert (abs(table["mean"] - mean) < 0.04 * sd).all() and (abs(table["sd"] / sd - 1) < 0.03).all()
    draws = fit.to_arviz(draws=4000)["posterior"]
    assert set(draws.data_vars) == {"mu", "theta"}
    joint = np.column_stack([draws["mu"].values[0], draws["theta"].values[0]])
    np.testing.assert_allclose(np.corrcoef(joint.T), covariance / np.outer(sd, sd), atol=0.08)


def test_informative_data_keep_the_model_as_written(pm):
    """sds of 0.1 fix theta, whatever tau is; four schools leave tau uncertain."""
    with pm.Model() as model:
        theta = pm.Normal("theta", pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5), shape=4)
        pm.Normal("y", theta, 0.1, observed=Y[:4])
    target = certus.pymc(model)
    fit = certus.fit(target, progress=False, posterior="importance")
    off = certus.fit(target, progress=False, posterior="importance", reparametrise=False)
    assert fit.notes[0].startswith("the model was kept as written: with theta non-centred") and off.notes == []
    np.testing.assert_array_equal(fit.mean, off.mean)
    np.testing.assert_array_equal(fit.sample(5), off.sample(5))


def test_centred_eight_schools_of_pymc():
    pm = pytest.importorskip("pymc", reason="PyMC is not installed")
    with pm.Model() as model:
        theta = pm.Normal("theta", pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5), shape=8)
        pm.Normal("y", theta, SIGMA, observed=Y)
    fit = certus.fit(model, progress=False)
    assert fit.notes[0].startswith("theta was non-centred (ELBO -31.5")
    assert fit.verdict in ("accurate", "usable after correction")
    check_eight_schools(fit)


def test_the_sds_of_forty_counties():
    """The centred model `radon` of bench/posteriors: 700 houses in 40 counties of 1 to 114, three unknown sds.

    The reference is that of bench/posteriors/reference.json (10,000 draws of nutpie); sums over a grid of the sds differ from it by less than 0.02 sd
    and 0.5 %.
    """
    pm = pytest.importorskip("pymc", reason="PyMC is not installed")
    r = np.random.default_rng(23)
    county = np.repeat(np.arange(40), 1 + r.multinomial(660, r.dirichlet(np.full(40, 0.5))))
    floor = (r.random(county.size) < 0.17).astype(float)
    y = 1.46 + r.normal(scale=0.33, size=40)[county] + (-0.68 + r.normal(scale=0.3, size=40)[county]) * floor
    y = y + r.normal(scale=0.73, size=county.size)
    with pm.Model() as model:
        a = pm.Normal("a", pm.Normal("mu_a", 0, 10), pm.HalfNormal("sigma_a", 1), shape=40)
        b = pm.Normal("b", pm.Normal("mu_b", 0, 10), pm.HalfNormal("sigma_b", 1), shape=40)
        pm.Normal("y", a[county] + b[county] * floor, pm.HalfNormal("sigma", 1), observed=y)
    fit = certus.fit(model, progress=False)
    assert fit.verdict == "accurate" and fit.table.source == "nuts" and fit.notes[0].startswith("a and b were non-centred")
    for name, mean, sd in (("sigma_a", 0.32667, 0.060406), ("sigma", 0.71949, 0.019949)):
        row = fit.summary().loc[name]
        assert row["mean"] == pytest.approx(mean, rel=0.1) and row["sd"] == pytest.approx(sd, rel=0.1)


# ---- NumPyro


@pytest.fixture
def numpyro():
    return pytest.importorskip("numpyro", reason="NumPyro is not installed")


def schools(y, sigma):
    import numpyro
    import numpyro.distributions as dist

    mu, tau = numpyro.sample("mu", dist.Normal(0, 5)), numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("school", len(y)):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.deterministic("doubled", 2 * theta)
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def test_numpyro_densities_differ_by_the_jacobian(numpyro):
    dist = numpyro.distributions

    def model(y):
        mu, tau = numpyro.sample("mu", dist.Normal(0, 5)), numpyro.sample("tau", dist.HalfNormal(2))
        with numpyro.plate("school", 2):
            theta = numpyro.sample("theta", dist.Normal(mu, tau))
        g = numpyro.sample("g", dist.StudentT(4.0, theta, 2 * tau).expand([3, 2]).to_event(2))
        numpyro.sample("w", dist.Normal(0, 1))
        numpyro.sample("size", dist.LogNormal(mu, tau))
        with numpyro.handlers.scale(scale=0.5):
            numpyro.sample("halved", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(g.sum(0), 1.0), obs=y)

    own = certus.numpyro(model, np.array([1.0, 2.0]))
    assert set(own.noncentred.variables) == {"theta", "g"}
    other = own.noncentred.make()
    assert [v.name for v in other.variables] == ["mu", "tau", "theta", "g", "w", "size", "halved"] and "theta_decentered[1]" in other.names
    t = np.random.default_rng(0).normal(size=(5, own.dim))
    seen = other.constrain(t)
    assert list(seen) == [v.name for v in own.variables]
    # sorted by name, scales as logarithms
    pieces = {**seen, "size": np.log(seen["size"]), "tau": np.log(seen["tau"])}
    x = np.concatenate([pieces[name].reshape(5, -1) for name in sorted(pieces)], axis=1)
    jacobian = 2 * pieces["tau"] + 6 * (np.log(2) + pieces["tau"])
    np.testing.assert_allclose(other.log_density(t)[0], own.log_density(x)[0] + jacobian, rtol=0, atol=1e-10)
    np.testing.assert_allclose(other.log_likelihood(t)["y"], own.log_likelihood(x)["y"], rtol=1e-9)
    check_gradients(other)


def test_a_numpyro_model_with_its_own_reparametrisation_is_left_alone(numpyro):
    config = {"theta": numpyro.infer.reparam.LocScaleReparam(0)}
    assert certus.numpyro(numpyro.handlers.reparam(schools, config=config), Y, SIGMA).noncentred == NonCentred()


def test_eight_schools_of_numpyro(numpyro):
    fit = certus.fit(certus.numpyro(schools, Y, SIGMA), progress=False, posterior="gaussian")
    assert fit.notes[0].startswith("theta was non-centred (ELBO -31.5")
    tree = fit.to_arviz(draws=10)
    assert tree["posterior"]["theta"].dims == ("chain", "draw", "school") and "theta_decentered" not in tree["posterior"]
    table = fit.summary()
    np.testing.assert_allclose(2 * table.loc["theta[3]", "mean"], table.loc["doubled[3]", "mean"])


def test_a_funnel_without_data_is_not_called_accurate(numpyro):
    """q is exact in (v, t), but 16,000 draws do not give the sd of x."""
    dist = numpyro.distributions

    def model():
        import jax.numpy as jnp

        v = numpyro.sample("v", dist.Normal(0, 3))
        numpyro.sample("x", dist.Normal(0, jnp.exp(v / 2)).expand([3]).to_event(1))

    fit = certus.fit(certus.numpyro(model), progress=False)
    assert fit.notes[0].startswith("x was non-centred") and fit.verdict == "unreliable" and fit.status == "limit"
    assert fit.sentences[0].startswith("unreliable: the tails of x[")
