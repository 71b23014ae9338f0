"""Damaged and forged model files are refused, or give predictions; benchmarks/fuzz_models.py has many more of them."""

import pytest

from mercer.io import files, sealed

from . import mutated_models as mutated

NAMES = ("butterflies", "near rows", "process", "sketch", "dense", "kernel", "metric")
NUMBERS = range(3 * len(mutated.DAMAGES))


@pytest.fixture(scope="module", autouse=True)
def disks_are_fast():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files.os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    return mutated.cases_of(tmp_path_factory.mktemp("models"), NAMES)


def test_changed_files_are_refused_or_predict(cases):
    outcomes = [mutated.judge(number, cases) for number in NUMBERS]
    assert [outcome for outcome in outcomes if outcome.verdict in mutated.FAULTS] == []
    assert {outcome.verdict for outcome in outcomes if outcome.damage == "nothing"} == {"same bits"}
    damaged = [outcome for outcome in outcomes if not outcome.damage.startswith(("forged", "nothing"))]
    assert sum(outcome.verdict == "refused" for outcome in damaged) > 0.9 * len(damaged)
    assert {outcome.damage for outcome in outcomes} == {damage.__name__ for damage in mutated.DAMAGES}


def test_damage_is_seen_without_digests(tmp_path, monkeypatch):
    """A planted fault: all digests are equal."""
    monkeypatch.setattr(sealed, "_digest", lambda parts: "0" * 64)
    monkeypatch.setattr(sealed.SealedArchive, "_structure_digest", lambda self, size: self._read(size - 64, 64))
    cases = mutated.cases_of(tmp_path, ("dense",))
    numbers = range(mutated.DAMAGES.index(mutated.flip_bits), 8000, len(mutated.DAMAGES))
    assert "wrong answer" in {mutated.judge(number, cases).verdict for number in numbers}


@pytest.mark.slow
def test_crashes_and_hangs_of_the_child_process_are_seen(tmp_path):
    numbers = [0, mutated.CRASHES, 1, mutated.HANGS, 2]
    outcomes = list(mutated.judge_all(numbers, tmp_path, 5.0, NAMES[:1]))
    assert [outcome.number for outcome in outcomes] == numbers
    assert [outcome.verdict for outcome in outcomes if outcome.number < 0] == ["crash", "hang"]
    assert not {outcome.verdict for outcome in outcomes if outcome.number >= 0} & set(mutated.FAULTS)
