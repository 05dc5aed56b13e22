"""Two stacks of layers, as of an encoder and a decoder, are the two chunks of each stage, with cells of their own."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml
from meshlab.cost.step_time.lockstep import free, lockstep
from meshlab.engine.axes.stages import Stages
from meshlab.engine.planning.staged import PIECES_OF, is_in
from meshlab.engine.schedules.cells import FORWARD, in_order
from meshlab.widgets.views.stages import schedule_view
from tests.engine.pipelines import stacks
from tests.engine.small_programs import temporary_bytes

pytestmark = pytest.mark.share(2, of="file")

ONE_DIM = {"batch": "micro", "layers": "pipe"}
TWO_DIMS = {**ONE_DIM, "encoders": "pipe"}
WITH_DATA = {**TWO_DIMS, "batch": "data+micro"}
Loss = Callable[[Any, Any, Any], Any]


def scanned(layer: Any, h: Any, weights: Any) -> Any:
    return jax.lax.scan(layer, h, weights)[0]


def decoder(p: Any, h: Any, memory: Any) -> Any:
    """Each layer reads the memory, whose gradient all of them add to."""

    def layer(h: Any, weights: Any) -> Any:
        h, _ = stacks.layer(h, weights)
        return h + jnp.sin(memory @ weights["w"]), None

    return scanned(layer, h, p["decoder"])


def cross(p: Any, x: Any, y: Any) -> Any:
    """An encoder of fewer layers, and a decoder that begins with something else and reads the encoder's end."""
    end = scanned(stacks.layer, x @ p["w_in"], p["encoder"])
    h = decoder(p, jnp.cos(x @ p["w_in"]), jnp.tanh(end) @ p["shared"])
    return jnp.square(h @ p["w_out"] - y).mean()


def chained(p: Any, x: Any, y: Any) -> Any:
    """The same layers, passed through twice."""
    h = scanned(stacks.layer, x @ p["w_in"], p["decoder"])
    return jnp.square(scanned(stacks.layer, h, p["decoder"]) @ p["w_out"] - y).mean()


def twins(p: Any, x: Any, y: Any) -> Any:
    """Two stacks that know nothing of each other, and a loss of both ends."""
    one = scanned(stacks.layer, x @ p["w_in"], p["encoder"])
    other = scanned(stacks.layer, jnp.cos(x @ p["w_in"]), p["decoder"])
    return jnp.square((one * other) @ p["w_out"] - y).mean()


def late(p: Any, x: Any, y: Any) -> Any:
    """The head reads what is made in front of both stacks, and where the first one ends."""
    start = x @ p["w_in"]
    end = scanned(jax.checkpoint(stacks.layer), start, p["encoder"])
    h = decoder(p, jnp.sin(end), end)
    return jnp.square((h + start * end) @ p["w_out"] - y).mean() + 0.1 * jnp.square(end).mean()


LOSSES: dict[str, Loss] = {each.__name__: each for each in (cross, chained, twins, late)}


def named(dtype: Any = jnp.float32, encoders: int = 4, layers: int = 4, **sizes: int) -> tuple[Any, ...]:
    params, x, y = stacks.named(dtype, ("x", "y"), layers=layers, **sizes)
    width = sizes.get("_", stacks.WIDTH), sizes.get("embed", stacks.WIDTH)
    shapes = {"w": ((encoders, width[1], width[0]), "encoders embed _"), "b": ((encoders, width[0]), "encoders _")}
    encoder = {name: ml.named(jax.ShapeDtypeStruct(shape, dtype), dims) for name, (shape, dims) in shapes.items()}
    own = {"decoder": {name: params.pop(name) for name in ("w", "b")}, "encoder": encoder}
    return {**own, **{name: params[name] for name in ("w_in", "w_out", "shared")}}, x, y


