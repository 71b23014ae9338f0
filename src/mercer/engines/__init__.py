"""Where: add the same statistic over row blocks, in memory or from a stream."""

from mercer.engines.base import Block, Engine
from mercer.engines.memory import MemoryEngine, block_rows_for, fill_rows
from mercer.engines.sample import RowSample
from mercer.engines.stream import StreamEngine

__all__ = ["Block", "Engine", "MemoryEngine", "RowSample", "StreamEngine", "block_rows_for", "fill_rows"]
