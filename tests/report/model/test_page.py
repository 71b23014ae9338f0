"""The page of a fitted model is self-contained, complete, accessible and safe, whatever the result contains."""

import re
import sys
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from mercer.errors import DataError, MissingPackageError
from mercer.report import model_page
from mercer.report.numbers import seconds

from ..elements import Elements
from .results import CASES, HOSTILE, classification, regression

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

LARGEST = 500_000


@pytest.fixture(scope="module", params=list(CASES))
def page(request):
    return model_page(CASES[request.param]())


def test_page_is_valid_small_and_loads_nothing(page):
    assert page.startswith("<!doctype html>\n")
    assert len(page.encode()) < LARGEST
    parsed = Elements(page)
    for tag, attributes in parsed.elements:
        assert tag not in {"script", "link", "iframe", "object", "embed", "img", "form"}
        assert not any(name.startswith("on") for name in attributes)
        for name in ("src", "href", "xlink:href", "action", "data", "srcset"):
            assert attributes.get(name, "#").startswith("#"), (tag, attributes)
    assert "://" not in page
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)


def test_figures_have_alternative_text_and_table_headers_a_scope(page):
    parsed = Elements(page)
    pictures = [a for _, a in parsed.elements if a.get("role") == "img"]
    drawings = [a for tag, a in parsed.elements if tag == "svg"]
    assert len(pictures) == len(drawings)
    assert all(len(a["aria-label"]) > 20 for a in pictures)
    assert all(a["aria-hidden"] == "true" for a in drawings)
    assert all(a["scope"] in ("col", "row") for tag, a in parsed.elements if tag == "th")
    assert sum(tag == "table" for tag, _ in parsed.elements) == sum(tag == "caption" for tag, _ in parsed.elements)
    headings = [int(tag[1]) for tag, _ in parsed.elements if re.fullmatch(r"h[1-6]", tag)]
    assert headings[0] == 1
    assert headings.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(headings))


def test_every_internal_reference_has_exactly_one_target(page):
    parsed = Elements(page)
    counts = Counter(attributes["id"] for _, attributes in parsed.elements if "id" in attributes)
    assert max(counts.values()) == 1
    wanted = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)|aria-labelledby="([^"]+)"', page)
    assert page.count("aria-labelledby=") == page.count("<section ") > 0
    assert {name for names in wanted for name in names if name} <= set(counts)


def test_figures_use_the_color_variables_of_the_page(page):
    for placeholder in ("#010101", "#020202", "#030303", "#040404", "#0a0a0"):
        assert placeholder not in page
    assert set(re.findall(r"var\((--[\w-]+)\)", page)) <= set(re.findall(r"(--[\w-]+):", page))


def test_no_sentence_has_a_number_that_is_not_defined(page):
    text = Elements(page).text
    assert not re.search(r"\b(nan|inf|None)\b", text)


def luminance(color):
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def mixed(color, ground, opacity):
    channels = (
        round(opacity * int(color[i : i + 2], 16) + (1 - opacity) * int(ground[i : i + 2], 16)) for i in (1, 3, 5)
    )
    return "#" + "".join(f"{channel:02x}" for channel in channels)


def palettes(page):
    light, dark = re.findall(r":root \{(.*?)\}", page, re.DOTALL)[:2]
    return [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", part)) for part in (light, dark)]


def test_contrast_of_text_is_at_least_four_and_a_half_in_light_and_dark():
    from mercer.report.model.figures import DARKEST

    page = model_page(regression())
    both = palettes(page)
    assert len(both) == 2
    for colors in both:
        for ground in ("paper", "page"):
            for text in ("ink", "muted"):
                assert contrast(colors[text], colors[ground]) >= 4.5, (text, ground)
        for i in range(4):  # names of panels and the chosen point are text in these colors
            assert contrast(colors[f"series-{i}"], colors["paper"]) >= 4.5
        for i in range(2):  # numbers in cells of the confusion matrix
            assert contrast(colors["ink"], mixed(colors[f"series-{i}"], colors["paper"], DARKEST)) >= 4.5
    assert "@media screen and (prefers-color-scheme: dark)" in page


def test_hostile_names_are_escaped_and_complete():
    page = model_page(CASES["hostile"]())
    assert "<script" not in page
    assert page.count("</style>") == page.count("</title>") == 1
    text = Elements(page).text
    for name in HOSTILE:
        assert " ".join(name.split()) in text
    assert "49" not in re.findall(r"<h1>(.*?)</h1>", page)[0]


def test_page_starts_with_the_score_its_interval_and_the_other_models():
    text = Elements(model_page(regression())).text
    found = re.search(r"The model explains ([\d.]+) % of the variance of new rows \(R2 ([\d.]+), 95 % interval", text)
    assert abs(float(found[1]) / 100 - float(found[2])) < 0.006
    assert re.search(r"to [\d.]+\), a linear model [\d.]+ %\.", text)
    text = Elements(model_page(classification())).text
    assert re.search(
        r"labels [\d.]+ % of new rows correctly \(95 % interval [\d.]+ to [\d.]+ %\), HistGradientBoosting [\d.]+ %",
        text,
    )


def test_page_has_what_was_measured():
    result = regression()
    text = Elements(model_page(result)).text
    for one in result.contenders:
        assert one.name in text
        assert seconds(one.fit_seconds) in text
    for title in ("Predictions and true values", "Residuals", "Error bars", "Learning curve", "Columns that matter"):
        assert title in text
    for one in result.importances:
        assert one.column in text
    assert "0.396 ± 0.003" in text
    assert "450.0 MB" in text
    assert result.command in text
    assert "random_state=7" in text
    assert "chosen" in text
    assert "model.mercer" in text
    assert "someone" not in text


def test_page_of_labels_has_calibration_confusion_and_mistakes():
    text = Elements(model_page(CASES["letters"]())).text
    for title in (
        "Calibration of the probabilities",
        "Confusion of labels",
        "found least often",
        "most frequent mistakes",
    ):
        assert title in text
    assert "Residuals" not in text


def test_parts_that_are_missing_have_no_section():
    text = Elements(model_page(CASES["nothing else"]())).text
    for title in ("Learning curve", "Columns that matter", "Error of the kernel", "What was chosen", "Error bars"):
        assert title not in text


def test_equal_results_give_equal_bytes():
    assert model_page(classification()) == model_page(classification())


def test_few_test_rows_are_a_warning():
    assert "only 10 test rows" in Elements(model_page(CASES["ten labels"]())).text
    assert "only" not in Elements(model_page(regression())).text.partition("Scores beside")[0]


def test_importing_reports_imports_neither_figures_nor_learners():
    import subprocess

    code = "import mercer.report, sys; print(sorted({'matplotlib', 'jinja2', 'numpy', 'sklearn'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_a_result_without_scores_and_a_missing_package_are_errors(monkeypatch):
    with pytest.raises(DataError, match="at least one score"):
        model_page(replace(regression(), contenders=()))
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingPackageError, match=r"mercer\[report\]"):
        model_page(regression())
