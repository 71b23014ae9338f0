"""Values of kernels as graphs of array operations: one function per class of kernels.

`kernel_values` and `diagonal` are generic functions. A class of your own is added by ``kernel_values.register``.
"""

from __future__ import annotations

import math
from functools import singledispatch

import numpy as np
from numpy.polynomial import chebyshev

from mercer.errors import ExportError
from mercer.export import graph as g
from mercer.export.graph import Value
from mercer.kernels import (
    ArcCosine,
    CallableKernel,
    Cauchy,
    Chi2,
    Composed,
    Constant,
    DeformedKernel,
    DotProduct,
    ExponentialDotProduct,
    Gaussian,
    Geometric,
    Hellinger,
    Intersection,
    IsotropicKernel,
    JensenShannon,
    Kernel,
    Laplacian,
    Matern,
    Min,
    Polynomial,
    Precomputed,
    Product,
    RationalQuadratic,
    Scaled,
    Sum,
    Transformed,
)
from mercer.kernels.base import dense64
from mercer.kernels.spectral import Affine

__all__ = ["affine_inputs", "diagonal", "kernel_values", "profile"]

Array = np.ndarray
# Degree of the polynomials by which profiles without an elementary formula are represented, and the least and largest
# powers of two between which they are.
TABLE_DEGREE = 24
TABLE_LOWEST, TABLE_HIGHEST = -230, 11
# Largest error of such a representation.
TABLE_ERROR = 1e-12


@singledispatch
def kernel_values(kernel: Kernel, X: Value, Y: Value) -> Value:  # noqa: ARG001 - the signature of all of them
    """Return the values k(x, y) of all pairs of rows X (..., n, d) and Y (..., m, d), of shape (..., n, m)."""
    msg = (
        f"{kernel!r} cannot be exported: {type(kernel).__name__} has no formula of array operations here. Register "
        f"one: mercer.export.kernels.kernel_values.register({type(kernel).__name__})."
    )
    raise ExportError(msg)


@singledispatch
def diagonal(kernel: Kernel, X: Value) -> Value:  # noqa: ARG001 - the signature of all of them
    """Return the values k(x, x) of rows (n, d), of shape (n,)."""
    msg = f"{kernel!r} cannot be exported with standard deviations: there is no formula of k(x, x) here."
    raise ExportError(msg)


# ---- kernels of distances ---------------------------------------------------------------------------------------


@singledispatch
def profile(kernel: IsotropicKernel, squares: Value) -> Value:
    """Return an isotropic kernel of squared distances, which are in units of the lengthscale."""
    return tabulated_profile(kernel, squares)


@profile.register
def _(kernel: Gaussian, squares: Value) -> Value:  # noqa: ARG001 - one formula for all parameters
    return g.exp(-0.5 * squares)


@profile.register
def _(kernel: Matern, squares: Value) -> Value:
    nu = float(kernel.nu)
    if nu == np.inf:
        return g.exp(-0.5 * squares)
    order = nu - 0.5
    if order != int(order) or order > 8:
        return tabulated_profile(kernel, squares)
    # A polynomial times an exponential: sum_i (p + i)! / (i! (p - i)!) (2 r)^(p - i) p! / (2 p)!, with nu = p + 1/2.
    p, r = int(order), g.sqrt(2 * nu * squares).named("r")
    factor = math.factorial(p) / math.factorial(2 * p)
    coefficients = [
        factor * math.factorial(p + i) / (math.factorial(i) * math.factorial(p - i)) * 2.0 ** (p - i)
        for i in range(p, -1, -1)
    ]
    return (horner(r, coefficients) * g.exp(-r)) if p else g.exp(-r)


@profile.register
def _(kernel: RationalQuadratic, squares: Value) -> Value:
    alpha = float(kernel.alpha)
    return g.exp(-alpha * g.log(1 + squares / (2 * alpha)))


