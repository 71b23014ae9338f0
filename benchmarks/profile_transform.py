"""Where the time of one transform goes, piece by piece: what a figure that is out of reach is made of.

    python benchmarks/profile_transform.py [--quick] [--rounds 15]

For each dtype and width of rows, the pieces of a call beside the limits of the machine. All pieces run in turn, and
the best round counts, as wall time and as processor time of all threads. On a busy machine the wall time of pieces on
several threads means little; the processor time still does, as long as others leave the memory alone.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import machine
import numpy as np
import peers
from harness import format_table, parser_for, pick

from mercer import Gaussian, RandomFourier
from mercer.engines import empty_rows, fill_rows
from mercer.engines.base import count_threads
from mercer.maps.fourier.projections import check_range

ROWS, COLUMNS = 4000, 4096
WIDTHS = (32, 128, 1024)
DTYPES = ("float32", "float64")
DATA_SEED = 20
THREADS = count_threads(None)
PEER = "RBFSampler.transform"
WHOLE = "transform, output allocated"
FRESH = f"fill of fresh memory, {THREADS} threads"


def pieces_of_a_call(feature_map: RandomFourier, X: np.ndarray, buffer: np.ndarray) -> dict[str, Callable[[], Any]]:
    """Return what a call consists of, each piece alone."""
    features = feature_map.features_.astype(X.dtype)
    return {
        WHOLE: lambda: feature_map.transform(X),
        "transform into a buffer": lambda: feature_map.transform(X, out=buffer),
        "  input checks of other estimators": lambda: feature_map.check_rows(X),
        "  range check": lambda: check_range(features.projection, X),
        "  cast of the draw": lambda: feature_map.features_.astype(X.dtype),
        "  packing of the draw, for each block of rows": lambda: features(X[:0], buffer[:0]),
        "  handing out blocks": lambda: fill_rows(lambda rows, out: None, X, buffer, n_jobs=None),  # noqa: ARG005
        "  kernel into warm memory, 1 thread": lambda: fill_rows(features, X, buffer, n_jobs=1),
        f"  kernel into warm memory, {THREADS} threads": lambda: fill_rows(features, X, buffer, n_jobs=None),
    }


def limits(X: np.ndarray, buffer: np.ndarray) -> dict[str, Callable[[], Any]]:
    """Return what the machine and NumPy need for the same sizes."""
    n, columns = buffer.shape
    rng = np.random.default_rng(2)
    angles = rng.standard_normal(buffer.shape).astype(X.dtype)
    frequencies = rng.standard_normal((X.shape[1], columns)).astype(X.dtype)

    def fill(rows: np.ndarray, out: np.ndarray) -> None:  # noqa: ARG001 - the signature of fill_rows
        out.fill(1)

    return {
        "copy of the output, 1 thread": lambda: np.copyto(buffer, angles),
        "fill of warm memory, 1 thread": lambda: buffer.fill(1),
        "fill of fresh memory, 1 thread": lambda: empty_rows(n, columns, X.dtype).fill(1),
        FRESH: lambda: fill_rows(fill, X, empty_rows(n, columns, X.dtype), n_jobs=None),
        "GEMM of the peer": lambda: np.matmul(X, frequencies, out=buffer),
        "np.cos of the output": lambda: np.cos(angles, out=buffer),
        PEER: partial(peers.rbf_sampler(X, columns), X),
    }


def best_times(cases: dict[str, Callable[[], Any]], rounds: int) -> dict[str, tuple[float, float]]:
    """Return the smallest wall time and the smallest processor time of each case, in seconds."""
    found = dict.fromkeys(cases, (np.inf, np.inf))
    for turn in range(rounds + 1):
        for name, case in cases.items():
            wall, processor = time.perf_counter(), time.process_time()
            result = case()
            wall, processor = time.perf_counter() - wall, time.process_time() - processor
            del result  # whoever allocates pays for fresh memory in every round
            if turn:  # the first round warms up
                found[name] = min(found[name][0], wall), min(found[name][1], processor)
    return found


def profile(dtype: str, d: int, rounds: int) -> str:
    """Return the table for one dtype and width."""
    X = np.random.default_rng(DATA_SEED).standard_normal((ROWS, d)).astype(dtype)
    feature_map = RandomFourier(Gaussian(lengthscale=float(np.sqrt(d))), COLUMNS, random_state=0).fit(X)
    buffer = np.zeros((ROWS, COLUMNS), dtype)
    found = best_times(pieces_of_a_call(feature_map, X, buffer) | limits(X, buffer), rounds)
    peer = found[PEER][0]
    lines = [
        (
            name,
            f"{1e3 * wall:.2f}",
            f"{1e3 * processor:.2f}",
            f"{1e9 * wall / buffer.size:.3f}",
            "" if name.startswith(" ") else f"{peer / wall:.1f}",
        )
        for name, (wall, processor) in found.items()
    ]
    header = ("", "wall ms", "processor ms", "ns/element", "x RBFSampler")
    bound = peer / found[FRESH][0]
    return (
        f"\n{dtype}, d={d}, directions {feature_map.directions_!r}\n{format_table(header, lines)}\n"
        f"no transform that returns a fresh array can be more than {bound:.1f} times faster than the peer here"
    )


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = parser_for(__doc__.splitlines()[0], rounds=15, quick_rounds=5)
    options = parser.parse_args(arguments)
    options.rounds = pick(options.quick, options.rounds, 15, 5)
    return options


def main() -> None:
    """Profile all cases and print them."""
    options = options_of()
    start = machine.Clock.read()
    print(f"{ROWS} rows, {COLUMNS} columns, best of {options.rounds} rounds, load average {start.load:.2f}")
    for dtype in DTYPES:
        for d in WIDTHS:
            print(profile(dtype, d, options.rounds), flush=True)
    print(f"\n{machine.Load.between(start, machine.Clock.read())}")


if __name__ == "__main__":
    main()
