"""Semi-supervised learning with deformed features: Table 1 of Ionescu, Popa and Sminchisescu (2017).

    python benchmarks/ionescu.py --data DIR [--only usps,usps-test,g50c,text,mnist,mnist-small] [--map nystroem]

Errors of ridge classification on the labeled rows with plain and with deformed features (Fourier, unless --map says
otherwise; on MNIST by landmarks, since there a Fourier map loses most of its gain on new rows), in the graph
(transductive) and on new rows, beside scikit-learn's LabelSpreading and SelfTrainingClassifier. All parameters of all
methods are chosen on rows or labels that no reported error is measured on, each method from a grid of its own: the
lengthscale and the penalty of ridge for both maps, and for the deformed one the neighbors, the power and the weight
of the roughness, with maps as wide as the paper's. The grid of USPS is the widest, since its errors have targets on few
labels; the grid of large data is small. Penalties are in units of the mean of k(x, x), but for large data in absolute
ones, where the deformed kernel is not needed to choose them.

Few labels: `FewLabelClassifier`, the smoothest eigenvectors of the graph. The neighbors, and for g50c the components,
are chosen like the parameters of the other methods; all else is selected by the labels of each trial. On MNIST the
eigenvectors are joined with the landmarks of the plain map.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import plots
from harness import Check, Report, format_table, parser_for
from ionescu_data import TASKS, Task, Trial
from scipy.linalg import cho_factor, cho_solve
from sklearn.base import clone
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

from mercer import (
    Deformed,
    FewLabelClassifier,
    Gaussian,
    KernelRidgeClassifier,
    NeighborGraph,
    Nystroem,
    RandomFourier,
)
from mercer.graphs.laplacian import GraphLaplacian
from mercer.maps.base import BaseMap
from mercer.reproduce.papers.ionescu import median_distance

COLUMNS = {"usps": 4000, "usps-test": 4000, "g50c": 4000, "text": 4000, "mnist-small": 4000, "mnist": 10_000}
MAPS = {"mnist": "nystroem"}
# With more rows than this, parameters are chosen with features, not with kernels of all pairs of rows.
DUAL_ROWS, TUNING_COLUMNS = 4000, 10_000
TUNING_SEED = 100
RIDGES = tuple(np.geomspace(1e-4, 10.0, 6).tolist())  # of the mean of k(x, x)
LARGE_RIDGES = (1e-3, 1e-2, 1e-1)
ROOM = 6 * 2**30  # bytes of features that may be kept
BLOCK_ROWS = 5000
SPREADING = tuple(itertools.product((5, 7, 10, 20), (0.05, 0.2, 0.5)))
LARGE_SPREADING = ((7, 0.2),)  # one is what there is time for
THRESHOLDS = (0.6, 0.75, 0.9)
# Error of the deformed map over that of the plain one: in the graph, and on new rows.
# Candidates of `few labels` that its labels do not decide: the graph.
FEW_NEIGHBORS = {"g50c": (20, 50, 100)}
FEW_COMPONENTS = {"g50c": (10, 50)}
FEW_TARGETS = {"usps": (0.53, 0.60), "mnist": (0.75, 0.80)}
TARGETS = {"usps": (0.62, 0.66), "usps-test": (0.62, 0.66), "mnist": (None, 0.80)}
# What the paper reports, per cent: plain and deformed, support vectors and ridge.
PAPER = {
    "usps": "23.91 -> 13.42 (SVM), 24.52 -> 13.46 (ridge); new rows 24.75 -> 15.60, 25.82 -> 15.52",
    "text": "24.32 -> 9.96 (SVM), 24.28 -> 10.32 (ridge)",
    "mnist": "new rows 3.89 -> 2.93 (SVM), 8.78 -> 3.13 (ridge)",
}


@dataclass(frozen=True)
class Grid:
    """What is tried: scales in units of the median distance, neighbors, powers of the Laplacian and weights."""

    scales: tuple[float, ...] = (0.5, 0.7)
    neighbors: tuple[int, ...] = (4, 6)
    powers: tuple[int, ...] = (1, 2, 3)
    alphas: tuple[float, ...] = (1.0, 1e1, 1e2, 1e3, 1e4)


GRID = Grid()
LARGE_GRID = Grid((0.5, 0.7), (10,), (2,), (1.0, 10.0, 30.0, 100.0, 300.0))
WIDE_GRID = Grid((0.35, 0.5, 0.7, 1.0), (4, 6, 8, 10), (1, 2, 3, 4, 5), (1e1, 1e2, 1e3, 1e4, 1e5, 1e6))
# Two clouds in 50 columns, whose nearest neighbors are hardly nearer than others.
CLOUDS_GRID = Grid((0.7, 1.5), (6, 20, 50), (1, 2, 3, 5), (1e-2, 1.0, 1e2, 1e4, 1e6))
GRIDS = {"usps": WIDE_GRID, "usps-test": WIDE_GRID, "g50c": CLOUDS_GRID, "mnist": LARGE_GRID}

Errors = tuple[float | None, float | None]
Settings = dict[tuple[Any, ...], float]
Laplacians = dict[int, GraphLaplacian]  # by the number of neighbors
MakeMap = Callable[[Trial, float, int, int], BaseMap]


class Ridge:
    """Ridge regression on targets +-1 around their means, for many penalties, in units of the mean of k(x, x)."""

    def __init__(self, y: np.ndarray) -> None:
        self.classes, codes = np.unique(y, return_inverse=True)
        targets = np.where(codes[:, None] == np.arange(len(self.classes)), 1.0, -1.0)
        self.mean = targets.mean(axis=0)
        self.targets = targets - self.mean

    def on_kernel(self, K: np.ndarray, labeled: np.ndarray) -> Iterator[tuple[float, np.ndarray]]:
        """Yield penalties and labels of all rows, from their kernel values with the labeled ones."""
        values, vectors = np.linalg.eigh(K[labeled])
        values, unit = np.maximum(values, 0.0), np.trace(K[labeled]) / len(labeled)
        right = vectors.T @ self.targets
        for ridge in RIDGES:
            yield ridge, self.labels(K @ (vectors @ (right / (values + ridge * unit)[:, None])))

    def on_features(self, Z: np.ndarray, ridge: float, unit: float | None) -> np.ndarray:
        """Return coefficients of features, from those of the labeled rows."""
        Z = Z.astype(np.float64)
        unit = np.square(Z).sum() / len(Z) if unit is None else unit
        dual = len(Z) <= Z.shape[1]
        moments = Z @ Z.T if dual else Z.T @ Z
        solved = self.solve(moments, ridge * unit, self.targets if dual else Z.T @ self.targets)
        return Z.T @ solved if dual else solved

    @staticmethod
    def solve(A: np.ndarray, ridge: float, right: np.ndarray) -> np.ndarray:
        """Return (A + ridge)^-1 times a right side; A is overwritten."""
        A[np.diag_indices_from(A)] += ridge
        return cho_solve(cho_factor(A, overwrite_a=True, check_finite=False), right)

    def labels(self, values: np.ndarray) -> np.ndarray:
        """Return the label of the largest value of each row."""
        return self.classes[(values + self.mean).argmax(axis=1)]


def fourier(trial: Trial, scale: float, columns: int, seed: int = 0) -> BaseMap:
    """Return the fitted plain map of random frequencies."""
    return RandomFourier(Gaussian(scale * median_distance(trial.X)), columns, random_state=seed).fit(trial.X[:1])


def landmarks(trial: Trial, scale: float, columns: int, seed: int = 0) -> BaseMap:
    """Return the fitted plain map of rows drawn from the graph."""
    kernel = Gaussian(scale * median_distance(trial.X))
    return Nystroem(kernel, min(columns, trial.X.shape[0]), landmarks="uniform", random_state=seed).fit(trial.X)


KINDS: dict[str, MakeMap] = {"fourier": fourier, "nystroem": landmarks}


def best(found: Iterable[Settings]) -> tuple[tuple[Any, ...], float]:
    """Return the setting of least mean error over trials."""
    found = list(found)
    means = {setting: float(np.mean([errors[setting] for errors in found])) for setting in found[0]}
    setting = min(means, key=means.__getitem__)
    return setting, means[setting]


def tune(trial: Trial, grid: Grid, columns: int, laplacians: Laplacians, make: MakeMap) -> tuple[Settings, Settings]:
    """Return the errors of all settings (scale, ridge), and of all (scale, neighbors, power, alpha, ridge)."""
    if trial.X.shape[0] <= DUAL_ROWS:
        return tune_dual(trial, grid, columns, laplacians, make)
    return tune_wide(trial, grid, min(columns, TUNING_COLUMNS), laplacians, make)


def tune_dual(
    trial: Trial, grid: Grid, columns: int, laplacians: Laplacians, make: MakeMap
) -> tuple[Settings, Settings]:
    """Tune with the kernels of the maps that are reported; on rows of the graph and, if there are any, new ones."""
    plain, deformed = {}, {}
    model, labeled = Ridge(trial.y[trial.labeled]), trial.labeled
    for scale in grid.scales:
        feature_map = make(trial, scale, columns, TUNING_SEED)
        Phi = feature_map.transform(trial.X.astype(np.float64))
        K = Phi @ Phi.T
        beside = None if trial.X_new is None else feature_map.transform(trial.X_new.astype(np.float64)) @ Phi.T

        def errors(values: np.ndarray, smooth: np.ndarray, beside: Any = beside) -> Iterator[tuple[float, float]]:
            """Yield penalties and errors; new rows have k~(x, z) = k(x, z) - k_x' M k~(X, z)."""
            new = values[:0] if beside is None else beside[:, labeled] - beside @ smooth
            for ridge, labels in model.on_kernel(np.concatenate([values, new]), labeled):
                wrong = [labels[trial.judged] != trial.y[trial.judged]]
                wrong += [] if beside is None else [labels[len(values) :] != trial.y_new]
                yield ridge, float(np.mean([part.mean() for part in wrong]))

        for ridge, error in errors(K[:, labeled], np.zeros((len(K), len(labeled)))):
            plain[scale, ridge] = error
        for count, laplacian in laplacians.items():
            L, KM = laplacian.matrix, K
            for power in range(1, max(grid.powers) + 1):
                KM = (L @ KM.T).T
                for alpha in grid.alphas if power in grid.powers else ():
                    values = np.linalg.solve(np.eye(len(K)) + alpha * KM, K[:, labeled])
                    smooth = alpha * values
                    for _ in range(power):
                        smooth = L @ smooth
                    for ridge, error in errors(values, smooth):
                        deformed[scale, count, power, alpha, ridge] = error
    return plain, deformed


