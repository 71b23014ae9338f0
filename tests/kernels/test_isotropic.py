"""Gaussian, Matern, rational quadratic: values against other libraries and mpmath, and what two formulas imply."""

from dataclasses import dataclass

import mpmath as mp
import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.gaussian_process import kernels as oracle
from sklearn.metrics.pairwise import rbf_kernel

from mercer import Gaussian, Laplacian, Matern, ParameterError, RationalQuadratic
from mercer.kernels import isotropic
from mercer.kernels.isotropic import IsotropicKernel, euclidean_distances

from ..instances import ISOTROPIC

RADII = [0.0, 1e-12, 1e-8, 1e-5, 1e-3, 0.01, 0.05, 0.1, 0.3, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0]


def rows(seed, n=30, d=4):
    return np.random.default_rng(seed).normal(size=(n, d))


@pytest.mark.parametrize("gamma", [1e-3, 0.5, 7.0])
def test_gaussian_equals_scikit_learn(gamma):
    X, Y = rows(0), rows(1)
    np.testing.assert_allclose(Gaussian.from_gamma(gamma)(X, Y), rbf_kernel(X, Y, gamma=gamma), rtol=1e-12)


@pytest.mark.parametrize("nu", [0.3, 0.5, 1.0, 1.5, 2.5, 4.2, np.inf])
@pytest.mark.parametrize("lengthscale", [0.4, 3.0])
def test_matern_equals_scikit_learn(nu, lengthscale):
    X, Y = rows(0), rows(1)
    expected = oracle.Matern(length_scale=lengthscale, nu=nu)(X, Y)
    np.testing.assert_allclose(Matern(nu, lengthscale)(X, Y), expected, rtol=1e-11)


