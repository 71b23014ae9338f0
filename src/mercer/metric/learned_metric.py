"""A feature map whose kernel has a metric that is learned from the targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp

from mercer._docs import doc
from mercer.data.targets import Coding, HasTarget, Labels, Numbers, has_target, label_codes, label_signs
from mercer.engines import Engine, FilteredEngine, Report, enter_stage
from mercer.errors import DataError, ParameterError
from mercer.errors.packages import axes_of
from mercer.kernels import Kernel, Matern
from mercer.kernels.base import dense64
from mercer.maps.base import DrawnMap, check_replayable, fresh_copy
from mercer.maps.landmarks import Nystroem
from mercer.metric.features import MetricFeatures, MetricRows
from mercer.metric.inner_map import MapOfTransformedRows
from mercer.metric.inputs import MetricInputs, deviation, equal_rows
from mercer.metric.near_rows import FULL_UP_TO as NEAR_FULL_UP_TO
from mercer.metric.near_rows import NearMetric, learn_from_near_rows, profiles_of
from mercer.metric.rounds import (
    NO_ROWS,
    MetricRound,
    MetricRounds,
    Predictor,
    fit_predictor,
    gradient_products,
    powered,
)
from mercer.parameters import Choice, Domain, Instance, Integer, Interval
from mercer.solvers.local.metric_search import search_costs
from mercer.statistics import RowSample, row_hashes
from mercer.statistics.sample import seed_of

__all__ = ["LearnedMetric", "MetricRule"]

Array = np.ndarray
#: A function of scaled rows (n, k), coded targets (n, t), weights (n,) or None, and a kernel, that returns a metric:
#: a positive semi-definite matrix (k, k), or its diagonal (k,).
MetricRule = Callable[[Array, Array, Array | None, Kernel], Array]
# Widest rows for which metric="auto" is a full one, and for which a full metric is possible. An eigendecomposition
# takes 9 d^3 operations in each round.
FULL_UP_TO = 1024
MOST_FULL = 4096
# Number of rows from which scales of columns and landmarks are taken, and the number of their entries if dense.
SAMPLE_ROWS = 10_000
SAMPLE_ENTRIES = 20_000_000
# Largest number of entries of the rows by which near rows are searched.
NEAR_ENTRIES = 50_000_000
# Number of landmarks of the default map: at least, at most, and as a multiple of the root of the number of rows.
LEAST_LANDMARKS, MOST_LANDMARKS, LANDMARK_FACTOR = 1000, 2000, 5
# Numeric targets of `fit` that are integers are labels if they have at most this many different values.
MOST_LABELS = 32
# After a round without less error, the power is halved, down to this multiple of the given one.
LEAST_POWER = 0.5


@dataclass(frozen=True, eq=False)
class RowsOfMap:
    """The rows that the inner map is fitted to."""

    X: Any
    weight: Array | None
    chosen: Array | None = None  # indices of the landmarks; None if the inner map chooses by itself


@doc
class LearnedMetric(MapOfTransformedRows):
    r"""Feature map of a kernel whose metric is learned from the targets.

    The kernel is :math:`k(M^{1/2} x, M^{1/2} y)` with a kernel k and a positive semi-definite matrix M, which gives
    weight to the directions along which the targets change. It is learned by recursive feature machines [1]_: in each
    round, a ridge regression :math:`f` on the features of the inner map predicts the targets with the current metric,
    and the next metric is the average over the rows of the outer products of its gradients,
    :math:`\frac{1}{n} \sum_i \nabla f(x_i) \nabla f(x_i)^\top`. The metric of the round with the least leave-one-out
    error is kept; round 0 is without a metric. Time is linear in the number of rows.

    Columns are divided by their spread first, so that their units do not matter.

    With ``method="neighbors"``, kernel and metric are instead those in which predictions from near rows have the least
    leave-one-out loss, which is minimized by steps along its gradient on mini-batches of rows. This is the metric for
    models with `neighbors`; see `LocalCorrection`.

    Parameters
    ----------
    feature_map : DrawnMap, default=None
        The inner map, which is fitted to the rows in the metric: `Nystroem` with an isotropic kernel, or
        `RandomFourier`. Its lengthscale should be ``"median"``, so that it follows the metric. None means
        ``Nystroem(Matern(1.5, "median"))`` with uniform landmarks: as many as rows up to 1000, five times the square
        root of the number of rows above, and 2000 at most. With ``method="neighbors"`` the lengthscale is learned, and
        for None also the smoothness of the Matern kernel: 1/2, 3/2 or 5/2.
    method : {"gradients", "neighbors"}, default="gradients"
        How the metric is learned: from gradients of ridge regressions, or from leave-one-out losses of predictions from
        near rows.
    metric : {"auto", "full", "diagonal"} or callable, default="auto"
        "full" learns a matrix, and takes O(d^3) time per round and at most 4096 columns; "diagonal" learns one weight
        per column; "auto" is full up to 1024 columns. With ``method="neighbors"``, a full metric is tried after the
        diagonal one, and is kept if it has less error; "auto" tries it up to 128 columns. A callable
        ``(X, Y, weight, kernel) -> metric`` computes the metric from scaled rows (n, k), targets (n, t) with a standard
        deviation of one or codes +1 and -1 of labels, weights (n,) or None, and the kernel of round 0. It returns a
        matrix (k, k) or a diagonal (k,), which is round 1. It is given a sample of at most 10,000 rows, without columns
        that are constant.
    rounds : int, default=5
        Largest number of rounds of ``method="gradients"``, which `power` and `shrinkage` refer to, too.
    power : float, default=1.0
        The metric is this power of the average outer product. With lower powers, directions have more equal weights.
        After a round without less error, the power is halved, and the gradients of the best round are used again; the
        second time, the rounds end.
    shrinkage : "auto" or float, default="auto"
        From 0 to 1, how far a full metric is moved towards its diagonal in each round. "auto" is d / (d + n) for d
        columns and rows of total weight n.
    targets : {"auto", "numbers", "labels"}, default="auto"
        What the targets are that `fit` of this map itself receives. "auto": strings, booleans, and integers with at
        most 32 different values are labels. A learner that is given this map decides by itself.
    max_rows : int or None, default=100_000
        Number of rows from which the metric is learned; of more rows, a random sample of about this number is used.
        None means all rows. All rows are used by the learner.
    %(random_state, n_jobs)s

    Attributes
    ----------
    metric_ : ndarray of shape (d, d) or (d,)
        The metric M of the scaled columns, or its diagonal, with a trace of one. Columns that are constant have zeros.
    importances_ : ndarray of shape (d,)
        The diagonal of the metric: what each scaled column contributes to squared distances. They sum to one.
    scales_ : ndarray of shape (d,)
        Spread of each column, by which it is divided; zero if the column is constant.
    rounds_ : MetricRounds
        Table of all rounds, or of all kernels and metrics that were tried, and their errors: ``print(map.rounds_)``,
        ``rounds_.to_pandas()``.
    feature_map_ : DrawnMap
        The inner map, fitted to rows in the metric.
    kernel_ : Transformed
        The kernel of the rows: the kernel of the inner map, of scaled columns times the root of the metric.
    features_ : MetricFeatures
        The fitted features: a function from rows to features.
    %(n_features_in_)s

    See Also
    --------
    Transformed : A kernel with a given metric.
    GaussianProcessRegressor : Lengthscales, one per column, by the marginal likelihood.

    Notes
    -----
    Rows whose target is not known (the parameter `unlabeled` of the learner, or NaN in `y`) do not affect the metric.
    The learner that uses the map needs targets.

    The result for rows with columns in other units is the same up to rounding with the default map. An inner map that
    chooses rows by their content, such as ``Nystroem`` with pivoted landmarks, may choose others.

    References
    ----------
    .. [1] Radhakrishnan, Beaglehole, Pandit, Belkin (2024), Mechanism for feature learning in neural networks and
       backpropagation-free machine learning models, Science 383, 1461-1467.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRidge, LearnedMetric
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 10))
    >>> y = np.sin(2 * X[:, 0] + X[:, 1])  # depends on one direction of ten
    >>> model = KernelRidge(LearnedMetric(random_state=0), alpha="loo").fit(X[:400], y[:400])
    >>> plain = KernelRidge(LearnedMetric(rounds=0, random_state=0), alpha="loo").fit(X[:400], y[:400])
    >>> bool(model.score(X[400:], y[400:]) > 0.98 > 0.8 > plain.score(X[400:], y[400:]))
    True
    >>> model.feature_map_.importances_[:3].round(1).tolist()
    [0.8, 0.2, 0.0]
    """

    needs: ClassVar[str] = "to be the outermost map, since it learns from the targets"
    parameter_domains: ClassVar[Mapping[str, Domain]] = {
        "method": Choice("gradients", "neighbors"),
        "metric": Choice("auto", "full", "diagonal") | Instance(Callable, "a callable"),  # type: ignore[arg-type]
        "rounds": Integer(0),
        "power": Interval(0, closed="right"),
        "shrinkage": Interval(0, 1, closed="both") | Choice("auto"),
        "targets": Choice("auto", "numbers", "labels"),
        "max_rows": Integer(1) | Choice(None),
    }
    feature_map_: DrawnMap
    rounds_: MetricRounds
    metric_: Array
    importances_: Array

    def __init__(
        self,
        feature_map: DrawnMap | None = None,
        *,
        method: Literal["gradients", "neighbors"] = "gradients",
        metric: Literal["auto", "full", "diagonal"] | MetricRule = "auto",
        rounds: int = 5,
        power: float = 1.0,
        shrinkage: float | Literal["auto"] = "auto",
        targets: Literal["auto", "numbers", "labels"] = "auto",
        max_rows: int | None = 100_000,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.feature_map = feature_map
        self.method = method
        self.metric = metric
        self.rounds = rounds
        self.power = power
        self.shrinkage = shrinkage
        self.targets = targets
        self.max_rows = max_rows
        self.random_state = random_state
        self.n_jobs = n_jobs

    # ---- the contract of BaseMap --------------------------------------------------------------

    @property
    def unbiased(self) -> bool | str:
        return "the kernel itself is learned from the rows, and depends on the draw of the inner map"

    def _inner_map(self) -> DrawnMap:
        """Return the parameter `feature_map`, or the default map with the largest number of landmarks if it is None."""
        if self.feature_map is None:
            return Nystroem(Matern(1.5, "median"), MOST_LANDMARKS, landmarks="uniform")
        if not isinstance(self.feature_map, DrawnMap):
            msg = (
                "LearnedMetric: feature_map must be a mercer map that approximates a given kernel, such as Nystroem() "
                f"or RandomFourier(), got {self.feature_map!r}."
            )
            raise ParameterError(msg)
        return self.feature_map

    def check(self) -> None:
        self._inner_map().check()
        self._check_domains()
        if self.method == "neighbors":
            profiles_of(None if self.feature_map is None else self._kernel())
            if callable(self.metric):
                msg = "LearnedMetric: a callable metric needs method='gradients', got method='neighbors'."
                raise ParameterError(msg)

    @property
    def refuses_rows(self) -> str | None:
        return (
            "partial_fit cannot be used with LearnedMetric, because the metric is learned from all rows in several "
            "rounds. Use fit on all rows, or a map of the kernel_ of a fitted LearnedMetric."
        )

    def grown(self, engine: Engine) -> tuple[Self, Array | None]:  # noqa: ARG002 - `refuses_rows` says why not
        raise DataError(self.refuses_rows)

    # ---- fitting ------------------------------------------------------------------------------

    def _fit_costs(self, n: int, d: int) -> dict[str, Any]:
        D = min(n, self.width)
        rows = n if self.max_rows is None else min(n, self.max_rows)
        if self.method == "neighbors":
            profiles = profiles_of(None if self.feature_map is None else self._kernel())
            return {"sample rows": float(n * d), **search_costs(profiles, rows, d, full=self._tries_full(d) and d > 1)}
        one = 3.0 * rows * D**2 + 10.0 * D**3 + 2.0 * rows * D * d
        return {"sample rows": float(n * d), **{f"round {i}": one for i in range(self._most_rounds() + 1)}}

    def _most_rounds(self) -> int:
        return min(self.rounds, 1) if callable(self.metric) else self.rounds

    def _target_coding(self, y: Any) -> Coding:
        """Return the coding of the targets that `fit` receives. Missing values are rows without a target."""
        if y is None:
            msg = (
                "LearnedMetric requires y to be passed, but the target y is None: the metric is learned from targets. "
                "Pass fit(X, y), or use a learner with targets, such as KernelRidge."
            )
            raise DataError(msg)
        values = np.asarray(y)
        # Without an `unlabeled` value, scikit-learn's messages for invalid targets are raised.
        unlabeled = None if values.dtype.kind not in "Of" or has_target(values, np.nan).all() else np.nan
        kind = self.targets
        if kind == "auto":
            few = values.ndim == 1 and values.dtype.kind in "iu" and len(np.unique(values)) <= MOST_LABELS
            strings = values.dtype.kind == "O" and any(isinstance(one, str | bytes | bool) for one in values.ravel())
            kind = "labels" if values.dtype.kind in "USb" or strings or few else "numbers"
        return Labels(unlabeled) if kind == "labels" else Numbers(unlabeled)

    def fit_engine(self, engine: Engine, report: Report | None = None) -> Self:
        y = engine.first().y
        labeled = engine
        if y is not None and y.dtype.kind in "Of":
            labeled = FilteredEngine(engine, HasTarget(np.nan), NO_ROWS)
        return self._fit_labeled(engine, labeled, report)

    def _fit_labeled(self, engine: Engine, labeled: Engine, report: Report | None) -> Self:
        self.check()
        check_replayable(self, engine, instead="")
        block = labeled.first()
        if block.y is None:
            msg = (
                "LearnedMetric learns from targets, but these rows have none. Pass y, and use a learner with targets, "
                "such as KernelRidge; or fit the map first, and use a map of its kernel_."
            )
            raise DataError(msg)
        d = block.X.shape[1]
        if self.metric == "full" and d > MOST_FULL:
            msg = (
                f"LearnedMetric: metric='full' is a matrix of shape (d, d) and takes at most {MOST_FULL} columns, got "
                f"{d}. Use metric='diagonal', or reduce the columns first."
            )
            raise ParameterError(msg)
        diagonal = self.metric == "diagonal" or (self.metric == "auto" and d > FULL_UP_TO)
        enter_stage(report, "sample rows")
        size = SAMPLE_ROWS if sp.issparse(block.X) else min(SAMPLE_ROWS, max(1000, SAMPLE_ENTRIES // d))
        sample = labeled.sum(
            partial(RowSample.of, size=size, seed=seed_of(self.random_state, "metric"), by_weight=True), report
        )
        if self.method == "neighbors":
            near, inner = self._learn_from_near_rows(engine, labeled, sample, report)
            self._set_fitted(near.inputs, inner, near.rounds, sample)
            return self
        kept, tried = self._learn(engine, labeled, sample, diagonal, report)
        rounds = (MetricRound(i, one.error, power, one.alpha, one is kept) for i, (one, power) in enumerate(tried))
        self._set_fitted(kept.rows.inputs, kept.feature_map, MetricRounds(tuple(rounds)), sample)
        return self

    def _tries_full(self, d: int) -> bool:
        """Return whether ``method="neighbors"`` tries a full metric for `d` columns."""
        return self.metric == "full" or (self.metric == "auto" and d <= NEAR_FULL_UP_TO)

    def _learn_from_near_rows(
        self, engine: Engine, labeled: Engine, sample: RowSample, report: Report | None
    ) -> tuple[NearMetric, DrawnMap]:
        """Return the metric by left-out errors of predictions from near rows, and the inner map in it."""
        seed = seed_of(self.random_state, "near metric")
        weight = sample.weight if sample.is_complete else None
        inputs = self._scaled(sample, weight)
        if inputs.width > MOST_FULL:
            msg = (
                f"LearnedMetric: method='neighbors' takes at most {MOST_FULL} columns that are not constant, got "
                f"{inputs.width}. Use method='gradients' with metric='diagonal', or reduce the columns first."
            )
            raise ParameterError(msg)
        size = min(sample.seen if self.max_rows is None else self.max_rows, NEAR_ENTRIES // inputs.width)
        rows = sample
        if size < len(sample.key) or (size > len(sample.key) and not sample.is_complete):
            rows = labeled.sum(partial(RowSample.of, size=size, seed=seed, by_weight=True), report)
        prototype = self._unfitted_inner_map()
        near = learn_from_near_rows(
            rows,
            inputs,
            target_scales(sample, weight),
            None if self.feature_map is None else self._kernel(),
            full=self._tries_full(inputs.width),
            seed=seed % 2**32,
            n_jobs=self.n_jobs,
            report=report,
        )
        enter_stage(report, "fit map")
        of_map = self._rows_of_map(prototype, engine, sample, report)
        return near, self._fit_inner(fresh_copy(prototype, kernel=near.kernel), of_map, near.inputs)

    def _scaled(self, sample: RowSample, weight: Array | None) -> MetricInputs:
        """Return the scaling of columns by their spread over a sample; raise if all columns are constant."""
        inputs = MetricInputs.of(sample.X, weight)
        if inputs.width == 0:
            got = "one sample" if sample.seen == 1 else f"{sample.seen} equal rows"
            msg = f"LearnedMetric needs at least two different rows with targets, got {got}."
            raise DataError(msg)
        return inputs

    def _learn(
        self, engine: Engine, labeled: Engine, sample: RowSample, diagonal: bool, report: Report | None
    ) -> tuple[Predictor, list[tuple[Predictor, float]]]:
        """Return the predictor of least left-out error, and the predictors and powers of all rounds."""
        seed = seed_of(self.random_state, "metric rounds")
        weight = sample.weight if sample.is_complete else None
        fraction = 1.0 if self.max_rows is None else min(1.0, self.max_rows / sample.seen)
        n_rows = fraction * sample.seen
        rows = MetricRows(self._scaled(sample, weight), target_scales(sample, weight), fraction, seed)
        prototype = self._unfitted_inner_map()
        of_map = self._rows_of_map(prototype, engine, sample, report)
        enter_stage(report, "round 0")
        first = fit_predictor(self._fit_inner(prototype, of_map, rows.inputs), labeled, rows, n_rows, seed, report)
        tried, best, products, power = [(first, np.nan)], first, None, float(self.power)
        for number in range(1, self._most_rounds() + 1):
            enter_stage(report, f"round {number}")
            if callable(self.metric):
                metric, power = self._given_metric(self.metric, best, sample), np.nan
            else:
                if products is None:
                    products = gradient_products(best, labeled, diagonal=diagonal, seed=seed, report=report)
                d = rows.inputs.width
                shrinkage = d / (d + best.weight) if self.shrinkage == "auto" else float(self.shrinkage)
                metric = powered(products, power, shrinkage)
            if metric is None:  # nothing to learn from constant predictions
                break
            rows = replace(rows, inputs=rows.inputs.with_metric(metric))
            inner = self._fit_inner(prototype, of_map, rows.inputs)
            tried.append((fit_predictor(inner, labeled, rows, n_rows, seed, report), power))
            if tried[-1][0].error < best.error:
                best, products = tried[-1][0], None
            elif power < LEAST_POWER * self.power:
                break
            else:
                power *= 0.5  # a shorter step from the best metric
        return best, tried

    def _given_metric(self, rule: MetricRule, predictor: Predictor, sample: RowSample) -> Array | None:
        """Return the metric that a callable computes, or None if the targets are constant."""
        if not predictor.coef.any():
            return None
        rows = predictor.rows
        weight = sample.weight if sample.is_complete else None
        targets = coded(sample.y, rows.target_scale)
        found = rule(dense64(equal_rows(rows.inputs, sample.X)), targets, weight, predictor.feature_map.kernel_)
        return checked_metric(found, rows.inputs.width)

    def _unfitted_inner_map(self) -> DrawnMap:
        """Return an unfitted copy of the inner map, with a seed that is the same in all rounds."""
        inner = self._inner_map()
        state = inner.random_state if self.random_state is None else self.random_state
        changes = {} if self.n_jobs is None else {"n_jobs": self.n_jobs}
        return fresh_copy(inner, random_state=seed_of(state, "metric map") % 2**32, **changes)

    def _fit_inner(self, prototype: DrawnMap, rows: RowsOfMap, inputs: MetricInputs) -> DrawnMap:
        """Return the inner map fitted to its rows in a metric."""
        X = equal_rows(inputs, rows.X)
        if rows.chosen is None:
            return fresh_copy(prototype).fit_sample(X, rows.weight)
        kernel = prototype._kernel().resolve(X, rows.weight)
        count = len(rows.chosen)
        fixed = fresh_copy(prototype, kernel=kernel, landmarks=X[rows.chosen], n_components=count)
        return fixed.fit_sample(X[:1])

    def _rows_of_map(self, prototype: DrawnMap, engine: Engine, sample: RowSample, report: Report | None) -> RowsOfMap:
        """Return the rows that the inner map is fitted to, the same in all rounds."""
        if self.feature_map is not None:
            X, weight = prototype._sample(engine, report)
            return RowsOfMap(X, weight) if weight is None else RowsOfMap(X[weight > 0], weight[weight > 0])
        # Landmarks are the rows of smallest keys, so that they are the same rows for columns in other units.
        count = min(len(sample.key), MOST_LANDMARKS, max(LEAST_LANDMARKS, int(LANDMARK_FACTOR * sample.seen**0.5)))
        chosen = np.sort(np.argsort(sample.key, kind="stable")[:count])
        return RowsOfMap(sample.X, sample.weight if sample.is_complete else None, chosen)

    def _set_fitted(self, inputs: MetricInputs, inner: DrawnMap, rounds: MetricRounds, sample: RowSample) -> None:
        metric = np.ones(inputs.width) if inputs.root is None else inputs.root
        metric = np.square(metric) if metric.ndim == 1 else metric @ metric
        metric = metric / (metric.sum() if metric.ndim == 1 else np.trace(metric))
        self.n_features_in_ = inputs.n_features
        self.feature_map_ = inner
        self.metric_ = inputs.full(metric)
        self.importances_ = self.metric_ if metric.ndim == 1 else np.diagonal(self.metric_).copy()
        self.scales_ = inputs.full(inputs.scale)
        self.rounds_ = rounds
        self.kernel_ = inputs.kernel(inner.kernel_)
        self.features_ = MetricFeatures(inputs, inner.features_)
        self._sampled_rows = row_hashes(sample.X) if inner.built_from_rows else None
        self.signs_ = self.features_.signs
        self._n_features_out = self.features_.n_components

    # ---- results ------------------------------------------------------------------------------

    def plot(self, ax: Any = None, *, most: int = 20) -> Any:
        """Plot the importances of the columns, the largest first.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None means a new figure.
        most : int, default=20
            Largest number of columns that are shown.

        Returns
        -------
        matplotlib Axes
        """
        self._check_fitted()
        order = np.argsort(-self.importances_, kind="stable")[:most][::-1]
        names = getattr(self, "feature_names_in_", None)
        labels = [f"column {i}" if names is None else str(names[i]) for i in order]
        ax = axes_of(ax, "LearnedMetric", (6.5, 1.2 + 0.26 * len(order)))
        ax.barh(np.arange(len(order)), self.importances_[order], color="C0", height=0.7)
        ax.set_yticks(np.arange(len(order)), labels)
        ax.set(xlabel="share of squared distances, of scaled columns", ylim=(-0.6, len(order) - 0.4))
        first, kept = self.rounds_.rounds[0], self.rounds_.kept
        shown = "" if len(order) == len(self.importances_) else f"{len(order)} of {len(self.importances_)} columns, "
        ax.set_title(f"{shown}left-out error {first.error:.3g} to {kept.error:.3g} in round {kept.number}", fontsize=10)
        ax.grid(visible=True, axis="x", alpha=0.3)
        ax.set_axisbelow(True)
        return ax


def target_scales(sample: RowSample, weight: Array | None) -> Array | None:
    """Return the standard deviations of numeric targets, or None if the targets are labels."""
    y = sample.y
    assert y is not None
    if y.ndim == 1:
        return None
    share = np.full(len(y), 1 / len(y)) if weight is None else weight / weight.sum()
    largest = np.abs(y).max(axis=0)
    unit = np.where(largest > 0, largest, 1.0)  # so that squares neither overflow nor underflow
    # The deviation of equal numbers is their rounding error, not zero.
    spread = np.where(y.max(axis=0) > y.min(axis=0), deviation(y / unit, share), 0.0)
    return unit * np.where(spread > 0, spread, 1.0)


def coded(y: Array | None, scale: Array | None) -> Array:
    """Return targets for a `MetricRule`: centered numbers with a standard deviation of one, or codes +1 and -1."""
    assert y is not None
    if scale is None:
        labels = np.unique(y)
        return label_signs(label_codes(y, labels), len(labels))
    return y / scale - (y / scale).mean(axis=0)


def checked_metric(metric: Any, width: int) -> Array:
    """Return the result of a callable `metric` with a trace of its number of rows. Raise if it is not a metric."""
    found = np.asarray(metric, dtype=np.float64)
    trace = 0.0
    if found.shape in ((width,), (width, width)) and np.isfinite(found).all():
        values = found if found.ndim == 1 else np.linalg.eigvalsh(0.5 * (found + found.T))
        trace = float(values.sum()) if values.min() >= -1e-8 * np.abs(values).max() else 0.0
    if not trace > 0:
        msg = (
            "LearnedMetric: the callable metric must return a positive semi-definite matrix of shape "
            f"({width}, {width}), or its diagonal of shape ({width},), which is not zero; got shape {found.shape}."
        )
        raise ParameterError(msg)
    return (found if found.ndim == 1 else 0.5 * (found + found.T)) * (width / trace)
