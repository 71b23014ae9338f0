"""Graphs of kernels compute their values and diagonals."""

from dataclasses import dataclass

import numpy as np
import pytest

from mercer import CallableKernel, DotProduct, ExportError, Gaussian, Laplacian, Matern, Precomputed
from mercer.export import graph as g
from mercer.export.kernels import diagonal, kernel_values
from mercer.export.program import Program
from mercer.kernels import IsotropicKernel, SeparableKernel

from ..instances import KERNELS, rows_for

EXPRESSIBLE = [kernel for kernel in KERNELS if not isinstance(kernel, CallableKernel)]


def computed(make, rows):
    """Return what a function of symbolic rows computes for rows."""
    X = g.rows(rows.shape[1])
    return Program("test", X, {"variable": make(X)}, None, (), False, False, True)(rows)["variable"]


@pytest.mark.parametrize("kernel", EXPRESSIBLE, ids=repr)
def test_values_and_diagonals(kernel):
    rows = rows_for(kernel, 0) if not isinstance(kernel, Precomputed) else kernel.matrix
    landmarks = rows[:7]
    values = computed(lambda X: kernel_values(kernel, X, g.constant(landmarks)), rows)
    truth = kernel(rows, landmarks)
    assert values == pytest.approx(truth, abs=1e-12 * max(1, np.abs(truth).max()))
    if not isinstance(kernel, Precomputed):
        truth = kernel.diag(rows)
        found = computed(lambda X: diagonal(kernel, X), rows)
        assert found == pytest.approx(truth, abs=1e-12 * max(1, np.abs(truth).max()))


@pytest.mark.parametrize("kernel", [k for k in EXPRESSIBLE if not isinstance(k, Precomputed)], ids=repr)
def test_values_of_near_rows_of_each_row(kernel):
    rows = rows_for(kernel, 1, n=12)
    near = np.random.default_rng(0).integers(0, 12, size=(12, 4))
    table = g.constant(near)

    def make(X):
        N = g.take_rows(g.constant(rows), g.repeat_rows(table, X))
        return g.reshape(N, 12 * 4 * 3)

    # Near rows are values with an axis of their own: the matrices of their kernel values are computed at once.
    assert computed(make, rows[:1]).shape == (1, 144)
    values = computed(lambda X: kernel_values(kernel, g.reshape(X, 1, 3), g.constant(rows[:5])), rows)
    assert values[:, 0] == pytest.approx(kernel(rows, rows[:5]), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("nu", [0.1, 0.5, 0.7, 1.0, 1.5, 2.0, 2.5, 3.5, 4.5, 7.3, 19.9, 20.0, 150.0, np.inf])
def test_matern_kernels_of_any_smoothness_at_any_distance(nu):
    kernel = Matern(nu, 0.8)
    rows = np.concatenate([[0.0], np.geomspace(1e-30, 1e4, 400)])[:, None]
    values = computed(lambda X: kernel_values(kernel, X, g.constant(np.zeros((1, 1)))), rows)
    assert values == pytest.approx(kernel(rows, np.zeros((1, 1))), abs=1e-12)


@dataclass(frozen=True)
class Mixture(IsotropicKernel):
    lengthscale: float = 1.0

    def profile(self, r):
        square = np.maximum(np.square(r), 1e-300)
        return -np.expm1(-square) / square

    def mixing(self, u):
        return 2 * u


def test_isotropic_kernel_of_a_user_is_tabulated():
    rows = np.random.default_rng(0).normal(size=(30, 3))
    values = computed(lambda X: kernel_values(Mixture(0.7), X, g.constant(rows[:5])), rows)
    assert values == pytest.approx(Mixture(0.7)(rows, rows[:5]), abs=1e-12)


def test_profile_that_polynomials_do_not_represent_is_refused():
    @dataclass(frozen=True)
    class Rough(Mixture):
        def profile(self, r):
            return 1 / (1 + np.floor(np.minimum(r, 1e9)))

    with pytest.raises(ExportError, match="polynomials represent it with an error"):
        kernel_values(Rough(), g.rows(2), g.constant(np.zeros((1, 2))))


@dataclass(frozen=True)
class Triangle(SeparableKernel):
    lengthscale: float = 1.0

    def profile(self, t):
        return np.maximum(1 - t, 0)

    def spectral_quantile(self, uniforms):
        return uniforms - 0.5


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        (CallableKernel(lambda X, Y: X @ Y.T), "it is a Python function"),
        (DotProduct(lambda n: 1 / (n + 1), radius=1.0), "Python code or an infinite series"),
        (DotProduct.from_function(np.sinh), "Python code or an infinite series"),
        (Triangle(), r"Triangle has no formula.*kernel_values.register\(Triangle\)"),
        (Gaussian() * Triangle(), "Triangle has no formula"),
    ],
)
def test_kernels_without_a_formula_say_why(kernel, why):
    with pytest.raises(ExportError, match=why):
        kernel_values(kernel, g.rows(2), g.constant(np.zeros((1, 2))))


def test_small_distances_far_from_the_origin_keep_their_digits():
    rows = 1e6 + np.random.default_rng(0).normal(size=(20, 3)) * 1e-3
    for kernel in (Matern(0.5, 1e-3), Laplacian(1e-3)):
        values = computed(lambda X, kernel=kernel: kernel_values(kernel, X, g.constant(rows[:4])), rows)
        assert values == pytest.approx(kernel(rows, rows[:4]), abs=1e-12)
