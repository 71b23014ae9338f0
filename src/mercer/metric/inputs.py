"""Scales of columns, and rows in a metric: scaled columns times a matrix or times one number per column."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from mercer.kernels import Kernel, Transformed
from mercer.kernels.base import dense64
from mercer.statistics import row_hashes

__all__ = ["MetricInputs", "column_spreads", "deviation", "equal_rows", "root_of"]

Array = np.ndarray
# Values beyond these quantiles of a column are moved to them before its spread is computed.
QUANTILES = (0.01, 0.99)
# Share of values other than the median, or other than zero in sparse rows, up to which the spread of a column is the
# largest distance from it.
MOSTLY_EQUAL = 0.1
# Number of entries of columns that are sorted at a time.
CHUNK_ENTRIES = 10_000_000
# A column is constant if its spread is at most this many rounding errors of its largest value.
ROUNDING_ERRORS = 8


@dataclass(frozen=True, eq=False)
class MetricInputs:
    """The input map x -> ((x[columns] - center) / scale) * root, with a root of the metric.

    Squared distances after this map are the squared distances of the scaled columns in the metric, of which `root` is
    the symmetric square root, or the square root of its diagonal if the metric is diagonal.
    """

    columns: Array  # (k,), numbers of the columns that are not constant
    center: Array | None  # (k,); None if rows are sparse
    scale: Array  # (k,)
    n_features: int  # of the rows
    root: Array | None = None  # (k, k) or (k,); None means one

    @classmethod
    def of(cls, X: Any, weight: Array | None) -> Self:
        """Return the scaling of columns by their spread over the rows of a sample."""
        center, spread = column_spreads(X, weight)
        columns = np.flatnonzero(spread > 0)
        centers = None if sp.issparse(X) else center[columns]
        return cls(columns, centers, spread[columns], X.shape[1])

    @property
    def width(self) -> int:
        """Number of columns that are not constant."""
        return len(self.columns)

    @property
    def is_diagonal(self) -> bool:
        """Whether the metric multiplies each column by a number."""
        return self.root is None or self.root.ndim == 1

    def with_metric(self, metric: Array) -> Self:
        """Return the same scaling with another metric, (k, k) or (k,)."""
        return replace(self, root=root_of(metric))

    def __call__(self, X: Any) -> Any:
        """Return the rows in the metric, in float64. Sparse rows stay sparse unless the metric is a matrix."""
        if self.width < self.n_features:
            X = X[:, self.columns]
        factors = 1 / self.scale
        if self.root is not None and self.root.ndim == 1:
            factors = factors * self.root
        if self.center is None:
            X = (X.astype(np.float64) @ sp.diags_array(factors)).tocsr() if sp.issparse(X) else dense64(X) * factors
        else:
            X = (dense64(X) - self.center) * factors
        return np.asarray(X @ self.root) if self.root is not None and self.root.ndim == 2 else X

    def from_metric(self, products: Array) -> Array:
        """Convert outer products of gradients from rows in the metric to scaled columns: R G R' for a root R."""
        if self.root is None:
            return products
        if products.ndim == 1:
            return np.square(self.root) * products
        if self.root.ndim == 1:
            return self.root[:, None] * products * self.root
        return self.root @ products @ self.root.T

    def kernel(self, kernel: Kernel, spacing: float | None = None) -> Transformed:
        """Return the kernel of rows whose value is `kernel` of the rows in the metric, rounded to a spacing."""
        keep = np.ones(self.width, bool)
        scale, matrix = self.scale, None
        if self.root is not None and self.root.ndim == 1:
            keep = self.root > 0  # a lengthscale cannot be infinite
            scale = scale[keep] / self.root[keep]
        elif self.root is not None:
            matrix = self.root
        columns = self.columns[keep]
        return Transformed(
            kernel,
            columns=None if len(columns) == self.n_features else columns,
            center=None if self.center is None else self.center[keep],
            lengthscales=scale,
            matrix=matrix,
            spacing=spacing,
        )

    def full(self, values: Array) -> Array:
        """Return values of the columns that are not constant, (k,) or (k, k), for all columns, with zeros elsewhere."""
        out = np.zeros((self.n_features,) * values.ndim)
        out[np.ix_(*[self.columns] * values.ndim)] = values
        return out


