"""`fit_file`: tables in files and in memory, test rows, limits, refits and what the model file stores."""

import json
import warnings

import numpy as np
import pytest

from mercer import MercerWarning, ParameterError, describe_model, load_model
from mercer.workflows import fit, fit_file

QUICK = {"compare": False, "time_limit": 2.0}


def test_a_table_with_categories_dates_and_missing_cells(frame, tmp_path):
    frame.to_csv(tmp_path / "t.csv", index=False)
    lines = []
    result = fit_file(tmp_path / "t.csv", "y", output=tmp_path / "m.mercer", announce=lines.append, **QUICK)
    assert (result.task, result.n_rows, result.n_train, result.n_test) == ("regression", 160, 128, 32)
    assert result.headline == "R2"
    score = result.contenders[0].scores[0]
    assert score.low <= score.value <= score.high
    assert score.value > 0.5
    assert {one.name: one.kind for one in result.columns} == {"x": "number", "kind": "category", "day": "date"}
    assert lines[1] == "Task:  regression, because 'y' has numbers (--task overrides)."
    json.dumps(result.to_dict(), allow_nan=False)
    about = describe_model(tmp_path / "m.mercer").metadata["fit"]
    assert about["scores"]["mercer"][0]["value"] == score.value
    assert not about["refit"]
    model = load_model(tmp_path / "m.mercer")
    assert model.predict(frame.drop(columns="y")).shape == (160,)


def test_the_same_seed_gives_the_same_model_and_another_one_another_split(frame):
    options = {"estimator": "ridge", "compare": False}
    first, again, other = (fit_file(frame, "y", random_state=seed, **options) for seed in (0, 0, 1))
    assert first.contenders[0].scores == again.contenders[0].scores
    assert first.contenders[0].scores != other.contenders[0].scores


def test_other_models_are_measured_on_the_same_rows(frame):
    result = fit_file(frame, "y", estimator="ridge", parameters={"alpha": 1e-3, "n_components": 64})
    assert [one.name for one in result.contenders] == ["mercer", "linear model", "HistGradientBoosting"]
    ours, *others = result.contenders
    for one in others:  # the paired difference of the headline scores
        assert one.difference.value == pytest.approx(ours.scores[0].value - one.scores[0].value)
        assert one.difference.low <= one.difference.value <= one.difference.high
    assert all(one.scores[0].name == "R2" for one in result.contenders)
    assert len(result.importances) == 3
    assert result.timings["total"] >= result.timings["fit"]


def test_a_refitted_model_has_seen_all_rows(frame, tmp_path):
    options = {"estimator": "ridge", "compare": False}
    for refit in (False, True):
        fit_file(frame, "y", output=tmp_path / f"{refit}.mercer", refit=refit, **options)
    plain, all_rows = (load_model(tmp_path / f"{refit}.mercer") for refit in (False, True))
    rows = frame.drop(columns="y")
    errors = [np.square(model.predict(rows) - frame.y).mean() for model in (plain, all_rows)]
    assert errors[1] < errors[0]
    assert describe_model(tmp_path / "True.mercer").metadata["fit"]["n_train"] == 160


def test_test_rows_of_another_table(frame):
    result = fit_file(frame[:100], "y", test=frame[100:], estimator="ridge", compare=False)
    assert (result.n_train, result.n_test) == (100, 60)
    with pytest.raises(ParameterError, match="test_size is the number"):
        fit_file(frame[:100], "y", test=frame[100:], test_size=0.5)


def test_labels_of_test_rows_that_training_does_not_have(frame):
    labels = frame.assign(y=np.where(frame.y > 0.5, "high", "low"))
    other = labels[100:].assign(y="neither")
    result = fit_file(labels[:100], "y", test=other, estimator="ridge", compare=False, task="classification")
    assert result.contenders[0].scores[0].value == 0
    assert result.classes == ("high", "low")


def test_a_table_that_does_not_fit_is_read_from_its_file(frame, tmp_path, monkeypatch, little_effort):
    frame.to_csv(tmp_path / "t.csv", index=False)
    monkeypatch.setattr(fit, "TABLE_BYTES", 2000)
    read = []
    original = fit.KernelRegressor.fit
    monkeypatch.setattr(fit.KernelRegressor, "fit", lambda self, *rows: read.append(rows) or original(self, *rows))
    with little_effort():
        result = fit_file(tmp_path / "t.csv", "y", compare=False)
    assert "read from the file in each pass" in result.split
    assert result.n_train + result.n_test == 160
    (source,) = read[0]
    assert sum(block[0].num_rows for block in source) == result.n_train


def test_a_short_time_leads_to_a_sample_that_is_reported(frame, monkeypatch):
    monkeypatch.setattr(fit, "LEAST_FITTED", 50)
    monkeypatch.setattr(fit, "ROW_SPEED", 1e-3)
    result = fit_file(frame, "y", **QUICK)
    assert result.n_train == 50
    assert any("random sample of 50 of 128 training rows, because of the time limit" in one for one in result.warnings)


def test_warnings_are_collected_and_others_are_issued():
    with pytest.warns(UserWarning, match="of another package"):
        assert collected(["ours", "ours"]) == ["ours"]


def collected(messages):
    with fit.noted_warnings() as caught:
        for message in messages:
            warnings.warn(message, MercerWarning, stacklevel=1)
        warnings.warn("of another package", UserWarning, stacklevel=1)
    return caught


def test_rows_without_a_target_are_reported_once(frame):
    frame = frame.copy()
    frame.loc[frame.index[:7], "y"] = np.nan
    lines = []
    result = fit_file(frame, "y", estimator="ridge", compare=False, announce=lines.append)
    reported = [text for text in (*lines, *result.warnings) if text.strip().startswith("7 rows")]
    assert reported == ["7 rows without a value of 'y' were ignored."]
