"""Kernel principal component analysis: principal component analysis of the features of a map."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mercer._docs import doc
from mercer.data.results import rowwise
from mercer.engines import Report
from mercer.errors import DataError, ParameterError
from mercer.kernels import Kernel
from mercer.learners.base import Fit, Transformer
from mercer.maps import BaseMap
from mercer.parameters import Choice, Domain, Integer, Interval
from mercer.solvers.ridge.least_squares import Spectrum
from mercer.statistics.moments import Moments, MomentSum, no_targets, rows_as_targets

__all__ = ["KernelPCA"]

Array = np.ndarray
# A component whose cosine with the mean is below this gets its sign from its entries.
RIGHT_ANGLE = 1e-8
# Entries of a component above this fraction of its largest entry are treated as equal to it; the first one decides.
SAME = 1 - 1e-6


@doc
class KernelPCA(Transformer):
    r"""Kernel principal component analysis at linear cost.

    The map turns each row into a vector of D features. Principal directions are orthogonal directions of largest
    variance of these vectors. The scores of a row, which `transform` returns, are the coordinates of its centered
    feature vector along the principal directions. If inner products of features equal the kernel, the scores are those
    of exact kernel principal component analysis. Time is O(n D^2 + D^3). Memory is O(D^2) plus one block of rows.

    Parameters
    ----------
    %(feature_map)s
    n_components : int or None, default=None
        Number of principal directions k, at most the number of features D. None keeps all directions whose variance
        exceeds the rounding error.
    whiten : bool, default=False
        Whether the scores along each direction are divided by their standard deviation.
    fit_inverse_transform : bool, default=False
        Whether to fit a ridge regression from scores to rows, for `inverse_transform`.
    alpha : float, default=1.0
        Penalty of the ridge regression for `inverse_transform`.
    %(common_parameters)s

    Attributes
    ----------
    components_ : ndarray of shape (k, D)
        Principal directions in the space of the features, each of norm 1, or zero if its variance is zero.
    mean_ : ndarray of shape (D,)
        Mean of the features.
    eigenvalues_ : ndarray of shape (k,)
        Eigenvalues of the centered kernel matrix, descending, as in scikit-learn's KernelPCA.
    explained_variance_ : ndarray of shape (k,)
        Variance of the scores along each direction: the eigenvalue divided by the total weight of the rows.
    explained_variance_ratio_ : ndarray of shape (k,)
        Fraction of the total variance of the features that lies along each direction.
    %(feature_map_)s
    statistic_ : Moments
        The sums over the rows; `partial_fit` adds to them.

    See Also
    --------
    KernelKMeans : Clusters in the same feature space.
    sklearn.decomposition.KernelPCA : The exact method, in time O(n^3) and memory O(n^2).

    Notes
    -----
    The sign of each principal direction is chosen so that its inner product with the mean of the features is positive.
    If several eigenvalues are equal up to rounding error, as for symmetric data, every orthonormal basis of their
    eigenspace is valid. The basis that is returned depends on the eigenspace only, not on rounding error.

    `inverse_transform` is a linear ridge regression from scores to rows, with the mean of the rows as intercept. In
    scikit-learn it is a kernel ridge regression on the scores, without an intercept. For a linear kernel and centered
    rows the two are the same.

    References
    ----------
    .. [1] Schoelkopf, Smola, Mueller (1998), Nonlinear component analysis as a kernel eigenvalue problem, Neural
       Computation.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_circles
    >>> from mercer import Gaussian, KernelPCA, RandomFourier
    >>> X, y = make_circles(1000, factor=0.3, noise=0.05, random_state=0)
    >>> scores = KernelPCA(RandomFourier(Gaussian(0.5), 512, random_state=0), 1).fit_transform(X)
    >>> inner, outer = scores[y == 1, 0], scores[y == 0, 0]
    >>> bool(inner.min() > outer.max() or inner.max() < outer.min())  # one score separates the circles
    True
    """

    parameter_domains: ClassVar[Mapping[str, Domain]] = {
        "n_components": Choice(None) | Integer(1),
        "alpha": Interval(0),
    }
    solves_gram = True
    solved = frozenset(
        {"components_", "mean_", "eigenvalues_", "explained_variance_", "explained_variance_ratio_", "inverse_"}
    )

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
        progress: bool | Report = False,
    ) -> None:
        self.n_components = n_components
        self.feature_map = feature_map
        self.whiten = whiten
        self.fit_inverse_transform = fit_inverse_transform
        self.alpha = alpha
        self.block_size = block_size
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress

    # ---- fitting ------------------------------------------------------------------------------

    def _several_passes(self) -> None:
        return None

    def _costs(self, n: int, D: int) -> dict[str, float]:  # noqa: ARG002 - the signature of the contract
        return {"solve": 3.0 * D**3}

    def _statistic(self, fit: Fit) -> MomentSum:
        features = self.feature_map_.features_
        self._check_count(features.n_components)
        targets = rows_as_targets if self.fit_inverse_transform else no_targets
        # Small eigenvalues matter.
        return MomentSum(features, targets, double=True, centered=True, n_rows=fit.labeled.n_rows)

    def _check_count(self, D: int) -> None:
        if self.n_components is not None and self.n_components > D:
            msg = (
                f"KernelPCA: n_components must be None or an integer from 1 to {D}, the number of components of the "
                f"map; got {self.n_components!r}. For more components use a wider map."
            )
            raise ParameterError(msg)

    def _solve(self, statistic: Moments, fit: Fit | None) -> None:  # noqa: ARG002 - the signature of the contract
        self._check_parameters()
        self.statistic_ = statistic
        spectrum = Spectrum.of(statistic)
        values, D = spectrum.values[::-1], len(spectrum.values)
        self._check_count(D)
        rounding = D * spectrum.rounding
        retained = values > rounding
        count = max(1, int(retained.sum())) if self.n_components is None else int(self.n_components)
        vectors = canonical(values[retained], spectrum.vectors[:, ::-1][:, retained], spectrum.center, rounding)
        total = float(values.sum())
        self.eigenvalues_ = np.where(retained, values, 0.0)[:count]
        self.explained_variance_ = self.eigenvalues_ / spectrum.weight
        self.explained_variance_ratio_ = self.eigenvalues_ / total if total > 0 else np.zeros(count)
        self.components_ = np.zeros((count, D))
        self.components_[: min(count, vectors.shape[1])] = vectors.T[:count]
        self.mean_ = spectrum.center
        self.inverse_ = None
        if self.fit_inverse_transform and spectrum.rotated.shape[1]:
            # Scores have the second moments diag(eigenvalues): their ridge regression needs no further solve.
            cross = self.components_ @ statistic.targets.cross
            positive = self.eigenvalues_[:, None] > 0
            penalized = (self.eigenvalues_ + self.alpha)[:, None]
            coef = np.divide(cross, penalized, out=np.zeros_like(cross), where=positive)
            self.inverse_ = ScoresToRows(coef, spectrum.offset)

    # ---- results ------------------------------------------------------------------------------

    @property
    def _n_features_out(self) -> int:
        return len(self.eigenvalues_)

    def _scales(self) -> Array:
        """Return the factors of the scores (k,): 1 / standard deviation if `whiten`, otherwise 1."""
        if not self.whiten:
            return np.ones(len(self.eigenvalues_))
        deviation = np.sqrt(self.explained_variance_)
        return np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 0)

    @rowwise
    def transform(self, X: Any) -> Array:
        """Return the scores of rows: the coordinates of their centered features along the principal directions.

        %(rows_to_results)s
        ndarray of shape (n, k)
        """
        X = self._check_rows(X)
        coef = self.components_.T * self._scales()
        return self._linear_of(X, coef, -self.mean_ @ coef).astype(X.dtype, copy=False)

    def inverse_transform(self, X: Any) -> Array:
        """Return approximate rows for given scores, predicted by a ridge regression from scores to rows.

        Parameters
        ----------
        X : array-like of shape (n, k)
            Scores.

        Returns
        -------
        ndarray of shape (n, d)
        """
        self._check_fitted()
        if self.inverse_ is None:
            msg = "KernelPCA: inverse_transform is available after a fit with fit_inverse_transform=True."
            raise DataError(msg)
        scores, scales = self._check_scores(X), self._scales()
        unscaled = np.divide(scores, scales, out=np.zeros(scores.shape), where=scales > 0)
        return (unscaled @ self.inverse_.coef + self.inverse_.mean).astype(scores.dtype, copy=False)


@dataclass(frozen=True)
class ScoresToRows:
    """A linear regression from scores to rows: X = scores @ coef + mean."""

    coef: Array  # (k, d)
    mean: Array  # (d,)


def canonical(values: Array, vectors: Array, mean: Array, rounding: float) -> Array:
    """Return eigenvectors with a deterministic sign and basis, for descending eigenvalues.

    The sign of each eigenvector is chosen so that its inner product with `mean` is positive, a choice that does not
    depend on the basis of the features. If an eigenvector is orthogonal to `mean`, the first of its entries of largest
    absolute value is made positive. Eigenvectors whose eigenvalues are equal up to rounding error are replaced by a
    basis that depends on their span only.
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
    """Return an orthonormal basis that depends only on the span of the given orthonormal columns.

    It is computed by pivoted Gram-Schmidt orthogonalization of the projections of the unit vectors.
    """
    rest = vectors.T.copy()  # coordinates of the projected unit vectors, one per column
    chosen = []
    for _ in range(vectors.shape[1]):
        left = np.einsum("ij,ij->j", rest, rest)
        pivot = int(np.argmax(left >= SAME * left.max()))
        direction = rest[:, pivot] / np.sqrt(left[pivot])
        rest -= np.outer(direction, direction @ rest)
        chosen.append(direction)
    return vectors @ np.array(chosen).T
