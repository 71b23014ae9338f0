"""Too little memory: the message says how much is needed and available, and what to lower."""

import resource

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import (
    ArcCosine,
    Gaussian,
    GaussianProcessRegressor,
    KernelKMeans,
    KernelPCA,
    KernelRidge,
    KernelRidgeClassifier,
    Nystroem,
    RandomFourier,
    RandomNeurons,
    SphericalRadial,
    TooLittleMemoryError,
)
from mercer.errors import memory
from mercer.errors.memory import available_bytes, check_memory, explained_memory_errors, gib

X = np.random.default_rng(0).normal(size=(50, 2))
y = X[:, 0]


@pytest.fixture
def eight_gib(monkeypatch):
    for module in ("errors.memory", "kernels.base", "maps.base", "learners.base"):
        monkeypatch.setattr(f"mercer.{module}.LARGE", 2**30)
    monkeypatch.setattr(memory, "available_bytes", lambda: 8 * 2**30)
    monkeypatch.setattr("mercer.learners.base.available_bytes", lambda: 8 * 2**30)


def wide(n):
    """Return n sparse rows, which take next to no memory."""
    return sp.csr_matrix((n, 3))


def test_matrices_of_components_are_refused_before_they_are_allocated(eight_gib):
    for learner in (KernelRidge, KernelRidgeClassifier, KernelPCA, GaussianProcessRegressor):
        words = (
            rf"^{learner.__name__}: a matrix of shape \(200000, 200000\), for the 200000 components of the map, needs "
            r"298 GiB of memory, but 8 GiB are available\. Lower n_components of the map: about 18,918 components"
        )
        with pytest.raises(TooLittleMemoryError, match=words) as raised:
            learner(RandomFourier(Gaussian(), 200_000)).fit(X, y > 0)
        assert isinstance(raised.value, MemoryError)


def test_landmarks_and_components_are_refused_before_they_are_drawn(eight_gib, monkeypatch):
    monkeypatch.setattr(Nystroem, "_draw", None)
    words = (
        r"Nystroem: a map of n_components=200000 components needs 298 GiB of memory, but 8 GiB are available\. Lower"
    )
    with pytest.raises(TooLittleMemoryError, match=words):
        Nystroem(Gaussian(), 200_000).fit(wide(200_000))
    words = r": a map of n_components=1000000000 components needs {} GiB of memory, .*\. Lower n_components\.$"
    for rows, directions, needed in ((np.zeros((30, 10)), "auto", "37.3"), (np.zeros((30, 100)), "iid", "373")):
        for kind in (RandomFourier, SphericalRadial):
            with pytest.raises(TooLittleMemoryError, match=kind.__name__ + words.format(needed)):
                kind(Gaussian(), 10**9, directions=directions).fit(rows)
    with pytest.raises(TooLittleMemoryError, match=r"a map of n_components=10000000000 components needs 74"):
        RandomNeurons(ArcCosine(1), 10**10).fit(X)


def test_kernel_matrices_and_features_are_refused(eight_gib):
    words = (
        r"^Gaussian\(lengthscale=1\.0\): a matrix of shape \(1000000, 1000000\) needs 7,451 GiB of memory, but 8 GiB "
        r"are available\. Pass fewer rows at a time, or use features in place of the matrix: mercer\.maps\.default_map"
    )
    with pytest.raises(TooLittleMemoryError, match=words):
        Gaussian()(wide(10**6))
    words = r"RandomFourier: an array of features of shape \(2000000, 1000\) needs 14\.9 GiB .*\. Pass fewer rows"
    with pytest.raises(TooLittleMemoryError, match=words):
        RandomFourier(Gaussian(), 1000).fit(X[:, :1]).transform(sp.csr_matrix((2 * 10**6, 1)))
    with pytest.raises(TooLittleMemoryError, match=r"a matrix of shape \(100000, 100000\) needs 74\.5 GiB"):
        RandomFourier(Gaussian(), 2).fit(X[:, :1]).gram(sp.csr_matrix((10**5, 1)))


def test_gram_matrices_of_learners_are_refused(eight_gib):
    rows = np.zeros((10**5, 1))
    words = r"KernelKMeans: exact=True, with the Gram matrix of 100000 rows, needs 74\.5 GiB .*\. Use exact=False"
    with pytest.raises(TooLittleMemoryError, match=words):
        KernelKMeans(RandomFourier(Gaussian(), 2), 2, exact=True).fit(rows)
    model = GaussianProcessRegressor(RandomFourier(Gaussian(), 4, random_state=0), lengthscale_tuning=None).fit(X, y)
    with pytest.raises(TooLittleMemoryError, match=r"return_cov=True, with .*\. Use return_std=True, or fewer rows\.$"):
        model.predict(np.zeros((10**5, 2)), return_cov=True)


