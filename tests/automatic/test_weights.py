"""Weights of members against general optimizers."""

import numpy as np
import pytest
from scipy import special
from scipy.optimize import minimize

from mercer.automatic.search import (
    Attempt,
    Effort,
    Option,
    Rows,
    more_near_rows,
    trusted_line,
    weighted,
    without_negligible,
)
from mercer.automatic.weights import (
    crossed_predictions,
    label_weights,
    label_weights_and_offsets,
    number_weights,
    trusted_share,
)
from mercer.kernels import Gaussian, Matern
from mercer.tables.column_functions import PlainColumns


def test_number_weights_minimize_the_squared_error():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(400, 2))
    predictions = truth + rng.normal(size=(4, 400, 2)) * np.array([0.1, 0.2, 0.4, 2.0])[:, None, None]
    weight = rng.uniform(0.5, 2, 400)
    found = number_weights(predictions, truth, weight)

    def loss(w):
        errors = np.einsum("c,cmt->mt", w, predictions) - truth
        return np.average(np.square(errors).mean(axis=1), weights=weight)

    best = minimize(
        loss, np.full(4, 0.25), bounds=[(0, 1)] * 4, constraints={"type": "eq", "fun": lambda w: w.sum() - 1}
    )
    assert found.sum() == pytest.approx(1)
    assert found.min() >= 0
    assert loss(found) <= best.fun * 1.01  # the penalty moves weights towards each other
    assert loss(found) < 0.9 * min(loss(row) for row in np.eye(4))


def test_equal_members_have_equal_weights():
    truth = np.random.default_rng(1).normal(size=(50, 1))
    found = number_weights(np.stack([truth + 0.1, truth + 0.1, truth - 5]), truth, np.ones(50))
    assert found[0] == pytest.approx(found[1], abs=1e-6)


def test_label_weights_minimize_the_logarithmic_loss():
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 3, 500)
    clean = np.eye(3)[codes]
    predictions = np.stack([clean + rng.normal(size=(500, 3)) * noise for noise in (0.6, 0.8, 5.0)])
    found = label_weights(predictions, clean, np.ones(500), 8.0)

    def loss(v):
        logits = np.einsum("c,cmk->mk", v, predictions)
        return -special.log_softmax(logits, axis=1)[np.arange(500), codes].mean()

    best = minimize(loss, np.ones(3), bounds=[(0, None)] * 3)
    assert found.min() >= 0
    assert loss(found) <= best.fun + 0.005
    assert found[2] < 0.1 * found.sum()


def test_label_weights_stay_finite_for_separated_labels():
    codes = np.arange(40) % 2
    found = label_weights(np.eye(2)[codes][None], np.eye(2)[codes], np.ones(40), 8.0)
    assert 1 < found[0] < 100


def test_offsets_correct_labels_of_different_frequency():
    rng = np.random.default_rng(3)
    logits = rng.normal(size=4000) * 2 - 2
    codes = (rng.uniform(size=4000) < special.expit(logits)).astype(int)
    predictions = np.stack([-logits / 2, logits / 2], axis=1)[None] + np.array([0.0, 1.5])
    factors, offsets = label_weights_and_offsets(predictions, np.eye(2)[codes], np.ones(4000), 8.0)
    assert factors[0] == pytest.approx(1, abs=0.15)
    assert offsets[1] - offsets[0] == pytest.approx(-1.5, abs=0.3)


def test_offsets_are_zero_where_they_gain_nothing():
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 5, 300)
    predictions = (np.eye(5)[codes] + 0.5 * rng.normal(size=(300, 5)))[None]
    assert (label_weights_and_offsets(predictions, np.eye(5)[codes], np.ones(300), 8.0)[1] == 0).all()


def least_squares_loss(predictions, targets):
    """Return the loss of some members at their weights, as the search computes it."""

    def loss(some):
        weights = number_weights(predictions[some], targets, np.ones(len(targets)))
        return float(np.sqrt(np.mean(np.square(np.tensordot(weights, predictions[some], 1) - targets))))

    return loss


def test_members_that_add_next_to_nothing_are_left_out():
    rng = np.random.default_rng(0)
    targets = rng.normal(size=(400, 1))
    one, other = targets + 0.3 * rng.normal(size=(2, 400, 1))
    copy = one + 0.001 * rng.normal(size=(400, 1))
    loss = least_squares_loss(np.stack([one, copy, other]), targets)
    kept = without_negligible([0, 1, 2], [False] * 3, loss)
    # The mean of two independent members has an error lower by a factor of sqrt(2), but a copy adds nothing.
    assert 2 in kept
    assert len(kept) == 2
    assert loss(kept) <= 1.005 * loss([0, 1, 2])
    assert loss([0, 1]) > 1.2 * loss(kept)  # the twin: leaving out another one would cost much


def test_lines_and_the_last_member_are_not_left_out():
    targets = np.random.default_rng(0).normal(size=(100, 1))
    loss = least_squares_loss(np.stack([targets + 0.1, targets + 0.1]), targets)
    assert without_negligible([0, 1], [False, True], loss) == [0, 1]
    assert len(without_negligible([0, 1], [False, False], loss)) == 1


