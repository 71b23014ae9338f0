r"""Local correction of classifiers that minimize a loss on features.

The decision values of the classifier are f(x) = z(x)'w + c. The probabilities of labels are the softmax of

.. math:: a f(x) + b g(x), \qquad g(x) = m + k(x, N) (K_N + \lambda \Omega_N^{-1})^{-1} (s_N - m),

where g predicts the codes s = +1 and -1 of the labels from the near rows N, with the kernel k and the mean m of the
codes. The model has a > 0 and b = 0, a = 0 and b > 0, or both. The factors, the noise :math:`\lambda`, the number of
near rows and the parts are those of the least logarithmic loss of rows that are left out one at a time.

The coefficients without a row are approximated by one Newton step from those with it [1]_, in which the Hessian of the
softmax is replaced by its diagonal blocks times K / (K - 1), which is right for two labels and for equal probabilities.

References
----------
.. [1] Rad, Maleki (2020), A scalable estimate of the out-of-sample prediction error via approximate leave-one-out
   cross-validation, JRSS B 82, 965-996.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import scipy.linalg
from scipy import special

from mercer.data.targets import label_signs
from mercer.engines import Report, enter_stage
from mercer.engines.base import workers
from mercer.solvers.local.near_fit import (
    NOISE_ROWS,
    LocalFit,
    Parts,
    PartScore,
    best_noise,
    prior_variance,
    sample_of,
    weighted_mean,
)
from mercer.solvers.local.near_model import GlobalPart, LeftOut, LeftOutSystems, NearModel, NearProblem
from mercer.solvers.local.near_rows import NearRows
from mercer.solvers.losses.curvature import Factors
from mercer.solvers.losses.losses import Loss
from mercer.solvers.ridge.paths import log_loss_scale

__all__ = ["LossPart", "coupling_of", "fit_logits", "two_factors"]

Array = np.ndarray
# Least value of one minus the leverage of a row that is left out.
LEAST_MARGIN = 1e-3
# Largest number of Newton steps for the two factors, and the length of a step at which they end.
MOST_STEPS, SHORTEST_STEP = 100, 1e-12
# Number of parameters that are fitted to left-out rows: the factors, and the noise.
N_PARAMETERS: dict[Parts, int] = {"global": 1, "local": 2, "both": 3}


@dataclass(frozen=True, eq=False)
class LossPart:
    """A classifier on features at the minimum of a penalized loss, with the Hessian there."""

    coef: Array  # (D, K)
    intercept: Array  # (K,)
    loss: Loss
    C: float  # weight of the losses
    hessian: Factors  # its diagonal blocks, with the factor `coupling`
    coupling: float
    fit_intercept: bool

    def values(self, Z: Array) -> Array:
        """Return the decision values (m, K) of rows with features Z (m, D)."""
        return Z @ self.coef + self.intercept

    def left_out(self, Z: Array, codes: Array, weight: Array) -> Array:
        """Return the decision values (m, K) of rows without these rows.

        Parameters
        ----------
        Z : ndarray of shape (m, D)
            Features of the rows.
        codes : ndarray of shape (m,)
            Indices of their labels.
        weight : ndarray of shape (m,)
            The weight that is left out of each.
        """
        F = self.values(Z)
        _, slopes = self.loss.value_and_slopes(F, codes)
        curvatures = self.loss.curvatures(F, codes)
        rows = np.column_stack([Z, np.full(len(Z), float(self.fit_intercept))]).T
        with workers(1):
            solved = [
                scipy.linalg.solve_triangular(L, rows, lower=True, check_finite=False) for L in self.hessian.lower
            ]
        leverages = np.stack([np.square(columns).sum(axis=0) for columns in solved], axis=1)
        share = self.C * weight[:, None] * leverages
        margin = np.maximum(1 - self.coupling * share * curvatures, LEAST_MARGIN)
        return F + share * slopes / margin


def coupling_of(loss: Loss, columns: int) -> float:
    """Return the factor of the diagonal blocks of a Hessian, for the blocks that couple the columns of a softmax."""
    return 1.0 if loss.separable or columns == 1 else columns / (columns - 1)


@dataclass(frozen=True, eq=False)
class CodeResiduals:
    """Function of the codes of near rows that returns what is left of them without their mean, times a factor."""

    factor: float
    mean: Array  # (K,)

    def __call__(self, targets: Array, values: Array) -> Array:  # noqa: ARG002 - the signature of the contract
        return self.factor * (targets - self.mean)


def code_means(logits: Array) -> Array:
    """Return the means of the codes +1 and -1 of labels (n, K) whose probabilities are the softmax of logits."""
    if logits.shape[1] == 1:
        return np.tanh(logits / 2)
    return 2 * special.softmax(logits, axis=1) - 1


@dataclass(frozen=True, eq=False)
class LeftOutLabels:
    """The labels of rows that are left out: one entry for each row of the sample and each label of its copies."""

    row: Array  # (l,), index in the sample
    codes: Array  # (l,), index of the label
    weight: Array  # (l,)
    signs: Array  # (l, K), codes +1 and -1
    decisions: Array  # (l, K), decision values of the global part
    means: Array  # (m, K), mean codes of the rows of the sample

    @classmethod
    def of(cls, rows: NearRows, sample: Array, part: LossPart, Z: Array) -> LeftOutLabels:
        """Return the labels of rows whose targets are mean codes, given the features Z (m, D) of the sample."""
        means, weight = rows.targets[sample], rows.weight[sample]
        shares = np.column_stack([1 - means, 1 + means]) / 2 if means.shape[1] == 1 else (1 + means) / 2
        row, codes = np.nonzero(shares > 1e-9)
        decisions = part.left_out(Z[row], codes, np.minimum(weight, 1.0)[row])
        return cls(row, codes, weight[row] * shares[row, codes], label_signs(codes, shares.shape[1]), decisions, means)

    def first(self, count: int) -> LeftOutLabels:
        """Return the entries of the first rows of the sample."""
        few = self.row < count
        return replace(
            self,
            row=self.row[few],
            codes=self.codes[few],
            weight=self.weight[few],
            signs=self.signs[few],
            decisions=self.decisions[few],
        )

    def predictions(self, left_out: LeftOut) -> Array:
        """Return predictions (l, K) of codes from near rows, given the errors of mean codes."""
        apart = self.signs - self.means[self.row]
        return self.signs - left_out.errors[self.row] - left_out.slope[self.row, None] * apart

    def factor(self, values: Array) -> float:
        """Return the factor of decision values (l, K) of the least logarithmic loss."""
        return log_loss_scale(values, self.codes, self.weight)

    def factors(self, values: Array) -> tuple[float, float]:
        """Return the best factors of the decision values of the global part and of others (l, K)."""
        return two_factors(self.decisions, values, self.codes, self.weight)

    def loss(self, logits: Array) -> float:
        """Return the weighted mean of the logarithmic losses, given logits (l, K)."""
        losses = -special.log_softmax(as_columns(logits), axis=1)[np.arange(len(self.codes)), self.codes]
        return float(self.weight @ losses / self.weight.sum())

    def squared_error(self, logits: Array) -> float:
        """Return the weighted mean of the squared errors of the codes, summed over columns."""
        errors = np.square(self.signs - code_means(logits)).sum(axis=1)
        return float(self.weight @ errors / self.weight.sum())

    def left_out(self, rows: NearRows, sample: Array, logits: Array) -> LeftOut:
        """Return logits (l, K) as leave-one-out predictions of rows with one label each."""
        ones = np.ones(len(logits))
        entries = replace(
            rows,
            X=rows.X[sample[self.row]],
            targets=self.signs,
            weight=self.weight,
            scatter=np.zeros_like(self.signs),
            copies=None,
        )
        return LeftOut(np.arange(len(logits)), self.signs - logits, ones, ones, entries)


def fit_logits(
    problem: NearProblem,
    part: LossPart,
    *,
    parts: Sequence[Parts],
    neighbors: Sequence[int],
    seed: int,
    sample: Array | None = None,
    mean: Array | None = None,
    report: Report | None = None,
) -> LocalFit:
    """Fit the local correction of a classifier, and choose everything by the logarithmic loss of left-out rows.

    Parameters
    ----------
    problem : NearProblem
        Rows, whose targets are the codes of labels, kernel, neighbors, and the features of the global part.
    part : LossPart
        The classifier.
    parts : sequence of {"global", "local", "both"}
        The choices that are compared.
    neighbors : sequence of int
        Numbers of near rows that are compared, at least one.
    seed : int
        Seed of the sample of rows that are left out.
    sample, mean
        As in `mercer.solvers.local.near_fit.fit_near`.
    report : callable or None, default=None
        Receives the progress.

    Returns
    -------
    LocalFit
        A model whose predictions are logits: the probabilities are their softmax.
    """
    rows = problem.rows
    sample = sample_of(len(rows), seed) if sample is None else sample
    Z = problem.query_features(rows.X[sample])
    assert Z is not None
    labels = LeftOutLabels.of(rows, sample, part, Z)
    alone = labels.factor(labels.decisions)
    mean = weighted_mean(problem) if mean is None else mean
    found: list[tuple[PartScore, Array, Callable[[], NearModel]]] = []

    def add(name: Parts, count: int, noise: float, logits: Array, model: Callable[[], NearModel]) -> None:
        # The term of Akaike's criterion, for the parameters that are fitted to the same left-out rows.
        loss = labels.loss(logits) + N_PARAMETERS[name] / float(labels.weight.sum())
        found.append((PartScore(name, count, noise, labels.squared_error(logits), loss), logits, model))

    if "global" in parts:
        add("global", 0, 1 / part.C, alone * labels.decisions, partial(global_model, problem, part, alone, sample[:1]))
    for count in () if tuple(parts) == ("global",) else neighbors:
        enter_stage(report, "leave rows out")
        near = replace(problem, n_neighbors=count)
        if "local" in parts:
            noise, G = best_predictions(near, labels, sample, mean, one_part, report)
            b = labels.factor(G)
            add("local", count, noise, b * G, partial(near_model, near.local_part(), noise, None, 0.0, b, mean))
        if "both" in parts:
            noise, G = best_predictions(near, labels, sample, mean, both_parts, report)
            a, b = labels.factors(G)
            logits = a * labels.decisions + b * G
            add("both", count, noise, logits, partial(near_model, near, noise, part, a, b, mean))
    score, logits, model = min(found, key=lambda entry: entry[0].loss)
    scores = tuple(entry[0] for entry in found)
    return LocalFit(model(), score.parts, scores, labels.left_out(rows, sample, logits))


def best_predictions(
    problem: NearProblem,
    labels: LeftOutLabels,
    sample: Array,
    mean: Array,
    logits_of: Callable[[LeftOutLabels, Array], Array],
    report: Report | None,
) -> tuple[float, Array]:
    """Return the noise of the least loss of left-out rows, and their predictions (l, K) with this noise.

    Parameters
    ----------
    problem : NearProblem
        Rows, whose targets are codes of labels.
    labels : LeftOutLabels
        The labels that are left out.
    sample : ndarray of shape (m,)
        Indices of their rows.
    mean : ndarray of shape (K,)
        Mean of the targets.
    logits_of : callable
        Returns the best logits of labels, given predictions.
    report : callable or None
        Receives the progress.
    """
    problem, constant = problem.local_part(), GlobalPart(np.zeros((0, len(mean))), mean, None)
    few = labels.first(NOISE_ROWS)

    def loss(left_out: LeftOut) -> float:
        return few.loss(logits_of(few, few.predictions(left_out)))

    systems = LeftOutSystems.of(problem, sample[:NOISE_ROWS])
    noise = best_noise(partial(systems.left_out, part=constant), prior_variance(problem), loss, report)
    if len(sample) > NOISE_ROWS:
        systems = LeftOutSystems.of(problem, sample)
    return noise, labels.predictions(systems.left_out(noise, constant))


def one_part(labels: LeftOutLabels, values: Array) -> Array:
    """Return the best logits that are a multiple of decision values."""
    return labels.factor(values) * values


def both_parts(labels: LeftOutLabels, values: Array) -> Array:
    """Return the best logits that are multiples of the decision values of the global part and of others."""
    a, b = labels.factors(values)
    return a * labels.decisions + b * values


def global_model(problem: NearProblem, part: LossPart, factor: float, index: Array) -> NearModel:
    """Return the model without near rows."""
    t, values = len(part.intercept), GlobalPart(factor * part.coef, factor * part.intercept, None)
    return NearModel(problem.global_part().with_rows(index), 1 / part.C, values, np.zeros((0, t)), np.ones(t))


def near_model(problem: NearProblem, noise: float, part: LossPart | None, a: float, b: float, mean: Array) -> NearModel:
    """Return the model with near rows, and the classifier `part` if it is not None."""
    values = GlobalPart(np.zeros((0, len(mean))), b * mean, None)
    if part is not None:
        values = GlobalPart(a * part.coef, a * part.intercept + b * mean, None)
    rule = CodeResiduals(b, mean)
    residuals = rule(problem.rows.targets, values.intercept)
    problem = replace(problem, rows=replace(problem.rows, copies=None))
    return NearModel(problem, noise, values, residuals, np.ones(len(mean)), residual=rule)


def as_columns(values: Array) -> Array:
    """Return decision values with one column per label, also for two labels."""
    return values * np.array([-0.5, 0.5]) if values.shape[1] == 1 else values


def two_factors(F: Array, G: Array, codes: Array, weight: Array) -> tuple[float, float]:
    """Return the factors a, b >= 0 for which the softmax of a F + b G has the least logarithmic loss.

    Labels are smoothed as in `log_loss_scale`, by one more row whose label is uniformly distributed, so that the
    factors are finite. The loss is convex, and minimized by Newton steps.

    Parameters
    ----------
    F, G : ndarray of shape (l, 1) or (l, K)
        Decision values; one column for two labels.
    codes : ndarray of shape (l,)
        Indices of the labels.
    weight : ndarray of shape (l,)
        Weights of the rows.
    """
    columns = np.stack([as_columns(F), as_columns(G)])  # (2, l, K)
    n = weight.sum()
    share = weight / n
    rows = np.arange(len(codes))
    units = np.sqrt(np.maximum(np.einsum("plk,plk,l->p", columns, columns, share), np.finfo(float).tiny))
    columns = columns / units[:, None, None]
    wanted = (n * columns[:, rows, codes] + columns.mean(axis=2)) / (n + 1) @ share

    def loss(factors: Array) -> float:
        return float(share @ special.logsumexp(np.einsum("p,plk->lk", factors, columns), axis=1) - factors @ wanted)

    factors = np.array([log_loss_scale(F, codes, weight) * units[0], 0.0])
    value = loss(factors)
    for _ in range(MOST_STEPS):
        P = special.softmax(np.einsum("p,plk->lk", factors, columns), axis=1)
        means = np.einsum("lk,plk->pl", P, columns)
        gradient = means @ share - wanted
        second = np.einsum("lk,plk,qlk,l->pq", P, columns, columns, share) - np.einsum(
            "pl,ql,l->pq", means, means, share
        )
        second[np.diag_indices(2)] += 1e-12 * max(np.trace(second), np.finfo(float).tiny)
        step = -np.linalg.solve(second, gradient)
        length = 1.0
        while length > 1e-6 and not loss(factors + length * step) <= value:
            length /= 2
        if length <= 1e-6:
            break
        factors = factors + length * step
        value = loss(factors)
        if np.abs(length * step).max() < SHORTEST_STEP * np.abs(factors).max():
            break
    a, b = (factors / units).tolist()
    if a < 0 <= b:
        return 0.0, log_loss_scale(G, codes, weight)
    return (a, b) if a >= 0 and b >= 0 else (log_loss_scale(F, codes, weight), 0.0)
