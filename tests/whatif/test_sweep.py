"""What if: a plan at other sizes costs what the plan costs that is made for them."""

import dataclasses
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from meshlab.cost.step_time.time import time_of
from meshlab.cost.workload.options import Options
from meshlab.cost.workload.per_shard_payloads import likeness
from meshlab.cost.workload.scenario import Scenario
from meshlab.engine.planning.steps import Compute
from meshlab.engine.plans.per_shard_collectives import per_shard_collectives_of
from meshlab.models.language import llama, transformer
from meshlab.models.parts.initial import shapes
from meshlab.whatif.crossover import seconds_at

pytestmark = pytest.mark.share(2, of="file")

FSDP = {"batch": "data", "params/*": {"embed": "data"}}
BOTH = FSDP | {"heads": "model", "ffn": "model", "vocab": "model"}


def program(model=llama, **sizes):
    config = model.Config(**({"batch": 16, "seq": 64, "embed": 64, "ffn": 128} | sizes))

    def step(params, tokens, targets):
        return jax.value_and_grad(model.loss)(params, tokens, targets)

    return ml.trace(step, shapes(model.init, config), *model.inputs(config))


PLAN = program().plan(ml.mesh("v5e", data=4, model=2), BOTH)
RENAMED = ml.trace(lambda x: ml.tanh(x.rename(seq="kv")), ml.f32[ml.dims(seq=64)]).plan(ml.mesh("v5e", data=2))
NOTHING = ml.trace(jnp.tanh, ml.named(jnp.zeros((0, 8)), "nothing some")).plan(ml.mesh("v5e", data=2))


@pytest.mark.share(8)
@pytest.mark.parametrize(
    ("machine", "sizes", "mesh"),
    [
        ("v5e", {}, {"data": 4, "model": 2}),
        ("v5p", {"batch": 64}, {"data": 8, "model": 2}),
        ("h100", {"batch": 32, "seq": 128}, {"data": 16, "model": 4}),
        ("v5e", {"ffn": 512, "embed": 256}, {"data": 2, "model": 4}),
        ("h200", {"layers": 6, "vocab": 256}, {"data": 4, "model": 2}),
    ],
)
@pytest.mark.parametrize("options", [{}, {"prefetch": True, "attention": "flash"}])
def test_a_point_costs_what_the_plan_made_for_it_costs(machine, sizes, mesh, options):
    made_plan = program(**sizes).plan(ml.mesh(machine, **mesh), BOTH)
    time = made_plan.time.given(**options)
    swept = ml.sweep(PLAN, on=machine, **sizes, **mesh, **options)
    for name, values in swept.figures.items():
        figure = getattr(time, name)
        known = math.nan if figure is None else figure  # no steps on some machine are published
        assert values.item() == pytest.approx(known, rel=1e-9, nan_ok=True), name
    # Which buffer lies in the space of which is not worked out anew.
    peak = made_plan.memory.given(options.get("attention", "default")).peak_bytes
    assert swept.peak_bytes.item() == pytest.approx(peak, rel=0.05)
    assert swept.limit_bytes.item() == ml.hardware(machine).memory_bytes
    assert {axes: seconds.item() for axes, seconds in swept.communication.items()} == pytest.approx(time.communication)


def test_sliced_dims_follow_the_dims_that_they_are_slices_of():
    """Positions but the last predict: `seq` less one has a made-up name."""

    def loss(x, w):
        return jnp.square(ml.dot(x, w, "embed").array[:, :-1])

    def plan(seq):
        dims = ml.dims(batch=4, seq=seq, embed=256, vocab=512)
        b, s, e, v = dims
        return ml.trace(loss, ml.f32[b, s, e], ml.f32[e, v]).plan(ml.mesh("h100", data=2), "batch:data")

    swept = ml.sweep(plan(64), seq=[64, 100, 4096])
    for seq, seconds, moved in zip((64, 100, 4096), swept.estimate, swept.figures["memory_bytes"], strict=True):
        assert moved == pytest.approx(plan(seq).time.memory_bytes, rel=1e-9)
        assert seconds == pytest.approx(plan(seq).time.estimate, rel=1e-9)


