"""Predictions of errors at other numbers of components."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from mercer import ParameterError
from mercer.diagnostics.widths import LARGEST_WIDTH, KnownShape, WidthErrors, power_law


def test_power_law_passes_through_the_error_with_the_rate_of_the_two_largest_widths():
    measured = (WidthErrors(16, (9.0,)), WidthErrors(32, (0.4, 0.1)), WidthErrors(64, (0.05,)))  # 0.2 on average
    law = power_law(measured, 128, 0.01, "Landmarks")
    assert law.predict(128) == pytest.approx(0.01)
    assert law.predict(256) == pytest.approx(0.0025)
    assert law.interval(256) is None
    assert law.components_for(0.0025) == 256
    assert law.components_for(0.00249) == 257
    assert "from 128 components by a power law, of the rate 2.00 between errors at 32 and 64 components" in law.method


def test_power_law_needs_two_widths():
    for measured in ((WidthErrors(16, (0.5, 0.4)),), (WidthErrors(16, (0.5,)), WidthErrors(32, (0.0,)))):
        with pytest.raises(ParameterError, match=r"errors at two different widths, got errors above zero at \[16\]"):
            power_law(measured, 32, 0.1, "Landmarks")


def test_errors_that_do_not_fall_have_no_number_of_components():
    law = power_law((WidthErrors(16, (0.1,)), WidthErrors(32, (0.1,))), 32, 0.1, "Landmarks")
    assert law.components_for(0.05) is None
    assert law.components_for(0.2) == 1
    slow = power_law((WidthErrors(16, (0.1,)), WidthErrors(32, (0.0999,))), 32, 0.1, "Landmarks")
    assert slow.components_for(1e-3) is None


def test_a_map_without_error_needs_no_more_components():
    law = power_law((WidthErrors(16, (0.1,)), WidthErrors(32, (0.01,))), 64, 0.0, "Landmarks")
    assert (law.predict(128), law.components_for(1e-9)) == (0, 1)


@pytest.mark.parametrize("tol", [0.9, 0.1, 0.011, 1e-4])
def test_components_of_a_known_shape_reach_the_tolerance(tol):
    model = KnownShape("", lambda width: 1 / math.sqrt(width))
    found = model.components_for(tol)
    assert model.predict(found) <= tol
    assert math.ceil(tol**-2) <= found <= 1.005 * math.ceil(tol**-2) + 1
    assert KnownShape("", lambda width: 1.0).components_for(1e-9) is None


def test_closed_forms_are_evaluated_up_to_a_limit():
    asked = []
    model = KnownShape("", lambda width: asked.append(width) or 1 / width)
    assert model.predict(4 * LARGEST_WIDTH) == pytest.approx(0.5 / LARGEST_WIDTH)
    assert model.predict(16 * LARGEST_WIDTH) == pytest.approx(0.25 / LARGEST_WIDTH)
    assert asked == [LARGEST_WIDTH]


def test_interval_covers_new_draws():
    rng = np.random.default_rng(0)
    covered = {1.0: 0, 0.2: 0}
    for _ in range(400):
        errors = np.exp(0.2 * rng.normal(size=6)) / np.sqrt(np.repeat([64, 256], 3))
        measured = (WidthErrors(64, tuple(errors[:3])), WidthErrors(256, tuple(errors[3:])))
        model = KnownShape("", lambda width: 1 / math.sqrt(width), measured)
        center, new = model.predict(1024), math.exp(0.2 * rng.normal()) / 32
        for shrink in covered:
            low, high = (center * (end / center) ** shrink for end in model.interval(1024))
            covered[shrink] += low <= new <= high
    assert binom.ppf(1e-6, 400, 0.95) <= covered[1.0] <= binom.ppf(1 - 1e-6, 400, 0.95)
    assert covered[0.2] < binom.ppf(1e-6, 400, 0.95)


def test_interval_needs_two_draws():
    shape = math.sqrt
    assert KnownShape("", shape).interval(4) is None
    assert KnownShape("", shape, (WidthErrors(4, (0.5,)),)).interval(4) is None
