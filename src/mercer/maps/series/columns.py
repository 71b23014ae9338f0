"""The drawn columns of power series: what a degree plan becomes, and how it is applied to rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from mercer.errors import ParameterError
from mercer.features import Features, check_finite
from mercer.kernels.power_series import SeriesPart
from mercer.maps.series.anchored import AnchoredColumns, AnchoredTerms
from mercer.maps.series.inputs import Preparation
from mercer.maps.series.monomials import Monomials
from mercer.maps.series.plans import Stratum
from mercer.maps.series.projection_products import (
    ColumnProducts,
    HadamardProducts,
    SummedProducts,
    draw_products,
    pairing,
)
from mercer.maps.series.terms import check_convergence
from mercer.theory.products import ProjectionName

__all__ = ["MaclaurinFeatures", "PartColumns", "draw_anchored", "draw_part"]

Array = np.ndarray


def draw_part(
    part: SeriesPart, strata: list[Stratum], projection: ProjectionName, d: int, rng: np.random.Generator
) -> tuple[list[Monomials | ColumnProducts], Array]:
    """Draw the columns of one series, and return their signs, too."""
    columns: list[Monomials | ColumnProducts] = []
    signs: list[Array] = []
    exact = {n: part.series.coefficient(n) for s in strata if s.kind == "exact" for n in s.degrees}
    if exact:
        columns.append(Monomials.of(d, exact))
        signs += [np.full(s.columns, np.sign(exact[s.degrees[0]])) for s in strata if s.kind == "exact"]
    for stratum in strata:
        if stratum.kind == "summed":
            columns.append(_draw_summed(part, stratum, projection, d, rng))
            signs.append(np.ones(stratum.columns))
    sketched = [s for s in strata if s.kind == "sketched"]
    if projection == "srht":
        for stratum in sketched:
            n, m = stratum.degrees[0], stratum.columns
            a = part.series.coefficient(n)
            columns.append(HadamardProducts.draw(d, n, m, np.sqrt(abs(a) / m), rng))
            signs.append(np.full(m, np.sign(a)))
        sketched = []
    drawn = [_columns_of(part, s, projection, rng) for s in [*sketched, *(s for s in strata if s.kind == "random")]]
    if drawn:
        degrees, squares, paired = (np.concatenate(arrays) for arrays in zip(*drawn, strict=True))
        order = np.argsort(-degrees, kind="stable")
        degrees, squares, paired = degrees[order], squares[order], paired[order]
        sign = np.where(squares < 0, -1.0, 1.0)
        columns.append(draw_products(projection, d, degrees, np.sqrt(np.abs(squares)), paired, rng))
        signs.append(np.concatenate([sign, sign[paired]]))
    return columns, np.concatenate(signs) if signs else np.zeros(0)


def draw_anchored(
    terms: AnchoredTerms,
    strata: list[Stratum],
    projection: ProjectionName,
    prepare: Preparation,
    rng: np.random.Generator,
) -> AnchoredColumns:
    """Draw the columns of a series that is expanded about a direction."""
    exact = tuple(s.terms[0] for s in strata if s.kind == "exact")
    groups: list[tuple[ColumnProducts, Array]] = []
    d = terms.pairs.width
    sketched = [s for s in strata if s.kind == "sketched"]
    if projection == "srht":
        for s in sketched:
            n, m = s.degrees[0], s.columns
            groups.append((HadamardProducts.draw(d, n, m, m**-0.5, rng), np.full(m, s.terms[0])))
        sketched = []
    drawn = [_terms_of(s, projection, rng) for s in [*sketched, *(s for s in strata if s.kind == "random")]]
    if drawn:
        index, squares, paired = (np.concatenate(arrays) for arrays in zip(*drawn, strict=True))
        order = np.argsort(-terms.degrees[index], kind="stable")
        index, scales, paired = index[order], np.sqrt(squares[order]), paired[order]
        products = draw_products(projection, d, terms.degrees[index], scales, paired, rng)
        groups.append((products, np.concatenate([index, index[paired]])))
    return AnchoredColumns(prepare, terms.rotation, terms.polynomials, terms.degrees, exact, tuple(groups))


def _columns_of(
    part: SeriesPart, stratum: Stratum, projection: ProjectionName, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Return degree, signed squared scale and pairing of each (maybe complex) column of a stratum."""
    paired, share = pairing(projection, stratum.columns)
    if stratum.law is None:
        degrees = np.full(len(share), stratum.degrees[0])
        chances = np.ones(len(share))
    else:
        degrees = stratum.law.draw(len(share), rng)
        chances = stratum.law.chance(degrees)
    squares = share * part.series.coefficients(int(degrees.max()) + 1)[degrees] / chances
    return np.where(squares == 0, 0, degrees), squares, paired


def _terms_of(stratum: Stratum, projection: ProjectionName, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Return term, squared scale and pairing of each (maybe complex) column of a stratum of an anchored series."""
    paired, share = pairing(projection, stratum.columns)
    if stratum.law is None:
        return np.full(len(share), stratum.terms[0]), share, paired
    index = stratum.law.draw(len(share), rng)
    return index, share / stratum.law.chance(index), paired


def _draw_summed(
    part: SeriesPart, stratum: Stratum, projection: ProjectionName, d: int, rng: np.random.Generator
) -> SummedProducts:
    terms: list[ColumnProducts] = []
    for n in stratum.degrees:
        a, m = part.series.coefficient(n), stratum.columns
        if a < 0:
            msg = (
                f"plan='degrees' sums terms in one column, so all need one sign, but a_{n} = {a:.3g}. "
                "Use plan='optimal'."
            )
            raise ParameterError(msg)
        if projection == "srht" and n > 0:
            terms.append(HadamardProducts.draw(d, n, m, np.sqrt(a / m), rng))
            continue
        degrees, squares, paired = _columns_of(part, replace(stratum, degrees=(n,)), projection, rng)
        terms.append(draw_products(projection, d, degrees, np.sqrt(squares), paired, rng))
    return SummedProducts(tuple(terms))


@dataclass(frozen=True, eq=False)
class PartColumns:
    """The drawn columns of one series."""

    radius: float  # of convergence
    prepare: Preparation
    columns: tuple[Monomials | ColumnProducts, ...]

    @property
    def n_components(self) -> int:
        return sum(columns.n_components for columns in self.columns)

    def astype(self, dtype: Any) -> Self:
        """Return the same draw for rows of another dtype."""
        columns = tuple(c.astype(dtype) for c in self.columns)
        return replace(self, prepare=self.prepare.astype(dtype), columns=columns)

    def __call__(self, X: Any, out: Array) -> None:
        """Write the features of the rows of `X` into `out`."""
        rows = self.prepare(X)
        if self.radius < np.inf:
            check_convergence(self.radius, float(rows.squared_norms.max(initial=0.0)))
        start = 0
        for columns in self.columns:
            columns(rows, out[:, start : start + columns.n_components])
            start += columns.n_components


@dataclass(frozen=True, eq=False)
class MaclaurinFeatures(Features):
    """Drawn features of the series of a kernel: immutable, free of scikit-learn."""

    parts: tuple[PartColumns | AnchoredColumns, ...]
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
