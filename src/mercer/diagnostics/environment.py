"""Description of the environment of the running process: versions of packages, compiled kernels and threads."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any

import joblib
import scipy.linalg  # noqa: F401 - loads SciPy's own BLAS, so that threadpoolctl reports it
import threadpoolctl

import mercer
from mercer.engines.base import count_threads
from mercer.linalg import instruction_set

__all__ = ["Blas", "Environment", "describe_environment"]

PACKAGES = ("numpy", "scipy", "scikit-learn", "joblib", "threadpoolctl")
# Optional dependencies: the name of each extra, as in pip install mercer[io], and the packages that it installs.
EXTRAS = {
    "io": ("pyarrow",),
    "dask": ("dask", "distributed"),
    "report": ("matplotlib", "jinja2"),
    "graph": ("pynndescent",),
}


@dataclass(frozen=True)
class Blas:
    """A BLAS library that is loaded in the process, with its version, processor architecture and number of threads."""

    library: str
    version: str | None
    architecture: str | None
    threads: int


@dataclass(frozen=True)
class Environment:
    """Versions, compiled kernels and threads of the running process.

    It contains no names of machines or users, and no paths.

    Attributes
    ----------
    mercer, python : str
        Versions of mercer and of Python.
    system : str
        The operating system and the processor family.
    packages : dict of str to str or None
        Versions of the packages that mercer requires; None means not installed.
    extras : dict of str to dict of str to str or None
        For each extra (group of optional dependencies), the versions of its packages; None means not installed.
    compiled : bool
        Whether compiled code is used rather than its NumPy implementation.
    instruction_set : str
        Name of the instruction set that the compiled code uses, or "numpy"; see `mercer.linalg.instruction_set`.
    cpu_count : int
        Number of processors that the process may use.
    threads : int
        Number of threads that mercer uses by default.
    blas : tuple of Blas
        The BLAS libraries that are loaded.
    """

    mercer: str
    python: str
    system: str
    packages: dict[str, str | None]
    extras: dict[str, dict[str, str | None]]
    compiled: bool
    instruction_set: str
    cpu_count: int
    threads: int
    blas: tuple[Blas, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the description as a dictionary of built-in types."""
        return asdict(self) | {"blas": [asdict(library) for library in self.blas]}


def describe_environment() -> Environment:
    """Return the versions, compiled kernels and threads of the running process.

    Examples
    --------
    >>> from mercer.diagnostics.environment import describe_environment
    >>> describe_environment().threads >= 1
    True
    """
    kernels = instruction_set()
    return Environment(
        mercer=mercer.__version__,
        python=f"{platform.python_implementation()} {platform.python_version()}",
        system=f"{platform.system()} {platform.machine()}",
        packages={name: _version(name) for name in PACKAGES},
        extras={extra: {name: _version(name) for name in names} for extra, names in EXTRAS.items()},
        compiled=kernels != "numpy",
        instruction_set=kernels,
        cpu_count=joblib.cpu_count(),
        threads=count_threads(None),
        blas=_blas(),
    )


def _version(distribution: str) -> str | None:
    """Return the version of a package, or None if it is not installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _blas() -> tuple[Blas, ...]:
    """Return the BLAS libraries that are loaded in the process, each once."""
    # The paths that threadpoolctl also reports are omitted, because they may contain the name of a user.
    loaded = [
        Blas(str(one["internal_api"]), one.get("version"), one.get("architecture"), int(one["num_threads"]))
        for one in threadpoolctl.threadpool_info()
        if one["user_api"] == "blas"
    ]
    return tuple(dict.fromkeys(loaded))  # without duplicates: NumPy and SciPy often load equal libraries
