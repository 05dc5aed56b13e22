"""Hop by hop: each kind ends with what JAX's collective gives, and each device sends what the plan counts."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec

from meshlab.engine.collectives.hops import NOBODY, Course, Transfer, sent_by, states
from meshlab.engine.collectives.kinds import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    COLLECTIVE_PERMUTE,
    KINDS,
    REDUCE_SCATTER,
    SLICE,
    Kind,
    Sending,
)
from meshlab.engine.collectives.routes import Mirrored, Permuted, Rerouted, Route, Shifted, pairs
from meshlab.engine.running.lower import MeshDevice
from meshlab.engine.specs.spec import Spec

SIZES = range(2, 9)
ROUTES: tuple[Route, ...] = (
    Shifted(("x",), 1, wrap=True),
    Shifted(("x",), 1, wrap=False),
    Mirrored(("x",)),
    Permuted(("x",), ((0, 1), (1, 0))),
)


def rotated(n: int) -> list[tuple[int, int]]:
    return [(i, (i + 1) % n) for i in range(n)]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kind", KINDS.values(), ids=str)
def test_hops_add_up_to_what_a_device_sends(kind: Kind, n: int) -> None:
    course = kind.course(n, rotated(n))
    assert [sent_by(course, member) for member in range(n)] == pytest.approx([kind.sent(n)] * n, rel=1e-12)
    assert eval(kind.formula.replace("−", "-").replace("2 (", "2 * ("), {"n": n}) == pytest.approx(kind.sent(n))
    for hop in course.hops:
        assert sorted(each.source for each in hop.transfers) == list(range(n)), "each sends one piece at a time"


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kind", KINDS.values(), ids=str)
def test_nobody_sends_what_it_has_not(kind: Kind, n: int) -> None:
    course = kind.course(n, rotated(n))
    played = states(course)
    held = [dict(each) for each in next(played)]
    for hop, after in zip(course.hops, played, strict=True):
        assert all(each.piece in held[each.source] for each in hop.transfers)
        # A device gets no addend twice.
        if hop.adds:
            assert all(not held[s][piece] & held[t][piece] for s, t, piece in hop.transfers)
        held = [dict(each) for each in after]


def test_what_each_has_is_known_after_each_hop() -> None:
    begin, once, twice = ([dict(each) for each in held] for held in states(REDUCE_SCATTER.course(3, ())))
    assert begin == [{0: 0b001, 1: 0b001, 2: 0b001}, {0: 0b010, 1: 0b010, 2: 0b010}, {0: 0b100, 1: 0b100, 2: 0b100}]
    assert once == [{0: 0b001, 1: 0b101}, {1: 0b010, 2: 0b011}, {0: 0b110, 2: 0b100}]
    assert twice == [{0: 0b111}, {1: 0b111}, {2: 0b111}]


def test_a_part_that_is_shifted_off_the_mesh_goes_to_nobody() -> None:
    _, sent = pairs(Shifted(("x",), 1, wrap=False), {"x": 3})
    course = COLLECTIVE_PERMUTE.course(3, sent)
    assert course.hops[0].transfers == (Transfer(0, 1, 0), Transfer(1, 2, 1), Transfer(2, NOBODY, 2))
    *_, last = states(course)
    assert last == [{}, {0: 1}, {1: 2}]
    assert course.hops[0].text == "2 of 3 devices send their slice, {bytes}, along the arrow"
    alone = COLLECTIVE_PERMUTE.course(3, [(0, 2), (1, 1)])
    assert alone.hops[0].text == "1 of 3 devices sends its slice, {bytes}, along the arrow"


def test_a_slice_sends_nothing() -> None:
    assert SLICE.course(4, ()).hops == ()


# On real numbers


def cut(kind: Kind, operand: np.ndarray, n: int, asked: Sending) -> list[np.ndarray]:
    """Cuts an operand into the pieces of a course."""
    if kind.cuts:
        return np.split(operand, n, asked.axis)
    return np.array_split(operand.ravel(), n) if kind.sums else [operand]


def played(course: Course, operands: list[np.ndarray], kind: Kind, asked: Sending) -> list[dict[int, np.ndarray]]:
    """Sends numpy arrays as a course says, without looking at its states."""
    n = len(operands)
    held = [
        dict(zip(pieces, cut(kind, operand, n, asked), strict=True))
        for pieces, operand in zip(course.start, operands, strict=True)
    ]
    add = {"sum": np.add, "max": np.maximum, "min": np.minimum}[asked.operation]
    for hop in course.hops:
        sent = [(t, p, held[s][p] if hop.keeps else held[s].pop(p)) for s, t, p in hop.transfers]
        for target, piece, array in sent:
            if target != NOBODY:
                held[target][piece] = add(held[target][piece], array) if hop.adds else array
    return held


def joined(kind: Kind, pieces: Mapping[int, np.ndarray], like: np.ndarray, asked: Sending) -> np.ndarray:
    arrays = [pieces[piece] for piece in sorted(pieces)]
    if kind is ALL_GATHER:
        return np.concatenate(arrays, asked.axis)
    if kind is ALL_TO_ALL:
        return np.concatenate(arrays, asked.other)
    if kind is ALL_REDUCE:
        return np.concatenate(arrays).reshape(like.shape)
    return arrays[0] if arrays else np.zeros_like(like)


def assert_as_jax(kind: Kind, sizes: Mapping[str, int], asked: Sending, shape: tuple[int, ...]) -> None:
    """Runs a collective on simulated devices, and hop by hop on the same numbers."""
    names, count = tuple(sizes), math.prod(sizes.values())
    draw = np.random.default_rng(count)
    operands = draw.integers(-50, 50, (count, *shape)).astype(np.float32)
    devices = np.asarray(jax.devices()[:count]).reshape(tuple(sizes.values()))
    spec, device = PartitionSpec(names), MeshDevice(sizes)
    run = jax.shard_map(
        lambda x: kind.run(device, x[0], asked)[None],
        mesh=jax.sharding.Mesh(devices, names), in_specs=spec, out_specs=spec, check_vma=False,
    )  # fmt: skip
    real = np.asarray(jax.jit(run)(operands))
    axes, sent = (asked.axes, []) if asked.route is None else pairs(asked.route, sizes)
    numbers = np.arange(count).reshape(tuple(sizes.values()))
    order = [names.index(axis) for axis in (*(axis for axis in names if axis not in axes), *axes)]
    for group in numbers.transpose(order).reshape(-1, math.prod(sizes[axis] for axis in axes)):
        course = kind.course(len(group), sent)
        held = played(course, [operands[member] for member in group], kind, asked)
        for member, pieces in zip(group, held, strict=True):
            np.testing.assert_array_equal(joined(kind, pieces, operands[member], asked), real[member])


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(
    ("kind", "asked"),
    [
        (ALL_GATHER, Sending(("x",), 1)),
        (REDUCE_SCATTER, Sending(("x",), 0)),
        (ALL_REDUCE, Sending(("x",))),
        (ALL_REDUCE, Sending(("x",), operation="max")),
        (ALL_TO_ALL, Sending(("x",), 1, 0)),
        *((COLLECTIVE_PERMUTE, Sending(("x",), route=route)) for route in ROUTES),
    ],
    ids=str,
)
def test_after_the_last_hop_each_has_what_jax_gives(kind: Kind, asked: Sending, n: int) -> None:
    assert_as_jax(kind, {"x": n}, asked, (2 * n, 3 * n))


@pytest.mark.parametrize("axes", [("x", "y"), ("y", "x"), ("z", "x"), ("y",)], ids="+".join)
def test_over_several_mesh_axes_the_first_is_the_major_one(axes: tuple[str, ...]) -> None:
    sizes = {"x": 2, "y": 2, "z": 2}
    for kind, asked in (
        (ALL_GATHER, Sending(axes, 1)),
        (REDUCE_SCATTER, Sending(axes, 0)),
        (ALL_REDUCE, Sending(axes)),
        (ALL_TO_ALL, Sending(axes, 0, 1)),
    ):
        assert_as_jax(kind, sizes, asked, (8, 4))


def test_blocks_that_change_their_mesh_axes_go_where_they_go() -> None:
    chance, sizes = random.Random(0), {"x": 2, "y": 2, "z": 2}
    for _ in range(12):
        before, after = (tuple(chance.sample(list(sizes), 2)) for _ in range(2))
        if before == after:
            continue
        route = Rerouted(Spec((before, ())), Spec((after, ())))
        assert_as_jax(COLLECTIVE_PERMUTE, sizes, Sending((), route=route), (4, 2))
