"""Presets as toggles that combine, the name of what is on the board, and refusals that offer what fits as buttons."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

import meshlab as ml
from meshlab.models.zoo import models
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from tests.browser.blank import BlankBoard
from tests.browser.board import TRAY
from tests.widgets import small

MODELS = {model.name: model for model in models()}


@pytest.fixture
def explorer() -> Explorer:
    return explore(MODELS["transformer_adamw"].trace(), ml.mesh(data=2, model=2))


def preset(board: BlankBoard, name: str) -> Locator:
    return board.root.locator(f'[data-preset="{name}"]')


def lit(board: BlankBoard) -> Locator:
    return board.root.locator('.mlb-preset:not([aria-pressed="false"], .mlb-more-presets)')


def press(board: BlankBoard, name: str) -> None:
    """Presses a preset by keyboard."""
    preset(board, name).focus()
    with board.next_revision():
        board.keyboard.press("Enter")
    board.blank.poll()


def named(board: BlankBoard, name: str) -> None:
    shown = board.root.locator(".mlb-layout-name")
    expect(shown).to_have_text(name) if name else expect(shown).to_have_count(0)


def test_a_preset_says_that_it_comes_to_what_is_there(open_board, explorer: Explorer) -> None:
    """ZeRO-1 and ZeRO-2 had the same numbers, and nobody said why."""
    board = open_board()
    same = "Here it stores and sends the same as ZeRO-1 over data: each device keeps only its part"
    assert same not in (preset(board, "zero2").get_attribute("data-hint") or "")
    press(board, "zero1")
    expect(preset(board, "zero2")).to_have_attribute("data-hint", re.compile(same))
    assert "stores and sends the same" not in (preset(board, "fsdp").get_attribute("data-hint") or "")
    press(board, "zero2")
    expect(preset(board, "zero1")).to_have_attribute("data-hint", re.compile("the same as ZeRO-2 over data"))


def test_presets_combine_and_are_taken_away_by_keyboard(open_board, explorer: Explorer) -> None:
    board = open_board()
    press(board, "fsdp")
    named(board, "FSDP over data")
    press(board, "tensor_parallel")
    named(board, "FSDP over data + TP over model")
    expect(lit(board)).to_have_text(["FSDP", "TP"])
    expect(preset(board, "tensor_parallel")).to_be_focused()
    expect(board.status).to_contain_text("FSDP over data + TP over model")
    assert [each.name for each in explorer.tried] == ["start", "FSDP", "FSDP & TP"]
    # Another of its kind takes its place, and what is pressed again goes.
    press(board, "zero1")
    named(board, "ZeRO-1 over data + TP over model")
    press(board, "zero1")
    named(board, "TP over model")
    press(board, "tensor_parallel")
    named(board, "")
    expect(lit(board)).to_have_count(0)
    assert explorer.layout.to_dict() == {}


def test_what_is_made_by_hand_lights_its_presets(open_board, explorer: Explorer) -> None:
    """§3B: FSDP, ZeRO-1, DP + TP and TP + SP made by hand lit no preset."""
    board = open_board()
    with board.next_revision():
        board.drag("batch", "data")
    named(board, "DP over data")
    expect(lit(board)).to_have_text(["DP"])
    with board.next_revision():
        board.drag("embed", "data", at="params/*")
    board.blank.poll()
    named(board, "FSDP over data (the optimizer's state whole)")
    expect(lit(board)).to_have_text(["FSDP"])
    explorer.place("seq", "model", at="residual")
    for dim in ("heads", "ffn", "vocab"):
        explorer.place(dim, "model")
    board.blank.poll()
    expect(lit(board)).to_have_text(["FSDP", "TP+SP"])


def test_what_is_there_in_part_is_half_pressed(open_board) -> None:
    board = open_board(explore(MODELS["transformer_adamw"].trace(), ml.mesh(data=2, model=8)))
    press(board, "tensor_parallel")
    named(board, "TP over model (heads whole)")
    tensor = preset(board, "tensor_parallel")
    expect(tensor).to_have_attribute("aria-pressed", "mixed")
    expect(tensor).to_have_attribute("data-hint", re.compile(r"On the board in part: TP over model \(heads whole\)\."))
    mark = "button => getComputedStyle(button, '::before').content"
    assert tensor.evaluate(mark) == '"◐ "'
    press(board, "data_parallel")
    parallel = preset(board, "data_parallel")
    expect(parallel).to_have_attribute("aria-pressed", "true")
    assert parallel.evaluate(mark) == '"✓ "'
    press(board, "tensor_parallel")
    named(board, "DP over data")


def test_what_cannot_be_is_told_behind_a_button(open_board) -> None:
    """§3A: a greyed preset answered in Python, and never what it is."""
    board = open_board()
    more = board.root.locator(".mlb-more-presets")
    expect(more).to_have_text("3 more")
    more.focus()
    board.keyboard.press("Enter")
    told = board.root.get_by_role("dialog", name="Presets that do not fit here")
    expect(told.get_by_role("term")).to_have_text(["EP", "micro-batches", "PP"])
    experts = told.get_by_role("definition").first
    expect(experts).to_contain_text("Expert parallel: each device has a part of the experts")
    expect(experts).to_contain_text("Not here: No dim is called experts, expert.")
    expect(experts).to_contain_text("It needs a mixture of experts")
    board.keyboard.press("Escape")
    expect(more).to_be_focused()


def test_a_preset_asks_for_its_axis_where_none_has_its_name(open_board) -> None:
    explorer = explore(MODELS["transformer_adamw"].trace(), ml.mesh(x=2, y=2))
    board = open_board(explorer)
    expect(preset(board, "fsdp")).to_have_attribute("aria-haspopup", "dialog")
    preset(board, "fsdp").click()
    with board.next_revision():
        board.root.get_by_role("dialog").get_by_role("button", name="over y").click()
    board.blank.poll()
    named(board, "FSDP over y")
    expect(preset(board, "fsdp")).to_be_focused()
    with board.next_revision():  # and is taken away without asking
        preset(board, "fsdp").click()
    named(board, "")


def test_a_preset_that_does_not_go_with_the_others_is_offered_alone(open_board, explorer: Explorer) -> None:
    board = open_board()
    press(board, "tensor_parallel")
    with board.next_answer():
        preset(board, "context_parallel").click()
    expect(board.status).to_contain_text("CP does not go with TP: ")
    expect(board.status).to_contain_text("cannot both be on model.")
    with board.next_revision():
        board.status.get_by_role("button", name="CP alone").click()
    assert explorer.name == "CP over model"


def test_a_size_that_does_not_divide_is_told_in_short_with_those_that_do(open_board, explorer: Explorer) -> None:
    """B8: 14 problems over 25 lines, among them of a scalar's dims; the sizes that fit were not those of the axis."""
    board = open_board()
    press(board, "fsdp")
    board.root.locator('[data-axis-row="data"]').click()
    dialog = board.root.get_by_role("dialog", name="Mesh axis data")
    resize = dialog.locator('[data-edit="resize_axis"]')
    with board.next_answer():
        resize.locator("input").fill("7")
        board.keyboard.press("Enter")
    alert = dialog.get_by_role("alert")
    expect(alert).to_contain_text("7 does not divide batch 8, embed 16, vocab 32, ffn 32.", use_inner_text=True)
    expect(alert).to_contain_text("Sizes of data that do: 1, 2, 4, 8. Or pad the dims.")
    expect(alert.get_by_role("button")).to_have_text(["data 1", "data 4", "data 8", "Pad, with data 7"])
    assert len(alert.inner_text()) < 200
    # What is typed next is not what was refused.
    resize.locator("input").fill("-3")
    expect(dialog.locator(".mlb-error")).to_be_empty()
    with board.next_answer():
        resize.locator("input").fill("7")
        board.keyboard.press("Enter")
    with board.next_revision():
        alert.get_by_role("button", name="data 4").click()
    assert dict(explorer.mesh.axes) == {"data": 4, "model": 2}
    expect(dialog).to_be_hidden()


