"""Measurements of the demo."""

import dataclasses
import json

import numpy as np
import pytest

from mercer import Gaussian, ParameterError, RandomFourier, audit
from mercer.diagnostics.demo import run_demo
from mercer.diagnostics.demo.chosen import mistakes, reliability, wilson
from mercer.diagnostics.demo.contenders import Rows, load_rows
from mercer.diagnostics.demo.measure import _audit, peak_bytes_of_fit
from mercer.diagnostics.demo.race import r2
from mercer.diagnostics.peers import Peer


@pytest.fixture(scope="module")
def steps():
    return []


@pytest.fixture(scope="module")
def demo(steps, little_effort):
    with little_effort():
        return run_demo(n_components=32, random_state=1, data_sets=["wine"], progress=lambda *step: steps.append(step))


def test_race_has_a_model_without_arguments_and_three_of_scikit_learn(demo):
    (race,) = demo.races
    assert (race.data, race.kind, race.n_train + race.n_test, race.n_features) == ("wine", "accuracy", 178, 13)
    assert [one.library for one in race.runners] == ["mercer"] + 3 * ["scikit-learn"]
    assert race.runners[0].explanation.startswith("KernelClassifier: 133 rows")
    for one in race.runners:
        assert one.score > 0.85
        assert one.fit_seconds > 0
        assert one.rows_per_second > 0
        assert one.error == pytest.approx(np.sqrt(one.score * (1 - one.score) / race.n_test))


def test_standard_error_of_r2_is_that_of_other_test_rows():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(400, 200))
    predicted = y + 0.5 * rng.normal(size=y.shape)
    scores = 1 - np.square(predicted - y).mean(axis=1) / y.var(axis=1)
    score, error = r2(predicted[0], y[0], 0)
    assert score == pytest.approx(scores[0])
    assert error == pytest.approx(scores.std(), rel=0.3)


def test_unknown_data_sets_are_named():
    with pytest.raises(ParameterError, match=r"data_sets must be some of 'breast_cancer', .* got 'iris'"):
        run_demo(data_sets=["iris"])


def test_contenders_share_width_kernel_and_rows(demo):
    names = ["Fourier, independent", "Fourier, orthogonal", "Nyström, pivoted", "RBFSampler"]
    assert [one.name for one in demo.contenders] == names
    assert {one.audit.n_components for one in demo.contenders} == {32}
    assert {one.audit.kernel for one in demo.contenders} == {demo.kernel}
    assert {one.audit.n_rows for one in demo.contenders} == {demo.split.n_test}
    assert len({one.pairs.exact for one in demo.contenders}) == 1


def test_measurements_are_plausible(demo):
    for one in demo.contenders:
        assert 0.5 < one.accuracy < 1
        assert one.audit.all_pairs  # as the page states
        assert 0 < one.audit.rmse < one.audit.max_error
        assert 0 < one.fit_seconds <= one.fit_seconds_slowest
        assert one.transform_seconds > 0
        # The features of the training rows are held at least once.
        assert one.peak_bytes > demo.split.n_train * 32 * 8


def test_predicted_errors_agree_with_the_measured_curves(demo):
    independent, orthogonal, nystroem = demo.curves
    assert nystroem.predicted is None
    for curve in (independent, orthogonal):
        # Five seeds per width; the error of one draw varies by tens of percent at these widths.
        np.testing.assert_allclose(np.mean(curve.rmse, axis=1), curve.predicted, rtol=0.4)
    at_width = dict(zip(independent.widths, independent.rmse, strict=True))
    assert at_width[32][0] == demo.contenders[0].audit.rmse


def test_selected_model_is_of_mercer_and_has_the_best_penalty_of_its_path(demo):
    chosen = next(one for one in demo.contenders if one.name == demo.chosen)
    assert chosen.library == "mercer"
    assert chosen.alpha == demo.path.alpha
    finite = {a: s for a, s in zip(demo.path.alphas, demo.path.scores, strict=True) if s is not None}
    assert min(finite, key=finite.get) == demo.path.alpha


