"""What holds for every map: the contract, purity, dtypes, seeds, wrong rows and wrong parameters."""

import inspect
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer
from mercer import (
    DataError,
    Deformed,
    Gaussian,
    Laplacian,
    Matern,
    NoClosedFormError,
    Nystroem,
    ParameterError,
    RandomFourier,
    RandomMaclaurin,
    TensorSketch,
)
from mercer.engines import memory
from mercer.maps.base import BaseMap, for_kernel
from mercer.testing import check_map

from .instances import MAPS, name_of, rows_for

every_map = pytest.mark.parametrize("feature_map", MAPS, ids=name_of)
KINDS = [RandomFourier, Nystroem, RandomMaclaurin]


def rows(seed, n=40, d=3):
    return np.random.default_rng(seed).normal(0.2, 1.0, size=(n, d))


def fitted(feature_map, seed=0, n=40):
    return clone(feature_map).set_params(random_state=seed).fit(rows_for(feature_map, seed, n))


@every_map
def test_contract(feature_map):
    check_map(feature_map)


def test_every_public_map_is_in_the_list():
    public = {getattr(mercer.maps, name) for name in mercer.maps.__all__}
    maps = {m for m in public if isinstance(m, type) and issubclass(m, BaseMap) and not inspect.isabstract(m)}
    # A deformed map takes any of the others, and learns from all rows: test_deformed.py.
    assert maps - {Deformed} == {type(m) for m in MAPS}


@parametrize_with_checks([RandomFourier(n_components=16), Nystroem(n_components=2), TensorSketch(n_components=16)])
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


@given(feature_map=st.sampled_from(MAPS), seed=st.integers(0, 2**32), cut=st.integers(1, 39))
def test_transform_is_a_pure_function_of_single_rows(feature_map, seed, cut):
    m, X = fitted(feature_map, seed), rows_for(feature_map, seed + 1)
    before = X.copy()
    Z = m.transform(X)
    np.testing.assert_array_equal(X, before)
    np.testing.assert_array_equal(m.transform(X), Z)
    # Matrix products may sum in another order for another number of rows.
    close = {"rtol": 0, "atol": 1e-11 * np.abs(Z).max()}
    np.testing.assert_allclose(np.concatenate([m.transform(X[:cut]), m.transform(X[cut:])]), Z, **close)
    order = np.random.default_rng(seed).permutation(len(X))
    np.testing.assert_allclose(m.transform(X[order]), Z[order], **close)


@given(feature_map=st.sampled_from(MAPS), seed=st.integers(0, 2**32))
def test_equal_seeds_give_equal_features_and_copies_are_exact(feature_map, seed):
    m, X = fitted(feature_map, seed), rows_for(feature_map, seed + 1)
    Z = m.transform(X)
    np.testing.assert_array_equal(fitted(feature_map, seed).transform(X), Z)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(m)).transform(X), Z)
    np.testing.assert_array_equal(clone(m).fit(rows_for(feature_map, seed)).transform(X), Z)
    with pytest.raises(NotFittedError):
        clone(m).transform(X)
    assert not np.array_equal(fitted(feature_map, seed + 1).transform(X), Z)


@given(feature_map=st.sampled_from(MAPS), seed=st.integers(0, 2**32))
def test_sparse_and_float32_rows_give_the_same_features_to_rounding(feature_map, seed):
    m, X = fitted(feature_map, seed), rows_for(feature_map, seed + 1)
    X[X < 0] = 0.0
    Z = m.transform(X)
    for kind in (sp.csr_matrix, sp.csr_array, sp.coo_array):
        np.testing.assert_allclose(m.transform(kind(X)), Z, rtol=0, atol=1e-11 * np.abs(Z).max())
    Z32 = m.transform(X.astype(np.float32))
    assert Z32.dtype == (np.complex64 if np.iscomplexobj(Z) else np.float32)
    # An angle of size up to A is off by A times the roundoff; heavy tails (Matern 1/2) reach some hundreds here.
    np.testing.assert_allclose(Z32, Z, rtol=0, atol=1e-3 * np.abs(Z).max())


@every_map
def test_the_number_of_threads_does_not_change_a_bit(feature_map, monkeypatch):
    monkeypatch.setattr(memory, "TRANSFORM_BYTES", 1)  # many small blocks
    m, X = fitted(feature_map), rows_for(feature_map, 1, n=200)
    Z = m.set_params(n_jobs=1).transform(X)
    for jobs in (2, 3, None, -1):
        np.testing.assert_array_equal(m.set_params(n_jobs=jobs).transform(X), Z)


@every_map
def test_refitting_forgets_the_first_fit(feature_map):
    m = clone(feature_map).set_params(random_state=3).fit(rows_for(feature_map, 0))
    again = m.fit(rows_for(feature_map, 1, n=50))
    np.testing.assert_array_equal(
        again.transform(rows_for(feature_map, 2)),
        fitted_on(feature_map, rows_for(feature_map, 1, n=50)).transform(rows_for(feature_map, 2)),
    )
    kernel = Gaussian() if feature_map.accepts(Gaussian()) else feature_map.default_kernel
    wide = clone(feature_map).set_params(kernel=kernel, random_state=3).fit(rows_for(feature_map, 0))
    assert wide.fit(rows_for(feature_map, 1, d=5)).n_features_in_ == 5
    assert wide.transform(rows_for(feature_map, 1, d=5)).shape == (40, feature_map.n_components)


