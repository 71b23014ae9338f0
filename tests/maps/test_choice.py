"""The map of a learner: a map, a kernel or nothing, and what of it a learner can use."""

import numpy as np
import pytest

from mercer import (
    DotProduct,
    Gaussian,
    ParameterError,
    Polynomial,
    RandomFourier,
    RandomMaclaurin,
    TensorSketch,
    kernels,
)
from mercer.kernels import Kernel
from mercer.maps.choice import SCIKIT_LEARN_KERNELS, check_features, rows_to_features, unfitted_map


def test_a_map_is_copied_and_not_fitted():
    X = np.random.default_rng(0).normal(size=(20, 3))
    given = RandomFourier(Gaussian(2.0), 30, random_state=3).fit(X)
    found = unfitted_map("Learner", given, random_state=7, n_components=99)
    assert found is not given
    assert not hasattr(found, "features_")
    assert found.get_params() == given.get_params()  # its own seed and width


def test_of_a_kernel_or_of_nothing_a_map_is_chosen():
    found = unfitted_map("Learner", Gaussian(2.0), random_state=7, n_components=99)
    assert (found.kernel, found.n_components, found.random_state) == (Gaussian(2.0), 99, 7)
    found = unfitted_map("Learner", None, random_state=7)
    assert found.fit(np.random.default_rng(0).normal(size=(50, 3))).kernel_.lengthscale > 0
    assert unfitted_map("Learner", Polynomial(2), random_state=0).accepts(Polynomial(2))


def test_anything_else_is_refused():
    with pytest.raises(ParameterError, match=r"Learner: feature_map must be a mercer map .*, a kernel, or None; got 3"):
        unfitted_map("Learner", 3, None)
    with pytest.raises(ParameterError, match=r"Numbers have names: n_clusters=3"):
        unfitted_map("Learner", 3, None)
    with pytest.raises(ParameterError, match=r"n_components must be an integer >= 1, got 0"):
        unfitted_map("Learner", RandomFourier(Gaussian(), 0), None)


def test_complex_features_and_signs_are_refused():
    X = np.random.default_rng(0).normal(size=(20, 3))
    check_features("Learner", RandomFourier(Gaussian(), 30).fit(X))
    with pytest.raises(ParameterError, match=r"Learner needs real features, got .*form='complex'.* Use form='pairs'"):
        check_features("Learner", RandomFourier(Gaussian(), 30, form="complex").fit(X))
    kernel = DotProduct((0.5, 1.0, -0.8), signed=True)
    signed = RandomMaclaurin(kernel, 9, random_state=0).fit(X)
    assert (signed.signs_ < 0).any()
    with pytest.raises(ParameterError, match=r"Learner needs a positive definite kernel, .* by RandomMaclaurin have"):
        check_features("Learner", signed)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_are_those_of_the_map_in_the_dtype_of_the_rows(dtype):
    X = np.random.default_rng(0).normal(size=(20, 3)).astype(dtype)
    feature_map = TensorSketch(Polynomial(2), 16, random_state=0).fit(X)
    Z = rows_to_features(feature_map.features_, X)
    assert Z.dtype == dtype
    assert np.array_equal(Z, feature_map.transform(X))


@pytest.mark.parametrize("name", SCIKIT_LEARN_KERNELS)
def test_names_of_scikit_learn_are_translated(name):
    with pytest.raises(ParameterError, match="Did you mean") as raised:
        unfitted_map("Learner", name, None)
    meant = str(raised.value).split("Did you mean ")[1].rstrip("?")
    assert isinstance(eval(meant, vars(kernels)), Kernel)
    with pytest.raises(ParameterError, match=r"got 'other'\.$"):
        unfitted_map("Learner", "other", None)
