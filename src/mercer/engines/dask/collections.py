"""Conversion of Dask arrays, data frames and delayed blocks to `Partitions`, and lazy results for their rows.

Only this module, `mercer.engines.dask.engine` and `mercer.engines.dask.failures` import Dask.
"""

from __future__ import annotations

import operator
import pickle
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any
from warnings import warn

import cloudpickle
import dask.array as da
import numpy as np
from dask._task_spec import Task, TaskRef
from dask.delayed import Delayed, delayed

from mercer.engines.dask.engine import Partitions, count_rows, layer_of, ref
from mercer.engines.dask.partitions import same_for_one_row
from mercer.errors import DataError, MercerWarning

__all__ = ["file_partitions", "lazy_rows", "partitions_of"]


def file_partitions(source: Any) -> Partitions:
    """Return the result of `mercer.open_rows` as `Partitions`, one per part of the files; see `mercer.on_dask`.

    If the number of rows of a part is unknown, a worker reads this part once to count them.
    """
    try:
        parts = source.parts()
    except AttributeError:
        msg = (
            "on_dask needs the result of mercer.open_rows, for files whose parts can be read independently, got "
            f"{source!r}."
        )
        raise DataError(msg) from None
    name = f"mercer-file-{uuid.uuid4().hex}"
    keys = [(name, i) for i in range(len(parts))]
    tasks: dict[Any, Task] = {
        key: Task(key, pickle.loads, cloudpickle.dumps(part)) for key, part in zip(keys, parts, strict=True)
    }
    graph = layer_of(name, tasks, [])
    pieces: list[tuple[Any, ...]] = [(Delayed(key, graph, layer=name),) for key in tasks]
    known = [part.n_rows for part in parts]
    unknown = [i for i, rows in enumerate(known) if rows is None]
    for i, rows in zip(unknown, count_rows([pieces[i] for i in unknown]) if unknown else [], strict=True):
        known[i] = rows
    return Partitions(pieces, known, source=source)


def partitions_of(X: Any, y: Any = None, weight: Any = None) -> Partitions:
    """Return the partitions of a Dask collection of rows, with their targets and weights.

    If Dask does not know the numbers of rows, all partitions are computed once to count them.

    Parameters
    ----------
    X : dask.array.Array, dask.dataframe.DataFrame, list of Delayed or Future, or Partitions
        Rows. Delayed blocks are ``X``, ``(X, y)`` or ``(X, y, weight)``, such as files to be read.
    y, weight : dask.array.Array, dask.dataframe.Series, array-like, str or None
        Targets and weights; for a data frame also the name of their column, which is then not used as a feature.

    Returns
    -------
    Partitions
    """
    if isinstance(X, Partitions):
        if y is not None or weight is not None:
            msg = "Files carry their own targets and weights: name their columns in open_rows."
            raise DataError(msg)
        return X
    if isinstance(X, list | tuple):
        return _delayed_blocks(list(X), y, weight)
    if isinstance(X, da.Array):
        return _array_rows(X, y, weight)
    if _is_frame(X):
        return _frame_rows(X, y, weight)
    msg = (
        f"Rows must be a Dask array, a Dask data frame, or a list of delayed blocks (X, y), got {type(X).__name__}. "
        "Try .to_dask_array() or .to_dataframe()."
    )
    raise DataError(msg)


def _delayed_blocks(blocks: list[Any], y: Any, weight: Any) -> Partitions:
    """Return a list of delayed blocks as `Partitions`, one per block; raise if `y` or `weight` is not None."""
    for number, block in enumerate(blocks):
        if not isinstance(block, Delayed) and not is_future(block):
            msg = (
                f"All blocks of a list of delayed blocks must be Delayed or Future, but block {number} is "
                f"{type(block).__name__}. Wrap it in dask.delayed."
            )
            raise DataError(msg)
    if y is not None or weight is not None:
        msg = "Delayed blocks carry their own targets and weights: pass tuples (X, y) or (X, y, weight)."
        raise DataError(msg)
    pieces: list[tuple[Any, ...]] = [(block if isinstance(block, Delayed) else delayed(block),) for block in blocks]
    return Partitions(pieces, count_rows(pieces), holds=blocks)


def _array_rows(X: Any, y: Any, weight: Any) -> Partitions:
    """Return a Dask array, with its targets and weights, as `Partitions`, one per chunk of rows."""
    if X.ndim != 2:
        msg = f"X must be two-dimensional, got a Dask array of shape {X.shape}."
        raise DataError(msg)
    X = _undivided_rows("X", X)
    held = (X, y, weight)
    pieces = list(X.to_delayed().ravel())
    known = not any(np.isnan(size) for size in X.chunks[0])
    rows = [int(size) for size in X.chunks[0]] if known else count_rows([(piece,) for piece in pieces])
    y, weight = _aligned("y", y, rows), _aligned("sample_weight", weight, rows)
    return Partitions(list(zip(pieces, y, weight, strict=True)), rows, float(X.shape[1] * X.dtype.itemsize), held)