def test_of_branches_the_longest_runs_at_each_point():
    """One gathers and sums as much whatever the batch is, the other computes much of a large one."""

    def plan(batch):
        def fn(flag, x, w, table):
            return jax.lax.cond(flag, lambda: x * jnp.sort(table).sum(), lambda: jnp.sin(x @ w @ w))

        shapes = ((batch, 512), (512, 512), (1 << 20,))
        x, w, table = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes)
        flag = jax.ShapeDtypeStruct((), jnp.bool_)
        program = ml.trace(fn, flag, ml.named(x, "batch _"), ml.named(w, "_ _"), ml.named(table, "rows"))
        return program.plan(ml.mesh("v5e", data=4), "batch:data rows:data")

    sizes = [4, 64, 65536]
    swept = ml.sweep(plan(64), batch=sizes)
    for i, size in enumerate(sizes):
        time = plan(size).time
        for name, values in swept.figures.items():
            assert values[i] == pytest.approx(getattr(time, name), rel=1e-9), (name, size)


def test_many_points_make_one_table():
    swept = ml.sweep(PLAN, on=["v5e", ml.hardware("h100")], batch=[16, 32, 64], data=[4, 8, 16, 32])
    assert swept.shape == swept.estimate.shape == (2, 3, 4)
    table = swept.columns()
    assert list(table)[:3] == ["on", "batch", "data"]
    assert table["on"].tolist() == ["v5e"] * 12 + ["h100"] * 12
    assert table["batch"].tolist() == [16] * 4 + [32] * 4 + [64] * 4 + [16] * 4 + [32] * 4 + [64] * 4
    assert "communication over model" in table
    assert table["fits"].sum() == 22
    assert np.isnan(table["estimate"]).sum() == len(swept.reasons) == 2
    assert swept.reasons[0, 0, 3] == "`batch` of 16 is not divided by 32 (data)."
    assert np.all(np.diff(swept.estimate[:, :, 0], axis=1) > 0)


def test_a_mesh_that_does_not_fit_is_left_out_and_said():
    swept = ml.sweep(PLAN, on="v5e", data=[4, 16], model=[2, 32], seq=64, heads=64)
    assert swept.reasons.keys() == {(0, 1, 1, 0, 0)}
    assert "No slice of Google TPU v5e has 512 devices" in swept.reasons[0, 1, 1, 0, 0]


def test_a_point_without_room_is_left_out_whatever_the_machine_is_called():
    network = ml.Switch.of(8, 1e11)
    mine = ml.Hardware.of("my machine", flops={"f32": 1e12}, memory=1e9, bandwidth=1e9, network=network)
    swept = ml.sweep(PLAN, on=["v5e", mine], data=[4, 6], batch=48, embed=192)
    assert swept.reasons.keys() == {(1, 1, 0, 0)}
    assert "12 devices are not a whole number of nodes of 8 (my machine)." in swept.reasons[1, 1, 0, 0]


def test_a_mesh_lies_at_every_point_as_it_was_requested_to():
    traced = program()
    turned = traced.plan(ml.lay(ml.mesh("v5e:2x8", data=8, model=2), model=1), BOTH)
    assert turned.time.lower > traced.plan(ml.mesh("v5e:2x8", data=8, model=2), BOTH).time.lower
    assert turned.time.lower <= turned.time.estimate <= turned.time.upper
    slices = traced.plan(ml.mesh("v5e:2*2x2", data=4, model=2), BOTH)
    for plan, data, mesh in (
        (turned, 8, turned.mesh),
        (turned, 2, ml.lay(ml.mesh("v5e", data=2, model=2), model=1)),
        (slices, 4, slices.mesh),
        (slices, 16, ml.mesh("v5e:2*4x4", data=16, model=2)),
    ):
        swept = ml.sweep(plan, data=data, batch=64)
        assert swept.estimate.item() == pytest.approx(program(batch=64).plan(mesh, BOTH).time.estimate)


@pytest.mark.nightly
def test_plans_cross_where_they_take_equally_long():
    """In a step that only sends, gathers of weights do not grow with the batch, and sums of activations do."""
    config = {"batch": 64, "seq": 128, "embed": 512, "ffn": 2048}
    traced = program(transformer, **config)
    machine = ml.hardware("v5e").ideal
    fsdp = traced.plan(ml.mesh(machine, data=8, model=2), FSDP)
    tensor = traced.plan(ml.mesh(machine, data=8, model=2), {"ffn": "model", "heads": "model", "vocab": "model"})
    crossings = ml.crossover(fsdp, tensor, "batch", 1, 65536)
    assert crossings
    for size in crossings:
        before, at, after = (
            [
                seconds_at(plan, "batch", np.array([size * more]), "estimate", Options()).item()
                for plan in (fsdp, tensor)
            ]
            for more in (0.999, 1, 1.001)
        )
        assert at[0] == pytest.approx(at[1], rel=1e-9)
        assert (before[0] - before[1]) * (after[0] - after[1]) < 0
    assert ml.crossover(fsdp, fsdp, "batch", 8, 16) == (8, 16)  # equal everywhere: both ends


