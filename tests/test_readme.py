"""The README's quick start and the pages of the site run and print what they promise; the table names what exists."""

import importlib.util
import inspect
import re
from pathlib import Path

import pytest

import mercer

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
WHAT_EXISTS = ROOT / "docs" / "what_exists.md"
spec = importlib.util.spec_from_file_location("code_blocks", ROOT / "docs" / "_extensions" / "code_blocks.py")
code_blocks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(code_blocks)


def block_under(heading, language):
    text = README.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1]
    return re.search(rf"```{language}\n(.*?)```", text, re.DOTALL).group(1)


def printed_by(page, start=""):
    """Return all that the Python blocks of a page of the site print, from a heading on."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    text = text[text.index(start) :]
    return "".join(printed for _, printed in code_blocks.run_blocks(text, page))


def test_quick_start_runs(capsys):
    exec(compile(block_under("Quick start", "python"), "README.md", "exec"), {})
    printed = capsys.readouterr().out
    # Least squares has 0.359 on this split.
    assert float(re.search(r"R2 ([\d.]+)", printed).group(1)) > 0.33
    assert "331 rows of 10 columns" in printed
    assert "held-out" in printed


def test_quick_start_has_about_ten_lines():
    assert len([line for line in block_under("Quick start", "python").splitlines() if line]) <= 10


def test_parts_chosen_by_hand_run():
    printed = printed_by("quickstart.md", start="## The three parts")
    accuracy = float(re.search(r"accuracy ([\d.]+)", printed).group(1))
    rmse = float(re.search(r"RMSE ([\d.]+)", printed).group(1))
    assert accuracy > 0.97
    assert 0 < rmse < 0.1


def test_few_labels_gain_from_the_graph():
    printed = printed_by("guide/few_labels.md")
    plain, deformed = (float(re.search(rf"{words} ([\d.]+)", printed).group(1)) for words in ("the graph", "with it"))
    assert deformed > plain + 0.03
    assert deformed > 0.8


def test_model_is_served_without_mercer():
    pytest.importorskip("onnxruntime")
    printed = printed_by("guide/serve.md")
    python, onnx = (float(value) for value in re.findall(r"largest difference (\S+)", printed))
    assert python < 1e-9
    assert onnx < 1e-6
    served, expected = re.findall(r"\[([^\[\]]*)\]", printed)[-2:]
    assert [float(value) for value in served.split()] == pytest.approx([float(v) for v in expected.split()], abs=1e-3)


def test_clusters_and_tests_run():
    assert "rings found: 100.0%" in printed_by("guide/clusters.md")
    assert printed_by("guide/tests.md").count("p = 0.001 (999 permutations)") == 2


@pytest.mark.parametrize("heading", ["Run it", "Test it"])
def test_the_two_commands_stand_first(heading):
    assert block_under(heading, "sh").startswith("pip install '.[")


def test_every_public_name_is_in_the_table():
    text = WHAT_EXISTS.read_text(encoding="utf-8")
    named_by_operators = {"Kernel", "Sum", "Product", "Scaled", "Composed", "Constant"}
    things = [name for name in mercer.__all__ if not inspect.ismodule(getattr(mercer, name))]
    names = [n for n in things if not n.endswith(("Error", "Warning")) and n not in named_by_operators]
    assert [name for name in names if f"`{name}`" not in text] == []


def test_files_that_the_readme_names_exist():
    named = re.findall(r"\]\(([\w/.-]+)(?:#[\w-]+)?\)", README.read_text(encoding="utf-8"))
    assert len(named) >= 15
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_figures_of_the_readme_stand_in_the_benchmarks():
    text = README.read_text(encoding="utf-8").split("\n## Beside other libraries\n")[1].split("\nThe approximation")[0]
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    assert len(rows) == 6
    measured = set(re.findall(r"\d+(?:\.\d+)?", (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")))
    for number in re.findall(r"\d+\.\d+", text):
        digits = len(number.partition(".")[2])
        assert any(f"{float(other):.{digits}f}" == number for other in measured if len(other) >= len(number)), number
