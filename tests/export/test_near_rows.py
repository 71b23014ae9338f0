"""Graphs of local corrections search near rows and solve their systems."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import (
    ExportError,
    Gaussian,
    KernelLogisticRegression,
    KernelRidge,
    KernelRidgeClassifier,
    KernelSVC,
    Laplacian,
    LocalCorrection,
    Matern,
    Nystroem,
    RandomFourier,
    ScaledColumns,
    Transformed,
)
from mercer.export.near_rows import dense_points
from mercer.export.program import program_of, reference
from mercer.neighbors import neighbor_index

from .models import LABELS, ROWS, X, Y, differences

pytestmark = pytest.mark.filterwarnings("ignore")  # of few rows, which are not the subject
MAPS = {
    "landmarks": Nystroem(2.5 * Matern(1.5, 0.8), 12),
    "fourier": RandomFourier(Gaussian(0.7), 30),
    "separable": Nystroem(Laplacian(), 10),
    "transformed": Nystroem(Transformed(Matern(0.7), lengthscales=(1.0, 2.0, 0.5)), 10),
    "scaled": ScaledColumns(Nystroem(Matern(2.5, "median"), 10)),
}


@pytest.mark.parametrize("parts", ["global", "local", "both"])
@pytest.mark.parametrize("name", MAPS)
def test_predictions_and_standard_deviations(name, parts):
    model = KernelRidge(MAPS[name], alpha=0.05, neighbors=LocalCorrection(8, parts=parts), random_state=0)
    model.fit(X, np.column_stack([Y, X[:, 1]]), sample_weight=1 + np.arange(60) % 3)
    program = program_of(model, return_std=True)
    found = differences(program, program(ROWS), model, ROWS)
    assert set(found) == {"variable", "std"}
    assert max(found.values()) < 1e-9


@pytest.mark.parametrize("make", [KernelRidgeClassifier, KernelLogisticRegression, KernelSVC])
@pytest.mark.parametrize("parts", ["local", "both"])
def test_labels(make, parts):
    model = make(MAPS["landmarks"], neighbors=LocalCorrection(6, parts=parts), random_state=0).fit(X, LABELS)
    program = program_of(model)
    found = differences(program, program(ROWS), model, ROWS)
    assert set(found) == {"scores", "probabilities"}
    assert max(found.values()) < 1e-9


def test_more_neighbors_than_rows_and_targets_in_large_units():
    model = KernelRidge(Gaussian(), alpha=0.1, neighbors=LocalCorrection(100, parts="local"), random_state=0)
    model.fit(X, 1e200 * Y)
    program = program_of(model)
    truth = model.predict(ROWS)
    assert np.abs(program(ROWS)["variable"][:, 0] / 1e200 - truth / 1e200).max() < 1e-10


def test_approximate_searches_are_exported_as_exact_ones():
    model = KernelRidge(Gaussian(), alpha=0.1, neighbors=LocalCorrection(8, parts="local"), random_state=0).fit(X, Y)
    problem = model.local_.model.problem
    index = neighbor_index(problem.points, search="approximate")
    model.local_ = replace(model.local_, model=replace(model.local_.model, problem=replace(problem, index=index)))
    assert reference(model).local_.model.problem.index.search == "exact"
    assert model.local_.model.problem.index.search == "approximate"
    program = program_of(model)
    assert max(differences(program, program(ROWS), model, ROWS).values()) < 1e-10


def test_rows_in_their_source_cannot_be_exported():
    model = KernelRidge(Gaussian(), neighbors=LocalCorrection(6, parts="local", rows="source"), random_state=0)
    with pytest.raises(ExportError, match=r"its rows are not a part of the model.*rows='model'"):
        program_of(model.fit(X, Y))


def test_wide_sparse_rows():
    rows = sp.random_array((50, 3000), density=0.01, random_state=0, format="csr")
    y = np.asarray(rows.sum(axis=1)).ravel()
    model = KernelRidge(Nystroem(Matern(2.5, "median"), 10, random_state=0), alpha=0.1, neighbors=5).fit(rows, y)
    program = program_of(model)
    assert program(rows[:9].toarray())["variable"][:, 0] == pytest.approx(model.predict(rows[:9]), abs=1e-9)
    with pytest.raises(ExportError, match="as a dense array they would have more than"):
        dense_points(sp.csr_array((100_000, 10_000)))
