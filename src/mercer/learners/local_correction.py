"""Correction of models on features by the rows near a query."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np

from mercer.engines import enter_stage
from mercer.errors import MercerWarning, ParameterError
from mercer.errors.memory import gib
from mercer.kernels import Kernel, Precomputed
from mercer.kernels.deformed import DeformedKernel
from mercer.learners.base import Fit
from mercer.maps import BaseMap
from mercer.maps.base import Estimator
from mercer.neighbors import neighbor_index
from mercer.parameters import Choice, Domain, Instance, Integer
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
from mercer.solvers.local.near_model import NearProblem
from mercer.solvers.local.near_rows import NearRows, ResidualWeights, collect
from mercer.solvers.ridge.least_squares import RidgeSolution
from mercer.solvers.ridge.paths import Criterion
from mercer.statistics.sample import seed_of

__all__ = ["NEIGHBORS", "LocalCorrection", "correction_costs", "fit_correction", "why_rows_are_stored"]

Array = np.ndarray
PARTS: tuple[Parts, ...] = ("global", "local", "both")
# Numbers of near rows that are compared if n_neighbors is "auto".
COUNTS = (16, 32, 64, 128)
# Largest number of rows among which near rows are searched exactly by default.
MOST_EXACT_ROWS = 50_000
# Largest default size of the rows of a model.
MEMORY_LIMIT = 2 * 2**30


class LocalCorrection(Estimator):
    r"""Correction of a model on features by the rows near a query.

    Features of a map represent a kernel approximately, and what they miss is local. The prediction at x is

    .. math:: f(x) = z(x)'w + c + b(x)'(y_N - Z_N w - c), \qquad b(x) = (R_N + \lambda I)^{-1} R(N, x),

    where N are the nearest rows of the training set and R is the kernel of what the features leave. For landmark
    features (`Nystroem`), R is the residual kernel k(x, y) - z(x)'z(y), so that both parts together have the kernel k.
    With all rows as near rows, the prediction is then that of the exact Gaussian process. For other features, R is the
    kernel itself. The coefficients w of both parts together are estimated by generalized least squares, with a Vecchia
    approximation of the precision matrix [1]_.

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
        represent poorly are more frequent, and a warning is issued.

    See Also
    --------
    KernelRidge : Takes this object, or a number of neighbors, as `neighbors`.
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
    }

    def __init__(
        self,
        n_neighbors: int | Literal["auto"] = 64,
        *,
        parts: Literal["auto"] | Parts = "auto",
        search: Literal["auto", "exact", "approximate"] = "auto",
        memory_limit: int = MEMORY_LIMIT,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.parts = parts
        self.search = search
        self.memory_limit = memory_limit

    def check(self) -> None:
        """Raise if a parameter lies outside its domain."""
        self._check_domains()

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
    owner, correction, feature_map = type(model).__name__, as_correction(model.neighbors), model.feature_map_
    kernel = local_kernel(owner, feature_map)
    first = fit.labeled.first().X
    near_kernel = NearKernel.of(kernel).for_rows(first)
    enter_stage(fit.report, "collect rows")
    # A row, its point twice (for the search too), its weight, and for each target its value, scatter and residual.
    d = near_kernel.points(first[:1]).shape[1]
    per_row = 8 * (3 * d + 3 * len(ridge.intercept) + 1)
    rows = collect(
        fit.labeled,
        max(1, correction.memory_limit // per_row),
        seed_of(fit.random_state, "near rows"),
        targets,
        centered=bool(model.fit_intercept) and not labels,
        residuals=ResidualWeights(kernel, feature_map.features_) if feature_map.residual_is_kernel else None,
        report=fit.report,
    )
    if not rows.is_complete:
        warn_of_sample(owner, rows, per_row, correction.memory_limit)
    width = feature_map.features_.n_components
    parts: tuple[Parts, ...] = PARTS if correction.parts == "auto" else (correction.parts,)
    needed = len(rows) * (per_row + 8 * width)
    if "both" in parts and needed > correction.memory_limit:
        if correction.parts == "both":
            msg = (
                f"{owner}: parts='both' needs {gib(needed)} for the {width} features of {len(rows):,} rows, but "
                f"memory_limit is {gib(correction.memory_limit)}. Raise memory_limit, lower n_components of the map, "
                "or use parts='local'."
            )
            raise ParameterError(msg)
        parts = ("global", "local")
    points = near_kernel.points(rows.X)
    problem = NearProblem(
        kernel=near_kernel,
        rows=rows,
        points=points,
        index=neighbor_index(points, search=correction.search_for(len(rows)), n_jobs=model.n_jobs),
        n_neighbors=1,
        features=feature_map.features_,
        n_jobs=model.n_jobs,
    )
    if "both" in parts:
        Z = problem.query_features(rows.X)
        removed = near_kernel.reduced(Z) if feature_map.residual_is_kernel else None
        problem = replace(problem, row_features=Z, removed=removed)
    return fit_near(
        problem,
        ridge,
        alpha,
        parts=parts,
        neighbors=correction.counts(len(rows)),
        fit_intercept=model.fit_intercept,
        labels=labels,
        seed=seed_of(fit.random_state, "left out"),
        report=fit.report,
    )


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
        "LocalCorrection for better predictions."
    )
    warnings.warn(msg, MercerWarning, stacklevel=2)
