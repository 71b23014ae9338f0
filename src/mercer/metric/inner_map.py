"""What maps of transformed rows take from their inner map."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np

from mercer.kernels import Kernel
from mercer.maps.base import BaseMap, fresh_copy

Array = np.ndarray


class MapOfTransformedRows(BaseMap):
    """A map whose parameter `feature_map` is an inner map, which is fitted to transformed rows.

    A fit sets `feature_map_`, the fitted inner map, and `_sampled_rows`, hashes of the rows that it was built from.
    """

    scales_columns: ClassVar[bool] = True
    feature_map: Any
    feature_map_: BaseMap
    kernel_: Kernel
    scales_: Array
    _sampled_rows: Array | None

    @abstractmethod
    def _inner_map(self) -> BaseMap:
        """Return the parameter `feature_map`, or the default map if it is None; raise if it cannot be an inner map."""

    def _current_map(self) -> BaseMap:
        """Return the fitted inner map, or the unfitted one before a fit."""
        return self.feature_map_ if hasattr(self, "feature_map_") else self._inner_map()

    @property
    def built_from_rows(self) -> bool:
        return self._current_map().built_from_rows

    @property
    def fitted_rows_(self) -> Array | None:
        """Hashes of the rows that the inner map was built from; None if it was not built from rows."""
        return self._sampled_rows

    @property
    def residual_is_kernel(self) -> bool:  # type: ignore[override]
        """Whether the kernel minus the approximate kernel is positive semi-definite."""
        return self._current_map().residual_is_kernel

    @property
    def kernel(self) -> Kernel | None:
        """The kernel of the inner map, of transformed rows."""
        return self._inner_map().kernel

    @property
    def width(self) -> int:
        return self.features_.n_components if hasattr(self, "features_") else self._inner_map().width

    def with_kernel(self, kernel: Kernel) -> Self:
        return fresh_copy(self, feature_map=self._inner_map().with_kernel(kernel))

    def _kernel(self) -> Kernel:
        return self._inner_map()._kernel()

    def needs_rows(self) -> bool:
        return True
