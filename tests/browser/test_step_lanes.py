"""The step over time as a trace is read: zoom, pan, search, loops that open, pins, sums, and lanes that none covers."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

import meshlab as ml
from meshlab.cost.machines.units import bytes_text, seconds_text
from meshlab.models import zoo
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from tests.browser.blank import BlankBoard
from tests.browser.test_board import AXE, violations
from tests.widgets import small
from tests.widgets.gates import Gate

LAYOUT = {"batch": "data", "heads": "model", "ffn": "model", "params/*": {"embed": "data"}}


@pytest.fixture(scope="module")
def llama() -> ml.Program:
    return next(model for model in zoo.models() if model.name == "llama_adamw").trace()


@pytest.fixture
def explorer(llama: ml.Program) -> Explorer:
    shown = explore(llama, ml.mesh("v5e", data=2, model=4), LAYOUT)
    shown.view()
    return shown


def lane(board: BlankBoard, key: str) -> Locator:
    return board.root.locator(f'.mlb-lane[data-lane="{key}"]')


def body(board: BlankBoard) -> Locator:
    return board.root.locator(".mlb-step-body")


def keys(board: BlankBoard) -> list[str]:
    return board.root.locator(".mlb-lane[data-lane]").evaluate_all("all => all.map(each => each.dataset.lane)")


def ticks(board: BlankBoard) -> list[str]:
    return board.root.locator(".mlb-step-time .mlb-scale-tick").all_inner_texts()


def settled(board: BlankBoard) -> None:
    """Waits until every slice is there and drawn: a change is painted with the next frame."""
    expect(board.root.locator(".mlb-step-time")).to_have_attribute("aria-busy", "false")
    board.blank.view.evaluate(
        "() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(() => drawn())))"
    )


def full(board: BlankBoard) -> None:
    board.root.get_by_role("button", name="over the whole board").click()
    settled(board)


def sent(board: BlankBoard) -> list[str]:
    return board.blank.view.evaluate("() => sent.filter(each => each.kind === 'read').map(each => each.what)")


def test_a_drop_sends_few_segments_and_slices_are_asked_for_where_it_is_enlarged(open_board, explorer) -> None:
    board = open_board()
    assert "step" not in sent(board)
    body(board).focus()
    board.keyboard.press("w")
    settled(board)
    assert sent(board).count("step") == 1
    board.keyboard.press("d")
    board.keyboard.press("0")
    assert sent(board).count("step") == 1


def test_keys_zoom_and_pan_and_fit(open_board, explorer: Explorer) -> None:
    board = open_board()
    whole = ticks(board)
    body(board).focus()
    for key, other in (("w", "s"), ("+", "-")):
        board.keyboard.press(key)
        settled(board)
        assert ticks(board) != whole
        board.keyboard.press(other)
        expect(board.root.locator(".mlb-step-time")).not_to_have_attribute("data-zoomed", "")
        assert ticks(board) == whole
    for home in ("0", "Home"):
        board.keyboard.press("w")
        board.keyboard.press("w")
        settled(board)
        middle = ticks(board)
        board.keyboard.press("d")
        expect(board.root.locator(".mlb-scale-tick").first).not_to_have_text(middle[0])
        board.keyboard.press("a")
        expect(board.root.locator(".mlb-scale-tick").first).to_have_text(middle[0])
        board.keyboard.press(home)
        expect(board.root.locator(".mlb-scale-tick").first).to_have_text("0")
    assert ticks(board) == whole


def test_a_key_goes_on_from_where_the_move_before_it_ends(open_board, explorer: Explorer) -> None:
    board = open_board()
    body(board).focus()
    board.keyboard.press("w")
    board.keyboard.press("w")
    settled(board)
    quarter = ticks(board)
    board.keyboard.press("0")
    settled(board)
    board.blank.view.emulate_media(reduced_motion="no-preference")
    press = """(body) => {
        const key = (key) => body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
        for (const each of "wwwsda") key(each);
    }"""
    body(board).evaluate(press)
    expect(board.root.locator(".mlb-step-time .mlb-scale-tick")).to_have_text(quarter)


def test_the_wheel_with_ctrl_zooms_about_the_pointer_and_a_drag_pans(open_board, explorer: Explorer) -> None:
    board = open_board()
    box = lane(board, "compute").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 4, box["y"] + 5
    board.mouse.move(x, y)
    board.keyboard.down("Control")
    board.mouse.wheel(0, -480)
    board.keyboard.up("Control")
    settled(board)
    zoomed = ticks(board)
    assert zoomed[0] != "0"
    assert board.root.locator(".mlb-step-time").get_attribute("data-zoomed") == ""
    board.mouse.down()
    board.mouse.move(x - 200, y, steps=4)
    board.mouse.up()
    expect(board.root.locator(".mlb-scale-tick").first).not_to_have_text(zoomed[0])
    # A drag is no click.
    expect(board.root.locator('.mlb-segment[aria-pressed="true"]')).to_have_count(0)


def test_a_loop_is_one_iteration_until_it_is_opened(open_board, explorer: Explorer) -> None:
    board = open_board()
    full(board)
    trips = max(each["times"] for each in explorer.view()["timeline"]["loops"])
    loops = board.root.locator('.mlb-frame-part[data-kind="loop"]')
    expect(loops.first).to_have_text(f"scan × {trips}")
    one = board.root.locator('.mlb-frame-part[data-kind="iteration"]').first
    expect(one).to_have_text(f"iterations 1 to {trips}, drawn as one ▸")
    one.click()
    each = board.root.locator('.mlb-frame-part[data-kind="iteration"]')
    expect(each.first).to_have_attribute("title", f"iteration 1, {seconds_text(_iteration(explorer))}")
    # The keyboard is still where it was: it closes the loop again.
    board.keyboard.press("Enter")
    expect(board.root.locator('.mlb-frame-part[data-kind="iteration"]').first).to_have_text(
        f"iterations 1 to {trips}, drawn as one ▸"
    )


def _iteration(explorer: Explorer) -> float:
    loop = explorer.view()["timeline"]["loops"][0]
    return (loop["end"] - loop["begin"]) / loop["times"]


def test_a_search_marks_what_it_finds_and_enter_goes_on(open_board, explorer: Explorer) -> None:
    board = open_board()
    full(board)
    body(board).focus()
    board.keyboard.press("/")
    board.keyboard.type("attention")
    found = board.root.locator(".mlb-found")
    expect(found).to_contain_text("hits")
    count = int(found.inner_text().split()[0])
    assert count > 1
    assert board.root.locator(".mlb-segment[data-hit]").count() > 0
    board.keyboard.press("Enter")
    expect(found).to_have_text(f"1 of {count} hits")
    first = board.root.locator(".mlb-segment[data-found]")
    expect(first).to_have_count(1)
    expect(first).to_be_visible()
    board.keyboard.press("Enter")
    expect(found).to_have_text(f"2 of {count} hits")
    board.keyboard.press("Shift+Enter")
    expect(found).to_have_text(f"1 of {count} hits")
    board.keyboard.press("Control+A")
    board.keyboard.type("nothing is called so")
    expect(found).to_have_text("no hits")
    board.keyboard.press("Escape")
    expect(found).to_have_text("")
    expect(board.root.locator(".mlb-segment[data-hit]")).to_have_count(0)
    expect(body(board)).to_be_focused()


def test_a_pinned_lane_stands_above_all_and_is_remembered(open_board, explorer: Explorer) -> None:
    board = open_board()
    before = keys(board)
    lane(board, before[2]).locator(".mlb-segment").first.focus()
    board.keyboard.press("p")
    assert keys(board) == [before[2], *(key for key in before if key != before[2])]
    board.root.get_by_role("button", name=f"pin {before[2]} above").click()
    assert keys(board) == before


def sums(board: BlankBoard) -> dict[str, str]:
    each = board.root.locator(".mlb-detail [data-sum]")
    pairs = each.evaluate_all("all => all.map(each => [each.dataset.sum, each.lastChild.textContent.trim()])")
    return dict(pairs)


def test_sums_of_the_whole_step_are_those_of_the_plan(open_board, explorer: Explorer) -> None:
    board = open_board()
    full(board)
    box = board.root.locator(".mlb-step-time .mlb-scale").bounding_box()
    assert box is not None
    board.keyboard.down("Shift")
    board.mouse.move(box["x"] + 2, box["y"] + 3)
    board.mouse.down()
    board.mouse.move(box["x"] + box["width"] + 9, box["y"] + 3, steps=3)
    board.mouse.move(box["x"] - 9, box["y"] + 3)
    board.mouse.up()
    board.keyboard.up("Shift")
    expect(board.root.locator(".mlb-range")).to_be_visible()
    # From the left edge on, by keyboard to the end.
    board.keyboard.press("Escape")
    expect(board.root.locator(".mlb-range")).to_be_hidden()
    body(board).focus()
    for _ in range(60):
        board.keyboard.press("Shift+ArrowRight")
    shown, time = sums(board), explorer.time
    assert shown["compute"].split(",")[0] == seconds_text(float(time.compute))
    by_axes = {each["key"]: each["bytes"] for each in explorer.view()["communication"]["by_axis"]}
    for axes, seconds in time.communication.items():
        assert shown[axes] == f"{seconds_text(float(seconds))}, sends {bytes_text(by_axes[axes])}"
    assert shown["exposed"] == seconds_text(float(time.exposed))
    # On the board, where only few segments came with the layout, slices are asked for then.
    board.keyboard.press("Escape")
    board.keyboard.press("Escape")
    expect(board.root).not_to_have_attribute("data-full-step", "")
    body(board).focus()
    for _ in range(60):
        board.keyboard.press("Shift+ArrowRight")
    expect(board.root.locator('.mlb-detail [data-sum="model"]')).to_contain_text(
        f"sends {bytes_text(by_axes['model'])}"
    )
    assert sums(board) == shown


def test_every_lane_of_five_axes_is_in_sight_or_announced(open_board, llama: ml.Program) -> None:
    """Three lanes were one too many: the largest was behind the lane of memory, without a sign."""
    mesh = ml.mesh("v5p", data=2, model=2, pod=2)
    shown = explore(llama, mesh, {"batch": "pod+data", "heads": "model", "params/*": {"embed": "data"}})
    shown.view()
    board = open_board(shown)
    drawn = keys(board)
    assert len(drawn) >= 4
    memory = board.root.locator(".mlb-lane-memory").bounding_box()
    assert memory is not None
    for key in drawn:
        box = lane(board, key).bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= memory["y"] + 0.5
    expect(board.root.locator(".mlb-more-lanes")).to_be_hidden()
    # With less room than it needs it says how many are below.
    board.root.locator(".mlb-lanes-scroll").evaluate("each => { each.style.maxHeight = '30px'; }")
    more = board.root.locator(".mlb-more-lanes")
    expect(more).to_have_text(f"↓ +{len(drawn) - 2} lanes")
    more.click()
    expect(more).not_to_have_text(f"↓ +{len(drawn) - 2} lanes")


def test_it_folds_and_that_is_remembered(open_board, explorer: Explorer) -> None:
    board = open_board()
    fold = board.root.get_by_role("button", name="fold the step over time")
    fold.click()
    expect(fold).to_have_attribute("aria-expanded", "false")
    expect(lane(board, "compute")).to_be_hidden()
    # Of it one line is left: how long the step is, and its phases.
    end, phases = (board.root.locator(each).bounding_box() for each in (".mlb-lane-end", ".mlb-phases"))
    assert end is not None
    assert phases is not None
    assert end["x"] + end["width"] <= phases["x"]
    assert end["y"] == pytest.approx(phases["y"], abs=3)
    fold.click()
    expect(lane(board, "compute")).to_be_visible()


def test_while_costs_are_pending_what_was_known_is_dimmed_and_says_so(
    open_board, explorer: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step of the layout before stood there as if it were new."""
    board = open_board()
    gate = Gate(monkeypatch, explorer.costs)
    explorer.load("batch:data")
    board.blank.poll()
    busy = board.root.locator(".mlb-step-time")
    expect(busy).to_have_attribute("aria-busy", "true")
    expect(busy.locator(".mlb-updating")).to_have_text("updating…")
    assert float(lane(board, "compute").evaluate("each => getComputedStyle(each).opacity")) < 1
    gate.open.set()
    explorer.view()
    board.blank.poll()
    expect(busy).to_have_attribute("aria-busy", "false")
    expect(busy.locator(".mlb-updating")).to_have_text("")
    expect(busy.locator(".mlb-lane-end")).to_have_text(seconds_text(float(explorer.time.estimate)))
    assert float(lane(board, "compute").evaluate("each => getComputedStyle(each).opacity")) == 1


