"""What a Gaussian process needs to know of the rows it has seen: moments, and a few rows if it keeps any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.engines import Accumulator, Block, Workers
from mercer.features import Features
from mercer.io.archive import storable
from mercer.statistics import RowSample
from mercer.statistics.moments import Moments, MomentSum, TargetMoments

__all__ = ["ProcessMoments", "ProcessSum"]


@storable
@dataclass(frozen=True)
class ProcessMoments:
    """Moments of features and targets, and a sample of rows, or None."""

    moments: Moments
    sample: RowSample | None

    @property
    def rows(self) -> int:
        return self.moments.rows

    def __add__(self, other: ProcessMoments) -> ProcessMoments:
        sample = None if self.sample is None or other.sample is None else self.sample + other.sample
        return ProcessMoments(self.moments + other.moments, sample)

    def transformed(self, matrix: np.ndarray) -> ProcessMoments:
        """Return the moments of features times a matrix."""
        return ProcessMoments(self.moments.transformed(matrix), self.sample)


class ProcessSum(Accumulator[ProcessMoments]):
    """The moments of blocks, in float64 whatever the rows are: small eigenvalues count."""

    def __init__(self, features: Features, keep: int, seed: int) -> None:
        self._sum = MomentSum(features, double=True)
        self._keep = keep
        self._seed = seed
        self._targets: TargetMoments | None = None
        self._sample: RowSample | None = None

    def add(self, block: Block, workers: Workers) -> None:
        part = self._sum.add(block, block.y, workers)
        self._targets = part if self._targets is None else self._targets + part
        if self._keep:
            sample = RowSample.of(block, size=self._keep, seed=self._seed, by_weight=True)
            self._sample = sample if self._sample is None else self._sample + sample

    def result(self) -> ProcessMoments:
        assert self._targets is not None
        return ProcessMoments(self._sum.moments(self._targets), self._sample)

    def restore(self, state: Any) -> None:
        self._sum.restore(state.moments.gram, state.moments.roundoff)
        self._targets, self._sample = state.moments.targets, state.sample
