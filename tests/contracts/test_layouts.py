"""Every map, kernel and learner gives the same results for the same rows in every memory layout."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from mercer import (
    Gaussian,
    KernelPCA,
    KernelRidge,
    KernelRidgeClassifier,
    RandomFourier,
    RandomMaclaurin,
    RandomNeurons,
    SphericalRadial,
)

from ..instances import KERNELS, MAPS, rows_for

pytestmark = pytest.mark.filterwarnings("ignore::mercer.MercerWarning")


def misaligned(X):
    buffer = bytearray(X.nbytes + 1)
    buffer[1:] = X.tobytes()
    return np.frombuffer(buffer, dtype=X.dtype, offset=1).reshape(X.shape)


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def every_third_column(X):
    wide = np.full((X.shape[0], 3 * X.shape[1]), 7, X.dtype)
    wide[:, ::3] = X
    return wide[:, ::3]


def field_of_records(X):
    records = np.zeros(len(X), dtype=[("mark", "i1"), ("row", X.dtype, X.shape[1])])
    records["row"] = X
    return records["row"]


def with_duplicates(X):
    rows = sp.csr_array(X)
    return sp.csr_array((np.repeat(rows.data / 2, 2), np.repeat(rows.indices, 2), 2 * rows.indptr), shape=X.shape)


def unsorted(X):
    rows = sp.csr_array(X)
    data, indices = rows.data.copy(), rows.indices.copy()
    for start, stop in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
        data[start:stop], indices[start:stop] = data[start:stop][::-1].copy(), indices[start:stop][::-1].copy()
    return sp.csr_array((data, indices, rows.indptr), shape=X.shape)


def misaligned_csr(X):
    rows = sp.csr_array(X)
    rows.data = misaligned(rows.data)
    return rows


def coo_with_duplicates(X):
    rows = sp.coo_array(X)
    i, j = (np.tile(index, 2) for index in rows.coords)
    return sp.coo_array((np.tile(rows.data / 2, 2), (i, j)), shape=X.shape)


DENSE = {
    "Fortran": np.asfortranarray,
    "data frame": pd.DataFrame,
    "strided columns": every_third_column,
    "strided rows": lambda X: np.repeat(X, 2, axis=0)[::2],
    "negative strides": lambda X: np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1],
    "read-only": read_only,
    "big-endian": lambda X: X.astype(X.dtype.newbyteorder(">")),
    "misaligned": misaligned,
    "misaligned Fortran": lambda X: misaligned(np.ascontiguousarray(X.T)).T,
    "field of records": field_of_records,
}
SPARSE = {
    "CSR": sp.csr_array,
    "CSR matrix": sp.csr_matrix,
    "CSC": sp.csc_array,
    "coordinates": sp.coo_array,
    "coordinates with duplicates": coo_with_duplicates,
    "CSR with duplicates": with_duplicates,
    "unsorted CSR": unsorted,
    "misaligned CSR": misaligned_csr,
}
LAYOUTS = {**DENSE, **SPARSE}


def rows_of(feature_map, n=24, d=3):
    X = rows_for(feature_map._kernel(), 0, n, d)
    return np.where(np.abs(X) < 0.3, 0.0, X)


def fitted_on(feature_map, X):
    y = np.sin(np.arange(X.shape[0])) if feature_map.uses_targets else None
    return clone(feature_map).set_params(random_state=0).fit(X, y)


def same(got, expected, dtype):
    tolerance = (1e-9 if dtype == np.float64 else 2e-3) * max(1.0, float(np.abs(expected).max()))
    return got.dtype == expected.dtype and np.allclose(got, expected, rtol=0, atol=tolerance)


# Every third map, and at least one of each class; the others are in the slow tier.
FEW = {*range(0, len(MAPS), 3), *({type(m): i for i, m in enumerate(MAPS)}.values())}
SOME = [m if i in FEW else pytest.param(m, marks=pytest.mark.slow) for i, m in enumerate(MAPS)]


def named(value):
    return repr(value).replace("\n", " ").replace(" ", "")


@pytest.mark.parametrize("feature_map", SOME, ids=named)
def test_features_do_not_depend_on_the_memory_layout(feature_map):
    X = rows_of(feature_map)
    m = fitted_on(feature_map, X)
    for dtype in (np.float64, np.float32):
        Z = m.transform(X.astype(dtype))
        wrong = [name for name, layout in LAYOUTS.items() if not same(m.transform(layout(X.astype(dtype))), Z, dtype)]
        assert not wrong
        assert same(m.transform(X[:1].astype(dtype)), Z[:1], dtype)
    with pytest.raises(ValueError, match="0 sample"):
        m.transform(X[:0])


@pytest.mark.parametrize("feature_map", SOME, ids=named)
def test_maps_fitted_on_any_memory_layout_are_equal(feature_map):
    # Dense and sparse rows, too, draw the same map with the same seed.
    X = rows_of(feature_map)
    Z = fitted_on(feature_map, X).transform(X)
    for name in ("Fortran", "data frame", "misaligned", "CSR", "CSR with duplicates", "coordinates with duplicates"):
        rows = LAYOUTS[name](X)
        if sp.issparse(rows) and feature_map.scales_columns:
            continue  # sparse rows are not centered, so Fourier features have other phases
        if feature_map.scales_columns and feature_map.built_from_rows:
            continue  # landmarks are chosen by the content of rows in the metric, which is rounded
        assert same(fitted_on(feature_map, rows).transform(rows), Z, np.float64), name


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.int64, np.uint16, bool])
def test_other_dtypes_give_the_features_of_float64(dtype):
    integers = np.random.default_rng(0).integers(0, 3, size=(24, 3)).astype(dtype)
    for feature_map in MAPS[::7]:
        m = fitted_on(feature_map, integers.astype(np.float64))
        np.testing.assert_array_equal(m.transform(integers), m.transform(integers.astype(np.float64)))


def test_memory_mapped_rows(tmp_path):
    for feature_map in MAPS[::7]:
        X = rows_of(feature_map)
        np.save(tmp_path / "rows.npy", X)
        mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
        np.testing.assert_array_equal(
            fitted_on(feature_map, mapped).transform(mapped), fitted_on(feature_map, X).transform(X)
        )


@pytest.mark.parametrize(
    "feature_map",
    [
        RandomFourier(Gaussian("median"), 32),
        SphericalRadial(Gaussian("median"), 32),
        RandomNeurons(n_components=32),
        RandomMaclaurin(Gaussian("median"), 64),
    ],
    ids=named,
)
def test_wide_dense_and_sparse_rows_draw_the_same_map(feature_map):
    # Automatic choices, such as that of structured directions, depend on the width of rows only.
    for d in (40, 200):
        X = rows_of(feature_map, 60, d)
        dense, sparse = fitted_on(feature_map, X), fitted_on(feature_map, sp.csr_array(X))
        np.testing.assert_allclose(dense.transform(X), sparse.transform(X), rtol=0, atol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS, ids=named)
def test_kernel_values_do_not_depend_on_the_memory_layout(kernel):
    X = rows_for(kernel, 0, 12)
    X = np.where(np.abs(X) < 0.3, 0.0, X)
    for dtype in (np.float64, np.float32):
        K = kernel(X.astype(dtype))
        for name, layout in LAYOUTS.items():
            if name != "data frame":  # kernels take arrays
                assert same(kernel(layout(X.astype(dtype))), K, dtype), name


def test_learners_do_not_depend_on_the_memory_layout():
    X = rows_for(Gaussian(), 0, 40)
    X = np.where(np.abs(X) < 0.3, 0.0, X)
    y = np.sin(X[:, 0])
    models = [
        (KernelRidge(RandomFourier(Gaussian("median"), 32, random_state=0)), y, "predict"),
        (KernelRidgeClassifier(RandomFourier(Gaussian(), 32, random_state=0)), y > 0, "decision_function"),
        (KernelPCA(RandomFourier(Gaussian(), 32, random_state=0), 3), None, "transform"),
    ]
    for model, targets, method in models:
        for name, layout in LAYOUTS.items():
            expected = getattr(clone(model).fit(X, targets), method)(X)
            got = getattr(clone(model).fit(layout(X), targets), method)(layout(X))
            np.testing.assert_allclose(got, expected, rtol=0, atol=1e-7, err_msg=name)
