"""Padding: a dim that its axes do not divide is split all the same, with exact results."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from meshlab.models.basic import mlp
from meshlab.models.language import transformer
from meshlab.models.parts import training
from meshlab.models.parts.initial import shapes

A, B, C = ml.dims(a=10, b=12, c=7)
MESHES = (ml.mesh(x=2, y=4), ml.mesh(x=8))


def holds(fn, arguments, layouts, mesh=MESHES[0]):
    program = ml.trace(fn, *arguments)
    for layout in layouts:
        report = program.plan(mesh, layout, pad=True).check()
        assert report.ok, f"{layout}: {report}"
    return program


def test_without_padding_it_is_refused_with_the_sizes_that_fit():
    program = ml.trace(ml.tanh, ml.f32[A, B])
    with pytest.raises(ml.LayoutError, match=r"`a` has size 10.*Sizes that fit: 8 or 12; or plan with pad=True"):
        program.plan(ml.mesh(y=4), "a:y")


def test_arguments_and_outputs_are_stored_padded():
    plan = ml.trace(ml.square, ml.f32[A, B]).plan(ml.mesh(y=4), "a:y", pad=True)
    assert not plan.collectives
    assert plan.memory.argument_bytes == plan.memory.output_bytes == 3 * 12 * 4
    assert [plan.shard("out", device)[0] for device in range(4)] == [(0, 3), (3, 6), (6, 9), (9, 10)]
    x = np.arange(120, dtype=np.float32).reshape(10, 12)
    result = plan.run(ml.tensor(x, A, B))
    assert result.array.shape == (10, 12)
    np.testing.assert_array_equal(result.array, x * x)


@pytest.mark.share(5)
@pytest.mark.parametrize("layout", ["a:y", "b:x+y", "c:x", "a:y b:x", "a:x b:y", "a:x+y", "c:y+x"])
def test_sums_products_and_extremes_leave_padding_out(layout):
    def fn(x, w):
        y = ml.dot(ml.exp(x), w, "b")
        return y, 1.0 / x.sum("a"), x.max("a", "b"), x.min("b"), ml.softmax(y, "c"), ml.log(x * x).mean()

    holds(fn, (ml.f32[A, B], ml.f32[B, C]), [layout])


@pytest.mark.share(5)
@pytest.mark.parametrize("layout", ["a:y", "b:x+y", "a:y b:x", "a:x b:y", "a:x+y"])
def test_what_does_more_than_map_and_sum_has_it_gathered(layout):
    def fn(x):
        return ml.cumsum(x, "a"), ml.sort(x, "b"), x.array.reshape(120), x.array[1:, ::2], ml.argmax(x, "a")

    holds(fn, (ml.f32[A, B],), [layout])


def test_relayouts_pad_and_cut():
    program = ml.trace(ml.tanh, ml.f32[A, B])
    for layout in (
        {"a": "x", "out": {"a": None, "b": "x"}},
        {"b": "y", "out": {"a": "x+y", "b": None}},
        {"a": "x+y", "out": {"a": "y"}},
        {"a": "y+x", "out": {"a": "x+y"}},
        {"a": "y", "out": {"a": None}},
    ):
        report = program.plan(MESHES[0], layout, pad=True).check()
        assert report.ok, report


def test_gradients_are_scattered_into_padded_parts():
    def step(w, x):
        return w - 0.1 * jax.grad(lambda w: ml.square(ml.dot(x, w, "b")).mean())(w)

    program = ml.trace(step, ml.f32[B, C], ml.f32[A, B])
    plan = program.plan(ml.mesh(x=8), {"a": "x", "w": {"c": "x"}}, pad=True)
    assert plan.check().ok
    (scattered,) = [c for c in plan.collectives if c.kind == "reduce-scatter"]
    assert scattered.payload_bytes == 12 * 8 * 4


STORED = {"batch": "x", "params/*": {"hidden": "x"}}


@pytest.mark.share(5)
@pytest.mark.parametrize(
    "layout", ["batch:x", "hidden:y", "batch:x hidden:y", "classes:x+y", "rows:y cols:x", STORED], ids=str
)
def test_a_training_step_of_awkward_sizes(layout):
    config = mlp.Config(batch=9, rows=5, cols=3, hidden=11, classes=6)
    arguments = (shapes(mlp.init, config), *mlp.inputs(config))
    holds(mlp.step, arguments, [layout], MESHES[layout is STORED])


@pytest.mark.nightly
def test_a_scanned_transformer_of_awkward_sizes():
    config = transformer.Config(batch=3, seq=6, vocab=21, embed=10, heads=3, group=1, head=4, ffn=14, layers=2)
    optimizer = training.adamw()
    params = shapes(transformer.init, config)
    program = ml.trace(
        training.adamw_step(transformer.loss, optimizer),
        params,
        jax.eval_shape(optimizer.init, params),
        *transformer.inputs(config),
    )
    for layout in (
        {"batch": "x"},
        {"heads": "x", "ffn": "y"},
        {"batch": "y", "params/*": {"embed": "y"}, "opt_state/*": {"embed": "y"}},
        {"batch": "x", "vocab": "y", "residual": {"seq": "y"}},
    ):
        report = program.plan(MESHES[0], layout, pad=True).check()
        assert report.ok, f"{layout}: {report}"


def test_whole_numbers_stay_exact():
    def fn(x, w):
        return ml.dot(x, w, "b"), x.sum("a"), x.max("a")

    program = ml.trace(fn, ml.i32[A, B], ml.i32[B, C])
    random = np.random.default_rng(0)
    x, w = random.integers(-9, 9, (10, 12)), random.integers(-9, 9, (12, 7))
    for layout in ("a:y", "b:x+y", "c:y a:x"):
        sums = program.plan(MESHES[0], layout, pad=True).run(x.astype(np.int32), w.astype(np.int32))
        for one, other in zip(sums, (x @ w, x.sum(0), x.max(0)), strict=True):
            np.testing.assert_array_equal(one.array, other)


def test_a_padded_plan_has_no_words_in_jax():
    """JAX takes no uneven shards for arguments and outputs; that is told before JAX does."""
    program = ml.trace(lambda x, y: (ml.tanh(x), y), ml.f32[C, A], ml.f32[C])
    plan = program.plan(ml.mesh(y=4), {"c": "y", "out/1": {"c": None}}, pad=True)
    for name, ask in (
        (r"plan\.xla\(\)", plan.xla),
        (r"plan\.xla\(\)", lambda: plan.xla("stored")),
        (r"plan\.shardings", lambda: plan.shardings),
        (r"plan\.partition_specs", lambda: plan.partition_specs),
    ):
        message = (
            name
            + r" is for JAX's and XLA's own partitioner, which takes no uneven shards for arguments and outputs, but "
            r"this plan pads some:\n  1\. At `x`, `y`, `out/0`: `c` has size 7, which 4 \(`y`\) does not divide\. "
            r"Sizes that fit: 4 or 8\.\nChoose sizes that fit; or run it by plan\.run, which pads by itself\."
        )
        with pytest.raises(ml.LayoutError, match=message) as caught:
            ask()
        assert [problem.code for problem in caught.value.problems] == ["not_divisible"]


def test_what_is_padded_inside_alone_has_words_in_jax():
    program = ml.trace(lambda x, y: (ml.tanh(x) * y).sum(), ml.f32[C], ml.f32[C])
    plan = program.plan(ml.mesh(y=4), {"c": "y", "x": {"c": None}, "y": {"c": None}}, pad=True)
    assert plan.rules.padded
    assert plan.xla().equal


EQUAL = {
    "softmax": lambda x: jax.nn.softmax(x[:, 0], 1),
    "max": lambda x: x[:, 0].max(1),
    "cumsum": lambda x: jnp.cumsum(x[:, 0], 1),
    "argmax": lambda x: jnp.argmax(x[:, 0], 1),
    "prod": lambda x: x[:, :1].prod(2),
    "roll": lambda x: jnp.roll(x, 1, 1)[:, :1],
    "gradient": jax.grad(lambda x: jnp.square(jax.nn.softmax(x[:, 0], 1)).sum()),
}


@pytest.mark.share(8)
@pytest.mark.parametrize("size", [2, 4, 6])
@pytest.mark.parametrize(
    "mesh", [ml.mesh(x=5, y=ml.serial(2)), ml.mesh(x=7, y=ml.serial(2)), ml.mesh(x=3, y=2), ml.mesh(x=2, y=3)], ids=str
)
@pytest.mark.parametrize("name", EQUAL)
def test_dims_of_one_size_are_padded_each_for_itself(name, mesh, size):
    program = ml.trace(EQUAL[name], ml.named(jax.ShapeDtypeStruct((size, 2, size), jnp.float32), "batch seq heads"))
    plan = program.plan(mesh, "heads:x batch:y", pad=True)
    report = plan.check()
    assert report.ok, report


def test_blocks_in_time_are_no_larger_than_they_must_be():
    program = ml.trace(lambda x: x.max(1), ml.named(jax.ShapeDtypeStruct((4, 4), jnp.float32), "batch heads"))
    plan = program.plan(ml.mesh(data=5, micro=ml.serial(2)), "heads:data batch:micro", pad=True)
    assert [(c.kind, c.shape, c.times) for c in plan.collectives] == [("all-reduce", (2,), 2)]
    assert "padded: heads 4 → 5, wherever sharded" in str(plan.explain())


def test_a_sweep_pads_each_dim_for_itself():
    program = ml.trace(lambda x: x.max(1), ml.named(jax.ShapeDtypeStruct((4, 4), jnp.float32), "batch heads"))
    mesh = ml.mesh("v5e:5x1", data=5, micro=ml.serial(2))
    swept = ml.sweep(program.plan(mesh, "heads:data batch:micro", pad=True), batch=[4, 8], heads=[4, 6])
    for i, batch in enumerate((4, 8)):
        for j, heads in enumerate((4, 6)):
            alone = program.resize(batch=batch, heads=heads).plan(mesh, "heads:data batch:micro", pad=True)
            assert swept.estimate[i, j] == pytest.approx(alone.time.estimate, rel=1e-12)
            assert swept.peak_bytes[i, j] == alone.memory.peak_bytes
