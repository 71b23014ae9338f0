"""Sources of rows: arrays, iterables of blocks, files, Dask collections.

This is the only module that inspects the type of `X`. `source_of` returns the rows as a `Source`, whose methods create
an engine over the rows for a fit, apply a function to all rows for a prediction, or read all rows into memory. `Reader`
validates the blocks of a fit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from os import PathLike
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import _check_sample_weight

from mercer.data.callbacks import CALLBACK_ATTRIBUTES
from mercer.data.targets import Coding
from mercer.engines import Engine, MemoryEngine, StreamEngine, block_rows_for
from mercer.engines.dask.partitions import same_for_one_row
from mercer.errors import DataError
from mercer.errors.columns import check_path
from mercer.errors.values import explain_weights
from mercer.io.formats.arrow import BatchStream
from mercer.io.source import RowSource
from mercer.io.tables.source import TableSource
from mercer.parameters import Choice, Integer, check_parameter

__all__ = ["ArrayRows", "BlockRows", "DaskRows", "FileRows", "Reader", "Source", "check_feature_names", "source_of"]

T = TypeVar("T")
NO_ROWS_IN_FILES = "There are no rows in these files."


def source_of(X: Any, y: Any = None, sample_weight: Any = None, *, owner: str, tables: bool = False) -> Source:
    """Return rows, targets and weights as a `Source`.

    Parameters
    ----------
    X : array-like or CSR, iterable of blocks, result of `open_rows`, or Dask collection
        Rows. An iterable is read as blocks only if `y` is None.
    y, sample_weight : array-like, Dask collection or None
        Targets and weights.
    owner : str
        Name of the caller, for messages.
    tables : bool, default=False
        Whether the caller reads tables with columns of any type, as `open_table` returns them.

    Returns
    -------
    Source
    """
    if not tables and isinstance(getattr(X, "source", X), TableSource):
        msg = (
            f"{owner}: rows must be numbers, got a table with columns of any type. Encode it first: "
            "rows = mercer.TablePreprocessor().fit(table).rows(table), and pass rows. KernelRegressor and "
            "KernelClassifier take the table itself. If all columns are numbers, use open_rows."
        )
        raise DataError(msg)
    if is_dask(X):
        return DaskRows(X, y, sample_weight)
    for name, values in (("y", y), ("sample_weight", sample_weight)):
        if is_dask(values):
            msg = (
                f"{owner}: {name} is a Dask collection but X is not. Pass X from Dask too, or call compute() on {name} "
                "first."
            )
            raise DataError(msg)
    if isinstance(X, str | bytes | PathLike | list | tuple):
        check_path(owner, X)
    if isinstance(X, RowSource | BatchStream):
        if y is not None or sample_weight is not None:
            msg = f"{owner}: files carry their own targets and weights: name their columns in open_rows."
            raise DataError(msg)
        return FileRows(X)
    if y is None and is_blocks(X):
        if sample_weight is not None:
            msg = f"{owner}: blocks carry their own weights: pass tuples (X, y, weight)."
            raise DataError(msg)
        return BlockRows(X)
    return ArrayRows(X, y, sample_weight)


def is_dask(value: Any) -> bool:
    """Return whether a value is a Dask collection, a list of Dask objects, or `Partitions`, without importing Dask."""
    if isinstance(value, list | tuple):
        return len(value) > 0 and not isinstance(value[0], list | tuple) and is_dask(value[0])
    module = type(value).__module__
    return module.partition(".")[0] in ("dask", "dask_expr", "distributed") or module == "mercer.engines.dask.engine"


def is_blocks(X: Any) -> bool:
    """Return whether `X` is an iterable of blocks rather than an array or a table of rows."""
    if sp.issparse(X) or hasattr(X, "shape") or hasattr(X, "__array__") or hasattr(X, "__dataframe__"):
        return False
    if isinstance(X, list | tuple):
        first = X[0] if X else None
        if isinstance(first, tuple | list):
            return len(first) > 0 and (len(getattr(first[0], "shape", ())) == 2 or is_table(first[0]))
        return len(getattr(first, "shape", ())) == 2  # blocks without targets
    return isinstance(X, Iterable) and not isinstance(X, str | bytes | dict)


def is_table(rows: Any) -> bool:
    """Return whether `rows` is a non-empty list or tuple whose first entry is a list or tuple."""
    return isinstance(rows, list | tuple) and len(rows) > 0 and isinstance(rows[0], list | tuple)


# ---- validation -------------------------------------------------------------------------------


class Reader:
    """Validates the blocks of rows of one fit, and determines how many rows a block has.

    The first block determines the number and names of the features, which scikit-learn records on the estimator, and
    the form of the targets. Later blocks must agree with the first block.

    Parameters
    ----------
    estimator : BaseEstimator
        The learner.
    coding : Coding
        Validates the targets of the learner.
    width : int
        Number of components of the feature map of the learner.
    block_size : int or None
        Rows per block; None means a number that depends on `width` and on the width and dtype of the rows.
    most_rows : int or None, default=None
        Upper bound on the rows per block if `block_size` is None.
    n_jobs : int or None, default=None
        Number of threads.
    fresh : bool, default=True
        Whether the next block is the first block of a fit. If False, the next block must agree with the rows that the
        estimator was fitted on.

    Attributes
    ----------
    coding : Coding
        The coding returned by the validation of the latest block.
    """

    def __init__(
        self,
        estimator: Any,
        coding: Coding,
        *,
        width: int,
        block_size: int | None = None,
        most_rows: int | None = None,
        n_jobs: int | None = None,
        fresh: bool = True,
    ) -> None:
        check_parameter(type(estimator).__name__, "block_size", block_size, Choice(None) | Integer(1))
        self.estimator = estimator
        self.coding = coding
        self.n_jobs = n_jobs
        self._width = width
        self._block_size = block_size
        self._most_rows = most_rows
        self._fresh = fresh
        self._names: Sequence[str] | None = None

    def set_names(self, names: Sequence[str] | None) -> None:
        """Set the feature names, for blocks that are arrays without names.

        If the estimator is already fitted, raise if the names differ from those of the fit.
        """
        if not self._fresh:
            check_feature_names(self.estimator, names)
        self._names = names

    def __call__(self, X: Any, y: Any = None, weight: Any = None) -> tuple[Any, np.ndarray | None, np.ndarray | None]:
        """Return validated rows, targets and weights of a block."""
        estimator = self.estimator if self._fresh or self._names is None else without_names(self.estimator)
        X, y, weight, self.coding = validated(estimator, self.coding, X, y, weight, reset=self._fresh)
        if self._fresh and self._names is not None:
            self.estimator.feature_names_in_ = np.array(self._names, dtype=object)
        self._fresh = False
        return X, y, weight

    def block(self, X: Any, y: Any = None, weight: Any = None) -> tuple[Any, np.ndarray | None, np.ndarray | None]:
        """Return validated rows, targets and weights of a block; a block without rows is returned unchanged."""
        if not hasattr(X, "shape"):
            X = np.asarray(X)
        return (X, y, weight) if len(X.shape) and X.shape[0] == 0 else self(X, y, weight)

    def block_rows(self, X: Any) -> int:
        """Return the number of rows per block for rows with the number of columns and the dtype of `X`."""
        if self._block_size is not None:
            return int(self._block_size)
        rows = block_rows_for(max(self._width, X.shape[1]), X.dtype.itemsize)
        return rows if self._most_rows is None else min(rows, self._most_rows)

    def feature_bytes(self, X: Any) -> int:
        """Return the larger of two sizes in bytes: that of one row of `X`, and that of the features of one row."""
        return max(self._width, X.shape[1]) * X.dtype.itemsize

    def later(self) -> BlockCheck:
        """Return a picklable function that validates later blocks. This reader must have validated the first block."""
        return BlockCheck(bare(self.estimator, with_names=self._names is None), self.coding)


@dataclass(frozen=True)
class BlockCheck:
    """Picklable function that validates the blocks of a fit after the first one, and returns ``(X, y, weight)``."""

    estimator: Any  # a copy without fitted attributes, see `bare`
    coding: Coding

    def __call__(self, X: Any, y: Any = None, weight: Any = None) -> tuple[Any, np.ndarray | None, np.ndarray | None]:
        return validated(self.estimator, self.coding, X, y, weight, reset=False)[:3]


def validated(
    estimator: Any, coding: Coding, X: Any, y: Any, weight: Any, *, reset: bool
) -> tuple[Any, np.ndarray | None, np.ndarray | None, Coding]:
    """Return validated rows, targets and weights of a block, and the coding for the next block.

    `reset` is True for the first block of a fit, and False for a later block, which must agree with the earlier blocks.
    """
    owner = type(estimator).__name__
    for name, values in (("X", X), ("y", y), ("sample_weight", weight)):
        if is_dask(values):
            msg = (
                f"{owner}: {name} is a Dask collection, which only fit accepts. Call fit, or call compute() on {name} "
                "first."
            )
            raise DataError(msg)
    X, y, coding = coding.validate(estimator, X, y, reset=reset)
    if weight is not None:
        zeros = np.zeros(X.shape[0])
        # All weights of one block may be zero. Solvers raise if the weights of all blocks are zero.
        if not np.array_equal(np.asarray(weight), zeros):
            try:
                zeros = _check_sample_weight(weight, X, dtype=np.float64, ensure_non_negative=True)
            except ValueError:
                explain_weights(owner, weight, X.shape[0])
                raise
        weight = zeros
    return X, y, weight, coding


def bare(estimator: Any, *, with_names: bool) -> Any:
    """Return a copy of an estimator with only the attributes that the validation of rows needs.

    These are the parameters of the estimator, the number of features and, if `with_names` is True, their names.
    """
    twin = copy(estimator)
    needed = {*estimator.get_params(deep=False), "n_features_in_", *(("feature_names_in_",) if with_names else ())}
    for name in [name for name in vars(twin) if name not in needed]:
        delattr(twin, name)
    # A map may hold a large graph, and a progress callback may not be picklable.
    vars(twin).update(feature_map=None, progress=False)
    return twin


def without_callbacks(estimator: Any) -> Any:
    """Return an estimator that can be sent to workers: itself, or a copy if it has callbacks of scikit-learn."""
    if not CALLBACK_ATTRIBUTES & vars(estimator).keys():
        return estimator
    twin = copy(estimator)
    for name in CALLBACK_ATTRIBUTES & vars(twin).keys():
        delattr(twin, name)
    return twin


def without_names(estimator: Any) -> Any:
    """Return a shallow copy of an estimator without feature names, which therefore accepts rows without names.

    The copy cannot compare feature names, so the caller must have done so.
    """
    twin = copy(estimator)
    vars(twin).pop("feature_names_in_", None)
    if "feature_map_" in vars(twin):
        twin.feature_map_ = without_names(twin.feature_map_)
    return twin


def check_feature_names(estimator: Any, names: Sequence[str] | None) -> None:
    """Raise if `names` differ from the feature names that an estimator was fitted with, or from their order.

    Nothing is compared if `names` is None or if the estimator was fitted without names.
    """
    fitted = getattr(estimator, "feature_names_in_", None)
    if fitted is None or names is None or list(fitted) == list(names):
        return
    missing = [name for name in fitted if name not in names]
    other = [name for name in names if name not in fitted]
    what = f"lacks {missing[:3]}" if missing else f"also has {other[:3]}" if other else "has them in another order"
    msg = (
        f"{type(estimator).__name__}: the columns must be those of the fit, {list(fitted[:12])}"
        f"{'' if len(fitted) <= 12 else ' and so on'}, in that order; the source {what}. Select them with columns= in "
        "open_rows."
    )
    raise DataError(msg)


# ---- sources ----------------------------------------------------------------------------------


class Source(ABC):
    """Base class of sources of rows. There is one subclass each for arrays, blocks, files and Dask collections."""

    @abstractmethod
    def engine(self, reader: Reader) -> Engine:
        """Return an engine over the rows, which `reader` validates."""

    @abstractmethod
    def row_results(self, model: Any, method: str, function: Callable[[Any, Any], Any]) -> Any:
        """Return ``function(model, X)`` for all rows, as arrays, or as Dask arrays that are not computed yet.

        Parameters
        ----------
        model : BaseEstimator
            A fitted model. The function may be called with a copy of it that does not compare feature names.
        method : str
            Name of the method that is evaluated, for messages.
        function : callable
            Takes a model and rows in memory, and returns an array with as many rows, or a tuple of such arrays.
        """

    @abstractmethod
    def in_memory(self, owner: str) -> Any:
        """Return the rows, without targets and weights, as one array or CSR matrix; raise if that is not supported."""

    @abstractmethod
    def array(self, owner: str, hint: str) -> Any:
        """Return the rows unchanged if they are in memory; otherwise raise an error that ends with `hint`."""


@dataclass(frozen=True)
class ArrayRows(Source):
    """Rows in memory: arrays, data frames, CSR matrices, lists of lists."""

    X: Any
    y: Any = None
    sample_weight: Any = None

    def engine(self, reader: Reader) -> MemoryEngine:
        X, y, weight = reader(self.X, self.y, self.sample_weight)
        if weight is not None and not weight.any():
            name = type(reader.estimator).__name__
            msg = f"{name}: sample weights must contain at least one non-zero number, got zeros only."
            raise DataError(msg)
        return MemoryEngine(X, y, weight, block_rows=reader.block_rows(X), n_jobs=reader.n_jobs)

    def row_results(self, model: Any, method: str, function: Callable[[Any, Any], Any]) -> Any:  # noqa: ARG002
        return function(model, self.X)

    def in_memory(self, owner: str) -> Any:  # noqa: ARG002 - the signature of the contract
        return self.X

    def array(self, owner: str, hint: str) -> Any:  # noqa: ARG002 - the signature of the contract
        return self.X


@dataclass(frozen=True)
class BlockRows(Source):
    """An iterable of blocks: X, (X, y) or (X, y, weight)."""

    blocks: Iterable[Any]

    def engine(self, reader: Reader) -> StreamEngine:
        reader.set_names(getattr(self.blocks, "feature_names", None))
        return StreamEngine(self.blocks, reader.block, block_rows=reader.block_rows, n_jobs=reader.n_jobs)

    def row_results(self, model: Any, method: str, function: Callable[[Any, Any], Any]) -> Any:  # noqa: ARG002
        msg = (
            f"{type(model).__name__}: {method} takes rows, or the result of mercer.open_rows, got "
            f"{type(self.blocks).__name__}. For an iterable of blocks, call it on each block: "
            f"np.concatenate([model.{method}(X) for X, *_ in blocks])."
        )
        raise DataError(msg)

    def in_memory(self, owner: str) -> Any:
        msg = f"{owner} must be rows in memory, or the result of open_rows, got {type(self.blocks).__name__}."
        raise DataError(msg)

    def array(self, owner: str, hint: str) -> Any:
        raise not_an_array(owner, self.blocks, hint)


@dataclass(frozen=True)
class FileRows(Source):
    """Files, as returned by `mercer.open_rows`."""

    files: RowSource | BatchStream

    def engine(self, reader: Reader) -> StreamEngine:
        reader.set_names(self.files.feature_names)
        return StreamEngine(self.files, reader.block, block_rows=reader.block_rows, n_jobs=reader.n_jobs)

    def row_results(self, model: Any, method: str, function: Callable[[Any, Any], Any]) -> Any:  # noqa: ARG002
        checked = False

        def of_block(twin: Any, X: Any, *_: Any) -> Any:
            nonlocal checked
            if not checked:
                same_for_one_row("files", function(twin, X[:2]), function(twin, X[:1]))
                checked = True
            return function(twin, X)

        results = self.on_blocks(model, of_block)
        if isinstance(results[0], tuple):
            return tuple(np.concatenate(parts) for parts in zip(*results, strict=True))
        return np.concatenate(results)

    def in_memory(self, owner: str) -> Any:  # noqa: ARG002 - the signature of the contract
        blocks = [X for X, *_ in self.files]
        if not blocks:
            raise DataError(NO_ROWS_IN_FILES)
        return sp.vstack(blocks, format="csr") if any(map(sp.issparse, blocks)) else np.concatenate(blocks)

    def array(self, owner: str, hint: str) -> Any:
        raise not_an_array(owner, self.files, hint)

    def on_blocks(self, model: Any, function: Callable[..., T]) -> list[T]:
        """Return a list with ``function(model, X, y, weight)`` for each block of the files, except blocks without rows.

        `y` and `weight` are None if the files were opened without targets and weights.
        """
        check_feature_names(model, self.files.feature_names)
        if self.files.feature_names is not None:
            model = without_names(model)
        results: list[T] = []
        for part in self.files.parts() if isinstance(self.files, RowSource) else (self.files,):
            for X, *more in part:
                y, weight = (*more, None, None)[:2]
                if not X.shape[0]:
                    continue
                try:
                    results.append(function(model, X, y, weight))
                except (TypeError, ValueError) as error:
                    msg = f"{part}: {error}"
                    raise DataError(msg) from error
        if not results:
            raise DataError(NO_ROWS_IN_FILES)
        return results


@dataclass(frozen=True)
class DaskRows(Source):
    """Dask arrays, Dask data frames, lists of delayed blocks, or files as returned by `mercer.on_dask`."""

    X: Any
    y: Any = None
    sample_weight: Any = None

    def engine(self, reader: Reader) -> Engine:
        from mercer.engines.dask.collections import partitions_of
        from mercer.engines.dask.engine import DaskEngine

        partitions = partitions_of(self.X, self.y, self.sample_weight)
        reader.set_names(getattr(partitions.source, "feature_names", None))
        head = reader(*partitions.head)
        if not reader.coding.settled:
            name = type(reader.estimator).__name__
            msg = f"{name}: the first partition must have targets, at least for some rows, got None."
            raise DataError(msg)
        return DaskEngine(
            partitions,
            reader.later(),
            block_rows=reader.block_rows(head[0]),
            row_bytes=sum(bytes_of(part) for part in head) / head[0].shape[0],
            feature_bytes=reader.feature_bytes(head[0]),
        )

    def row_results(self, model: Any, method: str, function: Callable[[Any, Any], Any]) -> Any:  # noqa: ARG002
        from mercer.engines.dask.collections import lazy_rows

        # Blocks of files have no feature names, so the names of the source are compared here.
        names = getattr(getattr(self.X, "source", None), "feature_names", None)
        check_feature_names(model, names)
        model = without_callbacks(model if names is None else without_names(model))
        return lazy_rows(OnRows(function, model), self.X)

    def in_memory(self, owner: str) -> Any:
        msg = f"{owner} must be rows in memory, or the result of open_rows, got {type(self.X).__name__}. Try compute()."
        raise DataError(msg)

    def array(self, owner: str, hint: str) -> Any:
        raise not_an_array(owner, self.X, hint)


def not_an_array(owner: str, X: Any, hint: str) -> DataError:
    """Return an error whose message says that `owner` requires rows in memory but got `X`, and ends with `hint`."""
    return DataError(f"{owner} takes rows in memory, got {type(X).__name__}. {hint}")


@dataclass(frozen=True)
class OnRows:
    """Picklable function of rows `X` that returns ``function(model, X)`` for a fixed function and a fixed model."""

    function: Callable[[Any, Any], Any]
    model: Any

    def __call__(self, X: Any) -> Any:
        return self.function(self.model, X)


def bytes_of(part: Any) -> int:
    """Return the number of bytes of a dense array or CSR matrix, or 0 if `part` is None."""
    if part is None:
        return 0
    return sum(a.nbytes for a in (part.data, part.indices, part.indptr)) if sp.issparse(part) else int(part.nbytes)
