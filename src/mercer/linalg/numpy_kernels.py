"""Reference implementations of the compiled functions in NumPy, used where the extension is not installed.

For each of these functions, the public function of the same name in `mercer.linalg` documents and checks the arguments.
"""

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "FUNCTION_NAMES",
    "FloatArray",
    "FunctionName",
    "butterfly",
    "butterfly_pairs",
    "cosines",
    "dense",
    "dense_cosines",
    "dense_pairs",
    "sign_hadamard",
    "sign_hadamard_pairs",
    "sincos_pairs",
    "sparse_product",
]

# Rows of a panel, whose features are interleaved, as in the compiled search.
PANEL_ROWS = 16

FloatArray = NDArray[np.floating]

FunctionName = Literal["identity", "sign", "abs", "relu", "relu_squared", "signed_square", "exp"]
"""Functions that may be applied to projections: x, sign x, |x|, max(x, 0), max(x, 0)^2, x|x| and e^x."""

FUNCTION_NAMES: tuple[FunctionName, ...] = get_args(FunctionName)

_FUNCTIONS: dict[FunctionName, Callable[[FloatArray], FloatArray]] = {
    "identity": lambda x: x,
    "sign": np.sign,
    "abs": np.abs,
    "relu": lambda x: np.maximum(x, x.dtype.type(0)),
    "relu_squared": lambda x: np.square(np.maximum(x, x.dtype.type(0))),
    "signed_square": lambda x: x * np.abs(x),
    "exp": np.exp,
}


def sincos_pairs(angles: FloatArray, scale: float, out: FloatArray) -> None:
    """Fill the columns of `out` with the scaled cosines of the angles, then with the scaled sines."""
    m = angles.shape[1]
    with np.errstate(invalid="ignore"):  # an infinite angle gives NaN, as in the compiled functions
        np.cos(angles, out=out[:, :m])
        np.sin(angles[:, : out.shape[1] - m], out=out[:, m:])
    out *= out.dtype.type(scale)


def cosines(angles: FloatArray, phases: FloatArray, scale: float, out: FloatArray) -> None:
    """Fill `out` with ``scale * cos(angles + phases)``."""
    with np.errstate(invalid="ignore"):
        np.add(angles, phases, out=out)
        np.cos(out, out=out)
    out *= out.dtype.type(scale)


def sign_hadamard(
    X: FloatArray,
    signs: FloatArray,
    out: FloatArray,
    radii: FloatArray | None = None,
    function: FunctionName = "identity",
    scale: float = 1.0,
    product: bool = False,
) -> None:
    """Fill `out` with a function of the projections of rows by random signs and Hadamard matrices."""
    blocks, _, width = signs.shape
    projections = np.empty((len(X), blocks * width), X.dtype)
    for b, block_signs in enumerate(signs):
        V = _padded(X, width)
        for s in block_signs:
            V = _hadamard(s * V) / np.sqrt(width, dtype=X.dtype)
        projections[:, b * width : (b + 1) * width] = V
    _write(projections, radii, function, scale, product, out)


def sign_hadamard_pairs(X: FloatArray, signs: FloatArray, radii: FloatArray, scale: float, out: FloatArray) -> None:
    """Fill `out` with the scaled cosines and sines of the angles ``radii * sign_hadamard(X)``."""
    angles = np.empty((len(X), len(radii)), X.dtype)
    sign_hadamard(X, signs, angles)
    angles *= radii
    sincos_pairs(angles, scale, out)


def butterfly(
    X: FloatArray,
    signs: FloatArray,
    order: NDArray[np.int64],
    multipliers: FloatArray,
    factors: FloatArray,
    out: FloatArray,
    radii: FloatArray | None = None,
    function: FunctionName = "identity",
    scale: float = 1.0,
    product: bool = False,
) -> None:
    """Fill `out` with a function of the projections of rows by signs, a Hadamard matrix and butterfly matrices."""
    n, (blocks, width) = len(X), order.shape
    mixed = signs[1] * (_hadamard(signs[0] * _padded(X, width)) / np.sqrt(width, dtype=X.dtype))
    projections = np.empty((n, blocks * width), X.dtype)
    for b, block_order in enumerate(order):
        V = mixed[:, block_order]
        with np.errstate(invalid="ignore"):
            for level, row in enumerate(multipliers[b]):
                pairs = V.reshape(n, width >> (level + 1), 2, 1 << level)
                V = V + row * pairs[:, :, ::-1].reshape(n, width)
        projections[:, b * width : (b + 1) * width] = factors[b] * V
    _write(projections, radii, function, scale, product, out)


