"""The way out: the layout on the clipboard; figures for print and their numbers as files, as Python makes them."""

from __future__ import annotations

import csv
import io
import json
import re
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Locator, expect

import meshlab as ml
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.notebook.files import PANELS
from meshlab.widgets.notebook.standalone import VIEWS
from tests.browser.blank import BlankBoard
from tests.browser.test_accessible import AXE, violations
from tests.widgets import small

SVG = "{http://www.w3.org/2000/svg}"
# What is on the page and in no figure.
CONTROLS = ("Use it", "beside", "as derived", "choose a layout", "▾", "Search again", "whole chart")


@pytest.fixture
def explorer() -> Explorer:
    """An Explorer with something in every view."""
    shown = explore(small.program(), ml.mesh("v5e", data=2, model=4), "batch:data", run=small.training(steps=3))
    shown.place("hidden", "model")
    shown.run().wait(60)
    shown.view()
    return shown


Save = Callable[[BlankBoard, Locator], Path]


@pytest.fixture
def saved(tmp_path: Path) -> Save:
    """Clicks on a button that saves a file, and returns where it is: a folder of this test's own, as other tests at the
    same time save files of the same names."""

    def save(board: BlankBoard, button: Locator) -> Path:
        with board.blank.view.expect_download() as download:
            button.click()
        path = tmp_path / download.value.suggested_filename
        download.value.save_as(path)
        return path

    return save


def save_button(board: BlankBoard, name: str, kind: str) -> Locator:
    return board.root.locator(f'[data-export="{name}"] [data-save="{kind}"]')


def open_files(board: BlankBoard) -> None:
    board.button("export").click()
    expect(board.root.locator(".mlb-files [data-save]").first).to_be_visible()


def texts_of(path: Path) -> list[str]:
    return ["".join(each.itertext()) for each in ElementTree.fromstring(path.read_bytes()).iter(f"{SVG}text")]


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_bytes().decode("utf-8-sig"), newline="")))


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_saves_its_figures_and_their_numbers(open_board, saved: Save, explorer: Explorer, name: str) -> None:
    explorer.auto("time")
    board: BlankBoard = open_board(panel=name, width=700, height=900)
    open_files(board)
    offers = board.root.locator("[data-export]")
    assert [each.get_attribute("data-export") for each in offers.all()] == list(PANELS[name])
    for offered in PANELS[name]:
        kinds = {
            each.get_attribute("data-save")
            for each in offers.locator(f"xpath=self::*[@data-export='{offered}']").locator("[data-save]").all()
        }
        if "svg" in kinds:
            path = saved(board, save_button(board, offered, "svg"))
            assert path.name == f"meshlab-{offered}.svg"
            assert path.read_text() == explorer.figure(offered, width_mm=85).svg
            assert not [text for text in texts_of(path) for word in CONTROLS if word in text]
        path = saved(board, save_button(board, offered, "csv"))
        assert path.read_bytes().decode("utf-8-sig") == explorer.table(offered).csv()
        assert len(rows_of(path)) == len(explorer.table(offered)) or offered == "regrets"
        data = json.loads(saved(board, save_button(board, offered, "json")).read_text())
        assert data["rows"] == [dict(row) for row in explorer.table(offered)]
    board.blank.shot(f"export-{name}")


def test_the_workbench_saves_the_panel_that_is_shown_the_layout_the_step_and_all(
    open_board, saved: Save, explorer: Explorer
) -> None:
    board: BlankBoard = open_board()
    board.show("memory")
    open_files(board)
    offers = board.root.locator("[data-export]")
    names = [each.get_attribute("data-export") for each in offers.all()]
    assert names == ["memory", "moments", "layout", "timeline", "board", "code"]
    board.blank.shot("export-menu-files")
    rows = rows_of(saved(board, save_button(board, "timeline", "csv")))
    time = explorer.time
    assert time is not None
    kernels = sum(float(row["running_seconds"]) for row in rows if row["lane"] == "kernels")
    assert kernels == pytest.approx(float(time.compute))
    rows = rows_of(saved(board, save_button(board, "layout", "csv")))
    assert {(row["dim"], row["mesh_axes"]) for row in rows} >= {("batch", "data"), ("hidden", "model"), ("rows", "")}
    words = " ".join(texts_of(saved(board, save_button(board, "board", "svg"))))
    for title in (
        "Layout",
        "One step over time on",
        "Predicted peak memory",
        # A figure is at most a page high.
        "Left out, for its height: devices.",
        "Mesh: data 2 × model 4",
    ):
        assert title in words


