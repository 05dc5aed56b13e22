"""The numbers of a run in the slices of a tensor: a button once they are there, and cells that say what they are."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from playwright.sync_api import expect

import meshlab as ml
from meshlab.opening.open_explorer import explore
from meshlab.training.feeding import Training
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.state.run_values import RunValues
from tests.browser.blank import BlankBoard
from tests.browser.test_accessible import AXE, violations
from tests.widgets import small

PLACE = "params/w1"


def trained(layout: str = "batch:data hidden:model") -> Explorer:
    """The small net that has run, its weights selected."""
    explorer = explore(small.program(), ml.mesh("v5e", data=2, model=4), layout, run=small.training(steps=3))
    explorer.select(PLACE)
    assert explorer.run().wait(60).phase == "done"
    explorer.view()
    return explorer


@pytest.fixture
def explorer() -> Explorer:
    return trained()


def press(board: BlankBoard) -> None:
    board.root.locator(".mlb-numbers").click()
    expect(board.root.locator(".mlb-numbers")).to_have_attribute("aria-pressed", "true")
    expect(board.root.locator(".mlb-heat").first).to_be_visible()


def shown_cells(board: BlankBoard) -> list[list[str]]:
    """What the cells of each block say."""
    return board.root.locator(".mlb-tensor .mlb-heat").evaluate_all(
        "all => all.map(g => [...g.querySelectorAll('title')].map(each => each.textContent))"
    )


@pytest.mark.parametrize(("width", "theme"), [(600, "light"), (1112, "dark")])
def test_the_tensor_is_filled_with_the_numbers_of_the_run(
    open_board, explorer: Explorer, theme: str, width: int
) -> None:
    board: BlankBoard = open_board(theme=theme, width=width, height=900)
    expect(board.root.locator(".mlb-numbers")).to_have_text("▦ numbers of run 1")
    assert not board.root.locator(".mlb-heat").count(), "off until it is asked for"
    board.root.locator('[data-device="6"]').click()
    press(board)
    array = np.asarray(explorer.runs[-1].result["params"]["w1"].array)
    # w1 is rows × cols × hidden, hidden cut in four: `rows` or `cols` down, the other one in each cell.
    blocks = shown_cells(board)
    assert len(blocks) == 4
    cells = [re.fullmatch(r".* at (\w+) (.+), hidden (\d+)(?:\S+?(\d+))?: mean magnitude (\S+), from \S+ to \S+", text)
             for block in blocks for text in block]  # fmt: skip
    assert len(cells) == 4 * 16
    assert all(cells)
    for cell in cells:
        assert cell
        axis = ("rows", "cols").index(cell[1])
        numbers = np.moveaxis(array, axis, 0)[int(cell[2]), :, int(cell[3])]
        assert float(cell[5]) == pytest.approx(np.abs(numbers).mean(), rel=6e-3)
    legend = board.root.locator(".mlb-tensor figcaption")
    expect(legend).to_contain_text(
        "Each cell is the mean magnitude of 4 numbers, since numbers of both signs would cancel"
    )
    expect(legend).to_contain_text("After step 3 of run 1.")
    expect(legend).to_contain_text("✓ Read from 8 devices, each its own shard: the index ranges match the plan")
    expect(legend).to_contain_text("each slice is held by 2 devices")
    expect(legend).not_to_contain_text("the small numbers")
    # What the selected device holds is marked as it was, and each slice has its letter.
    expect(board.root.locator(".mlb-tensor [data-alike]")).to_have_attribute("data-slice", "2")
    expect(board.root.locator(".mlb-tensor .mlb-letter")).to_have_text(["A", "B", "C", "D"])
    board.blank.shot(f"heat-{theme}-{width}", full=True)
    if AXE.exists():
        board.blank.view.add_script_tag(path=AXE)
        assert not violations(board.blank.view)
    board.root.locator(".mlb-numbers").click()
    expect(board.root.locator(".mlb-heat")).to_have_count(0)


@pytest.mark.parametrize("pair", [False, True], ids=["alone", "beside"])
def test_nothing_is_cut_in_any_width(open_board, explorer: Explorer, pair: bool) -> None:
    if pair:
        explorer.beside("hidden:data")
    board: BlankBoard = open_board(panel="devices", height=1000)
    board.root.locator(".mlb-numbers").first.click()
    expect(board.root.locator(".mlb-tensor .mlb-heat")).to_have_count(4 + 2 * pair)
    panel = board.panel("devices")
    for width in (500, 600, 1112, 1920):
        board.blank.view.set_viewport_size({"width": width, "height": 1000})
        assert panel.evaluate("panel => panel.scrollWidth - panel.clientWidth") <= 0
        board.blank.shot(f"heat-alone-{width}{'-beside' * pair}", full=True)


def test_keys_turn_it_on_and_off_and_the_focus_stays(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board()
    button = board.root.locator(".mlb-numbers")
    button.focus()
    for key, pressed in (("Enter", "true"), ("Space", "false"), ("Enter", "true")):
        board.keyboard.press(key)
        expect(button).to_have_attribute("aria-pressed", pressed)
        expect(button).to_be_focused()


def test_there_is_a_button_once_there_are_numbers(open_board) -> None:
    explorer = explore(small.program(), small.mesh(), "batch:data", run=small.training(steps=2))
    explorer.select(PLACE)
    board: BlankBoard = open_board(explorer)
    expect(board.root.locator(".mlb-tensor")).to_be_visible()
    expect(board.root.locator(".mlb-numbers")).to_have_count(0)
    explorer.run().wait(60)
    board.blank.poll()
    expect(board.root.locator(".mlb-numbers")).to_have_text("▦ numbers of run 1")
    press(board)
    explorer.run(1).wait(60)
    board.blank.poll()
    expect(board.root.locator(".mlb-numbers")).to_have_text("▦ numbers of run 2")
    expect(board.root.locator(".mlb-tensor figcaption")).to_contain_text("After step 1 of run 2.")


def test_a_run_that_failed_before_its_first_step_has_no_button(open_board) -> None:
    wrong = {"images": np.zeros((8, 4, 5), np.float32), "labels": np.zeros(8, np.int32)}
    explorer = explore(small.program(), small.mesh(), run=Training({"params": small.params()}, lambda: [wrong]))
    explorer.select(PLACE)
    assert explorer.run().wait(60).phase == "failed"
    board: BlankBoard = open_board(explorer)
    expect(board.root.locator(".mlb-tensor")).to_be_visible()
    expect(board.root.locator(".mlb-numbers")).to_have_count(0)
    reads = [each["what"] for each in board.blank.view.evaluate("window.sent") if each["kind"] == "read"]
    assert "numbers" not in reads, "nothing is asked for"


def test_where_numbers_cannot_be_found_the_caption_says_why(open_board, explorer: Explorer, monkeypatch) -> None:
    def fail(*args: object) -> None:
        raise OSError("the device is gone")

    monkeypatch.setattr(RunValues, "at", fail)
    board: BlankBoard = open_board()
    expect(board.root.locator(".mlb-tensor figcaption")).to_contain_text("✕ OSError: the device is gone")


def test_numbers_of_a_run_under_another_layout_say_so(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board()
    press(board)
    explorer.load({"params/*": {"hidden": "data"}})
    board.blank.poll()
    expect(board.root.locator(".mlb-tensor .mlb-heat")).to_have_count(2)
    caption = board.root.locator(".mlb-tensor figcaption")
    expect(caption).to_contain_text("After step 3 of run 1, under batch:data hidden:model.")
    # The devices that ran held other slices than these (B28): nothing frames the numbers, and it is said.
    caption_says = (
        "In run 1 it has hidden split over model: its slices differ from these, so they do not frame its numbers."
    )
    expect(caption).to_contain_text(caption_says)
    tensor = board.root.locator(".mlb-tensor")
    expect(tensor.locator(".mlb-slice, .mlb-letter, .mlb-site-frame")).to_have_count(0)
    expect(caption).not_to_contain_text("each slice is held by")
    board.blank.shot("heat-unframed", full=True)
    # Beside it the layout of the run, each in its own slices.
    explorer.beside("batch:data hidden:model")
    board.blank.poll()
    for side, count, framed in (("mine", 2, 0), ("other", 4, 4)):
        expect(board.root.locator(f'[data-beside="{side}"] .mlb-heat')).to_have_count(count)
        expect(board.root.locator(f'[data-beside="{side}"] .mlb-tensor .mlb-slice')).to_have_count(framed)
    board.blank.shot("heat-beside", full=True)


def test_what_is_made_inside_the_step_has_none_and_says_so(open_board) -> None:
    program = ml.trace(lambda x: ml.tag(x * 2, "twice").sum(), ml.named(np.ones((8, 4), np.float32), "rows cols"))
    x = np.ones((8, 4), np.float32)
    explorer = explore(program, small.mesh(), {"rows": "data"}, run=Training({"x": x}, steps=1))
    explorer.select("twice")
    assert explorer.run().wait(60).phase == "done"
    board: BlankBoard = open_board(explorer)
    expect(board.root.locator(".mlb-tensor figcaption")).to_contain_text(
        "No numbers: twice is computed inside the step, and not stored. Look shows them."
    )
    expect(board.root.locator(".mlb-numbers")).to_have_count(0)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_is_no_number_is_hatched_and_the_picture_can_be_saved(open_board, theme: str, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(16, 24)).astype(np.float32)
    x[3, 5], x[12, 20], x[12, 21] = np.nan, np.inf, np.nan
    program = ml.trace(lambda x: x * 1, ml.named(x, "rows cols"))
    explorer = explore(program, small.mesh(), {"rows": "data", "cols": "model"}, run=Training({"x": x}, steps=1))
    assert explorer.run().wait(60).phase == "done"
    explorer.select("x")
    board: BlankBoard = open_board(explorer, theme=theme, panel="devices", width=900, height=900)
    press(board)
    assert sum(map(len, shown_cells(board))) == x.size
    odd = board.root.locator(".mlb-tensor .mlb-heat [data-odd]")
    expect(odd).to_have_count(3)
    expect(board.root.locator(".mlb-odd-note")).to_have_text(re.compile("2 NaN, 1 infinite"))
    [text] = [each for block in shown_cells(board) for each in block if "infinite" in each]
    assert text == "x at rows 12, cols 20: 1 infinite"
    board.blank.shot(f"heat-odd-{theme}", full=True)
    page = board.root.locator(".mlb-tensor .mlb-heat rect[data-cell]").evaluate_all(
        "all => all.map(each => each.getAttribute('fill'))"
    )
    board.button("export").click()
    with board.blank.view.expect_download() as download:
        board.root.locator('[data-export="numbers"] [data-save="svg"]').click()
    path = tmp_path / "numbers.svg"
    download.value.save_as(path)
    root = ElementTree.fromstring(path.read_text())
    fills = [each.get("fill") for each in root.iter("{http://www.w3.org/2000/svg}rect")]
    assert all(fills.count(colour) >= page.count(colour) for colour in page), "each cell is in the saved figure"
    words = " ".join(" ".join(root.itertext()).split())
    assert "after step 1 of run 1" in words
    assert "Crossed out: 2 NaN, 1 infinite." in words
