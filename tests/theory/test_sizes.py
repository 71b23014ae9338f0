"""Numbers of components: the inverse of the bound, and errors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mercer import (
    ExponentialDotProduct,
    Gaussian,
    Laplacian,
    Matern,
    ParameterError,
    Polynomial,
    RandomFourier,
    UnsupportedKernelError,
    required_components,
)
from mercer.theory import fourier_failure

FORMS = ("pairs", "phase", "complex")


@given(
    eps=st.floats(0.01, 1.5),
    delta=st.floats(1e-9, 0.99),
    mass=st.floats(0.1, 5.0),
    form=st.sampled_from(FORMS),
)
def test_the_size_is_the_smallest_that_the_bound_allows(eps, delta, mass, form):
    columns = required_components(mass * Gaussian(), eps, delta, form=form)
    terms = columns // 2 if form == "pairs" else columns
    assert fourier_failure(eps, terms, mass=mass, form=form) <= delta * (1 + 1e-9)
    if terms > 1:
        assert fourier_failure(eps, terms - 1, mass=mass, form=form) > delta * (1 - 1e-9)


def test_pairs_have_even_widths_that_a_map_takes():
    columns = required_components(Laplacian(), 0.3)
    assert columns % 2 == 0
    RandomFourier(Laplacian(), columns).fit([[0.0]])


def test_the_kernel_matters_by_its_mass_only():
    n = required_components(Gaussian(), 0.1, 0.01)
    assert n == 2120
    assert required_components(Matern(0.5, 7.0) * Laplacian(), 0.1, 0.01) == n
    assert required_components(2 * Gaussian(), 0.2, 0.01) == n
    assert required_components(Gaussian() + Laplacian(), 0.2, 0.01) == n
    assert required_components(Gaussian("median"), 0.1, 0.01) == n
    # Half the error at the same mass: four times the features.
    assert required_components(2 * Gaussian(), 0.1, 0.01) == pytest.approx(4 * n, rel=1e-3)


def test_a_kernel_of_zero_needs_the_least():
    assert required_components(0 * Gaussian(), 0.1) == 2


@pytest.mark.parametrize("eps", [0, -1, float("nan"), float("inf")])
def test_a_wrong_error_is_refused(eps):
    with pytest.raises(ParameterError, match="required_components: eps must be a finite number > 0, got"):
        required_components(Gaussian(), eps)


@pytest.mark.parametrize("delta", [0, 1, -0.1, 1.5, float("nan")])
def test_a_wrong_probability_is_refused(delta):
    with pytest.raises(ParameterError, match=r"required_components: delta must be in \(0, 1\), got"):
        required_components(Gaussian(), 0.1, delta)


def test_an_unknown_form_is_refused():
    with pytest.raises(ParameterError, match="form must be one of pairs, phase, complex, got 'cosine'"):
        required_components(Gaussian(), 0.1, form="cosine")


@pytest.mark.parametrize(
    "kernel", [Polynomial(2), Gaussian() + ExponentialDotProduct(), ExponentialDotProduct() @ Polynomial(2)], ids=repr
)
def test_a_kernel_without_fourier_features_is_refused(kernel):
    with pytest.raises(UnsupportedKernelError, match="has no Fourier features") as error:
        required_components(kernel, 0.1)
    lines = str(error.value).splitlines()
    assert lines[1] == "  needs: a shift-invariant kernel, k(x, y) = f(x - y)"
    assert lines[2] == f"  got:   {kernel.structure}"
    assert lines[3].startswith("  try:   mercer.component_table(kernel, eps, X=rows)")
