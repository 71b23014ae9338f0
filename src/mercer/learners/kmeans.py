"""Kernel k-means: on features at linear cost, or exactly on the Gram matrix."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Real
from typing import Any, Literal, Self

import numpy as np

from mercer.data.row_results import is_source, on_blocks
from mercer.engines import Engine, Progress, fill_rows
from mercer.engines.passes import Passes
from mercer.errors import DataError, MercerWarning, ParameterError
from mercer.kernels import Kernel
from mercer.learners.base import Clusterer, available_if, check_fitted
from mercer.maps import BaseMap
from mercer.maps.parameters import check_count
from mercer.maps.registry import check_grows
from mercer.solvers.clusters.exact import ExactClusters, exact_lloyd
from mercer.solvers.clusters.lloyd import Assign, Draw, FeatureClusters, best_of, first_of_least, lloyd
from mercer.solvers.clusters.mini_batch import RunningMeans, by_batches
from mercer.solvers.clusters.starts import STARTS, Start
from mercer.statistics.feature_cache import is_memory, keeping_features
from mercer.statistics.sample import seed_of

__all__ = ["KernelKMeans"]

Array = np.ndarray
# Most rows that one thread takes at a time.
BLOCK_ROWS = 2048


def _on_features(model: KernelKMeans) -> bool:
    if model.exact:
        msg = f"{type(model).__name__}: exact=True needs all rows at once. Use exact=False for partial_fit."
        raise AttributeError(msg)
    return check_grows(model)


class KernelKMeans(Clusterer):
    r"""Kernel k-means at linear cost.

    Groups rows so that the sum of squared distances to the center of their group, in the space of the kernel, is small:

    .. math:: J = \sum_i w_i \min_r \| \varphi(x_i) - c_r \|^2 .

    Groups may have any shape that the kernel can see, where k-means on the rows themselves has straight borders. By
    default Lloyd's iteration runs on the features of a map: time O(n k D) a pass, memory O(k D + block), where the Gram
    matrix would take O(n^2) of both. It equals exact kernel k-means with the approximate kernel of the map.

    Parameters
    ----------
    feature_map : BaseMap, Kernel or None, default=None
        A map; or a kernel, for which a map of 512 features is drawn; None means a Gaussian kernel of median
        lengthscale.
    n_clusters : int, default=8
        Number of clusters, k.
    exact : bool, default=False
        Whether to work on the Gram matrix of the kernel itself, for a few thousand rows in memory.
    init : {"k-means++", "k-means||"} or array-like of shape (k, d), default="k-means++"
        Where to start: at rows far apart, found by greedy k-means++ on a uniform sample of the rows (4096 of them, or
        as many as 512 MiB hold, or 20 a cluster), or by k-means||, which looks at all rows, in five passes; or at the
        images of given rows.
    n_init : int, default=1
        Starts, of which the best result is kept. They share each pass over the rows.
    max_iter : int, default=300
        Most passes over the rows.
    tol : float, default=1e-5
        The iteration ends when moving the centers lowers the inertia by no more than this share; with 0, when no row
        changes its cluster.
    batch_size : int or None, default=None
        Rows after which the centers move. None means all of them (Lloyd); with a number, centers are running means of
        the rows that came to them, in the order of the data, which should be random. Then `n_init` starts are compared
        before the first step.
    block_size : int or None, default=None
        Rows that are worked on at a time; None chooses by width. It changes the result by rounding only.
    n_jobs : int or None, default=None
        Threads; None means all cores. The result does not depend on it, to the bit.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the starts, and of the map where `feature_map` is a kernel or None.
    progress : bool or callable, default=False
        True shows rows done on a terminal; a callable gets a `Progress` after each pass.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (k, D)
        Centers in the space of the features; not with ``exact=True``, where centers are sums over rows.
    labels_ : ndarray of shape (n,)
        Clusters of the rows of `fit`, if they were in memory. Of a stream or of dask they are not kept, since they
        would grow with the rows: call `predict` on the blocks. After `partial_fit`, those of the last block.
    inertia_ : float
        J of these centers, on the rows of `fit` or of the last `partial_fit`.
    inertia_path_ : ndarray
        J at each pass, which never increases; with batches, at the end only.
    n_iter_ : int
        Passes in which centers moved.
    feature_map_ : BaseMap
        The fitted map.

    Notes
    -----
    The start depends on the seed and on the contents of rows alone, by hashes of their entries: not on blocks, not on
    their order, and a row repeated counts as a row with a weight. So equal rows give equal clusters to rounding in
    memory, from a stream and on dask. Candidates for centers are drawn among distinct rows; weights and
    repetitions come in where these are reduced to k.

    Distances that differ by rounding only count as equal, and the cluster of the smaller number gets the row. A cluster
    that has lost all its rows starts anew at the row farthest from its center. Features of rows in memory are kept from
    pass to pass if they take at most 512 MiB, and computed anew in each pass otherwise.

    See Also
    --------
    sklearn.cluster.KMeans : The same with the linear kernel.

    References
    ----------
    .. [1] Dhillon, Guan, Kulis (2004), Kernel k-means, spectral clustering and normalized cuts, KDD.
    .. [2] Bahmani, Moseley, Vattani, Kumar, Vassilvitskii (2012), Scalable k-means++, VLDB.

    Examples
    --------
    Two rings, one inside the other, that no straight border can part:

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

    _clusters: FeatureClusters | ExactClusters
    _running: RunningMeans
    _labels: Array | None

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
        progress: bool | Callable[[Progress], None] = False,
    ) -> None:
        self.feature_map = feature_map
        self.n_clusters = n_clusters
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

    def _fit_map(self, engine: Engine) -> None:
        with warnings.catch_warnings():
            if self.exact:  # the map is there for its kernel alone: columns too many do no harm
                warnings.simplefilter("ignore", MercerWarning)
            super()._fit_map(engine)

    def _block_rows(self, X: Any) -> int:
        # Sums over clusters are small, so that small blocks cost nothing and share out evenly.
        rows = super()._block_rows(X)
        return min(rows, BLOCK_ROWS) if self.block_size is None else rows

    def _learn(self, engine: Engine) -> None:
        self._check_parameters()
        passes = Passes(self._report())
        if not engine.replayable:
            msg = (
                f"{type(self).__name__} reads the rows many times, but the blocks can be read only once. Pass an "
                "iterable that can be read again (a list, or an object whose __iter__ starts over), or give the blocks "
                "to partial_fit one by one."
            )
            raise DataError(msg)
        if self.exact:
            self._learn_exactly(engine, passes)
            passes.end()
            return
        draw = Draw(self.feature_map_.features_)
        source = keeping_features(engine, draw, self.n_jobs)
        starts = self._start().on_features(source, draw)
        if self.batch_size is None:
            found = lloyd(source, draw, starts, max_iter=self.max_iter, tol=self.tol, report=passes.tell)
            self._running = RunningMeans(found.centers, found.weight)
            self.inertia_, self.inertia_path_, self.n_iter_ = found.inertia, np.array(found.path), found.n_iter
        else:
            self._learn_by_batches(source, draw, starts, passes)
        self._conclude(draw)
        self._labels = self._of_rows(engine.X, np.empty(engine.X.shape[0], np.int32)) if is_memory(engine) else None
        passes.end()

    def _learn_by_batches(self, engine: Engine, draw: Draw, starts: Array, passes: Passes) -> None:
        self._running, self.n_iter_ = by_batches(
            engine,
            draw,
            best_of(engine, draw, starts),
            batch_size=int(self.batch_size or 1),
            block_rows=self._block_rows,
            max_iter=self.max_iter,
            tol=self.tol,
            report=passes.tell,
        )
        found = engine.sum(Assign(draw, self._running.centers[None]))
        self.inertia_ = float(found.inertia[0])
        self.inertia_path_ = np.array([self.inertia_])

    def _learn_exactly(self, engine: Engine, passes: Passes) -> None:
        if not is_memory(engine):
            msg = (
                f"{type(self).__name__}: exact=True needs all rows in memory at once, for their Gram matrix. Pass one "
                "array, or use exact=False: it takes blocks, and memory does not grow with them."
            )
            raise DataError(msg)
        X, kernel = engine.X, self.feature_map_.kernel_
        K = kernel(X.astype(np.float64))  # distances are small differences of its entries
        runs = [
            exact_lloyd(K, start, engine.weight, max_iter=self.max_iter, tol=self.tol, report=passes.tell)
            for start in self._start().on_gram(engine, K, kernel)
        ]
        best = runs[first_of_least(np.array([run.inertia for run in runs]))]
        counts = best.coefficients.any(axis=1)  # rows of weight zero are part of no center
        self._clusters = ExactClusters(kernel, X[counts], best.coefficients[counts], best.norms)
        self.inertia_, self.inertia_path_, self.n_iter_ = best.inertia, np.array(best.path), best.n_iter
        self._labels = best.labels
        self._n_features_out = self.n_clusters

    @available_if(_on_features)
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Let the rows of a block come to the centers, which move as running means of all that came.

        The first call fits the map and finds the start, on the rows it is given: at least as many as there are
        clusters. After `fit`, it goes on from there. A `Deformed` map takes the rows into its `FeatureGraph`; a graph
        that cannot grow is refused.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows.
        y : ignored
            For pipelines.
        sample_weight : array-like of shape (n,), default=None
            Weights >= 0.

        Returns
        -------
        self
        """
        with self._unchanged_if_it_fails():
            self._check_parameters()
            fresh = not hasattr(self, "feature_map_")
            X, _, weight = self._checked(X, y, sample_weight, reset=fresh)
            engine = self._memory(X, None, weight)
            if fresh:
                self._fit_map(engine)
            else:
                change = self._grow_map(engine)
                self._running = self._running if change is None else self._running.transformed(change)
            draw = Draw(self.feature_map_.features_)
            if fresh:
                self._running = RunningMeans.starting_at(best_of(engine, draw, self._start().on_features(engine, draw)))
            self._running = self._running.after(engine.sum(Assign(draw, self._running.centers[None])))
            self._conclude(draw)
            found = engine.sum(Assign(draw, self._running.centers[None]))
            self.inertia_ = float(found.inertia[0])
            self.inertia_path_ = np.array([self.inertia_])
            self.n_iter_ = getattr(self, "n_iter_", 0) + 1
            self._labels = self._of_rows(X, np.empty(X.shape[0], np.int32))
        return self

    def _conclude(self, draw: Draw) -> None:
        if not self._running.weight.any():
            msg = f"{type(self).__name__}: no row has a weight above zero."
            raise DataError(msg)
        self.cluster_centers_ = self._running.centers
        self._clusters = FeatureClusters(draw, self.cluster_centers_)
        self._n_features_out = self.n_clusters

    def _forget(self) -> None:
        super()._forget()
        for name in ("_clusters", "_running", "_labels"):
            self.__dict__.pop(name, None)

    def _check_parameters(self) -> None:
        for name in ("n_clusters", "n_init", "max_iter", *(() if self.batch_size is None else ("batch_size",))):
            check_count(self, name)
        number = isinstance(self.tol, Real) and not isinstance(self.tol, bool)
        if not number or not 0 <= self.tol < np.inf:
            msg = f"{type(self).__name__}: tol must be a finite number >= 0, got {self.tol!r}."
            raise ParameterError(msg)
        if isinstance(self.init, str) and self.init not in STARTS:
            msg = (
                f"{type(self).__name__}: init must be one of {', '.join(map(repr, STARTS))}, or an array of "
                f"{self.n_clusters} rows, got {self.init!r}."
            )
            raise ParameterError(msg)
        if self.exact and self.batch_size is not None:
            msg = f"{type(self).__name__}: exact=True takes all rows at once. Use batch_size=None, or exact=False."
            raise ParameterError(msg)
        if self.exact and isinstance(self.init, str) and self.init != "k-means++":
            msg = (
                f"{type(self).__name__}: exact=True starts by init='k-means++' or at given rows, got {self.init!r}, "
                "which is for rows that do not fit in memory."
            )
            raise ParameterError(msg)

    def _start(self) -> Start:
        """Return the rule by which first centers are found."""
        init = self.init
        if not isinstance(init, str):
            init = self._check_rows(init)
            if init.shape[0] != self.n_clusters:
                msg = (
                    f"{type(self).__name__}: init must have one row a cluster: n_clusters={self.n_clusters}, got "
                    f"{init.shape[0]} rows."
                )
                raise ParameterError(msg)
        seed = seed_of(self.random_state, "k-means")
        return Start(type(self).__name__, init, self.n_clusters, self.n_init, self.n_features_in_, seed)

    # ---- using --------------------------------------------------------------------------------

    @property
    def labels_(self) -> Array:
        check_fitted(self)
        if self._labels is None:
            msg = (
                f"{type(self).__name__} keeps no labels_ of a stream or of dask: they would grow with the rows. Call "
                "predict on the blocks."
            )
            raise AttributeError(msg)
        return self._labels

    def predict(self, X: Any) -> Array:
        """Return the cluster of each row: the number of its nearest center.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
        """
        X = self._check_rows(X)
        return self._of_rows(X, np.empty(X.shape[0], np.int32))

    def transform(self, X: Any) -> Array:
        """Return the distances of each row to all centers, in the space of the kernel.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n, k)
        """
        X = self._check_rows(X)
        return self._of_rows(X, np.empty((X.shape[0], self.n_clusters), X.dtype))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:  # noqa: ARG002, pipelines pass targets
        """Return minus the sum of squared distances of the rows to their nearest centers.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d), or files
            Rows; or files as `open_rows` opens them, with their weights, read block by block.
        y : ignored
            For pipelines.
        sample_weight : array-like of shape (n,), default=None
            Weights >= 0.

        Returns
        -------
        float
        """
        check_fitted(self)
        if is_source(X):
            return sum(on_blocks(self, X, lambda model, rows, _, weight: model.score(rows, None, weight)))
        X, _, weight = self._checked(X, None, sample_weight, reset=False)
        distances = self._of_rows(X, np.empty((X.shape[0], self.n_clusters))).min(axis=1)
        return -float(np.square(distances) @ (np.ones(len(distances)) if weight is None else weight))

    def _of_rows(self, X: Any, out: Array) -> Array:
        """Fill in labels, or distances, of checked rows."""
        clusters = self._clusters

        def fill(rows: Any, target: Array) -> None:
            if target.ndim == 1:
                target[:] = clusters.labels(rows)
            else:
                np.sqrt(clusters.distances(rows), out=target, casting="same_kind")

        fill_rows(fill, X, out, n_jobs=self.n_jobs, width=clusters.width)
        return out
