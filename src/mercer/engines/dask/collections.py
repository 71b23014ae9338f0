"""Rows as dask knows them: arrays, frames, delayed blocks. With `mercer.engines.dask.engine`, all that imports dask."""

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
    """Return the parts of files as partitions; see `mercer.on_dask`."""
    try:
        parts = source.parts()
    except AttributeError:
        msg = f"on_dask needs what mercer.open_rows returns, with parts that can be read apart, got {source!r}."
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
    """Return the partitions of a dask collection of rows, with their targets and weights.

    Numbers of rows that dask does not know are counted, by computing the partitions once.

    Parameters
    ----------
    X : dask.array.Array, dask.dataframe.DataFrame, list of Delayed or Future, or Partitions
        Rows; or delayed tuples ``(X, y)`` or ``(X, y, weight)``, such as files to be read.
    y, weight : dask.array.Array, dask.dataframe.Series, array-like, str or None
        Targets and weights; of a frame also the name of a column, which is then no feature.

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
        f"Rows must be a dask array, a dask dataframe, or a list of delayed blocks (X, y), got {type(X).__name__}. "
        "Try .to_dask_array() or .to_dataframe()."
    )
    raise DataError(msg)


def _delayed_blocks(blocks: list[Any], y: Any, weight: Any) -> Partitions:
    for number, block in enumerate(blocks):
        if not isinstance(block, Delayed) and not is_future(block):
            msg = f"Block {number} of a list of delayed blocks is {type(block).__name__}: wrap it in dask.delayed."
            raise DataError(msg)
    if y is not None or weight is not None:
        msg = "Delayed blocks carry their own targets and weights: tuples (X, y) or (X, y, weight)."
        raise DataError(msg)
    pieces: list[tuple[Any, ...]] = [(block if isinstance(block, Delayed) else delayed(block),) for block in blocks]
    return Partitions(pieces, count_rows(pieces), holds=blocks)


def _array_rows(X: Any, y: Any, weight: Any) -> Partitions:
    if X.ndim != 2:
        msg = f"X must have two axes, rows and columns, got a dask array of shape {X.shape}."
        raise DataError(msg)
    X = _whole_rows("X", X)
    held = (X, y, weight)
    pieces = list(X.to_delayed().ravel())
    known = not any(np.isnan(size) for size in X.chunks[0])
    rows = [int(size) for size in X.chunks[0]] if known else count_rows([(piece,) for piece in pieces])
    y, weight = _aligned("y", y, rows), _aligned("sample_weight", weight, rows)
    return Partitions(list(zip(pieces, y, weight, strict=True)), rows, float(X.shape[1] * X.dtype.itemsize), held)


def _frame_rows(X: Any, y: Any, weight: Any) -> Partitions:
    names = [name for name in (y, weight) if isinstance(name, str)]
    missing = [name for name in names if name not in X.columns]
    if missing:
        msg = f"The frame has no column {missing[0]!r}. Its columns: {', '.join(map(str, X.columns))}."
        raise DataError(msg)
    features = [name for name in X.columns if name not in names]
    if not features:
        msg = "The frame has no columns but those of targets and weights."
        raise DataError(msg)
    # One column is enough to count rows, and of a Parquet file all that is read.
    rows = count_rows([(piece,) for piece in _frame_pieces(X[features[:1]])])
    row_bytes = float(sum(X.dtypes[name].itemsize for name in features))
    # Columns of one frame are read together and parted afterwards.
    whole = _frame_pieces(X[[*features, *dict.fromkeys(names)]])
    held = (X, y, weight)
    y = _columns(whole, y) if isinstance(y, str) else _aligned("y", y, rows)
    weight = _columns(whole, weight) if isinstance(weight, str) else _aligned("sample_weight", weight, rows)
    return Partitions(list(zip(_columns(whole, features), y, weight, strict=True)), rows, row_bytes, held)


def _frame_pieces(frame: Any) -> list[Delayed]:
    # Projections are pushed down to where files are read, but partitions are left alone: a full optimization joins
    # those that become small, and then frames of different columns no longer match.
    return list(frame.simplify().to_delayed(optimize_graph=False))


def _columns(pieces: list[Delayed], columns: str | list[str]) -> list[Delayed]:
    name = f"mercer-columns-{uuid.uuid4().hex}"
    keys = [(name, i) for i in range(len(pieces))]
    tasks: dict[Any, Task] = {
        key: Task(key, operator.getitem, ref(piece), columns) for key, piece in zip(keys, pieces, strict=True)
    }
    graph = layer_of(name, tasks, [(piece,) for piece in pieces])
    return [Delayed(key, graph, layer=name) for key in tasks]


def _aligned(name: str, values: Any, rows: list[int]) -> list[Any]:
    """Return delayed targets or weights, cut as the rows are."""
    if values is None:
        return [None] * len(rows)
    if isinstance(values, str):
        msg = f"{name}={values!r} names a column, but X is an array: pass the values themselves."
        raise DataError(msg)
    if _is_frame(values):
        pieces = _frame_pieces(values)
    else:
        if not isinstance(values, da.Array):
            values = np.asarray(values)
            values = da.from_array(values, chunks=values.shape)
        values = _whole_rows(name, values)
        if not any(np.isnan(size) for size in values.chunks[0]):
            if values.shape[0] != sum(rows):
                msg = f"X has {sum(rows)} rows, but {name} has {values.shape[0]}."
                raise DataError(msg)
            values = values.rechunk({0: tuple(rows)})
        pieces = list(values.to_delayed().ravel())
    if len(pieces) != len(rows):
        msg = (
            f"X has {len(rows)} partitions, but {name} has {len(pieces)}. Take both from the same frame, or call "
            "compute_chunk_sizes() on arrays, so that their rows can be matched."
        )
        raise DataError(msg)
    return pieces


def _whole_rows(name: str, array: Any) -> Any:
    if array.ndim < 2 or array.numblocks[1] == 1:
        return array
    msg = (
        f"{name} is cut into {array.numblocks[1]} chunks along its columns; a row must be in one piece, so the chunks "
        f"are put together, which moves them between workers. Avoid it by {name}.rechunk({{1: -1}}) or smaller row "
        "chunks where the array is made."
    )
    warn(msg, MercerWarning, stacklevel=2)
    return array.rechunk({1: -1})


def is_future(value: Any) -> bool:
    """Return whether a value is a ``distributed.Future``, without importing distributed."""
    return type(value).__module__.partition(".")[0] == "distributed"


def _is_frame(value: Any) -> bool:
    # Asked by name: the import takes a second, and whoever has a frame has paid for it.
    kind = type(value).__module__
    if not kind.startswith(("dask.dataframe", "dask_expr")):
        return False
    from dask.dataframe import DataFrame, Series

    return isinstance(value, DataFrame | Series)


def lazy_rows(function: Callable[[Any], Any], X: Any) -> Any:
    """Return ``function(X)``, whose rows are those of `X`, as dask arrays that are not computed yet.

    Parameters
    ----------
    function : callable
        Takes some rows and returns as many, or a tuple of arrays of as many rows each; it is put into the graph once.
    X : dask.array.Array, dask.dataframe.DataFrame, or Partitions of files
        Rows.

    Returns
    -------
    dask.array.Array, or tuple of them
    """
    if isinstance(X, da.Array) and X.ndim == 2:
        X = _whole_rows("X", X)
        sample, sizes = np.zeros((2, X.shape[1]), X.dtype), X.chunks[0]
    elif _is_frame(X):
        sample, sizes = X._meta_nonempty.iloc[:2], (np.nan,) * X.npartitions
    elif isinstance(X, Partitions):
        sample, sizes = X.head[0][:2], tuple(X.rows)
    else:
        msg = f"Rows must be a dask array of two axes or a dask dataframe, got {type(X).__name__}."
        raise DataError(msg)
    empty = _shapes_of(function, sample)
    # Not optimized: that would forget the futures of a persisted collection, which perhaps only this result holds.
    if isinstance(X, Partitions):
        pieces = [piece for piece, *_ in X.pieces]
        function = partial(_of_blocks, function)
    else:
        pieces = list(X.to_delayed(optimize_graph=False).ravel()) if isinstance(X, da.Array) else _frame_pieces(X)
    name = f"mercer-rows-{uuid.uuid4().hex}"
    # One task holds the model, and the tasks of the chunks refer to it.
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


def _shapes_of(function: Callable[[Any], Any], sample: Any) -> Any:
    """Return the result of no rows; refuse results whose rows depend on the other rows that are asked for."""
    two, one = function(sample), function(sample[:1])
    same_for_one_row("dask collections", two, one)
    return tuple(a[:0] for a in two) if isinstance(two, tuple) else two[:0]


def _lazy_array(
    name: str, tasks: dict[Any, Task], call: tuple[Any, Any], pieces: list[Any], sizes: Any, empty: np.ndarray
) -> Any:
    """Return an array whose chunks are ``function(first, piece, empty)`` of pieces."""
    function, first = call
    keys = [(name, i, *(0,) * (empty.ndim - 1)) for i in range(len(pieces))]
    tasks |= {key: Task(key, function, first, ref(piece), empty) for key, piece in zip(keys, pieces, strict=True)}
    graph = layer_of(name, tasks, [(piece,) for piece in pieces])
    return da.Array(graph, name, (sizes, *((n,) for n in empty.shape[1:])), meta=empty)


def _apply(function: Callable[[Any], Any], X: Any, empty: Any) -> Any:
    return function(X) if not hasattr(X, "shape") or X.shape[0] else empty


def _of_blocks(function: Callable[[Any], Any], part: Any) -> Any:
    """Return the results of the blocks of a part of files, one after another."""
    results = [function(block[0]) for block in part if block[0].shape[0]]
    if isinstance(results[0], tuple):
        return tuple(np.concatenate(some) for some in zip(*results, strict=True))
    return np.concatenate(results)


def _item(number: int, results: tuple[Any, ...], empty: np.ndarray) -> Any:  # noqa: ARG001 - called as `_apply` is
    return results[number]
