"""Data frames of pandas and polars in, and out by `set_output`, for every map and learner."""

import numpy as np
import pytest
from sklearn.base import clone
from tests.instances import LEARNERS, MAPS, rows_for

from mercer import Gaussian, KernelPCA, KernelRidge


def frame_of(kind, X):
    module = pytest.importorskip(kind)
    return module.DataFrame({f"x{j}": X[:, j] for j in range(X.shape[1])})


def one_of_each(instances):
    """Return the first instance of each class."""
    found = {}
    for one in instances:
        found.setdefault(type(one).__name__, one)
    return list(found.values())


def seeded(estimator):
    """Return an unfitted copy with fixed seeds, also of its parts."""
    seeds = {name: 0 for name in estimator.get_params() if name.endswith("random_state")}
    return clone(estimator).set_params(**seeds)


def rows_of(estimator):
    """Return rows that the kernel of a map or a learner takes."""
    kernel = getattr(getattr(estimator, "feature_map", estimator), "kernel", None)
    return rows_for(Gaussian() if kernel is None else kernel, 0)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
@pytest.mark.parametrize("feature_map", one_of_each(MAPS), ids=lambda one: type(one).__name__)
@pytest.mark.filterwarnings("ignore::mercer.errors.MercerWarning")
def test_maps_take_frames_and_return_frames(feature_map, kind):
    X = rows_of(feature_map)
    frame = frame_of(kind, X)
    y = X[:, 0]
    expected = seeded(feature_map).fit(X, y).transform(X)
    fitted = seeded(feature_map).set_output(transform=kind).fit(frame, y)
    found = fitted.transform(frame)
    assert type(found) is type(frame)
    assert list(found.columns) == list(fitted.get_feature_names_out())
    np.testing.assert_allclose(found.to_numpy(), expected, rtol=1e-9, atol=1e-9)
    assert list(fitted.feature_names_in_) == list(frame.columns)
    if kind == "pandas":
        shifted = frame.set_index(np.arange(len(X)) + 100)
        assert list(fitted.transform(shifted).index) == list(shifted.index)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
@pytest.mark.parametrize("model", one_of_each(LEARNERS), ids=lambda one: type(one).__name__)
@pytest.mark.filterwarnings("ignore::mercer.errors.MercerWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
def test_learners_take_frames(model, kind):
    X = rows_of(model)
    y = np.arange(len(X)) % 2
    frame = frame_of(kind, X)
    target = pytest.importorskip(kind).Series("y", y) if kind == "polars" else pytest.importorskip(kind).Series(y)
    method = "predict" if hasattr(model, "predict") else "transform"
    expected = getattr(seeded(model).fit(X, y), method)(X)
    fitted = seeded(model).fit(frame, target)
    np.testing.assert_allclose(np.asarray(getattr(fitted, method)(frame)), expected, rtol=1e-7, atol=1e-9)
    with pytest.raises(ValueError, match="feature names"):
        getattr(fitted, method)(frame[list(frame.columns)[::-1]])


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_principal_components_are_frames(kind):
    X = rows_for(Gaussian(), 0)
    found = KernelPCA(n_components=2, random_state=0).set_output(transform=kind).fit_transform(frame_of(kind, X))
    assert list(found.columns) == ["kernelpca0", "kernelpca1"]
    assert found.shape == (len(X), 2)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_columns_in_another_order_are_refused(kind):
    X = rows_for(Gaussian(), 0)
    frame = frame_of(kind, X)
    model = KernelRidge(random_state=0).fit(frame, X[:, 0])
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["x1", "x0", "x2"]])
