"""Running tables: files that an interrupted run continues from, verdicts, and errors that say what is missing."""

import json
import math

import numpy as np
import pytest

from mercer.errors import DataError, MercerError, ParameterError
from mercer.reproduce import TABLES, Cell, reproduce
from mercer.reproduce.run import Row

ROW = "mixture, n = 500"


def cell(value, error, kind="ours", published=None):
    return Cell(kind, kind, kind, published, value, error, 2, 0.1, None)


def row(better, published, *cells):
    return Row("row", published, cells, "", better)


def test_verdicts_compare_with_the_best_of_the_paper():
    assert row("lower", {"a": 2.0, "b": 1.0}, cell(0.8, 0.1)).verdict == "better"
    assert row("lower", {"a": 2.0, "b": 1.0}, cell(1.05, 0.1)).verdict == "equal"
    assert row("lower", {"a": 2.0, "b": 1.0}, cell(1.5, 0.1)).verdict == "worse"
    assert row("higher", {"a": 2.0, "b": 1.0}, cell(1.5, 0.1)).verdict == "worse"
    assert row("higher", {"a": 2.0}, cell(2.5, math.nan)).verdict == "better"
    assert row("higher", {}, cell(2.5, 0.1)).verdict == "not compared"


def test_rows_with_fewer_data_are_not_compared():
    assert Row("row", {"a": 1.0}, (cell(0.1, 0.1),), "", "lower", smaller=True).verdict == "fewer rows"


def test_rows_where_ours_is_worse_have_a_reason():
    better = row("lower", {"a": 1.0}, cell(0.5, 0.1))
    assert (better.verdict, better.reason) == ("better", "")
    theirs = cell(30.0, 1.0, "paper", published=24.0)
    worse = Row("row", {"paper": 24.0}, (theirs, cell(26.0, 0.1)), "", "lower", known_reason="Few rows.")
    assert worse.reason == "Few rows. Other methods are worse here than in the paper, too: paper 30 instead of 24."
    # For figures of which higher ones are better, 30 instead of 24 is no reason.
    assert row("higher", {"paper": 27.0}, theirs, cell(26.0, 0.1)).reason == "The reason is not known."
    assert json.loads(json.dumps(worse.to_dict()))["verdict"] == "worse"


def test_reasons_belong_to_rows_of_their_tables():
    for table in TABLES.values():
        assert set(table.published.reasons) <= set(table.rows(False))
        assert set(table.published.remarks) <= set(table.rows(False))


def test_exact_figures_need_not_be_exceeded():
    published = TABLES["kar-karnick"].published
    assert published.exact == ["K + LIBSVM"]
    found = Row("row", {"theirs": 95.0}, (cell(99.9, 0.0, "exact", published=99.9), cell(96.0, 0.1)), "", "higher")
    assert found.best_published == 95.0
    assert found.verdict == "better"
    assert found.best("exact").published == 99.9


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reproduced")
    return folder, reproduce("mmd-fuse", folder, output=folder, rows=[ROW], splits=2)


def test_a_row_runs_in_a_process_and_is_stored(finished):
    folder, board = finished
    (table,) = board.tables
    assert [one.name for one in table.rows] == [ROW]
    methods = {one.method: one for one in table.rows[0].cells}
    assert set(methods) == {"median", "ours"}
    assert all(one.n_splits == 2 and 0 <= one.value <= 1 and one.seconds > 0 for one in methods.values())
    assert methods["ours"].peak_bytes > 1e7
    assert "mixture" in str(board)
    json.dumps(board.to_dict(), allow_nan=False)
    assert len(list(folder.glob("*.json"))) == 1
    assert not list(folder.glob("*.part"))


def test_a_second_run_reads_the_stored_figures(finished):
    folder, _ = finished
    (file,) = folder.glob("*.json")
    content = json.loads(file.read_text())
    for one in content["methods"]["ours"]:
        one["value"] = 0.125
    file.write_text(json.dumps(content))
    again = reproduce("mmd-fuse", folder, output=folder, rows=[ROW], splits=2)
    assert {one.value for one in again.tables[0].rows[0].cells if one.method == "ours"} == {0.125}
    # Other settings are another measurement.
    other = reproduce("mmd-fuse", folder, output=folder, rows=[ROW], splits=1)
    assert {one.value for one in other.tables[0].rows[0].cells if one.method == "ours"} <= {0.0, 1.0}


def test_missing_data_are_named_with_their_origin(tmp_path):
    with pytest.raises(DataError, match=r"protein.npz - Protein structure: UCI 265"):
        reproduce("gegenbauer", tmp_path)


def test_unknown_names_are_refused(tmp_path):
    with pytest.raises(ParameterError, match="'munkhoeva'"):
        reproduce("nothing", tmp_path)
    with pytest.raises(ParameterError, match="has no row"):
        reproduce("mmd-fuse", tmp_path, rows=["nothing"])


def test_rows_without_data_are_skipped_and_named(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "ccpp.npz", X=rng.normal(size=(600, 4)), y=rng.normal(size=600))
    rows = ["Powerplant, Arccos 1, n=1", "LETTER, Arccos 1, n=1"]
    board = reproduce("munkhoeva", tmp_path, rows=rows, splits=2)
    (table,) = board.tables
    assert [one.name for one in table.rows] == rows[:1]
    assert "letter.npz" in table.skipped[0]
    best = table.rows[0].best("ours")
    assert best.value < table.rows[0].best("paper").value or best.value < 0.5


def test_a_failure_shows_the_command(tmp_path):
    np.savez(tmp_path / "ccpp.npz", X=np.zeros((10, 4)), y=np.zeros(10))
    with pytest.raises(MercerError, match=r"munkhoeva, Powerplant.* failed: .*mercer.reproduce munkhoeva"):
        reproduce("munkhoeva", tmp_path, rows=["Powerplant, Arccos 1, n=1"], splits=1)
