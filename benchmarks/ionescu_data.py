"""Trials of semi-supervised learning: rows of a graph, few of them labeled, and new rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.model_selection import StratifiedKFold

LABELS = 50
SPLITS = 10
DEVELOPMENT_SPLITS = 5
USPS_SPLITS, USPS_DEVELOPMENT_SPLITS = 20, 10
SMALL_SPLITS, SMALL_DEVELOPMENT_SPLITS = 5, 3
USPS_DRAWN, USPS_GRAPH = 2007, 1607
TEXT_PAIR = ("comp.os.ms-windows.misc", "comp.sys.mac.hardware")
TEXT_OTHER_PAIR = ("comp.sys.ibm.pc.hardware", "comp.windows.x")


@dataclass(frozen=True)
class Trial:
    """All rows of a graph with their labels, of which only some may be looked at, and rows beside it."""

    X: Any
    y: np.ndarray
    labeled: np.ndarray  # rows whose labels may be used
    judged: np.ndarray  # rows of the graph whose labels the error is measured on
    X_new: Any = None
    y_new: np.ndarray | None = None

    def fold(self, folds: int = 5) -> Iterator[Trial]:
        """Yield trials that judge by some of the labeled rows, left out of training: no other label is looked at."""
        y = self.y[self.labeled]
        for train, test in StratifiedKFold(folds, shuffle=True, random_state=0).split(y, y):
            yield replace(self, labeled=self.labeled[train], judged=self.labeled[test], X_new=None, y_new=None)


@dataclass(frozen=True)
class Task:
    """Trials to tune on, trials to report, and how the first differ from the second, in words."""

    name: str
    tuning: list[Trial]
    trials: list[Trial]
    how: str


def some_of_each(y: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draw rows until every class is among them."""
    while True:
        chosen = rng.choice(len(y), count, replace=False)
        if len(np.unique(y[chosen])) == len(np.unique(y)):
            return np.sort(chosen)


def split(X: Any, y: np.ndarray, rng: np.random.Generator, graph_rows: int, labels: int) -> Trial:
    """Cut rows at random into a graph and new rows, and choose labeled ones."""
    order = rng.permutation(len(y))
    inside, outside = order[:graph_rows], order[graph_rows:]
    labeled = some_of_each(y[inside], labels, rng)
    judged = np.setdiff1d(np.arange(graph_rows), labeled)
    new = (X[outside], y[outside]) if len(outside) else (None, None)
    return Trial(X[inside], y[inside], labeled, judged, *new)


def usps_rows(data: Path) -> tuple[np.ndarray, ...]:
    """Return rows and labels of the training file, and those of the test file."""
    with np.load(data / "usps.npz") as file:
        return tuple(file[name] for name in ("X_train", "y_train", "X_test", "y_test"))


def usps_draws(X: np.ndarray, y: np.ndarray, count: int, seed: int) -> list[Trial]:
    """Draw 2007 rows, of which 1607 are in the graph and 400 new, so many times over."""
    trials = []
    for i in range(count):
        rng = np.random.default_rng([seed, i])
        rows = rng.choice(len(y), USPS_DRAWN, replace=False)
        trials.append(split(X[rows], y[rows], rng, USPS_GRAPH, LABELS))
    return trials


def usps(data: Path) -> Task:
    """Draws of one half of all rows; tuned on draws of the other half.

    The rows of the paper are not known. The two files differ, and a choice on the one does not suit the other, so the
    halves are taken at random from both together. On them the plain error is that of the paper.
    """
    X, y, X_test, y_test = usps_rows(data)
    X, y = np.concatenate([X, X_test]), np.concatenate([y, y_test])
    one, other = np.array_split(np.random.default_rng(7).permutation(len(y)), 2)
    tuning = usps_draws(X[one], y[one], USPS_DEVELOPMENT_SPLITS, 11)
    trials = usps_draws(X[other], y[other], USPS_SPLITS, 12)
    how = f"{USPS_DEVELOPMENT_SPLITS} draws of the other half of the rows, which no trial has rows of"
    return Task("USPS", tuning, trials, how)


def usps_test(data: Path) -> Task:
    """Take the test file, which is harder than the training file, with 400 new rows; tuned on the training file."""
    X, y, X_test, y_test = usps_rows(data)
    trials = usps_draws(X_test, y_test, USPS_SPLITS, 13)
    tuning = usps_draws(X, y, USPS_DEVELOPMENT_SPLITS, 14)
    how = f"{USPS_DEVELOPMENT_SPLITS} draws of the training file, which no trial has rows of"
    return Task("USPS test file", tuning, trials, how)


