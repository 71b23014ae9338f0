"""Projections: radii, structured directions, frequencies as explicit matrices, and rows whose angles would overflow."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.linalg import hadamard

from mercer import DataError, Gaussian, Matern, RandomFourier, SphericalRadial, Transformed
from mercer.maps.fourier.directions import DIRECTIONS
from mercer.maps.fourier.projections import (
    BIASED,
    RADII,
    ButterflyProjection,
    DenseProjection,
    HadamardProjection,
    butterfly_rotations,
    check_range,
    chi_quantile,
    hadamard_signs,
)

from .. import instances

sizes = given(m=st.integers(1, 40), d=st.integers(1, 20), seed=st.integers(0, 2**32))


def rows(seed, n=9, d=3):
    return np.random.default_rng(seed).normal(size=(n, d))


def test_every_kind_of_radii_is_in_the_list_of_designs():
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
def test_quantiles_are_those_of_the_chi_distribution(degrees):
    uniforms = np.array([1e-300, 1e-9, 0.01, 0.3, 0.5, 0.9, 1 - 1e-9])
    np.testing.assert_allclose(chi_quantile(uniforms, degrees), stats.chi(degrees).ppf(uniforms), rtol=1e-8)
    np.testing.assert_allclose(
        stats.chi(degrees).cdf(chi_quantile(uniforms, degrees)), uniforms, rtol=1e-8, atol=1e-200
    )


@sizes
def test_hadamard_signs_are_padded_to_a_power_of_two(m, d, seed):
    signs = hadamard_signs(m, d, np.random.default_rng(seed))
    blocks, factors, ambient = signs.shape
    assert set(np.unique(signs)) <= {-1, 1}
    assert factors == 3
    assert d <= ambient < 2 * d or ambient == d == 1
    assert ambient & (ambient - 1) == 0
    assert (blocks - 1) * ambient < m <= blocks * ambient


@sizes
def test_butterfly_rotations_have_one_number_less_than_directions_per_block(m, d, seed):
    signs, rotations = butterfly_rotations(m, d, np.random.default_rng(seed))
    width = signs.shape[1]
    assert set(np.unique(signs)) <= {-1.0, 1.0}
    assert width >= d
    assert width & (width - 1) == 0
    for c, s in zip(rotations.cosines, rotations.sines, strict=True):
        np.testing.assert_allclose(c**2 + s**2, 1.0, atol=1e-14)
    blocks = -(-m // width)
    assert sum(c.size for c in rotations.cosines) == blocks * (width - 1)
    assert [c.shape[1] for c in rotations.cosines] == [width >> i for i in range(1, width.bit_length())] or width == 1


def test_biased_directions_are_known_by_name():
    assert set(BIASED) == {"hadamard"}
    assert set(BIASED) < set(DIRECTIONS)


def explicit(projection, d):
    """Return the frequencies (d, m) of sign-Hadamard products as a matrix, by scipy's Hadamard matrix."""
    ambient = projection.signs.shape[2]
    H = hadamard(ambient) / np.sqrt(ambient)
    blocks = []
    for signs in projection.signs.astype(float):
        block = np.eye(ambient)
        for s in signs:
            block = H @ (s[:, None] * block)
        blocks.append(block[:, :d])
    frequencies = projection.radii[:, None] * np.concatenate(blocks)[: len(projection.radii)]
    scale = 1.0 if projection.input_scale is None else projection.input_scale
    return (frequencies * scale).T


@given(
    n_components=st.integers(1, 50), d=st.integers(1, 20), form=st.sampled_from(["pairs", "phase", "complex"]),
    seed=st.integers(0, 2**32), transformed=st.booleans(),
)  # fmt: skip
def test_hadamard_features_are_those_of_explicit_frequencies(n_components, d, form, seed, transformed):
    kernel, X = 2.5 * Matern(1.5, 0.7), rows(seed, d=d)
    if transformed:
        kernel = Transformed(kernel, lengthscales=np.linspace(0.5, 2.0, d))
    m = RandomFourier(kernel, n_components, form=form, directions="hadamard", random_state=seed).fit(X)
    assert isinstance(m.features_.projection, HadamardProjection)
    angles = X @ explicit(m.features_.projection, d) + m.features_.phases
    cosines, sines = np.cos(angles), np.sin(angles)
    if form == "pairs":
        expected = np.hstack([cosines, sines])[:, :n_components] * np.sqrt(2.5 / (0.5 * n_components))
    elif form == "phase":
        expected = cosines * np.sqrt(2.5 / (0.5 * n_components))
    else:
        expected = (cosines - 1j * sines) * np.sqrt(2.5 / n_components)
    np.testing.assert_allclose(m.transform(X), expected, rtol=0, atol=1e-11)


def test_blocks_of_hadamard_frequencies_are_orthogonal():
    m = RandomFourier(Gaussian(), 2 * 24, directions="hadamard", random_state=0).fit(rows(0, d=8))
    W = explicit(m.features_.projection, 8)
    for start in range(0, 24, 8):
        gram = W[:, start : start + 8].T @ W[:, start : start + 8]
        np.testing.assert_allclose(gram, np.diag(np.diagonal(gram)), atol=1e-12 * gram.max())


def test_hadamard_features_do_not_depend_on_ignored_features_of_x():
    kernel = Transformed(Gaussian(0.7), columns=(4, 1))
    m = RandomFourier(kernel, 16, directions="hadamard", random_state=0).fit(rows(0, d=6))
    X = rows(1, d=6)
    Y = X + 100.0 * np.isin(np.arange(6), [0, 2, 3, 5])
    np.testing.assert_allclose(m.transform(Y), m.transform(X), atol=1e-10)


