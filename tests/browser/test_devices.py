"""The picture of devices: on meshes of any size nothing in it overlaps, and nothing is cut."""

from __future__ import annotations

import pytest

import meshlab as ml
from meshlab.widgets.explorer import Explorer, explore

# Boxes of everything that is written or drawn in the grids, as [left, top, right, bottom].
BOXES = """panel => {
    const box = (element) => {
        const range = document.createRange();
        range.selectNodeContents(element);
        const { left, top, right, bottom } = (element.childElementCount ? element : range).getBoundingClientRect();
        return [left, top, right, bottom];
    };
    const tiles = [...panel.querySelectorAll(".mlb-tile")];
    const texts = (tile) => [...tile.querySelectorAll(".mlb-tile-head > *, .mlb-slice, .mlb-range")];
    return {
        room: panel.clientWidth - panel.scrollWidth,
        tiles: tiles.map(tile => ({ box: box(tile), texts: texts(tile).filter(e => e.checkVisibility()).map(box) })),
    };
}"""


WIDTHS = (600, 1000, 1280, 1920)


@pytest.fixture
def explorer(axes: dict[str, int]) -> Explorer:
    """An Explorer of one tensor of which each device has a slice of its own, so that letters are as long as can be."""
    Batch, Hidden = ml.dims(batch=1 << 16, hidden=1 << 16)
    program = ml.trace(ml.relu, ml.f32[Batch, Hidden])
    names = list(axes)
    half = (len(names) + 1) // 2
    explorer = explore(program, ml.mesh(**axes), {"batch": tuple(names[:half]), "hidden": tuple(names[half:])})
    explorer.select(next(iter(program.places)))
    return explorer


def overlap(one: list[float], other: list[float]) -> bool:
    return all(min(one[i + 2], other[i + 2]) - max(one[i], other[i]) > 0.5 for i in (0, 1))


def inside(one: list[float], other: list[float]) -> bool:
    return all(one[i] >= other[i] - 0.5 and one[i + 2] <= other[i + 2] + 0.5 for i in (0, 1))


@pytest.mark.parametrize("pair", [False, True], ids=["alone", "beside"])
@pytest.mark.parametrize(
    "axes",
    [
        {"data": 2, "model": 4},
        {"data": 2, "fsdp": 2, "expert": 2, "model": 2},
        {"data": 8, "model": 8},
        {"data": 4, "model": 16},
        {"data": 8, "fsdp": 8, "model": 8},
        {"data": 64, "model": 64},
        {"data": 256, "model": 256},
    ],
    ids=lambda axes: "x".join(map(str, axes.values())),
)
def test_nothing_overlaps_and_nothing_is_cut(open_board, explorer: Explorer, axes: dict[str, int], pair: bool) -> None:
    if pair:
        explorer.beside("")
    board = open_board()
    panel = board.show("devices")
    for width in WIDTHS:
        board.blank.view.set_viewport_size({"width": width, "height": 800})
        drawn = panel.evaluate(BOXES)
        assert drawn["room"] >= 0
        assert len(drawn["tiles"]) == min(64, explorer.mesh.size) * (1 + pair)
        boxes = [tile["box"] for tile in drawn["tiles"]]
        assert [i for i, box in enumerate(boxes) if any(overlap(box, other) for other in boxes[:i])] == []
        for number, tile in enumerate(drawn["tiles"]):
            texts = tile["texts"]
            assert all(inside(text, tile["box"]) for text in texts), f"tile {number} is too small for {texts}"
            assert not any(overlap(one, other) for i, one in enumerate(texts) for other in texts[:i]), f"tile {number}"
        name = "x".join(map(str, axes.values()))
        board.blank.shot(f"devices-{name}-{width}{'-beside' * pair}", full=True)
