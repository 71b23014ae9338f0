"""One set of frequencies for Gaussian kernels of many lengthscales, and rows whose columns have a common scale.

A Gaussian kernel of any lengthscale is a weighted sum of cosines over the same frequencies w_j,

    k_h(x, y) ~ sum_j a_hj cos(w_j . (x - y)),    a_hj = p_h(w_j) / sum_g c_g p_g(w_j),

where p_h is the spectral density of the kernel, and c_g of the frequencies were drawn from p_g (the balance heuristic
of multiple importance sampling). Another lengthscale is another vector of weights and needs no further components.

Everything here is a function of a sample of distinct rows that does not depend on their order, so that a permutation
test with these features is exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.special import chdtri, ndtri

from mercer.engines import Block, Engine, Report
from mercer.features import Features
from mercer.maps.fourier.projections import DenseProjection
from mercer.metric.inputs import column_spreads
from mercer.statistics import DistinctRows, exponentials, row_hashes

__all__ = [
    "Collection",
    "PooledRows",
    "ScaledRows",
    "SharedFrequencies",
    "gaussian_collection",
    "pooled_rows",
    "scaled_rows",
    "shared_frequencies",
]

Array = np.ndarray
# Number of distinct rows from which the scales of columns are computed, and of those between which distances are.
SAMPLE_ROWS, DISTANCE_ROWS = 2000, 500
# A feature that is constant so far is divided by this share of its value: any change of it is a change.
CONSTANT_SHARE = 1e-3
# The lengthscales are a geometric sequence from `SHORTEST` times the 5 % quantile of the distances of rows to `LONGEST`
# times the 95 % quantile.
QUANTILES, SHORTEST, LONGEST = (0.05, 0.95), 0.5, 2.0
# Scaled values beyond this number are moved to it. Their angles are as good as random already, and the cosine of a
# very large angle is inaccurate.
FARTHEST = 1e5
# Samples of sparse rows with at most this many entries are converted to dense ones.
MOST_ENTRIES = 20_000_000
# Up to this number of features frequencies are quasi-random points; above, blocks of orthogonal directions.
MOST_QUASI_RANDOM = 8
# The range between the quantiles 0.1 and 0.9 of a standard normal variable.
NORMAL_RANGE = 2.5631031310892007


# ---- a sample of pooled rows -------------------------------------------------------------------


@dataclass(frozen=True)
class PooledRows:
    """Number of rows, a sample of the distinct rows, and the range of each feature; a value that supports ``+``.

    It does not depend on the order of the rows nor on their division into blocks and samples.
    """

    rows: int
    sample: DistinctRows
    low: Array  # (d,)
    high: Array  # (d,)

    def __add__(self, other: PooledRows) -> PooledRows:
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return PooledRows(self.rows + other.rows, self.sample + other.sample, low, high)


@dataclass(frozen=True)
class SamplePool:
    """Function of a block of rows that returns its `PooledRows`."""

    size: int
    seed: int

    def __call__(self, block: Block) -> PooledRows:
        hashes = row_hashes(block.X)
        sample = DistinctRows.of(block, hashes, exponentials(hashes, self.seed), size=self.size)
        low, high = block.X.min(axis=0), block.X.max(axis=0)
        if sp.issparse(block.X):
            low, high = low.toarray(), high.toarray()
        return PooledRows(len(block), sample, np.ravel(low).astype(np.float64), np.ravel(high).astype(np.float64))


def pooled_rows(engine: Engine, seed: int, report: Report | None = None) -> PooledRows:
    """Return the `PooledRows` of an engine. Those of several samples are added with ``+``."""
    return engine.sum(SamplePool(SAMPLE_ROWS, seed), report)


# ---- rows of a common scale --------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ScaledRows:
    """The function x -> (x[columns] - center) / scale, with values beyond `FARTHEST` moved to it."""

    columns: Array  # (k,), indices of the features that are not constant
    center: Array | None  # (k,); None if rows may be sparse
    scale: Array  # (k,)
    n_features: int

    def __call__(self, X: Any) -> Any:
        """Return the scaled rows, in the dtype of the rows and sparse if the rows are."""
        if len(self.columns) < self.n_features:
            X = X[:, self.columns]
        factors = (1 / self.scale).astype(X.dtype)
        if sp.issparse(X) and self.center is not None:
            X = X.toarray()
        if sp.issparse(X):
            X = X.copy()
            X.data *= factors[X.indices]
            np.clip(X.data, -FARTHEST, FARTHEST, out=X.data)
            return X
        X = X * factors if self.center is None else (X - self.center.astype(X.dtype)) * factors
        return np.clip(X, -FARTHEST, FARTHEST, out=X)


def scaled_rows(pool: PooledRows, *, keep_constant: bool = False) -> ScaledRows:
    """Return the scaling of the features by their spread over a sample of rows.

    The spread is the smaller one of two: that of `column_spreads`, a standard deviation without the outermost two
    percent of the values, and the range between the quantiles 0.1 and 0.9, divided by that of a standard normal
    variable, unless it is zero. The second one matters for heavy tails. A feature that is constant in the sample but
    not in all rows is divided by its largest distance from this constant. A feature that is constant is dropped, unless
    `keep_constant` says that later rows may differ: then it is divided by a thousandth of its value, or of one.
    """
    X, weight = pool.sample.X, pool.sample.weight
    is_sparse = sp.issparse(X)
    if is_sparse and X.shape[0] * X.shape[1] <= MOST_ENTRIES:
        X = X.toarray()  # so that results are those of dense rows
    center, spread = column_spreads(X, weight)
    if not sp.issparse(X):
        low, high = weighted_quantiles(X, weight, (0.1, 0.9))
        between = (high - low) / NORMAL_RANGE
        spread = np.where(between > 0, np.minimum(between, spread), spread)
    largest = np.maximum(np.abs(pool.low), np.abs(pool.high))
    varies = pool.high - pool.low > 8 * np.finfo(X.dtype).eps * largest
    spread = np.where(spread > 0, spread, np.maximum(pool.high - center, center - pool.low))
    if keep_constant:
        small = CONSTANT_SHARE * np.where(center != 0, np.abs(center), 1.0)
        spread, varies = np.where(varies, spread, small), np.ones_like(varies)
    columns = np.flatnonzero(varies)
    if not len(columns):  # all rows are equal: a test needs at least one feature
        columns, spread = np.arange(1), np.ones_like(spread)
    return ScaledRows(columns, None if is_sparse else center[columns], spread[columns], X.shape[1])


def weighted_quantiles(X: Array, weight: Array, levels: tuple[float, ...]) -> Array:
    """Return quantiles (q, d) of the columns of X, where a row of weight two counts as two rows."""
    order = np.argsort(X, axis=0, kind="stable")
    ordered, below = np.take_along_axis(X, order, axis=0), np.cumsum(weight[order], axis=0)
    found = []
    for level in levels:
        index = (below < level * below[-1] * (1 - 1e-12)).sum(axis=0)
        found.append(np.take_along_axis(ordered, index[None], axis=0)[0])
    return np.array(found, dtype=np.float64)


# ---- kernels -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Collection:
    """Gaussian kernels exp(-r^2 / 2 h^2) of several lengthscales h."""

    lengthscales: Array  # (K,), ascending
    mean_squares: Array  # (K,), means of k(x, y)^2 over pairs of rows of a sample

    def __len__(self) -> int:
        return len(self.lengthscales)


def gaussian_collection(X: Any, weight: Array, n_kernels: int) -> Collection:
    """Return Gaussian kernels whose lengthscales cover the distances between the rows of a sample.

    Parameters
    ----------
    X : ndarray or CSR of shape (m, k)
        Distinct rows, scaled.
    weight : ndarray of shape (m,)
        How often each row occurs.
    n_kernels : int
        Number of lengthscales: a geometric sequence from half the 5 % quantile of the distances to twice the 95 %
        quantile.

    Returns
    -------
    Collection
    """
    squares = squared_distances(X)
    upper = np.triu_indices(len(squares), 1)
    r, mass = np.sqrt(squares[upper]), (weight[:, None] * weight)[upper]
    r, mass = r[r > 0], mass[r > 0]
    if not len(r):  # one distinct row
        return Collection(np.geomspace(0.5, 2.0, n_kernels), np.ones(n_kernels))
    low, high = weighted_quantiles(r[:, None], mass, QUANTILES)[:, 0]
    lengthscales = np.geomspace(SHORTEST * low, LONGEST * high, n_kernels)
    mean_squares = np.array([np.average(np.exp(-np.square(r / h)), weights=mass) for h in lengthscales])
    return Collection(lengthscales, np.maximum(mean_squares, np.finfo(float).tiny))


# Number of rows whose distances to all rows are computed at a time.
DISTANCE_TILE = 64


def squared_distances(X: Any) -> Array:
    """Return the squared distances between all pairs of rows, with exact zeros for equal rows only."""
    if sp.issparse(X):
        X = X.toarray() if X.shape[1] <= 5000 else X
    X = X.astype(np.float64)
    if sp.issparse(X):
        norms = np.asarray(X.multiply(X).sum(axis=1)).ravel()
        products = (X @ X.T).toarray()
    else:
        X = X - X.mean(axis=0)
        norms, products = np.einsum("ij,ij->i", X, X), X @ X.T
    for i in range(0, len(products), DISTANCE_TILE):  # in place: fresh memory would take longer than the arithmetic
        tile, sums = products[i : i + DISTANCE_TILE], norms[i : i + DISTANCE_TILE, None] + norms
        tile *= -2
        tile += sums
        sums *= np.finfo(float).eps
        np.maximum(tile, sums, out=tile)
    return products


# ---- frequencies -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SharedFrequencies(Features):
    """Features cos(w_j . s(x)), then sin(w_j . s(x)), of scaled rows s(x), with one vector of weights per kernel.

    The kernel k of the collection is ``sum_j weights[k, j] (cos_j(x) cos_j(y) + sin_j(x) sin_j(y))``, in expectation
    over the frequencies. The features themselves have no weights.
    """

    scaling: ScaledRows
    collection: Collection
    frequencies: Array  # (k, J)
    weights: Array  # (K, J), not negative

    @property
    def n_components(self) -> int:
        """Number of components: a cosine and a sine per frequency."""
        return 2 * self.frequencies.shape[1]

    @cached_property
    def _projection(self) -> DenseProjection:
        return DenseProjection(np.ascontiguousarray(self.frequencies))

    def astype(self, dtype: Any) -> Self:
        return replace(self, frequencies=self.frequencies.astype(dtype, copy=False))

    def __call__(self, X: Any, out: Array) -> None:
        self._projection.pairs(self.scaling(X), 1.0, out)

    def statistics(self, coefficients: Array) -> Array:
        """Return the squared norm of elements of the feature space of each kernel.

        Parameters
        ----------
        coefficients : ndarray of shape (n, 2 J)
            Sums of features with any factors, such as the difference of the means of two samples.

        Returns
        -------
        ndarray of shape (n, K)
        """
        J = self.frequencies.shape[1]
        return (np.square(coefficients[:, :J]) + np.square(coefficients[:, J:])) @ self.weights.T


def shared_frequencies(
    pool: PooledRows,
    rng: np.random.Generator,
    *,
    n_components: int = 800,
    n_kernels: int = 10,
    keep_constant: bool = False,
) -> SharedFrequencies:
    """Return features for Gaussian kernels of many lengthscales, from a sample of the pooled rows.

    Parameters
    ----------
    pool : PooledRows
        The sample; the result does not depend on the order of the rows that it was taken from.
    rng : Generator
        Draws the frequencies.
    n_components : int, default=800
        Number of components, two per frequency.
    n_kernels : int, default=10
        Number of lengthscales.
    keep_constant : bool, default=False
        Whether features that are constant in the pooled rows are kept, because they may differ in later rows.

    Returns
    -------
    SharedFrequencies
    """
    scaling = scaled_rows(pool, keep_constant=keep_constant)
    near = np.argsort(pool.sample.key, kind="stable")[:DISTANCE_ROWS]
    collection = gaussian_collection(scaling(pool.sample.X[near]), pool.sample.weight[near], n_kernels)
    frequencies, weights = draw_frequencies(collection, len(scaling.columns), n_components // 2, rng)
    return SharedFrequencies(scaling, collection, frequencies, weights)


def draw_frequencies(collection: Collection, d: int, count: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return frequencies (d, count) and their weights (K, count).

    The share of the frequencies that are drawn for a kernel is proportional to the inverse root of the mean of k^2: the
    Gram matrix of a short lengthscale has more eigenvalues that matter.
    """
    share = collection.mean_squares**-0.5
    ends = np.floor(np.cumsum(share / share.sum() * count) + 0.5)
    counts = np.diff(ends, prepend=0.0).astype(int)
    draws = [standard_frequencies(c, d, rng) / h for c, h in zip(counts, collection.lengthscales, strict=True) if c]
    w = np.concatenate(draws)
    squares = np.einsum("ij,ij->i", w, w)
    h = collection.lengthscales[:, None]
    logs = d * np.log(h) - 0.5 * h * h * squares  # up to a constant
    logs -= logs.max(axis=0)
    density = np.exp(logs)
    return np.ascontiguousarray(w.T), density / (counts @ density)


