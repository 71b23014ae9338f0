"""The kernel independence test: Hilbert-Schmidt criterion (HSIC) on features, with a permutation null distribution.

The adaptive test has all pairs of eight Gaussian kernels of x and eight of y, on shared frequencies. Rows are divided
at random into groups, and permutations exchange the groups of y. The cross-covariances of all pairs of groups are
computed once, so that a permutation adds up as many matrices as there are groups, however many rows there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.engines import (
    Block,
    MemoryEngine,
    Report,
    StagedReport,
    block_rows_for,
    enter_stage,
    fill_rows,
    report_step,
    reported,
    stages_of,
)
from mercer.engines.base import workers
from mercer.errors import DataError, ParameterError
from mercer.features import Features, features_of
from mercer.hypothesis_tests.frequencies import SharedFrequencies, pooled_rows, shared_frequencies
from mercer.hypothesis_tests.groups import SINGLE_TIE, combine_scales, sample_engine, shuffled, tie_of
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
from mercer.hypothesis_tests.witness import ScaleScores
from mercer.kernels import Kernel
from mercer.maps import BaseMap
from mercer.maps.registry import unfitted_map
from mercer.parameters import Choice, Integer, check_parameter, known_names
from mercer.statistics.sample import seed_of

__all__ = ["hsic_test"]

Array = np.ndarray
# Number of components of a map that is created here for a kernel or None. The cost of a permutation is proportional to
# the product of the numbers of components of the two maps.
N_COMPONENTS = 100
# The adaptive test: number of components and of kernels per variable, and the least number of groups of rows.
ADAPTIVE_COMPONENTS, KERNELS_PER_VARIABLE, LEAST_GROUPS = 64, 8, 32
# Largest number of pairs that are used, and up to which features are in float64.
MOST_PAIRS, MOST_DOUBLE = 2**20, 2**16
# Number of permutations that are computed at a time.
PERMUTED_AT_A_TIME = 100


@known_names
def hsic_test(
    X: Any,
    Y: Any,
    kernel: BaseMap | Kernel | str | None = "adaptive",
    kernel_y: BaseMap | Kernel | None = None,
    *,
    sample_weight: Any = None,
    transform: Callable[[Any], Any] | None = None,
    transform_y: Callable[[Any], Any] | None = None,
    n_components: int | None = None,
    n_permutations: int = 999,
    n_jobs: int | None = None,
    random_state: Any = None,
    progress: bool | Report = False,
) -> PermutationTest:
    r"""Test whether x and y are independent, given pairs (x_i, y_i), at a cost that is linear in the number of pairs.

    The statistic is the Hilbert-Schmidt independence criterion [1]_, which is the squared Frobenius norm of the
    cross-covariance matrix of the features z(x) and u(y),

    .. math:: \Bigl\| \frac{1}{n} \sum_i (z(x_i) - \bar z) (u(y_i) - \bar u)^\top \Bigr\|_F^2 .

    It is compared with the statistics of B random permutations of the rows of `Y` [2]_. By default the test adapts to
    the scale of the dependence: columns are divided by their spreads, and the statistics of all pairs of eight Gaussian
    kernels of x and eight of y are combined to one score as in `mmd_test`, see also [3]_. Rows are divided at random
    into groups, and permutations exchange groups of rows.

    Parameters
    ----------
    X : array-like or CSR of shape (n, d), iterable of blocks, result of `open_rows`, or Dask collection
        The first sample, of at least two rows. Targets in files are ignored.
    Y : as X, of shape (n, e)
        The second sample, whose rows were observed together with those of `X`.
    kernel : "adaptive", BaseMap, Kernel or None, default="adaptive"
        "adaptive" is described above. A feature map of the rows of `X`, or a kernel, for which a map of 100 components
        is created, gives the test with this kernel alone; None means a Gaussian kernel whose lengthscale is the median
        distance of the rows. With a given kernel, rows are read into memory.
    kernel_y : BaseMap, Kernel or None, default=None
        Feature map or kernel of the rows of `Y`, if that of `X` is given too.
    sample_weight : array-like, Dask collection or None, default=None
        Weights >= 0 of the pairs, for ``kernel="adaptive"``. They remain with the rows of `X` when those of `Y` are
        permuted, so that the test is exact if (x, weight) is independent of y. Weights of files and blocks of `X` are
        used, those of `Y` are ignored.
    transform, transform_y : callable or None, default=None
        Function of a block of rows of `X` or `Y` that returns as many rows of numbers, which is applied first.
    n_components : int or None, default=None
        Number of components per variable, for ``kernel="adaptive"``. None means 64.
    n_permutations : int, default=999
        Number B of random permutations. The smallest possible p-value is 1 / (1 + B).
    n_jobs : int or None, default=None
        Number of threads; None means all cores. The result does not depend on it.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the permutations, the groups and the frequencies.
    progress : bool or callable, default=False
        True shows the progress on a terminal, in a notebook, or as lines of a log; a callable receives a `Progress`
        after each block and permutation.

    Returns
    -------
    PermutationTest
        With the attributes `statistic`, `p_value`, `null` and, for the adaptive test, `scales`, the evidence at each
        pair of lengthscales; and with the methods `threshold(level)`, `to_dict()` and `plot()`.

    See Also
    --------
    mmd_test : Test of whether two samples come from the same distribution.

    Notes
    -----
    If x and y are independent, the p-value is at most `a` with a probability of at most `a`, for every a, distribution
    and kernel. Permutations with a statistic equal to the observed one increase the p-value. Different pairs (x_i, y_i)
    must be independent of each other, which is not true for a time series.

    The adaptive test holds the features of all rows in memory, 512 bytes per pair. From more than 1,048,576 pairs, that
    many are sampled at random.

    References
    ----------
    .. [1] Gretton, Fukumizu, Teo, Song, Schoelkopf, Smola (2008), A kernel statistical test of independence, NeurIPS.
    .. [2] Zhang, Filippi, Gretton, Sejdinovic (2018), Large-scale kernel methods for independence testing, Statistics
       and Computing.
    .. [3] Schrab, Kim, Guedj, Gretton (2022), Efficient aggregated kernel tests using incomplete U-statistics, NeurIPS.

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
    check_parameter("hsic_test", "n_permutations", n_permutations, Integer(1))
    check_kernel("hsic_test", "kernel", kernel)
    check_kernel("hsic_test", "kernel_y", kernel_y)
    if isinstance(kernel, str):
        check_parameter("hsic_test", "n_components", n_components, Choice(None) | Integer(2))
        if kernel_y is not None:
            msg = f"hsic_test: kernel_y is for a given kernel, got kernel='adaptive' and kernel_y={kernel_y!r}."
            raise ParameterError(msg)
        report = stages_of("hsic_test", progress)
        with reported(report):
            return _adaptive(
                ((X, sample_weight, transform), (Y, None, transform_y)),
                ADAPTIVE_COMPONENTS if n_components is None else n_components,
                n_permutations,
                n_jobs,
                random_state,
                report,
            )
    check_adaptive_only("hsic_test", kernel, {"sample_weight": sample_weight, "n_components": n_components})
    X, Y = X if transform is None else transform(X), Y if transform_y is None else transform_y(Y)
    X, Y = checked_samples("hsic_test", X, Y, n_permutations)
    check_pairs(X.shape[0], Y.shape[0])
    report = stages_of("hsic_test", progress)
    with reported(report):
        return _tested(X, Y, (kernel, kernel_y), n_permutations, n_jobs, random_state, report)


