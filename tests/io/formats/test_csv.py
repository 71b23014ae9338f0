"""CSV files: dialects, types of columns, and errors that name the line."""

import os

import numpy as np
import pandas as pd
import pytest

from mercer import DataError, KernelRidgeClassifier, ParameterError, open_rows
from mercer.io import open_csv

from ..conftest import joined


def write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_delimiters_and_line_ends(delimiter, end, tmp_path):
    lines = ["a,b,kind", "1,2.5,x", "-3e2, 4 ,y", "5,6,x"]
    path = write(tmp_path / "t.csv", end.join(lines).replace(",", delimiter))  # no end of the last line
    X, y = joined(open_rows(path, target="kind"))
    assert X.tolist() == [[1, 2.5], [-300, 4], [5, 6]]
    assert y.tolist() == ["x", "y", "x"]


def test_quotes_blank_lines_and_byte_order_mark(tmp_path):
    path = write(tmp_path / "t.csv", '\ufeff"a, in m",b,"kind"\n\n1,"2","x, or y"\n\n3,4,"z"\n\n')
    X, y = joined(open_rows(path, target="kind"))
    assert X.tolist() == [[1, 2], [3, 4]]
    assert y.tolist() == ["x, or y", "z"]
    assert open_rows(path, target="kind").feature_names == ("a, in m", "b")


def test_files_with_and_without_a_header(tmp_path):
    path = write(tmp_path / "t.csv", "1,2,u\n3,4,v\n")
    X, y = joined(open_rows(path, target=-1, header=False))
    assert X.tolist() == [[1, 2], [3, 4]]
    assert y.tolist() == ["u", "v"]
    X, y = joined(open_rows(path, target="2", header=False))
    assert X.tolist() == [[1, 2], [3, 4]]
    numbered = write(tmp_path / "n.csv", "0,1,y\n5,6,7\n")
    assert joined(open_rows(numbered, target="y", header=True))[0].tolist() == [[5, 6]]
    names = write(tmp_path / "names.csv", "a,b\n1,2\n")
    with pytest.raises(DataError, match=r"names.csv, line 1: column '0' contains 'a', not a number"):
        list(open_csv(names, header=False))


def test_integer_labels_remain_integers(tmp_path):
    path = write(tmp_path / "t.csv", "a,y\n" + "".join(f"{i}.5,{i % 3}\n" for i in range(30)))
    X, y = joined(open_rows(path, target="y"))
    assert y.dtype == np.int64
    assert KernelRidgeClassifier(random_state=0).fit(open_rows(path, target="y")).classes_.tolist() == [0, 1, 2]
    assert joined(open_csv(path, target="y", text_target=True))[1].tolist()[:4] == ["0", "1", "2", "0"]
    assert joined(open_rows(path, target="y", dtype=np.float32))[0].dtype == np.float32
    assert X.dtype == np.float64


@pytest.mark.usefixtures("small_pieces")
def test_targets_that_are_integers_only_at_first(tmp_path, monkeypatch):
    monkeypatch.setattr("mercer.io.formats.csv.SAMPLE_BYTES", 100)
    values = [*range(4000), 0.5, *range(10)]
    path = write(tmp_path / "t.csv", "a,y\n" + "".join(f"1,{value}\n" for value in values))
    blocks = list(open_rows(path, target="y"))
    assert {block[1].dtype.kind for block in blocks} == {"i", "f"}
    assert joined(blocks)[1].tolist() == values
    later = write(tmp_path / "later.csv", "a,y\n" + "1,2\n" * 4000 + "1,two\n")
    with pytest.raises(
        DataError, match=r"later.csv, line 4002: column 'y' contains 'two', not a number.*text_target=True"
    ):
        list(open_rows(later, target="y"))
    assert joined(open_csv(later, target="y", text_target=True))[1][-1] == "two"
    with pytest.raises(DataError, match="line 4002"):
        list(open_csv(later, target="y", text_target=False))


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize(
    ("line", "match"),
    [
        ("1,2", "line 3457 has 2 columns, but the first line has 3"),
        ("1,2,3,4", "line 3457 has 4 columns, but the first line has 3"),
        ("1,,3", "line 3457: column 'b' is empty. Fill missing values, or drop such rows"),
        ("1,NA,3", "line 3457: column 'b' contains 'NA', not a number"),
        ("1,1_000,3", "line 3457: column 'b' contains '1_000', not a number"),
    ],
)
def test_errors_name_the_invalid_line(line, match, tmp_path):
    path = write(tmp_path / "t.csv", "a,b,y\n" + "1,2,3.5\n" * 3455 + line + "\n" + "1,2,3.5\n" * 200)
    with pytest.raises(DataError, match=f"t.csv, {match}"):
        list(open_rows(path, target="y"))