def test_of_a_stretch_of_equal_times_both_ends_are_told():
    """Kernels of a few elements wait for their launch, whatever they compute, until the batch is large enough."""
    batch, few, many = ml.dims(batch=64, few=64, many=4096)
    one, other = (
        ml.trace(lambda x: ml.tanh(x), ml.f32[batch, dim]).plan(ml.mesh("h100", data=1)) for dim in (few, many)
    )
    machine = ml.hardware("h100")
    end = machine.efficiency.launch.value * machine.bytes_per_second * machine.efficiency.memory.value / (8 * 4096)
    low, high = ml.crossover(one, other, "batch", 1, 1e6)
    assert (low, high) == (1, pytest.approx(end, rel=1e-12))
    assert ml.crossover(one, other, "batch", end * 1.001, 1e6) == ()


@pytest.mark.parametrize("batch", [8, 10, 12, 13, 20])
def test_a_padded_plan_is_padded_at_other_sizes(batch):
    def plan(batch, data=4):
        dims = ml.dims(batch=batch, hidden=1022, out=512)
        b, h, o = dims

        def step(w, x):
            loss, gradient = jax.value_and_grad(lambda w: ml.relu(ml.dot(x, w, h)).sum())(w)
            return loss, w - 0.1 * gradient

        layout = {"batch": "data", "hidden": "model", "w": {"hidden": ("data", "model")}}
        program = ml.trace(step, ml.f32[h, o], ml.f32[b, h])
        return program.plan(ml.mesh("v5e", data=data, model=2), layout, pad=True)

    for data in (4, 8):  # on 2 the weights take another chain of collectives
        replanned, swept = plan(batch, data), ml.sweep(plan(10), batch=batch, data=data)
        assert swept.estimate.item() == pytest.approx(replanned.time.estimate, rel=1e-9)
        assert swept.figures["memory_bytes"].item() == pytest.approx(replanned.time.memory_bytes, rel=1e-9)
        assert swept.peak_bytes.item() == pytest.approx(replanned.memory.peak_bytes, rel=0.001)


def test_points_at_which_a_figure_is_missing_are_left_out():
    """Of the network between nodes of one's own machine nothing is known."""
    given = {"flops": {"f32": 1e14}, "memory": 64e9, "bandwidth": 2e12, "network": ml.Switch.of(4, 1e11)}
    mine = ml.Hardware.of("my machine", **given)
    batch, hidden = ml.dims(batch=64, hidden=128)
    program = ml.trace(lambda x, w: ml.dot(x, w, hidden), ml.f32[batch, hidden], ml.f32[hidden])
    swept = ml.sweep(program.plan(ml.mesh(mine, model=2), "hidden:model"), on=[mine, "h100"], model=[2, 4, 8])
    assert np.isnan(swept.estimate).tolist() == [[False, False, True], [False] * 3]
    assert swept.reasons.keys() == {(0, 2)}
    assert "no figure for the network between nodes" in swept.reasons[0, 2]
    assert not swept.fits[0, 2]
    # The name of a machine says nothing of whether there is one.
    few = dataclasses.replace(mine, network=ml.Torus.of(4, 2, link=1e11))
    small = ml.sweep(program.plan(ml.mesh(few, model=2), "hidden:model"), model=[2, 4, 64])
    assert small.reasons.keys() == {(2,)}
    assert "No slice of my machine has 64 devices" in small.reasons[2,]


def test_slices_and_requests_are_kept_where_the_mesh_is_varied():
    lying = ml.lay(ml.mesh("v5e:2*4x4", data=8, model=4), model=1)
    swept = ml.sweep(PLAN.program.plan(lying, BOTH), data=[8, 16])
    for i, data in enumerate((8, 16)):
        mesh = ml.lay(ml.mesh(f"v5e:2*4x{data // 2}", data=data, model=4), model=1)
        time = PLAN.program.plan(mesh, BOTH).time
        assert swept.estimate[i] == pytest.approx(time.estimate, rel=1e-9)


def test_it_is_told_in_words():
    swept = ml.sweep(PLAN, on=["v5e", ml.hardware("h100")], batch=[6, 16, 32])
    text = repr(swept)
    for part in ("v5e, h100", "6, 16, 32", "6, of which 4 are possible", "`batch` of 6 is not divided by 4 (data)."):
        assert part in text
        assert part in swept._repr_html_()
    # The same words as of one point, and as its columns have.
    told = {"estimated step time", "model FLOPs utilisation"}
    assert told <= dict(swept.rows()).keys() & dict(PLAN.time.rows()).keys()
    assert "estimate" in swept.columns()
    time = time_of(Scenario(PLAN, {"batch": np.array([16.0, 32.0])}, PLAN.grid, (PLAN.mesh.on,)))
    assert repr(time).endswith("points    2")


