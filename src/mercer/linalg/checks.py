"""Cheap checks of the arguments of the floor: what the compiled kernels take on trust.

Each raises with one line that names the function, the argument, the constraint and the value.
"""

import numpy as np

from mercer.linalg.twins import FloatArray

__all__ = [
    "check_array",
    "check_out",
    "check_pair_width",
    "check_projection",
    "check_separate",
    "check_signs",
]

_DTYPES = (np.dtype(np.float32), np.dtype(np.float64))


def check_array(
    function: str, name: str, array: FloatArray, ndim: int, dtype: np.dtype[np.floating] | None = None
) -> None:
    """Require an `ndim`-dimensional float array with unit stride along its last axis.

    Its dtype must be `dtype`, or float32 or float64 if that is None.
    """
    if not isinstance(array, np.ndarray):
        msg = f"{function}: {name} must be a NumPy array, got {type(array).__name__}"
        raise TypeError(msg)
    if dtype is None and array.dtype not in _DTYPES:
        msg = f"{function}: {name} must be float32 or float64, got {array.dtype}"
        raise TypeError(msg)
    if dtype is not None and array.dtype != dtype:
        msg = f"{function}: {name} must be {dtype} as the data, got {array.dtype}"
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
    check_array(function, "out", out, 2, data.dtype)
    if not out.flags.writeable:
        msg = f"{function}: out must be writeable, got a read-only array"
        raise ValueError(msg)
    if len(out) != len(data):
        msg = f"{function}: out must have as many rows as the data = {len(data)}, got {len(out)}"
        raise ValueError(msg)


def check_pair_width(function: str, m: int, out: FloatArray) -> None:
    """Require room for `m` cosines and at most as many sines."""
    if not m <= out.shape[1] <= 2 * m:
        msg = f"{function}: out must have m = {m} to 2m = {2 * m} columns, got {out.shape[1]}"
        raise ValueError(msg)


def check_separate(function: str, name: str, array: FloatArray, out: FloatArray) -> None:
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
    if width < 1 or width & (width - 1):
        msg = f"{function}: the width of signs must be a power of two, got {width}"
        raise ValueError(msg)
    if width < X.shape[1]:
        msg = f"{function}: the width of signs must be >= the columns of X = {X.shape[1]}, got {width}"
        raise ValueError(msg)


def check_projection(function: str, what: str, m: int, signs: FloatArray) -> None:
    """Require that `m` projections need every block of signs and no more."""
    blocks, _, width = signs.shape
    least, most = (blocks - 1) * width + 1, blocks * width
    if not least <= m <= most:
        msg = f"{function}: {what} must number {least} to {most} for {blocks} blocks of {width}, got {m}"
        raise ValueError(msg)
