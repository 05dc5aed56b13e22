"""Collectives are read from compiled programs as they were written: kind, axes, bytes, executions."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, Mesh, PartitionSpec

from meshlab.engine.devices import compiler_options, simulate
from meshlab.engine.errors import RunError
from meshlab.engine.verifying.hlo import HloCollective, read_collectives, totals

# Without this pass XLA for CPU leaves each all-reduce as it was written, so that they can be told apart.
APART = {"xla_disable_hlo_passes": "cpu-all-reduce-combiner"}


@pytest.fixture(autouse=True, scope="module")
def _eight_devices():
    simulate(8)


def compiled(fn, axes, *args, options=None):
    """Compiles a function of replicated arrays that runs on each device of a mesh, and returns the text."""
    count = math.prod(axes.values())
    devices = np.array(jax.devices("cpu")[:count]).reshape(tuple(axes.values()))
    mesh = Mesh(devices, tuple(axes), axis_types=(AxisType.Auto,) * len(axes))
    whole = jax.shard_map(fn, mesh=mesh, in_specs=PartitionSpec(), out_specs=PartitionSpec(), check_vma=False)
    text = jax.jit(whole).lower(*args).compile(compiler_options=options or {}).as_text()
    assert text is not None
    return text


def read(fn, axes, *args, options=None):
    return read_collectives(compiled(fn, axes, *args, options=options), axes)


SQUARE = jax.ShapeDtypeStruct((8, 8), jnp.float32)
KINDS = {
    "all-reduce": lax.psum,
    "all-gather": lambda x, axes: lax.all_gather(x, axes, tiled=True),
    "reduce-scatter": lambda x, axes: lax.psum_scatter(x, axes, tiled=True),
    "all-to-all": lambda x, axes: lax.all_to_all(x, axes, 0, 1, tiled=True),
}
MESHES = [{"x": 8}, {"x": 2, "y": 4}, {"x": 4, "y": 2}, {"x": 2, "y": 2, "z": 2}, {"x": 2, "one": 1, "z": 4}]
WIDE = jax.ShapeDtypeStruct((64, 64), jnp.float32)


def _along(mesh):
    """Every axis, every pair in both orders, and all axes."""
    names = list(mesh)
    pairs = [(a, b) for a in names for b in names if a != b]
    return [(name,) for name in names] + pairs + ([tuple(names)] if len(names) > 2 else [])


@pytest.mark.share(4)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mesh", MESHES, ids=lambda mesh: "x".join(map(str, mesh.values())))
def test_every_kind_along_every_axis(kind, mesh):
    for along in _along(mesh):
        collectives = read(lambda x, along=along: KINDS[kind](x @ x, along), mesh, WIDE)
        moving = tuple(name for name in mesh if name in along and mesh[name] > 1)
        expected = {(kind, moving): 64 * 64 * 4} if moving else {}
        assert totals(collectives) == expected, along


@pytest.mark.parametrize("axis", ["x", "y", "z"])
def test_permutes_along_an_axis(axis):
    mesh = {"x": 2, "y": 2, "z": 2}
    collectives = read(lambda x: lax.ppermute(x @ x, axis, [(0, 1), (1, 0)]), mesh, SQUARE)
    assert totals(collectives) == {("collective-permute", (axis,)): 256}


def test_permutes_along_two_axes():
    mesh = {"x": 2, "y": 2, "z": 2}
    collectives = read(lambda x: lax.ppermute(x @ x, ("x", "z"), [(i, (i + 1) % 4) for i in range(4)]), mesh, SQUARE)
    assert totals(collectives) == {("collective-permute", ("x", "z")): 256}


def test_a_shift_without_wrapping_around_is_a_permute_along_its_axis():
    collectives = read(lambda x: lax.ppermute(x @ x, "y", [(0, 1), (1, 2)]), {"x": 2, "y": 4}, SQUARE)
    assert totals(collectives) == {("collective-permute", ("y",)): 256}


def test_loops_count_as_often_as_they_turn():
    def nested(x):
        def inner(carry, _):
            return lax.psum(carry @ x, "x"), None

        def outer(carry, _):
            carry, _ = lax.scan(inner, carry, None, length=3)
            return lax.all_gather(carry @ x, "y", tiled=True)[:8], None

        return lax.scan(outer, x, None, length=5)[0]

    collectives = read(nested, {"x": 2, "y": 4}, SQUARE)
    assert {(c.kind, c.axes, c.payload_bytes, c.times) for c in collectives} == {
        ("all-reduce", ("x",), 256, 15),
        ("all-gather", ("y",), 256, 5),
    }
    assert totals(collectives) == {("all-reduce", ("x",)): 15 * 256, ("all-gather", ("y",)): 5 * 256}


def test_a_collective_in_a_condition_counts_once_more_than_the_loop_turns():
    def counted(x):
        def going(carry):
            return (carry[0] < 6) & (lax.psum(carry[1] @ x, "x")[0, 0] < jnp.inf)

        return lax.while_loop(going, lambda carry: (carry[0] + 1, jnp.sin(carry[1])), (0, x))[1]

    text = compiled(counted, {"x": 8}, SQUARE)
    with pytest.raises(RunError, match=r"The trip count of the loop `%while[\w.]*` is not in the compiled text"):
        read_collectives(text, {"x": 8})
    (collectives,) = read_collectives(text, {"x": 8}, unknown_trips=6)
    assert collectives.times == 7


def test_a_loop_without_collectives_may_turn_as_often_as_it_likes():
    def halved(x):
        return lax.psum(lax.while_loop(lambda y: y.sum() > 1, lambda y: y / 2, x), "x")

    assert totals(read(halved, {"x": 8}, SQUARE)) == {("all-reduce", ("x",)): 256}


def test_a_trip_count_that_is_not_written_is_inferred():
    def looped(x):
        return lax.scan(lambda carry, _: (lax.psum(carry @ x, "x"), None), x, None, length=7)[0]

    text = compiled(looped, {"x": 8}, SQUARE)
    assert "known_trip_count" in text
    (collectives,) = read_collectives(text.replace("known_trip_count", "unwritten"), {"x": 8})
    assert collectives.times == 7


def test_branches_are_flagged():
    def branched(x):
        return lax.cond(x.sum() > 0, lambda y: lax.psum(y @ y, "x"), jnp.sin, x)

    (collectives,) = read(branched, {"x": 8}, SQUARE)
    assert collectives.conditional
    assert collectives.times == 1


def test_joined_all_reduces_are_one_record_per_dtype():
    def three(x):
        return lax.psum(x @ x, "x"), lax.psum(jnp.sin(x), "x"), lax.psum(x.astype(jnp.int32), "x")

    joined = read(three, {"x": 8}, SQUARE)
    apart = read(three, {"x": 8}, SQUARE, options=APART)
    assert sorted((c.dtype, c.payload_bytes) for c in apart) == [("float32", 256), ("float32", 256), ("int32", 256)]
    assert totals(joined) == totals(apart) == {("all-reduce", ("x",)): 768}


def test_sixteen_bit_floats_are_widened_on_cpu_and_say_so():
    (collectives,) = read(lambda x: lax.psum(x @ x, "x"), {"x": 8}, jax.ShapeDtypeStruct((8, 8), jnp.bfloat16))
    assert (collectives.payload_bytes, collectives.dtype) == (256, "float32")


def test_eight_bit_floats_are_widened_on_cpu_and_half_precision_is_not():
    def gather(dtype):
        (collectives,) = read(lambda x: lax.all_gather(x, "x"), {"x": 8}, jax.ShapeDtypeStruct((8, 8), dtype))
        return collectives.payload_bytes, collectives.dtype

    assert gather(jnp.float8_e4m3fn) == (128, "float16")
    assert gather(jnp.float16) == (128, "float16")


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_recomputed_behind_a_barrier_moves_again(kind):
    def twice(x, y):
        first = KINDS[kind](jnp.sin(x), "x")
        x, first = lax.optimization_barrier((x, first))
        return first, KINDS[kind](jnp.sin(x), "x") * 2

    # Without the option XLA for CPU merges the two, and the memory that recomputation saves is lost.
    options = compiler_options("cpu")
    collectives = read(twice, {"x": 8}, WIDE, WIDE, options=options)
    assert totals(collectives) == {(kind, ("x",)): 2 * 64 * 64 * 4}


def test_a_record_says_where_it_comes_from():
    (collectives,) = read(lambda x: lax.psum(x @ x, "x"), {"x": 8}, SQUARE)
    assert collectives.where.endswith("/psum")
    assert collectives.name.startswith("psum")


def test_a_program_without_collectives_has_none():
    assert read(lambda x: x @ x, {"x": 8}, SQUARE) == ()
    assert read_collectives(jax.jit(lambda x: x @ x).lower(SQUARE).compile().as_text(), {}) == ()


def test_the_mesh_must_be_the_one_that_was_compiled_for():
    text = compiled(lambda x: lax.psum(x, "x"), {"x": 8}, SQUARE)
    with pytest.raises(RunError, match=r"compiled for 8 devices; the mesh \(a=2 x b=2\) has 4"):
        read_collectives(text, {"a": 2, "b": 2})
    with pytest.raises(RunError, match=r"compiled for 8 devices; the mesh \(one device\) has 1"):
        read_collectives(text, {})
    with pytest.raises(RunError, match=r"compiled for 8 replicas"):
        read_collectives(text.replace("num_partitions=8", "replica_count=8"), {"x": 8})


def test_totals_leave_out_what_moves_nothing():
    records = [
        HloCollective("all-reduce", ("x",), 4, "float32", 2, "a"),
        HloCollective("all-reduce", ("x",), 8, "int32", 1, "b"),
        HloCollective("all-reduce", (), 8, "int32", 1, "alone"),
        HloCollective("all-gather", None, 8, "int32", 1, "irregular"),
    ]
    assert totals(records) == {("all-reduce", ("x",)): 16, ("all-gather", None): 8}


def test_of_a_ragged_all_to_all_the_payload_is_what_may_be_sent():
    text = """
ENTRY %main (x: f32[32,128], n: s32[4]) -> f32[32,128] {
  %x = f32[32,128]{1,0} parameter(0)
  %n = s32[4]{0} parameter(1)
  %out = f32[32,128]{1,0} broadcast(%x), dimensions={0,1}
  ROOT %y = f32[32,128]{1,0} ragged-all-to-all(%x, %out, %n, %n, %n, %n), replica_groups={{0,1,2,3}}
}"""
    (found,) = read_collectives(text, {"data": 4})
    assert (found.kind, found.axes, found.payload_bytes) == ("all-to-all", ("data",), 32 * 128 * 4)
    assert (found.dtype, found.shapes) == ("float32", ((32, 128),))
