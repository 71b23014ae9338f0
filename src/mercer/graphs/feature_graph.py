r"""A graph of all pairs of rows whose weights are products of positive features: no search, sums over rows alone.

With weights :math:`W = \Psi \Psi^\top` the degrees are :math:`\Psi (\Psi^\top 1)`, and with :math:`Q = D^{-1/2} \Psi`

.. math:: L^c = (I - Q Q^\top)^c = I - Q f(Q^\top Q) Q^\top, \qquad f(g) = (1 - (1 - g)^c) / g

exactly, for every real power. So all that is needed of the rows are the second moments of features and Q together.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp

from mercer.engines import Accumulator, Block, Engine, Workers
from mercer.errors import MercerWarning
from mercer.features import Features
from mercer.graphs.neighbor_graph import (
    EXACT_ROWS,
    Graph,
    GraphFacts,
    Measure,
    Nodes,
    Penalty,
    Roughness,
    check_bandwidth,
)
from mercer.graphs.neighbors import row_keys
from mercer.io.archive import storable
from mercer.kernels import Gaussian
from mercer.kernels.base import as_rows, dense64, squared_norms
from mercer.kernels.spectral import MEDIAN_ROWS
from mercer.maps.parameters import check_count
from mercer.statistics import GramSum, RowSample
from mercer.statistics.sample import as_generator

__all__ = ["FeatureGraph", "FeatureLaplacian", "PositiveFeatures"]

Array = np.ndarray
# Rows whose features one thread computes at a time.
SLICE_ROWS = 256


class FeatureGraph(Graph):
    r"""The graph of all pairs of rows with Gaussian weights, by positive random features: linear in the rows.

    Weights are :math:`\psi(x)^\top \psi(y) > 0`, of mean :math:`\exp(-\|x - y\|^2 / (2 s^2))`. Sums over rows are all
    that it needs, in memory or from blocks, in two readings; `Deformed.partial_fit` adds rows. A row is a neighbor of
    itself here, and far rows have small weights instead of none: the graph is smoother than that of nearest
    neighbors, and random features of a narrow bandwidth need many columns. Best for few columns of rows.

    Parameters
    ----------
    n_components : int, default=512
        Columns of the positive features.
    bandwidth : "median" or float, default="median"
        The scale s; "median" is the median distance of pairs of a sample of rows, which is wide: try a fraction of it.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the positive features.

    Notes
    -----
    Features :math:`(1 - 4A)^{d/4} \exp(A |w|^2 + \sqrt{1 - 4A}\, w^\top x - |x|^2) / \sqrt m` of centered rows in
    units of s, with the A < 0 that is best for pairs of mean :math:`|x + y|^2` [1]_. Rows so far from all others
    that their features are zero have no edge.

    References
    ----------
    .. [1] Likhosherstov, Choromanski, Dubey, Liu, Sarlos, Weller (2023), Chefs' random tables, NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Deformed, FeatureGraph, Gaussian, RandomFourier
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> deformed = Deformed(RandomFourier(Gaussian(1.0), 64, random_state=0), FeatureGraph(200), alpha=0.1)
    >>> deformed.partial_fit(X[:250]).partial_fit(X[250:]).graph_.n_nodes
    500
    """

    grows = True

    def __init__(
        self,
        n_components: int = 512,
        bandwidth: float | Literal["median"] = "median",
        *,
        random_state: Any = 0,
    ) -> None:
        self.n_components = n_components
        self.bandwidth = bandwidth
        self.random_state = random_state

    def check(self) -> None:
        check_count(self, "n_components")
        check_bandwidth(self)

    def draw(self, X: Any, weight: Array | None = None) -> PositiveFeatures:
        """Draw positive features for rows like these, of these weights."""
        self.check()
        rows = as_rows(self, X)
        weight = np.ones(rows.shape[0]) if weight is None else weight
        bandwidth = self.bandwidth
        if bandwidth == "median":
            # Of equal rows the weights are the same for every bandwidth.
            same = len(np.unique(row_keys(rows))) == 1
            bandwidth = 1.0 if same else Gaussian("median").resolve(rows, weight).lengthscale
        center = rows.T @ weight / weight.sum()
        # Around their mean rows are on average as far from -y as from y: the mean of |x + y|^2 is twice that of |x|^2.
        spread = 2 * weight @ squared_norms_about(rows, center, float(bandwidth)) / weight.sum()
        rng = as_generator(self.random_state)
        frequencies = rng.standard_normal((rows.shape[1], self.n_components))
        return PositiveFeatures.of(frequencies, center, float(bandwidth), best_exponent(float(spread), rows.shape[1]))

    def measure(
        self,
        features: Features,
        engine: Engine,
        *,
        memory: int,  # noqa: ARG002 - blocks of rows do
        seed: int,
    ) -> Measure:
        moments = self.moments(features, engine, seed=seed)
        exact = None
        if moments.rows <= EXACT_ROWS:
            rows = engine.sum(partial(RowSample.of, size=EXACT_ROWS, seed=seed, targets=False))
            weight = np.ones(len(rows.index)) if rows.weight is None else rows.weight
            laplacian = FeatureLaplacian.of(moments.positive, moments.mean, moments.weight, rows.X, weight)
            # The kernel counts nodes, not their weights: of weighted rows it is not had.
            exact = Nodes(rows.X, laplacian) if (weight == 1).all() else None
        return lambda penalty: replace(moments.roughness(penalty), exact=exact)

    def moments(
        self, features: Features, engine: Engine, *, seed: int, after: FeatureMoments | None = None
    ) -> FeatureMoments:
        """Return the moments of all rows: one reading for a sample, one for degrees, one for products.

        If there are moments of rows before, they are added to, with their bandwidth and mean.
        """
        self.check()
        if after is not None:
            return after + engine.accumulate(MomentsOfBoth(features, after.positive, after.mean))
        sample = engine.sum(partial(RowSample.of, size=MEDIAN_ROWS, seed=seed, by_weight=True, targets=False))
        positive = self.draw(sample.X, sample.weight if sample.is_complete else None)
        total = engine.sum(partial(PositiveSum.of, positive=positive))
        moments = engine.accumulate(MomentsOfBoth(features, positive, total.mean))
        if moments.isolated > moments.rows / 2:
            msg = (
                f"FeatureGraph: of {moments.rows} rows {moments.isolated} have no edge, since their positive features "
                f"at bandwidth {positive.bandwidth:.3g} are zero: the graph says nothing of them. Try a larger "
                "bandwidth, or a NeighborGraph."
            )
            warnings.warn(msg, MercerWarning, stacklevel=2)
        return moments


def squared_norms_about(X: Any, center: Array, bandwidth: float) -> Array:
    """Return the squared distances of rows from a center, in units of the bandwidth."""
    if not sp.issparse(X):
        return np.square((dense64(X) - center) / bandwidth).sum(axis=1)
    X, center = X.astype(np.float64) / bandwidth, center / bandwidth
    return np.maximum(squared_norms(X) - 2 * (X @ center) + center @ center, 0.0)


def best_exponent(spread: float, d: int) -> float:
    """Return the A <= 0 of least variance for pairs of rows of this mean |x + y|^2."""
    if spread <= 1e-12:
        return 0.0
    rho = (math.sqrt((2 * spread + d) ** 2 + 8 * d * spread) - 2 * spread - d) / (4 * spread)
    return min(0.0, (1 - 1 / rho) / 8)


@storable
@dataclass(frozen=True, eq=False)
class PositiveFeatures:
    """Positive random features of a Gaussian kernel, in float64: exponentials span more than float32 does."""

    frequencies: Array  # (d, m), of centered rows, bandwidth and root included
    offsets: Array  # (m,), logarithms
    center: Array  # (d,)
    bandwidth: float

    @classmethod
    def of(cls, frequencies: Array, center: Array, bandwidth: float, A: float) -> Self:
        """Return the features of standard normal frequencies."""
        d, m = frequencies.shape
        offsets = A * np.square(frequencies).sum(axis=0) + 0.25 * d * math.log1p(-4 * A) - 0.5 * math.log(m)
        return cls(math.sqrt(1 - 4 * A) * frequencies / bandwidth, offsets, center, bandwidth)

    @property
    def n_components(self) -> int:
        return self.frequencies.shape[1]

    def __call__(self, X: Any) -> Array:
        """Return the features of rows."""
        if sp.issparse(X):
            # Sparse rows stay sparse: about the center they would not be.
            exponent = X.astype(np.float64) @ self.frequencies + (self.offsets - self.center @ self.frequencies)
        else:
            exponent = (dense64(X) - self.center) @ self.frequencies + self.offsets
        exponent -= squared_norms_about(X, self.center, self.bandwidth)[:, None]
        with np.errstate(under="ignore"):
            return np.exp(exponent, out=exponent)

    def scaled(self, X: Any, mean: Array) -> tuple[Array, Array]:
        """Return psi(x) over the root of psi(x)'mean, and which rows have any neighbor at all."""
        psi = self(X)
        degree = psi @ mean
        linked = degree > 0
        psi[linked] /= np.sqrt(degree[linked])[:, None]
        psi[~linked] = 0.0
        return psi, linked


