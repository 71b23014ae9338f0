"""Packages that only some results need."""

import sys

import pytest

from mercer import MissingPackageError
from mercer.errors.packages import data_frame, optional_module


def test_missing_packages_say_how_to_install_them(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(
        MissingPackageError, match=r"^Table\.to_pandas needs pandas, .* Install it by: pip install pandas"
    ):
        data_frame([], "Table.to_pandas")


def test_installed_packages_are_imported():
    assert optional_module("json", "x", "y").dumps([]) == "[]"
    assert data_frame([{"a": 1}, {"a": 2}], "x")["a"].tolist() == [1, 2]


def test_another_missing_package_is_not_blamed_on_this_one(monkeypatch, tmp_path):
    (tmp_path / "needs_another.py").write_text("import no_such_package")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        optional_module("needs_another", "x", "y")