def fitted_on(feature_map, X):
    return clone(feature_map).set_params(random_state=3).fit(X)


@every_map
def test_features_have_names_and_a_width(feature_map):
    m = fitted(feature_map)
    names = m.get_feature_names_out()
    assert len(names) == m.transform(rows_for(feature_map, 0)).shape[1] == feature_map.n_components
    assert names[0] == f"{type(feature_map).__name__.lower()}0"


@every_map
def test_gram_is_the_product_of_features(feature_map):
    m, X, Y = fitted(feature_map), rows_for(feature_map, 1), rows_for(feature_map, 2, n=5)
    Z, W = m.transform(X), m.transform(Y)
    signs = 1.0 if m.signs_ is None else m.signs_
    np.testing.assert_allclose(m.gram(X, Y), (signs * Z @ W.conj().T).real, atol=1e-12)
    np.testing.assert_array_equal(m.gram(X), m.gram(X).T)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_components", [0, -1, 2.0, True, "10", None])
def test_wrong_widths_are_refused(kind, n_components):
    with pytest.raises(
        ParameterError, match=rf"{kind.__name__}: n_components must be an integer >= 1, got {n_components!r}"
    ):
        kind(Gaussian(), n_components).fit(rows(0))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kernel", ["rbf", Gaussian, 1.0])
def test_what_is_no_kernel_is_refused(kind, kernel):
    with pytest.raises(
        ParameterError, match=rf"{kind.__name__}: kernel must be a mercer kernel such as Gaussian\(\), got"
    ):
        kind(kernel).fit(rows(0))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("X", "text"),
    [
        (np.empty((0, 3)), r"Found array with 0 sample\(s\)"),
        (np.empty((3, 0)), r"0 feature\(s\)"),
        (np.zeros(3), "Expected 2D array"),
        (np.array([["a", "b", "c"]]), "could not convert string to float"),
        (np.array([[np.nan, 0.0, 0.0]]), "contains NaN"),
        (np.array([[np.inf, 0.0, 0.0]]), "contains infinity"),
    ],
)
def test_wrong_rows_are_refused_by_fit_and_by_transform(kind, X, text):
    m = kind(Gaussian(), 4)
    with pytest.raises(ValueError, match=text):
        m.fit(X)
    m.fit(rows(0))
    for call in (m.transform, m.gram):
        with pytest.raises(ValueError, match=text if X.shape != (3, 0) else "feature"):
            call(X)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_another_width_are_refused(kind):
    m = kind(Gaussian(), 4).fit(rows(0))
    for call in (m.transform, m.gram):
        with pytest.raises(ValueError, match=r"X has 4 features, but .* is expecting 3 features"):
            call(rows(0, d=4))


@pytest.mark.parametrize("kind", KINDS)
def test_transform_and_variance_need_a_fit(kind):
    for name in ("transform", "gram", "variance"):
        with pytest.raises(NotFittedError, match=f"This {kind.__name__} instance is not fitted yet"):
            getattr(kind(Gaussian(), 4), name)(rows(0))


def test_no_threads_are_refused():
    with pytest.raises(ParameterError, match=r"n_jobs must not be 0. Use None for all cores"):
        RandomFourier(Gaussian(), 4, n_jobs=0).fit(rows(0)).transform(rows(0))


def test_nested_parameters_replace_the_kernel():
    kernel = 2.0 * Matern(0.5)
    m = RandomFourier(kernel, 8).set_params(kernel__kernel__nu=2.5, n_components=9)
    assert m.kernel == 2.0 * Matern(2.5)
    assert kernel == 2.0 * Matern(0.5)
    assert m.get_params()["kernel__weight"] == 2.0
    m.set_params(kernel=Laplacian(), kernel__lengthscale=3.0)
    assert m.kernel == Laplacian(3.0)
    with pytest.raises(ParameterError, match="Laplacian has no parameter 'nu'"):
        m.set_params(kernel__nu=1.0)
    assert for_kernel(m, Gaussian()).kernel == Gaussian()
    assert m.kernel == Laplacian(3.0)


def test_a_map_without_a_closed_form_names_the_audit():
    with pytest.raises(NoClosedFormError, match=r"Nystroem has no closed form for its variance. Try mercer.audit"):
        Nystroem(Gaussian(), 4).fit(rows(0)).variance(rows(0))


def test_files_are_for_learners():
    frame = pd.DataFrame(rows(0), columns=list("abc"))
    source = mercer.open_rows(frame)
    with pytest.raises(DataError, match=r"RandomFourier: fit takes rows in memory, got RowSource\. Try to pass"):
        RandomFourier().fit(source)
    feature_map = RandomFourier(random_state=0).fit(rows(0))
    with pytest.raises(DataError, match=r"transform takes rows in memory.* block by block: for X, \*_ in rows"):
        feature_map.transform(source)
    parts = [feature_map.transform(X) for X, *_ in source]
    assert np.allclose(np.concatenate(parts), feature_map.transform(rows(0)))
