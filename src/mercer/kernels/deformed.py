"""Reproducing kernel of a norm with a penalty on function values at given rows. Values are exact, at cubic cost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from mercer.errors import DataError, ParameterError
from mercer.kernels.base import Kernel, as_rows, dense64

__all__ = ["DeformedKernel"]

Array = np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class DeformedKernel(Kernel):
    r"""Reproducing kernel of a norm with an additional quadratic penalty on function values at given rows.

    .. math:: \tilde k(x, z) = k(x, z) - k_x^\top (I + M K)^{-1} M k_z

    where K is the kernel matrix of the n given rows, :math:`k_x` the vector of kernel values between x and these rows,
    and M a positive semi-definite matrix, such as a power of a graph Laplacian. It is the reproducing kernel of the
    squared norm :math:`\|f\|^2 + f_n^\top M f_n` [1]_, where :math:`f_n` is the vector of the values of f at the rows.
    So ridge regression with the deformed kernel is ridge regression with the kernel k and that additional penalty. The
    cost is cubic in n; `mercer.Deformed` approximates the kernel by features at linear cost.

    Parameters
    ----------
    kernel : Kernel
        The kernel k.
    rows : array-like or CSR of shape (n, d)
        The rows at which function values are penalized.
    penalty : array-like or sparse of shape (n, n)
        The matrix M, symmetric and positive semi-definite.

    See Also
    --------
    Deformed : Features of this kernel for many rows.

    References
    ----------
    .. [1] Sindhwani, Niyogi, Belkin (2005), Beyond the point cloud, ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import DeformedKernel, Gaussian
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> M = np.array([[1.0, -1.0, 0.0], [-1.0, 2.0, -1.0], [0.0, -1.0, 1.0]])
    >>> K = Gaussian()(X)
    >>> bool(np.allclose(DeformedKernel(Gaussian(), X, M)(X), np.linalg.inv(np.linalg.inv(K) + M)))
    True
    """

    kernel: Kernel
    rows: Any
    penalty: Any

    structure: ClassVar[str] = "a deformed kernel, known by its values only"
    sparse_formulas: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Kernel):
            msg = f"DeformedKernel: kernel must be a mercer kernel such as Gaussian(), got {self.kernel!r}."
            raise ParameterError(msg)
        rows = as_rows(self.kernel, self.rows)
        penalty = self.penalty.toarray() if sp.issparse(self.penalty) else self.penalty
        penalty = np.asarray(penalty, dtype=np.float64)
        if penalty.shape != (rows.shape[0],) * 2:
            msg = f"DeformedKernel: penalty must be of shape (n, n) for the {rows.shape[0]} rows, got {penalty.shape}."
            raise DataError(msg)
        largest = np.abs(penalty).max(initial=0.0)
        if not (np.isfinite(largest) and np.allclose(penalty, penalty.T, rtol=0, atol=1e-9 * largest)):
            msg = "DeformedKernel: penalty must be finite and symmetric. Try (M + M.T) / 2."
            raise DataError(msg)
        if penalty.size and np.linalg.eigvalsh(penalty)[0] < -1e-8 * largest:
            msg = "DeformedKernel: penalty must be positive semi-definite, or the deformed kernel may be indefinite."
            raise DataError(msg)
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "penalty", penalty)

    def __repr__(self) -> str:
        return f"DeformedKernel({self.kernel!r}, {self.rows.shape[0]} rows)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeformedKernel):
            return NotImplemented
        return bool(
            self.kernel == other.kernel
            and self.rows.shape == other.rows.shape
            and np.array_equal(dense64(self.rows), dense64(other.rows))
            and np.array_equal(self.penalty, other.penalty)
        )

    def __hash__(self) -> int:
        return hash((self.kernel, self.rows.shape, float(self.penalty.sum())))

    def _inner_rows(self, X: Any, weight: Array | None) -> tuple[Any, None]:  # noqa: ARG002 - the kernel's own rows
        return self.rows, None

    @cached_property
    def _correction(self) -> Array:
        """The symmetric matrix (I + M K)^-1 M, where M is `penalty` and K is the kernel matrix of `rows`."""
        K = self.kernel(self.rows).astype(np.float64)
        solved = scipy.linalg.solve(np.eye(len(K)) + self.penalty @ K, self.penalty)
        return (solved + solved.T) / 2

    def _values(self, X: Any, Y: Any) -> Array:
        left, right = (self.kernel(part, self._rows_like(part)) for part in (X, Y))
        return self.kernel(X, Y) - left @ self._correction @ right.T

    def _diagonal(self, X: Any) -> Array:
        values = self.kernel(X, self._rows_like(X))
        return self.kernel.diag(X) - np.einsum("ij,ij->i", values @ self._correction, values)

    def _rows_like(self, X: Any) -> Any:
        """Return the penalized rows in float64: sparse if both they and `X` are sparse, else dense."""
        return self.rows.astype(np.float64) if sp.issparse(self.rows) and sp.issparse(X) else dense64(self.rows)
