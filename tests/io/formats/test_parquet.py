"""Parquet files: parts are runs of row groups, and memory use does not grow with the size of a row group."""

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from mercer import open_rows


@pytest.mark.parametrize("group_rows", [50, 7, 64, 1000])
@pytest.mark.usefixtures("small_pieces")
def test_small_row_groups_are_joined_and_large_ones_divided(group_rows, tmp_path):
    values = np.arange(4000.0)
    path = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(
        pa.table({"a": values, "b": values, "c": values, "d": values}), path, row_group_size=group_rows
    )
    source = open_rows(path)  # 64 rows per block, four blocks per part
    rows = [part.n_rows for part in source.parts()]
    assert sum(rows) == source.n_rows == 4000
    # A part ends with the first row group that fills four blocks of 64 rows.
    assert set(rows[:-1]) == {group_rows * -(-256 // group_rows)}
    sizes = [[len(block[0]) for block in part] for part in source.parts()]
    assert all(size == 64 for part in sizes for size in part[:-1])  # also across row groups
    assert np.array_equal(np.concatenate([block[0][:, 0] for block in source]), values)
    assert str(source.parts()[0]).startswith(f"{path}, row group")


# Prints the growth of the peak memory of a process that reads a file, after everything is imported, in MB.
READ = """
import sys
from mercer import open_rows

def most():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) / 1024

list(open_rows(sys.argv[1]))
before = most()
rows = sum(len(block[0]) for block in open_rows(sys.argv[2]))
print(rows, most() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux")
def test_memory_does_not_grow_with_the_row_group(tmp_path):
    for name, rows in (("small", 1000), ("large", 1_500_000)):
        columns = {f"x{j}": np.random.default_rng(j).normal(size=rows) for j in range(10)}
        path = tmp_path / f"{name}.parquet"
        pyarrow.parquet.write_table(pa.table(columns), path, row_group_size=rows, use_dictionary=False)
    command = [sys.executable, "-c", READ, str(tmp_path / "small.parquet"), str(tmp_path / "large.parquet")]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    rows, growth = result.stdout.split()
    assert int(rows) == 1_500_000
    assert float(growth) < 80  # the row group has 120 MB; blocks and buffers take about 50 MB
