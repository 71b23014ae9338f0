"""Initialization of k-means: k-means++ and k-means||, independent of the blocks and of the order of the rows.

Rows are sampled by random keys. The key of a row is an exponential variate, computed from a hash of the entries of the
row and the seed. The sample consists of the rows with the smallest keys. So the same rows are chosen in memory, from a
stream and on Dask, and a repeated row is equivalent to a row with a weight.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.engines import Block, Engine, Report, report_step
from mercer.errors import DataError, MercerWarning
from mercer.kernels import Kernel
from mercer.solvers.clusters.lloyd import ROUNDING_UNITS, Centers, nearest, tiles_beside
from mercer.statistics import DistinctRows, exponentials, row_hashes
from mercer.statistics.feature_cache import RowFeatures
from mercer.statistics.moments import point_near
from mercer.statistics.sample import as_generator

__all__ = [
    "STARTS",
    "Start",
    "UniformRows",
    "candidates_by_passes",
    "feature_distances",
    "kernel_distances",
    "plus_plus",
    "uniform_rows",
]

Array = np.ndarray
# Size of the sample for k-means++: the number of rows, the largest number of bytes, which reduces the number of rows
# with many features, and the least number of rows per cluster, which overrides both.
SAMPLE_ROWS = 4096
SAMPLE_BYTES = 512 * 2**20
SAMPLE_ROWS_PER_CLUSTER = 20
# k-means|| samples this many candidates per cluster in each pass. The first pass is followed by this many others.
CANDIDATES_PER_CLUSTER = 2
ROUNDS = 3
STARTS = ("k-means++", "k-means||")


@dataclass(frozen=True)
class Start:
    """The initialization of k-means, on features or on a Gram matrix."""

    owner: str  # name of the learner, for error messages
    init: Any  # one of STARTS, or rows (k, d)
    n_clusters: int
    n_init: int
    width: int  # number of features of the rows
    seed: int

    def on_features(self, engine: Engine, features: RowFeatures, report: Report | None = None) -> Array:
        """Return the k initial centers of each of s starts in the space of the features, (s, k, D).

        `report` receives the number of centers that are chosen.
        """
        if not isinstance(self.init, str):
            self._check_enough(engine.n_rows)
            return features.of(self.init)[None]
        if self.init == "k-means++":
            pool = uniform_rows(engine, self.n_clusters, self.width, self.seed)
        else:
            pool = candidates_by_passes(engine, features, self.n_clusters, self.seed)
        self._check_enough(pool.seen)
        Z = features.of(pool.X)
        return Z[self._chosen(feature_distances(Z), pool.weight, report)]

    def on_gram(self, engine: Engine, X: Any, K: Array, kernel: Kernel) -> Iterator[Array]:
        """Yield, for each start, the squared distances of all rows to the initial centers, (n, k)."""
        if not isinstance(self.init, str):
            self._check_enough(engine.n_rows)
            diagonal = np.diagonal(K)[:, None].astype(np.float64)
            init = self.init.astype(np.float64)
            yield diagonal - 2 * kernel(X.astype(np.float64), init) + kernel.diag(init)
            return
        pool = uniform_rows(engine, self.n_clusters, self.width, self.seed)
        self._check_enough(pool.seen)
        hashes, first = np.unique(row_hashes(X), return_index=True)
        rows = first[np.searchsorted(hashes, pool.hash)]
        distances = kernel_distances(K[np.ix_(rows, rows)])
        for chosen in self._chosen(distances, pool.weight):
            yield kernel_distances(K)(rows[chosen]).T

    def _chosen(self, distances_to: Callable[[Array], Array], weight: Array, report: Report | None = None) -> Array:
        """Return the indices of the k rows that k-means++ chooses as centers for each of s starts, (s, k)."""
        starts = []
        for number in range(self.n_init):
            rng, note = as_generator(self.seed + number), f"start {number + 1} of {self.n_init}"
            chosen = plus_plus(distances_to, weight, self.n_clusters, rng, report, note)
            if len(chosen) < self.n_clusters and not number:
                msg = (
                    f"{self.owner}: only {len(chosen)} rows are distinct for the kernel, fewer than "
                    f"n_clusters={self.n_clusters}: some clusters stay empty."
                )
                warnings.warn(msg, MercerWarning, stacklevel=2)
            starts.append(np.resize(chosen, self.n_clusters))
        return np.array(starts)

    def _check_enough(self, rows: int | None) -> None:
        if rows is not None and rows < self.n_clusters:
            msg = (
                f"{self.owner}: there must be at least as many rows with a positive weight as clusters, got "
                f"n_samples={rows} and n_clusters={self.n_clusters}. Use fewer clusters."
            )
            raise DataError(msg)


@dataclass(frozen=True)
class UniformRows:
    """Function of a block of rows that returns a uniform sample of at most `size` of its distinct rows."""

    size: int
    seed: int

    def __call__(self, block: Block) -> DistinctRows:
        hashes = row_hashes(block.X)
        return DistinctRows.of(block, hashes, exponentials(hashes, self.seed), size=self.size)


@dataclass(frozen=True)
class FarRows:
    """Function of a block of rows that returns a sample of at most `size` of its distinct rows, preferring far rows.

    Rows are sampled without replacement, with probabilities proportional to the squared distance to the nearest center.
    """

    features: RowFeatures
    centers: Array  # (k, D)
    size: int
    seed: int

    def __call__(self, block: Block) -> DistinctRows:
        hashes = row_hashes(block.X)
        keys = exponentials(hashes, self.seed)
        for rows, Z, centers in tiles_beside(self.centers, self.features, block):
            distances = centers.distances(Z).min(axis=0)
            with np.errstate(divide="ignore"):
                keys[rows] /= distances
        return DistinctRows.of(block, hashes, keys, size=self.size)


@dataclass(frozen=True)
class CellWeights:
    """Function of a block of rows that returns, for each center, the total weight of the rows nearest to it (k,)."""

    features: RowFeatures
    centers: Array  # (k, D)

    def __call__(self, block: Block) -> Array:
        total = np.zeros(len(self.centers))
        for rows, Z, centers in tiles_beside(self.centers, self.features, block):
            labels, _ = nearest(centers.scores(Z), centers.norms, centers.eps)
            total += np.bincount(labels, None if block.weight is None else block.weight[rows], len(total))
        return total


def uniform_rows(engine: Engine, n_clusters: int, width: int, seed: int) -> DistinctRows:
    """Return a uniform sample of the distinct rows and their weights, or all distinct rows if there are few."""
    fitting = min(SAMPLE_ROWS, SAMPLE_BYTES // (8 * width))
    return engine.sum(UniformRows(max(fitting, SAMPLE_ROWS_PER_CLUSTER * n_clusters), seed))


def candidates_by_passes(engine: Engine, features: RowFeatures, n_clusters: int, seed: int) -> DistinctRows:
    """Return candidates for centers by k-means||, and the total weight of the rows nearest to each candidate.

    This is the algorithm of Bahmani et al. (2012) with two changes. The number of candidates per pass is fixed, and
    they are sampled without replacement. The first candidates are a uniform sample of the rows.
    """
    size = CANDIDATES_PER_CLUSTER * n_clusters
    pool = replace(engine.sum(UniformRows(size, seed)), size=size * (ROUNDS + 1))
    if not len(pool):
        return pool
    seen = pool.seen
    for number in range(1, ROUNDS + 1):
        more = engine.sum(FarRows(features, features.of(pool.X), size, seed + number))
        if not len(more):
            break
        pool = pool + more
    return replace(pool, seen=seen, weight=engine.sum(CellWeights(features, features.of(pool.X))))


def plus_plus(
    distances_to: Callable[[Array], Array],
    weight: Array,
    n_clusters: int,
    rng: np.random.Generator,
    report: Report | None = None,
    note: str = "",
) -> Array:
    """Choose rows as centers by greedy k-means++, and return their indices.

    If there are fewer than `n_clusters` distinct rows, fewer indices are returned.

    Parameters
    ----------
    distances_to : callable
        Given indices of rows (t,), returns the squared distances (t, n) of all rows to these rows.
    weight : ndarray of shape (n,)
        Weights > 0.
    n_clusters : int
        Number of centers.
    rng : Generator
        Random generator.
    report : callable or None, default=None
        Receives the number of centers that are chosen.
    note : str, default=""
        Note of these reports.

    Notes
    -----
    For each new center, 2 + log(k) rows are sampled with probabilities proportional to weight times squared distance to
    the nearest center chosen so far. Of these rows, the one that lowers the inertia most becomes the center (Arthur,
    Vassilvitskii 2007).
    """
    trials = 2 + int(np.log(n_clusters))
    chosen = [drawn(weight, rng.random(1))]
    closest = distances_to(chosen[0])[0]
    while len(chosen) < n_clusters:
        uniform = rng.random(trials)
        if not closest.any():
            break
        tried = drawn(weight * closest, uniform)
        distances = np.minimum(closest, distances_to(tried))
        best = int(np.argmin(distances @ weight))
        chosen.append(tried[best : best + 1])
        closest = distances[best]
        report_step(report, len(chosen), n_clusters, note, "centers")
    return np.concatenate(chosen)


def drawn(mass: Array, uniform: Array) -> Array:
    """Return random indices with probabilities proportional to `mass`, one for each uniform random number in [0, 1)."""
    ends = np.cumsum(mass)
    indices = np.searchsorted(ends, uniform * ends[-1], side="right")
    return np.minimum(indices, np.flatnonzero(mass)[-1])


def feature_distances(Z: Array) -> Callable[[Array], Array]:
    """Return a function that maps indices (t,) to the squared distances (t, n) of all rows of Z to the rows indexed."""
    point = point_near(Z)
    near = Z - point
    return lambda chosen: Centers(Z[chosen], Z.dtype, point).distances(near)


def kernel_distances(K: Array) -> Callable[[Array], Array]:
    """Return a function that maps indices (t,) to the squared distances (t, n) of all rows to the rows indexed.

    Distances are those in the feature space of the kernel with Gram matrix `K` (n, n).
    """
    diagonal = np.diagonal(K).astype(np.float64)
    eps = ROUNDING_UNITS * float(np.finfo(K.dtype).eps)

    def distances_to(chosen: Array) -> Array:
        size = diagonal + diagonal[chosen][:, None]
        distances = size - 2 * K[chosen]
        distances[distances <= eps * size] = 0.0
        return distances

    return distances_to
