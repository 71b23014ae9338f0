"""One round of learning a metric: a ridge regression in the current metric, its left-out error and its gradients."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from mercer.engines import Block, Engine, FilteredEngine, Report
from mercer.engines.base import workers
from mercer.errors import ParameterError
from mercer.errors.packages import data_frame
from mercer.io import storable
from mercer.maps.base import BaseMap
from mercer.metric.features import MetricRows
from mercer.solvers.ridge.least_squares import Spectrum
from mercer.solvers.ridge.paths import LeftOut, penalties
from mercer.statistics.gradients import SumGradientProducts
from mercer.statistics.moments import MomentSum, label_indicators, numeric_targets

__all__ = ["MetricRound", "MetricRounds", "Predictor", "fit_predictor", "gradient_products", "powered"]

Array = np.ndarray
NO_ROWS = "LearnedMetric: there are no rows with targets. Give y for some rows."
# Number of multiplications for the gradients at the rows, and for left-out errors. If all rows would take more, a
# random sample is used. Both are means over rows, whose error of sampling is small beside that of the metric itself.
GRADIENT_WORK, MOST_GRADIENT_ROWS, LEAST_GRADIENT_ROWS = 1e11, 20_000, 5000
LEFT_OUT_WORK = 1.25e10


@dataclass(frozen=True)
class MetricRound:
    """One round: the metric that was tried, and how well a ridge regression predicts left-out rows with it.

    Attributes
    ----------
    number : int
        Number of the round; 0 is without a metric, only with scaled columns.
    error : float
        Root mean square of the leave-one-out errors, divided by the standard deviation of the targets. For labels it is
        the error of the codes +1 and -1.
    power : float
        The power of the average outer product of gradients; nan in round 0, and for a callable metric.
    alpha : float
        The penalty of least error.
    kept : bool
        Whether this is the metric that was kept, that of least error.
    name : str
        The kernel and the kind of metric, if several are tried (``method="neighbors"``).
    """

    number: int
    error: float
    power: float
    alpha: float
    kept: bool = False
    name: str = ""


@dataclass(frozen=True)
class MetricRounds:
    """Table of the rounds of a `LearnedMetric`: ``print(rounds)``, ``rounds.to_pandas()``.

    Attributes
    ----------
    rounds : tuple of MetricRound
        All rounds, in their order.
    """

    rounds: tuple[MetricRound, ...]

    @property
    def kept(self) -> MetricRound:
        """The round whose metric was kept."""
        return next(one for one in self.rounds if one.kept)

    def __len__(self) -> int:
        return len(self.rounds)

    def __iter__(self) -> Any:
        return iter(self.rounds)

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns of the table as lists."""
        return {field.name: [getattr(one, field.name) for one in self.rounds] for field in fields(MetricRound)}

    def to_pandas(self) -> Any:
        """Return the table as a pandas data frame, one row per round."""
        rows = [{field.name: getattr(one, field.name) for field in fields(one)} for one in self.rounds]
        return data_frame(rows, "MetricRounds.to_pandas")

    def __str__(self) -> str:
        lines = ["  round  left-out error  power    alpha"]
        for one in self.rounds:
            power = "" if np.isnan(one.power) else f"{one.power:g}"
            mark = "*" if one.kept else " "
            lines.append(
                f"{mark} {one.number:>5}  {one.error:>14.5f}  {power:>5}  {one.alpha:>7.1e}  {one.name}".rstrip()
            )
        return "\n".join(lines)


@storable
@dataclass(frozen=True)
class LeftOutSum:
    """Sum over rows of their weights, and of their squared leave-one-out errors for each penalty."""

    weight: float
    squares: Array  # (p,)

    def __add__(self, other: LeftOutSum) -> LeftOutSum:
        return LeftOutSum(self.weight + other.weight, self.squares + other.squares)


@dataclass(frozen=True, eq=False)
class SumLeftOut:
    """Function of a block of rows that returns their `LeftOutSum`."""

    errors: LeftOut

    def __call__(self, block: Block) -> LeftOutSum:
        weight = float(len(block) if block.weight is None else block.weight.sum())
        return LeftOutSum(weight, self.errors(block))


@dataclass(frozen=True, eq=False)
class Predictor:
    """A ridge regression on the features of a map that was fitted to the rows in a metric."""

    feature_map: BaseMap
    rows: MetricRows
    coef: Array  # (D, t)
    alpha: float
    error: float  # relative root mean squared leave-one-out error; zero if the targets are constant
    n_rows: float  # that it was fitted to, approximately
    weight: float  # of these rows


