"""The example scripts of the documentation run; what they claim, they assert."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

# beside the tests when they run on the wheel, at the top of the repository otherwise
EXAMPLES = next(p / "docs" / "examples" for p in Path(__file__).resolve().parents if (p / "docs" / "examples").is_dir())
NEEDS = {"first_regression.py": (), "picture.py": (), "polars_pipeline.py": ("polars",), "pymc_rescued.py": ("pymc",), "thousand_groups.py": ("arviz",)}


def test_every_example_is_run():
    assert sorted(path.name for path in EXAMPLES.glob("*.py")) == sorted(NEEDS)


@pytest.mark.parametrize("name", sorted(NEEDS))
def test_example(name, tmp_path):
    for library in NEEDS[name]:
        if importlib.util.find_spec(library) is None:
            pytest.skip(f"{library} is not installed")
    done = subprocess.run([sys.executable, str(EXAMPLES / name)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "proved" in done.stdout
    # the picture of README.md is the one that its program draws
    for made in tmp_path.glob("*.svg"):
        assert made.read_text() == (EXAMPLES.parent / "pictures" / made.name).read_text()
    assert name != "picture.py" or (tmp_path / "beetles.svg").exists()
