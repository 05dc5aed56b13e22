"""Figures for print in a real browser: no text is wider than Python took it to be, in whatever font it is drawn."""

from __future__ import annotations

import plotly.graph_objects as go
import pytest
from playwright.sync_api import Browser

from meshlab.widgets.render.palette import coloured
from meshlab.widgets.render.print.figures import FIGURES
from meshlab.widgets.views.charts.losses import Losses, losses_chart
from tests.widgets.printed import BOARDS, of_digits
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


# Boxes of texts of a Plotly figure that overlap: its title is one text, whose lines are its parts.
OVERLAPS = """() => {
    const kinds = ".gtitle .line, .annotation-text, .legendtext, .xtick text, .ytick text";
    const boxes = [...document.querySelectorAll(kinds)].map(each => [each.textContent, each.getBoundingClientRect()]);
    const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2;
    return {
        count: boxes.length,
        meet: boxes.flatMap(([one, a], i) =>
            boxes.slice(i + 1).filter(([, b]) => meet(a, b)).map(([other]) => [one, other])),
        cut: boxes.filter(([, a]) => a.left < 0 || a.right > innerWidth || a.top < 0).map(([text]) => text),
    };
}"""


@pytest.mark.parametrize("name", ["moments", "roofline", "loss", "time", "memory"])
def test_charts_in_a_narrow_dark_cell_are_read(chromium: Browser, name: str) -> None:
    page = chromium.new_page(viewport={"width": 620, "height": 560})
    try:
        drawn = of_digits().figure(name).to_html(full_html=False, include_plotlyjs=True)
        page.set_content(f'<body style="background:#111;margin:0">{drawn}')
        page.locator(".plot-container .gtitle").wait_for()
        page.wait_for_function("() => document.querySelectorAll('.ytick text').length > 0")
        seen = page.evaluate(OVERLAPS)
        assert seen["count"] > 3
        assert (seen["meet"], seen["cut"]) == ([], [])
        assert page.locator(".main-svg").first.evaluate("each => each.style.background") == "rgb(255, 255, 255)"
    finally:
        page.close()


def test_a_logarithmic_loss_has_values_that_do_not_meet_and_its_symbol_in_the_legend(chromium: Browser) -> None:
    page = chromium.new_page(viewport={"width": 620, "height": 400})
    try:
        for orders in (1.2, 2, 3, 7):
            runs = [Losses(n, "", [10 ** (0.4 - orders * i / 59) for i in range(60)], n == 1) for n in (1, 2)]
            chart = losses_chart(runs)
            assert chart is not None
            drawn = go.Figure(coloured({"data": chart["data"], "layout": chart["layout"]}))
            page.set_content(drawn.to_html(full_html=False, include_plotlyjs=True))
            page.locator(".legendpoints path").nth(1).wait_for()
            seen = page.evaluate(OVERLAPS)
            assert (seen["meet"], seen["cut"]) == ([], []), orders
            assert page.locator(".ytick text").count() >= 3, orders
            sizes = page.locator(".legendpoints path").evaluate_all(
                "all => all.map(e => e.getBoundingClientRect().width)"
            )
            assert min(sizes) > 5, "the symbol of each run is seen in the legend"
    finally:
        page.close()
