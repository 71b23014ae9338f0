"""Scores of predictions with intervals from the bootstrap over rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mercer.workflows.results import ReliabilityBin, Score

__all__ = ["HEADLINES", "classification_scores", "confusion_counts", "regression_scores", "reliability"]

Array = np.ndarray
#: Name of the score that is shown first.
HEADLINES = {"regression": "R2", "classification": "accuracy"}
LEVEL = 0.95
RESAMPLES = 1000
# Number of resamples of a block, divided by the number of rows.
BLOCK_ENTRIES = 2_000_000
# Probabilities are kept away from 0 and 1, so that a single row cannot make the log loss infinite.
LEAST_PROBABILITY = 1e-15


def regression_scores(y: Array, predicted: Array, seed: int) -> tuple[Score, ...]:
    """Return R2, RMSE and MAE of predictions.

    Examples
    --------
    >>> y = np.arange(100.0)
    >>> [(score.name, round(score.value, 3)) for score in regression_scores(y, y + 1, 0)]
    [('R2', 0.999), ('RMSE', 1.0), ('MAE', 1.0)]
    """
    center = y.mean()
    unit = float(np.abs(y - center).max()) or 1.0  # squares of large numbers must not overflow
    t, error = (y - center) / unit, (predicted - y) / unit
    means = np.column_stack([np.square(error), np.abs(error), t, np.square(t)])

    def r2(m: Array) -> Array:
        variance = m[:, 3] - np.square(m[:, 2])
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(variance > 0, 1 - m[:, 0] / variance, np.where(m[:, 0] > 0, -np.inf, 1.0))

    functions: dict[str, Callable[[Array], Array]] = {
        "R2": r2,
        "RMSE": lambda m: unit * np.sqrt(m[:, 0]),
        "MAE": lambda m: unit * m[:, 1],
    }
    return _bootstrapped(means, functions, seed)


def classification_scores(codes: Array, probabilities: Array, predicted: Array, seed: int) -> tuple[Score, ...]:
    """Return accuracy and log loss, and the area under the ROC curve for two labels.

    Parameters
    ----------
    codes : ndarray of int of shape (n,)
        Indices of the true labels; -1 for a label that the model does not know.
    probabilities : ndarray of shape (n, K)
        Probabilities of all labels.
    predicted : ndarray of int of shape (n,)
        Indices of the predicted labels.
    seed : int
        Seed of the bootstrap.
    """
    known = codes >= 0
    of_true = np.where(known, probabilities[np.arange(len(codes)), np.maximum(codes, 0)], 0.0)
    loss = -np.log(np.clip(of_true, LEAST_PROBABILITY, 1.0))
    means = np.column_stack([codes == predicted, loss]).astype(float)
    scores = _bootstrapped(means, {"accuracy": lambda m: m[:, 0], "log loss": lambda m: m[:, 1]}, seed)
    if probabilities.shape[1] == 2 and 0 < (codes == 1).sum() < len(codes):
        scores += (_roc_auc(codes == 1, probabilities[:, 1], seed),)
    return scores


def _bootstrapped(means: Array, functions: dict[str, Callable[[Array], Array]], seed: int) -> tuple[Score, ...]:
    """Return scores that are functions of the means (1, k) of some values (n, k), with bootstrap intervals."""
    n = len(means)
    rng = np.random.default_rng([seed, 0xB007])
    drawn = []
    block = max(1, BLOCK_ENTRIES // n)
    for start in range(0, RESAMPLES, block):
        counts = rng.multinomial(n, np.full(n, 1 / n), size=min(block, RESAMPLES - start))
        drawn.append(counts @ means / n)
    resampled = np.concatenate(drawn)
    total = means.mean(axis=0, keepdims=True)
    scores = []
    for name, function in functions.items():
        low, high = _interval(function(resampled))
        scores.append(Score(name, float(function(total)[0]), low, high, LEVEL))
    return tuple(scores)


def _roc_auc(positive: Array, values: Array, seed: int) -> Score:
    """Return the area under the ROC curve with an interval."""
    order = np.argsort(values, kind="stable")
    positive, values = positive[order], values[order]
    ends = np.flatnonzero(np.append(values[1:] != values[:-1], True))  # last row of each group of equal values
    rng = np.random.default_rng([seed, 0xA0C])
    n = len(values)
    rounds = int(np.clip(BLOCK_ENTRIES * 10 // n, 100, RESAMPLES))

    def area(weight: Array) -> float:
        above = np.diff(np.cumsum(weight * positive)[ends], prepend=0.0)
        below = np.diff(np.cumsum(weight * ~positive)[ends], prepend=0.0)
        pairs = above.sum() * below.sum()
        return float(above @ (np.cumsum(below) - below / 2) / pairs) if pairs > 0 else np.nan

    resampled = [area(np.bincount(rng.integers(n, size=n), minlength=n)) for _ in range(rounds)]
    low, high = _interval(np.array(resampled))
    return Score("ROC AUC", area(np.ones(n)), low, high, LEVEL)


def _interval(values: Array) -> tuple[float, float]:
    values = values[np.isfinite(values)]
    if not len(values):
        return float("nan"), float("nan")
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def reliability(confidence: Array, correct: Array, n_bins: int = 10) -> tuple[ReliabilityBin, ...]:
    """Return the share of correct labels by the probability of the predicted label, in bins of equally many rows."""
    order = np.argsort(confidence, kind="stable")
    bins = []
    for rows in np.array_split(order, min(n_bins, len(order))):
        count, right = len(rows), float(correct[rows].sum())
        low, high = _wilson(right, count)
        bins.append(ReliabilityBin(float(confidence[rows].mean()), right / count, low, high, count))
    return tuple(bins)


def _wilson(right: float, count: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval for a share."""
    z = 1.959964
    share = right / count
    center = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * np.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return float(max(0.0, center - half)), float(min(1.0, center + half))


def confusion_counts(codes: Array, predicted: Array, n_labels: int) -> tuple[tuple[int, ...], ...]:
    """Return numbers of rows by true label (rows) and predicted label (columns); unknown labels are left out."""
    known = codes >= 0
    table = np.bincount(codes[known] * n_labels + predicted[known], minlength=n_labels**2)
    return tuple(tuple(int(count) for count in row) for row in table.reshape(n_labels, n_labels))
