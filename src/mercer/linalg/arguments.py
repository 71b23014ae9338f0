"""Cheap checks of the arguments of the floor: what the compiled kernels take on trust.

Each raises with one line that names the function, the argument, the constraint and the value.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.linalg.butterfly import ButterflyPlan
from mercer.linalg.twins import FUNCTION_NAMES, FloatArray

__all__ = [
    "check_array",
    "check_columns",
    "check_function",
    "check_mixing_signs",
    "check_out",
    "check_pair_width",
    "check_plan",
    "check_projection",
    "check_separate",
    "check_signs",
    "check_sparse_rows",
    "check_weights",
    "check_writeable",
]

_DTYPES = (np.dtype(np.float32), np.dtype(np.float64))


def check_array(function: str, name: str, array: NDArray[Any], ndim: int, dtype: np.dtype[Any] | None = None) -> None:
    """Require an `ndim`-dimensional array with unit stride along its last axis.

    Its dtype must be `dtype`, or float32 or float64 if that is None.
    """
    if not isinstance(array, np.ndarray):
        msg = f"{function}: {name} must be a NumPy array, got {type(array).__name__}"
        raise TypeError(msg)
    if dtype is None and array.dtype not in _DTYPES:
        msg = f"{function}: {name} must be float32 or float64, got {array.dtype}"
        raise TypeError(msg)
    if dtype is not None and array.dtype != dtype:
        like = " as the data" if dtype in _DTYPES else ""
        msg = f"{function}: {name} must be {dtype}{like}, got {array.dtype}"
        raise TypeError(msg)
    if array.ndim != ndim:
        msg = f"{function}: {name} must have {ndim} dimension{'s' * (ndim > 1)}, got {array.ndim}"
        raise ValueError(msg)
    if array.size == 0:
        return  # NumPy gives strides no meaning here
    itemsize = array.itemsize
    if array.shape[-1] > 1 and array.strides[-1] != itemsize:
        msg = (
            f"{function}: {name} must have unit stride along its last axis, "
            f"got a stride of {array.strides[-1]} bytes for items of {itemsize}"
        )
        raise ValueError(msg)
    for stride in array.strides:
        if stride % itemsize:
            msg = f"{function}: {name} must have strides of whole {itemsize}-byte items, got {stride} bytes"
            raise ValueError(msg)


def check_out(function: str, out: FloatArray, data: FloatArray) -> None:
    """Require a writeable matrix with the dtype and the number of rows of `data`."""
    check_writeable(function, out, data)
    if len(out) != len(data):
        msg = f"{function}: out must have as many rows as the data = {len(data)}, got {len(out)}"
        raise ValueError(msg)


def check_writeable(function: str, out: FloatArray, data: FloatArray) -> None:
    """Require a writeable matrix with the dtype of `data`."""
    check_array(function, "out", out, 2, data.dtype)
    if not out.flags.writeable:
        msg = f"{function}: out must be writeable, got a read-only array"
        raise ValueError(msg)


def check_pair_width(function: str, m: int, out: FloatArray) -> None:
    """Require room for `m` cosines and at most as many sines."""
    if not m <= out.shape[1] <= 2 * m:
        msg = f"{function}: out must have m = {m} to 2m = {2 * m} columns, got {out.shape[1]}"
        raise ValueError(msg)


def check_separate(function: str, name: str, array: NDArray[Any], out: FloatArray) -> None:
    """Require that writing to `out` leaves `array` as it is."""
    if np.shares_memory(array, out):
        msg = f"{function}: out must not share memory with {name}, got overlapping arrays"
        raise ValueError(msg)


def check_signs(function: str, signs: FloatArray, X: FloatArray) -> None:
    """Require signs of shape (blocks, repeats, power of two) that are as wide as `X` or wider."""
    check_array(function, "signs", signs, 3, X.dtype)
    blocks, repeats, width = signs.shape
    if blocks < 1 or repeats < 1:
        msg = f"{function}: signs must have at least one block and one repeat, got shape {signs.shape}"
        raise ValueError(msg)
    _check_width(function, "signs", width, X)


def check_plan(function: str, plan: ButterflyPlan, X: FloatArray) -> None:
    """Require butterflies in the dtype of `X` that are as wide as `X` or wider."""
    if not isinstance(plan, ButterflyPlan):
        msg = f"{function}: plan must be a ButterflyPlan, got {type(plan).__name__}"
        raise TypeError(msg)
    check_array(function, "plan.order", plan.order, 2, np.dtype(np.int64))
    check_array(function, "plan.multipliers", plan.multipliers, 3, X.dtype)
    check_array(function, "plan.factors", plan.factors, 2, X.dtype)
    blocks, width = plan.shape
    if blocks < 1:
        msg = f"{function}: plan must have at least one block, got none"
        raise ValueError(msg)
    _check_width(function, "plan", width, X)
    shapes = plan.multipliers.shape, plan.factors.shape
    expected = (blocks, width.bit_length() - 1, width), (blocks, width)
    if shapes != expected:
        msg = f"{function}: plan must have multipliers and factors of shapes {expected}, got {shapes}"
        raise ValueError(msg)
    if plan.order.min() < 0 or plan.order.max() >= width:
        msg = f"{function}: plan.order must lie in [0, {width}), got {plan.order.min()} to {plan.order.max()}"
        raise ValueError(msg)


def check_mixing_signs(function: str, signs: FloatArray, plan: ButterflyPlan, X: FloatArray) -> None:
    """Require two rows of signs as wide as the butterflies."""
    check_array(function, "signs", signs, 2, X.dtype)
    expected = (2, plan.shape[1])
    if signs.shape != expected:
        msg = f"{function}: signs must have shape {expected}, got {signs.shape}"
        raise ValueError(msg)


def _check_width(function: str, what: str, width: int, X: FloatArray) -> None:
    if width < 1 or width & (width - 1):
        msg = f"{function}: the width of {what} must be a power of two, got {width}"
        raise ValueError(msg)
    if width < X.shape[1]:
        msg = f"{function}: the width of {what} must be >= the columns of X = {X.shape[1]}, got {width}"
        raise ValueError(msg)


def check_weights(function: str, weights: FloatArray, X: FloatArray) -> None:
    """Require a matrix that the rows of `X` can be multiplied with."""
    check_array(function, "weights", weights, 2, X.dtype)
    if len(weights) != X.shape[1]:
        msg = f"{function}: weights must have as many rows as X has columns = {X.shape[1]}, got {len(weights)}"
        raise ValueError(msg)


def check_sparse_rows(
    function: str, starts: NDArray[Any], indices: NDArray[Any], values: FloatArray, X: FloatArray
) -> None:
    """Require rows of a CSR matrix whose columns are the rows of `X`."""
    if len(indices) != len(values):
        msg = f"{function}: indices and values must be as many, got {len(indices)} and {len(values)}"
        raise ValueError(msg)
    if not len(starts) or starts[0] < 0 or starts[-1] > len(values) or (np.diff(starts) < 0).any():
        msg = f"{function}: starts must ascend from 0 or more to at most {len(values)} entries"
        raise ValueError(msg)
    used = indices[starts[0] : starts[-1]]
    if len(used) and not (0 <= used.min() and used.max() < len(X)):
        msg = f"{function}: indices must be rows of X, 0 to {len(X) - 1}, got {used.min()} to {used.max()}"
        raise ValueError(msg)


def check_columns(function: str, what: str, width: int, m: int) -> None:
    """Require `m` columns."""
    if width != m:
        msg = f"{function}: {what} must have m = {m} columns, got {width}"
        raise ValueError(msg)


def check_function(function: str, name: str) -> None:
    """Require the name of a function of projections."""
    if name not in FUNCTION_NAMES:
        msg = f"{function}: function must be one of {', '.join(FUNCTION_NAMES)}, got {name!r}"
        raise ValueError(msg)


def check_projection(function: str, what: str, m: int, blocks: int, width: int) -> None:
    """Require that `m` projections need every block and no more."""
    least, most = (blocks - 1) * width + 1, blocks * width
    if not least <= m <= most:
        msg = f"{function}: {what} must number {least} to {most} for {blocks} blocks of {width}, got {m}"
        raise ValueError(msg)
