"""A board in one file, opened from the disk without a network: it is dragged, and says at the edge what it has not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from playwright.sync_api import Browser, Page, expect

import meshlab as ml
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from tests.browser.board import Board
from tests.browser.page import DEADLINE, TOURED
from tests.browser.test_accessible import AXE, UNNAMED, violations
from tests.widgets.frozen.test_walk import readme


class SharedPage:
    """A file in the browser, opened at an address; `view` is its page."""

    def __init__(self, browser: Browser, path: Path, theme: Any, address: str = ""):
        context = browser.new_context(
            viewport={"width": 1272, "height": 820}, color_scheme=theme, reduced_motion="reduce", offline=True
        )
        context.set_default_timeout(DEADLINE)
        context.add_init_script(TOURED)
        self.errors: list[str] = []
        self.view: Page = context.new_page()
        self.view.on("pageerror", lambda error: self.errors.append(str(error)))
        self.view.on("console", lambda line: self.errors.append(line.text) if line.type == "error" else None)
        self.view.goto(f"{path.as_uri()}#{address}" if address else path.as_uri())


@pytest.fixture(scope="session")
def explorer() -> Explorer:
    return explore(readme(), ml.mesh("v5e:2x2", data=2, model=2), "batch:data")


@pytest.fixture(scope="session")
def file(explorer: Explorer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shared") / "board.html"
    explorer.share(path)
    return path


@pytest.fixture
def opened(chromium: Browser, file: Path) -> Iterator[Callable[..., Board]]:
    pages: list[SharedPage] = []

    def board(theme: str = "light") -> Board:
        pages.append(SharedPage(chromium, file, theme))
        return Board(cast(Any, pages[-1]))

    yield board
    for page in pages:
        assert page.errors == []
        page.view.context.close()


def test_a_drag_changes_the_numbers_as_in_python(opened: Callable[..., Board], explorer: Explorer) -> None:
    board = opened()
    with board.next_revision():
        board.drag("hidden", "model")
    assert board.layout == "batch:data hidden:model"
    plan = explorer.program.plan(explorer.mesh, "batch:data hidden:model")
    listed = sorted(plan.collectives, key=sent, reverse=True)
    assert [tuple(each) for each in board.collectives] == [(c.kind, "+".join(c.axes)) for c in listed]
    with board.next_revision():
        board.button("undo").click()
    assert board.layout == "batch:data"


def sent(collective: Any) -> float:
    return round(collective.wire_bytes * collective.times)


def test_zones_say_their_price_or_why_they_refuse_or_that_they_are_not_recorded(opened: Callable[..., Board]) -> None:
    board = opened()
    board.press("hidden")
    expect(board.note("model")).to_contain_text("µs")
    expect(board.note("data")).to_have_text("✕")
    expect(board.note("data", "params/*")).to_have_text("not recorded")
    expect(board.zone("data", "params/*")).to_have_attribute("data-state", "unrecorded")
    board.move_to("data", "params/*")
    expect(board.status).to_contain_text("Not recorded in this file. A live notebook shows it")
    expect(board.status).to_have_attribute("data-mood", "plain")
    board.mouse.up()
    expect(board.status).to_contain_text("Not recorded in this file.")
    assert board.revision == 0


def test_the_keyboard_goes_to_recorded_zones_alone(opened: Callable[..., Board]) -> None:
    board = opened()
    board.chip("hidden").focus()
    board.keyboard.press("Space")
    expect(board.note("data", "params/*")).to_have_text("not recorded")
    board.keyboard.press("ArrowDown")
    expect(board.zone("model")).to_have_attribute("data-aim", "")
    with board.next_revision():
        board.keyboard.press("Enter")
    expect(board.chip("hidden", "model")).to_be_focused()
    with board.next_revision():
        board.keyboard.press("Control+z")
    assert board.layout == "batch:data"


# Controls of what a file cannot do.
CONTROLS = ('select[aria-label="machine"]', ".mlb-auto", "button.mlb-axis")


def test_no_control_is_shown_of_what_no_file_can_do(
    opened: Callable[..., Board], open_board: Callable[..., Board], explorer: Explorer
) -> None:
    live = open_board(explorer)
    board = opened()
    for control in CONTROLS:
        expect(live.root.locator(control)).not_to_have_count(0)
        expect(board.root.locator(control)).to_have_count(0)
    for shown, pads in ((live, 1), (board, 0)):
        shown.root.get_by_role("button", name="More", exact=True).click()
        expect(shown.root.locator(".mlb-popover .mlb-switch", has_text="Presenter")).to_be_visible()
        expect(shown.root.locator(".mlb-popover .mlb-switch", has_text="Pad dims")).to_have_count(pads)
        shown.keyboard.press("Escape")
    expect(live.root.locator('[role=tab][data-tab="run"]')).to_be_visible()
    expect(board.root.locator('[role=tab][data-tab="run"]')).to_be_hidden()
    board.chip("batch").click(button="right")
    expect(board.root.locator(".mlb-popover")).to_be_hidden()
    board.button("export").click()
    expect(board.root.locator(".mlb-popover textarea")).to_have_value(re.compile(r"ml\.mesh\("))
    expect(board.root.locator(".mlb-files")).to_have_count(0)
    board.keyboard.press("Escape")
    expect(board.show("memory")).to_contain_text("is a chart of plotly.js, whose 1.5 MB this file leaves out")
    expect(board.show("time")).to_contain_text("The roofline is a chart of plotly.js")
    expect(board.panel("time").locator("select")).to_have_count(0)


def test_presets_cards_and_a_layout_beside_work(opened: Callable[..., Board]) -> None:
    board = opened()
    with board.next_revision():
        board.root.locator("[data-preset=fsdp]").click()
    assert "params/*" in board.layout
    compare = board.show("compare")
    expect(compare).to_contain_text("FSDP")
    with board.next_revision():
        compare.locator('select[aria-label="layout beside the one on the board"]').select_option(label="TP")
    expect(board.show("traffic").locator('[data-beside="other"]')).to_be_visible()


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: (cd meshlab/widgets/js && npm ci)")
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_is_accessible(opened: Callable[..., Board], theme: str) -> None:
    board = opened(theme)
    page = board.page.view
    page.add_script_tag(path=str(AXE))
    page.get_by_text("Open it in a live notebook").click()
    for tab in ("devices", "program", "traffic", "memory", "time", "compare"):
        for disclosure in board.show(tab).locator("summary").all():
            disclosure.click()
        assert violations(page, "body") == []
        assert board.root.evaluate(UNNAMED) == []
    board.press("hidden")
    expect(board.note("data", "params/*")).to_have_text("not recorded")
    assert violations(page, "body") == []
    board.mouse.up()


def test_what_was_said_of_layouts_is_shown_and_cannot_be_changed(chromium: Browser, tmp_path: Path) -> None:
    shown = explore(readme(), ml.mesh(data=2, model=2), "batch:data")
    shown.load("hidden:model")
    shown.load("cols:model")
    shown.label("#1", "wide", note="nothing to gather\nin the forward pass")
    shown.share(tmp_path / "board.html", dims=["batch"])
    page = SharedPage(chromium, tmp_path / "board.html", "light")
    board = Board(cast(Any, page))
    board.show("compare")
    panel = board.panel("compare")
    row = panel.locator('tr[data-card="1"]')
    expect(row.locator("b")).to_have_text("wide")
    expect(row.locator(".mlb-card-note")).to_have_text("nothing to gather\nin the forward pass")
    expect(board.root.get_by_label("compared with").locator("option")).to_have_text(["start", "wide", "#2"])
    # What needs Python has no button, and no key.
    for op in ("[data-edit-card]", "[data-forget]", '[data-op="save_board"]', '[data-op="open_saved"]'):
        expect(board.root.locator(op)).to_have_count(0)
    row.locator("[data-load]").focus()
    for key in ("F2", "Delete"):
        board.keyboard.press(key)
    expect(row.locator("b")).to_have_text("wide")
    expect(panel.locator("form.mlb-card-draft")).to_have_count(0)
    # It is sorted all the same.
    panel.get_by_role("button", name="layout", exact=True).click()
    assert panel.locator("tr[data-card] b").all_inner_texts() == ["#2", "start", "wide"]
    assert page.errors == []
    page.view.context.close()
