"""Every learner continues from its checkpoint, also after it was killed, to the bits of an undisturbed fit."""

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import dump_svmlight_file

from mercer import (
    Checkpoint,
    CheckpointError,
    Deformed,
    FeatureGraph,
    Gaussian,
    KernelKMeans,
    KernelLogisticRegression,
    KernelRidge,
    KernelRidgeClassifier,
    Matern,
    Nystroem,
    ParameterError,
    ProductMap,
    RandomFourier,
    Transformed,
    on_dask,
    open_rows,
)
from mercer.engines import checkpoint as checkpoint_module
from mercer.engines.checkpoint import largest_rows
from mercer.engines.dask.engine import DaskEngine
from mercer.learners.checkpointing import fingerprint_of

pytestmark = pytest.mark.covering(1)

# One process that makes others, each a fit that kills itself when it reads a certain block: to fork one is cheaper than
# to start one. The parent has run no thread.
SCRIPT = """
import json, os, pickle, signal, sys
import mercer.io.source as source
import mercer.learners, sklearn.utils.validation
from mercer import Checkpoint, open_rows
from mercer.engines import checkpoint

source.BLOCK_BYTES, source.LEAST_ROWS, source.PART_BLOCKS = 3000, 16, 3
checkpoint.SHARE = 0
folder, kind, supervised = sys.argv[1], sys.argv[2], sys.argv[3] == "True"
learner = pickle.load(open(os.path.join(folder, "learner.pickle"), "rb"))


class Deadly:
    def __init__(self, rows, kill_at):
        self.rows, self.n_rows, self.kill_at, self.blocks = rows, rows.n_rows, kill_at, 0

    def __iter__(self):
        return self.counted(self.rows)

    def counted(self, blocks):
        for block in blocks:
            self.blocks += 1
            if self.blocks == self.kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            yield block


class DeadlyParts(Deadly):
    def parts(self):
        return tuple(DeadlyPart(self, part) for part in self.rows.parts())


class DeadlyPart:
    def __init__(self, owner, part):
        self.owner, self.part = owner, part

    def __iter__(self):
        return self.owner.counted(self.part)

    def __str__(self):
        return str(self.part)


def fit(kill_at, path):
    rows = open_rows(os.path.join(folder, "X.npy"), target=os.path.join(folder, "y.npy") if supervised else None)
    rows = {"parts": DeadlyParts, "iterable": Deadly}[kind](rows, kill_at)
    model = learner.fit(rows, checkpoint=Checkpoint(os.path.join(folder, "fit.checkpoint"), seconds=0))
    pickle.dump(model, open(path, "wb"))


def in_a_process(kill_at, name):
    child = os.fork()
    if not child:
        try:
            fit(kill_at, os.path.join(folder, name))
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


codes = [in_a_process(0, "through.pickle")]
for kill_at in map(int, sys.argv[4].split(",")):
    codes.append(in_a_process(kill_at, "model.pickle"))
left = os.path.exists(os.path.join(folder, "fit.checkpoint"))
codes.append(in_a_process(0, "model.pickle"))
print(json.dumps([codes, left]))
"""
# Blocks of which process after process dies: parts that are done are not read again, other blocks are.
KILLS = {"parts": (3, 9, 10, 9), "iterable": (3, 11, 20, 9)}
# The same for learners of many passes: some passes further on.
LATER_KILLS = (3, 40, 61, 31)


def prepare(folder, learner, y):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(len(y), 3))
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", y)
    (folder / "learner.pickle").write_bytes(pickle.dumps(learner))


def numbers(n=3000):
    rng = np.random.default_rng(2)
    return rng.normal(size=n)


def labels(n=3000):
    return np.random.default_rng(2).choice(["a", "b", "c"], n)


