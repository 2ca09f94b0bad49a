"""What a fit holds, as typed attributes; pickles of models and fits; '.' in formulas."""

import pickle
import subprocess
import sys
from types import UnionType
from typing import get_args

import certus
import numpy as np
import pandas as pd
import pytest
from certus import result

KINDS = [kind for kind in vars(result).values() if isinstance(kind, type) and issubclass(kind, result.Fields) and kind not in (result.Fields, result.Section)]


@pytest.fixture(scope="module")
def data():
    r = np.random.default_rng(2)
    out = pd.DataFrame({"x": r.normal(size=240), "z": r.uniform(1, 9, size=240), "arm": r.choice(list("ab"), 240), "site": r.choice(list("stuvwxyz"), 240)})
    t = 0.4 * out.x - 0.2 * np.log(out.z) + 0.7 * (out.arm == "b")
    out["y"] = (r.random(240) < 1 / (1 + np.exp(-t))).astype(float)
    out["cost"] = t + r.normal(size=240)
    return out


def fits(data):
    def log_density(z):
        return -0.5 * (z**2).sum(1), -z

    return [
        certus.logistic("y ~ x + arm", data=data).fit(progress=False),
        certus.linear("cost ~ x", data=data).fit(progress=False),
        certus.linear("cost ~ x + (x | site)", data=data, reml=True).fit(progress=False),
        certus.poisson("y ~ x + (1 | site)", data=data).fit(progress=False),
        certus.fit(certus.target(log_density, dim=2), progress=False),
    ]


def agrees(value, hint, path):
    """Every field is declared, and has the declared type."""
    hints = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    if value is None:
        assert type(None) in hints, path
    elif isinstance(value, result.Fields):
        assert type(value) in hints, (path, type(value), hints)
        if type(value) is not result.Section:
            declared = result.declared(type(value))
            # a keyword of Python, which has no attribute
            assert set(value) <= {*declared, "global"}, (path, set(value) - set(declared))
            for name in value:
                if name != "global":
                    agrees(getattr(value, name), declared[name], f"{path}.{name}")
    elif isinstance(value, list):
        entry = next(get_args(h)[0] for h in hints if getattr(h, "__origin__", None) is list)
        for one in value:
            agrees(one, entry, f"{path}[]")
    else:
        allowed = {float: (float, int)}
        assert any(isinstance(value, allowed.get(h, h)) for h in hints if isinstance(h, type)), (path, value, hints)


def test_every_field_is_declared_with_its_type(data):
    seen = set()
    for fit in fits(data):
        declared = result.declared(certus.Fit)
        assert set(fit.to_dict()) <= {*declared, "verdict", "table", "gaussian", "groups"}
        for name, hint in declared.items():
            agrees(getattr(fit, name), hint, name)
            seen.add(name)
        agrees(fit.table, result.Table | None, "table")
        with pytest.raises(AttributeError, match="no attribute 'statsu'"):
            fit.statsu
    assert seen == set(result.declared(certus.Fit)) and len(KINDS) > 12
    fit = fits(data)[0]
    assert isinstance(fit.certificate.gap, result.Gap) and isinstance(fit.certificate.gap.bound, float)
    # a field that this kind of fit does not have
    assert fit.criterion is None and fit.comparison is None and fit.parameters[0].mean_error is not None
    assert "bound" in dir(fit.certificate.gap) and fit.certificate.gap["bound"] == fit.certificate.gap.bound
    assert fit.certificate.gap.constants.items() is not None and pickle.loads(pickle.dumps(fit.certificate)).gap == fit.certificate.gap
    with pytest.raises(AttributeError, match="cannot be changed"):
        fit.certificate.gap.bound = 0.0


