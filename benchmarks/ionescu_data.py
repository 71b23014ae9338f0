"""Trials of semi-supervised learning: rows of a graph, few of them labeled, and new rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from mercer.reproduce.papers.ionescu import (
    TEXT_PAIR,
    TEXT_SEED,
    USPS_SEED,
    divide,
    text_rows,
    text_split,
    usps_halves,
    usps_split,
)
from mercer.reproduce.papers.ionescu import Split as Trial

SPLITS = 10
DEVELOPMENT_SPLITS = 5
USPS_SPLITS, USPS_DEVELOPMENT_SPLITS = 20, 10
SMALL_SPLITS, SMALL_DEVELOPMENT_SPLITS = 5, 3
TEXT_OTHER_PAIR = ("comp.sys.ibm.pc.hardware", "comp.windows.x")


def folds_of(trial: Trial, folds: int = 5) -> Iterator[Trial]:
    """Yield trials that judge by some of the labeled rows, left out of training: no other label is looked at."""
    y = trial.y[trial.labeled]
    for train, test in StratifiedKFold(folds, shuffle=True, random_state=0).split(y, y):
        yield replace(trial, labeled=trial.labeled[train], judged=trial.labeled[test], X_new=None, y_new=None)


@dataclass(frozen=True)
class Task:
    """Trials to tune on, trials to report, and how the first differ from the second, in words."""

    name: str
    tuning: list[Trial]
    trials: list[Trial]
    how: str


def draws(split: Callable[..., Trial], X: Any, y: np.ndarray, count: int, seed: int) -> list[Trial]:
    """Draw rows so many times over."""
    return [split(X, y, seed, i) for i in range(count)]


def usps(data: Path) -> Task:
    """Draws of one half of all rows; tuned on draws of the other half.

    The rows of the paper are not known. The two files differ, and a choice on the one does not suit the other, so the
    halves are taken at random from both together. On them the plain error is that of the paper.
    """
    one, other = usps_halves(data)
    tuning = draws(usps_split, *one, USPS_DEVELOPMENT_SPLITS, 11)
    trials = draws(usps_split, *other, USPS_SPLITS, USPS_SEED)
    how = f"{USPS_DEVELOPMENT_SPLITS} draws of the other half of the rows, which no trial has rows of"
    return Task("USPS", tuning, trials, how)


def usps_test(data: Path) -> Task:
    """Take the test file, which is harder than the training file, with 400 new rows; tuned on the training file."""
    with np.load(data / "usps.npz") as file:
        trials = draws(usps_split, file["X_test"], file["y_test"], USPS_SPLITS, 13)
        tuning = draws(usps_split, file["X_train"], file["y_train"], USPS_DEVELOPMENT_SPLITS, 14)
    how = f"{USPS_DEVELOPMENT_SPLITS} draws of the training file, which no trial has rows of"
    return Task("USPS test file", tuning, trials, how)


def g50c(data: Path) -> Task:
    """Take the published splits; tuned by cross-validation on their labeled rows alone."""
    with np.load(data / "g50c.npz") as file:
        X, y = file["X"], file["y"]
        splits = list(zip(file["idx_labelled"].astype(int), file["idx_unlabelled"].astype(int), strict=True))
    trials = [Trial(X, y, labeled, unlabeled) for labeled, unlabeled in splits]
    tuning = [fold for trial in trials for fold in folds_of(trial)]
    return Task("g50c", tuning, trials, "5 folds of the labeled rows of every split, one choice for all splits")


def text(data: Path) -> Task:
    """Two groups of news; tuned on two others."""
    return Task(
        "TEXT",
        draws(text_split, *text_rows(data, TEXT_OTHER_PAIR), DEVELOPMENT_SPLITS, 4),
        draws(text_split, *text_rows(data, TEXT_PAIR), SPLITS, TEXT_SEED),
        f"{DEVELOPMENT_SPLITS} draws of two other groups, {' and '.join(TEXT_OTHER_PAIR)}",
    )


def mnist_small(data: Path) -> Task:
    """Draw 4000 rows of the training file for a graph, 600 labeled, and 2000 new ones; tuned on other draws of it."""
    with np.load(data / "mnist.npz") as file:
        X, y = file["X_train"], file["y_train"]
    order = np.random.default_rng(8).permutation(len(y))
    found = []
    for i in range(SMALL_SPLITS + SMALL_DEVELOPMENT_SPLITS):
        rows = order[6000 * i : 6000 * (i + 1)]
        found.append(divide(X[rows] / np.float32(255), y[rows], np.random.default_rng([9, i]), 4000, 600))
    how = f"{SMALL_DEVELOPMENT_SPLITS} other draws, which have no row in common"
    return Task("MNIST, 4000 rows", found[SMALL_SPLITS:], found[:SMALL_SPLITS], how)


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
