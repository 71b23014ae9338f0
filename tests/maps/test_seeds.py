"""Generators and seeds of a `random_state`: repeatable, keyed, and apart for different purposes."""

import numpy as np
import pytest

from mercer import ParameterError
from mercer.maps.seeds import as_generator, seed_of


def test_a_seed_gives_the_same_numbers_again_but_not_those_of_numpy():
    one, two, other, plain = (
        rng.random(4) for rng in (as_generator(3), as_generator(np.int32(3)), as_generator(4), np.random.default_rng(3))
    )
    assert np.array_equal(one, two)
    assert not np.isin(one, other).any()
    assert not np.isin(one, plain).any()  # data made with the same seed must not be the draw


def test_generators_and_states_are_drawn_from():
    rng = np.random.default_rng(0)
    assert as_generator(rng) is rng
    state, same = np.random.RandomState(0), np.random.RandomState(0)
    first = as_generator(state).random()
    assert first == as_generator(same).random()
    assert as_generator(state).random() != first  # the state has moved on
    assert as_generator(None).random() != as_generator(None).random()


@pytest.mark.parametrize("wrong", [-1, "seed", 1.5, object()], ids=["negative", "text", "fraction", "object"])
def test_anything_else_is_refused(wrong):
    with pytest.raises(ParameterError, match="random_state must be None, an integer >= 0, or a numpy Generator"):
        as_generator(wrong)


def test_seeds_are_apart_for_different_purposes():
    assert seed_of(3, "map") == seed_of(np.int64(3), "map")
    assert len({seed_of(3, "map"), seed_of(3, "audit"), seed_of(4, "map")}) == 3
    rng, same = np.random.default_rng(0), np.random.default_rng(0)
    assert seed_of(rng, "map") == seed_of(same, "audit")  # a generator goes on by itself
    assert seed_of(rng, "map") != seed_of(np.random.default_rng(0), "map")
    assert 0 <= seed_of(None, "map") < 2**63
