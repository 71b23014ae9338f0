"""Rows and columns of tables of all kinds: arrays, sparse matrices, and data frames of pandas, polars and pyarrow."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

__all__ = ["column_names", "member_rows", "row_count", "shuffled_column", "take_rows"]

Array = np.ndarray


def row_count(X: Any) -> int:
    """Return the number of rows of a table or array."""
    return int(X.shape[0])


def column_names(X: Any) -> list[str]:
    """Return the names of the columns, or "column 0", "column 1" and so on for arrays."""
    names = getattr(X, "column_names", None)  # pyarrow
    if names is None:
        names = getattr(X, "columns", None)  # pandas and polars
    if names is None:
        return [f"column {j}" for j in range(X.shape[1])]
    return [str(name) for name in names]


def take_rows(X: Any, rows: Array) -> Any:
    """Return the rows of given indices, as a table of the same kind."""
    if _is_pandas(X):
        return X.iloc[rows]
    if _is_pyarrow(X):
        return X.take(rows)
    if sp.issparse(X):
        return X.tocsr()[rows]
    return X[rows]


def member_rows(model: Any, pipeline: Any, X: Any) -> Any:
    """Return rows as the last step of a pipeline of an automatic model takes them.

    Parameters
    ----------
    model : estimator
        The model, which may have a preprocessor that its pipelines do not contain.
    pipeline : Pipeline or None
        One of its members; None means the model itself.
    X : table or array
        Rows as the model takes them.
    """
    preprocessor = getattr(model, "preprocessor_", None)
    if pipeline is None:
        return X if preprocessor is None else preprocessor.transform(X)
    if preprocessor is not None and pipeline[0] is not preprocessor:
        X = preprocessor.transform(X)
    return pipeline[:-1].transform(X)


def shuffled_column(X: Any, column: int, order: Array) -> Any:
    """Return a table of the same kind with the rows of one column in another order; the others are not copied twice.

    Parameters
    ----------
    X : table or array
        The rows.
    column : int
        Index of the column.
    order : ndarray of shape (n,)
        Row i of the column is replaced by row order[i] of it.
    """
    if _is_pandas(X):
        copy = X.copy(deep=False)
        # Positions rather than names, which need not be unique; `take` retains the dtype, categories included.
        copy.isetitem(column, X.iloc[:, column].take(order).set_axis(X.index))
        return copy
    if _is_pyarrow(X):
        return X.set_column(column, X.schema.field(column), X.column(column).take(order))
    if hasattr(X, "with_columns"):  # polars
        name = X.columns[column]
        return X.with_columns(X[name][order].alias(name))
    if sp.issparse(X):
        columns = X.tocsc()
        parts = [columns[:, :column], columns[:, [column]].tocsr()[order].tocsc(), columns[:, column + 1 :]]
        return sp.hstack(parts, format="csr", dtype=X.dtype)
    copy = np.array(X)
    copy[:, column] = copy[order, column]
    return copy


def _is_pandas(X: Any) -> bool:
    return hasattr(X, "iloc")


def _is_pyarrow(X: Any) -> bool:
    return hasattr(X, "column_names") and hasattr(X, "schema")
