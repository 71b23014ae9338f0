"""What permutation tests share: rows checked, a map fitted to the pooled rows, a p-value that is valid."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from mercer.data.sources import source_of
from mercer.engines import Engine
from mercer.errors import DataError, ParameterError
from mercer.kernels.base import as_rows
from mercer.maps import BaseMap, DrawnMap
from mercer.maps.base import check_features
from mercer.solvers.clusters.starts import UniformRows

__all__ = ["PermutationTest", "check_permutations", "checked_rows", "fit_to_distinct_rows", "result_of"]

Array = np.ndarray
# Statistics that differ by so many of their rounding errors are equal: permutations that change nothing must tie.
TIE = 1e-10


@dataclass(frozen=True)
class PermutationTest:
    """The result of a permutation test.

    Attributes
    ----------
    name : str
        What was tested.
    statistic : float
        The statistic of the rows as they came.
    p_value : float
        (1 + b) / (1 + B), where b of the B permutations have a statistic at least as large: whatever the size of the
        samples, at most a share `a` of tests without an effect have a p-value of at most `a`.
    null : ndarray of shape (B,)
        The statistics of the permutations, in increasing order.
    rows : tuple of int
        Sizes of the samples.
    maps : tuple of str
        Features that were used, and the kernels that they stand for.
    """

    name: str
    statistic: float
    p_value: float
    null: Array
    rows: tuple[int, ...]
    maps: tuple[str, ...]

    def threshold(self, level: float = 0.05) -> float:
        """Return what the statistic must exceed for a p-value of at most `level`; infinity if nothing would do.

        Parameters
        ----------
        level : float, default=0.05
            Probability of a false alarm, in (0, 1).

        Returns
        -------
        float
        """
        if not isinstance(level, Real) or not 0 < level < 1:
            msg = f"threshold: level must be a number between 0 and 1, got {level!r}."
            raise ParameterError(msg)
        allowed = int(np.floor(level * (1 + len(self.null)) + 1e-9))  # 0.05 times 1000 is 50, whatever its rounding
        return float(self.null[-allowed]) if allowed > 0 else float("inf")

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain Python values, with moments of the null in place of its sample."""
        return {
            "name": self.name,
            "statistic": self.statistic,
            "p_value": self.p_value,
            "n_permutations": len(self.null),
            "null_mean": float(self.null.mean()),
            "null_std": float(self.null.std()),
            "threshold_5_percent": self.threshold(0.05),
            "rows": list(self.rows),
            "maps": list(self.maps),
        }

    def __repr__(self) -> str:
        sizes = " and ".join(f"{n:,}" for n in self.rows)
        return (
            f"{self.name}: statistic {self.statistic:.4g}, p = {self.p_value:.3g} ({len(self.null):,} permutations); "
            f"without an effect {self.null.mean():.3g} +- {self.null.std():.2g}, in 95 % of tests at most "
            f"{self.threshold():.3g}; {sizes} rows, {' and '.join(self.maps)}"
        )


def result_of(
    name: str, statistics: Array, size: float, rows: tuple[int, ...], maps: tuple[BaseMap, ...]
) -> PermutationTest:
    """Return the result, given the statistic of the rows as they came and then those of all permutations.

    `size` is that of the terms that statistics are differences of.
    """
    observed, null = float(statistics[0]), np.sort(statistics[1:])
    as_large = int(np.count_nonzero(null >= observed - TIE * size))
    texts = tuple(f"{type(m).__name__} with {m.features_.n_components} columns for {m.kernel_!r}" for m in maps)
    return PermutationTest(name, observed, (1 + as_large) / (1 + len(null)), null, rows, texts)


@dataclass(frozen=True)
class Sample:
    """The name of a sample, for messages."""

    name: str

    def __repr__(self) -> str:
        return self.name


def checked_rows(name: str, X: Any, least: int) -> Any:
    """Return rows as an array or CSR matrix, also those of files; otherwise explain."""
    X = as_rows(Sample(name), source_of(X, owner=name).in_memory(name))
    if X.shape[0] < least or X.shape[1] < 1:
        msg = f"{name} must have at least {least} rows and one column, got shape {X.shape}."
        raise DataError(msg)
    return X


def check_permutations(owner: str, n_permutations: Any) -> None:
    """Raise unless there can be so many permutations."""
    if not isinstance(n_permutations, Integral) or isinstance(n_permutations, bool) or n_permutations < 1:
        msg = f"{owner}: n_permutations must be an integer >= 1, got {n_permutations!r}."
        raise ParameterError(msg)


def fit_to_distinct_rows(owner: str, feature_map: BaseMap, engine: Engine) -> BaseMap:
    """Return the map, drawn from the rows of an engine in a way that their order does not change.

    Whatever is learned from rows (a median lengthscale, landmarks) comes from a sample of them by content. So it is
    the same for every permutation of the rows, and the test stays exact.
    """
    if not isinstance(feature_map, DrawnMap):
        msg = (
            f"{owner} needs a map that is drawn from a sample of rows, got {type(feature_map).__name__}, which is "
            "fitted to all of them. Give the map below it, or a kernel."
        )
        raise ParameterError(msg)
    wanted = feature_map.rows_wanted()
    if wanted == 1:
        feature_map.fit_sample(engine.first().X[:1])
    else:
        sample = engine.sum(UniformRows(wanted, feature_map.sample_seed()))
        feature_map.fit_sample(sample.X, sample.weight)
    check_features(owner, feature_map)
    return feature_map
