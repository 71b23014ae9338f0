"""Samples of the rows, on which a loss is minimized before it is minimized on all rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from mercer.data.targets import label_codes
from mercer.engines import MemoryEngine, block_rows_for, empty_rows, fill_rows
from mercer.statistics.feature_cache import RowFeatures
from mercer.statistics.label_counts import LabelCounts

__all__ = ["ROWS_PER_COEFFICIENT", "Sample"]

Array = np.ndarray
# Number of rows of the smallest sample, per coefficient.
ROWS_PER_COEFFICIENT = 8
# Each minimization is on at least this many times as many rows as the one before.
GROWTH = 3


@dataclass(frozen=True, eq=False)
class Sample:
    """A sample of the rows. Features are computed when they are first needed."""

    rows: RowFeatures
    X: Any  # (m, d)
    y: Array  # (m,)
    codes: Array  # (m,), indices of the labels
    weight: Array  # (m,), whose sum is the total weight of all rows
    key: Array  # (m,), keys of the random sample: the rows with the smallest keys are a sample of the sample
    seen: int  # number of rows from which the sample was taken
    n_jobs: int | None

    @classmethod
    def of(cls, counts: LabelCounts, rows: RowFeatures, n_jobs: int | None) -> Sample:
        """Return the sample that was taken when labels were counted."""
        sample, y = counts.sample, np.asarray(counts.sample.y)
        codes = label_codes(y, counts.labels)
        return cls(rows, sample.X, y, codes, counts.sample_weight(), sample.key, sample.seen, n_jobs)

    @cached_property
    def features(self) -> Array:
        """The features of the rows (m, D)."""
        features = self.rows.cast(self.X.dtype)
        Z = empty_rows(len(self.y), features.n_components, features.output_dtype(self.X.dtype))
        fill_rows(features, self.X, Z, n_jobs=self.n_jobs)
        return Z

    @cached_property
    def squares(self) -> Array:
        """The squared norms of the features (m,)."""
        return np.einsum("ij,ij->i", self.features, self.features, dtype=np.float64)

    @cached_property
    def small(self) -> Sample:
        """A sample of these rows with `ROWS_PER_COEFFICIENT` rows per coefficient; these rows if they are fewer."""
        return self.part(ROWS_PER_COEFFICIENT * (self.rows.n_components + 1))

    def part(self, size: int) -> Sample:
        """Return a sample of these rows with `size` rows, whose weights have the same sum; these rows if fewer."""
        if size >= len(self.y):
            return self
        # Keys are divided by weights, so that rows are sampled in proportion to their weights, and have equal weights
        # in the sample.
        chosen = np.sort(np.argpartition(self.key, size - 1)[:size])
        X, y, codes, key = (values[chosen] for values in (self.X, self.y, self.codes, self.key))
        return replace(self, X=X, y=y, codes=codes, weight=np.full(size, self.weight.sum() / size), key=key)

    @property
    def is_intermediate(self) -> bool:
        """Whether all rows are so many more than these that it pays to minimize the loss on these rows first."""
        return GROWTH * len(self.y) <= self.seen

    def parts(self) -> Iterator[Sample]:
        """Yield the samples on which the loss is minimized in turn, from the smallest to the largest.

        Each has at most 1 / `GROWTH` of the rows of the next, and the last at most 1 / `GROWTH` of all rows.
        """
        if GROWTH * len(self.small.y) <= (len(self.y) if self.is_intermediate else self.seen):
            yield self.small
        if self.is_intermediate:
            yield self

    def engine(self) -> MemoryEngine:
        """Return an engine over the features of these rows."""
        block_rows = block_rows_for(self.features.shape[1])
        return MemoryEngine(self.features, self.y, self.weight, block_rows=block_rows, n_jobs=self.n_jobs)
