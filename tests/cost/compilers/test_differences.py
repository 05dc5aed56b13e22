"""A compiler's collectives beside a plan's: what is equal, what a rule explains, and what nothing explains."""

import types
from typing import Any

import pytest

from meshlab.cost.compilers.differences import AGAIN, GATHERED_BY_ADDING, NARROWED, PADDED, RULES, SUMMED_WHOLE, compare
from meshlab.engine.verifying.hlo import HloCollective

SIZES = {"data": 8, "model": 2}


def planned(kind, axes, payload, times=1, dtype="float32") -> Any:
    return types.SimpleNamespace(kind=kind, axes=axes, payload_bytes=payload, counted=times, dtype=dtype)


def sent(kind, axes, *operands, times=1, dtype="float32", where="", name="name"):
    return HloCollective(kind, axes, sum(operands), dtype, times, name, False, where, operands)


def outcome(predicted, compiled):
    result = compare(predicted, compiled, SIZES)
    return (
        result.equal,
        result.ok,
        [(d.rule, d.predicted_bytes, d.compiled_bytes, d.times) for d in result.differences],
    )


def test_bytes_are_equal_however_they_are_joined_or_split():
    predicted = [planned("all-reduce", ("data",), 64, 4), planned("all-reduce", ("data",), 32)]
    assert outcome(predicted, [sent("all-reduce", ("data",), 64, times=3), sent("all-reduce", ("data",), 32, 64)]) == (
        True,
        True,
        [],
    )
    assert outcome(predicted, [sent("all-reduce", ("data",), 288)]) == (True, True, [])


def test_axes_are_compared_in_the_order_of_the_mesh():
    assert outcome([planned("all-reduce", ("model", "data"), 4)], [sent("all-reduce", ("data", "model"), 4)])[0]


@pytest.mark.parametrize("kind", ["all-gather", "all-to-all", "collective-permute"])
def test_what_is_moved_may_be_narrowed(kind):
    predicted = [planned(kind, ("data",), 64, 3), planned(kind, ("data",), 128)]
    compiled = [sent(kind, ("data",), 32, times=3, dtype="bfloat16"), sent(kind, ("data",), 128)]
    assert outcome(predicted, compiled) == (False, True, [(NARROWED, 64, 32, 3)])


def test_what_is_added_up_may_not_be_narrowed_but_a_maximum_may():
    predicted = [planned("all-reduce", ("data",), 64)]
    for operation, ok in (("psum", False), ("pmax", True), ("pmin", True)):
        narrow = sent("all-reduce", ("data",), 32, dtype="bfloat16", where=f"jit(f)/shard_map/{operation}")
        assert outcome(predicted, [narrow])[1] is ok, operation


def test_a_reduce_scatter_may_be_an_all_reduce():
    predicted = [planned("reduce-scatter", ("data",), 64, 4), planned("all-reduce", ("data",), 4)]
    compiled = [sent("all-reduce", ("data",), 64, times=4), sent("all-reduce", ("data",), 4)]
    assert outcome(predicted, compiled) == (False, True, [(SUMMED_WHOLE, 64, 64, 4)])


@pytest.mark.parametrize(("dtype", "payload"), [("float32", 512), ("bfloat16", 256)])
def test_an_all_gather_may_be_an_all_reduce_of_the_full_array(dtype, payload):
    predicted = [planned("all-gather", ("data",), 64)]
    assert outcome(predicted, [sent("all-reduce", ("data",), payload, dtype=dtype)]) == (
        False,
        True,
        [(GATHERED_BY_ADDING, 64, payload, 1)],
    )


# As the TPU compiler makes them of 4096 x 4096 float32: over 4 devices in a line, 16 of 4 x 4, and 32 of 4 x 8.
@pytest.mark.parametrize(
    ("devices", "made_bytes", "permutes"),
    [(4, 68157440, [786432]), (16, 73400320, [4587520, 1310720]), (32, 75497472, [2359296] * 3 + [1048576])],
)
def test_a_reduce_scatter_may_be_padded_and_its_parts_moved_back(devices, made_bytes, permutes):
    predicted = [planned("reduce-scatter", ("data",), 67108864, 2)]
    moved = [sent("collective-permute", ("data",), size, times=2) for size in permutes]
    larger = sent("reduce-scatter", ("data",), made_bytes, times=2)
    result = compare(predicted, [larger, *moved], {"data": devices})
    assert result.ok
    assert [(d.rule, d.compiled_bytes, d.times) for d in result.differences] == [
        (PADDED, made_bytes + sum(permutes), 2)
    ]
    text = " + ".join(f"collective-permute of {size:,} B" for size in permutes)
    assert f"of 67,108,864 B → reduce-scatter of {made_bytes:,} B + {text}: " in str(result.differences[0])
    assert not compare(predicted, [larger, *moved[1:]], {"data": devices}).ok
    assert not compare(predicted, [larger, *moved, moved[0]], {"data": devices}).ok


