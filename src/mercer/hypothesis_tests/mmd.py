"""Do two samples come from one law? The maximum mean discrepancy on features, with a permutation null."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.engines import Block, StreamEngine
from mercer.errors import DataError
from mercer.hypothesis_tests.permutation import (
    PermutationTest,
    check_permutations,
    checked_rows,
    fit_to_distinct_rows,
    result_of,
)
from mercer.kernels import Kernel
from mercer.maps import BaseMap
from mercer.maps.registry import unfitted_map
from mercer.statistics.feature_cache import RowFeatures
from mercer.statistics.sample import seed_of

__all__ = ["mmd_test"]

Array = np.ndarray
# Rows that one thread permutes and adds at a time: indicators of a thousand permutations stay in its cache, nearly.
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
    r"""Test whether two samples come from the same law, in time linear in their rows.

    The statistic is the unbiased estimate of the squared maximum mean discrepancy, the distance of the means of the
    features of the two laws [1]_,

    .. math:: \frac{|\sum z(x)|^2 - \sum |z(x)|^2}{m (m - 1)} + \frac{|\sum z(y)|^2 - \sum |z(y)|^2}{n (n - 1)}
        - \frac{2}{m n} \sum z(x)^\top \sum z(y) .

    It is compared with that of random divisions of the pooled rows into samples of the same sizes. These need but one
    matrix product with the features: time O(B (m + n) D), memory O(B D), where the Gram matrix would take O((m + n)^2).

    Parameters
    ----------
    X : array-like or CSR of shape (m, d), or what `open_rows` returns
        One sample; at least two rows. Files are read into memory, without their targets.
    Y : array-like or CSR of shape (n, d), or what `open_rows` returns
        The other; at least two rows.
    feature_map : BaseMap, Kernel or None, default=None
        A map; or a kernel, for which a map of 512 features is drawn; None means a Gaussian kernel whose lengthscale is
        the median distance of the pooled rows. What is learned from rows does not depend on which sample they are
        from, so that the test stays exact.
    n_permutations : int, default=999
        Random divisions, B. The smallest p-value is 1 / (1 + B).
    n_jobs : int or None, default=None
        Threads; None means all cores. The result does not depend on it, to the bit.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the permutations, and of the map where `feature_map` is a kernel or None.

    Returns
    -------
    PermutationTest
        With `statistic`, `p_value`, `null` and `threshold(level)`.

    Notes
    -----
    Whatever the laws, the sizes and the features, a test without an effect has a p-value of at most `a` with a
    probability of at most `a`, because the rows as they came are one of the divisions that are equally likely. Ties
    count against an effect. More features give more power, up to that of the exact kernel.

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
    check_permutations("mmd_test", n_permutations)
    X, Y = checked_rows("mmd_test: X", X, 2), checked_rows("mmd_test: Y", Y, 2)
    if X.shape[1] != Y.shape[1]:
        msg = f"mmd_test: X and Y must have equal width, got {X.shape[1]} and {Y.shape[1]} columns."
        raise DataError(msg)
    engine = StreamEngine([X, Y], lambda rows: (rows, None, None), block_rows=lambda _: BLOCK_ROWS, n_jobs=n_jobs)
    prototype = unfitted_map("mmd_test", feature_map, random_state)
    fitted = fit_to_distinct_rows("mmd_test", prototype, engine)
    m, n = X.shape[0], Y.shape[0]
    seed = seed_of(random_state, "permutations")
    blocks = [len(block) for block in engine.blocks()]
    # How many rows of each block fall into the first sample: once that is drawn, blocks are independent.
    counts = np.random.default_rng(seed).multivariate_hypergeometric(blocks, m, n_permutations, method="marginals")
    starts = np.cumsum([0, *blocks[:-1]]).tolist()
    draw = RowFeatures(fitted.features_)
    # Differences of means do not change if all features are shifted, and lose fewer digits around zero.
    shift = draw.of(engine.first().X).mean(axis=0)
    found = engine.sum(DividedSums(draw, shift, m, dict(zip(starts, counts.T, strict=True)), seed))
    size = float(found.total[-1] / (m + n))
    return result_of("mmd_test", unbiased_mmd(found.first, found.total, m, n), size, (m, n), (fitted,))


@dataclass(frozen=True)
class SumsOfDivisions:
    """Sums of features, and of their squared lengths in the last column, over the first sample of each division."""

    first: Array  # (1 + B, D + 1)
    total: Array  # (D + 1,), over both samples

    def __add__(self, other: SumsOfDivisions) -> SumsOfDivisions:
        return SumsOfDivisions(self.first + other.first, self.total + other.total)


@dataclass(frozen=True)
class DividedSums:
    """The term of the sums: of the division as it came, then of random ones."""

    draw: RowFeatures
    shift: Array  # (D,)
    first_rows: int
    counts: dict[int, Array]  # by the start of a block: how many of its rows fall into the first sample, (B,)
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
    """Return the unbiased squared discrepancies of divisions, from sums over their first samples."""
    second = total - first

    def products(a: Array, b: Array) -> Array:
        return np.einsum("ij,ij->i", a[:, :-1], b[:, :-1])

    within_first = (products(first, first) - first[:, -1]) / (m * (m - 1))
    within_second = (products(second, second) - second[:, -1]) / (n * (n - 1))
    return within_first + within_second - 2 * products(first, second) / (m * n)