def tune_wide(
    trial: Trial, grid: Grid, columns: int, laplacians: Laplacians, make: MakeMap
) -> tuple[Settings, Settings]:
    """Tune with features: coefficients w of least |y - Z w|^2 + ridge w' (1 + alpha Phi' L^c Phi) w, on new rows."""
    plain, deformed = {}, {}
    model = Ridge(trial.y[trial.labeled])
    for scale in grid.scales:
        feature_map = make(trial, scale, columns, TUNING_SEED)
        Phi, new = feature_map.transform(trial.X), feature_map.transform(trial.X_new)
        Z = Phi[trial.labeled].astype(np.float64)
        gram, right = Z.T @ Z, Z.T @ model.targets

        def error(A: np.ndarray, ridge: float, new: np.ndarray = new, right: np.ndarray = right) -> float:
            labels = model.labels(new @ model.solve(A, ridge, right).astype(new.dtype))
            return float(np.mean(labels != trial.y_new))

        plain |= {(scale, ridge): error(gram.copy(), ridge) for ridge in LARGE_RIDGES}
        for (count, laplacian), power in itertools.product(laplacians.items(), grid.powers):
            root = laplacian.root(power).astype(Phi.dtype)
            image = root(Phi)
            rough = (image.T @ root.middle(image)).astype(np.float64)
            del image
            for alpha, ridge in itertools.product(grid.alphas, LARGE_RIDGES):
                deformed[scale, count, power, alpha, ridge] = error(gram + (ridge * alpha) * rough, ridge)
    return plain, deformed


