"""Evaluation of threshold features, which are indicators of x_i >= t for thresholds t.

The module `thresholds` chooses the thresholds. This module computes the features, and checks that the values of rows
are not negative and not above the largest possible threshold.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from mercer.errors import DataError
from mercer.features import Features
from mercer.kernels.histogram import canonical, check_non_negative
from mercer.maps.histogram.coordinates import CoordinateIndex

__all__ = ["IndicatorFeatures", "Indicators", "check_upper", "column_maxima"]

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Indicators:
    """Components that have the value a if x_i >= t_i for all i in I, and the value 0 otherwise.

    Each component has its own amplitude a, its own set I of columns of X, and its own thresholds t_i. All sets I have
    the same size.
    """

    coordinates: Array  # (m, size): the features of the rows that each component depends on
    levels: Array  # (m, size): thresholds for these features
    amplitudes: Array  # (m,)
    d: int  # number of features of the rows

    @classmethod
    def always(cls, amplitude: float, m: int) -> Self:
        """Return m components without thresholds, whose value is `amplitude` for every row."""
        return cls(np.zeros((m, 0), dtype=int), np.zeros((m, 0)), np.full(m, amplitude), 0)

    @cached_property
    def index(self) -> CoordinateIndex:
        return CoordinateIndex(self.coordinates[:, 0], self.d)

    def astype(self, dtype: Any) -> Self:
        """Return the same components for rows of another dtype."""
        # Thresholds stay positive in every dtype, so that a value of zero is below all of them.
        with np.errstate(over="ignore"):
            levels = np.maximum(self.levels.astype(dtype), np.finfo(dtype).smallest_subnormal)
            amplitudes = self.amplitudes.astype(dtype)
        if not np.isfinite(amplitudes).all():
            msg = f"ThresholdFeatures: features up to {self.amplitudes.max():.3g} overflow {dtype}. Pass float64."
            raise DataError(msg)
        return replace(self, levels=levels, amplitudes=amplitudes)

    def write(self, X: Any, out: Array) -> None:
        """Write the components for the rows of `X` into `out`."""
        size = self.coordinates.shape[1]
        if sp.issparse(X) and size == 1:
            out[:] = 0.0
            rows, components, values = self.index.entries(X)
            hit = values >= self.levels[components, 0]
            out[rows[hit], components[hit]] = self.amplitudes[components[hit]]
            return
        X = X.toarray() if sp.issparse(X) and size else X
        reached = np.ones(out.shape, dtype=bool)
        for c in range(size):
            reached &= np.take(X, self.coordinates[:, c], axis=1) >= self.levels[:, c]
        np.multiply(reached, self.amplitudes, out=out)


@dataclass(frozen=True, eq=False)
class IndicatorFeatures(Features):
    """Threshold features with fixed thresholds.

    The object is immutable and picklable, and does not depend on scikit-learn.
    """

    upper: Array  # (d,): largest possible threshold of each feature of X
    groups: tuple[Indicators, ...]

    @property
    def n_components(self) -> int:
        """Return the number of components."""
        return sum(len(group.amplitudes) for group in self.groups)

    def astype(self, dtype: Any) -> Self:
        """Return the same features for rows of another dtype."""
        if dtype == self.groups[0].amplitudes.dtype:
            return self
        return replace(self, groups=tuple(group.astype(dtype) for group in self.groups))

    def __call__(self, X: Any, out: Array) -> None:
        """Write the features of the rows of `X` into `out`."""
        check_upper(X, self.upper)
        start = 0
        for group in self.groups:
            stop = start + len(group.amplitudes)
            group.write(X, out[:, start:stop])
            start = stop


def column_maxima(X: Any) -> Array:
    """Return max(0, largest value) of each column of `X`, in the dtype of `X`."""
    X = canonical(X)
    largest = X.max(axis=0).toarray().ravel() if sp.issparse(X) else X.max(axis=0)
    return np.maximum(largest, 0)


def check_upper(X: Any, upper: Array) -> None:
    """Raise a DataError if a value in column i of `X` is negative or above upper[i], the largest possible threshold."""
    if not X.shape[0]:
        return
    check_non_negative("ThresholdFeatures", X)
    largest = column_maxima(X)
    # Rounding to the dtype of the rows is monotone, so that values within the bounds stay within them.
    with np.errstate(over="ignore"):
        beyond = np.flatnonzero(largest > upper.astype(X.dtype))
    if len(beyond):
        j = beyond[0]
        msg = (
            f"ThresholdFeatures: values of feature {j} must be at most {upper[j]:.6g}, the upper end of its "
            f"thresholds, got {largest[j]:.6g}; larger values would have equal features. Set "
            f"upper={largest.max():.6g} or more, clip the rows, or fit on rows with values as large."
        )
        raise DataError(msg)
