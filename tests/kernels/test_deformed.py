"""The exact deformed kernel: its inverse form, its norm, and its errors."""

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import DataError, DeformedKernel, Gaussian, Matern, ParameterError, Polynomial


def rows(n=12, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def penalty(n=12, seed=1):
    A = np.random.default_rng(seed).normal(size=(n, 4))
    return A @ A.T


@pytest.mark.parametrize("kernel", [Gaussian(0.8), Matern(0.5) + 0.1, Polynomial(3)], ids=repr)
def test_penalty_is_added_to_the_inverse_kernel_matrix(kernel):
    X, M = rows(), penalty()
    deformed = DeformedKernel(kernel, X, M)
    np.testing.assert_allclose(deformed(X), np.linalg.inv(np.linalg.inv(kernel(X)) + M), atol=1e-8)


def test_reproducing_property_in_the_deformed_norm():
    # In the norm |f|^2 + f'Mf the inner product of f = K a with k~_x is f(x).
    X, M, x = rows(), penalty(), rows(1, seed=2)
    kernel = Gaussian(0.8)
    deformed = DeformedKernel(kernel, X, M)
    a = np.random.default_rng(3).normal(size=12)
    f_rows, f_x = kernel(X) @ a, (kernel(x, X) @ a).item()
    # k~_x = k_x - sum_i c_i k(., x_i) with c = (I + M K)^-1 M k_x, and <f, k_x> = f(x) in the original norm.
    c = np.linalg.solve(np.eye(12) + M @ kernel(X), M @ kernel(X, x)[:, 0])
    original = f_x - c @ f_rows
    np.testing.assert_allclose(original + f_rows @ M @ deformed(X, x)[:, 0], f_x, atol=1e-8)


def test_penalty_of_zero_leaves_the_kernel_unchanged():
    X, new = rows(), rows(5, seed=2)
    np.testing.assert_allclose(DeformedKernel(Gaussian(), X, np.zeros((12, 12)))(new), Gaussian()(new), atol=1e-12)


def test_sparse_rows_and_penalties():
    X, M = rows() * (rows(seed=5) > 0), penalty() * (penalty() > 0.5)
    M = M @ M.T
    dense = DeformedKernel(Gaussian(0.8), X, M)
    sparse = DeformedKernel(Gaussian(0.8), sp.csr_array(X), sp.csr_array(M))
    for points in (X, sp.csr_array(X)):
        np.testing.assert_allclose(sparse(points), dense(X), atol=1e-10)
        np.testing.assert_allclose(sparse.diag(points), dense.diag(X), atol=1e-10)
    assert sparse == dense
    assert hash(sparse) == hash(dense)


def test_equality_compares_kernel_rows_and_penalty():
    X, M = rows(), penalty()
    deformed = DeformedKernel(Gaussian(), X, M)
    assert deformed != DeformedKernel(Gaussian(), X, 2 * M)
    assert deformed != DeformedKernel(Gaussian(), X + 1, M)
    assert deformed != DeformedKernel(Gaussian(2.0), X, M)
    assert deformed != Gaussian()
    assert repr(deformed) == "DeformedKernel(Gaussian(lengthscale=1.0), 12 rows)"


def test_lengthscale_is_resolved_on_the_rows_of_the_graph():
    X, M = rows(), penalty()
    resolved = DeformedKernel(Gaussian("median"), X, M).resolve(100 * rows(30, seed=4))
    assert resolved.kernel == Gaussian("median").resolve(X)
    assert resolved.resolve(X) is resolved


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (("rbf", np.eye(2), np.eye(2)), ParameterError, "kernel must be a mercer kernel"),
        ((Gaussian(), np.eye(2), np.eye(3)), DataError, r"shape \(n, n\) for the 2 rows, got \(3, 3\)"),
        ((Gaussian(), np.eye(2), [[1.0, 0.5], [0.0, 1.0]]), DataError, "symmetric"),
        ((Gaussian(), np.eye(2), [[np.nan, 0.0], [0.0, 1.0]]), DataError, "finite and symmetric"),
        ((Gaussian(), [[np.inf, 0.0]], [[1.0]]), DataError, "finite"),
        ((Gaussian(), np.eye(2), -np.eye(2)), DataError, "positive semi-definite"),
    ],
)
def test_invalid_arguments_raise(arguments, error, says):
    with pytest.raises(error, match=says):
        DeformedKernel(*arguments)
