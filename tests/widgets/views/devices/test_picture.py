"""Who holds what, read from what is drawn: the index ranges of each cell are those of the plan, on every machine."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import numpy as np
import pytest

import meshlab as ml
from meshlab.api.stages import Plan, Program
from meshlab.engine.verifying import random_layouts
from meshlab.models import zoo
from meshlab.widgets.views.devices.arrangement import MOST, arrange
from meshlab.widgets.views.devices.holdings import holdings_view
from meshlab.widgets.views.devices.picture import devices_picture
from meshlab.widgets.views.devices.sites import sites_of
from meshlab.widgets.views.devices.tensor_blocks import blocks_view
from tests.widgets import small

pytestmark = pytest.mark.share(2, of="file")

MODELS = ("transformer_adamw", "mlp", "unet3d", "moe", "decoding")
A, B, C = ml.dims(a=4096, b=4096, c=64)
MESHES = {
    "2": ml.mesh(data=2),
    "2x4": ml.mesh(data=2, model=4),
    "4-D": ml.mesh(a=2, b=2, c=2, d=2),
    "64 in lines": ml.mesh(data=64),
    "torus 2-D": ml.mesh("v5e:8x8", data=8, model=8),
    "torus 3-D": ml.mesh("v5p:4x4x4", data=8, model=8),
    "two devices a chip": ml.mesh("v3", data=4, model=4),
    "nodes": ml.mesh("h100", data=4, model=8),
    "nodes, two axes inside": ml.mesh("h100", data=8, model=4),
    "slices": ml.mesh("v5e:2*4x4", data=8, model=4),
    "512 on two slices": ml.mesh("v5e:2*16x16", data=32, model=16),
    "placed by hand": ml.lay(ml.mesh(data=4, model=4), "v5e:4x4", data=1, model=0),
}


def program() -> Program:
    return ml.trace(lambda x: x * 2.0, ml.f32[A, B, C])


def drawn(plan: Plan, place: str) -> dict[int, tuple[tuple[int, int], ...]]:
    """Returns the index ranges that the picture shows of each device."""
    picture, view = devices_picture(plan.mesh), holdings_view(plan, place)
    devices = picture["cells"]["devices"]
    assert len(devices) == len(view["held"]) == len(picture["cells"]["x"])
    numbers = [np.unravel_index(held, view["parts"]) if view["parts"] else () for held in view["held"]]
    return {
        device: tuple((edges[n], edges[n + 1]) for edges, n in zip(view["edges"], number, strict=True))
        for device, number in zip(devices, numbers, strict=True)
    }


@pytest.mark.parametrize("name", MESHES)
def test_every_device_is_drawn_with_what_it_holds(name: str) -> None:
    mesh = MESHES[name]
    traced = program()
    axes = list(mesh.axes)
    choose = random.Random(name)
    layouts = [{}, {"a": axes[0]}, {"c": axes[-1]}]
    if len(axes) > 1:
        layouts += [{"a": tuple(axes)}, {"a": tuple(reversed(axes))}, {"a": axes[0], "c": axes[1]}]
    for layout in [*layouts, dict(zip("abc", choose.sample(axes, min(3, len(axes))), strict=False))]:
        plan = traced.plan(mesh, layout)
        assert drawn(plan, "x") == {device: plan.shard("x", device) for device in range(mesh.size)}


def test_what_is_padded_ends_where_the_tensor_ends() -> None:
    Odd, Other = ml.dims(odd=10, other=4)
    traced = ml.trace(lambda x: x * 2.0, ml.f32[Odd, Other])
    plan = traced.plan(ml.mesh(data=4), "odd:data", pad=True)
    assert holdings_view(plan, "x")["edges"][0] == [0, 3, 6, 9, 10]
    plan = traced.plan(ml.mesh(data=8), "odd:data", pad=True)
    ranges = drawn(plan, "x")
    assert ranges == {device: plan.shard("x", device) for device in range(8)}
    assert ranges[7][0] == (10, 10)  # all padding


@pytest.mark.parametrize(("axes", "on"), [({"a": 16, "b": 16, "c": 16}, None), ({"data": 64, "model": 64}, "v5p")])
@pytest.mark.parametrize("layout", [{}, {"a": 0}, {"a": 0, "b": 1}])
def test_a_block_of_many_devices_has_their_slices(axes: dict, on: str | None, layout: dict) -> None:
    mesh = ml.mesh(on, **axes) if on else ml.mesh(**axes)
    plan = program().plan(mesh, {dim: list(axes)[axis] for dim, axis in layout.items()})
    check_blocks(plan, sample=None)


@pytest.mark.parametrize("on", [None, "h100"])
def test_65_536_devices(on: str | None) -> None:
    mesh = ml.mesh(on, data=256, model=256) if on else ml.mesh(data=256, model=256)
    check_blocks(program().plan(mesh, {"a": ("model", "data")[:1], "b": "data"}), sample=40)


def check_blocks(plan: Plan, sample: int | None) -> None:
    """Checks each cell's devices and slices against the plan's, or those of a few cells."""
    sites = sites_of(plan.mesh)
    arranged = arrange(sites)
    view: Any = holdings_view(plan, "x")
    assert math.prod(arranged.counts) <= MOST
    assert not arranged.whole
    cells = list(arranged.numbers())
    covered = 0
    chosen = range(len(cells)) if sample is None else random.Random(0).sample(range(len(cells)), sample)
    for cell in chosen:
        box = arranged.box(cells[cell])
        inside = np.all([(lo <= p) & (p < hi) for (lo, hi), p in zip(box, sites.positions.T, strict=True)], axis=0)
        devices = np.flatnonzero(inside)
        covered += len(devices)
        ranges = {plan.shard("x", int(device)) for device in devices}
        assert view["kinds"][cell] == len(ranges)
        shown = {
            tuple((e[n], e[n + 1]) for e, n in zip(view["edges"], np.unravel_index(held, view["parts"]), strict=True))
            for held in view["held"][cell]
        }
        assert shown <= ranges
        assert len(shown) == min(len(ranges), len(view["held"][cell]))
    if sample is None:
        assert covered == plan.mesh.size


def test_a_window_shows_the_devices_of_a_block() -> None:
    mesh = ml.mesh("v5p", data=64, model=64)
    plan = program().plan(mesh, {"a": "data", "b": "model"})
    whole = arrange(sites_of(mesh))
    window = whole.box(next(iter(whole.numbers())))
    picture, view = devices_picture(mesh, window), holdings_view(plan, "x", window)
    devices = picture["cells"]["devices"]
    assert len(devices) == picture["shown"] == math.prod(high - low for low, high in window)
    for device, held in zip(devices, view["held"], strict=True):
        numbers = np.unravel_index(held, view["parts"])
        assert plan.shard("x", device) == tuple(
            (edges[n], edges[n + 1]) for edges, n in zip(view["edges"], numbers, strict=True)
        )


@pytest.mark.parametrize("name", MESHES)
def test_cells_are_apart_and_on_the_sheet(name: str) -> None:
    picture = devices_picture(MESHES[name])
    cells = picture["cells"]
    boxes = list(zip(cells["x"], cells["y"], strict=True))
    assert len(set(boxes)) == len(boxes) == MESHES[name].size
    near = sorted(boxes)
    for (x0, y0), (x1, y1) in itertools.pairwise(near):
        assert x1 - x0 >= cells["w"] - 0.2 or abs(y1 - y0) >= cells["h"] - 0.2
    assert max(x for x, _ in boxes) + cells["w"] <= picture["width"]
    assert max(y for _, y in boxes) + cells["h"] <= picture["height"]


@pytest.mark.parametrize("name", ["torus 2-D", "torus 3-D", "64 in lines", "nodes", "512 on two slices"])
def test_lines_of_small_cells_say_with_which_device_they_begin_and_end(name: str) -> None:
    picture = devices_picture(MESHES[name])
    cells = picture["cells"]
    numbers: list[Any] = [shape for shape in picture["shapes"] if shape["as"] == "number"]
    at = dict(zip(zip(cells["x"], cells["y"], strict=True), cells["devices"], strict=True))
    assert numbers
    for shape in numbers:
        # The cell that is nearest in the same line, to the right of what begins and to the left of what ends.
        line = [(x, device) for (x, y), device in at.items() if y < shape["y"] < y + cells["h"] + 3]
        end = shape["x"] + 4.6 * len(shape["text"])
        before = [(shape["x"] - x - cells["w"], device) for x, device in line if x + cells["w"] <= shape["x"]]
        after = [(x - end, device) for x, device in line if x >= end - 0.2]
        assert str(min(before + after)[1]) == shape["text"]
    boxes = sorted((shape["y"], shape["x"], 4.6 * len(shape["text"])) for shape in numbers)
    for (y0, x0, wide), (y1, x1, _) in itertools.pairwise(boxes):
        assert y1 - y0 >= 7.9 or x1 >= x0 + wide


def test_large_cells_have_their_numbers_inside() -> None:
    for name in ("2", "2x4"):
        assert not [shape for shape in devices_picture(MESHES[name])["shapes"] if shape["as"] == "number"]


def test_links_join_neighbours_of_a_mesh_axis() -> None:
    picture: Any = devices_picture(ml.mesh("v5e:2x4", data=2, model=4))
    links = {shape["key"]: shape["d"].count("M") for shape in picture["shapes"] if shape.get("as") == "link"}
    assert links == {"model": 2, "data": 4}  # one line for each row, and each column
    assert not [shape for shape in devices_picture(ml.mesh(data=2, model=4))["shapes"] if shape.get("as") == "link"]


def test_a_node_is_called_by_the_indices_that_it_has() -> None:
    """Of an axis that is inside of nodes too, device 8 was in "data 1"."""
    for mesh, nodes in (
        (ml.mesh("h100:2x8", data=8, model=2), ["data 0–3", "data 4–7"]),
        (ml.mesh("h100:2x8", data=2, model=8), ["data 0", "data 1"]),
    ):
        picture: Any = devices_picture(mesh)
        notes = [shape["text"] for shape in picture["shapes"] if shape.get("as") == "note"]
        assert notes == nodes


def test_the_tensor_is_drawn_in_its_slices() -> None:
    plan = program().plan(ml.mesh(data=2, model=4), {"a": "data", "b": "model"})
    view = holdings_view(plan, "x")
    blocks = blocks_view(view)
    assert sorted(blocks["slices"]) == list(range(8))
    assert (blocks["down"], blocks["across"], blocks["facets"], blocks["whole"]) == (0, 1, [], [2])
    area = sum(w * h for w, h in zip(blocks["w"], blocks["h"], strict=True))
    assert area == pytest.approx(blocks["width"] * blocks["height"], rel=0.01)


def test_blocks_of_the_tensor_have_room_for_letters_where_the_drawing_has() -> None:
    plan = program().plan(ml.mesh(data=16), {"c": "data"})
    blocks = blocks_view(holdings_view(plan, "x"))
    assert min(blocks["w"]) >= 7.4
    plan = program().plan(ml.mesh(data=64), {"c": "data"})
    blocks = blocks_view(holdings_view(plan, "x"))
    assert blocks["width"] == pytest.approx(120)


@pytest.mark.parametrize("model", [m for m in zoo.models() if m.name in MODELS], ids=lambda model: model.name)
def test_every_tensor_of_a_model_is_drawn_as_the_plan_shards_it(model: zoo.Model) -> None:
    traced = model.trace()
    for mesh, layout in random_layouts.draw(traced, 3, 4, pad=True):
        plan = traced.plan(mesh, layout, pad=True)
        for place in traced.places:
            view = holdings_view(plan, place)
            assert sorted(blocks_view(view)["slices"]) == list(range(view["slices"]))
            assert drawn(plan, place) == {device: plan.shard(place, device) for device in range(mesh.size)}


def test_a_scalar_is_one_block() -> None:
    plan = small.program().plan(small.mesh(), "batch:data")
    blocks = blocks_view(holdings_view(plan, "out/0"))
    assert (len(blocks["slices"]), blocks["down"], blocks["across"]) == (1, -1, -1)
