"""Kernel systems of the neighbors of each query: many small matrices, factorized and solved in compiled code.

A query has at most k neighbors among n rows. `solve_local` computes the kernel of the neighbors, factorizes it with the
noise on its diagonal, and solves for the weights by which the neighbors predict the query. `solve_given` does the same
for matrices that the caller has computed. `metric_gradient` computes the derivative of a loss of such predictions with
respect to the metric in which distances are measured.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer.linalg import dispatch
from mercer.linalg.numpy_kernels import PROFILES, FloatArray, ProfileName
from mercer.parameters import count_threads

__all__ = ["PROFILES", "LocalSolution", "metric_gradient", "solve_given", "solve_local"]

Array = np.ndarray
# Queries in a block, which is a task of one thread. A task takes a millisecond or more, so starting it costs little.
BLOCK = 64
# Most blocks of a gradient, each of which has a sum of its own. They do not depend on the number of threads, so neither
# does the rounding of the total.
GRADIENT_BLOCKS = 16


@dataclass(frozen=True)
class LocalSolution:
    """Solutions of the systems of m queries with k neighbors each.

    Attributes
    ----------
    weights : ndarray of shape (m, k)
        Solutions b of (K + diag(noise)) b = k(N, x), where K is the kernel of the neighbors N of the query x. The mean
        of a prediction is the product of the weights with the targets of the neighbors. Zero where there is no
        neighbor.
    variance : ndarray of shape (m,), float64
        The variance of the query given its neighbors, k(x, x) - k(x, N) b >= 0, without the noise of the query itself.
    targets : ndarray of shape (m, k, t) or None
        The solutions of (K + diag(noise)) B = targets of the neighbors, if targets were passed.
    jitter : ndarray of shape (m,), float64
        What was added to the diagonal, beyond the noise, because the matrix was singular up to rounding: 0 for
        nearly all systems. NaN, together with all solutions, if a matrix is not finite.
    """

    weights: Array
    variance: Array
    targets: Array | None
    jitter: Array


def solve_local(
    rows: FloatArray,
    indices: NDArray[np.integer],
    queries: FloatArray,
    profile: ProfileName,
    noise: ArrayLike,
    *,
    targets: FloatArray | None = None,
    features: FloatArray | None = None,
    query_features: FloatArray | None = None,
    own: NDArray[np.integer] | None = None,
    n_jobs: int | None = None,
) -> LocalSolution:
    """Solve the kernel systems of the neighbors of each query.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        Rows divided by the lengthscales, float32 or float64. Systems are computed in this dtype.
    indices : ndarray of shape (m, k), integer
        Indices of the neighbors of each query among the rows; -1 means no neighbor.
    queries : ndarray of shape (m, d)
        Queries, in the dtype of `rows`.
    profile : {"gaussian", "matern12", "matern32", "matern52"}
        Kernel as a function of the distance r: exp(-r^2/2), exp(-r), (1 + sqrt(3) r) exp(-sqrt(3) r) or
        (1 + sqrt(5) r + 5 r^2/3) exp(-sqrt(5) r).
    noise : float or array_like of shape (n,)
        Variance of the noise of each row, >= 0, relative to that of the kernel. A row of infinite noise is no neighbor.
    targets : ndarray of shape (n, t), optional
        Targets of the rows, for which the systems are solved too.
    features, query_features : ndarray of shape (n, D) and (m, D), optional
        Features of an approximation of the kernel, in the dtype of `rows` or in float32. The systems are then those of
        the residual kernel, the profile minus the products of features. Products of float32 features are summed in
        float32, at most 128 at a time, and subtracted from the profile in the dtype of `rows`.
    own : ndarray of shape (m,), integer, optional
        Index of the row that is left out of the neighbors of each query, usually the query itself; -1 means none.
    n_jobs : int, optional
        Number of threads; None means all cores. Results do not depend on it.

    Returns
    -------
    LocalSolution
        Weights, variances, solutions for the targets, and jitter.

    See Also
    --------
    solve_given : The same for matrices that are computed by the caller.
    metric_gradient : The derivative of a loss with respect to the metric.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.array([[0.0], [1.0], [5.0]])
    >>> solution = solve_local(rows, np.array([[0, 1], [2, -1]]), np.array([[0.5], [4.0]]), "matern12", 0.0)
    >>> solution.weights.round(4)
    array([[0.4434, 0.4434],
           [0.3679, 0.    ]])
    >>> solution.variance.round(4)
    array([0.4621, 0.8647])
    """
    name = "solve_local"
    rows, queries = _check_rows(name, rows, queries)
    neighbors = _check_indices(name, indices, rows, queries)
    _check_profile(name, profile)
    values = _check_noise(name, noise, rows)
    (m, k), n, dtype = neighbors.shape, len(rows), rows.dtype
    if own is not None:
        own = np.asarray(own)
        if own.shape != (m,) or own.dtype.kind not in "iu":
            msg = f"{name}: own must be {m} integers, one per query, got shape {own.shape} of {own.dtype}"
            raise ValueError(msg)
        neighbors = np.where(neighbors == own[:, None], -1, neighbors)
    solved = None
    if targets is not None:
        targets = _contiguous(name, "targets", targets, 2, dtype)
        _check_length(name, "targets", targets, n, "one per row")
        solved = np.empty((m, k, targets.shape[1]), dtype)
    if (features is None) != (query_features is None):
        msg = f"{name}: features and query_features must be passed together, got one of them. Pass both or none."
        raise ValueError(msg)
    if features is not None and query_features is not None:
        single = getattr(features, "dtype", None) == np.float32
        features = _contiguous(name, "features", features, 2, np.dtype(np.float32) if single else dtype)
        query_features = _contiguous(name, "query_features", query_features, 2, features.dtype)
        _check_length(name, "features", features, n, "one per row")
        _check_length(name, "query_features", query_features, m, "one per query")
        if features.shape[1] != query_features.shape[1]:
            msg = (
                f"{name}: query_features must have as many components as features, {features.shape[1]}, "
                f"got {query_features.shape[1]}"
            )
            raise ValueError(msg)
    weights, variance, jitter = np.empty((m, k), dtype), np.empty(m), np.empty(m)

    def solve(part: slice) -> None:
        dispatch.kernels.solve_local(
            rows,
            neighbors[part],
            queries[part],
            profile,
            values,
            targets,
            features,
            None if query_features is None else query_features[part],
            weights[part],
            variance[part],
            None if solved is None else solved[part],
            jitter[part],
        )

    _run(solve, _blocks(m, BLOCK), n_jobs)
    return LocalSolution(weights, variance, solved, jitter)


def solve_given(
    K: FloatArray,
    cross: FloatArray,
    prior: ArrayLike,
    noise: FloatArray,
    targets: FloatArray | None = None,
    *,
    n_jobs: int | None = None,
) -> LocalSolution:
    """Solve systems whose kernel matrices are given.

    Parameters
    ----------
    K : ndarray of shape (m, k, k)
        Kernel matrices of the neighbors of each query, symmetric, float32 or float64.
    cross : ndarray of shape (m, k)
        Kernel of each query with its neighbors, in the dtype of `K`.
    prior : array_like of shape (m,)
        Kernel of each query with itself.
    noise : ndarray of shape (m, k)
        Variance of the noise of each neighbor, >= 0; infinity means no neighbor, whose kernel values are not used.
    targets : ndarray of shape (m, k, t), optional
        Further right-hand sides.
    n_jobs : int, optional
        Number of threads; None means all cores. Results do not depend on it.

    Returns
    -------
    LocalSolution
        Weights, variances, solutions for the targets, and jitter.

    See Also
    --------
    solve_local : Computes the kernel matrices from rows.

    Examples
    --------
    >>> import numpy as np
    >>> K, cross = np.array([[[1.0, 0.5], [0.5, 1.0]]]), np.array([[0.8, 0.4]])
    >>> solve_given(K, cross, [1.0], np.array([[0.0, np.inf]])).weights
    array([[0.8, 0. ]])
    """
    name = "solve_given"
    K = _contiguous(name, "K", K, 3, None)
    m, k, dtype = len(K), K.shape[1], K.dtype
    if K.shape[2] != k:
        msg = f"{name}: K must have square matrices, got shape {K.shape}"
        raise ValueError(msg)
    cross, noise = _contiguous(name, "cross", cross, 2, dtype), _contiguous(name, "noise", noise, 2, dtype)
    for what, array in (("cross", cross), ("noise", noise)):
        if array.shape != (m, k):
            msg = f"{name}: {what} must have shape {(m, k)}, as K has, got {array.shape}"
            raise ValueError(msg)
    _check_not_negative(name, noise)
    prior = np.ascontiguousarray(prior, np.float64)
    if prior.shape != (m,):
        msg = f"{name}: prior must have shape {(m,)}, one per query, got {prior.shape}"
        raise ValueError(msg)
    solved = None
    if targets is not None:
        targets = _contiguous(name, "targets", targets, 3, dtype)
        if targets.shape[:2] != (m, k):
            msg = f"{name}: targets must have shape {(m, k, 't')}, got {targets.shape}"
            raise ValueError(msg)
        solved = np.empty(targets.shape, dtype)
    weights, variance, jitter = np.empty((m, k), dtype), np.empty(m), np.empty(m)

    def solve(part: slice) -> None:
        dispatch.kernels.solve_given(
            K[part],
            cross[part],
            prior[part],
            noise[part],
            None if targets is None else targets[part],
            weights[part],
            variance[part],
            None if solved is None else solved[part],
            jitter[part],
        )

    _run(solve, _blocks(m, BLOCK), n_jobs)
    return LocalSolution(weights, variance, solved, jitter)


def metric_gradient(
    rows: FloatArray,
    indices: NDArray[np.integer],
    queries: FloatArray,
    profile: ProfileName,
    left: FloatArray,
    right: FloatArray,
    cross: FloatArray,
    *,
    full: bool = False,
    n_jobs: int | None = None,
) -> Array:
    """Return the derivative of a loss with respect to the metric of distances, up to the factor -1/2.

    Let the loss depend on the kernel of the neighbors i, j of a query by the matrix of derivatives
    (left_i right_j + right_i left_j) / 2, and on the kernel of the neighbors and the query by the derivatives cross_i.
    With squared distances (x - y)' A (x - y), the derivative of the loss with respect to A is -1/2 times the sum over
    queries q of

        sum_ij M_ij (x_i - x_j)(x_i - x_j)' + sum_i u_i (x_i - x_q)(x_i - x_q)',

    where M_ij = (left_i right_j + right_i left_j) s(r_ij) / 2, u_i = cross_i s(r_iq) and s(r) = -profile'(r) / r. This
    function returns the sum at A = I, for rows that are already divided by the lengthscales. Two equal rows contribute
    nothing.

    Parameters
    ----------
    rows, indices, queries, profile
        As for `solve_local`.
    left, right, cross : ndarray of shape (m, k)
        Factors of the derivatives, in the dtype of `rows`. Those of missing neighbors are not used.
    full : bool
        Whether to return all entries instead of the diagonal.
    n_jobs : int, optional
        Number of threads; None means all cores. Results do not depend on it.

    Returns
    -------
    ndarray of shape (d,) or (d, d), float64
        The diagonal of the sum, or the symmetric matrix if `full`.

    See Also
    --------
    solve_local : Solutions from which such losses are computed.

    Examples
    --------
    >>> import numpy as np
    >>> rows, ones = np.array([[0.0, 0.0], [1.0, 2.0]]), np.ones((1, 2))
    >>> metric_gradient(rows, np.array([[0, 1]]), rows[:1], "gaussian", ones, ones, 0 * ones).round(4)
    array([0.1642, 0.6567])
    """
    name = "metric_gradient"
    rows, queries = _check_rows(name, rows, queries)
    neighbors = _check_indices(name, indices, rows, queries)
    _check_profile(name, profile)
    factors = []
    for what, array in (("left", left), ("right", right), ("cross", cross)):
        factor = _contiguous(name, what, array, 2, rows.dtype)
        if factor.shape != neighbors.shape:
            msg = f"{name}: {what} must have shape {neighbors.shape}, as indices has, got {factor.shape}"
            raise ValueError(msg)
        factors.append(factor)
    d = rows.shape[1]

    def add(part: slice) -> Array:
        total = np.zeros((d if full else 1, d))
        a, b, c = (factor[part] for factor in factors)
        dispatch.kernels.metric_gradient(rows, neighbors[part], queries[part], profile, a, b, c, bool(full), total)
        return total

    m = len(queries)
    parts = _run(add, _blocks(m, max(BLOCK, -(-m // GRADIENT_BLOCKS))), n_jobs)
    total = sum(parts, np.zeros((d if full else 1, d)))
    return total if full else total[0]


def _blocks(m: int, size: int) -> list[slice]:
    """Return slices of `size` queries each."""
    return [slice(start, min(start + size, m)) for start in range(0, m, size)]


def _run(function: Callable[[slice], Any], parts: list[slice], n_jobs: int | None) -> list[Any]:
    """Return the results of `function` for all blocks, in their order, from several threads."""
    threads = min(count_threads(n_jobs), len(parts))
    if threads <= 1:
        return [function(part) for part in parts]
    with ThreadPoolExecutor(threads, thread_name_prefix="mercer") as pool:
        return list(pool.map(function, parts))


def _contiguous(function: str, name: str, array: FloatArray, ndim: int, dtype: np.dtype[Any] | None) -> FloatArray:
    """Return `array` in C order; require its number of dimensions and its dtype, float32 or float64 if None."""
    array = np.ascontiguousarray(array)
    dispatch.check_array(function, name, array, ndim, dtype)
    return array


def _check_rows(function: str, rows: FloatArray, queries: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return rows and queries in C order; require equal dtypes and numbers of features."""
    rows = _contiguous(function, "rows", rows, 2, None)
    queries = _contiguous(function, "queries", queries, 2, rows.dtype)
    if rows.shape[1] != queries.shape[1]:
        msg = f"{function}: queries must have as many features as rows, {rows.shape[1]}, got {queries.shape[1]}"
        raise ValueError(msg)
    return rows, queries


