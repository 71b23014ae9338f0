"""Derivatives of the evidence in the lengthscales, against differences."""

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import (
    Gaussian,
    Laplacian,
    Matern,
    Nystroem,
    ParameterError,
    Polynomial,
    RandomFourier,
    RandomMaclaurin,
)
from mercer.engines import Block
from mercer.solvers.processes.evidence import Evidence, Scales
from mercer.solvers.processes.lengthscales import LengthscaleGradient
from mercer.solvers.ridge.least_squares import Spectrum
from mercer.statistics.moments import Moments, TargetMoments

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
Y, WEIGHT = np.sin(2 * X) + 0.3 * RNG.normal(size=(40, 2)), RNG.uniform(0.5, 2, 40)
SCALES = Scales(np.array([0.3, 0.5]), np.array([1.1, 0.7]))
H = 1e-5


def spectrum_of(Z):
    return Spectrum.of(Moments(Z.T @ (Z * WEIGHT[:, None]), TargetMoments.of(Z, Y, WEIGHT)), centered=False)


def differences(value):
    """Return the derivatives of a function of the logarithms of two lengthscales, at zero."""
    return [(value(H * step) - value(-H * step)) / (2 * H) for step in np.eye(2)]


def test_features_without_a_closed_form_are_refused():
    spectrum = spectrum_of(X)
    for feature_map in (
        RandomMaclaurin(Polynomial(2), 5),
        RandomFourier(Gaussian(), 8, directions="butterfly"),
        Nystroem(Laplacian(), 5),
    ):
        with pytest.raises(ParameterError, match=r"needs: RandomFourier with dense directions, .*\n  got:   "):
            LengthscaleGradient(feature_map.fit(X).features_, spectrum, SCALES)


@pytest.mark.parametrize("width", [12, 13])
@pytest.mark.parametrize("form", ["pairs", "phase"])
def test_the_evidence_on_fourier_features(form, width):
    feature_map = RandomFourier(Gaussian(1.3), width, directions="iid", form=form, random_state=0).fit(X)

    def evidence(step):
        return float(Evidence(spectrum_of(feature_map.transform(X * np.exp(-step)))).value(SCALES).sum())

    term = LengthscaleGradient(feature_map.features_, spectrum_of(feature_map.transform(X)), SCALES)
    parts = term(Block(0, X[:15], Y[:15], WEIGHT[:15])) + term(Block(15, X[15:], Y[15:], WEIGHT[15:]))
    np.testing.assert_allclose(term.complete(parts), differences(evidence), rtol=1e-5, atol=1e-5)
    sparse = term(Block(0, sp.csr_array(X), Y, WEIGHT))
    np.testing.assert_allclose(sparse, parts, rtol=1e-9)


@pytest.mark.parametrize("kernel", [Gaussian(1.3), Matern(2.5)], ids=repr)
def test_the_evidence_on_landmarks_that_stay_where_they_are(kernel):
    feature_map = Nystroem(kernel, 8, random_state=0).fit(X)
    landmarks = feature_map.features_.landmarks

    def evidence(step):
        # A root of the inverse by Cholesky: which one is taken does not matter to the kernel.
        scale = np.exp(-step)
        root = np.linalg.cholesky(kernel(landmarks * scale))
        Z = np.linalg.solve(root, kernel(landmarks * scale, X * scale)).T
        return float(Evidence(spectrum_of(Z)).value(SCALES).sum())

    term = LengthscaleGradient(feature_map.features_, spectrum_of(feature_map.transform(X)), SCALES)
    found = term.complete(term(Block(0, X, Y, WEIGHT)))
    np.testing.assert_allclose(found, differences(evidence), rtol=1e-5, atol=1e-5)
