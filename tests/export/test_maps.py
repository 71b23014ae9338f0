"""Graphs of maps compute the features of the maps."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from mercer import ExportError, Gaussian, Nystroem, RandomFourier
from mercer.export import graph as g
from mercer.export.maps import Lengthscales, features_of_rows
from mercer.export.program import program_of
from mercer.features import Features, features_of

from ..instances import MAPS
from .models import ROWS, X, differences, fitted, is_of_graph, name_of

pytestmark = pytest.mark.filterwarnings("ignore")  # of few rows, which are not the subject


@pytest.mark.covering(1, model=type)
@pytest.mark.parametrize("model", [m for m in MAPS if not is_of_graph(m)], ids=name_of)
def test_features_are_those_of_the_map(model):
    model = fitted(model)
    program = program_of(model)
    found = differences(program, program(ROWS), model, ROWS)
    assert max(found.values()) < 1e-10


@pytest.mark.parametrize("directions", ["butterfly", "hadamard"])
@pytest.mark.parametrize("d", [1, 5, 40, 300])
def test_structured_projections_of_any_width(directions, d):
    rows = np.random.default_rng(0).normal(size=(7, d))
    model = RandomFourier(Gaussian(3.0), 400, directions=directions, random_state=0).fit(rows)
    assert program_of(model)(rows)["variable"] == pytest.approx(model.transform(rows), abs=1e-11)


def test_features_without_a_formula_say_how_to_register_one():
    @dataclass(frozen=True, eq=False)
    class Roots(Features):
        n_components: int = 3

        def astype(self, dtype):
            return self

        def __call__(self, X, out):
            out[...] = np.sqrt(X)

    with pytest.raises(ExportError, match=r"Roots cannot be exported.*features_of_rows.register"):
        features_of_rows(Roots(), g.rows(3))
    features_of_rows.register(Roots, lambda features, X, scales=None: g.sqrt(X))
    assert features_of_rows(Roots(), g.rows(3)).op == "sqrt"


@pytest.mark.parametrize("kernel", [Gaussian(0.7), 2.0 * Gaussian(0.7) + 0.5], ids=repr)
def test_lengthscales_divide_inputs_and_whiten_landmarks_again(kernel):
    factors = np.array([0.5, 1.0, 3.0])
    model = Nystroem(kernel, 12, random_state=0).fit(X)
    scales = Lengthscales()
    rows = g.rows(3)
    value = features_of_rows(model.features_, rows, scales)
    results = {}
    for one in g.ordered([value]):
        if one.op == "rows":
            results[id(one)] = ROWS
        elif one.op == "parameter":
            results[id(one)] = np.log(factors)
        elif one.is_constant:
            results[id(one)] = one.example
        else:
            results[id(one)] = g.OPERATIONS[one.op](*(results[id(i)] for i in one.inputs), **one.options)
    Z = results[id(value)]
    if kernel == Gaussian(0.7):
        other = features_of(model.features_.lengthscales.multiplied(factors), ROWS)
        assert Z @ Z.T == pytest.approx(other @ other.T, abs=1e-9)
    same = replace(model.features_)
    assert features_of(same, ROWS).shape == Z.shape
