"""Measured errors of a map, and the coverage of their confidence interval."""

import json
import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.stats import binom
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from mercer import (
    DataError,
    Deformed,
    FeatureMap,
    Gaussian,
    Matern,
    MercerWarning,
    NeighborGraph,
    Nystroem,
    ParameterError,
    Polynomial,
    PolynomialSketch,
    ProductMap,
    RandomFourier,
    RandomMaclaurin,
    SphericalRadial,
    SumMap,
    audit,
)
from mercer.diagnostics import subject as subject_module
from mercer.diagnostics.audit import audit_matrix


def rows(n=300, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 5))


def test_errors_equal_those_of_the_kernel_matrices():
    X = rows(40)
    feature_map = RandomFourier(Gaussian(2.0), 64, random_state=0).fit(X)
    result = audit(feature_map, X)
    error = feature_map.gram(X) - Gaussian(2.0)(X)
    off = ~np.eye(40, dtype=bool)
    assert result.rmse == pytest.approx(np.sqrt(np.square(error[off]).mean()))
    assert result.mean_error == pytest.approx(error[off].mean())
    assert result.max_error == pytest.approx(np.abs(error).max())
    assert result.relative_error == pytest.approx(np.linalg.norm(error) / np.linalg.norm(Gaussian(2.0)(X)))
    predicted = np.sqrt(feature_map.variance(X)[off].mean())
    assert result.predicted_rmse == pytest.approx(predicted)


def far_rows(seed=0):
    """Return 600 rows of which two pairs are far from all others and have most of the error of landmark maps."""
    rng = np.random.default_rng(seed)
    far = np.repeat([[12.0, 0, 0], [0, -12.0, 0]], 2, axis=0) + 0.1 * rng.normal(size=(4, 3))
    return np.concatenate([0.6 * rng.normal(size=(596, 3)), far])


def covered(feature_map, X, seeds, names=("rmse",), shrink=1.0):
    """Return how many intervals of each error, with their lengths multiplied by `shrink`, contain that of all pairs."""
    exact, found = audit(feature_map, X, n_rows=len(X)), np.zeros((2, len(names)), dtype=int)
    for seed in range(seeds):
        result = audit(feature_map, X, n_rows=100, random_state=seed)
        for i, name in enumerate(names):
            middle = getattr(result, name)
            for j, factor in enumerate((1.0, shrink)):
                low, high = (middle + factor * (end - middle) for end in getattr(result, f"{name}_interval"))
                found[j, i] += low <= getattr(exact, name) <= high
    return found


@pytest.mark.parametrize("landmarks", ["pivoted", "uniform"])
def test_interval_holds_if_few_rows_account_for_the_error(landmarks):
    X = far_rows()
    feature_map = Nystroem(Gaussian(1.5), 40, landmarks=landmarks, random_state=0).fit(far_rows(1)[:596])
    exact = audit(feature_map, X, n_rows=len(X))
    assert 4 < exact.effective_rows < 6
    assert re.search("; about [456] of the rows account for the error$", str(exact))
    # With a true coverage of 0.90 or more, fewer are covered once in a million runs. Uniform pairs nearly never cover.
    assert covered(feature_map, X, 10)[0, 0] >= binom.ppf(1e-6, 10, 0.90)


@pytest.mark.slow
@pytest.mark.parametrize(
    "feature_map",
    [Nystroem(Gaussian(1.5), 40, random_state=0), PolynomialSketch(Polynomial(2), 64, random_state=0)],
    ids=lambda m: type(m).__name__,
)
def test_interval_covers_the_error_on_all_rows_as_often_as_it_claims(feature_map):
    X, seeds = far_rows(), 80
    feature_map.fit(far_rows(1)[:596])
    full, short = covered(feature_map, X, seeds, ("rmse", "mean_error", "relative_error"), shrink=0.2)
    # With a true coverage of 0.92 or more, fewer are covered once in a million runs.
    assert (full >= binom.ppf(1e-6, seeds, 0.92)).all()
    # The test has power: intervals of a fifth of the length cover far less often.
    assert (short < binom.ppf(1e-6, seeds, 0.92)).all()


