"""Scores of model files on tables, pages about them, and exports."""

import numpy as np
import pytest

from mercer import DataError, KernelRidge, ParameterError, load_model, save_model
from mercer.workflows import evaluate, evaluate_file, export_file, fit_file, report_file


@pytest.fixture(scope="module")
def model(frame, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.mercer"
    fit_file(frame[:120], "y", output=path, compare=False, time_limit=2.0)
    return path


def test_scores_are_those_of_the_model_over_all_blocks(frame, model, monkeypatch):
    monkeypatch.setattr(evaluate, "CHUNK_ROWS", 7)
    test = frame[120:].copy()
    test.loc[test.index[:3], "y"] = np.nan
    result = evaluate_file(model, test)
    known = test.dropna(subset="y")
    assert result.n_rows == 37
    assert result.scores[0].value == pytest.approx(load_model(model).score(known.drop(columns="y"), known.y))
    assert 0.5 < result.coverage <= 1


def test_a_target_that_is_not_known_or_missing(frame, model, tmp_path):
    with pytest.raises(DataError, match="all cells of the target"):
        evaluate_file(model, frame.assign(y=np.nan))
    save_model(KernelRidge(random_state=0).fit(frame[["x"]].fillna(0), frame.y), tmp_path / "plain.mercer")
    with pytest.raises(ParameterError, match="does not name the target"):
        evaluate_file(tmp_path / "plain.mercer", frame)
    assert evaluate_file(tmp_path / "plain.mercer", frame[["x", "y"]].fillna(0), "y").n_rows == 160


def test_a_page_about_a_model_file(frame, model, tmp_path):
    pytest.importorskip("jinja2")
    result = report_file(model, frame[120:], tmp_path / "r.html", time_limit=1.0)
    assert result.n_test == 40
    assert len(result.importances) == 3
    assert (tmp_path / "r.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_exports_are_of_known_formats(model):
    with pytest.raises(ParameterError, match="to must be 'onnx' or 'python'"):
        export_file(model, to="pmml")
