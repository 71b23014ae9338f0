"""Speed of maps on this machine: measured once, and stored in a file of the user's cache directory."""

from __future__ import annotations

import contextlib
import json
import math
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.engines.base import count_threads
from mercer.maps.base import BaseMap

__all__ = ["forget_rates", "rates_file", "seconds_of_moments", "seconds_per_row"]

# A transform is timed on as many rows as take about this long, and repeated; the best time counts.
LEAST_SECONDS = 0.005
REPEATS = 3
MOST_ROWS = 4000
# Sizes of the matrices whose second moments are timed, as a learner does with the features of a block.
MOMENT_ROWS, MOMENT_COMPONENTS = 2000, 512

_known: dict[str, float] = {}


def rates_file() -> Path:
    """Return the file with the rates that were measured: ``rates.json`` in the directory of caches of the user.

    The environment variable ``MERCER_CACHE_DIR`` names another directory.
    """
    if "MERCER_CACHE_DIR" in os.environ:
        return Path(os.environ["MERCER_CACHE_DIR"]) / "rates.json"
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return base / "mercer" / "rates.json"


def forget_rates() -> None:
    """Remove all rates that were measured, so that they are measured again, for example on an idle machine."""
    _known.clear()
    with contextlib.suppress(OSError):
        rates_file().unlink()


def seconds_per_row(feature_map: BaseMap, X: Any) -> float:
    """Return the time of the transform of one row by a fitted map, among many rows, measured with rows of `X`.

    The time of equal maps (up to seeds and lengthscales) is measured once and stored in `rates_file()`.
    """
    parameters = {
        name: value
        for name, value in feature_map.get_params(deep=False).items()
        if name not in ("kernel", "random_state", "n_jobs")
    }
    # Other numbers, such as a degree or the smoothness of a Matern kernel, decide how long a value takes.
    kernel = re.sub(r"(lengthscales?|center)=(\([^)]*\)|[^,)]*)", r"\1=#", repr(feature_map.kernel_))
    threads = count_threads(feature_map.n_jobs)
    rows = f"d={X.shape[1]}"
    if sp.issparse(X):
        rows += f" sparse, about 2^{round(math.log2(max(1.0, X.nnz / X.shape[0])))} values"
    key = f"{type(feature_map).__name__} {parameters} {kernel[:200]} {rows} {X.dtype} threads={threads}"
    return _measured_once(key, lambda: _transform_seconds(feature_map, X))


def seconds_of_moments(n_components: int, dtype: Any) -> float:
    """Return the time that a learner spends on the second moments of one row of `n_components` features."""
    per_square = _measured_once(f"moments {np.dtype(dtype)}", lambda: _moment_seconds(dtype))
    return per_square * n_components**2


def _measured_once(key: str, measure: Callable[[], float]) -> float:
    key = f"{platform.node()} {os.cpu_count()} cores: {key}"
    if not _known:
        _known.update(_stored())
    if key not in _known:
        _known[key] = float(f"{measure():.3g}")
        _store()
    return _known[key]


def _stored() -> dict[str, float]:
    """Return the rates in the file; none if there is no such file, or if it is damaged."""
    try:
        stored = json.loads(rates_file().read_text())
        return {str(key): float(rate) for key, rate in stored.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def _store() -> None:
    """Write the rates into the file. Where this is impossible, they are measured again in the next process."""
    path = rates_file()
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        # Other processes may write too: each replaces the file by a complete one that has their rates.
        merged = _stored() | _known
        descriptor, name = tempfile.mkstemp(dir=path.parent, suffix=".json")
        with os.fdopen(descriptor, "w") as file:
            json.dump(merged, file, indent=0, sort_keys=True)
        Path(name).replace(path)


def _transform_seconds(feature_map: BaseMap, X: Any) -> float:
    rows = min(X.shape[0], 64)
    while True:
        indices = np.arange(rows) % X.shape[0]
        seconds = min(_seconds(partial(feature_map.apply, X[indices])) for _ in range(REPEATS))
        if seconds >= LEAST_SECONDS or rows >= MOST_ROWS:
            return seconds / rows
        rows = min(MOST_ROWS, rows * max(2, int(1.5 * LEAST_SECONDS / max(seconds, 1e-9))))


def _moment_seconds(dtype: Any) -> float:
    Z = np.random.default_rng(0).standard_normal((MOMENT_ROWS, MOMENT_COMPONENTS)).astype(dtype)
    seconds = min(_seconds(lambda: Z.T @ Z) for _ in range(REPEATS))
    return seconds / (MOMENT_ROWS * MOMENT_COMPONENTS**2)


def _seconds(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start
