"""What maps of sums and of products of kernels share: parts of the kernel, and a map for each."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Sequence

from mercer.errors import MercerWarning, ParameterError
from mercer.kernels import Kernel
from mercer.maps.algebra.copies import PILOT_ROWS
from mercer.maps.base import BaseMap
from mercer.maps.drawn import DrawnMap, drawn_for, explicit_map, maps_for


class _PartsMap(DrawnMap):
    """What maps of sums and products share: parts, and a map for each."""

    maps: Sequence[BaseMap] | None
    maps_: tuple[DrawnMap, ...]

    @staticmethod
    @abstractmethod
    def parts_of(kernel: Kernel) -> tuple[Kernel, ...]:
        """Return the terms or factors of a kernel."""

    @staticmethod
    @abstractmethod
    def join(left: Kernel, right: Kernel) -> Kernel:
        """Put two parts together again."""

    @classmethod
    def groups_of(cls, kernel: Kernel) -> tuple[Kernel, ...]:
        """Return the parts of a kernel, those joined that one map serves together."""
        groups: list[Kernel] = []
        for part in cls.parts_of(kernel):
            for i, group in enumerate(groups):
                if maps_for(cls.join(group, part), below=cls.preference):
                    groups[i] = cls.join(group, part)
                    break
            else:
                groups.append(part)
        return tuple(groups)

    @classmethod
    def accepts(cls, kernel: Kernel) -> bool:
        if len(cls.parts_of(kernel)) == 1:
            return False
        groups = cls.groups_of(kernel)
        if len(groups) == 1:  # one map serves the whole; asking for all maps of it would lead back here
            return explicit_map(groups[0], below=cls.preference) is not None
        return all(explicit_map(group) is not None for group in groups)

    @property
    def unbiased(self) -> bool | str:
        biased = [m for m in getattr(self, "maps_", self.maps or ()) if m.unbiased is not True]
        return f"{type(biased[0]).__name__} is biased: {biased[0].unbiased}" if biased else True

    def rows_wanted(self) -> int:
        return max(super().rows_wanted(), PILOT_ROWS, *(m.rows_wanted() for m in self._maps(self._kernel())))

    def _accepted(self, kernel: Kernel) -> Kernel:
        if self.maps is None:
            return super()._accepted(kernel)
        for part_map, part in zip(self._maps(kernel), self.parts_of(kernel), strict=True):
            part_map._accepted(part)
        return kernel

    def _parts(self, kernel: Kernel) -> tuple[Kernel, ...]:
        """Return the kernels that have a map each: with maps of the user's own, one for each part."""
        return self.groups_of(kernel) if self.maps is None else self.parts_of(kernel)

    def _maps(self, kernel: Kernel) -> tuple[DrawnMap, ...]:
        """Return an unfitted map for each part."""
        parts = self._parts(kernel)
        if self.maps is None:
            found = tuple(explicit_map(part) for part in parts)
            return tuple(m for m in found if m is not None)  # `accepts` has seen to it that there is one for each
        if len(self.maps) != len(parts) or not all(isinstance(m, BaseMap) for m in self.maps):
            msg = (
                f"{type(self).__name__}: maps must be one mercer map for each of the {len(parts)} parts of {kernel!r}, "
                f"got {self.maps!r}."
            )
            raise ParameterError(msg)
        return tuple(drawn_for(m, part) for m, part in zip(self.maps, parts, strict=True))

    def _exact_parts(self, kernel: Kernel, n_features: int) -> list[float]:
        """Return how many columns make each part exact, infinitely many if none do."""
        maps, parts = self._maps(kernel), self._parts(kernel)
        return [columns_if_exact(m, part, n_features) for m, part in zip(maps, parts, strict=True)]

    def _warn_of_zeros(self, used: int) -> None:
        if used < self.n_components:
            msg = (
                f"{type(self).__name__}: {used} columns make the map exact; the last {self.n_components - used} of "
                f"n_components={self.n_components} are zero."
            )
            warnings.warn(msg, MercerWarning, stacklevel=6)


def columns_if_exact(part_map: DrawnMap, part: Kernel, n_features: int) -> float:
    """Return how many columns make a map exact, at least one, or infinity if none do."""
    columns = part_map.exact_columns(part, n_features)
    return math.inf if columns is None else max(columns, 1)
