"""Whether the first line of a CSV file is a row or names; an error is raised if it is ambiguous."""

import numpy as np
import pandas as pd
import pytest

from mercer import DataError, KernelRidgeClassifier, ParameterError, open_rows

from ..conftest import joined


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0,1,2\n0.5,1.5,2.5\n", "It counts from 0, like the names that pandas writes"),
        ("0,1,2\n1,2,3\n", "It counts from 0"),
        (",0,1\n0,0.5,1.5\n", "It counts from 0"),  # with the index
        ("0\n", "It counts from 0"),
        ("0;1;y\n0.5;1.5;0\n", "It has the word 'y' among numbers"),
        ("5.1,3.5,setosa\n4.9,3.0,setosa\n", "the word 'setosa' among numbers"),
        ('0,"y, in m"\n1,2\n', "the word 'y, in m' among numbers"),
        ("2019,2020,2021\n0.5,1,2\n", "distinct integers, and the line below has numbers that are not integers"),
        ("0,2,3\n0.5,1.5,2.5\n", "distinct integers"),  # names of columns that pandas selected
    ],
)
def test_ambiguous_first_lines_raise(text, why, tmp_path):
    path = write(tmp_path / "t.csv", text)
    with pytest.raises(DataError, match=rf"t\.csv: is the first line, .*{why}.*Pass header=True if .*header=False if"):
        open_rows(path)
    lines = len(text.splitlines())
    if lines > 1 and "y" not in text and "setosa" not in text and not text.startswith(","):
        assert len(joined(open_rows(path, header=True))[0]) == lines - 1
        assert len(joined(open_rows(path, header=False))[0]) == lines


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("a,b\n1,2\n", 1),
        ("a0,1b\n1,2\n", 1),
        ("1,2\n3,4\n", 2),
        ("0.0,1.0\n2.5,3.5\n", 2),
        ("0,0,1\n0.5,0,1\n", 2),
        ("1,0\n0,1\n", 2),
        ("3,7\n", 1),
        ("-1,5e3\n0.5,2\n", 2),
        ("nan,1\n2,3\n", 2),
    ],
)
def test_unambiguous_first_lines(text, rows, tmp_path):
    assert len(joined(open_rows(write(tmp_path / "t.csv", text)))[0]) == rows


def test_files_written_by_pandas(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(100, 3)))
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False)
    with pytest.raises(DataError, match="first line, '0,1,2', a row or the names"):
        open_rows(path, target=-1)
    assert np.array_equal(joined(open_rows(path, header=True))[0], frame)
    frame["y"] = rng.integers(0, 2, 100)
    frame.to_csv(path, index=False)
    for target in ("y", -1):
        with pytest.raises(DataError, match="the word 'y' among numbers"):
            open_rows(path, target=target)
        source = open_rows(path, target=target, header=True)
        assert KernelRidgeClassifier(random_state=0).fit(source).classes_.tolist() == [0, 1]
    frame.to_csv(path, index=False, header=False)
    assert np.array_equal(joined(open_rows(path))[0], frame)


def test_index_is_a_feature_only_if_it_is_asked_for(tmp_path):
    frame = pd.DataFrame({"a": [0.5, 1.5], "y": [1, 2]}, index=[7, 8])
    frame.to_csv(tmp_path / "t.csv")
    with pytest.raises(DataError, match=r"t\.csv: column 0 has no name, like the index that pandas writes.*columns="):
        open_rows(tmp_path / "t.csv", target="y")
    assert joined(open_rows(tmp_path / "t.csv", target="y", columns=["a"]))[0].tolist() == [[0.5], [1.5]]
    assert joined(open_rows(tmp_path / "t.csv", target="y", columns=[0, 1]))[0].tolist() == [[7, 0.5], [8, 1.5]]


def test_first_line_of_every_file_is_checked(tmp_path):
    first = write(tmp_path / "a.csv", "1.5,2\n")
    second = write(tmp_path / "b.csv", "0,1\n3,4\n")
    with pytest.raises(DataError, match=r"b\.csv: is the first line, '0,1'"):
        open_rows([first, second])
    assert joined(open_rows([first, second], header=False))[0].tolist() == [[1.5, 2], [0, 1], [3, 4]]
    long = write(tmp_path / "c.csv", ",".join(map(str, range(1000))) + "\n")
    with pytest.raises(DataError, match=r"'0,1,2,3[0-9,]{50,60}\.\.\.'"):
        open_rows(long)


def test_header_raises_for_other_formats(tmp_path):
    np.save(tmp_path / "t.npy", np.ones((3, 2)))
    for header in (True, False):
        with pytest.raises(ParameterError, match=f"header applies only to CSV files, got header={header} for npy"):
            open_rows(tmp_path / "t.npy", header=header)
        with pytest.raises(ParameterError, match="header applies only to CSV files"):
            open_rows(pd.DataFrame(np.ones((3, 2)), columns=["a", "b"]), header=header)
