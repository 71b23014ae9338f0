"""Degree plans: the law of degrees and what a plan says of itself."""

import numpy as np
import pytest

from mercer.maps.series.plans import DegreeLaw, Plan, Stratum

N = np.arange(200)


@pytest.mark.parametrize("p", [1.5, 2.0, 3.0])
@pytest.mark.parametrize("start", [0, 2, 5])
def test_the_geometric_law_is_normalized_for_every_base(p, start):
    law = DegreeLaw.geometric(p, start)
    chances = law.chance(N)
    assert chances.sum() == pytest.approx(1)
    assert (chances[:start] == 0).all()
    # The source's law, P[N = n] = 1 / p^(n + 1), is one only for p = 2 (MATHS S0.7).
    np.testing.assert_allclose(chances[start:], (p - 1) * p ** -(N[start:] - start + 1.0))


LAWS = [
    DegreeLaw.geometric(1.5, 0),
    DegreeLaw.geometric(3.0, 2),
    DegreeLaw(np.array([1, 3]), np.array([0.25, 0.75])),
    DegreeLaw(np.arange(3), np.array([0.0, 0.6, 0.3]), 2.0, 0.1),
    DegreeLaw(np.arange(2), np.array([0.5, 0.3]), 1.25, 0.2),
]


@pytest.mark.parametrize("law", LAWS)
def test_degrees_are_drawn_by_their_chances(law):
    assert law.chance(N).sum() == pytest.approx(1)
    n = 100_000
    drawn = law.draw(n, np.random.default_rng(0))
    frequencies = np.bincount(np.minimum(drawn, 199), minlength=200) / n
    # Bernstein's inequality for 200 frequencies at a failure of 1e-9.
    log = np.log(2 * 200 / 1e-9)
    radius = np.sqrt(2 * law.chance(N) * log / n) + log / n
    assert (np.abs(frequencies - law.chance(N))[:199] <= radius[:199]).all()
    wrong = np.roll(law.chance(N), 1)
    assert (np.abs(frequencies - wrong) > radius).any()


PLAN = Plan(
    "truncated",
    (
        Stratum(0, "exact", (0,), 1),
        Stratum(0, "sketched", (1,), 5, squared_error=0.09),
        Stratum(0, "random", (2, 3), 4, DegreeLaw.geometric(2.0, 2), 0.16),
    ),
    12,
    truncation=1.2,
    truncation_bound=2.5,
    scale=2.6,
)


def test_errors_of_strata_add_up_as_variances_and_the_bias_on_top():
    assert PLAN.columns_used == 10
    assert PLAN.predicted_deviation == pytest.approx(0.5)
    assert PLAN.predicted_rmse == pytest.approx(1.3)
    assert PLAN.predicted_relative_error == pytest.approx(0.5)
    assert Plan("optimal", (), 3, scale=0.0).predicted_relative_error == 0.0


def test_a_plan_is_plain_values_and_a_table():
    values = PLAN.to_dict()
    assert values["columns_used"] == 10
    assert [s["kind"] for s in values["strata"]] == ["exact", "sketched", "random"]
    assert values["strata"][1]["predicted_rmse"] == pytest.approx(0.3)
    lines = str(PLAN).splitlines()
    assert [line.split()[0] for line in lines] == ["degree", "0", "1", "2", "all", "bias"]
    assert lines[3].split()[:5] == ["2", "and", "up", "4", "random"]
    assert lines[4].split()[1] == "10"
    assert "0.5 of the kernel" in lines[4]
    assert "1.2 on average, at most 2.5" in lines[5]
    two = Plan("optimal", (Stratum(0, "exact", (0,), 1), Stratum(1, "exact", (1,), 3)), 4)
    assert str(two).splitlines()[0].startswith("part")
