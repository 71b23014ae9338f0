"""What the error of a kernel does to what is computed with it: the spectrum of the kernel matrix, ridge predictions."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh, eigvalsh

from mercer.diagnostics.pairs import mean_interval
from mercer.diagnostics.subject import Subject, difference, inner_products, row_errors
from mercer.errors import DataError

__all__ = ["RidgeEffect", "SpectralError", "ridge_effect", "spectral_error"]

Array = np.ndarray
# Least number of rows for ridge predictions: half of them are predicted, and an interval needs some.
LEAST_ROWS = 20
# Confidence of each of the three intervals that the interval of spectral norms is made of. One end of each is used, so
# that the probability of an error is at most three times 1.5 %.
LEVEL_OF_NORMS = 0.97
# Penalties that leave-one-out compares, as multiples of the largest eigenvalue of the exact kernel matrix.
PENALTIES = np.logspace(-10, 1, 56)


@dataclass(frozen=True)
class SpectralError:
    """Error of the kernel matrix K of some rows as an operator; A is the approximate kernel matrix of the same rows.

    Attributes
    ----------
    n_rows : int
        Number of rows of the two matrices.
    all_rows : bool
        Whether these are all rows that were passed to `audit`. If not, they are a random sample of them.
    relative_error : float
        Largest absolute eigenvalue of A - K, divided by the largest eigenvalue of K, for these rows.
    relative_error_interval : tuple of float
        Interval that contains `relative_error` for the matrices of all rows with a probability of at least 95 %; both
        ends are equal if these are all rows. It is wide, and covers more often than it claims, because norms of the
        matrices of all rows are not computed, but bounded by numbers that can be estimated from pairs.
    penalty : float
        The number p > 0 of `epsilon`.
    epsilon : float
        Smallest e for which (1 - e) (K + p I) <= A + p I <= (1 + e) (K + p I), in the sense that differences are
        positive semi-definite. With e < 1, ridge predictors of penalty p on both kernels are close [1]_.

    Notes
    -----
    Both errors are exact for these rows, up to rounding. There is no short interval for more rows, and none at all for
    `epsilon`: the largest eigenvalue of A - K is that of few directions, which a sample of the rows may not contain,
    and eigenvalues of a sample are systematically different from those of all rows. The interval of `relative_error`
    follows from inequalities: the norm of a matrix is at most its Frobenius norm, and at least the norm of the matrix
    of some of the rows; that of K is also at least 1'K1 / n. Sums over all pairs are estimated, with intervals of 97 %.

    References
    ----------
    .. [1] H. Avron, M. Kapralov, C. Musco, C. Musco, A. Velingker, A. Zandieh, "Random Fourier features for kernel
       ridge regression: approximation bounds and statistical guarantees", ICML 2017.
    """

    n_rows: int
    all_rows: bool
    relative_error: float
    relative_error_interval: tuple[float, float]
    penalty: float
    epsilon: float

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a dictionary of built-in types."""
        return asdict(self)

    def __str__(self) -> str:
        low, high = self.relative_error_interval
        rows = f"{self.n_rows} rows" if self.all_rows else f"a random sample of {self.n_rows} rows"
        more = "" if self.all_rows else f" (for all rows between {low:.3g} and {high:.3g})"
        return (
            f"spectral norm of the error {self.relative_error:.3g} of that of the kernel matrix{more}, epsilon "
            f"{self.epsilon:.3g} at penalty {self.penalty:.3g}, on {rows}"
        )


