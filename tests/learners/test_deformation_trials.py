"""What is said of a choice at an end of a grid."""

from dataclasses import replace

import pytest

from mercer import MercerWarning
from mercer.learners.deformation_trials import DeformationTrial, best_of, warn_of_edges


def trial(alpha, power, penalty, score):
    return DeformationTrial(alpha, power, penalty, score, 0.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("best", "words"),
    [
        ((100.0, 2, 0.1), "chose the largest alpha, 100, of those"),
        ((1.0, 3, 0.1), "chose the largest power, 3, of those"),
        ((1.0, 2, 1.0), "chose the largest penalty, 1, of those"),
        ((1.0, 2, 0.01), "chose the least penalty, 0.01, of those"),
        ((100.0, 3, 0.1), "chose the largest alpha, 100 and the largest power, 3, of those"),
        ((0.0, 1, 0.1), None),
        ((1.0, 1, 0.1), None),
        ((1.0, 2, 0.1), None),
    ],
)
def test_a_choice_at_an_end_of_the_grid_is_said(best, words, recwarn):
    trials = [
        trial(alpha, power, penalty, -0.5 if (alpha, power, penalty) == best else -0.6)
        for alpha in (0.0, 1.0, 100.0)
        for power in (1, 2, 3)
        for penalty in (0.01, 0.1, 1.0)
        if alpha or power == 1
    ]
    chosen = best_of(trials)
    assert (chosen.alpha, chosen.power, chosen.penalty) == best
    if words is None:
        warn_of_edges(trials, chosen, "loo")
        assert not recwarn
        return
    with pytest.warns(MercerWarning, match=words):
        warn_of_edges(trials, chosen, "loo")


def test_an_end_that_is_hardly_better_is_not_worth_a_warning(recwarn):
    trials = [trial(alpha, 1, 0.1, score) for alpha, score in ((0.0, -0.6), (1.0, -0.502), (10.0, -0.5))]
    warn_of_edges(trials, trials[-1], "loo")
    warn_of_edges(trials[1:], trials[-1], "loo")  # of two, both are ends
    lifted = [trial(alpha, 1, 0.1, score) for alpha, score in ((2.0, 0.9), (5.0, 0.8), (10.0, 0.7))]
    warn_of_edges(lifted, replace(lifted[0], alpha=0.0), "cv")
    assert not recwarn
    with pytest.warns(MercerWarning, match="the least alpha, 2,"):
        warn_of_edges(lifted, lifted[0], "cv")
