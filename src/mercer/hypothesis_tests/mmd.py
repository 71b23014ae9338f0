"""The kernel two-sample test: maximum mean discrepancy on features, with a permutation null distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.engines import Block, StreamEngine
from mercer.errors import DataError
from mercer.hypothesis_tests.permutation import (
    PermutationTest,
    checked_samples,
    fit_to_distinct_rows,
    permutation_result,
)
from mercer.kernels import Kernel
from mercer.maps import BaseMap
from mercer.maps.registry import unfitted_map
from mercer.statistics.feature_cache import RowFeatures
from mercer.statistics.sample import seed_of

__all__ = ["mmd_test"]

Array = np.ndarray
# Number of rows that one thread permutes and sums at a time, so that the indicators of a thousand permutations nearly
# fit in its cache.
BLOCK_ROWS = 1024


def mmd_test(
    X: Any,
    Y: Any,
    feature_map: BaseMap | Kernel | None = None,
    *,
    n_permutations: int = 999,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> PermutationTest:
    r"""Test whether two samples come from the same distribution, at a cost that is linear in their rows.

    The statistic is the unbiased estimate of the squared maximum mean discrepancy, which is the distance between the
    mean features of the two distributions [1]_,

    .. math:: \frac{|\sum z(x)|^2 - \sum |z(x)|^2}{m (m - 1)} + \frac{|\sum z(y)|^2 - \sum |z(y)|^2}{n (n - 1)}
        - \frac{2}{m n} \sum z(x)^\top \sum z(y) .

    It is compared with the statistics of random divisions of the pooled rows into samples of the same sizes, which need
    a single matrix product with the features: time O(B (m + n) D) and memory O(B D), instead of O((m + n)^2) for the
    Gram matrix.

    Parameters
    ----------
    X : array-like or CSR of shape (m, d), or what `open_rows` returns
        The first sample, of at least two rows. Files are read into memory, without their targets.
    Y : array-like or CSR of shape (n, d), or what `open_rows` returns
        The second sample, of at least two rows.
    feature_map : BaseMap, Kernel or None, default=None
        A map; or a kernel, for which a map of 512 components is drawn. None means a Gaussian kernel whose lengthscale
        is the median distance of the pooled rows. What the map learns from rows does not depend on which sample they
        belong to, so that the test remains exact.
    n_permutations : int, default=999
        Number B of random divisions. The smallest possible p-value is 1 / (1 + B).
    n_jobs : int or None, default=None
        Number of threads; None means all cores. The result does not depend on it.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the permutations, and of the map if `feature_map` is a kernel or None.

    Returns
    -------
    PermutationTest
        With the attributes `statistic`, `p_value` and `null`, and the method `threshold(level)`.

    See Also
    --------
    hsic_test : Test of independence of two samples that are observed in pairs.

    Notes
    -----
    If both samples come from the same distribution, the p-value is at most `a` with a probability of at most `a`, for
    all distributions, sample sizes and feature maps, because the observed division is one of the equally likely
    divisions. Ties count against the alternative. More components give more power, up to that of the exact kernel.

    References
    ----------
    .. [1] Gretton, Borgwardt, Rasch, Schoelkopf, Smola (2012), A kernel two-sample test, JMLR.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import mmd_test
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(size=(500, 3)), rng.laplace(size=(400, 3)) / np.sqrt(2)
    >>> result = mmd_test(X, Y, random_state=0)
    >>> result.p_value < 0.05
    True
    >>> result.statistic > result.threshold(level=0.05)
    True
    """
    X, Y = checked_samples("mmd_test", X, Y, n_permutations)
    if X.shape[1] != Y.shape[1]:
        msg = f"mmd_test: X and Y must have equal width, got {X.shape[1]} and {Y.shape[1]} features."
        raise DataError(msg)
    engine = StreamEngine([X, Y], lambda rows: (rows, None, None), block_rows=lambda _: BLOCK_ROWS, n_jobs=n_jobs)
    prototype = unfitted_map("mmd_test", feature_map, random_state)
    fitted = fit_to_distinct_rows("mmd_test", prototype, engine)
    m, n = X.shape[0], Y.shape[0]
    seed = seed_of(random_state, "permutations")
    blocks = [len(block) for block in engine.blocks()]
    # The number of rows of each block that belong to the first sample. Given these, the blocks are independent.
    counts = np.random.default_rng(seed).multivariate_hypergeometric(blocks, m, n_permutations, method="marginals")
    starts = np.cumsum([0, *blocks[:-1]]).tolist()
    draw = RowFeatures(fitted.features_)
    # A shift of all features does not change differences of means, and features near zero lose fewer digits.
    shift = draw.of(engine.first().X).mean(axis=0)
    found = engine.sum(DividedSums(draw, shift, m, dict(zip(starts, counts.T, strict=True)), seed))
    size = float(found.total[-1] / (m + n))
    return permutation_result("mmd_test", unbiased_mmd(found.first, found.total, m, n), size, (m, n), (fitted,))


@dataclass(frozen=True)
class SumsOfDivisions:
    """Sums of features, and of their squared norms in the last column, over the first sample of each division."""

    first: Array  # (1 + B, D + 1)
    total: Array  # (D + 1,), over both samples

    def __add__(self, other: SumsOfDivisions) -> SumsOfDivisions:
        return SumsOfDivisions(self.first + other.first, self.total + other.total)


@dataclass(frozen=True)
class DividedSums:
    """The summand of a block in `SumsOfDivisions`, for the observed division followed by random ones."""

    draw: RowFeatures
    shift: Array  # (D,)
    first_rows: int
    counts: dict[int, Array]  # by the start of a block: number of its rows in the first sample, (B,)
    seed: int

    def __call__(self, block: Block) -> SumsOfDivisions:
        counts = self.counts[block.start]
        n = len(block)
        Z = self.draw.of(block.X) - self.shift
        Z = np.column_stack([Z, np.einsum("ij,ij->i", Z, Z)])
        chosen = np.empty((1 + len(counts), n), bool)
        chosen[0] = np.arange(block.start, block.start + n) < self.first_rows
        chosen[1:] = np.arange(n) < counts[:, None]
        rng = np.random.default_rng([self.seed, block.start])
        rng.permuted(chosen[1:], axis=1, out=chosen[1:])
        return SumsOfDivisions(chosen.astype(np.float64) @ Z, Z.sum(axis=0))


def unbiased_mmd(first: Array, total: Array, m: int, n: int) -> Array:
    """Return the unbiased squared MMD of each division, given the sums over its first sample and over all rows."""
    second = total - first

    def products(a: Array, b: Array) -> Array:
        return np.einsum("ij,ij->i", a[:, :-1], b[:, :-1])

    within_first = (products(first, first) - first[:, -1]) / (m * (m - 1))
    within_second = (products(second, second) - second[:, -1]) / (n * (n - 1))
    return within_first + within_second - 2 * products(first, second) / (m * n)
