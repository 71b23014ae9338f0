"""Clusters and two-sample tests of tables."""

import numpy as np
import pandas as pd
import pytest

from mercer import DataError, ParameterError, load_model
from mercer.workflows import cluster_file, two_sample_files


def test_clusters_of_the_file_are_those_of_the_model(tmp_path):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"a": np.r_[rng.normal(size=40), 9 + rng.normal(size=60)], "s": ["u"] * 40 + ["v"] * 60})
    result = cluster_file(
        rows, tmp_path / "c.csv", n_clusters=2, n_components=64, save=tmp_path / "m.mercer", keep=["s"]
    )
    found = pd.read_csv(tmp_path / "c.csv")
    assert sorted(result.sizes) == [40, 60]
    assert found.groupby("s").cluster.nunique().tolist() == [1, 1]
    assert (load_model(tmp_path / "m.mercer").predict(rows) == found.cluster).all()


def test_two_tables_are_compared_by_their_common_columns():
    rng = np.random.default_rng(0)
    one, other = (pd.DataFrame({"a": rng.normal(size=100), name: 1.0}) for name in ("b", "c"))
    result = two_sample_files(one, other, n_permutations=99)
    assert result.columns == ("a",)
    assert result.n_rows == (100, 100)
    assert result.p_value > 0.05
    shifted = two_sample_files(one, other + 1, n_permutations=99)
    assert shifted.p_value == 0.01
    assert [column["name"] for column in shifted.differing] == ["a"]
    assert shifted.lengthscale > 0
    given = two_sample_files(one, other + 1, kernel="laplacian", n_permutations=99)
    assert given.p_value == 0.01
    assert given.lengthscale is None
    assert "Laplacian" in given.feature_map


def test_samples_that_cannot_be_compared():
    one = pd.DataFrame({"a": [1.0, 2.0], "g": ["u", "u"]})
    with pytest.raises(DataError, match="have no column in common"):
        two_sample_files(one, pd.DataFrame({"z": [1.0, 2.0]}))
    with pytest.raises(DataError, match="must have two different values, got 1: u"):
        two_sample_files(one, by="g")
    with pytest.raises(ParameterError, match="Two samples are needed"):
        two_sample_files(one)


def test_clusters_of_columns_with_heavy_tails_do_not_warn_of_scales(tmp_path):
    # Divided by their spreads, these columns still have root mean squares that differ by more than a thousand.
    rng = np.random.default_rng(1)
    rows = pd.DataFrame({"a": rng.normal(size=400), "b": rng.normal(size=400) / rng.uniform(size=400) ** 16})
    result = cluster_file(rows, tmp_path / "c.csv", n_clusters=2, n_components=32, n_init=1)
    assert sum(result.sizes) == 400
