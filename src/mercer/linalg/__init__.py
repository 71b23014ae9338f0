"""Compiled inner loops of the feature maps, each with a reference implementation in NumPy.

Every function that computes features fills an array that the caller provides, and returns this array. It computes each
row independently of the other rows, in the dtype of its input. It runs on one thread and releases the interpreter lock.
"""

from mercer.linalg.butterfly_projections import ButterflyPlan, butterfly, butterfly_pairs, butterfly_plan
from mercer.linalg.dense_projections import dense, dense_cosines, dense_pairs
from mercer.linalg.dispatch import instruction_set
from mercer.linalg.hadamard_projections import sign_hadamard, sign_hadamard_pairs
from mercer.linalg.numpy_kernels import FunctionName
from mercer.linalg.sparse_products import sparse_product
from mercer.linalg.trigonometric import cosines, sincos_pairs

__all__ = [
    "ButterflyPlan",
    "FunctionName",
    "butterfly",
    "butterfly_pairs",
    "butterfly_plan",
    "cosines",
    "dense",
    "dense_cosines",
    "dense_pairs",
    "instruction_set",
    "sign_hadamard",
    "sign_hadamard_pairs",
    "sincos_pairs",
    "sparse_product",
]