def test_columns_that_are_not_read_are_not_checked(tmp_path):
    path = write(tmp_path / "t.csv", "a,note,y\n1,,2\n3,hello,4\n")
    assert joined(open_rows(path, target="y", columns=["a"]))[0].tolist() == [[1], [3]]


@pytest.mark.usefixtures("small_pieces")
def test_every_line_belongs_to_exactly_one_range(tmp_path):
    """Lines have many lengths, so that ranges end anywhere in a line."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=4000) * 10.0 ** rng.integers(-300, 300, size=4000)
    path = write(
        tmp_path / "t.csv", "\n".join(["value,row", *(f"{v!r},{i}" for i, v in enumerate(map(float, values)))])
    )
    source = open_rows(path, target="row")
    assert len(source.parts()) > 3
    X, y = joined(source)
    assert y.tolist() == list(range(4000))
    assert np.array_equal(X[:, 0], values)


@pytest.mark.slow
def test_line_that_starts_at_the_start_of_a_range(tmp_path, monkeypatch):
    path = write(tmp_path / "t.csv", "a\n" + "12345\n" * 100)
    for size in range(1, 40):
        monkeypatch.setattr("mercer.io.formats.lines.RANGE_BYTES", size)
        for chunk in (1, 6, 7, 1000):
            monkeypatch.setattr("mercer.io.formats.lines.CHUNK_BYTES", chunk)
            assert len(joined(open_rows(path))[0]) == 100


def test_files_that_are_no_table_raise(tmp_path):
    with pytest.raises(DataError, match="has no rows after its first line"):
        open_rows(write(tmp_path / "head.csv", "a,b\n"))
    with pytest.raises(DataError, match="only blank lines"):
        open_rows(write(tmp_path / "blank.csv", "\n\n"))
    (tmp_path / "t.csv").write_bytes(b"\x1f\x8b\x08\x00compressed")
    with pytest.raises(DataError, match=r"is compressed.*Decompress it first"):
        open_rows(tmp_path / "t.csv")
    with pytest.raises(DataError, match="two columns named 'a'"):
        open_rows(write(tmp_path / "twice.csv", "a,a\n1,2\n"))
    with pytest.raises(ParameterError, match=r"delimiter must be one character of ASCII, .*got ', '"):
        open_csv(write(tmp_path / "ok.csv", "a,b\n1,2\n"), delimiter=", ")
    with pytest.raises(ParameterError, match="dtype must be a floating point type"):
        open_rows(tmp_path / "ok.csv", dtype=int)


# ---- rows are those of independent readers ------------------------------------------------------


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_breaks_in_quotes_do_not_end_a_row(end, tmp_path):
    """The notes look like rows, and ranges and chunks of the file end inside of them."""
    values = np.random.default_rng(0).normal(size=(1500, 2))
    notes = [f'"line {i}{end}0.5,0.25,{"x" * (i % 40)}{end}""quoted"""' if i % 3 else "plain" for i in range(1500)]
    lines = ["a,b,note", *(f"{a!r},{b!r},{note}" for (a, b), note in zip(values.tolist(), notes, strict=True))]
    path = write(tmp_path / "t.csv", end.join(lines) + end)
    source = open_rows(path, columns=["a", "b"], target="note")
    assert len(source.parts()) > 2
    X, y = joined(source)
    assert np.array_equal(X, values)
    assert y.tolist() == pd.read_csv(path)["note"].tolist()


@pytest.mark.usefixtures("small_pieces")
def test_error_after_line_breaks_in_quotes_names_the_line(tmp_path):
    path = write(tmp_path / "t.csv", "a,note\n" + '1,"two\nlines"\n' * 2000 + "one,x\n")
    with pytest.raises(DataError, match=r"t.csv, line 4002: column 'a' contains 'one', not a number"):
        list(open_rows(path, columns=["a"]))


