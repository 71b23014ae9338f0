"""Base classes of the learners, and the template of `fit`.

A fit has four steps: validate the rows, fit the feature map, sum a statistic over the rows, and solve for the model. A
learner supplies three things: a coding of its targets (`mercer.data.targets`), a statistic that is summed over rows
(`mercer.statistics`), and a solver that turns the sum into coefficients (`mercer.solvers`). `Learner.fit` is the same
for all learners and for all sources of rows: arrays, blocks, files, Dask collections.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import isqrt
from os import PathLike
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    MetaEstimatorMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_is_fitted

from mercer._docs import PARAGRAPHS, doc
from mercer.data.callbacks import CallbackSupport, calling_callbacks, fit_report
from mercer.data.results import predictions_and_targets, rowwise
from mercer.data.sources import Reader, source_of
from mercer.data.targets import FLOATS, Coding, HasTarget, Ignored, Labels, Numbers, has_target, validate_rows
from mercer.engines import (
    Accumulator,
    Checkpoint,
    CheckpointedEngine,
    Engine,
    FilteredEngine,
    MemoryEngine,
    Report,
    StagedReport,
    enter_stage,
    linear_values,
    reported,
)
from mercer.engines.base import closing_all
from mercer.errors import DataError, MercerWarning
from mercer.errors.memory import LARGE, available_bytes, check_memory
from mercer.features import features_of
from mercer.kernels import Kernel
from mercer.learners.defaults import count_rows, map_of_learner
from mercer.maps import BaseMap
from mercer.maps.base import check_features, replace_params, unchanged_if_it_fails, warn_of_scales
from mercer.maps.registry import check_grows, unfitted_map
from mercer.parameters import (
    Choice,
    ConstructorSignature,
    Domain,
    Instance,
    Integer,
    check_parameters,
    new_of_known_names,
)

__all__ = [
    "Classifier",
    "Clusterer",
    "Fit",
    "Learner",
    "MetaEstimatorMixin",
    "Regressor",
    "Transformer",
    "available_if",
    "can_add_rows",
    "check_grows",
    "check_is_fitted",
    "get_tags",
    "labeled_rows",
    "warn_not_converged",
]

Array = np.ndarray
S = TypeVar("S")
# Cost of the second moments of n rows of D features, divided by n D^2: half of the products, and the features.
SUM_COST = 0.7
# Domains of the parameters that all learners have; `n_jobs` is checked where threads are counted.
COMMON_DOMAINS: Mapping[str, Domain] = {
    "block_size": Choice(None) | Integer(1),
    "progress": Choice(True, False) | Instance(Callable, "a callable"),  # type: ignore[arg-type]
}

PARAGRAPHS |= {
    "unlabeled_number": """\
unlabeled : float or None, default=None
    Value in `y` of rows whose target is not known, such as ``np.nan``. The map is fitted to these rows too, the model
    to the others only, and `score` ignores them. None means that every row has a target.""",
    "unlabeled_label": """\
unlabeled : label or None, default=None
    Value in `y` of rows whose label is not known, such as -1. The map is fitted to these rows too, the model to the
    others only, and `score` ignores them. None means that every row has a label; a fit then warns if there are the
    label -1 and two others. If -1 is a class, ``np.nan`` avoids the warning.""",
    "block_size": """\
block_size : int or None, default=None
    Number of rows that are processed at a time; None chooses by the width of the map. It changes the result by
    rounding error only.""",
    "seed_of_map": """\
random_state : int, Generator, RandomState or None, default=None
    Seed of the map, unless `feature_map` is a map with a seed of its own.""",
    "progress": """\
progress : bool or callable, default=False
    True shows the stage of the fit, the fraction done and the remaining time: on a terminal, in a notebook, or as lines
    of a log, by the logger "mercer" or on standard error. A callable receives a `Progress` after each block.""",
    "feature_map": """\
