"""Level, power and time of the test of conditional independence, beside causal-learn's KCI on the same samples.

    python benchmarks/conditional_independence.py [--quick] [--runs 400] [--power-runs 200] [--peer DIR] [--parts ...]
                                                  [--only NAME] [--draws FILE --seconds S] [--output DIR]

The problems are post-nonlinear models of Strobl, Zhang and Visweswaran (2019): functions are drawn from the identity,
the square, the cube, tanh and exp(-|t|), and noise is standard normal.

- chain: x = g(e), z_j = g_j(x + e_j), y = h(mean of z + e); fork: x = g(mean of z + e), y = h(mean of z + e).
- strong fork: the same with the sum of z divided by the root of its dimension, so that z matters in high dimension.
- shapes: x and y are the same function of z plus normal noise of deviation 0.3: sines of up to 30 radians per standard
  deviation, products of two and three columns, absolute values, heavy-tailed and integer z, further columns that do not
  matter. Without tuned kernels nearly all of them are rejected. Jumps are shown, not judged.
- rough fork: x and y are sin(3 t) plus noise, with a direction t in three dimensions. It is shown, not judged: the
  function is too rough for few rows, and every test by regression rejects it.

Level: the share of rejections at 5 % without dependence must be within three standard errors of 5 %. Power: x and y
have a common noise; KCI must not reject more often than mercer by more than two standard errors of the difference on
the same samples. The shares of rejections of both tests without the common noise are printed beside it, since a test
that rejects too often has more power; the powers at equal size are those where each test has the threshold that rejects
5 % of all of these samples. Times are processor seconds on one thread. With --draws, the draws of an earlier
run that was ended by --seconds are read from a file, and more are appended. Install causal-learn anywhere and pass its
directory as ``--peer`` (``pip install --target DIR --no-deps causal-learn``).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from harness import Check, Draws, Report, add_draws_options, format_table, parser_for, pick

from mercer import conditional_independence_test

LEVEL = 0.05
RUNS, POWER_RUNS = 400, 200
SEED = 10
PARTS = ("times", "powers", "levels", "shapes")
FUNCTIONS = (lambda t: t, np.square, lambda t: t**3, np.tanh, lambda t: np.exp(-np.abs(t)))
Variables = tuple[np.ndarray, np.ndarray, np.ndarray]


def drawn(rng: np.random.Generator) -> Callable[[np.ndarray], np.ndarray]:
    """Return one of the functions at random."""
    return FUNCTIONS[rng.integers(len(FUNCTIONS))]


def chain(n: int, d: int, rng: np.random.Generator, common: float = 0.0) -> Variables:
    """Return x, y and z of a chain x -> z -> y, with common noise of x and y."""
    noise = common * rng.normal(size=n)
    x = drawn(rng)(rng.normal(size=n) + noise)
    z = np.stack([drawn(rng)(x + rng.normal(size=n)) for _ in range(d)], axis=1)
    return x[:, None], drawn(rng)(z.mean(axis=1) + rng.normal(size=n) + noise)[:, None], z


def fork(n: int, d: int, rng: np.random.Generator, common: float = 0.0, power: float = 1.0) -> Variables:
    """Return x, y and z of a fork x <- z -> y; `power` divides the sum of z by that power of its dimension."""
    z, noise = rng.normal(size=(n, d)), common * rng.normal(size=n)
    t = z.sum(axis=1) / d**power + noise
    x, y = (drawn(rng)(t + rng.normal(size=n))[:, None] for _ in range(2))
    return x, y, z


def strong_fork(n: int, d: int, rng: np.random.Generator, common: float = 0.0) -> Variables:
    """Return a fork whose strength does not decrease with the dimension of z."""
    return fork(n, d, rng, common, power=0.5)


def rough_fork(n: int, d: int, rng: np.random.Generator) -> Variables:
    """Return a fork by a function with several periods."""
    z = rng.normal(size=(n, d))
    t = np.sin(3 * z.sum(axis=1) / np.sqrt(d))
    return (t + 0.5 * rng.normal(size=n))[:, None], (t + 0.5 * rng.normal(size=n))[:, None], z


def sign_change(n: int, d: int, rng: np.random.Generator, common: float = 0.0) -> Variables:
    """Return a dependence whose sign is that of the last conditioning variable."""
    z, noise = rng.normal(size=(n, d)), common * rng.normal(size=n)
    x = z[:, 0] + rng.normal(size=n) + noise
    y = z[:, 0] + rng.normal(size=n) + np.sign(z[:, -1]) * noise
    return x[:, None], y[:, None], z


def shape(function: Callable[[np.ndarray], np.ndarray], kind: str = "normal") -> Callable[..., Variables]:
    """Return the problem of x and y that are the same function of z, plus noise."""

    def draw(n: int, d: int, rng: np.random.Generator, common: float = 0.0) -> Variables:
        z = {
            "normal": lambda: rng.normal(size=(n, d)),
            "uniform": lambda: rng.random((n, d)),
            "heavy tails": lambda: rng.standard_t(3, size=(n, d)),
            "integers": lambda: rng.integers(-5, 6, size=(n, d)).astype(float),
        }[kind]()
        noise = common * rng.normal(size=n)
        x, y = ((function(z) + 0.3 * (rng.normal(size=n) + noise))[:, None] for _ in range(2))
        return x, y, z

    return draw


def sine(frequency: float) -> Callable[[np.ndarray], np.ndarray]:
    """Return a sine of the first conditioning variable."""
    return lambda z: np.sin(frequency * z[:, 0])


def product(count: int) -> Callable[[np.ndarray], np.ndarray]:
    """Return the product of the first conditioning variables."""
    return lambda z: np.prod(z[:, :count], axis=1)


def jumps(z: np.ndarray) -> np.ndarray:
    """Return a step function of the first conditioning variable."""
    return np.sign(np.sin(3 * z[:, 0]))


# Name, problem, number of conditioning variables, and whether the level is judged.
SHAPES: tuple[tuple[str, Any, int, bool], ...] = (
    *((f"sin({w} z)", shape(sine(w)), 1, True) for w in (5, 10, 20, 30)),
    ("sin(20 z), uniform z", shape(sine(20), "uniform"), 1, True),
    ("sin(20 z), uniform z", shape(sine(20), "uniform"), 5, True),
    ("sin(10 z)", shape(sine(10)), 3, True),
    ("sin(5 z), heavy tails", shape(sine(5), "heavy tails"), 1, True),
    *(("product of two", shape(product(2)), d, True) for d in (2, 5, 10)),
    *(("product of three", shape(product(3)), d, True) for d in (3, 5)),
    ("product of two, integers", shape(product(2), "integers"), 2, True),
    ("absolute value", shape(lambda z: np.abs(z[:, 0])), 1, True),
    ("jumps", shape(jumps), 1, False),
)
SHAPE_ROWS, SHAPE_SHARE = (200, 500, 1000, 2000, 5000, 20_000), 0.25

# Problem, number of conditioning variables, rows, and the share of the runs, which are fewer where they take long.
LEVELS: tuple[tuple[Any, int, int, float], ...] = (
    *((p, d, 500, 1.0) for p in (chain, fork, strong_fork) for d in (1, 5, 10)),
    *((p, d, 2000, 0.5) for p in (chain, fork, strong_fork) for d in (1, 5, 10)),
    *((p, d, 10_000, 0.15) for p in (chain, fork, strong_fork) for d in (1, 5, 10)),
    *((p, d, 100_000, 0.04) for p in (chain, fork, strong_fork) for d in (1, 5, 10)),
)
ROUGH = ((1, 2000), (3, 2000), (3, 100_000))
POWERS: tuple[tuple[Any, int, float], ...] = (
    *((chain, d, 0.8) for d in (1, 5, 10)),
    *((fork, d, 0.6) for d in (1, 5, 10)),
    *((strong_fork, d, 0.6) for d in (3, 10)),
    (sign_change, 2, 1.0),
)


def p_values(
    test: Any, problem: Any, d: int, n: int, runs: int, draws: Draws, case: str, **options: Any
) -> tuple[np.ndarray, float]:
    """Return the p-values of many samples, and the mean processor seconds of one test."""

    def one(run: int) -> tuple[float, float]:
        variables = problem(n, d, np.random.default_rng([SEED, run, n, d]), **options)
        start = time.process_time()
        p = test(*variables, run)
        return float(p), time.process_time() - start

    found = np.array(draws.of(f"{case}, {d} of z, {n} rows", runs, one), dtype=float).reshape(-1, 2)
    return found[:, 0], float(found[:, 1].mean()) if len(found) else float("nan")


def ours(x: np.ndarray, y: np.ndarray, z: np.ndarray, seed: int) -> float:
    """Return the p-value of mercer."""
    return conditional_independence_test(x, y, z, n_jobs=1, random_state=seed).p_value


def kci(folder: str | None) -> Any:
    """Return causal-learn's test as a function of the variables and a seed, or None if it is not installed."""
    if folder is not None:
        sys.path.insert(0, folder)
    try:
        from causallearn.utils.KCI.KCI import KCI_CInd
    except ImportError:
        return None
    return lambda x, y, z, seed: float(KCI_CInd().compute_pvalue(x, y, z)[0])  # noqa: ARG005


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = parser_for(__doc__.splitlines()[0], rounds=1, quick_rounds=1)
    parser.add_argument("--runs", type=int, help="samples for each level of up to 500 rows")
    parser.add_argument("--power-runs", type=int, help="samples for each power")
    parser.add_argument("--most-rows", type=int, help="largest number of rows")
    parser.add_argument("--peer", help="directory in which causal-learn is installed, if it is not importable")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--only", default="", help="part of the names of the problems of levels and shapes")
    parser.add_argument("--least-rows", type=int, default=0, help="least number of rows of levels and shapes")
    add_draws_options(parser)
    options = parser.parse_args(arguments)
    options.runs = pick(options.quick, options.runs, RUNS, 60)
    options.power_runs = pick(options.quick, options.power_runs, POWER_RUNS, 20)
    options.most_rows = pick(options.quick, options.most_rows, 100_000, 2000)
    return options


