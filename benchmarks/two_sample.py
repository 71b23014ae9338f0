"""Level and power of the two-sample and independence tests on features, beside the tests on Gram matrices.

    python benchmarks/two_sample.py [--quick] [--null-runs 2000] [--runs 200] [--output DIR]

Level: null runs at 5 %, of samples of unequal sizes and heavy tails, must raise as many alarms as a binomial law of 5 %
allows with a probability of 99.9 %. Power: the share of tests that see a difference, against its size, beside
the quadratic-time permutation test on the exact Gram matrix of the same kernel, on the same samples:

- a shifted mean and a changed scale, in 5 dimensions, with the kernel of median lengthscale;
- blobs: a grid of 3 x 3 Gaussians against one whose Gaussians are stretched and turned, with a lengthscale of half a
  spacing, as the median would look at the whole grid;
- dependence: y = sin(2 pi f x) plus noise, of growing frequency, and independent columns that are rotated.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from harness import Check, Report, format_table, parser_for, pick
from matplotlib.figure import Figure
from plots import LIMIT, OURS
from scipy import stats

from mercer import Gaussian, RandomFourier, hsic_test, mmd_test

LEVEL = 0.05
PERMUTATIONS = 199
NULL_RUNS, RUNS, SIZE = 2000, 200, 250
FEATURES, GRAM = "mercer, on features", "on the Gram matrix"
Samples = tuple[np.ndarray, np.ndarray]


def median_kernel(*samples: np.ndarray) -> Gaussian:
    """Return the Gaussian kernel whose lengthscale is the median distance of all rows."""
    return RandomFourier(Gaussian("median"), 2, random_state=0).fit(np.concatenate(samples)).kernel_


# ---- tests on Gram matrices: quadratic in the rows ---------------------------------------------


def mmd_on_gram(X: np.ndarray, Y: np.ndarray, kernel: Gaussian, rng: np.random.Generator) -> float:
    """Return the p-value of the unbiased discrepancy, by random divisions of the pooled rows."""
    m, n = len(X), len(Y)
    K = kernel(np.concatenate([X, Y]))
    np.fill_diagonal(K, 0.0)
    first = np.zeros((1 + PERMUTATIONS, m + n))
    first[:, :m] = 1.0
    rng.permuted(first[1:], axis=1, out=first[1:])
    second = 1 - first
    a, b = first @ K, second @ K
    within = (a * first).sum(axis=1) / (m * (m - 1)) + (b * second).sum(axis=1) / (n * (n - 1))
    return p_value(within - 2 * (a * second).sum(axis=1) / (m * n))


def hsic_on_gram(X: np.ndarray, Y: np.ndarray, kernels: tuple[Gaussian, Gaussian], rng: np.random.Generator) -> float:
    """Return the p-value of the trace of centered Gram matrices, by random pairings."""
    K, L = (kernel(rows) for kernel, rows in zip(kernels, (X, Y), strict=True))
    K = K - K.mean(axis=0)
    K -= K.mean(axis=1)[:, None]
    orders = [np.arange(len(X)), *(rng.permutation(len(X)) for _ in range(PERMUTATIONS))]
    return p_value(np.array([(K * L[np.ix_(order, order)]).sum() for order in orders]))


def p_value(statistics: np.ndarray) -> float:
    """Return the share of statistics at least as large as the first."""
    return float(np.mean(statistics >= statistics[0] - 1e-12 * np.abs(statistics).max()))


# ---- problems ----------------------------------------------------------------------------------


def shifted(size: float, n: int, rng: np.random.Generator) -> Samples:
    """Return Gaussians whose means differ by so many deviations in the first of 5 columns."""
    return rng.normal(size=(n, 5)), rng.normal(size=(n, 5)) + size * np.eye(5)[0]


def scaled(size: float, n: int, rng: np.random.Generator) -> Samples:
    """Return Gaussians in 5 columns whose deviations differ by a factor of 1 + size."""
    return rng.normal(size=(n, 5)), (1 + size) * rng.normal(size=(n, 5))


def blobs(size: float, n: int, rng: np.random.Generator) -> Samples:
    """Return grids of Gaussians, round ones and ones that are 1 + size times longer than wide, along the diagonal."""
    turn = np.array([[1.0, 1.0], [-1.0, 1.0]]) / np.sqrt(2)
    noise = rng.normal(size=(2, n, 2)) * 0.15
    noise[1] = noise[1] * np.sqrt([1 + size, 1 / (1 + size)]) @ turn
    return tuple(rng.integers(0, 3, size=(n, 2)) + part for part in noise)


def waves(size: float, n: int, rng: np.random.Generator) -> Samples:
    """Return x and a noisy sine of it, whose size is the inverse of the noise."""
    x = rng.uniform(size=(n, 1))
    return x, size * np.sin(4 * np.pi * x) + rng.normal(size=(n, 1))


def rotated(size: float, n: int, rng: np.random.Generator) -> Samples:
    """Return two independent columns, one of two peaks and one uniform, turned by so many eighths of a circle."""
    both = np.column_stack([rng.choice([-1.0, 1.0], n) + 0.3 * rng.normal(size=n), rng.uniform(-1.7, 1.7, n)])
    angle = size * np.pi / 4
    both = both @ np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return both[:, :1], both[:, 1:]


TWO_SAMPLE: dict[str, tuple[Callable[..., Samples], tuple[float, ...], Gaussian | None]] = {
    "mean shift": (shifted, (0.0, 0.15, 0.3, 0.45, 0.6), None),
    "scale change": (scaled, (0.0, 0.05, 0.1, 0.15, 0.2), None),
    "blobs": (blobs, (0.0, 1.0, 2.0, 4.0, 8.0), Gaussian(0.25)),
}
PAIRED: dict[str, tuple[Callable[..., Samples], tuple[float, ...]]] = {
    "noisy sine": (waves, (0.0, 0.2, 0.4, 0.6, 0.8)),
    "rotated columns": (rotated, (0.0, 0.1, 0.2, 0.3, 0.5)),
}


def cases_of(problem: str, X: np.ndarray, Y: np.ndarray, seed: int) -> dict[str, Callable[[], float]]:
    """Return the two tests of one pair of samples, with the same kernels: what they return is a p-value."""
    rng = np.random.default_rng(seed)
    options = {"n_permutations": PERMUTATIONS, "random_state": seed}
    if problem in PAIRED:
        kernels = median_kernel(X), median_kernel(Y)
        return {
            FEATURES: lambda: hsic_test(X, Y, *kernels, **options).p_value,
            GRAM: lambda: hsic_on_gram(X, Y, kernels, rng),
        }
    kernel = TWO_SAMPLE[problem][2] or median_kernel(X, Y)
    return {
        FEATURES: lambda: mmd_test(X, Y, kernel, **options).p_value,
        GRAM: lambda: mmd_on_gram(X, Y, kernel, rng),
    }


def powers(problem: str, n: int, runs: int) -> dict[str, dict[str, list[float]]]:
    """Return power and mean seconds of both tests for all sizes of an effect."""
    make, sizes = (PAIRED[problem] if problem in PAIRED else TWO_SAMPLE[problem])[:2]
    found: dict[str, dict[str, list[float]]] = {name: {"power": [], "seconds": []} for name in (FEATURES, GRAM)}
    for size in sizes:
        alarms, seconds = {FEATURES: 0, GRAM: 0}, {FEATURES: 0.0, GRAM: 0.0}
        for run in range(runs):
            samples = make(size, n, np.random.default_rng([run, int(1000 * size)]))
            for name, case in cases_of(problem, *samples, run).items():
                start = time.perf_counter()
                alarms[name] += case() <= LEVEL
                seconds[name] += time.perf_counter() - start
        for name in found:
            found[name]["power"].append(alarms[name] / runs)
            found[name]["seconds"].append(seconds[name] / runs)
    return found


def false_alarms(test: Callable[..., Any], runs: int) -> int:
    """Return how many tests without an effect raise an alarm: heavy tails, unequal sizes, maps chosen by default."""
    alarms = 0
    for run in range(runs):
        rng = np.random.default_rng([run, 99])
        rows = (40, 25) if test is mmd_test else (40, 40)
        X, Y = (rng.standard_t(2, size=(n, 3)) for n in rows)
        alarms += test(X, Y, n_permutations=PERMUTATIONS, random_state=run).p_value <= LEVEL
    return alarms


def draw(found: dict[str, dict[str, dict[str, list[float]]]], text: str, path: Path) -> None:
    """Draw power against the size of the effect, a panel a problem."""
    figure = Figure(figsize=(3.1 * len(found), 3.2), layout="constrained")
    panels = figure.subplots(1, len(found), sharey=True)
    for axes, (problem, both) in zip(panels, found.items(), strict=True):
        sizes = PAIRED[problem][1] if problem in PAIRED else TWO_SAMPLE[problem][1]
        for name, style, ink in ((GRAM, "s--", LIMIT), (FEATURES, "o-", OURS)):
            axes.plot(sizes, both[name]["power"], style, color=ink, label=name, markersize=5)
        axes.axhline(LEVEL, color="black", linewidth=0.6, linestyle=":")
        axes.set_title(("independence: " if problem in PAIRED else "two samples: ") + problem, fontsize=9)
        axes.set_xlabel("size of the effect", fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("share of alarms at 5 %")
    panels[0].legend(frameon=False, fontsize=8)
    figure.suptitle(text, fontsize=10)
    figure.savefig(path, dpi=120)


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = parser_for(__doc__.splitlines()[0], rounds=1, quick_rounds=1)
    parser.add_argument("--null-runs", type=int)
    parser.add_argument("--runs", type=int, help="samples for each point of a power curve")
    parser.add_argument("--size", type=int, default=SIZE, help="rows of each sample of a power curve")
    options = parser.parse_args(arguments)
    options.null_runs = pick(options.quick, options.null_runs, NULL_RUNS, 200)
    options.runs = pick(options.quick, options.runs, RUNS, 20)
    return options


def main() -> None:
    """Run, print, write."""
    options = options_of()
    sizes = {"null_runs": options.null_runs, "runs": options.runs, "size": options.size}
    judged = options.null_runs == NULL_RUNS
    report = Report("two_sample", sizes | {"n_permutations": PERMUTATIONS, "level": LEVEL}, judged=judged)
    report.begin()
    low, high = stats.binom.ppf([0.0005, 0.9995], options.null_runs, LEVEL) / options.null_runs
    for test in (mmd_test, hsic_test):
        share = false_alarms(test, options.null_runs) / options.null_runs
        report.checks.append(Check(f"level of {test.__name__}", share, at_least=low, at_most=high))
        report.results[f"level of {test.__name__}"] = share
        print(f"level of {test.__name__}: {share:.4f}, allowed {low:.4f} to {high:.4f}", flush=True)
    found = {}
    for problem in (*TWO_SAMPLE, *PAIRED):
        found[problem] = powers(problem, options.size, options.runs)
        rows = [
            (name, *(f"{p:.2f}" for p in both["power"]), f"{np.mean(both['seconds']):.3f} s")
            for name, both in found[problem].items()
        ]
        effect = (PAIRED[problem] if problem in PAIRED else TWO_SAMPLE[problem])[1]
        print("\n" + format_table((problem, *(f"{size:g}" for size in effect), "a test"), rows), flush=True)
        ours, theirs = (np.mean(found[problem][name]["power"][1:]) for name in (FEATURES, GRAM))
        report.checks.append(Check(f"mean power, {problem}: ours - Gram", float(ours - theirs)))
    report.results["power"] = found
    stem = report.finish(options.output)
    text = report.caption(f"{options.size} rows a sample, {options.runs} samples a point")
    draw(found, text, stem.with_suffix(".png"))


if __name__ == "__main__":
    main()
