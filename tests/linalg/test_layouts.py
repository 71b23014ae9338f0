"""Memory layouts of rows: byte order, alignment, and duplicate or unsorted entries of CSR matrices."""

import numpy as np
import pytest
import scipy.sparse as sp

from mercer.linalg import cosines
from mercer.linalg.layouts import canonical, native


def misaligned(X):
    buffer = bytearray(X.nbytes + 1)
    buffer[1:] = X.tobytes()
    return np.frombuffer(buffer, dtype=X.dtype, offset=1).reshape(X.shape)


def test_arrays_are_copied_only_if_they_are_misaligned():
    X = np.arange(6.0).reshape(2, 3)
    assert canonical(X) is X
    assert np.shares_memory(canonical(X.T), X)
    odd = misaligned(X)
    assert not odd.flags.aligned
    assert canonical(odd).flags.aligned
    np.testing.assert_array_equal(canonical(odd), X)


def test_sparse_rows_become_canonical_without_changing_the_argument():
    X = sp.csr_array(np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 0.0]]))
    assert canonical(X) is X
    doubled = sp.csr_array((np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr), shape=X.shape)
    unsorted = sp.csr_array((np.array([2.0, 1.0, 3.0]), np.array([2, 1, 0]), X.indptr), shape=X.shape)
    odd = X.copy()
    odd.data = misaligned(odd.data)
    for rows in (doubled, unsorted, odd):
        before = rows.data.copy()
        result = canonical(rows)
        assert result.has_canonical_format
        assert result.data.flags.aligned
        np.testing.assert_array_equal(result.data, X.data)
        np.testing.assert_array_equal(result.indices, X.indices)
        np.testing.assert_array_equal(rows.data, before)


def test_byte_order_is_that_of_the_machine_and_precision_is_preserved():
    X = np.arange(4.0, dtype=np.float32).reshape(2, 2)
    swapped = X.astype(X.dtype.newbyteorder())
    assert native(swapped).dtype == np.float32
    np.testing.assert_array_equal(native(swapped), X)
    assert native(X) is X
    assert native("rows") == "rows"


def test_compiled_functions_refuse_misaligned_arrays():
    X = misaligned(np.ones((2, 3)))
    with pytest.raises(ValueError, match="must be aligned in memory"):
        cosines(X, np.zeros(3), 1.0, np.empty((2, 3)))
