"""Reshards end where they should, by valid steps, and the steps really do what they say."""

import math

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import PartitionSpec

from meshlab.engine.collectives.chains import reshard
from meshlab.engine.collectives.kinds import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    COLLECTIVE_PERMUTE,
    KINDS,
    REDUCE_SCATTER,
)
from meshlab.engine.collectives.reshard import reduced_spec
from meshlab.engine.running.lower import MeshDevice, moved, partition_spec
from meshlab.engine.specs.spec import Spec, local_shape, replicated, split_count

SIZES = {"x": 2, "y": 2, "z": 2}
SHAPE = (8, 8)


@st.composite
def specs(draw, partial=True):
    """A valid spec of two axes: every mesh axis splits one axis, or makes the value partial, or does nothing."""
    splits, over = ([], []), []
    for axis in draw(st.permutations(list(SIZES))):
        place = draw(st.sampled_from([0, 1, "partial", None] if partial else [0, 1, None]))
        if place == "partial":
            over.append(axis)
        elif place is not None:
            splits[place].append(axis)
    return Spec((tuple(splits[0]), tuple(splits[1])), tuple(sorted(over)))


@st.composite
def pairs(draw):
    """A start, and a target that is partial over no more than the start."""
    start, target = draw(specs()), draw(specs(partial=False))
    remaining = [a for a in start.partial if a not in target.axes]
    keep = draw(st.lists(st.sampled_from(remaining), unique=True)) if remaining else []
    return start, Spec(target.splits, tuple(sorted(keep)))


def valid(spec):
    used = [*spec.axes, *spec.partial]
    return len(used) == len(set(used))


@given(pairs())
@settings(max_examples=300)
def test_steps_are_valid_and_end_at_the_target(pair):
    start, target = pair
    spec = start
    for step in reshard(start, target, SIZES).steps:
        assert valid(step.result)
        assert step.result != spec
        spec = step.result
    assert spec == target


@given(specs())
def test_a_reshard_to_itself_is_no_hop(spec):
    assert reshard(spec, spec, SIZES).steps == ()


def really(start, target):
    """Runs a reshard on 8 devices; returns the value that it is of, and the one that comes out."""
    mesh = jax.make_mesh((2, 2, 2), tuple(SIZES), axis_types=(jax.sharding.AxisType.Auto,) * 3)
    device = MeshDevice(SIZES)
    addends = math.prod(SIZES[a] for a in start.partial)
    # Whole numbers, an addend for each device along the partial axes: every order of addition gives the same.
    value = np.random.default_rng(0).integers(-50, 50, (*(2 for _ in start.partial), *SHAPE)).astype(np.float32)

    def run(shard):
        shard, spec = shard.reshape(shard.shape[len(start.partial) :]), start
        for step in reshard(start, target, SIZES).steps:
            shard = moved(device, spec, step, shard)
            spec = step.result
        return jax.lax.psum(shard, target.partial) if target.partial else shard

    into = PartitionSpec(*start.partial, *partition_spec(start))
    relaid = jax.shard_map(run, mesh=mesh, in_specs=into, out_specs=partition_spec(target), check_vma=False)
    return value.reshape(addends, *SHAPE).sum(0), jax.jit(relaid)(value)


@given(pairs())
@settings(max_examples=15)
def test_steps_move_the_value_that_is_meant(pair):
    value, result = really(*pair)
    np.testing.assert_array_equal(value, result)


@pytest.mark.parametrize(
    ("start", "target"),
    [
        (Spec((("x", "y"), ())), Spec((("y", "x"), ()))),
        (Spec((("x",), ("y",))), Spec((("y",), ("x",)))),
        (Spec((("x", "y"), ())), Spec(((), ("y", "x")))),
        (Spec(((), ()), ("x", "y", "z")), Spec((("z",), ("x",)))),
        (Spec((("x",), ()), ("y", "z")), Spec(((), ("z", "x")), ("y",))),
    ],
)
def test_awkward_reshards_move_the_value_that_is_meant(start, target):
    value, result = really(start, target)
    np.testing.assert_array_equal(value, result)


