"""Correction of models on features by the rows near a query."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from mercer._docs import PARAGRAPHS
from mercer.data.targets import label_codes, label_signs
from mercer.engines import CheckpointedEngine, Engine, FilteredEngine, enter_stage, report_step
from mercer.errors import MercerWarning, ParameterError
from mercer.errors.memory import gib
from mercer.kernels import Kernel, Precomputed
from mercer.kernels.deformed import DeformedKernel
from mercer.learners.base import Fit
from mercer.maps import BaseMap
from mercer.maps.base import Estimator
from mercer.neighbors import neighbor_index
from mercer.parameters import Choice, Domain, Instance, Integer, check_parameter
from mercer.solvers.local.near_fit import (
    LEFT_OUT_ROWS,
    MOST_JOINT_ROWS,
    N_NOISES,
    NOISE_ROWS,
    LocalFit,
    Parts,
    fit_near,
)
from mercer.solvers.local.near_kernel import NearKernel
from mercer.solvers.local.near_logits import LossPart, fit_logits
from mercer.solvers.local.near_model import NearProblem
from mercer.solvers.local.near_rows import NearRows, ResidualWeights, collect, unit_of
from mercer.solvers.local.near_source import RowsInSource, Summarize
from mercer.solvers.ridge.least_squares import RidgeSolution
from mercer.solvers.ridge.paths import Criterion
from mercer.statistics import row_hashes
from mercer.statistics.sample import seed_of

__all__ = [
    "NEIGHBORS",
    "LabelTargets",
    "LocalCorrection",
    "correction_costs",
    "fit_correction",
    "fit_loss_correction",
    "why_rows_are_stored",
]

Array = np.ndarray
PARTS: tuple[Parts, ...] = ("global", "local", "both")
# Numbers of near rows that are compared if n_neighbors is "auto".
COUNTS = (16, 32, 64, 128)
# Largest number of rows among which near rows are searched exactly by default.
MOST_EXACT_ROWS = 50_000
# Largest default size of the rows of a model.
MEMORY_LIMIT = 2 * 2**30


PARAGRAPHS |= {
    "neighbors": """\
neighbors : int, "auto", LocalCorrection or None, default=None
    Number of near rows by which predictions are corrected, or a `LocalCorrection` with further parameters; None means
    that there is no correction. The rows are then a part of the model. Whether the model uses the features, the near
    rows or both is chosen by leave-one-out.""",
    "local_": """\
