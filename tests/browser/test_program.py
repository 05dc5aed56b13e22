"""The Program tab: the plan's steps as a tree, selection both ways, search, filter, keyboard, and very many steps."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

import meshlab as ml
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from tests.browser.blank import BlankBoard
from tests.browser.test_board import AXE, violations
from tests.widgets import small
from tests.widgets.views.test_program_steps import long_program

# The text of the row that is active, as screen readers are told.
ACTIVE = """tree => {
    const row = tree.getRootNode().getElementById(tree.getAttribute("aria-activedescendant"));
    return row ? row.innerText.replace(/\\s+/g, " ") : "";
}"""
IN_SIGHT = """row => {
    const [inner, outer] = [row, row.closest(".mlb-tree")].map(each => each.getBoundingClientRect());
    return inner.top >= outer.top - 1 && inner.bottom <= outer.bottom + 1;
}"""


@pytest.fixture
def explorer() -> Explorer:
    return small.on_v5e()


@pytest.fixture
def board(open_board) -> BlankBoard:
    return opened(open_board())


def opened(board: BlankBoard) -> BlankBoard:
    board.show("program")
    expect(rows(board).first).to_be_visible()
    return board


def rows(board: BlankBoard, kind: str = "") -> Locator:
    return board.panel("program").locator(f".mlb-row{kind and '-'}{kind}")


def tree(board: BlankBoard) -> Locator:
    return board.root.get_by_role("tree")


def active(board: BlankBoard) -> str:
    return tree(board).evaluate(ACTIVE)


def detail(board: BlankBoard) -> Locator:
    return board.root.locator(".mlb-program-detail")


def test_it_says_what_the_user_wrote_with_dims_and_collectives(board: BlankBoard, explorer: Explorer) -> None:
    expect(rows(board, "phase").first).to_have_text("▾forwardsends 240 B")
    line = rows(board, "line").first
    expect(line).to_contain_text('hidden = ml.relu(ml.dot(images, params["w1"], Rows, Cols))')
    expect(line).to_contain_text("[batch/data 4, hidden/model 4]")
    expect(line).to_contain_text("small.py:")
    expect(line.locator(".mlb-swatch")).to_have_count(2)
    first = rows(board, "collective").first
    expect(first).to_contain_text("all-reduce")
    expect(first).to_contain_text("logits [batch classes]")
    expect(first).to_contain_text("hidden is summed while split over model.")
    # Steps stand below their line when that is opened.
    expect(rows(board, "step").filter(has_text="dot_general")).to_have_count(0)
    line.click()
    expect(line).to_have_attribute("aria-expanded", "true")
    expect(rows(board, "step").first).to_contain_text("dot_general [batch/data 4, hidden/model 4] ←")
    rows(board, "step").first.click()
    expect(detail(board)).to_contain_text("dot_general makes hidden [batch/data 4, hidden/model 4] from")
    expect(detail(board)).to_contain_text("it reads images, params/w1.")
    board.blank.shot("program", full=True)


def test_every_collective_is_reached_and_selected(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board(panel="program", height=1200)
    expect(rows(board).first).to_be_visible()
    ids = [row["id"] for row in explorer.view()["collectives"]["rows"]]
    shown = rows(board, "collective").evaluate_all("rows => rows.map(row => row.dataset.collective)")
    assert sorted(shown) == sorted(ids)
    assert len(ids) > 2


def test_a_click_selects_a_collective_in_all_views(board: BlankBoard, explorer: Explorer) -> None:
    row = rows(board, "collective").first
    chosen = row.get_attribute("data-collective")
    row.click()
    expect(row).to_have_attribute("aria-current", "true")
    expect(board.root.locator('.mlb-lane[data-lane="model"] [aria-current]')).to_have_count(1)
    expect(board.root.locator(".mlb-detail")).to_contain_text("all-reduce over model: logits")
    expect(detail(board)).to_contain_text("a device sends 240 B a step.")
    listed = board.show("traffic").locator("tr[data-collective][aria-current]")
    expect(listed).to_have_attribute("data-collective", str(chosen))
    assert explorer.selection.collective == chosen
    board.show("program")
    row.click()
    expect(row).not_to_have_attribute("aria-current", "true")


def test_a_selection_made_elsewhere_is_opened_and_brought_into_sight(board: BlankBoard) -> None:
    for phase in ("forward", "backward", "update"):
        rows(board, "phase").filter(has_text=phase).click()
    expect(rows(board)).to_have_count(3)
    before = board.blank.view.evaluate("scrollY")
    board.root.locator('.mlb-lane[data-lane="model"] .mlb-segment').first.click()
    row = rows(board, "collective").filter(has_text="logits")
    expect(row).to_have_attribute("aria-current", "true")
    assert row.evaluate(IN_SIGHT)
    assert "logits" in active(board)
    # On another tab as well, and when a filter hides it.
    board.root.get_by_label("steps to show").select_option("matmuls")
    expect(rows(board, "collective")).to_have_count(0)
    board.show("traffic").locator('tr[data-axes="data"]').last.click()
    board.show("program")
    current = rows(board, "collective").and_(board.root.locator("[aria-current]"))
    expect(current).to_have_count(1)
    expect(current).to_have_attribute("data-collective", re.compile("."))
    assert current.evaluate(IN_SIGHT)
    expect(board.root.get_by_label("steps to show")).to_have_value("all")
    assert board.blank.view.evaluate("scrollY") == before


def test_what_is_selected_is_in_sight_when_the_tab_is_opened_first(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board()
    board.show("traffic").locator('tr[data-axes="data"]').last.click()
    opened(board)
    row = rows(board, "collective").and_(board.root.locator("[aria-current]"))
    expect(row).to_have_count(1)
    assert row.evaluate(IN_SIGHT)
    assert explorer.selection.collective == row.get_attribute("data-collective")
    # A new layout does not take the reader elsewhere.
    tree(board).evaluate("tree => { tree.scrollTop = 0; }")
    explorer.load("batch:data rows:model")
    board.blank.poll()
    expect(rows(board, "collective").first).to_contain_text("rows is summed while split over model.")
    assert tree(board).evaluate("tree => tree.scrollTop") == 0


def test_a_selected_dim_marks_the_values_that_have_it(board: BlankBoard) -> None:
    marked = board.panel("program").locator(".mlb-sized[data-related]")
    expect(marked).to_have_count(0)
    board.chip("hidden").click()
    board.keyboard.press("Escape")
    expect(marked.first).to_have_text("hidden/model 4")
    assert set(marked.evaluate_all("all => all.map(each => each.dataset.dim)")) == {"hidden"}
    everywhere = board.panel("program").locator('.mlb-sized[data-dim="hidden"]')
    expect(marked).to_have_count(everywhere.count())
    expect(rows(board, "collective").first).to_have_attribute("data-related", "")  # it is there because of `hidden`


def test_it_is_searched(board: BlankBoard) -> None:
    field = board.root.get_by_role("searchbox", name="find in the program")
    found = board.panel("program").locator(".mlb-found")
    rows(board).last.click()
    assert board.root.locator(".mlb-row[data-hit]").count() == 0
    field.fill("batch/data")
    expect(found).to_have_text(re.compile(r"^\d+ hits$"))
    count = int(found.inner_text().split()[0])
    # No row that is none of them stands out as the active one.
    expect(board.root.locator(".mlb-row[data-active]")).to_have_count(0)
    assert count > 2
    board.keyboard.press("Enter")
    expect(found).to_have_text(f"1 of {count} hits")
    # Those in sight are marked.
    marked = board.root.locator(".mlb-row[data-hit]")
    assert 0 < marked.count() <= count
    assert all("batch/data" in text for text in marked.all_inner_texts())
    first = active(board)
    expect(field).to_be_focused()
    board.keyboard.press("Enter")
    expect(found).to_have_text(f"2 of {count} hits")
    assert active(board) != first
    board.keyboard.press("Shift+Enter")
    assert active(board) == first
    board.keyboard.press("Shift+Enter")
    expect(found).to_have_text(f"{count} of {count} hits")
    field.fill("nowhere")
    expect(found).to_have_text("no hits")
    field.fill("all-reduce data")
    board.root.get_by_role("button", name="next hit").click()
    assert "all-reduce data" in active(board)
    board.root.get_by_label("steps to show").select_option("matmuls")
    expect(found).to_have_text("no hits")
    names = rows(board, "step").locator(".mlb-said code").evaluate_all("all => all.map(each => each.textContent)")
    assert set(names) == {"dot_general"}


def test_it_is_used_by_keyboard(board: BlankBoard, explorer: Explorer) -> None:
    tree(board).focus()
    board.keyboard.press("ArrowDown")
    assert active(board).startswith("▾ forward")
    board.keyboard.press("ArrowLeft")
    expect(rows(board, "phase").first).to_have_attribute("aria-expanded", "false")
    board.keyboard.press("ArrowRight")
    expect(rows(board, "phase").first).to_have_attribute("aria-expanded", "true")
    for _ in range(2):
        board.keyboard.press("ArrowRight")
    assert "hidden = ml.relu" in active(board)
    board.keyboard.press(" ")
    board.keyboard.press("ArrowDown")
    assert "dot_general" in active(board)
    board.keyboard.press("ArrowLeft")
    assert "hidden = ml.relu" in active(board)
    board.keyboard.press("ArrowLeft")
    board.keyboard.press("ArrowDown")
    board.keyboard.press("ArrowDown")
    assert "all-reduce" in active(board)
    board.keyboard.press("Enter")
    expect(rows(board, "collective").first).to_have_attribute("aria-current", "true")
    board.keyboard.press("End")
    assert "out/0" in active(board)
    board.keyboard.press("Home")
    assert active(board).startswith("▾ forward")
    expect(tree(board)).to_be_focused()
    assert explorer.selection.collective is not None


def test_what_was_opened_stays_open_when_the_layout_changes(board: BlankBoard, explorer: Explorer) -> None:
    line = rows(board, "line").first
    line.click()
    expect(line).to_have_attribute("aria-expanded", "true")
    explorer.load("batch:data")
    board.blank.poll()
    expect(line).to_contain_text("[batch/data 4, hidden 16]")
    expect(line).to_have_attribute("aria-expanded", "true")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_is_accessible(open_board, theme: str) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: (cd meshlab/widgets/js && npm ci)")
    board = opened(open_board(theme=theme))
    board.blank.view.add_script_tag(path=str(AXE))
    # Rows that are not in the page count as well.
    first = rows(board, "phase").first
    assert [first.get_attribute(f"aria-{name}") for name in ("level", "posinset", "setsize")] == ["1", "1", "3"]
    rows(board, "line").first.click()
    assert violations(board.blank.view) == []
    rows(board, "collective").first.click()
    board.chip("hidden").click()
    board.keyboard.press("Escape")
    expect(board.panel("program").locator(".mlb-sized[data-related]").first).to_be_visible()
    assert violations(board.blank.view) == []
    board.root.get_by_label("steps to show").select_option("matmuls")
    assert violations(board.blank.view) == []
    board.blank.shot(f"program-{theme}", full=True)


def test_ten_thousand_steps_are_never_in_the_page_at_once(open_board) -> None:
    shown = explore(long_program(), ml.mesh(x=2), "n:x")
    board = opened(open_board(shown))
    assert rows(board, "function").count() < 60
    field = board.root.get_by_role("searchbox", name="find in the program")
    field.fill("dot_general")
    found = board.panel("program").locator(".mlb-found")
    expect(found).to_have_text(re.compile(r"^\d,\d{3} hits$"))
    board.keyboard.press("Shift+Enter")
    expect(found).to_have_text(re.compile(r"^(\d,\d{3}) of \1 hits$"))
    board.root.get_by_label("steps to show").select_option("matmuls")
    tree(board).focus()
    board.keyboard.press("End")
    assert "dot_general" in active(board)
    assert rows(board).count() < 60
    assert tree(board).evaluate("tree => tree.scrollHeight") > 20_000
    last = int(rows(board).last.get_attribute("data-row") or 0)
    assert last > 10_000


def test_a_part_that_cannot_be_read_says_why(open_board, explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meshlab.widgets.views.reads.READS", {})
    board = open_board()
    expect(board.show("program")).to_contain_text("There is nothing to read named `program`.")
