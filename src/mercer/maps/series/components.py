r"""Sampled components of a degree plan: `MaclaurinFeatures` and the functions that sample its parts.

A stratum of a plan (`plans.Stratum`) is a group of components and the terms :math:`a_n (x^\top y)^n` that they
represent. Exact strata consist of monomials (see the module `monomials`). All other strata consist of products of
random projections (see the module `projection_products`). A sampled product of degree n is
:math:`z(x) = \prod_{j \le n} w_j^\top x`, with :math:`\mathbb{E}[z(x)\, \overline{z(y)}] = (x^\top y)^n`. With complex
weights, a product gives two components, its real and its imaginary part. With real weights it gives one component. If
product i has a random degree :math:`N_i` and the weight :math:`c_i` in the average, with :math:`\sum_i c_i = 1`, an
unbiased estimate of the series is

.. math:: \sum_i q_i\, z_i(x)\, \overline{z_i(y)}, \qquad q_i = c_i\, a_n / P[N = n] \text{ for } n = N_i,

where P[N = n] = 1 for a fixed degree. So each product is multiplied by the scale :math:`\sqrt{|q_i|}`, and the sign of
:math:`q_i` is stored separately. In the code, `squares` are the numbers :math:`q_i`, and `share` are the :math:`c_i`.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from mercer.errors import MercerWarning, ParameterError
from mercer.features import Features, check_finite
from mercer.kernels.power_series import SeriesPart
from mercer.maps.series.anchored import AnchoredComponents, AnchoredTerms
from mercer.maps.series.inputs import Preparation
from mercer.maps.series.monomials import Monomials
from mercer.maps.series.plans import Stratum
from mercer.maps.series.projection_products import (
    HadamardProducts,
    ProjectionProducts,
    SummedProducts,
    draw_products,
    pairing,
)
from mercer.maps.series.terms import check_convergence
from mercer.theory.products import ProjectionName

__all__ = ["MaclaurinFeatures", "SeriesComponents", "draw_anchored", "draw_series"]

Array = np.ndarray


def draw_series(
    part: SeriesPart, strata: list[Stratum], projection: ProjectionName, d: int, rng: np.random.Generator
) -> tuple[list[Monomials | ProjectionProducts], Array]:
    """Sample the components of one power series, for rows with `d` input features.

    Parameters
    ----------
    part : SeriesPart
        The power series.
    strata : list of Stratum
        Groups of components to sample, from a plan.
    projection : str
        Distribution of the weights of random projections.
    d : int
        Number of features of the prepared rows.
    rng : Generator
        Source of random numbers.

    Returns
    -------
    components : list
        Groups of components, in the order of the output.
    signs : ndarray of +-1
        Sign of the coefficient of each component.
    """
    components: list[Monomials | ProjectionProducts] = []
    signs: list[Array] = []
    exact = {n: part.series.coefficient(n) for s in strata if s.kind == "exact" for n in s.degrees}
    if exact:
        components.append(Monomials.of(d, exact))
        signs += [np.full(s.n_components, np.sign(exact[s.degrees[0]])) for s in strata if s.kind == "exact"]
    for stratum in strata:
        if stratum.kind == "summed":
            components.append(_draw_summed(part, stratum, projection, d, rng))
            signs.append(np.ones(stratum.n_components))
    sketched = [s for s in strata if s.kind == "sketched"]
    if projection == "srht":
        for stratum in sketched:
            n, m = stratum.degrees[0], stratum.n_components
            a = part.series.coefficient(n)
            components.append(HadamardProducts.draw(d, n, m, np.sqrt(abs(a) / m), rng))
            signs.append(np.full(m, np.sign(a)))
        sketched = []
    drawn = [_draw_degrees(part, s, projection, rng) for s in [*sketched, *(s for s in strata if s.kind == "random")]]
    if drawn:
        degrees, squares, paired = (np.concatenate(arrays) for arrays in zip(*drawn, strict=True))
        order = np.argsort(-degrees, kind="stable")
        degrees, squares, paired = degrees[order], squares[order], paired[order]
        sign = np.where(squares < 0, -1.0, 1.0)
        components.append(draw_products(projection, d, degrees, np.sqrt(np.abs(squares)), paired, rng))
        signs.append(np.concatenate([sign, sign[paired]]))
    return components, np.concatenate(signs) if signs else np.zeros(0)


def draw_anchored(
    terms: AnchoredTerms,
    strata: list[Stratum],
    projection: ProjectionName,
    prepare: Preparation,
    rng: np.random.Generator,
) -> AnchoredComponents:
    """Sample the components of an anchored expansion.

    The expansion has the terms f_nj(alpha) f_nj(beta) (r . s)^n, which the module `anchored` defines.
    """
    exact = tuple(s.terms[0] for s in strata if s.kind == "exact")
    groups: list[tuple[ProjectionProducts, Array]] = []
    d = terms.pairs.width
    sketched = [s for s in strata if s.kind == "sketched"]
    if projection == "srht":
        for s in sketched:
            n, m = s.degrees[0], s.n_components
            groups.append((HadamardProducts.draw(d, n, m, m**-0.5, rng), np.full(m, s.terms[0])))
        sketched = []
    drawn = [_draw_terms(s, projection, rng) for s in [*sketched, *(s for s in strata if s.kind == "random")]]
    if drawn:
        index, squares, paired = (np.concatenate(arrays) for arrays in zip(*drawn, strict=True))
        order = np.argsort(-terms.degrees[index], kind="stable")
        index, scales, paired = index[order], np.sqrt(squares[order]), paired[order]
        products = draw_products(projection, d, terms.degrees[index], scales, paired, rng)
        groups.append((products, np.concatenate([index, index[paired]])))
    return AnchoredComponents(prepare, terms.rotation, terms.polynomials, terms.degrees, exact, tuple(groups))


def _draw_degrees(
    part: SeriesPart, stratum: Stratum, projection: ProjectionName, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Sample the degrees of the products of one stratum. Return the arguments with which `draw_products` samples them.

    Returns
    -------
    degrees : ndarray of int of shape (n_products,)
        Degree n of each product: the degree of the stratum, or random if the stratum has a distribution of degrees.
        Products with a_n = 0 get degree 0.
    squares : ndarray of shape (n_products,)
        a_n / P[N = n] times the weight of the product in the average over the stratum. A product is later multiplied by
        sqrt(abs(square)).
    paired : ndarray of bool of shape (n_products,)
        Whether the product gives two components, its real and its imaginary part, instead of one; see `pairing`.
    """
    paired, share = pairing(projection, stratum.n_components)
    if stratum.distribution is None:
        degrees = np.full(len(share), stratum.degrees[0])
        probabilities = np.ones(len(share))
    else:
        degrees = stratum.distribution.draw(len(share), rng)
        probabilities = stratum.distribution.probability(degrees)
    squares = share * part.series.coefficients(int(degrees.max()) + 1)[degrees] / probabilities
    return np.where(squares == 0, 0, degrees), squares, paired