# What to fit, and what of the result must be the same to the bit.
CASES = {
    "ridge": (KernelRidge(RandomFourier(Gaussian(), 60, random_state=0)), numbers, ("coef_", "intercept_")),
    "ridge, gcv, median": (KernelRidge(alpha="gcv", random_state=0), numbers, ("coef_", "intercept_", "alpha_")),
    "classifier": (
        KernelRidgeClassifier(Matern(), random_state=3),
        labels,
        ("coef_", "intercept_", "probability_scale_", "classes_"),
    ),
    "logistic": (
        KernelLogisticRegression(RandomFourier(Gaussian(), 20, random_state=0)),
        labels,
        ("coef_", "intercept_", "classes_"),
    ),
    "k-means": (
        KernelKMeans(RandomFourier(Gaussian(), 20, random_state=0), 4, random_state=0, max_iter=8),
        numbers,
        ("cluster_centers_", "inertia_", "n_iter_"),
    ),
    "landmarks": (KernelRidge(Nystroem(Gaussian(), 40, random_state=0)), numbers, ("coef_",)),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parts", "iterable"])
@pytest.mark.parametrize("case", CASES)
def test_killed_fits_continue_to_the_bit(case, kind, tmp_path):
    learner, targets, attributes = CASES[case]
    prepare(tmp_path, learner, targets())
    deaths = LATER_KILLS if case in ("logistic", "k-means") else KILLS[kind]
    kills = ",".join(map(str, deaths))
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, str(tmp_path), kind, "True", kills]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    # Undisturbed; killed some times, with a checkpoint left; then to the end.
    assert json.loads(result.stdout) == [[0, *[-signal.SIGKILL] * len(deaths), 0], True], result.stderr
    wanted, got = (pickle.loads((tmp_path / f"{name}.pickle").read_bytes()) for name in ("through", "model"))
    for name in attributes:
        assert np.array_equal(getattr(got, name), getattr(wanted, name))
    assert "fit.checkpoint" not in " ".join(os.listdir(tmp_path))


class Stopping:
    """Blocks that are interrupted once, as by a key."""

    def __init__(self, blocks, at, error=KeyboardInterrupt):
        self.blocks, self.at, self.error, self.read = blocks, at, error, 0

    def __iter__(self):
        for block in self.blocks:
            self.read += 1
            if self.read == self.at:
                raise self.error
            yield block


@pytest.fixture
def blocks():
    rng = np.random.default_rng(0)
    return [(rng.normal(size=(100, 3)), rng.normal(size=100)) for _ in range(20)]


@pytest.fixture(autouse=True)
def saving_is_cheap(monkeypatch):
    monkeypatch.setattr(checkpoint_module, "SHARE", 0)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, OSError])
def test_an_interrupted_fit_leaves_a_complete_checkpoint_and_no_other_file(error, blocks, tmp_path):
    checkpoint = Checkpoint(tmp_path / "fit.checkpoint", seconds=0)
    fresh = KernelRidge(RandomFourier(Gaussian("median"), random_state=0), alpha=1.0)
    model = clone(fresh)
    with pytest.raises(error):
        model.fit(Stopping(blocks, 33, error), checkpoint=checkpoint)
    assert not hasattr(model, "coef_")
    assert os.listdir(tmp_path) == ["fit.checkpoint"]
    source = Stopping(blocks, None)
    model.fit(source, checkpoint=checkpoint)
    assert source.read <= 20  # the pass for the median lengthscale was done
    assert np.array_equal(model.coef_, fresh.fit(blocks).coef_)
    assert os.listdir(tmp_path) == []


