"""The programs of README.md and of pages of docs, run as they stand; what they are shown to print is what they print."""

import contextlib
import io
import re
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = next(root for root in (HERE.parent, HERE.parents[2]) if (root / "docs" / "python.md").exists())


PAGES = [("README.md", 1), ("docs/python.md", 6), ("docs/groups.md", 1), ("docs/quick-start.md", 1), ("docs/python-adapters.md", 1),
    ("docs/chapters/pymc.md", 3)]


@pytest.mark.parametrize("name, least", PAGES)
def test_programs_do_what_is_shown(name, least):
    text = (ROOT / name).read_text(encoding="utf-8")
    blocks = re.findall(r"```(\w*)\n(.*?)```", text, re.DOTALL)
    if "import pymc" in text:
        pytest.importorskip("pymc", reason="PyMC is not installed")
    space: dict = {"__name__": "docs"}
    run = 0
    for k, (language, body) in enumerate(blocks):
        if language != "python":
            continue
        run += 1
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(body, f"{name}, program {run}", "exec"), space)
        if k + 1 < len(blocks) and blocks[k + 1][0] == "text" and "print(" in body:
            assert out.getvalue().strip() == blocks[k + 1][1].strip()
    assert run >= least
