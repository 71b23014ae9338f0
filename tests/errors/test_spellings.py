"""Advice for parameter names and values of other libraries: each message has a line that can be typed."""

import re

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_approximation import RBFSampler
from sklearn.metrics import pairwise

import mercer
from mercer import (
    Gaussian,
    KernelRidge,
    Laplacian,
    Nystroem,
    ParameterError,
    Polynomial,
    RandomFourier,
    UnknownParameterError,
)
from mercer.errors.spellings import advice, kernel_expression, object_hint

X = np.abs(np.random.default_rng(0).normal(size=(5, 3)))

CALLS = {
    'KernelRidge(kernel="rbf")': 'write KernelRidge(feature_map=mercer.Gaussian("median")).',
    'KernelRidge(kernel="rbf", gamma=0.5)': "write KernelRidge(feature_map=mercer.Gaussian(lengthscale=1)).",
    "KernelRidge(gamma=0.5)": "gamma belongs to the kernel.",
    "KernelRidge(degree=2, coef0=0)": "write KernelRidge(feature_map=mercer.Polynomial(2, coef0=0)).",
    "KernelRidge(n_components=1000)": "write KernelRidge(feature_map=mercer.RandomFourier(n_components=1000)).",
    "KernelRidge(C=10)": "The penalty is alpha = 1 / (2 C): write alpha=0.05.",
    "KernelRidge(alphas=[1, 2], cv=3)": 'write KernelRidge(alpha="loo").',
    "KernelRidge(verbose=2)": "Write progress=True.",
    "KernelRidge(seed=1)": "Did you mean random_state=1?",
    "KernelRidge(something=1)": "KernelRidge has feature_map, alpha, fit_intercept, neighbors, unlabeled, block_size,",
    "KernelSVC(alpha=0.1)": "C = 1 / (2 alpha): write C=5.",
    'KernelPCA(kernel="cosine")': "'cosine' is no kernel of mercer; kernels are objects, such as feature_map=",
    "KernelKMeans(k=3)": "Did you mean n_clusters=3?",
    "KernelKMeans(n_cluster=3)": "Did you mean n_clusters=3?",
    "GaussianProcessRegressor(alpha=0.01)": "write noise=0.1.",
    "Gaussian(gamma=1)": (
        "scikit-learn's gamma is 1 / (2 lengthscale^2): write Gaussian(lengthscale=0.7071) or Gaussian.from_gamma(1)."
    ),
    'Gaussian(gamma="scale")': 'write Gaussian("median"), or a number.',
    "Laplacian(gamma=4)": "scikit-learn's gamma is 1 / lengthscale: write Laplacian(lengthscale=0.25).",
    "Cauchy(gamma=1)": 'write Cauchy(lengthscale="median"), or a number.',
    "Matern(length_scale=2)": "Did you mean lengthscale=2?",
    "Polynomial(3, gamma=0.1)": "Did you mean scale=0.1?",
    "Polynomial(c=2)": "Did you mean coef0=2?",
    "Chi2(gamma=1)": "Chi2 has no parameters.",
    "RandomFourier(gamma=2)": "write RandomFourier(kernel=mercer.Gaussian(lengthscale=0.5)).",
    "RandomFourier(n_component=100)": "Did you mean n_components=100?",
    "RandomFourier(n_features=100)": "Did you mean n_components=100?",
    "Nystroem(kernel_params={'gamma': 2})": "write Nystroem(kernel=mercer.Gaussian(lengthscale=0.5)).",
    "NeighborGraph(k=3)": "Did you mean n_neighbors=3?",
    "KernelRidge(Gaussian(), 512)": "KernelRidge takes 1 positional argument (feature_map), got 2: 512 has no name.",
    "Gaussian(1, 2)": "Gaussian takes 1 positional argument (lengthscale), got 2: 2 has no name.",
    "mmd_test([[1.0]], [[2.0]], gamma=0.5)": "write mmd_test(kernel=mercer.Gaussian(lengthscale=1)).",
    "mmd_test([[1.0]], [[2.0]], feature_map=None)": "Did you mean kernel=None?",
    "open_rows('rows.csv', label='y')": "Did you mean target='y'?",
}