@pytest.mark.parametrize(
    "text",
    [
        "a,b\r1,2\r3,4",
        "a,b\n1,2\r\n3,4\r5,6\n",
        '\ufeff"a","b"\n1,2\n',
        '"a\nx","b ""q"""\n1,2\n',
        '"a,b",c\n"1","2.5"\n',
        "\n\na,b\n\n1,2\n\n\r\n3,4\n\n",
        "a,b\nnan,NaN\ninf,-Infinity\nINF,+5\n1e400,-1e400\n1e-400,-0\n",
        "a,b\n1.,.5\n007, 8 \n123456789012345678901234567890,4.9e-324\n",
        "PK,BZ\n1,2\n",
        "a\n1\n\n2\n",
    ],
)
def test_rows_are_those_of_pandas(text, tmp_path):
    path = write(tmp_path / "t.csv", text)
    frame = pd.read_csv(path, dtype=str, keep_default_na=False).map(float)
    source = open_rows(path, header=True)
    assert source.feature_names == tuple(frame.columns)
    assert np.array_equal(joined(source)[0], frame.to_numpy(), equal_nan=True)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ('a,b\n1,2\n3,"4', r"t\.csv, line 3: the quote that opens a value here is not closed"),
        ("a,b\n1,2\n1,0x10\n", r"line 3: column 'b' contains '0x10', not a number"),
        ("a,b\n1,2\n1,nan(7)\n", r"line 3: column 'b' contains 'nan\(7\)', not a number"),
        ("a,b\n1,\u0661\n", r"line 2: column 'b' contains .*, not a number"),
        ("a,b\n1,2\x00\n", r"line 2: column 'b' contains '2\\x00', not a number"),
        ("a,b\n1,2\n \n", r"line 3 has 1 columns, but the first line has 2"),
        ("a,b\n1,2,\n", r"line 2 has 3 columns, but the first line has 2"),
        ('"a\n1,2\n', r"no rows"),
        ("a," + "b" * 200_000 + "\n1,2\n", r"t\.csv cannot be read as CSV: field larger than field limit"),
    ],
)
def test_what_readers_disagree_on_is_refused(text, match, tmp_path):
    path = write(tmp_path / "t.csv", text)
    with pytest.raises(DataError, match=match):
        list(open_rows(path, header=True))


def test_empty_values_in_quotes_are_missing_numbers_and_empty_labels(tmp_path):
    path = write(tmp_path / "t.csv", 'a,y\n"1","2.5"\n"3",""\n"4",\n')
    assert np.array_equal(joined(open_rows(path, target="y"))[1], pd.read_csv(path)["y"], equal_nan=True)
    assert joined(open_csv(path, target="y", text_target=True))[1].tolist() == ["2.5", "", None]
    with pytest.raises(DataError, match="line 3: column 'y' is empty"):
        list(open_rows(path))
    with pytest.raises(DataError, match="line 2: column 'y' contains ' ', not a number"):
        list(open_csv(write(tmp_path / "t.csv", "a,y\n1, \n2,3\n"), target="y"))


def test_text_in_other_encodings_is_refused(tmp_path):
    path = write(tmp_path / "t.csv", "a,y\n1,größe\n2,x\n", encoding="latin-1")
    with pytest.raises(DataError, match=r"t\.csv, line 2: column 'y' is not text in UTF-8"):
        list(open_rows(path, target="y"))
    assert joined(open_rows(path, columns=["a"]))[0].tolist() == [[1], [2]]  # a column that is not read is not checked
    with pytest.raises(DataError, match=r"is text in UTF-16\. Save it in UTF-8"):
        open_rows(write(tmp_path / "t.csv", "a,b\n1,2\n", encoding="utf-16"))


def test_integers_in_base_16_are_no_labels(tmp_path):
    path = write(tmp_path / "t.csv", "a,y,note\n" + "1,2,0x\n" * 5 + "1,0x10,0x\n")
    with pytest.raises(DataError, match=r"line 7: column 'y' contains '0x10', not a number"):
        list(open_csv(path, target="y", columns=["a"], text_target=False))
    assert joined(open_csv(path, target="note", columns=["a"]))[1].tolist() == ["0x"] * 6


@pytest.mark.usefixtures("small_pieces")
def test_file_that_has_become_shorter_raises(tmp_path):
    path = write(tmp_path / "t.csv", "a,b\n" + "1,2\n" * 12_000)
    source = open_rows(path)
    os.truncate(path, 30_000)
    with pytest.raises(DataError, match=r"t\.csv has become shorter while it was read: 30,000 bytes are left"):
        list(source)