def test_type_checkers_know_the_fields(tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed")
    (tmp_path / "right.py").write_text(
        "import certus\ndef f(fit: certus.Fit) -> float | None:\n    text: str = fit.status\n    names: list[str] = [p.name for p in fit.parameters]\n    return fit.certificate.gap.bound\n", encoding="utf-8"
    )
    (tmp_path / "wrong.py").write_text("import certus\ndef f(fit: certus.Fit) -> None:\n    fit.certificate.gap.bund\n    x: int = fit.message\n    fit.statsu\n", encoding="utf-8")
    found = {}
    for name in ("right", "wrong"):
        found[name] = subprocess.run([sys.executable, "-m", "mypy", "--follow-imports=silent", f"{name}.py"], capture_output=True, text=True, check=False, cwd=tmp_path).stdout
    assert "Success" in found["right"], found["right"]
    assert all(word in found["wrong"] for word in ('no attribute "bund"', "Incompatible types", 'no attribute "statsu"')), found["wrong"]



FORMULAS = ["y ~ x + log(z) + arm", "y ~ poly(x, 2) + ns(z, 3)", "y ~ np.log(z) + center(x) + arm", "y ~ bs(x, df=4) + C(arm)", "y ~ offset(np.log(z)) + x", "y ~ ."]


@pytest.mark.parametrize("formula", FORMULAS)
def test_models_and_fits_with_transformed_terms_are_pickled(formula, data):
    frame = data.drop(columns=["site", "cost"])
    model = certus.logistic(formula, data=frame)
    fit = model.fit(posterior="gaussian", progress=False)
    new = frame.head(7)
    expected = fit.predict(new)
    for back in (pickle.loads(pickle.dumps(fit)), pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(fit)))), pickle.loads(pickle.dumps(fit.gaussian))):
        pd.testing.assert_frame_equal(back.predict(new), expected)
    again = pickle.loads(pickle.dumps(model))
    assert repr(again) == repr(model) and again.names == model.names
    refit = again.fit(posterior="gaussian", progress=False)
    np.testing.assert_array_equal(refit.mean, fit.mean)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(again)).fit(posterior="gaussian", progress=False).sd, fit.sd)
    pd.testing.assert_frame_equal(refit.predict(new), expected)


def test_pickles_keep_gaps_arrays_matrices_and_groups(data):
    frame = data.copy()
    frame.loc[3, "x"] = np.nan
    weights = np.resize([1.0, 2.0], len(frame))
    models = [
        certus.logistic("y ~ np.exp(x) + arm", data=frame, missing="drop", weights=weights),
        certus.poisson("y ~ x", data=data, exposure="z"),
        certus.linear(data[["x", "z"]].to_numpy(), data["cost"].to_numpy(), sigma=1.0, names=["x", "z"], weights=weights),
        certus.logistic("y ~ np.log(z) + (1 | site)", data=data, group_sd=0.5),
    ]
    for model in models:
        fit = model.fit(posterior="gaussian", progress=False)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).fit(posterior="gaussian", progress=False).mean, fit.mean)
        new = data[["x", "z"]].to_numpy() if model is models[2] else data.drop(columns=["y"])
        pd.testing.assert_frame_equal(pickle.loads(pickle.dumps(fit)).predict(new), fit.predict(new))


def test_a_function_that_no_pickle_can_hold_leaves_the_fit_its_columns(data):
    square = lambda x: x**2  # noqa: E731
    fit = certus.logistic("y ~ square(x)", data=data).fit(posterior="gaussian", progress=False)
    back = pickle.loads(pickle.dumps(fit))
    np.testing.assert_array_equal(back.mean, fit.mean)
    with pytest.raises(certus.DataError, match="square"):
        back.predict(data.head(3))
    made = data.head(3).assign(**{"square(x)": data.x.head(3) ** 2})
    np.testing.assert_allclose(back.predict(made)["mean"], fit.predict(data.head(3))["mean"])


def test_a_dot_stands_for_all_other_columns(data):
    frame = data.drop(columns="cost").assign(name=[f"p{k}" for k in range(len(data))], row=range(1, len(data) + 1))
    model = certus.logistic("y ~ . - site", data=frame)
    assert model.names == ["(Intercept)", "x", "z", "arm[b]"]
    assert any("'name' is ignored" in note for note in model.notes) and any("'row' is ignored" in note for note in model.notes)
    named = certus.logistic("y ~ x + z + arm", data=frame).fit(posterior="gaussian", progress=False)
    fit = model.fit(posterior="gaussian", progress=False)
    np.testing.assert_array_equal(fit.mean, named.mean)
    # new data need what the model uses, and nothing else
    pd.testing.assert_frame_equal(fit.predict(frame[["x", "z", "arm"]].head(4)), named.predict(frame.head(4)))
    assert certus.logistic("y ~ . + (1 | site)", data=frame.drop(columns=["name", "row"]), group_sd=1.0).names[:4] == ["(Intercept)", "x", "z", "arm[b]"]
    ordered = frame.assign(arm=pd.Categorical(frame.arm, ["b", "a"], ordered=True))
    with pytest.raises(certus.UsageError, match="levels of a column in sort order"):
        certus.logistic("y ~ .", data=ordered)
