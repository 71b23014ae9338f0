"""Archives: values are read as they were written, and only values of permitted types are."""

import json
import os
import zipfile
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp

from mercer.io.archive import (
    ArchiveError,
    check_archive,
    digest_at_end,
    read_archive,
    storable,
    store,
    write_archive,
)
from mercer.statistics import RowSample
from mercer.statistics.moments import Moments, TargetMoments


@storable
@dataclass(frozen=True)
class Pair:
    left: object
    right: object


@dataclass(frozen=True)
class Undeclared:
    value: int


VALUES = [
    None,
    True,
    -3,
    2**80,
    0.1,
    float("inf"),
    "größe",
    (1, [2.5, None], {"a": (), "~": "b"}),
    np.float64(0.1),
    np.int32(7),
    np.arange(6.0).reshape(2, 3),
    np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
    np.zeros((0, 4)),
    np.array(["b", "größe"]),
    np.array(["b", None, 3], dtype=object),
    np.array([True, False]),
    sp.csr_array(np.diag([1.0, 0.0, 2.0])),
    sp.csr_matrix(np.diag([1.0, 0.0, 2.0])),
    Pair(Pair(1, np.ones(2)), None),
]


def same(a, b):
    if isinstance(a, np.ndarray):
        layout = a.flags.f_contiguous == b.flags.f_contiguous
        return a.dtype == b.dtype and a.shape == b.shape and layout and np.array_equal(a, b)
    if sp.issparse(a):
        return type(a) is type(b) and a.dtype == b.dtype and (a != b).nnz == 0
    if isinstance(a, Pair):
        return same(a.left, b.left) and same(a.right, b.right)
    return type(a) is type(b) and a == b


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values_are_read_as_they_were_written(value, tmp_path):
    assert same(store(value).value(), value)
    digest = write_archive(tmp_path / "a.zip", {"x": store(value), "y": store("other")})
    with open(tmp_path / "a.zip", "rb") as file:
        assert check_archive(file) == digest_at_end(file) == digest
    assert same(read_archive(tmp_path / "a.zip", "x"), value)
    assert read_archive(tmp_path / "a.zip", "y") == "other"
    assert read_archive(tmp_path / "a.zip", "z") is None


def test_moments_are_written_as_a_triangle(tmp_path):
    rng = np.random.default_rng(0)
    gram = rng.normal(size=(200, 200))
    targets = TargetMoments.of(gram, rng.normal(size=(200, 2)))
    write_archive(tmp_path / "a.zip", {"x": store(Moments(gram, targets, 1e-7))})
    assert (tmp_path / "a.zip").stat().st_size < 0.6 * gram.nbytes
    got = read_archive(tmp_path / "a.zip", "x")
    assert np.array_equal(got.gram, np.triu(gram))
    assert np.array_equal(got.targets.cross, targets.cross)
    assert got.roundoff == 1e-7


def test_stored_copies_do_not_change_with_the_value():
    values = np.ones(3)
    copy, view = store(values), store(values, copy=False)
    values += 1
    assert copy.value().tolist() == [1, 1, 1]
    assert view.value().tolist() == [2, 2, 2]
    assert copy.nbytes == 24


def test_values_to_keep_are_copied_from_the_replaced_archive(tmp_path):
    path = tmp_path / "a.zip"
    write_archive(path, {"one": store(np.arange(5)), "ten": store("old"), "two": store(2)})
    with open(path, "rb") as old:
        path.unlink()  # the values to keep come from the file that is open, not from its path
        write_archive(path, {"ten": store("new")}, ["one"], old)
        assert old.closed
    assert read_archive(path, "one").tolist() == [0, 1, 2, 3, 4]
    assert read_archive(path, "ten") == "new"
    assert read_archive(path, "two") is None
    assert os.listdir(tmp_path) == ["a.zip"]


