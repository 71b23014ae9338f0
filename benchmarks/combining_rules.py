"""Rules that combine the statistics of ten kernels to one test: what each gains on shifts and loses on perturbations.

    python benchmarks/combining_rules.py [--quick] [--runs 150] [--statistics DIR --seconds S] [--output DIR]

The statistics of the kernels of `mmd_test` and of their permutations are computed once per sample, and all rules are
applied to them. With --statistics, those of an earlier run that was ended by --seconds are read from a folder.

- largest: the largest standardized cube root, less c times the root mean square of its kernel. Negative c prefer long
  lengthscales. This family is a path along which power moves from perturbations to shifts.
- ratio: the likelihood ratio of nonnegative means of the cube roots, given the covariance of the permutations plus a
  multiple of the identity, the ridge; mmd_test has 0.2. From small to large ridges, power moves in the same way.
- other powers: the largest standardized statistic, square root or logarithm.
- mean, soft maximum: averages of the standardized cube roots, and of their exponentials.
- quadratic form: the squared Mahalanobis length in that covariance, with means of any sign.
- FUSE: the largest statistic over the root mean square of its kernel, as MMD-FUSE normalizes.
- least ranks: the smaller one of two p-values, calibrated by the same permutations.
- learned: the likelihood ratio of the alternatives themselves, by logistic regression of half of the samples against
  permutations, applied to the other half, with weight w on the shift and 1 - w on the perturbation. No test can know
  this ratio; it shows how much is left for any rule that uses these ten statistics.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np
from harness import Report, format_table, parser_for, pick
from matplotlib.figure import Figure
from plots import LIMIT, OURS
from scipy.stats import rankdata
from sklearn.linear_model import LogisticRegression
from two_sample import HINDSIGHT, MMD_FUSE

from mercer import mmd_test
from mercer.hypothesis_tests import mmd
from mercer.hypothesis_tests.groups import LEAST_LARGEST, likelihood_ratios

LEVEL, SEED, PERMUTATIONS, CHUNK = 0.05, 77, 399, 25
PROBLEMS = (
    ("shift, d = 2", 500),
    ("scale, d = 2", 500),
    ("perturbed uniform, d = 2", 1000),
    ("correlation, d = 2", 500),
    ("perturbed uniform, d = 1", 500),
    ("mixture, d = 2", 500),
)
FRONTIER = (PROBLEMS[0][0], PROBLEMS[2][0])
Statistics = tuple[np.ndarray, np.ndarray]  # (runs, 1 + B, K), and mean squares of the kernels (runs, K)


def statistics(problem: str, n: int, runs: range) -> Statistics:
    """Return the statistics of all kernels for the observed samples, then for the permutations."""
    found, combine = [], mmd.combine_scales

    def keep(M: np.ndarray, mean_squares: np.ndarray, **options: float) -> mmd.CombinedScales:
        found.append((M.astype(np.float32), mean_squares))
        return combine(M, mean_squares, **options)

    draw = {**HINDSIGHT, **MMD_FUSE}[problem]
    with mock.patch.object(mmd, "combine_scales", keep):
        for run in runs:
            samples = draw(n, np.random.default_rng([SEED, n, run]))
            mmd_test(*samples, n_permutations=PERMUTATIONS, random_state=run, n_jobs=1)
    return np.array([M for M, _ in found]), np.array([squares for _, squares in found])


def stored(problem: str, n: int, runs: int, folder: Path | None, seconds: float) -> Statistics:
    """Return the statistics of all runs, or of those that are known when the processor time is over."""
    parts = []
    for start in range(0, runs, CHUNK):
        path = None if folder is None else folder / f"{problem}, {n}, {start}.npz".replace(" ", "")
        if path is not None and path.exists():
            with np.load(path) as file:
                parts.append((file["M"], file["ms"]))
        elif time.process_time() < seconds:
            parts.append(statistics(problem, n, range(start, min(start + CHUNK, runs))))
            if path is not None:
                np.savez(path, M=parts[-1][0], ms=parts[-1][1])
    if not parts:
        return np.zeros((0, 2, 10)), np.zeros((0, 10))
    return np.concatenate([M for M, _ in parts]), np.concatenate([squares for _, squares in parts])


def standardized(M: np.ndarray, power: float = 1 / 3) -> np.ndarray:
    """Return powers of the statistics, or logarithms for 0, standardized over the permutations of each sample."""
    R = np.log(np.maximum(M, 1e-30)) if power == 0 else M.astype(float) ** power
    return (R - R.mean(axis=1, keepdims=True)) / R.std(axis=1, keepdims=True)


def largest(c: float, power: float = 1 / 3) -> Callable[..., np.ndarray]:
    """Return the rule of the largest standardized power, less c times the root mean square of its kernel."""
    return lambda M, squares: (standardized(M, power) - c * np.sqrt(squares)[:, None]).max(axis=2)


def soft_maximum(temperature: float) -> Callable[..., np.ndarray]:
    """Return the rule of the mean of exponentials."""
    return lambda M, _: np.exp(temperature * standardized(M)).mean(axis=2)


def fuse(M: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Return the largest statistic over the root mean square of its kernel."""
    return (M / np.sqrt(squares)[:, None]).max(axis=2)


