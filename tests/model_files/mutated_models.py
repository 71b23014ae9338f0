"""Damaged and forged model files: what the tests and benchmarks/fuzz_models.py share.

A model file is changed in a way that a number determines, loaded, and used for predictions. A file that was damaged
must be refused, or give the bits of the model that was saved. A file that was forged, with digests that are correct,
must be refused, or give some predictions: its author chooses the model. As a script, this module judges the numbers
that it reads from stdin, in a process that may crash or hang without harm:

    python tests/model_files/mutated_models.py FOLDER
"""

import copy
import io
import json
import os
import pickle
import select
import struct
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from mercer import (
    ArcCosine,
    Chi2,
    ColumnScaler,
    CompositionMap,
    Deformed,
    ExponentialDotProduct,
    Gaussian,
    GaussianProcessRegressor,
    HomogeneousFeatures,
    Intersection,
    KernelClassifier,
    KernelKMeans,
    KernelLogisticRegression,
    KernelPCA,
    KernelRidge,
    KernelRidgeClassifier,
    LearnedMetric,
    LocalCorrection,
    Matern,
    MercerError,
    ModelFileError,
    NeighborGraph,
    Nystroem,
    Polynomial,
    ProductMap,
    RandomFourier,
    RandomMaclaurin,
    RandomNeurons,
    TensorSketch,
    ThresholdFeatures,
    describe_model,
    load_model,
    save_model,
)
from mercer.io.sealed import SealedArchive, write_sealed
from mercer.model_files.files import LABEL
from mercer.model_files.registry import CLASSES

# Seconds and bytes of memory, beyond those of the process before, that a case may take.
LIMIT = 20.0
MEMORY = 3 * 2**30
FAULTS = ("crash", "hang", "execution", "raw error", "wrong answer", "several lines")
# Numbers of cases that are at fault, to show that faults are found.
CRASHES, HANGS = -1, -2

X = np.abs(np.random.default_rng(0).normal(size=(60, 3))) + 0.01
Y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(1).normal(size=60)
LABELS = np.array(["low", "high"])[(np.median(Y) < Y).astype(int)]

MODELS = {
    "butterflies": KernelRidge(RandomFourier(Gaussian(0.7), 24, directions="butterfly", random_state=0), n_jobs=1),
    "dense": KernelRidgeClassifier(RandomFourier(Matern(1.5), 20, form="phase", random_state=0), n_jobs=1),
    "near rows": KernelRidge(Nystroem(Matern(1.5), 12, random_state=0), neighbors=LocalCorrection(8, parts="both")),
    "process": GaussianProcessRegressor(
        Nystroem(Gaussian("median"), 12, random_state=0), lengthscale_tuning=None, n_jobs=1
    ),
    "pathwise": GaussianProcessRegressor(
        RandomFourier(Gaussian(), 20, random_state=0),
        lengthscale_tuning=None,
        variance_method="pathwise",
        n_jobs=1,
    ),
    "series": KernelRidge(
        RandomMaclaurin(Polynomial(4, 0.5, scale=0.3), 40, random_state=np.random.RandomState(0)), n_jobs=1
    ),
    "sketch": TensorSketch(Polynomial(3), 9, random_state=0),
    "products": ProductMap(Gaussian(3.0) * Polynomial(2), 40, random_state=0),
    "composition": CompositionMap(ExponentialDotProduct() @ Gaussian(), 40, random_state=0),
    "neurons": RandomNeurons(ArcCosine(1), 20, random_state=np.random.default_rng(0)),
    "histograms": HomogeneousFeatures(Chi2(), 12, frequencies="random", random_state=0),
    "thresholds": ThresholdFeatures(1 + Intersection(), 20, random_state=0),
    "deformed": Deformed(RandomFourier(Gaussian(0.7), 12, random_state=0), NeighborGraph(4)),
    "metric": LearnedMetric(RandomFourier(Gaussian("median"), 12, random_state=0), rounds=1),
    "clusters": KernelKMeans(RandomFourier(Gaussian(0.7), 20, random_state=0), 3, random_state=0, n_jobs=1),
    "components": KernelPCA(RandomFourier(Matern(), 20, random_state=0), 3, fit_inverse_transform=True, n_jobs=1),
    "logistic": KernelLogisticRegression(Nystroem(Matern(1.5), 12, random_state=0), neighbors=8, n_jobs=1),
    "pipeline": make_pipeline(ColumnScaler("ranks"), KernelRidge(random_state=0, n_jobs=1)),
    "automatic": KernelClassifier(random_state=0, n_jobs=1),
    "kernel": Polynomial(2) + 2.0 * Gaussian(0.5),
}


