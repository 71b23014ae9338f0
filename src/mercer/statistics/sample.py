"""Random samples of rows that do not depend on the division into blocks, and generators and seeds of random numbers."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from mercer.engines.base import Block
from mercer.errors import ParameterError
from mercer.io.archive import storable

__all__ = ["RowSample", "as_generator", "column_scales", "most_different", "seed_of"]

# Number of values of a column, other than its median, that its scale is computed from at least.
LEAST_VALUES = 5
# Number of columns of smallest and of largest scale that are compared, if there are many.
EXTREMES = 100


def as_generator(random_state: Any) -> np.random.Generator:
    """Return a NumPy Generator for a seed, a Generator, a legacy RandomState, or None.

    A seed is combined with a fixed key. Otherwise a feature map with ``random_state=0`` would sample the same numbers
    as data that a user generates with ``default_rng(0)``.
    """
    if isinstance(random_state, Integral) and int(random_state) >= 0:
        return np.random.default_rng([int(random_state), *b"mercer"])
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        msg = f"random_state must be None, an integer >= 0, or a numpy Generator or RandomState, got {random_state!r}."
        raise ParameterError(msg) from error


def seed_of(random_state: Any, purpose: str) -> int:
    """Return a seed for a random sample of rows that is used for a given purpose.

    The same `random_state` gives different seeds for different purposes, so that the samples are independent. This
    matters, for example, for measured errors: on the rows that a feature map was built from, they would be too small.
    """
    if isinstance(random_state, Integral) and int(random_state) >= 0:
        return int(np.random.default_rng([int(random_state), *b"mercer", *purpose.encode()]).integers(2**63))
    return int(as_generator(random_state).integers(2**63))


@storable
@dataclass(frozen=True)
class RowSample:
    """Random sample of at most `size` rows without replacement, which can be computed block by block.

    Every row gets a key, an exponential variate that is a hash of the seed and the row index, and the sample consists
    of the `size` rows with the smallest keys. The keys do not depend on the blocks, so adding the samples of two parts
    of the data gives the sample of their union, whatever the order and size of the blocks. If keys are divided by the
    weights, rows are sampled with probabilities proportional to the weights (Efraimidis, Spirakis 2006). Rows are in
    the order of the data.
    """

    size: int
    seen: int  # number of rows with a positive weight, sampled or not
    index: np.ndarray  # (k,), indices of the rows in the data, ascending
    key: np.ndarray  # (k,), keys of the rows
    X: Any  # (k, d)
    y: np.ndarray | None
    weight: np.ndarray | None

    @classmethod
    def of(
        cls,
        block: Block,
        *,
        size: int,
        seed: int,
        by_weight: bool = False,
        targets: bool = True,
        scores: np.ndarray | None = None,
    ) -> Self:
        """Return the sample of the rows of one block. Rows of weight zero are never sampled.

        Parameters
        ----------
        block : Block
            Rows.
        size : int
            Maximum number of sampled rows.
        seed : int
            Seed of the keys, the same for all blocks.
        by_weight : bool, default=False
            Whether rows are sampled in proportion to their weights; otherwise they are sampled uniformly.
        targets : bool, default=True
            Whether the sample includes the targets. Samples can be added only if all or none of them have targets.
        scores : ndarray of shape (n,), default=None
            Numbers > 0. If given, rows are sampled in proportion to them.
        """
        index = block.index.astype(np.uint64)
        key = exponentials(index, seed)
        if scores is not None:
            key = key / scores
        if block.weight is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                key = np.where(block.weight > 0, key / (block.weight if by_weight else 1.0), np.inf)
        keep = smallest(key, size)
        # Copied, since a view would prevent the memory of the block from being released.
        X = block.X[keep].copy()
        y = block.y[keep].copy() if targets and block.y is not None else None
        weight = None if block.weight is None else block.weight[keep].copy()
        return cls(size, int(np.isfinite(key).sum()), index[keep], key[keep], X, y, weight)

    def __add__(self, other: RowSample) -> RowSample:
        key = np.concatenate([self.key, other.key])
        keep = smallest(key, self.size)
        index = np.concatenate([self.index, other.index])
        weight = None
        if self.weight is not None or other.weight is not None:  # rows without a weight have weight one
            weight = np.concatenate([np.ones(len(s.key)) if s.weight is None else s.weight for s in (self, other)])
        keep = keep[np.argsort(index[keep], kind="stable")]
        return RowSample(
            size=self.size,
            seen=self.seen + other.seen,
            index=index[keep],
            key=key[keep],
            X=stack(self.X, other.X)[keep],
            y=None if self.y is None else np.concatenate([self.y, other.y])[keep],
            weight=None if weight is None else weight[keep],
        )

    @property
    def is_complete(self) -> bool:
        """Whether the sample contains all rows with a positive weight."""
        return self.seen <= self.size


def exponentials(index: np.ndarray, seed: int) -> np.ndarray:
    """Return standard exponential variates that are a pure function of row index and seed (a SplitMix64 hash)."""
    with np.errstate(over="ignore"):
        z = index * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed % 2**64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return -np.log((z.astype(np.float64) + 0.5) / 2.0**64)


def smallest(key: np.ndarray, size: int) -> np.ndarray:
    """Return the indices of the `size` smallest finite keys, sorted by index."""
    finite = np.flatnonzero(np.isfinite(key))
    if len(finite) <= size:
        return finite
    return np.sort(finite[np.argpartition(key[finite], size)[:size]])


def stack(top: Any, bottom: Any) -> Any:
    """Return two matrices stacked vertically. The result is a CSR matrix if at least one of the two is sparse."""
    if sp.issparse(top) or sp.issparse(bottom):
        return sp.vstack([top, bottom], format="csr")
    return np.concatenate([top, bottom])


def column_scales(X: Any) -> np.ndarray:
    """Return two scales of each column of some rows: by all its values, and by those that are not the median.

    Both are root mean squares of the distances from the median, and the second one omits distances of zero. For an
    indicator the second one is therefore one, however rare the indicator is, and the first one is smaller if it is
    rarer. For sparse rows, distances are measured from zero.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, d)
        Rows.

    Returns
    -------
    ndarray of shape (2, d)
        NaN for columns that are constant up to rounding, or have fewer than `LEAST_VALUES` values off the median.

    Examples
    --------
    >>> import numpy as np
    >>> rare = np.arange(100) < 9
    >>> column_scales(np.column_stack([rare, 1000 * rare, np.ones(100)])).round(6).tolist()
    [[0.3, 300.0, nan], [1.0, 1000.0, nan]]
    """
    n, d = X.shape
    if sp.issparse(X):
        entries = X.tocoo()
        other = entries.data != 0
        column, distance = entries.col[other], np.abs(entries.data[other]).astype(np.float64)
        unit = np.zeros(d)
        np.maximum.at(unit, column, distance)
        unit[unit == 0] = 1.0  # the largest distance otherwise, so that squares do not overflow
        count = np.bincount(column, minlength=d)
        squares = np.bincount(column, np.square(distance / unit[column]), minlength=d)
    else:
        center = np.median(X, axis=0)
        distances = np.abs(X - center).astype(np.float64)
        distances[distances <= 1e-6 * np.abs(center)] = 0.0  # rounding of a constant, also in float32
        unit = distances.max(axis=0)
        unit[unit == 0] = 1.0
        count = np.count_nonzero(distances, axis=0)
        squares = np.square(distances / unit).sum(axis=0)
    squares = np.where(count >= LEAST_VALUES, squares, np.nan)
    return unit * np.sqrt(squares / np.stack([np.full(d, n), np.maximum(count, 1)]))


def most_different(scales: np.ndarray) -> tuple[float, int, int]:
    """Return the largest factor by which both scales of two columns differ, and the columns, the smaller one first.

    Parameters
    ----------
    scales : ndarray of shape (2, d)
        The result of `column_scales`.

    Returns
    -------
    factor : float
        1 if fewer than two columns have scales.
    low, high : int
    """
    known = np.flatnonzero((scales > 0).all(axis=0))  # not NaN, and no underflow
    if len(known) < 2:
        return 1.0, 0, 0
    logs = np.log(scales[:, known])
    if len(known) > 4 * EXTREMES:  # all pairs of the columns that are extreme by one of the scales
        order = np.argsort(logs, axis=1)
        chosen = np.unique(np.concatenate([order[:, :EXTREMES], order[:, -EXTREMES:]], axis=None))
        known, logs = known[chosen], logs[:, chosen]
    factors = (logs[:, None, :] - logs[:, :, None]).min(axis=0)
    low, high = np.unravel_index(factors.argmax(), factors.shape)
    return float(np.exp(min(factors[low, high], 700.0))), int(known[low]), int(known[high])