feature_map : BaseMap, Kernel or None, default=None
    Feature map, cloned before it is fitted; or a kernel, for which a map is chosen. None means that columns are divided
    by their spread, so that their units do not matter, and a Matern kernel of smoothness 5/2 and median lengthscale,
    with landmarks: ``ScaledColumns(Nystroem(Matern(2.5, "median")))``. For a kernel or None, the number of components
    is eight times the square root of the number of rows, rounded up to a power of two, at least 256 (512 for a kernel)
    and at most 4096. In `partial_fit`, and where rows can be read only once, it is 512, and for None the features are
    random ones.""",
    "fit_intercept": """\
fit_intercept : bool, default=True
    Whether to fit an intercept, which is not penalized.""",
    "scored_rows": """\
Parameters
----------
X, y, sample_weight
    Rows, targets and weights as arrays or Dask collections; or files, as returned by `open_rows`, with their
    targets.

Returns
-------
float""",
    "rows_to_results": """\
Parameters
----------
X : array-like or CSR of shape (n, d), files, or Dask collection
    Rows. For a Dask collection the result is a Dask array that is not computed yet.

Returns
-------""",
    "partial_fit_targets": """\
The first call fits the map to the rows it is given. Solving is deferred until a result is used. A `Deformed` map adds
all rows, labeled or not, to its `FeatureGraph`, and accumulated statistics are transformed exactly to the updated
features. If the graph cannot grow, an error is raised.

Parameters
----------
X, y, sample_weight
    Rows, targets and weights as arrays, as in `fit`.""",
    "partial_fit_rows": """\
Parameters
----------
X : array-like or CSR of shape (n, d)
    Rows.
y : ignored
    Present for compatibility with pipelines.
sample_weight : array-like of shape (n,), default=None
    Weights >= 0 of the rows; a weight of 2 is equivalent to repeating the row. None means that all weights are 1.

