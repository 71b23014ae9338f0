"""Damaged checkpoints: what the tests and benchmarks/fuzz_checkpoints.py share.

A fit is interrupted at several points, its checkpoint is damaged in a way that a number determines, and the fit is
called again. It must give the bits of a fit that was not interrupted, or raise CheckpointError. As a script, this
module judges the numbers that it reads from stdin, in a process that may crash or hang without harm:

    python tests/learners/mutated_checkpoints.py FOLDER
"""

import io
import json
import os
import pickle
import re
import select
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from sklearn.base import clone

from mercer import (
    Checkpoint,
    CheckpointError,
    Gaussian,
    KernelKMeans,
    KernelLogisticRegression,
    KernelPCA,
    KernelRidge,
    KernelRidgeClassifier,
    Nystroem,
    RandomFourier,
)
from mercer.engines import checkpoint as checkpoint_module

# Seconds that a case may take.
LIMIT = 20.0
FAULTS = ("crash", "hang", "raw error", "wrong answer", "left a file", "no advice")
# Numbers of cases that are at fault, to show that faults are found.
CRASHES, HANGS = -1, -2
# Parts of a fit after which it is interrupted.
STAGES = (0.0, 0.15, 0.5, 0.85, 1.0)


def fourier(seed=0):
    return RandomFourier(Gaussian(), 12, random_state=seed)


# With one thread, so that every block is saved before the next one is read.
LEARNERS = {
    "ridge": KernelRidge(fourier(), n_jobs=1),
    "ridge, median, loo, no seed": KernelRidge(RandomFourier(Gaussian("median"), 12), alpha="loo", n_jobs=1),
    "landmarks": KernelRidge(Nystroem(Gaussian(), 10, random_state=0), n_jobs=1),
    "classifier": KernelRidgeClassifier(fourier(), random_state=0, n_jobs=1),
    "logistic": KernelLogisticRegression(fourier(), tol=1e-3, n_jobs=1),
    "k-means, no seed": KernelKMeans(fourier(), 3, n_init=2, max_iter=3, n_jobs=1),
    "PCA": KernelPCA(fourier(), 3, n_jobs=1),
}


class Stop(Exception):
    pass


def blocks_of(name):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(40, 3)) for _ in range(8)]
    if name in ("classifier", "logistic"):
        return [(rows, rng.choice(["a", "b", "c"], len(rows))) for rows in X]
    return [(rows, rng.normal(size=len(rows))) for rows in X]


class Blocks:
    """Blocks of rows, with actions before some of them, by the number of blocks that were read so far."""

    def __init__(self, blocks, actions=None):
        self.blocks, self.actions, self.read = blocks, actions or {}, 0

    def __iter__(self):
        for block in self.blocks:
            self.read += 1
            if self.read in self.actions:
                self.actions[self.read]()
            yield block


def stop():
    raise Stop


@contextmanager
def saving_after_every_block():
    before = checkpoint_module.SHARE
    checkpoint_module.SHARE = 0
    try:
        yield
    finally:
        checkpoint_module.SHARE = before


