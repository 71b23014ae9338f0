"""Errors on rows that are held out, and their upper bounds."""

import numpy as np
import pytest

from mercer import Gaussian, Nystroem, RandomFourier
from mercer.choice.held_out import TAIL, HeldOut, largest_of

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4))
KERNEL = Gaussian(2.0)
MAP = RandomFourier(KERNEL, 64, random_state=0).fit(X)


def errors_of(rows):
    return MAP.gram(rows) - KERNEL(rows)


def test_errors_are_those_of_their_definitions():
    E, K = errors_of(X), KERNEL(X)
    off = E[~np.eye(len(X), dtype=bool)]
    expected = {
        "rmse": np.sqrt(np.mean(off**2)),
        "relative": np.linalg.norm(E) / np.linalg.norm(K),
        "spectral": np.linalg.norm(E, 2) / np.linalg.norm(K, 2),
        "largest": np.abs(E).max(),
    }
    for name, value in expected.items():
        measured = HeldOut(X, None, KERNEL, name, 0.95).measure(MAP)
        assert measured.error == pytest.approx(value, rel=1e-4), name
        assert measured.upper > measured.error


@pytest.mark.parametrize("name", ["rmse", "relative", "spectral", "largest"])
def test_weights_are_repetitions(name):
    weight = RNG.integers(1, 4, size=len(X)).astype(float)
    repeated = np.repeat(X, weight.astype(int), axis=0)
    by_weight = HeldOut(X, weight, KERNEL, name, 0.95).measure(MAP).error
    E = errors_of(repeated)
    if name == "rmse":  # pairs of different rows: copies of a row are not pairs
        same = np.repeat(np.arange(len(X)), weight.astype(int))
        expected = np.sqrt(np.mean(E[same[:, None] != same] ** 2))
    else:
        expected = HeldOut(repeated, None, KERNEL, name, 0.95).measure(MAP).error
    assert by_weight == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("name", ["rmse", "relative", "spectral", "largest"])
def test_upper_bounds_hold_on_fresh_rows(name):
    # A bound of 95 % fails for more than 13 of 100 pairs of samples with probability 5e-4 (binomial). The same
    # comparison without the margin fails for about half of them.
    maps = [MAP, Nystroem(KERNEL, 40, random_state=0).fit(X)]
    exceeded = plain = 0
    for seed in range(100):
        rng = np.random.default_rng([seed, 1])
        first, second = rng.standard_t(6, size=(2, 200, 4))
        feature_map = maps[seed % 2]
        measured = HeldOut(first, None, KERNEL, name, 0.95).measure(feature_map)
        fresh = HeldOut(second, None, KERNEL, name, 0.95).measure(feature_map).error
        exceeded += fresh > measured.upper
        plain += fresh > measured.error
    assert exceeded <= 13
    assert plain > 30


def test_kernels_of_tiny_and_huge_values():
    for factor in (1e-200, 1e200):
        held = HeldOut(X, None, factor * KERNEL, "rmse", 0.95)
        scaled = RandomFourier(factor * KERNEL, 64, random_state=0).fit(X)
        assert held.measure(scaled).error == pytest.approx(
            factor * HeldOut(X, None, KERNEL, "rmse", 0.95).measure(MAP).error
        )


def test_rows_with_most_of_the_error_are_compared():
    # Of 4000 rows, 40 are far away in 20 pairs: they have nearly all of the error of the landmarks. A uniform
    # sample of 1000 rows contains a pair with probability 1/16, so that its errors vary by far more.
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(4000, 4))
    far = 30 * rng.normal(size=(20, 4))
    rows[:40] = np.repeat(far, 2, axis=0) + 0.1 * rng.normal(size=(40, 4))
    feature_map = Nystroem(KERNEL, 250, random_state=0).fit(X)
    E = feature_map.gram(rows) - KERNEL(rows)
    exact = np.sqrt((np.square(E).sum() - np.square(np.diag(E)).sum()) / (len(rows) * (len(rows) - 1)))
    measured = [HeldOut(rows, None, KERNEL, "rmse", 0.95, seed).measure(feature_map).error for seed in range(20)]
    assert np.sqrt(np.mean(np.square(measured))) == pytest.approx(exact, rel=0.05)
    assert np.std(measured) < 0.1 * exact
    uniform = []
    for _ in range(20):
        some = rng.choice(len(rows), 1000, replace=False)
        uniform.append(HeldOut(rows[some], None, KERNEL, "rmse", 0.95).measure(feature_map).error)
    assert np.std(uniform) > 0.1 * exact


@pytest.mark.parametrize("shape", [0.0, 0.5, 1.0])
def test_the_bound_of_the_largest_error_holds_for_heavy_tails(shape):
    # A bound that fails with probability 5 % fails for more than 35 of 400 samples with probability 5e-4 (binomial). An
    # exponential tail alone, with the same share of rows, fails for most samples of a heavy tail.
    rng = np.random.default_rng(0)
    exceeded = exponential = 0
    for _ in range(400):
        uniform = rng.random((2, 1000))
        first, second = -np.log(uniform) if shape == 0 else uniform**-shape
        exceeded += second.max() > largest_of(first, 0.95).upper
        ordered = np.sort(first)
        k = int(TAIL * len(first))
        bound = ordered[-k - 1] + (ordered[-k:] - ordered[-k - 1]).mean() * np.log(k / 0.05)
        exponential += second.max() > bound
    assert exceeded <= 35
    assert exponential <= 35 if shape == 0 else exponential > 100


def test_the_largest_error_is_that_of_all_pairs():
    # Of 2500 rows one is far away. Samples of 1000 rows would miss it in most cases.
    rows = RNG.normal(size=(2500, 4))
    rows[1234] += 9
    feature_map = Nystroem(KERNEL, 150, random_state=0).fit(X)
    expected = np.abs(feature_map.gram(rows) - KERNEL(rows)).max(axis=1)
    measured = HeldOut(rows, None, KERNEL, "largest", 0.95).measure(feature_map)
    assert measured.error == pytest.approx(expected.max())
    assert measured.upper == pytest.approx(largest_of(expected, 0.95).upper)
    assert np.delete(expected, 1234).max() < 0.9 * expected.max()


def test_the_bound_of_equal_and_zero_errors():
    assert largest_of(np.zeros(50), 0.95) == largest_of(np.zeros(1), 0.95)
    assert largest_of(np.full(50, 2.0), 0.95).upper == 2.0