@pytest.mark.parametrize(
    ("start", "target", "kinds"),
    [
        (Spec(((), ()), ("x",)), Spec((("x",), ())), ["reduce-scatter"]),
        (Spec(((), ()), ("x",)), replicated(2), ["all-reduce"]),
        (Spec((("x",), ())), replicated(2), ["all-gather"]),
        (Spec((("x",), ())), Spec(((), ("x",))), ["all-to-all"]),
        (replicated(2), Spec((("x", "y"), ())), ["slice"]),
        (Spec(((), ()), ("x", "y")), replicated(2), ["all-reduce"]),
        (Spec(((), ()), ("x", "y")), Spec(((), ()), ("y",)), ["all-reduce"]),
        # What shrinks the shard goes first, what grows it last.
        (Spec((("y",), ()), ("x",)), Spec(((), ("x",))), ["reduce-scatter", "all-gather"]),
        (Spec((("y",), ())), Spec(((), ("x",))), ["slice", "all-gather"]),
        # Blocks of the same size change places.
        (Spec((("y",), ())), Spec((("x",), ())), ["collective-permute"]),
        (Spec((("x", "y"), ())), Spec((("y", "x"), ())), ["collective-permute"]),
        (Spec((("x",), ("y",))), Spec((("y",), ("x",))), ["collective-permute"]),
        # The minor axis is gathered after the exchange of the major one, not before.
        (Spec((("x", "y"), ())), Spec(((), ("x", "y"))), ["all-to-all"]),
    ],
)
def test_each_reshard_takes_the_collective_made_for_it(start, target, kinds):
    assert [step.kind.name for step in reshard(start, target, SIZES).steps] == kinds


def test_wire_bytes_are_what_a_ring_sends():
    n = 8
    full = 1024
    sizes = {"r": 2, "c": 4}
    # On a ring of n devices an all-reduce is a reduce-scatter of the operand and an all-gather of its n-th part.
    scattered = REDUCE_SCATTER.wire_bytes(full, ("r", "c"), sizes)
    gathered = ALL_GATHER.wire_bytes(full // n, ("r", "c"), sizes)
    assert scattered == gathered == full * (n - 1) / n
    assert ALL_REDUCE.wire_bytes(full, ("r", "c"), sizes) == scattered + gathered
    # All but a device's own part leaves it.
    assert ALL_TO_ALL.wire_bytes(full, ("c",), sizes) == full - full // 4
    assert COLLECTIVE_PERMUTE.wire_bytes(full, ("c",), sizes) == full


@pytest.mark.parametrize("kind", KINDS.values(), ids=str)
def test_a_group_of_one_sends_nothing(kind):
    assert kind.wire_bytes(64, ("x",), {"x": 1}) == 0


def test_a_sum_is_resolved_to_what_extends_its_own_splits():
    partial = Spec((("x",), ()), ("y",))
    assert reduced_spec(partial, None) == Spec((("x",), ()))
    assert reduced_spec(partial, Spec((("x", "y"), ()))) == Spec((("x", "y"), ()))
    assert reduced_spec(partial, Spec(((), ("y",)))) == Spec((("x",), ("y",)))
    # A target that lies across what is there, or uses its axis again, is not followed.
    assert reduced_spec(partial, Spec((("y",), ()))) == Spec((("x",), ()))
    assert reduced_spec(partial, Spec(((), ("x",)))) == Spec((("x",), ()))
    # In an iteration over an axis in time, which comes last, devices share its block.
    block, scattered = Spec((("t",), ()), ("y",)), Spec((("y", "t"), ()))
    assert reduced_spec(block, scattered, ("t",)) == scattered
    assert reduced_spec(block, scattered) == Spec((("t",), ()))


def test_a_spec_tells_shapes_counts_and_itself():
    spec = Spec((("x", "y"), ("z",)), ("w",))
    assert local_shape((8, 6), spec, SIZES) == (2, 3)
    assert split_count(spec, SIZES) == 8
    assert spec.axes == ("x", "y", "z")
    assert spec.reduced() == Spec((("x", "y"), ("z",)))
    assert str(spec) == "[x+y, z] partial over w"
    assert str(replicated(2)) == "[·, ·]"
