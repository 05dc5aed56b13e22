"""While Python is silent nothing closes, and nobody loses the place; what it did not answer is asked again."""

from __future__ import annotations

import time
import types

import pytest
from playwright.sync_api import Locator, expect

import meshlab as ml
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.notebook import protocol
from tests.browser.blank import BlankBoard
from tests.widgets import small

HEARD = "Python answers again."


@pytest.fixture
def explorer() -> Explorer:
    return explore(small.program(), small.mesh(), run=small.training())


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch):
    """Lets so much time go by for Python that it carries out nothing of what it has not read."""

    def pass_by() -> None:
        clock = time.time
        monkeypatch.setattr(protocol, "time", types.SimpleNamespace(time=lambda: clock() + 2.1))

    return pass_by


def banner(board: BlankBoard) -> Locator:
    return board.root.locator(".mlb-banner")


def popover(board: BlankBoard) -> Locator:
    return board.root.locator(".mlb-popover")


def hush(board: BlankBoard) -> None:
    """Lets Python fall silent; the clock of the page stands still until the board has to notice."""
    board.blank.view.clock.install()
    board.blank.silent = True


def notice(board: BlankBoard) -> None:
    board.blank.view.clock.fast_forward(2000)
    expect(banner(board)).to_be_visible()


def ask_in_vain(board: BlankBoard) -> None:
    """Asks for something by a script, which moves no focus, until the board notices the silence."""
    hush(board)
    board.button("reset").evaluate("reset => reset.click()")
    notice(board)


def hear(board: BlankBoard) -> None:
    """Lets Python read what it was sent, and the board notice that it answers."""
    board.blank.catch_up()
    expect(banner(board)).to_be_hidden()


def test_a_size_is_asked_for_again_in_a_popover_that_stays(open_board, late) -> None:
    """A busy cell closed the popover for good, with what was typed in it, and the curve never came."""
    shown = explore(small.program(), ml.mesh("v5e", data=2, model=2), "batch:data")
    curve = shown.curve("data")
    board = open_board(shown)
    hush(board)
    board.root.locator('[data-axis-row="data"]').press("Enter")
    size = popover(board).locator('input[name="size"]')
    expect(size).to_be_focused()
    board.keyboard.type("8")
    typed = size.input_value()
    notice(board)
    expect(popover(board)).to_be_visible()
    for control in popover(board).locator("input, select, button").all():
        expect(control).to_have_attribute("inert", "")
    expect(popover(board)).to_be_focused()
    slider = board.root.get_by_role("slider", name="size of")
    expect(slider).to_have_attribute("aria-valuemax", "0")
    late()
    hear(board)
    expect(slider).to_have_attribute("aria-valuemax", str(len(curve.sizes) - 1))
    expect(size).to_be_focused()
    assert size.input_value() == typed


def test_models_are_asked_for_again_in_a_popover_that_stays(open_board, late) -> None:
    board = open_board(explore("digits", ml.mesh(data=2, model=2)))
    hush(board)
    board.root.locator('[data-op="models"]').press("Enter")
    dialog = board.root.get_by_role("dialog", name="Open a model")
    expect(dialog.get_by_label("find a model")).to_be_focused()
    notice(board)
    late()
    assert board.blank.explorer.listing.rows is None
    hear(board)
    expect(dialog.get_by_label("find a model")).to_be_focused()
    assert board.blank.explorer.listing.rows is not None


def test_forms_and_files_are_asked_for_again_in_a_popover_that_stays(open_board) -> None:
    board = open_board()
    hush(board)
    board.button("export").press("Enter")
    board.button("reset").evaluate("reset => reset.click()")
    notice(board)
    dialog = board.root.get_by_role("dialog", name="Export")
    expect(dialog.locator(".mlb-form-lost")).to_have_text("Python does not answer.")
    expect(dialog.locator(".mlb-linked .mlb-error")).to_have_text("Python does not answer.")
    expect(dialog.locator(".mlb-files .mlb-error")).to_have_text("Python does not answer.")
    hear(board)
    expect(dialog.locator(".mlb-form-lost")).to_have_text("✓ Says all of the layout.")
    expect(dialog.locator(".mlb-linked .mlb-error")).to_be_empty()
    expect(dialog.locator(".mlb-link")).not_to_have_value("")
    expect(dialog.locator("[data-export]")).not_to_have_count(0)
    expect(dialog.locator(".mlb-files .mlb-error")).to_have_count(0)


@pytest.mark.parametrize("of", [".mlb-chip", '[data-preset="data_parallel"]', '[data-axis-row="data"]', "run"])
def test_the_focus_comes_back_and_it_is_said(open_board, of: str) -> None:
    board = open_board()
    place = board.root.locator(of).first
    around = board.root
    if of == "run":
        board.show("run")
        place, around = board.button("run"), board.panel("run")
    place.focus()
    heard = board.root.get_by_role("status").filter(has_text=HEARD)
    ask_in_vain(board)
    expect(banner(board)).to_have_attribute("role", "alert")
    expect(around).to_be_focused()
    expect(heard).to_have_count(0)
    hear(board)
    expect(place).to_be_focused()
    expect(heard).to_have_count(1)


def test_a_reader_who_went_elsewhere_stays_there(open_board) -> None:
    board = open_board()
    board.chip("hidden").focus()
    ask_in_vain(board)
    board.root.get_by_role("tab").first.focus()
    hear(board)
    expect(board.root.get_by_role("tab").first).to_be_focused()


def test_a_popover_that_is_closed_meanwhile_gives_the_focus_to_what_opened_it(open_board) -> None:
    board = open_board()
    head = board.root.locator('[data-axis-row="data"]')
    for way in ("Escape", "Try again"):
        head.press("Enter")
        expect(popover(board)).to_be_visible()
        ask_in_vain(board)
        expect(popover(board)).to_be_focused()
        if way == "Escape":
            board.keyboard.press("Escape")
            expect(board.root).to_be_focused()
            hear(board)
        else:
            board.blank.silent = False
            board.root.get_by_role("button", name="Try again").click()
            expect(banner(board)).to_be_hidden()
        expect(popover(board)).to_be_hidden()
        expect(head).to_be_focused()


def test_what_a_panel_reads_is_asked_for_again(open_board) -> None:
    """What was shown while Python was silent stayed without its figure until the layout changed."""
    board = open_board(explore(small.program(), small.mesh(), "batch:data"))
    ask_in_vain(board)
    board.show("traffic")
    matrix = board.panel("traffic").locator(".mlb-matrix")
    expect(matrix).to_have_count(0)
    hear(board)
    expect(matrix).to_be_visible()
