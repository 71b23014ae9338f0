import gzip
import warnings

import numpy as np
import pytest

import mercer.io.formats.lines as lines
from mercer import open_table
from mercer.errors import DataError, MercerWarning


def written(folder, text, name="table.csv"):
    path = folder / name
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return path


def rows_of(source):
    return [row for block in source for row in block[0].to_pylist()]


@pytest.mark.parametrize("name", ["table.csv", "table.csv.gz", "table.tsv"])
def test_types_and_missing_cells(tmp_path, name):
    end = "\t" if "tsv" in name else ","
    text = "a,b,c,d,e\n1, x ,yes,2024-01-01,?\nNA,?,no,null,\n 3,y z,,2024-02-01,N/A\n".replace(",", end)
    source = open_table(written(tmp_path, text, name))
    assert [str(kind) for kind in source.schema.types] == ["int64", "string", "bool", "timestamp[us]", "null"]
    assert source.n_rows == 3
    first, second, third = rows_of(source)
    assert (first["a"], first["b"], first["c"], first["e"]) == (1, "x", True, None)
    assert list(second.values()) == [None, None, False, None, None]
    assert (third["a"], third["b"], third["c"]) == (3, "y z", None)


def test_a_column_has_text_long_after_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(lines, "RANGE_BYTES", 4000)
    path = written(tmp_path, "a,b\n" + "".join(f"{i}.5,{i}\n" for i in range(3000)) + "oops,7\n")
    with pytest.warns(MercerWarning, match="column 'a' is read as strings, because 1 of its 3,001 cells .* 'oops'"):
        source = open_table(path)
    assert len(source.parts()) > 3
    assert [str(kind) for kind in source.schema.types] == ["string", "int64"]
    rows = rows_of(source)
    assert len(rows) == source.n_rows == 3001
    assert rows[3000] == {"a": "oops", "b": 7}
    assert rows[10] == {"a": "10.5", "b": 10}


def test_one_code_with_a_leading_zero_makes_strings_of_all(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        source = open_table(written(tmp_path, "zip,x\n12345,1\n" * 1 + "99999,2\n01234,3\n"))
    assert [row["zip"] for row in rows_of(source)] == ["12345", "99999", "01234"]


def test_labels_of_targets_are_predicted_as_written(tmp_path):
    source = open_table(written(tmp_path, "x,y\n1,yes\n2,no\n3,\n"), target="y")
    (_, y), *_ = source
    assert y.tolist() == ["yes", "no", None]
    assert source.target_names == ("y",)


def test_target_and_weight(tmp_path):
    source = open_table(written(tmp_path, "x,y,w\na,1,0.5\nb,2,2\n"), target="y", weight="w")
    ((table, y, weight),) = source
    assert table.column_names == ["x"]
    assert y.tolist() == [1, 2]
    assert weight.tolist() == [0.5, 2]


def test_semicolons_and_decimal_commas(tmp_path):
    source = open_table(written(tmp_path, "x;y\n1,5;a\n2;b\n"))
    assert [row["x"] for row in rows_of(source)] == [1.5, 2.0]


def test_ambiguous_dates_warn(tmp_path):
    with pytest.warns(MercerWarning, match="month/day/year"):
        source = open_table(written(tmp_path, "d,x\n1/2/2024,1\n3/4/2024,2\n"))
    assert rows_of(source)[0]["d"].month == 1


def test_index_of_pandas_is_no_feature(tmp_path):
    source = open_table(written(tmp_path, ",x\n0,a\n1,b\n"))
    assert source.feature_names == ("x",)


def test_quotes_and_line_breaks(tmp_path):
    source = open_table(written(tmp_path, 'name,v\n"a, ""b""\nc",1\n"NA","2"\n'))
    assert rows_of(source) == [{"name": 'a, "b"\nc', "v": 1}, {"name": None, "v": 2}]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a,b\n1,2\n3\n", "line 3 has 1 columns, but the first line has 2"),
        ("a,a\n1,2\n", "two columns named 'a'"),
        ("a,b\n", "has no rows"),
        ('a,b\n1,"2\n', "quote that opens a value here is not closed"),
    ],
)
@pytest.mark.parametrize("name", ["table.csv", "table.csv.gz"])
def test_errors_name_the_line(tmp_path, text, what, name):
    with pytest.raises(DataError, match=what):
        open_table(written(tmp_path, text, name))


def test_text_in_latin_1_is_refused(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes("a,b\nGröße,1\n".encode("latin-1"))
    with pytest.raises(DataError, match="UTF-8"):
        open_table(path)


def test_truncated_gzip_is_refused(tmp_path):
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 10000)[:-20])
    with pytest.raises(DataError, match="cannot be read as CSV"):
        open_table(path)


def test_gzip_in_chunks_is_the_same(tmp_path, monkeypatch):
    text = "a,b\n" + "".join(f'{i},"x\n{i % 7}"\n' for i in range(2000))
    whole = rows_of(open_table(written(tmp_path, text)))
    monkeypatch.setattr(lines, "CHUNK_BYTES", 512)
    parts = rows_of(open_table(written(tmp_path, text, "table.csv.gz")))
    assert parts == whole


def test_file_that_changes_is_an_error(tmp_path):
    path = written(tmp_path, "a,b\n1,2\n3,4\n")
    source = open_table(path)
    path.write_text("a,b\nx,2\n3,4\n")
    with pytest.raises(DataError, match=r"column 'a' contained integers when the file was opened"):
        list(source)


def test_columns_can_be_read_as_strings(tmp_path):
    source = open_table(written(tmp_path, "zip,x,b\n1,1.50,yes\n2,2.0,no\n"))
    strings = source.as_strings(["zip", "x", "b", "other"])
    assert rows_of(strings)[0] == {"zip": "1", "x": "1.50", "b": "yes"}
    assert rows_of(source)[0] == {"zip": 1, "x": 1.5, "b": True}


def test_two_files_have_the_kinds_of_both(tmp_path):
    written(tmp_path, "a,b\n1,2\n", "1.csv")
    written(tmp_path, "a,b\nx,2.5\n", "2.csv")
    source = open_table(tmp_path)
    assert [str(kind) for kind in source.schema.types] == ["string", "double"]
    assert rows_of(source) == [{"a": "1", "b": 2.0}, {"a": "x", "b": 2.5}]


def test_numbers_survive_exactly(tmp_path):
    values = np.random.default_rng(0).normal(size=500) * 10.0 ** np.arange(-250, 250)
    source = open_table(written(tmp_path, "a,b\n" + "".join(f"{v!r},1\n" for v in values.tolist())))
    assert [row["a"] for row in rows_of(source)] == values.tolist()
