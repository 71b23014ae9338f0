"""Functions of plain NumPy that exported models call; an exported file has copies of those that it uses.

They depend on NumPy alone, and are written so that they can be read in such a file.
"""

import hashlib

import numpy as np

__all__ = [
    "butterfly",
    "cauchy_products",
    "chi2_sums",
    "circular_convolution",
    "city_block_distances",
    "hadamard",
    "interpolate",
    "jensen_shannon_sums",
    "look_up",
    "nearest",
    "pad",
    "piecewise_polynomial",
    "products_of_minima",
    "sigmoid",
    "softmax",
    "solve",
    "squared_differences",
    "squared_distances",
    "sums_of_minima",
]


def squared_distances(X, Y):
    """Return the squared Euclidean distances of all pairs of rows of X (n, d) and Y (m, d)."""
    center = np.median(Y[:: -(-len(Y) // 64)], axis=0)
    x, y = X - center, Y - center
    sizes = np.square(x).sum(axis=1)[:, None] + np.square(y).sum(axis=1)
    squares = sizes - 2 * (x @ y.T)
    # The difference loses digits where it is small: there it is computed from the differences of the rows.
    i, j = np.nonzero(squares <= 1e-5 * sizes)
    for start in range(0, len(i), 10_000):
        some = slice(start, start + 10_000)
        squares[i[some], j[some]] = np.square(X[i[some]] - Y[j[some]]).sum(axis=1)
    return squares


def squared_differences(X, Y):
    """Return the squared Euclidean distances of rows X (..., n, d) and Y (..., m, d), of shape (..., n, m)."""
    total = 0.0
    for i in range(X.shape[-1]):
        total = total + np.square(X[..., :, None, i] - Y[..., None, :, i])
    return total


def city_block_distances(X, Y):
    """Return the sums over features of |x_i - y_i|, for rows X (..., n, d) and Y (..., m, d)."""
    total = 0.0
    for i in range(X.shape[-1]):
        total = total + np.abs(X[..., :, None, i] - Y[..., None, :, i])
    return total


def cauchy_products(X, Y):
    """Return the products over features of 1 / (1 + (x_i - y_i)^2), for rows X (..., n, d) and Y (..., m, d)."""
    total = 1.0
    for i in range(X.shape[-1]):
        total = total / (1 + np.square(X[..., :, None, i] - Y[..., None, :, i]))
    return total


def sums_of_minima(X, Y):
    """Return the sums over features of min(x_i, y_i), for rows X (..., n, d) and Y (..., m, d)."""
    total = 0.0
    for i in range(X.shape[-1]):
        total = total + np.minimum(X[..., :, None, i], Y[..., None, :, i])
    return total


def products_of_minima(X, Y):
    """Return the products over features of min(x_i, y_i), for rows X (..., n, d) and Y (..., m, d)."""
    total = 1.0
    for i in range(X.shape[-1]):
        total = total * np.minimum(X[..., :, None, i], Y[..., None, :, i])
    return total


def chi2_sums(X, Y):
    """Return the sums over features of 2 x_i y_i / (x_i + y_i), for rows X (..., n, d) and Y (..., m, d)."""
    total = 0.0
    for i in range(X.shape[-1]):
        x, y = X[..., :, None, i], Y[..., None, :, i]
        smaller = np.minimum(x, y)
        total = total + 2 * smaller / (1 + smaller / np.maximum(np.maximum(x, y), 1e-300))
    return total


def jensen_shannon_sums(X, Y):
    """Return one minus the Jensen-Shannon divergence in bits, for rows X (..., n, d) and Y (..., m, d) of sum one."""
    total = 0.0
    for i in range(X.shape[-1]):
        x, y = X[..., :, None, i], Y[..., None, :, i]
        smaller = np.minimum(x, y)
        ratio = np.maximum(smaller / np.maximum(np.maximum(x, y), 1e-300), 1e-300)
        log = np.log(1 + ratio)
        total = total + smaller * (0.5 / np.log(2) * (log / ratio + log - np.log(ratio)))
    return total


def hadamard(X):
    """Return the rows, along the last axis, times the Hadamard matrix in Sylvester's order, without normalization."""
    shape, half = X.shape, 1
    while half < shape[-1]:
        pairs = X.reshape(*shape[:-1], shape[-1] // (2 * half), 2, half)
        first, second = pairs[..., 0, :], pairs[..., 1, :]
        X = np.stack([first + second, first - second], axis=-2).reshape(shape)
        half *= 2
    return X


def butterfly(X, cosines, sines):
    """Return rows (n, blocks, P) after rotations of pairs of entries whose indices differ by 1, 2, 4, ..., P / 2."""
    for level, (c, s) in enumerate(zip(cosines, sines)):  # noqa: B905 - as many of both
        X = X * c + X[..., np.arange(X.shape[-1]) ^ (1 << level)] * s
    return X


def circular_convolution(X, Y):
    """Return the circular convolutions of the rows of X and Y (n, D)."""
    return np.fft.irfft(np.fft.rfft(X) * np.fft.rfft(Y), n=X.shape[-1])


def interpolate(x, knots, values):
    """Return piecewise linear functions through knots, constant beyond them."""
    return np.interp(x, knots, values)


def piecewise_polynomial(x, coefficients, lowest):
    """Return a function that is a polynomial on each of the intervals from 2**k to 2**(k + 1), k = lowest, ..."""
    x = np.clip(x, 2.0**lowest, 2.0 ** (lowest + len(coefficients)) * (1 - 1e-15))
    level = np.floor(np.log(x) / np.log(2))
    t = x * np.exp2(1 - level) - 3
    index = np.clip((level - lowest).astype(int), 0, len(coefficients) - 1)
    total = coefficients[index, -1]
    for power in range(coefficients.shape[1] - 2, -1, -1):
        total = total * t + coefficients[index, power]
    return total


def look_up(cells, keys, table, buckets):
    """Return the rows of a table that belong to strings (n, 1); None and unknown strings have rows after the keys.

    With buckets, unknown strings have one of the last rows, by a hash.
    """
    index = {key: i for i, key in enumerate(keys.tolist())}
    missing, unknown = len(index), len(index) + 1
    rows = []
    for cell in cells[:, 0].tolist():
        row = missing if cell is None else index.get(cell, missing if cell == "" else unknown)
        if row == unknown and buckets:
            digest = hashlib.blake2b(cell.encode("utf-8", "surrogatepass"), digest_size=8).digest()
            row += 1 + int.from_bytes(digest, "little") % buckets
        rows.append(row)
    return table[rows]


def nearest(squares, count):
    """Return the indices of the least entries of each row."""
    return np.argpartition(squares, count - 1, axis=1)[:, :count] if count < squares.shape[1] else np.argsort(squares)


def solve(A, b):
    """Return the solutions (n, k, t) of systems of linear equations with matrices A (n, k, k)."""
    return np.linalg.solve(A, b)


def pad(X, width):
    """Return the rows, along the last axis, with zeros appended."""
    return np.concatenate([X, np.zeros((*X.shape[:-1], width - X.shape[-1]))], axis=-1)


def softmax(logits):
    """Return the probabilities of logits (n, K)."""
    values = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return values / values.sum(axis=-1, keepdims=True)


def sigmoid(x):
    """Return 1 / (1 + exp(-x)) without overflow."""
    return np.exp(np.minimum(x, 0)) / (1 + np.exp(-np.abs(x)))
