"""The page stands alone, says all that was measured, and can be read by everyone."""

import re
import sys
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from mercer.report.numbers import memory, percent, seconds, significant
from mercer.report.page import demo_page, missing_packages

VOID = {"meta", "br", "link", "img", "hr"}


class Elements(HTMLParser):
    """Collects elements and text, and fails on tags that do not match."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.open, self.words = [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"line {self.getpos()[0]}"

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open):
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split()).replace("\N{NO-BREAK SPACE}", " ")


@pytest.fixture(scope="module")
def parsed(page):
    return Elements(page)


def test_tags_match_and_the_language_is_given(page, parsed):
    assert page.startswith("<!doctype html>")
    assert parsed.elements[0] == ("html", {"lang": "en"})


def test_nothing_comes_from_elsewhere(page, parsed):
    for tag, attributes in parsed.elements:
        assert tag not in {"script", "link", "iframe", "object", "embed"}
        for name in ("src", "href", "xlink:href", "action", "data"):
            assert attributes.get(name, "#").startswith(("#", "data:")), (tag, attributes)
    assert "://" not in page
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)


def test_every_reference_inside_the_page_has_one_target(page, parsed):
    counts = Counter(attributes["id"] for _, attributes in parsed.elements if "id" in attributes)
    assert max(counts.values()) == 1
    wanted = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)|aria-labeledby="([^"]+)"', page)
    assert {name for names in wanted for name in names if name} <= set(counts)


def test_all_numbers_of_the_table_are_there(demo, parsed):
    for one in demo.contenders:
        assert one.name in parsed.text
        for number in (
            percent(one.accuracy),
            percent(one.audit.relative_error, 2),
            significant(one.audit.rmse),
            seconds(one.fit_seconds),
            seconds(one.transform_seconds),
            memory(one.peak_bytes),
        ):
            assert number in parsed.text


def test_every_picture_has_a_text_and_every_table_cell_a_heading(parsed):
    pictures = [a for tag, a in parsed.elements if a.get("role") == "img" or tag == "img"]
    assert len(pictures) >= 4
    assert all(len(a.get("alt") or a.get("aria-label", "")) > 10 for a in pictures)
    drawings = [attributes for tag, attributes in parsed.elements if tag == "svg"]
    assert all("aria-label" in a or a.get("aria-hidden") == "true" for a in drawings)
    assert all(attributes["scope"] in ("col", "row") for tag, attributes in parsed.elements if tag == "th")


def test_the_colors_are_the_page_s_so_that_dark_mode_reaches_the_pictures(page):
    assert "prefers-color-scheme: dark" in page
    for placeholder in ("#010101", "#020202", "#030303", "#040404", "#0a0a0"):
        assert placeholder not in page
    defined = set(re.findall(r"(--[\w-]+):", page))
    assert set(re.findall(r"var\((--[\w-]+)\)", page)) <= defined


def test_no_name_of_a_machine_or_a_path(page):
    import os
    import platform

    assert os.getcwd() not in page
    assert sys.prefix not in page
    assert platform.node() == "" or f" {platform.node()} " not in page


def test_equal_results_give_equal_pages(demo, page):
    assert demo_page(demo) == page


def test_text_is_escaped(demo):
    page = demo_page(replace(demo, environment=replace(demo.environment, system="<script>alert(1)</script>")))
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_a_run_without_mistakes_says_so(demo):
    assert "every test digit was read correctly" in Elements(demo_page(replace(demo, mistakes=()))).text


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert missing_packages() == ["jinja2"]