local_ : LocalFit or None
    The local correction: `parts`, whether the model uses the features ("global"), near rows ("local") or both;
    `scores`, the leave-one-out errors of these choices; None if `neighbors` is None.""",
}


class LocalCorrection(Estimator):
    r"""Correction of a model on features by the rows near a query.

    Features of a map represent a kernel approximately, and what they miss is local. The prediction at x is

    .. math:: f(x) = z(x)'w + c + b(x)'(y_N - Z_N w - c), \qquad b(x) = (R_N + \lambda I)^{-1} R(N, x),

    where N are the nearest rows of the training set and R is the kernel of what the features leave. For landmark
    features (`Nystroem`), R is the residual kernel k(x, y) - z(x)'z(y), so that both parts together have the kernel k.
    With all rows as near rows, the prediction is then that of the exact Gaussian process. For other features, R is the
    kernel itself. The coefficients w of both parts together are estimated by generalized least squares, with a Vecchia
    approximation of the precision matrix [1]_. For `KernelLogisticRegression` and `KernelSVC`, both parts together are
    a multiple of z(x)'w + c plus a multiple of a prediction of the codes of labels from near rows, with the kernel
    itself.

    Parameters
    ----------
    n_neighbors : int or "auto", default=64
        Number of near rows. "auto" compares 16, 32, 64 and 128 by leave-one-out.
    parts : {"auto", "global", "local", "both"}, default="auto"
        Which parts the model has: only the features, only the near rows, or both. "auto" compares them by leave-one-out
        losses of a sample of 2000 rows: squared errors of numbers, logarithmic losses of labels.
    search : {"auto", "exact", "approximate"}, default="auto"
        How near rows are searched. "approximate" finds about 98 % of the nearest rows, in half of the time or less;
        "auto" is exact up to 50,000 rows.
    memory_limit : int, default=2147483648
        Largest size in bytes of the rows that the model stores. If their features do not fit, both parts together are
        not tried. If the rows themselves do not fit, a sample of them is stored, in which rows that the features
        represent poorly are more frequent, and a warning is issued. `size` returns the size before a fit.
    rows : {"model", "source"}, default="model"
        Where the rows are after a fit. "model": in the model. "source": where the fit has read them, such as the
        partitions of a Dask collection, files or a list of blocks. Then each prediction reads all of them again: near
        rows are searched in every partition or block, where it is, and only the nearest ones of all are sent. It
        suits rows that exceed memory, predictions of many rows at once, and rows that do not change. The coefficients
        of both parts together are then those of the features alone, as for more than 50,000 rows.

    See Also
    --------
    KernelRidge, KernelRidgeClassifier, KernelLogisticRegression, KernelSVC : Take this object, or a number of
        neighbors, as `neighbors`.
    LearnedMetric : A map that learns the metric in which rows are near.

    References
    ----------
    .. [1] Gyger, Furrer, Sigrist (2024), Iterative methods for full-scale Gaussian process approximations for large
       spatial data, arXiv:2405.14492.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRidge, LocalCorrection, Matern, Nystroem
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(2000, 2))
    >>> y = np.sin(40 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=2000)
    >>> feature_map = Nystroem(Matern(1.5, 0.2), 50, random_state=0)
    >>> plain = KernelRidge(feature_map, alpha="loo").fit(X[:1500], y[:1500])
    >>> local = KernelRidge(feature_map, alpha="loo", neighbors=LocalCorrection(32)).fit(X[:1500], y[:1500])
    >>> bool(local.score(X[1500:], y[1500:]) > 0.95 > 0.8 > plain.score(X[1500:], y[1500:]))
    True
    """

    parameter_domains: ClassVar[Mapping[str, Domain]] = {
        "n_neighbors": Integer(1) | Choice("auto"),
        "parts": Choice("auto", *PARTS),
        "search": Choice("auto", "exact", "approximate"),
        "memory_limit": Integer(1),
        "rows": Choice("model", "source"),
    }

    def __init__(
        self,
        n_neighbors: int | Literal["auto"] = 64,
        *,
        parts: Literal["auto"] | Parts = "auto",
        search: Literal["auto", "exact", "approximate"] = "auto",
        memory_limit: int = MEMORY_LIMIT,
        rows: Literal["model", "source"] = "model",
    ) -> None:
        self.n_neighbors = n_neighbors
        self.parts = parts
        self.search = search
        self.memory_limit = memory_limit
        self.rows = rows

    def check(self) -> None:
        """Raise if a parameter lies outside its domain."""
        self._check_domains()

    def stored_rows(self, n_rows: int, n_features: int, n_targets: int = 1) -> int:
        """Return the number of rows that a model stores at most, for distinct rows of a fit.

        Parameters
        ----------
        n_rows : int
            Number of rows of the fit. Copies of a row are stored once.
        n_features : int
            Number of features of a row.
        n_targets : int, default=1
            Number of columns of targets: for labels their number, and one for two labels.

        Returns
        -------
        int
            `n_rows`, or the size of a sample if the rows exceed `memory_limit`.
        """
        for name, value, least in (("n_rows", n_rows, 0), ("n_features", n_features, 1), ("n_targets", n_targets, 1)):
            check_parameter("LocalCorrection", name, value, Integer(least))
        self.check()
        if self.rows == "source":
            return 0
        return min(n_rows, max(1, self.memory_limit // bytes_per_row(n_features, n_targets)))

    def size(self, n_rows: int, n_features: int, n_targets: int = 1, n_components: int = 0) -> int:
        """Return the size in bytes of the rows that a model stores, without a fit.

        Parameters
        ----------
        n_rows, n_features, n_targets
            As in `stored_rows`.
        n_components : int, default=0
            Number of components of the map if the model has both parts, which store the features of the rows. They
            are not stored if they exceed `memory_limit`.

        Returns
        -------
        int
            The size for dense rows in float64, from which `nbytes` of the attribute `local_` differs by a few percent.
            It is larger by the features if the kernel is multiplied by a number.

        Examples
        --------
        >>> from mercer import LocalCorrection
        >>> LocalCorrection().size(20_000, 8) / 2**20
        5.18798828125
        """
        check_parameter("LocalCorrection", "n_components", n_components, Integer(0))
        stored = self.stored_rows(n_rows, n_features, n_targets)
        per_row = bytes_per_row(n_features, n_targets)
        with_features = stored * (per_row + 8 * n_components)
        return stored * per_row if with_features > self.memory_limit else with_features

    def search_for(self, n: int) -> Literal["exact", "approximate"]:
        """Return how near rows are searched among n rows."""
        if self.search == "auto":
            return "exact" if n <= MOST_EXACT_ROWS else "approximate"
        return self.search

    def counts(self, n: int) -> Sequence[int]:
        """Return the numbers of near rows that are compared, for n rows."""
        if self.n_neighbors != "auto":
            return (self.n_neighbors,)
        return tuple(count for count in COUNTS if count < n) or (n,)


#: Domain of the parameter `neighbors` of learners.
NEIGHBORS = Choice(None, "auto") | Integer(1) | Instance(LocalCorrection, "a LocalCorrection")


def as_correction(neighbors: int | Literal["auto"] | LocalCorrection) -> LocalCorrection:
    """Return the parameter `neighbors` of a learner as an object with checked parameters."""
    if not isinstance(neighbors, LocalCorrection):
        return LocalCorrection(neighbors)
    neighbors.check()
    return neighbors


def why_rows_are_stored(neighbors: Any) -> str | None:
    """Return the reason why a fit with this parameter reads the rows more than once, or None if it does not."""
    if neighbors is None:
        return None
    return "neighbors= stores the rows of a fit, and reads them after the map is fitted. Use neighbors=None."


def correction_costs(
    neighbors: int | Literal["auto"] | LocalCorrection | None,
    alpha: float | Criterion | Literal["auto"],
    n: int,
    d: int,
    D: int,
) -> dict[str, float]:
    """Return the stages of `fit_correction` and their costs, for n rows of d features and D components of the map."""
    if neighbors is None:
        return {}
    correction = as_correction(neighbors)
    counts = np.minimum(correction.counts(n), n).astype(float)
    left_out, noises = min(n, LEFT_OUT_ROWS), N_NOISES * min(n, NOISE_ROWS) if isinstance(alpha, str) else 0
    systems = (counts**3 / 3 + counts**2 * d).sum()
    costs = {"collect rows": float(n * d)}
    if correction.parts != "global":
        costs["leave rows out"] = float(len(counts) * left_out * n * d + (left_out + noises) * systems)
    if correction.parts in ("auto", "both"):
        joint = n if n <= MOST_JOINT_ROWS else left_out
        of_features = (counts**2 * D).sum() + len(counts) * float(D) ** 2
        costs["estimate both parts"] = float(len(counts) * joint * n * d + joint * (systems + of_features))
    return costs


def fit_correction(
    model: Any,
    ridge: RidgeSolution,
    alpha: float | Criterion,
    fit: Fit,
    targets: Callable[[Array], Array],
    *,
    labels: bool,
) -> LocalFit:
    """Fit the local correction of a learner.

    Parameters
    ----------
    model : Learner
        The learner, with its parameters `neighbors`, `fit_intercept` and `n_jobs`, and the fitted map.
    ridge : RidgeSolution
        The model on features alone.
    alpha : float, "loo", "evidence" or "gcv"
        The penalty, or the criterion by which it is chosen.
    fit : Fit
        The rows.
    targets : callable
        Function that returns the numeric targets (n, t) of validated targets.
    labels : bool
        Whether these are codes of labels. Otherwise their mean is subtracted if there is an intercept.
    """
    centered = bool(model.fit_intercept) and not labels
    local = local_problem(model, fit, targets, len(ridge.intercept), centered=centered, with_features=True)
    found = fit_near(
        local.problem,
        ridge,
        alpha,
        parts=local.parts,
        neighbors=local.counts,
        fit_intercept=model.fit_intercept,
        labels=labels,
        seed=seed_of(fit.random_state, "left out"),
        sample=local.sample,
        mean=local.mean,
        report=fit.report,
    )
    return found if local.source is None else replace(found, model=found.model.in_source(local.source))


def fit_loss_correction(model: Any, part: LossPart, fit: Fit, targets: Callable[[Array], Array]) -> LocalFit:
    """Fit the local correction of a classifier that minimizes a loss on features.

    Parameters
    ----------
    model : Learner
        The learner, with its parameters `neighbors` and `n_jobs`, and the fitted map.
    part : LossPart
        The model on features alone.
    fit : Fit
        The rows.
    targets : callable
        Function that returns the codes (n, t) of labels.
    """
    local = local_problem(model, fit, targets, len(part.intercept), centered=False, with_features=False)
    found = fit_logits(
        local.problem,
        part,
        parts=local.parts,
        neighbors=local.counts,
        seed=seed_of(fit.random_state, "left out"),
        sample=local.sample,
        mean=local.mean,
        report=fit.report,
    )
    return found if local.source is None else replace(found, model=found.model.in_source(local.source))


@dataclass(frozen=True, eq=False)
class LabelTargets:
    """Function that returns the numeric targets of labels, as ridge classifiers use them."""

    labels: Array  # all labels, sorted

    def __call__(self, y: Array) -> Array:
        return label_signs(label_codes(np.asarray(y), self.labels), len(self.labels))


@dataclass(frozen=True, eq=False)
class LocalProblem:
    """What a local model is fitted to."""

    problem: NearProblem
    parts: tuple[Parts, ...]  # the choices of parts that are compared
    counts: Sequence[int]  # the numbers of near rows that are compared
    sample: Array | None = None  # (m,), indices of the rows that are left out, if they are chosen already
    mean: Array | None = None  # (t,), weighted mean of the targets, if the problem has not all rows
    source: RowsInSource | None = None  # the rows, if the problem has not all of them

    def repeated(self, factor: float) -> LocalProblem:
        """Return the same problem with weights of rows multiplied by a factor."""
        problem = replace(self.problem, rows=self.problem.rows.repeated(factor))
        source = None if self.source is None else replace(self.source, repeated=factor)
        return replace(self, problem=problem, source=source)


def local_problem(
    model: Any,
    fit: Fit,
    targets: Callable[[Array], Array],
    n_targets: int,
    *,
    centered: bool,
    with_features: bool,
) -> LocalProblem:
    """Collect the rows of a fit, or those near a sample of them, with their features.

    Parameters
    ----------
    model : Learner
        The learner, with its parameters `neighbors` and `n_jobs`, and the fitted map.
    fit : Fit
        The rows.
    targets : callable
        Function that returns the numeric targets (n, t) of validated targets.
    n_targets : int
        Number t of these targets.
    centered : bool
        Whether the mean of the targets is subtracted.
    with_features : bool
        Whether both parts together need the features of the rows.
    """
    owner, correction, feature_map = type(model).__name__, as_correction(model.neighbors), model.feature_map_
    kernel = local_kernel(owner, feature_map)
    first = fit.labeled.first().X
    near_kernel = NearKernel.of(kernel).for_rows(first)
    enter_stage(fit.report, "collect rows")
    d = near_kernel.points(first[:1]).shape[1]
    per_row = bytes_per_row(d, n_targets)
    report_size(fit, correction, d, n_targets)
    source = sample = mean = None
    if correction.rows == "source":
        rows, n, sample, mean, source = sampled_source(correction, near_kernel, fit, targets, per_row, centered)
    else:
        rows = collect(
            fit.labeled,
            max(1, correction.memory_limit // per_row),
            seed_of(fit.random_state, "near rows"),
            targets,
            centered=centered,
            residuals=ResidualWeights(kernel, feature_map.features_) if feature_map.residual_is_kernel else None,
            report=fit.report,
        )
        n = len(rows)
        if not rows.is_complete:
            warn_of_sample(owner, rows, per_row, correction.memory_limit)
    width = feature_map.features_.n_components
    parts: tuple[Parts, ...] = PARTS if correction.parts == "auto" else (correction.parts,)
    needed = len(rows) * (per_row + 8 * width) if with_features else 0
    if "both" in parts and needed > correction.memory_limit:
        if correction.parts == "both":
            msg = (
                f"{owner}: parts='both' needs {gib(needed)} for the {width} features of {len(rows):,} rows, but "
                f"memory_limit is {gib(correction.memory_limit)}. Raise memory_limit, lower n_components of the map, "
                "or use parts='local'."
            )
            raise ParameterError(msg)
        parts = ("global", "local")
    with_features = with_features and "both" in parts
    if source is not None and with_features:
        source = replace(source, most_rows=correction.memory_limit // (per_row + 8 * width))
    points = near_kernel.points(rows.X)
    search = correction.search_for(len(rows)) if source is None else "exact"
    problem = NearProblem(
        kernel=near_kernel,
        rows=rows,
        points=points,
        index=neighbor_index(points, search=search, n_jobs=model.n_jobs),
        n_neighbors=1,
        features=feature_map.features_,
        residual_is_kernel=feature_map.residual_is_kernel,
        n_jobs=model.n_jobs,
    )
    if with_features:
        Z = problem.query_features(rows.X)
        removed = near_kernel.reduced(Z) if feature_map.residual_is_kernel else None
        problem = replace(problem, row_features=Z, removed=removed)
    return LocalProblem(problem, parts, correction.counts(n), sample, mean, source)


def sampled_source(
    correction: LocalCorrection,
    kernel: NearKernel,
    fit: Fit,
    targets: Callable[[Array], Array],
    per_row: int,
    centered: bool,
) -> tuple[NearRows, int, Array, Array, RowsInSource]:
    """Sample the rows that are left out, and find the rows near them, in two passes over all rows.

    Returns
    -------
    rows : NearRows
        The sample and the rows near it.
    n : int
        Number of distinct rows, or of rows if there are more than the sample has.
    sample : ndarray of shape (m,)
        Indices of the rows of the sample.
    mean : ndarray of shape (t,)
        Mean of the targets of all rows.
    source : RowsInSource
        All rows.
    """
    seed = seed_of(fit.random_state, "left out")
    summary = fit.labeled.sum(Summarize(targets, LEFT_OUT_ROWS, seed), fit.report)
    chosen = summary.sample
    n = len(chosen) if len(chosen) < chosen.size else chosen.seen
    unit = unit_of(np.array([summary.largest]))
    mean = summary.mean / unit
    source = RowsInSource(
        engine=fit.labeled,
        kernel=kernel,
        targets=targets,
        n_rows=chosen.seen,
        most_rows=max(1, correction.memory_limit // per_row),
        unit=unit,
        offset=mean if centered else None,
    )
    order = np.argsort(chosen.key, kind="stable")
    X, hashes = chosen.X[order], chosen.hash[order]
    rows = source.near(kernel.points(X), max(correction.counts(n)) + 1, own=hashes, report=fit.report)
    sample = np.searchsorted(row_hashes(rows.X), hashes)
    lasting = replace(source, engine=without_checkpoint(fit.labeled))
    return rows, n, sample, np.zeros_like(mean) if centered else mean, lasting


def without_checkpoint(engine: Engine) -> Engine:
    """Return the engine over the same rows that saves nothing to a file, since the file is that of the fit."""
    if isinstance(engine, CheckpointedEngine):
        return engine.engine
    if isinstance(engine, FilteredEngine):
        return FilteredEngine(without_checkpoint(engine.engine), engine.rule, engine.nothing)
    return engine


def bytes_per_row(n_features: int, n_targets: int) -> int:
    """Return the size of a stored row.

    It has its features, its point, its weight, and for each target its value, scatter and residual, all in float64.
    The index has its point in float64 and in float32, and 13 bytes more.
    """
    return 28 * n_features + 24 * n_targets + 24


def report_size(fit: Fit, correction: LocalCorrection, n_features: int, n_targets: int) -> None:
    """Report the number of rows that the model will store, and their size, before they are collected."""
    n = fit.labeled.n_rows
    if correction.rows == "source":
        note = "rows stay in their source"
    elif n is None:
        note = f"the model stores its rows, at most {gib(correction.memory_limit)}"
    else:
        stored = correction.stored_rows(n, n_features, n_targets)
        note = f"the model stores {stored:,} rows, {gib(correction.size(n, n_features, n_targets))}"
    report_step(fit.report, 0, n, note, unit="rows")


def local_kernel(owner: str, feature_map: BaseMap) -> Kernel:
    """Return the kernel of a fitted map; raise if its values depend on more than two rows."""
    kernel = feature_map.kernel_
    if depends_on_all_rows(kernel):
        msg = (
            f"{owner}: neighbors= needs a kernel that is a function of two rows, got {kernel.structure} of "
            f"{type(feature_map).__name__}. Use neighbors=None with this map."
        )
        raise ParameterError(msg)
    return kernel


def depends_on_all_rows(kernel: Kernel) -> bool:
    """Return whether a kernel, or a part of it, is not a function of two rows alone."""
    parts = kernel._children().values()
    return isinstance(kernel, Precomputed | DeformedKernel) or any(depends_on_all_rows(part) for part in parts)


def warn_of_sample(owner: str, rows: NearRows, per_row: int, limit: int) -> None:
    """Warn that a model stores only a part of the rows."""
    msg = (
        f"{owner}: the {rows.n_rows:,} rows of the fit need {gib(rows.n_rows * per_row)}, but memory_limit is "
        f"{gib(limit)}: predictions use the near rows of a sample of {len(rows):,} rows. Raise memory_limit of "
        "LocalCorrection for better predictions, or set rows='source'."
    )
    warnings.warn(msg, MercerWarning, stacklevel=2)
