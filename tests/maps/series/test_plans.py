"""Degree plans: distributions of degrees, predicted errors, and the table of a plan."""

import numpy as np
import pytest

from mercer.maps.series.plans import DegreeDistribution, Plan, Stratum

N = np.arange(200)


@pytest.mark.parametrize("p", [1.5, 2.0, 3.0])
@pytest.mark.parametrize("start", [0, 2, 5])
def test_geometric_distribution_is_normalized_for_every_base(p, start):
    probabilities = DegreeDistribution.geometric(p, start).probability(N)
    assert probabilities.sum() == pytest.approx(1)
    assert (probabilities[:start] == 0).all()
    # The weights 1 / p^(n + 1) of Kar and Karnick (2012, AISTATS) are normalized only for p = 2.
    np.testing.assert_allclose(probabilities[start:], (p - 1) * p ** -(N[start:] - start + 1.0))


DISTRIBUTIONS = [
    DegreeDistribution.geometric(1.5, 0),
    DegreeDistribution.geometric(3.0, 2),
    DegreeDistribution(np.array([1, 3]), np.array([0.25, 0.75])),
    DegreeDistribution(np.arange(3), np.array([0.0, 0.6, 0.3]), 2.0, 0.1),
    DegreeDistribution(np.arange(2), np.array([0.5, 0.3]), 1.25, 0.2),
]


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_drawn_degrees_have_the_stated_probabilities(distribution):
    assert distribution.probability(N).sum() == pytest.approx(1)
    n = 100_000
    drawn = distribution.draw(n, np.random.default_rng(0))
    frequencies = np.bincount(np.minimum(drawn, 199), minlength=200) / n
    # Bernstein's inequality for 200 frequencies with failure probability 1e-9.
    log = np.log(2 * 200 / 1e-9)
    radius = np.sqrt(2 * distribution.probability(N) * log / n) + log / n
    assert (np.abs(frequencies - distribution.probability(N))[:199] <= radius[:199]).all()
    wrong = np.roll(distribution.probability(N), 1)
    assert (np.abs(frequencies - wrong) > radius).any()


PLAN = Plan(
    "truncated",
    (
        Stratum(0, "exact", (0,), 1),
        Stratum(0, "sketched", (1,), 5, squared_error=0.09),
        Stratum(0, "random", (2, 3), 4, DegreeDistribution.geometric(2.0, 2), 0.16),
    ),
    12,
    truncation=1.2,
    truncation_bound=2.5,
    scale=2.6,
)


def test_predicted_rmse_combines_the_variances_of_the_strata_and_the_bias():
    assert PLAN.n_components_used == 10
    assert PLAN.predicted_deviation == pytest.approx(0.5)
    assert PLAN.predicted_rmse == pytest.approx(1.3)
    assert PLAN.predicted_relative_error == pytest.approx(0.5)
    assert Plan("optimal", (), 3, scale=0.0).predicted_relative_error == 0.0


def test_plan_as_dictionary_and_as_table():
    values = PLAN.to_dict()
    assert values["n_components_used"] == 10
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
