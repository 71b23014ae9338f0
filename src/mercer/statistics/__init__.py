"""Statistics of rows, which engines sum over blocks: values that support ``+``, and accumulators that sum in place."""

from mercer.statistics.distinct import DistinctRows, SampleDistinct, row_hashes
from mercer.statistics.label_counts import CountLabels, LabelCounts
from mercer.statistics.moments import GramSum, Moments, MomentSum, TargetMoments, add_products
from mercer.statistics.nearest import NearestRows
from mercer.statistics.sample import RowSample, exponentials

__all__ = [
    "CountLabels",
    "DistinctRows",
    "GramSum",
    "LabelCounts",
    "MomentSum",
    "Moments",
    "NearestRows",
    "RowSample",
    "SampleDistinct",
    "TargetMoments",
    "add_products",
    "exponentials",
    "row_hashes",
]
