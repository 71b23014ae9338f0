"""Decomposition of a kernel into a constant plus a weighted sum of kernels of a given class."""

from __future__ import annotations

from typing import Any

from mercer.kernels import Kernel

__all__ = ["weighted_sum"]


def weighted_sum(kernel: Kernel, kind: Any) -> tuple[float, list[tuple[float, Any]]] | None:
    """Split a kernel into c + sum_i w_i k_i with a constant c, weights w_i and kernels k_i of class `kind`.

    None is returned, instead of the pair below, if the kernel does not have this form.

    Returns
    -------
    constant : float
        The constant c.
    leaves : list of (float, kernel)
        The pairs (w_i, k_i). There is at least one.
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
