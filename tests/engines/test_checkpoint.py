"""Fits that are interrupted anywhere continue where they were, to the bit."""

import errno
import os
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest

from mercer import Checkpoint, CheckpointError, DataError, MercerWarning, ParameterError
from mercer.engines import Accumulator, CheckpointedEngine, Engine, MemoryEngine, StreamEngine
from mercer.engines import checkpoint as checkpoint_module
from mercer.io import files, locks
from mercer.io.archive import read_archive, store, write_archive

pytestmark = pytest.mark.covering(1)

ROWS = np.random.default_rng(0).normal(size=(1000, 3)) * np.array([1.0, 1e6, 1e-6])


@pytest.fixture(autouse=True)
def saving_is_cheap(monkeypatch):
    """Save after every block if ``seconds=0``, however fast the blocks are."""
    monkeypatch.setattr(checkpoint_module, "SHARE", 0)


class Stop(Exception):
    pass


class Sum(Accumulator):
    """A sum in place whose last bits depend on the order of the additions."""

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


OPEN = {}


def saved(engine, path, seconds=0, **fingerprint):
    """Return an engine that saves its sums, after every block unless `seconds` specifies otherwise.

    An earlier one on the same path is closed, as if its process had ended.
    """
    close(path)
    OPEN[path] = CheckpointedEngine(engine, Checkpoint(path, seconds=seconds), fingerprint)
    return OPEN[path]


def close(path):
    if path in OPEN:
        OPEN.pop(path).close()


@pytest.fixture(autouse=True)
def nothing_stays_open():
    yield
    for path in list(OPEN):
        close(path)


def fit(engine, stop_at=None):
    """Run three passes, of which later ones depend on earlier ones, and raise `Stop` at some block."""
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


@pytest.mark.covering(0)
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("kind", ENGINES)
def test_a_fit_that_is_stopped_anywhere_continues_to_the_bit(kind, jobs, tmp_path):
    through = fit(ENGINES[kind](jobs))
    path = tmp_path / "fit.checkpoint"
    stops = [1, 2, 9, 14, 17, 18, 30, 41, 47, 48]
    for stop in stops:
        engine = saved(ENGINES[kind](jobs), path)
        with pytest.raises(Stop):
            fit(engine, stop)
        engine = saved(ENGINES[kind](jobs), path)
        got = fit(engine)
        assert all(np.array_equal(a, b) for a, b in zip(through, got, strict=True))
        engine.remove()
        engine.close()
        assert os.listdir(tmp_path) == []


def test_stopped_again_and_again(tmp_path):
    """Each process adds three blocks, and no block is added twice."""
    through = fit(ENGINES["memory"](1))
    path = tmp_path / "fit.checkpoint"
    for _ in range(15):
        engine = saved(ENGINES["memory"](1), path)
        with pytest.raises(Stop):
            fit(engine, 4)
    engine = saved(ENGINES["memory"](1), path)
    got = fit(engine, 4)  # 3 passes of 16 blocks are 48: three are left
    assert all(np.array_equal(a, b) for a, b in zip(through, got, strict=True))


def test_finished_parts_are_not_read_again(tmp_path):
    path = tmp_path / "fit.checkpoint"
    engine = saved(ENGINES["parts"](1), path)
    with pytest.raises(Stop):
        fit(engine, 36 + 9 * 2 + 4)  # in the third part of the second pass
    engine = saved(ENGINES["parts"](1), path)
    engine.engine.source.reads.clear()
    fit(engine)
    # The second pass from its third part on, and the third pass; a look at the first rows came before.
    assert engine.engine.source.reads == [2, 3, 0, 1, 2, 3]


def test_the_time_of_an_interrupted_pass_counts(tmp_path):
    path = tmp_path / "fit.checkpoint"

    class Slow(Sum):
        def add(self, block, workers):
            time.sleep(0.02)
            if block.start > 640:
                raise Stop
            super().add(block, workers)

    engine = saved(ENGINES["memory"](1), path)
    with pytest.raises(Stop):
        engine.accumulate(Slow())
    engine = saved(ENGINES["memory"](1), path)
    seen = []
    engine.accumulate(Sum(), seen.append)
    assert seen[0].rows == 768
    assert seen[0].seconds > 0.2  # eleven blocks of 0.02 s
    assert seen[-1].rows == seen[-1].total == 1000


def test_results_are_saved_before_the_caller_changes_them(tmp_path):
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
        engine = saved(ENGINES["memory"](1), path, seconds=seconds)
        with pytest.raises(Stop):
            careless(engine, stop=True)
        engine._journal._save()
        engine = saved(ENGINES["memory"](1), path)
        assert np.array_equal(careless(engine, stop=False), ENGINES["memory"](1).sum(square))
        engine.remove()


