r"""Moments of products of random projections, which estimate powers of an inner product.

A component of degree n multiplies n independent projections :math:`w_j^\top x` with :math:`\mathbb{E}\,w w^\top = I`,
so the product of its values at two rows has mean :math:`(x^\top y)^n`. Its second moment is the n-th power of the
second moment of one factor. The formulas are derived in `docs/theory/sketches.md`. Maps evaluate them in inner loops,
so arguments are not checked here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from mercer._docs import doc

__all__ = ["PROJECTIONS", "Pairs", "ProjectionName", "second_moment", "sketch_variance", "summed_variance"]

Array = np.ndarray
ProjectionName = Literal["rademacher", "gaussian", "sphere", "complex", "srht"]
PROJECTIONS: tuple[ProjectionName, ...] = ("rademacher", "gaussian", "sphere", "complex", "srht")


@dataclass(frozen=True)
class Pairs:
    """Statistics of pairs of rows that determine the moments."""

    inner: Array  # x . y
    left: Array  # |x|^2
    right: Array  # |y|^2
    overlap: Array  # sum of x_i^2 y_i^2
    width: int  # number of features of the rows

    @property
    def norms(self) -> Array:
        """Products of squared norms."""
        return self.left * self.right

    @classmethod
    def all_of(cls, X: Any, Y: Any) -> Pairs:
        """Return the statistics of all pairs of rows, dense or CSR, in float64."""
        X, Y = X.astype(np.float64), Y.astype(np.float64)
        X2, Y2 = (Z.multiply(Z).tocsr() if sp.issparse(Z) else np.square(Z) for Z in (X, Y))
        x2, y2 = (np.asarray(Z2.sum(axis=1)).ravel() for Z2 in (X2, Y2))
        inner, overlap = X @ Y.T, X2 @ Y2.T
        if sp.issparse(inner):
            inner, overlap = inner.toarray(), overlap.toarray()
        return cls(inner, x2[:, None], y2[None, :], overlap, X.shape[1])

    def at(self, i: Array, j: Array) -> Pairs:
        """Return the statistics of the pairs (i, j)."""
        return Pairs(self.inner[i, j], self.left[i, 0], self.right[0, j], self.overlap[i, j], self.width)

    def scaled(self, left: Array | float, right: Array | float) -> Pairs:
        """Return the statistics after every row has been multiplied by its own number."""
        return Pairs(
            self.inner * (left * right),
            self.left * np.square(left),
            self.right * np.square(right),
            self.overlap * np.square(left * right),
            self.width,
        )


@doc
def second_moment(projection: ProjectionName, pairs: Pairs, n: Array | int, *, lone: bool = False) -> Array:
    r"""Return :math:`\mathbb{E}[(z(x) z(y))^2]` of one component of degree n.

    Parameters
    ----------
    projection : {"rademacher", "gaussian", "sphere", "complex", "srht"}
        Distribution of the weights; each row of a sign-Hadamard matrix is Rademacher by itself. A complex component
        counts as one and represents two real ones, its real and its imaginary part.
    pairs : Pairs
        The pairs of rows.
    n : int or ndarray that broadcasts with the pairs
        Degree.
    lone : bool, default=False
        For "complex": the real part alone, times the square root of two.

    %(theory_per_pair)s
    """
    t2, n2, s = np.square(pairs.inner), pairs.norms, pairs.overlap
    if projection == "complex":
        # With z = (w'x) conj(w'y): E|z|^2, E z^2, and E (w'x)^2 (w'y)^2, each a power of that of one factor.
        square, pseudo = (n2 + t2 - s) ** n, (2 * t2 - s) ** n
        # The product of no projections is one, and real already.
        return np.where(n == 0, 1.0, square + 0.5 * (pseudo + s**n)) if lone else 0.5 * (square + pseudo)
    factor = {
        "rademacher": n2 + 2 * (t2 - s),
        "srht": n2 + 2 * (t2 - s),
        "gaussian": n2 + 2 * t2,
        "sphere": (n2 + 2 * t2) * pairs.width / (pairs.width + 2),
    }[projection]
    return factor**n


@doc
def sketch_variance(projection: ProjectionName, pairs: Pairs, n: int, m: int) -> Array:
    r"""Return the variance of the estimate of :math:`(x^\top y)^n` by m real components of degree n.

    Parameters
    ----------
    projection : {"rademacher", "gaussian", "sphere", "complex", "srht"}
        Distribution of the weights. For "srht", components come in blocks of the power of two at or above the width;
        signs and rows are drawn independently for every factor.
    pairs : Pairs
        The pairs of rows.
    n, m : int
        Degree and number of components.

    %(theory_per_pair)s

    References
    ----------
    .. [1] Wacker, Kanagawa, Filippone (2022), Improved Random Features for Dot Product Kernels, arXiv:2201.08712.
    """
    power = pairs.inner ** (2 * n)
    if projection == "complex":
        # Each complex component has weight 2 / m; an odd m leaves one real part alone, of weight 1 / m.
        paired = second_moment(projection, pairs, n) - power
        lone = second_moment(projection, pairs, n, lone=True) - power
        return (4 * (m // 2) * paired + (m % 2) * lone) / m**2
    variance = (second_moment(projection, pairs, n) - power) / m
    if projection == "srht" and pairs.width > 1:
        width = 1 << (pairs.width - 1).bit_length()
        # Two rows of one Hadamard matrix, different and otherwise uniform, share the signs.
        coupled = np.square(pairs.inner) - (pairs.norms + np.square(pairs.inner) - 2 * pairs.overlap) / (width - 1)
        sizes = np.minimum(width, m - np.arange(0, m, width))
        variance = variance + (sizes * (sizes - 1)).sum() / m**2 * (coupled**n - power)
    return np.maximum(variance, 0.0)


@doc
def summed_variance(projection: ProjectionName, pairs: Pairs, coefficients: Array, m: int) -> Array:
    r"""Return the variance of m independent components that each sum the terms of a series.

    A component is :math:`\sum_n \sqrt{a_n} \prod_{j \le n} w_{nj}^\top x` [1]_. Products of terms of different degrees
    have mean zero and add :math:`\sum_{i \ne j} a_i a_j (|x|^{2i} |y|^{2j} + (x^\top y)^{i+j})` to the variance.

    Parameters
    ----------
    projection : {"rademacher", "gaussian", "sphere", "complex"}
        Distribution of the weights.
    pairs : Pairs
        The pairs of rows.
    coefficients : ndarray
        a_0, a_1, ...; zero for degrees that the components omit.
    m : int
        Number of real components.

    %(theory_per_pair)s

    References
    ----------
    .. [1] Kakade, Dimensionality Reduction and Learning: Random Features and Bochner's Theorem, lecture notes.
    """
    lone = _summed_second_moment(projection, pairs, coefficients, lone=True)
    mean = sum(a * pairs.inner**n for n, a in enumerate(coefficients))
    if projection != "complex":
        return np.maximum(lone - np.square(mean), 0.0) / m
    paired = _summed_second_moment(projection, pairs, coefficients, lone=False)
    total = 4 * (m // 2) * (paired - np.square(mean)) + (m % 2) * (lone - np.square(mean))
    return np.maximum(total, 0.0) / m**2


def _summed_second_moment(projection: ProjectionName, pairs: Pairs, a: Array, *, lone: bool) -> Array:
    # Of the terms Z_i(x) Z_j(y) Z_k(x) Z_l(y) of the square, only those in which every degree above zero occurs twice
    # have a mean other than zero: i = j and k = l, or i = k and j = l, or i = l and j = k. Degree zero is a constant
    # without such a condition, but its product with a single term of mean zero has mean zero, too.
    degrees = np.flatnonzero(a)
    total = np.zeros(np.broadcast_shapes(pairs.inner.shape, pairs.norms.shape))
    # Cross terms of a complex component have half the weight: their pseudo-moments vanish.
    weight = 0.5 if projection == "complex" and not lone else 1.0
    for i in degrees:
        total = total + a[i] ** 2 * second_moment(projection, pairs, int(i), lone=lone and projection == "complex")
        for j in degrees:
            if i != j:
                square = pairs.left**i * pairs.right**j
                product = pairs.inner ** (i + j)
                # The first product is one of means, which the weight does not change.
                total = total + a[i] * a[j] * (product + weight * (square + product))
    return total
