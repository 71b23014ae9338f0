"""Normal scores, features of conditioning variables, and residuals, against scikit-learn."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from mercer.engines import Block
from mercer.engines.base import workers
from mercer.features import features_of
from mercer.hypothesis_tests.given.conditioning import (
    BothTargets,
    NormalScores,
    SideFeatures,
    SidesLeftOut,
    _Given,
    conditioning_features,
    cross_validated,
    improvements,
    of_targets,
    residuals,
    squared_left_out,
)
from mercer.hypothesis_tests.given.tuning import ScaledColumnsOf, tuned_regression
from mercer.hypothesis_tests.groups import sample_engine
from mercer.solvers.ridge.least_squares import Spectrum
from mercer.solvers.ridge.paths import LeftOut
from mercer.statistics import MomentSum


def test_normal_scores_ignore_units_and_monotone_transformations():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_cauchy(300), rng.integers(4, size=300), np.ones(300)])
    scores = NormalScores.of(X, (0, 1, 2))
    U = scores(X)
    assert U.shape == (300, 2)
    assert np.abs(U[:, 0].mean()) < 1e-10
    assert U[:, 0].std() == pytest.approx(1, abs=0.02)
    assert len(np.unique(U[:, 1])) == 4
    other = np.column_stack([1e9 * X[:, 0] - 7, np.exp(X[:, 1]), X[:, 2]])
    np.testing.assert_allclose(NormalScores.of(other, (0, 1, 2))(other), U, atol=1e-12)


def test_normal_scores_of_subnormal_differences_are_finite():
    sample = np.array([[-1.0], [0.0], [1e-310], [1.0]])
    found = NormalScores.of(sample, (0,))(np.array([[2.5e-311], [-0.5], [1e-310], [-3.0]]))[:, 0]
    low, zero, small, _ = NormalScores.of(sample, (0,)).scores[0]
    np.testing.assert_allclose(found, [zero + 0.25 * (small - zero), (low + zero) / 2, small, low], rtol=1e-9)


def test_residuals_are_those_of_scikit_learns_ridge():
    rng = np.random.default_rng(1)
    z = rng.normal(size=(400, 3))
    rows = np.column_stack([np.tanh(z[:, :1]) + 0.5 * rng.normal(size=(400, 1)), z[:, 1] + rng.normal(size=400), z])
    engine, _ = sample_engine("test", rows)
    targets = BothTargets(SideFeatures.of(rows, (0,), rng), SideFeatures.of(rows, (1,), rng))
    F, _ = targets(Block(0, rows))
    features = conditioning_features(rows, (2, 3, 4), F, len(rows), rng)
    left = residuals(engine, targets, features)
    Z = features_of(features, rows)
    k = targets.x.n_components
    for side, alpha, mine in zip((slice(0, k), slice(k, None)), left.alphas, left(rows), strict=True):
        fit = Ridge(alpha=alpha, solver="svd").fit(Z, F[:, side])
        np.testing.assert_allclose(mine, F[:, side] - fit.predict(Z), atol=1e-6)
    assert 0.05 < left.explained[0] < 0.6


def rough_regressions(n, seed):
    """Return an engine, joint rows, and regressions with tuned kernels and without; x is a rough function of z."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 2))
    x = np.sin(8 * z[:, :1]) + 0.3 * rng.normal(size=(n, 1))
    rows = np.column_stack([x, z[:, 1] + rng.normal(size=n), z])
    engine, _ = sample_engine("test", rows)
    targets = BothTargets(SideFeatures.of(rows, (0,), rng), SideFeatures.of(rows, (1,), rng))
    base = conditioning_features(rows, (2, 3), targets(Block(0, rows))[0], n, rng)
    return engine, rows, tuned_regression(engine, rows, ((0,), (1,), (2, 3)), targets, base, n, rng)


def test_leave_one_out_errors_are_those_of_refits():
    _, rows, tuned = rough_regressions(80, 5)
    for regression in (tuned.before, tuned.first):
        T = regression.targets(Block(0, rows))[0]
        Z = features_of(regression.features, rows)
        squares = squared_left_out(regression, rows)
        for i in range(0, 80, 9):
            rest = np.delete(np.arange(80), i)
            for side, alpha in enumerate(regression.alphas):
                fit = Ridge(alpha=alpha, solver="svd").fit(Z[rest], T[rest, side])
                error = T[i, side] - fit.predict(Z[[i]])[0]
                assert np.sqrt(squares[i, side]) == pytest.approx(abs(error), rel=1e-3, abs=1e-6)


