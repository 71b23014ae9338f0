"""Kernel k-means on features beside exact kernel k-means and scikit-learn's k-means, on MNIST.

    python benchmarks/kernel_kmeans.py --data DIR [--quick] [--rounds 3] [--seeds 10] [--output DIR]

DIR holds mnist.npz with arrays X_train and y_train. All models look for 10 clusters of float32 rows in [0, 1]; both
kernel machines use the same Gaussian kernel of median lengthscale, the same starts and the same rule to stop.

Time: whole fits, in turn, of ours on all rows and of the exact machine on few (a Gram matrix of all rows would take
14 GB). The exponent of the exact times in the rows is fitted by least squares, and the time for all rows extrapolated
from the largest by it. Each round has a seed of its own, as passes until convergence differ from start to start.

Quality: normalized mutual information with the digits, and purity, on one sample of rows for all three machines. Each
seed is one start for every machine: differences between ours and the exact machine are of the same starts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from harness import Check, Report, Timing, format_table, interleave, parser_for, pick
from matplotlib.figure import Figure
from plots import LIMIT, OTHERS, OURS
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

from mercer import Gaussian, KernelKMeans, RandomFourier

ROWS, COLUMNS, CLUSTERS = 60000, 2048, 10
EXACT_ROWS, SAMPLE = (1000, 2000, 4000, 10000), 5000
QUICK_ROWS, QUICK_EXACT_ROWS, QUICK_SAMPLE = 10000, (500, 1000, 2000), 1000
TIMES_FASTER = 20.0
WITHIN_NMI = 0.01
FEATURES, EXACT, PIXELS = "mercer KernelKMeans", "exact kernel k-means", "scikit-learn KMeans on pixels"


def load(directory: Path, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows in [0, 1] and their digits."""
    with np.load(directory / "mnist.npz") as arrays:
        X, y = arrays["X_train"][:rows].astype(np.float32), arrays["y_train"][:rows]
    X /= 255
    return X, y


def machines(kernel: Gaussian, columns: int, seed: int) -> dict[str, Any]:
    """Return the three machines, unfitted, for one start each."""
    feature_map = RandomFourier(kernel, columns, random_state=seed)
    return {
        FEATURES: KernelKMeans(feature_map, CLUSTERS, random_state=seed),
        EXACT: KernelKMeans(kernel, CLUSTERS, exact=True, random_state=seed),
        PIXELS: KMeans(CLUSTERS, n_init=1, random_state=seed),
    }


def purity(y: np.ndarray, labels: np.ndarray) -> float:
    """Return the share of rows whose digit is the most frequent one of their cluster."""
    return float(contingency_matrix(y, labels).max(axis=0).sum() / len(y))


def measure_times(
    X: np.ndarray, kernel: Gaussian, options: argparse.Namespace
) -> tuple[dict[str, Timing], dict[str, list[float]], dict[str, list[int]]]:
    """Time ours on all rows and the exact machine on few, in turn, with a new start in each round.

    Returns seconds, processor seconds, which other programs touch less, and passes.
    """
    passes: dict[str, list[int]] = {}
    processor: dict[str, list[float]] = {}

    def fit(name: str, which: str, rows: int) -> None:
        model = machines(kernel, options.n_components, len(passes.setdefault(name, [])))[which]
        start = time.process_time()
        model.fit(X[:rows])
        processor.setdefault(name, []).append(time.process_time() - start)
        passes[name].append(int(model.n_iter_))

    cases: dict[str, Callable[[], None]] = {
        f"{which}, {rows} rows": (lambda w=which, n=rows: fit(f"{w}, {n} rows", w, n))
        for which, sizes in ((FEATURES, (len(X),)), (PIXELS, (len(X),)), (EXACT, options.exact_rows))
        for rows in sizes
    }
    return interleave(cases, options.rounds, warm_up=False), processor, passes


def extrapolate(rows: tuple[int, ...], seconds: dict[str, float], to: int) -> tuple[float, float]:
    """Return the exponent of the exact machine's time in the rows, by least squares, and its time for more rows."""
    exact = [seconds[f"{EXACT}, {n} rows"] for n in rows]
    slope = float(np.polyfit(np.log(rows), np.log(exact), 1)[0])
    return slope, exact[-1] * (to / rows[-1]) ** slope


def measure_quality(
    X: np.ndarray, y: np.ndarray, kernel: Gaussian, columns: int, seeds: int
) -> dict[str, dict[str, list[float]]]:
    """Return the scores of all machines on a sample, for each seed."""
    found: dict[str, dict[str, list[float]]] = {name: {"nmi": [], "purity": []} for name in (FEATURES, EXACT, PIXELS)}
    for seed in range(seeds):
        for name, model in machines(kernel, columns, seed).items():
            labels = model.fit(X).labels_
            found[name]["nmi"].append(float(normalized_mutual_info_score(y, labels)))
            found[name]["purity"].append(purity(y, labels))
    return found


def spread(values: list[float]) -> str:
    """Return mean and standard deviation in words."""
    return f"{np.mean(values):.4f} +- {np.std(values, ddof=1):.4f}" if len(values) > 1 else f"{values[0]:.4f}"


