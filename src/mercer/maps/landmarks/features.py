"""Landmark features k(x, S) W of any kernel k, with landmark rows S and a matrix W that whitens k(S, S)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.linalg import lapack

from mercer.errors import DataError
from mercer.features import Features, Lengthscales, LinearForm, RowGradients
from mercer.kernels import Kernel
from mercer.linalg.cholesky import factorize, inverse_root
from mercer.linalg.triangular import times_triangle
from mercer.maps.landmarks.lengthscales import LandmarkGradients, LandmarkScales, isotropic_form, isotropic_terms

__all__ = ["LandmarkFeatures", "as_float64", "leading", "whitened"]

Array = np.ndarray
# Least reciprocal condition number of K_SS, as estimated by LAPACK, for which the landmarks are factorized in their
# order. Otherwise they are sorted by pivoting, which takes a few times as long.
LEAST_SHARE = 1e-10
# Number of rows whose features are computed at a time, to limit memory.
ROWS = 2048
# Largest matrix of which exact eigenvectors are computed.
EXACT = 1024
# Number of components of which second moments are computed at a time.
PANEL = 512


@dataclass(frozen=True, eq=False)
class LandmarkFeatures(Features):
    """Features k(x, S) W with landmarks S and whitening matrix W.

    The object is immutable and picklable, and does not depend on scikit-learn.
    """

    kernel: Kernel
    landmarks: Any  # (S, d), float64
    whitening: Array  # (S, n_components), float64
    n_components: int
    triangular: bool = False  # whether the whitening matrix is upper triangular
    share: float = 0.0  # reciprocal condition number of K_SS, as estimated by LAPACK; zero if it is below `LEAST_SHARE`

    def __getstate__(self) -> dict[str, Any]:
        W = self.whitening
        packed = self.triangular and W.shape[0] <= W.shape[1] and not np.tril(W, -1).any()
        return {**vars(self), "whitening": pack_trapezoid(W) if packed else W}

    def __setstate__(self, state: dict[str, Any]) -> None:
        W = state["whitening"]
        if W.ndim == 1:
            W = unpack_trapezoid(W, (state["landmarks"].shape[0], state["n_components"]))
        vars(self).update(state, whitening=W)

    @property
    def lengthscales(self) -> Lengthscales | None:
        # With fewer components than landmarks, W W' is not the inverse of K_SS, of which the derivative is known.
        if self.landmarks.shape[0] > self.n_components or isotropic_form(self.kernel) is None:
            return None
        whiten = partial(whitened, landmarks=self.landmarks, n_components=self.n_components)
        return LandmarkScales(self.kernel, self.landmarks, self.whitening, whiten)

    @property
    def linear_form(self) -> LinearForm:
        return LinearForm(LandmarkValues(self.kernel, self.landmarks), self.whitening, self.share, self.triangular)

    @property
    def landmark_residuals(self) -> tuple[Any, Array] | None:
        # The residual of a row given the others is one over the diagonal of the inverse of the kernel matrix, W W'.
        if not self.triangular:
            return None
        squares = np.square(self.whitening).sum(axis=1)
        return self.landmarks, 1 / np.maximum(squares, np.finfo(float).tiny)

    def gradients(self, coef: Array) -> RowGradients | None:
        """Return the gradients of z(x)'c with respect to x, for the columns c of `coef`, if the kernel is isotropic."""
        terms = isotropic_terms(self.kernel)
        return None if terms is None else LandmarkGradients(terms, self.landmarks, self.whitening @ coef)

    def astype(self, dtype: Any) -> Self:  # noqa: ARG002 - rounded landmarks would not match their whitening
        return self

    def __call__(self, X: Any, out: Array) -> None:
        # In float64 throughout: whitening magnifies rounding errors by the condition number of K_SS.
        values = self.kernel(as_float64(X), self.landmarks)
        if self.triangular:
            whitened_values = np.empty((len(values), self.n_components))
            times_triangle(values, self.whitening, whitened_values)
        else:
            whitened_values = values @ self.whitening
        if out.dtype != values.dtype and np.abs(whitened_values).max(initial=0.0) > np.finfo(out.dtype).max:
            msg = f"Nystroem: features of {self.kernel!r} overflow {out.dtype}. Scale the rows down, or pass float64."
            raise DataError(msg)
        out[:] = whitened_values


@dataclass(frozen=True, eq=False)
class LandmarkValues(Features):
    """Kernel values k(x, S) for landmarks S, which are not whitened: a linear function of them approximates k."""

    kernel: Kernel
    landmarks: Any  # (S, d), float64

    @property
    def n_components(self) -> int:
        return self.landmarks.shape[0]

    def astype(self, dtype: Any) -> Self:  # noqa: ARG002 - as for `LandmarkFeatures`
        return self

    def __call__(self, X: Any, out: Array) -> None:
        out[:] = self.kernel(as_float64(X), self.landmarks)


def pack_trapezoid(W: Array) -> Array:
    """Return the entries on and above the diagonal of a matrix, row after row."""
    return np.concatenate([row[i:] for i, row in enumerate(W)])


def unpack_trapezoid(packed: Array, shape: tuple[int, int]) -> Array:
    """Return the matrix that `pack_trapezoid` packed, with zeros below its diagonal."""
    rows, columns = shape
    if len(packed) != rows * columns - rows * (rows - 1) // 2:  # before memory is allocated for a damaged file
        msg = f"A triangle of {rows} rows and {columns} columns has other than {len(packed)} entries."
        raise ValueError(msg)
    W, start = np.zeros(shape, packed.dtype), 0
    for i, row in enumerate(W):
        row[i:] = packed[start : start + shape[1] - i]
        start += shape[1] - i
    return W


