"""The rows that a local model consists of: distinct rows with the mean of their targets and their total weight."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np

from mercer.engines import Block, Engine, Report
from mercer.features import Features, rows_to_features
from mercer.kernels import Kernel
from mercer.statistics import RowSample, exponentials, row_hashes

__all__ = ["NearRows", "ResidualWeights", "collect"]

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class NearRows:
    """Distinct rows in random order.

    A row that is repeated, or that has a weight, is one row, since copies of a row would take the positions of other
    near rows. The order depends on the order of the data only, so it is the same in other blocks, with repetitions in
    place of weights, and for features in other units.
    """

    X: Any  # (n, d), array or CSR
    targets: Array  # (n, t), weighted means over the copies of a row
    weight: Array  # (n,), total weights > 0 of the copies
    scatter: Array  # (n, t), weighted sums of squared differences of the targets of the copies from their mean
    n_rows: int  # number of rows with a positive weight that were read, copies included
    is_complete: bool  # whether all of them are here

    @classmethod
    def of(cls, X: Any, targets: Array, weight: Array | None, n_rows: int, *, is_complete: bool) -> Self:
        """Merge the copies of rows. Rows of weight zero are left out."""
        weight = np.ones(X.shape[0]) if weight is None else np.asarray(weight, dtype=np.float64)
        used = np.flatnonzero(weight > 0)
        X, targets, weight = (
            (X, targets, weight) if len(used) == len(weight) else (X[used], targets[used], weight[used])
        )
        _, first, copy_of = np.unique(row_hashes(X), return_index=True, return_inverse=True)
        # Distinct rows in the order of the data, then in an order that is random and always the same.
        order = np.argsort(first)[np.argsort(exponentials(np.arange(len(first), dtype=np.uint64), 0), kind="stable")]
        first = first[order]
        if len(first) == len(weight):
            return cls(X[first], targets[first], weight[first], np.zeros_like(targets), n_rows, is_complete)
        position = np.empty_like(order)
        position[order] = np.arange(len(order))
        copy_of = position[copy_of]
        total = np.bincount(copy_of, weight)
        means = np.stack([np.bincount(copy_of, weight * column) for column in targets.T], axis=1) / total[:, None]
        squares = weight[:, None] * np.square(targets - means[copy_of])
        scatter = np.stack([np.bincount(copy_of, column) for column in squares.T], axis=1)
        return cls(X[first], means, total, scatter, n_rows, is_complete)

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
    residuals : ResidualWeights, default=None
        If there are more than `most` rows, they are sampled with probabilities in proportion to these numbers; None
        samples them uniformly.
    report : callable or None, default=None
        Receives the progress.
    """
    rows = engine.in_memory
    if rows is not None and len(rows) <= most:
        return NearRows.of(
            rows.X, targets(rows.y), rows.weight, positive_rows(rows.weight, len(rows)), is_complete=True
        )
    sample = engine.sum(partial(sampled, size=most, seed=seed, residuals=residuals), report)
    return NearRows.of(sample.X, targets(sample.y), sample.weight, sample.seen, is_complete=sample.is_complete)


def sampled(block: Block, *, size: int, seed: int, residuals: ResidualWeights | None) -> RowSample:
    """Return the sample of the rows of a block."""
    scores = None if residuals is None else residuals(block.X)
    return RowSample.of(block, size=size, seed=seed, scores=scores)


def positive_rows(weight: Array | None, n: int) -> int:
    """Return the number of rows with a positive weight."""
    return n if weight is None else int(np.count_nonzero(weight > 0))
