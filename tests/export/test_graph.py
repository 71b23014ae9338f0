"""Values fold constants, keep shapes, and are ordered before they are used."""

import numpy as np
import pytest

from mercer.export import graph as g
from mercer.export.runtime import interpolate, nearest, piecewise_polynomial


def test_constants_are_computed_at_once():
    value = g.exp(g.constant([0.0, 1.0])) * 2 + 1
    assert value.is_constant
    assert value.example == pytest.approx(2 * np.exp([0.0, 1.0]) + 1)
    assert not (g.rows(2) + value).is_constant
    assert not g.exp(g.parameter([1.0], "a")).is_constant


def test_operations_with_neutral_numbers_are_left_out():
    X = g.rows(3)
    assert (X + 0.0) is X
    assert (1.0 * X) is X
    assert X / 1 is X
    assert (X - 1).op == "subtract"


def test_values_come_after_their_inputs():
    X = g.rows(3)
    shared = g.exp(X)
    out = g.concatenate([shared, g.cos(shared), g.constant([1.0])])
    values = g.ordered([out, shared])
    positions = {id(value): i for i, value in enumerate(values)}
    assert len(positions) == len(values)
    assert all(positions[id(one)] < positions[id(value)] for value in values for one in value.inputs)
    assert out.shape == (2, 7)
    assert out.is_batched


def test_arrays_on_the_left_of_operators():
    value = np.ones((4, 3)) @ g.reshape(g.rows(6), 3, 2)
    assert value.shape == (2, 4, 2)
    assert (np.ones(6) - g.rows(6)).op == "subtract"


def test_confused_axes_raise():
    with pytest.raises(ValueError, match=r"matmul|shapes"):
        g.rows(3) @ np.ones((4, 2))


def test_helpers():
    squares = np.random.default_rng(0).normal(size=(5, 9))
    found = np.sort(np.take_along_axis(squares, nearest(squares, 4), axis=1), axis=1)
    assert found.tolist() == np.sort(squares, axis=1)[:, :4].tolist()
    assert nearest(squares, 9).shape == (5, 9)
    assert interpolate(np.array([-1.0, 0.25, 9.0]), [0.0, 1.0], [0.0, 2.0]).tolist() == [0.0, 0.5, 2.0]
    table = np.array([[1.0, 0.0], [1.0, 1.0]])  # 1 on [1, 2], and x - 2 on [2, 4]
    assert piecewise_polynomial(np.array([1.0, 1.5, 2.0, 3.0]), table, 0).tolist() == [1.0, 1.0, 0.0, 1.0]
