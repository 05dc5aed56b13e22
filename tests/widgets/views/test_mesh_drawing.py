"""The drawing of a mesh on its machine: as many chips and links as there are, in the marks of the mesh axes."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

import meshlab as ml
from meshlab.widgets.render import palette
from meshlab.widgets.views.mesh_drawing import picture_of
from meshlab.widgets.views.mesh_drawing_nodes import Rows
from tests.widgets.state.test_machines import own

COLOURS = Path(palette.__file__).parents[1] / "js" / "src" / "colours.css"


def boxes(picture: dict, style: str) -> list[dict]:
    return [shape for shape in picture["shapes"] if shape["is"] == "rect" and shape["as"] == style]


def strokes(picture: dict, style: str) -> dict[str, int]:
    paths = [shape for shape in picture["shapes"] if shape["is"] == "path" and shape["as"] == style]
    return {shape["key"]: shape["d"].count("M") for shape in paths}


def words(picture: dict) -> list[str]:
    return [shape["text"] for shape in picture["shapes"] if shape["is"] == "text"]


def test_a_slice_that_does_not_wrap() -> None:
    picture = picture_of(ml.mesh("v5e:4x4", data=4, model=4))
    assert len(boxes(picture, "chip")) == 16
    assert strokes(picture, "link") == {"data": 12, "model": 12}
    assert strokes(picture, "hook") == {}
    assert sorted(words(picture)) == ["data 4 →", "model 4 →"]
    assert boxes(picture, "chip")[5]["title"] == "chip 1 1: data 1, model 1"
    assert picture["left_out"] == ""


def test_links_that_wrap_have_hooks_at_both_ends() -> None:
    picture = picture_of(ml.mesh("v5e:16x16", data=16, model=16))
    assert len(boxes(picture, "chip")) == 256
    assert strokes(picture, "link") == {"data": 240, "model": 240}
    assert strokes(picture, "hook") == {"data": 32, "model": 32}


def test_axes_that_share_a_direction() -> None:
    # Of the eight rows' hops, two of three are between neighbours of `model`, and one between blocks of it.
    picture = picture_of(ml.mesh("v5e:4x4", data=8, model=2))
    assert strokes(picture, "link") == {"data": 12 + 4, "model": 8}
    assert sorted(words(picture)) == ["data 2 →", "data 4 →", "model 2 →"]


def test_a_cube_is_drawn_in_layers() -> None:
    picture = picture_of(ml.mesh("v5p:4x4x4", data=16, model=4))
    assert len(boxes(picture, "chip")) == 64
    assert [text for text in words(picture) if text.startswith("layer")] == [f"layer {n}" for n in range(4)]
    assert "model 4, from layer to layer" in words(picture)
    # In each of four layers 12 links across and 12 down, 16 hooks each way; three joints between layers.
    assert strokes(picture, "link") == {"data": 96, "model": 3}
    assert strokes(picture, "hook") == {"data": 64, "model": 2}


def test_other_requests_are_another_picture() -> None:
    mesh = ml.mesh("v5p:4x4x4", data=16, model=4)
    assert picture_of(ml.lay(mesh, model=2)) != picture_of(mesh)
    assert "data 4, from layer to layer" in words(picture_of(ml.lay(mesh, model=2)))


def test_one_block_of_a_large_slice() -> None:
    picture = picture_of(ml.mesh("v5p:8x16x16", data=128, model=16))
    assert len(boxes(picture, "chip")) == 64
    assert picture["left_out"] == "One block of 4x4x4 chips, of 8x16x16 (2,048 chips)."
    assert strokes(picture, "hook") == {}


def test_several_slices_and_chips_of_several_devices() -> None:
    slices = picture_of(ml.mesh("v5e:3*2x2", data=12))
    assert len(boxes(slices, "slice")) == 3
    assert "× 3 slices, over the data-centre network:" in words(slices)
    assert "data 3" in words(slices)
    pairs = picture_of(ml.mesh("v2:2x2", data=4, model=2))
    assert len(boxes(pairs, "device")) == 2 * len(boxes(pairs, "chip")) == 8
    assert strokes(pairs, "within") == {"model": 4}
    assert "model 2, the devices of a chip" in words(pairs)


def test_nodes_are_boxes_of_devices() -> None:
    picture = picture_of(ml.mesh("h100:4x8", data=4, model=8))
    assert [len(boxes(picture, style)) for style in ("node", "chip", "switch")] == [4, 32, 4]
    assert strokes(picture, "link") == {"model": 28}
    assert strokes(picture, "net") == {"data": 3}
    assert words(picture)[-4:] == ["inside a node", "model 8", "over nodes", "data 4"]
    assert boxes(picture, "chip")[9]["title"] == "device 1 of node 1: model 1"
    across = picture_of(ml.lay(ml.mesh("h100:8x8", data=8, model=8), model="across"))
    assert strokes(across, "net") == {"model": 7}
    alone = picture_of(ml.mesh("l4", data=2))
    assert [len(boxes(alone, style)) for style in ("node", "chip", "switch")] == [2, 2, 0]


def test_the_first_of_many_nodes() -> None:
    picture = picture_of(ml.mesh("h100", data=128, model=8))
    assert len(boxes(picture, "node")) == 8
    assert picture["left_out"] == "The first 8 of 128 nodes."


@pytest.mark.parametrize(
    ("parts", "most"),
    [([("a", 8)], 4), ([("a", 2), ("b", 6)], 4), ([("a", 72)], 12), ([], 5), ([("a", 3), ("b", 1)], 9)],
)
def test_neighbours_stay_neighbours(parts: list[tuple[str, int]], most: int) -> None:
    rows = Rows.of(parts, most)
    assert rows.wide <= most
    places = {rows.where(number) for number in range(rows.count)}
    assert len(places) == rows.count == math.prod(size for _, size in parts)
    last = parts[-1][0] if parts else ""
    for number in range(rows.count):
        index = number % parts[-1][1] if parts else 0
        beside = [name for name, _ in rows.neighbours(number)]
        assert (last in beside) == bool(parts and index + 1 < parts[-1][1])


@pytest.mark.parametrize(
    ("machine", "axes"),
    [
        ("v5e", {"data": 4, "model": 4}),
        ("v5e:1x16", {"data": 16}),
        ("v7x:4x4x4", {"data": 64, "model": 2}),
        ("v5e:2*16x16", {"data": 32, "model": 16}),
        ("gb200", {"data": 2, "model": 72}),
        ("h100", {"pod": 4, "data": 8, "model": 16}),
        ("cpu", {"data": 64}),
        ("v5e", {}),
        ("h100", {}),
    ],
)
def test_everything_lies_on_the_sheet(machine: str, axes: dict[str, int]) -> None:
    mesh = ml.mesh(machine, **axes)
    picture = picture_of(mesh)
    assert 1 <= len(boxes(picture, "chip")) <= 256
    assert picture["width"] <= 720
    for shape in picture["shapes"]:
        if shape["is"] == "rect":
            assert 0 <= shape["x"] <= shape["x"] + shape["w"] <= picture["width"]
            assert 0 <= shape["y"] <= shape["y"] + shape["h"] <= picture["height"]
        if shape["is"] == "path":
            assert shape["key"] in mesh.axes
            for x, y in re.findall(r"[ML]([-\d.]+) ([-\d.]+)", shape["d"]):
                assert 0 <= float(x) <= picture["width"]
                assert 0 <= float(y) <= picture["height"]
    for name, size in mesh.shape:
        assert size == 1 or any(text.startswith(f"{name} ") for text in words(picture))


def test_a_machine_of_ones_own_is_drawn() -> None:
    picture = picture_of(ml.mesh(own(), data=4, model=2))
    assert len(boxes(picture, "chip")) == 8


def test_links_have_the_dashes_of_the_board() -> None:
    dashes = re.findall(r"--dash: ([^;]+);", COLOURS.read_text(encoding="utf-8"))
    assert tuple("" if each == "none" else each for each in dashes) == palette.DASH
