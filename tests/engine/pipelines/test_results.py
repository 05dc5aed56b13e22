"""A pipeline gives what the plain step gives, and sends what its plan says, whatever its stages read of each other."""

import itertools
import json

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml
from meshlab.engine.schedules.dealing import rounds
from meshlab.widgets.views.devices.holdings import tensor_view
from tests.engine.pipelines import stacks

pytestmark = pytest.mark.share(2, of="file")

SCHEDULES = ("paired", "gpipe", "1f1b")
CASES = [*itertools.product(stacks.LOSSES, (2, 4), SCHEDULES)]


def planned(name, stages, schedule, micro=4, **sizes):
    program = stacks.program(name, jnp.float64, **sizes)
    return program.plan(
        ml.mesh(data=2, pipe=ml.stages(stages, schedule), micro=ml.serial(micro)), "batch:data+micro layers:pipe"
    )


@pytest.mark.share(10)
@pytest.mark.parametrize(("name", "stages", "schedule"), CASES)
def test_it_gives_the_plain_step(name, stages, schedule):
    with jax.enable_x64(True):
        plan = planned(name, stages, schedule)
        report = plan.check()
    assert report.ok, report
    assert not report.merged
    assert max(error for _, error, _ in report.errors) < 1e-12


@pytest.mark.share(6)
@pytest.mark.parametrize(("name", "schedule"), [*itertools.product(stacks.LOSSES, SCHEDULES)])
def test_stages_with_different_numbers_of_layers_give_the_plain_step(name, schedule):
    """Keys of layers and sums over all of them as well, which look at where a layer stands."""
    layers = (1, 2, 1) if name == "dropped" else (2, 3, 1)
    with jax.enable_x64(True):
        program = stacks.program(name, jnp.float64, layers=sum(layers))
        mesh = ml.mesh(data=2, pipe=ml.stages(3, schedule, layers=layers), micro=ml.serial(4))
        plan = program.plan(mesh, "batch:data+micro layers:pipe")
        report = plan.check()
    assert report.ok, report
    assert not report.merged
    assert max(error for _, error, _ in report.errors) < 1e-12


def test_an_uneven_stage_has_its_own_layers():
    program = stacks.program("plain", layers=14)
    plan = program.plan(ml.mesh(pipe=ml.stages(4, layers=(3, 4, 4, 3)), micro=ml.serial(4)), "batch:micro layers:pipe")
    assert [plan.shard("params/w", stage)[0] for stage in range(4)] == [(0, 3), (3, 7), (7, 11), (11, 14)]
    drawn = tensor_view(plan, "params/w")
    assert (drawn["edges"][0], drawn["step"][0]) == ([0, 3, 7, 11, 14], 4)
    high = drawn["h"] if "h" in drawn else drawn["blocks"]["w"]
    assert len(high) == 4
    (scan,) = (step for step in stacks.pipeline(plan).pieces["F"].steps if step.loops)
    assert scan.parts[0].times == 4  # all stages scan over as many, and leave out what they have not
    # No dim is padded: a stage with fewer layers has room for more.
    assert "stages: layers 14 as 3, 4, 4 and 3 over pipe, each with room for 4." in str(plan.explain())
    assert json.loads(plan.to_json())["padded"] == {}
    even = program.plan(ml.mesh(pipe=ml.stages(2), micro=ml.serial(4)), "batch:micro layers:pipe")
    assert "stages:" not in str(even.explain())


