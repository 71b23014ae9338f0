"""The scoreboard: one page that needs nothing else, with every row, and escaped text."""

import math

import pytest

from mercer.reproduce import Cell, Scoreboard
from mercer.reproduce.page import scoreboard_page
from mercer.reproduce.run import Row, TableResult

pytest.importorskip("matplotlib")


def board(name="row <1>"):
    cells = (
        Cell("exact", "exact machine", "exact", 3.0, 2.9, 0.1, 2, 0.5, 10**8),
        Cell("old", "their rule", "paper", 2.0, 2.1, 0.1, 2, 0.5, 10**8),
        Cell("new", "our map", "ours", None, 1.0, math.nan, 1, 0.25, None),
    )
    rows = (Row(name, {"exact": 3.0, "old": 2.0}, cells, "a remark", "lower"),)
    table = TableResult("table", "A table", "Someone.", "Table 1", "error", "%", "lower", "How.", rows, ("x: no file",))
    return Scoreboard((table,), True, "0.0")


def test_the_page_is_complete_and_escaped():
    page = scoreboard_page(board())
    assert "row &lt;1&gt;" in page
    assert "row <1>" not in page
    assert "<script" not in page
    assert "http" not in page.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    )
    for text in ("quick run", "A table", "their rule", "our map", "a remark", "Skipped: x: no file", "better"):
        assert text in page
    assert "In 1 of 1 rows mercer is better" in page


def test_the_page_says_why_a_row_is_worse():
    cells = (Cell("new", "our map", "ours", None, 3.0, 0.1, 2, 0.25, None),)
    rows = (Row("one", {"old": 2.0}, cells, "", "lower", known_reason="The rows <differ>."),)
    table = TableResult("table", "A table", "Someone.", "Table 1", "error", "%", "lower", "How.", rows, ())
    assert "The rows &lt;differ&gt;." in scoreboard_page(Scoreboard((table,), True, "0.0"))
    assert "Why worse" not in scoreboard_page(board())


def test_equal_results_give_equal_bytes():
    assert scoreboard_page(board()) == scoreboard_page(board())


def test_a_board_without_rows():
    assert "No row was run." in scoreboard_page(Scoreboard((), False, "0.0"))
