"""Damaged files of all formats are read as independent readers read them, or refused with an error of mercer.

``python benchmarks/fuzz_files.py`` runs thousands of such cases.
"""

import sys

import pytest

if sys.platform == "win32":
    pytest.skip("limits of memory need a POSIX system", allow_module_level=True)

from .mutated_files import FAULTS, KINDS, files_of, judge_all

NUMBER = 60


@pytest.fixture(scope="module")
def outcomes():
    """Outcomes of damaged files, and of planted faults. One child process judges all of them."""
    cases = [(kind, number, "read") for kind in KINDS for number in range(NUMBER)]
    planted = [
        (kind, number, reader) for reader in ("drop_row", "change_number") for kind in KINDS for number in (0, 1)
    ]
    raw = [(kind, number, "let_errors_through") for kind in ("arrow", "npy") for number in range(20, 40)]
    return judge_all([*cases, *planted, *raw])


def test_damaged_files_are_read_as_by_independent_readers_or_refused(outcomes):
    found = [outcome for outcome in outcomes if outcome.reader == "read"]
    assert len(found) == NUMBER * len(KINDS)
    assert [outcome for outcome in found if outcome.verdict in FAULTS] == []
    for kind in KINDS:
        read = sum(outcome.verdict == "equal" for outcome in found if outcome.kind == kind)
        assert read > NUMBER / 6  # so that there are rows to compare


def test_files_that_are_not_damaged_are_read(outcomes):
    for outcome in outcomes:
        several_arrays = outcome.kind == "npy" and outcome.number == len(files_of("npy")) - 1
        if outcome.reader == "read" and outcome.number < len(files_of(outcome.kind)) and not several_arrays:
            assert outcome.verdict == "equal", outcome


@pytest.mark.parametrize("reader", ["drop_row", "change_number"])
def test_planted_differences_are_detected(reader, outcomes):
    found = [outcome for outcome in outcomes if outcome.reader == reader]
    assert len(found) == 2 * len(KINDS)
    assert {outcome.verdict for outcome in found} == {"other rows"}


def test_planted_raw_errors_are_detected(outcomes):
    found = [outcome.verdict for outcome in outcomes if outcome.reader == "let_errors_through"]
    assert found.count("raw error") > len(found) / 4  # the others are read, or raise an error of mercer at once


@pytest.mark.slow
def test_planted_crashes_and_hangs_are_detected_and_the_next_case_is_judged():
    cases = [("npy", 0, "crash"), ("npy", 1, "read"), ("npy", 2, "hang"), ("npy", 3, "read")]
    found = judge_all(cases, limit=5)
    assert [outcome.verdict for outcome in found] == ["crash", "equal", "hang", "equal"]
    assert "exit code -11" in found[0].detail
