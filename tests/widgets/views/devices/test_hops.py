"""Hop by hop, as the page draws it: the bytes are the plan's, and at the end each device holds what the plan says."""

from __future__ import annotations

import itertools
import json
import math
import pathlib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

import meshlab as ml
import meshlab.widgets
from meshlab.engine.collectives.kinds import KINDS
from meshlab.engine.plans.collective import Collective
from meshlab.engine.specs.mesh import Mesh
from meshlab.engine.specs.spec import Spec
from meshlab.engine.verifying.random_layouts import draw, draw_in_turn
from meshlab.models import zoo
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.state.selection import identities, place_moved
from meshlab.widgets.views.devices.holdings import holdings_view, slices_of
from meshlab.widgets.views.devices.hops import FIRST, MOST_DEVICES, hops_view
from tests.widgets import small

PLAYED = pathlib.Path(meshlab.widgets.__file__).parent / "js" / "test" / "hops.json"
MODELS = {model.name: model for model in zoo.models()}


def views(explorer: Explorer, device: int = 0) -> Iterator[tuple[Collective, Any]]:
    plan = explorer.plan
    for found, name in zip(plan.collectives, identities(plan), strict=True):
        yield found, hops_view(explorer, name, device)


def played(view: Any) -> list[dict[int, dict[int, int]]]:
    """What each device holds before and after each hop, as the page finds it: pieces, with the number of addends."""
    held = {device: dict.fromkeys(pieces, 1) for device, pieces in zip(view["devices"], view["start"], strict=True)}
    states = [{device: dict(each) for device, each in held.items()}]
    for hop in view["hops"]:
        for source, _, piece, _ in hop["transfers"]:
            if not hop["keeps"] and source in held:
                del held[source][piece]
        for _, target, piece, addends in hop["transfers"]:
            if target in held:
                held[target][piece] = addends
        states.append({device: dict(each) for device, each in held.items()})
    return states


