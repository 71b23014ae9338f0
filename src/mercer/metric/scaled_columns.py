"""A feature map of rows whose columns are divided by their spread."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from mercer._docs import doc
from mercer.engines import Engine, FilteredEngine, Report, enter_stage
from mercer.errors import DataError, ParameterError
from mercer.errors.spellings import object_hint
from mercer.kernels import Gaussian
from mercer.maps.base import BaseMap, DrawnMap, check_replayable, fresh_copy
from mercer.maps.fourier import RandomFourier
from mercer.metric.features import MetricFeatures, MetricRows
from mercer.metric.inner_map import MapOfTransformedRows
from mercer.metric.inputs import MetricInputs
from mercer.parameters import Domain
from mercer.statistics import RowSample, row_hashes
from mercer.statistics.sample import seed_of, smallest

__all__ = ["ScaledColumns", "sample_of_columns", "scaled_inputs"]

Array = np.ndarray
# Number of rows from which spreads are computed, and the number of their entries if they are dense.
SAMPLE_ROWS = 10_000
SAMPLE_ENTRIES = 20_000_000
NO_ROWS = "All sample weights are zero: there is nothing to fit."


@doc
class ScaledColumns(MapOfTransformedRows):
    r"""Feature map of rows whose columns are divided by their spread, so that their units do not matter.

    The spread of a column is its standard deviation, after values beyond the quantiles 0.01 and 0.99 have been moved to
    these quantiles, so that few large values do not matter. If nine of ten values are equal, as in a rare indicator, it
    is the largest distance from them. Columns that are constant are dropped. A learner with ``feature_map=None`` uses
    this map.

    Parameters
    ----------
    feature_map : BaseMap or None, default=None
        The inner map, which is fitted to the scaled rows. Its lengthscale is in units of the spreads. None means
        ``RandomFourier(Gaussian("median"))``.
    %(random_state, n_jobs)s

    Attributes
    ----------
    scales_ : ndarray of shape (d,)
        Spread of each column, by which it is divided; zero if the column is constant.
    feature_map_ : BaseMap
        The inner map, fitted to the scaled rows.
    kernel_ : Transformed
        The kernel of the rows: the kernel of the inner map, of scaled columns.
    features_ : MetricFeatures
        The fitted features: a function from rows to features.
    %(n_features_in_)s

    See Also
    --------
    Transformed : A kernel with a given lengthscale per column.
    LearnedMetric : Lengthscales per column, or a matrix, that are learned from targets.

    Notes
    -----
    Spreads are those of a random sample of 10,000 rows at most, which is the same in memory, out of core and on Dask.
    Columns of sparse rows are divided but not shifted; shifts have no effect on shift-invariant kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRidge, Matern, Nystroem, ScaledColumns
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 2)) * [1e-6, 1e6]
    >>> y = np.sin(2e6 * X[:, 0]) + np.cos(2e-6 * X[:, 1])
    >>> feature_map = ScaledColumns(Nystroem(Matern(2.5, "median"), 128, random_state=0))
    >>> model = KernelRidge(feature_map).fit(X[:400], y[:400])
    >>> bool(model.score(X[400:], y[400:]) > 0.98)
    True
    >>> [f"{scale:.0e}" for scale in model.feature_map_.scales_]
    ['1e-06', '1e+06']
    """

    needs: ClassVar[str] = "to be the outermost map, since columns are scaled before any other map"
    parameter_domains: ClassVar[Mapping[str, Domain]] = {}
    features_: MetricFeatures

    def __init__(
        self, feature_map: BaseMap | None = None, *, random_state: Any = None, n_jobs: int | None = None
    ) -> None:
        self.feature_map = feature_map
        self.random_state = random_state
        self.n_jobs = n_jobs

    # ---- the contract of BaseMap --------------------------------------------------------------

    def _inner_map(self) -> BaseMap:
        inner = RandomFourier(Gaussian("median")) if self.feature_map is None else self.feature_map
        if not isinstance(inner, BaseMap):
            msg = f"ScaledColumns: feature_map must be a mercer map such as Nystroem(), got {inner!r}."
            raise ParameterError(f"{msg} {object_hint(inner, 'feature_map')}".rstrip())
        if inner.scales_columns or inner.uses_targets:
            msg = (
                f"ScaledColumns: feature_map must be a map that does not scale columns itself, got "
                f"{type(inner).__name__}. Use it without ScaledColumns."
            )
            raise ParameterError(msg)
        if inner._kernel().needs_all_rows:
            msg = (
                f"ScaledColumns: feature_map must have a kernel of rows with columns, got {inner._kernel()!r}. Use it "
                "without ScaledColumns."
            )
            raise ParameterError(msg)
        return inner

    def _unfitted_inner_map(self) -> BaseMap:
        """Return an unfitted copy of the inner map. Where it has no seed, it gets that of this map."""
        inner, changes = self._inner_map(), {}
        names = inner.get_params(deep=False)
        if self.random_state is not None and "random_state" in names and inner.random_state is None:
            changes["random_state"] = seed_of(self.random_state, "scaled map") % 2**32
        if self.n_jobs is not None and "n_jobs" in names:
            changes["n_jobs"] = self.n_jobs
        return fresh_copy(inner, **changes)

    @property
    def unbiased(self) -> bool | str:
        return self._inner_map().unbiased

    def check(self) -> None:
        self._inner_map().check()

    def _variance(self, X: Any, Y: Any) -> Array:
        inputs = self.features_.inputs
        return self.feature_map_.known_variance(inputs(X), None if Y is None else inputs(Y))

    @property
    def refuses_rows(self) -> str | None:
        return self._current_map().refuses_rows

    def grown(self, engine: Engine) -> tuple[Self, Array | None]:
        inputs = self.features_.inputs
        inner, change = self.feature_map_.grown(FilteredEngine(engine, MetricRows(inputs), NO_ROWS))
        if inner is self.feature_map_:
            return self, change
        out = fresh_copy(self)
        out._set_fitted(inputs, inner, self._sampled_rows)
        return out, change

    # ---- fitting ------------------------------------------------------------------------------

    def _fit_costs(self, n: int, d: int) -> dict[str, Any]:
        return {"sample rows": float(n * d), **self._inner_map().fit_costs(n, d)}

    def fit_engine(self, engine: Engine, report: Report | None = None) -> Self:
        self.check()
        check_replayable(self, engine, instead=", or a map such as RandomFourier with a number as lengthscale")
        inner = self._unfitted_inner_map()
        # A sum of maps that have kernels of their own, such as GraphBasis, fits these to all rows.
        drawn = inner if isinstance(inner, DrawnMap) and not getattr(inner, "_joins", False) else None
        wanted = 1 if drawn is None else drawn.rows_wanted()
        enter_stage(report, "sample rows")
        sample = sample_of_columns(engine, self.random_state, wanted, report)
        inputs = scaled_inputs(sample)
        if drawn is None:
            inner.fit_engine(FilteredEngine(engine, MetricRows(inputs), NO_ROWS), report)
            hashes = row_hashes(sample.X) if inner.built_from_rows else None
        else:  # the rows of the inner map are a part of the sample, which saves reading all rows again
            enter_stage(report, "fit map")
            X, weight = sample.X, sample.weight if sample.is_complete else None
            if X.shape[0] > wanted:
                X, weight = X[:1] if wanted == 1 else X[smallest(sample.key, wanted)], None
            drawn.fit_sample(inputs(X), weight, report)
            hashes = row_hashes(X) if inner.built_from_rows else None
        self._set_fitted(inputs, inner, hashes)
        return self

    def _set_fitted(self, inputs: MetricInputs, inner: BaseMap, hashes: Array | None) -> None:
        self.n_features_in_ = inputs.n_features
        self.feature_map_ = inner
        self.scales_ = inputs.full(inputs.scale)
        self.kernel_ = inputs.kernel(inner.kernel_)
        self.features_ = MetricFeatures(inputs, inner.features_)
        self._sampled_rows = hashes
        self.signs_ = self.features_.signs
        self._n_features_out = self.features_.n_components


def sample_of_columns(engine: Engine, random_state: Any, least: int = 1, report: Report | None = None) -> RowSample:
    """Return the random sample of rows from which spreads of columns are computed, of at least `least` rows."""
    X = engine.first().X
    size = SAMPLE_ROWS if sp.issparse(X) else min(SAMPLE_ROWS, max(1000, SAMPLE_ENTRIES // X.shape[1]))
    seed = seed_of(random_state, "columns")
    sample = engine.sum(partial(RowSample.of, size=max(size, least), seed=seed, by_weight=True, targets=False), report)
    if not len(sample.key):
        raise DataError(NO_ROWS)
    return sample


def scaled_inputs(sample: RowSample) -> MetricInputs:
    """Return the scaling of columns by their spread over a sample of rows.

    If all columns are constant, all are retained, with a spread of one: a map needs at least one column.
    """
    weight = sample.weight if sample.is_complete else None
    X = sample.X if weight is None else sample.X[weight > 0]
    inputs = MetricInputs.of(X, None if weight is None else weight[weight > 0])
    if inputs.width:
        return inputs
    d = X.shape[1]
    center = None if sp.issparse(X) else np.asarray(X[0], dtype=np.float64)
    return MetricInputs(np.arange(d), center, np.ones(d), d)
