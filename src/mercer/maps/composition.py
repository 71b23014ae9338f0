"""Features of a power series of any kernel that has a map: f(k(x, y)), the source's compositional kernels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from mercer.errors import DataError, ParameterError
from mercer.kernels import Composed, Exponential, Gaussian, Kernel
from mercer.maps.allocation import MOST_DEGREES, Terms, optimal_strata, terms_that_matter
from mercer.maps.base import BaseMap, Features, check_choice, explicit_map, for_kernel
from mercer.maps.copies import scalar_copies
from mercer.maps.plans import DegreeLaw, Plan, Stratum

__all__ = ["CompositionFeatures", "CompositionMap"]

Array = np.ndarray
# A pilot draw that tells the moments of the inner map: rows, and scalar copies.
PILOT_ROWS = 100
PILOT_COPIES = 1000


class CompositionMap(BaseMap):
    r"""Features of f(k(x, y)) for a power series f and any kernel k that has an unbiased map.

    A column of degree n multiplies n independent scalar maps of k, so that the product of two rows' values has mean
    :math:`k(x, y)^n`; degrees are drawn, or fixed for groups of columns [1]_. The inner map is a black box: any map of
    this library, or of your own, that is unbiased.

    Parameters
    ----------
    kernel : Composed, default=None
        Kernel to approximate, written ``f @ k``; None means ``Exponential() @ Gaussian(lengthscale="median")``.
    n_components : int, default=512
        Width of the output, from 1 up.
    inner_map : BaseMap, default=None
        Unfitted map for k; None takes the default map of k. Its width is that of the linear term; where a scalar map
        is wanted and the columns of this map are none, random sums of all its columns serve.
    plan : {"optimal", "geometric"}, default="optimal"
        Constant exact, a whole map for the linear term, columns for further degrees by their variance in a pilot draw,
        and some of random degree; or a random degree for each column, the source's.
    p : float, default=2.0
        Base of the geometric law: chance :math:`(p-1)/p^{n+1}` of degree n.
    random_state : int, Generator, RandomState or None, default=None
        Seed; an int makes repeated fits identical.
    n_jobs : int or None, default=None
        Threads of `transform`; None means all cores. The result does not depend on it.

    Attributes
    ----------
    plan_ : Plan
        Columns of each degree, and the error predicted from the pilot draw.
    inner_map_ : BaseMap
        The unfitted map from which copies were drawn.
    kernel_ : Kernel
        The kernel with every parameter a number.
    features_ : CompositionFeatures
        The drawn map: a pure function of rows.
    n_features_in_ : int
        Width of the rows seen in `fit`.

    Notes
    -----
    Unbiased if the inner map is; `unbiased` says so. The error bounds of `mercer.theory` need more: a bounded kernel k,
    bounded scalar maps, and both Lipschitz. Phase cosines of a Gaussian kernel are all of that.

    References
    ----------
    .. [1] Kar, Karnick (2012), Random Feature Maps for Dot Product Kernels, AISTATS, section 5.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import CompositionMap, Exponential, Gaussian
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> kernel = Exponential() @ Gaussian(3.0)
    >>> feature_map = CompositionMap(kernel, n_components=4096, random_state=0).fit(X)
    >>> bool(abs(feature_map.gram(X) - kernel(X)).mean() < 0.05)
    True
    """

    needs: ClassVar[str] = "a composition f @ k of a power series f and a kernel k that has an unbiased map"
    preference: ClassVar[int] = 72
    default_kernel: ClassVar[Kernel] = Exponential() @ Gaussian("median")
    features_: CompositionFeatures
    plan_: Plan
    inner_map_: BaseMap

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
        return isinstance(kernel, Composed) and explicit_map(kernel.inner) is not None

    @property
    def unbiased(self) -> bool | str:
        inner = self.inner_map_ if hasattr(self, "inner_map_") else self.inner_map
        if inner is None or inner.unbiased is True:
            return True
        return f"the inner map is biased: {inner.unbiased}"

    def rows_wanted(self) -> int:
        inner = self._inner_map(self._kernel())
        return max(super().rows_wanted(), PILOT_ROWS, inner.rows_wanted())

    def _accepted(self, kernel: Kernel) -> Kernel:
        # With an inner map of the user's own, that map decides.
        if isinstance(kernel, Composed) and self.inner_map is not None:
            if not isinstance(self.inner_map, BaseMap):
                msg = f"CompositionMap: inner_map must be a mercer map such as RandomFourier(), got {self.inner_map!r}."
                raise ParameterError(msg)
            for_kernel(self.inner_map, kernel.inner)._accepted(kernel.inner)
            return kernel
        return super()._accepted(kernel)

    def _inner_map(self, kernel: Kernel) -> BaseMap:
        assert isinstance(kernel, Composed)
        if self.inner_map is not None:
            return for_kernel(self.inner_map, kernel.inner)
        found = explicit_map(kernel.inner)
        assert found is not None
        return found

    def _draw(self, kernel: Kernel, X: Any, weight: Array | None, rng: np.random.Generator) -> CompositionFeatures:
        check_choice(self, "plan", ("optimal", "geometric"))
        if not (isinstance(self.p, int | float) and 1 < self.p < np.inf):
            msg = f"CompositionMap: p must be a number above 1, got {self.p!r}."
            raise ParameterError(msg)
        assert isinstance(kernel, Composed)
        self.inner_map_ = self._inner_map(kernel)
        terms, scale = self._look_at(kernel, X, weight, rng)
        if self.plan == "geometric":
            degrees = [n for n in range(len(terms.coefficients)) if terms.coefficients[n] != 0]
            law = DegreeLaw.geometric(float(self.p), 0)
            second = float(np.sum(terms.second[degrees] / law.chance(np.array(degrees))))
            error = max(second - terms.mean_square(degrees), 0.0) / self.n_components
            strata: tuple[Stratum, ...] = (Stratum(0, "random", tuple(degrees), self.n_components, law, error),)
        else:
            strata = optimal_strata([terms], self.n_components)
        self.plan_ = Plan(self.plan, strata, self.n_components, scale=scale)
        return self._draw_strata(kernel, X, weight, rng)

    def _look_at(self, kernel: Composed, X: Any, weight: Array | None, rng: np.random.Generator) -> tuple[Terms, float]:
        """Return what a pilot draw says about powers of the inner map, and the mean size of the kernel."""
        pilot = X[:PILOT_ROWS]
        W = np.empty((pilot.shape[0], PILOT_COPIES))
        copies = scalar_copies(self.inner_map_, kernel.inner, X, weight, PILOT_COPIES, rng)
        copies.astype(np.float64)(pilot.astype(np.float64), W)
        k = kernel.inner(pilot.astype(np.float64))
        # Moments of a finite pilot scatter; that of a product is at least the square of its mean.
        moment = np.maximum(np.square(W) @ np.square(W).T / PILOT_COPIES, np.square(k))
        linear = self._linear_moment(kernel, X, pilot, weight, k, rng)
        series = kernel.outer.series
        count = MOST_DEGREES if series.degree is None else series.degree + 1
        a = series.coefficients(count)
        with np.errstate(over="ignore", under="ignore"):
            second = np.array([a[n] ** 2 * float(np.mean(moment**n)) if a[n] else 0.0 for n in range(count)])
            if count > 1:
                second[1] = a[1] ** 2 * float(np.mean(linear))
        if series.degree is None:
            count = terms_that_matter(np.nan_to_num(second))
        powers = np.array([a[n] * k.ravel() ** n for n in range(count)])
        products = powers @ powers.T / powers.shape[1]
        terms = Terms(a[:count], series.degree is None, products, second[:count])
        return terms, float(np.sqrt(np.mean(np.square(kernel(pilot.astype(np.float64))))))

    def _linear_moment(
        self, kernel: Composed, X: Any, pilot: Any, weight: Array | None, k: Array, rng: np.random.Generator
    ) -> Array:
        """Return the square of the kernel plus the variance of a whole inner map, times its width."""
        inner = for_kernel(self.inner_map_, kernel.inner)
        features = inner._draw(kernel.inner, X, weight, rng).astype(np.float64)
        Z = np.empty((pilot.shape[0], features.n_components))
        features(pilot.astype(np.float64), Z)
        return np.square(k) + np.square(Z @ Z.T - k) * features.n_components

    def _draw_strata(
        self, kernel: Composed, X: Any, weight: Array | None, rng: np.random.Generator
    ) -> CompositionFeatures:
        constant, linear = 0.0, None
        degrees, squares = [np.zeros(0, dtype=int)], [np.zeros(0)]
        series = kernel.outer.series
        for stratum in self.plan_.strata:
            m, n = stratum.columns, stratum.degrees[0]
            if stratum.kind == "exact":
                constant = float(np.sqrt(series.coefficients(1)[0]))
            elif stratum.kind == "sketched" and n == 1:
                inner = for_kernel(self.inner_map_, kernel.inner).set_params(n_components=m)
                linear = (inner._draw(kernel.inner, X, weight, rng), float(np.sqrt(series.coefficients(2)[1])))
            else:
                drawn = np.full(m, n) if stratum.law is None else stratum.law.draw(m, rng)
                chances = np.ones(m) if stratum.law is None else stratum.law.chance(drawn)
                square = series.coefficients(int(drawn.max()) + 1)[drawn] / (m * chances)
                degrees.append(np.where(square == 0, 0, drawn))
                squares.append(square)
        every, square = np.concatenate(degrees), np.concatenate(squares)
        order = np.argsort(-every, kind="stable")
        every, square = every[order], square[order]
        if (square < 0).any():
            msg = f"CompositionMap: {kernel.outer!r} has negative coefficients, and there is no signed map of f @ k."
            raise ParameterError(msg)
        factors = tuple(
            scalar_copies(self.inner_map_, kernel.inner, X, weight, int((every > j).sum()), rng)
            for j in range(int(every.max(initial=0)))
        )
        return CompositionFeatures(constant, linear, factors, np.sqrt(square), self.n_components)


@dataclass(frozen=True, eq=False)
class CompositionFeatures:
    """Drawn products of scalar maps: immutable, free of scikit-learn. Columns of higher degree stand first."""

    constant: float  # value of an exact first column; zero means there is none
    linear: tuple[Features, float] | None  # a whole map and its scale
    factors: tuple[Features, ...]  # factor j has as many columns as there are of degree above j
    scales: Array
    n_components: int

    def astype(self, dtype: Any) -> Self:
        """Return the same draw for rows of another dtype."""
        linear = None if self.linear is None else (self.linear[0].astype(dtype), self.linear[1])
        factors = tuple(factor.astype(dtype) for factor in self.factors)
        return replace(self, linear=linear, factors=factors, scales=self.scales.astype(dtype))

    def output_dtype(self, dtype: Any) -> np.dtype:
        """Return the dtype of the features of rows of this dtype."""
        return np.dtype(dtype)

    def __call__(self, X: Any, out: Array) -> None:
        """Write the features of the rows of `X` into `out`."""
        start = 0
        if self.constant:
            out[:, 0] = self.constant
            start = 1
        if self.linear is not None:
            features, scale = self.linear
            columns = out[:, start : start + features.n_components]
            features(X, columns)
            columns *= scale
            start += features.n_components
        products = out[:, start:]
        products[:] = 0
        products[:, : len(self.scales)] = self.scales
        for factor in self.factors:
            columns = np.empty((X.shape[0], factor.n_components), out.dtype)
            factor(X, columns)
            products[:, : factor.n_components] *= columns
        if not np.isfinite(out.sum()) and not np.isfinite(out).all():
            msg = f"CompositionMap: features overflow {out.dtype}. Scale the rows down, or pass float64."
            raise DataError(msg)
