"""Choice between compiled and NumPy implementations, made once at import, and checks of their arguments.

`kernels` holds the functions that are compiled for the best instruction set of the processor, or the NumPy
implementations if the extension is not installed. The environment variable ``MERCER_ISA`` names another one of them:
"avx512", "avx2", "baseline" or "numpy", as far as the processor and the installation have it. These functions do not
check their arguments; the public functions of `mercer.linalg` do so by the checks below. Every check raises an error of
one line that names the function, the argument, the requirement and the value that was passed.
"""

import os
import threading
import warnings
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mercer.errors import ParameterError
from mercer.linalg import numpy_kernels
from mercer.linalg.numpy_kernels import FUNCTION_NAMES, FloatArray

__all__ = [
    "canonical",
    "check_array",
    "check_columns",
    "check_function",
    "check_length",
    "check_out",
    "check_pair_width",
    "check_projections",
    "check_radii",
    "check_separate",
    "check_width",
    "check_writeable",
    "instruction_set",
    "kernels",
    "native",
]

_DTYPES = (np.dtype(np.float32), np.dtype(np.float64))


class _WarningKernels:
    """The functions of the module `numpy_kernels`. A RuntimeWarning is issued once, at the first use of any of them."""

    def __init__(self) -> None:
        # Acquired by the first use and never released, so that two threads cannot both warn.
        self._first_use = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        if self._first_use.acquire(blocking=False):
            warnings.warn(
                "mercer: the compiled kernels are not installed; the NumPy implementations are used instead, with "
                "results that are equal up to rounding but several times slower. Install a C++ compiler and reinstall "
                "mercer.",
                RuntimeWarning,
                stacklevel=4,  # the caller of a function of this package
            )
        return getattr(numpy_kernels, name)


def _choose() -> tuple[str, ModuleType | _WarningKernels]:
    wanted = os.environ.get("MERCER_ISA", "").strip().lower()
    try:
        from mercer.linalg import _native
    except ImportError:
        available = ["numpy"]
    else:
        available = [*_native.supported(), "numpy"]
    chosen = wanted or available[0]
    if chosen not in available:
        msg = f"MERCER_ISA must be one of {', '.join(available)} on this machine, or not be set, got {wanted!r}."
        raise ParameterError(msg)
    if chosen == "numpy":
        return chosen, numpy_kernels if wanted else _WarningKernels()
    return chosen, getattr(_native, chosen)


class _AlignedKernels:
    """The functions of a module of kernels, which get aligned copies of inputs that are misaligned in memory.

    Reading a misaligned number is undefined behavior in C++. Arrays that another process has sent may be misaligned.
    """

    def __init__(self, module: Any) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        kernel = getattr(self._module, name)

        def call(*args: Any) -> Any:
            return kernel(*(canonical(arg) if isinstance(arg, np.ndarray) else arg for arg in args))

        setattr(self, name, call)  # found at once the next time
        return call


_INSTRUCTION_SET, _CHOSEN = _choose()
if TYPE_CHECKING:
    from mercer.linalg import numpy_kernels as kernels  # all implementations have these signatures
else:
    kernels = _AlignedKernels(_CHOSEN)


def instruction_set() -> str:
    """Return the name of the instruction set that the functions of `mercer.linalg` use.

    It is the best one of the processor, or the one that the environment variable ``MERCER_ISA`` named when
    `mercer.linalg` was imported. Results of different instruction sets are equal up to rounding.

    Returns
    -------
    str
        "avx512", "avx2" or "baseline" for compiled functions, "numpy" for the NumPy implementations.

    Examples
    --------
    >>> instruction_set() in {"avx512", "avx2", "baseline", "numpy"}
    True
    """
    return _INSTRUCTION_SET


