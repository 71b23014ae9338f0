"""Level, power and speed of the adaptive two-sample and independence tests.

    python benchmarks/two_sample.py [--quick] [--runs 400] [--null-runs 2000] [--parts ...] [--data DIR]
                                    [--draws FILE --seconds S] [--output DIR]

With --draws, the draws of an earlier run that was ended by --seconds are read from a file, and more are appended.

Parts:

- published: power at level 5 % on the three problems of the MMD-FUSE paper (Biggs, Schrab and Gretton, NeurIPS 2023),
  beside the better of MMD-FUSE and MMDAgg there, 200 repetitions each (the arrays of results are in the repository
  antoninschrab/mmdfuse-paper on GitHub). The target is two standard errors of the difference of both estimates below.
- hindsight: shifts of a mean, changes of scale and of correlation in 2, 20 and 100 dimensions, and digits of MNIST of
  which 5 % are another digit (with --data), beside the best of the ten kernels, chosen by hindsight. The effects are
  such that this kernel has a power of about 0.8; they are divided by the root of the number of rows.
- level: null runs in seven settings, which must raise as many alarms as three standard errors around 5 % allow.
- independence: five dependences beside a test with exact Gram matrices of the same 8 x 8 kernels, aggregated by least
  p-values (as in HSICAgg, Schrab et al., 2022).
- large: seconds and peak memory for two samples of a million rows and 20 features, in a process of its own.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from harness import Check, Draws, Report, add_draws_options, format_table, parser_for, pick
from matplotlib.figure import Figure
from plots import LIMIT, OURS

from mercer import hsic_test, mmd_test

LEVEL = 0.05
RUNS, NULL_RUNS = 400, 2000
PUBLISHED_RUNS = 200
ROWS = (500, 1000, 2000, 3000)
PARTS = ("published", "hindsight", "level", "independence", "large")
Samples = tuple[np.ndarray, np.ndarray]
# Power of the better of MMD-FUSE and MMDAgg for ROWS rows per sample.
PUBLISHED = {
    "mixture, d = 2": (0.19, 0.385, 0.785, 0.99),
    "perturbed uniform, d = 1": (0.24, 0.47, 0.875, 0.99),
    "perturbed uniform, d = 2": (0.165, 0.43, 0.805, 0.99),
}


# ---- problems ----------------------------------------------------------------------------------


def mixture(n: int, rng: np.random.Generator) -> Samples:
    """Return mixtures of four Gaussians 40 apart; one of them has a deviation of 1.3 in the second sample."""
    centers = 20.0 * np.array([[1, 1], [-1, 1], [1, -1], [-1, -1]])
    found = []
    for last in (1.0, 1.3):
        number = rng.integers(4, size=n)
        found.append(centers[number] + rng.standard_normal((n, 2)) * np.where(number == 3, last, 1.0)[:, None])
    return found[0], found[1]


def bump(x: np.ndarray) -> np.ndarray:
    """Return one smooth bump upwards on (0, 1/2) and one downwards on (1/2, 1)."""
    inside = 1 - np.square(4 * (x % 0.5) - 1)
    return np.where(x < 0.5, 1.0, -1.0) * np.exp(-1 / np.maximum(inside, 1e-9))


def perturbed_rows(n: int, d: int, scale: float, rng: np.random.Generator) -> np.ndarray:
    """Return rows of a uniform density with 2^d perturbations of random signs."""
    signs = rng.choice([-1.0, 1.0], size=(2,) * d)
    found: list[np.ndarray] = []
    while sum(map(len, found)) < n:
        X = rng.random((4 * n, d))
        cell = np.minimum((2 * X).astype(int), 1)
        density = 1 + scale * np.exp(d) * signs[tuple(cell.T)] * np.prod(bump(2 * X - cell), axis=1)
        found.append(X[rng.random(4 * n) * (1 + scale) <= density])
    return np.concatenate(found)[:n]


def perturbed(d: int, scale: float) -> Callable[[int, np.random.Generator], Samples]:
    """Return the problem of perturbed against uniform rows."""
    return lambda n, rng: (perturbed_rows(n, d, scale, rng), rng.random((n, d)))


def shifted(d: int, size: float) -> Callable[[int, np.random.Generator], Samples]:
    """Return the problem of a shifted mean of one feature."""
    return lambda n, rng: (rng.standard_normal((n, d)), rng.standard_normal((n, d)) + size / np.sqrt(n) * np.eye(d)[0])


def scaled(d: int, size: float) -> Callable[[int, np.random.Generator], Samples]:
    """Return the problem of another deviation of all features."""
    return lambda n, rng: (rng.standard_normal((n, d)), rng.standard_normal((n, d)) * (1 + size / np.sqrt(n)))


def correlated(d: int, size: float) -> Callable[[int, np.random.Generator], Samples]:
    """Return the problem of equally correlated against independent features."""

    def draw(n: int, rng: np.random.Generator) -> Samples:
        r = size / np.sqrt(n)
        Y = np.sqrt(1 - r) * rng.standard_normal((n, d)) + np.sqrt(r) * rng.standard_normal((n, 1))
        return rng.standard_normal((n, d)), Y

    return draw


def digits(folder: Path) -> Callable[[int, np.random.Generator], Samples]:
    """Return the problem of images of a three, of which 5 % are an eight in the second sample."""
    with np.load(folder / "mnist.npz") as file:
        X, y = file["X_train"], file["y_train"]

    def draw(n: int, rng: np.random.Generator) -> Samples:
        three, eight = (rng.permutation(np.flatnonzero(y == digit)) for digit in (3, 8))
        other = n // 20
        return X[three[:n]].astype(float), X[np.r_[three[n : 2 * n - other], eight[:other]]].astype(float)

    return draw


MMD_FUSE = {
    "mixture, d = 2": mixture,
    "perturbed uniform, d = 1": perturbed(1, 0.2),
    "perturbed uniform, d = 2": perturbed(2, 0.4),
}
HINDSIGHT = {
    "shift, d = 2": shifted(2, 4.2),
    "shift, d = 20": shifted(20, 6.5),
    "shift, d = 100": shifted(100, 9.0),
    "scale, d = 2": scaled(2, 3.2),
    "scale, d = 20": scaled(20, 1.3),
    "scale, d = 100": scaled(100, 0.6),
    "correlation, d = 2": correlated(2, 9.0),
    "correlation, d = 20": correlated(20, 2.6),
    "correlation, d = 100": correlated(100, 1.3),
}


def noisy_circle(n: int, rng: np.random.Generator) -> Samples:
    """Return coordinates of points near a circle."""
    angle = rng.uniform(0, 2 * np.pi, n)
    both = np.column_stack([np.cos(angle), np.sin(angle)]) + 0.75 * rng.standard_normal((n, 2))
    return both[:, :1], both[:, 1:]


def noisy_sine(n: int, rng: np.random.Generator) -> Samples:
    """Return x and a noisy sine of x."""
    x = rng.random((n, 1))
    return x, 0.45 * np.sin(4 * np.pi * x) + rng.standard_normal((n, 1))


def changing_noise(n: int, rng: np.random.Generator) -> Samples:
    """Return x and noise whose deviation depends on x."""
    x = rng.standard_normal((n, 1))
    return x, (1 + 0.35 * np.abs(x)) * rng.standard_normal((n, 1))


def linear(n: int, rng: np.random.Generator) -> Samples:
    """Return weakly correlated rows of three features each."""
    x = rng.standard_normal((n, 3))
    return x, 0.22 * x + rng.standard_normal((n, 3))


def perturbed_pairs(n: int, rng: np.random.Generator) -> Samples:
    """Return pairs of a perturbed uniform joint density, with uniform margins in the mean."""
    both = perturbed_rows(n, 2, 0.9, rng)
    return both[:, :1], both[:, 1:]


DEPENDENCES = {
    "perturbed joint density": (perturbed_pairs, 600),
    "noisy circle": (noisy_circle, 300),
    "noisy sine": (noisy_sine, 300),
    "changing noise": (changing_noise, 300),
    "linear, d = 3": (linear, 300),
}


# ---- measurements ------------------------------------------------------------------------------


def power_of(
    case: str, problem: Callable[..., Samples], n: int, runs: int, seed: int, draws: Draws
) -> tuple[float, np.ndarray, int]:
    """Return the power of the adaptive test, that of each of its kernels alone, and the number of draws."""

    def p_values(run: int) -> list[float]:
        result = mmd_test(*problem(n, np.random.default_rng([seed, n, run])), random_state=run, n_jobs=1)
        return [result.p_value, *result.scales.p_values.tolist()]

    found = np.array(draws.of(f"{case}, {n}", runs, p_values)) <= LEVEL
    return (
        (float("nan"), np.full(10, np.nan), 0)
        if not len(found)
        else (found[:, 0].mean(), found[:, 1:].mean(axis=0), len(found))
    )


def published(report: Report, runs: int, sizes: tuple[int, ...], draws: Draws) -> None:
    """Compare the power with the published one."""
    rows = []
    for problem, draw in MMD_FUSE.items():
        for n in sizes:
            theirs = PUBLISHED[problem][ROWS.index(n)]
            ours, singles, count = power_of(problem, draw, n, runs, 1, draws)
            if not count:
                continue
            error = np.sqrt(theirs * (1 - theirs) * (1 / count + 1 / PUBLISHED_RUNS))
            report.checks.append(Check(f"power, {problem}, n = {n}", ours, at_least=round(theirs - 2 * error, 3)))
            report.results[f"{problem}, {n}"] = {
                "power": ours, "published": theirs, "kernels": singles.tolist(), "draws": count
            }  # fmt: skip
            rows.append((problem, f"{n}", f"{count}", f"{ours:.3f}", f"{theirs:.3f}", f"{singles.max():.3f}"))
            print(*rows[-1], sep="  ", flush=True)
    header = ("problem", "rows", "draws", "power", "published", "best kernel by hindsight")
    print("\n" + format_table(header, rows), flush=True)


def hindsight(report: Report, runs: int, sizes: tuple[int, ...], data: Path | None, only: str, draws: Draws) -> None:
    """Compare the power with that of the best of the ten kernels."""
    problems = dict(HINDSIGHT)
    if data is not None:
        problems["MNIST, 5 % of another digit"] = digits(data)
    else:
        report.notes.append("MNIST was left out: no --data")
    rows = []
    for problem, draw in problems.items():
        for n in sizes if only in problem else ():
            ours, singles, count = power_of(problem, draw, n, runs, 2, draws)
            if not count:
                continue
            best = float(singles.max())
            report.checks.append(Check(f"power / best kernel, {problem}, n = {n}", ours / best, at_least=0.85))
            report.results[f"{problem}, {n}"] = {"power": ours, "kernels": singles.tolist(), "draws": count}
            rows.append((problem, f"{n}", f"{count}", f"{ours:.3f}", f"{best:.3f}", f"{ours / best:.2f}"))
            print(*rows[-1], sep="  ", flush=True)
    header = ("problem", "rows", "draws", "power", "best kernel", "ratio")
    print("\n" + format_table(header, rows), flush=True)


def null_setting(kind: str, rng: np.random.Generator) -> tuple[Callable[..., Any], Samples, dict[str, Any]]:
    """Return a test, two samples of the null hypothesis, and further arguments."""
    sizes = {"unequal sizes": (90, 12), "groups, unequal sizes": (1500, 150)}.get(kind, (50, 40))
    X, Y = (rng.standard_t(2, size=(n, 3)) for n in sizes)
    if kind == "ties":
        return mmd_test, (np.round(X), np.round(Y)), {}
    if kind == "sorted rows":
        return mmd_test, (X[np.argsort(X[:, 0])], Y[np.argsort(-Y[:, 0])]), {}
    if kind == "weights":
        weights = (np.abs(rows[:, 1]) + 0.1 for rows in (X, Y))
        return mmd_test, (X, Y), dict(zip(("sample_weight_x", "sample_weight_y"), weights, strict=True))
    if kind == "units":
        return mmd_test, (X * [1e-6, 1, 1e6], Y * [1e-6, 1, 1e6]), {}
    if kind == "independence":
        return hsic_test, (np.sort(rng.standard_t(2, size=(100, 1)), axis=0), rng.random((100, 2))), {}
    return mmd_test, (X, Y), {"n_components": 100} if kind.startswith("groups") else {}


LEVEL_SETTINGS = (
    "unequal sizes", "ties", "sorted rows", "weights", "units", "groups, unequal sizes", "independence"
)  # fmt: skip


def level(report: Report, runs: int, draws: Draws) -> None:
    """Count false alarms."""
    for kind in LEVEL_SETTINGS:

        def p_value(run: int, kind: str = kind) -> float:
            test, samples, options = null_setting(kind, np.random.default_rng([3, run]))
            return float(test(*samples, n_permutations=99, random_state=run, n_jobs=1, **options).p_value)

        p = np.array(draws.of(f"level, {kind}", runs, p_value))
        if not len(p):
            continue
        rate, error = float(np.mean(p <= LEVEL)), 3 * np.sqrt(LEVEL * (1 - LEVEL) / len(p))
        low = 0.0 if kind == "ties" else LEVEL - error  # ties make the test conservative
        report.checks.append(Check(f"level, {kind}", rate, at_least=round(low, 4), at_most=LEVEL + error))
        report.results[f"level, {kind}"] = {"rate": rate, "draws": len(p)}
        print(f"level, {kind}: {rate:.4f} in {len(p)} runs, allowed up to {LEVEL + error:.4f}", flush=True)


def aggregated_hsic(scaled_rows: Samples, scales: Any, rng: np.random.Generator) -> float:
    """Return the p-value of the least p-value over all pairs of exact kernels, by permutations of single rows."""
    n, permutations = len(scaled_rows[0]), 199
    grams = []
    for rows, lengthscales in zip(scaled_rows, scales.lengthscales, strict=True):
        squares = np.square(rows[:, None] - rows).sum(axis=2)
        K = np.stack([np.exp(squares / (-2 * h * h)) for h in lengthscales])
        K -= K.mean(axis=1, keepdims=True)
        K -= K.mean(axis=2, keepdims=True)
        grams.append(K.astype(np.float32))
    K, L = grams
    found = []
    for number in range(1 + permutations):
        order = np.arange(n) if number == 0 else rng.permutation(n)
        found.append((K.reshape(len(K), -1) @ L[:, order][:, :, order].reshape(len(L), -1).T).ravel())
    M = np.array(found)
    ranks = (-M).argsort(axis=0, kind="stable").argsort(axis=0, kind="stable")
    z = ((M - M.mean(axis=0)) / M.std(axis=0)).max(axis=1)
    scores = 0.5 * z / (1 + np.abs(z).max()) - ranks.min(axis=1)
    return float(np.mean(scores >= scores[0]))


def independence(report: Report, runs: int, draws: Draws) -> None:
    """Compare the power with that of exact aggregated tests."""
    from mercer.engines import MemoryEngine
    from mercer.hypothesis_tests.frequencies import pooled_rows, scaled_rows

    rows = []
    for problem, (draw, n) in DEPENDENCES.items():

        def one(run: int, draw: Callable[..., Samples] = draw, n: int = n) -> list[float]:
            X, Y = draw(n, np.random.default_rng([4, run]))
            start = time.process_time()
            result = hsic_test(X, Y, random_state=run, n_jobs=1)
            ours = time.process_time() - start
            median = hsic_test(X, Y, None, n_permutations=199, random_state=run, n_jobs=1).p_value
            start = time.process_time()
            both = tuple(scaled_rows(pooled_rows(MemoryEngine(V, block_rows=n), 0))(V) for V in (X, Y))
            dense = aggregated_hsic(both, result.scales, np.random.default_rng(run))
            return [result.p_value, dense, median, ours, time.process_time() - start]

        found = np.array(draws.of(f"independence, {problem}", runs, one)).reshape(-1, 5)
        if not len(found):
            continue
        powers, seconds = (found[:, :3] <= LEVEL).mean(axis=0), found[:, 3:].mean(axis=0)
        report.checks.append(Check(f"hsic power / exact, {problem}", powers[0] / max(powers[1], 1e-9), at_least=0.9))
        report.results[problem] = {
            "power": powers[0], "exact": powers[1], "median kernel": powers[2], "draws": len(found)
        }  # fmt: skip
        figures = (*(f"{power:.3f}" for power in powers), *(f"{s:.2f}" for s in seconds))
        rows.append((problem, f"{n}", f"{len(found)}", *figures))
        print(*rows[-1], sep="  ", flush=True)
    header = ("dependence", "rows", "draws", "power", "exact, aggregated", "median kernel", "CPU seconds", "exact")
    print("\n" + format_table(header, rows), flush=True)


CHILD = """
import resource, sys, time
import numpy as np
from mercer import mmd_test
n, d = {n}, 20
rng = np.random.default_rng(0)
X, Y = rng.standard_normal((n, d)), rng.standard_normal((n, d))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
start, cpu = time.perf_counter(), time.process_time()
p = mmd_test(X, Y, random_state=0, n_jobs=2).p_value
print(time.perf_counter() - start, time.process_time() - cpu,
      resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, before, p)