def convolved(batch, width, space=4, taps=3):
    """A convolution along `width`, whose halo is a column or more of each neighbour."""

    def fn(x):
        image, filters, numbers = x.array[:, :, None], jnp.ones((taps, 1, 1)), ("NHC", "HIO", "NHC")
        return jax.lax.conv_general_dilated(image, filters, (1,), "SAME", dimension_numbers=numbers)

    program = ml.trace(fn, ml.f32[ml.dims(batch=batch, width=width)])
    return program.plan(ml.mesh("cpu", space=space), "width:space")


def test_halos_are_as_wide_as_they_are():
    plan = convolved(8, 32)
    for sizes in ({"batch": 4096}, {"width": 256}, {"space": 8}, {"batch": 512, "width": 64, "space": 2}):
        swept = ml.sweep(plan, **sizes).communication["space"].item()
        assert swept == pytest.approx(convolved(**({"batch": 8, "width": 32} | sizes)).time.communication["space"])


def test_a_collective_is_shaped_like_what_has_most_axes_in_common_with_it():
    """A halo of what is read: as many images, and channels that it has in common with that alone."""

    def fn(x):
        filters, numbers = jnp.ones((3, 5, 7)), ("NHC", "HIO", "NHC")
        return jax.lax.conv_general_dilated(x.array, filters, (1,), "SAME", dimension_numbers=numbers)

    program = ml.trace(fn, ml.f32[ml.dims(batch=8, width=32, channels=5)])
    plan = program.plan(ml.mesh("cpu", space=4), "width:space")
    (step,) = [step for step in plan.steps if isinstance(step, Compute) and step.per_shard]
    ((_, sent),) = per_shard_collectives_of(plan.steps, plan.program, plan.grid).items()
    assert sent
    for collective in sent:
        alike = likeness(step, collective, plan)
        assert alike is not None
        assert (alike[0], alike[2]) == (step.operation.inputs[0], (0, 2))


def test_what_could_be_either_is_not_varied():
    """A halo as wide as the shard: of wider shards it might be the shard, or be as wide as it is."""
    plan = convolved(8, 8, taps=5)
    assert ml.sweep(plan, on=["v5e", "v5p"]).estimate.shape == (2,)
    with pytest.raises(ml.HardwareError, match=r"`width` cannot be varied: .* conv_general_dilated at .*test_sweep.py"):
        ml.sweep(plan, width=16)
    with pytest.raises(ml.HardwareError, match=r"`width` cannot be varied"):
        ml.crossover(plan, plan, "width", 8, 16)


