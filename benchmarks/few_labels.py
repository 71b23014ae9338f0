"""Few labels, many rows: accuracy beside Poisson learning on one graph, rows outside the graph, time and memory.

    python benchmarks/few_labels.py --data DIR [--parts mnist outside joined sensitivity ...] [--draws 100]

DIR holds mnist.npz, and for `sensitivity` letter.npz, adult.npz, covtype.npz and usps.npz. Every setting of ours is
selected by the labels of a draw.

mnist
    MNIST, all 70,000 rows on 50 principal components, one graph of ten neighbors for all methods; 1, 2, 3 and 5 labels
    per class, drawn `--draws` times: `FewLabelClassifier` without and with the sizes of the classes, beside Laplace
    learning, Poisson learning and PoissonMBO of GraphLearning (PyPI: graphlearning) if it can be imported. Accuracy on
    the unlabeled rows. PoissonMBO takes half a minute per draw; `--slow-draws` limits it and ours with class sizes.
outside
    The same with the graph of the first 60,000 rows: accuracy on their unlabeled rows, and on the 10,000 others.
joined
    10,000 labels of MNIST's 60,000 training rows, as in Table 1 of Ionescu et al. (2017), on the 50 first principal
    components of these rows: `FewLabelClassifier` with
    landmarks (`--landmarks`) beside 400 eigenvectors, and the same landmarks alone: the lower error of
    `KernelRidgeClassifier` and of `FewLabelClassifier` with all weight on the landmarks. Errors in the graph and on the
    10,000 test rows, for `--splits` choices of the labels. The map and the graph are computed once, and all settings
    are selected by the labels of a split.
sensitivity
    Errors by the numbers of neighbors and eigenvectors on data sets on which no setting was chosen, with five labels
    per class: 2500 rows each of letter, adult, covtype and MNIST's test file, scikit-learn's digits and two moons, and
    USPS for comparison. Beside them the numbers of least left-out loss, and the best ones in hindsight.
eigenvectors
    400 eigenvectors of the graph of 60,000 rows: processor time beside SciPy's eigsh on one thread.
million
    Generated rows of 20 features near curves of ten classes, 1000 labels: time and memory of a fit by the number of
    rows (`--rows`), each in a new process.
"""

from __future__ import annotations

import importlib.util
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from harness import Check, Report, format_table, parser_for
from sklearn.datasets import load_digits, make_moons

from mercer import FewLabelClassifier, Gaussian, KernelRidgeClassifier, NeighborGraph, Nystroem
from mercer.engines import Progress
from mercer.graphs.basis import smoothest_eigenvectors

PARTS = ("mnist", "outside", "joined", "sensitivity", "eigenvectors", "million")
RATES = (1, 2, 3, 5)
COMPONENTS = 300
PRINCIPAL = 50
KEPT_OUT = 10_000
JOINED_LABELS, JOINED_COMPONENTS = 10_000, 400
SENSITIVITY_ROWS, SENSITIVITY_LABELS = 2500, 5
NEIGHBORS, COMPONENTS_TRIED = (5, 7, 10, 15, 20), (50, 150, 300)
# Lengthscale relative to the median distance, as `ionescu.py` selects it on labeled rows.
JOINED_SCALE = 0.7


