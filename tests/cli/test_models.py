"""The commands ``fit``, ``predict``, ``evaluate``, ``report`` and ``export``."""

import io
import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from mercer import describe_model


def test_fit_prints_the_scores_of_three_models_and_writes_a_model_and_a_page(run, folder):
    pytest.importorskip("jinja2")
    code, out, err = run("fit", "labels.csv", "-t", "y", "-o", "m.mercer", "--drop", "id", "--time-limit", "5")
    assert code == 0, err
    for words in (
        "Table: labels.csv, 90 rows, 3 columns (1 of numbers, 1 of strings, 1 of dates).",
        "Task:  classification, because 'y' has strings (--task overrides).",
        "Test:  18 of 90 rows were drawn at random and held out (20% of the rows), with the same share of each label",
        "accuracy",
        "95% interval",
        "mercer  ",
        "linear model",
        "HistGradientBoosting",
        "Model:  m.mercer (fitted to the training rows; --refit fits it to all rows)",
        "Report: report.html",
        "peak memory",
    ):
        assert words in out
    assert (folder / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    about = describe_model(folder / "m.mercer").metadata["fit"]
    assert about["target"] == "y"
    assert about["command"].startswith("mercer fit labels.csv -t y")
    assert not list(folder.glob(".*"))


def test_fit_as_json_is_the_only_output_on_stdout(run, folder):
    code, out, err = run(
        "fit",
        "train.csv",
        "-t",
        "y",
        "--no-report",
        "--no-compare",
        "--json",
        "--time-limit",
        "2",
        "--test",
        "test.csv",
    )
    assert code == 0, err
    result = json.loads(out)
    assert result["task"] == "regression"
    assert (result["n_train"], result["n_test"]) == (90, 40)
    assert result["split"] == "40 test rows of test.csv."
    assert result["contenders"][0]["scores"][0]["name"] == "R2"
    assert "Task:" in err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["train.csv"], 2, "Pass --target, such as --target y. The columns are id, x, kind, day, y."),
        (["train.csv", "-t", "dai"], 1, "Did you mean 'day'?"),
        (["train.csv", "-t", "Y2"], 1, "has no column 'Y2', which target asks for."),
        (["absent.csv", "-t", "y"], 1, "absent.csv"),
        (["train.csv", "-t", "y", "--task", "ranking"], 2, "task must be 'regression', 'classification' or None"),
        (["train.csv", "-t", "kind", "--task", "regression"], 1, "has strings, such as 'blue'"),
        (["train.csv", "-t", "y", "--drop", "knd"], 2, "no column 'knd' for drop. Did you mean 'kind'?"),
        (["train.csv", "-t", "y", "--test-size", "89.5"], 2, "test_size must be"),
        (["train.csv", "-t", "y", "--estimator", "forest"], 2, "estimator must be one of"),
        (["train.csv", "-t", "y", "--alpha", "1"], 2, "estimator='auto' chooses alpha by itself"),
        (["train.csv", "-t", "y", "-o", "x", "--report", "x"], 2, "Two outputs are the same file"),
        (["train.csv", "-t", "y", "--scheduler", "tcp://127.0.0.1:1"], 1, "There is no Dask scheduler"),
        (["-", "-t", "y"], 1, "Standard input is empty"),
    ],
)
def test_wrong_arguments_of_fit_are_one_line(run, folder, monkeypatch, arguments, code, message):
    monkeypatch.setattr("mercer.engines.dask.client.TIMEOUT", 0.2)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    before = {path.name for path in folder.iterdir()}
    page = [] if "--report" in arguments else ["--no-report"]
    found, _, err = run("fit", *arguments, "--no-compare", "--quiet", *page)
    assert found == code, err
    assert err.count("\n") == 1
    assert err.startswith("mercer: ")
    assert message in err
    assert {path.name for path in folder.iterdir()} == before


def test_predict_writes_the_columns_that_are_asked_for(run, folder):
    code, out, err = run("predict", "model.mercer", "new.csv", "--std", "--interval", "0.8", "--keep", "id")
    assert code == 0, err
    assert out.startswith("predictions.csv: predictions of 50 rows (id, prediction, std, low, high)")
    found = pd.read_csv(folder / "predictions.csv")
    assert found.id.tolist() == list(range(50))
    assert ((found.low < found.prediction) & (found.prediction < found.high)).all()
    assert run("predict", "labels.mercer", "new.csv", "--proba", "-o", "p.parquet")[0] == 0
    found = pq.read_table(folder / "p.parquet").to_pandas()
    assert list(found) == ["prediction", "probability_high", "probability_low"]
    assert np.allclose(found.probability_high + found.probability_low, 1)
    assert ((found.prediction == "high") == (found.probability_high > 0.5)).all()


def test_predict_reads_stdin_and_writes_stdout(run, folder, monkeypatch):
    data = (folder / "new.csv").read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    code, out, err = run("predict", "model.mercer", "-", "-o", "-")
    assert (code, err) == (0, "")
    run("predict", "model.mercer", "new.csv")
    assert out == (folder / "predictions.csv").read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["absent.mercer", "new.csv"], 1, "absent.mercer"),
        (["new.csv", "new.csv"], 1, "new.csv"),
        (["model.mercer", "absent.csv"], 1, "absent.csv"),
        (["model.mercer", "new.csv", "--proba"], 2, "has no probabilities"),
        (["labels.mercer", "new.csv", "--std"], 2, "have no error bars"),
        (["model.mercer", "new.csv", "--interval", "2"], 2, "interval must be a probability"),
        (["model.mercer", "new.csv", "--keep", "ID"], 2, "Did you mean 'id'?"),
        (["model.mercer", "new.csv", "-o", "out.xyz"], 2, "the format cannot be inferred"),
        (["model.mercer", "new.csv", "--json", "-o", "-"], 2, "both write to stdout"),
        (["model.mercer", "kinds.csv"], 1, "lacks column"),
    ],
)
def test_wrong_arguments_of_predict_leave_no_file(run, folder, arguments, code, message):
    (folder / "kinds.csv").write_text("kind\nred\n")
    before = {path.name for path in folder.iterdir()}
    found, out, err = run("predict", *arguments)
    assert (found, out) == (code, "")
    assert message in err
    assert {path.name for path in folder.iterdir()} == before


def test_evaluate_as_text_and_as_json(run, folder):
    code, out, err = run("evaluate", "model.mercer", "test.csv")
    assert (code, err) == (0, "")
    assert "model.mercer on test.csv: 40 rows, target 'y'" in out
    assert "R2" in out
    result = json.loads(run("evaluate", "labels.mercer", "labels.csv", "--json")[1])
    assert [score["name"] for score in result["scores"]] == ["accuracy", "log loss"]
    assert result["n_rows"] == 90


def test_evaluate_needs_the_target(run, folder):
    code, _, err = run("evaluate", "model.mercer", "new.csv")
    assert code == 1
    assert "has no column 'y'" in err
