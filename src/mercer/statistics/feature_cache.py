"""Features of rows, computed tile by tile, or read from a cache with the features of all rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mercer.engines import Block, Engine, empty_rows, fill_rows
from mercer.features import Features, features_of

__all__ = ["RowFeatures"]

Array = np.ndarray
# Number of rows of a tile: few enough for their features to be still in the processor cache when they are used.
TILE_ROWS = 512
# Features of all rows are cached if they take no more bytes than this.
CACHE_BYTES = 512 * 2**20
# Approximate time that it takes to store one entry of a cache: a new page of memory is slow to get.
SECONDS_TO_STORE = 2e-9


@dataclass(frozen=True)
class RowFeatures:
    """Computes the features of rows in any dtype, or reads them from a cache with the features of all rows.

    The cache is not pickled, since other processes have other rows.
    """

    features: Features  # sampled features, which map rows to components
    cache: Array | None = field(default=None, compare=False, repr=False)
    start: int = 0  # index of the first row of the cache
    _casts: dict[Any, Features] = field(default_factory=dict, compare=False, repr=False)

    @property
    def n_components(self) -> int:
        """Number of components of the features of a row."""
        return self.features.n_components

    def cast(self, dtype: Any) -> Features:
        """Return the sampled features converted to `dtype`. Each conversion is made only once and then stored."""
        if dtype not in self._casts:
            self._casts[dtype] = self.features.astype(dtype)
        return self._casts[dtype]

    def of(self, X: Any) -> Array:
        """Return the features of the rows `X` as a float64 array; the cache is not used."""
        return features_of(self.cast(X.dtype), X).astype(np.float64, copy=False)

    def tiles(self, block: Block) -> Iterator[tuple[slice, Array]]:
        """Yield ``(rows, Z)`` for slices `rows` of a block, where `Z` are the features of ``block.X[rows]``.

        `Z` is a view of the cache, or of a buffer that the next tile overwrites.
        """
        if self.cache is None:
            features = self.cast(block.X.dtype)
            rows = min(TILE_ROWS, len(block))
            buffer = empty_rows(rows, features.n_components, features.output_dtype(block.X.dtype))
        for first in range(0, len(block), TILE_ROWS):
            part = slice(first, min(first + TILE_ROWS, len(block)))
            if self.cache is None:
                Z = buffer[: part.stop - part.start]
                features(block.X[part], Z)
            else:
                offset = block.start - self.start
                Z = self.cache[offset + part.start : offset + part.stop]
            yield part, Z

    def is_slow(self, X: Any) -> bool:
        """Return whether features of rows such as `X` take more time to compute than to store, by the clock.

        The answer may vary from run to run. It must not change results, which do not depend on a cache.
        """
        X = X[:TILE_ROWS]
        block = Block(0, X)
        seconds = []
        for _ in range(3):
            start = time.perf_counter()
            entries = sum(Z.size for _, Z in self.tiles(block))
            seconds.append(time.perf_counter() - start)
        return min(seconds) > SECONDS_TO_STORE * entries

    def cached(self, engine: Engine, n_jobs: int | None) -> RowFeatures:
        """Return a copy with a cache of the features of all rows of an engine.

        If the rows are not in memory, or the cache would exceed `CACHE_BYTES`, return this object, without a cache.
        """
        rows = engine.in_memory
        if rows is None:
            return self
        features = self.cast(rows.X.dtype)
        shape, dtype = (len(rows), features.n_components), features.output_dtype(rows.X.dtype)
        if shape[0] * shape[1] * dtype.itemsize > CACHE_BYTES:
            return self
        Z = empty_rows(*shape, dtype)
        fill_rows(features, rows.X, Z, n_jobs=n_jobs)
        return replace(self, cache=Z, start=rows.start)

    def __getstate__(self) -> dict[str, Any]:
        return vars(RowFeatures(self.features))
