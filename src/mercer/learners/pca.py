"""Principal components of features: kernel principal component analysis."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from mercer.engines import Accumulator, Block, Progress, Workers
from mercer.errors import DataError, ParameterError
from mercer.features import Features
from mercer.kernels import Kernel
from mercer.learners.base import Transformer, available_if
from mercer.learners.one_pass import OnePassLearner, can_add
from mercer.maps import BaseMap
from mercer.solvers.ridge.spectrum import Spectrum
from mercer.statistics.moments import Moments, MomentSum, TargetMoments

__all__ = ["KernelPCA"]

Array = np.ndarray
# A component that is this close to a right angle with the mean gets its sign elsewhere.
RIGHT_ANGLE = 1e-8
# Entries of a component that are this close to its largest count as largest, too: of them the first decides.
SAME = 1 - 1e-6


class RowSum(Accumulator[Moments]):
    """Moments of features, and with the rows themselves as targets if they are to be found again."""

    def __init__(self, features: Features, *, rows_too: bool) -> None:
        self._sum = MomentSum(features, double=True, centered=True)  # small eigenvalues count, too
        self._rows_too = rows_too
        self._targets: TargetMoments | None = None

    def add(self, block: Block, workers: Workers) -> None:
        rows = np.empty((len(block), 0))
        if self._rows_too:
            rows = (block.X.toarray() if sp.issparse(block.X) else block.X).astype(np.float64, copy=False)
        part = self._sum.add(block, rows, workers)
        self._targets = part if self._targets is None else self._targets + part

    def result(self) -> Moments:
        assert self._targets is not None
        return self._sum.moments(self._targets)

    def restore(self, state: Moments) -> None:
        self._sum.restore(state.gram, state.roundoff, state.shift)
        self._targets = state.targets


class KernelPCA(Transformer, OnePassLearner):
    r"""Kernel principal component analysis at linear cost.

    The directions in which the features of a map vary most, about their means: the scores of the exact kernel
    machine where the map is exact, in time O(n D^2 + D^3) and memory O(D^2 + block).

    Parameters
    ----------
    feature_map : BaseMap, Kernel or None, default=None
        A map; or a kernel, for which a map of 512 features is drawn; None means a Gaussian kernel of median
        lengthscale.
    n_components : int or None, default=None
        Number of components; the width of the features is a matter of the map. None keeps all that some row has.
    whiten : bool, default=False
        Whether scores are divided by their standard deviations.
    fit_inverse_transform : bool, default=False
        Whether to learn the way back from scores to rows, for `inverse_transform`.
    alpha : float, default=1.0
        Penalty of the ridge regression that finds it.
    block_size : int or None, default=None
        Rows that are worked on at a time; None chooses by width. It changes the result by rounding only.
    n_jobs : int or None, default=None
        Threads; None means all cores. The result does not depend on it, to the bit.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the map, where `feature_map` is a kernel or None.
    progress : bool or callable, default=False
        True shows rows done and time left on a terminal; a callable gets a `Progress` after each block.

    Attributes
    ----------
    components_ : ndarray of shape (k, D)
        Directions in the space of features, of length one; zero where no row varies any more.
    mean_ : ndarray of shape (D,)
        Mean of the features.
    eigenvalues_ : ndarray of shape (k,)
        Eigenvalues of the centered kernel matrix, descending, as in scikit-learn's KernelPCA.
    explained_variance_ : ndarray of shape (k,)
        Variance of each score: the eigenvalue over the total weight of the rows.
    explained_variance_ratio_ : ndarray of shape (k,)
        Share of each in the variance of all features.
    feature_map_ : BaseMap
        The fitted map.
    statistic_ : Moments
        What was learned from the rows; `partial_fit` adds to it.

    Notes
    -----
    Components point to the side of the mean of the features. Where eigenvalues coincide to rounding, as symmetric rows
    make them, every basis of their space is a right answer; one that depends on the space alone is chosen.

    `inverse_transform` is a linear ridge regression from scores to rows, about the mean of the rows. That of
    scikit-learn is a regression in the kernel of the scores, not about a mean; for a linear kernel and centered rows
    the two are the same.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_circles
    >>> from mercer import Gaussian, KernelPCA, RandomFourier
    >>> X, y = make_circles(1000, factor=0.3, noise=0.05, random_state=0)
    >>> scores = KernelPCA(RandomFourier(Gaussian(0.5), 512, random_state=0), 1).fit_transform(X)
    >>> inner, outer = scores[y == 1, 0], scores[y == 0, 0]
    >>> bool(inner.min() > outer.max() or inner.max() < outer.min())  # one score tells the circles apart
    True
    """

    _components: Array

    def __init__(
        self,
        feature_map: BaseMap | Kernel | None = None,
        n_components: int | None = None,
        *,
        whiten: bool = False,
        fit_inverse_transform: bool = False,
        alpha: float = 1.0,
        block_size: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: bool | Callable[[Progress], None] = False,
    ) -> None:
        self.feature_map = feature_map
        self.n_components = n_components
        self.whiten = whiten
        self.fit_inverse_transform = fit_inverse_transform
        self.alpha = alpha
        self.block_size = block_size
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress

    # ---- fitting ------------------------------------------------------------------------------

    @available_if(can_add)
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Add a block of rows to the model.

        The first call fits the map, on the rows it is given; the solve waits until a result is asked for. A `Deformed`
        map takes the rows into its `FeatureGraph`; a graph that cannot grow is refused.

        Parameters
        ----------
        X, sample_weight
            As arrays in `fit`.
        y : ignored
            For pipelines.

        Returns
        -------
        self
        """
        with self._unchanged_if_it_fails():
            self._add(X, y, sample_weight)
        return self

    def _accumulator(self, features: Features) -> RowSum:
        self._count(features.n_components)
        self._check_alpha()
        return RowSum(features, rows_too=bool(self.fit_inverse_transform))

    def _solve(self) -> None:
        self._check_alpha()
        spectrum = Spectrum.of(self.statistic_)
        values, center = spectrum.values[::-1], spectrum.center
        rounding = len(values) * spectrum.rounding
        kept = values > rounding
        wanted = self._count(len(values))
        count = max(1, int(kept.sum())) if wanted is None else wanted
        vectors = canonical(values[kept], spectrum.vectors[:, ::-1][:, kept], center, rounding)[:, :count]
        total = float(values.sum())
        self._values = np.where(kept, values, 0.0)[:count]
        self._share = self._values / total if total > 0 else np.zeros(count)
        self._weight = spectrum.weight
        self._components = np.zeros((count, len(values)))
        self._components[: vectors.shape[1]] = vectors.T
        self._mean = center
        self._back: tuple[Array, Array] | None = None
        if self.fit_inverse_transform and spectrum.rotated.shape[1]:
            # Scores have the second moments diag(values): their ridge regression needs no further solve.
            cross = self._components @ self.statistic_.targets.cross
            back = np.divide(
                cross, (self._values + self.alpha)[:, None], out=np.zeros_like(cross), where=self._values[:, None] > 0
            )
            self._back = back, spectrum.offset
        self._n_features_out = count
        self._solved = True

    def _count(self, D: int) -> int | None:
        """Return the number of components that is asked for, if it can be had from features of width D."""
        wanted = self.n_components
        if wanted is None:
            return None
        if not isinstance(wanted, Integral) or isinstance(wanted, bool) or not 1 <= wanted <= D:
            msg = (
                f"KernelPCA: n_components must be None or an integer from 1 to {D}, the number of features of the map; "
                f"got {wanted!r}. For more components take a wider map."
            )
            raise ParameterError(msg)
        return int(wanted)

    def _check_alpha(self) -> None:
        alpha = self.alpha
        if not isinstance(alpha, int | float | np.number) or isinstance(alpha, bool) or not 0 <= alpha < np.inf:
            msg = f"KernelPCA: alpha must be a finite number >= 0, got {alpha!r}."
            raise ParameterError(msg)

    # ---- results ------------------------------------------------------------------------------

    @property
    def components_(self) -> Array:
        self._ensure_solved()
        return self._components

    @property
    def mean_(self) -> Array:
        self._ensure_solved()
        return self._mean

    @property
    def eigenvalues_(self) -> Array:
        self._ensure_solved()
        return self._values

    @property
    def explained_variance_(self) -> Array:
        self._ensure_solved()
        return self._values / self._weight

    @property
    def explained_variance_ratio_(self) -> Array:
        self._ensure_solved()
        return self._share

    def _scales(self) -> Array:
        """Return what the scores are multiplied by."""
        if not self.whiten:
            return np.ones(len(self._values))
        deviation = np.sqrt(self.explained_variance_)
        return np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 0)

    def transform(self, X: Any) -> Array:
        """Return the scores of rows.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n, k)
        """
        self._ensure_solved()
        X = self._check_rows(X)
        coef = self._components.T * self._scales()
        return self._linear_of(X, coef, -self._mean @ coef).astype(X.dtype, copy=False)

    def inverse_transform(self, X: Any) -> Array:
        """Return rows for scores, as a ridge regression finds them.

        Parameters
        ----------
        X : array-like of shape (n, k)
            Scores.

        Returns
        -------
        ndarray of shape (n, d)
        """
        self._ensure_solved()
        if self._back is None:
            msg = "KernelPCA: inverse_transform needs what fit learns with fit_inverse_transform=True."
            raise DataError(msg)
        scores = self._check_scores(X, len(self._values))
        coef, mean = self._back
        scales = self._scales()
        plain = np.divide(scores, scales, out=np.zeros(scores.shape), where=scales > 0)
        return (plain @ coef + mean).astype(scores.dtype, copy=False)


