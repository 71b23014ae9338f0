"""Weights of the rows of a fit that are equal to rows of a sample, by label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.data.targets import label_codes
from mercer.engines import Block
from mercer.io import storable
from mercer.statistics import row_hashes

__all__ = ["CopyWeights", "WeighCopies"]

Array = np.ndarray


@storable
@dataclass(frozen=True)
class CopyWeights:
    """Total weights, by label, of rows with given hashes."""

    weight: Array  # (m, K), for the distinct hashes in ascending order

    def __add__(self, other: CopyWeights) -> CopyWeights:
        return CopyWeights(self.weight + other.weight)


@storable
@dataclass(frozen=True)
class WeighCopies:
    """Function of a block of rows that returns the `CopyWeights` of rows whose content has one of some hashes."""

    hashes: Array  # (m,), distinct and ascending
    labels: Array  # (K,), sorted
    label_weight: Array  # (K,), factors of the weights of rows

    def __call__(self, block: Block) -> CopyWeights:
        weight = np.ones(len(block)) if block.weight is None else block.weight
        hashes = row_hashes(block.X)
        position = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        used = (self.hashes[position] == hashes) & (weight > 0)
        codes = label_codes(block.y[used], self.labels)
        cells = position[used] * len(self.labels) + codes
        total = np.bincount(cells, weight[used] * self.label_weight[codes], len(self.hashes) * len(self.labels))
        return CopyWeights(total.reshape(len(self.hashes), len(self.labels)))
