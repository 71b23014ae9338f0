"""What a source of rows says of itself, and how it is cut."""

import pytest

from mercer import DataError
from mercer.io.source import BLOCK_BYTES, BLOCK_STEP, LEAST_ROWS, Part, RowSource, rows_per_block, rows_per_part


class Some(Part):
    """So many rows, which nobody reads."""

    def __init__(self, n_rows):
        self.n_rows = n_rows

    def __iter__(self):
        yield (self.n_rows,)

    def __str__(self):
        return "some rows"


@pytest.mark.parametrize(
    ("sizes", "columns", "words"),
    [
        ([1797], 64, "<1,797 rows of 64 columns in 1 part>"),
        ([1], 1, "<1 row of 1 column in 1 part>"),
        ([1000, 1000], 2, "<2,000 rows of 2 columns in 2 parts>"),
        ([1000, None], 2000, "<unknown number of rows of 2,000 columns in 2 parts>"),
    ],
)
def test_a_source_says_what_it_holds(sizes, columns, words):
    source = RowSource([Some(n) for n in sizes], n_features=columns)
    assert repr(source) == words
    assert source.n_rows == (None if None in sizes else sum(sizes))
    assert [rows for (rows,) in source] == sizes  # part after part


def test_no_rows_are_refused():
    with pytest.raises(DataError, match="There are no rows in these files"):
        RowSource([Some(0), Some(0)], n_features=3)


@pytest.mark.parametrize("columns", [1, 10, 300, 100_000])
@pytest.mark.parametrize("itemsize", [4, 8])
def test_blocks_have_a_size_in_bytes_within_bounds_in_rows(columns, itemsize):
    rows = rows_per_block(columns, itemsize)
    assert LEAST_ROWS <= rows <= 8 * BLOCK_STEP
    if rows > LEAST_ROWS:
        assert rows * columns * itemsize <= BLOCK_BYTES
    if rows >= BLOCK_STEP:
        assert rows % BLOCK_STEP == 0
    elif rows > LEAST_ROWS:
        assert (rows + 1) * columns * itemsize > BLOCK_BYTES  # and not less than it could be
    assert rows_per_part(rows) == 4 * rows