@pytest.mark.parametrize("alpha", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("lengthscale", [0.4, 3.0])
def test_rational_quadratic_equals_scikit_learn(alpha, lengthscale):
    X, Y = rows(0), rows(1)
    expected = oracle.RationalQuadratic(length_scale=lengthscale, alpha=alpha)(X, Y)
    np.testing.assert_allclose(RationalQuadratic(alpha, lengthscale)(X, Y), expected, rtol=1e-12)


def matern_in_high_precision(nu, r):
    if r == 0:
        return mp.mpf(1)
    nu, r = mp.mpf(nu), mp.mpf(r)
    x = mp.sqrt(2 * nu) * r
    if nu < 100:
        bessel = mp.besselk(nu, x)
    else:
        # K_nu(x) is half the integral of exp(nu t - x cosh t): mpmath's own series is slow for large nu. The
        # trapezoidal rule converges faster than any power of its step; 15 widths of the peak hold all of it.
        peak = mp.asinh(nu / x)
        step = 1 / mp.sqrt(x * mp.cosh(peak)) / 8
        nodes = [peak + k * step for k in range(-120, 121)]
        bessel = step / 2 * mp.fsum(mp.exp(nu * t - x * mp.cosh(t)) for t in nodes)
    return 2 * (x / 2) ** nu * bessel / mp.gamma(nu)


@pytest.mark.parametrize("nu", [1e-3, 0.1, 0.3, 0.5, 1, 1.5, 2, 2.5, 7.3, 20, 99.9, 100.1, 1000, 1e5])
def test_matern_keeps_its_digits_for_every_smoothness_and_distance(nu):
    with mp.workdps(40):
        expected = np.array([float(matern_in_high_precision(nu, r)) for r in RADII])
    # Relative: the largest of the exponents of a value, some hundreds, times the unit roundoff, plus the error
    # of the expansion in 1 / nu where it takes over.
    np.testing.assert_allclose(Matern(nu).profile(np.array(RADII)), expected, rtol=5e-12)


@pytest.mark.parametrize("kernel", ISOTROPIC, ids=repr)
def test_profiles_fall_from_one_to_zero_and_never_exceed_one(kernel):
    r = np.concatenate([[0.0], np.geomspace(1e-200, 1e4, 4000), [1e150]])
    values = kernel.profile(r)
    assert values[0] == 1.0
    assert (values <= 1.0 + 2**-52).all()
    assert (values >= 0.0).all()
    # Monotone up to the rounding of neighbors.
    assert (np.diff(values) <= 1e-12).all()
    assert values[-1] < 1e-30


def test_the_family_is_coherent():
    X, Y = rows(0), rows(1)
    np.testing.assert_array_equal(Matern(np.inf, 2.0)(X, Y), Gaussian(2.0)(X, Y))
    # The distance of these profiles to the Gaussian one is below 1 / nu and 1 / alpha.
    np.testing.assert_allclose(Matern(1e9, 2.0)(X, Y), Gaussian(2.0)(X, Y), atol=1e-9)
    np.testing.assert_allclose(RationalQuadratic(1e9, 2.0)(X, Y), Gaussian(2.0)(X, Y), atol=1e-9)
    np.testing.assert_allclose(Matern(0.5, 2.0)(X[:, :1], Y[:, :1]), Laplacian(2.0)(X[:, :1], Y[:, :1]), rtol=1e-12)
    for nu in (0.5, 1.5, 2.5, 100.0):
        # The closed forms and the expansion join the Bessel function without a step.
        below, above = Matern(nu * (1 - 1e-12))(X, Y), Matern(nu * (1 + 1e-12))(X, Y)
        np.testing.assert_allclose(Matern(nu)(X, Y), below, rtol=1e-10)
        np.testing.assert_allclose(above, below, rtol=1e-10)


def test_gamma_is_scikit_learns():
    assert Gaussian.from_gamma(0.5) == Gaussian(1.0)
    for gamma in (0, -1.0, float("nan")):
        with pytest.raises(ParameterError, match=r"Gaussian.from_gamma: gamma must be a finite number > 0, got"):
            Gaussian.from_gamma(gamma)


@pytest.mark.parametrize("offset", [0.0, 1e8, -1e8])
@pytest.mark.parametrize("kernel", ISOTROPIC, ids=repr)
def test_equal_rows_have_the_value_one_however_far_from_the_origin(kernel, offset):
    X = rows(0) + offset
    Y = np.concatenate([rows(1) + offset, X[::-1], X[:3]])
    np.testing.assert_array_equal(kernel(X, X)[np.diag_indices(len(X))], 1.0)
    values = kernel(X, Y)
    same = (X[:, None] == Y).all(axis=2)
    assert same.sum() == len(X) + 3
    np.testing.assert_array_equal(values[same], 1.0)


@pytest.mark.parametrize("offset", [0.0, 1e4, 1e8])
def test_distances_equal_differences_far_from_the_origin(offset):
    X, Y = rows(0, d=40) + offset, rows(1, d=40) + offset
    Y[:5] = X[:5] + 1e-4  # near pairs, which a matrix product alone would lose
    np.testing.assert_allclose(euclidean_distances(X, Y), cdist(X, Y), rtol=1e-10)


def test_one_row_far_away_does_not_make_the_distances_of_others_slow(monkeypatch):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(30, 3)), rng.normal(size=(20, 3))
    Y[4] += 1e13
    # Distances that lose digits would be recomputed by `dense64`.
    monkeypatch.setattr(isotropic, "dense64", None)
    np.testing.assert_allclose(euclidean_distances(X, Y), cdist(X, Y), rtol=1e-10)


@pytest.mark.parametrize("outlier", [1e17, 1e60, 1e150, 1e200])
def test_one_row_far_away_leaves_the_other_values_alone(outlier):
    X = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.5]])
    expected = Gaussian()(X)
    far = np.concatenate([X, [[outlier, -outlier]]])
    np.testing.assert_allclose(Gaussian()(far)[:3, :3], expected, rtol=1e-12)
    np.testing.assert_array_equal(Gaussian()(far)[3], [0.0, 0.0, 0.0, 1.0])


@pytest.mark.parametrize("kernel", ISOTROPIC, ids=repr)
def test_values_of_huge_rows(kernel):
    X = np.array([[1e200, 0.0], [0.0, 1e200], [1e200, 0.0], [-1.7e308, 1.7e308]])
    values = kernel(X)
    assert values[0, 2] == 1.0
    with np.errstate(over="ignore"):  # the second distance is not representable
        distances = np.array([2**0.5 * 1e200, np.hypot(1.7e308, 1.7e308)]) / kernel.lengthscale
    far = kernel.profile(np.minimum(distances, kernel.largest_distance))
    np.testing.assert_allclose(values[0, [1, 3]], far, rtol=1e-12)
    # In units of the lengthscale they are ordinary numbers.
    at_one = kernel.with_params(lengthscale=1.0)
    scaled = kernel.with_params(lengthscale=1e200)
    np.testing.assert_allclose(scaled(X)[:3, :3], at_one(X[:3] / 1e200), rtol=1e-12)


