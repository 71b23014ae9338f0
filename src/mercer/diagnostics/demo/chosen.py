"""Details of the model that the demo selects: its penalties, the calibration of its probabilities, and its mistakes."""

from __future__ import annotations

import numpy as np

from mercer.diagnostics.demo.contenders import Rows
from mercer.diagnostics.demo.results import Bin, Mistake, PenaltyPath
from mercer.diagnostics.fits.scores import wilson
from mercer.learners import KernelRidgeClassifier

__all__ = ["mistakes", "penalty_path", "reliability"]

Array = np.ndarray
BINS = 5
SHOWN_MISTAKES = 12


def penalty_path(model: KernelRidgeClassifier) -> PenaltyPath:
    """Return the penalties that a fitted classifier tried, their scores, and the penalty that it selected."""
    path = model.path_
    assert path is not None
    scores = tuple(float(score) if np.isfinite(score) else None for score in path.scores)
    return PenaltyPath(tuple(path.alphas.tolist()), scores, tuple(path.degrees.tolist()), float(path.alpha))


def reliability(probabilities: Array, labels: Array) -> tuple[Bin, ...]:
    """Return the bins of a reliability diagram, each with a mean predicted probability and an observed frequency.

    Column j of `probabilities` has the predicted probabilities of label j, for all rows. The five bins are equal parts
    of [0, 1] and contain the probabilities of all labels. Empty bins are omitted.
    """
    is_label = labels[:, None] == np.arange(probabilities.shape[1])
    index = np.minimum((BINS * probabilities).astype(int), BINS - 1)
    bins = []
    for i in range(BINS):
        inside = index == i
        count = int(inside.sum())
        if count:
            observed = float(is_label[inside].mean())
            bins.append(Bin(count, float(probabilities[inside].mean()), observed, wilson(observed, count)))
    return tuple(bins)


def mistakes(probabilities: Array, rows: Rows) -> tuple[Mistake, ...]:
    """Return at most 12 misclassified test rows, in decreasing order of the probability of the predicted label."""
    predicted = probabilities.argmax(axis=1)
    confidence = probabilities.max(axis=1)
    wrong = np.flatnonzero(predicted != rows.y_test)
    shown = wrong[np.argsort(-confidence[wrong], kind="stable")][:SHOWN_MISTAKES]
    return tuple(
        Mistake(
            pixels=tuple(np.rint(16 * rows.X_test[i]).astype(int).tolist()),
            label=int(rows.y_test[i]),
            predicted=int(predicted[i]),
            probability=float(confidence[i]),
        )
        for i in shown
    )
