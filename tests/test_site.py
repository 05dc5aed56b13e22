"""The documentation site: it builds without a warning, every page has a title, and no link within it is broken."""

from __future__ import annotations

import html.parser
import importlib.util
import subprocess
import sys
import urllib.parse
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import meshlab as ml

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.py"))
# Pages that Sphinx makes of its own accord.
MADE = {"genindex.html", "py-modindex.html", "search.html"}

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(importlib.util.find_spec("myst_nb") is None, reason="the site needs `make docs`, or .[docs]"),
]


@dataclass
class Page(html.parser.HTMLParser):
    """What a page has: its title, the links that it goes to, and the places that links can go to."""

    title: str = ""
    headings: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()
        self.inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = tag
        if tag == "h1":
            self.headings.append("")
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            if name in ("href", "src") and value:
                self.links.append(value)

    def handle_data(self, data: str) -> None:
        if self.inside == "title":
            self.title += data
        if self.inside in ("h1", "code", "span") and self.headings:
            self.headings[-1] += data


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built anew; `make docs` has executed the notebooks before."""
    out = tmp_path_factory.mktemp("site")
    words = [*"-m sphinx -W --keep-going -q -b html -d".split(), str(out / "read"), "docs", str(out / "html")]
    built = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr[-5000:]
    return out / "html"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    found = {}
    for path in site.rglob("*.html"):
        if "_static" not in path.relative_to(site).parts:
            found[path] = Page()
            found[path].feed(path.read_text(encoding="utf-8"))
    assert len(found) > 30
    return found


def test_every_source_is_a_page(site: Path, pages: dict[Path, Page]) -> None:
    sources = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert sources == {path.stem for path in pages if path.parent == site} - {Path(name).stem for name in MADE}
    assert NOTEBOOKS == sorted(path.stem for path in pages if path.parent.name == "learn")


def test_every_page_has_a_title(pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        assert page.title.strip(), path
        assert path.name in MADE or path.parent.name == "boards" or page.headings[0].strip(), path


def test_no_link_within_the_site_is_broken(site: Path, pages: dict[Path, Page]) -> None:
    followed, broken = 0, []
    for path, page in pages.items():
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            followed += 1
            target = path if not parts.path else (path.parent / urllib.parse.unquote(parts.path)).resolve()
            anchor = urllib.parse.unquote(parts.fragment)
            if not target.exists() or (anchor and target in pages and anchor not in pages[target].anchors):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert followed > 1000
    assert [link for link in broken if not link.endswith(": #")] == []


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    """A reader without a network sees the whole site."""
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert 'src="http' not in text, path
        assert 'rel="stylesheet" href="http' not in text, path


def test_every_public_name_is_in_the_reference(pages: dict[Path, Page]) -> None:
    anchors = set().union(*(page.anchors for path, page in pages.items() if path.parent.name == "reference"))
    modules = ["auto", "layouts", "puzzles", "tested"]
    assert [name for name in vars(ml)["__all__"] if f"meshlab.{name}" not in anchors] == modules
    assert {f"meshlab.layouts.{name}" for name in ("fsdp", "tensor_parallel", "accumulate")} <= anchors
    assert {"meshlab.auto.layout", "meshlab.Plan.memory", "meshlab.Explorer.place"} <= anchors


def test_notebooks_show_their_boards(site: Path) -> None:
    """Each was executed: a board is its picture, and the start page has one to drag."""
    assert "mlb-" in (site / "learn" / "00_start.html").read_text(encoding="utf-8")
    assert '<iframe class="meshlab-board" src="boards/' in (site / "start.html").read_text(encoding="utf-8")
