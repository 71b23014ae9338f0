"""Result class, p-values and validation of inputs for the permutation tests `mmd_test` and `hsic_test`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mercer.choice import FeatureMap
from mercer.data.sources import source_of
from mercer.engines import Engine, Report, enter_stage
from mercer.errors import DataError, ParameterError
from mercer.errors.spellings import object_hint
from mercer.hypothesis_tests.frequencies import PooledRows
from mercer.hypothesis_tests.groups import CombinedScales
from mercer.hypothesis_tests.witness import ScaleScores, Witness, figure_of_test
from mercer.kernels import Kernel
from mercer.kernels.base import as_rows
from mercer.maps import BaseMap, DrawnMap
from mercer.maps.base import check_features
from mercer.parameters import Integer, Interval, check_parameter
from mercer.solvers.clusters.starts import UniformRows

__all__ = [
    "PermutationTest",
    "adaptive_result",
    "check_adaptive_only",
    "check_enough",
    "check_kernel",
    "checked_samples",
    "fit_to_distinct_rows",
    "permutation_result",
]

Array = np.ndarray
# Two statistics are treated as equal (a tie) if they differ by less than this fraction of the magnitude of the terms
# that they are computed from, which is the order of their rounding errors.
TIE = 1e-10


@dataclass(frozen=True)
class PermutationTest:
    """Result of a permutation test.

    Attributes
    ----------
    name : str
        Name of the test.
    statistic : float
        The statistic of the observed samples. In an adaptive test it is the score that combines the standardized
        statistics of all lengthscales: their likelihood ratio, or for `hsic_test` the largest one, less a small penalty
        for long lengthscales.
    p_value : float
        (1 + b) / (1 + B), where b of the B permutations have a statistic at least as large as the observed one. Under
        the null hypothesis, the p-value is at most `a` with a probability of at most `a`, for all sample sizes [1]_.
    null : ndarray of shape (B,)
        The statistics of the permutations, in increasing order.
    rows : tuple of int
        Sample sizes.
    maps : tuple of str
        The feature maps that were used and the kernels that they approximate.
    scales : ScaleScores or None
        The evidence at each lengthscale, for adaptive tests.
    witness : Witness or None
        The witness function, for adaptive two-sample tests: ``witness(X)`` is positive at rows where the first sample
        is denser, and ``witness.columns()`` are the columns that differ most.

    References
    ----------
    .. [1] Phipson, Smyth (2010), Permutation p-values should never be zero, Statistical Applications in Genetics and
       Molecular Biology.
    """

    name: str
    statistic: float
    p_value: float
    null: Array
    rows: tuple[int, ...]
    maps: tuple[str, ...]
    scales: ScaleScores | None = None
    witness: Witness | None = None

    def threshold(self, level: float = 0.05) -> float:
        """Return the value that the statistic must exceed for a p-value of at most `level`.

        Parameters
        ----------
        level : float, default=0.05
            Significance level, in (0, 1).

        Returns
        -------
        float
            The critical value; infinity if there are too few permutations for a p-value of `level`.
        """
        check_parameter("threshold", "level", level, Interval(0, 1, closed="neither"))
        allowed = int(np.floor(level * (1 + len(self.null)) + 1e-9))  # 0.05 * 1000 is 50 despite rounding
        return float(self.null[-allowed]) if allowed > 0 else float("inf")

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain Python values, with the mean and standard deviation of `null` instead of `null`.

        Returns
        -------
        dict
        """
        adaptive: dict[str, Any] = {}
        if self.scales is not None:
            adaptive["scales"] = self.scales.to_dict()
        if self.witness is not None:
            adaptive["columns"] = [asdict(score) for score in self.witness.columns()]
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
            **adaptive,
        }

    def plot(self) -> Any:
        """Return a Matplotlib figure of the null distribution, the lengthscales and the witness function.

        Returns
        -------
        matplotlib.figure.Figure
            With one panel, or up to three for an adaptive test. It has a method ``savefig(path)``.
        """
        title = f"{self.name}: p = {self.p_value:.3g}"
        return figure_of_test(title, self.statistic, self.null, self.threshold(), self.scales, self.witness)

    def __repr__(self) -> str:
        sizes = " and ".join(f"{n:,}" for n in self.rows)
        if self.scales is not None:
            return (
                f"{self.name}: p = {self.p_value:.3g} ({len(self.null):,} permutations), score {self.statistic:.3g}, "
                f"critical value at 5 % {self.threshold():.3g}; {self.scales!r}; {sizes} rows"
            )
        return (
            f"{self.name}: statistic {self.statistic:.4g}, p = {self.p_value:.3g} ({len(self.null):,} permutations); "
            f"null distribution {self.null.mean():.3g} +- {self.null.std():.2g}, critical value at 5 % "
            f"{self.threshold():.3g}; {sizes} rows, {' and '.join(self.maps)}"
        )


def permutation_result(
    name: str, statistics: Array, size: float, rows: tuple[int, ...], maps: tuple[BaseMap, ...]
) -> PermutationTest:
    """Return the result of a permutation test, given the observed statistic and those of the permutations.

    Parameters
    ----------
    name : str
        Name of the test.
    statistics : ndarray of shape (1 + B,)
        The statistic of the observed samples, followed by those of the permutations.
    size : float
        Magnitude of the terms whose differences are the statistics. Statistics that differ by no more than the rounding
        error of these terms are treated as equal.
    rows : tuple of int
        Sample sizes.
    maps : tuple of BaseMap
        The fitted maps.

    Returns
    -------
    PermutationTest
    """
    observed, null = float(statistics[0]), np.sort(statistics[1:])
    as_large = int(np.count_nonzero(null >= observed - TIE * size))
    names = tuple(f"{type(m).__name__} with {m.features_.n_components} components for {m.kernel_!r}" for m in maps)
    return PermutationTest(name, observed, (1 + as_large) / (1 + len(null)), null, rows, names)