def mnist(data: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return all rows on their first principal components, and their labels."""
    with np.load(data / "mnist.npz") as file:
        X = np.concatenate([file["X_train"], file["X_test"]]).astype(np.float32) / 255
        y = np.concatenate([file["y_train"], file["y_test"]]).astype(int)
    vectors, mean = principal(X)
    return (X - mean) @ vectors, y


def principal(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the directions (d, 50) of the first principal components, and the mean."""
    mean = X.mean(axis=0)
    centered = X - mean
    _, vectors = np.linalg.eigh((centered.T @ centered).astype(np.float64))
    return np.ascontiguousarray(vectors[:, ::-1][:, :PRINCIPAL], dtype=np.float32), mean


def draw(y: np.ndarray, rate: int, seed: int) -> np.ndarray:
    """Return rows to label, so many of each class."""
    rng = np.random.default_rng(1000 * rate + seed)
    return np.concatenate([rng.choice(np.flatnonzero(y == c), rate, replace=False) for c in np.unique(y)])


def labels_of(y: np.ndarray, some: np.ndarray) -> np.ndarray:
    """Return the labels of some rows, and -1 elsewhere."""
    out = np.full(len(y), -1)
    out[some] = y[some]
    return out


def weights_of(model: FewLabelClassifier) -> Any:
    """Return the weights of the edges of the graph of a fitted model."""
    laplacian = model._basis()._laplacian
    assert laplacian is not None
    root = sp.diags_array(np.sqrt(laplacian.degree))
    W = (root @ (sp.eye_array(laplacian.n_nodes) - laplacian.matrix) @ root).tocsr()
    W.setdiag(0.0)
    W.eliminate_zeros()
    return sp.csr_matrix(W)


def fitted(X: np.ndarray, y: np.ndarray) -> FewLabelClassifier:
    """Return a model whose graph is built, on the labels of one draw."""
    graph = NeighborGraph(10, "self_tuned")
    model = FewLabelClassifier(graph, COMPONENTS, random_state=0, n_jobs=1, scale_columns=False)
    return model.fit(X, labels_of(y, draw(y, 1, 0)))


def peers_on(W: Any, prior: np.ndarray) -> dict[str, Any]:
    """Return the methods of GraphLearning on a graph, or none if the package is not installed."""
    if importlib.util.find_spec("graphlearning") is None:
        return {}
    import graphlearning as gl

    graph = gl.graph(W)
    return {
        "Laplace": lambda: gl.ssl.laplace(graph),
        "Poisson": lambda: gl.ssl.poisson(graph),
        "PoissonMBO, sizes": lambda: gl.ssl.poisson_mbo(graph, prior),
    }


def run_mnist(X: np.ndarray, y: np.ndarray, draws: int, slow: int, rates: tuple[int, ...], report: Report) -> None:
    """Compare methods on one graph."""
    start = time.process_time()
    model = fitted(X, y)
    print(f"graph and eigenvectors: {time.process_time() - start:.0f} s of processor time", flush=True)
    sizes = np.bincount(y) / len(y)
    peers = peers_on(weights_of(model), sizes)
    table = []
    for rate in rates:
        found: dict[str, list[float]] = {}
        for seed in range(draws):
            some = draw(y, rate, seed)
            rest = np.setdiff1d(np.arange(len(y)), some)

            def record(name: str, labels: np.ndarray, rest: np.ndarray = rest, found: dict = found) -> None:
                found.setdefault(name, []).append(100 * float(np.mean(labels[rest] == y[rest])))

            record("ours", model.set_params(class_prior=None).relabel(labels_of(y, some)).transduction_)
            if seed < slow:
                record("ours, sizes", model.set_params(class_prior=sizes).relabel(labels_of(y, some)).transduction_)
            for name, make in peers.items():
                if "sizes" not in name or seed < slow:
                    record(name, make().fit_predict(some, y[some]))
            print(rate, seed, {name: round(values[-1], 2) for name, values in found.items()}, flush=True)
        report.results[f"mnist {rate}"] = found
        for name, values in found.items():
            error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
            table.append((str(rate), name, f"{np.mean(values):.2f}", f"{error:.2f}", str(len(values))))
        for ours, other in (("ours", "Poisson"), ("ours, sizes", "PoissonMBO, sizes")):
            if other in found:
                gaps = np.array(found[ours]) - np.array(found[other])
                error = float(gaps.std(ddof=1) / np.sqrt(len(gaps))) if len(gaps) > 1 else 0.0
                name = f"{rate} labels per class: {ours} minus {other} plus a standard error"
                report.checks.append(Check(name, float(gaps.mean()) + error, at_least=0.0))
    print(format_table(("labels per class", "method", "accuracy, %", "standard error", "draws"), table))


def run_outside(X: np.ndarray, y: np.ndarray, draws: int, slow: int, rates: tuple[int, ...], report: Report) -> None:
    """Compare rows in the graph with rows outside."""
    inside = slice(0, len(y) - KEPT_OUT)
    model = fitted(X[inside], y[inside])
    sizes = np.bincount(y[inside]) / len(y[inside])
    for rate in rates:
        gaps = []
        for seed in range(draws):
            some = draw(y[inside], rate, seed)
            rest = np.setdiff1d(np.arange(len(y) - KEPT_OUT), some)
            for prior in (None, sizes) if seed < slow else (None,):
                model.set_params(class_prior=prior).relabel(labels_of(y[inside], some))
                within = 100 * float(np.mean(model.transduction_[rest] == y[inside][rest]))
                outside = 100 * model.score(X[len(y) - KEPT_OUT :], y[len(y) - KEPT_OUT :])
                gaps.append((within, outside))
                print(rate, seed, prior is not None, round(within, 2), round(outside, 2), flush=True)
        report.results[f"outside {rate}"] = gaps
        mean = np.mean(gaps, axis=0)
        report.checks.append(Check(f"{rate} labels per class: inside minus outside", mean[0] - mean[1], at_most=1.0))


def run_joined(data: Path, splits: int, landmarks: int, report: Report) -> None:
    """Compare landmarks joined with a graph with the same landmarks alone."""
    with np.load(data / "mnist.npz") as file:
        X, X_new = (file[name].astype(np.float32) / 255 for name in ("X_train", "X_test"))
        y, y_new = (file[name].astype(int) for name in ("y_train", "y_test"))
    vectors, mean = principal(X)
    X, X_new = (X - mean) @ vectors, (X_new - mean) @ vectors
    sample = X[np.sort(np.random.default_rng(0).permutation(len(X))[:1000])]
    kernel = Gaussian(JOINED_SCALE * float(Gaussian("median").resolve(sample).lengthscale))
    feature_map = Nystroem(kernel, landmarks, landmarks="uniform", random_state=0, n_jobs=1)
    model = FewLabelClassifier(
        NeighborGraph(10, "self_tuned"),
        JOINED_COMPONENTS,
        feature_map=feature_map,
        scale_columns=False,
        random_state=0,
        n_jobs=1,
    )
    found = []
    for split in range(splits):
        labeled = np.sort(np.random.default_rng([5, split]).choice(len(y), JOINED_LABELS, replace=False))
        rest = np.setdiff1d(np.arange(len(y)), labeled)
        known = labels_of(y, labeled)
        start = time.process_time()
        model = model.relabel(known) if split else model.fit(X, known)
        ours = [float(np.mean(model.transduction_[rest] != y[rest])), 1 - model.score(X_new, y_new)]
        seconds = time.process_time() - start
        alone = KernelRidgeClassifier(feature_map, alpha="loo", unlabeled=-1, n_jobs=1).fit(X, known)
        plain = [1 - alone.score(X[rest], y[rest]), 1 - alone.score(X_new, y_new)]
        setting = model.selected_.setting
        model.set_params(balance=0.0).relabel(known)  # the map alone with our selection: the better of both counts
        plain[0] = min(plain[0], float(np.mean(model.transduction_[rest] != y[rest])))
        plain[1] = min(plain[1], 1 - model.score(X_new, y_new))
        model.set_params(balance="loo")
        found.append((ours, plain))
        print(
            f"split {split}: in the graph {100 * ours[0]:.2f} %, alone {100 * plain[0]:.2f} %; new rows "
            f"{100 * ours[1]:.2f} %, alone {100 * plain[1]:.2f} %; {setting}; {seconds:.0f} s",
            flush=True,
        )
    report.results["joined"] = found
    ratios = np.array([[ours[i] / plain[i] for i in (0, 1)] for ours, plain in found])
    for name, values, target in zip(("in the graph", "new rows"), ratios.T, (0.75, 0.80), strict=True):
        error = f" (standard error {values.std(ddof=1) / np.sqrt(splits):.3f})" if splits > 1 else ""
        print(f"joined, {name}: error over that of the map alone {values.mean():.3f}{error}", flush=True)
        report.checks.append(Check(f"joined, {name}: error / map alone", float(values.mean()), at_most=target))


def small_sets(data: Path) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield names, rows and labels."""
    for name, rows, labels in (
        ("letter", "X_train", "y_train"),
        ("adult", "X_train", "y_train"),
        ("covtype", "X", "y"),
        ("mnist", "X_test", "y_test"),
        ("usps", "X_train", "y_train"),
    ):
        with np.load(data / f"{name}.npz") as file:
            X, y = file[rows], file[labels].astype(int)
        some = np.random.default_rng(4).permutation(len(y))[:SENSITIVITY_ROWS]
        yield name, X[some].astype(np.float32), y[some]
    X, y = load_digits(return_X_y=True)
    yield "digits", X.astype(np.float32), y
    X, y = make_moons(1500, noise=0.15, random_state=0)
    yield "two moons", X.astype(np.float32), y


def run_sensitivity(data: Path, draws: int, report: Report) -> None:
    """Compare numbers of neighbors and eigenvectors."""
    table = []
    for name, X, y in small_sets(data):
        classes, counts = np.unique(y, return_counts=True)
        few = np.isin(y, classes[counts < 3 * SENSITIVITY_LABELS])  # hardly any row would remain without a label
        X, y = X[~few], y[~few]
        drawn = [labels_of(y, draw(y, SENSITIVITY_LABELS, seed)) for seed in range(draws)]
        errors, losses = {}, {}
        for setting in product(NEIGHBORS, COMPONENTS_TRIED):
            model = FewLabelClassifier(NeighborGraph(setting[0]), setting[1], random_state=0, n_jobs=1).fit(X, drawn[0])
            found = []
            for known in drawn:
                model.relabel(known)
                rest = known < 0
                found.append((100 * float(np.mean(model.transduction_[rest] != y[rest])), model.left_out_loss_))
            errors[setting], losses[setting] = np.array(found).T
        by_labels = [min(losses, key=lambda setting, i=i: losses[setting][i]) for i in range(draws)]
        chosen = np.array([errors[setting][i] for i, setting in enumerate(by_labels)])
        default = errors[10, 300]
        hindsight = min(errors, key=lambda setting: errors[setting].mean())
        gap = chosen - default
        row = (
            name,
            *(f"{np.mean([errors[k, c].mean() for c in COMPONENTS_TRIED]):.1f}" for k in NEIGHBORS),
            *(f"{np.mean([errors[k, c].mean() for k in NEIGHBORS]):.1f}" for c in COMPONENTS_TRIED),
            f"{default.mean():.1f}",
            f"{chosen.mean():.1f} ({gap.mean():+.1f}, {gap.std(ddof=1) / np.sqrt(draws):.1f})",
            f"{errors[hindsight].mean():.1f} {hindsight}",
        )
        print(*row, sep="  ", flush=True)
        table.append(row)
        report.results[f"sensitivity {name}"] = {str(key): values.tolist() for key, values in errors.items()}
    heads = (*(f"{k} neighbors" for k in NEIGHBORS), *(f"{c} vectors" for c in COMPONENTS_TRIED))
    print(format_table(("data", *heads, "10, 300", "by labels (gap, s.e.)", "hindsight"), table))


def run_eigenvectors(X: np.ndarray, report: Report) -> None:
    """Compare processor times of eigenvectors."""
    from scipy.sparse.linalg import eigsh

    laplacian = NeighborGraph(10).laplacian(X[:60_000])
    start = time.process_time()
    found = smoothest_eigenvectors(laplacian, 400, n_jobs=1)
    ours = time.process_time() - start
    start = time.process_time()
    values, _ = eigsh(sp.eye_array(laplacian.n_nodes) - laplacian.matrix, 400, which="LA")
    theirs = time.process_time() - start
    gap = float(np.abs(np.sort(1 - values) - found.values).max())
    report.results["eigenvectors"] = {"ours": ours, "eigsh": theirs, "largest gap of eigenvalues": gap}
    report.checks.append(Check("eigenvectors: processor time over eigsh", ours / theirs, at_most=1 / 3))
    print(f"400 eigenvectors: {ours:.0f} s, eigsh {theirs:.0f} s; gap of eigenvalues {gap:.2g}", flush=True)


def generated(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return rows near ten closed curves in 20 dimensions, and the number of their curve."""
    rng = np.random.default_rng(seed)
    y, t = rng.integers(0, 10, n), rng.uniform(0, 2 * np.pi, n)
    frames = np.random.default_rng(7).normal(size=(10, 4, 20)).astype(np.float32)
    curve = np.column_stack([np.cos(t), np.sin(t), np.cos(2 * t), np.sin(2 * t)]).astype(np.float32)
    X = 0.15 * rng.standard_normal((n, 20), dtype=np.float32)
    for label in range(10):
        rows = y == label
        X[rows] += curve[rows] @ frames[label]
    return X, y


def fit_generated(n: int) -> None:
    """Fit rows in this process, and print time, memory and accuracy."""
    X, y = generated(n)
    start, processor = time.perf_counter(), time.process_time()
    stages: dict[str, float] = {}

    def enter(progress: Progress) -> None:
        stages.setdefault(progress.stage, time.process_time() - processor)

    some = np.random.default_rng(1).choice(n, 1000, replace=False)
    model = FewLabelClassifier(NeighborGraph(10), 128, random_state=0, progress=enter).fit(X, labels_of(y, some))
    result = {
        "rows": n,
        "seconds": time.perf_counter() - start,
        "processor": time.process_time() - processor,
        "begin of stages, s of processor time": {name: round(when, 1) for name, when in stages.items()},
        "gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "accuracy": float(np.mean(model.transduction_ == y)),
    }
    print(json.dumps(result))


def run_million(rows: list[int], report: Report) -> None:
    """Measure fits by the number of rows."""
    found = []
    for n in rows:
        done = subprocess.run([sys.executable, __file__, "--fit", str(n)], capture_output=True, text=True, check=True)
        found.append(json.loads(done.stdout.splitlines()[-1]))
        print(found[-1], flush=True)
    report.results["million"] = found
    last = found[-1]
    if last["rows"] >= 10**6:
        report.checks.append(Check("a million rows: minutes", last["seconds"] / 60, at_most=10.0))
        report.checks.append(Check("a million rows: GiB", last["gib"], at_most=4.0))
    if len(found) > 1:
        exponent = np.log(last["processor"] / found[0]["processor"]) / np.log(last["rows"] / found[0]["rows"])
        report.checks.append(Check("exponent of processor time against rows", float(exponent), at_most=1.15))


def main() -> None:
    """Run the benchmark."""
    parser = parser_for(__doc__.splitlines()[0], 1, 1)
    parser.add_argument("--data", type=Path, help="directory of mnist.npz")
    parser.add_argument("--parts", nargs="+", default=list(PARTS))
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--slow-draws", type=int, default=100)
    parser.add_argument("--rates", type=int, nargs="+", default=list(RATES))
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--landmarks", type=int, default=3000)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 300_000, 1_000_000])
    parser.add_argument("--fit", type=int, help="fit so many generated rows in this process, and print a record")
    options = parser.parse_args()
    if options.fit is not None:
        fit_generated(options.fit)
        return
    draws = 3 if options.quick else options.draws
    slow, rates = min(draws, options.slow_draws), tuple(options.rates)
    report = Report("few_labels", {"parts": options.parts, "draws": draws, "slow draws": slow, "rates": rates})
    report.judged = not options.quick and draws == slow == 100
    report.begin()
    if set(options.parts) & {"mnist", "outside", "eigenvectors"}:
        X, y = mnist(options.data)
    if "mnist" in options.parts:
        run_mnist(X, y, draws, slow, rates, report)
    if "outside" in options.parts:
        run_outside(X, y, draws, slow, rates, report)
    if "joined" in options.parts:
        run_joined(options.data, 1 if options.quick else options.splits, options.landmarks, report)
    if "sensitivity" in options.parts:
        run_sensitivity(options.data, draws, report)
    if "eigenvectors" in options.parts:
        run_eigenvectors(X, report)
    if "million" in options.parts:
        run_million(options.rows, report)
    report.finish(options.output)


if __name__ == "__main__":
    main()
