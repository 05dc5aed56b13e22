"""While a chip is held, in a real browser: how soon the zones have their prices, and how smoothly the chip moves.

The clock starts when the chip is lifted, and stops after the frame in which a zone says what a drop would change: first
the time, or why it is refused; then the peak memory. No chip is priced ahead, and none is held at a layout of before.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from benchmarks.boards import NAMES, moves
from benchmarks.timing import Sample
from tests.browser.board import Board

HOLDS = 20
NEAREST, ALL, PEAKS, FRAME = 0.400, 1.0, 2.5, 0.025

# When each zone but the tray was priced, and when it had its peak, in milliseconds after the chip was lifted.
WATCH = """root => {
    const zones = root.querySelector(".mlb-zones");
    const holds = window.__holds = [];
    let hold = null;
    const count = lines => [...zones.querySelectorAll(".mlb-zone:not(.mlb-tray)")].filter(zone =>
        ["here", "refused"].includes(zone.dataset.state)
        || zone.querySelector(".mlb-zone-note :is(.mlb-less, .mlb-more, span + span)")
        && zone.querySelectorAll(".mlb-zone-note > span").length >= lines).length;
    const paint = () => {
        if (!zones.classList.contains("mlb-holding")) { hold = null; return; }
        if (hold === null) holds.push(hold = {since: performance.now(), times: [], peaks: []});
        const mine = hold, times = count(1), peaks = count(2);
        requestAnimationFrame(() => setTimeout(() => {
            const now = performance.now() - mine.since;
            while (mine.times.length < times) mine.times.push(now);
            while (mine.peaks.length < peaks) mine.peaks.push(now);
        }));
    };
    new MutationObserver(paint).observe(zones, {subtree: true, childList: true, attributes: true});
}"""
FRAMES = """() => {
    window.__frames = [];
    let last = performance.now();
    const frame = now => {
        if (!window.__frames) return;
        window.__frames.push(now - last);
        last = now;
        requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
}"""
STOP = "() => { const frames = window.__frames; window.__frames = null; return frames.slice(1); }"


def measure(shown: dict[str, Board], holds: int = HOLDS) -> list[Sample]:
    """Returns samples for boards of 10 and of 30 zones.

    Args:
        shown: the boards, by their Python names.
        holds: how many chips to hold on each board.
    """
    samples = []
    for variable, zones in (("large", 10), ("fine", 30)):
        board, name = shown[variable], NAMES[variable]
        rows = list(_holds(board, variable, holds, zones))
        nearest = tuple(row["times"][9] / 1000 for row in rows)
        samples.append(Sample(f"{name}: lifted to the 10 nearest zones' prices", nearest, NEAREST))
        if zones > 10:
            samples.append(Sample(f"{name}: to those of {zones}", tuple(r["times"][-1] / 1000 for r in rows), ALL))
        samples.append(Sample(f"{name}: to peaks of {zones} zones", tuple(r["peaks"][-1] / 1000 for r in rows), PEAKS))
        frames = tuple(each / 1000 for each in _frames(board, variable))
        samples.append(Sample(f"{name}: between frames while dragging", frames, FRAME))
    return samples


def _holds(board: Board, variable: str, times: int, zones: int) -> Iterator[dict[str, list[float]]]:
    """Lifts a chip at layouts drawn at random, until all zones have their prices."""
    board.root.evaluate(WATCH)
    choose, view = random.Random(0), board.page.view
    for number in range(times):
        dim, axis = choose.choice(moves(board.page, variable))
        with board.next_revision():
            board.page.python(
                f"bool({variable}.place({dim!r}, {axis!r}))" if axis else f"bool({variable}.remove({dim!r}))"
            )
        dim, _ = choose.choice(moves(board.page, variable))
        board.press(dim)
        view.wait_for_function(f"() => window.__holds.at({number})?.peaks.length >= {zones}")
        view.mouse.up()
        view.keyboard.press("Escape")
    return iter(view.evaluate("() => window.__holds"))


def _frames(board: Board, variable: str) -> list[float]:
    """Drags a chip over all zones, and returns the milliseconds between frames."""
    dim, _ = moves(board.page, variable)[0]
    board.press(dim)
    view = board.page.view
    view.evaluate(FRAMES)
    for zone in board.root.locator(".mlb-zone").all():
        box = zone.bounding_box()
        if box is not None:
            view.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=12)
    view.keyboard.press("Escape")
    view.mouse.up()
    return view.evaluate(STOP)