def test_resumed_fits_without_a_seed_have_the_same_draw(blocks, tmp_path):
    """The draw is a new one for each fit, but not for each part of a fit."""
    path = tmp_path / "fit.checkpoint"
    for feature_map in (None, RandomFourier(Gaussian(), 50), ProductMap(Gaussian() * Gaussian(2.0), 40)):
        model = KernelRidge(feature_map)
        # Before the ones that the model needs. Without a map, rows are counted first.
        passes = 2 if feature_map is None else int(not isinstance(feature_map, RandomFourier))
        with pytest.raises(KeyboardInterrupt):
            model.fit(Stopping(blocks, 12 + 20 * passes), checkpoint=Checkpoint(path, seconds=0))
        state = checkpoint_module.read_archive(path, "witnesses")
        model.fit(blocks, checkpoint=path)
        rows = largest_rows(blocks[0][0])
        drawn = model.feature_map_.transform(rows)
        assert np.array_equal(state["the drawn map"], drawn)
        assert model.random_state is None
        assert feature_map is None or model.feature_map.random_state is None
        again = KernelRidge(feature_map).fit(blocks, checkpoint=path)
        assert not np.allclose(again.feature_map_.transform(rows), drawn)


@pytest.mark.parametrize(("alpha", "reads"), [("loo", 33), ("gcv", None)])
def test_resumed_fits_know_the_shape_of_targets_in_late_blocks(alpha, reads, blocks, tmp_path, monkeypatch):
    late = [(X, None if number < 3 else np.column_stack([y, X[:, 0]])) for number, (X, y) in enumerate(blocks)]
    learner = KernelRidge(RandomFourier(Gaussian(), 20, random_state=0), alpha=alpha, unlabeled=np.nan)
    wanted = clone(learner).fit(late)
    assert wanted.coef_.shape == (2, 20)
    checkpoint = Checkpoint(tmp_path / "fit.checkpoint", seconds=0)
    with monkeypatch.context() as patch:
        if alpha == "gcv":  # interrupted after its only pass

            def interrupt(*_):
                raise KeyboardInterrupt

            patch.setattr(KernelRidge, "_solve", interrupt)
        with pytest.raises(KeyboardInterrupt):
            clone(learner).fit(Stopping(late, reads), checkpoint=checkpoint)
    resumed = clone(learner).fit(late, checkpoint=checkpoint)
    assert np.array_equal(resumed.coef_, wanted.coef_)


def test_arrays_can_have_a_checkpoint_too(blocks, tmp_path):
    X, y = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    wanted = KernelRidge(random_state=0, block_size=100).fit(X, y)

    def stop(progress):
        if progress.rows > 1000:
            raise KeyboardInterrupt

    model = KernelRidge(random_state=0, block_size=100, progress=stop)
    checkpoint = Checkpoint(tmp_path / "fit.checkpoint", seconds=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y, checkpoint=checkpoint)
    seen = []
    model.set_params(progress=seen.append, n_jobs=1)  # neither is part of what makes a fit the same
    model.fit(X, y, checkpoint=checkpoint)
    assert seen[0].rows == 1100  # it was stopped before this block was saved
    assert np.array_equal(model.coef_, wanted.coef_)


def stop_after(rows):
    def stop(progress):
        if progress.rows > rows:
            raise KeyboardInterrupt

    return stop


