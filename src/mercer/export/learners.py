"""Predictions of fitted models as graphs of array operations: one function per class of models.

`outputs_of` is a generic function of fitted estimators. It returns values by names: "variable" are predictions of
numbers, or transformed rows; "label" are indices of classes or clusters; "probabilities", "scores" (decision values, or
distances to centers) and "std" (standard deviations) are optional.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, RobustScaler, StandardScaler

from mercer.automatic import KernelClassifier, KernelRegressor
from mercer.errors import ExportError
from mercer.export import graph as g
from mercer.export.graph import Value
from mercer.export.kernels import diagonal, kernel_values
from mercer.export.maps import features_of_rows, times
from mercer.export.near_rows import local_predictions
from mercer.export.tables import encoded_matrix, takes_matrix
from mercer.kernels.base import dense64
from mercer.learners import (
    DeformedSearchCV,
    GaussianProcessRegressor,
    GridGaussianProcessRegressor,
    KernelKMeans,
    KernelLogisticRegression,
    KernelPCA,
    KernelRidge,
    KernelRidgeClassifier,
    KernelSVC,
)
from mercer.maps.base import BaseMap
from mercer.solvers.clusters.exact import EPS, ExactClusters
from mercer.tables import ColumnScaler, TablePreprocessor
from mercer.tables.column_functions import GRID, Components, PlainColumns, RampColumns, RankedColumns

__all__ = ["Outputs", "outputs_of", "scaled_columns"]

Array = np.ndarray
Outputs = dict[str, Value]


@singledispatch
def outputs_of(model: Any, X: Value, *, with_std: bool = False) -> Outputs:
    """Return what a fitted model computes for rows (n, d), by names."""
    del X, with_std
    msg = (
        f"{type(model).__name__} cannot be exported: it has no formula of array operations here. Exported are the "
        "maps, learners and transformers of mercer, and pipelines of them."
    )
    raise ExportError(msg)


def check_without_std(model: Any, with_std: bool) -> None:
    """Raise if standard deviations are asked for that a model does not have."""
    if with_std:
        msg = (
            f"{type(model).__name__} has no standard deviations, got return_std=True. Use return_std=False, or "
            "GaussianProcessRegressor, KernelRegressor, or KernelRidge with neighbors=."
        )
        raise ExportError(msg)


# ---- maps and transformers ------------------------------------------------------------------------------------------


@outputs_of.register
def _(model: BaseMap, X: Value, *, with_std: bool = False) -> Outputs:
    check_without_std(model, with_std)
    return {"variable": features_of_rows(model.features_, X)}


@singledispatch
def scaled_columns(columns: Any, X: Value) -> Value:  # noqa: ARG001 - the signature of all of them
    """Return the scaled columns of rows."""
    msg = f"{type(columns).__name__} cannot be exported: it has no formula of array operations here."
    raise ExportError(msg)


def on_grid(values: Value) -> Value:
    """Return values that are rounded to the multiples that fitted models use."""
    return g.floor(values * (1 / GRID) + 0.5) * GRID


@scaled_columns.register
def _(columns: PlainColumns, X: Value) -> Value:
    X = g.take(X, columns.columns)
    if columns.center is not None:
        X = X - g.constant(columns.center, "center")
    X = X / g.constant(columns.scale, "scale")
    return (on_grid(X) if columns.rounded else X).named("scaled", "Columns in units of their spread.")


@scaled_columns.register
def _(columns: RankedColumns, X: Value) -> Value:
    parts = [scaled_columns(columns.plain, X)]
    for column, knots, ranks in zip(columns.ranked, columns.knots, columns.ranks, strict=True):
        one = g.columns(X, int(column), int(column) + 1)
        rank = g.interpolate(one, g.constant(knots, f"knots{column}"), g.constant(ranks, f"ranks{column}"))
        parts.append(on_grid(rank) if columns.plain.rounded else rank)
    return g.concatenate(parts).named("scaled", "Columns in units of their spread, and ranks.")


@scaled_columns.register
def _(columns: Components, X: Value) -> Value:
    centered = scaled_columns(columns.plain, X) - g.constant(columns.mean, "mean")
    return (centered @ g.constant(columns.directions, "directions")).named("scaled", "Principal components.")


@scaled_columns.register
def _(columns: RampColumns, X: Value) -> Value:
    parts = []
    for column, knots in zip(columns.columns, columns.knots, strict=True):
        count = len(knots) - 1
        positions = g.constant(np.arange(len(knots), dtype=np.float64), f"positions{column}")
        one = g.columns(X, int(column), int(column) + 1)
        position = g.interpolate(one, g.constant(knots, f"knots{column}"), positions)
        parts.append(g.clip(position - g.constant(np.arange(count, dtype=np.float64)), 0.0, 1.0) * count**-0.5)
    return on_grid(g.concatenate(parts)).named("scaled", "Piecewise linear functions of columns.")


@outputs_of.register
def _(model: ColumnScaler, X: Value, *, with_std: bool = False) -> Outputs:
    check_without_std(model, with_std)
    return {"variable": scaled_columns(model.columns_, X)}


@outputs_of.register
def _(model: TablePreprocessor, X: Value, *, with_std: bool = False) -> Outputs:
    check_without_std(model, with_std)
    if not takes_matrix(model):
        msg = (
            "A TablePreprocessor of tables can be exported by itself or as the first step of a pipeline, and not after "
            "other steps or as a module of PyTorch: it takes strings and dates."
        )
        raise ExportError(msg)
    return {"variable": encoded_matrix(model, X)}


@outputs_of.register
def _(model: KernelPCA, X: Value, *, with_std: bool = False) -> Outputs:
    check_without_std(model, with_std)
    coef = model.components_.T * model._scales()
    return {"variable": linear(model, X, coef, -model.mean_ @ coef)}


@outputs_of.register
def _(model: Pipeline, X: Value, *, with_std: bool = False) -> Outputs:
    steps = [step for _, step in model.steps if step is not None and step != "passthrough"]
    if not steps:
        return {"variable": X}
    for step in steps[:-1]:
        X = outputs_of(step, X)["variable"]
    return outputs_of(steps[-1], X, with_std=with_std)


@outputs_of.register
def _(model: DeformedSearchCV, X: Value, *, with_std: bool = False) -> Outputs:
    return outputs_of(model.best_estimator_, X, with_std=with_std)


# ---- transformers of scikit-learn ------------------------------------------------------------------------------------


@outputs_of.register
def _(model: StandardScaler, X: Value, *, with_std: bool = False) -> Outputs:
    check_without_std(model, with_std)
    X = X if not model.with_mean else X - g.constant(model.mean_, "mean")
    return {"variable": X if not model.with_std else X / g.constant(model.scale_, "scale")}


@outputs_of.register
def _(model: MinMaxScaler, X: Value, *, with_std: bool = False) -> Outputs:
    check_without_std(model, with_std)
    X = X * g.constant(model.scale_, "scale") + g.constant(model.min_, "shift")
    return {"variable": g.clip(X, *map(float, model.feature_range)) if model.clip else X}


@outputs_of.register
def _(model: MaxAbsScaler, X: Value, *, with_std: bool = False) -> Outputs:
    check_without_std(model, with_std)
    return {"variable": X / g.constant(model.scale_, "scale")}


@outputs_of.register
def _(model: RobustScaler, X: Value, *, with_std: bool = False) -> Outputs:
    check_without_std(model, with_std)
    X = X if not model.with_centering else X - g.constant(model.center_, "center")
    return {"variable": X if not model.with_scaling else X / g.constant(model.scale_, "scale")}


@outputs_of.register
def _(model: Normalizer, X: Value, *, with_std: bool = False) -> Outputs:
    check_without_std(model, with_std)
    if model.norm != "l2":
        msg = f"Normalizer(norm={model.norm!r}) cannot be exported: only norm='l2' has a formula here."
        raise ExportError(msg)
    lengths = g.sqrt(g.total(g.square(X), keepdims=True)).named("lengths")
    return {"variable": X / g.where(g.above(lengths, 0.0), lengths, 1.0)}


@outputs_of.register
def _(model: PCA, X: Value, *, with_std: bool = False) -> Outputs:
    check_without_std(model, with_std)
    scale = np.sqrt(model.explained_variance_) if model.whiten else np.ones(len(model.components_))
    centered = X - g.constant(model.mean_, "mean")
    return {"variable": centered @ g.constant(model.components_.T / scale, "directions")}


@outputs_of.register
def _(model: TruncatedSVD, X: Value, *, with_std: bool = False) -> Outputs:
    check_without_std(model, with_std)
    return {"variable": X @ g.constant(model.components_.T, "directions")}


# ---- regression -----------------------------------------------------------------------------------------------------


def linear(model: Any, X: Value, coef: Array, intercept: Array) -> Value:
    """Return linear functions of the features of rows."""
    values = times(features_of_rows(model.feature_map_.features_, X), coef)
    return values if not np.any(intercept) else values + g.constant(intercept, "intercept")


@outputs_of.register
def _(model: KernelRidge, X: Value, *, with_std: bool = False) -> Outputs:
    if model.local_ is not None:
        mean, std = local_predictions(model.local_, X, with_std=with_std)
        return {"variable": mean} if std is None else {"variable": mean, "std": std}
    check_without_std(model, with_std)
    return {"variable": linear(model, X, np.atleast_2d(model.coef_).T, np.atleast_1d(model.intercept_))}


@outputs_of.register
def _(model: GaussianProcessRegressor, X: Value, *, with_std: bool = False) -> Outputs:
    if model.local_ is not None:
        if with_std:
            msg = (
                "GaussianProcessRegressor with neighbors= has standard deviations with local scales, which cannot be "
                "exported. Export the predictions alone, or fit it with neighbors=None."
            )
            raise ExportError(msg)
        return {"variable": local_predictions(model.local_, X)[0]}
    posterior = model.posterior_
    Z = features_of_rows(posterior.features, X).named("Z")
    mean = Z @ g.constant(posterior.coef, "coef") + g.constant(posterior.spectrum.offset, "offset")
    if not with_std:
        return {"variable": mean}
    amplitude = np.square(posterior.scales.amplitude)
    if posterior.representers is not None:
        given = posterior.representers
        prior = diagonal(posterior.kernel, X)
        cross = kernel_values(posterior.kernel, X, g.constant(dense64(given.rows), "representers")).named("cross")
        parts = []
        for t, factor in enumerate(given.factors):
            inverse = scipy.linalg.solve_triangular(factor, np.eye(len(factor)), lower=True)
            explained = g.total(g.square(cross @ g.constant(inverse.T, f"inverse{t}")))
            parts.append(g.reshape(float(amplitude[t]) * g.maximum(prior - explained, 0.0), 1))
        variance = g.concatenate(parts)
    else:
        variance = g.square(Z @ g.constant(posterior.spectrum.vectors, "vectors"))
        variance = variance @ g.constant(posterior._coef_variance, "variances")
        if posterior.adds_residual:
            rest = g.maximum(diagonal(posterior.kernel, X) - g.total(g.square(Z)), 0.0)
            variance = variance + g.reshape(rest, 1) * g.constant(amplitude, "amplitude")
    return {"variable": mean, "std": g.sqrt(variance)}


@outputs_of.register
def _(model: GridGaussianProcessRegressor, X: Value, *, with_std: bool = False) -> Outputs:
    check_without_std(model, with_std)
    return {"variable": linear(model, X, np.atleast_2d(model.coef_).T, model.posterior_.offset)}


@outputs_of.register
def _(model: KernelRegressor, X: Value, *, with_std: bool = False) -> Outputs:
    def of_member(one: Any, scaled: Value) -> Any:
        return local_predictions(one.learner.local_, scaled, with_std=with_std, with_noise=True)

    values = members(model, X, of_member)
    mean = weighted_sum([mean for mean, _ in values], model.weights_)
    if not with_std:
        return {"variable": mean}
    squares = [g.square(std * np.asarray(r)) for (_, std), r in zip(values, model._ratios(None), strict=True)]
    return {"variable": mean, "std": g.sqrt(weighted_sum(squares, model.weights_))}


def members(model: Any, X: Value, of_member: Callable[[Any, Value], Any]) -> list[Any]:
    """Return the values of each member of an automatic model; columns are scaled once for each scaling."""
    scaled: dict[int, Value] = {}
    values = []
    preprocessor = getattr(model, "preprocessor_", None)
    if preprocessor is not None:  # as the last step of a pipeline, after steps that leave numbers missing
        X = encoded_matrix(preprocessor, X)
    for one in model._members:
        key = id(one.scaler.columns_)
        if key not in scaled:
            scaled[key] = scaled_columns(one.scaler.columns_, X)
        values.append(of_member(one, scaled[key]))
    return values


def weighted_sum(values: list[Value], weights: Any) -> Value:
    """Return the sum of values times numbers."""
    out = float(weights[0]) * values[0]
    for weight, value in zip(weights[1:], values[1:], strict=True):
        out = out + float(weight) * value
    return out


# ---- classification -------------------------------------------------------------------------------------------------


def decisions(model: Any, X: Value) -> Value:
    """Return the decision values (n, K), or (n, 1) for two labels."""
    if model.local_ is not None:
        return local_predictions(model.local_, X)[0].named("scores")
    return linear(model, X, model.coef_.T, model.intercept_).named("scores")


def labeled(scores: Value, logits: Value | None) -> Outputs:
    """Return labels and probabilities, given decision values and logits."""
    if scores.width == 1:
        label = g.reshape(g.where(g.above(scores, 0.0), np.int64(1), np.int64(0)))
        out = {"label": label, "scores": scores}
        if logits is not None:
            positive = g.sigmoid(logits).named("positive")
            out["probabilities"] = g.concatenate([1 - positive, positive])
        return out
    out = {"label": g.argmax(scores), "scores": scores}
    if logits is not None:
        out["probabilities"] = g.softmax(logits)
    return out


@outputs_of.register
def _(model: KernelRidgeClassifier, X: Value, *, with_std: bool = False) -> Outputs:
    check_without_std(model, with_std)
    scores = decisions(model, X)
    return labeled(scores, scores * float(model.probability_scale_))


@outputs_of.register
def _(model: KernelLogisticRegression, X: Value, *, with_std: bool = False) -> Outputs:
    check_without_std(model, with_std)
    scores = decisions(model, X)
    return labeled(scores, scores)


@outputs_of.register
def _(model: KernelSVC, X: Value, *, with_std: bool = False) -> Outputs:
    check_without_std(model, with_std)
    scores = decisions(model, X)
    return labeled(scores, None if model.local_ is None else scores)


@outputs_of.register
def _(model: KernelClassifier, X: Value, *, with_std: bool = False) -> Outputs:
    check_without_std(model, with_std)
    values = members(model, X, lambda one, scaled: decisions(one.learner, scaled))
    scores = weighted_sum(values, [one.factor * one.learner.probability_scale_ for one in model._members])
    offsets = None if model._found is None else model._found.offsets
    if offsets is not None and offsets.any():
        scores = scores + (g.constant(offsets, "offsets") if len(offsets) > 2 else float(offsets[1] - offsets[0]))
    scores = scores.named("scores")
    return labeled(scores, scores)


# ---- clusters -------------------------------------------------------------------------------------------------------


@outputs_of.register
def _(model: KernelKMeans, X: Value, *, with_std: bool = False) -> Outputs:
    check_without_std(model, with_std)
    clusters = model._clusters_
    if isinstance(clusters, ExactClusters):
        values = kernel_values(clusters.kernel, X, g.constant(dense64(clusters.rows), "rows_of_fit"))
        norms = clusters.norms
        scores = (g.constant(norms, "norms") - 2 * (values @ g.constant(clusters.coefficients, "coef"))).named("scores")
        prior = g.reshape(diagonal(clusters.kernel, X), 1).named("prior")
        squares = (scores + prior).named("squares")
        squares = g.where(g.above(squares, EPS * (prior + norms)), squares, 0.0)
        return {"label": g.argmax(-scores), "scores": g.sqrt(squares)}
    Z = features_of_rows(clusters.features.features, X)
    squares = g.squared_distances(Z, g.constant(clusters.centers, "centers")).named("squares")
    return {"label": g.argmax(-squares), "scores": g.sqrt(squares)}
