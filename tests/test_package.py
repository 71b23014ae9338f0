"""The package as a whole: public names, quick import, versions that agree."""

import importlib.metadata
import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import mercer

ROOT = Path(__file__).parents[1]


def test_public_names_are_sorted_and_exist():
    assert mercer.__all__ == sorted(mercer.__all__)
    for name in mercer.__all__:
        assert getattr(mercer, name).__name__.removeprefix("mercer.") == name


def test_versions_agree():
    assert importlib.metadata.version("mercer") == mercer.__version__


def test_import_loads_nothing_heavy():
    code = "import sys, mercer; print([m for m in ('numpy', 'scipy', 'sklearn', 'matplotlib') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_unknown_names_are_attribute_errors():
    assert not hasattr(mercer, "Gauss")


def test_public_estimators_and_kernels_of_the_folders_are_public_names():
    bases = (mercer.Kernel, mercer.maps.BaseMap, mercer.learners.base.Learner, mercer.graphs.Graph)
    found = {
        name
        for room in (mercer.kernels, mercer.maps, mercer.graphs, mercer.learners)
        for name in room.__all__
        if inspect.isclass(getattr(room, name)) and issubclass(getattr(room, name), bases)
    }
    concrete = {name for name in found if not name.endswith(("Kernel", "Map", "Graph")) or name == "DeformedKernel"}
    assert concrete <= set(mercer.__all__)


def test_the_version_is_the_same_in_every_file():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    citation = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    recipe = re.search(r'^  version: "(\S+)"$', (ROOT / "packaging/conda/recipe.yaml").read_text(), re.MULTILINE)
    assert citation is not None
    assert citation.group(1) == project
    assert recipe is not None
    assert recipe.group(1) == project


def test_the_conda_recipe_has_the_dependencies_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    recipe = (ROOT / "packaging/conda/recipe.yaml").read_text()
    run = recipe[recipe.index("  run:\n") : recipe.index("  run_constraints:\n")]
    listed = {line.strip()[2:].replace(" ", "") for line in run.splitlines() if line.strip().startswith("- ")}
    assert listed == {*project["dependencies"], f"python{project['requires-python']}"}
