"""Figure 1 of Munkhoeva et al. 2018 at equal columns: their errors as published, ours beside them.

Relative Frobenius error |K - K^| / |K| between two random samples X, Y of 550 rows (LEUKEMIA 10), for the Gaussian
kernel of gamma = 1/d and the arc-cosine kernels of order 0 and 1, at n = 1, ..., 5. Every method has 2n(d + 1)
directions there; that is 4n(d + 1) columns for the Gaussian kernel, sines and cosines, and 2n(d + 1) for the others.

    python benchmarks/munkhoeva.py --data DIR --targets FILE [--runs N] [--datasets ...] [--json FILE] [--plot FILE]

DIR holds ccpp.npz, letter.npz, usps.npz, mnist.npz and leukemia.npz; FILE is a table with the columns dataset, kernel,
method, n and mean_rel_frob_err. Every run draws new rows and new features. Cells already in the JSON file are kept, so
that a long run can be done one data set at a time; `--datasets` without a name only prints and draws.

Rows are prepared as in the authors' code: the first rows of the file, as many as there, divided by their largest entry;
Powerplant standardized before, LEUKEMIA normalized as the LIBSVM site says of its file, first rows, then columns. USPS
is smoothed by a Gaussian of 0.75 pixels. That is a guess, made by trying widths until their rule had the published
errors: without it no scale serves all kernels, with it plain features and their rule are within a tenth at scale one.
"G again" and "B again" are their plain features and their rule, drawn anew on our rows: they tell whether the data are
the same. Where the former miss the published error by more than a tenth at n = 5, the rows are scaled by a factor,
found once for each data set. It matters for the Gaussian kernel only: the relative error of arc-cosine kernels does not
depend on the scale. Theirs are means over one sample of rows; LEUKEMIA has 10, and their rule is off there on ours.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import plots
from harness import format_table
from scipy import ndimage

from mercer import ArcCosine, Gaussian, Kernel, RandomFourier, RandomMaclaurin, RandomNeurons, SphericalRadial
from mercer.errors import ParameterError
from mercer.maps.base import BaseMap
from mercer.maps.fourier.directions import haar, simplex_products

Rows = np.ndarray
Trial = Callable[[Kernel, Rows, Rows, int, int], Rows]  # kernel, two samples, columns, seed -> approximate kernel
Key = tuple[str, str, int]  # data set, kernel, n
STEPS = (1, 2, 3, 4, 5)
KERNELS = ("RBF", "Arccos 0", "Arccos 1")
THEIRS = ("G", "Gort", "ROM", "QMC", "GQ", "B")
# Plain features, and their rule with exact rotations, on our rows: they tell whether the data are the same.
PLAIN, REPLICA = "G again", "B again"
# Neurons of order 1 by parity on n whole simplices: n(d + 1) + d columns, about half of theirs. Apart from the contest.
HALF = "half the columns"
HALF_TARGETS = {"LETTER": 0.0047, "Powerplant": 0.0461}  # at n = 5
ASIDE = (PLAIN, REPLICA, HALF)
NEURONS: dict[str, Callable[[Rows], Rows]] = {
    "Arccos 0": lambda u: np.heaviside(u, 0.5),
    "Arccos 1": lambda u: np.maximum(u, 0.0),
}
# How far plain features may be from theirs before the data are scaled, and after.
AGREES, SCALED_TO = 0.10, 0.01
# Runs of plain features that the scale is found from.
SCALE_RUNS = 20
# Columns of rows from which maps that never came first are left out, and dense draws take minutes.
MANY, WIDE = 512, 4096
# Rows for which Sobol points are worth a try.
NARROW = 32
REQUIRED_BELOW_ALL = 60


@dataclass(frozen=True)
class Source:
    """A data set of the figure."""

    file: str
    rows: int  # the first of the file, as in the authors' code
    sample: int
    runs: int
    prepare: Callable[[Rows], Rows] = lambda X: X

    def load(self, folder: Path) -> Rows:
        """Return the prepared rows."""
        with np.load(folder / f"{self.file}.npz") as data:
            names = ("X_train", "X_test") if "X_train" in data else ("X",)
            X = np.concatenate([data[name] for name in names]).astype(float)
        X = self.prepare(X)[: self.rows]
        return X / X.max()


def standardized(X: Rows) -> Rows:
    """Return rows of columns with mean zero and variance one."""
    return (X - X.mean(axis=0)) / X.std(axis=0)


def normalized(X: Rows) -> Rows:
    """Return rows, and then columns, with mean zero and variance one, as the LIBSVM site says of leukemia."""
    return standardized((X - X.mean(axis=1, keepdims=True)) / X.std(axis=1, keepdims=True))


def smoothed(X: Rows) -> Rows:
    """Return images of 16 x 16 pixels smoothed by a Gaussian of width 0.75."""
    images = X.reshape(len(X), 16, 16)
    return ndimage.gaussian_filter(images, (0, 0.75, 0.75), mode="constant", cval=-1.0).reshape(X.shape)


SOURCES = {
    "Powerplant": Source("ccpp", 8500, 550, 100, standardized),
    "LETTER": Source("letter", 10000, 550, 50),
    "USPS": Source("usps", 4500, 550, 16, smoothed),
    "MNIST": Source("mnist", 60000, 550, 6),
    "LEUKEMIA": Source("leukemia", 38, 10, 40, normalized),
}


def columns_of(kernel: str, d: int, n: int) -> int:
    """Return the number of real columns of every method."""
    return (4 if kernel == "RBF" else 2) * n * (d + 1)


def exact_kernel(name: str, d: int) -> Kernel:
    """Return the kernel of a row of the figure."""
    return Gaussian.from_gamma(1 / d) if name == "RBF" else ArcCosine(int(name[-1]))


def mapped(kind: type[BaseMap], **options: Any) -> Trial:
    """Return the approximate kernel of one of our maps, fitted to the first sample."""

    def gram(kernel: Kernel, X: Rows, Y: Rows, width: int, seed: int) -> Rows:
        return kind(kernel, width, random_state=seed, **options).fit(X).gram(X, Y)

    return gram


def signed_quadrature(directions: str) -> Trial:
    """Return the approximate kernel of quadrature features with their constant: one column, and whole pairs."""
    gram = mapped(SphericalRadial, directions=directions, constant="signed")
    return lambda kernel, X, Y, width, seed: gram(kernel, X, Y, width - 1 + width % 2, seed)


def whole_blocks(order: int, directions: str) -> Trial:
    """Return the approximate kernel of neurons whose last block of directions is not cut: a few columns less."""
    gram = mapped(RandomNeurons, layout="parity", directions=directions)

    def whole(kernel: Kernel, X: Rows, Y: Rows, width: int, seed: int) -> Rows:
        d = X.shape[1]
        exact, block = (d if order else 1), d + (directions == "simplex")
        return gram(kernel, X, Y, width - (width - exact) % block, seed)

    return whole


def half_the_columns(kernel: Kernel, X: Rows, Y: Rows, width: int, seed: int) -> Rows:
    """Return the approximate kernel of neurons on n whole simplices, given the 2n(d + 1) columns of the figure."""
    gram = mapped(RandomNeurons, layout="parity", directions="simplex")
    return gram(kernel, X, Y, width // 2 + X.shape[1], seed)


def in_coordinates(X: Rows, Y: Rows) -> tuple[Rows, Rows]:
    """Return both samples in coordinates of their span, if it is smaller than their space.

    Directions whose law is the same after any rotation may be drawn there: what they do outside does not show.
    """
    if len(X) + len(Y) >= X.shape[1]:
        return X, Y
    basis = np.linalg.qr(np.concatenate([X, Y]).T)[0]
    return X @ basis, Y @ basis


def in_span(trial: Trial, linear: bool = False) -> Trial:
    """Return the same approximate kernel in law, drawn in the span of both samples: for one big block of directions.

    A map with all columns of the rows among its own, `linear`, has as many columns less as these are less.
    """

    def gram(kernel: Kernel, X: Rows, Y: Rows, width: int, seed: int) -> Rows:
        A, B = in_coordinates(X, Y)
        return trial(kernel, A, B, width - linear * (X.shape[1] - A.shape[1]), seed)

    return gram


def our_maps(kernel: str, d: int) -> dict[str, Trial]:
    """Return the maps to try for rows of a width; those whose dense draws would take minutes are left out."""
    return fourier_and_maclaurin(d) if kernel == "RBF" else neurons(int(kernel[-1]), d)


def fourier_and_maclaurin(d: int) -> dict[str, Trial]:
    """Return the maps of the Gaussian kernel."""
    found: dict[str, Trial] = {}
    for name in (*(("orthogonal",) if d < MANY else ()), "big_block", "sobol" if d <= NARROW else "butterfly"):
        found[f"Fourier, {name}"] = mapped(RandomFourier, directions=name)
        if name in ("big_block", "butterfly"):
            found[f"Fourier, {name}, stratified"] = mapped(RandomFourier, directions=name, radii="stratified")
    for name in ("big_block", *(("simplex",) if d < MANY else ()), *(("butterfly",) if d > NARROW else ())):
        found[f"Quadrature, {name}"] = signed_quadrature(name)
    if d >= WIDE:
        found |= {name: in_span(trial) for name, trial in found.items() if "big_block" in name}
    for name in ("rademacher", "complex", "srht") if d < MANY else ("srht",):
        found[f"Maclaurin, {name}"] = mapped(RandomMaclaurin, projection=name)
    return found


def neurons(order: int, d: int) -> dict[str, Trial]:
    """Return the maps of an arc-cosine kernel."""
    found: dict[str, Trial] = {"Neurons": mapped(RandomNeurons)}
    if d >= WIDE:
        for layout in ("parity", "residual"):
            found[f"Neurons, {layout}, butterfly"] = mapped(RandomNeurons, layout=layout, directions="butterfly")
        block = mapped(RandomNeurons, layout="parity", directions="big_block")
        return found | {"Neurons, parity, big_block": in_span(block, linear=order > 0)}
    names = ("big_block", "simplex", "sobol" if d <= NARROW else "butterfly")
    for layout in ("parity", "residual"):
        for name in names if d >= MANY else ("orthogonal", *names):
            found[f"Neurons, {layout}, {name}"] = mapped(RandomNeurons, layout=layout, directions=name)
    for name in ("orthogonal", "simplex"):
        found[f"Neurons, parity, whole {name}"] = whole_blocks(order, name)
    return found | ({HALF: half_the_columns} if order == 1 else {})


def default_map(kernel: str, d: int) -> str:
    """Return the map that stands for its kernel in all cells; the cheaper projection where rows are wide."""
    if kernel != "RBF":
        return "Neurons"
    return "Maclaurin, rademacher" if d < MANY else "Maclaurin, srht"


def plain_gram(kernel: str, X: Rows, Y: Rows, n: int, seed: int) -> Rows:
    """Return the approximate kernel of independent normal directions."""
    d = X.shape[1]
    total = 2 * n * (d + 1)
    X, Y = in_coordinates(X, Y)
    if kernel == "RBF":
        drawn = RandomFourier(exact_kernel(kernel, d), 2 * total, directions="iid", random_state=seed)
        return drawn.fit(X).gram(X, Y)
    weights = np.random.default_rng([seed, 2]).standard_normal((X.shape[1], total))
    neuron = NEURONS[kernel]
    return 2 / total * neuron(X @ weights) @ neuron(Y @ weights).T


def their_gram(kernel: str, X: Rows, Y: Rows, n: int, seed: int) -> Rows:
    """Return the approximate kernel of their rule, with uniform rotations in place of their butterflies.

    Points are those of n simplices, 2n for the Gaussian kernel, and their reflections where those differ.
    """
    d = X.shape[1]
    draw = np.random.default_rng([seed, 1])
    X, Y = in_coordinates(X, Y)
    points = np.concatenate(
        [simplex_products(haar(d, X.shape[1], draw).T) for _ in range(2 * n if kernel == "RBF" else n)], axis=1
    )
    radii = np.sqrt(draw.chisquare(d + 2, points.shape[1]))
    weights = d / (np.square(radii) * len(radii))
    u, v = X @ points * radii, Y @ points * radii
    if kernel == "RBF":
        u, v = np.sqrt(2 / d) * u, np.sqrt(2 / d) * v
        return (np.cos(u) * weights) @ np.cos(v).T + (np.sin(u) * weights) @ np.sin(v).T + 1 - weights.sum()
    neuron = NEURONS[kernel]
    gram = sum((neuron(side * u) * weights) @ neuron(side * v).T for side in (1, -1))
    return gram + (0.5 * (1 - weights.sum()) if kernel == "Arccos 0" else 0.0)


def samples(X: Rows, source: Source, runs: int, name: str) -> Iterator[tuple[int, Rows, Rows]]:
    """Yield a seed and two random samples of rows for every run."""
    for run in range(runs):
        rng = np.random.default_rng([run, *name.encode()])
        yield run, *(X[rng.choice(len(X), source.sample, replace=False)] for _ in range(2))


def relative_error(gram: Rows, K: Rows) -> float:
    """Return |K - K^| / |K| in the Frobenius norm."""
    return float(np.linalg.norm(gram - K) / np.linalg.norm(K))


def find_factor(name: str, X: Rows, source: Source, target: float, runs: int) -> tuple[float, float]:
    """Return the factor of the rows at which plain Fourier features have the published error, and the ratio without it.

    The error grows about as the square of the scale, so that a few steps are enough.
    """
    kernel = exact_kernel("RBF", X.shape[1])

    def ratio(factor: float) -> float:
        drawn = list(samples(factor * X, source, runs, name))
        found = [relative_error(plain_gram("RBF", A, B, STEPS[-1], seed), kernel(A, B)) for seed, A, B in drawn]
        return float(np.mean(found)) / target

    first = now = ratio(1.0)
    factor = 1.0
    if abs(first - 1) <= AGREES:
        return factor, first
    while abs(now - 1) > SCALED_TO:
        factor /= np.sqrt(now)
        now = ratio(factor)
        print(f"  {name}: rows times {factor:.4f}: plain features have {now:.3f} of the error", file=sys.stderr)
    return factor, first


def measure(name: str, kernel: str, n: int, X: Rows, source: Source, runs: int) -> dict[str, dict[str, float]]:
    """Return mean and standard error of every map of ours in one cell of the figure."""
    d = X.shape[1]
    exact = exact_kernel(kernel, d)
    width = columns_of(kernel, d, n)
    found: dict[str, list[float]] = {}
    for seed, A, B in samples(X, source, runs, name):
        K = exact(A, B)
        found.setdefault(PLAIN, []).append(relative_error(plain_gram(kernel, A, B, n, seed), K))
        found.setdefault(REPLICA, []).append(relative_error(their_gram(kernel, A, B, n, seed), K))
        for title, trial in our_maps(kernel, d).items():
            try:
                gram = trial(exact, A, B, width, seed)
            except ParameterError:  # more exact columns than there is room for
                continue
            found.setdefault(title, []).append(relative_error(gram, K))
    return {
        title: {
            "mean": float(np.mean(errors)),
            "standard_error": float(np.std(errors, ddof=1) / np.sqrt(len(errors))) if len(errors) > 1 else np.nan,
            "runs": len(errors),
        }
        for title, errors in found.items()
    }


@dataclass(frozen=True)
class Cell:
    """One data set, kernel and n: their errors and ours."""

    dataset: str
    kernel: str
    n: int
    d: int
    theirs: dict[str, float]
    ours: dict[str, dict[str, float]]

    @property
    def best(self) -> str:
        """Our map of least error."""
        return min((name for name in self.ours if name not in ASIDE), key=lambda name: self.ours[name]["mean"])

    @property
    def error(self) -> float:
        return self.ours[self.best]["mean"]

    @property
    def default_error(self) -> float:
        return self.ours[default_map(self.kernel, self.d)]["mean"]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        fields = ("dataset", "kernel", "n", "d", "theirs", "ours")
        return {name: getattr(self, name) for name in fields} | {"best": self.best}


def published(path: Path) -> dict[Key, dict[str, float]]:
    """Return their mean errors by cell and method."""
    found: dict[Key, dict[str, float]] = {}
    with path.open(newline="") as lines:
        for row in csv.DictReader(lines):
            key = row["dataset"], row["kernel"], int(row["n"])
            found.setdefault(key, {})[row["method"]] = float(row["mean_rel_frob_err"])
    return found


def write(path: Path | None, factors: dict[str, dict[str, float]], cells: dict[Key, Cell]) -> None:
    """Write all that there is so far."""
    if path is not None:
        content = {"factors": factors, "cells": [cell.to_dict() for cell in cells.values()]}
        path.write_text(json.dumps(content, indent=1) + "\n")


def read(path: Path | None) -> tuple[dict[str, dict[str, float]], dict[Key, Cell]]:
    """Return what an earlier run has written."""
    if path is None or not path.exists():
        return {}, {}
    content = json.loads(path.read_text())
    cells = [Cell(**{key: value for key, value in one.items() if key != "best"}) for one in content["cells"]]
    return content["factors"], {(cell.dataset, cell.kernel, cell.n): cell for cell in cells}


def run(options: argparse.Namespace) -> tuple[dict[str, dict[str, float]], dict[Key, Cell]]:
    """Measure all cells, writing each as it comes."""
    targets = published(options.targets)
    factors, cells = read(options.json)
    for name in options.datasets:
        source = SOURCES[name]
        X = source.load(options.data)
        runs = options.runs or source.runs
        target = targets[name, "RBF", STEPS[-1]]["G"]
        factor, before = find_factor(name, X, source, target, min(SCALE_RUNS, runs))
        factors[name] = {"factor": factor, "plain_over_theirs_unscaled": before}
        for kernel in KERNELS:
            rows = factor * X if kernel == "RBF" else X
            for n in STEPS:
                start = time.perf_counter()
                # The margins of the Gaussian kernel are wide: half of the runs will do.
                ours = measure(name, kernel, n, rows, source, max(2, runs // 2) if kernel == "RBF" else runs)
                cell = Cell(name, kernel, n, X.shape[1], targets[name, kernel, n], ours)
                cells[name, kernel, n] = cell
                write(options.json, factors, cells)
                print(
                    f"  {name}, {kernel}, n={n}: {cell.error:.3g} ({cell.best}), theirs {cell.theirs['B']:.3g}, "
                    f"{time.perf_counter() - start:.0f} s",
                    file=sys.stderr,
                )
    ordered = [(name, kernel, n) for name in SOURCES for kernel in KERNELS for n in STEPS]
    return factors, {key: cells[key] for key in ordered if key in cells}


def table(cells: dict[Key, Cell]) -> str:
    """Return their errors and our best, a line a cell."""
    header = (
        "cell",
        *THEIRS,
        PLAIN,
        REPLICA,
        "ours",
        "+-",
        "/ B",
        "default",
        "best map, and whether below all of theirs",
    )
    rows = []
    for cell in cells.values():
        below = "" if cell.error < min(cell.theirs.values()) else "; NOT BELOW ALL"
        below = "; ABOVE B" if cell.error > cell.theirs["B"] else below
        rows.append(
            (
                f"{cell.dataset}, {cell.kernel}, n={cell.n}",
                *(f"{cell.theirs[name]:.3g}" if name in cell.theirs else "-" for name in THEIRS),
                *(f"{cell.ours[name]['mean']:.3g}" if name in cell.ours else "-" for name in (PLAIN, REPLICA)),
                f"{cell.error:.3g}",
                f"{cell.ours[cell.best]['standard_error']:.1g}",
                f"{cell.error / cell.theirs['B']:.3f}",
                f"{cell.default_error:.3g}",
                f"{cell.best}{below}",
            )
        )
    return format_table(header, rows)


def summary(factors: dict[str, dict[str, float]], cells: dict[Key, Cell]) -> str:
    """Return the factors and the verdicts."""
    lines = [
        f"{name}: rows times {found['factor']:.3f}; without it plain Fourier features have "
        f"{found['plain_over_theirs_unscaled']:.3f} of the published error at n={STEPS[-1]}"
        for name, found in factors.items()
    ]
    total = len(SOURCES) * len(KERNELS) * len(STEPS)
    found = list(cells.values())
    for title, error in (("best map", lambda c: c.error), ("default map", lambda c: c.default_error)):
        at_b = sum(error(cell) <= cell.theirs["B"] for cell in found)
        below = sum(error(cell) < min(cell.theirs.values()) for cell in found)
        lines.append(f"{title}: at or below their B in {at_b} of {len(found)} cells, below all of theirs in {below}")
        if title == "best map" and len(found) == total:
            lines.append(f"  required {total}: {'met' if at_b == total else 'NOT MET'}")
            lines.append(f"  required {REQUIRED_BELOW_ALL}: {'met' if below >= REQUIRED_BELOW_ALL else 'NOT MET'}")
    for name, target in HALF_TARGETS.items():
        cell = cells.get((name, "Arccos 1", STEPS[-1]))
        if cell is not None and HALF in cell.ours:
            error = cell.ours[HALF]["mean"]
            verdict = "met" if error <= target else "NOT MET"
            lines.append(f"{name}, Arccos 1, n={STEPS[-1]}, {HALF}: {error:.3g}, required {target:.3g}: {verdict}")
    return "\n".join(lines)


def panels(cells: dict[Key, Cell]) -> dict[tuple[str, str], plots.Panel]:
    """Return the lines of each panel of the figure: theirs, all of ours, our best."""
    found = {}
    for name in SOURCES:
        for kernel in KERNELS:
            mine = [cells[name, kernel, n] for n in STEPS if (name, kernel, n) in cells]
            if not mine:
                continue
            theirs = {
                method: [(cell.n, cell.theirs[method]) for cell in mine]
                for method in THEIRS
                if method in mine[0].theirs
            }
            titles = {title for cell in mine for title in cell.ours if title not in ASIDE}
            ours = {
                title: [(cell.n, cell.ours[title]["mean"]) for cell in mine if title in cell.ours]
                for title in sorted(titles)
            }
            found[kernel, name] = plots.Panel(theirs, ours, [(cell.n, cell.error) for cell in mine])
    return found


def main() -> None:
    """Measure, print, write, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--targets", type=Path, required=True)
    parser.add_argument("--runs", type=int, help="runs a cell (default: 6 to 100); half for RBF")
    parser.add_argument("--datasets", nargs="*", choices=SOURCES, default=list(SOURCES))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    factors, cells = run(options)
    print(f"{table(cells)}\n\n{summary(factors, cells)}")
    if options.plot and cells:
        plots.grid(panels(cells), "B", "relative error |K - K^| / |K|", options.plot)


if __name__ == "__main__":
    main()
