"""Engines, which compute sums over blocks of rows in memory, from a stream, or on a Dask cluster."""

from mercer.engines.base import (
    START,
    Accumulator,
    Block,
    Engine,
    LocalEngine,
    Position,
    Progress,
    Report,
    StagedReport,
    TermSum,
    Workers,
    enter_stage,
    report_step,
    reported,
    stages_of,
)
from mercer.engines.checkpoint import Checkpoint, CheckpointedEngine
from mercer.engines.dask.partitions import on_dask
from mercer.engines.filter import FilteredEngine, some_rows
from mercer.engines.memory import MemoryEngine, block_rows_for, empty_rows, fill_rows, linear_values
from mercer.engines.prefetch import read_ahead
from mercer.engines.stream import StreamEngine

__all__ = [
    "START",
    "Accumulator",
    "Block",
    "Checkpoint",
    "CheckpointedEngine",
    "Engine",
    "FilteredEngine",
    "LocalEngine",
    "MemoryEngine",
    "Position",
    "Progress",
    "Report",
    "StagedReport",
    "StreamEngine",
    "TermSum",
    "Workers",
    "block_rows_for",
    "empty_rows",
    "enter_stage",
    "fill_rows",
    "linear_values",
    "on_dask",
    "read_ahead",
    "report_step",
    "reported",
    "some_rows",
    "stages_of",
]
