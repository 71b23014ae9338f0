"""Selection of the best candidate, and warnings about the ends of a grid."""

from dataclasses import replace

import numpy as np
import pytest

from mercer import MercerWarning
from mercer.solvers.ridge.deformations import Candidate, best_of, warn_at_ends


def candidate(strength, power, penalty, score):
    return Candidate(strength, power, penalty, score, 0.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("best", "words"),
    [
        ((100.0, 2, 0.1), "chose the largest strength, 100, of those"),
        ((1.0, 3, 0.1), "chose the largest power, 3, of those"),
        ((1.0, 2, 1.0), "chose the largest penalty, 1, of those"),
        ((1.0, 2, 0.01), "chose the smallest penalty, 0.01, of those"),
        ((100.0, 3, 0.1), "chose the largest strength, 100 and the largest power, 3, of those"),
        ((0.0, 1, 0.1), None),
        ((1.0, 1, 0.1), None),
        ((1.0, 2, 0.1), None),
    ],
)
def test_choice_at_an_end_of_the_grid_warns(best, words, recwarn):
    candidates = [
        candidate(strength, power, penalty, -0.5 if (strength, power, penalty) == best else -0.6)
        for strength in (0.0, 1.0, 100.0)
        for power in (1, 2, 3)
        for penalty in (0.01, 0.1, 1.0)
        if strength or power == 1
    ]
    chosen = best_of(candidates)
    assert (chosen.strength, chosen.power, chosen.penalty) == best
    if words is None:
        warn_at_ends(candidates, chosen, "loo")
        assert not recwarn
        return
    with pytest.warns(MercerWarning, match=words):
        warn_at_ends(candidates, chosen, "loo")


def test_end_that_is_hardly_better_does_not_warn(recwarn):
    candidates = [candidate(strength, 1, 0.1, score) for strength, score in ((0.0, -0.6), (1.0, -0.502), (10.0, -0.5))]
    warn_at_ends(candidates, candidates[-1], "loo")
    warn_at_ends(candidates[1:], candidates[-1], "loo")  # both of two values are ends
    lifted = [candidate(strength, 1, 0.1, score) for strength, score in ((2.0, 0.9), (5.0, 0.8), (10.0, 0.7))]
    warn_at_ends(lifted, replace(lifted[0], strength=0.0), "cv")
    assert not recwarn
    with pytest.warns(MercerWarning, match="the smallest strength, 2,"):
        warn_at_ends(lifted, lifted[0], "cv")


def test_ties_of_the_squared_error_are_broken_by_degrees_of_freedom():
    first = Candidate(1.0, 1.0, 0.1, 0.9, 0.01, 0.5, 7.0)
    equal = [
        first,
        replace(first, degrees=3.0),
        replace(first, degrees=5.0),
        replace(first, squared_error=0.6, degrees=1),
    ]
    assert best_of([*equal, replace(first, score=0.89, squared_error=0.1, degrees=1)]) is equal[1]
    assert best_of([replace(first, squared_error=np.nan, degrees=d) for d in (3.0, 2.0, 4.0)]).degrees == 2.0
    assert best_of([]) is None
