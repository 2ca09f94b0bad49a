"""The notebooks: their programs run, and the fits have the verdicts that their texts state."""

import json
from pathlib import Path

import pytest

# beside the tests when they run on the wheel, at the top of the repository otherwise
NOTEBOOKS = next(p / "docs/notebooks" for p in Path(__file__).resolve().parents if (p / "docs/notebooks").is_dir())
NOTEBOOK = NOTEBOOKS / "pymc.ipynb"
FIRST = NOTEBOOKS / "first_regression.ipynb"


def programs(notebook: Path) -> list[dict]:
    return [cell for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


def test_the_notebook_of_a_first_regression():
    plt = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed")
    plt.switch_backend("Agg")
    space: dict = {"__name__": "notebook"}
    for k, cell in enumerate(programs(FIRST)):
        exec(compile("".join(cell["source"]), f"cell {k + 1} of {FIRST.name}", "exec"), space)
    plt.close("all")
    fit, beetles = space["fit"], space["beetles"]
    # what is shown is what is computed, up to the last digits of another processor
    shown = "\n".join("".join(out["data"]["text/plain"]) for cell in programs(FIRST) for out in cell["outputs"] if "data" in out)
    assert repr(fit).splitlines()[0] in shown and "34.4178" in shown
    # what the text says of the residuals
    share = beetles["killed"] / beetles["beetles"] - fit.predict(beetles)["mean"] / beetles["beetles"]
    assert (share[:2] > 0).all() and (share[2:4] < 0).all()
    assert sum("image/png" in out.get("data", {}) for cell in programs(FIRST) for out in cell["outputs"]) == 1
    assert not any(path in FIRST.read_text(encoding="utf-8") for path in ("/tmp/", "/home/", "/root/", "site-packages"))


def test_the_notebook_for_pymc():
    for library in ("arviz", "matplotlib", "pymc"):
        pytest.importorskip(library, reason=f"{library} is not installed")
    import matplotlib.pyplot as plt
    import pytensor

    plt.switch_backend("Agg")
    cells = [cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    space: dict = {"__name__": "notebook"}
    for k, cell in enumerate(cells):
        program = "".join(cell["source"])
        # the C compiler takes most of the time of a first run: only the model with chains needs it
        flags = {"gcc__cxxflags": "-O0"} if "schools" in program else {"mode": "FAST_COMPILE"}
        with pytensor.config.change_flags(**flags):
            exec(compile(program, f"cell {k + 1} of {NOTEBOOK.name}", "exec"), space)
    plt.close("all")

    fit = space["fit"]
    assert fit.verdict == "accurate" and fit.status == "reached"
    assert fit.notes[0].startswith("theta was non-centred")
    # the exact values of the text: means 4.4 and 3.6, sds 3.3 and 3.2
    for name, mean, sd in (("mu", 4.4, 3.3), ("tau", 3.6, 3.2)):
        row = fit.summary().loc[name]
        assert abs(row["mean"] - mean) < 0.15 * sd and abs(row["sd"] / sd - 1) < 0.15
    # what the errors are about stands below the table in a notebook as well as in print
    assert "fit.summary(unconstrained=True)" in fit._repr_html_() and "fit.summary(unconstrained=True)" in repr(fit)

    one_of_two, ordered = space["one_of_two"], space["ordered"]
    assert one_of_two.verdict == "unreliable" and one_of_two.comparison.missed == 1
    assert "symmetry of the model" in one_of_two.sentences[0]
    assert ordered.verdict == "accurate"

    certified = space["certified"]
    assert certified.verdict == "accurate" and certified.table.level == "probable"
    assert "with probability 0.99" in certified.sentences[1]
    assert all(p.mean_error < 0.1 and p.sd_error < 0.1 and p.quantile_error < 0.2 for p in certified.parameters)


def test_what_the_notebook_shows_is_what_its_text_says():
    """The outputs that are stored: verdicts, the contradicted declaration, and no paths of a machine."""
    cells = [cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    text = "\n".join("".join(out.get("text", [])) for cell in cells for out in cell["outputs"])
    for words in ("unreliable\n", "accurate\n", "declaration contradicted"):
        assert words in text
    assert not any(path in NOTEBOOK.read_text(encoding="utf-8") for path in ("/tmp/", "/home/", "/root/", "site-packages"))
    assert sum(out["output_type"] == "display_data" for cell in cells for out in cell["outputs"]) == 2
