"""The kernel two-sample test: maximum mean discrepancy on features, with a permutation null distribution.

With ``kernel="adaptive"`` there are ten Gaussian kernels on shared frequencies, and permutations exchange groups of
rows, see `mercer.hypothesis_tests.groups`. With a given kernel or map, permutations exchange rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.engines import Block, Report, StagedReport, StreamEngine, enter_stage, report_step, reported, stages_of
from mercer.engines.base import workers
from mercer.errors import DataError
from mercer.hypothesis_tests.frequencies import pooled_rows, shared_frequencies
from mercer.hypothesis_tests.groups import (
    MOST_DOUBLE_ROWS,
    SINGLE_TIE,
    CollectedRows,
    SumByGroup,
    check_same_names,
    combine_scales,
    exact_statistics,
    mean_differences,
    permuted_labels,
    plan_groups,
    sample_engine,
    tie_of,
)
from mercer.hypothesis_tests.permutation import (
    PermutationTest,
    adaptive_result,
    check_adaptive_only,
    check_enough,
    check_kernel,
    checked_samples,
    fit_to_distinct_rows,
    permutation_result,
)
from mercer.hypothesis_tests.witness import ScaleScores, Witness
from mercer.kernels import Kernel
from mercer.maps import BaseMap
from mercer.maps.registry import unfitted_map
from mercer.parameters import Choice, Integer, check_parameter, known_names
from mercer.statistics.feature_cache import RowFeatures
from mercer.statistics.sample import seed_of

__all__ = ["mmd_test"]

Array = np.ndarray
# Number of rows per block. One thread permutes and sums a block at a time, and the indicators of a thousand
# permutations of a block nearly fit into its cache.
BLOCK_ROWS = 1024
# Number of components of the adaptive test, up to a number of rows of both samples and above it.
MANY_COMPONENTS, MANY_ROWS, FEW_COMPONENTS = 2000, 200_000, 800
# Up to this number of rows of both samples, the statistics are those of exact kernels: this takes about a second, and
# in high dimension more components would be needed than there are rows.
EXACT_ROWS = 4096
# Number of permutations with which the witness function is compared.
WITNESS_PERMUTATIONS = 50


@known_names
def mmd_test(
    X: Any,
    Y: Any,
    kernel: BaseMap | Kernel | str | None = "adaptive",
    *,
    sample_weight_x: Any = None,
    sample_weight_y: Any = None,
    transform: Callable[[Any], Any] | None = None,
    n_components: int | None = None,
    n_permutations: int = 999,
    n_jobs: int | None = None,
    random_state: Any = None,
    progress: bool | Report = False,
) -> PermutationTest:
    r"""Test whether two samples come from the same distribution.

    The cost is linear in the number of rows above 4096 rows of both samples together. Up to this number, the adaptive
    test has exact kernels by default, at a quadratic cost: fewer features than that would lose power.

    By default the test adapts to the scale of the difference. Columns are divided by their spreads, and ten Gaussian
    kernels, whose lengthscales cover the distances between rows, are approximated on one set of frequencies: kernel k
    is a vector of weights :math:`a_k`, and its squared maximum mean discrepancy [1]_ is

    .. math:: \sum_j a_{kj} \Bigl| \frac{1}{m} \sum_i e^{i w_j \cdot x_i}
        - \frac{1}{n} \sum_i e^{i w_j \cdot y_i} \Bigr|^2 .

    Rows are divided at random into groups, and the statistics of B permutations of the groups are computed from the
    sums over the groups. The cube roots of the statistics of each kernel are standardized, and the score of the test is
    the likelihood ratio of means that are larger than those of the permutations, given the covariance of the kernels.
    Tests that aggregate kernels by their largest statistic [2]_ [3]_ take quadratic time.

    Parameters
    ----------
    X : array-like or CSR of shape (m, d), iterable of blocks, result of `open_rows`, or Dask collection
        The first sample, of at least two rows. Rows are read twice, block by block. Targets in files are ignored.
    Y : as X, of shape (n, d)
        The second sample, of at least two rows.
    kernel : "adaptive", BaseMap, Kernel or None, default="adaptive"
        "adaptive" is described above. A feature map, or a kernel, for which a map of 512 components is created, gives
        the test with this kernel alone; None means a Gaussian kernel whose lengthscale is the median distance of the
        pooled rows. Parameters that are learned from the rows, such as this lengthscale, do not depend on which sample
        a row belongs to, so that the test remains exact. With a given kernel, rows are read into memory.
    sample_weight_x, sample_weight_y : array-like, Dask collection or None, default=None
        Weights >= 0 of the rows of each sample, for ``kernel="adaptive"``. Means become weighted means. Weights are
        exchanged together with their rows, so that the test is exact if, under the null hypothesis, pairs of row and
        weight have the same distribution in both samples. Files and blocks have their own weights.
    transform : callable or None, default=None
        Function of a block of rows that returns as many rows of numbers, such as the method `transform` of a fitted
        feature map or vectorizer, which is applied first. It must not depend on which sample a row belongs to.
    n_components : int or None, default=None
        Number of components, for ``kernel="adaptive"``: more give more power, up to that of exact kernels. None means
        2000, or 800 for more than 200,000 rows. For at most 4096 rows of both samples, None means that the statistics
        are those of the exact kernels.
    n_permutations : int, default=999
        Number B of permutations. The smallest possible p-value is 1 / (1 + B).
    n_jobs : int or None, default=None
        Number of threads; None means all cores. The result does not depend on it.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the permutations, the groups and the frequencies.
    progress : bool or callable, default=False
        True shows the progress on a terminal, in a notebook, or as lines of a log; a callable receives a `Progress`
        after each block.

    Returns
    -------
    PermutationTest
        With the attributes `statistic`, `p_value`, `null` and, for the adaptive test, `scales`, the evidence at each
        lengthscale, and `witness`, the function that shows where the samples differ; and with the methods
        `threshold(level)`, `to_dict()` and `plot()`.

    See Also
    --------
    hsic_test : Test of independence of two samples that are observed in pairs.

    Notes
    -----
    If both samples come from the same distribution, the p-value is at most `a` with a probability of at most `a`, for
    every a, distribution and sample size, because then all permutations of the groups are equally likely, the observed
    one included. Scales of columns, lengthscales and frequencies depend on the pooled rows only. Permutations with a
    score equal to the observed one increase the p-value. Rows may be sorted, since their assignment to groups is
    random, but different rows must be independent of each other, which is not true for a time series.

    References
    ----------
    .. [1] Gretton, Borgwardt, Rasch, Schoelkopf, Smola (2012), A kernel two-sample test, JMLR.
    .. [2] Schrab, Kim, Albert, Laurent, Guedj, Gretton (2023), MMD aggregated two-sample test, JMLR.
    .. [3] Biggs, Schrab, Gretton (2023), MMD-FUSE: learning and combining kernels for two-sample testing without data
       splitting, NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import mmd_test
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(size=(500, 3)), rng.normal(size=(400, 3))
    >>> Y[:, 1] = 0.9 * np.sign(Y[:, 1]) + 0.44 * rng.normal(size=400)  # two peaks, with the same mean and variance
    >>> result = mmd_test(X, Y, random_state=0)
    >>> result.p_value < 0.05
    True
    >>> result.statistic > result.threshold(level=0.05)
    True
    >>> result.witness.columns(1)[0].column
    1
    >>> result.witness(X[:5]).shape
    (5,)
    """
    check_parameter("mmd_test", "n_permutations", n_permutations, Integer(1))
    check_kernel("mmd_test", "kernel", kernel)
    if isinstance(kernel, str):
        check_parameter("mmd_test", "n_components", n_components, Choice(None) | Integer(2))
        report = stages_of("mmd_test", progress)
        with reported(report):
            return _adaptive(
                (X, Y),
                (sample_weight_x, sample_weight_y),
                transform,
                n_components,
                n_permutations,
                n_jobs,
                random_state,
                report,
            )
    given = {"sample_weight_x": sample_weight_x, "sample_weight_y": sample_weight_y, "n_components": n_components}
    check_adaptive_only("mmd_test", kernel, given)
    if transform is not None:
        X, Y = transform(X), transform(Y)
    X, Y = checked_samples("mmd_test", X, Y, n_permutations)
    check_equal_widths("mmd_test", X.shape[1], Y.shape[1])
    engine = StreamEngine([X, Y], lambda rows: (rows, None, None), block_rows=lambda _: BLOCK_ROWS, n_jobs=n_jobs)
    prototype = unfitted_map("mmd_test", kernel, random_state)
    report = stages_of("mmd_test", progress)
    with reported(report):
        return _tested(X, Y, engine, prototype, n_permutations, random_state, report)


def check_equal_widths(owner: str, first: int, second: int) -> None:
    """Raise if two samples have different numbers of features."""
    if first != second:
        msg = f"{owner}: X and Y must have equal width, got {first} and {second} features."
        raise DataError(msg)


# ---- the adaptive test -------------------------------------------------------------------------


def _adaptive(
    samples: tuple[Any, Any],
    weights: tuple[Any, Any],
    transform: Callable[[Any], Any] | None,
    n_components: int | None,
    n_permutations: int,
    n_jobs: int | None,
    random_state: Any,
    report: StagedReport | None,
) -> PermutationTest:
    """Return the result of the adaptive `mmd_test` for validated parameters."""
    opened = [
        sample_engine(
            f"mmd_test: {name}", X, weight, width=n_components or MANY_COMPONENTS, n_jobs=n_jobs, transform=transform
        )
        for name, X, weight in zip("XY", samples, weights, strict=True)
    ]
    engines, names = [engine for engine, _ in opened], opened[0][1]
    check_same_names("mmd_test", *(one for _, one in opened))
    widths = [engine.first().X.shape[1] for engine in engines]
    check_equal_widths("mmd_test", *widths)
    if report is not None:
        report.plan({"sample rows": float(widths[0]), "sum over groups": 5.0 * MANY_COMPONENTS, "permute": 100.0})
    seed = seed_of(random_state, "groups")
    rng = np.random.default_rng(seed)
    pools = []
    for name, engine in zip("XY", engines, strict=True):
        enter_stage(report, "sample rows")
        pools.append(pooled_rows(engine, seed, report))
        check_enough(f"mmd_test: {name}", pools[-1])
    pool = pools[0] + pools[1]
    if n_components is None:
        is_exact = pool.rows <= EXACT_ROWS  # the features are then for the witness function only
        n_components = MANY_COMPONENTS if EXACT_ROWS < pool.rows <= MANY_ROWS else FEW_COMPONENTS
    else:
        is_exact = False
    features = shared_frequencies(pool, rng, n_components=n_components)
    plan = plan_groups([one.rows for one in pools], seed)
    enter_stage(report, "sum over groups")
    sums = [engine.sum(SumByGroup(features, plan, i), report) for i, engine in enumerate(engines)]
    labels = permuted_labels(plan.counts, n_permutations, rng)
    enter_stage(report, "permute")
    with workers(1):  # BLAS on one thread: the products are small
        differences = mean_differences(sums, labels)
        if is_exact:
            M = exact_statistics([engine.sum(CollectedRows.of) for engine in engines], features, plan, labels)
        else:
            M = features.statistics(differences)
    tie = SINGLE_TIE if is_exact and pool.rows > MOST_DOUBLE_ROWS else tie_of(engines)
    combined = combine_scales(M, features.collection.mean_squares, tie=tie)
    report_step(report, n_permutations, n_permutations, unit="permutations")
    rows = pool.sample.X
    witness = Witness(
        features, differences[0], differences[1 : 1 + WITNESS_PERMUTATIONS], combined.loudest, rows, names
    )
    scales = ScaleScores(
        (features.collection.lengthscales,), M[0], combined.z[0], combined.p_values, (combined.loudest,)
    )
    return adaptive_result("mmd_test", combined, scales, plan.rows, witness)


# ---- the test with a given kernel --------------------------------------------------------------


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
