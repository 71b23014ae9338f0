"""A fit that was stopped anywhere goes on where it was, to the bit."""

import os
import time

import numpy as np
import pytest

from mercer import Checkpoint, CheckpointError, DataError, ParameterError
from mercer.engines import Accumulator, Journal, MemoryEngine, StreamEngine
from mercer.engines import checkpoint as journal_module
from mercer.io.archive import read_archive, store, write_archive

ROWS = np.random.default_rng(0).normal(size=(1000, 3)) * np.array([1.0, 1e6, 1e-6])


@pytest.fixture(autouse=True)
def saving_is_cheap(monkeypatch):
    """Save after every block if ``seconds=0``, however fast the blocks are."""
    monkeypatch.setattr(journal_module, "SHARE", 0)


class Stop(Exception):
    pass


class Sum(Accumulator):
    """A sum in place whose last bits tell in which order it was added."""

    def __init__(self):
        self.total = np.zeros(3)

    def add(self, block, workers):
        self.total += (block.X * 0.1).sum(axis=0)

    def result(self):
        return self.total

    def restore(self, state):
        self.total = np.array(state)


def square(block):
    return np.square(block.X).sum(axis=0)


class Parts:
    """A source of parts that counts how often each is read."""

    n_rows = len(ROWS)

    def __init__(self):
        self.reads = []

    def parts(self):
        class Part:
            def __init__(self, owner, number):
                self.owner, self.number = owner, number

            def __iter__(self):
                self.owner.reads.append(self.number)
                for block in np.array_split(ROWS[self.number * 250 : (self.number + 1) * 250], 3):
                    yield (block,)

        return tuple(Part(self, i) for i in range(4))

    def __iter__(self):
        return (block for part in self.parts() for block in part)


def accept(X):
    return X, None, None


def stream(source, jobs):
    return StreamEngine(source, accept, block_rows=lambda X: 37, n_jobs=jobs)


ENGINES = {
    "memory": lambda jobs: MemoryEngine(ROWS, block_rows=64, n_jobs=jobs),
    "list": lambda jobs: stream([(block,) for block in np.array_split(ROWS, 9)], jobs),
    "parts": lambda jobs: stream(Parts(), jobs),
}


def fit(engine, stop_at=None):
    """A fit of three passes that stops by itself at some block of the work."""
    seen = [0]

    def count(block):
        seen[0] += 1
        if seen[0] == stop_at:
            raise Stop

    class Counted(Sum):
        def add(self, block, workers):
            count(block)
            super().add(block, workers)

    def term(block):
        count(block)
        return square(block) / scale

    scale = engine.accumulate(Counted())
    second = engine.sum(term)
    second = second * 1.0  # so that the next pass depends on this one
    scale = second
    return scale, engine.sum(term)


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("kind", ENGINES)
def test_stopped_anywhere_it_goes_on_to_the_bit(kind, jobs, tmp_path):
    through = fit(ENGINES[kind](jobs))
    path = tmp_path / "fit.checkpoint"
    stops = [1, 2, 9, 14, 17, 18, 30, 41, 47, 48]
    for stop in stops:
        engine = ENGINES[kind](jobs)
        engine.journal = Journal(Checkpoint(path, seconds=0), engine, {})
        with pytest.raises(Stop):
            fit(engine, stop)
        engine = ENGINES[kind](jobs)
        engine.journal = Journal(Checkpoint(path, seconds=0), engine, {})
        got = fit(engine)
        assert all(np.array_equal(a, b) for a, b in zip(through, got, strict=True))
        engine.journal.remove()
        assert os.listdir(tmp_path) == []


def test_stopped_again_and_again(tmp_path):
    """Each process does three blocks more; what was done is never done again."""
    through = fit(ENGINES["memory"](1))
    path = tmp_path / "fit.checkpoint"
    for _ in range(15):
        engine = ENGINES["memory"](1)
        engine.journal = Journal(Checkpoint(path, seconds=0), engine, {})
        with pytest.raises(Stop):
            fit(engine, 4)
    engine = ENGINES["memory"](1)
    engine.journal = Journal(Checkpoint(path, seconds=0), engine, {})
    got = fit(engine, 4)  # 3 passes of 16 blocks are 48: three are left
    assert all(np.array_equal(a, b) for a, b in zip(through, got, strict=True))


def test_what_is_done_is_not_read_again(tmp_path):
    path = tmp_path / "fit.checkpoint"
    engine = ENGINES["parts"](1)
    engine.journal = Journal(Checkpoint(path, seconds=0), engine, {})
    with pytest.raises(Stop):
        fit(engine, 36 + 9 * 2 + 4)  # in the third part of the second pass
    engine = ENGINES["parts"](1)
    engine.journal = Journal(Checkpoint(path, seconds=0), engine, {})
    engine.source.reads.clear()
    fit(engine)
    # The second pass from its third part on, and the third pass; a look at the first rows came before.
    assert engine.source.reads == [2, 3, 0, 1, 2, 3]