def draw(rows: tuple[int, ...], times: dict[str, float], slope: float, quality: Any, text: str, path: Path) -> None:
    """Draw times against rows, the extrapolation among them, and the scores of all seeds."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    exact = [times[f"{EXACT}, {n} rows"] for n in rows]
    name, ours = next((name, value) for name, value in times.items() if name.startswith(FEATURES))
    n = int(name.split()[-2])
    left.loglog(rows, exact, "o-", color=LIMIT, label=EXACT)
    left.loglog(
        [rows[-1], n],
        [exact[-1], exact[-1] * (n / rows[-1]) ** slope],
        "o--",
        color=LIMIT,
        markerfacecolor="white",
        markevery=[1],
        label=f"extrapolated, exponent {slope:.2f}",
    )
    left.loglog([n], [ours], "D", color=OURS, label=FEATURES)
    left.set_xlabel("rows")
    left.set_ylabel("seconds of a fit")
    left.legend(frameon=False, fontsize=8)
    for place, (name, ink) in enumerate(((PIXELS, OTHERS), (EXACT, LIMIT), (FEATURES, OURS))):
        values = quality[name]["nmi"]
        right.plot(np.linspace(-0.15, 0.15, len(values)) + place, values, "o", color=ink, markersize=4)
        right.hlines(np.mean(values), place - 0.3, place + 0.3, color=ink)
    right.set_xticks(range(3), ["k-means\non pixels", "exact kernel\nk-means", "on features"])
    right.set_ylabel("NMI with the digits, one point a start")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(text, fontsize=10)
    figure.savefig(path, dpi=120)


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = parser_for(__doc__.splitlines()[0], rounds=3, quick_rounds=1)
    parser.add_argument("--data", type=Path, required=True, help="directory with mnist.npz")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--n-components", type=int, default=COLUMNS)
    parser.add_argument("--exact-rows", type=int, nargs="+")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seeds", type=int, help="starts of each machine on the sample (default 20; quick 3)")
    options = parser.parse_args(arguments)
    options.rows = pick(options.quick, options.rows, ROWS, QUICK_ROWS)
    options.exact_rows = tuple(pick(options.quick, options.exact_rows, EXACT_ROWS, QUICK_EXACT_ROWS))
    options.sample = pick(options.quick, options.sample, SAMPLE, QUICK_SAMPLE)
    options.seeds = pick(options.quick, options.seeds, 20, 3)
    options.rounds = pick(options.quick, options.rounds, 3, 1)
    return options


def main() -> None:
    """Run, print, write."""
    options = options_of()
    X, y = load(options.data, options.rows)
    kernel = RandomFourier(Gaussian("median"), 2, random_state=0).fit(X).kernel_
    sizes = {"rows": len(X), "n_components": options.n_components, "exact_rows": options.exact_rows}
    judged = sizes == {"rows": ROWS, "n_components": COLUMNS, "exact_rows": EXACT_ROWS} and options.sample == SAMPLE
    settings = sizes | {"sample": options.sample, "rounds": options.rounds, "seeds": options.seeds}
    report = Report("kernel_kmeans", settings | {"lengthscale": kernel.lengthscale}, judged=judged)
    report.begin()
    timings, processor, passes = measure_times(X, kernel, options)
    means = {name: float(np.mean(timing.seconds)) for name, timing in timings.items()}
    work = {name: float(np.mean(seconds)) for name, seconds in processor.items()}
    rows = [
        (name, f"{means[name]:.2f}", f"{timing.best:.2f}", f"{work[name]:.2f}", f"{np.mean(passes[name]):.0f}")
        for name, timing in timings.items()
    ]
    print("\n" + format_table(("fit", "mean s", "best", "processor s", "passes"), rows))
    name = f"{FEATURES}, {len(X)} rows"
    slope, extrapolated = extrapolate(options.exact_rows, means, len(X))
    work_slope, extrapolated_work = extrapolate(options.exact_rows, work, len(X))
    print(
        f"\nexact, extrapolated from {options.exact_rows[-1]} to {len(X)} rows: {extrapolated:.0f} s, exponent "
        f"{slope:.2f}; {extrapolated_work:.0f} processor s, exponent {work_slope:.2f}"
    )

    quality = measure_quality(X[: options.sample], y[: options.sample], kernel, options.n_components, options.seeds)
    rows = [(name, spread(values["nmi"]), spread(values["purity"]), "") for name, values in quality.items()]
    print(f"\n{options.sample} rows, {options.seeds} starts\n" + format_table(("", "NMI", "purity", ""), rows))
    gaps = np.subtract(quality[FEATURES]["nmi"], quality[EXACT]["nmi"])
    error = gaps.std(ddof=1) / np.sqrt(len(gaps))
    print(f"NMI, ours less exact, of the same starts: {gaps.mean():+.4f}, standard error {error:.4f}")
    both = machines(kernel, options.n_components, 0)
    whole = {name: both[name].fit(X).labels_ for name in (FEATURES, PIXELS)}
    whole_scores = {
        name: {"nmi": float(normalized_mutual_info_score(y, labels)), "purity": purity(y, labels)}
        for name, labels in whole.items()
    }
    print(f"\n{len(X)} rows, one start: {whole_scores}")
    report.results = {
        "seconds": {name: timing.to_dict() for name, timing in timings.items()},
        "processor_seconds": processor,
        "passes": passes,
        "exponent": slope,
        "extrapolated_seconds": extrapolated,
        "sample": quality,
        "nmi_gap": {"mean": float(gaps.mean()), "standard_error": float(error)},
        "all_rows": whole_scores,
    }
    report.checks = [
        Check("times faster than exact, extrapolated", extrapolated / means[name], at_least=TIMES_FASTER),
        Check("the same in processor seconds", extrapolated_work / work[name]),
        Check("NMI on the sample, |ours - exact|, mean", abs(float(gaps.mean())), at_most=WITHIN_NMI),
        Check("its standard error", float(error)),
    ]
    stem = report.finish(options.output)
    text = report.caption(f"MNIST, {CLUSTERS} clusters, {options.n_components} features")
    draw(options.exact_rows, means, slope, quality, text, stem.with_suffix(".png"))


if __name__ == "__main__":
    main()
