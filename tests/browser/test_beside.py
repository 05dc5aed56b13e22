"""Two layouts side by side on the stage: opened from Compare by mouse, touch and keyboard, and closed again."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from meshlab.cost.machines.units import bytes_text
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from tests.browser.blank import BlankBoard
from tests.browser.test_board import AXE
from tests.widgets import small

PAIRED = ("devices", "traffic", "memory", "time")


@pytest.fixture
def explorer() -> Explorer:
    explorer = explore(small.program(), small.mesh(), "batch:data")
    explorer.on("v5e")
    explorer.load("hidden:model", "mine")
    explorer.view()
    return explorer


def side(panel: Locator, which: str) -> Locator:
    return panel.locator(f'section[data-beside="{which}"]')


def opener(board: BlankBoard, card: int) -> Locator:
    return board.show("compare").locator(f'button[data-beside="{card}"]')


def row(panel: Locator, key: str) -> list[str]:
    return panel.locator(f'.mlb-differences [data-row="{key}"] td').all_inner_texts()


def test_each_panel_shows_both_with_their_differences(open_board, explorer: Explorer) -> None:
    board = open_board()
    with board.next_revision():
        opener(board, 0).click()
    expect(board.status).to_contain_text("start is beside the layout on the board")
    mine, other = (explorer.plan_at(each) for each in reversed(explorer.tried.documents(explorer.document)))
    panel = board.show("traffic")
    less = bytes_text(mine.wire_bytes - other.wire_bytes)
    sends = [bytes_text(mine.wire_bytes), bytes_text(other.wire_bytes)]
    assert other.wire_bytes > mine.wire_bytes
    assert row(panel, "sends") == [*sends, f"▼ −{less.removeprefix('−')}"]
    assert row(panel, "model")[2].startswith("▲ +")
    assert side(panel, "mine").locator("[data-axis]").evaluate_all("e => e.map(x => x.dataset.axis)") == ["model"]
    assert side(panel, "other").locator("[data-axis]").evaluate_all("e => e.map(x => x.dataset.axis)") == ["data"]
    panel = board.show("memory")
    assert row(panel, "peak")[:2] == [bytes_text(plan.memory.donated.peak_bytes) for plan in (mine, other)]
    panel = board.show("devices")
    expect(side(panel, "mine").locator("[data-device]")).to_have_count(8)
    expect(side(panel, "other")).to_contain_text("replicated on every device")
    expect(panel.get_by_label("tensor", exact=True)).to_have_count(1)
    panel = board.show("time")
    expect(side(panel, "other").locator(".mlb-step-value")).to_have_text(row(panel, "step")[1])
    with board.next_revision():
        panel.get_by_role("button", name="Close").click()
    expect(board.status).to_have_text("The layout on the board is shown alone.")
    for tab in PAIRED:
        expect(board.show(tab).locator("[data-beside]")).to_have_count(0)


def test_by_keyboard(open_board, explorer: Explorer) -> None:
    board = open_board()
    board.show("memory")
    opener(board, 0).focus()
    with board.next_revision():
        board.keyboard.press("Enter")
    expect(board.root.locator('[data-tab="memory"]')).to_be_focused()  # the latest that shows both
    choice = board.panel("memory").get_by_label("layout beside the one on the board")
    choice.focus()
    with board.next_revision():
        choice.select_option("preset:fsdp")
    assert explorer.other is not None
    assert explorer.other.name == "FSDP"
    expect(choice.locator("option:checked")).to_have_text("FSDP")
    board.panel("memory").get_by_role("button", name="Close").focus()
    with board.next_revision():
        board.keyboard.press("Enter")
    expect(board.root.locator('[data-tab="memory"]')).to_be_focused()
    assert explorer.other is None


def test_by_touch(open_board, explorer: Explorer) -> None:
    board = open_board(touch=True)
    with board.next_revision():
        opener(board, 0).tap()
    expect(side(board.panel("devices"), "other")).to_be_visible()
    pressed = opener(board, 0)
    expect(pressed).to_have_attribute("aria-pressed", "true")
    with board.next_revision():
        pressed.tap()
    assert explorer.other is None


def test_a_drop_changes_mine_and_leaves_the_other(open_board, explorer: Explorer) -> None:
    explorer.beside("start")
    board = open_board()
    panel = board.show("traffic")
    before = row(panel, "sends")
    with board.next_revision():
        board.drag("batch", "data")
    after = row(panel, "sends")
    assert after[0] != before[0]
    assert after[1] == before[1]
    with board.next_revision():
        board.button("undo").click()
    assert row(panel, "sends") == before


def test_what_is_unfolded_on_one_side_is_on_the_other(open_board, explorer: Explorer) -> None:
    explorer.beside("start")
    board = open_board()
    panel = board.show("memory")
    side(panel, "other").locator('[data-disclosure="stored"] summary').click()
    expect(side(panel, "mine").locator('[data-disclosure="stored"]')).to_have_attribute("open", "")


@pytest.mark.parametrize(("width", "theme"), [(600, "light"), (1000, "dark"), (1112, "light")])
def test_it_reads_well_and_is_accessible(open_board, explorer: Explorer, theme: str, width: int) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: (cd meshlab/widgets/js && npm ci)")
    explorer.beside("fsdp")
    explorer.view()
    board = open_board(theme=theme, width=width)
    board.blank.view.add_script_tag(path=str(AXE))
    for tab in PAIRED:
        panel = board.show(tab)
        assert panel.evaluate("panel => panel.scrollWidth <= panel.clientWidth"), tab
        cut = panel.locator(".mlb-differences :is(th, td)").evaluate_all(
            "cells => cells.filter(cell => cell.scrollWidth > cell.clientWidth + 1).map(cell => cell.innerText)"
        )
        assert cut == [], tab
        problems = panel.evaluate("async panel => (await axe.run(panel)).violations")
        assert [(each["id"], node["html"]) for each in problems for node in each["nodes"]] == [], tab
        board.blank.shot(f"beside-{tab}-{theme}-{width}", full=True)
