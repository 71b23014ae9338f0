"""The map that is chosen for a kernel and rows: for a number of components, an error, a time or a memory."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np

from mercer._docs import doc
from mercer.choice.candidates import check_method
from mercer.choice.choose import Request, choose_for_rows, rows_for
from mercer.choice.table import MapChoice
from mercer.engines import Engine, Report, enter_stage
from mercer.engines.base import count_threads
from mercer.errors import DataError
from mercer.kernels import Gaussian, Kernel
from mercer.maps.base import BaseMap, DrawnMap, check_replayable, fresh_copy, given_kernel
from mercer.parameters import Choice, Domain, Integer, Interval, known_names
from mercer.statistics import RowSample
from mercer.statistics.sample import seed_of

__all__ = ["FeatureMap", "choose"]

Array = np.ndarray


@doc
class FeatureMap(BaseMap):
    r"""The best map for a kernel and rows: for a number of components, an error, a time or a memory.

    `fit` tries the maps that accept the kernel (Fourier features, Maclaurin features, quadrature, neurons, sketches,
    sums and products of these, landmarks), measures their errors on rows that are held out from the fits, and keeps the
    best one. `choice_` is the table of what was tried.

    - With `n_components` alone: the map of least error with this number of components.
    - With `tol`: the cheapest map whose error is at most `tol`. The number of components is increased until the error
      that is measured on the rows held out is below `tol` with the probability `confidence`. If no map reaches it
      with `n_components` components (8192 if None) within the limits, the one of least error is kept, and a
      `MercerWarning` is issued.
    - With `time_limit` or `memory_limit`: the map of least error within them.

    Parameters
    ----------
    kernel : Kernel, default=None
        Any kernel; None means ``Gaussian(lengthscale="median")``.
    n_components : int or None, default=None
        Number of components; the largest number, if `tol`, `time_limit` or `memory_limit` is given. None means 512, or
        8192 at most if one of these is given.
    tol : float or None, default=None
        Largest error; see `error`.
    time_limit : float or None, default=None
        Number of seconds for `fit`, including the choice, and the features of all rows that `fit` receives; with
        ``for_learner=True`` also for their second moments. Times are extrapolated from measured ones.
    memory_limit : float or None, default=None
        Number of bytes for the parameters of the map and the features of all rows that `fit` receives; with
        ``for_learner=True``, for two square matrices of second moments instead of the features.
    method : "auto", str or list of str, default="auto"
        Names of the maps to try, such as "Nystroem". "auto" means all that accept the kernel.
    error : {"rmse", "relative", "spectral", "largest"}, default="rmse"
        The error that is measured, over pairs of rows: root mean squared error of pairs of different rows; Frobenius
        norm of the error matrix divided by that of the kernel matrix; the same with spectral norms; largest absolute
        error.
    confidence : float, default=0.95
        Probability with which the error on further rows of the same distribution is at most `tol`. The bound is an
        estimate, from the variation among the rows held out. That of the largest error is for as many further rows as
        are held out, and extrapolates the tail of the errors; it is the roughest, since a single row can have it.
    for_learner : bool, default=False
        Whether the cost of a component includes the second moments that learners compute from the features, O(D^2) per
        row for D components. With it, fewer components are worth more expensive features. If only `n_components` is
        given, the choice is made to take less time than the learner: maps are compared with 64 components, one or two
        of them are fitted with all components, and maps whose fit would take longer than the second moments of all
        rows are left out.
    %(random_state, n_jobs)s

    Attributes
    ----------
    map_ : DrawnMap
        The fitted map that was chosen.
    choice_ : MapChoice
        All maps that were tried: ``print(model.choice_)``, ``choice_.plot()``, ``choice_.to_pandas()``.
    features_ : Features
        The fitted features: a function from rows to features.
    %(kernel_, n_features_in_)s

    See Also
    --------
    compare : Errors, times and memory of several maps for several numbers of components.
    audit : Measures one fitted map.

    Notes
    -----
    At most 4000 rows, and at most a quarter of the distinct rows, are held out (fewer with a short `time_limit` or with
    ``for_learner=True``). The choice is from one draw of each map, and the
    map that was measured is the one that is kept, so the error in `choice_` is that of `map_`.

    The choice for `n_components` alone depends on the seed and the rows only. With `tol`, it also depends on the speed
    of the maps. Speeds are measured once per machine and stored in a file (`mercer.choice.rates_file`), so the same
    call makes the same choice. With `time_limit`, it depends on the time that the fits take.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import FeatureMap, Gaussian
    >>> X = np.random.default_rng(0).normal(size=(2000, 6))
    >>> feature_map = FeatureMap(Gaussian("median"), n_components=128, random_state=0).fit(X)
    >>> feature_map.transform(X).shape
    (2000, 128)
    >>> feature_map.choice_.met
    True
    """

    needs: ClassVar[str] = "to be the outermost map, since the map is chosen when it is fitted"
    default_kernel: ClassVar[Kernel] = Gaussian(lengthscale="median")
    parameter_domains: ClassVar[Mapping[str, Domain]] = {
        "n_components": Integer(1) | Choice(None),
        "tol": Interval(0, closed="neither") | Choice(None),
        "time_limit": Interval(0, closed="neither") | Choice(None),
        "memory_limit": Interval(0, closed="neither") | Choice(None),
        "error": Choice("rmse", "relative", "spectral", "largest"),
        "confidence": Interval(0, 1, closed="neither"),
        "for_learner": Choice(True, False),
    }
    kernel: Kernel | None
    kernel_: Kernel
    map_: DrawnMap
    choice_: MapChoice

    def __init__(
        self,
        kernel: Kernel | None = None,
        n_components: int | None = None,
        *,
        tol: float | None = None,
        time_limit: float | None = None,
        memory_limit: float | None = None,
        method: str | Sequence[str] = "auto",
        error: Literal["rmse", "relative", "spectral", "largest"] = "rmse",
        confidence: float = 0.95,
        for_learner: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.tol = tol
        self.time_limit = time_limit
        self.memory_limit = memory_limit
        self.method = method
        self.error = error
        self.confidence = confidence
        self.for_learner = for_learner
        self.random_state = random_state
        self.n_jobs = n_jobs

    # ---- the contract of BaseMap --------------------------------------------------------------

    @property
    def unbiased(self) -> bool | str:
        if hasattr(self, "map_"):
            return self.map_.unbiased
        return "the map is chosen when it is fitted, and may be a biased one"

    @property
    def built_from_rows(self) -> bool:
        return hasattr(self, "map_") and self.map_.built_from_rows

    @property
    def residual_is_kernel(self) -> bool:  # type: ignore[override]
        """Whether the kernel minus the approximate kernel is positive semi-definite."""
        return hasattr(self, "map_") and self.map_.residual_is_kernel

    @property
    def fitted_rows_(self) -> Array | None:
        """Hashes of the rows that the chosen map was built from; None if it was not built from rows."""
        return self.map_.fitted_rows_

    def _request(self) -> Request:
        return Request(
            n_components=self.n_components,
            tol=self.tol,
            time_limit=self.time_limit,
            memory_limit=self.memory_limit,
            error=self.error,
            confidence=self.confidence,
            for_learner=self.for_learner,
            method=self.method,
        )

    @property
    def width(self) -> int:
        return self.features_.n_components if hasattr(self, "features_") else self._request().most_components

    def check(self) -> None:
        self._check_domains()
        check_method(self.method)
        count_threads(self.n_jobs)  # raises if it is not a number of threads, before any map is tried
        self._kernel()

    def needs_rows(self) -> bool:
        return True

    def with_kernel(self, kernel: Kernel) -> Self:
        return fresh_copy(self, kernel=kernel)

    def _kernel(self) -> Kernel:
        return given_kernel(self, self.kernel, self.default_kernel)

    @property
    def refuses_rows(self) -> str | None:
        return None

    def grown(self, engine: Engine) -> tuple[Self, Array | None]:  # noqa: ARG002 - the features do not change
        return self, None

    def _fit_costs(self, n: int, d: int) -> dict[str, Any]:
        return {"sample rows": float(n * d), "choose map": None}

    def _variance(self, X: Any, Y: Any) -> Array:
        return self.map_.known_variance(X, Y)

    def fit_engine(self, engine: Engine, report: Report | None = None) -> Self:
        start = time.perf_counter()
        self.check()
        enter_stage(report, "sample rows")
        check_replayable(self, engine, instead=", or a map such as RandomFourier with a number as lengthscale")
        X, weight, n_rows = self._sample(engine, self.rows_wanted(), report)
        enter_stage(report, "choose map")
        return self.fit_sample(X, weight, report, n_rows=n_rows, spent=time.perf_counter() - start)

    def rows_wanted(self) -> int:
        """Return the largest number of rows that the choice uses."""
        return sys.maxsize if self._kernel().needs_all_rows else rows_for(self._request())

    def sample_seed(self) -> int:
        """Return the seed with which `fit` samples rows if there are more than `rows_wanted()` rows."""
        return seed_of(self.random_state, "rows")

    def fit_sample(
        self,
        X: Any,
        weight: Array | None = None,
        report: Report | None = None,
        *,
        n_rows: int | None = None,
        spent: float = 0.0,
    ) -> Self:
        """Choose the map by validated rows, without sampling from them first.

        Parameters
        ----------
        X : ndarray or CSR of shape (n, d)
            At most `rows_wanted()` rows.
        weight : ndarray of shape (n,), default=None
            Weights > 0 of the rows. None means that all weights are 1.
        report : callable or None, default=None
            Receives the progress.
        n_rows : int or None, default=None
            Number of rows that will be transformed, for limits of time and memory; None means that of `X`.
        spent : float, default=0.0
            Number of seconds of the time limit that have passed already.

        Returns
        -------
        self
        """
        start = time.perf_counter() - spent
        request, kernel = self._request(), self._kernel().resolve(X, weight)
        n_rows = X.shape[0] if n_rows is None else n_rows
        seed = seed_of(self.random_state, "map")
        choice = choose_for_rows(
            kernel,
            X,
            weight,
            request,
            n_rows=n_rows,
            seed=seed % 2**32,
            n_jobs=self.n_jobs,
            report=report,
            spent=time.perf_counter() - start,
        )
        assert choice.chosen.feature_map is not None
        self.map_ = choice.chosen.feature_map
        self.choice_ = choice.without_maps()
        self.n_features_in_ = X.shape[1]
        self.kernel_ = kernel
        self.features_ = self.map_.features_
        self.signs_ = self.features_.signs
        self._n_features_out = self.features_.n_components
        return self

    def _sample(self, engine: Engine, wanted: int, report: Report | None) -> tuple[Any, Array | None, int]:
        """Return at most `wanted` rows, their weights or None, and the number of all rows."""
        rows = engine.in_memory
        if rows is not None and len(rows) <= wanted:
            X, weight, n_rows = rows.X, rows.weight, len(rows)
        else:
            if self._kernel().needs_all_rows:
                msg = f"FeatureMap: {self._kernel()!r} needs all rows of the fit in memory, as one array."
                raise DataError(msg)
            term = partial(RowSample.of, size=wanted, seed=self.sample_seed(), by_weight=True, targets=False)
            sample = engine.sum(term, report)
            X, weight, n_rows = sample.X, sample.weight if sample.is_complete else None, sample.seen
        if weight is not None:
            X, weight = X[weight > 0], weight[weight > 0]
        return X, weight, n_rows


@known_names
def choose(
    kernel: Kernel | None,
    X: Any,
    n_components: int | None = None,
    *,
    tol: float | None = None,
    time_limit: float | None = None,
    memory_limit: float | None = None,
    method: str | Sequence[str] = "auto",
    error: Literal["rmse", "relative", "spectral", "largest"] = "rmse",
    confidence: float = 0.95,
    for_learner: bool = False,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> MapChoice:
    """Choose a map for a kernel and rows: for a number of components, an error, a time or a memory.

    This is the table that `FeatureMap` makes when it is fitted.

    Parameters
    ----------
    kernel : Kernel or None
        Any kernel; None means ``Gaussian(lengthscale="median")``.
    X : array-like or CSR of shape (n, d)
        Rows.
    n_components, tol, time_limit, memory_limit, method, error, confidence, for_learner, random_state, n_jobs
        Parameters of `FeatureMap`.

    Returns
    -------
    MapChoice
        The maps that were tried. The fitted map is ``choice.chosen.feature_map``.

    See Also
    --------
    FeatureMap : The same as a map, for pipelines and learners.
    compare : Errors, times and memory of several maps for several numbers of components.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Polynomial, choose
    >>> X = np.random.default_rng(0).normal(size=(500, 4))
    >>> choice = choose(Polynomial(2), X, n_components=20)
    >>> choice.chosen.name  # there are 15 monomials
    'RandomMaclaurin'
    """
    feature_map = FeatureMap(
        kernel,
        n_components,
        tol=tol,
        time_limit=time_limit,
        memory_limit=memory_limit,
        method=method,
        error=error,
        confidence=confidence,
        for_learner=for_learner,
        random_state=random_state,
        n_jobs=n_jobs,
    ).fit(X)
    return feature_map.choice_.with_map(feature_map.map_)
