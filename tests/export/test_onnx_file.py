"""ONNX graphs: standard operators, the numbers of the model in float32, metadata."""

import json

import numpy as np
import pytest

from mercer import (
    ArcCosine,
    Gaussian,
    KernelKMeans,
    KernelRidge,
    KernelRidgeClassifier,
    Matern,
    Nystroem,
    RandomFourier,
    RandomNeurons,
)
from mercer.export import graph as g
from mercer.export.checks import compare, expected, run_onnx
from mercer.export.kernels import kernel_values
from mercer.export.onnx_file import OPSET, arctan_coefficients, onnx_model
from mercer.export.program import Program, program_of

from .models import KERNELS_BY_CLASS, LABELS, MODELS, ROWS, X, Y, fitted, name_of

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.filterwarnings("ignore")  # of few rows, which are not the subject


@pytest.mark.covering(1, model=type)
@pytest.mark.parametrize("model", MODELS, ids=name_of)
def test_results_are_those_of_the_model(model):
    model = fitted(model)
    program = program_of(model)
    proto = onnx_model(program)
    onnx.checker.check_model(proto, full_check=True)
    assert {node.domain for node in proto.graph.node} == {""}
    truth = expected(model, program, ROWS)
    found = compare(program, run_onnx(proto.SerializeToString(), ROWS.astype(np.float32)), truth)
    assert found.labels == 0
    assert found.relative < 1e-5 / 40  # rounding of the results to float32
    double = onnx_model(program, dtype=np.float64)
    found = compare(program, run_onnx(double.SerializeToString(), ROWS), truth)
    assert found.relative < 1e-9


@pytest.mark.parametrize("kernel", KERNELS_BY_CLASS, ids=repr)
def test_values_of_kernels(kernel):
    rows = g.rows(3)
    program = Program(
        "kernel", rows, {"variable": kernel_values(kernel, rows, g.constant(X[:7]))}, None, (), *3 * [False]
    )
    found = run_onnx(onnx_model(program, dtype=np.float64).SerializeToString(), ROWS)["variable"]
    truth = kernel(ROWS, X[:7])
    assert found == pytest.approx(truth, abs=1e-12 * max(1, np.abs(truth).max()))


def test_one_row_and_many_rows():
    model = KernelRidge(Nystroem(Matern(), 10), neighbors=5, random_state=0).fit(X, Y)
    content = onnx_model(program_of(model)).SerializeToString()
    for rows in (X[:1], np.tile(X, (5, 1))):
        found = run_onnx(content, rows.astype(np.float32))["variable"]
        assert found.shape == (len(rows), 1)
        assert found[:, 0] == pytest.approx(model.predict(rows), rel=1e-4, abs=1e-5)


def test_rows_that_are_landmarks_have_distance_zero():
    # In float32, |x|^2 + |y|^2 - 2 x.y would be wrong by the square root of a rounding error.
    rows = (1000 + np.random.default_rng(0).normal(size=(40, 3))).astype(np.float32).astype(float)
    model = Nystroem(Matern(0.5), 20, random_state=0).fit(rows)
    program = program_of(model)
    found = run_onnx(onnx_model(program).SerializeToString(), rows.astype(np.float32))
    assert compare(program, found, expected(model, program, rows)).relative < 1e-6


def test_computation_in_float32_is_smaller_and_less_accurate():
    model = KernelRidge(RandomFourier(Gaussian(), 512, random_state=0), alpha=1.0).fit(X, Y)
    program = program_of(model)
    proto, single = onnx_model(program), onnx_model(program, compute=np.float32)
    assert single.ByteSize() < 0.6 * proto.ByteSize()
    truth = expected(model, program, ROWS)
    rows = ROWS.astype(np.float32)
    exact = compare(program, run_onnx(proto.SerializeToString(), rows), truth).relative
    rough = compare(program, run_onnx(single.SerializeToString(), rows), truth).relative
    assert exact < rough < 1e-4


@pytest.mark.parametrize(
    "labels",
    [LABELS, LABELS == "low", np.where(LABELS == "low", 7, -3), np.where(LABELS == "low", 5.0, 1.0)],
    ids=["str", "bool", "int", "float"],
)
def test_labels_keep_their_kind(labels):
    model = KernelRidgeClassifier(random_state=0).fit(X, labels)
    found = run_onnx(onnx_model(program_of(model)).SerializeToString(), ROWS.astype(np.float32))
    assert list(found) == ["label", "scores", "probabilities"]
    assert found["label"].shape == (20,)
    assert found["label"].tolist() == model.predict(ROWS).tolist()


def test_outputs_have_the_names_of_skl2onnx_and_the_metadata_are_there():
    proto = onnx_model(program_of(KernelRidgeClassifier(random_state=0).fit(X, LABELS)))
    metadata = {one.key: one.value for one in proto.metadata_props}
    assert json.loads(metadata["classes"]) == ["high", "low", "middle"]
    assert json.loads(metadata["feature_names"]) == ["x0", "x1", "x2"]
    assert metadata["model"] == "KernelRidgeClassifier"
    assert proto.producer_name == "mercer"
    assert proto.opset_import[0].version == OPSET
    assert [one.name for one in proto.graph.input] == ["X"]
    outputs = [one.name for one in onnx_model(program_of(KernelRidge(random_state=0).fit(X, Y))).graph.output]
    assert outputs == ["variable"]
    clusters = KernelKMeans(RandomFourier(Gaussian(), 20, random_state=0), 3, random_state=0).fit(X)
    assert [one.name for one in onnx_model(program_of(clusters)).graph.output] == ["label", "scores"]


def test_every_node_and_constant_is_used():
    proto = onnx_model(program_of(fitted(RandomNeurons(ArcCosine(1), 20, layout="relu"))))
    used = {name for node in proto.graph.node for name in node.input}
    assert {one.name for one in proto.graph.initializer} <= used
    outputs = {one.name for one in proto.graph.output}
    assert all(used.union(outputs).intersection(node.output) for node in proto.graph.node)


def test_arc_tangent_by_a_polynomial():
    x = np.linspace(0, 1, 1001)
    values = x * np.polynomial.polynomial.polyval(2 * x * x - 1, arctan_coefficients())
    assert np.abs(values - np.arctan(x)).max() < 1e-14


@pytest.mark.parametrize("width", [64, 256, 512])
def test_large_hadamard_matrices(width):
    rows = np.random.default_rng(0).normal(size=(5, width - 3))
    model = RandomFourier(Gaussian(20.0), 2 * width, directions="hadamard", random_state=0).fit(rows)
    found = run_onnx(onnx_model(program_of(model), dtype=np.float64).SerializeToString(), rows)
    assert found["variable"] == pytest.approx(model.transform(rows), abs=1e-12)
