"""The feature map of a kernel that is deformed by a graph of labeled and unlabeled rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from copy import copy
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from mercer.engines import Engine, Report, enter_stage
from mercer.errors import DataError, MercerWarning, NoClosedFormError, ParameterError
from mercer.graphs.base import EXACT_ROWS, Graph, GraphSummary, GrowingGraph, Measure, Nodes, Penalty, Roughness
from mercer.graphs.laplacian_graph import GivenGraph
from mercer.graphs.neighbor_graph import NeighborGraph
from mercer.graphs.whitening import LowRankFeatures, WhitenedFeatures, roughest_directions, whitening_of
from mercer.kernels import DeformedKernel, Kernel
from mercer.maps.algebra.copies import check_real
from mercer.maps.base import BaseMap, DrawnMap, available_if, fresh_copy, unchanged_if_it_fails
from mercer.maps.fourier.random_fourier import RandomFourier
from mercer.parameters import Choice, Domain, Integer, Interval
from mercer.statistics.sample import seed_of

__all__ = ["MAX_POWER", "Deformed"]

Array = np.ndarray
# Larger powers are of no use: the roughest function is penalized by up to 2^power.
MAX_POWER = 100
# Error of a power, relative to its largest value, above which a warning is issued.
MAX_POWER_ERROR = 0.05


class Deformed(BaseMap):
    r"""Feature map of a kernel that is deformed by a graph of the rows, labeled or not.

    The deformed kernel prefers functions that are smooth along the graph. With the features :math:`\Phi` of the rows,
    the Laplacian L of their graph and the penalty :math:`M = \alpha L^c`, it is
    :math:`\phi(x)^\top (I + \Phi^\top M \Phi)^{-1} \phi(z)`, for rows of the graph and for new rows [1]_. This is the
    kernel of the norm :math:`\|f\|^2 + f^\top M f` [2]_, for the approximate kernel of the inner map. Fit the map on
    all rows, and train a learner on the labeled ones; learners do both if `unlabeled` is set.

    Parameters
    ----------
    feature_map : BaseMap, default=None
        The inner map: an unfitted map with real features. None means ``RandomFourier()``. The deformed map has as many
        components as the inner map.
    graph : Graph or sparse matrix of shape (n, n), default=None
        An estimator that builds the graph from the rows, such as `NeighborGraph` or `FeatureGraph`; or the matrix of
        the weights of all edges, which are symmetric and >= 0. None means ``NeighborGraph()``.
    strength : float, default=1.0
        The weight :math:`\alpha \ge 0` of the penalty; zero leaves the kernel unchanged. The penalty is a sum over rows
        in units of the kernel: try powers of ten from 0.01 to 10,000.
    power : float, default=1
        The power c of the Laplacian, from 0 to 100; 2 or 3 are often better than 1. Fractional powers are approximated
        by polynomials with an error of at most `power_error_` and cost more. Powers below 1/3 are too inaccurate on a
        graph with a sparse Laplacian, and a warning is issued.
    rank : int or None, default=None
        Number of directions that are shrunk, those of the greatest roughness. It reduces the cost of a transform from
        O(D^2) to O(D rank) per row. The error of a kernel value is at most :math:`|\phi(x)| |\phi(z)|` times
        `rank_error_`. None means all directions.
    max_bytes : float, default=2**30
        Number of bytes that the features of all rows may take during `fit`. If they need more, they are computed in
        panels of components, several times.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the inner map, of the sample of rows and of an approximate search for neighbors. None means that the
        inner map retains its own `random_state`.
    n_jobs : int or None, default=None
        Number of threads; None means all cores. The result does not depend on it, unless neighbors are searched
        approximately.

    Attributes
    ----------
    feature_map_ : BaseMap
        The fitted inner map.
    graph_ : GraphSummary
        Numbers of nodes, edges and connected components of the graph, and its bandwidth.
    power_error_ : float
        Bound on the spectral norm of the error of :math:`L^c`. It is zero for integer powers c.
    rank_error_ : float
        Bound on the kernel error that is due to `rank`, divided by :math:`|\phi(x)| |\phi(z)|`. It is zero if all
        directions are used.
    kernel_ : DeformedKernel
        The exact deformed kernel, for graphs of at most 4000 rows.
    features_ : WhitenedFeatures or LowRankFeatures
        The fitted map as a pure function of rows.
    n_features_in_ : int
        Number of features of the rows seen in `fit`.

    See Also
    --------
    DeformedKernel : The exact deformed kernel.
    NeighborGraph : The graph of nearest neighbors.
    FeatureGraph : A graph of all pairs of rows, to which rows can be added.
    DeformedSearchCV : Selection of `strength`, `power` and the ridge penalty by the labeled rows.

    Notes
    -----
    Time is O(n D^2), as for the second moments of the features, plus the time to build the graph. Memory is O(D^2), the
    edges, and `max_bytes`. A `NeighborGraph` needs all rows at once: learners collect them from blocks that can be read
    again, or draw a sample (`NeighborGraph.max_rows`). A `FeatureGraph` needs sums over rows only, and `partial_fit`
    can add rows to it.

    The inner map should have many components compared with the rows of the graph: the smooth functions have to lie in
    the span of the features, and random Fourier features have an independent error at each row, to which a deformation
    of large strength adapts. Therefore predictions improve more for rows of the graph than for new rows. Landmarks
    (`Nystroem`) do not have this error: try them as inner map if new rows matter.

    For graphs of at most 4000 rows, the rows are retained for `kernel_`, and pickles of the map, and of learners with
    it, contain the rows. `features_` does not contain them, unless the inner map does (the landmarks of `Nystroem` are
    rows); neither does a map that was fitted by `partial_fit`.

    References
    ----------
    .. [1] Ionescu, Popa, Sminchisescu (2017), Large-scale data-dependent kernel approximation, AISTATS, Proposition 2.
    .. [2] Sindhwani, Niyogi, Belkin (2005), Beyond the point cloud: from transductive to semi-supervised learning,
       ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Deformed, Gaussian, NeighborGraph, RandomFourier
    >>> t = np.linspace(0, 3, 100)
    >>> X = np.concatenate([np.column_stack([t, 0 * t]), np.column_stack([t, 0 * t + 1])])  # two parallel lines
    >>> plain = RandomFourier(Gaussian(1.0), 300, random_state=0).fit(X)
    >>> along, across = plain.gram(X[:1], X[[99, 100]])[0]  # the other end of the line, the start of the other line
    >>> bool(along < 0.1 * across)
    True
    >>> deformed = Deformed(plain, NeighborGraph(4), strength=1000.0).fit(X)
    >>> along, across = deformed.gram(X[:1], X[[99, 100]])[0]
    >>> bool(along > 3 * across)
    True
    """

    needs: ClassVar[str] = (
        "to be the outermost map, since it changes the kernel. Give it the combination of maps as inner map instead"
    )
    parameter_domains: ClassVar[Mapping[str, Domain]] = {
        "strength": Interval(0),
        "power": Interval(0, MAX_POWER, closed="both"),
        "rank": Integer(1) | Choice(None),
        "max_bytes": Interval(0),
    }
    features_: WhitenedFeatures | LowRankFeatures
    feature_map_: BaseMap
    graph_: GraphSummary
    _exact: Nodes | None
    _penalty: Penalty
    _moments: Any = None  # the `GraphMoments` of a `GrowingGraph`; None for other graphs
    _cached_kernel: DeformedKernel | None = None  # computed when `kernel_` is read

    def __init__(
        self,
        feature_map: BaseMap | None = None,
        graph: Any = None,
        *,
        strength: float = 1.0,
        power: float = 1,
        rank: int | None = None,
        max_bytes: float = 2**30,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.feature_map = feature_map
        self.graph = graph
        self.strength = strength
        self.power = power
        self.rank = rank
        self.max_bytes = max_bytes
        self.random_state = random_state
        self.n_jobs = n_jobs

    # ---- the inner map and the graph ----------------------------------------------------------

    @property
    def unbiased(self) -> bool | str:
        return (
            "the deformed kernel depends on the kernel of the inner map through an inverse, and the mean of an inverse "
            "is not the inverse of the mean; the bias vanishes as the number of components grows"
        )

    @property
    def built_from_rows(self) -> bool:
        return self._inner_map().built_from_rows

    @property
    def fitted_rows_(self) -> Array | None:
        """Hashes of the rows that the inner map was built from; None if it was not built from rows."""
        return self.feature_map_.fitted_rows_

    @property
    def kernel(self) -> Kernel | None:
        """The kernel of the inner map, before it is deformed."""
        return self._inner_map().kernel

    @property
    def width(self) -> int:
        return self._inner_map().width

    def with_kernel(self, kernel: Kernel) -> Self:
        return fresh_copy(self, feature_map=self._inner_map().with_kernel(kernel))

    def _kernel(self) -> Kernel:
        return self._inner_map()._kernel()

    def _inner_map(self) -> BaseMap:
        """Return the parameter `feature_map`, or the default map if it is None."""
        inner = RandomFourier() if self.feature_map is None else self.feature_map
        if not isinstance(inner, BaseMap):
            msg = f"Deformed: feature_map must be a mercer map such as RandomFourier(), got {inner!r}."
            raise ParameterError(msg)
        if inner.uses_targets:
            msg = (
                f"Deformed: feature_map must be a map that does not learn from targets, got {type(inner).__name__}. "
                "Fit it first, and use a map of its kernel_."
            )
            raise ParameterError(msg)
        return inner

    def _unfitted_inner_map(self) -> BaseMap:
        """Return an unfitted copy of the inner map.

        The parameters `random_state` and `n_jobs` of this map, unless they are None, replace those of the copy.
        """
        changes = {name: getattr(self, name) for name in ("random_state", "n_jobs")}
        return fresh_copy(self._inner_map(), **{name: value for name, value in changes.items() if value is not None})

    def _graph(self) -> Graph:
        """Return the graph: `graph` itself, the default graph if it is None, or the graph of a matrix of weights."""
        if self.graph is None:
            return NeighborGraph()
        if sp.issparse(self.graph):
            return GivenGraph(self.graph)
        if not isinstance(self.graph, Graph):
            msg = (
                "Deformed: graph must be a Graph such as NeighborGraph() or FeatureGraph(), or the weights of all "
                f"pairs of rows as a SciPy sparse matrix, got {type(self.graph).__name__}. Try "
                "scipy.sparse.csr_array(W)."
            )
            raise ParameterError(msg)
        return self.graph

    def check(self) -> None:
        self._inner_map().check()
        self._check_domains()
        self._graph().check()

    def needs_rows(self) -> bool:
        return True

    def _requested_penalty(self) -> Penalty:
        return Penalty(float(self.strength), float(self.power))

    # ---- fitting ------------------------------------------------------------------------------

    def _fit_costs(self, n: int, d: int) -> dict[str, Any]:
        D = self.width
        building = self._graph().build_cost(n, d, D)
        graph = {"build graph": building, "measure roughness": 1.5 * n * D**2, "deform": float(D**3)}
        return {**self._inner_map().fit_costs(n, d), **graph}

    def fit_engine(self, engine: Engine, report: Report | None = None) -> Self:
        inner, measure = self.measure(engine, report)
        enter_stage(report, "measure roughness")
        roughness = measure(self._requested_penalty())
        enter_stage(report, "deform")
        return self.fit_roughness(inner, roughness, engine.first().X.dtype)

    def measure(self, engine: Engine, report: Report | None = None) -> tuple[BaseMap, Measure]:
        """Fit the inner map and build the graph. This part of a fit does not depend on `strength` and `power`.

        Parameters
        ----------
        engine : Engine
            The rows, which can be read more than once.
        report : callable or None, default=None
            Receives the progress.

        Returns
        -------
        inner : BaseMap
            The fitted inner map.
        measure : callable
            Function from a `Penalty` to the `Roughness` of the features of the inner map on the graph of the rows.
        """
        self.check()
        graph, inner = self._graph(), self._unfitted_inner_map()
        if not engine.replayable:
            msg = (
                "Deformed: the graph is built from all rows before anything is learned from them, but the blocks can "
                "be read only once. Pass an iterable that can be read again (a list, an object whose __iter__ starts "
                "over, or files by open_rows), or rows in memory."
            )
            raise DataError(msg)
        inner.fit_engine(engine, report)
        self._check_features(inner)
        enter_stage(report, "build graph")
        seed = seed_of(self.random_state, "graph")
        return inner, graph.measure(inner.features_, engine, max_bytes=int(self.max_bytes), seed=seed, report=report)

    def fit_roughness(self, inner: BaseMap, found: Roughness, dtype: Any) -> Self:
        """Set the fitted attributes from the results of `measure`. This is the second part of a fit.

        Parameters
        ----------
        inner : BaseMap
            The fitted inner map.
        found : Roughness
            The roughness of the features of the inner map, for the `strength` and `power` of this map.
        dtype : dtype
            The dtype of the rows.

        Returns
        -------
        self
        """
        self.n_features_in_ = inner.n_features_in_
        self.feature_map_ = inner
        self._deform(found, dtype)
        return self

    def _has_growing_graph(self) -> bool:
        return isinstance(self._graph(), GrowingGraph)

    @available_if(_has_growing_graph)
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Add rows to the graph, which must be a `FeatureGraph` or another `GrowingGraph`.

        Without a previous `fit`, the first call determines the inner map, the bandwidth and the mean of the positive
        features from the rows that it is given. The degrees of all later rows are computed with that mean. The features
        of all rows change with every call.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows, labeled or not.
        y : ignored
            Present for compatibility with pipelines.

        Returns
        -------
        self
        """
        del y
        with unchanged_if_it_fails(self):
            first = self._moments is None
            engine = self._in_memory(X, reset=first)
            if first:
                inner = self._unfitted_inner_map().fit_engine(engine)
                self._check_features(inner)
                self.feature_map_ = inner
            self._add(engine)
        return self

    def _add(self, engine: Engine) -> None:
        """Add the rows of an engine to the growing graph, and update the features."""
        graph = self._graph()
        assert isinstance(graph, GrowingGraph)
        features, seed = self.feature_map_.features_, seed_of(self.random_state, "graph")
        moments = graph.moments(features, engine, seed=seed, previous=self._moments)
        self._deform(moments.roughness(self._requested_penalty()), engine.first().X.dtype)

    @property
    def refuses_rows(self) -> str | None:
        if not isinstance(self._inner_map(), DrawnMap):
            return (
                "partial_fit cannot be used with a Deformed map whose inner map is a "
                f"{type(self.feature_map).__name__} map, because rows that are added to the outer graph would be "
                "missing in the inner map. Use fit on all rows, or a single Deformed map."
            )
        if not self._has_growing_graph():
            return (
                f"partial_fit needs a map to which rows can be added, but the {type(self._graph()).__name__} of the "
                "Deformed map is built from all rows at once. Use fit on all rows, labeled and not, as arrays or as "
                "blocks that can be read again; or Deformed(..., FeatureGraph()), to which rows can be added."
            )
        return None

    def grown(self, engine: Engine) -> tuple[Self, Array]:
        grown = copy(self)
        grown._add(engine)
        return grown, np.linalg.solve(self.features_.matrix, grown.features_.matrix)

    @staticmethod
    def _check_features(inner: BaseMap) -> None:
        """Raise `ParameterError` unless the features of the fitted inner map are real and its `signs_` is None."""
        check_real(inner, inner.features_)
        if inner.signs_ is not None:
            msg = (
                f"Deformed needs a positive definite kernel, but the features of {inner.kernel_!r} by "
                f"{type(inner).__name__} have signs, because of negative coefficients or a negative constant."
            )
            raise ParameterError(msg)

    def _deform(self, found: Roughness, dtype: Any) -> None:
        """Set the fitted attributes, given the roughness of the features and the dtype of the rows."""
        features = self.feature_map_.features_
        if not np.isfinite(np.diagonal(found.matrix)).all():
            msg = "Deformed: the roughness of the features overflows. Scale the rows or strength down, or pass float64."
            raise DataError(msg)
        if found.error > MAX_POWER_ERROR * 2.0**self.power:
            msg = (
                f"Deformed: power={self.power!r} cannot be approximated well by sparse products, and the smoothest "
                f"functions are penalized too little: the error is up to {found.error:.2g} of at most "
                f"{2.0**self.power:.2g} (power_error_). Use a power of 0.5 or more, or a FeatureGraph, which has any "
                "power exactly."
            )
            warnings.warn(msg, MercerWarning, stacklevel=2)
        if self.rank is None or self.rank >= features.n_components:
            whitening = whitening_of(found.matrix, overwrite=True).astype(dtype, copy=False)
            self.features_, self.rank_error_ = WhitenedFeatures(features, whitening), 0.0
        else:
            basis, shrinkage, self.rank_error_ = roughest_directions(found.matrix, self.rank)
            self.features_ = LowRankFeatures(features, basis.astype(dtype), shrinkage.astype(dtype))
        self.graph_ = found.graph
        self.power_error_ = found.error
        self._exact = found.exact
        self._moments = found.moments
        self._cached_kernel = None
        self._penalty = self._requested_penalty()
        self.signs_ = None
        self._n_features_out = features.n_components

    @property
    def kernel_(self) -> DeformedKernel:
        """The exact deformed kernel. Its cost is cubic in the number of rows of the graph."""
        self._check_fitted()
        if self._exact is None:
            msg = (
                f"Deformed: the exact deformed kernel of {self.graph_.n_nodes} rows needs matrices of all their pairs, "
                f"and is available for at most {EXACT_ROWS} unweighted rows that were passed to one fit. To measure "
                "the error of such a map, fit it on fewer rows."
            )
            raise NoClosedFormError(msg)
        if self._cached_kernel is None:
            rows, laplacian = self._exact.rows, self._exact.laplacian
            matrix = self._penalty.strength * laplacian.power(self._penalty.power)
            self._cached_kernel = DeformedKernel(self.feature_map_.kernel_, rows, matrix)
        return self._cached_kernel

    def __getstate__(self) -> Any:
        state = super().__getstate__()
        # The cached kernel holds a matrix of all pairs of rows, which can be computed again.
        return {**state, "_cached_kernel": None} if "_cached_kernel" in state else state
