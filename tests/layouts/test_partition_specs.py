"""`PartitionSpec`s are read as layouts that give exactly these specs back, or all that is wrong with them is listed."""

from __future__ import annotations

import functools
from typing import Any

import jax
import pytest
from jax.sharding import AbstractMesh, NamedSharding
from jax.sharding import PartitionSpec as P

import meshlab as ml
from meshlab.engine.verifying.random_layouts import draw
from meshlab.models.zoo import imported_models, models

read = ml.layouts.from_partition_specs
MODELS = {model.name: model for model in (*models(), *imported_models())}
SAMPLE = (
    "digits",
    "resnet_adamw",
    "transformer_adamw",
    "t5_adafactor",
    "moe_switch",
    "decoding",
    "plain_gpt",
    "nnx_mixer",
)
Batch, Width, Hidden, Out = ml.dims(batch=8, width=16, hidden=32, out=4)
MESH = ml.mesh(data=2, model=2)


def step(params: Any, x: Any) -> Any:
    def loss(params: Any) -> Any:
        return ml.square(ml.dot(ml.relu(ml.dot(x, params["w1"], "width")), params["w2"], "hidden")).sum()

    value, grads = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda w, g: w - 0.1 * g, params, grads), value


@functools.cache
def program() -> ml.Program:
    """Two matmuls and their update."""
    return ml.trace(step, {"w1": ml.f32[Width, Hidden], "w2": ml.f32[Hidden, Out]}, ml.f32[Batch, Width])


def sent(plan: ml.Plan) -> list[tuple]:
    return sorted((c.kind, c.axes, c.payload_bytes, c.times) for c in plan.collectives)


@pytest.mark.share(8)
@pytest.mark.parametrize("name", SAMPLE)
def test_the_specs_of_a_plan_are_given_back(name: str) -> None:
    traced = MODELS[name].trace()
    for mesh, layout in draw(traced, seed=5, count=8):
        inputs, outputs = traced.plan(mesh, layout).partition_specs
        again = traced.plan(mesh, read(inputs, traced, mesh, outputs=outputs))
        assert again.partition_specs == (inputs, outputs)
        assert traced.plan(mesh, read(inputs, traced, mesh)).partition_specs[0] == inputs


@pytest.mark.parametrize("preset", ["data_parallel", "tensor_parallel", "fsdp", "zero1"])
def test_the_literatures_layouts_are_read_from_their_specs(preset: str) -> None:
    traced, mesh = MODELS["transformer_adamw"].trace(), ml.mesh(data=4, model=2)
    plan = traced.plan(mesh, getattr(ml.layouts, preset)(traced, mesh))
    assert sent(traced.plan(mesh, read(plan.partition_specs[0], traced, mesh))) == sent(plan)


@pytest.mark.parametrize(
    ("params", "x", "layout"),
    [
        ({"w1": P(None, "model"), "w2": P("model")}, P("data"), "batch:data hidden:model"),
        ({"w1": P("data"), "w2": P("data")}, P("data"), "batch:data · params/w1: width:data · params/w2: hidden:data"),
        ({"w1": P(None, ("model", "data")), "w2": P(("model", "data"))}, P("data"),
         "batch:data hidden:model · params/*: hidden:model+data"),
        ({"w1": P(None, "model"), "w2": P()}, P(), "hidden:model · params/w2: hidden:whole"),
        (P(), P(("data", "model")), "batch:data+model"),
        (None, P("data"), "batch:data"),
        ({"w1": P(None, "model"), "w2": None}, None, "hidden:model"),
    ],
)  # fmt: skip
def test_dims_are_computed_where_data_and_parameters_agree(params: Any, x: Any, layout: str) -> None:
    assert str(read((params, x), program(), MESH)) == layout


