"""Second moments about any point: features far from zero lose no digits, wherever their rows come from."""

import pickle
from functools import reduce
from operator import add

import numpy as np
import pytest
from mercer.statistics.label_moments import LabelSum
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge, RidgeClassifier

from mercer import Gaussian, KernelPCA, KernelRidge, KernelRidgeClassifier, Polynomial, RandomFourier, RandomMaclaurin
from mercer.engines import Block
from mercer.engines.base import row_blocks, workers
from mercer.io.archive import store
from mercer.learners.ridge import NumberSum
from mercer.solvers.ridge.spectrum import centered_moments
from mercer.statistics.gram import far_mean, moved_gram
from mercer.statistics.moments import MomentSum, symmetric

# Coordinates and a constant: exactly the features of Polynomial(1).
LINEAR = RandomMaclaurin(Polynomial(1), 4, random_state=0)
SLOPES = np.array([1.0, 2.0, -3.0])


def far_rows(offset, dtype=np.float32, n=700):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(n, 3)) * [3, 2, 1] + offset).astype(dtype)
    return X, (X.astype(float) - offset) @ SLOPES + 0.1 * rng.normal(size=n)


def total(X, y, accumulator, rows=200):
    with workers(1) as team:
        for block in row_blocks(Block(0, X, y[:, None]), rows):
            accumulator.add(block, team)
    return accumulator.result()


def drawn(X):
    return LINEAR.fit(X).features_


def test_only_a_mean_far_from_zero_is_worth_a_shift():
    Z = np.random.default_rng(0).normal(size=(300, 5))
    assert far_mean(Z) is None
    assert far_mean(Z + 1) is None
    shift = far_mean(Z + 10)
    np.testing.assert_allclose(shift, 10, atol=0.3)
    np.testing.assert_array_equal(shift, shift.astype(np.float32))  # the same point for features of any dtype
    assert far_mean(np.full((3, 2), 1e200)) is None  # beyond float32
    assert far_mean(np.array([[1e30, 0], [np.inf, 1]])) is None


def test_features_of_a_bounded_kernel_are_summed_as_they_are():
    X = np.random.default_rng(0).normal(size=(500, 3))
    features = RandomFourier(Gaussian(1.5), 64, random_state=0).fit(X).features_
    assert total(X, X[:, 0], NumberSum(features, double=False)).shift is None


def test_moments_move_to_any_point():
    rng = np.random.default_rng(0)
    Z, w = rng.normal(size=(90, 70)) + 3, rng.uniform(0, 2, size=90)
    a, b = rng.normal(size=(2, 70))

    def about(point):
        return ((Z - point) * w[:, None]).T @ (Z - point)

    for start, end in ((a, b), (None, b), (a, np.zeros(70))):
        gram = np.triu(about(0.0 if start is None else start))
        found = moved_gram(gram, w @ Z, w.sum(), start, end)
        np.testing.assert_allclose(symmetric(found), about(end), rtol=1e-11, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [1e2, 1e4, 1e6])
def test_moments_of_features_far_from_zero_keep_their_digits(offset, dtype):
    X, y = far_rows(offset, dtype)
    moments = total(X, y, NumberSum(drawn(X), double=False))
    found, _ = centered_moments(moments, centered=True)
    Z = X.astype(float) - offset  # exact
    Z -= Z.mean(axis=0)
    expected = Z.T @ Z
    rtol = 1e-5 if dtype == np.float32 else 1e-9
    np.testing.assert_allclose(symmetric(found)[1:, 1:], expected, rtol=rtol, atol=rtol * expected.max())
    raw = total(X, y, NumberSum(drawn(X), double=False, centered=False))
    assert raw.shift is None
    if offset >= 1e4 and dtype == np.float32:  # the check above can fail: moments about zero do
        lost = symmetric(centered_moments(raw, centered=True)[0])[1:, 1:]
        assert np.abs(lost - expected).max() > 100 * rtol * expected.max()


def test_moments_about_different_points_add_up():
    X, y = far_rows(1000.0, np.float64)
    X[400:] += 5  # the parts see other means
    whole = total(X, y, NumberSum(drawn(X), double=False))
    near = far_rows(0.0, np.float64)
    parts = [total(X[i : i + 100], y[i : i + 100], NumberSum(drawn(X), double=False)) for i in range(0, 700, 100)]
    assert not np.array_equal(parts[0].shift, parts[-1].shift)
    assert total(*near, NumberSum(drawn(X), double=False)).shift is None
    for moments in (reduce(add, parts), reduce(add, reversed(parts))):
        for centered in (True, False):
            a, b = (symmetric(centered_moments(m, centered=centered)[0]) for m in (whole, moments))
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-8)
        np.testing.assert_allclose(whole.targets.cross, moments.targets.cross, rtol=1e-9, atol=1e-7)
    mixed = total(*near, NumberSum(drawn(X), double=False)) + whole
    swapped = whole + total(*near, NumberSum(drawn(X), double=False))
    assert mixed.shift is None
    np.testing.assert_allclose(symmetric(mixed.gram), symmetric(swapped.about(None)), rtol=1e-12)


