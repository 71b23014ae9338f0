"""Kernel k-means: on features at linear cost, or exactly on the Gram matrix."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import numpy as np

from mercer._docs import doc
from mercer.data.results import rowwise
from mercer.data.sources import FileRows, source_of
from mercer.engines import Engine, MemoryEngine, Report, enter_stage, fill_rows
from mercer.engines.passes import Passes
from mercer.errors import DataError, MercerWarning, ParameterError
from mercer.errors.memory import check_memory
from mercer.kernels import Kernel
from mercer.learners.base import Clusterer, Fit, available_if, check_grows
from mercer.maps import BaseMap
from mercer.maps.base import unchanged_if_it_fails
from mercer.parameters import Choice, Domain, Integer, Interval
from mercer.solvers.clusters.exact import ExactClusters, exact_lloyd
from mercer.solvers.clusters.lloyd import Assign, FeatureClusters, best_of, first_of_least, lloyd
from mercer.solvers.clusters.mini_batch import RunningMeans, by_batches
from mercer.solvers.clusters.starts import STARTS, Start
from mercer.statistics.feature_cache import RowFeatures
from mercer.statistics.sample import seed_of

__all__ = ["KernelKMeans"]

Array = np.ndarray


def can_add_to_clusters(model: KernelKMeans) -> bool:
    """Return True if the current parameters allow `partial_fit`; otherwise raise an error that gives the reason."""
    if model.exact:
        msg = f"{type(model).__name__}: exact=True needs all rows at once. Use exact=False for partial_fit."
        raise AttributeError(msg)
    return check_grows(model)


@doc
class KernelKMeans(Clusterer):
    r"""Kernel k-means at linear cost.

    Partitions rows into clusters so that the sum of squared distances to the cluster centers, in the feature space of
    the kernel, is small:

    .. math:: J = \sum_i w_i \min_r \| \varphi(x_i) - c_r \|^2 .

    Clusters need not be separated by hyperplanes, as those of k-means on the rows themselves are. By default Lloyd's
    algorithm runs on the features of a map. Time is O(n k D) per pass, and memory O(k D) plus one block of rows; the
    Gram matrix would take time and memory O(n^2). The result is that of exact kernel k-means with the approximate
    kernel of the map.

    Parameters
    ----------
    %(feature_map)s
    n_clusters : int, default=8
        Number of clusters k.
    exact : bool, default=False
        Whether to use the Gram matrix of the kernel itself, for a few thousand rows in memory.
    init : {"k-means++", "k-means||"} or array-like of shape (k, d), default="k-means++"
        Initialization: greedy k-means++ on a uniform sample of the rows (4096 of them, or as many as fit into 512 MiB,
        or 20 per cluster); k-means||, which reads all rows in five passes; or the features of given rows.
    n_init : int, default=1
        Number of starts, of which the best result is returned. They share each pass over the rows.
    max_iter : int, default=300
        Maximal number of passes over the rows.
    tol : float, default=1e-5
        The iteration ends when moving the centers lowers the inertia by at most this fraction. With 0, it ends when no
        row changes its cluster.
    batch_size : int or None, default=None
        Number of rows after which the centers move. None means all rows (Lloyd's algorithm). With a number, centers are
        running means of the rows assigned to them, in the order of the data, which should be random, and the `n_init`
        starts are compared before the first step.
    %(block_size)s
    %(n_jobs)s
    random_state : int, Generator, RandomState or None, default=None
        Seed of the starts, and of the map, unless `feature_map` is a map with a seed of its own.
    progress : bool or callable, default=False
        True shows the stage of the fit and the number of passes: on a terminal, in a notebook, or as lines of a log, by
        the logger "mercer" or on standard error. A callable receives a `Progress` after each pass.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (k, D)
        Centers in the feature space. It is not set with ``exact=True``, where centers are linear combinations of rows.
    labels_ : ndarray of shape (n,)
        Clusters of the rows of `fit`, if the rows were in memory. Otherwise it is not stored, since it would grow with
        the number of rows: call `predict` on the blocks. After `partial_fit`, clusters of the rows of the last block.
    inertia_ : float
        The objective J of the centers, on the rows of `fit` or of the last `partial_fit`.
    inertia_path_ : ndarray
        The objective J at each pass, which never increases. With batches, J is computed at the end only.
    n_iter_ : int
        Number of passes in which centers moved.
    feature_map_ : BaseMap
        The fitted map.

    Notes
    -----
    The initialization depends only on the seed and on the content of the rows, through hashes of their entries. It does
    not depend on blocks or on the order of rows, and a repeated row counts as a row with a weight. So the same rows
    give the same clusters in memory, out of core and on Dask, up to rounding error. Candidates for centers are sampled
    from the distinct rows; weights and repetitions matter when k of the candidates are chosen.

    Distances that differ only by rounding error are treated as equal, and the row is assigned to the first of the
    nearest clusters. The center of a cluster without rows is moved to the row that is farthest from its nearest center.
    Features of rows in memory are cached if they take at most 512 MiB, and computed again in each pass otherwise.

    See Also
    --------
    KernelPCA : Principal components in the same feature space.
    sklearn.cluster.KMeans : The same with the linear kernel.

    References
    ----------
    .. [1] Dhillon, Guan, Kulis (2004), Kernel k-means, spectral clustering and normalized cuts, KDD.
    .. [2] Bahmani, Moseley, Vattani, Kumar, Vassilvitskii (2012), Scalable k-means++, VLDB.
    .. [3] Arthur, Vassilvitskii (2007), k-means++: the advantages of careful seeding, SODA.
    .. [4] Sculley (2010), Web-scale k-means clustering, WWW.

    Examples
    --------
    Two rings, one inside the other, which no straight line separates:

    >>> import numpy as np
    >>> from mercer import Gaussian, KernelKMeans
    >>> rng = np.random.default_rng(0)
    >>> angle, radius = rng.uniform(0, 2 * np.pi, 400), np.repeat([0.3, 3.0], 200)
    >>> X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    >>> model = KernelKMeans(Gaussian(1.0), n_clusters=2, n_init=5, random_state=0).fit(X)
    >>> inner, outer = model.labels_[:200], model.labels_[200:]
    >>> bool((inner == inner[0]).all())
    True
    >>> blocks = [X[i : i + 100] for i in range(0, 400, 100)]
    >>> streamed = KernelKMeans(Gaussian(1.0), n_clusters=2, n_init=5, random_state=0).fit(blocks)
    >>> bool((streamed.predict(X) == model.labels_).all())
    True
    """

    parameter_domains: ClassVar[Mapping[str, Domain]] = {
        "n_clusters": Integer(1),
        "n_init": Integer(1),
        "max_iter": Integer(1),
        "tol": Interval(0),
        "batch_size": Choice(None) | Integer(1),
    }
    _clusters_: ExactClusters | FeatureClusters
    # Sums over clusters are small, so that small blocks cost nothing and are divided evenly among threads.
    most_block_rows = 2048

    def __init__(
        self,
        feature_map: BaseMap | Kernel | None = None,
        n_clusters: int = 8,
        *,
        exact: bool = False,
        init: Literal["k-means++", "k-means||"] | Any = "k-means++",
        n_init: int = 1,
        max_iter: int = 300,
        tol: float = 1e-5,
        batch_size: int | None = None,
        block_size: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: bool | Report = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.feature_map = feature_map
        self.exact = exact
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.batch_size = batch_size
        self.block_size = block_size
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress

    # ---- fitting ------------------------------------------------------------------------------

    def _several_passes(self) -> str:
        return "it reads the rows many times. Use partial_fit with one block after another."

    def _fit_map(self, fit: Fit) -> BaseMap:
        with warnings.catch_warnings():
            if self.exact:  # only the kernel of the map is used, so that too many components do no harm
                warnings.simplefilter("ignore", MercerWarning)
            return fit.fitted(fit.feature_map)

    def _statistic(self, fit: Fit) -> None:  # noqa: ARG002 - the signature of the contract
        return None  # `_solve` computes the sums it needs

    def _solve(self, statistic: None, fit: Fit | None) -> None:  # noqa: ARG002 - the signature of the contract
        assert fit is not None
        self._check_init()
        passes = Passes(fit.report)
        if self.exact:
            self._solve_exactly(fit, passes)
        else:
            self._solve_on_features(fit, passes)
        passes.end()

    def _solve_on_features(self, fit: Fit, passes: Passes) -> None:
        plain = RowFeatures(self.feature_map_.features_)
        features = plain.cached(fit.engine, self.n_jobs)
        enter_stage(fit.report, "choose starts")
        starts = self._start(fit.random_state).on_features(fit.engine, features, fit.report)
        enter_stage(fit.report, "move centers")
        if self.batch_size is None:
            found = lloyd(fit.engine, features, starts, max_iter=self.max_iter, tol=self.tol, report=passes.tell)
            self._means_ = RunningMeans(found.centers, found.weight)
            self.inertia_, self.inertia_path_, self.n_iter_ = found.inertia, np.array(found.path), found.n_iter
        else:
            self._solve_by_batches(fit.engine, features, starts, passes)
        self._set_centers(plain)
        rows = fit.engine.in_memory
        self._labels_ = None if rows is None else self._of_rows(rows.X, np.empty(len(rows), np.int32))

    def _solve_by_batches(self, engine: Engine, features: RowFeatures, starts: Array, passes: Passes) -> None:
        self._means_, self.n_iter_ = by_batches(
            engine,
            features,
            best_of(engine, features, starts),
            batch_size=int(self.batch_size or 1),
            block_rows=self._reader(self.feature_map_.width, fresh=False).block_rows,
            max_iter=self.max_iter,
            tol=self.tol,
            report=passes.tell,
        )
        self._set_inertia(engine, features)

    def _set_inertia(self, engine: Engine, features: RowFeatures) -> None:
        self.inertia_ = float(engine.sum(Assign(features, self._means_.centers[None])).inertia[0])
        self.inertia_path_ = np.array([self.inertia_])

    def _solve_exactly(self, fit: Fit, passes: Passes) -> None:
        rows = fit.engine.in_memory
        if rows is None:
            msg = (
                f"{type(self).__name__}: exact=True needs all rows in memory at once, for their Gram matrix. Pass one "
                "array, or use exact=False, which takes blocks with memory independent of their number."
            )
            raise DataError(msg)
        kernel, n = self.feature_map_.kernel_, len(rows)
        hint = "Use exact=False, whose memory does not grow with the number of rows."
        check_memory(type(self).__name__, f"exact=True, with the Gram matrix of {n} rows,", 8 * n**2, hint)
        K = kernel(rows.X.astype(np.float64))  # distances are small differences of its entries
        runs = [
            exact_lloyd(K, start, rows.weight, max_iter=self.max_iter, tol=self.tol, report=passes.tell)
            for start in self._start(fit.random_state).on_gram(fit.engine, rows.X, K, kernel)
        ]
        best = runs[first_of_least(np.array([run.inertia for run in runs]))]
        counts = best.coefficients.any(axis=1)  # rows of weight zero are part of no center
        self._clusters_ = ExactClusters(kernel, rows.X[counts], best.coefficients[counts], best.norms)
        self.inertia_, self.inertia_path_, self.n_iter_ = best.inertia, np.array(best.path), best.n_iter
        self._labels_ = best.labels

    @available_if(can_add_to_clusters)
    @doc
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Assign the rows of a block to the centers, which move as running means of all rows assigned so far.

        The first call fits the map and initializes the centers on its rows, of which there must be at least as many as
        clusters. After `fit`, the centers of that fit are updated. A `Deformed` map adds the rows to its
        `FeatureGraph`. If the graph cannot grow, an error is raised.

        %(partial_fit_rows)s
        """
        with unchanged_if_it_fails(self):
            self._check_parameters()
            self._check_init()
            fresh = "feature_map_" not in vars(self)
            prototype = self._unfitted_map(self.random_state) if fresh else self.feature_map_
            reader = self._reader(prototype.width, fresh=fresh)
            X, _, weight = reader(X, y, sample_weight)
            engine = MemoryEngine(X, None, weight, block_rows=reader.block_rows(X), n_jobs=self.n_jobs)
            if fresh:
                self._coding_ = reader.coding
                fit = self._fit_of(engine, prototype, self.random_state, {})
                self._warn_of_scales(fit)
                self._set_map(self._fit_map(fit))
            else:
                change = self._grow_map(engine)
                self._means_ = self._means_ if change is None else self._means_.transformed(change)
            features = RowFeatures(self.feature_map_.features_)
            if fresh:
                starts = self._start(self.random_state).on_features(engine, features)
                self._means_ = RunningMeans.starting_at(best_of(engine, features, starts))
            self._means_ = self._means_.after(engine.sum(Assign(features, self._means_.centers[None])))
            self._set_centers(features)
            self._set_inertia(engine, features)
            self.n_iter_ = vars(self).get("n_iter_", 0) + 1
            self._labels_ = self._of_rows(X, np.empty(X.shape[0], np.int32))
        return self

    def _set_centers(self, features: RowFeatures) -> None:
        if not self._means_.weight.any():
            msg = f"{type(self).__name__}: no row has a positive weight."
            raise DataError(msg)
        self.cluster_centers_ = self._means_.centers
        self._clusters_ = FeatureClusters(features, self.cluster_centers_)

    def _check_init(self) -> None:
        """Raise `ParameterError` if `init` is unknown, or cannot be combined with `exact` and `batch_size`."""
        name, init = type(self).__name__, self.init
        if isinstance(init, str) and init not in STARTS:
            msg = (
                f"{name}: init must be one of {', '.join(map(repr, STARTS))}, or an array of {self.n_clusters} rows, "
                f"got {init!r}."
            )
            raise ParameterError(msg)
        if self.exact and self.batch_size is not None:
            msg = f"{name}: exact=True takes all rows at once. Use batch_size=None, or exact=False."
            raise ParameterError(msg)
        if self.exact and isinstance(init, str) and init != "k-means++":
            msg = (
                f"{name}: exact=True needs init='k-means++' or given rows, got {init!r}, which is for rows that do not "
                "fit in memory."
            )
            raise ParameterError(msg)

    def _start(self, random_state: Any) -> Start:
        """Return the initialization of the centers; raise `ParameterError` if `init` has a wrong number of rows."""
        init = self.init
        if not isinstance(init, str):
            init = self._check_rows(init)
            if init.shape[0] != self.n_clusters:
                msg = (
                    f"{type(self).__name__}: init must have one row per cluster: n_clusters={self.n_clusters}, got "
                    f"{init.shape[0]} rows."
                )
                raise ParameterError(msg)
        seed = seed_of(random_state, "k-means")
        return Start(type(self).__name__, init, self.n_clusters, self.n_init, self.n_features_in_, seed)

    # ---- using --------------------------------------------------------------------------------

    @property
    def _n_features_out(self) -> int:
        return self.n_clusters

    @property
    def labels_(self) -> Array:
        self._check_fitted()
        if self._labels_ is None:
            msg = (
                f"{type(self).__name__} stores no labels_ for blocks, files and Dask collections: they would grow with "
                "the number of rows. Call predict on the blocks."
            )
            raise AttributeError(msg)
        return self._labels_

    @rowwise
    def predict(self, X: Any) -> Array:
        """Return the index of the nearest center of each row.

        %(rows_to_results)s
        ndarray of shape (n,)
        """
        X = self._check_rows(X)
        return self._of_rows(X, np.empty(X.shape[0], np.int32))

    @rowwise
    def transform(self, X: Any) -> Array:
        """Return the distances of each row to all centers, in the feature space.

        %(rows_to_results)s
        ndarray of shape (n, k)
        """
        X = self._check_rows(X)
        return self._of_rows(X, np.empty((X.shape[0], self.n_clusters), X.dtype))

    @doc
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:  # noqa: ARG002, pipelines pass targets
        """Return minus the sum of squared distances of the rows to their nearest centers.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d), or files
            Rows; or files with weights, as returned by `open_rows`, which are read block by block.
        %(y_ignored)s
        %(sample_weight)s

        Returns
        -------
        float
        """
        self._check_fitted()
        source = source_of(X, None, sample_weight, owner=type(self).__name__)
        if isinstance(source, FileRows):
            return sum(source.on_blocks(self, lambda model, rows, _, weight: model.score(rows, None, weight)))
        X, _, weight = self._reader(self.feature_map_.width, fresh=False)(X, None, sample_weight)
        distances = self._of_rows(X, np.empty((X.shape[0], self.n_clusters))).min(axis=1)
        return -float(np.square(distances) @ (np.ones(len(distances)) if weight is None else weight))

    def _of_rows(self, X: Any, out: Array) -> Array:
        """Write results for validated rows into `out`, and return it.

        If `out` has one dimension, it receives cluster labels; otherwise the distances to all centers (n, k).
        """
        clusters = self._clusters_

        def fill(rows: Any, target: Array) -> None:
            if target.ndim == 1:
                target[:] = clusters.labels(rows)
            else:
                np.sqrt(clusters.distances(rows), out=target, casting="same_kind")

        fill_rows(fill, X, out, n_jobs=self.n_jobs, width=clusters.width)
        return out
