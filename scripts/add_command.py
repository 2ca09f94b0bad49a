#!/usr/bin/env python3
"""add_command.py WHEEL BINARY: adds a binary to a wheel as a command, which pip puts beside the interpreter."""

import base64
import hashlib
import sys
import zipfile
from pathlib import Path

MODE = 0o100755
"""A regular file that everybody may run."""
UNIX = 3
"""The system of a zip entry that has such a mode."""


def entry(name: str, mode: int) -> zipfile.ZipInfo:
    """A file of the wheel, with the date of maturin's."""
    out = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    out.create_system, out.external_attr, out.compress_type = UNIX, mode << 16, zipfile.ZIP_DEFLATED
    return out


def add(wheel: Path, binary: Path) -> None:
    """The wheel is replaced as a whole: RECORD lists every file with its hash."""
    cells = binary.read_bytes()
    digest = base64.urlsafe_b64encode(hashlib.sha256(cells).digest()).rstrip(b"=").decode()
    made = wheel.with_suffix(".part")
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(made, "w") as new:
        record = next(name for name in old.namelist() if name.endswith(".dist-info/RECORD"))
        place = f"{record.removesuffix('.dist-info/RECORD')}.data/scripts/{binary.name}"
        if place in old.namelist():
            raise SystemExit(f"{wheel} has {place} already")
        for info in old.infolist():
            if info.filename != record:
                new.writestr(info, old.read(info.filename), compresslevel=6)
        new.writestr(entry(place, MODE), cells, compresslevel=6)
        line = f"{place},sha256={digest},{len(cells)}\n"
        new.writestr(old.getinfo(record), line + old.read(record).decode())
    made.replace(wheel)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    add(Path(sys.argv[1]), Path(sys.argv[2]))
