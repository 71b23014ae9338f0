"""Permutations of groups of rows, whose sums of features are computed once, in memory, from files or on Dask.

The rows of each sample are divided at random into groups of equal size. A permutation test that exchanges groups
instead of rows takes a time per permutation that does not depend on the number of rows. It is exact for the same
reason: the permutations of rows that exchange complete groups form a subgroup of all permutations, and rows that are in
no group remain where they are.

Which group a row belongs to is a function of its index and of a seed (a random permutation of the indices that can be
evaluated at any index). So the sums over groups do not depend on the blocks that the rows are read in, and rows may be
sorted in any way.

How the parts are used, for two samples (see `mmd_test`)::

    (engine_x, names), (engine_y, _) = (sample_engine("mmd_test: X", X), sample_engine("mmd_test: Y", Y))
    pool = pooled_rows(engine_x, seed) + pooled_rows(engine_y, seed)
    features = shared_frequencies(pool, rng)
    plan = plan_groups((m, n), seed)
    sums = [engine.sum(SumByGroup(features, plan, i)) for i, engine in enumerate((engine_x, engine_y))]
    labels = permuted_labels(plan.counts, n_permutations, rng)  # (1 + B, G)
    M = features.statistics(mean_differences(sums, labels))  # (1 + B, K), the observed samples first
    combined = combine_scales(M, features.collection.mean_squares)
    p = combined.p_value
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from mercer.data.sources import Reader, source_of
from mercer.engines import Block, Engine, block_rows_for, empty_rows
from mercer.errors import DataError
from mercer.features import Features
from mercer.hypothesis_tests.frequencies import SharedFrequencies, squared_distances
from mercer.io.archive import storable
from mercer.kernels.base import as_rows, dense64

__all__ = [
    "CollectedRows",
    "CombinedScales",
    "GroupPlan",
    "GroupSums",
    "SumByGroup",
    "check_same_names",
    "combine_scales",
    "exact_statistics",
    "group_matrices",
    "likelihood_ratios",
    "mean_differences",
    "permuted_labels",
    "plan_groups",
    "sample_engine",
    "sample_means",
    "shuffled",
    "tie_of",
]

Array = np.ndarray
# Number of groups of all samples together that is aimed at, and the least number of groups of the smallest sample.
GROUPS, LEAST_GROUPS = 400, 40
# Number of rows whose features are computed at a time.
TILE_ROWS = 1024
# Up to this number of rows, exact kernels are computed in float64, and above it in float32.
MOST_DOUBLE_ROWS = 2048
# Rounds of the random permutation of indices.
ROUNDS = 8
# Scores that differ by less than this are equal, for features in float64 and in float32.
TIE, SINGLE_TIE = 1e-9, 2e-5
# How much shorter lengthscales are preferred, see `combine_scales`.
PREFERENCE = 0.25
# Multiple of the identity in the covariance of standardized statistics, and sweeps of the search for their means.
RIDGE, SWEEPS = 0.2, 100
# Least value of the largest standardized statistic with which the likelihood ratio counts.
LEAST_LARGEST = 1.0


# ---- samples as engines ------------------------------------------------------------------------


def check_same_names(owner: str, *names: Sequence[str] | None) -> None:
    """Raise if samples have names of features that differ, such as data frames with columns in another order."""
    given = [list(one) for one in names if one is not None]
    for other in given[1:]:
        if other != given[0]:
            order = "in another order" if sorted(other) == sorted(given[0]) else "with other names"
            msg = (
                f"{owner}: features are compared by position, so samples must have the same columns in one order, "
                f"got columns {order}: {given[0][:5]} and {other[:5]}. Select them, as in Y[X.columns]."
            )
            raise DataError(msg)


def sample_engine(
    name: str,
    X: Any,
    weight: Any = None,
    *,
    width: int = 800,
    n_jobs: int | None = None,
    transform: Callable[[Any], Any] | None = None,
) -> tuple[Engine, tuple[str, ...] | None]:
    """Return an engine over the rows of one sample, and the names of the features if there are any.

    Parameters
    ----------
    name : str
        Name of the sample for messages, such as "mmd_test: X".
    X : array-like or CSR, data frame, iterable of blocks, result of `open_rows`, or Dask collection
        Rows. Targets of files and blocks are ignored.
    weight : array-like, Dask collection or None, default=None
        Weights >= 0 of the rows; files and blocks have their own.
    width : int, default=800
        Number of components that are computed from a row.
    n_jobs : int or None, default=None
        Number of threads.
    transform : callable or None, default=None
        Applied to each block of rows before anything else. It must return as many rows, and must not depend on which
        rows are in a block.

    Returns
    -------
    engine : Engine
    names : tuple of str or None
    """
    if weight is not None and not hasattr(weight, "dask") and not np.any(np.asarray(weight) != 0):
        msg = f"{name} must have a row of positive weight, got weights that are all zero."
        raise DataError(msg)
    reader = SampleReader(name, width, n_jobs, transform)
    if transform is None and hasattr(X, "columns"):
        reader.set_names([str(column) for column in X.columns])
    engine = source_of(X, None, weight, owner=name).engine(cast("Reader", reader))
    if not engine.replayable:
        msg = (
            f"{name}: the rows are read twice, but {type(X).__name__} can be read only once. Pass a list of blocks, an "
            "object whose __iter__ starts over, or the result of open_rows."
        )
        raise DataError(msg)
    return engine, reader.names


class SampleReader:
    """Validates the rows and weights of one sample, with the interface of `mercer.data.sources.Reader`."""

    def __init__(self, name: str, width: int, n_jobs: int | None, transform: Callable[[Any], Any] | None) -> None:
        self.n_jobs = n_jobs
        self.names: tuple[str, ...] | None = None
        self.estimator = self.coding = self
        self.settled = True
        self._width = width
        self._check = CheckedRows(name, transform)

    def set_names(self, names: Sequence[str] | None) -> None:
        if names is not None:
            self.names = tuple(names)

    def __call__(self, X: Any, y: Any = None, weight: Any = None) -> tuple[Any, None, Array | None]:
        return self._check(X, y, weight)

    def block(self, X: Any, y: Any = None, weight: Any = None) -> tuple[Any, None, Array | None]:
        return (X, None, None) if hasattr(X, "shape") and X.shape[0] == 0 else self._check(X, y, weight)

    def block_rows(self, X: Any) -> int:
        return block_rows_for(max(self._width, X.shape[1]), 8)

    def feature_bytes(self, X: Any) -> int:
        return 8 * max(self._width, X.shape[1])

    def later(self) -> CheckedRows:
        return self._check


@dataclass(frozen=True)
class CheckedRows:
    """Picklable function that validates rows and weights of a block of a sample."""

    name: str
    transform: Callable[[Any], Any] | None

    def __call__(self, X: Any, y: Any = None, weight: Any = None) -> tuple[Any, None, Array | None]:  # noqa: ARG002
        if self.transform is not None:
            X = self.transform(X)
        X = as_rows(_Named(self.name), X)
        if X.shape[0] < 1 or X.shape[1] < 1:
            msg = f"{self.name} must have at least 2 rows and one feature, got shape {X.shape}."
            raise DataError(msg)
        if weight is None:
            return X, None, None
        weight = np.asarray(weight, dtype=np.float64)
        if weight.shape != (X.shape[0],) or not np.isfinite(weight).all() or (weight < 0).any():
            msg = f"{self.name}: weights must be {X.shape[0]} finite numbers >= 0, one per row, got {weight!r:.80}."
            raise DataError(msg)
        return X, None, weight


@dataclass(frozen=True)
class _Named:
    """An object whose repr is the name of a sample, which `as_rows` shows in error messages."""

    name: str

    def __repr__(self) -> str:
        return self.name


# ---- groups ------------------------------------------------------------------------------------


def shuffled(index: Array, n: int, seed: int) -> Array:
    """Return the positions of rows after a random permutation of n rows, given their indices.

    The permutation is a Feistel network on the smallest even number of bits, applied again to results that are not less
    than n. It is evaluated without memory for all n positions.

    Parameters
    ----------
    index : ndarray of shape (k,)
        Indices from 0 to n - 1.
    n : int
        Number of rows.
    seed : int
        Seed of the permutation.

    Returns
    -------
    ndarray of shape (k,)

    Examples
    --------
    >>> import numpy as np
    >>> sorted(shuffled(np.arange(5), 5, seed=0).tolist())
    [0, 1, 2, 3, 4]
    """
    half = max(1, (int(n - 1).bit_length() + 1) // 2)
    bits, mask = np.uint64(half), np.uint64(2**half - 1)
    keys = np.random.default_rng([seed, n]).integers(2**64, size=ROUNDS, dtype=np.uint64)
    out = np.asarray(index).astype(np.uint64)
    todo = np.arange(len(out))
    while len(todo):
        low, high = out[todo] & mask, out[todo] >> bits
        for key in keys:
            low, high = high ^ (mixed(low + key) & mask), low
        out[todo] = (high << bits) | low
        todo = todo[out[todo] >= np.uint64(n)]
    return out.astype(np.int64)


def mixed(z: Array) -> Array:
    """Return hashes of 64-bit numbers (SplitMix64), whose upper bits are moved to the lower ones."""
    with np.errstate(over="ignore"):
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z >> np.uint64(32)


@dataclass(frozen=True)
class GroupPlan:
    """Division of the rows of several samples into groups of equal size.

    Attributes
    ----------
    rows : tuple of int
        Number of rows per sample.
    size : int
        Number of rows per group.
    counts : tuple of int
        Number of groups per sample. Rows in no group remain in their sample in all permutations.
    seed : int
        Seed of the random assignment of rows to groups.
    """

    rows: tuple[int, ...]
    size: int
    counts: tuple[int, ...]
    seed: int

    def groups_of(self, sample: int, index: Array) -> Array:
        """Return the group of each row of a sample, given its index there; `counts[sample]` means no group."""
        position = shuffled(index, self.rows[sample], self.seed + sample)
        return np.minimum(position // self.size, self.counts[sample])


def plan_groups(rows: Sequence[int], seed: int, groups: int = GROUPS) -> GroupPlan:
    """Return the division of samples into about `groups` groups in all.

    If one sample is much smaller than another one, groups are so small that it has at least 40 of them, and only a part
    of the rows of the large samples is in groups.

    Parameters
    ----------
    rows : sequence of int
        Number of rows per sample.
    seed : int
        Seed of the random assignment of rows to groups.
    groups : int, default=400
        Number of groups that is aimed at.

    Returns
    -------
    GroupPlan

    Examples
    --------
    >>> plan_groups((3000, 3000), seed=0).counts
    (200, 200)
    >>> plan = plan_groups((1_000_000, 100), seed=0)
    >>> plan.size, plan.counts
    (2, (400, 50))
    """
    size = max(1, min(sum(rows) // groups, min(rows) // LEAST_GROUPS))
    most = max(groups, -(-groups // len(rows)) * 2)
    return GroupPlan(tuple(rows), size, tuple(min(n // size, most) for n in rows), seed)


@storable
@dataclass(frozen=True)
class GroupSums:
    """Sums of features over the groups of one sample. The last row is the sum over rows that are in no group."""

    rows: int
    weight: Array  # (G + 1,), sums of weights
    sums: Array  # (G + 1, D), weighted sums of features

    def __add__(self, other: GroupSums) -> GroupSums:
        return GroupSums(self.rows + other.rows, self.weight + other.weight, self.sums + other.sums)


@dataclass(frozen=True)
class SumByGroup:
    """Function of a block of rows that returns its `GroupSums`."""

    features: Features
    plan: GroupPlan
    sample: int
    _casts: dict[Any, Features] = field(default_factory=dict, compare=False, repr=False)

    def __call__(self, block: Block) -> GroupSums:
        if block.X.dtype not in self._casts:
            self._casts[block.X.dtype] = self.features.astype(block.X.dtype)
        features = self._casts[block.X.dtype]
        group = self.plan.groups_of(self.sample, block.index)
        weight = np.ones(len(block)) if block.weight is None else block.weight
        count = self.plan.counts[self.sample] + 1
        sums = np.zeros((count, features.n_components))
        rows = min(TILE_ROWS, len(block))
        buffer = empty_rows(rows, features.n_components, features.output_dtype(block.X.dtype))
        for start in range(0, len(block), rows):
            part = slice(start, min(start + rows, len(block)))
            Z = buffer[: part.stop - part.start]
            features(block.X[part], Z)
            add_by_group(sums, group[part], weight[part], Z)
        return GroupSums(len(block), np.bincount(group, weight, count), sums)

    def __getstate__(self) -> dict[str, Any]:
        return {"features": self.features, "plan": self.plan, "sample": self.sample, "_casts": {}}


def add_by_group(sums: Array, group: Array, weight: Array, Z: Array) -> None:
    """Add weighted rows of Z to the rows of `sums` that `group` names."""
    indicators = sp.csr_array((weight.astype(Z.dtype), group, np.arange(len(group) + 1)), shape=(len(group), len(sums)))
    sums += indicators.T @ Z


# ---- permutations ------------------------------------------------------------------------------


def permuted_labels(counts: Sequence[int], n_permutations: int, rng: np.random.Generator) -> Array:
    """Return the sample of each group in the observed samples, then in random permutations of the groups.

    Parameters
    ----------
    counts : sequence of int
        Number of groups per sample.
    n_permutations : int
        Number B of permutations.
    rng : Generator
        Draws them.

    Returns
    -------
    ndarray of shape (1 + B, G)
        Indices of samples. The first row is ascending.
    """
    labels = np.tile(np.repeat(np.arange(len(counts), dtype=np.int8), counts), (1 + n_permutations, 1))
    rng.permuted(labels[1:], axis=1, out=labels[1:])
    return labels


def sample_means(samples: Sequence[GroupSums], labels: Array) -> list[Array]:
    """Return the mean features (1 + B, D) of each sample, minus the mean of all rows, for all permutations of groups.

    Weights are exchanged together with their rows, so that a mean is divided by the weight that its rows have after the
    permutation. The mean of a sample without any weight is that of all rows.
    """
    mean = sum(s.sums.sum(axis=0) for s in samples) / sum(float(s.weight.sum()) for s in samples)
    centered = [s.sums - s.weight[:, None] * mean for s in samples]
    groups = np.concatenate([c[:-1] for c in centered])
    weight = np.concatenate([s.weight[:-1] for s in samples])
    means = []
    for number, sample in enumerate(samples):
        belongs = (labels == number).astype(np.float64)
        total = belongs @ groups + centered[number][-1]
        mass = belongs @ weight + sample.weight[-1]
        means.append(total / np.where(mass > 0, mass, 1.0)[:, None])
    return means


def mean_differences(samples: Sequence[GroupSums], labels: Array) -> Array:
    """Return the mean features of the first of two samples minus those of the second, for all permutations of groups.

    Parameters
    ----------
    samples : sequence of two GroupSums
        Sums over the groups of each sample.
    labels : ndarray of shape (1 + B, G)
        What `permuted_labels` returns.

    Returns
    -------
    ndarray of shape (1 + B, D)
    """
    first, second = sample_means(samples, labels)
    return first - second


# ---- exact kernels of few rows -----------------------------------------------------------------


@dataclass(frozen=True)
class CollectedRows:
    """All rows of a sample with their indices and weights; a value that supports ``+``."""

    parts: tuple[Block, ...]

    @classmethod
    def of(cls, block: Block) -> CollectedRows:
        """Return the rows of one block."""
        return cls((block,))

    def __add__(self, other: CollectedRows) -> CollectedRows:
        return CollectedRows(self.parts + other.parts)

    @property
    def X(self) -> Any:
        """The rows."""
        rows = [block.X for block in self.parts]
        return sp.vstack(rows, format="csr") if any(map(sp.issparse, rows)) else np.concatenate(rows)

    @property
    def index(self) -> Array:
        """Indices of the rows in the data."""
        return np.concatenate([block.index for block in self.parts])

    @property
    def weight(self) -> Array:
        """Weights of the rows."""
        return np.concatenate([np.ones(len(b)) if b.weight is None else b.weight for b in self.parts])


def group_matrices(samples: Sequence[CollectedRows], features: SharedFrequencies, plan: GroupPlan) -> Iterator[Array]:
    """Yield, for each kernel of a collection, the weighted sums of its exact values over all pairs of groups.

    Parameters
    ----------
    samples : sequence of CollectedRows
        All rows of each sample.
    features : SharedFrequencies
        The scaling of rows and the collection of kernels.
    plan : GroupPlan
        The groups.

    Yields
    ------
    ndarray of shape (G + s, G + s)
        The groups of all s samples, followed by the rows of each sample that are in no group.
    """
    X = [dense64(features.scaling(sample.X)) for sample in samples]
    rows = np.concatenate(X)
    starts = np.cumsum([0, *plan.counts])
    group = []
    for number, sample in enumerate(samples):
        own = plan.groups_of(number, sample.index)
        group.append(np.where(own < plan.counts[number], own + starts[number], starts[-1] + number))
    weight = np.concatenate([sample.weight for sample in samples])
    n, count = len(rows), int(starts[-1]) + len(samples)
    squares = squared_distances(rows)
    np.fill_diagonal(squares, 0.0)
    if n > MOST_DOUBLE_ROWS:
        squares, weight = squares.astype(np.float32), weight.astype(np.float32)
    indicators = sp.csr_array((weight, np.concatenate(group), np.arange(n + 1)), shape=(n, count))
    buffer = np.empty_like(squares)
    for h in features.collection.lengthscales:
        np.multiply(squares, squares.dtype.type(-0.5 / h**2), out=buffer)
        np.exp(buffer, out=buffer)
        yield np.asarray((indicators.T @ buffer) @ indicators, dtype=np.float64)


def exact_statistics(
    samples: Sequence[CollectedRows], features: SharedFrequencies, plan: GroupPlan, labels: Array
) -> Array:
    """Return the squared discrepancies (1 + B, K) of two samples by exact kernels, for all permutations of groups.

    The time is quadratic in the number of rows. Parameters are those of `group_matrices` and `mean_differences`.
    """
    masses = [sample.weight for sample in samples]
    groups = [plan.groups_of(i, sample.index) for i, sample in enumerate(samples)]
    by_group = [np.bincount(g, w, plan.counts[i] + 1) for i, (g, w) in enumerate(zip(groups, masses, strict=True))]
    weight, rest = np.concatenate([m[:-1] for m in by_group]), np.array([m[-1] for m in by_group])
    contrasts = np.zeros((len(labels), labels.shape[1] + 2))
    for number, sign in enumerate((1.0, -1.0)):
        belongs = labels == number
        mass = belongs @ weight + rest[number]
        factor = sign / np.where(mass > 0, mass, 1.0)
        contrasts[:, :-2] += belongs * factor[:, None]
        contrasts[:, labels.shape[1] + number] = factor
    found = [np.einsum("bg,bg->b", contrasts @ K, contrasts) for K in group_matrices(samples, features, plan)]
    return np.maximum(np.stack(found, axis=1), 0.0)


# ---- one p-value of many statistics ------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CombinedScales:
    """One p-value of the statistics of several kernels on the same permutations.

    Attributes
    ----------
    scores : ndarray of shape (1 + B,)
        Scores of the observed samples and of the permutations.
    z : ndarray of shape (1 + B, K)
        Standardized statistics.
    p_values : ndarray of shape (K,)
        The p-value of each kernel alone.
    p_value : float
        (1 + b) / (1 + B), where b permutations have a score at least as large as the observed one.
    loudest : int
        The kernel with the largest entry of `z` less penalty, for the observed samples.
    """

    scores: Array
    z: Array
    p_values: Array
    p_value: float
    loudest: int


def tie_of(engines: Sequence[Engine]) -> float:
    """Return the difference up to which scores are equal, which is larger if rows are in float32."""
    return SINGLE_TIE if any(engine.first().X.dtype == np.float32 for engine in engines) else TIE


def combine_scales(
    M: Array,
    mean_squares: Array,
    preference: float = PREFERENCE,
    tie: float = TIE,
    rule: str = "likelihood ratio",
) -> CombinedScales:
    """Combine the statistics of several kernels into one p-value.

    The cube roots of the statistics, which are close to normal for weighted sums of chi-squared variables (Wilson and
    Hilferty 1931), are standardized over the observed samples and the permutations. The score is the likelihood ratio
    of normal variables with their covariance, see `likelihood_ratios`, or the largest of them, each less `preference`
    times the root mean square of its kernel. Likelihood ratios count only if some statistic is a standard deviation
    above its mean: differences of statistics that are all small would be evidence too. All rows of `M` are treated
    alike, so that the p-value is exact.

    Parameters
    ----------
    M : ndarray of shape (1 + B, K)
        Statistics >= 0 of the observed samples, then of the permutations, of kernels with k(x, x) = 1. Large values are
        evidence.
    mean_squares : ndarray of shape (K,)
        Means of the squared kernels over pairs of rows, from 0 to 1.
    preference : float, default=0.25
        How much short lengthscales, whose root mean square is small, are preferred as the largest.
    tie : float, default=1e-9
        Scores that differ by less than this are equal.
    rule : "likelihood ratio" or "largest", default="likelihood ratio"
        The score.

    Returns
    -------
    CombinedScales
    """
    # The terms of a statistic are at most one, so that this is more than its rounding error.
    roots = np.cbrt(np.where(M > 1e-5 * tie, M, 0.0))
    spread = roots.std(axis=0)
    varies = spread > tie * roots.max(axis=0)
    z = np.where(varies, (roots - roots.mean(axis=0)) / np.where(varies, spread, 1.0), 0.0)
    tilted = z - preference * np.sqrt(mean_squares)
    if rule == "largest":
        scores = tilted.max(axis=1)
    else:
        largest = z.max(axis=1)
        scores = np.where(largest >= LEAST_LARGEST, likelihood_ratios(z), largest - LEAST_LARGEST)
    n = len(M)
    p_values = (z >= z[0] - tie * (1 + np.abs(z[0]))).sum(axis=0) / n
    as_large = int(np.count_nonzero(scores >= scores[0] - tie * (1 + abs(scores[0]))))
    return CombinedScales(scores, z, p_values, as_large / n, int(tilted[0].argmax()))


def likelihood_ratios(z: Array, ridge: float = RIDGE) -> Array:
    """Return twice the log likelihood ratio (n,) of a mean >= 0 against the mean zero, for each row of z (n, K).

    Rows are modeled as normal variables whose covariance is that of all rows, plus `ridge` times the identity. The
    maximum over nonnegative means is found by coordinate ascent, for all rows at once.
    """
    inverse = np.linalg.inv(z.T @ z / len(z) + ridge * np.eye(z.shape[1]))
    slope = z @ inverse
    mean = np.zeros_like(z)
    for _ in range(SWEEPS):
        for k in range(z.shape[1]):
            step = (slope[:, k] - mean @ inverse[:, k]) / inverse[k, k]
            mean[:, k] = np.maximum(mean[:, k] + step, 0.0)
    return np.einsum("nk,nk->n", mean, 2 * slope - mean @ inverse)
