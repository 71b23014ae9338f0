"""Compiled kernels, one set for each instruction set; call them through `mercer.linalg`."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mercer.linalg.twins import FloatArray, FunctionName

class _KernelSet(Protocol):
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

baseline: _KernelSet
avx2: _KernelSet
avx512: _KernelSet

def supported() -> list[str]: ...
