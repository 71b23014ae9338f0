"""`open_rows`, which opens files of any supported format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from mercer.errors import ParameterError
from mercer.io.formats import arrow, csv, npy, parquet, svmlight
from mercer.io.formats.arrow import BatchStream, is_arrow, open_arrow
from mercer.io.formats.columns import Column
from mercer.io.paths import find_files
from mercer.io.source import RowSource
from mercer.parameters import known_names

__all__ = ["open_rows"]

# Each format with its file name extensions and the function that opens it.
FORMATS: dict[str, tuple[tuple[str, ...], Callable[..., RowSource]]] = {
    "arrow": (arrow.ENDS, arrow.open_ipc),
    "csv": (csv.ENDS, csv.open_csv),
    "npy": (npy.ENDS, npy.open_npy),
    "parquet": (parquet.ENDS, parquet.open_parquet),
    "svmlight": (svmlight.ENDS, svmlight.open_svmlight),
}


@known_names
def open_rows(
    source: Any,
    *,
    target: Column | Sequence[Column] | str | PathLike[str] | None = None,
    weight: Column | str | PathLike[str] | None = None,
    columns: Sequence[Column] | None = None,
    dtype: Any = None,
    format: str | None = None,
    header: bool | None = None,
) -> RowSource | BatchStream:
    """Open rows in files, or Arrow data, for a learner to read block by block.

    Memory use does not grow with the size of the files. The order of the rows is fixed, so every pass over them, and
    every fit, gives the same result.

    Parameters
    ----------
    source : path, glob pattern, folder, list of these, or Arrow data
        Files of one format. They are read in the given order, and files of a pattern or folder in the order of their
        names. A folder denotes all files below it, such as ``year=2024/part-0.parquet``, except those whose names start
        with a dot or an underscore. Names of folders do not become columns. Arrow data are a pyarrow Table,
        RecordBatch, list of batches or RecordBatchReader, or a pandas or polars data frame.
    target : str, int, list or None, default=None
        The column of the targets by name or index (-1 is the last column), or a list of columns. Targets are numbers,
        or strings for labels. A missing value is returned as NaN or None, which learners with ``unlabeled=np.nan``
        accept. For npy files, the target may also be the path of another npy file, or a list with one path per file.
        svmlight files contain their targets, so `target` must be None.
    weight : str, int or None, default=None
        The column of the sample weights; for npy files also a path.
    columns : list of str or int, default=None
        The columns that are features; None means all columns except target and weight. The index of a pandas data
        frame, also in a file written by pandas, is used only if it is named here. Column indices do not count it.
    dtype : dtype, default=None
        Dtype of the features, float32 or float64; None means float32 if all features in the files are float32 or
        float16, and float64 otherwise.
    format : {"arrow", "csv", "npy", "parquet", "svmlight"} or None, default=None
        Format of the files; None infers it from their names.
    header : bool or None, default=None
        Whether the first line of CSV files contains the names of the columns. None infers this from the first lines,
        and raises an error if they are ambiguous.

    Returns
    -------
    RowSource
        Iterable of blocks ``(X,)``, ``(X, y)`` or ``(X, y, weight)``, which can be read any number of times. Its
        attribute `n_rows` is the number of rows, or None if it is unknown, and its method `parts` returns parts that
        can be read in other processes. For a RecordBatchReader, the result is an iterator that can be read once.

    See Also
    --------
    mercer.io.open_csv : More options for CSV files, such as the delimiter.
    mercer.io.open_svmlight : More options for svmlight files, such as the number of features.
    mercer.on_dask : Fit on a Dask cluster, which reads the parts of the source in parallel.

    Examples
    --------
    >>> import numpy as np, os, tempfile
    >>> from mercer import KernelRidge, open_rows
    >>> rng = np.random.default_rng(0)
    >>> table = np.column_stack([rng.normal(size=(1000, 2)), rng.normal(size=1000)])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "table.npy")
    ...     np.save(path, table)
    ...     rows = open_rows(path, target=-1)
    ...     model = KernelRidge(random_state=0).fit(rows)
    >>> rows
    <1,000 rows of 2 features in 1 part>
    >>> in_memory = KernelRidge(random_state=0).fit(table[:, :2], table[:, 2])
    >>> bool(np.allclose(model.coef_, in_memory.coef_))
    True

    Learners also predict and score files block by block: ``model.predict(rows)``, ``model.score(rows)``.
    """
    if is_arrow(source) or (isinstance(source, list | tuple) and source and all(map(is_arrow, source))):
        _check_header(header, "Arrow data")
        return open_arrow(source, target=target, weight=weight, columns=columns, dtype=dtype)  # type: ignore[arg-type]
    known = [end for ends, _ in FORMATS.values() for end in ends]
    paths = find_files(source, FORMATS[format][0] if format in FORMATS else known)
    kinds = {format_of(path) for path in paths} if format is None else {format}
    if len(kinds) > 1:
        msg = f"All files must have one format, got {' and '.join(sorted(kinds))}. Open each format separately."
        raise ParameterError(msg)
    kind = kinds.pop()
    if kind not in FORMATS:
        msg = f"format must be one of {', '.join(map(repr, FORMATS))} or None, got {kind!r}."
        raise ParameterError(msg)
    _check_header(header, kind)
    if kind != "svmlight":
        options = {"header": header} if kind == "csv" else {}
        return FORMATS[kind][1](paths, target=target, weight=weight, columns=columns, dtype=dtype, **options)
    if not (target is None and weight is None and columns is None):
        msg = "svmlight files contain their targets and all features. Omit target, weight and columns."
        raise ParameterError(msg)
    return svmlight.open_svmlight(paths, dtype=dtype)


def _check_header(header: bool | None, kind: str) -> None:
    """Raise if `header` is specified for a format other than CSV."""
    if header is not None and kind != "csv":
        msg = f"header applies only to CSV files, got header={header!r} for {kind}."
        raise ParameterError(msg)


def format_of(path: Path) -> str:
    """Return the format of a file, such as "csv", by its file name extension; raise if the extension is unknown."""
    for kind, (ends, _) in FORMATS.items():
        if path.name.lower().endswith(ends):
            return kind
    known = ", ".join(end for ends, _ in FORMATS.values() for end in ends)
    msg = f"{path}: the format cannot be inferred from the name, which ends in none of {known}. Pass format=."
    raise ParameterError(msg)
