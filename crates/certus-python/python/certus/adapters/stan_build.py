"""Compiles Stan programs to shared libraries: stanc and Stan's headers from the `httpstan` wheel, our C shim, a C++ compiler."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import logging
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from ..errors import Error, UsageError

SHIM = Path(__file__).with_name("stan_shim.cpp")
# -O1 keeps the wait for the compiler short; STAN_THREADS gives every thread its own tape, so that points run in
# parallel; gnu-unique symbols would let the tapes of two libraries become one; the old ABI is that of the wheel's
# libtbb.
FLAGS = (
    "-std=c++17 -O1 -fPIC -shared -w -fvisibility=hidden -fno-gnu-unique -DSTAN_THREADS -D_REENTRANT "
    "-DBOOST_DISABLE_ASSERTS -D_GLIBCXX_USE_CXX11_ABI=0"
).split()
TBB = "libtbb.so.2"
SUNDIALS = ["libsundials_cvodes.a", "libsundials_idas.a", "libsundials_kinsol.a", "libsundials_nvecserial.a"]


def build(code: str, *, include: Path | None = None) -> Path:
    """The library of a Stan program, from the cache if the same program was built before (otherwise it takes about a minute)."""
    stan = locate()
    cpp = translate(stan, code, include) + SHIM.read_text()
    compiler = shlex.split(os.environ.get("CXX", "g++"))
    parts = [cpp, *FLAGS, compiler_version(compiler), platform.machine(), importlib.metadata.version("httpstan")]
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    home = cache() / key
    library = home / "model.so"
    if library.exists():
        return library
    logging.getLogger("certus").info("compiling a Stan program into %s, about a minute", home)
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="building-", dir=home.parent) as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        shutil.copy(stan / "lib" / TBB, made / TBB)  # beside the model, so that it outlives this environment
        source = made / "model.cpp"
        source.write_text(cpp)
        archives = [str(stan / "lib" / name) for name in SUNDIALS]
        where = [f"-I{stan / 'include'}", f"-L{made}", f"-l:{TBB}", "-Wl,-rpath,$ORIGIN"]
        command = [*compiler, *FLAGS, str(source), "-o", str(made / "model.so"), *where, *archives]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise Error(f"the C++ compiler failed on the translated Stan program:\n{done.stderr[-4000:]}")
        try:
            made.rename(home)  # atomic: readers see all or nothing
        except OSError:
            if not library.exists():  # otherwise another process was faster, with the same bytes
                raise
    return library


def translate(stan: Path, code: str, include: Path | None) -> str:
    """C++ of a Stan program by stanc; its errors, with line numbers, become a ValueError."""
    with tempfile.TemporaryDirectory(prefix="certus-stan-") as scratch:
        source, output = Path(scratch) / "model.stan", Path(scratch) / "model.hpp"
        source.write_text(code)
        options = ["--name=certus_stan_program", "--filename-in-msg=model.stan", f"--o={output}"]
        if include is not None:
            options.append(f"--include-paths={include}")
        done = subprocess.run([str(stan / "stanc"), *options, str(source)], capture_output=True, text=True)
        if done.returncode != 0:
            raise UsageError(f"the Stan program has an error:\n{done.stderr.strip()}")
        return output.read_text()


def locate() -> Path:
    """The directory of the httpstan wheel, without importing it: only its files are needed."""
    found = importlib.util.find_spec("httpstan")
    if found is None or found.origin is None:
        raise ImportError(
            "compiling a Stan program needs stanc and Stan's headers: pip install httpstan "
            "(or compile it with BridgeStan and give certus.stan the path of the .so)"
        )
    return Path(found.origin).parent


def compiler_version(compiler: list[str]) -> str:
    try:
        return subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise UsageError(
            f"compiling a Stan program needs a C++ compiler, and {shlex.join(compiler)} does not run ({error}); "
            "install g++ (Debian: apt install g++) or set CXX"
        ) from error


def cache() -> Path:
    """Directory of compiled programs: $XDG_CACHE_HOME/certus/stan, or ~/.cache/certus/stan."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "certus" / "stan"
