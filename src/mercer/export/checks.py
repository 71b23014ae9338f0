"""Comparison of an exported model with the model it was made from, on the same rows."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from mercer.errors import DataError, ExportError
from mercer.errors.packages import optional_module
from mercer.export.program import Program, n_features_of, reference
from mercer.export.tables import frame_columns, random_frame, table_of
from mercer.kernels.base import dense64
from mercer.tables.frames import Frame

__all__ = [
    "Differences",
    "compare",
    "expected",
    "onnx_columns",
    "rounded_frame",
    "rows_of_model",
    "run_onnx",
    "run_python",
]

Array = np.ndarray
# Largest number of rows that are compared.
MOST_ROWS = 1000
# Number of random rows if a model has none.
RANDOM_ROWS = 200
# Number of rows that a session of onnxruntime gets at a time.
ONNX_ROWS = 100
# Runs in a process of its own in which mercer cannot be imported, as on a machine without it.
SCRIPT = """
import importlib.util, json, sys
sys.modules["mercer"] = None
import numpy as np
spec = importlib.util.spec_from_file_location("exported", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
with open(sys.argv[2], encoding="utf-8") as file:
    rows = json.load(file)
np.savez(sys.argv[3], **module.in_blocks(rows))
"""


@dataclass(frozen=True)
class Differences:
    """Differences between an exported model and the model it was made from."""

    absolute: float
    relative: float
    labels: int


def rows_of_model(model: Any, rows: Any, program: Program) -> tuple[Any, str]:
    """Return rows on which models are compared, and where they are from: "given", "model" or "random".

    For a model of tables they are a `Frame`.
    """
    preprocessor, _ = table_of(model)
    if preprocessor is not None and program.columns:
        if rows is None:
            return random_frame(preprocessor, RANDOM_ROWS), "random"
        frame = preprocessor._frame(rows)[slice(0, MOST_ROWS)]
        preprocessor._columns(frame)  # raises if a column is missing or has another kind
        return frame, "given"
    if rows is not None:
        if hasattr(rows, "to_numpy"):
            rows = rows.to_numpy()
        rows = dense64(rows[:MOST_ROWS])
        if rows.ndim != 2 or not len(rows) or rows.shape[1] != n_features_of(model):
            msg = (
                f"export_model: rows must have the shape (n, {n_features_of(model)}) with n >= 1, got {rows.shape}. "
                "Pass some of the rows that the model was fitted to, or rows to predict."
            )
            raise DataError(msg)
        return rows, "given"
    found = stored_rows(model)
    if found is not None:
        return dense64(found[:MOST_ROWS]), "model"
    rng = np.random.default_rng(0)
    out = rng.normal(size=(RANDOM_ROWS, n_features_of(model)))
    center, scale = typical_columns(model)
    out = center + scale * out
    return (np.abs(out) if get_tags(model).input_tags.positive_only else out), "random"


def stored_rows(model: Any) -> Any:
    """Return rows of the fit that a model has stored, or None."""
    if isinstance(model, Pipeline):
        return stored_rows(model.steps[0][1]) if len(model.steps) == 1 else None
    fitted = vars(model)
    local = fitted.get("local_")
    if local is not None and local.model.source is None and local.left_out.rows.X.shape[1]:
        return local.left_out.rows.X
    sample = getattr(fitted.get("statistic_"), "sample", None)
    if sample is not None and getattr(sample, "X", None) is not None:
        return sample.X
    landmarks = getattr(fitted.get("features_"), "landmarks", None)
    return landmarks if landmarks is not None else None


def typical_columns(model: Any) -> tuple[Any, Any]:
    """Return centers and scales of columns, as far as a model has them."""
    if isinstance(model, Pipeline):
        return typical_columns(model.steps[0][1])
    fitted = vars(model)
    if fitted.get("_members"):
        return typical_columns(fitted["_members"][0].scaler)
    if "columns_" in fitted:
        columns = fitted["columns_"]
        plain = getattr(columns, "plain", columns)
        return full(plain.columns, plain.center, plain.scale, int(model.n_features_in_))
    inputs = getattr(fitted.get("features_"), "inputs", None)
    if inputs is not None:
        return full(inputs.columns, inputs.center, inputs.scale, inputs.n_features)
    feature_map = fitted.get("feature_map_")
    if feature_map is not None:
        return typical_columns(feature_map)
    mean, scale = fitted.get("mean_"), fitted.get("scale_")
    return (0.0 if mean is None else mean), (1.0 if scale is None or np.ndim(scale) == 0 else scale)


def full(columns: Array, center: Array | None, scale: Array, width: int) -> tuple[Array, Array]:
    """Return centers and scales of all columns, given those of some."""
    centers, scales = np.zeros(width), np.ones(width)
    centers[columns] = 0.0 if center is None else center
    scales[columns] = scale
    return centers, scales


def expected(model: Any, program: Program, rows: Any) -> dict[str, Array]:
    """Return what the model itself computes for rows, by the names of the outputs.

    Near rows are searched exactly, as the exported model does.
    """
    model = reference(model)
    results: dict[str, Array] = {}
    for name in program.outputs:
        if name == "variable":
            found = model.transform(rows) if program.is_transformer else model.predict(rows)
            found = found.toarray() if sp.issparse(found) else np.asarray(found)
            if program.is_complex:
                found = np.stack([found.real, found.imag], axis=-1)
        elif name == "std":
            found = model.predict(rows, return_std=True)[1]
        elif name == "label":
            found = model.predict(rows)
        elif name == "probabilities":
            found = model.predict_proba(rows)
        else:
            found = model.transform(rows) if program.classes is None else model.decision_function(rows)
        results[name] = np.asarray(found)
    return results


def compare(program: Program, found: dict[str, Array], wanted: dict[str, Array]) -> Differences:
    """Return the largest differences of all outputs; relative ones are in units of the largest value of an output."""
    absolute = relative = 0.0
    labels = 0
    for name, truth in wanted.items():
        values = np.asarray(found[name])
        if name == "label":
            labels = int(np.count_nonzero(values.ravel().astype(str) != truth.ravel().astype(str)))
            continue
        values = values.reshape(truth.shape).astype(np.float64)
        apart = float(np.abs(values - truth).max(initial=0.0))
        if np.isnan(values).any():
            apart = float("inf")
        absolute = max(absolute, apart)
        size = float(np.abs(truth).max(initial=0.0))
        relative = max(relative, apart / size if size > 0 else (0.0 if apart == 0 else float("inf")))
    del program
    return Differences(absolute, relative, labels)


def run_onnx(model: bytes | str, rows: Any) -> dict[str, Array]:
    """Return the outputs of an ONNX model, given as bytes or as the path of a file, by onnxruntime.

    Rows are an array, or a dictionary of columns by names.
    """
    feed = rows if isinstance(rows, dict) else {"X": rows}
    n = len(next(iter(feed.values())))
    runtime = optional_module("onnxruntime", "export_model(to='onnx')", "'mercer[onnx]'")
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_outputs()]
    starts = range(0, n, ONNX_ROWS)
    parts = [session.run(names, {name: one[i : i + ONNX_ROWS] for name, one in feed.items()}) for i in starts]
    return {name: np.concatenate([part[i] for part in parts]) for i, name in enumerate(names)}


def onnx_columns(program: Program, frame: Frame, dtype: Any) -> dict[str, Array]:
    """Return the cells of a table as an ONNX model takes them: a missing string is empty, a date is an integer."""
    feed = frame_columns(frame, program.columns)
    for one in program.columns:
        name, kind = str(one.options["column"]), one.options["kind"]
        cells = feed[name]
        if kind == "category":
            feed[name] = np.array([["" if cell is None else cell] for cell in cells[:, 0]], dtype=object)
        elif kind == "date":
            least = np.iinfo(np.int64).min
            feed[name] = np.where(np.isnan(cells), least, np.nan_to_num(cells).astype(np.int64))
        else:
            feed[name] = cells.astype(dtype)
    return {program.input_names[name]: cells for name, cells in feed.items()}


def rounded_frame(frame: Frame, dtype: Any) -> Frame:
    """Return a table whose numbers are rounded to a dtype."""
    columns = (
        replace(one, values=one.values.astype(dtype).astype(np.float64)) if one.kind in ("number", "boolean") else one
        for one in frame.columns
    )
    return replace(frame, columns=tuple(columns))


def json_rows(program: Program, rows: Any) -> Any:
    """Return rows, or the cells of a table by names, as JSON has them."""
    if not program.columns:
        return rows.tolist()
    out = {}
    for name, cells in frame_columns(rows, program.columns).items():
        kind = next(one.options["kind"] for one in program.columns if one.options["column"] == name)
        if kind == "date":
            dates = np.nan_to_num(cells[:, 0]).astype(np.int64).astype("datetime64[us]")
            gone = np.isnan(cells[:, 0])
            out[name] = [None if no else str(date) for date, no in zip(dates, gone, strict=True)]
        else:
            out[name] = cells[:, 0].tolist()
    return out


def run_python(path: Path, program: Program, rows: Any) -> dict[str, Array]:
    """Return the outputs of an exported file of Python, from a new process in which mercer cannot be imported."""
    with tempfile.TemporaryDirectory() as folder:
        given, results = Path(folder) / "rows.json", Path(folder) / "results.npz"
        given.write_text(json.dumps(json_rows(program, rows)), encoding="utf-8")
        command = [sys.executable, "-I", "-c", SCRIPT, str(path), str(given), str(results)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            last = done.stderr.strip().splitlines()[-1:] or ["no message"]
            msg = f"export_model: the exported file {path.name} does not run: {last[0]}"
            raise ExportError(msg)
        with np.load(results, allow_pickle=False) as found:
            out = dict(found)
    if program.classes is not None:
        out["label"] = np.asarray(program.classes)[out["label"]]
    return out