def check_pairs(first: int, second: int) -> None:
    """Raise if samples that are observed in pairs have different numbers of rows."""
    if first != second:
        msg = f"hsic_test: X and Y are observed in pairs and must have equal length, got {first} and {second} rows."
        raise DataError(msg)


# ---- the adaptive test -------------------------------------------------------------------------


def _adaptive(
    samples: tuple[tuple[Any, Any, Any], tuple[Any, Any, Any]],
    n_components: int,
    n_permutations: int,
    n_jobs: int | None,
    random_state: Any,
    report: StagedReport | None,
) -> PermutationTest:
    """Return the result of the adaptive `hsic_test` for validated parameters."""
    engines = [
        sample_engine(f"hsic_test: {name}", X, weight, width=n_components, n_jobs=n_jobs, transform=transform)[0]
        for name, (X, weight, transform) in zip("XY", samples, strict=True)
    ]
    if report is not None:
        report.plan({"sample rows": 1.0, "compute features": 2.0, "sum over groups": 4.0, "permute": 2.0})
    seed = seed_of(random_state, "groups")
    enter_stage(report, "sample rows")
    pools = [pooled_rows(engine, seed + number, report) for number, engine in enumerate(engines)]
    for name, pool in zip("XY", pools, strict=True):
        check_enough(f"hsic_test: {name}", pool)
    n = pools[0].rows
    check_pairs(n, pools[1].rows)
    used = min(n, MOST_PAIRS)
    drawn = [
        # Different seeds, so that the frequencies of the two variables are independent.
        shared_frequencies(
            pool, np.random.default_rng([seed, number]), n_components=n_components, n_kernels=KERNELS_PER_VARIABLE
        )
        for number, pool in enumerate(pools)
    ]
    enter_stage(report, "compute features")
    dtype = np.float32 if used > MOST_DOUBLE else np.float64
    parts = [
        engine.sum(FeatureRows(features, n, used, seed, dtype), report)
        for engine, features in zip(engines, drawn, strict=True)
    ]
    weight = parts[0].weights(used)
    Z, U = (part.matrix(used) for part in parts)
    # Weights and the centering of one side suffice: sums of the other side with these rows are then centered too.
    Z -= np.average(Z, axis=0, weights=weight).astype(dtype)
    U -= U.mean(axis=0)
    if weight is not None:
        Z *= (weight / weight.mean())[:, None].astype(dtype)
    enter_stage(report, "sum over groups")
    groups = used // max(1, used // LEAST_GROUPS)  # less than 2 * LEAST_GROUPS
    order = np.random.default_rng([seed, 2]).permuted(np.tile(np.arange(groups), (1 + n_permutations, 1)), axis=1)
    order[0] = np.arange(groups)
    squares = SquaredCovariances(Z, U, groups, n_jobs)
    enter_stage(report, "permute")
    M = np.empty((1 + n_permutations, *(len(features.collection) for features in drawn)))
    for number in range(0, 1 + n_permutations, PERMUTED_AT_A_TIME):
        some = slice(number, number + PERMUTED_AT_A_TIME)
        M[some] = kernel_statistics(squares.of(order[some]), drawn) / used**2
        report_step(report, min(number + PERMUTED_AT_A_TIME, n_permutations), n_permutations, unit="permutations")
    shape = M.shape[1:]
    mean_squares = np.outer(*(features.collection.mean_squares for features in drawn)).ravel()
    tie = SINGLE_TIE if dtype == np.float32 else tie_of(engines)
    combined = combine_scales(M.reshape(len(M), -1), mean_squares, tie=tie, rule="largest")
    loudest = tuple(int(i) for i in np.unravel_index(combined.loudest, shape))
    scales = ScaleScores(
        tuple(features.collection.lengthscales for features in drawn),
        M[0],
        combined.z[0].reshape(shape),
        combined.p_values.reshape(shape),
        loudest,
    )
    return adaptive_result("hsic_test", combined, scales, (n,))


