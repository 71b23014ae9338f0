"""The algebra of kernels is the arithmetic of their matrices."""

import numpy as np
import pytest

from mercer import (
    Cauchy,
    Composed,
    Constant,
    DataError,
    DotProduct,
    ExponentialDotProduct,
    Gaussian,
    Geometric,
    Kernel,
    Laplacian,
    Matern,
    ParameterError,
    Polynomial,
    Product,
    RandomMaclaurin,
    RationalQuadratic,
    Scaled,
    Sum,
    Transformed,
)

X = np.random.default_rng(0).normal(size=(12, 3))
Y = np.random.default_rng(1).normal(size=(9, 3))
A, B, C = Gaussian(0.8), Laplacian(2.0), Polynomial(2)


@pytest.mark.parametrize(
    ("kernel", "arithmetic"),
    [
        (A + B, lambda a, b, c: a + b),
        (A * B, lambda a, b, c: a * b),
        (2.5 * A, lambda a, b, c: 2.5 * a),
        (A * 2.5, lambda a, b, c: 2.5 * a),
        (np.float64(2.5) * A, lambda a, b, c: 2.5 * a),
        (np.int64(3) * A, lambda a, b, c: 3 * a),
        (1 + A, lambda a, b, c: 1 + a),
        (A + 1, lambda a, b, c: 1 + a),
        (0 * A, lambda a, b, c: 0 * a),
        (2 * A + 3 * B * C + 0.5, lambda a, b, c: 2 * a + 3 * b * c + 0.5),
        ((A + B) * (C + 1), lambda a, b, c: (a + b) * (c + 1)),
        (A + B * C, lambda a, b, c: a + b * c),
        (sum([A, B, C]), lambda a, b, c: a + b + c),
        (C @ A, lambda a, b, c: (1 + a) ** 2),
        (ExponentialDotProduct() @ (A + B), lambda a, b, c: np.exp(a + b)),
        (ExponentialDotProduct() @ (C @ A), lambda a, b, c: np.exp((1 + a) ** 2)),
        (Constant(0.3), lambda a, b, c: 0 * a + 0.3),
    ],
    ids=lambda value: repr(value) if isinstance(value, Kernel) else "",
)
def test_operators_are_the_arithmetic_of_matrices(kernel, arithmetic):
    for left, right in ((X, None), (X, Y)):
        values = [k(left, right) for k in (A, B, C)]
        np.testing.assert_allclose(kernel(left, right), arithmetic(*values), rtol=1e-12)
    np.testing.assert_allclose(kernel.diag(X), np.diagonal(kernel(X, X)), rtol=1e-12)


def test_repr_evaluates_to_an_equal_kernel():
    names = {name: value for name, value in globals().items() if isinstance(value, type)}
    kernels = [
        2.0 * (A + B) * C,
        1 + A,
        (A + B) * (B + 1),
        ExponentialDotProduct() @ (A + B),
        Transformed(A, columns=(1,)),
    ]
    for kernel in kernels:
        again = eval(repr(kernel), {"__builtins__": {}}, names)
        np.testing.assert_allclose(again(X), kernel(X), rtol=1e-12)


@pytest.mark.parametrize("wrong", [-1, -1e-9, np.nan, np.inf, np.float64(-2)])
def test_weights_below_zero_are_refused(wrong):
    with pytest.raises(ParameterError, match="Scaled: weight must be a finite number >= 0, else the kernel is not"):
        wrong * A
    with pytest.raises(ParameterError, match="Constant: value must be a finite number >= 0"):
        A + wrong


@pytest.mark.parametrize("wrong", ["a", None, [1.0], 1j])
def test_only_kernels_and_numbers_combine(wrong):
    for operate in (
        lambda: A + wrong,
        lambda: wrong + A,
        lambda: A * wrong,
        lambda: wrong * A,
        lambda: C @ wrong,
    ):
        with pytest.raises(TypeError):
            operate()


