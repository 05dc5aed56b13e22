"""Rules at places on the board: FSDP by mouse and by keyboard, rules that move, and what a refusal offers instead."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

import meshlab as ml
from meshlab.models import zoo
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from tests.browser.board import TRAY, name
from tests.widgets import small

FSDP = {"batch": "data", "params/*": {"embed": "data"}, "opt_state/*": {"embed": "data"}}
STORED = {"params/*": {"embed": "data"}}


@pytest.fixture(scope="module")
def program() -> ml.Program:
    return next(model for model in zoo.models() if model.name == "transformer_adamw").trace()


@pytest.fixture
def explorer(program: ml.Program) -> Explorer:
    return explore(program, ml.mesh(data=4, model=2))


@pytest.mark.parametrize("gesture", ["drag", "carry"])
def test_fsdp_from_nothing_sharded(open_board, explorer: Explorer, gesture: str) -> None:
    board = open_board()
    move = getattr(board, gesture)
    for dim, at in (("batch", ""), ("embed", "params/*"), ("embed", "opt_state/*")):
        with board.next_revision():
            move(dim, "data", at, zone=TRAY)
        expect(board.zone("data", at).locator(f'[data-dim="{dim}"]')).to_be_visible()
        if gesture == "carry":
            expect(board.chip(dim, name("data", at))).to_be_focused()
    assert explorer.layout.to_dict() == FSDP
    # What is only stored sharded is not sharded where it is computed: its chip stays in the tray as well.
    expect(board.chip("embed", TRAY)).to_be_visible()
    assert {kind for kind, _ in board.collectives} >= {"all-gather", "reduce-scatter"}
    board.blank.shot(f"fsdp-{gesture}", full=True)


def test_the_column_of_gradients_shows_how_sums_leave_them(open_board, explorer: Explorer) -> None:
    explorer.load(FSDP)
    board = open_board()
    follows = board.zone("data", "grads/*").locator("[data-inherited]")
    expect(follows).to_have_text("embed")
    expect(follows).to_have_attribute(
        "title", re.compile("embed on data: no rule is here, but each device keeps its part")
    )
    expect(follows).to_have_accessible_name("embed, follows")
    with board.next_revision():
        board.drag("embed", "data", "grads/*", zone=TRAY)
    expect(follows).to_have_count(0)
    expect(board.chip("embed", name("data", "grads/*"))).to_be_visible()


def test_columns_show_what_is_stored_there_as_it_is_computed(open_board, explorer: Explorer) -> None:
    explorer.load({"ffn": "model", "batch": "data", "params/*": {"embed": "data"}})
    board = open_board()
    params, state = (board.zone("model", at).locator("[data-inherited]") for at in ("params/*", "opt_state/*"))
    expect(params).to_have_text("ffn")
    expect(state).to_have_text("ffn")
    expect(params).to_have_attribute("title", "ffn on model: inherited from the compute rules.")
    # No parameter has the batch; the dim that has a rule here says what a device has of it.
    assert board.zone("data", "params/*").locator("[data-inherited]").count() == 0
    sizes = explorer.program.dims["embed"]
    expect(board.chip("embed", name("data", "params/*")).locator(".mlb-chip-size")).to_have_text(f"→ {sizes // 4}")
    expect(board.root.locator(".mlb-corner .mlb-inherited")).to_have_text("inherited")
    board.blank.shot("inherited", full=True)
    # A rule of its own takes its place.
    with board.next_revision():
        explorer.load({"ffn": "model", "params/*": {"ffn": "data"}})
        board.blank.poll()
    expect(params).to_have_count(0)
    expect(state).to_have_text("ffn")


@pytest.mark.parametrize("gesture", ["drag", "carry"])
def test_a_rule_at_a_place_moves_to_another_column(open_board, explorer: Explorer, gesture: str) -> None:
    explorer.load(STORED)
    board = open_board()
    with board.next_revision():
        getattr(board, gesture)("embed", "model", "opt_state/*", zone="data@params/*")
    assert explorer.layout.to_dict() == {"opt_state/*": {"embed": "model"}}
    with board.next_revision():
        getattr(board, gesture)("embed", "data", zone="model@opt_state/*")
    assert explorer.layout.to_dict() == {"embed": "data"}
    with board.next_revision():
        board.button("undo").click()
    assert explorer.layout.to_dict() == {"opt_state/*": {"embed": "model"}}


@pytest.mark.parametrize("by", ["mouse", "keyboard"])
def test_a_rule_at_a_place_is_removed(open_board, explorer: Explorer, by: str) -> None:
    explorer.load(FSDP)
    board = open_board()
    with board.next_revision():
        if by == "mouse":
            board.drag("embed", TRAY, zone="data@params/*")
        else:
            board.chip("embed", "data@params/*").press("Delete")
    assert explorer.layout.to_dict() == {"batch": "data", "opt_state/*": {"embed": "data"}}
    expect(board.zone("data", "params/*").locator(".mlb-chip")).to_have_count(0)


def test_a_rule_that_leaves_a_dim_unsharded_is_shown_and_removed(open_board, explorer: Explorer) -> None:
    explorer.load({"embed": "model", "params/*": {"embed": None}})
    board = open_board()
    with board.next_revision():
        board.root.get_by_role("button", name="params/*: embed unsharded × (remove this rule)").click()
    assert explorer.layout.to_dict() == {"embed": "model"}


def test_rules_at_some_places_of_a_column_are_listed_at_its_head(open_board, explorer: Explorer) -> None:
    explorer.load({"batch": "data", "params/embedding": {"vocab": "data"}})
    board = open_board()
    more = board.root.get_by_label("1 more rule for params")
    expect(more).to_have_text("+1")
    more.press("Enter")
    board.blank.shot("within", full=True)
    with board.next_revision():
        board.root.get_by_role("button", name="params/embedding: vocab → data × (remove this rule)").click()
    assert explorer.layout.to_dict() == {"batch": "data"}


def test_an_axis_is_added_at_a_place_with_shift(open_board, explorer: Explorer) -> None:
    explorer.load(STORED)
    board = open_board()
    board.press("embed", "data@params/*")
    board.keyboard.down("Shift")
    board.move_to("model", "params/*")
    with board.next_revision():
        board.mouse.up()
    board.keyboard.up("Shift")
    assert explorer.layout.to_dict() == {"params/*": {"embed": ["data", "model"]}}
    local = explorer.program.dims["embed"] // 8
    assert board.chip("embed", "model@params/*").inner_text().split() == ["embed", "→", str(local), "2", "of", "2"]


def test_a_refusal_offers_the_columns_that_take_the_dim(open_board, explorer: Explorer) -> None:
    explorer.load("batch:data")
    board = open_board()
    board.press("embed")
    board.move_to("data")
    expect(board.status).to_contain_text("batch and embed cannot both be on data")
    board.mouse.up()
    expect(board.status).to_contain_text("Refused: batch and embed cannot both be on data")
    assert explorer.revision == 1
    offers = board.status.get_by_role("button")
    expect(offers.first).to_have_text("embed on data, for params")
    expect(offers).to_have_text([f"embed on data, for {label}" for label in ("params", "grads", "opt_state")])
    board.blank.shot("offers", full=True)
    with board.next_revision():
        offers.first.click()
    assert explorer.layout.to_dict() == {"batch": "data"} | STORED


def test_offers_are_reached_by_keyboard(open_board, explorer: Explorer) -> None:
    explorer.load("batch:data")
    board = open_board()
    board.chip("embed").click()
    board.zone("data").click(position={"x": 30, "y": 18})
    offer = board.status.get_by_role("button").first
    offer.focus()
    with board.next_revision():
        board.keyboard.press("Enter")
    assert explorer.layout.to_dict() == {"batch": "data"} | STORED


def test_gradients_have_a_column_in_a_step_without_a_tag(open_board) -> None:
    board = open_board(explore(small.program(), small.mesh()))
    expect(board.zone("data", "grads/*")).to_have_count(1)
