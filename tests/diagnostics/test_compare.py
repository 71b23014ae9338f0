"""Maps side by side face the same kernel and the same rows."""

import json

import numpy as np

from mercer import Gaussian, Laplacian, Polynomial, RandomFourier, compare

X = np.random.default_rng(0).normal(size=(200, 4))


def test_all_maps_that_accept_the_kernel_by_default():
    names = {m.name for m in compare(Gaussian("median"), X, n_components=32).maps}
    assert names == {"RandomFourier", "SphericalRadial", "RandomMaclaurin", "Nystroem"}
    names = {m.name for m in compare(Polynomial(), X, n_components=32).maps}
    assert names == {"RandomMaclaurin", "PolynomialSketch", "TensorSketch", "Nystroem"}


def test_best_map_first_and_one_kernel_for_all():
    maps = {
        "iid": RandomFourier(n_components=256, directions="iid", random_state=0),
        "one column": RandomFourier(Gaussian(77.0), n_components=1, random_state=0),
    }
    result = compare(Gaussian("median"), X, maps=maps)
    assert [m.name for m in result.maps] == ["iid", "one column"]
    assert len({m.audit.kernel for m in result.maps}) == 1
    assert maps["one column"].kernel == Gaussian(77.0)  # the caller's map was not touched
    assert all(m.fit_seconds > 0 and m.transform_seconds > 0 for m in result.maps)
    assert json.loads(json.dumps(result.to_dict()))["n_rows"] == 200


def test_progress_names_each_map():
    named = []
    compare(Laplacian(), X, n_components=8, progress=named.append)
    assert sorted(named) == ["Nystroem", "RandomFourier"]
