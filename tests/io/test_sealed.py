"""Sealed archives: the same bytes for the same content, and no zip file that another program wrote."""

import io
import struct
import warnings
import zipfile

import numpy as np
import pytest

from mercer.io.archive import ArchiveError
from mercer.io.sealed import SealedArchive, layout_of, write_sealed

LABEL = "test archive"
ARRAYS = [np.arange(12.0).reshape(3, 4), np.asfortranarray(np.arange(6).reshape(2, 3)), np.array(["a", "ö"])]


@pytest.fixture
def content(tmp_path):
    write_sealed(tmp_path / "a", LABEL, {"answer": 42}, ARRAYS)
    return (tmp_path / "a").read_bytes()


def opened(content):
    return SealedArchive(io.BytesIO(content), LABEL)


def refusal(content):
    with pytest.raises(ArchiveError) as caught:
        opened(content).arrays()
    return str(caught.value)


def members(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}, archive.comment


def as_zip(contents, comment, compression=zipfile.ZIP_STORED, mode=0):
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w") as archive:
        warnings.simplefilter("ignore")
        for name, data in contents:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, data, compress_type=compression)
        archive.comment = comment
    return buffer.getvalue()


def test_arrays_are_the_same_in_bits_and_order(content):
    archive = opened(content)
    assert archive.content == {"answer": 42}
    for array, again in zip(ARRAYS, archive.arrays(), strict=True):
        assert array.dtype == again.dtype
        assert array.tobytes("A") == again.tobytes("A")
        assert array.flags.f_contiguous == again.flags.f_contiguous
        assert again.flags.writeable


def test_other_programs_read_the_arrays(content, tmp_path):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        assert np.load(io.BytesIO(archive.read("arrays/0.npy"))).tolist() == ARRAYS[0].tolist()


def test_same_content_gives_the_same_bytes(content, tmp_path):
    write_sealed(tmp_path / "b", LABEL, {"answer": 42}, ARRAYS)
    assert (tmp_path / "b").read_bytes() == content


def test_every_changed_byte_is_noticed(content):
    for i in range(0, len(content), 7):
        assert refusal(content[:i] + bytes([content[i] ^ 1]) + content[i + 1 :])


def test_every_truncation_is_noticed(content):
    for i in range(0, len(content), 13):
        assert refusal(content[:i])


def test_archives_with_another_label_are_refused(content):
    with pytest.raises(ArchiveError, match="does not end as a other archive does"):
        SealedArchive(io.BytesIO(content), "other archive")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["header.json", "../x.npy"], "path outside"),
        (["header.json", "/etc/x.npy"], "path outside"),
        (["header.json", "C:\\x.npy"], "path outside"),
        (["header.json", "arrays/0.npy", "arrays/0.npy"], "two members"),
        (["header.json", "arrays/0.npy", "run.py"], "does not belong"),
        (["header.json", "arrays/1.npy"], "does not belong"),
        (["arrays/0.npy", "header.json"], "order"),
        ([], "missing"),
    ],
)
def test_members_have_the_names_of_an_archive(names, expected, content):
    found, comment = members(content)
    forged = as_zip([(name, found.get(name, b"x")) for name in names], comment)
    assert expected in refusal(forged)


def test_compressed_members_are_refused(content):
    found, comment = members(content)
    found["arrays/0.npy"] = bytes(10**7)
    assert "zip bomb" in refusal(as_zip(found.items(), comment, zipfile.ZIP_DEFLATED))


def test_links_are_refused(content):
    found, comment = members(content)
    assert "link" in refusal(as_zip(found.items(), comment, mode=0o120777))


def test_many_members_do_not_take_quadratic_time(content):
    _, comment = members(content)
    names = ["header.json", *(f"x{i}" for i in range(8000))]
    assert "does not belong" in refusal(as_zip([(name, b"") for name in names], comment))


def test_overlapping_members_are_refused(content):
    """Two entries of the directory that point to the same bytes would double the size of the file in memory."""
    at = [i for i in range(len(content) - 4) if content[i : i + 4] == b"PK\x01\x02"]
    first, second = (i + 46 + len("arrays/0.npy") + 20 for i in at[1:3])
    forged = content[:second] + content[first : first + 8] + content[second + 8 :]
    assert "overlaps" in refusal(forged)


def test_declared_sizes_beyond_the_file_are_refused(content):
    at = content.index(b"PK\x01\x02") + 46 + len("header.json") + 4
    for size in (2**20, 2**40, 2**63):
        assert refusal(content[:at] + struct.pack("<QQ", size, size) + content[at + 16 :])


def test_types_that_cannot_be_stored():
    for array in (np.array([object()]), np.zeros(2, "f8,i4"), np.zeros(2, np.longdouble), np.zeros((2**30, 0))):
        with pytest.raises(TypeError, match="cannot be stored"):
            layout_of(array)
