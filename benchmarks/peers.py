"""The peers that transforms are timed against, each called as its own documentation says."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import machine
import numpy as np
from harness import Timing
from sklearn.kernel_approximation import Nystroem, RBFSampler

#: Rows to their features.
Transform = Callable[[np.ndarray], np.ndarray]
FASTFOOD = ("numpy<2", "scikit-learn==1.5.2", "scikit-learn-extra==0.3.0")


def rbf_sampler(X: np.ndarray, n_components: int) -> Transform:
    """Return the transform of scikit-learn's RBFSampler, fitted."""
    peer = RBFSampler(gamma=0.5 / X.shape[1], n_components=n_components, random_state=0).fit(X)
    return peer.transform


def nystroem(X: np.ndarray, n_components: int) -> Transform:
    """Return the transform of scikit-learn's Nystroem, fitted on as many rows as it has components."""
    rows = np.random.default_rng(1).standard_normal((n_components, X.shape[1])).astype(X.dtype)
    peer = Nystroem(kernel="rbf", gamma=0.5 / X.shape[1], n_components=n_components, random_state=0).fit(rows)
    return peer.transform


def xgpr(X: np.ndarray, n_components: int) -> Transform | None:
    """Return xGPR's feature generator on float64 rows, or None if it is not installed."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings(action="ignore"):
        try:
            from xGPR import KernelFGen
        except ImportError:
            return None
        # Its hyperparameter is the logarithm of the inverse lengthscale.
        peer = KernelFGen(
            num_rffs=n_components,
            hyperparams=np.array([np.log(1 / np.sqrt(X.shape[1]))]),
            num_features=X.shape[1],
            kernel_choice="RBF",
            device="cpu",
            kernel_settings={},
            random_seed=0,
            verbose=False,
        )
    return lambda rows: peer.predict(rows, chunk_size=2000)


class FastfoodEnvironment:
    """A virtual environment with scikit-learn-extra: its wheels need versions that mercer does not run with."""

    def __init__(self, directory: Path) -> None:
        self.python = directory / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        self._directory = directory

    def install(self) -> None:
        """Create the environment, unless it is there already."""
        if self.python.exists() and self._run(self.python, "-c", "import sklearn_extra.kernel_approximation"):
            return
        made = self._run(sys.executable, "-m", "venv", "--clear", self._directory)
        if not (made and self._run(self.python, "-m", "pip", "install", "--quiet", *FASTFOOD)):
            raise RuntimeError(f"could not install {', '.join(FASTFOOD)} for this Python")

    def time(self, n: int, d: int, n_components: int, rounds: int) -> dict[str, Timing]:
        """Return the timings of Fastfood and of the copy of its output beside it."""
        script = str(Path(__file__).with_name("fastfood_peer.py"))
        sizes = map(str, (n, d, n_components, rounds))
        found = machine.in_fresh_process(script, *sizes, python=str(self.python))
        return {name: Timing(tuple(found[name])) for name in ("fastfood", "copy")}

    @staticmethod
    def _run(*command: Any) -> bool:
        return subprocess.run([str(part) for part in command], capture_output=True, check=False).returncode == 0


@contextlib.contextmanager
def fastfood_environment(directory: Path | None) -> Iterator[FastfoodEnvironment]:
    """Provide the environment in a directory that is kept, or in a temporary one."""
    with contextlib.ExitStack() as stack:
        where = directory or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        environment = FastfoodEnvironment(where)
        environment.install()
        yield environment
