"""A collective is stepped through: by buttons, keys, the slider and by itself, on the devices of a group."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

import meshlab as ml
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.state.selection import identities
from meshlab.widgets.views.devices.hops import hops_view
from tests.browser.blank import BlankBoard
from tests.browser.test_accessible import AXE, UNNAMED, violations
from tests.browser.test_room import CUT
from tests.widgets import small

LAST = "each device sends the finished part that it just got, 40 B, to the next."


@pytest.fixture
def explorer() -> Explorer:
    """An Explorer with an all-reduce of logits over model, which is selected, in two groups of four devices."""
    shown = small.on_v5e()
    shown.select(collective=named(shown, "logits"))
    return shown


def stored() -> Explorer:
    """Weights that are gathered over data, where the batch is."""
    return explore(small.program(), small.mesh(), {"batch": "data", "hidden": "model", "params/*": {"rows": "data"}})


def named(explorer: Explorer, value: str) -> str:
    rows = zip(explorer.plan.collectives, identities(explorer.plan), strict=True)
    return next(name for c, name in rows if c.value == value)


def view_of(explorer: Explorer, value: str, device: int = 0) -> Any:
    return hops_view(explorer, named(explorer, value), device)


def opened(board: BlankBoard) -> Locator:
    """The steps of the collective that is selected, in Traffic."""
    board.show("traffic")
    steps = board.panel("traffic").locator(".mlb-hops")
    expect(steps).to_be_visible()
    return steps


def said(steps: Locator) -> Locator:
    return steps.locator(".mlb-hop-said")


def held(steps: Locator) -> list[list[str]]:
    """What the cells of each row say: device, piece, and how much of a sum it is."""
    return steps.locator(".mlb-hop-row").evaluate_all(
        "rows => rows.map(row => [...row.querySelectorAll('.mlb-hop-piece title')]"
        ".map(each => each.textContent.split(':')[0]))"
    )


def test_a_row_of_traffic_steps_through_its_collective(open_board, explorer: Explorer) -> None:
    explorer.select(collective=None)
    board: BlankBoard = open_board()
    board.show("traffic").locator('tr[data-axes="model"] .mlb-fold').first.click()
    steps = opened(board)
    view = view_of(explorer, "logits")
    expect(said(steps)).to_have_text("Before: logits is a partial sum over model, with batch split over data.")
    assert held(steps) == [[f"device {d} has {p} Σ 1 of 4" for p in (1, 2, 3, 4)] for d in range(4)]
    expect(steps.locator(".mlb-edge")).to_have_count(0)
    for number, hop in enumerate(view["hops"], 1):
        steps.locator("[data-hop=forward]").click()
        expect(said(steps)).to_have_text(f"Hop {number} of 6: {hop['text']}.")
        expect(steps.locator(".mlb-edge")).to_have_count(4)
        edges = steps.locator(".mlb-edge").evaluate_all("all => all.map(each => each.dataset.edge)")
        assert edges == ["0-1", "1-2", "2-3", "3-0"]
        expect(steps.locator(".mlb-hop-new")).to_have_count(4)
    expect(said(steps)).to_contain_text(LAST)
    steps.locator("[data-hop=forward]").click()
    expect(said(steps)).to_have_text("After: logits has batch split over data.")
    # Each device has all of it, and the addends of all.
    assert [sorted(row) for row in held(steps)] == [
        [f"device {d} has {p} Σ 4 of 4" for p in (1, 2, 3, 4)] for d in range(4)
    ]
    for name in ("forward", "last"):
        expect(steps.locator(f"[data-hop={name}]")).to_have_attribute("aria-disabled", "true")
    steps.locator("[data-hop=back]").click()
    expect(said(steps)).to_contain_text("Hop 6 of 6")
    steps.locator("[data-hop=first]").click()
    expect(said(steps)).to_contain_text("Before: ")
    expect(steps.locator(".mlb-hops-sums")).to_have_text(
        "Each device sends 2 (n − 1)/n × 160 B = 240 B; n = 4 devices."
        " On v5e:2x4 that takes 6 µs, by all links that the machine has for it."
    )


def test_a_collective_says_that_it_can_be_stepped_through(open_board, explorer: Explorer) -> None:
    """From its row, from the step over time and by a key that the list of keys has."""
    explorer.select(collective=None)
    board: BlankBoard = open_board()
    panel = board.show("traffic")
    row = panel.locator('tr[data-axes="model"]').first
    row.focus()
    board.keyboard.press("h")
    steps = panel.locator(".mlb-hops")
    expect(steps).to_be_focused()
    expect(steps).to_be_in_viewport()
    board.keyboard.press("ArrowRight")
    expect(said(steps)).to_contain_text("Hop 1 of 6")
    panel.get_by_role("button", name="Step through").click()
    expect(steps).to_be_focused()
    board.show("devices")
    board.root.locator(".mlb-step-time").get_by_role("button", name="Step through").click()
    expect(panel).to_be_visible()
    expect(steps).to_be_focused()
    board.root.locator('[data-op="help"]').click()
    expect(board.root.locator(".mlb-keys dt")).to_contain_text(["H; then ← →, Space"])
    board.blank.shot("keys")


def test_keys_step_and_the_focus_stays(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board(panel="collective")
    steps, keyboard = board.root.locator(".mlb-hops"), board.keyboard
    expect(steps).to_be_visible()
    steps.focus()
    for key, start in [
        ("ArrowRight", "Hop 1 "), ("ArrowDown", "Hop 2 "), ("ArrowLeft", "Hop 1 "), ("End", "After"),
        ("ArrowRight", "After"), ("ArrowUp", "Hop 6 "), ("Home", "Before"), ("ArrowLeft", "Before"),
    ]:  # fmt: skip
        keyboard.press(key)
        expect(said(steps)).to_have_text(re.compile(f"^{start}"))
        expect(steps).to_be_focused()
    forward, slider = steps.locator("[data-hop=forward]"), steps.get_by_role("slider")
    forward.focus()
    for number in (1, 2, 3):
        keyboard.press("Enter")
        expect(said(steps)).to_contain_text(f"Hop {number} of 6")
        expect(forward).to_be_focused()
    slider.focus()
    keyboard.press("ArrowRight")
    expect(said(steps)).to_contain_text("Hop 4 of 6")
    expect(slider).to_have_attribute("aria-valuetext", "Hop 4 of 6")
    expect(slider).to_have_value("4")
    box = slider.bounding_box() or {}
    board.mouse.click(box["x"] + box["width"] - 3, box["y"] + box["height"] / 2)
    expect(said(steps)).to_contain_text("After")
    # It is no gesture of the board, and says nothing to Python.
    assert not [each for each in board.blank.view.evaluate("window.sent") if each.get("op") not in (None, "advice")]


def test_it_plays_by_itself_until_the_end(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board(panel="collective")
    steps, clock = board.root.locator(".mlb-hops"), board.blank.view.clock
    play = steps.locator("[data-hop=play]")
    expect(play).to_have_text("Play")
    clock.install()
    play.click()
    expect(play).to_have_attribute("aria-label", "pause")
    for number in range(1, 4):
        expect(said(steps)).to_contain_text(f"Hop {number} of 6")
        clock.run_for(1400)
    # Space pauses, and goes on.
    steps.focus()
    board.keyboard.press("Space")
    expect(play).to_have_text("Play")
    clock.run_for(5000)
    expect(said(steps)).to_contain_text("Hop 4 of 6")
    board.keyboard.press("Space")
    for start in ("Hop 5 of 6", "Hop 6 of 6", "After"):
        expect(said(steps)).to_contain_text(start)
        clock.run_for(1400)
    expect(play).to_have_text("Play")
    # From the end it begins anew.
    play.click()
    expect(said(steps)).to_contain_text("Before")
    clock.run_for(1400)
    expect(said(steps)).to_contain_text("Hop 1 of 6")
    # A step by hand ends it.
    board.keyboard.press("ArrowRight")
    expect(play).to_have_text("Play")
    clock.run_for(5000)
    expect(said(steps)).to_contain_text("Hop 2 of 6")


def test_pieces_move_only_where_motion_is_welcome(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board(panel="collective")
    steps, page = board.root.locator(".mlb-hops"), board.blank.view
    expect(steps).to_be_visible()
    # The page is asked for its animations in the task in which they begin.
    moving = """group => {
        group.querySelector("[data-hop=forward]").click();
        return [...group.querySelectorAll(".mlb-hop-new")].map(each => each.getAnimations().length);
    }"""
    assert steps.evaluate(moving) == [0, 0, 0, 0]
    page.emulate_media(reduced_motion="no-preference")
    assert steps.evaluate(moving) == [1, 1, 1, 1]
    # Back there is nothing that comes.
    steps.locator("[data-hop=back]").click()
    assert steps.evaluate("group => group.getAnimations({ subtree: true }).length") == 0


def test_another_group_is_chosen_and_follows_the_selected_device(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board()
    steps = opened(board)
    rows = steps.locator(".mlb-hop-name")
    steps.locator("[data-hop=forward]").click()
    expect(rows).to_have_text([f"device {d}" for d in range(4)])
    picker = steps.get_by_label("group of devices")
    assert picker.locator("option").all_inner_texts() == ["data 0", "data 1"]
    picker.select_option("data 1")
    expect(rows).to_have_text([f"device {d}" for d in range(4, 8)])
    assert explorer.selection.device == 4
    expect(said(steps)).to_contain_text("Hop 1 of 6")
    board.show("devices").locator('[data-device="2"]').click()
    board.show("traffic")
    expect(rows).to_have_text([f"device {d}" for d in range(4)])
    expect(steps.locator(".mlb-hop-selected")).to_have_text("device 2")


def test_a_layout_that_has_the_collective_as_well_keeps_the_hop(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board()
    steps = opened(board)
    for _ in range(2):
        steps.locator("[data-hop=forward]").click()
    explorer.load("hidden:model")
    board.blank.poll()
    expect(said(steps)).to_have_text(
        "Hop 2 of 6: each device sends the sum that it just made, 80 B, to the next, which adds its own."
    )
    explorer.load("batch:data")
    board.blank.poll()
    expect(steps).to_have_count(0)


def test_alone_it_shows_the_one_that_is_selected_or_sends_most(open_board) -> None:
    explorer = stored()
    board: BlankBoard = open_board(explorer, panel="collective")
    picker, steps = board.root.get_by_label("collective", exact=True), board.root.locator(".mlb-hops")
    rows = explorer.view()["collectives"]["rows"]
    expect(picker).to_have_value(rows[0]["id"])
    assert picker.locator("option").count() == len(rows)
    picker.select_option(named(explorer, "params/w1"))
    expect(steps).to_have_attribute("aria-label", "all-gather over data of params/w1, hop by hop")
    assert explorer.selection.collective == named(explorer, "params/w1")
    assert explorer.selected == "params/w1"
    steps.locator("[data-hop=last]").click()
    # The letters of the slices that Devices shows: rows over data are the first axis, hidden over model the last.
    assert held(steps) == [[f"device {d} has {p}" for p in ("A", "E")] for d in (0, 4)]
    explorer.select(collective=named(explorer, "logits"))
    board.blank.poll()
    expect(said(steps)).to_contain_text("Before: logits is a partial sum")
    explorer.load("")
    board.blank.poll()
    expect(board.root).to_contain_text("Nothing is sent under this layout: there are no hops to show.")


def test_of_many_devices_the_first_are_drawn(open_board) -> None:
    rows, cols = ml.dims(rows=1024, cols=1024)
    program = ml.trace(lambda x: x.sum(rows), ml.f32[rows, cols])
    board: BlankBoard = open_board(explore(program, ml.mesh(x=32), "rows:x"), panel="collective")
    steps = board.root.locator(".mlb-hops")
    expect(steps.locator(".mlb-hop-row")).to_have_count(8)
    expect(steps).to_contain_text("32 devices: the first 8, and 24 more that do the same")
    steps.locator("[data-hop=forward]").click()
    expect(steps.locator(".mlb-edge")).to_have_count(7)
    expect(steps.locator(".mlb-hop-stub")).to_have_text(["→ 8", "← 31"])
    many: BlankBoard = open_board(explore(program, ml.mesh(x=512), "rows:x"), panel="collective")
    expect(many.root.locator(".mlb-hops")).to_contain_text(
        "Hops are drawn of groups of up to 256 devices; this one has 512."
    )
    expect(many.root.locator(".mlb-hops")).to_contain_text("Each device sends 2 (n − 1)/n × 4.10 kB = 8.18 kB")
    expect(many.root.locator(".mlb-hop-button, .mlb-hop-picture")).to_have_count(0)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [348, 700, 1920])
def test_nothing_is_cut_and_axe_finds_nothing(open_board, explorer: Explorer, width: int, theme: str) -> None:
    board: BlankBoard = open_board(panel="collective", width=width, height=900, theme=theme)
    page, steps = board.blank.view, board.root.locator(".mlb-hops")
    expect(steps).to_be_visible()
    for _ in range(2):
        steps.locator("[data-hop=forward]").click()
    expect(said(steps)).to_contain_text("Hop 2")
    board.blank.shot(f"hops-{width}-{theme}", full=True)
    assert page.evaluate(CUT) == []
    assert board.root.evaluate(UNNAMED) == []
    box, panel = (each.bounding_box() or {} for each in (steps.locator("svg").last, board.panel("collective")))
    assert box["x"] + box["width"] <= panel["x"] + panel["width"]
    if AXE.exists():
        page.add_script_tag(path=str(AXE))
        assert violations(page) == []


def test_while_python_is_silent_it_can_still_be_stepped(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board(panel="collective")
    steps = board.root.locator(".mlb-hops")
    expect(steps).to_be_visible()
    board.blank.silent = True
    board.blank.view.evaluate("() => window.model.send({ kind: 'hello', id: 0 })")
    steps.locator("[data-hop=forward]").click()
    expect(said(steps)).to_contain_text("Hop 1 of 6")


# Arrows of a collective stand on the tensor that it moves, or not over letters (B27).


def test_a_selected_collective_draws_its_arrows_over_the_tensor_that_it_moves(open_board) -> None:
    explorer = stored()
    board: BlankBoard = open_board(explorer)
    devices = board.show("devices")
    letters, mesh = devices.locator(".mlb-mesh .mlb-letter"), devices.locator(".mlb-mesh")
    devices.get_by_label("tensor").select_option("images")
    explorer.select(collective=named(explorer, "params/w1"))
    board.blank.poll()
    expect(devices.get_by_label("tensor")).to_have_value("params/w1")
    expect(mesh.locator(".mlb-edge")).to_have_count(8)
    expect(letters.first).to_be_visible()
    expect(mesh).not_to_have_attribute("data-arrows-of-another", "")
    # Over another tensor there are no letters, and it is said; a button goes to the one that is sent.
    devices.get_by_label("tensor").select_option("images")
    expect(mesh).to_have_attribute("data-arrows-of-another", "")
    expect(letters.first).to_be_hidden()
    expect(devices.locator(".mlb-sends")).to_contain_text("It moves another tensor than images")
    devices.get_by_role("button", name="Show params/w1").click()
    expect(letters.first).to_be_visible()
    # What is stored nowhere has no slices to stand on.
    explorer.select(collective=named(explorer, "logits"))
    board.blank.poll()
    expect(letters.first).to_be_hidden()
    expect(devices.locator(".mlb-sends")).to_contain_text("What it moves is not stored anywhere")
    explorer.select(collective=None)
    board.blank.poll()
    expect(letters.first).to_be_visible()


def test_arrows_stand_beside_the_letters(open_board) -> None:
    """The one that closes a ring goes around the letters of the squares that it passes."""
    explorer = explore(small.program(), ml.mesh(data=4), {"batch": "data", "params/*": {"hidden": "data"}})
    board: BlankBoard = open_board(explorer)
    explorer.select(collective=named(explorer, "params/w1"))
    board.blank.poll()
    devices = board.show("devices")
    expect(devices.locator(".mlb-edge")).to_have_count(4)
    crossed = devices.locator(".mlb-mesh svg").evaluate(
        """svg => [...svg.querySelectorAll(".mlb-edge")].flatMap(edge => {
            const long = edge.getTotalLength();
            const points = Array.from({ length: 60 }, (_, i) => edge.getPointAtLength((long * i) / 59));
            return [...svg.querySelectorAll(".mlb-letter")].filter(letter => {
                const { x, y, width, height } = letter.getBBox();
                return points.some(at => at.x > x && at.x < x + width && at.y > y + 2 && at.y < y + height - 2);
            }).map(letter => `${edge.dataset.edge} over ${letter.textContent}`);
        })"""
    )
    assert crossed == []