def planned(name: str, stages: Any, schedule: Any = None, layout: Any = None, **sizes: Any) -> ml.Plan:
    axes = {axis: sizes.pop(axis) for axis in ("data", "model") if axis in sizes}
    micro, machine, dtype = sizes.pop("micro", 4), sizes.pop("machine", ()), sizes.pop("dtype", jnp.float32)
    size = stages if isinstance(stages, Stages) else ml.stages(stages, schedule)
    program = ml.trace(stacks.descent(LOSSES[name]), *named(dtype, **sizes))
    return program.plan(
        ml.mesh(*machine, **axes, pipe=size, micro=ml.serial(micro)),
        layout or (ONE_DIM if name == "chained" else TWO_DIMS),
    )


def own(stages: int, micro: int = 4) -> ml.Schedule:
    """Backward cells first, and of the forward ones those of the second stack."""
    return ml.Schedule.by(
        lambda _, cell: (cell.phase == FORWARD, -cell.chunk, cell.micro), stages, micro, parts=in_order(stages, 2)
    )


CASES = [*itertools.product(LOSSES, (2, 4), (None, "gpipe"))]


@pytest.mark.share(4)
@pytest.mark.parametrize(("name", "stages", "schedule"), CASES)
def test_it_gives_the_plain_step(name: str, stages: int, schedule: str | None) -> None:
    with jax.enable_x64(True):
        plan = planned(name, stages, schedule, WITH_DATA if name == "cross" else None, **data_of(name))
        report = plan.check()
    assert report.ok, report
    assert not report.merged
    assert max(error for _, error, _ in report.errors) < 1e-12


def data_of(name: str) -> dict[str, Any]:
    """Mesh, sizes and dtype: one loss has the batch on devices too, and stacks of different numbers of layers."""
    more = {"data": 2, "encoders": 4, "layers": 8} if name == "cross" else {}
    return {"dtype": jnp.float64, **more}


@pytest.mark.parametrize("how", ["own", "uneven", "model"])
def test_schedules_of_ones_own_uneven_stages_and_other_axes(how: str) -> None:
    with jax.enable_x64(True):
        plan = {
            "own": lambda: planned("late", 2, own(2), dtype=jnp.float64),
            "uneven": lambda: planned("cross", ml.stages(2, layers=(1, 3)), dtype=jnp.float64),
            "model": lambda: planned("cross", 2, layout={**TWO_DIMS, "embed": "model"}, model=2, dtype=jnp.float64),
        }[how]()
        report = plan.check()
    assert report.ok, report
    assert max(error for _, error, _ in report.errors) < 1e-12


def test_a_stage_has_a_part_of_both_stacks():
    plan = planned("cross", 2, encoders=4, layers=8)
    staged = stacks.pipeline(plan)
    assert tuple(staged.pieces) == PIECES_OF[2]
    assert [(stack.forward.times, stack.backward.times) for stack in staged.stacks] == [(2, 2), (4, 4)]
    assert plan.schedule == ml.Schedule.of("interleaved", 2, 4, chunks=2)
    # Layers are run where they lie: nothing is dealt.
    hops = [each for each in plan.collectives if each.kind == "collective-permute"]
    assert {each.times for each in hops} == {staged.schedule.ticks}
    # The carry of each stack, the memory, and beside the encoder's carry what the decoder begins with; back their
    # gradients, and that of the memory.
    on, back = staged.messages(plan.program.original_of)
    assert (len(on), len(back)) == (4, 3)
    assert len(hops) == 7
    (memory,) = staged.stacks[1].passed
    assert memory in staged.stacks[1].held
    assert memory not in staged.stacks[0].passed


def test_permutes_by_formula():
    for schedule, ticks in ((None, 2 * (2 * 4 + 1)), ("gpipe", 2 * (2 * 4 + 1))):
        plan = planned("chained", 2, schedule)
        hops = [each for each in plan.collectives if each.kind == "collective-permute"]
        assert [each.times for each in hops] == [ticks] * 4


SECONDS = {"pre": 0.1, "F": 1.0, "turn": 0.2, "F2": 2.0, "mid": 0.7, "B2": 5.0, "back": 0.3, "B": 3.0, "post": 0.4}


