"""export_model: files, comparison with the model, messages."""

import json
import re
import sys

import numpy as np
import pytest

from mercer import (
    ColumnScaler,
    DataError,
    ExportError,
    Gaussian,
    KernelRidge,
    KernelRidgeClassifier,
    MercerWarning,
    MissingPackageError,
    Nystroem,
    ParameterError,
    RandomFourier,
    ThresholdFeatures,
    export_model,
    save_model,
)
from mercer.export import export as module
from mercer.export.checks import compare

from .models import LABELS, ROWS, X, Y

NAMES = {"python": "model.py", "onnx": "model.onnx"}


@pytest.fixture
def runtime():
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def model():
    return KernelRidgeClassifier(random_state=0).fit(X, LABELS)


@pytest.mark.parametrize("to", list(NAMES))
def test_result_has_the_differences(to, model, tmp_path, request):
    if to == "onnx":
        request.getfixturevalue("runtime")
    result = export_model(model, tmp_path / NAMES[to], to=to, rows=ROWS)
    assert result.path == tmp_path / NAMES[to]
    assert all(file.exists() for file in result.files)
    assert result.size == sum(file.stat().st_size for file in result.files)
    assert result.n_rows_checked == 20
    assert result.n_labels_different == 0
    assert result.skipped is None
    assert 0 < result.relative_difference < (1e-6 if to == "onnx" else 1e-10)
    assert re.search(r"largest difference \d.* on 20 rows, 0 other labels", repr(result))
    assert json.loads(json.dumps(result.to_dict()))["to"] == to
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(file.name for file in result.files)


def test_rows_of_the_model_or_random_rows_are_compared_without_given_ones(model, tmp_path):
    path = tmp_path / "model.py"
    assert export_model(model, path, to="python").rows_from == "model"
    assert export_model(Nystroem(Gaussian(), 5).fit(X), path, to="python").rows_from == "model"
    for other in (
        KernelRidge(RandomFourier(Gaussian(), 20, random_state=0)).fit(X, Y),
        ThresholdFeatures(n_components=9, upper=10.0, random_state=0).fit(X),
        ColumnScaler("ranks").fit(1000 + X),
    ):
        result = export_model(other, path, to="python")
        assert result.rows_from == "random"
        assert result.relative_difference < 1e-10
    assert "200 rows, random ones" in str(result)


def test_without_check(model, tmp_path):
    result = export_model(model, tmp_path / "model.py", to="python", check=False)
    assert result.n_rows_checked == 0
    assert result.largest_difference is None
    assert "not checked: check=False" in str(result)


@pytest.mark.usefixtures("runtime")
def test_without_onnxruntime_the_file_is_written_and_the_reason_given(model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    result = export_model(model, tmp_path / "model.onnx", rows=ROWS)
    assert result.path.exists()
    assert "onnxruntime, which is not installed" in result.skipped
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'mercer\[onnx\]'"):
        export_model(model, tmp_path / "other.onnx")
    assert not (tmp_path / "other.onnx").exists()


def test_model_files_are_exported(model, tmp_path):
    save_model(model, tmp_path / "model.mercer")
    result = export_model(tmp_path / "model.mercer", tmp_path / "model.py", to="python", rows=ROWS)
    assert result.relative_difference < 1e-10


@pytest.mark.usefixtures("runtime")
def test_same_model_gives_the_same_bytes(model, tmp_path):
    first = export_model(model, tmp_path / "a.onnx", rows=ROWS).path.read_bytes()
    assert export_model(model, tmp_path / "b.onnx", rows=ROWS).path.read_bytes() == first


@pytest.mark.usefixtures("runtime")
def test_large_arrays_are_in_a_file_of_their_own(model, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "LARGEST_ONNX", 1000)
    for _ in range(2):  # a second export replaces both files
        result = export_model(model, tmp_path / "model.onnx", rows=ROWS)
        assert [file.name for file in result.files] == ["model.onnx", "model.onnx.data"]
        assert result.relative_difference < 1e-6
    assert result.files[0].stat().st_size < result.files[1].stat().st_size < 10 * X.nbytes * 60


def test_differences_are_warned_of(model, tmp_path, monkeypatch):
    real = module.expected
    monkeypatch.setattr(
        module, "expected", lambda *arguments: {k: v if k == "label" else 1.01 * v for k, v in real(*arguments).items()}
    )
    with pytest.warns(MercerWarning, match="differ from those of the model by 0.0099 of the largest value"):
        export_model(model, tmp_path / "model.py", to="python", rows=ROWS)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"to": "pmml"}, ParameterError, "to must be one of 'onnx', 'python', got 'pmml'"),
        ({"dtype": "float16"}, ParameterError, "dtype must be one of"),
        ({"to": "python", "path": "my model.py"}, ExportError, "such as model.py, got my model.py"),
        ({"to": "python", "path": "model.txt"}, ExportError, "such as model.py, got model.txt"),
        ({"to": "python", "rows": ROWS[:, :2]}, DataError, r"rows must have the shape \(n, 3\).*got \(20, 2\)"),
        ({"to": "python", "rows": ROWS[:0]}, DataError, r"with n >= 1, got \(0, 3\)"),
    ],
)
def test_wrong_arguments(arguments, error, message, model, tmp_path):
    path = tmp_path / arguments.pop("path", "model.py")
    with pytest.raises(error, match=message):
        export_model(model, path, **arguments)
    assert not list(tmp_path.iterdir())


def test_file_that_cannot_be_written(model, tmp_path):
    (tmp_path / "model.npz").mkdir()
    with pytest.raises(ExportError, match=r"model.npz cannot be written: "):
        export_model(model, tmp_path / "model.py", to="python", check=False)
    assert not (tmp_path / "model.py").exists()


def test_code_that_does_not_run_is_not_written(model, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "numpy_source", lambda *_: ("raise SystemError('broken')", {}))
    with pytest.raises(ExportError, match=r"model.py does not run: SystemError: broken"):
        export_model(model, tmp_path / "model.py", to="python", rows=ROWS)
    assert not list(tmp_path.iterdir())


def test_nan_is_no_small_difference():
    found = compare(None, {"variable": np.array([np.nan, 1.0])}, {"variable": np.array([1.0, 1.0])})
    assert found.relative == np.inf
