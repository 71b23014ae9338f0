"""Predictions of a table: in memory, and from a file to a file block by block."""

from __future__ import annotations

import os
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mercer.diagnostics.fits.results import Result
from mercer.engines import Report
from mercer.errors import DataError, MercerWarning, ParameterError
from mercer.io.source import load_pyarrow
from mercer.io.writers import output_format, writing_table
from mercer.model_files import describe_model, load_model
from mercer.workflows.resources import PeakMemory, Steps
from mercer.workflows.sources import check_column, opened

__all__ = ["Extras", "PredictResult", "model_rows", "predict_file", "predictions", "read_model"]

Array = np.ndarray
# Number of rows that are predicted at a time, so that memory does not grow with blocks of few columns.
CHUNK_ROWS = 20_000


@dataclass(frozen=True)
class Extras:
    """What is predicted beside the targets or labels.

    Attributes
    ----------
    proba : bool
        Probabilities of all labels.
    std : bool
        Standard deviations of new targets.
    interval : float or None
        Probability of the intervals for new targets.
    """

    proba: bool = False
    std: bool = False
    interval: float | None = None


@dataclass(frozen=True)
class PredictResult(Result):
    """What `predict_file` or `transform_file` wrote.

    Attributes
    ----------
    source, model, output : str
        The table, the model file (empty if there is none) and the file that was written.
    n_rows : int
        Number of rows.
    columns : tuple of str
        The columns that were written.
    seconds : float
        Time, including reading and writing.
    peak_bytes : int
        Peak resident memory of the process.
    unseen : dict of str to int
        Number of cells per column whose category did not occur in training.
    """

    source: str
    model: str
    output: str
    n_rows: int
    columns: tuple[str, ...]
    seconds: float
    peak_bytes: int
    unseen: dict[str, int]


def read_model(path: str | os.PathLike[str], *, method: str = "predict") -> tuple[Any, dict[str, Any]]:
    """Return a fitted model and its metadata; raise an error if it lacks a method such as "predict"."""
    description = describe_model(path)
    if not description.is_fitted:
        msg = f"{path} has a {description.class_name} that is not fitted. Fit it, and save it again."
        raise DataError(msg)
    model = load_model(path)
    if not hasattr(model, method):
        msg = f"{path} has a {description.class_name}, which has no method {method}."
        raise DataError(msg)
    return model, description.metadata


def model_rows(model: Any, table: Any) -> Any:
    """Return the rows of an Arrow table in the form that a model takes.

    Models with a preprocessor take tables. Others take numbers: the columns that have the names of the fit, or all
    columns if the model was fitted without names.
    """
    steps = getattr(model, "steps", None)
    first = model if steps is None else steps[0][1]
    if getattr(first, "preprocessor_", None) is not None or hasattr(first, "schema_"):
        return table
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        names = table.column_names
        width = getattr(model, "n_features_in_", len(names))
        if len(names) != width:
            msg = (
                f"The model takes rows of {width} numbers, and does not know names of columns, but the table has "
                f"{len(names)} columns. Pass a table of exactly these columns."
            )
            raise DataError(msg)
    missing = [name for name in names if name not in table.column_names]
    if missing:
        check_column(missing[0], table.column_names, "a feature of the model", "The table")
    pa = load_pyarrow("pyarrow", "A table")
    columns = []
    for name in names:
        column = table.column(name)
        try:
            columns.append(column.cast(pa.float64()).to_numpy())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            msg = f"The model takes numbers, but the column {name!r} has the type {column.type}."
            raise DataError(msg) from error
    return np.column_stack(columns)


