"""Learning curve: the score on the test rows of the same model, fitted to fewer rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from sklearn.base import clone

from mercer.automatic.search import EXACT_ROWS
from mercer.diagnostics.fits.results import CurvePoint, Score
from mercer.diagnostics.fits.scores import score_interval
from mercer.diagnostics.fits.tables import member_rows, row_count, take_rows
from mercer.errors import DataError, MercerError, MercerWarning
from mercer.parameters import Choice, Interval, check_parameter

__all__ = ["learning_curve"]

Array = np.ndarray
# Least number of rows of a fit.
LEAST_ROWS = 50
# Time of a fit to twice as many rows, relative to the other one.
GROWTH = 2.2


def learning_curve(
    model: Any,
    X: Any,
    y: Any,
    X_test: Any,
    y_test: Any,
    *,
    score: Literal["R2", "accuracy"] = "R2",
    sizes: Sequence[int] | None = None,
    time_limit: float | None = None,
    last: tuple[int, Score, float] | None = None,
    random_state: int = 0,
) -> tuple[CurvePoint, ...]:
    """Fit a model to fewer rows, and return its scores on the same test rows.

    Of an automatic model, `KernelRegressor` or `KernelClassifier`, the members are fitted to fewer rows. Their kernels,
    metrics and weights are those of the model, learned from all rows, because a search for few rows takes as long as
    one for many. So a model that had been given only the smaller number of rows would have a lower score, and the true
    curve is steeper. Other models are copied and fitted from the start.

    Parameters
    ----------
    model : estimator
        A model; it is not changed.
    X, y : table and array-like of n rows
        Training rows, or a sample of them.
    X_test, y_test : table and array-like
        Test rows.
    score : {"R2", "accuracy"}, default="R2"
        The score.
    sizes : sequence of int, default=None
        Numbers of rows. None means a quarter, a half, and 1/8, 1/16 and 1/32 of the rows, at least 50.
    time_limit : float or None, default=None
        Number of seconds for all fits, in the order of `sizes`. A fit that would probably end later is left out.
    last : tuple of int, Score and float, default=None
        Number of rows, score and seconds of the model itself, which become the last point.
    random_state : int, default=0
        Seed of the order in which rows are taken. Smaller samples are parts of larger ones.

    Returns
    -------
    tuple of CurvePoint
        In the order of the numbers of rows; intervals are those of `score_interval`.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRidge
    >>> X = np.random.default_rng(0).normal(size=(600, 2))
    >>> y = np.sin(3 * X[:, 0]) + X[:, 1]
    >>> few, more = learning_curve(KernelRidge(random_state=0), X[:400], y[:400], X[400:], y[400:], sizes=(50, 400))
    >>> bool(few.value < more.value)
    True
    """
    check_parameter("learning_curve", "score", score, Choice("R2", "accuracy"))
    check_parameter("learning_curve", "time_limit", time_limit, Choice(None) | Interval(0, closed="neither"))
    start, n, y = time.perf_counter(), row_count(X), np.asarray(y)
    full = n if last is None else last[0]
    order = np.random.default_rng(random_state).permutation(n)
    points: list[CurvePoint] = []
    for size in _sizes(n, full) if sizes is None else sizes:
        spent = time.perf_counter() - start
        if time_limit is not None and points:
            nearest = min(points, key=lambda one: abs(np.log(one.n_rows / size)))
            if spent + nearest.seconds * GROWTH ** max(np.log2(size / nearest.n_rows), 0.0) > time_limit:
                continue
        rows = np.sort(order[:size])
        before = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", MercerWarning)  # they are those of the model itself, for fewer rows
                predict = _fitted(model, take_rows(X, rows), y[rows])
                seconds = time.perf_counter() - before
                predicted = predict(X_test)
        except MercerError:
            continue  # for instance, a single label among few rows: there is no model of this size
        found = score_interval(score, y_test, predicted, random_state=random_state)
        points.append(CurvePoint(int(size), found.value, found.low, found.high, seconds))
    points.sort(key=lambda one: one.n_rows)
    if last is not None:
        points.append(CurvePoint(last[0], last[1].value, last[1].low, last[1].high, last[2]))
    return tuple(points)


def _sizes(n: int, full: int) -> list[int]:
    """Return parts of the number of rows of the model, as far as there are so many rows, the most important first.

    The last doubling says most about further rows. A quarter is first, because its time shows whether there is enough
    for a half.
    """
    return [size for size in (full // part for part in (4, 2, 8, 16, 32)) if LEAST_ROWS <= size <= n]


def _fitted(model: Any, X: Any, y: Array) -> Callable[[Any], Array]:
    """Fit a copy of a model, or copies of its members, and return the function that predicts."""
    pipelines = getattr(model, "estimators_", None)
    if pipelines is None or not hasattr(model, "best_estimator_"):
        copy = clone(model)
        if copy.get_params(deep=False).get("progress"):
            copy.set_params(progress=False)
        return copy.fit(X, y).predict
    learners = [_refitted(pipeline[-1], member_rows(model, pipeline, X), y) for pipeline in pipelines]
    members = list(zip(model.weights_, pipelines, learners, strict=True))
    if hasattr(model, "classes_") and len(learners[0].classes_) < len(model.classes_):
        msg = f"These rows have {len(learners[0].classes_)} of the {len(model.classes_)} labels of the model."
        raise DataError(msg)

    def numbers(rows: Any) -> Array:
        return sum(weight * one.predict(member_rows(model, pipeline, rows)) for weight, pipeline, one in members)

    def labels(rows: Any) -> Array:
        logits = model.joined_logits(
            [
                one.probability_scale_ * one.decision_function(member_rows(model, pipeline, rows))
                for _, pipeline, one in members
            ]
        )
        return learners[0].classes_[(logits > 0).astype(int) if logits.ndim == 1 else logits.argmax(axis=1)]

    return labels if hasattr(model, "predict_proba") else numbers


def _refitted(learner: Any, X: Any, y: Array) -> Any:
    """Return a copy of a learner with the same kernel, fitted to fewer rows."""
    copy = clone(learner)
    feature_map = copy.feature_map
    if feature_map is not None and "landmarks" in feature_map.get_params(deep=False):
        # Few rows are all landmarks, as in a model of so few rows.
        n = row_count(X)
        copy.set_params(feature_map__n_components=n if n <= EXACT_ROWS else min(n, feature_map.n_components))
    return copy.fit(X, y)