def quadratic_form(M: np.ndarray, squares: np.ndarray, ridge: float = 0.1) -> np.ndarray:  # noqa: ARG001
    """Return squared Mahalanobis lengths."""
    z = standardized(M)
    R = [np.corrcoef(rows.T) + ridge * np.eye(z.shape[2]) for rows in z]
    return np.stack([np.einsum("bi,bi->b", rows @ np.linalg.inv(C), rows) for rows, C in zip(z, R, strict=True)])


def ratio(ridge: float, power: float = 1 / 3) -> Callable[..., np.ndarray]:
    """Return the rule of the likelihood ratio of nonnegative means."""

    def score(M: np.ndarray, squares: np.ndarray) -> np.ndarray:  # noqa: ARG001
        z = standardized(M, power)
        ratios = np.array([likelihood_ratios(rows, ridge) for rows in z])
        return np.where(z.max(axis=2) >= LEAST_LARGEST, ratios, z.max(axis=2) - LEAST_LARGEST)

    return score


def least_rank(*rules: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """Return the rule of the smallest of several p-values; ties are broken by the mean of the scores."""

    def score(M: np.ndarray, squares: np.ndarray) -> np.ndarray:
        scores = [rule(M, squares) for rule in rules]
        ranks = [np.stack([rankdata(-row, method="max") for row in S]) for S in scores]
        z = [(S - S.mean(axis=1, keepdims=True)) / S.std(axis=1, keepdims=True) for S in scores]
        return 1e-6 * np.mean(z, axis=0) - np.minimum.reduce(ranks)

    return score


RULES: dict[str, Callable[..., np.ndarray]] = {
    **{f"largest, c = {c:g}": largest(c) for c in (-1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0, 2.0)},
    "largest, square roots": largest(0.0, 0.5),
    "largest, statistics": largest(0.0, 1.0),
    "largest, logarithms": largest(0.0, 0.0),
    "mean": lambda M, _: standardized(M).mean(axis=2),
    "soft maximum, 2": soft_maximum(2.0),
    "soft maximum, 4": soft_maximum(4.0),
    "quadratic form": quadratic_form,
    **{f"ratio, ridge {ridge:g}": ratio(ridge) for ridge in (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)},
    "ratio of square roots": ratio(0.2, 0.5),
    "ratio of statistics": ratio(0.2, 1.0),
    "FUSE": fuse,
    "least rank of largest and mean": least_rank(largest(0.25), lambda M, _: standardized(M).mean(axis=2)),
    "least rank of largest and FUSE": least_rank(largest(0.25), fuse),
    "least rank of largest and ratio": least_rank(largest(0.0), ratio(0.05)),
}
PATHS = {"o-": "largest, c", "s-": "ratio, ridge", "^--": "learned, w"}


def p_values(scores: np.ndarray) -> np.ndarray:
    """Return permutation p-values of scores (runs, 1 + B)."""
    return (scores >= scores[:, :1] - 1e-12).mean(axis=1)


def learned(found: dict[str, Statistics], w: float) -> dict[str, np.ndarray]:
    """Return p-values of the rule that knows both alternatives of `FRONTIER`, on halves it did not learn from."""

    def inputs(M: np.ndarray) -> np.ndarray:
        z = standardized(M)
        return np.concatenate([z, np.square(z), z.max(axis=2, keepdims=True)], axis=2)

    parts = {name: inputs(found[name][0]) for name in FRONTIER}
    out: dict[str, list[np.ndarray]] = {name: [] for name in FRONTIER}
    for half in (0, 1):
        ratios = []
        for name in FRONTIER:
            rows = parts[name][1 - half :: 2]
            X = np.concatenate([rows[:, 0], rows[:, 1::8].reshape(-1, rows.shape[2])])
            y = np.arange(len(X)) < len(rows)
            ratios.append(LogisticRegression(C=0.1, max_iter=500, class_weight="balanced").fit(X, y))
        for name in FRONTIER:
            rows = parts[name][half::2]
            logs = [model.decision_function(rows.reshape(-1, rows.shape[2])) for model in ratios]
            with np.errstate(divide="ignore"):
                score = np.logaddexp(np.log(w) + logs[0], np.log(1 - w) + logs[1])
            out[name].append(p_values(score.reshape(rows.shape[:2])))
    return {name: np.concatenate(p) for name, p in out.items()}


def draw(powers: dict[str, dict[str, float]], text: str, path: Path) -> None:
    """Draw the power of each rule for the two problems of `FRONTIER`."""
    figure = Figure(figsize=(6.5, 4.6), layout="constrained")
    axes = figure.subplots()
    of = {name: [row.get(problem, np.nan) for problem in FRONTIER] for name, row in powers.items()}
    for (marker, start), color in zip(PATHS.items(), ("0.5", OURS, LIMIT), strict=True):
        points = [(name.removeprefix(start), of.pop(name)) for name in list(of) if name.startswith(start)]
        axes.plot(*np.array([point for _, point in points]).T, marker, color=color, markersize=4, label=start)
        for name, point in points:
            axes.annotate(name.strip(" ="), point, fontsize=7, color=color, xytext=(4, 3), textcoords="offset points")
    for name, point in of.items():
        axes.plot(*point, ".", color="black")
        axes.annotate(name, point, fontsize=6, xytext=(3, 2), textcoords="offset points")
    best = [powers["best kernel"][problem] for problem in FRONTIER]
    axes.axvline(0.85 * best[0], color="black", linewidth=0.6, linestyle=":")
    axes.set(xlabel=f"power, {FRONTIER[0]}", ylabel=f"power, {FRONTIER[1]}", title=text)
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=120)


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = parser_for(__doc__.splitlines()[0], rounds=1, quick_rounds=1)
    parser.add_argument("--runs", type=int, help="samples of each problem")
    parser.add_argument("--statistics", type=Path, help="folder of the statistics of all samples")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="processor seconds for further samples")
    options = parser.parse_args(arguments)
    options.runs = pick(options.quick, options.runs, 150, 25)
    return options


