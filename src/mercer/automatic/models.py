"""Models that need no argument: everything is chosen by predictions of rows that are held out."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp
from scipy import special
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.pipeline import Pipeline

from mercer._docs import PARAGRAPHS, doc
from mercer.automatic import tables
from mercer.automatic.search import (
    EXACT_ROWS,
    FEW_ROWS,
    FEWEST_LABELED,
    LEAST_ROWS,
    NEAR_ROWS,
    Effort,
    Found,
    Member,
    Rows,
    costs_of_search,
    newton_step,
    search,
)
from mercer.automatic.tables import on_tables
from mercer.automatic.trials import Trials
from mercer.data.callbacks import CallbackSupport, calling_callbacks, fit_report
from mercer.data.results import predictions_and_targets, rowwise
from mercer.data.sources import Reader, source_of
from mercer.data.targets import Coding, Labels, Numbers, label_codes, validate_rows
from mercer.engines import (
    Block,
    Engine,
    FilteredEngine,
    Report,
    StagedReport,
    enter_stage,
    report_step,
    reported,
)
from mercer.engines.base import blas_threads_for, count_threads
from mercer.engines.memory import MemoryEngine, block_rows_for
from mercer.errors import DataError
from mercer.kernels import Matern, Polynomial, Transformed
from mercer.learners import KernelRidge, KernelRidgeClassifier, LocalCorrection
from mercer.learners.base import SUM_COST, check_is_fitted, labeled_rows
from mercer.maps.base import DrawnMap, unchanged_if_it_fails
from mercer.maps.landmarks import Nystroem
from mercer.maps.series import RandomMaclaurin
from mercer.metric.inputs import column_spreads
from mercer.parameters import (
    Choice,
    ConstructorSignature,
    Domain,
    Instance,
    Interval,
    check_parameter,
    check_parameters,
    new_of_known_names,
)
from mercer.solvers.copies import without_copies
from mercer.solvers.local.near_rows import unit_of
from mercer.statistics import RowSample, row_hashes
from mercer.statistics.sample import seed_of
from mercer.tables import ColumnFunction, ColumnScaler, ScaledRows, TablePreprocessor
from mercer.tables.column_functions import PlainColumns
from mercer.tables.column_scaler import Scaling

__all__ = ["KernelClassifier", "KernelRegressor"]

Array = np.ndarray
# Largest number of rows from which metrics are learned, and of their entries.
SEARCH_ROWS, SEARCH_ENTRIES = 50_000, 20_000_000
# The search is repeated with other rows held out until it has seen about this number of rows.
REPEATED_ROWS, MOST_PARTS = 5000, 4
# Largest number of entries of the rows of all members, and of members.
MEMBER_ENTRIES, MOST_MEMBERS = 12_000_000, 6
# Largest number of entries of the square matrices of all exact members, two of which each of them stores for its error
# bars. Six members are as accurate as twelve on two tables of about a thousand rows, in a model of half the size.
EXACT_ENTRIES = 8_000_000
# Largest number of members that are not exact, so that thousands of rows are predicted per second.
MOST_LOCAL_MEMBERS = 4
# Numbers of landmarks of members that are not exact: at least, at most, and as a multiple of the root of the number of
# rows.
LEAST_LANDMARKS, MOST_LANDMARKS, LANDMARK_FACTOR = 600, 1200, 4
# Above this number of products for the second moments of features there are fewer landmarks, but at least so many: with
# many rows, near rows do the rest.
MOST_PRODUCTS, FEWEST_LANDMARKS = 2e11, 256
# Default number of bytes for the rows of all members.
MEMORY_LIMIT = 2 * 2**30
# Rows in memory are scaled once if their scaled columns have at most this number of bytes, and in each pass otherwise.
SCALED_BYTES = 2**29
# Largest factor of standard deviations of members for few rows.
MOST_OPTIMISM = 5.0
# Share of a time limit for the search; the rest is for the fits of the members.
SEARCH_SHARE = 0.6
# With fewer distinct rows than this, penalties are not chosen.
FEWEST_ROWS = 5
# Number of rows by which the importances of columns are computed.
IMPORTANCE_ROWS = 2000
# Number of times that the search may be repeated within a time limit, and the largest factor of the number of members.
MOST_TIMED_PARTS, MOST_MORE = 16, 2

PARAGRAPHS |= {
    "automatic_parameters": """\
time_limit : float or None, default=None
    Number of seconds for `fit`. The search is repeated as long as there is time, and ends early if there is not enough.
    What is tried then depends on the speed of the machine. None means a number of repetitions that depends on the
    number of rows only.
