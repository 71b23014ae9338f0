"""Summaries of a fit that figures and sentences share: groups of residuals and error bars, shares of labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri

from mercer.diagnostics.fits.results import ColumnImportance, Score
from mercer.diagnostics.fits.scores import wilson

__all__ = [
    "Confusion",
    "ErrorBars",
    "LabelShares",
    "Quantiles",
    "error_bars",
    "frequent_confusions",
    "label_shares",
    "ranked",
    "residual_quantiles",
]

Array = np.ndarray
# Least number of rows in a group, and largest number of groups.
LEAST_GROUP, MOST_GROUPS = 25, 10


@dataclass(frozen=True)
class Quantiles:
    """Mean prediction of a group of rows, and the 5 %, 50 % and 95 % quantiles of their residuals."""

    predicted: float
    low: float
    middle: float
    high: float


@dataclass(frozen=True)
class ErrorBars:
    """Predicted standard deviation and measured root mean squared error of a group of rows, with a 95 % interval."""

    predicted: float
    measured: float
    low: float
    high: float


@dataclass(frozen=True)
class LabelShares:
    """How often rows of a label are found, and how often its prediction is right, each with an interval."""

    label: str
    count: int
    found: Score | None
    right: Score | None


@dataclass(frozen=True)
class Confusion:
    """How many rows of a label were taken for another one."""

    true: str
    predicted: str
    count: int
    share: float


def residual_quantiles(true: Array, predicted: Array) -> list[Quantiles]:
    """Return quantiles of residuals in groups of similar predictions."""
    return [
        Quantiles(float(predicted[rows].mean()), *np.quantile((true - predicted)[rows], [0.05, 0.5, 0.95]).tolist())
        for rows in _groups(predicted)
    ]


def error_bars(true: Array, predicted: Array, std: Array) -> list[ErrorBars]:
    """Return predicted and measured errors in groups of similar predicted standard deviations.

    The interval of a measured error is that of the variance of normal residuals.
    """
    groups = []
    for rows in _groups(std):
        squares, n = np.square(true - predicted)[rows].sum(), len(rows)
        low, high = np.sqrt(squares / chdtri(n, [0.025, 0.975])).tolist()  # of upper tails
        measured = float(np.sqrt(squares / n))
        groups.append(ErrorBars(float(np.sqrt(np.square(std[rows]).mean())), measured, low, high))
    return groups


def label_shares(counts: Sequence[Sequence[int]], classes: Sequence[str]) -> list[LabelShares]:
    """Return the shares of all labels, the one that is found least often first."""
    table = np.asarray(counts)
    shares = [
        LabelShares(
            label,
            int(table[i].sum()),
            _share("accuracy", int(table[i, i]), int(table[i].sum())),
            _share("accuracy", int(table[i, i]), int(table[:, i].sum())),
        )
        for i, label in enumerate(classes)
    ]
    return sorted(shares, key=lambda one: (2.0 if one.found is None else one.found.value, -one.count))


def frequent_confusions(counts: Sequence[Sequence[int]], classes: Sequence[str], most: int = 10) -> list[Confusion]:
    """Return the most frequent confusions of two labels."""
    found = [
        Confusion(classes[i], classes[j], value, value / sum(row))
        for i, row in enumerate(counts)
        for j, value in enumerate(row)
        if i != j and value
    ]
    return sorted(found, key=lambda one: (-one.count, -one.share))[:most]


def ranked(importances: Sequence[ColumnImportance]) -> list[ColumnImportance]:
    """Return columns by the decrease of the score, and then by the share of the learned metric; the largest first."""

    def place(one: ColumnImportance) -> tuple[float, float]:
        return (np.inf if one.permutation is None else -one.permutation), (0.0 if one.metric is None else -one.metric)

    return sorted(importances, key=place)


def _share(name: str, part: int, total: int) -> Score | None:
    return None if total == 0 else Score(name, part / total, *wilson(part / total, total), 0.95)


def _groups(values: Array) -> list[Array]:
    """Return the indices of groups of equal sizes, in the order of the values."""
    n_groups = min(MOST_GROUPS, len(values) // LEAST_GROUP)
    return np.array_split(np.argsort(values, kind="stable"), n_groups) if n_groups else []
