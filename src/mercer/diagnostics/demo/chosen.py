"""Details of the model that the demo selects: its penalties, the calibration of its probabilities, and its mistakes."""

from __future__ import annotations

import numpy as np

from mercer.diagnostics.demo.contenders import Rows
from mercer.diagnostics.demo.results import Bin, Mistake, PenaltyPath
from mercer.learners import KernelRidgeClassifier

__all__ = ["mistakes", "penalty_path", "reliability"]

Array = np.ndarray
BINS = 5
SHOWN_MISTAKES = 12
Z_95 = 1.959963984540054  # 97.5 % quantile of the standard normal distribution


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


def wilson(share: float, count: int) -> tuple[float, float]:
    """Return Wilson's 95 % confidence interval for a probability, given the observed fraction of `count` trials.

    Unlike the interval of the normal approximation, it is contained in [0, 1].
    """
    if share == 1:
        # Use the symmetry of the interval, because rounding could make the upper end less than one.
        return 1 - wilson(0.0, count)[1], 1.0
    z2 = Z_95**2 / count
    center = (share + z2 / 2) / (1 + z2)
    radius = Z_95 * np.sqrt(share * (1 - share) / count + z2 / (4 * count)) / (1 + z2)
    return max(0.0, float(center - radius)), float(center + radius)


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
