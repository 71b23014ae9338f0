import numpy as np
import pandas as pd
import pytest


@pytest.fixture(scope="session")
def frame():
    """Return a table of numbers, categories and dates, with missing cells."""
    rng = np.random.default_rng(0)
    n = 160
    x = rng.uniform(-2, 2, n)
    kind = rng.choice(["red", "green", "blue"], n)
    frame = pd.DataFrame(
        {
            "x": x,
            "kind": kind,
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
            "y": np.sin(2 * x) + (kind == "red") + 0.05 * rng.normal(size=n),
        }
    )
    frame.loc[::10, "x"] = np.nan
    frame.loc[::11, "kind"] = None
    return frame
