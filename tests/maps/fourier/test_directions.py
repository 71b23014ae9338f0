"""Dense directions: orthogonal blocks, unit lengths, simplices, and the range of Sobol points."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special
from scipy.stats import qmc

from mercer import ParameterError
from mercer.maps.fourier.directions import (
    DENSE_DIRECTIONS,
    DIRECTIONS,
    SOBOL_BITS,
    haar,
    simplex_products,
    sobol_normals,
)

from .. import instances

sizes = given(m=st.integers(1, 40), d=st.integers(1, 20), seed=st.integers(0, 2**32))


def test_every_name_is_in_the_list_of_designs():
    assert set(DIRECTIONS) == set(instances.DIRECTIONS)


@sizes
@pytest.mark.parametrize("name", DENSE_DIRECTIONS)
def test_blocks_add_up_and_directions_have_unit_length(name, m, d, seed):
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
def test_blocks_of_orthogonal_directions_are_orthonormal(m, d, seed):
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
    # With m >= d the columns are orthonormal, otherwise the rows.
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


def test_too_many_features_for_sobol_points_are_refused():
    with pytest.raises(ParameterError, match="directions='sobol' takes rows of at most 21200 features, got 21201"):
        sobol_normals(1, 21201, np.random.default_rng(0))


def vertices(d):
    """Return the simplex by the formulas of Munkhoeva et al. (2018), one vertex per column."""
    V = np.zeros((d, d + 1))
    for i in range(d):
        c = np.sqrt((d + 1) / (d * (d - i) * (d - i + 1)))
        V[i, i], V[i, i + 1 :] = (d - i) * c, -c
    return V


@pytest.mark.parametrize("d", [1, 2, 3, 5, 16, 100])
def test_the_simplex_is_regular_and_a_tight_frame(d):
    V = simplex_products(np.eye(d))
    gram = V.T @ V
    np.testing.assert_allclose(np.diagonal(gram), 1.0, rtol=1e-13)
    np.testing.assert_allclose(gram[~np.eye(d + 1, dtype=bool)], -1 / d, atol=1e-13)
    np.testing.assert_allclose(V.sum(axis=1), 0.0, atol=1e-13)
    np.testing.assert_allclose(V @ V.T, (d + 1) / d * np.eye(d), atol=1e-13)


@given(n=st.integers(0, 7), d=st.integers(1, 40), seed=st.integers(0, 2**32))
def test_products_with_the_simplex_are_those_of_its_matrix(n, d, seed):
    X = np.random.default_rng(seed).normal(size=(n, d))
    before = X.copy()
    np.testing.assert_allclose(simplex_products(X), X @ vertices(d), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(X, before)


@sizes
def test_blocks_of_simplex_directions_are_rotated_simplices(m, d, seed):
    directions = DENSE_DIRECTIONS["simplex"](m, d, np.random.default_rng(seed))
    assert directions.ambient == d
    assert directions.blocks == (d + 1,) * (m // (d + 1)) + ((m % (d + 1),) if m % (d + 1) else ())
    start = 0
    for size in directions.blocks:
        block = directions.vectors[start : start + size]
        np.testing.assert_allclose(block @ block.T, (d + 1) / d * np.eye(size) - 1 / d, atol=1e-12)
        start += size
