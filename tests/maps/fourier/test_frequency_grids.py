"""Grids of frequencies: those above a level, those of largest weights, and their boxes."""

import numpy as np
import pytest

from mercer import Gaussian, Matern, Transformed
from mercer.features import features_of
from mercer.maps.fourier.frequency_grids import Box, GridFeatures, lowest_parts, margin_of, parts_above, summands_of
from mercer.statistics.occupied import gaps_between
from mercer.theory.fourier.grid import frequency_weights, half_ball, tail_radius


def summands(kernel, d=2):
    return summands_of(kernel, "test", d)[1]


@pytest.mark.parametrize("kernel", [Gaussian(0.3), Matern(2.5, 0.5)], ids=repr)
def test_all_frequencies_above_a_level(kernel):
    (summand,) = summands(kernel)
    box = [Box(np.zeros(2), np.ones(2) / kernel.lengthscale)]
    (part,), left = parts_above([summand], box, 1e-4, 1e-4, 100_000)
    assert 0.99e-4 < left <= 1e-4
    assert part.weights.min() >= 0.99e-4
    (more,) = lowest_parts([summand], box, part.n_components + 40, 1e-4)
    assert more.weights[len(part.weights) :].max() < 1.01e-4
    (capped,), left = parts_above([summand], box, 1e-4, 1e-4, 21)
    assert capped.n_components == 21
    assert left == capped.weights[-1] > 1e-4


def test_components_of_groups_are_those_of_largest_weights():
    kernel = 0.9 * Transformed(Gaussian(0.2), columns=(0,)) + 0.1 * Transformed(Gaussian(1.0), columns=(1,))
    both = summands(kernel)
    boxes = [Box(np.zeros(1), np.array([5.0])), Box(np.zeros(1), np.array([1.0]))]
    parts = lowest_parts(both, boxes, 20, 1e-4)
    assert sum(part.n_components for part in parts) == 20
    chosen = min(part.weights[1:].min() for part in parts if len(part.index))
    wider = lowest_parts(both, boxes, 200, 1e-4)
    others = [w for part, wide in zip(parts, wider, strict=True) for w in wide.weights[len(part.weights) :]]
    assert max(others) <= chosen


def test_constants_and_multiples_are_separated():
    constant, parts = summands_of(0.5 + 2.0 * Gaussian(0.3), "test", 2)
    assert constant == 0.5
    assert [part.mass for part in parts] == [2.0]
    assert parts[0].coordinates(np.array([[0.3, 0.6]])).tolist() == [[1.0, 2.0]]


def test_gaps_are_shortened_without_a_change_of_the_kernel():
    # Three clusters: distances within each are unchanged, and the kernel between them is below the tolerance.
    kernel, tolerance = Matern(2.5, 0.5), 1e-4
    (summand,) = summands(kernel, 1)
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.uniform(size=(40, 1)) + start for start in (0.0, 30.0, 1e6)])
    u = np.sort(summand.coordinates(X), axis=0)
    gaps = gaps_between(u[:, 0], 2 * margin_of(summand, tolerance))
    assert len(gaps) == 2
    (part,), _ = parts_above([summand], [Box(u[0], u[-1], (gaps,))], 1e-9, tolerance, 5000)
    assert 2 * part.half[0] < 6 + 2 * margin_of(summand, tolerance) + 1e-9
    features = GridFeatures((part,), 0.0, part.n_components)
    Z = features_of(features, X)
    assert np.abs(Z @ Z.T - kernel(X)).max() < 4 * tolerance
    # Without the gaps, as many frequencies do not resolve the kernel.
    (coarse,) = lowest_parts([summand], [Box(u[0], u[-1])], part.n_components, tolerance)
    Z = features_of(GridFeatures((coarse,), 0.0, coarse.n_components), X)
    assert np.abs(Z @ Z.T - kernel(X)).max() > 0.1
    # Rows near the ends of a gap have features, rows in its middle have none.
    between = np.concatenate([X[:40].max(axis=0) + 0.3, X[40:80].min(axis=0) - 0.3, np.array([15.0])])[:, None]
    _, near = part.angles(between)
    assert near.tolist() == [True, True, False]
    assert part.angles_inside(between)[1].tolist() == [False, False, False]
    assert part.angles_inside(X)[1] is None or part.angles_inside(X)[1].all()


def test_the_radius_of_a_tail_bounds_the_squares_of_the_weights_beyond_it():
    for d, kernel in ((1, Gaussian(1.0)), (2, Matern(1.5, 1.0)), (3, Matern(2.5, 1.0))):
        spacing = np.full(d, 0.01 if d == 1 else 0.05)
        radius = tail_radius(kernel, spacing, 1e-8)
        index = half_ball(spacing, 2 * radius)
        length = np.sqrt(np.square(index * spacing).sum(axis=1))
        beyond = 2 * np.square(frequency_weights(kernel, spacing, index[length > radius])).sum()
        assert 0.5e-8 < beyond < 1.05e-8
