"""Parquet files: parts are runs of row groups, and memory does not grow with them."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from mercer import open_rows


@pytest.mark.parametrize("group_rows", [50, 7, 1000])
@pytest.mark.usefixtures("small_pieces")
def test_small_row_groups_are_joined_and_large_ones_cut(group_rows, tmp_path):
    values = np.arange(4000.0)
    path = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(
        pa.table({"a": values, "b": values, "c": values, "d": values}), path, row_group_size=group_rows
    )
    source = open_rows(path)  # 64 rows a block, four blocks a part
    rows = [part.n_rows for part in source.parts()]
    assert sum(rows) == source.n_rows == 4000
    # A part ends with the first row group that fills four blocks of 64 rows.
    assert set(rows[:-1]) == {group_rows * -(-256 // group_rows)}
    sizes = [[len(block[0]) for block in part] for part in source.parts()]
    assert all(size == 64 for part in sizes for size in part[:-1])  # also across row groups
    assert np.array_equal(np.concatenate([block[0][:, 0] for block in source]), values)
    assert str(source.parts()[0]).startswith(f"{path}, row group")


def test_memory_does_not_grow_with_the_row_group(tmp_path):
    path = tmp_path / "t.parquet"
    columns = {f"x{j}": np.random.default_rng(j).normal(size=600_000) for j in range(10)}
    pyarrow.parquet.write_table(pa.table(columns), path, row_group_size=600_000, use_dictionary=False)
    usual = pa.default_memory_pool()
    counting = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(counting)
    try:
        rows = sum(len(block[0]) for block in open_rows(path))
    finally:
        pa.set_memory_pool(usual)
    assert rows == 600_000
    assert 5e6 < counting.max_memory() < 20e6  # of 48 MB in the one row group
