"""Features of f(k(x, y)) for a power series f and a kernel k that has a map (Kar, Karnick 2012, section 5)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from mercer._docs import doc
from mercer.errors import ParameterError
from mercer.features import Features, check_finite, features_of
from mercer.kernels import Composed, ExponentialDotProduct, Gaussian, Kernel, Scaled
from mercer.kernels.power_series import PowerSeries
from mercer.maps.algebra.copies import PILOT_ROWS, Sample, check_unsigned, draw_components, scalar_copies
from mercer.maps.base import BaseMap, DrawnMap, drawn_for
from mercer.maps.registry import explicit_map
from mercer.maps.series.allocation import optimal_strata
from mercer.maps.series.plans import DegreeDistribution, Plan, Stratum
from mercer.maps.series.terms import MAX_TERMS, GivenTerms, count_significant
from mercer.parameters import Choice, Domain, Interval

__all__ = ["CompositionFeatures", "CompositionMap"]

Array = np.ndarray
# Number of scalar maps (see the module `copies`) from which the moments of the inner map are estimated.
PILOT_COPIES = 1000
# Larger moments are replaced by this number, so that their sums are finite.
HUGE = 1e300


@doc
class CompositionMap(DrawnMap):
    r"""Features of f(k(x, y)) for a power series f and any kernel k that has an unbiased map.

    A component of degree n is a product :math:`z(x) = w_1(x) \cdots w_n(x)` of n independent one-component maps of k,
    so that :math:`\mathbb{E}[z(x) z(y)] = k(x, y)^n`. The degree of a component is random, or fixed for a group of
    components [1]_. The map of k, called the inner map, can be any unbiased map of this library or of your own.

    Parameters
    ----------
    kernel : Composed, default=None
        Kernel to approximate, written ``f @ k``, or a multiple of one; None means
        ``ExponentialDotProduct() @ Gaussian(lengthscale="median")``.
    %(n_components)s
    inner_map : BaseMap, default=None
        Unfitted map for k; None means the default map of k. Its `n_components` is used only to start the search for the
        number of components of the linear term. Products need unbiased maps of one component. If the single components
        of the inner map are biased, the sum of all its components with random signs is used instead.
    plan : {"optimal", "geometric"}, default="optimal"
        "optimal": the constant term is exact. The linear term has the components of one inner map, which is exact if
        this takes few components. The numbers of components for higher degrees are computed from variances that are
        estimated on a pilot sample. Terms of small variance share components of random degree. "geometric": every
        component has a random degree, as in [1]_.
    p : float, default=2.0
        Base of the geometric distribution of degrees for the plan "geometric", greater than 1. Degree n has the
        probability :math:`(p-1)/p^{n+1}`.
    %(random_state, n_jobs)s

    Attributes
    ----------
    plan_ : Plan
        Number of components for each degree, and the error predicted from a pilot sample.
    inner_map_ : BaseMap
        The unfitted map of k, from which independent maps were sampled.
    features_ : CompositionFeatures
        The sampled features: a function from rows to features.
    %(kernel_, n_features_in_)s

    See Also
    --------
    RandomMaclaurin : Features of power series of the inner product.
    SumMap : Features of a sum of kernels.
    ProductMap : Features of a product of kernels.

    Notes
    -----
    The map is unbiased if the inner map is unbiased; the attribute `unbiased` reports this. The error bounds of
    `mercer.theory` require in addition that the kernel k and its one-component maps are bounded and Lipschitz
    continuous. A Gaussian kernel with random Fourier features cos(w . x + b) has these properties.

    References
    ----------
    .. [1] Kar, Karnick (2012), Random Feature Maps for Dot Product Kernels, AISTATS, section 5.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import CompositionMap, ExponentialDotProduct, Gaussian
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> kernel = ExponentialDotProduct() @ Gaussian(3.0)
    >>> feature_map = CompositionMap(kernel, n_components=4096, random_state=0).fit(X)
    >>> bool(abs(feature_map.gram(X) - kernel(X)).mean() < 0.05)
    True
    """

    needs: ClassVar[str] = "a composition f @ k of a power series f and a kernel k that has an unbiased map"
    default_kernel: ClassVar[Kernel] = ExponentialDotProduct() @ Gaussian("median")
    parameter_domains: ClassVar[Mapping[str, Domain]] = {
        "plan": Choice("optimal", "geometric"),
        "p": Interval(1, closed="neither"),
    }
    features_: CompositionFeatures
    plan_: Plan
    inner_map_: DrawnMap

    def __init__(
        self,
        kernel: Kernel | None = None,
        n_components: int = 512,
        *,
        inner_map: BaseMap | None = None,
        plan: Literal["optimal", "geometric"] = "optimal",
        p: float = 2.0,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.inner_map = inner_map
        self.plan = plan
        self.p = p
        self.random_state = random_state
        self.n_jobs = n_jobs

    @classmethod
    def accepts(cls, kernel: Kernel) -> bool:
        composed, _ = composition_of(kernel)
        return composed is not None and explicit_map(composed.inner) is not None

    @property
    def unbiased(self) -> bool | str:
        inner = self.inner_map_ if hasattr(self, "inner_map_") else self.inner_map
        if inner is None or inner.unbiased is True:
            return True
        return f"the inner map is biased: {inner.unbiased}"

    @property
    def built_from_rows(self) -> bool:
        inner = self.inner_map_ if hasattr(self, "inner_map_") else self.inner_map
        return inner is not None and inner.built_from_rows

    def _rows_to_draw(self) -> int:
        kernel = self._accepted(self._kernel())
        return max(PILOT_ROWS, self._inner_map(kernel).rows_wanted())

    def _parts_accept(self, kernel: Kernel) -> bool:
        composed, _ = composition_of(kernel)
        if composed is None or self.inner_map is None:
            return False
        if not isinstance(self.inner_map, BaseMap):
            msg = f"CompositionMap: inner_map must be a mercer map such as RandomFourier(), got {self.inner_map!r}."
            raise ParameterError(msg)
        drawn_for(self.inner_map, composed.inner)._accepted(composed.inner)
        return True

    def _inner_map(self, kernel: Kernel) -> DrawnMap:
        composed, _ = composition_of(kernel)
        assert composed is not None
        if self.inner_map is not None:
            return drawn_for(self.inner_map, composed.inner)
        found = explicit_map(composed.inner)
        assert found is not None
        return found

    def _draw(self, kernel: Kernel, X: Any, weight: Array | None, rng: np.random.Generator) -> CompositionFeatures:
        composed, factor = composition_of(kernel)
        assert composed is not None
        series = composed.outer.series.scaled(factor)
        self.inner_map_ = self._inner_map(kernel)
        sample = Sample(X, weight, rng)
        pilot = sample.pilot()
        terms = self._terms(composed, series, sample, pilot)
        if self.plan == "geometric":
            degrees = [n for n in range(len(terms.coefficients)) if terms.coefficients[n] != 0]
            distribution = DegreeDistribution.geometric(float(self.p), 0)
            with np.errstate(over="ignore", divide="ignore"):
                probabilities = distribution.probability(np.array(degrees))
                second = min(float(np.sum(terms.second_moments[degrees] / probabilities)), HUGE)
            error = max(second - terms.mean_square(degrees), 0.0) / self.n_components
            stratum = Stratum(0, "random", tuple(degrees), self.n_components, distribution, error)
            strata: tuple[Stratum, ...] = (stratum,)
        else:
            strata = self._allocate(composed, terms, sample, pilot)
        scale = float(np.sqrt(terms.cross_moments.sum()))
        self.plan_ = Plan(self.plan, strata, self.n_components, scale=scale)
        return self._draw_strata(composed, series, sample)

    def _terms(self, kernel: Composed, series: PowerSeries, sample: Sample, pilot: tuple[Any, Array]) -> GivenTerms:
        """Return the terms a_n k^n of the series, with moments estimated from one-component maps of k on pilot rows."""
        rows, pair_weights = pilot
        copies = scalar_copies(self.inner_map_, kernel.inner, sample, PILOT_COPIES)
        W = features_of(copies.astype(np.float64), rows)
        kernel(rows)  # raises if it overflows
        k = kernel.inner(rows)
        # Estimated moments scatter; the second moment of a product is at least the square of its mean.
        moment = np.maximum(np.square(W) @ np.square(W).T / PILOT_COPIES, np.square(k))
        count = MAX_TERMS if series.degree is None else series.degree + 1
        a = series.coefficients(count)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            second = np.array(
                [a[n] ** 2 * float(np.sum(pair_weights * moment**n)) if a[n] else 0.0 for n in range(count)]
            )
        second = np.minimum(np.nan_to_num(second), HUGE)
        if series.degree is None:
            count = count_significant(second)
        powers = np.array([a[n] * k.ravel() ** n for n in range(count)])
        products = (powers * pair_weights.ravel()) @ powers.T
        exact = self.inner_map_.exact_components(kernel.inner, sample.X.shape[1])
        cost = math.inf if exact is None else exact
        return GivenTerms(a[:count], series.degree is None, products, second[:count], linear_cost=cost)

    def _allocate(
        self, kernel: Composed, terms: GivenTerms, sample: Sample, pilot: tuple[Any, Array]
    ) -> tuple[Stratum, ...]:
        """Return the strata (groups of components with the same degrees) that minimize the total variance.

        The linear term is estimated by one inner map with many components, or by components of random degree.
        """
        linear = len(terms.coefficients) > 1 and terms.coefficients[1] != 0
        width = min(self.inner_map_.n_components, terms.linear_cost)
        strata: tuple[Stratum, ...] = ()
        least = 0.0
        while linear:
            # The error need not be inversely proportional to the width: measure it at the width that would be used.
            found = terms.coefficients[1] ** 2 * self._linear_second(kernel, int(width), sample, pilot)
            least = max(least, found)
            second = np.where(np.arange(len(terms.second_moments)) == 1, least, terms.second_moments)
            strata = optimal_strata([replace(terms, second_moments=second)], self.n_components)
            [drawn] = [s for s in strata if 1 in s.degrees]
            if drawn.kind == "random":
                break  # with a random degree, the linear term has one-component maps, as `terms` assumes
            if drawn.kind == "exact" or 2 * drawn.n_components > width:
                return strata
            width = drawn.n_components
        return optimal_strata([terms], self.n_components)

    def _linear_second(self, kernel: Composed, width: int, sample: Sample, pilot: tuple[Any, Array]) -> float:
        """Return the mean of k^2 + width * (Z Z' - k)^2 over all pairs of pilot rows.

        Z is the matrix of features of the pilot rows, from a sampled inner map with `width` components.
        """
        rows, pair_weights = pilot
        drawn = draw_components(self.inner_map_, kernel.inner, sample, width)
        Z = features_of(drawn.astype(np.float64), rows)
        k = kernel.inner(rows)
        return float(np.sum(pair_weights * (np.square(k) + np.square(Z @ Z.T - k) * width)))

    def _draw_strata(self, kernel: Composed, series: PowerSeries, sample: Sample) -> CompositionFeatures:
        constant, linear = 0.0, None
        degrees, squares = [np.zeros(0, dtype=int)], [np.zeros(0)]
        for stratum in self.plan_.strata:
            m, n = stratum.n_components, stratum.degrees[0]
            if stratum.kind == "exact" and n == 0:
                constant = float(np.sqrt(series.coefficients(1)[0]))
            elif stratum.kind != "random" and n == 1:
                drawn_inner = draw_components(self.inner_map_, kernel.inner, sample, m)
                check_unsigned(self.inner_map_, drawn_inner)
                linear = (drawn_inner, float(np.sqrt(series.coefficients(2)[1])))
            else:
                drawn = np.full(m, n) if stratum.distribution is None else stratum.distribution.draw(m, sample.rng)
                probabilities = np.ones(m) if stratum.distribution is None else stratum.distribution.probability(drawn)
                square = series.coefficients(int(drawn.max()) + 1)[drawn] / (m * probabilities)
                degrees.append(np.where(square == 0, 0, drawn))
                squares.append(square)
        every, square = np.concatenate(degrees), np.concatenate(squares)
        order = np.argsort(-every, kind="stable")
        every, square = every[order], square[order]
        if (square < 0).any():
            msg = f"CompositionMap: {kernel.outer!r} has negative coefficients; there is no signed map of f @ k."
            raise ParameterError(msg)
        factors = tuple(
            scalar_copies(self.inner_map_, kernel.inner, sample, int((every > j).sum()))
            for j in range(int(every.max(initial=0)))
        )
        return CompositionFeatures(kernel, constant, linear, factors, np.sqrt(square), self.n_components)


@dataclass(frozen=True, eq=False)
class CompositionFeatures(Features):
    """Sampled features of f(k(x, y)).

    The components are a constant, a map of k for the linear term, and products of one-component maps of k. The products
    are sorted by decreasing degree. The object is immutable and independent of scikit-learn.
    """

    kernel: Composed
    constant: float  # value of an exact first component; zero means no such component
    linear: tuple[Features, float] | None  # map of k for the linear term, and the number that multiplies it
    factors: tuple[Features, ...]  # factor j multiplies the products of degree > j, which are the first ones
    scales: Array
    n_components: int

    def astype(self, dtype: Any) -> Self:
        linear = None if self.linear is None else (self.linear[0].astype(dtype), self.linear[1])
        factors = tuple(factor.astype(dtype) for factor in self.factors)
        return replace(self, linear=linear, factors=factors, scales=self.scales.astype(dtype))

    def __call__(self, X: Any, out: Array) -> None:
        if self.kernel.outer.radius < np.inf:
            self.kernel.diag(X)  # raises for rows outside the domain
        start = 0
        if self.constant:
            out[:, 0] = self.constant
            start = 1
        if self.linear is not None:
            features, scale = self.linear
            values = out[:, start : start + features.n_components]
            features(X, values)
            values *= scale
            start += features.n_components
        products = out[:, start:]
        products[:] = 0
        products[:, : len(self.scales)] = self.scales
        with np.errstate(over="ignore", invalid="ignore"):
            for factor in self.factors:
                products[:, : factor.n_components] *= features_of(factor, X)
        check_finite("CompositionMap", out)


def composition_of(kernel: Kernel) -> tuple[Composed | None, float]:
    """Return (f @ k, c) for a kernel that is c times a composition f @ k, and (None, c) for other kernels."""
    if isinstance(kernel, Scaled):
        composed, factor = composition_of(kernel.kernel)
        return composed, factor * kernel.weight
    return (kernel if isinstance(kernel, Composed) else None), 1.0
