"""CSV files are divided between records, as Python's csv module delimits them."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mercer import DataError
from mercer.io.formats import lines
from mercer.io.formats.records import first_records, quoted, record_ranges


def rows(text, delimiter=","):
    """Return the records of Python's csv module that are not blank."""
    return [cells for cells in csv.reader(io.StringIO(text.decode(), newline=""), delimiter=delimiter) if cells]


@given(
    st.lists(st.sampled_from(["a", "b,", ",", '"', '""', "\n", "\r\n", "\r", '"x\ny"', ',"', '",']), max_size=30),
    st.integers(1, 12),
    st.integers(1, 40),
)
def test_records_of_chunks_are_those_of_the_file(tmp_path_factory, pieces, chunk, size):
    text = "".join(pieces).encode()
    path = tmp_path_factory.mktemp("records") / "t.csv"
    path.write_bytes(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "CHUNK_BYTES", chunk)
        patch.setattr(lines, "RANGE_BYTES", size)
        ranges = record_ranges(str(path), 0, ",")
    chunks = [part for one in ranges for _, part in one.chunks()]
    assert b"".join(chunks) == text
    assert [row for part in chunks for row in rows(part)] == rows(text)


@given(st.text('ab,"\n\r', max_size=20))
def test_line_breaks_in_quoted_fields_are_those_of_the_csv_module(text):
    """A letter in place of a line break changes the number of rows if, and only if, the line break ends a row."""
    starts, ends = quoted(text.encode(), ",")
    for i, symbol in enumerate(text):
        if symbol == "\n" and text[i - 1 : i] != "\r" and text[i + 1 : i + 2] not in ("\n", "\r"):
            inside = any(start < i < end for start, end in zip(starts, ends, strict=True))
            # A marked line break is in a value if it is inside quotes, and ends a row otherwise.
            values = "".join(cell for row in rows((text[:i] + "\nZ" + text[i + 1 :]).encode()) for cell in row)
            assert ("\nZ" in values) == inside


def test_quotes_inside_a_field_are_ordinary_characters():
    text = b'5" tube,1\n"6"" tube",2\n"7"8"9,3\n'
    starts, ends = quoted(text, ",")
    assert [text[start:end] for start, end in zip(starts, ends, strict=True)] == [b'"6"" tube"', b'"7"']
    _, ends = quoted(b'1,"2\n', ",")
    assert ends.tolist() == [6]  # after the end of the text: not closed


def test_record_without_an_end_raises_with_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr("mercer.io.formats.records.MOST_BYTES", 100)
    path = tmp_path / "t.csv"
    path.write_bytes(b'a,b\n1,2\n3,"' + b"x\n" * 300)
    with open(path, "rb") as file:
        assert first_records(file, str(path), 0, ",", 10) == b"a,b\n1,2\n"
        with pytest.raises(
            DataError, match=r"t\.csv, line 3: the record that starts here has more than .*not closed\?"
        ):
            first_records(file, str(path), 8, ",", 10)