def shard_of(spec: Spec, slices: Mapping[str, Any], mesh: Any, device: int) -> Counter:
    """The slices that a device holds of a tensor in a spec: those whose part along each axis lies in its own."""
    at, ranges = mesh.coordinates(device), []
    for axes, parts in zip(spec.splits, slices["parts"], strict=True):
        number, count = 0, 1
        for axis in axes:
            number, count = number * mesh.axes[axis] + at[axis], count * mesh.axes[axis]
        ranges.append(range(number * parts // count, (number + 1) * parts // count))
    return Counter(
        int(np.ravel_multi_index(each, slices["parts"])) if each else 0 for each in itertools.product(*ranges)
    )


def assert_ends_hold(plan: Any, found: Collective, view: Any) -> None:
    """Holds what is drawn before the first hop, and after the last one, against the specs of the plan."""
    kind, states = KINDS[found.kind], played(view)
    finished = view["size"] if kind.sums else 1
    for device in view["devices"]:
        before, after = states[0][device], states[-1][device]
        assert set(after.values()) <= {finished}
        if view["parts"] != "slices":
            # Equal parts of the whole operand: all of them, or that of the one who sends it here.
            assert len(after) == (view["size"] if kind.sums else 1) or found.moved is None
            continue
        numbers = [[view["pieces"][piece][0] for piece in each] for each in (before, after)]
        if found.moved is not None:
            assert Counter(numbers[0]) == shard_of(found.moved.start, view["slices"], plan.mesh, device)
            if kind.way == "pairs":  # as many blocks, cut by other mesh axes
                (piece,) = numbers[1]
                assert [piece] == list(shard_of(found.moved.result, view["slices"], plan.mesh, device))
            else:
                assert Counter(numbers[1]) == shard_of(found.moved.result, view["slices"], plan.mesh, device)
        # With padding, what is drawn is as much as the operand and the result of one device.
        answer = kind.answer(found.shape, found.asked, view["size"])
        volumes = [len(some) * math.prod(view["slices"]["step"]) for some in numbers]
        assert volumes == [math.prod(found.shape), math.prod(answer)]


def assert_bytes(found: Collective, view: Any) -> None:
    """Holds what each device that is drawn sends, hop by hop, against the wire bytes of the plan."""
    for device in view["devices"]:
        sent = sum(hop["bytes"] * sum(source == device for source, *_ in hop["transfers"]) for hop in view["hops"])
        assert sent == pytest.approx(found.wire_bytes, rel=1e-9)
    assert view["wire"] == found.wire_bytes


@pytest.mark.share(4)
@pytest.mark.parametrize("name", MODELS)
def test_after_the_last_hop_each_device_holds_what_the_plan_says(name: str) -> None:
    program = MODELS[name].trace()
    for mesh, layout, pad in draw_in_turn(program, seed=11, count=4):
        explorer = explore(program, mesh)
        explorer.pad(pad)
        assert explorer.load(layout)
        for device in (0, mesh.size - 1):
            for found, view in views(explorer, device):
                assert device in view["devices"]
                assert_ends_hold(explorer.plan, found, view)
                assert_bytes(found, view)


def of_kind(explorer: Explorer, kind: str, device: int = 0) -> tuple[Collective, Any]:
    return next((found, view) for found, view in views(explorer, device) if found.kind == kind)


def gathered(mesh: Any) -> Explorer:
    """Weights that are stored split over `data`, and gathered."""
    return explore(small.program(), mesh, {"batch": "data", "params/*": {"hidden": "data"}})


def test_pieces_have_the_numbers_that_devices_shows() -> None:
    """Of a weight that is gathered they are the slices of the weight as it is stored, on the devices that hold them."""
    explorer = gathered(ml.mesh(data=4, model=2))
    for device in range(8):
        found, view = of_kind(explorer, "all-gather", device)
        place = place_moved(found, explorer.program) or ""
        held = slices_of(explorer.plan, place)
        numbers = [view["pieces"][piece][0] for (piece,) in view["start"]]
        assert numbers == [held[each] for each in view["devices"]]
        holdings = holdings_view(explorer.plan, place)
        assert {name: view["slices"][name] for name in ("parts", "edges", "step")} == {
            name: holdings[name] for name in ("parts", "edges", "step")
        }


def test_the_group_is_that_of_the_device() -> None:
    explorer = gathered(ml.mesh(data=4, model=2))
    for device, devices in ((0, [0, 2, 4, 6]), (5, [1, 3, 5, 7])):
        _, view = of_kind(explorer, "all-gather", device)
        assert view["devices"] == devices
        assert view["groups"] == [{"device": 0, "name": "model 0"}, {"device": 1, "name": "model 1"}]


def test_each_hop_is_said_with_its_bytes() -> None:
    _, view = of_kind(gathered(ml.mesh(data=4, model=2)), "all-gather")
    assert [hop["text"] for hop in view["hops"]] == [
        "each device sends its slice, 256 B, to the next",
        "each device sends the slice that it just got, 256 B, to the next",
        "each device sends the slice that it just got, 256 B, to the next",
    ]
    assert view["formula"] == "(n − 1) × 256 B = 768 B"
    assert view["before"] == "params/w1 has `hidden` split over `data`."
    assert view["after"] == "params/w1 is whole on each device."
    _, view = of_kind(small.on_v5e(), "all-reduce")
    assert view["before"] == "logits is a partial sum over `model`, with `batch` split over `data`."
    assert view["hops"][0]["text"] == "each device sends 1/4 of its addend, 40 B, to the next, which adds its own"
    assert view["hops"][3]["text"] == "each device sends its finished part, 40 B, to the next"


def test_what_is_not_as_it_is_drawn_is_said() -> None:
    notes = {found.value: view["note"] for found, view in views(small.on_v5e())}
    assert notes["out/0"] == "It is one number, which cannot be cut: the plan counts 1/2 of it a hop."
    assert notes["logits"] == ""
    rows, cols = ml.dims(rows=8, cols=10)
    program = ml.trace(lambda x: x.sum(rows), ml.f32[rows, cols])
    found, view = of_kind(explore(program, ml.mesh(x=4), "rows:x"), "all-reduce")
    assert view["note"] == "4 does not divide its 10 numbers: the plan counts 2.5 a hop."
    assert_bytes(found, view)
    program = ml.trace(lambda x: ml.shift(x, "rows", 1), ml.f32[rows, cols])
    _, view = of_kind(explore(program, ml.mesh(x=4), "rows:x"), "collective-permute")
    assert view["note"] == "The plan counts the same for devices that send nothing: the step waits for the others."


@pytest.mark.parametrize(("size", "drawn"), [(16, 16), (32, FIRST), (256, FIRST), (512, 0)])
def test_of_a_large_group_the_first_are_drawn_and_their_hops_are_true(size: int, drawn: int) -> None:
    rows, cols = ml.dims(rows=1024, cols=1024)
    program = ml.trace(lambda x: x.sum(rows), ml.f32[rows, cols])
    found, view = of_kind(explore(program, ml.mesh(x=size), "rows:x"), "all-reduce")
    assert (view["size"], len(view["devices"]), view["more"]) == (size, drawn, size - drawn)
    assert view["wire"] == found.wire_bytes
    if size > MOST_DEVICES:
        assert view["hops"] == []
        assert view["note"] == "Hops are drawn of groups of up to 256 devices; this one has 512."
        return
    assert len(view["hops"]) == 2 * (size - 1)
    assert_bytes(found, view)
    assert played(view)[-1] == {device: dict.fromkeys(range(size), size) for device in range(drawn)}
    # Nothing is sent to all of these that is not sent to the devices that are left out.
    course = KINDS[found.kind].course(size, ())
    for hop, all_of in zip(view["hops"], course.hops, strict=True):
        numbers = {(s, t, view["pieces"][piece][0]) for s, t, piece, _ in hop["transfers"]}
        assert numbers == {tuple(each) for each in all_of.transfers if min(each.source, each.target) < drawn}


@pytest.mark.parametrize("on", ["v5e:2x4", "h100"])
@pytest.mark.parametrize("name", ["transformer_adamw", "moe_switch", "convnet_sgd"])
def test_seconds_are_those_of_the_time_of_the_step(name: str, on: str) -> None:
    program = MODELS[name].trace()
    for mesh, layout in draw(program, seed=3, count=3, meshes=(Mesh((("x", 2), ("y", 4))),)):
        explorer = explore(program, ml.mesh(on, **mesh.axes), layout)
        by_axes: dict[str, float] = {}
        for _, view in views(explorer):
            by_axes[view["key"]] = by_axes.get(view["key"], 0.0) + view["seconds"] * view["times"]
        assert by_axes == pytest.approx(dict(explorer.plan.time.communication), rel=1e-9)


def test_on_no_machine_there_are_no_seconds(explorer: Explorer) -> None:
    explorer.load("hidden:model")
    assert [view["seconds"] for _, view in views(explorer)] == [None]


def test_a_collective_that_there_is_not_has_no_hops(explorer: Explorer) -> None:
    assert hops_view(explorer, "none") == {"id": None}


@pytest.mark.parametrize("kind", ["all-gather", "all-reduce", "all-to-all"])
def test_the_page_plays_them_as_they_are_played_here(kind: str) -> None:
    """The page's own test plays the same table: what Python sends, and what each device has after each hop."""
    heads, seq = ml.dims(heads=8, seq=8)
    layout = {"heads": "x", "out": {"heads": None, "seq": "x"}}
    exchanged = explore(ml.trace(ml.tanh, ml.f32[heads, seq]), ml.mesh(x=4), layout)
    explorer = {"all-gather": gathered(ml.mesh(data=4, model=2)), "all-to-all": exchanged}.get(kind, small.on_v5e())
    _, view = of_kind(explorer, kind)
    table = json.loads(PLAYED.read_text())[kind]
    assert json.loads(json.dumps({name: view[name] for name in table["sent"]})) == table["sent"]
    states = [[[device, sorted(held.items())] for device, held in state.items()] for state in played(view)]
    assert json.loads(json.dumps(states)) == table["states"]


def test_a_ring_of_attention_is_played_turn_by_turn() -> None:
    program = ml.named_models()["llama"].trace()
    explorer = explore(program, ml.mesh(context=4), "seq:context kv:context")
    rings = [(found, view) for found, view in views(explorer) if found.value.startswith("keys of attention")]
    assert rings
    for found, view in rings:
        assert [len(view["hops"]), found.turns] == [3, 3]
        assert sum(hop["bytes"] for hop in view["hops"]) == view["wire"] == 3 * found.wire_bytes
        assert view["wire"] * view["times"] == found.wire_bytes * found.times
        assert view["formula"].startswith("3 × 1 × ")
        seen = [{next(iter(state[device])) for state in played(view)} for device in view["devices"]]
        assert seen == [{0, 1, 2, 3}] * 4, "each device has had the keys of all"
    balanced = explore(program, ml.mesh(context=4), "seq:zigzag(context) kv:zigzag(context)")
    halves = [view for found, view in views(balanced) if found.value.startswith("halves of ")]
    assert halves
    assert all(len(view["hops"]) == 1 for view in halves)
