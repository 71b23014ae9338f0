"""Integrals and quantiles of functions on the unit interval with singular ends and jumps."""

import numpy as np
import pytest
from scipy import stats

from mercer.kernels.quadrature import UnitDensity

UNIFORMS = np.linspace(0.01, 0.99, 99)


@pytest.mark.parametrize("exponent", [-2.0, 0.0, 0.3, 0.9, 0.99])
@pytest.mark.parametrize("right", [False, True])
def test_powers_of_the_distance_from_either_end(exponent, right):
    density = UnitDensity.of(lambda x: (1 - x if right else x) ** -exponent)
    assert density.total == pytest.approx(1 / (1 - exponent), rel=1e-7)
    distances, from_one = density.quantiles(1 - UNIFORMS if right else UNIFORMS)
    positions = np.where(from_one, 1 - distances, distances)
    expected = UNIFORMS ** (1 / (1 - exponent))
    # Next to one the position itself has no digits left; its distance from one has.
    near = np.where(from_one == right, distances, 1 - distances)
    np.testing.assert_allclose(near, expected, rtol=1e-5, atol=1e-12)
    np.testing.assert_allclose(density.values(distances, from_one), expected**-exponent, rtol=1e-4)
    assert ((positions >= 0) & (positions <= 1)).all()


@pytest.mark.parametrize("exponent", [1.0, 1.5, 20.0])
@pytest.mark.parametrize("right", [False, True])
def test_divergent_integrals_are_infinite(exponent, right):
    assert UnitDensity.of(lambda x: (1 - x if right else x) ** -exponent).total == np.inf


def test_an_integral_that_cannot_be_established_is_infinite():
    # 1 / (p log^2 p) has a finite integral near p = 0, but is not like a power of p.
    assert UnitDensity.of(lambda x: 1 / ((1 - x) * np.log(0.5 * (1 - x)) ** 2)).total == np.inf


@pytest.mark.parametrize("jump", [1e-6, 0.3, 0.5, 0.9999])
def test_jumps_are_located(jump):
    density = UnitDensity.of(lambda x: np.where(x < jump, 1.0, 4.0))
    total = jump + 4 * (1 - jump)
    assert density.total == pytest.approx(total, rel=1e-9)
    distances, right = density.quantiles(UNIFORMS)
    wanted = UNIFORMS * total
    expected = np.where(wanted < jump, wanted, jump + (wanted - jump) / 4)
    np.testing.assert_allclose(np.where(right, 1 - distances, distances), expected, rtol=1e-7)


def test_smooth_densities_have_the_quantiles_of_scipy():
    beta = stats.beta(2.5, 1.5)
    density = UnitDensity.of(beta.pdf)
    assert density.total == pytest.approx(1.0, rel=1e-9)
    distances, right = density.quantiles(UNIFORMS)
    np.testing.assert_allclose(np.where(right, 1 - distances, distances), beta.ppf(UNIFORMS), rtol=1e-8)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda x: x - 0.5, "numbers >= 0, got -"),
        (lambda x: np.where(x > 0.7, np.nan, 1.0), "numbers >= 0, got nan"),
        (lambda x: 1.0, "one number for each of"),
        (lambda x: x[:, None], "one number for each of"),
        (lambda x: x * 1j, "one number for each of"),
    ],
)
def test_other_functions_are_refused(function, text):
    with pytest.raises(ValueError, match=text):
        UnitDensity.of(function)