def tabulated_profile(kernel: IsotropicKernel, squares: Value) -> Value:
    """Return a profile without an elementary formula as exp(-c r) times a piecewise polynomial of the distance r.

    On an interval from 2**k to 2**(k + 1), a profile times an exponential is analytic in a disk around the interval
    that touches zero (its only singularity, by Schoenberg's theorem), so that polynomials converge geometrically.
    """
    rate = math.sqrt(2 * float(kernel.nu)) if isinstance(kernel, Matern) and kernel.nu < 20 else 0.0
    nodes = np.cos(np.pi * (np.arange(TABLE_DEGREE + 1) + 0.5) / (TABLE_DEGREE + 1))
    check = np.linspace(-1, 1, 101)
    found, largest = [], 0.0
    for k in range(TABLE_LOWEST, TABLE_HIGHEST):
        unit = 2.0 ** (k - 1)
        at = unit * (nodes + 3)
        with np.errstate(all="ignore"):
            values = kernel.profile(at) * np.exp(np.minimum(rate * at, 600.0))
        if rate and rate * at.max() > 600:
            break
        coefficients = np.zeros(TABLE_DEGREE + 1)
        found_ones = chebyshev.cheb2poly(chebyshev.chebfit(nodes, values, TABLE_DEGREE))
        coefficients[: len(found_ones)] = found_ones  # zeros at the end are left out
        points = unit * (check + 3)
        fitted = np.exp(-rate * points) * np.polynomial.polynomial.polyval(check, coefficients)
        error = np.abs(fitted - kernel.profile(points))
        largest = max(largest, float(error.max()))
        found.append(coefficients)
    if largest > TABLE_ERROR:
        msg = (
            f"{kernel!r} cannot be exported: its profile has no formula of array operations, and polynomials represent "
            f"it with an error of {largest:.1g}, more than {TABLE_ERROR:.0e}."
        )
        raise ExportError(msg)
    r = g.sqrt(squares).named("r")
    table = g.constant(np.array(found), "profile_table")
    polynomial = g.piecewise_polynomial(r, table, TABLE_LOWEST)
    inside = g.exp(-rate * r) * polynomial if rate else polynomial
    least, most = 2.0**TABLE_LOWEST, 2.0 ** (TABLE_LOWEST + len(found))
    beyond = float(kernel.profile(np.array([most]))[0]) if not rate else 0.0
    return g.where(g.above(r, most), beyond, g.where(g.above(r, least), inside, 1.0))


@kernel_values.register
def _(kernel: IsotropicKernel, X: Value, Y: Value) -> Value:
    squares = g.squared_distances(X, Y).named("squares")
    return profile(kernel, squares * float(kernel.lengthscale) ** -2 if kernel.lengthscale != 1 else squares)


@kernel_values.register
def _(kernel: Laplacian, X: Value, Y: Value) -> Value:
    return g.exp(g.coordinate_kernel(X, Y, "city_block_distances") * (-1 / float(kernel.lengthscale)))


@kernel_values.register
def _(kernel: Cauchy, X: Value, Y: Value) -> Value:
    return g.coordinate_kernel(X / float(kernel.lengthscale), Y / float(kernel.lengthscale), "cauchy_products")


@diagonal.register(IsotropicKernel)
@diagonal.register(Laplacian)
@diagonal.register(Cauchy)
def _(kernel: Kernel, X: Value) -> Value:  # noqa: ARG001 - one for all rows
    return same_for_all(1.0, X)


def same_for_all(value: float, X: Value) -> Value:
    """Return a number for each row, of shape (n,)."""
    return g.repeat_rows(np.float64(value), X)


# ---- kernels of inner products ----------------------------------------------------------------------------------


@singledispatch
def function_of(kernel: Kernel, t: Value) -> Value:  # noqa: ARG001 - the signature of all of them
    """Return f(t) of a dot-product kernel f(x . y)."""
    msg = (
        f"{kernel!r} cannot be exported: its function is known as Python code or an infinite series only. Try "
        "DotProduct with a list of coefficients."
    )
    raise ExportError(msg)


@function_of.register
def _(kernel: Polynomial, t: Value) -> Value:
    return power(float(kernel.coef0) + float(kernel.scale) * t, int(kernel.degree))


@function_of.register
def _(kernel: ExponentialDotProduct, t: Value) -> Value:
    return g.exp(float(kernel.scale) * t)


@function_of.register
def _(kernel: Geometric, t: Value) -> Value:
    if kernel.terms is None:
        return 1 / (1 - float(kernel.scale) * t)
    return horner(float(kernel.scale) * t, [1.0] * int(kernel.terms))


@function_of.register
def _(kernel: DotProduct, t: Value) -> Value:
    if callable(kernel.coefficients) or kernel.formula is not None:
        return function_of.dispatch(Kernel)(kernel, t)
    return horner(t, [float(a) for a in kernel.coefficients])


