"""All devices take part in a collective-permute: stages that would wait run the cells that have one, for nothing.

In branches that not all stages took, results were wrong, and processes hung.
"""

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml
from meshlab.engine.axes.stages import Stages
from tests.engine.pipelines import stacks

LAYOUT = "batch:micro layers:pipe embed:model"
EVERY = {"pre", "F", "mid", "B", "post"}


def in_layers(mixed: Any) -> Any:
    """Each layer reads of its neighbours along `embed`."""

    def loss(p: Any, x: Any, y: Any) -> Any:
        def both(h: Any, weights: Any) -> Any:
            h, _ = stacks.layer(h, weights)
            return h + jnp.sin(jax.vmap(lambda each: mixed(each[:, None])[:, 0])(h)), None

        h, _ = jax.lax.scan(both, x @ p["w_in"], {"w": p["w"], "b": p["b"]})
        return jnp.square(h @ p["w_out"] - y).mean()

    return loss


def at_ends(p: Any, x: Any, y: Any) -> Any:
    """What is in front of the layers does so, and what is behind them."""
    h, _ = jax.lax.scan(stacks.layer, jnp.roll(x @ p["w_in"], 1, 1), {"w": p["w"], "b": p["b"]})
    return jnp.square(jnp.sin(jnp.roll(h, 1, 1)) @ p["w_out"] - y).mean()


def planned(loss: Any, size: Stages, layout: Any = LAYOUT, **axes: Any) -> ml.Plan:
    program = ml.trace(stacks.descent(loss), *stacks.named(jnp.float64, layers=sum(size.layers or (4,))))
    return program.plan(ml.mesh(**axes, pipe=size, model=2, micro=ml.serial(4)), layout)


def checked(plan: ml.Plan) -> None:
    report = plan.check()
    assert report.ok, report
    assert not report.merged
    assert max(error for _, error, _ in report.errors) < 1e-12


@pytest.mark.share(3)
@pytest.mark.parametrize(
    "mixed", [lambda h: jnp.roll(h, 1, 0), lambda h: h[::-1], lambda h: jnp.pad(h, ((1, 0), (0, 0)))[:-1]]
)
@pytest.mark.parametrize("schedule", ["paired", "gpipe", "1f1b", "interleaved"])
def test_layers_send_to_each_other(schedule, mixed):
    with jax.enable_x64(True):
        plan = planned(in_layers(mixed), ml.stages(2, schedule))
        assert {"B"} <= stacks.pipeline(plan).everywhere <= {"F", "B"}
        checked(plan)
    assert plan.schedule is not None
    pipeline, ticks = stacks.pipeline(plan), plan.schedule.ticks
    inside = [c for c in plan.collectives if c.kind == "collective-permute" and c.axes == ("model",)]
    assert inside
    # As often as some stage runs such a cell, in each of its layers; it is compiled into each tick.
    layers = 4 // (2 * plan.schedule.chunks)
    runs = {pipeline.runs_of(name) * layers for name in pipeline.everywhere}
    assert {each.times for each in inside} <= runs
    assert {each.counted for each in inside} == {ticks * layers}


@pytest.mark.parametrize("size", [ml.stages(2), ml.stages(2, "1f1b", layers=(1, 2))], ids=str)
def test_what_is_in_front_of_the_layers_and_behind_them(size):
    with jax.enable_x64(True):
        plan = planned(at_ends, size)
        assert stacks.pipeline(plan).everywhere == EVERY
        checked(plan)


def test_stages_of_different_lengths_run_as_many_layers():
    """A layer that a stage has not is run there as well, and what it makes is left out."""
    with jax.enable_x64(True):
        plan = planned(in_layers(lambda h: jnp.roll(h, 1, 0)), ml.stages(2, layers=(1, 2)))
        assert stacks.pipeline(plan).layers == (1, 2)
        checked(plan)


def test_a_move_that_is_a_permute():
    with jax.enable_x64(True):
        layout = {"batch": "micro", "layers": "pipe", "embed": "model", "params/w": {"embed": "data"}}
        plan = planned(stacks.plain, ml.stages(2), layout, data=2)
        assert stacks.pipeline(plan).everywhere
        checked(plan)


def test_other_collectives_stay_with_the_stage_that_runs_the_cell():
    program = stacks.program("plain")
    plan = program.plan(ml.mesh(pipe=ml.stages(2), model=2, micro=ml.serial(4)), LAYOUT)
    assert not stacks.pipeline(plan).everywhere
    # In each micro-batch, at an end of the model, or in both layers of a stage.
    assert {c.times for c in plan.collectives if c.axes == ("model",) and c.times > 1} == {4, 8}


def test_it_is_priced_and_counted():
    """No stage waits, but for the ticks in which none runs a cell of a phase; what it does for nothing is work."""
    roll = lambda h: jnp.roll(h, 1, 0)  # noqa: E731

    def costs(loss: Any, size: Any) -> ml.Plan:
        arguments = stacks.named(batch=64, embed=256, _=256)
        program = ml.trace(stacks.descent(loss), *arguments)
        return program.plan(ml.mesh("v5p:2x2x1", pipe=size, model=2, micro=ml.serial(4)), LAYOUT)

    everywhere = {name: costs(in_layers(roll), ml.stages(2, name)) for name in ("paired", "1f1b")}
    for plan in everywhere.values():
        pipeline, time = stacks.pipeline(plan), plan.time
        assert pipeline.in_halves
        assert time.upper == pytest.approx(time.compute + sum(time.communication.values()) + time.idle)
    assert everywhere["paired"].time.estimate < everywhere["1f1b"].time.estimate
    assert everywhere["paired"].work.flops < everywhere["1f1b"].work.flops
    plain = costs(stacks.plain, ml.stages(2))
    # Five ticks of each phase, where each stage has four micro-batches.
    assert everywhere["paired"].work.flops > 1.2 * plain.work.flops
