"""Moments of label indicators, for labels that need not be known before they are seen."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mercer.engines import Accumulator, Block, RowSample, Workers
from mercer.io import storable
from mercer.learners.moments import Moments, MomentSum, TargetMoments, Triangular, joint_rounding
from mercer.maps.base import Features

__all__ = ["LabelSum", "Labelled", "LabelledMoments"]

Array = np.ndarray
# Rows on which the scale of predicted probabilities is chosen.
CALIBRATION_ROWS = 1000


@storable
@dataclass(frozen=True)
class Labelled:
    """Target moments of label indicators, one column a label."""

    labels: Array  # (K,), sorted
    targets: TargetMoments

    def with_labels(self, labels: Array) -> Labelled:
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
        return Labelled(union, wider)

    def __add__(self, other: Labelled) -> Labelled:
        left, right = self.with_labels(other.labels), other.with_labels(self.labels)
        return Labelled(left.labels, left.targets + right.targets)

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
class LabelledMoments(Triangular):
    """All that ridge classification needs to know of the rows it has seen."""

    gram: Array
    roundoff: float
    labelled: Labelled
    sample: RowSample  # rows on which probabilities are scaled
    shift: Array | None = None  # (D,), what the second moments are about; None means zero
    blur: Array | None = None  # (D, D), as in `Moments`

    @property
    def rows(self) -> int:
        return self.labelled.targets.rows

    @property
    def labels(self) -> Array:
        return self.labelled.labels

    def with_labels(self, labels: Array) -> LabelledMoments:
        """Return the same with more labels, that were announced but not seen."""
        return replace(self, labelled=self.labelled.with_labels(labels))

    def __add__(self, other: LabelledMoments) -> LabelledMoments:
        labelled = self.labelled + other.labelled
        gram = self.gram + other.signed().about(self.shift)
        roundoff, blur = joint_rounding(gram, self, other)
        return LabelledMoments(gram, roundoff, labelled, self.sample + other.sample, self.shift, blur)

    def transformed(self, matrix: Array) -> LabelledMoments:
        """Return the moments of features times a matrix."""
        plain = Moments(self.gram, self.labelled.targets, self.roundoff, self.shift, self.blur).transformed(matrix)
        labelled = replace(self.labelled, targets=plain.targets)
        return LabelledMoments(plain.gram, plain.roundoff, labelled, self.sample, plain.shift, plain.blur)

    def signed(self) -> Moments:
        """Return the moments of targets +1 for the label and -1 for the others."""
        return Moments(self.gram, self.labelled.signed(), self.roundoff, self.shift, self.blur)


class LabelSum(Accumulator[LabelledMoments]):
    """Moments of label indicators, whatever labels a block brings, and a sample of rows."""

    def __init__(self, features: Features, seed: int, *, double: bool, centred: bool = True) -> None:
        self._sum = MomentSum(features, double=double, centred=centred)
        self._seed = seed
        self._total: tuple[Labelled, RowSample] | None = None

    def add(self, block: Block, workers: Workers) -> None:
        # A label of no weight is not there, as if its rows were not.
        labels = np.unique(block.y if block.weight is None else block.y[block.weight > 0])
        indicators = (block.y[:, None] == labels).astype(np.float64)
        part = Labelled(labels, self._sum.add(block, indicators, workers))
        sample = RowSample.of(block, size=CALIBRATION_ROWS, seed=self._seed)
        before = self._total
        self._total = (part, sample) if before is None else (before[0] + part, before[1] + sample)

    def result(self) -> LabelledMoments:
        assert self._total is not None
        labelled, sample = self._total
        moments = self._sum.moments(labelled.targets)
        return LabelledMoments(moments.gram, moments.roundoff, labelled, sample, moments.shift)

    def restore(self, state: LabelledMoments) -> None:
        self._sum.restore(state.gram, state.roundoff, state.shift)
        self._total = (state.labelled, state.sample)
