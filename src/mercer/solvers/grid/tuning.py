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
from mercer.maps.fourier.frequency_grids import Box, GridFeatures, GridPart, Summand, margin_of, parts_above
from mercer.solvers.grid.blocks import BlockEvidence, blocks_of
from mercer.solvers.grid.boxes import EDGE, edge_level
from mercer.solvers.grid.evidence import evidence_of, lengthscale_slopes
from mercer.solvers.grid.systems import DenseGram, System
from mercer.statistics.grid_sums import GridSum, TargetScale
from mercer.statistics.occupied import gaps_between

__all__ = ["GridTrial", "Hyperparameters", "PartAngles", "tune_grid", "with_factors"]

Array = np.ndarray
# Numbers of rows and of components of the first search, over several starts, and of components of the second one. The
# evidence takes O(M^3) operations for M components.
FIRST_ROWS, FIRST_COMPONENTS, COMPONENTS = 1000, 300, 1400
FIRST_STEPS, STEPS = 10, 20
# Numbers of rows of a block, and of blocks, where a sample needs more components than that.
BLOCK_ROWS, MOST_BLOCKS = 500, 10
# Standard deviation of the prior of the logarithms of hyperparameters, around the first start. It matters for a few
# rows only, which hardly determine them.
SPREADS = 1.5
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
    """Picklable function of rows that returns their angles for a part of a grid, and whether they lie in its box.

    If `strict` is True, it raises for rows outside of the box.
    """

    part: GridPart
    strict: bool = False

    def __call__(self, X: Any) -> tuple[tuple[Array, ...], Array | None]:
        angles, inside = self.part.angles_inside(X)
        if self.strict and inside is not None and not inside.all():
            u = self.part.summand.coordinates(X[~inside][:1])[0]
            self.part.raise_outside(f"a row at ({', '.join(f'{v:.6g}' for v in u)})")
        return angles, inside


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
    centered: bool = True,
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
    centered : bool, default=True
        Whether the mean of the targets was subtracted.
    report : callable or None, default=None
        Receives the progress.
    """
    central = central_rows(np.column_stack([summand.coordinates(X) for summand in summands]), weight)
    X, y, weight = X[central], y[central], None if weight is None else weight[central]
    widths = [occupied_widths(summand.coordinates(X)) for summand in summands]
    search = Search(summands, widths, start, lengthscales, amplitude, noise, tolerance, report, centered=centered)
    if not search.size:
        return start, ()
    few = slice(None, None, max(1, -(-len(y) // FIRST_ROWS)))
    some = Sample.of(summands, X[few], y[few], None if weight is None else weight[few], FIRST_COMPONENTS)
    most = min(COMPONENTS, max(FIRST_COMPONENTS, 2 * len(y)))
    every = Sample.of(summands, X, y, weight, most)
    starts = [search.first(factor) for factor in (STARTS if lengthscales is not None else STARTS[:1])]
    if any(search.exceeds(point, some) for point in starts):
        few = slice(None, None, max(1, -(-len(y) // BLOCK_ROWS)))
        some = Blocks.of(summands, X[few], y[few], None if weight is None else weight[few])
    found = [search.run(some, point, FIRST_STEPS) for point in starts]
    best = max(found, key=lambda pair: pair[1])[0]
    if not search.exceeds(best, every):
        best, _ = search.run(every, best, STEPS)
    if search.exceeds(best, every):
        best, _ = search.run(Blocks.of(summands, X, y, weight), best, STEPS)
    return search.at(np.round(best / ROUND) * ROUND), tuple(search.trials)


def central_rows(u: Array, weight: Array | None) -> Array:
    """Return which rows are no farther from the central nine tenths, along any coordinate, than these are wide.

    Which rows tune hyperparameters does not depend on the targets, so that far rows may be left out. Few of them would
    need a grid of many times the size.
    """
    positive = np.ones(len(u), bool) if weight is None else weight > 0
    low, high = np.quantile(u[positive], (0.05, 0.95), axis=0)
    width = high - low
    inside = (u >= low - width) & (u <= high + width)
    return np.asarray(positive & (inside | (width == 0)).all(axis=1))


def occupied_widths(u: Array) -> Array:
    """Return the width of each coordinate, without gaps between rows that are longer than all the rest; one if zero."""
    widths = np.ptp(u, axis=0)
    for axis, column in enumerate(np.sort(u, axis=0).T):
        for gap in np.sort(np.diff(column))[::-1]:
            rest = widths[axis] - gap
            if not gap > rest > 0:
                break
            widths[axis] = rest
    return np.where(widths > 0, widths, 1.0)


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

    def parts(self, summands: Sequence[Summand], level: float, tolerance: float) -> tuple[tuple[GridPart, ...], float]:
        """Return the grid of summands whose inputs are the coordinates of the sample, and the largest other weight."""
        positive = slice(None) if self.weight is None else self.weight > 0
        boxes = []
        for summand, u in zip(summands, self.coordinates, strict=True):
            v = summand.coordinates(u[positive])
            least = 2 * margin_of(summand, tolerance)
            boxes.append(Box(v.min(axis=0), v.max(axis=0), tuple(gaps_between(column, least) for column in v.T)))
        return parts_above(summands, boxes, level, tolerance, self.most)

    def exceeds(self, summands: Sequence[Summand], h: Hyperparameters, tolerance: float) -> bool:
        """Return whether the rows and the noise need more than `most` components."""
        level = edge_level(self.total, h.amplitude, h.noise)
        return self.parts(summands, level, tolerance)[1] > level

    def evidence(self, summands: Sequence[Summand], h: Hyperparameters, tolerance: float) -> BlockEvidence | None:
        """Return the evidence and its derivatives; None if a matrix is not positive definite."""
        # Derivatives need frequencies further out than the evidence does.
        level = edge_level(self.total, h.amplitude, h.noise, EDGE / 10)
        system, features = self.system(summands, level, tolerance)
        rest = h.amplitude**2 * features.rest
        evidence = evidence_of(system, h.amplitude * features.roots(), h.noise, rest=rest)
        if evidence is None:
            return None
        by_mass, by_lengthscale, start = [], [], 0
        for part in features.parts:
            by_root = evidence.by_root[start : start + part.n_components]
            start += part.n_components
            # What is left out of a part grows with its amplitude, too.
            more = evidence.by_noise / h.noise**2 * h.amplitude**2 * part.summand.mass if rest else 0.0
            by_mass.append(by_root.sum() + more)
            p = len(part.index)
            each = by_root[: p + 1].copy()
            each[1:] += by_root[p + 1 :]
            by_lengthscale.append(each @ lengthscale_slopes(part.summand.kernel, part.spacing, part.index))
        return BlockEvidence(evidence.value, np.concatenate(by_lengthscale), np.array(by_mass), evidence.by_noise)

    def system(self, summands: Sequence[Summand], level: float, tolerance: float) -> tuple[System, GridFeatures]:
        """Return the sums over the sample on a grid for summands whose inputs are the coordinates of the sample."""
        parts, _ = self.parts(summands, level, tolerance)
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


@dataclass(frozen=True, eq=False)
class Blocks:
    """Blocks of near rows of a sample, of which the evidence is that of their kernel matrices."""

    coordinates: tuple[tuple[Array, ...], ...]  # of each block, for each summand
    targets: tuple[Array, ...]
    weights: tuple[Array | None, ...]
    y: Array  # (n, t), of all rows of the blocks

    @classmethod
    def of(cls, summands: Sequence[Summand], X: Any, y: Array, weight: Array | None) -> Blocks:
        """Return blocks of a sample, at most `MOST_BLOCKS` of them, evenly chosen."""
        rows = [summand.coordinates(X) for summand in summands]
        blocks = blocks_of(np.column_stack([u / occupied_widths(u) for u in rows]), BLOCK_ROWS)
        blocks = blocks[:: max(1, -(-len(blocks) // MOST_BLOCKS))]
        return cls(
            tuple(tuple(u[index] for u in rows) for index in blocks),
            tuple(y[index] for index in blocks),
            tuple(None if weight is None else weight[index] for index in blocks),
            y[np.concatenate(blocks)],
        )

    @property
    def total(self) -> float:
        return float(sum(len(y) if w is None else w.sum() for y, w in zip(self.targets, self.weights, strict=True)))

    def evidence(self, summands: Sequence[Summand], h: Hyperparameters, tolerance: float) -> BlockEvidence | None:  # noqa: ARG002 - the same for all grids
        """Return the evidence and its derivatives; None if a matrix is not positive definite."""
        scaled = [replace(summand, mass=h.amplitude**2 * summand.mass) for summand in summands]
        total = None
        for rows, y, weight in zip(self.coordinates, self.targets, self.weights, strict=True):
            units = [summand.coordinates(u) for summand, u in zip(scaled, rows, strict=True)]
            found = BlockEvidence.of(scaled, units, y, weight, h.noise)
            if found is None:
                return None
            total = found if total is None else total + found
        return total


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
        *,
        centered: bool = True,
    ) -> None:
        # The coordinates of the sample are already those of the summands.
        self.summands = [
            replace(summand, kernel=summand.kernel.with_params(lengthscale=1.0), inputs=()) for summand in summands
        ]
        self.start = start
        self.tolerance = tolerance
        self.report = report
        self.centered = centered
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
        self.usual = self.first(STARTS[0])

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

    def value(self, point: Array, sample: Sample | Blocks) -> tuple[float, Array]:
        """Return the negative evidence per row, and its gradient."""
        h = self.at(point)
        found = sample.evidence(with_factors(self.summands, h.factors, h.shares), h, self.tolerance)
        if found is None:
            return 1e10, np.zeros(len(point))
        gradient: list[Array] = []
        if self.cuts[0]:
            gradient.append(np.bincount(self.owner, found.by_lengthscale, self.cuts[0]))
        if self.groups:
            gradient.append(found.by_mass)
        if self.cuts[2] > self.cuts[1]:
            gradient.append(np.array([found.by_mass.sum()]))
        if self.size > self.cuts[2]:
            gradient.append(np.array([found.by_noise]))
        self.trials.append(GridTrial(np.concatenate(h.factors), h.amplitude, h.noise, found.value))
        report_step(self.report, len(self.trials), None, unit="evaluations")
        n = sample.total
        steps = (point - self.usual) / SPREADS
        value = self.known(sample) * found.value - 0.5 * float(steps @ steps)
        return -value / n, -(self.known(sample) * np.concatenate(gradient) - steps / SPREADS) / n

    def known(self, sample: Sample | Blocks) -> float:
        """Return the share of the evidence that counts: one row of n is used up by the mean of the targets."""
        return 1 - 1 / max(len(sample.y), 1) if self.centered else 1.0

    def exceeds(self, point: Array, sample: Sample) -> bool:
        """Return whether a sample needs more components than it may have."""
        h = self.at(point)
        return sample.exceeds(with_factors(self.summands, h.factors, h.shares), h, self.tolerance)

    def run(self, sample: Sample | Blocks, start: Array, steps: int) -> tuple[Array, float]:
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
