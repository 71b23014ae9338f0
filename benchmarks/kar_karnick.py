"""Table 1 of Kar and Karnick (2012): kernel machines beside linear machines on random Maclaurin features.

    python benchmarks/kar_karnick.py --data DIR [--splits 5] [--rows 20000] [--test-rows 125000]
        [--datasets nursery ...] [--kernels poly exp] [--methods exact ...] [--solver newton|liblinear]
        [--json FILE] [--resume] [--plot FILE]

Six data sets, two kernels: (1 + x.y)^10, and exp(x.y / sigma^2) with sigma the mean distance of training rows.

The paper's protocol: 60 % of the rows, at most 20000, train and the others test, in five random splits; labels of many
classes are made binary at random; rows are scaled with constants of the training rows. Where the paper is silent:

- parts that a data set comes in are merged and shuffled; of the test rows, at most `--test-rows` are drawn (only
  Covertype has more), the same for all methods
- of many classes, a random half against the others, drawn for each split, again if one side has under 10 % of the rows
- columns are scaled to [0, 1] by least and largest training values, then rows divided by the largest training norm
- Nursery, whose file has 27 columns, one for each value of its nominal attributes, gets back the paper's d = 8: codes
  of the values, in the order of their description at UCI. Adult is LIBSVM's a9a, with the paper's 123 columns
- C is chosen for each data set, kernel and method on the first split, by fitting two thirds of its training rows (the
  exact machine: at most 8000 of them) and scoring the others: 0.1, 1, 10, ... over the median of k(x, x), upwards until
  two values in succession are no better. With many classes each split is another task, and chooses for itself

Methods: the exact machine (LIBSVM, hinge loss; a precomputed Gram matrix for the exponential kernel, which it does not
have), the paper's geometric plan of degrees at the paper's D, its H0/1 with the paper's D random columns beside 1 + d
exact ones, and ours: as many columns as the geometric plan, with the candidate that scores best on the rows held out,
out of the plan "optimal" with three projections, each with and without an anchor, and the same plan for the terms of
the kernel up to degree 1, 2, 3 or 4 (some data need no more); and narrow: chosen in the same way, with a quarter of
these columns. Leading components, with `--methods leading`, show what so many columns can do at best: the principal
components of four times as many columns, nearly the best approximation of the kernel of that rank on these rows. All
linear machines have squared hinge loss and one solver: Newton steps by BLAS, or LIBLINEAR as in the paper (the same
problem; on these dense features it needs many times longer).

Seconds are processor time on one thread. Training is all from scaled rows and a kernel to a machine: map and solver, or
Gram matrix and SVC. The exact machine predicts by kernel values with its support vectors, block by block.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import machine
import numpy as np
import plots
import squared_hinge
from harness import Check, format_table
from kar_karnick_data import (
    DATASETS,
    KERNELS,
    MOST_ROWS,
    MOST_TEST_ROWS,
    PAPER,
    SEED,
    Split,
    load,
    mean_distance,
)
from scipy.linalg import eigh
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_limits

from mercer import DotProduct, ExponentialDotProduct, Kernel, Polynomial, RandomMaclaurin
from mercer.maps.series.plans import Plan

METHODS = {
    "exact": "exact machine",
    "geometric": "geometric plan",
    "h01": "H0/1",
    "ours": "ours",
    "narrow": "narrow",
    "leading": "leading components",
}
NARROW, WIDER = 4, 4
JUDGED = ("ours", "narrow")
DEGREE = 10
EXACT_CHOICE_ROWS = 8000
COSTS = (1e-1, 1.0, 1e1, 1e2, 1e3, 1e4, 1e5)
# LIBSVM is stopped here: reached only for values of C too large for labels that overlap.
MOST_ITERATIONS = 3_000_000
CACHE_MEGABYTES = 4000
BLOCK = 500
WITHIN_POINTS, TIMES_FASTER = 1.0, 5.0

Decide = Callable[[np.ndarray], np.ndarray]


# ---- machines -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Machine:
    """A fitted machine and how it came about."""

    decide: Decide
    facts: dict[str, Any]

    def accuracy(self, X: np.ndarray, y: np.ndarray) -> float:
        """Return the per cent of labels that it gets right."""
        return float(100 * np.mean((self.decide(X) > 0) == (y > 0)))


def by_blocks(function: Decide, X: np.ndarray) -> np.ndarray:
    """Return the values of a function of rows, a block of rows at a time."""
    return np.concatenate([function(X[start : start + BLOCK]) for start in range(0, len(X), BLOCK)])


def fit_exact(X: np.ndarray, y: np.ndarray, kernel: Kernel, C: float) -> Machine:
    """Fit LIBSVM with the kernel itself."""
    options = {"C": C, "cache_size": CACHE_MEGABYTES, "max_iter": MOST_ITERATIONS}
    if isinstance(kernel, Polynomial):
        model = SVC(kernel="poly", degree=kernel.degree, gamma=1.0, coef0=kernel.coef0, **options).fit(X, y)
    else:
        gram = np.empty((len(X), len(X)))
        for start in range(0, len(X), BLOCK):
            values(kernel, X[start : start + BLOCK], X, gram[start : start + BLOCK])
        model = SVC(kernel="precomputed", **options).fit(gram, y)
        del gram
    vectors, weights, intercept = X[model.support_], model.dual_coef_[0], model.intercept_[0]
    facts = {"support_vectors": len(vectors), "iterations": int(model.n_iter_[0])}
    buffer = np.empty((BLOCK, len(vectors)))

    def decide(block: np.ndarray) -> np.ndarray:
        return values(kernel, block, vectors, buffer[: len(block)]) @ weights + intercept

    return Machine(lambda rows: by_blocks(decide, rows), facts)


def values(kernel: Kernel, X: np.ndarray, Y: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Write the kernel between rows, in place: the exact machine shall not wait for temporary arrays and checks."""
    np.matmul(X, Y.T, out=out)
    if isinstance(kernel, ExponentialDotProduct):
        out *= kernel.scale
        return np.exp(out, out=out)
    out += kernel.coef0
    # The tenth power in four multiplications.
    squares = out * out
    np.multiply(squares, squares, out=out)
    out *= out
    out *= squares
    return out


