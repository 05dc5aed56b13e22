"""The model on the board: chosen from a list; its sizes, and those of the mesh, on a slider over their curve."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Locator, expect

import meshlab as ml
from meshlab.opening.open_explorer import explore
from meshlab.widgets.background.curves import Curve
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.state import prices
from tests.browser.blank import BlankBoard


@pytest.fixture
def explorer() -> Explorer:
    ml.named_models()  # what they are made of is imported here, and not while the page waits for an answer
    return explore("gpt2_adamw", ml.mesh("v5e", data=2, model=2), "batch:data")


@contextmanager
def told(explorer: Explorer, what: str, done) -> Iterator[None]:
    """Waits until the Explorer has told of something that happens in the background."""
    event = threading.Event()
    stop = explorer.subscribe(lambda word: event.set() if word == what and done() else None)
    yield
    board_has = event.wait(120)
    stop()
    assert board_has


def slider(board: BlankBoard) -> Locator:
    return board.root.get_by_role("slider", name="size of")


def ended(explorer: Explorer) -> bool:
    return explorer.tracer.last is not None and explorer.tracer.last.phase == "done"


def points(explorer: Explorer) -> int:
    curve = explorer.curves.last
    return -1 if curve is None else len(curve.points)


@contextmanager
def answered(board: BlankBoard) -> Iterator[None]:
    """Waits until Python has answered what is sent meanwhile."""
    before = board.root.get_attribute("data-ack") or ""
    yield
    expect(board.root).not_to_have_attribute("data-ack", before)


def open_models(board: BlankBoard, explorer: Explorer) -> Locator:
    with told(explorer, "models", lambda: explorer.listing.whole):
        explorer.list_models()
    board.blank.poll()
    board.root.locator('[data-op="models"]').click()
    expect(board.root.get_by_role("dialog", name="Open a model")).to_be_visible()
    return board.root.locator(".mlb-model-row")


def open_size(board: BlankBoard, explorer: Explorer, name: str, opener: Locator, key: str = "Enter") -> Curve:
    curve = explorer.curve(name)
    opener.press(key)
    expect(slider(board)).to_be_visible()
    expect(slider(board)).to_have_attribute("aria-valuemax", str(len(curve.sizes) - 1))
    return curve


def test_a_model_is_found_by_typing_and_opened_by_keyboard(open_board, explorer: Explorer) -> None:
    board = open_board()
    rows = open_models(board, explorer)
    expect(rows).to_have_count(len(ml.named_models()))
    expect(board.root.locator('.mlb-model-row[aria-current="true"]')).to_have_text(
        "gpt2_adamw ✓7.87 k parametersbatch 8 · seq 16"
    )
    board.keyboard.type("small t5")
    expect(rows).to_have_count(3)  # that of a published size is called t5-small
    board.keyboard.press("ArrowDown")
    board.keyboard.press("ArrowDown")
    expect(rows.nth(1)).to_be_focused()
    assert rows.nth(1).get_attribute("data-model") == "t5"
    with told(explorer, "tracing", lambda: ended(explorer)), answered(board):
        board.keyboard.press("Enter")
    expect(board.root.get_by_role("dialog", name="Open a model")).to_be_hidden()
    board.blank.poll()
    expect(board.root.locator(".mlb-title")).to_have_text("t5")
    assert explorer.view()["tracing"]["text"] == "The layout stays."
    expect(board.chip("buckets")).to_be_visible()
    with board.next_revision():
        board.button("undo").click()
    expect(board.root.locator(".mlb-title")).to_have_text("gpt2_adamw")
    assert board.layout == "batch:data"


def test_no_model_is_called_so(open_board, explorer: Explorer) -> None:
    board = open_board()
    rows = open_models(board, explorer)
    board.keyboard.type("nothing like it")
    expect(rows).to_have_count(0)
    expect(board.root.locator(".mlb-models")).to_have_text("No model is called so.")
    board.keyboard.press("Escape")  # which empties the field
    expect(rows).to_have_count(len(ml.named_models()))
    board.keyboard.press("Escape")
    expect(board.root.locator('[data-op="models"]')).to_be_focused()


def test_a_program_without_models_has_its_name_alone(open_board, explorer: Explorer) -> None:
    board = open_board(Explorer(explorer.program, explorer.mesh))
    expect(board.root.locator(".mlb-title")).to_be_visible()
    expect(board.root.locator('[data-op="models"]')).to_have_count(0)


def test_a_crossed_size_says_why_under_the_pointer(open_board, explorer: Explorer) -> None:
    """A red cross gave no reason, and a drag over the slider selected what is written there."""
    board = open_board()
    open_size(board, explorer, "data", board.root.locator('[data-axis-row="data"]'))
    cross = slider(board).locator(".mlb-sizes-why")
    expect(cross).to_have_count(1)
    cross.hover()
    expect(board.root.get_by_role("tooltip")).to_have_text("16: ✕ batch has size 8, which 16 (data) does not divide.")
    box = slider(board).bounding_box()
    assert box is not None
    board.mouse.move(box["x"] + 4, box["y"] + 4)
    board.mouse.down()
    board.mouse.move(box["x"] + box["width"] - 4, box["y"] + box["height"] + 30, steps=5)
    selected = "(root) => (root.getRootNode().getSelection?.() ?? document.getSelection()).toString()"
    assert board.root.evaluate(selected) == ""
    expect(board.root.locator(".mlb-sizes .mlb-error")).to_contain_text("16: ✕ batch has size 8")
    board.mouse.up()
    assert dict(explorer.mesh.axes) == {"data": 2, "model": 2}


def test_a_mesh_axis_takes_the_size_that_it_is_dragged_to(open_board, explorer: Explorer) -> None:
    board = open_board()
    curve = open_size(board, explorer, "data", board.root.locator('[data-axis-row="data"]'))
    expect(slider(board).locator("[data-row]")).to_have_count(3)
    expect(slider(board).locator('[data-row="step"] [data-size]')).to_have_count(
        sum(not point.refused for point in curve.points)
    )
    refused = [point.size for point in curve.points if point.refused]
    assert refused == [16]
    expect(slider(board).locator("[data-refused]")).to_have_count(1)
    box = slider(board).bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    edge = box["width"] * 22 / 376
    step = (box["width"] - 2 * edge) / (len(curve.sizes) - 1)
    board.mouse.move(box["x"] + edge + step, y)
    board.mouse.down()
    board.mouse.move(box["x"] + edge + 4 * step, y)
    expect(board.root.locator(".mlb-sizes .mlb-error")).to_contain_text("16: ✕ batch has size 8")
    board.mouse.move(box["x"] + edge + 2 * step, y)
    four = next(point for point in curve.points if point.size == 4)
    assert four.peak_bytes is not None
    expect(board.root.locator(".mlb-sizes-said")).to_contain_text("4: step")
    with board.next_revision():
        board.mouse.up()
    assert dict(explorer.mesh.axes) == {"data": 4, "model": 2}
    # What was said of the size is what the board says of it now, and the popover stays for the next.
    assert (explorer.time.estimate, explorer.plan.memory.donated.peak_bytes) == (four.seconds, four.peak_bytes)
    expect(slider(board)).to_be_visible()


def test_a_dim_takes_a_size_by_keyboard(open_board, explorer: Explorer) -> None:
    board = open_board()
    curve = open_size(board, explorer, "batch", board.chip("batch"), "F2")
    slider(board).focus()
    board.keyboard.press("Home")
    expect(slider(board)).to_have_attribute("aria-valuetext", "1: ✕ `batch` of 1 is not divided by 2 (data).")
    board.keyboard.press("Enter")  # which takes nothing that is refused
    board.keyboard.press("End")
    board.keyboard.press("ArrowLeft")
    point = curve.points[-2]
    expect(slider(board)).to_have_attribute("aria-valuenow", str(len(curve.sizes) - 2))
    expect(board.root.locator('.mlb-popover input[name="size"]')).to_have_value(str(point.size))
    with told(explorer, "tracing", lambda: ended(explorer)), answered(board):
        board.keyboard.press("Enter")
    board.blank.poll()
    assert explorer.program.dims["batch"] == point.size
    expect(board.chip("batch")).to_contain_text(str(point.size))
    expect(slider(board)).to_be_focused()


def test_a_curve_can_be_stopped_and_says_how_far_it_is(
    open_board, explorer: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, planned = threading.Event(), prices.make_plan

    def held(program, mesh, *others):
        assert mesh.axes["model"] == 2 or go_on.wait(60)
        return planned(program, mesh, *others)

    monkeypatch.setattr(prices, "make_plan", held)
    board = open_board()
    with told(explorer, "curve", lambda: points(explorer) == 1):
        board.root.locator('[data-axis-row="model"]').click()
        expect(slider(board)).to_have_attribute("aria-valuemax", "4")
    board.blank.poll()
    expect(board.root.locator(".mlb-sizes-work")).to_contain_text("1 of 5 sizes worked out")
    board.root.locator('.mlb-sizes-work [data-op="cancel_curve"]').click()
    expect(board.root.locator(".mlb-sizes-work")).not_to_contain_text("worked out")
    go_on.set()
    curve = explorer.curves.last
    assert curve is not None
    assert (curve.phase, len(curve.points)) == ("cancelled", 1)


def test_without_a_machine_the_curve_is_of_bytes(open_board, explorer: Explorer) -> None:
    board = open_board(explore("digits", ml.mesh(data=2, model=2), "batch:data"))
    bare = board.blank.explorer
    open_size(board, bare, "batch", board.chip("batch"), "F2")
    rows = slider(board).locator("[data-row]")
    assert [row.get_attribute("data-row") for row in rows.all()] == ["sends", "arguments"]
