"""Gaussian processes on near rows: tuning by leave-one-out densities of mini-batches, and the fit of the local part."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from mercer.engines import Report, enter_stage
from mercer.errors import DataError, ParameterError
from mercer.kernels import Gaussian, Kernel, Matern, Transformed
from mercer.kernels.base import dense64
from mercer.learners.base import Fit
from mercer.learners.local_correction import local_problem
from mercer.linalg.numpy_kernels import ProfileName
from mercer.maps import Nystroem
from mercer.solvers.local.metric_search import (
    HELD_ROWS,
    LEAST_GAIN,
    NOISE,
    MetricTrial,
    left_out_predictions,
    search_metric,
)
from mercer.solvers.local.metric_tuning import STEPS, NumberLoss, TunedMetric, tune_metric
from mercer.solvers.local.near_fit import Parts, both_noises, fit_near
from mercer.solvers.local.near_kernel import MATERN, NearKernel
from mercer.solvers.local.near_rows import collect
from mercer.solvers.neighbor_processes.posterior import NeighborPosterior, neighbor_posterior
from mercer.solvers.processes.evidence import Scales
from mercer.solvers.processes.tuning import WIDEST, Tuning, rounded, scaled_rows, tune_lengthscales, with_inputs
from mercer.solvers.ridge.least_squares import RidgeSolution, Spectrum
from mercer.solvers.ridge.paths import Criterion
from mercer.statistics import RowSample, exponentials
from mercer.statistics.sample import seed_of

__all__ = ["check_given", "fit_neighbors", "tune_neighbors", "tunes_by_near_rows"]

Array = np.ndarray
# Profiles that are compared if no kernel is given, from rough to smooth.
PROFILES: tuple[ProfileName, ...] = ("matern12", "matern32", "matern52")
# Smooth kernels of which the evidence is maximized, if no kernel is given.
SMOOTH = (Matern(2.5), Gaussian())
# Least number of rows of which the evidence is maximized.
LEAST_EVIDENCE_ROWS = 10
# Number of rows on which lengthscales are tuned; fewer, but no fewer than the least, if they have many features.
TUNED_ROWS, LEAST_TUNED_ROWS = 100_000, 10_000
TUNED_ENTRIES = 20_000_000
# Number of left-out rows by which local scales and intervals are calibrated.
LEFT_OUT_ROWS = 8192
# Gain in the mean log density of left-out targets over the noise of highest evidence that another noise must have.
LEAST_DENSITY_GAIN = LEAST_GAIN / 2
# Number of left-out rows by which fits with different parts are compared.
COMPARED_ROWS = 2000


def tunes_by_near_rows(kernel: Kernel, fit: Fit) -> bool:
    """Return whether the lengthscales of a kernel can be tuned by the densities of rows given their near rows."""
    first = fit.engine.first().X[:100]
    if first.shape[1] > WIDEST:
        return False
    near = NearKernel.of(kernel.resolve(dense64(first), None))
    return (
        near.profile is not None
        and near.amplitude == 1
        and not (isinstance(kernel, Transformed) and kernel.matrix is not None)
    )


@dataclass(frozen=True)
class NeighborTuning:
    """The result of tuning: the kernel, all trials, and the noise of highest evidence if the kernel is that, too."""

    kernel: Kernel
    trials: tuple[MetricTrial, ...]
    alpha: float | None  # variance of the noise in units of that of the function


def tune_neighbors(model: Any, kernel: Kernel, fit: Fit, *, roughness: bool) -> NeighborTuning:
    """Return the kernel whose lengthscales have the highest leave-one-out density, or the highest evidence.

    Predictions from near rows hardly depend on lengthscales that are long, and these determine what is predicted away
    from the rows. So the kernel of highest evidence on a sample of rows is used unless left-out errors are larger.

    Parameters
    ----------
    model : GaussianProcessRegressor
        The learner, with its parameters `lengthscale_tuning`, `normalize_y`, `tune_rows` and `n_jobs`.
    kernel : Kernel
        A kernel for which `tunes_by_near_rows` is true.
    fit : Fit
        The rows.
    roughness : bool
        Whether the smoothness of the kernel is chosen too.
    """
    enter_stage(fit.report, "tune lengthscales")
    seed = seed_of(fit.random_state, "tune") % 2**32
    d = fit.labeled.first().X.shape[1]
    most = min(TUNED_ROWS, max(LEAST_TUNED_ROWS, TUNED_ENTRIES // d))
    rows = collect(fit.labeled, most, seed, np.asarray, centered=bool(model.normalize_y), report=fit.report)
    rows = rows.repeated(1 / rows.repetition)
    check_targets_differ(model, rows.targets)
    inputs, inner, X = scaled_rows(kernel, dense64(rows.X))
    base = NearKernel.of(inner.resolve(X, rows.weight)).isotropic
    assert base is not None
    profile = NearKernel.of(base).profile
    assert profile is not None
    profiles = PROFILES if roughness else (profile,)
    options = {"seed": seed, "n_jobs": model.n_jobs, "report": fit.report}
    shared = model.lengthscale_tuning == "shared" or len(rows) < 3
    if shared:
        start = 1 / float(base.lengthscale)
        chosen, metric, trials = search_shared(X, rows.targets, rows.weight, profiles, start, **options)
    else:
        search = search_metric(X, rows.targets, rows.weight, profiles, labels=False, full=False, **options)
        chosen, metric, trials = search.profile, search.tuned, search.trials
    factors, alpha = 1 / metric.matrix, None
    if roughness:
        base = Matern({name: nu for nu, name in MATERN.items()}[chosen])
    if len(rows) >= LEAST_EVIDENCE_ROWS:
        enter_stage(fit.report, "maximize the evidence")
        smooth = SMOOTH if roughness else (base,)
        size = int(model.tune_rows)
        few = RowSample(
            size,
            min(size, len(rows)),
            *(np.arange(min(size, len(rows))),) * 2,
            *(values[:size] for values in (X, rows.targets, rows.weight)),
        )
        tuned = max(
            (
                tune_lengthscales(
                    Nystroem(one),
                    one.with_params(lengthscale=float(np.exp(np.log(factors).mean()))),
                    few,
                    ard=not shared,
                    noise=None if model._given("noise") is None else model._given("noise") / rows.unit,
                    amplitude=None if model._given("amplitude") is None else model._given("amplitude") / rows.unit,
                    centered=bool(model.normalize_y),
                    seed=seed,
                    repeated=False,  # targets are means over copies
                    report=fit.report,
                )
                for one in smooth
            ),
            key=lambda tuning: tuning.evidence,
        )
        found = metric_of(tuned, X.shape[1])
        errors = [
            held_error(X, rows.targets, rows.weight, name, some, seed, model.n_jobs)
            for name, some in ((chosen, metric), found)
        ]
        trials += (MetricTrial(found[0], "shared" if shared else "diagonal", errors[1], found[1].noise),)
        if errors[1] * (1 - LEAST_GAIN) <= errors[0]:
            return NeighborTuning(with_inputs(tuned.kernel, inputs), trials, found[1].noise)
    if (factors == factors[0]).all():
        fitted: Kernel = base.with_params(lengthscale=rounded(factors[:1])[0])
    else:
        fitted = Transformed(base.with_params(lengthscale=1.0), lengthscales=rounded(factors))
    return NeighborTuning(with_inputs(fitted, inputs), trials, alpha)


def metric_of(tuning: Tuning, d: int) -> tuple[ProfileName, TunedMetric]:
    """Return the profile and the metric of the kernel of highest evidence."""
    kernel = NearKernel.of(tuning.kernel)
    assert kernel.profile is not None
    points = kernel.points(np.vstack([np.zeros(d), np.eye(d)]))
    alpha = float(np.exp(np.log(tuning.alpha).mean()))
    return kernel.profile, TunedMetric(np.diagonal(points[1:] - points[0]).copy(), alpha, 1.0, np.empty(0))


def held_error(
    X: Array, targets: Array, weight: Array, profile: ProfileName, metric: TunedMetric, seed: int, n_jobs: int | None
) -> float:
    """Return the mean squared leave-one-out error of some rows, in units of the mean square of the targets."""
    unit = root_mean_square(targets, weight)
    scaled = np.ascontiguousarray(targets / unit)
    held = np.sort(np.random.default_rng(seed).choice(len(X), min(len(X), HELD_ROWS), replace=False))
    predicted, _ = left_out_predictions(X, scaled, weight, profile, metric, held, n_jobs)
    return float(weight[held] @ np.square(scaled[held] - predicted).sum(axis=1) / weight[held].sum())


def root_mean_square(targets: Array, weight: Array) -> float:
    """Return the root mean square of targets, or the least positive number if they are zero."""
    return max(float(np.sqrt(weight @ np.square(targets).mean(axis=1) / weight.sum())), np.finfo(float).tiny)


def search_shared(
    X: Array,
    targets: Array,
    weight: Array,
    profiles: tuple[ProfileName, ...],
    start: float,
    *,
    seed: int,
    n_jobs: int | None,
    report: Report | None,
) -> tuple[ProfileName, TunedMetric, tuple[MetricTrial, ...]]:
    """Tune one lengthscale for all features with each profile.

    Returns
    -------
    profile : str
        That of the least error of left-out targets.
    metric : TunedMetric
        Its lengthscale, once for each feature, and its noise.
    trials : tuple of MetricTrial
        All trials.
    """
    scaled = np.ascontiguousarray(targets / root_mean_square(targets, weight))
    found: list[tuple[MetricTrial, TunedMetric]] = []
    tuned = TunedMetric(np.full(X.shape[1], start), NOISE, 1.0, np.empty(0))
    for profile in profiles if len(X) > 2 else profiles[-1:]:
        tuned = tune_metric(
            X, scaled, weight, profile, tuned, NumberLoss(),
            kind="shared", steps=STEPS // 2 if len(X) > 2 else 0, seed=seed, n_jobs=n_jobs, report=report,
        )  # fmt: skip
        error = held_error(X, targets, weight, profile, tuned, seed, n_jobs)
        found.append((MetricTrial(profile, "shared", error, tuned.noise), tuned))
    trial, tuned = min(found, key=lambda entry: entry[0].error)
    return trial.profile, tuned, tuple(entry[0] for entry in found)


def check_targets_differ(model: Any, targets: Array) -> None:
    """Raise if all targets are equal: the scale of the local part is estimated from their residuals."""
    if (targets.max(axis=0) == targets.min(axis=0)).any():
        msg = (
            f"{type(model).__name__}: neighbors={model.neighbors!r} needs targets that differ, got equal ones. Use "
            "neighbors=None."
        )
        raise DataError(msg)


def fit_neighbors(model: Any, spectrum: Spectrum, scales: Scales, fit: Fit) -> NeighborPosterior:
    """Fit the local part of a process, and choose its parts and its noise by leave-one-out densities.

    Parameters
    ----------
    model : GaussianProcessRegressor
        The learner, with its parameters `neighbors`, `normalize_y` and `n_jobs`, and the fitted map.
    spectrum : Spectrum
        Eigendecomposition of the moments.
    scales : Scales
        Noise and amplitude of the model of the features.
    fit : Fit
        The rows.
    """
    centered = bool(model.normalize_y)
    given = [model._given("noise"), model._given("amplitude")]
    alpha: Any = "evidence" if None in given else (given[0] / given[1]) ** 2
    local = local_problem(model, fit, np.asarray, len(scales.noise), centered=centered, with_features=True)
    # Copies are no evidence of a small noise; where nothing is chosen, they have the weight of all of them.
    repetition = local.problem.rows.repetition if None in given else 1.0
    local = local.repeated(1 / repetition)
    check_targets_differ(model, local.problem.rows.targets)
    left_out = seed_of(fit.random_state, "left out")
    ridge = ridge_of(spectrum, scales, repetition, centered=centered)
    keys = exponentials(np.arange(len(local.problem.rows), dtype=np.uint64), left_out)
    order = np.argsort(keys, kind="stable") if local.sample is None else local.sample
    fit_parts = partial(
        fit_near, local.problem, ridge, fit_intercept=centered, seed=left_out, sample=local.sample, mean=local.mean,
        report=fit.report,
    )  # fmt: skip
    criterion: Criterion = "evidence"
    if not isinstance(alpha, str):
        found = fit_parts(alpha, parts=local.parts, neighbors=local.counts)
        scale = np.full(len(scales.noise), (given[1] / found.unit) ** 2)
        found = replace(found, model=replace(found.model, scale=scale))
        posterior = neighbor_posterior(found, local.problem, order[:LEFT_OUT_ROWS], given=True)
    else:
        alone: tuple[Parts, ...] = tuple(name for name in local.parts if name != "both") or ("local",)
        tried = [fit_parts(criterion, parts=alone, neighbors=local.counts)]
        if "both" in local.parts:
            if local.parts == ("both",):
                first, tried = tried[0], []
            else:
                first = tried[0]
            scored = [score for score in first.scores if score.parts == "local"]
            score = min(scored, key=lambda score: score.loss)
            for noise in both_noises(score.alpha, ridge.alpha, criterion):
                tried.append(fit_parts(noise, parts=("both",), neighbors=(score.n_neighbors,)))
        if model._neighbor_alpha_ is not None:
            preferred: Parts = "both" if "both" in local.parts else "local"
            count = min((score for one in tried for score in one.scores), key=lambda score: score.loss).n_neighbors
            tried.append(fit_parts(model._neighbor_alpha_, parts=(preferred,), neighbors=(count or local.counts[0],)))
        # Fits are compared by the density of left-out targets with local scales and heavy tails.
        some = order[:COMPARED_ROWS]
        densities = [float(neighbor_posterior(one, local.problem, some).log_density.sum()) for one in tried]
        found = tried[int(np.argmax(densities))]
        if model._neighbor_alpha_ is not None and densities[-1] > max(densities) - LEAST_DENSITY_GAIN:
            found = tried[-1]
        scores = tuple(
            replace(score, loss=-density) if score.parts == one.parts else score
            for one, density in zip(tried, densities, strict=True)
            for score in one.scores
        )
        posterior = neighbor_posterior(replace(found, scores=scores), local.problem, order[:LEFT_OUT_ROWS])
    if local.source is not None:
        found = posterior.fit
        posterior = replace(posterior, fit=replace(found, model=found.model.in_source(local.source)))
    return posterior


def ridge_of(spectrum: Spectrum, scales: Scales, repetition: float, *, centered: bool) -> RidgeSolution:
    """Return the model of the features as a ridge regression, with one penalty for all targets.

    The penalty and the leverages are those of weights divided by `repetition`.
    """
    alpha = float(np.exp(np.log(scales.alpha).mean()))
    root, coef = spectrum.root(alpha) * np.sqrt(repetition), spectrum.coef(alpha)
    constant = repetition / spectrum.weight if centered else 0.0
    return RidgeSolution(alpha / repetition, coef, spectrum.offset, None, lambda Z: Z @ root, spectrum.center, constant)


def check_given(owner: str, noise: float | None, amplitude: float | None) -> None:
    """Raise if one of noise and amplitude is given and the other is not."""
    if (noise is None) != (amplitude is None):
        one, other = ("noise", "amplitude") if amplitude is None else ("amplitude", "noise")
        msg = (
            f"{owner}: neighbors= tunes the ratio of noise and amplitude, and needs both or none of them, got {one} "
            f"without {other}. Give {other} too, or leave both at 'tune'."
        )
        raise ParameterError(msg)
