"""Python blocks of the pages run, as they do when the site is built."""

import importlib.util
import re
from pathlib import Path

import pytest
from code_blocks import FENCE, PAGES, run_blocks, with_output

DOCS = Path(__file__).parents[2] / "docs"
TEXTS = {
    path.relative_to(DOCS).with_suffix("").as_posix(): path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md")
}
WITH_CODE = sorted(name for name, text in TEXTS.items() if FENCE.search(text))
# One to six processor seconds each, or also run by tests/test_readme.py.
LONG = {
    "export",
    "guide/clusters",
    "guide/coming_from",
    "guide/error_bars",
    "guide/few_labels",
    "guide/files",
    "guide/how_good",
    "guide/maps",
    "guide/serve",
    "guide/tests",
    "guide/tune",
    "index",
    "quickstart",
    "theory/audits",
    "theory/clusters-and-tests",
    "theory/compositions",
    "theory/directions",
    "theory/fourier",
    "theory/learned-metrics",
    "theory/neurons",
    "theory/quadrature",
    "theory/sketches",
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if n in LONG else []) for n in WITH_CODE])
def test_blocks_run(name):
    if name in {"guide/serve", "export"}:
        pytest.importorskip("onnxruntime")
    assert len(run_blocks(TEXTS[name], f"{name}.md")) == len(FENCE.findall(TEXTS[name]))


def test_every_page_with_code_runs_when_the_site_is_built():
    assert [name for name in WITH_CODE if not PAGES.match(name)] == []
    assert {f"guide/{name}" for name in ("kernels", "maps", "tune", "files", "serve", "tests")} <= set(WITH_CODE)
    assert LONG <= set(WITH_CODE)


def test_theory_pages_have_experiments():
    pages = ["audits", "clusters-and-tests", "compositions", "deformation", "directions", "fourier", "landmarks"]
    pages += ["learned-metrics", "maclaurin", "near-rows", "neurons", "quadrature", "sketches"]
    pages += ["thresholds-and-histograms"]
    assert [name for name in pages if "## An experiment" not in TEXTS[f"theory/{name}"]] == []
    assert [name for name in pages if not FENCE.search(TEXTS[f"theory/{name}"])] == []


def test_output_stands_below_its_block():
    page = with_output("# Page\n\n```python\na = 2\n```\n\nText.\n\n```python\nprint(a + 1)\n```\n", "page.md")
    assert page.count(":class: output") == 1
    assert re.search(r"print\(a \+ 1\)\n```\n\n```{code-block} text\n:class: output wrapped\n\n3\n```", page)


@pytest.mark.parametrize("code", ["1 / 0", "import warnings; warnings.warn('x')"])
def test_a_block_that_fails_or_warns_stops_the_build(code):
    with pytest.raises((ZeroDivisionError, UserWarning)):
        run_blocks(f"```python\n{code}\n```\n", "page.md")


def test_links_between_pages_exist():
    missing = []
    for name, text in TEXTS.items():
        for address in re.findall(
            r"\]\(([^)#\s]+\.(?:md|rst|py))(?:#[^)]*)?\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        ):
            target = (DOCS / name).parent / address
            if "gallery_pages/" in address:
                target = (
                    DOCS / "gallery" / f"{target.stem}.py" if target.stem != "index" else DOCS / "gallery/README.rst"
                )
            elif "api/" in address:
                continue  # pages that the build makes, and whose links it checks
            if not target.exists():
                missing.append(f"{name}: {address}")
    assert missing == []


def test_links_to_and_from_root_pages_fit_the_folder_of_the_site(tmp_path):
    spec = importlib.util.spec_from_file_location("build_site", DOCS / "build.py")
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    build.copy_sources(tmp_path)
    links = re.compile(r"\]\(([^)#\s:]+\.md)(?:#[^)]*)?\)")
    from_root = [a for name in build.ROOT_PAGES for a in links.findall((tmp_path / name).read_text(encoding="utf-8"))]
    assert from_root
    assert [address for address in from_root if not (tmp_path / address).is_file()] == []
    assert "](../CONTRIBUTING.md#add-a-kernel)" in (tmp_path / "guide/kernels.md").read_text(encoding="utf-8")
    # An unchanged page is not copied again, because Sphinx would read it again.
    copied = tmp_path / "CONTRIBUTING.md"
    before = copied.stat().st_mtime_ns
    build.copy_sources(tmp_path)
    assert copied.stat().st_mtime_ns == before


def test_scripts_of_the_gallery_are_many_and_short():
    scripts = sorted((DOCS / "gallery").glob("*.py"))
    assert len(scripts) >= 15
    assert [s.name for s in scripts if not s.name.startswith("plot_")] == []
    for script in scripts:
        text = script.read_text(encoding="utf-8")
        assert text.count("\n") < 100, script.name
        title, underline = text.split("\n")[1:3]
        assert underline == "=" * len(title), script.name
        assert "plt.show()" in text, script.name


def test_commands_of_the_pages_exist_with_their_options():
    import typer

    from mercer.cli import app

    commands = typer.main.get_command(app).commands
    blocks = [
        block for text in TEXTS.values() for block in re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    ]
    shown = [line for block in blocks for line in re.findall(r"^mercer (\w.*?)(?: +#.*)?$", block, flags=re.MULTILINE)]
    assert len(shown) >= 8
    for line in shown:
        name, *words = line.split()
        known = {option for parameter in commands[name].params for option in parameter.opts}
        assert [word for word in words if word.startswith("-") and word != "-" and word not in known] == [], line


def test_constructs_name_functions_that_exist():
    import mercer

    text = TEXTS["theory/constructs"]
    named = re.findall(r"`((?:theory|kernels)\.\w+|[A-Z]\w+)", text) + re.findall(r"`([a-z]\w+)`", text)
    assert len(named) > 60
    missing = []
    for name in named:
        module, _, attribute = name.rpartition(".")
        if not hasattr(getattr(mercer, module) if module else mercer, attribute):
            missing.append(name)
    assert missing == []
