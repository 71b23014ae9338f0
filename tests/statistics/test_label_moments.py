"""Moments of labels that need not be known before they are seen, against sums over all rows at once."""

import numpy as np
import pytest

from mercer import Gaussian, Polynomial, RandomFourier, RandomMaclaurin
from mercer.engines import Block, MemoryEngine
from mercer.statistics import RowSample, label_moments
from mercer.statistics.label_moments import Labeled, LabelSum
from mercer.statistics.moments import TargetMoments

RNG = np.random.default_rng(0)
X, WEIGHT = RNG.normal(size=(80, 3)), RNG.uniform(0, 2, 80)
LABELS = np.sort(RNG.choice(["ant", "bee", "cat", "dog"], 80))  # blocks bring new ones
MAP = RandomFourier(Gaussian(), 10, random_state=0).fit(X)
Z = MAP.transform(X)


def moments_of(rows=slice(None), start=0, into=None):
    engine = MemoryEngine(X[rows], LABELS[rows], WEIGHT[rows], block_rows=13, n_jobs=1, start=start)
    return engine.accumulate(LabelSum(MAP.features_, seed=3, double=True) if into is None else into)


def signs(labels):
    columns = np.where(LABELS[:, None] == np.array(labels), 1.0, -1.0)
    return columns[:, 1:] if len(labels) == 2 else columns


def check(found, labels=("ant", "bee", "cat", "dog")):
    assert found.labels.tolist() == list(labels)
    assert found.rows == 80
    signed = found.signed()
    expected = TargetMoments.of(Z, signs(labels), WEIGHT)
    for name in ("weight", "feature_sum", "target_mean", "cross", "target_scatter"):
        np.testing.assert_allclose(getattr(signed.targets, name), getattr(expected, name), rtol=1e-10, atol=1e-10)
    upper = np.triu_indices(10)
    np.testing.assert_allclose(signed.about(None)[upper], (Z.T @ (Z * WEIGHT[:, None]))[upper], rtol=1e-10, atol=1e-10)


def test_signed_moments_are_sums_over_rows():
    check(moments_of())


def test_parts_add_up_whatever_labels_they_bring():
    one, two = moments_of(slice(0, 30)), moments_of(slice(30, None), start=30)
    assert set(one.labels) != set(two.labels)
    check(one + two)
    assert np.array_equal((one + two).sample.index, moments_of().sample.index)


def test_a_sum_goes_on_from_a_state():
    into = LabelSum(MAP.features_, seed=3, double=True)
    into.restore(moments_of(slice(0, 30)))
    check(moments_of(slice(30, None), start=30, into=into))


def test_labels_that_were_announced_have_targets_of_minus_one():
    found = moments_of().with_labels(np.array(["ape", "bee"]))
    check(found, labels=("ant", "ape", "bee", "cat", "dog"))
    again = moments_of()
    assert again.labeled.with_labels(np.array(["bee"])) is again.labeled  # nothing new


def test_of_two_labels_one_column_says_all():
    y = np.array([0, 1, 1, 0, 1])
    indicators = np.where(y[:, None] == [0, 1], 1.0, 0.0)
    signed = Labeled(np.array([0, 1]), TargetMoments.of(Z[:5], indicators)).signed()
    expected = TargetMoments.of(Z[:5], np.where(y == 1, 1.0, -1.0)[:, None])
    np.testing.assert_allclose(signed.target_mean, expected.target_mean)
    np.testing.assert_allclose(signed.cross, expected.cross, atol=1e-14)
    np.testing.assert_allclose(signed.target_scatter, expected.target_scatter)


@pytest.mark.parametrize("size", [10, 1000])
def test_the_sample_is_uniform_and_seeded(size, monkeypatch):
    monkeypatch.setattr(label_moments, "CALIBRATION_ROWS", size)
    sample = moments_of().sample
    whole = RowSample.of(Block(0, X, LABELS, WEIGHT), size=size, seed=3)
    assert np.array_equal(sample.index, whole.index)
    assert np.array_equal(sample.y, LABELS[sample.index.astype(int)])
    assert len(sample.index) == min(size, 80)


def test_labels_of_no_weight_are_not_there():
    weight = np.where(LABELS == "bee", 0.0, 1.0)
    engine = MemoryEngine(X, LABELS, weight, block_rows=80, n_jobs=1)
    found = engine.accumulate(LabelSum(MAP.features_, seed=3, double=True))
    assert found.labels.tolist() == ["ant", "cat", "dog"]
    assert found.labeled.targets.weight == weight.sum()


def test_the_coarser_rounding_is_that_of_the_sum():
    fine, coarse = (
        MemoryEngine(X.astype(kind), LABELS, block_rows=80, n_jobs=1).accumulate(
            LabelSum(MAP.features_, seed=3, double=False)
        )
        for kind in (np.float64, np.float32)
    )
    assert fine.roundoff < coarse.roundoff
    assert (fine + coarse).roundoff == (coarse + fine).roundoff == coarse.roundoff


def far_moments(rows, start=0, into=None):
    """Moments of features far from zero, which are taken less a point near them."""
    far = RandomMaclaurin(Polynomial(2, coef0=30.0), 10, random_state=0).fit(X)
    engine = MemoryEngine(X[rows], LABELS[rows], block_rows=13, n_jobs=1, start=start)
    return engine.accumulate(LabelSum(far.features_, seed=3, double=True) if into is None else into(far)), far


def test_far_from_zero_a_sum_goes_on_about_the_same_point():
    first, _ = far_moments(slice(0, 30))
    assert first.shift is not None

    def restored(far):
        into = LabelSum(far.features_, seed=3, double=True)
        into.restore(first)
        return into

    found, far = far_moments(slice(30, None), 30, restored)
    assert np.array_equal(found.shift, first.shift)
    F = far.transform(X)
    upper = np.triu_indices(10)
    np.testing.assert_allclose(found.signed().about(None)[upper], (F.T @ F)[upper], rtol=1e-10)


def test_features_times_a_matrix_have_moments_of_their_own():
    found, far = far_moments(slice(None))
    matrix = np.random.default_rng(1).normal(size=(10, 10)) / 4
    other = found.transformed(matrix)
    F = far.transform(X) @ matrix
    upper = np.triu_indices(10)
    np.testing.assert_allclose(other.signed().about(None)[upper], (F.T @ F)[upper], rtol=1e-8, atol=1e-8)
    expected = TargetMoments.of(F, signs(("ant", "bee", "cat", "dog")))
    for name in ("weight", "feature_sum", "target_mean", "cross", "target_scatter"):
        np.testing.assert_allclose(getattr(other.signed().targets, name), getattr(expected, name), atol=1e-8)
    assert other.sample is found.sample
    # What was rounded is a larger part of features that have shrunk.
    same = found.transformed(1e-3 * np.eye(10)).roundoff  # but for the rounding of this product itself
    assert found.roundoff <= same < 2.1 * found.roundoff
    assert found.transformed(np.diag([1.0, *[1e-6] * 9])).roundoff >= found.roundoff
