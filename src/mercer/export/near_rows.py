"""Predictions from near rows as a graph of array operations: the local corrections of learners."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.errors import ExportError
from mercer.export import graph as g
from mercer.export.graph import Value
from mercer.export.kernels import affine_inputs, diagonal, kernel_values, profile
from mercer.export.maps import features_of_rows, times
from mercer.kernels.base import dense64
from mercer.solvers.local.near_fit import LocalFit
from mercer.solvers.local.near_kernel import NearKernel
from mercer.solvers.local.near_model import NearModel

__all__ = ["local_predictions"]

Array = np.ndarray
# Largest number of entries of sparse near rows that are exported as a dense array.
MOST_ENTRIES = 2**28


def local_predictions(
    local: LocalFit, X: Value, *, with_std: bool = False, with_noise: bool = False
) -> tuple[Value, Value | None]:
    """Return the predictions (n, t) of a model with a local correction, and the standard deviations (n, t) or None."""
    model = local.model
    mean, variance = near_predictions(model, X, with_variance=with_std)
    mean = mean if local.unit == 1 else mean * float(local.unit)
    if variance is None:
        return mean, None
    variance = g.reshape(variance + float(model.alpha) * with_noise, 1)
    return mean, float(local.unit) * g.sqrt(variance * g.constant(model.scale, "scale"))


def near_predictions(model: NearModel, X: Value, *, with_variance: bool) -> tuple[Value, Value | None]:
    """Return the predictions (n, t), and the variances (n,) of the function without noise if they are asked for."""
    problem, part = model.problem, model.part
    if model.source is not None:
        msg = (
            "A model with LocalCorrection(rows='source') cannot be exported: its rows are not a part of the model, but "
            "where the fit has read them. Fit it with rows='model'."
        )
        raise ExportError(msg)
    Z = None if problem.features is None else features_of_rows(problem.features, X).named("Z")
    mean: Value = g.constant(part.intercept)
    if Z is not None:
        mean = times(Z, part.coef) + g.constant(part.intercept, "intercept")
    if not problem.is_local:
        mean = mean if mean.is_batched else g.repeat_rows(mean, X)
        if not with_variance:
            return mean, None
        one = g.constant(np.ones(1))
        variance = spread(part, one if Z is None else g.concatenate([Z, one]), X)
        if problem.residual_is_kernel and Z is not None:
            prior = kernel_diagonal(problem.kernel, X)
            variance = variance + g.maximum(prior - g.total(g.square(Z)), 0.0)
        return mean, variance
    kernel = problem.kernel
    count = min(problem.n_neighbors, len(problem.rows))
    points = dense_points(problem.points)
    near = g.constant(points, "near_rows")
    queries = query_points(kernel, X)
    index = g.nearest(g.squared_distances(queries, near), count).named("near", f"The {count} nearest rows.")
    N = g.take_rows(near, index).named("N")
    query = g.reshape(queries, 1, queries.width)
    if kernel.isotropic is not None:
        amplitude = float(kernel.amplitude)
        K = amplitude * profile(kernel.isotropic, g.coordinate_kernel(N, N, "squared_differences"))
        cross = amplitude * profile(kernel.isotropic, g.coordinate_kernel(N, query, "squared_differences"))
    else:
        K, cross = kernel_values(kernel.kernel, N, N), kernel_values(kernel.kernel, N, query)
    prior = kernel_diagonal(kernel, X)
    features = None
    if problem.row_features is not None and Z is not None:
        features = g.take_rows(g.constant(problem.row_features, "row_features"), index).named("ZN")
        if problem.removed is not None:
            z = g.reshape(Z, Z.width, 1)
            K, cross = K - features @ g.matrix_transpose(features), cross - features @ z
            prior = g.maximum(prior - g.total(g.square(Z)), 0.0)
    noise = g.take_rows(g.constant(model.alpha / problem.rows.weight, "noise"), index)
    K = K + g.reshape(noise, count, 1) * np.eye(count)
    cross = cross.named("cross")
    weights = g.solve(K.named("K"), cross).named("weights")
    residuals = g.take_rows(g.constant(model.residuals, "residuals"), index)
    mean = mean + g.total(weights * residuals, axis=1)
    if not with_variance:
        return mean, None
    explained = g.reshape(g.total(weights * cross, axis=1), 1)
    variance = g.maximum(prior - g.total(explained), 0.0)
    left = 1 - g.total(weights, axis=1)
    if Z is not None:
        Z = Z if features is None else Z - g.total(weights * features, axis=1)
    return mean, variance + spread(part, left if Z is None else g.concatenate([Z, left]), X)


def spread(part: Any, innovations: Value, X: Value) -> Value:
    """Return the variance (n,) of the global part."""
    if part.root is None:
        return g.repeat_rows(np.float64(0.0), X)
    values = g.total(g.square(innovations @ g.constant(part.root, "root")))
    return values if values.is_batched else g.repeat_rows(values, X)


def query_points(kernel: NearKernel, X: Value) -> Value:
    """Return the points of rows, whose distances determine which rows are near."""
    if kernel.isotropic is None:
        return X
    for affine in kernel.inputs:
        X = affine_inputs(affine, X)
    scale = float(kernel.isotropic.lengthscale)
    return (X if scale == 1 else X / scale).named("points")


def kernel_diagonal(kernel: NearKernel, X: Value) -> Value:
    """Return k(x, x) for rows."""
    if kernel.isotropic is not None:
        return g.repeat_rows(np.float64(kernel.amplitude), X)
    return diagonal(kernel.kernel, X)


def dense_points(points: Any) -> Array:
    """Return the points of near rows as a dense array; raise if they are too many for one."""
    if sp.issparse(points) and points.shape[0] * points.shape[1] > MOST_ENTRIES:
        msg = (
            f"The model has {points.shape[0]:,} near rows of {points.shape[1]:,} features, which are sparse: as a "
            f"dense array they would have more than {MOST_ENTRIES:,} entries. Fit it with neighbors=None, or with "
            "fewer rows."
        )
        raise ExportError(msg)
    return dense64(points)
