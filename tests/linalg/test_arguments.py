"""Every invalid argument raises an error of one line that names it, the requirement and the value passed."""

import re
from dataclasses import replace

import numpy as np
import pytest

from mercer import linalg

pytestmark = pytest.mark.covering(1)


def plan(dtype, blocks=2, width=4):
    """Return the plan of butterflies whose rotations are all the identity."""
    levels = width.bit_length() - 1
    order = np.tile(np.arange(width), (blocks, 1))
    return linalg.ButterflyPlan(order, np.zeros((blocks, levels, width), dtype), np.ones((blocks, width), dtype))


def valid(function, dtype):
    """Return arguments by name that `function` accepts."""
    X, out = np.ones((3, 4), dtype), np.empty((3, 8), dtype)
    signs, radii = np.ones((2, 3, 4), dtype), np.ones(8, dtype)
    mixing, butterflies, weights = signs[0, :2], plan(dtype), np.ones((4, 8), dtype)
    return {
        "butterfly": {"X": X, "signs": mixing, "plan": butterflies, "out": out, "radii": radii},
        "butterfly_pairs": {
            "X": X,
            "signs": mixing,
            "plan": butterflies,
            "radii": radii,
            "scale": 1.0,
            "out": out,
        },
        "sincos_pairs": {"angles": X, "scale": 1.0, "out": out},
        "cosines": {"angles": np.ones((3, 8), dtype), "phases": radii, "scale": 1.0, "out": out},
        "dense": {"X": X, "weights": weights, "out": out},
        "dense_pairs": {"X": X, "weights": weights, "scale": 1.0, "out": out},
        "dense_cosines": {"X": X, "weights": weights, "phases": radii, "scale": 1.0, "out": out},
        "sign_hadamard": {"X": X, "signs": signs, "out": out, "radii": radii},
        "sign_hadamard_pairs": {"X": X, "signs": signs, "radii": radii, "scale": 1.0, "out": out},
    }[function]


# `sparse_product` takes integer arrays, and is tested in a file of its own.
OTHERS = {"ButterflyPlan", "FunctionName", "butterfly_plan", "instruction_set", "sparse_product"}
FUNCTIONS = [name for name in linalg.__all__ if name not in OTHERS]
ARRAYS = [(f, name) for f in FUNCTIONS for name, a in valid(f, float).items() if isinstance(a, np.ndarray)]
DATA = {f: next(iter(valid(f, float))) for f in FUNCTIONS}


def assert_raises(function, arguments, error, text):
    with pytest.raises(error, match="^" + re.escape(f"{function}: {text}") + "$"):
        getattr(linalg, function)(**arguments)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_valid_arguments_are_accepted_and_out_is_returned(function, dtype):
    arguments = valid(function, dtype)
    assert getattr(linalg, function)(**arguments) is arguments["out"]


@pytest.mark.parametrize(("function", "name"), ARRAYS)
def test_type_dtype_dimensions_and_stride_of_every_array(function, name, dtype):
    arguments = valid(function, dtype)
    array = arguments[name]
    text = f"{name} must be a NumPy array, got list"
    assert_raises(function, {**arguments, name: array.tolist()}, TypeError, text)

    other = array.astype(np.float64 if dtype == np.float32 else np.float32)
    if name == DATA[function]:
        wrong, text = array.astype(int), f"{name} must be float32 or float64, got int64"
    else:
        wrong, text = other, f"{name} must be {dtype} as the data, got {other.dtype}"
    assert_raises(function, {**arguments, name: wrong}, TypeError, text)

    ndim = array.ndim
    text = f"{name} must have {ndim} dimension{'s' if ndim > 1 else ''}, got {ndim + 1}"
    assert_raises(function, {**arguments, name: array[None]}, ValueError, text)

    size = dtype.itemsize
    text = f"{name} must have unit stride along its last axis, "
    text += f"got a stride of {2 * size} bytes for items of {size}"
    assert_raises(function, {**arguments, name: np.repeat(array, 2, axis=-1)[..., ::2]}, ValueError, text)