def test_the_time_so_far_counts(tmp_path):
    path = tmp_path / "fit.checkpoint"

    class Slow(Sum):
        def add(self, block, workers):
            time.sleep(0.02)
            if block.start > 640:
                raise Stop
            super().add(block, workers)

    engine = ENGINES["memory"](1)
    engine.journal = Journal(Checkpoint(path, seconds=0), engine, {})
    with pytest.raises(Stop):
        engine.accumulate(Slow())
    engine = ENGINES["memory"](1)
    engine.journal = Journal(Checkpoint(path, seconds=0), engine, {})
    seen = []
    engine.accumulate(Sum(), seen.append)
    assert seen[0].rows == 768
    assert seen[0].seconds > 0.2  # eleven blocks of 0.02 s
    assert seen[-1].rows == seen[-1].total == 1000


def test_results_that_are_changed_later_were_saved_as_they_were(tmp_path):
    path = tmp_path / "fit.checkpoint"

    def careless(engine, *, stop):
        total = engine.sum(square)
        before = total.copy()
        total *= 0
        if stop:
            engine.accumulate(Sum())  # which saves, now or later
            raise Stop
        return before

    for seconds in (0, 1e6):
        engine = ENGINES["memory"](1)
        engine.journal = Journal(Checkpoint(path, seconds=seconds), engine, {})
        with pytest.raises(Stop):
            careless(engine, stop=True)
        engine.journal._save()
        engine = ENGINES["memory"](1)
        engine.journal = Journal(Checkpoint(path, seconds=0), engine, {})
        assert np.array_equal(careless(engine, stop=False), ENGINES["memory"](1).sum(square))
        engine.journal.remove()


def test_saving_is_rare_unless_it_costs_nothing(tmp_path, monkeypatch):
    saves = []
    plain = journal_module.write_archive
    monkeypatch.setattr(journal_module, "write_archive", lambda *args: (saves.append(1), plain(*args)))
    for seconds, least, most in ((1e6, 1, 1), (0, 49, 52)):
        saves.clear()
        engine = ENGINES["memory"](1)
        engine.journal = Journal(Checkpoint(tmp_path / "fit.checkpoint", seconds=seconds), engine, {})
        fit(engine)
        engine.journal.remove()
        assert least <= len(saves) <= most
    monkeypatch.setattr(journal_module, "SHARE", 1e9)  # now every saving has been too dear
    saves.clear()
    engine = ENGINES["memory"](1)
    engine.journal = Journal(Checkpoint(tmp_path / "fit.checkpoint", seconds=0), engine, {})
    fit(engine)
    assert len(saves) == 2


def test_many_results_do_not_wait_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(journal_module, "WAITING_BYTES", 40)
    engine = ENGINES["memory"](1)
    engine.journal = Journal(Checkpoint(tmp_path / "fit.checkpoint", seconds=1e6), engine, {})
    fit(engine)
    assert read_archive(tmp_path / "fit.checkpoint", "header")["passes"] == 2


def test_engines_that_add_elsewhere_keep_whole_passes(tmp_path):
    class Elsewhere(MemoryEngine):
        resumable = False

    path = tmp_path / "fit.checkpoint"
    engine = Elsewhere(ROWS, block_rows=64, n_jobs=1)
    engine.journal = Journal(Checkpoint(path, seconds=0), engine, {})
    with pytest.raises(Stop):
        fit(engine, 20)
    engine = Elsewhere(ROWS, block_rows=64, n_jobs=1)
    engine.journal = Journal(Checkpoint(path, seconds=0), engine, {})
    got = fit(engine, 33)  # the second and the third pass are 32 blocks
    assert all(np.array_equal(a, b) for a, b in zip(got, fit(ENGINES["memory"](1)), strict=True))


# ---- what is not taken up -----------------------------------------------------------------------


def stopped(path, **facts):
    engine = ENGINES["memory"](1)
    engine.journal = Journal(Checkpoint(path, seconds=0), engine, facts)
    with pytest.raises(Stop):
        fit(engine, 20)
    return path.read_bytes()


def refused(path, engine, match, **facts):
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(CheckpointError, match=match):
        Journal(Checkpoint(path), engine, facts)
    assert before is None or path.read_bytes() == before
    assert [name for name in os.listdir(path.parent) if name.startswith(".")] == []


