"""Other models on the same rows: a linear model, and scikit-learn's gradient boosting of trees."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
from sklearn.preprocessing import StandardScaler

from mercer.io.source import load_pyarrow
from mercer.workflows.resources import PeakMemory
from mercer.workflows.sources import Sample, Task

__all__ = ["BOOSTING", "LINEAR", "Baseline", "boosting_seconds", "linear_seconds", "measure_baseline"]

Array = np.ndarray
LINEAR, BOOSTING = "linear model", "HistGradientBoosting"
# Largest number of entries for which the penalty of the ridge regression is chosen by leave-one-out.
CHOSEN_ENTRIES = 20_000_000
# Categories that trees tell apart; scikit-learn allows at most 255.
MOST_CATEGORIES = 250
# Bytes of an entry of the rows during a fit: numbers, a copy and bins.
BYTES_PER_ENTRY = {LINEAR: 8 * 3.5, BOOSTING: 8 * 2.5}
# Entries per second on one core, by which a time limit is turned into a number of rows.
BOOSTING_SPEED, LINEAR_SPEED, LOGISTIC_SPEED = 5e7, 1e7, 2e8
# Baselines have at most this number of rows.
MOST_ROWS = 2_000_000
ITERATIONS = 200


@dataclass(frozen=True)
class Baseline:
    """A fitted baseline: a function from Arrow tables to predictions or probabilities, and what it cost."""

    name: str
    predict: Callable[[Any], Array]
    classes: Array | None
    fit_seconds: float
    peak_bytes: int | None
    note: str


def linear_seconds(n_rows: int, width: int, n_labels: int) -> float:
    """Return about how many seconds the fit of the linear model takes."""
    if not n_labels:
        return n_rows * width / LINEAR_SPEED
    return ITERATIONS * n_rows * width * (n_labels if n_labels > 2 else 1) / LOGISTIC_SPEED


def boosting_seconds(n_rows: int, width: int, n_labels: int) -> float:
    """Return about how many seconds the fit of the trees takes."""
    trees = 100 * (n_labels if n_labels > 2 else 1)
    return 0.3 + trees * (n_rows * width / BOOSTING_SPEED / 4 + 0.003)


def measure_baseline(
    name: str,
    train: Sample,
    task: Task,
    preprocessor: Any,
    *,
    seed: int,
    seconds: float,
    most_bytes: float,
) -> Baseline:
    """Fit a baseline to the training rows, or to as many as a time and a memory allow.

    Parameters
    ----------
    name : {"linear model", "HistGradientBoosting"}
        The baseline. The linear model is fitted to the columns of the preprocessor, and the trees to the columns of the
        table: numbers with missing cells, and categories.
    train : Sample
        The rows.
    task : {"regression", "classification"}
        What is learned.
    preprocessor : TablePreprocessor or None
        The fitted preprocessor of the model; None if all columns are numbers.
    seed : int
        Seed.
    seconds, most_bytes : float
        Limits of time and memory.
    """
    assert train.y is not None
    n_labels = len(np.unique(train.y)) if task == "classification" else 0
    n, note = len(train.y), ""
    width = train.table.num_columns
    if name == LINEAR:
        width = preprocessed(preprocessor, train.table.slice(0, 1)).shape[1]
    expected = (linear_seconds if name == LINEAR else boosting_seconds)(n, width, n_labels)
    by_time, by_memory = seconds / expected, most_bytes / (BYTES_PER_ENTRY[name] * n * width)
    share = min(1.0, by_time, by_memory, MOST_ROWS / n)
    if share < 1:
        rows = max(100, int(share * n))
        if rows < n:
            chosen = np.sort(np.random.default_rng([seed, 0xBA5E]).permutation(n)[:rows])
            train = train.take(chosen)
            why = {by_time: ", because of the time limit", by_memory: ", because of the memory limit"}.get(share, "")
            note = f"fitted to a sample of {rows:,} rows{why}"
    start = time.perf_counter()
    with PeakMemory() as peak, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = _fit_linear if name == LINEAR else _fit_boosting
        predict, classes, remark = fit(train, task, preprocessor, seed)
    note = "; ".join(filter(None, [note, remark]))
    return Baseline(name, predict, classes, time.perf_counter() - start, peak.added, note)


def preprocessed(preprocessor: Any, table: Any) -> Any:
    """Return the columns of a preprocessor, or the columns of a table of numbers."""
    if preprocessor is not None:
        return preprocessor.transform(table)
    pa = load_pyarrow("pyarrow", "A table")
    return np.column_stack([column.cast(pa.float64()).to_numpy() for column in table.columns])


def _fit_linear(train: Sample, task: Task, preprocessor: Any, seed: int) -> tuple[Any, Array | None, str]:
    # The preprocessor of a model leaves the scaling of columns to the model.
    scaler = StandardScaler(with_mean=False)
    X = scaler.fit_transform(preprocessed(preprocessor, train.table))

    def rows(table: Any) -> Any:
        return scaler.transform(preprocessed(preprocessor, table))

    if task == "regression":
        some = X.shape[0] * X.shape[1] <= CHOSEN_ENTRIES and not hasattr(X, "tocsr")
        model = RidgeCV(alphas=np.logspace(-3, 3, 7)) if some else Ridge(alpha=1.0)
        model.fit(X, train.y)
        return lambda table: model.predict(rows(table)), None, "ridge regression"
    model = LogisticRegression(max_iter=ITERATIONS, random_state=seed)
    model.fit(X, train.y)
    remark = "logistic regression"
    if np.max(model.n_iter_) >= model.max_iter:
        remark += f" after {model.max_iter} iterations"
    return lambda table: model.predict_proba(rows(table)), model.classes_, remark


def _fit_boosting(train: Sample, task: Task, preprocessor: Any, seed: int) -> tuple[Any, Array | None, str]:  # noqa: ARG001
    encoder = TreeColumns.of(train.table)
    X = encoder(train.table)
    of_task = HistGradientBoostingRegressor if task == "regression" else HistGradientBoostingClassifier
    model = of_task(categorical_features=encoder.is_category, random_state=seed)
    model.fit(X, train.y)
    if task == "regression":
        return lambda table: model.predict(encoder(table)), None, ""
    return lambda table: model.predict_proba(encoder(table)), model.classes_, ""


@dataclass(frozen=True)
class TreeColumns:
    """Columns of a table as trees take them: numbers, codes of categories, and NaN for missing cells."""

    names: tuple[str, ...]
    categories: dict[str, Any]  # Arrow arrays of the categories that are distinguished

    @classmethod
    def of(cls, table: Any) -> TreeColumns:
        """Return the encoder for a table of training rows, which has the most frequent categories."""
        pa = load_pyarrow("pyarrow", "A table")
        pc = load_pyarrow("pyarrow.compute", "A table")
        categories = {}
        for name, column in zip(table.column_names, table.columns, strict=True):
            if pa.types.is_dictionary(column.type) or _is_text(pa, column.type):
                counts = pc.value_counts(_plain(pa, column).drop_null())
                order = pc.sort_indices(counts.field("counts"), sort_keys=[("", "descending")])[:MOST_CATEGORIES]
                categories[name] = counts.field("values").take(order)
        return cls(tuple(table.column_names), categories)

    @property
    def is_category(self) -> Array | None:
        """Which columns are categories, or None if there are none."""
        which = np.array([name in self.categories for name in self.names])
        return which if which.any() else None

    def __call__(self, table: Any) -> Array:
        """Return the columns of a table as an array."""
        pa = load_pyarrow("pyarrow", "A table")
        pc = load_pyarrow("pyarrow.compute", "A table")
        out = np.empty((table.num_rows, len(self.names)), order="F")
        for j, name in enumerate(self.names):
            column = table.column(name)
            if name in self.categories:
                column = pc.index_in(_plain(pa, column), self.categories[name])
            elif pa.types.is_temporal(column.type):
                width = 32 if column.type.bit_width == 32 else 64
                column = column.cast(pa.int32() if width == 32 else pa.int64())
            elif pa.types.is_null(column.type):
                out[:, j] = np.nan
                continue
            values = column.cast(pa.float64(), safe=False).to_numpy()
            out[:, j] = np.where(np.isfinite(values), values, np.nan)
        return out


def _plain(pa: Any, column: Any) -> Any:
    return column.cast(pa.string()) if not pa.types.is_string(column.type) else column


def _is_text(pa: Any, kind: Any) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)
