"""The posterior of a Gaussian process, against the formulas of conditional normal distributions."""

from dataclasses import replace

import numpy as np
import pytest

from mercer import Gaussian, Nystroem, RandomFourier
from mercer.engines import Block
from mercer.solvers.processes.evidence import Scales
from mercer.solvers.processes.posterior import Posterior, Representers
from mercer.solvers.ridge.least_squares import Spectrum
from mercer.statistics import RowSample
from mercer.statistics.moments import Moments, TargetMoments

RNG = np.random.default_rng(0)
X, NEW, WEIGHT = RNG.normal(size=(30, 2)), RNG.normal(size=(9, 2)), RNG.integers(1, 4, 30).astype(float)
Y = np.sin(2 * X) + 0.3 * RNG.normal(size=(30, 2))
SCALES = Scales(np.array([0.3, 0.5]), np.array([1.1, 0.7]))
KERNEL = Gaussian(0.9)


def posterior_of(feature_map, sample=None):
    feature_map.fit(X)
    Z = feature_map.transform(X)
    spectrum = Spectrum.of(Moments(Z.T @ (Z * WEIGHT[:, None]), TargetMoments.of(Z, Y, WEIGHT)), centered=False)
    return Posterior.of(feature_map, spectrum, SCALES, sample)


def by_hand(prior, t):
    """Return mean and covariance at the new rows, given the prior covariance of old and new rows of amplitude one."""
    a, noise = SCALES.amplitude[t] ** 2, SCALES.noise[t] ** 2
    K, cross, new = a * prior[:30, :30], a * prior[:30, 30:], a * prior[30:, 30:]
    gain = np.linalg.solve(K + noise * np.diag(1 / WEIGHT), cross).T
    return gain @ Y[:, t], new - gain @ cross


def variances(posterior):
    out = np.empty((9, 2))
    posterior.variance_into(NEW, out)
    return out


