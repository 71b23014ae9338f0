"""Calibration of probabilities and of intervals, and confusion of labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.diagnostics.fits.results import ReliabilityBin
from mercer.diagnostics.fits.scores import wilson
from mercer.errors import DataError
from mercer.parameters import Integer, check_parameter

__all__ = ["confusion_counts", "interval_coverage", "reliability"]

Array = np.ndarray


def reliability(
    probabilities: Any, correct: Any, *, n_bins: int = 10, level: float = 0.95
) -> tuple[ReliabilityBin, ...]:
    """Return the bins of a reliability diagram: mean predicted probabilities beside observed frequencies.

    Parameters
    ----------
    probabilities : array-like of shape (n,)
        Predicted probabilities of an event, such as that the predicted label is correct.
    correct : array-like of bool of shape (n,)
        Whether the event happened.
    n_bins : int, default=10
        The bins are equal parts of [0, 1]. Empty ones are omitted.
    level : float, default=0.95
        Level of Wilson's intervals for the frequencies.

    Returns
    -------
    tuple of ReliabilityBin

    Examples
    --------
    >>> (one,) = reliability([0.91, 0.95], [True, False])
    >>> round(one.predicted, 2), one.observed, one.count
    (0.93, 0.5, 2)
    """
    check_parameter("reliability", "n_bins", n_bins, Integer(1))
    share, event = np.asarray(probabilities, dtype=np.float64), np.asarray(correct, dtype=bool)
    if share.ndim != 1 or share.shape != event.shape:
        msg = f"reliability: probabilities and correct must be of one shape (n,), got {share.shape} and {event.shape}."
        raise DataError(msg)
    index = np.minimum((n_bins * share).astype(int), n_bins - 1)
    bins = []
    for i in np.unique(index):
        inside = index == i
        count, observed = int(inside.sum()), float(event[inside].mean())
        low, high = wilson(observed, count, level)
        bins.append(ReliabilityBin(float(share[inside].mean()), observed, low, high, count))
    return tuple(bins)


def confusion_counts(y: Any, predicted: Any, classes: Any) -> tuple[tuple[int, ...], ...]:
    """Return the numbers of rows by true label (rows) and predicted label (columns), in the order of `classes`.

    Rows of labels that are not among `classes` are not counted.

    Examples
    --------
    >>> confusion_counts(["a", "b", "b"], ["a", "a", "b"], ["a", "b"])
    ((1, 0), (1, 1))
    """
    from sklearn.metrics import confusion_matrix

    y, predicted, classes = np.asarray(y), np.asarray(predicted), np.asarray(classes)
    known = np.isin(y, classes)
    if not known.any():
        return tuple((0,) * len(classes) for _ in classes)
    return tuple(tuple(row) for row in confusion_matrix(y[known], predicted[known], labels=classes).tolist())


def interval_coverage(y: Any, low: Any, high: Any) -> float:
    """Return the share of targets within their intervals.

    Examples
    --------
    >>> interval_coverage([0.0, 1.0, 2.0, 3.0], [0, 0, 0, 0], [1, 1, 2, 2])
    0.75
    """
    y = np.asarray(y, dtype=np.float64)
    return float(((np.asarray(low) <= y) & (y <= np.asarray(high))).mean())
