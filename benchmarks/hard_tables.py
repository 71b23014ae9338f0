"""Models without arguments on generated tables that are hard for them, beside simple models and trees.

    python benchmarks/hard_tables.py [--parts tails few equal] [--seeds 0 1 2] [--names NAME ...]

tails
    R2 on 20,000 new rows of targets whose squared errors are mostly those of few rows: shares of zeros with lognormal
    rest, lognormal and Student's t errors, gross outliers, noise only. It is relative to the mean of the new targets.
few
    Accuracy and log loss with 6, 10 and 16 labeled rows that are drawn at random. Draws that lack a class are skipped.
equal
    Accuracy and log loss where each row has many copies with different labels.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_iris, load_wine, make_blobs
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer import KernelClassifier, KernelRegressor

Array = np.ndarray
Draw = Callable[[np.random.Generator, int], tuple[Array, Array]]
NEW_ROWS = 20_000
FEW, FEW_DRAWS = (6, 10, 16), 10


def signal(rng: np.random.Generator, n: int, d: int, *, integers: bool = False) -> tuple[Array, Array]:
    """Return rows, half of their columns integers if asked for, and a function of them with a variance of one."""
    X = rng.normal(size=(n, d))
    if integers:
        X[:, : d // 2] = rng.integers(0, 6, size=(n, d // 2))
    s = X[:, 0] + 0.5 * np.sin(2 * X[:, 1]) + 0.5 * X[:, 2 % d] * (X[:, 1] > 0)
    return X, s / s.std()


def claims(d: int, sigma: float, *, integers: bool = False) -> Draw:
    """Return a draw of targets of which about 70 % are zero, and others are lognormal, as claims are."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        X, s = signal(rng, n, d, integers=integers)
        positive = rng.uniform(size=n) < 1 / (1 + np.exp(-(0.8 * s - 1.0)))
        return X, np.where(positive, np.exp(0.5 * s + sigma * rng.normal(size=n)) * 1000, 0.0)

    return draw


def lognormal(d: int, sigma: float, strength: float) -> Draw:
    """Return a draw of lognormal targets; without strength they are noise."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        if strength == 0:
            return rng.normal(size=(n, d)), np.exp(sigma * rng.normal(size=n))
        X, s = signal(rng, n, d)
        return X, np.exp(strength * s + sigma * rng.normal(size=n))

    return draw


def student(d: int, degrees: float) -> Draw:
    """Return a draw of targets with errors of Student's t distribution."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        X, s = signal(rng, n, d)
        return X, s + rng.standard_t(degrees, size=n)

    return draw


def outliers(d: int, share: float) -> Draw:
    """Return a draw of targets of which some are a thousand times as large."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        X, s = signal(rng, n, d)
        y = s + 0.3 * rng.normal(size=n)
        y[rng.choice(n, max(1, int(share * n)), replace=False)] *= 1e3
        return X, y

    return draw


def gamma(d: int, shape: float) -> Draw:
    """Return a draw of gamma targets."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        X, s = signal(rng, n, d, integers=True)
        return X, rng.gamma(shape, np.exp(0.7 * s) / shape)

    return draw


#: Number of rows to fit to, and draws, by name.
TAILS: dict[str, tuple[int, Draw]] = {
    "claims, sigma 1.5, 300 x 5": (300, claims(5, 1.5)),
    "claims, sigma 2, 1000 x 8": (1000, claims(8, 2.0)),
    "claims, sigma 1.5, 4000 x 10": (4000, claims(10, 1.5, integers=True)),
    "claims, sigma 2, 15000 x 20": (15000, claims(20, 2.0, integers=True)),
    "claims, sigma 1.5, 100 x 30": (100, claims(30, 1.5)),
    "lognormal, sigma 1, 500 x 5": (500, lognormal(5, 1.0, 1.0)),
    "lognormal, sigma 1.5, 2000 x 10": (2000, lognormal(10, 1.5, 0.7)),
    "lognormal noise, sigma 1.5, 200 x 5": (200, lognormal(5, 1.5, 0)),
    "lognormal noise, sigma 2, 2000 x 15": (2000, lognormal(15, 2.0, 0)),
    "Student t 1.5, 300 x 5": (300, student(5, 1.5)),
    "Student t 2, 1000 x 10": (1000, student(10, 2)),
    "Student t 3, 100 x 3": (100, student(3, 3)),
    "Student t 1.5, 8000 x 10": (8000, student(10, 1.5)),
    "outliers, 1 %, 500 x 5": (500, outliers(5, 0.01)),
    "outliers, 0.2 %, 5000 x 8": (5000, outliers(8, 0.002)),
    "gamma, shape 0.5, 1000 x 10": (1000, gamma(10, 0.5)),
}


