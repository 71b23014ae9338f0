r"""Selection of the weights of features, and of the ridge penalty, by few labels.

The features are eigenvectors of a graph with eigenvalues :math:`\lambda`, and possibly those of another map. A
candidate weighs the eigenvectors by :math:`(1 + t (\lambda / \lambda_1)^c)^{-1/2}`, with the smallest positive
eigenvalue :math:`\lambda_1`, and the other features by a number. Classes have equal weights. The decision values are a
ridge fit of centered codes of labels without an intercept; in the limit of a large penalty they are
:math:`\sum_i k(x, x_i) (y_i - \bar y)`, the solution of a Poisson equation with sources of mean zero at the labeled
rows [1]_.

Candidates are compared by the log loss of left-out rows. Each fold leaves out at most one label of each class, so that
the remaining labels are balanced if all are; with many labels there are ten folds. The default candidate is replaced
only by one that is better by more than two standard errors of the difference.

.. [1] Calder, Cook, Thorpe, Slepcev (2020), Poisson learning: graph based semi-supervised learning at very low label
   rates, ICML.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse.linalg
from scipy import special

from mercer.solvers.ridge.paths import log_loss_scale

__all__ = ["FewLabels", "Parts", "Selected", "Setting", "SettingGrid", "balanced_folds", "fit_setting", "select"]

Array = np.ndarray
# Ridge penalties, relative to the largest eigenvalue of the weighted Gram matrix. The last one is the limit in which
# the decision values are those of Poisson learning.
PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e2)
# Candidates with more than `MOST_COMPARED` labels. Many labels determine many functions, rough ones too.
MANY_PENALTIES = (1e-8, 1e-7, 1e-6, *PENALTIES)
MANY_BALANCES = (0.0, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 0.99, 0.997, 0.999, 1.0)
MANY_POWERS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
# Candidates that are compared if nothing is given, and the one without labels to decide.
STRENGTHS = (1.0, 10.0, 100.0)
POWERS = (1.0, 1.5, 2.0, 3.0)
BALANCES = (0.0, 0.01, 0.1, 0.5, 0.9, 0.99, 1.0)
DEFAULT_STRENGTH, DEFAULT_POWER, DEFAULT_PENALTY, DEFAULT_BALANCE = 10.0, 2.0, 0.1, 0.5
MOST_FOLDS = 10
# Standard errors by which a candidate must be better than the default: the best of many candidates is optimistic.
STANDARD_ERRORS = 2.0
# Of more labels than this, a sample is used to compare all candidates. The more labels there are, the less the graph
# adds to the other features, so that the result is where a search on all labels begins.
MOST_COMPARED = 1000
# Order of a Gram matrix up to which its largest eigenvalue is computed by a dense decomposition.
MOST_DENSE = 500


@dataclass(frozen=True)
class Setting:
    """The weights of the features and the penalty.

    Attributes
    ----------
    strength : float
        The number t: how much the smoothest functions that are not constant are penalized.
    power : float
        The power c of the eigenvalues.
    balance : float
        The weight of the kernel of the graph, from 0 to 1; that of the other map is one minus it.
    penalty : float
        The ridge penalty, relative to the largest eigenvalue of the weighted Gram matrix of the labeled rows.
    components : int or None, default=None
        Number of eigenvectors that are used, the smoothest ones; None means all.
    """

    strength: float
    power: float
    balance: float
    penalty: float
    components: int | None = None


@dataclass(frozen=True)
class SettingGrid:
    """The candidates: the values of each part of a `Setting`."""

    strengths: tuple[float, ...] = STRENGTHS
    powers: tuple[float, ...] = POWERS
    balances: tuple[float, ...] = (1.0,)
    penalties: tuple[float, ...] = PENALTIES
    components: tuple[int | None, ...] = (None,)

    def default(self) -> Setting:
        """Return the candidate that is used if labels cannot decide: the values nearest to the defaults."""

        def nearest(values: Sequence[float], to: float) -> float:
            return min(values, key=lambda value: abs(np.log((value + 1e-9) / to)))

        return Setting(
            nearest(self.strengths, DEFAULT_STRENGTH),
            nearest(self.powers, DEFAULT_POWER),
            nearest(self.balances, DEFAULT_BALANCE),
            nearest(self.penalties, DEFAULT_PENALTY),
            self.components[0],
        )

    def weights(self) -> Iterator[Setting]:
        """Yield all combinations of strength, power, balance and components that differ, with the first penalty."""
        for balance in self.balances:
            if balance == 0:
                yield Setting(self.strengths[0], self.powers[0], 0.0, self.penalties[0], self.components[0])
            else:
                for strength, power, components in product(self.strengths, self.powers, self.components):
                    yield Setting(strength, power, balance, self.penalties[0], components)


@dataclass(frozen=True, eq=False)
class Parts:
    """The components of the features: which of them are eigenvectors, and their scales.

    Attributes
    ----------
    values : ndarray of shape (k,)
        Eigenvalues of the first k components.
    n_components : int
        Number of all components; those after the first k belong to another map.
    graph_squares : ndarray of shape (k,)
        Mean squares of the eigenvectors over the nodes.
    other_mean : float
        Mean of k(x, x) of the other map over the labeled rows.
    connected : bool
        Whether the graph is connected. Its first eigenvector is then constant, and is left out, since decision values
        are compared within a row.
    """

    values: Array
    n_components: int
    graph_squares: Array
    other_mean: float = 1.0
    connected: bool = True

    @property
    def first_value(self) -> float:
        """The smallest positive eigenvalue, or one if there is none."""
        positive = self.values[self.values > 1e-9]
        return float(positive.min()) if positive.size else 1.0

    def factors(self, strength: float, power: float, balance: float, components: int | None = None) -> Array:
        """Return the factors (D,) by which components are multiplied; both kernels have the mean k(x, x) = 1."""
        squares = 1.0 / (1.0 + strength * (self.values / self.first_value) ** power)
        if components is not None:
            squares[components:] = 0.0
        if self.connected and len(squares) > 1:
            squares[0] = 0.0
        out = np.empty(self.n_components)
        k = len(self.values)
        mean = float(squares @ self.graph_squares)
        out[:k] = np.sqrt(balance * squares / max(mean, np.finfo(float).tiny))
        out[k:] = np.sqrt((1 - balance) / max(self.other_mean, np.finfo(float).tiny))
        return out


@dataclass(frozen=True, eq=False)
class FewLabels:
    """Labeled rows: features, indices of labels, and weights by which classes count equally.

    Attributes
    ----------
    Z : ndarray of shape (m, D)
        Features, without factors.
    codes : ndarray of shape (m,)
        Indices of the labels.
    n_labels : int
        Number of classes K.
    weight : ndarray of shape (m,)
        Weights with the mean one; each class has the same sum.
    """

    Z: Array
    codes: Array
    n_labels: int
    weight: Array

    @classmethod
    def of(cls, Z: Array, codes: Array, n_labels: int, weight: Array) -> FewLabels:
        """Return the labeled rows with balanced weights."""
        totals = np.bincount(codes, weight, minlength=n_labels)
        balanced = weight / totals[codes]
        return cls(Z, codes, n_labels, balanced * (len(codes) / balanced.sum()))

    def __getitem__(self, rows: Array) -> FewLabels:
        return FewLabels(self.Z[rows], self.codes[rows], self.n_labels, self.weight[rows])

    def __len__(self) -> int:
        return len(self.codes)

    def targets(self) -> Array:
        """Return the codes of labels (m, K): indicators minus 1/K, whose balanced mean is zero."""
        return np.eye(self.n_labels)[self.codes] - 1.0 / self.n_labels


@dataclass(frozen=True, eq=False, repr=False)
class Selected:
    """The result of a selection.

    Attributes
    ----------
    setting : Setting
        The selected setting.
    loss, default_loss : float
        Log losses of left-out rows, for this setting and the default one; NaN if no class has two labels.
    left_out : ndarray of shape (m, K) or None
        Decision values of left-out rows.
    compared : int
        Number of candidates that were compared.
    """

    setting: Setting
    loss: float
    default_loss: float
    left_out: Array | None
    compared: int


def balanced_folds(codes: Array, seed: int = 0) -> Array:
    """Return the fold of each row: each class has at most one row in each fold, or they are spread over ten folds.

    Examples
    --------
    >>> import numpy as np
    >>> folds = balanced_folds(np.array([0, 0, 1, 1]))
    >>> sorted(folds[:2].tolist()), sorted(folds[2:].tolist())
    ([0, 1], [0, 1])
    """
    rng = np.random.default_rng(seed)
    counts = np.bincount(codes)
    n_folds = min(MOST_FOLDS, int(counts.max()))
    folds = np.empty(len(codes), dtype=int)
    for code in np.flatnonzero(counts):
        rows = rng.permutation(np.flatnonzero(codes == code))
        folds[rows] = np.arange(len(rows)) % n_folds
    return folds


def select(labels: FewLabels, parts: Parts, grid: SettingGrid, seed: int = 0) -> Selected:
    """Return the setting of the least log loss of left-out rows.

    Parameters
    ----------
    labels : FewLabels
        The labeled rows.
    parts : Parts
        The components of the features.
    grid : SettingGrid
        The candidates.
    seed : int, default=0
        Seed of the folds and of a sample of labels.

    Returns
    -------
    Selected
    """
    default = grid.default()
    if np.bincount(labels.codes).max() < 2:
        return Selected(default, np.nan, np.nan, None, 1)
    some = labels
    if len(labels) > MOST_COMPARED:
        rows = np.random.default_rng(seed).permutation(len(labels))[:MOST_COMPARED]
        some = FewLabels.of(labels.Z[rows], labels.codes[rows], labels.n_labels, labels.weight[rows])
    compared = grid if some is labels else replace(grid, components=grid.components[:1])
    folds = balanced_folds(some.codes, seed)
    losses: dict[Setting, Array] = {}
    for weights in compared.weights():
        predicted = left_out_values(some, factors_of(parts, weights), grid.penalties, folds)
        for penalty, values in zip(grid.penalties, predicted, strict=True):
            losses[replace(weights, penalty=penalty)] = row_losses(values, some.codes)
    best = better_than(default, losses, some.weight)
    if some is not labels:
        best = _refined(labels, parts, best, grid, seed)
    values = next(left_out_values(some, factors_of(parts, best), (best.penalty,), folds))

    def mean(loss: Array) -> float:
        return float(some.weight @ loss) / len(some)

    left_out = values if some is labels else None
    default_loss = mean(losses[default]) if default in losses else np.nan  # it is not if balance is zero
    return Selected(best, mean(row_losses(values, some.codes)), default_loss, left_out, len(losses))


def better_than(default: Setting, losses: dict[Setting, Array], weight: Array) -> Setting:
    """Return the setting of the least mean loss if it is better than the default by more than two standard errors."""
    total = weight.sum()
    best = min(losses, key=lambda setting: float(weight @ losses[setting]))
    if default not in losses or best == default:
        return best
    gain = losses[default] - losses[best]
    mean = float(weight @ gain) / total
    n = len(gain)
    error = np.sqrt(n / max(n - 1, 1) * np.square(weight * (gain - mean)).sum()) / total
    return best if mean > STANDARD_ERRORS * error else default


def factors_of(parts: Parts, setting: Setting) -> Array:
    """Return the factors of the components for a setting."""
    return parts.factors(setting.strength, setting.power, setting.balance, setting.components)


def row_losses(values: Array, codes: Array) -> Array:
    """Return the log losses of rows, for decision values times the factor of the least loss."""
    scale = log_loss_scale(values, codes, np.ones(len(codes)))
    logits = scale * values
    return special.logsumexp(logits, axis=1) - logits[np.arange(len(codes)), codes]


def left_out_values(labels: FewLabels, factors: Array, penalties: Sequence[float], folds: Array) -> Iterator[Array]:
    """Yield, for each penalty, the decision values (m, K) of each row by the fit without the rows of its fold.

    One eigendecomposition of the smaller Gram matrix serves all penalties; a fold costs a system of its size.
    """
    root = np.sqrt(labels.weight)[:, None]
    Z = root * (labels.Z * factors)
    targets = root * labels.targets()
    m, D = Z.shape
    if m <= D:
        values, basis = np.linalg.eigh(Z @ Z.T)
    else:
        values, vectors = np.linalg.eigh(Z.T @ Z)
        retained = values > D * np.finfo(float).eps * max(values[-1], np.finfo(float).tiny)
        values, basis = values[retained], Z @ (vectors[:, retained] / np.sqrt(values[retained]))
    values = np.maximum(values, 0.0)
    largest = max(float(values.max(initial=0.0)), np.finfo(float).tiny)
    coordinates = basis.T @ targets
    for penalty in penalties:
        shares = values / (values + penalty * largest)
        fitted = basis @ (coordinates * shares[:, None])
        out = np.empty_like(fitted)
        for fold in np.unique(folds):
            rows = np.flatnonzero(folds == fold)
            hat = (basis[rows] * shares) @ basis[rows].T
            # The values without these rows: (I - H)^-1 (fitted - H y). The scale of a large penalty is restored.
            out[rows] = np.linalg.solve(np.eye(len(rows)) - hat, fitted[rows] - hat @ targets[rows])
        yield out / root * (1 + penalty)


def _refined(labels: FewLabels, parts: Parts, setting: Setting, grid: SettingGrid, seed: int) -> Setting:
    """Return the setting of the least log loss of a tenth of the labels, by fits to all others.

    The search takes the best value of one part of the setting after the other, until none changes.
    """
    folds = balanced_folds(labels.codes, seed)
    held, used = labels[np.flatnonzero(folds == 0)], np.flatnonzero(folds != 0)
    rest = FewLabels.of(labels.Z[used], labels.codes[used], labels.n_labels, labels.weight[used])
    gram = raw_gram(rest)
    losses: dict[Setting, float] = {}

    def loss(candidate: Setting) -> float:
        if candidate not in losses:
            factors = factors_of(parts, candidate)
            coef = next(coefficients(rest, factors, (candidate.penalty,), gram))[1]
            losses[candidate] = float(held.weight @ row_losses(held.Z @ coef, held.codes))
        return losses[candidate]

    moves: dict[str, Sequence[Any]] = {
        "penalty": MANY_PENALTIES if grid.penalties == PENALTIES else grid.penalties,
        "balance": MANY_BALANCES if grid.balances == BALANCES else grid.balances,
        "power": MANY_POWERS if grid.powers == POWERS else grid.powers,
        "strength": grid.strengths,
        "components": grid.components,
    }
    before = None
    while setting != before:
        before = setting
        for name, values in moves.items():
            if setting.balance == 0 and name in ("power", "strength", "components"):
                continue  # without the graph, they have no effect
            best = min((replace(setting, **{name: value}) for value in values), key=loss)
            setting = best if loss(best) < loss(setting) else setting
    return setting


def raw_gram(labels: FewLabels) -> Array | None:
    """Return the weighted Gram matrix (D, D) of the features without factors, or None for more features than rows."""
    m, D = labels.Z.shape
    if m <= D:
        return None
    Z = np.sqrt(labels.weight)[:, None] * labels.Z
    return Z.T @ Z


def coefficients(
    labels: FewLabels, factors: Array, penalties: Sequence[float], raw: Array | None = None
) -> Iterator[tuple[float, Array]]:
    """Yield each penalty and the coefficients (D, K) of the features without factors.

    `raw` is the `raw_gram` of the labels, if it is known.
    """
    root = np.sqrt(labels.weight)[:, None]
    Z = root * (labels.Z * factors)
    targets = root * labels.targets()
    dual = Z.shape[0] <= Z.shape[1]
    if dual:
        gram = Z @ Z.T
    else:
        gram = Z.T @ Z if raw is None else factors[:, None] * raw * factors
    right = targets if dual else Z.T @ targets
    largest = largest_eigenvalue(gram)
    for penalty in penalties:
        A = gram.copy()
        A[np.diag_indices_from(A)] += penalty * largest
        solved = scipy.linalg.cho_solve(scipy.linalg.cho_factor(A, overwrite_a=True, check_finite=False), right)
        coef = Z.T @ solved if dual else solved
        yield penalty, factors[:, None] * coef * (1 + penalty)


def largest_eigenvalue(gram: Array) -> float:
    """Return the largest eigenvalue of a Gram matrix, not less than the smallest positive float."""
    n = len(gram)
    if n <= MOST_DENSE or not gram.any():
        value = scipy.linalg.eigvalsh(gram, subset_by_index=[n - 1, n - 1], check_finite=False)[0]
    else:
        start = np.random.default_rng(0).standard_normal(n)
        value = scipy.sparse.linalg.eigsh(gram, 1, v0=start, return_eigenvectors=False)[0]
    return max(float(value), np.finfo(float).tiny)


def fit_setting(labels: FewLabels, parts: Parts, setting: Setting) -> Array:
    """Return the coefficients (D, K) of the features without factors, for a setting."""
    return next(coefficients(labels, factors_of(parts, setting), (setting.penalty,)))[1]