def test_estimates_are_close_to_the_errors_over_all_pairs():
    X = np.concatenate([rows(400), 3 * rows(20, seed=1)])
    for feature_map, Y in (
        (RandomFourier(Gaussian(2.0), 64, random_state=0), X),
        (RandomFourier(Gaussian(2.0), 64, form="complex", random_state=0), sp.csr_array(X)),
        (PolynomialSketch(Polynomial(2), 64, random_state=0), X.astype(np.float32)),
        (SphericalRadial(Gaussian(2.0), 64, constant="signed", random_state=0), X),
    ):
        fitted = feature_map.fit(Y)
        exact, estimated = audit(fitted, Y), audit(fitted, Y, n_rows=300)
        assert exact.all_pairs
        assert not estimated.all_pairs
        assert (exact.n_rows, estimated.n_rows) == (420, 420)
        assert exact.n_pairs == 420 * 419 // 2
        low, high = estimated.rmse_interval
        assert low < estimated.rmse < high
        # The ends of the interval are 1.96 standard errors from the estimate; 5 have a probability below 1e-6.
        error = 5 * (high - low) / (2 * 1.96)
        assert abs(estimated.rmse - exact.rmse) < error
        relative = error / exact.rmse
        assert relative < 0.2
        assert estimated.relative_error == pytest.approx(exact.relative_error, rel=2 * relative)
        assert abs(estimated.mean_error - exact.mean_error) < 2 * error
        assert estimated.effective_rows == pytest.approx(exact.effective_rows, rel=0.5)
        assert estimated.max_error <= exact.max_error * (1 + 1e-6)
        if exact.predicted_rmse is not None:
            assert estimated.predicted_rmse == pytest.approx(exact.predicted_rmse, rel=0.1)


def test_estimates_do_not_depend_on_whether_features_are_stored(monkeypatch):
    X = rows(300)
    feature_map = RandomFourier(Gaussian(2.0), 16, random_state=0).fit(X)
    stored = audit(feature_map, X, n_rows=100)
    monkeypatch.setattr(subject_module, "STORED_BYTES", 0)
    again = audit(feature_map, X, n_rows=100)
    assert again.rmse == pytest.approx(stored.rmse, rel=1e-12)
    assert audit(feature_map, X, n_rows=100, random_state=1).rmse != stored.rmse


def test_exact_maps_have_an_interval_of_the_size_of_rounding_errors():
    X = rows(400)
    feature_map = RandomFourier(Gaussian(2.0), 16, random_state=0).fit(X)
    linear = Nystroem(Polynomial(1, coef0=0.0), 10, random_state=0).fit(rows(50, seed=1))
    assert audit(linear, X, n_rows=100).rmse_interval[1] < 1e-12
    zeros = audit(linear, np.zeros((200, 5)), n_rows=100)
    assert (zeros.rmse, zeros.rmse_interval, zeros.relative_error, zeros.effective_rows) == (0, (0, 0), 0, 200)
    same = audit(feature_map, np.ones((200, 5)), n_rows=100)
    assert same.max_error < 1e-12


def test_the_text_has_an_interval_only_for_an_estimate():
    X = rows(300)
    feature_map = RandomFourier(Gaussian(2.0), 16, random_state=0).fit(X)
    exact, estimated = audit(feature_map, X), audit(feature_map, X, n_rows=100)
    assert exact.rmse_interval == (exact.rmse, exact.rmse)
    assert "95 %" not in str(exact)
    assert "on all pairs of 300 rows" in str(exact)
    low, high = estimated.rmse_interval
    assert f"(95 % {low:.3g} to {high:.3g}, predicted" in str(estimated)
    assert "estimated for all pairs of 300 rows from 9216 of them" in str(estimated)


def test_predicted_error_agrees_with_the_measured_one():
    X = rows()
    for directions in ("iid", "orthogonal", "big_block"):
        results = [
            audit(RandomFourier(Gaussian(2.0), 64, directions=directions, random_state=s).fit(X), X) for s in range(30)
        ]
        measured = np.sqrt(np.mean([r.rmse**2 for r in results]))
        assert measured == pytest.approx(results[0].predicted_rmse, rel=0.15)


def test_exact_map_has_no_error_and_no_prediction():
    X = rows(50)
    feature_map = Nystroem(Gaussian(2.0), 50, landmarks="uniform", random_state=0).fit(X)
    with pytest.warns(MercerWarning, match="50 of the 50 rows of X are among the rows that Nystroem was built from"):
        result = audit(feature_map, X)
    assert result.max_error < 1e-8
    assert result.predicted_rmse is None


def test_result_can_be_written_as_json():
    X = rows(30)
    result = audit(RandomFourier(Gaussian(2.0), 16, random_state=0).fit(X), X)
    assert json.loads(json.dumps(result.to_dict()))["n_components"] == 16


