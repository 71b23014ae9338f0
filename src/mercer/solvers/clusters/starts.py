"""Where k-means starts: rows far apart, chosen by chance in a way that neither blocks nor order of rows can change.

Chance belongs to the content of a row: an exponential number hashed from its entries and the seed. So the same rows
are chosen in memory, from a stream and on dask, and a row repeated is chosen as a row with a weight is.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.engines import Block, Engine, MemoryEngine
from mercer.errors import DataError, MercerWarning
from mercer.kernels import Kernel
from mercer.solvers.clusters.lloyd import ROUNDING_UNITS, Centers, Draw, nearest, tiles_beside
from mercer.statistics import DistinctRows, exponentials, row_hashes
from mercer.statistics.sample import as_generator
from mercer.statistics.shifts import point_near

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
# k-means++ looks at a sample of so many rows, fewer if they are wide, but so many a cluster.
SAMPLE_ROWS = 4096
SAMPLE_BYTES = 512 * 2**20
SAMPLE_ROWS_PER_CLUSTER = 20
# k-means|| takes this many candidates a cluster in each pass, and so many passes after the first.
CANDIDATES_PER_CLUSTER = 2
ROUNDS = 3
STARTS = ("k-means++", "k-means||")


@dataclass(frozen=True)
class Start:
    """The rule by which first centers are found, for features or for a Gram matrix."""

    owner: str
    init: Any  # one of STARTS, or rows (k, d)
    n_clusters: int
    n_init: int
    width: int  # of the rows
    seed: int

    def on_features(self, engine: Engine, draw: Draw) -> Array:
        """Return first centers, (s, k, D)."""
        if not isinstance(self.init, str):
            self._check_enough(engine.n_rows)
            return draw.of(self.init)[None]
        if self.init == "k-means++":
            pool = uniform_rows(engine, self.n_clusters, self.width, self.seed)
        else:
            pool = candidates_by_passes(engine, draw, self.n_clusters, self.seed)
        self._check_enough(pool.seen)
        Z = draw.of(pool.X)
        return Z[self._chosen(feature_distances(Z), pool.weight)]

    def on_gram(self, engine: MemoryEngine, K: Array, kernel: Kernel) -> Iterator[Array]:
        """Yield squared distances of all rows to first centers, (n, k)."""
        if not isinstance(self.init, str):
            self._check_enough(engine.n_rows)
            diagonal = np.diagonal(K)[:, None].astype(np.float64)
            init = self.init.astype(np.float64)
            yield diagonal - 2 * kernel(engine.X.astype(np.float64), init) + kernel.diag(init)
            return
        pool = uniform_rows(engine, self.n_clusters, self.width, self.seed)
        self._check_enough(pool.seen)
        hashes, first = np.unique(row_hashes(engine.X), return_index=True)
        places = first[np.searchsorted(hashes, pool.hash)]
        distances = kernel_distances(K[np.ix_(places, places)])
        for chosen in self._chosen(distances, pool.weight):
            yield kernel_distances(K)(places[chosen]).T

    def _chosen(self, distances_to: Callable[[Array], Array], weight: Array) -> Array:
        """Return rows chosen by k-means++ for each start, (s, k)."""
        starts = []
        for number in range(self.n_init):
            chosen = plus_plus(distances_to, weight, self.n_clusters, as_generator(self.seed + number))
            if len(chosen) < self.n_clusters and not number:
                msg = (
                    f"{self.owner}: the kernel sees only {len(chosen)} distinct rows, fewer than "
                    f"n_clusters={self.n_clusters}: some clusters stay empty."
                )
                warnings.warn(msg, MercerWarning, stacklevel=2)
            starts.append(np.resize(chosen, self.n_clusters))
        return np.array(starts)

    def _check_enough(self, rows: int | None) -> None:
        if rows is not None and rows < self.n_clusters:
            msg = (
                f"{self.owner}: there must be at least as many rows of weight above zero as clusters, got "
                f"n_samples={rows} and n_clusters={self.n_clusters}. Ask for fewer clusters."
            )
            raise DataError(msg)


@dataclass(frozen=True)
class UniformRows:
    """The term of a uniform sample of the distinct rows."""

    size: int
    seed: int

    def __call__(self, block: Block) -> DistinctRows:
        hashes = row_hashes(block.X)
        return DistinctRows.of(block, hashes, exponentials(hashes, self.seed), size=self.size)


@dataclass(frozen=True)
class FarRows:
    """The term of a sample of distinct rows in proportion to their squared distances from the nearest center."""

    draw: Draw
    centers: Array  # (k, D)
    size: int
    seed: int

    def __call__(self, block: Block) -> DistinctRows:
        hashes = row_hashes(block.X)
        keys = exponentials(hashes, self.seed)
        for rows, Z, centers in tiles_beside(self.centers, self.draw, block):
            distances = centers.distances(Z).min(axis=0)
            with np.errstate(divide="ignore"):
                keys[rows] /= distances
        return DistinctRows.of(block, hashes, keys, size=self.size)


@dataclass(frozen=True)
class CellWeights:
    """The term of the weights of the rows nearest to each center."""

    draw: Draw
    centers: Array  # (k, D)

    def __call__(self, block: Block) -> Array:
        total = np.zeros(len(self.centers))
        for rows, Z, centers in tiles_beside(self.centers, self.draw, block):
            labels, _ = nearest(centers.scores(Z), centers.norms, centers.eps)
            total += np.bincount(labels, None if block.weight is None else block.weight[rows], len(total))
        return total


def uniform_rows(engine: Engine, n_clusters: int, width: int, seed: int) -> DistinctRows:
    """Return a uniform sample of the distinct rows with their weights: all of them, if they are few."""
    fitting = min(SAMPLE_ROWS, SAMPLE_BYTES // (8 * width))
    return engine.sum(UniformRows(max(fitting, SAMPLE_ROWS_PER_CLUSTER * n_clusters), seed))


def candidates_by_passes(engine: Engine, draw: Draw, n_clusters: int, seed: int) -> DistinctRows:
    """Return candidates for centers, with the weights of the rows nearest to each: the passes of k-means||.

    Bahmani et al. (2012), with a fixed number of candidates a pass, drawn without replacement, and a uniform sample to
    begin with.
    """
    size = CANDIDATES_PER_CLUSTER * n_clusters
    pool = replace(engine.sum(UniformRows(size, seed)), size=size * (ROUNDS + 1))
    if not len(pool):
        return pool
    seen = pool.seen
    for number in range(1, ROUNDS + 1):
        more = engine.sum(FarRows(draw, draw.of(pool.X), size, seed + number))
        if not len(more):
            break
        pool = pool + more
    return replace(pool, seen=seen, weight=engine.sum(CellWeights(draw, draw.of(pool.X))))


def plus_plus(
    distances_to: Callable[[Array], Array], weight: Array, n_clusters: int, rng: np.random.Generator
) -> Array:
    """Choose rows as centers by greedy k-means++ and return their indices: fewer, if there are no more distinct rows.

    Parameters
    ----------
    distances_to : callable
        Given indices (t,), the squared distances (t, n) of all rows to these.
    weight : ndarray of shape (n,)
        Weights > 0.
    n_clusters : int
        Number of centers.
    rng : Generator
        Source of chance.

    Notes
    -----
    Of 2 + log(k) rows drawn in proportion to weight times squared distance, the one that lowers the inertia most is
    taken (Arthur, Vassilvitskii 2007).
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
    return np.concatenate(chosen)


def drawn(mass: Array, uniform: Array) -> Array:
    """Return indices drawn in proportion to a mass, by uniform numbers."""
    ends = np.cumsum(mass)
    places = np.searchsorted(ends, uniform * ends[-1], side="right")
    return np.minimum(places, np.flatnonzero(mass)[-1])


def feature_distances(Z: Array) -> Callable[[Array], Array]:
    """Return squared distances to chosen rows, from the features of all."""
    point = point_near(Z)
    near = Z - point
    return lambda chosen: Centers(Z[chosen], Z.dtype, point).distances(near)


def kernel_distances(K: Array) -> Callable[[Array], Array]:
    """Return squared distances to chosen rows, k(x, x) - 2 k(x, c) + k(c, c), from the Gram matrix."""
    diagonal = np.diagonal(K).astype(np.float64)
    eps = ROUNDING_UNITS * float(np.finfo(K.dtype).eps)

    def distances_to(chosen: Array) -> Array:
        size = diagonal + diagonal[chosen][:, None]
        distances = size - 2 * K[chosen]
        distances[distances <= eps * size] = 0.0
        return distances

    return distances_to
