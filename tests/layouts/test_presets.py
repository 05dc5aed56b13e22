"""Every preset makes a legal layout of every model, or says what the model has not got and what could be taken."""

import functools
import re
from pathlib import Path

import pytest

import meshlab as ml
from benchmarks import presets
from benchmarks.presets import DATA, MESH, PRESETS
from meshlab.models.zoo import imported_models, models

pytestmark = pytest.mark.share(2, of="file")

PAGE = Path(__file__).parents[2] / "docs" / "presets.md"
MODELS = {model.name: model for model in (*models(), *imported_models())}
NAMES = list(MODELS)
# Steps of which nothing says what is trained.
UNTOLD = [*"convnet resnet unet3d diffusion transformer gpt2 llama gemma t5 vit moe state_space decoding".split()]
# What a model must have. Each is read off the traced program, not by what the presets find.
STATE = {name for name in NAMES if name.endswith(("adamw", "adafactor", "bfloat16"))} | set(NAMES[-4:])
TAGS = {"sequence_parallel": "residual"}
SEQUENCES = {"seq", "blocks", "rows", "source"}
CONTEXTS = SEQUENCES | {"length"}
# Models that contract what is called so with a parameter: an image's rows, or tokens that a weight mixes.
CONTRACTED = {"mlp": "rows", "digits": "rows", "convnet_sgd": "rows", "nnx_mixer": "seq"}


def legal(program, layout):
    """Says whether a layout can be planned."""
    try:
        return bool(program.plan(MESH, layout))
    except ml.LayoutError:
        return False


@functools.cache
def row_of(name):
    return presets.row_of(MODELS[name])


@pytest.mark.nightly
def test_the_page_has_what_the_command_writes():
    assert presets.SECTION.read(PAGE) == presets.table()


def has_what_is_needed(preset, row):
    """Says whether a model has what a preset needs."""
    program = row.program
    if preset in TAGS and TAGS[preset] not in program.tags:
        return False
    if preset == "sequence_parallel":
        return bool(program.place_dims["residual"] & SEQUENCES)
    if preset in ("context_parallel", "ulysses"):
        there = program.dims_in("@core") if preset == "ulysses" else program.dims
        inside = {"@core": {"heads": "model"}} if preset == "ulysses" else {}
        layouts = (
            {dim: "model"} | {at: {dim: None} | own for at, own in inside.items()}
            for dim in (CONTEXTS & set(there)) - {CONTRACTED.get(row.model.name)}
        )
        return any(legal(program, layout) for layout in layouts)
    if preset == "zero1":
        return row.model.name in STATE
    if preset == "zero2":
        return bool(program.gradients)
    return preset != "expert_parallel" or "experts" in program.dims


@pytest.mark.share(8)
@pytest.mark.parametrize("name", NAMES)
def test_a_layout_is_legal_or_the_error_lists_what_could_be_taken(name):
    for preset in PRESETS:
        _is_legal_or_refused(row_of(name), preset)


def _is_legal_or_refused(row, preset):
    result = row.layouts[preset]
    assert isinstance(result, ml.Layout) == has_what_is_needed(preset, row), result
    if isinstance(result, ml.Layout):
        assert ml.Layout.of(result.to_dict()) == result
        assert row.program.plan(MESH, result).layout == result
    else:
        name = "context_parallel" if preset == "ulysses" else preset
        assert re.match(rf"{name}\(\) of `\w+` on the mesh data=4 × model=4 has (one|\d) problem", str(result))
        advice = r'ml\.tag\(|dims="heads ffn"|state="opt_state|\(\d+\) would fit|named_scope\("core"\)|seq="tokens"'
        assert re.search(advice, str(result)), result
        assert result.problems


@pytest.mark.share(8)
@pytest.mark.parametrize("name", UNTOLD)
def test_what_does_not_tell_its_parameters_is_asked_for_them(name):
    for preset in DATA:
        with pytest.raises(ml.LayoutError, match=r'(?s)parameters are unknown.*params="params/\*"; its arguments'):
            presets.preset(preset)(row_of(name).program, MESH)


@pytest.mark.share(8)
@pytest.mark.parametrize("name", NAMES)
def test_each_parameter_is_stored_over_its_largest_dim_that_divides(name):
    """By the rules that a plan goes by, for every array of a model; what a scan steps through does not count."""
    scanned, row = {"layers", "pairs"}, row_of(name)
    assert bool(row.params) == (name in UNTOLD)
    assert row.layouts["zero3"] == row.layouts["fsdp"]
    program, layout = row.program, row.layouts["fsdp"]
    assert isinstance(layout, ml.Layout)
    places = [a for a in program.arguments if a.place.startswith(("params/", "state/0/", "state/params/"))]
    assert places
    for argument in places:
        dims = [dim for dim in program.dims_of(argument.value) if dim]
        globs = [glob for glob in layout.places if argument.place in program.matching(glob)]
        rules = layout.places[globs[-1]] if globs else {}
        stored = [dim for dim in dims if rules.get(dim)]
        possible = [dim for dim in dims if dim not in scanned and not program.dims[dim] % 4]
        assert len(stored) == bool(possible), argument.place
        assert not stored or program.dims[stored[0]] == max(program.dims[d] for d in possible)


@pytest.mark.parametrize("name", ["transformer_adamw", "moe_switch", "vit_bfloat16", "plain_gpt", "linen_encoder"])
def test_presets_combine(name):
    row = row_of(name)
    # Context parallelism is over the axis of tensor parallelism here.
    layouts = (layout for preset, layout in row.layouts.items() if preset not in ("context_parallel", "ulysses"))
    legal = [layout for layout in layouts if isinstance(layout, ml.Layout)]
    tensor = row.layouts["tensor_parallel"]
    assert isinstance(tensor, ml.Layout)
    for layout in legal:
        both = layout & tensor
        assert both == tensor & layout or both.rules == (tensor & layout).rules
        assert row.program.plan(ml.mesh(data=2, model=4), both).collectives


def test_data_parallelism_over_a_sequence_makes_no_ring():
    """One sequence alone is split along its positions: the keys are gathered, as long as nobody asks for a ring."""
    program = ml.named_models()["llama3-8b"].trace(batch=1, seq=4096, layers=2)
    layout = ml.layouts.fsdp(program, ml.mesh("h100:1x8", data=8))
    assert {dim: axes for dim, axes in layout.rules.items() if axes} == {"seq": ("data",)}
