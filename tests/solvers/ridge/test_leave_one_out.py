"""The scale of decision values, against a minimum found by trying all of them."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_expit, log_softmax

from mercer.solvers.ridge.leave_one_out import log_loss_scale


def loss(scale, values, codes, weight):
    """Return the logarithmic loss of the rows and of one more like each, whose label could be any."""
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


def test_labels_told_apart_without_a_mistake_leave_it_finite_and_larger_with_more_rows():
    scales = [
        log_loss_scale(np.tile([[1.0], [-1.0]], (n, 1)), np.tile([1, 0], n), np.ones(2 * n)) for n in (2, 20, 200)
    ]
    assert scales[0] < scales[1] < scales[2] < 1e3
    # Of N rows at +-1 the logistic function of the scale is (N + 1/2) / (N + 1).
    np.testing.assert_allclose(scales, [np.log((2 * n + 0.5) / 0.5) for n in (2, 20, 200)], rtol=1e-9)


def test_values_that_mislead_and_values_that_are_tiny_end_at_the_ends():
    values, codes = np.array([[1.0], [-1.0]]), np.array([0, 1])
    assert log_loss_scale(values, codes, np.ones(2)) == 1e-3
    assert log_loss_scale(-1e-6 * values, codes, np.ones(2)) == 1e3
