"""Compiled kernels, one set for each instruction set; call them through `mercer.linalg`."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mercer.linalg.twins import FloatArray

class _KernelSet(Protocol):
    def sincos_pairs(self, angles: FloatArray, scale: float, out: FloatArray) -> None: ...
    def cosines(self, angles: FloatArray, phases: FloatArray, scale: float, out: FloatArray) -> None: ...
    def sign_hadamard(self, X: FloatArray, signs: FloatArray, out: FloatArray) -> None: ...
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

baseline: _KernelSet
avx2: _KernelSet
avx512: _KernelSet

def supported() -> list[str]: ...
