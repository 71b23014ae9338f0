"""Files that paths, patterns and folders denote."""

import os

import numpy as np
import pandas as pd
import pytest

from mercer import DataError, open_rows
from mercer.io.paths import check_size, find_files

from .conftest import joined


@pytest.fixture
def tree(tmp_path):
    """Make a folder with files at several depths."""
    for name in (
        "b.npy",
        "a.npy",
        "year=2024/month=1/part-1.npy",
        "year=2024/month=1/part-0.NPY",
        "year=2023/part-0.npy",
        "year=2023/notes.txt",
        "_temporary/part-0.npy",
        ".hidden/part-0.npy",
        "year=2023/.part-0.npy",
        "year=2023/_part-0.npy",
    ):
        path = tmp_path / "rows" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path / "rows"


ALL = ["a.npy", "b.npy", "year=2023/part-0.npy", "year=2024/month=1/part-0.NPY", "year=2024/month=1/part-1.npy"]


def names(tree, source):
    return [path.relative_to(tree).as_posix() for path in find_files(source, (".npy",))]


def test_folder_denotes_all_files_below_it(tree):
    assert names(tree, tree) == names(tree, str(tree)) == ALL
    assert names(tree, [tree / "year=2024", tree / "a.npy"]) == [*ALL[3:], "a.npy"]


def test_patterns_also_match_folders_and_each_file_is_taken_once(tree):
    assert names(tree, str(tree / "year=*")) == ALL[2:]
    assert names(tree, str(tree / "*.npy")) == ALL[:2]
    assert names(tree, str(tree / "year=2024" / "**")) == ALL[3:]
    assert names(tree, str(tree / "year=*" / "**" / "part-[01].*")) == ALL[2:]


def test_names_of_folders_are_not_made_columns(tmp_path):
    rng = np.random.default_rng(0)
    years = np.repeat([2023, 2024, 2025], 20)
    frame = pd.DataFrame({"a": rng.normal(size=60), "y": rng.normal(size=60), "year": years})
    frame.to_parquet(tmp_path / "rows", partition_cols=["year"])
    source = open_rows(tmp_path / "rows", target="y")
    assert source.feature_names == ("a",)
    assert np.array_equal(joined(source)[0][:, 0], frame.a)
    with pytest.raises(DataError, match="no column 'year'"):
        open_rows(tmp_path / "rows", target="year")


def test_folder_without_matching_files_raises(tree):
    with pytest.raises(DataError, match=r"and its subfolders have no file whose name ends in \.csv"):
        find_files(tree, (".csv",))


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="needs links")
def test_links_to_folders_and_cycles(tree, tmp_path):
    (tmp_path / "elsewhere").symlink_to(tree / "year=2023")
    assert [path.name for path in find_files(tmp_path / "elsewhere", (".npy",))] == ["part-0.npy"]
    (tree / "year=2023" / "other").symlink_to(tree / "year=2024")
    assert len(find_files(tree, (".npy",))) == 7
    (tree / "year=2023" / "up").symlink_to(tree)
    with pytest.raises(DataError, match="up is a link to one of its parent folders"):
        find_files(tree, (".npy",))


def test_file_that_is_shorter_than_expected_raises(tmp_path):
    path = tmp_path / "t.npy"
    path.write_bytes(b"12345")
    check_size(path, 5)
    with pytest.raises(DataError, match=r"t\.npy has become shorter while it was read: 5 bytes are left"):
        check_size(path, 6)


@pytest.mark.parametrize("source", ["a,b\n1,2\n" * 2000, "~nobody_of_this_name/t.csv", "t\0.csv"])
def test_strings_that_are_no_paths_raise(source):
    with pytest.raises(DataError, match=r"is not the path of a file|cannot be opened"):
        open_rows(source, format="csv")


def test_folder_that_cannot_be_read_raises(tmp_path, monkeypatch):
    def refuse(self):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr("pathlib.Path.iterdir", refuse)
    with pytest.raises(DataError, match=r"The folder .* cannot be read: .*Permission denied"):
        open_rows(tmp_path)
