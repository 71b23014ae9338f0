"""How good a model of few labeled rows is: by labels held out, by rows left out, or by the evidence."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np

from mercer.engines import Block, some_rows
from mercer.errors import DataError, ParameterError
from mercer.features import Features, features_of
from mercer.io.archive import storable
from mercer.solvers.ridge.smoother import Smoother
from mercer.statistics.sample import as_generator

__all__ = ["By", "LabelScorer", "LabeledFeatures", "LabeledRows"]

Array = np.ndarray
By = Literal["cv", "loo", "evidence"]


@storable
@dataclass(frozen=True, eq=False)
class LabeledRows:
    """Features, targets, places and weights of labeled rows: a statistic like any other."""

    Z: Array
    y: Array
    index: Array
    weight: Array

    def __add__(self, other: LabeledRows) -> LabeledRows:
        both = ((getattr(self, name), getattr(other, name)) for name in ("Z", "y", "index", "weight"))
        return LabeledRows(*map(np.concatenate, both))


@dataclass(frozen=True, eq=False)
class LabeledFeatures:
    """The labeled rows of a block that have a weight, with their features in float64."""

    features: Features

    def __call__(self, block: Block) -> LabeledRows:
        """Return them."""
        some = block if block.weight is None else some_rows(block, block.weight > 0)
        Z = features_of(self.features.astype(some.X.dtype), some.X).astype(np.float64, copy=False)
        weight = np.ones(len(some)) if some.weight is None else some.weight
        return LabeledRows(Z, np.asarray(some.y), some.index, weight)


@dataclass(frozen=True, eq=False)
class LabelScorer:
    """Scores models on the labeled rows."""

    targets: Array  # (n, t): numbers, or +-1 for each label
    codes: Array | None  # (n,), of labels
    folds: Array  # (n,)
    by: By
    weight: Array  # (n,), > 0

    @classmethod
    def of(
        cls, rows: LabeledRows, *, classes: bool, by: By, cv: Any, random_state: Any, n_rows: int | None = None
    ) -> Self:
        """Return what scores models of some of `n_rows` rows, or say why there is none."""
        n = len(rows.y)
        if n < 2:
            msg = f"tune_deformation needs at least two labeled rows, got {n}."
            raise DataError(msg)
        targets, codes = rows.y, None
        if classes:
            labels, codes = np.unique(rows.y, return_inverse=True)
            if len(labels) < 2:
                msg = (
                    f"tune_deformation needs rows of at least two classes, got one class only: {labels.tolist()[0]!r}."
                )
                raise DataError(msg)
            targets = np.where(codes[:, None] == np.arange(len(labels)), 1.0, -1.0)
            if by != "evidence" and np.bincount(codes).max() < 2:
                msg = (
                    f"tune_deformation: by={by!r} needs classes with two labels or more: one to learn from, one to "
                    "predict. With one label a class use by='evidence'."
                )
                raise DataError(msg)
        folds = np.arange(n)
        if by == "cv":
            folds = folds_of(cv, rows.index, np.zeros(n, int) if codes is None else codes, random_state, n_rows)
        return cls(targets, codes, folds, by, rows.weight)

    def score(self, smoother: Smoother, penalty: float) -> tuple[float, float, float]:
        """Return the score of a penalty, its standard error, and the mean squared error of what was held out."""
        total = float(self.weight.sum())
        if self.by == "evidence":
            # Of two labels one column says all.
            columns = slice(1, None) if self.codes is not None and self.targets.shape[1] == 2 else slice(None)
            return smoother.log_evidence(self.targets[:, columns], penalty) / total, np.nan, np.nan
        if self.by == "loo":
            predicted = smoother.one_left_out(self.targets, penalty)
        else:
            predicted = smoother.left_out(self.targets, penalty, self.folds)
        squares = np.square(self.targets - predicted)
        if self.by == "loo":
            values = -squares.sum(axis=1)
        elif self.codes is not None:
            values = (self._with_known_labels(predicted).argmax(axis=1) == self.codes).astype(float)
        else:
            mean = self.weight @ self.targets / total
            scatter = self.weight @ np.square(self.targets - mean) / total
            values = 1 - (squares / np.where(scatter > 0, scatter, 1.0)).mean(axis=1)
        n, score = len(values), float(self.weight @ values / total)
        error = np.sqrt(n / (n - 1) * np.square(self.weight * (values - score)).sum()) / total
        return score, float(error), float(self.weight @ squares.sum(axis=1) / total)

    def _with_known_labels(self, predicted: Array) -> Array:
        """Return predictions in which labels that a fold has never seen cannot win."""
        assert self.codes is not None
        out = predicted.copy()
        for fold in np.unique(self.folds):
            held = self.folds == fold
            seen = np.bincount(self.codes[~held], minlength=out.shape[1]) > 0
            out[np.ix_(held, ~seen)] = -np.inf
        return out


def folds_of(cv: Any, index: Array, codes: Array, random_state: Any, n_rows: int | None = None) -> Array:
    """Return the fold of each labeled row: of a given array, or stratified by label, sizes at most one apart.

    The given array is for all rows, labeled or not, of which there are `n_rows`, if that is known.
    """
    if isinstance(cv, Integral) and not isinstance(cv, bool):
        if cv < 2:
            msg = f"tune_deformation: cv must be an integer >= 2 or the fold of each row, got {cv!r}."
            raise ParameterError(msg)
        order = as_generator(random_state).permutation(len(codes))
        order = order[np.argsort(codes[order], kind="stable")]  # label after label, each in random order
        folds = np.empty(len(codes), dtype=int)
        folds[order] = np.arange(len(codes)) % min(int(cv), len(codes))
        return folds
    try:
        given = np.asarray(cv)
    except ValueError:  # such as pairs of lists of rows
        given = np.zeros(())
    if given.ndim != 1 or given.dtype.kind not in "iu" or len(given) <= int(index.max()):
        msg = (
            "tune_deformation: cv must be an integer >= 2, or an array with the number of the fold of each row, got "
            f"{cv!r}."
        )
        raise ParameterError(msg)
    if n_rows is not None and len(given) != n_rows:
        msg = (
            f"tune_deformation: cv must have the fold of each of the {n_rows} rows, labeled or not, got {len(given)}. "
            "What it says of unlabeled rows does not matter."
        )
        raise ParameterError(msg)
    folds = given[index.astype(np.int64)]
    if len(np.unique(folds)) < 2:
        msg = f"tune_deformation: cv puts all labeled rows into one fold, {folds[0]}; at least two are needed."
        raise ParameterError(msg)
    return folds