@pytest.mark.parametrize("kind", ["fourier", "landmarks", "pathwise"])
def test_mean_variance_and_covariance_are_those_of_the_conditional_distribution(kind):
    both = np.vstack([X, NEW])
    if kind == "landmarks":
        feature_map, sample = Nystroem(KERNEL, 8, random_state=0), None
    else:
        feature_map = RandomFourier(KERNEL, 12, random_state=0)
        sample = RowSample.of(Block(0, X, Y, WEIGHT), size=30, seed=0, by_weight=True) if kind == "pathwise" else None
    posterior = posterior_of(feature_map, sample)
    Z = feature_map.transform(both)
    covariance, diagonal = posterior.covariance(NEW), variances(posterior)
    for t in range(2):
        mean, expected = by_hand(Z @ Z.T, t)
        np.testing.assert_allclose(feature_map.transform(NEW) @ posterior.coef[:, t], mean, rtol=1e-8, atol=1e-10)
        if kind == "pathwise":  # the distribution under the kernel itself
            expected = by_hand(KERNEL(both), t)[1]
        elif kind == "landmarks":  # what the landmarks leave of the kernel is added
            left = KERNEL(NEW) - Z[30:] @ Z[30:].T
            expected = expected + SCALES.amplitude[t] ** 2 * left
        np.testing.assert_allclose(covariance[:, :, t], expected, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(diagonal[:, t], np.diagonal(expected), rtol=1e-7, atol=1e-9)


class Ones:
    """A generator whose normals are the columns of a matrix of the identity, one after the other."""

    def __init__(self, sizes):
        self.sizes, self.start = sizes, 0

    def normal(self, size):
        n, _, count = size
        out = np.zeros(size)
        for j in range(n):
            out[j, :, self.start + j] = 1.0
        self.start += n
        assert count == sum(self.sizes)
        return out


@pytest.mark.parametrize("kind", ["fourier", "landmarks"])
def test_deviations_are_a_root_of_the_covariance(kind):
    # Draws are linear in independent normals: unit vectors in their place give a root, whose square is exact.
    feature_map = RandomFourier(KERNEL, 12, random_state=0) if kind == "fourier" else Nystroem(KERNEL, 8)
    posterior = posterior_of(feature_map)
    Z = feature_map.transform(NEW)
    sizes = [Z.shape[1]] if kind == "fourier" else [Z.shape[1], 9]
    root = posterior.deviations(NEW, Z, sum(sizes), Ones(sizes))
    covariance = posterior.covariance(NEW)
    for t in range(2):
        np.testing.assert_allclose(root[:, t] @ root[:, t].T, covariance[:, :, t], rtol=1e-7, atol=1e-9)


def test_paths_are_a_root_of_the_covariance_where_features_are_the_kernel():
    # With all rows as landmarks, old and new, prior paths have the covariance of the kernel itself.
    both = np.vstack([X, NEW])
    feature_map = Nystroem(KERNEL, 39, landmarks="uniform", random_state=0).fit(both)
    Z = feature_map.transform(X)
    spectrum = Spectrum.of(Moments(Z.T @ (Z * WEIGHT[:, None]), TargetMoments.of(Z, Y, WEIGHT)), centered=False)
    sample = RowSample.of(Block(0, X, Y, WEIGHT), size=30, seed=0, by_weight=True)
    posterior = Posterior.of(feature_map, spectrum, SCALES, sample)
    new = feature_map.transform(NEW)
    sizes = [new.shape[1], 30]
    root = posterior.deviations(NEW, new, sum(sizes), Ones(sizes))
    for t in range(2):
        expected = by_hand(KERNEL(both), t)[1]
        np.testing.assert_allclose(root[:, t] @ root[:, t].T, expected, rtol=1e-5, atol=1e-6)


def test_representers_keep_weights_of_a_whole_sample_and_drop_rows_without():
    feature_map = RandomFourier(KERNEL, 12, random_state=0).fit(X)
    weight = np.where(np.arange(30) < 5, 0.0, WEIGHT)
    whole = Representers.of(feature_map, RowSample.of(Block(0, X, Y, weight), size=40, seed=0, by_weight=True), SCALES)
    assert np.array_equal(whole.rows, X[5:])
    assert np.array_equal(whole.weight, weight[5:])
    for t in range(2):
        expected = KERNEL(X[5:]) + SCALES.alpha[t] * np.diag(1 / weight[5:])
        np.testing.assert_allclose(whole.factors[t] @ whole.factors[t].T, expected, rtol=1e-10, atol=1e-12)
    some = Representers.of(feature_map, RowSample.of(Block(0, X, Y, weight), size=10, seed=0, by_weight=True), SCALES)
    assert (some.weight == 1).all()  # drawn in proportion to their weights, the rows count once
    assert len(some.rows) == 10


def test_equal_rows_beside_hardly_any_noise_have_variances():
    rows = np.vstack([X, X, X + 1e-9])
    scales = Scales(np.full(2, 1e-12), np.full(2, 1.0))
    feature_map = RandomFourier(KERNEL, 12, random_state=0).fit(rows)
    Z = feature_map.transform(rows)
    spectrum = Spectrum.of(Moments(Z.T @ Z, TargetMoments.of(Z, np.vstack([Y] * 3))), centered=False)
    sample = RowSample.of(Block(0, rows, np.vstack([Y] * 3)), size=90, seed=0, by_weight=True)
    posterior = Posterior.of(feature_map, spectrum, scales, sample)
    out = np.empty((90, 2))
    posterior.variance_into(rows, out)
    assert np.isfinite(out).all()
    assert (out >= 0).all()
    assert out.max() < 1e-6
    assert np.isfinite(posterior.deviations(rows, Z, 3, np.random.default_rng(0))).all()


def test_rounding_makes_no_variance_negative():
    class TooMuch:
        rows = X

        def explained(self, t, cross):
            return np.full((1, 9), 1.0 + 1e-9)  # the variance of the prior is one

    posterior = replace(posterior_of(RandomFourier(KERNEL, 12, random_state=0)), representers=TooMuch(), exact=KERNEL)
    assert (variances(posterior) == 0).all()