def fitted(name):
    """Return a fitted copy of a model."""
    model = clone(MODELS[name])
    if not hasattr(model, "fit"):
        return model
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name == "automatic":
            return model.fit(np.vstack([X, X + 0.5]), np.concatenate([LABELS, LABELS]))
        return model.fit(X, LABELS if name in ("dense", "logistic") else Y)


def results(model):
    """Return the bytes of what a model computes for rows that were not seen."""
    rows = 0.99 * X[:20]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if not hasattr(model, "fit"):
            return {"values": model(rows, X).tobytes()}
        found = {}
        for name in ("predict", "transform", "predict_proba", "decision_function"):
            if hasattr(model, name):
                found[name] = np.asarray(getattr(model, name)(rows)).tobytes()
        if isinstance(model, GaussianProcessRegressor):
            found["std"] = np.asarray(model.predict(rows, return_std=True)[1]).tobytes()
        return found


@dataclass
class Case:
    """A model file, and what its model computes."""

    name: str
    content: bytes
    expected: dict


def cases_of(folder, names=tuple(MODELS)):
    """Fit models, and return their files."""
    found = []
    for name in names:
        model = fitted(name)
        path = save_model(model, Path(folder) / "model.mercer", statistics=name == "series")
        found.append(Case(name, path.read_bytes(), results(model)))
    return found


# ---- damages ------------------------------------------------------------------------------------


def flip_bits(content, rng, other):
    changed = bytearray(content)
    for _ in range(int(rng.choice([1, 1, 4, 64]))):
        changed[rng.integers(len(changed))] ^= 1 << rng.integers(8)
    return bytes(changed)


def truncate(content, rng, other):
    return content[: rng.integers(len(content))]


def cut_a_few(content, rng, other):
    return content[: -int(rng.integers(1, 100))]


def zero_bytes(content, rng, other):
    i, j = span(content, rng)
    return content[:i] + bytes(j - i) + content[j:]


def replace_bytes(content, rng, other):
    i, j = span(content, rng)
    return content[:i] + rng.bytes(j - i) + content[j:]


def insert(content, rng, other):
    i, j = span(content, rng)
    return content[:i] + rng.bytes(j - i) + content[i:]


def delete(content, rng, other):
    i, j = span(content, rng)
    return content[:i] + content[j:]


def append(content, rng, other):
    return content + rng.bytes(int(rng.integers(1, 1000)))


def splice(content, rng, other):
    """Return the first part of one file and the last part of another one."""
    return content[: rng.integers(len(content))] + other[rng.integers(len(other)) :]


def another_file(content, rng, other):
    buffer = io.BytesIO()
    np.savez(buffer, x=np.arange(3))
    files = [b"", b"\0", b"PK", bytes(1000), b"a table\n", buffer.getvalue(), pickle.dumps(MODELS["dense"])]
    return files[rng.integers(len(files))]


