"""The linter of words finds what it should, and nothing else."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
spec = importlib.util.spec_from_file_location("words", ROOT / "tools" / "words.py")
words = sys.modules["words"] = importlib.util.module_from_spec(spec)  # dataclasses look their module up
spec.loader.exec_module(words)


def findings(tmp_path, text, name="module.py"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return words.findings_in(path, name)


BAD = [
    "one minimum by any road",
    "one value a column.",
    "a uniform number, one a block",
    "two columns a point",
    "a choice at the end of the grid is said",
    "what was learned is told in the features of now",
    "memory that nobody holds",
    "whoever wrote them",
    "written down in words",
    "either truth value",
    "marks among the texts of y",
    "the law of the degrees",
    "a weight of two stands for two rows",
    "unlabeled=-1 cannot stand among the labels",
    "equal rows have equal chances, and the chance of a row",
    "a begin near the minimum",
    "with a sure bound",
    "explained variance, the way back",
    "indices and values must be as many",
    "see MATHS S1.13",
    "one amplitude serves all, and one serves them",
    "the centre of the cluster",
    "its nearest neighbours",
    "labelled rows",
    "the behaviour of the normalised kernel",
]
GOOD = [
    "the same optimum in memory, out of core and on Dask",
    "one per column, one per block",
    "a one-dimensional search: one a priori guess, and one at a time",
    "one a feature of which is zero",
    "it is said to converge; the two cannot be told apart",
    "a power law, the law of large numbers and the law of total variance",
    "the error texts of all learners",
    "understands forms, standing for election is no issue",
    "by chance, and chances are good",
    "the center, the neighbor, unlabeled, normalized; analyses, precise, otherwise, exercise, noise, raise",
    "the column on which it stands",
    "the railroad",
]


@pytest.mark.parametrize("sentence", BAD)
def test_bad_sentence_is_found_in_docstrings_comments_strings_and_markdown(sentence, tmp_path):
    assert findings(tmp_path, f'"""{sentence}"""\n')
    assert findings(tmp_path, f"x = 1  # {sentence}\n")
    assert findings(tmp_path, f"x = f'{{y}} {sentence}'\n")
    assert findings(tmp_path, f"# Title\n\n{sentence}\n", "page.md")


@pytest.mark.parametrize("sentence", GOOD)
def test_good_sentence_is_not_found(sentence, tmp_path):
    assert findings(tmp_path, f'"""{sentence}"""\n') == []
    assert findings(tmp_path, f"{sentence}\n", "page.md") == []


def test_words_over_a_line_break_are_found_at_their_line(tmp_path):
    (found,) = findings(tmp_path, 'x = 0\n"""A text.\n\n    The same by any\n    road.\n    """\n')
    assert (found.line, found.words) == (4, "by any road")
    (found,) = findings(tmp_path, "x = 0\n# the same by any\n# road\n")
    assert (found.line, found.words) == (2, "by any road")
    assert str(found).startswith("module.py:2: 'by any road': backend")


def test_names_of_tests_are_read_as_sentences_and_other_names_for_spelling(tmp_path):
    text = "def test_that_nobody_is_told(neighbour): ...\n"
    assert [f.words for f in findings(tmp_path, text, "test_x.py")] == ["is told", "neighbour", "nobody"]
    assert [f.words for f in findings(tmp_path, "def stands_for(centre): ...\n")] == ["centre"]


def test_code_in_markdown_and_allowed_lines_are_not_read(tmp_path):
    assert findings(tmp_path, "`nobody`\n\n```python\nnobody = 1\n```\n", "page.md") == []
    assert findings(tmp_path, "x = 'nobody'  # words: allow, the name of a user\n") == []
    assert len(findings(tmp_path, "# nobody  words: allow, quoted\n# nobody\n")) == 1


def test_exit_code_tells_whether_there_are_findings(tmp_path, capsys):
    (tmp_path / "bad.md").write_text("nobody\n", encoding="utf-8")
    assert words.main([str(tmp_path)]) == 1
    assert "bad.md:1: 'nobody'" in capsys.readouterr().out
    (tmp_path / "bad.md").write_text("no user\n", encoding="utf-8")
    assert words.main([str(tmp_path)]) == 0