def main() -> None:
    """Run, print, write."""
    options = options_of()
    report = Report("combining_rules", {"runs": options.runs, "level": LEVEL}, judged=False)
    report.begin()
    if options.statistics is not None:
        options.statistics.mkdir(parents=True, exist_ok=True)
    found = {name: stored(name, n, options.runs, options.statistics, options.seconds) for name, n in PROBLEMS}
    found = {name: value for name, value in found.items() if len(value[0])}
    alone = {
        name: max(float(np.mean(p_values(M[:, :, k]) <= LEVEL)) for k in range(M.shape[2]))
        for name, (M, _) in found.items()
    }
    powers: dict[str, dict[str, float]] = {"best kernel": alone}
    for rule, score in RULES.items():
        powers[rule] = {name: float(np.mean(p_values(score(*value)) <= LEVEL)) for name, value in found.items()}
    if all(name in found for name in FRONTIER):
        for w in (1.0, 0.9, 0.5, 0.1, 0.0):
            p = learned(found, w)
            powers[f"learned, w = {w:g}"] = {name: float(np.mean(p[name] <= LEVEL)) for name in FRONTIER}
    rows = [(rule, *(f"{row[name]:.2f}" if name in row else "" for name in found), "") for rule, row in powers.items()]
    head = ("rule", *(f"{name} ({len(M)})" for name, (M, _) in found.items()), "")
    print(format_table(head, rows), flush=True)
    report.results.update(powers)
    stem = report.finish(options.output)
    if all(name in found for name in FRONTIER):
        draw(powers, report.caption("Two-sample tests of ten kernels"), stem.with_suffix(".png"))


if __name__ == "__main__":
    main()