def edit_zip(content, rng, other):
    """Write the members with other names, compressed, twice, as links, in another order, or with an extra one."""
    members = members_of(content)
    kind = int(rng.integers(8))
    if kind == 0:
        members[-1:] = [("../../escaped.npy", members[-1][1])]
    elif kind == 1:
        members[-1:] = [("/etc/escaped.npy", members[-1][1])]
    elif kind == 2:
        members.reverse()
    elif kind == 3:
        members.append(members[-1])
    elif kind == 4:
        members.append(("arrays/code.py", b"raise SystemExit"))
    elif kind == 5:
        members.pop(int(rng.integers(len(members))))
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w") as archive:
        warnings.simplefilter("ignore")
        for name, data in members:
            info = zipfile.ZipInfo(name)
            if kind == 6:
                info.external_attr = 0o120777 << 16
            bomb = bytes(5 * 10**7) if kind == 7 and name == "arrays/0.npy" else data
            archive.writestr(info, bomb, compress_type=zipfile.ZIP_DEFLATED if kind == 7 else zipfile.ZIP_STORED)
        archive.comment = comment_of(content)
    return buffer.getvalue()


def nothing(content, rng, other):
    return content


def span(content, rng):
    i = int(rng.integers(len(content)))
    return i, min(len(content), i + int(rng.choice([1, 8, 100, 1000])))


