"""What every learner shares: rows in, sums over them by an engine, predictions out.

A concrete learner adds `_learn`, which asks the engine for sums as often as it needs; the bases below, for numbers, for
labels and for rows alone, validate targets. How rows become an engine stands in `reading`. Learners that need a single
sum have more in common: `one_pass`.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from os import PathLike
from typing import Any, Self

import numpy as np
from sklearn.base import (
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_array,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from mercer.data.row_methods import ROW_METHODS, lazy_on_dask
from mercer.data.row_results import is_source, predicted_and_targets, predicted_on_dask
from mercer.data.sources import RowReader, check_rows_are_numbers
from mercer.data.targets import (
    HasLabel,
    as_targets,
    check_mark,
    check_none_missing,
    check_numbers,
    has_label,
    known_labels,
    label_kind,
    no_targets,
    plain,
)
from mercer.engines import Checkpoint, Engine, FilteredEngine, Progress, fill_rows, is_dask, show_progress
from mercer.errors import DataError, ParameterError
from mercer.features import features_of, rows_to_features
from mercer.kernels import Kernel
from mercer.learners.checkpointing import journalled, seeded
from mercer.maps import BaseMap
from mercer.maps.base import FLOATS, check_features
from mercer.maps.registry import unfitted_map

__all__ = [
    "BaseLearner",
    "Classifier",
    "Clusterer",
    "Regressor",
    "Transformer",
    "Unsupervised",
    "available_if",
    "check_fitted",
    "warn_not_converged",
]


class BaseLearner(RowReader):
    """An estimator on the features of a map that knows its rows through sums over them only."""

    feature_map: BaseMap | Kernel | None
    random_state: Any
    progress: bool | Callable[[Progress], None]

    #: What stands for a target that is not known, or None where every row has one.
    unlabeled: Any = None

    feature_map_: BaseMap
    _seed: int | None = None  # what stands for no random_state, in a fit with a checkpoint

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in ROW_METHODS & vars(cls).keys():
            setattr(cls, name, lazy_on_dask(name, vars(cls)[name]))

    @property
    def rounding_(self) -> float:
        """By about what share rounding may change the result: from other blocks, say. Zero means the last digits."""
        return 0.0

    # ---- what a learner adds ------------------------------------------------------------------

    @abstractmethod
    def _validate(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, np.ndarray | None]:
        """Return validated rows and targets, or None for learners that have none."""

    @abstractmethod
    def _learn(self, engine: Engine) -> None:
        """Learn from the rows of an engine, with `feature_map_` fitted."""

    # ---- fitting ------------------------------------------------------------------------------

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
        X : array-like or CSR of shape (n, d), iterable of blocks, or dask collection
            Rows; or, without `y`, an iterable of tuples ``(X, y)`` or ``(X, y, weight)``, read block by block, such as
            `open_rows` makes of files. A map that learns from rows, such as one with ``lengthscale="median"``, needs an
            iterable that can be read twice. Or a dask array or dataframe, a list of delayed tuples, or files `on_dask`:
            worked on partition by partition, by the active ``distributed.Client`` if there is one.
        y : array-like of shape (n,) or (n, t)
            Targets; of a dask dataframe also the name of their column.
        sample_weight : array-like of shape (n,), default=None
            Weights >= 0; a weight of two equals the row repeated. Of a dask dataframe also the name of their column.
        checkpoint : path-like, Checkpoint or None, default=None
            A file in which the fit saves how far it has come, every half minute unless a `Checkpoint` says otherwise.
            If the fit is stopped, the same call goes on from there, and gives the same model to the bit. The file is
            removed when the fit has succeeded.

        Returns
        -------
        self
        """
        with self._unchanged_if_it_fails():
            self._forget()
            engine = self._engine(X, y, sample_weight)
            with journalled(self, engine, checkpoint):
                self._fit_map(engine)
                self._learn(self._labeled(engine))
        return self

    def _labeled(self, engine: Engine) -> Engine:
        """Return an engine over the rows whose targets are known: the map has seen the others, too."""
        if self.unlabeled is None:
            return engine
        nothing = (
            f"{type(self).__name__}: every target is unlabeled={self.unlabeled!r}, or there is no y: there is nothing "
            "to learn from. Give y of some rows."
        )
        return FilteredEngine(engine, HasLabel(self.unlabeled), nothing)

    def _forget(self) -> None:
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)

    def _checked(self, X: Any, y: Any, weight: Any, *, reset: bool) -> tuple[Any, np.ndarray | None, np.ndarray | None]:
        for name, values in (("X", X), ("y", y), ("sample_weight", weight)):
            if is_dask(values):
                msg = (
                    f"{type(self).__name__}: {name} is a dask collection, which fit takes only together with rows that "
                    "are one too, and partial_fit never. Try fit with all of them from dask, or compute() it first."
                )
                raise DataError(msg)
        check_rows_are_numbers(type(self).__name__, X)
        X, y = self._validate(X, y, reset=reset)
        if weight is not None:
            zeros = np.zeros(X.shape[0])
            # A block may have no weight at all; whether all of them have none, the solve will see.
            if not np.array_equal(np.asarray(weight), zeros):
                zeros = _check_sample_weight(weight, X, dtype=np.float64, ensure_non_negative=True)
            weight = zeros
        return X, y, weight

    def _prototype(self) -> BaseMap:
        """Return an unfitted map for the `feature_map` parameter."""
        feature_map = unfitted_map(type(self).__name__, self.feature_map, self.random_state)
        return feature_map if self._seed is None else seeded(feature_map, self._seed)

    def _fit_map(self, engine: Engine) -> None:
        self._take_map(self._prototype().fit_engine(engine))
        if engine.journal is not None:
            engine.journal.witness("the drawn map", partial(rows_to_features, self.feature_map_.features_))

    def _grow_map(self, engine: Engine) -> np.ndarray | None:
        """Add rows to the map, and return T such that Z_new = Z_old @ T, or None if the features have not changed."""
        self.feature_map_, change = self.feature_map_.grown(engine)
        return change

    def _take_map(self, feature_map: BaseMap) -> None:
        """Learn on the features of a fitted map."""
        check_features(type(self).__name__, feature_map)
        if hasattr(self, "feature_names_in_"):
            feature_map.feature_names_in_ = self.feature_names_in_
        self.feature_map_ = feature_map

    def _report(self) -> Callable[[Progress], None] | None:
        """Return who wants to know of the progress."""
        report = show_progress if self.progress is True else self.progress or None
        if report is not None and not callable(report):
            msg = f"{type(self).__name__}: progress must be True, False or a callable, got {report!r}."
            raise ParameterError(msg)
        return report

    # ---- predicting ---------------------------------------------------------------------------

    def _linear(self, X: Any, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
        """Return features @ coef + intercept of all rows, without ever holding all features."""
        return self._linear_of(validate_data(self, X, accept_sparse="csr", dtype=FLOATS, reset=False), coef, intercept)

    def _linear_of(self, X: Any, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
        """Return the same of validated rows."""
        features = self.feature_map_.features_.astype(X.dtype)
        # In float64 whatever the rows are: coefficients may be large and cancel, an intercept larger than what varies.
        out = np.empty((X.shape[0], coef.shape[1]))

        def predict_rows(rows: Any, target: np.ndarray) -> None:
            np.add(features_of(features, rows) @ coef, intercept, out=target)

        fill_rows(predict_rows, X, out, n_jobs=self.n_jobs, width=features.n_components)
        return out

    def _on_known(self, X: Any, y: Any, weight: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Return targets, predictions and weights of rows whose target is known."""
        if is_source(X):
            if y is not None or weight is not None:
                msg = f"{type(self).__name__}: files carry their own targets and weights: name them in open_rows."
                raise DataError(msg)
            predicted, y, weight = predicted_and_targets(self, X)
        elif is_dask(X):
            predicted, y, weight = predicted_on_dask(self, X, y, weight)
        elif y is None:
            msg = f"{type(self).__name__}: score needs targets, y, or files opened with open_rows(..., target=...)."
            raise DataError(msg)
        else:
            predicted = np.asarray(self.predict(X))
            check_consistent_length(predicted, y)
        if self.unlabeled is None:
            check_none_missing(self, y)
            return y, predicted, weight
        y = as_targets(y)
        y = column_or_1d(y) if np.ndim(y) == 1 else np.asarray(y)
        check_mark(type(self).__name__, y, self.unlabeled, getattr(self, "_label_kind", None))
        known = has_label(y, self.unlabeled)
        if not known.any():
            msg = f"{type(self).__name__}: every target is unlabeled={self.unlabeled!r}: there is nothing to score."
            raise DataError(msg)
        return plain(y[known]), predicted[known], None if weight is None else np.asarray(weight)[known]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        choice = self.feature_map
        if isinstance(choice, Kernel):
            tags.input_tags.positive_only = choice.positive_only
        elif isinstance(choice, BaseMap):
            tags.input_tags.positive_only = get_tags(choice).input_tags.positive_only
        return tags


class Regressor(RegressorMixin, BaseLearner):
    """A learner of numbers: one column of targets or several."""

    #: Of the targets of one row: () for a single column, (t,) for several, None as long as no row came with any.
    _target_shape: tuple[int, ...] | None

    def _validate(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, np.ndarray]:
        if y is None:
            return self._validate_none(X, reset=reset)
        check_numbers(type(self).__name__, y)
        if self.unlabeled is None:
            check_none_missing(self, y)
            X, y = validate_data(
                self, X, y, accept_sparse="csr", dtype=FLOATS, multi_output=True, y_numeric=True, reset=reset
            )
        else:
            X, y = self._validate_some(X, y, reset=reset)
        if reset or self._target_shape is None:
            self._target_shape = y.shape[1:]
        elif y.shape[1:] != self._target_shape:
            needed = ", ".join(["n", *map(str, self._target_shape)])
            msg = f"y must keep its shape from block to block: needed ({needed}), got {y.shape}."
            raise DataError(msg)
        return X, np.asarray(y, dtype=np.float64).reshape(len(y), -1)

    def _validate_none(self, X: Any, *, reset: bool) -> tuple[Any, np.ndarray]:
        """Return validated rows that came without targets, and marks in their place."""
        no_targets(self, 0)
        X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, reset=reset)
        check_mark(type(self).__name__, np.zeros(0), self.unlabeled)
        if reset:
            self._target_shape = None
        return X, no_targets(self, (X.shape[0], *(self._target_shape or (1,)))).astype(np.float64)

    def _validate_some(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, np.ndarray]:
        """Return validated rows and targets, some of which are not known: then no column of them is."""
        X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, reset=reset)
        y = check_array(y, dtype=np.float64, ensure_2d=False, ensure_all_finite=False, input_name="y")
        check_consistent_length(X, y)
        check_mark(type(self).__name__, y, self.unlabeled)
        known = has_label(y, self.unlabeled)
        if not np.isfinite(y[known]).all():
            msg = (
                f"{type(self).__name__}: targets must be finite, or unlabeled={self.unlabeled!r} in all columns of a "
                "row; got NaN or infinity in a row that is neither. Check y, or drop these rows."
            )
            raise DataError(msg)
        return X, y

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return R^2 of the predictions, on rows whose target is known.

        Parameters
        ----------
        X, y, sample_weight
            As arrays or dask collections in `fit`; or files as `open_rows` opens them, with their targets, read block
            by block, or by the workers of dask.

        Returns
        -------
        float
        """
        from sklearn.metrics import r2_score

        truth, predicted, weight = self._on_known(X, y, sample_weight)
        return r2_score(truth, predicted, sample_weight=weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class Classifier(ClassifierMixin, BaseLearner):
    """A learner of labels."""

    _label_kind: str | None  # what labels are made of: numbers, texts, ...; None as long as none is known

    def _validate(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, np.ndarray]:
        if y is None:
            no_targets(self, 0)
            X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, reset=reset)
            y = no_targets(self, X.shape[0])
            check_mark(type(self).__name__, np.zeros(0, y.dtype), self.unlabeled)
        elif self.unlabeled is None:
            check_none_missing(self, y)
            if isinstance(y, np.ndarray) and y.dtype.kind == "O" and y.ndim == 1:
                y = known_labels(self, y)
            X, y = validate_data(self, X, y, accept_sparse="csr", dtype=FLOATS, reset=reset)
            check_classification_targets(y)
            y = column_or_1d(y, warn=True)
        else:
            X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, reset=reset)
            y = column_or_1d(as_targets(y), warn=True)
            check_consistent_length(X, y)
            check_mark(type(self).__name__, y, self.unlabeled, None if reset else self._label_kind)
            known = known_labels(self, y)
            if len(known):
                check_classification_targets(known)
        kind = label_kind(y, self.unlabeled)
        if reset or self._label_kind is None:
            self._label_kind = kind
        elif kind not in (self._label_kind, None):
            msg = f"y must keep its kind from block to block: needed {self._label_kind}, got {kind}."
            raise DataError(msg)
        return X, y

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the share of labels that are predicted, of rows whose label is known.

        Parameters
        ----------
        X, y, sample_weight
            As arrays or dask collections in `fit`; or files as `open_rows` opens them, with their targets, read block
            by block, or by the workers of dask.

        Returns
        -------
        float
        """
        from sklearn.metrics import accuracy_score

        truth, predicted, weight = self._on_known(X, y, sample_weight)
        return accuracy_score(truth, predicted, sample_weight=weight)

    def _known_labels(self, y: Any) -> np.ndarray:
        y = np.asarray(as_targets(y))
        return plain(y if self.unlabeled is None else y[has_label(y, self.unlabeled)])


class Unsupervised(BaseLearner):
    """A learner of rows alone: targets may be passed, as pipelines do, and do not matter."""

    def _validate(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, None]:  # noqa: ARG002, pipelines pass targets
        return validate_data(self, X, accept_sparse="csr", dtype=FLOATS, reset=reset), None


class Transformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Unsupervised):
    """A learner that turns rows into other rows."""

    def _check_rows(self, X: Any) -> Any:
        """Return rows like those of `fit`, validated."""
        check_is_fitted(self)
        return validate_data(self, X, accept_sparse="csr", dtype=FLOATS, reset=False)

    def _check_scores(self, X: Any, width: int) -> np.ndarray:
        """Return rows like those that `transform` returns, validated."""
        X = check_array(X, dtype=FLOATS)
        if X.shape[1] != width:
            msg = f"{type(self).__name__}: inverse_transform needs rows of {width} columns, got {X.shape[1]}."
            raise DataError(msg)
        return X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class Clusterer(ClusterMixin, Transformer):
    """A learner of groups of rows: `predict` tells the group of a row, `transform` its distances to all of them."""


def check_fitted(learner: BaseLearner) -> None:
    """Raise NotFittedError unless the learner has seen rows."""
    check_is_fitted(learner)


def warn_not_converged(message: str) -> None:
    """Warn that a search ended before its end, in the class that users of scikit-learn know."""
    warnings.warn(message, ConvergenceWarning, stacklevel=2)