def _check_indices(
    function: str, indices: NDArray[np.integer], rows: FloatArray, queries: FloatArray
) -> NDArray[np.int64]:
    """Return indices as int64; require one row of them per query, with values from -1 to n - 1."""
    indices = np.asarray(indices)
    if indices.dtype.kind not in "iu":
        msg = f"{function}: indices must be integers, got {indices.dtype}"
        raise TypeError(msg)
    if indices.ndim != 2 or len(indices) != len(queries):
        msg = f"{function}: indices must have shape ({len(queries)}, k), one row per query, got {indices.shape}"
        raise ValueError(msg)
    if indices.size and not (-1 <= indices.min() and indices.max() < len(rows)):
        msg = (
            f"{function}: indices must be indices of rows, 0 to {len(rows) - 1}, or -1 for no neighbor, "
            f"got {indices.min()} to {indices.max()}"
        )
        raise ValueError(msg)
    return np.ascontiguousarray(indices, np.int64)


def _check_profile(function: str, profile: str) -> None:
    """Require that `profile` is one of `PROFILES`."""
    if profile not in PROFILES:
        msg = f"{function}: profile must be one of {', '.join(PROFILES)}, got {profile!r}"
        raise ValueError(msg)


def _check_noise(function: str, noise: ArrayLike, rows: FloatArray) -> FloatArray:
    """Return the noise in the dtype of the rows, one value for all rows or one per row; require values >= 0."""
    values = np.asarray(noise, rows.dtype)
    if values.shape not in {(), (len(rows),)}:
        msg = f"{function}: noise must be a number or have shape {(len(rows),)}, one per row, got {values.shape}"
        raise ValueError(msg)
    _check_not_negative(function, values)
    return np.ascontiguousarray(values)  # a number becomes an array of length one


def _check_not_negative(function: str, noise: FloatArray) -> None:
    """Require that all values are >= 0; infinity is accepted."""
    if noise.size and not (noise >= 0).all():
        msg = f"{function}: noise must be >= 0, got {noise.min()}"
        raise ValueError(msg)


def _check_length(function: str, name: str, array: FloatArray, length: int, what: str) -> None:
    """Require that `array` has `length` rows."""
    if len(array) != length:
        msg = f"{function}: {name} must have {length} rows, {what}, got {len(array)}"
        raise ValueError(msg)
