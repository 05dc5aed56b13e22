"""Numbers have one format everywhere: thousands apart, no exponents, a true minus; where all of them are large."""

from __future__ import annotations

import re

import pytest

import meshlab as ml
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer

# All that is written or said, but for source lines, which are the user's words.
TEXTS = """root => {
    const texts = [];
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT);
    while (walker.nextNode()) {
        const node = walker.currentNode;
        if (node.nodeType === Node.TEXT_NODE) {
            if (!node.parentElement.closest("code")) texts.push(node.textContent);
        } else {
            for (const name of ["title", "aria-label"]) {
                const text = node.tagName !== "CODE" && node.getAttribute(name);
                if (text) texts.push(text);
            }
        }
    }
    return texts;
}"""
EXPONENT = re.compile(r"\d[eE][+-]?\d")
MINUS = re.compile(r"(?<![\w.\]-])-\d")
RUN = re.compile(r"(?<![\w.:/,-])\d{4,}(?![\w-]*[:/])")
# Addresses and dates of sources, and the shapes of slices as `ml.mesh` takes them.
OTHERS = re.compile(r"https?://\S+|\b[A-Za-z]+ (19|20)\d\d\b|\b(19|20)\d\d(-\d\d)*\b|\b\d+[x*][\dx*]+|\d+ x \d+")


@pytest.fixture
def explorer() -> Explorer:
    Batch, Hidden, Out = ml.dims(batch=1 << 20, hidden=1 << 18, out=1 << 18)

    def step(weights: ml.Tensor, data: ml.Tensor) -> object:
        return ml.relu(ml.dot(data, weights, Hidden))

    program = ml.trace(step, ml.f32[Hidden, Out], ml.f32[Batch, Hidden])
    explorer = explore(program, ml.mesh("v5p:16x16x16", data=64, model=64), "batch:data")
    explorer.load("batch:data hidden:model")
    explorer.load("hidden:model")
    explorer.beside("start")
    explorer.view()
    return explorer


def wrong(texts: list[str]) -> list[str]:
    texts = [OTHERS.sub("", text) for text in texts]
    return [text for text in texts if EXPONENT.search(text) or MINUS.search(text) or RUN.search(text)]


def test_no_number_has_another_format(open_board, explorer: Explorer) -> None:
    board = open_board()
    for tab in ("devices", "traffic", "memory", "time", "compare", "run"):
        panel = board.show(tab)
        panel.locator("details").evaluate_all("all => all.forEach(each => { each.open = true; })")
        assert wrong(board.root.evaluate(TEXTS)) == [], tab
    with board.next_revision():
        board.button("undo").click()
    assert wrong(board.root.evaluate(TEXTS)) == []


def test_the_sweep_finds_what_it_is_for() -> None:
    bad = ["1.29e+04 s", "-12700 s", "4096 devices", "by -5", "+2157"]
    assert wrong(bad) == bad
    assert wrong(["12,900 s", "−12,700 s", "4,096 devices", "model.py:1234", "in 2024", "v5p-8"]) == []
