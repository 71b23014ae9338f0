"""Fingerprints of arrays and files."""

import os

import numpy as np
import pytest
import scipy.sparse as sp

from mercer.io import digests
from mercer.io.digests import digest_of, file_fingerprint

ROWS = np.random.default_rng(0).normal(size=(1000, 7))


def changed(array, position, value):
    other = array.copy()
    other[position] = value
    return other


@pytest.mark.parametrize("position", [(0, 0), (517, 3), (999, 6)])
def test_digest_depends_on_every_entry(position, monkeypatch):
    monkeypatch.setattr(digests, "SLAB_BYTES", 1000)
    other = changed(ROWS, position, np.nextafter(ROWS[position], 9))
    assert digest_of([other]) != digest_of([ROWS])
    assert digest_of([other[:, ::-1]]) != digest_of([ROWS[:, ::-1]])
    assert digest_of([np.asfortranarray(other)]) != digest_of([ROWS])
    assert digest_of([np.asfortranarray(ROWS)]) == digest_of([ROWS]) == digest_of([ROWS.tolist()])
    assert digest_of([sp.csr_array(other)]) != digest_of([sp.csr_array(ROWS)])


def test_digest_depends_on_shapes_dtypes_and_order():
    several = [
        [ROWS],
        [ROWS.astype(np.float32)],
        [ROWS.reshape(7, 1000)],
        [ROWS, None],
        [None, ROWS],
        [sp.csr_array(ROWS)],
        [ROWS, ROWS[:0]],
        [],
        [np.array(["a", None, 2.0], dtype=object)],
        [np.array(["a", None, 3.0], dtype=object)],
        [np.array(["ab", "c"])],
        [np.array(["a", "bc"])],
        [np.zeros((0, 3))],
        [np.zeros((0, 4))],
    ]
    assert len({digest_of(values) for values in several}) == len(several)


def test_digest_of_sparse_arrays_does_not_depend_on_the_format():
    dense = np.where(ROWS > 1, ROWS, 0)
    mixed = sp.csr_array(dense)
    wanted = digest_of([mixed])
    for kind in (sp.csc_array, sp.coo_array, sp.csr_matrix):
        assert digest_of([kind(dense)]) == wanted
    unsorted = sp.csr_array(([2.0, 1.0], np.array([1, 0], np.int32), np.array([0, 2], np.int32)), shape=(1, 2))
    before = unsorted.indices.copy()
    assert digest_of([unsorted]) == digest_of([sp.csr_array([[1.0, 2.0]])])
    assert np.array_equal(unsorted.indices, before)  # the argument is not modified
    wider = sp.csr_array((mixed.data, mixed.indices, mixed.indptr), shape=(1000, 8))
    assert digest_of([wider]) != wanted


def test_file_fingerprint_has_name_size_time_and_end(tmp_path):
    path = tmp_path / "rows.npy"
    np.save(path, ROWS)
    first = file_fingerprint(path)
    assert first.startswith(f"rows.npy of {path.stat().st_size} bytes, changed 2")
    moved = tmp_path / "elsewhere" / "rows.npy"
    moved.parent.mkdir()
    path.rename(moved)
    assert file_fingerprint(moved) == first
    time = moved.stat().st_mtime_ns
    os.utime(moved, ns=(time, time + 1000))
    assert file_fingerprint(moved) != first
    os.utime(moved, ns=(time, time))
    assert file_fingerprint(moved) == first
    np.save(moved, changed(ROWS, (999, 6), 0.0))
    os.utime(moved, ns=(time, time))
    assert file_fingerprint(moved) != first  # the end differs
    np.save(moved, np.concatenate([ROWS, ROWS]))
    os.utime(moved, ns=(time, time))
    assert file_fingerprint(moved) != first
    assert file_fingerprint(moved.rename(tmp_path / "other.npy")).startswith("other.npy of 112128 bytes")
