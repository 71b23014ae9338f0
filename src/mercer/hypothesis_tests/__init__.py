"""Kernel tests on explicit features: samples, independence, conditional independence, goodness of fit, drift."""

from mercer.hypothesis_tests.classes import HSIC, MMD, ConditionalIndependence
from mercer.hypothesis_tests.drift import DriftMonitor, DriftState
from mercer.hypothesis_tests.given.independence import ConditionalIndependenceTest, conditional_independence_test
from mercer.hypothesis_tests.hsic import hsic_test
from mercer.hypothesis_tests.mmd import mmd_test
from mercer.hypothesis_tests.permutation import PermutationTest
from mercer.hypothesis_tests.samples import goodness_of_fit_test, k_sample_test, paired_test

__all__ = [
    "HSIC",
    "MMD",
    "ConditionalIndependence",
    "ConditionalIndependenceTest",
    "DriftMonitor",
    "DriftState",
    "PermutationTest",
    "conditional_independence_test",
    "goodness_of_fit_test",
    "hsic_test",
    "k_sample_test",
    "mmd_test",
    "paired_test",
]
