"""The nearest rows of queries as a statistic: the nearest rows of two parts of the data give those of their union.

So rows can be searched where they are, block by block, and only the nearest rows of each query are sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mercer.io.archive import storable
from mercer.neighbors import neighbor_index
from mercer.statistics.distinct import row_hashes
from mercer.statistics.sample import exponentials, stack

__all__ = ["MOST_COPIES", "NearestRows"]

Array = np.ndarray
# Number of copies of a row whose targets are stored, for the distribution of errors.
MOST_COPIES = 100


@storable
@dataclass(frozen=True)
class NearestRows:
    """The distinct rows that are the nearest ones of some queries, with the moments of their targets.

    Rows of equal content are copies, which are merged. A row that is among the nearest ones of a query is so in every
    part of the data that has copies of it, so all its copies are counted. The sum depends neither on the order of the
    rows nor on their division into blocks, up to rounding: at equal distances, rows of smaller hash come first.
    """

    seen: int  # number of rows with a positive weight that were searched, copies included
    distances: Array  # (m, k), ascending; infinity where there are fewer rows
    index: Array  # (m, k), indices of the rows below; -1 where there are fewer
    hash: Array  # (r,), hashes of the content of the rows, ascending
    X: Any  # (r, d)
    weight: Array  # (r,), total weights of the copies
    targets: Array  # (r, t), weighted means over the copies
    scatter: Array  # (r, t), weighted sums of squared differences from these means
    #: A random sample of at most `MOST_COPIES` copies of each row: the row, the key by which it was sampled, targets
    #: and weight.
    copy_row: Array  # (c,)
    copy_key: Array  # (c,)
    copy_targets: Array  # (c, t)
    copy_weight: Array  # (c,)

    @classmethod
    def of(
        cls,
        X: Any,
        points: Any,
        targets: Array,
        weight: Array | None,
        positions: Array,
        queries: Any,
        count: int,
        own: Array | None = None,
    ) -> Self:
        """Return the nearest rows of queries among the rows of one block.

        Parameters
        ----------
        X : ndarray or CSR of shape (n, d)
            Rows.
        points : ndarray or CSR of shape (n, p)
            Points of the rows, whose Euclidean distances to the queries are compared.
        targets : ndarray of shape (n, t)
            Targets.
        weight : ndarray of shape (n,) or None
            Weights; rows of weight zero are not found. None means ones.
        positions : ndarray of shape (n,)
            Indices of the rows in the data, from which the keys of copies are derived.
        queries : ndarray or CSR of shape (m, p)
            Points of the queries.
        count : int
            Number of nearest rows of each query.
        own : ndarray of shape (m,), default=None
            Hashes of the queries, if they are rows of the data: each is the first of its own nearest rows, at the
            distance -1, also if further rows have the same point.
        """
        weight = np.ones(X.shape[0]) if weight is None else np.asarray(weight, dtype=np.float64)
        used = np.flatnonzero(weight > 0)
        hashes, first, row = np.unique(row_hashes(X[used]), return_index=True, return_inverse=True)
        shape = queries.shape[0], count
        distances, index = np.full(shape, np.inf), np.full(shape, -1, dtype=np.intp)
        if len(used) and shape[0]:
            # Distinct rows are in the order of their hashes, so ties are in this order too.
            rows = neighbor_index(points[used[first]], search="exact", n_jobs=1)
            index, distances = rows.query(queries, count, n_jobs=1)
            if own is not None:
                at = np.minimum(np.searchsorted(hashes, own), len(hashes) - 1)
                present = hashes[at] == own
                index = np.column_stack([np.where(present, at, -1), index])
                distances = np.column_stack([np.where(present, -1.0, np.inf), distances])
                index, distances = nearest_distinct(index, distances, count)
        found = np.zeros(len(first), dtype=bool)
        found[index[index >= 0]] = True
        of_found = found[row]  # for each used row, whether it is among the nearest ones of a query
        some = used[of_found]
        number = np.cumsum(found) - 1
        return cls._merged(
            len(used),
            distances,
            _mapped(number, index),
            hashes[found],
            X[used[first[found]]],
            number[row[of_found]],
            weight[some],
            targets[some],
            np.zeros((len(some), targets.shape[1])),
            (
                number[row[of_found]],
                exponentials(positions[some].astype(np.uint64), 1),
                targets[some],
                weight[some],
            ),
        )

    @classmethod
    def _merged(
        cls,
        seen: int,
        distances: Array,
        index: Array,
        hashes: Array,
        X: Any,
        row: Array,
        weight: Array,
        targets: Array,
        scatter: Array,
        copies: tuple[Array, Array, Array, Array],
    ) -> Self:
        """Merge moments: entry i of `weight`, `targets` and `scatter` belongs to the row with the index ``row[i]``."""
        r = len(hashes)
        total = np.bincount(row, weight, r)
        sums = [np.bincount(row, weight * column, r) for column in targets.T]
        means = np.stack(sums, axis=1) / total[:, None] if r else np.zeros((0, targets.shape[1]))
        spread = scatter + weight[:, None] * np.square(targets - means[row])
        scattered = [np.bincount(row, column, r) for column in spread.T]
        of_row, key, *values = copies
        order = np.lexsort((key, of_row))
        of_row = of_row[order]
        starts = np.flatnonzero(np.diff(of_row, prepend=-1))
        rank = np.arange(len(of_row)) - np.repeat(starts, np.diff(starts, append=len(of_row)))
        kept = order[rank < MOST_COPIES]
        return cls(
            seen,
            distances,
            index,
            hashes,
            X,
            total,
            means,
            np.stack(scattered, axis=1) if r else np.zeros_like(means),
            copies[0][kept],
            key[kept],
            values[0][kept],
            values[1][kept],
        )

    def __add__(self, other: NearestRows) -> NearestRows:
        count = self.distances.shape[1]
        hashes, first, row = np.unique(np.concatenate([self.hash, other.hash]), return_index=True, return_inverse=True)
        mine, theirs = row[: len(self.hash)], row[len(self.hash) :]
        index = np.concatenate([_mapped(mine, self.index), _mapped(theirs, other.index)], axis=1)
        distances = np.concatenate([self.distances, other.distances], axis=1)
        index, distances = nearest_distinct(index, distances, count)
        found = np.zeros(len(hashes), dtype=bool)
        found[index[index >= 0]] = True
        number = np.where(found, np.cumsum(found) - 1, -1)
        parts = [(self, mine), (other, theirs)]
        of_rows = np.concatenate([found[rows] for _, rows in parts])
        of_copies = np.concatenate([found[rows[part.copy_row]] for part, rows in parts])

        def joined(name: str, used: Array) -> Array:
            return np.concatenate([getattr(part, name) for part, _ in parts])[used]

        return NearestRows._merged(
            self.seen + other.seen,
            distances,
            _mapped(number, index),
            hashes[found],
            stack(self.X, other.X)[first[found]],
            number[row[of_rows]],
            joined("weight", of_rows),
            joined("targets", of_rows),
            joined("scatter", of_rows),
            (
                number[np.concatenate([rows[part.copy_row] for part, rows in parts])[of_copies]],
                joined("copy_key", of_copies),
                joined("copy_targets", of_copies),
                joined("copy_weight", of_copies),
            ),
        )

    def __len__(self) -> int:
        return len(self.hash)


def _mapped(number: Array, index: Array) -> Array:
    """Return ``number[index]``, and -1 where the index is -1."""
    return np.where(index < 0, -1, number[index]) if len(number) else np.full(index.shape, -1, dtype=np.intp)


def nearest_distinct(index: Array, distances: Array, count: int) -> tuple[Array, Array]:
    """Return the `count` nearest distinct candidates of each query, sorted by distance, ties by index.

    A candidate may occur twice, as a row does whose copies are in two parts of the data.
    """
    order = np.argsort(index, axis=1, kind="stable")
    index, distances = np.take_along_axis(index, order, axis=1), np.take_along_axis(distances, order, axis=1)
    again = index[:, 1:] == index[:, :-1]
    distances[:, 1:][again] = np.inf
    order = np.argsort(distances, axis=1, kind="stable")[:, :count]
    index, distances = np.take_along_axis(index, order, axis=1), np.take_along_axis(distances, order, axis=1)
    index[np.isinf(distances)] = -1
    return index, distances
