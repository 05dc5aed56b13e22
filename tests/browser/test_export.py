"""The way out: the layout on the clipboard, and every view as SVG, PNG and CSV, as it is on the page."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Locator, expect

import meshlab as ml
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.notebook.standalone import VIEWS
from meshlab.widgets.views.program_steps import steps_view
from tests.browser.blank import BlankBoard
from tests.browser.test_accessible import AXE, violations
from tests.browser.test_moments import chart_of
from tests.widgets import small

# Views with a chart that Plotly draws.
CHARTS = {"memory": "moments", "time": "roofline", "run": "losses"}
SVG = "{http://www.w3.org/2000/svg}"
# Texts that are seen, word by word; of a choice what is chosen. Nothing of what a disclosure hides.
WORDS = r"""panel => {
    const walk = document.createTreeWalker(panel, NodeFilter.SHOW_TEXT), words = [];
    const range = document.createRange();
    for (let node = walk.nextNode(); node; node = walk.nextNode()) {
        if (node.parentElement.closest("title, option, style, .mlb-plot-tools")) continue;
        range.selectNodeContents(node);
        if (range.getClientRects().length && node.data.trim() && node.parentElement.checkVisibility())
            words.push(...node.data.trim().split(/\s+/));
    }
    for (const select of panel.querySelectorAll("select"))
        if (select.getClientRects().length) words.push(select.selectedOptions[0].text.trim().split(/\s+/)[0]);
    return words;
}"""
# The share of pixels that differ by more than a little, of two pictures, each drawn whole and then a quarter as large
# each way: text is drawn a little differently, but not elsewhere.
DIFFERENT = """async ([one, other, width, height]) => {
    const sized = (image, shrink) => {
        const canvas = document.createElement("canvas");
        [canvas.width, canvas.height] = [Math.ceil(width / shrink), Math.ceil(height / shrink)];
        const context = canvas.getContext("2d");
        context.imageSmoothingQuality = "high";
        context.drawImage(image, 0, 0, canvas.width, canvas.height);
        return canvas;
    };
    const pixels = await Promise.all([one, other].map(async source => {
        const image = new Image();
        image.src = source;
        await image.decode();
        const small = sized(sized(image, 1), 4);
        return small.getContext("2d").getImageData(0, 0, small.width, small.height).data;
    }));
    let different = 0;
    for (let i = 0; i < pixels[0].length; i += 4)
        if ([0, 1, 2].some(j => Math.abs(pixels[0][i + j] - pixels[1][i + j]) > 40)) different += 1;
    return different / (pixels[0].length / 4);
}"""


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


def texts_of(svg: ElementTree.Element) -> str:
    return " ".join(" ".join(each.itertext()) for each in svg.iter(f"{SVG}text"))


def uri(kind: str, content: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def panel_of(board: BlankBoard, name: str) -> Locator:
    return board.root.locator(".mlb-step-time") if name == "timeline" else board.panel(name)


@pytest.mark.parametrize(
    ("name", "theme"), [(name, ("light", "dark")[number % 2]) for number, name in enumerate(VIEWS)]
)
def test_a_saved_picture_is_what_is_on_the_page(open_board, saved: Save, explorer, name: str, theme: str) -> None:
    board: BlankBoard = open_board(panel=name, theme=theme, width=900, height=1400)
    panel = panel_of(board, name)
    expect(panel).to_be_visible()
    if name in CHARTS:
        chart_of(board, CHARTS[name])
    path = saved(board, save_button(board, name, "svg"))
    root = ElementTree.fromstring(path.read_bytes())
    assert root.tag == f"{SVG}svg"
    assert not [each.tag for each in root.iter() if "foreignObject" in each.tag]
    assert not re.search(r"var\(|rgba\(|color-mix|oklch", path.read_text())
    said = texts_of(root)
    words = panel.evaluate(WORDS)
    assert len(words) > 3
    assert [word for word in words if word not in said] == []
    size = panel.evaluate("panel => [panel.offsetWidth, panel.offsetHeight]")
    assert [float(root.attrib["width"]), float(root.attrib["height"])] == size
    # Drawn by itself, from the file alone, it looks like the panel.
    shot = panel.screenshot()
    drawing = uri("svg+xml", path.read_bytes())
    alone = board.blank.view.context.new_page()
    try:
        off = alone.evaluate(DIFFERENT, [uri("png", shot), drawing, *size])
    finally:
        alone.close()
    assert off < 0.02, f"{off:.1%} of the pixels differ"
    # As PNG it is twice as large.
    png = saved(board, save_button(board, name, "png")).read_bytes()
    assert struct.unpack(">II", png[16:24]) == (2 * size[0], 2 * size[1])


def test_what_scrolls_is_saved_whole(open_board, saved: Save) -> None:
    board: BlankBoard = open_board(width=1000, height=640)
    panel = board.show("devices")
    last = panel.locator("summary").last
    expect(last).not_to_be_in_viewport()
    panel.focus()
    board.keyboard.press("End")
    expect(last).to_be_in_viewport()
    width, height = panel.evaluate("panel => [panel.scrollWidth, panel.scrollHeight]")
    assert height > panel.evaluate("panel => panel.clientHeight")
    board.button("export").click()
    root = ElementTree.fromstring(saved(board, save_button(board, "devices", "svg")).read_bytes())
    assert (float(root.attrib["width"]), float(root.attrib["height"])) == (width, height)
    lines = {
        "".join(each.itertext()): float(each.attrib["y"]) for each in root.iter(f"{SVG}text") if "y" in each.attrib
    }
    assert 0 < lines["4 slices"] < lines[last.inner_text()] < height
    expect(board.status).to_have_text(f"Saved meshlab-devices.svg, {width:,} × {height:,} px.")


@pytest.mark.parametrize("name", ["layout", "timeline", "workbench"])
def test_the_parts_of_the_workbench_are_saved_too(open_board, saved: Save, name: str) -> None:
    board: BlankBoard = open_board()
    board.button("export").click()
    path = saved(board, save_button(board, name, "svg"))
    root = ElementTree.fromstring(path.read_bytes())
    assert path.name == f"meshlab-{name}.svg"
    assert "model" in texts_of(root)
    # The menu itself is no part of it.
    assert "Copy the layout as" not in texts_of(root)
    board.blank.view.set_content(f'<img src="{uri("svg+xml", path.read_bytes())}">')
    board.blank.shot(f"export-{name}", full=True)


def rows_of(path: Path) -> list[list[str]]:
    return list(csv.reader(io.StringIO(path.read_bytes().decode("utf-8-sig"))))


def test_tables_are_saved_as_their_rows(open_board, saved: Save, explorer: Explorer) -> None:
    explorer.run(2).wait(60)
    board: BlankBoard = open_board(panel="run", width=900)
    cells = (
        "table => [...table.rows].map(row => [...row.cells].map(cell => cell.innerText.replace(/\\s+/g, ' ').trim()))"
    )
    seen = board.panel("run").locator("table").evaluate(cells)
    assert len(seen) == 3
    assert rows_of(saved(board, save_button(board, "run", "csv"))) == seen


def test_lists_are_saved_item_by_item_under_their_names(open_board, saved: Save, explorer: Explorer) -> None:
    board: BlankBoard = open_board(panel="traffic", width=900)
    rows = rows_of(saved(board, save_button(board, "traffic", "csv")))
    begin = rows.index(["collectives"]) + 2
    listed = rows[begin : begin + len(explorer.plan.collectives)]
    axes = [[c.kind, "+".join(c.axes)] for c in explorer.plan.collectives]
    assert sorted(row[:2] for row in listed) == sorted(axes)
    assert rows[rows.index(["by mesh axis"]) + 1][:2] == ["data", "420 B"]
    assert rows[rows.index(["by kind"]) + 1][:2] == ["all-reduce × 4", "660 B"]
    assert rows[rows.index(["by source line"]) + 1][0].startswith("small.py:27 logits = ml.dot(")


def test_of_the_program_every_row_is_saved_that_the_filter_leaves(open_board, saved: Save, explorer: Explorer) -> None:
    board: BlankBoard = open_board(panel="program", width=900, height=300)
    expect(board.root.get_by_role("tree")).to_be_visible()
    head, *rows = rows_of(saved(board, save_button(board, "program", "csv")))
    assert len(rows) == len(steps_view(explorer.plan)["nodes"]["parent"])
    kind, axes, payload = (head.index(name) for name in ("kind", "mesh axes", "payload, bytes each time"))
    sent = [(row[axes], int(row[payload])) for row in rows if row[kind] == "collective"]
    assert sorted(sent) == sorted(("+".join(c.axes), c.payload_bytes) for c in explorer.plan.collectives)
    board.root.get_by_label("steps to show").select_option("collectives")
    fewer = rows_of(saved(board, save_button(board, "program", "csv")))
    assert len(sent) < len(fewer) < len(rows)


def test_a_view_without_tables_says_so(open_board) -> None:
    board: BlankBoard = open_board()
    board.show("devices")
    board.button("export").click()
    save_button(board, "timeline", "csv").click()
    expect(board.status).to_have_text("There is no table and no list in this: One step over time.")


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
    expect(menu.get_by_label("JSON")).to_be_checked()
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
    expect(lost.locator("li")).to_have_text(
        ["✕ at params/* is stored hidden:data: there are no rules for places there"]
    )
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
