"""Tables with columns of any type for models of numbers.

A model that is fitted to a table has a `TablePreprocessor`. Its methods call those of its numeric model, a copy without
the preprocessor, with the columns of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from functools import wraps
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.data.sources import is_dask
from mercer.errors import DataError
from mercer.io.formats.columns import listed
from mercer.io.source import RowSource
from mercer.io.tables.source import TableSource
from mercer.tables import TablePreprocessor

__all__ = ["explained", "named_importances", "numeric_model", "numeric_rows", "on_tables", "preprocessed"]


def preprocessed(X: Any, y: Any, sample_weight: Any, owner: str) -> tuple[TablePreprocessor | None, Any, Any]:
    """Fit a preprocessor if rows are a table; return it, or None, with rows of numbers and targets.

    A data frame is always a table, since its columns have names: those of later tables may be in another order. An
    array is a table if it is of numbers and some are NaN.

    Parameters
    ----------
    X, y, sample_weight
        Rows, targets and weights of a fit.
    owner : str
        Name of the model, for messages.
    """
    if not _is_table(X):
        return None, X, y
    preprocessor = TablePreprocessor(scale=None)
    preprocessor.fit(X, y if isinstance(y, str) else None, sample_weight)
    if not preprocessor._n_features_out:
        if hasattr(X, "shape") and all(kind == "number" for kind in preprocessor.schema_.values()):
            return None, X, y  # a model of constant numbers is a constant
        why = "; ".join(f"{one.name!r} {one.note}" for one in preprocessor.columns_[:5])
        msg = f"{owner}: no column of the table is left to learn from: {why}."
        raise DataError(msg)
    if is_dask(X) and isinstance(y, str):
        y = X[y]
    return preprocessor, numeric_rows(preprocessor, X), y


def _is_table(X: Any) -> bool:
    """Return whether rows are a table with columns of any type, without reading a source."""
    if isinstance(getattr(X, "source", X), TableSource) or _is_frame(X):
        return True
    if isinstance(X, list | tuple) and X:
        first = X[0][0] if isinstance(X[0], tuple | list) and len(X[0]) else X[0]
        if _is_frame(first):
            return True
        if isinstance(first, int | float | np.number):
            X = np.asarray(X)
    if isinstance(X, np.ndarray) and X.dtype.kind == "f" and X.ndim == 2:
        # An infinite number in an array is an error of its author, which is reported later.
        total = X.sum() if X.size else 0.0
        return bool(np.isnan(total) and np.isnan(X).any() and not np.isinf(X).any())
    return False


def _is_frame(X: Any) -> bool:
    """Return whether an object is a data frame of pandas, polars, pyarrow or Dask."""
    if sp.issparse(X) or isinstance(X, np.ndarray):
        return False
    return (hasattr(X, "columns") and hasattr(X, "shape") and hasattr(X, "dtypes")) or hasattr(X, "to_batches")


def numeric_rows(preprocessor: TablePreprocessor, X: Any) -> Any:
    """Return the columns of numbers of a table or of a source of tables; those of a source are computed when read."""
    source = getattr(X, "source", X)
    if isinstance(source, RowSource):
        rows = preprocessor.rows(source)
        if source is X:
            return rows
        from mercer.engines.dask.collections import file_partitions

        return file_partitions(rows)
    if isinstance(X, list | tuple) and X and _is_frame(X[0][0] if isinstance(X[0], tuple | list) else X[0]):
        return EncodedBlocks(preprocessor, X)
    return preprocessor.transform(X)


class EncodedBlocks:
    """Blocks of tables as blocks of numbers, which are computed each time they are read."""

    def __init__(self, preprocessor: TablePreprocessor, blocks: Iterable[Any]) -> None:
        self.preprocessor = preprocessor
        self.blocks = blocks

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for block in self.blocks:
            X, *rest = block if isinstance(block, tuple | list) else (block,)
            yield self.preprocessor.transform(X), *rest


def numeric_model(model: Any) -> Any:
    """Return a copy of a fitted model that takes the columns of numbers of its preprocessor."""
    twin = copy(model)
    twin.n_features_in_ = model.preprocessor_._n_features_out
    twin.preprocessor_ = None
    vars(twin).pop("feature_names_in_", None)
    return twin


def on_tables(method: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a method of a fitted model so that it takes tables, if the model has a preprocessor."""

    @wraps(method)
    def on_any_table(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(self, "preprocessor_", None) is None:
            return method(self, X, *args, **kwargs)
        y = args[0] if args else kwargs.get("y")
        if is_dask(X) and isinstance(y, str):
            args, kwargs = ((X[y], *args[1:]), kwargs) if args else (args, {**kwargs, "y": X[y]})
        return method(numeric_model(self), numeric_rows(self.preprocessor_, X), *args, **kwargs)

    return on_any_table


def named_importances(preprocessor: TablePreprocessor, importances: np.ndarray) -> np.ndarray:
    """Return the importances of the columns of a table: the sums over their columns of numbers."""
    return np.bincount(preprocessor.output_columns_, importances, minlength=preprocessor.n_features_in_)


def explained(preprocessor: TablePreprocessor) -> str:
    """Return a line about the columns of a table, for explanations of a model."""
    kinds: dict[str, int] = {}
    for one in preprocessor.columns_:
        if one.outputs:
            kinds[one.kind] = kinds.get(one.kind, 0) + 1
    used = ", ".join(f"{count} of kind {kind}" for kind, count in kinds.items())
    left_out = [one.name for one in preprocessor.columns_ if not one.outputs]
    without = f"; left out: {listed(left_out, 5)}" if left_out else ""
    return f"Table: {used}, as {preprocessor._n_features_out} columns of numbers{without}."
