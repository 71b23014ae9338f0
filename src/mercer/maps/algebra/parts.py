"""Decomposition of sums and products of kernels into their parts, with a map for each part."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from mercer.errors import DataError, MercerWarning, ParameterError
from mercer.features import Features
from mercer.kernels import Kernel
from mercer.maps.algebra.copies import PILOT_ROWS, Sample, squared_error
from mercer.maps.base import BaseMap, DrawnMap, drawn_for
from mercer.maps.registry import explicit_map, maps_for

__all__ = ["Combination", "Parts", "best_draw", "unbiased_parts", "warn_of_zeros"]


SomeFeatures = TypeVar("SomeFeatures", bound=Features)


class HasMaps(Protocol):
    """A map with a parameter `maps`: the maps that the user passed for the parts of the kernel, or None."""

    maps: Sequence[BaseMap] | None


@dataclass(frozen=True)
class Parts:
    """The terms of a sum of kernels, or the factors of a product, and an unfitted map for each of them."""

    kernels: tuple[Kernel, ...]
    maps: tuple[DrawnMap, ...]

    def rows_wanted(self) -> int:
        """Return the number of rows that are needed to fit the maps and to measure the errors of pilot samples."""
        return max(PILOT_ROWS, *(part_map.rows_wanted() for part_map in self.maps))

    def exact_components(self, n_features: int) -> list[float]:
        """Return the least number >= 1 of components with which the map of each part is exact; inf if it never is."""
        found = (m.exact_components(k, n_features) for m, k in zip(self.maps, self.kernels, strict=True))
        return [math.inf if count is None else max(count, 1) for count in found]


@dataclass(frozen=True)
class Combination:
    """An operation on kernels, sum or product. `split` returns the parts of a kernel, and `join` combines two parts."""

    split: Callable[[Kernel], tuple[Kernel, ...]]
    join: Callable[[Kernel, Kernel], Kernel]

    def groups_of(self, kernel: Kernel) -> tuple[Kernel, ...]:
        """Return the parts of a kernel, some of them joined.

        Parts are joined to one part if the module `registry` has a map for their sum or product as a whole.
        """
        groups: list[Kernel] = []
        for part in self.split(kernel):
            for i, group in enumerate(groups):
                if maps_for(self.join(group, part), direct=True):
                    groups[i] = self.join(group, part)
                    break
            else:
                groups.append(part)
        return tuple(groups)

    def accepts(self, kernel: Kernel) -> bool:
        """Return whether a kernel has several parts, all of which have unbiased maps."""
        if len(self.split(kernel)) == 1:
            return False
        groups = self.groups_of(kernel)
        if len(groups) == 1:  # direct maps only: the search for composed maps would call this function again
            return explicit_map(groups[0], direct=True) is not None
        return all(explicit_map(group) is not None for group in groups)

    def parts_of(self, owner: HasMaps, kernel: Kernel) -> Parts:
        """Return the parts of a kernel, each with the map that the user passed for it, or else with its default map."""
        if owner.maps is None:
            groups = self.groups_of(kernel)
            found = (explicit_map(group) for group in groups)
            return Parts(groups, tuple(m for m in found if m is not None))  # `accepts` made sure that there are maps
        kernels = self.split(kernel)
        if len(owner.maps) != len(kernels) or not all(isinstance(m, BaseMap) for m in owner.maps):
            msg = (
                f"{type(owner).__name__}: maps must be one mercer map for each of the {len(kernels)} parts of "
                f"{kernel!r}, got {owner.maps!r}."
            )
            raise ParameterError(msg)
        return Parts(kernels, tuple(drawn_for(m, part) for m, part in zip(owner.maps, kernels, strict=True)))

    def separated(self, parts: Parts) -> Parts | None:
        """Return the parts with joined parts separated again if the error of their map may exceed the kernel.

        Such a map has a `_predicted_error`. None is returned if there is no such map for a joined part, or if a
        separated part has no unbiased map.
        """
        kernels: list[Kernel] = []
        for part, part_map in zip(parts.kernels, parts.maps, strict=True):
            kernels += (part,) if part_map._predicted_error is None else self.split(part)
        found = [explicit_map(kernel) for kernel in kernels]
        maps = tuple(m for m in found if m is not None)
        return Parts(tuple(kernels), maps) if len(maps) == len(kernels) > len(parts.kernels) else None

    def check_given(self, owner: HasMaps, kernel: Kernel) -> bool:
        """Return whether the user passed maps for the parts. Raise if one of these maps cannot approximate its part."""
        if owner.maps is None:
            return False
        parts = self.parts_of(owner, kernel)
        for part_map, part in zip(parts.maps, parts.kernels, strict=True):
            part_map._accepted(part)
        return True


def best_draw(
    draw: Callable[[Parts], SomeFeatures],
    kernel: Kernel,
    parts: Parts,
    separated: Parts | None,
    sample: Sample,
    count: int,
) -> tuple[Parts, SomeFeatures]:
    """Return the parts of a kernel, joined or separated, whose features have less error, and these features.

    Parameters
    ----------
    draw : callable
        Takes parts and returns sampled features of the kernel.
    kernel : Kernel
        The kernel.
    parts, separated : Parts
        The parts of the kernel, and the same parts after `Combination.separated`, or None.
    sample : Sample
        Rows on which the error is measured.
    count : int
        Number of components of the map.

    Returns
    -------
    parts : Parts
    features : Features
    """
    predicted = _predicted_error(parts, kernel, sample, count)
    if separated is None or predicted == 0:
        return parts, draw(parts)
    try:
        error = squared_error(draw(separated), kernel, sample)
    except ParameterError:  # too few components for separate maps, or a part with negative coefficients
        return parts, draw(parts)
    joined = squared_error(draw(parts), kernel, sample) if predicted is None else predicted * predicted
    # The features are sampled again: those whose error decided would not be unbiased.
    chosen = parts if joined <= error else separated
    return chosen, draw(chosen)


def _predicted_error(parts: Parts, kernel: Kernel, sample: Sample, count: int) -> float | None:
    """Return the predicted error of the map of a single joined part; None if there are several parts.

    One sample of a map with rare large values usually has much less error than the map has on average, so that this
    error cannot be measured. It is infinite if the rows are too far away for the map.
    """
    if len(parts.maps) > 1:
        return None
    [part_map] = parts.maps
    predicted = part_map.set_params(n_components=max(count, part_map.least_components(kernel)))._predicted_error
    if predicted is None:
        return None
    try:
        return predicted(kernel, sample.X, sample.weight, sample.rng)
    except DataError:
        return math.inf


def unbiased_parts(maps: Sequence[BaseMap] | None) -> bool | str:
    """Return True if all maps are unbiased, else a string that names the first biased map and says why it is biased."""
    biased = [m for m in maps or () if m.unbiased is not True]
    return f"{type(biased[0]).__name__} is biased: {biased[0].unbiased}" if biased else True


def warn_of_zeros(owner: DrawnMap, used: int, stacklevel: int) -> None:
    """Warn if the map `owner` is exact with `used` < n_components components, so that its other components are zero."""
    if used < owner.n_components:
        msg = (
            f"{type(owner).__name__}: {used} components make the map exact; the last {owner.n_components - used} of "
            f"n_components={owner.n_components} are zero."
        )
        warnings.warn(msg, MercerWarning, stacklevel=stacklevel + 1)
