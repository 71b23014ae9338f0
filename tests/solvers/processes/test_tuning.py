"""The evidence of a sample as a function of lengthscales: its value, its derivatives, its top."""

import numpy as np
import pytest

from mercer import Gaussian, Laplacian, Matern, Nystroem, ParameterError, RandomFourier, RationalQuadratic, Transformed
from mercer.engines import Block
from mercer.solvers.processes.fourier_evidence import FourierEvidence
from mercer.solvers.processes.gram_evidence import GramEvidence
from mercer.solvers.processes.tuning import evidence_of, merged, tune_lengthscales
from mercer.statistics import RowSample


def data(n=60, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.column_stack([np.sin(2 * X[:, 0]), X[:, 1]]) + 0.1 * rng.normal(size=(n, 2)), np.ones(n)


def sample_of(X, y, weight=None, size=1000):
    return RowSample.of(Block(0, X, y, weight), size=size, seed=0, by_weight=True)


def theta(d=3):
    return np.log([0.8, 1.5, 2.0][:d]), np.log([0.3, 0.2]), np.log([1.1, 0.7])


@pytest.mark.parametrize(
    "kernel", [Gaussian(), Matern(0.5), Matern(1.7), RationalQuadratic(0.6), Laplacian()], ids=repr
)
@pytest.mark.parametrize("weighted", [False, True])
def test_derivatives_are_those_of_differences(kernel, weighted):
    X, y, w = data()
    X[1] = X[0]  # equal rows have no distance, and no derivative
    w = np.random.default_rng(1).uniform(0.5, 2.0, len(X)) if weighted else w
    evidence = evidence_of(Nystroem(kernel, 50), kernel, X, y, w, ard=True, seed=0)
    assert isinstance(evidence, FourierEvidence if kernel == Laplacian() else GramEvidence)
    parts = theta()
    value, *gradients = evidence(*parts)
    h = 1e-5
    for which, gradient in enumerate(gradients):
        for i in range(len(gradient)):
            moved = [[p.copy() for p in parts] for _ in range(2)]
            moved[0][which][i] += h
            moved[1][which][i] -= h
            differences = (evidence(*moved[0])[0] - evidence(*moved[1])[0]) / (2 * h)
            assert gradient[i] == pytest.approx(differences, rel=1e-5, abs=1e-5)
    best, scales = evidence.best(parts[0], None, None)
    assert best >= value
    assert evidence(parts[0], np.log(scales.noise), np.log(scales.amplitude))[0] == pytest.approx(best, rel=1e-7)


def test_weights_are_repetitions():
    X, y, _ = data()
    counts = np.random.default_rng(0).integers(1, 4, len(X))
    for kernel in (Gaussian(), Laplacian()):
        one = evidence_of(Nystroem(kernel, 50), kernel, X, y, counts.astype(float), ard=True, seed=0)
        rows = np.repeat(X, counts, axis=0), np.repeat(y, counts, axis=0)
        other = evidence_of(Nystroem(kernel, 50), kernel, *rows, np.ones(counts.sum()), ard=True, seed=0)
        for a, b in zip(one(*theta()), other(*theta()), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-7)


def test_equal_rows_of_a_sample_are_merged():
    X, y, _ = data()
    repeats = np.random.default_rng(0).integers(0, 4, len(X))
    weighted = merged(sample_of(X, y, repeats.astype(float)))
    repeated = merged(sample_of(np.repeat(X, repeats, axis=0), np.repeat(y, repeats, axis=0)))
    for a, b in zip(weighted, repeated, strict=True):
        np.testing.assert_array_equal(a, b)
    assert len(weighted[0]) == (repeats > 0).sum()


def settings(**changes):
    return {"ard": False, "noise": None, "amplitude": None, "centered": True, "seed": 0, **changes}


def test_the_tuned_kernel_is_at_the_top():
    X, y, w = data(150)
    for kernel, ard in ((Gaussian(5.0), False), (Gaussian(5.0), True), (Matern(2.5), True)):
        tuning = tune_lengthscales(Nystroem(kernel, 50), kernel, sample_of(X, y), **settings(ard=ard))
        tried = [trial.log_marginal_likelihood for trial in tuning.trials if trial.step == "gradient"]
        # What was found is as good as the best that was tried: three digits are enough.
        found = tuning.kernel
        scales = np.array(found.lengthscales) if ard else np.full(3, found.lengthscale)
        centered = y - y.mean(axis=0)
        evidence = GramEvidence(kernel.with_params(lengthscale=1.0), X, centered, w)
        value, best = evidence.best(np.log(scales), None, None)
        assert value / 150 > max(tried) - 1e-4
        gradient = evidence(np.log(scales), np.log(best.noise), np.log(best.amplitude))[1]
        assert np.abs(gradient if ard else gradient.sum()).max() < 2.0
        assert tuning.rows == 150


def test_lengthscales_that_the_kernel_came_with_are_the_start():
    X, y, _ = data(150)
    came = Transformed(Gaussian(), lengthscales=(1.0, 2.0, 3.0))
    kept_shape = tune_lengthscales(Nystroem(came, 50), came, sample_of(X, y), **settings()).kernel
    ratio = np.array(kept_shape.lengthscales) / (1.0, 2.0, 3.0)
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-2)
    free = tune_lengthscales(Nystroem(came, 50), came, sample_of(X, y), **settings(ard=True)).kernel
    plain = tune_lengthscales(Nystroem(Gaussian(), 50), Gaussian(), sample_of(X, y), **settings(ard=True)).kernel
    np.testing.assert_allclose(free.lengthscales[:2], plain.lengthscales[:2], rtol=0.05)


def test_given_noise_and_amplitude_are_kept_while_tuning():
    X, y, _ = data(100)
    free = tune_lengthscales(Nystroem(Gaussian(), 50), Gaussian(), sample_of(X, y), **settings())
    noisy = tune_lengthscales(Nystroem(Gaussian(), 50), Gaussian(), sample_of(X, y), **settings(noise=1.0))
    assert noisy.kernel.lengthscale != pytest.approx(free.kernel.lengthscale, rel=0.05)


def test_a_fourier_map_is_tuned_by_its_own_draw():
    X, y, w = data(100)
    own = RandomFourier(Gaussian(), 40, random_state=3)
    evidence = evidence_of(own, Gaussian(), X, y, w, ard=False, seed=0)
    np.testing.assert_array_equal(evidence.features.projection.weights, own.fit(X).features_.projection.weights)
    structured = RandomFourier(Gaussian(), 40, directions="hadamard")
    assert isinstance(evidence_of(structured, Gaussian(), X, y, w, ard=False, seed=0), FourierEvidence)


def test_wide_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3000))
    y = rng.normal(size=(30, 1))
    kernel = Gaussian(80.0)
    narrow = evidence_of(Nystroem(kernel, 10), kernel, X, y, np.ones(30), ard=False, seed=0)
    assert narrow.rows.shape == (30, 30)
    at = np.zeros(30), np.zeros(1), np.zeros(1)
    exact = GramEvidence(Gaussian(), X / 80.0, y, np.ones(30))
    assert narrow(*at)[0] == pytest.approx(exact(np.zeros(3000), *at[1:])[0], rel=1e-9)
    with pytest.raises(
        ParameterError, match=r"lengthscale_tuning='ard' is tuned for at most 2048 features of X, got 3000"
    ):
        evidence_of(Nystroem(kernel, 10), kernel, X, y, np.ones(30), ard=True, seed=0)
