"""The choice of kernels: compiled ones for the best instruction set that the processor has, or the NumPy twins.

It is made once, at import. The functions of this folder check their arguments and call what is chosen here.
"""

import threading
import warnings
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mercer.linalg import twins
from mercer.linalg.twins import FloatArray, FunctionName

__all__ = ["instruction_set", "kernels"]


class _Kernels(Protocol):
    """A compiled kernel set, or the twins."""

    def sincos_pairs(self, angles: FloatArray, scale: float, out: FloatArray) -> None: ...

    def cosines(self, angles: FloatArray, phases: FloatArray, scale: float, out: FloatArray) -> None: ...

    def sign_hadamard(
        self,
        X: FloatArray,
        signs: FloatArray,
        out: FloatArray,
        radii: FloatArray | None = None,
        function: FunctionName = "identity",
        scale: float = 1.0,
        product: bool = False,
    ) -> None: ...

    def sign_hadamard_pairs(
        self, X: FloatArray, signs: FloatArray, radii: FloatArray, scale: float, out: FloatArray
    ) -> None: ...

    def butterfly(
        self,
        X: FloatArray,
        signs: FloatArray,
        order: NDArray[np.int64],
        multipliers: FloatArray,
        factors: FloatArray,
        out: FloatArray,
        radii: FloatArray | None = None,
        function: FunctionName = "identity",
        scale: float = 1.0,
        product: bool = False,
    ) -> None: ...

    def butterfly_pairs(
        self,
        X: FloatArray,
        signs: FloatArray,
        order: NDArray[np.int64],
        multipliers: FloatArray,
        factors: FloatArray,
        radii: FloatArray,
        scale: float,
        out: FloatArray,
    ) -> None: ...

    def dense(
        self,
        X: FloatArray,
        weights: FloatArray,
        out: FloatArray,
        function: FunctionName = "identity",
        scale: float = 1.0,
        product: bool = False,
    ) -> None: ...

    def dense_pairs(self, X: FloatArray, weights: FloatArray, scale: float, out: FloatArray) -> None: ...

    def dense_cosines(
        self, X: FloatArray, weights: FloatArray, phases: FloatArray, scale: float, out: FloatArray
    ) -> None: ...

    def sparse_product(
        self,
        starts: NDArray[np.int32],
        indices: NDArray[np.int32],
        values: FloatArray,
        X: FloatArray,
        out: FloatArray,
    ) -> None: ...


def _choose() -> tuple[str, _Kernels]:
    try:
        from mercer.linalg import _native
    except ImportError:
        return "numpy", twins
    best = _native.supported()[0]
    return best, getattr(_native, best)


_INSTRUCTION_SET, _KERNELS = _choose()
# Taken by the first use and never given back, so that threads cannot warn twice.
_FIRST_USE = threading.Lock()


def kernels() -> _Kernels:
    """Return the kernels in use; the first call says so if they are the twins."""
    if _INSTRUCTION_SET == "numpy" and _FIRST_USE.acquire(blocking=False):
        warnings.warn(
            "mercer: the compiled kernels are not installed; their NumPy twins serve, with equal results "
            "to rounding but several times slower. Install a C++ compiler and reinstall mercer.",
            RuntimeWarning,
            stacklevel=3,
        )
    return _KERNELS


def instruction_set() -> str:
    """Name the kernels in use.

    Returns
    -------
    str
        "avx512", "avx2" or "baseline" for compiled kernels, "numpy" for their twins.

    Examples
    --------
    >>> instruction_set() in {"avx512", "avx2", "baseline", "numpy"}
    True
    """
    return _INSTRUCTION_SET