def test_what_the_compiler_says_to_compute_again_is_sent_again():
    """As in a program that libtpu makes fit v5e:4x4: it gathers one of its weights twice."""
    predicted = [planned("all-gather", ("data",), 64, 8)]
    once = sent("all-gather", ("data",), 32, times=8, dtype="bfloat16", name="all-gather.66")
    again = sent("all-gather", ("data",), 32, dtype="bfloat16", name="all-gather.66.remat")
    assert outcome(predicted, [once, again]) == (False, True, [(NARROWED, 64, 32, 8), (AGAIN, 0, 32, 1)])
    result = compare(predicted, [once, again], SIZES)
    assert str(result.differences[1]) == f"1 × nothing → all-gather of 32 B: {RULES[AGAIN]}"
    assert dict(result.rows[0].explained) == {NARROWED: -256, AGAIN: 32}
    # It stands for one that was predicted, where that is gone.
    assert outcome([planned("all-gather", ("data",), 32, dtype="bfloat16")], [again]) == (True, True, [])
    # Twice, and only one of them said to be again.
    assert not compare(predicted, [once, again, again, sent("all-gather", ("data",), 32, dtype="bfloat16")], SIZES).ok


def test_a_row_says_what_is_explained_and_a_difference_says_how():
    predicted = [planned("reduce-scatter", ("data",), 64, 4), planned("all-gather", ("model",), 8)]
    compiled = [sent("all-reduce", ("data",), 64, times=4), sent("all-gather", ("model",), 4, dtype="bfloat16")]
    result = compare(predicted, compiled, SIZES)
    assert [(r.kind, r.axes, r.predicted, r.compiled, dict(r.explained), r.equal) for r in result.rows] == [
        ("all-gather", ("model",), 8, 4, {NARROWED: -4}, False),
        ("all-reduce", ("data",), 0, 256, {SUMMED_WHOLE: 256}, False),
        ("reduce-scatter", ("data",), 256, 0, {SUMMED_WHOLE: -256}, False),
    ]
    assert [str(d) for d in result.differences] == [
        f"1 × all-gather over model of 8 B → all-gather of 4 B: {RULES[NARROWED]}",
        f"4 × reduce-scatter over data of 64 B → all-reduce of 64 B: {RULES[SUMMED_WHOLE]}",
    ]


def test_as_many_are_explained_as_there_are_on_either_side():
    predicted = [planned("all-gather", ("data",), 64, 5), planned("all-gather", ("data",), 96)]
    compiled = [
        sent("all-gather", ("data",), 32, times=3, dtype="bfloat16"),
        sent("all-gather", ("data",), 64, times=2),
    ]
    assert outcome(predicted, [*compiled, sent("all-gather", ("data",), 96)]) == (False, True, [(NARROWED, 64, 32, 3)])
    more = sent("all-gather", ("data",), 32, times=7, dtype="bfloat16")
    assert outcome(predicted[:1], [more]) == (False, False, [(NARROWED, 64, 32, 5)])


@pytest.mark.parametrize(
    "compiled",
    [
        [],
        [sent("all-gather", ("data",), 60)],
        [sent("all-gather", ("model",), 64)],
        [sent("all-gather", None, 64)],
        [sent("all-gather", ("data",), 32)],  # half, but not for being narrow
        [sent("all-gather", ("data",), 64), sent("all-reduce", ("data",), 4)],
        [sent("all-reduce", ("data",), 64)],
    ],
)
def test_what_no_rule_fits_is_not_explained(compiled):
    result = compare([planned("all-gather", ("data",), 64)], compiled, SIZES)
    assert not result.equal
    assert not result.ok


def test_a_surplus_beside_an_explained_difference_is_not_explained():
    predicted = [planned("reduce-scatter", ("data",), 64)]
    assert not compare(predicted, [sent("all-reduce", ("data",), 64, 4)], SIZES).ok
