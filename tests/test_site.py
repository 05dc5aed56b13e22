"""The documentation site: it builds without a warning, no link within it is broken, and all its boards are dragged."""

from __future__ import annotations

import html.parser
import json
import os
import re
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from playwright.sync_api import Browser, Locator, expect
from playwright.sync_api import Page as Tab

import meshlab as ml
from tests.browser.board import Board
from tests.browser.page import DEADLINE, open_browser
from tests.widgets.frozen.test_share import table

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.py"))
# Pages that Sphinx makes of its own accord.
MADE = {"genindex.html", "py-modindex.html", "search.html"}
# The bytes of a board's file at most; more with a column of stored arrays, which the goal of lesson 9 needs.
MOST = 250_000
WITH_STORED = {"learn/09_your_own_model": 300_000}

get_cache = pytest.importorskip("jupyter_cache", reason="the site needs `make docs`, or .[docs]").get_cache
pytestmark = pytest.mark.nightly


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


def test_each_notebook_is_executed_once(site: Path) -> None:
    """Ahead of its page, so that MyST-NB, which says how long it takes, does not execute it."""
    newest = max((ROOT / ".site" / "executed").iterdir(), key=lambda folder: folder.stat().st_mtime)
    executed = get_cache(newest / "cache").list_cache_records()
    assert {Path(each.uri).stem for each in executed} >= {*NOTEBOOKS}
    assert not any("execution_seconds" in each.data for each in executed)


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


def boards_of(name: str) -> int:
    """How many cells of a lesson end with a board: an Explorer by its name, or a puzzle's."""
    text = (ROOT / "notebooks" / f"{name}.py").read_text(encoding="utf-8")
    shown = "|".join([*re.findall(r"^(\w+) = ml\.explore\(", text, re.MULTILINE), r"puzzles\.\w+\.show\(\)"])
    return len(re.findall(rf"^(?:{shown})$", text, re.MULTILINE))


# The pages that have boards, and how many: each lesson has one.
BOARDS = {"start": 1} | {f"learn/{name}": boards_of(name) for name in NOTEBOOKS}


def test_boards_are_small(site: Path) -> None:
    assert min(BOARDS.values()) >= 1
    frames = [re.findall(r'<iframe class="meshlab-board" src="([^"]+)"', _text(site, page)) for page in BOARDS]
    assert [len(each) for each in frames] == [*BOARDS.values()]
    files = [(page, (site / page).parent / each) for page, of in zip(BOARDS, frames, strict=True) for each in of]
    sizes = [(page, file.name, file.stat().st_size) for page, file in files]
    assert [each for each in sizes if each[2] > WITH_STORED.get(each[0], MOST)] == []


def test_every_goal_is_met_by_drops_that_are_recorded(site: Path) -> None:
    met = {}
    for page in BOARDS:
        for frame in re.findall(r'<iframe class="meshlab-board" src="([^"]+)"', _text(site, page)):
            met[page, frame] = met_by_drops((site / page).parent / frame)
    assert [where for where, each in met.items() if each is False] == []
    assert sum(each is True for each in met.values()) >= 16


def met_by_drops(file: Path) -> bool | None:
    """Whether drops lead from the layout on a board to one that meets its goal; None without one."""
    lines = table(file.read_text(encoding="utf-8"))

    def read(value: Any) -> Any:
        while isinstance(value, dict) and value.keys() == {"@"}:
            value = json.loads(lines[value["@"]])
        return value

    root = read(json.loads(lines[-1]))
    states = [read(state) for state in read(root["states"])]
    there = [root["start"]]
    for number in there:
        moves = read(states[number]["moves"]).items()
        drops = [to for move, to in moves if isinstance(to, int) and json.loads(move)[0] in {"place", "remove"}]
        there += [to for to in dict.fromkeys(drops) if to < len(states) and to not in there]
    goals = [read(read(read(read(states[n]["state"])["parts"])["goal"])["goal"]) for n in there]
    return any(goal["met"] for goal in goals) if all(goals) else None


def _text(site: Path, page: str) -> str:
    return (site / f"{page}.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as opened:
        yield opened


@pytest.mark.browser
@pytest.mark.skipif(bool(os.environ.get("MESHLAB_NO_BROWSER")), reason="MESHLAB_NO_BROWSER is set")
def test_the_goal_of_your_own_model_is_met_on_its_page(site: Path, browser: Browser) -> None:
    """By a drop into a column of stored arrays, which is recorded since compute alone does not meet it."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce", offline=True)
    context.set_default_timeout(DEADLINE)
    tab = context.new_page()
    tab.goto((site / "learn/09_your_own_model.html").as_uri())
    frame = tab.locator("iframe.meshlab-board")
    frame.scroll_into_view_if_needed()
    board = framed(tab, frame)
    missed = board.root.locator('.mlb-goal li[data-state="missed"]')
    expect(board.root.locator(".mlb-goal li")).to_have_count(3)
    expect(missed).to_have_count(1)
    with board.next_revision():
        board.drag("embed", "model", "params/*")
    expect(missed).to_have_count(0)
    context.close()


@pytest.mark.browser
@pytest.mark.skipif(bool(os.environ.get("MESHLAB_NO_BROWSER")), reason="MESHLAB_NO_BROWSER is set")
def test_no_output_of_a_lesson_is_cut(site: Path, browser: Browser) -> None:
    tab, cut = browser.new_page(viewport={"width": 1280, "height": 900}), {}
    for name in NOTEBOOKS:
        tab.goto((site / f"learn/{name}.html").as_uri())
        widths = tab.locator(".cell_output pre").evaluate_all("all => all.map(e => [e.scrollWidth, e.clientWidth])")
        assert widths, name
        cut[name] = sum(needed > there + 1 for needed, there in widths)
    assert not any(cut.values()), cut
    tab.close()


@pytest.mark.browser
@pytest.mark.skipif(bool(os.environ.get("MESHLAB_NO_BROWSER")), reason="MESHLAB_NO_BROWSER is set")
@pytest.mark.parametrize("page", BOARDS)
def test_every_board_is_dragged_without_a_network(site: Path, browser: Browser, page: str) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce", offline=True)
    context.set_default_timeout(DEADLINE)
    tab, errors = context.new_page(), list[str]()
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.goto((site / f"{page}.html").as_uri())
    frames = tab.locator("iframe.meshlab-board")
    expect(frames).to_have_count(BOARDS[page])
    for frame in frames.all():
        frame.scroll_into_view_if_needed()
        drag_once(framed(tab, frame))
    assert errors == []
    context.close()


def framed(tab: Tab, frame: Locator) -> Board:
    """The board in a frame of a page: its elements are the frame's, mouse and keyboard the page's."""
    view = SimpleNamespace(locator=frame.content_frame.locator, mouse=tab.mouse, keyboard=tab.keyboard)
    return Board(cast(Any, SimpleNamespace(view=view)))


def drag_once(board: Board) -> None:
    """Predicts, where that is asked first, and drags the first chip that some zone takes onto it."""
    field = board.root.get_by_role("group", name="task", exact=True).get_by_role("textbox")
    if field.count():
        field.fill("1")
        field.press("Enter")
        expect(field).to_have_count(0)
    for dim in board.root.locator(".mlb-chip").evaluate_all("chips => chips.map(chip => chip.dataset.dim)"):
        board.press(dim)
        takes = board.root.locator('.mlb-zone[data-state="legal"]')
        if takes.count():
            with board.next_revision():
                board.move_to(*(takes.first.get_attribute("data-zone") or "").split("@"))
                board.mouse.up()
            return
        board.mouse.up()
    raise AssertionError("No zone takes any chip.")