memory_limit : int or None, default=None
    Number of bytes for the rows that the model stores; None means 2 GiB. If they do not fit, a sample is stored.
unlabeled : object, default=None
    Value in `y` of rows whose target is not known. These rows are ignored, also by `score`.
n_jobs : int or None, default=None
    Number of threads; None means all cores.
random_state : int, Generator, RandomState or None, default=None
    Seed. The same seed gives the same model, if there is no time limit.
progress : bool or callable, default=False
    True shows the stage of the fit, the fraction done and the remaining time: on a terminal, in a notebook, or as lines
    of a log. A callable receives a `Progress`.""",
    "automatic_attributes": """\
trials_ : Trials
    What was tried: ``print(model.trials_)``, ``trials_.plot()``, ``trials_.to_pandas()``. Empty if there were too few
    rows for a search.
estimators_ : list of Pipeline
    The fitted members: a `ColumnScaler`, and a learner of its columns.
weights_ : ndarray of shape (m,)
    Weights of the members.
best_estimator_ : Pipeline
    The member of largest weight, which can be used by itself.
importances_ : ndarray of shape (d,)
    What each column contributes to squared distances in the metrics of the members. They sum to one.
preprocessor_ : TablePreprocessor or None
    What became of the columns of a table: ``print(model.preprocessor_.summary())``. None for arrays of numbers without
    NaN, and for files of numbers.
n_features_in_ : int
    Number of columns.