def judge(trial: Trial, transform: Callable[[Any], np.ndarray], ridge: float, unit: float | None) -> Errors:
    """Return the errors in the graph and on new rows."""
    model = Ridge(trial.y[trial.labeled])
    coef = model.on_features(transform(trial.X[trial.labeled]), ridge, unit)

    def error(X: Any, y: np.ndarray) -> float:
        wrong = 0
        for start in range(0, len(y), BLOCK_ROWS):
            Z = transform(X[start : start + BLOCK_ROWS])
            wrong += np.sum(model.labels(Z @ coef.astype(Z.dtype)) != y[start : start + BLOCK_ROWS])
        return float(wrong / len(y))

    inside = error(trial.X[trial.judged], trial.y[trial.judged])
    return inside, None if trial.X_new is None else error(trial.X_new, trial.y_new)


def with_unknown(trial: Trial) -> np.ndarray:
    """Return labels as scikit-learn's semi-supervised methods take them: -1 where they are not known."""
    _, codes = np.unique(trial.y, return_inverse=True)
    known = np.full(len(codes), -1)
    known[trial.labeled] = codes[trial.labeled]
    return known


def codes_of(trial: Trial, y: np.ndarray) -> np.ndarray:
    """Return labels as numbers from zero."""
    return np.searchsorted(np.unique(trial.y), y)


