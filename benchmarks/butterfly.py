"""What butterfly directions cost: beside sign-Hadamard ones, beside a dense projection, and against the width of rows.

    python benchmarks/butterfly.py [--quick] [--rounds 9] [--output DIR]

Projections alone, without sines and cosines, in float32 on one thread: `linalg.butterfly`, `linalg.sign_hadamard` and a
matrix product. Cases of a comparison run in turn, best of several rounds, and write into a buffer. Figures:

- time relative to sign-Hadamard directions at d = 1024,
- time relative to a dense projection onto as many outputs at d = 7129, the widest rows of Munkhoeva et al. 2018, where
  butterflies are padded to 8192 columns,
- time for one block of outputs, as many as columns, at d = 128, ..., 16384, for equally many numbers in all: the
  exponent of a power law, which is a little above one for d log d, and the bytes of a pickled draw by column and block.
"""

from __future__ import annotations

import argparse
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from harness import Check, Report, Timing, format_table, interleave, parser_for, pick, ratio
from threadpoolctl import threadpool_limits

from mercer.maps.fourier.projections import (
    ButterflyProjection,
    HadamardProjection,
    butterfly_rotations,
    hadamard_signs,
)

DATA_SEED = 20
BESIDE_HADAMARD, BESIDE_DENSE = 1024, 7129
WIDTHS = tuple(2**k for k in range(7, 15))
# Rows of 1024 columns; fewer rows where they are wider, so that all cases move the same number of bytes.
ENTRIES = 1024 * 1024
DENSE_ROWS = 64
WITHIN_HADAMARD, EXPONENT, GROWTH = 1.25, 1.2, 1.1


def rows_of(n: int, d: int) -> np.ndarray:
    """Return standard normal rows."""
    return np.random.default_rng(DATA_SEED).standard_normal((n, d)).astype(np.float32)


def butterfly(m: int, d: int) -> ButterflyProjection:
    """Return m butterfly directions of unit length."""
    signs, rotations = butterfly_rotations(m, d, np.random.default_rng(0))
    drawn = ButterflyProjection(signs, rotations, np.ones(m)).astype(np.float32)
    assert drawn.plan is not None  # made at first use: not part of the time of a projection
    return drawn


def project(projection: ButterflyProjection | HadamardProjection, X: np.ndarray, out: np.ndarray) -> None:
    """Write the projections of rows, without their radii."""
    projection._project(X, out)


def beside_hadamard(rounds: int) -> dict[str, Timing]:
    """Time butterfly and sign-Hadamard directions of equal shape."""
    d = BESIDE_HADAMARD
    X = rows_of(ENTRIES // d, d)
    out = np.zeros_like(X)
    hadamard = HadamardProjection(hadamard_signs(d, d, np.random.default_rng(0)), np.ones(d)).astype(np.float32)
    cases = {
        "butterfly": partial(project, butterfly(d, d), X, out),
        "hadamard": partial(project, hadamard, X, out),
    }
    return interleave(cases, rounds)


def beside_dense(rounds: int) -> dict[str, Timing]:
    """Time butterfly directions and a matrix product with as many outputs."""
    d = BESIDE_DENSE
    m = 1 << (d - 1).bit_length()
    X = rows_of(DENSE_ROWS, d)
    out = np.zeros((len(X), m), np.float32)
    weights = np.random.default_rng(1).standard_normal((d, m), dtype=np.float32)
    cases: dict[str, Callable[[], Any]] = {
        "butterfly": partial(project, butterfly(m, d), X, out),
        "dense": lambda: np.matmul(X, weights, out=out),
    }
    return interleave(cases, rounds)


def against_width(rounds: int) -> dict[int, Timing]:
    """Time one block of butterfly directions on as many rows as have an equal number of entries."""
    cases = {}
    for d in WIDTHS:
        X = rows_of(ENTRIES // d, d)
        cases[str(d)] = partial(project, butterfly(d, d), X, np.zeros_like(X))
    return {int(name): timing for name, timing in interleave(cases, rounds).items()}


def bytes_of_draw(d: int, blocks: int = 4) -> float:
    """Return the bytes of a pickled draw, used before, by block and column."""
    drawn = butterfly(blocks * d, d)
    project(drawn, rows_of(1, d), np.zeros((1, blocks * d), np.float32))
    return len(pickle.dumps(drawn)) / (blocks * d)


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line."""
    options = parser_for(__doc__.splitlines()[0], rounds=9, quick_rounds=3).parse_args(arguments)
    options.rounds = pick(options.quick, options.rounds, 9, 3)
    return options


def main() -> None:
    """Run, print, write."""
    options = options_of()
    settings = {"rounds": options.rounds, "quick": options.quick, "data_seed": DATA_SEED, "entries": ENTRIES}
    report = Report("butterfly", settings)
    report.begin()
    with threadpool_limits(limits=1):
        hadamard, dense = beside_hadamard(options.rounds), beside_dense(options.rounds)
        widths = against_width(options.rounds)
    # Seconds for one row: all cases have as many entries.
    a_row = {d: timing.best * d / ENTRIES for d, timing in widths.items()}
    exponent = float(np.polyfit(np.log(list(a_row)), np.log(list(a_row.values())), 1)[0])
    sizes = {d: bytes_of_draw(d) for d in WIDTHS}
    rows = [(str(d), f"{1e6 * a_row[d]:.2f}", f"{1e9 * a_row[d] / d:.3f}", f"{sizes[d]:.1f}", "") for d in WIDTHS]
    print(f"\n{format_table(('d', 'us a row', 'ns an output', 'bytes of the draw / d', ''), rows)}")
    report.results = {
        "beside_hadamard": {name: timing.to_dict() for name, timing in hadamard.items()},
        "beside_dense": {name: timing.to_dict() for name, timing in dense.items()},
        "seconds_a_row": a_row,
        "bytes_by_block_and_column": sizes,
    }
    report.checks = [
        Check(
            f"butterfly / sign-Hadamard, d={BESIDE_HADAMARD}",
            ratio(hadamard["butterfly"], hadamard["hadamard"]),
            at_most=WITHIN_HADAMARD,
        ),
        Check(f"times faster than a dense projection, d={BESIDE_DENSE}", ratio(dense["dense"], dense["butterfly"])),
        Check(f"exponent of the time of a row, d={WIDTHS[0]} to {WIDTHS[-1]}", exponent, at_most=EXPONENT),
        Check(f"bytes of a pickled draw by block and column, d={WIDTHS[-1]}", sizes[WIDTHS[-1]]),
        Check(
            f"the same in units of d={WIDTHS[0]}: constant for a draw of O(d)",
            sizes[WIDTHS[-1]] / sizes[WIDTHS[0]],
            at_most=GROWTH,
        ),
    ]
    report.finish(options.output)


if __name__ == "__main__":
    main()