def check_array(function: str, name: str, array: NDArray[Any], ndim: int, dtype: np.dtype[Any] | None = None) -> None:
    """Require that `array` is aligned, with `ndim` dimensions, unit stride along its last axis, and dtype `dtype`.

    If `dtype` is None, float32 and float64 are accepted. The error names the caller, `function`, and the argument,
    `name`.
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
        return  # the strides of an empty array have no meaning
    itemsize = array.itemsize
    if array.shape[-1] > 1 and array.strides[-1] != itemsize:
        msg = (
            f"{function}: {name} must have unit stride along its last axis, "
            f"got a stride of {array.strides[-1]} bytes for items of {itemsize}"
        )
        raise ValueError(msg)
    for stride in array.strides:
        if stride % itemsize:
            msg = (
                f"{function}: {name} must have strides that are multiples of its item size of {itemsize} bytes, "
                f"got a stride of {stride} bytes"
            )
            raise ValueError(msg)
    if name == "out" and not array.flags.aligned:  # of misaligned inputs, the kernels get a copy
        msg = f"{function}: {name} must be aligned in memory, got a misaligned array"
        raise ValueError(msg)


def check_writeable(function: str, out: FloatArray, data: FloatArray) -> None:
    """Require that `out` is a writeable matrix with the dtype of `data`."""
    check_array(function, "out", out, 2, data.dtype)
    if not out.flags.writeable:
        msg = f"{function}: out must be writeable, got a read-only array"
        raise ValueError(msg)


def check_out(function: str, out: FloatArray, data: FloatArray) -> None:
    """Require that `out` is a writeable matrix with the dtype and the number of rows of `data`."""
    check_writeable(function, out, data)
    if len(out) != len(data):
        msg = f"{function}: out must have {len(data)} rows, as the data has, got {len(out)}"
        raise ValueError(msg)


def check_columns(function: str, out: FloatArray, m: int) -> None:
    """Require that `out` has `m` columns."""
    if out.shape[1] != m:
        msg = f"{function}: out must have m = {m} columns, got {out.shape[1]}"
        raise ValueError(msg)


def check_pair_width(function: str, m: int, out: FloatArray) -> None:
    """Require that `out` has m to 2m columns, for `m` cosines and at most `m` sines."""
    if not m <= out.shape[1] <= 2 * m:
        msg = f"{function}: out must have m = {m} to 2m = {2 * m} columns, got {out.shape[1]}"
        raise ValueError(msg)


def check_length(function: str, name: str, vector: FloatArray, m: int) -> None:
    """Require that `vector` has `m` entries. The error names the argument as `name`."""
    if len(vector) != m:
        msg = f"{function}: {name} must have length m = {m}, got {len(vector)}"
        raise ValueError(msg)


def check_separate(function: str, out: FloatArray, inputs: Mapping[str, NDArray[Any]]) -> None:
    """Require that no array in `inputs`, a mapping from names to arrays, shares memory with `out`."""
    for name, array in inputs.items():
        if np.shares_memory(array, out):
            msg = f"{function}: out must not share memory with {name}, got overlapping arrays"
            raise ValueError(msg)


def check_function(function: str, name: str) -> None:
    """Require that `name` is one of `FUNCTION_NAMES`, the functions that can be applied to projections."""
    if name not in FUNCTION_NAMES:
        msg = f"{function}: function must be one of {', '.join(FUNCTION_NAMES)}, got {name!r}"
        raise ValueError(msg)


def check_width(function: str, name: str, width: int, X: FloatArray) -> None:
    """Require that `width`, the size of a Hadamard or butterfly matrix, is a power of two >= the width of `X`."""
    if width < 1 or width & (width - 1):
        msg = f"{function}: the width of {name} must be a power of two, got {width}"
        raise ValueError(msg)
    if width < X.shape[1]:
        msg = f"{function}: the width of {name} must be at least that of X, {X.shape[1]}, got {width}"
        raise ValueError(msg)


def check_projections(function: str, what: str, m: int, blocks: int, width: int) -> None:
    """Require (blocks - 1) * width < m <= blocks * width, so that `m` projections use each of the `blocks` matrices."""
    least, most = (blocks - 1) * width + 1, blocks * width
    if not least <= m <= most:
        msg = (
            f"{function}: the number of {what} must be {least} to {most} for {blocks} blocks of width {width}, got {m}"
        )
        raise ValueError(msg)


def check_radii(function: str, radii: FloatArray | None, out: FloatArray) -> None:
    """Require that `radii` is None, or a vector with one entry per column of `out` and the dtype of `out`."""
    if radii is None:
        return
    check_array(function, "radii", radii, 1, out.dtype)
    check_length(function, "radii", radii, out.shape[1])
    check_separate(function, out, {"radii": radii})


# ---- memory layouts of rows, for callers ----------------------------------------------------------------------------


def native(X: Any) -> Any:
    """Return floats in the byte order of the machine; everything else is returned unchanged.

    Validation would convert floats in another byte order to float64, also those of single precision.
    """
    # This module does not import SciPy: sparse matrices are recognized by their methods.
    if (isinstance(X, np.ndarray) or hasattr(X, "tocsr")) and X.dtype.kind == "f" and not X.dtype.isnative:
        return X.astype(X.dtype.newbyteorder("="))
    return X


def canonical(X: Any) -> Any:
    """Return an array, or a CSR matrix, that is aligned in memory and has no duplicate or unsorted entries.

    Reading a misaligned number is undefined behavior in C++. An array that is aligned, and a CSR matrix in canonical
    format, are returned without a copy. The argument is not changed.
    """
    if isinstance(X, np.ndarray):
        return X if X.flags.aligned else X.copy()
    parts = X.data, X.indices, X.indptr
    if not all(part.flags.aligned for part in parts):
        X = type(X)(tuple(part if part.flags.aligned else part.copy() for part in parts), shape=X.shape)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X
