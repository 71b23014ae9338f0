"""What is measured of a fitted model on test rows: scores, calibration, columns, kernel error, learning curve."""

from mercer.diagnostics.fits.calibration import confusion_counts, interval_coverage, reliability
from mercer.diagnostics.fits.curve import learning_curve
from mercer.diagnostics.fits.describe import FitDescription, describe_fit
from mercer.diagnostics.fits.importances import metric_shares, permutation_importances
from mercer.diagnostics.fits.maps import audit_of_best
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
from mercer.diagnostics.fits.scores import classification_scores, regression_scores, score_difference, score_interval

__all__ = [
    "ColumnImportance",
    "ColumnSummary",
    "Contender",
    "CurvePoint",
    "FitDescription",
    "FitResult",
    "MapAudit",
    "ReliabilityBin",
    "Score",
    "WidthPoint",
    "audit_of_best",
    "classification_scores",
    "confusion_counts",
    "describe_fit",
    "interval_coverage",
    "learning_curve",
    "metric_shares",
    "permutation_importances",
    "regression_scores",
    "reliability",
    "score_difference",
    "score_interval",
]
