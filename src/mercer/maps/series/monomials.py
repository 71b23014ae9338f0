"""Exact components for powers of the inner product: all monomials of a degree.

By the multinomial theorem, (x . y)^n is the sum over all monomials of degree n of the multinomial coefficient times the
product of the monomial's values at x and at y. For degrees with too many monomials, the module `projection_products`
has random components.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import comb
from typing import Any, Self

import numpy as np

from mercer.maps.series.inputs import PreparedRows

__all__ = ["Monomials"]

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Monomials:
    """All monomials of some degrees n, scaled so that their inner product is the sum of |a_n| (x . y)^n without error.

    The monomials of degree n are in lexicographic order. Those that begin with x_i are x_i times the monomials of
    degree n - 1 in the variables x_i, x_{i+1}, ... only. The latter are the last ones in the order of degree n - 1.
    """

    width: int  # number of variables
    # For each degree n, the square roots of |a_n| times the multinomial coefficients; None for degrees left out.
    factors: tuple[Array | None, ...]

    def __post_init__(self) -> None:
        # The number of monomials grows with the degree, so that those of the last degree bound all others.
        degree = len(self.factors) - 1
        last = self.factors[-1] if self.factors else None
        if degree > 1 and (last is None or len(last) != comb(self.width + degree - 1, degree)):
            msg = f"Monomials: there must be a factor for each monomial of degree {degree} in {self.width} variables."
            raise ValueError(msg)

    @classmethod
    def of(cls, width: int, coefficients: dict[int, float]) -> Monomials:
        """Return the scaled monomials in `width` variables for a dictionary from degrees n to coefficients a_n.

        Only the absolute values of the coefficients are used.
        """
        factors: list[Array | None] = []
        # Multinomial coefficient n! / prod k_i! of each monomial, its first variable, and the power of that variable.
        count, first, power = np.ones(1), np.full(1, width), np.zeros(1, dtype=int)
        for n in range(max(coefficients, default=-1) + 1):
            if n:
                blocks = []
                for i in range(width):
                    rest = first >= i
                    run = np.where(first[rest] == i, power[rest], 0) + 1
                    blocks.append((count[rest] * n / run, np.full(len(run), i), run))
                count, first, power = (np.concatenate(arrays) for arrays in zip(*blocks, strict=True))
            factors.append(np.sqrt(abs(coefficients[n]) * count) if n in coefficients else None)
        return cls(width, tuple(factors))

    @property
    def n_components(self) -> int:
        return sum(len(factor) for factor in self.factors if factor is not None)

    def astype(self, dtype: Any) -> Self:
        """Return the same monomials with the factors converted to `dtype`, the dtype of the rows."""
        return replace(self, factors=tuple(None if f is None else f.astype(dtype) for f in self.factors))

    def __call__(self, rows: PreparedRows, out: Array) -> None:
        """Write the scaled monomials of prepared rows, times the prefactors of the rows, into `out`."""
        n = rows.shape[0]
        level = np.ones((n, 1), out.dtype) if rows.prefactor is None else rows.prefactor[:, None]
        starts = np.zeros(self.width, dtype=int)  # index of the first monomial in the variables x_i, x_{i+1}, ... only
        done = 0
        for degree, factor in enumerate(self.factors):
            if degree:
                level, starts = self._raise(rows.dense, level, starts)
            if factor is not None:
                np.multiply(level, factor, out=out[:, done : done + len(factor)])
                done += len(factor)

    def _raise(self, X: Array, level: Array, starts: Array) -> tuple[Array, Array]:
        """Compute the values of all monomials of degree n + 1 from the values of those of degree n.

        Parameters
        ----------
        X : ndarray of shape (n_rows, width)
            Rows.
        level : ndarray of shape (n_rows, n_monomials)
            Values of the monomials of degree n, in lexicographic order.
        starts : ndarray of int of shape (width,)
            For each i, the index of the first monomial of degree n in the variables x_i, x_{i+1}, ... only.

        Returns
        -------
        level, starts : ndarrays
            Values of the monomials and indices of the first monomials, as above, for degree n + 1.
        """
        if level.shape[1] == 1:  # as the loop below, which takes longer than the rest of a prediction of one row
            return np.multiply(X, level, out=np.empty(X.shape, level.dtype)), np.arange(self.width)
        sizes = level.shape[1] - starts
        ends = np.cumsum(sizes)
        raised = np.empty((X.shape[0], int(ends[-1])), level.dtype)
        for i in range(self.width):
            np.multiply(X[:, i : i + 1], level[:, starts[i] :], out=raised[:, ends[i] - sizes[i] : ends[i]])
        return raised, ends - sizes
