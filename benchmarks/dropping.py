"""From the drop of a chip to the redrawn board, in a real browser with a real mouse.

The clock is the page's own: it starts at the release of the mouse button, and stops after the frame in which the board
shows the new revision, or, for all that is visible, the new costs too. In between lie the way to the kernel, the
re-plan, and the way back. The drops are a random walk of legal moves: in the transformer hardly one leads to a layout
that was planned before.
"""

from __future__ import annotations

import random

from benchmarks.boards import NAMES, moves
from benchmarks.timing import Sample
from tests.browser.board import Board

DROPS = 40
# Seconds from a drop to all that is visible; for the program of 15,000 operations to the board alone, and for a puzzle
# to its conditions, which the board shows with the new layout.
PROMISES = {"small": 0.100, "large": 0.250}
BOARD_ALONE = {"unrolled": 0.400, "puzzle": 0.120}

# A frame after the attributes have changed, and then whatever runs next: the frame has been painted. Each release of
# the button is a drop, whatever comes of it, so that a revision more or fewer takes no other drop for this one.
WATCH = """root => {
    const drops = window.__drops = [];
    root.addEventListener("pointerup", () => drops.push({released: performance.now(), rev: root.dataset.rev}), true);
    const painted = (mine, what) => requestAnimationFrame(() => setTimeout(() => {
        mine[what] ??= performance.now() - mine.released;
    }));
    new MutationObserver(() => {
        const drop = drops.at(-1);
        if (!drop || root.dataset.rev === drop.rev) return;
        painted(drop, "board");
        if (root.dataset.pending === undefined) painted(drop, "all");
    }).observe(root, {attributes: true, attributeFilter: ["data-rev", "data-pending"]});
}"""
# What became of a drop: `lost` is empty where all is there, and what the board says where it was not carried out; null
# while it is waited for. A board that Python does not answer has put the chip back.
OUTCOME = """([root, number]) => {
    const drop = window.__drops[number], status = root.querySelector(".mlb-status");
    if (drop?.all) return {lost: ""};
    const lost = root.hasAttribute("data-readonly") || status.dataset.mood === "refused";
    return drop && lost && root.dataset.rev === drop.rev ? {lost: status.textContent || "Python is silent"} : null;
}"""


def measure(shown: dict[str, Board], drops: int = DROPS) -> list[Sample]:
    """Returns samples for each kind of board.

    Args:
        shown: the boards, by their Python names.
        drops: how many chips to drop on each board.
    """
    samples = []
    for variable in ("small", "large", "unrolled", "puzzle"):
        times = _drops(shown[variable], variable, drops)
        name = NAMES[variable]
        redrawn = tuple(each["board"] / 1000 for each in times)
        samples += [
            Sample(f"{name}: drop to redrawn", redrawn, BOARD_ALONE.get(variable)),
            Sample(f"{name}: drop to all costs", tuple(each["all"] / 1000 for each in times), PROMISES.get(variable)),
        ]
    return samples


def _drops(board: Board, variable: str, times: int) -> list[dict[str, float]]:
    """Drops chips where they may go, and returns the milliseconds that each took."""
    board.root.evaluate(WATCH)
    choose = random.Random(0)
    for number in range(times):
        dim, axis = choose.choice(moves(board.page, variable))
        board.drag(dim, axis)
        # No `expect`: each time that it fails it reads the whole page for its message, while the board is redrawn.
        outcome = board.page.view.wait_for_function(OUTCOME, arg=[board.root.element_handle(), number]).json_value()
        if outcome["lost"]:
            where = f"`{axis}`" if axis else "the tray"
            raise RuntimeError(f"Drop {number} of `{dim}` on {where} of `{variable}` was lost: {outcome['lost']}")
    return board.page.view.evaluate("() => window.__drops")