@pytest.mark.parametrize("high", [10**30, Fraction(10**30)])
def test_a_crossover_is_looked_for_up_to_any_number(high):
    assert ml.crossover(PLAN, PLAN, "batch", 1, high) == ml.crossover(PLAN, PLAN, "batch", 1, 1e30)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ml.sweep(PLAN, batsh=8), r"There is no dim and no mesh axis `batsh`. Did you mean `batch`\?"),
        (lambda: ml.sweep(PLAN, batch=[8, 0]), r"Invalid variation: `batch` was given \[8, 0\]. Give positive int"),
        (lambda: ml.sweep(PLAN, batch=8, on=[]), r"Invalid variation: `on` was given no machine"),
        (lambda: ml.sweep(PLAN, on=["v5e", 3]), r"A mesh must be placed on .* not 3"),
        (
            lambda: ml.sweep(PLAN, on=np.array(["v5e", "h100"])),
            r"A mesh must be placed on .* not an array of shape \(2,\)",
        ),
        (lambda: ml.sweep(PLAN.program, batch=8), r"ml.sweep was given Program.*, and needs a plan"),  # type: ignore[arg-type]
        (lambda: ml.sweep(RENAMED, seq=64, kv=128), r"`kv` is as long as `seq`, which is renamed to it or from it"),
        (lambda: ml.sweep(NOTHING, nothing=8), r"`nothing` has size 0 in this program, so no other size"),
        (lambda: ml.sweep(PLAN, prefetch="yes"), r"`prefetch` must be True or False, not 'yes'"),
        (lambda: ml.sweep(PLAN, batch=[[8, 16]]), r"Invalid variation: `batch` was given \[\[8, 16\]\]"),
        (lambda: ml.sweep(PLAN, batch=8.5), r"Invalid variation: `batch` was given 8.5"),
        (lambda: ml.sweep(PLAN, batch=[]), r"Invalid variation: `batch` was given \[\]"),
        (lambda: ml.sweep(PLAN, on="v55", batch=8), r"There is no machine `v55`. Did you mean `v5p` or `v5e`\?"),
        (lambda: ml.sweep(PLAN, on=["v5e", "v5e:4,4"]), r"`4,4` in `v5e:4,4` is an invalid shape"),
        (lambda: ml.crossover(PLAN, PLAN, "batch", 4, 8, flash=True), r"There is no option `flash`. There are"),
        (lambda: ml.sweep(PLAN, attention="none"), r"There is no attention 'none'"),
        (
            lambda: ml.sweep(PLAN, batch=[1, 2]),
            r"any of these points:\n  1. `batch` of 1 is not .*\n  2. `batch` of 2 .*\nGive sizes",
        ),
        (
            lambda: ml.sweep(PLAN, batch=7),
            r"points: `batch` of 7 is not divided by 4 \(data\). Give sizes that",
        ),
        (
            lambda: ml.sweep(PLAN, batch=10**20),
            r"was given 1\d+, and a size is at most 9,223,372,036,854,775,807",
        ),
        (
            lambda: ml.sweep(PLAN, on=["v5e", "h100"], batch=range(1, 10**30), data=np.arange(1, 9)),
            r"at most 10,000,000 points, not .* \(2 of `on` × 9+[,9]+ of `batch` × 8 of `data`\): each needs",
        ),
        (lambda: ml.sweep(program().plan(ml.mesh(data=4), FSDP), batch=8), r"ml.sweep needs a machine, and the mesh"),
        (
            lambda: ml.sweep(program().plan(ml.mesh("v5e", data=4, m=1), FSDP), m=2),
            r"the mesh axis `m` has one device, so it shards nothing: plan it with 2",
        ),
        (
            lambda: ml.sweep(program().plan(ml.mesh("v5e", data=4, m=ml.serial(1)), FSDP), m=2),
            r"the serial axis `m` has one iteration, so there is no loop: plan it with ml\.serial\(2\)",
        ),
        (lambda: ml.crossover(PLAN, PLAN, "batch", 8, 4), r"must be numbers, 0 < low < high, not 8 and 4"),
        (lambda: ml.crossover(PLAN, PLAN, "batch", 1, float("inf")), r"0 < low < high, not 1 and inf"),
        (lambda: ml.crossover(PLAN, PLAN, "batch", Fraction(1, 10**400), 8), r"0 < low < high, not Fraction"),  # type: ignore[arg-type]
        (lambda: ml.crossover(PLAN, PLAN, "batch", "1", 8), r"0 < low < high, not '1' and 8"),  # type: ignore[arg-type]
        (
            lambda: ml.crossover(PLAN, PLAN, "batch", 4, 8, prefech=True),
            r"no option `prefech`. Did you mean `prefetch`",
        ),
        (lambda: ml.crossover(PLAN, PLAN), r"0 < low < high, not 0 and 0"),
        (lambda: ml.crossover(PLAN, 3, "batch", 4, 8), r"ml.crossover was given 3, and needs a plan"),  # type: ignore[arg-type]
        (lambda: ml.crossover(PLAN, PLAN, 3, 4, 8), r"A dim must be given by its name, .* not 3"),  # type: ignore[arg-type]
        (lambda: ml.crossover(NOTHING, NOTHING, "nothing", 4, 8), r"`nothing` has size 0 in this program"),
        (
            lambda: ml.crossover(PLAN, program().plan(ml.mesh("l4", data=4), FSDP), "batch", 4, 8, of="expected"),
            r"No steps on NVIDIA L4 are published, so there is no expected time: use `estimate`",
        ),
        (lambda: ml.crossover(PLAN, PLAN, "batch", 4, 8, of="price"), r"A time has no figure 'price'. There are"),
        (
            lambda: ml.crossover(PLAN, PLAN, "data", 4, 8),
            r"`data` is a mesh axis; a crossover is along a dim",
        ),
        (
            lambda: ml.crossover(PLAN, NOTHING, "batch", 4, 8),
            r"no dim `batch` in the program of the second plan; .* There are none",
        ),
        (
            lambda: ml.crossover(PLAN, PLAN, "bath", 4, 8),
            r"no dim `bath` in the program of either plan; .* Did you mean `batch`",
        ),
    ],
)
def test_what_cannot_be_varied_is_told(make, said):
    with pytest.raises(ml.HardwareError, match=said):
        make()
