"""Features of fitted maps as graphs of array operations: one function per class of features.

`features_of_rows` is a generic function of drawn features (`mercer.features.Features`). A class of your own is added by
``features_of_rows.register``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np

from mercer.errors import ExportError
from mercer.export import graph as g
from mercer.export.graph import Value
from mercer.export.kernels import affine_inputs, kernel_values
from mercer.features import Features
from mercer.graphs.whitening import LowRankFeatures, WhitenedFeatures
from mercer.kernels.base import dense64
from mercer.maps.algebra.composition import CompositionFeatures
from mercer.maps.algebra.copies import MixedFeatures, ShuffledFeatures
from mercer.maps.algebra.joined import KroneckerFeatures, PairedFeatures, StackedFeatures
from mercer.maps.fourier.frequency_grids import GridFeatures
from mercer.maps.fourier.projections import ButterflyProjection, DenseProjection, HadamardProjection
from mercer.maps.fourier.random_fourier import TrigFeatures
from mercer.maps.fourier.spherical_radial import QuadratureFeatures
from mercer.maps.histogram.homogeneous import LogarithmicFeatures
from mercer.maps.histogram.indicators import IndicatorFeatures
from mercer.maps.landmarks.features import LandmarkFeatures, LandmarkValues
from mercer.maps.neurons.features import NEURON, PARITY, NeuronFeatures
from mercer.maps.series.anchored import AnchoredComponents
from mercer.maps.series.components import MaclaurinFeatures, SeriesComponents
from mercer.maps.series.inputs import Preparation
from mercer.maps.series.monomials import Monomials
from mercer.maps.series.polynomial_sketch import PolynomialFeatures
from mercer.maps.series.projection_products import ComplexProducts, DenseProducts, HadamardProducts, SummedProducts
from mercer.maps.series.tensor_sketch import SketchFeatures
from mercer.metric.features import MetricFeatures
from mercer.metric.inputs import MetricInputs

__all__ = ["Lengthscales", "features_of_rows", "metric_inputs", "times"]

Array = np.ndarray


@dataclass(eq=False)
class Lengthscales:
    """Lengthscales that can be trained: the inputs of drawn features are divided by factors (d,).

    Attributes
    ----------
    factor : Value or None
        The factors, after the features were visited.
    """

    factor: Value | None = None

    def divide(self, X: Value) -> Value:
        """Return rows divided by the factors, which are made at the first call."""
        if self.factor is None:
            self.factor = g.exp(g.parameter(np.zeros(X.width), "log_factor"))
        return X / self.factor


def times(Z: Value, matrix: Array, name: str = "coef") -> Value:
    """Return features times a matrix (D, t), which is multiplied by that of the features first, if they have one.

    Landmark features are kernel values times a matrix (m, D), and for few columns the product with it is small.
    """
    if Z.op == "matmul" and Z.inputs[1].is_constant and matrix.shape[1] < Z.width:
        return Z.inputs[0] @ g.constant(Z.inputs[1].example @ matrix, name)
    return Z @ g.constant(matrix, name)


@singledispatch
def features_of_rows(features: Features, X: Value, scales: Lengthscales | None = None) -> Value:
    """Return the features (n, D) of rows (n, d).

    With `scales`, the inputs are divided by factors that can be trained. Landmarks are divided by the same factors, and
    whitened again.
    """
    del X, scales
    msg = (
        f"{type(features).__name__} cannot be exported: it has no formula of array operations here. Register one: "
        f"mercer.export.maps.features_of_rows.register({type(features).__name__})."
    )
    raise ExportError(msg)


def scaled(X: Value, scales: Lengthscales | None) -> Value:
    """Return the inputs of drawn features, divided by factors that can be trained if there are any."""
    return X if scales is None else scales.divide(X)


# ---- projections --------------------------------------------------------------------------------------------------


@singledispatch
def project(projection: Any, X: Value) -> Value:  # noqa: ARG001 - the signature of all of them
    """Return the angles (n, m) of rows."""
    raise AssertionError(type(projection))


@project.register
def _(projection: DenseProjection, X: Value) -> Value:
    return X @ g.constant(projection.weights, "frequencies")


@project.register
def _(projection: HadamardProjection, X: Value) -> Value:
    signs = projection.signs.astype(float)  # (blocks, factors, P)
    blocks, factors, width = signs.shape
    V = g.reshape(g.pad(scaled_inputs(projection, X), width), 1, width)
    for i in range(factors):
        V = g.hadamard(V * g.constant(signs[:, i] / math.sqrt(width), f"signs{i}"))
    angles = g.columns(g.reshape(V, blocks * width), 0, len(projection.radii))
    return angles * g.constant(projection.radii, "radii")


@project.register
def _(projection: ButterflyProjection, X: Value) -> Value:
    signs, width = projection.signs, projection.width
    mixed = g.hadamard(g.pad(scaled_inputs(projection, X), width) * g.constant(signs[0], "signs0"))
    mixed = g.reshape(mixed * g.constant(signs[1] / math.sqrt(width), "signs1"), 1, width)
    cosines, sines = projection.rotations.cosines, projection.rotations.sines
    blocks = len(cosines[0])
    if width == 1:
        V = mixed + np.zeros((blocks, 1))
    else:
        # The two entries of a pair become c a + s b and c b - s a.
        c = np.stack([np.repeat(level, 2 << i, axis=1) for i, level in enumerate(cosines)])
        s = np.stack([
            np.repeat(np.stack([level, -level], axis=2).reshape(blocks, -1), 1 << i, axis=1)
            for i, level in enumerate(sines)
        ])  # fmt: skip
        V = g.butterfly(mixed, g.constant(c, "cosines"), g.constant(s, "sines"))
    angles = g.columns(g.reshape(V, blocks * width), 0, len(projection.radii))
    return angles * g.constant(projection.radii, "radii")


def scaled_inputs(projection: Any, X: Value) -> Value:
    """Return the rows times the input scale of a structured projection."""
    return X if projection.input_scale is None else X * g.constant(projection.input_scale, "input_scale")


# ---- Fourier features ---------------------------------------------------------------------------------------------


@features_of_rows.register
def _(features: TrigFeatures, X: Value, scales: Lengthscales | None = None) -> Value:
    angles = project(features.projection, scaled(X, scales))
    a = float(features.amplitude)
    if features.form == "phase":
        parts = [a * g.cos(angles + g.constant(features.phases, "phases"))]
    else:
        if features.phases.any():
            angles = angles + g.constant(features.phases, "phases")
        angles = angles.named("angles")
        m, D = angles.width, features.n_components - (features.constant > 0)
        sines = angles if features.form == "complex" else g.columns(angles, 0, D - m)
        parts = [a * g.cos(angles), (-a if features.form == "complex" else a) * g.sin(sines)]
        if features.form == "complex":
            if features.constant:
                head = g.constant([float(features.constant)])
                parts = [g.concatenate([head, parts[0]]), g.concatenate([0.0 * head, parts[1]])]
            # Real and imaginary parts along a last axis, as complex numbers are in ONNX.
            return g.concatenate([g.reshape(part, part.width, 1) for part in parts])
    if features.constant:
        parts = [g.constant([float(features.constant)]), *parts]
    return g.concatenate(parts).named("features", f"Cosines and sines of {angles.width} angles.")


@features_of_rows.register
def _(features: QuadratureFeatures, X: Value, scales: Lengthscales | None = None) -> Value:
    heads = [g.constant(features.heads)] if len(features.heads) else []
    if not len(features.amplitudes):
        return g.repeat_rows(features.heads, X)
    angles = project(features.projection, scaled(X, scales))
    if features.phases.any():
        angles = angles + g.constant(features.phases, "phases")
    angles = angles.named("angles")
    m, rest = angles.width, features.n_components - len(features.heads) - angles.width
    amplitudes = features.amplitudes
    parts = [g.cos(angles) * g.constant(amplitudes, "amplitudes")]
    if rest:
        parts.append(g.sin(g.columns(angles, 0, rest)) * g.constant(amplitudes[:rest], "amplitudes_of_sines"))
    return g.concatenate([*heads, *parts]).named("features", f"Weighted cosines and sines of {m} angles.")


@features_of_rows.register
def _(features: GridFeatures, X: Value, scales: Lengthscales | None = None) -> Value:
    given = X if scales is None else scaled(X, scales)
    parts = [g.repeat_rows(np.array([features.constant]), X)] if features.constant else []
    for part in features.parts:
        u = given
        for affine in part.summand.inputs:
            u = affine_inputs(affine, u)
        if any(len(gaps) for gaps in part.gaps):
            msg = (
                "A model on a grid of frequencies with long gaps between its rows cannot be exported: rows beyond a "
                "gap are moved. Fit to each cluster of rows alone."
            )
            raise ExportError(msg)
        offsets = (u / float(part.summand.kernel.lengthscale) - g.constant(part.center, "center")).named("offsets")
        outside = g.total(g.square(g.maximum(g.absolute(offsets) - part.half, 0.0)), keepdims=True)
        near = g.where(g.above(outside, part.reach**2), 0.0, 1.0).named("near", "Zero for rows far from the box.")
        parts.append(near * float(np.sqrt(part.weights[0])))
        if len(part.index):
            angles = (offsets @ g.constant(2 * np.pi * (part.index * part.spacing).T, "frequencies")).named("angles")
            amplitudes = g.constant(np.sqrt(2 * part.weights[1:]), "amplitudes")
            parts += [g.cos(angles) * amplitudes * near, g.sin(angles) * amplitudes * near]
    return with_zeros(parts, features.n_components).named("features", "Cosines and sines of a grid of frequencies.")


# ---- histograms ---------------------------------------------------------------------------------------------------


@features_of_rows.register
def _(features: LogarithmicFeatures, X: Value, scales: Lengthscales | None = None) -> Value:
    X = scaled(X, scales)
    D, m = features.n_components - (features.constant != 0), len(features.coordinates)
    logs = g.log(g.where(g.above(X, 0.0), X, 1.0))
    angles = g.take(logs, features.coordinates) * g.constant(features.frequencies, "frequencies")
    if features.phases.any():
        angles = angles + g.constant(features.phases, "phases")
    angles = angles.named("angles")
    roots = g.take(g.sqrt(g.maximum(X, 0.0)), features.coordinates) * g.constant(features.amplitudes, "amplitudes")
    roots = roots.named("roots")
    parts = [roots * g.cos(angles), g.columns(roots, 0, D - m) * g.sin(g.columns(angles, 0, D - m))]
    if features.constant:
        parts = [g.constant([float(features.constant)]), *parts]
    return g.concatenate(parts).named("features", "Square roots times cosines and sines of logarithms.")


@features_of_rows.register
def _(features: IndicatorFeatures, X: Value, scales: Lengthscales | None = None) -> Value:
    X = scaled(X, scales)
    parts = []
    for group in features.groups:
        amplitudes = g.constant(group.amplitudes, "amplitudes")
        values: Value = amplitudes
        for c in range(group.coordinates.shape[1]):
            levels = np.maximum(group.levels[:, c], np.finfo(float).smallest_subnormal)
            reached = g.at_least(g.take(X, group.coordinates[:, c]), g.constant(levels, "levels"))
            values = g.where(reached, values, 0.0)
        parts.append(values)
    if not any(part.is_batched for part in parts):
        return g.repeat_rows(g.concatenate(parts), X)
    return g.concatenate(parts).named("features", "Indicators of thresholds that are reached.")


# ---- neurons ------------------------------------------------------------------------------------------------------


def activation(name: str, u: Value) -> Value:
    """Return a function of projections by its name."""
    if name == "sign":
        return g.sign(u)
    if name == "abs":
        return g.absolute(u)
    if name == "signed_square":
        return u * g.absolute(u)
    positive = g.maximum(u, 0.0)
    return positive if name == "relu" else g.square(positive)


@features_of_rows.register
def _(features: NeuronFeatures, X: Value, scales: Lengthscales | None = None) -> Value:
    X = scaled(X, scales)
    order, scale = features.order, float(features.scale)
    if features.layout == "single":
        values = activation(NEURON[order], project(features.projection, X).named("u"))
        values = 0.5 * scale * values + 0.5 * scale if order == 0 else scale * values
        if features.signs_of_neurons is not None and features.constant is not None:
            values = values * g.constant(features.signs_of_neurons, "signs") + float(features.constant)
        return values
    head = [] if features.constant is None else [g.constant([float(features.constant)])]
    if features.layout == "relu":
        u = project(features.projection, X).named("u")
        m, rest = u.width, features.n_components - len(head) - u.width
        if order == 0:
            step = (0.5 * scale * g.sign(u)).named("step")
            return g.concatenate([*head, step + 0.5 * scale, 0.5 * scale - g.columns(step, 0, rest)])
        u = (scale ** (1 / order) * u).named("u")
        both = g.maximum(g.concatenate([u, -g.columns(u, 0, rest)] if rest else [u]), 0.0)
        assert m + rest == both.width
        return g.concatenate([*head, g.square(both) if order == 2 else both])
    lengths = None
    if features.layout == "residual":
        lengths = g.sqrt(g.total(g.square(X), keepdims=True)).named("lengths")
        X = (X / g.where(g.above(lengths, 0.0), lengths, 1.0)).named("unit_rows")
    parts = exact_neurons(features, X)
    u = project(features.projection, X).named("u")
    parts.append(residual_neurons(features, u) if lengths is not None else scale * activation(PARITY[order], u))
    values = g.concatenate(parts)
    if lengths is not None and order > 0:
        values = values * (lengths if order == 1 else g.square(lengths))
    return g.concatenate([*head, values])


def exact_neurons(features: NeuronFeatures, X: Value) -> list[Value]:
    """Return the exact components, linear and quadratic, of rows."""
    parts, exact, d = [], features.exact, features.width
    if exact.linear is not None:
        parts.append(X * math.sqrt(exact.linear))
    if exact.quadratic is not None and features.squares is not None:
        shift = (math.sqrt(exact.quadratic + d * exact.lengths) - math.sqrt(exact.quadratic)) / d
        squares = monomials(features.squares, X, None)
        at = np.zeros(squares.width)
        at[np.cumsum([0, *range(d, 1, -1)])] = shift
        parts.append(squares + g.total(g.square(X), keepdims=True) * g.constant(at, "shift"))
    return parts


def residual_neurons(features: NeuronFeatures, u: Value) -> Value:
    """Return neurons minus their polynomial parts, times the scale."""
    p0, p1 = features.exact.polynomial
    scale = float(features.scale)
    if features.order == 1:
        return scale * (g.absolute(u) - p0 - p1 * g.square(u))
    if features.order == 0:
        return scale * (g.sign(u) - p1 * u)
    return scale * (u * (g.absolute(u) - p1))


# ---- power series -------------------------------------------------------------------------------------------------


def monomials(given: Monomials, X: Value, prefactor: Value | None) -> Value:
    """Return the scaled monomials of rows, times the prefactors (n, 1) of the rows."""
    parts: list[Value] = []
    level: Value | None = None
    count, starts = (
        1,
        np.zeros(given.width, dtype=int),
    )  # of monomials; of those in the variables x_i, x_(i+1), ... only
    for degree, factor in enumerate(given.factors):
        if degree:
            variables = np.concatenate([np.full(count - start, i) for i, start in enumerate(starts)])
            before = np.concatenate([np.arange(start, count) for start in starts])
            sizes = count - starts
            ends = np.cumsum(sizes)
            count, starts = int(ends[-1]), ends - sizes
            raised = g.take(X, variables)
            level = (raised if level is None else raised * g.take(level, before)).named(f"degree{degree}")
        if factor is not None:
            parts.append(g.constant(factor) if level is None else level * g.constant(factor, f"factors{degree}"))
    values = g.concatenate(parts)
    values = values if values.is_batched else g.repeat_rows(values, X)
    return values if prefactor is None else values * prefactor


@singledispatch
def products(given: Any, X: Value, prefactor: Value | None) -> Value:  # noqa: ARG001 - the signature of all of them
    """Return products of projections of rows, times the prefactors (n, 1) of the rows."""
    raise AssertionError(type(given))


@products.register
def _(given: Monomials, X: Value, prefactor: Value | None) -> Value:
    return monomials(given, X, prefactor)


@products.register
def _(given: DenseProducts, X: Value, prefactor: Value | None) -> Value:
    done: list[Value] = [g.constant(given.constants)] if len(given.constants) else []
    values: Value | None = None
    for j, weights in enumerate(given.weights):
        factor = X @ g.constant(weights, f"weights{j}")
        if values is None:
            values = factor
            continue
        if weights.shape[1] < values.width:
            done = [g.columns(values, weights.shape[1], values.width), *done]
            values = g.columns(values, 0, weights.shape[1])
        values = (values * factor).named("products")
    out = g.concatenate([*([] if values is None else [values]), *done])
    out = out if out.is_batched else g.repeat_rows(out, X)
    return out if prefactor is None else out * prefactor


@products.register
def _(given: ComplexProducts, X: Value, prefactor: Value | None) -> Value:
    done: list[tuple[Value, Value]] = []
    if len(given.constants):
        done = [(g.constant(given.constants), g.constant(np.zeros(len(given.constants))))]
    values: tuple[Value, Value] | None = None
    for j, weights in enumerate(given.weights):
        re, im = (X @ g.constant(w, f"{name}{j}") for name, w in zip(("real", "imaginary"), weights, strict=True))
        if values is None:
            values = re.named("re"), im.named("im")
            continue
        m = weights[0].shape[1]
        if m < values[0].width:
            done = [tuple(g.columns(part, m, part.width) for part in values), *done]  # type: ignore[list-item]
            values = tuple(g.columns(part, 0, m) for part in values)  # type: ignore[assignment]
        assert values is not None
        re, im = re.named("u"), im.named("v")
        values = (values[0] * re - values[1] * im).named("re"), (values[0] * im + values[1] * re).named("im")
    every = ([] if values is None else [values]) + done
    real = g.concatenate([part[0] for part in every])
    real = real if real.is_batched else g.repeat_rows(real, X)
    parts = [real]
    if len(given.imaginary):
        imaginary = g.concatenate([part[1] for part in every])
        imaginary = imaginary if imaginary.is_batched else g.repeat_rows(imaginary, X)
        parts.append(g.take(imaginary, given.imaginary))
    out = g.concatenate(parts)
    return out if prefactor is None else out * prefactor


@products.register
def _(given: HadamardProducts, X: Value, prefactor: Value | None) -> Value:
    degree, blocks, _, width = given.signs.shape
    padded = g.reshape(g.pad(X, width), 1, width).named("padded")
    out: Value | None = None
    for j in range(degree):
        factor = float(given.scale) if j == 0 else 1.0
        V = g.hadamard(padded * g.constant(factor * given.signs[j, :, 0], f"signs{j}"))
        chosen = g.take(g.reshape(V, blocks * width), given.order[j])
        out = chosen if out is None else out * chosen
    assert out is not None
    return out if prefactor is None else out * prefactor


@products.register
def _(given: SummedProducts, X: Value, prefactor: Value | None) -> Value:
    out = products(given.terms[0], X, None)
    for term in given.terms[1:]:
        out = out + products(term, X, None)
    return out if prefactor is None else out * prefactor


def prepared(preparation: Preparation, X: Value) -> tuple[Value, Value | None]:
    """Return rows after the affine map of a power series, and their prefactors (n, 1) or None."""
    if preparation.matrix is not None:
        X = X @ g.constant(preparation.matrix, "matrix")
    if preparation.columns is not None:
        X = g.take(X, preparation.columns)
    if preparation.scale is not None:
        X = X * g.constant(preparation.scale, "scale")
    if preparation.shift is not None:
        X = X - g.constant(preparation.shift, "shift")
    X = X.named("z")
    if not preparation.decay:
        return X, None
    return X, g.exp(-0.5 * preparation.decay * g.total(g.square(X), keepdims=True)).named("prefactor")


def series_part(part: Any, X: Value) -> Value:
    """Return the components of one power series."""
    if isinstance(part, SeriesComponents):
        z, prefactor = prepared(part.prepare, X)
        return g.concatenate([products(group, z, prefactor) for group in part.groups])
    assert isinstance(part, AnchoredComponents)
    rotated = (prepared(part.prepare, X)[0] @ g.constant(part.rotation, "rotation")).named("rotated")
    alpha = g.columns(rotated, 0, 1).named("alpha")
    powers = [g.constant(np.ones(1))]
    for _ in range(1, len(part.polynomials)):
        powers.append(alpha if len(powers) == 1 else (powers[-1] * alpha).named("power"))
    functions = g.concatenate(powers) @ g.constant(part.polynomials, "polynomials")
    functions = (functions if functions.is_batched else g.repeat_rows(functions, X)).named("functions")
    rest = g.columns(rotated, 1, rotated.width)
    written: dict[int, Value] = {}
    parts = []
    for term in part.exact:
        n = int(part.degrees[term])
        if n not in written:
            written[n] = monomials(Monomials.of(rest.width, {n: 1.0}), rest, None)
        parts.append(written[n] * g.columns(functions, term, term + 1))
    for drawn, terms in part.products:
        parts.append(products(drawn, rest, None) * g.take(functions, terms))
    return g.concatenate(parts)


def with_zeros(parts: list[Value], width: int) -> Value:
    """Return parts side by side, with zeros appended up to a width."""
    return g.pad(g.concatenate(parts), width)


@features_of_rows.register
def _(features: MaclaurinFeatures, X: Value, scales: Lengthscales | None = None) -> Value:
    X = scaled(X, scales)
    parts = [series_part(part, X) for part in features.parts if part.n_components]
    if not parts:
        return g.repeat_rows(np.zeros(features.n_components), X)
    return with_zeros(parts, features.n_components).named("features", "Components of power series.")


@features_of_rows.register
def _(features: PolynomialFeatures, X: Value, scales: Lengthscales | None = None) -> Value:
    X = scaled(X, scales)
    X = X if features.slope == 1 else X * float(features.slope)
    if features.constant:
        X = g.concatenate([X, g.constant([float(features.constant)])])
    return products(features.products, X.named("extended"), None).named("features", "Products of random projections.")


@features_of_rows.register
def _(features: SketchFeatures, X: Value, scales: Lengthscales | None = None) -> Value:
    X = scaled(X, scales)
    out: Value | None = None
    for j, sketch in enumerate(features.sketches):
        matrix = np.zeros((len(sketch.buckets), features.n_components))
        matrix[np.arange(len(sketch.buckets)), sketch.buckets] = sketch.entries
        one = X @ g.constant(matrix, f"sketch{j}")
        if sketch.offset.any():
            one = one + g.constant(sketch.offset, f"offset{j}")
        out = one if out is None else g.convolve(out, one)
    if out is None:
        return g.repeat_rows(np.zeros(features.n_components), X)
    return out.named("features", f"Circular convolution of {len(features.sketches)} count sketches.")


# ---- landmarks and metrics ----------------------------------------------------------------------------------------


def landmark_values(features: Any, X: Value, scales: Lengthscales | None) -> tuple[Value, Value]:
    """Return the kernel values of rows and landmarks, and the landmarks."""
    landmarks = g.constant(dense64(features.landmarks), "landmarks")
    if scales is not None:
        X = scales.divide(X)
        landmarks = scales.divide(landmarks)
    return kernel_values(features.kernel, X, landmarks), landmarks


@features_of_rows.register
def _(features: LandmarkFeatures, X: Value, scales: Lengthscales | None = None) -> Value:
    values, landmarks = landmark_values(features, X, scales)
    whitening = g.constant(features.whitening, "whitening")
    if scales is not None:
        # With W'K W = L L' for the kernel matrix K of the landmarks, the whitening matrix becomes W L^-T. For the
        # lengthscales of the fit, W'K W is the identity.
        used = np.flatnonzero(np.abs(features.whitening).any(axis=0))
        root = g.constant(features.whitening[:, used], "whitening")
        K = kernel_values(features.kernel, landmarks, landmarks)
        inverse = g.apply("cholesky_inverse", g.matrix_transpose(root) @ K @ root)
        found = values @ root @ g.matrix_transpose(inverse)
        return g.pad(found, features.n_components)
    note = f"Kernel values of {features.landmarks.shape[0]} landmarks, times a matrix."
    return (values.named("values") @ whitening).named("features", note)


@features_of_rows.register
def _(features: LandmarkValues, X: Value, scales: Lengthscales | None = None) -> Value:
    return landmark_values(features, X, scales)[0]


def metric_inputs(inputs: MetricInputs, X: Value) -> Value:
    """Return rows in a metric."""
    if inputs.width < inputs.n_features:
        X = g.take(X, inputs.columns)
    if inputs.center is not None:
        X = X - g.constant(inputs.center, "center")
    factors = 1 / inputs.scale
    if inputs.root is not None and inputs.root.ndim == 1:
        factors = factors * inputs.root
    X = X * g.constant(factors, "factors")
    if inputs.root is not None and inputs.root.ndim == 2:
        X = X @ g.constant(inputs.root, "metric")
    return X.named("scaled", "Rows in units of the metric.")


@features_of_rows.register
def _(features: MetricFeatures, X: Value, scales: Lengthscales | None = None) -> Value:
    return features_of_rows(features.inner, metric_inputs(features.inputs, X), scales)


# ---- features of features -----------------------------------------------------------------------------------------


@features_of_rows.register
def _(features: WhitenedFeatures, X: Value, scales: Lengthscales | None = None) -> Value:
    return features_of_rows(features.features, X, scales) @ g.constant(np.triu(features.matrix), "deformation")


@features_of_rows.register
def _(features: LowRankFeatures, X: Value, scales: Lengthscales | None = None) -> Value:
    Z = features_of_rows(features.features, X, scales).named("Z")
    basis, shrinkage = features.basis.astype(float), features.shrinkage.astype(float)
    return Z - (Z @ g.constant(basis * shrinkage, "shrinkage")) @ g.constant(basis.T, "basis")


@features_of_rows.register
def _(features: StackedFeatures, X: Value, scales: Lengthscales | None = None) -> Value:
    return with_zeros([features_of_rows(part, X, scales) for part in features.parts], features.n_components)


@features_of_rows.register
def _(features: PairedFeatures, X: Value, scales: Lengthscales | None = None) -> Value:
    out = features_of_rows(features.parts[0], X, scales) * features.n_components**-0.5
    for part in features.parts[1:]:
        out = out * features_of_rows(part, X, scales)
    return out


@features_of_rows.register
def _(features: KroneckerFeatures, X: Value, scales: Lengthscales | None = None) -> Value:
    outer: Value | None = None
    for part in features.parts:
        values = features_of_rows(part, X, scales)
        if outer is None:
            outer = values
            continue
        both = g.reshape(outer, outer.width, 1) * g.reshape(values, 1, values.width)
        outer = g.reshape(both, both.shape[1] * both.shape[2])
    blocks = []
    for i, part in enumerate(features.inner):
        block = features_of_rows(part, X, scales)
        blocks.append(block if outer is None else block * g.columns(outer, i, i + 1))
    return with_zeros(blocks, features.n_components)


@features_of_rows.register
def _(features: ShuffledFeatures, X: Value, scales: Lengthscales | None = None) -> Value:
    return g.take(features_of_rows(features.features, X, scales), features.order) * float(features.scale)


@features_of_rows.register
def _(features: MixedFeatures, X: Value, scales: Lengthscales | None = None) -> Value:
    return features_of_rows(features.features, X, scales) @ g.constant(features.mixing, "mixing")


@features_of_rows.register
def _(features: CompositionFeatures, X: Value, scales: Lengthscales | None = None) -> Value:
    parts = [g.constant([float(features.constant)])] if features.constant else []
    if features.linear is not None:
        inner, scale = features.linear
        parts.append(features_of_rows(inner, X, scales) * float(scale))
    # Products are sorted by decreasing degree: those of the first columns have the most factors.
    values: Value = g.constant(features.scales, "scales")
    done: list[Value] = []
    for factor in features.factors:
        m = factor.n_components
        if m < values.width:
            done = [g.columns(values, m, values.width), *done]
            values = g.columns(values, 0, m)
        values = values * features_of_rows(factor, X, scales)
    parts += [values, *done] if len(features.scales) else []
    joined = g.concatenate(parts)
    joined = joined if joined.is_batched else g.repeat_rows(joined, X)
    return g.pad(joined, features.n_components)
