"""Products with triangular matrices."""

import numpy as np
import pytest

from mercer.linalg import triangular


@pytest.mark.parametrize("panel", [512, 7])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_product_with_a_triangle_ignores_the_lower_part(panel, dtype, monkeypatch):
    monkeypatch.setattr(triangular, "PANEL", panel)
    rng = np.random.default_rng(0)
    values, triangle = rng.normal(size=(5, 30)).astype(dtype), np.triu(rng.normal(size=(30, 30))).astype(dtype)
    out = np.full((5, 30), np.nan, dtype)
    triangular.times_triangle(values, triangle, out)
    np.testing.assert_allclose(out, values @ triangle, atol=1e-12 if dtype == np.float64 else 1e-4)
