"""The same data and seed through the command line: the same numbers, and either interface reads the other's directory.

The variable CERTUS names the binary.
"""

import json
import os
import re
import subprocess

import numpy as np
import pandas as pd
import pytest

import certus

CERTUS = os.environ.get("CERTUS")
pytestmark = pytest.mark.skipif(not CERTUS, reason="the variable CERTUS names no binary of the command line")

CASES = {
    "logistic": ("logistic", "y ~ a + b", {}, []),
    "text": ("logistic", "y ~ a + city + a:city + old", {}, []),
    "group": ("logistic", "y ~ a + (a || site)", {"group_sd": 0.5}, ["--group-sd", "0.5"]),
    "unknown": ("logistic", "y ~ a + (1 | site)", {}, []),
    "estimate": ("poisson", "count ~ a + (0 + a | site)", {"scales": "estimate"}, ["--scales", "estimate"]),
    "linear": ("linear", "value ~ a + b", {"sigma": 0.7, "standardise": False}, ["--sigma", "0.7", "--no-standardise"]),
    "stochastic": ("logistic", "y ~ a + b", {"method": "stochastic", "seed": 11}, ["--method", "stochastic", "--seed", "11"]),
    "binomial": ("binomial", "hits ~ a", {"trials": "n"}, ["--trials", "n"]),
    "poisson": ("poisson", "count ~ a", {"offset": "b", "prior_sd": 1.0}, ["--offset", "b", "--prior-sd", "1"]),
    "noise": ("linear", "value ~ a + (1 | site)", {}, []),
    "dispersion": ("negative_binomial", "count ~ a", {}, []),
    "nested": ("poisson", "count ~ a*city + (1 | city:site) - a:city", {"group_sd": {"city:site": 0.5}, "posterior": "gaussian", "accuracy": 1.0}, ["--group-sd", "city/site=0.5", "--posterior", "gaussian", "--accuracy", "1"]),
    "offset": ("poisson", "count ~ 1 + offset(b)", {}, []),
    "diagonal": ("probit", "y ~ a + b", {"factor": "diagonal"}, ["--factor", "diagonal"]),
}
RUN = ("method", "seed", "factor", "posterior", "accuracy")


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


def comparable(directory):
    """All files of a fit but what may differ: times, program versions, where the data and the result are, and notes on the file that was read."""
    record = json.loads((directory / "fit.json").read_text())
    del record["seconds"], record["versions"]
    for point in record["trace"]:
        del point["seconds"]
    for key in ("data", "out", "quiet", "json"):
        record["settings"].pop(key, None)
    record["notes"] = [note for note in record["notes"] if not note.startswith("read ") and " ignored: " not in note]
    files = {path.name: path.read_bytes() for path in directory.iterdir() if path.suffix in (".safetensors", ".parquet") or path.name == "meaning.json"}
    return {"fit.json": record, **files}


@pytest.mark.parametrize("name", CASES)
def test_the_same_directory(name, df, csv, tmp_path):
    model, formula, settings, flags = CASES[name]
    theirs, ours = tmp_path / "cli", tmp_path / "python"
    run("fit", model.replace("_", "-"), csv, formula, *flags, "--out", theirs, "--quiet")
    own = {k: v for k, v in settings.items() if k not in RUN}
    fit = getattr(certus, model)(formula, data=df, **own).fit(**{k: settings[k] for k in RUN if k in settings})
    fit.save(ours)
    one, other = comparable(theirs), comparable(ours)
    assert one.keys() == other.keys()
    for key in one["fit.json"].keys() | other["fit.json"].keys():
        assert one["fit.json"].get(key) == other["fit.json"].get(key), key
    for key in one.keys() - {"fit.json"}:
        assert one[key] == other[key], key
    loaded = certus.load(theirs)
    assert np.array_equal(loaded.sample(20, 3), fit.sample(20, 3))
    pd.testing.assert_frame_equal(loaded.predict(df), fit.predict(df), check_exact=True)
    run("predict", theirs, csv, "--to", tmp_path / "p.csv")
    predicted = pd.read_csv(tmp_path / "p.csv", comment="#", float_precision="round_trip")
    pd.testing.assert_frame_equal(predicted, fit.predict(df), check_exact=True)


@pytest.mark.parametrize(
    ("settings", "flags", "words"),
    [
        ({"factor": "arrow"}, ["--factor", "arrow"], "{factor} arrow needs a {group}"),
        ({"batch": 5}, ["--batch", 5], "batch applies only to the paper's methods"),
        ({"method": "proj-stl", "steps": "paper", "constants": "sharp"}, ["--method", "proj-stl", "--steps", "paper", "--constants", "sharp"], "constants are 'sharp'"),
        ({"gap": -1.0}, ["--gap=-1"], "-1"),
        ({"accuracy": -1.0}, ["--accuracy=-1"], "accuracy"),
    ],
)
def test_the_same_messages(settings, flags, words, df, csv):
    """One sentence, in which only options are spelt for their readers."""
    done = subprocess.run([CERTUS, "fit", "logistic", csv, "--response", "y", "--features", "a", *map(str, flags)], capture_output=True, text=True, check=False)
    theirs = done.stderr.strip().splitlines()[-1].removeprefix("certus: ")
    with pytest.raises(certus.UsageError) as raised:
        certus.logistic("y ~ a", data=df).fit(**settings)
    assert done.returncode == 64 and words.format(factor="--factor", group="--group") in theirs
    assert words.format(factor="factor", group="group") in str(raised.value)
    assert re.sub(r"--([a-z-]+)", lambda m: m[1].replace("-", "_"), theirs) == str(raised.value)


def test_the_command_line_reads_our_directory(df, csv, tmp_path):
    fit = certus.logistic("y ~ a + city + (1 | site)", data=df, group_sd=0.5).fit()
    place = tmp_path / "ours"
    fit.save(place)
    # the independent checker does not support group terms
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


def test_an_accuracy_is_one_statement_in_both(df, csv):
    """More draws for a smaller error; the Gaussian is the same."""
    usual = certus.logistic("y ~ a + b", data=df).fit()
    close = certus.logistic("y ~ a + b", data=df).fit(accuracy=0.03)
    theirs = json.loads(run("fit", "logistic", csv, "--response", "y", "--features", "a,b", "--accuracy", 0.03, "--json", "--quiet"))
    ours = close.to_dict()
    assert ours["certificate"] == theirs["certificate"] and ours["settings"]["accuracy"] == theirs["settings"]["accuracy"] == 0.03
    assert ours["parameters"] == theirs["parameters"] and ours["table"] == theirs["table"]
    assert ours["gaussian"] == usual.to_dict()["gaussian"]
    assert max(close.table.mean_error, close.table.sd_error) <= 0.03


def test_a_rigorous_gap_is_one_statement_in_both(df, csv):
    """Proved in ball arithmetic, by the same numbers in both; what has no such proof is refused."""
    ours = certus.logistic("y ~ a + b", data=df).fit(rigorous=True, posterior="gaussian").to_dict()
    theirs = json.loads(run("fit", "logistic", csv, "--response", "y", "--features", "a,b", "--posterior", "gaussian", "--rigorous", "--json", "--quiet"))
    assert ours["certificate"] == theirs["certificate"] and ours["settings"]["rigorous"] is True
    assert "ball arithmetic" in ours["certificate"]["gap"]["assumptions"][0]["what"]
    with pytest.raises(certus.UsageError, match="rigorous"):
        certus.probit("y ~ a + b", data=df).fit(rigorous=True)
