"""Left-out decision values against refits, and the selection of settings."""

from dataclasses import replace

import numpy as np
import pytest

from mercer.solvers.few_labels.selection import (
    MANY_PENALTIES,
    PENALTIES,
    FewLabels,
    Parts,
    Setting,
    SettingGrid,
    balanced_folds,
    coefficients,
    fit_setting,
    largest_eigenvalue,
    left_out_values,
    raw_gram,
    row_losses,
    select,
)


def problem(m=24, D=9, K=3, seed=0):
    rng = np.random.default_rng(seed)
    codes = np.arange(m) % K
    Z = rng.normal(size=(m, D)) + 1.5 * np.eye(D)[codes]
    return FewLabels.of(Z, codes, K, np.ones(m))


def test_classes_have_equal_weights_and_targets_of_mean_zero():
    labels = FewLabels.of(np.zeros((5, 2)), np.array([0, 0, 0, 0, 1]), 2, np.ones(5))
    assert np.bincount(labels.codes, labels.weight) == pytest.approx([2.5, 2.5])
    assert labels.weight @ labels.targets() == pytest.approx([0.0, 0.0])


def test_each_fold_has_at_most_one_label_of_each_class():
    codes = np.repeat([0, 1, 2], [4, 2, 3])
    folds = balanced_folds(codes)
    for code in range(3):
        own = folds[codes == code]
        assert len(set(own.tolist())) == len(own)
    many = balanced_folds(np.repeat([0, 1], 100))
    assert np.bincount(many).tolist() == [20] * 10


@pytest.mark.parametrize(("m", "D"), [(12, 20), (30, 5)])
def test_left_out_values_are_those_of_refits_without_the_fold(m, D):
    labels = problem(m, D)
    factors = np.linspace(1.0, 0.3, D)
    folds = balanced_folds(labels.codes)
    for penalty, found in zip((1e-3, 10.0), left_out_values(labels, factors, (1e-3, 10.0), folds), strict=True):
        gram = (np.sqrt(labels.weight)[:, None] * labels.Z * factors) @ (
            np.sqrt(labels.weight)[:, None] * labels.Z * factors
        ).T
        ridge = penalty * np.linalg.eigvalsh(gram)[-1]
        for fold in np.unique(folds):
            used, held = folds != fold, folds == fold
            Z, W, Y = labels.Z[used] * factors, labels.weight[used], labels.targets()[used]
            coef = np.linalg.solve((Z.T * W) @ Z + ridge * np.eye(D), (Z.T * W) @ Y)
            expected = (labels.Z[held] * factors) @ coef * (1 + penalty)
            assert found[held] == pytest.approx(expected, abs=1e-8)


def test_a_large_penalty_is_the_source_term_of_poisson_learning():
    labels = problem()
    factors = np.ones(9)
    _, coef = next(coefficients(labels, factors, (1e6,)))
    source = labels.Z.T @ (labels.weight[:, None] * labels.targets())
    gram = labels.Z.T @ (labels.weight[:, None] * labels.Z)
    assert coef == pytest.approx(source / np.linalg.eigvalsh(gram)[-1], rel=1e-4, abs=1e-6)


def test_factors_make_both_kernels_of_mean_one_and_leave_out_the_constant():
    values = np.array([0.0, 0.1, 0.4])
    parts = Parts(values, 5, np.array([1.0, 2.0, 3.0]), other_mean=4.0)
    factors = parts.factors(10.0, 2.0, 0.25)
    assert factors[0] == 0.0
    assert np.square(factors[:3]) @ [1.0, 2.0, 3.0] == pytest.approx(0.25)
    assert factors[3] ** 2 * 4.0 == pytest.approx(0.75)
    assert (factors[1] / factors[2]) ** 2 == pytest.approx((1 + 10 * 16) / (1 + 10))
    apart = Parts(values, 3, np.ones(3), connected=False)
    assert apart.factors(10.0, 2.0, 1.0)[0] > 0


def test_one_label_per_class_has_the_default_setting():
    labels = problem(3)
    found = select(labels, Parts(np.linspace(0, 1, 9), 9, np.ones(9)), SettingGrid())
    assert found.setting == Setting(10.0, 2.0, 1.0, 0.1)
    assert found.left_out is None
    assert np.isnan(found.loss)


def test_selection_prefers_the_part_that_predicts_labels():
    rng = np.random.default_rng(0)
    codes = np.arange(60) % 3
    noise, signal = 5.0 * rng.normal(size=(60, 6)), np.eye(3)[codes] + 0.5 * rng.normal(size=(60, 3))
    parts = Parts(np.linspace(0, 1, 6), 9, np.ones(6), other_mean=1.0)
    labels = FewLabels.of(np.hstack([noise, signal]), codes, 3, np.ones(60))
    grid = SettingGrid(balances=(0.0, 0.5, 1.0))
    found = select(labels, parts, grid)
    assert found.setting.balance == 0.0
    assert found.loss < found.default_loss
    swapped = FewLabels.of(np.hstack([signal, signal, noise[:, :3]]), codes, 3, np.ones(60))
    assert select(swapped, parts, grid).setting.balance > 0.0


