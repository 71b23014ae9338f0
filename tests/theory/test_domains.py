"""Domains: every public function returns a number or raises ParameterError, whatever it is given."""

import inspect
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mercer import (
    DotProduct,
    ExponentialDotProduct,
    Gaussian,
    Geometric,
    ParameterError,
    Polynomial,
    UnsupportedKernelError,
    theory,
)
from mercer.theory.domains import COUNT, POSITIVE, checked, within

# Values that no theorem is about, and extreme ones that it may be about.
STRANGE = [
    None, "one", b"1", True, np.True_, math.nan, math.inf, -math.inf, -1, 0, -0.0, 1j, 10**400, Fraction(1, 3),
    1.7e308, -1.7e308, 5e-324, 1e-200, 1e200, 1e-16, 0.999999, 1.0, 1.5, 2, 3, 1000, 1e6, [], {}, object(),
]  # fmt: skip
ARRAYS = [
    np.zeros(3), np.array([0.5, math.nan]), np.array([1.7e308, 5e-324]), np.array(["a"]), np.array([True]),
    np.zeros((0, 2)), np.array([-1.0, 2.0]), [0.1, 0.2, 0.3], [[1.0], [1.0, 2.0]], np.array(0.5), np.eye(2),
    1e200 * np.eye(2),
]  # fmt: skip
KERNELS = [
    Polynomial(2), Polynomial(1, coef0=0.0), ExponentialDotProduct(), ExponentialDotProduct(1e-3), Geometric(),
    DotProduct([0.0]), DotProduct([1.0, 0.5, -0.25], signed=True), 0 * Gaussian(), 1e300 * Gaussian(),
]  # fmt: skip
INNER = theory.gaussian_phase_constants(1.0, 2)
TRIPLES = [
    (1.0, 0.5, 1.0), (0.5, 1.0, 0.25), (1e200, 1.0, 0.5), (1.0, -0.1, 1.0), (1.0, 1.0), None, ("a", 1.0, 1.0),
    (np.float64(2.0), np.array([0.1, 0.9]), 0.5), (1e308, 1e308, 1e308), (0.0, 0.0, 0.0), (math.nan, 1.0, 1.0),
]  # fmt: skip

scalars = st.one_of(st.sampled_from(STRANGE), st.floats(), st.floats(0, 10), st.integers(1, 10**7))
anything = st.one_of(scalars, st.sampled_from(ARRAYS))
SPECIAL = {
    "kernel": st.one_of(st.sampled_from(KERNELS), st.sampled_from(STRANGE)),
    "inner": st.one_of(st.just(INNER), st.sampled_from(STRANGE)),
    "form": st.sampled_from(["pairs", "phase", "complex", "cosine", None, 1, ["pairs"]]),
    "segments": st.one_of(st.lists(st.sampled_from(TRIPLES), max_size=3), st.sampled_from(STRANGE)),
    "factors": st.one_of(st.lists(st.sampled_from(TRIPLES), max_size=3), st.sampled_from(STRANGE)),
}
FUNCTIONS = [name for name in theory.__all__ if name != "InnerConstants"]
OF_ANY_SIGN = {"orthogonal_covariance", "quadrature_range", "deformation_error"}


def refused_or_checked(name, arguments):
    """Call a function; return whether it gave a result, which must be a number that is not NaN."""
    try:
        result = getattr(theory, name)(**arguments)
    except (ParameterError, UnsupportedKernelError):  # the latter for kernels that have no such features
        return False
    if isinstance(result, theory.InnerConstants):
        result = list(vars(result).values())
    values = np.asarray(result, dtype=float)
    assert not np.isnan(values).any()
    if name not in OF_ANY_SIGN:
        assert (values >= 0).all()
    if name.endswith("failure"):
        assert (values <= 1).all()
    return True