@pytest.mark.parametrize(("call", "words"), CALLS.items(), ids=CALLS)
def test_calls_with_names_of_other_libraries_say_what_to_write(call, words):
    with pytest.raises(UnknownParameterError, match=re.escape(words)) as raised:
        eval(call, vars(mercer) | {name: getattr(mercer, name) for name in mercer.__all__})
    assert isinstance(raised.value, TypeError)  # as Python raises for such calls
    assert isinstance(raised.value, ValueError)
    assert str(raised.value).startswith(call.partition("(")[0])


@pytest.mark.parametrize("words", [words for words in CALLS.values() if "mercer." in words and "such as" not in words])
def test_suggested_lines_run(words):
    line = re.search(r"write (.*)\.$", words)[1]
    name, _, argument = line.partition("=")
    kernel = eval(argument.removesuffix(")"), {"mercer": mercer})
    assert isinstance(kernel, mercer.Kernel | mercer.maps.BaseMap), name


def test_setting_parameters_gives_the_same_advice():
    with pytest.raises(UnknownParameterError, match="KernelRidge: there is no parameter kernel"):
        KernelRidge().set_params(kernel="rbf")
    with pytest.raises(UnknownParameterError, match="Nystroem: there are no parameters gamma, degree"):
        Nystroem().set_params(gamma=1, degree=2)


@pytest.mark.parametrize(
    ("given", "exact"),
    [
        ({"kernel": "rbf", "gamma": 0.125}, lambda X: pairwise.rbf_kernel(X, gamma=0.125)),
        ({"kernel": "laplacian", "gamma": 0.25}, lambda X: pairwise.laplacian_kernel(X, gamma=0.25)),
        ({"kernel": "linear"}, pairwise.linear_kernel),
        (
            {"kernel": "poly", "degree": 2, "gamma": 0.5, "coef0": 3},
            lambda X: pairwise.polynomial_kernel(X, degree=2, gamma=0.5, coef0=3),
        ),
    ],
)
def test_translated_kernels_have_the_values_of_scikit_learn(given, exact):
    kernel = eval(kernel_expression(given), {"mercer": mercer})
    assert np.allclose(kernel(X), exact(X), rtol=1e-12)


def test_values_in_place_of_kernels_and_maps_are_recognized():
    for choice, words in (
        ("rbf", 'Kernels are objects: write kernel=mercer.Gaussian("median").'),
        ("sigmoid", 'There is none named "sigmoid".'),
        (Gaussian, "Pass an object, not the class: write kernel=Gaussian()."),
        (RBF(), 'Those of scikit-learn cannot be used: write kernel=mercer.Gaussian("median").'),
        (7, "Numbers have names: n_clusters=7 for clusters, n_components=7 for components."),
    ):
        with pytest.raises(ParameterError, match=re.escape(words)):
            RandomFourier(choice).fit(X)
    assert object_hint(RBFSampler(), "feature_map").endswith("write feature_map=mercer.RandomFourier().")
    assert object_hint(object(), "kernel") == ""


def test_advice_is_for_the_names_that_exist():
    assert advice("Own", {"gamma": 2.0}, ["speed"]) == "Own has speed."
    assert advice("Own", {"sped": 2.0}, ["speed"]) == "Did you mean speed=2.0?"
    assert advice("Own", {"sped": list(range(1000))}, ["speed"]) == "Did you mean speed=...?"


def test_right_calls_are_not_changed():
    assert Laplacian(lengthscale=2.0) == Laplacian(2.0)
    assert Polynomial(2, scale=0.5).scale == 0.5
    assert KernelRidge(Gaussian(), alpha=3).alpha == 3


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: mercer.DeformedSearchCV(mercer.KernelRidge(), alphas=[1]), r"Did you mean strengths=\[1\]\?"),
        (lambda: mercer.Deformed(alpha=1), r"Did you mean strength=1\?"),
        (lambda: mercer.Deformed(memory=5), r"Did you mean max_bytes=5\?"),
        (lambda: mercer.GaussianProcessRegressor(lengthscale="ard"), r"Did you mean lengthscale_tuning='ard'\?"),
        (lambda: mercer.GaussianProcessRegressor(lengthscale=2.0), r"Gaussian\(lengthscale=2\)"),
        (lambda: mercer.KernelRidge(kernel="chi2"), r"'chi2' is no kernel of mercer"),
        (lambda: mercer.KernelRidge(kernel=min), r"is no kernel of mercer; kernels are objects"),
    ],
)
def test_former_names_and_other_kernels_point_to_the_right_parameter(call, line):
    with pytest.raises(mercer.UnknownParameterError, match=line):
        call()
