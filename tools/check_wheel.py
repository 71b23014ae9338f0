"""Check wheels of a release: compiled kernels inside, a tag for one platform, and an installed copy that works.

    python tools/check_wheel.py WHEEL ...
    python tools/check_wheel.py --installed

A build that fails installs a pure Python package, which is right for a person without a compiler and wrong for a wheel
that many download. The first form reads the files. The second imports the installed package: the compiled kernels must
be in use, must agree with NumPy, and must not switch the global interpreter lock on where Python runs without it.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

UNWANTED = ("tests/", "benchmarks/", "src/", "docs/", "tools/")


def problems_of(wheel: Path) -> list[str]:
    """Return what is wrong with the file of a wheel."""
    name = wheel.name
    with zipfile.ZipFile(wheel) as archive:
        files = archive.namelist()
    found = [file for file in files if file.startswith("mercer/linalg/_native") and file.endswith((".so", ".pyd"))]
    problems = []
    if len(found) != 1:
        problems.append(f"{len(found)} compiled modules instead of 1: build with MERCER_REQUIRE_COMPILED=1")
    if name.endswith("-any.whl"):
        problems.append("it is tagged for any platform: the build without a compiler made it")
    if "-linux_" in name:
        problems.append("it is tagged for one Linux system: run `auditwheel repair` on it")
    if unwanted := [file for file in files if file.startswith(UNWANTED)]:
        problems.append(f"it holds files of the repository, such as {unwanted[0]}")
    if "mercer/py.typed" not in files:
        problems.append("mercer/py.typed is missing, so that type checkers see no types")
    return problems


def installed_problems() -> list[str]:
    """Return what is wrong with the installed package."""
    import numpy as np

    import mercer
    from mercer import Gaussian, RandomFourier

    try:
        from mercer.linalg import _native
    except ImportError as error:
        return [f"the compiled kernels cannot be imported: {error}"]
    problems = []
    rows = np.random.default_rng(0).normal(size=(100, 7))
    features = RandomFourier(Gaussian(), n_components=4096, random_state=0).fit(rows)
    error = np.abs(features.gram(rows) - Gaussian()(rows, rows)).max()
    # 0.2 is some nine standard errors of a mean of 2048 cosines.
    if not error < 0.2:
        problems.append(f"the largest error of 4096 Fourier features is {error:.3g}, more than 0.2")
    lock = getattr(sys, "_is_gil_enabled", None)
    if lock is not None and "free-threading" in sys.version and lock():
        problems.append("importing the compiled kernels switched the global interpreter lock on")
    print(f"mercer {mercer.__version__}, Python {sys.version.split()[0]}, {_native.__file__}")
    return problems


def main() -> None:
    """Print what is wrong, and fail if anything is."""
    arguments = sys.argv[1:]
    if not arguments:
        sys.exit(__doc__)
    found = {}
    for argument in arguments:
        found[argument] = installed_problems() if argument == "--installed" else problems_of(Path(argument))
    for name, problems in found.items():
        print(f"{name}: {'; '.join(problems) or 'as it should be'}")
    if any(found.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