def test_without_a_gradient_the_last_argument_is_data() -> None:
    def forward(params: Any, x: Any) -> Any:
        return ml.dot(ml.dot(x, params["w1"], "width"), params["w2"], "hidden")

    traced = ml.trace(forward, {"w1": ml.f32[Width, Hidden], "w2": ml.f32[Hidden, Out]}, ml.f32[Batch, Width])
    layout = read(({"w1": P("data"), "w2": P("data")}, P("data")), traced, MESH)
    assert str(layout) == "batch:data · params/w1: width:data · params/w2: hidden:data"


def test_specs_may_be_given_by_place_at_once_and_as_shardings() -> None:
    wanted = read(({"w1": P(None, "model"), "w2": P("model")}, P("data")), program(), MESH)
    by_place = {"params/w1": P(None, "model"), "params": {"w2": P("model")}, "x": P("data")}
    assert read(by_place, program(), MESH) == wanted
    assert read([{"w1": P(None, ("model",)), "w2": P("model", None)}, P("data")], program(), MESH) == wanted
    assert read(P(), program(), MESH) == read(None, program(), MESH) == ml.Layout()
    # Axes of size 1 shard nothing.
    mesh = ml.mesh(data=2, model=2, pod=1)
    on = AbstractMesh((2, 2, 1), ("data", "model", "pod"))
    shardings = jax.tree.map(functools.partial(NamedSharding, on), by_place | {"x": P(("pod", "data"))})
    assert read(shardings, program(), mesh) == wanted


def test_an_argument_without_arrays_needs_no_spec() -> None:
    traced = ml.trace(lambda params, x: x + 1, {"none": None}, ml.f32[Batch, Width])
    for specs in (P("data"), ({"none": None}, P("data")), (P(), P("data")), {"x": P("data")}):
        assert read(specs, traced, MESH) == ml.Layout.of("batch:data")


def test_outputs_that_are_stored_otherwise_have_rules() -> None:
    layout = read((P(), P("data")), program(), MESH, outputs=({"w1": P(None, "model"), "w2": P()}, P()))
    assert str(layout) == "batch:data · out/0/w1: hidden:model"
    by_place = {"out/0": {"w1": P(None, "model")}, "out/0/w2": P(), "out/1": P()}
    assert read((P(), P("data")), program(), MESH, outputs=by_place) == layout
    assert read((P(), P("data")), program(), MESH, outputs=None) == ml.Layout.of("batch:data")


# What is refused


def refused(match: str, specs: Any, mesh: ml.Mesh = MESH, outputs: Any = None) -> list[str]:
    with pytest.raises(ml.LayoutError, match=match) as caught:
        read(specs, program(), mesh, outputs=outputs)
    return [str(problem) for problem in caught.value.problems]


def test_an_axis_in_time_stores_nothing() -> None:
    params = {"w1": P("data", "model"), "w2": P("micro")}
    mesh = ml.mesh(data=2, model=2, micro=ml.serial(2))
    match = r"At `params/w2`: `micro` is a serial axis: nothing is stored .* Leave it out, and combine .*accumulate"
    refused(match, (params, None), mesh)
    # The specs of a plan leave it out, and its shardings are on a mesh without it.
    plan = program().plan(mesh, "batch:data+micro hidden:model")
    for stored in (plan.partition_specs, plan.shardings):
        assert str(read(stored[0], program(), mesh)) == "batch:data hidden:model"


def test_all_that_is_wrong_with_specs_is_listed() -> None:
    params = {"w1": P("dat", "model", None), "w2": P("data", P.UNCONSTRAINED), "w3": P()}
    problems = refused(r"(?s)from_partition_specs\(\) of `step` on the mesh .* has 5 problems", (params, "data"))
    open_axis = "A layout has no open axes: say which mesh axes shard it, or None; or give None for the whole spec."
    assert problems == [
        "`params/w3` is not an argument of this program. Did you mean `params/w2` or `params/w1`?",
        "At `params/w1`: P('dat', 'model', None) is for 3 axes, and there are 2.",
        "At `params/w1`: the mesh has no axis `dat`. Did you mean `data`?",
        f"At `params/w2`: an axis is UNCONSTRAINED. {open_axis}",
        "At `x`: 'data' is not a PartitionSpec. Write P(\"data\", None), or None.",
    ]