def fit(name, path, blocks):
    with saving_after_every_block(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bits_of(clone(LEARNERS[name]).fit(blocks, checkpoint=Checkpoint(path, seconds=0)))


def bits_of(model):
    """Return the bytes of all fitted arrays and numbers."""
    fitted = {key: value for key, value in vars(model).items() if key.endswith("_")}
    return {
        key: np.asarray(value).tobytes() for key, value in fitted.items() if isinstance(value, np.ndarray | float | int)
    }


@dataclass
class Stage:
    """The checkpoint of an interrupted fit, and what the fit gives."""

    learner: str
    read: int  # number of blocks that were read before the interruption
    reads: int  # number of blocks that a complete fit reads
    content: bytes
    expected: dict


def stages(folder, names=tuple(LEARNERS)):
    """Interrupt fits, and return their checkpoints; those of learners without a seed twice, with other seeds."""
    path = Path(folder) / "fit.checkpoint"
    families = [name for name in names for _ in range(2 if "no seed" in name else 1)]
    return [stage for name in families for stage in _stages(name, path)]


def _stages(name, path):
    def interrupted(at):
        path.unlink(missing_ok=True)
        if start:
            path.write_bytes(start[0])  # the seed of all stages
        with suppress(Stop):
            fit(name, path, Blocks(blocks, {at: stop}))
        return path.read_bytes()

    blocks, start = blocks_of(name), []
    start.append(interrupted(2))  # the first block is read before there is a checkpoint
    every = Blocks(blocks)
    expected = fit(name, path, every)
    if "no seed" not in name:
        assert expected == bits_of(clone(LEARNERS[name]).fit(blocks))
    found = {2 + int(part * (every.read - 2)) for part in STAGES}
    return [Stage(name, at, every.read, interrupted(at), expected) for at in sorted(found)]


# ---- damages ------------------------------------------------------------------------------------


def flip_bits(content, rng, other):
    damaged = bytearray(content)
    for i in rng.integers(len(damaged), size=rng.choice([1, 1, 1, 2, 16])):
        damaged[i] ^= 1 << int(rng.integers(8))
    return bytes(damaged)


def replace_bytes(content, rng, other):
    i, j = span(content, rng)
    return content[:i] + rng.integers(256, size=j - i, dtype=np.uint8).tobytes() + content[j:]


def zero_bytes(content, rng, other):
    """As after a loss of power, where some of the pages of a file were not written."""
    i, j = span(content, rng)
    return content[:i] + bytes(j - i) + content[j:]


def truncate(content, rng, other):
    return content[: rng.integers(len(content))]


def cut_a_few(content, rng, other):
    return content[: len(content) - rng.integers(1, 120)]


def delete(content, rng, other):
    i, j = span(content, rng)
    return content[:i] + content[j:]


def insert(content, rng, other):
    i, j = span(content, rng)
    return content[:j] + content[i:]


def append(content, rng, other):
    return content + rng.integers(256, size=rng.integers(1, 100), dtype=np.uint8).tobytes()


def splice(content, rng, other):
    i = int(rng.integers(len(content)))
    return content[:i] + other[min(i, len(other)) :]


def exchange_members(content, rng, other):
    """Take some of the values from another checkpoint, in a zip file that is correct."""
    mine, theirs = members(content), members(other)
    for name in sorted(mine.keys() & theirs.keys()):
        if rng.random() < 0.4:
            mine[name] = theirs[name]
    return as_zip(mine, content, rng)


def remove_member(content, rng, other):
    mine = members(content)
    del mine[sorted(mine)[rng.integers(len(mine))]]
    return as_zip(mine, content, rng)


def edit_numbers(content, rng, other):
    """Change digits in the metadata, such as the seed, the number of passes or the position."""
    mine = members(content)
    names = [name for name in sorted(mine) if name.endswith(".json")]
    name = names[rng.integers(len(names))]
    digits = [match.start() for match in re.finditer(rb"[0-9]", mine[name])]
    if not digits:
        return flip_bits(content, rng, other)
    i = digits[rng.integers(len(digits))]
    mine[name] = mine[name][:i] + str(rng.integers(10)).encode() + mine[name][i + 1 :]
    return as_zip(mine, content, rng)


def edit_tree(content, rng, other):
    """Replace a part of the metadata by a value of another type, or remove it."""
    mine = members(content)
    names = [name for name in sorted(mine) if name.endswith(".json")]
    name = names[rng.integers(len(names))]
    tree = json.loads(mine[name])
    node = tree
    for _ in range(20):
        keys = list(node) if isinstance(node, dict) else list(range(len(node))) if isinstance(node, list) else []
        if not keys:
            break
        key = keys[rng.integers(len(keys))]
        if rng.random() < 0.3:
            if rng.random() < 0.3:
                del node[key]
            else:
                node[key] = [None, -1, "x", [], {}, 1e300, True, {"~": "class", "name": "Moments", "state": 3}][
                    rng.integers(8)
                ]
            break
        node = node[key]
    mine[name] = json.dumps(tree).encode()
    return as_zip(mine, content, rng)


def edit_array(content, rng, other):
    """Change a number of an array, in a zip file that is correct."""
    mine = members(content)
    names = [name for name in sorted(mine) if name.endswith(".npy") and len(mine[name]) > 128]
    if not names:
        return flip_bits(content, rng, other)
    name = names[rng.integers(len(names))]
    i = int(rng.integers(len(mine[name])))
    mine[name] = mine[name][:i] + bytes([mine[name][i] ^ 1 << rng.integers(8)]) + mine[name][i + 1 :]
    return as_zip(mine, content, rng)


def another_file(content, rng, other):
    buffer = io.BytesIO()
    np.savez(buffer, x=np.arange(3))
    return [b"", b"\0", b"PK", bytes(1000), b"rows of someone\n", buffer.getvalue()][rng.integers(6)]


def another_checkpoint(content, rng, other):
    return other


def nothing(content, rng, other):
    return content


def span(content, rng):
    i = int(rng.integers(len(content)))
    return i, min(len(content), i + int(rng.choice([1, 8, 100, 1000])))


def members(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def as_zip(contents, like, rng):
    """Write a zip file, with the comment of another one or without it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
        if rng.random() < 0.8:
            with zipfile.ZipFile(io.BytesIO(like)) as other:
                archive.comment = other.comment
    return buffer.getvalue()


DAMAGES = [
    flip_bits,
    exchange_members,
    truncate,
    edit_numbers,
    splice,
    edit_array,
    zero_bytes,
    edit_tree,
    delete,
    remove_member,
    replace_bytes,
    insert,
    cut_a_few,
    append,
    another_file,
    another_checkpoint,
    nothing,
]
# One of so many cases is damaged while the fit is running; the others are damaged earlier.
DURING = 4


# ---- judging ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What became of one case: "same bits", "refused", "removed" or one of `FAULTS`."""

    number: int
    learner: str
    read: int
    damage: str
    verdict: str
    detail: str
    seconds: float


def judge(number, cases):
    """Damage the checkpoint of one of the cases, and resume the fit.

    If it is damaged while the fit is running, the fit is interrupted after it, and resumed again.
    """
    rng = np.random.default_rng([2026, number])
    stage, other = (cases[i] for i in rng.integers(len(cases), size=2))
    same = [case for case in cases if case.learner == stage.learner]
    if rng.random() < 0.7:  # of the same learner, whose parameters and rows are the same
        other = same[rng.integers(len(same))]
    damage = DAMAGES[number % len(DAMAGES)]
    damaged = damage(stage.content, rng, other.content)
    is_during = number % DURING == 0
    name = damage.__name__ + (" during the fit" if is_during else "")
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fit.checkpoint"
        path.write_bytes(stage.content if is_during else damaged)
        verdict, detail = "", ""
        try:
            if is_during:
                at = int(rng.integers(2, max(3, stage.reads - stage.read + 2)))
                actions = {at: lambda: _harm(path, damaged, rng), at + int(rng.integers(1, 4)): stop}
                with suppress(Stop):
                    found = fit(stage.learner, path, Blocks(blocks_of(stage.learner), actions))
                    verdict = verdict_of(found, stage.expected)
            if not verdict and not path.exists():
                verdict = "removed"  # and interrupted before it was written again
            elif not verdict:
                # Where the content is that of a case, the fit is the one of that case.
                content = path.read_bytes()
                origin = next((case for case in cases if case.content == content), stage)
                found = fit(stage.learner, path, Blocks(blocks_of(stage.learner)))
                verdict = verdict_of(found, origin.expected)
        except CheckpointError as error:
            text = str(error)
            verdict, detail = "refused", text.replace(folder, "")
            if str(path) not in text or not re.search("another path|start over|call fit again", text):
                verdict = "no advice"
        except Exception as error:
            verdict, detail = "raw error", f"{type(error).__name__}: {error}"
        left = sorted(set(os.listdir(folder)) - ({"fit.checkpoint"} if verdict == "refused" else set()))
        if left and verdict in ("same bits", "refused"):
            verdict, detail = "left a file", ", ".join(left)
    seconds = time.perf_counter() - start
    return Outcome(number, stage.learner, stage.read, name, verdict, detail, seconds)


def verdict_of(found, expected):
    return "same bits" if found == expected else "wrong answer"


def _harm(path, damaged, rng):
    """Overwrite the file in place, replace it or remove it."""
    kind = rng.integers(3)
    if kind == 0 and path.exists():
        with open(path, "r+b") as file:
            file.write(damaged)
            file.truncate()
    elif kind == 1:
        (path.parent / "new").write_bytes(damaged)
        os.replace(path.parent / "new", path)
    else:
        path.unlink(missing_ok=True)


def judge_all(numbers, folder, limit=LIMIT, names=tuple(LEARNERS)):
    """Yield the outcomes of cases, judged in a child process."""
    folder = Path(folder)
    (folder / "cases.pickle").write_bytes(pickle.dumps([asdict(stage) for stage in stages(folder, names)]))
    child = None
    try:
        for number in numbers:
            if child is None:
                child = _start(folder)
            start = time.perf_counter()
            child.stdin.write(f"{number}\n".encode())
            child.stdin.flush()
            ready, _, _ = select.select([child.stdout], [], [], limit)
            line = child.stdout.readline() if ready else b""
            if line:
                yield Outcome(**json.loads(line))
                continue
            child.kill()
            child.wait()
            seconds = time.perf_counter() - start
            verdict = "crash" if ready else "hang"
            yield Outcome(number, "", 0, "", verdict, f"return code {child.returncode}", seconds)
            child.stdin.close()
            child.stdout.close()
            child = None
    finally:
        if child is not None:
            child.stdin.close()
            child.wait()
            child.stdout.close()


def _start(folder):
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    child = subprocess.Popen(
        [sys.executable, __file__, str(folder)], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout.readline() == b"ready\n"
    return child


def counts(outcomes):
    """Return the number of outcomes of every verdict, by damage."""
    found = {}
    for outcome in outcomes:
        found.setdefault(outcome.damage, Counter())[outcome.verdict] += 1
    return dict(sorted(found.items()))


def main(folder):
    cases = [Stage(**case) for case in pickle.loads((Path(folder) / "cases.pickle").read_bytes())]
    print("ready", flush=True)
    for line in sys.stdin:
        number = int(line)
        if number == CRASHES:
            os.abort()
        elif number == HANGS:
            time.sleep(3600)
        print(json.dumps(asdict(judge(number, cases))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
