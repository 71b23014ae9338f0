"""Descriptions of fitted models: complete, honest about exact kernels, within a time limit."""

import json
import warnings

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer import Gaussian, KernelClassifier, KernelRegressor, KernelRidge, Nystroem
from mercer.diagnostics.fits import (
    FitResult,
    audit_of_best,
    confusion_counts,
    describe_fit,
    learning_curve,
    reliability,
    score_interval,
)
from mercer.diagnostics.fits.results import json_value
from mercer.errors import DataError, MercerWarning


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(500, 3))
    # A product of columns, so that kernels are better than sums of functions of columns.
    return X, np.sin(2 * X[:, 0]) * (1 + X[:, 1]) + 0.1 * rng.normal(size=500)


@pytest.fixture(scope="module")
def regressor(rows):
    X, y = rows
    return KernelRegressor(random_state=0, time_limit=1).fit(X[:300], y[:300])


@pytest.fixture(scope="module")
def classifier(rows):
    X, y = rows
    return KernelClassifier(random_state=0, time_limit=1).fit(X[:300], np.where(y[:300] > 0, "up", "down"))


def test_description_of_a_regression(rows, regressor):
    X, y = rows
    stages = []
    found = describe_fit(
        regressor,
        X[:300],
        y[:300],
        X[300:],
        y[300:],
        columns=["wave", "slope", "noise"],
        fit_seconds=2.0,
        progress=stages.append,
    )
    assert stages == list(found.timings)
    assert [score.name for score in found.scores] == ["R2", "RMSE", "MAE"]
    assert found.scores[0].value == pytest.approx(regressor.score(X[300:], y[300:]))
    assert found.headline == "R2"
    wave, slope, noise = found.importances
    assert wave.permutation > slope.permutation > 0.1
    assert abs(noise.permutation) < 0.02
    assert wave.metric + slope.metric + noise.metric == pytest.approx(1)
    assert 0.8 <= found.coverage <= 1
    assert ((found.test_low < found.test_predicted) & (found.test_predicted < found.test_high)).all()
    np.testing.assert_array_equal(found.test_true, y[300:])
    assert (found.test_std > 0).all()
    sizes = [point.n_rows for point in found.curve]
    assert sizes == sorted(sizes)
    assert sizes[-1] == 300
    assert found.curve[-1].value == found.scores[0].value
    assert found.curve[0].value < found.curve[-1].value
    assert found.trials
    assert found.trials[0]["name"]
    assert "300 rows" in found.explanation
    json.dumps(json_value(found.fields()), allow_nan=False)
    assert set(found.fields()) <= set(FitResult.__dataclass_fields__)


def test_description_of_labels(rows, classifier):
    X, y = rows
    truth = np.where(y[300:] > 0, "up", "down")
    found = describe_fit(classifier, None, None, X[300:], truth)
    assert [score.name for score in found.scores] == ["accuracy", "log loss"]
    assert found.scores[0].value == pytest.approx(classifier.score(X[300:], truth))
    assert found.classes == ("down", "up")
    assert np.sum(found.confusion) == 200
    assert np.trace(found.confusion) == (found.predictions == truth).sum()
    assert sum(one.count for one in found.reliability) == 200
    assert found.curve == ()
    assert found.test_std is None


def test_members_fitted_to_all_rows_are_the_model(rows, regressor, classifier):
    X, y = rows
    (point,) = learning_curve(regressor, X[:300], y[:300], X[300:], y[300:], sizes=[300])
    expected = score_interval("R2", y[300:], regressor.predict(X[300:]))
    assert point.value == pytest.approx(expected.value, abs=1e-6)
    labels = np.where(y > 0, "up", "down")
    (point,) = learning_curve(classifier, X[:300], labels[:300], X[300:], labels[300:], score="accuracy", sizes=[300])
    assert point.value == pytest.approx(classifier.score(X[300:], labels[300:]), abs=0.006)


def test_learning_curve_ends_with_its_time(rows, regressor, monkeypatch):
    X, y = rows
    last = (300, score_interval("R2", y[300:], regressor.predict(X[300:])), 2.0)
    points = learning_curve(regressor, X[:300], y[:300], X[300:], y[300:], time_limit=1e-6, last=last)
    assert [one.n_rows for one in points] == [75, 300]  # the first fit shows how long the others would take


def test_sizes_without_a_model_are_left_out(rows, classifier):
    X, _ = rows
    labels = np.array(["up"] * 299 + ["down"])
    points = learning_curve(classifier, X[:300], labels, X[300:], labels[:200], score="accuracy", sizes=[10])
    assert points == ()