def spread(trial: Trial, setting: tuple[int, float]) -> Errors:
    """Return the errors of label spreading on nearest neighbors."""
    count, alpha = setting
    model = LabelSpreading(kernel="knn", n_neighbors=count, alpha=alpha, max_iter=200, n_jobs=-1)
    X = trial.X.toarray() if hasattr(trial.X, "toarray") else trial.X
    model.fit(X, with_unknown(trial))
    guessed = model.transduction_[trial.judged]
    inside = float(np.mean(guessed != codes_of(trial, trial.y[trial.judged]))) if len(guessed) else None
    if trial.X_new is None:
        return inside, None
    return inside, float(np.mean(model.predict(trial.X_new) != codes_of(trial, trial.y_new)))


def self_train(trial: Trial, plain: tuple[float, float], threshold: float, columns: int) -> Errors:
    """Return the errors of self-training of ridge classification with the plain map."""
    scale, ridge = plain
    feature_map = RandomFourier(Gaussian(scale * median_distance(trial.X)), columns, random_state=0)
    base = KernelRidgeClassifier(feature_map, alpha=float(ridge))
    model = SelfTrainingClassifier(base, threshold=threshold).fit(trial.X, with_unknown(trial))
    guessed = model.predict(trial.X)[trial.judged]  # there may be none
    inside = float(np.mean(guessed != codes_of(trial, trial.y[trial.judged]))) if len(guessed) else None
    if trial.X_new is None:
        return inside, None
    return inside, float(np.mean(model.predict(trial.X_new) != codes_of(trial, trial.y_new)))


def few_labels(trial: Trial, setting: tuple[int, int], feature_map: BaseMap | None = None) -> Errors:
    """Return the errors of the smoothest functions of a graph, joined with a map if it is given.

    Strength, power, penalty and the weight of the parts are selected by the labels of the trial.
    """
    neighbors, components = setting
    known = with_unknown(trial)
    model = FewLabelClassifier(
        NeighborGraph(neighbors, "self_tuned"),
        components,
        feature_map=feature_map,
        scale_columns=False,
        random_state=0,
    ).fit(trial.X, known)
    guessed = model.transduction_[trial.judged]
    inside = float(np.mean(guessed != codes_of(trial, trial.y[trial.judged]))) if len(guessed) else None
    if trial.X_new is None:
        return inside, None
    return inside, float(np.mean(model.predict(trial.X_new) != codes_of(trial, trial.y_new)))


