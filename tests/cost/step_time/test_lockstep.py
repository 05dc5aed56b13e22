"""The time of a pipeline is that of its schedule in lockstep, with what its pieces and its permutes take."""

import pytest

import meshlab as ml
from meshlab.cost.step_time.lockstep import Uneven, lockstep
from meshlab.engine.planning.staged import BACKWARD, FORWARD, MID, POST, PRE
from meshlab.models.language import transformer
from meshlab.models.parts import training
from meshlab.models.parts.initial import shapes

SECONDS = {PRE: 0.3, FORWARD: 1.0, MID: 0.7, BACKWARD: 2.5, POST: 0.2}


@pytest.mark.parametrize("name", ["gpipe", "1f1b", "paired", "interleaved"])
@pytest.mark.parametrize(("stages", "micro"), [(2, 4), (4, 8), (4, 16), (8, 32)])
def test_it_is_the_clock_of_the_schedule(name, stages, micro):
    schedule = ml.Schedule.of(name, stages, micro)
    parts = stages * schedule.chunks
    costs = []
    for part in range(parts):
        forward = SECONDS[FORWARD] + SECONDS[PRE] * (part == 0)
        backward = SECONDS[BACKWARD] + SECONDS[MID] * (part == parts - 1) + SECONDS[POST] * (part == 0)
        costs.append((forward, backward, 0.0))
    expected = schedule.clock(costs, lockstep=True).makespan
    assert lockstep(schedule, SECONDS, max) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("stages", "micro"), [(2, 4), (4, 8), (4, 16), (8, 32)])
def test_the_closed_form_of_paired(stages, micro):
    """(m + p − 1)(F + B) + m (pre + mid) + (p − 1) post, as no other piece hides one of them."""
    schedule = ml.Schedule.of("paired", stages, micro)
    layers = (micro + stages - 1) * (SECONDS[FORWARD] + SECONDS[BACKWARD])
    # post comes with a backward cell of the first stage, mid with one of the last: the longer of them counts.
    both = micro + stages - 1 - 2 * (stages - 1) + (stages - 1)
    ends = micro * SECONDS[PRE] + both * SECONDS[MID] + (stages - 1) * SECONDS[POST]
    assert lockstep(schedule, SECONDS, max) == pytest.approx(layers + ends, rel=1e-9)


@pytest.mark.parametrize("name", ["gpipe", "1f1b", "paired"])
@pytest.mark.parametrize("layers", [(3, 4, 4, 3), (1, 4, 2, 3), (4, 1, 1, 1)])
def test_a_stage_with_fewer_layers_has_shorter_cells(name, layers):
    """Of the most layers: a forward cell of 1.0, of which a layer is 0.2, a backward one of 2.5, a layer 0.6."""
    schedule, layer = ml.Schedule.of(name, 4, 8), {FORWARD: 0.2, BACKWARD: 0.6}
    costs = []
    for part, own in enumerate(layers):
        forward = SECONDS[FORWARD] - (4 - own) * 0.2 + SECONDS[PRE] * (part == 0)
        ends = SECONDS[MID] * (part == 3) + SECONDS[POST] * (part == 0)
        costs.append((forward, SECONDS[BACKWARD] - (4 - own) * 0.6 + ends, 0.0))
    expected = schedule.clock(costs, lockstep=True).makespan
    assert lockstep(schedule, SECONDS, max, Uneven(layers, layer)) == pytest.approx(expected, rel=1e-9)


def trained(layers=8, batch=32):
    config = transformer.Config(layers=layers, batch=batch)
    return ml.trace(training.sgd_step(transformer.loss), shapes(transformer.init, config), *transformer.inputs(config))


