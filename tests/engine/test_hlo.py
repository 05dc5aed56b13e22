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
from meshlab.engine.hlo import HloCollective, read_collectives, totals
from meshlab.engine.hlo_text import arrays

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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mesh", MESHES, ids=lambda mesh: "x".join(map(str, mesh.values())))
def test_every_kind_along_every_axis(kind, mesh):
    for along in _along(mesh):
        found = read(lambda x, along=along: KINDS[kind](x @ x, along), mesh, WIDE)
        moving = tuple(name for name in mesh if name in along and mesh[name] > 1)
        expected = {(kind, moving): 64 * 64 * 4} if moving else {}
        assert totals(found) == expected, along


@pytest.mark.parametrize("axis", ["x", "y", "z"])
def test_permutes_along_an_axis(axis):
    mesh = {"x": 2, "y": 2, "z": 2}
    found = read(lambda x: lax.ppermute(x @ x, axis, [(0, 1), (1, 0)]), mesh, SQUARE)
    assert totals(found) == {("collective-permute", (axis,)): 256}


def test_permutes_along_two_axes():
    mesh = {"x": 2, "y": 2, "z": 2}
    found = read(lambda x: lax.ppermute(x @ x, ("x", "z"), [(i, (i + 1) % 4) for i in range(4)]), mesh, SQUARE)
    assert totals(found) == {("collective-permute", ("x", "z")): 256}


def test_a_shift_without_wrapping_around_is_a_permute_along_its_axis():
    found = read(lambda x: lax.ppermute(x @ x, "y", [(0, 1), (1, 2)]), {"x": 2, "y": 4}, SQUARE)
    assert totals(found) == {("collective-permute", ("y",)): 256}


def test_loops_count_as_often_as_they_turn():
    def nested(x):
        def inner(carry, _):
            return lax.psum(carry @ x, "x"), None

        def outer(carry, _):
            carry, _ = lax.scan(inner, carry, None, length=3)
            return lax.all_gather(carry @ x, "y", tiled=True)[:8], None

        return lax.scan(outer, x, None, length=5)[0]

    found = read(nested, {"x": 2, "y": 4}, SQUARE)
    assert {(c.kind, c.axes, c.payload_bytes, c.times) for c in found} == {
        ("all-reduce", ("x",), 256, 15),
        ("all-gather", ("y",), 256, 5),
    }
    assert totals(found) == {("all-reduce", ("x",)): 15 * 256, ("all-gather", ("y",)): 5 * 256}


def test_a_collective_in_a_condition_counts_once_more_than_the_loop_turns():
    def counted(x):
        def going(carry):
            return (carry[0] < 6) & (lax.psum(carry[1] @ x, "x")[0, 0] < jnp.inf)

        return lax.while_loop(going, lambda carry: (carry[0] + 1, jnp.sin(carry[1])), (0, x))[1]

    text = compiled(counted, {"x": 8}, SQUARE)
    with pytest.raises(RunError, match=r"How often the loop `%while[\w.]*` turns is not in the compiled text"):
        read_collectives(text, {"x": 8})
    (found,) = read_collectives(text, {"x": 8}, unknown_trips=6)
    assert found.times == 7


def test_a_loop_without_collectives_may_turn_as_often_as_it_likes():
    def halved(x):
        return lax.psum(lax.while_loop(lambda y: y.sum() > 1, lambda y: y / 2, x), "x")

    assert totals(read(halved, {"x": 8}, SQUARE)) == {("all-reduce", ("x",)): 256}


def test_a_trip_count_that_is_not_written_is_inferred():
    def looped(x):
        return lax.scan(lambda carry, _: (lax.psum(carry @ x, "x"), None), x, None, length=7)[0]

    text = compiled(looped, {"x": 8}, SQUARE)
    assert "known_trip_count" in text
    (found,) = read_collectives(text.replace("known_trip_count", "unwritten"), {"x": 8})
    assert found.times == 7


def test_branches_are_flagged():
    def branched(x):
        return lax.cond(x.sum() > 0, lambda y: lax.psum(y @ y, "x"), jnp.sin, x)

    (found,) = read(branched, {"x": 8}, SQUARE)
    assert found.conditional
    assert found.times == 1


