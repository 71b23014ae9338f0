"""Grids of frequencies: the best step."""

import numpy as np
import pytest

from mercer import Chi2, Intersection, JensenShannon
from mercer.maps.histogram.frequency_grid import best_step, grid_error

KERNELS = [Chi2(), JensenShannon(), Intersection(), 1 + 2.0 * Chi2() + 0.5 * JensenShannon()]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("pairs", [0, 1, 2, 6, 30])
def test_best_step_has_the_least_error_of_all_steps(kernel, pairs):
    mixture = tuple((w, leaf) for w, leaf in kernel.summands() if leaf is not None)
    least = grid_error(mixture, pairs, best_step(mixture, pairs))
    assert all(least <= 1.001 * grid_error(mixture, pairs, step) for step in np.geomspace(0.01, 5, 300))