def members_of(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return [(name, archive.read(name)) for name in archive.namelist()]


def comment_of(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return archive.comment


# ---- forgeries: files with other content and correct digests --------------------------------------


def forged(change):
    """Return a damage that changes the objects and arrays of a file, and computes the digests again."""

    def damage(content, rng, other):
        archive = SealedArchive(io.BytesIO(content), LABEL)
        header, arrays = copy.deepcopy(archive.content), archive.arrays()
        found = change(header, arrays, rng)
        arrays = arrays if found is None else found
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "forged.mercer"
            write_sealed(path, LABEL, header, arrays)
            return path.read_bytes()

    damage.__name__ = f"forged: {change.__name__}"
    FORGERIES.append(damage)
    return change


FORGERIES = []
NUMBERS = [0, -1, 1, 2, 7, 10**5, 10**9, 2**31, 2**40, 2**63, -(2**63), 10**30, 0.0, -1.5, 1e-300, 1e300, 1e18]
VALUES = [None, True, "", "x", "a" * 5000, [0], [10**9], {"float": "nan"}, {"float": "inf"}, {"float": "-inf"}]


def nodes(value, kinds, path=()):
    """Yield the containers and keys of all values of some types inside a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in list(items):
        if isinstance(one, kinds) and not isinstance(one, bool):
            yield value, key
        yield from nodes(one, kinds)


def choose(found, rng):
    found = list(found)
    return found[rng.integers(len(found))] if found else ({}, "nothing")


@forged
def numbers(header, arrays, rng):
    """Replace numbers by others."""
    for _ in range(int(rng.choice([1, 1, 2]))):
        container, key = choose(nodes(header["objects"], (int, float)), rng)
        container[key] = NUMBERS[rng.integers(len(NUMBERS))]


@forged
def references(header, arrays, rng):
    """Let an object refer to another one."""
    found = [(c, k) for c, k in nodes(header["objects"], list) if len(c[k]) == 1 and type(c[k][0]) is int]
    container, key = choose(found, rng)
    container[key] = [int(rng.integers(max(1, len(header["objects"]))))]


@forged
def values(header, arrays, rng):
    """Replace a value by one of another type."""
    container, key = choose(nodes(header["objects"], (int, float, str, list, dict, type(None))), rng)
    container[key] = VALUES[rng.integers(len(VALUES))]


@forged
def strings(header, arrays, rng):
    """Replace a string by another one of the file, or of no file."""
    others = [c[k] for c, k in nodes(header["objects"], str)] + ["os.system", "__reduce__", "predict", "mercer"]
    container, key = choose(nodes(header["objects"], str), rng)
    container[key] = others[rng.integers(len(others))]


@forged
def classes(header, arrays, rng):
    """Change the class of an object."""
    found = [entry for entry in header["objects"] if entry["type"] == "object"]
    names = [*CLASSES, "os.system", "builtins.eval", "Unknown"]
    found[rng.integers(len(found))]["class"] = names[rng.integers(len(names))]


@forged
def attributes(header, arrays, rng):
    """Remove, rename or add an attribute."""
    found = [entry for entry in header["objects"] if entry["type"] == "object" and entry.get("attributes")]
    if not found:
        return
    state = found[rng.integers(len(found))]["attributes"]
    key = list(state)[rng.integers(len(state))]
    kind = rng.integers(3)
    if kind < 2:
        value = state.pop(key)
        if kind:
            state[["predict", "__class__", "__dict__", "_check", "fit", key.rstrip("_")][rng.integers(6)]] = value
    else:
        state[["predict", "__reduce__", "_variance", "gradients", "transform", "n_components"][rng.integers(6)]] = [
            {"function": "numpy.subtract"},
            3,
            [0],
        ][rng.integers(3)]


@forged
def swapped(header, arrays, rng):
    """Exchange two arrays."""
    if len(arrays) > 1:
        i, j = rng.integers(len(arrays), size=2)
        arrays[i], arrays[j] = arrays[j], arrays[i]


@forged
def shapes(header, arrays, rng):
    """Give an array another shape."""
    if not arrays:
        return
    i = int(rng.integers(len(arrays)))
    a = arrays[i]
    empty = np.zeros((2**20, 0))
    options = [a.ravel(), a.T, a[:-1], a[..., :-1], a[None], a[..., None], a[:0], empty, np.concatenate([a, a])]
    arrays[i] = np.ascontiguousarray(options[rng.integers(len(options))])


@forged
def types(header, arrays, rng):
    """Give an array another dtype."""
    if not arrays:
        return
    i = int(rng.integers(len(arrays)))
    kinds = ["<f4", "<f8", "<i8", "<i4", "|i1", "|b1", "<c16", "<U8", "|S3", "<M8[s]", "<f2", "|u1"]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arrays[i] = arrays[i].astype("<i8" if arrays[i].dtype.kind in "US" else arrays[i].dtype, copy=True)
        arrays[i] = arrays[i].real.astype(kinds[rng.integers(len(kinds))])


@forged
def entries(header, arrays, rng):
    """Change entries of an array, to indices out of range among others."""
    if not arrays:
        return
    i = int(rng.integers(len(arrays)))
    array = arrays[i].copy()
    flat = array.reshape(-1) if array.flags.c_contiguous else array.T.reshape(-1)
    some = rng.integers(len(flat), size=int(rng.choice([1, 3, len(flat)]))) if len(flat) else []
    integer = [-1, 2**31 - 1, -(2**31), 2**62, -(2**63), len(flat), 1, 0]
    number = [np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 0.0, -1.0]
    with np.errstate(all="ignore"):
        value = (integer if array.dtype.kind in "iu" else number)[rng.integers(8)]
        if array.dtype.kind in "iufcb":
            flat[some] = np.array([value]).astype(array.dtype)
    arrays[i] = array


@forged
def small_arrays(header, arrays, rng):
    """Change the bytes, the shape or the dtype of an array in the header."""
    found = [entry for entry in header["objects"] if entry["type"] == "small array"]
    if not found:
        return
    entry = found[rng.integers(len(found))]
    kind = rng.integers(4)
    if kind == 0:
        entry["hex"] = rng.bytes(len(entry["hex"]) // 2).hex()
    elif kind == 1:
        entry["shape"] = [[1, *entry["shape"]], [10**9, 0], [-1, -1], [2**40], "x", [True]][rng.integers(6)]
    elif kind == 2:
        entry["dtype"] = ["<i8", "|b1", "<U0", "<U999999999", "|O", "<f16", "<c16", "V8", 5][rng.integers(9)]
    else:
        entry["hex"] = struct.pack("<q", int(rng.choice([-1, 2**62, 2**31, 10**6]))).hex() * (len(entry["hex"]) // 16)


@forged
def structure(header, arrays, rng):
    """Nest deeply, repeat exponentially, count hugely, or declare a newer version."""
    objects = header["objects"]
    kind = int(rng.integers(10))
    if kind == 0:
        header["format"] = [99, 0, -1, "1", None, 1.0, True][rng.integers(7)]
    elif kind == 1:
        objects[:] = [{"type": "list", "items": []}] + [{"type": "list", "items": [[i]]} for i in range(5000)]
    elif kind == 2:
        state = {"left": [0], "right": [0]}
        objects[:] = [{"type": "object", "class": "Gaussian", "attributes": {"lengthscale": 1.0}}]
        for i in range(150):
            state = {"left": [i], "right": [i]}
            objects.append({"type": "object", "class": "Sum", "attributes": state})
    elif kind == 3:
        items = [[i * (2**61 - 1), 0] for i in range(20000)]
        objects.insert(0, {"type": "dict", "items": items})
    elif kind == 4:
        key = {"type": "tuple", "items": [1, 2]}
        objects[:] = [key] + [{"type": "tuple", "items": [[i], [i]]} for i in range(100)]
        objects.append({"type": "dict", "items": [[[100], 1]]})
    elif kind == 5:
        objects.clear()
    elif kind == 6:
        objects.append({"type": "dict", "items": []})
    elif kind == 7:
        header["objects"] = [[[]]] * 1000
    elif kind == 8:
        objects.append({"type": "object", "class": "Geometric", "attributes": {"terms": 10**9, "scale": 0.1}})
    else:
        header["about"] = [None, [], {}, {"parameters": 3}, "x"][rng.integers(5)]


@forged
def generators(header, arrays, rng):
    """Let a generator of random numbers be at another position of its buffer."""
    state = {"type": "dict", "items": []}
    kind = rng.integers(2)
    if kind:
        inner = [["counter", [0]], ["key", [1]]]
        four = {"type": "small array", "dtype": "<u8", "shape": [4], "hex": "01" * 32, "fortran": False}
        two = {**four, "shape": [2], "hex": "01" * 16}
        state["items"] = [["bit_generator", "Philox"], ["state", [2]], ["buffer", [0]], ["has_uint32", 0]]
        state["items"] += [["uinteger", 0], ["buffer_pos", int(rng.choice([-(10**6), -1, 2, 5, 10**6]))]]
        extra = [four, two, {"type": "dict", "items": inner}, state]
        extra.append({"type": "Generator", "state": [3], "seed": None})
    else:
        words = {"type": "array", "array": len(arrays)}
        inner = [["key", [0]], ["pos", int(rng.choice([-(10**6), -1, 624, 625, 10**8]))]]
        state["items"] = [["bit_generator", "MT19937"], ["state", [1]], ["has_gauss", 0], ["gauss", 0.0]]
        extra = [words, {"type": "dict", "items": inner}, state, {"type": "RandomState", "state": [2]}]
        arrays = [*arrays, np.arange(624, dtype=np.uint32)]
    model = {"feature_map": None, "random_state": [len(extra) - 1]}
    header["objects"] = [*extra, {"type": "object", "class": "KernelRidge", "attributes": model}]
    return arrays


DAMAGES = [
    flip_bits,
    truncate,
    zero_bytes,
    replace_bytes,
    insert,
    delete,
    cut_a_few,
    append,
    splice,
    another_file,
    edit_zip,
    nothing,
    *FORGERIES,
    *FORGERIES,  # twice as often
]


# ---- judging ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What became of one case: "same bits", "refused", "refused at use", "another model" or one of `FAULTS`."""

    number: int
    model: str
    damage: str
    verdict: str
    detail: str
    seconds: float


class Watch:
    """Notices what code that is executed by a file would do, once it is started."""

    EVENTS = ("os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "os.fork", "socket.", "pickle.find_class")
    KNOWN = frozenset({"mercer", "numpy", "scipy", "sklearn", "joblib", "threadpoolctl"}) | sys.stdlib_module_names

    def __init__(self):
        self.seen = []
        self.folder = None

    def __call__(self, event, arguments):
        if self.folder is None:
            return
        if event.startswith(self.EVENTS):
            self.seen.append(f"{event}{arguments!r}"[:200])
        elif event == "import" and str(arguments[0]).split(".")[0] not in self.KNOWN:
            self.seen.append(f"import {arguments[0]}")
        elif event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
            self.seen.append(f"open {arguments[:2]!r}"[:200])


def judge(number, cases, watch=None):
    """Change the file of one of the cases, load it, and use the model."""
    rng = np.random.default_rng([2026, number])
    case, other = (cases[i] for i in rng.integers(len(cases), size=2))
    damage = DAMAGES[number % len(DAMAGES)]
    content = damage(case.content, rng, other.content)
    verdict, detail = "", ""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.mercer"
        path.write_bytes(content)
        if watch is not None:
            watch.folder, watch.seen = folder, []
        start = time.perf_counter()
        try:
            describe(path)
            model = load_model(path)
            generator = getattr(model, "random_state", None)
            if isinstance(generator, np.random.Generator | np.random.RandomState):
                generator.bytes(10_000)
            verdict = verdict_of(results(model), case.expected, damage, content in [one.content for one in cases])
        except ModelFileError as error:
            verdict, text = "refused", str(error)
            detail = text.replace(folder, "")
            if "\n" in text or str(path) not in text or not text.endswith("."):
                verdict = "several lines"
        except (MercerError, NotFittedError) as error:
            verdict, detail = "refused at use", str(error)
        except Exception as error:
            # A file that declares rows of other features is a model of such rows: scikit-learn's check refuses ours.
            is_width = isinstance(error, ValueError) and "features as input" in str(error)
            verdict, detail = "refused at use" if is_width else "raw error", f"{type(error).__name__}: {error}"
        seconds = time.perf_counter() - start
        if watch is not None:
            watch.folder = None
            if watch.seen:
                verdict, detail = "execution", "; ".join(watch.seen)
    return Outcome(number, case.name, damage.__name__, verdict, detail[:500], seconds)


def describe(path):
    """Print the description of a file, unless it is refused."""
    with suppress(ModelFileError):
        str(describe_model(path))


def verdict_of(found, expected, damage, is_known):
    if found == expected:
        return "same bits"
    return "another model" if damage in FORGERIES or is_known else "wrong answer"


def judge_all(numbers, folder, limit=LIMIT, names=tuple(MODELS)):
    """Yield the outcomes of cases, judged in a child process."""
    folder = Path(folder)
    (folder / "cases.pickle").write_bytes(pickle.dumps([asdict(case) for case in cases_of(folder, names)]))
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
            damage = DAMAGES[number % len(DAMAGES)].__name__
            yield Outcome(number, "", damage, verdict, f"return code {child.returncode}", seconds)
            child.stdin.close()
            child.stdout.close()
            child = None
    finally:
        if child is not None:
            child.stdin.close()
            child.wait()
            child.stdout.close()


def _start(folder):
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), OMP_NUM_THREADS="1")
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
    cases = [Case(**case) for case in pickle.loads((Path(folder) / "cases.pickle").read_bytes())]
    path = Path(folder) / "warm.mercer"
    for case in cases:  # modules are imported before the watch starts
        path.write_bytes(case.content)
        results(load_model(path))
    watch = Watch()
    sys.addaudithook(watch)
    _limit_memory()
    print("ready", flush=True)
    for line in sys.stdin:
        number = int(line)
        if number == CRASHES:
            os.abort()
        elif number == HANGS:
            time.sleep(3600)
        print(json.dumps(asdict(judge(number, cases, watch))), flush=True)


def _limit_memory():
    """Let allocations beyond the limit fail, where the system can."""
    try:
        import resource

        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    except (ImportError, OSError):
        pass


if __name__ == "__main__":
    main(sys.argv[1])
