"""Every public name has its entry in the API, and the checks of the built site find what is wrong."""

import re
from types import ModuleType

import api_pages
import pytest
import site_checks

import mercer


def listed():
    """Return the names of the pages: of `mercer`, and of its modules."""
    entries = re.compile(
        r"^\.\. currentmodule:: ([\w.]+)\n\n\.\. autosummary::\n   :toctree: generated\n\n((?:   \w+\n?)+)", re.M
    )
    return [
        f"{module}.{name}"
        for page, text in api_pages.pages().items()
        if page != "index.rst"
        for module, names in entries.findall(text + "\n")
        for name in names.split()
    ]


@pytest.fixture(autouse=True)
def without_torch(monkeypatch):
    """Leave the page of `mercer.torch` out, whose import takes seconds."""
    monkeypatch.setattr(api_pages, "OPTIONAL", {"torch": "a_package_that_does_not_exist"})


def test_every_public_name_is_listed_once():
    names = [name for name in mercer.__all__ if not isinstance(getattr(mercer, name), ModuleType)]
    found = listed()
    assert [name for name in names if found.count(f"mercer.{name}") != 1] == []
    assert len(found) == len(set(found))


def test_every_public_module_has_a_page():
    modules = [name for name in mercer.__all__ if isinstance(getattr(mercer, name), ModuleType)]
    assert [name for name in modules if name not in api_pages.MODULES] == []


def test_a_module_without_a_title_raises(monkeypatch):
    monkeypatch.delitem(api_pages.MODULES, "graphs")
    with pytest.raises(ValueError, match="needs a title for graphs"):
        api_pages.pages()


def test_pages_that_are_equal_are_not_written_again(tmp_path, monkeypatch):
    monkeypatch.setattr(api_pages, "pages", lambda: {"index.rst": "API\n===\n"})
    assert api_pages.write_pages(tmp_path)
    path = tmp_path / "index.rst"
    before = path.stat().st_mtime_ns
    assert not api_pages.write_pages(tmp_path)
    assert path.stat().st_mtime_ns == before


@pytest.fixture
def site(tmp_path):
    """Return a site of two pages without problems."""
    (tmp_path / "index.html").write_text(
        '<link rel="stylesheet" href="site.css"><h1 id="top"></h1><a href="other.html#part">x</a>'
        '<a href="https://example.org">elsewhere</a><img src="a%20b.png">'
    )
    (tmp_path / "other.html").write_text('<h2 id="part"></h2><a href="index.html#top">back</a>')
    (tmp_path / "site.css").write_text("a { color: red; background: url(a%20b.png) }")
    (tmp_path / "a b.png").write_bytes(b"")
    return tmp_path


def found(site):
    pages = {path: site_checks.Page(path.read_text()) for path in site.rglob("*.html")}
    return site_checks.broken_links(site, pages) + site_checks.remote_files(site, pages)


def test_a_good_site_has_no_problems(site):
    assert found(site) == []


@pytest.mark.parametrize(
    ("file", "text", "problem"),
    [
        ("other.html", '<a href="gone.html">x</a><h2 id="part">', "gone.html does not exist"),
        ("other.html", '<a href="index.html#gone">x</a><h2 id="part">', "index.html#gone has no such anchor"),
        ("other.html", '<a href="#gone">x</a><h2 id="part">', "#gone has no such anchor"),
        ("other.html", '<img src="gone.png"><h2 id="part">', "gone.png does not exist"),
        ("other.html", '<script src="https://cdn.example.org/x.js"></script><h2 id="part">', "loads https://cdn"),
        ("site.css", "@import 'https://fonts.example.org/a.css';", "loads https://fonts"),
        ("site.css", "a { background: url(//example.org/a.png) }", "loads //example.org"),
    ],
)
def test_problems_are_found(site, file, text, problem):
    (site / file).write_text(text)
    assert any(problem in line for line in found(site))
