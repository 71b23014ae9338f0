"""Matrices in npy files, with targets in columns or in files of their own."""

import subprocess
import sys

import numpy as np
import pytest

from mercer import DataError, ParameterError, open_rows
from mercer.io.formats.npy import Stored

from ..conftest import joined


@pytest.mark.usefixtures("small_pieces")
def test_targets_and_weights_in_other_files(table, tmp_path):
    X, y, weight, labels = table
    for i, rows in enumerate(np.array_split(np.arange(len(X)), 2)):
        for name, values in (("X", X), ("y", y), ("w", weight), ("l", labels), ("Y", np.column_stack([y, y]))):
            np.save(tmp_path / f"{name}{i}.npy", values[rows])
    files = {name: [tmp_path / f"{name}{i}.npy" for i in range(2)] for name in "XywlY"}
    for target, expected in (("y", y), ("l", labels), ("Y", np.column_stack([y, y]))):
        got = joined(open_rows(files["X"], target=files[target], weight=files["w"]))
        for one, other in zip(got, (X, expected, weight), strict=True):
            assert np.array_equal(one, other)
    assert np.array_equal(joined(open_rows(files["X"][0], target=str(files["y"][0])))[1], y[:1501])
    with pytest.raises(ParameterError, match="target must be one npy file per matrix, that is 2 files, got 1"):
        open_rows(files["X"], target=[files["y"][0]])
    with pytest.raises(DataError, match=r"y1.npy has shape \(1500,\), but .*X0.npy has 1501 rows"):
        open_rows(files["X"][0], target=files["y"][1])
    with pytest.raises(DataError, match=r"l0.npy contains <U5, not numbers\."):
        open_rows(files["X"][0], weight=files["l"][0])


def test_blocks_are_copies_in_memory(table, tmp_path):
    X, *_ = table
    np.save(tmp_path / "X.npy", np.asfortranarray(X))
    block = next(iter(open_rows(tmp_path / "X.npy")))[0]
    assert type(block) is np.ndarray
    assert block.base is None
    assert block.flags.c_contiguous
    integers = np.arange(12).reshape(4, 3)
    np.save(tmp_path / "ints.npy", integers)
    assert joined(open_rows(tmp_path / "ints.npy"))[0].dtype == np.float64


def test_files_that_are_no_matrix_raise(tmp_path):
    for values, match in (
        (np.zeros(3), "must contain a matrix of numbers, got an array of 1 dimensions and dtype float64"),
        (np.array([["a", "b"]]), "must contain a matrix of numbers, got an array of 2 dimensions and dtype <U1"),
        (np.zeros((0, 3)), "no rows"),
    ):
        np.save(tmp_path / "x.npy", values)
        with pytest.raises(DataError, match=match):
            open_rows(tmp_path / "x.npy")
    np.save(tmp_path / "x.npy", np.array([[object()]]), allow_pickle=True)
    with pytest.raises(DataError, match="cannot be read as an npy file of numbers"):
        open_rows(tmp_path / "x.npy")
    np.savez(tmp_path / "x.npz", a=np.zeros((3, 2)))
    with pytest.raises(DataError, match="is an npz file of several arrays"):
        Stored.of(tmp_path / "x.npz")


# Reads a file that becomes shorter after its first block, as if another process wrote it again.
SHORTEN = """
import os, sys, mercer, mercer.io.source
mercer.io.source.BLOCK_BYTES = 2**16
blocks = iter(mercer.open_rows(sys.argv[1], target=-1))
next(blocks)
os.truncate(sys.argv[1], 4096)
try:
    print(sum(len(block[0]) for block in blocks))
except mercer.DataError as error:
    print(error)
"""


@pytest.mark.parametrize("order", ["C", "F"])
def test_file_that_becomes_shorter_while_it_is_read_raises(order, tmp_path):
    path = tmp_path / "t.npy"
    np.save(path, np.zeros((50_000, 4), order=order))
    done = subprocess.run([sys.executable, "-c", SHORTEN, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr  # it used to end by the signal SIGBUS
    assert "t.npy has become shorter while it was read" in done.stdout


@pytest.mark.parametrize("dtype", ["<f8", ">f8", "<f4", "<f2", "<i8", "|b1", "<u2"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.usefixtures("small_pieces")
def test_values_of_every_order_and_type_are_those_of_numpy(dtype, order, tmp_path):
    values = np.asarray(np.random.default_rng(0).integers(0, 2, size=(700, 5)).astype(dtype), order=order)
    targets = np.asarray(np.arange(700 * 6).reshape(700, 2, 3).astype(dtype), order=order)
    np.save(tmp_path / "x.npy", values)
    np.save(tmp_path / "y.npy", targets)
    X, y, weight = joined(open_rows(tmp_path / "x.npy", target=tmp_path / "y.npy", weight=2, columns=[4, 0]))
    assert np.array_equal(X, np.load(tmp_path / "x.npy")[:, [4, 0]])
    assert np.array_equal(y, np.load(tmp_path / "y.npy"))
    assert np.array_equal(weight, values[:, 2])


def test_headers_that_ask_for_too_much_raise(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.zeros((3, 2)))
    content = path.read_bytes()
    for shape in (
        b"(0, 1000000000000)",
        b"(3, 1000000000000)",
        b"(-3, 2)         ",
        b"(9999999999999999999, 2)",
        b"(3,)",
    ):
        path.write_bytes(content[:10] + content[10:128].replace(b"(3, 2)", shape)[:117] + b"\n" + content[128:])
        with pytest.raises(DataError, match=r"x\.npy"):
            open_rows(path)
