"""The exact part of arc-cosine kernels: limits in high dimension, and orthogonality to what is left."""

import numpy as np
import pytest

from mercer.maps.neurons.expansion import Expansion, radius

ORDERS = (0, 1, 2)
EVEN_OR_ODD = (np.sign, np.abs, lambda u: u * np.abs(u))


def test_low_degrees_in_high_dimension_are_the_maclaurin_coefficients_of_the_kernels():
    # Hermite polynomials in the limit: coefficients of t in arc-cosine kernels of rows of unit length.
    for order, expected in ((0, (0.5, 1 / np.pi, 0)), (1, (1 / np.pi, 0.5, 0.5 / np.pi)), (2, (0.5, 4 / np.pi, 1))):
        low = Expansion.of("residual", order, 10**7)
        found = (low.constant + low.lengths, low.linear or 0, low.quadratic or 0)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("ambient", [2, 3, 4, 10, 300])
def test_what_is_left_of_the_neurons_is_orthogonal_to_what_was_taken_out(ambient):
    # The law of u / r is that of a coordinate of a uniform direction: Jacobi's weight, by quadrature in its angle.
    angle = (np.arange(200_000) + 0.5) * np.pi / 200_000
    weight = np.sin(angle) ** (ambient - 2)
    weight /= weight.sum()
    for order in ORDERS:
        u = radius(order, ambient) * np.cos(angle)
        p0, p1 = Expansion.of("residual", order, ambient).polynomial
        rest = EVEN_OR_ODD[order](u) - (p0 + p1 * u**2 if order == 1 else p1 * u)
        for power in (1,) if order != 1 else (0, 2):
            assert abs(weight @ (rest * u**power)) < 1e-7
