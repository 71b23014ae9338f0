"""Export of fitted models: to ONNX, or to a file of plain NumPy."""

from __future__ import annotations

import io
import os
import tempfile
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mercer.errors import ExportError, MercerWarning, MissingPackageError
from mercer.errors.packages import optional_module
from mercer.export.checks import (
    Differences,
    compare,
    expected,
    onnx_columns,
    rounded_frame,
    rows_of_model,
    run_onnx,
    run_python,
)
from mercer.export.numpy_file import numpy_source
from mercer.export.onnx_file import onnx_model
from mercer.export.program import Program, program_of
from mercer.io.files import replacing, unresolved, why_not_written
from mercer.model_files import load_model
from mercer.parameters import Choice, check_parameter

__all__ = ["ExportResult", "export_model"]

Array = np.ndarray
# Largest size of an ONNX file with its arrays: protocol buffers end at 2 GiB. Larger arrays are a file of their own.
LARGEST_ONNX = 2_000_000_000
# Relative differences from which a warning is issued, by the dtype of the results.
TOLERANCE = {"float32": 1e-5, "float64": 1e-8}


@dataclass(frozen=True)
class ExportResult:
    """What was written, and how it compares with the model.

    Attributes
    ----------
    path : Path
        The file of the model.
    files : tuple of Path
        All files that were written.
    to : str
        The format, "onnx" or "python".
    outputs : tuple of str
        Names of what the exported model computes.
    size : int
        Total size of the files in bytes.
    n_rows_checked : int
        Number of rows on which the exported model was compared with the model; 0 if it was not.
    rows_from : str or None
        Where these rows are from: "given", "model" (rows that the model has stored) or "random".
    largest_difference : float or None
        Largest absolute difference between a result of the exported model and that of the model, in float64, for the
        same rows; None if they were not compared.
    relative_difference : float or None
        Largest difference divided by the largest absolute value of the output it belongs to.
    n_labels_different : int
        Number of rows with another label.
    skipped : str or None
        Why the exported model was not compared; None if it was.
    """

    path: Path
    files: tuple[Path, ...]
    to: str
    outputs: tuple[str, ...]
    size: int
    n_rows_checked: int
    rows_from: str | None
    largest_difference: float | None
    relative_difference: float | None
    n_labels_different: int
    skipped: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a dictionary of built-in types."""
        out = asdict(self)
        return {**out, "path": str(self.path), "files": [str(file) for file in self.files]}

    def __str__(self) -> str:
        names = " and ".join(file.name for file in self.files)
        line = f"{names}: {self.size:,} bytes, outputs {', '.join(self.outputs)}"
        if self.skipped is not None:
            return f"{line}; not checked: {self.skipped}"
        where = {"given": "", "model": " of the model", "random": ", random ones"}[str(self.rows_from)]
        line += (
            f"; largest difference {self.largest_difference:.2g} (relative {self.relative_difference:.2g}) on "
            f"{self.n_rows_checked:,} rows{where}"
        )
        return line if "label" not in self.outputs else f"{line}, {self.n_labels_different} other labels"

    __repr__ = __str__


def export_model(
    model: Any,
    path: str | os.PathLike[str],
    *,
    to: Literal["onnx", "python"] = "onnx",
    rows: Any = None,
    return_std: bool = False,
    dtype: Literal["float32", "float64"] = "float32",
    compute: Literal["float32", "float64"] = "float64",
    check: bool = True,
) -> ExportResult:
    """Write a fitted model as an ONNX graph, or as a file of plain NumPy, and compare it with the model.

    Parameters
    ----------
    model : estimator or path-like
        A fitted map, learner or transformer of mercer, a pipeline of them, or the path of a model file. Steps of
        pipelines can also be `StandardScaler`, `MinMaxScaler`, `MaxAbsScaler`, `RobustScaler`, `Normalizer`, `PCA` and
        `TruncatedSVD` of scikit-learn.
    path : path-like
        File to write, such as "model.onnx" or "model.py"; a file of that name is replaced. With ``to="python"`` the
        arrays are in a second file beside it, "model.npz".
    to : {"onnx", "python"}, default="onnx"
        "onnx": standard operators of opset 18, with any number of rows (needs ``pip install 'mercer[onnx]'``).
        "python": a file of Python with the functions `predict`, `predict_proba` and so on, which needs NumPy only, and
        which predicts a CSV file of numbers if it is run.
    rows : array-like of shape (n, d), default=None
        Rows on which the exported model is compared with the model, at most 1000 of them. None means rows that the
        model has stored, or random rows if it has none.
    return_std : bool, default=False
        Whether standard deviations of predictions are an output, too, as ``predict(X, return_std=True)`` returns them.
    dtype : {"float32", "float64"}, default="float32"
        Dtype of rows and results of an ONNX model.
    compute : {"float32", "float64"}, default="float64"
        Dtype in which an ONNX model computes. Constants in float32 are half the size, and results have rounding errors
        of float32, which landmark features magnify.
    check : bool, default=True
        Whether the exported model is run and compared with the model.

    Returns
    -------
    ExportResult
        The files, and the largest differences. A warning is issued if relative differences exceed 1e-5 in float32.

    Raises
    ------
    ExportError
        If the model has no form of array operations, with the reason; see docs/export.md.

    See Also
    --------
    save_model : Files that mercer reads, of every model.
    mercer.torch.FeatureLayer : A fitted map as a module of PyTorch.

    Notes
    -----
    The outputs of an ONNX model have the names that skl2onnx uses: "variable" for numbers and transformed rows, "label"
    and "probabilities" for labels. Further outputs are "scores", the decision values of a classifier or the distances
    to the centers of clusters, and "std". An exported model does not check its rows: outside of the domain of a map,
    such as negative values for `ThresholdFeatures`, its results mean nothing.

    Near rows (`neighbors=`) are searched among all rows, exactly. An ONNX model with near rows needs memory in
    proportion to the number of rows of a batch times the number of rows of the model: pass about 100 rows at a time.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from mercer import KernelRidge
    >>> from mercer.export import export_model
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> model = KernelRidge(random_state=0).fit(X, np.sin(X[:, 0]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = export_model(model, f"{folder}/model.py", to="python", rows=X)
    >>> [file.name for file in result.files], result.largest_difference < 1e-9
    (['model.py', 'model.npz'], True)
    """
    check_parameter("export_model", "to", to, Choice("onnx", "python"))
    check_parameter("export_model", "dtype", dtype, Choice("float32", "float64"))
    check_parameter("export_model", "compute", compute, Choice("float32", "float64"))
    if isinstance(model, str | os.PathLike):
        model = load_model(model)
    target = unresolved(path)
    if to == "python" and (target.suffix != ".py" or not target.stem.isidentifier()):
        msg = f"export_model: path must be the name of a Python module, such as model.py, got {target.name}."
        raise ExportError(msg)
    program = program_of(model, return_std=bool(return_std))
    compared = Comparison(model, program, rows, dtype if to == "onnx" else "float64", check)
    if to == "python":
        files = _write_python(program, target, compared)
    else:
        files = _write_onnx(program, target, compared, dtype, compute)
    return compared.result(target, files, to)


class Comparison:
    """The comparison of an exported model with the model, if there is one."""

    def __init__(self, model: Any, program: Program, rows: Any, dtype: str, check: bool) -> None:
        self.model = model
        self.program = program
        self.dtype = dtype
        self.found: Differences | None = None
        self.skipped = None if check else "check=False"
        self.rows: Any = None
        self.rows_from: str | None = None
        if check:
            given, self.rows_from = rows_of_model(model, rows, program)
            self.rows = rounded_frame(given, dtype) if program.columns else given.astype(dtype)

    def of(self, run: Any) -> None:
        """Compare the results of a function of rows with those of the model, for the same rows in float64."""
        if self.rows is None:
            return
        try:
            found = run(self.rows)
        except MissingPackageError as error:
            self.skipped = str(error)
            return
        rows = self.rows if self.program.columns else self.rows.astype(np.float64)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the model about these rows
            wanted = expected(self.model, self.program, rows)
        self.found = compare(self.program, found, wanted)

    def result(self, path: Path, files: list[Path], to: str) -> ExportResult:
        """Return what was written and compared; warn if there are differences."""
        found, checked = self.found, 0 if self.found is None or self.rows is None else len(self.rows)
        result = ExportResult(
            path=path,
            files=tuple(files),
            to=to,
            outputs=tuple(self.program.outputs),
            size=sum(file.stat().st_size for file in files),
            n_rows_checked=checked,
            rows_from=self.rows_from if checked else None,
            largest_difference=None if found is None else found.absolute,
            relative_difference=None if found is None else found.relative,
            n_labels_different=0 if found is None else found.labels,
            skipped=self.skipped,
        )
        if found is not None and found.relative > TOLERANCE[self.dtype]:
            msg = (
                f"export_model: results of {path.name} differ from those of the model by {found.relative:.2g} of the "
                f"largest value, more than rounding errors of {self.dtype} do. Try dtype='float64' and "
                "compute='float64'; if that does not help, please report it."
            )
            warnings.warn(msg, MercerWarning, stacklevel=3)
        return result


def _write_python(program: Program, target: Path, compared: Comparison) -> list[Path]:
    arrays_name = target.with_suffix(".npz").name
    source, arrays = numpy_source(program, arrays_name)
    stream = io.BytesIO()
    np.savez(stream, **arrays)  # type: ignore[arg-type]
    contents = {target.name: source.encode(), arrays_name: stream.getvalue()}
    with tempfile.TemporaryDirectory() as folder:
        for name, content in contents.items():
            (Path(folder) / name).write_bytes(content)
        compared.of(lambda rows: run_python(Path(folder) / target.name, program, rows))
    # The arrays first, so that there is no new file without them.
    for name in (arrays_name, target.name):
        _write(target.with_name(name), contents[name])
    return [target, target.with_name(arrays_name)]


def _write_onnx(program: Program, target: Path, compared: Comparison, dtype: str, compute: str) -> list[Path]:
    model = onnx_model(program, dtype=dtype, compute=compute)
    if model.ByteSize() <= LARGEST_ONNX:
        content = model.SerializeToString(deterministic=True)
        compared.of(lambda rows: run_onnx(content, as_feed(program, rows, dtype)))
        _write(target, content)
        return [target]
    onnx = optional_module("onnx", "export_model(to='onnx')", "'mercer[onnx]'")
    arrays = target.with_name(f"{target.name}.data")
    arrays.unlink(missing_ok=True)  # onnx appends to a file that exists
    onnx.save_model(model, str(target), save_as_external_data=True, location=arrays.name)
    compared.of(lambda rows: run_onnx(str(target), as_feed(program, rows, dtype)))
    return [target, arrays]


def as_feed(program: Program, rows: Any, dtype: str) -> Any:
    """Return rows, or the cells of a table by names, as an ONNX model takes them."""
    return onnx_columns(program, rows, dtype) if program.columns else rows


def _write(path: Path, content: bytes) -> None:
    try:
        with replacing(path) as file:
            file.write(content)
    except OSError as error:
        msg = f"export_model: {path} cannot be written: {why_not_written(error, path, len(content))}."
        raise ExportError(msg) from error