def fit_linear(Z: np.ndarray, y: np.ndarray, C: float, solver: str) -> Machine:
    """Fit a linear machine of squared hinge loss to features."""
    if solver == "newton":
        fitted = squared_hinge.fit(Z, y, C)
        return Machine(fitted.decide, {"iterations": fitted.steps})
    model = LinearSVC(C=C, dual="auto").fit(Z, y)
    return Machine(model.decision_function, {"iterations": int(model.n_iter_)})


@dataclass
class LeadingComponents:
    """The features of a map turned to their principal axes on the rows, the longest of them."""

    feature_map: RandomMaclaurin
    columns: int

    def fit(self, X: np.ndarray) -> LeadingComponents:
        """Find the axes."""
        Z = self.feature_map.fit(X).transform(X)
        first = Z.shape[1] - self.columns
        self.axes = eigh(Z.T @ Z, subset_by_index=(first, Z.shape[1] - 1), overwrite_a=True)[1]
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Return the components of rows."""
        return self.feature_map.transform(X) @ self.axes

    @property
    def plan_(self) -> Plan:
        return self.feature_map.plan_


def fit_features(
    X: np.ndarray, y: np.ndarray, feature_map: RandomMaclaurin | LeadingComponents, C: float, solver: str
) -> tuple[Machine, float]:
    """Fit a linear machine to the features of rows, and return it with the seconds of the map."""
    start = time.process_time()
    Z = feature_map.fit(X).transform(X)
    seconds = time.process_time() - start
    linear = fit_linear(Z, y, C, solver)
    plan = [[s.kind, list(s.degrees), s.n_components] for s in feature_map.plan_.strata]
    facts = linear.facts | {"columns": Z.shape[1], "plan": plan}
    return Machine(
        lambda rows: by_blocks(lambda block: linear.decide(feature_map.transform(block)), rows), facts
    ), seconds


# ---- one row of the table -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A data set and a kernel."""

    dataset: str
    kind: str

    @property
    def key(self) -> str:
        """Name of the row in the JSON file."""
        return f"{self.dataset} {self.kind}"

    def kernel(self, X: np.ndarray) -> Kernel:
        """Return the kernel for training rows."""
        if self.kind == "poly":
            return Polynomial(degree=DEGREE, coef0=1.0)
        return ExponentialDotProduct(scale=mean_distance(X) ** -2)

    def maps(self, method: str, kernel: Kernel, d: int, seed: int) -> dict[str, RandomMaclaurin | LeadingComponents]:
        """Return the candidates of a method, by name."""
        paper = PAPER[self.dataset, self.kind]
        if method == "h01":
            return {
                method: RandomMaclaurin(
                    kernel, 1 + d + paper[method].columns, plan="h01", p=2.0, random_state=seed, n_jobs=1
                )
            }
        columns = paper["geometric"].columns
        if method == "leading":
            wide = RandomMaclaurin(kernel, WIDER * columns, projection="srht", anchor=None, random_state=seed, n_jobs=1)
            return {method: LeadingComponents(wide, columns)}
        if method == "geometric":
            return {method: RandomMaclaurin(kernel, columns, plan="geometric", p=2.0, random_state=seed, n_jobs=1)}
        columns //= NARROW if method == "narrow" else 1
        found = {
            f"optimal, {projection}": RandomMaclaurin(
                kernel, columns, projection=projection, random_state=seed, n_jobs=1
            )
            for projection in ("rademacher", "complex", "srht")
        }
        found |= {f"{name}, no anchor": clone(found[name]).set_params(anchor=None) for name in list(found)}
        for k in (1, 2, 3, 4):
            # With fewer monomials than columns, the map is exact and narrower.
            width = min(columns, math.comb(d + k, k))
            low = DotProduct(kernel.series.coefficients(k + 1).tolist())
            found[f"to degree {k}"] = RandomMaclaurin(low, width, random_state=seed, n_jobs=1)
        return found


