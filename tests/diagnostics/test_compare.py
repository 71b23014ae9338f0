"""Comparison of maps on the same kernel and the same rows."""

import json

import numpy as np

from mercer import Gaussian, Laplacian, Polynomial, RandomFourier, compare

X = np.random.default_rng(0).normal(size=(200, 4))


def test_default_is_all_maps_that_accept_the_kernel():
    names = {m.name for m in compare(Gaussian("median"), X, n_components=32).maps}
    assert names == {"RandomFourier", "SphericalRadial", "RandomMaclaurin", "Nystroem"}
    names = {m.name for m in compare(Polynomial(), X, n_components=32).maps}
    assert names == {"RandomMaclaurin", "PolynomialSketch", "TensorSketch", "Nystroem"}


def test_maps_are_ordered_by_error_and_share_the_kernel():
    maps = {
        "iid": RandomFourier(n_components=256, directions="iid", random_state=0),
        "one component": RandomFourier(Gaussian(77.0), n_components=1, random_state=0),
    }
    result = compare(Gaussian("median"), X, maps=maps)
    assert [m.name for m in result.maps] == ["iid", "one component"]
    assert len({m.audit.kernel for m in result.maps}) == 1
    assert maps["one component"].kernel == Gaussian(77.0)  # the map of the caller is not modified
    assert all(m.fit_seconds > 0 and m.transform_seconds > 0 for m in result.maps)
    assert json.loads(json.dumps(result.to_dict()))["n_rows"] == 200


def test_progress_is_called_with_the_name_of_each_map():
    names = []
    compare(Laplacian(), X, n_components=8, progress=names.append)
    assert sorted(names) == ["Nystroem", "RandomFourier"]
