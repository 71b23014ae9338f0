"""The README's quick start runs and prints what it promises; its tables name what exists."""

import inspect
import re
from pathlib import Path

import pytest

import mercer

README = Path(__file__).parent.parent / "README.md"


def block_under(heading, language):
    text = README.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1]
    return re.search(rf"```{language}\n(.*?)```", text, re.DOTALL).group(1)


def test_quick_start_runs(capsys):
    exec(compile(block_under("Quick start", "python"), "README.md", "exec"), {})
    printed = capsys.readouterr().out
    # Least squares has 0.359 on this split.
    assert float(re.search(r"R2 ([\d.]+)", printed).group(1)) > 0.33
    assert "331 rows of 10 columns" in printed
    assert "held-out" in printed


def test_parts_chosen_by_hand_run(capsys):
    exec(compile(block_under("By hand", "python"), "README.md", "exec"), {})
    printed = capsys.readouterr().out
    accuracy = float(re.search(r"accuracy ([\d.]+)", printed).group(1))
    rmse = float(re.search(r"RMSE ([\d.]+)", printed).group(1))
    assert accuracy > 0.97
    assert 0 < rmse < 0.1


def test_few_labels_gain_from_the_graph(capsys):
    exec(compile(block_under("Few labels", "python"), "README.md", "exec"), {})
    printed = capsys.readouterr().out
    plain, deformed = (float(re.search(rf"{word} ([\d.]+)", printed).group(1)) for word in ("graph", "it"))
    assert deformed > plain + 0.03
    assert deformed > 0.8


def test_model_is_served_without_mercer(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(block_under("Serve a model", "python"), "README.md", "exec"), names)
    printed = capsys.readouterr().out
    assert float(re.search(r"largest difference (\S+)", printed).group(1)) < 1e-9
    predictions = [float(line) for line in printed.splitlines()[1:4]]
    assert predictions == pytest.approx(names["model"].predict(names["X"][:3]).tolist(), abs=1e-9)
    assert {path.name for path in tmp_path.iterdir()} >= {"model.py", "model.npz"}


def test_quick_start_has_about_ten_lines():
    assert len([line for line in block_under("Quick start", "python").splitlines() if line]) <= 10


def test_clusters_and_tests_run(capsys):
    exec(compile(block_under("Clusters and tests", "python"), "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "rings found: 100.0%" in printed
    assert printed.count("p = 0.001 (999 permutations)") == 2


@pytest.mark.parametrize("heading", ["Run it", "Test it"])
def test_the_two_commands_stand_first(heading):
    assert block_under(heading, "sh").startswith("pip install '.[")


def test_every_public_name_is_in_the_table():
    text = README.read_text(encoding="utf-8")
    named_by_operators = {"Kernel", "Sum", "Product", "Scaled", "Composed", "Constant"}
    things = [name for name in mercer.__all__ if not inspect.ismodule(getattr(mercer, name))]
    names = [n for n in things if not n.endswith(("Error", "Warning")) and n not in named_by_operators]
    assert [name for name in names if f"`{name}`" not in text] == []