def test_uneven_stages_pass_many_steps_on():
    """Results come back as the function returns them, and go in again so: layers do not change their places."""
    program = stacks.program("plain", layers=5)
    mesh = ml.mesh(pipe=ml.stages(2, layers=(2, 3)), micro=ml.serial(4))
    plan = program.plan(mesh, "batch:micro layers:pipe")
    params, x, y = stacks.data(stacks.named(layers=5))
    plain = jax.jit(stacks.descent(stacks.plain))
    other = params
    for _ in range(3):
        value, params = plan.run(params, x, y)
        expected, other = plain(other, x, y)
        assert float(value) == pytest.approx(float(expected), rel=1e-5)
    assert params["w"].shape == (5, 4, 4)
    assert float(abs(params["w"] - other["w"]).max()) < 1e-5


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_permutes_by_formula(schedule):
    """One on and one back for each value that is carried, after each tick."""
    p, m = 4, 8
    ticks = {"paired": m + 2 * (p - 1), "gpipe": 2 * (m + p - 1), "1f1b": 2 * (m + p - 1)}[schedule]
    # The balance is carried on; that its gradient is the same for all layers is known, and not sent.
    for name, carried in (("plain", (1, 1)), ("balanced", (2, 1)), ("context", (2, 2)), ("scaled", (1, 2))):
        plan = planned(name, p, schedule, micro=m, batch=16)
        hops = [c for c in plan.collectives if c.kind == "collective-permute"]
        assert [c.times for c in hops] == [ticks] * sum(carried)
        assert plan.schedule is not None
        assert plan.schedule.ticks == ticks
        assert all(f"after each of {ticks} ticks" in c.because and c.axes == ("pipe",) for c in hops)


@pytest.mark.share(6)
@pytest.mark.parametrize("chunks", [2, 4])
@pytest.mark.parametrize("name", [name for name in stacks.LOSSES if name not in ("dropped", "stacked")])
def test_chunks_in_turn_give_the_plain_step(name, chunks):
    """Layers are stored in order, and dealt to the stages in front of the loop; so are new weights, back behind it."""
    with jax.enable_x64(True):
        program = stacks.program(name, jnp.float64, layers=8)
        mesh = ml.mesh(pipe=ml.stages(2, "interleaved", chunks), micro=ml.serial(4))
        plan = program.plan(mesh, "batch:micro layers:pipe")
        report = plan.check()
    assert report.ok, report
    assert max(error for _, error, _ in report.errors) < 1e-12
    assert plan.schedule is not None
    once = [c for c in plan.collectives if c.kind == "collective-permute" and c.times == 1]
    assert all("chunks of layers, which are dealt" in c.because for c in once)
    # Weights and what is added up of them: each of two arrays in as many rounds as there are chunks, but for one.
    assert len(once) == 2 * 2 * sum(not each.stays for each in rounds(plan.schedule))


def test_chunks_over_four_stages():
    with jax.enable_x64(True):
        program = stacks.program("balanced", jnp.float64, layers=8)
        mesh = ml.mesh(data=2, pipe=ml.stages(4, "interleaved"), micro=ml.serial(4))
        plan = program.plan(mesh, "batch:data+micro layers:pipe")
        report = plan.check()
    assert report.ok, report
    assert max(error for _, error, _ in report.errors) < 1e-12
    assert plan.schedule is not None
    assert plan.schedule.chunks == 2


def test_a_schedule_of_ones_own_is_run():
    own = ml.Schedule.by(lambda stage, cell: ("BF".index(cell.phase), -cell.micro), stages=2, micro=4)
    with jax.enable_x64(True):
        plan = planned("tied", 2, own)
        assert plan.schedule is own
        assert plan.check().ok


def test_what_one_stage_makes_is_reduced_once_with_the_data():
    plan = planned("tied", 4, "paired")
    sums = [(c.kind, c.axes) for c in plan.collectives if "pipe" in c.axes and c.kind != "collective-permute"]
    # The tied table, whose gradient two stages make, the other weights of the ends, and the loss.
    assert sums == [("all-reduce", ("data", "pipe"))] * 3
    table = next(c for c in plan.collectives if c.value == "gradient of params/table")
    assert table.times == 1


