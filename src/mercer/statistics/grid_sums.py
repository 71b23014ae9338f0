"""Sums over rows of exponentials of an equispaced grid of frequencies, and bounds of coordinates.

Second moments of the features exp(-i k . t), with integer vectors k and angles t of a row, depend only on differences
of frequencies: the sums of w exp(-i k . t), for k in a box of twice the size, hold them all. So a sum over rows takes
one non-uniform FFT per block, time that hardly depends on the number of frequencies, and no matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from mercer.engines import Accumulator, Block, Workers
from mercer.io import storable
from mercer.linalg.nonuniform import trigonometric_sums
from mercer.statistics.sample import RowSample

__all__ = [
    "CoordinateBounds",
    "GridSum",
    "GridSums",
    "Survey",
    "TargetScale",
    "bounds_of_block",
    "survey_of_block",
]

Array = np.ndarray
# Rows of one transform, which one thread computes. The number is fixed, so that sums do not depend on the threads, and
# large, so that the FFT of the grid takes little of the time.
SLICE_ROWS = 131_072

#: Function of rows that returns their angles, one float64 array per axis of the grid, and which rows lie in the box of
#: the grid, or None for all. The others are left out of the sums.
Angles = Callable[[Any], tuple[tuple[Array, ...], Array | None]]


@storable
@dataclass(frozen=True)
class CoordinateBounds:
    """Least and largest values of coordinates of rows with a positive weight, and moments of their targets."""

    rows: int
    weight: float  # sum of w
    low: Array  # (k,)
    high: Array  # (k,)
    target_mean: Array  # (t,), weighted; (0,) without targets
    target_scatter: Array  # (t,), sum of w (y - mean)^2

    def __add__(self, other: CoordinateBounds) -> CoordinateBounds:
        weight = self.weight + other.weight
        share = other.weight / weight if weight > 0 else 0.0
        step = other.target_mean - self.target_mean
        return CoordinateBounds(
            self.rows + other.rows,
            weight,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.target_mean + step * share,
            self.target_scatter + other.target_scatter + np.square(step) * (share * self.weight),
        )


def bounds_of_block(block: Block, *, coordinates: Callable[[Any], Array], targets: bool) -> CoordinateBounds:
    """Return the bounds of the coordinates of a block of rows, and the moments of its targets if `targets` is True."""
    weight = np.ones(len(block)) if block.weight is None else block.weight
    values = coordinates(block.X)
    if block.weight is not None:
        values = values[weight > 0]
    low = values.min(axis=0, initial=np.inf)
    high = values.max(axis=0, initial=-np.inf)
    y = block.y if targets else np.empty((len(block), 0))
    total = float(weight.sum())
    mean = weight @ y / total if total > 0 else np.zeros(y.shape[1])
    with np.errstate(over="ignore"):
        scatter = weight @ np.square(y - mean)
    return CoordinateBounds(len(block), total, low, high, mean, scatter)


@storable
@dataclass(frozen=True)
class Survey:
    """What is known of rows before a grid is chosen: bounds, moments of targets, and a sample of rows or None."""

    bounds: CoordinateBounds
    sample: RowSample | None

    def __add__(self, other: Survey) -> Survey:
        sample = None if self.sample is None or other.sample is None else self.sample + other.sample
        return Survey(self.bounds + other.bounds, sample)


def survey_of_block(block: Block, *, coordinates: Callable[[Any], Array], size: int, seed: int) -> Survey:
    """Return the survey of a block of rows, with a sample of `size` rows; zero means no sample."""
    bounds = bounds_of_block(block, coordinates=coordinates, targets=True)
    sample = RowSample.of(block, size=size, seed=seed, by_weight=True) if size else None
    return Survey(bounds, sample)


@storable
@dataclass(frozen=True)
class TargetScale:
    """Numbers that are subtracted from targets, and by which they are then divided, before they are summed.

    With targets of the size of one, the sums of weights and of targets can share one complex transform.
    """

    center: Array  # (t,)
    size: Array  # (t,), > 0


@storable
@dataclass(frozen=True)
class GridSums:
    """Sums over rows of exponentials of a grid, with weights w and scaled targets y."""

    rows: int
    weight: float  # sum of w
    weights: Array  # complex, sums of w exp(-i k . t), |k| <= 2 m along each axis
    targets: Array  # (t, ...), complex, sums of w y exp(-i k . t), |k| <= m along each axis
    target_sum: Array  # (t,), sum of w y
    target_squares: Array  # (t,), sum of w y^2
    outside: int = 0  # number of rows that lie outside of the box of the grid, and are left out

    def __add__(self, other: GridSums) -> GridSums:
        return GridSums(
            self.rows + other.rows,
            self.weight + other.weight,
            self.weights + other.weights,
            self.targets + other.targets,
            self.target_sum + other.target_sum,
            self.target_squares + other.target_squares,
            self.outside + other.outside,
        )


class GridSum(Accumulator[GridSums]):
    """Accumulator that sums `GridSums` over blocks.

    Parameters
    ----------
    angles : callable
        Picklable function of rows that returns their angles.
    highest : tuple of int
        The highest frequency m along each axis.
    scale : TargetScale
        How targets are scaled.
    eps : float
        Relative error of the sums.
    """

    def __init__(self, angles: Angles, highest: tuple[int, ...], scale: TargetScale, eps: float) -> None:
        self._angles = angles
        self._highest = highest
        self._scale = scale
        self._eps = eps
        self._total: GridSums | None = None

    def add(self, block: Block, workers: Workers) -> None:
        def compute(start: int) -> GridSums:
            rows = slice(start, start + SLICE_ROWS)
            weight = None if block.weight is None else block.weight[rows]
            return self._sums(block.X[rows], block.y[rows], weight)

        part = reduce(add, workers.in_order(compute, range(0, len(block), SLICE_ROWS)))
        self._total = part if self._total is None else self._total + part

    def _sums(self, X: Any, y: Array, weight: Array | None) -> GridSums:
        rows = len(y)
        if weight is not None and not weight.all():  # rows of weight zero may lie off the grid
            X, y, weight = X[weight > 0], y[weight > 0], weight[weight > 0]
        angles, inside = self._angles(X)
        outside = 0
        if inside is not None and not inside.all():
            outside = int(np.count_nonzero(~inside))
            angles = tuple(a[inside] for a in angles)
            y, weight = y[inside], None if weight is None else weight[inside]
        scaled = (y - self._scale.center) / self._scale.size
        w = np.ones(len(scaled)) if weight is None else weight
        weighted = scaled if weight is None else scaled * w[:, None]
        twice = tuple(4 * m + 1 for m in self._highest)
        once = tuple(2 * m + 1 for m in self._highest)
        strengths = np.empty(len(w), complex)
        strengths.real, strengths.imag = w, weighted[:, 0] if weighted.shape[1] else 0.0
        weights, first = real_and_imaginary(trigonometric_sums(angles, strengths, twice, self._eps))
        inner = tuple(slice(m, 3 * m + 1) for m in self._highest)
        targets = [first[inner]]
        for i in range(1, weighted.shape[1], 2):  # two real targets per transform
            strengths.real = weighted[:, i]
            strengths.imag = weighted[:, i + 1] if i + 1 < weighted.shape[1] else 0.0
            targets += real_and_imaginary(trigonometric_sums(angles, strengths, once, self._eps))
        return GridSums(
            rows,
            float(w.sum()),
            weights,
            np.stack(targets)[: weighted.shape[1]],
            weighted.sum(axis=0),
            (weighted * scaled).sum(axis=0),
            outside,
        )

    def result(self) -> GridSums:
        assert self._total is not None
        return self._total

    def restore(self, state: GridSums) -> None:
        self._total = state


def real_and_imaginary(sums: Array) -> tuple[Array, Array]:
    """Return the trigonometric sums of the real and of the imaginary parts of strengths, given those of the strengths.

    Sums of real strengths are Hermitian: the value at -k is the complex conjugate of that at k.
    """
    mirrored = np.conj(np.flip(sums))
    return (sums + mirrored) / 2, (sums - mirrored) / 2j
