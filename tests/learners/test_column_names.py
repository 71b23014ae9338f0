"""Names of columns in files are kept as those of a frame are."""

import numpy as np
import pandas as pd
import pytest

from mercer import (
    DataError,
    Gaussian,
    GaussianProcessRegressor,
    KernelKMeans,
    KernelRidge,
    KernelRidgeClassifier,
    RandomFourier,
    on_dask,
    open_rows,
)

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.normal(size=(300, 4)), columns=list("abcy"))
X, y = FRAME[list("abc")], FRAME.y
MAP = RandomFourier(Gaussian(2.0), 20, random_state=0)


def opened(kind, folder, frame=FRAME, **chosen):
    path = folder / f"t.{kind}"
    if kind == "frame":
        return open_rows(frame, **chosen)
    if kind == "csv":
        frame.to_csv(path, index=False)
    else:
        getattr(frame, f"to_{kind}")(path)
    return open_rows(path, **chosen)


@pytest.mark.parametrize("where", ["here", "dask"])
@pytest.mark.parametrize("kind", ["csv", "parquet", "feather", "frame"])
def test_columns_in_another_order_are_refused_as_after_a_frame(kind, where, tmp_path):
    source = opened(kind, tmp_path, target="y")
    model = KernelRidge(MAP, block_size=70).fit(source if where == "here" else on_dask(source))
    from_frame = KernelRidge(MAP, block_size=70).fit(X, y)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert model.feature_names_in_.dtype == from_frame.feature_names_in_.dtype
    assert model.feature_map_.feature_names_in_.tolist() == ["a", "b", "c"]
    assert np.allclose(model.predict(X), from_frame.predict(X))
    for other, match in (
        (X[list("cab")], "must be in the same order"),
        (X.rename(columns={"a": "d"}), "names unseen at fit time"),
    ):
        for fitted in (model, from_frame):
            with pytest.raises(ValueError, match=match):
                fitted.predict(other)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(X.to_numpy())


@pytest.mark.parametrize("learner", [KernelRidgeClassifier(MAP), KernelKMeans(MAP, 3, random_state=0)])
def test_other_learners(learner, tmp_path):
    frame = FRAME.assign(y=(y > 0).astype(int))
    learner.fit(opened("csv", tmp_path, frame, target="y", columns=["b", "a"]))
    assert learner.feature_names_in_.tolist() == ["b", "a"]
    with pytest.raises(ValueError, match="same order"):
        learner.predict(X[["a", "b"]])
    learner.fit(X.to_numpy(), frame.y)
    assert not hasattr(learner, "feature_names_in_")


def test_a_reader_of_batches_has_names_too():
    import pyarrow as pa

    batches = pa.Table.from_pandas(FRAME).to_reader(max_chunksize=100)
    assert KernelRidge(MAP).fit(open_rows(batches, target="y")).feature_names_in_.tolist() == ["a", "b", "c"]


def test_places_are_no_names(tmp_path):
    np.save(tmp_path / "t.npy", FRAME)
    FRAME.to_csv(tmp_path / "t.csv", index=False, header=False)
    FRAME.set_axis(range(4), axis=1).to_csv(tmp_path / "u.csv", index=False)
    for path, header in (("t.npy", None), ("t.csv", None), ("t.csv", False), ("u.csv", True)):
        source = open_rows(tmp_path / path, target=-1, header=header)
        assert source.feature_names is None
        model = KernelRidge(MAP).fit(source)
        assert not hasattr(model, "feature_names_in_")
        model.predict(X.to_numpy())  # without a warning
    assert open_rows(FRAME.set_axis(list("0123"), axis=1), target="1").feature_names is None
    assert open_rows(FRAME.set_axis(list("1234"), axis=1), target="4").feature_names == ("1", "2", "3")


def test_rows_that_are_read_again_after_the_fit(tmp_path):
    source = opened("csv", tmp_path, target="y")
    model = GaussianProcessRegressor(MAP, block_size=70).fit(source)
    assert np.allclose(model.lengthscale_gradient(source), model.lengthscale_gradient(X, y))
    for columns, match in ((["b", "a", "c"], "another order"), (["a", "b"], r"lacks \['c'\]")):
        other = opened("csv", tmp_path, target="y", columns=columns)
        with pytest.raises(DataError, match=rf"columns must be those of the fit, \['a', 'b', 'c'\].*{match}.*columns="):
            model.lengthscale_gradient(other)
    with pytest.raises(DataError, match=r"also has \['y'\]"):
        model.lengthscale_gradient(opened("csv", tmp_path))


def test_a_failed_fit_keeps_the_old_names(tmp_path):
    model = KernelRidge(MAP).fit(X, y)
    other = FRAME.rename(columns={"a": "z"})
    other.loc[299, "b"] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        model.fit(opened("parquet", tmp_path, other, target="y"))
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
