"""What is written comes back as it was, and nothing else does."""

import json
import os
import zipfile
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp

from mercer.io.archive import ArchiveError, check_archive, read_archive, storable, store, write_archive
from mercer.statistics import RowSample
from mercer.statistics.moments import Moments, TargetMoments


@storable
@dataclass(frozen=True)
class Pair:
    left: object
    right: object


@dataclass(frozen=True)
class Stranger:
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
def test_values_come_back(value, tmp_path):
    assert same(store(value).value(), value)
    write_archive(tmp_path / "a.zip", {"x": store(value), "y": store("other")})
    check_archive(tmp_path / "a.zip")
    assert same(read_archive(tmp_path / "a.zip", "x"), value)
    assert read_archive(tmp_path / "a.zip", "y") == "other"
    assert read_archive(tmp_path / "a.zip", "z") is None


def test_of_moments_a_triangle_is_written(tmp_path):
    rng = np.random.default_rng(0)
    gram = rng.normal(size=(200, 200))
    targets = TargetMoments.of(gram, rng.normal(size=(200, 2)))
    write_archive(tmp_path / "a.zip", {"x": store(Moments(gram, targets, 1e-7))})
    assert (tmp_path / "a.zip").stat().st_size < 0.6 * gram.nbytes
    got = read_archive(tmp_path / "a.zip", "x")
    assert np.array_equal(got.gram, np.triu(gram))
    assert np.array_equal(got.targets.cross, targets.cross)
    assert got.roundoff == 1e-7


def test_copies_do_not_change_with_the_value():
    values = np.ones(3)
    copy, view = store(values), store(values, copy=False)
    values += 1
    assert copy.value().tolist() == [1, 1, 1]
    assert view.value().tolist() == [2, 2, 2]
    assert copy.nbytes == 24


def test_kept_values_are_taken_over(tmp_path):
    path = tmp_path / "a.zip"
    write_archive(path, {"one": store(np.arange(5)), "ten": store("old"), "two": store(2)})
    write_archive(path, {"ten": store("new")}, keep=["one"])
    assert read_archive(path, "one").tolist() == [0, 1, 2, 3, 4]
    assert read_archive(path, "ten") == "new"
    assert read_archive(path, "two") is None
    assert os.listdir(tmp_path) == ["a.zip"]


def test_classes_that_were_not_declared():
    with pytest.raises(TypeError, match=r"Stranger cannot be written to an archive: declare the class"):
        store(Stranger(1))
    with pytest.raises(TypeError, match="another storable class of the name RowSample"):
        storable(dataclass(type("RowSample", (), {})))
    assert store(RowSample(1, 0, np.zeros(0), np.zeros(0), np.zeros((0, 2)), None, None)).value().size == 1


@pytest.mark.parametrize("tree", [{"~": "class", "name": "Stranger", "state": None}, {"~": "Popen"}, {"no": "mark"}])
def test_a_file_cannot_bring_back_what_is_not_on_the_list(tree, tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("x/value.json", json.dumps(tree))
    with pytest.raises(ArchiveError):
        read_archive(tmp_path / "a.zip", "x")


def test_objects_are_never_unpickled(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("x/value.json", '{"~": "array", "array": 0}')
        with archive.open("x/0.npy", "w") as member:
            np.lib.format.write_array(member, np.array([Stranger(1)], dtype=object))
    with pytest.raises(ArchiveError, match="allow_pickle"):
        read_archive(tmp_path / "a.zip", "x")


def test_damage_is_found(tmp_path):
    path = tmp_path / "a.zip"
    write_archive(path, {"x": store(np.arange(1000.0))})
    whole = path.read_bytes()
    for bad in (whole[:-30], whole[:100], b"", whole[:3000] + bytes([whole[3000] ^ 1]) + whole[3001:]):
        path.write_bytes(bad)
        with pytest.raises(ArchiveError):
            check_archive(path)
        with pytest.raises(ArchiveError):
            read_archive(path, "x")


def test_an_error_leaves_what_was_there(tmp_path):
    path = tmp_path / "a.zip"
    write_archive(path, {"x": store(1)})
    with pytest.raises(AttributeError):
        write_archive(path, {"x": store(2), "y": None})
    assert read_archive(path, "x") == 1
    assert os.listdir(tmp_path) == ["a.zip"]
