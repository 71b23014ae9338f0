"""What an audit measures: a fitted map on rows, its features, the errors of k(x, x), and random pairs of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from mercer.diagnostics.pairs import PairSample, row_probabilities, sample_pairs
from mercer.engines import block_rows_for
from mercer.errors import DataError
from mercer.kernels import Kernel

__all__ = ["FittedMap", "PairErrors", "RowErrors", "Subject", "difference", "row_errors", "row_features"]

Array = np.ndarray
# Errors of k(x, x) below this many roundings of k(x, x) are not distinguished from zero.
ROUNDINGS = 64
# Features of all rows are stored up to this size, and computed again for each pair above it.
STORED_BYTES = 2**27


class Width(Protocol):
    """Number and dtype of the components of a fitted map, as `mercer.features.Features` has them."""

    @property
    def n_components(self) -> int: ...

    def output_dtype(self, dtype: Any) -> np.dtype: ...


class FittedMap(Protocol):
    """The part of the interface of a fitted map that measurements need. Maps of other libraries are wrapped in it."""

    @property
    def kernel_(self) -> Kernel: ...

    @property
    def features_(self) -> Width: ...

    @property
    def signs_(self) -> Array | None: ...

    @property
    def unbiased(self) -> bool | str: ...

    @property
    def residual_is_kernel(self) -> bool: ...

    @property
    def fitted_rows_(self) -> Array | None: ...

    def apply(self, X: Any) -> Array: ...

    def inner_products(self, left: Array, right: Array) -> Array: ...

    def known_variance(self, X: Any, Y: Any = None) -> Array: ...


class PairErrors(NamedTuple):
    """Exact kernel values and errors of the pairs of a block: all pairs of a left row and a right row."""

    block: int
    left: Array  # indices of rows
    right: Array  # indices of rows
    exact: Array  # (left, right), in float64
    error: Array  # (left, right), in float64: approximate minus exact


@dataclass(frozen=True)
class Subject:
    """A fitted map, the validated rows that it is measured on, and the seed of all random choices."""

    name: str
    feature_map: FittedMap
    X: Any
    y: Array | None
    n_rows: int  # number of rows of which all pairs are compared, or whose square is the number of random pairs
    seed: int

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.X.shape[0]

    @property
    def all_pairs(self) -> bool:
        """Whether there are so few rows that all pairs are compared."""
        return self.n <= self.n_rows

    def generator(self, purpose: str) -> np.random.Generator:
        """Return a source of randomness. Those of different purposes are independent."""
        return np.random.default_rng([self.seed, *purpose.encode()])

    @cached_property
    def pairs(self) -> PairSample:
        """Random pairs of rows, for rows of which not all pairs are compared."""
        rows = row_errors(self.feature_map, self.X)
        return self.sampled(rows)

    def sampled(self, rows: RowErrors) -> PairSample:
        """Return the random pairs of rows, given the errors of k(x, x), and store them."""
        pairs = sample_pairs(rows.probability, self.n_rows, np.random.default_rng(self.seed))
        vars(self)["pairs"] = pairs  # where `cached_property` looks for it
        return pairs

    def errors(self, features: Callable[[Any], Array] | None = None) -> Iterator[PairErrors]:
        """Yield the errors of pairs: of blocks of random pairs, or of all pairs in blocks of consecutive left rows."""
        features = row_features(self.feature_map, self.X) if features is None else features
        kernel, name = self.feature_map.kernel_, repr(self.feature_map.kernel_)
        if self.all_pairs:
            everything = np.arange(self.n)
            step = block_rows_for(self.n, 8)
            blocks = [(everything[i : i + step], everything) for i in range(0, self.n, step)]
        else:
            blocks = list(zip(self.pairs.left, self.pairs.right, strict=True))
        for block, (left, right) in enumerate(blocks):
            exact = kernel(self.X[left], self.X[right]).astype(np.float64)
            approximate = inner_products(self.feature_map, features(left), features(right))
            yield PairErrors(block, left, right, exact, difference(approximate, exact, name))

    def some_rows(self, count: int, purpose: str) -> Array:
        """Return the indices of at most `count` random rows, without replacement, in random order."""
        return self.generator(purpose).permutation(self.n)[:count]


def row_features(feature_map: FittedMap, X: Any) -> Callable[[Any], Array]:
    """Return a function from indices of rows to their features. The features are stored if they are not too large."""
    itemsize = feature_map.features_.output_dtype(X.dtype).itemsize
    if X.shape[0] * feature_map.features_.n_components * itemsize <= STORED_BYTES:
        return feature_map.apply(X).__getitem__
    return lambda rows: feature_map.apply(X[rows])


@dataclass(frozen=True)
class RowErrors:
    """Errors of k(x, x) for all rows x, and the probabilities of rows in pairs that are drawn to measure errors."""

    exact: Array  # (n,), k(x, x)
    size: Array  # (n,), k(x, x) + |z(x)|^2
    residual: Array  # (n,), absolute error of k(x, x)
    probability: Array  # (n,), see `row_probabilities`


def row_errors(feature_map: FittedMap, X: Any, features: Callable[[Any], Array] | None = None) -> RowErrors:
    """Return the errors of k(x, x) for all validated rows x, with features of the rows by index, if given."""
    features = row_features(feature_map, X) if features is None else features
    n, name = X.shape[0], repr(feature_map.kernel_)
    step = block_rows_for(max(feature_map.features_.n_components, X.shape[1]), X.dtype.itemsize)
    exact, norms, approximate = np.empty(n), np.empty(n), np.empty(n)
    for start in range(0, n, step):
        rows = slice(start, start + step)
        exact[rows] = feature_map.kernel_.diag(X[rows])
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.square(np.abs(features(rows)).astype(np.float64))
            norms[rows] = squares.sum(axis=1)
            approximate[rows] = norms[rows] if feature_map.signs_ is None else squares @ feature_map.signs_
    with np.errstate(over="ignore", invalid="ignore"):
        size = exact + norms
    residual = np.abs(difference(approximate, exact, name))
    if not np.isfinite(size).all():
        raise_overflow(name, X.dtype)
    # Errors of k(x, x) that are due to rounding do not show where errors of pairs are large.
    measured = np.where(residual > ROUNDINGS * np.finfo(X.dtype).eps * size, residual, 0.0)
    return RowErrors(exact, size, residual, row_probabilities(size, measured))


def inner_products(feature_map: FittedMap, left: Array, right: Array) -> Array:
    """Return the approximate kernel matrix, which may contain infinity; `difference` then raises."""
    with np.errstate(over="ignore", invalid="ignore"):
        return feature_map.inner_products(left, right)


def difference(approximate: Array, exact: Array, kernel: str) -> Array:
    """Return approximate - exact in float64; raise if a value is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        error = approximate.astype(np.float64) - exact
    if not np.isfinite(error).all():
        raise_overflow(kernel, np.result_type(approximate, exact))
    return error


def raise_overflow(kernel: str, dtype: Any) -> None:
    """Raise for a kernel with values that exceed the range of a dtype."""
    msg = (
        f"audit: {kernel} or its approximation exceeds the largest number of {np.dtype(dtype)} for some pairs of rows. "
        "Scale the rows or the kernel down."
    )
    raise DataError(msg)