def fit_predictor(
    feature_map: BaseMap, labeled: Engine, rows: MetricRows, n_rows: float, seed: int, report: Report | None
) -> Predictor:
    """Fit a ridge regression, with the penalty of least leave-one-out error, to rows in a metric.

    Parameters
    ----------
    feature_map : BaseMap
        Map that is fitted to rows in the metric.
    labeled : Engine
        All rows whose target is known.
    rows : MetricRows
        Rule that converts blocks of these rows, and may select some of them.
    n_rows : float
        Number of the rows that the rule selects.
    seed : int
        Seed of the sample on which errors are measured, if there are many rows.
    report : callable or None
        Receives the progress.
    """
    features = feature_map.features_
    targets = label_indicators if rows.target_scale is None else numeric_targets
    accumulator = MomentSum(features, targets, double=True, centered=True, n_rows=None)
    moments = accumulator.finish(FilteredEngine(labeled, rows, NO_ROWS).accumulate(accumulator, report))
    labels = moments.targets.labels
    moments = moments if labels is None else moments.signed()
    with workers(1):  # threads of BLAS hardly make a decomposition of this size faster
        spectrum = Spectrum.of(moments)
    alphas = penalties(spectrum)
    variance = float(spectrum.energy.sum()) / spectrum.weight
    if not variance > 0:
        return Predictor(
            feature_map, rows, np.zeros_like(spectrum.rotated), float(alphas[-1]), 0.0, n_rows, spectrum.weight
        )
    some = sampled(rows, LEFT_OUT_WORK / (n_rows * features.n_components**2), seed)
    errors = LeftOut(features, spectrum, alphas, True, labels)
    total = FilteredEngine(labeled, some, NO_ROWS).sum(SumLeftOut(errors), report)
    with np.errstate(invalid="ignore"):
        scores = total.squares / total.weight
    best = int(np.argmin(scores))
    error = float(np.sqrt(scores[best] / variance))
    coef = spectrum.coef(alphas[best])
    return Predictor(feature_map, rows, coef, float(alphas[best]), error, n_rows, spectrum.weight)


def gradient_products(
    predictor: Predictor, labeled: Engine, *, diagonal: bool, seed: int, report: Report | None
) -> Array:
    """Return the average outer product (k, k) of the gradients of the predictions, with respect to scaled columns.

    Only its diagonal (k,) is returned if `diagonal`.
    """
    features, rows = predictor.feature_map.features_, predictor.rows
    gradients = None if features.gradients is None else features.gradients(predictor.coef)
    if gradients is None:
        fitted = predictor.feature_map
        msg = (
            "LearnedMetric: feature_map must be a map whose features have gradients: landmarks of an isotropic kernel, "
            f"such as Nystroem(Matern(1.5, 'median')), or real Fourier features, such as RandomFourier(); got "
            f"{type(fitted).__name__} of {fitted.kernel_!r}."
        )
        raise ParameterError(msg)
    work = features.n_components * rows.inputs.width * predictor.coef.shape[1]
    count = np.clip(GRADIENT_WORK / work, LEAST_GRADIENT_ROWS, MOST_GRADIENT_ROWS)
    some = sampled(rows, count / predictor.n_rows, seed)
    term = SumGradientProducts(gradients, features.n_components, diagonal and rows.inputs.is_diagonal)
    products = rows.inputs.from_metric(FilteredEngine(labeled, some, NO_ROWS).sum(term, report).mean)
    return np.diagonal(products) if diagonal and products.ndim == 2 else products


def powered(products: Array, power: float, shrinkage: float) -> Array | None:
    """Return a power of a matrix, shrunk towards its diagonal, with a trace of its number of rows.

    None is returned if the matrix is zero.
    """
    trace = float(products.sum() if products.ndim == 1 else np.trace(products))
    if not trace > 0 or not np.isfinite(trace):
        return None
    metric = products / trace
    if metric.ndim == 1:
        metric = metric**power
    else:
        metric = (1 - shrinkage) * 0.5 * (metric + metric.T) + shrinkage * np.diag(np.diagonal(metric))
        with workers(1):
            values, vectors = np.linalg.eigh(metric)
        metric = (vectors * np.maximum(values, 0.0) ** power) @ vectors.T
    return metric * (len(metric) / float(metric.sum() if metric.ndim == 1 else np.trace(metric)))


def sampled(rows: MetricRows, fraction: float, seed: int) -> MetricRows:
    """Return a rule that selects a fraction of the rows that `rows` selects, if the fraction is below one."""
    if fraction >= 1:
        return rows
    # The same keys, so that the smaller sample is a part of the larger one.
    return MetricRows(
        rows.inputs, rows.target_scale, fraction * rows.fraction, rows.seed if rows.fraction < 1 else seed
    )