def test_joined_all_reduces_are_one_record_per_dtype():
    def three(x):
        return lax.psum(x @ x, "x"), lax.psum(jnp.sin(x), "x"), lax.psum(x.astype(jnp.int32), "x")

    joined = read(three, {"x": 8}, SQUARE)
    apart = read(three, {"x": 8}, SQUARE, options=APART)
    assert sorted((c.dtype, c.payload_bytes) for c in apart) == [("float32", 256), ("float32", 256), ("int32", 256)]
    assert totals(joined) == totals(apart) == {("all-reduce", ("x",)): 768}


def test_sixteen_bit_floats_are_widened_on_cpu_and_say_so():
    (found,) = read(lambda x: lax.psum(x @ x, "x"), {"x": 8}, jax.ShapeDtypeStruct((8, 8), jnp.bfloat16))
    assert (found.payload_bytes, found.dtype) == (256, "float32")


def test_eight_bit_floats_are_widened_on_cpu_and_half_precision_is_not():
    def gather(dtype):
        (found,) = read(lambda x: lax.all_gather(x, "x"), {"x": 8}, jax.ShapeDtypeStruct((8, 8), dtype))
        return found.payload_bytes, found.dtype

    assert gather(jnp.float8_e4m3fn) == (128, "float16")
    assert gather(jnp.float16) == (128, "float16")


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_recomputed_behind_a_barrier_moves_again(kind):
    def twice(x, y):
        first = KINDS[kind](jnp.sin(x), "x")
        x, first = lax.optimization_barrier((x, first))
        return first, KINDS[kind](jnp.sin(x), "x") * 2

    # Without the option XLA for CPU merges the two, and the memory that recomputation saves is lost.
    options = compiler_options(jax.devices("cpu"))
    found = read(twice, {"x": 8}, WIDE, WIDE, options=options)
    assert totals(found) == {(kind, ("x",)): 2 * 64 * 64 * 4}


def test_a_record_says_where_it_comes_from():
    (found,) = read(lambda x: lax.psum(x @ x, "x"), {"x": 8}, SQUARE)
    assert found.where.endswith("/psum")
    assert found.name.startswith("psum")


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


# What XLA for CPU does not print, as XLA for GPU and TPU print it.


def entry(*lines, before=""):
    return before + "ENTRY %main (x: f32[4,4]) -> f32[4,4] {\n" + "\n".join(lines) + "\n}\n"


X = "  %x = f32[4,4]{1,0:T(8,128)} parameter(0)"
CUBE = {"a": 2, "b": 2, "c": 2}


def test_asynchronous_collectives_count_at_their_start():
    text = entry(
        X,
        "  %s = (f32[4,4]{1,0}, f32[8,4]{1,0}) all-gather-start(%x), replica_groups=[4,2]<=[8], dimensions={0}",
        "  ROOT %d = f32[8,4]{1,0} all-gather-done(%s)",
    )
    (found,) = read_collectives(text, CUBE)
    assert (found.kind, found.axes, found.payload_bytes) == ("all-gather", ("c",), 64)


def test_wrapped_asynchronous_collectives_count_once():
    wrapped = """%wrapped (p: f32[4,4]) -> f32[2,4] {
  %p = f32[4,4]{1,0} parameter(0)
  ROOT %rs = f32[2,4]{1,0} reduce-scatter(%p), replica_groups=[4,2]<=[2,4]T(1,0), dimensions={0}, to_apply=%add
}
"""
    text = entry(
        X,
        "  %s = ((f32[4,4]{1,0}), f32[2,4]{1,0}, u32[]) async-start(%x), calls=%wrapped",
        "  %u = ((f32[4,4]{1,0}), f32[2,4]{1,0}, u32[]) async-update(%s), calls=%wrapped",
        "  ROOT %d = f32[2,4]{1,0} async-done(%u), calls=%wrapped",
        before=wrapped,
    )
    assert totals(read_collectives(text, CUBE)) == {("reduce-scatter", ("a",)): 64}


def test_operands_may_be_printed_with_their_shapes_and_without_percent_signs():
    text = entry(
        "  x = f32[4,4]{1,0} parameter(0)",
        "  ROOT r = f32[4,4]{1,0} all-reduce(f32[4,4]{1,0} x), replica_groups={}, to_apply=add",
    )
    assert totals(read_collectives(text, CUBE)) == {("all-reduce", ("a", "b", "c")): 64}


