"""The kernel two-sample test: maximum mean discrepancy on features, with a permutation null distribution."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.engines import Block, Report, StagedReport, StreamEngine, enter_stage, reported, stages_of
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
from mercer.parameters import known_names
from mercer.statistics.feature_cache import RowFeatures
from mercer.statistics.sample import seed_of

__all__ = ["mmd_test"]

Array = np.ndarray
# Number of rows per block. One thread permutes and sums a block at a time, and the indicators of a thousand
# permutations of a block nearly fit into its cache.
BLOCK_ROWS = 1024


@known_names
def mmd_test(
    X: Any,
    Y: Any,
    feature_map: BaseMap | Kernel | None = None,
    *,
    n_permutations: int = 999,
    n_jobs: int | None = None,
    random_state: Any = None,
    progress: bool | Report = False,
) -> PermutationTest:
    r"""Test whether two samples come from the same distribution, at a cost that is linear in the number of rows.

    The statistic is the unbiased estimate of the squared maximum mean discrepancy. The discrepancy is the distance
    between the mean features of the two distributions [1]_, and the estimate for samples of m and n rows is

    .. math:: \frac{|\sum z(x)|^2 - \sum |z(x)|^2}{m (m - 1)} + \frac{|\sum z(y)|^2 - \sum |z(y)|^2}{n (n - 1)}
        - \frac{2}{m n} \sum z(x)^\top \sum z(y) .

    It is compared with the statistics of B random divisions of the pooled rows into samples of sizes m and n. The sums
    for all divisions are computed by one matrix product with the features. With D components the test takes time
    O(B (m + n) D) and memory O(B D), where the Gram matrix would take O((m + n)^2).

    Parameters
    ----------
    X : array-like or CSR of shape (m, d), or what `open_rows` returns
        The first sample, of at least two rows. Files are read into memory, without their targets.
    Y : array-like or CSR of shape (n, d), or what `open_rows` returns
        The second sample, of at least two rows.
    feature_map : BaseMap, Kernel or None, default=None
        A feature map; or a kernel, for which a map of 512 components is created. None means a Gaussian kernel whose
        lengthscale is the median distance of the pooled rows. Parameters that are learned from the rows, such as this
        lengthscale, do not depend on which sample a row belongs to, so that the test remains exact.
    n_permutations : int, default=999
        Number B of random divisions. The smallest possible p-value is 1 / (1 + B).
    n_jobs : int or None, default=None
        Number of threads; None means all cores. The result does not depend on it.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the permutations, and of the map if `feature_map` is a kernel or None.
    progress : bool or callable, default=False
        True shows the progress on a terminal, in a notebook, or as lines of a log; a callable receives a `Progress`
        after each block.

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
    every a, distribution, sample size and feature map, because then all divisions of the pooled rows are equally
    likely, the observed one included. Divisions with a statistic equal to the observed one increase the p-value. More
    components give more power, up to that of the exact kernel.

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
    report = stages_of("mmd_test", progress)
    with reported(report):
        return _tested(X, Y, engine, prototype, n_permutations, random_state, report)


def _tested(
    X: Any,
    Y: Any,
    engine: StreamEngine,
    prototype: BaseMap,
    n_permutations: int,
    random_state: Any,
    report: StagedReport | None,
) -> PermutationTest:
    """Return the result of `mmd_test` for validated samples, of which the engine yields the pooled rows."""
    m, n = X.shape[0], Y.shape[0]
    if report is not None:
        report.plan(
            {"fit map": float((m + n) * X.shape[1]), "divide": float((m + n) * n_permutations * prototype.width)}
        )
    fitted = fit_to_distinct_rows("mmd_test", prototype, engine, report)
    seed = seed_of(random_state, "permutations")
    blocks = [len(block) for block in engine.blocks()]
    # For each division, the number of rows of each block that belong to the first sample. Given these numbers, the
    # assignments of rows to samples in different blocks are independent.
    counts = np.random.default_rng(seed).multivariate_hypergeometric(blocks, m, n_permutations, method="marginals")
    starts = np.cumsum([0, *blocks[:-1]]).tolist()
    draw = RowFeatures(fitted.features_)
    # Subtracting the same vector from all features does not change the statistics, and reduces cancellation.
    shift = draw.of(engine.first().X).mean(axis=0)
    enter_stage(report, "divide")
    # The engine does not know the number of rows, since it reads the two samples one after the other.
    told = None if report is None else lambda done: report(replace(done, total=m + n))
    found = engine.sum(DividedSums(draw, shift, m, dict(zip(starts, counts.T, strict=True)), seed), told)
    size = float(found.total[-1] / (m + n))
    return permutation_result("mmd_test", unbiased_mmd(found.first, found.total, m, n), size, (m, n), (fitted,))


@dataclass(frozen=True)
class SumsOfDivisions:
    """Sums of features over the first sample, for 1 + B divisions of the pooled rows into two samples.

    The array `first` has one row per division: the observed division, then B random divisions. The array `total` holds
    the sums over all pooled rows. The last column of `first` and the last entry of `total` are sums of |z|^2 over the
    feature vectors z.
    """

    first: Array  # (1 + B, D + 1): one row per division, with the sums over its first sample
    total: Array  # (D + 1,): sums over all pooled rows

    def __add__(self, other: SumsOfDivisions) -> SumsOfDivisions:
        return SumsOfDivisions(self.first + other.first, self.total + other.total)


@dataclass(frozen=True)
class DividedSums:
    """Function of a block of rows that returns the `SumsOfDivisions` of its features.

    There are 1 + B divisions of the pooled rows into two samples: the observed division, whose first sample consists of
    the first `first_rows` rows, and B random divisions.
    """

    draw: RowFeatures
    shift: Array  # (D,), subtracted from all features
    first_rows: int
    counts: dict[int, Array]  # start of a block -> (B,) numbers of its rows in the first sample of each random division
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
    """Return the unbiased squared MMD of each division of the pooled rows into samples of m and n rows.

    `first` has one row per division: the sum of the feature vectors z over the first sample and, in the last column,
    the sum of |z|^2. `total` holds the same sums over all pooled rows.
    """
    second = total - first

    def products(a: Array, b: Array) -> Array:
        return np.einsum("ij,ij->i", a[:, :-1], b[:, :-1])

    within_first = (products(first, first) - first[:, -1]) / (m * (m - 1))
    within_second = (products(second, second) - second[:, -1]) / (n * (n - 1))
    return within_first + within_second - 2 * products(first, second) / (m * n)
