"""Moments of label indicators, for labels that need not be known before they are seen."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mercer.engines import Accumulator, Block, Workers
from mercer.features import Features
from mercer.io import storable
from mercer.statistics import RowSample
from mercer.statistics.moments import Moments, MomentSum, TargetMoments, Triangular, joint_rounding

__all__ = ["LabelSum", "Labeled", "LabeledMoments"]

Array = np.ndarray
# Rows on which the scale of predicted probabilities is chosen.
CALIBRATION_ROWS = 1000


@storable
@dataclass(frozen=True)
class Labeled:
    """Target moments of label indicators, one column a label."""

    labels: Array  # (K,), sorted
    targets: TargetMoments

    def with_labels(self, labels: Array) -> Labeled:
        """Return the same with more labels; those never seen have indicators of zero."""
        union = np.union1d(self.labels, labels)
        if len(union) == len(self.labels):
            return self
        place = np.searchsorted(union, self.labels)
        m = self.targets

        def spread(values: Array) -> Array:
            out = np.zeros((*values.shape[:-1], len(union)))
            out[..., place] = values
            return out

        wider = replace(
            m, target_mean=spread(m.target_mean), cross=spread(m.cross), target_scatter=spread(m.target_scatter)
        )
        return Labeled(union, wider)

    def __add__(self, other: Labeled) -> Labeled:
        left, right = self.with_labels(other.labels), other.with_labels(self.labels)
        return Labeled(left.labels, left.targets + right.targets)

    def signed(self) -> TargetMoments:
        """Return the moments of targets +1 for the label and -1 for the others; of two labels, the second."""
        columns = slice(1, None) if len(self.labels) == 2 else slice(None)
        m = self.targets
        return replace(
            m,
            target_mean=2 * m.target_mean[columns] - 1,
            cross=2 * m.cross[:, columns],
            target_scatter=4 * m.target_scatter[columns],
        )


@storable
@dataclass(frozen=True)
class LabeledMoments(Triangular):
    """All that ridge classification needs to know of the rows it has seen."""

    gram: Array
    roundoff: float
    labeled: Labeled
    sample: RowSample  # rows on which probabilities are scaled
    shift: Array | None = None  # (D,), what the second moments are about; None means zero
    blur: Array | None = None  # (D, D), as in `Moments`

    @property
    def rows(self) -> int:
        return self.labeled.targets.rows

    @property
    def labels(self) -> Array:
        return self.labeled.labels

    def with_labels(self, labels: Array) -> LabeledMoments:
        """Return the same with more labels, that were announced but not seen."""
        return replace(self, labeled=self.labeled.with_labels(labels))

    def __add__(self, other: LabeledMoments) -> LabeledMoments:
        labeled = self.labeled + other.labeled
        gram = self.gram + other.signed().about(self.shift)
        roundoff, blur = joint_rounding(gram, self, other)
        return LabeledMoments(gram, roundoff, labeled, self.sample + other.sample, self.shift, blur)

    def transformed(self, matrix: Array) -> LabeledMoments:
        """Return the moments of features times a matrix."""
        plain = Moments(self.gram, self.labeled.targets, self.roundoff, self.shift, self.blur).transformed(matrix)
        labeled = replace(self.labeled, targets=plain.targets)
        return LabeledMoments(plain.gram, plain.roundoff, labeled, self.sample, plain.shift, plain.blur)

    def signed(self) -> Moments:
        """Return the moments of targets +1 for the label and -1 for the others."""
        return Moments(self.gram, self.labeled.signed(), self.roundoff, self.shift, self.blur)


class LabelSum(Accumulator[LabeledMoments]):
    """Moments of label indicators, whatever labels a block brings, and a sample of rows."""

    def __init__(self, features: Features, seed: int, *, double: bool, centered: bool = True) -> None:
        self._sum = MomentSum(features, double=double, centered=centered)
        self._seed = seed
        self._total: tuple[Labeled, RowSample] | None = None

    def add(self, block: Block, workers: Workers) -> None:
        # A label of no weight is not there, as if its rows were not.
        labels = np.unique(block.y if block.weight is None else block.y[block.weight > 0])
        indicators = (block.y[:, None] == labels).astype(np.float64)
        part = Labeled(labels, self._sum.add(block, indicators, workers))
        sample = RowSample.of(block, size=CALIBRATION_ROWS, seed=self._seed)
        before = self._total
        self._total = (part, sample) if before is None else (before[0] + part, before[1] + sample)

    def result(self) -> LabeledMoments:
        assert self._total is not None
        labeled, sample = self._total
        moments = self._sum.moments(labeled.targets)
        return LabeledMoments(moments.gram, moments.roundoff, labeled, sample, moments.shift)

    def restore(self, state: LabeledMoments) -> None:
        self._sum.restore(state.gram, state.roundoff, state.shift)
        self._total = (state.labeled, state.sample)