@pytest.mark.parametrize("nu", [0, -1.5, np.nan, -np.inf, True, "smooth", None])
def test_a_wrong_smoothness_is_refused(nu):
    with pytest.raises(ParameterError, match="Matern: nu must be a finite number > 0, got"):
        Matern(nu)


@pytest.mark.parametrize("alpha", [0, -1.0, np.inf, np.nan, True, "a"])
def test_a_wrong_shape_is_refused(alpha):
    with pytest.raises(ParameterError, match="RationalQuadratic: alpha must be a finite number > 0, got"):
        RationalQuadratic(alpha)


@pytest.mark.parametrize("scale", [1e-170, 1e-200, 1e170])
def test_rows_and_lengthscales_of_any_size(scale):
    X = np.random.default_rng(0).normal(size=(6, 3))
    np.testing.assert_allclose(Gaussian(scale)(X * scale), Gaussian(1.0)(X), rtol=1e-9)
    np.testing.assert_allclose(Matern(1.5, scale)(X * scale), Matern(1.5)(X), rtol=1e-9)


MIXTURES = [Gaussian(), Matern(1.2), Matern(1.5), Matern(2.5), Matern(50.0), Matern(np.inf), RationalQuadratic(0.3)]


@pytest.mark.parametrize("kernel", [*MIXTURES, RationalQuadratic(1.0), RationalQuadratic(20.0)], ids=repr)
def test_the_size_biased_distribution_has_a_density_proportional_to_tau(kernel):
    # E[g(tau) tau] = E[tau] E'[g(tau)] for bounded g; midpoints on both sides.
    t = (np.arange(50_000) + 0.5) / 50_000
    u, du = 0.5 - 0.5 * np.cos(np.pi * t), 0.5 * np.pi * np.sin(np.pi * t)  # fine at both ends
    tau, biased = kernel.mixing(u), kernel.size_biased_mixing(u)
    assert (np.diff(biased) <= 0).all() or (np.diff(biased) >= 0).all()
    for cut in (0.3, 1.0, 4.0):
        weighted = np.minimum(tau, cut) * np.exp(-tau / cut)  # tau g(tau) with g bounded and smooth enough
        expected = np.minimum(1.0, cut / biased) * np.exp(-biased / cut)
        assert np.mean(du * weighted) == pytest.approx(kernel.mean_mixing * np.mean(du * expected), rel=1e-3, abs=1e-6)
    # So weights E[tau] / tau have mean one.
    assert kernel.mean_mixing * np.mean(du / biased) == pytest.approx(1.0, rel=1e-2)


def test_mean_mixing_is_minus_the_second_derivative_of_the_profile_at_zero():
    for kernel in (*MIXTURES[2:], RationalQuadratic(2.0)):
        r = np.array([1e-3])
        slope = 2 * (1 - kernel.profile(r)) / r**2
        assert slope[0] == pytest.approx(kernel.mean_mixing, rel=2e-2)
    assert Matern(1.0).mean_mixing == Matern(0.5).mean_mixing == np.inf


@pytest.mark.parametrize(
    "kernel",
    [Gaussian(), Matern(0.3), Matern(0.5), Matern(1.0), Matern(1.5), Matern(1.7), Matern(2.5), Matern(300.0),
     Matern(np.inf), RationalQuadratic(0.6)],
    ids=repr,
)  # fmt: skip
def test_slope_is_minus_the_derivative_of_the_profile_over_the_distance(kernel):
    r = np.array([0.05, 0.3, 0.7, 1.5, 3.0])
    h = 1e-4 * r
    derivative = (kernel.profile(r + h) - kernel.profile(r - h)) / (2 * h)
    np.testing.assert_allclose(kernel.slope(r), -derivative / r, rtol=1e-6)
    assert np.isfinite(kernel.slope(np.array([0.0, 1e-9, 1e150]))).all()


