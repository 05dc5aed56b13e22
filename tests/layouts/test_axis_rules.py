"""Logical axis rules are read as layouts: round trips over every model, names, tags, and what cannot be read."""

from __future__ import annotations

import functools
import random
from typing import Any

import jax
import pytest
from flax.linen.spmd import logical_to_mesh_axes
from jax.sharding import PartitionSpec as P

import meshlab as ml
from meshlab.engine.verifying.random_layouts import draw
from meshlab.models.zoo import models

read = ml.layouts.from_axis_rules
MODELS = {model.name: model for model in models()}
SAMPLE = ("mlp_adamw", "resnet", "transformer_adamw", "t5", "moe_switch", "gemma_sgd", "state_space_adamw")
Batch, Width, Out = ml.dims(batch=8, width=16, out=4)
MESH = ml.mesh(data=4, model=2)


def step(w: Any, x: Any) -> Any:
    return w - 0.1 * jax.grad(lambda w: ml.square(ml.dot(x, w, "width")).sum())(w)


@functools.cache
def program() -> ml.Program:
    """A weight, which is carried, and its data."""
    return ml.trace(step, ml.f32[Width, Out], ml.f32[Batch, Width])


@functools.cache
def traced(name: str) -> ml.Program:
    return MODELS[name].trace()


@pytest.mark.share(3)
@pytest.mark.parametrize("name", SAMPLE)
def test_plain_rules_are_read_back_the_same(name: str) -> None:
    count = 0
    for mesh, layout in draw(traced(name), seed=3, count=12):
        plain = ml.Layout(layout.dim_rules)
        count += bool(plain.dim_rules)
        # A layout without rules is no table that counts anywhere; that is asked about.
        again = read(plain.to_axis_rules(), traced(name), mesh) if plain.dim_rules else plain
        assert again == plain
    assert count > 5


@pytest.mark.parametrize("name", SAMPLE)
def test_arguments_have_the_specs_that_flax_gives_their_names(name: str) -> None:
    chance, traced_here, legal, codes = random.Random(7), traced(name), 0, set()
    for _ in range(12):
        mesh = chance.choice([ml.mesh(a=2, b=2, c=2), ml.mesh(a=4, b=2), ml.mesh(a=2, b=4)])
        axes = [None, *"abcd", tuple(chance.sample("abcd", 2))]
        rules = [(chance.choice(list(traced_here.dims)), chance.choice(axes)) for _ in range(chance.randint(1, 10))]
        try:
            plan = traced_here.plan(mesh, read(rules, traced_here, mesh))
        except ml.LayoutError as error:  # sizes, or rules for axes that are not there
            codes |= {problem.code for problem in error.problems}
            continue
        legal += 1
        for argument in traced_here.arguments:
            spec = logical_to_mesh_axes(traced_here.dims_of(argument.value), rules) or ()
            entries = [(entry,) if isinstance(entry, str) else tuple(entry or ()) for entry in spec]
            split = tuple(tuple(axis for axis in entry if axis in mesh.axes) for entry in entries)
            assert plan.argument_specs[argument.value].splits == split, (argument.place, rules)
    assert legal > 2
    assert codes <= {"not_divisible", "unknown_axis"}


def test_what_is_read_runs_as_the_program_does() -> None:
    rules = [("batch", "data"), ("out", "model"), ("width", "model"), ("width", "data")]
    assert program().plan(MESH, read(rules, program(), MESH)).check().ok


def test_one_name_is_on_different_axes_in_different_arrays() -> None:
    rules = [("batch", "data"), ("out", "model"), ("width", "model"), ("width", "data")]
    layout = read(rules, program(), MESH)
    # In computation the weight has `model` for `out`, and the data `data` for `batch`: nothing is left for `width`.
    assert str(layout) == "batch:data out:model · w: width:data · x: width:model"
    assert program().plan(MESH, layout).partition_specs == (
        (P("data", "model"), P("data", "model")),
        P("data", "model"),
    )


def test_rules_and_axes_that_are_not_there_count_nothing() -> None:
    rules = [("batch", ("pod", "data")), ("experts", "model"), ("out", "tensor"), ("width", ("tensor", "model"))]
    # `tensor` is not there, and taken all the same: a name's second choice does not depend on the mesh.
    assert str(read(rules, program(), MESH)) == "batch:data · x: width:model"
    assert str(read(rules, program(), ml.mesh(data=4, model=1))) == "batch:data"
    assert read([("experts", None)], program(), MESH) == ml.Layout()
    assert read([], program(), MESH) == ml.Layout()


