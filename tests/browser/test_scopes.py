"""Columns of scopes: opened from the corner, by mouse or keyboard; what is dropped there is a rule in that scope."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

import meshlab as ml
from meshlab.models import zoo
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from tests.browser.board import TRAY


@pytest.fixture
def explorer() -> Explorer:
    (model,) = (model for model in zoo.models() if model.name == "transformer_adamw")
    return explore(model.trace(), ml.mesh(data=2, model=4), "batch:data seq:model")


def heads(board) -> list[str]:
    return board.blank.view.locator(".mlb-column").evaluate_all("all => all.map(each => each.dataset.column)")


def test_a_scope_has_a_column_once_it_is_opened(open_board, explorer: Explorer) -> None:
    board = open_board()
    scopes = board.blank.view.locator(".mlb-scopes")
    assert "@core" not in heads(board)
    scopes.select_option("@core")
    assert heads(board)[-1] == "@core"
    expect(board.status).to_contain_text("@core has a column")
    expect(scopes.locator("option[value='@core']")).to_have_count(0)
    # What is computed there as everywhere stands there as such.
    expect(board.zone("model", "@core").locator("[data-inherited='seq']")).to_be_visible()
    with board.next_revision():
        board.drag("heads", "model", "@core", zone=TRAY)
    assert explorer.layout.to_dict() == {
        "batch": "data",
        "seq": "model",
        "@core": {"heads": "model", "seq": None},
    }
    expect(board.zone("model", "@core").locator("[data-inherited='seq']")).to_have_count(0)
    expect(board.blank.view.get_by_role("button", name="@core: seq unsharded × (remove this rule)")).to_be_visible()
    board.blank.shot("scopes")


def test_a_scope_is_opened_by_keyboard(open_board, explorer: Explorer) -> None:
    board = open_board()
    scopes = board.blank.view.locator(".mlb-scopes")
    scopes.focus()
    board.keyboard.press("ArrowDown")
    board.keyboard.press("Enter")
    expect(board.blank.view.locator(".mlb-column[data-column='@lookup']")).to_be_visible()


def test_a_column_with_rules_is_there_by_itself_and_stays_when_they_go(open_board, explorer: Explorer) -> None:
    assert explorer.place("ffn", "model", at="@ffn")
    board = open_board()
    assert heads(board)[-1] == "@ffn"
    assert explorer.undo()
    board.blank.view.evaluate("poll()")
    expect(board.blank.view.locator(".mlb-column[data-column='@ffn']")).to_have_count(0)


def test_a_refusal_among_the_compute_rules_offers_the_scope_that_takes_it(open_board, explorer: Explorer) -> None:
    assert explorer.place("heads", "data", at="@core")
    board = open_board()
    board.drag("heads", "model", zone=TRAY)
    expect(board.status).to_contain_text("cannot both be on model")
    offered = board.blank.view.get_by_role("button", name="@core")
    expect(offered.first).to_be_visible()
