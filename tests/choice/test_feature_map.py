"""The map that is chosen when it is fitted."""

import pickle
import warnings
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer import (
    ArcCosine,
    DataError,
    FeatureMap,
    Gaussian,
    KernelRidge,
    Laplacian,
    MercerWarning,
    Min,
    Nystroem,
    ParameterError,
    Polynomial,
    Precomputed,
    RandomFourier,
    audit,
    choose,
)
from mercer.choice import rates
from mercer.choice.choose import Request, rows_for

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1200, 5))
FRESH = RNG.normal(size=(400, 5))


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MERCER_CACHE_DIR", str(tmp_path_factory.mktemp("rates")))
        patch.setattr(rates, "_known", {})
        yield


def rmse(feature_map, rows=FRESH):
    E = feature_map.gram(rows) - feature_map.kernel_(rows)
    return np.sqrt(np.mean(E[~np.eye(len(rows), dtype=bool)] ** 2))


@pytest.mark.parametrize("kernel", [Gaussian("median"), Laplacian(2.0), Polynomial(3), ArcCosine(1)], ids=repr)
def test_the_map_of_least_error_for_a_number_of_components(kernel):
    chosen = FeatureMap(kernel, 64, random_state=0).fit(X)
    assert chosen.transform(X).shape == (1200, 64)
    errors = {t.name: t.error for t in chosen.choice_.trials}
    assert chosen.choice_.chosen.error == min(errors.values())
    assert len(errors) >= 2
    # Other draws of the maps, on other rows: none is much better.
    for other in (RandomFourier, Nystroem):
        if other.accepts(chosen.kernel_):
            assert rmse(chosen) <= 1.3 * rmse(other(chosen.kernel_, 64, random_state=1).fit(X))


def test_measured_errors_are_those_of_rows_that_the_map_has_not_seen():
    chosen = FeatureMap(Gaussian(1.5), 100, random_state=3).fit(X)
    assert chosen.choice_.n_fitted + chosen.choice_.n_held_out == len(X)
    assert chosen.choice_.chosen.error == pytest.approx(rmse(chosen), rel=0.3)


@pytest.mark.parametrize("tol", [0.1, 0.02])
def test_a_tolerance_holds_on_fresh_rows(tol):
    chosen = FeatureMap(Gaussian("median"), tol=tol, random_state=0).fit(X)
    assert chosen.choice_.met
    assert rmse(chosen) <= tol
    assert chosen.choice_.chosen.upper <= tol


def test_a_tolerance_out_of_reach_warns():
    feature_map = FeatureMap(Laplacian(2.0), 32, tol=1e-4, random_state=0)
    with pytest.warns(MercerWarning, match=r"no map reaches an error of 0.0001.*Increase tol"):
        feature_map.fit(X)
    assert not feature_map.choice_.met
    assert feature_map.transform(X).shape[1] <= 32


def test_limits():
    by_memory = FeatureMap(memory_limit=4e5, random_state=0).fit(X)
    assert by_memory.transform(X).nbytes < 4e5
    by_time = FeatureMap(time_limit=20, n_components=128, random_state=0).fit(X)
    assert by_time.choice_.chosen.n_components == 128
    with pytest.warns(MercerWarning, match="too short for any map"):
        FeatureMap(time_limit=1e-6, random_state=0).fit(X)
    with pytest.raises(DataError, match="no map for"):
        FeatureMap(memory_limit=10).fit(X)


def test_the_same_seed_makes_the_same_choice():
    first, second = (FeatureMap(tol=0.05, random_state=1).fit(X) for _ in range(2))
    assert first.choice_.chosen.name == second.choice_.chosen.name
    np.testing.assert_array_equal(first.transform(FRESH), second.transform(FRESH))


def test_as_a_map_of_learners_and_pipelines():
    y = np.sin(X[:, 0]) + X[:, 1]
    model = make_pipeline(StandardScaler(), KernelRidge(FeatureMap(n_components=64, random_state=0), alpha="loo"))
    assert model.fit(X, y).score(X, y) > 0.95
    blocks = [(X[:700], y[:700]), (X[700:], y[700:])]
    by_blocks = KernelRidge(FeatureMap(n_components=64, random_state=0)).fit(blocks)
    whole = KernelRidge(FeatureMap(n_components=64, random_state=0)).fit(X, y)
    np.testing.assert_allclose(by_blocks.predict(FRESH), whole.predict(FRESH), rtol=1e-6)
    assert audit(whole.feature_map_, FRESH).rmse < 0.1


