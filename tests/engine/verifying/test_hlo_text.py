"""Texts that XLA for CPU does not print, as XLA for GPU and TPU print them, and texts that cannot be read."""

import pytest

from meshlab.engine.errors import RunError
from meshlab.engine.verifying.hlo import read_collectives, totals
from meshlab.engine.verifying.hlo_text import arrays


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
    (collective,) = read_collectives(text, CUBE)
    assert (collective.kind, collective.axes, collective.payload_bytes) == ("all-gather", ("c",), 64)


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
    collective = read_collectives(entry(X, *lines, before=before), CUBE)
    assert [c.payload_bytes for c in collective] == [64, 64]


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
    (collective,) = read_collectives(entry(*LOOPED, before=before), {"x": 2})
    assert collective.times == times


@pytest.mark.parametrize(
    ("compared", "direction", "bound", "step"),
    [("%i, %bound", "LT", 12, -1), ("%i, %bound", "NE", 12, 1), ("%i, %i", "LT", 12, 1), ("%i, %bound", "LT", 12, 0)],
)
def test_trip_counts_that_do_not_follow(compared, direction, bound, step):
    before = COUNTED.format(compared=compared, direction=direction, bound=bound, step=step)
    with pytest.raises(RunError, match=r"The trip count of the loop `%w` is not in the compiled text.*lax.scan"):
        read_collectives(entry(*LOOPED, before=before), {"x": 2})


def test_a_counter_is_found_beside_all_that_a_loop_carries():
    """Each sum is of the one before with itself: followed to its end it would be taken apart 2**200 times."""
    body = COUNTED.format(compared="%i, %bound", direction="LT", bound=12, step=1)
    chain = "".join(f"  %s{n} = f32[4,4]{{1,0}} add(%s{n - 1}, %s{n - 1})\n" for n in range(1, 201))
    body = body.replace("  %r = ", f"  %s0 = f32[4,4]{{1,0}} copy(%y)\n{chain}  %r = ").replace(
        "(%y), rep", "(%s200), rep"
    )
    begin = tuple(f"  %b{n} = f32[4,4]{{1,0}} add(%b{n - 1}, %b{n - 1})" for n in range(1, 201))
    lines = (LOOPED[0], "  %b0 = f32[4,4]{1,0} copy(%x)", *begin, *LOOPED[1:])
    text = entry(*lines, before=body).replace("tuple(%start, %x)", "tuple(%start, %b200)")
    (collective,) = read_collectives(text, {"x": 2})
    assert collective.times == 10


def test_computations_of_a_tpus_sparse_cores_end_otherwise():
    before = """%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}, execution_thread="sparsecore"

%called (p: f32[4,4], t: token[]) -> f32[2,4] {
  %t = token[] parameter(1)
  %p = f32[4,4]{1,0} parameter(0)
  ROOT %rs = f32[2,4]{1,0} reduce-scatter(%p), replica_groups={{0,1}}, dimensions={0}, to_apply=%add
}, execution_thread="sparsecore"
"""
    line = "  %s = ((f32[4,4]{1,0}, token[]), f32[2,4]{1,0}) call-start(%x, %x), to_apply=%called"
    done = "  ROOT %d = f32[2,4]{1,0} call-done(%s), to_apply=%called"
    assert totals(read_collectives(entry(X, line, done, before=before), {"x": 2})) == {("reduce-scatter", ("x",)): 64}


def test_operands_of_joined_collectives_are_told_one_by_one():
    text = entry(
        X,
        "  %y = bf16[8]{0} convert(%x)",
        "  ROOT %r = (f32[4,4]{1,0}, bf16[8]{0}, f32[4,4]{1,0}) all-reduce(%x, %y, %x), replica_groups={{0,1}}",
    )
    wide, narrow = read_collectives(text, {"x": 2})
    assert (wide.operands, wide.payload_bytes, narrow.operands) == ((64, 64), 128, (16,))


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
        "collective-broadcast(%x), replica_groups={{0,1}}",
        "send(%x), channel_id=1",
        "collective-permute-start(%x, %x), source_target_pairs={{0,1}}, slice_sizes={{4,4}}",
    ],
)
def test_what_is_not_read_is_refused(line):
    with pytest.raises(RunError, match=r"moves data by `[\w-]+` \(`%y`\), in a form that meshlab cannot read"):
        read_collectives(entry(X, f"  %y = f32[4,4]{{1,0}} {line}"), {"x": 2})


def test_transfers_to_the_host_are_no_collectives():
    text = entry(X, "  %y = (f32[4,4]{1,0}, u32[], token[]) send(%x, %x), channel_id=1, is_host_transfer=true")
    assert read_collectives(text, {"x": 2}) == ()


def test_lines_that_may_be_collectives_are_not_passed_over():
    with pytest.raises(RunError, match=r"may be a collective, and cannot be read: %y := all-reduce\(%x\)"):
        read_collectives(entry(X, "  %y := all-reduce(%x)"), {"x": 2})


def test_collectives_that_nothing_calls_are_not_passed_over():
    lost = "%lost (p: f32[4]) -> f32[4] {\n  %p = f32[4]{0} parameter(0)\n  ROOT %r = f32[4]{0} all-reduce(%p)\n}\n"
    with pytest.raises(RunError, match=r"is in the computation `%lost`, which no known call reaches"):
        read_collectives(entry(X, before=lost), {"x": 2})


def test_operands_must_be_in_the_text():
    with pytest.raises(RunError, match=r"uses `%gone` in `%r`, but computation `%main` has no such value"):
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
    with pytest.raises(RunError, match="element type `zz9`, whose size is unknown"):
        arrays("zz9[2]")