def graphs_of(trial: Trial, counts: Iterable[int]) -> Laplacians:
    """Return the Laplacian for each number of neighbors."""
    return {count: NeighborGraph(count).laplacian(trial.X) for count in counts}


def run(key: str, task: Task, columns: int, make: MakeMap, peers: bool) -> dict[str, Any]:
    """Tune all methods, then measure them on all trials."""
    start = time.perf_counter()
    graphs: dict[int, Laplacians] = {}  # folds of one split share their rows, and so their graph
    found = []
    grid = GRIDS.get(key, GRID)
    for trial in task.tuning:
        if id(trial.X) not in graphs:
            graphs[id(trial.X)] = graphs_of(trial, grid.neighbors)
        found.append(tune(trial, grid, columns, graphs[id(trial.X)], make))
    plain, plain_error = best(errors for errors, _ in found)
    deformed, deformed_error = best(errors for _, errors in found)
    settings: dict[str, Any] = {"plain": plain, "deformed": deformed}
    chosen = f"{key}: plain scale, ridge {plain} ({plain_error:.4f}); deformed {deformed} ({deformed_error:.4f})"
    print(f"{chosen}; {time.perf_counter() - start:.0f} s", flush=True)
    methods: dict[str, Callable[[Trial, int], Errors]] = {}
    scale, count, power, alpha, ridge = deformed
    large = task.trials[0].X.shape[0] > DUAL_ROWS
    unit = 1.0 if large else None

    def of_plain(trial: Trial, seed: int) -> Errors:
        return judge(trial, make(trial, plain[0], columns, seed).transform, plain[1], unit)

    methods["plain"] = of_plain

    def of_deformed(trial: Trial, seed: int) -> Errors:
        below = make(trial, scale, columns, seed)
        fitted = Deformed(below, NeighborGraph(count), strength=alpha, power=power, max_bytes=ROOM).fit(trial.X)
        return judge(trial, fitted.transform, ridge, unit)

    methods["deformed"] = of_deformed
    by_graph: tuple[int, int] = (10, 400)
    if not large:
        tried = list(itertools.product(FEW_NEIGHBORS.get(key, (4, 6, 10)), FEW_COMPONENTS.get(key, (300,))))
        by_graph, _ = best(
            {setting: float(np.mean([e for e in few_labels(trial, setting) if e is not None])) for setting in tried}
            for trial in task.tuning
        )
    settings["few labels"] = by_graph
    print(f"{key}: few labels: neighbors, components {by_graph}; {time.perf_counter() - start:.0f} s", flush=True)

    def of_few(trial: Trial, seed: int) -> Errors:
        return few_labels(trial, by_graph, clone(make(trial, plain[0], columns, seed)) if large else None)

    methods["few labels"] = of_few
    if peers:
        few = task.tuning[: 10 if key == "g50c" else 2]
        tried = LARGE_SPREADING if large else SPREADING
        where = int(large)  # new rows, where those in the graph are not judged
        spreading = tried[0]
        if len(tried) > 1:
            spreading, _ = best({setting: spread(trial, setting)[where] for setting in tried} for trial in few)
        threshold, _ = best({(t,): self_train(trial, plain, t, 1000)[where] for t in THRESHOLDS} for trial in few)
        settings |= {"spreading": spreading, "self-training": threshold}
        methods["LabelSpreading"] = lambda trial, _: spread(trial, spreading)
        wide = min(columns, 4000)
        methods["SelfTraining"] = lambda trial, _: self_train(trial, plain, threshold[0], wide)
    errors: dict[str, list[Errors]] = {name: [] for name in methods}
    for number, trial in enumerate(task.trials):
        for name, method in methods.items():
            errors[name].append(method(trial, number))
        print(f"  split {number}: " + ", ".join(f"{name} {values[-1]}" for name, values in errors.items()), flush=True)
    return {"how tuned": task.how, "settings": settings, "errors": errors}