@pytest.mark.parametrize("wrong", ["a", None])
def test_weights_that_are_not_numbers_are_refused(wrong):
    with pytest.raises(ParameterError, match="weight must be"):
        Scaled(A, wrong)
    with pytest.raises(ParameterError, match="value must be"):
        Constant(wrong)


@pytest.mark.parametrize("outer", [A, B, A + B, 2 * C, Constant(1.0)], ids=repr)
def test_only_dot_product_kernels_compose_from_the_left(outer):
    with pytest.raises(ParameterError, match="the left side of @ must be a dot-product kernel") as error:
        outer @ A
    assert outer.structure in str(error.value)
    assert "Try ExponentialDotProduct() or Polynomial(degree) on the left" in str(error.value)


def test_composition_is_the_kernel_of_the_exponential_of_inner_products():
    # exp(x . y) over the root of its diagonal is the Gaussian kernel.
    K = ExponentialDotProduct()(X)
    norms = np.sqrt(ExponentialDotProduct().diag(X))
    np.testing.assert_allclose(K / norms[:, None] / norms, Gaussian()(X), rtol=1e-12)
    assert ExponentialDotProduct() @ A == Composed(ExponentialDotProduct(), A)


@pytest.mark.parametrize("kernel", [A, B, C, Cauchy(), Matern(0.7), RationalQuadratic() + C], ids=repr)
def test_transformed_inputs_equal_transformed_rows(kernel):
    columns, center, lengthscales = [2, 0], [0.5, -1.0], [2.0, 0.25]
    transformed = Transformed(kernel, columns=columns, center=center, lengthscales=lengthscales)

    def by_hand(rows):
        return (rows[:, columns] - center) / lengthscales

    np.testing.assert_allclose(transformed(X, Y), kernel(by_hand(X), by_hand(Y)), rtol=1e-12)
    np.testing.assert_allclose(transformed.diag(X), kernel.diag(by_hand(X)), rtol=1e-12)
    ard = Transformed(kernel, lengthscales=np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(ard(X, Y), kernel(X / [1, 2, 3], Y / [1, 2, 3]), rtol=1e-12)
    twice = Transformed(Transformed(kernel, columns=(1,), lengthscales=(2.0,)), columns=(2, 0), center=(0.0, 1.0))
    np.testing.assert_allclose(twice(X, Y), kernel((X[:, [0]] - 1) / 2, (Y[:, [0]] - 1) / 2), rtol=1e-12)


def test_transformed_inputs_are_rounded_to_multiples_of_a_spacing():
    columns, center, lengthscales, matrix = (2, 0), (0.5, -1.0), (2.0, 0.25), [[1.0], [-0.5]]
    transformed = Transformed(A, columns, center, lengthscales, matrix, spacing=0.125)

    def by_hand(rows):
        return np.rint((rows[:, columns] - center) / lengthscales * 8) / 8 @ np.array(matrix)

    np.testing.assert_allclose(transformed(X, Y), A(by_hand(X), by_hand(Y)), rtol=1e-12)
    assert "spacing=0.125" in repr(transformed)
    assert transformed != Transformed(A, columns, center, lengthscales, matrix)
    # Frequencies are those of the linear function.
    frequencies = np.ones((1, 1))
    plain = Transformed(A, columns, center, lengthscales, matrix)
    np.testing.assert_array_equal(
        transformed._inputs().pull_back(frequencies, 3), plain._inputs().pull_back(frequencies, 3)
    )
    # So are inner products in maps of power series.
    polynomial = Transformed(Polynomial(2), matrix=np.eye(3) / 3)
    rounded = Transformed(Polynomial(2), matrix=np.eye(3) / 3, spacing=100.0)
    found = [RandomMaclaurin(kernel, 10, random_state=0).fit_transform(X) for kernel in (polynomial, rounded)]
    np.testing.assert_array_equal(*found)


def test_transformed_is_hashable_whatever_the_sequences_were():
    kernels = [Transformed(A, columns=c, lengthscales=s) for c, s in [([0, 1], np.ones(2)), ((0, 1), (1.0, 1.0))]]
    assert kernels[0] == kernels[1]
    assert hash(kernels[0]) == hash(kernels[1])


@pytest.mark.parametrize("columns", [(0, 0), (-1,), (), (0.5,), (0.0, 1.0), ("a",), (True, False)])
def test_wrong_columns_are_refused(columns):
    with pytest.raises(ParameterError, match="Transformed: columns must be different integers >= 0, at least one, got"):
        Transformed(A, columns=columns)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"lengthscales": (1.0, 0.0)}, "every lengthscale must be a finite number > 0"),
        ({"lengthscales": (1.0, np.inf)}, "every lengthscale must be a finite number > 0"),
        ({"lengthscales": (1.0, -1.0)}, "every lengthscale must be a finite number > 0"),
        ({"center": (np.nan,)}, "center must be finite"),
        ({"spacing": 0.0}, "spacing must be None or a finite number > 0, got 0.0"),
        ({"spacing": np.inf}, "spacing must be None or a finite number > 0, got inf"),
        ({"spacing": "a"}, "spacing must be None or a finite number > 0, got 'a'"),
        ({"spacing": True}, "spacing must be None or a finite number > 0, got True"),
        ({"columns": (0, 1), "center": (0.0,)}, r"must have equal lengths, got \[1, 2\]"),
        ({"lengthscales": (1.0,), "center": (0.0, 1.0)}, r"must have equal lengths, got \[1, 2\]"),
    ],
)
def test_wrong_transforms_are_refused(arguments, text):
    with pytest.raises(ParameterError, match=f"Transformed: .*{text}"):
        Transformed(A, **arguments)


