"""Which intervals of the coordinates of rows are occupied, and the gaps between them, as a sum over rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.engines import Block
from mercer.io import storable

__all__ = ["Occupied", "gaps_between", "occupied_by_block"]

Array = np.ndarray
# Largest number of occupied bins; beyond it, pairs of bins are joined.
MOST_BINS = 2**20
FARTHEST = 2.0**61


@storable
@dataclass(frozen=True)
class Occupied:
    """Occupied bins of each coordinate, with the least and the largest value in each, in order of axis and bin.

    Bins depend on the coordinates only, and are joined in pairs if there are too many, so that the sum over rows does
    not depend on the order in which blocks are added.
    """

    level: int  # bins are 2^level units wide
    axis: Array  # (k,), int64
    bin: Array  # (k,), int64
    low: Array  # (k,)
    high: Array  # (k,)

    @classmethod
    def of(cls, level: int, axis: Array, bins: Array, low: Array, high: Array) -> Occupied:
        """Return the bins in order, each once."""
        while True:
            order = np.lexsort((bins, axis))
            axis, bins, low, high = axis[order], bins[order], low[order], high[order]
            first = np.ones(len(bins), bool)
            first[1:] = (np.diff(bins) != 0) | (np.diff(axis) != 0)
            at = np.flatnonzero(first)
            if len(at):
                axis, bins = axis[at], bins[at]
                low, high = np.minimum.reduceat(low, at), np.maximum.reduceat(high, at)
            if len(bins) <= MOST_BINS:
                return cls(level, axis, bins, low, high)
            level, bins = level + 1, bins >> 1

    def __add__(self, other: Occupied) -> Occupied:
        level = max(self.level, other.level)
        bins = np.concatenate([one.bin >> (level - one.level) for one in (self, other)])
        axis, low, high = (
            np.concatenate([getattr(self, name), getattr(other, name)]) for name in ("axis", "low", "high")
        )
        return self.of(level, axis, bins, low, high)

    def gaps(self, axis: int, least: float) -> Array:
        """Return the gaps (k, 2) along an axis that are longer than `least`."""
        here = self.axis == axis
        ends = np.stack([self.high[here][:-1], self.low[here][1:]], axis=1)
        return ends[ends[:, 1] - ends[:, 0] > least]


def gaps_between(values: Array, least: float) -> Array:
    """Return the gaps (k, 2) between some values that are longer than `least`."""
    values = np.sort(values)
    ends = np.stack([values[:-1], values[1:]], axis=1)
    return ends[ends[:, 1] - ends[:, 0] > least]


def occupied_by_block(block: Block, *, coordinates: Callable[[Any], Array], unit: Array) -> Occupied:
    """Return the bins that the coordinates (n, k) of a block of rows occupy; `unit` has the width of bins (k,)."""
    values = coordinates(block.X)
    if block.weight is not None:
        values = values[block.weight > 0]
    with np.errstate(over="ignore"):
        bins = np.clip(np.floor(values / unit), -FARTHEST, FARTHEST).astype(np.int64)
    parts = []
    for axis in range(values.shape[1]):
        order = np.argsort(bins[:, axis], kind="stable")
        at = np.flatnonzero(np.append(True, np.diff(bins[order, axis]) != 0)[: len(order)])
        column = values[order, axis]
        low, high = (ufunc.reduceat(column, at) if len(at) else column for ufunc in (np.minimum, np.maximum))
        parts.append((np.full(len(at), axis), bins[order, axis][at], low, high))
    axes, numbers, lows, highs = (np.concatenate(values) for values in zip(*parts, strict=True))
    return Occupied.of(0, axes, numbers, lows, highs)
