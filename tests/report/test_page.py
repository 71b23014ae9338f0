"""The page is self-contained, complete and accessible."""

import re
import sys
from collections import Counter
from dataclasses import replace

import pytest

from mercer.report.numbers import memory, percent, seconds, significant
from mercer.report.page import demo_page, missing_packages

from .elements import Elements


@pytest.fixture(scope="module")
def parsed(page):
    return Elements(page)


def test_tags_are_balanced_and_the_language_is_given(page, parsed):
    assert page.startswith("<!doctype html>")
    assert parsed.elements[0] == ("html", {"lang": "en"})


def test_page_loads_nothing_from_elsewhere(page, parsed):
    for tag, attributes in parsed.elements:
        assert tag not in {"script", "link", "iframe", "object", "embed"}
        for name in ("src", "href", "xlink:href", "action", "data"):
            assert attributes.get(name, "#").startswith(("#", "data:")), (tag, attributes)
    assert "://" not in page
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)


def test_every_internal_reference_has_exactly_one_target(page, parsed):
    counts = Counter(attributes["id"] for _, attributes in parsed.elements if "id" in attributes)
    assert max(counts.values()) == 1
    wanted = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)|aria-labelledby="([^"]+)"', page)
    assert page.count("aria-labelledby=") == page.count("<section ") > 0
    assert {name for names in wanted for name in names if name} <= set(counts)


def test_table_has_all_measurements(demo, parsed):
    for one in demo.contenders:
        assert one.name in parsed.text
        for number in (
            percent(one.accuracy),
            percent(one.audit.relative_error, 2),
            significant(one.audit.rmse),
            f"at most {significant(one.audit.max_error)}",
            seconds(one.fit_seconds),
            seconds(one.transform_seconds),
            memory(one.peak_bytes),
        ):
            assert number in parsed.text


def test_race_is_on_the_page(demo, parsed):
    (race,) = demo.races
    for one in race.runners:
        assert one.name in parsed.text
        assert f"{one.score:.3f}" in parsed.text
    assert race.runners[0].explanation.splitlines()[0] in parsed.text
    assert "What mercer chose" not in demo_page(replace(demo, races=()))


def test_figures_have_alternative_text_and_table_headers_a_scope(parsed):
    pictures = [a for tag, a in parsed.elements if a.get("role") == "img" or tag == "img"]
    assert len(pictures) >= 4
    assert all(len(a.get("alt") or a.get("aria-label", "")) > 10 for a in pictures)
    drawings = [attributes for tag, attributes in parsed.elements if tag == "svg"]
    assert all("aria-label" in a or a.get("aria-hidden") == "true" for a in drawings)
    assert all(attributes["scope"] in ("col", "row") for tag, attributes in parsed.elements if tag == "th")


def test_figures_use_the_color_variables_of_the_page(page):
    assert "prefers-color-scheme: dark" in page
    for placeholder in ("#010101", "#020202", "#030303", "#040404", "#0a0a0"):
        assert placeholder not in page
    defined = set(re.findall(r"(--[\w-]+):", page))
    assert set(re.findall(r"var\((--[\w-]+)\)", page)) <= defined


def test_page_has_no_host_name_and_no_path(page):
    import os
    import platform

    assert os.getcwd() not in page
    assert sys.prefix not in page
    assert platform.node() == "" or f" {platform.node()} " not in page


def test_equal_results_give_equal_pages(demo, page):
    assert demo_page(demo) == page


def test_values_are_escaped(demo):
    page = demo_page(replace(demo, environment=replace(demo.environment, system="<script>alert(1)</script>")))
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_page_of_a_run_without_misclassified_digits(demo):
    assert "Every test digit was classified correctly" in Elements(demo_page(replace(demo, mistakes=()))).text


def test_missing_packages_are_returned(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert missing_packages() == ["jinja2"]
