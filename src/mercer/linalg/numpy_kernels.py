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
    "nearest_rows",
    "pack_rows",
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


def pack_rows(
    X: FloatArray,
    starts: NDArray[np.int64],
    centers: NDArray[np.float64],
    index: NDArray[np.int64],
    scale: float,
    first: int,
    last: int,
    rows: FloatArray,
    panels: NDArray[np.float32],
    lows: NDArray[np.float32],
    lengths: NDArray[np.float64],
) -> None:
    """Fill the arrays of the positions of some cells; see `mercer.linalg.row_search.PackedRows`."""
    d = X.shape[1]
    margin, error = 1e-13 + d * 2.3e-16, (2.1 * d + 16) * 2.0**-24
    for cell in range(first, last):
        some = slice(starts[cell] * PANEL_ROWS, starts[cell + 1] * PANEL_ROWS)
        missing = index[some] < 0
        rows[some] = np.where(missing[:, None], 0, X[index[some]])
        gaps = np.where(missing[:, None], 0.0, rows[some].astype(np.float64) * scale - centers[cell])
        squared = np.square(gaps).sum(axis=1)
        with np.errstate(under="ignore"):
            interleaved = gaps.astype(np.float32).reshape(-1, PANEL_ROWS, d).transpose(0, 2, 1)
            lows[some] = np.where(missing, np.inf, (1 - error) * squared)
        panels[starts[cell] : starts[cell + 1]] = interleaved.reshape(-1, d * PANEL_ROWS)
        length, absent = np.sqrt(squared).reshape(-1, PANEL_ROWS), missing.reshape(-1, PANEL_ROWS)
        ends = lengths[starts[cell] : starts[cell + 1]]
        ends[:, 0] = np.where(absent, np.inf, length).min(axis=1, initial=np.inf) * (1 - margin)
        ends[:, 1] = np.where(absent, 0.0, length).max(axis=1, initial=0.0) * (1 + margin)


def nearest_rows(
    X: FloatArray,
    homes: NDArray[np.int64],  # noqa: ARG001 - the signature of the compiled function
    starts: NDArray[np.int64],  # noqa: ARG001
    centers: NDArray[np.float64],
    index: NDArray[np.int64],
    scale: float,
    rows: FloatArray,
    panels: NDArray[np.float32],  # noqa: ARG001
    lows: NDArray[np.float32],  # noqa: ARG001
    lengths: NDArray[np.float64],  # noqa: ARG001
    radii: NDArray[np.float64],  # noqa: ARG001
    own: NDArray[np.int64] | None,
    before: NDArray[np.int64] | None,
    first_visits: int,  # noqa: ARG001
    reach: float,  # noqa: ARG001
    indices: NDArray[np.int64],
    squares: NDArray[np.float64],
) -> None:
    """Fill `indices` and `squares` with the nearest rows of queries, by inner products and then by differences."""
    (m, d), count = X.shape, indices.shape[1]
    origin = centers.mean(axis=0) / scale
    queries = X.astype(np.float64) - origin
    query_squares = np.square(queries).sum(axis=1)[:, None]
    step = max(count, 2**20 // max(m, d))

    def bounds(start: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return bounds of the squared distances to some rows; infinity for rows that are no neighbors."""
        some, row = rows[start : start + step].astype(np.float64) - origin, index[start : start + step]
        sizes = query_squares + np.square(some).sum(axis=1)
        values = sizes - 2 * (queries @ some.T)
        error = (2 * d + 16) * np.finfo(np.float64).eps * sizes
        excluded = np.broadcast_to(row < 0, values.shape)
        if own is not None:
            excluded = excluded | (row == own[:, None])
        if before is not None:
            excluded = excluded | (row >= before[:, None])
        return np.where(excluded, np.inf, values - error), np.where(excluded, np.inf, values + error)

    highest = np.full((m, count), np.inf)
    for start in range(0, len(rows), step):
        highest = np.partition(np.concatenate([highest, bounds(start)[1]], axis=1), count - 1, axis=1)[:, :count]
    limit = np.minimum(highest.max(axis=1, keepdims=True), np.finfo(np.float64).max)
    found: list[tuple[NDArray[np.int64], ...]] = []
    for start in range(0, len(rows), step):
        q, position = np.nonzero(bounds(start)[0] <= limit)
        gaps = X[q].astype(np.float64) - rows[start + position].astype(np.float64)
        found.append((q, np.square(gaps).sum(axis=1), index[start + position]))
    q, square, row = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.lexsort((row, square, q))
    q, square, row = q[order], square[order], row[order]
    rank = np.arange(len(q)) - np.searchsorted(q, q)
    q, square, row, rank = (values[rank < count] for values in (q, square, row, rank))
    indices[q, rank], squares[q, rank] = row, square


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