def run_tails(names: list[str] | None, seeds: list[int]) -> None:
    """Print R2 of each model and draw."""
    for name, (n, draw) in TAILS.items():
        if names and not any(name.startswith(one) for one in names):
            continue
        for seed in seeds:
            X, y = draw(np.random.default_rng(seed * 1000 + n), n + NEW_ROWS)
            total = np.square(y[n:] - y[n:].mean()).sum()
            found = {"constant": 1 - np.square(y[n:] - y[:n].mean()).sum() / total}
            start = time.process_time()
            for title, model in (
                ("mercer", KernelRegressor(random_state=seed, n_jobs=1)),
                ("line", LinearRegression()),
                ("trees", HistGradientBoostingRegressor(random_state=0)),
            ):
                found[title] = 1 - np.square(y[n:] - model.fit(X[:n], y[:n]).predict(X[n:])).sum() / total
                if title == "mercer":
                    seconds = time.process_time() - start
            scores = "  ".join(f"{title} {value:7.3f}" for title, value in found.items())
            print(f"{name:<36} seed {seed}  {scores}  {seconds:6.1f} s", flush=True)


def label_tables() -> Iterator[tuple[str, Array, Array]]:
    """Yield names, rows and labels."""
    yield "iris", *load_iris(return_X_y=True)
    yield "wine", *load_wine(return_X_y=True)
    yield "cancer", *load_breast_cancer(return_X_y=True)
    yield "blobs", *make_blobs(600, centers=[[0, 0], [2, 2]], random_state=1)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 5))
    yield "line", X, (X[:, 0] + 0.3 * rng.normal(size=600) > 0).astype(int)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(600, 5))
    yield "noise", X, (rng.normal(size=600) > 0).astype(int)


def label_scores(model: Any, X: Array, y: Array, train: Array, test: Array) -> tuple[float, float]:
    """Return the accuracy and the logarithmic loss of new rows."""
    model.fit(X[train], y[train])
    probabilities = np.clip(model.predict_proba(X[test]), 1e-15, 1)
    return model.score(X[test], y[test]), log_loss(y[test], probabilities, labels=model.classes_)


def run_few() -> None:
    """Print means over draws, and over all tables."""
    every: dict[str, list[Array]] = {}
    for name, X, y in label_tables():
        for n in FEW:
            scores: dict[str, list[tuple[float, float]]] = {}
            for seed in range(FEW_DRAWS):
                order = np.random.default_rng(seed).permutation(len(y))
                train, test = order[:n], order[n:]
                if len(np.unique(y[train])) < len(np.unique(y)):
                    continue
                for title, model in (
                    ("mercer", KernelClassifier(random_state=seed, n_jobs=1)),
                    ("logistic regression", make_pipeline(StandardScaler(), LogisticRegression())),
                ):
                    scores.setdefault(title, []).append(label_scores(model, X, y, train, test))
            for title, values in scores.items():
                accuracy, loss = np.mean(values, axis=0)
                every.setdefault(title, []).append(np.array([accuracy, loss]))
                print(
                    f"{name:<8} {n:>3} rows, {len(values):>2} draws  {title:<20} {accuracy:.3f} {loss:.3f}", flush=True
                )
    for title, means in every.items():
        accuracy, loss = np.mean(means, axis=0)
        print(f"mean of all tables  {title:<20} accuracy {accuracy:.3f}, log loss {loss:.3f}")


def run_equal(seeds: list[int]) -> None:
    """Print accuracy and log loss on 2000 new rows of four columns of three values, with 2000 rows to fit to."""
    for seed in seeds:
        rng = np.random.default_rng(seed)
        X = rng.integers(0, 3, size=(4000, 4)).astype(float)
        y = (rng.uniform(size=4000) < 1 / (1 + np.exp(-(X[:, 0] - X[:, 1])))).astype(int)
        for title, model in (
            ("mercer", KernelClassifier(random_state=0, n_jobs=1)),
            ("logistic regression", make_pipeline(StandardScaler(), LogisticRegression())),
            ("trees", HistGradientBoostingClassifier(random_state=0)),
        ):
            accuracy, loss = label_scores(model, X, y, np.arange(2000), np.arange(2000, 4000))
            print(f"equal rows, seed {seed}  {title:<20} {accuracy:.3f} {loss:.3f}", flush=True)


def main() -> None:
    """Run the parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="*", default=["tails", "few", "equal"], choices=["tails", "few", "equal"])
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--names", nargs="*", help="Beginnings of names of the part tails.")
    options = parser.parse_args()
    if "tails" in options.parts:
        run_tails(options.names, options.seeds)
    if "few" in options.parts:
        run_few()
    if "equal" in options.parts:
        run_equal(options.seeds)


if __name__ == "__main__":
    main()
