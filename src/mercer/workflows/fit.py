"""`fit_file`: from a table in a file to a model file, with everything that was measured about the model."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

import mercer
from mercer.automatic import KernelClassifier, KernelRegressor
from mercer.diagnostics.environment import describe_environment
from mercer.diagnostics.fits import (
    ColumnSummary,
    Contender,
    FitResult,
    Score,
    classification_scores,
    describe_fit,
    regression_scores,
    score_difference,
)
from mercer.engines import Report, on_dask
from mercer.engines.base import count_threads
from mercer.engines.dask.client import connected
from mercer.errors import DataError, ParameterError
from mercer.io.source import load_pyarrow
from mercer.io.tables import open_table
from mercer.learners import (
    GaussianProcessRegressor,
    KernelLogisticRegression,
    KernelRidge,
    KernelRidgeClassifier,
    KernelSVC,
)
from mercer.model_files import save_model
from mercer.tables import TablePreprocessor
from mercer.workflows.baselines import BOOSTING, LINEAR, boosting_seconds, linear_seconds, measure_baseline
from mercer.workflows.kernels import map_for
from mercer.workflows.pages import check_page, write_page
from mercer.workflows.predict import preprocessor_of
from mercer.workflows.resources import (
    Deadline,
    PeakMemory,
    Steps,
    available_bytes,
    processor_share,
    release_memory,
)
from mercer.workflows.sources import (
    Sample,
    Task,
    need_target,
    opened,
    read_sample,
    rows_without,
    split_rows,
    task_of,
)

__all__ = ["ESTIMATORS", "fit_file"]

Array = np.ndarray
#: Models by the task that they are for; "auto" needs no other argument.
ESTIMATORS: dict[str, dict[Task, type]] = {
    "auto": {"regression": KernelRegressor, "classification": KernelClassifier},
    "ridge": {"regression": KernelRidge, "classification": KernelRidgeClassifier},
    "gp": {"regression": GaussianProcessRegressor},
    "logistic": {"classification": KernelLogisticRegression},
    "svc": {"classification": KernelSVC},
}
# Share of the memory that is available for the table, for rows that the model stores, and for a baseline.
TABLE_SHARE, MODEL_SHARE, BASELINE_SHARE = 0.25, 0.12, 0.35
# Shares of a time limit for the fit, for each baseline, and for what is measured after the fit.
FIT_SHARE, BASELINE_TIME, MEASURE_SHARE = 0.55, 0.08, 0.25
# Number of test rows per second of a time limit.
TEST_ROWS_PER_SECOND = 300
# Without a time limit, a fit that would take longer than this has this one, in seconds.
LONGEST_FIT = 600.0
# About how many rows one thread fits per second, besides the search, and how many passes over the rows this takes.
ROW_SPEED, PASSES = 1500.0, 8
# The same for learners on a single map.
LEARNER_SPEED = 20_000.0
# Seconds of a search without a time limit, for the progress.
SEARCH_SECONDS = 20.0
# Share of a time limit for the fits after the search, and the least number of rows that they have.
MEMBER_SHARE, LEAST_FITTED = 0.4, 2000
# Bytes of a number of a column with copies of it, and their largest share of the memory.
NUMBER_BYTES, NUMBERS_SHARE = 8 * 4, 0.3
# Memory of the blocks of features that a thread processes.
THREAD_BYTES = 4 * 10**8
# Largest size of a table in memory.
TABLE_BYTES = 2**30


@dataclass(frozen=True)
class Rows:
    """Rows for training and testing."""

    train: Sample
    test: Sample
    y_train: Array
    y_test: Array
    split: str
    stream: Any  # the training rows in the file, if they do not fit into memory
    n_train: int


def fit_file(
    source: Any,
    target: str | None = None,
    *,
    test: Any = None,
    output: str | os.PathLike[str] | None = None,
    report: str | os.PathLike[str] | None = None,
    task: Task | None = None,
    estimator: Literal["auto", "ridge", "gp", "logistic", "svc"] = "auto",
    parameters: dict[str, Any] | None = None,
    drop: Sequence[str] = (),
    header: bool | None = None,
    test_size: float | None = None,
    refit: bool = False,
    compare: bool = True,
    time_limit: float | None = None,
    memory_limit: int | None = None,
    n_jobs: int | None = None,
    random_state: int = 0,
    scheduler: str | None = None,
    command: str | None = None,
    progress: bool | Report = False,
    announce: Callable[[str], None] | None = None,
) -> FitResult:
    r"""Fit a model to a table in a file, and measure it on rows that are held out.

    The columns may be numbers, categories, dates and booleans, with missing cells. The model is compared with a linear
    model and with scikit-learn's gradient boosting on the same rows.

    Parameters
    ----------
    source : path, glob pattern, folder, list of these, data frame or "-"
        The table: csv, parquet or arrow files; "-" means CSV on standard input.
    target : str
        The column that is predicted. Rows in which it is missing are ignored.
    test : path or data frame, default=None
        A table of test rows. None holds out a part of the rows of `source`; see `test_size`.
    output : path-like or None, default=None
        The model file to write, by convention with the suffix ``.mercer``; None writes none.
    report : path-like or None, default=None
        The HTML page to write; None writes none.
    task : {"regression", "classification"} or None, default=None
        What is learned. None means classification for strings, for booleans and for at most 20 different integers, and
        regression for all other numbers.
    estimator : {"auto", "ridge", "gp", "logistic", "svc"}, default="auto"
        The model: `KernelRegressor` or `KernelClassifier`, which choose everything by themselves; or kernel ridge
        regression, a Gaussian process, kernel logistic regression or a support vector machine on a feature map.
    parameters : dict, default=None
        Parameters of an estimator other than "auto": `kernel`, `lengthscale` and `n_components` of the feature map, and
        `alpha` or `C` of the learner.
    drop : sequence of str, default=()
        Columns that are not used.
    header : bool or None, default=None
        Whether the first line of CSV files contains the names of the columns; None infers this from the first lines.
    test_size : float or None, default=None
        Share of the rows that are held out, or their number if it is at least 1; None means 20 %, at most 20,000 rows.
        They are drawn at random, with equal shares of each label.
    refit : bool, default=False
        Whether the model that is saved is fitted again to all rows. By default it is the one that was measured.
    compare : bool, default=True
        Whether to fit the other models, and to measure the learning curve and the importances of the columns.
    time_limit : float or None, default=None
        Number of seconds for all of it. The fit uses a little more than half of it. None means what the search needs,
        but at most 10 minutes for the fit.
    memory_limit : int or None, default=None
        Number of bytes of resident memory that the process should not exceed. A table that does not fit is read from
        its file several times; models that need it in memory are fitted to a sample. None means half of the memory that
        is available.
    n_jobs : int or None, default=None
        Number of threads; None means all cores.
    random_state : int, default=0
        Seed.
    scheduler : str or None, default=None
        Address of a Dask scheduler, such as ``"tcp://10.0.0.1:8786"``, whose workers read the rows and sum over them.
    command : str or None, default=None
        How the function was called, for the report; None means the call itself.
    progress : bool or callable, default=False
        True shows the progress on standard error. A callable receives a `Progress`.
    announce : callable or None, default=None
        Receives lines about the table, the task and the split before the fit starts.

    Returns
    -------
    FitResult

    See Also
    --------
    predict_file : Predict a table with the model that was saved.
    mercer.KernelRegressor, mercer.KernelClassifier : The models.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from mercer.workflows import fit_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = Path(folder) / "table.csv"
    ...     lines = [f"{i % 7},{'ab'[i % 2]},{'high' if i % 7 + i % 2 > 3 else 'low'}" for i in range(80)]
    ...     _ = table.write_text("\n".join(["x,kind,y", *lines]))
    ...     result = fit_file(table, target="y", output=f"{folder}/model.mercer", compare=False)
    >>> result.task, result.n_train, result.n_test, result.classes
    ('classification', 64, 16, ('high', 'low'))
    """
    name = _short(source)
    if task not in (None, "regression", "classification"):
        msg = f"task must be 'regression', 'classification' or None, got {task!r}."
        raise ParameterError(msg)
    target = need_target(source, target, header)
    if report is not None:
        check_page()
    PeakMemory.note()
    deadline = Deadline(time_limit)
    with Steps("mercer fit", progress) as steps:
        steps.expect({"read": 5.0, "fit": 60.0, LINEAR: 2.0, BOOSTING: 5.0, "measure": 25.0, "write": 1.0})
        with noted_warnings() as caught, opened(source, target=target, drop=drop, header=header) as table:
            with steps.step("read"):
                rows, task, why, full = _read(
                    table, test, target, task, test_size, time_limit, memory_limit, random_state, steps, drop, header
                )
            if announce is not None:
                for line in _found(name, rows, full, why):
                    announce(line)
            model, fit_seconds, peak, fitted = _fit(
                rows, task, estimator, parameters, n_jobs, random_state, memory_limit, scheduler, deadline, steps
            )
            baselines: list[tuple[Contender, Array]] = []
            if compare:
                baselines = _baselines(model, rows, task, random_state, memory_limit, deadline, steps)
            with steps.step("measure"):
                described = describe_fit(
                    model,
                    rows.train.table if compare else None,
                    rows.y_train if compare else None,
                    rows.test.table,
                    rows.y_test,
                    n_train=fitted.n_train,
                    fit_seconds=fit_seconds,
                    time_limit=_measure_seconds(deadline, fit_seconds, compare),
                    random_state=random_state,
                    progress=partial(_stage, steps),
                )
            if refit:
                with steps.step("refit") as inner:
                    model = _refitted(model, rows, full, task, inner)
        ours = Contender("mercer", described.scores, fit_seconds, described.predict_seconds, peak, "")
        compared = partial(score_difference, described.headline, rows.y_test, described.predictions)
        contenders = [replace(one, difference=compared(other, random_state=random_state)) for one, other in baselines]
        result = FitResult(
            task=task,
            source=name,
            target=target,
            n_rows=full.n_rows,
            n_train=fitted.n_train,
            n_test=len(rows.y_test),
            n_columns=rows.train.table.num_columns,
            split=fitted.split,
            contenders=(ours, *contenders),
            columns=column_summaries(model, rows.train.table),
            timings=steps.seconds | {f"measure: {stage}": value for stage, value in described.timings.items()},
            peak_bytes=0,
            command=command or f"mercer.workflows.fit_file({name!r}, {target!r})",
            random_state=random_state,
            version=mercer.__version__,
            environment=environment_summary(),
            warnings=(*caught, *(described.notes if compare else ())),
            **described.fields(),
        )
        if full.n_missing:
            note = f"{full.n_missing:,} rows without a value of {target!r} were ignored."
            result = replace(result, warnings=(note, *result.warnings))
        with steps.step("write"):
            if output is not None:
                saved = _metadata(result, why, refit)
                result = replace(result, model_path=str(save_model(_plain(model, n_jobs), output, metadata=saved)))
            PeakMemory.note()
            result = replace(
                result, peak_bytes=PeakMemory.overall, timings=result.timings | {"total": deadline.elapsed}
            )
            if memory_limit is not None and result.peak_bytes > memory_limit:
                excess = f"The peak memory, {result.peak_bytes:,} bytes, exceeded the limit of {memory_limit:,} bytes."
                result = replace(result, warnings=(*result.warnings, excess))
            if report is not None:
                write_page(result, report)
    return result


# ---- reading ------------------------------------------------------------------------------------


def _read(
    table: Any,
    test: Any,
    target: str | None,
    task: Task | None,
    test_size: float | None,
    time_limit: float | None,
    memory_limit: int | None,
    seed: int,
    steps: Steps,
    drop: Sequence[str],
    header: bool | None,
) -> tuple[Rows, Task, str, Sample]:
    """Read the rows, find the task, and divide the rows into training and test rows."""
    if not table.feature_names:
        msg = f"The table has no column beside the target {target!r}. Add columns to predict it from."
        raise DataError(msg)
    most = min(TABLE_BYTES, TABLE_SHARE * available_bytes(memory_limit))
    full = read_sample(table, most_bytes=most, seed=seed, advance=steps.advance)
    assert full.y is not None
    task, y, why = task_of(full.y, task, str(target))
    stream, n_train = None, 0
    if test is not None:
        if test_size is not None:
            msg = "test_size is the number of rows that are held out, but test rows were given. Pass one of both."
            raise ParameterError(msg)
        with opened(test, target=target, drop=drop, header=header) as other:
            tested = read_sample(other, most_bytes=most / 2, seed=seed)
        y_test = matched_labels(tested.y, y, task, str(target))
        split = f"{len(y_test):,} test rows of {_short(test)}."
        if not full.is_complete:
            stream, n_train = rows_without(table, full, np.empty(0, dtype=np.int64)), full.n_rows
        rows = Rows(full, tested, y, y_test, split, stream, n_train or len(y))
    else:
        least = None if time_limit is None else max(500, int(TEST_ROWS_PER_SECOND * time_limit))
        train, held, split = split_rows(y, task, test_size, seed, most=least, of=full.n_rows)
        if not full.is_complete:
            # The test rows are among those in memory; all others are read from the file.
            dropped = np.sort(full.index[held])
            stream, n_train = rows_without(table, full, dropped), full.n_rows - len(held)
        rows = Rows(full.take(train), full.take(held), y[train], y[held], split, stream, n_train or len(train))
    return rows, task, why, full


def matched_labels(given: Array | None, known: Array, task: Task, target: str) -> Array:
    """Return the targets of a test table in the form that the targets of the training table have."""
    assert given is not None
    if task == "regression":
        if given.dtype.kind in "OU":
            msg = f"The column {target!r} of the test table has strings, but numbers are predicted."
            raise DataError(msg)
        return given.astype(np.float64)
    if known.dtype.kind == "U":
        return given.astype(str)
    if given.dtype.kind in "OU":
        msg = f"The column {target!r} of the test table has strings, but the labels of the training table are numbers."
        raise DataError(msg)
    return given.astype(known.dtype)


def _short(source: Any) -> str:
    if isinstance(source, str) and source == "-":
        return "standard input"
    return str(source) if isinstance(source, str | os.PathLike) else "a table in memory"


def _found(name: str, rows: Rows, full: Sample, why: str) -> list[str]:
    """Return what was found in the table, as lines of text."""
    kinds: dict[str, int] = {}
    for field in rows.train.table.schema:
        kind = _kind(str(field.type))
        kinds[kind] = kinds.get(kind, 0) + 1
    columns = ", ".join(f"{count} of {kind}" for kind, count in kinds.items())
    # Rows without a target are in the warnings of the result.
    return [
        f"Table: {name}, {full.n_rows:,} rows, {sum(kinds.values())} columns ({columns}).",
        f"Task:  {why} (--task overrides).",
        f"Test:  {rows.split}",
    ]


def _kind(text: str) -> str:
    """Return the kind of a column by the name of its Arrow type."""
    if text.startswith(("timestamp", "date", "time", "duration")):
        return "dates"
    if text in ("string", "large_string", "string_view") or text.startswith("dictionary"):
        return "strings"
    return {"bool": "booleans", "null": "missing cells"}.get(text, "numbers")


# ---- fitting ------------------------------------------------------------------------------------


def _fit(
    rows: Rows,
    task: Task,
    estimator: str,
    parameters: dict[str, Any] | None,
    n_jobs: int | None,
    seed: int,
    memory_limit: int | None,
    scheduler: str | None,
    deadline: Deadline,
    steps: Steps,
) -> tuple[Any, float, int | None, Rows]:
    """Return the fitted model, the seconds of the fit, the memory that it took, and the rows that it was fitted to."""
    n, width = rows.n_train, rows.train.table.num_columns
    n_labels = len(np.unique(rows.y_train)) if task == "classification" else 0
    threads = count_threads(n_jobs)
    if memory_limit is not None:
        release_memory()
        threads = max(1, min(threads, available_bytes(memory_limit) // THREAD_BYTES))
        n_jobs = threads
    # Without a limit, the rows that are fitted must not depend on what else the machine does.
    deadline.share = 1.0 if deadline.seconds is None else processor_share(threads)
    rate = threads * deadline.share * (ROW_SPEED if estimator == "auto" else LEARNER_SPEED)
    limit = None if deadline.seconds is None else max(1.0, FIT_SHARE * deadline.left)
    if limit is None and n / rate > LONGEST_FIT:
        limit = LONGEST_FIT
    expected = limit or SEARCH_SECONDS + n / rate
    steps.expect(
        {
            "fit": expected,
            LINEAR: min(linear_seconds(len(rows.y_train), 2 * width, n_labels), _baseline_seconds(deadline)),
            BOOSTING: min(boosting_seconds(len(rows.y_train), width, n_labels), _baseline_seconds(deadline)),
            "measure": _measure_seconds(deadline, expected, True),
            "write": 0.3,
        }
    )
    fitted = _training_rows(rows, estimator, limit, rate, memory_limit, seed, steps)
    with steps.step("fit", limit) as inner:
        model = _model(task, estimator, parameters, n_jobs, seed)
        if estimator == "auto":
            stored = None if memory_limit is None else int(MODEL_SHARE * available_bytes(memory_limit))
            model.set_params(time_limit=limit, memory_limit=stored, progress=inner or False)
        start = time.perf_counter()
        with PeakMemory() as peak:
            if scheduler is not None:
                _fit_on_dask(model, fitted, scheduler)
            elif fitted.stream is not None:
                model.fit(fitted.stream)
            else:
                model.fit(fitted.train.table, fitted.y_train)
        seconds = time.perf_counter() - start
    return model, seconds, peak.added, fitted


def _training_rows(
    rows: Rows,
    estimator: str,
    limit: float | None,
    rate: float,
    memory_limit: int | None,
    seed: int,
    steps: Steps,
) -> Rows:
    """Return the rows that the model is fitted to: all of them, or as many as the time and the memory allow."""
    stream, n = rows.stream, rows.n_train
    most = n if limit is None else int(max(LEAST_FITTED, MEMBER_SHARE * limit * rate))
    if limit is not None and PASSES * steps.seconds["read"] > MEMBER_SHARE * limit:
        stream = None  # reading the file so often would take longer than the fit may
    if estimator != "auto" or most < n:
        stream = None
    if stream is not None:
        return replace(rows, split=f"{rows.split} The training rows were read from the file in each pass.")
    in_memory = len(rows.y_train)
    most = min(most, in_memory)
    train, y = rows.train, rows.y_train
    if most < in_memory:
        chosen = np.sort(np.random.default_rng([seed, 0xF17]).permutation(in_memory)[:most])
        train, y = train.take(chosen), y[chosen]
    if most < n:
        warnings.warn(
            f"The model is fitted to a random sample of {most:,} of {n:,} training rows, because of the "
            f"{'time' if limit is not None else 'memory'} limit.",
            mercer.MercerWarning,
            stacklevel=2,
        )
    numbers = most * train.table.num_columns * NUMBER_BYTES
    if estimator == "auto" and numbers > NUMBERS_SHARE * available_bytes(memory_limit):
        stream = _as_source(train.table, y)  # encoded block by block, rather than at once
    return replace(rows, train=train, y_train=y, stream=stream, n_train=most)


def _as_source(table: Any, y: Array) -> Any:
    """Return a table in memory with its targets as a source, which is read block by block."""
    pa = load_pyarrow("pyarrow", "A table")
    name = "target"
    while name in table.column_names:
        name += "_"
    return open_table(table.append_column(name, pa.array(y)), target=name)


def _model(task: Task, estimator: str, parameters: dict[str, Any] | None, n_jobs: int | None, seed: int) -> Any:
    """Return the unfitted model."""
    if estimator not in ESTIMATORS:
        msg = f"estimator must be one of {', '.join(map(repr, ESTIMATORS))}, got {estimator!r}."
        raise ParameterError(msg)
    if task not in ESTIMATORS[estimator]:
        others = ", ".join(repr(name) for name, tasks in ESTIMATORS.items() if task in tasks)
        msg = f"estimator={estimator!r} is not for {task}. Use one of {others}."
        raise ParameterError(msg)
    of_task = ESTIMATORS[estimator][task]
    given = {name: value for name, value in (parameters or {}).items() if value is not None}
    if estimator == "auto":
        if given:
            msg = (
                f"estimator='auto' chooses {', '.join(given)} by itself. Pass estimator='ridge' to choose by hand, or "
                "omit them."
            )
            raise ParameterError(msg)
        return of_task(n_jobs=n_jobs, random_state=seed)
    feature_map = map_for(
        given.pop("kernel", None), given.pop("lengthscale", None), given.pop("n_components", None), seed, n_jobs
    )
    learner = of_task(feature_map, n_jobs=n_jobs, random_state=seed, **given)
    return Pipeline([("table", TablePreprocessor()), ("model", learner)])


def _fit_on_dask(model: Any, rows: Rows, scheduler: str) -> None:
    """Fit a model with the workers of a Dask cluster."""
    source = rows.stream or _as_source(rows.train.table, rows.y_train)
    with connected(scheduler):
        model.fit(on_dask(source))


def _refitted(model: Any, rows: Rows, full: Sample, task: Task, inner: Any) -> Any:  # noqa: ARG001
    """Return a copy of a model that is fitted to all rows in memory, test rows included."""
    pa = load_pyarrow("pyarrow", "A table")
    copy = clone(_plain(model))
    if "progress" in copy.get_params(deep=False):
        copy.set_params(progress=inner or False)
    joined = pa.concat_tables([rows.train.table, rows.test.table.select(rows.train.table.column_names)])
    return copy.fit(joined, np.concatenate([rows.y_train, rows.y_test]))


def _plain(model: Any, n_jobs: int | None = None) -> Any:
    """Return a model without its report, which cannot be stored, and without the limits of this process."""
    parameters = model.get_params(deep=False)
    if "progress" in parameters:
        model.set_params(progress=False)
    if "n_jobs" in parameters:
        model.set_params(n_jobs=n_jobs)
    return model


def _baselines(
    model: Any,
    rows: Rows,
    task: Task,
    seed: int,
    memory_limit: int | None,
    deadline: Deadline,
    steps: Steps,
) -> list[tuple[Contender, Array]]:
    """Fit the baselines; return the results of each, and its predicted targets or labels of the test rows."""
    contenders = []
    for name in (LINEAR, BOOSTING):
        with steps.step(name):
            seconds = _baseline_seconds(deadline)
            release_memory()
            most = BASELINE_SHARE * available_bytes(memory_limit)
            train = replace(rows.train, y=rows.y_train)
            baseline = measure_baseline(
                name, train, task, preprocessor_of(model), seed=seed, seconds=seconds, most_bytes=most
            )
            start = time.perf_counter()
            predicted = baseline.predict(rows.test.table)
            predict_seconds = time.perf_counter() - start
            scores = _scores(task, rows.y_test, predicted, baseline.classes, seed)
            note = baseline.note
            if len(rows.y_train) < rows.n_train and "sample" not in note:
                note = "; ".join(filter(None, [note, f"fitted to a sample of {len(rows.y_train):,} rows"]))
            one = Contender(name, scores, baseline.fit_seconds, predict_seconds, baseline.peak_bytes, note)
            labels = None if baseline.classes is None else np.asarray(baseline.classes)[predicted.argmax(axis=1)]
            contenders.append((one, predicted if labels is None else labels))
    return contenders


def _scores(task: Task, y: Array, predicted: Array, classes: Array | None, seed: int) -> tuple[Score, ...]:
    if task == "regression":
        return regression_scores(y, predicted, random_state=seed)
    return classification_scores(y, predicted, classes, random_state=seed)


# ---- what the result contains -------------------------------------------------------------------


def _baseline_seconds(deadline: Deadline) -> float:
    """Return the seconds for the fit of a baseline."""
    return max(1.0, BASELINE_TIME * deadline.share * (deadline.seconds or 2 * LONGEST_FIT))


def _measure_seconds(deadline: Deadline, fit_seconds: float, compare: bool) -> float:
    """Return the seconds for what is measured after the fit."""
    if not compare:
        return 1e-3
    if deadline.seconds is None:
        return max(10.0, 0.5 * fit_seconds)
    return max(1.0, min(MEASURE_SHARE * deadline.seconds, deadline.left - 1.0))


def _stage(steps: Steps, name: str) -> None:
    stages = ("predict test rows", "measure the kernel error", "shuffle columns", "learning curve")
    steps.advance(stages.index(name) / len(stages) if name in stages else None, name)


@contextmanager
def noted_warnings() -> Iterator[list[str]]:
    """Yield a list that receives the warnings of the package, each once; others are issued after the with statement."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always", category=mercer.MercerWarning)
        # Columns were selected by name already, and are passed as an array.
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        yield messages
    messages += dict.fromkeys(str(one.message) for one in noted if issubclass(one.category, mercer.MercerWarning))
    for one in noted:
        if not issubclass(one.category, mercer.MercerWarning):
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)


