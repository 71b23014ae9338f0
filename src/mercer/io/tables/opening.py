"""`open_table`, which opens a table in files or in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mercer.errors import ParameterError
from mercer.io.formats import arrow, parquet
from mercer.io.formats.arrow import is_arrow
from mercer.io.formats.columns import Column
from mercer.io.formats.pieces import Pieces
from mercer.io.paths import find_files
from mercer.io.tables.csv_table import TABLE_ENDS, open_csv_table
from mercer.io.tables.memory import open_frame
from mercer.io.tables.source import TableSource, TypedPlan
from mercer.parameters import known_names

__all__ = ["open_table"]


def _open_pieces(pieces: type[Pieces]) -> Callable[..., TableSource]:
    """Return the function that opens files that store a table in pieces."""

    def opened(source: Any, **chosen: Any) -> TableSource:
        files = pieces.files_of(source)
        plan = TypedPlan.of([(path, schema) for path, schema, _ in files], **chosen)
        return plan.source(pieces.parts_of(files, plan))

    return opened


# Each format with its file name extensions and the function that opens it.
FORMATS: dict[str, tuple[tuple[str, ...], Callable[..., TableSource]]] = {
    "arrow": (arrow.ENDS, _open_pieces(arrow.Batches)),
    "csv": (TABLE_ENDS, open_csv_table),
    "parquet": (parquet.ENDS, _open_pieces(parquet.RowGroups)),
}


@known_names
def open_table(
    source: Any,
    *,
    target: Column | Sequence[Column] | None = None,
    weight: Column | None = None,
    columns: Sequence[Column] | None = None,
    format: str | None = None,
    header: bool | None = None,
) -> TableSource:
    r"""Open a table with columns of any type, for a model to read block by block.

    Columns are numbers, strings, categories, booleans or dates, and cells may be missing. Memory use does not grow with
    the size of the files, and they can be read any number of times.

    Parameters
    ----------
    source : path, glob pattern, folder, list of these, or a table in memory
        Files of one format: CSV, also compressed as ``.csv.gz``, Parquet or Arrow (Feather). They are read in the given
        order, and files of a pattern or folder in the order of their names. A table in memory is a data frame of pandas
        or polars, or a pyarrow Table or RecordBatch; the index of a pandas data frame is left out.
    target : str, int, list or None, default=None
        The column of the targets by name or index (-1 is the last column), or a list of columns. Targets are numbers,
        or strings for labels; a missing one is returned as NaN or None.
    weight : str, int or None, default=None
        The column of the sample weights.
    columns : list of str or int, default=None
        The columns that are features; None means all columns except target and weight, and except a column without a
        name at the start of a CSV file, which is the index that pandas writes.
    format : {"arrow", "csv", "parquet"} or None, default=None
        Format of the files; None infers it from their names.
    header : bool or None, default=None
        Whether the first line of CSV files contains the names of the columns. None infers this from the first lines,
        and raises an error if they are ambiguous. Without names, columns are named "0", "1", ...

    Returns
    -------
    TableSource
        Iterable of blocks ``(table,)``, ``(table, y)`` or ``(table, y, weight)``, in which `table` is a
        `pyarrow.Table` of the features.

    See Also
    --------
    mercer.TablePreprocessor : Turns tables into numbers.
    mercer.open_rows : Opens files of numbers, also npy and svmlight.

    Notes
    -----
    CSV files have no types. They are determined by all rows, in one pass when the files are opened:

    - A cell is missing if it is empty or one of ``NA``, ``N/A``, ``NaN``, ``NULL``, ``null``, ``None``, ``?`` and the
      like. Spaces around a cell, and quotes, do not matter.
    - If all other cells of a column are numbers, it is a column of numbers. If all are integers and one has a leading
      zero, such as the postal code ``01234``, it is a column of strings.
    - Likewise for ``true`` and ``false``, or ``yes`` and ``no``, which are booleans, and for dates such as
      ``2024-12-31``, ``2024-12-31T23:59:00Z``, ``31.12.2024``, ``12/31/2024 23:59`` or ``31 Dec 2024``.
    - Any other column is one of strings. If nearly all of its cells are numbers, there is a warning with the first cell
      that is not.
    - Targets are numbers or strings: ``yes`` and ``no`` remain strings, and are predicted as such.

    Examples
    --------
    >>> import os, tempfile
    >>> from mercer.io import open_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "houses.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("rooms,zip,sold,garden,price\n")
    ...         _ = file.write("3,01234,2024-05-01,yes,210\n?,99999,2024-06-30,no,180.5\n")
    ...     table = open_table(path, target="price")
    ...     X, y = next(iter(table))
    >>> print(table.schema)
    rooms: int64
    zip: string
    sold: timestamp[us]
    garden: bool
    >>> X["rooms"].to_pylist(), y.tolist()
    ([3, None], [210.0, 180.5])
    """
    chosen = {"target": target, "weight": weight, "columns": columns}
    if is_arrow(source) or (isinstance(source, list | tuple) and source and all(map(is_arrow, source))):
        _check_header(header, "a table in memory")
        if format is not None:
            msg = f"format applies only to files, got format={format!r} for a table in memory."
            raise ParameterError(msg)
        return open_frame(source, **chosen)
    known = [end for ends, _ in FORMATS.values() for end in ends]
    if format is not None and format not in FORMATS:
        msg = f"format must be one of {', '.join(map(repr, FORMATS))} or None, got {format!r}."
        raise ParameterError(msg)
    paths = find_files(source, known if format is None else FORMATS[format][0])
    kinds = {_format_of(str(path)) for path in paths} if format is None else {format}
    if len(kinds) > 1:
        msg = f"All files must have one format, got {' and '.join(sorted(kinds))}. Open each format separately."
        raise ParameterError(msg)
    kind = kinds.pop()
    _check_header(header, kind)
    options = {"header": header} if kind == "csv" else {}
    return FORMATS[kind][1](paths, **chosen, **options)


def _check_header(header: bool | None, kind: str) -> None:
    """Raise if `header` is specified for a format other than CSV."""
    if header is not None and kind != "csv":
        msg = f"header applies only to CSV files, got header={header!r} for {kind}."
        raise ParameterError(msg)


def _format_of(path: str) -> str:
    """Return the format of a file by its file name extension; raise if the extension is unknown."""
    for kind, (ends, _) in FORMATS.items():
        if path.lower().endswith(ends):
            return kind
    known = ", ".join(end for ends, _ in FORMATS.values() for end in ends)
    msg = f"{path}: the format cannot be inferred from the name, which ends in none of {known}. Pass format=."
    raise ParameterError(msg)