def test_transforms_that_do_not_fit_the_rows_are_refused():
    with pytest.raises(DataError, match="columns has the index 3, but the rows have 3 features"):
        Transformed(A, columns=(0, 3))(X)
    with pytest.raises(DataError, match="lengthscales has 2 values, but the rows have 3 features"):
        Transformed(A, lengthscales=(1.0, 2.0))(X)
    with pytest.raises(DataError, match="center has 2 values, but the rows have 3 features"):
        Transformed(A, center=(1.0, 2.0)).diag(X)


def test_resolving_reaches_every_inner_kernel():
    kernel = Sum(Gaussian("median"), 2 * Transformed(Laplacian("median"), columns=(1,))) * Matern(1.5, "median")
    resolved = kernel.resolve(X)
    assert not resolved.needs_rows
    assert resolved.left.left == Gaussian("median").resolve(X)
    # The inner kernel sees the transformed rows only.
    assert resolved.left.right.kernel.kernel == Laplacian("median").resolve(X[:, [1]])
    assert kernel.needs_rows


@pytest.mark.parametrize(
    "make",
    [
        lambda: Sum(1, Gaussian()),
        lambda: Product(Gaussian(), "k"),
        lambda: Scaled("a", 2.0),
        lambda: Composed(Polynomial(), 3),
        lambda: Transformed(3),
    ],
)
def test_parts_must_be_kernels(make):
    with pytest.raises(ParameterError, match="must be a kernel such as Gaussian"):
        make()


def test_an_array_times_a_kernel_is_refused():
    with pytest.raises(TypeError):
        np.array([1.0, 2.0]) * Gaussian()
    with pytest.raises(ParameterError, match="center must be None or a sequence of numbers, got 'mean'"):
        Transformed(Gaussian(), center="mean")


def test_repr_keeps_all_digits():
    assert repr(1.23456789 * Gaussian()) == "1.23456789 * Gaussian(lengthscale=1.0)"


# ---- the spectrum of a composition ----------------------------------------------------------------------------------