def test_improvements_are_differences_over_their_standard_errors():
    engine, rows, tuned = rough_regressions(400, 6)
    difference = squared_left_out(tuned.before, rows) - squared_left_out(tuned.first, rows)
    expected = difference.mean(axis=0) / (difference.std(axis=0) / 20)
    found = improvements(engine, tuned.before, tuned.first)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert found[0] > 5  # x is a sine that the features before do not resolve
    assert abs(found[1]) < 3  # y is linear
    np.testing.assert_array_equal(improvements(engine, tuned.first, tuned.first), 0.0)


def test_coding_is_the_one_with_noise_of_equal_size():
    rng = np.random.default_rng(7)
    z = rng.normal(size=(500, 3))
    cubed = (z[:, :1] + z[:, 1:2] + rng.normal(size=(500, 1))) ** 3  # values vary most where they are large
    product = np.prod(z, axis=1, keepdims=True) + 0.3 * rng.normal(size=(500, 1))  # normal scores vary most near zero
    rows = np.concatenate([cubed, product, z], axis=1)
    engine, _ = sample_engine("test", rows)
    targets = BothTargets(SideFeatures.of(rows, (0,), rng), SideFeatures.of(rows, (1,), rng))
    base = conditioning_features(rows, (2, 3, 4), targets(Block(0, rows))[0], 500, rng)
    first = tuned_regression(engine, rows, ((0,), (1,), (2, 3, 4)), targets, base, 500, rng).first
    assert isinstance(first.targets.x, NormalScores)
    assert isinstance(first.targets.y, ScaledColumnsOf)


def test_leave_one_out_errors_of_all_penalties_are_those_of_ridge_paths():
    engine, rows, tuned = rough_regressions(60, 8)
    rng = np.random.default_rng(0)
    targets = BothTargets(SideFeatures.of(rows, (0,), rng), SideFeatures.of(rows, (1,), rng))
    features, F = tuned.first.features, targets(Block(0, rows))[0]
    s = Spectrum.of(engine.accumulate(MomentSum(features, targets, double=True, centered=True, n_rows=60)))
    alphas = s.largest * np.geomspace(1e-3, 1, 4)
    found = SidesLeftOut(features, targets, s, alphas, 1.0)(Block(0, rows))
    k = targets.x.n_components
    for errors, side in zip(found, (slice(0, k), slice(k, None)), strict=True):
        expected = LeftOut(features, of_targets(s, side), alphas, True)(Block(0, rows, F[:, side]))
        np.testing.assert_allclose(errors, expected, rtol=1e-9)


def test_number_of_components_grows_as_the_root_of_the_rows():
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(500, 4))
    targets = rng.normal(size=(500, 2))
    widths = [conditioning_features(rows, (2, 3), targets, n, rng).n_components for n in (500, 50_000, 10**7)]
    assert widths[0] < widths[1] < widths[2]
    assert widths[1] == pytest.approx(10 * widths[0], rel=0.1)
    assert widths[2] <= 1210


def test_metric_stretches_the_direction_that_matters():
    rng = np.random.default_rng(3)
    z = rng.normal(size=(1000, 8))
    t = z @ np.full(8, 8**-0.5)
    F = np.column_stack([np.sin(t), np.cos(t)]) + 0.3 * rng.normal(size=(1000, 2))
    features = conditioning_features(z, tuple(range(8)), F, 1000, rng)
    W = features.frequencies
    along = np.square(W.T @ np.full(8, 8**-0.5)).mean()
    across = np.square(W).sum(axis=0).mean() - along
    assert along > 2 * across / 7  # equal to one seventh for the metric of the rows


def test_more_features_than_rows_explain_no_noise():
    rng = np.random.default_rng(4)
    Z, F = rng.normal(size=(30, 90)), rng.normal(size=(30, 1))
    moments = MomentSum(_Given(90), lambda block: (block.y, None), double=True, centered=True)
    with workers(1) as team:
        moments.add(Block(0, Z, F), team)
    spectrum = Spectrum.of(moments.result())
    alpha, explained = cross_validated(spectrum, slice(0, 1), np.geomspace(1e-12, 1e3, 61))
    values = np.linalg.eigvalsh((Z - Z.mean(axis=0)) @ (Z - Z.mean(axis=0)).T)
    assert 1 + (values / (values + alpha)).sum() <= 0.9 * 30
    assert explained < 0.5
