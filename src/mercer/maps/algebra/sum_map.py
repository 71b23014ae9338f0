"""The map `SumMap` for sums of kernels: it concatenates the features of the terms."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from mercer._docs import doc
from mercer.kernels import Constant, Kernel, Matern, Polynomial
from mercer.maps.algebra.copies import MixedFeatures, Sample, check_unsigned, draw_components, mixed, squared_error
from mercer.maps.algebra.joined import StackedFeatures
from mercer.maps.algebra.parts import Combination, Parts, best_draw, unbiased_parts, warn_of_zeros
from mercer.maps.base import BaseMap, DrawnMap
from mercer.maps.series.allocation import apportion

__all__ = ["SumMap"]

Array = np.ndarray
# Largest number of pilot samples. The errors of a pilot sample determine the numbers of components of the next one.
PILOT_ROUNDS = 4


def weighted(kernel: Kernel | None, weight: float) -> Kernel:
    """Return weight * kernel, or the constant kernel of value `weight` if `kernel` is None."""
    if kernel is None:
        return Constant(weight)
    return kernel if weight == 1 else weight * kernel


def terms(kernel: Kernel) -> tuple[Kernel, ...]:
    """Return the terms of a sum of kernels, each multiplied by its weight."""
    return tuple(weighted(term, weight) for weight, term in kernel.summands())


SUMS = Combination(terms, operator.add)


@doc
class SumMap(DrawnMap):
    """Features of a sum of kernels: the features of its terms, concatenated.

    Parameters
    ----------
    kernel : Sum, default=None
        Kernel to approximate; None means ``Matern(lengthscale="median") + Polynomial(2)``.
    n_components : int, default=512
        Number of components of the output, at least 1. If there are fewer components than terms, each component is a
        random combination of all terms.
    maps : sequence of BaseMap, default=None
        An unfitted map for each term; None means the default maps. The `n_components` of these maps is ignored, and new
        numbers are chosen; see `maps_`.
    %(random_state, n_jobs)s

    Attributes
    ----------
    maps_ : tuple of BaseMap
        The unfitted maps of the terms, with the numbers of components that were chosen. If a term can be represented
        exactly by at most n_components / (number of terms) components, its map is exact. The components that remain are
        divided among the other terms in proportion to the square roots of their variances, which are estimated from
        pilot samples. This division minimizes the total variance.
    features_ : StackedFeatures
        The sampled features: a function from rows to features.
    %(kernel_, n_features_in_)s

    See Also
    --------
    ProductMap : Features of a product of kernels.
    CompositionMap : Features of a power series of a kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Gaussian, Polynomial, SumMap, Transformed
    >>> X = np.random.default_rng(0).normal(size=(100, 4))
    >>> kernel = Transformed(Gaussian(), columns=(0, 1)) + Transformed(Polynomial(2), columns=(2, 3))
    >>> feature_map = SumMap(kernel, n_components=1024, random_state=0).fit(X)
    >>> bool(abs(feature_map.gram(X) - kernel(X)).max() < 0.2)
    True
    """

    needs: ClassVar[str] = "a sum of kernels that each have an unbiased map"
    default_kernel: ClassVar[Kernel] = Matern(lengthscale="median") + Polynomial(2)
    features_: StackedFeatures | MixedFeatures
    maps_: tuple[DrawnMap, ...]

    def __init__(
        self,
        kernel: Kernel | None = None,
        n_components: int = 512,
        *,
        maps: Sequence[BaseMap] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.maps = maps
        self.random_state = random_state
        self.n_jobs = n_jobs

    @classmethod
    def accepts(cls, kernel: Kernel) -> bool:
        return SUMS.accepts(kernel)

    @property
    def unbiased(self) -> bool | str:
        return unbiased_parts(getattr(self, "maps_", self.maps))

    @property
    def built_from_rows(self) -> bool:
        return any(part.built_from_rows for part in getattr(self, "maps_", self.maps) or ())

    def _rows_to_draw(self) -> int:
        return SUMS.parts_of(self, self._kernel()).rows_wanted()

    def _parts_accept(self, kernel: Kernel) -> bool:
        return SUMS.check_given(self, kernel)

    def _exact_at(self, kernel: Kernel, n_features: int) -> int | None:
        total = sum(SUMS.parts_of(self, kernel).exact_components(n_features))
        return None if math.isinf(total) else int(total)

    def _draw(
        self, kernel: Kernel, X: Any, weight: Array | None, rng: np.random.Generator
    ) -> StackedFeatures | MixedFeatures:
        parts, sample = SUMS.parts_of(self, kernel), Sample(X, weight, rng)
        separated = None if self.maps is not None else SUMS.separated(parts)
        draw = partial(self._draw_parts, sample=sample)
        parts, features = best_draw(draw, kernel, parts, separated, sample, self.n_components)
        self.maps_ = parts.maps
        if isinstance(features, StackedFeatures):
            warn_of_zeros(self, sum(part.n_components for part in features.parts), stacklevel=5)
        return features

    def _draw_parts(self, parts: Parts, sample: Sample) -> StackedFeatures | MixedFeatures:
        """Sample the maps of the terms, with the numbers of components that have the least error."""
        narrow = self.n_components < len(parts.kernels)
        widths = np.ones(len(parts.kernels), dtype=int) if narrow else self._widths(parts, sample)
        for part_map, width in zip(parts.maps, widths, strict=True):
            part_map.set_params(n_components=int(width))
        drawn = [
            draw_components(m, part, sample, m.n_components) for m, part in zip(parts.maps, parts.kernels, strict=True)
        ]
        if narrow:
            for part_map, features in zip(parts.maps, drawn, strict=True):
                check_unsigned(part_map, features)
            stacked = StackedFeatures(tuple(drawn), len(parts.kernels))
            return mixed(self, stacked, self.n_components, sample.rng, scale=self.n_components**-0.5)
        return StackedFeatures(tuple(drawn), self.n_components)

    def _widths(self, parts: Parts, sample: Sample) -> Array:
        """Return the number of components for each term of the sum.

        If a term can be represented exactly by m <= n_components / (number of terms) components, it gets m. The
        remaining components are divided among the other terms so that the mean squared error, measured on pilot
        samples, is least.
        """
        exact = np.array(parts.exact_components(sample.X.shape[1]))
        fair = self.n_components // len(exact)
        small = np.where(exact <= fair, exact, 0).astype(int)
        drawn = np.flatnonzero(exact > fair).tolist()
        free = self.n_components - int(small.sum())
        share = share_up_to(exact[drawn], np.ones(len(drawn)), free)
        best, least = share, np.inf
        for _ in range(PILOT_ROUNDS if len(drawn) > 1 else 0):  # a single term takes all that is free
            error = np.array([
                pilot_error(parts.maps[i], parts.kernels[i], int(m), sample)
                for i, m in zip(drawn, share, strict=True)
            ])  # fmt: skip
            if error.sum() >= least:
                break
            best, least = share, float(error.sum())
            # Optimal if errors are inversely proportional to the width; for maps that become exact they are not.
            share = share_up_to(exact[drawn], np.sqrt(error * share), free)
        small[drawn] = best
        return small


def pilot_error(part_map: DrawnMap, part: Kernel, width: int, sample: Sample) -> float:
    """Sample a map of the kernel `part` with `width` components, and return its mean squared error.

    The mean is over pairs of pilot rows.
    """
    return squared_error(draw_components(part_map, part, sample, width), part, sample)


def share_up_to(most: Array, weights: Array, total: int) -> Array:
    """Divide `total` components among terms in proportion to `weights`. Term i gets between 1 and ``most[i]``."""
    widths = np.ones(len(most), dtype=int)
    full = np.zeros(len(most), dtype=bool)
    while not full.all():
        widths[~full] = apportion(weights[~full], total - int(widths[full].sum()))
        over = widths > most
        if not over.any():
            break
        widths[over] = most[over]
        full |= over
    return widths
