"""The layout in JAX's words, and XLA's own partitioner beside the plan: what it inserts and what it computes."""

import re
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

import meshlab as ml
from meshlab.engine.errors import MeshlabError, RunError
from meshlab.engine.verifying import xla_partitioner
from meshlab.engine.verifying.results import compare, unsharded
from meshlab.models.basic import mlp
from meshlab.models.parts.initial import shapes
from meshlab.models.zoo import models
from tests.engine.small_programs import X2Y2, X4, A, B, C, inserted_here, product

pytestmark = pytest.mark.share(2, of="file")

MODELS = {model.name: model for model in models()}
BOTH = pytest.mark.parametrize("constraints", ["all", "stored"])


def planned(name, mesh, layout):
    return ml.trace(MODELS[name].step, *MODELS[name].shapes).plan(mesh, layout)


# The layout in JAX's words


def test_specs_stand_where_the_tensors_stand():
    fsdp = {"batch": "data", "params/*": {"hidden": ("data", "model")}}
    inputs, outputs = planned("mlp", ml.mesh(data=2, model=2), fsdp).partition_specs
    params = {"w1": PartitionSpec(None, None, ("data", "model")), "w2": PartitionSpec(("data", "model"), None)}
    assert inputs == (params, PartitionSpec("data", None, None), PartitionSpec("data"))
    assert outputs == (PartitionSpec(), params)


def test_specs_need_no_devices():
    Wide = ml.Dim("wide", 2**16)
    plan = ml.trace(lambda x: x * 2.0, ml.f32[Wide]).plan(ml.mesh(pod=256, chip=256), "wide:pod+chip")
    assert plan.partition_specs == ((PartitionSpec(("pod", "chip")),), PartitionSpec(("pod", "chip")))
    with pytest.raises(ml.MeshError, match="asks for 65536 devices, and at most 64 are simulated"):
        plan.shardings  # noqa: B018


def test_shardings_are_what_jit_takes_and_the_plan_runs_in():
    stored = {"embed": "data"}
    layout = {"batch": "data", "ffn": "model", "params/*": stored, "opt_state/*": stored}
    plan = planned("mlp_adamw", ml.mesh(data=2, model=4), layout)
    program, (inputs, outputs) = plan.program, plan.shardings
    data = jax.device_put(MODELS["mlp_adamw"].data(0), inputs)
    result = jax.jit(program.fn, in_shardings=inputs, out_shardings=outputs)(*data)
    leaves = jax.tree.leaves(result)
    assert all(error <= most for _, error, most in compare(program, unsharded(plan, data), jax.tree.leaves(result)))
    assert [leaf.sharding for leaf in leaves] == jax.tree.leaves(outputs)
    run = jax.tree.leaves(plan.run(*data))
    assert all(mine.sharding.is_equivalent_to(leaf.sharding, leaf.ndim) for mine, leaf in zip(run, leaves, strict=True))


def test_trees_are_walked_beside_the_data():
    params = {"w": ml.tensor(np.ones((8, 16), np.float32), A, B), "none": None, "n": 3.0}
    plan = ml.trace(lambda params: (params["w"], {"none": None, "n": params["n"] + 1.0}), params).plan(X4, "a:x")
    inputs, outputs = plan.shardings
    placed = jax.tree.map(jax.device_put, params, inputs[0], is_leaf=lambda leaf: isinstance(leaf, ml.Tensor))
    assert placed["w"].array.sharding == NamedSharding(inputs[0]["w"].mesh, PartitionSpec("x", None))
    w, rest = jax.jit(plan.program.fn, in_shardings=inputs, out_shardings=outputs)(placed)
    assert w.array.sharding == outputs[0]
    assert rest == {"none": None, "n": 4.0}


# What XLA inserts


@BOTH
def test_what_a_person_would_write_is_partitioned_as_planned(constraints):
    report = planned("mlp", ml.mesh(data=2, model=2), "batch:data hidden:model").xla(constraints)
    # Logits of 8 by 8 elements; weights of 64 by 32 and 32 by 8, and the loss.
    assert report.inserted == {("all-reduce", ("model",)): 4 * 64, ("all-reduce", ("data",)): 4 * (2048 + 256 + 1)}
    assert report.equal
    assert report.inserted_wire_bytes == report.planned_wire_bytes == report.plan.wire_bytes