# One call of each function inside its domain, from which the fuzz departs.
BALL = {"bound": 2.0, "gradient": 3.0, "radius": 1.0, "dimension": 2}
VALID = {
    "composed_bound": {"kernel": Polynomial(2), "inner": INNER},
    "composed_failure": {"eps": 1.0, "n_components": 10**6, **BALL},
    "composed_gradient": {"kernel": Polynomial(2), "inner": INNER},
    "cosine_variance": {"k": 0.5, "k_double": 0.2},
    "deformation_components": {"eps": 1.0, "delta": 0.1, "kernel_norm": 2.0, "penalty_norm": 0.1, "n_rows": 10},
    "deformation_error": {"exact": np.eye(2), "approximate": np.eye(2), "penalty": np.eye(2)},
    "deformation_factor": {"kernel_norm": 2.0, "approximate_norm": 2.0, "penalty_norm": 1.0},
    "deformation_mean_error": {"kernel_norm": 2.0, "penalty_norm": 1.0, "n_rows": 10, "n_terms": 5},
    "dot_product_gradient": {"kernel": Polynomial(2), "radius": 1.0},
    "fourier_failure": {"eps": 0.1, "n_terms": 10},
    "fourier_uniform_failure": {"eps": 0.1, "n_components": 10, "dimension": 2, "diameter": 1.0, "spread": 1.0},
    "gaussian_phase_constants": {"lengthscale": 1.0, "dimension": 2},
    "graph_truncation_error": {"next_eigenvalue": 0.15, "strength": 1e4, "power": 1.5},
    "grid_error": {"kernel": Gaussian(0.2), "widths": [1.0, 1.0], "periods": [2.0, 2.0], "n_components": 101},
    "grid_mean_error": {"error": 1e-12, "n_rows": 1000, "noise": 0.3, "target_norm": 30.0},
    "hoeffding_radius": {"n": 10, "width": 1.0, "failure": 0.1},
    "jittered_variance": {"segments": [(1.0, 0.5, 1.0), (2.0, np.array([0.1, 0.9]), 0.5)], "n": 7},
    "kernel_matrix_failure": {"eps": 1.0, "kernel_norm": 2.0, "n_rows": 10, "n_terms": 5},
    "kernel_matrix_mean_error": {"kernel_norm": 2.0, "n_rows": 10, "n_terms": 5},
    "linear_mmd_power": {"mmd2": 0.1, "deviation": 1.0, "n": 100},
    "maclaurin_bound": {"kernel": Polynomial(2), "radius": 1.0},
    "maclaurin_components": {"kernel": Polynomial(2), "eps": 0.1, "radius": 1.0},
    "maclaurin_failure": {"eps": 0.1, "n_components": 10, "bound": 1.0},
    "maclaurin_gradient": {"kernel": Polynomial(2), "radius": 1.0, "dimension": 2},
    "maclaurin_sharp_bound": {"kernel": Polynomial(2), "radius": 1.0},
    "maclaurin_uniform_failure": {"eps": 0.1, "n_components": 10, **BALL},
    "matrix_bernstein": {"variance": 1.0, "bound": 1.0, "n": 5},
    "mmd_power": {"eigenvalues": [1.0, 0.5, 0.2], "signals": [0.1, 0.0, 0.2], "m": 20, "n": 30},
    "orthogonal_covariance": {"distance": np.array([0.0, 1.0]), "ambient": 4},
    "penalty_norm": {"strength": 1.0, "power": 2},
    "permutation_level": {"level": 0.05, "n_permutations": 99},
    "phase_variance": {"k": 0.5, "k_double": 0.2},
    "quadrature_failure": {"eps": 0.1, "n_rules": 10, "diameter": 1.0},
    "quadrature_gaussian_variance": {"distance": 1.0, "n_rules": 3},
    "quadrature_range": {"distance": 1.0},
    "quadrature_rules": {"eps": 0.1, "diameter": 1.0},
    "quadrature_uniform_failure": {"eps": 0.1, "n_rules": 10, "dimension": 2, "diameter": 1.0},
    "quadrature_variance": {"n_rules": 3, "dimension": 5},
    "required_components": {"kernel": Gaussian(), "eps": 0.1},
    "tensor_sketch_variance": {"factors": [(0.5, 1.0, 0.25)], "n_components": 4},
    "threshold_variance": {"k": 0.5, "length": 1.0, "n": 10},
    "truncation_degree": {"kernel": Polynomial(2), "eps": 0.1, "radius": 1.0},
    "truncation_error": {"kernel": Polynomial(2), "degree": 1, "radius": 1.0},
}  # fmt: skip


def test_every_public_function_declares_the_domain_of_every_parameter():
    assert sorted(VALID) == sorted(FUNCTIONS)
    for name in FUNCTIONS:
        function = getattr(theory, name)
        assert inspect.unwrap(function) is not function, name


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_valid_call_gives_a_result(name):
    assert refused_or_checked(name, VALID[name])


