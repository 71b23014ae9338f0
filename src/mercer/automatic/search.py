"""Search for scalings of columns, kernels and metrics, and their weights, by predictions of rows that are held out.

The search has two rounds. In the first one, all scalings of columns are compared on few rows, and those clearly
worse are dropped. In the second one, the others are tried on more rows. For small tables it is repeated with other rows
held out: what is best on a hundred rows may not be best on others, and the mean of metrics that were learned from
different rows is better than each of them. The weights of the members minimize the loss of held-out rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy import special
from scipy.spatial.distance import pdist
from threadpoolctl import threadpool_limits

from mercer.automatic.trials import Trial
from mercer.automatic.weights import (
    crossed_predictions,
    label_weights,
    label_weights_and_offsets,
    number_weights,
    trusted_share,
)
from mercer.engines import Progress, Report, enter_stage, report_step
from mercer.engines.base import OutOfTimeError, count_threads
from mercer.engines.progress import Stages
from mercer.kernels import Kernel, Laplacian, Matern, Polynomial, Transformed
from mercer.kernels.base import dense64
from mercer.linalg.numpy_kernels import ProfileName
from mercer.metric.near_rows import FULL_UP_TO, SMOOTHNESS, kernel_of
from mercer.solvers.local.metric_search import HELD_ROWS as COMPARED_ROWS
from mercer.solvers.local.metric_search import (
    HELD_SHARE,
    LOG_LOSS_SCALE,
    MetricTrial,
    left_out_predictions,
    search_costs,
    search_metric,
)
from mercer.solvers.local.metric_tuning import MetricKind, TunedMetric
from mercer.solvers.local.near_rows import NearRows
from mercer.statistics.sample import seed_of
from mercer.tables import ColumnFunction
from mercer.tables.column_scaler import Scaling, scaled_columns

__all__ = ["Effort", "Found", "Member", "Rows", "costs_of_search", "newton_step", "search"]

Array = np.ndarray
# Number of rows of the first round, if there are more than twice as many.
FIRST_ROWS = 4000
# Widest rows for which ranks are tried, and least width for which principal components are.
MOST_RANKED = 128
LEAST_WIDE = 64
# Widest rows for which metrics of all columns are learned, if there are at least as many rows; narrow ones always are.
MOST_COLUMNS = 4096
# Up to this number of rows, or from `MANY_COLUMNS` on, rows held out have no part in the search. Then there are at most
# so many of them; otherwise they are those that the search of a metric compares with.
FEW_ROWS = 5000
HELD_ROWS = 4000
# Least number of rows for a search, and of distinct rows for which metrics are learned. With fewer, kernels have one
# lengthscale, the best of some multiples of the median distance, and each part holds out another share of all rows.
FEWEST_ROWS, LEAST_ROWS = 5, 20
# Least number of labeled rows for a search. With fewer, nothing can be chosen by rows that are held out.
FEWEST_LABELED = 12
LENGTHSCALES = (0.5, 1.0, 2.0, 4.0, 8.0)
MOST_FOLDS = 4  # number of these shares
# A scaling is dropped after the first round if its loss is higher by this many standard errors, and by this share.
CLEARLY, BY_SHARE = 1.0, 0.01
# Candidates of less weight are left out. So are those without which the loss is higher by less than this share, since
# each member costs time in the fit and in every prediction, and takes the place of what other parts have learned.
LEAST_WEIGHT = 0.08
NEGLIGIBLE = 0.005
# Least number of different rows held out by which a model is compared with a line and a constant.
FEWEST_COMPARED = 10
# Number of shares of all rows, each of which is predicted by a line through the others, and the largest number of
# products for one of these lines: some of them take as long as a few steps of the search.
LINE_FOLDS, MOST_LINE_PRODUCTS = 10, 3e8
# Number of near rows of a prediction; and a larger one that is used for labels of rows with at least so many columns if
# it lowers the loss by this share. The model then has fewer members, so that predictions are as fast.
NEAR_ROWS, MORE_NEAR_ROWS = 64, 192
MANY_COLUMNS, NEAR_GAIN, FEW_MEMBERS = 32, 0.02, 2
# Largest number of products of a prediction with more near rows, and the step between their numbers. A core computes
# about 25 products per nanosecond, so that two cores predict 5000 rows per second with two members.
MOST_NEAR_PRODUCTS, NEAR_STEP = 5e6, 16
# Number of rows up to which members are fitted exactly, without landmarks.
EXACT_ROWS = 1500
# A line is computed from second moments if there are more rows than this multiple of the number of columns.
MANY_ROWS = 8
# Number of rows by which the factor of an L1-Laplacian kernel is chosen, and the factors.
LAPLACIAN_ROWS = 600
LAPLACIAN_FACTORS = (0.0625, 0.25, 1.0, 4.0)
# Penalties that are compared for held-out predictions of exact members, in units of the largest eigenvalue.
PENALTIES = np.geomspace(1e-9, 1.0, 19)
# Penalty of a member that is the mean of the targets.
NO_SLOPE = 1e30
# Kernels whose metrics are learned. Near rows of larger tables gain nothing from the smoothness of a Gaussian kernel.
PROFILES: tuple[ProfileName, ...] = tuple(SMOOTHNESS)
EXACT_PROFILES: tuple[ProfileName, ...] = (*PROFILES, "gaussian")


@dataclass(frozen=True)
class Effort:
    """How much is tried.

    Attributes
    ----------
    rows : int
        Largest number of rows of the second round.
    parts : int
        Number of times that it is repeated, with other rows held out.
    members : int
        Largest number of members of the model.
    deadline : float or None
        Time of `time.perf_counter` at which the search ends.
    """

    rows: int
    parts: int
    members: int
    deadline: float | None = None


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a search, in random order."""

    X: Any  # (n, d)
    targets: Array  # (n, t), numbers, or indicators of labels
    weight: Array | None  # (n,)
    labels: bool  # whether targets are indicators of labels

    def first(self, count: int) -> Rows:
        """Return the first rows."""
        weight = None if self.weight is None else self.weight[:count]
        return replace(self, X=self.X[:count], targets=self.targets[:count], weight=weight)

    def __len__(self) -> int:
        return self.X.shape[0]


