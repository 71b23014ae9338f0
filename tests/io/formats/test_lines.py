"""Text files divided into ranges of bytes: numbers of lines, and files that are no text."""

import pytest

from mercer import DataError
from mercer.io.formats import lines


@pytest.mark.parametrize(
    ("text", "count"), [(b"", 0), (b"a", 0), (b"a\nb\n", 2), (b"a\r\nb\r\n", 2), (b"a\rb\r\n\nc", 3)]
)
def test_ends_of_lines_are_counted(text, count, tmp_path):
    assert lines.count_lines(text) == count
    path = tmp_path / "t"
    path.write_bytes(text + b"x")
    assert lines.line_number(str(path), len(text)) == count + 1


@pytest.mark.parametrize("start", [b"\x1f\x8b\x08", b"BZh9", b"PK\x03\x04", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\x00"])
def test_compressed_files_raise(start, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(start + b"...")
    with pytest.raises(DataError, match=r"t\.csv is compressed"):
        lines.check_text(path)


def test_names_that_look_like_the_start_of_a_compressed_file(tmp_path):
    for text in (b"PK,b\n1,2\n", b"BZ\n1\n", b"1 1:1\n"):
        path = tmp_path / "t.csv"
        path.write_bytes(text)
        assert lines.check_text(path) == path