def test_classes_that_are_not_storable_raise():
    with pytest.raises(TypeError, match=r"Undeclared cannot be written to an archive: declare the class"):
        store(Undeclared(1))
    with pytest.raises(TypeError, match="another class named RowSample"):
        storable(dataclass(type("RowSample", (), {})))
    assert store(RowSample(1, 0, np.zeros(0), np.zeros(0), np.zeros((0, 2)), None, None)).value().size == 1


@pytest.mark.parametrize("tree", [{"~": "class", "name": "Undeclared", "state": None}, {"~": "Popen"}, {"no": "type"}])
def test_types_that_are_not_storable_are_not_read(tree, tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("x/value.json", json.dumps(tree))
    with pytest.raises(ArchiveError):
        read_archive(tmp_path / "a.zip", "x")


def test_objects_are_never_unpickled(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("x/value.json", '{"~": "array", "array": 0}')
        with archive.open("x/0.npy", "w") as member:
            np.lib.format.write_array(member, np.array([Undeclared(1)], dtype=object))
    with pytest.raises(ArchiveError, match="allow_pickle"):
        read_archive(tmp_path / "a.zip", "x")


def test_damaged_archives_raise(tmp_path):
    path = tmp_path / "a.zip"
    write_archive(path, {"x": store(np.arange(1000.0))})
    intact = path.read_bytes()
    for bad in (intact[:-150], intact[:100], b"", intact[:3000] + bytes([intact[3000] ^ 1]) + intact[3001:]):
        path.write_bytes(bad)
        with open(path, "rb") as file, pytest.raises(ArchiveError):
            check_archive(file)
        with pytest.raises(ArchiveError):
            read_archive(path, "x")
        with open(path, "rb") as file, pytest.raises(ArchiveError):
            write_archive(tmp_path / "b.zip", {}, ["x"], file)
        assert os.listdir(tmp_path) == ["a.zip"]


def test_every_damaged_bit_changes_the_digest(tmp_path):
    path = tmp_path / "a.zip"
    write_archive(path, {"x": store((1, "two"))})
    intact = path.read_bytes()
    for i in range(len(intact)):
        path.write_bytes(intact[:i] + bytes([intact[i] ^ (1 << i % 8)]) + intact[i + 1 :])
        with (
            open(path, "rb") as file,
            pytest.raises(ArchiveError, match=r"its digest differs|does not end with a digest"),
        ):
            check_archive(file)
    for other in (intact + b"\0", b"\0" + intact, intact + intact):
        path.write_bytes(other)
        with open(path, "rb") as file, pytest.raises(ArchiveError):
            check_archive(file)


MEMBERS = {
    "deep": b"[" * 100_000 + b"]" * 100_000,
    "not utf-8": b"\xff\xfe\xfd",
    "no entry": b'{"~": "array", "array": 3}',
    "no key": b'{"~": "csr_array", "arrays": [0, 0, 0]}',
    "wrong shape": b'{"~": "objects", "shape": [7], "items": [1]}',
    "wrong state": b'{"~": "class", "name": "Moments", "state": 3}',
    "unhashable": b'{"~": "dict", "items": [[{"~": "list", "items": []}, 1]]}',
    "no pair": b'{"~": "dict", "items": [5]}',
}


@pytest.mark.parametrize("name", MEMBERS)
def test_members_that_no_archive_has_raise_one_error(name, tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("x/value.json", MEMBERS[name])
        with archive.open("x/0.npy", "w") as member:
            np.lib.format.write_array(member, np.zeros(2))
    with pytest.raises(ArchiveError):
        read_archive(tmp_path / "a.zip", "x")


def test_error_while_writing_leaves_the_previous_archive(tmp_path):
    path = tmp_path / "a.zip"
    write_archive(path, {"x": store(1)})
    with pytest.raises(AttributeError):
        write_archive(path, {"x": store(2), "y": None})
    assert read_archive(path, "x") == 1
    assert os.listdir(tmp_path) == ["a.zip"]
