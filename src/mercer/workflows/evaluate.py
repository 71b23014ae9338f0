"""What a model file is worth on a table of test rows, as figures or as a page, and its export to other formats."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

import mercer
from mercer.diagnostics.fits import (
    Contender,
    FitResult,
    Score,
    classification_scores,
    describe_fit,
    interval_coverage,
    regression_scores,
)
from mercer.diagnostics.fits.results import Result
from mercer.engines import Report
from mercer.errors import DataError, ParameterError
from mercer.model_files import describe_model
from mercer.workflows.fit import column_summaries, environment_summary, matched_labels, noted_warnings
from mercer.workflows.pages import check_page, write_page
from mercer.workflows.predict import Unseen, model_rows, read_model
from mercer.workflows.resources import PeakMemory, Steps, available_bytes
from mercer.workflows.sources import Task, missing_targets, opened, read_sample

__all__ = ["EvaluateResult", "ExportedModel", "evaluate_file", "export_file", "report_file"]

Array = np.ndarray
COVERAGE = 0.9
# Share of the memory that is available for the test rows of a report.
TABLE_SHARE = 0.25
# Number of rows that are predicted at a time, and number of rows on which an export is compared.
CHUNK_ROWS, EXPORT_ROWS = 20_000, 1000


@dataclass(frozen=True)
class EvaluateResult(Result):
    """Scores of a model on a table.

    Attributes
    ----------
    source, model, target : str
        The table, the model file, and the column that was predicted.
    task : {"regression", "classification"}
        What the model predicts.
    n_rows : int
        Number of rows with a target.
    scores : tuple of Score
        Scores with intervals, the headline score first.
    coverage : float or None
        Share of the targets within their intervals of 90 %; None for labels.
    seconds : float
        Time, including reading.
    peak_bytes : int
        Peak resident memory of the process.
    unseen : dict of str to int
        Number of cells per column whose category did not occur in training.
    """

    source: str
    model: str
    target: str
    task: Task
    n_rows: int
    scores: tuple[Score, ...]
    coverage: float | None
    seconds: float
    peak_bytes: int
    unseen: dict[str, int]


@dataclass(frozen=True)
class ExportedModel(Result):
    """An exported model.

    Attributes
    ----------
    model, to, path : str
        The model file, the format, and the file that was written.
    outputs : tuple of str
        What the exported model computes.
    size : int
        Size of the files in bytes.
    largest_difference, relative_difference : float or None
        Largest difference between results of the model and of the exported file, and the same divided by the largest
        result; None if they were not compared.
    n_labels_different, n_rows_checked : int
        Number of rows with another label, and of rows that were compared.
    rows_from : str or None
        Where these rows are from: "given", "model" or "random".
    skipped : str or None
        Why they were not compared; None if they were.
    """

    model: str
    to: str
    path: str
    outputs: tuple[str, ...]
    size: int
    largest_difference: float | None
    relative_difference: float | None
    n_labels_different: int
    n_rows_checked: int
    rows_from: str | None
    skipped: str | None


def _target_of(metadata: dict[str, Any], target: str | None, model: Any) -> str:
    target = target or metadata.get("fit", {}).get("target")
    if target is None:
        msg = f"The model file does not name the target of its {type(model).__name__}. Pass target."
        raise ParameterError(msg)
    return str(target)


def _truth(given: Array, model: Any, target: str) -> Array:
    """Return targets in the form that a model predicts."""
    if hasattr(model, "classes_"):
        return matched_labels(given, np.asarray(model.classes_), "classification", target)
    return matched_labels(given, np.empty(0), "regression", target)


def evaluate_file(
    model: str | os.PathLike[str],
    source: Any,
    target: str | None = None,
    *,
    header: bool | None = None,
    n_jobs: int | None = None,
    progress: bool | Report = False,
) -> EvaluateResult:
    """Score the predictions of a model for a table, block by block, with intervals over its rows.

    Parameters
    ----------
    model : path-like
        A model file.
    source : path, glob pattern, folder, list of these, data frame or "-"
        The table with the target; "-" means CSV on standard input.
    target : str or None, default=None
        The column of the targets; None means the one that `fit_file` stored.
    header : bool or None, default=None
        Whether the first line of CSV files contains the names of the columns; None infers this from the first lines.
    n_jobs : int or None, default=None
        Number of threads; None means all cores.
    progress : bool or callable, default=False
        True shows the progress on standard error. A callable receives a `Progress`.

    Returns
    -------
    EvaluateResult

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np, pandas as pd
    >>> from mercer.workflows import evaluate_file, fit_file
    >>> rows = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 2)), columns=["a", "b"])
    >>> rows["y"] = rows.a + rows.b
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = fit_file(rows[:150], "y", output=f"{folder}/sum.mercer", compare=False)
    ...     result = evaluate_file(f"{folder}/sum.mercer", rows[150:])
    >>> result.n_rows, result.scores[0].name, result.scores[0].value > 0.99
    (50, 'R2', True)
    """
    start = time.perf_counter()
    fitted, metadata = read_model(model)
    if n_jobs is not None and "n_jobs" in fitted.get_params(deep=False):
        fitted.set_params(n_jobs=n_jobs)
    target = _target_of(metadata, target, fitted)
    is_classifier = hasattr(fitted, "classes_")
    with_proba, with_interval = hasattr(fitted, "predict_proba"), hasattr(fitted, "predict_interval")
    unseen = Unseen(fitted)
    truth: list[Array] = []
    predicted: list[Array] = []
    ends: list[Array] = []
    with (
        Steps("mercer evaluate", progress) as steps,
        opened(source, target=target, header=header) as table,
        steps.step("rows"),
    ):
        steps.expect({"rows": 1.0})
        for block, y in table:
            known = np.flatnonzero(~missing_targets(y))
            for at in range(0, len(known), CHUNK_ROWS):
                some = known[at : at + CHUNK_ROWS]
                rows = model_rows(fitted, block.take(some))
                truth.append(_truth(y[some], fitted, target))
                with unseen.counting():
                    predicted.append(fitted.predict_proba(rows) if with_proba else fitted.predict(rows))
                    if with_interval and not is_classifier:
                        ends.append(fitted.predict_interval(rows, COVERAGE))
                done = sum(map(len, truth))
                steps.advance(done / table.n_rows if table.n_rows else None, f"{done:,} rows")
    if not truth:
        msg = f"{source}: all cells of the target {target!r} are missing. Is it the right column?"
        raise DataError(msg)
    y, values = np.concatenate(truth), np.concatenate(predicted)
    coverage = None
    if not is_classifier:
        scores = regression_scores(y, values)
        if ends:
            found = np.concatenate(ends)
            coverage = interval_coverage(y, found[:, 0], found[:, 1])
    elif with_proba:
        scores = classification_scores(y, values, fitted.classes_)
    else:
        from mercer.diagnostics.fits import score_interval

        scores = (score_interval("accuracy", y, values),)
    PeakMemory.note()
    return EvaluateResult(
        source=str(source) if isinstance(source, str | os.PathLike) else "a table in memory",
        model=str(model),
        target=target,
        task="classification" if is_classifier else "regression",
        n_rows=len(y),
        scores=scores,
        coverage=coverage,
        seconds=time.perf_counter() - start,
        peak_bytes=PeakMemory.overall,
        unseen=dict(unseen.counts),
    )


def report_file(
    model: str | os.PathLike[str],
    source: Any,
    output: str | os.PathLike[str] = "report.html",
    target: str | None = None,
    *,
    header: bool | None = None,
    time_limit: float | None = None,
    memory_limit: int | None = None,
    n_jobs: int | None = None,
    random_state: int = 0,
    command: str | None = None,
    progress: bool | Report = False,
) -> FitResult:
    """Measure a model on a table of test rows, and write a page about it.

    The page has no learning curve and no other models, because these need the training rows.

    Parameters
    ----------
    model : path-like
        A model file.
    source : path, glob pattern, folder, list of these, data frame or "-"
        The table with the target; "-" means CSV on standard input. If it does not fit into a quarter of the memory that
        is available, a random sample of its rows is used.
    output : path-like, default="report.html"
        The HTML page to write.
    target : str or None, default=None
        The column of the targets; None means the one that `fit_file` stored.
    header : bool or None, default=None
        Whether the first line of CSV files contains the names of the columns; None infers this from the first lines.
    time_limit : float or None, default=None
        Number of seconds for the importances of the columns.
    memory_limit : int or None, default=None
        Number of bytes of resident memory that the process should not exceed.
    n_jobs : int or None, default=None
        Number of threads; None means all cores.
    random_state : int, default=0
        Seed of permutations and intervals.
    command : str or None, default=None
        How the function was called, for the page.
    progress : bool or callable, default=False
        True shows the progress on standard error. A callable receives a `Progress`.

    Returns
    -------
    FitResult

    See Also
    --------
    evaluate_file : The scores alone, for tables of any size.
    """
    check_page()
    start = time.perf_counter()
    fitted, metadata = read_model(model)
    if n_jobs is not None and "n_jobs" in fitted.get_params(deep=False):
        fitted.set_params(n_jobs=n_jobs)
    target = _target_of(metadata, target, fitted)
    about = metadata.get("fit", {})
    with Steps("mercer report", progress) as steps:
        steps.expect({"read": 1.0, "measure": 10.0, "write": 0.5})
        with noted_warnings() as caught:
            with steps.step("read"), opened(source, target=target, header=header) as table:
                most = TABLE_SHARE * available_bytes(memory_limit)
                test = read_sample(table, most_bytes=most, seed=random_state, advance=steps.advance)
            assert test.y is not None
            y = _truth(test.y, fitted, target)
            rows = model_rows(fitted, test.table)
            with steps.step("measure"):
                described = describe_fit(
                    fitted,
                    None,
                    None,
                    rows,
                    y,
                    n_train=about.get("n_train"),
                    time_limit=time_limit or 20.0,
                    random_state=random_state,
                    progress=partial(_stage, steps),
                )
        ours = Contender(
            "mercer",
            described.scores,
            float(about.get("fit_seconds", float("nan"))),
            described.predict_seconds,
            None,
            f"from {Path(model).name}",
        )
        name = str(source) if isinstance(source, str | os.PathLike) else "a table in memory"
        split = f"{len(y):,} test rows of {name}."
        if not test.is_complete:
            split += f" They are a random sample of its {test.n_rows:,} rows."
        n_train = int(about.get("n_train", 0))
        PeakMemory.note()
        result = FitResult(
            task="classification" if hasattr(fitted, "classes_") else "regression",
            source=name,
            target=target,
            n_rows=test.n_rows,
            n_train=n_train,
            n_test=len(y),
            n_columns=test.table.num_columns,
            split=split,
            contenders=(ours,),
            columns=column_summaries(fitted, test.table),
            timings=steps.seconds | {"total": time.perf_counter() - start},
            peak_bytes=PeakMemory.overall,
            command=command or f"mercer.workflows.report_file({str(model)!r}, {name!r})",
            random_state=random_state,
            version=mercer.__version__,
            environment=environment_summary(),
            warnings=(*caught, *described.notes),
            model_path=str(Path(model).absolute()),
            **described.fields(),
        )
        with steps.step("write"):
            write_page(result, output)
    return result


def _stage(steps: Steps, name: str) -> None:
    stages = ("predict test rows", "measure the kernel error", "shuffle columns")
    steps.advance(stages.index(name) / len(stages) if name in stages else None, name)


def export_file(
    model: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    to: Literal["onnx", "python"] = "onnx",
    rows: Any = None,
) -> ExportedModel:
    """Export a model, and compare predictions of the exported file with those of the model.

    Parameters
    ----------
    model : path-like
        A model file.
    output : path-like or None, default=None
        The file to write; None means the name of the model file with another suffix.
    to : {"onnx", "python"}, default="onnx"
        An ONNX graph, or a Python file that needs NumPy only, with its arrays beside it.
    rows : path, glob pattern, folder, data frame or None, default=None
        A table of rows on which the predictions are compared, at most 1,000. None means rows that are stored in the
        model.

    Returns
    -------
    ExportedModel
    """
    if to not in ("onnx", "python"):
        msg = f"to must be 'onnx' or 'python', got {to!r}."
        raise ParameterError(msg)
    from mercer.export import export_model

    describe_model(model)
    fitted, metadata = read_model(model, method="get_params")
    target = Path(output) if output is not None else Path(model).with_suffix(".onnx" if to == "onnx" else ".py")
    some = None
    if rows is not None:
        with opened(rows) as table:
            (block,) = next(iter(table))
            wanted = metadata.get("fit", {}).get("target")
            if wanted in block.column_names:
                block = block.drop_columns([wanted])
            some = model_rows(fitted, block.slice(0, EXPORT_ROWS))
    found = export_model(fitted, target, to=to, rows=some)
    return ExportedModel(
        model=str(model),
        to=to,
        path=str(found.path),
        outputs=tuple(found.outputs),
        size=int(found.size),
        largest_difference=found.largest_difference,
        relative_difference=found.relative_difference,
        n_labels_different=int(found.n_labels_different),
        n_rows_checked=int(found.n_rows_checked),
        rows_from=found.rows_from,
        skipped=found.skipped,
    )
