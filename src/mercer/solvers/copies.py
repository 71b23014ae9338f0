"""Copies of rows, and what those with equal targets are worth.

Copies are rows of equal entries; a weight above one means the same. Two equal measurements are infinitely more likely
without noise than with it, and the target of a row is predicted without error by a copy of it. But tables have copies
because records are stored twice, rarely because measurements have no noise. So copies with equal targets are no
evidence that the noise is small:

- a row is left out together with its copies of equal targets,
- an evidence that has no bound because of copies counts them as one row.

In predictions they have the weight of all of them, or for processes with near rows whose noise is chosen, that weight
divided by the one that most rows have. Copies with different targets show the noise, and are observations
of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from mercer.data.targets import label_codes
from mercer.engines import Block
from mercer.io import storable
from mercer.statistics import RowSample, row_hashes
from mercer.statistics.distinct import rank_hashes

__all__ = ["CopyGroups", "CopyWeights", "WeighCopies", "copies_in", "counted_once", "remaining", "without_copies"]

Array = np.ndarray
# Share of the weight of rows with several copies, all of one target, from which on a table is one without them.
MOSTLY = 0.5


@dataclass(frozen=True, eq=False)
class CopyGroups:
    """Which rows are copies of each other."""

    first: Array  # (m,), index of the first row of each group
    group: Array  # (n,), group of each row
    row: Array  # (m,), hashes of the entries of the rows of each group

    @classmethod
    def of(cls, X: Any, targets: Array | None = None) -> Self:
        """Return the groups of rows (n, d) that are equal, or of those whose targets (n, t) are equal too."""
        rows = row_hashes(X)
        if targets is None:
            row, first, group = np.unique(rows, return_index=True, return_inverse=True)
            return cls(first, group, row)
        keys = np.column_stack([rows, row_hashes(targets.reshape(len(targets), -1))])
        _, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        return cls(first, group.ravel(), rows[first])

    def total(self, weight: Array) -> Array:
        """Return the total weights (m,) of the groups."""
        return np.bincount(self.group, weight, len(self.first))


def remaining(weight: Array, differ: Array) -> Array:
    """Return the weights of the copies of rows that remain where a row is left out.

    Parameters
    ----------
    weight : ndarray of shape (n,)
        Total weights of the copies of each row.
    differ : ndarray of shape (n,), bool
        Whether the copies have different targets. Otherwise all of them are left out.
    """
    return np.where(differ, weight - np.minimum(weight, 1.0), 0.0)


def without_copies(X: Any, targets: Array, weight: Array | None) -> tuple[Array, Array] | None:
    """Return the indices of rows without copies and their weights, if most rows are copies with equal targets.

    Weights are divided by their mean, so that a table that is repeated, or that has a constant weight, gives the same
    model as the table itself.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, d)
        Rows.
    targets : ndarray of shape (n, t)
        Numeric targets.
    weight : ndarray of shape (n,) or None
        Weights.

    Returns
    -------
    first : ndarray of shape (m,), int
        Indices of different rows of positive weight. They do not depend on the order of the rows, nor on units.
    weight : ndarray of shape (m,)
        Their weights, with mean one.
    """
    weight = np.ones(len(targets)) if weight is None else weight
    used = np.flatnonzero(weight > 0)
    groups = CopyGroups.of(X[used], targets[used])
    total = groups.total(weight[used])
    _, row, targets_of = np.unique(groups.row, return_inverse=True, return_counts=True)
    repeated = (total > 1) & (targets_of[row] == 1)
    if total[repeated].sum() <= MOSTLY * total.sum():
        return None
    first = used[groups.first]
    order = np.lexsort((row_hashes(targets[first]), rank_hashes(X[first])))
    return first[order], total[order] / total.mean()


def copies_in(sample: RowSample) -> float:
    """Return the weight of a sample beyond one per distinct row, and so the number of copies of other rows."""
    assert sample.y is not None
    total = CopyGroups.of(sample.X, sample.y).total(weight_of(sample))
    return float((total - 1)[total > 1].sum())


def counted_once(sample: RowSample) -> RowSample:
    """Return the distinct rows of a sample, with weights of at most one."""
    assert sample.y is not None
    groups = CopyGroups.of(sample.X, sample.y)
    order = np.argsort(groups.first)
    rows = groups.first[order]
    return replace(
        sample,
        index=sample.index[rows],
        key=sample.key[rows],
        seen=len(rows),
        X=sample.X[rows],
        y=sample.y[rows],
        weight=np.minimum(groups.total(weight_of(sample)), 1.0)[order],
    )


def weight_of(sample: RowSample) -> Array:
    """Return the weights of the rows of a sample. Rows that were sampled by their weights have weight one."""
    if sample.weight is None or not sample.is_complete:
        return np.ones(len(sample.index))
    return sample.weight


@storable
@dataclass(frozen=True)
class CopyWeights:
    """Total weights, by label, of rows with given hashes."""

    weight: Array  # (m, K), for the distinct hashes in ascending order

    def __add__(self, other: CopyWeights) -> CopyWeights:
        return CopyWeights(self.weight + other.weight)


@storable
@dataclass(frozen=True)
class WeighCopies:
    """Function of a block of rows that returns the `CopyWeights` of rows whose content has one of some hashes."""

    hashes: Array  # (m,), distinct and ascending
    labels: Array  # (K,), sorted
    label_weight: Array  # (K,), factors of the weights of rows

    def __call__(self, block: Block) -> CopyWeights:
        weight = np.ones(len(block)) if block.weight is None else block.weight
        hashes = row_hashes(block.X)
        position = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        used = (self.hashes[position] == hashes) & (weight > 0)
        codes = label_codes(block.y[used], self.labels)
        cells = position[used] * len(self.labels) + codes
        total = np.bincount(cells, weight[used] * self.label_weight[codes], len(self.hashes) * len(self.labels))
        return CopyWeights(total.reshape(len(self.hashes), len(self.labels)))
