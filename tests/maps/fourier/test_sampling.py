"""Samples with given probabilities: every unit has its probability, and balanced samples have the sums they should."""

import numpy as np
import pytest

from mercer.maps.fourier.sampling import balanced_sample, inclusion_probabilities, systematic_sample

from ...calibrated.calibrated import misfit

N, SIZE, DRAWS = 12, 4, 800


def unequal():
    return inclusion_probabilities(np.geomspace(0.2, 4.0, N), SIZE)


def indicators(sample, rng):
    found = np.zeros((DRAWS, N))
    for row in found:
        row[sample(rng)] = 1.0
    return found


def test_inclusion_probabilities_are_proportional_up_to_one():
    p = inclusion_probabilities(np.array([1.0, 2.0, 3.0, 60.0]), 2)
    np.testing.assert_allclose(p, [1 / 6, 2 / 6, 3 / 6, 1.0])
    np.testing.assert_allclose(inclusion_probabilities(np.ones(4), 4), 1.0)
    # Several rounds: the second largest exceeds one only after the largest is certain.
    p = inclusion_probabilities(np.array([1.0, 1.0, 10.0, 100.0]), 3)
    np.testing.assert_allclose(p, [0.5, 0.5, 1.0, 1.0])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["systematic", "balanced"])
def test_every_unit_is_chosen_with_its_probability(kind, seed):
    rng = np.random.default_rng(seed)
    p = unequal()
    variables = np.column_stack([p, rng.normal(size=(N, 2))])
    order = rng.permutation(N)

    def sample(rng):
        return systematic_sample(p, order, rng) if kind == "systematic" else balanced_sample(p, variables, rng)

    found = indicators(sample, rng)
    assert (found.sum(axis=1) == SIZE).all() or kind == "balanced"
    assert misfit(found, p, width=1) <= 1
    assert misfit(found, np.full(N, SIZE / N), width=1) > 1


def test_balanced_samples_have_a_fixed_size_and_the_sums_of_the_population():
    rng = np.random.default_rng(0)
    p = np.full(200, 0.25)
    values = rng.normal(size=(200, 8))
    variables = np.column_stack([np.ones(200), values])
    gaps, plain = [], []
    for _ in range(15):
        chosen = balanced_sample(p, variables, rng)
        assert len(chosen) == 50 == len(set(chosen.tolist()))
        gaps.append(4 * values[chosen].sum(axis=0) - values.sum(axis=0))
        plain.append(4 * values[rng.choice(200, 50, replace=False)].sum(axis=0) - values.sum(axis=0))
    # Only the last step, in which at most nine units are undecided, is not balanced: nine of 200.
    assert np.square(gaps).mean() < 0.1 * np.square(plain).mean()


def test_units_that_are_certain_stay_as_they_are():
    rng = np.random.default_rng(1)
    p = np.array([0.0, 1.0, 0.5, 0.5, 0.5, 0.5])
    for _ in range(20):
        chosen = balanced_sample(p, np.ones((6, 1)), rng)
        assert 0 not in chosen
        assert 1 in chosen
        assert len(chosen) == 3


def test_systematic_samples_are_spread_over_the_order():
    rng = np.random.default_rng(2)
    order = rng.permutation(100)
    for _ in range(20):
        chosen = systematic_sample(np.full(100, 0.1), order, rng)
        positions = np.sort(np.argsort(order)[chosen])
        assert (np.diff(positions) == 10).all()
