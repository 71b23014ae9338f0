"""How classifiers of a loss are fitted: a start and a preconditioner from a sample, then Newton steps on all rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from mercer.engines import Engine, MemoryEngine, Progress, block_rows_for
from mercer.engines.passes import Passes
from mercer.errors import DataError, ParameterError
from mercer.features import Features, features_of
from mercer.kernels import Kernel
from mercer.learners.base import warn_not_converged
from mercer.learners.checkpointing import facts_of
from mercer.learners.linear_classifier import LinearClassifier
from mercer.maps import BaseMap
from mercer.solvers.losses.curvature import SampleCurvature
from mercer.solvers.losses.losses import Loss, Problem
from mercer.solvers.losses.newton import minimize
from mercer.solvers.losses.objective import Penalized
from mercer.statistics.survey import SurveyTerm

__all__ = ["AsGiven", "LossLearner"]

Array = np.ndarray
# Rows of the sample that gives the start and the preconditioner: so many for each column, within these bounds.
SAMPLE_ROWS_A_COLUMN, FEWEST_SAMPLE_ROWS, SAMPLE_BYTES = 32, 4096, 2**28
# The sample is a means to the minimum and leaves no trace in it, so it is the same for every `random_state`.
SAMPLE_SEED = 20260
# Who has a state that moves, so that equal words do not mean equal draws.
MOVING = (np.random.Generator, np.random.RandomState, np.random.BitGenerator)
# Rows on which two maps that give the same features are taken for the same.
SAME_ROWS = 64
# How exactly the problem of the sample is solved: its minimum is a statistical error away from that of all rows.
SAMPLE_TOL, SAMPLE_STEPS, SAMPLE_PRODUCTS = 1e-2, 50, 20


@dataclass(frozen=True)
class AsGiven(Features):
    """Features that are the rows themselves."""

    n_components: int

    def astype(self, dtype: Any) -> AsGiven:  # noqa: ARG002, the signature of the contract
        return self

    def __call__(self, X: Array, out: Array) -> None:
        out[...] = X


class LossLearner(LinearClassifier):
    """The parameters and the fit that the classifiers of a loss share."""

    _previous: tuple[Any, ...] | None = None  # of the last fit: what a warm start goes on from

    def __init__(
        self,
        feature_map: BaseMap | Kernel | None = None,
        *,
        C: float = 1.0,
        fit_intercept: bool = True,
        class_weight: Any = None,
        max_iter: int = 100,
        tol: float = 1e-11,
        warm_start: bool = False,
        unlabeled: Any = None,
        block_size: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: bool | Callable[[Progress], None] = False,
    ) -> None:
        self.feature_map = feature_map
        self.C = C
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.unlabeled = unlabeled
        self.block_size = block_size
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress

    _loss: ClassVar[Loss]

    classes_: Array
    coef_: Array
    intercept_: Array

    # ---- fitting ------------------------------------------------------------------------------

    def _learn(self, engine: Engine) -> None:
        self._check_parameters()
        name = type(self).__name__
        if not engine.replayable:
            msg = (
                f"{name} reads the rows many times, but the blocks can be read only once. Pass an iterable that can be "
                "read again (a list, or an object whose __iter__ starts over), or use KernelRidgeClassifier."
            )
            raise DataError(msg)
        features = self.feature_map_.features_
        D = features.n_components
        rows = max(FEWEST_SAMPLE_ROWS, SAMPLE_ROWS_A_COLUMN * (D + 1))
        size = max(1, min(rows, SAMPLE_BYTES // (8 * D)))
        survey = engine.sum(SurveyTerm(size, SAMPLE_SEED))
        if len(survey.labels) < 2:
            got = f"one class only: {survey.labels.tolist()[0]!r}" if len(survey.labels) else "no row with a weight"
            msg = f"{name} needs rows of at least two classes, got {got}."
            raise DataError(msg)
        problem = Problem(features, self._loss, survey.labels, self._label_weight(survey.labels, survey.weight))

        def penalized(engine: Engine, problem: Problem, passes: Passes) -> Penalized:
            weight = float(problem.label_weight @ survey.weight)
            return Penalized(
                engine, problem, float(self.C), bool(self.fit_intercept), passes, survey.sample.seen, weight
            )

        sample, weight = survey.sample, survey.sample_weight()
        Z = features_of(features.astype(sample.X.dtype), sample.X).astype(np.float64, copy=False)
        codes = np.searchsorted(survey.labels, np.asarray(sample.y))
        curvature = SampleCurvature(
            Z,
            codes,
            self.C * weight * problem.label_weight[codes],
            self._loss,
            fit_intercept=bool(self.fit_intercept),
            n_jobs=self.n_jobs,
        )
        start = self._warm_start(survey.labels)
        if start is None:
            few = MemoryEngine(Z, sample.y, weight, block_rows=block_rows_for(D), n_jobs=self.n_jobs)
            on_sample = penalized(
                few, Problem(AsGiven(D), self._loss, problem.labels, problem.label_weight), Passes(None)
            )
            zero = np.zeros((D + 1, problem.columns))
            start = minimize(
                on_sample, zero, curvature, tol=SAMPLE_TOL, max_iter=SAMPLE_STEPS, many_products=SAMPLE_PRODUCTS
            ).coef
        passes = Passes(self._report())
        found = minimize(
            penalized(engine, problem, passes), start, curvature, tol=float(self.tol), max_iter=int(self.max_iter)
        )
        self.classes_ = survey.labels
        self.coef_ = found.coef[:-1].T.copy()
        self.intercept_ = found.coef[-1].copy()
        self.n_iter_ = found.steps
        self.n_passes_ = passes.count + 1  # the survey
        if not found.converged:
            warn_not_converged(
                f"{name}: {found.steps} Newton steps left coefficients that the next would change by {found.error:.1g} "
                f"of the largest (tol={self.tol:g}). Try a larger max_iter, a larger tol, or a smaller C."
            )

    def _check_parameters(self) -> None:
        name = type(self).__name__
        for key in ("C", "tol"):
            value: Any = getattr(self, key)
            if not isinstance(value, int | float | np.number) or isinstance(value, bool) or not 0 < value < np.inf:
                msg = f"{name}: {key} must be a finite number > 0, got {value!r}."
                raise ParameterError(msg)
        if not isinstance(self.max_iter, Integral) or isinstance(self.max_iter, bool) or self.max_iter < 1:
            msg = f"{name}: max_iter must be an integer >= 1, got {self.max_iter!r}."
            raise ParameterError(msg)

    def _label_weight(self, labels: Array, weight: Array) -> Array:
        """Return the factor of each label for the `class_weight` parameter."""
        choice = self.class_weight
        if choice is None:
            return np.ones(len(labels))
        if isinstance(choice, str) and choice == "balanced":
            return weight.sum() / (len(labels) * weight)
        if not isinstance(choice, dict):
            msg = f"{type(self).__name__}: class_weight must be None, 'balanced' or a dict, got {choice!r}."
            raise ParameterError(msg)
        unknown = [label for label in choice if label not in set(labels.tolist())]
        if unknown and not set(labels.tolist()) <= set(choice):
            msg = (
                f"{type(self).__name__}: class_weight has {unknown}, which are no labels of these rows; the labels are "
                f"{labels.tolist()}."
            )
            raise ParameterError(msg)
        factors = np.array([choice.get(label, 1.0) for label in labels.tolist()], dtype=np.float64)
        if not (np.isfinite(factors).all() and (factors > 0).all()):
            msg = f"{type(self).__name__}: weights in class_weight must be finite and > 0, got {choice!r}."
            raise ParameterError(msg)
        return factors

    # ---- starting from the last fit -----------------------------------------------------------

    def _forget(self) -> None:
        self._previous = None
        if self.warm_start and hasattr(self, "coef_"):
            coef = np.vstack([self.coef_.T, self.intercept_])
            self._previous = (self._drawn_for, self.feature_map_, self.classes_, coef)
        super()._forget()

    def _fit_map(self, engine: Engine) -> None:
        # A map drawn anew would make the old coefficients meaningless: it is kept while its parameters are the same.
        first, prototype = engine.first().X, self._prototype()
        moving = [id(value) for value in prototype.get_params().values() if isinstance(value, MOVING)]
        self._drawn_for = (first.shape[1], facts_of(prototype), moving)
        if self._previous is None or self._previous[0] != self._drawn_for:
            self._previous = None
            super()._fit_map(engine)
        elif not prototype.needs_rows():
            self._take_map(self._previous[1])
        else:  # what a map has learned of other rows is not true of these
            super()._fit_map(engine)
            if not same_features(self._previous[1], self.feature_map_, first[:SAME_ROWS]):
                self._previous = None

    def _warm_start(self, labels: Array) -> Array | None:
        """Return the coefficients of the last fit, if they are asked for and fit."""
        previous, self._previous = self._previous, None
        if previous is None or not np.array_equal(previous[2], labels):
            return None
        coef = previous[3].copy()
        if not self.fit_intercept:
            coef[-1] = 0.0
        return coef


def same_features(one: BaseMap, other: BaseMap, X: Any) -> bool:
    """Return whether two fitted maps give the same features of some rows."""
    a, b = (features_of(each.features_.astype(X.dtype), X) for each in (one, other))
    return a.shape == b.shape and bool(np.array_equal(a, b))