def test_what_fits_is_not_refused(eight_gib, monkeypatch):
    check_memory("Model", "an array", 8 * 2**30, "Lower it.")
    monkeypatch.setattr(memory, "available_bytes", lambda: None)  # unknown
    check_memory("Model", "an array", 2.0**60, "Lower it.")
    monkeypatch.setattr(memory, "available_bytes", lambda: 0)
    check_memory("Model", "an array", 2**30, "Lower it.")  # too small to be worth a look
    KernelRidge(RandomFourier(Gaussian(), 16, random_state=0)).fit(X, y)
    # No learner without such a matrix is refused for it.
    monkeypatch.setattr("mercer.learners.base.LARGE", 0)
    monkeypatch.setattr("mercer.errors.memory.LARGE", 0)
    KernelKMeans(RandomFourier(Gaussian(), 16, random_state=0), 2).fit(X)
    with pytest.raises(TooLittleMemoryError):
        KernelRidge(RandomFourier(Gaussian(), 16, random_state=0)).fit(X, y)


def test_errors_of_numpy_get_the_same_words(eight_gib):
    with (
        pytest.raises(
            TooLittleMemoryError, match=r"Model: there is too little memory \(Unable to allocate .* 8 GiB are"
        ),
        explained_memory_errors("Model", "Lower it."),
    ):
        np.empty((2**40, 2**10))

    def full(*_):
        raise MemoryError

    feature_map = RandomFourier(Gaussian(), 8)
    feature_map._draw = full
    words = (
        r"^RandomFourier: there is too little memory\. 8 GiB are available\. Lower n_components of the map, block_size "
        r"or n_jobs\.$"
    )
    with pytest.raises(TooLittleMemoryError, match=words) as raised:
        feature_map.fit(X)
    assert isinstance(raised.value.__cause__, MemoryError)


# ---- the memory that is available -------------------------------------------------------------


@pytest.fixture
def linux(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "PROC", tmp_path / "proc")
    monkeypatch.setattr(memory, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    write(tmp_path / "proc/meminfo", "MemAvailable: 5000 kB\nSwapFree: 1000 kB\nHugePages_Total: 0\n")
    return tmp_path


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_memory_and_swap_of_the_system(linux):
    assert available_bytes() == 6000 * 1024


def test_limits_of_control_groups(linux):
    write(linux / "proc/self/cgroup", "0::/outer/inner\n")
    write(linux / "cgroup/outer/inner/memory.max", "max\n")
    write(linux / "cgroup/outer/memory.max", "3000\n")
    write(linux / "cgroup/outer/memory.current", "2500\n")
    write(linux / "cgroup/outer/memory.stat", "anon 7\ninactive_file 400\n")
    assert available_bytes() == 900
    write(linux / "proc/self/cgroup", "12:cpu:/\n4:memory:/docker/on-the-host\n")  # version 1, inside of a container
    write(linux / "cgroup/memory/memory.limit_in_bytes", "2000\n")
    write(linux / "cgroup/memory/memory.usage_in_bytes", "500\n")
    write(linux / "cgroup/memory/memory.stat", "total_inactive_file 100\n")
    assert available_bytes() == 1600
    write(linux / "cgroup/memory/memory.limit_in_bytes", f"{2**63 - 4096}\n")  # means none
    assert available_bytes() == 6000 * 1024


def test_limit_of_the_address_space(linux, monkeypatch):
    page = resource.getpagesize()
    write(linux / "proc/self/statm", "10 5 1 1 0 1 0\n")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100 * page, 100 * page))
    assert available_bytes() == 90 * page


def test_other_systems(linux, monkeypatch):
    (linux / "proc/meminfo").unlink()
    assert available_bytes() == resource.getpagesize() * memory.os.sysconf("SC_PHYS_PAGES")
    monkeypatch.delattr(memory.os, "sysconf")
    assert available_bytes() is None


def test_this_machine():
    assert 2**20 < available_bytes() < 2**50


def test_sizes_as_text():
    assert gib(1.5 * 2**30) == "1.5 GiB"
    assert gib(2**43) == "8,192 GiB"
