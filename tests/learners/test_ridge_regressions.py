"""Ways in which the ridge estimators once went wrong."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss

from mercer import (
    DataError,
    ExponentialDotProduct,
    Gaussian,
    KernelRidge,
    KernelRidgeClassifier,
    Nystroem,
    ParameterError,
    RandomFourier,
)


def data(n=300, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n)


def test_a_progress_bar_around_a_generator_loses_no_block():
    X, y = data(400)

    class Bar:
        def __init__(self, blocks):
            self.blocks = blocks

        def __iter__(self):
            return (block for block in self.blocks)

    blocks = [(X[i : i + 100], y[i : i + 100]) for i in range(0, 400, 100)]
    model = KernelRidge(RandomFourier(Gaussian(), 16, random_state=0)).fit(Bar(iter(blocks)))
    assert model.statistic_.rows == 400
    with pytest.raises(DataError, match="The blocks had 400 rows in the first pass and 0 in the next"):
        KernelRidge(RandomFourier(Gaussian("median"), 16, random_state=0)).fit(Bar(iter(blocks)))


def test_weights_count_once_in_a_median_over_a_sample():
    # More rows than the sample takes: half of them ten times as wide and three times as heavy.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 3)) * np.repeat([1.0, 10.0], 3000)[:, None]
    weight = np.repeat([1.0, 3.0], 3000)
    y = X[:, 0]
    weighted = KernelRidge(RandomFourier(n_components=4, random_state=0)).fit(X, y, weight)
    rows = np.repeat(np.arange(6000), weight.astype(int))
    repeated = KernelRidge(RandomFourier(n_components=4, random_state=0)).fit(X[rows], y[rows])
    # Medians of half a million pairs of a thousand rows scatter by a few per cent; counted twice it is 13 % off.
    ratio = weighted.feature_map_.kernel_.lengthscale / repeated.feature_map_.kernel_.lengthscale
    assert 0.92 < ratio < 1.08


def test_blocks_with_and_without_weights_mix():
    X, y = data(200)
    ones = np.ones(100)
    mixed = [(X[:100], y[:100], 2 * ones), (X[100:], y[100:])]
    explicit = [(X[:100], y[:100], 2 * ones), (X[100:], y[100:], ones)]
    for order in (slice(None), slice(None, None, -1)):
        models = [KernelRidge(RandomFourier(n_components=16, random_state=0)).fit(b[order]) for b in (mixed, explicit)]
        np.testing.assert_allclose(models[0].predict(X), models[1].predict(X), atol=1e-10)


@pytest.mark.parametrize("n", [8, 100])
def test_probabilities_of_separable_labels_stay_uncertain(n):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], n // 2)
    X = rng.normal(size=(n, 2)) + 8.0 * y[:, None]
    model = KernelRidgeClassifier(RandomFourier(Gaussian(8.0), 64, random_state=0), random_state=0).fit(X, y)
    assert model.predict_proba([[4.0, 4.0]])[0].min() > 0.02
    assert model.predict_proba(X).min() > 1e-6
    assert model.predict_proba(X)[y == 1, 1].min() > 0.5


def test_targets_far_from_zero_survive_float32_rows():
    X, _ = data(500)
    y = 1e8 + np.sin(X[:, 0])
    fresh = KernelRidge(RandomFourier(Gaussian(), 64, random_state=0), alpha=0.01)
    assert fresh.fit(X.astype(np.float32), y).score(X.astype(np.float32), y) > 0.99
    assert fresh.fit(X.astype(np.float32), 1e39 * np.sin(X[:, 0])).score(X, 1e39 * np.sin(X[:, 0])) > 0.99


@pytest.mark.parametrize(("first", "second"), [([0, 1], ["a", "b"]), ([True, False], [0, 1]), (["a", "b"], [0.0, 1.0])])
def test_labels_of_all_blocks_have_one_kind(first, second):
    X = np.random.default_rng(0).normal(size=(2, 3))
    model = KernelRidgeClassifier(Gaussian()).partial_fit(X, np.array(first))
    with pytest.raises(DataError, match="y must have labels of the same kind in every block"):
        model.partial_fit(X, np.array(second))


def test_given_classes_are_remembered():
    X, y = data(40)
    model = KernelRidgeClassifier(Gaussian()).partial_fit(X, (y > 0).astype(int), classes=[0, 1])
    with pytest.raises(DataError, match=r"labels \[5\], not among \[0, 1\]"):
        model.partial_fit(X, np.full(40, 5))
    model.fit(X, np.where(y > 0, 5, 6))  # a new start
    assert list(model.classes_) == [5, 6]


def test_one_class_is_no_error_before_a_result_is_used():
    X, y = data(40)
    model = KernelRidgeClassifier(Gaussian(), random_state=0).partial_fit(X, np.zeros(40, dtype=int))
    assert list(model.classes_) == [0]
    with pytest.raises(DataError, match="at least two classes, got one class only: 0"):
        model.predict(X)
    assert model.partial_fit(X, (y > 0).astype(int)).predict(X).shape == (40,)


def test_one_large_block_does_not_hold_all_features():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60_000, 2)), rng.normal(size=60_000)
    model = KernelRidge(RandomFourier(Gaussian(), 256, random_state=0), block_size=1000, n_jobs=1)
    tracemalloc.start()
    model.fit([(X, y)])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6  # all features would be 123 MB


@pytest.mark.parametrize("n", [1, 2])
def test_gcv_of_rows_that_do_not_vary(n):
    model = KernelRidge(RandomFourier(Gaussian(), 8, random_state=0), alpha="gcv")
    X, y = np.ones((n, 2)), np.full(n, 3.0)
    if n == 1:
        with pytest.raises(DataError, match="needs more weight than degrees of freedom"):
            model.fit(X, y)
    else:
        np.testing.assert_allclose(model.fit(X, y).predict(X), 3.0)


def test_the_map_of_a_model_knows_the_names_of_features():
    X, y = data(50)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = KernelRidge(Gaussian(), random_state=0).fit(frame, y)
    assert model.feature_map_.transform(frame).shape == (50, 512)


def test_blocks_with_separate_weights_raise():
    X, y = data(20)
    with pytest.raises(DataError, match=r"blocks carry their own weights: pass tuples \(X, y, weight\)"):
        KernelRidge(Gaussian()).fit([(X, y)], sample_weight=np.ones(20))


def test_alpha_is_checked_when_it_is_used():
    X, y = data(20)
    model = KernelRidge(Gaussian()).partial_fit(X, y).set_params(alpha="zzz")
    with pytest.raises(ParameterError, match=r"alpha must be a finite number >= 0 or one of .*, got 'zzz'"):
        model.predict(X)


def test_gcv_on_float32_rows_is_that_of_float64_rows():
    # A smooth kernel and a median lengthscale: eigenvalues fall far below the rounding of float32.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 6)).astype(np.float32)
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=3000)
    models = [
        KernelRidge(RandomFourier(Gaussian("median"), 256, random_state=0), alpha="gcv").fit(rows, y)
        for rows in (X, X.astype(np.float64))
    ]
    single, double = models
    np.testing.assert_allclose(single.path_.scores, double.path_.scores, rtol=0.02)
    assert 0.5 < single.alpha_ / double.alpha_ < 2
    residual = np.mean(np.square(y - single.predict(X)))
    assert residual < single.path_.scores.min() < 1.3 * residual  # what it says it is


@pytest.mark.filterwarnings("ignore:alpha=.* chose the smallest")
def test_moments_of_float32_products_do_not_try_penalties_below_their_rounding():
    X, y = data(500)
    model = KernelRidge(RandomFourier(Gaussian(3.0), 64, random_state=0), alpha=1.0).fit(X.astype(np.float32), y)
    model.set_params(alpha="gcv").partial_fit(X.astype(np.float32), y)
    assert model.path_.alphas.min() > 1e-6 * model.path_.alphas.max() / 10
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("name", ["digits", "many"])
def test_probabilities_of_many_classes_are_confident_where_they_are_right(name):
    if name == "digits":
        X, y = load_digits(return_X_y=True)
    else:
        rng = np.random.default_rng(0)
        y = rng.integers(0, 26, 4000)
        X = rng.normal(size=(26, 10))[y] * 3 + rng.normal(size=(4000, 10))
    half = len(X) // 2
    model = KernelRidgeClassifier(RandomFourier(n_components=400, random_state=0), alpha="gcv", random_state=0)
    model.fit(X[:half], y[:half])
    losses = []
    for factor in (0.5, 1.0, 2.0):
        model.probability_scale_ *= factor
        losses.append(log_loss(y[half:], model.predict_proba(X[half:])))
        model.probability_scale_ /= factor
    assert losses[1] < losses[0]
    assert losses[1] < losses[2] + 0.02


def test_weights_equal_repetition_in_probabilities_of_many_rows():
    rng = np.random.default_rng(0)
    X, _ = data(6000)
    y = (X[:, 0] + rng.normal(size=6000) > 0).astype(int)
    weight = rng.integers(0, 3, 6000)
    fresh = KernelRidgeClassifier(RandomFourier(Gaussian(), 64, random_state=0), random_state=0)
    weighted = fresh.fit(X, y, weight).predict_proba(X[:50])
    rows = rng.permutation(np.repeat(np.arange(6000), weight))
    np.testing.assert_allclose(fresh.fit(X[rows], y[rows]).predict_proba(X[:50]), weighted, rtol=1e-9)
    assert np.abs(fresh.fit(X, y).predict_proba(X[:50]) - weighted).max() > 1e-3  # weights matter here


@pytest.mark.parametrize("alpha", ["loo", "gcv", "evidence"])
def test_penalties_do_not_depend_on_the_unit_of_the_targets(alpha):
    X, y = data(60)
    fresh = KernelRidge(RandomFourier(Gaussian(), 30, random_state=0), alpha=alpha)
    expected = fresh.fit(X, y).alpha_
    for unit in (1e-150, 1e-100, 1e100, 1e140):
        assert fresh.fit(X, unit * y).alpha_ == pytest.approx(expected, rel=1e-9)
    for unit, what in ((1e-160, "underflow"), (1e-300, "underflow"), (1e160, "overflow")):
        with pytest.raises(
            DataError, match=rf"alpha='{alpha}' needs targets .* squares {what}\. .*, or give alpha a number"
        ):
            fresh.fit(X, unit * y)
    assert np.isfinite(fresh.fit(X, 0 * y).alpha_)  # squares of zeros are exact


def test_overflow_says_so():
    X, y = data(50)
    with pytest.raises(DataError, match="overflow"):
        KernelRidge(Nystroem(ExponentialDotProduct(100.0), 20, random_state=0)).fit(X.astype(np.float32) * 4, y)
