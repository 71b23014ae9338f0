"""Predictions from file to file."""

import numpy as np
import pandas as pd
import pytest

from mercer import DataError, KernelRidge, ParameterError, RandomFourier, load_model, save_model
from mercer.workflows import fit_file, predict, predict_file


@pytest.fixture(scope="module")
def model(frame, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.mercer"
    fit_file(frame, "y", output=path, compare=False, time_limit=2.0)
    return path


def test_blocks_give_the_predictions_of_the_model(frame, model, tmp_path, monkeypatch):
    monkeypatch.setattr(predict, "CHUNK_ROWS", 33)
    frame.to_parquet(tmp_path / "t.parquet")
    result = predict_file(model, tmp_path / "t.parquet", tmp_path / "p.csv", std=True, interval=0.9, keep=["kind"])
    assert (result.n_rows, result.columns) == (160, ("kind", "prediction", "std", "low", "high"))
    found = pd.read_csv(tmp_path / "p.csv")
    fitted, rows = load_model(model), frame.drop(columns="y")
    mean, std = fitted.predict(rows, return_std=True)
    assert np.allclose(found.prediction, mean, rtol=1e-12)
    assert np.allclose(found["std"], std, rtol=1e-12)
    assert np.allclose(found[["low", "high"]], fitted.predict_interval(rows, 0.9), rtol=1e-12)


def test_columns_in_another_order_and_unseen_categories_are_counted(frame, model, tmp_path, monkeypatch):
    monkeypatch.setattr(predict, "CHUNK_ROWS", 50)
    other = frame[["day", "kind", "x"]].assign(more=1)
    other.loc[[1, 70], "kind"] = "mauve"
    result = predict_file(model, other, tmp_path / "p.csv")
    assert result.unseen == {"kind": 2}


def test_models_of_numbers_take_columns_by_name(tmp_path):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(80, 2)), columns=["a", "b"])
    y = rows.a.to_numpy()
    save_model(KernelRidge(RandomFourier(random_state=0), random_state=0).fit(rows, y), tmp_path / "m.mercer")
    predict_file(tmp_path / "m.mercer", rows, tmp_path / "one.csv")
    predict_file(tmp_path / "m.mercer", rows[["b", "a"]].assign(id=range(80)), tmp_path / "two.csv", keep=["id"])
    assert np.allclose(pd.read_csv(tmp_path / "one.csv").prediction, pd.read_csv(tmp_path / "two.csv").prediction)
    with pytest.raises(ParameterError, match="no column 'b' for a feature of the model"):
        predict_file(tmp_path / "m.mercer", rows[["a"]], tmp_path / "three.csv")
    with pytest.raises(DataError, match="takes numbers, but the column 'b'"):
        predict_file(tmp_path / "m.mercer", rows.assign(b="text"), tmp_path / "three.csv")
    assert not (tmp_path / "three.csv").exists()


def test_an_unfitted_model_is_refused(tmp_path):
    save_model(KernelRidge(), tmp_path / "m.mercer")
    with pytest.raises(DataError, match="not fitted"):
        predict_file(tmp_path / "m.mercer", pd.DataFrame({"a": [1.0]}), tmp_path / "p.csv")


def test_columns_of_predictions_cannot_be_kept(frame, model, tmp_path):
    with pytest.raises(ParameterError, match="has the name of a column of predictions"):
        predict_file(model, frame.assign(std=1), tmp_path / "p.csv", keep=["std"])