@dataclass(frozen=True, eq=False)
class Member:
    """A kernel of scaled columns, and its weight in the model."""

    scaling: Scaling
    columns: ColumnFunction
    kernel: Kernel | None  # None for the mean of the targets
    name: str  # of the kernel and its metric
    weight: float  # they sum to one
    factor: float  # of the calibrated logits of labels
    n_neighbors: int = NEAR_ROWS
    penalty: float | None = None  # None if it is chosen by left-out rows in the fit


@dataclass(frozen=True, eq=False)
class Found:
    """The result of a search."""

    members: tuple[Member, ...]
    trials: tuple[Trial, ...]
    loss: float  # of the model, for rows held out: relative root mean squared error, or logarithmic loss
    single: float  # of the best single trial
    constant: float  # of a constant prediction
    shrinkage: float  # root mean squared error of the model, divided by that of its members
    errors: Array | None = None  # (m, t), errors of the model for rows held out; None for labels
    offsets: Array | None = None  # (K,), of the logits of labels; None for numbers

    def for_labels(self, found: Array, labels: Array) -> Found:
        """Return the result for all labels, given those of the search: a sample of the rows may lack rare ones."""
        if self.offsets is None or len(found) == len(labels):
            return self
        offsets = np.zeros(len(labels))
        offsets[np.searchsorted(labels, found)] = self.offsets
        return replace(self, offsets=offsets)


@dataclass(frozen=True, eq=False)
class Option:
    """One model of scaled columns, and its predictions of rows that were held out."""

    kernel: Kernel
    name: str  # of the kernel
    metric: str
    error: float  # mean squared error of scaled targets, or logarithmic loss of labels
    predictions: Array  # (m, t)
    n_neighbors: int = NEAR_ROWS

    @property
    def full_name(self) -> str:
        """The kernel and its metric."""
        return self.name if self.metric == "none" else f"{self.name}, {self.metric}"

    @property
    def key(self) -> str:
        """Options with equal keys in different parts are one member: each diagonal metric, and each other kind."""
        return self.metric if self.metric in ("shared", "full") else f"{self.name} {self.metric}"


@dataclass(frozen=True, eq=False)
class Attempt:
    """What was tried for one scaling of columns and one part of rows held out."""

    scaling: Scaling
    columns: ColumnFunction
    part: int
    n_rows: int
    options: tuple[Option, ...]
    losses: Array  # (m,), of each row that was held out, for the option of least error
    held: Array  # (m,), indices of the rows held out
    targets: Array  # (m, t)
    weight: Array  # (m,)
    seconds: float

    def best_of_each_key(self) -> Iterator[tuple[str, Option]]:
        """Yield each key, and the option of least error with it."""
        for key in dict.fromkeys(option.key for option in self.options):
            yield key, min((option for option in self.options if option.key == key), key=lambda option: option.error)

    @property
    def least_error(self) -> float:
        """Least error of all options."""
        return least_error(self.options)


def least_error(options: Sequence[Option]) -> float:
    """Return the least error of some options."""
    return min(option.error for option in options)


