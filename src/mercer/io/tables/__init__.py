"""Tables with columns of any type, read block by block: numbers, strings, booleans, dates and missing cells."""

from mercer.io.tables.opening import open_table
from mercer.io.tables.source import TableSource

__all__ = ["TableSource", "open_table"]
