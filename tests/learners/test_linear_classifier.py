"""Decision values and labels of classifiers that are linear in the features, against the matrix product itself."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from mercer import Gaussian, KernelLogisticRegression, KernelRidgeClassifier, KernelSVC, RandomFourier
from mercer.learners.linear_classifier import LinearClassifier

KINDS = [KernelRidgeClassifier, KernelLogisticRegression, KernelSVC]


def fresh(kind):
    return kind(RandomFourier(Gaussian(1.0), 30, random_state=0))


def data(labels, n=150, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    edges = np.quantile(X[:, 0], np.arange(1, len(labels)) / len(labels))
    return X, np.array(labels)[np.digitize(X[:, 0] + 0.1 * X[:, 1], edges)]


@pytest.mark.parametrize("labels", [["no", "yes"], [7, 3, 5]], ids=["two", "three"])
@pytest.mark.parametrize("kind", KINDS)
def test_decision_values_are_linear_in_the_features(kind, labels):
    X, y = data(labels)
    model = fresh(kind).fit(X, y)
    values = model.feature_map_.transform(X) @ model.coef_.T + model.intercept_
    found = model.decision_function(X)
    if len(labels) == 2:
        assert model.coef_.shape == (1, 30)
        expected = np.where(values[:, 0] > 0, "yes", "no")  # positive for the second label
        values = values[:, 0]
    else:
        assert model.coef_.shape == (3, 30)
        expected = np.array([3, 5, 7])[values.argmax(axis=1)]
    assert found.shape == values.shape
    np.testing.assert_allclose(found, values, rtol=1e-12, atol=1e-12)
    assert np.array_equal(model.predict(X), expected)
    assert (expected == y).mean() > 0.8  # so labels are not merely consistent
    assert np.array_equal(model.predict(sp.csr_matrix(X)), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_on_the_border_gets_the_first_label(kind):
    X, y = data(["no", "yes"])
    model = fresh(kind).fit(X, y)
    model.coef_[:] = 0.0
    model.intercept_[:] = 0.0
    assert set(model.predict(X)) == {"no"}


@pytest.mark.parametrize("method", ["decision_function", "predict"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_unfitted_model_says_so(kind, method):
    assert issubclass(kind, LinearClassifier)
    with pytest.raises(NotFittedError):
        getattr(fresh(kind), method)(np.zeros((2, 3)))


def test_rows_added_later_count_before_the_next_decision():
    X, y = data([7, 3, 5])
    model = fresh(KernelRidgeClassifier).partial_fit(X[:60], y[:60])
    before = model.decision_function(X)
    after = model.partial_fit(X[60:], y[60:]).decision_function(X)
    assert not np.allclose(before, after)
    np.testing.assert_allclose(after, fresh(KernelRidgeClassifier).fit(X, y).decision_function(X), atol=1e-8)


def test_dask_rows_give_lazy_values():
    da = pytest.importorskip("dask.array")
    X, y = data([7, 3, 5])
    model = fresh(KernelRidgeClassifier).fit(X, y)
    lazy = model.decision_function(da.from_array(X, chunks=(50, 3)))
    assert isinstance(lazy, da.Array)
    np.testing.assert_allclose(lazy.compute(scheduler="sync"), model.decision_function(X), rtol=1e-12)