def learned_slowly(m):
    """Labels that three components predict at once with many errors, and forty others from many labels on."""
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 3, m)
    quick = np.eye(3)[np.where(rng.random(m) < 0.6, rng.integers(0, 3, m), codes)]
    directions = rng.normal(size=(3, 40))
    slow = directions[codes] + 3.0 * rng.normal(size=(m, 40))
    Z = np.hstack([quick, slow])
    return FewLabels.of(Z, codes, 3, np.ones(m)), Parts(np.array([0.0, 0.1, 0.1]), 43, np.ones(3), 360.0, False)


def test_of_many_labels_the_search_goes_on_with_all_of_them(monkeypatch):
    labels, parts = learned_slowly(600)
    monkeypatch.setattr("mercer.solvers.few_labels.selection.MOST_COMPARED", 20)
    grid = SettingGrid(strengths=(1.0,), powers=(1.0,), balances=(0.0, 0.1, 0.5, 0.9, 1.0))
    sample = np.random.default_rng(0).permutation(600)[:20]
    few = FewLabels.of(labels.Z[sample], labels.codes[sample], 3, labels.weight[sample])
    assert select(few, parts, grid).setting.balance > select(labels, parts, grid).setting.balance
    found = select(labels, parts, grid).setting

    def held_out_loss(setting):
        folds = balanced_folds(labels.codes, 0)
        held, used = labels[np.flatnonzero(folds == 0)], np.flatnonzero(folds != 0)
        rest = FewLabels.of(labels.Z[used], labels.codes[used], 3, labels.weight[used])
        return held.weight @ row_losses(held.Z @ fit_setting(rest, parts, setting), held.codes)

    best = held_out_loss(found)
    at = grid.balances.index(found.balance)
    for balance in grid.balances[max(0, at - 1) : at + 2]:
        assert best <= held_out_loss(replace(found, balance=balance)) * (1 + 1e-9)
    for penalty in MANY_PENALTIES:
        if 0.09 < penalty / found.penalty < 11:
            assert best <= held_out_loss(replace(found, penalty=penalty)) * (1 + 1e-9)


@pytest.mark.parametrize(("m", "D"), [(12, 20), (30, 5)])
def test_coefficients_from_a_gram_matrix_without_factors_are_equal(m, D):
    labels = problem(m, D)
    factors = np.linspace(0.0, 2.0, D)
    for (_, coef), (_, from_gram) in zip(
        coefficients(labels, factors, (1e-2, 1.0)),
        coefficients(labels, factors, (1e-2, 1.0), raw_gram(labels)),
        strict=True,
    ):
        assert from_gram == pytest.approx(coef, abs=1e-10)


def test_the_largest_eigenvalue_of_a_large_gram_matrix_is_that_of_a_dense_decomposition():
    Z = np.random.default_rng(0).normal(size=(900, 600))
    assert largest_eigenvalue(Z.T @ Z) == pytest.approx(np.linalg.norm(Z, 2) ** 2, rel=1e-9)
    assert largest_eigenvalue(np.zeros((600, 600))) > 0


def test_labels_select_a_prefix_of_the_eigenvectors():
    """The last eigenvectors are noise that is as large as the first ones: power and strength cannot remove it."""
    rng = np.random.default_rng(0)
    codes = np.arange(60) % 3
    signal, noise = np.eye(3)[codes] + 0.1 * rng.normal(size=(60, 3)), 3.0 * rng.normal(size=(60, 9))
    labels = FewLabels.of(np.hstack([signal, noise]), codes, 3, np.ones(60))
    parts = Parts(np.concatenate([[0.0], np.full(11, 0.1)]), 12, np.ones(12), connected=False)
    found = select(labels, parts, SettingGrid(components=(None, 6, 3)))
    assert found.setting.components == 3
    factors = parts.factors(1.0, 1.0, 1.0, 3)
    assert (factors[3:] == 0).all()
    assert np.square(factors).sum() == pytest.approx(1.0)
    assert found.loss < select(labels, parts, SettingGrid()).loss


@pytest.mark.parametrize("balances", [(0.0,), (0.0, 0.5, 1.0)])
def test_a_search_on_all_labels_may_leave_the_compared_candidates(balances, monkeypatch):
    labels, parts = learned_slowly(600)
    monkeypatch.setattr("mercer.solvers.few_labels.selection.MOST_COMPARED", 100)
    found = select(labels, parts, SettingGrid(penalties=PENALTIES, balances=balances, components=(None, 2)))
    assert found.setting.penalty in MANY_PENALTIES
    assert 0 < found.loss < np.log(3)
