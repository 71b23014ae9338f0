"""Positive definiteness of f(x . y) on the unit sphere of a given dimension, by Gegenbauer expansion of f."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral

import numpy as np
from scipy import special

from mercer.errors import ParameterError

__all__ = ["gegenbauer_coefficients", "positive_definite_on_sphere"]

Array = np.ndarray
# A coefficient b_n is set to zero, as rounding error, if |b_n| is below this multiple of rms(f) / rms(P_n), where rms
# is the root mean square on the sphere.
ROUNDING = 1e-13


def gegenbauer_coefficients(function: Callable[[Array], Array], dimension: int, n: int = 32) -> Array:
    r"""Return the first `n` coefficients of a function f in Gegenbauer polynomials of dimension d.

    f(x . y) is positive definite on the unit sphere of :math:`\mathbb{R}^d` if and only if all coefficients of f in the
    Gegenbauer polynomials :math:`P_n` of dimension d are non-negative [1]_. It is then positive definite for all
    smaller d, too, but in general not for larger d.

    Parameters
    ----------
    function : callable
        f, which takes an array of inner products in [-1, 1]; for a dot-product kernel, its ``function``.
    dimension : int
        Dimension d >= 2 of the space; the sphere has dimension d - 1.
    n : int, default=32
        Number of coefficients.

    Returns
    -------
    ndarray of shape (n,)
        :math:`b_0, \ldots, b_{n-1}` with :math:`f(t) = \sum b_n P_n(t)` and :math:`P_n(1) = 1`.

    See Also
    --------
    positive_definite_on_sphere : Whether all these coefficients are non-negative.

    References
    ----------
    .. [1] Schoenberg (1942), Positive definite functions on spheres, Duke Mathematical Journal 9, 96-108.

    Examples
    --------
    >>> from mercer.kernels import gegenbauer_coefficients
    >>> legendre = lambda t: (3 * t**2 - 1) / 2
    >>> gegenbauer_coefficients(legendre, 3, 3).round(12) + 0.0
    array([0., 0., 1.])
    >>> bool(gegenbauer_coefficients(legendre, 4, 3)[0] < 0)  # not positive definite in four dimensions
    True
    """
    for name, value, least in (("dimension", dimension, 2), ("n", n, 1)):
        if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
            msg = f"gegenbauer_coefficients: {name} must be an integer >= {least}, got {value!r}."
            raise ParameterError(msg)
    # Gauss quadrature with the weight function (1 - t^2)^((d - 3) / 2); with 2n + 64 nodes it is exact for polynomials
    # of degrees far above n.
    shape = 0.5 * (dimension - 3)
    nodes, weights = special.roots_jacobi(2 * int(n) + 64, shape, shape)
    degrees = np.arange(n)[:, None]
    polynomials = special.eval_jacobi(degrees, shape, shape, nodes) / special.eval_jacobi(degrees, shape, shape, 1.0)
    values = np.asarray(function(nodes), dtype=float)
    if values.shape != nodes.shape or not np.isfinite(values).all():
        msg = "gegenbauer_coefficients: the function must give one finite value for each inner product in [-1, 1]."
        raise ParameterError(msg)
    squares = np.square(polynomials) @ weights
    coefficients = (polynomials * values) @ weights / squares
    # In high dimensions the polynomials are tiny except near |t| = 1, and rounding errors may exceed the coefficients.
    rounding = ROUNDING * np.sqrt(np.square(values) @ weights / squares)
    coefficients[np.abs(coefficients) <= rounding] = 0.0
    return coefficients


def positive_definite_on_sphere(function: Callable[[Array], Array], dimension: int, n: int = 32) -> bool:
    """Return whether the first `n` Gegenbauer coefficients of f are non-negative, up to rounding error.

    If a coefficient is negative, f(x . y) is not positive definite on the unit sphere of the given dimension. If the
    first `n` are non-negative, f(x . y) may be positive definite, but higher coefficients are not checked.

    Parameters
    ----------
    function, dimension, n
        As for `gegenbauer_coefficients`.

    Returns
    -------
    bool
        False if a coefficient is negative by more than the rounding error.

    See Also
    --------
    gegenbauer_coefficients : The coefficients, with the theorem.

    Examples
    --------
    >>> from mercer.kernels import positive_definite_on_sphere
    >>> [positive_definite_on_sphere(lambda t: (3 * t**2 - 1) / 2, d) for d in (2, 3, 4)]
    [True, True, False]
    """
    coefficients = gegenbauer_coefficients(function, dimension, n)
    return bool((coefficients >= -1e-12 * np.abs(coefficients).sum()).all())
