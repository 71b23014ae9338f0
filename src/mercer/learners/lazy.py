"""Results row by row that are lazy for dask collections."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from mercer.engines import is_dask

__all__ = ["ROW_METHODS", "lazy_on_dask"]

# What gives one result a row.
ROW_METHODS = {"decision_function", "predict", "predict_log_proba", "predict_proba", "transform"}


def lazy_on_dask(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that takes dask collections too, and then returns dask arrays that are not computed yet."""

    @wraps(method)
    def of_rows(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_dask(X):
            return method(self, X, *args, **kwargs)
        from mercer.engines.dask_collections import lazy_rows

        return lazy_rows(partial(_on_rows, getattr(self, name), args, kwargs), X)

    return of_rows


def _on_rows(method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], X: Any) -> Any:
    return method(X, *args, **kwargs)
