"""Fourier features whose frequencies are chosen for the rows, from a pool of random frequencies, without bias."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np

from mercer._docs import doc
from mercer.engines import Report, enter_stage
from mercer.engines.base import report_step
from mercer.kernels import Kernel
from mercer.maps.base import DrawnMap
from mercer.maps.fourier.projections import DenseProjection
from mercer.maps.fourier.random_fourier import RandomFourier, TrigFeatures, in_float64, split_constant
from mercer.maps.fourier.sampling import balanced_sample, inclusion_probabilities, systematic_sample
from mercer.maps.fourier.spherical_radial import QuadratureFeatures
from mercer.parameters import Choice, Domain, Integer

__all__ = ["ResampledFourier"]

Array = np.ndarray
# Number of rows for which frequencies are chosen. More rows do not lower the error on other rows much.
ROWS = 500
# Frequencies are chosen in groups of at most this number, each from a part of the pool, so that costs are proportional
# to the number of components.
GROUP = 256
# Features of X up to which the frequencies of the pool are orthogonal. Those of wider rows nearly are, and to make them
# so would take most of the time of a fit.
WIDE = 1024
# Number of balanced variables: at most this, and at most this share of the number of frequencies of a group.
MOST_BALANCED = 128
BALANCED_SHARE = 0.9
# Number of products with the matrix whose leading eigenvectors are computed, and of further vectors for accuracy.
ITERATIONS = 3
FURTHER = 16
# Ridge leverage scores are those for which the effective dimension is this share of the number of components.
EFFECTIVE_SHARE = 0.125
# Share of uniform probabilities in the mixture with leverage scores. It bounds the weights of frequencies by twice
# those of plain random Fourier features.
UNIFORM_SHARE = 0.5


@doc
class ResampledFourier(DrawnMap):
    r"""Fourier features of frequencies that are chosen for the rows, from a pool of random frequencies.

    A pool of more frequencies than needed is drawn as by `RandomFourier`, and some of them are sampled with
    probabilities :math:`\pi_j` that are known. Frequency j of a pool of :math:`m_0` frequencies has the weight
    :math:`1 / (m_0 \pi_j)`, so that the mean over samples is the approximate kernel of the complete pool, and the mean
    over pools is the kernel: the map is unbiased, whatever the rows.

    Parameters
    ----------
    %(kernel)s
    %(n_components)s
    sampling : {"balanced", "leverage"}, default="balanced"
        "balanced": all :math:`\pi_j` are equal, and the sample approximates the leading functions of pairs of rows that
        the pool represents as the complete pool does [1]_. "leverage": :math:`\pi_j` is half uniform, and half in
        proportion to the ridge leverage score of the frequency on the rows [2]_.
    pool : int, default=8
        Number of frequencies of the pool, divided by the number that is chosen; at least 2.
    %(random_state, n_jobs)s

    Attributes
    ----------
    %(kernel_)s
    features_ : TrigFeatures or QuadratureFeatures
        The chosen features: a function from rows to features.
    pool_size_ : int
        Number of frequencies of the pool.
    %(signs_none, n_features_in_)s

    See Also
    --------
    RandomFourier : Frequencies that do not depend on the rows.
    Nystroem : Landmark features, which adapt to the rows much more.

    Notes
    -----
    The frequencies are chosen for at most 500 of the rows, in groups of 256. The approximate kernel of a sample s minus
    that of the pool is :math:`\sum_j (s_j / \pi_j - 1) \cos(w_j^\top (x - y)) / m_0` for a pair of rows. Balanced
    samples make the sums of :math:`s_j v_j / \pi_j` equal to those of :math:`v_j`, for the leading eigenvectors v of
    the matrix with the entries :math:`\sum_{x, y} \cos(w_i^\top (x - y)) \cos(w_j^\top (x - y))`, so that the leading
    part of this difference vanishes.

    The error is less than that of `RandomFourier` if the rows have few features, or the kernel is not smooth. For
    smooth kernels of rows with more features than about the root of `n_components`, the orthogonal directions of
    `RandomFourier` are better than a choice. Ridge leverage scores are derived for the error of a ridge regression.
    In measurements (`docs/theory/fourier.md`) they did not improve it, and had more kernel error than balanced samples.

    Fitting takes one to two seconds per group on one core, in proportion to the number of components. Transforming
    takes O(n d D) operations, as for dense directions of `RandomFourier`.

    References
    ----------
    .. [1] Deville, Tille (2004), Efficient balanced sampling: the cube method, Biometrika 91.
    .. [2] Li, Ton, Oglic, Sejdinovic (2019), Towards a Unified Analysis of Random Fourier Features, ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Gaussian, ResampledFourier
    >>> X = np.random.default_rng(0).normal(size=(500, 4))
    >>> feature_map = ResampledFourier(Gaussian(2.0), n_components=256, random_state=0).fit(X)
    >>> bool(abs(feature_map.gram(X) - Gaussian(2.0)(X)).mean() < 0.02)
    True
    """

    draw_reports = True
    needs: ClassVar[str] = RandomFourier.needs
    features_check_entries: ClassVar[bool] = True  # for the range of the angles
    parameter_domains: ClassVar[Mapping[str, Domain]] = {
        "sampling": Choice("balanced", "leverage"),
        "pool": Integer(2),
    }
    features_: TrigFeatures | QuadratureFeatures
    pool_size_: int

    def __init__(
        self,
        kernel: Kernel | None = None,
        n_components: int = 512,
        *,
        sampling: Literal["balanced", "leverage"] = "balanced",
        pool: int = 8,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.sampling = sampling
        self.pool = pool
        self.random_state = random_state
        self.n_jobs = n_jobs

    @classmethod
    def accepts(cls, kernel: Kernel) -> bool:
        return kernel.spectral_parts() is not None

    @property
    def unbiased(self) -> bool | str:
        return True

    def _rows_to_draw(self) -> int:
        return ROWS

    def _bytes_to_draw(self, n: int, d: int) -> int:
        m = max(1, self.n_components // 2)
        group = 2 * self.pool * min(m, GROUP)
        return 8 * (self.pool * m * d + group * (min(n, ROWS) + group))

    def _draw_costs(self, n: int) -> dict[str, float]:
        # Matrices of products of cosines, one row and one column per frequency of a part of the pool.
        m = max(1, self.n_components // 2)
        pooled = self.pool * min(m, GROUP)
        return {"choose frequencies": -(-m // GROUP) * pooled**2 * (2.0 * min(n, ROWS) + MOST_BALANCED)}

    def _draw(
        self,
        kernel: Kernel,
        X: Any,
        weight: Array | None,
        rng: np.random.Generator,
        report: Report | None = None,
    ) -> TrigFeatures | QuadratureFeatures:
        enter_stage(report, "choose frequencies")
        mass, constant, _ = split_constant(kernel, self.n_components)
        if self.n_components == 1:  # a constant is then one of the frequencies
            self.pool_size_ = 1
            return RandomFourier(kernel, 1, directions="iid", random_state=rng).fit_sample(X[:1]).features_
        width = self.n_components - (constant > 0)
        m = -(-width // 2)
        self.pool_size_ = self.pool * m
        directions = "big_block" if X.shape[1] <= WIDE else "iid"
        pool = RandomFourier(kernel, 2 * self.pool_size_ + (constant > 0), directions=directions, random_state=rng)
        projection = pool.fit_sample(X[:1]).features_.projection
        assert isinstance(projection, DenseProjection)
        sizes = [len(group) for group in np.array_split(np.arange(m), -(-m // GROUP))]
        ends = self.pool * np.cumsum(sizes)
        parts = []
        for number, (size, end) in enumerate(zip(sizes, ends, strict=True)):
            report_step(report, number, len(sizes), unit="groups")
            pooled = slice(end - self.pool * size, end)
            Z = row_cosines(DenseProjection(projection.weights[:, pooled]), X, weight)
            chosen, probabilities = self._choose(Z, size, rng)
            parts.append((pooled.start + chosen, probabilities[chosen]))
        chosen, probabilities = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        # A frequency at any position has the same distribution, also the last one, which may lack its sine.
        order = rng.permutation(m)
        projection = DenseProjection(np.ascontiguousarray(projection.weights[:, chosen[order]]))
        phases = np.where(np.arange(m) < width // 2, 0.0, rng.uniform(0, 2 * np.pi, m))
        amplitude = np.sqrt(mass / (0.5 * width))
        if self.sampling == "balanced":
            return TrigFeatures(projection, phases, "pairs", self.n_components, amplitude, np.sqrt(constant))
        amplitudes = amplitude * np.sqrt(m / (self.pool_size_ * probabilities[order]))
        heads = np.full(int(constant > 0), np.sqrt(constant))
        return QuadratureFeatures(projection, phases, amplitudes, heads, self.n_components, None)

    def _choose(self, Z: Array, m: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Return the indices of m frequencies of a part of the pool, and the probabilities of all frequencies of it.

        Z are the cosines and the sines of this part of the pool, from `row_cosines`.
        """
        pooled = Z.shape[1] // 2
        if self.sampling == "leverage":
            scores = leverage_scores(Z, EFFECTIVE_SHARE * 2 * m)
            probabilities = inclusion_probabilities(
                (1 - UNIFORM_SHARE) * scores / scores.sum() + UNIFORM_SHARE / len(scores), m
            )
            # In the order of their scores: frequencies of about equal weight are represented in proportion.
            return systematic_sample(probabilities, np.argsort(scores, kind="stable"), rng), probabilities
        probabilities = np.full(pooled, m / pooled)
        variables = leading_vectors(pair_products(Z), min(MOST_BALANCED, int(BALANCED_SHARE * m)), rng)
        variables = np.column_stack([np.ones(pooled), variables])
        return balanced_sample(probabilities, variables, rng), probabilities


