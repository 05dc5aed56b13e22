"""A layout is named by what its plan does, however it is written; and has no name where no presets do the same."""

import functools

import jax
import pytest

import meshlab as ml
from meshlab.engine.legality.examine import resolve
from meshlab.layouts.by_name import PRESETS, together
from meshlab.layouts.naming import made
from meshlab.layouts.same_plan import same_plan
from meshlab.models.zoo import imported_models, models

MODELS = {model.name: model for model in (*models(), *imported_models())}
MESH = ml.mesh(data=2, model=2)
TIME = ml.mesh(data=2, micro=ml.serial(2))
# What is the same under two names.
ALIAS = {"zero3": "fsdp"}


@functools.cache
def traced(name):
    return MODELS[name].trace()


def spelled_out(program, mesh, layout):
    """The layout by hand: every argument, gradient and tag by its own name, with the axes that it has."""
    rules = resolve(program, mesh, layout)
    written = dict(layout.to_dict())
    for glob, _ in layout.place_rules:
        del written[glob]
        for place in program.matching(glob) or program.matching(glob.removesuffix("?")):
            there = rules.storage[place].items()
            written[place] = {dim: axes for dim, axes in there if dim in program.place_dims[place]}
    return ml.Layout.of({key: value for key, value in written.items() if value != {}})


def possible(program, mesh, presets):
    try:
        layout = together([PRESETS[name] for name in presets], program, mesh)
        resolve(program, mesh, layout)
    except ml.LayoutError:
        return None
    return layout


@pytest.mark.share(32)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("mesh", [MESH, TIME], ids=["space", "time"])
def test_every_preset_is_named_however_it_is_written(name, mesh):
    program = traced(name)
    pairs = [(one, other) for one in PRESETS for other in ("tensor_parallel", "expert_parallel", "accumulate")]
    for presets in [*((one,) for one in PRESETS), *(pair for pair in pairs if len(set(pair)) > 1)]:
        layout = possible(program, mesh, presets)
        if layout is None:
            continue
        for written in (layout, spelled_out(program, mesh, layout)):
            found = ml.layouts.named(program, mesh, written)
            assert found is not None, (presets, str(written))
            wanted = {ALIAS.get(preset, preset) for preset in presets}
            if "sequence_parallel" in wanted:  # which is tensor parallelism as well
                wanted -= {"tensor_parallel"}
            assert {part.preset for part in found.parts} == wanted, (str(found), str(written))


FSDP = {"batch": "data", "params/*": {"embed": "data"}, "opt_state/*": {"embed": "data"}}
TP = {"heads": "model", "ffn": "model", "vocab": "model"}


@pytest.mark.parametrize(
    ("model", "layout", "name"),
    [
        ("transformer_adamw", {"batch": "data"}, "DP over data"),
        ("transformer_adamw", {"batch": "data", "opt_state/*": {"embed": "data"}}, "ZeRO-1 over data"),
        (
            "transformer_adamw",
            {"batch": "data", "opt_state/*": {"embed": "data"}, "grads/*": {"embed": "data"}},
            "ZeRO-2 over data",
        ),
        ("transformer_adamw", FSDP, "FSDP over data"),
        ("transformer_adamw", TP, "TP over model"),
        ("transformer_adamw", {**TP, "residual*": {"seq": "model"}}, "TP+SP over model"),
        ("transformer_adamw", {**FSDP, **TP}, "FSDP over data + TP over model"),
        ("transformer_adamw", {"batch": "data", "seq": "model", "kv": "model", "@core": {"kv": None}}, None),
        ("transformer_adamw", {"batch": "data", "seq": "model"}, "DP over data + CP over model"),
        ("moe_sgd", {"batch": "data", "experts": "data"}, "DP over data + EP over data"),
        ("moe_sgd", {"batch": "data", "groups": "data", "experts": "model"}, "DP over data + EP over model"),
        (
            "moe_sgd",
            {"batch": "data+model", "groups": "data", "experts": "model"},
            "DP over data+model + EP over model",
        ),
        ("transformer_adamw", {"batch": "data+micro"}, "DP over data + micro-batches over micro"),
        ("transformer_adamw", {**FSDP, "batch": "data+micro"}, "FSDP over data + micro-batches over micro"),
        ("transformer_adamw", {"seq": "model", "@core": {"seq": None, "heads": "model"}}, "Ulysses over model"),
        (
            "transformer_adamw",
            {"batch": "data+model", "params/*": {"embed": "model"}, "opt_state/*": {"embed": "model"}},
            "HSDP over model (copies over data)",
        ),
        (
            "transformer_adamw",
            {"batch": "data", "params/*": {"embed": "data"}},
            "FSDP over data (the optimizer's state whole)",
        ),
        # Frozen biases and the like: what is left whole is said.
        ("gpt2_adamw", FSDP, "FSDP over data (4 small arrays whole)"),
        ("transformer_adamw", {"heads": "model", "ffn": "model"}, "TP over model (heads, ffn alone)"),
    ],
)
def test_what_a_teacher_makes_by_hand_is_named(model, layout, name):
    program = traced(model)
    mesh = TIME if "micro" in str(layout) else MESH
    found = ml.layouts.named(program, mesh, layout)
    assert (None if found is None else str(found)) == name
    if found:  # the name is that of what its presets make
        assert same_plan(program, mesh, made(program, mesh, found.parts), ml.Layout.of(layout))


