"""Learners that need one sum over the rows and one solve, and can add rows later."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np

from mercer.data.targets import has_label
from mercer.engines import Accumulator, Engine
from mercer.errors import DataError
from mercer.features import Features
from mercer.learners.base import BaseLearner, Classifier, Regressor, available_if, check_fitted
from mercer.maps.registry import check_grows

__all__ = ["OnePassClassifier", "OnePassLearner", "OnePassRegressor", "can_add"]


class OnePassLearner(BaseLearner):
    """A learner whose one statistic tells all that it needs to know of the rows."""

    statistic_: Any
    _solved: bool

    @property
    def single_pass(self) -> bool:
        """Whether one pass over the rows is enough, with the parameters as they are."""
        return True

    # ---- what a learner adds ------------------------------------------------------------------

    @abstractmethod
    def _accumulator(self, features: Features) -> Accumulator[Any]:
        """Return an empty sum, whose result is a value with ``+``, a count `rows`, and `transformed` by a matrix."""

    @abstractmethod
    def _solve(self) -> None:
        """Turn `statistic_` into the fitted attributes and set `_solved`."""

    # ---- fitting ------------------------------------------------------------------------------

    _seen: int | None = None  # rows that `partial_fit` was given

    def _learn(self, engine: Engine) -> None:
        self._seen = None
        self.statistic_ = self._sum(engine)
        self._solve()

    def _add(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Add a block of rows to the statistic; the solve waits until a result is asked for."""
        fresh = not hasattr(self, "statistic_")
        X, y, weight = self._checked(X, y, sample_weight, reset=fresh)
        # Rows without a label count, too: a row has the same number, and so the same part in samples, as in `fit`.
        start = 0 if fresh else self.statistic_.rows if self._seen is None else self._seen
        self._seen = start + X.shape[0]
        engine = self._memory(X, y, weight, start=start)
        if fresh:
            self._fit_map(engine)
        else:
            change = self._grow_map(engine)
            if change is not None:
                self.statistic_ = self.statistic_.transformed(change)
                self._solved = False
            if self.unlabeled is not None and not has_label(y, self.unlabeled).any():
                return  # what the map could learn from these rows it has
        statistic = self._sum(self._labeled(engine))
        self.statistic_ = statistic if fresh else self.statistic_ + statistic
        self._solved = False

    def _ensure_solved(self) -> None:
        check_fitted(self)
        if not self._solved:
            self._solve()

    def _forget(self) -> None:
        super()._forget()
        self._solved = False
        self._seen = None

    def _sum(self, engine: Engine) -> Any:
        return engine.accumulate(self._accumulator(self.feature_map_.features_), self._report())


def can_add(model: OnePassLearner) -> bool:
    """Return that rows can be added to a learner with the parameters as they are, or raise."""
    if not model.single_pass:
        msg = (
            f"{type(model).__name__}: with these parameters rows are read twice, and partial_fit keeps none. Use "
            "alpha='evidence' or alpha='gcv', which need one pass, or fit on all rows at once."
        )
        raise AttributeError(msg)
    return check_grows(model)


class OnePassRegressor(Regressor, OnePassLearner):
    """A one-pass learner of numbers."""

    @available_if(can_add)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Add a block of rows to the model.

        The first call fits the map, on the rows it is given; the solve waits until a result is asked for. A `Deformed`
        map takes all rows, labeled or not, into its `FeatureGraph`, and what was learned is told in the features
        of now, exactly; a graph that cannot grow is refused.

        Parameters
        ----------
        X, y, sample_weight
            As arrays in `fit`.

        Returns
        -------
        self
        """
        with self._unchanged_if_it_fails():
            self._add(X, y, sample_weight)
        return self


class OnePassClassifier(Classifier, OnePassLearner):
    """A one-pass learner of labels; its statistic can take labels that were only announced: `with_labels`."""

    _announced: np.ndarray | None = None  # labels that `partial_fit` was told of

    @available_if(can_add)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Add a block of rows to the model.

        The first call fits the map, on the rows it is given; the solve waits until a result is asked for. A `Deformed`
        map takes all rows, labeled or not, into its `FeatureGraph`, and what was learned is told in the features
        of now, exactly; a graph that cannot grow is refused.

        Parameters
        ----------
        X, y, sample_weight
            As arrays in `fit`.
        classes : array-like, default=None
            All labels that there are. Not needed: labels that appear in a later block are added then. Once given, a
            label that is not among them is an error.

        Returns
        -------
        self
        """
        with self._unchanged_if_it_fails():
            if classes is not None:
                self._announced = np.unique(classes)
            announced = self._announced
            if announced is not None:
                unknown = np.setdiff1d(self._known_labels(y), announced)
                if unknown.size:
                    msg = (
                        f"{type(self).__name__}: y has labels {unknown.tolist()} that are not in {announced.tolist()}."
                    )
                    raise DataError(msg)
            self._add(X, y, sample_weight)
            if announced is not None:
                self.statistic_ = self.statistic_.with_labels(announced)
        return self

    def _forget(self) -> None:
        super()._forget()
        self.__dict__.pop("_announced", None)