@pytest.mark.parametrize(("entry", "wrong"), [(3, "3"), (True, "True"), (("data", 3), "3")])
def test_what_is_no_name_is_no_axis(entry: Any, wrong: str) -> None:
    (problem,) = refused("one problem", (P(), P(entry)))
    assert problem == f'At `x`: {wrong} is not a name of a mesh axis. Write P("data", None).'


def test_a_size_that_does_not_divide_is_refused() -> None:
    problems = refused("one problem", (P(), P("data")), ml.mesh(data=3, model=2))
    assert problems == ["At `x`: `batch` has size 8, which 3 (`data`) does not divide. Sizes that fit: 6 or 9."]


def test_an_axis_is_there_once() -> None:
    refused(r"At `x`: .* has `data` twice\. A mesh axis shards one axis", (P(), P("data", ("model", "data"))))
    refused(
        r"At `x`: .* has an unreduced axis\. Stored values are never partial sums",
        (P(), P("data", unreduced=frozenset(["model"]))),
    )


def test_every_argument_has_one_spec() -> None:
    refused(r"`params/w2` is given no spec\. Give it one, P\(\) if it is replicated", ({"w1": P()}, P()))
    refused(r"1 trees of specs were given for 2 arguments\. Give one for each of `params`, `x`", (P(),))
    by_place = {"params": P(), "params/w1": P("data"), "x": P()}
    refused(r"`params/w1` is given two specs: P\(\) and P\('data',\)\. Leave one of them out", by_place)
    refused(r"`out/2` is not an output .* Did you mean `out/1` or `out/0`", P(), outputs=(P(), P(), P()))
    refused(
        r"`qqq` is not an argument of this program\. There are `params/w1`", {"qqq": P("data"), "params": P(), "x": P()}
    )


def test_shardings_of_another_mesh_are_refused() -> None:
    sharding = NamedSharding(AbstractMesh((4, 2), ("data", "model")), P())
    refused(r"The specs are for a mesh data=4 × model=2\. Give ml.mesh the same axes", sharding)


def test_an_axis_without_a_name_of_the_users_is_not_sharded() -> None:
    def reads(x: Any, y: Any, z: Any) -> Any:
        return x.sum(), y.reshape(2, 2), z.reshape(4, 2, 4).sum((1, 2))

    x, y, z = (jax.ShapeDtypeStruct(shape, "float32") for shape in ((4, 4), (4,), (8, 4)))
    traced = ml.trace(reads, ml.named(x, "batch _"), y, ml.named(z, "(heads=4 head) batch"))
    with pytest.raises(ml.LayoutError) as caught:
        read((P(None, "data"), P("data"), P()), traced, MESH)
    assert [str(problem) for problem in caught.value.problems] == [
        "At `x`: axis 1 (of size 4) is on `data`, and its name `~1` is made up. Rename it:"
        ' program.rename({"~1": "kv"}).',
        "At `y`: axis 0 (of size 4) is on `data`, and has no dim name. Give it one, by ml.named or as in"
        " ml.f32[Batch, Embed].",
    ]
    renamed = traced.rename({"~1": "kv"})
    assert str(read((P(None, "data"), P(), P()), renamed, MESH)) == "kv:data"
    # A merged axis is split as far as its first dim goes.
    mesh = ml.mesh(data=4, model=2)
    specs = P(None, None), P(None), P("data", None)
    assert traced.plan(mesh, read(specs, traced, mesh)).partition_specs[0] == specs
    # Where it is only stored, by all of its size.
    specs = P(None, None), P(None), P(("data", "model"), None)
    assert traced.plan(mesh, read(specs, traced, mesh)).partition_specs[0] == specs
    wide = ml.mesh(data=4, model=4)
    with pytest.raises(
        ml.LayoutError, match=r"At `z`: `heads\*head` has size 8, which 16 \(`data`\+`model`\) does not"
    ):
        read((P(), P(), P(("data", "model"))), traced, wide)


