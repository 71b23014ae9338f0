"""Comparison of maps on the same kernel and the same rows."""

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from mercer import DataError, Gaussian, Laplacian, Nystroem, Polynomial, RandomFourier, compare

X = np.random.default_rng(0).normal(size=(200, 4))


def test_default_is_all_maps_that_accept_the_kernel():
    names = {m.name for m in compare(Gaussian("median"), X, n_components=32).maps}
    assert names == {"RandomFourier", "ResampledFourier", "SphericalRadial", "RandomMaclaurin", "Nystroem"}
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
    values = json.loads(json.dumps(result.to_dict()))
    assert (values["n_rows"], values["n_held_out"]) == (200, 50)


def test_errors_are_measured_on_rows_that_are_held_out_from_the_fits():
    # All rows are landmarks: the error is zero on the rows of the fit, and not on others.
    rows = np.random.default_rng(1).normal(size=(60, 6))
    maps = {"landmarks": Nystroem(n_components=45, landmarks="uniform", random_state=0)}
    for given in (rows, rows.tolist(), pd.DataFrame(rows), sp.csr_array(rows)):
        result = compare(Gaussian(1.0), given, maps=maps)  # an audit on rows of the fit would warn, which is an error
        (landmarks,) = result.maps
        assert landmarks.audit.n_rows == result.n_held_out == 15
        assert landmarks.audit.rmse > 1e-3
        assert "60 rows, errors on 15 of them that are held out from the fits" in str(result)


def test_seed_chooses_the_rows_that_are_held_out():
    maps = {"landmarks": Nystroem(n_components=40, random_state=0)}
    errors = [compare(Gaussian(1.0), X, maps=maps, random_state=seed).maps[0].audit.rmse for seed in (0, 0, 1)]
    assert errors[0] == errors[1] != errors[2]


def test_few_rows():
    maps = {"fourier": RandomFourier(n_components=4, random_state=0)}
    assert compare(Gaussian(1.0), X[:5], maps=maps).n_held_out == 2
    with pytest.raises(DataError, match=r"compare: X must have at least 5 rows, .* got 4"):
        compare(Gaussian(1.0), X[:4], maps=maps)


def test_progress_is_called_with_the_name_of_each_map():
    names = []
    compare(Laplacian(), X, n_components=8, progress=names.append)
    assert sorted(names) == ["Nystroem", "RandomFourier", "ResampledFourier"]