def newton_step(rows: Rows) -> Found | None:
    """Return the model for too few rows of labels to choose anything by rows that are held out.

    It is logistic regression with a Gaussian prior of a fixed scale, that of scikit-learn's `LogisticRegression`, in
    the mean of the linear kernel and a Matern kernel, whose lengthscale is the median distance; or rather its first
    Newton step from the frequencies of labels, which is a ridge regression of indicators.

    Returns
    -------
    Found or None
        None if no column varies, or if there are too many columns.
    """
    if sp.issparse(rows.X) and rows.X.shape[1] > MOST_COLUMNS:
        return None
    columns = scaled_columns("spread", rows.X, rows.weight)
    if not columns.names:
        return None
    scaled = columns(rows.X)
    X = dense64(scaled.toarray() if sp.issparse(scaled) else scaled)
    distances = pdist(X)
    # Half of the mean squared distance is the sum of the variances of the columns, which are one in the mean.
    unit = X.shape[1] / (np.square(distances).mean() / 2)
    matern = Matern(1.5, lengthscale=float(np.median(distances[distances > 0])))
    kernel = 0.5 * Polynomial(1, coef0=0.0, scale=unit) + (0.5 * X.shape[1]) * matern
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    shares = weight @ rows.targets / weight.sum()
    # The mean curvature of the logarithmic loss, over the directions in which logits differ, is one over this.
    unequal = shares @ (1 - np.eye(len(shares))) @ shares  # one minus the sum of squares, without its rounding error
    penalty = float((len(shares) - 1) / unequal)
    offsets = np.log(shares) - penalty * shares  # values of the ridge regression are around the frequencies
    member = Member("spread", columns, kernel, "Linear and Matern 1.5", 1.0, 1.0, penalty=penalty)
    entropy = float(-shares @ np.log(shares))
    return Found((member,), (), entropy, entropy, entropy, 1.0, None, offsets - offsets.mean())


def scalings_for(rows: Rows) -> tuple[Scaling, ...]:
    """Return the scalings of columns for which metrics are learned."""
    d = rows.X.shape[1]
    if sp.issparse(rows.X) or len(rows) < LEAST_ROWS:
        return ("spread",)
    wide: tuple[Scaling, ...] = ("components",) if d >= LEAST_WIDE else ()
    if d > MOST_RANKED:
        # One lengthscale per column would be more parameters than rows, and steps of all of them take long.
        return ("spread", *wide) if d <= min(MOST_COLUMNS, len(rows)) else wide
    return ("ranks", "spread", *wide)