HEAD = ("problem", "z", "rows", "runs", "rejected", "mean p", "seconds")


def levels(report: Report, runs: int, rows_from: int, rows_to: int, only: str, draws: Draws) -> None:
    """Measure shares of rejections without dependence."""
    rows = []
    for problem, d, n, share in LEVELS:
        if not rows_from <= n <= rows_to or only not in problem.__name__:
            continue
        p, seconds = p_values(ours, problem, d, n, max(8, round(runs * share)), draws, f"level, {problem.__name__}")
        if not len(p):
            continue
        rate, bound = float(np.mean(p <= LEVEL)), 3 * np.sqrt(LEVEL * (1 - LEVEL) / len(p))
        name = f"level, {problem.__name__}, {d} of z, {n} rows"
        report.checks.append(Check(name, rate, at_most=LEVEL + bound, at_least=max(0.0, LEVEL - bound)))
        report.results[name] = {"rate": rate, "runs": len(p), "mean p": float(p.mean()), "seconds": seconds}
        rows.append((problem.__name__, f"{d}", f"{n}", f"{len(p)}", f"{rate:.3f}", f"{p.mean():.3f}", f"{seconds:.3f}"))
        print("  ".join(rows[-1]), flush=True)
    print("\n" + format_table(HEAD, rows), flush=True)


