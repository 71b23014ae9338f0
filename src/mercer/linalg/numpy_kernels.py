"""Reference implementations of the compiled functions in NumPy, used where the extension is not installed.

For each of these functions, the public function of the same name in `mercer.linalg` documents and checks the arguments.
"""

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "FUNCTION_NAMES",
    "PROFILES",
    "FloatArray",
    "FunctionName",
    "ProfileName",
    "butterfly",
    "butterfly_pairs",
    "cosines",
    "dense",
    "dense_cosines",
    "dense_pairs",
    "metric_gradient",
    "nearest_rows",
    "pack_rows",
    "sign_hadamard",
    "sign_hadamard_pairs",
    "sincos_pairs",
    "solve_given",
    "solve_local",
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


ProfileName = Literal["gaussian", "matern12", "matern32", "matern52"]
"""Kernels of two rows at distance r: exp(-r^2/2), and those of Matern with smoothness 1/2, 3/2 and 5/2."""

PROFILES: tuple[ProfileName, ...] = get_args(ProfileName)

# Entries of the small matrices that are computed at once.
_BATCH_ENTRIES = 2**21


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


def solve_local(
    rows: FloatArray,
    indices: NDArray[np.int64],
    queries: FloatArray,
    profile: ProfileName,
    noise: FloatArray,
    targets: FloatArray | None,
    features: FloatArray | None,
    query_features: FloatArray | None,
    weights: FloatArray,
    variance: NDArray[np.float64],
    solved: FloatArray | None,
    jitter: NDArray[np.float64],
) -> None:
    """Fill `weights`, `variance`, `solved` and `jitter` with the solutions for the neighbors of each query."""
    k = indices.shape[1]
    prior = np.ones(len(queries))
    if query_features is not None:
        prior = np.maximum(0.0, 1.0 - np.square(query_features, dtype=np.float64).sum(axis=1))
    for part in _batches(len(queries), k * k):
        chosen = indices[part]
        missing = chosen < 0
        N = np.where(missing[..., None], rows.dtype.type(0), rows[chosen])
        points = np.concatenate([N, queries[part, None]], axis=1)
        K = _profile(profile, _squared_distances(points))
        if features is not None and query_features is not None:
            F = np.concatenate([features[chosen], query_features[part, None]], axis=1).astype(rows.dtype, copy=False)
            K -= F @ F.transpose(0, 2, 1)
        own = np.where(missing, rows.dtype.type(np.inf), noise[chosen] if len(noise) > 1 else noise)
        rhs = None if targets is None else targets[chosen]
        out = None if solved is None else solved[part]
        _solve(
            K[:, :k, :k],
            K[:, k, :k],
            prior[part],
            own,
            np.ones(own.shape),
            rhs,
            weights[part],
            variance[part],
            out,
            jitter[part],
        )


def solve_given(
    K: FloatArray,
    cross: FloatArray,
    prior: NDArray[np.float64],
    noise: FloatArray,
    targets: FloatArray | None,
    weights: FloatArray,
    variance: NDArray[np.float64],
    solved: FloatArray | None,
    jitter: NDArray[np.float64],
) -> None:
    """Fill `weights`, `variance`, `solved` and `jitter` with the solutions of systems whose matrices are given."""
    k = K.shape[1]
    for part in _batches(len(K), k * k):
        rhs = None if targets is None else targets[part]
        out = None if solved is None else solved[part]
        scale = np.abs(np.diagonal(K[part], axis1=1, axis2=2))
        _solve(
            K[part], cross[part], prior[part], noise[part], scale, rhs, weights[part], variance[part], out, jitter[part]
        )


def metric_gradient(
    rows: FloatArray,
    indices: NDArray[np.int64],
    queries: FloatArray,
    profile: ProfileName,
    left: FloatArray,
    right: FloatArray,
    cross: FloatArray,
    full: bool,
    out: NDArray[np.float64],
) -> None:
    """Add to `out` the weighted sum of outer products of differences, of shape (d, d), or its diagonal, (1, d)."""
    k = indices.shape[1]
    for part in _batches(len(queries), k * max(k, rows.shape[1])):
        there = indices[part] >= 0
        # Centered on the query, so that the products below do not cancel for rows far from the origin.
        N = np.where(there[..., None], (rows[indices[part]] - queries[part, None]).astype(float), 0.0)
        a, b, u = (np.where(there, values[part].astype(float), 0.0) for values in (left, right, cross))
        M = 0.5 * (a[:, :, None] * b[:, None, :] + b[:, :, None] * a[:, None, :])
        between, beyond = _squared_distances(N), np.square(N).sum(axis=2)
        if profile == "matern12":
            # Infinite slopes, nearly: their contribution is lost in rounding errors, and proportional to the distance.
            between[between < np.finfo(float).eps * (beyond[:, :, None] + beyond[:, None, :])] = 0.0
        M *= _slope(profile, between)
        u = u * _slope(profile, beyond)
        B = -2.0 * M
        B[:, np.arange(k), np.arange(k)] += 2.0 * M.sum(axis=2) + u
        if full:
            out += np.einsum("mip,miq->pq", N, B @ N, optimize=True)
        else:
            out[0] += np.einsum("mip,mip->p", N, B @ N)


