"""The board by itself: mouse, touch and click, refusals before the drop, undo, run, silence, themes, accessibility."""

from __future__ import annotations

import time
import types
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

import meshlab.widgets
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.notebook import protocol
from tests.browser.blank import BlankBoard, BlankPage
from tests.browser.board import TRAY
from tests.browser.touch import Finger
from tests.widgets import small

TABS = ("devices", "program", "traffic", "memory", "time", "compare", "run")
AXE = Path(meshlab.widgets.__file__).parent / "js" / "node_modules" / "axe-core" / "axe.min.js"


@pytest.fixture
def explorer() -> Explorer:
    return explore(small.program(), small.mesh(), run=small.training(steps=40))


def middle(board: BlankBoard, zone: str) -> tuple[float, float]:
    box = board.zone(zone).bounding_box()
    assert box
    return box["x"] + box["width"] / 2, box["y"] + box["height"] - 12


def test_a_drag_replans(open_board, explorer: Explorer) -> None:
    board = open_board()
    with board.next_revision():
        board.drag("hidden", "model")
    assert explorer.layout.to_dict() == {"hidden": "model"}
    assert board.layout == "hidden:model"
    assert board.collectives == [["all-reduce", "model"]]
    assert board.chart == {"model": "model 480 B 320 B"}
    assert board.root.locator(".mlb-ghost").count() == 0
    said = "25% of the FLOPs on each device (from 100% against start), 960 B of arguments held (−1.25 kB), 480 B sent"
    expect(board.status).to_have_text(f"{said} (+480 B); TP over model")
    expect(board.panel("traffic").locator(".mlb-because")).to_contain_text("hidden")
    expect(board.panel("traffic").locator('[data-line^="small.py:"]')).to_have_count(1)
    with board.next_revision():
        board.drag("hidden", TRAY)
    assert explorer.layout.to_dict() == {}
    assert board.collectives == []


def test_the_view_is_put_together_once_for_each_change(open_board, explorer: Explorer) -> None:
    """A board that is dragged over reads it at every step of the pointer; the document, when it is another."""
    board = open_board()
    board.blank.view.evaluate(
        """() => {
            window.reads = [];
            const { get } = window.model, { parse } = JSON;
            window.model.get = (name) => { if (name === "board") window.reads.push(name); return get(name); };
            JSON.parse = (text, ...rest) => {
                if (text.includes('"schema"')) window.reads.push("document");
                return parse(text, ...rest);
            };
        }"""
    )
    with board.next_revision():
        board.drag("hidden", "model")
    reads = board.blank.view.evaluate("window.reads")
    assert reads.count("document") == 1
    assert 0 < reads.count("board") <= 4  # the selection is sent, then the plan


def test_a_refusal_is_painted_before_the_drop(open_board, explorer: Explorer) -> None:
    board = open_board()
    board.press("classes")
    assert board.zone("model").get_attribute("data-state") == "refused"
    assert board.zone("data").get_attribute("data-state") == "legal"
    expect(board.note("model")).to_have_text("✕")
    reason = "`classes` has size 10, which 4 (`model`) does not divide."
    assert board.note("model").get_attribute("title") == reason
    board.move_to("data")
    expect(board.status).to_contain_text("data: classes 5 of 10 on each device")
    board.move_to("model")
    expect(board.status).to_contain_text(f"{reason.replace('`', '')} Sizes that fit: 8 or 12; or pad it.")
    expect(board.status).to_have_attribute("data-mood", "refused")
    board.blank.shot("refused")
    board.mouse.up()
    assert explorer.revision == 0
    assert board.blank.view.evaluate("sent.filter(each => each.kind === 'intent' && each.op !== 'select').length") == 0
    assert board.zone(TRAY).locator('[data-dim="classes"]').count() == 1
    expect(board.zone("model")).to_have_attribute("data-state", "idle")


def test_the_price_is_told_before_the_drop(open_board, explorer: Explorer) -> None:
    board = open_board()
    board.press("hidden")
    board.move_to("model")
    expect(board.status).to_contain_text("model: hidden 4 of 16 on each device; 480 B sent per step (+480 B).")
    expect(board.total("sends").locator(".mlb-after")).to_have_text("→ 480 B")
    expect(board.note("model")).to_have_text("★→ 25%+480 B")
    board.keyboard.press("Escape")
    expect(board.root.locator(".mlb-after")).to_have_count(0)
    board.mouse.up()
    assert explorer.revision == 0


def test_a_drop_beside_every_zone_changes_nothing(open_board, explorer: Explorer) -> None:
    board = open_board()
    board.press("hidden")
    board.mouse.move(5, 5)
    board.mouse.up()
    assert explorer.revision == 0
    expect(board.zone("model")).to_have_attribute("data-state", "idle")