def test_scattered_gradients_are_reduced_whole_on_cpu():
    stored = {"embed": "x"}
    report = planned("mlp_sgd", X4, {"batch": "x", "params/*": stored}).xla()
    # Two weights of 16 by 32: a quarter of each is gathered, and of each the whole gradient reduced.
    assert report.planned == {
        ("all-gather", ("x",)): 1024,
        ("reduce-scatter", ("x",)): 4096,
        ("all-reduce", ("x",)): 4,
    }
    assert report.inserted == {("all-gather", ("x",)): 1024, ("all-reduce", ("x",)): 4100}
    assert not report.equal
    assert report.planned_wire_bytes == 3 * 1024 + 0.75 * 4096 + 1.5 * 4 == report.plan.wire_bytes
    assert report.inserted_wire_bytes == 3 * 1024 + 1.5 * 4100
    assert "XLA for CPU makes no reduce-scatter" in str(report)


def test_collectives_in_loops_count_as_often_as_they_run():
    Steps = ml.Dim("steps", 5)

    def repeat(x, ws):
        return ml.scan(lambda x, w: (ml.dot(ml.tanh(x), w, B).rename(c="b"), None), x, ws, Steps)[0]

    square = ml.Dim("b", 16), ml.Dim("c", 16)
    report = ml.trace(repeat, ml.f32[A, B], ml.f32[Steps, *square]).plan(X4, "b:x").xla()
    assert report.inserted[("all-reduce", ("x",))] == 5 * 8 * 16 * 4


@BOTH
def test_tags_with_rules_are_stored_as_they_say(constraints):
    program = ml.trace(lambda x, w: ml.tag(product(x, w), "made") * 2.0, ml.f32[A, B], ml.f32[B, C])
    assert ("all-gather", ("x",)) not in program.plan(X4, "b:x").xla(constraints).inserted
    assert ("all-gather", ("x",)) in program.plan(X4, {"b": "x", "made": {"a": "x"}}).xla(constraints).inserted


def test_values_made_on_the_spot_may_be_tagged():
    program = ml.trace(lambda x: x + ml.tag(ml.arange(A, ml.f32), "made"), ml.f32[A])
    report = program.plan(X4, {"a": "x", "made": {"a": None}}).xla("stored")
    np.testing.assert_array_equal(report.run(np.zeros(8, np.float32)).array, np.arange(8))


def test_groups_that_are_no_mesh_axes_are_shown_as_such():
    plan = ml.trace(lambda x: x.array.reshape(2, 8).sum(1), ml.f32[B]).plan(ml.mesh(x=8), "b:x")
    report = plan.xla("stored")
    # One number each: reduced among four devices, then gathered by two.
    assert report.inserted == {("all-reduce", ("?",)): 4, ("all-gather", ("?",)): 4}
    assert report.inserted_wire_bytes == 4 * 2 * 3 / 4 + 4
    assert "all-reduce over ?" in str(report)
    assert "· over ?: between devices that no set of mesh axes describes; XLA chose its own groups" in str(report)


def test_groups_of_devices_in_another_order_are_read():
    plan = ml.trace(lambda x: ml.square(x).sum(), ml.f32[A]).plan(ml.mesh(x=2, y=4), "a:y+x")
    report = plan.xla()
    assert "device_ids=" in report.compiled.as_text()
    assert report.inserted == {("all-reduce", ("x", "y")): 4}
    assert report.inserted_wire_bytes == 7


def test_what_is_recomputed_stays_recomputed():
    @ml.checkpoint
    def layer(x, w):
        return ml.sin(ml.dot(ml.sin(x), w, B))

    def gradients(x, w):
        return jax.grad(lambda x, w: ml.square(layer(x, w)).sum(), (0, 1))(x, w)

    plan = ml.trace(gradients, ml.f32[A, B], ml.f32[B, C]).plan(X4, "a:x")
    ours, xla = str(plan.compile().as_text()), str(plan.xla().compiled.as_text())
    assert xla.count(" dot(") == ours.count(" dot(") == 4
    assert xla.count("opt-barrier(") == ours.count("opt-barrier(") == 1


def test_narrow_floats_are_counted_as_they_are_executed():
    report = ml.trace(product, ml.bf16[A, B], ml.bf16[B, C]).plan(X4, "b:x").xla()
    assert report.planned == report.inserted == {("all-reduce", ("x",)): 2 * 8 * 8 * 2}
    assert report.planned_wire_bytes == 2 * report.plan.wire_bytes
    assert "widens bfloat16" in str(report)


# What it computes


LAYOUTS = [
    ("mlp", ml.mesh(x=2, y=2), "batch:x hidden:y"),
    ("mlp_adamw", X4, {"batch": "x", "params/*": {"embed": "x"}, "opt_state/*": {"embed": "x"}}),
    ("transformer_sgd", ml.mesh(x=2, y=4), {"batch": "x", "ffn": "y", "heads": "y", "residual": {"seq": "y"}}),
    ("autoencoder", ml.mesh(x=2, y=4), "batch:x hidden_odd:y"),
]