def test_fewer_than_two_rows_raise():
    X = rows(30)
    feature_map = RandomFourier(Gaussian(2.0), 16).fit(X)
    with pytest.raises(DataError, match="at least 2 rows to measure an error on pairs of different rows, got 1"):
        audit(feature_map, X[:1])
    assert audit(feature_map, X[:2]).n_pairs == 1


def test_largest_error_of_all_pairs_is_in_its_interval():
    X = far_rows()
    landmarks = Nystroem(Gaussian(1.5), 40, random_state=0).fit(far_rows(1)[:596])
    result = audit(landmarks, X, n_rows=100)
    assert result.max_error_interval == (result.max_error, result.max_error)
    assert result.max_error == pytest.approx(audit(landmarks, X, n_rows=600).max_error)
    fourier = RandomFourier(Gaussian(1.5), 40, random_state=0).fit(X)
    result, exact = audit(fourier, X, n_rows=100), audit(fourier, X, n_rows=600)
    assert result.max_error_interval[0] <= exact.max_error <= result.max_error_interval[1] <= 2.1
    assert exact.max_error_interval == (exact.max_error, exact.max_error)


def test_methods_measure_the_map_as_it_was_at_the_audit():
    X = rows(100)
    feature_map = RandomFourier(Gaussian(2.0), 16, random_state=0).fit(X)
    result = audit(feature_map, X)
    before = result.by_distance(3)
    feature_map.set_params(n_components=512).fit(X)
    assert result.by_distance(3) == before


def test_stored_results_do_not_contain_rows():
    X = rows(2000)
    result = audit(RandomFourier(Gaussian(2.0), 16, random_state=0).fit(X), X, n_rows=100)
    result.predict_rmse(32)
    stored = pickle.dumps(result)
    assert len(stored) < 2000
    again = pickle.loads(stored)
    assert again == result
    with pytest.raises(ParameterError, match=r"^Audit\.ridge: this result does not refer to a map and rows"):
        again.ridge()


def test_summary_of_few_rows():
    feature_map = RandomFourier(Gaussian(2.0), 16, random_state=0).fit(rows())
    assert "no effect on ridge predictions: audit: ridge predictions need at least 20 rows" in (
        audit(feature_map, rows(5)).summary()
    )


def test_summary_has_all_errors():
    X = rows(300)
    feature_map = Nystroem(Gaussian(2.0), 16, random_state=0).fit(rows(300, seed=1))
    text = audit(feature_map, X, n_rows=100).summary()
    for part in ("mean error", "relative error", "largest error", "spectral norm", "ridge predictions", "distance"):
        assert part in text
    assert "no prediction for other widths: Audit: the error of Nystroem at other widths does not follow" in text
    assert "components for half the RMSE" in audit(feature_map, X, widths=(8, 16), n_draws=1).summary()


# ---- other numbers of components ----------------------------------------------------------------


def mean_squared_errors(feature_map, X, n_components, draws):
    maps = [clone(feature_map).set_params(n_components=n_components, random_state=s) for s in range(100, 100 + draws)]
    return np.array([audit(one.fit(rows(300, seed=1)), X).rmse ** 2 for one in maps])