def whitened(kernel: Kernel, landmarks: Any, n_components: int) -> LandmarkFeatures:
    """Return the features k(x, S) W of a kernel k with landmarks S, where W W' is the inverse of k(S, S).

    W is the inverse of a Cholesky factor of k(S, S), an upper triangular matrix. If k(S, S) is ill-conditioned, the
    landmarks are sorted by pivoting, and those that are in the span of others up to rounding errors are left out. The
    components that remain up to `n_components` are zero. Features are in float64.
    """
    K = np.ascontiguousarray(kernel(landmarks), np.float64)
    if not np.isfinite(K).all():
        msg = f"Nystroem: values of {kernel!r} between landmarks overflow float64. Scale the rows down."
        raise DataError(msg)
    root, share = triangular_root(K)  # overwrites K: a second matrix of this size would be needed rarely
    if root is None:
        order, root = pivoted_root(kernel(landmarks))
        landmarks = landmarks[order]
    if len(root) < n_components:
        root = np.pad(root, ((0, 0), (0, n_components - len(root))))
    return LandmarkFeatures(kernel, landmarks, root, n_components, triangular=True, share=share)


def triangular_root(K: Array) -> tuple[Array | None, float]:
    """Return the upper triangular T with K^-1 = T T', and the reciprocal condition number of K. K is overwritten.

    If K is too ill-conditioned, None and zero are returned.
    """
    size = np.abs(K).sum(axis=0).max()  # the 1-norm of K, which LAPACK needs to estimate the condition number
    if not factorize(K):
        return None, 0.0
    share, _ = lapack.dpocon(K.T, size, uplo="L")
    return (inverse_root(K), float(share)) if share > LEAST_SHARE else (None, 0.0)


def pivoted_root(K: Array) -> tuple[Array, Array]:
    """Return the indices of rows of K that span the others up to rounding errors, and T with K_r^-1 = T T' for them.

    The next row is that of the largest residual. So the residuals, the squared diagonal of the Cholesky factor,
    decrease, and rounding errors do not grow with the condition number of K as those of an arbitrary order do.
    """
    least = len(K) * np.finfo(float).eps * max(float(np.diagonal(K).max()), 0.0)
    factor, pivots, rank, _ = lapack.dpstrf(K.T, tol=least)  # K is symmetric, and its transpose has LAPACK's layout
    if rank == 0 or least == 0:  # a kernel that is zero on all landmarks
        return np.zeros(1, dtype=int), np.zeros((1, 1))
    return pivots[:rank] - 1, inverse_root(np.ascontiguousarray(factor[:rank, :rank]))


def leading(features: LandmarkFeatures, X: Any, weight: Array, n_components: int) -> LandmarkFeatures:
    """Return the `n_components` leading principal components of landmark features, about zero, over weighted rows.

    Of all features of this number in the span of the landmarks, they have the least squared error of the kernel matrix
    of these rows, where rows count by their weights.

    Parameters
    ----------
    features : LandmarkFeatures
        Features of more than `n_components` landmarks.
    X : ndarray or CSR of shape (n, d)
        Rows.
    weight : ndarray of shape (n,)
        Weights > 0 of the rows.
    n_components : int
        Number of components to keep.

    Returns
    -------
    LandmarkFeatures
    """
    M = features.n_components
    moments = np.zeros((M, M))
    for start in range(0, X.shape[0], ROWS):
        rows = as_float64(X[start : start + ROWS])
        Z = np.empty((rows.shape[0], M))
        features(rows, Z)
        Z *= np.sqrt(weight[start : start + ROWS])[:, None]
        for i in range(0, M, PANEL):  # the upper triangle
            moments[i : i + PANEL, i:] += Z[:, i : i + PANEL].T @ Z[:, i:]
    whitening = features.whitening @ leading_eigenvectors(moments, n_components)
    return LandmarkFeatures(features.kernel, features.landmarks, whitening, n_components, share=features.share)


def leading_eigenvectors(moments: Array, count: int) -> Array:
    """Return the leading eigenvectors, one per column, of a matrix of which the upper triangle is given.

    Those of large matrices are approximations: two steps of subspace iteration from the coordinates of largest moments.
    Eigenvectors near the last one are then mixed with the following ones, which have nearly the same eigenvalues. On
    real data this increased the errors of kernels by less than 4 %, and exact eigenvectors took several times as long.
    """
    M = len(moments)
    if M <= EXACT:
        _, vectors = scipy.linalg.eigh(moments, lower=False, subset_by_index=[M - count, M - 1], overwrite_a=True)
        return with_fixed_signs(vectors)[:, ::-1]
    moments = np.triu(moments) + np.triu(moments, 1).T
    first = np.sort(np.argsort(-np.diagonal(moments), kind="stable")[:count])
    basis = orthonormal(moments[:, first])
    basis = orthonormal(moments @ basis)
    _, vectors = scipy.linalg.eigh(basis.T @ (moments @ basis), overwrite_a=True)
    return with_fixed_signs(basis @ vectors[:, ::-1])


def orthonormal(columns: Array) -> Array:
    """Return an orthonormal basis of the span of the columns of a matrix."""
    return scipy.linalg.qr(columns, mode="economic", overwrite_a=True, check_finite=False)[0]


def with_fixed_signs(vectors: Array) -> Array:
    """Return eigenvectors, one per column, with signs such that the entry of largest magnitude is positive.

    The signs that LAPACK returns depend on rounding errors of the matrix, which differ for dense and sparse rows.
    """
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None], axis=0)
    return vectors * np.where(largest < 0, -1.0, 1.0)


def as_float64(X: Any) -> Any:
    """Return rows, sparse or dense, in float64."""
    return X.astype(np.float64) if sp.issparse(X) else np.asarray(X, dtype=np.float64)
