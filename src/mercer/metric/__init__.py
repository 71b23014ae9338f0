"""Metrics of kernels: columns divided by their spread, and metrics that are learned from targets."""

from mercer.metric.learned_metric import LearnedMetric
from mercer.metric.rounds import MetricRounds
from mercer.metric.scaled_columns import ScaledColumns

__all__ = ["LearnedMetric", "MetricRounds", "ScaledColumns"]
