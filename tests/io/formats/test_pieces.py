"""Files stored in pieces: how pieces are joined to parts, and their names in messages."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mercer import DataError, open_rows
from mercer.io import open_ipc, open_parquet
from mercer.io.formats.arrow import Batches
from mercer.io.formats.parquet import RowGroups
from mercer.io.formats.pieces import runs

FORMATS = {"parquet": RowGroups, "arrow": Batches}
NAMES = {"parquet": "row group", "arrow": "record batch"}


def write(path, values, rows):
    """Write columns a, b, c, d of equal values, in pieces of a given number of rows."""
    table = pa.table(dict.fromkeys("abcd", values))
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(table, path, row_group_size=rows)
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=rows)
    return path


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(1, 20))
def test_runs_have_every_row_once_and_end_when_they_have_enough_rows(sizes, enough):
    found = list(runs(sizes, enough))
    before = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
    end = 0
    for number, (first, stop, start, rows) in enumerate(found):
        assert first == end
        end = stop
        assert start == before[first]
        assert rows == before[stop] - before[first] > 0
        assert before[stop - 1] - before[first] < enough  # without its last piece it was too small
        assert rows >= enough or number == len(found) - 1
    assert sum(run[3] for run in found) == sum(sizes)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.usefixtures("small_pieces")
def test_parts_are_runs_of_pieces_in_order_over_all_files(kind, tmp_path):
    values = np.arange(2000.0)
    paths = [write(tmp_path / f"{i}.{kind}", part, 100) for i, part in enumerate((values[:1200], values[1200:]))]
    source = open_rows(paths, target="d")  # 85 rows per block, so 340 rows per part, which takes four pieces
    parts = source.parts()
    assert all(type(part) is FORMATS[kind] for part in parts)
    assert [(part.path, part.first, part.stop, part.start, part.n_rows) for part in parts] == [
        (str(path), first, first + 4, 100 * first, 400)
        for path, n in zip(paths, (12, 8), strict=True)
        for first in range(0, n, 4)
    ]
    blocks = list(source)
    assert np.array_equal(np.concatenate([X[:, 1] for X, _ in blocks]), values)
    assert np.array_equal(np.concatenate([y for _, y in blocks]), values)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.usefixtures("small_pieces")
def test_str_of_a_part_names_the_file_and_pieces(kind, tmp_path):
    plural = {"row group": "row groups", "record batch": "record batches"}[NAMES[kind]]
    path = write(tmp_path / f"t.{kind}", np.arange(500.0), 250)
    assert [str(part) for part in open_rows(path).parts()] == [f"{path}, {plural} 0 to 1"]
    path = write(tmp_path / f"large.{kind}", np.arange(500.0), 300)
    assert [str(part) for part in open_rows(path).parts()] == [
        f"{path}, {NAMES[kind]} 0",
        f"{path}, {NAMES[kind]} 1",
    ]


@pytest.mark.parametrize(("kind", "what"), [("parquet", "Parquet"), ("arrow", "an Arrow file")])
def test_error_names_a_file_of_another_format(kind, what, tmp_path):
    good, bad = write(tmp_path / f"good.{kind}", np.arange(9.0), 3), tmp_path / f"bad.{kind}"
    bad.write_bytes(b"nothing of the kind" * 9)
    with pytest.raises(DataError, match=rf"bad\.{kind} cannot be read as {what}: .* of this format\?"):
        open_rows([good, bad])


@pytest.mark.parametrize(("opener", "rows"), [(open_parquet, 20), (open_ipc, 9)])
def test_only_files_of_the_format_are_read_from_a_folder(opener, rows, tmp_path):
    write(tmp_path / "a.parquet", np.arange(20.0), 10)
    write(tmp_path / "b.arrow", np.arange(9.0), 10)
    (tmp_path / "notes.txt").write_text("neither")
    assert opener(tmp_path).n_rows == rows
