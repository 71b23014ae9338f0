"""Exported files of NumPy: the same numbers, readable code, no other package."""

import ast
import csv
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone

from mercer import Gaussian, KernelKMeans, KernelRidge, KernelRidgeClassifier, Matern, RandomFourier
from mercer.export import export_model
from mercer.export.numpy_file import numpy_source
from mercer.export.program import program_of

from .models import LABELS, MODELS, ROWS, X, Y, fitted, name_of

pytestmark = pytest.mark.filterwarnings("ignore")  # of few rows, which are not the subject


def executed(program, folder):
    """Return the functions of an exported file."""
    source, arrays = numpy_source(program, "model.npz")
    np.savez(folder / "model.npz", **arrays)
    names = {"__name__": "model", "__file__": str(folder / "model.py")}
    exec(compile(source, "model.py", "exec"), names)
    return names, source


@pytest.mark.covering(1, model=type)
@pytest.mark.parametrize("model", MODELS, ids=name_of)
def test_generated_code_computes_the_graph(model, tmp_path):
    program = program_of(fitted(model))
    names, source = executed(program, tmp_path)
    found = names["in_blocks"](ROWS)
    for name, truth in program(ROWS).items():
        assert found[name] == pytest.approx(truth, rel=1e-12, abs=1e-12)
    tree = ast.parse(source)
    modules = {one.module for one in ast.walk(tree) if isinstance(one, ast.ImportFrom)}
    modules |= {alias.name for one in ast.walk(tree) if isinstance(one, ast.Import) for alias in one.names}
    assert modules == {"numpy", "pathlib", "sys"}


def test_functions_have_the_results_of_the_methods(tmp_path):
    model = KernelRidgeClassifier(random_state=0).fit(X, LABELS)
    names, _ = executed(program_of(model), tmp_path)
    assert names["predict"](ROWS).tolist() == model.predict(ROWS).tolist()
    for name in ("predict_proba", "decision_function"):
        assert names[name](ROWS) == pytest.approx(getattr(model, name)(ROWS), abs=1e-10)
    model = KernelKMeans(RandomFourier(Gaussian(), 20, random_state=0), 3, random_state=0).fit(X)
    names, _ = executed(program_of(model), tmp_path)
    assert names["predict"](ROWS).tolist() == model.predict(ROWS).tolist()
    assert names["transform"](ROWS) == pytest.approx(model.transform(ROWS), abs=1e-10)
    model = RandomFourier(Gaussian(), 20, form="complex", random_state=0).fit(X)
    names, _ = executed(program_of(model), tmp_path)
    assert names["transform"](ROWS) == pytest.approx(model.transform(ROWS), abs=1e-12)
    model = KernelRidge(neighbors=8, random_state=0).fit(X, Y)
    names, _ = executed(program_of(model, return_std=True), tmp_path)
    mean, std = model.predict(ROWS, return_std=True)
    assert names["predict"](ROWS) == pytest.approx(mean, abs=1e-9)
    assert names["predict_std"](ROWS) == pytest.approx(std, abs=1e-9)


def test_rows_are_checked(tmp_path):
    names, _ = executed(program_of(KernelRidge(random_state=0).fit(X, Y)), tmp_path)
    with pytest.raises(ValueError, match=r"X must have the shape \(n, 3\), got \(20, 2\)"):
        names["predict"](ROWS[:, :2])
    with pytest.raises(ValueError, match="X must be finite"):
        names["predict"](np.full((1, 3), np.nan))
    assert names["predict"](np.zeros((0, 3))).shape == (0,)
    assert names["predict"]([[1, 2, 3]]).shape == (1,)


def test_code_is_readable(tmp_path):
    model = KernelRidge(RandomFourier(Gaussian(), 64, random_state=0), random_state=0).fit(X, Y)
    _, source = executed(program_of(model), tmp_path)
    assert "angles = X @ FREQUENCIES" in source
    assert "features @ COEF + INTERCEPT" in source
    assert "def hadamard" not in source  # only what is used
    assert max(map(len, source.splitlines())) <= 130
    assert len(source.splitlines()) < 100


@pytest.mark.parametrize("header", [None, ["x0", "x1", "x2"], ["x2", "other", "x0", "x1"]], ids=["no", "same", "other"])
def test_file_predicts_a_csv_of_numbers(header, tmp_path):
    model = KernelRidgeClassifier(Matern(), random_state=0).fit(X, LABELS)
    export_model(model, tmp_path / "model.py", to="python", check=False)
    columns = {"x0": ROWS[:, 0], "x1": ROWS[:, 1], "x2": ROWS[:, 2], "other": np.zeros(20)}
    with open(tmp_path / "rows.csv", "w", newline="") as file:
        writer = csv.writer(file)
        if header:
            writer.writerow(header)
        writer.writerows(zip(*(columns[name] for name in header or ("x0", "x1", "x2")), strict=True))
    command = [sys.executable, "-I", str(tmp_path / "model.py"), str(tmp_path / "rows.csv")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == model.predict(ROWS).tolist()
    usage = subprocess.run(command[:-1], capture_output=True, text=True, check=False)
    assert usage.returncode == 2
    assert "ROWS.csv" in usage.stdout


def test_names_of_features_are_in_the_file(tmp_path):
    pandas = pytest.importorskip("pandas")
    names = [f"column number {i}" for i in range(3)]
    model = clone(KernelRidge(random_state=0)).fit(pandas.DataFrame(X, columns=names), Y)
    found, _ = executed(program_of(model), tmp_path)
    assert found["FEATURE_NAMES"] == names