"""


def large(report: Report, n: int) -> None:
    """Measure time and memory in a process of its own."""
    environment = dict(os.environ, OMP_NUM_THREADS="2", OPENBLAS_NUM_THREADS="2")
    command = [sys.executable, "-c", CHILD.format(n=n)]
    out = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    seconds, cpu, peak, before, p = (float(value) for value in out.split())
    report.checks.append(Check(f"seconds, two samples of {n:,} rows", seconds, at_most=10.0))
    report.checks.append(Check(f"processor seconds / 2, two samples of {n:,} rows", cpu / 2, at_most=10.0))
    report.checks.append(Check(f"peak MB, two samples of {n:,} rows", peak, at_most=1000.0))
    print(f"{n:,} rows each: {seconds:.1f} s, {cpu:.1f} processor s, {peak:.0f} MB, {before:.0f} MB before (p = {p:g})")


def draw(results: dict[str, Any], text: str, path: Path) -> None:
    """Draw power against the number of rows, beside the published one."""
    figure = Figure(figsize=(10.5, 3.3), layout="constrained")
    panels = figure.subplots(1, len(PUBLISHED), sharey=True)
    for axes, (problem, theirs) in zip(panels, PUBLISHED.items(), strict=True):
        known = [n for n in ROWS if f"{problem}, {n}" in results]
        axes.plot(ROWS, theirs, "s--", color=LIMIT, label="better of MMD-FUSE and MMDAgg, published", markersize=5)
        axes.plot(known, [results[f"{problem}, {n}"]["power"] for n in known], "o-", color=OURS, label="mmd_test")
        axes.axhline(LEVEL, color="black", linewidth=0.6, linestyle=":")
        axes.set_title(problem, fontsize=9)
        axes.set_xlabel("rows of each sample", fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("power at 5 %")
    panels[0].legend(frameon=False, fontsize=8)
    figure.suptitle(text, fontsize=10)
    figure.savefig(path, dpi=120)


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = parser_for(__doc__.splitlines()[0], rounds=1, quick_rounds=1)
    parser.add_argument("--null-runs", type=int, help="null samples per setting")
    parser.add_argument("--runs", type=int, help="samples for each figure of power")
    parser.add_argument("--sizes", type=int, nargs="+", help="rows per sample", choices=ROWS)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--only", default="", help="part of the names of the problems of the part hindsight")
    parser.add_argument("--data", type=Path, help="folder of mnist.npz")
    add_draws_options(parser)
    options = parser.parse_args(arguments)
    options.null_runs = pick(options.quick, options.null_runs, NULL_RUNS, 40)
    options.runs = pick(options.quick, options.runs, RUNS, 10)
    options.sizes = tuple(pick(options.quick, options.sizes, ROWS, (500,)))
    return options


def main() -> None:
    """Run, print, write."""
    options = options_of()
    sizes = {"null_runs": options.null_runs, "runs": options.runs, "sizes": list(options.sizes)}
    judged = options.null_runs == NULL_RUNS and options.runs == RUNS
    report = Report("two_sample", sizes | {"parts": list(options.parts), "level": LEVEL}, judged=judged)
    report.begin()
    draws = Draws(options.draws, options.seconds)
    if "published" in options.parts:
        published(report, options.runs, options.sizes, draws)
    if "hindsight" in options.parts:
        hindsight(report, options.runs, tuple(n for n in options.sizes if n <= 2000), options.data, options.only, draws)
    if "level" in options.parts:
        level(report, options.null_runs, draws)
    if "independence" in options.parts:
        independence(report, options.runs, draws)
    if "large" in options.parts:
        large(report, 50_000 if options.quick else 1_000_000)
    stem = report.finish(options.output)
    if "published" in options.parts:
        draw(report.results, report.caption(f"{options.runs} samples a point"), stem.with_suffix(".png"))


if __name__ == "__main__":
    main()