def test_reliability_counts_all_labels_of_all_test_rows(demo):
    assert sum(one.count for one in demo.reliability) == demo.split.n_test * demo.split.n_classes
    chosen = next(one for one in demo.contenders if one.name == demo.chosen)
    wrong = round((1 - chosen.accuracy) * demo.split.n_test)
    assert len(demo.mistakes) == min(wrong, 12)
    assert all(one.label != one.predicted and len(one.pixels) == 64 for one in demo.mistakes)


def test_result_is_frozen_and_can_be_written_as_json(demo):
    with pytest.raises(dataclasses.FrozenInstanceError):
        demo.seconds = 0.0
    text = json.dumps(demo.to_dict(), allow_nan=False)
    assert "pixels" not in text
    assert "pairs" not in json.loads(text)["contenders"][0]


def test_progress_is_called_for_each_step_in_order(demo, steps):
    done, totals, names = zip(*steps, strict=True)
    assert done == tuple(range(len(steps)))
    assert set(totals) == {len(steps)}
    assert names[0] == "KernelClassifier on wine"
    assert "loading the digits" in names


@pytest.mark.slow
def test_equal_seeds_give_equal_measurements(demo):
    again = run_demo(n_components=32, random_state=1, data_sets=["wine"])
    assert [one.audit for one in again.contenders] == [one.audit for one in demo.contenders]
    assert [one.accuracy for one in again.contenders] == [one.accuracy for one in demo.contenders]
    assert again.curves == demo.curves


@pytest.mark.parametrize("value", [15, 1025, 64.0, True])
def test_invalid_number_of_components_raises(value):
    text = r"^run_demo: n_components must be an integer from 16 to 1024, got"
    with pytest.raises(ParameterError, match=text):
        run_demo(n_components=value)


def test_audit_of_a_transformer_equals_that_of_a_map():
    class MapAsTransformer:
        """A map of mercer with the interface of a transformer of scikit-learn."""

        def __init__(self, feature_map):
            self.feature_map = feature_map
            self.n_components = feature_map.n_components

        def transform(self, X):
            return self.feature_map.transform(X)

    X = np.random.default_rng(0).normal(size=(60, 4))
    ours = RandomFourier(Gaussian(2.0), 64, form="phase", directions="sobol", random_state=0).fit(X)
    direct, adapted = audit(ours, X), _audit(Peer(MapAsTransformer(ours), ours.kernel_, ours.n_components), X)
    assert dataclasses.replace(adapted, feature_map=direct.feature_map) == direct


def test_peak_memory_counts_an_array_that_is_freed_immediately():
    class Entrant:
        @property
        def model(self):
            return self

        def fit(self, X, y):
            np.ones(3_000_000)

    peak = peak_bytes_of_fit(Entrant(), load_rows(0))
    assert 24_000_000 <= peak < 24_100_000


def test_reliability_of_constructed_probabilities():
    probabilities = np.array([[0.9, 0.1]] * 8 + [[0.1, 0.9]] * 2)
    low, high = reliability(probabilities, np.zeros(10, dtype=int))
    assert (low.count, high.count) == (10, 10)
    assert (low.observed, high.observed) == (0.2, 0.8)
    assert high.interval == wilson(0.8, 10)


def test_wilson_interval_of_a_published_example():
    # Newcombe (1998), Statistics in Medicine 17, table I: 15 of 148 gives 0.0624 to 0.1605.
    np.testing.assert_allclose(wilson(15 / 148, 148), (0.0624, 0.1605), atol=5e-5)
    assert wilson(0.0, 10)[0] == 0.0
    assert wilson(1.0, 10)[1] == 1.0


def test_mistakes_are_ordered_by_confidence():
    probabilities = np.array([[0.6, 0.4], [0.9, 0.1], [0.2, 0.8]])
    rows = Rows(np.zeros((0, 64)), np.full((3, 64), 0.5), np.zeros(0), np.ones(3, dtype=int))
    first, second = mistakes(probabilities, rows)
    assert (first.probability, second.probability) == (0.9, 0.6)
    assert set(first.pixels) == {8}