# ---- what is derived from profile and mixing alone ------------------------------------------------------------------


@dataclass(frozen=True)
class TwoFormulas(IsotropicKernel):
    """A kernel by its two formulas, without the closed forms of the kernel that it has them from."""

    source: IsotropicKernel

    def profile(self, r):
        return self.source.profile(r)

    def mixing(self, uniforms):
        return self.source.mixing(uniforms)


@pytest.mark.parametrize("kernel", [*ISOTROPIC, Matern(1.05), Matern(1.2), RationalQuadratic(0.05)], ids=repr)
def test_closed_forms_are_what_the_two_formulas_imply(kernel):
    derived = TwoFormulas(kernel)
    assert derived.mean_mixing == pytest.approx(kernel.mean_mixing, rel=1e-8)
    r = np.array([1e-3, 0.05, 0.3, 0.7, 1.5, 3.0])
    # Rounding of a profile that is at most one, over the step of the derivative in log r.
    np.testing.assert_allclose(r**2 * derived.slope(r), r**2 * kernel.slope(r), rtol=1e-8, atol=1e-11)
    if np.isfinite(kernel.mean_mixing):
        u = np.linspace(0.001, 0.999, 201)
        np.testing.assert_allclose(derived.size_biased_mixing(u), kernel.size_biased_mixing(u), rtol=1e-6)


def test_slopes_at_zero_and_infinity_are_finite():
    for kernel in (Matern(0.5), Matern(1.5), Gaussian()):
        slope = TwoFormulas(kernel).slope(np.array([0.0, 1e-200, 1e-9, 1e150]))
        assert np.isfinite(slope).all()
        assert (slope >= 0).all()


def test_a_mixing_that_returns_no_numbers_is_refused():
    @dataclass(frozen=True)
    class Negative(IsotropicKernel):
        def profile(self, r):
            return np.exp(-r)

        def mixing(self, uniforms):
            return uniforms - 0.5

    with pytest.raises(ParameterError, match=r"Negative\(\): mixing\(u\) must return numbers >= 0, got -"):
        _ = Negative().mean_mixing


def test_a_kernel_without_a_lengthscale_has_the_lengthscale_one():
    kernel = TwoFormulas(Matern(1.5))
    assert kernel.lengthscale == 1.0
    assert not kernel.needs_rows
    np.testing.assert_array_equal(kernel(rows(0)), Matern(1.5)(rows(0)))


@pytest.mark.parametrize("alpha", [1e-3, 0.01, 0.3, 1.0, 2.0, 1e5])
def test_rational_quadratic_at_every_distance_that_float64_represents(alpha):
    # Down to the smallest normal number, to which distances above 1e150 lengthscales lead for alpha < 1.
    for exponent in (-300, -150, -20, 0, 20, 99, 101, 149, 151, 160, 250, 308):
        for value, slope in [
            (RationalQuadratic(alpha, 10.0**-exponent)([[0.0]], [[1.0]])[0, 0], None),
            (RationalQuadratic(alpha)([[0.0]], [[10.0**exponent]])[0, 0], RationalQuadratic(alpha).slope),
        ]:
            with mp.workdps(700):
                base = 1 + mp.mpf(10) ** (2 * exponent) / (2 * mp.mpf(alpha))
                expected, steep = base ** -mp.mpf(alpha), base ** -(mp.mpf(alpha) + 1)
            # The lengthscale and the distance are rounded, and so is the exponent of the exponential function.
            assert value == pytest.approx(float(expected), rel=1e-12, abs=1e-307)
            if slope is not None:
                assert slope(np.array([10.0**exponent]))[0] == pytest.approx(float(steep), rel=1e-12, abs=1e-307)


def test_other_kernels_are_zero_and_not_nan_at_the_largest_distances():
    for kernel in (Gaussian(), Matern(0.1), Matern(0.5), Matern(1.5), Matern(2.5), Matern(7.0), Matern(150.0)):
        for lengthscale in (1.0, 1e-300):
            values = kernel.with_params(lengthscale=lengthscale)([[0.0]], [[1e4], [1e160], [1.7e308]])
            np.testing.assert_array_equal(values, 0.0)
