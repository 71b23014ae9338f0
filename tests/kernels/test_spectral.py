"""Spectral normal form, input maps pulled back to frequencies, and the median lengthscale."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import pdist

from mercer import Cauchy, Constant, DataError, Gaussian, Laplacian, Matern, RationalQuadratic, Transformed
from mercer.kernels import spectral as spectrum
from mercer.kernels.spectral import Affine, SpectralFactor

from ..instances import COMPOSITE, ISOTROPIC, SHIFT_INVARIANT

X = np.random.default_rng(0).normal(size=(30, 3)) * [1.0, 3.0, 0.1]


@pytest.mark.parametrize("kernel", [k for k in SHIFT_INVARIANT + COMPOSITE if k.spectral_parts()], ids=repr)
def test_the_normal_form_is_the_kernel(kernel):
    total = np.zeros((len(X), len(X)))
    for part in kernel.spectral_parts():
        product = np.full_like(total, part.mass)
        for factor in part.factors:
            rows = X
            for affine in factor.inputs:
                rows = affine(rows)
            product *= factor.kernel(rows, rows)
        total += product
    np.testing.assert_allclose(total, kernel(X, X), rtol=1e-12)


def test_masses_add_and_multiply():
    kernel = (2 * Gaussian() + 3) * (Laplacian() + 0.5 * Matern() + 1)
    parts = kernel.spectral_parts()
    assert sorted(part.mass for part in parts) == [1, 1.5, 2, 2, 3, 3]
    assert sum(part.mass for part in parts) == pytest.approx(float(kernel.diag(X[:1])[0]))
    assert sum(1 for part in parts if not part.factors) == 1


def test_frequencies_are_pulled_back_through_the_chain_of_input_maps():
    chain = (Affine((4, 0, 2), (1.0, 2.0, 3.0), (0.5, 1.0, 2.0)), Affine((2, 1), None, (10.0, 0.1)))
    factor = SpectralFactor(Gaussian(), chain)
    rows = np.random.default_rng(0).normal(size=(7, 5))
    frequencies = np.random.default_rng(1).normal(size=(6, 2))
    assert factor.width(5) == 2
    pulled = factor.pull_back(frequencies, 5)
    assert pulled.shape == (6, 5)
    inner = chain[1](chain[0](rows))
    # Equal up to a phase, hence for differences of rows.
    np.testing.assert_allclose(np.diff(rows @ pulled.T, axis=0), np.diff(inner @ frequencies.T, axis=0), atol=1e-12)


@pytest.mark.parametrize("kernel", ISOTROPIC, ids=repr)
def test_scales_are_finite_and_follow_the_lengthscale(kernel):
    uniforms = np.array([0.0, 1e-300, 1e-16, 0.1, 0.5, 0.9, 1 - 1e-16])
    scales = kernel.scales(uniforms)
    assert np.isfinite(scales).all()
    assert (scales >= 0).all()
    doubled = kernel.with_params(lengthscale=2 * kernel.lengthscale)
    np.testing.assert_allclose(2 * doubled.scales(uniforms), scales, rtol=1e-14)


@pytest.mark.parametrize("kernel", [Gaussian, Matern, RationalQuadratic, Laplacian, Cauchy])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, lambda rows: rows.astype(np.float32)])
def test_median_is_the_median_of_pairwise_distances(kernel, kind):
    metric = "cityblock" if kernel is Laplacian else "euclidean"
    resolved = kernel(lengthscale="median").resolve(kind(X))
    assert isinstance(resolved.lengthscale, float)
    assert resolved.lengthscale == pytest.approx(np.median(pdist(X, metric)), rel=1e-6)
    assert resolved.resolve(2 * X) == resolved


def test_median_of_many_rows_is_that_of_a_sample(monkeypatch):
    monkeypatch.setattr(spectrum, "MEDIAN_ROWS", 10)
    lengthscale = Gaussian("median").resolve(X).lengthscale
    assert lengthscale == Gaussian("median").resolve(X).lengthscale
    distances = np.sort(pdist(X))
    assert distances[20] < lengthscale < distances[-20]


def test_the_sample_for_the_median_is_not_periodic():
    tiled = np.tile(X[:7], (1000, 1))[:6994]  # evenly spaced rows would all be equal
    assert Gaussian("median").resolve(tiled).lengthscale == pytest.approx(np.median(pdist(X[:7])), rel=0.3)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_median_of_rows_of_any_size(scale):
    expected = Gaussian("median").resolve(X).lengthscale * scale
    assert Gaussian("median").resolve(X * scale).lengthscale == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kernel", [Gaussian("median"), 1 + Transformed(Laplacian("median"), columns=(0, 2))])
def test_weights_of_rows_are_equivalent_to_repetitions(kernel):
    repeats = np.random.default_rng(1).integers(0, 4, len(X))
    weighted = kernel.resolve(X, repeats.astype(float))
    assert weighted == kernel.resolve(np.repeat(X, repeats, axis=0))
    assert weighted != kernel.resolve(X)


def test_median_ignores_equal_rows():
    # Nine of ten rows are equal: the plain median of distances is zero, and no lengthscale.
    rows = np.repeat([[0.0, 0.0], [3.0, 4.0]], [18, 2], axis=0)
    assert np.median(pdist(rows)) == 0
    assert Gaussian("median").resolve(rows).lengthscale == 5.0


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (
            np.ones((1, 3)),
            "needs at least two different rows to take a median distance, got n_samples=1 row. Give",
        ),
        (np.ones((7, 3)), "got n_samples=7 equal rows"),
        (np.empty((0, 3)), "got n_samples=0"),
    ],
)
def test_median_needs_two_different_rows(rows, text):
    with pytest.raises(DataError, match=text):
        Gaussian("median").resolve(rows)
    with pytest.raises(DataError, match=text):
        (1 + Transformed(Laplacian("median"), columns=(0, 1))).resolve(rows)


def test_resolving_a_resolved_kernel_changes_nothing():
    for kernel in (Gaussian(2.0), Constant(1.0) + Gaussian(), Transformed(Laplacian(), columns=(0,))):
        assert kernel.resolve(np.ones((1, 3))) == kernel
