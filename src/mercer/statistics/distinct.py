"""Rows of smallest key, each distinct row once: a sample that neither order nor repetition of rows can change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from mercer.engines.base import Block
from mercer.io.archive import storable
from mercer.statistics.sample import stack

__all__ = ["DistinctRows", "row_hashes"]

# Rows whose entries are hashed at a time.
TILE = 256


@storable
@dataclass(frozen=True)
class DistinctRows:
    """The `size` distinct rows of smallest key, with the weights of all their copies added up.

    Keys that depend on the content of a row alone make this a sample of the distinct rows, the same one for every
    order of the rows, every size of blocks, and whether a row is repeated or has a weight. A row of the final sample
    was among the smallest in every part that has a copy of it, so that no copy is missed. Rows are in the order of
    their hashes.
    """

    size: int
    seen: int  # rows of weight above zero, kept or not, copies counted
    hash: np.ndarray  # (m,), ascending: who a row is
    key: np.ndarray  # (m,)
    X: Any  # (m, d)
    weight: np.ndarray  # (m,)

    @classmethod
    def of(cls, block: Block, hashes: np.ndarray, keys: np.ndarray, *, size: int) -> Self:
        """Return the rows of one block of smallest finite keys; weights of zero never count."""
        weight = np.ones(len(block)) if block.weight is None else block.weight
        candidates = np.flatnonzero(np.isfinite(keys) & (weight > 0))
        seen = int(np.count_nonzero(weight > 0))
        if len(candidates) > size:
            # Copies have equal keys, or nearly so: what may be among the smallest after copies are joined stays.
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
    """Join copies of rows, and keep those of smallest key; ties go to the smaller hash."""
    distinct, first, place = np.unique(hashes, return_index=True, return_inverse=True)
    total = np.bincount(place, weight, len(distinct))
    least = np.full(len(distinct), np.inf)
    np.minimum.at(least, place, keys)
    keep = np.arange(len(distinct))
    if len(keep) > size:
        keep = np.sort(np.argsort(least, kind="stable")[:size])
    return distinct[keep], least[keep], X[first[keep]], total[keep]


def row_hashes(X: Any) -> np.ndarray:
    """Return a number of 64 bits for the content of each row: the same for dense and sparse, float32 and float64.

    The bits of the entries, folded so that no part of them is all zeros, times one odd number a column, added up.
    Entries of zero, of either sign, add nothing.
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
    """Return the bits of float64 numbers, with their upper parts folded onto the lower; zeros give zero."""
    bits = (values.astype(np.float64) + 0.0).view(np.uint64)  # adding zero makes -0.0 to 0.0
    return bits ^ (bits >> np.uint64(32)) ^ (bits >> np.uint64(52))


def odd_numbers(n: int) -> np.ndarray:
    """Return n odd numbers of 64 bits, always the same (SplitMix64)."""
    with np.errstate(over="ignore"):
        z = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z ^ (z >> np.uint64(31))) | np.uint64(1)