@dataclass(frozen=True)
class RowParts:
    """Features of some rows and their positions after a random permutation; a value that supports ``+``."""

    parts: tuple[tuple[Array, Array, Array | None], ...]  # positions, features and weights

    def __add__(self, other: RowParts) -> RowParts:
        return RowParts(self.parts + other.parts)

    def matrix(self, n: int) -> Array:
        """Return the features of n rows, in the order of their positions."""
        first = self.parts[0][1]
        out = np.empty((n, first.shape[1]), first.dtype)
        for position, Z, _ in self.parts:
            out[position] = Z
        return out

    def weights(self, n: int) -> Array | None:
        """Return the weights of n rows, in the order of their positions, or None if all weights are one."""
        if all(weight is None for _, _, weight in self.parts):
            return None
        out = np.ones(n)
        for position, _, weight in self.parts:
            out[position] = 1.0 if weight is None else weight
        return out


@dataclass(frozen=True)
class FeatureRows:
    """Function of a block of rows that returns the features of those whose shuffled position is less than `used`."""

    features: Features
    rows: int
    used: int
    seed: int
    dtype: Any

    def __call__(self, block: Block) -> RowParts:
        position = shuffled(block.index, self.rows, self.seed)
        chosen = position < self.used
        X = block.X if chosen.all() else block.X[chosen]
        weight = None if block.weight is None else block.weight[chosen]
        Z = features_of(self.features.astype(X.dtype), X).astype(self.dtype, copy=False)
        return RowParts(((position[chosen], Z, weight),))


class SquaredCovariances:
    """Squares of the cross-covariances of two matrices of features, for permutations of groups of rows of the second.

    Rows that are in no group are not permuted.
    """

    def __init__(self, Z: Array, U: Array, groups: int, n_jobs: int | None) -> None:
        size = len(Z) // groups
        end = groups * size
        self._shape = (Z.shape[1], U.shape[1])
        self._rest = (Z[end:].T @ U[end:]).ravel()
        # One matrix product per group of Z with all groups of U, beside each other.
        beside = np.ascontiguousarray(U[:end].reshape(groups, size, -1).transpose(1, 0, 2)).reshape(size, -1)
        self._products = np.empty((groups, groups, Z.shape[1] * U.shape[1]), Z.dtype)

        def fill(i: int) -> None:
            block = Z[i * size : (i + 1) * size].T @ beside
            block = block.reshape(Z.shape[1], groups, U.shape[1]).transpose(1, 0, 2)
            self._products[i] = block.reshape(groups, -1)

        with workers(n_jobs) as team:
            team.run(fill, range(groups))

    def of(self, order: Array) -> Array:
        """Return the squares (b, D, E) for b permutations of the groups."""
        total = np.tile(self._rest.astype(np.float64), (len(order), 1))
        for i, products in enumerate(self._products):
            total += products[order[:, i]]
        return np.square(total).reshape(len(order), *self._shape)


def kernel_statistics(squares: Array, drawn: Sequence[SharedFrequencies]) -> Array:
    """Return the statistics (b, K, L) of all pairs of kernels, given squared cross-covariances (b, D, E)."""
    first, second = (np.concatenate([features.weights, features.weights], axis=1) for features in drawn)
    return np.einsum("kd,bdl->bkl", first, squares @ second.T, optimize=True)


# ---- the test with given kernels ---------------------------------------------------------------


def _tested(
    X: Any,
    Y: Any,
    choices: tuple[BaseMap | Kernel | None, BaseMap | Kernel | None],
    n_permutations: int,
    n_jobs: int | None,
    random_state: Any,
    report: Report | None,
) -> PermutationTest:
    """Return the result of `hsic_test` for validated samples and the parameters `kernel` and `kernel_y`."""
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