def test_checkpoints_of_other_fits(tmp_path):
    path = tmp_path / "fit.checkpoint"
    stopped(path, alpha="1.0", learner="KernelRidge")
    engine = ENGINES["memory"](1)
    refused(
        path,
        engine,
        r"of another fit: alpha was 1.0, and is 2.0\. Use another path",
        alpha="2.0",
        learner="KernelRidge",
    )
    refused(path, engine, "alpha was 1.0, and is absent", learner="KernelRidge")
    other = MemoryEngine(ROWS + 1, block_rows=64)
    refused(path, other, "first block of rows was 64 x 3 of float64", alpha="1.0", learner="KernelRidge")
    longer = MemoryEngine(np.concatenate([ROWS, ROWS]), block_rows=64)
    refused(path, longer, "number of rows was 1000, and is 2000", alpha="1.0", learner="KernelRidge")
    refused(path, MemoryEngine(ROWS, block_rows=65), "first block of rows", alpha="1.0", learner="KernelRidge")


def test_rows_that_were_changed_behind_the_first_block(tmp_path):
    path = tmp_path / "fit.checkpoint"
    engine = ENGINES["memory"](1)
    digest = "digest of all rows was [0-9a-f]{16}, and is"
    for place in ((64, 0), (517, 1), (999, 2)):
        changed = ROWS.copy()
        changed[place] += 1
        stopped(path)
        refused(path, MemoryEngine(changed, block_rows=64), digest)
        refused(path, MemoryEngine(ROWS, changed[:, 0], block_rows=64), "first block")
        path.unlink()
        engine = ENGINES["list"](1)
        Journal(Checkpoint(path), engine, {})
        blocks = [(block,) for block in np.array_split(changed, 9)]
        refused(path, stream(blocks, 1), digest if place[0] > 111 else "first block")
        path.unlink()


def test_a_source_says_itself_what_must_be_the_same(tmp_path):
    path = tmp_path / "fit.checkpoint"

    class Versioned(Parts):
        version = 1

        def fingerprint(self):
            return {"version of the rows": str(self.version)}

    Journal(Checkpoint(path), stream(Versioned(), 1), {})
    Journal(Checkpoint(path), stream(Versioned(), 1), {})
    later = Versioned()
    later.version = 2
    refused(path, stream(later, 1), "version of the rows was 1, and is 2")


def test_damaged_checkpoints_and_other_files(tmp_path):
    path = tmp_path / "fit.checkpoint"
    whole = stopped(path)
    engine = ENGINES["memory"](1)
    last = whole.rindex(b"\x93NUMPY") + 130  # in the last array, that of the pass under way
    flipped = [whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :] for i in (500, last)]
    for bad in (whole[: len(whole) // 2], whole[:-1], b"", b"rows of somebody", *flipped):
        path.write_bytes(bad)
        refused(path, engine, "is no checkpoint, or a damaged one.*Nothing was changed")
    np.savez(tmp_path / "data.npz", x=np.ones(3))
    refused(tmp_path / "data.npz", engine, "is something else than a checkpoint")
    (tmp_path / "folder").mkdir()
    refused(tmp_path / "folder", engine, "is something else than a checkpoint")
    write_archive(path, {"header": store({"format": 99})})
    refused(path, engine, "has format 99, which this version of mercer does not know")


def test_a_drawn_map_that_differs(tmp_path):
    path = tmp_path / "fit.checkpoint"
    engine = ENGINES["memory"](1)
    journal = Journal(Checkpoint(path), engine, {})
    journal.witness("the drawn map", lambda X: X[:, :1])
    journal._save()
    again = Journal(Checkpoint(path), engine, {})
    again.witness("the drawn map", lambda X: X[:, :1] * (1 + 1e-7))
    with pytest.raises(CheckpointError, match="the drawn map differs"):
        again.witness("the drawn map", lambda X: X[:, 1:2])
    with pytest.raises(CheckpointError, match="the drawn map differs"):
        again.witness("the drawn map", lambda X: X[:, :2])
    assert again.seed == journal.seed


def test_a_place_that_cannot_be_written_is_found_at_once(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):  # noqa: PT011 - the words are those of the system
        Journal(Checkpoint(tmp_path / "file" / "fit.checkpoint"), ENGINES["memory"](1), {})


@pytest.mark.parametrize(
    ("path", "seconds", "match"), [(3, 1, "must be a path"), ("a", -1, "seconds"), ("a", "b", "seconds")]
)
def test_parameters(path, seconds, match):
    with pytest.raises(ParameterError, match=match):
        Checkpoint(path, seconds)


def test_a_source_that_is_cut_otherwise(tmp_path):
    path = tmp_path / "fit.checkpoint"
    engine = stream([(ROWS,)], 1)
    engine.journal = Journal(Checkpoint(path, seconds=0), engine, {})
    with pytest.raises(Stop):
        fit(engine, 20)
    engine = StreamEngine([(ROWS,)], accept, block_rows=lambda X: 50)
    engine.journal = Journal(Checkpoint(path, seconds=0), engine, {})
    with pytest.raises(DataError, match="is not where a block ends"):
        fit(engine)