def test_names_of_dims_are_given_in_the_form_of_a_layout() -> None:
    rules = [("activation_batch", "data"), ("activation_mlp", "model"), ("width", "data"), ("mlp", "model")]
    names = {Batch: "activation_batch", "out": "activation_mlp", "w": {"out": "mlp"}}
    assert str(read(rules, program(), MESH, names=names)) == "batch:data out:model · w: width:data"
    # Parameters go by their own names; without a gradient, what has a rule by its own name is one.
    del names["w"]
    assert str(read(rules, program(), MESH, names=names)) == "batch:data out:model · w: out:whole width:data"
    forward = ml.trace(lambda w, x: ml.dot(x, w, "width"), ml.f32[Width, Out], ml.f32[Batch, Width])
    assert str(read(rules, forward, MESH, names=names)) == "batch:data out:model · w: out:whole width:data"
    assert str(read(rules, forward, MESH, names={**names, "x": {"width": None}})) == str(
        read(rules, forward, MESH, names=names)
    )
    assert str(read(rules, forward, MESH, names={**names, "w": {"width": None, "out": "activation_mlp"}})) == (
        "batch:data out:model"
    )


# The dims of our transformers as MaxText calls them where it shards activations, and weights of attention.
ACTIVATIONS = {
    "batch": "activation_batch",
    "seq": "activation_length",
    "embed": "activation_embed",
    "ffn": "activation_mlp",
    "heads": "activation_heads",
    "vocab": "activation_vocab",
    "params/*": {"ffn": "mlp", "heads": "q_heads"},
    "opt_state/*": {"ffn": "mlp", "heads": "q_heads"},
}
# A few rules of MaxText's table, with its two choices for `embed`.
MAXTEXT = [
    ("activation_vocab", ("tensor", "tensor_sequence")),
    ("vocab", ("tensor", "tensor_sequence", "autoregressive")),
    ("activation_heads", ("tensor", "tensor_sequence", "autoregressive")),
    ("q_heads", ("tensor", "tensor_sequence", "autoregressive")),
    ("activation_mlp", ("tensor", "tensor_sequence")),
    ("activation_batch", ("data", "fsdp", "fsdp_transpose", "expert")),
    ("activation_length", ("context",)),
    ("activation_embed", ("tensor",)),
    ("mlp", ("fsdp_transpose", "tensor", "tensor_sequence", "autoregressive")),
    ("embed", ("fsdp", "fsdp_transpose", "context", "expert")),
    ("embed", ("fsdp", "context", "expert")),
    ("layers", "stage"),
]


def test_maxtexts_names_for_a_transformer() -> None:
    transformer = traced("transformer_adamw")
    layout = read(MAXTEXT, transformer, ml.mesh(fsdp=4, tensor=2), names=ACTIVATIONS)
    stored = {"params/*": {"embed": "fsdp"}, "opt_state/*": {"embed": "fsdp"}, "residual": {"embed": "tensor"}}
    plain = {"batch": "fsdp", "ffn": "tensor", "heads": "tensor", "vocab": "tensor"}
    assert layout == ml.Layout.of(plain | stored)
    # The dim of a scan is stored over its stages, and not computed on them.
    staged = read(MAXTEXT, transformer, ml.mesh(fsdp=2, stage=2), names=ACTIVATIONS)
    assert staged.rules == {"batch": ("fsdp",)}
    assert staged.places["params/*"] == {"embed": ("fsdp",), "layers": ("stage",)}


def test_a_tag_whose_values_disagree_is_left_as_it_is_computed() -> None:
    def tagged(w: Any, x: Any) -> Any:
        return ml.tag((x, w), "both"), ml.tag(ml.dot(x, w, "width"), "product")

    traced = ml.trace(tagged, ml.f32[Width, Out], ml.f32[Batch, Width])
    layout = read([("out", "model"), ("batch", "data"), ("width", "model"), ("width", "data")], traced, MESH)
    assert str(layout) == "batch:data out:model · w: width:data · x: width:model"
    one = ml.trace(lambda x: ml.tag(x, "one") + 1, ml.f32[Batch, Width])
    assert str(read([("batch", "data")], one, MESH)) == "batch:data"


