"""Random Fourier features: forms, widths, constants, closed-form variances, and what they refuse."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from mercer import (
    Cauchy,
    Constant,
    DataError,
    ExponentialDotProduct,
    Gaussian,
    Laplacian,
    Matern,
    NoClosedFormError,
    ParameterError,
    Polynomial,
    RandomFourier,
    RationalQuadratic,
    Transformed,
    UnsupportedKernelError,
)

from ..instances import DENSE, DESIGNS, DIRECTIONS, FORMS, KERNEL, name_of

pytestmark = pytest.mark.covering(1)


def rows(seed, n=12, d=3):
    return np.random.default_rng(seed).normal(size=(n, d))


def weights_of(feature_map):
    return feature_map.features_.projection.weights


@given(n=st.integers(1, 30), seed=st.integers(0, 2**32), directions=st.sampled_from(DENSE))
def test_features_are_the_cosines_and_sines_of_their_frequencies(n, seed, directions):
    X, mass = rows(seed), 2.5
    for form in FORMS:
        m = RandomFourier(mass * Laplacian(), n, form=form, directions=directions, random_state=seed).fit(X)
        angles = X @ weights_of(m) + m.features_.phases
        cosines, sines = np.cos(angles), np.sin(angles)
        if form == "pairs":
            expected = np.sqrt(2 * mass / n) * np.hstack([cosines, sines])[:, :n]
        elif form == "phase":
            expected = np.sqrt(2 * mass / n) * cosines
        else:
            expected = np.sqrt(mass / n) * (cosines - 1j * sines)
        # Laplacian frequencies are heavy-tailed: cosines of angles of size A are off by A times the roundoff.
        tolerance = 1e-12 * (1 + np.abs(angles).max())
        np.testing.assert_allclose(m.transform(X), expected, rtol=0, atol=tolerance)


@given(seed=st.integers(0, 2**32), m=st.integers(1, 12), directions=st.sampled_from(DENSE))
def test_forms_share_the_frequencies(seed, m, directions):
    kernel, X = Gaussian() + 2 * Cauchy(), rows(seed)
    pairs = RandomFourier(kernel, 2 * m, directions=directions, random_state=seed).fit(X)
    for form in ("phase", "complex"):
        other = RandomFourier(kernel, m, form=form, directions=directions, random_state=seed).fit(X)
        np.testing.assert_array_equal(weights_of(other), weights_of(pairs))
    assert np.allclose(other.gram(X), pairs.gram(X), atol=1e-12)
    odd = RandomFourier(kernel, 2 * m - 1, directions=directions, random_state=seed).fit(X)
    np.testing.assert_array_equal(weights_of(odd), weights_of(pairs))


@pytest.mark.parametrize("design", [d for d in DESIGNS if d["form"] != "phase"], ids=name_of)
def test_pairs_and_complex_features_have_an_exact_diagonal(design):
    m = RandomFourier(0.5 + 3 * Gaussian(), 41, **design, random_state=0).fit(rows(0))
    np.testing.assert_allclose(np.diagonal(m.gram(rows(1))), 3.5, rtol=1e-12)
    odd = RandomFourier(3 * Gaussian(), 41, **design, random_state=0).fit(rows(0))
    exact = np.allclose(np.diagonal(odd.gram(rows(1))), 3.0, rtol=1e-12)
    assert exact == (design["form"] == "complex")  # an unpaired cosine gives it away


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("directions", DIRECTIONS)
def test_a_constant_takes_one_exact_component(form, directions):
    X = rows(0)
    m = RandomFourier(2 + Gaussian() + 0.25, 8, form=form, directions=directions, random_state=0).fit(X)
    np.testing.assert_array_equal(m.transform(X)[:, 0], 1.5)
    constant = RandomFourier(Constant(4.0), 5, form=form, directions=directions, random_state=0).fit(X)
    np.testing.assert_array_equal(constant.transform(X), np.array([[2.0, 0, 0, 0, 0]] * len(X)))
    zero = RandomFourier(0 * Gaussian(), 3, form=form, directions=directions, random_state=0).fit(X)
    np.testing.assert_array_equal(zero.transform(X), 0.0)


@pytest.mark.parametrize("directions", DIRECTIONS)
def test_a_single_component_is_enough_for_a_constant_and_a_kernel(directions):
    m = RandomFourier(1 + Gaussian(), 1, directions=directions, random_state=0).fit(rows(0))
    assert m.transform(rows(0)).shape == (12, 1)


@pytest.mark.parametrize("directions", ["orthogonal", "big_block", "sobol"])
def test_frequencies_of_a_sum_are_allocated_by_mass(directions):
    kernel = 3 * Transformed(Gaussian(), columns=(0,)) + Transformed(Gaussian(), columns=(1,))
    for seed in range(5):
        m = RandomFourier(kernel, 2 * 41, directions=directions, random_state=seed).fit(rows(0, d=2))
        counts = (weights_of(m) != 0).sum(axis=1)
        assert counts.sum() == 41
        assert abs(counts[0] - 0.75 * 41) <= 1


def test_ignored_features_of_x_have_frequency_zero():
    m = RandomFourier(Transformed(Laplacian(), columns=(3, 1)), 20, random_state=0).fit(rows(0, d=5))
    weights = weights_of(m)
    np.testing.assert_array_equal(weights[[0, 2, 4]], 0.0)
    assert (weights[[1, 3]] != 0).all()


POLYNOMIAL_MAPS = "RandomMaclaurin, TensorSketch, PolynomialSketch, Nystroem"


@pytest.mark.parametrize(
    ("kernel", "got", "others"),
    [
        (Polynomial(2), "a dot-product kernel, k(x, y) = f(x . y)", POLYNOMIAL_MAPS),
        (Gaussian() + ExponentialDotProduct(), "a sum of kernels", "RandomMaclaurin, SumMap, Nystroem"),
        (
            ExponentialDotProduct() @ Polynomial(2),
            "a composition, k(x, y) = f(k'(x, y))",
            "RandomMaclaurin, CompositionMap, Nystroem",
        ),
    ],
    ids=repr,
)
def test_kernels_without_a_spectrum_are_refused(kernel, got, others):
    with pytest.raises(UnsupportedKernelError) as error:
        RandomFourier(kernel, 4).fit(rows(0))
    assert str(error.value).splitlines() == [
        f"RandomFourier cannot approximate {kernel!r}.",
        "  needs: a shift-invariant kernel, k(x, y) = f(x - y), or a sum or product of such",
        f"  got:   {got}",
        f"  try:   {others}",
    ]


@pytest.mark.parametrize(
    "kernel",
    [
        Laplacian(),
        Cauchy() + Gaussian(),
        Gaussian() * Matern(),
        Gaussian() + Transformed(Gaussian(), columns=(0,)),
    ],
    ids=repr,
)
@pytest.mark.parametrize("directions", ["butterfly", "hadamard"])
def test_structured_directions_refuse_kernels_that_are_not_isotropic(directions, kernel):
    with pytest.raises(UnsupportedKernelError, match=f"directions='{directions}' cannot approximate") as error:
        RandomFourier(kernel, 4, directions=directions).fit(rows(0))
    assert "needs: a sum of isotropic kernels of the same inputs" in str(error.value)
    assert "try:   directions='big_block'" in str(error.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("form", "form must be one of 'pairs', 'phase', 'complex', got 'cosine'"),
        (
            "directions",
            "directions must be one of 'auto', 'iid', 'orthogonal', 'big_block', 'simplex', "
            "'sobol', 'butterfly', 'hadamard', got",
        ),
        ("radii", "radii must be one of 'plain', 'stratified', got 'cosine'"),
    ],
)
def test_unknown_choices_are_refused(name, text):
    with pytest.raises(ParameterError, match=f"RandomFourier: {text}"):
        RandomFourier(Gaussian(), 4, **{name: "cosine"}).fit(rows(0))


def test_a_kernel_that_does_not_fit_the_rows_is_refused_by_fit():
    with pytest.raises(DataError, match="columns has the index 3, but the rows have 3 features"):
        RandomFourier(Transformed(Gaussian(), columns=(3,)), 4).fit(rows(0))


def test_unbiased_gives_the_reason_of_a_bias():
    biased = {
        "hadamard": "uniform on the sphere only in the limit",
    }
    for directions in DIRECTIONS:
        reason = RandomFourier(Gaussian(), directions=directions).unbiased
        assert biased[directions] in reason if directions in biased else reason is True


# m times the variance at |delta| = .5, 1, 2, 3 for d = 16 and m = 256 frequencies. The first row is exact to its
# digits; the others were measured on draws, to about one percent.
@pytest.mark.parametrize(
    ("directions", "table", "relative"),
    [
        ("iid", [0.0245, 0.200, 0.482, 0.500], 2e-3),
        ("orthogonal", [0.0037, 0.0312, 0.320, 0.501], 0.015),
        ("big_block", [0.00036], 0.015),
    ],
)
def test_variances_agree_with_measured_values(directions, table, relative):
    lags = np.zeros((len(table), 16))
    lags[:, 0] = [0.5, 1.0, 2.0, 3.0][: len(table)]
    m = RandomFourier(Gaussian(), 512, directions=directions, random_state=0).fit(lags)
    np.testing.assert_allclose(256 * m.variance(lags, np.zeros((1, 16)))[:, 0], table, rtol=relative)


def test_variance_of_iid_gaussian_pairs_is_the_textbook_formula():
    X = rows(0)
    k = Gaussian()(X)
    m = RandomFourier(Gaussian(), 10, directions="iid").fit(X)
    np.testing.assert_allclose(m.variance(X), (1 - k**2) ** 2 / 10, atol=1e-15)
    twice = RandomFourier(2 * Gaussian(), 10, directions="iid").fit(X)
    np.testing.assert_allclose(twice.variance(X), 4 * m.variance(X), atol=1e-15)
    shifted = RandomFourier(3 + Gaussian(), 11, directions="iid").fit(X)
    np.testing.assert_allclose(shifted.variance(X), m.variance(X), atol=1e-12)


@pytest.mark.parametrize("directions", ["iid", "orthogonal", "big_block"])
@pytest.mark.parametrize("form", FORMS)
def test_variance_is_zero_on_an_exact_diagonal_only(form, directions):
    X = rows(0)
    for n in (8, 9):
        m = RandomFourier(Gaussian(), n, form=form, directions=directions).fit(X)
        exact = form == "complex" or (form == "pairs" and n % 2 == 0)
        diagonal = np.diagonal(m.variance(X))
        assert (np.abs(diagonal) < 1e-12).all() if exact else (diagonal > 1e-3).all()


def test_variance_takes_the_rows_that_a_kernel_takes():
    X, Y = rows(0), rows(1, n=4)
    m = RandomFourier(Gaussian(), 8, random_state=0).fit(X)
    expected = m.variance(X, Y)
    np.testing.assert_allclose(m.variance(X.tolist(), Y), expected, rtol=1e-12)
    np.testing.assert_allclose(m.variance(X.astype(np.float32), Y.astype(np.float32)), expected, atol=1e-6)
    assert m.variance(X).shape == (12, 12)
    with pytest.raises(ValueError, match=r"X has 4 features, but RandomFourier is expecting 3|expects rows of width 3"):
        m.variance(rows(0, d=4))


@pytest.mark.parametrize(
    ("kernel", "choices"),
    [
        (Matern(), {"directions": "orthogonal"}),
        (Gaussian() + Gaussian(2.0), {"directions": "orthogonal"}),
        (Gaussian() * Gaussian(2.0), {"directions": "big_block"}),
        (Gaussian(), {"directions": "sobol"}),
        (Gaussian(), {"directions": "hadamard"}),
        (Gaussian(), {"directions": "butterfly"}),
        (Gaussian(), {"directions": "simplex"}),
        (Gaussian(), {"directions": "iid", "radii": "stratified"}),
    ],
)
def test_the_error_for_no_closed_form_names_the_designs_that_have_one(kernel, choices):
    m = RandomFourier(kernel, 8, **choices, random_state=0).fit(rows(0))
    with pytest.raises(NoClosedFormError, match="No closed form is known for the variance of") as error:
        m.variance(rows(0))
    assert repr(kernel) in str(error.value)
    assert f"directions={m.directions!r} and radii={m.radii!r}" in str(error.value)
    assert "needs: radii='plain' with directions='iid', or 'orthogonal' or 'big_block' for one Gaussian" in str(
        error.value
    )
    assert "try:   mercer.audit(feature_map, X)" in str(error.value)


def test_matern_of_infinite_smoothness_and_scaled_inputs_count_as_gaussian():
    X = rows(0)
    plain = RandomFourier(Gaussian(2.0), 9, random_state=0).fit(X).variance(X)
    same = [
        Matern(np.inf, 2.0),
        1.0 * Gaussian(2.0),
        Transformed(Gaussian(), lengthscales=(2.0, 2.0, 2.0)),
        Transformed(RationalQuadratic(1e12, 2.0), columns=(0, 1, 2)),
    ]
    for kernel in same[:3]:
        variance = RandomFourier(kernel, 9, random_state=0).fit(X).variance(X)
        np.testing.assert_allclose(variance, plain, atol=1e-14)
    with pytest.raises(NoClosedFormError):
        RandomFourier(same[3], 9, random_state=0).fit(X).variance(X)


@pytest.mark.parametrize(
    ("kernel", "d", "chosen"),
    [
        (Gaussian(), 31, "big_block"),
        (Gaussian(), 32, "butterfly"),
        (1 + Gaussian() + 2 * Matern(), 100, "butterfly"),
        (Laplacian(), 100, "big_block"),
        (Gaussian() * Matern(), 100, "big_block"),
    ],
)
def test_automatic_directions_are_reported(kernel, d, chosen):
    m = RandomFourier(kernel, 32, random_state=0).fit(np.zeros((1, d)))
    assert m.directions_ == chosen
    explicit = RandomFourier(kernel, 32, directions=chosen, random_state=0).fit(np.zeros((1, d)))
    X = np.random.default_rng(0).normal(size=(5, d))
    assert np.array_equal(m.transform(X), explicit.transform(X))


def test_out_is_filled_and_checked():
    m = RandomFourier(KERNEL, 6, random_state=0).fit(rows(0))
    X = rows(1)
    buffer = np.full((len(X), 8), 7.0)
    assert m.transform(X, out=buffer[:, :6]).base is buffer
    np.testing.assert_array_equal(buffer[:, :6], m.transform(X))
    assert (buffer[:, 6:] == 7).all()
    for bad in (np.empty((len(X), 5)), np.empty((len(X), 6), np.float32), np.empty((6, len(X))).T):
        with pytest.raises(
            ParameterError,
            match=r"RandomFourier: out must be a writable, aligned array of shape \(\d+, 6\) and dtype float64",
        ):
            m.transform(X, out=bad)


def test_a_seed_of_the_data_is_not_the_seed_of_the_map():
    # Big blocks are made of normal numbers: were they those of the data, the frequencies would span them row by row.
    X = np.random.default_rng(0).standard_normal((64, 16))
    m = RandomFourier(Gaussian(), 128, directions="big_block", random_state=0).fit(X)
    lengths = np.linalg.norm(weights_of(m), axis=0)
    cosines = np.abs(np.einsum("ij,ji->i", X / np.linalg.norm(X, axis=1, keepdims=True), weights_of(m) / lengths))
    # The cosine of two independent directions of R^16 is 0.2 on average; of a normal row and its own part of Q, near 1.
    assert cosines.mean() < 0.5


def test_variance_and_bias_of_a_fitted_map_are_those_of_its_draw():
    X = rows(0)
    m = RandomFourier(KERNEL, 64, directions="hadamard", random_state=0).fit(X).set_params(directions="iid")
    assert m.unbiased is not True
    m = RandomFourier(KERNEL, 64, directions="iid", random_state=0).fit(X)
    before = m.variance(X)
    m.set_params(n_components=6400, form="phase", radii="stratified", directions="sobol")
    np.testing.assert_array_equal(m.variance(X), before)


def test_wide_sparse_rows_stay_sparse():
    # Up to the width at which butterflies pay off, directions do not depend on sparsity: equal seeds, equal maps.
    for d, directions in ((3000, "butterfly"), (40_000, "big_block")):
        X = sp.random_array((20, d), density=30 / d, rng=np.random.default_rng(0), format="csr")
        for rows_ in (X, X[:1].toarray()):
            assert RandomFourier(Gaussian(3.0), 16, random_state=0).fit(rows_).directions_ == directions


def test_a_failed_fit_changes_nothing():
    X = rows(0)
    fresh = RandomFourier(Polynomial(), 8)
    with pytest.raises(UnsupportedKernelError):
        fresh.fit(X)
    with pytest.raises(NotFittedError):
        fresh.transform(X)
    fitted = RandomFourier(KERNEL, 8, random_state=0).fit(X)
    expected = fitted.transform(X)
    with pytest.raises(UnsupportedKernelError):
        fitted.set_params(kernel=Polynomial()).fit(np.zeros((5, 7)))
    np.testing.assert_array_equal(fitted.transform(X), expected)


def test_nested_parameters_need_a_kernel_first():
    with pytest.raises(ParameterError, match="kernel__lengthscale cannot be set while kernel is None"):
        RandomFourier().set_params(kernel__lengthscale=2.0)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(("bad", "text"), [(np.nan, "Input X contains NaN"), (-np.inf, "Input X contains infinity")])
def test_entries_that_are_not_finite_raise_the_error_of_scikit_learn(kind, bad, text):
    X = rows(0, n=3000)
    m = RandomFourier(Gaussian(), 512, random_state=0).fit(X)
    X[-1, 1] = bad  # in the last of several blocks
    with pytest.raises(ValueError, match=text):
        m.transform(kind(X))


def test_entries_out_of_range_raise_an_error_of_their_own():
    X = rows(0).astype(np.float32)
    m = RandomFourier(Gaussian(), 512, random_state=0).fit(X)
    X[3, 1] = 3e38
    with pytest.raises(DataError, match="would overflow float32"):
        m.transform(X)