def test_a_gain_is_trusted_as_far_as_all_rows_agree():
    rng = np.random.default_rng(0)
    gain = rng.normal(size=(400, 1))
    ones, rows = np.ones(400), np.arange(400)
    # The factor of least squares is 0.5, with a standard error of 0.1 / sqrt(400), so 1 - (s / b)^2 is 0.9999.
    assert trusted_share(gain, 0.5 * gain + 0.1 * rng.normal(size=(400, 1)), ones, rows) == pytest.approx(0.5, abs=0.02)
    assert trusted_share(gain, gain, ones, rows) == 1
    assert trusted_share(gain, -gain, ones, rows) == 0
    # One target far from all others, in the direction of the gain: least squares would take all of it.
    far = np.zeros((400, 1))
    far[7] = 1e3 * np.sign(gain[7])
    assert trusted_share(gain, far, ones, rows) < 0.01
    # The same if that row has nearly all of the gain, and if it was held out several times.
    large = 1e-6 * gain
    large[7] = far[7]
    assert trusted_share(large, far, ones, rows) < 0.01
    again = np.repeat(np.arange(400), 4)
    assert trusted_share(gain[again], far[again], np.ones(1600), again) < 0.01


def test_weights_do_not_depend_on_units():
    rng = np.random.default_rng(1)
    gain, truth = rng.normal(size=(2, 50, 1))
    share = trusted_share(gain, truth + gain, np.ones(50), np.arange(50))
    assert 0 < share < 1
    assert trusted_share(1e9 * gain, 1e9 * (truth + gain), np.full(50, 7.0), np.arange(50)) == pytest.approx(share)


def test_crossed_predictions_use_weights_of_other_rows():
    rng = np.random.default_rng(0)
    targets = rng.normal(size=(60, 1))
    members = np.stack([targets + 0.5 * rng.normal(size=(60, 1)), rng.normal(size=(60, 1))])
    rows = np.repeat(np.arange(30), 2)
    before = crossed_predictions(members, targets, np.ones(60), rows)
    other = targets.copy()
    other[:2] = 1e3  # both entries of the first row
    after = crossed_predictions(members, other, np.ones(60), rows)
    share = rows % 5 == 0
    np.testing.assert_array_equal(before[share], after[share])
    assert np.abs(before[~share] - after[~share]).min() > 0


def test_lines_are_compared_with_a_constant_on_all_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    plain = PlainColumns.unchanged(3)
    ones = np.ones(1)
    clear = Rows(X, X[:, :1] + 5.0, None, labels=False)
    assert trusted_line(plain, clear, ones) == pytest.approx(1, abs=1e-6)
    # One target far from all others, and noise that does not depend on X in ten draws: b is negative, or not larger
    # than its standard error, except in one case of six.
    far = clear.targets.copy()
    far[3] = 1e4
    assert trusted_line(plain, Rows(X, far, None, labels=False), ones) < 0.05
    noise = [trusted_line(plain, Rows(X, rng.normal(size=(100, 1)), None, labels=False), ones) for _ in range(10)]
    assert np.median(noise) == 0
    wide = PlainColumns.unchanged(4000)
    assert trusted_line(wide, Rows(np.zeros((20, 4000)), np.zeros((20, 1)), None, labels=False), ones) is None


def found_with_two_kinds(predictions, targets, n_parts, members):
    """Return what a search finds if two kinds of metrics predict the same rows in some parts."""
    rows = Rows(np.zeros((len(targets), 2)), targets, None, labels=False)
    attempts = []
    for part, held in enumerate(np.array_split(np.arange(len(targets)), n_parts)):
        options = tuple(
            Option(kernel, name, "diagonal", float(np.mean(np.square(values[held] - targets[held]))), values[held])
            for kernel, name, values in zip(
                (Gaussian(), Matern(0.5)), ("Gaussian", "Matern 0.5"), predictions, strict=True
            )
        )
        plain = PlainColumns.unchanged(2)
        attempts.append(
            Attempt(
                "spread",
                plain,
                part,
                len(targets),
                options,
                np.ones(len(held)),
                held,
                targets[held],
                np.ones(len(held)),
                1.0,
            )
        )
    found = weighted(attempts, attempts, rows, Effort(len(targets), n_parts, members))
    return [member.name.split(",")[0] for member in found.members]


def test_kinds_that_differ_are_kept_however_many_parts_there_are():
    rng = np.random.default_rng(0)
    targets = rng.normal(size=(640, 1))
    # Divided by the variance of the sum, so that a mean with the constant is no better.
    different = (targets + 0.3 * rng.normal(size=(2, 640, 1))) / 1.09
    for n_parts, members, of_each in [(1, 4, 1), (4, 6, 3), (16, 8, 4), (16, 2, 1)]:
        assert sorted(found_with_two_kinds(different, targets, n_parts, members)) == (
            ["Gaussian"] * of_each + ["Matern 0.5"] * of_each
        )
    # The twin: of two kinds with equal predictions only one is kept, and all members are parts of it.
    equal = np.stack([different[0], different[0]])
    assert len(set(found_with_two_kinds(equal, targets, 16, 8))) == 1
    assert len(found_with_two_kinds(equal, targets, 16, 8)) == 8


@pytest.mark.parametrize("d", [32, 57, 100, 284, 500, 4096])
def test_more_near_rows_of_wide_rows_cost_a_bounded_number_of_products(d):
    def products(k):
        return k * k * d + k**3 / 3  # distances between near rows, and the factorization of their kernel matrix

    chosen = more_near_rows(d)
    assert 64 <= chosen <= 192
    assert chosen == 64 or products(chosen) <= 5e6
    # It is the largest such number: the next one is too many, or costs more.
    assert chosen == 192 or products(chosen + 16) > 5e6
