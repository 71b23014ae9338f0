"""Metrics of kernels that are learned from targets."""

from mercer.metric.learned_metric import LearnedMetric
from mercer.metric.rounds import MetricRounds

__all__ = ["LearnedMetric", "MetricRounds"]