def check_extras(model: Any, extras: Extras) -> None:
    """Raise an error if a model cannot predict what is asked for beside its targets."""
    name = type(model).__name__
    is_classifier = hasattr(model, "classes_")
    if extras.proba and not hasattr(model, "predict_proba"):
        msg = f"{name} has no probabilities" + ("." if is_classifier else ", because it predicts numbers. Use --std.")
        raise ParameterError(msg)
    if (extras.std or extras.interval is not None) and is_classifier:
        msg = f"{name} predicts labels, which have no error bars. Use proba for probabilities."
        raise ParameterError(msg)
    if extras.interval is not None:
        if not 0 < extras.interval < 1:
            msg = f"interval must be a probability above 0 and below 1, such as 0.9, got {extras.interval:g}."
            raise ParameterError(msg)
        if not hasattr(model, "predict_interval"):
            msg = f"{name} has no prediction intervals."
            raise ParameterError(msg)


def predictions(model: Any, table: Any, extras: Extras | None = None) -> dict[str, Array]:
    """Return columns of predictions for the rows of an Arrow table.

    The columns are "prediction", "std", "low" and "high", and "probability_LABEL" for each label.
    """
    extras = extras or Extras()
    rows = model_rows(model, table)
    columns: dict[str, Array] = {}
    if extras.proba:
        probabilities = model.predict_proba(rows)
        columns["prediction"] = np.asarray(model.classes_)[probabilities.argmax(axis=1)]
        for label, values in zip(model.classes_, probabilities.T, strict=True):
            columns[f"probability_{label}"] = values
        return columns
    if extras.std:
        mean, std = model.predict(rows, return_std=True)
        columns |= _numbered("prediction", mean) | _numbered("std", std)
    else:
        columns |= _numbered("prediction", model.predict(rows))
    if extras.interval is not None:
        ends = model.predict_interval(rows, coverage=extras.interval)
        columns |= _numbered("low", ends[..., 0]) | _numbered("high", ends[..., 1])
    return columns


def _numbered(name: str, values: Array) -> dict[str, Array]:
    """Return a column, or one column per target with its number."""
    if values.ndim == 1:
        return {name: values}
    return {f"{name}_{j}": values[:, j] for j in range(values.shape[1])}


def predict_file(
    model: str | os.PathLike[str],
    source: Any,
    output: str | os.PathLike[str] = "predictions.csv",
    *,
    proba: bool = False,
    std: bool = False,
    interval: float | None = None,
    keep: Sequence[str] = (),
    header: bool | None = None,
    n_jobs: int | None = None,
    format: str | None = None,
    progress: bool | Report = False,
) -> PredictResult:
    r"""Predict the rows of a table, block by block, and write the predictions to a file.

    Memory does not grow with the table. The file is written completely or not at all.

    Parameters
    ----------
    model : path-like
        A model file, as `fit_file` or `mercer.save_model` write it.
    source : path, glob pattern, folder, list of these, data frame or "-"
        The table: csv, parquet or arrow files; "-" means CSV on standard input. Columns may be in another order, and
        further columns are ignored.
    output : path-like, default="predictions.csv"
        The file to write: csv, tsv, parquet, arrow, jsonl or npy, by its name; "-" means CSV on standard output.
    proba : bool, default=False
        Whether to write the probabilities of all labels.
    std : bool, default=False
        Whether to write standard deviations of new targets.
    interval : float or None, default=None
        Probability of intervals for new targets, which are written as "low" and "high".
    keep : sequence of str, default=()
        Columns of the table that are written before the predictions, such as an identifier.
    header : bool or None, default=None
        Whether the first line of CSV files contains the names of the columns; None infers this from the first lines.
    n_jobs : int or None, default=None
        Number of threads; None means all cores.
    format : str or None, default=None
        Format of the output; None infers it from its name.
    progress : bool or callable, default=False
        True shows the progress on standard error. A callable receives a `Progress`.

    Returns
    -------
    PredictResult

    See Also
    --------
    fit_file : Fit a model to a table.
    evaluate_file : Score predictions.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from mercer.workflows import fit_file, predict_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = Path(folder) / "table.csv"
    ...     lines = [f"{i % 7},{'ab'[i % 2]},{i % 7 + i % 2}" for i in range(60)]
    ...     _ = table.write_text("\n".join(["x,kind,y", *lines]))
    ...     _ = fit_file(table, target="y", task="regression", output=f"{folder}/model.mercer", compare=False)
    ...     result = predict_file(f"{folder}/model.mercer", table, f"{folder}/out.csv", keep=["kind"], std=True)
    >>> result.n_rows, result.columns
    (60, ('kind', 'prediction', 'std'))
    """
    extras = Extras(proba, std, interval)
    output_format(output, format)
    fitted, _ = read_model(model)
    check_extras(fitted, extras)
    if n_jobs is not None and "n_jobs" in fitted.get_params(deep=False):
        fitted.set_params(n_jobs=n_jobs)
    written = ("prediction", "std", "low", "high")
    for name in keep:
        if name in written:
            msg = f"keep={name!r} has the name of a column of predictions. Rename it in the table."
            raise ParameterError(msg)
    unseen = Unseen(fitted)

    def predicted(table: Any) -> dict[str, Array]:
        with unseen.counting():
            return predictions(fitted, table, extras)

    return write_rows("mercer predict", str(model), source, output, predicted, keep, format, progress, header, unseen)