def equal_rows(inputs: MetricInputs, X: Any) -> Any:
    """Return rows in the metric, where equal rows of `X` give equal rows to the last bit.

    A matrix product may round equal rows differently. Then they would have different hashes, and distances other than
    zero, which matters for the median distance.
    """
    _, first, inverse = np.unique(row_hashes(X), return_index=True, return_inverse=True)
    return inputs(X[first])[inverse]


def root_of(metric: Array) -> Array:
    """Return the symmetric square root of a positive semi-definite matrix, or the square roots of its diagonal."""
    if metric.ndim == 1:
        return np.sqrt(np.maximum(metric, 0.0))
    values, vectors = np.linalg.eigh(metric)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def column_spreads(X: Any, weight: Array | None) -> tuple[Array, Array]:
    """Return a center and a spread of each column, which are in proportion to the units of the column.

    The center is the median. The spread is the standard deviation, after values beyond the quantiles 0.01 and 0.99 have
    been moved to these quantiles, so that few large values do not matter. If nine of ten values are equal, as in a rare
    indicator or a count of words, the spread is the largest distance from them, so that rare values do not become
    large ones.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, d)
        Rows.
    weight : ndarray of shape (n,) or None
        Weights of the rows; a weight of two counts as two rows.

    Returns
    -------
    center, spread : ndarrays of shape (d,)
        The spread is zero if the column is constant up to rounding.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.column_stack([np.arange(100.0), np.ones(100), 3.0 * (np.arange(100) == 7)])
    >>> center, spread = column_spreads(X, None)
    >>> center.tolist(), spread.round(2).tolist()
    ([49.0, 1.0, 0.0], [28.85, 0.0, 3.0])
    """
    weight = np.ones(X.shape[0]) if weight is None else weight
    share = weight / weight.sum()
    X = X.tocsc() if sp.issparse(X) else X
    center, spread = np.zeros(X.shape[1]), np.abs(X).max(axis=0)
    spread = np.asarray(spread.toarray() if sp.issparse(spread) else spread, dtype=np.float64).ravel()
    filled = np.flatnonzero(np.asarray(share @ (X != 0)).ravel() > MOSTLY_EQUAL)
    step = max(1, CHUNK_ENTRIES // max(1, X.shape[0]))
    for i in range(0, len(filled), step):
        columns = filled[i : i + step]
        rows = X[:, columns]
        center[columns], spread[columns] = dense_spreads(rows.toarray() if sp.issparse(rows) else rows, weight)
    return center, spread


def dense_spreads(X: Array, weight: Array) -> tuple[Array, Array]:
    """Return the medians of columns, and their spreads."""
    rounding = ROUNDING_ERRORS * np.finfo(X.dtype).eps
    X, share = dense64(X), weight / weight.sum()
    order = np.argsort(X, axis=0, kind="stable")
    ordered, below = np.take_along_axis(X, order, axis=0), np.cumsum(weight[order], axis=0)
    low, center, high = (quantiles(ordered, below, q) for q in (QUANTILES[0], 0.5, QUANTILES[1]))
    least = rounding * np.abs(ordered[[0, -1]]).max(axis=0)
    unit = np.where(ordered[-1] > ordered[0], ordered[-1] - ordered[0], 1.0)  # so that squares do not overflow
    # Rounded, so that it is the same multiple of the range in all units.
    spread = deviation(np.clip(X, low, high) / unit, share).astype(np.float32) * unit
    rare = share @ (X != center) <= MOSTLY_EQUAL * (1 + 1e-9)  # rounding of a share must not matter
    spread = np.where(rare, np.abs(X - center).max(axis=0), spread)
    return center, np.where(spread > least, spread, 0.0)


def quantiles(ordered: Array, below: Array, q: float) -> Array:
    """Return the quantile q of each column, given its sorted values and the cumulative weights of these."""
    # A rounding error of the cumulative weights must not matter where repeated rows and weights are to agree.
    index = (below < q * below[-1] * (1 - 1e-12)).sum(axis=0)
    return np.take_along_axis(ordered, index[None], axis=0)[0]


def deviation(X: Array, share: Array) -> Array:
    """Return the standard deviation of each column, with weights that sum to one."""
    return np.sqrt(share @ np.square(X - share @ X))
