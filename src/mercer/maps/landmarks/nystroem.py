"""Nystroem features k(x, S) W for any kernel k, with landmark rows S and the whitening matrix W = k(S, S)^(-1/2)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from mercer._docs import doc
from mercer.engines import Report, enter_stage
from mercer.engines.base import workers
from mercer.errors import DataError, MercerWarning, ParameterError
from mercer.kernels import Kernel, Transformed
from mercer.kernels.base import as_rows
from mercer.maps.base import DrawnMap
from mercer.maps.landmarks.features import LandmarkFeatures, as_float64, leading, whitened
from mercer.maps.landmarks.selection import SELECTIONS
from mercer.parameters import Choice, Domain, Integer, check_parameter
from mercer.statistics import row_hashes

__all__ = ["Nystroem", "distinct_rows"]

Array = np.ndarray
# Directions are computed from a sample of max(POOL_FACTOR * m, POOL_MINIMUM) rows for m landmarks.
POOL_FACTOR = 4
POOL_MINIMUM = 2000
# Seed of the projection by which distinct rows are sorted, the same for every `random_state`.
PROJECTION_SEED = 20261


class _Owner:
    """The name of a parameter, which error messages about its rows start with."""

    def __repr__(self) -> str:
        return "Nystroem: landmarks"


OWN = _Owner()


@doc
class Nystroem(DrawnMap):
    r"""Nystroem features for any kernel, from landmarks among the rows.

    With landmarks S, maps x to :math:`k(x, S) K_{SS}^{-1/2}`, so that inner products of features are those of the
    projections of :math:`k(x, \cdot)` on the span of :math:`k(s, \cdot)` for s in S. The approximation is exact
    on the landmarks and never exceeds the kernel: :math:`K - Z Z^\top` is positive semi-definite.

    Parameters
    ----------
    kernel : Kernel, default=None
        Any kernel; None means ``Gaussian(lengthscale="median")``. `CallableKernel` makes a kernel of a function, and
        with `Precomputed`, rows are those of a kernel matrix.
    n_components : int, default=512
        Number of components of the output. With fewer distinct rows than that, every row is a landmark, the map is
        exact on them, and the remaining components are zero. With landmarks of your own, there are no more components
        than landmarks.
    landmarks : {"pivoted", "uniform", "kmeans", "leverage"} or array-like or CSR of shape (m, d), default="pivoted"
        How landmarks are selected, or your own landmarks, which need not be rows of the fit.

        - "pivoted": rows by randomly pivoted Cholesky [1]_, from a uniform sample of ``max(4 m, 2000)`` rows for m
          landmarks.
        - "uniform": a uniform sample of the rows.
        - "kmeans": centers of clusters of a uniform sample of ``max(10 m, 2000)`` rows in the space of the rows [2]_;
          they are dense, also for sparse rows. For kernels that decrease with the distance of rows.
        - "leverage": rows with probability proportional to their approximate ridge leverage scores [3]_, from a uniform
          sample of ``max(4 m, 2000)`` rows. The penalty is such that the scores sum to m / 2.
    n_landmarks : int or None, default=None
        Number of landmarks m; None means `n_components`, or the number of your own landmarks. With more landmarks than
        components, the components are the leading eigenvectors of the kernel matrix of ``max(4 m, 2000)`` rows,
        projected on the landmarks. For a given number of components, this has less error; the cost of a
        fit is O(m^3), and that of a row is O(m (d + n_components)) instead of O(n_components (d + n_components)).
    %(random_state, n_jobs)s

    Attributes
    ----------
    features_ : LandmarkFeatures
        The fitted features: a function from rows to features.
    %(kernel_, n_features_in_)s

    See Also
    --------
    RandomFourier : Features of shift-invariant kernels that do not depend on the rows.
    CallableKernel, Precomputed : Kernels of a function and of a kernel matrix.
    sklearn.kernel_approximation.Nystroem : The same with uniform landmarks.

    References
    ----------
    .. [1] Chen, Epperly, Tropp, Webber (2025), Randomly Pivoted Cholesky: Practical Approximation of a Kernel Matrix
       with Few Entry Evaluations, CPAM.
    .. [2] Zhang, Tsang, Kwok (2008), Improved Nystrom Low-Rank Approximation and Error Analysis, ICML.
    .. [3] Musco, Musco (2017), Recursive Sampling for the Nystrom Method, NeurIPS.

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
    parameter_domains: ClassVar[Mapping[str, Domain]] = {"n_landmarks": Integer(1) | Choice(None)}
    features_: LandmarkFeatures

    def __init__(
        self,
        kernel: Kernel | None = None,
        n_components: int = 512,
        *,
        landmarks: Any = "pivoted",
        n_landmarks: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.landmarks = landmarks
        self.n_landmarks = n_landmarks
        self.random_state = random_state
        self.n_jobs = n_jobs

    @classmethod
    def accepts(cls, kernel: Kernel) -> bool:  # noqa: ARG003 - only values of the kernel are needed
        return True

    @property
    def unbiased(self) -> bool | str:
        return "a projection on landmarks never exceeds the kernel: its error is one-sided, and zero on the landmarks"

    def _check(self) -> None:
        if isinstance(self.landmarks, str) or self.landmarks is None:
            hint = "Or pass your own landmarks, an array of shape (m, d)."
            check_parameter(type(self).__name__, "landmarks", self.landmarks, Choice(*SELECTIONS), hint=hint)
            least, what = self.n_components, "n_components"
        else:
            least = self._count()
            what = "the number of rows of landmarks"
            if least == 0:
                msg = f"{type(self).__name__}: landmarks must have at least one row, got none."
                raise ParameterError(msg)
            if self.n_landmarks not in (None, least):
                msg = (
                    f"{type(self).__name__}: n_landmarks must be None or {what}, {least}, got {self.n_landmarks}. "
                    "Lower n_components for fewer components."
                )
                raise ParameterError(msg)
        if self.n_landmarks is not None and self.n_landmarks < least:
            msg = (
                f"{type(self).__name__}: n_landmarks must be at least {what}, {least}, got {self.n_landmarks}. "
                "Lower n_components."
            )
            raise ParameterError(msg)

    def _own(self) -> Any:
        """Return the landmarks that the user passed, in float64, or None."""
        return None if isinstance(self.landmarks, str) else as_float64(as_rows(OWN, self.landmarks))

    def _count(self) -> int:
        """Return the number of landmarks that are wanted."""
        own = self._own()
        if own is not None:
            return int(own.shape[0])
        return self.n_components if self.n_landmarks is None else self.n_landmarks

    def _width(self) -> int:
        own = self._own()
        return self.n_components if own is None else min(self.n_components, own.shape[0])

    def _rows_to_draw(self) -> int:
        count = self._count()
        pool = SELECTIONS[self.landmarks].pool(count) if isinstance(self.landmarks, str) else 1
        return max(pool, POOL_FACTOR * count, POOL_MINIMUM) if count > self.n_components else pool

    def _draw_costs(self, n: int) -> dict[str, float]:
        count, rows = min(self._count(), n), min(self._rows_to_draw(), n)
        choice = SELECTIONS[self.landmarks].cost(rows, count) if isinstance(self.landmarks, str) else 0.0
        directions = (2 * POOL_FACTOR + 5) * count**3 if count > self.n_components else 0.0
        return {"choose landmarks": choice + count**3 + directions}

    def _bytes_to_draw(self, n: int, d: int) -> int:  # noqa: ARG002 - the signature of the contract
        count = self._count()
        own = not isinstance(self.landmarks, str)
        count = count if own else min(count, n)
        factor = 0 if own or self.landmarks in ("uniform", "kmeans") else n * count
        return 8 * max(count * max(self._width(), count), factor)

    def _draw(
        self,
        kernel: Kernel,
        X: Any,
        weight: Array | None,
        rng: np.random.Generator,
        report: Report | None = None,
    ) -> LandmarkFeatures:
        enter_stage(report, "choose landmarks")
        landmarks = self._own()
        if landmarks is None:
            if X.shape[0] < self.n_components:
                msg = (
                    f"Nystroem: n_components={self.n_components} landmarks were requested, but there are only "
                    f"{X.shape[0]} rows; the last {self.n_components - X.shape[0]} components are zero."
                )
                warnings.warn(msg, MercerWarning, stacklevel=5)
            X, weight = distinct_rows(X, weight, kernel)
            X = as_float64(X)
            rule = SELECTIONS[self.landmarks].rule
            with workers(1):  # many small products, in which threads of BLAS would wait for each other
                landmarks = rule(kernel, X, weight, min(self._count(), X.shape[0]), rng, report)
        elif landmarks.shape[1] != X.shape[1]:
            msg = f"Nystroem: landmarks must have the {X.shape[1]} features of the rows, got {landmarks.shape[1]}."
            raise DataError(msg)
        features = whitened(kernel, landmarks, max(landmarks.shape[0], self._width()))
        if features.n_components == self._width():
            return features
        weight = np.ones(X.shape[0]) if weight is None else weight
        some = max(POOL_FACTOR * landmarks.shape[0], POOL_MINIMUM)  # distinct rows are in random order
        return leading(features, X[:some], weight[:some], self._width())


def distinct_rows(X: Any, weight: Array | None, kernel: Kernel | None = None) -> tuple[Any, Array]:
    """Return the distinct rows of weight > 0, in an order that depends on their content, and the weight of each.

    Landmarks chosen from these rows depend neither on the order of the rows nor on whether a row is repeated k times or
    has k times the weight. Rows are sorted by a random projection, and then permuted, so that factors of their kernel
    matrix are not ill-conditioned. To sort them by a hash of their content would be as good, but a rounding error would
    change it, so that columns in other units would give other landmarks where a map divides columns by their spread.
    Where the kernel does that, a `Transformed` one, the projection is that of its scaled rows.
    """
    weight = np.ones(X.shape[0]) if weight is None else weight
    used = np.flatnonzero(weight > 0)
    _, first, inverse = np.unique(row_hashes(X)[used], return_index=True, return_inverse=True)
    distinct, total = X[used[first]], np.bincount(inverse, weight[used])
    rng = np.random.default_rng(PROJECTION_SEED)
    d = X.shape[1]
    inputs = kernel._inputs() if isinstance(kernel, Transformed) else None
    direction = rng.normal(size=d if inputs is None else inputs.width(d))
    with np.errstate(over="ignore", invalid="ignore"):
        if inputs is not None and inputs.spacing is not None:  # of rounded rows, which are the same in all units
            projected = inputs(distinct) @ direction
        else:
            direction = direction if inputs is None else inputs.pull_back(direction[None], d)[0]
            projected = np.asarray(distinct @ direction, dtype=np.float64)
    order = np.argsort(projected, kind="stable")[rng.permutation(len(first))]
    return distinct[order], total[order]
