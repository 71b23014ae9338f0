"""A first look at labeled rows: which labels there are, how much weight each has, and a sample of the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.engines import Block
from mercer.io.archive import storable
from mercer.statistics import RowSample

__all__ = ["Survey", "SurveyTerm"]

Array = np.ndarray


@storable
@dataclass(frozen=True)
class Survey:
    """Labels of rows with weight, sorted, the weight of each, and a sample of rows in proportion to weights."""

    labels: Array  # (L,)
    weight: Array  # (L,)
    sample: RowSample

    def __add__(self, other: Survey) -> Survey:
        labels = np.union1d(self.labels, other.labels)
        weight = np.zeros(len(labels))
        for part in (self, other):
            weight[np.searchsorted(labels, part.labels)] += part.weight
        return Survey(labels, weight, self.sample + other.sample)

    def sample_weight(self) -> Array:
        """Return weights of the sampled rows that add up to those of all rows."""
        n = len(self.sample.key)
        if not self.sample.is_whole:  # drawn in proportion to the weights, the rows count alike
            return np.full(n, self.weight.sum() / n)
        return np.ones(n) if self.sample.weight is None else self.sample.weight


@storable
@dataclass(frozen=True)
class SurveyTerm:
    """The survey of one block."""

    size: int
    seed: int

    def __call__(self, block: Block) -> Survey:
        y, weight = block.y, np.ones(len(block)) if block.weight is None else block.weight
        labels, codes = np.unique(y[weight > 0], return_inverse=True)
        sample = RowSample.of(block, size=self.size, seed=self.seed, by_weight=True)
        return Survey(labels, np.bincount(codes, weight[weight > 0], len(labels)), sample)
