"""Radii: uniform numbers in every cell once, and the quantiles of the chi law."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mercer.maps.fourier.radii import RADII, chi_quantile

from .. import instances


def test_every_name_is_in_the_list_of_designs():
    assert set(RADII) == set(instances.RADII)


@given(m=st.integers(0, 200), seed=st.integers(0, 2**32))
def test_stratified_numbers_fill_every_cell_once(m, seed):
    uniforms = RADII["stratified"](m, np.random.default_rng(seed))
    assert sorted(np.floor(m * uniforms).astype(int)) == list(range(m))


def test_stratified_numbers_come_in_random_order():
    rng = np.random.default_rng(0)
    first = [RADII["stratified"](8, rng)[0] for _ in range(200)]
    # 200 draws from 8 cells miss one of them with probability below 8 (7/8)^200 = 2e-11.
    assert set(np.floor(8 * np.array(first)).astype(int)) == set(range(8))


def test_plain_numbers_do_not_fill_every_cell():
    uniforms = RADII["plain"](100, np.random.default_rng(0))
    # 100 numbers fill 100 cells once with probability 100! / 100^100 < 1e-42.
    assert len(set(np.floor(100 * uniforms))) < 100


@pytest.mark.parametrize("degrees", [1, 2, 5, 64, 1000])
def test_quantiles_are_those_of_the_chi_law(degrees):
    uniforms = np.array([1e-300, 1e-9, 0.01, 0.3, 0.5, 0.9, 1 - 1e-9])
    np.testing.assert_allclose(chi_quantile(uniforms, degrees), stats.chi(degrees).ppf(uniforms), rtol=1e-8)
    np.testing.assert_allclose(
        stats.chi(degrees).cdf(chi_quantile(uniforms, degrees)), uniforms, rtol=1e-8, atol=1e-200
    )
