"""Machines on the board: chosen with mouse and keyboard, the time that follows, what does not fit, and undo."""

from __future__ import annotations

import dataclasses

import pytest
from playwright.sync_api import Locator, expect

import meshlab as ml
from meshlab.cost.machines.units import seconds_text
from meshlab.widgets.explorer import Explorer, explore
from meshlab.widgets.state import costing
from meshlab.widgets.views.format import count_bytes
from tests.browser.blank import BlankBoard
from tests.browser.test_board import AXE, status, violations
from tests.widgets import small
from tests.widgets.gates import Gate, costs_of
from tests.widgets.state.test_machines import own


@pytest.fixture
def explorer() -> Explorer:
    return explore(small.program(), small.mesh(), "hidden:model")


def choice(board: BlankBoard, label: str) -> Locator:
    return board.root.get_by_label(label, exact=True)


def card(board: BlankBoard, name: str) -> Locator:
    return board.root.locator(f".mlb-{name}")


def test_a_machine_is_chosen_and_its_time_is_shown(open_board, explorer: Explorer) -> None:
    board = open_board()
    expect(card(board, "time")).to_be_hidden()
    with board.next_revision():
        choice(board, "machine").select_option(label="Google TPU v5e · 2x4")
    assert explorer.document.to_dict()["machine"] == "v5e:2x4"
    estimate = seconds_text(explorer.time.estimate)
    expect(card(board, "time")).to_contain_text(estimate)
    expect(board.root.locator(".mlb-totals")).to_contain_text(f"predicted step{estimate}")
    expect(card(board, "time").locator("[data-limit]")).to_have_text(explorer.view()["time"]["limit"]["text"])
    expect(card(board, "time").locator("[data-part='model']")).to_contain_text("recalled, not verified")
    expect(status(board)).to_contain_text(f"A step takes {estimate} on Google TPU v5e, 2x4.")
    chips = card(board, "machine").locator("svg .mlb-draw-chip")
    expect(chips).to_have_count(8)
    with board.next_revision():
        choice(board, "machine").select_option(label="NVIDIA H100 80 GB SXM · 1x8")
    assert seconds_text(explorer.time.estimate) != estimate
    expect(card(board, "time")).to_contain_text(seconds_text(explorer.time.estimate))
    expect(board.root.locator(".mlb-totals")).to_contain_text("▲ +")
    for _ in range(2):
        with board.next_revision():
            board.button("undo").click()
    expect(card(board, "time")).to_be_hidden()
    expect(chips).to_have_count(0)
    assert board.layout == "hidden:model"


def test_what_a_drop_would_take_is_told_before_it(open_board, explorer: Explorer) -> None:
    explorer.on("cpu")
    board = open_board()
    board.press("batch")
    board.move_to("data")
    expect(status(board)).to_contain_text("; a step would take ")
    expect(status(board)).to_contain_text("; peak memory would be ")
    taken = status(board).inner_text()
    with board.next_revision():
        board.mouse.up()
    assert f"a step would take {seconds_text(explorer.time.estimate)} (" in taken
    expect(board.root.locator(".mlb-step-value")).to_have_text(seconds_text(explorer.time.estimate))


