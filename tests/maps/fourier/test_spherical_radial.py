"""Spherical-radial maps: weighted cosines and sines of their points, exact for quadratics, surely bounded."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from mercer import (
    DataError,
    Gaussian,
    KernelRidge,
    Laplacian,
    Matern,
    MercerWarning,
    NoClosedFormError,
    ParameterError,
    RandomFourier,
    RationalQuadratic,
    SphericalRadial,
    Transformed,
    UnsupportedKernelError,
)
from mercer.maps.fourier.projections import ButterflyProjection, DenseProjection, HadamardProjection
from mercer.maps.fourier.spherical_radial import isotropic_part, padded
from mercer.theory import quadrature_range

from ..instances import RULES

pytestmark = pytest.mark.covering(1)

COMPLETE = ("big_block", "orthogonal", "simplex", "butterfly", "hadamard")


def rows(seed, n=12, d=3):
    return np.random.default_rng(seed).normal(0.2, 1.0, size=(n, d))


def points_of(feature_map):
    """Return the frequencies (m, d) of a fitted map: the angles of the unit vectors."""
    d = feature_map.n_features_in_
    return feature_map.features_.astype(np.float64).projection(np.eye(d)).T


def complete_blocks(directions, d, blocks, **choices):
    """Return a map whose points are complete blocks for rows of width d, and the number of points per block."""
    ambient = d if d >= 3 else 4
    size = {"orthogonal": ambient, "simplex": ambient + 1, "big_block": 2 * ambient}.get(directions)
    if size is None:  # a power of two; butterflies as wide as all of their points, up to 64
        size = 1 << (ambient - 1).bit_length()
        blocks = 1 if directions == "butterfly" else blocks
    if directions == "big_block":
        blocks = 1
    n = 2 * size * blocks + (choices.get("constant") == "signed")
    return SphericalRadial(n_components=n, directions=directions, **choices), size


@given(
    n=st.integers(1, 30), d=st.integers(1, 9), seed=st.integers(0, 2**32),
    directions=st.sampled_from(RULES), constant=st.sampled_from(["drop", "signed", "resample"]),
)  # fmt: skip
def test_features_are_weighted_cosines_and_sines_of_their_points(n, d, seed, directions, constant):
    kernel, X = 2.5 * Matern(2.5, 0.7), rows(seed, d=d)
    m = SphericalRadial(kernel, n, directions=directions, constant=constant, random_state=seed).fit(X)
    features = m.features_
    kept = constant != "drop" and n > 1
    width = n - kept
    squares = np.square(features.amplitudes)
    angles = X @ points_of(m).T
    pairs = width // 2
    assert (features.phases[:pairs] == 0).all()
    angles[:, pairs:] += features.phases[pairs:]
    expected = np.hstack([np.cos(angles), np.sin(angles)[:, :pairs]]) * np.sqrt(
        np.concatenate([squares, squares[:pairs]])
    )
    np.testing.assert_allclose(m.transform(X)[:, kept:], expected, rtol=0, atol=1e-10 * max(1, np.sqrt(squares.max())))
    squares[pairs:] /= 2  # a cosine of random phase has no sine to share its square with
    assert 2.5 * (1 - m.constant_) == pytest.approx(squares.sum(), rel=1e-12)
    if kept:
        np.testing.assert_allclose(m.transform(X)[:, 0], np.sqrt(2.5 * abs(m.constant_)), rtol=1e-12)
        signed = np.concatenate([[-1.0], np.ones(width)]) if m.constant_ < 0 else None
        np.testing.assert_array_equal(m.signs_, signed)
    else:
        assert m.signs_ is None


@given(seed=st.integers(0, 2**32), n=st.sampled_from([1, 3, 7]), directions=st.sampled_from(RULES))
def test_a_quarter_turn_of_the_phase_averages_to_the_cosine(seed, n, directions):
    # 2 cos(a + p) cos(b + p), averaged over p and p + pi / 2, is cos(a - b): so any uniform phase is unbiased.
    X, Y = rows(seed), rows(seed + 1)
    m = SphericalRadial(Gaussian(), n, directions=directions, random_state=seed).fit(X)
    lags = (X - Y) @ points_of(m).T
    weights = np.square(m.features_.amplitudes)
    weights[-1] /= 2
    total = np.zeros(len(X))
    for turn in (0.0, 0.5 * np.pi):
        m.features_.phases[-1] += turn
        total += 0.5 * (m.transform(X) * m.transform(Y)).sum(axis=1)
    np.testing.assert_allclose(total, np.cos(lags) @ weights, rtol=0, atol=1e-10 * max(1, weights.max()))


@given(d=st.integers(1, 17), blocks=st.integers(1, 3), seed=st.integers(0, 2**32))
@pytest.mark.parametrize("directions", COMPLETE)
@pytest.mark.parametrize("radii", ["plain", "stratified"])
def test_complete_blocks_integrate_quadratics_without_error(directions, radii, d, blocks, seed):
    # In every draw the sum of a_j^2 w_j w_j' is E[w w'] of the spectral distribution; odd degrees vanish by symmetry.
    for kernel, moment in ((Gaussian(0.7), 0.7**-2), (3 * Matern(2.5), 3 * 2.5 / 1.5), (RationalQuadratic(1.2), 1.0)):
        m, _ = complete_blocks(directions, d, blocks, kernel=kernel, radii=radii, random_state=seed)
        W = points_of(m.fit(np.zeros((1, d))))
        frame = (W.T * np.square(m.features_.amplitudes)) @ W
        np.testing.assert_allclose(frame, moment * np.eye(d), rtol=0, atol=1e-9 * moment)


def test_independent_directions_and_cut_blocks_do_not_integrate_quadratics():
    for directions, n in (("iid", 40), ("orthogonal", 34)):
        m = SphericalRadial(Gaussian(), n, directions=directions, random_state=0).fit(np.zeros((1, 6)))
        W = points_of(m)
        assert np.abs((W.T * np.square(m.features_.amplitudes)) @ W - np.eye(6)).max() > 0.05


@given(
    d=st.integers(1, 17), blocks=st.integers(1, 3), seed=st.integers(0, 2**32), length=st.floats(1e-3, 30.0)
)  # fmt: skip
@pytest.mark.parametrize("directions", COMPLETE)
def test_every_draw_lies_in_its_interval(directions, d, blocks, seed, length):
    X, Y = rows(seed, d=d), rows(seed + 1, d=d)
    Y = X + length * (Y - X) / np.linalg.norm(Y - X, axis=1, keepdims=True)
    lower, upper = quadrature_range(length)
    m, _ = complete_blocks(
        directions, d, blocks, kernel=Gaussian(), radii="plain", constant="signed", random_state=seed
    )
    values = np.diagonal(m.fit(X).gram(X, Y))
    rounding = 1e-10 * (1 + abs(1 - m.constant_)) * max(1, length)  # large weights cancel
    assert (values >= lower - rounding).all()
    assert (values <= upper + rounding).all()
    np.testing.assert_allclose(np.diagonal(m.gram(X)), 1.0, atol=rounding)


@given(seed=st.integers(0, 2**32), kept=st.integers(1, 16), length=st.floats(1e-3, 30.0))
@pytest.mark.parametrize(("directions", "points"), [("big_block", 16), ("orthogonal", 16), ("simplex", 17)])
def test_draws_of_cut_blocks_lie_in_a_wider_interval(directions, points, seed, kept, length):
    m = SphericalRadial(Gaussian(), 2 * kept + 1, directions=directions, constant="signed", random_state=seed)
    X = np.zeros((1, 16))
    W = points_of(m.fit(X))
    # Along the points themselves the interval is used best.
    Y = length * np.concatenate([W / np.linalg.norm(W, axis=1, keepdims=True), np.eye(16)])
    lower, upper = quadrature_range(length, share=kept / points)
    values = m.gram(X, Y)
    assert (values >= lower - 1e-9 * (1 + length)).all()
    assert (values <= upper + 1e-9).all()
    if length < 0.05 and kept < points // 2:
        assert values.min() < quadrature_range(length)[0]  # outside the interval of complete blocks


def test_errors_at_small_distances_are_of_higher_order():
    X = rows(0, n=50, d=5)
    errors = {}
    for kind in (RandomFourier, SphericalRadial):
        Y = 0.03 * X
        choices = {"constant": "signed"} if kind is SphericalRadial else {}
        m = kind(Gaussian(), 201, random_state=0, **choices).fit(Y)
        errors[kind] = np.abs(m.gram(Y) - Gaussian()(Y)).max()
    assert errors[SphericalRadial] < 0.2 * errors[RandomFourier]


@pytest.mark.parametrize(
    ("directions", "kind"),
    [("butterfly", ButterflyProjection), ("hadamard", HadamardProjection), ("simplex", DenseProjection)],
)
@pytest.mark.parametrize("n", [12, 13, 131])
def test_the_fast_form_equals_the_dense_form(directions, kind, n):
    kernel = Transformed(2 * Gaussian(1.2), lengthscales=(0.5, 2.0, 1.0, 1.0, 3.0))
    X = rows(0, d=5)
    m = SphericalRadial(kernel, n, directions=directions, random_state=0).fit(X)
    assert isinstance(m.features_.projection, kind)
    dense = clone(m).fit(X)
    object.__setattr__(dense.features_, "projection", DenseProjection(np.ascontiguousarray(points_of(m).T)))
    np.testing.assert_allclose(m.transform(X), dense.transform(X), rtol=0, atol=1e-11)


@pytest.mark.parametrize("directions", ["auto", *RULES])
@pytest.mark.parametrize("d", [3, 40])
def test_features_do_not_depend_on_ignored_features_of_x(directions, d):
    kernel = Transformed(Gaussian(0.7), columns=(2, 1), lengthscales=(1.0, 2.0))
    m = SphericalRadial(kernel, 16, directions=directions, random_state=0).fit(rows(0, d=d))
    X = rows(1, d=d)
    Y = X + 10.0 * ~np.isin(np.arange(d), [1, 2])
    np.testing.assert_allclose(m.transform(Y), m.transform(X), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("d", "sparse", "chosen"), [(31, False, "big_block"), (32, False, "butterfly"), (32, True, "butterfly")]
)
def test_directions_are_chosen_by_width_and_not_by_sparsity(d, sparse, chosen):
    X = rows(0, d=d)
    assert SphericalRadial(Gaussian(), 8).fit(sp.csr_array(X) if sparse else X).directions_ == chosen


@pytest.mark.parametrize(("d", "ambient"), [(1, 4), (2, 4), (3, 3), (5, 5)])
def test_narrow_rows_are_padded_until_weights_have_a_finite_variance(d, ambient):
    directions = padded("orthogonal", 9, d, np.random.default_rng(0))
    assert directions.vectors.shape == (9, d)
    assert directions.ambient == ambient
    m = SphericalRadial(Gaussian(), 9, directions="butterfly", random_state=0).fit(np.zeros((1, d)))
    assert m.features_.projection.width == max(4, 1 << (d - 1).bit_length())


def test_a_constant_takes_one_exact_component():
    X = rows(0)
    m = SphericalRadial(2 + Gaussian() + 0.25, 9, random_state=0).fit(X)
    np.testing.assert_array_equal(m.transform(X)[:, 0], 1.5)
    np.testing.assert_allclose(m.transform(X)[:, 1:], SphericalRadial(Gaussian(), 8, random_state=0).fit_transform(X))
    both = SphericalRadial(2.25 + Gaussian(), 10, constant="signed", random_state=0).fit(X)
    np.testing.assert_allclose(both.transform(X)[0, :2], [1.5, np.sqrt(abs(both.constant_))])
    # With too few components for both, the constant of the kernel has priority.
    narrow = SphericalRadial(2.25 + Gaussian(), 2, constant="signed", random_state=0).fit(X)
    np.testing.assert_array_equal(narrow.transform(X)[:, 0], 1.5)


def test_a_single_component_is_the_constant_with_probability_its_share():
    X = rows(0)
    seen = {True: 0, False: 0}
    for seed in range(200):
        m = SphericalRadial(3 + Gaussian(), 1, random_state=seed).fit(X)
        Z = m.transform(X)
        constant = bool(np.ptp(Z) == 0)
        seen[constant] += 1
        if constant:
            np.testing.assert_allclose(Z, 2.0)
        else:
            plain = m.features_.amplitudes
            assert plain**2 == pytest.approx(2 * 4 * (1 - m.constant_))
    assert 110 < seen[True] < 185  # 150, and Hoeffding leaves less than 1e-3; the seeds are fixed


@pytest.mark.parametrize("nu", [1.0001, 1.01, 1.2])
def test_smoothness_next_to_one_has_frequencies_of_any_size_and_finite_features(nu):
    X = rows(0)
    for dtype in (np.float64, np.float32):
        Z = SphericalRadial(Matern(nu), 400, random_state=0).fit_transform(X.astype(dtype))
        assert Z.dtype == dtype
        assert np.isfinite(Z).all()


def test_radii_are_drawn_again_until_the_constant_is_not_negative():
    X = rows(0, d=5)
    constants = {}
    for constant in ("signed", "resample"):
        maps = [
            SphericalRadial(Gaussian(), 13, directions="simplex", radii="plain", constant=constant, random_state=s).fit(
                X
            )
            for s in range(40)
        ]
        constants[constant] = np.array([m.constant_ for m in maps])
        assert all((m.signs_ is not None) == (m.constant_ < 0) for m in maps)
    assert (constants["resample"] >= 0).all()
    assert (constants["signed"] < 0).any()
    # A draw that was good at once is the same.
    good = constants["signed"] >= 0
    np.testing.assert_array_equal(constants["resample"][good], constants["signed"][good])


def test_learners_refuse_signed_features_and_take_the_default():
    X = rows(0, n=40, d=5)
    seed = next(
        s
        for s in range(50)
        if SphericalRadial(Gaussian(), 13, constant="signed", random_state=s).fit(X).signs_ is not None
    )
    with pytest.raises(ParameterError, match=r"features of .* by SphericalRadial have signs"):
        KernelRidge(SphericalRadial(Gaussian(), 13, constant="signed", random_state=seed)).fit(X, X[:, 0])
    model = KernelRidge(SphericalRadial(Gaussian(3.0), 200, random_state=0), alpha=1e-3)
    assert model.fit(X, X[:, 0]).score(X, X[:, 0]) > 0.9


@pytest.mark.parametrize("directions", RULES)
def test_sparse_float32_and_pickled_maps_and_threads(directions):
    X = rows(0, n=30, d=5)
    m = SphericalRadial(2 + Gaussian(1.5), 14, directions=directions, random_state=3).fit(X)
    Z = m.transform(X)
    out = np.empty((30, 20))[:, 3:17]
    assert m.transform(X, out=out) is out
    np.testing.assert_array_equal(out, Z)
    np.testing.assert_allclose(m.transform(sp.csr_array(X)), Z, rtol=0, atol=1e-12)
    for jobs in (1, 2):
        np.testing.assert_array_equal(m.set_params(n_jobs=jobs).transform(X), Z)
    Z32 = m.transform(X.astype(np.float32))
    assert Z32.dtype == np.float32
    np.testing.assert_allclose(Z32, Z, atol=1e-4)
    np.testing.assert_array_equal(clone(m).fit(X).transform(X), Z)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(m)).transform(X), Z)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("directions", "directions must be one of 'auto', 'iid', 'orthogonal', 'big_block', 'simplex', "
                       "'butterfly', 'hadamard', got 'sobol'"),
        ("radii", "radii must be one of 'plain', 'stratified', got 'sobol'"),
        ("constant", "constant must be one of 'auto', 'signed', 'drop', 'resample', got 'sobol'"),
    ],
)  # fmt: skip
def test_unknown_choices_are_refused(name, text):
    with pytest.raises(ParameterError, match=f"SphericalRadial: {text}"):
        SphericalRadial(Gaussian(), 8, **{name: "sobol"}).fit(rows(0))


@pytest.mark.parametrize(
    "kernel", [Matern(0.5), Matern(1.0), Laplacian(), Gaussian() + Matern(2.5), Gaussian() * Gaussian(2.0)], ids=repr
)
def test_kernels_without_a_second_derivative_and_sums_and_products_are_refused(kernel):
    assert not SphericalRadial.accepts(kernel)
    with pytest.raises(
        UnsupportedKernelError, match="needs: one isotropic kernel with a second derivative at zero"
    ) as e:
        SphericalRadial(kernel, 8).fit(rows(0))
    assert "RandomFourier" in str(e.value)


def test_scaled_and_shifted_kernels_are_split_into_mass_factor_and_constant():
    mass, factor, offset = isotropic_part(0.5 + 3 * Transformed(Gaussian(2.0), lengthscales=(1.0, 2.0)) + 1)
    assert (mass, offset, factor.kernel) == (3.0, 1.5, Gaussian(2.0))
    assert isotropic_part(Laplacian()) is None
    for kernel in (Matern(np.inf), Matern(1.5), RationalQuadratic(), 0 * Gaussian()):
        assert SphericalRadial.accepts(kernel)
        assert np.isfinite(SphericalRadial(kernel, 9, random_state=0).fit_transform(rows(0))).all()


def test_rows_out_of_range_and_the_missing_closed_form_are_explained():
    m = SphericalRadial(Gaussian(1e-3), 6, random_state=0).fit(rows(0))
    with pytest.raises(DataError, match="overflow float32"):
        m.transform(np.full((2, 3), 3e38, dtype=np.float32))
    with pytest.raises(NoClosedFormError, match=r"SphericalRadial has no closed form .* mercer.audit"):
        m.variance(rows(0))


# ---- the constant of the rule ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "signed"),
    [
        (RationalQuadratic(0.3), True),
        (RationalQuadratic(1.0), True),
        (2.0 * RationalQuadratic(1.01, "median") + 1, True),
        (RationalQuadratic(1.5), False),
        (Gaussian(), False),
        (Matern(1.5), False),
        (Matern(25.0), False),
    ],
)
def test_the_constant_is_retained_if_the_weights_have_a_large_variance(kernel, signed):
    X = np.random.default_rng(0).normal(size=(60, 3))
    maps = [SphericalRadial(kernel, 40, random_state=seed).fit(X) for seed in range(8)]
    same = [
        SphericalRadial(kernel, 40, constant="signed" if signed else "drop", random_state=seed) for seed in range(8)
    ]
    if not signed:
        assert all(m.signs_ is None for m in maps)
    for one, two in zip(maps, same, strict=True):
        np.testing.assert_array_equal(one.transform(X), two.fit(X).transform(X))


def test_dropping_a_constant_that_keeps_the_variance_finite_warns():
    X = np.random.default_rng(0).normal(size=(60, 3))
    for kernel, text in ((RationalQuadratic(1.0), "infinite"), (RationalQuadratic(1.01), "101 times")):
        with pytest.warns(MercerWarning, match=rf"SphericalRadial: without the constant .* is {text}.*='signed'"):
            SphericalRadial(kernel, 40, constant="drop", random_state=0).fit(X)
    with pytest.warns(MercerWarning, match="at least 3 components"):
        SphericalRadial(RationalQuadratic(1.0), 1, random_state=0).fit(X)  # one component has no space for a constant
    SphericalRadial(RationalQuadratic(2.0), 40, constant="drop", random_state=0).fit(X)


def test_the_automatic_rule_has_less_error_for_a_kernel_with_a_long_tail():
    X, kernel = 3 * np.random.default_rng(0).normal(size=(80, 4)), RationalQuadratic(1.0, 3.0)
    exact, error = kernel(X), {}
    for constant in ("auto", "drop"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MercerWarning)
            grams = [SphericalRadial(kernel, 64, constant=constant, random_state=s).fit(X).gram(X) for s in range(60)]
        error[constant] = np.mean([np.square(gram - exact).mean() for gram in grams])
    assert error["auto"] < 0.5 * error["drop"]


def test_mean_of_the_inverse_mixing_distribution():
    for kernel, expected in ((RationalQuadratic(3.0), 1.5), (Matern(2.0), 1.0), (Gaussian(), 1.0)):
        r = np.linspace(0, 400, 400_001)
        assert (
            kernel.mean_inverse_mixing
            == expected
            == pytest.approx(float(np.trapezoid(r * kernel.profile(r), r)), rel=1e-4)
        )
    assert RationalQuadratic(1.0).mean_inverse_mixing == np.inf
