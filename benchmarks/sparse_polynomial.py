"""Time and memory of polynomial features of very wide sparse rows, beside scikit-learn.

    python benchmarks/sparse_polynomial.py --data DIR [--quick] [--rounds 3] [--output DIR]

DIR holds newsgroups20.npz with the pieces of CSR matrices X_train and X_test (data, indices, indptr, shape) and labels:
term counts of 18846 messages over 130107 words, scaled to unit norm here. Tensor sketches of the quadratic kernel are
timed by blocks into one buffer, beside scikit-learn's on a few of the same rows. Memory is that of a process that fits
a ridge classifier from an iterator of blocks: features of all rows never exist at once.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import machine
import numpy as np
import scipy.sparse as sp
from harness import Check, Report, Timing, format_table, interleave, parser_for, pick, seconds_of
from sklearn.kernel_approximation import PolynomialCountSketch
from sklearn.preprocessing import normalize

from mercer import KernelRidgeClassifier, Polynomial, TensorSketch

KERNEL = Polynomial(degree=2)
COLUMNS = 4096
BLOCK = 1024
SHARES = (0.25, 0.5, 1.0)
PEER_ROWS, QUICK_PEER_ROWS = 512, 64
ALPHA = 0.1
SEED = 0
LARGEST_MEMORY = 2.0  # GB


@dataclass(frozen=True)
class Data:
    """Sparse rows of unit norm, shuffled, with their labels."""

    X: sp.csr_matrix
    y: np.ndarray

    @classmethod
    def load(cls, directory: Path, part: str) -> Data:
        """Load the part "train" or "test"."""
        with np.load(directory / "newsgroups20.npz") as arrays:
            data, indices, indptr = (arrays[f"X_{part}_{name}"] for name in ("data", "indices", "indptr"))
            X = sp.csr_matrix((data.astype(np.float32), indices, indptr), shape=tuple(arrays[f"X_{part}_shape"]))
            y = arrays[f"y_{part}"]
        order = np.random.default_rng(SEED).permutation(X.shape[0])  # the rows are sorted by label
        return cls(normalize(X)[order], y[order])

    def head(self, rows: int) -> Data:
        """Return the first rows."""
        return Data(self.X[:rows], self.y[:rows])

    def blocks(self) -> Iterator[tuple[sp.csr_matrix, np.ndarray]]:
        """Yield blocks of rows and labels, once."""
        for start in range(0, self.X.shape[0], BLOCK):
            yield self.X[start : start + BLOCK], self.y[start : start + BLOCK]


def new_map(columns: int) -> TensorSketch:
    """Return the map that is measured."""
    return TensorSketch(KERNEL, columns, random_state=SEED)


def transform(data: Data, fitted: TensorSketch, out: np.ndarray) -> None:
    """Write the features of all rows, block after block, into one buffer."""
    for X, _ in data.blocks():
        fitted.transform(X, out=out[: X.shape[0]])


def measure_times(data: Data, options: argparse.Namespace) -> dict[float, Timing]:
    """Time the features of growing shares of the rows, in turn."""
    fitted = new_map(options.n_components).fit(data.X)
    out = np.zeros((BLOCK, options.n_components), np.float32)
    parts = {share: data.head(round(share * data.X.shape[0])) for share in SHARES}
    return interleave({s: (lambda p=part: transform(p, fitted, out)) for s, part in parts.items()}, options.rounds)


def measure_peer(data: Data, options: argparse.Namespace) -> float:
    """Return the seconds a row of scikit-learn's sketch, on a few rows: it goes through all columns of each block."""
    few = data.head(options.peer_rows).X
    peer = PolynomialCountSketch(
        gamma=KERNEL.scale,
        degree=KERNEL.degree,
        coef0=KERNEL.coef0,
        n_components=options.n_components,
        random_state=SEED,
    ).fit(few)
    return seconds_of(lambda: peer.transform(few)) / options.peer_rows


def measure_fit(options: argparse.Namespace) -> dict[str, float]:
    """Fit a classifier from an iterator of blocks in this process; return its time, accuracy and peak memory."""
    train, test = Data.load(options.data, "train"), Data.load(options.data, "test")
    model = KernelRidgeClassifier(new_map(options.n_components), alpha=ALPHA, random_state=SEED)
    seconds = seconds_of(lambda: model.fit(train.blocks()))
    peak = machine.peak_bytes()
    return {"seconds": seconds, "accuracy": float(model.score(test.X, test.y)), "peak_gb": peak / 1e9}


def table(timings: dict[float, Timing], data: Data, peer: float) -> str:
    """Return times of the shares, and of the peer by the row."""
    rows = []
    for share, timing in timings.items():
        part = data.head(round(share * data.X.shape[0])).X
        rows.append(
            (
                f"{100 * share:.0f} % of the rows",
                str(part.shape[0]),
                str(part.nnz),
                f"{timing.best:.3f}",
                f"{part.nnz / timing.best / 1e6:.2f}",
                f"{1e6 * timing.best / part.shape[0]:.1f}",
            )
        )
    rows.append(("PolynomialCountSketch", "", "", "", "", f"{1e6 * peer:.0f}"))
    return format_table(("", "rows", "entries", "best s", "million entries/s", "us a row"), rows)


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = parser_for(__doc__.splitlines()[0], rounds=3, quick_rounds=2)
    parser.add_argument("--data", type=Path, required=True, help="directory with newsgroups20.npz")
    parser.add_argument("--n-components", type=int, default=COLUMNS)
    parser.add_argument("--peer-rows", type=int, help="rows for scikit-learn, which takes most of a minute for a block")
    parser.add_argument("--fit-only", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.rounds = pick(options.quick, options.rounds, 3, 2)
    options.peer_rows = pick(options.quick, options.peer_rows, PEER_ROWS, QUICK_PEER_ROWS)
    return options


def run(options: argparse.Namespace) -> None:
    """Run, print, write."""
    data = Data.load(options.data, "train")
    sizes: dict[str, Any] = {"rows": data.X.shape[0], "width": data.X.shape[1], "n_components": options.n_components}
    settings = sizes | {"kernel": repr(KERNEL), "block": BLOCK, "alpha": ALPHA, "seed": SEED}
    settings |= {"rounds": options.rounds, "peer_rows": options.peer_rows}
    report = Report("sparse_polynomial", settings, judged=options.n_components == COLUMNS)
    report.begin()
    child = ("--data", str(options.data), "--n-components", str(options.n_components), "--fit-only")
    fit = machine.in_fresh_process(__file__, *child)
    timings = measure_times(data, options)
    peer = measure_peer(data, options)
    print(f"\n{table(timings, data, peer)}")
    print(f"ridge classifier from blocks: {fit['seconds']:.2f} s, test accuracy {fit['accuracy']:.4f}")
    whole, quarter = timings[SHARES[-1]].best, timings[SHARES[0]].best
    report.results = {
        "seconds": {str(share): timing.to_dict() for share, timing in timings.items()},
        "entries": int(data.X.nnz),
        "peer_seconds_a_row": peer,
        "fit": fit,
    }
    report.checks = [
        Check("time of all rows / of a quarter", whole / quarter, at_least=3.2, at_most=4.8),
        Check("GB of the process that fits", fit["peak_gb"], at_most=LARGEST_MEMORY),
        Check("times faster a row than PolynomialCountSketch", peer / (whole / data.X.shape[0])),
    ]
    report.finish(options.output)


def main() -> None:
    """Run the benchmark, or in a child process measure one fit."""
    options = options_of()
    if options.fit_only:
        print(json.dumps(measure_fit(options)))
    else:
        run(options)


if __name__ == "__main__":
    main()
