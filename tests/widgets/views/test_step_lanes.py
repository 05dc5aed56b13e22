"""The step slice by slice: lanes that add up to the plan's time, bytes and FLOPs, and frames inside each other."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import Any

import pytest

import meshlab as ml
from meshlab.engine.planning.shared_steps import each_once, written_out
from meshlab.engine.planning.steps import Repeated
from meshlab.models import zoo
from meshlab.opening.open_explorer import explore
from meshlab.widgets.state.selection import identities
from meshlab.widgets.views.reads import read
from meshlab.widgets.views.step_lanes import StepLanesView, lanes_view
from meshlab.widgets.views.timeline import timeline_view
from tests.widgets import small
from tests.widgets.gates import Gate
from tests.widgets.views.test_timeline import LAYOUT, layouts

MODELS = {model.name: model for model in zoo.models()}


def sums(view: StepLanesView, column: str = "") -> dict[str, float]:
    """Returns the seconds of each lane, or what is by second in them."""
    found: dict[str, float] = defaultdict(float)
    slices, rates = view["slices"], view["what"][column] if column else None
    for row, seconds, what in zip(slices["row"], slices["seconds"], slices["what"], strict=True):
        if row >= view["depth"]:
            found[view["lanes"][row - view["depth"]]] += seconds * (rates[what] if rates else 1.0)
    return dict(found)


@pytest.mark.share(4)
@pytest.mark.parametrize(("name", "layout", "options"), [*layouts(), ("llama_unrolled_adamw", LAYOUT, {})])
def test_lanes_add_up_to_the_plan(name: str, layout: Any, options: dict) -> None:
    plan = MODELS[name].trace().plan(ml.mesh("v5e", data=2, model=4), layout)
    time = plan.time.given(**options)
    view = lanes_view(time)
    seconds = sums(view)
    assert view["seconds"] == time.estimate
    assert seconds.pop("") == pytest.approx(time.compute, rel=1e-6)
    assert seconds == pytest.approx({axes: sent for axes, sent in time.communication.items() if sent}, rel=1e-6)
    assert sums(view, "flops").pop("") == pytest.approx(time.flops, rel=1e-6)
    sent = defaultdict(float)
    for c in plan.collectives:
        sent["+".join(c.axes)] += c.wire_bytes * c.times
    drawn = {axes: count for axes, count in sums(view, "bytes").items() if axes}
    assert drawn == pytest.approx({axes: count for axes, count in sent.items() if count}, rel=1e-6)


@pytest.mark.parametrize("name", ["llama_adamw", "llama_unrolled_adamw", "mlp_adamw"])
def test_rows_follow_each_other_and_frames_are_inside_each_other(name: str) -> None:
    view = lanes_view(MODELS[name].trace().plan(ml.mesh("v5e", data=2, model=4), "batch:data").time)
    slices, whole = view["slices"], view["seconds"]
    ends: dict[int, float] = defaultdict(float)
    frames: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for row, begin, seconds in zip(slices["row"], slices["begin"], slices["seconds"], strict=True):
        assert begin >= ends[row] - 1e-7 * whole
        ends[row] = begin + seconds
        frames[row].append((begin, begin + seconds))
    for at in view["loops"]:  # an iteration is as long as its loop
        frames[slices["row"][at] + 1].append((slices["begin"][at], slices["begin"][at] + slices["seconds"][at]))
    for row in range(1, view["depth"]):
        for begin, end in frames[row]:
            around = [each for each in frames[row - 1] if each[0] <= begin + 1e-7 * whole <= each[1] + 2e-7 * whole]
            assert any(end <= other + 1e-7 * whole for _, other in around), (row, begin, end)


def named(view: StepLanesView, column: str) -> list[str]:
    return [view["strings"][text] for text in view["what"][column]]


def test_a_loop_is_there_once_with_how_often_it_runs() -> None:
    view = lanes_view(MODELS["llama_adamw"].trace().plan(ml.mesh("v5e", data=2, model=4), LAYOUT).time)
    kinds, times, slices = named(view, "kind"), view["what"]["times"], view["slices"]
    loops = [slices["what"][i] for i in view["loops"]]
    assert [kinds[what] for what in loops] == ["loop"] * len(loops)
    trips = [times[what] for what in loops]
    assert max(trips) > 1
    for i, loop in enumerate(slices["loop"]):
        if loop >= 0 and slices["row"][i] >= view["depth"]:
            at = view["loops"][loop]
            assert times[slices["what"][i]] == trips[loop]
            assert slices["begin"][at] <= slices["begin"][i] * (1 + 1e-9)
    # Two frames are around what is in it: the loop, and one iteration.
    inside = {slices["row"][i] for i, loop in enumerate(slices["loop"]) if loop >= 0}
    assert min(inside) == 2


def test_layers_that_are_written_out_say_which_they_are_and_what_they_send() -> None:
    """Of repetitions that are planned alike only the first had a collective."""
    plan = MODELS["llama_unrolled_adamw"].trace().plan(ml.mesh("v5e", data=2, model=4), LAYOUT)
    view = lanes_view(plan.time)
    kinds, names, collectives = (named(view, column) for column in ("kind", "name", "collective"))
    repetitions = [name for kind, name in zip(kinds, names, strict=True) if kind == "repetition"]
    alike = Counter(id(step.steps) for step in plan.planned.steps if isinstance(step, Repeated))
    expected = {f"{i} of {count}" for count in alike.values() if count > 1 for i in range(1, count + 1)}
    assert len(expected) > 1
    assert set(repetitions) == expected
    sent = [
        what for row, what in zip(view["slices"]["row"], view["slices"]["what"], strict=True) if row > view["depth"]
    ]
    assert sent
    assert {collectives[what] for what in sent} <= set(identities(plan))
    shown = timeline_view(plan.time, plan.memory)
    segments = [each for lane in shown["lanes"] if lane["key"] for each in lane["segments"]]
    assert segments
    assert all(each["collective"] for each in segments)


@pytest.mark.parametrize("name", ["llama_unrolled_adamw", "llama_adamw", "gpt2_adamw", "moe_sgd"])
def test_what_is_written_out_is_beside_what_stands_for_it(name: str) -> None:
    plan = MODELS[name].trace().plan(ml.mesh(data=2, model=2), "batch:data")
    once = [(step, times) for step, times, _ in each_once(plan.planned.steps)]
    written = written_out(plan.planned.steps, plan.steps)
    often: dict[int, int] = defaultdict(int)
    for each in written:
        assert each.step.title == once[each.position][0].title
        assert each.step.backward == once[each.position][0].backward
        assert 1 <= each.number <= each.repetitions
        often[each.position] += 1
    assert sorted(often) == list(range(len(once)))
    assert all(once[position][1] % count == 0 for position, count in often.items())


def test_it_is_read_while_a_panel_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    explorer = small.on_v5e()
    view: Any = read(explorer, "step", {})
    assert isinstance(view, dict)
    assert json.loads(json.dumps(view)) == view
    assert max(count for _, count in view["memory"]) == explorer.view()["peak_memory"]["bytes"]
    gate = Gate(monkeypatch, explorer.costs)
    explorer.load("batch:model")
    assert read(explorer, "step", {}) == {"pending": True}
    gate.open.set()
    explorer.on(None)
    assert read(explorer, "step", {}) == {"seconds": None}


def test_lanes_have_the_order_of_the_mesh_from_drop_to_drop() -> None:
    explorer = explore(small.program(), ml.mesh("v5e", model=4, data=2), "batch:data hidden:model")
    for layout in ("batch:data hidden:model", "hidden:model+data", "batch:data+model hidden:model", "hidden:data"):
        explorer.load(layout)
        keys = [lane["key"] for lane in explorer.view()["timeline"]["lanes"]]
        order = ["", "model", "data", "model+data", "data+model"]
        assert keys == sorted(keys, key=order.index), layout