def test_all_rows_as_landmarks_are_an_exact_kernel(rows, regressor):
    X, _ = rows
    found = audit_of_best(regressor, X[300:], X_train=X[:300])
    assert (found.map_name, found.width) == ("Nystroem", 300)
    assert "All 300 training rows are landmarks" in found.note
    assert [one.width for one in found.widths] == [19, 38, 75, 150]
    assert found.rmse < found.widths[-1].error


def test_a_line_has_an_exact_kernel(rows):
    from mercer import Polynomial, RandomMaclaurin

    X, y = rows
    model = KernelRidge(RandomMaclaurin(Polynomial(1, 1.0), 4), random_state=0).fit(X[:300], y[:300])
    found = audit_of_best(model, X[300:], X_train=X[:300])
    assert (found.rmse, found.widths) == (0.0, ())
    assert "no error but rounding" in found.note


def test_kernel_error_falls_with_the_number_of_components(rows):
    X, y = rows
    model = KernelRidge(Nystroem(Gaussian(1.0), 64, random_state=0), random_state=0).fit(X[:300], y[:300])
    found = audit_of_best(model, X[300:], X_train=X[:300])
    errors = {one.width: one.error for one in found.widths} | {found.width: found.rmse}
    assert sorted(errors) == [4, 8, 16, 32, 64, 128]
    assert [errors[width] for width in sorted(errors)] == sorted(errors.values(), reverse=True)
    assert all(one.low <= one.error <= one.high for one in found.widths)
    assert "With 128 components the error would be" in found.note
    assert "near rows" not in found.note
    assert audit_of_best(model, X[300:], time_limit=1e-9, X_train=X[:300]).widths == ()
    assert audit_of_best(model, X[300:]).widths == ()
    pipeline = make_pipeline(StandardScaler(), KernelRidge(Nystroem(Gaussian(1.0), 64, random_state=0), random_state=0))
    assert audit_of_best(pipeline.fit(X[:300], y[:300]), X[300:]).width == 64


def test_models_without_a_map_have_no_audit(rows):
    from sklearn.linear_model import LinearRegression

    X, y = rows
    model = LinearRegression().fit(X[:300], y[:300])
    found = describe_fit(model, X[:300], y[:300], X[300:], y[300:])
    assert found.audit is None
    assert found.coverage is None
    assert found.importances[0].metric is None
    assert len(found.curve) == 3
    assert found.explanation == ""


def test_labels_without_probabilities_are_scored_by_accuracy(rows):
    from sklearn.svm import LinearSVC

    X, y = rows
    labels = (y > 0).astype(int)
    model = LinearSVC(random_state=0).fit(X[:300], labels[:300])
    found = describe_fit(model, X[:300], labels[:300], X[300:], labels[300:])
    assert [one.name for one in found.scores] == ["accuracy"]
    assert found.reliability == ()
    assert np.sum(found.confusion) == 200
    assert found.curve[-1].value == found.scores[0].value


def test_warnings_about_test_rows_are_issued_once():
    class Warning:
        def predict(self, X):
            warnings.warn("unseen", MercerWarning, stacklevel=2)
            return X[:, 0]

    X = np.random.default_rng(0).normal(size=(300, 2))
    with pytest.warns(MercerWarning) as noted:
        describe_fit(Warning(), None, None, X, X[:, 0])
    assert len(noted) == 1


def test_one_test_row_is_described(rows, regressor):
    X, y = rows
    found = describe_fit(regressor, X[:300], y[:300], X[300:301], y[300:301], time_limit=2)
    assert np.isnan(found.scores[0].value)
    assert found.audit is None


def test_targets_must_be_of_one_column(rows, regressor):
    X, _ = rows
    with pytest.raises(DataError, match="one target per test row"):
        describe_fit(regressor, None, None, X, X)


def test_reliability_bins_count_all_rows():
    bins = reliability([0.05, 0.15, 0.15, 0.95, 1.0], [False, True, False, True, True])
    assert [one.count for one in bins] == [1, 2, 2]
    assert [one.observed for one in bins] == [0.0, 0.5, 1.0]
    assert all(0 <= one.low <= one.observed <= one.high <= 1 for one in bins)
    with pytest.raises(DataError, match="one shape"):
        reliability([0.5], [True, False])


def test_labels_that_were_not_trained_are_not_in_the_confusion():
    assert confusion_counts(["a", "z"], ["a", "a"], ["a", "b"]) == ((1, 0), (0, 0))
    assert confusion_counts(["z"], ["a"], ["a", "b"]) == ((0, 0), (0, 0))
