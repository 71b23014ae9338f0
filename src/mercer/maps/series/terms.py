"""Moments of the terms of a power series on pairs of sampled rows.

Choosing a degree plan needs, for every term a_n (x . y)^n, the mean square of the term and the mean square of its
estimate by one random component. `Terms` is what `allocation` reads. `SampledTerms` computes the moments from sampled
rows, `anchored.AnchoredTerms` does so for the expansion about a direction, and `GivenTerms` holds moments that were
estimated elsewhere.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from mercer.errors import DataError
from mercer.kernels.power_series import SeriesPart
from mercer.theory.products import Pairs, ProjectionName, second_moment, sketch_variance

__all__ = [
    "MAX_TERMS",
    "GivenTerms",
    "SampledTerms",
    "Terms",
    "check_convergence",
    "components_per_draw",
    "count_monomials",
    "count_significant",
    "pair_weights",
    "second_moment_of_component",
]

Array = np.ndarray
# Number of terms of an infinite series that are examined. Only rows close to the radius of convergence need more.
MAX_TERMS = 400
# The last terms of an infinite series are ignored if all of them together are below this fraction of the series.
NEGLIGIBLE = 1e-8
# Squares of products of two squared norms must not overflow.
LARGEST_SQUARED_RADIUS = 1e75


@dataclass(frozen=True)
class Terms(ABC):
    """Moments of the terms of a series, as means over pairs of rows."""

    coefficients: Array  # (n_terms,): a_0, a_1, ... up to the last significant term
    infinite: bool  # whether the series has further terms
    cross_moments: Array  # (n_terms, n_terms): means of the products of two terms
    second_moments: Array  # (n_terms,): mean squares of the estimates of the terms by one real component
    # Number of real components that share one draw, and therefore one random degree.
    components_per_draw: int = field(default=1, kw_only=True)

    @property
    def variances(self) -> Array:
        """Mean variances (n_terms,) of the estimates of the terms by one real component each."""
        return np.maximum(self.second_moments - np.diagonal(self.cross_moments), 0.0)

    @property
    def shared_moments(self) -> Array:
        """The second moments (n_terms,) that apply to components of random degree.

        Components of the same draw have the same degree, so that averaging them does not reduce the variance due to the
        degree.
        """
        return self.second_moments + (self.components_per_draw - 1) * np.diagonal(self.cross_moments)

    def mean_square(self, degrees: list[int]) -> float:
        """Return the mean square of the sum of some of the terms."""
        return float(self.cross_moments[np.ix_(degrees, degrees)].sum())

    @abstractmethod
    def exact_cost(self, n: int) -> float:
        """Return the number of components that represent term n without error: 0 if its coefficient is zero."""

    @abstractmethod
    def sketch_error(self, n: int, m: int) -> float:
        """Return the mean variance of the estimate of term n by m components of its degree."""


@dataclass(frozen=True)
class GivenTerms(Terms):
    """Terms of which only the moments are known, with independent components and at most two exact terms."""

    linear_cost: float = field(default=math.inf, kw_only=True)  # number of components that make term 1 exact

    def exact_cost(self, n: int) -> float:
        if self.coefficients[n] == 0:
            return 0
        return 1 if n == 0 else self.linear_cost if n == 1 else math.inf

    def sketch_error(self, n: int, m: int) -> float:
        return float(self.variances[n]) / m


@dataclass(frozen=True)
class SampledTerms(Terms):
    """Terms of a series of inner products, with the sampled pairs of rows that their moments are computed from."""

    part: SeriesPart
    pairs: Pairs  # pairs of prepared rows, without their prefactors
    prefactors: Array  # (pairs,): s(x) s(y)
    weights: Array  # (pairs,): weights of the pairs, which sum to one
    squared_radius: float  # largest squared norm of a prepared row
    projection: ProjectionName

    @classmethod
    def of(
        cls, part: SeriesPart, pairs: Pairs, prefactors: Array, weights: Array, projection: ProjectionName
    ) -> SampledTerms:
        """Return the moments of all significant terms of a series on the given pairs."""
        squared_radius = float(max(pairs.left.max(initial=0.0), pairs.right.max(initial=0.0)))
        if not squared_radius < LARGEST_SQUARED_RADIUS:
            raise DataError(_overflow(squared_radius))
        check_convergence(part.series.radius, squared_radius)
        last = part.series.degree
        count = 16
        while True:
            count = min(count, MAX_TERMS if last is None else last + 1)
            a = part.series.coefficients(count)
            powers, squares = _term_moments(a, pairs, prefactors, projection)
            second = squares @ weights
            if count == (MAX_TERMS if last is None else last + 1) or count_significant(second) < 3 * count // 4:
                break
            count *= 2
        # Constant and linear term are always included: plan "h01" makes them exact for rows unlike the sample, too.
        count = count if last is not None else max(count_significant(second), 2)
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
            components_per_draw=components_per_draw(projection),
        )

    def mean(self, values: Array) -> float:
        """Return the weighted mean over the sampled pairs."""
        return float(values @ self.weights)

    def exact_cost(self, n: int) -> int:
        return count_monomials(self.pairs.width, n) if self.coefficients[n] != 0 else 0

    def sketch_error(self, n: int, m: int) -> float:
        # The allocation treats components as independent; this prediction includes their dependence.
        with np.errstate(over="ignore", invalid="ignore"):
            variance = sketch_variance(self.projection, self.pairs, n, m) * np.square(self.prefactors)
            error = self.mean(variance) * float(self.coefficients[n]) ** 2
        return error if np.isfinite(error) else math.inf

    def tail(self, last: int) -> float:
        """Return the sum of |a_n| R^2n over all degrees n > `last`, where R is the largest norm of a sampled row."""
        a = np.abs(self.part.series.coefficients(MAX_TERMS if self.infinite else len(self.coefficients)))
        with np.errstate(divide="ignore", over="ignore", under="ignore"):
            terms = np.exp(np.log(a) + np.arange(len(a)) * math.log(max(self.squared_radius, 1e-300)))
        return float(terms[last + 1 :].sum())


def components_per_draw(projection: ProjectionName) -> int:
    """Return the number of real components per draw: two for complex weights, the real and the imaginary part."""
    return 2 if projection == "complex" else 1


def count_monomials(width: int, n: int) -> int:
    """Return the number of monomials of degree n in `width` variables, which is binomial(width + n - 1, n)."""
    return math.comb(width + n - 1, n) if n else 1


def count_significant(second_moments: Array) -> int:
    """Return the number of terms up to the last significant one, at least one.

    The terms after it have second moments whose square roots sum to at most `NEGLIGIBLE` times the sum over all terms.
    """
    sizes = np.sqrt(second_moments)
    tails = np.cumsum(sizes[::-1])[::-1]
    significant = np.flatnonzero(tails > NEGLIGIBLE * sizes.sum())
    return int(significant[-1]) + 1 if len(significant) else 1


def pair_weights(weight: Array) -> tuple[tuple[Array, Array], Array]:
    """Return the indices (i, j) of all pairs of rows with i <= j, and the weights of the pairs, which sum to one.

    Pairs with i < j represent (j, i), too, and have twice the weight.
    """
    upper = np.triu_indices(len(weight))
    weights = (np.outer(weight, weight) * (2 - np.eye(len(weight))))[upper]
    return upper, weights / weights.sum()


def second_moment_of_component(projection: ProjectionName, pairs: Pairs, n: int, power: Array) -> Array:
    """Return the mean square of the estimate of ``power``, which is (x . y)^n, by one real component.

    The variance of a complex component is that of an average of two real ones, each of which has twice the variance.
    """
    return components_per_draw(projection) * (second_moment(projection, pairs, n) - power**2) + power**2


def check_convergence(radius: float, squared_radius: float) -> None:
    """Raise a DataError if rows of this squared norm are outside the disk of convergence of a series."""
    if squared_radius >= radius:
        msg = (
            f"a row has squared norm {squared_radius:.6g}, but the series of the kernel converges only below "
            f"{radius:.6g}. Scale the rows down, for example by {math.sqrt(0.9 * radius / squared_radius):.2g}."
        )
        raise DataError(msg)


def _overflow(squared_radius: float) -> str:
    return (
        "RandomMaclaurin: the squares of the terms of the kernel overflow on these rows, the longest of which has "
        f"squared norm {squared_radius:.3g}. Scale the rows down, for example to unit norm."
    )


def _term_moments(a: Array, pairs: Pairs, prefactors: Array, projection: ProjectionName) -> tuple[Array, Array]:
    """Return the terms and the mean squares of their estimates by one real component, both (n_terms, pairs)."""
    powers, squares = np.zeros((2, len(a), len(pairs.inner)))
    # Powers are taken of numbers of absolute value at most one, so that a large moment times a small prefactor does not
    # become inf * 0.
    unit = np.sqrt(np.maximum(pairs.norms, 1e-300))
    relative = pairs.scaled(unit**-0.5, unit**-0.5)
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        log_scale = np.log(prefactors)
        for n in np.flatnonzero(a):
            scale = np.exp(math.log(abs(a[n])) + log_scale + n * np.log(unit))
            cosine = relative.inner ** int(n)
            powers[n] = np.sign(a[n]) * scale * cosine
            squares[n] = np.square(scale) * second_moment_of_component(projection, relative, int(n), cosine)
    return powers, squares
