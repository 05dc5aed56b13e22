"""Every gesture is said in words, on the line that screen readers read out; none leaves there what was before."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, expect

import meshlab as ml
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from tests.browser.blank import BlankBoard
from tests.browser.board import TRAY
from tests.widgets import small

Gesture = Callable[[BlankBoard], object]


def key(dim: str, *keys: str) -> Gesture:
    """Presses keys on a chip."""

    def press(board: BlankBoard) -> None:
        board.chip(dim).focus()
        for each in keys:
            board.keyboard.press(each)

    return press


def edit(target: Callable[[BlankBoard], Locator], operation: str, **values: str) -> Gesture:
    """Fills in a line of a popover, and sends it."""

    def fill(board: BlankBoard) -> None:
        target(board).click(button="right") if operation in ("resize_dim", "rename_dim") else target(board).click()
        form = board.root.locator(f'[data-edit="{operation}"]')
        for name, value in values.items():
            field = form.locator(f'[name="{name}"]')
            field.select_option(value) if field.evaluate("e => e.tagName") == "SELECT" else field.fill(value)
        form.get_by_role("button").click()

    return fill


def axis(board: BlankBoard) -> Locator:
    return board.root.locator("button.mlb-axis", has_text="model")


def press(selector: str, tab: str = "") -> Gesture:
    def click(board: BlankBoard) -> None:
        if tab:
            board.show(tab)
        board.root.locator(selector).first.click()

    return click


def undone(board: BlankBoard) -> None:
    key("hidden", "Delete")(board)
    expect(board.zone(TRAY).locator('[data-dim="hidden"]')).to_have_count(1)
    board.button("undo").click()


def redone(board: BlankBoard) -> None:
    undone(board)
    expect(board.zone("model").locator('[data-dim="hidden"]')).to_have_count(1)
    board.button("redo").click()


def cancelled(board: BlankBoard) -> None:
    board.show("run").locator('[data-op="run"]').click()
    expect(board.button("cancel")).to_be_enabled()
    board.button("cancel").click()


def remedied(board: BlankBoard) -> None:
    press('tr[data-axes="model"] b', "traffic")(board)
    board.panel("traffic").locator(".mlb-remedy-button").first.click()


def baseline(board: BlankBoard) -> None:
    key("hidden", "Delete")(board)
    expect(board.zone(TRAY).locator('[data-dim="hidden"]')).to_have_count(1)
    board.show("compare").locator("input[type=radio]:not(:checked)").first.check()


def padded(board: BlankBoard) -> None:
    board.root.get_by_role("button", name="More", exact=True).click()
    board.root.get_by_label("Pad dims").check()


def added(board: BlankBoard) -> None:
    board.chip("hidden").click()
    board.root.get_by_label("add the axis to those it has").check()


LAYOUT = r"s a step.*, .* held.*, .* sent.*; "
GESTURES: dict[str, tuple[Gesture, str]] = {
    "lift": (key("hidden", "Enter"), r"hidden \(16\) picked up\. Choose by arrow keys"),
    "aim": (key("classes", "Enter", "ArrowRight"), r"data.*: classes 5 of 10 on each device"),
    "let go": (key("hidden", "Enter", "Escape"), r"hidden is where it was\."),
    "drop": (key("classes", "Enter", "ArrowRight", "Enter"), LAYOUT),
    "take off": (key("hidden", "Delete"), f"{LAYOUT}DP over data$"),
    "refuse": (lambda board: board.drag("classes", "model"), r"Refused: classes has size 10"),
    "undo": (undone, f"{LAYOUT}DP over data \\+ TP over model$"),
    "redo": (redone, f"{LAYOUT}DP over data$"),
    "reset": (press('[data-op="reset"]'), r"Nothing changes: it is so already\."),
    "preset": (press('[data-preset="fsdp"]'), LAYOUT),
    "remedy": (remedied, LAYOUT),
    "rename an axis": (edit(axis, "rename_axis", name="tensor"), f"{LAYOUT}DP over data \\+ TP over tensor$"),
    "split an axis": (
        edit(axis, "split_axis", outer="2", name="outer"),
        f"{LAYOUT}DP over data \\+ TP over outer\\+model$",
    ),
    "merge axes": (edit(axis, "merge_axes", other="data"), r"data.*model.* cannot be merged"),
    "resize an axis": (edit(axis, "resize_axis", size="2"), r"The mesh is now on v5e:2x2\."),
    "rename a dim": (edit(lambda board: board.chip("rows"), "rename_dim", name="lines"), r"rows is called lines now\."),
    "resize a dim": (edit(lambda board: board.chip("batch"), "resize_dim", size="16"), r"traced again"),
    "pad": (padded, LAYOUT),
    "add": (added, r"A drop adds its mesh axis to those of hidden\."),
    "pin": (key("hidden", "p"), r"hidden is pinned to model\."),
    "machine": (lambda board: board.root.get_by_label("machine").select_option(index=3), LAYOUT),
    "select a tensor": (
        lambda board: board.root.get_by_label("tensor", exact=True).select_option("images"),
        r"Shown: images\.",
    ),
    "select a device": (press('[data-device="3"]'), r"Device 3 \(data 0, model 3\) holds hidden 12 to 15"),
    "select a collective": (press('tr[data-axes="model"] b', "traffic"), r"Selected: all-reduce over model of logits"),
    "select a moment": (press('[data-lane="model"] .mlb-segment'), r"all-reduce over model: logits"),
    "release": (lambda board: (press('[data-device="3"]')(board), board.keyboard.press("Escape")), r"Nothing is selec"),
    "baseline": (baseline, r"All layouts are compared with .+\."),
    "run": (press('[data-op="run"]', "run"), r"The run begins\.|The run has ended"),
    "cancel": (cancelled, r"The run stops after its present step\.|The run was cancelled\."),
    "auto": (press('[data-auto="traffic"]', "compare"), r"The search (has begun|for the least traffic has ended)"),
}


@pytest.fixture
def explorer() -> Explorer:
    mesh = ml.mesh("v5e", data=2, model=4)
    shown = explore(small.program(), mesh, "batch:data hidden:model", run=small.training(steps=400))
    shown.view()
    return shown


@pytest.mark.parametrize("gesture", GESTURES)
def test_it_is_said(open_board, gesture: str) -> None:
    act, words = GESTURES[gesture]
    board = open_board()
    expect(board.status).to_have_attribute("aria-live", "polite")
    act(board)
    expect(board.status).to_have_text(re.compile(words))
    board.blank.explorer.cancel_auto()
    board.blank.explorer.cancel()
