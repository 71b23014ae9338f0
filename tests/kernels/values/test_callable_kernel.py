"""Functions as kernels: values, the diagonal, and errors for functions that are no kernels."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

from mercer import CallableKernel, DataError, Gaussian, KernelRidge, Laplacian, Nystroem, ParameterError

X = np.random.default_rng(0).normal(size=(70, 3))
Y = np.random.default_rng(1).normal(size=(9, 3))


def of_rows(x, y):
    assert x.shape == y.shape == (3,)
    return np.exp(-0.5 * np.sum((x - y) ** 2))


def ones(rows):
    return np.ones(len(rows))


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (CallableKernel(laplacian_kernel), Laplacian(3.0)),  # gamma is 1 / d by default
        (CallableKernel(of_rows, takes="rows"), Gaussian()),
        (CallableKernel(of_rows, "rows", ones), Gaussian()),
    ],
)
def test_values_are_those_of_the_function(kernel, expected):
    np.testing.assert_allclose(kernel(X, Y), expected(X, Y), rtol=1e-12)
    np.testing.assert_allclose(kernel(X), expected(X), rtol=1e-12)
    np.testing.assert_allclose(kernel.diag(X), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(kernel(sp.csr_array(X), Y), kernel(X, Y))
    assert pickle.loads(pickle.dumps(kernel)) == kernel
    assert kernel(X[:0], Y).shape == (0, 9)


def test_landmark_features_are_those_of_the_same_kernel():
    a, b = (Nystroem(k, 12, random_state=0).fit(X) for k in (CallableKernel(of_rows, "rows"), Gaussian()))
    np.testing.assert_array_equal(a.features_.landmarks, b.features_.landmarks)
    np.testing.assert_allclose(a.gram(Y), b.gram(Y), atol=1e-10)
    model = KernelRidge(CallableKernel(rbf_kernel), random_state=0)
    with pytest.warns(UserWarning, match="components are zero"):
        model.fit(X, X[:, 0])
    assert model.score(X, X[:, 0]) > 0.9


@pytest.mark.parametrize(
    ("function", "options", "text"),
    [
        (lambda X, Y: 1.0, {}, r"function\(X, Y\) must have the shape \(70, 9\), got \(\). .*write takes='rows'"),
        (lambda x, y: [1.0, 2.0], {"takes": "rows"}, r"must have the shape \(70, 9\), got \(70, 9, 2\)"),
        (lambda X, Y: np.full((len(X), len(Y)), np.nan), {}, "must be finite"),
        (lambda X, Y: "text", {}, "must be numbers"),
    ],
)
def test_values_of_a_wrong_shape_or_kind_are_refused(function, options, text):
    with pytest.raises(DataError, match=text):
        CallableKernel(function, **options)(X, Y)


def test_parameters_are_checked():
    with pytest.raises(ParameterError, match="takes must be one of 'matrices', 'rows', got 'pairs'"):
        CallableKernel(of_rows, takes="pairs")
    with pytest.raises(ParameterError, match="CallableKernel: function must be a function, got 3"):
        CallableKernel(3)
    with pytest.raises(ParameterError, match=r"A function is made a kernel by mercer.CallableKernel\(of_rows\)"):
        Nystroem(of_rows).fit(X)


def test_a_function_that_is_negative_on_the_diagonal_raises():
    kernel = CallableKernel(lambda A, B: -rbf_kernel(A, B))
    with pytest.raises(DataError, match=r"k\(x, x\) must be >= 0, got -1. The function is not positive definite"):
        Nystroem(kernel, 5, random_state=0).fit(X)
