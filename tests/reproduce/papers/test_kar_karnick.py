"""Splits of the table of Kar and Karnick: scaled by training rows, labels of two kinds, codes of nominal columns."""

import numpy as np

from mercer.reproduce.papers.kar_karnick import COLUMNS, binary, candidates, draw, kernel_of, rows_of


def test_rows_are_scaled_by_the_training_rows():
    rng = np.random.default_rng(0)
    X = rng.lognormal(size=(500, 4)) * [1, 10, 1e3, 0] + 7
    split = draw(X, rng.integers(5, size=500), 0, quick=False)
    assert len(split.X) == 300
    assert len(split.X_test) == 200
    np.testing.assert_allclose(np.linalg.norm(split.X, axis=1).max(), 1.0)
    assert split.X.min() == 0.0
    np.testing.assert_array_equal(split.X[:, 3], 0.0)
    assert set(np.unique(split.y)) == {-1, 1}
    part = split.held_out()
    assert len(part.X) == 200
    np.testing.assert_array_equal(part.X_test, split.X[200:])


def test_labels_of_many_classes_are_halved_and_never_one_sided():
    y = np.repeat(np.arange(7), [400, 5, 5, 5, 5, 5, 75])
    for seed in range(20):
        share = (binary(y, np.random.default_rng(seed)) > 0).mean()
        assert 0.1 <= share <= 0.9


def test_nursery_has_one_column_of_codes_per_attribute(tmp_path):
    names = ["a=x", "a=y", "a=z", "b=no", "b=yes"]
    X = np.array([[0, 0, 1, 1, 0], [1, 0, 0, 0, 1]])
    np.savez(tmp_path / "nursery.npz", X=X, y=[0, 1], feature_names=names)
    codes, _ = rows_of(tmp_path, "nursery")
    assert codes.tolist() == [[2, 0], [0, 1]]


def test_no_candidate_has_more_columns_than_the_paper():
    X = np.random.default_rng(0).normal(size=(200, 8)) / 5
    kernel = kernel_of("exp", X)
    for method in ("geometric", "ours"):
        for one in candidates(method, "Nursery", kernel, 8, 0):
            assert one.fit(X).transform(X).shape[1] <= COLUMNS["Nursery"][0]
    (linear,) = candidates("h01", "Nursery", kernel, 8, 0)
    assert linear.n_components == 1 + 8 + COLUMNS["Nursery"][1]
