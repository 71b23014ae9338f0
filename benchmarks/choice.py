"""Errors and costs of the maps that `FeatureMap` chooses, compared with all candidates and with RBFSampler.

    python benchmarks/choice.py --data DIR [--parts PART ...] [--quick] [--output DIR]

DIR holds .npz files with arrays X and y, or X_train, y_train. Rows are standardized; at most 10,000 are passed to
fits, and errors are measured on 2000 others.

widths
    Ten data sets, eight kernels, 128, 512 and 2048 components: the true error of the map that is chosen, over the least
    true error of all candidates (with 2048 components, of those that were fitted with so many), and over that of
    independent features of the same kernel (scikit-learn's RBFSampler for Gaussian kernels, its PolynomialCountSketch
    for the polynomial kernel, independent features of ours otherwise).
tolerances
    RMSE of at most 0.1, 0.03, 0.01 and 0.003 for the Gaussian, Matern and Laplacian kernels: how often it holds on
    fresh rows where success is reported, and the cost of a row over that of the cheapest map of an exhaustive
    search over all candidates and numbers of components 8, 10, 13, ... up to --most
largest
    Largest error of at most 0.3, 0.1 and 0.03, Gaussian kernel, six data sets, several seeds with other rows to fit to
    and other fresh rows: how often it holds on 2000 fresh rows where success is reported.
limits
    Limits of 2 and 8 seconds and of 20 and 200 MB: time and memory that were used, over the limit.
downstream
    Test error of ridge regression or classification with ``alpha="loo"``, with the map that is chosen for a learner and
    with RBFSampler of the same number of components, and the ratio of the times. With --processor-time, times are
    processor seconds; set OMP_NUM_THREADS=1 then, since idle threads of BLAS count too.
exact
    Test error of exact kernel ridge models with the same kernel, over those with 512 and 2048 independent features:
    what maps could gain at most. The penalty is the best one on the test rows.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
from harness import Check, Report, parser_for, pick
from sklearn.kernel_approximation import PolynomialCountSketch, RBFSampler
from sklearn.linear_model import RidgeClassifierCV, RidgeCV
from sklearn.pipeline import make_pipeline

from mercer import (
    ArcCosine,
    ExponentialDotProduct,
    FeatureMap,
    Gaussian,
    KernelRidge,
    KernelRidgeClassifier,
    Laplacian,
    Matern,
    MercerWarning,
    Nystroem,
    Polynomial,
    RandomFourier,
    RandomMaclaurin,
    RandomNeurons,
)
from mercer.choice.candidates import candidates_for
from mercer.choice.choose import Request, choose_for_rows
from mercer.choice.rates import seconds_per_row
from mercer.features import parameter_bytes

NAMES = (
    "letter", "adult", "covtype", "usps", "mnist", "ccpp", "cal_housing", "spambase", "protein", "superconduct76",
)  # fmt: skip
QUICK_NAMES = ("letter", "ccpp")
WIDTHS, QUICK_WIDTHS = (128, 512, 2048), (128, 512)
TOLERANCES = (0.1, 0.03, 0.01, 0.003)
LARGEST_TOLERANCES = (0.3, 0.1, 0.03)
LARGEST_NAMES = ("letter", "adult", "cal_housing", "usps", "ccpp", "spambase")
PARTS = ("widths", "tolerances", "largest", "limits", "downstream", "exact")
FITTED, FRESH = 10_000, 2000
SEED = 0


def load(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return standardized rows in random order, and their targets; columns that do not vary are left out."""
    with np.load(path) as data:
        suffix = "_train" if "X_train" in data else ""
        X, y = data[f"X{suffix}"].astype(np.float64), data[f"y{suffix}"]
    order = np.random.default_rng(SEED).permutation(len(X))[: FITTED + FRESH]
    X, y = X[order], y[order]
    X = X[:, X.std(axis=0) > 0]
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def split(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return rows to fit to, and fresh rows to measure errors on."""
    n_fresh = min(FRESH, len(X) // 4)
    return X[n_fresh:], X[:n_fresh]


def median_distance(X: np.ndarray) -> float:
    """Return the median distance of pairs of rows."""
    kernel = Gaussian("median").resolve(X[:2000])
    return float(kernel.lengthscale)


def kernels_of(X: np.ndarray) -> dict[str, tuple[Any, bool, Callable[[int], Any]]]:
    """Return kernels by name, with whether rows are normalized, and a function from D to the independent features."""
    median = median_distance(X)
    d = X.shape[1]
    unit = {"degree": 3, "coef0": 1.0}

    def sampler(scale: float) -> Callable[[int], Any]:
        return lambda D: RBFSampler(gamma=0.5 / scale**2, n_components=D, random_state=SEED)

    def fourier(kernel: Any) -> Callable[[int], Any]:
        return lambda D: RandomFourier(kernel, D, form="phase", directions="iid", random_state=SEED)

    matern, laplacian = Matern(1.5, lengthscale=median), Laplacian(lengthscale=median)
    exponential = ExponentialDotProduct()
    return {
        "Gaussian, half": (Gaussian(median / 2), False, sampler(median / 2)),
        "Gaussian": (Gaussian(median), False, sampler(median)),
        "Gaussian, double": (Gaussian(2 * median), False, sampler(2 * median)),
        "Matern 3/2": (matern, False, fourier(matern)),
        "Laplacian": (laplacian, False, fourier(laplacian)),
        "arc-cosine 1": (
            ArcCosine(1),
            False,
            lambda D: RandomNeurons(ArcCosine(1), D, layout="relu", directions="iid", random_state=SEED),
        ),
        "polynomial 3": (
            Polynomial(3, coef0=1.0, scale=1 / d),
            False,
            lambda D: PolynomialCountSketch(gamma=1 / d, n_components=D, random_state=SEED, **unit),
        ),
        "exp, unit rows": (
            exponential,
            True,
            lambda D: RandomMaclaurin(exponential, D, plan="geometric", random_state=SEED),
        ),
    }


def true_error(transform: Callable[[np.ndarray], np.ndarray], exact: np.ndarray, X: np.ndarray) -> float:
    """Return the root mean squared error over all pairs of different rows."""
    Z = transform(X)
    squares = np.square(Z @ Z.T - exact)
    np.fill_diagonal(squares, 0.0)
    return float(np.sqrt(squares.sum() / (len(X) * (len(X) - 1))))


def floor(exact: np.ndarray) -> float:
    """Return the error that rounding alone explains; smaller ones are not distinguished."""
    return 1e-12 * float(np.abs(exact).max())


def quiet(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **kwargs)


def geometric_mean(values: Any) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.mean(np.log(values))))


# ---- widths -----------------------------------------------------------------------------------


def widths_part(report: Report, options: argparse.Namespace) -> None:
    """Compare the chosen map with all candidates and with independent features."""
    cells = []
    for name in options.names:
        X, _ = load(options.data / f"{name}.npz")
        for label, (kernel, normalized, independent) in kernels_of(X).items():
            rows = X / np.linalg.norm(X, axis=1, keepdims=True) if normalized else X
            fit, fresh = split(rows)
            exact = kernel(fresh)
            least = floor(exact)
            for D in options.widths:
                start = time.perf_counter()
                request = Request(n_components=D)
                choice = quiet(choose_for_rows, kernel, fit, None, request, n_rows=len(fit), seed=SEED)
                seconds = time.perf_counter() - start
                errors = {
                    t.name: max(true_error(t.feature_map.transform, exact, fresh), least)
                    for t in choice.trials
                    if t.feature_map is not None and t.n_components == D
                }
                for candidate in candidates_for(kernel, fit.shape[1]) if D <= options.all_up_to else ():
                    if candidate.name not in errors:  # left out by the choice, after a comparison with few components
                        other = candidate.at(D, SEED)
                        quiet(other.fit_sample, fit[: other.rows_wanted()])
                        errors[candidate.name] = max(true_error(other.apply, exact, fresh), least)
                peer = true_error(quiet(independent(D).fit, fit).transform, exact, fresh)
                cell = {
                    "data": name,
                    "kernel": label,
                    "n_components": D,
                    "chosen": choice.chosen.name,
                    "error": errors[choice.chosen.name],
                    "best": min(errors, key=errors.__getitem__),
                    "over best": errors[choice.chosen.name] / min(errors.values()),
                    "over independent": errors[choice.chosen.name] / max(peer, least),
                    "errors": errors,
                    "fits": {t.name: t.fit_seconds for t in choice.trials},
                    "seconds": seconds,
                }
                cells.append(cell)
                print(
                    f"{name:>15} {label:<17} {D:>5} {cell['chosen']:<36} {cell['error']:.2e}  over best "
                    f"{cell['over best']:.2f} ({cell['best']})  over independent {cell['over independent']:.2e}  "
                    f"{seconds:.1f} s",
                    flush=True,
                )
    report.results["widths"] = cells
    over_best = np.array([cell["over best"] for cell in cells])
    over_independent = np.array([cell["over independent"] for cell in cells])
    report.checks += [
        Check("cells within 1.3 times of the best candidate, %", 100 * float((over_best <= 1.3).mean()), at_least=90),
        Check("error over independent features, geometric mean", geometric_mean(over_independent), at_most=1 / 20),
        Check("error over independent features, largest", float(over_independent.max()), at_most=1.0),
    ]


# ---- tolerances -------------------------------------------------------------------------------


def cheapest_by_search(kernel: Any, fit: np.ndarray, fresh: np.ndarray, tol: float, most: int) -> float:
    """Return the least time of a row of all candidates and numbers of components with a true error of at most `tol`."""
    exact = kernel(fresh)
    best = np.inf
    for candidate in candidates_for(kernel, fit.shape[1]):
        D = 8.0
        while D <= most:
            feature_map = candidate.at(round(D), SEED + 1)
            try:
                feature_map.fit_sample(fit[: feature_map.rows_wanted()])
            except ValueError:
                break
            if true_error(feature_map.apply, exact, fresh) <= tol:
                best = min(best, seconds_per_row(feature_map, fit))
                break
            D *= 1.26
    return best


def tolerances_part(report: Report, options: argparse.Namespace) -> None:
    """Count how often tolerances hold on fresh rows, and compare costs with an exhaustive search."""
    rows_of_table, reported, held, costs = [], 0, 0, []
    for name in options.names:
        X, _ = load(options.data / f"{name}.npz")
        fit, fresh = split(X)
        for label in ("Gaussian", "Matern 3/2", "Laplacian"):
            kernel = kernels_of(X)[label][0]
            exact = kernel(fresh)
            for tol in TOLERANCES:
                for seed in range(options.seeds):
                    request = Request(tol=tol, n_components=options.most)
                    start = time.perf_counter()
                    choice = quiet(choose_for_rows, kernel, fit, None, request, n_rows=len(fit), seed=seed)
                    seconds = time.perf_counter() - start
                    error = true_error(choice.chosen.feature_map.transform, exact, fresh)
                    reported += choice.met
                    held += choice.met and error <= tol
                    ratio = None
                    if choice.met and seed == 0 and options.exhaustive:
                        ratio = choice.chosen.row_seconds / quiet(
                            cheapest_by_search,
                            kernel,
                            fit,
                            fresh,
                            tol,
                            min(options.most, choice.chosen.n_components * 4),
                        )
                        costs.append(ratio)
                    rows_of_table.append([name, label, tol, seed, choice.chosen.name, choice.chosen.n_components,
                                          error, choice.met, ratio, seconds])  # fmt: skip
                    print(*rows_of_table[-1], flush=True)
    report.results["tolerances"] = rows_of_table
    report.checks.append(Check("success reported, % of runs", 100 * reported / len(rows_of_table)))
    report.checks.append(Check("tolerance holds on fresh rows, % of successes", 100 * held / reported, at_least=95))
    if costs:
        report.checks.append(Check("cost over exhaustive search, largest", max(costs), at_most=1.5))
        report.checks.append(Check("cost over exhaustive search, geometric mean", geometric_mean(costs)))


# ---- largest ----------------------------------------------------------------------------------


def largest_part(report: Report, options: argparse.Namespace) -> None:
    """Count how often tolerances of the largest error hold on fresh rows."""
    rows_of_table = []
    for name in options.names if options.named else LARGEST_NAMES:
        X, _ = load(options.data / f"{name}.npz")
        kernel = kernels_of(X)["Gaussian"][0]
        for seed in range(options.seeds):
            fit, fresh = split(X[np.random.default_rng(seed).permutation(len(X))])
            exact = kernel(fresh)
            for tol in LARGEST_TOLERANCES:
                request = Request(tol=tol, n_components=options.most, error="largest")
                choice = quiet(choose_for_rows, kernel, fit, None, request, n_rows=len(fit), seed=seed)
                Z = choice.chosen.feature_map.transform(fresh)
                error = float(np.abs(Z @ Z.T - exact).max())
                rows_of_table.append([name, tol, seed, choice.chosen.name, choice.chosen.n_components,
                                      choice.chosen.error, error, choice.met])  # fmt: skip
                print(*rows_of_table[-1], flush=True)
    report.results["largest"] = rows_of_table
    reported = [row for row in rows_of_table if row[-1]]
    held = sum(row[-2] <= row[1] for row in reported)
    report.checks += [
        Check("largest error: success reported, % of runs", 100 * len(reported) / len(rows_of_table)),
        Check("largest error holds on fresh rows, % of successes", 100 * held / len(reported), at_least=95),
    ]


# ---- limits -----------------------------------------------------------------------------------


def limits_part(report: Report, options: argparse.Namespace) -> None:
    """Compare the time and memory that are used with the limits."""
    times, memories = [], []
    for name in options.names:
        X, _ = load(options.data / f"{name}.npz")
        kernel = kernels_of(X)["Gaussian"][0]
        for seconds in (2.0, 8.0):
            feature_map = FeatureMap(kernel, time_limit=seconds, random_state=SEED)
            start = time.perf_counter()
            feature_map.fit(X).transform(X)
            times.append((time.perf_counter() - start) / seconds)
            print(f"{name:>15} {seconds:g} s: used {times[-1]:.2f} of it; {feature_map.choice_.reason}", flush=True)
        for limit in (2e7, 2e8):
            feature_map = FeatureMap(kernel, memory_limit=limit, random_state=SEED).fit(X)
            used = parameter_bytes(feature_map.features_) + feature_map.transform(X).nbytes
            memories.append(used / limit)
            print(f"{name:>15} {limit:g} bytes: used {memories[-1]:.2f}; {feature_map.choice_.reason}", flush=True)
    report.results["limits"] = {"seconds": times, "bytes": memories}
    report.checks.append(Check("time over its limit, largest", max(times), at_most=1.2))
    report.checks.append(Check("memory over its limit, largest", max(memories), at_most=1.2))


# ---- downstream -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """Rows and targets of a data set, to fit to and to test on, and the models of a number of components."""

    fit: np.ndarray
    fresh: np.ndarray
    y_fit: np.ndarray
    y_fresh: np.ndarray

    @classmethod
    def of(cls, path: Path) -> Task:
        """Return the task of a file."""
        X, y = load(path)
        (fit, fresh), (y_fit, y_fresh) = split(X.astype(np.float32)), split(y)
        return cls(fit, fresh, y_fit, y_fresh)

    @cached_property
    def classify(self) -> bool:
        """Whether targets are labels."""
        return self.y_fit.dtype.kind in "iub" and len(np.unique(self.y_fit)) <= 50

    @cached_property
    def median(self) -> float:
        """The median distance of rows."""
        return median_distance(self.fit)

    def ridge(self, feature_map: Any) -> Any:
        """Return our ridge model on a map."""
        return (KernelRidgeClassifier if self.classify else KernelRidge)(feature_map, alpha="loo")

    def independent(self, D: int) -> Any:
        """Return our ridge model on independent features."""
        return self.ridge(RandomFourier(Gaussian(self.median), D, form="phase", directions="iid", random_state=SEED))

    def scikit_learn(self, D: int) -> Any:
        """Return scikit-learn's ridge model on its independent features."""
        alphas = np.logspace(-6, 3, 10)
        sampler = RBFSampler(gamma=0.5 / self.median**2, n_components=D, random_state=SEED)
        return make_pipeline(sampler, RidgeClassifierCV(alphas) if self.classify else RidgeCV(alphas))

    def error(self, predicted: np.ndarray) -> float:
        """Return the rate of errors, or the root mean squared error."""
        if self.classify:
            return float(np.mean(predicted != self.y_fresh))
        return float(np.sqrt(np.mean(np.square(predicted - self.y_fresh))))


def downstream_part(report: Report, options: argparse.Namespace) -> None:
    """Compare test errors and times of ridge models on the chosen map and on RBFSampler."""
    clock = time.process_time if options.processor_time else time.perf_counter
    table = []
    for name in options.names:
        task = Task.of(options.data / f"{name}.npz")
        kernel = Gaussian(task.median)
        for D in [D for D in options.widths if D in (512, 2048)]:
            models = {
                "chosen": task.ridge(FeatureMap(kernel, D, for_learner=True, random_state=SEED)),
                "independent": task.independent(D),
                "landmarks": task.ridge(Nystroem(kernel, D, random_state=SEED)),
            }
            if options.scikit_learn:
                models["scikit-learn"] = task.scikit_learn(D)
            errors, seconds = {}, {}
            for label, model in models.items():
                start = clock()
                quiet(model.fit, task.fit, task.y_fit)
                seconds[label] = clock() - start
                errors[label] = task.error(model.predict(task.fresh))
            table.append({"data": name, "n_components": D, "chosen": models["chosen"].feature_map_.choice_.chosen.name,
                          "errors": errors, "seconds": seconds})  # fmt: skip
            print(name, D, table[-1]["chosen"], *(f"{k}: {errors[k]:.4g} {seconds[k]:.2f} s" for k in models),
                  f"error ratio {errors['chosen'] / errors['independent']:.3f}", flush=True)  # fmt: skip
    report.results["downstream"] = table

    def ratios(what: str, one: str, other: str, D: int | None = None) -> list[float]:
        return [row[what][one] / row[what][other] for row in table if D in (None, row["n_components"])]

    report.checks += [
        Check("test error over independent features, largest",
              max(ratios("errors", "chosen", "independent")), at_most=1.0),
        Check("test error over independent features, geometric mean",
              geometric_mean(ratios("errors", "chosen", "independent")), at_most=0.88),
        Check("time over our ridge on independent features, geometric mean",
              geometric_mean(ratios("seconds", "chosen", "independent"))),
        Check("Nystroem() over independent features, test error, largest",
              max(ratios("errors", "landmarks", "independent"))),
        Check("... geometric mean", geometric_mean(ratios("errors", "landmarks", "independent"))),
        Check("... time, geometric mean", geometric_mean(ratios("seconds", "landmarks", "independent"))),
    ]  # fmt: skip
    if options.scikit_learn:
        report.checks += [
            Check("time over scikit-learn, geometric mean",
                  geometric_mean(ratios("seconds", "chosen", "scikit-learn")), at_most=1.3),
            *(Check(f"... {D} components", geometric_mean(ratios("seconds", "chosen", "scikit-learn", D)))
              for D in sorted({row["n_components"] for row in table})),
            Check("test error over scikit-learn, geometric mean",
                  geometric_mean(ratios("errors", "chosen", "scikit-learn"))),
        ]  # fmt: skip


# ---- exact ------------------------------------------------------------------------------------


def exact_errors(task: Task, alphas: np.ndarray) -> list[float]:
    """Return the test errors of the exact kernel ridge model with each penalty."""
    kernel = Gaussian(task.median)
    labels = np.unique(task.y_fit)
    Y = np.where(task.y_fit[:, None] == labels, 1.0, -1.0) if task.classify else task.y_fit[:, None].astype(float)
    K, fresh = kernel(task.fit.astype(float)), kernel(task.fresh.astype(float), task.fit.astype(float))
    errors = []
    for alpha in alphas:
        factor = scipy.linalg.cho_factor(K + alpha * np.eye(len(K)), lower=True, overwrite_a=True, check_finite=False)
        ones, dual = np.split(scipy.linalg.cho_solve(factor, np.column_stack([np.ones(len(Y)), Y])), [1], axis=1)
        intercept = dual.sum(axis=0) / ones.sum()  # of least squares with an intercept that has no penalty
        values = fresh @ (dual - ones * intercept) + intercept
        errors.append(task.error(labels[values.argmax(axis=1)] if task.classify else values[:, 0]))
    return errors


def exact_part(report: Report, options: argparse.Namespace) -> None:
    """Compare the test errors of exact models with those of independent features."""
    table = []
    for name in options.names:
        task = Task.of(options.data / f"{name}.npz")
        independent = {D: quiet(task.independent(D).fit, task.fit, task.y_fit) for D in (512, 2048)}
        # Penalties of features are those of the kernel, which their inner products approximate.
        alphas = independent[2048].alpha_ * np.array([0.1, 0.5, 2.0, 8.0, 32.0])
        exact = exact_errors(task, alphas)
        ratios = {D: min(exact) / task.error(model.predict(task.fresh)) for D, model in independent.items()}
        table.append({"data": name, "alphas": alphas.tolist(), "exact": exact, "ratios": ratios})
        print(name, "exact", *(f"{e:.4g}" for e in exact), *(f"{D}: {r:.3f}" for D, r in ratios.items()), flush=True)
    report.results["exact"] = table
    everything = [ratio for row in table for ratio in row["ratios"].values()]
    report.checks.append(Check("exact kernel ridge over independent features, test error", geometric_mean(everything)))
    for D in (512, 2048):
        report.checks.append(Check(f"... {D} components", geometric_mean([row["ratios"][D] for row in table])))


def main() -> None:
    """Run the parts that were asked for."""
    parser = parser_for(__doc__.splitlines()[0], 1, 1)
    parser.add_argument("--data", type=Path, required=True, help="directory with the .npz files")
    parser.add_argument("--names", nargs="+", help="data sets")
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    parser.add_argument("--widths", nargs="+", type=int)
    parser.add_argument("--all-up-to", type=int, default=512, help="fit all candidates up to this number of components")
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds of the tolerances")
    parser.add_argument("--most", type=int, default=4096, help="largest number of components of the tolerances")
    parser.add_argument("--no-exhaustive", dest="exhaustive", action="store_false", help="leave out the search")
    parser.add_argument("--no-scikit-learn", dest="scikit_learn", action="store_false", help="leave out RidgeCV")
    parser.add_argument("--processor-time", action="store_true", help="measure processor seconds downstream")
    options = parser.parse_args()
    options.named = options.names is not None
    whole = options.names is None and options.widths is None and not options.quick
    options.names = pick(options.quick, options.names, NAMES, QUICK_NAMES)
    options.widths = pick(options.quick, options.widths, WIDTHS, QUICK_WIDTHS)
    report = Report("choice", {"names": list(options.names), "parts": list(options.parts)}, judged=whole)
    report.begin()
    warnings.simplefilter("ignore", MercerWarning)
    for part in options.parts:
        {"widths": widths_part, "tolerances": tolerances_part, "largest": largest_part, "limits": limits_part,
         "downstream": downstream_part, "exact": exact_part}[part](report, options)  # fmt: skip
    report.finish(options.output)


if __name__ == "__main__":
    main()