@pytest.mark.parametrize("directions", ["orthogonal", "hadamard"])
def test_the_gain_bounds_every_angle(directions):
    m = RandomFourier(Matern(0.5), 40, directions=directions, random_state=0).fit(rows(0, d=5))
    projection = m.features_.astype(np.float64).projection
    X = np.sign(rows(1, n=500, d=5))
    largest = np.abs(projection(X)).max()
    assert projection.gain / 16 <= largest <= projection.gain * (1 + 1e-12)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_rows_whose_angles_would_overflow_are_refused(kind):
    projection = DenseProjection(np.full((2, 3), 10.0, dtype=np.float32))
    limit = float(np.finfo(np.float32).max) / 4 / 20
    check_range(projection, kind(np.array([[0.99 * limit, 0.0]], dtype=np.float32)))
    with pytest.raises(DataError, match=r"whose angles would overflow float32: needed \|x\| <= .*StandardScaler"):
        check_range(projection, kind(np.array([[1.01 * limit, 0.0]], dtype=np.float32)))
    check_range(projection.astype(np.float64), kind(np.array([[1e39, 0.0]])))
    check_range(projection, sp.csr_array((1, 2), dtype=np.float32))


@pytest.mark.parametrize("directions", ["iid", "hadamard"])
@pytest.mark.parametrize("form", ["pairs", "phase", "complex"])
def test_values_that_overflow_float32_are_refused_in_float32_only(directions, form):
    m = RandomFourier(Gaussian(1e-3), 6, form=form, directions=directions, random_state=0).fit(rows(0))
    X = np.full((2, 3), 3e38, dtype=np.float32)
    with pytest.raises(DataError, match="overflow float32"):
        m.transform(X)
    assert np.isfinite(m.transform(X.astype(np.float64))).all()
    assert np.isfinite(m.transform(np.full((2, 3), 1e200))).all()


def butterfly_map(n=2 * 256, d=128, kind=RandomFourier, **choices):
    return kind(Gaussian(), n, directions="butterfly", random_state=0, **choices).fit(np.zeros((1, d)))


def dense_butterflies(projection, d):
    """Return the frequencies (d, m) of butterflies as a matrix, node by node from the recursion of Munkhoeva et al."""
    P, rotations = projection.width, projection.rotations
    H = hadamard(P) / np.sqrt(P)
    mixing = projection.signs[1][:, None] * H * projection.signs[0]
    blocks = []
    for b in range(len(rotations.cosines[0])):
        B = np.eye(P)
        for level, (c, s) in enumerate(zip(rotations.cosines, rotations.sines, strict=True)):
            half, factor = 1 << level, np.eye(P)
            for node in range(P // (2 * half)):
                first = np.arange(half) + 2 * half * node
                factor[first, first] = factor[first + half, first + half] = c[b, node]
                factor[first, first + half], factor[first + half, first] = -s[b, node], s[b, node]
            B = B @ factor
        blocks.append(B.T @ mixing)
    scale = 1.0 if projection.input_scale is None else projection.input_scale
    return (projection.radii[:, None] * np.concatenate(blocks)[: len(projection.radii), :d] * scale).T


@pytest.mark.parametrize("kind", [RandomFourier, SphericalRadial])
@pytest.mark.parametrize(("n", "d"), [(2, 1), (12, 3), (64, 16), (300, 70)])
def test_butterflies_are_those_of_explicit_frequencies(kind, n, d):
    kernel = Transformed(Gaussian(1.5), lengthscales=np.linspace(0.5, 2.0, d))
    m = kind(kernel, n, directions="butterfly", random_state=0).fit(np.zeros((1, d)))
    projection = m.features_.projection
    assert isinstance(projection, ButterflyProjection)
    X = rows(0, d=d)
    np.testing.assert_allclose(projection(X), X @ dense_butterflies(projection, d), rtol=0, atol=1e-11)


@pytest.mark.parametrize("kind", [RandomFourier, SphericalRadial])
def test_the_pickle_of_butterflies_is_linear_in_the_number_of_components(kind):
    # m frequencies have m rotations, m radii and phases: five numbers per component. A plan has log2 P more.
    for d, m in ((128, 512), (512, 2048)):
        size = len(pickle.dumps(butterfly_map(2 * m, d, kind).features_))
        assert size < 8 * (5 * m + 2 * d) + 4000
        dense = len(
            pickle.dumps(kind(Gaussian(), 2 * m, directions="iid", random_state=0).fit(np.zeros((1, d))).features_)
        )
        assert dense > d / 8 * size


@pytest.mark.parametrize("kind", [RandomFourier, SphericalRadial])
def test_the_plan_is_made_once_per_dtype_and_not_pickled(kind):
    m = butterfly_map(kind=kind)
    projection = m.features_.projection
    before = pickle.dumps(m.features_)
    assert "plan" not in projection.__dict__
    X = rows(0, d=128)
    Z, Z32 = m.transform(X), m.transform(X.astype(np.float32))
    assert "plan" in projection.__dict__
    assert projection.astype(np.float64) is projection
    cast = projection.astype(np.float32)
    assert projection.astype(np.float32) is cast
    assert cast.plan.factors.dtype == np.float32
    assert projection.plan.factors.dtype == np.float64
    after = pickle.dumps(m.features_)
    assert len(after) == len(before)
    again = pickle.loads(after)
    out = np.empty_like(Z)
    again(X, out)
    np.testing.assert_array_equal(out, Z)
    out32 = np.empty_like(Z32)
    again.astype(np.float32)(X.astype(np.float32), out32)
    np.testing.assert_array_equal(out32, Z32)
