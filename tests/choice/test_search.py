"""The search for a map: with simulated errors and costs, so that the best choice is known."""

import math
from types import SimpleNamespace

import pytest

from mercer.choice.search import Limits, best_for_learner, best_of_width, best_within, cheapest_for
from mercer.choice.trials import Trial


class Simulated:
    """Trials of maps whose error, cost of a row and time of a fit are functions of the number of components."""

    def __init__(self, maps):
        self.maps, self.done, self.now = maps, {}, 0.0

    def clock(self):
        return self.now

    def run(self, candidate, n_components):
        key = candidate.name, n_components
        if key not in self.done:
            error, row, fit = (curve(n_components) for curve in self.maps[candidate.name])
            self.now += fit
            self.done[key] = Trial(candidate.name, n_components, error, 1.05 * error, fit, row, 8 * n_components,
                                   trial_seconds=fit, feature_map=None if math.isinf(error) else object())  # fmt: skip
        return self.done[key]

    def fit_cost(self, candidate, n_components):
        return 1e12 if candidate.name.startswith("landmarks") else 0.0

    def of(self, candidate):
        found = [t for t in self.done.values() if t.name == candidate.name and t.feature_map is not None]
        return sorted(found, key=lambda trial: trial.n_components)


class Named:
    def __init__(self, name):
        self.name = name
        self.most_components = math.inf
        self.prototype = SimpleNamespace(built_from_rows=name.startswith("landmarks"))


def random_features(scale):  # cheap components, slow decrease
    return lambda D: scale / D**0.5, lambda D: 1e-8 * D, lambda D: 1e-6 * D


def landmarks(decay):  # expensive components, fast decrease
    return lambda D: math.exp(-((D / decay) ** 0.5)), lambda D: 1e-8 * D + 2e-10 * D**2, lambda D: 1e-8 * D**2


MAPS = {"random": random_features(0.7), "better": random_features(0.4), "landmarks": landmarks(30.0)}


def cheapest(tol, most):
    """Return the least cost of a row by trying all numbers of components."""
    costs = [
        next((row(D) for D in range(8, most + 1) if 1.05 * error(D) <= tol), math.inf)
        for error, row, _ in MAPS.values()
    ]
    return min(costs)


@pytest.mark.parametrize("tol", [0.3, 0.1, 0.03, 0.01, 0.003, 1e-4])
def test_cheapest_map_for_a_tolerance(tol):
    trials, candidates = Simulated(MAPS), [Named(name) for name in MAPS]
    chosen, met = cheapest_for(trials, candidates, tol, Limits(8192, 1000))
    assert met
    assert chosen.upper <= tol
    assert chosen.row_seconds <= 1.5 * cheapest(tol, 8192)
    assert len(trials.done) <= 30


def test_a_tolerance_out_of_reach_gives_the_least_error():
    trials, candidates = Simulated(MAPS), [Named("random"), Named("better")]
    chosen, met = cheapest_for(trials, candidates, 1e-3, Limits(2048, 1000))
    assert not met
    assert (chosen.name, chosen.n_components) == ("better", 2048)


def test_a_map_that_fails_is_not_chosen():
    maps = {"fails": (lambda _: math.inf, lambda D: 1e-9 * D, lambda _: 0.0), "random": random_features(0.7)}
    trials, candidates = Simulated(maps), [Named(name) for name in maps]
    assert best_of_width(trials, candidates, 256).name == "random"
    assert cheapest_for(trials, candidates, 0.05, Limits(8192, 1000))[0].name == "random"
    assert best_within(trials, candidates, Limits(8192, 1000, n_bytes=1e4))[0].name == "random"
    assert best_of_width(trials, candidates[:1], 256) is None


def test_best_of_a_width_has_the_least_error():
    trials, candidates = Simulated(MAPS), [Named(name) for name in MAPS]
    assert best_of_width(trials, candidates, 16).name == "better"
    assert best_of_width(trials, candidates, 1024).name == "landmarks"


def test_slow_maps_are_compared_with_few_components_first():
    maps = {"random": random_features(0.7), "landmarks": landmarks(30.0), "landmarks, worse": landmarks(60.0)}
    trials = Simulated(maps)
    chosen = best_of_width(trials, [Named(name) for name in maps], 1024)
    assert (chosen.name, chosen.n_components) == ("landmarks", 1024)
    assert ("landmarks, worse", 256) in trials.done
    assert ("landmarks, worse", 1024) not in trials.done
    assert ("random", 256) not in trials.done


def test_a_map_that_is_not_tried_with_so_many_components_does_not_exclude_others():
    maps = {"landmarks": landmarks(30.0), "landmarks, more": landmarks(10.0), "random": random_features(0.7)}
    candidates = [Named(name) for name in maps]
    candidates[1].most_components = 1024
    assert best_of_width(Simulated(maps), candidates, 2048).name == "landmarks"
    assert best_of_width(Simulated(maps), candidates, 1024).name == "landmarks, more"