def test_shift_adds_an_axis(open_board, explorer: Explorer) -> None:
    board = open_board()
    with board.next_revision():
        board.drag("hidden", "data")
    board.press("hidden")
    board.keyboard.down("Shift")
    board.move_to("model")
    with board.next_revision():
        board.mouse.up()
    board.keyboard.up("Shift")
    assert explorer.layout.to_dict() == {"hidden": ["data", "model"]}
    assert board.zone("data").locator('[data-dim="hidden"]').inner_text().split() == [
        "hidden",
        "16",
        "→",
        "2",
        "1",
        "of",
        "2",
    ]
    # The chip on `data` goes back to the tray: `model` alone is left.
    with board.next_revision():
        board.drag("hidden", TRAY)
    assert explorer.layout.to_dict() == {"hidden": "model"}


def test_click_then_click(open_board, explorer: Explorer) -> None:
    board = open_board()
    board.chip("hidden").click()
    expect(board.chip("hidden")).to_have_attribute("aria-pressed", "true")
    board.chip("hidden").click()
    expect(board.chip("hidden")).to_have_attribute("aria-pressed", "false")
    board.chip("hidden").click()
    with board.next_revision():
        board.mouse.click(*middle(board, "model"))
    assert explorer.layout.to_dict() == {"hidden": "model"}
    board.chip("batch").click()
    with board.next_revision():
        board.root.get_by_role("button", name="Put here: batch on data").click()
    assert explorer.layout.to_dict() == {"batch": "data", "hidden": "model"}


def test_touch_drags(open_board, explorer: Explorer) -> None:
    board = open_board(touch=True)
    finger = Finger(board.blank.view)
    box = board.chip("hidden").bounding_box()
    assert box
    finger.move((box["x"] + 12, box["y"] + 12), middle(board, "model"))
    expect(board.zone("model")).to_have_attribute("data-aim", "")
    with board.next_revision():
        finger("touchEnd")
    assert explorer.layout.to_dict() == {"hidden": "model"}


def test_undo_redo_reset_and_select(open_board, explorer: Explorer) -> None:
    board = open_board()
    expect(board.button("undo")).to_be_disabled()
    with board.next_revision():
        board.drag("hidden", "model")
    with board.next_revision():
        board.button("undo").click()
    assert explorer.layout.to_dict() == {}
    with board.next_revision():
        board.button("redo").click()
    assert explorer.layout.to_dict() == {"hidden": "model"}
    with board.next_answer():
        board.root.get_by_label("tensor", exact=True).select_option("params/w2")
    assert explorer.selected == "params/w2"
    cells = board.root.locator("[data-device]")
    expect(cells).to_have_count(8)
    expect(cells.nth(5)).to_have_accessible_name("device 5 (data 1, model 1) holds hidden 4\u2060–\u20607")
    with board.next_revision():
        board.button("reset").click()
    assert explorer.layout.to_dict() == {}


def wait_for_run(board: BlankBoard, number: int, phase: str) -> None:
    """Waits until a run that the board has shown is over, and for the board to say so."""
    board.blank.explorer.runs[number - 1].wait(60)
    board.blank.poll()
    expect(board.root.locator(f"[data-run='{number}']")).to_contain_text(phase)


def test_run_shows_progress_and_the_same_loss(open_board, explorer: Explorer) -> None:
    board = open_board()
    board.show("run")
    board.button("run").click()
    expect(board.root.locator("[data-run='1']")).to_be_visible()
    wait_for_run(board, 1, "done")
    with board.next_revision():
        board.drag("hidden", "model")
    expect(board.root.locator("[data-run='1']")).to_contain_text("other layout")
    board.button("run").click()
    expect(board.root.locator("[data-run='2']")).to_be_visible()
    wait_for_run(board, 2, "done")
    first, second = (float(board.root.locator(f"[data-run='{n}'] .mlb-loss").inner_text()) for n in (1, 2))
    assert first == pytest.approx(second, rel=1e-4)
    assert first == pytest.approx(explorer.runs[0].losses[-1], rel=1e-4)
    board.blank.shot("trained", full=True)


def test_cancel(open_board, explorer: Explorer) -> None:
    board = open_board()
    board.show("run")
    expect(board.button("cancel")).to_be_disabled()
    board.root.get_by_label("steps", exact=True).fill("100000")
    board.button("run").click()
    expect(board.button("cancel")).to_be_enabled()
    with board.next_answer():
        board.button("cancel").click()
    wait_for_run(board, 1, "cancelled")
    assert explorer.runs[0].phase == "cancelled"
    expect(board.button("run")).to_be_enabled()


def test_without_data_the_run_button_says_how(chromium: Browser) -> None:
    page = BlankPage(chromium, explore(small.program(), small.mesh()))
    board = BlankBoard(page)
    board.show("run")
    expect(board.button("run")).to_be_disabled()
    expect(board.root.locator(".mlb-run-text")).to_contain_text("ml.explore(program, mesh, run=ml.Training(…))")
    page.close()


