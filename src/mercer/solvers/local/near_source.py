"""Rows that are not a part of a local model: they stay where the fit has read them, and are searched there.

Near rows are found in every block or partition, and the nearest ones of all of them are merged, as engines sum other
statistics (`mercer.statistics.nearest`). Only near rows are sent to the process that predicts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.engines import Block, Engine, Report
from mercer.io import storable
from mercer.kernels.base import dense64
from mercer.solvers.local.near_kernel import NearKernel
from mercer.solvers.local.near_rows import NearRows
from mercer.statistics import DistinctRows, NearestRows, exponentials, row_hashes

__all__ = ["FindNearest", "RowsInSource", "SourceSummary", "Summarize"]

Array = np.ndarray


@storable
@dataclass(frozen=True)
class SourceSummary:
    """A sample of the distinct rows of a source, and the moments of the targets."""

    sample: DistinctRows
    weight: float  # total weight of the rows
    sums: Array  # (t,), weighted sums of the targets
    largest: float  # largest absolute value of a target

    def __add__(self, other: SourceSummary) -> SourceSummary:
        return SourceSummary(
            self.sample + other.sample,
            self.weight + other.weight,
            self.sums + other.sums,
            max(self.largest, other.largest),
        )

    @property
    def mean(self) -> Array:
        """Weighted mean (t,) of the targets."""
        return self.sums / self.weight


@dataclass(frozen=True, eq=False)
class Summarize:
    """Function of a block of rows that returns its `SourceSummary`, with a sample of at most `size` rows."""

    targets: Callable[[Array], Array]
    size: int
    seed: int

    def __call__(self, block: Block) -> SourceSummary:
        targets = self.targets(np.asarray(block.y))
        weight = np.ones(len(block)) if block.weight is None else block.weight
        hashes = row_hashes(block.X)
        sample = DistinctRows.of(block, hashes, exponentials(hashes, self.seed), size=self.size)
        largest = float(np.abs(targets).max(initial=0.0, where=weight[:, None] > 0))
        return SourceSummary(sample, float(weight.sum()), weight @ targets, largest)


@dataclass(frozen=True, eq=False)
class FindNearest:
    """Function of a block of rows that returns those near some queries, as `NearestRows`."""

    kernel: NearKernel
    targets: Callable[[Array], Array]
    unit: float
    queries: Any  # (m, p), points
    count: int
    own: Array | None = None  # (m,), hashes of the queries, if they are rows of the data

    def __call__(self, block: Block) -> NearestRows:
        points = self.kernel.points(block.X)
        if sp.issparse(points) != sp.issparse(self.queries):
            points = sp.csr_array(points) if sp.issparse(self.queries) else dense64(points)
        targets = self.targets(np.asarray(block.y)) / self.unit
        return NearestRows.of(block.X, points, targets, block.weight, block.index, self.queries, self.count, self.own)


@dataclass(frozen=True, eq=False)
class RowsInSource:
    """The rows of a fit, which are read again by each prediction."""

    engine: Engine
    kernel: NearKernel
    targets: Callable[[Array], Array]  # function that returns the numeric targets (n, t) of validated targets
    n_rows: int  # number of rows with a positive weight, copies included
    most_rows: int  # number of near rows that are in memory at a time
    unit: float = 1.0  # targets are divided by this number, ...
    offset: Array | None = None  # (t,) ... and minus these; None means zeros
    repeated: float = 1.0  # factor of the weights

    def near(self, points: Any, count: int, *, own: Array | None = None, report: Report | None = None) -> NearRows:
        """Return the distinct rows that are among the `count` nearest rows of points, in one pass over all rows.

        `own` are the hashes of the points, if they are rows of the data, which are then found too.
        """
        found = self.engine.sum(FindNearest(self.kernel, self.targets, self.unit, points, count, own), report)
        return NearRows.of_nearest(found, self.unit, self.offset).repeated(self.repeated)

    def queries_per_pass(self, count: int) -> int:
        """Return the number of queries whose near rows are in memory at a time."""
        return max(1, self.most_rows // max(1, count))