def adaptive_result(
    name: str, combined: CombinedScales, scales: ScaleScores, rows: tuple[int, ...], witness: Witness | None = None
) -> PermutationTest:
    """Return the result of an adaptive permutation test.

    Parameters
    ----------
    name : str
        Name of the test.
    combined : CombinedScales
        Scores of the observed samples and of the permutations, and the p-value.
    scales : ScaleScores
        The evidence at each lengthscale.
    rows : tuple of int
        Sample sizes.
    witness : Witness or None, default=None
        The witness function.

    Returns
    -------
    PermutationTest
    """
    counts = " x ".join(str(len(h)) for h in scales.lengthscales)
    maps = (f"adaptive: {counts} Gaussian kernels on shared frequencies",)
    null = np.sort(combined.scores[1:])
    return PermutationTest(name, float(combined.scores[0]), combined.p_value, null, rows, maps, scales, witness)


def checked_samples(owner: str, X: Any, Y: Any, n_permutations: int) -> tuple[Any, Any]:
    """Return both samples as validated arrays or CSR matrices, each of at least two rows.

    Raise an error if a sample or the number of permutations is invalid.

    Parameters
    ----------
    owner : str
        Name of the test, for error messages.
    X, Y : array-like, CSR, or what `open_rows` returns
        The samples. Files are read into memory, without their targets.
    n_permutations : int
        Number of permutations.

    Returns
    -------
    tuple of ndarray or CSR
        The rows of `X` and those of `Y`.
    """
    check_parameter(owner, "n_permutations", n_permutations, Integer(1))
    return _checked_rows(f"{owner}: X", X), _checked_rows(f"{owner}: Y", Y)


def check_enough(name: str, pool: PooledRows) -> None:
    """Raise if a sample has fewer than two rows, or no row of positive weight."""
    if pool.rows < 2 or not len(pool.sample):
        width = pool.sample.X.shape[1]
        what = f"shape {(pool.rows, width)}" if pool.rows < 2 else "weights that are all zero"
        msg = f"{name} must have at least 2 rows and one feature, got {what}."
        raise DataError(msg)


def check_kernel(owner: str, name: str, kernel: Any) -> None:
    """Raise if the parameter `kernel` or `kernel_y` is neither "adaptive" nor a map, a kernel or None."""
    if isinstance(kernel, BaseMap | Kernel) or kernel is None or (kernel == "adaptive" and name == "kernel"):
        return
    first = "'adaptive', " if name == "kernel" else ""
    msg = (
        f"{owner}: {name} must be {first}a mercer map such as RandomFourier(), a kernel such as Gaussian(), or None, "
        f"got {kernel!r}. {object_hint(kernel, name)}"
    )
    raise ParameterError(msg.rstrip())


def check_adaptive_only(owner: str, kernel: Any, given: Mapping[str, Any]) -> None:
    """Raise if a parameter of adaptive tests is given together with a kernel."""
    for name, value in given.items():
        if value is not None:
            msg = (
                f"{owner}: {name} is for kernel='adaptive', got kernel={kernel!r}. Leave one of them out"
                f"{', or give the map n_components' if name == 'n_components' else ''}."
            )
            raise ParameterError(msg)


def _checked_rows(name: str, X: Any) -> Any:
    """Return one sample as a validated array or CSR matrix of at least two rows; `name` is for error messages."""
    X = as_rows(_Named(name), source_of(X, owner=name).in_memory(name))
    if X.shape[0] < 2 or X.shape[1] < 1:
        msg = f"{name} must have at least 2 rows and one feature, got shape {X.shape}."
        raise DataError(msg)
    return X


@dataclass(frozen=True)
class _Named:
    """An object whose repr is the name of a sample, which `as_rows` shows in error messages."""

    name: str

    def __repr__(self) -> str:
        return self.name


def fit_to_distinct_rows(owner: str, feature_map: BaseMap, engine: Engine, report: Report | None = None) -> BaseMap:
    """Fit a map to the rows of an engine such that the fitted map does not depend on the order of the rows.

    Parameters that are learned from rows, such as a median lengthscale or landmarks, are learned from a random sample
    of the distinct rows. Which rows are sampled depends on their values and on the seed only, so the fitted map is
    invariant to permutations of the rows, and a permutation test with it remains exact.

    Parameters
    ----------
    owner : str
        Name of the test, for error messages.
    feature_map : BaseMap
        An unfitted map, which is fitted in place.
    engine : Engine
        The rows.
    report : callable or None, default=None
        Receives the progress.

    Returns
    -------
    BaseMap
        The fitted map.
    """
    if not isinstance(feature_map, DrawnMap | FeatureMap):
        msg = (
            f"{owner} needs a map that is drawn from a sample of rows, got {type(feature_map).__name__}, which is "
            "fitted to all of them. Use its inner map, or a kernel."
        )
        raise ParameterError(msg)
    enter_stage(report, "fit map")
    wanted = feature_map.rows_wanted()
    if wanted == 1:
        feature_map.fit_sample(engine.first().X[:1])
    else:
        sample = engine.sum(UniformRows(wanted, feature_map.sample_seed()), report)
        feature_map.fit_sample(sample.X, sample.weight, report)
    check_features(owner, feature_map)
    return feature_map
