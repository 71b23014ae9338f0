"""Non-uniform transforms equal sums term by term, with finufft and without."""

import numpy as np
import pytest

from mercer.linalg import nonuniform
from mercer.linalg.nonuniform import numpy_sums, numpy_values, series_values, trigonometric_sums

SHAPES = [(1,), (31,), (21, 9), (1, 5), (9, 5, 7)]


def phases(angles, shape):
    axes = np.meshgrid(*[np.arange(-(n // 2), n // 2 + 1) for n in shape], indexing="ij")
    return sum(k[..., None] * a for k, a in zip(axes, angles, strict=True))


def problem(shape, n=200, seed=0):
    rng = np.random.default_rng(seed)
    angles = [rng.uniform(-4, 9, n) for _ in shape]
    return angles, rng.normal(size=n) + 1j * rng.normal(size=n), rng


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("eps", [1e-4, 1e-8, 1e-12])
@pytest.mark.parametrize("function", [trigonometric_sums, numpy_sums])
def test_sums_equal_those_term_by_term(function, eps, shape):
    angles, strengths, _ = problem(shape)
    expected = (np.exp(-1j * phases(angles, shape)) * strengths).sum(axis=-1)
    got = function(angles, strengths, shape, eps)
    assert np.abs(got - expected).max() <= 10 * eps * np.abs(strengths).sum()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("eps", [1e-4, 1e-8, 1e-12])
@pytest.mark.parametrize("function", [series_values, numpy_values])
def test_values_of_series_equal_those_term_by_term(function, eps, shape):
    angles, _, rng = problem(shape)
    series = rng.normal(size=shape) + 1j * rng.normal(size=shape)
    expected = (np.exp(1j * phases(angles, shape)) * series[..., None]).reshape(-1, len(angles[0])).sum(axis=0)
    assert np.abs(function(angles, series, eps) - expected).max() <= 10 * eps * np.abs(series).sum()


def test_less_accuracy_gives_more_error():
    # The twin of the tests above: they would not pass at an accuracy other than the one asked for.
    angles, strengths, _ = problem((31,))
    exact = (np.exp(-1j * phases(angles, (31,))) * strengths).sum(axis=-1)
    error = np.abs(numpy_sums(angles, strengths, (31,), 1e-3) - exact).max() / np.abs(strengths).sum()
    assert 1e-8 < error < 1e-2


def test_the_twin_is_used_where_finufft_is_missing(monkeypatch):
    monkeypatch.setattr(nonuniform, "has_finufft", lambda: False)
    angles, strengths, _ = problem((9, 5))
    assert np.array_equal(
        trigonometric_sums(angles, strengths, (9, 5), 1e-9), numpy_sums(angles, strengths, (9, 5), 1e-9)
    )