def shapes(report: Report, runs: int, rows_from: int, rows_to: int, only: str, draws: Draws) -> None:
    """Measure shares of rejections without dependence where the regressions are difficult."""
    rows = []
    for d, n in ROUGH:
        if rows_from <= n <= rows_to and only in "rough fork":
            p, _ = p_values(ours, rough_fork, d, n, max(8, round(runs * (0.02 if n > 10_000 else 0.1))), draws, "rough")
            report.results[f"rejections, rough_fork, {d} of z, {n} rows"] = float(np.mean(p <= LEVEL))
            report.notes.append(f"rough fork, {d} of z, {n} rows: rejected {np.mean(p <= LEVEL):.2f} (not judged)")
    for name, problem, d, judged in SHAPES:
        for n in (n for n in SHAPE_ROWS if rows_from <= n <= rows_to and only in name):
            p, seconds = p_values(ours, problem, d, n, max(8, round(runs * SHAPE_SHARE)), draws, f"shape, {name}")
            if not len(p):
                continue
            rate, bound = float(np.mean(p <= LEVEL)), 3 * np.sqrt(LEVEL * (1 - LEVEL) / len(p))
            if judged:
                report.checks.append(Check(f"level, {name}, {d} of z, {n} rows", rate, at_most=LEVEL + bound))
            report.results[f"level, {name}, {d} of z, {n} rows"] = {"rate": rate, "runs": len(p), "seconds": seconds}
            rows.append((name, f"{d}", f"{n}", f"{len(p)}", f"{rate:.3f}", f"{p.mean():.3f}", f"{seconds:.3f}"))
            print("  ".join(rows[-1]), flush=True)
    print("\n" + format_table(HEAD, rows), flush=True)