def test_saving_is_rare_where_it_is_expensive(tmp_path, monkeypatch):
    saves = []
    plain = checkpoint_module.write_archive
    monkeypatch.setattr(checkpoint_module, "write_archive", lambda *args: (saves.append(1), plain(*args))[1])
    for seconds, least, most in ((1e6, 1, 1), (0, 49, 52)):
        saves.clear()
        engine = saved(ENGINES["memory"](1), tmp_path / "fit.checkpoint", seconds=seconds)
        fit(engine)
        engine.remove()
        assert least <= len(saves) <= most
    monkeypatch.setattr(checkpoint_module, "SHARE", 1e9)  # now every saving was too expensive
    saves.clear()
    engine = saved(ENGINES["memory"](1), tmp_path / "fit.checkpoint")
    fit(engine)
    assert len(saves) == 2


def test_many_results_do_not_wait_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint_module, "WAITING_BYTES", 40)
    engine = saved(ENGINES["memory"](1), tmp_path / "fit.checkpoint", seconds=1e6)
    fit(engine)
    assert read_archive(tmp_path / "fit.checkpoint", "header")["passes"] == 2


class Elsewhere(Engine):
    """An engine whose passes cannot be interrupted, such as one on a cluster."""

    replayable, n_rows, n_jobs = True, len(ROWS), 1

    def __init__(self):
        self.inner = ENGINES["memory"](1)

    def first(self):
        return self.inner.first()

    def blocks(self, since=None):
        return self.inner.blocks(since)

    def sum(self, term, progress=None):
        return self.inner.sum(term, progress)

    def accumulate(self, into, progress=None):
        return self.inner.accumulate(into, progress)

    def fingerprint(self):
        return self.inner.fingerprint()


def test_engines_that_cannot_be_interrupted_save_complete_passes(tmp_path):
    path = tmp_path / "fit.checkpoint"
    with pytest.raises(Stop):
        fit(saved(Elsewhere(), path), 20)
    got = fit(saved(Elsewhere(), path), 33)  # the second and the third pass are 32 blocks
    assert all(np.array_equal(a, b) for a, b in zip(got, fit(ENGINES["memory"](1)), strict=True))


def test_rows_in_memory_are_those_of_the_engine(tmp_path):
    engine = ENGINES["memory"](1)
    saving = saved(engine, tmp_path / "fit.checkpoint")
    assert saving.in_memory is engine.in_memory
    assert (saving.n_rows, saving.replayable) == (1000, True)
    assert np.array_equal(saving.first().X, ROWS[:64])
    assert sum(map(len, saving.blocks())) == 1000


# ---- checkpoints of other fits ----------------------------------------------------------------


def stopped(path, **fingerprint):
    engine = saved(ENGINES["memory"](1), path, **fingerprint)
    with pytest.raises(Stop):
        fit(engine, 20)
    close(path)
    return path.read_bytes()


def refused(path, engine, match, **fingerprint):
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(CheckpointError, match=match):
        saved(engine, path, **fingerprint)
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
    for entry in ((64, 0), (517, 1), (999, 2)):
        changed = ROWS.copy()
        changed[entry] += 1
        stopped(path)
        refused(path, MemoryEngine(changed, block_rows=64), digest)
        refused(path, MemoryEngine(ROWS, changed[:, 0], block_rows=64), "first block")
        path.unlink()
        engine = ENGINES["list"](1)
        saved(engine, path)
        blocks = [(block,) for block in np.array_split(changed, 9)]
        refused(path, stream(blocks, 1), digest if entry[0] > 111 else "first block")
        path.unlink()


def test_a_source_provides_its_own_fingerprint(tmp_path):
    path = tmp_path / "fit.checkpoint"

    class Versioned(Parts):
        version = 1

        def fingerprint(self):
            return {"version of the rows": str(self.version)}

    saved(stream(Versioned(), 1), path)
    saved(stream(Versioned(), 1), path)
    later = Versioned()
    later.version = 2
    refused(path, stream(later, 1), "version of the rows was 1, and is 2")


