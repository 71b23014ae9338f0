"""Search for scalings of columns, kernels and metrics, and their weights, by predictions of rows that are held out.

The search has two rounds. In the first one, all scalings of columns are compared on few rows, and those clearly
worse are dropped. In the second one, the others are tried on more rows. For small tables it is repeated with other rows
held out: what is best on a hundred rows may not be best on others, and the mean of metrics that were learned from
different rows is better than each of them. The weights of the members minimize the loss of held-out rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy import special

from mercer.automatic.trials import Trial
from mercer.automatic.weights import label_weights, number_weights
from mercer.engines import Report, StagedReport, enter_stage
from mercer.engines.progress import Stages
from mercer.errors import MercerError
from mercer.kernels import Kernel, Transformed
from mercer.kernels.base import dense64
from mercer.metric.near_rows import FULL_UP_TO, SMOOTHNESS, kernel_of
from mercer.solvers.local.metric_search import LOG_LOSS_SCALE, MetricSearch, search_costs, search_metric
from mercer.solvers.local.near_rows import NearRows
from mercer.statistics.sample import seed_of
from mercer.tables import ScaledColumns
from mercer.tables.column_scaler import Scaling, scaled_columns

__all__ = ["Effort", "Found", "Member", "Rows", "search"]

Array = np.ndarray
# Number of rows of the first round, if there are more than twice as many.
FIRST_ROWS = 4000
# Widest rows for which ranks are tried, and least width for which principal components are.
MOST_RANKED = 128
LEAST_WIDE = 64
# Widest rows for which metrics are learned.
MOST_COLUMNS = 4096
# Least number of distinct rows for which metrics are learned.
LEAST_ROWS = 20
# A scaling is dropped after the first round if its loss is higher by this many standard errors, and by this share.
CLEARLY, BY_SHARE = 1.0, 0.01
# Members of less weight are left out.
LEAST_WEIGHT = 0.03
PROFILES = tuple(SMOOTHNESS)


class OutOfTimeError(MercerError):
    """The time limit ended a search."""


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
    columns: ScaledColumns
    kernel: Kernel
    name: str  # of the kernel and its metric
    weight: float  # they sum to one
    factor: float  # of codes of labels in the logits


@dataclass(frozen=True, eq=False)
class Found:
    """The result of a search."""

    members: tuple[Member, ...]
    trials: tuple[Trial, ...]
    loss: float  # of the model, for rows held out: relative root mean squared error, or logarithmic loss
    single: float  # of the best single trial
    constant: float  # of a constant prediction
    shrinkage: float  # root mean squared error of the model, divided by that of its members


@dataclass(frozen=True, eq=False)
class Attempt:
    """One call of `search_metric`: kernels and metrics for one scaling of columns and one part of rows held out."""

    scaling: Scaling
    columns: ScaledColumns
    part: int
    n_rows: int
    search: MetricSearch
    targets: Array  # (m, t), of the rows held out
    weight: Array  # (m,)
    seconds: float

    def best_of_each_kind(self) -> Iterator[tuple[str, int]]:
        """Yield a key and the index of its best trial: each kernel with one lengthscale per column, each other kind."""
        trials = self.search.trials
        keys = [f"{trial.profile} diagonal" if trial.metric == "diagonal" else trial.metric for trial in trials]
        for key in dict.fromkeys(keys):
            yield key, min((i for i in range(len(trials)) if keys[i] == key), key=lambda i: trials[i].error)

    def losses(self, labels: bool) -> Array:
        """Return the loss (m,) of each row that was held out, for the trial of least error."""
        predicted = self.search.predictions[self.search.chosen]
        if not labels:
            return np.square(predicted - self.targets).sum(axis=1)
        logs = special.log_softmax(self.search.tuned.parameter * predicted / self.spread, axis=1)
        return -(self.targets * logs).sum(axis=1)

    @property
    def spread(self) -> float:
        """Standard deviation of the indicators of labels, by which `search_metric` divides them."""
        share = self.weight / self.weight.sum()
        return float(np.sqrt(np.mean(share @ np.square(self.targets - share @ self.targets))) or 1.0)


def scalings_for(rows: Rows, effort: Effort) -> tuple[Scaling, ...]:
    """Return the scalings of columns that are tried."""
    d = rows.X.shape[1]
    if sp.issparse(rows.X):
        return ("spread",)
    wide: tuple[Scaling, ...] = ("components",) if d >= LEAST_WIDE else ()
    if d > MOST_RANKED:
        return ("spread", *wide) if d <= MOST_COLUMNS else wide
    del effort
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
    if len(rows) < LEAST_ROWS or (sp.issparse(rows.X) and rows.X.shape[1] > MOST_COLUMNS):
        return None
    columns = {name: scaled_columns(name, rows.X, rows.weight) for name in scalings_for(rows, effort)}
    if "ranks" in columns and len(columns["ranks"].names) == len(columns["spread"].names):
        del columns["ranks"]  # no column is skewed
    columns = {name: scaled for name, scaled in columns.items() if scaled.names}
    if not columns:
        return None
    last = min(len(rows), effort.rows)
    attempts: list[Attempt] = []
    tried: list[Attempt] = []

    def attempt(name: Scaling, count: int, part: int, stage: str) -> Attempt | None:
        enter_stage(report, stage)
        found = one_attempt(
            rows.first(count), name, columns[name], part,
            random_state=random_state, n_jobs=n_jobs, report=part_of(report, effort.deadline), deadline=effort.deadline,
        )  # fmt: skip
        tried.append(found)
        return found

    names = list(columns)
    try:
        if len(columns) > 1 and last > 2 * FIRST_ROWS:
            first = [attempt(name, FIRST_ROWS, 0, f"compare columns: {name}") for name in columns]
            names = not_worse(first, rows.labels)
        for part in range(effort.parts):
            for name in names:
                attempts.append(attempt(name, last, part, f"learn metrics: {name}, part {part + 1}"))
    except OutOfTimeError:
        complete = len(attempts) // len(names) * len(names)  # parts in which all scalings were tried
        attempts = attempts[:complete] or attempts or tried[-1:]
    if not attempts:
        return None
    return weighted(attempts, tried, rows, effort)


def one_attempt(
    rows: Rows,
    name: Scaling,
    columns: ScaledColumns,
    part: int,
    *,
    random_state: Any,
    n_jobs: int | None,
    report: Report | None,
    deadline: float | None,
) -> Attempt:
    """Return kernels and metrics for one scaling of columns."""
    if deadline is not None and time.perf_counter() > deadline:
        raise OutOfTimeError
    start = time.perf_counter()
    merged = NearRows.of(rows.X, rows.targets, rows.weight, len(rows), is_complete=True)
    scaled = columns(merged.X)
    X = np.ascontiguousarray(dense64(scaled.toarray() if sp.issparse(scaled) else scaled))
    full = 1 < X.shape[1] <= FULL_UP_TO
    if isinstance(report, StagedReport):
        report.plan(search_costs(PROFILES, len(X), X.shape[1], full=full))
    found = search_metric(
        X,
        merged.targets,
        merged.weight,
        PROFILES,
        labels=rows.labels,
        full=full,
        seed=seed_of(random_state, f"part {part}") % 2**32,
        n_jobs=n_jobs,
        report=report,
    )
    targets, weight = merged.targets[found.held], merged.weight[found.held]
    return Attempt(name, columns, part, len(rows), found, targets, weight, time.perf_counter() - start)


def not_worse(attempts: Sequence[Attempt], labels: bool) -> list[Scaling]:
    """Return the scalings whose losses are not clearly higher than the least one."""
    best = min(attempts, key=lambda one: one.search.trials[one.search.chosen].error)
    reference = best.losses(labels)
    share = best.weight / best.weight.sum()
    mean = share @ reference
    names = []
    for one in attempts:
        difference = one.losses(labels) - reference
        excess = share @ difference
        error = np.sqrt(np.square(share) @ np.square(difference - excess))
        if one is best or not (excess > CLEARLY * error and excess > BY_SHARE * mean):
            names.append(one.scaling)
    return names


def weighted(attempts: Sequence[Attempt], tried: Sequence[Attempt], rows: Rows, effort: Effort) -> Found:
    """Return the members of least loss, by the rows held out of all parts."""
    parts = sorted({one.part for one in attempts})
    by_key: dict[tuple[Scaling, str], dict[int, tuple[Attempt, int]]] = {}
    for one in attempts:
        for key, index in one.best_of_each_kind():
            by_key.setdefault((one.scaling, key), {})[one.part] = (one, index)
    # Only what was tried in all parts has predictions for all rows that were held out.
    candidates = [found for found in by_key.values() if len(found) == len(parts)]
    reference = {part: next(one for one in attempts if one.part == part) for part in parts}
    targets = np.concatenate([reference[part].targets for part in parts])
    weight = np.concatenate([reference[part].weight for part in parts])
    predictions = np.stack(
        [np.concatenate([of[part][0].search.predictions[of[part][1]] for part in parts]) for of in candidates]
    )
    share = weight / weight.sum()
    mean = rows_mean(rows)
    if rows.labels:
        codes = targets.argmax(axis=1)
        factors = label_weights(predictions, codes, weight, LOG_LOSS_SCALE)
    else:
        scale = np.sqrt(share @ np.square(targets - mean))
        scale = np.where(scale > 0, scale, 1.0)
        factors = number_weights((predictions - mean) / scale, (targets - mean) / scale, weight)
    total = factors.sum()
    members: list[tuple[Attempt, int, float]] = []
    for found, factor in zip(candidates, factors / total, strict=True):
        members += [(*found[part], factor / len(parts)) for part in parts if factor > LEAST_WEIGHT]
    members = sorted(members, key=lambda entry: -entry[2])[: effort.members]
    sum_of_kept = sum(entry[2] for entry in members)
    members = [(one, index, factor / sum_of_kept) for one, index, factor in members]
    ensemble = np.einsum("c,cmt->mt", factors / total, predictions)
    if rows.labels:
        losses = [log_loss(LOG_LOSS_SCALE * one, codes, share) for one in predictions]
        loss, single = log_loss(total * ensemble, codes, share), min(losses)
        constant = log_loss(np.log(np.maximum(mean, 1e-300))[None] + np.zeros_like(targets), codes, share)
        shrinkage = 1.0
    else:
        errors = [relative(one, targets, share, scale) for one in predictions]
        loss, single, constant = relative(ensemble, targets, share, scale), min(errors), 1.0
        of_members = float(np.sqrt((factors / total) @ np.square(errors)))
        shrinkage = loss / of_members if of_members > 0 else 1.0
    # Indicators f of labels are (1 + g) / 2 for codes g, and two labels have a single code.
    factor = total if rows.targets.shape[1] == 2 else total / 2
    used = {(id(one.search), index): share_of for one, index, share_of in members}
    return Found(
        tuple(member_of(one, index, share_of, share_of * factor) for one, index, share_of in members),
        tuple(trial for one in tried for trial in trials_of(one, rows.labels, used)),
        loss,
        single,
        constant,
        min(shrinkage, 1.0),
    )


def rows_mean(rows: Rows) -> Array:
    """Return the weighted mean (t,) of the targets."""
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    return weight @ rows.targets / weight.sum()


def log_loss(logits: Array, codes: Array, share: Array) -> float:
    """Return the weighted mean logarithmic loss."""
    return float(-share @ special.log_softmax(logits, axis=1)[np.arange(len(codes)), codes])


def relative(predicted: Array, targets: Array, share: Array, scale: Array) -> float:
    """Return the root mean squared error in units of the standard deviations of the targets."""
    return float(np.sqrt(np.mean(share @ np.square((predicted - targets) / scale))))


def member_of(one: Attempt, index: int, weight: float, factor: float) -> Member:
    """Return a trial as a member of a model."""
    trial, W = one.search.trials[index], one.search.metrics[index].matrix
    kernel = kernel_of(trial.profile, 1.0)
    if W.ndim == 1:
        kernel = Transformed(kernel, lengthscales=1 / np.maximum(W, 1e-100))
    else:
        kernel = Transformed(kernel, matrix=W)
    return Member(one.scaling, one.columns, kernel, f"{kernel_name(trial.profile)}, {trial.metric}", weight, factor)


def kernel_name(profile: str) -> str:
    """Return the name of a kernel for tables."""
    return f"Matern {SMOOTHNESS[profile]:g}" if profile in SMOOTHNESS else profile.capitalize()  # type: ignore[index]


def trials_of(one: Attempt, labels: bool, used: dict[tuple[int, int], float]) -> Iterator[Trial]:
    """Yield the rows of the table for an attempt."""
    t = one.targets.shape[1]
    for index, trial in enumerate(one.search.trials):
        loss = trial.error if labels else float(np.sqrt(trial.error / t))
        seconds = one.seconds / len(one.search.trials)
        weight = used.get((id(one.search), index), 0.0)
        kernel = kernel_name(trial.profile)
        yield Trial(one.scaling, kernel, trial.metric, one.n_rows, one.part, loss, seconds, weight)


def part_of(report: Report | None, deadline: float | None) -> Report | None:
    """Return a report for a search that is a part of a stage; it ends the search at the deadline."""
    if report is None and deadline is None:
        return None

    def forward(progress: Any) -> None:
        if deadline is not None and time.perf_counter() > deadline:
            raise OutOfTimeError
        if isinstance(report, StagedReport):
            percent = 0 if progress.fraction is None else round(100 * progress.fraction)
            report.step(percent, 100, progress.stage, "%")

    return Stages("", forward)