def _frame_rows(X: Any, y: Any, weight: Any) -> Partitions:
    """Return a Dask data frame as `Partitions`; `y` and `weight` may be names of its columns."""
    names = [name for name in (y, weight) if isinstance(name, str)]
    missing = [name for name in names if name not in X.columns]
    if missing:
        msg = f"The data frame has no column {missing[0]!r}. Its columns are {', '.join(map(str, X.columns))}."
        raise DataError(msg)
    features = [name for name in X.columns if name not in names]
    if not features:
        msg = "The data frame has no columns except those of targets and weights."
        raise DataError(msg)
    # One column suffices to count rows; only that column of a Parquet file is read.
    rows = count_rows([(piece,) for piece in _frame_pieces(X[features[:1]])])
    row_bytes = float(sum(getattr(X.dtypes[name], "itemsize", 8) for name in features))  # strings have no size
    # All columns of a data frame are read together and separated afterwards.
    frames = _frame_pieces(X[[*features, *dict.fromkeys(names)]])
    held = (X, y, weight)
    y = _columns(frames, y) if isinstance(y, str) else _aligned("y", y, rows)
    weight = _columns(frames, weight) if isinstance(weight, str) else _aligned("sample_weight", weight, rows)
    return Partitions(list(zip(_columns(frames, features), y, weight, strict=True)), rows, row_bytes, held)


def _frame_pieces(frame: Any) -> list[Delayed]:
    """Return the partitions of a Dask data frame as delayed pandas data frames."""
    # `simplify` makes the readers of files read only the selected columns. A full optimization would also merge small
    # partitions, so that data frames with different columns of the same files would no longer have equal partitions.
    return list(frame.simplify().to_delayed(optimize_graph=False))


def _columns(pieces: list[Delayed], columns: str | list[str]) -> list[Delayed]:
    """Return ``piece[columns]`` for each of the delayed data frames `pieces`, as delayed values."""
    name = f"mercer-columns-{uuid.uuid4().hex}"
    keys = [(name, i) for i in range(len(pieces))]
    tasks: dict[Any, Task] = {
        key: Task(key, operator.getitem, ref(piece), columns) for key, piece in zip(keys, pieces, strict=True)
    }
    graph = layer_of(name, tasks, [(piece,) for piece in pieces])
    return [Delayed(key, graph, layer=name) for key in tasks]


def _aligned(name: str, values: Any, rows: list[int]) -> list[Any]:
    """Divide targets or weights among the partitions of the rows: return a list with one delayed array per partition.

    If `values` is None, the list has one None per partition.

    Parameters
    ----------
    name : str
        Name of the argument, for messages.
    values : dask.array.Array, dask.dataframe.Series, array-like or None
        Targets or weights of all rows.
    rows : list of int
        Number of rows of each partition.
    """
    if values is None:
        return [None] * len(rows)
    if isinstance(values, str):
        msg = f"{name}={values!r} is the name of a column, but X is not a data frame. Pass the values themselves."
        raise DataError(msg)
    if _is_frame(values):
        pieces = _frame_pieces(values)
    else:
        if not isinstance(values, da.Array):
            values = np.asarray(values)
            values = da.from_array(values, chunks=values.shape)
        values = _undivided_rows(name, values)
        if not any(np.isnan(size) for size in values.chunks[0]):
            if values.shape[0] != sum(rows):
                msg = f"X has {sum(rows)} rows, but {name} has {values.shape[0]}."
                raise DataError(msg)
            values = values.rechunk({0: tuple(rows)})
        pieces = list(values.to_delayed().ravel())
    if len(pieces) != len(rows):
        msg = (
            f"X has {len(rows)} partitions, but {name} has {len(pieces)}. Take both from the same data frame, or call "
            "compute_chunk_sizes() on arrays, so that their rows can be matched."
        )
        raise DataError(msg)
    return pieces


def _undivided_rows(name: str, array: Any) -> Any:
    """Return a Dask array whose chunks contain whole rows. Warn if the array had to be rechunked for this."""
    if array.ndim < 2 or array.numblocks[1] == 1:
        return array
    msg = (
        f"{name} has {array.numblocks[1]} chunks along its columns, but every row must be in one chunk. The array is "
        f"rechunked, which moves data between workers. To avoid this, use {name}.rechunk({{1: -1}}), or chunks of "
        "fewer rows, where the array is created."
    )
    warn(msg, MercerWarning, stacklevel=2)
    return array.rechunk({1: -1})


def is_future(value: Any) -> bool:
    """Return whether a value is a ``distributed.Future``, without importing distributed."""
    return type(value).__module__.partition(".")[0] == "distributed"


def _is_frame(value: Any) -> bool:
    """Return whether a value is a Dask data frame or series."""
    # The module is compared by name first, since importing dask.dataframe takes about a second.
    kind = type(value).__module__
    if not kind.startswith(("dask.dataframe", "dask_expr")):
        return False
    from dask.dataframe import DataFrame, Series

    return isinstance(value, DataFrame | Series)


