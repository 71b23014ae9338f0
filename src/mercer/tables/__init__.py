"""Columns of tables as numbers of comparable scale."""

from mercer.tables.column_scaler import ColumnScaler
from mercer.tables.scaled_columns import ScaledColumns, ScaledRows

__all__ = ["ColumnScaler", "ScaledColumns", "ScaledRows"]
