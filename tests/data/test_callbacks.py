"""Fits call the callbacks of scikit-learn 1.9 and later; with older versions they are what they were."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from mercer import (
    Deformed,
    DeformedSearchCV,
    Gaussian,
    KernelClassifier,
    KernelKMeans,
    KernelRegressor,
    KernelRidge,
    KernelRidgeClassifier,
    NeighborGraph,
    RandomFourier,
    load_model,
    save_model,
)
from mercer.data.callbacks import CALLBACK_ATTRIBUTES, fit_report

sklearn_callback = pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9 has no callbacks")


class Recorder:
    """Callback that stores what it is called with."""

    def __init__(self, fail_at=None):
        self.fail_at, self.events, self.scored = fail_at, [], []

    def setup(self, estimator, context):
        self.events.append(("setup", context.task_name))

    def on_fit_task_begin(self, estimator, context):
        self.events.append(("begin", context.task_name))

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        self.events.append(("end", context.task_name))
        if context.task_name == self.fail_at:
            raise RuntimeError(context.task_name)
        if fitted_estimator is not None:
            self.scored.append((np.asarray(fitted_estimator.predict(X)).shape, metadata))

    def teardown(self, estimator, context):
        self.events.append(("teardown", context.task_name))
        self.tree = [(one.task_name, None if one.parent is None else one.parent.task_name) for one in context]

    def names(self, event):
        return [name for what, name in self.events if what == event]


class Propagated(Recorder):
    """The same for the outermost estimator, which hands it to those that it fits."""

    max_propagation_depth = None


def rows(n=300, d=3):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return X, np.sin(X[:, 0]) + X[:, 1]


def ridge(**options):
    return KernelRidge(RandomFourier(Gaussian(1.0), 64, random_state=0), block_size=100, **options)


def test_a_fit_is_a_task_with_stages_and_blocks_below_it():
    X, y = rows()
    seen = Recorder()
    model = ridge().set_callbacks(seen).fit(X, y, sample_weight=np.ones(300))
    assert seen.events[0] == ("setup", "fit")
    assert seen.events[-1] == ("teardown", "fit")
    assert sorted(seen.names("begin")) == sorted(seen.names("end"))
    assert ("sum over rows", "fit") in seen.tree
    # 300 rows in blocks of 100.
    assert seen.tree.count(("rows", "sum over rows")) == 3
    assert seen.scored[0][0] == (300,)
    assert seen.scored[0][1]["sample_weight"].shape == (300,)
    assert np.array_equal(model.predict(X), ridge().fit(X, y, sample_weight=np.ones(300)).predict(X))


def test_progress_is_reported_beside_callbacks():
    X, y = rows()
    lines = []
    seen = Recorder()
    ridge(progress=lines.append).set_callbacks(seen).fit(X, y)
    assert len(lines) == sum(name == "rows" for name in seen.names("end"))
    assert lines[-1].owner == "KernelRidge"


@pytest.mark.parametrize(
    ("model", "of_labels"),
    [
        (KernelRegressor(random_state=0), False),
        (KernelClassifier(random_state=0), True),
        (KernelKMeans(RandomFourier(Gaussian(1.0), 32, random_state=0), 2, random_state=0), False),
        (
            DeformedSearchCV(
                KernelRidgeClassifier(
                    Deformed(RandomFourier(Gaussian(1.0), 32, random_state=0), NeighborGraph(5)), unlabeled=-1
                ),
                strengths=(0.0, 1.0),
                cv=2,
            ),
            True,
        ),
    ],
    ids=lambda one: type(one).__name__,
)
@pytest.mark.filterwarnings("ignore::mercer.errors.MercerWarning")
def test_other_fits_have_stages_too(model, of_labels):
    X, y = rows(120)
    target = (y > 0).astype(int) if of_labels else y
    seen = Recorder()
    fitted = clone(model).set_callbacks(seen).fit(X, target)
    assert {parent for _, parent in seen.tree if parent is not None} > {"fit"}
    assert sorted(seen.names("begin")) == sorted(seen.names("end"))
    assert np.array_equal(fitted.predict(X), clone(model).fit(X, target).predict(X))


def test_a_search_of_scikit_learn_hands_its_callbacks_down():
    X, y = rows()
    seen = Propagated()
    search = GridSearchCV(ridge(), {"alpha": [1e-3, 1e-1]}, cv=2).set_callbacks(seen).fit(X, y)
    # Two penalties on two folds, and the refit.
    assert sum(name == "sum over rows" for name, _ in seen.tree) == 5
    assert not CALLBACK_ATTRIBUTES & vars(search.best_estimator_).keys()


def test_callbacks_end_when_a_fit_fails_and_the_model_is_unchanged():
    X, y = rows()
    model = ridge().fit(X, y)
    before = model.predict(X)
    seen = Recorder(fail_at="sum over rows")
    with pytest.raises(RuntimeError, match="sum over rows"):
        model.set_callbacks(seen).fit(X, 2 * y)
    assert seen.events[-1] == ("teardown", "fit")
    assert np.array_equal(model.predict(X), before)
    assert vars(model).keys() & CALLBACK_ATTRIBUTES == {"_skl_callbacks"}
    assert fit_report(model, False) is None


def test_callbacks_are_copied_by_clone_and_removed_by_no_argument():
    seen = Recorder()
    model = ridge().set_callbacks(seen)
    X, y = rows()
    clone(model).fit(X, y)
    assert seen.events
    seen.events.clear()
    model.set_callbacks().fit(X, y)
    assert not seen.events


def test_model_files_and_workers_get_no_callbacks(tmp_path):
    X, y = rows()
    seen = Recorder()
    seen.lock = (one for one in ())  # a generator cannot be pickled
    model = ridge().set_callbacks(seen).fit(X, y)
    save_model(model, tmp_path / "model.mercer")
    loaded = load_model(tmp_path / "model.mercer")
    assert not CALLBACK_ATTRIBUTES & vars(loaded).keys()
    assert np.array_equal(loaded.predict(X), model.predict(X))
    da = pytest.importorskip("dask.array")
    blocks = da.from_array(X, chunks=(100, 3))
    assert np.allclose(model.predict(blocks).compute(scheduler="processes"), model.predict(X))
    with pytest.raises(TypeError, match="generator"):
        pickle.dumps(model)
