"""Equispaced grids of frequencies: which frequencies a kernel and a box of rows need, and features of these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from mercer.errors import DataError, UnsupportedKernelError
from mercer.features import Features
from mercer.kernels import Kernel
from mercer.kernels.base import dense64
from mercer.kernels.isotropic import IsotropicKernel
from mercer.kernels.spectral import Affine, width_of
from mercer.theory.fourier.grid import (
    decay_distance,
    frequency_weights,
    grid_error,
    half_ball,
    lattice_ball,
    tail_radius,
)

__all__ = [
    "NEEDS",
    "Box",
    "GridFeatures",
    "GridPart",
    "Summand",
    "lowest_parts",
    "margin_of",
    "part_without_frequencies",
    "parts_above",
    "summands_of",
]

Array = np.ndarray
NEEDS = (
    "a kernel with a spectral density in closed form, Gaussian() or Matern(nu), or a sum of such kernels of one to "
    "three columns each; with nu >= 1 for two columns, and nu >= 3/2 for three"
)
# Rows outside of the box of the fit have features up to the distance at which the kernel has decayed to this level.
REACH_LEVEL = 0.01
# Rows lie in a box if they exceed it by at most this share of its half width and the reach.
SLACK = 1e-6
# Number of rows whose features are computed at a time.
SLICE_ENTRIES = 2**18
MOST_AXES = 3


@dataclass(frozen=True)
class Summand:
    """One summand of a kernel: a mass times an isotropic kernel of the coordinates A(x) / lengthscale of rows x."""

    mass: float
    kernel: IsotropicKernel
    inputs: tuple[Affine, ...]

    def coordinates(self, X: Any) -> Array:
        """Return the coordinates of rows, in lengthscales."""
        X = dense64(X)
        for affine in self.inputs:
            X = affine(X)
        return X / float(self.kernel.lengthscale)

    def axes(self, n_features: int) -> int:
        """Return the number of coordinates, for rows of `n_features` features."""
        return width_of(self.inputs, n_features)


def summands_of(kernel: Kernel, owner: str, n_features: int | None = None) -> tuple[float, tuple[Summand, ...]]:
    """Return the constant and the summands of a kernel; raise `UnsupportedKernelError` if a grid cannot represent it.

    Without `n_features`, the number of coordinates of summands is not checked.
    """
    parts = kernel.spectral_parts()
    constant, summands = 0.0, []
    reason = None if parts is not None else f"{kernel.structure}"
    for part in parts or ():
        if not part.factors:
            constant += part.mass
            continue
        if part.mass == 0:
            continue
        one = part.factors[0]
        if len(part.factors) > 1:
            reason = "a product of kernels"
        elif not isinstance(one.kernel, IsotropicKernel) or one.kernel.closed_spectral_density is None:
            reason = f"{one.kernel!r}, without a closed form of its spectral density"
        else:
            summand = Summand(part.mass, one.kernel, one.inputs)
            summands.append(summand)
            reason = reason or (None if n_features is None else why_refused(summand, n_features))
    if reason is None:
        return constant, tuple(summands)
    msg = (
        f"{owner} cannot approximate {kernel!r}.\n"
        f"  needs: {NEEDS}\n"
        f"  got:   {reason}\n"
        "  try:   column_groups=, a sum over groups of columns; or RandomFourier, Nystroem"
    )
    raise UnsupportedKernelError(msg)


def why_refused(summand: Summand, n_features: int) -> str | None:
    """Return the reason why a grid is out of reach for a kernel of rows of `n_features` features, or None."""
    d = summand.axes(n_features)
    if d > MOST_AXES:
        return f"a kernel of {d} columns"
    # If the density decays like s^-p, a fit to n rows needs about n^(d / p) frequencies: at most the square root of n.
    assert summand.kernel.closed_spectral_density is not None
    density = summand.kernel.closed_spectral_density(np.array([1e2, 1e3]), d)
    if density[1] > density[0] * 10 ** (-2.0 * d) * 1.01:
        return f"{summand.kernel!r} of {d} columns, whose spectral density decays too slowly"
    return None


@dataclass(frozen=True, eq=False)
class Box:
    """Bounds of the coordinates of rows, and long gaps between them."""

    low: Array  # (d,)
    high: Array  # (d,)
    gaps: tuple[Array, ...] = ()  # (k, 2) for each axis, in order: intervals without rows; () means no gaps

    def within(self, low: Array, high: Array) -> Box:
        """Return the part of the box between other bounds."""
        low, high = np.maximum(low, self.low), np.minimum(high, self.high)
        gaps = tuple(g[(g[:, 0] >= a) & (g[:, 1] <= b)] for g, a, b in zip(self.gaps, low, high, strict=False))
        return Box(low, high, gaps)


@dataclass(frozen=True, eq=False)
class GridPart:
    """The frequencies of one summand, and the box of coordinates for which they were chosen.

    The components are a constant, cosines and sines, each of frequencies in order of decreasing weight.

    Along each axis, gaps between rows that are longer than the margin of the period are shortened to the margin: what
    lies behind a gap is moved towards the box. The kernel is negligible across such a gap before and after.
    """

    summand: Summand
    center: Array  # (d,), of the box of coordinates
    half: Array  # (d,), half of its widths
    spacing: Array  # (d,), in cycles per lengthscale
    reach: float  # distance from the box, in lengthscales, beyond which features are zero
    index: Array  # (p, d), integer vectors j: frequencies are spacing * j, one of each pair
    weights: Array  # (1 + p,), weights of frequency zero and of these frequencies
    gaps: tuple[Array, ...] = ()  # (k, 2) for each axis: coordinates of gaps that are shortened

    @property
    def n_components(self) -> int:
        return 2 * len(self.index) + 1

    @property
    def highest(self) -> tuple[int, ...]:
        """The highest frequency along each axis, as a multiple of the spacing."""
        return tuple(int(m) for m in np.abs(self.index).max(axis=0, initial=0))

    @property
    def mass(self) -> float:
        """The value at zero of the approximate kernel."""
        return float(self.weights[0] + 2 * self.weights[1:].sum())

    def roots(self) -> Array:
        """Return the square roots of the weights of all components."""
        root = np.sqrt(self.weights)
        return np.concatenate([root, root[1:]])

    def truncated(self, pairs: int) -> Self:
        """Return the part with the first `pairs` frequencies only."""
        return replace(self, index=self.index[:pairs], weights=self.weights[: pairs + 1])

    def error_bound(self) -> float:
        """Return a bound on the error of the kernel for pairs of rows in the box."""
        unit = self.summand.kernel.with_params(lengthscale=1.0)
        return self.summand.mass * grid_error(unit, 2 * self.half, 1 / self.spacing, self.n_components)

    def angles(self, X: Any) -> tuple[tuple[Array, ...], Array]:
        """Return angles of rows, one array per axis, and whether each row is within reach of the box."""
        offsets, depth = self._offsets(X)
        near = np.ones(X.shape[0], bool)
        if depth is not None:
            near = np.square(depth).sum(axis=0) <= self.reach**2
            offsets[:, ~near] = 0.0
        offsets *= (2 * np.pi * self.spacing)[:, None]
        return tuple(offsets), near

    def angles_inside(self, X: Any) -> tuple[tuple[Array, ...], Array | None]:
        """Return angles of rows, and whether each row lies in the box up to rounding; None means that all do."""
        offsets, depth = self._offsets(X)
        inside = None
        if depth is not None:
            inside = (depth <= SLACK * (self.half + self.reach)[:, None]).all(axis=0)
            offsets[:, ~inside] = 0.0
        offsets *= (2 * np.pi * self.spacing)[:, None]
        return tuple(offsets), inside

    def _offsets(self, X: Any) -> tuple[Array, Array | None]:
        """Return offsets (d, n) of rows from the center, with gaps shortened, and distances from the box.

        None for the distances means that all rows lie in the box.
        """
        offsets = np.ascontiguousarray(self.summand.coordinates(X).T)
        inner = self._shorten(offsets)
        offsets -= self.center[:, None]
        low, high = offsets.min(axis=1, initial=0.0), offsets.max(axis=1, initial=0.0)
        if inner is None and (np.maximum(-low, high) <= self.half).all():
            return offsets, None
        with np.errstate(over="ignore"):
            depth = np.maximum(np.abs(offsets) - self.half[:, None], 0)
            return offsets, np.minimum(depth if inner is None else depth + inner, 1e150)

    @property
    def margins(self) -> Array:
        """The lengths (d,) by which the period exceeds the box, to which gaps are shortened."""
        return 1 / self.spacing - 2 * self.half

    def _shorten(self, u: Array) -> Array | None:
        """Shorten the gaps in coordinates (d, n), in place; return the distances from rows inside of gaps, or None."""
        if not any(len(g) for g in self.gaps):
            return None
        inner = np.zeros_like(u)
        for axis, gaps in enumerate(self.gaps):
            if len(gaps):
                start, stop = np.append(gaps[:, 0], np.inf), np.append(gaps[:, 1], np.inf)
                at = np.searchsorted(stop, u[axis], side="right")
                at = np.minimum(at, len(gaps))
                with np.errstate(invalid="ignore"):
                    inner[axis] = np.maximum(np.minimum(u[axis] - start[at], stop[at] - u[axis]), 0.0)
                behind = np.searchsorted(gaps.mean(axis=1), u[axis])
                removed = np.cumsum(gaps[:, 1] - gaps[:, 0] - self.margins[axis])
                u[axis] -= np.append(0.0, removed)[behind]
        return inner

    def check_bounds(self, low: Array, high: Array) -> None:
        """Raise if bounds of coordinates exceed the box by more than rounding."""
        slack = SLACK * (self.half + self.reach)
        removed = np.zeros(len(self.half))
        for axis, gaps in enumerate(self.gaps):
            removed[axis] = (gaps[:, 1] - gaps[:, 0] - self.margins[axis]).sum()
        least, largest = self.center - self.half, self.center + self.half + removed
        outside = (low < least - slack) | (high > largest + slack)
        if outside.any():
            axis = int(np.argmax(outside))
            self.raise_outside(f"{low[axis]:.6g} to {high[axis]:.6g} for coordinate {axis}")

    def raise_outside(self, got: str) -> None:
        """Raise because rows of a fit lie outside of the box."""
        box = ", ".join(f"{c - h:.6g} to {c + h:.6g}" for c, h in zip(self.center, self.half, strict=True))
        where = " with long gaps between rows shortened" if any(len(g) for g in self.gaps) else ""
        msg = (
            f"All rows of a fit must lie in the box of its grid, which is {box} in lengthscales{where}, got {got}. "
            "Give bounds= of GridFourier for all rows to be added, or fit to all rows at once."
        )
        raise DataError(msg)

    def waves(self, X: Any) -> tuple[Array, Array]:
        """Return exponentials exp(2 pi i (h j) . u) of rows (n, p), and whether each row is within reach of the box."""
        angles, near = self.angles(X)
        out = np.ones((len(near), len(self.index)), complex)
        for a, j in zip(angles, self.index.T, strict=True):
            m = int(np.abs(j).max(initial=0))
            out *= np.exp(1j * np.multiply.outer(a, np.arange(-m, m + 1)))[:, j + m]
        return out, near


def lowest_parts(
    summands: Sequence[Summand], boxes: Sequence[Box], n_components: int, tolerance: float
) -> tuple[GridPart, ...]:
    """Return the parts of a grid with at most `n_components` components in total, those of largest weights.

    Parameters
    ----------
    summands : sequence of Summand
        The summands of the kernel.
    boxes : sequence of Box
        Boxes of the coordinates of rows, one per summand.
    n_components : int
        Number of components; at least one per summand.
    tolerance : float
        Largest value of a periodic image of the kernel, for rows in the box.
    """
    pairs = (n_components - len(summands)) // 2
    parts = []
    for summand, box in zip(summands, boxes, strict=True):
        empty = part_without_frequencies(summand, box, tolerance)
        parts.append(with_frequencies(empty, lattice_ball(empty.spacing, pairs)))
    if len(parts) <= 1:
        return tuple(parts)
    weights = np.concatenate([part.weights[1:] for part in parts])
    owner = np.repeat(np.arange(len(parts)), [len(part.index) for part in parts])
    chosen = np.argsort(-weights, kind="stable")[:pairs]
    counts = np.bincount(owner[chosen], minlength=len(parts))
    return tuple(part.truncated(int(count)) for part, count in zip(parts, counts, strict=True))


def parts_above(
    summands: Sequence[Summand],
    boxes: Sequence[Box],
    level: float,
    tolerance: float,
    most: int,
    rest: float | None = None,
) -> tuple[tuple[GridPart, ...], float]:
    """Return the parts of a grid with all frequencies of weight >= level, and the largest weight that is left out.

    If `rest` is given, there are further frequencies, until the sum of the squares of the weights that are left out of
    a part, times the ratio of the volumes of a period and of the box, is at most `rest` times the mass of the part.
    There are no more than `most` components, so that the largest weight that is left out may exceed the level. See
    `lowest_parts` for the other parameters.
    """
    parts = []
    total, left = 0, 0.0
    for summand, box in zip(summands, boxes, strict=True):
        part = part_without_frequencies(summand, box, tolerance)
        radius = radius_of_level(part, level, most)
        if rest is not None:
            # Rows in a box that is less wide than a lengthscale are as dense as in one of this width.
            fill = float(np.prod(np.maximum(2 * part.half, 1.0) * part.spacing))
            radius = max(radius, tail_radius(summand.kernel, part.spacing, rest * fill / summand.mass))
        largest = largest_radius(part, most)
        left = max(left, weight_at(part, radius))
        index = half_ball(part.spacing, min(radius, largest))
        part = with_frequencies(part, lattice_ball(part.spacing, len(index)))
        total += part.n_components if radius <= largest else most + 1
        parts.append(part)
    if total <= most:
        return tuple(parts), left
    limited = lowest_parts(summands, boxes, most, tolerance)
    return limited, max(max(float(part.weights[-1]) for part in limited), left)


def largest_radius(part: GridPart, most: int) -> float:
    """Return the radius of a ball of somewhat more than `most` frequencies."""
    return float(np.exp(np.log(part.spacing).mean())) * (2.0 * most + 10) ** (1 / len(part.spacing))


def weight_at(part: GridPart, radius: float) -> float:
    """Return the weight of frequencies of some length."""
    axis = np.zeros((1, len(part.spacing)))
    axis[0, 0] = radius / part.spacing[0]
    return part.summand.mass * float(frequency_weights(part.summand.kernel, part.spacing, axis)[0])


def radius_of_level(part: GridPart, level: float, most: int) -> float:
    """Return the length of frequencies at which their weight is `level`, or that of a ball of about `most` points."""
    largest = largest_radius(part, most)
    if weight_at(part, largest) > level:
        return largest
    low, high = 0.0, largest
    while high - low > 1e-3 * largest / (most + 1) and high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if weight_at(part, middle) > level else (low, middle)
    return high


def part_without_frequencies(summand: Summand, box: Box, tolerance: float) -> GridPart:
    """Return the part of a grid for a box of coordinates, with frequency zero only.

    The period is the width of the box, with long gaps shortened, plus the distance at which the kernel has decayed to
    `tolerance`, so that periodic images of rows in the box do not matter; and at least twice the reach, so that those
    of rows within reach of the box are as far as the reach.
    """
    reach = decay_distance(summand.kernel, REACH_LEVEL)
    margin = margin_of(summand, tolerance)
    removed = np.array([(g[:, 1] - g[:, 0] - margin).sum() for g in box.gaps]) if box.gaps else 0.0
    half = (box.high - box.low - removed) / 2
    index = np.zeros((0, len(half)), np.int64)
    part = GridPart(summand, box.low + half, half, 1 / (2 * half + margin), reach, index, np.zeros(1), box.gaps)
    return with_frequencies(part, index)


def margin_of(summand: Summand, tolerance: float) -> float:
    """Return the distance, in lengthscales, by which periods exceed boxes, and to which gaps are shortened."""
    return max(decay_distance(summand.kernel, tolerance), 2 * decay_distance(summand.kernel, REACH_LEVEL))


def with_frequencies(part: GridPart, index: Array) -> GridPart:
    """Return the part with other frequencies."""
    complete = np.concatenate([np.zeros((1, index.shape[1])), index])
    weights = part.summand.mass * frequency_weights(part.summand.kernel, part.spacing, complete)
    return replace(part, index=index, weights=weights)


@dataclass(frozen=True, eq=False)
class GridFeatures(Features):
    """Features of a grid of frequencies: an optional constant, then the components of each part.

    The components of a part are sqrt(w_0), sqrt(2 w_j) cos(2 pi (h j) . u) and sqrt(2 w_j) sin(2 pi (h j) . u), for
    coordinates u of a row. If one component is left over, it is zero. The object is immutable and picklable, and does
    not depend on scikit-learn.
    """

    parts: tuple[GridPart, ...]
    constant: float  # value of a first component; zero means no such component
    n_components: int

    def astype(self, dtype: Any) -> Self:  # noqa: ARG002 - angles are computed in float64 for all rows
        """Return these features, which are the same for rows of all dtypes."""
        return self

    @property
    def width(self) -> int:
        """Number of components without those that are zero."""
        return sum(part.n_components for part in self.parts) + (self.constant > 0)

    def roots(self) -> Array:
        """Return the square roots of the weights of all components that are not zero."""
        first = [np.array([self.constant])] if self.constant else []
        return np.concatenate([*first, *(part.roots() for part in self.parts)])

    @property
    def rest(self) -> float:
        """The sum of the weights of all frequencies that are left out."""
        return sum(max(part.summand.mass - part.mass, 0.0) for part in self.parts)

    def unweighted(self) -> GridFeatures:
        """Return the features with all weights equal to one."""
        parts = tuple(replace(part, weights=np.ones_like(part.weights)) for part in self.parts)
        return replace(self, parts=parts, constant=float(self.constant > 0), n_components=self.width)

    def __call__(self, X: Any, out: Array) -> None:
        step = max(16, SLICE_ENTRIES // max(1, self.n_components))
        for start in range(0, X.shape[0], step):
            self._write(X[start : start + step], out[start : start + step])

    def _write(self, X: Any, out: Array) -> None:
        out[:, : int(self.constant > 0)] = self.constant
        at = int(self.constant > 0)
        for part in self.parts:
            p = len(part.index)
            waves, near = part.waves(X)
            waves *= np.sqrt(2 * part.weights[1:])
            waves[~near] = 0.0
            out[:, at] = np.sqrt(part.weights[0]) * near
            out[:, at + 1 : at + 1 + p] = waves.real
            out[:, at + 1 + p : at + 1 + 2 * p] = waves.imag
            at += part.n_components
        out[:, at:] = 0.0