def powers(report: Report, peer: Any, runs: int, draws: Draws) -> None:
    """Measure shares of rejections of dependent variables at 500 rows, beside the peer on the same samples."""
    rows, all_found = [], []
    for problem, d, common in POWERS:
        found = {}
        for kind, amount in (("power", common), ("null", 0.0)):
            for who, test in (("mercer", ours), ("KCI", peer)):
                case = f"{kind}, {who}, {problem.__name__}"
                found[kind, who] = p_values(test, problem, d, 500, runs, draws, case, common=amount)
        count = min(len(p) for p, _ in found.values())
        if not count:
            continue
        all_found.append({key: p[:count] for key, (p, _) in found.items()})
        rejected = {key: p <= LEVEL for key, p in all_found[-1].items()}
        difference = rejected["power", "mercer"].astype(float) - rejected["power", "KCI"]
        error = float(difference.std() / np.sqrt(count))
        name = f"power, {problem.__name__}, {d} of z"
        report.checks.append(Check(f"{name}: mercer - KCI", float(difference.mean()), at_least=-2 * error))
        rates = {f"{kind}, {who}": float(hits.mean()) for (kind, who), hits in rejected.items()}
        report.results[name] = rates | {"runs": count, "seconds": [found["power", w][1] for w in ("mercer", "KCI")]}
        rows.append((problem.__name__, f"{d}", f"{count}", *(f"{rate:.3f}" for rate in rates.values()),
                     f"{difference.mean():+.3f}", f"{error:.3f}"))  # fmt: skip
        print("  ".join(rows[-1]), flush=True)
    head = ("problem", "z", "runs", "power", "KCI", "without dependence", "KCI", "difference", "error")
    print("\n" + format_table(head, rows), flush=True)
    for who in ("mercer", "KCI") if all_found else ():
        null = np.concatenate([p["null", who] for p in all_found])
        threshold = float(np.quantile(null, LEVEL))
        powers_at = [float(np.mean(p["power", who] <= threshold)) for p in all_found]
        report.results[f"equal size, {who}"] = {
            "null rate": float(np.mean(null <= LEVEL)), "null samples": len(null), "threshold": threshold,
            "powers": powers_at,
        }  # fmt: skip
        print(f"{who}: rejects {np.mean(null <= LEVEL):.3f} of {len(null)} samples without dependence; powers with the "
              f"threshold {threshold:.4f}: {', '.join(f'{power:.2f}' for power in powers_at)}")  # fmt: skip


def times(report: Report, peer: Any, draws: Draws) -> None:
    """Measure processor seconds at 2000 rows, without and with dependence."""
    for d in (1, 5, 10):
        for kind, common in (("independent", 0.0), ("dependent", 0.6)):
            case = f"{kind}, fork"
            _, mine = p_values(ours, fork, d, 2000, 40, draws, f"time, {case}", common=common)
            _, theirs = p_values(peer, fork, d, 2000, 1, draws, f"time, KCI, {case}", common=common)
            name = f"2000 rows, {d} of z, {kind}"
            report.checks.append(Check(f"seconds of KCI / mercer, {name}", theirs / mine, at_least=100.0))
            report.results[f"seconds, {name}"] = {"mercer": mine, "kci": theirs}
            print(f"{name}: mercer {mine:.3f} s, KCI {theirs:.2f} s", flush=True)


def main() -> None:
    """Run, print, write."""
    options = options_of()
    sizes = {"runs": options.runs, "power_runs": options.power_runs, "most_rows": options.most_rows}
    judged = options.runs == RUNS and options.power_runs == POWER_RUNS
    report = Report("conditional_independence", sizes | {"level": LEVEL}, judged=judged)
    report.begin()
    draws = Draws(options.draws, options.seconds)
    peer = kci(options.peer)
    if peer is None:
        report.notes.append("causal-learn is not installed: powers and times of KCI are left out")
    else:
        if "times" in options.parts:
            times(report, peer, draws)
        if "powers" in options.parts:
            powers(report, peer, options.power_runs, draws)
    for part, measure in (("levels", levels), ("shapes", shapes)):
        if part in options.parts:
            measure(report, options.runs, options.least_rows, options.most_rows, options.only, draws)
    report.finish(options.output)


if __name__ == "__main__":
    main()