def _draw_terms(stratum: Stratum, projection: ProjectionName, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Sample, for each product of one stratum of an anchored expansion, the term that the product estimates.

    The terms are f_nj(alpha) f_nj(beta) (r . s)^n, which the module `anchored` defines.

    Returns
    -------
    index : ndarray of int of shape (n_products,)
        Index of the term that each product estimates. It is the only term of the stratum, or a random term if the
        stratum has a distribution of terms.
    squares : ndarray of shape (n_products,)
        1 / P[term] times the weight of the product in the average over the stratum. A product is later multiplied by
        sqrt(square).
    paired : ndarray of bool of shape (n_products,)
        Whether the product gives two components, its real and its imaginary part, instead of one; see `pairing`.
    """
    paired, share = pairing(projection, stratum.n_components)
    if stratum.distribution is None:
        return np.full(len(share), stratum.terms[0]), share, paired
    index = stratum.distribution.draw(len(share), rng)
    return index, share / stratum.distribution.probability(index), paired


def _draw_summed(
    part: SeriesPart, stratum: Stratum, projection: ProjectionName, d: int, rng: np.random.Generator
) -> SummedProducts:
    """Sample components that are sums over all degrees n of a stratum, with one product of n projections per degree.

    The products of degree n are scaled so that they estimate a_n (x . y)^n without bias.

    Raises
    ------
    ParameterError
        If a coefficient a_n is negative.
    """
    terms: list[ProjectionProducts] = []
    for n in stratum.degrees:
        a, m = part.series.coefficient(n), stratum.n_components
        if a < 0:
            msg = (
                "RandomMaclaurin: plan='degrees' sums all terms in every component and needs coefficients of one sign, "
                f"got a_{n} = {a:.3g}. Use plan='optimal'."
            )
            raise ParameterError(msg)
        if projection == "srht" and n > 0:
            terms.append(HadamardProducts.draw(d, n, m, np.sqrt(a / m), rng))
            continue
        degrees, squares, paired = _draw_degrees(part, replace(stratum, degrees=(n,)), projection, rng)
        terms.append(draw_products(projection, d, degrees, np.sqrt(squares), paired, rng))
    return SummedProducts(tuple(terms))


@dataclass(frozen=True, eq=False)
class SeriesComponents:
    """Sampled components of one power series, as a callable that maps rows to values of the components."""

    radius: float  # radius of convergence of the series
    prepare: Preparation
    groups: tuple[Monomials | ProjectionProducts, ...]
    reach: float = np.inf  # squared norm of prepared rows above which the estimate of k(x, x) is useless

    @property
    def n_components(self) -> int:
        return sum(group.n_components for group in self.groups)

    def astype(self, dtype: Any) -> Self:
        """Return the same components with all parameters converted to `dtype`, the dtype of the rows."""
        groups = tuple(group.astype(dtype) for group in self.groups)
        return replace(self, prepare=self.prepare.astype(dtype), groups=groups)

    def __call__(self, X: Any, out: Array) -> None:
        """Write the components of the rows of `X` into `out`."""
        rows = self.prepare(X)
        if self.radius < np.inf:
            check_convergence(self.radius, float(rows.squared_norms.max(initial=0.0)))
        if self.reach < np.inf and float(rows.squared_norms.max(initial=0.0)) > self.reach:
            # The text does not depend on the rows, so that it is shown once and not for every block.
            center = "their center" if self.prepare.shift is not None else "the origin"
            msg = (
                f"RandomMaclaurin: some rows are farther than {math.sqrt(self.reach):.3g} from {center}, beyond the "
                "reach of the series, which was planned for a sample of the rows of the fit. For them the standard "
                "deviation of the approximate k(x, x) is larger than k(x, x). Use a map whose error is bounded, such "
                "as RandomFourier for a Gaussian kernel, or Nystroem; or fit the map to more rows like these."
            )
            warnings.warn(msg, MercerWarning, stacklevel=2)
        start = 0
        for group in self.groups:
            group(rows, out[:, start : start + group.n_components])
            start += group.n_components


@dataclass(frozen=True, eq=False)
class MaclaurinFeatures(Features):
    """Sampled Maclaurin features: an immutable callable that maps rows to features, independent of scikit-learn."""

    parts: tuple[SeriesComponents | AnchoredComponents, ...]
    n_components: int  # the components after those of all parts are zero
    signs: Array | None  # sign +-1 of each component in the kernel; None if all are positive

    def astype(self, dtype: Any) -> Self:
        """Return the same components with all parameters converted to `dtype`, the dtype of the rows."""
        return replace(self, parts=tuple(part.astype(dtype) for part in self.parts))

    def __call__(self, X: Any, out: Array) -> None:
        """Write the features of the rows of `X` into `out`."""
        start = 0
        with np.errstate(over="ignore", invalid="ignore"):
            for part in self.parts:
                part(X, out[:, start : start + part.n_components])
                start += part.n_components
            out[:, start:] = 0
        check_finite("RandomMaclaurin", out)
