"""Devices after a run: any value of its last step, chosen and looked at, with the numbers of each device."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, expect

from meshlab.engine.inside.watch import Seen
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.state import looks
from tests.browser.blank import BlankBoard
from tests.browser.test_accessible import AXE, violations
from tests.widgets import small


@pytest.fixture
def explorer() -> Explorer:
    """The small net after three steps."""
    shown = explore(small.program(), small.mesh(), "batch:data hidden:model", run=small.training(steps=3))
    assert shown.run().wait(60).phase == "done"
    return shown


def ended(board: BlankBoard) -> Seen:
    """Waits until a look has ended, and lets the page know."""
    return board.ended(board.blank.explorer.looks).seen


def look(board: BlankBoard, name: str) -> Seen:
    """Chooses a value and presses Look."""
    board.root.locator(".mlb-step-values").select_option(name)
    board.button("look").click()
    expect(board.root.locator(f"text=compiled with {name} beside its results")).to_be_visible()
    seen = ended(board)
    expect(board.root.locator(".mlb-look-shown")).to_be_visible()
    return seen


def lines(board: BlankBoard) -> list[list[str]]:
    """The table of devices, cell by cell."""
    return board.root.locator(".mlb-look-rows tbody tr").evaluate_all(
        "all => all.map(row => [...row.children].map(cell => cell.textContent))"
    )


def number(text: str) -> float:
    return float(text.replace("−", "-"))


def choice(board: BlankBoard, what: str) -> Locator:
    return board.root.locator(f'.mlb-look-shown [data-choice="{what}"]')


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_value_of_the_step_is_shown_as_each_device_held_it(open_board, explorer: Explorer, theme: str) -> None:
    board: BlankBoard = open_board(theme=theme, width=1280, height=720)
    board.blank.shot(f"look-before-{theme}")
    seen = look(board, "hidden")["hidden"]
    head = board.root.locator(".mlb-look-shown")
    expect(head).to_contain_text("hidden at small.py:")
    expect(head).to_contain_text("in step 3 of run 1")
    expect(board.root.locator(".mlb-status")).to_contain_text("Devices shows hidden of run 1.")
    # The picture has the slices of the value, and the cells its numbers.
    expect(board.root.locator('.mlb-mesh [data-device="5"]')).to_have_attribute("data-slice", "5")
    expect(board.root.locator(".mlb-tensor .mlb-heat")).to_have_count(8)
    expect(board.root.locator(".mlb-tensor figcaption")).to_contain_text("✓ Read from 8 devices, each its own shard.")
    for device, (name, holds, *figures) in enumerate(lines(board)):
        shard = seen.shards[device]
        assert name == f"{device} data {device // 4}, model {device % 4}"
        assert holds.startswith(f"{'ABCDEFGH'[device]} batch ")
        bounds = shard.min(), shard.mean(dtype=np.float64), shard.max()
        assert [number(each) for each in figures] == pytest.approx(bounds, rel=6e-3)
    board.blank.shot(f"look-{theme}")
    # What was summed over `model` is a partial sum before its all-reduce.
    seen = look(board, "logits")["logits"]
    caption, notes = board.root.locator(".mlb-tensor figcaption"), board.root.locator(".mlb-look-note")
    expect(notes).to_contain_text("A partial sum over model: each device holds one of 4 addends.")
    assert [number(each[4]) for each in lines(board)] == pytest.approx([each.max() for each in seen.shards], rel=6e-3)
    choice(board, "addend").select_option(label="addend model 2")
    expect(notes).to_contain_text("Drawn is the addend of model 2.")
    choice(board, "addend").select_option(label="the sum of all")
    expect(notes).to_contain_text("Drawn is their sum, which no device holds.")
    board.blank.shot(f"look-partial-{theme}", full=True)
    choice(board, "form").select_option(index=1)
    expect(caption).to_contain_text("and replicas agree bit for bit.")
    expect(choice(board, "addend")).to_have_count(0)
    board.blank.shot(f"look-form-{theme}", full=True)
    if AXE.exists():
        board.blank.view.add_script_tag(path=AXE)
        assert not violations(board.blank.view)
    # Back to the tensor that is selected.
    board.button("close_look").click()
    expect(board.root.locator(".mlb-look-rows")).to_have_count(0)
    expect(board.root.locator(".mlb-tensor svg[role=img]")).to_be_visible()


def test_by_keyboard_and_another_tensor_goes_back(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board()
    values = board.root.locator(".mlb-step-values")
    values.focus()
    board.keyboard.press("End")
    expect(values).to_have_value("logits")
    expect(board.button("look")).to_be_enabled()
    board.keyboard.press("Tab")
    expect(board.button("look")).to_be_focused()
    board.keyboard.press("Enter")
    expect(board.button("cancel_look")).to_be_visible()
    ended(board)
    expect(board.root.locator(".mlb-look-rows")).to_be_visible()
    choice(board, "addend").focus()
    board.keyboard.press("End")
    expect(board.root.locator(".mlb-look-note")).to_contain_text("Drawn is their sum")
    expect(choice(board, "addend")).to_be_focused()
    tensors = board.root.locator(".mlb-tensors")
    tensors.focus()
    board.keyboard.press("ArrowDown")
    expect(tensors).to_have_value("params/w2")
    expect(board.root.locator(".mlb-look-rows")).to_have_count(0)
    assert explorer.selected == "params/w2"


def test_it_is_cancelled(open_board, explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    go, watch = threading.Event(), looks.watch

    def held(*args: Any) -> Any:
        assert go.wait(60)
        return watch(*args)

    monkeypatch.setattr(looks, "watch", held)
    board: BlankBoard = open_board()
    board.root.locator(".mlb-step-values").select_option("hidden")
    board.button("look").click()
    expect(board.root.get_by_role("progressbar", name="looking at hidden")).to_be_visible()
    board.button("cancel_look").click()
    expect(board.root.locator(".mlb-looking")).to_have_count(0)
    expect(board.root.locator(".mlb-status")).to_contain_text("Looking was cancelled.")
    expect(board.button("look")).to_be_enabled()
    go.set()
    look(board, "logits")


def test_why_it_cannot_be_shown_is_said(open_board, explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "MOST_BYTES", 100)
    board: BlankBoard = open_board()
    board.root.locator(".mlb-step-values").select_option("hidden")
    board.button("look").click()
    job = explorer.looks.last
    assert job is not None
    while not job.ended.wait(0.05):
        board.blank.poll()
    board.blank.poll()
    expect(board.root.locator(".mlb-looking[role=alert]")).to_contain_text("hidden would be 512 bytes")


def test_of_another_layout_it_says_so_and_another_run_clears_it(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board(height=720)
    look(board, "hidden")
    explorer.load("batch:model")
    board.blank.poll()
    expect(board.root.locator(".mlb-look-note")).to_contain_text("The board shows another layout by now")
    expect(board.root.locator(".mlb-look-shown")).to_contain_text("under batch:data hidden:model")
    board.blank.shot("look-stale")
    explorer.beside("batch:data hidden:model")
    board.blank.poll()
    expect(board.root.locator('[data-beside="mine"] .mlb-look-rows')).to_be_visible()
    expect(board.root.locator('[data-beside="other"] .mlb-look-rows')).to_have_count(0)
    explorer.beside("")
    explorer.run(1).wait(60)
    board.blank.poll()
    expect(board.root.locator(".mlb-look-rows")).to_have_count(0)
    expect(board.root.locator(".mlb-step-values")).to_have_accessible_name("value of the step of run 2")


def test_without_a_run_there_is_nothing_to_choose_and_nothing_is_asked_for(open_board) -> None:
    explorer = explore(small.program(), small.mesh(), "batch:data", run=small.training(steps=1))
    board: BlankBoard = open_board(explorer)
    expect(board.root.locator(".mlb-tensors")).to_be_visible()
    expect(board.root.locator(".mlb-step-values")).to_have_count(0)
    sent = board.blank.view.evaluate("window.sent")
    assert not [each for each in sent if each.get("what") in ("values", "looked")]
    explorer.run().wait(60)
    board.blank.poll()
    expect(board.root.locator(".mlb-step-values")).to_be_visible()
    # A tensor that is made inside of the step says where its numbers are to be had.
    look(board, "hidden")
