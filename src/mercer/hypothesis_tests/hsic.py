"""The kernel independence test: Hilbert-Schmidt criterion (HSIC) on features, with a permutation null distribution."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.engines import (
    MemoryEngine,
    Report,
    block_rows_for,
    enter_stage,
    fill_rows,
    report_step,
    reported,
    stages_of,
)
from mercer.engines.base import workers
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
from mercer.statistics.sample import seed_of

__all__ = ["hsic_test"]

Array = np.ndarray
# Number of components of a map that is created here for a kernel or None. The cost of a permutation is proportional to
# the product of the numbers of components of the two maps.
N_COMPONENTS = 100


@known_names
def hsic_test(
    X: Any,
    Y: Any,
    feature_map: BaseMap | Kernel | None = None,
    feature_map_y: BaseMap | Kernel | None = None,
    *,
    n_permutations: int = 999,
    n_jobs: int | None = None,
    random_state: Any = None,
    progress: bool | Report = False,
) -> PermutationTest:
    r"""Test whether x and y are independent, given pairs (x_i, y_i), at a cost that is linear in the number of pairs.

    The statistic is the Hilbert-Schmidt independence criterion [1]_, which is the squared Frobenius norm of the
    cross-covariance matrix of the features z(x) and u(y),

    .. math:: \Bigl\| \frac{1}{n} \sum_i (z(x_i) - \bar z) (u(y_i) - \bar u)^\top \Bigr\|_F^2 .

    It is compared with the statistics of B random permutations of the rows of `Y` [2]_. With D components per map, the
    test takes time O(B n D^2) and memory O(n D).

    Parameters
    ----------
    X : array-like or CSR of shape (n, d), or what `open_rows` returns
        The first sample, of at least two rows. Files are read into memory, without their targets.
    Y : array-like or CSR of shape (n, e), or what `open_rows` returns
        The second sample, whose rows were observed together with those of `X`.
    feature_map : BaseMap, Kernel or None, default=None
        Feature map of the rows of `X`; or a kernel, for which a map of 100 components is created. None means a Gaussian
        kernel whose lengthscale is the median distance of the rows.
    feature_map_y : BaseMap, Kernel or None, default=None
        Feature map or kernel of the rows of `Y`, with the same meaning as `feature_map`.
    n_permutations : int, default=999
        Number B of random permutations. The smallest possible p-value is 1 / (1 + B).
    n_jobs : int or None, default=None
        Number of threads; None means all cores. The result does not depend on it.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the permutations, and of the maps that are created for a kernel or None.
    progress : bool or callable, default=False
        True shows the progress on a terminal, in a notebook, or as lines of a log; a callable receives a `Progress`
        after each permutation.

    Returns
    -------
    PermutationTest
        With the attributes `statistic`, `p_value` and `null`, and the method `threshold(level)`.

    See Also
    --------
    mmd_test : Test of whether two samples come from the same distribution.

    Notes
    -----
    If x and y are independent, the p-value is at most `a` with a probability of at most `a`, for every a, distribution
    and feature map. Permutations with a statistic equal to the observed one increase the p-value. Different pairs
    (x_i, y_i) must be independent of each other, which is not true for a time series.

    References
    ----------
    .. [1] Gretton, Fukumizu, Teo, Song, Schoelkopf, Smola (2008), A kernel statistical test of independence, NeurIPS.
    .. [2] Zhang, Filippi, Gretton, Sejdinovic (2018), Large-scale kernel methods for independence testing, Statistics
       and Computing.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import hsic_test
    >>> rng = np.random.default_rng(0)
    >>> angle = rng.uniform(0, 2 * np.pi, 500)
    >>> X, Y = np.cos(angle)[:, None], np.sin(angle)[:, None] + 0.1 * rng.normal(size=(500, 1))
    >>> bool(abs(np.corrcoef(X[:, 0], Y[:, 0])[0, 1]) < 0.1)
    True
    >>> hsic_test(X, Y, random_state=0).p_value
    0.001
    """
    X, Y = checked_samples("hsic_test", X, Y, n_permutations)
    n = X.shape[0]
    if Y.shape[0] != n:
        msg = f"hsic_test: X and Y are observed in pairs and must have equal length, got {n} and {Y.shape[0]} rows."
        raise DataError(msg)
    report = stages_of("hsic_test", progress)
    with reported(report):
        return _tested(X, Y, (feature_map, feature_map_y), n_permutations, n_jobs, random_state, report)


def _tested(
    X: Any,
    Y: Any,
    choices: tuple[BaseMap | Kernel | None, BaseMap | Kernel | None],
    n_permutations: int,
    n_jobs: int | None,
    random_state: Any,
    report: Report | None,
) -> PermutationTest:
    """Return the result of `hsic_test` for validated samples and the parameters `feature_map` and `feature_map_y`."""
    n, maps, features = X.shape[0], [], []
    for number, (rows, choice) in enumerate(zip((X, Y), choices, strict=True)):
        # The two maps have different seeds, so that their random parameters are independent.
        state = np.random.default_rng([seed_of(random_state, "maps"), number])
        prototype = unfitted_map("hsic_test", choice, state, n_components=N_COMPONENTS)
        engine = MemoryEngine(rows, block_rows=block_rows_for(rows.shape[1]), n_jobs=n_jobs)
        maps.append(fit_to_distinct_rows("hsic_test", prototype, engine, report))
        features.append(centered_features(maps[-1], rows, n_jobs))
    seed = seed_of(random_state, "permutations")
    Z, U = features

    def statistic(number: int) -> float:
        order = np.arange(n) if number == 0 else np.random.default_rng([seed, number]).permutation(n)
        return float(np.square(Z.T @ U[order]).sum()) / n**2

    enter_stage(report, "permute")
    statistics = np.empty(1 + n_permutations)
    with workers(n_jobs) as team:
        for number, value in enumerate(team.in_order(statistic, range(1 + n_permutations))):
            statistics[number] = value
            report_step(report, number, n_permutations, unit="permutations")
    size = float(np.square(Z).sum() * np.square(U).sum()) / n**2
    return permutation_result("hsic_test", statistics, size, (n,), tuple(maps))


def centered_features(feature_map: BaseMap, X: Any, n_jobs: int | None) -> Array:
    """Return the matrix of features of the rows of X, given by a fitted map, minus its column means, in float64."""
    features = feature_map.features_.astype(X.dtype)
    Z = np.empty((X.shape[0], features.n_components), features.output_dtype(X.dtype))
    fill_rows(features, X, Z, n_jobs=n_jobs)
    Z = Z.astype(np.float64, copy=False)
    Z -= Z.mean(axis=0)
    return Z
