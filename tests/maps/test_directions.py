"""Directions: orthogonal where they say so, of unit length, uniform, and Sobol points in range."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special
from scipy.stats import qmc

from mercer import ParameterError
from mercer.maps.directions import (
    DENSE_DIRECTIONS,
    DIRECTIONS,
    SOBOL_BITS,
    haar,
    hadamard_signs,
    sobol_normals,
)

from . import instances

sizes = given(m=st.integers(1, 40), d=st.integers(1, 20), seed=st.integers(0, 2**32))


def test_every_name_is_in_the_list_of_designs():
    assert set(DIRECTIONS) == set(instances.DIRECTIONS)


@sizes
@pytest.mark.parametrize("name", DENSE_DIRECTIONS)
def test_shapes_add_up(name, m, d, seed):
    directions = DENSE_DIRECTIONS[name](m, d, np.random.default_rng(seed))
    assert directions.vectors.shape == (m, d)
    assert sum(directions.blocks) == m
    assert directions.ambient >= d
    lengths = np.linalg.norm(directions.vectors, axis=1)
    if directions.ambient == d:
        np.testing.assert_allclose(lengths, 1.0, rtol=1e-12)
    else:
        assert (lengths <= 1 + 1e-12).all()  # the coordinates cut off hold the rest


@sizes
def test_blocks_are_orthonormal(m, d, seed):
    directions = DENSE_DIRECTIONS["orthogonal"](m, d, np.random.default_rng(seed))
    start = 0
    for size in directions.blocks:
        block = directions.vectors[start : start + size]
        np.testing.assert_allclose(block @ block.T, np.eye(size), atol=1e-13)
        start += size
    assert max(directions.blocks) <= d


@sizes
def test_a_big_block_is_part_of_one_orthogonal_matrix(m, d, seed):
    directions = DENSE_DIRECTIONS["big_block"](m, d, np.random.default_rng(seed))
    assert directions.blocks == (m,)
    assert directions.ambient == max(m, d)
    V = directions.vectors
    # With m >= d it holds whole orthonormal columns, otherwise whole orthonormal rows.
    gram = V.T @ V if m >= d else V @ V.T
    np.testing.assert_allclose(gram, np.eye(min(m, d)), atol=1e-13)


def test_haar_has_orthonormal_columns():
    Q = haar(7, 4, np.random.default_rng(0))
    np.testing.assert_allclose(Q.T @ Q, np.eye(4), atol=1e-14)


@pytest.mark.parametrize(("m", "d"), [(1, 1), (2, 3), (7, 2), (64, 5)])
def test_sobol_points_are_the_scrambled_sequence_through_the_normal_quantile(m, d):
    normals, uniforms = sobol_normals(m, d, np.random.default_rng(3))
    assert normals.shape == (m, d)
    assert uniforms.shape == (m,)
    assert np.isfinite(normals).all()
    assert ((uniforms > 0) & (uniforms < 1)).all()
    points = qmc.Sobol(d + 1, bits=SOBOL_BITS, rng=np.random.default_rng(3)).random_base2(6)[:m]
    np.testing.assert_allclose(np.column_stack([special.ndtr(normals), uniforms]), points, atol=1e-12)


def test_sobol_points_fill_every_cell_once():
    normals, uniforms = sobol_normals(64, 3, np.random.default_rng(0))
    for column in (*special.ndtr(normals).T, uniforms):
        assert sorted((64 * column).astype(int)) == list(range(64))


def test_sobol_points_end_somewhere():
    with pytest.raises(ParameterError, match="directions='sobol' reaches up to 21200 columns, got 21201"):
        sobol_normals(1, 21201, np.random.default_rng(0))


@sizes
def test_signs_are_signs_and_pad_to_a_power_of_two(m, d, seed):
    signs = hadamard_signs(m, d, np.random.default_rng(seed))
    blocks, factors, ambient = signs.shape
    assert set(np.unique(signs)) <= {-1, 1}
    assert factors == 3
    assert d <= ambient < 2 * d or ambient == d == 1
    assert ambient & (ambient - 1) == 0
    assert (blocks - 1) * ambient < m <= blocks * ambient
