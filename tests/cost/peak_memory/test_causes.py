"""Why values are in memory at the peak: what is said is so, and a layout that takes the cause away takes bytes away."""

import math
import random

import pytest

import meshlab as ml
from meshlab.cost.peak_memory.roles import ACTIVATIONS, GATHERED
from meshlab.engine.code.operations import nbytes
from meshlab.engine.errors import LayoutError
from meshlab.engine.specs.spec import local_shape
from meshlab.models import zoo
from tests.engine.pipelines import stacks
from tests.widgets import small

MESH = ml.mesh(data=2, model=2)
MODELS = ("mlp_sgd", "convnet_sgd", "gpt2_adamw", "llama_adamw", "moe_sgd")
# So many of the largest values of a peak are looked at.
_LARGEST = 5


def traced(name):
    return next(model for model in zoo.models() if model.name == name).trace()


def largest(plan, alive):
    """The most bytes that a value takes on a device: at its place, or in whatever spec it is in memory."""
    code, memory, value = plan.program.code, plan.memory, alive.value
    if alive.place is not None:
        stored = local_shape(plan.program.place(alive.place).shape, plan.device_spec(alive.place), plan.grid)
        return nbytes(math.prod(stored), code.dtypes[value])
    keys = {b.size.key for b in (*memory.liveness.buffers, *memory.liveness.arguments) if b.size.key[0] == value}
    shapes = (local_shape(code.shapes[value], spec, plan.grid) for _, spec in keys)
    return max((nbytes(math.prod(shape), code.dtypes[value]) for shape in shapes), default=0)


def planned(program, layout):
    try:
        return program.plan(MESH, layout)
    except LayoutError:
        return None


def layouts(program, count=2):
    """Nothing sharded, and legal layouts of one or two dims, chosen at random."""
    chance, found = random.Random(repr(sorted(program.dims))), [ml.Layout()]
    while len(found) < count:
        dims = chance.sample(sorted(program.dims), chance.choice((1, 2)))
        layout = ml.Layout.of(dict(zip(dims, chance.sample(("data", "model"), len(dims)), strict=True)))
        found += [layout] if planned(program, layout) else []
    return found


def with_rule(layout, place, dim, axis):
    """The layout with a dim on one more axis: at the place of an argument or output, or wherever it is computed."""
    axes = (*layout.rules.get(dim, ()), axis)
    return layout.with_rule(dim, axes) if place is None else ml.Layout.of(layout.to_dict() | {place: {dim: axes}})


@pytest.mark.share(2)
@pytest.mark.parametrize("name", MODELS)
def test_what_is_replicated_shrinks_where_one_of_its_dims_is_put_on_the_axis(name):
    program, seen = traced(name), 0
    for layout in layouts(program):
        plan = program.plan(MESH, layout)
        for alive in plan.memory.at_peak[:_LARGEST]:
            before = largest(plan, alive)
            text = f"Replicated along {' and '.join(f'`{axis}`' for axis in alive.repeated)}: "
            assert (text in alive.because) == bool(alive.repeated)
            for axis in alive.repeated:
                for dim in (dim for dim in alive.dims if dim in program.dims):
                    assert f"`{dim}`" in alive.because
                    then = planned(program, with_rule(layout, alive.place, dim, axis))
                    seen += then is not None
                    assert then is None or largest(then, alive) < before, (str(layout), alive, dim, axis)
    assert seen >= 5


@pytest.mark.parametrize("name", ["mlp_sgd", "gpt2_adamw", "llama_adamw"])
def test_what_is_gathered_is_gathered_no_more_where_it_is_stored_whole(name):
    program = traced(name)
    layout = ml.layouts.fsdp(program, ml.mesh(data=2))
    plan, whole = program.plan(ml.mesh(data=2), layout), program.plan(ml.mesh(data=2), ml.Layout(layout.dim_rules))
    seen = [alive for step in range(0, len(plan.memory.timeline), 3) for alive in plan.memory.alive_at(step)]
    gathered = {alive.value: alive for alive in seen if alive.role == GATHERED}
    assert gathered
    for alive in gathered.values():
        assert alive.because.startswith("A sharded weight, gathered over `data` for ")
    after = [alive for step in range(0, len(whole.memory.timeline), 3) for alive in whole.memory.alive_at(step)]
    assert not any(alive.role == GATHERED for alive in after)


def test_what_is_kept_for_the_backward_pass_is_not_kept_where_there_is_none():
    program = traced("mlp_sgd")
    memory = program.plan(MESH).memory
    kept = [a for step in range(len(memory.timeline)) for a in memory.alive_at(step) if a.role == ACTIVATIONS]
    assert kept
    for alive in kept:
        assert f"Made at {alive.source} in the forward pass and stored for the backward pass, for " in alive.because
    forward = ml.trace(small.loss, *_arguments())
    plan = forward.plan(MESH)
    steps = range(len(plan.memory.timeline))
    assert not any("backward" in alive.because for step in steps for alive in plan.memory.alive_at(step))


def _arguments():
    b, r, c, h, k = small.Batch, small.Rows, small.Cols, small.Hidden, small.Classes
    return {"w1": ml.f32[r, c, h], "w2": ml.f32[h, k]}, ml.f32[b, r, c], ml.i32[b]


def test_an_addend_is_as_large_as_its_sum():
    program = traced("gpt2_adamw")
    plan = program.plan(ml.mesh("v5e", data=1, model=2), "ffn:model heads:model")
    addends = [alive for alive in plan.memory.at_peak if "An addend of a sum over `model`" in alive.because]
    assert addends
    assert all(alive.shape == program.value(alive.value).shape for alive in addends)


@pytest.mark.parametrize("name", MODELS)
def test_the_summary_is_of_the_largest_part(name):
    memory = traced(name).plan(MESH, "batch:data").memory.donated
    of = {role: sum(a.bytes for a in memory.at_peak if a.role == role) for role in {a.role for a in memory.at_peak}}
    head, _, rest = memory.because.partition(": ")
    role = max(of, key=of.__getitem__)
    assert f" of {role}, " in rest
    assert (head == "Most of it") == (of[role] > memory.peak_bytes / 2)
    first = next(alive for alive in memory.at_peak if alive.role == role)
    assert f"`{first.name}`" in rest
    assert rest.endswith(first.because)
    assert repr(memory).endswith(memory.because)


@pytest.mark.parametrize("schedule", ["paired", "interleaved"])
def test_a_stage_stores_activations_of_its_cells_and_gathers_no_layers(schedule):
    """They were temporaries once, and the layer that a stage reads was a weight gathered over stages."""
    program = stacks.program("plain", batch=64, layers=8)
    mesh = ml.mesh(pipe=ml.stages(2, schedule), micro=ml.serial(4))
    memory = program.plan(mesh, "batch:micro layers:pipe").memory
    alive = [each for step in range(len(memory.timeline)) for each in memory.alive_at(step)]
    assert GATHERED not in {each.role for each in alive}
    held = [each for each in memory.at_peak if each.role == ACTIVATIONS]
    assert sum(each.bytes for each in held) > 0.5 * memory.peak_bytes
    assert memory.because.startswith("Most of it: ")
    assert "in slots for the micro-batches in flight" in memory.because
