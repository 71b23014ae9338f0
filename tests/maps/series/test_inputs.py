"""Affine preprocessing: input maps, prefactors and projections of dense and sparse rows."""

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import Gaussian, Polynomial, Transformed
from mercer.kernels.power_series import SeriesPart, exponential_series
from mercer.maps.series import inputs
from mercer.maps.series.inputs import Preparation


def rows(n=7, d=4, seed=0):
    X = np.random.default_rng(seed).normal(0.5, 1.0, size=(n, d))
    X[X < -0.3] = 0.0
    return X


KERNELS = [
    Polynomial(2),
    Transformed(Polynomial(2), columns=(2, 0)),
    Transformed(Polynomial(2), center=(0.5, 0.0, -1.0, 2.0)),
    Transformed(Polynomial(2), lengthscales=(0.5, 1.0, 2.0, 4.0)),
    Transformed(Polynomial(2), columns=(3, 1, 0), center=(0.1, 0.2, 0.3), lengthscales=(2.0, 3.0, 4.0)),
    Transformed(
        Transformed(Polynomial(2), columns=(1, 0), center=(1.0, 2.0), lengthscales=(0.5, 0.25)),
        columns=(3, 1, 0),
        center=(0.1, 0.2, 0.3),
        lengthscales=(2.0, 3.0, 4.0),
    ),
    Transformed(Gaussian(2.0) * Polynomial(2), columns=(3, 0), center=(0.1, 0.2)),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array, sp.csr_matrix], ids=["dense", "array", "matrix"])
def test_prepared_rows_equal_the_composition_of_the_input_maps(kernel, wrap):
    X = rows()
    [part] = kernel.series_parts()
    expected = X
    for affine in part.inputs:
        expected = affine(expected)
    prepare = Preparation.of(part, wrap(X), np.ones(len(X)))
    out = prepare(wrap(X))
    assert prepare.width(4) == expected.shape[1] == out.shape[1]
    np.testing.assert_allclose(out.dense, expected, atol=1e-14)
    np.testing.assert_allclose(out.squared_norms, (expected**2).sum(axis=1), atol=1e-13)
    if part.decay:
        np.testing.assert_allclose(out.prefactor, np.exp(-part.decay * (expected**2).sum(axis=1) / 2), rtol=1e-12)
        np.testing.assert_allclose(out.with_prefactor, out.prefactor[:, None] * expected, rtol=1e-12)
    else:
        assert out.prefactor is None


@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_gaussian_kernel_is_centered_at_the_weighted_mean_of_its_inputs(wrap):
    X, weight = rows(), np.array([1.0, 2.0, 0.5, 1.0, 3.0, 1.0, 1.0])
    kernel = Transformed(Gaussian(), columns=(2, 0), center=(5.0, 5.0), lengthscales=(0.5, 2.0))
    [part] = kernel.series_parts()
    out = Preparation.of(part, wrap(X), weight)(wrap(X))
    np.testing.assert_allclose(weight @ out.dense, 0.0, atol=1e-13)
    np.testing.assert_allclose(out.dense[0] - out.dense[1], (X[0] - X[1])[[2, 0]] / [0.5, 2.0], atol=1e-13)
    equal = Preparation.of(part, wrap(X), np.ones(7))
    np.testing.assert_allclose(Preparation.of(part, wrap(X), None).shift, equal.shift, atol=1e-15)


def test_identity_steps_are_skipped():
    [part] = Transformed(
        Polynomial(2), columns=(0, 1, 2, 3), center=np.zeros(4), lengthscales=np.ones(4)
    ).series_parts()
    prepare = Preparation.of(part, rows(), np.ones(7))
    assert (prepare.columns, prepare.scale, prepare.shift) == (None, None, None)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("decay", [0.0, 0.7])
@pytest.mark.parametrize("narrow", [False, True])
def test_project_writes_with_prefactor_and_multiplies_without(sparse, decay, narrow, monkeypatch):
    monkeypatch.setattr(inputs, "FUSED_UP_TO", 128 if narrow else 0)
    X, shift = rows(), np.array([0.1, -0.2, 0.3, 0.0])
    W, V = (np.random.default_rng(i).normal(size=(4, 5)) for i in (1, 2))
    out = np.full((7, 5), np.nan)
    prepared = Preparation(None, None, shift, decay)(sp.csr_array(X) if sparse else X)
    prepared.project(W, out, first=True)
    Z = X - shift
    first = np.exp(-decay * (Z**2).sum(axis=1) / 2)[:, None] * (Z @ W)
    np.testing.assert_allclose(out, first, atol=1e-13)
    prepared.project(V, out, first=False)  # without the prefactor, which the first projection includes
    np.testing.assert_allclose(out, first * (Z @ V), atol=1e-13)


def test_pairs_of_shifted_sparse_rows_equal_those_of_dense_rows():
    X, shift = rows(), np.array([0.1, -0.2, 0.3, 0.0])
    dense, sparse = (Preparation(None, None, shift, 0.7)(Z) for Z in (X, sp.csr_array(X)))
    dense, sparse = dense.pairs(dense), sparse.pairs(sparse)
    for name in ("log_left", "log_right", "log_prefactors"):
        np.testing.assert_allclose(getattr(sparse, name), getattr(dense, name), atol=1e-13)
    for name in ("inner", "left", "right", "overlap"):
        np.testing.assert_allclose(getattr(sparse.directions, name), getattr(dense.directions, name), atol=1e-13)


def test_float32_rows_stay_float32():
    part = SeriesPart(exponential_series(1.0), decay=1.0, shift_invariant=True)
    X = rows().astype(np.float32)
    for wrap in (np.asarray, sp.csr_array):
        prepared = Preparation.of(part, wrap(X), np.ones(7)).astype(np.float32)(wrap(X))
        assert prepared.dtype == prepared.dense.dtype == prepared.with_prefactor.dtype == np.float32
