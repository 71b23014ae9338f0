"""A sample of the distinct rows, which depends neither on the order of the rows nor on how often a row is repeated.

Copies are rows of equal content. They are recognized by a hash of the content.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from mercer.engines.base import Block
from mercer.io.archive import storable
from mercer.statistics.sample import stack

__all__ = ["DistinctRows", "row_hashes"]

# Number of rows that are hashed at a time.
TILE = 256


@storable
@dataclass(frozen=True)
class DistinctRows:
    """The `size` distinct rows with the smallest keys, each with the total weight of its copies.

    The caller computes the key of a row from its content alone. The sample is therefore the same for every order of the
    rows and every division into blocks, and a row repeated k times is equivalent to one row of weight k. In every block
    that contains a copy of a row of the final sample, this row has one of the `size` smallest keys, so the weights of
    all its copies are counted. The rows of the sample are ordered by their hashes.
    """

    size: int
    seen: int  # number of rows with a positive weight, copies included, sampled or not
    hash: np.ndarray  # (m,), hashes of the content of the rows, ascending
    key: np.ndarray  # (m,)
    X: Any  # (m, d)
    weight: np.ndarray  # (m,), total weights of the copies

    @classmethod
    def of(cls, block: Block, hashes: np.ndarray, keys: np.ndarray, *, size: int) -> Self:
        """Return the `size` distinct rows of a block with the smallest finite keys, given the hash and key of each row.

        Rows of weight zero are left out.
        """
        weight = np.ones(len(block)) if block.weight is None else block.weight
        candidates = np.flatnonzero(np.isfinite(keys) & (weight > 0))
        seen = int(np.count_nonzero(weight > 0))
        if len(candidates) > size:
            # Discard rows that cannot be among the smallest keys after copies are merged. Keys of copies are equal up
            # to rounding, so one copy per hash suffices for the bound.
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
    """Merge copies of rows, and return the `size` distinct rows with the smallest keys.

    Rows with equal hashes are copies. If keys are equal, the smaller hash comes first.

    Returns
    -------
    hashes : ndarray of shape (m,)
        Ascending.
    keys : ndarray of shape (m,)
        For each row, the smallest key of its copies.
    X : ndarray or CSR of shape (m, d)
    weight : ndarray of shape (m,)
        Total weights of the copies.
    """
    distinct, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    total = np.bincount(inverse, weight, len(distinct))
    least = np.full(len(distinct), np.inf)
    np.minimum.at(least, inverse, keys)
    keep = np.arange(len(distinct))
    if len(keep) > size:
        keep = np.sort(np.argsort(least, kind="stable")[:size])
    return distinct[keep], least[keep], X[first[keep]], total[keep]


def row_hashes(X: Any) -> np.ndarray:
    """Return a 64-bit hash of the content of each row, the same for dense and sparse, float32 and float64 rows.

    The hash of a row x is the sum over columns j of ``folded_bits(x[j]) * odd_numbers(d)[j]``, modulo 2^64. Entries
    that are 0.0 or -0.0 contribute nothing.
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
    """Return the float64 bits of numbers, with the upper bits XORed into the lower bits. 0.0 and -0.0 give 0."""
    bits = (values.astype(np.float64) + 0.0).view(np.uint64)  # adding zero turns -0.0 into 0.0
    return bits ^ (bits >> np.uint64(32)) ^ (bits >> np.uint64(52))


def odd_numbers(n: int) -> np.ndarray:
    """Return a fixed sequence of n odd 64-bit numbers (SplitMix64)."""
    with np.errstate(over="ignore"):
        z = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z ^ (z >> np.uint64(31))) | np.uint64(1)
