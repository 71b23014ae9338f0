"""Atomic replacement of files."""

import os

import pytest

from mercer.io import write_text


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
