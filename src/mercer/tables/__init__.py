"""Columns of tables as numbers of comparable scale."""

from mercer.tables.column_functions import ColumnFunction, ScaledRows
from mercer.tables.column_scaler import ColumnScaler
from mercer.tables.preprocessor import TablePreprocessor

__all__ = ["ColumnFunction", "ColumnScaler", "ScaledRows", "TablePreprocessor"]
