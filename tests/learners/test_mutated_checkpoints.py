"""Damaged checkpoints give the right bits or CheckpointError; benchmarks/fuzz_checkpoints.py has many more of them."""

from contextlib import nullcontext

import pytest

from mercer.engines import checkpoint as checkpoint_module
from mercer.io import files
from mercer.io.archive import digest_at_end

from . import mutated_checkpoints as mutated

NAMES = ("ridge", "k-means, no seed")
NUMBERS = range(2 * len(mutated.DAMAGES))


@pytest.fixture(scope="module", autouse=True)
def disks_are_fast():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files.os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    return mutated.stages(tmp_path_factory.mktemp("stages"), NAMES)


def judged(cases, numbers=NUMBERS):
    return [mutated.judge(number, cases) for number in numbers]


def numbers_of(damage, end):
    """Return the numbers of cases with one damage."""
    return range(mutated.DAMAGES.index(damage), end, len(mutated.DAMAGES))


def test_damaged_checkpoints_continue_to_the_bit_or_are_refused(cases):
    outcomes = judged(cases)
    assert [outcome for outcome in outcomes if outcome.verdict in mutated.FAULTS] == []
    assert {outcome.verdict for outcome in outcomes if outcome.damage == "nothing"} == {"same bits"}
    assert sum(outcome.verdict == "refused" for outcome in outcomes) > len(outcomes) / 2
    assert {outcome.damage.removesuffix(" during the fit") for outcome in outcomes} == {
        damage.__name__ for damage in mutated.DAMAGES
    }


def test_a_checkpoint_without_its_digest_is_seen(cases, monkeypatch):
    """The same cases with a planted fault: the content of a file is not compared with its digest."""
    monkeypatch.setattr(checkpoint_module, "check_archive", lambda file: digest_at_end(file) or b"")
    numbers = numbers_of(mutated.edit_array, 200)
    assert "wrong answer" in {outcome.verdict for outcome in judged(cases, numbers)}


@pytest.mark.slow
def test_sums_that_are_taken_from_the_path_are_seen(cases, monkeypatch):
    """The planted fault of a fit that takes the file of another process for its own."""
    monkeypatch.setattr(checkpoint_module.Journal, "_check_ours", lambda self: None)
    monkeypatch.setattr(checkpoint_module.Journal, "_check_content", lambda self, file: None)
    write = checkpoint_module.write_archive

    def from_path(path, values, keep, old):
        if old is not None:
            old.close()
        with open(path, "rb") if keep else nullcontext() as found:
            return write(path, values, keep, found)

    monkeypatch.setattr(checkpoint_module, "write_archive", from_path)
    numbers = [number for number in numbers_of(mutated.another_checkpoint, 2000) if number % mutated.DURING == 0]
    assert "wrong answer" in {outcome.verdict for outcome in judged(cases, numbers)}


@pytest.mark.slow
def test_crashes_and_hangs_of_the_child_process_are_seen(tmp_path):
    numbers = [0, mutated.CRASHES, 1, mutated.HANGS, 2]
    outcomes = list(mutated.judge_all(numbers, tmp_path, 5.0, NAMES[:1]))
    assert [outcome.number for outcome in outcomes] == numbers
    assert [outcome.verdict for outcome in outcomes if outcome.number < 0] == ["crash", "hang"]
    assert not {outcome.verdict for outcome in outcomes if outcome.number >= 0} & set(mutated.FAULTS)
