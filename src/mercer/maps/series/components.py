"""Drawn components of a degree plan: `MaclaurinFeatures` and the functions that draw its parts.

For each stratum of a plan, this module draws monomials (`monomials`) or products of projections
(`projection_products`) with the scales that make the estimate of the series unbiased.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from mercer.errors import ParameterError
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
    """Draw the components of one power series of rows with `d` features.

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
    """Draw the components of a power series that is expanded about a direction."""
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
    """Return the degree, the signed squared scale and the pairing of each draw of a stratum; see `pairing`.

    A draw of degree n has the squared scale a_n / P[N = n] times its share in the average.
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
    """Return the term, the squared scale and the pairing of each draw of a stratum of an anchored series."""
    paired, share = pairing(projection, stratum.n_components)
    if stratum.distribution is None:
        return np.full(len(share), stratum.terms[0]), share, paired
    index = stratum.distribution.draw(len(share), rng)
    return index, share / stratum.distribution.probability(index), paired


def _draw_summed(
    part: SeriesPart, stratum: Stratum, projection: ProjectionName, d: int, rng: np.random.Generator
) -> SummedProducts:
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
    """Drawn components of one power series."""

    radius: float  # of convergence
    prepare: Preparation
    groups: tuple[Monomials | ProjectionProducts, ...]

    @property
    def n_components(self) -> int:
        return sum(group.n_components for group in self.groups)

    def astype(self, dtype: Any) -> Self:
        """Return the same draw for rows of another dtype."""
        groups = tuple(group.astype(dtype) for group in self.groups)
        return replace(self, prepare=self.prepare.astype(dtype), groups=groups)

    def __call__(self, X: Any, out: Array) -> None:
        """Write the components of the rows of `X` into `out`."""
        rows = self.prepare(X)
        if self.radius < np.inf:
            check_convergence(self.radius, float(rows.squared_norms.max(initial=0.0)))
        start = 0
        for group in self.groups:
            group(rows, out[:, start : start + group.n_components])
            start += group.n_components


@dataclass(frozen=True, eq=False)
class MaclaurinFeatures(Features):
    """Drawn Maclaurin features: an immutable function of rows that does not depend on scikit-learn."""

    parts: tuple[SeriesComponents | AnchoredComponents, ...]
    n_components: int
    signs: Array | None

    def astype(self, dtype: Any) -> Self:
        """Return the same draw for rows of another dtype."""
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