def lazy_rows(function: Callable[[Any], Any], X: Any) -> Any:
    """Return ``function(X)`` as a Dask array that is not computed yet. It has as many rows as `X`.

    Parameters
    ----------
    function : callable
        Takes rows in memory, and returns an array with as many rows, or a tuple of such arrays. The graph contains
        the function only once.
    X : dask.array.Array, dask.dataframe.DataFrame, or Partitions of files
        Rows.

    Returns
    -------
    dask.array.Array, or tuple of them
    """
    if isinstance(X, da.Array) and X.ndim == 2:
        X = _undivided_rows("X", X)
        sample, sizes = np.zeros((2, X.shape[1]), X.dtype), X.chunks[0]
    elif _is_frame(X):
        sample, sizes = X._meta_nonempty.iloc[:2], (np.nan,) * X.npartitions
    elif isinstance(X, Partitions):
        sample, sizes = X.head[0][:2], tuple(X.rows)
    else:
        msg = f"Rows must be a two-dimensional Dask array or a Dask data frame, got {type(X).__name__}."
        raise DataError(msg)
    empty = _empty_result(function, sample)
    # Optimizing the graph would release the futures of a persisted collection, if only this result refers to them.
    if isinstance(X, Partitions):
        pieces = [piece for piece, *_ in X.pieces]
        function = partial(_of_blocks, function)
    else:
        pieces = list(X.to_delayed(optimize_graph=False).ravel()) if isinstance(X, da.Array) else _frame_pieces(X)
    name = f"mercer-rows-{uuid.uuid4().hex}"
    # One task holds the function, and the model that it contains; the tasks of all chunks depend on this task.
    model = f"{name}-model"
    tasks: dict[Any, Task] = {model: Task(model, pickle.loads, cloudpickle.dumps(function))}
    if isinstance(empty, np.ndarray):
        return _lazy_array(name, tasks, (_apply, TaskRef(model)), pieces, sizes, empty)
    tasks |= {(name, i): Task((name, i), _apply, TaskRef(model), ref(piece), empty) for i, piece in enumerate(pieces)}
    graph = layer_of(name, tasks, [(piece,) for piece in pieces])
    results = [Delayed((name, i), graph, layer=name) for i in range(len(pieces))]
    return tuple(
        _lazy_array(f"{name}-{number}", {}, (_item, number), results, sizes, one) for number, one in enumerate(empty)
    )


def _empty_result(function: Callable[[Any], Any], sample: Any) -> Any:
    """Return an array with the dtype and columns of ``function(X)``, but without rows, or a tuple of such arrays.

    The function is evaluated on `sample`, which has two rows, and on the first row of `sample`. Raises DataError if the
    number of columns differs between these results, as for a kernel matrix with one column per row.
    """
    two, one = function(sample), function(sample[:1])
    same_for_one_row("dask collections", two, one)
    return tuple(a[:0] for a in two) if isinstance(two, tuple) else two[:0]


def _lazy_array(
    name: str, tasks: dict[Any, Task], call: tuple[Any, Any], pieces: list[Any], sizes: Any, empty: np.ndarray
) -> Any:
    """Return a Dask array that has one chunk ``function(first, piece, empty)`` for each piece in `pieces`.

    Parameters
    ----------
    name : str
        Name of the array.
    tasks : dict
        Further tasks for the graph, on which `first` may depend.
    call : tuple
        The pair ``(function, first)``: the function that computes a chunk, and its first argument.
    pieces : list of Delayed
        Input of each chunk.
    sizes : tuple
        Number of rows of each chunk, NaN if unknown.
    empty : ndarray
        Result without rows, which gives the dtype and the number of columns of the Dask array.
    """
    function, first = call
    keys = [(name, i, *(0,) * (empty.ndim - 1)) for i in range(len(pieces))]
    tasks |= {key: Task(key, function, first, ref(piece), empty) for key, piece in zip(keys, pieces, strict=True)}
    graph = layer_of(name, tasks, [(piece,) for piece in pieces])
    return da.Array(graph, name, (sizes, *((n,) for n in empty.shape[1:])), meta=empty)


def _apply(function: Callable[[Any], Any], X: Any, empty: Any) -> Any:
    """Return ``function(X)`` if `X` has rows. Otherwise return `empty`, a result without rows."""
    return function(X) if not hasattr(X, "shape") or X.shape[0] else empty


def _of_blocks(function: Callable[[Any], Any], part: Any) -> Any:
    """Concatenate ``function(X)`` over all blocks ``(X, ...)`` of `part`, which yields the rows of a part of a file."""
    results = [function(block[0]) for block in part if block[0].shape[0]]
    if isinstance(results[0], tuple):
        return tuple(np.concatenate(some) for some in zip(*results, strict=True))
    return np.concatenate(results)


def _item(number: int, results: tuple[Any, ...], empty: np.ndarray) -> Any:  # noqa: ARG001 - signature of `_apply`
    """Return ``results[number]``. The argument `empty` is not used; `_lazy_array` passes it to every function."""
    return results[number]
