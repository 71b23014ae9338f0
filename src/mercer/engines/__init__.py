"""Where: add the same statistic over row blocks, in memory, from a stream, or on a cluster."""

from mercer.engines.ahead import read_ahead
from mercer.engines.base import Accumulator, Block, Engine, Place, Progress, Workers
from mercer.engines.distinct import DistinctRows, row_hashes
from mercer.engines.filtered import FilteredEngine, some_rows
from mercer.engines.gram import GramSum, add_products
from mercer.engines.journal import Checkpoint, Journal
from mercer.engines.memory import MemoryEngine, block_rows_for, empty_rows, fill_rows
from mercer.engines.partitions import is_dask, on_dask
from mercer.engines.progress import show_progress
from mercer.engines.sample import RowSample, exponentials
from mercer.engines.stream import StreamEngine

__all__ = [
    "Accumulator",
    "Block",
    "Checkpoint",
    "DistinctRows",
    "Engine",
    "FilteredEngine",
    "GramSum",
    "Journal",
    "MemoryEngine",
    "Place",
    "Progress",
    "RowSample",
    "StreamEngine",
    "Workers",
    "add_products",
    "block_rows_for",
    "empty_rows",
    "exponentials",
    "fill_rows",
    "is_dask",
    "on_dask",
    "read_ahead",
    "row_hashes",
    "show_progress",
    "some_rows",
]
