"""What if: a plan at other sizes costs what the plan costs that is made for them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from meshlab.cost.setting import Options
from meshlab.cost.sweep import seconds_at
from meshlab.models import llama, transformer
from meshlab.models.initial import shapes

FSDP = {"batch": "data", "params/*": {"embed": "data"}}
BOTH = FSDP | {"heads": "model", "ffn": "model", "vocab": "model"}


def program(model=llama, **sizes):
    config = model.Config(**({"batch": 16, "seq": 64, "embed": 64, "ffn": 128} | sizes))

    def step(params, tokens, targets):
        return jax.value_and_grad(model.loss)(params, tokens, targets)

    return ml.trace(step, shapes(model.init, config), *model.inputs(config))


PLAN = program().plan(ml.mesh("v5e", data=4, model=2), BOTH)


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
    made = made_plan.time.given(**options)
    found = ml.sweep(PLAN, on=machine, **sizes, **mesh, **options)
    for name, values in found.figures.items():
        assert values.item() == pytest.approx(getattr(made, name), rel=1e-9), name
    # Which buffer lies in the space of which is not worked out anew.
    peak = made_plan.memory.given(options.get("attention", "stored")).peak_bytes
    assert found.peak_bytes.item() == pytest.approx(peak, rel=0.05)
    assert found.limit_bytes.item() == ml.hardware(machine).memory_bytes
    assert {axes: seconds.item() for axes, seconds in found.communication.items()} == pytest.approx(made.communication)


def test_sliced_dims_follow_the_dims_that_they_are_slices_of():
    """Positions but the last predict: `seq` less one has a made-up name."""

    def loss(x, w):
        return jnp.square(ml.dot(x, w, "embed").array[:, :-1])

    def plan(seq):
        dims = ml.dims(batch=4, seq=seq, embed=256, vocab=512)
        b, s, e, v = dims
        return ml.trace(loss, ml.f32[b, s, e], ml.f32[e, v]).plan(ml.mesh("h100", data=2), "batch:data")

    found = ml.sweep(plan(64), seq=[64, 100, 4096])
    for seq, seconds, moved in zip((64, 100, 4096), found.estimate, found.figures["memory_bytes"], strict=True):
        assert moved == pytest.approx(plan(seq).time.memory_bytes, rel=1e-9)
        assert seconds == pytest.approx(plan(seq).time.estimate, rel=1e-9)


def test_many_points_make_one_table():
    found = ml.sweep(PLAN, on=["v5e", ml.hardware("h100")], batch=[16, 32, 64], data=[4, 8, 16, 32])
    assert found.shape == found.estimate.shape == (2, 3, 4)
    table = found.columns()
    assert list(table)[:3] == ["on", "batch", "data"]
    assert table["on"].tolist() == ["v5e"] * 12 + ["h100"] * 12
    assert table["batch"].tolist() == [16] * 4 + [32] * 4 + [64] * 4 + [16] * 4 + [32] * 4 + [64] * 4
    assert "sending over model" in table
    assert table["fits"].sum() == 22
    assert np.isnan(table["estimate"]).sum() == len(found.reasons) == 2
    assert found.reasons[0, 0, 3] == "`batch` of 16 is not divided by 32 (data)."
    assert np.all(np.diff(found.estimate[:, :, 0], axis=1) > 0)


def test_a_mesh_that_does_not_fit_is_left_out_and_said():
    found = ml.sweep(PLAN, on="v5e", data=[4, 16], model=[2, 32], seq=64, heads=64)
    assert found.reasons.keys() == {(0, 1, 1, 0, 0)}
    assert "No slice of Google TPU v5e has 512 devices" in found.reasons[0, 1, 1, 0, 0]


def test_a_point_without_room_is_left_out_whatever_the_machine_is_called():
    network = ml.Switch.of(8, 1e11)
    mine = ml.Hardware.of("my machine", flops={"f32": 1e12}, memory=1e9, bandwidth=1e9, network=network)
    found = ml.sweep(PLAN, on=["v5e", mine], data=[4, 6], batch=48, embed=192)
    assert found.reasons == {(1, 1, 0, 0): "12 devices are no whole number of nodes of 8 (my machine)."}


def test_a_mesh_lies_at_every_point_as_it_was_wished_to_lie():
    made = program()
    turned = made.plan(ml.lay(ml.mesh("v5e:2x8", data=8, model=2), model=1), BOTH)
    assert turned.time.lower > made.plan(ml.mesh("v5e:2x8", data=8, model=2), BOTH).time.lower
    assert turned.time.lower <= turned.time.estimate <= turned.time.upper
    slices = made.plan(ml.mesh("v5e:2*2x2", data=4, model=2), BOTH)
    for plan, data, mesh in (
        (turned, 8, turned.mesh),
        (turned, 2, ml.lay(ml.mesh("v5e", data=2, model=2), model=1)),
        (slices, 4, slices.mesh),
        (slices, 16, ml.mesh("v5e:2*4x4", data=16, model=2)),
    ):
        found = ml.sweep(plan, data=data, batch=64)
        assert found.estimate.item() == pytest.approx(program(batch=64).plan(mesh, BOTH).time.estimate)


def test_plans_cross_where_they_take_equally_long():
    """In a step that only sends, gathers of weights do not grow with the batch, and sums of activations do."""
    config = {"batch": 64, "seq": 128, "embed": 512, "ffn": 2048}
    made = program(transformer, **config)
    machine = ml.hardware("v5e").ideal
    fsdp = made.plan(ml.mesh(machine, data=8, model=2), FSDP)
    tensor = made.plan(ml.mesh(machine, data=8, model=2), {"ffn": "model", "heads": "model", "vocab": "model"})
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
    assert len(ml.crossover(fsdp, fsdp, "batch", 8, 16)) > 1000  # equal everywhere


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
        found = ml.sweep(plan, **sizes).communication["space"].item()
        assert found == pytest.approx(convolved(**({"batch": 8, "width": 32} | sizes)).time.communication["space"])


def test_what_could_be_either_is_not_varied():
    """A halo as wide as the shard: of wider shards it might be the shard, or be as wide as it is."""
    plan = convolved(8, 8, taps=5)
    assert ml.sweep(plan, on=["v5e", "v5p"]).estimate.shape == (2,)
    with pytest.raises(ml.HardwareError, match=r"`width` cannot be varied: .* conv_general_dilated at .*test_sweep.py"):
        ml.sweep(plan, width=16)
    with pytest.raises(ml.HardwareError, match=r"`width` cannot be varied"):
        ml.crossover(plan, plan, "width", 8, 16)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ml.sweep(PLAN, batsh=8), r"There is no dim and no mesh axis `batsh`. Did you mean `batch`\?"),
        (lambda: ml.sweep(PLAN, batch=[8, 0]), r"This cannot be varied: `batch` was given \[8, 0\]. Give positive int"),
        (lambda: ml.sweep(PLAN, batch=[[8, 16]]), r"This cannot be varied: `batch` was given \[\[8, 16\]\]"),
        (lambda: ml.sweep(PLAN, batch=8.5), r"This cannot be varied: `batch` was given 8.5"),
        (lambda: ml.sweep(PLAN, batch=[]), r"This cannot be varied: `batch` was given \[\]"),
        (lambda: ml.sweep(PLAN, on="v55", batch=8), r"There is no machine `v55`. Did you mean `v5p` or `v5e`\?"),
        (lambda: ml.sweep(PLAN, on=["v5e", "v5e:4,4"]), r"`4,4` in `v5e:4,4` is no slice's shape"),
        (lambda: ml.sweep(PLAN, on=[]), r"`on` was given \[\]. Give positive integers, .* and machines"),
        (lambda: ml.crossover(PLAN, PLAN, "batch", 4, 8, flash=True), r"There is no option `flash`. There are"),
        (lambda: ml.sweep(PLAN, attention="none"), r"There is no attention 'none'"),
        (
            lambda: ml.sweep(PLAN, batch=[1, 2]),
            r"The plan cannot be had at any of these points: `batch` of 1 is not",
        ),
        (lambda: ml.sweep(program().plan(ml.mesh(data=4), FSDP), batch=8), r"ml.sweep needs a machine, and the mesh"),
        (
            lambda: ml.sweep(program().plan(ml.mesh("v5e", data=4, m=1), FSDP), m=2),
            r"the mesh axis `m` has one device, so that nothing is split over it: plan it with 2",
        ),
        (lambda: ml.crossover(PLAN, PLAN, "batch", 8, 4), r"looked for between 8 and 4; give 0 < low < high"),
        (lambda: ml.crossover(PLAN, PLAN, "batch", 4, 8, of="price"), r"A time has no figure `price`. There are"),
        (
            lambda: ml.crossover(PLAN, PLAN, "data", 4, 8),
            r"`data` is a mesh axis; a crossover is looked for",
        ),
        (lambda: ml.crossover(PLAN, PLAN, "bath", 4, 8), r"no dim and no mesh axis `bath`. Did you mean `batch`"),
    ],
)
def test_what_cannot_be_varied_is_told(make, said):
    with pytest.raises(ml.HardwareError, match=said):
        make()