def butterfly_pairs(
    X: FloatArray,
    signs: FloatArray,
    order: NDArray[np.int64],
    multipliers: FloatArray,
    factors: FloatArray,
    radii: FloatArray,
    scale: float,
    out: FloatArray,
) -> None:
    """Fill `out` with the scaled cosines and sines of the angles ``radii * butterfly(X)``."""
    angles = np.empty((len(X), len(radii)), X.dtype)
    butterfly(X, signs, order, multipliers, factors, angles, radii)
    sincos_pairs(angles, scale, out)


def dense(
    X: FloatArray,
    weights: FloatArray,
    out: FloatArray,
    function: FunctionName = "identity",
    scale: float = 1.0,
    product: bool = False,
) -> None:
    """Fill `out` with ``scale * function(X @ weights)``, or multiply `out` by it if `product`."""
    _write(_product(X, weights), None, function, scale, product, out)


def dense_pairs(X: FloatArray, weights: FloatArray, scale: float, out: FloatArray) -> None:
    """Fill `out` with the scaled cosines and sines of the angles ``X @ weights``."""
    sincos_pairs(_product(X, weights), scale, out)


def dense_cosines(X: FloatArray, weights: FloatArray, phases: FloatArray, scale: float, out: FloatArray) -> None:
    """Fill `out` with ``scale * cos(X @ weights + phases)``."""
    cosines(_product(X, weights), phases, scale, out)


def sparse_product(
    starts: NDArray[np.int32], indices: NDArray[np.int32], values: FloatArray, X: FloatArray, out: FloatArray
) -> None:
    """Fill `out` with the product of rows of a CSR matrix (`starts`, `indices`, `values`) and a dense matrix `X`."""
    import scipy.sparse as sp  # imported here because `mercer.linalg` must import without SciPy

    some = slice(starts[0], starts[-1])
    A = sp.csr_array((values[some], indices[some], starts - starts[0]), shape=(len(starts) - 1, X.shape[0]))
    out[:] = A @ X


def _write(
    projections: FloatArray,
    radii: FloatArray | None,
    function: FunctionName,
    scale: float,
    product: bool,
    out: FloatArray,
) -> None:
    """Fill `out` with ``scale * function(radii * projections)``, or multiply `out` by it if `product`."""
    values = projections[:, : out.shape[1]]
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if radii is not None:
            values = values * radii
        values = _FUNCTIONS[function](values) * out.dtype.type(scale)
        np.multiply(out, values, out=out) if product else np.copyto(out, values)


def _product(X: FloatArray, weights: FloatArray) -> FloatArray:
    """Return ``X @ weights``, computed one row at a time.

    In a product of many rows at once, the rounding errors of a row would depend on the other rows.
    """
    products = np.empty((len(X), weights.shape[1]), X.dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        for row, result in zip(X, products, strict=True):
            np.matmul(row, weights, out=result)
    return products


def _padded(X: FloatArray, width: int) -> FloatArray:
    """Return the rows of `X`, padded with zeros on the right to length `width`."""
    padded = np.zeros((len(X), width), X.dtype)
    padded[:, : X.shape[1]] = X
    return padded


def _hadamard(V: FloatArray) -> FloatArray:
    """Multiply each row by the Sylvester-Hadamard matrix, in the order of `scipy.linalg.hadamard`."""
    n, width = V.shape
    half = 1
    with np.errstate(invalid="ignore"):  # infinite data give NaN
        while half < width:
            pairs = V.reshape(n, width // (2 * half), 2, half)
            first, second = pairs[:, :, 0], pairs[:, :, 1]
            V = np.stack([first + second, first - second], axis=2).reshape(n, width)
            half *= 2
    return V
