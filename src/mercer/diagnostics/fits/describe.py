"""All that is measured of a fitted model on test rows, within a time limit."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mercer.diagnostics.fits.calibration import confusion_counts, interval_coverage, reliability
from mercer.diagnostics.fits.curve import learning_curve
from mercer.diagnostics.fits.importances import permutation_importances
from mercer.diagnostics.fits.maps import audit_of_best
from mercer.diagnostics.fits.results import ColumnImportance, CurvePoint, MapAudit, ReliabilityBin, Score
from mercer.diagnostics.fits.scores import classification_scores, regression_scores, score_interval
from mercer.diagnostics.fits.tables import column_names, row_count, take_rows
from mercer.errors import DataError, MercerWarning
from mercer.parameters import Choice, Interval, check_parameter

__all__ = ["COVERAGE", "FitDescription", "describe_fit"]

Array = np.ndarray
# Probability of the intervals of predictions.
COVERAGE = 0.9
# Number of test rows that are stored, and the number of those with intervals of predictions, which take more time.
STORED_ROWS, INTERVAL_ROWS = 2000, 20_000
# Least default time limit.
LEAST_SECONDS = 10.0
# Shares of the time limit for kernel errors and permutations. Learning curves have what is left, but at least a share.
AUDIT_SHARE, PERMUTATION_SHARE, CURVE_SHARE = 0.2, 0.35, 0.3


@dataclass(frozen=True, eq=False)
class FitDescription:
    """What was measured of a fitted model; the fields are those of `FitResult`, except for the first ones.

    Attributes
    ----------
    scores : tuple of Score
        Scores on the test rows, the headline score first.
    predict_seconds : float
        Time of the predictions of all test rows.
    predictions : ndarray of shape (n,)
        Predictions of all test rows.
    timings : dict of str to float
        Seconds per stage.
    notes : tuple of str
        What was measured on fewer rows, or not at all, for lack of time.
    """

    scores: tuple[Score, ...]
    predict_seconds: float
    predictions: Array
    timings: dict[str, float]
    notes: tuple[str, ...]
    headline: str
    classes: tuple[str, ...] | None
    curve: tuple[CurvePoint, ...]
    importances: tuple[ColumnImportance, ...]
    trials: tuple[dict[str, Any], ...]
    explanation: str
    test_true: Array
    test_predicted: Array
    test_std: Array | None
    test_low: Array | None
    test_high: Array | None
    coverage: float | None
    reliability: tuple[ReliabilityBin, ...]
    confusion: tuple[tuple[int, ...], ...] | None
    audit: MapAudit | None

    def fields(self) -> dict[str, Any]:
        """Return the fields that `FitResult` has too, by name."""
        own = {"scores", "predict_seconds", "predictions", "timings", "notes"}
        return {name: value for name, value in vars(self).items() if name not in own}


@dataclass
class _Stages:
    """Times of stages, and what reports their names."""

    report: Callable[[str], None] | None
    start: float = field(default_factory=time.perf_counter)
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        if self.report is not None:
            self.report(name)
        before = time.perf_counter()
        with warnings.catch_warnings():
            if self.seconds:
                # Warnings about the rows were issued when all of them were predicted.
                warnings.simplefilter("ignore", MercerWarning)
            yield
        self.seconds[name] = time.perf_counter() - before

    @property
    def spent(self) -> float:
        return time.perf_counter() - self.start


def describe_fit(
    model: Any,
    X_train: Any,
    y_train: Any,
    X_test: Any,
    y_test: Any,
    *,
    columns: Sequence[str] | None = None,
    n_train: int | None = None,
    fit_seconds: float | None = None,
    time_limit: float | None = None,
    random_state: int = 0,
    progress: Callable[[str], None] | None = None,
) -> FitDescription:
    """Measure a fitted model on test rows: scores, calibration, columns, kernel error and learning curve.

    Parameters
    ----------
    model : KernelRegressor, KernelClassifier or another fitted estimator
        The model. It is a classifier if it has `classes_`; probabilities are described if it has `predict_proba`.
    X_train, y_train : table and array-like, or None
        Training rows, or a sample of them. None means no learning curve, and no kernel errors at other numbers of
        components.
    X_test, y_test : table and array-like
        Test rows: an array, a CSR matrix, or a data frame of pandas, polars or pyarrow.
    columns : sequence of str, default=None
        Names of the columns; None means those of the table.
    n_train : int, default=None
        Number of rows that the model was fitted to; None means that of `X_train`.
    fit_seconds : float, default=None
        Time of the fit, for the last point of the learning curve.
    time_limit : float, default=None
        Number of seconds for all of it. Scores, calibration and kernel error are computed in any case; permutations
        and the learning curve have what is left. None means `fit_seconds`, but at least 10.
    random_state : int, default=0
        Seed.
    progress : callable, default=None
        Receives the name of each stage when it starts.

    Returns
    -------
    FitDescription

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRegressor
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> model = KernelRegressor(random_state=0).fit(X[:200], X[:200, 0])
    >>> found = describe_fit(model, None, None, X[200:], X[200:, 0])
    >>> found.headline, bool(found.scores[0].value > 0.99)
    ('R2', True)
    """
    check_parameter("describe_fit", "time_limit", time_limit, Choice(None) | Interval(0, closed="neither"))
    y_test = np.asarray(y_test)
    if y_test.ndim != 1 or len(y_test) != row_count(X_test) or len(y_test) == 0:
        msg = f"describe_fit: one target per test row is needed, got {y_test.shape} for {row_count(X_test)} rows."
        raise DataError(msg)
    limit = max(LEAST_SECONDS, fit_seconds or 0.0) if time_limit is None else float(time_limit)
    stages, n = _Stages(progress), len(y_test)
    notes: list[str] = []
    names = list(column_names(X_test) if columns is None else columns)
    n_train = n_train if n_train is not None or X_train is None else row_count(X_train)
    probable = hasattr(model, "predict_proba")
    with stages.stage("predict test rows"):
        before = time.perf_counter()
        output = np.asarray(model.predict_proba(X_test) if probable else model.predict(X_test))
        seconds = time.perf_counter() - before
    with stages.stage("score test rows"):
        predicted = np.asarray(model.classes_)[output.argmax(axis=1)] if probable else output
        if hasattr(model, "classes_"):
            scores, measured = _labels(model, y_test, output if probable else None, predicted, random_state)
        else:
            scores, measured = _numbers(model, X_test, y_test, predicted, random_state)
    score: Any = scores[0].name
    with stages.stage("measure the kernel error"):
        audit = audit_of_best(
            model,
            X_test,
            X_train=X_train,
            n_train=n_train,
            time_limit=AUDIT_SHARE * limit,
            random_state=random_state,
        )
    with stages.stage("shuffle columns"):
        share = max(1.0, PERMUTATION_SHARE * limit)
        importances = permutation_importances(
            model, X_test, y_test, columns=names, score=score, time_limit=share, random_state=random_state
        )
    skipped = sum(one.permutation is None for one in importances)
    if skipped:
        notes.append(f"{skipped} of {len(names)} columns were not shuffled, because the time for it was over.")
    curve: tuple[CurvePoint, ...] = ()
    if X_train is not None and n_train is not None:
        with stages.stage("learning curve"):
            left = max(CURVE_SHARE * limit, limit - stages.spent)
            last = (n_train, scores[0], float("nan") if fit_seconds is None else fit_seconds)
            curve = learning_curve(
                model,
                X_train,
                y_train,
                X_test if n <= INTERVAL_ROWS else take_rows(X_test, np.arange(n)[:: -(-n // INTERVAL_ROWS)]),
                y_test if n <= INTERVAL_ROWS else y_test[:: -(-n // INTERVAL_ROWS)],
                score=score,
                time_limit=left,
                last=last,
                random_state=random_state,
            )
    explain = getattr(model, "explain", None)
    return FitDescription(
        scores=scores,
        predict_seconds=seconds,
        predictions=predicted,
        timings=stages.seconds,
        notes=tuple(notes),
        headline=score,
        curve=curve,
        importances=importances,
        trials=tuple(vars(trial) | {"name": trial.name} for trial in getattr(model, "trials_", ())),
        explanation="" if explain is None else explain(),
        audit=audit,
        **measured,
    )


def _stored(n: int, random_state: int) -> Array:
    """Return the indices of the test rows that are stored, in order."""
    return np.sort(np.random.default_rng(random_state).permutation(n)[:STORED_ROWS])


def _labels(
    model: Any, y: Array, probabilities: Array | None, predicted: Array, random_state: int
) -> tuple[tuple[Score, ...], dict[str, Any]]:
    """Return the scores of a classifier, and what is stored of its predictions."""
    classes = np.asarray(model.classes_)
    shown = _stored(len(y), random_state)
    measured = {
        "classes": tuple(str(label) for label in classes),
        "test_true": y[shown].astype(str),
        "test_predicted": predicted[shown].astype(str),
        "test_std": None,
        "test_low": None,
        "test_high": None,
        "coverage": None,
        "reliability": () if probabilities is None else reliability(probabilities.max(axis=1), predicted == y),
        "confusion": confusion_counts(y, predicted, classes),
    }
    if probabilities is None:
        return (score_interval("accuracy", y, predicted, random_state=random_state),), measured
    return classification_scores(y, probabilities, classes, random_state=random_state), measured


def _numbers(
    model: Any, X: Any, y: Array, predicted: Array, random_state: int
) -> tuple[tuple[Score, ...], dict[str, Any]]:
    """Return the scores of a regression, and what is stored of its predictions, with error bars if it has them."""
    n = len(y)
    shown = _stored(n, random_state)
    measured: dict[str, Any] = {
        "classes": None,
        "test_true": y[shown].astype(np.float64),
        "test_predicted": np.asarray(predicted, dtype=np.float64)[shown],
        "test_std": None,
        "test_low": None,
        "test_high": None,
        "coverage": None,
        "reliability": (),
        "confusion": None,
    }
    if hasattr(model, "predict_interval"):
        # The stored rows are among the first ones of the same permutation.
        rows = np.sort(np.random.default_rng(random_state).permutation(n)[:INTERVAL_ROWS])
        ends = model.predict_interval(X if len(rows) == n else take_rows(X, rows), COVERAGE)
        measured["coverage"] = interval_coverage(y[rows], ends[:, 0], ends[:, 1])
        at = np.searchsorted(rows, shown)
        measured["test_low"], measured["test_high"] = ends[at, 0], ends[at, 1]
        measured["test_std"] = model.predict(take_rows(X, shown), return_std=True)[1]
    return regression_scores(y, predicted, random_state=random_state), measured