def test_damaged_checkpoints_and_other_files(tmp_path):
    path = tmp_path / "fit.checkpoint"
    whole = stopped(path)
    engine = ENGINES["memory"](1)
    last = whole.rindex(b"\x93NUMPY") + 130  # in the last array, that of the current pass
    flipped = [whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :] for i in (500, last)]
    for bad in (whole[: len(whole) // 2], whole[:-1], b"", b"rows of somebody", *flipped):
        path.write_bytes(bad)
        refused(path, engine, "is not a checkpoint, or it is damaged.*Nothing was changed")
    np.savez(tmp_path / "data.npz", x=np.ones(3))
    refused(
        tmp_path / "data.npz", engine, "is not a checkpoint, or .* does not end with a digest.* Nothing was changed"
    )
    write_archive(path, {"other": store(1)})
    refused(path, engine, "is not a checkpoint. Nothing was changed")
    (tmp_path / "folder").mkdir()
    refused(tmp_path / "folder", engine, "is not a checkpoint. Nothing was changed")
    write_archive(path, {"header": store({"format": 99})})
    refused(path, engine, "has format 99, which this version of mercer cannot read")


def test_a_drawn_map_that_differs(tmp_path):
    path = tmp_path / "fit.checkpoint"
    first = saved(ENGINES["memory"](1), path)
    first.check_same("the drawn map", lambda X: X[:, :1])
    first._journal._save()
    again = saved(ENGINES["memory"](1), path)
    again.check_same("the drawn map", lambda X: X[:, :1] * (1 + 1e-7))
    with pytest.raises(CheckpointError, match="the drawn map differs"):
        again.check_same("the drawn map", lambda X: X[:, 1:2])
    with pytest.raises(CheckpointError, match="the drawn map differs"):
        again.check_same("the drawn map", lambda X: X[:, :2])
    assert again.seed == first.seed


def test_a_path_that_cannot_be_written_raises_at_once(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match=r"cannot be written: .*\. Nothing was fitted yet\. Use another path"):
        saved(ENGINES["memory"](1), tmp_path / "file" / "fit.checkpoint")


@pytest.mark.parametrize(
    ("path", "seconds", "match"), [(3, 1, "must be a path"), ("a", -1, "seconds"), ("a", "b", "seconds")]
)
def test_parameters(path, seconds, match):
    with pytest.raises(ParameterError, match=match):
        Checkpoint(path, seconds)


def test_blocks_of_another_size_raise(tmp_path):
    path = tmp_path / "fit.checkpoint"
    engine = saved(stream([(ROWS,)], 1), path)
    with pytest.raises(Stop):
        fit(engine, 20)
    engine = saved(StreamEngine([(ROWS,)], accept, block_rows=lambda X: 50), path)
    with pytest.raises(DataError, match="is not where a block ends"):
        fit(engine)


# ---- other processes, full disks, removed and damaged files -------------------------------------


def bits(values):
    return [value.tobytes() for value in values]


def test_a_second_fit_on_the_same_path_names_the_first(tmp_path):
    path = tmp_path / "fit.checkpoint"
    first = saved(ENGINES["memory"](1), path)
    with pytest.raises(Stop):
        fit(first, 20)
    before = path.read_bytes()
    match = rf"in use: process {os.getpid()} on .* since .* UTC \(this process\) is fitting .* or use another path"
    for remove in (False, True):
        if remove:  # to start over, while the first fit still runs
            path.unlink()
        with pytest.raises(CheckpointError, match=match):
            CheckpointedEngine(ENGINES["memory"](1), Checkpoint(path), {})
    path.write_bytes(before)
    got = fit(saved(ENGINES["memory"](1), path))  # closes the first
    assert bits(got) == bits(fit(ENGINES["memory"](1)))


FIT = """
import sys, time
import numpy as np
from mercer import Checkpoint
from mercer.engines import CheckpointedEngine, MemoryEngine
with CheckpointedEngine(MemoryEngine(np.ones((4, 2)), block_rows=2), Checkpoint(sys.argv[1]), {}):
    print("fitting", flush=True)
    sys.stdin.read()
"""


def test_a_fit_of_another_process_excludes_others_until_it_is_killed(tmp_path):
    path = tmp_path / "fit.checkpoint"
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    command = [sys.executable, "-c", FIT, str(path)]
    engine = MemoryEngine(np.ones((4, 2)), block_rows=2)
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "fitting\n"
        with pytest.raises(CheckpointError, match=f"in use: process {process.pid} on "):
            saved(engine, path)
        process.kill()
    left = path.with_name(".fit.checkpoint.0123456789abcdef.part")
    left.write_bytes(b"half")
    saved(engine, path)
    assert not left.exists()


@pytest.mark.parametrize("is_in_place", [True, False])
@pytest.mark.parametrize("has_locks", [True, False])
def test_sums_of_two_fits_are_never_mixed(has_locks, is_in_place, tmp_path, monkeypatch):
    """While one fit runs, the file of another one takes the place of its file."""
    if not has_locks:
        monkeypatch.setattr(locks, "fcntl", None)
        monkeypatch.setattr(checkpoint_module.warnings, "warn", lambda *_, **__: None)
    path, other = tmp_path / "fit.checkpoint", tmp_path / "other.checkpoint"
    second = saved(ENGINES["memory"](1), other)
    with pytest.raises(Stop):
        fit(second, 20)
    first = saved(ENGINES["memory"](1), path)
    with pytest.raises(Stop):
        fit(first, 20)
    close(path)
    first = saved(ENGINES["memory"](1), path)
    assert second.seed != first.seed
    if is_in_place:
        shutil.copy(other, path)
    else:
        os.link(other, tmp_path / "copy")
        os.replace(tmp_path / "copy", path)
    before = path.read_bytes()
    with pytest.raises(CheckpointError, match=r"(replaced or changed by another|another process changed it).* during"):
        fit(first)
    first.remove()  # not the file of the other
    assert path.read_bytes() == before


def test_systems_without_locks_warn_once_and_remove_no_temporary_file(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "fcntl", None)
    left = tmp_path / ".fit.checkpoint.0123456789abcdef.part"
    left.write_bytes(b"perhaps of a fit that runs")
    with pytest.warns(MercerWarning, match="on a file system without locks") as caught:
        fit(saved(ENGINES["memory"](1), tmp_path / "fit.checkpoint"))
    assert len(caught) == 1
    assert left.exists()


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_checkpoint_that_is_removed_during_a_fit_is_written_again(what, tmp_path):
    path = tmp_path / "folder" / "fit.checkpoint"
    engine = saved(ENGINES["memory"](1), path)
    first = engine.accumulate(Sum())

    def remove(block):
        if block.start == 320:
            path.unlink() if what == "file" else shutil.rmtree(path.parent)
        elif block.start == 640:
            assert path.exists()
            raise Stop
        return square(block)

    with pytest.raises(Stop):
        engine.sum(remove)
    engine = saved(ENGINES["memory"](1), path)
    assert np.array_equal(engine.accumulate(None), first)  # the sum of a pass that was in the removed file
    assert np.array_equal(engine.sum(square), ENGINES["memory"](1).sum(square))
    path.unlink()
    engine.remove()
    engine.close()
    assert os.listdir(path.parent) == []


@pytest.mark.parametrize("is_dangling", [False, True])
def test_links_are_refused_and_not_followed(is_dangling, tmp_path):
    path, precious = tmp_path / "fit.checkpoint", tmp_path / "precious"
    if not is_dangling:
        precious.write_text("precious")
    path.symlink_to(precious)
    with pytest.raises(CheckpointError, match=r"it is a symbolic link.* Pass the path of the file itself"):
        saved(ENGINES["memory"](1), path)
    assert sorted(os.listdir(tmp_path)) == ["fit.checkpoint"] + ["precious"] * (not is_dangling)
    assert is_dangling or precious.read_text() == "precious"


def test_a_link_that_waits_for_the_temporary_file_is_not_followed(tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (tmp_path / ".fit.checkpoint.part").symlink_to(precious)
    stopped(tmp_path / "fit.checkpoint")
    assert precious.read_text() == "precious"


ERRORS = {
    errno.ENOSPC: r"No space left on device \(it needs about [\d,]+ bytes, and [\d,]+ bytes are free\)",
    errno.EDQUOT: r"Disk quota exceeded \(it needs about [\d,]+ bytes\)",
    errno.EROFS: "Read-only file system",
    errno.EACCES: "Permission denied",
    errno.EIO: "Input/output error",
}


@pytest.mark.covering(1)
@pytest.mark.parametrize("number", ERRORS)
def test_a_checkpoint_that_cannot_be_written_leaves_the_previous_one(number, tmp_path, monkeypatch):
    path = tmp_path / "fit.checkpoint"
    engine = saved(ENGINES["memory"](1), path)

    def fail(*_):
        raise OSError(number, os.strerror(number))

    calls = []

    def after_some(block):
        calls.append(block)
        if len(calls) == 12:
            monkeypatch.setattr(files.os, "fsync", fail)
        return square(block)

    first = engine.accumulate(Sum())
    match = (
        rf"cannot be written: {ERRORS[number]}\. The previous checkpoint is unchanged, with 1 finished passes\..*again"
    )
    with pytest.raises(CheckpointError, match=match) as caught:
        engine.sum(after_some)
    assert caught.value.__cause__.errno == number
    monkeypatch.undo()
    close(path)
    assert os.listdir(tmp_path) == ["fit.checkpoint"]
    engine = saved(ENGINES["memory"](1), path)
    calls.clear()
    assert np.array_equal(engine.accumulate(None), first)
    assert np.array_equal(
        engine.sum(lambda block: (calls.append(1), square(block))[1]), ENGINES["memory"](1).sum(square)
    )
    assert len(calls) == 5  # of 16 blocks, 11 were saved


# The size of files is limited, since a full disk is not at hand.
FULL = """
import resource, signal, sys
import numpy as np
from mercer import Checkpoint, KernelRidge, RandomFourier, Gaussian
from mercer.engines import checkpoint
checkpoint.SHARE = 0
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
X = np.random.default_rng(0).normal(size=(300, 2))
limits = []
def limit(progress):
    if progress.rows == 200:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
model = KernelRidge(RandomFourier(Gaussian(), 64, random_state=0), alpha=1.0, block_size=50, progress=limit)
try:
    model.fit(X, X[:, 0], checkpoint=Checkpoint(sys.argv[1], seconds=0))
except Exception as error:
    print(type(error).__name__, error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
rows = []
model.set_params(progress=lambda progress: rows.append(progress.rows))
coef = model.fit(X, X[:, 0], checkpoint=sys.argv[1]).coef_
model.set_params(progress=False)
print(rows, np.array_equal(coef, model.fit(X, X[:, 0]).coef_))
"""


def test_a_fit_whose_disk_is_full_continues_when_there_is_space(tmp_path):
    path = tmp_path / "fit.checkpoint"
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], env=environment, capture_output=True, text=True, check=True
    )
    error, resumed = done.stdout.splitlines()
    assert error.startswith(f"CheckpointError The checkpoint {path} cannot be written: File too large.")
    assert resumed == "[200, 250, 300] True"
    assert os.listdir(tmp_path) == []


def test_a_checkpoint_that_cannot_be_removed_does_not_lose_the_model(tmp_path, monkeypatch):
    engine = saved(ENGINES["memory"](1), tmp_path / "fit.checkpoint")

    def fail(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(checkpoint_module.Path, "unlink", fail)
    with pytest.warns(MercerWarning, match="The fit has succeeded, but its checkpoint could not be removed"):
        engine.remove()
    monkeypatch.undo()


def test_a_file_that_is_damaged_while_it_is_used(tmp_path):
    path = tmp_path / "fit.checkpoint"
    stopped(path)
    engine = saved(ENGINES["memory"](1), path)
    os.utime(path)  # is harmless
    content = bytearray(path.read_bytes())
    start = content.index(b"\x93NUMPY", content.index(b"pass0/0.npy"))
    content[start + 128] ^= 1
    with open(path, "r+b") as file:  # in place
        file.write(content)
    with pytest.raises(CheckpointError, match=r"damaged.*its digest differs"):
        fit(engine)
    # With another sum, and a digest that does not tell.
    path.unlink()
    content = stopped(path)
    values = {key: store(read_archive(path, key)) for key in ("header", "witnesses", "running")}
    write_archive(path, values | {"pass0": store((np.zeros(3),))})
    other, end = path.read_bytes(), content[-64:]
    path.write_bytes(content)
    engine = saved(ENGINES["memory"](1), path)
    with open(path, "r+b") as file:
        file.write(other[:-64] + end)
        file.truncate()
    with pytest.raises(CheckpointError, match=r"damaged.*its digest differs"):
        fit(engine)


HEADERS = {
    "no seed": lambda header: header.pop("seed"),
    "seed of another type": lambda header: header.update(seed="x"),
    "no number": lambda header: header.update(passes=None),
    "no fingerprint": lambda header: header.update(fingerprint=3),
    "more passes than there are": lambda header: header.update(passes=9),
}


@pytest.mark.parametrize("name", HEADERS)
def test_headers_that_no_fit_writes(name, tmp_path):
    path = tmp_path / "fit.checkpoint"
    stopped(path)
    values = {key: store(read_archive(path, key)) for key in ("header", "pass0", "witnesses", "running")}
    header = values["header"].value()
    HEADERS[name](header)
    write_archive(path, values | {"header": store(header)})
    with pytest.raises(CheckpointError, match="is damaged"):
        fit(saved(ENGINES["memory"](1), path))


@pytest.mark.parametrize("is_sparse", [False, True])
def test_the_drawn_map_is_compared_on_rows_that_are_not_zero(is_sparse):
    X = np.zeros((100, 3))
    X[50:60, 1] = [5, 1, -9, 4, 3, -8, 6, 7, 2, 10]
    found = checkpoint_module.largest_rows(checkpoint_module.sp.csr_array(X) if is_sparse else X)
    found = found.toarray() if is_sparse else found
    assert found[:, 1].tolist() == [5, -9, 4, 3, -8, 6, 7, 10]
