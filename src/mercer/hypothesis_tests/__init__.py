"""Kernel two-sample (MMD) and independence (HSIC) tests on explicit features, with exact permutation p-values."""

from mercer.hypothesis_tests.hsic import hsic_test
from mercer.hypothesis_tests.mmd import mmd_test
from mercer.hypothesis_tests.permutation import PermutationTest

__all__ = ["PermutationTest", "hsic_test", "mmd_test"]
