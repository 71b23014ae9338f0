"""Features that look at one column of the rows each: taking kernels apart, and sparse rows entry by entry."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mercer.kernels import Kernel
from mercer.kernels.histogram import canonical

__all__ = ["Index", "weighted_sum"]

Array = np.ndarray


def weighted_sum(kernel: Kernel, kind: Any) -> tuple[float, list[tuple[float, Any]]] | None:
    """Return a constant and weighted kernels of one kind whose sum the kernel is, or None if it is no such sum."""
    constant = 0.0
    leaves: list[tuple[float, Any]] = []
    for weight, leaf in kernel.summands():
        if leaf is None:
            constant += weight
        elif isinstance(leaf, kind):
            leaves.append((weight, leaf))
        else:
            return None
    return (constant, leaves) if leaves else None


@dataclass(frozen=True, eq=False)
class Index:
    """Which column of the rows each of m features looks at."""

    columns: Array  # (m,)
    d: int

    @cached_property
    def order(self) -> Array:
        """Features sorted by the column they look at."""
        return np.argsort(self.columns, kind="stable")

    @cached_property
    def starts(self) -> Array:
        """Where each of the d columns begins in that order, and the end: (d + 1,)."""
        return np.concatenate([[0], np.cumsum(np.bincount(self.columns, minlength=self.d))])

    def entries(self, X: Any) -> tuple[Array, Array, Array]:
        """Return row, feature and value for each entry of CSR rows and each feature that looks at its column."""
        X = canonical(X)
        rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        counts = np.diff(self.starts)[X.indices]
        ends = np.cumsum(counts)
        within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)
        features = self.order[np.repeat(self.starts[X.indices], counts) + within]
        return np.repeat(rows, counts), features, np.repeat(X.data, counts)
