"""The kernel of the smoothest functions of a graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mercer.errors import ParameterError
from mercer.features import rows_to_features
from mercer.graphs.basis.extension import GraphFeatures
from mercer.kernels.base import Kernel

__all__ = ["GraphKernel"]

Array = np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class GraphKernel(Kernel):
    """The kernel of the smoothest functions of a graph, which a `GraphBasis` map represents exactly.

    Parameters
    ----------
    features : GraphFeatures or None, default=None
        The features; None before a graph is built, when the kernel has no values.
    """

    features: Any = None

    structure: ClassVar[str] = "the kernel of a graph of rows, known by its values only"
    sparse_formulas: ClassVar[bool] = True

    def __repr__(self) -> str:
        if self.features is None:
            return "GraphKernel()"
        return f"GraphKernel({self.features.vectors.shape[0]} nodes, {self.features.n_components} components)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GraphKernel):
            return NotImplemented
        return self.features is other.features

    def __hash__(self) -> int:
        return hash((GraphKernel, id(self.features)))

    def _lengthscale_columns(self, columns: Array) -> tuple[Array, ...]:
        return (columns,)  # neighbors are near in all columns together

    def _features(self, X: Any) -> Array:
        if self.features is None:
            msg = "GraphKernel has no values before its graph is built. Use kernel_ of a fitted GraphBasis."
            raise ParameterError(msg)
        assert isinstance(self.features, GraphFeatures)
        return rows_to_features(self.features, X)

    def _values(self, X: Any, Y: Any) -> Array:
        return self._features(X) @ self._features(Y).T

    def _diagonal(self, X: Any) -> Array:
        return np.square(self._features(X)).sum(axis=1)
