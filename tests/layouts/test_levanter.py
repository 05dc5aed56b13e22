"""Levanter's axis mappings are read and written: by its own definition of both mappings, and back again."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from jax.sharding import PartitionSpec as P

import meshlab as ml
from meshlab.engine.programs.trained import trained
from meshlab.layouts.levanter import said

MESH = ml.mesh(data=4, model=2)
# Of its configurations (github.com/stanford-crfm/levanter, config/): names are the models' of haliax.
PUBLISHED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "basic, by default": ({"seed": 0, "batch_axis": "batch"}, {"embed": "data"}),
    "llama2_7b": ({"tensor_parallel_axes": ["mlp", "heads"], "fsdp_axis": "embed"}, {"embed": "data"}),
    "gpt2, older": (
        {
            "axis_resources": {"batch": "data", "vocab": "model", "mlp": "model", "heads": "model"},
            "parameter_axis_resources": {"embed": "data"},
            "model_axis_size": 2,
        },
        {"embed": "data"},
    ),
    "no FSDP": ({"fsdp_axis": None, "tensor_parallel_axes": ["mlp"]}, {}),
}


@functools.cache
def program() -> ml.Program:
    return ml.named_models()["transformer_adamw"].trace().rename({"ffn": "mlp"})


def specs_of(trainer: dict[str, Any], stored: dict[str, Any], place: str, dims: Any) -> P:
    """What haliax gives an array: the mesh axes of each of its names, one after the other."""
    mapping: dict[str, Any] = dict(trainer.get("axis_resources", {}))
    mapping |= dict.fromkeys(trainer.get("tensor_parallel_axes", ()), "model") | {"batch": "data"}
    mapping |= stored if place.startswith(("params", "opt_state")) else {}
    return P(*(mapping.get(dim) for dim in dims))


@pytest.mark.parametrize("name", PUBLISHED)
def test_arguments_have_the_specs_that_haliax_gives_their_names(name: str) -> None:
    trainer, stored = PUBLISHED[name]
    plan = program().plan(MESH, ml.layouts.from_levanter(trainer, program(), MESH))
    for argument in program().arguments:
        dims = program().dims_of(argument.value)
        spec = P(*(axes[0] if axes else None for axes in plan.argument_specs[argument.value].splits))
        assert spec == specs_of(trainer, stored, argument.place, dims), argument.place
    assert plan.layout.rules["batch"] == ("data",)


def test_batches_are_on_replica_and_data() -> None:
    mesh = ml.mesh(replica=2, data=2, model=2)
    layout = ml.layouts.from_levanter({"tensor_parallel_axes": ["mlp"]}, program(), mesh)
    assert layout.rules["batch"] == ("replica", "data")
    assert program().plan(mesh, layout).layout.places["params/*"]["embed"] == ("data",)


@pytest.mark.parametrize("name", PUBLISHED)
def test_what_is_written_is_read_the_same(name: str) -> None:
    plan = program().plan(MESH, ml.layouts.from_levanter(PUBLISHED[name][0], program(), MESH))
    settings = ml.layouts.to_levanter(plan)
    assert settings["batch_axis"] == "batch"
    assert settings["model_axis_size"] == 2
    assert program().plan(MESH, ml.layouts.from_levanter(settings, program(), MESH)).layout == plan.layout


def test_parameters_may_be_whole_where_their_dims_are_split_in_compute() -> None:
    plan = program().plan(
        MESH, {"batch": "data", "mlp": "model", "params/*": {"mlp": None}, "opt_state/*": {"mlp": None}}
    )
    settings = ml.layouts.to_levanter(plan)
    assert settings["axis_resources"] == {"mlp": "model"}
    assert settings["parameter_axis_resources"] == {"mlp": None}
    assert program().plan(MESH, ml.layouts.from_levanter(settings, program(), MESH)).stored == plan.stored


def test_all_that_it_cannot_say_is_said_at_once() -> None:
    layout = {"batch": "data", "@ffn": {"mlp": "model"}, "params/*": {"embed": "data"}, "residual": {"seq": "model"}}
    with pytest.raises(ml.LayoutError) as caught:
        ml.layouts.to_levanter(program().plan(MESH, layout))
    text = str(caught.value)
    assert text.startswith("ml.layouts.to_levanter() writes Levanter's axis mappings, which cannot express all")
    assert "in `@ffn` is computed mlp:model: the format has no rules for scopes" in text
    assert (
        "`embed` is data at `params/embedding`, and whole at `opt_state/1/0/mu/embedding`: one mapping holds for all"
        in text
    )
    assert "the rule at `residual`: the mappings are for arguments and for computation" in text


def test_a_mesh_of_its_own_names_is_said() -> None:
    plan = program().plan(ml.mesh(dp=2), "batch:dp")
    assert said(plan)[1] == ("the mesh has `dp`: Levanter's has `replica`, `data`, `model`",)


@pytest.mark.parametrize(
    ("trainer", "text"),
    [
        ("embed", "trainer='embed' is not a dict. Write a dict of `axis_resources`"),
        ({"seed": 3}, "The trainer has no axis settings. Give it one of"),
        ({"fsdp_axes": "embed"}, "Levanter has no axis setting `fsdp_axes`. Did you mean `fsdp_axis`?"),
        ({"axis_resources": ["embed"]}, "axis_resources is ['embed'], which is not a mapping."),
        ({"axis_resources": {"embed": 3}}, "axis_resources gives `embed` the value 3. Give it a mesh axis"),
        (
            {"axis_resources": {"mlp": "modle"}},
            "puts `mlp` on `modle`, which is not an axis of the mesh. Did you mean `model`?",
        ),
        ({"tensor_parallel_axes": 3}, "tensor_parallel_axes is 3, which is not a name."),
        (
            {"batch_axis": "rows", "fsdp_axis": "hidden"},
            "The mappings are for `hidden`, `rows`, none for a dim of this program.",
        ),
    ],
)
def test_what_cannot_be_read_is_refused(trainer: Any, text: str) -> None:
    with pytest.raises(ml.LayoutError) as caught:
        ml.layouts.from_levanter(trainer, program(), MESH)
    assert text in str(caught.value)


def test_two_names_of_one_array_on_one_axis_are_refused_as_jax_does() -> None:
    with pytest.raises(ml.LayoutError, match="both"):
        ml.layouts.from_levanter(
            {"axis_resources": {"mlp": "model", "embed": "model"}, "fsdp_axis": None}, program(), MESH
        )


def test_without_gradients_what_has_no_batch_is_a_parameter() -> None:
    decoding = ml.named_models()["decoding"].trace()
    assert not trained(decoding).parameters
    layout = ml.layouts.from_levanter({"fsdp_axis": "embed"}, decoding, ml.mesh(data=4))
    stored = {a.place: decoding.plan(ml.mesh(data=4), layout).argument_specs[a.value].axes for a in decoding.arguments}
    with_embed = {a.place for a in decoding.arguments if "embed" in decoding.dims_of(a.value)}
    assert with_embed
    assert {place for place, axes in stored.items() if axes} >= with_embed
