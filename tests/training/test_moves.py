"""A move says what devices hold and lack, and its constraints send, compiled, what it says."""

from __future__ import annotations

import functools
import itertools
import math
import random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

import meshlab as ml
from meshlab.engine.verifying.hlo import read_collectives
from meshlab.engine.verifying.xla_partitioner import sent_bytes
from tests import share
from tests.training import digits_and_text as trainings
from tests.widgets import small

SMALL = small.program()
A, B = ml.dims(a=16, b=16)
PROGRAM = ml.trace(lambda w, x: ((w * x).mean(), w + x), ml.f32[A, B], ml.f32[A, B], carry={"w": 1})


def compiled(move: ml.Move, program: ml.Program) -> tuple[Any, Mesh]:
    """The constraints of a move in a `jit` of the state's arrays."""
    assert move.axes is not None
    sizes = tuple(move.axes.values())
    mesh = Mesh(
        np.array(jax.devices()[: math.prod(sizes)]).reshape(sizes),
        tuple(move.axes),
        axis_types=(AxisType.Auto,) * len(sizes),
    )
    scope: dict[str, Any] = {}
    exec(move.constraints(), scope)
    shardings = [
        {
            each.place: NamedSharding(mesh, PartitionSpec(*(split or None for split in spec.splits)))
            for each, spec in specs
        }
        for specs in (
            [(each, each.start) for each in move.arrays],
            [(each, each.target) for each in move.arrays],
        )
    ]
    values = (program.place(each.place) for each in move.arrays)
    shapes = {str(value.place): jax.ShapeDtypeStruct(value.shape, value.dtype) for value in values}
    jitted = jax.jit(
        functools.partial(scope["move"], mesh=mesh), in_shardings=(shardings[0],), out_shardings=shardings[1]
    )
    return jitted.lower(shapes).compile(), mesh


def sends_what_it_says(move: ml.Move, program: ml.Program) -> None:
    executable, _ = compiled(move, program)
    text = executable.as_text()
    assert move.axes is not None
    found = sent_bytes(read_collectives(text, move.axes), text, math.prod(move.axes.values()))
    assert move.wire_bytes is not None
    assert found == pytest.approx(move.wire_bytes), (move.arrays, text)


def layouts() -> list[str]:
    """Every way to split two dims over three axes."""
    found = []
    for count in range(4):
        for used in itertools.permutations("xyz", count):
            for cut in range(count + 1):
                parts = (("a", used[:cut]), ("b", used[cut:]))
                found.append(" ".join(f"{dim}:{'+'.join(axes)}" for dim, axes in parts if axes))
    return list(dict.fromkeys(found))


def stored_so(mesh: ml.Mesh, layout: str) -> ml.Plan:
    return PROGRAM.plan(mesh, layout)


def pairs(count: int) -> list[tuple[str, str]]:
    every = [pair for pair in itertools.permutations(layouts(), 2)]
    return random.Random(share.number()).sample(every, count)


def of_random_layouts(count: int) -> None:
    mesh = ml.mesh(x=2, y=2, z=2)
    for one, other in pairs(count):
        move = stored_so(mesh, one).move(stored_so(mesh, other))
        sends_what_it_says(move, PROGRAM)
        assert sum(move.new) <= (move.wire_bytes or 0) * 8 + 1e-6, "what is new was sent"


def test_constraints_send_what_a_move_says() -> None:
    of_random_layouts(8)


@pytest.mark.nightly
def test_constraints_of_many_moves_send_what_they_say() -> None:
    of_random_layouts(150)


MESHES = [
    (ml.mesh(data=8), "a:data", ml.mesh(x=2, y=4), "a:x b:y"),
    (ml.mesh(x=4, y=2), "a:x b:y", ml.mesh(x=2, y=4), "a:x b:y"),
    (ml.mesh(x=2, y=2, z=2), "b:z a:x", ml.mesh(axis1=8), "b:axis1"),
    (ml.mesh(x=2, one=1, y=4), "a:y b:x", ml.mesh(y=8), "a:y"),
]


@pytest.mark.parametrize(("mesh", "layout", "other", "under"), MESHES)
def test_a_move_to_a_mesh_of_other_axes(mesh: ml.Mesh, layout: str, other: ml.Mesh, under: str) -> None:
    start, target = PROGRAM.plan(mesh, layout), PROGRAM.plan(other, under)
    move = start.move(target)
    sends_what_it_says(move, PROGRAM)
    executable, _ = compiled(move, PROGRAM)
    numbers = np.arange(256, dtype=np.float32).reshape(16, 16)
    before = jax.device_put(numbers, start.shardings[0][0])
    after = executable({"w": jax.device_put(before, executable.input_shardings[0][0]["w"])})["w"]
    np.testing.assert_array_equal(after, numbers)
    assert executable.input_shardings[0][0]["w"].is_equivalent_to(start.shardings[0][0], 2)
    assert after.sharding.is_equivalent_to(target.shardings[0][0], 2)


