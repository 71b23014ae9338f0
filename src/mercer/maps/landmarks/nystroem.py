"""Nystroem features: kernel values at landmark rows, whitened. They serve every kernel."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.linalg import lapack

from mercer.engines.base import workers
from mercer.errors import DataError, MercerWarning
from mercer.kernels import Kernel
from mercer.linalg.cholesky import factorize, inverse_root
from mercer.maps.drawn import DrawnMap
from mercer.maps.landmarks.pivoting import pivoted_rows
from mercer.maps.parameters import check_choice
from mercer.maps.whitened import times_triangle
from mercer.statistics import row_hashes

__all__ = ["LandmarkFeatures", "Nystroem"]

Array = np.ndarray
LANDMARKS = ("pivoted", "uniform")
# Rows, as a multiple of the landmarks, among which randomly pivoted Cholesky chooses.
POOL_FACTOR = 4
POOL_MINIMUM = 2000
# From so many landmarks on, the root is a triangle: any root will do, and eigenvectors would take many times as long.
MANY = 4096
# The smallest eigenvalue beside the largest, as LAPACK estimates it, from which on rounding does not count.
LEAST_SHARE = 1e-10


class Nystroem(DrawnMap):
    r"""Nystroem features for any kernel, from landmarks among the rows.

    With landmarks S, maps x to :math:`k(x, S) K_{SS}^{-1/2}`, so that inner products are those of the projections on
    the span of the landmarks. Exact on the landmarks; never above the kernel: :math:`K - Z Z^\top` is positive
    semi-definite.

    Parameters
    ----------
    kernel : Kernel, default=None
        Any kernel; None means ``Gaussian(lengthscale="median")``.
    n_components : int, default=512
        Width of the output and number of landmarks. With fewer rows than that, every row is a landmark, the map is
        exact on them, and the columns left over are zero.
    landmarks : {"pivoted", "uniform"}, default="pivoted"
        Randomly pivoted Cholesky [1]_ on a uniform sample of ``max(4 n_components, 2000)`` rows, or a uniform sample.
    random_state : int, Generator, RandomState or None, default=None
        Seed; an int makes repeated fits identical.
    n_jobs : int or None, default=None
        Threads of `transform`; None means all cores. The result does not depend on it.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel with every parameter a number.
    features_ : LandmarkFeatures
        The drawn map: a pure function of rows.
    n_features_in_ : int
        Width of the rows seen in `fit`.

    References
    ----------
    .. [1] Chen, Epperly, Tropp, Webber (2025), Randomly pivoted Cholesky, CPAM.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Nystroem, Polynomial
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> feature_map = Nystroem(Polynomial(degree=2), n_components=10, random_state=0).fit(X)
    >>> bool(np.allclose(feature_map.gram(X), Polynomial(degree=2)(X)))  # ten monomials: nothing is lost
    True
    """

    needs: ClassVar[str] = "any kernel"
    preference: ClassVar[int] = 100
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
    def accepts(cls, kernel: Kernel) -> bool:  # noqa: ARG003 - values are all it needs
        return True

    @property
    def unbiased(self) -> bool | str:
        return "a projection on landmarks never exceeds the kernel: its error is one-sided, and zero on the landmarks"

    def rows_wanted(self) -> int:
        for_kernel = super().rows_wanted()
        pool = self.n_components if self.landmarks == "uniform" else max(POOL_FACTOR * self.n_components, POOL_MINIMUM)
        return max(pool, for_kernel)

    def _draw(self, kernel: Kernel, X: Any, weight: Array | None, rng: np.random.Generator) -> LandmarkFeatures:
        check_choice(self, "landmarks", LANDMARKS)
        wanted = min(self.n_components, X.shape[0])
        if wanted < self.n_components:
            msg = (
                f"Nystroem: n_components={self.n_components} landmarks were asked for, but there are only "
                f"{X.shape[0]} rows; the last {self.n_components - wanted} columns are zero."
            )
            warnings.warn(msg, MercerWarning, stacklevel=5)
        X, weight = distinct_rows(X, weight)
        wanted = min(wanted, X.shape[0])
        if self.landmarks == "uniform":
            chosen = np.sort(np.argsort(rng.exponential(size=len(weight)) / weight)[:wanted])
        else:
            with workers(1):  # many small products: threads of BLAS would only wait for each other
                chosen = pivoted_rows(kernel, as_float64(X), weight, wanted, rng)
        landmarks = as_float64(X[chosen])
        whitening = None
        if MANY <= len(chosen) == self.n_components:
            whitening = triangular_root(np.ascontiguousarray(kernel(landmarks), np.float64))
        if whitening is not None:
            return LandmarkFeatures(kernel, landmarks, whitening, self.n_components, triangular=True)
        values, vectors = scipy.linalg.eigh(kernel(landmarks))
        # Directions that the landmarks share only through rounding would be blown up by the inverse root.
        keep = values > len(values) * np.finfo(float).eps * values.max(initial=0.0)
        whitening = np.zeros((len(chosen), self.n_components))
        whitening[:, : keep.sum()] = (vectors[:, keep] / np.sqrt(values[keep]))[:, ::-1]
        return LandmarkFeatures(kernel, landmarks, whitening, self.n_components)


def triangular_root(K: Array) -> Array | None:
    """Return the upper triangle T with K^-1 = T T', or None where rounding would spoil it; K is overwritten."""
    size = np.abs(K).sum(axis=0).max()  # the norm that LAPACK relates its estimate to
    if not factorize(K):
        return None
    share, _ = lapack.dpocon(K.T, size, uplo="L")
    return inverse_root(K) if share > LEAST_SHARE else None


