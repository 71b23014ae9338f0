"""Predictions and scores of fitted models for rows in arrays, files and Dask collections."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import wraps
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, column_or_1d

from mercer._docs import doc
from mercer.data.sources import (
    DaskRows,
    FileRows,
    Reader,
    check_feature_names,
    source_of,
    without_callbacks,
    without_names,
)
from mercer.data.targets import (
    Coding,
    as_targets,
    check_lengths,
    check_no_missing_targets,
    check_unlabeled_value,
    has_target,
    plain_labels,
    without_nullable_dtype,
)
from mercer.engines import Block
from mercer.errors import DataError

__all__ = ["predictions_and_targets", "rowwise"]

# Number of components that is assumed for a model without a single feature map, for the size of blocks.
WIDTH = 1024


def rowwise(method: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a method that returns one result per row so that it also accepts files and Dask collections.

    For files, as returned by `mercer.open_rows`, the result is an array. For a Dask collection it is a Dask array that
    is not computed yet. Shared paragraphs of the docstring are inserted, as by `mercer._docs.doc`.
    """

    @wraps(doc(method))
    def on_any_rows(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        check_is_fitted(self)
        source = source_of(X, owner=type(self).__name__)
        return source.row_results(self, method.__name__, Call(method.__name__, args, kwargs))

    on_any_rows.on_arrays = method  # type: ignore[attr-defined]
    return on_any_rows


@dataclass(frozen=True)
class Call:
    """Picklable function that calls a given method of a model on rows in memory, with fixed further arguments."""

    method: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __call__(self, model: Any, X: Any) -> Any:
        return getattr(type(model), self.method).on_arrays(model, X, *self.args, **self.kwargs)


def predictions_and_targets(
    model: Any, coding: Coding, X: Any, y: Any, sample_weight: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return targets, predictions and weights for the rows whose target is known, from which a score is computed.

    Parameters
    ----------
    model : BaseEstimator
        A fitted model with `predict`.
    coding : Coding
        The coding of the targets of the model.
    X, y, sample_weight
        Rows, targets and weights as in `fit`, except that iterables of blocks are not supported.

    Returns
    -------
    y, predicted : ndarray of shape (n,) or (n, t)
    weight : ndarray of shape (n,) or None
    """
    owner = type(model).__name__
    source = source_of(X, y, sample_weight, owner=owner)
    if isinstance(source, FileRows):
        predicted, y, weight = _of_files(model, source)
    elif isinstance(source, DaskRows):
        predicted, y, weight = _on_dask(model, coding, source)
    elif y is None:
        msg = f"{owner}: score needs targets, y, or files opened with open_rows(..., target=...)."
        raise DataError(msg)
    else:
        predicted, weight = np.asarray(model.predict(X)), sample_weight
        check_lengths(owner, predicted, y)
    if coding.unlabeled is None:
        check_no_missing_targets(model, y)
        return without_nullable_dtype(y), predicted, weight
    y = as_targets(y)
    y = column_or_1d(y) if np.ndim(y) == 1 else np.asarray(y)
    check_unlabeled_value(owner, y, coding.unlabeled, getattr(coding, "kind", None))
    known = has_target(y, coding.unlabeled)
    if not known.any():
        msg = f"{owner}: every target is unlabeled={coding.unlabeled!r}: there is nothing to score."
        raise DataError(msg)
    return plain_labels(y[known]), predicted[known], None if weight is None else np.asarray(weight)[known]


def _of_files(model: Any, source: FileRows) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Read all rows of files in one pass, and return their predictions, targets and weights."""

    def of_block(twin: Any, X: Any, y: Any, weight: Any) -> tuple[Any, ...]:
        if y is None:
            msg = f"{type(twin).__name__}: score needs targets: name their column, open_rows(..., target=...)."
            raise DataError(msg)
        return twin.predict(X), y, weight

    predicted, y, weights = zip(*source.on_blocks(model, of_block), strict=True)
    return np.concatenate(predicted), np.concatenate(y), None if weights[0] is None else np.concatenate(weights)


def _on_dask(model: Any, coding: Coding, source: DaskRows) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Compute a Dask collection in one pass, and return predictions, targets and weights of all its rows."""
    reading = copy(model)  # the reader sets names and number of features on this copy, so the model is not changed
    feature_map = getattr(model, "feature_map_", None)  # automatic models have several
    reader = Reader(reading, coding, width=WIDTH if feature_map is None else feature_map.features_.n_components)
    engine = source.engine(reader)
    check_feature_names(model, getattr(reading, "feature_names_in_", None))
    worker = without_callbacks(without_names(model))
    vars(worker).update(progress=False, n_jobs=1)  # a task has one thread and reports no progress
    parts = sorted(engine.sum(PredictedRows(worker)).parts, key=lambda part: part[0])
    _, predicted, truth, weights = zip(*parts, strict=True)
    return np.concatenate(predicted), np.concatenate(truth), None if weights[0] is None else np.concatenate(weights)


@dataclass(frozen=True, eq=False)
class Predicted:
    """Predictions, targets and weights of some blocks of rows, as a statistic: ``+`` joins the lists of blocks."""

    #: For each block: index of its first row, predictions, targets, weights.
    parts: tuple[tuple[int, np.ndarray, np.ndarray, np.ndarray | None], ...]

    def __add__(self, other: Predicted) -> Predicted:
        return Predicted(self.parts + other.parts)


@dataclass(frozen=True, eq=False)
class PredictedRows:
    """Function of a block of rows that returns `Predicted`, with the predictions of `model`."""

    model: Any

    def __call__(self, block: Block) -> Predicted:
        """Return predictions, targets and weights of a block of rows."""
        return Predicted(((block.start, np.asarray(self.model.predict(block.X)), block.y, block.weight),))