def _batches(m: int, entries: int) -> list[slice]:
    """Return slices of `m` systems, of `entries` numbers each, that fit into a few megabytes."""
    step = max(1, _BATCH_ENTRIES // max(1, entries))
    return [slice(start, min(start + step, m)) for start in range(0, m, step)]


def _squared_distances(N: FloatArray) -> FloatArray:
    """Return the squared distances of all pairs of rows of each matrix, from differences, which do not cancel."""
    square = np.zeros((*N.shape[:2], N.shape[1]), N.dtype)
    for p in range(N.shape[2]):
        square += np.square(N[:, :, None, p] - N[:, None, :, p])
    return square


def _profile(profile: ProfileName, square: FloatArray) -> FloatArray:
    """Return the kernel at squared distances."""
    if profile == "gaussian":
        return np.exp(-square / 2)
    r = np.sqrt(square)
    if profile == "matern12":
        return np.exp(-r)
    if profile == "matern32":
        r *= r.dtype.type(np.sqrt(3))
        return (1 + r) * np.exp(-r)
    r *= r.dtype.type(np.sqrt(5))
    return (1 + r + r * r / 3) * np.exp(-r)


def _slope(profile: ProfileName, square: FloatArray) -> FloatArray:
    """Return minus the derivative of the kernel over the distance, at squared distances; zero where it is infinite."""
    if profile == "gaussian":
        return np.exp(-square / 2)
    r = np.sqrt(square)
    if profile == "matern12":
        return np.where(r > 0, np.exp(-r) / np.where(r > 0, r, 1), 0)
    if profile == "matern32":
        return 3 * np.exp(-np.sqrt(3) * r)
    return 5 / 3 * (1 + np.sqrt(5) * r) * np.exp(-np.sqrt(5) * r)


def _solve(
    K: FloatArray,
    cross: FloatArray,
    prior: NDArray[np.float64],
    noise: FloatArray,
    scale: FloatArray,
    targets: FloatArray | None,
    weights: FloatArray,
    variance: NDArray[np.float64],
    solved: FloatArray | None,
    jitter: NDArray[np.float64],
) -> None:
    """Solve a batch of systems (K + diag(noise)) b = cross; infinite noise means that there is no neighbor.

    Pivots are compared with rounding errors of numbers of size `scale` plus the noise.
    """
    m, k = cross.shape
    dtype = K.dtype
    missing = np.isinf(noise)
    either = missing[:, :, None] | missing[:, None, :]
    A = np.where(either, dtype.type(0), K)
    scale, added = np.where(missing, 0, scale), np.where(missing, 1, noise).astype(dtype)
    rhs = np.where(missing, dtype.type(0), cross)[..., None]
    if targets is not None:
        rhs = np.concatenate([rhs, np.where(missing[..., None], dtype.type(0), targets)], axis=2)
    diagonal = np.arange(k)
    A[:, diagonal, diagonal] += added
    eps = float(np.finfo(dtype).eps)
    least = eps * (4 + np.sqrt(np.count_nonzero(~missing, axis=1))[:, None]) * (scale + added)
    jitter[:] = 0
    L = np.full_like(A, np.nan)
    failed = np.arange(m)
    step = eps * scale.sum(axis=1)
    for _ in range(_ATTEMPTS):
        trial = A[failed]
        trial[:, diagonal, diagonal] += jitter[failed, None].astype(dtype)
        factors = _factors(trial)
        with np.errstate(invalid="ignore"):
            good = (np.square(factors[:, diagonal, diagonal]) > least[failed]).all(axis=1)
        L[failed[good]] = factors[good]
        failed = failed[~good]
        if not len(failed):
            break
        jitter[failed] = np.where(jitter[failed] == 0, step[failed], 10 * jitter[failed])
    jitter[failed] = np.nan
    halfway = np.linalg.solve(L, rhs)
    solution = np.linalg.solve(L.transpose(0, 2, 1), halfway)
    weights[...] = np.where(missing, dtype.type(0), solution[..., 0])
    explained = np.square(halfway[..., 0], dtype=np.float64).sum(axis=1)
    variance[...] = np.where(prior - explained < 0, 0.0, prior - explained)  # NaN is preserved
    if solved is not None:
        solved[...] = np.where(missing[..., None], dtype.type(0), solution[..., 1:])


# Number of times that a system is factorized, each time with ten times the jitter, before its solution is NaN.
_ATTEMPTS = 20


def _factors(A: FloatArray) -> FloatArray:
    """Return the Cholesky factors of a batch of matrices, NaN for those that are not positive definite."""
    try:
        return np.linalg.cholesky(A)
    except np.linalg.LinAlgError:
        if len(A) == 1:
            return np.full_like(A, np.nan)
        return np.concatenate([_factors(half) for half in (A[: len(A) // 2], A[len(A) // 2 :])])


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