def test_a_merged_axis_on_two_mesh_axes_is_each_of_its_dims_on_one() -> None:
    """As query heads are stored in tables of grouped-query attention."""
    traced = ml.trace(
        lambda x, w: (x @ w.reshape(8, 32)).reshape(16, 4, 2, 4),
        *(
            ml.named(jax.ShapeDtypeStruct(shape, "float32"), names)
            for shape, names in (((16, 8), "batch embed"), ((8, 8, 4), "embed (kv=4 group) head"))
        ),
    )
    mesh = ml.mesh(y=4, z=2)
    specs = P(), P(None, ("y", "z"))
    layout = read(specs, traced, mesh)
    assert layout.rules == {"kv": ("y",), "group": ("z",)}
    plan = traced.plan(mesh, layout)
    assert plan.partition_specs[0] == (P(None, None), P(None, ("y", "z"), None))
    assert plan.collectives == ()
    assert plan.check().ok
    # Where the first is not used up, it has all.
    assert read((P(), P(None, "y")), traced, ml.mesh(y=2, z=2)).rules == {"kv": ("y",)}


def test_the_parts_of_a_dim_are_split_by_the_first() -> None:
    def parts(x: Any) -> Any:
        return x.reshape(2, 4)

    traced = ml.trace(parts, ml.named(jax.ShapeDtypeStruct((8,), "float32"), "embed"))
    assert str(read(P("data"), traced, MESH, outputs=P("data"))) == "embed:data"
    match = (
        r"At `out`: axis 1 \(of size 4\) is on `data`, and `embed\.1` is a part of a dim .* Shard that axis, or none"
    )
    with pytest.raises(ml.LayoutError, match=match):
        read(P(), traced, MESH, outputs=P(None, "data"))


def test_the_specs_come_first() -> None:
    with pytest.raises(ml.MeshlabError, match=r"write ml.layouts.from_partition_specs\(specs, program, ml.mesh"):
        read(program(), P(), MESH)  # type: ignore[arg-type]


def test_an_axis_of_size_one_is_called_by_its_name_and_refused_for_its_size() -> None:
    key, x = (jax.ShapeDtypeStruct(shape, "float32") for shape in ((1, 64, 16), (8, 64)))
    named = ml.named(key, "kv_heads embed head"), ml.named(x, "batch embed")
    traced = ml.trace(lambda k, x: x @ k[0], *named)
    with pytest.raises(ml.LayoutError) as caught:
        read((P("model"), P()), traced, ml.mesh(model=8))
    (problem,) = caught.value.problems
    assert problem.text == "At `k`: `kv_heads` has size 1, which 8 (`model`) does not divide."
    assert problem.fix == "Leave it replicated."
    unnamed = ml.trace(lambda k: k * 2.0, key)
    with pytest.raises(ml.LayoutError, match=r"At `k`: `axis 0` has size 1, which 8"):
        read((P("model"),), unnamed, ml.mesh(model=8))


def test_a_merged_axis_is_stored_by_all_of_its_size() -> None:
    """GPT-2 XL: 25 heads of 64, over 32 devices."""
    weight, x = (jax.ShapeDtypeStruct(shape, "float32") for shape in ((1600, 1600), (32, 1600)))
    named = ml.named(weight, "embed (heads=25 head)"), ml.named(x, "batch (heads=25 head)")
    traced, mesh = ml.trace(lambda w, x: x @ w.T, *named), ml.mesh(data=32)
    layout = read((P(None, "data"), P("data")), traced, mesh)
    assert str(layout) == "batch:data · w: heads:data"
    assert traced.plan(mesh, layout).partition_specs[0] == (P(None, "data"), P("data", None))
