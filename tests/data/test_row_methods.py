"""Methods that give one result a row: at once for arrays, lazy for dask collections."""

import numpy as np
import pytest

from mercer import GaussianProcessRegressor, KernelKMeans, KernelLogisticRegression, KernelPCA, KernelRidge
from mercer.data.row_methods import ROW_METHODS, lazy_on_dask

da = pytest.importorskip("dask.array")


class Multiplier:
    """Counts the rows that it is given, and multiplies them."""

    def __init__(self):
        self.seen = []

    def method(self, X, factor=1.0, *, shift=0.0):
        """Multiply rows."""
        self.seen.append(len(X))
        return X[:, 0] * factor + shift

    predict = lazy_on_dask("predict", method)


def test_arrays_go_straight_through():
    model, X = Multiplier(), np.arange(12.0).reshape(6, 2)
    assert np.array_equal(model.predict(X, 3.0, shift=1.0), 3 * X[:, 0] + 1)
    assert model.seen == [6]
    assert Multiplier.predict.__doc__ == "Multiply rows."


def test_dask_rows_wait_until_they_are_asked_for():
    model, X = Multiplier(), np.arange(120.0).reshape(60, 2)
    lazy = model.predict(da.from_array(X, chunks=(20, 2)), 3.0, shift=1.0)
    assert isinstance(lazy, da.Array)
    assert sum(model.seen) < 10  # a few made-up rows tell the shape
    assert lazy.chunks == ((20, 20, 20),)
    assert np.array_equal(lazy.compute(scheduler="sync"), 3 * X[:, 0] + 1)


@pytest.mark.parametrize(
    "kind", [GaussianProcessRegressor, KernelKMeans, KernelLogisticRegression, KernelPCA, KernelRidge]
)
def test_every_row_method_of_a_learner_is_wrapped_once(kind):
    assert {"decision_function", "predict", "predict_log_proba", "predict_proba", "transform"} == ROW_METHODS
    found = [name for name in ROW_METHODS if hasattr(kind, name)]
    assert found
    for name in found:
        layers = [getattr(kind, name)]  # scikit-learn wraps some methods, too
        while hasattr(layers[-1], "__wrapped__"):
            layers.append(layers[-1].__wrapped__)
        assert [layer.__code__ for layer in layers].count(Multiplier.predict.__code__) == 1
