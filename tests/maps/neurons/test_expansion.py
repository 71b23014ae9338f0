"""Exact part of arc-cosine kernels: limits in high dimension, and orthogonality to the remainder."""

import numpy as np
import pytest

from mercer.maps.neurons.expansion import Expansion, radius

ORDERS = (0, 1, 2)
EVEN_OR_ODD = (np.sign, np.abs, lambda u: u * np.abs(u))


def test_coefficients_in_high_dimension_are_the_maclaurin_coefficients_of_the_kernels():
    # In the limit, the expansion is in Hermite polynomials.
    for order, expected in ((0, (0.5, 1 / np.pi, 0)), (1, (1 / np.pi, 0.5, 0.5 / np.pi)), (2, (0.5, 4 / np.pi, 1))):
        low = Expansion.of("residual", order, 10**7)
        found = (low.constant + low.lengths, low.linear or 0, low.quadratic or 0)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("ambient", [2, 3, 4, 10, 300])
def test_remainder_is_orthogonal_to_the_subtracted_polynomial(ambient):
    # u / r is distributed like a coordinate of a uniform direction, with the Jacobi weight; quadrature over its angle.
    angle = (np.arange(200_000) + 0.5) * np.pi / 200_000
    weight = np.sin(angle) ** (ambient - 2)
    weight /= weight.sum()
    for order in ORDERS:
        u = radius(order, ambient) * np.cos(angle)
        p0, p1 = Expansion.of("residual", order, ambient).polynomial
        rest = EVEN_OR_ODD[order](u) - (p0 + p1 * u**2 if order == 1 else p1 * u)
        for power in (1,) if order != 1 else (0, 2):
            assert abs(weight @ (rest * u**power)) < 1e-7
