"""Maps of scikit-learn for kernels of mercer."""

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import Chi2, Gaussian, Laplacian, Matern, NoClosedFormError, Polynomial
from mercer.diagnostics.peers import Peer, peers_for

X = np.random.default_rng(0).uniform(size=(60, 3))
KERNELS = [Gaussian(0.7), Laplacian(2.0), Polynomial(3, coef0=0.5, scale=0.8), Chi2()]


def test_peers_of_each_kernel():
    names = {type(kernel).__name__: [name.split()[1] for name in peers_for(kernel, 3)] for kernel in KERNELS}
    assert names == {
        "Gaussian": ["RBFSampler", "Nystroem"],
        "Laplacian": ["Nystroem"],
        "Polynomial": ["PolynomialCountSketch", "Nystroem"],
        "Chi2": ["AdditiveChi2Sampler"],
    }
    assert peers_for(Matern(1.5), 3) == {}
    assert peers_for(2.0 * Gaussian(0.7), 3) == {}


@pytest.mark.parametrize("kernel", KERNELS[:3], ids=lambda kernel: type(kernel).__name__)
def test_landmarks_of_all_rows_have_the_same_kernel(kernel):
    transformer = peers_for(kernel, 3)["sklearn Nystroem"](60, 0).fit(X)
    np.testing.assert_allclose(Peer(transformer, kernel, 60).gram(X), kernel(X), atol=1e-6)
    assert np.abs(Peer(transformer, kernel, 60).gram(X) - kernel(1.2 * X)).max() > 1e-2


@pytest.mark.parametrize(
    ("kernel", "name"), [(KERNELS[0], "RBFSampler"), (KERNELS[2], "PolynomialCountSketch")], ids=["rbf", "polynomial"]
)
def test_means_over_draws_are_the_kernel(kernel, name):
    draws = [
        Peer.of(peers_for(kernel, 3)[f"sklearn {name}"](512, seed).fit(X), kernel, X).gram(X[:8]) for seed in range(80)
    ]
    margin = 6 * np.std(draws, axis=0, ddof=1) / np.sqrt(80) + 1e-12
    assert (np.abs(np.mean(draws, axis=0) - kernel(X[:8])) < margin).all()
    assert not (np.abs(np.mean(draws, axis=0) - kernel(1.2 * X[:8])) < margin).all()


def test_additive_chi2_has_the_steps_that_fit():
    make = peers_for(Chi2(), 3)["sklearn AdditiveChi2Sampler"]
    assert [make(width, 0).sample_steps for width in (3, 8, 9, 15, 500)] == [1, 1, 2, 3, 3]
    assert make(2, 0) == "AdditiveChi2Sampler has at least one component per feature, which are 3"
    peer = Peer.of(make(15, 0).fit(X), Chi2(), X)
    assert peer.n_components == 15
    np.testing.assert_allclose(peer.gram(X), Chi2()(X), rtol=0.05, atol=0.02)
    assert isinstance(peer.apply(sp.csr_array(X)), np.ndarray)


def test_peers_have_no_closed_form():
    with pytest.raises(NoClosedFormError, match="Nystroem has no closed form"):
        Peer.of(peers_for(KERNELS[0], 3)["sklearn Nystroem"](4, 0).fit(X), KERNELS[0], X).known_variance(X)
