"""Moments of the terms of a power series on pairs of sampled rows.

The module `allocation` chooses a degree plan from two moments of every term a_n (x . y)^n: the mean square of the term,
and the mean square of its random estimate a_n z(x) z(y). Here z is one random component, a product of n random
projections. With complex weights, a sampled product gives two real components, its real and its imaginary part.

`Terms` is the interface to these moments. `SampledTerms` computes them from sampled rows, and `anchored.AnchoredTerms`
computes them for an anchored expansion. `GivenTerms` holds moments that were estimated elsewhere.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from mercer.errors import DataError
from mercer.kernels.power_series import SeriesPart
from mercer.theory.products import Pairs, ProjectionName, ScaledPairs, second_moment, sketch_variance

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
# Largest number of terms of an infinite series that are considered. Only rows close to the radius of convergence need
# more.
MAX_TERMS = 400
# The last terms of an infinite series are ignored if their sizes (root mean squares of the estimates) sum to at most
# this fraction of the sum over all terms.
NEGLIGIBLE = 1e-8
# Largest squared norm |x|^2 of a row for which (|x|^2 |y|^2)^2 does not overflow float64.
LARGEST_SQUARED_RADIUS = 1e75


@dataclass(frozen=True)
class Terms(ABC):
    """Moments of the terms t_n(x, y) = a_n (x . y)^n of a power series, as means over pairs of rows x and y."""

    coefficients: Array  # (n_terms,): a_0, a_1, ... up to the last significant term
    infinite: bool  # whether the series has further terms
    cross_moments: Array  # (n_terms, n_terms): means of t_m t_n
    second_moments: Array  # (n_terms,): mean squares of the estimates of t_n by one real component
    # Real components per sampled product: 2 for complex weights, whose real and imaginary parts have the same random
    # degree, otherwise 1.
    components_per_draw: int = field(default=1, kw_only=True)

    @property
    def variances(self) -> Array:
        """Variance of the estimate of each term by one real component, averaged over pairs of rows: (n_terms,)."""
        return np.maximum(self.second_moments - np.diagonal(self.cross_moments), 0.0)

    @property
    def shared_moments(self) -> Array:
        """Second moments E[(estimate of t_n)^2] for components of random degree; shape (n_terms,).

        For real weights they equal `second_moments`. For complex weights they are larger by the mean square of t_n: the
        real and the imaginary part of a product have the same random degree, so that averaging the two parts does not
        reduce the variance due to the degree.
        """
        return self.second_moments + (self.components_per_draw - 1) * np.diagonal(self.cross_moments)

    def mean_square(self, degrees: list[int]) -> float:
        """Return the mean square, over pairs of rows, of the sum of the terms with the given degrees."""
        return float(self.cross_moments[np.ix_(degrees, degrees)].sum())

    @abstractmethod
    def exact_cost(self, n: int) -> float:
        """Return the number of components that represent term n without error, which is 0 if a_n = 0."""

    @abstractmethod
    def sketch_error(self, n: int, m: int) -> float:
        """Return the predicted squared error of an estimate of term n by the average over m random components.

        This is the variance of the average over random weights, as a mean over the pairs of rows.
        """


@dataclass(frozen=True)
class GivenTerms(Terms):
    """Terms whose moments are given as numbers, without the rows from which they were computed.

    Random components are assumed to be independent. Only the terms of degree 0 and 1 can have exact components.
    """

    linear_cost: float = field(default=math.inf, kw_only=True)  # number of exact components of term 1

    def exact_cost(self, n: int) -> float:
        if self.coefficients[n] == 0:
            return 0
        return 1 if n == 0 else self.linear_cost if n == 1 else math.inf

    def sketch_error(self, n: int, m: int) -> float:
        return float(self.variances[n]) / m


@dataclass(frozen=True)
class SampledTerms(Terms):
    """Terms s(x) s(y) a_n (x . y)^n of one power series of a kernel, with moments over pairs of sampled rows.

    The rows x and y are prepared rows, after an affine input map, and s is the prefactor of a row; see `inputs`.
    """

    part: SeriesPart
    pairs: ScaledPairs  # the pairs of prepared rows, with their prefactors
    weights: Array  # (pairs,): weights of the pairs, which sum to one
    squared_radius: float  # largest squared norm of a prepared row
    projection: ProjectionName

    @classmethod
    def of(cls, part: SeriesPart, pairs: ScaledPairs, weights: Array, projection: ProjectionName) -> SampledTerms:
        """Return the terms of a power series up to the last significant one, with their moments over pairs of rows.

        For a finite series, all terms are returned. For an infinite series, at least two and at most `MAX_TERMS` terms
        are returned. The function `count_significant` defines the last significant term.

        Parameters
        ----------
        part : SeriesPart
            The power series.
        pairs : ScaledPairs
            The pairs of prepared rows, with their prefactors.
        weights : ndarray of shape (n_pairs,)
            Weights of the pairs in the means, which sum to one.
        projection : str
            Distribution of the weights of random projections.

        Raises
        ------
        DataError
            If the series does not converge for a row, or a moment overflows.
        """
        squared_radius = pairs.squared_radius
        if not squared_radius < LARGEST_SQUARED_RADIUS:
            raise DataError(_overflow(squared_radius))
        check_convergence(part.series.radius, squared_radius)
        last = part.series.degree
        count = 16
        while True:
            count = min(count, MAX_TERMS if last is None else last + 1)
            a = part.series.coefficients(count)
            powers, squares = _term_moments(a, pairs, projection)
            second = squares @ weights
            if count == (MAX_TERMS if last is None else last + 1) or count_significant(second) < 3 * count // 4:
                break
            count *= 2
        # Constant and linear term are always included, because the plan "h01" makes them exact for all rows.
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
            weights,
            squared_radius,
            projection,
            components_per_draw=components_per_draw(projection),
        )

    def mean(self, values: Array) -> float:
        """Return the weighted mean of `values`, an array with one value for each sampled pair."""
        return float(values @ self.weights)

    def exact_cost(self, n: int) -> int:
        return count_monomials(self.pairs.width, n) if self.coefficients[n] != 0 else 0

    def sketch_error(self, n: int, m: int) -> float:
        # The allocation treats components as independent; this prediction includes their dependence.
        variance = np.maximum(sketch_variance(self.projection, self.pairs.directions, n, m), 0.0)
        with np.errstate(divide="ignore"):
            return self.mean(self.pairs.square(variance, (n, n), 2 * np.log(abs(self.coefficients[n]))))

    def tail(self, last: int) -> float:
        """Return the sum of |a_n| R^2n over all degrees n > `last`, where R is the largest norm of a sampled row."""
        a = np.abs(self.part.series.coefficients(MAX_TERMS if self.infinite else len(self.coefficients)))
        with np.errstate(divide="ignore", over="ignore", under="ignore"):
            terms = np.exp(np.log(a) + np.arange(len(a)) * math.log(max(self.squared_radius, 1e-300)))
        return float(terms[last + 1 :].sum())


def components_per_draw(projection: ProjectionName) -> int:
    """Return the number of real components per product: 2 for complex weights (real and imaginary part), else 1."""
    return 2 if projection == "complex" else 1


def count_monomials(width: int, n: int) -> int:
    """Return the number of monomials of degree n in `width` variables, which is binomial(width + n - 1, n)."""
    return math.comb(width + n - 1, n) if n else 1


def count_significant(second_moments: Array) -> int:
    r"""Return the number of terms up to the last significant one, which is at least 1.

    With the second moments :math:`s_i`, the last significant term is the largest n with
    :math:`\sum_{i \ge n} \sqrt{s_i} > \varepsilon \sum_i \sqrt{s_i}`, where :math:`\varepsilon` is `NEGLIGIBLE`.
    """
    sizes = np.sqrt(second_moments)
    tails = np.cumsum(sizes[::-1])[::-1]
    significant = np.flatnonzero(tails > NEGLIGIBLE * sizes.sum())
    return int(significant[-1]) + 1 if len(significant) else 1


def pair_weights(weight: Array) -> tuple[tuple[Array, Array], Array]:
    """Return all pairs (i, j) of rows with i <= j, and the weights of the pairs.

    The weight of a pair is proportional to weight[i] * weight[j], and to twice this product for i < j, because such a
    pair also represents (j, i).

    Returns
    -------
    (i, j) : tuple of ndarrays of int of shape (n_pairs,)
        Indices of the rows.
    weights : ndarray of shape (n_pairs,)
        Weights of the pairs, which sum to one.
    """
    upper = np.triu_indices(len(weight))
    weights = (np.outer(weight, weight) * (2 - np.eye(len(weight))))[upper]
    return upper, weights / weights.sum()


def second_moment_of_component(projection: ProjectionName, pairs: Pairs, n: int, power: Array) -> Array:
    """Return, for each pair of rows, the mean square of the estimate of (x . y)^n by one real component.

    The mean is over random weights. `power` has the values (x . y)^n.

    With complex weights, the estimate by the real and the imaginary part together has a variance V, which follows from
    `second_moment`. It is treated as the average of two independent real components, each of the variance 2 V.
    """
    return components_per_draw(projection) * (second_moment(projection, pairs, n) - power**2) + power**2


def check_convergence(radius: float, squared_radius: float) -> None:
    """Raise a DataError unless `squared_radius`, the largest squared norm of a row, is below `radius`.

    `radius` is the radius of convergence of the power series.
    """
    if squared_radius >= radius:
        msg = (
            f"a row has squared norm {squared_radius:.6g}, but the series of the kernel converges only below "
            f"{radius:.6g}. Scale the rows down, for example by {math.sqrt(0.9 * radius / squared_radius):.2g}."
        )
        raise DataError(msg)


def _overflow(squared_radius: float) -> str:
    """Return the error message for a moment that overflows; `squared_radius` is the largest squared norm of a row."""
    return (
        "RandomMaclaurin: the squares of the terms of the kernel overflow on these rows, the longest of which has "
        f"squared norm {squared_radius:.3g}. Scale the rows down, for example to unit norm."
    )


def _term_moments(a: Array, pairs: ScaledPairs, projection: ProjectionName) -> tuple[Array, Array]:
    """Return the values of all terms on all pairs of rows, and the mean squares of their random estimates.

    Returns
    -------
    powers : ndarray of shape (n_terms, n_pairs)
        The terms a_n s(x) s(y) (x . y)^n, where s(x) s(y) are the prefactors.
    squares : ndarray of shape (n_terms, n_pairs)
        Mean squares, over random weights, of the estimate of each term by one real component.
    """
    powers, squares = np.zeros((2, len(a), len(pairs.log_prefactors)))
    for n in np.flatnonzero(a):
        log_a = math.log(abs(a[n]))
        power = pairs.directions.inner ** int(n)
        moment = second_moment_of_component(projection, pairs.directions, int(n), power)
        powers[n] = pairs.term(int(n), log_a, float(np.sign(a[n])), power)
        squares[n] = pairs.square(np.maximum(moment, 0.0), (int(n), int(n)), 2 * log_a)
    return powers, squares