@pytest.mark.parametrize(
    "feature_map",
    [
        RandomFourier(Gaussian(2.0), 32, directions="iid", random_state=0),
        RandomFourier(Gaussian(2.0), 32, directions="big_block", random_state=0),
        PolynomialSketch(Polynomial(2), 32, random_state=0),
    ],
    ids=["independent", "coupled", "sketch"],
)
def test_error_of_unbiased_maps_at_other_widths_is_predicted(feature_map):
    X = rows(60)
    result = audit(feature_map.fit(rows(300, seed=1)), X)
    assert result.prediction_method == "by the closed form of its variance"
    assert result.predict_rmse(32) == pytest.approx(result.predicted_rmse)
    for width in (64, 128):
        errors = mean_squared_errors(feature_map, X, width, 40)
        margin = 5 * errors.std(ddof=1) / np.sqrt(40)
        assert abs(errors.mean() - result.predict_rmse(width) ** 2) < margin
        assert abs(errors.mean() - result.predict_rmse(width // 2) ** 2) > margin  # the test has power
        assert result.components_for(result.predict_rmse(width)) == pytest.approx(width, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(
    "feature_map",
    [RandomFourier(Gaussian(2.0), 32, directions="iid", random_state=0), PolynomialSketch(Polynomial(2), 32)],
    ids=lambda m: type(m).__name__,
)
def test_interval_covers_the_error_of_new_draws(feature_map):
    X = rows(60)
    feature_map = clone(feature_map).fit(X)
    assert audit(feature_map, X).predict_interval(64) is None
    covered = {1.0: 0, 0.2: 0}
    new = np.sqrt(mean_squared_errors(feature_map, X, 128, 40))
    for seed, error in enumerate(new):
        result = audit(feature_map, X, widths=(16, 32), n_draws=4, random_state=seed)
        center = result.predict_rmse(128)
        for shrink in covered:
            low, high = (center * (end / center) ** shrink for end in result.predict_interval(128))
            covered[shrink] += low <= error <= high
    assert covered[1.0] >= binom.ppf(1e-6, 40, 0.92)
    assert covered[0.2] < binom.ppf(1e-6, 40, 0.92)


def test_error_of_coupled_maps_without_closed_form_is_predicted_at_the_rate_of_independent_draws():
    X = rows(60)
    feature_map = RandomFourier(Matern(1.5, 2.0), 32, random_state=0).fit(X)
    result = audit(feature_map, X)
    assert result.predicted_rmse is None
    assert result.predict_rmse(128) == pytest.approx(result.rmse / 2)
    assert result.predict_interval(128) is None
    assert "as for independent draws of it" in result.prediction_method
    with_draws = audit(feature_map, X, widths=(16, 32), n_draws=2)
    errors = [result.rmse, *with_draws.widths[1].rmse]
    assert with_draws.predict_rmse(128) == pytest.approx(np.sqrt(np.mean(np.square(errors))) / 2)


def test_error_of_landmarks_at_other_widths_is_extrapolated_from_two():
    X = rows(200)
    feature_map = Nystroem(Gaussian(3.0), 32, random_state=0).fit(rows(300, seed=1))
    result = audit(feature_map, X, widths=(16, 32))
    assert [one.n_components for one in result.widths] == [16, 32]
    assert [len(set(one.rmse)) for one in result.widths] == [3, 3]
    assert result.predict_interval(64) is None
    assert result.predict_rmse(32) == pytest.approx(result.rmse)
    for width in (64, 128):
        measured = audit(clone(feature_map).set_params(n_components=width).fit(rows(300, seed=1)), X).rmse
        # No interval is claimed. Errors fall by 1.5 to 8 with each doubling here, and the rate is right to a third.
        doublings = np.log2(width / 32)
        assert np.log(result.predict_rmse(width) / measured) / doublings == pytest.approx(0, abs=np.log(1.6))
        assert not np.log(result.rmse / measured) / doublings == pytest.approx(0, abs=np.log(1.6))
    with pytest.raises(
        ParameterError, match=r"because the map is biased\. .* audit\(feature_map, X, widths=\(8, 16\)\)"
    ):
        audit(feature_map, X).predict_rmse(64)


def test_a_chosen_map_is_drawn_again_and_not_chosen_again():
    X = rows(200)
    feature_map = FeatureMap(Gaussian(2.0), 32, method="RandomFourier", random_state=0).fit(rows(200, seed=1))
    result, direct = audit(feature_map, X[:60]), audit(feature_map.map_, X[:60])
    assert result.feature_map == "FeatureMap"
    assert result.predict_rmse(64) == direct.predict_rmse(64)
    assert result.prediction_method == direct.prediction_method


def test_maps_of_other_widths_are_measured_on_rows_that_they_are_not_built_from():
    X = rows(60)
    landmarks = Nystroem(Gaussian(0.5), 30, landmarks="uniform", random_state=0).fit(rows(60, seed=1))
    # With all rows of one half as landmarks, the error is zero on this half, and not on the other one.
    assert min(audit(landmarks, X, widths=(30,), n_draws=2).widths[0].rmse) > 1e-3
    with pytest.raises(DataError, match="widths needs at least 4 rows, half of which Nystroem is fitted to, got 3"):
        audit(landmarks, X[:3], widths=(2,))
    fourier = RandomFourier(Gaussian(2.0), 16, random_state=0).fit(X)
    (measured,) = audit(fourier, X, widths=(16,), n_draws=1, random_state=3).widths
    seed = int(audit(fourier, X, random_state=3)._subject("").generator("draws").integers(2**31, size=1)[0])
    assert measured.rmse == (audit(clone(fourier).set_params(random_state=seed).fit(X), X).rmse,)


def test_widths_of_maps_without_the_parameter_raise():
    X = rows(100)
    deformed = Deformed(RandomFourier(Gaussian(2.0), 16, random_state=0), NeighborGraph(5)).fit(rows(100, seed=1))
    with pytest.raises(ParameterError, match="Deformed has no parameter n_components"):
        audit(deformed, X, widths=(8, 16))
    feature_map = RandomFourier(Gaussian(2.0), 16, random_state=0).fit(X)
    with pytest.raises(ParameterError, match="audit: widths must be an integer >= 1, got 0"):
        audit(feature_map, X, widths=(0,))
    with pytest.raises(ParameterError, match=r"^Audit\.components_for: no number of components"):
        audit(feature_map, X).components_for(1e-12)


# ---- rows of the fit ----------------------------------------------------------------------------


def landmark_maps():
    kernel = Gaussian(2.0)
    return [
        Nystroem(kernel, 30, random_state=0),
        Nystroem(kernel, 30, landmarks="uniform", random_state=0),
        SumMap(kernel + Polynomial(2), 60, maps=[Nystroem(), PolynomialSketch()], random_state=0),
        ProductMap(kernel * Polynomial(2), 60, maps=[Nystroem(), PolynomialSketch()], random_state=0),
        Deformed(Nystroem(kernel, 30, random_state=0), NeighborGraph(5)),
    ]


@pytest.mark.parametrize("feature_map", landmark_maps(), ids=lambda m: type(m).__name__)
def test_rows_of_the_fit_warn_if_the_map_is_built_from_rows(feature_map):
    X = rows(300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MercerWarning)
        feature_map.fit(X)
    for Y in (X, X[:200], np.concatenate([X[:250], rows(600, seed=9)])):
        with pytest.warns(MercerWarning, match="was built from. Its error on these rows is smaller than on other rows"):
            audit(feature_map, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", MercerWarning)
        audit(feature_map, rows(300, seed=1))


def test_rows_of_the_fit_are_recognized_in_sparse_and_single_precision():
    X = np.round(8 * rows(100)) / 8  # exact in both precisions
    feature_map = Nystroem(Gaussian(2.0), 20, random_state=0).fit(X)
    for Y in (sp.csr_array(X), X.astype(np.float32)):
        with pytest.warns(MercerWarning, match="100 of the 100 rows of X"):
            audit(feature_map, Y)


def test_maps_that_are_not_built_from_rows_do_not_warn():
    X = rows(300)
    for feature_map in (
        RandomFourier(Gaussian("median"), 16, random_state=0),
        RandomMaclaurin(Polynomial(2), 16, random_state=0),
    ):
        assert not feature_map.built_from_rows
        assert feature_map.fit(X).fitted_rows_ is None
        audit(feature_map, X)


@pytest.mark.parametrize("values", [2, 3, 5, 20])
def test_new_rows_that_are_equal_to_rows_of_the_fit_by_coincidence_do_not_warn(values):
    rng = np.random.default_rng(0)
    for n_fit, n_new in ((200, 200), (1000, 60), (60, 1000)):
        fitted, new = rng.integers(values, size=(n_fit, 4)) * 1.0, rng.integers(values, size=(n_new, 4)) * 1.0
        feature_map = Nystroem(Gaussian(2.0), 10, random_state=0).fit(fitted)
        audit(feature_map, new)
        if len(np.unique(fitted, axis=0)) > 0.8 * n_fit:  # otherwise these rows look like any other
            with pytest.warns(MercerWarning, match="was built from"):
                audit(feature_map, fitted)


# ---- numbers that squares would leave the range of ----------------------------------------------


@pytest.mark.parametrize("n_rows", [100, 1000])
@pytest.mark.parametrize("scale", [1e-60, 1e-40, 1e40, 1e56, 1e75])
def test_errors_of_huge_and_tiny_kernels_are_finite(scale, n_rows):
    X = rows(300)
    feature_map = PolynomialSketch(Polynomial(2, coef0=0.0), 64, random_state=0)
    reference = audit(feature_map.fit(X), X, n_rows=n_rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MercerWarning)
        result = audit(feature_map.fit(scale * X), scale * X, n_rows=n_rows)
    size = scale**4
    assert result.rmse == pytest.approx(size * reference.rmse, rel=1e-6)
    assert result.rmse_interval == pytest.approx([size * end for end in reference.rmse_interval], rel=1e-6)
    assert result.max_error == pytest.approx(size * reference.max_error, rel=1e-6)
    assert result.mean_error == pytest.approx(size * reference.mean_error, rel=1e-6)
    assert result.relative_error == pytest.approx(reference.relative_error, rel=1e-6)
    assert result.effective_rows == pytest.approx(reference.effective_rows, rel=1e-6)
    if 1e-30 < size < 1e150:
        assert result.predicted_rmse == pytest.approx(size * reference.predicted_rmse, rel=1e-6)


@pytest.mark.parametrize(("scale", "problem"), [(1e60, "exceeds the largest"), (1e-60, "is below the smallest")])
@pytest.mark.parametrize("n_rows", [100, 1000])
def test_prediction_is_none_if_the_variance_leaves_the_range_of_numbers(scale, problem, n_rows):
    X = scale * rows(150)
    feature_map = PolynomialSketch(Polynomial(2, coef0=0.0), 64, random_state=0).fit(X)
    with pytest.warns(MercerWarning, match=f"predicted_rmse is None, because the variance of .* {problem} number"):
        result = audit(feature_map, X, n_rows=n_rows)
    assert result.predicted_rmse is None


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_other_widths_of_huge_and_tiny_kernels(scale):
    X = rows(150)
    reference = RandomFourier(Gaussian(2.0), 64, radii="stratified", random_state=0).fit(X)
    expected = audit(reference, X)
    feature_map = RandomFourier(scale * Gaussian(2.0), 64, radii="stratified", random_state=0).fit(X)
    result = audit(feature_map, X)
    assert result.predict_rmse(256) == pytest.approx(scale * expected.predict_rmse(256), rel=1e-6)
    assert result.components_for(result.rmse / 2) == expected.components_for(expected.rmse / 2)
    plain = RandomFourier(scale * Gaussian(2.0), 64, random_state=0).fit(X)
    with pytest.warns(MercerWarning, match="predicted_rmse is None"):
        assert audit(plain, X).rmse > 0


@pytest.mark.parametrize("value", [np.inf, np.nan])
@pytest.mark.parametrize("n_rows", [100, 1000])
def test_variance_that_is_infinite_for_some_pairs_is_reported(value, n_rows, monkeypatch):
    X = rows(120)
    feature_map = RandomFourier(Gaussian(2.0), 16, random_state=0).fit(X)

    def variance(X, Y=None):
        result = np.ones((len(X), len(X if Y is None else Y)))
        result[0, 1] = value
        return result

    monkeypatch.setattr(feature_map, "_variance", variance)
    with pytest.warns(MercerWarning, match=r"variance of RandomFourier is infinite, .* for \d+ of \d+ pairs of rows"):
        assert audit(feature_map, X, n_rows=n_rows).predicted_rmse is None


@pytest.mark.parametrize("n_rows", [100, 1000])
def test_kernel_that_exceeds_all_numbers_raises(n_rows):
    X = rows(150)
    feature_map = PolynomialSketch(Polynomial(2), 16, random_state=0).fit(X)
    with pytest.raises(DataError, match="Scale the rows"):
        audit(feature_map, 1e80 * X, n_rows=n_rows)


def test_error_that_exceeds_all_numbers_raises():
    exact = np.full((3, 3), 1.7e308)
    names = {"feature_map": "", "kernel": "Gaussian()", "n_components": 1}
    assert audit_matrix(0 * exact, exact, **names).rmse == pytest.approx(1.7e308)
    with pytest.raises(
        DataError, match=r"audit: Gaussian\(\) or its approximation exceeds the largest number of float64"
    ):
        audit_matrix(-exact, exact, **names)


# ---- arguments ------------------------------------------------------------------------------------


def test_data_frames_and_invalid_arguments():
    frame = pd.DataFrame(rows(30), columns=list("abcde"))
    feature_map = RandomFourier(Gaussian(2.0), 16).fit(frame)
    assert audit(feature_map, frame).n_rows == 30
    with pytest.raises(ParameterError, match=r"must be a fitted mercer map, such as model\.feature_map_, got Gaussian"):
        audit(Gaussian(), frame)
    for wrong in (3, 99, 100.5, True):
        with pytest.raises(ParameterError, match=f"n_rows must be an integer >= 100, got {wrong}"):
            audit(feature_map, frame, n_rows=wrong)
    for wrong in (64, "64"):
        with pytest.raises(ParameterError, match=f"^audit: widths must be a list or tuple of .* got {wrong!r}"):
            audit(feature_map, frame, widths=wrong)
    with pytest.raises(NotFittedError):
        audit(RandomFourier(), frame)
