r"""Second moments and variances of products of random projections, which estimate powers of an inner product.

A component of degree n is the product :math:`z(x) = \prod_{j \le n} w_j^\top x` of n independent random projections
with :math:`\mathbb{E}\,w_j w_j^\top = I`. So :math:`z(x) z(y)` has the mean :math:`(x^\top y)^n`, and its second moment
is the n-th power of the second moment of one factor :math:`w_j^\top x \, w_j^\top y`. The formulas are derived in
`docs/theory/sketches.md`. Arguments are not validated, because maps evaluate the formulas in inner loops.
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
    """Inner products and norms of pairs of rows (x, y), as arrays of one value per pair.

    They determine the moments of products of random projections.
    """

    inner: Array  # x . y
    left: Array  # |x|^2
    right: Array  # |y|^2
    overlap: Array  # sum of x_i^2 y_i^2
    width: int  # number of features of the rows

    @property
    def norms(self) -> Array:
        """The products |x|^2 |y|^2 of squared norms."""
        return self.left * self.right

    @classmethod
    def all_of(cls, X: Any, Y: Any) -> Pairs:
        """Return inner products and norms, in float64, for all pairs (row of X, row of Y); X and Y are dense or CSR."""
        X, Y = X.astype(np.float64), Y.astype(np.float64)
        X2, Y2 = (Z.multiply(Z).tocsr() if sp.issparse(Z) else np.square(Z) for Z in (X, Y))
        x2, y2 = (np.asarray(Z2.sum(axis=1)).ravel() for Z2 in (X2, Y2))
        inner, overlap = X @ Y.T, X2 @ Y2.T
        if sp.issparse(inner):
            inner, overlap = inner.toarray(), overlap.toarray()
        return cls(inner, x2[:, None], y2[None, :], overlap, X.shape[1])

    def at(self, i: Array, j: Array) -> Pairs:
        """Return inner products and norms for the pairs (row i[k] of X, row j[k] of Y), selected from all pairs."""
        return Pairs(self.inner[i, j], self.left[i, 0], self.right[0, j], self.overlap[i, j], self.width)

    def scaled(self, left: Array | float, right: Array | float) -> Pairs:
        """Return inner products and norms for the pairs (left * x, right * y), given the factors `left` and `right`."""
        return Pairs(
            self.inner * (left * right),
            self.left * np.square(left),
            self.right * np.square(right),
            self.overlap * np.square(left * right),
            self.width,
        )


@doc
def second_moment(projection: ProjectionName, pairs: Pairs, n: Array | int, *, lone: bool = False) -> Array:
    r"""Return :math:`\mathbb{E}[(z(x) z(y))^2]` for one component z of degree n, a product of n random projections.

    Parameters
    ----------
    projection : {"rademacher", "gaussian", "sphere", "complex", "srht"}
        Distribution of the projection vectors. For "srht" (randomized Hadamard transform) the moment is that of
        "rademacher", because each single row is a vector of independent random signs. For "complex" it is the second
        moment of the real part of :math:`z(x) \overline{z(y)}`.
    pairs : Pairs
        The pairs of rows.
    n : int or ndarray that broadcasts with the pairs
        Degree.
    lone : bool, default=False
        Used for "complex" only. If True, the component is sqrt(2) times the real part of z, without the imaginary part.
        It is the last component of a map with an odd number of real components.

    %(theory_per_pair)s
    """
    t2, n2, s = np.square(pairs.inner), pairs.norms, pairs.overlap
    if projection == "complex":
        # `square` is E|u|^2, `pseudo` is E u^2 for u = (w.x) conj(w.y), and s**n is E (w.x)^2 (w.y)^2; each is the n-th
        # power of the moment of one projection.
        square, pseudo = (n2 + t2 - s) ** n, (2 * t2 - s) ** n
        # For n = 0 the component is the constant one, which has no imaginary part.
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
    r"""Return the variance of the estimate of :math:`(x^\top y)^n` from m real components of degree n.

    The estimate is the mean of :math:`z(x) z(y)` over the m components z, each a product of n random projections.
    For complex projections, the real and the imaginary part of a product, times sqrt(2), are two real components.

    Parameters
    ----------
    projection : {"rademacher", "gaussian", "sphere", "complex", "srht"}
        Distribution of the projection vectors. For "srht" (randomized Hadamard transform), components are computed in
        blocks whose size is the smallest power of two that is at least the number of features. Components of one block
        share their random signs. The n factors of a component have independent signs and Hadamard rows.
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
        # Each of the m // 2 complex components has weight 2 / m. If m is odd, one real part is added, of weight 1 / m.
        paired = second_moment(projection, pairs, n) - power
        lone = second_moment(projection, pairs, n, lone=True) - power
        return (4 * (m // 2) * paired + (m % 2) * lone) / m**2
    variance = (second_moment(projection, pairs, n) - power) / m
    if projection == "srht" and pairs.width > 1:
        width = 1 << (pairs.width - 1).bit_length()
        # For one factor, `coupled` is the mean of the product of the estimates of x . y by two different random rows of
        # one Hadamard matrix, which share their signs.
        coupled = np.square(pairs.inner) - (pairs.norms + np.square(pairs.inner) - 2 * pairs.overlap) / (width - 1)
        sizes = np.minimum(width, m - np.arange(0, m, width))
        variance = variance + (sizes * (sizes - 1)).sum() / m**2 * (coupled**n - power)
    return np.maximum(variance, 0.0)


@doc
def summed_variance(projection: ProjectionName, pairs: Pairs, coefficients: Array, m: int) -> Array:
    r"""Return the variance of an estimate of :math:`\sum_n a_n (x^\top y)^n` from m components.

    Each component is a sum over degrees n, and the estimate is the mean of :math:`z(x) z(y)` over m independent
    components z [1]_,

    .. math:: z(x) = \sum_n \sqrt{a_n}\, z_n(x), \qquad z_n(x) = \prod_{j \le n} w_{nj}^\top x,

    with independent random projections :math:`w_{nj}`. For real projections the variance is

    .. math:: \frac{1}{m} \Bigl[\sum_n a_n^2 \mathrm{Var}(z_n(x) z_n(y))
        + \sum_{i \ne j} a_i a_j \bigl(|x|^{2i} |y|^{2j} + (x^\top y)^{i+j}\bigr)\Bigr].

    The second sum is due to the products :math:`z_i(x) z_j(y)` of different degrees, which have mean zero. For complex
    projections the estimate is the mean of the real part of :math:`z(x) \overline{z(y)}` over m / 2 components z, each
    of which counts as two real components. If m is odd, the last component is the real part of z. Its terms of
    degree n > 0 are multiplied by sqrt(2).

    Parameters
    ----------
    projection : {"rademacher", "gaussian", "sphere", "complex"}
        Distribution of the projection vectors.
    pairs : Pairs
        The pairs of rows.
    coefficients : ndarray
        Coefficients a_0, a_1, ... of the power series. A coefficient of zero omits the degree.
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
    """Return E[(z(x) z(y))^2] for one component z = sum_n sqrt(a_n) z_n, where z_n is a product of n projections.

    For "complex" projections it is the second moment of the real part of z(x) conj(z(y)) if `lone` is False. If `lone`
    is True, z is replaced by its real part, in which the terms of degree n > 0 are multiplied by sqrt(2). For other
    projections `lone` has no effect.
    """
    # Let Z_i be the part of degree i of the component. The square expands into terms Z_i(x) Z_j(y) Z_k(x) Z_l(y). Their
    # mean is zero unless every degree above zero occurs twice: i = j and k = l, or i = k and j = l, or i = l and j = k.
    # Degree zero may occur once, but then another degree does, too, and the mean is zero.
    degrees = np.flatnonzero(a)
    total = np.zeros(np.broadcast_shapes(pairs.inner.shape, pairs.norms.shape))
    # In a complex component, terms with i = k or i = l have half the weight, because the means of their squares
    # (without conjugation) are zero.
    weight = 0.5 if projection == "complex" and not lone else 1.0
    for i in degrees:
        total = total + a[i] ** 2 * second_moment(projection, pairs, int(i), lone=lone and projection == "complex")
        for j in degrees:
            if i != j:
                square = pairs.left**i * pairs.right**j
                product = pairs.inner ** (i + j)
                # The first summand is the product of two means (i = j and k = l), which has weight one.
                total = total + a[i] * a[j] * (product + weight * (square + product))
    return total
