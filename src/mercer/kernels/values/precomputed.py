"""A kernel given by the matrix of its values for the rows of a fit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.linalg

from mercer.errors import DataError
from mercer.kernels.base import Kernel, as_rows, dense64

__all__ = ["Precomputed"]

Array = np.ndarray
# Asymmetry of a matrix, relative to its largest entry, that counts as rounding error: that of float32.
ASYMMETRY = 1e-5


@dataclass(frozen=True, eq=False, repr=False)
class Precomputed(Kernel):
    r"""A kernel given by its matrix, as ``kernel="precomputed"`` in scikit-learn.

    Row i of `X` has the kernel values of object i and all n objects of the fit, in the order of the fit. So a map or
    learner is fitted to the symmetric matrix (n, n), and applied to matrices (m, n) of the values of m new objects and
    the n objects of the fit. scikit-learn's cross-validation selects rows and columns accordingly.

    The matrix has no value for two new objects. As a function of two rows x and y, the kernel is defined as
    :math:`x^\top K^+ y`, with the pseudo-inverse of the matrix K of the fit. This is the entry of the matrix if x or y
    belongs to the fit, and the kernel of the projections on the span of the objects of the fit if both are new.

    Parameters
    ----------
    matrix : ndarray of shape (n, n) or "fit", default="fit"
        The matrix K. With "fit", it is the matrix that a map or learner is fitted to, which must be in memory. It is
        stored in the fitted model.

    See Also
    --------
    CallableKernel : A kernel given by a function.

    Notes
    -----
    `Nystroem` looks up entries of the matrix. The pseudo-inverse, which takes time O(n^3), is computed at the first use
    of the kernel for two new objects, for example by `audit` or for the variance of a Gaussian process.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Gaussian, Nystroem, Precomputed
    >>> X, Y = np.random.default_rng(0).normal(size=(2, 50, 3))
    >>> feature_map = Nystroem(Precomputed(), n_components=10, random_state=0).fit(Gaussian()(X))
    >>> feature_map.transform(Gaussian()(Y, X)).shape
    (50, 10)
    """

    matrix: Any = "fit"

    structure: ClassVar[str] = "a precomputed matrix, known by its values only"
    rules: ClassVar[tuple[str, ...]] = ("matrix",)
    all_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if isinstance(self.matrix, str) and self.matrix == "fit":
            return
        K = as_rows(PRECOMPUTED, self.matrix)
        if K.shape[0] != K.shape[1]:
            msg = (
                f"Precomputed: the matrix of the fit must have one column per row, got shape {K.shape}. Pass the "
                "kernel values of all pairs of rows, and no row with sample_weight 0."
            )
            raise DataError(msg)
        K = dense64(K)
        largest = np.abs(K).max(initial=0.0)
        if not np.allclose(K, K.T, rtol=0, atol=ASYMMETRY * largest):
            msg = (
                "Precomputed: the matrix of the fit must be symmetric, with columns in the order of the rows. Rounding "
                "errors are removed by (K + K.T) / 2."
            )
            raise DataError(msg)
        if (np.diagonal(K) < -ASYMMETRY * largest).any():
            msg = "Precomputed: the matrix must be positive semi-definite, but its diagonal has negative entries."
            raise DataError(msg)
        object.__setattr__(self, "matrix", K)

    def __repr__(self) -> str:
        return "Precomputed()" if isinstance(self.matrix, str) else f"Precomputed({len(self.matrix)} rows)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Precomputed):
            return NotImplemented
        if isinstance(self.matrix, str) or isinstance(other.matrix, str):
            return self.matrix is other.matrix or (isinstance(self.matrix, str) and isinstance(other.matrix, str))
        return np.array_equal(self.matrix, other.matrix)

    def __hash__(self) -> int:
        return hash("Precomputed" if isinstance(self.matrix, str) else (len(self.matrix), float(self.matrix.sum())))

    def __getstate__(self) -> dict[str, Any]:
        return {"matrix": self.matrix}  # what is computed from it is computed again

    def _apply_rules(self, X: Any, weight: Array | None) -> dict[str, Any]:  # noqa: ARG002 - weights do not matter
        return {"matrix": X}

    def _values(self, X: Array, Y: Array) -> Array:
        right = self._positions(Y)
        if (right >= 0).all():
            return X[:, right]
        left = self._positions(X)
        if (left >= 0).all():
            return Y[:, left].T
        values = X @ self._pseudo_inverse @ Y.T
        values[:, right >= 0] = X[:, right[right >= 0]]
        values[left >= 0] = Y[:, left[left >= 0]].T
        return values

    def _diagonal(self, X: Array) -> Array:
        rows = self._positions(X)
        values = X[np.arange(len(X)), rows]
        if (rows < 0).any():
            new = X[rows < 0]
            values[rows < 0] = np.einsum("ij,ij->i", new @ self._pseudo_inverse, new)
        return values

    @cached_property
    def _pseudo_inverse(self) -> Array:
        """The pseudo-inverse of the matrix, without eigenvalues that are rounding errors or negative."""
        values, vectors = scipy.linalg.eigh((self.matrix + self.matrix.T) / 2)
        keep = values > len(values) * np.finfo(float).eps * np.abs(values).max(initial=0.0)
        return (vectors[:, keep] / values[keep]) @ vectors[:, keep].T

    @cached_property
    def _index(self) -> tuple[Array, Array]:
        """Sorted hashes of the rows of the matrix, and the index of the row of each hash."""
        return np.unique(hashes(self.matrix), return_index=True)

    def _positions(self, X: Array) -> Array:
        """Return the index of each row in the matrix, or -1 for rows that are not in the matrix.

        Rows that are equal belong to objects that are equal for the kernel, so that any index of them will do.
        """
        if X.shape[1] != len(self.matrix):
            msg = f"{self!r}: rows must have one value per row of the fit, {len(self.matrix)}, got {X.shape[1]}."
            raise DataError(msg)
        keys, rows = self._index
        found = hashes(X)
        at = np.minimum(np.searchsorted(keys, found), len(keys) - 1)
        index = rows[at]
        same = keys[at] == found
        same[same] = (self.matrix[index[same]] == X[same]).all(axis=1)
        return np.where(same, index, -1)


class _Owner:
    """The name that error messages about the matrix start with."""

    def __repr__(self) -> str:
        return "Precomputed: matrix"


PRECOMPUTED = _Owner()


def hashes(X: Array) -> Array:
    """Return a 64-bit number for each row, equal for equal rows."""
    odd = np.random.default_rng(0).integers(0, 2**63, size=X.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    bits = (np.ascontiguousarray(X) + 0.0).view(np.uint64)  # adding zero turns -0.0 into 0.0
    return (bits ^ (bits >> np.uint64(32))) @ odd
