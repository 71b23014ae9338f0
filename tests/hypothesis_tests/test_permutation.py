"""P-values, thresholds and maps of permutation tests."""

import json

import numpy as np
import pytest

from mercer import Deformed, FeatureMap, Gaussian, Nystroem, ParameterError, RandomFourier
from mercer.engines import MemoryEngine
from mercer.hypothesis_tests.permutation import fit_to_distinct_rows, permutation_result


def result(observed, null, size=1.0):
    fitted = RandomFourier(Gaussian(2.0), 8, random_state=0).fit(np.zeros((1, 2)))
    return permutation_result("a_test", np.array([observed, *null]), size, (20, 1300), (fitted,))


def test_p_value_counts_statistics_at_least_as_large_and_the_observed_one():
    assert result(5.0, [1, 2, 3, 4]).p_value == 1 / 5
    assert result(3.0, [1, 2, 3, 4]).p_value == 3 / 5
    assert result(0.0, [1, 2, 3, 4]).p_value == 1.0


def test_difference_by_rounding_is_a_tie():
    assert result(1.0 + 1e-13, [1.0, 0.0, 0.5]).p_value == 2 / 4
    assert result(1.0 + 1e-7, [1.0, 0.0, 0.5]).p_value == 1 / 4
    assert result(0.0, [0.0] * 9, size=0.0).p_value == 1.0


@pytest.mark.parametrize("B", [1, 9, 19, 39, 100, 999])
@pytest.mark.parametrize("level", [0.01, 0.05, 0.1, 0.5])
def test_p_value_is_at_most_the_level_above_the_threshold(B, level):
    rng = np.random.default_rng(B)
    null = rng.integers(0, 30, B) / 10  # with ties
    for observed in np.arange(-1, 35) / 10:
        found = result(observed, null)
        assert (observed > found.threshold(level) + 1e-9) == (found.p_value <= level + 1e-12)


def test_threshold_is_infinite_for_few_permutations():
    assert result(5.0, [1, 2, 3]).threshold(0.05) == np.inf
    with pytest.raises(ParameterError, match="level must be a number > 0 and < 1, got 5"):
        result(5.0, [1, 2, 3]).threshold(5)


def test_representation_and_conversion_to_json():
    found = result(0.123456, np.linspace(0, 1, 999))
    assert repr(found) == (
        "a_test: statistic 0.1235, p = 0.876 (999 permutations); null distribution 0.5 +- 0.29, critical value "
        "at 5 % 0.951; 20 and 1,300 rows, RandomFourier with 8 components for Gaussian(lengthscale=2.0)"
    )
    assert json.loads(json.dumps(found.to_dict()))["n_permutations"] == 999
    with pytest.raises(AttributeError):
        found.p_value = 0.0


@pytest.mark.parametrize("kind", [RandomFourier, Nystroem])
def test_maps_do_not_depend_on_the_order_of_rows(kind, monkeypatch):
    monkeypatch.setattr("mercer.maps.base.MEDIAN_ROWS", 40)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3)) * np.linspace(1, 5, 200)[:, None]  # the first rows differ from the last
    fitted = []
    for order in (np.arange(200), rng.permutation(200)):
        engine = MemoryEngine(X[order], block_rows=33)
        fitted.append(fit_to_distinct_rows("a_test", kind(Gaussian("median"), 8, random_state=0), engine))
    assert fitted[0].kernel_ == fitted[1].kernel_
    np.testing.assert_allclose(fitted[0].transform(X), fitted[1].transform(X), atol=1e-12)


def test_a_chosen_map_does_not_depend_on_the_order_of_the_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3)) * np.linspace(1, 5, 200)[:, None]
    first, second = (
        fit_to_distinct_rows("a_test", FeatureMap(n_components=8, random_state=0), MemoryEngine(rows, block_rows=33))
        for rows in (X, X[rng.permutation(200)])
    )
    np.testing.assert_allclose(first.transform(X), second.transform(X), atol=1e-12)


def test_map_that_is_fitted_to_all_rows_raises():
    # A graph of the few rows that the inner map is drawn from would be useless.
    engine = MemoryEngine(np.random.default_rng(0).normal(size=(30, 2)), block_rows=10)
    with pytest.raises(ParameterError, match=r"^mmd_test needs a map that is drawn .* got Deformed.* its inner map"):
        fit_to_distinct_rows("mmd_test", Deformed(RandomFourier(Gaussian(1.0), 8)), engine)
