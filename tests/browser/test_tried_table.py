"""The table of layouts that were tried: named, sorted, filtered, deleted, by mouse and keys; and boards as files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from tests.browser.blank import BlankBoard
from tests.browser.test_board import AXE, violations
from tests.widgets import small


@pytest.fixture
def explorer() -> Explorer:
    explorer = explore(small.program(), small.mesh())
    explorer.on("v5e")
    for layout in ("batch:data", "hidden:model", "cols:model", "cols:data"):
        explorer.load(layout)
    explorer.view()
    return explorer


def compared(board: BlankBoard) -> Locator:
    board.show("compare")
    return board.panel("compare")


def names(panel: Locator) -> list[str]:
    return panel.locator("tr[data-card] b").all_inner_texts()


def row(panel: Locator, key: str) -> Locator:
    return panel.locator(f'tr[data-card="{key}"]')


def test_numbers_give_way_to_own_names(open_board, explorer: Explorer) -> None:
    """B21."""
    panel = compared(open_board())
    assert names(panel) == ["#4", "#3", "TP", "DP", "start"]
    expect(panel.locator("svg text").filter(has_text="TP")).to_have_count(1)
    expect(row(panel, "2").locator(".mlb-card-number")).to_have_text("#2")


def test_a_layout_is_named_with_the_mouse(open_board, explorer: Explorer) -> None:
    board = open_board()
    panel = compared(board)
    panel.get_by_role("button", name="label and note of TP").click()
    label, note = panel.get_by_label("label of TP", exact=True), panel.get_by_label("note of TP", exact=True)
    expect(label).to_be_focused()
    label.fill("wide")
    note.fill("nothing to gather\nin the forward pass")
    with board.next_revision():
        panel.get_by_role("button", name="Keep").click()
    expect(row(panel, "2").locator("b")).to_have_text("wide")
    expect(row(panel, "2").locator(".mlb-card-note")).to_have_text("nothing to gather\nin the forward pass")
    expect(row(panel, "2").locator("[data-load]")).to_be_focused()
    expect(board.status).to_have_text("#2 is called wide.")
    expect(board.root.get_by_label("compared with").locator("option")).to_have_text(["start", "DP", "wide", "#3", "#4"])
    assert (explorer.tried.all[2].label, explorer.tried.all[2].note) == (
        "wide",
        "nothing to gather\nin the forward pass",
    )


def test_a_layout_is_named_by_keyboard_alone(open_board, explorer: Explorer) -> None:
    board = open_board()
    panel = compared(board)
    row(panel, "2").locator("[data-load]").focus()
    board.keyboard.press("F2")
    board.keyboard.type("wide")
    board.keyboard.press("Tab")
    board.keyboard.type("a note")
    board.keyboard.press("Enter")
    board.keyboard.type("in two lines")
    with board.next_revision():
        board.keyboard.press("Control+Enter")
    expect(row(panel, "2").locator(".mlb-card-note")).to_have_text("a note\nin two lines")
    # Escape keeps what was.
    board.keyboard.press("F2")
    expect(panel.get_by_label("label of wide", exact=True)).to_have_value("wide")
    board.keyboard.type("another")
    board.keyboard.press("Escape")
    expect(row(panel, "2").locator("b")).to_have_text("wide")
    expect(row(panel, "2").locator("[data-load]")).to_be_focused()
    with board.next_revision():
        board.keyboard.press("Control+z")
    expect(row(panel, "2").locator("b")).to_have_text("TP")
    assert str(explorer.layout) == "cols:data"


def test_what_is_typed_stays_while_the_table_is_drawn_anew(open_board, explorer: Explorer) -> None:
    board = open_board()
    panel = compared(board)
    row(panel, "2").locator("[data-load]").focus()
    board.keyboard.press("F2")
    board.keyboard.type("wide")
    board.keyboard.press("Tab")
    board.keyboard.type("half a no")
    board.keyboard.press("Control+z")  # is the field's
    explorer.load("rows:data")
    board.blank.poll()
    expect(row(panel, "5")).to_be_visible()
    expect(panel.get_by_label("label of TP", exact=True)).to_have_value("wide")
    expect(panel.get_by_label("note of TP", exact=True)).to_be_focused()
    assert str(explorer.layout) == "rows:data"


def test_a_label_that_cannot_be_says_why_and_leaves_the_fields(open_board, explorer: Explorer) -> None:
    explorer.label("DP", "wide")
    board = open_board()
    panel = compared(board)
    row(panel, "2").locator("[data-load]").focus()
    board.keyboard.press("F2")
    board.keyboard.type("wide")
    board.keyboard.press("Enter")
    expect(board.status).to_have_text("'wide' is the label of #1 already.")
    expect(panel.get_by_label("label of TP", exact=True)).to_be_focused()
    assert not explorer.tried.all[2].label


def test_the_table_is_sorted_by_each_column(open_board, explorer: Explorer) -> None:
    panel = compared(open_board())
    expect(panel.locator("th[aria-sort]")).to_have_attribute("data-column", "number")
    steps = {str(each.number): explorer.totals.of(each.under(explorer.document)).seconds for each in explorer.tried}
    panel.get_by_role("button", name="step", exact=True).click()
    order = [each.get_attribute("data-card") for each in panel.locator("tr[data-card]").all()]
    assert [steps[str(key)] for key in order] == sorted(filter(None, steps.values()))
    expect(panel.locator('th[data-column="step"]')).to_have_attribute("aria-sort", "ascending")
    panel.get_by_role("button", name="step", exact=True).press("Enter")
    expect(panel.locator('th[data-column="step"]')).to_have_attribute("aria-sort", "descending")
    panel.get_by_role("button", name="layout", exact=True).click()
    assert names(panel) == ["#3", "#4", "DP", "start", "TP"]
    panel.get_by_role("button", name="#", exact=True).click()
    assert names(panel)[0] == "#4"


def test_what_a_filter_leaves_is_deleted_at_once_and_brought_back(open_board, explorer: Explorer) -> None:
    board = open_board()
    panel = compared(board)
    find = panel.get_by_label("filter the layouts that were tried")
    find.press_sequentially(":model")
    expect(panel.locator("tr[data-card]")).to_have_count(2)
    expect(find).to_be_focused()
    expect(panel.locator(".mlb-card-tools")).to_contain_text("2 of 5 layouts")
    with board.next_revision():
        panel.get_by_role("button", name="Delete these 2").click()
    expect(board.status).to_have_text("Deleted 2 layouts. Undo brings them back.")
    expect(panel.locator("tr[data-card]")).to_have_count(0)
    find.fill("")
    assert names(panel) == ["#4", "DP", "start"]
    with board.next_revision():
        board.button("undo").click()
    expect(board.status).to_have_text("2 layouts are back.")
    assert names(panel) == ["#4", "#3", "TP", "DP", "start"]
    assert str(explorer.layout) == "cols:data"


def test_a_row_is_deleted_by_keyboard_and_the_next_has_the_focus(open_board, explorer: Explorer) -> None:
    board = open_board()
    panel = compared(board)
    row(panel, "3").locator("[data-load]").focus()
    with board.next_revision():
        board.keyboard.press("Delete")
    expect(row(panel, "2").locator("[data-load]")).to_be_focused()
    with board.next_revision():
        board.keyboard.press("Delete")
    assert names(panel) == ["#4", "DP", "start"]
    expect(row(panel, "4").get_by_label("delete #4")).to_be_disabled()
    row(panel, "4").locator("[data-load]").focus()
    board.keyboard.press("Delete")
    expect(board.status).to_contain_text("#4 is on the board. Put another layout on the board first.")
    for _ in range(2):
        with board.next_revision():
            board.keyboard.press("Control+z")
    assert names(panel) == ["#4", "#3", "TP", "DP", "start"]


def save(board: BlankBoard, path: Path) -> Path:
    with board.blank.view.expect_download() as download:
        board.panel("compare").get_by_role("button", name="Save …").click()
    assert download.value.suggested_filename == "meshlab-step.json"
    download.value.save_as(path)
    return path


def test_a_board_is_saved_and_opened_in_another(open_board, explorer: Explorer, tmp_path: Path) -> None:
    explorer.label("#3", "wide", "a note")
    board = open_board()
    compared(board)
    path = save(board, tmp_path / "board.json")
    expect(board.status).to_have_text("Saved meshlab-step.json, with 5 layouts.")
    explorer.save(tmp_path / "same.json")
    assert path.read_text() == (tmp_path / "same.json").read_text()
    other = explore(small.program(), small.mesh())
    second = open_board(other)
    panel = compared(second)
    with second.blank.view.expect_file_chooser() as chooser:
        panel.get_by_role("button", name="Open …").click()
    chooser.value.set_files(path)
    expect(second.status).to_have_text("Opened: 5 layouts, 4 of them new here.")
    expect(panel.locator(".mlb-card-note")).to_have_text("a note")
    assert other.document == explorer.document
    assert sorted(other.titles().values()) == ["#1", "DP", "TP", "start", "wide"]


def test_a_file_that_is_wrong_is_refused_with_all_reasons(open_board, explorer: Explorer, tmp_path: Path) -> None:
    board = open_board()
    panel = compared(board)
    path = save(board, tmp_path / "board.json")
    data = json.loads(path.read_text())
    data["tried"]["layouts"][0]["layout"] = {"batch": "dat"}
    data["tried"]["layouts"][1]["colour"] = "red"
    path.write_text(json.dumps(data))
    before, revision = explorer.tried, explorer.revision
    panel.locator("input[type=file]").set_input_files(path)
    refused = panel.get_by_role("alert")
    expect(refused).to_contain_text("the mesh has no axis dat.")
    expect(refused).to_contain_text("unknown field colour.")
    expect(refused).to_contain_text("the board is as it was.")
    assert (explorer.tried, explorer.revision) == (before, revision)
    board.blank.shot("refused-file")
    panel.locator("input[type=file]").set_input_files(
        {"name": "photo.json", "mimeType": "application/json", "buffer": b"x" * 2_000_001}
    )
    expect(board.status).to_have_text("photo.json is too large for a saved board.")
    explorer.save(path)
    panel.locator("input[type=file]").set_input_files(path)
    expect(refused).to_have_count(0)


def test_the_menu_saves_and_opens_as_well(open_board, explorer: Explorer, tmp_path: Path) -> None:
    board = open_board()
    board.button("export").click()
    menu = board.root.locator(".mlb-popover")
    with board.blank.view.expect_download() as download:
        menu.get_by_role("button", name="Save …").click()
    download.value.save_as(tmp_path / "board.json")
    (tmp_path / "wrong.json").write_text("{}")
    menu.locator("input[type=file]").set_input_files(tmp_path / "wrong.json")
    expect(menu.get_by_role("alert")).to_contain_text("it has no schema")
    explorer.load("rows:data")
    board.blank.poll()
    menu.locator("input[type=file]").set_input_files(tmp_path / "board.json")
    expect(menu).to_be_hidden()
    assert str(explorer.layout) == "cols:data"


@pytest.mark.parametrize(("width", "theme"), [(600, "light"), (1112, "dark"), (1272, "light")])
def test_it_reads_well_and_is_accessible(open_board, explorer: Explorer, theme: str, width: int) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: (cd meshlab/widgets/js && npm ci)")
    assert explorer.label("#3", "a label of very many letters, as long as it can be: 60 of th", "and a note")
    explorer.label("#1", note="a" * 80)
    board = open_board(theme=theme, width=width)
    panel = compared(board)
    row(panel, "2").get_by_role("button", name="label and note of TP").click()
    assert panel.evaluate("panel => panel.scrollWidth <= panel.clientWidth")
    cut = panel.locator("td, th, .mlb-card-tools > *, .mlb-card-does > *").evaluate_all(
        "all => all.filter(each => each.scrollWidth > each.clientWidth + 1).map(each => each.outerHTML)"
    )
    assert cut == []
    board.blank.view.add_script_tag(path=str(AXE))
    assert violations(board.blank.view) == []
    panel.locator(".mlb-cards-box").evaluate("each => each.scrollIntoView()")
    board.blank.shot(f"tried-{theme}-{width}")
