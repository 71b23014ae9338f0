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

__all__ = [
    "PROJECTIONS",
    "Pairs",
    "ProjectionName",
    "ScaledPairs",
    "complex_average",
    "excess",
    "second_moment",
    "sketch_variance",
    "summed_variance",
]

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


@dataclass(frozen=True)
class ScaledPairs:
    """Pairs of rows (x, y), as directions x / |x| and y / |y| with the logarithms of lengths and of prefactors.

    A high power of a long row exceeds the range of float64, and the prefactor exp(-|x|^2 / 2) of a Gaussian kernel
    falls below it, although their product has a moderate size. This class multiplies them as sums of logarithms.
    """

    directions: Pairs  # of rows of length one; a row of zeros is its own direction
    log_left: Array  # log |x|, and 0 for a row of zeros
    log_right: Array  # log |y|
    log_prefactors: Array  # log s(x) s(y)

    @classmethod
    def all_of(cls, X: Any, Y: Any, log_left: Array, log_right: Array) -> ScaledPairs:
        """Return all pairs (row of X, row of Y) of dense or CSR rows, whose prefactors are given as logarithms."""
        (left, x), (right, y) = directions_of(X), directions_of(Y)
        return cls(Pairs.all_of(left, right), x[:, None], y[None, :], log_left[:, None] + log_right[None, :])

    def at(self, i: Array, j: Array) -> ScaledPairs:
        """Return the pairs (row i[k] of X, row j[k] of Y), selected from all pairs."""
        chosen = self.directions.at(i, j), self.log_left[i, 0], self.log_right[0, j]
        return ScaledPairs(*chosen, self.log_prefactors[i, j])

    @property
    def width(self) -> int:
        """Number of features of the rows."""
        return self.directions.width

    @property
    def squared_radius(self) -> float:
        """Largest squared length |x|^2 or |y|^2 of a row; infinite if it exceeds the range of float64."""
        longest = max(float(self.log_left.max(initial=-np.inf)), float(self.log_right.max(initial=-np.inf)))
        with np.errstate(over="ignore"):
            return float(np.exp(2 * longest))

    def term(self, n: int, log_factor: Array | float, sign: float = 1.0, cosines: Array | None = None) -> Array:
        """Return ``sign * exp(log_factor)`` times s(x) s(y) (x . y)^n for each pair.

        `cosines` are the values ``directions.inner**n``, if they are known already.
        """
        if cosines is None:
            cosines = self.directions.inner ** int(n)
        with np.errstate(over="ignore", under="ignore", divide="ignore"):
            log_scale = self.log_prefactors + n * (self.log_left + self.log_right)
            return sign * np.sign(cosines) * np.exp(log_factor + log_scale + np.log(np.abs(cosines)))

    def square(self, values: Array, degrees: tuple[float, float], log_factor: Array | float) -> Array:
        """Return exp(`log_factor`) times (s(x) s(y) |x|^i |y|^j)^2 times `values` >= 0, with `degrees` (i, j)."""
        with np.errstate(over="ignore", under="ignore"):
            return np.exp(self.log_square(values, degrees, log_factor))

    def log_square(self, values: Array, degrees: tuple[float, float], log_factor: Array | float) -> Array:
        """Return the logarithm of `square`, which is -inf where `values` are zero."""
        with np.errstate(divide="ignore"):
            log_scale = self.log_prefactors + degrees[0] * self.log_left + degrees[1] * self.log_right
            return log_factor + 2 * log_scale + np.log(values)


def directions_of(rows: Any) -> tuple[Any, Array]:
    """Return rows divided by their lengths, and the logarithms of the lengths; a row of zeros has the logarithm 0."""
    rows = rows.astype(np.float64)
    if rows.shape[1] == 0:
        return rows, np.zeros(rows.shape[0])
    sizes = abs(rows).max(axis=1)
    # Divided by their largest entry first, because the squares of the entries may overflow.
    sizes = sizes.toarray().ravel() if sp.issparse(rows) else sizes
    sizes = np.where(sizes > 0, sizes, 1.0)
    rows = _divided(rows, sizes)
    squares = np.asarray(rows.multiply(rows).sum(axis=1)).ravel() if sp.issparse(rows) else np.square(rows).sum(axis=1)
    lengths = np.where(squares > 0, np.sqrt(squares), 1.0)
    return _divided(rows, lengths), np.log(sizes) + np.log(lengths)


