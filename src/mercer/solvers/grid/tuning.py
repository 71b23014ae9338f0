"""Lengthscales, amplitudes and noise of highest evidence, on a sample of rows and grids of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.optimize import minimize

from mercer.engines import MemoryEngine, Report, report_step
from mercer.engines.base import workers
from mercer.features import features_of
from mercer.kernels.spectral import Affine
from mercer.maps.fourier.frequency_grids import GridFeatures, GridPart, Summand, parts_above
from mercer.solvers.grid.evidence import evidence_of, lengthscale_slopes
from mercer.solvers.grid.systems import DenseGram, System
from mercer.statistics.grid_sums import GridSum, TargetScale

__all__ = ["EDGE", "GridTrial", "Hyperparameters", "PartAngles", "edge_level", "tune_grid", "with_factors"]

Array = np.ndarray
# Largest ratio n d^2 / s^2 of a frequency that is left out of a grid, for n rows, weights d^2 and noise s.
EDGE = 0.005
# Numbers of rows and of components of the first search, over several starts, and of components of the second one. The
# evidence takes O(M^3) operations for M components.
FIRST_ROWS, FIRST_COMPONENTS, COMPONENTS = 1000, 300, 1400
FIRST_STEPS, STEPS = 10, 20
# Lengthscales at which the first search starts, as shares of the widths of the columns.
STARTS = (0.3, 0.1, 0.03)
# Bounds of hyperparameters: lengthscales as shares of the widths of columns, amplitude and noise in the unit of the
# standard deviation of the targets. The upper bound of lengthscales is divided by the number of columns plus one:
# longer ones would need grids with a period much longer than the box, whose systems are almost singular.
FACTORS, AMPLITUDES, NOISES = (1e-4, 1.0), (1e-3, 30.0), (1e-3, 3.0)
# Hyperparameters are rounded to this step of their logarithms: finer differences are due to rounding errors, and their
# evidence is the same.
ROUND = 1e-4
SUMS_EPS = 1e-10
# A search stops when the logarithm of the evidence changes by less than about this.
ENOUGH = 0.01


@dataclass(frozen=True, eq=False)
class GridTrial:
    """Hyperparameters that were tried, and their evidence on the sample."""

    factors: Array  # lengthscales, as multiples of those of the kernel, one per coordinate of each summand
    amplitude: float
    noise: float
    evidence: float


@dataclass(frozen=True, eq=False)
class Hyperparameters:
    """Hyperparameters of a process, in the unit of scaled targets."""

    factors: tuple[Array, ...]  # (d,) of each summand: what its lengthscales are multiplied by
    shares: Array  # (G,), masses of the summands divided by their sum
    amplitude: float  # for a kernel that is one at zero
    noise: float


@dataclass(frozen=True, eq=False)
class PartAngles:
    """Picklable function of rows that returns their angles for a part of a grid.

    If `strict` is True, it raises for rows outside of the box of the part.
    """

    part: GridPart
    strict: bool = False

    def __call__(self, X: Any) -> tuple[Array, ...]:
        return self.part.angles_inside(X) if self.strict else self.part.angles(X)[0]


def edge_level(weight: float, amplitude: float, noise: float, edge: float = EDGE) -> float:
    """Return the weight of frequencies at the edge of a grid, for a kernel that is one at zero."""
    return edge * (noise / amplitude) ** 2 / max(weight, 1.0)


def with_factors(summands: Sequence[Summand], factors: Sequence[Array], shares: Array) -> tuple[Summand, ...]:
    """Return summands with lengthscales multiplied by factors, and with other masses."""
    return tuple(
        replace(summand, mass=float(share), inputs=(*summand.inputs, Affine(lengthscales=tuple(f.tolist()))))
        for summand, f, share in zip(summands, factors, shares, strict=True)
    )


def tune_grid(
    summands: Sequence[Summand],
    X: Any,
    y: Array,
    weight: Array | None,
    start: Hyperparameters,
    *,
    lengthscales: Literal["shared", "ard"] | None,
    amplitude: bool,
    noise: bool,
    tolerance: float,
    report: Report | None = None,
) -> tuple[Hyperparameters, tuple[GridTrial, ...]]:
    """Return the hyperparameters of highest evidence, and those that were tried.

    Parameters
    ----------
    summands : sequence of Summand
        The kernel.
    X, y, weight
        The sample, with scaled targets of shape (n, t).
    start : Hyperparameters
        Where the search starts; hyperparameters that are not tuned stay there.
    lengthscales : {"shared", "ard"} or None
        Whether all lengthscales have one factor, or each its own, or are not tuned.
    amplitude, noise : bool
        Whether amplitude and noise are tuned. With several summands, `amplitude` includes the share of each.
    tolerance : float
        Largest value of periodic images; see `GridFourier`.
    report : callable or None, default=None
        Receives the progress.
    """
    widths = []
    for summand in summands:
        u = summand.coordinates(X)
        width = np.ptp(u if weight is None else u[weight > 0], axis=0)
        widths.append(np.where(width > 0, width, 1.0))
    search = Search(summands, widths, start, lengthscales, amplitude, noise, tolerance, report)
    if not search.size:
        return start, ()
    few = slice(None, None, max(1, -(-X.shape[0] // FIRST_ROWS)))
    some = Sample.of(summands, X[few], y[few], None if weight is None else weight[few], FIRST_COMPONENTS)
    most = min(COMPONENTS, max(FIRST_COMPONENTS, 2 * X.shape[0]))
    starts = STARTS if lengthscales is not None else STARTS[:1]
    found = [search.run(some, search.first(factor), FIRST_STEPS) for factor in starts]
    best = max(found, key=lambda pair: pair[1])[0]
    every = Sample.of(summands, X, y, weight, most)
    best, _ = search.run(every, best, STEPS)
    return search.at(np.round(best / ROUND) * ROUND), tuple(search.trials)


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows of a sample, with coordinates of all summands, and the largest number of components for them."""

    coordinates: tuple[Array, ...]
    y: Array
    weight: Array | None
    most: int

    @classmethod
    def of(cls, summands: Sequence[Summand], X: Any, y: Array, weight: Array | None, most: int) -> Sample:
        return cls(tuple(summand.coordinates(X) for summand in summands), y, weight, most)

    @property
    def total(self) -> float:
        return float(len(self.y) if self.weight is None else self.weight.sum())

    def system(self, summands: Sequence[Summand], level: float, tolerance: float) -> tuple[System, GridFeatures]:
        """Return the sums over the sample on a grid for summands whose inputs are the coordinates of the sample."""
        positive = slice(None) if self.weight is None else self.weight > 0
        boxes = [summand.coordinates(u[positive]) for summand, u in zip(summands, self.coordinates, strict=True)]
        low, high = [u.min(axis=0) for u in boxes], [u.max(axis=0) for u in boxes]
        parts, _ = parts_above(summands, low, high, level, tolerance, self.most)
        features = GridFeatures(parts, 0.0, sum(part.n_components for part in parts))
        t = self.y.shape[1]
        scale, zero = TargetScale(np.zeros(t), np.ones(t)), np.zeros(t)
        if len(parts) == 1:
            into = GridSum(PartAngles(parts[0]), parts[0].highest, scale, SUMS_EPS)
            engine = MemoryEngine(self.coordinates[0], self.y, self.weight, block_rows=len(self.y), n_jobs=1)
            sums = engine.accumulate(into)
            return System.of_grid(sums, parts[0].index, scale, zero, constant=False), features
        blocks = []
        for part, u in zip(parts, self.coordinates, strict=True):
            alone = GridFeatures((part,), 0.0, part.n_components).unweighted()
            blocks.append(features_of(alone, u))
        Z = np.concatenate(blocks, axis=1)
        weighted = Z if self.weight is None else Z * self.weight[:, None]
        squares = np.square(self.y) if self.weight is None else np.square(self.y) * self.weight[:, None]
        return System(DenseGram(Z.T @ weighted), weighted.T @ self.y, squares.sum(axis=0), self.total), features