def test_strides_that_are_no_multiple_of_the_item_size_are_rejected(dtype):
    arguments = valid("sincos_pairs", dtype)
    record = np.dtype([("values", dtype, 4), ("flag", np.uint8)])
    arguments["angles"] = np.zeros(3, record)["values"]
    size = dtype.itemsize
    text = (
        f"angles must have strides that are multiples of its item size of {size} bytes, "
        f"got a stride of {4 * size + 1} bytes"
    )
    assert_raises("sincos_pairs", arguments, ValueError, text)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_shape_and_writeability_of_out(function, dtype):
    arguments = valid(function, dtype)
    out = arguments["out"]
    text = "out must have 3 rows, as the data has, got 2"
    assert_raises(function, {**arguments, "out": out[:2]}, ValueError, text)
    read_only = out.copy()
    read_only.flags.writeable = False
    text = "out must be writeable, got a read-only array"
    assert_raises(function, {**arguments, "out": read_only}, ValueError, text)


@pytest.mark.parametrize(("function", "name"), [pair for pair in ARRAYS if pair[1] != "out"])
def test_out_that_overlaps_an_input_is_rejected(function, name, dtype):
    arguments = valid(function, dtype)
    memory = np.ones(400, dtype)
    out, array = arguments["out"], arguments[name]
    arguments["out"] = memory[: out.size].reshape(out.shape)
    arguments[name] = memory[1 : 1 + array.size].reshape(array.shape)
    text = f"out must not share memory with {name}, got overlapping arrays"
    assert_raises(function, arguments, ValueError, text)


def test_input_and_out_may_be_columns_of_one_matrix(dtype):
    memory = np.zeros((3, 12), dtype)
    linalg.sincos_pairs(memory[:, :4], 1.0, memory[:, 4:])
    np.testing.assert_array_equal(memory, np.repeat([[0, 1, 0]], 4, axis=1).repeat(3, axis=0))


@pytest.mark.parametrize("width", [3, 9])
def test_number_of_columns_for_pairs(dtype, width):
    arguments = valid("sincos_pairs", dtype) | {"out": np.empty((3, width), dtype)}
    assert_raises("sincos_pairs", arguments, ValueError, f"out must have m = 4 to 2m = 8 columns, got {width}")
    arguments = valid("sign_hadamard_pairs", dtype) | {"out": np.empty((3, 17), dtype)}
    assert_raises("sign_hadamard_pairs", arguments, ValueError, "out must have m = 8 to 2m = 16 columns, got 17")


def test_lengths_of_phases_and_out_of_cosines(dtype):
    arguments = valid("cosines", dtype)
    wrong = {**arguments, "phases": np.ones(7, dtype)}
    assert_raises("cosines", wrong, ValueError, "phases must have length m = 8, got 7")
    wrong = {**arguments, "out": np.ones((3, 7), dtype)}
    assert_raises("cosines", wrong, ValueError, "out must have m = 8 columns, got 7")


@pytest.mark.parametrize("function", ["sign_hadamard", "sign_hadamard_pairs"])
def test_shape_of_signs(function, dtype):
    arguments = valid(function, dtype)
    for shape, text in [
        ((0, 3, 4), "signs must have at least one block and one repeat, got shape (0, 3, 4)"),
        ((2, 0, 4), "signs must have at least one block and one repeat, got shape (2, 0, 4)"),
        ((2, 3, 6), "the width of signs must be a power of two, got 6"),
        ((2, 3, 0), "the width of signs must be a power of two, got 0"),
        ((2, 3, 2), "the width of signs must be at least that of X, 4, got 2"),
    ]:
        assert_raises(function, {**arguments, "signs": np.ones(shape, dtype)}, ValueError, text)


@pytest.mark.parametrize("m", [4, 9])
def test_number_of_projections(dtype, m):
    arguments = valid("sign_hadamard", dtype) | {"out": np.ones((3, m), dtype)}
    text = f"the number of columns of out must be 5 to 8 for 2 blocks of width 4, got {m}"
    assert_raises("sign_hadamard", arguments, ValueError, text)
    arguments = valid("sign_hadamard_pairs", dtype) | {"radii": np.ones(m, dtype)}
    text = f"the number of radii must be 5 to 8 for 2 blocks of width 4, got {m}"
    assert_raises("sign_hadamard_pairs", arguments, ValueError, text)
    arguments = valid("butterfly_pairs", dtype) | {"radii": np.ones(m, dtype)}
    assert_raises("butterfly_pairs", arguments, ValueError, text)
    arguments = valid("butterfly", dtype) | {"out": np.ones((3, m), dtype)}
    text = f"the number of columns of out must be 5 to 8 for 2 blocks of width 4, got {m}"
    assert_raises("butterfly", arguments, ValueError, text)


