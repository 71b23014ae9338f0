r"""Expansion of a power series about one direction, which rows that are not centered share.

Rows with a large common part, such as counts, one-hot columns or columns scaled to [0, 1], make every power of their
inner product large and a random estimate of it poor. So split each row along a unit vector c and across it:
:math:`x = \alpha c + r`. Then :math:`x^\top y = \alpha\beta + r^\top s` and

.. math:: f(x^\top y) = \sum_n f_n(\alpha\beta)\, (r^\top s)^n, \qquad f_n(u) = f^{(n)}(u) / n!

where each :math:`f_n` is again a series of non-negative coefficients, of one variable: so it has exact features, and
few of them matter on the data. Only powers of the small inner products across c are left to chance. Still unbiased.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy import special

from mercer.kernels.power_series import PowerSeries
from mercer.maps.series.inputs import Preparation, PreparedRows
from mercer.maps.series.monomials import Monomials
from mercer.maps.series.plans import Stratum
from mercer.maps.series.projection_products import ColumnProducts
from mercer.maps.series.terms import Terms
from mercer.theory.products import Pairs, ProjectionName, second_moment, sketch_variance

__all__ = ["WIDEST", "AnchoredColumns", "AnchoredTerms"]

Array = np.ndarray
# Rows are rotated by a full matrix, d x d: not wider than this.
WIDEST = 2048


@dataclass(frozen=True)
class AnchoredTerms(Terms):
    """What sampled rows say about the terms f_nj(alpha) f_nj(beta) (r . s)^n of the expansion about a direction."""

    degrees: Array  # (terms,): n of each term
    polynomials: Array  # (powers, terms): coefficients of each f_nj in powers of alpha
    rotation: Array  # (d, d), orthogonal; the first column is the direction
    pairs: Pairs  # of the rows across the direction
    factors: Array  # (terms, pairs): f_nj(alpha) f_nj(beta)
    weights: Array  # of the pairs, with sum one
    projection: ProjectionName

    @classmethod
    def of(
        cls, rows: Array, weight: Array, series: PowerSeries, last: int, projection: ProjectionName
    ) -> AnchoredTerms:
        """Expand a series through a degree about the main direction of some rows.

        Terms stand in the order in which exact columns for them pay.
        """
        _, vectors = np.linalg.eigh((rows * weight[:, None]).T @ rows)
        rotation = np.ascontiguousarray(vectors[:, ::-1])
        rotation[:, 0] *= 1.0 if (rows @ rotation[:, 0]).sum() >= 0 else -1.0
        rotated = rows @ rotation
        upper = np.triu_indices(len(rows))
        weights = (np.outer(weight, weight) * (2 - np.eye(len(rows))))[upper]
        pairs = Pairs.all_of(rotated[:, 1:], rotated[:, 1:]).at(*upper)
        degrees, polynomials = cls._main_functions(rotated[:, 0], weight, series.coefficients(last + 1))
        functions = np.vander(rotated[:, 0], last + 1, increasing=True) @ polynomials
        factors = (functions[upper[0]] * functions[upper[1]]).T
        terms = cls(
            np.ones(len(degrees)), False, np.zeros((0, 0)), np.zeros(0), degrees, polynomials, rotation, pairs, factors,
            weights / weights.sum(), projection,
        )  # fmt: skip
        return terms._measured()

    @staticmethod
    def _main_functions(alpha: Array, weight: Array, a: Array) -> tuple[Array, Array]:
        """Return features of the kernels f_n of one variable, rotated so that few matter on the data.

        Their degrees (terms,), and their coefficients in powers of alpha (powers, terms).
        """
        count = len(a)
        powers = np.vander(alpha, count, increasing=True)
        degrees, polynomials = [], []
        for n in range(count):
            k = np.arange(count - n)
            roots = np.sqrt(a[n:] * special.binom(n + k, n))
            kept = np.flatnonzero(roots)
            if not len(kept):
                continue
            features = powers[:, kept] * roots[kept]
            _, basis = np.linalg.eigh((features * weight[:, None]).T @ features)
            block = np.zeros((count, len(kept)))
            block[kept] = roots[kept, None] * basis[:, ::-1]
            polynomials.append(block)
            degrees.append(np.full(block.shape[1], n))
        return np.concatenate(degrees), np.concatenate(polynomials, axis=1)

    def _measured(self) -> AnchoredTerms:
        """Return the terms with their moments on the pairs, in the order in which exact columns pay."""
        powers, second = np.zeros(self.factors.shape), np.zeros(len(self.degrees))
        columns = 2.0 if self.projection == "complex" else 1.0
        for n in np.unique(self.degrees):
            mine = self.degrees == n
            power = self.pairs.inner ** int(n)
            moment = columns * (second_moment(self.projection, self.pairs, int(n)) - power**2) + power**2
            powers[mine] = self.factors[mine] * power
            second[mine] = np.square(self.factors[mine]) @ (moment * self.weights)
        costs = np.array([self._monomials(int(n)) for n in self.degrees], dtype=float)
        order = np.argsort(-np.sqrt(second) / costs, kind="stable")
        products = (powers[order] * self.weights) @ powers[order].T
        return replace(
            self,
            products=products,
            second=second[order],
            degrees=self.degrees[order],
            polynomials=self.polynomials[:, order],
            factors=self.factors[order],
        )

    @property
    def halves(self) -> int:
        return 2 if self.projection == "complex" else 1

    def _monomials(self, n: int) -> int:
        return math.comb(self.pairs.width + n - 1, n) if n else 1

    def cost(self, n: int) -> int:
        """Return how many columns make a term exact."""
        return self._monomials(int(self.degrees[n]))

    def sketch_error(self, n: int, columns: int) -> float:
        variance = sketch_variance(self.projection, self.pairs, int(self.degrees[n]), columns)
        return float((np.square(self.factors[n]) * variance) @ self.weights)

    def by_degree(self, stratum: Stratum) -> Stratum:
        """Return a stratum of these terms with their degrees, as a plan shows them."""
        degrees = tuple(sorted({int(self.degrees[i]) for i in stratum.degrees}))
        return replace(stratum, degrees=degrees, terms=stratum.degrees)


@dataclass(frozen=True, eq=False)
class AnchoredColumns:
    """The drawn columns of a series expanded about a direction."""

    prepare: Preparation
    rotation: Array  # (d, d)
    polynomials: Array  # (powers, terms)
    degrees: Array  # (terms,)
    exact: tuple[int, ...]  # terms with all monomials, in the order of the columns
    products: tuple[tuple[ColumnProducts, Array], ...]  # drawn columns, and the term of each

    @property
    def n_components(self) -> int:
        return sum(self._sizes()) + sum(drawn.n_components for drawn, _ in self.products)

    def _sizes(self) -> list[int]:
        width = self.rotation.shape[0] - 1
        return [math.comb(width + int(n) - 1, int(n)) if n else 1 for n in self.degrees[list(self.exact)]]

    def astype(self, dtype: Any) -> Self:
        """Return the same draw for rows of another dtype."""
        return replace(
            self,
            prepare=self.prepare.astype(dtype),
            rotation=self.rotation.astype(dtype),
            polynomials=self.polynomials.astype(dtype),
            products=tuple((drawn.astype(dtype), terms) for drawn, terms in self.products),
        )

    def split(self, X: Any) -> tuple[PreparedRows, Array]:
        """Return rows across the direction, and the values (n, terms) of the functions of their parts along it."""
        rotated = self.prepare(X).dense @ self.rotation
        powers = np.vander(rotated[:, 0], len(self.polynomials), increasing=True)
        return PreparedRows(np.ascontiguousarray(rotated[:, 1:]), None, 0.0), powers @ self.polynomials

    def __call__(self, X: Any, out: Array) -> None:
        """Write the features of the rows of `X` into `out`."""
        rows, functions = self.split(X)
        start = 0
        monomials = {int(n): Monomials.of(rows.shape[1], {int(n): 1.0}) for n in set(self.degrees[list(self.exact)])}
        written: dict[int, Array] = {}
        for term, size in zip(self.exact, self._sizes(), strict=True):
            n = int(self.degrees[term])
            if n not in written:
                written[n] = np.empty((X.shape[0], size), out.dtype)
                monomials[n].astype(out.dtype)(rows, written[n])
            np.multiply(written[n], functions[:, term : term + 1], out=out[:, start : start + size])
            start += size
        for drawn, terms in self.products:
            columns = out[:, start : start + drawn.n_components]
            drawn(rows, columns)
            columns *= functions[:, terms]
            start += drawn.n_components
