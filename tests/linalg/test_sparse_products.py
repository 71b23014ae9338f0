"""Products of rows of a sparse matrix with a dense matrix against exact sums, for every layout, width and slice."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from mercer.linalg import numpy_kernels, sparse_product


@st.composite
def problems(draw):
    """Draw a sparse and a dense matrix; widths around multiples of the vector length of the kernels."""
    n, m = draw(st.integers(0, 40)), draw(st.integers(1, 30))
    width = draw(st.sampled_from([0, 1, 7, 8, 16, 31, 32, 33, 63, 64, 65, 130]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    A = sp.random_array((n, m), density=draw(st.sampled_from([0.0, 0.1, 0.6, 1.0])), rng=rng, format="csr")
    return A, rng.normal(size=(m, width))


def multiply(kernels, A, X):
    out = np.full((A.shape[0], X.shape[1]), np.nan, X.dtype)
    kernels.sparse_product(A.indptr.astype(np.int32), A.indices.astype(np.int32), A.data, X, out)
    return out


@settings(deadline=None)
@given(data=st.data(), problem=problems())
def test_products_are_within_the_rounding_bound_of_exact_ones(kernels, dtype, layouts, data, problem):
    A, X = (part.astype(dtype) for part in problem)
    exact = A.toarray().astype(float) @ X.astype(float)
    bound = 32 * np.finfo(dtype).eps * (np.abs(A.toarray()).astype(float) @ np.abs(X).astype(float))
    found = multiply(kernels, A, data.draw(layouts, label="layout of X").holding(X))
    assert (np.abs(found - exact) <= bound).all()
    reference = np.empty_like(found)
    numpy_kernels.sparse_product(A.indptr.astype(np.int32), A.indices.astype(np.int32), A.data, X, reference)
    assert (np.abs(reference - exact) <= bound).all()


def test_result_of_a_column_does_not_depend_on_its_position(kernels, dtype):
    rng = np.random.default_rng(0)
    A = sp.random_array((20, 50), density=0.3, rng=rng, format="csr").astype(dtype)
    X = rng.normal(size=(50, 131)).astype(dtype)
    full = multiply(kernels, A, X)
    for start in (0, 3, 64, 100):
        np.testing.assert_array_equal(multiply(kernels, A, X[:, start:]), full[:, start:])


def test_slice_of_the_rows_of_a_matrix():
    rng = np.random.default_rng(0)
    A, X = sp.random_array((20, 50), density=0.3, rng=rng, format="csr"), rng.normal(size=(50, 40))
    out = np.empty((6, 80))[:, ::1][:, :40]
    starts, indices = A.indptr.astype(np.int32), A.indices.astype(np.int32)
    found = sparse_product(starts[5:12], indices, A.data, X, out)
    assert found is out
    np.testing.assert_allclose(found, (A @ X)[5:11], rtol=1e-12, atol=1e-14)


def read_only(*shape):
    array = np.empty(shape)
    array.setflags(write=False)
    return array


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": np.eye(3).astype(int)}, "X must be float32 or float64"),
        ({"values": np.ones(2, np.float32)}, "values must be float64"),
        ({"indices": np.array([0, 2])}, "indices must be int32"),
        ({"indices": np.array([0, 3], np.int32)}, "indices of rows of X, 0 to 2, got 0 to 3"),
        ({"indices": np.array([-1, 2], np.int32)}, "indices of rows of X, 0 to 2, got -1 to 2"),
        ({"values": np.ones(3)}, "equal lengths, got 2 and 3"),
        ({"starts": np.array([0, 2, 1], np.int32)}, "starts must not decrease"),
        ({"starts": np.array([0, 1, 3], np.int32)}, "the number of entries, 2"),
        ({"out": np.empty((3, 3))}, r"shape \(2, 3\), got \(3, 3\)"),
        ({"out": read_only(2, 3)}, "writeable"),
    ],
)
def test_invalid_arguments_raise(change, message):
    arguments = {
        "starts": np.array([0, 1, 2], np.int32),
        "indices": np.array([0, 2], np.int32),
        "values": np.ones(2),
        "X": np.eye(3),
        "out": np.empty((2, 3)),
    }
    with pytest.raises((TypeError, ValueError), match=message):
        sparse_product(**(arguments | change))


def test_shared_memory_raises():
    X = np.eye(3)
    with pytest.raises(ValueError, match="share memory"):
        sparse_product(np.array([0, 1, 2], np.int32), np.array([0, 2], np.int32), np.ones(2), X, X[:2])
