"""Rows as `fit` takes them, whatever they are, and the engine that reads them checked and block by block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.data.targets import is_number
from mercer.engines import Engine, MemoryEngine, StreamEngine, block_rows_for, is_dask
from mercer.errors import DataError, ParameterError
from mercer.maps import BaseMap
from mercer.maps.base import Estimator, fresh_copy

__all__ = ["RowReader", "check_rows_are_numbers", "is_blocks"]

# What the first rows of a fit decide for all later ones.
SETTLED = ("n_features_in_", "feature_names_in_", "_target_shape", "_label_kind")


class RowReader(Estimator, ABC):
    """An estimator that reads arrays, blocks and dask collections through engines."""

    block_size: int | None
    n_jobs: int | None

    @abstractmethod
    def _checked(self, X: Any, y: Any, weight: Any, *, reset: bool) -> tuple[Any, np.ndarray | None, np.ndarray | None]:
        """Return validated rows, targets and weights of a block, the first of all if `reset`."""

    @abstractmethod
    def _prototype(self) -> BaseMap:
        """Return an unfitted map, whose width decides how many rows make a block."""

    def _engine(self, X: Any, y: Any, sample_weight: Any) -> Engine:
        """Return an engine over rows as `fit` takes them, checked."""
        if is_dask(X):
            return self._dask(X, y, sample_weight)
        if y is not None or not is_blocks(X):
            X, y, weight = self._checked(X, y, sample_weight, reset=True)
            if weight is not None and not weight.any():
                msg = (
                    f"{type(self).__name__}: sample weights must contain at least one non-zero number, got zeros only."
                )
                raise DataError(msg)
            return self._memory(X, y, weight)
        if sample_weight is not None:
            msg = f"{type(self).__name__}: blocks carry their own weights: pass tuples (X, y, weight)."
            raise DataError(msg)
        return self._stream(X)

    def _memory(self, X: Any, y: np.ndarray | None, weight: np.ndarray | None, start: int = 0) -> MemoryEngine:
        return MemoryEngine(X, y, weight, block_rows=self._block_rows(X), n_jobs=self.n_jobs, start=start)

    def _stream(self, blocks: Iterable[Any]) -> StreamEngine:
        names = getattr(blocks, "feature_names", None)
        check_names(self, names)

        def check(X: Any, y: Any = None, weight: Any = None) -> tuple[Any, Any, Any]:
            if not hasattr(X, "shape"):
                X = np.asarray(X)
            if len(X.shape) and X.shape[0] == 0:
                return X, y, weight
            if hasattr(self, "n_features_in_"):
                return (self if names is None else nameless(self))._checked(X, y, weight, reset=False)
            checked = self._checked(X, y, weight, reset=True)
            self._take_names(names)
            return checked

        return StreamEngine(blocks, check, block_rows=self._block_rows, n_jobs=self.n_jobs)

    def _dask(self, X: Any, y: Any, weight: Any) -> Engine:
        from mercer.engines.dask.collections import partitions_of
        from mercer.engines.dask.engine import DaskEngine

        partitions = partitions_of(X, y, weight)
        head = self._checked(*partitions.head, reset=True)
        if getattr(self, "_target_shape", ()) is None:
            msg = f"{type(self).__name__}: the first partition must have targets, if only of some rows, got None."
            raise DataError(msg)
        width = max(self._prototype().width, head[0].shape[1])
        later_check = self._later_check()
        self._take_names(getattr(partitions.source, "feature_names", None))
        return DaskEngine(
            partitions,
            later_check,
            block_rows=self._block_rows(head[0]),
            row_bytes=sum(bytes_of(part) for part in head) / head[0].shape[0],
            feature_bytes=width * head[0].dtype.itemsize,
        )

    def _take_names(self, names: Sequence[str] | None) -> None:
        """Keep the names of the columns of a source, whose blocks have none, as those of a frame are kept."""
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)

    def _later_check(self) -> Callable[..., tuple[Any, np.ndarray | None, np.ndarray | None]]:
        """Return a check of later blocks that can travel: it knows what the first settled, and nothing learned."""
        checker = fresh_copy(self, progress=False)
        checker.__dict__.update({name: self.__dict__[name] for name in SETTLED if name in self.__dict__})
        return checker._check_later

    def _check_later(self, X: Any, y: Any = None, weight: Any = None) -> Any:
        return self._checked(X, y, weight, reset=False)

    def _block_rows(self, X: Any) -> int:
        """Return how many of these rows to work on at a time."""
        size = self.block_size
        if size is None:
            return block_rows_for(max(self._prototype().width, X.shape[1]), X.dtype.itemsize)
        if not isinstance(size, Integral) or isinstance(size, bool) or size < 1:
            msg = f"{type(self).__name__}: block_size must be None or an integer >= 1, got {size!r}."
            raise ParameterError(msg)
        return int(size)


def check_rows_are_numbers(owner: str, X: Any) -> None:
    """Raise if rows are texts, such as documents."""
    if isinstance(X, np.ndarray) and X.dtype.kind in "US" and X.size and not is_number(X.flat[0]):
        msg = (
            f"{owner}: rows must be numbers, got texts such as {str(X.flat[0])!r}. Turn them into numbers first, block "
            "by block for instance with scikit-learn's HashingVectorizer or a fitted OneHotEncoder."
        )
        raise DataError(msg)


def check_names(learner: Any, names: Sequence[str] | None) -> None:
    """Raise if a source has other columns than those of the fit, or the same in another order."""
    fitted = getattr(learner, "feature_names_in_", None)
    if fitted is None or names is None or list(fitted) == list(names):
        return
    missing = [name for name in fitted if name not in names]
    other = [name for name in names if name not in fitted]
    what = f"lacks {missing[:3]}" if missing else f"has {other[:3]}, too" if other else "has them in another order"
    msg = (
        f"{type(learner).__name__}: the columns must be those of the fit, {list(fitted[:12])}"
        f"{'' if len(fitted) <= 12 else ' and so on'}, in that order; the source {what}. Open it with columns=."
    )
    raise DataError(msg)


def nameless(estimator: Any) -> Any:
    """Return a shallow copy that does not ask for the names of columns: whoever calls it has compared them."""
    twin = copy(estimator)
    vars(twin).pop("feature_names_in_", None)
    if "feature_map_" in vars(twin):
        twin.feature_map_ = nameless(twin.feature_map_)
    return twin


def bytes_of(part: Any) -> int:
    """Return the size of an array, dense or CSR; None has none."""
    if part is None:
        return 0
    return sum(a.nbytes for a in (part.data, part.indices, part.indptr)) if sp.issparse(part) else int(part.nbytes)


def is_table(rows: Any) -> bool:
    """Return whether rows are lists in a list."""
    return isinstance(rows, list | tuple) and len(rows) > 0 and isinstance(rows[0], list | tuple)


def is_blocks(X: Any) -> bool:
    """Return whether `X` is an iterable of blocks rather than an array or table of rows."""
    if sp.issparse(X) or hasattr(X, "shape") or hasattr(X, "__array__") or hasattr(X, "__dataframe__"):
        return False
    if isinstance(X, list | tuple):
        first = X[0] if X else None
        if isinstance(first, tuple | list):
            return len(first) > 0 and (len(getattr(first[0], "shape", ())) == 2 or is_table(first[0]))
        return len(getattr(first, "shape", ())) == 2  # rows only
    return isinstance(X, Iterable) and not isinstance(X, str | bytes | dict)
