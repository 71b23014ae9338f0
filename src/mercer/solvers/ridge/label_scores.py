"""Scores of ridge models on few labeled rows: cross-validation, leave-one-out, or the marginal likelihood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from mercer.data.targets import label_codes, label_signs
from mercer.engines import Block, some_rows
from mercer.errors import DataError, ParameterError
from mercer.features import Features, rows_to_features
from mercer.io.archive import storable
from mercer.parameters import Integer
from mercer.solvers.ridge.smoother import Smoother
from mercer.statistics.sample import as_generator

__all__ = ["SEARCH_CRITERIA", "LabelScorer", "LabeledFeatures", "LabeledRows", "SearchCriterion", "folds_of"]

Array = np.ndarray
SearchCriterion = Literal["loo", "cv", "evidence"]
SEARCH_CRITERIA = ("loo", "cv", "evidence")


@storable
@dataclass(frozen=True, eq=False)
class LabeledRows:
    """Features, targets, indices and weights of labeled rows. The operator + concatenates two `LabeledRows`."""

    Z: Array
    y: Array
    index: Array
    weight: Array

    def __add__(self, other: LabeledRows) -> LabeledRows:
        both = ((getattr(self, name), getattr(other, name)) for name in ("Z", "y", "index", "weight"))
        return LabeledRows(*map(np.concatenate, both))


@dataclass(frozen=True, eq=False)
class LabeledFeatures:
    """Function of a block of labeled rows that returns the `LabeledRows` of its rows with a positive weight."""

    features: Features

    def __call__(self, block: Block) -> LabeledRows:
        some = block if block.weight is None else some_rows(block, block.weight > 0)
        Z = rows_to_features(self.features, some.X).astype(np.float64, copy=False)
        weight = np.ones(len(some)) if some.weight is None else some.weight
        return LabeledRows(Z, np.asarray(some.y), some.index, weight)


@dataclass(frozen=True, eq=False)
class LabelScorer:
    """Scores of ridge models on the labeled rows.

    Attributes
    ----------
    targets : ndarray of shape (n, t)
        Numeric targets, or labels coded as +1 and -1 as in `KernelRidgeClassifier`: one column for two labels.
    codes : ndarray of shape (n,) or None
        Indices of the labels; None for numeric targets.
    folds : ndarray of shape (n,)
        The fold of each row.
    criterion : {"loo", "cv", "evidence"}
        The score.
    weight : ndarray of shape (n,)
        Weights > 0.
    """

    targets: Array
    codes: Array | None
    folds: Array
    criterion: SearchCriterion
    weight: Array

    @classmethod
    def of(
        cls,
        owner: str,
        rows: LabeledRows,
        *,
        labels: bool,
        criterion: SearchCriterion,
        cv: Any,
        random_state: Any,
        n_rows: int | None = None,
    ) -> Self:
        """Return the scorer of some labeled rows.

        Parameters
        ----------
        owner : str
            Name of the search, for error messages.
        rows : LabeledRows
            The labeled rows.
        labels : bool
            Whether targets are labels.
        criterion : {"loo", "cv", "evidence"}
            The score.
        cv : int or array-like of shape (n_rows,)
            Number of folds, or the fold of each row; used by "cv" only.
        random_state : int, Generator, RandomState or None
            Seed of the folds.
        n_rows : int or None, default=None
            Number of all rows, labeled or not, if it is known.

        Raises
        ------
        DataError
            If there are too few labeled rows or labels for the criterion.
        """
        n = len(rows.y)
        if n < 2:
            msg = f"{owner} needs at least two labeled rows, got {n}."
            raise DataError(msg)
        targets, codes = rows.y, None
        if labels:
            known = np.unique(rows.y)
            if len(known) < 2:
                msg = f"{owner} needs rows of at least two classes, got one class only: {known.tolist()[0]!r}."
                raise DataError(msg)
            codes = label_codes(rows.y, known)
            targets = label_signs(codes, len(known))
            if criterion != "evidence" and np.bincount(codes).max() < 2:
                msg = (
                    f"{owner}: criterion={criterion!r} needs a class with at least two labels, one to learn from and "
                    "one to predict. With one label per class use criterion='evidence'."
                )
                raise DataError(msg)
        folds = np.arange(n)
        if criterion == "cv":
            strata = np.zeros(n, int) if codes is None else codes
            folds = folds_of(owner, cv, rows.index, strata, random_state, n_rows)
        return cls(targets, codes, folds, criterion, rows.weight)

    def score(self, smoother: Smoother, penalty: float) -> tuple[float, float, float]:
        """Return three numbers for a penalty: score, standard error of the score, held-out mean squared error."""
        total = float(self.weight.sum())
        if self.criterion == "evidence":
            return smoother.log_evidence(self.targets, penalty) / total, np.nan, np.nan
        if self.criterion == "loo":
            predicted = smoother.one_left_out(self.targets, penalty)
        else:
            predicted = smoother.left_out(self.targets, penalty, self.folds)
        squares = np.square(self.targets - predicted)
        if self.criterion == "loo":
            values = -squares.sum(axis=1)
        elif self.codes is not None:
            values = (self.predicted_codes(predicted) == self.codes).astype(float)
        else:
            mean = self.weight @ self.targets / total
            scatter = self.weight @ np.square(self.targets - mean) / total
            values = 1 - (squares / np.where(scatter > 0, scatter, 1.0)).mean(axis=1)
        n, score = len(values), float(self.weight @ values / total)
        error = np.sqrt(n / (n - 1) * np.square(self.weight * (values - score)).sum()) / total
        return score, float(error), float(self.weight @ squares.sum(axis=1) / total)

    def predicted_codes(self, predicted: Array) -> Array:
        """Return the index of the predicted label of each row, given held-out predictions (n, t).

        Labels that occur only in the fold of the row are not predicted, since the model has not seen them.
        """
        assert self.codes is not None
        values = np.column_stack([-predicted, predicted]) if predicted.shape[1] == 1 else predicted.copy()
        for fold in np.unique(self.folds):
            held = self.folds == fold
            seen = np.bincount(self.codes[~held], minlength=values.shape[1]) > 0
            values[np.ix_(held, ~seen)] = -np.inf
        return values.argmax(axis=1)


def folds_of(owner: str, cv: Any, index: Array, strata: Array, random_state: Any, n_rows: int | None = None) -> Array:
    """Return the fold of each labeled row.

    Parameters
    ----------
    owner : str
        Name of the search, for error messages.
    cv : int or array-like
        The number of folds, which are then stratified and of equal size up to 1; or the fold of each row, labeled or
        not.
    index : ndarray of shape (n,)
        Indices of the labeled rows among all rows.
    strata : ndarray of shape (n,)
        Indices of the labels of the labeled rows, by which folds are stratified; all zero for numeric targets.
    random_state : int, Generator, RandomState or None
        Seed of stratified folds.
    n_rows : int or None, default=None
        Number of all rows, if it is known.

    Returns
    -------
    ndarray of shape (n,)
    """
    if cv in Integer(2):
        order = as_generator(random_state).permutation(len(strata))
        order = order[np.argsort(strata[order], kind="stable")]  # sorted by label, in random order within a label
        folds = np.empty(len(strata), dtype=int)
        folds[order] = np.arange(len(strata)) % min(int(cv), len(strata))
        return folds
    try:
        given = np.asarray(cv)
    except ValueError:  # such as pairs of lists of rows
        given = np.zeros(())
    if given.ndim != 1 or given.dtype.kind not in "iu" or len(given) <= int(index.max()):
        msg = f"{owner}: cv must be an integer >= 2, or an array of integers with the fold of each row, got {cv!r}."
        raise ParameterError(msg)
    if n_rows is not None and len(given) != n_rows:
        msg = (
            f"{owner}: cv must have the fold of each of the {n_rows} rows, labeled or not, got {len(given)}. The folds "
            "of unlabeled rows are ignored."
        )
        raise ParameterError(msg)
    folds = given[index.astype(np.int64)]
    if len(np.unique(folds)) < 2:
        msg = f"{owner}: cv puts all labeled rows into one fold, {folds[0]}; at least two folds are needed."
        raise ParameterError(msg)
    return folds