def test_copies_pickles_and_parameters():
    feature_map = FeatureMap(Gaussian(2.0), 32, random_state=0).fit(X)
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(feature_map)).transform(FRESH), feature_map.transform(FRESH)
    )
    assert clone(feature_map).get_params() == feature_map.get_params()
    assert feature_map.set_params(kernel__lengthscale=3.0).kernel == Gaussian(3.0)
    assert len(pickle.dumps(feature_map)) < 1e5  # of the chosen map only


@pytest.mark.parametrize(
    "rows",
    [X.astype(np.float32), sp.csr_array(X), np.asfortranarray(X), pd.DataFrame(X)],
    ids=["float32", "sparse", "Fortran order", "data frame"],
)
def test_kinds_of_rows(rows):
    feature_map = FeatureMap(Gaussian(2.0), 40, random_state=0).fit(rows)
    assert rmse(feature_map) < 0.2


@pytest.mark.parametrize("n", [1, 2, 3, 9, 30])
def test_few_rows(n):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        feature_map = FeatureMap(Gaussian(1.0), 16, random_state=0).fit(X[:n])
    assert feature_map.transform(X[:n]).shape == (n, 16)


def test_weights_and_repeated_rows_of_a_constant():
    rows = np.repeat(X[:1], 30, axis=0)
    assert FeatureMap(Gaussian(1.0), 8, random_state=0).fit(rows).choice_.chosen.error == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {"n_components": 32},
        {"n_components": 256, "for_learner": True},
        {"memory_limit": 1e6, "n_components": 64},
        {"n_components": 16, "error": "largest"},
    ],
    ids=str,
)
def test_integer_weights_are_repetitions(options):
    weight = RNG.integers(1, 4, size=400).astype(float)
    repeated = RNG.permutation(np.repeat(np.arange(400), weight.astype(int)))
    by_weight, by_copies, plain = (
        FeatureMap(Gaussian("median"), random_state=0, **options).fit_sample(rows, w, n_rows=400)
        for rows, w in ((X[:400], weight), (X[repeated], None), (X[:400], None))
    )
    assert by_weight.choice_.chosen.name == by_copies.choice_.chosen.name
    np.testing.assert_allclose(by_weight.apply(FRESH), by_copies.apply(FRESH), atol=1e-9)
    assert by_weight.choice_.chosen.error == pytest.approx(by_copies.choice_.chosen.error)
    assert by_weight.choice_.chosen.error != pytest.approx(plain.choice_.chosen.error)


def test_rows_that_repeat_are_not_held_out_if_a_map_can_be_exact():
    rows = np.repeat(X[:20], 30, axis=0)
    chosen = FeatureMap(Gaussian(2.0), 64, random_state=0).fit(rows)
    assert np.abs(chosen.gram(X[:20]) - Gaussian(2.0)(X[:20])).max() < 1e-6
    once = FeatureMap(Gaussian(2.0), 64, random_state=0).fit(X[:20])  # new rows will not be those of the fit
    assert once.choice_.n_held_out == 5


def test_the_choice_for_a_learner_fits_few_maps_with_all_components():
    choice = choose(Gaussian("median"), X, 256, for_learner=True)
    assert choice.chosen.n_components == 256
    assert sum(trial.n_components == 256 for trial in choice.trials) <= 2
    iid = RandomFourier(Gaussian("median"), 256, directions="iid", random_state=0).fit(X)
    assert rmse(choice.chosen.feature_map) < 0.2 * rmse(iid)


def test_short_times_are_not_spent_on_rows_held_out():
    held_out = [Request(time_limit=seconds).n_held_out for seconds in (0.1, 0.5, 2.0, 100.0)]
    assert held_out == [200, 500, 2000, 4000]
    assert Request(tol=0.1).n_held_out == 4000


def test_time_that_has_passed_counts():
    feature_map = FeatureMap(Gaussian(2.0), time_limit=50.0, method="RandomFourier", random_state=0)
    with pytest.warns(MercerWarning, match="too short"):
        feature_map.fit_sample(X, spent=1000.0)
    assert len(feature_map.choice_.trials) == 1


