"""The tables that can be run again, by name."""

from mercer.reproduce.papers import kar_karnick, munkhoeva
from mercer.reproduce.tables import Table

__all__ = ["TABLES"]

TABLES: dict[str, Table] = {table.name: table for table in (kar_karnick.TABLE, munkhoeva.TABLE)}