def test_new_bytes_are_those_that_no_device_had() -> None:
    """Counted element by element."""
    for (mesh, layout), (other, under) in itertools.permutations(
        [(small.mesh(), "batch:data hidden:model"), (ml.mesh(data=4), "rows:data"), (ml.mesh(data=8), "hidden:data")], 2
    ):
        start, target = SMALL.plan(mesh, layout), SMALL.plan(other, under)
        move = start.move(target)
        for device in range(other.size):
            held = new = 0
            for place in ("params/w1", "params/w2"):
                want = elements(target, place, device)
                have = elements(start, place, device) if device < mesh.size else np.zeros_like(want)
                held, new = held + 4 * int(want.sum()), new + 4 * int((want & ~have).sum())
            assert (move.held[device], move.new[device]) == (held, new)
        assert move.read == 4 * (4 * 4 * 16 + 16 * 10)
        assert (move.axes is None) == (mesh.size != other.size)


def elements(plan: ml.Plan, place: str, device: int) -> np.ndarray:
    held = np.zeros(plan.program.place(place).shape, bool)
    held[tuple(slice(*own) for own in plan.shard(place, device))] = True
    return held


def test_a_move_of_a_llama_and_its_optimizer_is_compiled_as_it_says() -> None:
    program = trainings.llama_program()
    mesh = ml.mesh(data=2, model=4)
    start = program.plan(mesh, {"batch": "data", "heads": "model", "ffn": "model", "opt_state/*": {"embed": "data"}})
    target = program.plan(ml.mesh(data=8), {"batch": "data", "params/*": {"embed": "data"}})
    move = start.move(target)
    sends_what_it_says(move, program)
    assert {each.place.partition("/")[0] for each in move.arrays} == {"params", "opt_state"}


def test_on_a_machine_a_move_takes_time() -> None:
    mesh = ml.mesh("v5e:2x4", x=2, y=4)
    move = stored_so(mesh, "a:y").move(stored_so(mesh, "b:y"))
    (array,) = move.arrays
    assert [(hop.kind, hop.axes) for hop in array.hops] == [("all-to-all", ("y",))]
    assert move.seconds == ml.collective_time("all-to-all", 16 * 16 * 4, mesh, "y")
    free = stored_so(mesh, "").move(stored_so(mesh, "b:y"))
    assert (free.seconds, free.wire_bytes, [hop.kind for hop in free.arrays[0].hops]) == (0, 0, ["slice"])
    assert stored_so(ml.mesh(x=2, y=4), "a:y").move(stored_so(ml.mesh(x=2, y=4), "b:y")).seconds is None
    assert "predicted" in repr(move)


def test_a_move_says_what_it_is() -> None:
    move = SMALL.plan(ml.mesh(data=4), "hidden:data").move(SMALL.plan(ml.mesh(data=2), ""))
    assert repr(move) == (
        "read from a checkpoint  1.66 kB\nheld by a device        1.66 kB\nnew on a device         1.25 kB"
    )
    with pytest.raises(
        ml.RunError, match="No mesh fits both plans, so no jit can move the state: their devices differ"
    ):
        move.constraints()
    assert (move.wire_bytes, move.seconds) == (None, None)
    # As many devices, but no axes that both meshes can be split into.
    tall, wide = (stored_so(mesh, "") for mesh in (ml.mesh(x=2, y=3), ml.mesh(x=3, y=2)))
    assert tall.move(wide).axes is None
    with pytest.raises(ml.RunError, match="or their axes cannot be split into the same ones"):
        tall.move(wide).constraints()
    same = SMALL.plan(small.mesh(), "hidden:model")
    assert (same.move(same).wire_bytes, sum(same.move(same).new)) == (0, 0)
    assert "    to(" not in same.move(same).constraints()
    line = '    to("params/w1", None, None, None)  # all-gather over model, 768 B\n'
    assert line in same.move(SMALL.plan(small.mesh())).constraints()


def test_a_plan_of_another_program_is_refused() -> None:
    Wide = ml.dims(a=16, b=32)
    other = ml.trace(lambda w, x: ((w * x).mean(), w + x), ml.f32[Wide], ml.f32[Wide], carry={"w": 1})
    named = ml.trace(lambda v, x: ((v * x).mean(), v + x), ml.f32[A, B], ml.f32[A, B], carry={"v": 1})
    mesh = ml.mesh(x=2)
    start = stored_so(mesh, "a:x")
    with pytest.raises(
        ml.RunError, match=r"1. `w` has shape \(16, 16\) and dtype float32 in this plan's program, and \(16, 32\) and d"
    ):
        start.move(other.plan(mesh))
    with pytest.raises(
        ml.RunError, match="1. `w` is in this plan's .*\n  2. `v` is in the other's program, and not in this"
    ):
        start.move(named.plan(mesh))
    padded, told = PROGRAM.plan(ml.mesh(x=3), "a:x", pad=True), "and move.. needs shards of equal size; restore"
    for one, two, which in ((start, padded, "the other plan"), (padded, start, "this plan")):
        with pytest.raises(ml.RunError, match=f"1. `w` would be padded in {which}, {told}"):
            one.move(two)


def test_a_state_moves_as_jax_moves_it() -> None:
    """`other.fit(fit)` places what the fit has, between meshes of any size."""
    start = SMALL.plan(small.mesh(), "hidden:model").fit({"params": small.params()}, small.batches, steps=1)
    moved = SMALL.plan(ml.mesh(data=4), "hidden:data").fit(start, small.batches, steps=1)
    for one, other in zip(jax.tree.leaves(start.state), jax.tree.leaves(moved.state), strict=True):
        np.testing.assert_array_equal(jnp.asarray(one), np.asarray(other))
