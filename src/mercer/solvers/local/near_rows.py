"""The rows that a local model consists of: distinct rows with the mean of their targets and their total weight."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np

from mercer.engines import Block, CheckpointedEngine, Engine, FilteredEngine, Report
from mercer.features import Features, rows_to_features
from mercer.kernels import Kernel
from mercer.solvers.copies import CopyGroups
from mercer.statistics import NearestRows, RowSample, exponentials
from mercer.statistics.distinct import rank_hashes
from mercer.statistics.nearest import MOST_COPIES

__all__ = ["Copies", "NearRows", "ResidualWeights", "collect"]

Array = np.ndarray
# Targets of which the largest is outside these bounds are divided by a unit, so that their squares are finite.
SMALLEST_TARGET, LARGEST_TARGET = 1e-100, 1e100
# Rounding error of a mean of equal targets, relative to them.
ROUNDING = 64 * np.finfo(float).eps


@dataclass(frozen=True, eq=False)
class Copies:
    """Copies of rows with different targets, at most `MOST_COPIES` of each row."""

    row: Array  # (c,), index of the row
    targets: Array  # (c, t)
    weight: Array  # (c,), with the same total for each row as its copies have

    @classmethod
    def of(cls, row: Array, targets: Array, weight: Array) -> Self:
        """Return copies, given the index of the row, the targets and the weight of each of them."""
        keys = exponentials(np.arange(len(row), dtype=np.uint64), 1)
        order = np.lexsort((keys, row))  # the copies of a row one after another, in random order
        starts = np.flatnonzero(np.diff(row[order], prepend=-1))
        rank = np.arange(len(row)) - np.repeat(starts, np.diff(starts, append=len(row)))
        kept = order[rank < MOST_COPIES]
        total, of_kept = np.bincount(row, weight), np.bincount(row[kept], weight[kept])
        return cls(row[kept], targets[kept], weight[kept] * total[row[kept]] / of_kept[row[kept]])


@dataclass(frozen=True, eq=False)
class NearRows:
    """Distinct rows in random order.

    A row that is repeated, or that has a weight, is one row, since copies of a row would take the positions of other
    near rows. The order depends on the ranks of the entries of each feature, so it is the same if the rows are read
    in another order or in other blocks, with repetitions in place of weights, and for features in other units.
    """

    X: Any  # (n, d), array or CSR
    targets: Array  # (n, t), weighted means over the copies of a row
    weight: Array  # (n,), total weights > 0 of the copies
    scatter: Array  # (n, t), weighted sums of squared differences of the targets of the copies from their mean
    n_rows: int  # number of rows with a positive weight that were read, copies included
    is_complete: bool  # whether all of them are here
    copies: Copies | None = None  # the copies of rows with different targets; None if there are none
    unit: float = 1.0  # the targets are those of the data, divided by this number, ...
    offset: Array | None = None  # (t,) ... minus these; None means zeros

    @classmethod
    def of(cls, X: Any, targets: Array, weight: Array | None, n_rows: int, *, is_complete: bool) -> Self:
        """Merge the copies of rows. Rows of weight zero are left out."""
        weight = np.ones(X.shape[0]) if weight is None else np.asarray(weight, dtype=np.float64)
        used = np.flatnonzero(weight > 0)
        X, targets, weight = (
            (X, targets, weight) if len(used) == len(weight) else (X[used], targets[used], weight[used])
        )
        groups = CopyGroups.of(X)
        order = np.argsort(rank_hashes(X[groups.first]), kind="stable")
        first = groups.first[order]
        if len(first) == len(weight):
            return cls(X[first], targets[first], weight[first], np.zeros_like(targets), n_rows, is_complete)
        position = np.empty_like(order)
        position[order] = np.arange(len(order))
        copy_of = position[groups.group]
        total = np.bincount(copy_of, weight)
        means = np.stack([np.bincount(copy_of, weight * column) for column in targets.T], axis=1) / total[:, None]
        other = np.bincount(copy_of, (targets != targets[first[copy_of]]).any(axis=1)) > 0
        means = np.where(other[:, None], means, targets[first])  # exact where copies have equal targets
        squares = weight[:, None] * np.square(targets - means[copy_of])
        scatter = np.stack([np.bincount(copy_of, column) for column in squares.T], axis=1)
        differ = other[copy_of]
        copies = Copies.of(copy_of[differ], targets[differ], weight[differ]) if differ.any() else None
        return cls(X[first], means, total, scatter, n_rows, is_complete, copies)

    @classmethod
    def in_units(
        cls, X: Any, targets: Array, weight: Array | None, n_rows: int, *, is_complete: bool, centered: bool
    ) -> Self:
        """Merge the copies of rows, with targets in a unit in which squares are finite, minus their mean if `centered`.

        Predictions from near rows are differences of targets, which lose digits if the targets have a large mean.
        """
        unit = unit_of(targets)
        offset = None
        if unit != 1:
            targets = targets / unit
        if centered:
            offset = np.average(targets, axis=0, weights=weight)
            targets = targets - offset
        rows = cls.of(X, targets, weight, n_rows, is_complete=is_complete)
        return replace(rows, unit=unit, offset=offset)

    @classmethod
    def of_nearest(cls, found: NearestRows, unit: float, offset: Array | None) -> Self:
        """Return the rows that were found near queries, in the order of their hashes.

        The targets of `found` are in the given unit, and the offset is subtracted here.
        """
        copies = None
        rounding = found.weight[:, None] * np.square(ROUNDING * found.targets)
        scatter = np.where(found.scatter > rounding, found.scatter, 0.0)
        differ = np.asarray(scatter.any(axis=1))[found.copy_row]
        targets = found.targets if offset is None else found.targets - offset
        if differ.any():
            row, of_copies, weight = found.copy_row[differ], found.copy_targets[differ], found.copy_weight[differ]
            total = np.bincount(row, weight, len(found))
            of_copies = of_copies if offset is None else of_copies - offset
            copies = Copies(row, of_copies, weight * found.weight[row] / total[row])
        return cls(
            found.X,
            targets,
            found.weight,
            scatter,
            found.seen,
            is_complete=False,
            copies=copies,
            unit=unit,
            offset=offset,
        )

    def __getitem__(self, index: Array) -> NearRows:
        """Return the rows with distinct indices."""
        copies = self.copies
        if copies is not None:
            position = np.full(len(self), -1)
            position[index] = np.arange(len(index))
            used = position[copies.row] >= 0
            row = position[copies.row[used]]
            copies = Copies(row, copies.targets[used], copies.weight[used]) if len(row) else None
        return replace(
            self,
            X=self.X[index],
            targets=self.targets[index],
            weight=self.weight[index],
            scatter=self.scatter[index],
            copies=copies,
        )

    @property
    def repetition(self) -> float:
        """The weight that most rows have whose copies have equal targets, at least one."""
        alone = self.weight[~self.scatter.any(axis=1)]
        return max(1.0, float(np.median(alone))) if len(alone) else 1.0

    def repeated(self, factor: float) -> NearRows:
        """Return the same rows with weights multiplied by a factor."""
        if factor == 1:
            return self
        copies = None if self.copies is None else replace(self.copies, weight=self.copies.weight * factor)
        return replace(self, weight=self.weight * factor, scatter=self.scatter * factor, copies=copies)

    def without_inputs(self) -> NearRows:
        """Return the same rows without columns."""
        # A copy, because a view would keep all columns in memory.
        return replace(self, X=self.X[:, :0].copy())

    def __len__(self) -> int:
        return len(self.weight)


@dataclass(frozen=True, eq=False)
class ResidualWeights:
    """Function of rows that returns the part of k(x, x) that features do not represent, k(x, x) - |z(x)|^2.

    Where it is large, predictions depend on near rows.
    """

    kernel: Kernel
    features: Features

    def __call__(self, X: Any) -> Array:
        Z = rows_to_features(self.features, X).astype(np.float64, copy=False)
        prior = np.asarray(self.kernel.diag(X), dtype=np.float64)
        return np.maximum(prior - np.einsum("ij,ij->i", Z, Z), 1e-12 * prior)


def collect(
    engine: Engine,
    most: int,
    seed: int,
    targets: Callable[[Array], Array],
    *,
    centered: bool,
    residuals: ResidualWeights | None = None,
    report: Report | None = None,
) -> NearRows:
    """Return the rows of an engine, or at most `most` of them.

    Parameters
    ----------
    engine : Engine
        The rows.
    most : int
        Largest number of rows.
    seed : int
        Seed of the sample, if there are more.
    targets : callable
        Function that returns the numeric targets (n, t) of validated targets.
    centered : bool
        Whether the mean of the targets is subtracted.
    residuals : ResidualWeights, default=None
        If there are more than `most` rows, they are sampled with probabilities in proportion to these numbers; None
        samples them uniformly.
    report : callable or None, default=None
        Receives the progress.
    """
    rows = engine.in_memory
    if rows is not None and len(rows) <= most:
        count = positive_rows(rows.weight, len(rows))
        y = targets(np.asarray(rows.y))
        return NearRows.in_units(rows.X, y, rows.weight, count, is_complete=True, centered=centered)
    bound = most_rows(engine)
    if bound is not None and bound <= most:  # there is no sample, for which the features of all rows would be computed
        residuals = None
    sample = engine.sum(partial(sampled, size=most, seed=seed, residuals=residuals), report)
    y = targets(np.asarray(sample.y))
    complete = sample.is_complete
    return NearRows.in_units(sample.X, y, sample.weight, sample.seen, is_complete=complete, centered=centered)


def most_rows(engine: Engine) -> int | None:
    """Return an upper bound of the number of rows of an engine, or None if there is none."""
    while isinstance(engine, FilteredEngine | CheckpointedEngine):
        engine = engine.engine
    return engine.n_rows


def sampled(block: Block, *, size: int, seed: int, residuals: ResidualWeights | None) -> RowSample:
    """Return the sample of the rows of a block."""
    scores = None if residuals is None else residuals(block.X)
    return RowSample.of(block, size=size, seed=seed, scores=scores)


def unit_of(targets: Array) -> float:
    """Return a power of two by which targets are divided so that their squares neither overflow nor underflow."""
    largest = float(np.abs(targets).max(initial=0.0))
    if largest == 0 or SMALLEST_TARGET <= largest <= LARGEST_TARGET:
        return 1.0
    return float(2.0 ** np.frexp(largest)[1].clip(-1022, 1022))


def positive_rows(weight: Array | None, n: int) -> int:
    """Return the number of rows with a positive weight."""
    return n if weight is None else int(np.count_nonzero(weight > 0))