@kernel_values.register(Polynomial)
@kernel_values.register(ExponentialDotProduct)
@kernel_values.register(Geometric)
@kernel_values.register(DotProduct)
def _(kernel: Kernel, X: Value, Y: Value) -> Value:
    return function_of(kernel, X @ g.matrix_transpose(Y))


@diagonal.register(Polynomial)
@diagonal.register(ExponentialDotProduct)
@diagonal.register(Geometric)
@diagonal.register(DotProduct)
def _(kernel: Kernel, X: Value) -> Value:
    return function_of(kernel, g.total(g.square(X)))


def horner(x: Value, coefficients: list[float]) -> Value:
    """Return the polynomial with given coefficients, the constant first."""
    if len(coefficients) == 1:
        return 0.0 * x + coefficients[0]
    out: Value | float = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        out = out * x + coefficient
    assert isinstance(out, Value)
    return out


def power(x: Value, n: int) -> Value:
    """Return x**n for an integer n >= 1, by repeated squaring."""
    if n == 1:
        return x
    x = x.named("base")
    half = power(g.square(x), n // 2)
    return half if n % 2 == 0 else half * x


# ---- arc-cosine kernels -----------------------------------------------------------------------------------------


@kernel_values.register
def _(kernel: ArcCosine, X: Value, Y: Value) -> Value:
    (U, x), (V, y) = unit_rows(X), unit_rows(Y)
    # The angle follows from |u - v| and |u + v|, which lose no digits for nearly parallel and nearly opposite rows.
    apart = g.sqrt(g.squared_distances(U, V)).named("apart")
    together = g.sqrt(g.squared_distances(U, -V)).named("together")
    rest = (2 * g.arctan(together / g.maximum(apart, 1e-300))).named("rest", "pi minus the angle between two rows")
    lengths = x * g.matrix_transpose(y)
    if kernel.order == 0:
        return g.where(g.above(lengths, 0.0), rest / np.pi, 0.5)
    cosine, sine = -g.cos(rest), g.sin(rest)
    if kernel.order == 1:
        values = sine + rest * cosine
    else:
        values = 3 * sine * cosine + rest * (1 + 2 * g.square(cosine))
        lengths = g.square(lengths)
    return lengths * values / np.pi


@diagonal.register
def _(kernel: ArcCosine, X: Value) -> Value:
    squares = g.total(g.square(X))
    if kernel.order == 0:
        return g.where(g.above(squares, 0.0), 1.0, 0.5)
    return squares if kernel.order == 1 else 3 * g.square(squares)


def unit_rows(X: Value) -> tuple[Value, Value]:
    """Return the rows divided by their norms, and the norms (..., n, 1); rows of zeros remain zero."""
    lengths = g.sqrt(g.total(g.square(X), keepdims=True))
    lengths = lengths if lengths.is_constant else lengths.named("lengths")
    return X / g.where(g.above(lengths, 0.0), lengths, 1.0), lengths


# ---- kernels of histograms --------------------------------------------------------------------------------------

COORDINATES = {
    Intersection: "sums_of_minima",
    Chi2: "chi2_sums",
    JensenShannon: "jensen_shannon_sums",
    Min: "products_of_minima",
}


@kernel_values.register(Intersection)
@kernel_values.register(Chi2)
@kernel_values.register(JensenShannon)
@kernel_values.register(Min)
def _(kernel: Kernel, X: Value, Y: Value) -> Value:
    return g.coordinate_kernel(X, Y, COORDINATES[type(kernel)])


@kernel_values.register
def _(kernel: Hellinger, X: Value, Y: Value) -> Value:  # noqa: ARG001 - it has no parameters
    return g.sqrt(X) @ g.matrix_transpose(g.sqrt(Y))


@diagonal.register(Intersection)
@diagonal.register(Chi2)
@diagonal.register(JensenShannon)
@diagonal.register(Hellinger)
def _(kernel: Kernel, X: Value) -> Value:  # noqa: ARG001 - the same formula for all of them
    return g.total(X)


@diagonal.register
def _(kernel: Min, X: Value) -> Value:  # noqa: ARG001 - it has no parameters
    out = g.columns(X, 0, 1)
    for i in range(1, X.width):
        out = out * g.columns(X, i, i + 1)
    return g.total(out)


# ---- algebra ----------------------------------------------------------------------------------------------------


@kernel_values.register
def _(kernel: Constant, X: Value, Y: Value) -> Value:
    shape = np.full((1, Y.shape[-2]), float(kernel.value))
    return g.total(X, keepdims=True) * 0.0 + shape


@kernel_values.register
def _(kernel: Sum, X: Value, Y: Value) -> Value:
    if isinstance(kernel.left, Constant):
        return float(kernel.left.value) + kernel_values(kernel.right, X, Y)
    if isinstance(kernel.right, Constant):
        return kernel_values(kernel.left, X, Y) + float(kernel.right.value)
    return kernel_values(kernel.left, X, Y) + kernel_values(kernel.right, X, Y)


@kernel_values.register
def _(kernel: Product, X: Value, Y: Value) -> Value:
    return kernel_values(kernel.left, X, Y) * kernel_values(kernel.right, X, Y)


@kernel_values.register
def _(kernel: Scaled, X: Value, Y: Value) -> Value:
    return float(kernel.weight) * kernel_values(kernel.kernel, X, Y)


@kernel_values.register
def _(kernel: Composed, X: Value, Y: Value) -> Value:
    return function_of(kernel.outer, kernel_values(kernel.inner, X, Y))


@kernel_values.register
def _(kernel: Transformed, X: Value, Y: Value) -> Value:
    inputs = kernel._inputs()
    return kernel_values(kernel.kernel, affine_inputs(inputs, X), affine_inputs(inputs, Y))


@diagonal.register
def _(kernel: Constant, X: Value) -> Value:
    return same_for_all(float(kernel.value), X)


@diagonal.register
def _(kernel: Sum, X: Value) -> Value:
    return diagonal(kernel.left, X) + diagonal(kernel.right, X)


@diagonal.register
def _(kernel: Product, X: Value) -> Value:
    return diagonal(kernel.left, X) * diagonal(kernel.right, X)


@diagonal.register
def _(kernel: Scaled, X: Value) -> Value:
    return float(kernel.weight) * diagonal(kernel.kernel, X)


@diagonal.register
def _(kernel: Composed, X: Value) -> Value:
    return function_of(kernel.outer, diagonal(kernel.inner, X))


@diagonal.register
def _(kernel: Transformed, X: Value) -> Value:
    return diagonal(kernel.kernel, affine_inputs(kernel._inputs(), X))


def affine_inputs(inputs: Affine, X: Value) -> Value:
    """Return rows after an affine input map."""
    if inputs.columns is not None:
        X = g.take(X, inputs.columns)
    if inputs.center is not None:
        X = X - np.asarray(inputs.center, dtype=float)
    if inputs.lengthscales is not None:
        X = X / np.asarray(inputs.lengthscales, dtype=float)
    if inputs.spacing is not None:
        X = g.rounded(X / float(inputs.spacing)) * float(inputs.spacing)
    if inputs.matrix is not None:
        X = X @ np.asarray(inputs.matrix)
    return X if X.is_constant else X.named("inputs")


# ---- kernels by their values ------------------------------------------------------------------------------------


@kernel_values.register
def _(kernel: DeformedKernel, X: Value, Y: Value) -> Value:
    given = g.constant(dense64(kernel.rows), "given_rows")
    left = kernel_values(kernel.kernel, X, given)
    right = kernel_values(kernel.kernel, Y, given)
    return kernel_values(kernel.kernel, X, Y) - left @ (kernel._correction @ g.matrix_transpose(right))


@diagonal.register
def _(kernel: DeformedKernel, X: Value) -> Value:
    values = kernel_values(kernel.kernel, X, g.constant(dense64(kernel.rows), "given_rows")).named("values")
    return diagonal(kernel.kernel, X) - g.total((values @ kernel._correction) * values)


@kernel_values.register
def _(kernel: Precomputed, X: Value, Y: Value) -> Value:
    if Y.is_constant:
        positions = kernel._positions(Y.example)
        if (positions >= 0).all():
            return g.take(X, positions)
    return X @ kernel._pseudo_inverse @ g.matrix_transpose(Y)


@kernel_values.register
def _(kernel: CallableKernel, X: Value, Y: Value) -> Value:  # noqa: ARG001 - the signature of the contract
    msg = f"{kernel!r} cannot be exported: it is a Python function, which has no formula of array operations."
    raise ExportError(msg)
