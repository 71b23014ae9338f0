"""Maps for tables in files."""

import numpy as np
import pandas as pd
import pytest

from mercer import Gaussian, Matern, ParameterError
from mercer.workflows import KERNELS, audit_file, choose_file, compare_file, transform_file
from mercer.workflows.kernels import kernel_named


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return pd.DataFrame({"a": rng.normal(size=240), "b": rng.exponential(size=240), "c": rng.choice(["u", "v"], 240)})


def test_kernels_by_name():
    assert kernel_named(None) == Gaussian("median")
    assert kernel_named("Matern52", 2.0) == Matern(2.5, 2.0)
    for name in KERNELS:
        assert kernel_named(name) is not None
    with pytest.raises(ParameterError, match="kernel must be one of gaussian"):
        kernel_named("rbf")


def test_components_approximate_the_kernel(rows, tmp_path):
    result = transform_file(rows, tmp_path / "z.npy", kernel="gaussian", lengthscale=2.0, n_components=200)
    Z = np.load(tmp_path / "z.npy")
    assert (result.n_rows, Z.shape) == (240, (240, 200))
    from mercer import TablePreprocessor

    X = TablePreprocessor().fit(rows).transform(rows)
    assert np.abs(Z @ Z.T - Gaussian(2.0)(X, X)).max() < 0.1


def test_errors_and_choices_have_figures_and_text(rows):
    found = audit_file(rows, n_components=64)
    assert found.n_rows == 120
    assert "RMSE" in found.text
    compared = compare_file(rows, widths=(8,), kernel="laplacian")
    assert all(one["n_components"] == 8 for one in compared.details["maps"])
    chosen = choose_file(rows, tol=0.05)
    assert chosen.details["met"]


def test_a_map_file_has_its_kernel(rows, tmp_path):
    with pytest.raises(ParameterError, match="has its kernel already"):
        transform_file(rows, tmp_path / "z.npy", model="map.mercer", kernel="gaussian")
    with pytest.raises(ParameterError, match="has its kernel already"):
        audit_file(rows, model="map.mercer", lengthscale=1.0)


def test_the_map_of_a_model_file_is_audited(rows, tmp_path):
    from mercer.workflows import fit_file

    table = rows[:120].assign(y=np.sin(rows.a[:120]))
    options = {"estimator": "ridge", "parameters": {"kernel": "matern32", "n_components": 32}, "compare": False}
    fit_file(table, "y", output=tmp_path / "m.mercer", **options)
    found = audit_file(rows[120:], model=tmp_path / "m.mercer")
    assert found.details["n_components"] == 32
