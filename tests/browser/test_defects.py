"""Defects that people met on the board, each so that it cannot come back: D1, D5, D7, D9, D11 and D14 of their list."""

from __future__ import annotations

import dataclasses
import re
import threading

import pytest
from playwright.sync_api import expect

import meshlab as ml
from meshlab.opening.open_explorer import explore
from meshlab.training.feeding import Training
from meshlab.widgets.explorer import Explorer
from tests.browser.blank import BlankBoard
from tests.browser.board import TRAY
from tests.browser.test_room import CUT
from tests.widgets import small
from tests.widgets.gates import Gate


@pytest.fixture
def explorer() -> Explorer:
    return explore(small.program(), small.mesh(), run=small.training())


def silenced(board: BlankBoard) -> None:
    """Lets Python fall silent until the board has noticed it."""
    board.blank.view.clock.install()
    board.blank.silent = True
    board.drag("hidden", "model")
    board.blank.view.clock.fast_forward(2000)
    expect(board.root.locator(".mlb-banner")).to_be_visible()


def test_the_status_line_tells_of_the_layout_that_is_there(open_board, explorer: Explorer) -> None:
    """D7: a script's change, and another view's, left the sentence of the layout before, with its tick."""
    first = open_board(boards=2)
    second = BlankBoard(first.blank, 1)
    with second.next_revision():
        first.drag("hidden", "model")
    for board in (first, second):
        expect(board.status).to_contain_text("480 B sent (+480 B); TP over model")
    explorer.place("batch", "data")
    first.blank.poll()
    for board in (first, second):
        expect(board.status).to_contain_text("; DP over data + TP over model")
    explorer.on("v5e")
    explorer.view()
    first.blank.poll()
    expect(first.status).to_contain_text("s a step")


def test_a_chip_that_is_not_in_a_compute_rule_is_not_called_whole(open_board) -> None:
    """D5: dims that are sharded where they are stored were listed as whole on every device."""
    board = open_board(explore(small.program(), small.mesh(), {"params/*": {"hidden": "model"}}))
    tray = board.zone(TRAY)
    expect(tray).to_have_attribute("aria-label", "dims without a compute rule")
    expect(board.chip("hidden", "model@params/*")).to_be_visible()
    # Nor is it said to be unsharded: it may be sharded where another dim that is computed with it is.
    expect(board.chip("hidden", TRAY)).to_have_attribute("aria-label", "hidden 16, without a compute rule")
    assert "whole" not in board.root.inner_text()


def test_what_a_silent_python_did_not_do_is_not_kept_in_a_menu(open_board, explorer: Explorer) -> None:
    """D9: the menu showed a machine that the board did not have."""
    board = open_board()
    machine = board.root.get_by_label("machine", exact=True)
    board.blank.view.clock.install()
    board.blank.silent = True
    machine.select_option("v5e:2x4")
    board.blank.view.clock.fast_forward(2000)
    expect(board.root.locator(".mlb-banner")).to_be_visible()
    expect(machine.locator("option:checked")).to_have_text("no machine")
    expect(machine).to_have_attribute("inert", "")
    board.blank.silent = False
    board.root.get_by_role("button", name="Try again").click()
    expect(board.root.locator(".mlb-banner")).to_be_hidden()
    with board.next_revision():
        machine.select_option("v5e:2x4")


def test_keys_ask_a_silent_python_for_nothing(open_board, explorer: Explorer) -> None:
    """D9: what looks disabled is so for the keyboard as well, wherever the focus is."""
    explorer.place("batch", "data")
    board = open_board()
    silenced(board)
    sent = board.blank.view.evaluate("sent.length")
    board.root.get_by_role("tab").first.focus()
    for key in ("Control+Z", "p", "Delete", "Enter", "F2"):
        board.keyboard.press(key)
    assert board.blank.view.evaluate("sent.length") == sent
    expect(board.root.locator(".mlb-popover")).to_be_hidden()


def test_a_run_of_which_nothing_more_is_heard_is_not_said_to_go_on(open_board) -> None:
    """D9: the kernel died in mid-run, nobody touched the board, and "running" stood there for ever."""
    board = open_board(explore(small.program(), small.mesh(), run=small.training(steps=1_000_000)))
    explorer = board.blank.explorer
    board.show("run")
    board.blank.view.clock.install()
    board.button("run").click()
    board.blank.poll()
    board.blank.silent = True
    board.blank.view.clock.fast_forward(5000)
    board.blank.view.clock.fast_forward(2000)
    expect(board.root.locator(".mlb-run-text")).to_contain_text("when Python was last heard")
    for button in ("run", "cancel"):
        expect(board.button(button)).to_be_disabled()
    board.blank.silent = False
    explorer.cancel()
    explorer.runs[0].wait(60)


