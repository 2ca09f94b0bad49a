"""`python -m certus`: the command `certus`, which the wheel brings."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path


def command() -> Path | None:
    """The command that was installed with this package: beside the interpreter, for one user, or by `pip install --target`."""
    name = "certus" + (sysconfig.get_config_var("EXE") or "")
    user = sysconfig.get_preferred_scheme("user")
    places = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", user), str(Path(__file__).parent.parent / "bin")]
    return next((place for place in (Path(place) / name for place in places) if place.is_file()), None)


def main() -> int:
    """Runs it with the arguments of the process, and ends with its exit code."""
    found = command()
    if found is None:
        print("this installation of the Python package has no command certus: install a wheel that scripts/wheel made, or build it (README.md)", file=sys.stderr)
        return 69
    arguments = [str(found), *sys.argv[1:]]
    if os.name == "posix":
        os.execv(found, arguments)
    return subprocess.call(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
