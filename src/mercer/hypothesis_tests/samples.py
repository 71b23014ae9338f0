"""Tests of several samples, of paired samples, and of a sample against a distribution that can be sampled from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mercer.engines import Engine, Report, StagedReport, enter_stage, report_step, reported, stages_of
from mercer.engines.base import workers
from mercer.errors import DataError, ParameterError
from mercer.hypothesis_tests.frequencies import PooledRows, SharedFrequencies, pooled_rows, shared_frequencies
from mercer.hypothesis_tests.groups import (
    SumByGroup,
    check_same_names,
    combine_scales,
    permuted_labels,
    plan_groups,
    sample_engine,
    sample_means,
    tie_of,
)
from mercer.hypothesis_tests.mmd import mmd_test
from mercer.hypothesis_tests.permutation import PermutationTest, adaptive_result, check_enough
from mercer.hypothesis_tests.witness import ScaleScores, Witness
from mercer.parameters import Integer, check_parameter, known_names
from mercer.statistics.sample import seed_of

__all__ = ["goodness_of_fit_test", "k_sample_test", "paired_test"]

Array = np.ndarray
# Number of components, up to a number of rows of all samples and above it.
MANY_COMPONENTS, MANY_ROWS, FEW_COMPONENTS = 1600, 200_000, 800
# Number of rows that are drawn from a sampler per row of the sample, and in all if the sample is large.
DRAWN_PER_ROW, DRAWN_ROWS = 5, 200_000
# Number of sign flips with which the witness function is compared.
WITNESS_PERMUTATIONS = 50


@known_names
def k_sample_test(
    *samples: Any,
    transform: Callable[[Any], Any] | None = None,
    n_components: int | None = None,
    n_permutations: int = 999,
    n_jobs: int | None = None,
    random_state: Any = None,
    progress: bool | Report = False,
) -> PermutationTest:
    r"""Test whether several samples come from the same distribution, at a cost linear in the number of rows.

    For each of ten Gaussian kernels, the statistic is the weighted mean of the squared distances between the mean
    features of the samples and those of all rows,

    .. math:: \sum_i \frac{n_i}{n} \, | \bar z_i - \bar z |^2 ,

    which for two samples is proportional to the squared maximum mean discrepancy. The statistics of all kernels are
    standardized over random permutations of groups of rows, as in `mmd_test`, and the largest one counts.

    Parameters
    ----------
    *samples : array-like, CSR, data frames, iterables of blocks, results of `open_rows`, or Dask collections
        At least two samples of at least two rows each, with the same columns. Files are read in two passes and never
        loaded completely.
    transform : callable or None, default=None
        Function that is applied to each block of rows first, such as the `transform` of a fitted vectorizer of
        documents. It must return numbers, one row per row.
    n_components : int or None, default=None
        Number of components; None means 1600, or 800 for more than 200,000 rows.
    n_permutations : int, default=999
        Number B of random permutations. The smallest possible p-value is 1 / (1 + B).
    n_jobs : int or None, default=None
        Number of threads; None means all cores. The result does not depend on it.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the permutations and frequencies.
    progress : bool or callable, default=False
        True shows the progress; a callable receives a `Progress` after each block.

    Returns
    -------
    PermutationTest
        With the attributes `statistic`, `p_value`, `null` and `scales`.

    See Also
    --------
    mmd_test : The test of two samples.

    Notes
    -----
    The p-value is at most `a` with a probability of at most `a` if all samples come from the same distribution, for
    every a, distribution and sample size.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import k_sample_test
    >>> rng = np.random.default_rng(0)
    >>> A, B, C = rng.normal(size=(200, 3)), rng.normal(size=(300, 3)), rng.laplace(size=(250, 3))
    >>> k_sample_test(A, B, random_state=0).p_value > 0.05
    True
    >>> k_sample_test(A, B, C, random_state=0).p_value < 0.05
    True
    """
    if len(samples) < 2:
        msg = f"k_sample_test needs at least two samples, got {len(samples)}. Pass them as k_sample_test(A, B, C)."
        raise ParameterError(msg)
    report = stages_of("k_sample_test", progress)
    with reported(report):
        names = [f"sample {i}" for i in range(len(samples))]
        opened = _opened("k_sample_test", names, samples, transform, n_components, n_permutations, n_jobs)
        pools, features, seed = _drawn("k_sample_test", names, opened, n_components, random_state, report)
        rng = np.random.default_rng([seed, 1])
        plan = plan_groups([pool.rows for pool in pools], seed)
        enter_stage(report, "sum over groups")
        sums = [engine.sum(SumByGroup(features, plan, i), report) for i, engine in enumerate(opened)]
        enter_stage(report, "permute")
        total = sum(plan.rows)
        with workers(1):
            means = sample_means(sums, permuted_labels(plan.counts, n_permutations, rng))
            M = sum(n / total * features.statistics(mean) for n, mean in zip(plan.rows, means, strict=True))
        return _result("k_sample_test", M, features, plan.rows, tie_of(opened), n_permutations, report)


@known_names
def paired_test(
    X: Any,
    Y: Any,
    *,
    transform: Callable[[Any], Any] | None = None,
    n_components: int | None = None,
    n_permutations: int = 999,
    n_jobs: int | None = None,
    random_state: Any = None,
    progress: bool | Report = False,
) -> PermutationTest:
    """Test whether the two members of pairs (x_i, y_i) are exchangeable, such as before and after a treatment.

    The statistic is the maximum mean discrepancy of `mmd_test`. Its null distribution is that of random exchanges
    within pairs, which keeps the dependence of the members of a pair. What the members have in common cancels, so that
    the test has more power than one of independent samples if the members are alike.

    Parameters
    ----------
    X : array-like or CSR of shape (n, d), data frame, iterable of blocks, result of `open_rows`, or Dask collection
        The first member of each pair. Files are read in two passes and never loaded completely.
    Y : like `X`
        The second members, in the same order.
    transform : callable or None, default=None
        Function that is applied to each block of rows first; see `k_sample_test`.
    n_components : int or None, default=None
        Number of components; None means 1600, or 800 for more than 200,000 rows.
    n_permutations : int, default=999
        Number B of random exchanges. The smallest possible p-value is 1 / (1 + B).
    n_jobs : int or None, default=None
        Number of threads; None means all cores. The result does not depend on it.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the exchanges and frequencies.
    progress : bool or callable, default=False
        True shows the progress; a callable receives a `Progress` after each block.

    Returns
    -------
    PermutationTest
        With the attributes `statistic`, `p_value`, `null`, `scales` and `witness`.

    See Also
    --------
    mmd_test : The test of two independent samples.

    Notes
    -----
    The p-value is at most `a` with a probability of at most `a` if (x, y) has the same distribution as (y, x). For more
    than 400 pairs, all pairs of a random group are exchanged together, which is exact for the same reason.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import mmd_test, paired_test
    >>> rng = np.random.default_rng(0)
    >>> before = rng.normal(size=(200, 2))
    >>> after = before + 0.1 + 0.2 * rng.normal(size=(200, 2))
    >>> paired_test(before, after, random_state=0).p_value < 0.01 < mmd_test(before, after, random_state=0).p_value
    True
    """
    report = stages_of("paired_test", progress)
    with reported(report):
        opened = _opened("paired_test", "XY", (X, Y), transform, n_components, n_permutations, n_jobs)
        pools, features, seed = _drawn("paired_test", "XY", opened, n_components, random_state, report)
        rng = np.random.default_rng([seed, 1])
        rows = tuple(pool.rows for pool in pools)
        if rows[0] != rows[1]:
            msg = f"paired_test: X and Y are observed in pairs and must have equal length, got {rows[0]} and {rows[1]}."
            raise DataError(msg)
        plan = plan_groups(rows[:1], seed)
        enter_stage(report, "sum over groups")
        first, second = (engine.sum(SumByGroup(features, plan, 0), report) for engine in opened)
        # The last row is the sum over pairs in no group, which are a group of another size here.
        differences = (first.sums - second.sums) / rows[0]
        signs = np.ones((1 + n_permutations, len(differences)))
        signs[1:] = rng.choice([-1.0, 1.0], size=signs[1:].shape)
        enter_stage(report, "permute")
        with workers(1):
            flipped = signs @ differences
            M = features.statistics(flipped)
        result = _result("paired_test", M, features, rows, tie_of(opened), n_permutations, report)
        assert result.scales is not None
        pool = pools[0] + pools[1]
        witness = Witness(
            features, flipped[0], flipped[1 : 1 + WITNESS_PERMUTATIONS], result.scales.loudest[0], pool.sample.X, None
        )
        return replace(result, witness=witness)


@known_names
def goodness_of_fit_test(
    X: Any,
    sampler: Any,
    *,
    n_drawn: int | None = None,
    transform: Callable[[Any], Any] | None = None,
    n_permutations: int = 999,
    n_jobs: int | None = None,
    random_state: Any = None,
    progress: bool | Report = False,
) -> PermutationTest:
    """Test whether a sample comes from a distribution from which one can sample, such as a fitted generative model.

    Rows are drawn from the distribution and compared with the sample by `mmd_test`. The test is exact for every number
    of drawn rows; more of them give more power, up to a limit.

    Parameters
    ----------
    X : array-like or CSR of shape (n, d), data frame, iterable of blocks, result of `open_rows`, or Dask collection
        The sample.
    sampler : callable, or object with a method `rvs`
        Function ``sampler(n_rows, rng)`` that returns independent rows of shape (n_rows, d), given a NumPy Generator;
        or a distribution of SciPy with fixed parameters. The distribution must not have been fitted to the rows of `X`:
        if it was, test other rows.
    n_drawn : int or None, default=None
        Number of rows to draw; None means five times those of the sample, but at most 200,000 or as many as those of
        the sample.
    transform : callable or None, default=None
        Function that is applied to each block of rows first; see `k_sample_test`.
    n_permutations : int, default=999
        Number B of random permutations. The smallest possible p-value is 1 / (1 + B).
    n_jobs : int or None, default=None
        Number of threads; None means all cores. The result does not depend on it.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the sampler, the permutations and frequencies.
    progress : bool or callable, default=False
        True shows the progress; a callable receives a `Progress` after each block.

    Returns
    -------
    PermutationTest
        With the attributes `statistic`, `p_value`, `null`, `scales` and `witness`, which is positive where the sample
        is denser than the distribution.

    See Also
    --------
    mmd_test : The test of two samples.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.stats import multivariate_normal
    >>> from mercer import goodness_of_fit_test
    >>> X = np.random.default_rng(0).standard_t(df=3, size=(300, 2))
    >>> goodness_of_fit_test(X, multivariate_normal([0, 0]), random_state=0).p_value < 0.05
    True
    >>> goodness_of_fit_test(X, lambda n, rng: rng.standard_t(df=3, size=(n, 2)), random_state=0).p_value > 0.05
    True
    """
    if not callable(sampler) and not hasattr(sampler, "rvs"):
        msg = (
            "goodness_of_fit_test: sampler must be a function sampler(n_rows, rng) that returns rows, or a "
            f"distribution with a method rvs, got {type(sampler).__name__}."
        )
        raise ParameterError(msg)
    engine, _ = sample_engine("goodness_of_fit_test: X", X, n_jobs=n_jobs, transform=transform)
    n = engine.n_rows if engine.n_rows is not None else int(engine.sum(_count))
    if n_drawn is None:
        n_drawn = max(n, min(DRAWN_PER_ROW * n, DRAWN_ROWS))
    check_parameter("goodness_of_fit_test", "n_drawn", n_drawn, Integer(2))
    rng = np.random.default_rng(seed_of(random_state, "sampler"))
    if hasattr(sampler, "rvs"):
        drawn = np.asarray(sampler.rvs(size=n_drawn, random_state=rng))
        drawn = drawn.reshape(n_drawn, -1)
    else:
        drawn = sampler(n_drawn, rng)
    found = getattr(drawn, "shape", None) or (len(drawn),)
    if found[0] != n_drawn:
        msg = f"goodness_of_fit_test: sampler must return {n_drawn} rows, got {found[0]}."
        raise DataError(msg)
    result = mmd_test(
        X,
        drawn,
        transform=transform,
        n_permutations=n_permutations,
        n_jobs=n_jobs,
        random_state=random_state,
        progress=progress,
    )
    return replace(result, name="goodness_of_fit_test")


# ---- common parts ------------------------------------------------------------------------------


def _count(block: Any) -> int:
    return len(block)


def _opened(
    owner: str,
    names: Sequence[str],
    samples: Sequence[Any],
    transform: Callable[[Any], Any] | None,
    n_components: int | None,
    n_permutations: int,
    n_jobs: int | None,
) -> list[Engine]:
    """Return an engine per sample, after validation of the parameters."""
    check_parameter(owner, "n_permutations", n_permutations, Integer(1))
    if n_components is not None:
        check_parameter(owner, "n_components", n_components, Integer(2))
    opened = [
        sample_engine(f"{owner}: {name}", X, width=n_components or MANY_COMPONENTS, n_jobs=n_jobs, transform=transform)
        for name, X in zip(names, samples, strict=True)
    ]
    check_same_names(owner, *(columns for _, columns in opened))
    engines = [engine for engine, _ in opened]
    widths = [engine.first().X.shape[1] for engine in engines]
    if len(set(widths)) > 1:
        msg = f"{owner}: all samples must have equal width, got {', '.join(map(str, widths))} features."
        raise DataError(msg)
    return engines


def _drawn(
    owner: str,
    names: Sequence[str],
    engines: Sequence[Engine],
    n_components: int | None,
    random_state: Any,
    report: StagedReport | None,
) -> tuple[list[PooledRows], SharedFrequencies, int]:
    """Return what is known of each sample after one pass, features that fit all of them, and the seed of the groups."""
    seed = seed_of(random_state, "groups")
    pools = []
    for name, engine in zip(names, engines, strict=True):
        enter_stage(report, "sample rows")
        pools.append(pooled_rows(engine, seed, report))
        check_enough(f"{owner}: {name}", pools[-1])
    pool = pools[0]
    for other in pools[1:]:
        pool = pool + other
    if n_components is None:
        n_components = MANY_COMPONENTS if pool.rows <= MANY_ROWS else FEW_COMPONENTS
    return pools, shared_frequencies(pool, np.random.default_rng(seed), n_components=n_components), seed


def _result(
    owner: str,
    M: Any,
    features: SharedFrequencies,
    rows: tuple[int, ...],
    tie: float,
    n_permutations: int,
    report: StagedReport | None,
) -> PermutationTest:
    """Return the result for the statistics (1 + B, K) of the observed samples and of the permutations."""
    combined = combine_scales(M, features.collection.mean_squares, tie=tie)
    report_step(report, n_permutations, n_permutations, unit="permutations")
    scales = ScaleScores(
        (features.collection.lengthscales,), M[0], combined.z[0], combined.p_values, (combined.loudest,)
    )
    return adaptive_result(owner, combined, scales, rows)