@storable
@dataclass(frozen=True)
class PositiveSum:
    """The sum of positive features, and the weight of the rows."""

    total: Array
    weight: float

    @classmethod
    def of(cls, block: Block, *, positive: PositiveFeatures) -> Self:
        """Return the sum of one block."""
        weight = np.ones(len(block)) if block.weight is None else block.weight
        total = np.zeros(positive.n_components)
        for i in range(0, len(block), SLICE_ROWS):
            total += weight[i : i + SLICE_ROWS] @ positive(block.X[i : i + SLICE_ROWS])
        return cls(total, float(weight.sum()))

    def __add__(self, other: PositiveSum) -> PositiveSum:
        return PositiveSum(self.total + other.total, self.weight + other.weight)

    @property
    def mean(self) -> Array:
        """The mean of the positive features of a row."""
        return self.total / self.weight if self.weight > 0 else self.total


@storable
@dataclass(frozen=True)
class FeatureMoments:
    """Second moments of features and of positive features scaled by their degrees, side by side."""

    gram: Array  # (D + m, D + m), upper triangle
    rows: int
    weight: float
    isolated: int
    positive: PositiveFeatures
    mean: Array

    def __add__(self, other: FeatureMoments) -> FeatureMoments:
        return replace(
            self,
            gram=self.gram + other.gram,
            rows=self.rows + other.rows,
            weight=self.weight + other.weight,
            isolated=self.isolated + other.isolated,
        )

    def roughness(self, penalty: Penalty) -> Roughness:
        """Return the roughness of the features."""
        D = len(self.gram) - self.positive.n_components
        scale = max(self.weight, np.finfo(float).tiny)
        values, vectors = np.linalg.eigh(self.gram[D:, D:] / scale, UPLO="U")
        rotated = self.gram[:D, D:] @ vectors
        matrix = self.gram[:D, :D] - (rotated * (gain(values, penalty.power) / scale)) @ rotated.T
        facts = GraphFacts(self.rows, None, self.isolated, None, "features", self.positive.bandwidth)
        return Roughness(penalty.alpha * matrix, facts, None, moments=self)


