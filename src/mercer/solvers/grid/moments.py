"""Second moments of the features of a grid, for all learners that need them as a matrix."""

from __future__ import annotations

import numpy as np

from mercer.engines import Block
from mercer.features import Features
from mercer.maps.fourier.frequency_grids import GridFeatures
from mercer.solvers.grid.systems import System
from mercer.solvers.grid.tuning import PartAngles
from mercer.statistics.grid_sums import GridSum, GridSums, TargetScale
from mercer.statistics.moments import Moments, TargetMoments

__all__ = ["GridMomentSum", "sums_on_grid"]

Array = np.ndarray
# Relative error of the sums.
EPS = 1e-12


def sums_on_grid(features: Features) -> bool:
    """Return whether second moments of features are sums on a grid of frequencies, without products of matrices."""
    return isinstance(features, GridFeatures) and len(features.parts) == 1


class GridMomentSum(GridSum):
    """Accumulator of sums on a grid, whose `finish` returns `Moments`.

    Parameters
    ----------
    features : GridFeatures
        Features of a grid with one part.
    first : Block
        Some rows with targets: their mean and size are those by which targets are scaled in the sums.
    """

    def __init__(self, features: Features, first: Block) -> None:
        assert isinstance(features, GridFeatures)
        (part,) = features.parts
        y = np.asarray(first.y, dtype=np.float64)
        size = np.abs(y - y.mean(axis=0)).max(axis=0)
        self._grid_scale = TargetScale(y.mean(axis=0), np.where(size > 0, size, 1.0))
        self._features = features
        super().__init__(PartAngles(part, strict=True), part.highest, self._grid_scale, EPS)

    def finish(self, total: GridSums) -> Moments:  # type: ignore[override]
        """Return the moments of the features, given the sum over all rows."""
        features, scale = self._features, self._grid_scale
        (part,) = features.parts
        mean = scale.center + scale.size * total.target_sum / max(total.weight, 1e-300)
        system = System.of_grid(total, part.index, scale, mean, constant=features.constant > 0)
        roots, D = features.roots(), features.n_components
        gram, cross, first = np.zeros((D, D)), np.zeros((D, len(mean))), np.zeros(D)
        width = len(roots)  # if one component is left over, it is zero
        gram[:width, :width] = system.gram.block(np.arange(width)) * roots * roots[:, None]
        cross[:width] = roots[:, None] * system.cross * scale.size
        first[:width] = roots * system.gram.block_sums()
        scatter = system.squares * np.square(scale.size)
        targets = TargetMoments(total.rows, total.weight, first, mean, cross, scatter)
        return Moments(gram, targets, roundoff=EPS)
