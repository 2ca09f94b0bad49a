"""The command `certus` of the wheel, as it stands in the virtualenv. The variable CERTUS names the binary that the wheel was given."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import certus
import pytest
from certus.__main__ import command

GIVEN = os.environ.get("CERTUS")
pytestmark = pytest.mark.skipif(not GIVEN, reason="the variable CERTUS names no binary of the command line")


def run(*words, cwd=None):
    return subprocess.run([*map(str, words)], capture_output=True, text=True, check=False, cwd=cwd)


def test_pip_puts_it_beside_the_interpreter(tmp_path):
    found = command()
    assert found is not None and found == Path(sysconfig.get_path("scripts")) / "certus"
    assert os.access(found, os.X_OK) and found.read_bytes() == Path(GIVEN).read_bytes()
    assert run(found, "--version").stdout.strip() == f"certus {certus.__version__}"
    (tmp_path / "d.csv").write_text("y,x\n1,0.5\n0,-0.2\n1,1.5\n0,0.1\n0,0.3\n1,0.9\n", encoding="utf-8")
    fitted = run(found, "fit", "logistic", "d.csv", "y ~ x", "--out", "fit", cwd=tmp_path)
    assert fitted.returncode == 0, fitted.stderr
    assert certus.load(tmp_path / "fit").names == ["(Intercept)", "x"]


def test_the_module_runs_it(tmp_path):
    words = [sys.executable, "-m", "certus"]
    assert run(*words, "--version").stdout.strip() == f"certus {certus.__version__}"
    # arguments, output and exit code are those of the command
    wrong = run(*words, "fit", "logistic", "absent file.csv", "y ~ x", cwd=tmp_path)
    assert wrong.returncode == 66 and "absent file.csv" in wrong.stderr


def test_without_it_the_module_says_so(tmp_path):
    code = "import sysconfig, sys; sysconfig.get_path = lambda *a: ''; import certus.__main__ as m; sys.exit(m.main())"
    done = run(sys.executable, "-c", code)
    assert done.returncode == 69 and "scripts/wheel" in done.stderr


def test_a_command_is_added_to_a_wheel_once(tmp_path):
    """What pip reads: the mode and the line of RECORD."""
    listed = run(sys.executable, "-m", "pip", "show", "--files", "certus").stdout
    assert "bin/certus" in listed
    record = next(Path(certus.__file__).parent.parent.glob("certus-*.dist-info/RECORD")).read_text(encoding="utf-8")
    assert sum("bin/certus," in line for line in record.splitlines()) == 1
