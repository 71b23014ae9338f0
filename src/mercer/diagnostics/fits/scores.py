"""Scores of predictions with confidence intervals over the test rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from mercer.diagnostics.fits.results import Score
from mercer.errors import DataError
from mercer.parameters import Choice, Interval, check_parameter

__all__ = [
    "SCORES",
    "classification_scores",
    "regression_scores",
    "row_losses",
    "score_difference",
    "score_interval",
    "wilson",
]

Array = np.ndarray
SCORES = ("R2", "RMSE", "MAE", "accuracy", "log loss")
# Number of resamples of the bootstrap. The ends of a 95 % interval are its 50th values from either side.
RESAMPLES = 2000
# More rows than this are added up in so many groups of random rows, which are resampled instead: the means over rows
# have the same variance, and the time does not grow with the number of rows.
GROUPS = 2000
# Smallest probability in the logarithmic loss, as in scikit-learn for float64.
LEAST_PROBABILITY = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Means:
    """A score as a function of means over rows."""

    values: Array  # (n, q), what is averaged over rows
    score: Callable[[Array], Array]  # from means (..., q) to scores (...)


def score_interval(
    name: str,
    y: Any,
    predicted: Any,
    *,
    classes: Any = None,
    sample_weight: Any = None,
    level: float = 0.95,
    random_state: int = 0,
) -> Score:
    """Return a score of predictions, with a confidence interval for the score on many more rows of the same kind.

    The interval of an unweighted accuracy is Wilson's. The others are bias-corrected and accelerated bootstrap
    intervals [1]_ over the test rows. The model is the same in all resamples, so the intervals do not contain how a fit
    on other training rows would vary.

    Parameters
    ----------
    name : {"R2", "RMSE", "MAE", "accuracy", "log loss"}
        The score.
    y : array-like of shape (n,)
        Targets or labels of the test rows.
    predicted : array-like of shape (n,), for "log loss" (n, K)
        Predictions; for "log loss" the probabilities of all labels.
    classes : array-like of shape (K,), default=None
        The labels of the columns of probabilities; needed for "log loss" only.
    sample_weight : array-like of shape (n,), default=None
        Weights of the rows, which are resampled with them.
    level : float, default=0.95
        Probability with which the interval contains the score.
    random_state : int, default=0
        Seed of the bootstrap.

    Returns
    -------
    Score
        The value is NaN where it is not defined, such as R2 of equal targets, and so are the ends of its interval.

    References
    ----------
    .. [1] B. Efron, "Better bootstrap confidence intervals", Journal of the American Statistical Association 82(397),
       171-185, 1987.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=500)
    >>> score = score_interval("R2", y, y + 0.5 * rng.normal(size=500))
    >>> bool(0.6 < score.low < 0.75 < score.high < 0.85)
    True
    """
    check_parameter("score_interval", "name", name, Choice(*SCORES))
    check_parameter("score_interval", "level", level, Interval(0, 1, closed="neither"))
    y, weight = np.asarray(y), None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if y.ndim != 1 or len(y) == 0 or len(y) != len(predicted) or (weight is not None and weight.shape != y.shape):
        msg = (
            f"score_interval: y, predicted and sample_weight must have one entry per test row, and at least one, got "
            f"the shapes {np.shape(y)}, {np.shape(predicted)} and {np.shape(sample_weight)}."
        )
        raise DataError(msg)
    losses = row_losses(name, y, predicted, classes)
    if name == "accuracy" and weight is None:
        correct = int((losses == 0).sum())
        return Score(name, correct / len(y), *wilson(correct / len(y), len(y), level), level)
    means = _means(name, y, losses, weight)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(means.score(means.values.mean(axis=0)))
        low, high = _bootstrap(means, value, level, np.random.default_rng(random_state))
    return Score(name, value, low, high, level)


def regression_scores(
    y: Any, predicted: Any, *, sample_weight: Any = None, level: float = 0.95, random_state: int = 0
) -> tuple[Score, ...]:
    """Return R2, RMSE and mean absolute error of predicted numbers, with intervals; see `score_interval`."""
    options: dict[str, Any] = {"sample_weight": sample_weight, "level": level, "random_state": random_state}
    return tuple(score_interval(name, y, predicted, **options) for name in ("R2", "RMSE", "MAE"))


def classification_scores(
    y: Any, probabilities: Any, classes: Any, *, sample_weight: Any = None, level: float = 0.95, random_state: int = 0
) -> tuple[Score, ...]:
    """Return accuracy and logarithmic loss of predicted probabilities, with intervals; see `score_interval`."""
    options: dict[str, Any] = {"sample_weight": sample_weight, "level": level, "random_state": random_state}
    predicted = np.asarray(classes)[np.argmax(probabilities, axis=1)]
    return (
        score_interval("accuracy", y, predicted, **options),
        score_interval("log loss", y, probabilities, classes=classes, **options),
    )


def score_difference(
    name: str,
    y: Any,
    predicted: Any,
    other: Any,
    *,
    sample_weight: Any = None,
    level: float = 0.95,
    random_state: int = 0,
) -> Score:
    """Return the score of predictions minus that of other predictions of the same rows, with an interval.

    Rows that are hard to predict are hard for both, so the interval is shorter than the intervals of the two scores.

    Parameters
    ----------
    name : {"R2", "RMSE", "MAE", "accuracy"}
        The score.
    y : array-like of shape (n,)
        Targets or labels of the test rows.
    predicted, other : array-like of shape (n,)
        The two predictions.
    sample_weight, level, random_state
        As in `score_interval`.

    Returns
    -------
    Score

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y, noise = rng.normal(size=(2, 500))
    >>> found = score_difference("R2", y, y + 0.5 * noise, y + 0.55 * noise)
    >>> bool(0 < found.low < found.value < found.high < 0.1)
    True
    """
    check_parameter("score_difference", "name", name, Choice("R2", "RMSE", "MAE", "accuracy"))
    check_parameter("score_difference", "level", level, Interval(0, 1, closed="neither"))
    y, weight = np.asarray(y), None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    one, two = (_means(name, y, row_losses(name, y, some), weight) for some in (predicted, other))
    q = one.values.shape[1]
    both = Means(np.hstack([one.values, two.values]), lambda m: one.score(m[..., :q]) - two.score(m[..., q:]))
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(both.score(both.values.mean(axis=0)))
        low, high = _bootstrap(both, value, level, np.random.default_rng(random_state))
    return Score(name, value, low, high, level)


def row_losses(name: str, y: Array, predicted: Any, classes: Any = None) -> Array:
    """Return the loss of each row, of which a score is a function: squared or absolute error, error, logarithm."""
    if name == "log loss":
        probabilities, labels = np.asarray(predicted, dtype=np.float64), np.asarray(classes)
        if probabilities.ndim != 2 or probabilities.shape[1] != len(labels):
            msg = f"log loss needs one probability per label, got {np.shape(predicted)} for {len(labels)} labels."
            raise DataError(msg)
        order = np.argsort(labels)
        at = np.searchsorted(labels[order], y).clip(max=len(labels) - 1)
        known = labels[order][at] == y
        # A label that was not in the training rows has probability zero.
        found = np.where(known, probabilities[np.arange(len(y)), order[at]], 0.0)
        return -np.log(np.clip(found, LEAST_PROBABILITY, 1.0))
    if name == "accuracy":
        return (np.asarray(predicted) != y).astype(np.float64)
    errors = np.asarray(predicted, dtype=np.float64) - np.asarray(y, dtype=np.float64)
    return np.abs(errors) if name == "MAE" else np.square(errors)


def wilson(share: float, count: int, level: float = 0.95) -> tuple[float, float]:
    """Return Wilson's confidence interval for a probability, given the observed fraction of `count` trials.

    Unlike the interval of the normal approximation, it is contained in [0, 1].

    Examples
    --------
    >>> low, high = wilson(0.9, 100)
    >>> round(low, 3), round(high, 3)
    (0.826, 0.945)
    """
    if share == 1:
        # Use the symmetry of the interval, because rounding could make the upper end less than one.
        return 1 - wilson(0.0, count, level)[1], 1.0
    z = float(ndtri((1 + level) / 2))
    z2 = z**2 / count
    center = (share + z2 / 2) / (1 + z2)
    radius = z * np.sqrt(share * (1 - share) / count + z2 / (4 * count)) / (1 + z2)
    return max(0.0, float(center - radius)), float(center + radius)


def _means(name: str, y: Array, losses: Array, weight: Array | None) -> Means:
    weight = np.ones(len(y)) if weight is None else weight
    if name == "R2":
        center = y.astype(np.float64) - np.average(y, weights=weight)  # differences of squares would be rounded

        def r2(means: Array) -> Array:
            total, of_losses, of_targets, of_squares = np.moveaxis(means, -1, 0)
            variance = of_squares - np.square(of_targets) / total
            return np.where(variance > 0, 1 - of_losses / np.where(variance > 0, variance, 1.0), np.nan)

        return Means(np.stack([weight, weight * losses, weight * center, weight * np.square(center)], axis=1), r2)

    def average(means: Array) -> Array:
        mean = means[..., 1] / means[..., 0]
        if name == "RMSE":
            return np.sqrt(mean)
        return 1 - mean if name == "accuracy" else mean

    return Means(np.stack([weight, weight * losses], axis=1), average)


def _bootstrap(means: Means, value: float, level: float, rng: np.random.Generator) -> tuple[float, float]:
    """Return the bias-corrected and accelerated bootstrap interval."""
    values = means.values
    if len(values) > GROUPS:
        # Groups of equal sizes up to one row; the means of unequal ones would have another mean than the rows.
        parts = np.array_split(rng.permutation(len(values)), GROUPS)
        values = np.array([values[part].sum(axis=0) for part in parts]) * (GROUPS / len(values))
    n = len(values)
    scores = []
    for start in range(0, RESAMPLES, 100):
        size = min(100, RESAMPLES - start)
        drawn = rng.integers(n, size=(size, n)) + n * np.arange(size)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n)
        scores.append(means.score(counts @ values / n))
    found = np.concatenate(scores)
    found = np.sort(found[np.isfinite(found)])
    if n < 2 or len(found) < RESAMPLES / 2 or not np.isfinite(value):
        return float("nan"), float("nan")
    if found[0] == found[-1]:
        return float(found[0]), float(found[-1])
    below = np.clip(((found < value).mean() + (found <= value).mean()) / 2, 1 / RESAMPLES, 1 - 1 / RESAMPLES)
    bias = ndtri(below)
    left_out = means.score((values.sum(axis=0) - values) / (n - 1))
    away = np.nanmean(left_out) - left_out[np.isfinite(left_out)]
    spread = np.square(away).sum()
    acceleration = np.power(away, 3).sum() / (6 * spread**1.5) if spread > 0 else 0.0
    ends = []
    for z in ndtri([(1 - level) / 2, (1 + level) / 2]):
        shifted = bias + (bias + z) / max(1 - acceleration * (bias + z), 1e-3)
        ends.append(float(np.quantile(found, ndtr(shifted))))
    return ends[0], ends[1]
