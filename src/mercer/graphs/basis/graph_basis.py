"""The feature map of the smoothest functions of a graph of labeled and unlabeled rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp

from mercer.engines import Engine, Report, enter_stage
from mercer.errors import DataError, ParameterError, UnsupportedKernelError
from mercer.graphs.base import GraphSummary
from mercer.graphs.basis.eigenvectors import Eigenvectors, smoothest_eigenvectors
from mercer.graphs.basis.extension import GraphFeatures, Neighborhood
from mercer.graphs.basis.kernel import GraphKernel
from mercer.graphs.laplacian import GraphLaplacian
from mercer.graphs.laplacian_graph import GivenGraph, LaplacianGraph, gathered_indices, gathered_rows
from mercer.graphs.neighbor_graph import NeighborGraph
from mercer.graphs.neighbors import distinct_rows
from mercer.kernels import Kernel
from mercer.maps.base import BaseMap, check_replayable
from mercer.neighbors import neighbor_index
from mercer.parameters import Choice, Domain, Integer, Interval
from mercer.statistics import row_hashes
from mercer.statistics.sample import seed_of

__all__ = ["GraphBasis", "spectral_weights"]

Array = np.ndarray
MAX_POWER = 100
# Neighbors of a new row, where the graph does not define a number, and nodes whose distances define the bandwidth of
# their weights then.
DEFAULT_NEIGHBORS = 10
BANDWIDTH_NODES = 2000
# Up to this number of nodes, the neighbors of new rows are searched exactly, as in `LocalCorrection`.
MOST_EXACT_ROWS = 50_000


def spectral_weights(values: Array, strength: float, power: float) -> Array:
    """Return the weights (1 + strength * value^power)^(-1/2) of eigenvectors, given their eigenvalues.

    Examples
    --------
    >>> import numpy as np
    >>> spectral_weights(np.array([0.0, 0.03]), 100.0, 1.0)
    array([1. , 0.5])
    """
    return (1.0 + strength * np.asarray(values) ** power) ** -0.5


class GraphBasis(BaseMap):
    r"""Feature map of the smoothest functions of a graph of the rows, labeled or not.

    The features are the eigenvectors of the smallest eigenvalues :math:`\lambda` of the normalized Laplacian L of the
    graph, times :math:`(1 + s \lambda^c)^{-1/2}`. With all eigenvectors, the kernel at the rows of the graph is
    :math:`(I + s L^c)^{-1}`: functions are penalized by how rough they are along the edges [1]_, [2]_. What truncation
    costs is `mercer.theory.graph_truncation_error`. New rows get the weighted mean of their neighbors, divided by
    :math:`1 - \lambda` (Nystroem's extension [3]_).

    Parameters
    ----------
    graph : LaplacianGraph or sparse matrix of shape (n, n), default=None
        An estimator that builds the graph from the rows; or the matrix of the weights of all edges, which are
        symmetric and >= 0. None means ``NeighborGraph()``.
    n_components : int, default=256
        Number of eigenvectors. If the graph has fewer nodes, there are as many as nodes.
    strength : float, default=1e4
        The weight :math:`s \ge 0` of the roughness; zero means that all eigenvectors have the same weight.
    power : float, default=1
        The power c of the eigenvalues.
    laplacian : {"random_walk", "symmetric"}, default="random_walk"
        Eigenvectors of :math:`I - D^{-1} W` or of :math:`I - D^{-1/2} W D^{-1/2}`, with the weights W and the degrees
        D. They have the same eigenvalues. Those of the first are those of the second times :math:`D^{-1/2}`: the
        smoothest one is constant, and nodes with many edges have no larger features than others.
    normalize : bool, default=True
        Whether features are multiplied by a number such that the mean of k(x, x) over the nodes is one. False: the
        eigenvectors of the symmetric Laplacian are orthonormal.
    tol : float, default=1e-4
        Largest norm of L v - value v for a normalized eigenvector v.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the first vectors of the iteration and of an approximate search for neighbors.
    n_jobs : int or None, default=None
        Number of threads; None means all cores.

    Attributes
    ----------
    eigenvalues_ : ndarray of shape (k,)
        The eigenvalues: those of the null space first, then in ascending order, and those of rows without an edge last.
    residual_ : float
        Largest norm of L v - value v.
    next_eigenvalue_ : float
        The smallest eigenvalue that is left out, or infinity if none is.
    graph_ : GraphSummary
        Numbers of nodes, edges and connected components of the graph.
    nodes_ : ndarray of shape (n,)
        The node of each row of the fit, in their order: equal rows are one node, and rows of weight zero are none,
        which is -1. None if the graph was built from a sample of the rows.
    features_ : GraphFeatures
        The fitted map as a function of rows.
    kernel_ : GraphKernel
        The kernel of the features.
    n_features_in_ : int
        Number of features of the rows seen in `fit`.

    See Also
    --------
    Deformed : Deformation of the kernel of another map by a graph.
    FewLabelClassifier : A classifier on these features that selects their weights by few labels.
    SumMap : Joins this map with others: ``SumMap(maps=[Nystroem(), GraphBasis()])``.

    Notes
    -----
    The eigenvectors are computed by subspace iteration with Chebyshev filters. The memory is that of the eigenvectors
    and of the edges. The null space of a graph that falls apart is spanned by one function per connected component,
    and these come first, largest components first. Rows without an edge are components, too, but come last, because a
    function of a single row predicts no other one.

    The rows of the graph are a part of the fitted map.

    References
    ----------
    .. [1] Smola, Kondor (2003), Kernels and regularization on graphs, COLT.
    .. [2] Sindhwani, Niyogi, Belkin (2005), Beyond the point cloud: from transductive to semi-supervised learning,
       ICML.
    .. [3] Bengio et al. (2003), Out-of-sample extensions for LLE, Isomap, MDS, eigenmaps, and spectral clustering,
       NIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from mercer import GraphBasis, KernelRidgeClassifier
    >>> X, truth = make_moons(600, noise=0.05, random_state=0)
    >>> y = np.full(600, -1)
    >>> for label in (0, 1):
    ...     y[np.flatnonzero(truth == label)[:3]] = label  # three labels per class
    >>> model = KernelRidgeClassifier(GraphBasis(n_components=20, random_state=0), unlabeled=-1).fit(X, y)
    >>> X_new, y_new = make_moons(500, noise=0.05, random_state=1)
    >>> bool(model.score(X_new, y_new) > 0.95)
    True
    """

    needs: ClassVar[str] = (
        "no kernel, since its kernel is that of the graph. Join it with other maps by SumMap(maps=[...])"
    )
    parameter_domains: ClassVar[Mapping[str, Domain]] = {
        "n_components": Integer(1),
        "strength": Interval(0),
        "power": Interval(0, MAX_POWER, closed="right"),
        "laplacian": Choice("random_walk", "symmetric"),
        "normalize": Choice(True, False),
        "tol": Interval(0, 1, closed="neither"),
    }
    kernel: Kernel | None = None
    kernel_: Kernel
    features_: GraphFeatures
    graph_: GraphSummary
    eigenvalues_: Array
    nodes_: Array | None
    fitted_rows_: Array | None
    built_from_rows: ClassVar[bool] = True
    _laplacian: GraphLaplacian | None = None  # this and the next one are not stored in pickles and model files
    _rows: Any = None  # the nodes

    def __init__(
        self,
        graph: Any = None,
        n_components: int = 256,
        strength: float = 1e4,
        power: float = 1,
        *,
        laplacian: Literal["random_walk", "symmetric"] = "random_walk",
        normalize: bool = True,
        tol: float = 1e-4,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.graph = graph
        self.n_components = n_components
        self.strength = strength
        self.power = power
        self.laplacian = laplacian
        self.normalize = normalize
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs

    # ---- the contract of BaseMap --------------------------------------------------------------

    @property
    def unbiased(self) -> bool | str:
        return "the kernel is that of the graph, and the features represent it exactly"

    @property
    def width(self) -> int:
        return self.features_.n_components if hasattr(self, "features_") else self.n_components

    def with_kernel(self, kernel: Kernel) -> Self:
        msg = f"GraphBasis cannot approximate {kernel!r}.\n  needs: {self.needs}"
        raise UnsupportedKernelError(msg)

    def _kernel(self) -> Kernel:
        return self.kernel_ if hasattr(self, "kernel_") else GraphKernel()

    def _graph(self) -> LaplacianGraph:
        """Return the graph: `graph` itself, the default graph if it is None, or the graph of a matrix of weights."""
        if self.graph is None:
            return NeighborGraph()
        if sp.issparse(self.graph):
            return GivenGraph(self.graph)
        if not isinstance(self.graph, LaplacianGraph):
            msg = (
                "GraphBasis: graph must be a graph with a sparse Laplacian, such as NeighborGraph(), or the weights of "
                f"all pairs of rows as a SciPy sparse matrix, got {type(self.graph).__name__}."
            )
            raise ParameterError(msg)
        return self.graph

    def check(self) -> None:
        self._check_domains()
        self._graph().check()

    def needs_rows(self) -> bool:
        return True

    @property
    def refuses_rows(self) -> str | None:
        return (
            "partial_fit needs a map to which rows can be added, but the eigenvectors of a GraphBasis are those of all "
            "rows at once. Use fit on all rows, labeled and not, as arrays or as blocks that can be read again."
        )

    def grown(self, engine: Engine) -> tuple[Self, Array | None]:  # noqa: ARG002 - `refuses_rows` says why not
        raise DataError(self.refuses_rows)

    # ---- fitting ------------------------------------------------------------------------------

    def _fit_costs(self, n: int, d: int) -> dict[str, Any]:
        k = min(self.n_components, n)
        return {"build graph": self._graph().build_cost(n, d, k), "find eigenvectors": 200.0 * n * k * (30 + k / 20)}

    def fit_engine(self, engine: Engine, report: Report | None = None) -> Self:
        self.check()
        check_replayable(self, engine, instead=", or rows in memory")
        graph, seed = self._graph(), seed_of(self.random_state, "graph")
        enter_stage(report, "build graph")
        X = gathered_rows(engine, graph.max_rows, seed, report)
        distinct = distinct_rows(X) if graph.merges_equal_rows else None
        nodes = X if distinct is None else X[distinct]
        options = {"report": report} if graph.laplacian_reports else {}
        laplacian = graph.laplacian(nodes, seed=seed, n_jobs=engine.n_jobs, **options)
        enter_stage(report, "find eigenvectors")
        found = smoothest_eigenvectors(
            laplacian,
            min(self.n_components, laplacian.n_nodes),
            tol=self.tol,
            seed=seed % 2**32,
            dtype=nodes.dtype,
            n_jobs=engine.n_jobs,
            report=report,
        )
        index = gathered_indices(engine, graph.max_rows)
        self.nodes_ = None
        if index is not None:
            self.nodes_ = np.full(index[-1] + 1 if engine.n_rows is None else engine.n_rows, -1)
            self.nodes_[index] = self._nodes_of(X, nodes, distinct)
        self._finish(X, nodes, laplacian, found, neighborhood_of(graph, laplacian, nodes, seed, engine.n_jobs))
        return self

    def __getstate__(self) -> Any:
        state = super().__getstate__()
        # They are needed during the fit of a learner only, and may take more memory than the features.
        return {name: None if name in ("_laplacian", "_rows") else value for name, value in state.items()}

    @staticmethod
    def _nodes_of(X: Any, nodes: Any, distinct: Array | None) -> Array:
        """Return the node of each row."""
        if distinct is None:
            return np.arange(X.shape[0])
        out = np.full(X.shape[0], -1)
        out[distinct] = np.arange(len(distinct))
        copies = np.flatnonzero(out < 0)
        index = neighbor_index(nodes, search="exact")
        for start in range(0, len(copies), 4096):
            part = copies[start : start + 4096]
            out[part] = index.query(X[part], 1)[0][:, 0]
        return out

    def _finish(
        self, X: Any, nodes: Any, laplacian: GraphLaplacian, found: Eigenvectors, neighborhood: Neighborhood
    ) -> None:
        """Set the fitted attributes."""
        self.n_features_in_ = X.shape[1]
        self.eigenvalues_, self.residual_, self.next_eigenvalue_ = found.values, found.residual, found.next_value
        self.graph_ = GraphSummary(
            laplacian.n_nodes,
            laplacian.n_edges,
            laplacian.n_isolated,
            laplacian.n_connected_components,
            laplacian.search,
            laplacian.bandwidth,
        )
        vectors, roots = found.vectors, degree_roots(laplacian)
        vectors /= roots[:, None].astype(vectors.dtype)
        factors = spectral_weights(found.values, float(self.strength), float(self.power))
        scale = roots.astype(vectors.dtype) if self.laplacian == "symmetric" else None
        features = GraphFeatures(neighborhood, vectors, scale, factors, 1.0 - found.values)
        if self.normalize:
            features = features.with_factors(factors / np.sqrt(mean_of_squares(features)))
        self.features_ = features
        self._laplacian, self._rows = laplacian, nodes
        self.kernel_ = GraphKernel(features)
        self.fitted_rows_ = row_hashes(nodes)
        self.signs_ = None
        self._n_features_out = features.n_components


def degree_roots(laplacian: GraphLaplacian) -> Array:
    """Return the square roots of the degrees of the nodes, divided by their root mean square; one for isolated nodes.

    If the degrees are not known, which is the case for a Laplacian that was not built from weights, they are one.
    """
    if laplacian.degree is None:
        return np.ones(laplacian.n_nodes)
    degree = np.where(np.diff(laplacian.matrix.indptr) > 0, laplacian.degree, 0.0)
    mean = degree[degree > 0].mean() if (degree > 0).any() else 1.0
    return np.sqrt(np.where(degree > 0, degree / mean, 1.0))


def mean_of_squares(features: GraphFeatures, step: int = 8192) -> float:
    """Return the mean of k(x, x) over the nodes."""
    n = len(features.vectors)
    total = sum(
        float(np.square(features.at_nodes(slice(start, start + step)), dtype=np.float64).sum())
        for start in range(0, n, step)
    )
    return max(total / n, np.finfo(float).tiny)


def neighborhood_of(
    graph: LaplacianGraph, laplacian: GraphLaplacian, nodes: Any, seed: int, n_jobs: int | None
) -> Neighborhood:
    """Return the nodes as an index, and the weights of neighbors as the graph defines them.

    A graph that is not a `NeighborGraph` does not define weights of new rows; these have Gaussian weights of ten
    neighbors, and their bandwidth is the median distance of some nodes from their neighbors.
    """
    n = nodes.shape[0]
    search: Literal["exact", "approximate"] = "exact" if n <= MOST_EXACT_ROWS else "approximate"
    index = neighbor_index(nodes, search=search, seed=seed % 2**32, n_jobs=n_jobs)
    if isinstance(graph, NeighborGraph):
        self_tuned = graph.weights == "self_tuned"
        return Neighborhood(index, min(graph.n_neighbors, n), laplacian.bandwidth, laplacian.radii, self_tuned)
    count = min(DEFAULT_NEIGHBORS, n)
    some = np.unique(np.linspace(0, n - 1, min(n, BANDWIDTH_NODES)).astype(int))
    _, distances = index.query(nodes[some], count, own=some, n_jobs=n_jobs)
    apart = distances[np.isfinite(distances) & (distances > 0)]
    return Neighborhood(index, count, float(np.median(apart)) if apart.size else None)
