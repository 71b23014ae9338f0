r"""Arc-cosine kernels, the kernels of infinitely wide networks with one hidden layer (Cho and Saul 2009)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.errors import DataError, ParameterError
from mercer.kernels.base import Kernel, Rows, inner_products, squared_norms
from mercer.kernels.dot_product import Polynomial
from mercer.kernels.histogram import canonical

__all__ = ["ArcCosine", "arc_cosine_values", "neural_tangent_kernel", "unit_rows"]

Array = np.ndarray
ORDERS = (0, 1, 2)
# If 1 - |cosine| is below this, the arc cosine loses digits, and the angle is computed from the distance of unit rows.
NEARLY_PARALLEL = 1e-3
# Largest number of entries of a temporary array where some kernel values are recomputed.
AT_ONCE = 1 << 20
# If pi - theta is below this times the order b, the closed form of J_b(theta) loses digits by cancellation, and its
# integral is evaluated by Gauss-Legendre quadrature, which is exact to rounding with these nodes.
NEARLY_OPPOSITE = 0.25
NODES, WEIGHTS = np.polynomial.legendre.leggauss(12)


@dataclass(frozen=True)
class ArcCosine(Kernel):
    r"""Arc-cosine kernel of order 0, 1 or 2.

    .. math:: k_b(x, y) = 2\, \mathbb{E}\,[\phi_b(w^\top x)\, \phi_b(w^\top y)]
        = \frac{(|x||y|)^b}{\pi} J_b(\theta), \qquad \phi_b(u) = \max(u, 0)^b, \quad w \sim N(0, I)

    with the angle :math:`\theta` between the rows and

    .. math:: J_0 = \pi - \theta, \quad J_1 = \sin\theta + (\pi - \theta)\cos\theta, \quad
        J_2 = 3 \sin\theta\cos\theta + (\pi - \theta)(1 + 2\cos^2\theta).

    Parameters
    ----------
    order : int, default=1
        Power b of the activation function: 0 is the step function, 1 the rectifier, 2 the squared rectifier.

    Notes
    -----
    The angle between a row and a row of zeros is undefined. The step function is defined as 1/2 at zero, so that
    :math:`k_0(0, y) = 1/2` for every y, zero included. For the orders 1 and 2, :math:`k_b(0, y) = 0`.

    Angles near 0 and near :math:`\pi` are computed from distances between unit rows rather than from cosines, so that
    values of order 0 for nearly equal rows, and the small values for nearly opposite rows, are accurate.

    See Also
    --------
    RandomNeurons : Features of this kernel.
    neural_tangent_kernel : Kernel of a network of which both layers are trained.

    References
    ----------
    .. [1] Cho, Saul (2009), Kernel Methods for Deep Learning, NeurIPS.

    Examples
    --------
    >>> from mercer import ArcCosine
    >>> ArcCosine(order=1)([[3.0, 4.0]], [[3.0, 4.0], [-4.0, 3.0], [-3.0, -4.0]]).round(4)
    array([[25.    ,  7.9577,  0.    ]])
    """

    structure = "an arc-cosine kernel"
    sparse_formulas = True

    order: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.order, Integral) or isinstance(self.order, bool) or self.order not in ORDERS:
            msg = f"ArcCosine: order must be 0, 1 or 2, got {self.order!r}."
            raise ParameterError(msg)

    def _values(self, X: Rows, Y: Rows) -> Array:
        return self._finite(arc_cosine_values(self.order, X, Y))

    def _diagonal(self, X: Rows) -> Array:
        lengths = unit_rows(X)[1]
        if self.order == 0:
            return np.where(lengths == 0, 0.5, 1.0)
        with np.errstate(over="ignore", under="ignore"):
            values = (2 * self.order - 1) * np.power(lengths * lengths, self.order)
        return self._finite(values)

    def _finite(self, values: Array) -> Array:
        if not np.isfinite(values).all():
            msg = f"{self!r}: the kernel overflows on these rows. Scale them down, for example to unit norm."
            raise DataError(msg)
        return values


def neural_tangent_kernel() -> Kernel:
    r"""Return the neural tangent kernel of a network of two layers with rectified linear units.

    .. math:: k(x, y) = k_1(x, y) + (x^\top y)\, k_0(x, y)

    with the arc-cosine kernels :math:`k_b`. Training both layers of an infinitely wide network is equivalent to kernel
    regression with this kernel [1]_. It is built from other kernels by ``+`` and ``*``, and is approximated by the
    feature maps for sums and products.

    Returns
    -------
    Kernel
        ``ArcCosine(1) + Polynomial(1, coef0=0.0) * ArcCosine(0)``.

    See Also
    --------
    ArcCosine : Kernel of a network of which only the last layer is trained.

    References
    ----------
    .. [1] Jacot, Gabriel, Hongler (2018), Neural Tangent Kernel, NeurIPS.

    Examples
    --------
    >>> from mercer import neural_tangent_kernel
    >>> neural_tangent_kernel()([[1.0, 2.0]], [[1.0, 2.0], [-2.0, 1.0]]).round(4)
    array([[10.    ,  1.5915]])
    """
    return ArcCosine(1) + Polynomial(1, coef0=0.0) * ArcCosine(0)


def arc_cosine_values(order: int, X: Rows, Y: Rows) -> Array:
    """Return the matrix of k_b(x, y) for the arc-cosine kernel of order b, from 0 to 4. Overflow gives infinity."""
    U, x = unit_rows(X)
    V, y = unit_rows(Y)
    cosines = np.clip(inner_products(U, V), -1.0, 1.0)
    values = angular_part(order, cosines, *accurate_angles(U, V, cosines, near=order == 0)) / np.pi
    zero = (x[:, None] == 0) | (y[None, :] == 0)
    if order == 0:
        return np.where(zero, 0.5, values)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return np.where(zero, 0.0, np.power(x[:, None] * y[None, :], order) * values)


def angular_part(order: int, cosines: Array, near: tuple[Array, Array], opposite: tuple[Array, Array]) -> Array:
    r"""Return :math:`J_b(\theta)`, the factor of the arc-cosine kernel that depends on the angle between two rows.

    .. math:: J_b(\theta) = b! \int_0^{\pi - \theta} (\cos\theta + \cos\psi)^b \,d\psi

    The formula is the expectation that defines the kernel, in polar coordinates in the plane of the two rows.

    Parameters
    ----------
    order : int
        b, from 0 to 4.
    cosines : ndarray
        Cosines of the angles, in [-1, 1].
    near : tuple of two ndarrays
        Flat indices into `cosines` of nearly parallel pairs of rows, and accurate values of theta for these pairs.
    opposite : tuple of two ndarrays
        Flat indices into `cosines` of nearly opposite pairs of rows, and accurate values of pi - theta for these pairs.

    Returns
    -------
    ndarray
        With the shape of `cosines`.
    """
    theta = np.arccos(cosines)
    rest = np.pi - theta
    theta.flat[near[0]] = near[1]
    rest.flat[near[0]] = np.pi - near[1]
    rest.flat[opposite[0]] = opposite[1]
    if order == 0:
        return rest
    c, s = cosines, np.sin(theta)
    # powers[n] is the integral of cos(psi)^n from 0 to pi - theta; at the upper limit cos(psi) = -c and sin(psi) = s.
    powers = [rest, s]
    for n in range(2, order + 1):
        powers.append(((n - 1) * powers[n - 2] + s * (-c) ** (n - 1)) / n)
    values = math.factorial(order) * sum(math.comb(order, n) * c ** (order - n) * powers[n] for n in range(order + 1))
    small = np.flatnonzero(rest < NEARLY_OPPOSITE * order)
    step = AT_ONCE // len(NODES)
    for start in range(0, len(small), step):
        chosen = small[start : start + step]
        phi = rest.flat[chosen][:, None]
        psi = 0.5 * phi * (1 + NODES)
        heights = 2 * np.sin(0.5 * (phi + psi)) * np.sin(0.5 * (phi - psi))  # cos(psi) - cos(phi), without cancelling
        values.flat[chosen] = math.factorial(order) * 0.5 * phi[:, 0] * (heights**order @ WEIGHTS)
    return values


def accurate_angles(U: Rows, V: Rows, cosines: Array, *, near: bool) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Find pairs of unit rows that are nearly equal or nearly opposite, and compute their angles accurately.

    The angle theta between two unit rows u and v follows from |u - v| = 2 sin(theta / 2), and pi - theta follows from
    |u + v| = 2 sin((pi - theta) / 2).

    Returns
    -------
    tuple of two ndarrays
        Flat indices into `cosines` of nearly equal pairs, and theta for each of them. Both are empty if `near` is
        False.
    tuple of two ndarrays
        Flat indices into `cosines` of nearly opposite pairs, and pi - theta for each of them.
    """
    found = []
    for sign, wanted in ((1.0, near), (-1.0, True)):
        flat = np.flatnonzero(sign * cosines > 1 - NEARLY_PARALLEL) if wanted else np.zeros(0, dtype=int)
        distances = np.empty(len(flat))
        step = max(1, AT_ONCE // max(1, U.shape[1]))
        for start in range(0, len(flat), step):
            i, j = np.unravel_index(flat[start : start + step], cosines.shape)
            distances[start : start + step] = np.sqrt(squared_norms(U[i] - sign * V[j]))
        found.append((flat, 2 * np.arcsin(np.minimum(0.5 * distances, 1.0))))
    return found[0], found[1]


def unit_rows(X: Rows) -> tuple[Any, Array]:
    """Return the rows divided by their norms, and the norms, without overflow. Rows of zeros remain zero."""
    if sp.issparse(X):
        X = canonical(X)
        counts = np.diff(X.indptr)
        largest = np.asarray(abs(X).max(axis=1).todense()).ravel() if X.shape[1] else np.zeros(X.shape[0])
        scaled = sp.csr_array((X.data / np.repeat(above_zero(largest), counts), X.indices, X.indptr), X.shape)
        norms = np.sqrt(squared_norms(scaled))
        unit = sp.csr_array((scaled.data / np.repeat(above_zero(norms), counts), X.indices, X.indptr), X.shape)
        return unit, largest * norms
    largest = np.abs(X).max(axis=1, initial=0.0)
    scaled = X / above_zero(largest)[:, None]
    norms = np.sqrt(squared_norms(scaled))
    return scaled / above_zero(norms)[:, None], largest * norms


def above_zero(values: Array) -> Array:
    """Return the values with zeros replaced by ones."""
    return np.where(values == 0, values.dtype.type(1), values)