def choose(row: Row, method: str, split: Split, solver: str) -> dict[str, Any]:
    """Choose C, and the candidate of a method, on rows held out of the training rows."""
    part = split.held_out()
    kernel = row.kernel(part.X)
    unit = 1 / float(np.median(kernel.diag(part.X)))
    scores: dict[str, dict[str, float]] = {}
    for name, score in scorers(row, method, part, kernel, solver):
        scores[name] = {}
        for C, accuracy in walk(score, unit):
            scores[name][f"{C:.6g}"] = accuracy
            log(f"{row.key}: {method}, {name}, C={C:.3g}: {accuracy:.2f} held out")
    return {**best_of(scores), "held_out": scores}


def best_of(scores: dict[str, dict[str, float]]) -> dict[str, Any]:
    """Return the best candidate and C: of equals the candidate that is best on average, and the C in the middle."""
    best = max(max(of_candidate.values()) for of_candidate in scores.values())
    tied = {name: [C for C, score in found.items() if score == best] for name, found in scores.items()}
    name = max((n for n in tied if tied[n]), key=lambda n: np.mean(list(scores[n].values())))
    return {"candidate": name, "C": float(tied[name][len(tied[name]) // 2])}


def scorers(
    row: Row, method: str, part: Split, kernel: Kernel, solver: str
) -> Iterator[tuple[str, Callable[[float], float]]]:
    """Yield the candidates of a method, each with its accuracy on held-out rows as a function of C."""
    if method == "exact":
        X, y = part.X[:EXACT_CHOICE_ROWS], part.y[:EXACT_CHOICE_ROWS]
        yield method, lambda C: fit_exact(X, y, kernel, C).accuracy(part.X_test, part.y_test)
        return
    for name, feature_map in row.maps(method, kernel, part.X.shape[1], SEED).items():
        Z, Z_test = feature_map.fit(part.X).transform(part.X), feature_map.transform(part.X_test)
        yield name, lambda C, Z=Z, Z_test=Z_test: fit_linear(Z, part.y, C, solver).accuracy(Z_test, part.y_test)


def walk(score: Callable[[float], float], unit: float) -> Iterator[tuple[float, float]]:
    """Yield values of C, upwards, with their scores, until two in succession are no better than the best."""
    best, worse = -np.inf, 0
    for cost in COSTS:
        accuracy = score(cost * unit)
        yield cost * unit, accuracy
        worse = 0 if accuracy > best else worse + 1
        best = max(best, accuracy)
        if worse == 2:
            return


def measure(row: Row, method: str, split: Split, choice: dict[str, Any], seed: int, solver: str) -> dict[str, Any]:
    """Fit a method on a split and return its figures."""
    kernel = row.kernel(split.X)
    wall, start = time.perf_counter(), time.process_time()
    if method == "exact":
        fitted, map_seconds = fit_exact(split.X, split.y, kernel, choice["C"]), 0.0
    else:
        feature_map = row.maps(method, kernel, split.X.shape[1], seed)[choice["candidate"]]
        fitted, map_seconds = fit_features(split.X, split.y, feature_map, choice["C"], solver)
    train, wall_train = time.process_time() - start, time.perf_counter() - wall
    start = time.process_time()
    accuracy = fitted.accuracy(split.X_test, split.y_test)
    test = time.process_time() - start
    seconds = {"train": train, "map": map_seconds, "test": test, "wall_train": wall_train}
    return {"accuracy": accuracy, "seconds": seconds, **fitted.facts}


# ---- the table ------------------------------------------------------------------------------------------------------


@dataclass
class Table:
    """All figures so far, written to a file whenever there is a new one."""

    settings: dict[str, Any]
    path: Path | None
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)

    def resume(self) -> None:
        """Read the figures of an earlier run with the same settings."""
        if self.path is None or not self.path.exists():
            return
        earlier = json.loads(self.path.read_text())
        if earlier["settings"] != self.settings:
            raise SystemExit(f"{self.path} has other settings: {earlier['settings']}, not {self.settings}")
        self.rows = earlier["rows"]

    def write(self) -> None:
        """Write all figures."""
        if self.path is None:
            return
        content = {"benchmark": "kar_karnick", "machine": machine.facts(), "settings": self.settings}
        paper = {f"{a} {b}": {m: asdict(p) for m, p in given.items()} for (a, b), given in PAPER.items()}
        checks = {
            f"{key}: {m}": [asdict(c) | {"met": c.met} for c in self.checks(key, m)]
            for key in self.rows
            for m in JUDGED
        }
        content |= {"paper": paper, "rows": self.rows, "checks": checks}
        partial = self.path.with_suffix(".partial")
        partial.write_text(json.dumps(content, indent=1) + "\n")
        partial.replace(self.path)

    def mean(self, key: str, method: str, *names: str) -> float | None:
        """Return the mean over splits of a figure, or None without any."""
        values = self.values(key, method, *names)
        return float(np.mean(values)) if values else None

    def values(self, key: str, method: str, *names: str) -> list[float]:
        """Return a figure of all splits."""
        found = []
        for split in self.rows[key]["methods"].get(method, {}).get("splits", {}).values():
            for name in names:
                split = split[name]
            found.append(split)
        return found

    def checks(self, key: str, method: str) -> list[Check]:
        """Return the three figures of a method that have targets."""
        exact, geometric, ours = (self.mean(key, m, "accuracy") for m in ("exact", "geometric", method))
        slow, quick = (self.mean(key, m, "seconds", "train") for m in ("exact", method))
        return [
            Check("points above the exact machine", difference(ours, exact), at_least=-WITHIN_POINTS),
            Check("points above the geometric plan", difference(ours, geometric), at_least=0.0),
            Check("times faster to train", None if None in (slow, quick) else slow / quick, at_least=TIMES_FASTER),
        ]

    def figures(self) -> str:
        """Return a line for each row and method."""
        lines = []
        for key, row in self.rows.items():
            for method, name in METHODS.items():
                if not self.values(key, method, "accuracy"):
                    continue
                accuracies = self.values(key, method, "accuracy")
                paper = PAPER[row["dataset"], row["kernel"]].get(method)
                lines.append(
                    (
                        f"{DATASETS[row['dataset']]}, {row['kernel']}: {name}",
                        f"{len(accuracies)}",
                        f"{np.mean(accuracies):.2f} ± {np.std(accuracies):.2f}",
                        f"{self.mean(key, method, 'seconds', 'train'):.2f}",
                        f"{self.mean(key, method, 'seconds', 'test'):.2f}",
                        "" if method == "exact" else f"{self.mean(key, method, 'columns'):.0f}",
                        "" if paper is None else f"{paper.accuracy:g} / {paper.train:g} / {paper.test:g}",
                        self.chosen(key, method) if method in JUDGED else "",
                    )
                )
        header = ("", "splits", "accuracy %", "train s", "test s", "columns", "paper: % / s / s", "chosen")
        return format_table(header, lines)

    def chosen(self, key: str, method: str) -> str:
        """Return the candidates that were chosen."""
        choices = self.rows[key]["methods"][method]["choices"].values()
        return "; ".join(dict.fromkeys(choice["candidate"] for choice in choices))

    def verdicts(self) -> str:
        """Return the three verdicts of each row."""
        word = {True: "", False: "  NOT MET", None: ""}
        found = {f"{key}: {method}": self.checks(key, method) for key in self.rows for method in JUDGED}
        lines = [
            (name, *("-" if c.value is None else f"{c.value:.2f}{word[c.met]}" for c in checks), "")
            for name, checks in found.items()
        ]
        header = [f"{c.name} ({c.target})" for c in next(iter(found.values()))]
        return format_table(("", *header, ""), lines)


def difference(a: float | None, b: float | None) -> float | None:
    """Return a - b, or None if either is not known; rounded, so that equal counts of hits are equal."""
    return None if a is None or b is None else round(a - b, 9)


def log(text: str) -> None:
    """Tell how far it is."""
    print(text, file=sys.stderr, flush=True)


def run(table: Table, options: argparse.Namespace) -> None:
    """Run what is not in the table yet."""
    for dataset in options.datasets:
        X, y = load(options.data, dataset)
        many = len(np.unique(y)) > 2
        for kind in options.kernels:
            row = Row(dataset, kind)
            entry = table.rows.setdefault(row.key, {"dataset": dataset, "kernel": kind, "methods": {}})
            for number in range(options.splits):
                split = None
                for method in options.methods:
                    found = entry["methods"].setdefault(method, {"choices": {}, "splits": {}})
                    if str(number) in found["splits"]:
                        continue
                    split = split or Split.draw(X, y, number, options.rows, options.test_rows)
                    chosen_on = number if many else 0
                    if str(chosen_on) not in found["choices"]:
                        own = chosen_on == number
                        part = split if own else Split.draw(X, y, chosen_on, options.rows, options.test_rows)
                        found["choices"][str(chosen_on)] = choose(row, method, part, options.solver)
                    choice = found["choices"][str(chosen_on)]
                    figures = measure(row, method, split, choice, number, options.solver)
                    found["splits"][str(number)] = figures
                    table.write()
                    seconds = figures["seconds"]
                    log(
                        f"{row.key}, split {number}: {method}, {choice['candidate']}, "
                        f"C={choice['C']:.3g}: {figures['accuracy']:.2f} %, "
                        f"train {seconds['train']:.2f} s, test {seconds['test']:.2f} s"
                    )


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="directory of the .npz files")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--rows", type=int, default=MOST_ROWS, help="most training rows")
    parser.add_argument("--test-rows", type=int, default=MOST_TEST_ROWS, help="most test rows")
    parser.add_argument("--datasets", nargs="+", choices=DATASETS, default=list(DATASETS))
    parser.add_argument("--kernels", nargs="+", choices=KERNELS, default=list(KERNELS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS)[:-1])
    parser.add_argument("--solver", choices=("newton", "liblinear"), default="newton")
    parser.add_argument("--json", type=Path, help="file that all figures are written to, as they come")
    parser.add_argument("--resume", action="store_true", help="skip what the file has already")
    parser.add_argument("--plot", type=Path)
    return parser.parse_args(arguments)


def main() -> None:
    """Run, print, write."""
    options = options_of()
    settings = {"rows": options.rows, "test_rows": options.test_rows, "solver": options.solver, "seed": SEED}
    table = Table(settings, options.json)
    if options.resume:
        table.resume()
    warnings.simplefilter("ignore", ConvergenceWarning)
    with threadpool_limits(1):
        run(table, options)
    print(f"{table.figures()}\n\n{table.verdicts()}")
    if options.plot:
        titles = {key: f"{DATASETS[row['dataset']]}, {row['kernel']}" for key, row in table.rows.items()}
        # Means over other splits would not stand beside these.
        shown = {m: n for m, n in METHODS.items() if m != "leading"}
        accuracies = {titles[k]: {n: table.mean(k, m, "accuracy") for m, n in shown.items()} for k in titles}
        seconds = {titles[k]: {n: table.mean(k, m, "seconds", "train") for m, n in shown.items()} for k in titles}
        plots.beside(accuracies, seconds, ("test accuracy, %", "training, seconds"), options.plot)


if __name__ == "__main__":
    main()
