"""Results row by row: at once for arrays, block by block for files, lazy for dask collections."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from mercer.data.row_results import is_source, results_of
from mercer.data.sources import check_names, is_blocks, nameless
from mercer.engines import is_dask
from mercer.errors import DataError

__all__ = ["ROW_METHODS", "lazy_on_dask"]

# What gives one result a row.
ROW_METHODS = {"decision_function", "predict", "predict_log_proba", "predict_proba", "transform"}


def lazy_on_dask(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that takes more than arrays.

    Of files that `mercer.open_rows` has opened the result is an array, as it is of arrays; of dask collections it is a
    dask array that is not computed yet.
    """

    @wraps(method)
    def of_rows(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        if is_source(X):
            return results_of(self, X, lambda twin, rows: method(twin, rows, *args, **kwargs))
        if is_dask(X):
            from mercer.engines.dask.collections import lazy_rows

            return lazy_rows(partial(_on_rows, getattr(_for_files(self, X), name), args, kwargs), X)
        if is_blocks(X):
            msg = (
                f"{type(self).__name__}: {name} takes rows, or files as mercer.open_rows opens them, got "
                f"{type(X).__name__}. Of an iterable of blocks, call it for each: "
                f"np.concatenate([model.{name}(X) for X, *_ in blocks])."
            )
            raise DataError(msg)
        return method(self, X, *args, **kwargs)

    return of_rows


def _for_files(model: Any, X: Any) -> Any:
    """Return the model for files on dask, whose blocks have no names: they are compared here."""
    names = getattr(getattr(X, "source", None), "feature_names", None)
    if names is None:
        return model
    check_names(model, names)
    return nameless(model)


def _on_rows(method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], X: Any) -> Any:
    return method(X, *args, **kwargs)
