"""The step over time, measured: a button of Time, lanes below the predicted ones, and both numbers of each slice."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from meshlab.api.profile import Profile
from meshlab.widgets.explorer import Explorer
from tests.browser.blank import BlankBoard
from tests.browser.test_accessible import AXE, violations
from tests.widgets import small

KEYS = ["compute", "measured compute", "data", "measured data", "model", "measured model"]
BOTH = re.compile(r"predicted [\d.]+% of the step, measured [\d.]+%(, and waited [\d.]+%)?")
SECONDS = re.compile(r"measured [\d.]+ (s|ms|µs|ns)\b")


@pytest.fixture
def explorer() -> Explorer:
    return small.on_v5e()


def ended(board: BlankBoard) -> Profile:
    """Waits until measuring has ended, and lets the page know."""
    return board.ended(board.blank.explorer.profiles)


def press(board: BlankBoard) -> None:
    """Presses the button, and waits until Python has heard it."""
    before = board.root.get_attribute("data-ack") or ""
    board.button("profile").click()
    expect(board.root).not_to_have_attribute("data-ack", before)


def measure(board: BlankBoard) -> Profile:
    press(board)
    profile = ended(board)
    expect(lanes(board)).to_have_count(3)
    return profile


def lanes(board: BlankBoard) -> Locator:
    return board.root.locator(".mlb-lane.mlb-measured")


def lane(board: BlankBoard, key: str) -> Locator:
    return board.root.locator(f'.mlb-lane[data-lane="{key}"]')


def keys(board: BlankBoard) -> list[str]:
    every = "all => all.map(each => each.dataset.lane).filter(each => each !== 'exposed' && !each.startsWith('frame'))"
    return board.root.locator(".mlb-lane[data-lane]").evaluate_all(every)


def places(board: BlankBoard, key: str) -> dict[str, tuple[float, float]]:
    """Where each slice of a lane stands, by its name for all views."""
    found = {}
    for each in lane(board, key).locator(".mlb-segment").all():
        box = each.bounding_box()
        assert box is not None
        found[str(each.get_attribute("data-segment"))] = (box["x"], box["width"])
    return found


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_was_measured_stands_below_what_is_predicted(open_board, explorer: Explorer, theme: str) -> None:
    board: BlankBoard = open_board(theme=theme, width=1280, height=800)
    panel = board.show("time")
    profile = measure(board)
    expect(board.root.locator(".mlb-status")).to_contain_text(
        "The step was measured. The step over time shows each part below"
    )
    said = panel.locator(".mlb-measuring-said")
    expect(said).to_contain_text(f"Measured on {profile.devices}, the median of 5 runs: a device is busy for")
    expect(said).to_contain_text("The step over time shows each part below its prediction, as a share of the step.")
    assert keys(board) == KEYS
    # A slice stands where its prediction does; kernels are too narrow here to be buttons.
    for key in ("data", "model"):
        below = places(board, f"measured {key}")
        assert below
        assert places(board, key) == below
    # Either of them says both numbers, and shares alone.
    for key in KEYS:
        for each in lane(board, key).locator(".mlb-segment").all():
            expect(each).to_have_attribute("aria-label", BOTH)
            assert not SECONDS.search(str(each.get_attribute("aria-label")))
    # It fills its slice, and says how that is read.
    drawn = "all => all.map(each => each.style.clipPath)"
    clips = lanes(board).locator(".mlb-measured-took").evaluate_all(drawn)
    assert len(clips) == 3
    assert all(each.count("%") > 3 for each in clips)
    expect(board.root.locator(".mlb-detail")).to_contain_text("Measured: a slice is filled to the line where")
    board.blank.shot(f"measured-{theme}")
    board.root.get_by_role("button", name="the step over time, over the whole board").click()
    expect(lane(board, "exposed")).to_be_visible()
    board.blank.shot(f"measured-full-{theme}")
    if AXE.exists():
        board.blank.view.add_script_tag(path=AXE)
        assert not violations(board.blank.view)


def test_a_slice_is_chosen_in_either_lane_by_keyboard(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board(panel="time")
    measure(board)
    detail = board.root.locator(".mlb-detail")
    above = lane(board, "model").locator(".mlb-segment").first
    above.focus()
    board.keyboard.press("ArrowDown")
    below = lane(board, "measured model").locator(".mlb-segment").first
    expect(below).to_be_focused()
    expect(below).to_have_attribute("aria-label", re.compile("^measured: all-reduce over model: logits"))
    board.keyboard.press("Enter")
    expect(detail.locator("b").first).to_have_text(BOTH)
    expect(detail).to_contain_text("all-reduce over model: logits")
    expect(above).to_have_attribute("aria-pressed", "true")
    expect(below).to_have_attribute("aria-pressed", "true")
    board.keyboard.press("Enter")
    expect(above).to_have_attribute("aria-pressed", "false")
    # A search finds slices in the lanes of predictions alone, so each once.
    board.keyboard.press("/")
    board.root.locator(".mlb-step-find").fill("all-reduce logits")
    expect(above).to_have_attribute("data-hit", "")
    expect(lanes(board).locator("[data-hit]")).to_have_count(0)


def test_it_goes_with_its_layout(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board()
    panel = board.show("time")
    measure(board)
    explorer.load("batch:data")
    explorer.view()
    board.blank.poll()
    expect(lanes(board)).to_have_count(0)
    said = panel.locator(".mlb-measuring-said")
    expect(said).to_have_text(
        "What was measured is of another board, under batch:data hidden:model, and is shown with that one."
    )
    explorer.undo()
    explorer.view()
    board.blank.poll()
    expect(lanes(board)).to_have_count(3)


def test_it_is_cancelled(open_board, explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    go, plan = threading.Event(), type(explorer.plan)
    profile: Any = plan.profile

    def held(self: Any, *args: Any, **options: Any) -> Any:
        assert go.wait(60)
        return profile(self, *args, **options)

    monkeypatch.setattr(plan, "profile", held)
    board: BlankBoard = open_board()
    board.show("time")
    board.button("profile").click()
    expect(board.root.get_by_role("progressbar", name="measuring the step")).to_be_visible()
    expect(board.button("profile")).to_be_disabled()
    board.button("cancel_profile").click()
    expect(board.root.locator(".mlb-status")).to_contain_text("Measuring was cancelled.")
    expect(board.button("cancel_profile")).to_have_count(0)
    expect(board.button("profile")).to_be_enabled()
    go.set()
    measure(board)


def test_why_it_cannot_be_measured_is_said(open_board, explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meshlab.api.profile.MOST_DRAWN", 1000)
    board: BlankBoard = open_board()
    panel = board.show("time")
    press(board)
    job = explorer.profiles.last
    assert job is not None
    assert job.ended.wait(60)
    board.blank.poll()
    expect(panel.locator(".mlb-measuring .mlb-error")).to_contain_text("draws at most 1.00 kB of random ones")