def write_rows(
    owner: str,
    model: str,
    source: Any,
    output: str | os.PathLike[str],
    function: Callable[[Any], dict[str, Array]],
    keep: Sequence[str],
    format: str | None,
    progress: bool | Report,
    header: bool | None = None,
    unseen: Unseen | None = None,
) -> PredictResult:
    """Write the columns that a function returns for each block of a table to a file."""
    pa = load_pyarrow("pyarrow", "A table")
    start = time.perf_counter()
    columns: tuple[str, ...] = ()
    with Steps(owner, progress) as steps, opened(source, header=header) as table, steps.step("rows"):
        steps.expect({"rows": 1.0})
        for name in keep:
            check_column(name, table.feature_names or (), "keep", str(source))
        with writing_table(output, format) as writer:
            for (block,) in table:
                for at in range(0, block.num_rows, CHUNK_ROWS):
                    chunk = block.slice(at, CHUNK_ROWS)
                    kept = {name: chunk.column(name) for name in keep}
                    out = pa.table(kept | {name: arrow_column(one) for name, one in function(chunk).items()})
                    columns = tuple(out.column_names)
                    writer.write(out)
                    steps.advance(writer.n_rows / table.n_rows if table.n_rows else None, f"{writer.n_rows:,} rows")
            n_rows = writer.n_rows
            if not n_rows:
                msg = f"{source} has no rows, so nothing was written."
                raise DataError(msg)
    PeakMemory.note()
    seconds = time.perf_counter() - start
    name = str(source) if isinstance(source, str | os.PathLike) else "a table in memory"
    counts = {} if unseen is None else dict(unseen.counts)
    return PredictResult(name, model, str(output), n_rows, columns, seconds, PeakMemory.overall, counts)


def arrow_column(values: Array) -> Any:
    """Return an array as an Arrow array; labels of type object become strings."""
    pa = load_pyarrow("pyarrow", "A table")
    values = np.asarray(values)
    return pa.array(values.tolist() if values.dtype.kind in "OU" else values)


@dataclass
class Unseen:
    """Number of cells per column whose category did not occur in training, over all blocks."""

    model: Any
    counts: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the categories of the predictions in a with statement, instead of a warning per block."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "There are categories that the fit did not see", MercerWarning)
            # Columns were selected by name already, and are passed as an array.
            warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
            yield
        found = getattr(preprocessor_of(self.model), "unseen_", None)
        if found is not None:
            self.counts.update(found.rows)


def preprocessor_of(model: Any) -> Any:
    """Return the fitted preprocessor of a model, or None if it takes numbers."""
    if hasattr(model, "steps"):
        return model.steps[0][1]
    return getattr(model, "preprocessor_", None)