def test_a_run_that_fails_says_why_and_the_layout_stays(open_board) -> None:
    def batches():
        yield from small.batches()
        raise ValueError("the disk is full")

    training: Training = dataclasses.replace(small.training(steps=9), batches=batches)
    shown = explore(small.program(), small.mesh(), "hidden:model", run=training)
    board = open_board(shown)
    board.show("run")
    board.button("run").click()
    expect(board.root.locator("[data-run='1']")).to_be_visible()
    shown.runs[0].wait(60)
    board.blank.poll()
    expect(board.root.locator(".mlb-run-text")).to_contain_text("✕")
    expect(board.root.locator(".mlb-run-text")).to_contain_text("the disk is full")
    expect(board.root.locator("[data-run='1']")).to_contain_text("failed")
    expect(board.button("run")).to_be_enabled()
    expect(board.button("cancel")).to_be_disabled()
    assert board.layout == "hidden:model"
    with board.next_revision():
        board.drag("batch", "data")


def test_a_refusal_is_said_to_its_source_line(open_board) -> None:
    """D14: an ellipsis cut it before the line of the program that it is about."""
    board = open_board(explore(small.program(), small.mesh(), "batch:data"))
    board.press("rows")
    board.move_to("data")
    expect(board.status).to_contain_text(re.compile(r"small\.py:\d+"))
    assert board.status.evaluate("line => getComputedStyle(line).textOverflow") == "clip"
    assert board.blank.view.evaluate(CUT) == []
    board.mouse.up()


@pytest.mark.parametrize("where", ["tray", "zone"])
def test_a_long_name_stays_in_its_place(open_board, where: str) -> None:
    """D11: a name of 141 characters ran out under the next card."""
    name = "dim_" + "of_a_very_long_name_" * 7
    long, other = ml.Dim(name[:141], 8), ml.Dim("other", 8)
    program = ml.trace(lambda x: ml.relu(x), ml.f32[long, other])
    board = open_board(explore(program, small.mesh(), {name[:141]: "model"} if where == "zone" else None))
    chip = board.chip(name[:141])
    assert chip.evaluate("""each => {
        const [inner, outer] = [each, each.closest(".mlb-zone")].map(e => e.getBoundingClientRect());
        return inner.left >= outer.left && inner.right <= outer.right;
    }""")
    assert board.blank.view.evaluate(CUT) == []


def test_undo_does_not_wait_for_costs(open_board, monkeypatch: pytest.MonkeyPatch) -> None:
    """D1: a known layout was waited for until the costs of another one were there, and Python was called silent."""
    shown = explore(small.program(), ml.mesh("v5e", data=2, model=4), "batch:data")
    shown.view()
    gate = Gate(monkeypatch, shown.costs)
    board = open_board(shown)
    try:
        with board.next_revision():
            board.drag("hidden", "model")
        assert gate.reached.wait(60)
        with board.next_revision():
            board.button("undo").click()
        assert board.layout == "batch:data"
        expect(board.root.locator(".mlb-banner")).to_be_hidden()
    finally:
        gate.open.set()


def test_a_run_that_fails_is_no_success(open_board) -> None:
    """B16: a failed run was said in green to have ended, without the line that raised."""

    go = threading.Event()

    def batches():
        go.wait(60)
        raise ValueError("boom")
        yield {}

    training = Training({"params": small.params()}, batches)
    explorer = explore(small.program(), small.mesh(), run=training)
    board = open_board(explorer)
    panel = board.show("run")
    board.root.locator('[data-op="run"]').click()
    expect(board.button("cancel")).to_be_enabled()
    go.set()
    explorer.runs[-1].wait(60)
    board.blank.poll()
    expect(board.status).to_contain_text("The run has failed. ✕ ValueError: boom (test_defects.py:")
    expect(board.status).to_have_attribute("data-mood", "refused")
    expect(panel.locator("progress")).to_have_attribute("data-phase", "failed")
    colour = "node => getComputedStyle(node).color"
    bad = "node => { node.style.color = 'var(--bad)'; return getComputedStyle(node).color; }"
    assert panel.locator(".mlb-run-text").evaluate(colour) == panel.locator(".mlb-verdict").evaluate(bad)


def test_a_chip_has_one_menu(open_board, explorer: Explorer) -> None:
    """B13: a right click opened the menu of JupyterLab below the board's."""
    board = open_board(explorer)
    board.blank.view.evaluate(
        "() => { window.menus = 0; document.addEventListener('contextmenu', () => { window.menus += 1; }); }"
    )
    board.zone(TRAY).locator('[data-dim="hidden"]').click(button="right")
    expect(board.root.get_by_role("button", name="Pin: unsharded in searches")).to_be_visible()
    assert board.blank.view.evaluate("window.menus") == 0
