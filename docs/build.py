"""Build the site: ``python docs/build.py``, then open ``build/site/html/index.html``.

The pages are read from a copy of this folder in ``build/site/source``, because Sphinx writes generated pages beside the
others. Every warning is an error. Python blocks of pages and the scripts of the gallery run; ``--quick`` runs blocks
only. The build ends with a check of internal links, of what pages would load from a network, and of the
names of the API.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

DOCS = Path(__file__).resolve().parent
TARGET = DOCS.parent / "build" / "site"
# Files above this folder that are pages of the site, too.
ROOT_PAGES = ("CONTRIBUTING.md", "CHANGELOG.md")


def content(path: Path) -> bytes:
    """Return a source with links for the folder that Sphinx reads, where the root pages are beside the others."""
    if path.suffix != ".md":
        return path.read_bytes()
    text = path.read_text(encoding="utf-8")
    if path.parent == DOCS.parent:
        text = text.replace("](docs/", "](")
    for page in ROOT_PAGES:
        text = re.sub(rf"\]\(\.\./((?:\.\./)*{re.escape(page)})", r"](\1", text)
    return text.encode()


def copy_sources(source: Path) -> None:
    """Copy changed files to the folder that Sphinx reads, and remove what no longer exists."""
    paths = [path for path in DOCS.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    files = {path.relative_to(DOCS): path for path in paths} | {Path(name): DOCS.parent / name for name in ROOT_PAGES}
    generated = ("api", "gallery_pages")
    for old in [p.relative_to(source) for p in source.rglob("*") if p.is_file()]:
        if old not in files and old.parts[0] not in generated and "__pycache__" not in old.parts:
            (source / old).unlink()
    for old in source.glob("gallery_pages/plot_*"):
        if not (DOCS / "gallery" / f"{old.name.split('.')[0]}.py").exists():
            old.unlink()
    for name, path in sorted(files.items()):
        new, text = source / name, content(path)
        if not new.exists() or new.read_bytes() != text:
            new.parent.mkdir(parents=True, exist_ok=True)
            # With the time of the copy: Sphinx reads pages again that are newer than its last build of them.
            new.write_bytes(text)


def main() -> int:
    """Build the site and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="do not run the scripts of the gallery")
    parser.add_argument("--fresh", action="store_true", help="forget earlier builds")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes; all cores by default")
    parser.add_argument("--target", type=Path, default=TARGET, help="folder to write, build/site by default")
    options = parser.parse_args()
    started = time.monotonic()
    target: Path = options.target.resolve()
    if options.fresh and target.exists():
        shutil.rmtree(target)
    source, html = target / "source", target / "html"
    source.mkdir(parents=True, exist_ok=True)
    copy_sources(source)
    sys.path.insert(0, str(DOCS / "_extensions"))
    from api_pages import MODULES, documented, write_pages
    from site_checks import problems

    if write_pages(source / "api"):
        # Autosummary makes stubs for pages that the previous build has known only.
        shutil.rmtree(target / "doctrees", ignore_errors=True)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    command += ["-d", str(target / "doctrees"), "-j", str(options.jobs)]
    if options.quick:
        command += ["-D", "plot_gallery=0"]
    # Processes that share the cores: threads of BLAS would wait for each other.
    environment = os.environ | {"MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    status = subprocess.run([*command, str(source), str(html)], env=environment, check=False).returncode
    if status:
        return status
    found = problems(html)
    for problem in found:
        print(problem, file=sys.stderr)
    for name in [n for n in MODULES if n not in documented()]:
        print(f"mercer.{name} has no page, because its package is not installed")
    print(f"{html / 'index.html'} after {time.monotonic() - started:.0f} s, {len(found)} problems")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