def test_an_all_reduce_scatter_fusion_is_a_reduce_scatter():
    fused = """%all-reduce-scatter.1 (p: f32[4,4]) -> f32[2,4] {
  %p = f32[4,4]{1,0} parameter(0)
  %r = f32[4,4]{1,0} all-reduce(%p), replica_groups=[4,2]<=[8], to_apply=%add
  ROOT %cut = f32[2,4]{1,0} slice(%r), slice={[0:2], [0:4]}
}
"""
    line = "  ROOT %f = f32[2,4]{1,0} fusion(%x), kind=kCustom, calls=%all-reduce-scatter.1"
    assert totals(read_collectives(entry(X, line, before=fused), CUBE)) == {("reduce-scatter", ("c",)): 64}


def test_a_chain_of_fusions_that_share_a_collective_counts_once():
    link = """%link.{0} (p: f32[4,4]) -> f32[8,4] {{
  %p = f32[4,4]{{1,0}} parameter(0)
  ROOT %g = f32[8,4]{{1,0}} all-gather(%p), replica_groups=[4,2]<=[8], frontend_attributes={{chain_id="{1}"}}
}}
"""
    lines = [f"  %f.{i} = f32[8,4]{{1,0}} fusion(%x), kind=kCustom, calls=%link.{i}" for i in range(4)]
    before = link.format(0, 1) + link.format(1, 1) + link.format(2, 1) + link.format(3, 2)
    found = read_collectives(entry(X, *lines, before=before), CUBE)
    assert [c.payload_bytes for c in found] == [64, 64]


COUNTED = """%add (p: s32[], q: s32[]) -> s32[] {{
  %p = s32[] parameter(0)
  %q = s32[] parameter(1)
  ROOT %sum = s32[] add(%q, %p)
}}
%body (p: (s32[], f32[4,4])) -> (s32[], f32[4,4]) {{
  %p = (s32[], f32[4,4]{{1,0}}) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %step = s32[] constant({step})
  %next = s32[] fusion(%i, %step), kind=kLoop, calls=%add
  %y = f32[4,4]{{1,0}} get-tuple-element(%p), index=1
  %r = f32[4,4]{{1,0}} all-reduce(%y), replica_groups={{{{0,1}}}}, to_apply=%add
  ROOT %t = (s32[], f32[4,4]{{1,0}}) tuple(%next, %r)
}}
%condition (p: (s32[], f32[4,4])) -> pred[] {{
  %p = (s32[], f32[4,4]{{1,0}}) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %bound = s32[] constant({bound})
  ROOT %less = pred[] compare({compared}), direction={direction}
}}
"""
LOOPED = (
    X,
    "  %zero = s32[] constant(2)",
    "  %start = s32[] copy(%zero)",
    "  %t = (s32[], f32[4,4]{1,0}) tuple(%start, %x)",
    "  %w = (s32[], f32[4,4]{1,0}) while(%t), condition=%condition, body=%body",
    "  ROOT %out = f32[4,4]{1,0} get-tuple-element(%w), index=1",
)


@pytest.mark.parametrize(
    ("compared", "direction", "bound", "step", "times"),
    [
        ("%i, %bound", "LT", 12, 1, 10),
        ("%i, %bound", "LT", 12, 3, 4),
        ("%i, %bound", "LE", 12, 1, 11),
        ("%bound, %i", "GT", 12, 1, 10),
        ("%bound, %i", "GE", 12, 2, 6),
        ("%i, %bound", "GT", -2, -1, 4),
        ("%i, %bound", "GE", -2, -1, 5),
        ("%i, %bound", "LT", 1, 1, 0),
    ],
)
def test_inferred_trip_counts(compared, direction, bound, step, times):
    before = COUNTED.format(compared=compared, direction=direction, bound=bound, step=step)
    (found,) = read_collectives(entry(*LOOPED, before=before), {"x": 2})
    assert found.times == times


