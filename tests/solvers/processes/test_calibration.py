"""Noise and residual variance from leave-one-out errors: those of refits, and the truth where it is known."""

import numpy as np
import pytest

from mercer import Gaussian, Nystroem
from mercer.engines import Block, MemoryEngine
from mercer.solvers.processes.calibration import LeftOut, calibrated_scales, left_out, maximize_density
from mercer.solvers.processes.evidence import Scales
from mercer.solvers.ridge.least_squares import Spectrum
from mercer.statistics import RowSample
from mercer.statistics.moments import MomentSum

SCALES = Scales(np.array([0.3, 0.5]), np.array([1.2, 0.8]))


def problem(n=60, components=15, weight=None):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1]]) + 0.3 * rng.normal(size=(n, 2))
    return X, y, Nystroem(Gaussian(0.7), components, random_state=0).fit(X), weight


def moments(feature_map, X, y, weight=None):
    return MemoryEngine(X, y, weight, block_rows=50).accumulate(MomentSum(feature_map.features_, double=True))


def sample_of(X, y, weight=None, size=1000):
    return RowSample.of(Block(0, X, y, weight), size=size, seed=0, by_weight=True)


def test_left_out_errors_are_those_of_refits():
    X, y, feature_map, _ = problem()
    spectrum = Spectrum.of(moments(feature_map, X, y), centered=False)
    found = left_out(feature_map, spectrum, SCALES, sample_of(X, y))
    Z = feature_map.transform(X)
    for t, errors in enumerate(found):
        alpha = SCALES.alpha[t]
        assert len(errors.squares) == len(X)
        for i in (0, 7, 31):
            others = np.arange(len(X)) != i
            A = Z[others].T @ Z[others] + alpha * np.eye(Z.shape[1])
            error = y[i, t] - Z[i] @ np.linalg.solve(A, Z[others].T @ y[others, t])
            variance = SCALES.noise[t] ** 2 * Z[i] @ np.linalg.solve(A, Z[i])
            # The condition number of A is below 1e4, and that of 1 - h below 1e2: 1e-16 * 1e6, with a margin.
            assert errors.squares[i] == pytest.approx(error**2, rel=1e-9)
            assert errors.posterior[i] == pytest.approx(variance, rel=1e-9)
            assert errors.residual[i] == pytest.approx(1 - Z[i] @ Z[i], abs=1e-12)
        in_sample = np.square(y[:, t] - Z @ spectrum.coef(SCALES.alpha)[:, t])
        assert (errors.squares > in_sample).all()  # errors of fitted rows would be too small


def test_weights_are_repetitions():
    X, y, feature_map, _ = problem()
    counts = np.random.default_rng(1).integers(0, 4, len(X))
    rows = np.repeat(X, counts, axis=0), np.repeat(y, counts, axis=0)
    spectrum = Spectrum.of(moments(feature_map, *rows), centered=False)
    weighted = calibrated_scales(left_out(feature_map, spectrum, SCALES, sample_of(X, y, counts.astype(float))), SCALES)
    repeated = calibrated_scales(left_out(feature_map, spectrum, SCALES, sample_of(*rows)), SCALES)
    unweighted = calibrated_scales(left_out(feature_map, spectrum, SCALES, sample_of(X, y)), SCALES)
    # The search ends where the gradient is 1e-10 of a curvature of about 0.1.
    np.testing.assert_allclose(weighted.noise, repeated.noise, rtol=1e-6)
    np.testing.assert_allclose(weighted.amplitude, repeated.amplitude, rtol=1e-6)
    assert np.abs(unweighted.noise / repeated.noise - 1).max() > 1e-3


def errors_of(noise, residual, n=20_000):
    """Return errors whose variances are those of the model, and the standard errors of the two log variances."""
    rng = np.random.default_rng(0)
    rest, posterior = rng.uniform(0, 1, n), 0.02 * rng.uniform(0, 1, n)
    variance = noise + residual * rest + posterior
    slopes = np.column_stack([np.full(n, noise), residual * rest]) / variance[:, None]
    deviations = np.sqrt(np.diag(np.linalg.inv(slopes.T @ slopes / 2)))
    return LeftOut(variance * rng.normal(size=n) ** 2, rest, posterior, np.ones(n)), deviations