def test_a_silent_python_makes_the_board_read_only(open_board, explorer: Explorer) -> None:
    board = open_board()
    board.blank.view.clock.install()
    board.blank.silent = True
    board.drag("hidden", "model")
    board.blank.view.clock.fast_forward(2000)
    banner = board.root.locator(".mlb-banner")
    expect(banner).to_contain_text("Python does not answer")
    assert board.zone(TRAY).locator('[data-dim="hidden"]').count() == 1
    board.press("hidden")
    expect(board.zone("model")).to_have_attribute("data-state", "idle")
    board.mouse.up()
    board.blank.shot("read-only")
    board.show("traffic")  # what is read only is read
    expect(board.panel("traffic")).to_contain_text("Nothing is sent under this layout.")
    board.blank.silent = False
    banner.get_by_role("button", name="Try again").click()
    expect(banner).to_be_hidden()
    with board.next_revision():
        board.drag("hidden", "model")


def test_a_drop_that_python_reads_too_late_is_not_carried_out(
    open_board, explorer: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel was busy with a cell: the board put the chip back, and nothing may move by itself afterwards."""
    board = open_board()
    page = board.blank.view
    page.clock.install()
    board.blank.silent = True
    board.drag("hidden", "model")
    page.clock.fast_forward(2000)
    expect(board.root.locator(".mlb-banner")).to_be_visible()
    assert any(content and content["kind"] == "intent" for content in board.blank.unread)
    # For Python two seconds have gone by as well.
    clock = time.time
    monkeypatch.setattr(protocol, "time", types.SimpleNamespace(time=lambda: clock() + 2.1))
    board.blank.catch_up()
    expect(board.root.locator(".mlb-banner")).to_be_hidden()
    assert (explorer.revision, explorer.layout.to_dict(), board.layout) == (0, {}, "nothing sharded")
    with board.next_revision():
        board.drag("hidden", "model")
    assert explorer.layout.to_dict() == {"hidden": "model"}


def test_while_python_is_silent_the_board_is_read(open_board, explorer: Explorer) -> None:
    board = open_board()
    page = board.blank.view
    page.clock.install()
    board.blank.silent = True
    board.drag("hidden", "model")
    page.clock.fast_forward(2000)
    expect(board.root.locator(".mlb-banner")).to_be_visible()
    sent = page.evaluate("sent.length")
    for tab, control in (("compare", '[data-auto="traffic"]'), ("devices", ".mlb-tensors")):
        expect(board.show(tab).locator(control)).to_have_attribute("inert", "")
    assert page.evaluate("sent.length") == sent
    board.blank.silent = False
    board.root.get_by_role("button", name="Try again").click()
    expect(board.root.locator(".mlb-banner")).to_be_hidden()
    expect(board.panel("devices").locator("[inert]")).to_have_count(0)


def test_a_redraw_in_mid_drag_does_no_harm(open_board, explorer: Explorer) -> None:
    board = open_board()
    board.press("hidden")
    explorer.place("batch", "data")
    board.blank.poll()
    expect(board.zone("data")).to_have_attribute("data-state", "refused")
    board.move_to("model")
    with board.next_revision():
        board.mouse.up()
    assert explorer.layout.to_dict() == {"batch": "data", "hidden": "model"}


def test_a_closed_board_listens_no_longer(open_board, explorer: Explorer) -> None:
    board = open_board()
    page = board.blank.view
    page.evaluate("window.close_board()")
    assert page.locator(".mlb").count() == 0
    assert page.evaluate("Object.values(listeners).every(each => each.size === 0)")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_is_accessible(open_board, explorer: Explorer, theme: str) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: (cd meshlab/widgets/js && npm ci)")
    explorer.load("batch:data hidden:model")
    explorer.run(3).wait(60)
    explorer.remove("batch")
    explorer.place("classes", "data")
    explorer.place("hidden", "data", at="params/*1")
    board = open_board(theme=theme)
    board.blank.view.add_script_tag(path=str(AXE))
    board.blank.shot(theme, full=True)
    for tab in TABS:
        board.show(tab)
        assert violations(board.blank.view) == []
    board.chip("classes").click()
    expect(board.note("model")).to_have_text("✕")
    assert violations(board.blank.view) == []
    board.blank.shot(f"{theme}-picked-up", full=True)


def test_two_views_on_a_page_have_names_of_their_own(open_board, explorer: Explorer) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: (cd meshlab/widgets/js && npm ci)")
    first = open_board(boards=2)
    second = BlankBoard(first.blank, 1)
    page = first.blank.view
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(each => each.id)")
    assert len(ids) == len(set(ids)) > 0
    with second.next_revision():
        first.drag("hidden", "model")
    # Each has its own tab, and both show the layout that there is.
    first.show("traffic")
    expect(second.panel("devices")).to_be_visible()
    assert first.layout == second.layout == "hidden:model"
    page.add_script_tag(path=str(AXE))
    assert violations(page) == []


def violations(page: Page) -> list[str]:
    problems = page.evaluate("async () => (await axe.run(document.body)).violations")
    return [f"{each['id']}: {node['html'][:120]}" for each in problems for node in each["nodes"]]


@pytest.mark.parametrize("width", [480, 900])
def test_it_fits_narrow_pages(open_board, explorer: Explorer, width: int) -> None:
    explorer.load("batch:data hidden:model")
    board = open_board(width=width)
    for tab in TABS:
        board.show(tab)
        assert board.blank.view.evaluate("document.documentElement.scrollWidth") <= width
    board.blank.shot(f"width-{width}", full=True)
