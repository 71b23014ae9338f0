"""Index from coordinates of sparse rows to components."""

import numpy as np
import scipy.sparse as sp

from mercer.maps.histogram.coordinates import CoordinateIndex


def test_entries_are_all_pairs_of_nonzero_entries_and_components_of_their_coordinate():
    coordinates = np.array([2, 0, 2, 4])
    X = np.random.default_rng(0).binomial(1, 0.5, size=(6, 5)) * np.arange(1.0, 31.0).reshape(6, 5)
    found = CoordinateIndex(coordinates, 5).entries(sp.csr_array(X))
    expected = [(i, c, X[i, j]) for i in range(6) for c, j in enumerate(coordinates) if X[i, j]]
    assert sorted(zip(*found, strict=True)) == sorted(expected)


def test_rows_without_entries_have_none():
    rows, components, values = CoordinateIndex(np.array([1, 1]), 3).entries(sp.csr_array((4, 3)))
    assert len(rows) == len(components) == len(values) == 0