def gain(values: Array, power: float) -> Array:
    """Return f(g) = (1 - (1 - g)^c) / g of the eigenvalues of Q'Q.

    They lie in [0, 1], but for rounding, and for degrees from the mean of other rows: above one L counts as zero.
    """
    if power == 0:
        return np.zeros_like(values)
    g = np.maximum(values, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = -np.expm1(power * np.log1p(-np.minimum(g, 1.0))) / g
    return np.where(g > 1e-12, ratio, power)


class MomentsOfBoth(Accumulator[FeatureMoments]):
    """Adds up `FeatureMoments`; products in float64, because the roughness is a small difference of large ones."""

    def __init__(self, features: Features, positive: PositiveFeatures, mean: Array) -> None:
        self.features = features
        self.positive = positive
        self.mean = mean
        self._gram = GramSum(features.n_components + positive.n_components)
        self._counts = (0, 0.0, 0)

    def add(self, block: Block, workers: Workers) -> None:
        features = self.features.astype(block.X.dtype)
        D = features.n_components
        Z = self._gram.room(len(block), np.dtype(np.float64))

        def compute(start: int) -> int:
            rows = slice(start, start + SLICE_ROWS)
            X = block.X[rows]
            columns = np.empty((X.shape[0], D), features.output_dtype(X.dtype))
            features(X, columns)
            Z[rows, :D] = columns
            Z[rows, D:], linked = self.positive.scaled(X, self.mean)
            Z[rows][~linked] = 0.0
            if block.weight is None:
                return int((~linked).sum())
            Z[rows] *= np.sqrt(block.weight[rows])[:, None]
            return int((~linked & (block.weight[rows] > 0)).sum())

        isolated = sum(workers.in_order(compute, range(0, len(block), SLICE_ROWS)))
        self._gram.add(Z, workers)
        rows, weight, before = self._counts
        if block.weight is None:
            self._counts = rows + len(block), weight + len(block), before + isolated
        else:
            counted = int((block.weight > 0).sum())
            self._counts = rows + counted, weight + float(block.weight.sum()), before + isolated

    def result(self) -> FeatureMoments:
        return FeatureMoments(self._gram.result(), *self._counts, self.positive, self.mean)

    def restore(self, state: FeatureMoments) -> None:
        self._gram.restore(state.gram)
        self._counts = state.rows, state.weight, state.isolated
        self.positive, self.mean = state.positive, state.mean


@dataclass(frozen=True, eq=False)
class FeatureLaplacian:
    """The Laplacian of a graph of positive features, of few rows: I - Q Q', and zero for isolated ones."""

    scaled: Array  # (n, m), Q
    linked: Array  # (n,)

    @classmethod
    def of(cls, positive: PositiveFeatures, mean: Array, total: float, X: Any, weight: Array) -> Self:
        """Return the Laplacian of some rows among others, of which the mean and the total weight are known."""
        scaled, linked = positive.scaled(X, mean)
        return cls(np.sqrt(weight / total)[:, None] * scaled, linked)

    def power(self, power: float) -> Array:
        """Return L^power as a dense matrix, by an eigendecomposition."""
        values, vectors = np.linalg.eigh(np.diag(self.linked.astype(float)) - self.scaled @ self.scaled.T)
        values = np.maximum(values, 0.0) ** power
        return (vectors * values) @ vectors.T