@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=60)
@given(data=st.data())
def test_one_strange_argument_is_refused_or_gives_a_number(name, data):
    parameter = data.draw(st.sampled_from(list(inspect.signature(getattr(theory, name)).parameters)))
    value = data.draw(SPECIAL.get(parameter, anything))
    refused_or_checked(name, VALID[name] | {parameter: value})


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=60)
@given(data=st.data())
def test_strange_arguments_together_are_refused_or_give_a_number(name, data):
    parameters = inspect.signature(getattr(theory, name)).parameters
    # Mostly numbers of the right kind at the ends of their range, so that formulas are reached and not only checks.
    extreme = st.sampled_from([5e-324, 1e-300, 1e-16, 0.3, 1, 3, 1e16, 1e300, 1.7e308])
    choices = {p: SPECIAL.get(p, st.one_of(extreme, extreme, extreme, anything)) for p in parameters}
    refused_or_checked(name, data.draw(st.fixed_dictionaries(choices)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_none_and_booleans_are_refused_for_numbers(name):
    for parameter, default in inspect.signature(getattr(theory, name)).parameters.items():
        for wrong in (None, True):
            if wrong is None and default.default is None:
                continue
            with pytest.raises(ParameterError, match=rf"^{name}: {parameter} must be .*, got {wrong}\."):
                getattr(theory, name)(**(VALID[name] | {parameter: wrong}))


# ---- values that were wrong before they were checked ----------------------------------------------


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: theory.threshold_variance(2, 1, 10), r"threshold_variance: k must be in \[0, length\], got 2 where"),
        (lambda: theory.cosine_variance(2, 1, 1), r"cosine_variance: k must be in \[-mass, mass\], got 2 where that"),
        (lambda: theory.cosine_variance(1, 0, 1), r"k_double / mass must be at least 2 \(k / mass\)\^2 - 1"),
        (
            lambda: theory.fourier_failure(0.1, 10, mass=-1),
            "fourier_failure: mass must be a finite number >= 0, got -1",
        ),
        (lambda: theory.cosine_variance(np.zeros(2), np.zeros(3)), r"k_double|mass must be of a shape that broadcasts"),
        (lambda: theory.cosine_variance([0.1, np.nan], 0.0), r"k must be finite numbers, got nan at \[1\]"),
        (
            lambda: theory.jittered_variance([(1.0, 2.0, 1.0)], 3),
            r"reached of segments\[0\] must be numbers in \[0, 1\]",
        ),
        (lambda: theory.jittered_variance([(1.0, 0.5)], 3), r"segments\[0\] must be \(length, reached, inside\)"),
        (lambda: theory.tensor_sketch_variance([(2.0, 1.0, 0.1)], 3), r"t of factors\[0\] must be in \[-sqrt\(norms"),
        (lambda: theory.tensor_sketch_variance([(0.1, 1.0, 1.1)], 3), r"overlap of factors\[0\] must be in \[0, norms"),
        (lambda: theory.orthogonal_covariance(-1.0, 3), "distance must be numbers >= 0, or inf, got -1.0"),
        (lambda: theory.hoeffding_radius(2.5, width=1.0, failure=0.1), "n must be an integer >= 1, got 2.5"),
    ],
)
def test_arguments_outside_their_domain_are_named(call, text):
    with pytest.raises(ParameterError, match=text):
        call()


def test_values_beyond_the_boundary_by_rounding_are_clipped():
    just_above = np.nextafter(1.0, 2.0)
    assert theory.cosine_variance(just_above, just_above) == 0.0
    assert theory.cosine_variance(np.float32(1.0000001), 1.0) == 0.0
    assert theory.phase_variance(-just_above, 1.0) == 0.5
    assert theory.threshold_variance(just_above, 1.0, 5) == theory.threshold_variance(-1e-320, 1.0, 5) == 0.0
    assert theory.jittered_variance([(1.0, just_above, 1.0)], 5) == 0.0
    with pytest.raises(ParameterError, match="k must be in"):
        theory.cosine_variance(1.001, 1.0)


def test_vacuous_bounds_are_infinite():
    assert theory.cosine_variance(0.0, 0.0, 1e200) == math.inf
    assert theory.quadrature_gaussian_variance(1e200, 1) == math.inf
    assert theory.quadrature_range(1e200)[0] == -math.inf
    assert theory.hoeffding_radius(1, width=1.7e308, failure=1e-300) == math.inf
    assert theory.deformation_mean_error(1.0, math.inf, 1, 1) == math.inf


def test_integral_floats_count_as_integers():
    assert theory.fourier_failure(0.1, 1e3) == theory.fourier_failure(0.1, 1000)


# ---- the layer itself -----------------------------------------------------------------------------


def test_a_function_without_a_domain_for_a_parameter_cannot_be_decorated():
    with pytest.raises(TypeError, match=r"f: domains of \['x'\] for parameters \['x', 'y'\]"):

        @checked(x=POSITIVE)
        def f(x, y):
            return x + y


def test_arguments_are_converted():
    @checked(x=POSITIVE, n=COUNT)
    def f(x, n=3.0):
        return x, n

    assert f(np.float32(0.5)) == (0.5, 3)
    assert [type(v) for v in f(Fraction(1, 2), np.int64(2))] == [float, int]
    with pytest.raises(ParameterError, match=r"^f: n must be an integer >= 1, got '2'\.$"):
        f(1.0, "2")


def test_relations_name_the_first_element_that_violates_them():
    with pytest.raises(ParameterError, match=r"^owner: v must be between, got 5 where that is \[0, 4\]\. Try less\.$"):
        within("owner", "v", np.array([1.0, 5.0, 7.0]), 0.0, np.array([2.0, 4.0, 4.0]), "between", hint="Try less.")
