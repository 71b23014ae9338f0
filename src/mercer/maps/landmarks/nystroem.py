"""Nystroem features k(x, S) W for any kernel k, with landmark rows S and the whitening matrix W = k(S, S)^(-1/2)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.linalg import lapack

from mercer._docs import doc
from mercer.engines import Report, enter_stage
from mercer.engines.base import workers
from mercer.errors import DataError, MercerWarning
from mercer.features import Features, Lengthscales
from mercer.kernels import Kernel
from mercer.linalg.cholesky import factorize, inverse_root
from mercer.maps.base import DrawnMap
from mercer.maps.landmarks.lengthscales import LandmarkScales, isotropic_form
from mercer.maps.landmarks.pivoting import pivoted_rows
from mercer.maps.whitened import times_triangle
from mercer.parameters import Choice, Domain
from mercer.statistics import row_hashes

__all__ = ["LandmarkFeatures", "Nystroem"]

Array = np.ndarray
# Randomly pivoted Cholesky chooses n landmarks from a sample of max(POOL_FACTOR * n, POOL_MINIMUM) rows.
POOL_FACTOR = 4
POOL_MINIMUM = 2000
# From this number of landmarks on, W with W W' = K_SS^-1 is triangular, by a Cholesky factorization, since eigenvectors
# would take many times as long. Inner products of features are the same for all W with W W' = K_SS^-1.
MANY = 4096
# Least reciprocal condition number of K_SS, as estimated by LAPACK, for which the triangular W is accurate enough.
LEAST_SHARE = 1e-10


@doc
class Nystroem(DrawnMap):
    r"""Nystroem features for any kernel, from landmarks among the rows.

    With landmarks S, maps x to :math:`k(x, S) K_{SS}^{-1/2}`, so that inner products of features are those of the
    projections of :math:`k(x, \cdot)` on the span of :math:`k(s, \cdot)` for s in S. The approximation is exact
    on the landmarks and never exceeds the kernel: :math:`K - Z Z^\top` is positive semi-definite.

    Parameters
    ----------
    kernel : Kernel, default=None
        Any kernel; None means ``Gaussian(lengthscale="median")``.
    n_components : int, default=512
        Number of components of the output, and of landmarks. With fewer rows than that, every row is a landmark, the
        map is exact on them, and the remaining components are zero.
    landmarks : {"pivoted", "uniform"}, default="pivoted"
        "pivoted": chosen by randomly pivoted Cholesky [1]_ from a uniform sample of ``max(4 n_components, 2000)`` rows.
        "uniform": a uniform sample of the rows.
    %(random_state, n_jobs)s

    Attributes
    ----------
    features_ : LandmarkFeatures
        The fitted features: a function from rows to features.
    %(kernel_, n_features_in_)s

    See Also
    --------
    RandomFourier : Features of shift-invariant kernels that do not depend on the rows.
    sklearn.kernel_approximation.Nystroem : The same with uniform landmarks.

    References
    ----------
    .. [1] Chen, Epperly, Tropp, Webber (2025), Randomly Pivoted Cholesky: Practical Approximation of a Kernel Matrix
       with Few Entry Evaluations, CPAM.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Nystroem, Polynomial
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> feature_map = Nystroem(Polynomial(degree=2), n_components=10, random_state=0).fit(X)
    >>> bool(np.allclose(feature_map.gram(X), Polynomial(degree=2)(X)))  # exact: there are ten monomials
    True
    """

    draw_reports = True
    needs: ClassVar[str] = "any kernel"
    residual_is_kernel: ClassVar[bool] = True
    built_from_rows: ClassVar[bool] = True
    parameter_domains: ClassVar[Mapping[str, Domain]] = {"landmarks": Choice("pivoted", "uniform")}
    features_: LandmarkFeatures

    def __init__(
        self,
        kernel: Kernel | None = None,
        n_components: int = 512,
        *,
        landmarks: Literal["pivoted", "uniform"] = "pivoted",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.landmarks = landmarks
        self.random_state = random_state
        self.n_jobs = n_jobs

    @classmethod
    def accepts(cls, kernel: Kernel) -> bool:  # noqa: ARG003 - only values of the kernel are needed
        return True

    @property
    def unbiased(self) -> bool | str:
        return "a projection on landmarks never exceeds the kernel: its error is one-sided, and zero on the landmarks"

    def _rows_to_draw(self) -> int:
        uniform = self.landmarks == "uniform"
        return self.n_components if uniform else max(POOL_FACTOR * self.n_components, POOL_MINIMUM)

    def _draw_costs(self, n: int) -> dict[str, float]:
        landmarks, rows = min(self.n_components, n), min(self._rows_to_draw(), n)
        return {"choose landmarks": (0 if self.landmarks == "uniform" else rows) * landmarks**2 + 3 * landmarks**3}

    def _bytes_to_draw(self, n: int, d: int) -> int:  # noqa: ARG002 - the signature of the contract
        landmarks = min(self.n_components, n)
        pivoting = 0 if self.landmarks == "uniform" else n * landmarks
        return 8 * max(landmarks * self.n_components, pivoting)

    def _draw(
        self,
        kernel: Kernel,
        X: Any,
        weight: Array | None,
        rng: np.random.Generator,
        report: Report | None = None,
    ) -> LandmarkFeatures:
        wanted = min(self.n_components, X.shape[0])
        if wanted < self.n_components:
            msg = (
                f"Nystroem: n_components={self.n_components} landmarks were requested, but there are only "
                f"{X.shape[0]} rows; the last {self.n_components - wanted} components are zero."
            )
            warnings.warn(msg, MercerWarning, stacklevel=5)
        enter_stage(report, "choose landmarks")
        X, weight = distinct_rows(X, weight)
        wanted = min(wanted, X.shape[0])
        if self.landmarks == "uniform":
            chosen = np.sort(np.argsort(rng.exponential(size=len(weight)) / weight)[:wanted])
        else:
            with workers(1):  # many small products, in which threads of BLAS would wait for each other
                chosen = pivoted_rows(kernel, as_float64(X), weight, wanted, rng, report)
        return whitened(kernel, as_float64(X[chosen]), self.n_components)


def whitened(kernel: Kernel, landmarks: Any, n_components: int) -> LandmarkFeatures:
    """Return the features k(x, S) W of a kernel k with landmarks S, where W W' is the inverse of k(S, S).

    The features are in float64. If there are fewer than `n_components` of them, the remaining components are zero.
    """
    if MANY <= landmarks.shape[0] == n_components:
        root = triangular_root(np.ascontiguousarray(kernel(landmarks), np.float64))
        if root is not None:
            return LandmarkFeatures(kernel, landmarks, root, n_components, triangular=True)
    values, vectors = scipy.linalg.eigh(kernel(landmarks))
    # Eigenvectors are determined up to their signs. Those of LAPACK depend on rounding errors of the kernel matrix,
    # which differ for dense and sparse rows.
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None], axis=0)
    vectors *= np.where(largest < 0, -1.0, 1.0)
    # Smaller eigenvalues are rounding errors, which the inverse root would magnify.
    keep = values > len(values) * np.finfo(float).eps * values.max(initial=0.0)
    whitening = np.zeros((landmarks.shape[0], n_components))
    whitening[:, : keep.sum()] = (vectors[:, keep] / np.sqrt(values[keep]))[:, ::-1]
    return LandmarkFeatures(kernel, landmarks, whitening, n_components)


def triangular_root(K: Array) -> Array | None:
    """Return the upper triangular T with K^-1 = T T', or None if K is too ill-conditioned. K is overwritten."""
    size = np.abs(K).sum(axis=0).max()  # the 1-norm of K, which LAPACK needs to estimate the condition number
    if not factorize(K):
        return None
    share, _ = lapack.dpocon(K.T, size, uplo="L")
    return inverse_root(K) if share > LEAST_SHARE else None


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

    @property
    def lengthscales(self) -> Lengthscales | None:
        if isotropic_form(self.kernel) is None:
            return None
        whiten = partial(whitened, landmarks=self.landmarks, n_components=self.n_components)
        return LandmarkScales(self.kernel, self.landmarks, self.whitening, whiten)

    def astype(self, dtype: Any) -> Self:  # noqa: ARG002 - rounded landmarks would not match their whitening
        return self

    def __call__(self, X: Any, out: Array) -> None:
        # In float64 throughout: whitening magnifies rounding errors by the condition number of K_SS.
        values = self.kernel(as_float64(X), self.landmarks)
        if self.triangular:
            whitened_values = np.empty_like(values)
            times_triangle(values, self.whitening, whitened_values)
        else:
            whitened_values = values @ self.whitening
        if out.dtype != values.dtype and np.abs(whitened_values).max(initial=0.0) > np.finfo(out.dtype).max:
            msg = f"Nystroem: features of {self.kernel!r} overflow {out.dtype}. Scale the rows down, or pass float64."
            raise DataError(msg)
        out[:] = whitened_values


def distinct_rows(X: Any, weight: Array | None) -> tuple[Any, Array]:
    """Return the distinct rows of weight > 0, sorted by a hash of their content, and the total weight of each.

    Landmarks chosen from these rows depend neither on the order of the rows nor on whether a row is repeated k times or
    has k times the weight.
    """
    weight = np.ones(X.shape[0]) if weight is None else weight
    rows = np.flatnonzero(weight > 0)
    _, first, inverse = np.unique(row_hashes(X)[rows], return_index=True, return_inverse=True)
    return X[rows[first]], np.bincount(inverse, weight[rows])


def as_float64(X: Any) -> Any:
    """Return rows, sparse or dense, in float64."""
    return X.astype(np.float64) if sp.issparse(X) else np.asarray(X, dtype=np.float64)