@pytest.mark.parametrize("schedule", ["interleaved", "gpipe"])
def test_a_tick_lasts_as_long_as_its_longest_cell(schedule: str) -> None:
    ran, last = ml.Schedule.of(schedule, 4, 8, chunks=2), 3
    one_stage = {"pre": 0, "turn": last, "mid": last, "back": last, "post": 0}
    longest: dict[int, float] = {}
    works = [0.0] * 4
    for (stage, cell), tick in ran.tick_of.items():
        here = [name for name in SECONDS if is_in(name, cell.phase, cell.chunk, 2)]
        seconds = sum(SECONDS[name] for name in here if one_stage.get(name, stage) == stage)
        longest[tick] = max(longest.get(tick, 0.0), seconds)
        works[stage] += seconds
    assert sum(works) == pytest.approx(8 * (4 * (1 + 2 + 5 + 3) + 0.1 + 0.2 + 0.7 + 0.3 + 0.4))
    assert lockstep(ran, SECONDS, max) == pytest.approx(sum(longest.values()), rel=1e-9)
    assert max(works) < free(ran, SECONDS, 0.0, max) < sum(longest.values())


def test_time_and_lanes_are_those_of_both_stacks():
    plan = planned("cross", 2, micro=8, batch=8, machine=("v5p:2x1x1",), layers=8)
    cells = plan.time.spent.cells
    assert cells is not None
    encoder, decoder = cells.costs[:2], cells.costs[2:]
    assert max(each.forward for each in encoder) < min(each.forward for each in decoder)
    view = schedule_view(plan.time, cells)
    assert view["chunks"] == len(view["lanes"]) == 2
    for lane in view["lanes"]:
        assert sorted(lane["cells"]["chunk"]) == [0] * 16 + [1] * 16
    assert plan.time.bubble > 0


SIZES = {"batch": 64, "encoders": 8, "layers": 8, "_": 64, "embed": 64, "rows": 8, "classes": 8}


def test_slots_are_what_xla_allocates() -> None:
    """Two schedules differ in slots alone, each of which has room for what a cell of either stack sends or leaves."""
    plans = [planned("cross", 4, each, micro=8, **SIZES) for each in ("gpipe", None)]
    compiled = [temporary_bytes(plan) for plan in plans]
    predicted = [plan.memory.temporary_bytes for plan in plans]
    assert compiled[0] - compiled[1] == predicted[0] - predicted[1] > 0
    for plan in plans:
        for each in plan.memory.stages:
            assert each.peak_bytes <= plan.memory.peak_bytes
        assert tuple(each.in_flight / 2 for each in plan.memory.stages) == stacks.pipeline(plan).schedule.in_flight


def refused(name: str, *given: Any, **more: Any) -> list[str]:
    with pytest.raises(ml.LayoutError) as error:
        planned(name, *given, **more)
    return [str(problem) for problem in error.value.problems]


def test_schedules_that_two_stacks_do_not_have():
    for schedule, told in (
        (
            "1f1b",
            "`pipe` has no schedule: The schedule 1f1b has 1 chunk for each stage, and two stacks of layers need 2",
        ),
        ("zb-v", "`pipe` has the schedule zb-v, which computes gradients of weights separately"),
        (ml.Schedule.of("1f1b", 2, 4), "The schedule 1f1b has 1 chunk for each stage"),
        (ml.Schedule.of("interleaved", 2, 4, chunks=3), "The schedule interleaved has 3 chunks for each stage"),
    ):
        (problem,) = refused("chained", 2, schedule)
        assert told in problem
    (problem,) = refused("chained", 2, micro=1)
    assert problem == (
        "`layers` is on the stages `pipe`, but `micro` has size 1 for `batch`: a pipeline needs micro-batches. Give it"
        " 2, with micro=ml.serial(2)."
    )
    (problem,) = refused("chained", 4, micro=2)
    assert "The schedule interleaved was given micro=2, which must be a multiple of its 4 stages" in problem


