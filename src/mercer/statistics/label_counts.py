"""The labels of the rows, the total weight of each label, and a random sample of the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.engines import Block
from mercer.io.archive import storable
from mercer.statistics.sample import RowSample

__all__ = ["CountLabels", "LabelCounts"]

Array = np.ndarray


@storable
@dataclass(frozen=True)
class LabelCounts:
    """Labels of the rows with a positive weight, the total weight of each label, and a random sample of the rows."""

    labels: Array  # (L,), sorted
    weight: Array  # (L,), total weight of the rows with each label
    sample: RowSample  # rows are sampled in proportion to their weights

    def __add__(self, other: LabelCounts) -> LabelCounts:
        labels = np.union1d(self.labels, other.labels)
        weight = np.zeros(len(labels))
        for part in (self, other):
            weight[np.searchsorted(labels, part.labels)] += part.weight
        return LabelCounts(labels, weight, self.sample + other.sample)

    def sample_weight(self) -> Array:
        """Return weights for the sampled rows whose sum is the total weight of all rows."""
        n = len(self.sample.key)
        if not self.sample.is_complete:  # sampled in proportion to the weights: equal weights
            return np.full(n, self.weight.sum() / n)
        return np.ones(n) if self.sample.weight is None else self.sample.weight


@storable
@dataclass(frozen=True)
class CountLabels:
    """Function of a block of rows that returns `LabelCounts`, with a random sample of at most `size` rows."""

    size: int
    seed: int

    def __call__(self, block: Block) -> LabelCounts:
        y, weight = block.y, np.ones(len(block)) if block.weight is None else block.weight
        labels, codes = np.unique(y[weight > 0], return_inverse=True)
        sample = RowSample.of(block, size=self.size, seed=self.seed, by_weight=True)
        return LabelCounts(labels, np.bincount(codes, weight[weight > 0], len(labels)), sample)