def g50c(data: Path) -> Task:
    """Take the published splits; tuned by cross-validation on their labeled rows alone."""
    with np.load(data / "g50c.npz") as file:
        X, y = file["X"], file["y"]
        splits = list(zip(file["idx_labelled"].astype(int), file["idx_unlabelled"].astype(int), strict=True))
    trials = [Trial(X, y, labeled, unlabeled) for labeled, unlabeled in splits]
    tuning = [fold for trial in trials for fold in trial.fold()]
    return Task("g50c", tuning, trials, "5 folds of the labeled rows of every split, one choice for all splits")


def text(data: Path) -> Task:
    """Two groups of news; tuned on two others."""
    with np.load(data / "newsgroups20.npz") as file:
        parts = [
            sp.csr_array(
                tuple(file[f"X_{part}_{piece}"] for piece in ("data", "indices", "indptr")),
                shape=tuple(file[f"X_{part}_shape"]),
            )
            for part in ("train", "test")
        ]
        X, y = sp.vstack(parts, format="csr"), np.concatenate([file["y_train"], file["y_test"]])
        names = file["class_names"].tolist()

    def pair(groups: tuple[str, str]) -> tuple[Any, np.ndarray]:
        codes = [names.index(group) for group in groups]
        rows = np.flatnonzero(np.isin(y, codes))
        counts = X[rows]
        often = np.flatnonzero(np.bincount(counts.indices, minlength=counts.shape[1]) >= 3)
        return TfidfTransformer(sublinear_tf=True).fit_transform(counts[:, often]).astype(np.float32), y[rows]

    def trials_of(groups: tuple[str, str], count: int, seed: int) -> list[Trial]:
        rows, labels = pair(groups)
        return [split(rows, labels, np.random.default_rng([seed, i]), len(labels), LABELS) for i in range(count)]

    return Task(
        "TEXT",
        trials_of(TEXT_OTHER_PAIR, DEVELOPMENT_SPLITS, 4),
        trials_of(TEXT_PAIR, SPLITS, 3),
        f"{DEVELOPMENT_SPLITS} draws of two other groups, {' and '.join(TEXT_OTHER_PAIR)}",
    )


def mnist_small(data: Path) -> Task:
    """Draw 4000 rows of the training file for a graph, 600 labeled, and 2000 new ones; tuned on other draws of it."""
    with np.load(data / "mnist.npz") as file:
        X, y = file["X_train"], file["y_train"]
    order = np.random.default_rng(8).permutation(len(y))
    draws = []
    for i in range(SMALL_SPLITS + SMALL_DEVELOPMENT_SPLITS):
        rows = order[6000 * i : 6000 * (i + 1)]
        draws.append(split(X[rows] / np.float32(255), y[rows], np.random.default_rng([9, i]), 4000, 600))
    how = f"{SMALL_DEVELOPMENT_SPLITS} other draws, which have no row in common"
    return Task("MNIST, 4000 rows", draws[SMALL_SPLITS:], draws[:SMALL_SPLITS], how)


def mnist(data: Path, splits: int = 1) -> Task:
    """10,000 labeled and 50,000 unlabeled rows of the training file, 10,000 new ones; tuned within the labeled."""
    with np.load(data / "mnist.npz") as file:
        X, y, X_new, y_new = (file[name] for name in ("X_train", "y_train", "X_test", "y_test"))
    X, X_new = ((part / np.float32(255)).astype(np.float32) for part in (X, X_new))
    trials = []
    for i in range(splits):
        labeled = np.sort(np.random.default_rng([5, i]).choice(len(y), 10_000, replace=False))
        trials.append(Trial(X, y, labeled, np.setdiff1d(np.arange(len(y)), labeled), X_new, y_new))
    # New rows are to be judged, so those to tune on are outside the graph as well.
    inside, outside = next(StratifiedKFold(4, shuffle=True, random_state=0).split(labeled, y[labeled]))
    kept = np.setdiff1d(np.arange(len(y)), labeled[outside])
    places = np.searchsorted(kept, labeled[inside])
    tuning = [Trial(X[kept], y[kept], places, np.array([], dtype=int), X[labeled[outside]], y[labeled[outside]])]
    how = "7500 of the labeled rows of the last split, judged by its other 2500, which are not in the graph"
    return Task("MNIST", tuning, trials, how)


TASKS = {"usps": usps, "usps-test": usps_test, "g50c": g50c, "text": text, "mnist": mnist, "mnist-small": mnist_small}
