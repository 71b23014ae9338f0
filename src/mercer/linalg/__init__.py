"""The numeric floor: inner loops in compiled code, each beside the NumPy twin that defines it.

Every function fills an array that the caller provides, works row by row so that a row's result never
depends on the other rows, keeps float32, and runs on one thread with the interpreter lock released.
"""

from mercer.linalg.butterfly import ButterflyPlan, butterfly_plan
from mercer.linalg.dense_projections import dense, dense_cosines, dense_pairs
from mercer.linalg.dispatch import instruction_set
from mercer.linalg.sparse_products import sparse_product
from mercer.linalg.structured_projections import butterfly, butterfly_pairs, sign_hadamard, sign_hadamard_pairs
from mercer.linalg.trigonometric import cosines, sincos_pairs
from mercer.linalg.twins import FunctionName

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
