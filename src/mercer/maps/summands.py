"""Decomposition of a kernel into a constant and a weighted sum of kernels of one kind."""

from __future__ import annotations

from typing import Any

from mercer.kernels import Kernel

__all__ = ["weighted_sum"]


def weighted_sum(kernel: Kernel, kind: Any) -> tuple[float, list[tuple[float, Any]]] | None:
    """Return the constant and the weighted kernels of class `kind` that sum to the kernel.

    Returns
    -------
    constant : float
        Sum of the constant kernels.
    leaves : list of (float, kernel)
        Weights and kernels, at least one. Instead of the tuple, None is returned if the kernel is not such a sum.
    """
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
