"""The map `SumMap` for sums of kernels: it concatenates the features of the terms."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import partial, reduce
from typing import Any, ClassVar, Self

import numpy as np

from mercer._docs import doc
from mercer.engines import Engine, Report, enter_stage
from mercer.errors import ParameterError
from mercer.kernels import Constant, Kernel, Matern, Polynomial
from mercer.maps.algebra.copies import (
    MixedFeatures,
    Sample,
    check_real,
    check_unsigned,
    draw_components,
    mixed,
    squared_error,
)
from mercer.maps.algebra.joined import MultipliedFeatures, StackedFeatures
from mercer.maps.algebra.parts import Combination, Parts, best_draw, unbiased_parts, warn_of_zeros
from mercer.maps.base import BaseMap, DrawnMap, fresh_copy
from mercer.maps.series.allocation import apportion
from mercer.statistics.sample import seed_of

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
        numbers are chosen; see `maps_`. With ``kernel=None`` and a map among them that has no kernel of its own before
        it is fitted, such as `GraphBasis` or `Deformed`, all maps are fitted to the rows as they are given, with their
        own kernels and numbers of components, and their features are concatenated.
    weights : sequence of float, default=None
        Weights > 0 of the kernels of such maps; None means that all are one.
    %(random_state, n_jobs)s

    Attributes
    ----------
    maps_ : tuple of BaseMap
        The unfitted maps of the terms, with the numbers of components that were chosen; or the fitted maps, where they
        have kernels of their own. If a term can be represented
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
    maps_: tuple[BaseMap, ...]

    def __init__(
        self,
        kernel: Kernel | None = None,
        n_components: int = 512,
        *,
        maps: Sequence[BaseMap] | None = None,
        weights: Sequence[float] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.maps = maps
        self.weights = weights
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

    # ---- maps with kernels of their own -------------------------------------------------------

    @property
    def _joins(self) -> bool:
        """Whether the maps are fitted as they are given, since one of them does not approximate a given kernel."""
        if self.kernel is not None or self.maps is None:
            return False
        return any(isinstance(m, BaseMap) and not isinstance(m, DrawnMap) for m in self.maps)

    def _weights(self) -> Array:
        """Return the weights of the kernels of joined maps."""
        assert self.maps is not None
        if self.weights is None:
            return np.ones(len(self.maps))
        weights = np.asarray(self.weights, dtype=np.float64)
        if weights.shape != (len(self.maps),) or not (np.isfinite(weights).all() and (weights > 0).all()):
            msg = f"SumMap: weights must be {len(self.maps)} finite numbers > 0, one per map, got {self.weights!r}."
            raise ParameterError(msg)
        return weights

    def check(self) -> None:
        super().check()
        if not self._joins:
            if self.weights is not None:
                msg = (
                    "SumMap: weights are for maps with kernels of their own, such as GraphBasis. Multiply the terms of "
                    "the kernel by their weights instead: 2.0 * k1 + k2."
                )
                raise ParameterError(msg)
            return
        assert self.maps is not None
        self._weights()
        for part in self.maps:
            if not isinstance(part, BaseMap) or part.uses_targets:
                msg = f"SumMap: maps must be mercer maps that do not learn from targets, got {part!r}."
                raise ParameterError(msg)
            part.check()

    def _kernel(self) -> Kernel:
        if not self._joins:
            return super()._kernel()
        assert self.maps is not None
        return reduce(operator.add, [part._kernel() for part in self.maps])

    def needs_rows(self) -> bool:
        return True if self._joins else super().needs_rows()

    @property
    def width(self) -> int:
        if not self._joins:
            return super().width
        assert self.maps is not None
        return sum(part.width for part in getattr(self, "maps_", self.maps))

    @property
    def refuses_rows(self) -> str | None:
        if not self._joins:
            return super().refuses_rows
        assert self.maps is not None
        return next((part.refuses_rows for part in self.maps if part.refuses_rows is not None), None)

    def _fit_costs(self, n: int, d: int) -> dict[str, float]:
        if not self._joins:
            return super()._fit_costs(n, d)
        assert self.maps is not None
        costs: dict[str, Any] = {}
        for part in self.maps:
            for name, cost in part.fit_costs(n, d).items():
                costs[name] = None if cost is None or costs.get(name, 0.0) is None else costs.get(name, 0.0) + cost
        return costs

    def fit_engine(self, engine: Engine, report: Report | None = None) -> Self:
        if not self._joins:  # as in the base class, without a further frame, from which warnings count
            enter_stage(report, "fit map")
            return self.fit_sample(*self._sample(engine, report), report)
        self.check()
        assert self.maps is not None
        names = [set(part.get_params(deep=False)) for part in self.maps]
        fitted = []
        for i, part in enumerate(self.maps):
            changes: dict[str, Any] = {}
            if self.random_state is not None and "random_state" in names[i] and part.random_state is None:
                changes["random_state"] = seed_of(self.random_state, f"part {i}") % 2**32
            if self.n_jobs is not None and "n_jobs" in names[i]:
                changes["n_jobs"] = self.n_jobs
            fitted.append(fresh_copy(part, **changes).fit_engine(engine, report))
        roots = np.sqrt(self._weights()).tolist()
        features = tuple(
            part.features_ if root == 1 else MultipliedFeatures(part.features_, root)
            for part, root in zip(fitted, roots, strict=True)
        )
        for part in fitted:
            check_real(part, part.features_)
        self.maps_ = tuple(fitted)
        kernels = [weighted(part.kernel_, root**2) for part, root in zip(fitted, roots, strict=True)]
        self.kernel_ = reduce(operator.add, kernels)
        self.n_features_in_ = fitted[0].n_features_in_
        self.features_ = StackedFeatures(features, sum(part.n_components for part in features))
        self.signs_ = self.features_.signs
        hashes = [part.fitted_rows_ for part in fitted if part.fitted_rows_ is not None]
        self.fitted_rows_ = np.unique(np.concatenate(hashes)) if hashes else None
        self._n_features_out = self.features_.n_components
        return self

    # ---- maps for the terms of a kernel -------------------------------------------------------

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