def _divided(rows: Any, divisors: Array) -> Any:
    if not sp.issparse(rows):
        return rows / divisors[:, None]
    divided = rows.tocsr(copy=True)
    divided.data = divided.data / np.repeat(divisors, np.diff(divided.indptr))
    return divided


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
def summed_variance(projection: ProjectionName, pairs: ScaledPairs, coefficients: Array, m: int) -> Array:
    r"""Return the variance of an estimate of :math:`\sum_n a_n (x^\top y)^n` from m components.

    Each component is a sum over degrees n, and the estimate is the mean of :math:`z(x) z(y)` over m independent
    components z [1]_, times the prefactors of the rows,

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
    pairs : ScaledPairs
        The pairs of rows.
    coefficients : ndarray
        Coefficients >= 0, a_0, a_1, ... of the power series. A coefficient of zero omits the degree.
    m : int
        Number of real components.

    %(theory_per_pair)s

    References
    ----------
    .. [1] Kakade, Dimensionality Reduction and Learning: Random Features and Bochner's Theorem, lecture notes.
    """
    mean = sum(
        (pairs.term(int(n), np.log(coefficients[n])) for n in np.flatnonzero(coefficients)),
        np.zeros(np.shape(pairs.log_prefactors)),
    )
    lone = excess(_summed_second_moment(projection, pairs, coefficients, lone=True), mean)
    if projection != "complex":
        return lone / m
    paired = excess(_summed_second_moment(projection, pairs, coefficients, lone=False), mean)
    return complex_average(paired, lone, m)


def complex_average(paired: Array, lone: Array, m: int) -> Array:
    """Return the variance of an estimate from m real components of complex products.

    `paired` is the variance of an estimate by the real and the imaginary part of one product. `lone` is the variance of
    an estimate by the real part alone, which the last component is if m is odd. The variances may be infinite.
    """
    total = np.zeros(np.shape(paired)) if m == 1 else 4 * (m // 2) * paired
    return (total + lone if m % 2 else total) / m**2


def excess(second_moment: Array, mean: Array) -> Array:
    """Return the variance ``second_moment - mean**2``, which is infinite where the second moment is, and never NaN."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(np.isfinite(second_moment), np.maximum(second_moment - np.square(mean), 0.0), np.inf)


def _summed_second_moment(projection: ProjectionName, pairs: ScaledPairs, a: Array, *, lone: bool) -> Array:
    """Return E[(z(x) z(y))^2] for one component z = sum_n sqrt(a_n) z_n, where z_n is a product of n projections.

    For "complex" projections it is the second moment of the real part of z(x) conj(z(y)) if `lone` is False. If `lone`
    is True, z is replaced by its real part, in which the terms of degree n > 0 are multiplied by sqrt(2). For other
    projections `lone` has no effect.
    """
    # Let Z_i be the part of degree i of the component. The square expands into terms Z_i(x) Z_j(y) Z_k(x) Z_l(y). Their
    # mean is zero unless every degree above zero occurs twice: i = j and k = l, or i = k and j = l, or i = l and j = k.
    # Degree zero may occur once, but then another degree does, too, and the mean is zero.
    degrees = np.flatnonzero(a).tolist()
    total = np.zeros(np.shape(pairs.log_prefactors))
    # In a complex component, terms with i = k or i = l have half the weight, because the means of their squares
    # (without conjugation) are zero.
    weight = 0.5 if projection == "complex" and not lone else 1.0
    units = pairs.directions
    for i in degrees:
        moment = second_moment(projection, units, int(i), lone=lone and projection == "complex")
        total = total + pairs.square(np.maximum(moment, 0.0), (i, i), 2 * np.log(a[i]))
        for j in degrees:
            if i != j:
                logs = np.log(a[i]) + np.log(a[j])
                square = pairs.square(units.left**i * units.right**j, (i, j), logs)
                cosines = units.inner ** (i + j)
                half = (i + j) / 2
                product = np.sign(cosines) * pairs.square(np.abs(cosines), (half, half), logs)
                # The first summand is the product of two means (i = j and k = l), which has weight one.
                with np.errstate(invalid="ignore"):  # both may be infinite, of either sign; `excess` replaces NaN
                    total = total + product + weight * (square + product)
    return total
