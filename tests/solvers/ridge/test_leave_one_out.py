"""Leave-one-out margins and errors against refitted models, and the scale of probabilities against a search."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_expit, log_softmax

from mercer.engines import Block
from mercer.solvers.losses.fit import AsGiven
from mercer.solvers.ridge.least_squares import Spectrum, solve_ridge
from mercer.solvers.ridge.paths import LeftOut, calibrated_scale, left_out_margin, log_loss_scale
from mercer.statistics.moments import Moments, TargetMoments

RNG = np.random.default_rng(0)
Z, T = RNG.normal(0.5, 1.0, size=(25, 6)), RNG.normal(size=(25, 2))
WEIGHT = np.array([0.0, 0.4, 1.0, 2.0, 3.0] * 5)


def moments_of(weight):
    return Moments(np.triu(Z.T @ (Z * weight[:, None])), TargetMoments.of(Z, T, weight))


def refitted_errors(alpha, weight, fit_intercept):
    """Return squared errors of models from which one repetition of a row, or all of a smaller weight, is left out."""
    errors = []
    for i in range(len(Z)):
        rest = weight.copy()
        rest[i] -= min(1.0, weight[i])
        other = solve_ridge(moments_of(rest), alpha, fit_intercept=fit_intercept)
        errors.append(np.square(Z[i] @ other.coef + other.intercept - T[i]).sum())
    return np.array(errors)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weight", [np.ones(25), WEIGHT], ids=["equal", "weighted"])
def test_residuals_over_margins_are_errors_of_refitted_models(weight, fit_intercept):
    solution = solve_ridge(moments_of(weight), 0.5, fit_intercept=fit_intercept)
    residual = Z @ solution.coef + solution.intercept - T
    margin = left_out_margin(solution.leverages(Z), weight)
    found = np.square(residual / margin[:, None]).sum(axis=1)
    np.testing.assert_allclose(found, refitted_errors(0.5, weight, fit_intercept), rtol=1e-8)
    leverages = np.column_stack([solution.leverages(Z), 2 * solution.leverages(Z)])
    np.testing.assert_array_equal(left_out_margin(leverages, weight)[:, 0], margin)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["equal", "weighted"])
def test_left_out_errors_are_those_of_refitted_models(weight, fit_intercept):
    w = np.ones(25) if weight is None else weight
    spectrum = Spectrum.of(moments_of(w), centered=fit_intercept)
    found = LeftOut(AsGiven(6), spectrum, np.array([0.1, 3.0]), fit_intercept)(Block(0, Z, T, weight))
    expected = [w @ refitted_errors(alpha, w, fit_intercept) for alpha in (0.1, 3.0)]
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_rows_that_are_fitted_exactly_do_not_calibrate():
    codes, fitted = np.array([0, 1, 1]), np.array([[-0.9], [0.8], [1.0]])
    leverage = np.array([0.2, 0.3, 1.0])
    some = calibrated_scale(fitted[:2], codes[:2], 2, leverage[:2], None)
    assert calibrated_scale(fitted, codes, 2, leverage, None) == some
    assert calibrated_scale(fitted, codes, 2, np.full(3, 0.3), np.array([1.0, 1.0, 0.0])) == pytest.approx(
        calibrated_scale(fitted[:2], codes[:2], 2, np.full(2, 0.3), None)
    )
    assert calibrated_scale(fitted, codes, 2, np.ones(3), None) == 2.0  # no row is left


def loss(scale, values, codes, weight):
    """Return the logarithmic loss of the rows and of one more row, whose label is each label with equal probability."""
    n = weight.sum()
    if values.shape[1] == 1:
        logs = np.column_stack([log_expit(-scale * values[:, 0]), log_expit(scale * values[:, 0])])
    else:
        logs = log_softmax(scale * values, axis=1)
    own = logs[np.arange(len(codes)), codes]
    return -float(weight @ (n * own + logs.mean(axis=1)) / (n + 1))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [2, 4])
def test_the_scale_minimizes_the_logarithmic_loss(classes, weighted):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, classes, 300)
    values = 0.7 * np.eye(classes)[codes] + 0.5 * rng.normal(size=(300, classes))
    if classes == 2:
        values = values[:, 1:] - values[:, :1]
    weight = rng.uniform(0, 3, 300) if weighted else np.ones(300)
    found = log_loss_scale(values, codes, weight)
    best = minimize_scalar(lambda s: loss(np.exp(s), values, codes, weight), bounds=(-6, 6), method="bounded")
    assert found == pytest.approx(np.exp(best.x), rel=1e-3)
    h = 1e-4
    slope = (loss(found * (1 + h), values, codes, weight) - loss(found * (1 - h), values, codes, weight)) / (2 * h)
    assert abs(slope) < 1e-6 * weight.sum()


def test_separated_labels_have_a_finite_scale_that_grows_with_the_rows():
    scales = [
        log_loss_scale(np.tile([[1.0], [-1.0]], (n, 1)), np.tile([1, 0], n), np.ones(2 * n)) for n in (2, 20, 200)
    ]
    assert scales[0] < scales[1] < scales[2] < 1e3
    # Of N rows at +-1 the logistic function of the scale is (N + 1/2) / (N + 1).
    np.testing.assert_allclose(scales, [np.log((2 * n + 0.5) / 0.5) for n in (2, 20, 200)], rtol=1e-9)


def test_the_scale_stays_within_its_bounds():
    values, codes = np.array([[1.0], [-1.0]]), np.array([0, 1])
    assert log_loss_scale(values, codes, np.ones(2)) == 1e-3
    assert log_loss_scale(-1e-6 * values, codes, np.ones(2)) == 1e3
