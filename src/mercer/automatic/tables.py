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

# Number of entries of an array that are searched for NaN at a time.
PART_ENTRIES = 2**22


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
    if not _is_table(X, owner):
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


def _is_table(X: Any, owner: str) -> bool:
    """Return whether rows are a table with columns of any type, without reading a source."""
    if isinstance(getattr(X, "source", X), TableSource) or _is_frame(X):
        return True
    if isinstance(X, list | tuple) and X and _is_frame(X[0][0] if _is_block(X[0]) else X[0]):
        return True
    array = _numbers(X)
    if array is None or not _any(np.isnan, array):
        return False
    if _any(np.isinf, array):
        msg = (
            f"{owner}: X contains NaN, which is a missing number, but also infinity, which is not. Replace infinite "
            "numbers by NaN if they are missing, too, or by finite ones."
        )
        raise DataError(msg)
    return True


def _is_block(one: Any) -> bool:
    return isinstance(one, tuple | list) and len(one) > 0


def _numbers(X: Any) -> np.ndarray | None:
    """Return rows of floats in memory as an array, and None for other rows."""
    if isinstance(X, list | tuple) and X and _is_block(X[0]) and isinstance(X[0][0], int | float | np.number):
        try:
            X = np.asarray(X, dtype=np.float64)
        except (TypeError, ValueError):  # not numbers only: reported when rows are validated
            return None
    return X if isinstance(X, np.ndarray) and X.dtype.kind == "f" and X.ndim == 2 else None


def _any(test: Callable[[np.ndarray], np.ndarray], array: np.ndarray) -> bool:
    """Return whether a test is true for an entry; the array may be a large file, so it is read in parts."""
    step = max(1, PART_ENTRIES // max(1, array.shape[1]))
    return any(bool(test(array[i : i + step]).any()) for i in range(0, len(array), step))


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
        rows.feature_names = None  # those of the model are those of the table
        if source is X:
            return rows
        from mercer.engines.dask.collections import file_partitions

        return file_partitions(rows)
    if isinstance(X, list | tuple) and X and _is_frame(X[0][0] if _is_block(X[0]) else X[0]):
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
            if hasattr(self, "preprocessor_") and (array := _numbers(X)) is not None and _any(np.isnan, array):
                msg = (
                    f"{type(self).__name__}: X contains NaN, but the fit had no missing numbers, so it knows "
                    "nothing to fill them with. Fit to a data frame, or to rows some of which have NaN."
                )
                raise DataError(msg)
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