def test_few_maps_are_fitted_with_all_components_for_a_learner():
    maps = {**MAPS, "landmarks, worse": landmarks(60.0)}
    trials = Simulated(maps)  # with 64 components, landmarks have more error than both random maps
    chosen = best_for_learner(trials, [Named(name) for name in maps], 1024, n_rows=10**8)
    assert (chosen.name, chosen.n_components) == ("landmarks", 1024)
    assert {name for name, D in trials.done if D == 1024} == {"landmarks", "better"}
    assert {key for key in trials.done if key[1] == 64} == {(name, 64) for name in maps}


def test_the_best_maps_of_both_kinds_are_fitted_if_their_errors_are_close():
    # With 64 components the random map has half more error, with 1024 components less.
    maps = {"landmarks": landmarks(30.0), "random": (lambda D: 1.5 * math.exp(-(64 / 30) ** 0.5) * (64 / D) ** 3,
                                                     lambda D: 1e-8 * D, lambda D: 1e-6 * D)}  # fmt: skip
    assert best_for_learner(Simulated(maps), [Named(name) for name in maps], 1024, n_rows=10**8).name == "random"


def test_random_maps_are_not_fitted_beside_much_better_landmarks():
    maps = {"random": random_features(0.7), "landmarks": landmarks(3.0)}
    trials = Simulated(maps)
    assert best_for_learner(trials, [Named(name) for name in maps], 1024, n_rows=10**8).name == "landmarks"
    assert ("random", 1024) not in trials.done


def test_maps_that_take_longer_than_the_learner_are_left_out():
    candidates = [Named(name) for name in MAPS]
    trials = Simulated(MAPS)  # landmarks take 1e12 operations
    assert best_for_learner(trials, candidates, 1024, n_rows=1000).name == "better"
    assert ("landmarks", 64) not in trials.done
    assert best_for_learner(Simulated(MAPS), candidates[2:], 1024, n_rows=1000).name == "landmarks"  # the only one


def test_a_map_that_fails_with_all_components_gives_way_for_a_learner():
    maps = {"landmarks": (lambda D: 1e-3 if D == 64 else math.inf, *landmarks(30.0)[1:]),
            "landmarks, worse": landmarks(60.0), "random": random_features(0.7)}  # fmt: skip
    chosen = best_for_learner(Simulated(maps), [Named(name) for name in maps], 1024, n_rows=10**8)
    assert chosen.name == "landmarks, worse"


@pytest.mark.parametrize("seconds", [0.5, 2.0, 20.0])
def test_the_search_and_the_features_of_all_rows_keep_a_time_limit(seconds):
    trials, candidates = Simulated(MAPS), [Named(name) for name in MAPS]
    n_rows = 100_000
    chosen, kept = best_within(trials, candidates, Limits(8192, n_rows, seconds=seconds))
    assert kept
    used = trials.clock() + n_rows * chosen.row_seconds
    assert used <= seconds
    assert used >= 0.4 * seconds or chosen.n_components == 8192


@pytest.mark.parametrize("seconds", [1e-6, 0.02, 0.2, 2.0, 200.0])
@pytest.mark.parametrize("tol", [0.1, 0.01, 1e-4])
def test_the_search_for_a_tolerance_keeps_a_time_limit(tol, seconds):
    trials, candidates = Simulated(MAPS), [Named(name) for name in MAPS]
    n_rows = 10_000
    chosen, met = cheapest_for(trials, candidates, tol, Limits(8192, n_rows, seconds=seconds))
    if met:
        assert chosen.upper <= tol
        assert trials.clock() + n_rows * chosen.row_seconds <= seconds
    else:
        assert seconds < 200.0
    if seconds == 1e-6:
        assert not met
        assert len(trials.done) == 1


def test_memory_limit():
    trials, candidates = Simulated(MAPS), [Named(name) for name in MAPS]
    limits = Limits(8192, 1000, n_bytes=4e6, row_bytes=lambda D: 4000.0 * D)
    chosen, _ = best_within(trials, candidates, limits)
    assert limits.bytes_of(chosen) <= 4e6
    assert chosen.name == "landmarks"
    assert chosen.n_components >= 700
    assert best_within(trials, candidates, Limits(8192, 1000, n_bytes=10))[0] is None


def test_a_time_limit_that_is_too_short():
    trials, candidates = Simulated(MAPS), [Named(name) for name in MAPS]
    chosen, kept = best_within(trials, candidates, Limits(8192, 100_000, seconds=1e-6))
    assert not kept
    assert chosen.n_components == 64
