"""Provenance, held against plans: a change of a dim changes what is sent for those values alone that follow from it."""

from __future__ import annotations

import random

import pytest

import meshlab as ml
from meshlab.auto.additive.sent_bytes import sent_by_value
from meshlab.auto.additive.space import Space, space_of
from meshlab.engine.planning.provenance import provenance
from meshlab.models.zoo import imported_models, models
from tests.auto import awkward
from tests.engine import grammar

MODELS = {model.name: model for model in (*models(), *imported_models())}
# With layers in a loop and unrolled, two stacks, experts, batch norm, windows in space, a recurrence, and Flax.
NAMES = (
    "mlp_adamw llama_adamw llama_unrolled_adamw t5 moe_sgd moe_dropless resnet_adamw unet3d_sgd state_space decoding"
)
MESHES = ({"a": 2}, {"a": 4, "b": 2})


def drawn(space: Space, chance: random.Random) -> dict[str, str]:
    """A random layout of a space."""
    splits: dict[str, str] = {}
    for dim in chance.sample(list(space.choices), len(space.choices)):
        axis = chance.choice(space.choices[dim])
        if axis is not None and space.fits(dim, axis, splits.items()):
            splits[dim] = axis
    return splits


def neighbours(space: Space, splits: dict[str, str], dim: str) -> list[dict[str, str]]:
    """The layouts that put one dim elsewhere."""
    rest = {other: axis for other, axis in splits.items() if other != dim}
    moved = [
        rest if axis is None else rest | {dim: axis}
        for axis in space.choices[dim]
        if axis is None or space.fits(dim, axis, rest.items())
    ]
    return [each for each in moved if each != splits]


def checked(program: ml.Program, axes: dict[str, int], seed: int, layouts: int = 3) -> int:
    """Changes one dim at a time in random layouts; returns how many values were sent as before, and had to be."""
    mesh, space, follows = ml.mesh(**axes), space_of(program, axes), provenance(program)
    chance, count = random.Random(seed), 0
    dims = sorted(space.free(space.choices))
    for _ in range(layouts if dims else 0):
        splits = drawn(space, chance)
        before = sent_by_value(program.plan(mesh, splits))
        for dim in chance.sample(dims, min(len(dims), 4)):
            for other in neighbours(space, splits, dim):
                after = sent_by_value(program.plan(mesh, other))
                for value in {*before, *after}:
                    if dim not in follows[value]:
                        count += 1
                        same = before.get(value, 0.0) == pytest.approx(after.get(value, 0.0))
                        assert same, f"{program.value(value)}, {splits}, then {other}"
    return count


@pytest.mark.share(4)
@pytest.mark.parametrize("name", NAMES.split())
def test_no_other_dim_changes_what_is_sent_in_models(name):
    program = MODELS[name].trace()
    assert sum(checked(program, axes, seed=1) for axes in MESHES)


@pytest.mark.parametrize("name", awkward.PROGRAMS)
def test_no_other_dim_changes_what_is_sent_in_awkward_programs(name):
    assert sum(checked(awkward.program(name), axes, seed=2, layouts=6) for axes in MESHES)


@pytest.mark.share(3)
@pytest.mark.parametrize("first", range(0, 60, 10))
def test_no_other_dim_changes_what_is_sent_in_random_programs(first):
    """Of renames, merged dims, scans, branches, checkpoints, shifts and what else the grammar has."""
    count = 0
    for seed in range(first, first + 10):
        numbers = [random.Random(8 * seed + i).randrange(100_000) for i in range(8)]
        program = ml.trace(grammar.with_gradients(numbers), grammar.ARGS)
        count += sum(checked(program, axes, seed) for axes in MESHES)
    assert count > 50


def test_a_sum_follows_from_what_it_is_over_and_sums_of_sums_from_all_of_them():
    Batch, Hidden, Classes = ml.dims(batch=8, hidden=8, classes=8)

    def fn(x, w, v):
        logits = ml.dot(x, w, Hidden)
        return ml.relu(logits), ml.square(x).sum() + ml.square(v).sum()

    program = ml.trace(fn, ml.f32[Batch, Hidden], ml.f32[Hidden, Classes], ml.f32[Classes])
    follows = {value: sorted(dims) for value, dims in provenance(program).items()}
    read = {out: operation.reads for operation in program.code.block.operations for out in operation.outputs}
    (logits,), norms = (read[value] for value in program.code.block.outputs if isinstance(value, int))
    assert follows[logits] == ["batch", "classes", "hidden"]
    assert [follows[value] for value in norms] == 2 * [["batch", "classes", "hidden"]]
    assert follows[program.arguments[0].value] == ["batch", "hidden"]
