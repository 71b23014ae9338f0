"""Learning curve: the score on the test rows of the same model, fitted to fewer rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from sklearn.base import clone

from mercer.diagnostics.fits.results import CurvePoint, Score
from mercer.diagnostics.fits.scores import score_interval
from mercer.diagnostics.fits.tables import row_count, take_rows
from mercer.errors import MercerError, MercerWarning
from mercer.parameters import Choice, Interval, check_parameter

__all__ = ["learning_curve"]

Array = np.ndarray
# Numbers of rows are halved this many times, but not below the least number.
MOST_POINTS, LEAST_ROWS = 5, 50
# Time of a fit to twice as many rows, relative to the previous one, if nothing is known but that.
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
    """Fit copies of a model to fewer rows, and return their scores on the same test rows.

    A copy has all parameters of the model, and chooses everything again: for `KernelRegressor` and `KernelClassifier`
    the search is a part of each fit. Where the model has a `time_limit`, a copy has a part of it that is in proportion
    to its rows, at least one second.

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
        Numbers of rows. None means n / 32, n / 16 and so on to n / 2, at least 50.
    time_limit : float or None, default=None
        Number of seconds for all fits, the smallest first. A fit that would probably end later is not started.
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
    for size in _sizes(n, full) if sizes is None else sorted(sizes):
        spent = time.perf_counter() - start
        if time_limit is not None:
            expected = 0.0
            if points:
                expected = points[-1].seconds * GROWTH ** np.log2(size / points[-1].n_rows)
            elif last is not None:
                expected = last[2] * size / full
            if spent + expected > time_limit:
                break
        rows = np.sort(order[:size])
        copy = _copy(model, size / full)
        before = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", MercerWarning)  # they are those of the model itself, for fewer rows
                copy.fit(take_rows(X, rows), y[rows])
                seconds = time.perf_counter() - before
                predicted = copy.predict(X_test)
        except MercerError:
            continue  # for instance, a single label among few rows: there is no model of this size
        found = score_interval(score, y_test, predicted, random_state=random_state)
        points.append(CurvePoint(int(size), found.value, found.low, found.high, seconds))
    if last is not None:
        points.append(CurvePoint(last[0], last[1].value, last[1].low, last[1].high, last[2]))
    return tuple(points)


def _sizes(n: int, full: int) -> list[int]:
    """Return halves of the number of rows of the model, as far as there are so many rows."""
    halves = [full // 2**power for power in range(MOST_POINTS, 0, -1)]
    return [size for size in halves if LEAST_ROWS <= size <= n]


def _copy(model: Any, share: float) -> Any:
    """Return an unfitted copy for a share of the rows."""
    copy = clone(model)
    parameters = copy.get_params(deep=False)
    if parameters.get("progress"):
        copy.set_params(progress=False)
    limit = parameters.get("time_limit")
    if limit is not None:
        copy.set_params(time_limit=max(1.0, share * limit))
    return copy