Returns
-------
self : object
    The fitted object.""",
}
PARAGRAPHS["common_parameters"] = "\n".join(
    PARAGRAPHS[name] for name in ("block_size", "n_jobs", "seed_of_map", "progress")
)


@dataclass(frozen=True)
class Fit:
    """The inputs of one call of `fit` or `partial_fit`.

    Attributes
    ----------
    engine : Engine
        All rows.
    labeled : Engine
        The rows whose target is known.
    feature_map : BaseMap
        The unfitted map.
    random_state : int, Generator, RandomState or None
        The seed of the learner, or the seed stored in the checkpoint if the fit has a checkpoint.
    report : callable or None
        Receives the progress; see `mercer.engines.progress` for what solvers call.
    previous : mapping
        Fitted attributes of the previous fit, for a warm start.
    quiet : bool
        Whether the map is the default one, about which there is nothing to warn of.
    """

    engine: Engine
    labeled: Engine
    feature_map: BaseMap
    random_state: Any
    report: Report | None
    previous: Mapping[str, Any]
    quiet: bool = False

    def accumulate(self, into: Accumulator[S]) -> S:
        """Return the sum over the labeled rows, as the accumulator finishes it."""
        total = self.labeled.accumulate(into, self.report)
        return total if into.finish is None else into.finish(total)

    def fitted(self, feature_map: BaseMap) -> BaseMap:
        """Fit a map to all rows, and to the targets of the labeled ones if it uses them; return it."""
        with warnings.catch_warnings():
            if self.quiet:
                warnings.simplefilter("ignore", MercerWarning)
            return feature_map.fit_engines(self.engine, self.labeled, self.report)


class Learner(CallbackSupport, BaseEstimator, ABC):
    """Base class of estimators on the features of a map, which use the rows only through sums over them.

    A subclass declares `parameter_domains`, defines `_coding` (or inherits it from `Regressor`, `Classifier` or
    `Transformer`), and defines `_statistic`, `_solve` and `_several_passes`.
    """

    #: The domain of each parameter, checked before a fit; see `mercer.parameters`.
    parameter_domains: ClassVar[Mapping[str, Domain]] = {}
    #: Attributes that `_solve` sets; after `partial_fit` they are computed at their first use.
    solved: ClassVar[frozenset[str]] = frozenset()
    #: A function of a kernel or None, `n_rows` and `random_state` that returns the map, if no map is given.
    default_map: ClassVar[Callable[..., BaseMap]] = map_of_learner
    #: Whether a fit has matrices with one row and one column per component in memory.
    solves_gram: ClassVar[bool] = False
    #: Upper bound on the rows of a block, where their number is chosen by the width of the map.
    most_block_rows: ClassVar[int | None] = None

    feature_map: BaseMap | Kernel | None
    block_size: int | None
    n_jobs: int | None
    random_state: Any
    progress: bool | Report

    feature_map_: BaseMap
    #: Number of components of the fitted map.
    width_: int
    #: The coding of the targets, as settled by the rows seen so far.
    _coding_: Coding
    #: The sum of the statistic over the rows, where the learner stores it.
    statistic_: Any

    __new__ = new_of_known_names
    __signature__ = ConstructorSignature()

    def set_params(self, **params: Any) -> Self:
        replace_params(self, params)
        return self

    # ---- methods that a learner defines ---------------------------------------------------------

    #: Optional method ``_costs(n, D) -> mapping``: the stages of `_solve` and their costs, for n rows and D components,
    #: in the unit of `BaseMap.fit_costs`. If undefined, the cost of solving is not known.
    _costs: Callable[[int, int], Mapping[str, float | None]] | None = None
    #: Optional method ``_tuning_costs() -> mapping``: the same for stages before the map is fitted.
    _tuning_costs: Callable[[], Mapping[str, float | None]] | None = None
    #: Optional method ``_scales_columns(prototype) -> bool``: whether the fit scales columns itself, given the map.
    _scales_columns: Callable[[BaseMap], bool] | None = None

    @abstractmethod
    def _coding(self) -> Coding:
        """Return the coding of the targets before any row is seen."""

    @abstractmethod
    def _statistic(self, fit: Fit) -> Accumulator[Any] | None:
        """Return an empty accumulator of the statistic that `_solve` requires.

        This method is called after `feature_map_` is fitted. None means that `_solve` computes all sums itself.
        """

    @abstractmethod
    def _solve(self, statistic: Any, fit: Fit | None) -> None:
        """Set the fitted attributes, given the sum of the statistic.

        Parameters
        ----------
        statistic : object
            The result of the accumulator, or None if `_statistic` returned None.
        fit : Fit or None
            The rows, for solvers that need further sums; None after `partial_fit`, which stores no rows.
        """

    @abstractmethod
    def _several_passes(self) -> str | None:
        """Return the reason why a fit reads the rows more than once, or None if one pass suffices."""

    # ---- fitting --------------------------------------------------------------------------------

    @calling_callbacks
    @doc
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        checkpoint: str | PathLike[str] | Checkpoint | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d), iterable of blocks, files, or Dask collection
            Rows. Without `y`, an iterable of tuples ``(X, y)`` or ``(X, y, weight)`` is read block by block, such as
            the result of `open_rows`. A map that depends on the rows, such as one with ``lengthscale="median"``, needs
            an iterable that can be read twice. A Dask array or data frame, a list of delayed tuples, or files
            `on_dask` are processed partition by partition, by the active ``distributed.Client`` if there is one.
        y : array-like of shape (n,) or (n, t)
            Targets; for a Dask data frame also the name of their column.
        sample_weight : array-like of shape (n,), default=None
            Weights >= 0; a weight of 2 is equivalent to repeating the row. For a Dask data frame also the name of
            their column.
        checkpoint : path-like, Checkpoint or None, default=None
            File in which the fit saves its progress, every 30 seconds unless a `Checkpoint` specifies otherwise. If
            the fit is interrupted, the same call continues from the file, and gives the same model to the bit. The
            file is removed when the fit has succeeded.

        Returns
        -------
        %(returns_self)s
        """
        with unchanged_if_it_fails(self):
            self._check_parameters()
            previous = self._reset()
            prototype = self._unfitted_map(self.random_state, known_length(X))
            self._check_memory(prototype.width)
            reader = self._reader(prototype.width, fresh=True)
            engine = source_of(X, y, sample_weight, owner=type(self).__name__).engine(reader)
            if checkpoint is None:
                prototype = self._unfitted_map(self.random_state, self._count_rows(engine))
                self._fit_rows(self._fit_of(engine, prototype, self.random_state, previous), reader)
            else:
                from mercer.learners.checkpointing import checkpointed

                with checkpointed(self, engine, checkpoint) as (engine, random_state):
                    prototype = self._unfitted_map(random_state, self._count_rows(engine))
                    self._fit_rows(self._fit_of(engine, prototype, random_state, previous), reader)
        return self

    def _check_memory(self, width: int) -> None:
        """Raise if a matrix with one row and one column per component does not fit into memory."""
        needed = 8 * width**2
        if self.solves_gram and needed > LARGE:
            available = available_bytes()
            fits = "" if available is None else f": about {isqrt(available // 24):,} components fit"
            what = f"a matrix of shape ({width}, {width}), for the {width} components of the map,"
            check_memory(type(self).__name__, what, needed, f"Lower n_components of the map{fits}.")

    def _check_parameters(self) -> None:
        check_parameters(self, {**COMMON_DOMAINS, **self.parameter_domains})

    def _fit_rows(self, fit: Fit, reader: Reader) -> None:
        reason = self._several_passes()
        if reason is not None and not fit.engine.replayable:
            msg = (
                f"{type(self).__name__}: the blocks can be read only once, but {reason} Or pass an iterable that can "
                "be read again: a list, or an object whose __iter__ starts over."
            )
            raise DataError(msg)
        self._warn_of_scales(fit)
        with reported(fit.report):
            self._plan(fit)
            self._fit_features(fit, self._fit_map(fit), reader)

    def _plan(self, fit: Fit) -> None:
        """Announce the stages of the fit and their costs, if its progress is reported."""
        n = fit.engine.n_rows
        if isinstance(fit.report, StagedReport) and n is not None:
            d, D = self.n_features_in_, fit.feature_map.width
            of_map = fit.feature_map.fit_costs(n, d)
            solving = {"solve": None} if self._costs is None else self._costs(n, D)
            tuning = {} if self._tuning_costs is None else self._tuning_costs()
            fit.report.plan({**tuning, **of_map, "sum over rows": SUM_COST * n * D**2, **solving})

    def fit_engine(self, engine: Engine, feature_map: BaseMap, reader: Reader, report: Report | None = None) -> Self:
        """Fit the model to the validated rows of an engine, on the features of a map that is fitted to them.

        This is `fit` without the reading of rows and the fit of the map, for searches that do both once for many
        models.

        Parameters
        ----------
        engine : Engine
            The rows.
        feature_map : BaseMap
            The fitted map, which is not copied.
        reader : Reader
            The reader that validates the rows of the engine.
        report : callable or None, default=None
            Receives the progress, as a part of that of the search.

        Returns
        -------
        self : object
            The fitted object.
        """
        with unchanged_if_it_fails(self):
            self._check_parameters()
            previous = self._reset()
            self.n_features_in_ = feature_map.n_features_in_
            if hasattr(feature_map, "feature_names_in_"):
                self.feature_names_in_ = feature_map.feature_names_in_
            fit = replace(self._fit_of(engine, feature_map, self.random_state, previous), report=report)
            self._fit_features(fit, feature_map, reader)
        return self

    def _fit_features(self, fit: Fit, feature_map: BaseMap, reader: Reader) -> None:
        """Set the fitted map, sum the statistic over the labeled rows, and solve for the model."""
        self._set_map(feature_map)
        self._coding_ = reader.coding
        if isinstance(fit.engine, CheckpointedEngine):
            fit.engine.check_same("the drawn map", self._features_of_any)
        accumulator = self._statistic(fit)
        if accumulator is not None:
            enter_stage(fit.report, "sum over rows")
        statistic = None if accumulator is None else fit.accumulate(accumulator)
        del accumulator  # its buffers are as large as the features of a block
        if self._several_passes() is None:
            self.statistic_ = statistic  # to which `partial_fit` adds
        self._coding_ = settled_coding(reader, fit.engine)
        enter_stage(fit.report, "solve")
        self._solve(statistic, fit)

    def _fit_of(self, engine: Engine, prototype: BaseMap, random_state: Any, previous: Mapping[str, Any]) -> Fit:
        labeled = labeled_rows(type(self).__name__, engine, self._coding().unlabeled)
        return Fit(engine, labeled, prototype, random_state, self._report(), previous, self.feature_map is None)

    def _fit_map(self, fit: Fit) -> BaseMap:
        """Fit the map `fit.feature_map` to all rows, and return the fitted map."""
        return fit.fitted(fit.feature_map)

    def _warn_of_scales(self, fit: Fit) -> None:
        """Warn of columns of very different scales, unless each of them gets its own lengthscale."""
        own = self.feature_map is None or getattr(self, "lengthscale_tuning", None) == "ard"
        own = own or (self._scales_columns is not None and self._scales_columns(fit.feature_map))
        if not own and not fit.feature_map.scales_columns:
            warn_of_scales(self, fit.feature_map._kernel(), fit.engine)

    def _set_map(self, feature_map: BaseMap) -> None:
        check_features(type(self).__name__, feature_map)
        if hasattr(self, "feature_names_in_"):
            feature_map.feature_names_in_ = self.feature_names_in_
        self.feature_map_ = feature_map
        self.width_ = feature_map.features_.n_components

    def _unfitted_map(self, random_state: Any, n_rows: int | None = None) -> BaseMap:
        """Return the unfitted map, for a number of rows; None means that it is not known."""
        choice = self.feature_map
        if choice is None or isinstance(choice, Kernel):
            return type(self).default_map(choice, n_rows=n_rows, random_state=random_state)
        return unfitted_map(type(self).__name__, choice, random_state)

    def _count_rows(self, engine: Engine) -> int | None:
        """Return the number of rows, if the width of the map depends on it; None if it is not known."""
        return None if isinstance(self.feature_map, BaseMap) else count_rows(engine)

    def _reader(self, width: int, *, fresh: bool) -> Reader:
        return Reader(
            self,
            self._coding() if fresh else self._current_coding(),
            width=width,
            block_size=self.block_size,
            most_rows=self.most_block_rows,
            n_jobs=self.n_jobs,
            fresh=fresh,
        )

    def _current_coding(self) -> Coding:
        """Return the fitted coding of the targets, with the current value of the parameter `unlabeled`."""
        return replace(self._coding_, unlabeled=self._coding().unlabeled)

    def _reset(self) -> dict[str, Any]:
        """Remove all fitted attributes, whose names end with an underscore, and return their names and values."""
        fitted = {name: value for name, value in vars(self).items() if name.endswith("_")}
        for name in fitted:
            delattr(self, name)
        return fitted

    def _features_of_any(self, X: Any) -> Array:
        return features_of(self.feature_map_.features_.astype(X.dtype), X)

    def _check_fitted(self) -> None:
        check_is_fitted(self)

    def _report(self) -> Report | None:
        return fit_report(self, self.progress)

    # ---- adding rows ----------------------------------------------------------------------------

    def _add_rows(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Add a block of rows to the statistic. The model is solved later, when a result is used."""
        self._check_parameters()
        fresh = "statistic_" not in vars(self)
        prototype = self._unfitted_map(self.random_state) if fresh else self.feature_map_
        reader = self._reader(prototype.width, fresh=fresh)
        X, y, weight = reader(X, y, sample_weight)
        # Unlabeled rows are counted too, so that each row has the same index as in `fit`, and seeded samples agree.
        start = 0 if fresh else vars(self).get("_n_seen_", self.statistic_.rows)
        engine = MemoryEngine(X, y, weight, block_rows=reader.block_rows(X), n_jobs=self.n_jobs, start=start)
        fit = self._fit_of(engine, prototype, self.random_state, {})
        self._coding_, self._n_seen_ = reader.coding, start + X.shape[0]
        if fresh:
            self._warn_of_scales(fit)
            self._set_map(self._fit_map(fit))
        else:
            change = self._grow_map(engine)
            if change is not None:
                self.statistic_ = self.statistic_.transformed(change)
                self._defer_solve()
            unlabeled = self._coding_.unlabeled
            if unlabeled is not None and not has_target(y, unlabeled).any():
                return  # the map has seen these rows
        accumulator = self._statistic(fit)
        assert accumulator is not None  # a learner with `partial_fit` has a statistic
        with reported(fit.report):
            enter_stage(fit.report, "sum over rows")
            statistic = fit.accumulate(accumulator)
        self.statistic_ = statistic if fresh else self.statistic_ + statistic
        self._defer_solve()

    def _grow_map(self, engine: Engine) -> Array | None:
        """Add rows to the fitted map, and return the matrix T by which the features change, Z_new = Z_old @ T.

        The result is None if the features do not change.
        """
        self.feature_map_, change = self.feature_map_.grown(engine)
        return change

    def _defer_solve(self) -> None:
        for name in self.solved & vars(self).keys():
            delattr(self, name)

    def __getattr__(self, name: str) -> Any:
        # Called for attributes that are not set: those of the solver, after `partial_fit`, are computed now.
        if name in type(self).solved and "statistic_" in self.__dict__:
            self._solve(self.statistic_, None)
            return self.__dict__[name]
        if hasattr(type(self), name):
            return object.__getattribute__(self, name)  # a property or `available_if` raised: raise its error again
        msg = f"{type(self).__name__!r} object has no attribute {name!r}"
        raise AttributeError(msg)

    # ---- predicting -----------------------------------------------------------------------------

    def _linear(self, X: Any, coef: Array, intercept: Array) -> Array:
        """Return features @ coef + intercept for rows, computed block by block to limit memory."""
        check_is_fitted(self)
        return self._linear_of(validate_rows(self, X, reset=False), coef, intercept)

    def _linear_of(self, X: Any, coef: Array, intercept: Array) -> Array:
        """Return features @ coef + intercept for validated rows."""
        # The intercept is added in float64: it may be large compared with the variation of the predictions.
        return linear_values(self.feature_map_.features_, X, coef, n_jobs=self.n_jobs) + intercept

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        choice = self.feature_map
        if isinstance(choice, Kernel):
            tags.input_tags.positive_only = choice.positive_only
            tags.input_tags.pairwise = choice.needs_all_rows
        elif isinstance(choice, BaseMap):
            inner = get_tags(choice).input_tags
            tags.input_tags.positive_only, tags.input_tags.pairwise = inner.positive_only, inner.pairwise
        return tags


def known_length(X: Any) -> int | None:
    """Return the number of rows of an array, a sparse matrix or a data frame; None if it is not known."""
    shape = getattr(X, "shape", None)
    return shape[0] if isinstance(shape, tuple) and shape and isinstance(shape[0], int) else None


def settled_coding(reader: Reader, engine: Engine) -> Coding:
    """Return the coding of the targets after all rows were read.

    The coding is known only then, since the first targets of a stream may be in a late block.
    """
    if not reader.coding.settled:  # a resumed fit took its sums from the file: read up to the first targets
        with closing_all(engine.blocks()) as blocks:
            next(block for block in blocks if reader.coding.settled)
    return reader.coding


def labeled_rows(owner: str, engine: Engine, unlabeled: Any) -> Engine:
    """Return an engine over the rows whose target is not `unlabeled`, or over all rows if `unlabeled` is None."""
    if unlabeled is None:
        return engine
    nothing = (
        f"{owner}: every target is unlabeled={unlabeled!r}, or there is no y: there is nothing to learn from. Give y "
        "for some rows."
    )
    return FilteredEngine(engine, HasTarget(unlabeled), nothing)


def can_add_rows(model: Learner) -> bool:
    """Return True if the current parameters allow `partial_fit`; otherwise raise an error that gives the reason."""
    reason = model._several_passes()
    if reason is not None:
        msg = f"{type(model).__name__} has no partial_fit: {reason} Or call fit on all rows at once."
        raise AttributeError(msg)
    return check_grows(model)


class Regressor(RegressorMixin, Learner):
    """A learner of numeric targets, in one column or several."""

    unlabeled: Any
    _coding_: Numbers

    def _coding(self) -> Numbers:
        return Numbers(self.unlabeled)

    @property
    def _single(self) -> bool:
        """Whether the targets have a single column."""
        return not self._coding_.shape

    @available_if(can_add_rows)
    @doc
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Add a block of rows to the model.

        %(partial_fit_targets)s

        Returns
        -------
        %(returns_self)s
        """
        with unchanged_if_it_fails(self):
            self._add_rows(X, y, sample_weight)
        return self

    def _labeled_arrays(self, X: Any, y: Any) -> tuple[Any, Array]:
        """Return validated rows in memory and their targets (n, t), without rows that are unlabeled."""
        coding = self._current_coding()
        X, y, _ = coding.validate(self, X, y, reset=False)
        if coding.unlabeled is None:
            return X, y
        known = has_target(y, coding.unlabeled)
        return X[known], y[known]

    @doc
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the coefficient of determination R^2 of the predictions, on rows whose target is known.

        %(scored_rows)s
        """
        from sklearn.metrics import r2_score

        check_is_fitted(self)
        truth, predicted, weight = predictions_and_targets(self, self._current_coding(), X, y, sample_weight)
        return r2_score(truth, predicted, sample_weight=weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class Classifier(ClassifierMixin, Learner):
    """A classifier whose decision values are linear in the features: a fit sets `classes_`, `coef_` and `intercept_`.

    `coef_` has one row per label, or a single row if there are two labels.
    """

    unlabeled: Any
    classes_: Array
    coef_: Array
    intercept_: Array

    #: Optional method ``_decision_values(X) -> ndarray of shape (n, columns)``, if they are not linear in the features.
    _decision_values: Callable[[Any], Array] | None = None

    def _coding(self) -> Labels:
        return Labels(self.unlabeled)

    @available_if(can_add_rows)
    @doc
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Add a block of rows to the model.

        %(partial_fit_targets)s
        classes : array-like, default=None
            All labels. If it was never specified, labels that appear in a later block are added. Once it was specified,
            a label that is not in `classes` raises an error.

        Returns
        -------
        %(returns_self)s
        """
        with unchanged_if_it_fails(self):
            announced = vars(self).get("_announced_") if classes is None else np.unique(classes)
            if announced is not None:
                unknown = np.setdiff1d(self._coding().known(y), announced)
                if unknown.size:
                    msg = f"{type(self).__name__}: y has labels {unknown.tolist()}, not among {announced.tolist()}."
                    raise DataError(msg)
            self._add_rows(X, y, sample_weight)
            if announced is not None:
                self._announced_ = announced
                self.statistic_ = self.statistic_.with_labels(announced)
            self.classes_ = self.statistic_.labels  # known before there are two of them, which a solution needs
        return self

    def _check_two_labels(self, labels: Array) -> None:
        """Raise an error if the rows have fewer than two different labels, and warn if -1 may be no label."""
        if len(labels) < 2:
            got = f"one class only: {labels.tolist()[0]!r}" if len(labels) else "no row with a positive weight"
            msg = f"{type(self).__name__} needs rows of at least two classes, got {got}."
            raise DataError(msg)
        if self.unlabeled is None and len(labels) > 2 and labels.dtype.kind in "if" and (labels == -1).any():
            others = labels[labels != -1]
            msg = (
                f"{type(self).__name__}: y has the label -1 and {len(others)} others, such as {others[0].item()} and "
                f"{others[1].item()}. If -1 denotes rows without a label, as in scikit-learn's semi-supervised "
                "learners, write unlabeled=-1. If it is a class, write unlabeled=np.nan, which no row has."
            )
            warnings.warn(msg, MercerWarning, stacklevel=2)

    @rowwise
    def decision_function(self, X: Any) -> Array:
        """Return the decision values of rows: one value per label, or for two labels a single value.

        The single value is positive if the second label is predicted.

        %(rows_to_results)s
        ndarray of shape (n,) or (n, K)
        """
        check_is_fitted(self)
        local = vars(self).get("local_")
        if self._decision_values is not None:
            values = self._decision_values(X)
        elif local is None:
            values = self._linear(X, self.coef_.T, self.intercept_)
        else:
            values, _ = local.predict(validate_rows(self, X, reset=False), n_jobs=self.n_jobs)
        return values[:, 0] if values.shape[1] == 1 else values

    @rowwise
    def predict(self, X: Any) -> Array:
        """Return the label of the largest decision value of each row.

        %(rows_to_results)s
        ndarray of shape (n,)
        """
        values = self.decision_function(X)
        return self.classes_[(values > 0).astype(int) if values.ndim == 1 else values.argmax(axis=1)]

    @doc
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy of the predicted labels, on rows whose label is known.

        %(scored_rows)s
        """
        from sklearn.metrics import accuracy_score

        check_is_fitted(self)
        truth, predicted, weight = predictions_and_targets(self, self._current_coding(), X, y, sample_weight)
        return accuracy_score(truth, predicted, sample_weight=weight)


class Transformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Learner):
    """A learner without targets that maps rows to other rows; `y` may be passed, as pipelines do, and is ignored."""

    def _coding(self) -> Ignored:
        return Ignored()

    @available_if(can_add_rows)
    @doc
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Add a block of rows to the model.

        The first call fits the map, to the rows it is given. Solving is deferred until a result is used. A `Deformed`
        map adds the rows to its `FeatureGraph`; a graph that cannot grow raises.

        %(partial_fit_rows)s
        """
        with unchanged_if_it_fails(self):
            self._add_rows(X, y, sample_weight)
        return self

    def _check_rows(self, X: Any) -> Any:
        """Return validated rows, which must have the same features as those of `fit`."""
        check_is_fitted(self)
        return validate_rows(self, X, reset=False)

    def _check_scores(self, X: Any) -> Array:
        """Return the validated argument of `inverse_transform`; it must have as many columns as `transform` returns."""
        X = check_array(X, dtype=FLOATS)
        if X.shape[1] != self._n_features_out:
            msg = f"{type(self).__name__}: inverse_transform needs {self._n_features_out} columns, got {X.shape[1]}."
            raise DataError(msg)
        return X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class Clusterer(ClusterMixin, Transformer):
    """A learner of clusters: `predict` returns the cluster of a row, `transform` its distances to all centers."""


def warn_not_converged(message: str) -> None:
    """Issue scikit-learn's ConvergenceWarning."""
    warnings.warn(message, ConvergenceWarning, stacklevel=2)
