"""Atomic replacement of files."""

import errno
import os
import subprocess
import sys

import pytest

from mercer.io import files, write_text
from mercer.io.files import open_regular, remove_temporary_files, replacing


def test_write_text_creates_and_replaces(tmp_path):
    path = write_text(tmp_path / "new" / "page.html", "one — ü")
    assert path.read_text(encoding="utf-8") == "one — ü"
    write_text(path, "two")
    assert path.read_text(encoding="utf-8") == "two"
    assert os.listdir(path.parent) == ["page.html"]
    assert path.is_absolute()


def test_failure_keeps_the_previous_file_and_leaves_no_temporary_one(tmp_path, monkeypatch):
    path = write_text(tmp_path / "page.html", "old")

    def fail(*args):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_text(path, "new")
    assert path.read_text(encoding="utf-8") == "old"
    assert os.listdir(tmp_path) == ["page.html"]


def test_file_mode_follows_the_umask(tmp_path):
    mask = os.umask(0o022)
    try:
        assert write_text(tmp_path / "page.html", "x").stat().st_mode & 0o777 == 0o644
    finally:
        os.umask(mask)


def test_the_temporary_file_cannot_be_predicted_and_never_follows_a_link(tmp_path, monkeypatch):
    precious = tmp_path / "precious.txt"
    precious.write_text("precious")
    names = []
    for _ in range(2):
        with replacing(tmp_path / "page.html") as file:
            names.append(os.path.basename(file.name))
    assert names[0] != names[1]
    monkeypatch.setattr(files.secrets, "token_hex", lambda _: "00")  # a name that was guessed
    (tmp_path / ".page.html.00.part").symlink_to(precious)
    with pytest.raises(FileExistsError) as caught:
        write_text(tmp_path / "page.html", "new")
    assert caught.value.filename == str(tmp_path / "page.html")
    assert precious.read_text() == "precious"


@pytest.mark.parametrize("is_dangling", [False, True])
def test_a_link_is_replaced_and_not_followed(is_dangling, tmp_path):
    precious = tmp_path / "precious.txt"
    if not is_dangling:
        precious.write_text("precious")
    (tmp_path / "page.html").symlink_to(precious)
    path = write_text(tmp_path / "page.html", "new")
    assert path == tmp_path / "page.html"
    assert not path.is_symlink()
    assert path.read_text() == "new"
    assert is_dangling != precious.exists()
    (tmp_path / "folder").symlink_to(tmp_path / "other")
    (tmp_path / "other").mkdir()
    assert write_text(tmp_path / "folder" / "page.html", "new") == tmp_path / "other" / "page.html"


def test_only_temporary_files_of_the_same_file_are_removed(tmp_path):
    others = [".page.html.part", ".page.html.0123456789abcdeg.part", ".xpage.html.0123456789abcdef.part", "page.html"]
    for name in [*others, ".page.html.0123456789abcdef.part"]:
        (tmp_path / name).write_text("")
    remove_temporary_files(tmp_path / "page.html")
    assert sorted(os.listdir(tmp_path)) == sorted(others)
    remove_temporary_files(tmp_path / "missing" / "page.html")


def test_only_regular_files_are_opened(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    os.mkfifo(tmp_path / "pipe")
    with open_regular(tmp_path / "file") as file:
        assert file.read() == b"content"
    for name, reason in (("link", "symbolic link"), ("pipe", "regular file"), (".", "regular file")):
        with pytest.raises(OSError, match=reason):
            open_regular(tmp_path / name)


# A file of at most 1000 bytes: the limit of a process, since a full disk is not at hand.
FULL = """
import resource, signal, sys
from mercer.io import write_text
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
write_text(sys.argv[1], "old")
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_text(sys.argv[1], "new" * 10_000)
except OSError as error:
    print(error.errno, error.filename)
"""


def test_a_full_disk_names_the_file_and_leaves_the_previous_one(tmp_path):
    path = tmp_path / "page.html"
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(errno.EFBIG), str(path)]
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["page.html"]