def test_every_device_is_a_row_with_what_it_holds(open_board, saved: Save, explorer: Explorer) -> None:
    explorer.select("params/w1")
    board: BlankBoard = open_board()
    board.show("devices")
    open_files(board)
    rows = rows_of(saved(board, save_button(board, "devices", "csv")))
    assert len(rows) == 8
    for device, row in enumerate(rows):
        *_, hidden = explorer.plan.shard("params/w1", device)
        assert (int(row["hidden_begin"]), int(row["hidden_end"])) == tuple(hidden)


def test_figures_have_the_width_that_is_chosen(open_board, saved: Save) -> None:
    board: BlankBoard = open_board()
    open_files(board)
    board.root.get_by_label("width of figures").select_option("175")
    path = saved(board, save_button(board, "timeline", "svg"))
    assert ElementTree.fromstring(path.read_bytes()).attrib["width"] == "175mm"
    expect(board.status).to_have_text(re.compile(r"Saved meshlab-timeline\.svg, 175 × \d+ mm\."))
    png = saved(board, save_button(board, "timeline", "png")).read_bytes()
    assert struct.unpack(">II", png[16:24])[0] == round(175 / 25.4 * 300)
    # Its resolution is in the file, so that it is 175 mm wide on paper as well.
    assert png[37:41] == b"pHYs"
    assert struct.unpack(">IIB", png[41:50]) == (11811, 11811, 1)
    expect(board.status).to_contain_text("Saved meshlab-timeline.png, 2067 × ")
    pdf = saved(board, save_button(board, "timeline", "pdf")).read_bytes()
    assert pdf.startswith(b"%PDF")
    assert b"/BaseFont" in pdf
    board.keyboard.press("Escape")
    open_files(board)
    expect(board.root.get_by_label("width of figures")).to_have_value("175")


def test_what_cannot_be_saved_says_why_in_the_menu(open_board, explorer: Explorer, monkeypatch) -> None:
    board: BlankBoard = open_board()
    board.show("compare")
    open_files(board)
    # Without data a row is disabled, and says why; with some none is.
    for name, why in (("waterfall", "Auto has not found the fastest layout"), ("regrets", "Auto has not found")):
        row = board.root.locator(f'[data-export="{name}"]')
        expect(row.locator("small")).to_contain_text(why)
        assert row.locator("button").evaluate_all("all => all.length && all.every(each => each.disabled)")
    for name in ("comparison", "layout", "timeline", "board"):
        row = board.root.locator(f'[data-export="{name}"]')
        assert row.locator("button").evaluate_all("all => all.length && all.every(each => !each.disabled)")
        expect(row.locator("small")).to_have_count(0)
    board.blank.shot("export-empty")
    menu = board.root.locator(".mlb-popover [role=alert]").filter(has_text=re.compile(r"\S"))
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    save_button(board, "layout", "pdf").click()
    expect(menu).to_contain_text("PDF and PNG are made by vl-convert, the extra meshlab[print]")


def test_of_the_program_every_row_is_saved_that_the_filter_leaves(open_board, saved: Save, explorer: Explorer) -> None:
    board: BlankBoard = open_board(panel="program", width=900, height=300)
    expect(board.root.get_by_role("tree")).to_be_visible()
    open_files(board)
    rows = rows_of(saved(board, save_button(board, "program", "csv")))
    assert len(rows) == len(explorer.table("program"))
    board.keyboard.press("Escape")
    board.root.get_by_label("steps to show").select_option("collectives")
    open_files(board)
    fewer = rows_of(saved(board, save_button(board, "program", "csv")))
    sent = [row for row in fewer if row["kind"] == "collective"]
    assert len(sent) == len(explorer.plan.collectives) < len(fewer) < len(rows)
    assert {row["kind"] for row in fewer} <= {"phase", "function", "line", "step", "collective"}


def copied(board: BlankBoard) -> str:
    """What is on the clipboard, by pasting it."""
    board.blank.view.evaluate(
        "document.body.append(Object.assign(document.createElement('textarea'), { id: 'pasted' }))"
    )
    board.blank.view.locator("#pasted").focus()
    board.keyboard.press("Control+V")
    return board.blank.view.locator("#pasted").input_value()


def open_menu(board: BlankBoard) -> Locator:
    board.button("export").focus()
    board.keyboard.press("Enter")
    menu = board.root.locator(".mlb-popover")
    expect(menu.locator("input:checked")).to_be_focused()
    return menu