@pytest.mark.parametrize(
    ("compared", "direction", "bound", "step"),
    [("%i, %bound", "LT", 12, -1), ("%i, %bound", "NE", 12, 1), ("%i, %i", "LT", 12, 1), ("%i, %bound", "LT", 12, 0)],
)
def test_trip_counts_that_do_not_follow(compared, direction, bound, step):
    before = COUNTED.format(compared=compared, direction=direction, bound=bound, step=step)
    with pytest.raises(RunError, match=r"How often the loop `%w` turns is not in the compiled text.*lax.scan"):
        read_collectives(entry(*LOOPED, before=before), {"x": 2})


def test_irregular_permutes_have_no_axes():
    def permute(pairs):
        line = f"  ROOT %p = f32[4,4]{{1,0}} collective-permute(%x), source_target_pairs={pairs}"
        return read_collectives(entry(X, line), {"a": 2, "b": 2})[0].axes

    assert permute("{{0,1},{1,0}}") is None
    assert permute("{{0,1},{1,0},{2,3}}") is None
    assert permute("{{0,1},{1,0},{2,3},{3,2}}") == ("b",)
    assert permute("{{0,0},{1,1}}") == ()
    assert permute("{}") == ()


@pytest.mark.parametrize(
    "line",
    [
        "ragged-all-to-all(%x), replica_groups={{0,1}}",
        "collective-broadcast(%x), replica_groups={{0,1}}",
        "send(%x), channel_id=1",
        "collective-permute-start(%x, %x), source_target_pairs={{0,1}}, slice_sizes={{4,4}}",
    ],
)
def test_what_is_not_read_is_refused(line):
    with pytest.raises(RunError, match=r"moves data by `[\w-]+` \(`%y`\), in a form that is not read here"):
        read_collectives(entry(X, f"  %y = f32[4,4]{{1,0}} {line}"), {"x": 2})


def test_transfers_to_the_host_are_no_collectives():
    text = entry(X, "  %y = (f32[4,4]{1,0}, u32[], token[]) send(%x, %x), channel_id=1, is_host_transfer=true")
    assert read_collectives(text, {"x": 2}) == ()


def test_lines_that_may_be_collectives_are_not_passed_over():
    with pytest.raises(RunError, match=r"may be a collective, and cannot be read: %y := all-reduce\(%x\)"):
        read_collectives(entry(X, "  %y := all-reduce(%x)"), {"x": 2})


def test_collectives_that_nothing_calls_are_not_passed_over():
    lost = "%lost (p: f32[4]) -> f32[4] {\n  %p = f32[4]{0} parameter(0)\n  ROOT %r = f32[4]{0} all-reduce(%p)\n}\n"
    with pytest.raises(RunError, match=r"stands in the computation `%lost`, to which no call leads"):
        read_collectives(entry(X, before=lost), {"x": 2})


def test_operands_must_be_in_the_text():
    with pytest.raises(RunError, match=r"uses `%gone` in `%r`, but computation `%main` makes no such value"):
        read_collectives(entry(X, "  %r = f32[4]{0} all-reduce(%gone), replica_groups={{0,1}}"), {"x": 2})


@pytest.mark.parametrize("text", ["", "module @jit_f {\n}", "%a (x: f32[]) -> f32[] {\n  %x = f32[] parameter(0)\n}"])
def test_text_that_is_not_a_compiled_program(text):
    with pytest.raises(RunError, match=r"Compiled HLO text was expected, with one computation marked ENTRY; found"):
        read_collectives(text, {"x": 2})


def test_a_program_without_text():
    with pytest.raises(RunError, match=r"Compiled HLO text was expected, got None"):
        read_collectives(None, {"x": 2})


def test_types_are_taken_apart():
    assert arrays("(f32[2,3]{1,0:T(8,128)S(1)}, (pred[7]{0}, bf16[]), token[])") == (
        ("float32", 24),
        ("bool", 7),
        ("bfloat16", 2),
        ("token", 0),
    )
    assert arrays("s4[3]{0:E(4)}") == (("int4", 2),)
    assert arrays("f8e4m3fn[<=8]{0}") == (("float8_e4m3fn", 8),)
    assert arrays("c64[2]") == (("complex64", 16),)
    with pytest.raises(RunError, match="element type `zz9`, whose size is not known"):
        arrays("zz9[2]")
