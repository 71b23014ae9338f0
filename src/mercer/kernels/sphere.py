"""Positive definite functions on one sphere: Gegenbauer expansions (Schoenberg 1942)."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral

import numpy as np
from scipy import special

from mercer.errors import ParameterError

__all__ = ["gegenbauer_coefficients", "positive_definite_on_sphere"]

Array = np.ndarray
# A coefficient below this part of the function's root mean square, in units of its polynomial's, is rounding.
ROUNDING = 1e-13


def gegenbauer_coefficients(function: Callable[[Array], Array], dimension: int, n: int = 32) -> Array:
    r"""Return the first coefficients of f in the Gegenbauer polynomials of a dimension.

    f(x . y) is positive definite on the unit sphere of :math:`\mathbb{R}^d` just if all coefficients in the polynomials
    :math:`P_n` that belong to d are non-negative, and then on all smaller spheres, but in general on no larger one.

    Parameters
    ----------
    function : callable
        f, taking an array of inner products in [-1, 1]; for a kernel, its ``function``.
    dimension : int
        Dimension d of the space, at least 2: the sphere has dimension d - 1.
    n : int, default=32
        Number of coefficients.

    Returns
    -------
    ndarray of shape (n,)
        :math:`b_0, \ldots, b_{n-1}` with :math:`f(t) = \sum b_n P_n(t)` and :math:`P_n(1) = 1`.

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
    # Jacobi's weight (1 - t^2)^((d - 3) / 2); with 2n + 64 nodes, exact for polynomials far beyond degree n.
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
    # Polynomials of a high dimension are tiny but near one, so rounding there is large beside their coefficients.
    rounding = ROUNDING * np.sqrt(np.square(values) @ weights / squares)
    coefficients[np.abs(coefficients) <= rounding] = 0.0
    return coefficients


def positive_definite_on_sphere(function: Callable[[Array], Array], dimension: int, n: int = 32) -> bool:
    """Return whether f(x . y) is positive definite on the unit sphere of a dimension, as far as `n` terms tell.

    Parameters
    ----------
    function, dimension, n
        As for `gegenbauer_coefficients`.

    Returns
    -------
    bool
        False if one of the first `n` coefficients is negative beyond rounding.

    Examples
    --------
    >>> from mercer.kernels import positive_definite_on_sphere
    >>> [positive_definite_on_sphere(lambda t: (3 * t**2 - 1) / 2, d) for d in (2, 3, 4)]
    [True, True, False]
    """
    coefficients = gegenbauer_coefficients(function, dimension, n)
    return bool((coefficients >= -1e-12 * np.abs(coefficients).sum()).all())