def standard_frequencies(count: int, d: int, rng: np.random.Generator) -> Array:
    """Return `count` points (count, d) of a standard normal distribution that cover it more evenly than random ones.

    Since w and -w have the same cosine, and sines that differ by the sign, they are points of a half-space.
    """
    if d <= MOST_QUASI_RANDOM:
        u = kronecker_points(count, d, rng)
        u[:, 0] = 0.5 + 0.5 * u[:, 0]
        return ndtri(np.clip(u, 1e-12, 1 - 1e-12))
    radii = np.sqrt(chdtri(d, rng.permutation((np.arange(count) + rng.random(count)) / count)))
    blocks = [np.linalg.qr(rng.standard_normal((d, min(d, count - i))))[0].T for i in range(0, count, d)]
    return np.concatenate(blocks) * radii[:, None]


def kronecker_points(count: int, d: int, rng: np.random.Generator) -> Array:
    """Return points of a Kronecker sequence in the unit cube, which is shifted by a random vector.

    The sequence is that of the generalized golden ratio, the root of g^(d+1) = g + 1. In one dimension the points are
    equally spaced.
    """
    shift = rng.random(d)
    if d == 1:
        return ((np.arange(count) + shift) / count)[:, None]
    g = 2.0
    for _ in range(64):
        g = (1 + g) ** (1 / (d + 1))
    return (np.arange(count)[:, None] * g ** -np.arange(1.0, d + 1) + shift) % 1.0