def canonical(values: Array, vectors: Array, mean: Array, rounding: float) -> Array:
    """Return eigenvectors, for descending values, that do not depend on chance.

    Each is turned to the side of the mean, which does not depend on the basis that features come in; if it is at right
    angles with it, the first of its largest entries is positive. Vectors of values that coincide to rounding are
    replaced by a basis of their space that depends on the space alone.
    """
    out = vectors.copy()
    edges = np.flatnonzero(values[:-1] - values[1:] > rounding) + 1
    for first, last in zip([0, *edges], [*edges, len(values)], strict=True):
        if last - first > 1:
            out[:, first:last] = basis_of(vectors[:, first:last])
    sizes = np.abs(out)
    largest = out[np.argmax(sizes >= SAME * sizes.max(axis=0), axis=0), np.arange(out.shape[1])]
    along = mean @ out
    decisive = np.where(np.abs(along) > RIGHT_ANGLE * np.linalg.norm(mean), along, largest)
    return np.where(decisive < 0, -out, out)


def basis_of(vectors: Array) -> Array:
    """Return an orthonormal basis of the span of orthonormal columns that depends on the span alone.

    It is made of projections of unit vectors, each time of the one that has most left.
    """
    rest = vectors.T.copy()  # coordinates of the projected unit vectors, as columns
    chosen = []
    for _ in range(vectors.shape[1]):
        left = np.einsum("ij,ij->j", rest, rest)
        pivot = int(np.argmax(left >= SAME * left.max()))
        direction = rest[:, pivot] / np.sqrt(left[pivot])
        rest -= np.outer(direction, direction @ rest)
        chosen.append(direction)
    return vectors @ np.array(chosen).T