def test_a_slice_of_a_few_pixels_is_found_by_a_click_and_by_keys(open_board, explorer: Explorer) -> None:
    board = open_board()
    full(board)
    compute = lane(board, "compute")
    box = compute.bounding_box()
    assert box is not None
    expect(compute.locator(".mlb-segment")).to_have_count(0)
    board.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    clicked = compute.locator('.mlb-segment[aria-pressed="true"]')
    expect(clicked).to_have_count(1)
    name = clicked.get_attribute("data-segment")
    clicked.focus()
    board.keyboard.press("ArrowRight")
    focused = board.root.locator(".mlb-segment:focus")
    assert focused.get_attribute("data-segment") != name
    board.keyboard.press("Enter")
    expect(focused).to_have_attribute("aria-pressed", "true")
    # And without a mouse: from the lanes down to that of kernels.
    board.keyboard.press("Escape")
    body(board).focus()
    for _ in range(keys(board).index("compute") + 1):
        board.keyboard.press("ArrowDown")
    expect(compute.locator(".mlb-segment:focus")).to_have_count(1)
    board.keyboard.press("f")
    expect(board.root.locator(".mlb-step-time")).to_have_attribute("data-zoomed", "")


def test_it_stands_alone_with_every_slice(open_board, explorer: Explorer) -> None:
    board = open_board(panel="timeline")
    settled(board)
    expect(lane(board, "exposed")).to_be_visible()
    expect(board.root.locator('.mlb-frame-part[data-kind="loop"]').first).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_is_accessible_over_the_whole_board(open_board, theme: str) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: (cd meshlab/widgets/js && npm ci)")
    board = open_board(small.on_v5e(), theme=theme)
    full(board)
    lane(board, "model").locator(".mlb-segment").first.click()
    board.blank.view.add_script_tag(path=str(AXE))
    assert violations(board.blank.view) == []
