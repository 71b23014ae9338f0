r"""A graph of all pairs of rows whose weights are inner products of positive features.

Let the rows of :math:`\Psi` be the positive features of the rows of the data. With weights :math:`W = \Psi \Psi^\top`
the degrees, which form the diagonal matrix D, are :math:`\Psi (\Psi^\top 1)`, and with :math:`Q = D^{-1/2} \Psi`

.. math:: L^c = (I - Q Q^\top)^c = I - Q f(Q^\top Q) Q^\top, \qquad f(g) = (1 - (1 - g)^c) / g

holds exactly for every real power. The roughness of features :math:`\Phi` therefore depends on the rows only through
the joint second moments of :math:`\Phi` and Q, which are sums over rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np

from mercer.engines import Accumulator, Block, Engine, Report, Workers
from mercer.errors import MercerWarning
from mercer.features import Features, features_of
from mercer.graphs.base import (
    BANDWIDTH,
    EXACT_ROWS,
    GraphSummary,
    GrowingGraph,
    Measure,
    Nodes,
    Penalty,
    Roughness,
)
from mercer.graphs.positive_features import (
    SLICE_ROWS,
    PositiveFeatures,
    PositiveSum,
    best_exponent,
    squared_norms_about,
)
from mercer.io.archive import storable
from mercer.kernels import Gaussian
from mercer.kernels.base import as_rows
from mercer.kernels.spectral import MEDIAN_ROWS
from mercer.parameters import Domain, Integer
from mercer.statistics import GramSum, RowSample
from mercer.statistics.distinct import row_hashes
from mercer.statistics.sample import as_generator

__all__ = ["FeatureGraph", "FeatureLaplacian", "FeatureMoments"]

Array = np.ndarray


class FeatureGraph(GrowingGraph):
    r"""The graph of all pairs of rows with approximately Gaussian weights, at a cost that is linear in the rows.

    The weights are inner products of positive random features, :math:`\psi(x)^\top \psi(y) > 0`, whose mean is
    :math:`\exp(-\|x - y\|^2 / (2 s^2))`. The graph needs only sums over rows, so it can be built out of core, and
    `Deformed.partial_fit` can add rows. In contrast to a `NeighborGraph`, each row is a neighbor of itself, and distant
    rows have small weights instead of none, which makes the graph smoother. A small bandwidth needs many components;
    the graph is best suited to rows with few features.

    Parameters
    ----------
    n_components : int, default=512
        Number of positive random features.
    bandwidth : "median" or float, default="median"
        The bandwidth s. "median" is the median distance between the rows of a sample, which is wide: try a fraction of
        it.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the positive random features.

    See Also
    --------
    NeighborGraph : The graph of nearest neighbors.

    Notes
    -----
    The positive features are
    :math:`(1 - 4A)^{d/4} \exp(A |w|^2 + \sqrt{1 - 4A}\, w^\top x - |x|^2) / \sqrt m` with normal frequencies w, for
    centered rows in units of s. The number A < 0 minimizes the variance for the mean :math:`|x + y|^2` of pairs [1]_.
    Rows that are so far from all others that their features underflow to zero have no edge.

    References
    ----------
    .. [1] Likhosherstov, Choromanski, Dubey, Liu, Sarlos, Weller (2023), Chefs' random tables, NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Deformed, FeatureGraph, Gaussian, RandomFourier
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> deformed = Deformed(RandomFourier(Gaussian(1.0), 64, random_state=0), FeatureGraph(200), strength=0.1)
    >>> deformed.partial_fit(X[:250]).partial_fit(X[250:]).graph_.n_nodes
    500
    """

    parameter_domains: ClassVar[Mapping[str, Domain]] = {"n_components": Integer(1), "bandwidth": BANDWIDTH}

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

    def draw(self, X: Any, weight: Array | None = None) -> PositiveFeatures:
        """Return positive random features for the Gaussian kernel.

        The bandwidth, the center and the parameter A of least variance are computed from a sample of rows `X`. `weight`
        has the weights of the rows; None means equal weights.
        """
        self.check()
        rows = as_rows(self, X)
        weight = np.ones(rows.shape[0]) if weight is None else weight
        bandwidth = self.bandwidth
        if bandwidth == "median":
            # If all rows are equal, the weights do not depend on the bandwidth.
            same = len(np.unique(row_hashes(rows))) == 1
            bandwidth = 1.0 if same else Gaussian("median").resolve(rows, weight).lengthscale
        center = rows.T @ weight / weight.sum()
        # For centered rows the mean of |x + y|^2 over all pairs is twice the mean of |x|^2.
        spread = 2 * weight @ squared_norms_about(rows, center, float(bandwidth)) / weight.sum()
        rng = as_generator(self.random_state)
        frequencies = rng.standard_normal((rows.shape[1], self.n_components))
        return PositiveFeatures.of(frequencies, center, float(bandwidth), best_exponent(float(spread), rows.shape[1]))

    def measure(
        self,
        features: Features,
        engine: Engine,
        *,
        max_bytes: int,  # noqa: ARG002 - no more than the features of a block of rows are in memory
        seed: int,
        report: Report | None = None,
    ) -> Measure:
        moments = self.moments(features, engine, seed=seed, report=report)
        exact = None
        if moments.rows <= EXACT_ROWS:
            rows = engine.sum(partial(RowSample.of, size=EXACT_ROWS, seed=seed, targets=False))
            weight = np.ones(len(rows.index)) if rows.weight is None else rows.weight
            laplacian = FeatureLaplacian.of(moments.positive, moments.mean, moments.weight, rows.X, weight)
            # The exact deformed kernel has one node per row, and is not defined for weighted rows.
            exact = Nodes(rows.X, laplacian) if (weight == 1).all() else None
        return lambda penalty: replace(moments.roughness(penalty), exact=exact)

    def _build_cost(self, n: int, d: int, D: int) -> float:
        m = self.n_components
        return 2.0 * n * m * d + 0.7 * n * (D + m) ** 2

    def moments(
        self, features: Features, engine: Engine, *, seed: int, previous: Any = None, report: Report | None = None
    ) -> FeatureMoments:
        """Return the joint second moments of the features and of the positive features scaled by the degrees.

        This reads the rows three times: for a sample that determines the bandwidth, for the mean positive features,
        which determine the degrees, and for the moments. If `previous` moments are given, the rows are read once and
        added to them. The positive features and their mean are then those of `previous`.
        """
        self.check()
        if previous is not None:
            return previous + engine.accumulate(FeatureMomentSum(features, previous.positive, previous.mean))
        sample = engine.sum(partial(RowSample.of, size=MEDIAN_ROWS, seed=seed, by_weight=True, targets=False))
        positive = self.draw(sample.X, sample.weight if sample.is_complete else None)
        total = engine.sum(partial(PositiveSum.of, positive=positive))
        moments = engine.accumulate(FeatureMomentSum(features, positive, total.mean), report)
        if moments.isolated > moments.rows / 2:
            msg = (
                f"FeatureGraph: {moments.isolated} of {moments.rows} rows have no edge, because their positive "
                f"features are zero at bandwidth {positive.bandwidth:.3g}, and the graph does not affect them. Try a "
                "larger bandwidth, or a NeighborGraph."
            )
            warnings.warn(msg, MercerWarning, stacklevel=2)
        return moments


@storable
@dataclass(frozen=True)
class FeatureMoments:
    """Joint second moments of features Phi and of Q, the positive features scaled by the degrees, as sums over rows."""

    gram: Array  # (D + m, D + m), upper triangle
    rows: int  # with a positive weight
    weight: float  # their total weight
    isolated: int  # number of rows without an edge
    positive: PositiveFeatures
    mean: Array  # (m,), of the positive features

    def __add__(self, other: FeatureMoments) -> FeatureMoments:
        return replace(
            self,
            gram=self.gram + other.gram,
            rows=self.rows + other.rows,
            weight=self.weight + other.weight,
            isolated=self.isolated + other.isolated,
        )

    def roughness(self, penalty: Penalty) -> Roughness:
        """Return the roughness, for a penalty, of the features on the graph of all rows that were added."""
        D = len(self.gram) - self.positive.n_components
        scale = max(self.weight, np.finfo(float).tiny)
        values, vectors = np.linalg.eigh(self.gram[D:, D:] / scale, UPLO="U")
        rotated = self.gram[:D, D:] @ vectors
        matrix = self.gram[:D, :D] - (rotated * (gain(values, penalty.power) / scale)) @ rotated.T
        summary = GraphSummary(self.rows, None, self.isolated, None, "features", self.positive.bandwidth)
        return Roughness(penalty.strength * matrix, summary, None, moments=self)


def gain(values: Array, power: float) -> Array:
    """Return f(g) = (1 - (1 - g)^c) / g for the eigenvalues g = `values` of Q'Q and c = `power`.

    The eigenvalues of the Laplacian I - Q Q' are 1 - g. If the degrees are those of the same rows, g lies in [0, 1], up
    to rounding. If the degrees are computed with the mean of previous rows, g may exceed 1, and the eigenvalue 1 - g is
    replaced by zero.
    """
    if power == 0:
        return np.zeros_like(values)
    g = np.maximum(values, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = -np.expm1(power * np.log1p(-np.minimum(g, 1.0))) / g
    return np.where(g > 1e-12, ratio, power)


class FeatureMomentSum(Accumulator[FeatureMoments]):
    """Accumulator of `FeatureMoments`, in float64 because the roughness is a small difference of large sums."""

    def __init__(self, features: Features, positive: PositiveFeatures, mean: Array) -> None:
        self.features = features
        self.positive = positive
        self.mean = mean
        self._gram = GramSum(features.n_components + positive.n_components)
        self._counts = (0, 0.0, 0)

    def add(self, block: Block, workers: Workers) -> None:
        features = self.features.astype(block.X.dtype)
        D = features.n_components
        Z = self._gram.buffer(len(block), np.dtype(np.float64))

        def compute(start: int) -> int:
            rows = slice(start, start + SLICE_ROWS)
            X = block.X[rows]
            Z[rows, :D] = features_of(features, X)
            Z[rows, D:], linked = self.positive.scaled(X, self.mean)
            Z[rows][~linked] = 0.0
            if block.weight is None:
                return int((~linked).sum())
            Z[rows] *= np.sqrt(block.weight[rows])[:, None]
            return int((~linked & (block.weight[rows] > 0)).sum())

        isolated = sum(workers.in_order(compute, range(0, len(block), SLICE_ROWS)))
        self._gram.add(Z, workers)
        weight = np.ones(len(block)) if block.weight is None else block.weight
        rows, total, before = self._counts
        self._counts = rows + int((weight > 0).sum()), total + float(weight.sum()), before + isolated

    def result(self) -> FeatureMoments:
        return FeatureMoments(self._gram.result(), *self._counts, self.positive, self.mean)

    def restore(self, state: FeatureMoments) -> None:
        self._gram.restore(state.gram)
        self._counts = state.rows, state.weight, state.isolated
        self.positive, self.mean = state.positive, state.mean


@dataclass(frozen=True, eq=False)
class FeatureLaplacian:
    """The Laplacian I - Q Q' of a `FeatureGraph` of few nodes. Rows and columns of nodes without edges are zero."""

    scaled: Array  # (n, m), Q
    linked: Array  # (n,), whether a node has an edge

    @classmethod
    def of(cls, positive: PositiveFeatures, mean: Array, total: float, X: Any, weight: Array) -> Self:
        """Return the Laplacian of the rows `X`, given the mean positive features and the total weight of all rows."""
        scaled, linked = positive.scaled(X, mean)
        return cls(np.sqrt(weight / total)[:, None] * scaled, linked)

    def power(self, power: float) -> Array:
        """Return L^power as a dense matrix, by an eigendecomposition."""
        values, vectors = np.linalg.eigh(np.diag(self.linked.astype(float)) - self.scaled @ self.scaled.T)
        values = np.maximum(values, 0.0) ** power
        return (vectors * values) @ vectors.T