@pytest.mark.parametrize("axes", [{}, {"data": 2}], ids=["alone", "with data"])
def test_what_one_stage_makes_is_reduced_once_whoever_reads_it(axes):
    """Both moments of Adam read a gradient: each reduced what it had made of it, and so did the square."""
    params, *inputs = stacks.named(jnp.float64, stacks.inputs_of(stacks.tied))
    with jax.enable_x64(True):
        program = ml.trace(stacks.moments(stacks.tied), params, params, params, *inputs)
        mesh = ml.mesh(**axes, pipe=ml.stages(2), micro=ml.serial(4))
        plan = program.plan(mesh, "batch:data+micro layers:pipe" if axes else "batch:micro layers:pipe")
        assert plan.check().ok
    sums = sorted(c.payload_bytes for c in plan.collectives if "pipe" in c.axes and c.kind == "all-reduce")
    assert sums == [3 * stacks.WIDTH * 8, stacks.WORDS * stacks.WIDTH * 8]  # of the first weights, and of the table


def test_what_is_sent_in_a_branch_is_told_as_it_is_sent_and_counted_as_it_is_compiled():
    with jax.enable_x64(True):
        program = stacks.program("tied", jnp.float64)
        layout = {"batch": "data+micro", "layers": "pipe", "params/table": {"embed": "data"}}
        plan = program.plan(ml.mesh(data=2, pipe=ml.stages(2), micro=ml.serial(4)), layout)
        assert plan.check().ok
    gathers = [c for c in plan.collectives if c.kind == "all-gather"]
    # In front of the layers on the first stage, and behind them on the last.
    assert [(c.times, c.counted) for c in gathers] == [(4, 6)] * 2
    assert "gathered again in each of 4 micro-batches" in gathers[0].because
    hops = [c for c in plan.collectives if c.kind == "collective-permute"]
    assert all(c.times == c.counted == 6 for c in hops)


def test_results_with_the_batch_are_those_of_one_stage():
    def loss(p, x, y):
        h, _ = jax.lax.scan(stacks.layer, x @ p["w_in"], {"w": p["w"], "b": p["b"]})
        return jnp.square(h @ p["w_out"] - y).mean(), (h @ p["w_out"], x @ p["w_in"])

    def step(p, x, y):
        return jax.value_and_grad(loss, has_aux=True)(p, x, y)

    with jax.enable_x64(True):
        program = ml.trace(step, *stacks.named(jnp.float64))
        plan = program.plan(ml.mesh(pipe=ml.stages(2), micro=ml.serial(4)), "batch:micro layers:pipe")
        assert plan.check().ok


def test_sizes_of_other_dims_are_padded():
    with jax.enable_x64(True):
        program = stacks.program("tied", jnp.float64, words=7)
        mesh = ml.mesh(pipe=ml.stages(2), model=2, micro=ml.serial(4))
        plan = program.plan(mesh, "batch:micro layers:pipe words:model", pad=True)
        assert plan.check().ok


def test_layers_are_not_padded_with_dims_as_long_as_they_are():
    """Each stage had three of four layers, and the loss was that of others."""
    with jax.enable_x64(True):
        program = stacks.program("plain", jnp.float64)
        mesh = ml.mesh(pipe=ml.stages(2), model=3, micro=ml.serial(4))
        plan = program.plan(mesh, "batch:micro layers:pipe embed:model", pad=True)
        assert plan.grid.padded_size(stacks.LAYERS, ("model",)) == 6
        assert plan.check().ok


def test_the_layers_of_a_stage_are_stored_on_it():
    plan = planned("plain", 4, "paired")
    assert str(plan.spec("params/w")) == "[pipe, ·, ·]"
    assert plan.shard("params/w", 3)[0] == (3, 4)
    assert str(plan.spec("params/table")) == "[·, ·]"


def test_stages_of_size_one_are_micro_batches_alone():
    program = stacks.program("plain")
    alone = program.plan(ml.mesh(micro=ml.serial(4)), "batch:micro")
    plan = program.plan(ml.mesh(pipe=ml.stages(1), micro=ml.serial(4)), "batch:micro layers:pipe")
    assert plan.schedule is None
    assert [str(step) for step in plan.steps] == [str(step) for step in alone.steps]