def value_of(parts, X):
    """Return the kernel that a spectral normal form represents."""
    total = np.zeros((len(X), len(X)))
    for part in parts:
        product = np.full_like(total, part.mass)
        for factor in part.factors:
            rows = X
            for affine in factor.inputs:
                rows = affine(rows)
            product *= factor.kernel(rows, rows)
        total += product
    return total


ARD = Transformed(RationalQuadratic(0.7), columns=(2, 0), lengthscales=(2.0, 0.5))


@pytest.mark.parametrize(
    ("kernel", "parts"),
    [
        (C @ A, 3),
        (Polynomial(3, coef0=0.0) @ B, 1),
        (C @ (A + 0.5), 3),  # the constant is no part of its own: about it, the series has three terms
        (C @ (A + B), 6),
        (C @ (A * B), 3),
        (Polynomial(2) @ Matern(1.5), 3),
        (ExponentialDotProduct() @ Matern(0.5, 2.0), 18),
        (ExponentialDotProduct() @ (2.0 * ARD + 1), None),
        (ExponentialDotProduct(0.5) @ Cauchy(), None),
        (Geometric() @ (0.9 * A), None),
        (Geometric() @ (0.5 * A + 0.3), None),
        (DotProduct([0.0, 1.0, 0.0, 2.0]) @ (C @ A), None),
        (DotProduct.from_function(np.cosh) @ A, None),
        (2 * (ExponentialDotProduct() @ A) + Transformed(C @ B, columns=(1,)), None),
        (ExponentialDotProduct() @ Constant(0.3), 1),
    ],
    ids=lambda value: repr(value) if isinstance(value, Kernel) else "",
)
def test_compositions_of_shift_invariant_kernels_have_spectral_parts(kernel, parts):
    found = kernel.spectral_parts()
    np.testing.assert_allclose(value_of(found, X), kernel(X), rtol=1e-12)
    assert parts is None or len(found) == parts
    assert all(part.mass > 0 for part in found)
    assert sum(1 for part in found if not part.factors) <= 1 + kernel.structure.startswith("a sum")


def test_a_missing_power_is_detected():
    found = (ExponentialDotProduct() @ A).spectral_parts()
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(
            value_of([part for part in found if part.mass > 1e-6], X), (ExponentialDotProduct() @ A)(X), rtol=1e-12
        )


@pytest.mark.parametrize(
    "kernel",
    [
        ExponentialDotProduct() @ C,  # no spectrum inside
        ExponentialDotProduct() @ (A + B + Matern() + Cauchy()),  # too many products
        Polynomial(600) @ A,
        Geometric() @ (0.99 * A),  # too slow a series
        Geometric() @ (2.0 * A),  # outside its domain
        ExponentialDotProduct(1000.0) @ A,  # overflows
        DotProduct([1.0, -0.5], signed=True) @ A,
    ],
    ids=repr,
)
def test_other_compositions_have_no_spectral_parts(kernel):
    assert kernel.spectral_parts() is None


@pytest.mark.parametrize(
    "kernel",
    [Gaussian(0.7), Laplacian(2.0), Matern(0.5, 1.3), Matern(np.inf, 2.0), RationalQuadratic(0.6, 1.5)],
    ids=repr,
)
def test_closed_forms_of_powers_are_the_powers_of_the_values(kernel):
    for n in (1, 2, 5):
        np.testing.assert_allclose(kernel.power(n)(X), kernel(X) ** n, rtol=1e-12)
    [part] = (Polynomial(3, coef0=0.0) @ kernel).spectral_parts()
    assert part.factors[0].kernel == kernel.power(3)


def test_powers_without_closed_form_and_of_unresolved_lengthscales_are_products():
    for kernel in (Matern(1.5), Cauchy(), Gaussian("median")):
        [part] = (Polynomial(3, coef0=0.0) @ kernel).spectral_parts()
        assert [factor.kernel for factor in part.factors] == [kernel] * 3
