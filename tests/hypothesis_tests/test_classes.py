"""Tests as classes: the results of the functions, as named tuples."""

import numpy as np
import pytest

from mercer import (
    HSIC,
    MMD,
    ConditionalIndependence,
    UnknownParameterError,
    conditional_independence_test,
    hsic_test,
    k_sample_test,
    mmd_test,
)

rng = np.random.default_rng(0)
X, Y, Z = rng.normal(size=(60, 2)), rng.normal(size=(60, 2)) + 1, rng.normal(size=(60, 1))


def test_two_and_more_samples():
    test = MMD(n_components=40)
    found = test.test(X, Y, reps=49, random_state=0)
    assert found == (found.stat, found.pvalue)
    assert found.pvalue == mmd_test(X, Y, n_components=40, n_permutations=49, random_state=0).p_value
    expected = k_sample_test(X, Y, X, n_components=40, n_permutations=49, random_state=0)
    assert test.test(X, Y, X, reps=49, workers=1, random_state=0) == (expected.statistic, expected.p_value)
    assert test.result_.name == "k_sample_test"
    assert test.statistic(X, Y) == test.statistic(X, Y)


def test_independence():
    expected = hsic_test(X, Y, n_permutations=49, random_state=0)
    assert HSIC().test(X, Y, reps=49, random_state=0) == (expected.statistic, expected.p_value)
    assert isinstance(HSIC().statistic(X, Y), float)


def test_conditional_independence():
    expected = conditional_independence_test(X, Y, Z)
    assert ConditionalIndependence().test(X, Y, Z) == (expected.statistic, expected.p_value)
    assert ConditionalIndependence().statistic(X, Y, Z) == expected.statistic


def test_unknown_names_are_refused():
    with pytest.raises((TypeError, UnknownParameterError)):
        HSIC().test(X, Y, repetitions=3)
