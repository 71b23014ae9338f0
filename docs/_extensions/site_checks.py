"""Checks of the built site that need no network: links, what pages load, and the names of the API."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "link": "href"}
# Links that name a page but load nothing.
NOT_LOADED = {"canonical", "index", "search", "next", "prev", "author", "copyright"}


class Page(HTMLParser):
    """Links, anchors and loaded files of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what a tag refers to."""
        values = dict(attrs)
        self.anchors |= {value for key in ("id", "name") if (value := values.get(key))}
        if tag == "a" and (href := values.get("href")):
            self.links.append(href)
        relation = set((values.get("rel") or "").split())
        if tag in LOADED and not relation & NOT_LOADED and (address := values.get(LOADED[tag])):
            self.loaded.append(address)


def problems(html: Path) -> list[str]:
    """Return what is wrong with a built site, one sentence each."""
    # Files of themes in _static are templates or copied as they are.
    files = sorted(path for path in html.rglob("*.html") if "_static" not in path.relative_to(html).parts)
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in files}
    return [*broken_links(html, pages), *remote_files(html, pages), *missing_names(html)]


def broken_links(html: Path, pages: dict[Path, Page]) -> list[str]:
    """Return links and loaded files that are not part of the site."""
    found = []
    for path, page in pages.items():
        for address in [*page.links, *page.loaded]:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                found.append(f"{path.relative_to(html)}: {address} does not exist")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                found.append(f"{path.relative_to(html)}: {address} has no such anchor")
    return sorted(set(found))


def remote_files(html: Path, pages: dict[Path, Page]) -> list[str]:
    """Return what pages and style sheets would load from a network."""
    found = [
        f"{path.relative_to(html)}: loads {address}"
        for path, page in pages.items()
        for address in page.loaded
        if urlsplit(address).netloc
    ]
    for path in sorted(html.rglob("*.css")):
        text = path.read_text(encoding="utf-8", errors="replace")
        remote = re.findall(r"""(?:url\(\s*["']?|@import\s+["'])((?:https?:)?//[^"')\s]+)""", text)
        found += [f"{path.relative_to(html)}: loads {address}" for address in remote]
    return found


def missing_names(html: Path) -> list[str]:
    """Return the public names of `mercer` that have no page."""
    from sphinx.util.inventory import InventoryFile

    import mercer

    inventory = InventoryFile.loads((html / "objects.inv").read_bytes(), uri="")
    names = {name for kind in inventory.data if kind.startswith("py:") for name in inventory.data[kind]}
    return [f"API: mercer.{name} is missing" for name in mercer.__all__ if f"mercer.{name}" not in names]
