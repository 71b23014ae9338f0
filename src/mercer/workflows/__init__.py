"""One function per command of the command line: files in, files and a result out."""

from mercer.diagnostics.fits.results import (
    ColumnImportance,
    ColumnSummary,
    Contender,
    CurvePoint,
    FitResult,
    MapAudit,
    ReliabilityBin,
    Score,
    WidthPoint,
)

__all__ = [
    "ColumnImportance",
    "ColumnSummary",
    "Contender",
    "CurvePoint",
    "FitResult",
    "MapAudit",
    "ReliabilityBin",
    "Score",
    "WidthPoint",
]