@pytest.mark.share(5)
@BOTH
@pytest.mark.parametrize(("name", "mesh", "layout"), LAYOUTS, ids=[name for name, _, _ in LAYOUTS])
def test_xla_computes_what_the_function_computes(name, mesh, layout, constraints):
    plan, data = planned(name, mesh, layout), MODELS[name].data(0)
    report = plan.xla(constraints)
    assert report.inserted == inserted_here(report)
    assert all(
        error <= most
        for _, error, most in compare(plan.program, unsharded(plan, data), jax.tree.leaves(report.run(*data)))
    )
    assert list(report.compiled.input_shardings[0]) == jax.tree.leaves(plan.shardings[0])
    assert list(report.compiled.output_shardings) == jax.tree.leaves(plan.shardings[1])


def test_loops_branches_and_keys_are_computed():
    def fn(key, x, count):
        def turn(carry, row):
            key, total = carry
            key, used = jax.random.split(key)
            return (key, total + row * jax.random.uniform(used)), total[0]

        (key, total), firsts = lax.scan(turn, (key, jnp.zeros(16)), x.array, reverse=True)
        total = lax.while_loop(lambda c: c[1] < count, lambda c: (c[0] * 2, c[1] + 1), (total, 0))[0]
        return key, lax.cond(count > 2, lambda t: t + 1, lambda t: t - 1, total), firsts, 7.0

    arguments = jax.random.key(5), np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32), np.int32(3)
    report = ml.trace(fn, jax.random.key(0), ml.f32[A, B], ml.i32[()]).plan(X4, "b:x").xla()
    assert report.inserted == inserted_here(report)
    key, *results = report.run(*arguments)
    expected_key, *expected = jax.jit(fn)(arguments[0], ml.tensor(arguments[1], A, B), arguments[2])
    np.testing.assert_array_equal(jax.random.key_data(key), jax.random.key_data(expected_key))
    for one, other in zip(results, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_programs_without_arguments_or_axes_are_partitioned():
    table = np.arange(4.0, dtype=np.float32)
    for mesh in (ml.mesh(), X4):
        report = ml.trace(lambda: jnp.asarray(table) * 2).plan(mesh).xla()
        np.testing.assert_array_equal(report.run(), 2 * table)
        assert report.equal
        assert "= no collectives" in str(report)


# What it says, and what it refuses


def test_a_report_is_a_table():
    lines = str(ml.trace(product, ml.f32[A, B], ml.f32[B, C]).plan(X2Y2, "a:x b:y").xla()).splitlines()
    assert lines == [
        "XLA's own partitioner beside the plan, given the spec of every value (payload bytes per device)",
        "                       plan  XLA",
        "  = all-reduce over y   128  128",
        "  sent per device       128  128",
    ]


def test_the_table_of_the_documentation_is_printed():
    config = mlp.Config()
    program = ml.trace(mlp.step, shapes(mlp.init, config), *mlp.inputs(config))
    report = program.plan(ml.mesh(data=4), {"batch": "data", "params/*": {"hidden": "data"}}).xla()
    assert textwrap.indent(str(report), "    ") in str(xla_partitioner.__doc__)


def test_other_constraints_are_refused():
    plan = ml.trace(product, ml.f32[A, B], ml.f32[B, C]).plan(X4)
    with pytest.raises(MeshlabError, match=r"the constraints 'store'; there are \"all\" .* Did you mean `stored`\?"):
        plan.xla("store")


def test_too_many_devices_are_refused_as_compile_refuses_them():
    plan = ml.trace(lambda x: x * 2.0, ml.f32[ml.Dim("wide", 128)]).plan(ml.mesh(x=128), "wide:x")
    with pytest.raises(MeshlabError, match="asks for 128 devices, and at most 64 are simulated") as compiling:
        plan.compile()
    with pytest.raises(type(compiling.value), match=re.escape(str(compiling.value))):
        plan.xla()


def test_arguments_that_do_not_fit_are_told():
    report = ml.trace(product, ml.f32[A, B], ml.f32[B, C]).plan(X4).xla()
    with pytest.raises(RunError, match=r"`x` has shape \(3,\), where \(8, 16\) was traced"):
        report.run(np.zeros(3, np.float32), np.zeros((16, 8), np.float32))


def test_an_axis_in_time_is_nothing_that_xla_knows():
    program = ml.trace(product, ml.f32[A, B], ml.f32[B, C])
    plan = program.plan(ml.mesh(data=2, micro=ml.serial(2)), "a:data+micro")
    with pytest.raises(ml.LayoutError, match=r"has no serial axes.*`micro`.*ml\.mesh\(data=2\)"):
        plan.xla()
