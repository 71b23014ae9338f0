"""The choice of the weight C of the losses, by the loss of rows that are held out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from mercer.engines import Report, report_step
from mercer.engines.base import workers
from mercer.engines.passes import Passes
from mercer.solvers.losses.curvature import SampleCurvature
from mercer.solvers.losses.fit import FEWEST_SAMPLE_ROWS, SAMPLE_STEPS, AsGiven
from mercer.solvers.losses.losses import Problem
from mercer.solvers.losses.objective import Penalized
from mercer.solvers.losses.quasi_newton import minimize
from mercer.solvers.losses.sample import ROWS_PER_COEFFICIENT, Sample
from mercer.solvers.ridge.paths import log_loss_scale
from mercer.statistics import row_hashes
from mercer.statistics.feature_cache import RowFeatures
from mercer.statistics.label_counts import LabelCounts

__all__ = ["LossPath", "choose_weight"]

Array = np.ndarray
# One of this many parts of the rows is held out. Two parts are held out in turn if one has fewer rows than the second
# number. If factors of decision values are chosen too, further parts are held out until they have the third number.
PARTS, ENOUGH_HELD_OUT, ENOUGH_FOR_FACTORS = 4, 250, 1000
# Weights of the path, as exponents of ten, in units of one over the mean squared norm of the features. The path ends
# when the loss increases. Then the weights on both sides of the best one are tried.
EXPONENTS = np.arange(-1.0, 7.0)
# Tolerance of the minimizations: the losses of rows held out are flat near the best weight.
PATH_TOL = 1e-5
# Number of entries of features below which threads take more time than they save.
FEW_ENTRIES = 2_000_000
# Number of distinct rows below which there is nothing to hold out.
FEWEST_ROWS = 8
# Seed of the parts. They are a means to find the weight, and the same for every `random_state`.
SEED = 20262


@dataclass(frozen=True)
class LossPath:
    """Losses of rows held out, for a path of weights C of the losses.

    Attributes
    ----------
    weights : ndarray of shape (p,)
        Weights C of the losses, ascending.
    losses : ndarray of shape (p,)
        Mean loss of the rows held out, by weight.
    C : float
        The weight of the least loss.
    n_held_out : int
        Number of rows that were held out.
    factor : float
        The factor of decision values at which the loss of the rows held out is least, if it was chosen too.
    """

    weights: Array
    losses: Array
    C: float
    n_held_out: int
    factor: float = 1.0


@dataclass(frozen=True)
class Split:
    """Minimizations on some rows of the sample, each of which starts from the result for the next smaller weight."""

    fitted: Sample
    held_out: Sample
    coefs: dict[float, Array]  # (D + 1, K) by weight; that of the weight zero is constant

    def values(self, C: float, problem: Problem, fit_intercept: bool) -> Array:
        """Minimize the penalized loss on the rows of the fit, and return the values of those held out."""
        start = self.coefs[max(weight for weight in self.coefs if weight < C)]
        objective = Penalized(self.fitted.engine(), problem, C, fit_intercept, Passes(None))
        curvature = SampleCurvature(self.fitted, self.fitted, C, problem, fit_intercept)
        exact = problem.loss.separable or problem.columns == 1
        coef = minimize(objective, start, curvature, tol=PATH_TOL, max_iter=SAMPLE_STEPS, exact=exact).coef
        self.coefs[C], rows = coef, self.held_out
        return np.asarray(rows.features @ coef[:-1].astype(rows.features.dtype) + coef[-1])


def choose_weight(
    problem: Problem,
    counts: LabelCounts,
    *,
    fit_intercept: bool,
    scaled: bool = False,
    n_jobs: int | None,
    report: Report | None = None,
) -> LossPath:
    """Choose the weight C of the losses by the loss of rows held out from a sample of the rows.

    A quarter of the rows is held out, or two quarters in turn if they are few. Equal rows are in the same part. Each
    minimization starts from the result for a smaller weight. Rows have the weights that they have in the fit to all
    rows, so that the weight can be used there as it is.

    Parameters
    ----------
    problem : Problem
        Features, loss, labels and weights of labels.
    counts : LabelCounts
        The total weight of the rows of each label, and a sample of the rows.
    fit_intercept : bool
        Whether there is an intercept.
    scaled : bool, default=False
        Whether the losses are those of decision values multiplied by a factor, which is chosen for each weight.
    n_jobs : int or None
        Number of threads.
    report : callable or None, default=None
        Receives the progress.
    """
    with workers(1):  # triangular solves with few right-hand sides are faster on one thread
        size = max(FEWEST_SAMPLE_ROWS, ROWS_PER_COEFFICIENT * (problem.features.n_components + 1))
        sample = Sample.of(counts, problem.features, n_jobs).part(size)
        share = 1.0 if counts.sample.is_complete else len(counts.sample.key) / counts.sample.seen
        share *= len(sample.y) / len(counts.sample.key)
        sample = replace(sample, weight=sample.weight * share)
        group, n_groups = groups_of(sample)
        # The effect of C is in proportion to the weight of a row, with its repetitions, times its squared norm.
        typical = float((sample.weight * problem.label_weight[sample.codes]) @ sample.squares) / n_groups
        # A power of ten, so that the weights of the path are round numbers.
        unit = 10.0 ** -np.round(np.log10(typical)) if 0 < typical < np.inf else 1.0
        given = replace(problem, features=RowFeatures(AsGiven(problem.features.n_components)))
        count = 2 if n_groups < PARTS * ENOUGH_HELD_OUT else 1
        if scaled:
            count = min(PARTS, max(count, -(-PARTS * ENOUGH_FOR_FACTORS // n_groups)))
        splits = list(splits_of(sample, given, group, n_groups, count, fit_intercept))
        if not splits:
            return LossPath(np.array([unit]), np.array([np.nan]), float(unit), 0)
        codes, weight, of_rows = (
            np.concatenate(values)
            for values in zip(
                *(
                    (rows.codes, rows.weight * problem.label_weight[rows.codes], rows.weight)
                    for rows in (split.held_out for split in splits)
                ),
                strict=True,
            )
        )
        found: dict[float, float] = {}
        factors: dict[float, float] = {}

        def try_weight(exponent: float) -> float:
            report_step(report, len(found), None, f"C = {unit * 10**exponent:.2g}", "weights")
            C = float(unit * 10**exponent)
            values = np.concatenate([split.values(C, given, fit_intercept) for split in splits])
            factors[exponent] = log_loss_scale(values, codes, weight) if scaled else 1.0
            losses, _ = problem.loss.value_and_slopes(factors[exponent] * values, codes)
            found[exponent] = float(weight @ losses.sum(axis=1)) / float(of_rows.sum())
            return found[exponent]

        for exponent in EXPONENTS:
            if try_weight(exponent) > min(found.values()):
                break
        best = min(found, key=lambda exponent: (found[exponent], exponent))
        for exponent in (best + 0.5, best - 0.5):
            try_weight(exponent)
        exponents = np.array(sorted(found))
        losses = np.array([found[exponent] for exponent in exponents])
        weights = unit * 10**exponents
        n_held_out = sum(len(split.held_out.y) for split in splits)
        chosen = int(np.argmin(losses))
        return LossPath(weights, losses, float(weights[chosen]), n_held_out, factors[float(exponents[chosen])])


def groups_of(sample: Sample) -> tuple[Array, int]:
    """Return a number for each row, the same for equal rows, and how many numbers there are.

    The numbers ascend with a random projection of the features. So they depend neither on the order of the rows nor on
    the units of their columns, up to rounding.
    """
    _, first, inverse = np.unique(row_hashes(sample.X), return_index=True, return_inverse=True)
    features = sample.features[first]
    direction = np.asarray(np.random.default_rng(SEED).normal(size=features.shape[1]), dtype=features.dtype)
    projection = features @ direction
    rank = np.empty(len(first), dtype=np.intp)
    rank[np.argsort(projection, kind="stable")] = np.arange(len(first))
    return rank[inverse], len(first)


def splits_of(
    sample: Sample, problem: Problem, group: Array, n_groups: int, count: int, fit_intercept: bool
) -> Iterator[Split]:
    """Yield splits of the sample into rows of a fit and rows held out, `count` of them."""
    if n_groups < FEWEST_ROWS:
        return
    part = np.random.default_rng(SEED).permutation(n_groups)[group] * PARTS // n_groups
    for number in range(count):
        held_out = part == number
        fitted, others = some(sample, problem.features, ~held_out), some(sample, problem.features, held_out)
        shares = np.bincount(fitted.codes, fitted.weight * problem.label_weight[fitted.codes], len(problem.labels))
        if np.count_nonzero(shares) < 2:
            continue
        coef = np.zeros((problem.features.n_components + 1, problem.columns))
        if fit_intercept:
            shares = np.maximum(shares, 0.01 * shares.max())  # a label may be missing
            coef[-1] = problem.loss.best_constant(shares / shares.sum())
        yield Split(fitted, others, {0.0: coef})


def some(sample: Sample, rows: RowFeatures, mask: Array) -> Sample:
    """Return the features of some rows of a sample as a sample."""
    y, codes, weight, key = (values[mask] for values in (sample.y, sample.codes, sample.weight, sample.key))
    features = sample.features[mask]
    n_jobs = 1 if features.size < FEW_ENTRIES else sample.n_jobs
    return Sample(rows, features, y, codes, weight, key, len(y), n_jobs)
