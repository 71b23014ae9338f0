"""Kernel errors of pairs of rows by their distance, or by their kernel value: one table of bins, with intervals."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from sklearn.metrics.pairwise import euclidean_distances

from mercer.diagnostics.pairs import ratio_interval
from mercer.diagnostics.subject import PairErrors, Subject
from mercer.errors.packages import data_frame

__all__ = ["ErrorBin", "ErrorTable", "errors_in_bins"]

Array = np.ndarray
# Number of rows on each side of the uniformly sampled pairs whose quantiles are the edges of the bins.
EDGE_ROWS = 128


@dataclass(frozen=True)
class ErrorBin:
    """Errors of the pairs of different rows whose distance, or kernel value, lies in one bin.

    Attributes
    ----------
    low, high : float
        Edges of the bin. Those of the first and of the last bin are the least and the largest value of the pairs that
        were compared.
    center : float
        Mean of the values of the pairs in the bin.
    share : float
        Fraction of all pairs that are in the bin.
    n_pairs : int
        Number of pairs of the bin that were compared.
    mean_error, rmse : float
        Mean of the errors, and root of the mean of their squares.
    mean_error_interval, rmse_interval : tuple of float
        95 % confidence intervals for the mean and the root mean square over all pairs of the bin; both ends are equal
        if all pairs were compared.
    """

    low: float
    high: float
    center: float
    share: float
    n_pairs: int
    mean_error: float
    mean_error_interval: tuple[float, float]
    rmse: float
    rmse_interval: tuple[float, float]


@dataclass(frozen=True)
class ErrorTable:
    """Errors by distance or by kernel value, in bins that contain about equally many of all pairs.

    Attributes
    ----------
    by : {"distance", "kernel"}
        What the bins are of: the Euclidean distance of the two rows, or the exact kernel value.
    all_pairs : bool
        Whether all pairs were compared. If not, the errors are estimates.
    bins : tuple of ErrorBin
        The bins, in increasing order.
    """

    by: str
    all_pairs: bool
    bins: tuple[ErrorBin, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a dictionary of built-in types."""
        return asdict(self)

    def to_pandas(self) -> Any:
        """Return the bins as a pandas DataFrame, one row per bin; the ends of intervals have columns of their own."""
        rows = []
        for one in self.bins:
            values = asdict(one)
            for name in ("mean_error", "rmse"):
                values[f"{name}_low"], values[f"{name}_high"] = values.pop(f"{name}_interval")
            rows.append(values)
        return data_frame(rows, "ErrorTable.to_pandas")

    def __str__(self) -> str:
        lines = [f"{self.by:>19}  share  mean error               95 %      RMSE               95 %"]
        for one in self.bins:
            mean = f"{one.mean_error_interval[0]:>9.2e} {one.mean_error_interval[1]:>9.2e}"
            rmse = f"{one.rmse_interval[0]:>8.2e} {one.rmse_interval[1]:>8.2e}"
            lines.append(
                f"{one.low:>8.3g} - {one.high:>8.3g}  {100 * one.share:>4.0f}%  {one.mean_error:>10.2e}  {mean}  "
                f"{one.rmse:>8.2e}  {rmse}"
            )
        return "\n".join(lines)


def errors_in_bins(subject: Subject, n_bins: int, by: Literal["distance", "kernel"]) -> ErrorTable:
    """Return the table of errors, with the edges at quantiles of the distances or kernel values of random pairs."""
    edges = _edges(subject, n_bins, by)
    n_bins = len(edges) + 1
    # Sums over the pairs of each bin, one row per block: weights, errors, squared errors and values.
    sums: list[Array] = []
    counts, scale = np.zeros(n_bins, dtype=np.int64), _scale(subject)
    low, high = math.inf, -math.inf
    for pairs in subject.errors():
        different = pairs.left[:, None] != pairs.right
        values = _values(subject, pairs.left, pairs.right, pairs.exact, by)[different]
        low, high = float(values.min(initial=low)), float(values.max(initial=high))
        at = np.searchsorted(edges, values, side="right")
        weight, error = _weights(subject, pairs)[different], pairs.error[different] / scale
        counts += np.bincount(at, minlength=n_bins)
        weighted = (weight, weight * error, weight * np.square(error), weight * values)
        sums.append(np.stack([np.bincount(at, one, n_bins) for one in weighted]))
    blocks = np.stack(sums)  # (blocks, 4, bins)
    ends = [low, *edges.tolist(), high]
    total = blocks[:, 0].sum()
    bins = []
    for b in np.flatnonzero(counts):
        weight, error, square = blocks[:, 0, b], blocks[:, 1, b], blocks[:, 2, b]
        mean, mean_square = float(error.sum() / weight.sum()), float(square.sum() / weight.sum())
        means, squares = (mean, mean), (mean_square, mean_square)
        if not subject.all_pairs:
            means, squares = ratio_interval(error, weight, skewed=False), ratio_interval(square, weight)
        bins.append(
            ErrorBin(
                low=ends[b],
                high=ends[b + 1],
                center=float(blocks[:, 3, b].sum() / weight.sum()),
                share=float(weight.sum() / total),
                n_pairs=int(counts[b]) // (2 if subject.all_pairs else 1),
                mean_error=scale * mean,
                mean_error_interval=(scale * means[0], scale * means[1]),
                rmse=scale * math.sqrt(mean_square),
                rmse_interval=(scale * math.sqrt(max(squares[0], 0.0)), scale * math.sqrt(squares[1])),
            )
        )
    return ErrorTable(by, subject.all_pairs, tuple(bins))


def _scale(subject: Subject) -> float:
    """Return a number of the size of the kernel, by which errors are divided, since their squares could overflow."""
    return float(np.abs(subject.feature_map.kernel_.diag(subject.X)).max()) or 1.0


def _weights(subject: Subject, pairs: PairErrors) -> Array:
    """Return the weights of the pairs of a block."""
    return np.ones(pairs.error.shape) if subject.all_pairs else subject.pairs.weights(pairs.block)


def _edges(subject: Subject, n_bins: int, by: str) -> Array:
    """Return the inner edges of the bins: quantiles over uniformly sampled pairs, which do not depend on the others."""
    rng = subject.generator("edges")
    count = min(EDGE_ROWS, subject.n)
    left, right = (rng.permutation(subject.n)[:count] for _ in range(2))
    values = _values(subject, left, right, subject.feature_map.kernel_(subject.X[left], subject.X[right]), by)
    different = values[left[:, None] != right]
    return np.unique(np.quantile(different, np.arange(1, n_bins) / n_bins))


def _values(subject: Subject, left: Array, right: Array, exact: Array, by: str) -> Array:
    """Return what the pairs are binned by."""
    return exact if by == "kernel" else euclidean_distances(subject.X[left], subject.X[right])
