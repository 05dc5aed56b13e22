"""What does not fit on a board, found in the page: what is cut, what stands outside of the frame, what is covered."""

from __future__ import annotations

from tests.browser.blank import BlankBoard

# What is wider than its place and hidden there, and no title says it whole. Drawings scale, and a choice is read whole
# when it is opened.
CUT = """() => [...document.querySelectorAll(".mlb *")]
    .filter(each => !each.closest("svg, select, .mlb-alive, .mlb-tree"))
    .filter(each => getComputedStyle(each).overflowX !== "visible" && !each.closest("[title]:not([title=''])"))
    .filter(each => each.clientWidth && each.scrollWidth > each.clientWidth + 1)
    .map(each => `${each.className}: ${each.textContent.slice(0, 60)}`)"""
# What stands outside of the frame; what scrolls in a panel does not.
OUTSIDE = """root => {
    const frame = root.querySelector(".mlb-frame").getBoundingClientRect();
    return [...root.querySelectorAll(".mlb-frame *")]
        .filter(each => each.getClientRects().length && !each.closest(".mlb-body > *, .mlb-tray > *, svg"))
        .filter(each => {
            const box = each.getBoundingClientRect();
            return box.bottom > frame.bottom + 1 || box.right > frame.right + 1;
        })
        .map(each => `${each.className}: ${each.textContent.slice(0, 60)}`);
}"""
# Lines of the frame that what is in them overflows, so that it is covered by the next.
COVERED = """() => [...document.querySelectorAll(".mlb-frame > *, .mlb-main > *")]
    .filter(each => each.clientHeight && each.scrollHeight > each.clientHeight + 1).map(each => each.className)"""


def overflowing(board: BlankBoard) -> list[str]:
    """Returns what does not fit, each with its class and its text."""
    return [
        *board.blank.view.evaluate(CUT),
        *board.root.evaluate(OUTSIDE),
        *board.blank.view.evaluate(COVERED),
    ]
