"""Decomposition of kernels into a constant and a weighted sum."""

from mercer import Chi2, Gaussian, Intersection, JensenShannon
from mercer.kernels.histogram import HomogeneousKernel
from mercer.maps.summands import weighted_sum


def test_constants_and_weights_are_collected():
    kernel = 2 * (0.5 + Chi2()) + 3.0 * Intersection() + JensenShannon()
    constant, leaves = weighted_sum(kernel, HomogeneousKernel)
    assert constant == 1.0
    assert leaves == [(2.0, Chi2()), (3.0, Intersection()), (1.0, JensenShannon())]


def test_other_kernels_and_constants_alone_have_no_such_sum():
    assert weighted_sum(Chi2() + Gaussian(), HomogeneousKernel) is None
    assert weighted_sum(1 + 0 * Gaussian(), HomogeneousKernel) is None
    assert weighted_sum(Gaussian() * Gaussian(), HomogeneousKernel) is None
