"""Description of the environment of this process: versions, compiled kernels and threads, for reproducible reports."""

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
# Each extra of the package, and the packages that it installs.
EXTRAS = {
    "io": ("pyarrow",),
    "dask": ("dask", "distributed"),
    "report": ("matplotlib", "jinja2"),
    "graph": ("pynndescent",),
}


@dataclass(frozen=True)
class Blas:
    """A BLAS library that is loaded."""

    library: str
    version: str | None
    architecture: str | None
    threads: int


@dataclass(frozen=True)
class Environment:
    """Versions, kernels and threads of this process, without the names of machines or users, and without paths.

    Attributes
    ----------
    mercer, python, system : str
        Versions, and the operating system with its processor family.
    packages : dict of str to str or None
        Versions of the packages that mercer needs.
    extras : dict of str to dict of str to str or None
        For each extra, the versions of its packages; None means not installed.
    compiled : bool
        Whether the compiled kernels are used rather than their NumPy implementations.
    instruction_set : str
        The kernels in use, by the names of `mercer.linalg.instruction_set`.
    cpu_count, threads : int
        Processors that this process may use, and threads that mercer uses by default.
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
    """Return the versions, kernels and threads of this process.

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
    """Return the BLAS libraries that are loaded."""
    # Without the paths that threadpoolctl also reports, which may contain the name of a user.
    loaded = [
        Blas(str(one["internal_api"]), one.get("version"), one.get("architecture"), int(one["num_threads"]))
        for one in threadpoolctl.threadpool_info()
        if one["user_api"] == "blas"
    ]
    return tuple(dict.fromkeys(loaded))  # NumPy and SciPy often have the same one