@dataclass(frozen=True, eq=False)
class LandmarkFeatures:
    """Kernel values at landmarks times a whitening matrix: immutable, picklable, free of scikit-learn."""

    kernel: Kernel
    landmarks: Any  # (S, d), float64
    whitening: Array  # (S, n_components), float64
    n_components: int
    triangular: bool = False  # whether the whitening is an upper triangle

    def astype(self, dtype: Any) -> Self:  # noqa: ARG002 - the contract
        """Return the draw itself: rounded landmarks would not fit their whitening any more."""
        return self

    def output_dtype(self, dtype: Any) -> np.dtype:
        """Return the dtype of the features of rows of this dtype."""
        return np.dtype(dtype)

    def __call__(self, X: Any, out: Array) -> None:
        """Write the features of the rows of `X` into `out`."""
        # In float64 throughout: the whitening magnifies rounding by the condition of the landmarks.
        values = self.kernel(as_float64(X), self.landmarks)
        if self.triangular:
            values, columns = np.empty_like(values), values
            times_triangle(columns, self.whitening, values)
        else:
            values = values @ self.whitening
        if out.dtype != values.dtype and np.abs(values).max(initial=0.0) > np.finfo(out.dtype).max:
            msg = f"Nystroem: features of {self.kernel!r} overflow {out.dtype}. Scale the rows down, or pass float64."
            raise DataError(msg)
        out[:] = values


def distinct_rows(X: Any, weight: Array | None) -> tuple[Any, Array]:
    """Return every row of weight above zero once, with the weights of its copies added up, in an order of their own.

    So neither the order of rows nor whether a row is repeated or has a weight changes what is chosen among them.
    """
    weight = np.ones(X.shape[0]) if weight is None else weight
    rows = np.flatnonzero(weight > 0)
    _, first, place = np.unique(row_hashes(X)[rows], return_index=True, return_inverse=True)
    return X[rows[first]], np.bincount(place, weight[rows])


def as_float64(X: Any) -> Any:
    """Return rows in float64, sparse or dense."""
    return X.astype(np.float64) if sp.issparse(X) else np.asarray(X, dtype=np.float64)
