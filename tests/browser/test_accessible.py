"""axe-core finds nothing on the board: in both themes, on every tab, chip in hand, popover open, Python silent.

What axe cannot know is tested beside it: that pictures say what they show.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

import meshlab as ml
import meshlab.widgets
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from tests.browser.blank import BlankBoard
from tests.browser.board import Board
from tests.browser.test_board import TABS
from tests.widgets import small

AXE = Path(meshlab.widgets.__file__).parent / "js" / "node_modules" / "axe-core" / "axe.min.js"
NOTEBOOK = """# %%
import meshlab as ml
from tests.widgets import small
explorer = ml.explore(small.program(), ml.mesh("v5e", data=2, model=4), "batch:data hidden:model", run=small.training())
explorer
# %%
other = ml.explore(small.program(), small.mesh(), "batch:data")
other
"""
# Pictures that are read out neither as a picture, a group or what takes keys itself (with a name), nor as a part of a
# picture, nor left out on purpose.
UNNAMED = """root => [...root.querySelectorAll("svg, canvas, img, .js-plotly-plot")]
    .filter(each => each.getClientRects().length)
    .filter(each => !each.closest('[aria-hidden="true"]') && !each.parentElement.closest('[role="img"]'))
    .filter(each => !(["img", "group", "application"].includes(each.getAttribute("role")) && each.ariaLabel?.trim()))
    .map(each => each.outerHTML.slice(0, 160))"""

pytestmark = pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: (cd meshlab/widgets/js && npm ci)")


@pytest.fixture
def explorer() -> Explorer:
    """An Explorer with something on every tab: a machine, a run, a search, several layouts."""
    shown = explore(small.program(), ml.mesh("v5e", data=2, model=4), "batch:data", run=small.training(steps=3))
    shown.place("hidden", "model")
    shown.place("hidden", "data", at="params/*1")
    shown.run().wait(60)
    shown.auto("memory")
    shown.curve("data")
    shown.curve("batch")
    listed = threading.Event()
    shown.subscribe(lambda what: listed.set() if what == "models" and shown.listing.whole else None)
    shown.list_models()
    assert listed.wait(120)
    shown.view()
    return shown


def violations(page: Page, within: str = ".mlb") -> list[str]:
    problems = page.evaluate("async within => (await axe.run({ include: [[within]] })).violations", within)
    return [f"{each['id']}: {node['html'][:160]}" for each in problems for node in each["nodes"]]


def assert_accessible(board: Board, page: Page) -> None:
    assert violations(page) == []
    assert board.root.evaluate(UNNAMED) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_state_of_the_board(open_board, explorer: Explorer, theme: str) -> None:
    board: BlankBoard = open_board(theme=theme)
    page = board.blank.view
    page.add_script_tag(path=str(AXE))
    for tab in TABS:
        for disclosure in board.show(tab).locator("summary").all():
            disclosure.click()
        assert_accessible(board, page)
    board.press("classes")
    for zone in ("data", "model"):
        board.move_to(zone)
        assert_accessible(board, page)
    board.mouse.up()  # refused, with offers
    assert_accessible(board, page)
    board.chip("hidden").click()
    expect(board.root.locator(".mlb-here:visible")).not_to_have_count(0)
    assert_accessible(board, page)
    board.keyboard.press("Escape")
    for opener in ('[data-axis-row="data"]', '[data-dim="batch"]', '[data-op="models"]'):
        board.root.locator(opener).first.focus()
        board.keyboard.press("F2" if "dim" in opener else "Enter")
        expect(board.root.locator(".mlb-popover")).to_be_visible()
        assert_accessible(board, page)
        board.keyboard.press("Escape")
    page.clock.install()
    board.blank.silent = True
    board.drag("rows", "model")
    page.clock.fast_forward(2000)
    expect(board.root.locator(".mlb-banner")).to_be_visible()
    page.clock.resume()
    assert_accessible(board, page)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_two_explorers_in_one_notebook(notebook_page, tmp_path: Path, theme: str) -> None:
    source = tmp_path / f"accessible-{theme}.py"
    source.write_text(NOTEBOOK)
    page = notebook_page(source)
    page.run_all()
    if theme == "dark":
        page.view.evaluate("window.jupyterapp.commands.execute('apputils:change-theme', { theme: 'JupyterLab Dark' })")
        expect(page.view.locator(".mlb[data-theme=dark]")).to_have_count(2)
    first, second = Board(page), Board(page, 1)
    page.view.add_script_tag(path=str(AXE))
    for tab in TABS:
        first.show(tab)
        second.show(tab)
        assert violations(page.view) == []
        for board in (first, second):
            assert board.root.evaluate(UNNAMED) == []
    first.chip("hidden").click()
    assert violations(page.view) == []
    page.view.keyboard.press("Escape")
    for board in (first, second):
        board.root.locator('[data-axis-row="data"]').click()
        expect(board.root.locator(".mlb-popover")).to_be_visible()
        assert violations(page.view) == []
        page.view.keyboard.press("Escape")
    page.shot("two", page.view)
