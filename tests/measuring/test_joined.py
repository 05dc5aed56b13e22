"""Which step an instruction is joined to, how long a device waits, and how long it takes for what it does at once."""

import hypothesis
import hypothesis.strategies as st
import pytest

from meshlab.measuring.joined import COMPUTE, Share, seconds
from meshlab.measuring.owners import Owner, Owners
from meshlab.measuring.recorded import Event
from meshlab.measuring.waits import waiting

TEXT = """HloModule jit_profiled, num_partitions=4

%fused (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0), metadata={op_name="jit(profiled)/v1/neg"}
  %one = f32[8]{0} exponential(%p), metadata={op_name="jit(profiled)/shard_map/v3/while/body/v4/exp"}
  ROOT %two = f32[8]{0} add(%one, %p), metadata={op_name="jit(profiled)/shard_map/v6/add"}
}

%outlined (q: f32[8]) -> f32[8] {
  %q = f32[8]{0} parameter(0)
  ROOT %three = f32[8]{0} negate(%q), metadata={op_name="jit(profiled)/shard_map/v8/neg"}
}

%body (c: (s32[], f32[8])) -> (s32[], f32[8]) {
  %c = (s32[], f32[8]{0}) parameter(0)
  %number = s32[] get-tuple-element(%c), index=0
  %value = f32[8]{0} get-tuple-element(%c), index=1
  %next = s32[] add(%number, %number)
  ROOT %both = (s32[], f32[8]{0}) tuple(%next, %value)
}

%test (d: (s32[], f32[8])) -> pred[] {
  %d = (s32[], f32[8]{0}) parameter(0)
  ROOT %always = pred[] constant(true)
}

ENTRY %main (x: f32[8]) -> f32[8] {
  %x = f32[8]{0} parameter(0), metadata={op_name="x"}
  %fusion.1 = f32[8]{0} fusion(%x), kind=kLoop, calls=%fused, metadata={op_name="jit(profiled)/shard_map/v6/add"}
  %copy.1 = f32[8]{0} copy(%fusion.1)
  %copy.2 = f32[8]{0} copy(%x)
  %call.1 = f32[8]{0} call(%copy.2), to_apply=%outlined
  %start = (s32[], f32[8]{0}) parameter(1)
  %loop = (s32[], f32[8]{0}) while(%start), condition=%test, body=%body, metadata={op_name="jit(profiled)/v11/while"}
  %sums = (f32[8]{0}, f32[8]{0}) all-reduce(%copy.1, %call.1), to_apply=%add,
    metadata={op_name="jit(profiled)/shard_map/(v7/psum:v9/psum)"}
  ROOT %y = f32[8]{0} get-tuple-element(%sums), index=0
}
""".replace(",\n   ", ",")


@pytest.fixture
def owners() -> Owners:
    return Owners(TEXT)


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("fusion.1", Owner((4, 6), True)),  # the innermost scopes of what is computed in it, no parameter's
        ("sums", Owner((7, 9), True)),  # of all that are combined
        ("call.1", Owner((8,), True)),
        ("copy.1", Owner((4, 6), False)),  # what makes its operand
        ("next", Owner((11,), False)),  # the loop that it counts
        ("copy.2", Owner((8,), False)),  # nothing makes its operand: what reads it
    ],
)
def test_steps_of_an_instruction(owners, name, owner):
    assert owners.of(name) == owner


def test_a_call_is_around_what_has_events(owners):
    assert owners.is_around("call.1", {"call.1", "three"})
    assert not owners.is_around("call.1", {"call.1", "fusion.1"})
    assert not owners.is_around("fusion.1", {"fusion.1", "one"})


def test_an_unknown_name_is_in_no_program(owners):
    assert "fusion.1" in owners
    assert "fusion.2" not in owners


def test_devices_wait_for_the_last_of_their_group():
    """Device 1 is last in the first turn, device 0 in the second; the others are a group of their own."""
    begun = {0: (0.0, 6.0), 1: (2.0, 5.0), 2: (1.0, 5.0), 3: (1.5, 9.0)}
    events = [Event("all-reduce", device, at, at + 4) for device, both in begun.items() for at in both]
    waits = waiting(events, [[0, 1], [2, 3]])
    assert {(e.device, e.begin): seconds for e, seconds in waits.items()} == {
        (0, 0.0): 2.0,
        (1, 2.0): 0.0,
        (0, 6.0): 0.0,
        (1, 5.0): 1.0,
        (2, 1.0): 0.5,
        (3, 1.5): 0.0,
        (2, 5.0): 4.0,  # it had ended before the last one came: all of it was waiting
        (3, 9.0): 0.0,
    }


def share(begin, end, part=1.0, waits=0.0):
    return Share(0, COMPUTE, (), 0, begin, end, waits, part, "op", True)


def test_what_runs_at_once_counts_once():
    assert seconds([]) == 0
    assert seconds([share(0, 2), share(1, 3), share(5, 6)]) == 4
    assert seconds([share(0, 4, 0.5), share(1, 2)]) == pytest.approx(2.5)
    assert seconds([share(0, 4, waits=3)]) == 1


@hypothesis.given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.sampled_from([0.25, 0.5, 1.0]))))
def test_the_largest_part_counts(drawn):
    """Moment by moment, as counted on a grid."""
    shares = [share(min(a, b), max(a, b), part) for a, b, part in drawn]
    cells = [max((s.part for s in shares if s.begin <= cell < s.end), default=0.0) for cell in range(9)]
    assert seconds(shares) == pytest.approx(sum(cells))
