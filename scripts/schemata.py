#!/usr/bin/env python3
"""schemata.py TREE [WORD]: `scripts/mutants --one-build [WORD]`, on the copy TREE of the repository.

Writes all entries of scripts/mutants.txt below the marker into TREE, where CERTUS_MUTANT=n chooses the n-th at run
time; builds the tests that the chosen entries name, the binary and the wheel once; and runs the test that each entry
names, first without a mutant and then with it. A mutant is caught if its test fails, or takes much longer than without
it."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

MARKER = "# == in one build\n"
WHOLE = ["--workspace", "--features", "certus-cli/bug", "--release", "--locked"]
# crates that are built alone where no other tests are named
SMALL = {"certus", "certus-check", "certus-likelihood", "certus-mixed", "certus-models", "certus-verify"}
RUST = """
#[doc(hidden)]
pub(crate) fn mutant(n: u32) -> bool {
    static CHOSEN: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    *CHOSEN.get_or_init(|| std::env::var("CERTUS_MUTANT").ok().and_then(|text| text.parse().ok()).unwrap_or(0)) == n
}
"""
PYTHON = """
def _mutant(n: int) -> bool:
    import os

    return os.environ.get("CERTUS_MUTANT") == str(n)
"""
FUTURE = "from __future__ import annotations\n"


def entries(tree):
    """(file, old, new, test) of every entry below the marker, by its number."""
    lines = (tree / "scripts/mutants.txt").read_text().partition(MARKER)[2].splitlines()
    split = [[part.strip() for part in line.split("|")] for line in lines if line and not line.startswith("#")]
    return dict(enumerate(split, 1))


def write(tree, all_entries):
    """Writes every entry into its source file; the numbers of those that are not found there."""
    places, stale, crates = {}, set(), set()
    for n, (file, old, new, _) in all_entries.items():
        at = (tree / "crates" / file).read_text().find(old)
        if at < 0:
            stale.add(n)
        else:
            places.setdefault(file, {}).setdefault((at, old), []).append((n, new))
    for file, found in places.items():
        path = tree / "crates" / file
        text, end = path.read_text(), sys.maxsize
        for at, old in sorted(found, reverse=True):
            assert at + len(old) <= end, f"{file}: {old} overlaps with the next entry"
            end, made = at, old if path.suffix == ".py" else f"{{ {old} }}"
            for n, new in found[at, old]:
                python = f"({new} if _mutant({n}) else {made})"
                made = python if path.suffix == ".py" else f"if crate::mutant({n}) {{ {new} }} else {made}"
            text = text[:at] + f"({made})" + text[at + len(old) :]
        if path.suffix == ".py":
            assert FUTURE in text, f"{file} does not have: {FUTURE}"
            text = text.replace(FUTURE, FUTURE + PYTHON, 1)
        else:
            crates.add(file.split("/")[0])
        path.write_text(text)
    for crate in crates:
        source = tree / "crates" / crate / "src"
        root = source / "lib.rs" if (source / "lib.rs").exists() else source / "main.rs"
        root.write_text("#![allow(warnings, clippy::all)]\n" + root.read_text() + RUST)
    return stale


def binary(tree, crate, test):
    """The test binary that holds a test, and what the names of its functions begin with there."""
    alone = test == "lib" or (tree / f"crates/{crate}/tests/{test}.rs").exists() or (tree / f"crates/{crate}/tests/{test}").exists()
    return (test, "") if alone else ("it", f"{test}::")


class Tests:
    """The tests that the entries name, built once from the tree."""

    def __init__(self, tree, names):
        self.tree, self.executables, self.python = tree, {}, tree / "python-tests"
        split = [re.split("[:/]", name)[:2] for name in names if not name.startswith("python:")]
        rust = {binary(tree, crate, test)[0] for crate, test in split}
        flags = ["--lib", *(flag for test in sorted(rust - {"lib"}) for flag in ("--test", test))]
        crates = sorted({crate for crate, _ in split} | {"python"} & {name.partition(":")[0] for name in names})
        alone = [flag for crate in crates for flag in ("-p", crate)] + ["--release", "--locked"]
        command = ["cargo", "test", *(alone if SMALL.issuperset(crates) else WHOLE), *flags, "--no-run", "--message-format=json-render-diagnostics"]
        built = subprocess.run(command, cwd=tree, stdout=subprocess.PIPE, text=True, check=True).stdout
        for message in map(json.loads, built.splitlines()):
            if message.get("executable"):
                crate = pathlib.Path(message["manifest_path"]).parent.name
                kind, name = message["target"]["kind"][0], message["target"]["name"]
                test = {"test": name, "bin": "bin"}.get(kind, "lib")
                self.executables[crate, test] = message["executable"]

    def passes(self, test, mutant, seconds):
        """True if the test passes in this time; it fails if it is skipped or does not exist."""
        crate, _, name = test.partition(":")
        name, _, function = name.partition("/")
        if crate == "python":
            if not self.python.exists():
                self.python.mkdir()
                subprocess.run([self.tree / "scripts/python-install", self.python], check=True)
            command, folder = ["../venv/bin/python", "-m", "pytest", "-q", f"{name}::{function}"], self.python / "tests"
        else:
            name, module = binary(self.tree, crate, name)
            command, folder = [self.executables[crate, name], module + function], self.tree / "crates" / crate
        chosen = {"CERTUS": self.executables.get(("certus-cli", "bin"), ""), "CERTUS_MUTANT": str(mutant)}
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            process = subprocess.Popen(
                command, cwd=folder, env=os.environ | chosen, stdout=output, stderr=output, start_new_session=True
            )
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            output.seek(0)
            return process.returncode == 0 and re.search(r"\b[1-9]\d* passed", output.read()) is not None


def main():
    tree, word = pathlib.Path(sys.argv[1]), (sys.argv[2:] or [""])[0]
    all_entries = entries(tree)
    stale = write(tree, all_entries)
    chosen = {n: entry for n, entry in all_entries.items() if word in " | ".join(entry[:2])}
    tests = Tests(tree, {test for *_, test in chosen.values()})
    limits, caught, failed = {}, 0, 0
    # the wheel is built when the first test of Python needs it
    for n, (file, old, new, test) in sorted(chosen.items(), key=lambda entry: entry[1][3].startswith("python:")):
        if test not in limits:
            began = time.monotonic()
            passes = tests.passes(test, 0, 1800)
            limits[test] = 60 + 10 * (time.monotonic() - began) if passes else None
        if n in stale:
            result = "STALE   "
        elif limits[test] is None:
            result = f"FAILED  (without a mutant, {test})"
        else:
            result = "SURVIVED" if tests.passes(test, n, limits[test]) else "caught  "
        caught, failed = caught + (result == "caught  "), failed + (result != "caught  ")
        print(f"{result} {file}: {old} -> {new}", flush=True)
    print(f"{caught} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
