"""The same data and seed through the command line: the same numbers, and either door reads the other's directory.

The variable CERTUS names the binary.
"""

import json
import os
import subprocess

import numpy as np
import pandas as pd
import pytest

import certus

CERTUS = os.environ.get("CERTUS")
pytestmark = pytest.mark.skipif(not CERTUS, reason="the variable CERTUS names no binary of the command line")

CASES = {
    "logistic": ("logistic", "y ~ a + b", {}, ["--features", "a,b"]),
    "text": ("logistic", "y ~ a + city + a:city + old", {}, ["--features", "a,city,a:city,old"]),
    "group": ("logistic", "y ~ a + (a | site)", {"group_sd": 0.5}, ["--features", "a", "--group", "site: a", "--group-sd", "0.5"]),
    "unknown": ("logistic", "y ~ a + (1 | site)", {}, ["--features", "a", "--group", "site"]),
    "estimate": ("poisson", "count ~ a + (0 + a | site)", {"scales": "estimate"}, ["--features", "a", "--group", "site: 0,a", "--scales", "estimate"]),
    "linear": ("linear", "value ~ a + b", {"sigma": 0.7, "standardise": False}, ["--features", "a,b", "--sigma", "0.7", "--no-standardise"]),
    "stochastic": ("logistic", "y ~ a + b", {"method": "stochastic", "seed": 11}, ["--features", "a,b", "--method", "stochastic", "--seed", "11"]),
    "binomial": ("binomial", "hits ~ a", {"trials": "n"}, ["--features", "a", "--trials", "n"]),
    "poisson": ("poisson", "count ~ a", {"offset": "b", "prior_sd": 1.0}, ["--features", "a", "--offset", "b", "--prior-sd", "1"]),
}
RUN = ("method", "seed")


def run(*arguments, code=0):
    done = subprocess.run([CERTUS, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def csv(df, tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "data.csv"
    # as text with 17 digits, which come back to the same bits; the frame of the test is read from it too
    df.to_csv(path, index=False, float_format="%.17g")
    return path


@pytest.mark.parametrize("name", CASES)
def test_the_same_bits(name, df, csv, tmp_path):
    model, formula, settings, flags = CASES[name]
    out = tmp_path / "cli"
    response = formula.partition(" ")[0]
    theirs = json.loads(run("fit", model, csv, "--response", response, *flags, "--out", out, "--json", "--quiet"))
    own = {k: v for k, v in settings.items() if k not in RUN}
    fit = getattr(certus, model)(formula, data=df, **own).fit(**{k: settings[k] for k in RUN if k in settings})
    ours = fit.to_dict()
    for key in ("status", "message", "route", "neg_elbo", "certificate", "parameters", "counts", "data", "seed"):
        assert ours[key] == theirs[key], key
    loaded = certus.load(out)
    assert np.array_equal(loaded.sample(20, 3), fit.sample(20, 3))
    assert fit._fitted.parts()[1] == (out / "arrays.safetensors").read_bytes()
    pd.testing.assert_frame_equal(loaded.predict(df), fit.predict(df), check_exact=True)


def test_the_command_line_reads_our_directory(df, csv, tmp_path):
    fit = certus.logistic("y ~ a + city + (1 | site)", data=df, group_sd=0.5).fit()
    place = tmp_path / "ours"
    fit.save(place)
    # the independent checker does not know group terms
    assert "recomputed" in run("verify", place, "--data", csv)
    run("report", place)
    assert (place / "report.html").exists()
    run("predict", place, csv, "--to", tmp_path / "p.csv")
    predicted = pd.read_csv(tmp_path / "p.csv", comment="#")
    np.testing.assert_array_equal(predicted["mean"], fit.predict(df)["mean"])
    run("sample", place, "--draws", 50, "--seed", 4, "--to", tmp_path / "s.csv")
    drawn = pd.read_csv(tmp_path / "s.csv", comment="#")
    np.testing.assert_array_equal(drawn.to_numpy(), fit.sample(50, 4))


@pytest.mark.parametrize("method", ["prox-energy", "proj-entropy", "proj-stl", "prox-cv", "ball-stl"])
@pytest.mark.parametrize("steps", ["greedy", "paper", "horizon", "decaying"])
def test_steps_have_the_same_bits(method, steps, df, csv):
    model = certus.logistic("y ~ a + b", data=df)
    flags = ["--response", "y", "--features", "a,b", "--method", method, "--steps", steps, "--iterations", 30, "--batch", 3, "--seed", 5]
    settings = {"method": method, "steps": steps, "iterations": 30, "batch": 3, "seed": 5}
    if steps == "paper" and method in ("prox-cv", "ball-stl"):
        with pytest.raises(certus.UsageError, match="not in the paper"):
            model.fit(**settings)
        run("fit", "logistic", csv, *flags, code=64)
        return
    fit = model.fit(**settings)
    ours = fit.to_dict()
    code = 0 if fit.status == "reached" else 10
    theirs = json.loads(run("fit", "logistic", csv, *flags, "--json", "--quiet", code=code))
    for key in ("status", "message", "route", "neg_elbo", "certificate", "parameters", "counts"):
        assert ours[key] == theirs[key], key
    assert ours["settings"]["steps"] == theirs["settings"]["steps"] == steps


def test_plans_are_the_same_text_and_fields(df, csv):
    for formula, settings, flags in (
        ("y ~ a + b", {}, ["--features", "a,b"]),
        ("y ~ a + b", {"method": "proj_stl", "steps": "paper", "gap": 0.1}, ["--features", "a,b", "--method", "proj-stl", "--steps", "paper", "--gap", "0.1"]),
    ):
        plan = certus.logistic(formula, data=df).plan(**settings)
        arguments = ("plan", "logistic", csv, "--response", "y", *flags)
        # the file has columns that the formula leaves out
        own = [line for line in run(*arguments).splitlines() if " ignored: " not in line]
        assert repr(plan).splitlines() == own
        theirs = json.loads(run(*arguments, "--json"))
        assert theirs["theorems"] == json.loads(repr(plan.theorems))
        assert [list(line) for line in plan] == [line for line in theirs["lines"] if " ignored: " not in line[1]]
