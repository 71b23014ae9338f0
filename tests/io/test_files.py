"""Files appear whole or not at all."""

import os

import pytest

from mercer.io import write_text


def test_writes_and_replaces(tmp_path):
    path = write_text(tmp_path / "new" / "page.html", "one — ü")
    assert path.read_text(encoding="utf-8") == "one — ü"
    write_text(path, "two")
    assert path.read_text(encoding="utf-8") == "two"
    assert os.listdir(path.parent) == ["page.html"]
    assert path.is_absolute()


def test_a_failure_keeps_the_old_file_and_leaves_no_other(tmp_path, monkeypatch):
    path = write_text(tmp_path / "page.html", "old")

    def fail(*args):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_text(path, "new")
    assert path.read_text(encoding="utf-8") == "old"
    assert os.listdir(tmp_path) == ["page.html"]


def test_files_are_readable_as_the_umask_says(tmp_path):
    mask = os.umask(0o022)
    try:
        assert write_text(tmp_path / "page.html", "x").stat().st_mode & 0o777 == 0o644
    finally:
        os.umask(mask)
