"""Features of a kernel deformed by a graph of rows, labeled or not: a map over any other map."""

from __future__ import annotations

import warnings
from copy import copy
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from mercer.engines import Engine
from mercer.errors import DataError, MercerWarning, NoClosedFormError, ParameterError
from mercer.graphs.neighbor_graph import (
    EXACT_ROWS,
    MOST_POWER,
    GivenGraph,
    Graph,
    Measure,
    NeighborGraph,
    Nodes,
    Penalty,
    Roughness,
)
from mercer.kernels import DeformedKernel, Kernel
from mercer.maps.algebra.copies import check_real
from mercer.maps.base import BaseMap, available_if, fresh_copy, unchanged_if_it_fails
from mercer.maps.fourier.random_fourier import RandomFourier
from mercer.maps.parameters import check_count
from mercer.maps.whitened import LowRankFeatures, WhitenedFeatures, strongest_of, whitening_of
from mercer.statistics.sample import seed_of

__all__ = ["Deformed"]

Array = np.ndarray
# The error of a power, relative to its largest value, from which on it is said.
MOST_POWER_ERROR = 0.05


class Deformed(BaseMap):
    r"""Features of a kernel that is deformed by the rows: smooth along a graph of them, labeled or not.

    With the features :math:`\Phi` of the rows and the Laplacian L of their graph, a function of roughness
    :math:`f^\top M f, M = \alpha L^c`, costs that much more: the kernel becomes
    :math:`\phi(x)^\top (I + \Phi^\top M \Phi)^{-1} \phi(z)` [1]_, which is the deformed kernel of Sindhwani et al. for
    the approximate kernel, for rows of the graph and for new ones. `fit` on all rows and train on the labeled ones.

    Parameters
    ----------
    feature_map : BaseMap, default=None
        An unfitted map of real features; None means ``RandomFourier()``.
    graph : NeighborGraph, FeatureGraph or sparse matrix of shape (n, n), default=None
        How to make the graph of the rows, or its weights, symmetric and >= 0; None means ``NeighborGraph()``.
    alpha : float, default=1.0
        Weight of the roughness, >= 0; zero leaves the kernel as it is. It acts in units of the kernel, summed over
        rows: try powers of ten from 0.01 to 10,000.
    power : float, default=1
        Power c >= 0 of the Laplacian; 2 or 3 are often better than 1. Powers that are no whole numbers are polynomials
        of a stated error, `power_error_`, and cost more; those below 1/3 are too far off, which is said.
    rank : int or None, default=None
        Shrink only so many directions, those of the greatest roughness: a transform of cost O(D rank) a row instead of
        O(D^2). What is left out is less than `rank_error_` of any value k(x, x).
    memory : float, default=2**30
        Bytes that features of all rows may take during `fit`. With less than they need, they are computed again for
        each panel of columns that fits.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the map, the sample and the search of neighbors; None leaves the map the one that it has.
    n_jobs : int or None, default=None
        Threads; None means all cores. The result does not depend on it, unless neighbors are searched approximately.

    Attributes
    ----------
    feature_map_ : BaseMap
        The fitted map below.
    graph_ : GraphFacts
        Nodes, edges, parts and bandwidth of the graph.
    power_error_ : float
        Bound on the spectral norm by which :math:`M / \alpha` is off; zero for whole powers.
    rank_error_ : float
        Bound on the part of k(x, x) by which a low rank changes the kernel; zero without.
    kernel_ : DeformedKernel
        The exact deformed kernel, for at most 4000 rows.
    features_ : WhitenedFeatures or LowRankFeatures
        The map: a pure function of rows.
    n_features_in_ : int
        Width of the rows seen in `fit`.

    Notes
    -----
    Time O(n D^2), as for the second moments of the features, plus that of the graph; memory O(D^2), the edges, and
    `memory`. A neighbor graph needs all rows at once, so learners collect them from blocks that can be read again, or
    a sample (`NeighborGraph.max_rows`). A `FeatureGraph` needs sums over rows alone, and knows `partial_fit`.

    The columns below should be many beside the rows of the graph: smooth functions have to be within their span, and
    random frequencies err by chance at each row, which a large alpha takes for structure. So rows of the graph gain
    more than new rows. Landmarks (`Nystroem`) do not err so: try them below where new rows count.

    Of a graph of at most 4000 rows the rows are kept, for `kernel_`: pickles of the map, and of learners with it, hold
    them, so that whoever gets the pickle gets the rows. `features_` is the map without them, if the map below keeps
    none (the landmarks of `Nystroem` are rows); so is a map that was fitted by `partial_fit`.

    References
    ----------
    .. [1] Ionescu, Popa, Sminchisescu (2017), Large-scale data-dependent kernel approximation, AISTATS.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Deformed, Gaussian, NeighborGraph, RandomFourier
    >>> t = np.linspace(0, 3, 100)
    >>> X = np.concatenate([np.column_stack([t, 0 * t]), np.column_stack([t, 0 * t + 1])])  # two parallel lines
    >>> plain = RandomFourier(Gaussian(1.0), 300, random_state=0).fit(X)
    >>> along, across = plain.gram(X[:1], X[[99, 100]])[0]  # the other end of the line, the begin of the other line
    >>> bool(along < 0.1 * across)
    True
    >>> deformed = Deformed(plain, NeighborGraph(4), alpha=1000.0).fit(X)
    >>> along, across = deformed.gram(X[:1], X[[99, 100]])[0]
    >>> bool(along > 3 * across)
    True
    """

    needs: ClassVar[str] = "to be the outermost map: it changes the kernel. Give it the map of the combination instead"
    features_: WhitenedFeatures | LowRankFeatures
    feature_map_: BaseMap
    _exact: Nodes | None
    _penalty: Penalty
    _moments: Any = None  # of a graph that grows
    _kernel_now: DeformedKernel | None = None  # made when it is asked for

    def __init__(
        self,
        feature_map: BaseMap | None = None,
        graph: Any = None,
        *,
        alpha: float = 1.0,
        power: float = 1,
        rank: int | None = None,
        memory: float = 2**30,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.feature_map = feature_map
        self.graph = graph
        self.alpha = alpha
        self.power = power
        self.rank = rank
        self.memory = memory
        self.random_state = random_state
        self.n_jobs = n_jobs

    # ---- the map below ------------------------------------------------------------------------

    @property
    def unbiased(self) -> bool | str:
        return (
            "the deformed kernel is an inverse of what the map below approximates, and the mean of an inverse is not "
            "the inverse of the mean; the error vanishes as the map below grows"
        )

    @property
    def kernel(self) -> Kernel | None:
        """The kernel before it is deformed."""
        return self._below().kernel

    @property
    def n_components(self) -> int:
        """Width of the output: that of the map below."""
        return self._below().n_components

    @n_components.setter
    def n_components(self, value: int) -> None:
        self.feature_map = fresh_copy(self._below(), n_components=value)

    def with_kernel(self, kernel: Kernel) -> Self:
        return fresh_copy(self, feature_map=self._below().with_kernel(kernel))

    def _kernel(self) -> Kernel:
        return self._below()._kernel()

    def _below(self) -> BaseMap:
        below = RandomFourier() if self.feature_map is None else self.feature_map
        if not isinstance(below, BaseMap):
            msg = f"Deformed: feature_map must be a mercer map such as RandomFourier(), got {below!r}."
            raise ParameterError(msg)
        return below

    def _inner(self) -> BaseMap:
        """Return an unfitted copy of the map below, with the seed of this one, if it has one."""
        changes = {name: getattr(self, name) for name in ("random_state", "n_jobs")}
        return fresh_copy(self._below(), **{name: value for name, value in changes.items() if value is not None})

    def _graph(self) -> Graph:
        if self.graph is None:
            return NeighborGraph()
        if sp.issparse(self.graph):
            return GivenGraph(self.graph)
        if not isinstance(self.graph, Graph):
            msg = (
                "Deformed: graph must be a NeighborGraph, a FeatureGraph, or the weights of all pairs of rows as a "
                f"SciPy sparse matrix, got {type(self.graph).__name__}. Try scipy.sparse.csr_array(W)."
            )
            raise ParameterError(msg)
        return self.graph

    def needs_rows(self) -> bool:
        return True

    def check(self) -> None:
        self._below().check()
        for name in ("alpha", "power", "memory"):
            value = getattr(self, name)
            if not (isinstance(value, Real) and not isinstance(value, bool) and 0 <= float(value) < np.inf):
                msg = f"Deformed: {name} must be a finite number >= 0, got {value!r}."
                raise ParameterError(msg)
        if self.power > MOST_POWER:
            msg = f"Deformed: power must be at most {MOST_POWER}, got {self.power!r}. Try 1, 2 or 3."
            raise ParameterError(msg)
        if self.rank is not None:
            check_count(self, "rank")
        self._graph().check()

    def _asked(self) -> Penalty:
        return Penalty(float(self.alpha), float(self.power))

    # ---- fitting ------------------------------------------------------------------------------

    def fit_engine(self, engine: Engine) -> Self:
        inner, measure = self.measure(engine)
        return self.fit_roughness(inner, measure(self._asked()), engine.first().X.dtype)

    def measure(self, engine: Engine) -> tuple[BaseMap, Measure]:
        """Fit the map below and make the graph of the rows of an engine: all of a fit that alpha and power are not in.

        Returns
        -------
        tuple of BaseMap and callable
            The map, and what tells the roughness of its features on the graph for a `Penalty`.
        """
        self.check()
        graph, inner = self._graph(), self._inner()
        if not engine.replayable:
            msg = (
                "Deformed: the graph is made of all rows before anything is learned from them, but the blocks can be "
                "read only once. Pass an iterable that can be read again (a list, an object whose __iter__ starts "
                "over, or files by open_rows), or rows in memory."
            )
            raise DataError(msg)
        inner.fit_engine(engine)
        self._check_features(inner)
        seed = seed_of(self.random_state, "graph")
        return inner, graph.measure(inner.features_, engine, memory=int(self.memory), seed=seed)

    def fit_roughness(self, inner: BaseMap, found: Roughness, dtype: Any) -> Self:
        """Deform a fitted map by a roughness that `measure` told for the penalty of this map, for rows of a dtype."""
        self.n_features_in_ = inner.n_features_in_
        self.feature_map_ = inner
        self._take(found, dtype)
        return self

    def _can_grow(self) -> bool:
        return self._graph().grows

    @available_if(_can_grow)
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Add rows to the graph, also to that of `fit`: for a `FeatureGraph`, which needs sums over rows alone.

        The first call draws the map below, the bandwidth and the mean weight of an edge from the rows it is given; the
        degrees of all rows follow that mean. Features of rows change with every call.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows, labeled or not.
        y : ignored
            For pipelines.

        Returns
        -------
        self
        """
        del y
        with unchanged_if_it_fails(self):
            fresh = self._moments is None
            engine = self._in_memory(X, reset=fresh)
            if fresh:
                inner = self._inner().fit_engine(engine)
                self._check_features(inner)
                self.feature_map_ = inner
            self._add(engine)
        return self

    def _add(self, engine: Engine) -> None:
        features, seed = self.feature_map_.features_, seed_of(self.random_state, "graph")
        moments = self._graph().moments(features, engine, seed=seed, after=self._moments)
        self._take(moments.roughness(self._asked()), engine.first().X.dtype)

    @property
    def refuses_rows(self) -> str | None:
        if isinstance(self._below(), Deformed):
            return (
                "partial_fit does not go with a Deformed map of a Deformed map: rows that are added to the outer "
                "graph would be missing in the inner one. Use fit on all rows, or one Deformed map."
            )
        if not self._graph().grows:
            return (
                f"partial_fit needs a map that can take more rows, but the {type(self._graph()).__name__} of "
                "the Deformed map is made of all rows at once. Use fit on all rows, labeled and not, as arrays or as "
                "blocks that can be read again; or Deformed(..., FeatureGraph()), which grows."
            )
        return None

    def grown(self, engine: Engine) -> tuple[Self, Array]:
        grown = copy(self)
        grown._add(engine)
        return grown, np.linalg.solve(self.features_.matrix, grown.features_.matrix)

    @staticmethod
    def _check_features(inner: BaseMap) -> None:
        check_real(inner, inner.features_)
        if inner.signs_ is not None:
            msg = (
                f"Deformed needs a positive definite kernel, but the features of {inner.kernel_!r} by "
                f"{type(inner).__name__} have signs: negative coefficients, or a negative constant kept."
            )
            raise ParameterError(msg)

    def _take(self, found: Roughness, dtype: Any) -> None:
        """Make the features of a roughness, for rows of a dtype."""
        features = self.feature_map_.features_
        if not np.isfinite(np.diagonal(found.matrix)).all():
            msg = "Deformed: the roughness of the features overflows. Scale the rows down, or alpha, or pass float64."
            raise DataError(msg)
        if found.error > MOST_POWER_ERROR * 2.0**self.power:
            msg = (
                f"Deformed: power={self.power!r} is not within reach of sparse products: the smoothest functions count "
                f"for less than they should, by up to {found.error:.2g} of at most {2.0**self.power:.2g} "
                "(power_error_). Use a power of 0.5 or more, or a FeatureGraph, which has any power exactly."
            )
            warnings.warn(msg, MercerWarning, stacklevel=2)
        if self.rank is None or self.rank >= features.n_components:
            whitening = whitening_of(found.matrix, overwrite=True).astype(dtype, copy=False)
            self.features_, self.rank_error_ = WhitenedFeatures(features, whitening), 0.0
        else:
            basis, shrinkage, self.rank_error_ = strongest_of(found.matrix, self.rank)
            self.features_ = LowRankFeatures(features, basis.astype(dtype), shrinkage.astype(dtype))
        self.graph_ = found.graph
        self.power_error_ = found.error
        self._exact = found.exact
        self._moments = found.moments
        self._kernel_now = None
        self._penalty = self._asked()
        self.signs_ = None
        self._n_features_out = features.n_components

    @property
    def kernel_(self) -> DeformedKernel:
        """The exact deformed kernel, cubic in the rows of the graph."""
        self._check_fitted()
        if self._exact is None:
            msg = (
                f"Deformed: the exact deformed kernel of {self.graph_.n_nodes} rows would need matrices of all their "
                f"pairs. To measure the error of such a map, fit it on at most {EXACT_ROWS} rows at once, unweighted."
            )
            raise NoClosedFormError(msg)
        if self._kernel_now is None:
            rows, laplacian = self._exact.rows, self._exact.laplacian
            matrix = self._penalty.alpha * laplacian.power(self._penalty.power)
            self._kernel_now = DeformedKernel(self.feature_map_.kernel_, rows, matrix)
        return self._kernel_now

    def __getstate__(self) -> Any:
        state = super().__getstate__()
        # A matrix of all pairs of rows, which can be made again.
        return {**state, "_kernel_now": None} if "_kernel_now" in state else state
