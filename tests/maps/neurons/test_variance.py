"""Variances of random neurons, against means over all directions in one and two dimensions."""

import numpy as np
import pytest

from mercer.maps.neurons.expansion import radius
from mercer.maps.neurons.variance import NeuronVariances, even_moment, polynomial_part

ORDERS = (0, 1, 2)
PARITY = (np.sign, np.abs, lambda u: u * np.abs(u))
NEURON = (lambda u: 0.5 * (1 + np.sign(u)), lambda u: np.maximum(u, 0), lambda u: np.maximum(u, 0) ** 2)
X = np.array([[1.0, 0.0], [0.3, -2.0], [-1.5, 0.7]])
Y = np.array([[0.8, 0.6], [-1.0, 0.1]])


def over_all_directions(order, X, Y, directions):
    """Return the variances and the mean over the given directions, scaled to the norm of the neurons."""
    W = radius(order, X.shape[1]) * directions
    u, v = (X @ W.T)[:, None, :], (Y @ W.T)[None, :, :]
    p, phi = PARITY[order], NEURON[order]

    def variance(values):
        return values.var(axis=2)

    return (
        variance(p(u) * p(v)),
        variance(phi(u) * phi(v) + phi(-u) * phi(-v)),
        variance(phi(u) * phi(v)),
        np.mean((phi(u) + phi(v)) ** 2, axis=2),
    )


@pytest.mark.parametrize("order", ORDERS)
def test_variances_are_those_over_the_circle(order):
    angle = (np.arange(200_000) + 0.5) * 2 * np.pi / 200_000
    expected = over_all_directions(order, X, Y, np.column_stack([np.cos(angle), np.sin(angle)]))
    found = NeuronVariances.of(order, X, Y, 2)
    for one, other in zip((found.parity, found.pair, found.single, found.sum_of_two), expected, strict=True):
        assert other.max() > 0.1
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4)  # steps are between two of the angles


@pytest.mark.parametrize("order", ORDERS)
def test_variances_in_one_dimension_and_for_rows_of_zeros(order):
    rows, others = np.array([[1.0], [-2.0], [0.0]]), np.array([[0.5], [-1.0], [0.0]])
    expected = over_all_directions(order, rows, others, np.array([[1.0], [-1.0]]))
    found = NeuronVariances.of(order, rows, others, 1)
    for one, other in zip((found.parity, found.pair, found.single, found.sum_of_two), expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


@pytest.mark.parametrize("order", ORDERS)
def test_polynomials_are_moments_of_gaussian_weights(order):
    # Gauss-Hermite quadrature with enough nodes is exact for polynomials such as (uv)^2b.
    nodes, weights = np.polynomial.hermite_e.hermegauss(12)
    W = np.stack(np.meshgrid(nodes, nodes), axis=-1).reshape(-1, 2)
    mass = np.outer(weights, weights).ravel() / (2 * np.pi)
    u, v = (X @ W.T)[:, None, :], (Y @ W.T)[None, :, :]
    np.testing.assert_allclose(even_moment(order, X, Y), ((u * v) ** (2 * order)) @ mass, rtol=1e-12)
    # The part of u^b v^b that does not depend on the sign of the direction.
    np.testing.assert_allclose(polynomial_part(order, X, Y), 0.5 * ((u * v) ** order) @ mass, rtol=1e-12)