def column_summaries(model: Any, table: Any) -> tuple[ColumnSummary, ...]:
    """Return what the preprocessor of a model did with each column of a table."""
    preprocessor = preprocessor_of(model)
    if preprocessor is not None:
        return tuple(
            ColumnSummary(one.name, one.kind, int(one.missing), int(one.distinct), one.note)
            for one in preprocessor.columns_
        )
    return tuple(
        ColumnSummary(name, "number", column.null_count, None, "")
        for name, column in zip(table.column_names, table.columns, strict=True)
    )


def environment_summary() -> dict[str, str]:
    """Return the versions and the processor as text."""
    found = describe_environment()
    versions = {name: version or "not installed" for name, version in found.packages.items()}
    return {
        "Python": f"{found.python}, {found.system}",
        **versions,
        "kernels": found.instruction_set,
        "threads": f"{found.threads} of {found.cpu_count} processors",
    }


def _metadata(result: FitResult, why: str, refit: bool) -> dict[str, Any]:
    """Return what a model file stores beside the model, for `evaluate`, `report`, `export` and `describe_model`."""
    summary = {
        "task": result.task,
        "reason": why,
        "target": result.target,
        "source": Path(result.source).name,
        "n_rows": result.n_rows,
        "n_train": result.n_train + (result.n_test if refit else 0),
        "n_test": result.n_test,
        "split": result.split,
        "refit": refit,
        "random_state": result.random_state,
        "command": result.command,
        "scores": {one.name: [score.to_dict() for score in one.scores] for one in result.contenders},
        "fit_seconds": result.contenders[0].fit_seconds,
    }
    return {"fit": summary}
