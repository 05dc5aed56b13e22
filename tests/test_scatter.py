"""Figures of predicted against measured: where points are, that all are drawn, and that none needs its colour."""

import dataclasses
import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from benchmarks import scatter
from benchmarks.scatter import Axes, Series, marker
from meshlab.cost.machines.units import seconds_text
from tests.widgets.render.test_palettes import colours, contrast

SVG = "{http://www.w3.org/2000/svg}"
SERIES = [
    Series("v4", "× 1.35", [(28.4, 29.3), (41.9, 40.6)], aside=[(29.2, 29.5)]),
    Series("h100", "", [(0.5, 0.4), (1.27, 1.22), (16.3, 16.1)]),
]


def drawn(series=SERIES, **given):
    options = {"title": "Steps <all>", "note": "five", "axes": ("measured", "predicted"), "text": seconds_text}
    return ElementTree.fromstring(scatter.scatter(series, **options | given))


def marks(figure, kind):
    """Where the marks of each machine begin, without those of the legend."""
    paths = [path for path in figure.iter(f"{SVG}path") if kind in path.get("class", "").split()]
    found = {}
    for path in paths:
        starts = [(float(x), float(y)) for x, y in re.findall(r"M([\d.]+) ([\d.]+)", path.get("d"))]
        if starts[0][0] < scatter.LEFT + scatter.SIDE:
            found[path.get("class").split()[0]] = starts
    return found


def test_places_are_logarithms_on_one_scale():
    axes = Axes(0.1, 1000.0)
    assert axes.place(0.1, 0.1) == (scatter.LEFT, scatter.TOP + scatter.SIDE)
    assert axes.place(1000, 1000) == pytest.approx((scatter.LEFT + scatter.SIDE, scatter.TOP))
    x, y = axes.place(1, 100)
    assert x == pytest.approx(scatter.LEFT + scatter.SIDE / 4)
    assert y == pytest.approx(scatter.TOP + scatter.SIDE / 4)


def test_every_point_is_drawn_where_its_values_are():
    figure, axes = drawn(), Axes.around(SERIES)
    for kind, of in (("full", "points"), ("aside", "aside")):
        placed = marks(figure, kind)
        assert placed
        assert len(placed) == sum(bool(getattr(each, of)) for each in SERIES)
        for each in SERIES:
            places = [axes.place(*point) for point in getattr(each, of)]
            begins = [marker(each.look, x, y, 4.6).partition("l")[0].partition("a")[0] for x, y in places]
            expected = [tuple(map(float, begin[1:].split())) for begin in begins]
            assert placed.get(f"s{each.look}", []) == expected
            assert all(math.dist(start, place) < 7 for start, place in zip(expected, places, strict=True))


def test_all_of_many_points_are_drawn_and_smaller():
    values = np.geomspace(1e-6, 1e-2, scatter.FEW + 1)
    (starts,) = marks(drawn([Series("h100", "", [(each, 1.1 * each) for each in values])]), "full").values()
    assert len(starts) == len(values)
    figure = scatter.scatter(
        [Series("h100", "", [(1.0, 1.0)] * (scatter.FEW + 1))], title="", note="", axes=("", ""), text=seconds_text
    )
    centre = scatter.LEFT + scatter.SIDE / 2, scatter.TOP + scatter.SIDE / 2
    assert figure.count(marker(0, *centre, 2)) == scatter.FEW + 1


@pytest.mark.parametrize("series", [SERIES, [Series("v4", "", [(1.0, 300.0)])], [Series("v4", "", [(2.0, 2.0)])]])
def test_all_points_are_within_the_axes(series):
    axes, values = Axes.around(series), [value for each in series for value in each.values]
    assert values
    assert all(axes.low < value < axes.high for value in values)


def test_the_band_is_clipped_to_the_axes_and_is_a_share_wide():
    axes = Axes(1.0, 100.0)
    corners = axes.band(0.15)
    for x, y in corners:
        assert scatter.LEFT - 1e-9 <= x <= scatter.LEFT + scatter.SIDE + 1e-9
        assert scatter.TOP - 1e-9 <= y <= scatter.TOP + scatter.SIDE + 1e-9
    for edge in ((1, 1.15), (100 / 1.15, 100), (100, 85), (1 / 0.85, 1), (1, 1), (100, 100)):
        assert any(corner == pytest.approx(axes.place(*edge)) for corner in corners)
    assert len(corners) == 6


def test_ticks_are_round_and_say_their_unit():
    assert Axes(0.4, 150.0).ticks() == [0.5, 1, 2, 5, 10, 20, 50, 100]
    assert Axes(2e-6, 5e-2).ticks() == [1e-5, 1e-4, 1e-3, 1e-2]
    texts = [text.text for text in drawn([Series("v4", "", [(2e-6, 5e-2)])]).iter(f"{SVG}text")]
    for value in ("10 µs", "100 µs", "1 ms", "10 ms"):
        assert texts.count(value) == 2


def test_machines_differ_in_shape_and_in_colour():
    count = len(scatter.MACHINES)
    assert len(scatter.SHAPES) == len(scatter.COLOURS) == count
    assert len({marker(look, 100, 100, 4.6) for look in range(count)}) == count
    for theme, card in enumerate(scatter.CARDS):
        palette = [colour[theme] for colour in scatter.COLOURS]
        assert len(set(palette)) == count
        assert min(contrast(colour, card) for colour in palette) >= 3
    for theme, name in enumerate(("light", "dark")):
        board = colours(name)
        assert [colour[theme] for colour in scatter.COLOURS[:6]] == [board[f"solid-{i}"] for i in range(6)]
        assert scatter.CARDS[theme] == board["card"]


def test_a_figure_says_what_it_shows():
    figure = drawn()
    texts = [text.text for text in figure.iter(f"{SVG}text")]
    assert figure.findtext(f"{SVG}title") == "Steps <all>: predicted against measured, five"
    for said in ("Steps <all>", "five", "measured", "predicted", "v4 × 1.35", "h100", "hollow: not judged"):
        assert texts.count(said) == 1
    assert texts[-2:] == ["predicted as measured", "within 15% of it"]
    without = [dataclasses.replace(each, aside=()) for each in SERIES]
    assert "hollow: not judged" not in [text.text for text in drawn(without).iter(f"{SVG}text")]


def test_a_figure_has_colours_for_light_and_for_dark():
    style = drawn().findtext(f"{SVG}style") or ""
    light, dark = style.split("@media(prefers-color-scheme:dark)")
    for theme, rules in enumerate((light, dark)):
        assert f".card{{fill:{scatter.CARDS[theme]}}}" in rules
        assert f".s{SERIES[0].look}{{fill:{scatter.COLOURS[SERIES[0].look][theme]}" in rules
        assert f".aside{{fill:{scatter.CARDS[theme]}}}" in rules