@pytest.mark.parametrize("where", ["here", "dask"])
@pytest.mark.parametrize("kind", ["npy", "beside.npy", "csv", "parquet", "feather", "svm"])
def test_checkpoints_of_changed_files_raise(kind, where, tmp_path):
    """Rows behind the first block, in a file of the same size: the sums so far are those of other rows."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 3)), rng.normal(size=3000)

    def write(y):
        path = tmp_path / f"rows.{kind}"
        if kind == "beside.npy":
            np.save(path, X)
            np.save(tmp_path / "y.npy", y)
            return open_rows(path, target=tmp_path / "y.npy")
        if kind == "npy":
            np.save(path, np.column_stack([X, y]))
        elif kind == "svm":
            dump_svmlight_file(X, y, str(path))
            return open_rows(path)
        else:
            frame = pd.DataFrame(np.column_stack([X, y]), columns=list("abcy"))
            frame.to_csv(path, index=False) if kind == "csv" else getattr(frame, f"to_{kind}")(path)
        return open_rows(path, target=3)

    def rows(y):
        source = write(y)
        return source if where == "here" else on_dask(source)

    checkpoint = Checkpoint(tmp_path / "fit.checkpoint", seconds=0)
    learner = KernelRidge(RandomFourier(Gaussian(), 20, random_state=0), block_size=200)
    with pytest.raises(KeyboardInterrupt):
        clone(learner).set_params(progress=stop_after(1000)).fit(rows(y), checkpoint=checkpoint)
    path = tmp_path / ("y.npy" if kind == "beside.npy" else f"rows.{kind}")
    before, time = path.read_bytes(), path.stat().st_mtime_ns
    with pytest.raises(CheckpointError, match=r"another fit: file \d was .*, changed .* UTC, .*, and is .*, changed"):
        clone(learner).fit(rows(np.concatenate([y[:1500], y[:1499:-1]])), checkpoint=checkpoint)
    if kind != "beside.npy":  # whose other file was written again
        path.write_bytes(before)
        os.utime(path, ns=(time, time))
        again = open_rows(path) if kind == "svm" else open_rows(path, target=3)
        fitted = clone(learner).fit(again if where == "here" else on_dask(again), checkpoint=checkpoint)
        assert np.array_equal(fitted.coef_, clone(learner).fit(again if where == "here" else on_dask(again)).coef_)


def test_checkpoints_of_changed_arrays_and_tables_raise(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(3000, 4)), columns=list("abcy"))
    other = frame.copy()
    other.loc[2500, "y"] += 1
    learner = KernelRidge(RandomFourier(Gaussian(), 20, random_state=0), block_size=200)
    checkpoint = Checkpoint(tmp_path / "fit.checkpoint", seconds=0)
    for given in (
        lambda frame: (frame[list("abc")], frame.y),
        lambda frame: (sp.csr_array(frame[list("abc")].to_numpy()), frame.y),
        lambda frame: (open_rows(frame, target="y"),),
    ):
        with pytest.raises(KeyboardInterrupt):
            clone(learner).set_params(progress=stop_after(1000)).fit(*given(frame), checkpoint=checkpoint)
        with pytest.raises(CheckpointError, match=r"another fit: (digest of all rows|part 0) was"):
            clone(learner).fit(*given(other), checkpoint=checkpoint)
        clone(learner).fit(*given(frame.copy()), checkpoint=checkpoint)


def test_checkpoints_of_other_learners(blocks, tmp_path):
    path = tmp_path / "fit.checkpoint"
    feature_map = RandomFourier(Gaussian(), 50, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        KernelRidge(feature_map).fit(Stopping(blocks, 12), checkpoint=Checkpoint(path, seconds=0))
    before = path.read_bytes()
    for other, match in (
        (KernelRidge(feature_map, alpha=2.0), r"alpha was 'auto', and is 2\.0"),
        (KernelRidge(RandomFourier(Gaussian(), 51, random_state=0)), "feature_map__n_components was 50, and is 51"),
        (KernelRidge(RandomFourier(Gaussian(2.0), 50, random_state=0)), "feature_map__kernel__lengthscale was 1.0"),
        (KernelRidge(RandomFourier(Gaussian(), 50, random_state=1)), "feature_map__random_state was 0, and is 1"),
        (KernelRidge(feature_map, block_size=10), "block_size was None, and is 10"),
        (KernelRidgeClassifier(feature_map), "learner was KernelRidge, and is KernelRidgeClassifier"),
    ):
        y = [(X, np.sign(y)) for X, y in blocks] if isinstance(other, KernelRidgeClassifier) else blocks
        with pytest.raises(CheckpointError, match=match):
            other.fit(y, checkpoint=path)
        assert path.read_bytes() == before
    with pytest.raises(CheckpointError, match="first block of rows"):
        KernelRidge(feature_map).fit([(X + 1, y) for X, y in blocks], checkpoint=path)
    with pytest.raises(ParameterError, match="must be a path or a Checkpoint, got 3"):
        KernelRidge(feature_map).fit(blocks, checkpoint=3)
    KernelRidge(feature_map).fit(blocks, checkpoint=path)


@pytest.mark.parametrize("moving", [np.random.default_rng, np.random.RandomState, np.random.PCG64])
def test_generators_raise(moving, blocks, tmp_path):
    """The state of a generator is not known to the process that continues: two fits would be mixed."""
    halves = (RandomFourier(Gaussian(), 20, random_state=0), RandomFourier(Gaussian(), 20, random_state=moving(0)))
    for learner, name in (
        (KernelKMeans(RandomFourier(Gaussian(), 20, random_state=0), 3, random_state=moving(0)), "random_state"),
        (KernelRidge(random_state=moving(0)), "random_state"),
        (KernelRidge(RandomFourier(Gaussian(), 20, random_state=moving(0))), "feature_map__random_state"),
        (KernelRidge(ProductMap(Gaussian() * Gaussian(), 20, maps=halves)), r"feature_map__maps\[1\]\.random_state"),
    ):
        match = f"with a checkpoint, {name} must be an integer, .* got {type(moving(0)).__name__}. Try"
        with pytest.raises(ParameterError, match=match):
            learner.fit(blocks, checkpoint=tmp_path / "fit.checkpoint")
        assert not hasattr(learner, "feature_map_")
        assert os.listdir(tmp_path) == []


def start_rows(kind, shift):
    dense = np.eye(3) + shift
    return {"dense": dense, "csr": sp.csr_array(dense), "csc": sp.csc_array(dense), "frame": pd.DataFrame(dense)}[kind]


@pytest.mark.parametrize("kind", ["dense", "csr", "csc", "frame"])
def test_fingerprints_of_initial_centers_depend_on_their_values(kind):
    feature_map = RandomFourier(Gaussian(), 20, random_state=0)
    found = [
        fingerprint_of(KernelKMeans(feature_map, 3, init=start_rows(kind, shift)))["init"] for shift in (0, 0, 1e-9)
    ]
    assert found[0] == found[1] != found[2]
    # The address of an object is another in another process.
    assert "0x" not in found[0]


def test_fingerprints_of_arrays_inside_of_containers_are_complete():
    many = np.linspace(1, 2, 5000)
    other = many.copy()
    other[2500] += 1e-9

    def fingerprint(lengthscales):
        kernel = Transformed(Gaussian(), lengthscales=lengthscales)
        halves = (RandomFourier(kernel, 20, random_state=0), RandomFourier(Gaussian(), 20, random_state=0))
        return fingerprint_of(KernelRidge(ProductMap(Gaussian() * Gaussian(), 20, maps=halves)))

    assert fingerprint(many) == fingerprint(many.copy())
    assert fingerprint(many) != fingerprint(other)


def test_feature_graphs_continue_to_the_bit(blocks, tmp_path):
    """A map that makes several passes of its own, each of which may be the one that is stopped."""
    path = tmp_path / "fit.checkpoint"
    inner = RandomFourier(Gaussian(), 20, random_state=0)
    learner = KernelRidge(Deformed(inner, FeatureGraph(n_components=16, random_state=0), random_state=0))
    wanted = clone(learner).fit(blocks).coef_
    for reads in (12, 24, 35):
        with pytest.raises(KeyboardInterrupt):
            clone(learner).fit(Stopping(blocks, reads), checkpoint=Checkpoint(path, seconds=0))
    assert np.array_equal(clone(learner).fit(blocks, checkpoint=path).coef_, wanted)
    assert os.listdir(tmp_path) == []


def test_seeds_that_cannot_be_set_raise(blocks, tmp_path):
    halves = (RandomFourier(Gaussian(), 20, random_state=0), RandomFourier(Gaussian(), 20))
    learner = KernelRidge(ProductMap(Gaussian() * Gaussian(), 20, maps=halves))
    with pytest.raises(
        ParameterError, match=r"feature_map__maps\[1\]\.random_state must be an integer, so that the fit"
    ):
        learner.fit(blocks, checkpoint=tmp_path / "fit.checkpoint")
    assert os.listdir(tmp_path) == []


def test_files_of_an_interrupted_save_are_removed(blocks, tmp_path):
    path = tmp_path / "fit.checkpoint"
    learner = KernelRidge(RandomFourier(Gaussian(), 20, random_state=0))
    with pytest.raises(KeyboardInterrupt):
        clone(learner).fit(Stopping(blocks, 12), checkpoint=Checkpoint(path, seconds=0))
    (tmp_path / ".fit.checkpoint.0123456789abcdef.part").write_bytes(path.read_bytes()[:100])  # half of the next one
    assert np.array_equal(clone(learner).fit(blocks, checkpoint=path).coef_, clone(learner).fit(blocks).coef_)
    assert os.listdir(tmp_path) == []


def test_complete_passes_are_saved_on_dask(blocks, tmp_path):
    X, y = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    X, y = da.from_array(X, chunks=(500, 3)), da.from_array(np.digitize(y, [0.0]), chunks=500)
    learner = KernelLogisticRegression(RandomFourier(Gaussian(), 20, random_state=0))
    wanted = clone(learner).fit(X, y)
    done = []

    def count(sums, engine, *given):
        done.append(sums(engine, *given))
        if len(done) == 5:
            raise KeyboardInterrupt
        return done[-1]

    checkpoint = Checkpoint(tmp_path / "fit.checkpoint", seconds=0)
    plain = DaskEngine.accumulate
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DaskEngine, "accumulate", lambda engine, *given: count(plain, engine, *given))
        with pytest.raises(KeyboardInterrupt):
            clone(learner).fit(X, y, checkpoint=checkpoint)
        before = len(done)
        got = clone(learner).fit(X, y, checkpoint=checkpoint)
        again = len(done) - before
    assert np.array_equal(got.coef_, wanted.coef_)
    done.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DaskEngine, "accumulate", lambda engine, *given: done.append(1) or plain(engine, *given))
        clone(learner).fit(X, y)
    assert again == len(done) - 4  # the four that were finished were not made again


def test_two_fits_without_a_seed_on_one_path_are_not_mixed(blocks, tmp_path, monkeypatch):
    """While a fit runs, the checkpoint of another one with the same parameters comes to its path."""
    path, other = tmp_path / "fit.checkpoint", tmp_path / "other.checkpoint"
    learner = KernelRidge(Gaussian(), alpha="loo")
    with pytest.raises(KeyboardInterrupt):
        clone(learner).fit(Stopping(blocks, 33), checkpoint=Checkpoint(other, seconds=0))

    class Replacing(Stopping):
        def __iter__(self):
            for block in super().__iter__():
                if self.read == 25:
                    shutil.copy(other, path)
                yield block

    with pytest.raises(CheckpointError, match="replaced or changed by another process"):
        clone(learner).fit(Replacing(blocks, None), checkpoint=Checkpoint(path, seconds=0))
    assert path.read_bytes() == other.read_bytes()
    seed = checkpoint_module.read_archive(path, "header")["seed"]
    resumed = clone(learner).fit(blocks, checkpoint=path)
    wanted = clone(learner).set_params(random_state=seed).fit(blocks)
    assert np.array_equal(resumed.coef_, wanted.coef_)
    assert sorted(os.listdir(tmp_path)) == ["other.checkpoint"]


def test_a_fit_within_a_fit_on_the_same_path_raises(blocks, tmp_path):
    path = tmp_path / "fit.checkpoint"
    refused = []

    def again(progress):
        if not refused:
            with pytest.raises(CheckpointError, match=r"is in use: process \d+ on .* \(this process\)") as caught:
                KernelRidge().fit(blocks, checkpoint=path)
            refused.append(caught.value)

    KernelRidge(progress=again).fit(blocks, checkpoint=path)
    assert refused
    assert os.listdir(tmp_path) == []