@dataclass(frozen=True)
class RidgeEffect:
    """Squared error of ridge predictions on the features of a map, and on the exact kernel, with the same penalty.

    Attributes
    ----------
    targets : str
        What was predicted: "y", the given targets, or "random functions" of the kernel.
    n_train, n_test : int
        Numbers of rows that the two predictors were fitted to, and that were predicted.
    penalty : float
        Penalty of both predictors: that of the least leave-one-out error of the exact kernel.
    exact_error, approximate_error : float
        Mean squared error on the test rows, of the exact kernel and of the map.
    excess : float
        `approximate_error` - `exact_error`. For given targets it may be negative.
    excess_interval : tuple of float
        95 % confidence interval for the expected excess on a row of which the test rows are a random sample, given the
        map and the training rows. As for any mean over a sample, rows that are so rare that the test rows contain none
        of them are not accounted for.
    """

    targets: str
    n_train: int
    n_test: int
    penalty: float
    exact_error: float
    approximate_error: float
    excess: float
    excess_interval: tuple[float, float]

    @property
    def relative_excess(self) -> float:
        """Excess as a fraction of the error of the exact kernel."""
        return _quotient(self.excess, self.exact_error)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a dictionary of built-in types."""
        return asdict(self)

    def __str__(self) -> str:
        low, high = self.excess_interval
        return (
            f"ridge predictions of {self.targets}: squared error {self.approximate_error:.3g}, with the exact kernel "
            f"{self.exact_error:.3g}, excess {self.excess:.3g} (95 % {low:.3g} to {high:.3g}), penalty "
            f"{self.penalty:.3g}, {self.n_train} training and {self.n_test} test rows"
        )


def spectral_error(subject: Subject, n_rows: int, penalty: float | None, noise: float) -> SpectralError:
    """Return the spectral errors on at most `n_rows` random rows; None means the penalty of `ridge_effect`."""
    rows = subject.some_rows(n_rows, "spectral")
    exact, approximate = _matrices(subject, rows, rows)
    if penalty is None:
        penalty = _penalty(exact, None if subject.y is None else subject.y[rows], noise)
    error = difference(approximate, exact, repr(subject.feature_map.kernel_))
    largest = float(np.abs(eigvalsh(error)).max())
    size = float(np.abs(eigvalsh(exact, subset_by_index=[len(exact) - 1, len(exact) - 1])).max())
    # The generalized eigenvalues of A - K and K + p I are the factors by which A + p I differs from K + p I.
    ratios = eigvalsh(error, exact + penalty * np.eye(len(exact)))
    relative = _quotient(largest, size)
    all_rows = len(rows) == subject.n
    return SpectralError(
        n_rows=len(rows),
        all_rows=all_rows,
        relative_error=relative,
        relative_error_interval=(relative, relative) if all_rows else _interval_of_norms(subject, largest, size),
        penalty=penalty,
        epsilon=float(np.abs(ratios).max()),
    )


def _interval_of_norms(subject: Subject, largest: float, size: float) -> tuple[float, float]:
    """Return an interval for the quotient of the norms of A - K and K for all rows, given those for some rows."""
    rows = row_errors(subject.feature_map, subject.X)
    scale = float(rows.size.max()) or 1.0
    sums = []  # of each block, over pairs of different rows: squared errors, squared exact values, exact values
    for pairs in subject.errors():
        different = pairs.left[:, None] != pairs.right
        weights = different if subject.all_pairs else subject.pairs.weights(pairs.block)
        error, exact = pairs.error / scale, pairs.exact / scale
        sums.append([float((weights * values).sum()) for values in (np.square(error), np.square(exact), exact)])
    # All pairs are the sum of their blocks; random pairs are independent estimates.
    ends = [(v.sum(), v.sum()) if subject.all_pairs else mean_interval(v, LEVEL_OF_NORMS) for v in np.array(sums).T]
    diagonals = [float(np.square(values / scale).sum()) for values in (rows.residual, rows.exact)]
    error_norm, exact_norm = (
        scale * math.sqrt(max(end, 0.0) + diagonal) for (_, end), diagonal in zip(ends[:2], diagonals, strict=True)
    )
    quotient = (ends[2][0] * scale + float(rows.exact.sum())) / subject.n  # at most the largest eigenvalue of K
    return _quotient(largest, exact_norm), _quotient(error_norm, max(size, quotient))


def _quotient(error: float, size: float) -> float:
    """Return the relative error. It is zero if there is no error, also for a kernel that is zero."""
    return error / size if size > 0 else float(np.inf if error > 0 else 0.0)


def ridge_effect(subject: Subject, n_rows: int, noise: float) -> RidgeEffect:
    """Return the effect on ridge predictions for at most `n_rows` random rows, half of them training rows."""
    rows = subject.some_rows(n_rows, "ridge")
    if len(rows) < LEAST_ROWS:
        msg = (
            f"audit: ridge predictions need at least {LEAST_ROWS} rows, half of them to be predicted, got {len(rows)}."
        )
        raise DataError(msg)
    train, test = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    exact, approximate = _matrices(subject, train, train)
    exact_test, approximate_test = _matrices(subject, test, train)
    y = None if subject.y is None else subject.y[train]
    penalty = _penalty(exact, y, noise)
    if subject.y is None or y is None:
        before = _coefficients(exact, exact_test.T, penalty)
        after = _coefficients(approximate, approximate_test.T, penalty)
        prior = subject.feature_map.kernel_.diag(subject.X[test]).astype(np.float64)
        # Variance of f(x) given the noisy values of f at the training rows: it cannot be negative but for rounding.
        errors = np.maximum(prior - (exact_test.T * before).sum(axis=0), 0.0)
        change = after - before
        excess = (change * (exact @ change + penalty * change)).sum(axis=0)
    else:
        mean = y.mean(axis=0)
        truth = subject.y[test] - mean
        errors = np.square(exact_test @ _coefficients(exact, y - mean, penalty) - truth).mean(axis=1)
        predicted = approximate_test @ _coefficients(approximate, y - mean, penalty)
        excess = np.square(predicted - truth).mean(axis=1) - errors
    return RidgeEffect(
        targets="random functions" if subject.y is None else "y",
        n_train=len(train),
        n_test=len(test),
        penalty=penalty,
        exact_error=float(errors.mean()),
        approximate_error=float((errors + excess).mean()),
        excess=float(excess.mean()),
        excess_interval=mean_interval(excess),
    )


def _matrices(subject: Subject, left: Array, right: Array) -> tuple[Array, Array]:
    """Return the exact and the approximate kernel matrix of two sets of rows, in float64."""
    feature_map, X = subject.feature_map, subject.X
    exact = feature_map.kernel_(X[left], X[right]).astype(np.float64)
    approximate = inner_products(feature_map, feature_map.apply(X[left]), feature_map.apply(X[right]))
    return exact, approximate.astype(np.float64)


def _coefficients(matrix: Array, targets: Array, penalty: float) -> Array:
    """Return (matrix + penalty I)^-1 targets."""
    shifted = matrix + penalty * np.eye(len(matrix))
    try:
        return cho_solve(cho_factor(shifted, lower=True), targets)
    except np.linalg.LinAlgError:
        # An approximate kernel with signs need not be positive semi-definite.
        return np.linalg.solve(shifted, targets)


def _penalty(exact: Array, y: Array | None, noise: float) -> float:
    """Return the penalty of the least leave-one-out error of the exact kernel.

    For functions that are drawn from a Gaussian process with this kernel, and observed with noise of variance v, the
    expected leave-one-out error is least for the penalty v: each prediction is then the conditional expectation.
    """
    if y is None:
        return noise * float(np.trace(exact)) / len(exact) or noise
    values, vectors = eigh(exact)
    values = np.maximum(values, 0.0)
    rotated = vectors.T @ (y - y.mean(axis=0))
    best, least = 0.0, np.inf
    for penalty in PENALTIES * (float(values[-1]) or 1.0):
        # y - H y = Q (p / (s + p)) Q'y, and the leave-one-out error is (y - H y)_i / (1 - h_ii).
        kept = penalty / (values + penalty)
        residuals = vectors @ (kept[:, None] * rotated)
        leverage = np.square(vectors) @ kept
        error = float(np.square(residuals / leverage[:, None]).sum())
        if error < least:
            best, least = float(penalty), error
    return best
