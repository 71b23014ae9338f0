"""The parameters and results that the two ridge estimators share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from numbers import Real
from typing import Any

import numpy as np

from mercer.engines import Accumulator, Engine, Progress
from mercer.errors import DataError, ParameterError
from mercer.features import Features
from mercer.kernels import Kernel
from mercer.learners.one_pass import OnePassLearner
from mercer.maps import BaseMap
from mercer.solvers.ridge.least_squares import RidgeSolution
from mercer.solvers.ridge.paths import CRITERIA, Criterion, RidgePath, left_out_path
from mercer.solvers.ridge.spectrum import Spectrum
from mercer.statistics.moments import Moments

__all__ = ["RidgeLearner"]

Array = np.ndarray


class RidgeLearner(OnePassLearner):
    """The parameters and results that the two ridge estimators share."""

    _solution: RidgeSolution

    def __init__(
        self,
        feature_map: BaseMap | Kernel | None = None,
        *,
        alpha: float | Criterion = 1.0,
        fit_intercept: bool = True,
        unlabeled: Any = None,
        block_size: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: bool | Callable[[Progress], None] = False,
    ) -> None:
        self.feature_map = feature_map
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.unlabeled = unlabeled
        self.block_size = block_size
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress

    def _check_alpha(self) -> None:
        alpha = self.alpha
        number = isinstance(alpha, Real) and not isinstance(alpha, bool)
        if not (alpha in CRITERIA if isinstance(alpha, str) else number and np.isfinite(alpha) and alpha >= 0):
            words = ", ".join(map(repr, CRITERIA))
            msg = f"{type(self).__name__}: alpha must be a finite number >= 0 or one of {words}, got {alpha!r}."
            raise ParameterError(msg)

    @abstractmethod
    def _solve(self, engine: Engine | None = None) -> None:
        """Turn `statistic_` into the fitted attributes; the rows themselves are there if `alpha` needs them again."""

    @abstractmethod
    def _moments(self) -> Moments:
        """Return the moments that `statistic_` holds."""

    @abstractmethod
    def _accumulator(self, features: Features, *, double: bool | None = None) -> Accumulator[Any]:
        """Return an empty sum; None lets `alpha` decide whether products run in float64 for every dtype."""

    def _learn(self, engine: Engine) -> None:
        self._check_alpha()
        if self.alpha == "loo" and not engine.replayable:
            msg = (
                f"{type(self).__name__}: alpha='loo' reads the rows twice, but the blocks can be read only once. Pass "
                "an iterable that can be read again (a list, or an object whose __iter__ starts over), or use "
                "alpha='evidence' or alpha='gcv', which read them once."
            )
            raise DataError(msg)
        self.statistic_ = self._sum(engine)
        if engine.replayable and not isinstance(self.alpha, str) and self._is_coarse(self.alpha):
            # Only now is it known how small the penalty is beside the features: once more, in float64.
            again = self._accumulator(self.feature_map_.features_, double=True)
            self.statistic_ = engine.accumulate(again, self._report())
        self._solve(engine if self.alpha == "loo" else None)

    def _is_coarse(self, alpha: float) -> bool:
        """Return whether products in float32 were rounded by more than the penalty."""
        moments = self._moments()
        return bool(moments.roundoff >= np.finfo(np.float32).eps and 0 < alpha < moments.rounding)

    @property
    def single_pass(self) -> bool:
        return not (isinstance(self.alpha, str) and self.alpha == "loo")

    @property
    def rounding_(self) -> float:
        self._ensure_solved()
        moments = self._moments()
        # Without a penalty, what is this close to rounding is not used.
        penalty = self.alpha_ if self.alpha_ > 0 else len(moments.gram) * moments.rounding
        return moments.rounding / penalty if penalty > 0 else 0.0

    def _left_out(self, engine: Engine | None, labels: Array | None = None) -> Callable[[Spectrum], RidgePath] | None:
        """Return what scores penalties by leaving out rows, if there are rows."""
        if engine is None:
            return None
        features = self.feature_map_.features_
        return partial(left_out_path, engine=engine, features=features, fit_intercept=self.fit_intercept, labels=labels)

    def _needs_double(self) -> bool:
        """Return whether small eigenvalues count: where penalties are tried far below the largest, or there is none."""
        return isinstance(self.alpha, str) or self.alpha == 0

    @property
    def alpha_(self) -> float:
        self._ensure_solved()
        return self._solution.alpha

    @property
    def path_(self) -> RidgePath | None:
        self._ensure_solved()
        return self._solution.path
