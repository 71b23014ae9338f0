"""Nystroem features: kernel values at landmark rows, whitened, for every kernel."""

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
# Rows, as a multiple of the landmarks, among which randomly pivoted Cholesky chooses, and their least number.
POOL_FACTOR = 4
POOL_MINIMUM = 2000
# From so many landmarks on, the root is triangular: any root will do, and eigenvectors would take many times as long.
MANY = 4096
# The least reciprocal condition number, as LAPACK estimates it, at which rounding does not matter.
LEAST_SHARE = 1e-10


@doc
class Nystroem(DrawnMap):
    r"""Nystroem features for any kernel, from landmarks among the rows.

    With landmarks S, maps x to :math:`k(x, S) K_{SS}^{-1/2}`, so that inner products are those of the projections on
    the span of the landmarks. The approximation is exact on the landmarks and never exceeds the kernel:
    :math:`K - Z Z^\top` is positive semi-definite.

    Parameters
    ----------
    kernel : Kernel, default=None
        Any kernel; None means ``Gaussian(lengthscale="median")``.
    n_components : int, default=512
        Number of components of the output, and of landmarks. With fewer rows than that, every row is a landmark, the
        map is exact on them, and the remaining components are zero.
    landmarks : {"pivoted", "uniform"}, default="pivoted"
        Randomly pivoted Cholesky [1]_ on a uniform sample of ``max(4 n_components, 2000)`` rows, or a uniform sample.
    %(random_state, n_jobs)s

    Attributes
    ----------
    features_ : LandmarkFeatures
        The drawn features, a pure function of rows.
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

    needs: ClassVar[str] = "any kernel"
    residual_is_kernel: ClassVar[bool] = True
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

    def _draw(self, kernel: Kernel, X: Any, weight: Array | None, rng: np.random.Generator) -> LandmarkFeatures:
        wanted = min(self.n_components, X.shape[0])
        if wanted < self.n_components:
            msg = (
                f"Nystroem: n_components={self.n_components} landmarks were requested, but there are only "
                f"{X.shape[0]} rows; the last {self.n_components - wanted} components are zero."
            )
            warnings.warn(msg, MercerWarning, stacklevel=5)
        X, weight = distinct_rows(X, weight)
        wanted = min(wanted, X.shape[0])
        if self.landmarks == "uniform":
            chosen = np.sort(np.argsort(rng.exponential(size=len(weight)) / weight)[:wanted])
        else:
            with workers(1):  # many small products, in which threads of BLAS would wait for each other
                chosen = pivoted_rows(kernel, as_float64(X), weight, wanted, rng)
        return whitened(kernel, as_float64(X[chosen]), self.n_components)


def whitened(kernel: Kernel, landmarks: Any, n_components: int) -> LandmarkFeatures:
    """Return the features of a kernel at landmarks, in float64, filled up with zeros to a number of components."""
    if MANY <= landmarks.shape[0] == n_components:
        root = triangular_root(np.ascontiguousarray(kernel(landmarks), np.float64))
        if root is not None:
            return LandmarkFeatures(kernel, landmarks, root, n_components, triangular=True)
    values, vectors = scipy.linalg.eigh(kernel(landmarks))
    # The inverse root would magnify directions in which the landmarks differ by rounding only.
    keep = values > len(values) * np.finfo(float).eps * values.max(initial=0.0)
    whitening = np.zeros((landmarks.shape[0], n_components))
    whitening[:, : keep.sum()] = (vectors[:, keep] / np.sqrt(values[keep]))[:, ::-1]
    return LandmarkFeatures(kernel, landmarks, whitening, n_components)


def triangular_root(K: Array) -> Array | None:
    """Return the upper triangle T with K^-1 = T T', or None if K is too ill-conditioned; K is overwritten."""
    size = np.abs(K).sum(axis=0).max()  # the 1-norm, which LAPACK's estimate is relative to
    if not factorize(K):
        return None
    share, _ = lapack.dpocon(K.T, size, uplo="L")
    return inverse_root(K) if share > LEAST_SHARE else None


@dataclass(frozen=True, eq=False)
class LandmarkFeatures(Features):
    """Kernel values at landmarks times a whitening matrix: immutable, picklable, independent of scikit-learn."""

    kernel: Kernel
    landmarks: Any  # (S, d), float64
    whitening: Array  # (S, n_components), float64
    n_components: int
    triangular: bool = False  # whether the whitening is an upper triangle

    @property
    def lengthscales(self) -> Lengthscales | None:
        if isotropic_form(self.kernel) is None:
            return None
        whiten = partial(whitened, landmarks=self.landmarks, n_components=self.n_components)
        return LandmarkScales(self.kernel, self.landmarks, self.whitening, whiten)

    def astype(self, dtype: Any) -> Self:  # noqa: ARG002 - rounded landmarks would not match their whitening
        return self

    def __call__(self, X: Any, out: Array) -> None:
        # In float64 throughout: the whitening magnifies rounding by the condition of the landmarks.
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
    """Return every row of weight above zero once, ordered by content, with the weights of its copies added up.

    So the choice among them depends neither on the order of the rows nor on whether a row is repeated or weighted.
    """
    weight = np.ones(X.shape[0]) if weight is None else weight
    rows = np.flatnonzero(weight > 0)
    _, first, inverse = np.unique(row_hashes(X)[rows], return_index=True, return_inverse=True)
    return X[rows[first]], np.bincount(inverse, weight[rows])


def as_float64(X: Any) -> Any:
    """Return rows in float64, sparse or dense."""
    return X.astype(np.float64) if sp.issparse(X) else np.asarray(X, dtype=np.float64)
