"""What learners use where a parameter is not given: the map, and its number of components.

`docs/design/0023-defaults.md` has the reasons and the measurements.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from mercer.engines import Engine
from mercer.kernels import Kernel, Matern
from mercer.maps import BaseMap, Nystroem, RandomFourier, default_map
from mercer.metric import ScaledColumns
from mercer.statistics import RowSample

__all__ = ["DEFAULT_KERNEL", "FIXED_WIDTH", "count_rows", "map_of_learner", "width_for"]

# The kernel of rows whose columns are divided by their spread.
DEFAULT_KERNEL = Matern(2.5, "median")
# Number of components: a multiple of the square root of the number of rows, rounded up to a power of two, at least and
# at most; and if rows cannot be counted before the map is fitted. The last number is also the least for a given kernel:
# random features have more error than landmarks.
WIDTH_FACTOR = 8
LEAST_WIDTH, MOST_WIDTH = 256, 4096
FIXED_WIDTH = 512


def width_for(n_rows: int | None) -> int:
    """Return the number of components of the map of a learner to which no map is given.

    It is eight times the square root of the number of rows, rounded up to a power of two, at least 256 and at most
    4096; 512 if the number of rows is None, which means that it is not known. A fit takes O(n D^2) time for n rows and
    D components, and the statistical error of a ridge regression decreases at the same rate with O(sqrt(n) log n)
    components as with all n [1]_.

    References
    ----------
    .. [1] Rudi, Rosasco (2017), Generalization properties of learning with random features, NIPS.

    Examples
    --------
    >>> [width_for(n) for n in (None, 100, 1000, 10_000, 100_000, 10_000_000)]
    [512, 256, 256, 1024, 4096, 4096]
    """
    if n_rows is None:
        return FIXED_WIDTH
    wanted = WIDTH_FACTOR * n_rows**0.5
    width = LEAST_WIDTH
    while width < min(wanted, MOST_WIDTH):
        width *= 2
    return width


def count_rows(engine: Engine) -> int | None:
    """Return the number of rows with a positive weight, or None if the rows can be read only once."""
    if not engine.replayable:
        return None
    rows = engine.in_memory
    if rows is not None:
        return len(rows) if rows.weight is None else int(np.count_nonzero(rows.weight))
    return engine.sum(partial(RowSample.of, size=1, seed=0, targets=False)).seen


def map_of_learner(kernel: Kernel | None, *, n_rows: int | None = None, random_state: Any = None) -> BaseMap:
    """Return the unfitted map of a learner, given a kernel or None.

    Parameters
    ----------
    kernel : Kernel or None
        The kernel, whose first map of the registry is used. None means `DEFAULT_KERNEL` of scaled columns, with
        landmarks. If the number of rows is not known, as in `partial_fit`, random features are used instead, since
        the first rows may be few.
    n_rows : int or None, default=None
        Number of rows.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the map.
    """
    width = width_for(n_rows)
    if kernel is not None:
        width = max(width, FIXED_WIDTH)
        return default_map(kernel, random_state=random_state).set_params(n_components=width)
    kind = RandomFourier if n_rows is None else Nystroem
    return ScaledColumns(kind(DEFAULT_KERNEL, width, random_state=random_state), random_state=random_state)