def test_a_plan_is_priced_by_its_schedule():
    program = trained()
    mesh = lambda schedule: ml.mesh("v5p:2x2x1", pipe=ml.stages(4, schedule), micro=ml.serial(8))  # noqa: E731
    times = {name: program.plan(mesh(name), "batch:micro layers:pipe").time for name in ("gpipe", "1f1b", "paired")}
    for time in times.values():
        assert 0 < time.lower <= time.estimate <= time.upper
        assert time.idle > 0
        assert time.upper == pytest.approx(time.compute + sum(time.communication.values()) + time.idle)
        assert time.spent.elapsed <= time.upper * (1 + 1e-9)
        assert "waiting for other stages" in str(time)
        assert any(piece.name.startswith("collective-permute") for piece in time.pieces)
        (waiting,) = [piece for piece in time.pieces if piece.bound == "waiting"]
        assert waiting.exposed == pytest.approx(time.idle)
        assert sum(piece.exposed for piece in time.pieces) == pytest.approx(time.estimate, rel=0.01)
        # Stages run different things: none of them repeats what another one does.
        assert not any("pipe" in piece.repeated for piece in time.pieces)
    # All stages run a forward and a backward cell in each tick of `paired`, and it has fewer ticks.
    assert times["paired"].estimate < times["1f1b"].estimate
    assert times["paired"].communication["pipe"] < times["1f1b"].communication["pipe"]
    alone = program.plan(ml.mesh("v5p:1x1x1", micro=ml.serial(8)), "batch:micro").time
    assert alone.idle == 0
    assert alone.compute / 4 < times["paired"].compute < alone.compute


def test_fewer_layers_beside_a_large_head_are_faster():
    """The head takes as long as layers do: the last stage waits for no other one if it has fewer of them."""
    config = transformer.Config(layers=8, batch=32, vocab=4096)
    arguments = shapes(transformer.init, config), *transformer.inputs(config)
    program = ml.trace(training.sgd_step(transformer.loss), *arguments)

    def planned(layers):
        mesh = ml.mesh("v5p:2x2x1", pipe=ml.stages(4, layers=layers), micro=ml.serial(8))
        return program.plan(mesh, "batch:micro layers:pipe")

    even, uneven, wrong = (planned(layers) for layers in ((2, 2, 2, 2), (2, 3, 2, 1), (1, 2, 2, 3)))
    assert planned(None).time.estimate == even.time.estimate
    assert uneven.time.estimate < even.time.estimate < wrong.time.estimate
    # Of the busiest stage, which has the head.
    assert uneven.work.flops < even.work.flops < wrong.work.flops
    assert uneven.time.compute < even.time.compute < wrong.time.compute
    for plan in (uneven, wrong):
        time = plan.time
        assert time.upper == pytest.approx(time.compute + sum(time.communication.values()) + time.idle)
        assert sum(piece.exposed for piece in time.pieces) == pytest.approx(time.estimate, rel=0.01)
    with pytest.raises(
        ml.MeshlabError, match=r"`layers` is on stages that have layers=\(2, 3, 2, 1\): make a plan for"
    ):
        ml.sweep(uneven, layers=[8, 16])
    with pytest.raises(
        ml.MeshlabError, match=r"`pipe` has layers=\(2, 3, 2, 1\), a number for each stage: make a plan"
    ):
        ml.sweep(uneven, pipe=[2, 4])
    swept = ml.sweep(uneven, vocab=[4096, 8192])
    assert float(swept.estimate[0]) == pytest.approx(float(uneven.time.estimate), rel=1e-6)


def test_other_sizes_of_dims_are_swept():
    plan = trained().plan(ml.mesh("v5p:2x2x1", pipe=ml.stages(4), micro=ml.serial(8)), "batch:micro layers:pipe")
    swept = ml.sweep(plan, layers=[8, 16, 32])
    assert float(swept.estimate[0]) == pytest.approx(float(plan.time.estimate), rel=1e-6)
    deeper = trained(layers=32).plan(
        ml.mesh("v5p:2x2x1", pipe=ml.stages(4), micro=ml.serial(8)), "batch:micro layers:pipe"
    )
    assert float(swept.estimate[2]) == pytest.approx(float(deeper.time.estimate), rel=1e-6)
