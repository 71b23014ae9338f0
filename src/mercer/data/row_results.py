"""Results row by row of rows in files and on dask: block by block, so that all that is ever whole is the result."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from mercer.data.sources import check_names, nameless
from mercer.engines import Block
from mercer.engines.dask.partitions import same_for_one_row
from mercer.errors import DataError
from mercer.io.formats.arrow import BatchStream
from mercer.io.source import RowSource

__all__ = ["in_memory", "is_source", "on_blocks", "predicted_and_targets", "predicted_on_dask", "results_of"]

T = TypeVar("T")


def is_source(X: Any) -> bool:
    """Return whether `X` is what `mercer.open_rows` returns."""
    return isinstance(X, RowSource | BatchStream)


def on_blocks(learner: Any, source: Any, function: Callable[..., T]) -> list[T]:
    """Return ``function(learner, X, y, weight)`` of every block of a source that has rows.

    Parameters
    ----------
    learner : BaseLearner
        A fitted one; the function gets a copy of it that asks for no names of columns, which are compared here.
    source : RowSource or BatchStream
        Rows like those of the fit.
    function : callable
        What is wanted of a block; `y` and `weight` are None where the source has none.
    """
    from mercer.learners.base import check_fitted

    check_fitted(learner)
    check_names(learner, source.feature_names)
    if source.feature_names is not None:
        learner = nameless(learner)
    results: list[T] = []
    for part in source.parts() if isinstance(source, RowSource) else (source,):
        for X, *more in part:
            y, weight = (*more, None, None)[:2]
            if not X.shape[0]:
                continue
            try:
                results.append(function(learner, X, y, weight))
            except (TypeError, ValueError) as error:
                msg = f"{part}: {error}"
                raise DataError(msg) from error
    if not results:
        msg = "There are no rows in these files."
        raise DataError(msg)
    return results


def results_of(learner: Any, source: Any, call: Callable[[Any, Any], Any]) -> Any:
    """Return the array, or the tuple of arrays, of ``call(learner, X)`` of all rows of a source."""
    checked = False

    def of_block(twin: Any, X: Any, *_: Any) -> Any:
        nonlocal checked
        if not checked:
            same_for_one_row("files", call(twin, X[:2]), call(twin, X[:1]))
            checked = True
        return call(twin, X)

    results = on_blocks(learner, source, of_block)
    if isinstance(results[0], tuple):
        return tuple(np.concatenate(parts) for parts in zip(*results, strict=True))
    return np.concatenate(results)


def predicted_and_targets(learner: Any, source: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return predictions, targets and weights of all rows of a source, in one reading."""

    def of_block(twin: Any, X: Any, y: Any, weight: Any) -> tuple[Any, ...]:
        if y is None:
            msg = f"{type(twin).__name__}: score needs targets: name their column, open_rows(..., target=...)."
            raise DataError(msg)
        return twin.predict(X), y, weight

    predicted, y, weights = zip(*on_blocks(learner, source, of_block), strict=True)
    return np.concatenate(predicted), np.concatenate(y), None if weights[0] is None else np.concatenate(weights)


def predicted_on_dask(learner: Any, X: Any, y: Any, weight: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return predictions, targets and weights of all rows of a dask collection, as `fit` would take it."""
    from mercer.learners.base import check_fitted

    check_fitted(learner)
    reader = copy(learner)  # what its first block settles is no matter of the model
    engine = reader._dask(X, y, weight)
    check_names(learner, getattr(reader, "feature_names_in_", None))
    model = nameless(learner)
    vars(model).update(progress=False, n_jobs=1)  # workers have a thread each, and nobody to report to
    parts = sorted(engine.sum(PredictedRows(model)).parts, key=lambda part: part[0])
    _, predicted, truth, weights = zip(*parts, strict=True)
    return np.concatenate(predicted), np.concatenate(truth), None if weights[0] is None else np.concatenate(weights)


@dataclass(frozen=True, eq=False)
class Predicted:
    """First row, predictions, targets and weights of some blocks: a statistic like any other."""

    parts: tuple[tuple[int, np.ndarray, np.ndarray, np.ndarray | None], ...]

    def __add__(self, other: Predicted) -> Predicted:
        return Predicted(self.parts + other.parts)


@dataclass(frozen=True, eq=False)
class PredictedRows:
    """The term of one block."""

    model: Any

    def __call__(self, block: Block) -> Predicted:
        """Return its predictions, beside its targets and weights."""
        return Predicted(((block.start, np.asarray(self.model.predict(block.X)), block.y, block.weight),))


def in_memory(source: Any) -> Any:
    """Return the rows of all files, in one array or CSR matrix, without targets and weights."""
    blocks = [X for X, *_ in source]
    if not blocks:
        msg = "There are no rows in these files."
        raise DataError(msg)
    return sp.vstack(blocks, format="csr") if any(map(sp.issparse, blocks)) else np.concatenate(blocks)