@pytest.mark.parametrize(
    "layout",
    [
        {},
        {"embed": "model"},
        {"batch": "data", "params/*": {"embed": "model"}},
        {"params/*": {"embed": "data"}},
        {"batch": "data", "params/norm": {"embed": "data"}},  # of all parameters the least alone
        {"batch": "data", "params/layers/up": {"ffn": None}, "ffn": "model", "heads": "model", "vocab": "model"},
        {"batch": "data", "inputs": {"seq": "model"}},
        {"batch": "data", "out/1/norm": {"embed": "data"}},
        {"batch": "data", "residual": {"seq": "model"}},
        {"heads": "model", "ffn": "data"},
    ],
)
def test_what_no_presets_do_has_no_name(layout):
    assert ml.layouts.named(traced("transformer_adamw"), MESH, layout) is None


def test_a_batch_that_leaves_groups_of_tokens_whole_is_not_called_data_parallel():
    assert ml.layouts.named(traced("moe_sgd"), MESH, {"batch": "data"}) is None


def test_other_names_of_mesh_axes_are_read_for_what_is_on_them():
    mesh = ml.mesh(x=2, y=2, z=2)
    layout = {"batch": "z+x", "heads": "y", "ffn": "y", "vocab": "y"}
    assert str(ml.layouts.named(traced("transformer_adamw"), mesh, layout)) == "DP over z+x + TP over y"


def test_an_illegal_layout_is_refused():
    with pytest.raises(ml.LayoutError, match="no axis"):
        ml.layouts.named(traced("mlp"), MESH, "hidden:nowhere")


def test_layouts_are_the_same_where_a_rule_changes_nothing():
    program = traced("transformer_adamw")
    one = ml.Layout.of("batch:data")
    assert same_plan(program, MESH, one, ml.Layout.of({"batch": "data", "params/*": {"embed": None}}))
    assert not same_plan(program, MESH, one, ml.Layout.of({"batch": "data", "params/norm": {"embed": "data"}}))
    assert not same_plan(program, MESH, one, ml.Layout.of("batch:data head:model"))
    # A dim that only what is stored whole has, and no operation splits: planned, both are alike.
    assert same_plan(program, ml.mesh(data=2, model=1), one, ml.Layout.of("batch:data ffn:model"))


def test_experts_leave_the_groups_of_tokens_the_other_axes_of_the_batch():
    program = traced("moe_sgd")
    experts = ml.layouts.expert_parallel(
        program, MESH, expert="model", beside=ml.layouts.data_parallel(program, MESH, data="data+model")
    )
    assert str(experts) == "batch:data+model experts:model groups:data"
    data = ml.layouts.data_parallel(program, MESH, data="data+model", beside="experts:model")
    assert data == experts


@pytest.mark.parametrize(("name", "alike"), [("transformer_adamw", True), ("state_space_adamw", False)])
def test_zero_2_is_said_to_come_to_the_same_as_zero_1_where_it_does(name, alike):
    """With and without a rule each device keeps its part alone of a gradient's sum: numbers were equal, unexplained."""
    program, mesh = traced(name), ml.mesh(data=4)
    presets = {preset: PRESETS[preset](program, mesh) for preset in ("zero1", "zero2", "fsdp")}
    names = {preset: ml.layouts.named(program, mesh, layout) for preset, layout in presets.items()}
    found = {preset: name.alike for preset, name in names.items() if name}
    assert found == {"zero1": ("zero2",) * alike, "zero2": ("zero1",) * alike, "fsdp": ()}
    sent = [program.plan(mesh, presets[preset]).wire_bytes for preset in ("zero1", "zero2")]
    assert (sent[0] == sent[1]) == alike


def test_what_a_preset_leaves_whole_since_its_axis_does_not_divide_it_is_told():
    program = MODELS["transformer_adamw"].trace()
    for size, name in ((2, "TP over model"), (8, "TP over model (heads whole)")):
        mesh = ml.mesh(data=2, model=size)
        layout = ml.layouts.tensor_parallel(program, mesh)
        assert ("heads" in layout.rules) == ("whole" not in name)
        assert str(ml.layouts.named(program, mesh, layout)) == name


def test_rings_are_named():
    def core(q, k, v):
        with jax.named_scope("core"):
            return ml.attention(q, k.rename(seq="kv"), v.rename(seq="kv"), "seq", "kv", causal=True)

    array = ml.f32[tuple(ml.dims(seq=64, heads=4, head=8))]
    program, mesh = ml.trace(core, array, array, array), ml.mesh(ring=4, ulysses=2)

    def said(layout):
        return str(ml.layouts.named(program, mesh, layout))

    assert said("seq:ring kv:ring") == "Ring over ring"
    assert said("seq:zigzag(ring) kv:zigzag(ring)") == "Zigzag ring over ring"
    assert said("seq:zigzag(ring)") == "CP over ring (balanced)"
    assert said(PRESETS["usp"](program, mesh)) == "USP over ring+ulysses"
    balanced = PRESETS["usp"](program, mesh, balanced=True)
    assert said(balanced) == "USP over ring+ulysses (balanced)"