feature_names_in_ : ndarray of str
    Names of the columns, if they have names.""",
}


@dataclass(frozen=True, eq=False)
class FittedMember:
    """A member of a model, with its fitted learner."""

    member: Member | None  # None if there was no search
    scaler: ColumnScaler
    learner: Any
    weight: float
    factor: float


@dataclass(frozen=True)
class AllRows:
    """Rule of a `FilteredEngine` that selects all rows."""

    def __call__(self, block: Block) -> Block:
        return block


class AutomaticModel(CallbackSupport, BaseEstimator, ABC):
    """Base class of models that choose everything by themselves."""

    parameter_domains: ClassVar[Mapping[str, Domain]] = {
        "time_limit": Choice(None) | Interval(0, closed="neither"),
        "memory_limit": Choice(None) | Interval(0, closed="neither"),
        "progress": Choice(True, False) | Instance(Callable, "a callable"),  # type: ignore[arg-type]
    }

    __new__ = new_of_known_names
    __signature__ = ConstructorSignature()

    trials_: Trials
    estimators_: list[Pipeline]
    weights_: Array
    best_estimator_: Pipeline
    importances_: Array
    preprocessor_: TablePreprocessor | None
    _coding_: Coding
    _members: tuple[FittedMember, ...]
    _found: Found | None

    def __init__(
        self,
        *,
        time_limit: float | None = None,
        memory_limit: int | None = None,
        unlabeled: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: bool | Report = False,
    ) -> None:
        self.time_limit = time_limit
        self.memory_limit = memory_limit
        self.unlabeled = unlabeled
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress

    # ---- what regression and classification define ------------------------------------------------

    @abstractmethod
    def _coding(self) -> Coding:
        """Return the coding of the targets before any row is seen."""

    @abstractmethod
    def _targets(self, y: Array) -> Array:
        """Return numeric targets (n, t) of validated targets: numbers, or indicators of labels."""

    @abstractmethod
    def _learner(self, feature_map: Any, neighbors: LocalCorrection | None, seed: int) -> Any:
        """Return an unfitted learner for a member."""

    @property
    @abstractmethod
    def _loss_name(self) -> str:
        """What losses are, for tables."""

    # ---- fitting ------------------------------------------------------------------------------------

    @calling_callbacks
    @doc
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Choose and fit the model.

        Parameters
        ----------
        X : data frame, array-like or CSR of shape (n, d), iterable of blocks, files, or Dask collection
            Rows. Without `y`, an iterable of tuples ``(X, y)`` or ``(X, y, weight)`` that can be read several times,
            such as the result of `open_table` or `open_rows`. The columns of a data frame, and of a table that
            `open_table` opens, may be numbers, categories, dates or booleans, with missing cells; arrays may have NaN.
        y : array-like of shape (n,) or (n, t)
            Targets; for a Dask data frame also the name of their column.
        sample_weight : array-like of shape (n,), default=None
            Weights >= 0; a weight of 2 is equivalent to repeating the row.

        Returns
        -------
        %(returns_self)s
        """
        with unchanged_if_it_fails(self):
            owner, start = type(self).__name__, time.perf_counter()
            check_parameters(self, self.parameter_domains)
            count_threads(self.n_jobs)
            for name in [name for name in vars(self) if name.endswith("_")]:
                delattr(self, name)
            self.preprocessor_, X, y = tables.preprocessed(X, y, sample_weight, owner)
            reader = Reader(self, self._coding(), width=MOST_LANDMARKS, n_jobs=self.n_jobs)
            engine = source_of(X, y, sample_weight, owner=owner).engine(reader)
            if not engine.replayable:
                msg = (
                    f"{owner}: the blocks can be read only once, but rows are read several times. Pass an iterable "
                    "that can be read again: a list, or an object whose __iter__ starts over."
                )
                raise DataError(msg)
            report = fit_report(self, self.progress)
            with reported(report):
                self._fit_rows(engine, reader, report, start)
            if self.preprocessor_ is not None:
                self._name_columns(self.preprocessor_)
        return self

    def _name_columns(self, preprocessor: TablePreprocessor) -> None:
        """Set attributes that refer to columns to those of the table."""
        self.n_features_in_ = preprocessor.n_features_in_
        if hasattr(self, "feature_names_in_"):  # those of the columns of numbers
            del self.feature_names_in_
        if hasattr(preprocessor, "feature_names_in_"):
            self.feature_names_in_: Array = preprocessor.feature_names_in_
        for one in self._members:
            # The preprocessor returns an array, whose columns have no names.
            if hasattr(one.scaler, "feature_names_in_"):
                del one.scaler.feature_names_in_
        self.importances_ = tables.named_importances(preprocessor, self.importances_)
        self.estimators_ = [Pipeline([("table", preprocessor), *one.steps]) for one in self.estimators_]
        self.best_estimator_ = self.estimators_[int(np.argmax(self.weights_))]

    def _fit_rows(self, engine: Engine, reader: Reader, report: StagedReport | None, start: float) -> None:
        seed = seed_of(self.random_state, "automatic")
        labeled = labeled_rows(type(self).__name__, engine, self._coding().unlabeled)
        enter_stage(report, "sample rows")
        d = labeled.first().X.shape[1]
        size = min(SEARCH_ROWS, max(1000, SEARCH_ENTRIES // d))
        sample = labeled.sum(partial(RowSample.of, size=size, seed=seed, by_weight=True), report)
        self._coding_ = reader.coding
        assert sample.y is not None
        labels = np.unique(sample.y) if isinstance(self._coding_, Labels) else None
        if labels is not None and len(labels) < 2 and sample.is_complete:
            msg = (
                f"{type(self).__name__} needs rows of at least two classes, got one class only: {labels.tolist()[0]!r}."
                " Check that y is the column of labels, and that rows of other classes were not dropped."
            )
            raise DataError(msg)
        order = np.argsort(sample.key, kind="stable")
        weight = sample.weight[order] if sample.weight is not None and sample.is_complete else None
        X, targets = sample.X[order], self._targets(sample.y[order])
        if unit_of(targets) != 1:
            msg = (
                f"{type(self).__name__}: the squares of targets overflow or underflow, the largest is "
                f"{np.abs(targets).max():.3g}. Multiply them by a constant, so that the largest is about one."
            )
            raise DataError(msg)
        n = sample.seen
        alone = without_copies(X, targets, weight) if sample.is_complete else None
        few = labels is not None and sample.is_complete and weight_of_rows(n, weight) < FEWEST_LABELED
        if few and weight is not None and 0 < weight.mean() < 1:  # weights that sum to one are no smaller evidence
            alone = np.arange(n), weight / weight.mean()
        if alone is not None:
            (index, weight), y = alone, sample.y[order]
            X, targets, n = X[index], targets[index], len(index)
            engine = MemoryEngine(X, y[index], weight, block_rows=block_rows_for(MOST_LANDMARKS), n_jobs=self.n_jobs)
            labeled = labeled_rows(type(self).__name__, engine, self._coding().unlabeled)
        effort = self._effort(n, X.shape[0], d, start)
        rows = Rows(X, targets, weight, labels is not None)
        if report is not None:
            width = min(n, MOST_LANDMARKS)
            of_members = effort.members * (SUM_COST * 3 * n * width**2 + 3.0 * width**3)
            report.plan({"sample rows": float(n * d), **costs_of_search(rows, effort), "fit members": of_members})
        if few:
            found = newton_step(rows)
        else:
            found = search(rows, effort, random_state=seed, n_jobs=self.n_jobs, report=report)
        self._found = found
        self.trials_ = Trials(() if found is None else found.trials, self._loss_name)
        members = self._fit_members(engine, labeled, reader, found, X, n, seed, report, start)
        total = sum(one.weight for one in members)  # less than one if a time limit ended the fits
        members = [replace(one, weight=one.weight / total, factor=one.factor / total) for one in members]
        self._members = tuple(members)
        if labels is not None and found is not None:
            self._found = found.for_labels(labels, members[0].learner.classes_)
        self.weights_ = np.array([one.weight for one in members])
        self.estimators_ = [Pipeline([("columns", one.scaler), ("model", one.learner)]) for one in members]
        self.best_estimator_ = self.estimators_[int(np.argmax(self.weights_))]
        self.importances_ = importances(members, self.weights_, X)
        self._n_rows, self._seconds = sample.seen, time.perf_counter() - start

    def _effort(self, n: int, sampled: int, d: int, start: float) -> Effort:
        """Return how much is tried for n rows of d columns, of which a sample is searched."""
        more = 1.0 if self.time_limit is None else max(1.0, self.time_limit / 60)
        most = min(MOST_MEMBERS, max(1, EXACT_ENTRIES // n**2)) if n <= EXACT_ROWS else MOST_LOCAL_MEMBERS
        # Who gives more time gets more members, each of which costs time in predictions, too.
        members = int(np.clip(more * MEMBER_ENTRIES / (n * min(d, 100)), 1, most * min(more, MOST_MORE)))
        if self.time_limit is not None:
            # Few rows are held out in quarters, which further parts would only repeat.
            parts = MOST_TIMED_PARTS if n >= LEAST_ROWS else MOST_PARTS
            return Effort(sampled, parts, members, start + SEARCH_SHARE * self.time_limit)
        return Effort(sampled, int(np.clip(REPEATED_ROWS // sampled, 1, MOST_PARTS)), members)

    def _fit_members(
        self,
        engine: Engine,
        labeled: Engine,
        reader: Reader,
        found: Found | None,
        X: Any,
        n: int,
        seed: int,
        report: StagedReport | None,
        start: float,
    ) -> list[FittedMember]:
        """Fit the learners of all members, those of largest weight first."""
        if found is None:
            return [self._fit_without_search(engine, reader, X, seed, report)]
        limit = MEMORY_LIMIT if self.memory_limit is None else int(self.memory_limit)
        members: list[FittedMember] = []
        seconds, scaled_by = 0.0, None
        for number, member in enumerate(found.members):
            before = time.perf_counter()
            if members and self.time_limit is not None and before + seconds - start > self.time_limit:
                break
            enter_stage(report, "fit members")
            report_step(report, number, len(found.members), unit="members")
            if id(member.columns) != scaled_by:  # rows are scaled again only if the scaling is another one
                scaled, scaled_labeled = self._scaled_rows(engine, labeled, member.columns)
                scaled_by = id(member.columns)
            feature_map, parts = map_of(member, n, seed % 2**32, self.n_jobs)
            fitted = clone(feature_map).fit_engines(scaled, scaled_labeled, report)
            correction = LocalCorrection(
                member.n_neighbors, parts=parts, memory_limit=max(1, limit // len(found.members))
            )
            learner = self._learner(feature_map, correction, seed % 2**32)
            if member.penalty is not None:
                learner.set_params(alpha=member.penalty)
            learner.fit_engine(scaled, fitted, reader, report)
            compress(learner)
            if member.penalty is not None and isinstance(learner, KernelRidgeClassifier):
                # Not the scale by left-out rows, which are too few. Indicators are from -1 to 1.
                learner.probability_scale_ = member.penalty * (1.0 if len(learner.classes_) == 2 else 0.5)
            scaler = self._scaler(member.scaling, member.columns)
            members.append(FittedMember(member, scaler, learner, member.weight, member.factor))
            seconds = max(seconds, time.perf_counter() - before)
        return members

    def _scaled_rows(self, engine: Engine, labeled: Engine, columns: ColumnFunction) -> tuple[Engine, Engine]:
        """Return the rows with scaled columns, and those of them that have targets."""
        rule, owner = ScaledRows(columns), type(self).__name__
        rows = engine.in_memory
        size = 8 * len(columns.names) * (engine.n_rows or 0)
        if rows is None or not isinstance(engine, MemoryEngine) or sp.issparse(rows.X) or size > SCALED_BYTES:
            nothing = f"{owner}: there are no rows."
            return FilteredEngine(engine, rule, nothing), FilteredEngine(labeled, rule, nothing)
        # A fit reads the rows several times, so that they are scaled once if the result fits into memory. They are read
        # as other rows are, so that all sources of rows give the same model.
        X = np.concatenate([rule(block).X for block in engine.blocks()])
        stored = MemoryEngine(
            X, rows.y, rows.weight, block_rows=engine.block_rows, n_jobs=engine.n_jobs, start=rows.start
        )
        scaled = FilteredEngine(stored, AllRows(), f"{owner}: there are no rows.")
        return scaled, labeled_rows(owner, scaled, self._coding().unlabeled)

    def _fit_without_search(
        self, engine: Engine, reader: Reader, X: Any, seed: int, report: StagedReport | None
    ) -> FittedMember:
        """Fit the default learner, where there are too few rows or too many columns for a search."""
        enter_stage(report, "fit model")
        d = X.shape[1]
        scaler = self._scaler("spread", PlainColumns.unchanged(d))  # the default map scales columns
        # A median distance needs two different rows.
        varies = X.shape[0] > 1 and (column_spreads(X, None)[1] > 0).any()
        feature_map = None if varies else Nystroem(Matern(2.5), 1, landmarks="uniform", random_state=seed % 2**32)
        learner = self._learner(feature_map, LocalCorrection(parts="global"), seed % 2**32)
        if len(np.unique(row_hashes(X))) < FEWEST_ROWS:
            # Left-out errors of so few rows do not depend on the penalty, and a small one would mean no noise.
            learner.set_params(alpha=1.0)
        rule = ScaledRows(scaler.columns_)
        scaled = FilteredEngine(engine, rule, f"{type(self).__name__}: there are no rows.")
        fitted = learner._unfitted_map(seed % 2**32).fit_engines(scaled, scaled, report)
        learner.fit_engine(scaled, fitted, reader, report)
        return FittedMember(None, scaler, learner, 1.0, 1.0)

    def _scaler(self, method: Scaling, columns: ColumnFunction) -> ColumnScaler:
        """Return a fitted transformer, for the pipelines of members."""
        scaler = ColumnScaler(method)
        scaler.columns_, scaler.n_features_in_ = columns, self.n_features_in_
        if hasattr(self, "feature_names_in_"):
            scaler.feature_names_in_ = self.feature_names_in_
        return scaler

    # ---- results ------------------------------------------------------------------------------------

    def _values(self, X: Any, of_member: Callable[[FittedMember, Any], Array]) -> list[Array]:
        """Return the values of each member for validated rows; columns are scaled once for each scaling."""
        scaled: dict[int, Any] = {}
        values = []
        # On a machine that other programs use, products of few rows wait longer for a second thread of BLAS than they
        # take. The limit is set once for all members, since setting it takes a tenth of a millisecond.
        with blas_threads_for(X.shape[0]):
            for one in self._members:
                key = id(one.scaler.columns_)
                if key not in scaled:
                    scaled[key] = one.scaler.columns_(X)
                values.append(of_member(one, scaled[key]))
        return values

    def explain(self) -> str:
        """Return what was chosen and why, in about five lines.

        Returns
        -------
        str
        """
        check_is_fitted(self)
        return "\n".join(self._explanation())

    def _explanation(self) -> list[str]:
        d, found = self.n_features_in_, self._found
        lines = [f"{type(self).__name__}: {self._n_rows:,} rows of {d} columns, fitted in {self._seconds:.1f} s."]
        if self.preprocessor_ is not None:
            lines.append(tables.explained(self.preprocessor_))
        if found is None:
            return [
                *lines,
                "There were too few different rows, or too many columns, for a search: the default learner.",
            ]
        if not found.trials:
            return [
                *lines,
                "There were too few rows to choose anything by rows that are held out: one step of logistic "
                "regression from the frequencies of the labels, in the mean of a linear and a Matern kernel.",
            ]
        shares: dict[str, float] = {}
        for one, weight in zip(self._members, self.weights_, strict=True):
            assert one.member is not None
            shares[one.member.scaling] = shares.get(one.member.scaling, 0.0) + float(weight)
        compared = ", ".join(f"{name} {loss:.3g}" for name, loss in self.trials_.least_losses().items())
        lines.append(
            f"Columns: {' and '.join(f'{name} ({share:.0%})' for name, share in shares.items())}; least "
            f"{self._loss_name} of held-out rows: {compared}."
        )
        kernels: dict[str, float] = {}
        for one, weight in zip(self._members, self.weights_, strict=True):
            assert one.member is not None
            kernels[one.member.name] = kernels.get(one.member.name, 0.0) + float(weight)
        shown = ", ".join(f"{name} ({kernels[name]:.0%})" for name in sorted(kernels, key=lambda k: -kernels[k])[:4])
        count = f"{len(self._members)} member{'s'[: len(self._members) - 1]}"
        lines.append(f"Kernels and metrics, {count}: {shown}.")
        most = max(one.member.n_neighbors for one in self._members if one.member is not None)
        near = f"{most} near rows"
        parts = {"global": "all rows through landmarks", "local": near, "both": f"landmarks and {near}"}
        curves = [one for one in self._members if one.member is not None and one.member.kernel is not None]
        used = dict.fromkeys(one.learner.local_.parts for one in curves)
        best = self._members[int(np.argmax(self.weights_))]
        if best in curves:
            penalty = f"{best.learner.local_.model.alpha:.2g}"
            lines.append(f"Predictions from {', '.join(parts[name] for name in used)}; penalty {penalty}.")
        else:
            lines.append("Predictions are mostly the mean of the targets: little more is certain.")
        lines.append(
            f"{self._loss_name.capitalize()} of held-out rows: {found.loss:.4g}; best single trial {found.single:.4g}, "
            f"a constant {found.constant:.4g}."
        )
        return lines

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags


def compress(learner: Any) -> None:
    """Remove from the fitted learner of a member what its predictions do not use: a model has several members.

    These are the sums over rows, to which a learner with near rows cannot add further rows, and the columns of its
    rows, whose points are stored. Features of rows are rounded to single precision if the noise permits it.
    """
    vars(learner).pop("statistic_", None)
    learner.local_ = learner.local_.compact()


def optimism(one: FittedMember, found: Found, level: float | None) -> Array:
    """Return the ratio (t,) of errors of held-out rows to leave-one-out errors of a member.

    With few rows, leave-one-out errors are too small, because the metric was learned from the rows that are left out.

    Parameters
    ----------
    one : FittedMember
        The member.
    found : Found
        The search, with the errors of the model for rows that were held out.
    level : float or None
        The level of the quantiles of absolute errors that are compared; None compares root mean squares.
    """
    assert found.errors is not None
    local = one.learner.local_
    left_out, held = local.left_out.errors * local.unit, found.errors
    if level is None:
        ours, theirs = np.sqrt(np.square(held).mean(axis=0)), np.sqrt(np.square(left_out).mean(axis=0))
    else:
        ours, theirs = np.quantile(np.abs(held), level, axis=0), np.quantile(np.abs(left_out), level, axis=0)
    return np.where(theirs > 0, ours / np.where(theirs > 0, theirs, 1.0), 1.0)


def weight_of_rows(n: int, weight: Array | None) -> float:
    """Return the larger of the number of rows and their total weight, since a weight of two is that of two rows."""
    return float(n if weight is None else max(np.count_nonzero(weight), weight.sum()))


def map_of(
    member: Member, n: int, seed: int, n_jobs: int | None
) -> tuple[DrawnMap, Literal["auto", "global", "local"]]:
    """Return the unfitted map of a member for n rows, and which parts its learner has."""
    if member.kernel is None:  # a constant; its penalty leaves the mean of the targets only
        return Nystroem(Matern(2.5), 1, landmarks="uniform", random_state=seed, n_jobs=n_jobs), "global"
    if isinstance(member.kernel, Polynomial):  # a line; its features are the columns themselves
        d = len(member.columns.names)
        return RandomMaclaurin(member.kernel, d + 1, random_state=seed, n_jobs=n_jobs), "global"
    parts: Literal["auto", "global", "local"] = "global" if n <= EXACT_ROWS else "auto"
    width = n if n <= EXACT_ROWS else landmarks_for(n)
    if n > EXACT_ROWS and member.n_neighbors > NEAR_ROWS:
        # Both parts together with many near rows would take too long, and near rows are better than landmarks here.
        width, parts = FEWEST_LANDMARKS, "local"
    return Nystroem(member.kernel, width, landmarks="uniform", random_state=seed, n_jobs=n_jobs), parts


def landmarks_for(n: int) -> int:
    """Return the number of landmarks of a member for n rows."""
    width = np.clip(LANDMARK_FACTOR * n**0.5, LEAST_LANDMARKS, MOST_LANDMARKS)
    return int(min(width, max(FEWEST_LANDMARKS, (MOST_PRODUCTS / n) ** 0.5)))


def importances(members: list[FittedMember], weights: Array, X: Any) -> Array:
    """Return what each column of rows contributes to their squared distances, averaged over members."""
    d = X.shape[1]
    total = np.zeros(d)
    for one, weight in zip(members, weights, strict=True):
        if one.member is None or not isinstance(one.member.kernel, Transformed):
            continue
        kernel = one.member.kernel
        if kernel.matrix is not None:
            squares = np.square(np.asarray(kernel.matrix)).sum(axis=1)
        else:
            squares = np.square(1 / np.asarray(kernel.lengthscales))
        columns: Any = one.member.columns
        scaled = columns(X[:IMPORTANCE_ROWS])
        squares = squares * np.var(scaled.toarray() if sp.issparse(scaled) else scaled, axis=0)
        of_columns = np.zeros(d)
        if hasattr(columns, "directions"):
            of_columns[columns.plain.columns] = np.square(columns.directions) @ squares
        else:
            np.add.at(of_columns, [j for j, _ in columns.names], squares)
        if of_columns.sum() > 0:
            total += weight * of_columns / of_columns.sum()
    return total / total.sum() if total.sum() > 0 else np.full(d, 1 / d)


@doc
class KernelRegressor(RegressorMixin, AutomaticModel):
    """Regression that needs no argument.

    The model is a weighted mean of kernel ridge regressions with local corrections. `fit` scales columns, and chooses
    kernels, metrics, penalties and weights, and whether predictions use landmarks, near rows or both, by predictions of
    rows that are held out. Time is linear in the number of rows.

    Parameters
    ----------
    %(automatic_parameters)s

    Attributes
    ----------
    %(automatic_attributes)s

    See Also
    --------
    KernelClassifier : The same for labels.
    KernelRidge : The learner of the members, with all of its parameters.
    LearnedMetric : How metrics are learned.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(300, 3)) * [1, 1000, 1e-6]
    >>> y = np.sin(6 * X[:, 0]) + X[:, 1] / 1000 + 0.1 * rng.normal(size=300)
    >>> model = KernelRegressor().fit(X[:200], y[:200])
    >>> bool(model.score(X[200:], y[200:]) > 0.95)
    True
    >>> mean, std = model.predict(X[200:], return_std=True)
    """

    def _coding(self) -> Numbers:
        return Numbers(self.unlabeled)

    def _targets(self, y: Array) -> Array:
        return y

    def _learner(self, feature_map: Any, neighbors: LocalCorrection | None, seed: int) -> Any:
        return KernelRidge(
            feature_map,
            alpha="auto",
            neighbors=neighbors,
            unlabeled=self.unlabeled,
            n_jobs=self.n_jobs,
            random_state=seed,
        )

    @property
    def _loss_name(self) -> str:
        return "relative RMSE"

    @property
    def _single(self) -> bool:
        return not self._coding_.shape  # type: ignore[attr-defined]

    @on_tables
    @rowwise
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the predicted targets of rows, and standard deviations of new targets if `return_std` is True.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d), files, or Dask collection
            Rows. For a Dask collection the result is a Dask array that is not computed yet.
        return_std : bool, default=False
            Whether to also return standard deviations of new targets, noise included.

        Returns
        -------
        mean : ndarray of shape (n,) or (n, t)
        std : ndarray of shape (n,) or (n, t)
            Returned if `return_std` is True.
        """
        X = validate_rows(self, X, reset=False)
        mean, std = self._predicted(X, return_std)
        return (mean, std) if return_std else mean

    def _predicted(self, X: Any, with_std: bool) -> tuple[Array, Array | None]:
        """Return predictions for validated rows, and standard deviations of new targets or None."""

        def of_member(one: FittedMember, scaled: Any) -> Any:
            return one.learner.local_.predict(scaled, return_std=with_std, with_noise=True, n_jobs=self.n_jobs)

        found: list[Any] = self._values(X, of_member)
        mean = sum(weight * values for weight, (values, _) in zip(self.weights_, found, strict=True))
        std = None
        if with_std:
            terms = zip(self.weights_, self._ratios(None), found, strict=True)
            std = np.sqrt(sum(weight * np.square(ratio * values) for weight, ratio, (_, values) in terms))
        if self._single:
            return mean[:, 0], None if std is None else std[:, 0]
        return mean, std

    @on_tables
    @rowwise
    def predict_interval(self, X: Any, coverage: float = 0.9) -> Array:
        """Return intervals that contain a new target with a given probability.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d), files, or Dask collection
            Rows. For a Dask collection the result is a Dask array that is not computed yet.
        coverage : float, default=0.9
            Probability, > 0 and < 1.

        Returns
        -------
        ndarray of shape (n, 2) or (n, t, 2)
            Lower and upper ends.
        """
        check_parameter(type(self).__name__, "coverage", coverage, Interval(0, 1, closed="neither"))
        mean, std = self._predicted(validate_rows(self, X, reset=False), with_std=True)
        assert std is not None
        terms = zip(self.weights_, self._members, self._ratios(coverage), self._ratios(None), strict=True)
        factor = sum(w * one.learner.local_.quantile(coverage) * at / rms for w, one, at, rms in terms)
        half = std * np.squeeze(factor)
        return np.stack([mean - half, mean + half], axis=-1)

    def _ratios(self, level: float | None) -> list[Array]:
        """Return the factors (t,) of the standard deviations of members, for errors of their weighted mean."""
        found = self._found
        if found is None or self._n_rows > FEW_ROWS:
            return [np.array([1.0 if found is None else found.shrinkage])] * len(self._members)
        return [np.clip(optimism(one, found, level), found.shrinkage, MOST_OPTIMISM) for one in self._members]

    @on_tables
    @doc
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the coefficient of determination R^2 of the predictions, on rows whose target is known.

        %(scored_rows)s
        """
        from sklearn.metrics import r2_score

        check_is_fitted(self)
        truth, predicted, weight = predictions_and_targets(self, self._coding_, X, y, sample_weight)
        return r2_score(truth, predicted, sample_weight=weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


@doc
class KernelClassifier(ClassifierMixin, AutomaticModel):
    """Classification that needs no argument.

    The model is a weighted mean of kernel ridge classifiers with local corrections. `fit` scales columns, and chooses
    kernels, metrics, penalties and weights, and whether predictions use landmarks, near rows or both, by the
    logarithmic loss of rows that are held out. Time is linear in the number of rows.

    Parameters
    ----------
    %(automatic_parameters)s

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Labels, sorted.
    %(automatic_attributes)s

    See Also
    --------
    KernelRegressor : The same for numbers.
    KernelRidgeClassifier : The learner of the members, with all of its parameters.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import train_test_split
    >>> from mercer import KernelClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> model = KernelClassifier().fit(X_train, y_train)
    >>> bool(model.score(X_test, y_test) > 0.95)
    True
    """

    def _coding(self) -> Labels:
        return Labels(self.unlabeled)

    def _targets(self, y: Array) -> Array:
        labels = np.unique(y)
        return (label_codes(y, labels)[:, None] == np.arange(len(labels))).astype(np.float64)

    def _learner(self, feature_map: Any, neighbors: LocalCorrection | None, seed: int) -> Any:
        return KernelRidgeClassifier(
            feature_map,
            alpha="auto",
            neighbors=neighbors,
            unlabeled=self.unlabeled,
            n_jobs=self.n_jobs,
            random_state=seed,
        )

    @property
    def _loss_name(self) -> str:
        return "log loss"

    @property
    def classes_(self) -> Array:
        """Labels, sorted."""
        return self._members[0].learner.classes_

    @on_tables
    @rowwise
    def decision_function(self, X: Any) -> Array:
        """Return the logits of the labels, or for two labels the logit of the second one.

        %(rows_to_results)s
        ndarray of shape (n,) or (n, K)
        """
        X = validate_rows(self, X, reset=False)

        def of_member(one: FittedMember, scaled: Any) -> Array:
            values = type(one.learner).decision_function.on_arrays(one.learner, scaled)
            return one.learner.probability_scale_ * values

        return self.joined_logits(self._values(X, of_member))

    def joined_logits(self, logits: Sequence[Array]) -> Array:
        """Return the logits of the model, given those of its members.

        Parameters
        ----------
        logits : sequence of ndarray of shape (n,) or (n, K)
            Logits of the labels by each member, or by the same learners fitted to other rows.

        Returns
        -------
        ndarray of shape (n,) or (n, K)
        """
        total = np.sum([one.factor * values for one, values in zip(self._members, logits, strict=True)], axis=0)
        if self._found is None or self._found.offsets is None:
            return total
        offsets = self._found.offsets
        return total + (offsets if total.ndim == 2 else offsets[1] - offsets[0])

    @on_tables
    @rowwise
    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of all labels.

        %(rows_to_results)s
        ndarray of shape (n, K)
        """
        logits = type(self).decision_function.on_arrays(self, X)  # type: ignore[attr-defined]
        if logits.ndim == 1:
            positive = special.expit(logits)
            return np.column_stack([1 - positive, positive])
        return special.softmax(logits, axis=1)

    @on_tables
    @rowwise
    def predict(self, X: Any) -> Array:
        """Return the most probable label of each row.

        %(rows_to_results)s
        ndarray of shape (n,)
        """
        values = type(self).decision_function.on_arrays(self, X)  # type: ignore[attr-defined]
        return self.classes_[(values > 0).astype(int) if values.ndim == 1 else values.argmax(axis=1)]

    @on_tables
    @doc
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy of the predicted labels, on rows whose label is known.

        %(scored_rows)s
        """
        from sklearn.metrics import accuracy_score

        check_is_fitted(self)
        truth, predicted, weight = predictions_and_targets(self, self._coding_, X, y, sample_weight)
        return accuracy_score(truth, predicted, sample_weight=weight)