@pytest.mark.parametrize("function", ["butterfly", "butterfly_pairs"])
def test_dtypes_shapes_and_order_of_a_plan(function, dtype):
    arguments = valid(function, dtype)
    good = arguments["plan"]
    assert_raises(function, {**arguments, "plan": None}, TypeError, "plan must be a ButterflyPlan, got NoneType")
    other = np.dtype(np.float64 if dtype == np.float32 else np.float32)
    text = f"plan.multipliers must be {dtype} as the data, got {other}"
    assert_raises(function, {**arguments, "plan": good.astype(other)}, TypeError, text)

    text = f"plan.order must be int64, got {dtype}"
    assert_raises(function, {**arguments, "plan": replace(good, order=good.order.astype(dtype))}, TypeError, text)

    for name in ("order", "multipliers", "factors"):
        flat = getattr(good, name)[0]
        text = f"plan.{name} must have {flat.ndim + 1} dimensions, got {flat.ndim}"
        assert_raises(function, {**arguments, "plan": replace(good, **{name: flat})}, ValueError, text)

    for wrong, text in [
        (plan(dtype, blocks=0), "plan must have at least one block, got none"),
        (plan(dtype, width=2), "the width of plan must be at least that of X, 4, got 2"),
        (replace(good, order=np.zeros((2, 6), int)), "the width of plan must be a power of two, got 6"),
        (replace(good, order=good.order + 1), "plan.order must lie in [0, 4), got 1 to 4"),
        (replace(good, order=good.order - 1), "plan.order must lie in [0, 4), got -1 to 2"),
        (
            replace(good, factors=good.factors[:1]),
            "plan must have multipliers and factors of shapes ((2, 2, 4), (2, 4)), got ((2, 2, 4), (1, 4))",
        ),
    ]:
        assert_raises(function, {**arguments, "plan": wrong}, ValueError, text)


def test_out_that_overlaps_a_plan_is_rejected(dtype):
    arguments = valid("butterfly", dtype)
    good = arguments["plan"]
    memory = np.zeros(24, dtype)
    wrong = replace(good, factors=memory[:8].reshape(2, 4))
    text = "out must not share memory with plan.factors, got overlapping arrays"
    assert_raises("butterfly", {**arguments, "plan": wrong, "out": memory.reshape(3, 8)}, ValueError, text)


@pytest.mark.parametrize("function", ["butterfly", "butterfly_pairs"])
def test_shape_of_mixing_signs(function, dtype):
    arguments = valid(function, dtype)
    for shape in [(3, 4), (2, 8)]:
        text = f"signs must have shape (2, 4), got {shape}"
        assert_raises(function, {**arguments, "signs": np.ones(shape, dtype)}, ValueError, text)


@pytest.mark.parametrize("function", ["dense", "dense_pairs", "dense_cosines"])
def test_number_of_rows_of_weights(function, dtype):
    arguments = valid(function, dtype) | {"weights": np.ones((5, 8), dtype)}
    text = "weights must have 4 rows, one per column of X, got 5"
    assert_raises(function, arguments, ValueError, text)


def test_number_of_columns_of_dense_results(dtype):
    wrong = {"out": np.ones((3, 17), dtype)}
    text = "out must have m = 8 columns, got 17"
    assert_raises("dense", valid("dense", dtype) | wrong, ValueError, text)
    assert_raises("dense_cosines", valid("dense_cosines", dtype) | wrong, ValueError, text)
    text = "out must have m = 8 to 2m = 16 columns, got 17"
    assert_raises("dense_pairs", valid("dense_pairs", dtype) | wrong, ValueError, text)
    arguments = valid("dense_cosines", dtype) | {"phases": np.ones(7, dtype)}
    assert_raises("dense_cosines", arguments, ValueError, "phases must have length m = 8, got 7")


@pytest.mark.parametrize("function", ["butterfly", "dense", "sign_hadamard"])
def test_unknown_function_of_projections_is_rejected(function, dtype):
    text = "function must be one of identity, sign, abs, relu, relu_squared, signed_square, exp, got 'tanh'"
    assert_raises(function, valid(function, dtype) | {"function": "tanh"}, ValueError, text)


@pytest.mark.parametrize("function", ["butterfly", "sign_hadamard"])
def test_number_of_radii(function, dtype):
    arguments = valid(function, dtype) | {"radii": np.ones(7, dtype)}
    assert_raises(function, arguments, ValueError, "radii must have length m = 8, got 7")
