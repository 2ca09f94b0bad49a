"""Stan: full-rank ADVI through Stan's C++ interface (headers and stanc from the httpstan wheel), default and with more samples."""
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from common import Skip, check_limit, run
import httpstan
import numpy as np

HERE = Path(__file__).resolve().parent / "stan"
PACKAGE = Path(httpstan.__file__).resolve().parent
BUILD = Path(sys.prefix) / "stan-peer"


def version():
    """Stan's version as its headers state it."""
    text = (PACKAGE / "include/stan/version.hpp").read_text()
    return ".".join(re.search(rf"STAN_{part} (\d+)", text)[1] for part in ("MAJOR", "MINOR", "PATCH"))


def binary(kind):
    """Compiles stan/KIND.stan with main.cpp, once per version of both."""
    text = (HERE / f"{kind}.stan").read_bytes() + (HERE / "main.cpp").read_bytes()
    path = BUILD / f"{kind}-{hashlib.sha256(text).hexdigest()[:12]}"
    if path.exists():
        return path
    BUILD.mkdir(exist_ok=True)
    header = BUILD / f"{kind}.hpp"
    subprocess.run([PACKAGE / "stanc", "--name", "peer", "--o", header, HERE / f"{kind}.stan"], check=True)
    flags = ["-O3", "-std=c++17", "-w", "-D_REENTRANT", "-DBOOST_DISABLE_ASSERTS", f'-DSTAN_MODEL_FILE="{header}"']
    link = [PACKAGE / "lib/libsundials_nvecserial.a", f"-L{PACKAGE / 'lib'}", "-ltbb", f"-Wl,-rpath,{PACKAGE / 'lib'}"]
    part = path.with_suffix(".part")
    subprocess.run(["g++", *flags, f"-I{PACKAGE / 'include'}", HERE / "main.cpp", "-o", part, *link], check=True)
    part.rename(path)
    return path


def data(problem):
    """The problem as Stan's JSON; hierarchical rows are sorted by group."""
    n, d = problem.X.shape
    out = {"N": n, "D": d}
    order = np.arange(n)
    if problem.group is not None:
        order = np.argsort(problem.group, kind="stable")
        sizes = np.bincount(problem.group)
        out |= {"G": len(sizes), "first": (np.cumsum(sizes) - sizes + 1).tolist(), "last": np.cumsum(sizes).tolist()}
    y = problem.y[order]
    return out | {"X": problem.X[order].tolist(), "y": y.tolist() if problem.linear else y.astype(int).tolist()}


def fit(problem, options, seed, limit):
    program = binary(problem.kind)
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "data.json")
        with open(path, "w") as f:
            json.dump(data(problem), f)

        def ascend(iterations):
            command = [program, path, seed + 1, options["grad_samples"], iterations, options["tol_rel_obj"]]
            try:
                return subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=1.25 * limit + 20)
            except subprocess.TimeoutExpired:
                raise Skip(f"stopped after more than {limit:.0f} CPU s")

        if options["tol_rel_obj"] < 1e-3:  # so small a tolerance is never met: foretell the time from a short ascent
            short, longer = (float(ascend(n).stdout.split(None, 4)[2]) for n in (1, 201))
            check_limit(short + (longer - short) * options["iterations"] / 200, 1.0, limit)
        done = ascend(options["iterations"])
    log = done.stderr
    if not done.stdout:
        raise RuntimeError(log.strip().splitlines()[-1] if log.strip() else f"exit code {done.returncode}")
    first, *rows = done.stdout.strip().splitlines()
    gradients, values, seconds, eta = first.split()
    table = np.array([[float(x) for x in row.split()] for row in rows])
    said = [word for word in ("MEAN ELBO CONVERGED", "MEDIAN ELBO CONVERGED", "MAY BE DIVERGING") if word in log.split("Success!")[-1]]
    if "maximum number of iterations is reached" in log:
        said.append("maximum number of iterations is reached! The algorithm may not have converged")
    if done.returncode:
        said.append(log[log.index("ERROR") :].strip()[:200])
    return {
        "mean": table[0],
        "factor": table[1:] if done.returncode == 0 else np.full((problem.dim, problem.dim), np.nan),
        "gradients": gradients,
        "values": values,
        "cpu_seconds": float(seconds),
        "said": "; ".join(said) or "nothing",
        "more": {"eta": float(eta)},
    }


SETTINGS = {
    "default": ({"grad_samples": 1, "iterations": 10000, "tol_rel_obj": 0.01}, False),
    "10 gradient samples, tol 1e-4": ({"grad_samples": 10, "iterations": 10000, "tol_rel_obj": 1e-4}, True),
}

if __name__ == "__main__":
    run("Stan", version(), SETTINGS, fit)
