"""Files are written completely or not at all, described on one page, and refused in one sentence."""

import errno
import os
import random
import select
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import mercer
from mercer import (
    CallableKernel,
    Gaussian,
    KernelRidge,
    KernelRidgeClassifier,
    ModelFileError,
    Nystroem,
    RandomFourier,
    describe_model,
    load_model,
    save_model,
)
from mercer.io import files as io_files
from mercer.model_files import files
from mercer.model_files.files import FORMAT, LABEL

X = np.random.default_rng(0).normal(size=(50, 3))


@pytest.fixture
def model():
    return RandomFourier(Gaussian(), 40, random_state=0).fit(X)


# ---- what describe_model shows --------------------------------------------------------------------


def test_description_is_one_page(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    learner = KernelRidgeClassifier(RandomFourier(Gaussian(), 40, random_state=0)).fit(frame, X[:, 0] > 0)
    path = save_model(learner, tmp_path / "m.mercer", metadata={"purpose": "a test", "rows": 50})
    about = describe_model(path)
    assert about.class_name == "KernelRidgeClassifier"
    assert (about.n_features_in, about.feature_names_in, about.classes) == (3, ("a", "b", "c"), ("False", "True"))
    assert (about.format, about.version, about.size) == (FORMAT, mercer.__version__, path.stat().st_size)
    assert about.metadata == {"purpose": "a test", "rows": 50}
    page = str(about)
    for text in ("KernelRidgeClassifier", "a, b, c", "False, True", "n_components=40", "a test", np.__version__):
        assert text in page
    assert len(page.splitlines()) < 30
    assert max(map(len, page.splitlines())) < 500


def test_description_does_not_read_arrays(model, tmp_path, monkeypatch):
    path = save_model(model, tmp_path / "m.mercer")
    monkeypatch.setattr(files.SealedArchive, "arrays", None)
    assert describe_model(path).is_fitted


def test_description_does_not_control_the_terminal(model, tmp_path):
    path = save_model(model, tmp_path / "m.mercer", metadata={"\x1b[31mred": "\x07", "long": "x" * 10_000})
    page = str(describe_model(path))
    assert "\x1b" not in page
    assert "\x07" not in page
    assert len(page) < 3000


# ---- what is refused --------------------------------------------------------------------------------


def message(function, *args):
    with pytest.raises(ModelFileError) as caught:
        function(*args)
    text = str(caught.value)
    assert "\n" not in text
    assert text.endswith(".")
    return text


@pytest.mark.parametrize("function", [load_model, describe_model])
def test_what_is_no_model_file_is_refused(function, model, tmp_path):
    path = save_model(model, tmp_path / "m.mercer")
    assert "No such file" in message(function, tmp_path / "missing.mercer")
    assert "not a regular file" in message(function, tmp_path)
    (tmp_path / "empty").touch()
    assert "it is empty" in message(function, tmp_path / "empty")
    np.savez(tmp_path / "rows.npz", X)
    assert "another file" in message(function, tmp_path / "rows.npz")
    (tmp_path / "cut.mercer").write_bytes(path.read_bytes()[:-10])
    assert "cut off" in message(function, tmp_path / "cut.mercer")
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in message(function, tmp_path / "pipe")  # and it does not wait for a writer


def test_newer_formats_are_refused_with_both_versions(model, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "FORMAT", FORMAT + 1)
    path = save_model(model, tmp_path / "m.mercer")
    monkeypatch.undo()
    text = message(load_model, path)
    assert f"format {FORMAT + 1}" in text
    assert f"up to {FORMAT}" in text
    assert mercer.__version__ in text


def test_what_cannot_be_stored_is_refused_and_nothing_is_written(tmp_path):
    path = tmp_path / "m.mercer"
    assert "a kernel made of a function" in message(save_model, CallableKernel(np.dot), path)
    assert "KernelRidge.progress is a function" in message(save_model, KernelRidge(progress=print), path)
    assert "a class" not in message(save_model, KernelRidge, path)
    assert "must be an estimator" in message(save_model, {"a": 1}, path)
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    assert "pipelines only" in message(save_model, make_pipeline(StandardScaler(), KernelRidge()), path)
    assert "memory" in message(save_model, make_pipeline(KernelRidge(), memory=str(tmp_path)), path)
    with pytest.raises(ModelFileError, match="metadata must be"):
        save_model(KernelRidge(), path, metadata={"x": object()})
    assert list(tmp_path.iterdir()) == []


# ---- writing ------------------------------------------------------------------------------------------


def test_links_are_replaced_when_written_and_followed_when_read(model, tmp_path):
    path = save_model(model, tmp_path / "m.mercer")
    before = path.read_bytes()
    link = tmp_path / "link.mercer"
    link.symlink_to(path)
    assert load_model(link).transform(X).tobytes() == model.transform(X).tobytes()
    save_model(Gaussian(), link)
    assert not link.is_symlink()
    assert path.read_bytes() == before


def test_names_of_temporary_files_cannot_be_guessed(model, tmp_path, monkeypatch):
    names = []
    replace = os.replace

    def noted(source, target):
        names.append(os.path.basename(source))
        replace(source, target)

    monkeypatch.setattr(io_files.os, "replace", noted)
    for _ in range(2):
        save_model(model, tmp_path / "m.mercer")
    assert len(set(names)) == 2
    assert min(map(len, names)) > 16 + len(".m.mercer")


class _FullDisk:
    """A file on a disk with space for some bytes."""

    def __init__(self, file, space):
        self.file, self.space = file, space

    def __getattr__(self, name):
        return getattr(self.file, name)

    def __enter__(self):
        self.file.__enter__()
        return self

    def __exit__(self, *args):
        return self.file.__exit__(*args)

    def write(self, data):
        self.space -= len(data)
        if self.space < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self.file.write(data)


@pytest.mark.parametrize("space", [0, 500, 2000, 3500])
def test_full_disk_is_reported_and_leaves_the_previous_file(space, model, tmp_path, monkeypatch):
    path = save_model(model, tmp_path / "m.mercer")
    before = path.read_bytes()
    monkeypatch.setattr(io_files, "open", lambda *args: _FullDisk(open(*args), space), raising=False)
    larger = RandomFourier(Gaussian(), 400, random_state=0).fit(X)
    text = message(save_model, larger, path)
    assert "No space left" in text
    assert "it needs about" in text
    assert "The previous file is unchanged" in text
    assert "No file was left" in message(save_model, larger, tmp_path / "new.mercer")
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m.mercer"]


def test_limit_of_the_system_on_file_sizes_is_reported(tmp_path):
    resource = pytest.importorskip("resource")
    larger = RandomFourier(Gaussian(), 40_000, random_state=0).fit(X)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        text = message(save_model, larger, tmp_path / "m.mercer")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "File too large" in text
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_full_file_system(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", folder], capture_output=True).returncode:
        pytest.skip("file systems cannot be mounted here")
    try:
        path = save_model(Gaussian(), folder / "m.mercer")
        before = path.read_bytes()
        text = message(save_model, RandomFourier(Gaussian(), 40_000, random_state=0).fit(X), path)
        assert "No space left" in text
        assert "bytes are free" in text
        assert path.read_bytes() == before
        assert os.listdir(folder) == ["m.mercer"]
    finally:
        subprocess.run(["umount", folder], check=True)


SAVING = """
import os
import signal
import sys
import traceback
import numpy as np
from mercer import Gaussian, RandomFourier, save_model
signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the tests run in the background of a shell
rows = np.random.default_rng(0).normal(size=(30, 30))
models = [RandomFourier(Gaussian(), n, random_state=0).fit(rows) for n in (20_000, 40_000)]
interrupt = {signal.SIGINT}


def save(path):
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, interrupt)
        while True:
            for model in models:
                save_model(model, path)
    except KeyboardInterrupt:
        return 130
    except BaseException:
        traceback.print_exc()
        return 99


for path in sys.stdin:
    signal.pthread_sigmask(signal.SIG_BLOCK, interrupt)  # until the child is where it handles it
    pid = os.fork()
    if not pid:
        # The exception is gone before the process ends, and with it the generators that it has interrupted.
        os._exit(save(path.strip()))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, interrupt)
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


def check_signals(folder, repeats, seed):
    """Save models in processes that are ended at random moments, and look at what they leave."""
    delays, path = random.Random(seed), folder / "m.mercer"
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), OMP_NUM_THREADS="1")
    child = subprocess.Popen(
        [sys.executable, "-c", SAVING], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        for repeat in range(repeats):
            number = (signal.SIGTERM, signal.SIGINT)[repeat % 2]
            path.unlink(missing_ok=True)
            if delays.random() < 0.5:
                save_model(Gaussian(), path)
            child.stdin.write(f"{path}\n")
            child.stdin.flush()
            pid = int(child.stdout.readline())
            time.sleep(delays.uniform(0.002, 0.15))
            os.kill(pid, number)
            # Python ignores an interruption that arrives in a callback of a weak reference. People try again.
            while number == signal.SIGINT and not select.select([child.stdout], [], [], 5.0)[0]:
                os.kill(pid, number)
            assert int(child.stdout.readline()) == (-number if number == signal.SIGTERM else 130)
            left = os.listdir(folder)
            assert left in ([], ["m.mercer"])
            if left:
                load_model(path)
    finally:
        child.stdin.close()
        child.wait(timeout=30)
        child.stdout.close()


def test_signals_leave_no_half_written_file(tmp_path):
    check_signals(tmp_path, 6, 0)


@pytest.mark.slow
def test_many_signals_leave_no_half_written_file(tmp_path):
    check_signals(tmp_path, 200, 1)


def test_unused_model_of_landmarks_is_complete(tmp_path):
    """A map whose fit was not followed by any use."""
    fresh = Nystroem(Gaussian(), 10, random_state=0).fit(X)
    again = load_model(save_model(fresh, tmp_path / "m.mercer"))
    assert again.transform(X).tobytes() == fresh.transform(X).tobytes()


def test_label_of_model_files_does_not_change():
    assert LABEL == "mercer model"
