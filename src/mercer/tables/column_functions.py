"""Functions from rows to scaled columns: divided by their spread, with ranks, as principal components, or as ramps.

Each of them is fitted to a sample of rows, and does not depend on the units of the columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from mercer.engines import Block
from mercer.kernels.base import dense64
from mercer.kernels.spectral import SPACING
from mercer.metric.inputs import column_spreads

__all__ = [
    "ColumnFunction",
    "Components",
    "PlainColumns",
    "RampColumns",
    "RankedColumns",
    "ScaledRows",
    "principal_components",
]

Array = np.ndarray
# Largest number of points at which the ranks of a column are stored; between them ranks are interpolated.
MOST_KNOTS = 256
# A column gets ranks if they explain less than this share of its variance, and if it has this many different values.
# The share is 0.955 for a normal distribution and 1 for a uniform one.
LINEAR = 0.9
LEAST_VALUES = 4
# Standard deviation of a uniform distribution.
UNIFORM_DEVIATION = 12**-0.5
# Scaled columns are multiples of this number, which is far below what a model can resolve. The same columns in other
# units differ by rounding errors, which must not decide which of several rows at equal distances are near.
GRID = SPACING
# Largest number of ramps of a column, the least one, and the number of ramps of all columns.
MOST_RAMPS, LEAST_RAMPS, ALL_RAMPS = 64, 8, 1024
# Least width of a ramp, in spreads of its column.
LEAST_RAMP = 2.0**-20


def on_grid(values: Array) -> Array:
    """Round values, which are overwritten, to multiples of `GRID`."""
    values /= GRID
    np.rint(values, out=values)
    values *= GRID
    return values


class ColumnFunction(ABC):
    """Base class of fitted functions from rows (n, d) to rows (n, p) in float64."""

    @property
    @abstractmethod
    def names(self) -> tuple[tuple[int | None, str], ...]:
        """The column of `X` that each result comes from, or None, and what it is: "", "rank" or "component 3"."""

    @abstractmethod
    def __call__(self, X: Any) -> Any:
        """Return the scaled columns of rows."""


@dataclass(frozen=True, eq=False)
class PlainColumns(ColumnFunction):
    """Columns minus their median, divided by their spread. Columns that are constant are dropped.

    Sparse rows stay sparse, and nothing is subtracted from them.
    """

    columns: Array  # (p,), indices of the columns that are not constant
    center: Array | None  # (p,); None if rows are sparse
    scale: Array  # (p,)
    rounded: bool = False  # whether results are multiples of `GRID`

    @classmethod
    def unchanged(cls, d: int) -> Self:
        """Return the function that returns all d columns as they are."""
        return cls(np.arange(d), None, np.ones(d))

    @classmethod
    def of(cls, X: Any, weight: Array | None) -> Self:
        """Return the scaling by the spreads of columns over the rows of a sample."""
        center, spread = column_spreads(X, weight)
        columns = np.flatnonzero(spread > 0)
        return cls(columns, None if sp.issparse(X) else center[columns], spread[columns], rounded=True)

    @property
    def names(self) -> tuple[tuple[int | None, str], ...]:
        return tuple((int(column), "") for column in self.columns)

    def __call__(self, X: Any) -> Any:
        if len(self.columns) < X.shape[1]:
            X = X[:, self.columns]
        if sp.issparse(X) and self.center is None:
            scaled = (X.astype(np.float64) @ sp.diags_array(1 / self.scale)).tocsr()
            if self.rounded:
                on_grid(scaled.data)
            return scaled
        center = 0.0 if self.center is None else self.center
        scaled = dense64(X.toarray() if sp.issparse(X) else X) - center
        scaled /= self.scale
        return on_grid(scaled) if self.rounded else scaled


@dataclass(frozen=True, eq=False)
class RankedColumns(ColumnFunction):
    """Scaled columns, and in further columns the ranks of those whose distribution is far from uniform.

    A rank is the share of the rows of the sample with a lower value, in units of its standard deviation. With both,
    a learned metric can measure distances in the values of a column, in its ranks, or in a mixture.
    """

    plain: PlainColumns
    ranked: Array  # (r,), indices of the columns of `X` with ranks
    knots: tuple[Array, ...]  # values of each of them, ascending
    ranks: tuple[Array, ...]  # their ranks

    @classmethod
    def of(cls, X: Any, weight: Array | None) -> Self:
        """Return the scaling by the rows of a sample. Sparse rows get no ranks."""
        plain = PlainColumns.of(X, weight)
        out = cls(plain, np.zeros(0, int), (), ())
        if sp.issparse(X):
            return out
        share = np.full(X.shape[0], 1 / X.shape[0]) if weight is None else weight / weight.sum()
        found = [(j, *curve) for j in plain.columns if (curve := rank_curve(dense64(X[:, j]), share)) is not None]
        if not found:
            return out
        ranked, knots, ranks = zip(*found, strict=True)
        return replace(out, ranked=np.array(ranked), knots=knots, ranks=ranks)

    @property
    def names(self) -> tuple[tuple[int | None, str], ...]:
        return (*self.plain.names, *((int(column), "rank") for column in self.ranked))

    def __call__(self, X: Any) -> Any:
        scaled = self.plain(X)
        if not len(self.ranked):
            return scaled
        ranks = [
            np.interp(dense64(X[:, column]), knots, ranks)
            for column, knots, ranks in zip(self.ranked, self.knots, self.ranks, strict=True)
        ]
        return np.column_stack([scaled, *(map(on_grid, ranks) if self.plain.rounded else ranks)])


def rank_curve(x: Array, share: Array) -> tuple[Array, Array] | None:
    """Return values and their ranks, between which ranks are interpolated, or None if a column gets no ranks.

    Parameters
    ----------
    x : ndarray of shape (n,)
        The column.
    share : ndarray of shape (n,)
        Weights that sum to one.
    """
    values, inverse = np.unique(x, return_inverse=True)
    if len(values) < LEAST_VALUES:
        return None
    of_value = np.bincount(inverse, share)
    middle = np.cumsum(of_value) - 0.5 * of_value  # equal values have the mean of their ranks
    low, high = np.interp([0.01, 0.99], middle, values)
    clipped, ranks = np.clip(values, low, high), middle
    unit = max(high - low, np.finfo(float).tiny)
    clipped = (clipped - of_value @ clipped) / unit
    centered = ranks - of_value @ ranks
    covariance = of_value @ (clipped * centered)
    variances = (of_value @ np.square(clipped)) * (of_value @ np.square(centered))
    if not variances > 0 or covariance**2 > LINEAR * variances:
        return None
    if len(values) > MOST_KNOTS:
        chosen = np.unique(np.searchsorted(middle, np.linspace(middle[0], middle[-1], MOST_KNOTS)))
        values, ranks = values[chosen], ranks[chosen]
    return values, (ranks - 0.5) / UNIFORM_DEVIATION


@dataclass(frozen=True, eq=False)
class RampColumns(ColumnFunction):
    """Columns as ramps: a line through them is a sum of piecewise linear functions of single columns.

    A ramp rises from zero to one between two values of a column, and is constant elsewhere. There are as many rows
    between these values for all ramps of a column, except that values which many rows share count as few rows: of a
    column that is mostly zero, the other values have ramps, too. A column of two values has one ramp.
    """

    columns: Array  # (k,), indices of the columns that are not constant
    knots: tuple[Array, ...]  # of each of them, ascending

    @classmethod
    def of(cls, X: Any, weight: Array | None) -> Self:
        """Return the ramps by the rows of a sample."""
        spreads = column_spreads(X, weight)[1]
        columns = np.flatnonzero(spreads > 0)
        share = np.full(X.shape[0], 1 / X.shape[0]) if weight is None else weight / weight.sum()
        most = int(np.clip(ALL_RAMPS // max(1, len(columns)), LEAST_RAMPS, MOST_RAMPS))
        knots = (ramp_knots(dense64(X[:, j]), share, most, LEAST_RAMP * spreads[j]) for j in columns)
        return cls(columns, tuple(knots))

    @property
    def names(self) -> tuple[tuple[int | None, str], ...]:
        counted = zip(self.columns, self.knots, strict=True)
        return tuple((int(column), f"ramp {i}") for column, knots in counted for i in range(len(knots) - 1))

    def __call__(self, X: Any) -> Any:
        X = X.toarray() if sp.issparse(X) else X
        out = np.empty((X.shape[0], sum(len(knots) - 1 for knots in self.knots)))
        start = 0
        for column, knots in zip(self.columns, self.knots, strict=True):
            end = start + len(knots) - 1
            # Ramps share the variance of a column, so that its number of ramps does not decide on its penalty.
            unit = len(knots) - 1
            position = np.interp(dense64(X[:, column]), knots, np.arange(len(knots), dtype=np.float64))
            np.clip(position[:, None] - np.arange(unit), 0.0, 1.0, out=out[:, start:end])
            out[:, start:end] *= unit**-0.5
            start = end
        return on_grid(out)


def ramp_knots(x: Array, share: Array, most: int, apart: float) -> Array:
    """Return the values of a column between which ramps rise, at most `most` + 1 of them.

    Values that differ by less than `apart` from the one below are the same value: between two results of the same
    computation that differ by rounding, a ramp would be a step.
    """
    values, inverse = np.unique(x, return_inverse=True)
    if len(values) > 2:
        first = np.concatenate([[True], np.diff(values) >= apart])
        values, inverse = values[first], (np.cumsum(first) - 1)[inverse]
    if len(values) <= most + 1:
        return values
    of_value = np.bincount(inverse, share)
    capped = np.minimum(of_value, 1 / most)
    below = np.cumsum(capped) - 0.5 * capped
    # A rounding error of the shares must not matter where repeated rows and weights are to agree.
    levels = np.linspace(below[0], below[-1], most + 1) * (1 - 1e-12)
    return values[np.unique(np.searchsorted(below, levels))]


@dataclass(frozen=True, eq=False)
class Components(ColumnFunction):
    """Principal components of columns that are divided by their range.

    Columns of the same kind, such as pixels, have about the same range, and those that are rarely different from zero
    have a small variance.
    """

    plain: PlainColumns  # with ranges as scales
    mean: Array  # (k,)
    directions: Array  # (k, p)

    @property
    def names(self) -> tuple[tuple[int | None, str], ...]:
        return tuple((None, f"component {i}") for i in range(self.directions.shape[1]))

    def __call__(self, X: Any) -> Any:
        return (self.plain(X) - self.mean) @ self.directions


def principal_components(X: Array, weight: Array | None, n_components: int) -> Components:
    """Return the first principal components by the rows of a sample, in units of the mean spread of a component."""
    columns = np.flatnonzero(column_spreads(X, weight)[1] > 0)
    X = dense64(X[:, columns])
    least = X.min(axis=0)
    plain = PlainColumns(np.arange(X.shape[1]), least, X.max(axis=0) - least, rounded=True)
    share = np.full(len(X), 1 / len(X)) if weight is None else weight / weight.sum()
    Y = plain(X)
    mean = share @ Y
    Y = (Y - mean) * np.sqrt(share)[:, None]
    if len(Y) < Y.shape[1]:  # the eigenvectors of the smaller of the two matrices of products
        values, left = np.linalg.eigh(Y @ Y.T)
        vectors = Y.T @ (left / np.sqrt(np.maximum(values, np.finfo(float).tiny)))
    else:
        values, vectors = np.linalg.eigh(Y.T @ Y)
    rank = int((values > 1e-12 * values[-1]).sum())
    count = min(n_components, rank)
    values, vectors = values[::-1][:count], vectors[:, ::-1][:, :count]
    # An eigenvector is unique up to its sign.
    vectors = vectors * np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(count)])
    return Components(replace(plain, columns=columns), mean, vectors * np.sqrt(count / values.sum()))


@dataclass(frozen=True)
class ScaledRows:
    """Rule of a `FilteredEngine`: all rows, with scaled columns."""

    columns: ColumnFunction

    def __call__(self, block: Block) -> Block:
        return replace(block, X=self.columns(block.X))
