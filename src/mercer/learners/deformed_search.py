"""How much of the graph, and which penalty: deformed models tried on the labels, with one graph for all of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from numbers import Real
from typing import Any, Self

import numpy as np
import scipy.linalg

from mercer.data.sources import source_of
from mercer.engines import Progress
from mercer.errors import DataError, ParameterError
from mercer.graphs import Deformed
from mercer.graphs.base import GraphSummary, Penalty, Roughness
from mercer.graphs.deformed import MAX_POWER
from mercer.graphs.whitening import roughest_directions
from mercer.learners.base import Classifier, Learner
from mercer.learners.deformation_trials import DeformationTrial, best_of, warn_of_edges
from mercer.learners.ridge import KernelRidge, KernelRidgeClassifier
from mercer.linalg.cholesky import factorize
from mercer.maps.base import fresh_copy
from mercer.solvers.ridge.label_scores import By, LabeledFeatures, LabelScorer
from mercer.solvers.ridge.smoother import Smoother

__all__ = ["DeformationTrial", "TunedDeformation", "tune_deformation"]

Array = np.ndarray
ALPHAS = (0.0, 0.01, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4)
# Ridge penalties relative to the largest eigenvalue of the labeled rows: below, only rounding is fitted.
PENALTIES = np.geomspace(1e-7, 10.0, 17)


@dataclass(frozen=True, eq=False)
class TunedDeformation:
    """All models that were tried, and the best of them, fitted.

    Attributes
    ----------
    model : KernelRidge or KernelRidgeClassifier
        The best model, fitted on all labeled rows.
    best : DeformationTrial
        The best trial; among equals that of the least squared error, and then of the fewest degrees of freedom.
    trials : tuple of DeformationTrial
        All trials, in the order in which they were made.
    by : {"loo", "cv", "evidence"}
        What scores are. "loo": minus the mean squared error of left-out rows; "cv": the share of held-out labels that
        were predicted, or R^2 of held-out numbers; "evidence": the logarithm of the marginal likelihood, a row.
    n_labeled : int
        Rows whose target is known.
    graph : GraphSummary
        The graph of all rows.
    """

    model: Any
    best: DeformationTrial
    trials: tuple[DeformationTrial, ...]
    by: By
    n_labeled: int
    graph: GraphSummary

    @property
    def plain(self) -> DeformationTrial | None:
        """The best trial without the graph, alpha = 0, or None if there was none."""
        return best_of([trial for trial in self.trials if trial.alpha == 0])

    def to_dict(self) -> dict[str, Any]:
        """Return all but the model as plain Python values."""
        return {
            "by": self.by,
            "n_labeled": self.n_labeled,
            "graph": asdict(self.graph),
            "best": asdict(self.best),
            "trials": [asdict(trial) for trial in self.trials],
        }

    def __str__(self) -> str:
        names = {"cv": "cross-validation", "loo": "leave-one-out", "evidence": "evidence"}
        powers = sorted({trial.power for trial in self.trials})
        lines = [
            f"{names[self.by]} on {self.n_labeled} labeled of {self.graph.n_nodes} rows, the best penalty of each:",
            f"{'alpha':>8}" + "".join(f"{f'power {power:g}':>18}" for power in powers),
        ]
        for alpha in sorted({trial.alpha for trial in self.trials}):
            line = f"{alpha:>8g}"
            for power in powers:
                some = [trial for trial in self.trials if (trial.alpha, trial.power) == (alpha, power)]
                line += f"{self._cell(best_of(some)):>18}"
            lines.append(line.rstrip())
        b = self.best
        lines.append(
            f"best: alpha={b.alpha:g}, power={b.power:g}, penalty={b.penalty:.3g}, {self._cell(b).strip(' *')}"
        )
        return "\n".join(lines)

    def _cell(self, trial: DeformationTrial | None) -> str:
        if trial is None:
            return ""
        error = "" if np.isnan(trial.standard_error) else f" ± {trial.standard_error:.3f}"
        return f"{trial.score:.3f}{error}{' *' if trial is self.best else '  '}"

    __repr__ = __str__


def tune_deformation(
    learner: Learner,
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    alphas: Sequence[float] = ALPHAS,
    powers: Sequence[float] = (1, 2, 3),
    penalties: Sequence[float] | None = None,
    by: By = "loo",
    cv: Any = 5,
    random_state: Any = 0,
) -> TunedDeformation:
    r"""Choose alpha and power of a deformation, and the ridge penalty, by the labels.

    The graph is made once, and its roughness :math:`\Phi^\top L^c \Phi` once a power; every alpha costs a Cholesky
    factorization and every penalty next to nothing, since solves need the features of the labeled rows alone.

    Parameters
    ----------
    learner : KernelRidge or KernelRidgeClassifier
        The model, whose `feature_map` is a `Deformed` and whose `unlabeled` marks rows without a target. It is not
        changed; its own alpha, and alpha and power of its map, do not matter.
    X, y, sample_weight
        All rows, labeled and not, as `fit` of the learner takes them: arrays, blocks that can be read again, or dask
        collections. Weights are repetitions of rows.
    alphas : sequence of float, default=(0, 0.01, 0.1, 1, 10, 100, 1000, 10000)
        Weights of the roughness; zero is the map without a graph, and tells what that is worth.
    powers : sequence of float, default=(1, 2, 3)
        Powers of the Laplacian.
    penalties : sequence of float, default=None
        Ridge penalties > 0. None means 17 of them, from 1e-7 to 10 times the largest eigenvalue of the kernel matrix
        of the labeled rows, for each alpha and power.
    by : {"loo", "cv", "evidence"}, default="loo"
        What to choose by. "loo": the squared error of rows left out one by one, labels being +-1; "cv": the share of
        labels, or R^2 of numbers, of folds held out; "evidence": the marginal likelihood, which leaves out no row, and
        so is there for one label a class. See Notes.
    cv : int or array-like of shape (n,), default=5
        Number of folds, stratified by label; or the number of the fold of each row, to keep groups together. Unlabeled
        rows are never in a fold.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the folds.

    Returns
    -------
    TunedDeformation

    Notes
    -----
    Rows held out stay nodes of the graph; their labels alone are hidden. So scores are those of rows that are known
    beforehand (transductive), and new rows may do worse. The best of many scores is too good by chance, and with few
    labels by much: take accuracy from labels that had no part in it.

    If the best lies at an end of what was tried, and clearly above the rest, a `MercerWarning` says so; ends that
    nothing lies beyond do not count (alpha 0, power 1), nor do lists of one or two. Print the result for a table of
    scores; ``pandas.DataFrame(tuned.to_dict()["trials"])`` has all of them. `progress` of the learner reports powers.

    Few labels make few different shares of them: many trials are equal then by "cv", and of those the one of the least
    squared error is taken, and then the one of the fewest degrees of freedom, the smoothest. "loo" tells more of the
    same labels, and is the one to prefer. "evidence" takes labels for numbers with Gaussian noise, which they are not,
    and is often content without a graph.

    Memory: two matrices of (D, D), and the features of the labeled rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from mercer import Deformed, Gaussian, KernelRidgeClassifier, NeighborGraph, RandomFourier, tune_deformation
    >>> X, truth = make_moons(400, noise=0.08, random_state=0)
    >>> y = np.full(400, -1)
    >>> for label in (0, 1):
    ...     y[np.flatnonzero(truth == label)[:5]] = label  # five labels a class
    >>> feature_map = Deformed(RandomFourier(Gaussian(0.3), 300, random_state=0), NeighborGraph(8))
    >>> tuned = tune_deformation(KernelRidgeClassifier(feature_map, unlabeled=-1), X, y, powers=(1, 2))
    >>> bool(tuned.best.alpha > 0)
    True
    >>> bool(tuned.model.score(X, truth) > 0.98)
    True
    """
    model = checked_learner(learner)
    grid = Grid.of(alphas, powers, penalties, by)
    prototype = model._unfitted_map(model.random_state)
    reader = model._reader(prototype.width, fresh=True)
    engine = source_of(X, y, sample_weight, owner=type(model).__name__).engine(reader)
    fit = model._fit_of(engine, prototype, model.random_state, {})
    inner, measure = prototype.measure(engine)
    rows = fit.labeled.sum(LabeledFeatures(inner.features_))
    classes = isinstance(model, Classifier)
    scorer = LabelScorer.of(rows, classes=classes, by=by, cv=cv, random_state=random_state, n_rows=engine.n_rows)
    weight = float(rows.weight.sum())
    if by == "evidence" and weight <= model.fit_intercept:
        msg = (
            "tune_deformation: by='evidence' counts weights as rows, and needs more than one of all labeled rows, "
            f"got {weight:g}. Scale the weights to a mean of one, or use by='loo'."
        )
        raise DataError(msg)
    if by == "evidence" and len(rows.Z) - model.fit_intercept < 2:
        msg = (
            f"tune_deformation: {len(rows.Z)} labeled rows and an intercept have the same evidence whatever is tried. "
            "Label more rows, or set alpha and power of the map by hand."
        )
        raise DataError(msg)
    trials: list[DeformationTrial] = []
    best, kept = None, None
    report, start = model._report(), time.perf_counter()
    for number, power in enumerate(grid.powers, 1):
        found = finite(measure(Penalty(grid.largest, power)))
        for alpha, Z in grid.deformed(power, rows.Z, found.matrix, prototype.rank):
            smoother = Smoother.of(Z, fit_intercept=model.fit_intercept, weight=rows.weight)
            for penalty in grid.penalties_for(smoother):
                scores = scorer.score(smoother, penalty)
                trials.append(DeformationTrial(alpha, power, penalty, *scores, smoother.degrees(penalty)))
        better = best_of(trials)
        if better is not best:
            best, kept = better, found
        if report is not None:
            nodes, note = found.graph.n_nodes, f"tuning, power {power:g}"
            seconds = time.perf_counter() - start
            report(Progress(nodes * number, nodes * len(grid.powers), seconds, note))
    assert best is not None
    assert kept is not None
    warn_of_edges(trials, best, by)
    deformed = fresh_copy(prototype, strength=best.alpha, power=best.power)
    deformed.fit_roughness(inner, scaled(kept, best.alpha / grid.largest), engine.first().X.dtype)
    model.set_params(feature_map=fresh_copy(deformed), alpha=best.penalty)
    model._set_map(deformed)
    model._coding_ = reader.coding
    model._solve(fit.labeled.accumulate(model._statistic(fit), fit.report), fit)
    return TunedDeformation(model, best, tuple(trials), by, len(rows.Z), kept.graph)


def checked_learner(learner: Any) -> Any:
    """Return an unfitted copy of a ridge learner on a deformed map, or say what is wrong with it."""
    if not isinstance(learner, KernelRidge | KernelRidgeClassifier):
        msg = (
            "tune_deformation: learner must be a KernelRidge or a KernelRidgeClassifier, whose solves are cheap, got "
            f"{type(learner).__name__}. Tune one of these, and give its feature map to another learner."
        )
        raise ParameterError(msg)
    if not isinstance(learner.feature_map, Deformed):
        msg = (
            "tune_deformation: feature_map of the learner must be a Deformed map, got "
            f"{learner.feature_map!r}. Try Deformed(RandomFourier(Gaussian('median')), NeighborGraph())."
        )
        raise ParameterError(msg)
    return fresh_copy(learner)


@dataclass(frozen=True)
class Grid:
    """What is to be tried."""

    alphas: tuple[float, ...]
    powers: tuple[float, ...]
    penalties: tuple[float, ...] | None

    @classmethod
    def of(cls, alphas: Any, powers: Any, penalties: Any, by: Any) -> Self:
        """Return the grid, ascending, without repetitions, or say what is wrong with it."""
        if by not in ("cv", "loo", "evidence"):
            msg = f"tune_deformation: by must be 'loo', 'cv' or 'evidence', got {by!r}."
            raise ParameterError(msg)
        return cls(
            numbers("alphas", alphas),
            numbers("powers", powers, most=MAX_POWER),
            None if penalties is None else numbers("penalties", penalties, above_zero=True),
        )

    @property
    def largest(self) -> float:
        """The alpha whose roughness all others are a part of, so that rounding is that of the largest."""
        return self.alphas[-1] or 1.0

    def penalties_for(self, smoother: Smoother) -> tuple[float, ...]:
        """Return the ridge penalties to try."""
        if self.penalties is not None:
            return self.penalties
        largest = float(smoother.values.max(initial=0.0))
        return tuple((PENALTIES * (largest if largest > 0 else 1.0)).tolist())

    def deformed(self, power: float, Z: Array, roughness: Array, rank: int | None) -> Iterator[tuple[float, Array]]:
        """Yield each alpha, and features deformed by so much of a roughness."""
        low = None if rank is None or rank >= len(roughness) else roughest_directions(roughness, rank)[:2]
        for alpha in self.alphas:
            share = alpha / self.largest
            if alpha == 0:
                if power == self.powers[0]:  # without a graph its power does not matter
                    yield alpha, Z
            elif low is None:
                yield alpha, whitened(Z, roughness, share)
            else:
                basis, shrinkage = low
                shrinkage = 1 - (1 + share * ((1 - shrinkage) ** -2 - 1)) ** -0.5
                yield alpha, Z - ((Z @ basis) * shrinkage) @ basis.T


def numbers(name: str, values: Any, *, above_zero: bool = False, most: float = np.inf) -> tuple[float, ...]:
    """Return finite numbers >= 0, ascending, each once."""
    values = [values] if isinstance(values, Real) else list(values)
    least = np.finfo(float).tiny if above_zero else 0.0
    good = (isinstance(v, Real) and not isinstance(v, bool) and least <= float(v) < np.inf for v in values)
    if not values or not all(good):
        msg = f"tune_deformation: {name} must be finite numbers {'>' if above_zero else '>='} 0, got {values!r}."
        raise ParameterError(msg)
    if max(values) > most:
        msg = f"tune_deformation: {name} must be at most {most:g}, got {max(values)!r}."
        raise ParameterError(msg)
    return tuple(sorted({float(v) for v in values}))


def finite(found: Roughness) -> Roughness:
    """Return a roughness, or say that it overflowed."""
    if not np.isfinite(np.diagonal(found.matrix)).all():
        msg = "tune_deformation: the roughness of the features overflows. Scale the rows down, or alphas."
        raise DataError(msg)
    return found


def whitened(Z: Array, roughness: Array, share: float) -> Array:
    """Return features whose inner products are those of Z (I + share U)^-1 Z', from the upper triangle of U."""
    A = roughness * share
    A[np.diag_indices_from(A)] += 1.0
    if not factorize(A):
        msg = (
            "tune_deformation: I + Phi' M Phi is not positive definite, through rounding. Leave out the largest of "
            "alphas, or pass float64."
        )
        raise DataError(msg)
    return scipy.linalg.solve_triangular(A.T, Z.T, lower=True, check_finite=False).T


def scaled(found: Roughness, share: float) -> Roughness:
    """Return so much of a roughness."""
    return replace(found, matrix=found.matrix * share)