def test_an_axis_is_resized_with_padding_by_a_button(open_board, explorer: Explorer) -> None:
    board = open_board()
    press(board, "data_parallel")
    board.root.locator('[data-axis-row="data"]').click()
    dialog = board.root.get_by_role("dialog", name="Mesh axis data")
    with board.next_answer():
        dialog.locator('[data-edit="resize_axis"] input').fill("3")
        board.keyboard.press("Enter")
    with board.next_revision():
        dialog.get_by_role("button", name="Pad, with data 3").click()
    assert explorer.document.pad
    assert dict(explorer.mesh.axes) == {"data": 3, "model": 2}


def test_a_refused_drop_names_padding(open_board) -> None:
    """B33: "Sizes that fit: 8 or 12" did not mention that dims can be padded."""
    board = open_board(explore(small.program(), ml.mesh(data=3, model=2)))
    chip, zone = board.chip("batch", TRAY).bounding_box(), board.zone("data").bounding_box()
    assert chip
    assert zone
    board.mouse.move(chip["x"] + 9, chip["y"] + 9)
    board.mouse.down()
    board.mouse.move(zone["x"] + 30, zone["y"] + 20, steps=5)
    expect(board.status).to_contain_text("Sizes that fit: 6 or 9; or pad it.")
    board.keyboard.press("Escape")


def test_memory_says_what_a_machine_would_add(open_board, explorer: Explorer) -> None:
    """B6: without a machine there were arguments and outputs alone, and no word of what is missing."""
    board = open_board()
    memory = board.show("memory")
    expect(memory).to_contain_text("Choose a machine to see activations, gradients and the peak.")
    memory.get_by_role("button", name="Choose a machine").click()
    expect(board.root.get_by_label("machine").first).to_be_focused()
    with board.next_revision():
        board.root.get_by_label("machine").first.select_option("v5e:2x2")
    explorer.view()  # which waits for the costs
    board.blank.poll()
    expect(memory).not_to_contain_text("Choose a machine")
    expect(memory).to_contain_text("activations")


def test_advice_says_that_it_is_being_looked_for(open_board, explorer: Explorer, monkeypatch) -> None:
    """B31: on large programs there was neither a hint nor a word."""
    board = open_board()
    line = board.root.locator(".mlb-advice")
    expect(line).to_have_text("Looking for a change …")
    explorer.adviser._looked(explorer.document, 12, 340)
    board.blank.poll()
    expect(line).to_have_text("Looking for a change that helps: 12 of 340 …")
    explorer.documents.slow = True
    explorer.adviser._looking = None
    board.blank.poll()
    expect(line).to_contain_text("Advice is off for a program this large")
    line.get_by_role("button", name="Look for one").click()
    assert board.blank.view.evaluate("window.sent.at(-1).kind") == "advise"
