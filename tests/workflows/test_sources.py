"""Reading tables, finding the task, and dividing rows."""

import numpy as np
import pandas as pd
import pytest

from mercer import DataError, ParameterError
from mercer.io import open_table
from mercer.workflows.sources import check_column, opened, read_sample, rows_without, split_rows, task_of


def rows(n):
    return pd.DataFrame({"a": np.arange(n, dtype=float), "b": ["x", "y"] * (n // 2), "t": np.arange(n) * 0.5})


def test_a_table_that_fits_is_read_completely():
    sample = read_sample(open_table(rows(100), target="t"), most_bytes=1e9, seed=0)
    assert sample.is_complete
    assert sample.table["a"].to_pylist() == list(range(100))
    assert sample.y.tolist() == [0.5 * i for i in range(100)]


def test_a_table_that_does_not_fit_is_sampled_uniformly(tmp_path):
    n = 40_000
    rows(n).to_csv(tmp_path / "t.csv", index=False)
    source = open_table(tmp_path / "t.csv", target="t")
    sample = read_sample(source, most_bytes=100_000, seed=1)
    assert not sample.is_complete
    assert sample.n_rows == n
    assert sample.table.nbytes <= 100_000
    m = len(sample.index)
    assert m > 1000
    assert (np.diff(sample.index) > 0).all()
    assert (sample.table["a"].to_numpy() == sample.index).all()
    # The mean index of m of n rows that are drawn at random.
    assert abs(sample.index.mean() - n / 2) < 5 * n / np.sqrt(12 * m)
    again = read_sample(source, most_bytes=100_000, seed=1)
    assert (again.index == sample.index).all()


def test_rows_without_a_target_are_left_out_everywhere():
    frame = rows(50)
    frame.loc[[3, 20], "t"] = np.nan
    source = open_table(frame, target="t")
    sample = read_sample(source, most_bytes=1e9, seed=0)
    assert (sample.n_rows, sample.n_missing) == (48, 2)
    rest = rows_without(source, sample, np.array([0, 49]))
    found = np.concatenate([block[0]["a"].to_numpy() for block in rest])
    assert found.tolist() == [i for i in range(1, 49) if i not in (3, 20)]


def test_rows_without_test_rows_over_several_parts(tmp_path):
    for name, start in (("a", 0), ("b", 30)):
        rows(60)[start : start + 30].to_parquet(tmp_path / f"{name}.parquet")
    source = open_table(str(tmp_path / "*.parquet"), target="t")
    sample = read_sample(source, most_bytes=1e9, seed=0)
    assert sample.rows_of_parts == (30, 30)
    rest = rows_without(source, sample, np.array([5, 29, 30, 59]))
    found = np.concatenate([block[0]["a"].to_numpy() for block in rest])
    assert found.tolist() == [i for i in range(60) if i not in (5, 29, 30, 59)]


@pytest.mark.parametrize(
    ("y", "task", "words"),
    [
        (np.array(["a", "b"]), "classification", "has strings"),
        (np.array([True, False]), "classification", "has booleans"),
        (np.array([1, 2, 1]), "classification", "2 different integers"),
        (np.array([1.0, 2.0]), "classification", "2 different integers"),
        (np.arange(30), "regression", "30 different integers, more than 20"),
        (np.array([1.5, 2.0]), "regression", "has numbers"),
    ],
)
def test_task_by_the_target(y, task, words):
    found, _, why = task_of(y, None, "t")
    assert found == task
    assert words in why


def test_a_task_can_be_requested():
    assert task_of(np.array([1, 2, 1]), "regression", "t")[0] == "regression"
    found, y, why = task_of(np.arange(40) % 30, "classification", "t")
    assert (found, why) == ("classification", "classification, as requested")
    assert y.dtype == np.int64


@pytest.mark.parametrize(
    ("y", "task", "message"),
    [
        (np.array(["a", "a"]), None, "only one label"),
        (np.array([1.5, 1.5]), None, "only one value, 1.5"),
        (np.array([1.5, np.inf]), None, "infinite values"),
        (np.array([1e300, -1e300]), None, "squares cannot be computed"),
        (np.array([1e-320, 2e-320]), None, "squares cannot be computed"),
        (np.array(["a", "1"]), "regression", "needs numbers, but the column 't' has strings, such as 'a'"),
        (np.array([f"id{i}" for i in range(40)]), None, "40 different labels in 40 rows"),
    ],
)
def test_targets_that_cannot_be_learned(y, task, message):
    with pytest.raises(DataError, match=message):
        task_of(y, task, "t")


def test_a_split_has_equal_shares_of_labels():
    y = np.repeat(["a", "b", "c", "d"], [1000, 500, 10, 1])
    train, test, sentence = split_rows(y, "classification", None, 0)
    assert np.array_equal(np.sort(np.r_[train, test]), np.arange(len(y)))
    held = {label: (y[test] == label).sum() for label in "abcd"}
    assert held["a"] == 200
    assert held["b"] == 100
    assert held["c"] == 2
    assert held["d"] == 0
    assert "same share of each label" in sentence
    assert (split_rows(y, "classification", None, 0)[1] == test).all()
    assert (split_rows(y, "classification", None, 1)[1] != test).any()


def test_sizes_of_a_split():
    y = np.arange(1000) / 7
    assert len(split_rows(y, "regression", None, 0)[1]) == 200
    assert len(split_rows(y, "regression", None, 0, most=50)[1]) == 50
    assert len(split_rows(y, "regression", 0.1, 0)[1]) == 100
    assert len(split_rows(y, "regression", 7, 0)[1]) == 7
    for wrong in (0, 999, 0.0001):
        with pytest.raises(ParameterError, match="test_size must be"):
            split_rows(y, "regression", wrong, 0)
    with pytest.raises(DataError, match="at least 4"):
        split_rows(y[:3], "regression", None, 0)


def test_columns_that_do_not_exist():
    with pytest.raises(ParameterError, match=r"Did you mean 'Price'\? The columns are rooms, Price."):
        check_column("price", ["rooms", "Price"], "target", "t.csv")
    with pytest.raises(ParameterError, match="such as --target label"):
        check_column(None, ["a", "label", "b"], "target", "t.csv")


def test_columns_are_dropped(tmp_path):
    rows(10).to_csv(tmp_path / "t.csv", index=False)
    with opened(tmp_path / "t.csv", target="t", drop=["b"]) as table:
        assert table.feature_names == ("a",)