def test_rows_of_both_dtypes_are_taken_less_the_same_point():
    X, y = far_rows(1000.0, np.float64)
    with workers(1) as team:
        accumulator = NumberSum(drawn(X), double=False)
        accumulator.add(Block(0, X[:300], y[:300, None]), team)
        accumulator.add(Block(300, X[300:].astype(np.float32), y[300:, None]), team)
    Z = X - X.mean(axis=0)
    found = symmetric(centered_moments(accumulator.result(), centered=True)[0])[1:, 1:]
    np.testing.assert_allclose(found, Z.T @ Z, rtol=1e-4, atol=0.1)


@pytest.mark.parametrize("kind", ["numbers", "labels"])
def test_sums_go_on_from_a_state_with_a_shift(kind):
    X, y = far_rows(1000.0)
    features = drawn(X)

    def fresh():
        return NumberSum(features, double=False) if kind == "numbers" else LabelSum(features, 0, double=False)

    y = y[:, None] if kind == "numbers" else (y > 0).astype(int)
    with workers(1) as team:
        whole, first, second = fresh(), fresh(), fresh()
        for part in (slice(0, 300), slice(300, 700)):
            whole.add(Block(part.start, X[part], y[part]), team)
        first.add(Block(0, X[:300], y[:300]), team)
        state = store(first.state()).value()
        assert state.shift is not None
        second.restore(pickle.loads(pickle.dumps(state)))
        second.add(Block(300, X[300:], y[300:]), team)
    np.testing.assert_array_equal(np.triu(second.result().gram), np.triu(whole.result().gram))
    np.testing.assert_array_equal(second.result().shift, whole.result().shift)


def test_ridge_far_from_zero_is_that_of_scikit_learn_from_every_engine():
    da = pytest.importorskip("dask.array")
    X, y = far_rows(1000.0)
    near = X.astype(float) - 1000
    blocks = [(X[i : i + 130], y[i : i + 130]) for i in range(0, 700, 130)]
    added = KernelRidge(LINEAR)
    for block in blocks:
        added.partial_fit(*block)
    models = [
        KernelRidge(LINEAR).fit(X, y),
        KernelRidge(LINEAR, block_size=7).fit(X, y),
        KernelRidge(LINEAR).fit(blocks),
        KernelRidge(LINEAR).fit(da.from_array(X, chunks=(90, 3)), da.from_array(y, chunks=90)),
        KernelRidge(LINEAR, alpha="gcv").fit(X, y),
        added,
    ]
    for model in models:
        expected = Ridge(alpha=model.alpha_).fit(near, y)
        np.testing.assert_allclose(model.predict(X), expected.predict(near), atol=2e-4)


def test_an_intercept_of_zero_takes_the_moments_about_zero():
    X, y = far_rows(10.0, np.float64)
    model = KernelRidge(LINEAR).fit(X, y)
    assert model.statistic_.shift is not None
    model.set_params(fit_intercept=False)
    model._solve()
    Z = LINEAR.fit(X).transform(X)
    expected = Ridge(alpha=1.0, fit_intercept=False).fit(Z, y)
    np.testing.assert_allclose(model.predict(X), expected.predict(Z), atol=1e-8)


def test_classification_and_components_far_from_zero():
    X, y = far_rows(1000.0)
    near = X.astype(float) - 1000
    labels = np.digitize(y, [-3, 3])
    model = KernelRidgeClassifier(LINEAR, random_state=0).fit(X, labels)
    expected = RidgeClassifier(alpha=1.0).fit(near, labels).decision_function(near)
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-3)
    X, _ = far_rows(1e6, np.float64)
    components = KernelPCA(LINEAR, 3).fit(X)
    expected = PCA(3).fit(X - 1e6)
    np.testing.assert_allclose(components.eigenvalues_, expected.singular_values_**2, rtol=1e-9)


def test_components_that_only_rounding_has_are_not_found():
    X, _ = far_rows(1000.0, np.float64)
    assert KernelPCA(LINEAR).fit(X).eigenvalues_.shape == (3,)
    constant = np.full((50, 3), 0.1) + 1000
    assert KernelPCA(LINEAR).fit(constant).eigenvalues_.tolist() == [0.0]


def test_moment_sums_are_about_zero_unless_means_will_be_taken_off():
    X, y = far_rows(1000.0, np.float64)
    with workers(1) as team:
        plain = MomentSum(drawn(X))
        moments = plain.moments(plain.add(Block(0, X), y[:, None], team))
    assert moments.shift is None
    Z = np.column_stack([np.ones(len(X)), X])
    np.testing.assert_allclose(symmetric(moments.gram), Z.T @ Z, rtol=1e-12)