def test_an_argument_that_is_called_like_a_dim_keeps_its_rules_in_a_dict() -> None:
    traced = ml.trace(lambda width, x: ml.dot(x, width, "width"), ml.f32[Width, Out], ml.f32[Batch, Width])
    layout = read([("batch", "data"), ("out", "model"), ("width", "data")], traced, MESH)
    assert layout.to_dict() == {"batch": "data", "out": "model", "width*": {"width": "data"}}
    assert traced.plan(MESH, layout.to_dict()).partition_specs[0][0] == P("data", "model")
    # A star may be of another argument's name.
    inner = ml.Dim("a", 8)
    traced = ml.trace(lambda a, a_1: ml.dot(a_1, a, "a"), ml.f32[inner, Out], ml.f32[Batch, inner])
    layout = read([("batch", "data"), ("out", "model"), ("a", "data")], traced, MESH)
    assert layout.to_dict() == {"batch": "data", "out": "model", "?": {"a": "data"}}
    assert traced.plan(MESH, layout.to_dict()).partition_specs[0] == (P("data", "model"), P("data", None))


# What is refused


def refused(match: str, rules: Any, mesh: ml.Mesh = MESH, names: Any = None) -> tuple:
    with pytest.raises(ml.LayoutError, match=match) as caught:
        read(rules, program(), mesh, names=names)
    return caught.value.problems


def test_misspelt_axes_are_refused_where_they_leave_one_without_a_rule() -> None:
    refused(r"The rules name `modell`, which is not an axis of the mesh\. Did you mean `model`\?", [("out", "modell")])
    refused(r"The rules name `tensor`, and none of the mesh's axes\. Its axes are `data`, `model`", [("out", "tensor")])
    # Where the axis has a rule, the other name may be another axis.
    assert str(read([("out", ("modell", "model"))], program(), MESH)) == "out:model"


def test_an_axis_in_time_is_no_axis_of_rules() -> None:
    mesh = ml.mesh(data=2, model=2, micro=ml.serial(2))
    (problem,) = refused(
        r"The rules name `micro`, which is a serial axis", [("batch", ("data", "micro")), ("out", "model")], mesh
    )
    assert problem.fix == "Leave it out, and combine the result with ml.layouts.accumulate(program, mesh)."
    assert str(read([("batch", "data"), ("out", "model")], program(), mesh)) == "batch:data out:model"


def test_rules_that_are_for_no_dim_are_refused() -> None:
    match = r"for `embed`, `mlp`, and none for a dim .* Its dims are `width`, `out`, `batch`; .*\"width\": \"embed\""
    refused(match, [("embed", "data"), ("mlp", "model"), ("kv", None)])


def test_names_that_cannot_be_read_are_listed() -> None:
    names = {"widht": "embed", "out": ["x"], "params/*": {"out": "mlp"}, "w": {"bach": "batch"}}
    problems = refused(
        r"(?s)from_axis_rules\(\) of `step` on the mesh .* has 4 problems", [("batch", "data")], names=names
    )
    texts = [
        "names: 'widht' is not a dim of this program. Did you mean `width`?",
        "names: 'out' is called ['x']. Write its name in the rules, or None for no name.",
        "names: 'params/*' matches no place of this program. Its places are program.places.",
        "names: 'bach' is not a dim of this program. Did you mean `batch`?",
    ]
    assert [str(problem) for problem in problems] == texts
    refused(r"names='embed' is not a dict\. Write names=\{", [("batch", "data")], names="embed")


def test_two_dims_of_an_argument_have_two_names() -> None:
    names = {"w": {"width": "mlp", "out": "mlp"}}
    refused(
        r"At `w`: `width` and `out` are both called `mlp`\. In an array, a rule's name must mean one dim",
        [("mlp", "model")],
        names=names,
    )


def test_a_size_that_does_not_divide_is_refused() -> None:
    problems = refused(r"(?s)has 2 problems.*`out` has size 4, which 8", [("out", "data"), ("batch", "model")],
                       ml.mesh(data=8, model=3))  # fmt: skip
    assert [problem.code for problem in problems] == ["not_divisible"] * 2


def test_the_rules_come_first() -> None:
    with pytest.raises(
        ml.MeshlabError, match=r"write ml.layouts.from_axis_rules\(rules, program, .*program comes second"
    ):
        read([("batch", "data")], MESH, program())  # type: ignore[arg-type]


def test_rules_of_both_positions_make_a_ring() -> None:
    """The program is as it is written, and attention is an operation where both are on one axis."""
    model, mesh = traced("transformer_sgd"), ml.mesh(cp=2)
    assert read([("seq", "cp"), ("kv", "cp")], model, mesh).rules == {"seq": ("cp",), "kv": ("cp",)}
    assert read([("heads", "cp"), ("kv", "cp")], model, mesh).rules == {"heads": ("cp",)}
