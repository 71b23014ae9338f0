"""Representation of a source of rows, and sizes of its blocks and parts."""

import numpy as np
import pytest

from mercer import DataError
from mercer.io.source import BLOCK_BYTES, BLOCK_STEP, LEAST_ROWS, Part, RowSource, rows_per_block, rows_per_part


class Some(Part):
    """A given number of rows."""

    what = "rows of a test"

    def __init__(self, n_rows):
        self.n_rows = n_rows

    @property
    def files(self):
        return ()

    def _blocks(self):
        yield (np.zeros((self.n_rows or 7, 1)),)

    def __str__(self):
        return "some rows"


@pytest.mark.parametrize(
    ("sizes", "n_features", "expected"),
    [
        ([1797], 64, "<1,797 rows of 64 features in 1 part>"),
        ([1], 1, "<1 row of 1 feature in 1 part>"),
        ([1000, 1000], 2, "<2,000 rows of 2 features in 2 parts>"),
        ([1000, None], 2000, "<unknown number of rows of 2,000 features in 2 parts>"),
    ],
)
def test_repr_has_the_numbers_of_rows_features_and_parts(sizes, n_features, expected):
    source = RowSource([Some(n) for n in sizes], n_features=n_features)
    assert repr(source) == expected
    assert source.n_rows == (None if None in sizes else sum(sizes))
    assert [len(X) for (X,) in source] == [size or 7 for size in sizes]  # part after part


def test_source_without_rows_raises():
    with pytest.raises(DataError, match="The files have no rows"):
        RowSource([Some(0), Some(0)], n_features=3)


@pytest.mark.parametrize("n_features", [1, 10, 300, 100_000])
@pytest.mark.parametrize("itemsize", [4, 8])
def test_rows_per_block_are_bounded_in_bytes_and_in_rows(n_features, itemsize):
    rows = rows_per_block(n_features, itemsize)
    assert LEAST_ROWS <= rows <= 8 * BLOCK_STEP
    if rows > LEAST_ROWS:
        assert rows * n_features * itemsize <= BLOCK_BYTES
    if rows >= BLOCK_STEP:
        assert rows % BLOCK_STEP == 0
    elif rows > LEAST_ROWS:
        assert (rows + 1) * n_features * itemsize > BLOCK_BYTES  # the largest possible number
    assert rows_per_part(rows) == 4 * rows
