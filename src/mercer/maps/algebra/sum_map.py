"""Maps of sums of kernels: the features of the terms, side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mercer.kernels import Constant, Kernel, Matern, Polynomial
from mercer.maps.algebra.copies import MixedFeatures, check_unsigned, draw_columns, mixed, pilot_rows
from mercer.maps.algebra.joined import StackedFeatures
from mercer.maps.algebra.parts import _PartsMap
from mercer.maps.base import BaseMap
from mercer.maps.drawn import DrawnMap
from mercer.maps.series.allocation import apportion

__all__ = ["SumMap"]

Array = np.ndarray
# Pilot draws of the terms of a sum, each at widths that the one before proposes.
PILOT_ROUNDS = 4


class SumMap(_PartsMap):
    """Features of a sum of kernels: the features of its terms, side by side.

    Parameters
    ----------
    kernel : Sum, default=None
        Kernel to approximate; None means ``Matern(lengthscale="median") + Polynomial(2)``.
    n_components : int, default=512
        Width of the output, from 1 up; of fewer columns than there are terms, each sums up all terms.
    maps : sequence of BaseMap, default=None
        An unfitted map for each term; None takes the default map of each. Widths are chosen for them.
    random_state : int, Generator, RandomState or None, default=None
        Seed; an int makes repeated fits identical.
    n_jobs : int or None, default=None
        Threads of `transform`; None means all cores. The result does not depend on it.

    Attributes
    ----------
    maps_ : tuple of BaseMap
        The maps of the terms, unfitted, with the widths drawn: as many columns as make a term exact, if they are few,
        else in proportion to the root of the variance in a pilot draw, which minimizes the sum.
    kernel_ : Kernel
        The kernel with every parameter a number.
    features_ : StackedFeatures
        The drawn map: a pure function of rows.
    n_features_in_ : int
        Width of the rows seen in `fit`.

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
    preference: ClassVar[int] = 70
    default_kernel: ClassVar[Kernel] = Matern(lengthscale="median") + Polynomial(2)
    features_: StackedFeatures | MixedFeatures

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

    @staticmethod
    def parts_of(kernel: Kernel) -> tuple[Kernel, ...]:
        return tuple(weighted(term, weight) for weight, term in kernel.summands())

    @staticmethod
    def join(left: Kernel, right: Kernel) -> Kernel:
        return left + right

    def exact_columns(self, kernel: Kernel, n_features: int) -> int | None:
        columns = sum(self._exact_parts(kernel, n_features))
        return None if math.isinf(columns) else int(columns)

    def _draw(
        self, kernel: Kernel, X: Any, weight: Array | None, rng: np.random.Generator
    ) -> StackedFeatures | MixedFeatures:
        maps, parts = self._maps(kernel), self._parts(kernel)
        narrow = self.n_components < len(parts)
        widths = np.ones(len(parts), dtype=int) if narrow else self._widths(kernel, maps, X, weight, rng)
        self.maps_ = tuple(m.set_params(n_components=int(w)) for m, w in zip(maps, widths, strict=True))
        drawn = [
            draw_columns(m, part, X, weight, m.n_components, rng) for m, part in zip(self.maps_, parts, strict=True)
        ]
        if narrow:
            for part_map, features in zip(self.maps_, drawn, strict=True):
                check_unsigned(part_map, features)
            stacked = StackedFeatures(tuple(drawn), len(parts))
            return mixed(self, stacked, self.n_components, rng, scale=self.n_components**-0.5)
        self._warn_of_zeros(int(widths.sum()))
        return StackedFeatures(tuple(drawn), self.n_components)

    def _widths(
        self, kernel: Kernel, maps: Sequence[DrawnMap], X: Any, weight: Array | None, rng: np.random.Generator
    ) -> Array:
        """Return how many columns each term has: those that make it exact, if they are few, else by variance."""
        parts = self._parts(kernel)
        exact = np.array(self._exact_parts(kernel, X.shape[1]))
        fair = self.n_components // len(parts)
        small = np.where(exact <= fair, exact, 0).astype(int)
        drawn = np.flatnonzero(exact > fair).tolist()
        free = self.n_components - int(small.sum())
        share = share_up_to(exact[drawn], np.ones(len(drawn)), free)
        best, least = share, np.inf
        for _ in range(PILOT_ROUNDS if len(drawn) > 1 else 0):  # a single one takes what there is
            error = np.array(
                [self._error(maps[i], parts[i], int(m), X, weight, rng) for i, m in zip(drawn, share, strict=True)]
            )
            if error.sum() >= least:
                break
            best, least = share, float(error.sum())
            # The best if errors fall as one over the width; maps of exact columns may ask for another round.
            share = share_up_to(exact[drawn], np.sqrt(error * share), free)
        small[drawn] = best
        return small

    @staticmethod
    def _error(
        part_map: DrawnMap, part: Kernel, width: int, X: Any, weight: Array | None, rng: np.random.Generator
    ) -> float:
        """Return the mean square error of a pilot draw."""
        pilot, pair_weights = pilot_rows(X, weight, rng)
        features = draw_columns(part_map, part, X, weight, width, rng)
        Z = np.empty((pilot.shape[0], width))
        features.astype(np.float64)(pilot, Z)
        signs = getattr(features, "signs", None)
        gram = (Z if signs is None else Z * signs) @ Z.T
        return float(np.sum(pair_weights * np.square(gram - part(pilot))))


def weighted(kernel: Kernel | None, weight: float) -> Kernel:
    """Return a kernel times a weight; None stands for the constant one."""
    if kernel is None:
        return Constant(weight)
    return kernel if weight == 1 else weight * kernel


def share_up_to(most: Array, weights: Array, columns: int) -> Array:
    """Return whole numbers of columns in proportion to weights, at least one and at most so many each."""
    widths = np.ones(len(most), dtype=int)
    full = np.zeros(len(most), dtype=bool)
    while not full.all():
        widths[~full] = apportion(weights[~full], columns - int(widths[full].sum()))
        over = widths > most
        if not over.any():
            break
        widths[over] = most[over]
        full |= over
    return widths
