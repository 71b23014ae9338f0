"""A random sample of the distinct rows, which depends neither on the order nor on the repetition of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from mercer.engines.base import Block
from mercer.io.archive import storable
from mercer.statistics.sample import stack

__all__ = ["DistinctRows", "row_hashes"]

# Rows that are hashed at a time.
TILE = 256


@storable
@dataclass(frozen=True)
class DistinctRows:
    """The `size` distinct rows with the smallest keys, each with the total weight of its copies.

    Keys depend on the content of a row alone, so the sample is the same for every order of the rows and every size of
    the blocks, and for a row that is repeated as for a row with a weight. A row of the final sample has one of the
    smallest keys in every part that contains a copy of it, so no copy is missed. Rows are ordered by their hashes.
    """

    size: int
    seen: int  # number of rows with a positive weight, copies included, sampled or not
    hash: np.ndarray  # (m,), ascending: identifies the content of a row
    key: np.ndarray  # (m,)
    X: Any  # (m, d)
    weight: np.ndarray  # (m,)

    @classmethod
    def of(cls, block: Block, hashes: np.ndarray, keys: np.ndarray, *, size: int) -> Self:
        """Return the rows of one block with the smallest finite keys; rows of weight zero are left out."""
        weight = np.ones(len(block)) if block.weight is None else block.weight
        candidates = np.flatnonzero(np.isfinite(keys) & (weight > 0))
        seen = int(np.count_nonzero(weight > 0))
        if len(candidates) > size:
            # Copies have equal keys, or nearly so. What may be among the smallest after merging copies is retained.
            distinct, first = np.unique(hashes[candidates], return_index=True)
            if len(distinct) > size:
                bound = np.partition(keys[candidates[first]], size - 1)[size - 1]
                candidates = candidates[keys[candidates] <= bound]
        X = block.X[candidates]
        return cls(size, seen, *merged(size, hashes[candidates], keys[candidates], X, weight[candidates]))

    def __add__(self, other: DistinctRows) -> DistinctRows:
        hashes = np.concatenate([self.hash, other.hash])
        keys = np.concatenate([self.key, other.key])
        weight = np.concatenate([self.weight, other.weight])
        rows = merged(self.size, hashes, keys, stack(self.X, other.X), weight)
        return DistinctRows(self.size, self.seen + other.seen, *rows)

    def __len__(self) -> int:
        return len(self.hash)


def merged(
    size: int, hashes: np.ndarray, keys: np.ndarray, X: Any, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray, Any, np.ndarray]:
    """Merge copies of rows, and return those with the smallest keys; ties go to the smaller hash."""
    distinct, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    total = np.bincount(inverse, weight, len(distinct))
    least = np.full(len(distinct), np.inf)
    np.minimum.at(least, inverse, keys)
    keep = np.arange(len(distinct))
    if len(keep) > size:
        keep = np.sort(np.argsort(least, kind="stable")[:size])
    return distinct[keep], least[keep], X[first[keep]], total[keep]


def row_hashes(X: Any) -> np.ndarray:
    """Return a 64-bit hash of the content of each row, equal for dense and sparse, float32 and float64 rows.

    The hash is the sum over columns of the folded bits of the entry times an odd number, one per column. Entries that
    are zero, of either sign, contribute nothing.
    """
    odd = odd_numbers(X.shape[1])
    out = np.empty(X.shape[0], np.uint64)
    if sp.issparse(X):
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        ends = np.concatenate(
            [np.zeros(1, np.uint64), np.cumsum(folded_bits(X.data) * odd[X.indices], dtype=np.uint64)]
        )
        return np.diff(ends[X.indptr])
    for start in range(0, X.shape[0], TILE):
        rows = slice(start, start + TILE)
        np.matmul(folded_bits(X[rows]), odd, out=out[rows])
    return out


def folded_bits(values: np.ndarray) -> np.ndarray:
    """Return the bits of float64 numbers with the upper bits folded onto the lower ones; zeros give zero."""
    bits = (values.astype(np.float64) + 0.0).view(np.uint64)  # adding zero turns -0.0 into 0.0
    return bits ^ (bits >> np.uint64(32)) ^ (bits >> np.uint64(52))


def odd_numbers(n: int) -> np.ndarray:
    """Return a fixed sequence of n odd 64-bit numbers (SplitMix64)."""
    with np.errstate(over="ignore"):
        z = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z ^ (z >> np.uint64(31))) | np.uint64(1)
