"""The race of the demo: models without arguments beside those of scikit-learn, on data that come with scikit-learn.

Columns are raw. Models of scikit-learn that need standardized columns get them, and have default parameters otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mercer.automatic import KernelClassifier, KernelRegressor
from mercer.diagnostics.demo.results import Race, Runner
from mercer.errors import ParameterError

__all__ = ["DATA_SETS", "check_names", "run_races"]

Array = np.ndarray
#: Names of the data sets, and whether targets are labels.
DATA_SETS = {"breast_cancer": True, "diabetes": False, "digits": True, "wine": True}
# Share of the rows that models are fitted to, and the largest number of them, so that the demo takes a minute at most.
SHARE, MOST_ROWS = 0.75, 900
# Number of components of scikit-learn's random features.
COMPONENTS = 512
# Number of resamples by which the standard error of R2 is computed.
RESAMPLES = 200


def run_races(names: Sequence[str], seed: int, announce: Callable[[str], None]) -> tuple[Race, ...]:
    """Run the race on some data sets; `announce` is called with the name of each step."""
    return tuple(run_race(name, seed, announce) for name in names)


def check_names(names: Sequence[str]) -> None:
    """Raise if a data set is not known."""
    unknown = [name for name in names if name not in DATA_SETS]
    if unknown:
        known = ", ".join(map(repr, DATA_SETS))
        msg = f"run_demo: data_sets must be some of {known}, got {unknown[0]!r}."
        raise ParameterError(msg)


def run_race(name: str, seed: int, announce: Callable[[str], None]) -> Race:
    """Fit all models to one data set, and return their scores and times."""
    labels = DATA_SETS[name]
    X_train, X_test, y_train, y_test = rows_of(name, labels, seed)
    runners = []
    for title, library, model in models_for(labels, seed):
        announce(f"{title} on {name.replace('_', ' ')}")
        start = time.perf_counter()
        model.fit(X_train, y_train)
        fitted = time.perf_counter()
        predicted = model.predict(X_test)
        seconds = time.perf_counter() - fitted
        score, error = accuracy(predicted, y_test) if labels else r2(predicted, y_test, seed)
        rate = len(X_test) / max(seconds, 1e-9)
        explanation = model.explain() if hasattr(model, "explain") else None
        runners.append(Runner(title, library, score, error, fitted - start, rate, explanation))
    kind = "accuracy" if labels else "R2"
    return Race(name.replace("_", " "), kind, len(X_train), len(X_test), X_train.shape[1], tuple(runners))


def rows_of(name: str, labels: bool, seed: int) -> tuple[Array, Array, Array, Array]:
    """Return training and test rows with raw columns, and their targets."""
    from sklearn import datasets
    from sklearn.model_selection import train_test_split

    keywords = {} if labels else {"scaled": False}
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True, **keywords)
    count = min(MOST_ROWS, int(SHARE * len(X)))
    X, X_test, y, y_test = train_test_split(X, y, train_size=count, stratify=y if labels else None, random_state=seed)
    return X, X_test, y, y_test


def models_for(labels: bool, seed: int) -> list[tuple[str, str, Any]]:
    """Return names, libraries and unfitted models."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.linear_model import RidgeClassifierCV, RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC, SVR

    sampler = RBFSampler(gamma="scale", n_components=COMPONENTS, random_state=seed)
    alphas = np.logspace(-6, 3, 10)
    ridge = RidgeClassifierCV(alphas=alphas) if labels else RidgeCV(alphas=alphas)
    trees = HistGradientBoostingClassifier if labels else HistGradientBoostingRegressor
    machine, model = (SVC, KernelClassifier) if labels else (SVR, KernelRegressor)
    return [
        (model.__name__, "mercer", model(random_state=seed)),
        (trees.__name__, "scikit-learn", trees(random_state=seed)),
        (machine.__name__, "scikit-learn", make_pipeline(StandardScaler(), machine())),
        ("RBFSampler", "scikit-learn", make_pipeline(StandardScaler(), sampler, ridge)),
    ]


def accuracy(predicted: Array, y: Array) -> tuple[float, float]:
    """Return the share of correct labels, and its binomial standard error."""
    share = float(np.mean(predicted == y))
    return share, float(np.sqrt(share * (1 - share) / len(y)))


def r2(predicted: Array, y: Array, seed: int) -> tuple[float, float]:
    """Return R2, and its standard error over resampled test rows."""

    def score(some: Array) -> float:
        return 1 - float(np.square(predicted[some] - y[some]).mean() / y[some].var())

    rng = np.random.default_rng(seed)
    scores = [score(rng.integers(0, len(y), len(y))) for _ in range(RESAMPLES)]
    return score(np.arange(len(y))), float(np.std(scores))