class Search:
    """Maximizes the evidence over the logarithms of the hyperparameters that are tuned."""

    def __init__(
        self,
        summands: Sequence[Summand],
        widths: Sequence[Array],
        start: Hyperparameters,
        lengthscales: Literal["shared", "ard"] | None,
        amplitude: bool,
        noise: bool,
        tolerance: float,
        report: Report | None,
    ) -> None:
        # The coordinates of the sample are already those of the summands.
        self.summands = [
            replace(summand, kernel=summand.kernel.with_params(lengthscale=1.0), inputs=()) for summand in summands
        ]
        self.start = start
        self.tolerance = tolerance
        self.report = report
        self.trials: list[GridTrial] = []
        axes = [len(f) for f in start.factors]
        count = {None: 0, "shared": 1, "ard": sum(axes)}[lengthscales]
        self.groups = len(summands) if amplitude and len(summands) > 1 else 0
        sizes = [count, self.groups, int(amplitude and not self.groups), int(noise)]
        self.cuts = np.cumsum(sizes)[:-1]
        self.size = sum(sizes)
        self.owner = np.zeros(sum(axes), int) if lengthscales == "shared" else np.arange(sum(axes))
        self.axes = np.cumsum(axes)[:-1]
        # A point has the logarithms of lengthscales, or that of their common factor, in the unit of the least width.
        each = np.concatenate(widths)
        self.unit = each if lengthscales == "ard" else np.full(count, each.min())
        longest = FACTORS[1] / (np.repeat(axes, axes) + 1.0)
        longest = longest if lengthscales == "ard" else np.full(count, float((longest * each).min() / each.min()))
        factors = [(FACTORS[0], high) for high in longest]
        limits = factors + [AMPLITUDES] * (self.groups + sizes[2]) + [NOISES] * sizes[3]
        self.limits = [tuple(np.log(limit)) for limit in limits]

    def first(self, factor: float) -> Array:
        """Return the point at which a search starts, for lengthscales that are a share of the widths."""
        start, parts = self.start, []
        parts.append(np.full(self.cuts[0], np.log(factor)))
        parts.append(np.log(start.amplitude * np.sqrt(start.shares)) if self.groups else np.zeros(0))
        parts.append(np.full(self.cuts[2] - self.cuts[1], np.log(start.amplitude)))
        parts.append(np.full(self.size - self.cuts[2], np.log(start.noise)))
        return np.concatenate(parts)

    def at(self, point: Array) -> Hyperparameters:
        """Return the hyperparameters of a point."""
        scales, groups, amplitude, noise = np.split(point, self.cuts)
        start = self.start
        factors = start.factors
        if len(scales):
            factors = tuple(np.split((np.exp(scales) * self.unit)[self.owner], self.axes))
        size, shares = start.amplitude, start.shares
        if len(groups):
            squares = np.exp(2 * groups)
            size, shares = float(np.sqrt(squares.sum())), squares / squares.sum()
        elif len(amplitude):
            size = float(np.exp(amplitude[0]))
        return Hyperparameters(factors, shares, size, float(np.exp(noise[0])) if len(noise) else start.noise)

    def value(self, point: Array, sample: Sample) -> tuple[float, Array]:
        """Return the negative evidence per row, and its gradient."""
        h = self.at(point)
        summands = with_factors(self.summands, h.factors, h.shares)
        # Derivatives need frequencies further out than the evidence does.
        level = edge_level(sample.total, h.amplitude, h.noise, EDGE / 10)
        system, features = sample.system(summands, level, self.tolerance)
        rest = h.amplitude**2 * features.rest
        evidence = evidence_of(system, h.amplitude * features.roots(), h.noise, rest=rest)
        if evidence is None:
            return 1e10, np.zeros(len(point))
        by_part, by_factor, start = [], [], 0
        for part in features.parts:
            by_root = evidence.by_root[start : start + part.n_components]
            start += part.n_components
            by_part.append(by_root.sum())
            p = len(part.index)
            each = by_root[: p + 1].copy()
            each[1:] += by_root[p + 1 :]
            by_factor.append(each @ lengthscale_slopes(part.summand.kernel, part.spacing, part.index))
        gradient: list[Array] = []
        if self.cuts[0]:
            gradient.append(np.bincount(self.owner, np.concatenate(by_factor), self.cuts[0]))
        if self.groups:
            # What is left out of a part grows with its amplitude, too.
            more = [evidence.by_noise / h.noise**2 * h.amplitude**2 * summand.mass for summand in summands]
            gradient.append(np.array(by_part) + (np.array(more) if rest else 0.0))
        if self.cuts[2] > self.cuts[1]:
            gradient.append(np.array([evidence.by_amplitude]))
        if self.size > self.cuts[2]:
            gradient.append(np.array([evidence.by_noise]))
        self.trials.append(GridTrial(np.concatenate(h.factors), h.amplitude, h.noise, evidence.value))
        report_step(self.report, len(self.trials), None, unit="evaluations")
        n = sample.total
        return -evidence.value / n, -np.concatenate(gradient) / n

    def run(self, sample: Sample, start: Array, steps: int) -> tuple[Array, float]:
        """Return the best point of a search, and its evidence per row."""
        low, high = np.array(self.limits).T
        with workers(1):  # one thread of BLAS: matrices are small
            found = minimize(
                self.value,
                np.clip(start, low, high),
                (sample,),
                jac=True,
                method="L-BFGS-B",
                bounds=self.limits,
                options={"maxiter": steps, "ftol": ENOUGH / sample.total, "gtol": ENOUGH / sample.total},
            )
        return found.x, -float(found.fun)
