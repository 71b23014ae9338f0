"""Grids of frequencies: those above a level, those of largest weights, and their boxes."""

import numpy as np
import pytest

from mercer import Gaussian, Matern, Transformed
from mercer.maps.fourier.frequency_grids import lowest_parts, parts_above, summands_of


def summands(kernel, d=2):
    return summands_of(kernel, "test", d)[1]


@pytest.mark.parametrize("kernel", [Gaussian(0.3), Matern(2.5, 0.5)], ids=repr)
def test_all_frequencies_above_a_level(kernel):
    (summand,) = summands(kernel)
    box = [np.zeros(2)], [np.ones(2) / kernel.lengthscale]
    (part,), left = parts_above([summand], *box, 1e-4, 1e-4, 100_000)
    assert left == 1e-4
    assert part.weights.min() >= 0.99e-4
    (more,) = lowest_parts([summand], *box, part.n_components + 40, 1e-4)
    assert more.weights[len(part.weights) :].max() < 1.01e-4
    (capped,), left = parts_above([summand], *box, 1e-4, 1e-4, 21)
    assert capped.n_components == 21
    assert left == capped.weights[-1] > 1e-4


def test_components_of_groups_are_those_of_largest_weights():
    kernel = 0.9 * Transformed(Gaussian(0.2), columns=(0,)) + 0.1 * Transformed(Gaussian(1.0), columns=(1,))
    both = summands(kernel)
    boxes = [np.zeros(1)] * 2, [np.array([5.0]), np.array([1.0])]
    parts = lowest_parts(both, *boxes, 20, 1e-4)
    assert sum(part.n_components for part in parts) == 20
    chosen = min(part.weights[1:].min() for part in parts if len(part.index))
    wider = lowest_parts(both, *boxes, 200, 1e-4)
    others = [w for part, wide in zip(parts, wider, strict=True) for w in wide.weights[len(part.weights) :]]
    assert max(others) <= chosen


def test_constants_and_multiples_are_separated():
    constant, parts = summands_of(0.5 + 2.0 * Gaussian(0.3), "test", 2)
    assert constant == 0.5
    assert [part.mass for part in parts] == [2.0]
    assert parts[0].coordinates(np.array([[0.3, 0.6]])).tolist() == [[1.0, 2.0]]
