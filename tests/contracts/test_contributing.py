"""The recipes of CONTRIBUTING.md run as they are printed, and their checks detect mistakes in them."""

import importlib.util
import re
import sys
import textwrap
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"


def sections():
    """Return the Python code under each heading of the page."""
    _, *parts = re.split(r"^## (.*)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    blocks = r"^( *)```python\n(.*?)^ *```"
    return {
        heading: "\n\n".join(
            textwrap.dedent(code) for _, code in re.findall(blocks, text, flags=re.MULTILINE | re.DOTALL)
        )
        for heading, text in zip(parts[::2], parts[1::2], strict=True)
    }


RECIPES = {heading: code for heading, code in sections().items() if code}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return a function that runs code as a module of a name, which pickle can import."""

    def run_module(name, code):
        path = tmp_path / f"{name}.py"
        path.write_text(code, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)

    return run_module


@pytest.mark.parametrize("heading", RECIPES)
def test_recipe_runs(heading, run):
    assert "check_" in RECIPES[heading]
    run("recipe", RECIPES[heading])


@pytest.mark.parametrize("heading", ["Add a kernel", "Add a map", "Add a learner", "Add an engine"])
def test_every_extension_has_a_section(heading):
    assert heading in sections()


@pytest.mark.parametrize(
    ("heading", "right", "wrong", "text"),
    [
        ("Add a kernel", "return 2 * u", "return u", "must have the spectral distribution|must be the mean"),
        ("Add a kernel", "-np.expm1(-square) / square", "-2 * np.expm1(-square) / square", r"profile\(0\) must be 1"),
        ("Add a kernel", "return 1.0", "return 0.2", "mean_mixing must be the mean"),
        ("Add a map", "np.sqrt(self.n_components)", "self.n_components", "claims to be unbiased"),
        ("Add a map", "[-1.0, 1.0]", "[0.0, 1.0]", "claims to be unbiased"),
    ],
)
def test_mistakes_in_a_recipe_are_detected(heading, right, wrong, text, run):
    assert RECIPES[heading].count(right) == 1
    with pytest.raises(AssertionError, match=text):
        run("mistaken_recipe", RECIPES[heading].replace(right, wrong))


def test_files_that_the_page_names_exist():
    root = PAGE.parent
    named = re.findall(r"`((?:src|docs|tests|benchmarks)/[\w/.-]+)`", PAGE.read_text(encoding="utf-8"))
    assert len(named) >= 8
    assert [path for path in named if not (root / path).exists()] == []
