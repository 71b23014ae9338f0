"""What sampled pairs of rows say about the terms of a series: how large each is, and how well one column knows it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from mercer.errors import DataError
from mercer.kernels.power_series import SeriesPart
from mercer.theory.products import Pairs, ProjectionName, second_moment, sketch_variance

__all__ = ["MOST_DEGREES", "SampledPart", "Terms", "check_convergence", "terms_that_matter"]

Array = np.ndarray
# Terms of a series that are looked at: more only for rows next to the radius of convergence.
MOST_DEGREES = 400
# Degrees that all together are lighter than this part of the series on the sample are not tabled.
NEGLIGIBLE = 1e-8
# Products of two squared norms must have a square.
LARGEST_SQUARED_RADIUS = 1e75


@dataclass(frozen=True)
class Terms:
    """What sampled pairs of rows say about the terms of a series."""

    coefficients: Array  # a_0, a_1, ... up to the last degree that matters
    endless: bool  # whether the series goes on beyond them
    products: Array  # (degrees, degrees): mean products of the terms
    second: Array  # (degrees,): mean square of the estimate of a term by one real column
    linear_cost: float = field(default=math.inf, kw_only=True)  # columns that make the linear term exact

    @property
    def variances(self) -> Array:
        """Mean variances (degrees,) of the estimates of the terms by one real column each."""
        return np.maximum(self.second - np.diagonal(self.products), 0.0)

    @property
    def halves(self) -> int:
        """Real columns that share one draw, and so one random degree: two are the parts of a complex column."""
        return 1

    @property
    def shared(self) -> Array:
        """The like of `second` for columns of random degree: what halves have in common does not average out."""
        return self.second + (self.halves - 1) * np.diagonal(self.products)

    def mean_square(self, degrees: list[int]) -> float:
        """Return the mean square over the sampled pairs of the sum of some terms."""
        return float(self.products[np.ix_(degrees, degrees)].sum())

    def cost(self, n: int) -> float:
        """Return how many columns make degree n exact, none for a coefficient of zero."""
        if self.coefficients[n] == 0:
            return 0
        return 1 if n == 0 else self.linear_cost if n == 1 else math.inf

    def sketch_error(self, n: int, columns: int) -> float:
        """Return the mean variance of the estimate of a term by some columns of its degree."""
        return float(self.variances[n]) / columns


@dataclass(frozen=True)
class SampledPart(Terms):
    """The same for a series of inner products of rows."""

    part: SeriesPart
    pairs: Pairs  # of transformed rows, without their prefactors
    prefactors: Array  # s(x) s(y)
    weights: Array  # of the pairs, with sum one
    squared_radius: float  # of the longest row, without its prefactor
    projection: ProjectionName

    @classmethod
    def of(
        cls, part: SeriesPart, pairs: Pairs, prefactors: Array, weights: Array, projection: ProjectionName
    ) -> SampledPart:
        """Look at as many terms of the series as matter for these pairs."""
        squared_radius = float(max(pairs.left.max(initial=0.0), pairs.right.max(initial=0.0)))
        if not squared_radius < LARGEST_SQUARED_RADIUS:
            raise DataError(_overflow(squared_radius))
        check_convergence(part.series.radius, squared_radius)
        last = part.series.degree
        count = 16
        while True:
            count = min(count, MOST_DEGREES if last is None else last + 1)
            a = part.series.coefficients(count)
            powers, squares = _moments(a, pairs, prefactors, projection)
            second = squares @ weights
            if count == (MOST_DEGREES if last is None else last + 1) or terms_that_matter(second) < 3 * count // 4:
                break
            count *= 2
        # Constant and linear term are always there: "h01" makes them exact for rows unlike the sample, too.
        count = count if last is not None else max(terms_that_matter(second), 2)
        with np.errstate(over="ignore"):
            products = (powers[:count] * weights) @ powers[:count].T
        if not (np.isfinite(products).all() and np.isfinite(second[:count]).all()):
            raise DataError(_overflow(squared_radius))
        return cls(
            a[:count],
            last is None,
            products,
            second[:count],
            part,
            pairs,
            prefactors,
            weights,
            squared_radius,
            projection,
        )

    @property
    def halves(self) -> int:
        return 2 if self.projection == "complex" else 1

    def mean(self, values: Array) -> float:
        """Return the mean over the sampled pairs."""
        return float(values @ self.weights)

    def cost(self, n: int) -> int:
        """Return how many columns make degree n exact: one for each monomial."""
        return math.comb(self.pairs.width + n - 1, n) if self.coefficients[n] != 0 else 0

    def sketch_error(self, n: int, columns: int) -> float:
        # The allocation goes by single columns; the prediction knows how they lean on each other.
        with np.errstate(over="ignore", invalid="ignore"):
            variance = sketch_variance(self.projection, self.pairs, n, columns) * np.square(self.prefactors)
            error = self.mean(variance) * float(self.coefficients[n]) ** 2
        return error if np.isfinite(error) else math.inf

    def tail(self, last: int) -> float:
        """Return the sum of |a_n| R^2n over the degrees n above `last`."""
        a = np.abs(self.part.series.coefficients(MOST_DEGREES if self.endless else len(self.coefficients)))
        with np.errstate(divide="ignore", over="ignore", under="ignore"):
            terms = np.exp(np.log(a) + np.arange(len(a)) * math.log(max(self.squared_radius, 1e-300)))
        return float(terms[last + 1 :].sum())


def terms_that_matter(second: Array) -> int:
    """Return how many terms there are before those that together are negligible, at least one."""
    sizes = np.sqrt(second)
    from_here_on = np.cumsum(sizes[::-1])[::-1]
    heavy = np.flatnonzero(from_here_on > NEGLIGIBLE * sizes.sum())
    return int(heavy[-1]) + 1 if len(heavy) else 1


def _overflow(squared_radius: float) -> str:
    return (
        "RandomMaclaurin: the squares of the terms of the kernel overflow on these rows, the longest of which has "
        f"squared norm {squared_radius:.3g}. Scale the rows down, for example to unit norm."
    )


def check_convergence(radius: float, squared_radius: float) -> None:
    """Raise if rows so long are outside the domain of a series."""
    if squared_radius >= radius:
        msg = (
            f"a row has squared norm {squared_radius:.6g}, but the series of the kernel converges only below "
            f"{radius:.6g}. Scale the rows down, for example by {math.sqrt(0.9 * radius / squared_radius):.2g}."
        )
        raise DataError(msg)


def _moments(a: Array, pairs: Pairs, prefactors: Array, projection: ProjectionName) -> tuple[Array, Array]:
    """Return the terms (degrees, pairs), and the expected squares (degrees, pairs) of one column's estimates."""
    powers, squares = np.zeros((2, len(a), len(pairs.inner)))
    # Two real columns make a complex one, so a real column has twice its variance.
    columns = 2.0 if projection == "complex" else 1.0
    # Powers are taken of numbers up to one in size: a huge moment and a tiny prefactor must not meet as inf * 0.
    unit = np.sqrt(np.maximum(pairs.norms, 1e-300))
    relative = pairs.scaled(unit**-0.5, unit**-0.5)
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        log_scale = np.log(prefactors)
        for n in np.flatnonzero(a):
            scale = np.exp(math.log(abs(a[n])) + log_scale + n * np.log(unit))
            cosine = relative.inner ** int(n)
            moment = columns * (second_moment(projection, relative, int(n)) - cosine**2) + cosine**2
            powers[n] = np.sign(a[n]) * scale * cosine
            squares[n] = np.square(scale) * moment
    return powers, squares
