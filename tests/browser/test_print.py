"""Figures for print in a real browser: no text is wider than Python took it to be, in whatever font it is drawn."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from meshlab.widgets.render.print.figures import FIGURES
from tests.widgets.printed import BOARDS
from tests.widgets.render.print.test_print_figures import WITHOUT

FONTS = ("", "DejaVu Sans", "Liberation Sans")
BOXES = """font => [...document.querySelectorAll("svg text")].map(text => {
    if (font && !text.hasAttribute("font-family")) text.style.fontFamily = font;
    return text.getComputedTextLength();
})"""


@pytest.mark.parametrize("board", BOARDS)
def test_no_text_is_wider_than_its_place(chromium: Browser, board: str) -> None:
    explorer = BOARDS[board]()
    page = chromium.new_page()
    try:
        for name in FIGURES:
            if name in WITHOUT[board] or (board, name) == ("mixtral", "comparison"):
                continue
            figure = explorer.figure(name, width_mm=85)
            page.set_content(figure.svg)
            for font in FONTS:
                lengths = page.evaluate(BOXES, font)
                assert len(lengths) == len(figure.written)
                for written, long in zip(figure.written, lengths, strict=True):
                    box = written.box
                    room = max(box.right - box.left, box.bottom - box.top)
                    assert long <= room + 0.05, (name, font, written)
    finally:
        page.close()
