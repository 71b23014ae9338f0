"""Where k-means starts: rows far apart, chosen by chance in a way that neither blocks nor order of rows can change.

Chance belongs to the content of a row: an exponential number hashed from its entries and the seed. So the same rows
are chosen in memory, from a stream and on a cluster, and a row repeated is chosen as a row with a weight is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from mercer.engines import Block, DistinctRows, Engine, exponentials, row_hashes
from mercer.learners.lloyd import Centres, Draw, feature_tiles, nearest

__all__ = ["candidates_by_passes", "feature_distances", "kernel_distances", "plus_plus", "uniform_rows"]

Array = np.ndarray
# k-means++ looks at a sample of so many rows, or of so many a cluster.
SAMPLE_ROWS = 4096
SAMPLE_ROWS_PER_CLUSTER = 20
# k-means|| takes this many candidates a cluster in each pass, and so many passes after the first.
CANDIDATES_PER_CLUSTER = 2
ROUNDS = 3


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
    """The term of a sample of distinct rows in proportion to their squared distances from the nearest centre."""

    draw: Draw
    centres: Array  # (k, D)
    size: int
    seed: int

    def __call__(self, block: Block) -> DistinctRows:
        hashes = row_hashes(block.X)
        keys = exponentials(hashes, self.seed)
        for rows, Z in feature_tiles(self.draw, block):
            distances = Centres(self.centres, Z.dtype).distances(Z).min(axis=0)
            with np.errstate(divide="ignore"):
                keys[rows] /= distances
        return DistinctRows.of(block, hashes, keys, size=self.size)


@dataclass(frozen=True)
class CellWeights:
    """The term of the weights of the rows nearest to each centre."""

    draw: Draw
    centres: Array  # (k, D)

    def __call__(self, block: Block) -> Array:
        total = np.zeros(len(self.centres))
        for rows, Z in feature_tiles(self.draw, block):
            centres = Centres(self.centres, Z.dtype)
            labels, _ = nearest(centres.scores(Z), centres.norms, centres.eps)
            total += np.bincount(labels, None if block.weight is None else block.weight[rows], len(total))
        return total


def uniform_rows(engine: Engine, n_clusters: int, seed: int) -> DistinctRows:
    """Return a uniform sample of the distinct rows with their weights: all of them, if they are few."""
    return engine.sum(UniformRows(max(SAMPLE_ROWS, SAMPLE_ROWS_PER_CLUSTER * n_clusters), seed))


def candidates_by_passes(engine: Engine, draw: Draw, n_clusters: int, seed: int) -> DistinctRows:
    """Return candidates for centres, with the weights of the rows nearest to each: the passes of k-means||.

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
    """Choose rows as centres by greedy k-means++ and return their indices: fewer, if there are no more distinct rows.

    Parameters
    ----------
    distances_to : callable
        Given indices (t,), the squared distances (t, n) of all rows to these.
    weight : ndarray of shape (n,)
        Weights > 0.
    n_clusters : int
        Number of centres.
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
    return lambda chosen: Centres(Z[chosen], Z.dtype).distances(Z)


def kernel_distances(K: Array) -> Callable[[Array], Array]:
    """Return squared distances to chosen rows, k(x, x) - 2 k(x, c) + k(c, c), from the Gram matrix."""
    diagonal = np.diagonal(K).astype(np.float64)
    eps = 16 * float(np.finfo(K.dtype).eps)

    def distances_to(chosen: Array) -> Array:
        size = diagonal + diagonal[chosen][:, None]
        distances = size - 2 * K[chosen]
        distances[distances <= eps * size] = 0.0
        return distances

    return distances_to
