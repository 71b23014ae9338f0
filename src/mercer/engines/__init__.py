"""Where: add the same statistic over row blocks, in memory, from a stream, or on a cluster."""

from mercer.engines.base import Accumulator, Block, Engine, Place, Progress, Workers
from mercer.engines.checkpoint import Checkpoint, Journal
from mercer.engines.dask.partitions import is_dask, on_dask
from mercer.engines.filter import FilteredEngine, some_rows
from mercer.engines.memory import MemoryEngine, block_rows_for, empty_rows, fill_rows
from mercer.engines.prefetch import read_ahead
from mercer.engines.progress import show_progress
from mercer.engines.stream import StreamEngine

__all__ = [
    "Accumulator",
    "Block",
    "Checkpoint",
    "Engine",
    "FilteredEngine",
    "Journal",
    "MemoryEngine",
    "Place",
    "Progress",
    "StreamEngine",
    "Workers",
    "block_rows_for",
    "empty_rows",
    "fill_rows",
    "is_dask",
    "on_dask",
    "read_ahead",
    "show_progress",
    "some_rows",
]