@pytest.mark.parametrize("secure", [True, False])
def test_the_layout_is_copied_by_keyboard(open_board, explorer: Explorer, secure: bool) -> None:
    board: BlankBoard = open_board(width=1000)
    if secure:  # a notebook that comes by plain HTTP from elsewhere, or a blank page, has no clipboard of this kind
        board.blank.view.evaluate(
            "navigator.__defineGetter__('clipboard', () => ({ writeText: async text => { window.text = text } }))"
        )
    menu = open_menu(board)
    board.blank.shot(f"export-menu-{'secure' if secure else 'plain'}")
    board.keyboard.press("ArrowRight")
    board.keyboard.press("ArrowRight")
    expect(menu.get_by_label("JSON", exact=True)).to_be_checked()
    assert json.loads(menu.locator("textarea").input_value()) == explorer.layout.to_dict()
    board.keyboard.press("Enter")
    expect(board.status).to_have_text("Copied the layout as JSON: 1 line.")
    expect(menu).to_be_hidden()
    expect(board.button("export")).to_be_focused()
    text = board.blank.view.evaluate("window.text") if secure else copied(board)
    assert json.loads(text) == explorer.layout.to_dict()
    # The form is remembered.
    assert open_menu(board).locator("input:checked").input_value() == "JSON"


def test_what_is_copied_is_on_the_board_at_that_moment(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board()
    menu = open_menu(board)
    menu.get_by_label("dict").check()
    explorer.load("batch:data")
    board.blank.poll()
    menu.get_by_role("button", name="Copy", exact=True).click()
    expect(board.status).to_contain_text("Copied the layout as dict")
    assert eval(copied(board), {}) == {"batch": "data"}


def test_what_a_form_cannot_say_is_listed_before_it_is_copied(open_board, explorer: Explorer) -> None:
    explorer.load({"batch": "data", "params/*": {"hidden": "data"}})
    board: BlankBoard = open_board()
    menu = open_menu(board)
    lost = menu.locator(".mlb-form-lost")
    menu.get_by_label("Python").check()
    expect(lost).to_have_text("✓ Says all of the layout.")
    menu.get_by_label("Mesh TensorFlow").check()
    expect(lost.locator("li")).to_have_text(["✕ at params/* is stored hidden:data: the format has no rules for places"])
    expect(menu.locator("textarea")).to_have_value("batch:data")
    board.blank.shot("export-lost")


@pytest.mark.parametrize("width", [1000, 1128, 1280])
def test_the_header_stays_one_line(open_board, width: int) -> None:
    board: BlankBoard = open_board(width=width)
    assert (board.root.locator(".mlb-header").bounding_box() or {})["height"] < 40
    board.blank.shot(f"export-header-{width}")


def test_a_page_without_any_clipboard_leaves_the_text_selected(open_board) -> None:
    board: BlankBoard = open_board()
    board.blank.view.evaluate("document.execCommand = () => false")
    menu = open_menu(board)
    menu.get_by_role("button", name="Copy", exact=True).click()
    expect(board.status).to_contain_text("the text is selected: press Ctrl+C")
    selected: Any = menu.locator("textarea").evaluate(
        "text => text.value.slice(text.selectionStart, text.selectionEnd)"
    )
    assert selected == menu.locator("textarea").input_value() != ""


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: (cd meshlab/widgets/js && npm ci)")
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_in_the_menu(open_board, explorer: Explorer, theme: str) -> None:
    explorer.load({"batch": "data", "params/*": {"hidden": "data"}})
    board: BlankBoard = open_board(theme=theme)
    menu = open_menu(board)
    menu.get_by_label("Mesh TensorFlow").check()
    board.blank.view.add_script_tag(path=AXE)
    assert violations(board.blank.view) == []
    board.keyboard.press("Escape")
    board.show("run")
    assert violations(board.blank.view) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_code_of_each_device_is_saved_or_what_it_cannot_say_is_listed(
    open_board, saved: Save, explorer: Explorer, theme: str
) -> None:
    board: BlankBoard = open_board(theme=theme, height=720)
    open_files(board)
    path = saved(board, save_button(board, "code", "py"))
    assert (path.name, path.read_text()) == ("step.py", explorer.plan.code())
    expect(board.root.locator(".mlb-status")).to_contain_text(
        f"Saved step.py, {path.read_text().count(chr(10)):,} lines."
    )
    board.blank.shot(f"export-code-{theme}")
    explorer.pad(True)
    explorer.load("classes:model")
    board.blank.poll()
    save_button(board, "code", "py").click()
    expect(board.root.locator(".mlb-popover > .mlb-error")).to_contain_text("params/w2, which is padded to (16, 12)")
    board.blank.shot(f"export-code-refused-{theme}")
