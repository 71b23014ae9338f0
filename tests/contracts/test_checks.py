"""The checks of mercer.testing detect kernels and maps that are wrong."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import mercer
from mercer import Gaussian, RandomFourier, SphericalRadial
from mercer.engines import MemoryEngine
from mercer.engines.base import START
from mercer.kernels import (
    DotProductKernel,
    HomogeneousKernel,
    IsotropicKernel,
    PowerSeries,
    SeparableKernel,
    ShiftInvariantKernel,
    ThresholdKernel,
)
from mercer.testing import check_engine, check_engines, check_kernel, check_learner, check_map

# ---- isotropic kernels -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TwoScales(IsotropicKernel):
    """Half of the mixture has the lengthscale one, and half of it a third."""

    lengthscale: float = 1.0

    def profile(self, r):
        return 0.5 * np.exp(-0.5 * np.square(r)) + 0.5 * np.exp(-4.5 * np.square(r))

    def mixing(self, uniforms):
        return np.where(uniforms < 0.5, 1.0, 9.0)


def test_a_kernel_by_profile_and_mixing_alone_passes_and_so_do_its_maps():
    check_kernel(TwoScales(1.3))
    assert TwoScales().mean_mixing == pytest.approx(5.0, rel=1e-9)
    check_map(RandomFourier(2.0 * TwoScales(), 32))
    check_map(SphericalRadial(TwoScales(), 32))
    check_map(SphericalRadial(2.0 * TwoScales(0.7) + 1, 32, constant="signed"))


class WrongMean(TwoScales):
    def closed_mean_mixing(self):
        return 1.0


class WrongInverseMean(TwoScales):
    def closed_mean_inverse_mixing(self):
        return 1.0


class WrongName(TwoScales):
    def closed_mean_mixings(self):
        return 5.0


class WrongSlope(TwoScales):
    def closed_slope(self, r):
        return self.profile(r)


class WrongSizeBias(TwoScales):
    def closed_size_biased_mixing(self, uniforms):
        return self.mixing(uniforms)


class WrongPower(TwoScales):
    def closed_power(self, n):
        return replace(self, lengthscale=self.lengthscale / np.sqrt(n))


class WrongMixing(TwoScales):
    def mixing(self, uniforms):
        return np.where(uniforms < 0.45, 1.0, 9.0)


class WrongMass(TwoScales):
    def profile(self, r):
        return 2 * super().profile(r)


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (WrongMean(), r"mean_mixing must be the mean of mixing\(u\), 5, is 1"),
        (WrongInverseMean(), r"mean_inverse_mixing must be the mean of 1 / mixing\(u\), 0.5555\d+, is 1"),
        (WrongName(), r"closed_mean_mixings is never called.* Did you mean closed_mean_mixing\?"),
        (WrongSlope(), r"slope\(0.3\) must be -profile'\(r\) / r"),
        (WrongSizeBias(), "size_biased_mixing must have the density"),
        (WrongPower(), r"power\(2\) must have the values to the power 2"),
        (WrongMixing(), r"frequencies must have the spectral distribution|profile\(0.3\) must be the mean"),
        (WrongMass(), r"profile\(0\) must be 1, is 2. For another value at zero, multiply"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_check_kernel_detects_a_wrong_formula_of_an_isotropic_kernel(kernel, text):
    with pytest.raises(AssertionError, match=text):
        check_kernel(kernel)
    with pytest.raises(AssertionError, match=text):
        check_kernel(3.0 * kernel + 1)  # also inside the algebra


def test_check_map_detects_a_wrong_mean_of_the_mixing_distribution():
    with pytest.raises(AssertionError, match="claims to be unbiased, but its mean over 100 seeds is"):
        check_map(SphericalRadial(WrongMean(), 32))


@dataclass(frozen=True)
class Indefinite(mercer.Kernel):
    """The cosine of the distance, which is positive definite on a line, but not in space."""

    def _values(self, X, Y):
        return np.cos(3 * np.linalg.norm(X[:, None] - Y, axis=2))

    def _diagonal(self, X):
        return np.ones(len(X))


def test_check_kernel_detects_an_indefinite_kernel():
    with pytest.raises(AssertionError, match="positive semi-definite"):
        check_kernel(Indefinite())


# ---- other structures ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GaussianProduct(SeparableKernel):
    """The Gaussian kernel as a product, with a spectral distribution that is off by a factor."""

    factor: float = 1.0
    lengthscale: float = 1.0

    def profile(self, t):
        return np.exp(-0.5 * np.square(t))

    def spectral_quantile(self, uniforms):
        from scipy.special import ndtri

        return self.factor * ndtri(uniforms)


class WrongValues(GaussianProduct):
    def closed_values(self, X, Y):
        return Gaussian(1.1)(X, Y)


@dataclass(frozen=True)
class Shifted(ShiftInvariantKernel):
    """The Gaussian kernel by values and frequencies."""

    factor: float = 1.0
    lengthscale: float = 1.0

    def _values(self, X, Y):
        return Gaussian(self.lengthscale)(X, Y)

    def frequencies(self, normals, uniforms):
        return self.factor * normals / self.lengthscale


@dataclass(frozen=True)
class Exponential(DotProductKernel):
    """exp(t) with a series of another rate."""

    rate: float = 1.0

    @property
    def series(self):
        return PowerSeries(lambda n: np.concatenate([[1.0], np.cumprod(self.rate / np.arange(1, max(n, 1)))])[:n])

    def closed_function(self, t):
        return np.exp(t)


@dataclass(frozen=True)
class Chi2Again(HomogeneousKernel):
    """The chi-squared kernel with a density that is too narrow, or draws that are."""

    factor: float = 1.0
    drawn: float = 1.0

    def coordinate(self, x, y):
        return mercer.Chi2().coordinate(x, y)

    def spectral_density(self, frequencies):
        return self.factor * mercer.Chi2().spectral_density(self.factor * frequencies)

    def closed_frequencies(self, n, rng):
        return mercer.Chi2().frequencies(n, rng) * self.drawn


class NotHomogeneous(Chi2Again):
    def coordinate(self, x, y):
        return np.sqrt(mercer.Chi2().coordinate(x, y))


@dataclass(frozen=True)
class Minima(ThresholdKernel):
    """The min kernel."""

    def boxes(self, d):
        return (tuple(range(d)),)


class WrongBoxes(Minima):
    def _values(self, X, Y):
        return mercer.Intersection()(X, Y)

    def _diagonal(self, X):
        return mercer.Intersection().diag(X)


@pytest.mark.parametrize(
    "kernel", [GaussianProduct(), Shifted(), Exponential(), Chi2Again(), Minima()], ids=lambda k: type(k).__name__
)
def test_check_kernel_passes_the_minimal_formulas_of_every_structure(kernel):
    check_kernel(kernel)


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (GaussianProduct(1.1), "frequencies must have the spectral distribution"),
        (WrongValues(), r"frequencies must have|values must be products of profile\(lag\)"),
        (Shifted(1.1), "frequencies must have the spectral distribution"),
        (Exponential(1.01), r"function\(t\) must be the sum of its series"),
        (Chi2Again(factor=1.2), "frequencies must have the spectral density"),
        (Chi2Again(drawn=1.2), r"frequencies must have the Fourier transform signature\(lag\)"),
        (NotHomogeneous(), "coordinate must be homogeneous"),
        (WrongBoxes(), "values must be sums over boxes of minima"),
    ],
    ids=lambda value: repr(value) if isinstance(value, mercer.Kernel) else "",
)
def test_check_kernel_detects_a_wrong_formula(kernel, text):
    with pytest.raises(AssertionError, match=text):
        check_kernel(kernel)


def test_check_kernel_asks_for_a_dataclass():
    class Plain(IsotropicKernel):
        profile = TwoScales.profile
        mixing = TwoScales.mixing

    with pytest.raises(AssertionError, match=r"must be equal. Is the class a @dataclass\(frozen=True\)?"):
        check_kernel_of_module(Plain)


def check_kernel_of_module(kind):
    """Check a kernel of a class that is defined in a function, as if pickle could find it."""
    kind.__qualname__ = kind.__name__
    globals()[kind.__name__] = kind
    try:
        check_kernel(kind())
    finally:
        del globals()[kind.__name__]


# ---- maps, learners and engines --------------------------------------------------------------------------------------


class Doubled(RandomFourier):
    """A map of twice the kernel, which claims to be unbiased."""

    def _draw(self, kernel, X, weight, rng):
        return super()._draw(2.0 * kernel, X, weight, rng)


def test_check_map_detects_a_bias():
    with pytest.raises(AssertionError, match="claims to be unbiased, but its mean over 100 seeds is"):
        check_map(Doubled(Gaussian(), 32))
    check_map(Doubled(Gaussian(), 32), draws=0)


def test_check_map_detects_a_map_that_depends_on_the_batch():
    class Centered(mercer.Nystroem):
        def transform(self, X):
            Z = super().transform(X)
            return Z - Z.mean(axis=0)

    with pytest.raises(AssertionError, match="must not depend on the batch"):
        check_map(Centered(mercer.Gaussian(), 5))


class Unweighted(mercer.KernelRidge):
    """A learner that ignores weights, everywhere or on dask only."""

    everywhere = True

    def fit(self, X, y=None, sample_weight=None, **options):
        ignored = self.everywhere or hasattr(X, "dask")
        return super().fit(X, y, None if ignored else sample_weight, **options)


class UnweightedOnDask(Unweighted):
    everywhere = False


def test_check_learner_detects_a_learner_that_ignores_weights():
    with pytest.raises(AssertionError, match="weights must equal repetition"):
        check_learner(Unweighted(mercer.RandomFourier(mercer.Gaussian(0.7), 20)))


def test_check_engine_detects_an_engine_that_omits_a_block():
    class Lossy(MemoryEngine):
        def blocks(self, since=START):
            return (block for block in super().blocks(since) if block.start != 20)

    with pytest.raises(AssertionError, match="every row once"):
        check_engine(lambda blocks, jobs: Lossy(np.concatenate(blocks), block_rows=10, n_jobs=jobs))


def test_check_engines_detects_a_learner_that_ignores_weights_on_dask():
    with pytest.raises(AssertionError, match=r"dask with .* with weights must equal the result in memory"):
        check_engines(UnweightedOnDask(mercer.RandomFourier(mercer.Gaussian(0.7), 20)))


class NegativeMixing(TwoScales):
    def mixing(self, uniforms):
        return np.where(uniforms < 0.5, -1.0, 9.0)


class ScalarMixing(TwoScales):
    def mixing(self, uniforms):
        return 5.0


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (NegativeMixing(), r"mixing\(u\) must be a number >= 0, but mixing\(0.00391 is -1"),
        (ScalarMixing(), r"mixing\(u\) must return an array of the shape of u, \(255,\), got \(\)"),
    ],
    ids=["negative", "scalar"],
)
def test_check_kernel_names_the_values_of_mixing_that_are_wrong(kernel, text):
    with pytest.raises(AssertionError, match=text):
        check_kernel(kernel)


class AsymmetricQuantile(GaussianProduct):
    def spectral_quantile(self, uniforms):
        return super().spectral_quantile(uniforms) + 0.05


def test_check_kernel_detects_a_spectral_quantile_that_is_not_symmetric():
    with pytest.raises(AssertionError, match=r"spectral_quantile\(1 - u\) must be -spectral_quantile\(u\)"):
        check_kernel(AsymmetricQuantile())


class WithoutNeeds(RandomFourier):
    needs = None


def test_check_map_requires_the_phrase_needs():
    with pytest.raises(AssertionError, match="needs must say what a kernel must have"):
        check_map(WithoutNeeds(Gaussian(), 8))


@dataclass(frozen=True)
class WrongSeries(DotProductKernel):
    value: object = 1.0

    @property
    def series(self):
        return self.value


def test_check_kernel_says_what_a_series_must_be():
    with pytest.raises(AssertionError, match=r"series must be a mercer.kernels.PowerSeries, got float"):
        check_kernel(WrongSeries(1.0))
    with pytest.raises(AssertionError, match=r"coefficients\(3\) must return 3 numbers, got an array of shape \(\)"):
        check_kernel(WrongSeries(PowerSeries(lambda _n: 1.0)))


def test_a_map_whose_draw_returns_an_array_is_refused():
    class Drawn(RandomFourier):
        def _draw(self, kernel, X, weight, rng):
            return np.zeros((3, 4))

    with pytest.raises(
        mercer.ParameterError, match=r"Drawn: _draw must return .* mercer.features.Features, got ndarray"
    ):
        Drawn(Gaussian(), 4).fit(np.eye(3))
