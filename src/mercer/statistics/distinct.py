"""A sample of the distinct rows, which depends neither on the order of the rows nor on how often a row is repeated.

Copies are rows of equal content. They are recognized by a hash of the content.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from mercer.engines.base import Block
from mercer.io.archive import storable
from mercer.statistics.sample import exponentials, stack

__all__ = ["DistinctRows", "SampleDistinct", "rank_hashes", "row_hashes"]

# Number of rows that are hashed at a time.
TILE = 256
# Number of leading bits of a projection of a row that its key depends on: the others vary with the order of summation.
KEY_BITS = 40
# Sparse rows with more features than this are not ranked, which needs dense columns.
MOST_RANKED = 2048


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
    y: np.ndarray | None = None  # (m,), targets, if the hashes include them

    @classmethod
    def of(cls, block: Block, hashes: np.ndarray, keys: np.ndarray, *, size: int, targets: bool = False) -> Self:
        """Return the `size` distinct rows of a block with the smallest finite keys, given the hash and key of each row.

        Rows of weight zero are left out. With `targets`, rows are copies only if their targets are equal too, and the
        hashes must depend on the targets.
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
        X, y = block.X[candidates], block.y[candidates] if targets and block.y is not None else None
        return cls(size, seen, *merged(size, hashes[candidates], keys[candidates], X, weight[candidates], y))

    def __add__(self, other: DistinctRows) -> DistinctRows:
        hashes = np.concatenate([self.hash, other.hash])
        keys = np.concatenate([self.key, other.key])
        weight = np.concatenate([self.weight, other.weight])
        y = None if self.y is None or other.y is None else np.concatenate([self.y, other.y])
        rows = merged(self.size, hashes, keys, stack(self.X, other.X), weight, y)
        return DistinctRows(self.size, self.seen + other.seen, *rows)

    def __len__(self) -> int:
        return len(self.hash)


def merged(
    size: int, hashes: np.ndarray, keys: np.ndarray, X: Any, weight: np.ndarray, y: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, Any, np.ndarray, np.ndarray | None]:
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
    y : ndarray of shape (m,) or None
    """
    distinct, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    total = np.bincount(inverse, weight, len(distinct))
    least = np.full(len(distinct), np.inf)
    np.minimum.at(least, inverse, keys)
    keep = np.arange(len(distinct))
    if len(keep) > size:
        keep = np.sort(np.argsort(least, kind="stable")[:size])
    chosen = first[keep]
    return distinct[keep], least[keep], X[chosen], total[keep], None if y is None else y[chosen]


@dataclass(frozen=True)
class SampleDistinct:
    """Function of a block of rows with labels that returns a random sample of its distinct rows, with their labels.

    A row of weight k and k copies of the row give the same sample. A key that is cheap to compute selects the rows, and
    only these are hashed, to find copies. If copies got different keys because of rounding, which is very unlikely,
    they would only be sampled separately.
    """

    size: int
    seed: int

    def __call__(self, block: Block) -> DistinctRows:
        labels = label_hashes(block.y)
        keys = exponentials(projections(block.X) ^ labels, self.seed)
        is_chosen = np.ones(len(block), dtype=bool) if block.weight is None else block.weight > 0
        seen = int(np.count_nonzero(is_chosen))
        distinct = np.unique(keys[is_chosen])
        if len(distinct) > self.size:
            is_chosen &= keys <= distinct[self.size - 1]
        weight = None if block.weight is None else block.weight[is_chosen]
        chosen = Block(block.start, block.X[is_chosen], block.y[is_chosen], weight)
        hashes = row_hashes(chosen.X) ^ labels[is_chosen]
        return replace(DistinctRows.of(chosen, hashes, keys[is_chosen], size=self.size, targets=True), seen=seen)


def projections(X: Any) -> np.ndarray:
    """Return the leading bits of the inner product of each row with a fixed vector, nearly always equal for copies."""
    direction = odd_numbers(X.shape[1]).astype(np.float64) / 2.0**63 - 1
    out = np.empty(X.shape[0])
    for start in range(0, X.shape[0], TILE):
        rows = slice(start, start + TILE)
        out[rows] = X[rows].astype(np.float64, copy=False) @ direction
    shift = np.uint64(64 - KEY_BITS)
    return ((out + 0.0).view(np.uint64) + (np.uint64(1) << (shift - np.uint64(1)))) >> shift


def label_hashes(y: np.ndarray) -> np.ndarray:
    """Return a hash of the label of each row, the same in every process."""
    labels, codes = np.unique(y, return_inverse=True)
    hashes = np.array([zlib.crc32(str(label).encode()) for label in labels.tolist()], dtype=np.uint64)
    return (hashes << np.uint64(17))[codes]


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


def rank_hashes(X: Any) -> np.ndarray:
    """Return a hash of each row that depends on the ranks of its entries among the values of their features.

    Of wide sparse rows it is the hash of their content.
    """
    if sp.issparse(X):
        if X.shape[1] > MOST_RANKED:
            return row_hashes(X)
        X = X.toarray()
    ranks = np.empty(X.shape)
    for column in range(X.shape[1]):
        ranks[:, column] = 1 + np.unique(X[:, column], return_inverse=True)[1]
    return row_hashes(ranks[:, ranks.max(axis=0, initial=0) > 1])  # constant features do not matter


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