def test_kernels_of_non_negative_rows():
    assert rmse(FeatureMap(Min(), 64, random_state=0).fit(np.abs(X)), np.abs(FRESH)) < 0.3


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 0}, "n_components must be"),
        ({"tol": -1}, "tol must be"),
        ({"time_limit": 0}, "time_limit must be"),
        ({"error": "mean"}, "error must be"),
        ({"method": "Fourier"}, r"method must be 'auto'.*RandomFourier"),
        ({"method": "ThresholdFeatures"}, "cannot approximate"),
        ({"kernel": "rbf"}, "kernel must be"),
    ],
)
def test_errors(parameters, message):
    with pytest.raises(ParameterError, match=message):
        FeatureMap(**parameters).fit(X)


def test_a_method_by_name():
    choice = FeatureMap(Gaussian(2.0), 32, method=["RandomFourier", "SphericalRadial"], random_state=0).fit(X).choice_
    assert {t.name.partition("(")[0] for t in choice.trials} == {"RandomFourier", "SphericalRadial"}


def test_costs_of_learners_favor_fewer_components():
    plain = choose(Gaussian("median"), X, tol=0.01)
    learner = choose(Gaussian("median"), X, tol=0.01, for_learner=True)
    assert learner.chosen.row_seconds > 0
    assert learner.chosen.n_components <= plain.chosen.n_components


def test_the_table(tmp_path):
    choice = choose(Gaussian("median"), X, 32, random_state=0)
    text = str(choice)
    assert text.count("\n") == len(choice.trials) + 2
    assert text.count("\n* ") == 1
    frame = choice.to_pandas()
    assert frame["chosen"].sum() == 1
    assert list(frame["error"]) == sorted(frame["error"])
    assert choice.to_dict()["chosen"]["name"] == choice.chosen.name
    axes = choice.plot()
    axes.figure.savefig(tmp_path / "choice.png")
    assert axes.get_xlabel() == "number of components"
    assert choice.chosen.feature_map.transform(X).shape == (1200, 32)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_rows_whose_squares_leave_the_range_of_numbers(scale):
    rows = X[:300]
    chosen = FeatureMap(Gaussian("median"), 32, random_state=0).fit(scale * rows)
    assert chosen.choice_.chosen.error < 0.1
    assert np.isfinite(chosen.transform(scale * FRESH)).all()


def test_a_kernel_matrix_of_more_rows_than_a_choice_uses(monkeypatch):
    for name, n_rows in (("HELD_OUT_ROWS", 150), ("LEAST_FITTED", 200)):
        monkeypatch.setattr(import_module("mercer.choice.choose"), name, n_rows)
    rows = np.random.default_rng(0).normal(size=(450, 2))
    K = Gaussian(2.0)(rows)
    chosen = FeatureMap(Precomputed(), 2, random_state=0).fit(K)
    assert rows_for(chosen._request()) < len(rows)
    assert chosen.transform(K[:5]).shape == (5, 2)
    with pytest.raises(DataError, match="needs all rows of the fit in memory"):
        KernelRidge(FeatureMap(Precomputed(), 2)).fit([(K[:300], rows[:300, 0]), (K[300:], rows[300:, 0])])


def test_parameters_are_checked_before_maps_are_tried():
    with pytest.raises(ParameterError, match=r"^n_jobs must not be 0"):
        FeatureMap(n_jobs=0).fit(X)
    with pytest.raises(ParameterError, match=r"method must be 'auto', the name of a map, or a list of such names, got"):
        FeatureMap(method=["auto", "Nystroem"]).fit(X)


@pytest.mark.parametrize("options", [{"n_components": 40}, {"tol": 0.05}], ids=str)
def test_the_choice_does_not_depend_on_the_order_of_the_rows(options):
    order = np.random.default_rng(1).permutation(len(X))
    one, other = (FeatureMap(Gaussian(2.0), random_state=0, **options).fit(rows) for rows in (X, X[order]))
    assert one.choice_.reason == other.choice_.reason
    np.testing.assert_allclose(one.gram(FRESH), other.gram(FRESH), atol=1e-9)
