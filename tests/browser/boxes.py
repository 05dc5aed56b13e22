"""Where text stands on a page: what overlaps, and what is cut, told from the boxes of its lines.

    assert board.root.evaluate(OVERLAPS, ".mlb-totals") == []
    assert board.root.evaluate(CUTS, ".mlb-chip-size") == []

Each is a function of the page that gives the texts at fault, of all that is in the elements with a selector.
"""

from __future__ import annotations

# The boxes of all lines of text that are seen; drawings scale by themselves, and a choice is read when it is opened.
LINES = """const lines = (root, selector) => [...root.querySelectorAll(selector)].flatMap(part => {
    const walker = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
    const found = [];
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const owner = node.parentElement;
        const seen = owner.checkVisibility({ visibilityProperty: true }) && !owner.closest("svg, select");
        if (!node.data.trim() || !seen) continue;
        const range = document.createRange();
        range.selectNodeContents(node);
        for (const box of range.getClientRects())
            if (box.width > 1) found.push({ text: node.data.trim(), owner, box });
    }
    return found;
});
const within = (a, b, by) =>
    a.left + by < b.right && b.left + by < a.right && a.top + by < b.bottom && b.top + by < a.bottom;
"""

OVERLAPS = f"""(root, selector) => {{ {LINES}
    const all = lines(root, selector);
    return all.flatMap((one, i) => all.slice(i + 1)
        .filter(other => other.owner !== one.owner && within(one.box, other.box, 1.5))
        .map(other => `${{one.text}} | ${{other.text}}`));
}}"""

# What runs out of the board, or out of what hides what runs out of it. What scrolls is reached by scrolling.
CUTS = f"""(root, selector) => {{ {LINES}
    const hides = (box, outer) => {{
        const frame = outer.getBoundingClientRect();
        return box.right > frame.right + 1 || box.left < frame.left - 1;
    }};
    const cut = ({{ owner, box }}) => {{
        if (hides(box, root)) return !owner.closest(".mlb-grid-of-zones");
        for (let outer = owner; outer !== root; outer = outer.parentElement)
            if (["hidden", "clip"].includes(getComputedStyle(outer).overflowX) && hides(box, outer)) return true;
        return false;
    }};
    return lines(root, selector).filter(cut).map(each => each.text);
}}"""

# The texts of drawings that run out of their panel, on its left or right.
DRAWN_OUT = """(root, selector) => [...root.querySelectorAll(`${selector} text`)].filter(each => {
    const [text, panel] = [each, each.closest(".mlb-body")].map(part => part.getBoundingClientRect());
    return text.width && (text.left < panel.left - 1 || text.right > panel.right + 1);
}).map(each => each.textContent)"""

# The texts of drawings that lie on something else that is drawn: of two selectors, those of the first on those of the
# second.
DRAWN_ON = """(root, [texts, others]) => {
    const boxed = selector => [...root.querySelectorAll(selector)]
        .map(each => ({ each, box: each.getBoundingClientRect() })).filter(({ box }) => box.width > 1);
    const on = (one, other) => one.each !== other.each
        && one.box.left + 1.5 < other.box.right && other.box.left + 1.5 < one.box.right
        && one.box.top + 4 < other.box.bottom && other.box.top + 4 < one.box.bottom;
    const all = boxed(others);
    return boxed(texts).filter(one => all.some(other => on(one, other))).map(({ each }) => each.textContent);
}"""

# The numbers of the zone aimed at that what is dragged lies on.
COVERED_BY_GHOST = """root => {
    const ghost = root.querySelector(".mlb-ghost").getBoundingClientRect();
    return [...root.querySelectorAll("[data-aim] .mlb-zone-note > *")].filter(each => {
        const box = each.getBoundingClientRect();
        const apart = box.right <= ghost.left || ghost.right <= box.left;
        return box.width > 0 && !apart && box.bottom > ghost.top && ghost.bottom > box.top;
    }).map(each => each.textContent);
}"""

# Notes that cross the border of their zone, or touch it; the star stands on it.
CROSSING = """root => [
    ...root.querySelectorAll(".mlb-zone:not(.mlb-tray) .mlb-zone-note > :not(.mlb-note-star)"),
].filter(each => {
    const [note, zone] = [each, each.closest(".mlb-zone")].map(part => part.getBoundingClientRect());
    return note.width > 0 && !(note.left > zone.left + 1 && note.right < zone.right - 1
        && note.top >= zone.top && note.bottom <= zone.bottom);
}).map(each => each.textContent)"""

# The sizes in which something is written, in pixels.
SIZES = f"""root => {{ {LINES}
    const sizes = lines(root, ".mlb-frame").map(({{ owner }}) => Number.parseFloat(getComputedStyle(owner).fontSize));
    return [...new Set(sizes)].sort((one, other) => one - other);
}}"""
