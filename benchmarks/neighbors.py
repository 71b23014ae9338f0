"""Time of a nearest-neighbor search beside scikit-learn's, exact and approximate.

    python benchmarks/neighbors.py --data DIR [--quick] [--rounds 3] [--names mnist ...] [--output DIR]

DIR holds mnist.npz, covtype.npz, ccpp.npz and protein.npz. Searches of 64 neighbors run in turn, on all cores, and the
table has the best round, in microseconds per query: the time on the clock and that of all cores, which other processes
disturb less. scikit-learn searches a part of the queries where there are many. "all rows" is the time to build the
index plus that of the search for all queries.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from harness import Check, Report, format_table, parser_for, pick
from sklearn.neighbors import NearestNeighbors

from mercer.neighbors import neighbor_index

Rows = np.ndarray
COUNT = 64
SKLEARN_QUERIES = 4000


def standardized(X: Rows) -> Rows:
    """Return rows with standardized features, float32, in random order."""
    X = X[np.random.default_rng(0).permutation(len(X))].astype(np.float64)
    scale = X.std(axis=0)
    return ((X - X.mean(axis=0)) / np.where(scale > 0, scale, 1.0)).astype(np.float32)


def mnist(path: Path) -> tuple[Rows, Rows]:
    """Return 50 principal components of the official rows."""
    with np.load(path / "mnist.npz") as data:
        rows, X = data["X_train"].astype(np.float32), data["X_test"].astype(np.float32)
    mean = rows.mean(axis=0)
    directions = np.linalg.eigh(np.cov((rows[:10000] - mean).T))[1][:, :-51:-1].astype(np.float32)
    return (rows - mean) @ directions, (X - mean) @ directions


def split(name: str, queries: int) -> Callable[[Path], tuple[Rows, Rows]]:
    """Return a function that reads rows and queries of a file with an array X."""

    def read(path: Path) -> tuple[Rows, Rows]:
        with np.load(path / f"{name}.npz") as data:
            X = standardized(data["X"])
        rest = 116_012 if name == "covtype" else queries
        return X[:-rest], X[-rest:][:queries]

    return read


def normal(n: int, d: int, queries: int) -> Callable[[Path], tuple[Rows, Rows]]:
    """Return a function that draws normal rows and queries."""
    return lambda _: tuple(np.random.default_rng(0).normal(size=(m, d)).astype(np.float32) for m in (n, queries))


CASES: dict[str, Callable[[Path], tuple[Rows, Rows]]] = {
    "mnist": mnist,
    "covtype": split("covtype", 4000),
    "covtype, many queries": split("covtype", 116_000),
    "ccpp": split("ccpp", 2000),
    "protein": split("protein", 9000),
    "normal, 10^6 x 10": normal(10**6, 10, 20_000),
}
TARGETS = {"mnist": 6.0, "covtype": 6.0, "covtype, many queries": 6.0}


def seconds(call: Callable[[], object]) -> tuple[float, float]:
    """Return the time of a call on the clock, and that of all cores."""
    clock, cores = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - clock, time.process_time() - cores


def main() -> None:
    """Time all searches in turn, and print microseconds per query."""
    parser = parser_for(__doc__.splitlines()[0], 3, 1)
    parser.add_argument("--data", type=Path, required=True, help="directory of .npz files")
    parser.add_argument("--names", nargs="+", choices=list(CASES), help="cases")
    options = parser.parse_args()
    rounds = pick(options.quick, options.rounds, 3, 1)
    names = pick(options.quick, options.names, list(CASES), ["mnist", "ccpp"])
    report = Report("neighbors", {"rounds": rounds, "names": names, "neighbors": COUNT}, not options.quick)
    report.begin()
    table = []
    for name in names:
        rows, X = CASES[name](options.data)
        some = X[:SKLEARN_QUERIES]
        build = {
            kind: seconds(lambda rows=rows, kind=kind: neighbor_index(rows, search=kind))
            for kind in ("exact", "approximate")
        }
        exact, approximate = neighbor_index(rows, search="exact"), neighbor_index(rows, search="approximate")
        searches = {
            "exact": (len(X), lambda exact=exact, X=X: exact.query(X, COUNT)),
            "approximate": (len(X), lambda approximate=approximate, X=X: approximate.query(X, COUNT)),
        }
        algorithms = ["auto", "brute"] if rows.shape[1] <= 15 else ["auto"]
        for algorithm in algorithms:
            theirs = NearestNeighbors(n_neighbors=COUNT, algorithm=algorithm, n_jobs=-1).fit(rows)
            searches[f"scikit-learn, {algorithm}"] = (len(some), lambda theirs=theirs, X=some: theirs.kneighbors(X))
        best: dict[str, tuple[float, float]] = {}
        for _ in range(rounds):
            for kind, (queries, call) in searches.items():
                taken = tuple(1e6 * t / queries for t in seconds(call))
                best[kind] = tuple(map(min, zip(best.get(kind, taken), taken, strict=True)))  # type: ignore[assignment]
        found, _ = approximate.query(some, COUNT)
        recall = np.mean([np.isin(a, b).mean() for a, b in zip(found, exact.query(some, COUNT)[0], strict=True)])
        report.results[name] = {
            "shape": rows.shape, "queries": len(X), "microseconds per query (clock, cores)": best,
            "build seconds (clock, cores)": build, "recall": recall,
        }  # fmt: skip
        for kind, (clock, cores) in best.items():
            built = "".join(f"{build[kind][0]:.2f} s" for _ in [0] if kind in build)
            table.append((f"{name} {rows.shape}, {len(X)} queries", kind, f"{clock:.1f}", f"{cores:.1f}", built))
            print("  ".join(table[-1]), flush=True)
        print(f"recall of the approximate search: {recall:.4f}", flush=True)
        for position, what in enumerate(("clock", "cores")):
            value = best["scikit-learn, auto"][position] / best["exact"][position]
            target = TARGETS.get(name)
            report.checks.append(Check(f"{name}: scikit-learn / exact, {what}", value, at_least=target))
        both = 1e6 * build["exact"][1] / len(X) + best["exact"][1]
        report.checks.append(Check(f"{name}: the same with the index, cores", best["scikit-learn, auto"][1] / both))
    print(format_table(("rows", "search", "clock, us", "cores, us", "index"), table))
    report.finish(options.output)


if __name__ == "__main__":
    main()
