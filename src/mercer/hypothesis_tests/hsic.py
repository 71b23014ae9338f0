"""Do two columns of observations depend on each other? The Hilbert-Schmidt criterion on features, with a null."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.engines import MemoryEngine, block_rows_for, fill_rows
from mercer.engines.base import workers
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
from mercer.statistics.sample import seed_of

__all__ = ["hsic_test"]

Array = np.ndarray
# Columns of a map that is chosen here: each permutation costs the product of both widths.
COLUMNS = 100


def hsic_test(
    X: Any,
    Y: Any,
    feature_map: BaseMap | Kernel | None = None,
    feature_map_y: BaseMap | Kernel | None = None,
    *,
    n_permutations: int = 999,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> PermutationTest:
    r"""Test whether the rows of two samples, observed in pairs, are independent, in time linear in their number.

    The statistic is the Hilbert-Schmidt independence criterion [1]_, the size of the covariance of their features,

    .. math:: \Bigl\| \frac{1}{n} \sum_i (z(x_i) - \bar z) (u(y_i) - \bar u)^\top \Bigr\|_F^2 .

    It is compared with that of random pairings of the same rows: time O(B n D^2), memory O(n D).

    Parameters
    ----------
    X : array-like or CSR of shape (n, d)
        Rows; at least two.
    Y : array-like or CSR of shape (n, e)
        The rows that were observed with them.
    feature_map, feature_map_y : BaseMap, Kernel or None, default=None
        Maps of the rows of `X` and of `Y`; or kernels, for each of which a map of 100 features is drawn; None means a
        Gaussian kernel of median lengthscale.
    n_permutations : int, default=999
        Random pairings, B. The smallest p-value is 1 / (1 + B).
    n_jobs : int or None, default=None
        Threads; None means all cores. The result does not depend on it, to the bit.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the pairings, and of maps that are drawn here.

    Returns
    -------
    PermutationTest
        With `statistic`, `p_value`, `null` and `threshold(level)`.

    Notes
    -----
    Whatever the laws and the features, a test of independent rows has a p-value of at most `a` with a probability of at
    most `a`. Ties count against dependence. Rows must be independent of each other: those of a time series are not.

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
    check_permutations("hsic_test", n_permutations)
    X, Y = checked_rows("hsic_test: X", X, 2), checked_rows("hsic_test: Y", Y, 2)
    n = X.shape[0]
    if Y.shape[0] != n:
        msg = f"hsic_test: X and Y are observed in pairs and must have equal length, got {n} and {Y.shape[0]} rows."
        raise DataError(msg)
    maps, features = [], []
    for number, (rows, choice) in enumerate(((X, feature_map), (Y, feature_map_y))):
        # Different draws for the two, also where both are chosen here by one seed.
        state = np.random.default_rng([seed_of(random_state, "maps"), number])
        prototype = unfitted_map("hsic_test", choice, state, n_components=COLUMNS)
        engine = MemoryEngine(rows, block_rows=block_rows_for(rows.shape[1]), n_jobs=n_jobs)
        maps.append(fit_to_distinct_rows("hsic_test", prototype, engine))
        features.append(centered_features(maps[-1], rows, n_jobs))
    seed = seed_of(random_state, "permutations")
    Z, U = features

    def statistic(number: int) -> float:
        order = np.arange(n) if number == 0 else np.random.default_rng([seed, number]).permutation(n)
        return float(np.square(Z.T @ U[order]).sum()) / n**2

    with workers(n_jobs) as team:
        statistics = np.array(list(team.in_order(statistic, range(1 + n_permutations))))
    size = float(np.square(Z).sum() * np.square(U).sum()) / n**2
    return result_of("hsic_test", statistics, size, (n,), tuple(maps))


def centered_features(feature_map: BaseMap, X: Any, n_jobs: int | None) -> Array:
    """Return features of rows less their mean, in float64."""
    features = feature_map.features_.astype(X.dtype)
    Z = np.empty((X.shape[0], features.n_components), features.output_dtype(X.dtype))
    fill_rows(features, X, Z, n_jobs=n_jobs)
    Z = Z.astype(np.float64, copy=False)
    Z -= Z.mean(axis=0)
    return Z
