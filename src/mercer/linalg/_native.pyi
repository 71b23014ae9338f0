"""Compiled kernels, one submodule per instruction set; call them through `mercer.linalg`."""

from mercer.linalg import numpy_kernels

# Every submodule has the functions of `numpy_kernels`, with the same signatures.
baseline = numpy_kernels
avx2 = numpy_kernels
avx512 = numpy_kernels

def supported() -> list[str]: ...
