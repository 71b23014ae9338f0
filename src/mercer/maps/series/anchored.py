r"""Anchored expansion of a power series: a Taylor expansion that is exact along a direction common to the rows.

Rows that are not centered, such as counts, one-hot encodings or features scaled to [0, 1], have a large common part.
Every power of their inner product is then large, and a random estimate of it has a large variance. Splitting each row
along a unit vector c, the anchor, as :math:`x = \alpha c + r` with :math:`r \perp c` gives
:math:`x^\top y = \alpha\beta + r^\top s`, and by Taylor's theorem

.. math:: f(x^\top y) = \sum_n f_n(\alpha\beta)\, (r^\top s)^n, \qquad f_n(u) = f^{(n)}(u) / n!

with :math:`y = \beta c + s`. Each :math:`f_n` is a power series in one variable with non-negative coefficients, and
:math:`f_n(\alpha\beta) = \sum_j f_{nj}(\alpha) f_{nj}(\beta)` with polynomials :math:`f_{nj}`, few of which are
significant on the data. These functions are evaluated exactly, so that only the powers of the small inner products
:math:`r^\top s` are estimated at random. The map stays unbiased.

A term is one product :math:`f_{nj}(\alpha) f_{nj}(\beta) (r^\top s)^n`. `AnchoredTerms` computes the moments of the
terms, from which the module `allocation` chooses a plan. `AnchoredComponents` evaluates the sampled components.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy import special

from mercer.kernels.power_series import PowerSeries
from mercer.maps.series.inputs import Preparation, PreparedRows
from mercer.maps.series.monomials import Monomials
from mercer.maps.series.plans import Stratum
from mercer.maps.series.projection_products import ProjectionProducts
from mercer.maps.series.terms import (
    Terms,
    components_per_draw,
    count_monomials,
    pair_weights,
    second_moment_of_component,
)
from mercer.theory.products import Pairs, ProjectionName, sketch_variance

__all__ = ["MAX_WIDTH", "AnchoredComponents", "AnchoredTerms"]

Array = np.ndarray
# Rows with more features are not split, because the rotation is a dense d x d matrix.
MAX_WIDTH = 2048


@dataclass(frozen=True)
class AnchoredTerms(Terms):
    r"""Moments of the terms :math:`f_{nj}(\alpha) f_{nj}(\beta) (r^\top s)^n` of an anchored expansion.

    Rows are :math:`x = \alpha c + r` and :math:`y = \beta c + s`, with r and s orthogonal to a unit vector c, the
    anchor. Several terms have the same degree n. A term is therefore identified by its index: where methods of `Terms`
    take a degree, those of this class take the index of a term.
    """

    degrees: Array  # (n_terms,): n of each term
    polynomials: Array  # (powers, n_terms): coefficients of each f_nj in powers of alpha
    rotation: Array  # (d, d), orthogonal; the first column is the anchor c
    pairs: Pairs  # inner products and norms of the parts r and s of the pairs of sampled rows
    factors: Array  # (n_terms, pairs): f_nj(alpha) f_nj(beta)
    weights: Array  # (pairs,): weights of the pairs, which sum to one
    projection: ProjectionName

    @classmethod
    def of(
        cls, rows: Array, weight: Array, series: PowerSeries, last: int, projection: ProjectionName
    ) -> AnchoredTerms:
        """Return the anchored expansion of a series up to degree `last`.

        The anchor is the leading principal direction of the rows, without centering.

        The terms are sorted by decreasing value of (root mean square of the random estimate of the term) / (number of
        exact components that would represent the term). So the terms for which exact components help most come first.

        Parameters
        ----------
        rows : ndarray of shape (n, d)
            Sampled rows.
        weight : ndarray of shape (n,)
            Weights of the rows.
        series : PowerSeries
            Series with non-negative coefficients.
        last : int
            Last degree of the expansion.
        projection : str
            Distribution of the weights of random projections.
        """
        _, vectors = np.linalg.eigh((rows * weight[:, None]).T @ rows)
        rotation = np.ascontiguousarray(vectors[:, ::-1])
        rotation[:, 0] *= 1.0 if (rows @ rotation[:, 0]).sum() >= 0 else -1.0
        rotated = rows @ rotation
        upper, weights = pair_weights(weight)
        pairs = Pairs.all_of(rotated[:, 1:], rotated[:, 1:]).at(*upper)
        degrees, polynomials = cls._main_functions(rotated[:, 0], weight, series.coefficients(last + 1))
        functions = np.vander(rotated[:, 0], last + 1, increasing=True) @ polynomials
        factors = (functions[upper[0]] * functions[upper[1]]).T
        terms = cls(
            np.ones(len(degrees)), False, np.zeros((0, 0)), np.zeros(0), degrees, polynomials, rotation, pairs, factors,
            weights, projection, components_per_draw=components_per_draw(projection),
        )  # fmt: skip
        return terms._with_moments()

    @staticmethod
    def _main_functions(alpha: Array, weight: Array, a: Array) -> tuple[Array, Array]:
        r"""Return polynomials :math:`f_{nj}` with :math:`f_n(\alpha\beta) = \sum_j f_{nj}(\alpha) f_{nj}(\beta)`.

        Here :math:`f_n(u) = \sum_k a_{n+k} \binom{n+k}{n} u^k`. For each n, the :math:`f_{nj}` are the principal
        components of the functions :math:`\sqrt{a_{n+k} \binom{n+k}{n}}\, \alpha^k` on the data.

        Parameters
        ----------
        alpha : ndarray of shape (n_rows,)
            Coordinates of the sampled rows along the anchor.
        weight : ndarray of shape (n_rows,)
            Weights of the rows.
        a : ndarray of shape (powers,)
            Coefficients of the power series.

        Returns
        -------
        degrees : ndarray of shape (n_terms,)
            Index n of each polynomial :math:`f_{nj}`.
        polynomials : ndarray of shape (powers, n_terms)
            Coefficients of each polynomial in powers of alpha.
        """
        count = len(a)
        powers = np.vander(alpha, count, increasing=True)
        degrees, polynomials = [], []
        for n in range(count):
            k = np.arange(count - n)
            roots = np.sqrt(a[n:] * special.binom(n + k, n))
            nonzero = np.flatnonzero(roots)
            if not len(nonzero):
                continue
            features = powers[:, nonzero] * roots[nonzero]
            _, basis = np.linalg.eigh((features * weight[:, None]).T @ features)
            block = np.zeros((count, len(nonzero)))
            block[nonzero] = roots[nonzero, None] * basis[:, ::-1]
            polynomials.append(block)
            degrees.append(np.full(block.shape[1], n))
        return np.concatenate(degrees), np.concatenate(polynomials, axis=1)

    def _with_moments(self) -> AnchoredTerms:
        """Return the terms in sorted order, with their moments computed on the sampled pairs of rows.

        The terms are sorted by decreasing value of (root mean square of the random estimate of the term) / (number of
        monomials that represent the term exactly).
        """
        powers, second = np.zeros(self.factors.shape), np.zeros(len(self.degrees))
        for n in np.unique(self.degrees):
            mine = self.degrees == n
            power = self.pairs.inner ** int(n)
            moment = second_moment_of_component(self.projection, self.pairs, int(n), power)
            powers[mine] = self.factors[mine] * power
            second[mine] = np.square(self.factors[mine]) @ (moment * self.weights)
        costs = np.array([count_monomials(self.pairs.width, int(n)) for n in self.degrees], dtype=float)
        order = np.argsort(-np.sqrt(second) / costs, kind="stable")
        products = (powers[order] * self.weights) @ powers[order].T
        return replace(
            self,
            cross_moments=products,
            second_moments=second[order],
            degrees=self.degrees[order],
            polynomials=self.polynomials[:, order],
            factors=self.factors[order],
        )

    def exact_cost(self, n: int) -> int:
        return count_monomials(self.pairs.width, int(self.degrees[n]))

    def sketch_error(self, n: int, m: int) -> float:
        variance = sketch_variance(self.projection, self.pairs, int(self.degrees[n]), m)
        return float((np.square(self.factors[n]) * variance) @ self.weights)

    def by_degree(self, stratum: Stratum) -> Stratum:
        """Return a copy of `stratum` whose field `degrees` has the degrees n of its terms instead of their indices.

        The module `allocation` identifies terms by index and stores the indices in `stratum.degrees`. The result has
        these indices in the field `terms`.
        """
        degrees = tuple(sorted({int(self.degrees[i]) for i in stratum.degrees}))
        return replace(stratum, degrees=degrees, terms=stratum.degrees)


@dataclass(frozen=True, eq=False)
class AnchoredComponents:
    """Sampled components of an anchored expansion into terms f_nj(alpha) f_nj(beta) (r . s)^n: a function of rows.

    For a row x = alpha c + r, with r orthogonal to the anchor c, a component of the term (n, j) is f_nj(alpha) times
    either a monomial of degree n in r or a product of n random projections of r.
    """

    prepare: Preparation
    rotation: Array  # (d, d), orthogonal; the first column is the anchor c
    polynomials: Array  # (powers, n_terms): coefficients of each f_nj in powers of alpha
    degrees: Array  # (n_terms,): n of each term
    exact: tuple[int, ...]  # indices of the terms represented by all monomials, in the order of the components
    # Random components, with the index of the term that each of them estimates.
    products: tuple[tuple[ProjectionProducts, Array], ...]

    @property
    def n_components(self) -> int:
        return sum(self._sizes()) + sum(drawn.n_components for drawn, _ in self.products)

    def _sizes(self) -> list[int]:
        """Return the number of monomials of each exact term."""
        width = self.rotation.shape[0] - 1
        return [count_monomials(width, int(n)) for n in self.degrees[list(self.exact)]]

    def astype(self, dtype: Any) -> Self:
        """Return the same components with all parameters converted to `dtype`, the dtype of the rows."""
        return replace(
            self,
            prepare=self.prepare.astype(dtype),
            rotation=self.rotation.astype(dtype),
            polynomials=self.polynomials.astype(dtype),
            products=tuple((drawn.astype(dtype), terms) for drawn, terms in self.products),
        )

    def split(self, X: Any) -> tuple[PreparedRows, Array]:
        """Split the rows into x = alpha c + r, with r orthogonal to the anchor c.

        Returns
        -------
        rows : PreparedRows of shape (n, d - 1)
            Coordinates of r.
        functions : ndarray of shape (n, n_terms)
            The values f_nj(alpha).
        """
        rotated = self.prepare(X).dense @ self.rotation
        powers = np.vander(rotated[:, 0], len(self.polynomials), increasing=True)
        return PreparedRows(np.ascontiguousarray(rotated[:, 1:]), None, 0.0), powers @ self.polynomials

    def __call__(self, X: Any, out: Array) -> None:
        """Write the components of the rows of `X` into `out`."""
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
            values = out[:, start : start + drawn.n_components]
            drawn(rows, values)
            values *= functions[:, terms]
            start += drawn.n_components