def test_the_last_costs_stay_until_the_new_ones_are_there(
    open_board, explorer: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    explorer.on("cpu")
    board = open_board()
    before = board.root.locator(".mlb-step-value").inner_text()
    monkeypatch.setattr(costing, "PREVIEW", 0.0)  # a drag that rests asks for a price
    gate, there = Gate(monkeypatch, explorer.costing), costs_of(explorer)
    with board.next_revision():
        board.drag("batch", "data")
    expect(board.root).to_have_attribute("data-pending", "")
    expect(board.root.locator(".mlb-step-value")).to_have_text(before)
    expect(status(board)).to_contain_text("Costs are being worked out …")
    gate.open.set()
    assert there.wait(60)
    board.blank.poll()
    expect(board.root).not_to_have_attribute("data-pending", "")
    expect(board.root.locator(".mlb-step-value")).to_have_text(seconds_text(explorer.time.estimate))
    expect(status(board)).to_contain_text(
        f"A step takes {seconds_text(explorer.time.estimate)} on simulated CPU devices"
    )


def test_what_does_not_fit_is_said(open_board, explorer: Explorer) -> None:
    explorer.known(dataclasses.replace(own(), memory=ml.Figure(5000.0)))
    explorer.load("")
    board = open_board()
    with board.next_revision():
        choice(board, "machine").select_option(label="mine · 2x4")
    memory = card(board, "memory")
    expect(memory).to_contain_text(f"✕ Does not fit: peak memory is {count_bytes(explorer.plan.memory.peak_bytes)}, ")
    expect(board.root.locator(".mlb-totals")).to_contain_text("✕ predicted peak, does not fit")
    expect(memory.locator("[data-role='parameters']")).to_be_visible()
    board.blank.shot("does-not-fit", full=True)
    with board.next_revision():
        board.drag("hidden", "model")
    expect(memory).to_contain_text("✓ Fits: ")
    expect(board.root.locator(".mlb-totals")).to_contain_text("predicted peak, fits")
    with board.next_revision():
        board.button("undo").click()
    expect(memory).to_contain_text("✕ Does not fit")


def test_a_machine_that_takes_no_such_mesh_is_refused(open_board) -> None:
    shown = explore(small.program(), ml.mesh("h100:7x1", data=7))
    shown.on("h100")
    board = open_board(shown)
    before = shown.document
    choice(board, "machine").select_option(label="Google TPU v2 · does not fit")
    expect(status(board)).to_contain_text("No slice of Google TPU v2 has 7 devices")
    expect(status(board)).to_have_attribute("data-mood", "refused")
    expect(choice(board, "machine").locator("option:checked")).to_have_text("NVIDIA H100 80 GB SXM")
    assert shown.document == before


def test_slices_wishes_and_assumptions_by_keyboard(open_board, explorer: Explorer) -> None:
    explorer.on("v5e:2x4")
    board = open_board()
    choice(board, "placement of data").focus()
    with board.next_revision():
        board.keyboard.press("ArrowDown")
    expect(choice(board, "placement of data")).to_be_focused()
    assert explorer.document.to_dict()["along"] == {"data": 0}
    with board.next_revision():
        board.keyboard.press("ArrowDown")
    assert explorer.document.to_dict()["along"] == {"data": 1}
    expect(board.root.locator("[data-placement='data']")).to_contain_text("2 along axis 1, a line")
    with board.next_revision():
        choice(board, "slice").select_option(label="1x8")
    assert explorer.document.to_dict()["machine"] == "v5e:1x8"
    choice(board, "attention").focus()
    with board.next_revision():
        board.keyboard.press("ArrowDown")
    choice(board, "prefetch weights").focus()
    with board.next_revision():
        board.keyboard.press("Space")
    expect(choice(board, "prefetch weights")).to_be_focused()
    assert explorer.document.to_dict()["options"] == {"attention": "flash", "prefetch": True}
    card(board, "time").get_by_text("How far off is this?").press("Enter")
    expect(card(board, "time")).to_contain_text("v5e: published steps took 1.")
    expect(card(board, "time")).to_contain_text("docs/accuracy.md#published-steps-of-training")
    with board.next_revision():
        board.keyboard.press("Control+z")
    assert explorer.document.to_dict()["options"] == {"attention": "flash", "prefetch": False}
    # What was opened stays open, and is still where the keyboard is.
    expect(board.root.locator("[data-disclosure='accuracy:time']")).to_have_attribute("open", "")
    expect(board.root.locator("[data-disclosure='accuracy:time'] summary")).to_be_focused()


@pytest.mark.parametrize(
    ("machine", "name"),
    [
        ("cpu", "meshlab calibrate"),  # in a source
        ("v2", "v4"),  # among the machines for which errors were measured
        ("mine", "int8"),  # among the figures that it has, where another is missing
    ],
)
def test_names_in_texts_are_set_as_code(open_board, explorer: Explorer, machine: str, name: str) -> None:
    explorer.on(dataclasses.replace(own(), flops={"int8": ml.Figure(1e14)}) if machine == "mine" else machine)
    board = open_board()
    for disclosure in board.root.locator("summary").all():
        disclosure.click()
    expect(board.root.locator("code").get_by_text(name, exact=True).first).to_be_visible()
    expect(board.root).not_to_contain_text("`")


def test_it_is_said_where_errors_are_seconds_text(open_board, explorer: Explorer) -> None:
    explorer.on("v5e")
    board = open_board()
    card(board, "memory").get_by_text("How far off is this?").click()
    expect(card(board, "memory")).to_contain_text("More on a page of the project: docs/accuracy.md#memory")


def test_a_recalled_figure_is_not_said_to_come_from_its_source(open_board, explorer: Explorer) -> None:
    explorer.on("v2")
    board = open_board()
    board.root.get_by_text("The figures of").click()
    source = explorer.plan.mesh.on.hardware.memory.source
    figures = card(board, "machine").locator("[data-disclosure='figures']")
    expect(figures.locator("li", has_text="memory 17.2 GB")).to_have_text(
        f"memory 17.2 GB recalled, not looked up in its source:{source}"
    )
    expect(figures).not_to_contain_text("recalled, not verified")
    verdict = card(board, "memory").locator(".mlb-verdict p")
    expect(verdict).to_contain_text("the machine's memory: recalled, not verified")
    assert f"bytes: recalled, not looked up in its source: {source}" in (verdict.get_attribute("title") or "")
    part = card(board, "time").locator("[data-part='model'] .mlb-bar-value")
    assert "recalled, not looked up in its source: " in (part.get_attribute("title") or "")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("machine", ["v5p", "h100"])
def test_it_is_accessible(open_board, explorer: Explorer, theme: str, machine: str) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: (cd meshlab/widgets/js && npm ci)")
    explorer.on(machine)
    board = open_board(theme=theme)
    for disclosure in board.root.locator("summary").all():
        disclosure.click()
    board.blank.view.add_script_tag(path=str(AXE))
    board.blank.shot(f"machine-{machine}-{theme}", full=True)
    assert violations(board.blank.view) == []


@pytest.mark.parametrize("width", [480, 900])
def test_it_fits_narrow_pages(open_board, width: int) -> None:
    shown = explore(small.program(), ml.mesh("v5p", pod=8, data=2, model=4), "hidden:model")
    board = open_board(shown, width=width)
    assert board.blank.view.evaluate("document.documentElement.scrollWidth") <= width
