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
from mercer.theory.fourier.grid import decay_distance, frequency_weights, grid_error, half_ball, lattice_ball

__all__ = ["NEEDS", "GridFeatures", "GridPart", "Summand", "lowest_parts", "parts_above", "summands_of"]

Array = np.ndarray
NEEDS = (
    "a kernel with a spectral density in closed form, Gaussian() or Matern(nu), or a sum of such kernels of one to "
    "three columns each; with nu >= 1 for two columns, and nu >= 3/2 for three"
)
# Rows outside of the box of the fit have features up to the distance at which the kernel has decayed to this level.
REACH_LEVEL = 0.01
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
class GridPart:
    """The frequencies of one summand, and the box of coordinates for which they were chosen.

    The components are a constant, cosines and sines, each of frequencies in order of decreasing weight.
    """

    summand: Summand
    center: Array  # (d,), of the box of coordinates
    half: Array  # (d,), half of its widths
    spacing: Array  # (d,), in cycles per lengthscale
    reach: float  # distance from the box, in lengthscales, beyond which features are zero
    index: Array  # (p, d), integer vectors j: frequencies are spacing * j, one of each pair
    weights: Array  # (1 + p,), weights of frequency zero and of these frequencies

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
        offsets = np.ascontiguousarray(self.summand.coordinates(X).T)
        offsets -= self.center[:, None]
        if self._inside(offsets):
            near = np.ones(X.shape[0], bool)
        else:
            with np.errstate(over="ignore"):
                gaps = np.maximum(np.abs(offsets) - self.half[:, None], 0)
                near = np.square(gaps).sum(axis=0) <= self.reach**2
            offsets[:, ~near] = 0.0
        offsets *= (2 * np.pi * self.spacing)[:, None]
        return tuple(offsets), near

    def angles_inside(self, X: Any) -> tuple[Array, ...]:
        """Return angles of rows of a fit; raise if rows lie outside of the box by more than rounding."""
        offsets = np.ascontiguousarray(self.summand.coordinates(X).T)
        offsets -= self.center[:, None]
        if not self._inside(offsets):
            self.check_bounds(offsets.min(axis=1) + self.center, offsets.max(axis=1) + self.center)
        offsets *= (2 * np.pi * self.spacing)[:, None]
        return tuple(offsets)

    def _inside(self, offsets: Array) -> bool:
        """Return whether all rows, as offsets (d, n) from the center, lie in the box."""
        low, high = offsets.min(axis=1, initial=0.0), offsets.max(axis=1, initial=0.0)
        return bool((np.maximum(-low, high) <= self.half).all())

    def check_bounds(self, low: Array, high: Array) -> None:
        """Raise if bounds of coordinates exceed the box by more than rounding."""
        slack = 1e-6 * (self.half + self.reach)
        outside = (low < self.center - self.half - slack) | (high > self.center + self.half + slack)
        if outside.any():
            axis = int(np.argmax(outside))
            span = f"{low[axis] - self.center[axis]:.3g} to {high[axis] - self.center[axis]:.3g}"
            msg = (
                f"All rows of a fit must lie in the box of its grid, +-{self.half[axis]:.3g} lengthscales around its "
                f"center, got {span} for coordinate {axis}. Give bounds= of GridFourier for all rows to be added."
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
    summands: Sequence[Summand], low: Sequence[Array], high: Sequence[Array], n_components: int, tolerance: float
) -> tuple[GridPart, ...]:
    """Return the parts of a grid with at most `n_components` components in total, those of largest weights.

    Parameters
    ----------
    summands : sequence of Summand
        The summands of the kernel.
    low, high : sequences of ndarrays of shape (d,)
        Boxes of the coordinates of rows, one per summand.
    n_components : int
        Number of components; at least one per summand.
    tolerance : float
        Largest value of a periodic image of the kernel, for rows in the box.
    """
    pairs = (n_components - len(summands)) // 2
    parts = []
    for summand, a, b in zip(summands, low, high, strict=True):
        empty = part_without_frequencies(summand, a, b, tolerance)
        parts.append(with_frequencies(empty, lattice_ball(empty.spacing, pairs)))
    if len(parts) <= 1:
        return tuple(parts)
    weights = np.concatenate([part.weights[1:] for part in parts])
    owner = np.repeat(np.arange(len(parts)), [len(part.index) for part in parts])
    chosen = np.argsort(-weights, kind="stable")[:pairs]
    counts = np.bincount(owner[chosen], minlength=len(parts))
    return tuple(part.truncated(int(count)) for part, count in zip(parts, counts, strict=True))


def parts_above(
    summands: Sequence[Summand], low: Sequence[Array], high: Sequence[Array], level: float, tolerance: float, most: int
) -> tuple[tuple[GridPart, ...], float]:
    """Return the parts of a grid with all frequencies of weight >= level, and the largest weight that is left out.

    There are no more than `most` components, so that the largest weight that is left out may exceed the level. See
    `lowest_parts` for the other parameters.
    """
    parts = []
    total = 0
    for summand, a, b in zip(summands, low, high, strict=True):
        part = part_without_frequencies(summand, a, b, tolerance)
        radius = radius_of_level(part, level, most)
        index = half_ball(part.spacing, radius)
        part = with_frequencies(part, lattice_ball(part.spacing, len(index)))
        total += part.n_components
        parts.append(part)
    if total <= most:
        return tuple(parts), level
    limited = lowest_parts(summands, low, high, most, tolerance)
    left = max(float(part.weights[-1]) for part in limited)
    return limited, max(left, level)


def radius_of_level(part: GridPart, level: float, most: int) -> float:
    """Return the length of frequencies at which their weight is `level`, or that of a ball of about `most` points."""
    d = len(part.spacing)
    largest = float(np.exp(np.log(part.spacing).mean())) * (2.0 * most + 10) ** (1 / d)
    axis = np.zeros((1, d))

    def weight(radius: float) -> float:
        axis[0, 0] = radius / part.spacing[0]
        return part.summand.mass * float(frequency_weights(part.summand.kernel, part.spacing, axis)[0])

    if weight(largest) > level:
        return largest
    low, high = 0.0, largest
    while high - low > 1e-3 * largest / (most + 1) and high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if weight(middle) > level else (low, middle)
    return high


def part_without_frequencies(summand: Summand, low: Array, high: Array, tolerance: float) -> GridPart:
    """Return the part of a grid for a box of coordinates, with frequency zero only.

    The period is the width of the box plus the distance at which the kernel has decayed to `tolerance`, so that
    periodic images of rows in the box do not matter; and at least twice the reach, so that those of rows within reach
    of the box are as far as the reach.
    """
    half = (high - low) / 2
    reach = decay_distance(summand.kernel, REACH_LEVEL)
    period = 2 * half + max(decay_distance(summand.kernel, tolerance), 2 * reach)
    index = np.zeros((0, len(half)), np.int64)
    part = GridPart(summand, low + half, half, 1 / period, reach, index, np.zeros(1))
    return with_frequencies(part, index)


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