def test_only_what_runs_is_offered():
    (problem,) = refused("chained", 4, micro=2)
    assert problem.endswith(" Choose `gpipe` or another size of `micro`.")
    assert planned("chained", 4, "gpipe", micro=2).schedule
    (problem,) = refused("chained", 2, "paired")
    assert problem.endswith(" Choose `interleaved` or `gpipe`.")
    (problem,) = refused("chained", 2, own(2, micro=2))
    assert problem.endswith(" Choose `interleaved` or `gpipe` or another size of `micro`.")
    assert planned("chained", 2, own(2, micro=2), micro=2).schedule
    # Numbers of layers for each stage fit both stacks only if these are of one size.
    problems = refused("cross", 2, encoders=5, layers=3)
    assert [each.partition("Sizes")[2] for each in problems] == [" that fit: 4 or 6.", " that fit: 2 or 4."]
    (problem,) = refused("cross", ml.stages(2, layers=(1, 3)), layers=8)
    assert problem.endswith("Stacks of different sizes have as many layers on all stages: leave layers=(1, 3) out.")
    assert planned("cross", 2, layers=8).schedule
    uneven = refused("cross", 2, encoders=5, layers=5)
    assert all(each.endswith("or add layers=(3, 2) to the ml.stages() of `pipe`.") for each in uneven)
    assert planned("cross", ml.stages(2, layers=(3, 2)), encoders=5, layers=5).schedule


def test_all_problems_at_once():
    problems = refused("cross", 3, "1f1b", layout={**TWO_DIMS, "embed": "pipe"})
    for text in ("`embed` cannot be on `pipe`", "1f1b has 1 chunk", "`encoders` has size 4", "`layers` has size 4"):
        assert any(text in problem for problem in problems), problems


def test_two_dims_on_two_axes_of_stages():
    mesh = ml.mesh(pipe=ml.stages(2), other=ml.stages(2), micro=ml.serial(4))
    with pytest.raises(
        ml.LayoutError, match="`encoders`, `layers` are on stages, but a pipeline has one stack"
    ) as error:
        ml.trace(stacks.descent(cross), *named()).plan(mesh, {**TWO_DIMS, "encoders": "other"})
    assert "Put one of them on stages, and leave the others replicated." in str(error.value)


def test_permutes_inside_of_cells_of_two_stacks():
    """All devices of a mesh take part in them, and some stages run cells of the other stack."""

    def rolled(p: Any, x: Any, y: Any) -> Any:
        h = scanned(stacks.layer, jnp.roll(x @ p["w_in"], 1, 1), p["decoder"])
        return jnp.square(scanned(stacks.layer, h, p["decoder"]) @ p["w_out"] - y).mean()

    program = ml.trace(stacks.descent(rolled), *named())
    mesh = ml.mesh(pipe=ml.stages(2), model=2, micro=ml.serial(4))
    with pytest.raises(ml.LayoutError) as error:
        program.plan(mesh, {**ONE_DIM, "embed": "model"})
    problems = [str(each) for each in error.value.problems]
    assert any("needs a collective-permute, in which all stages take part" in each for each in problems), problems


def test_a_stack_that_is_read_where_its_cells_have_ended():
    """Layers of the second stack that read each layer of the first one, which no slot of theirs holds."""

    def each_layer(p: Any, x: Any, y: Any) -> Any:
        def first(h: Any, weights: Any) -> Any:
            h, _ = stacks.layer(h, weights)
            return h, h

        def second(h: Any, given: Any) -> Any:
            weights, seen = given
            h, _ = stacks.layer(h, weights)
            return h + seen, None

        end, seen = jax.lax.scan(first, x @ p["w_in"], p["decoder"])
        h = scanned(second, jnp.cos(end), (p["decoder"], seen))
        return jnp.square(h @ p["w_out"] - y).mean()

    program = ml.trace(stacks.descent(each_layer), *named())
    with pytest.raises(ml.LayoutError) as error:
        program.plan(ml.mesh(pipe=ml.stages(2), micro=ml.serial(4)), ONE_DIM)
    assert all("it cannot be sent along with what the scan carries" in str(each) for each in error.value.problems)


def test_the_preset_finds_both_dims():
    program = ml.trace(stacks.descent(cross), *named())
    mesh = ml.mesh(pipe=ml.stages(2), micro=ml.serial(4))
    layout = ml.layouts.pipeline_parallel(program, mesh)
    assert {dim for dim, axes in layout.dim_rules if axes == ("pipe",)} == {"encoders", "layers"}
    assert program.plan(mesh, layout).schedule