def row_cosines(projection: DenseProjection, X: Any, weight: Array | None) -> Array:
    """Return the cosines and sines of the angles of rows, divided by the root of the number of rows or by weights."""
    angles = projection(in_float64(X))
    share = np.full(len(angles), 1 / len(angles)) if weight is None else weight / weight.sum()
    return np.sqrt(share)[:, None] * np.concatenate([np.cos(angles), np.sin(angles)], axis=1)


def pair_products(Z: Array) -> Array:
    """Return the means over pairs of rows (x, y) of cos(u . (x - y)) cos(v . (x - y)), for frequencies u and v.

    Z are the cosines and sines of the frequencies, from `row_cosines`. With c = cos(u . x) and s = sin(u . x), the
    matrix is the sum of the squares of the four matrices of the means of c c', s s', c s' and s c'.
    """
    cosines, sines = np.split(Z, 2, axis=1)
    total = np.square(cosines.T @ cosines)
    total += np.square(sines.T @ sines)
    crossed = np.square(cosines.T @ sines)
    total += crossed
    total += crossed.T
    return total


def leading_vectors(M: Array, r: int, rng: np.random.Generator) -> Array:
    """Return r orthonormal vectors close to the leading eigenvectors of a positive semi-definite matrix.

    They are those of a random subspace that is multiplied by the matrix several times, the leading first.
    """
    vectors = rng.standard_normal((len(M), min(len(M), r + FURTHER)))
    for _ in range(ITERATIONS):
        vectors = np.linalg.qr(M @ vectors)[0]
    _, rotation = np.linalg.eigh(vectors.T @ M @ vectors)
    return (vectors @ rotation)[:, ::-1][:, :r]


def leverage_scores(Z: Array, effective_dimension: float) -> Array:
    """Return the ridge leverage score of each frequency: that of its cosine plus that of its sine.

    Z are the cosines and sines of a pool of frequencies, from `row_cosines`. The scores are the diagonal of
    G (G + lambda I)^-1 with G = Z'Z. The ridge lambda is that for which the sum of the scores is `effective_dimension`,
    or half of its largest value, if that is less.
    """
    rows = Z @ Z.T
    values, vectors = np.linalg.eigh(rows)
    values = np.maximum(values, 0.0)
    largest = values[-1]
    target = min(effective_dimension, 0.5 * np.count_nonzero(values > len(values) * np.finfo(float).eps * largest))
    low, high = np.log(largest) - 40.0, np.log(largest) + np.log(len(values)) + 10.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if (values / (values + np.exp(middle))).sum() > target else (low, middle)
    # The diagonal of Z' (Z Z' + lambda I)^-1 Z.
    projected = vectors.T @ Z
    scores = (np.square(projected) / (values + np.exp(high))[:, None]).sum(axis=0)
    m = Z.shape[1] // 2
    return scores[:m] + scores[m:]
