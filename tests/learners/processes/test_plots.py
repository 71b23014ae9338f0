"""Pictures of processes: what they draw, and what they refuse."""

import numpy as np
import pytest

from mercer import Gaussian, GaussianProcessClassifier, GaussianProcessRegressor, Nystroem
from mercer.errors import ParameterError

matplotlib = pytest.importorskip("matplotlib")
figure = pytest.importorskip("matplotlib.figure")

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(60, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1]
MAP = Nystroem(Gaussian(1.0), 20, random_state=0)


@pytest.fixture
def ax():
    return figure.Figure().subplots()


def test_mean_and_bands_of_one_feature(ax):
    model = GaussianProcessRegressor(MAP, lengthscale_tuning=None).fit(X[:, :1], Y)
    assert model.plot(X[:, :1], Y, ax=ax, coverage=0.5) is ax
    line = ax.lines[0].get_xydata()
    np.testing.assert_allclose(line[:, 1], model.predict(line[:, :1]))
    assert line[0, 0] < X[:, 0].min()
    outer, inner = (collection.get_paths()[0].vertices for collection in ax.collections[:2])
    mean, std = model.predict(line[:1, :1], return_std=True, with_noise=True)
    at_start = outer[np.isclose(outer[:, 0], line[0, 0]), 1]
    assert at_start.max() - mean[0] == pytest.approx(0.6744897 * std[0], rel=1e-5)
    assert np.ptp(inner[:, 1]) <= np.ptp(outer[:, 1])


def test_two_features_names_and_several_targets(ax):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["east", "north"])
    model = GaussianProcessRegressor(MAP, lengthscale_tuning=None).fit(frame, np.column_stack([Y, -Y]))
    model.plot(frame, ax=ax, target=1)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("east", "north")
    with pytest.raises(ParameterError, match="target"):
        model.plot(frame, ax=ax, target=2)


@pytest.mark.parametrize("edges", [[0.0], [-0.7, 0.7]], ids=["two", "three"])
@pytest.mark.parametrize("d", [1, 2])
def test_classifiers(ax, edges, d):
    y = np.digitize(Y, edges)
    options = {"amplitude": 3.0, "lengthscale_tuning": None, "calibrate": False}
    model = GaussianProcessClassifier(MAP, **options).fit(X[:, :d], y)
    assert model.plot(X[:, :d], y, ax=ax) is ax
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == [str(label) for label in model.classes_]
    if d == 1:
        line = ax.lines[0].get_xydata()
        np.testing.assert_allclose(line[:, 1], model.predict_proba(line[:, :1])[:, 0])


def test_without_targets_and_axes():
    matplotlib.use("Agg")
    model = GaussianProcessClassifier(MAP, amplitude=3.0, lengthscale_tuning=None).fit(X, Y > 0)
    ax = model.plot(X)
    from matplotlib import pyplot

    pyplot.close(ax.figure)


def test_what_cannot_be_drawn_is_refused():
    rows = RNG.normal(size=(30, 3))
    model = GaussianProcessRegressor(MAP, lengthscale_tuning=None).fit(rows, rows[:, 0])
    with pytest.raises(ParameterError, match="one or two features, got 3"):
        model.plot(rows)
    narrow = GaussianProcessRegressor(MAP, lengthscale_tuning=None).fit(rows[:, :1], rows[:, 0])
    with pytest.raises(ParameterError, match="coverage"):
        narrow.plot(rows[:, :1], coverage=2)
    with pytest.raises(ParameterError, match="one target per row"):
        narrow.plot(rows[:, :1], rows[:5, 0])
