"""Reading and writing of files. No other subpackage opens files."""

from mercer.io.archive import storable
from mercer.io.files import write_text
from mercer.io.formats.arrow import open_arrow, open_ipc
from mercer.io.formats.csv import open_csv
from mercer.io.formats.npy import open_npy
from mercer.io.formats.parquet import open_parquet
from mercer.io.formats.svmlight import open_svmlight
from mercer.io.rows import open_rows
from mercer.io.source import Part, RowSource
from mercer.io.tables import TableSource, open_table

__all__ = [
    "Part",
    "RowSource",
    "TableSource",
    "open_arrow",
    "open_csv",
    "open_ipc",
    "open_npy",
    "open_parquet",
    "open_rows",
    "open_svmlight",
    "open_table",
    "storable",
    "write_text",
]