def search(
    rows: Rows,
    effort: Effort,
    *,
    random_state: Any,
    n_jobs: int | None = None,
    report: Report | None = None,
) -> Found | None:
    """Search for the members of a model.

    Parameters
    ----------
    rows : Rows
        Rows and targets, in random order.
    effort : Effort
        How much is tried.
    random_state : int
        Seed.
    n_jobs : int or None, default=None
        Number of threads; None means all cores.
    report : callable or None, default=None
        Receives the progress.

    Returns
    -------
    Found or None
        None if there are too few different rows for a search, or if they have too many columns.
    """
    if len(rows) < FEWEST_ROWS or (sp.issparse(rows.X) and rows.X.shape[1] > MOST_COLUMNS):
        return None
    columns = {name: scaled_columns(name, rows.X, rows.weight) for name in scalings_for(rows)}
    if "ranks" in columns and len(columns["ranks"].names) == len(columns["spread"].names):
        del columns["ranks"]  # no column is skewed
    columns = {name: scaled for name, scaled in columns.items() if scaled.names}
    if not columns:
        return None
    names = list(columns)
    # Sums of functions of single columns cost little, so they are tried with all rows.
    if not sp.issparse(rows.X) and rows.X.shape[1] <= MOST_RANKED and len(rows) >= LEAST_ROWS:
        columns["ramps"] = scaled_columns("ramps", rows.X, rows.weight)
    last = min(len(rows), effort.rows)
    tried: list[Attempt] = []

    def attempts_of(names: Sequence[Scaling], count: int, parts: Sequence[int], stage: str) -> list[Attempt]:
        enter_stage(report, stage)
        calls = [(name, part) for part in parts for name in names]
        threads = count_threads(n_jobs)
        at_once = min(threads, len(calls))
        progress = JointProgress(report, len(calls), effort.deadline)
        with threadpool_limits(max(1, threads // at_once)), ThreadPoolExecutor(at_once) as pool:
            futures = [
                pool.submit(
                    one_attempt, rows.first(count), name, columns[name], part,
                    seed=seed_of(random_state, f"part {part}") % 2**32, n_jobs=max(1, threads // at_once),
                    progress=progress, number=number,
                )
                for number, (name, part) in enumerate(calls)
            ]  # fmt: skip
            try:
                found = [future.result() for future in futures]
            except BaseException:  # such as an interrupt by the user, which only this thread receives
                progress.stop()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        complete = [one for one in found if one is not None]
        tried.extend(complete)
        if len(complete) < len(found):
            raise OutOfTimeError
        return complete

    attempts: list[Attempt] = []
    try:
        if len(names) > 1 and last > 2 * FIRST_ROWS:
            names = not_worse(attempts_of(names, FIRST_ROWS, [0], "compare columns"))
        ramps = [name for name in columns if name == "ramps"]
        attempts += attempts_of([*names, *ramps], last, [0], "learn metrics")
        if len(names) > 1:
            names = not_worse([one for one in attempts if one.scaling != "ramps"])
        # Within a time limit, parts are tried one after the other, as long as there is time.
        together = effort.parts - 1 if effort.deadline is None else 1
        for part in range(1, effort.parts, max(1, together)):
            attempts += attempts_of([*names, *ramps], last, range(part, part + together), "learn metrics")
    except OutOfTimeError:
        # What was tried last on the same rows can be compared.
        attempts = attempts or [one for one in tried if (one.n_rows, one.part) == (tried[-1].n_rows, tried[-1].part)]
    if not attempts:
        return None
    return weighted(attempts, tried, rows, effort)


def one_attempt(
    rows: Rows,
    name_of_scaling: Scaling,
    columns: ColumnFunction,
    part: int,
    *,
    seed: int,
    n_jobs: int,
    progress: JointProgress,
    number: int,
) -> Attempt | None:
    """Return kernels and metrics for one scaling of columns, or None if there was not enough time."""
    start = time.perf_counter()
    merged = NearRows.of(rows.X, rows.targets, rows.weight, len(rows), is_complete=True)
    scaled = columns(merged.X)
    X = np.ascontiguousarray(dense64(scaled.toarray() if sp.issparse(scaled) else scaled))
    full = 1 < X.shape[1] <= FULL_UP_TO
    report = Stages("", partial(progress.update, number))
    n = len(X)
    few = n < LEAST_ROWS  # rows of numbers only, or copies of fewer rows
    profiles = () if name_of_scaling == "ramps" or few else profiles_for(n)
    if profiles:
        report.plan(search_costs(profiles, n, X.shape[1], full=full))
    # A metric of many parameters also fits the rows near those it is compared on. The rule must be the same for all
    # scalings, whose predictions of the same rows are compared.
    strangers = n <= FEW_ROWS or rows.X.shape[1] >= MANY_COLUMNS
    if few:
        folds = min(MOST_FOLDS, n)
        held = np.arange(part % folds, n, folds)
    else:
        count = min(HELD_ROWS if strangers else COMPARED_ROWS, max(1, int(HELD_SHARE * n)))
        held = np.sort(np.random.default_rng(seed).choice(n, count, replace=False))
    others = np.setdiff1d(np.arange(n), held)
    used = others if strangers else np.arange(n)
    learned: list[tuple[MetricTrial, TunedMetric]] = []
    try:
        progress.check_time()
        if profiles:
            found = search_metric(
                X[used], merged.targets[used], merged.weight[used], profiles,
                labels=rows.labels, full=full, seed=seed, n_jobs=n_jobs, report=report,
            )  # fmt: skip
            # Further steps of the same kernel and metric replace earlier ones.
            last = {(trial.profile, trial.metric): i for i, trial in enumerate(found.trials)}
            learned = [(found.trials[i], found.metrics[i]) for i in last.values()]
    except OutOfTimeError:
        return None
    targets, weight = merged.targets[held], merged.weight[held]
    judge = Judge(targets, weight, merged.weight @ merged.targets / merged.weight.sum(), labels=rows.labels)
    centered = merged.targets - judge.mean

    def exact_predictions(kernel: Kernel) -> Array:
        """Return the predictions of the held-out rows by the learner of a member for few rows."""
        coef = exact_fit(kernel, X[others], centered[others], merged.weight[others])[1]
        return kernel(X[held], X[others]) @ coef + judge.mean

    def option_of(trial: MetricTrial, tuned: TunedMetric, n_neighbors: int) -> Option:
        progress.check_stopped()
        kernel = in_metric(kernel_of(trial.profile, 1.0), tuned.matrix)
        if n <= EXACT_ROWS:
            predicted = exact_predictions(kernel)
        else:
            predicted, _ = left_out_predictions(
                X, centered, merged.weight, trial.profile, tuned, held, n_jobs, n_neighbors
            )
            predicted += judge.mean
        error = judge.error(predicted)
        return Option(kernel, kernel_name(trial.profile), trial.metric, error, predicted, n_neighbors)

    options = [option_of(trial, tuned, NEAR_ROWS) for trial, tuned in learned]
    many = more_near_rows(X.shape[1])
    if rows.labels and n > EXACT_ROWS and learned and X.shape[1] >= MANY_COLUMNS and many > NEAR_ROWS:
        # In many dimensions few rows are near, and predictions may be better if they use more of them.
        more = [option_of(trial, tuned, many) for trial, tuned in learned]
        if least_error(more) < (1 - NEAR_GAIN) * least_error(options):
            options = more
    if n <= EXACT_ROWS and learned:
        scales: dict[MetricKind, Array] = {"shared": np.full(X.shape[1], 1 / X.shape[1])}
        for trial, tuned in learned:
            if trial.metric == "diagonal" and trial.profile == "matern12":
                scales["diagonal"] = tuned.matrix
        for metric, factors in scales.items():
            kernel = laplacian_with(factors, X[others], centered[others], merged.weight[others])
            predicted = exact_predictions(kernel)
            options.append(Option(kernel, "Laplacian", metric, judge.error(predicted), predicted))
    if few and name_of_scaling != "ramps":
        for profile in EXACT_PROFILES:
            kernel = shared_kernel(profile, X[others], centered[others], merged.weight[others])
            predicted = exact_predictions(kernel)
            options.append(Option(kernel, kernel_name(profile), "shared", judge.error(predicted), predicted))
    if n > X.shape[1] + 1 or X.shape[1] <= MOST_RANKED or not options:
        predicted = line_through(X[others], merged.targets[others], merged.weight[others], X[held])
        options.append(Option(Polynomial(1), "Linear", "none", judge.error(predicted), predicted))
    seconds = time.perf_counter() - start
    losses = judge.losses(min(options, key=lambda option: option.error).predictions)
    return Attempt(name_of_scaling, columns, part, len(rows), tuple(options), losses, held, targets, weight, seconds)


def more_near_rows(d: int) -> int:
    """Return the larger number of near rows for rows of d columns, bounded by the products of a prediction."""
    numbers = range(MORE_NEAR_ROWS, NEAR_ROWS, -NEAR_STEP)
    return next((k for k in numbers if k**2 * d + k**3 / 3 <= MOST_NEAR_PRODUCTS), NEAR_ROWS)


def profiles_for(n: int) -> tuple[ProfileName, ...]:
    """Return the kernels whose metrics are learned, for n rows."""
    return EXACT_PROFILES if n <= EXACT_ROWS else PROFILES


def exact_fit(kernel: Kernel, X: Array, targets: Array, weight: Array) -> tuple[float, Array]:
    """Return the mean squared leave-one-out error of kernel ridge regression, and its coefficients (n, t).

    The penalty is that of least error.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    X : ndarray of shape (n, p)
        Rows.
    targets : ndarray of shape (n, t)
        Targets minus their mean.
    weight : ndarray of shape (n,)
        Weights > 0 of the rows.
    """
    root = np.sqrt(weight)[:, None]
    values, vectors = scipy.linalg.eigh(kernel(X) * root * root.T, driver="evd", check_finite=False)
    values = np.maximum(values, 0.0)
    projected = vectors.T @ (root * targets)
    squares = np.square(vectors)
    best, chosen = np.inf, np.zeros_like(projected)
    for penalty in PENALTIES * max(values[-1], np.finfo(float).tiny):
        inverse = 1 / (values + penalty)
        solved = inverse[:, None] * projected
        # The leave-one-out residual of a row is its coefficient divided by its entry of the diagonal of the inverse.
        error = float(np.square((vectors @ solved) / (squares @ inverse)[:, None]).sum() / weight.sum())
        if error < best:
            best, chosen = error, solved
    return best, root * (vectors @ chosen)


def laplacian_with(factors: Array, X: Array, targets: Array, weight: Array) -> Transformed:
    """Return the kernel exp(-sum_j c f_j |x_j - y_j|) for the factor c of least leave-one-out error on some rows.

    Its sample functions are sums of steps along single columns, as trees are, which rotations of the metric would
    destroy.
    """
    X, targets, weight = X[:LAPLACIAN_ROWS], targets[:LAPLACIAN_ROWS], weight[:LAPLACIAN_ROWS]
    errors: dict[float, float] = {}

    def best_of(factor_grid: Sequence[float]) -> float:
        for factor in factor_grid:
            errors[factor] = exact_fit(in_metric(Laplacian(), factor * factors), X, targets, weight)[0]
        return min(errors, key=errors.__getitem__)

    best = best_of(LAPLACIAN_FACTORS)
    best = best_of([best / 2, best * 2])
    return in_metric(Laplacian(), best * factors)


def shared_kernel(profile: ProfileName, X: Array, targets: Array, weight: Array) -> Transformed:
    """Return the kernel with the multiple of the median distance of least leave-one-out error as its lengthscale."""
    distances = pdist(X)
    median = float(np.median(distances[distances > 0])) if (distances > 0).any() else 1.0
    kernels = [in_metric(kernel_of(profile, 1.0), np.full(X.shape[1], 1 / (c * median))) for c in LENGTHSCALES]
    return min(kernels, key=lambda kernel: exact_fit(kernel, X, targets, weight)[0])


def in_metric(kernel: Kernel, matrix: Array) -> Transformed:
    """Return the kernel of rows times a matrix, or times one factor per column."""
    if matrix.ndim == 1:
        return Transformed(kernel, lengthscales=1 / np.maximum(matrix, np.finfo(float).tiny))
    return Transformed(kernel, matrix=matrix)


def line_through(X: Array, targets: Array, weight: Array, T: Array) -> Array:
    """Return the predictions at `T` of a ridge regression whose penalty has the least leave-one-out error.

    With many rows, it is that of least generalized cross-validation error, which needs the second moments only.
    """
    share = weight / weight.sum()
    center, mean = share @ X, share @ targets
    root = np.sqrt(weight)[:, None]
    if len(X) > MANY_ROWS * X.shape[1]:
        Z, Y = (X - center) * root, (targets - mean) * root
        squares, vectors = scipy.linalg.eigh(Z.T @ Z, driver="evd", check_finite=False)
        squares = np.maximum(squares, 0.0)
        projected, total = vectors.T @ (Z.T @ Y), np.square(Y).sum()
        least, chosen = np.inf, np.zeros_like(projected)
        for alpha in max(squares[-1], np.finfo(float).tiny) * np.geomspace(1e-8, 1e2, 21):
            inverse = 1 / (squares + alpha)
            solved = inverse[:, None] * projected
            residual = total - (2 * projected * solved - squares[:, None] * np.square(solved)).sum()
            error = residual / (1 - (squares @ inverse + 1) / len(X)) ** 2
            if error < least:
                least, chosen = error, solved
        return mean + (T - center) @ (vectors @ chosen)
    U, values, Vt = np.linalg.svd((X - center) * root, full_matrices=False)
    Y = (targets - mean) * root
    projected, squares = U.T @ Y, np.square(values)
    best, coef = np.inf, np.zeros((X.shape[1], targets.shape[1]))
    for alpha in max(squares[0], np.finfo(float).tiny) * np.geomspace(1e-8, 1e2, 21):
        shrunk = squares / (squares + alpha)
        leverage = np.square(U) @ shrunk + share
        left_out = (Y - U @ (shrunk[:, None] * projected)) / np.maximum(1 - leverage, 1e-6)[:, None]
        error = np.square(left_out).sum()
        if error < best:
            best, coef = error, Vt.T @ ((values / (squares + alpha))[:, None] * projected)
    return mean + (T - center) @ coef


@dataclass(frozen=True, eq=False)
class Judge:
    """Losses of predictions of rows that were held out."""

    targets: Array  # (m, t)
    weight: Array  # (m,)
    mean: Array  # (t,), of the targets of all rows
    labels: bool

    def losses(self, predicted: Array) -> Array:
        """Return the loss (m,) of each row: squared errors of scaled targets, or the logarithmic loss of labels."""
        if not self.labels:
            share = self.weight / self.weight.sum()
            scale = np.sqrt(share @ np.square(self.targets - self.mean))
            return np.square((predicted - self.targets) / np.where(scale > 0, scale, 1.0)).sum(axis=1)
        factor = label_weights(predicted[None], self.targets, self.weight, LOG_LOSS_SCALE)[0]
        return -(self.targets * special.log_softmax(factor * predicted, axis=1)).sum(axis=1)

    def error(self, predicted: Array) -> float:
        """Return the weighted mean loss."""
        return float(self.weight @ self.losses(predicted) / self.weight.sum())


def costs_of_search(rows: Rows, effort: Effort) -> dict[str, float]:
    """Return the stages of a search and their costs, in the unit of `BaseMap.fit_costs`."""
    last, names = min(len(rows), effort.rows), scalings_for(rows)
    d = min(rows.X.shape[1], MOST_COLUMNS)

    def cost(count: int) -> float:
        return len(names) * sum(search_costs(profiles_for(count), count, d, full=1 < d <= FULL_UP_TO).values())

    first = {"compare columns": cost(FIRST_ROWS)} if len(names) > 1 and last > 2 * FIRST_ROWS else {}
    return {**first, "learn metrics": effort.parts * cost(last)}


class JointProgress:
    """Progress of several searches that run at the same time, as one stage of a fit; it ends them at a deadline."""

    def __init__(self, report: Report | None, count: int, deadline: float | None) -> None:
        self._report = report
        self._fractions = [0.0] * count
        self._start, self._deadline = time.perf_counter(), deadline
        self._lock = Lock()
        self._stopped = False

    def stop(self) -> None:
        """End all searches at their next step."""
        self._stopped = True

    def check_stopped(self) -> None:
        """Raise if the searches are to end."""
        if self._stopped:
            raise OutOfTimeError

    def check_time(self) -> None:
        """Raise if the deadline has passed, too."""
        self.check_stopped()
        if self._deadline is not None and time.perf_counter() > self._deadline:
            raise OutOfTimeError

    def update(self, number: int, progress: Progress) -> None:
        """Report the mean progress, given that of one search."""
        self.check_time()
        with self._lock:
            self._fractions[number] = progress.fraction or 0.0
            done = sum(self._fractions) / len(self._fractions)
            if self._deadline is not None:  # it is not known how many searches there will be
                now = time.perf_counter()
                done = (now - self._start) / (self._deadline - self._start)
            report_step(self._report, round(100 * done), 100, progress.stage, "%")


def not_worse(attempts: Sequence[Attempt]) -> list[Scaling]:
    """Return the scalings whose losses are not clearly higher than the least one."""
    best = min(attempts, key=lambda one: one.least_error)
    share = best.weight / best.weight.sum()
    mean = share @ best.losses
    names = []
    for one in attempts:
        difference = one.losses - best.losses
        excess = share @ difference
        error = np.sqrt(np.square(share) @ np.square(difference - excess))
        if one is best or not (excess > CLEARLY * error and excess > BY_SHARE * mean):
            names.append(one.scaling)
    return names


def weighted(attempts: Sequence[Attempt], tried: Sequence[Attempt], rows: Rows, effort: Effort) -> Found:
    """Return the members of least loss, by the rows held out of all parts."""
    parts = sorted({one.part for one in attempts})
    by_key: dict[tuple[Scaling, str], dict[int, tuple[Attempt, Option]]] = {}
    for one in attempts:
        for key, option in one.best_of_each_key():
            by_key.setdefault((one.scaling, key), {})[one.part] = (one, option)
    # Only what was tried in all parts has predictions for all rows that were held out.
    candidates = [found for found in by_key.values() if len(found) == len(parts)]
    reference = {part: next(one for one in attempts if one.part == part) for part in parts}
    targets = np.concatenate([reference[part].targets for part in parts])
    weight = np.concatenate([reference[part].weight for part in parts])
    predictions = np.stack([np.concatenate([found[part][1].predictions for part in parts]) for found in candidates])
    share = weight / weight.sum()
    mean = rows_mean(rows)
    offsets: Array | None = None
    scale = np.ones(targets.shape[1])
    if rows.labels:
        # The scale of predictions differs between members, and between a search and a fit. So factors are relative to
        # those by which each member alone has the least loss.
        scales = np.array([label_weights(one[None], targets, weight, LOG_LOSS_SCALE)[0] for one in predictions])
        predictions *= scales[:, None, None]
        factors = label_weights(predictions, targets, weight, 1.0)
    else:
        scale = np.sqrt(share @ np.square(targets - mean))
        scale = np.where(scale > 0, scale, 1.0)
        factors = number_weights((predictions - mean) / scale, (targets - mean) / scale, weight)
    is_line = [isinstance(found[parts[0]][1].kernel, Polynomial) for found in candidates]
    most = effort.members
    if any(found[parts[0]][1].n_neighbors > NEAR_ROWS for found in candidates):
        most = min(most, FEW_MEMBERS)
    kept = kept_candidates(factors / factors.sum(), is_line, most)

    def loss_of(some: list[int]) -> float:
        chosen = predictions[some]
        if rows.labels:
            return log_loss(np.tensordot(label_weights(chosen, targets, weight, 1.0), chosen, 1), targets, share)
        of_each = number_weights((chosen - mean) / scale, (targets - mean) / scale, weight)
        return relative(np.tensordot(of_each, chosen, 1), targets, share, scale)

    kept = without_negligible(kept, is_line, loss_of)
    if rows.labels:
        factors, offsets = label_weights_and_offsets(predictions[kept], targets, weight, 1.0)
    else:
        factors = number_weights((predictions[kept] - mean) / scale, (targets - mean) / scale, weight)
    total = factors.sum()
    weights = np.zeros(len(candidates))
    weights[kept] = factors / total
    of_constant = 0.0
    if not rows.labels:
        held = np.concatenate([reference[part].held for part in parts])
        line = next((i for i in simplest_first(candidates) if is_line[i]), None)
        scaled = (predictions - mean) / scale, (targets - mean) / scale, weight, held
        of_line = None if line is None else trusted_line(candidates[line][parts[0]][0].columns, rows, scale)
        weights, of_constant = shared_with_simple(weights, line, of_line, *scaled)
    # Kernels and metrics that differ come first, and share the members: those of other parts were learned from much
    # the same rows.
    curves = sum(weights[i] > 0 and not is_line[i] for i in range(len(candidates)))
    in_parts = max(1, effort.members // max(1, curves))
    members: list[Member] = []
    used: dict[int, float] = {}
    for i, found in enumerate(candidates):
        some = parts[: 1 if is_line[i] else in_parts]  # a line is the same in all parts
        for one, option in [found[part] for part in some if weights[i] > 0]:
            w = weights[i] / len(some)
            used[id(option)] = w
            name = option.full_name
            members.append(Member(one.scaling, one.columns, option.kernel, name, w, w * total, option.n_neighbors))
    if of_constant > 0:
        first = attempts[0]
        members.append(
            Member(first.scaling, first.columns, None, "Constant", of_constant, of_constant, penalty=NO_SLOPE)
        )
    ensemble = np.einsum("c,cmt->mt", weights, predictions) + of_constant * mean
    if rows.labels:
        losses = [log_loss(one, targets, share) for one in predictions]
        loss, single = log_loss(total * ensemble + offsets, targets, share), min(losses)
        constant = log_loss(np.log(np.maximum(mean, 1e-300))[None] + np.zeros_like(targets), targets, share)
        shrinkage, left = 1.0, None
    else:
        errors = np.array([relative(one, targets, share, scale) for one in predictions])
        loss, constant, single = relative(ensemble, targets, share, scale), 1.0, errors.min()
        left = targets - ensemble
        of_members = float(np.sqrt(weights @ np.square(errors) + of_constant * constant))
        shrinkage = loss / of_members if of_members > 0 else 1.0
    return Found(
        tuple(sorted(members, key=lambda member: -member.weight)),
        tuple(trial for one in tried for trial in trials_of(one, rows.labels, used)),
        loss,
        single,
        constant,
        min(shrinkage, 1.0),
        left,
        offsets,
    )


def simplest_first(candidates: Sequence[dict[int, tuple[Attempt, Option]]]) -> list[int]:
    """Return the indices of candidates, sorted so that lines through columns come before those through ramps."""
    order: list[Scaling] = ["spread", "ranks", "components", "ramps"]
    scalings = [next(iter(found.values()))[0].scaling for found in candidates]
    return sorted(range(len(candidates)), key=lambda i: order.index(scalings[i]))


def trusted_line(columns: ColumnFunction, rows: Rows, scale: Array) -> float | None:
    """Return the weight of a line in a mean with the constant, by predictions of all rows by lines through others.

    All rows are predicted, not only those that the search holds out, unless lines would take long: then the result is
    None.
    """
    if len(rows) * len(columns.names) ** 2 > MOST_LINE_PRODUCTS:
        return None
    merged = NearRows.of(rows.X, rows.targets, rows.weight, len(rows), is_complete=True)
    scaled = columns(merged.X)
    X = dense64(scaled.toarray() if sp.issparse(scaled) else scaled)
    mean = rows_mean(rows)
    fold = np.arange(len(X)) % LINE_FOLDS
    predicted = np.tile(mean, (len(X), 1))
    for one in np.unique(fold):
        here, others = fold == one, fold != one
        if others.any():
            predicted[here] = line_through(X[others], merged.targets[others], merged.weight[others], X[here])
    gain, truth = (predicted - mean) / scale, (merged.targets - mean) / scale
    return trusted_share(gain, truth, merged.weight, np.arange(len(X)))


def shared_with_simple(
    weights: Array,
    line: int | None,
    of_line: float | None,
    predictions: Array,
    targets: Array,
    weight: Array,
    rows: Array,
) -> tuple[Array, float]:
    """Return weights of candidates, of which a part goes to a line and to a constant, and the weight of the constant.

    Their part is large where it is not clear that the model is better than they are: where there are few rows, where
    the noise is large, and where the squared errors of few rows are most of the total.

    Parameters
    ----------
    weights : ndarray of shape (c,)
        Weights of the candidates; those without weight are no part of the model.
    line : int or None
        Index of a candidate that is a line.
    of_line : float or None
        Weight of the line, in a mean with the constant only; None if it is that of held-out rows.
    predictions : ndarray of shape (c, m, t)
        Predictions of the candidates for held-out rows, minus the mean of the targets.
    targets : ndarray of shape (m, t)
        Targets of these rows, with mean zero and a variance near one.
    weight : ndarray of shape (m,)
        Weights of these rows.
    rows : ndarray of shape (m,)
        Their indices.
    """
    if len(np.unique(rows)) < FEWEST_COMPARED:
        return weights, 0.0
    simple = np.zeros(len(weights))  # the rest is the weight of a constant, which predicts zero
    if line is not None:
        simple[line] = trusted_share(predictions[line], targets, weight, rows) if of_line is None else of_line
    base = np.tensordot(simple, predictions, 1)
    crossed = crossed_predictions(predictions[weights > 0], targets, weight, rows)
    share = trusted_share(crossed - base, targets - base, weight, rows)
    if share > 1 - LEAST_WEIGHT:
        return weights, 0.0
    joint = share * weights + (1 - share) * simple
    # Nothing is left out here but what would change predictions by next to nothing.
    joint[joint < NEGLIGIBLE] = 0.0
    return joint, max(0.0, 1.0 - float(joint.sum()))


def kept_candidates(weights: Array, is_line: Sequence[bool], most: int) -> list[int]:
    """Return the indices of the candidates of large weight: at most `most`, and lines, which cost little."""
    least = min(LEAST_WEIGHT, 0.5 * weights.max())  # where all weights are small, too, some are large enough
    large = [int(i) for i in np.argsort(-weights, kind="stable") if weights[i] > least]
    curves = [i for i in large if not is_line[i]][:most]
    return sorted([*curves, *(i for i in large if is_line[i])])


def without_negligible(kept: list[int], is_line: Sequence[bool], loss_of: Callable[[list[int]], float]) -> list[int]:
    """Leave out candidates one after the other, as long as the loss of the others is about that of all of them."""
    least = loss_of(kept)
    while len(curves := [i for i in kept if not is_line[i]]) > 1:
        without = {i: loss_of([j for j in kept if j != i]) for i in curves}
        index = min(without, key=without.__getitem__)
        if without[index] > (1 + NEGLIGIBLE) * least:
            break
        kept = [j for j in kept if j != index]
    return kept


def rows_mean(rows: Rows) -> Array:
    """Return the weighted mean (t,) of the targets."""
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    return weight @ rows.targets / weight.sum()


def log_loss(logits: Array, indicators: Array, share: Array) -> float:
    """Return the weighted mean logarithmic loss."""
    return float(-share @ (indicators * special.log_softmax(logits, axis=1)).sum(axis=1))


def relative(predicted: Array, targets: Array, share: Array, scale: Array) -> float:
    """Return the root mean squared error in units of the standard deviations of the targets."""
    return float(np.sqrt(np.mean(share @ np.square((predicted - targets) / scale))))


def kernel_name(profile: str) -> str:
    """Return the name of a kernel for tables."""
    return f"Matern {SMOOTHNESS[profile]:g}" if profile in SMOOTHNESS else profile.capitalize()


def trials_of(one: Attempt, labels: bool, used: dict[int, float]) -> Iterator[Trial]:
    """Yield the rows of the table for an attempt."""
    seconds = one.seconds / len(one.options)
    for option in one.options:
        loss = option.error if labels else float(np.sqrt(option.error / one.targets.shape[1]))
        weight = used.get(id(option), 0.0)
        yield Trial(one.scaling, option.name, option.metric, one.n_rows, one.part, loss, seconds, weight)