def mean_and_deviation(values: list[float | None]) -> tuple[float, float] | None:
    """Return both in per cent, or None where nothing was measured."""
    if any(value is None for value in values):
        return None
    return 100 * float(np.mean(values)), 100 * float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def add_task(report: Report, key: str, task: Task, found: dict[str, Any]) -> list[tuple[str, ...]]:
    """Put the figures of a task into the report and return rows of the table."""
    rows, means = [], {}
    for name, errors in found["errors"].items():
        both = [mean_and_deviation([pair[where] for pair in errors]) for where in (0, 1)]
        means[name] = both
        cells = ["-" if value is None else f"{value[0]:.2f} ({value[1]:.2f})" for value in both]
        rows.append((task.name, name, *cells, str(len(errors))))
    report.results[key] = found | {"means": means}
    targets = TARGETS.get(key, (None, None))
    for where, (place, target) in enumerate(zip(("in the graph", "new rows"), targets, strict=True)):
        plain, deformed = means["plain"][where], means["deformed"][where]
        value = None if plain is None or deformed is None else deformed[0] / plain[0]
        if value is not None or target is not None:
            report.checks.append(Check(f"{task.name}, {place}: deformed / plain", value, at_most=target))
    wanted = FEW_TARGETS.get(key, (None, None))
    for where, (position, target) in enumerate(zip(("in the graph", "new rows"), wanted, strict=True)):
        plain, few = means["plain"][where], means["few labels"][where]
        if plain is not None and few is not None:
            name = f"{task.name}, {position}: few labels / plain"
            report.checks.append(Check(name, few[0] / plain[0], at_most=target))
    report.notes.append(f"{task.name}: tuned on {task.how}. Paper: {PAPER.get(key, 'not in its table')}.")
    return rows


def main() -> None:
    """Run the benchmark."""
    parser = parser_for(__doc__.splitlines()[0], 1, 1)
    parser.add_argument("--data", type=Path, required=True, help="directory of the npz files")
    parser.add_argument("--only", default="usps,g50c,text", help="tasks, with commas between them")
    parser.add_argument("--columns", type=int, help="width of the maps (default as in the paper)")
    parser.add_argument("--map", choices=tuple(KINDS), help="the map (default: fourier, on MNIST nystroem)")
    parser.add_argument("--splits", type=int, help="report so many splits only")
    parser.add_argument("--no-peers", action="store_true")
    options = parser.parse_args()
    keys = options.only.split(",")
    report = Report("ionescu", {"tasks": keys, "columns": options.columns or COLUMNS, "map": options.map})
    report.judged = not options.quick and options.splits is None
    report.begin()
    rows = []
    for key in keys:
        task = TASKS[key](options.data)
        trials = task.trials[: options.splits or (2 if options.quick else None)]
        tuning = task.tuning[: 2 if options.quick else None]
        task = Task(task.name, tuning, trials, task.how)
        columns = options.columns or (1000 if options.quick else COLUMNS[key])
        make = KINDS[options.map or MAPS.get(key, "fourier")]
        found = run(key, task, columns, make, not options.no_peers)
        rows += add_task(report, key, task, found)
    print("\n" + format_table(("data", "method", "error %, in the graph", "error %, new rows", "splits"), rows))
    stem = report.finish(options.output)
    panels = {
        f"{key}, {place}": {name: both[where] for name, both in found["means"].items()}
        for key, found in report.results.items()
        for where, place in enumerate(("in the graph", "new rows"))
        if found["means"]["plain"][where] is not None
    }
    plots.errors_by_method(panels, report.caption("error, %"), stem.with_suffix(".svg"))


if __name__ == "__main__":
    main()
