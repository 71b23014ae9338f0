"""The grid of frequencies that rows and noise need, for a box of all rows, or of almost all if tails are heavy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mercer.maps.fourier.frequency_grids import Box, GridPart, Summand, part_without_frequencies, parts_above

__all__ = ["EDGE", "edge_level", "error_level", "parts_of_boxes"]

Array = np.ndarray
# Largest ratio n d^2 / s^2 of a frequency that is left out of a grid, for n rows, weights d^2 and noise s.
EDGE = 0.005
# Root mean square of the part of the posterior mean that is left out, in amplitudes. Largest errors are about five
# times as large, as those of Gaussian fields are.
ERROR = 3e-4
# Shares of rows that may be left out if the grid for all rows is too large, and the largest ratio of the volumes of the
# box of the others and of all.
SHARES, SMALLER = (1e-4, 1e-3, 1e-2), 0.5


def edge_level(weight: float, amplitude: float, noise: float, edge: float = EDGE) -> float:
    """Return the weight of frequencies at the edge of a grid, for a kernel that is one at zero."""
    return edge * (noise / amplitude) ** 2 / max(weight, 1.0)


def error_level(weight: float, amplitude: float, noise: float) -> float:
    """Return what the squares of the weights that are left out may sum to, for a kernel that is one at zero.

    A frequency of prior variance w^2 = d^2 has a posterior mean of variance n d^4 / s^2 if n d^2 is small against s^2.
    """
    return ERROR**2 * (noise / amplitude) ** 2 / max(weight, 1.0)


def parts_of_boxes(
    summands: Sequence[Summand],
    boxes: Sequence[Box],
    rows: Array | None,
    level: float,
    rest: float,
    tolerance: float,
    most: int,
) -> tuple[tuple[GridPart, ...], float]:
    """Return the parts of a grid, and the largest weight that is left out; see `parts_above`.

    If the grid for all rows has more than `most` components and the kernel has one summand, about one row in a
    hundred is left out, by quantiles of the coordinates of some `rows`: few enough for the grid to have `most`
    components, or as many as that if the box is then at most half as large.
    """
    found = parts_above(summands, boxes, level, tolerance, most, rest)
    if rows is None or len(summands) != 1 or found[1] <= level:
        return found
    (summand,), (box,) = summands, boxes
    u = summand.coordinates(rows)
    complete = np.prod(part_without_frequencies(summand, box, tolerance).spacing)
    for share in SHARES:
        tail = share / (2 * u.shape[1])
        inner = box.within(np.quantile(u, tail, axis=0), np.quantile(u, 1 - tail, axis=0))
        trimmed = parts_above(summands, [inner], level, tolerance, most, rest)
        if trimmed[1] <= level:
            return trimmed
    smaller = complete <= SMALLER * np.prod(part_without_frequencies(summand, inner, tolerance).spacing)
    return trimmed if smaller else found