@pytest.mark.parametrize("scale", [1.0, 1e-8, 1e70])
def test_variances_are_found_within_their_standard_errors(scale):
    errors, deviations = errors_of(0.01, 0.5)
    errors = LeftOut(errors.squares * scale, errors.residual, errors.posterior * scale, errors.weight)
    # The evidence has counted the residual as noise, and its amplitude is too large.
    shares = maximize_density(errors, 0.26 * scale, 0.8 * scale, 2.0)
    found = np.log(shares * [0.26, 0.8]) - np.log([0.01, 0.5])
    assert (np.abs(found) < 4 * deviations).all()
    assert np.abs(np.log(0.26 / 0.01)) > 20 * deviations[0]  # what is not calibrated is far outside


def test_derivatives_are_those_of_differences():
    errors, _ = errors_of(0.1, 0.5, 200)
    _, gradient = errors.density(0.2, 0.3)
    h = 1e-5
    for i in range(2):
        step = np.exp(h * np.eye(2)[i])
        low, high = (errors.density(*(np.array([0.2, 0.3]) * factor))[0] for factor in (1 / step, step))
        assert gradient[i] == pytest.approx((high - low) / (2 * h), rel=1e-6)


def test_amplitude_is_that_of_the_evidence_where_rows_do_not_determine_it():
    rng = np.random.default_rng(0)
    n = 2000
    rest = np.full(n, 1e-6)  # times an amplitude of one, a variance of a millionth of the noise
    errors = LeftOut(rng.normal(size=n) ** 2, rest, np.zeros(n), np.ones(n))
    assert maximize_density(errors, 1.0, 1.0, 2.0)[1] == pytest.approx(1.0, abs=1e-3)


def test_nothing_changes_where_landmarks_leave_nothing():
    X, y, _, _ = problem()
    exact = Nystroem(Gaussian(0.7), len(X), landmarks="uniform", random_state=0).fit(X)
    spectrum = Spectrum.of(moments(exact, X, y), centered=False)
    same = calibrated_scales(left_out(exact, spectrum, SCALES, sample_of(X, y)), SCALES)
    np.testing.assert_array_equal(same.noise, SCALES.noise)
    np.testing.assert_array_equal(same.amplitude, SCALES.amplitude)


def test_a_given_amplitude_is_not_changed():
    X, y, feature_map, _ = problem()
    spectrum = Spectrum.of(moments(feature_map, X, y), centered=False)
    found = calibrated_scales(left_out(feature_map, spectrum, SCALES, sample_of(X, y)), SCALES, amplitude_given=True)
    np.testing.assert_allclose(found.amplitude, SCALES.amplitude, rtol=1e-12)
    assert (found.noise != SCALES.noise).all()


def test_residual_of_a_landmark_is_what_the_others_leave():
    X, y, feature_map, _ = problem(n=40, components=30)
    spectrum = Spectrum.of(moments(feature_map, X, y), centered=False)
    found = left_out(feature_map, spectrum, SCALES, sample_of(X, y))[0]
    landmarks = feature_map.features_.landmarks
    K = Gaussian(0.7)
    assert len(found.squares) == len(X)  # most rows are landmarks, so that they are used
    for s in (0, 11, 29):
        i = int(np.flatnonzero((X == landmarks[s]).all(axis=1))[0])
        others = np.delete(landmarks, s, axis=0)
        cross = K(others, X[i : i + 1])[:, 0]
        left = 1 - cross @ np.linalg.solve(K(others), cross)
        total = SCALES.amplitude[0] ** 2 * found.residual[i] + found.posterior[i]
        # The condition number of the landmarks is about 1e6. Where other rows determine the function at a landmark, the
        # variance of all features is less than that of its residual.
        assert found.residual[i] == pytest.approx(min(left, total / SCALES.amplitude[0] ** 2), rel=1e-6, abs=1e-9)


def test_precisions_divide_the_noise_of_their_row():
    X, y, feature_map, _ = problem()
    weight = np.random.default_rng(2).uniform(0.2, 4, len(X))
    spectrum = Spectrum.of(moments(feature_map, X, y, weight), centered=False)
    found = left_out(feature_map, spectrum, SCALES, sample_of(X, y, weight), repeated=False)[0]
    Z = feature_map.transform(X)
    for i in (0, 20):
        others = np.arange(len(X)) != i
        A = Z[others].T @ (Z[others] * weight[others, None]) + SCALES.alpha[0] * np.eye(Z.shape[1])
        error = y[i, 0] - Z[i] @ np.linalg.solve(A, Z[others].T @ (weight * y[:, 0])[others])
        assert found.squares[i] == pytest.approx(error**2, rel=1e-8)
        variance = SCALES.noise[0] ** 2 * Z[i] @ np.linalg.solve(A, Z[i])
        assert found.posterior[i] == pytest.approx(variance, rel=1e-8)
        assert found.share[i] == pytest.approx(1 / weight[i])
