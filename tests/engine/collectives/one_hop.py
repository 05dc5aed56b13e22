"""Holds chains of collectives against what XLA makes of the same reshard in one hop, over pairs that are drawn.

    python -m tests.engine.collectives.one_hop --devices 16 --pairs 500 --seed 3

A pair is two specs of a value of two or three axes, on one of the meshes of 8 or 16 devices; the first may be a partial
sum. For each pair the chain is run on whole numbers, its compiled text is read, and XLA's text of a function that does
nothing else is read by the same reader.
"""

from __future__ import annotations

import argparse
import math
import os
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from meshlab.engine.collectives.chains import reshard
from meshlab.engine.running.lower import MeshDevice, moved, partition_spec
from meshlab.engine.specs.spec import Spec, local_shape
from meshlab.engine.verifying.hlo import read_collectives
from meshlab.engine.verifying.xla_partitioner import sent_bytes

MESHES = {8: ({"x": 2, "y": 2, "z": 2},), 16: ({"x": 2, "y": 2, "z": 2, "w": 2}, {"x": 4, "y": 4})}
# Here XLA cuts an axis of 4 into two of 2, which no spec of ours says: it may send less.
UNEVEN = {8: ({"x": 2, "y": 4}, {"x": 4, "y": 2}), 16: ({"x": 4, "y": 2, "z": 2}, {"x": 2, "y": 4, "z": 2})}
SIZE = 16  # of each axis of the value: any number of parts is even


class Pair(NamedTuple):
    """A reshard on a mesh."""

    sizes: dict[str, int]
    start: Spec
    target: Spec


class Compared(NamedTuple):
    """What came of a pair: bytes that a device sends, collectives by kind, axes and payload, and whether they fit."""

    pair: Pair
    ours: float
    one_hop: float
    predicted: Counter
    compiled: Counter
    right: bool


def drawn(meshes: Sequence[dict[str, int]], seed: int, count: int) -> Iterator[Pair]:
    """Draws pairs; every second one has a start that may be a partial sum."""
    chance = random.Random(seed)
    for number in range(count):
        sizes, axes = chance.choice(meshes), chance.choice([2, 3])
        start = target = Spec(((),) * axes)
        while start == target:
            start, target = _spec(chance, sizes, axes, partial=number % 2 == 1), _spec(chance, sizes, axes)
        yield Pair(sizes, start, target)


def _spec(chance: random.Random, sizes: dict[str, int], rank: int, partial: bool = False) -> Spec:
    places = [*range(rank), *range(rank), rank, *([-1] if partial else [])]  # rank: nowhere; -1: a partial sum
    at = [(chance.choice(places), axis) for axis in chance.sample(list(sizes), len(sizes))]
    splits = tuple(tuple(axis for place, axis in at if place == i) for i in range(rank))
    return Spec(splits, tuple(sorted(axis for place, axis in at if place == -1)))


def compared(pair: Pair) -> Compared:
    """Compiles and runs a pair in both ways."""
    sizes, start, target = pair
    mesh = jax.make_mesh(tuple(sizes.values()), tuple(sizes), axis_types=(jax.sharding.AxisType.Auto,) * len(sizes))
    shape = (SIZE,) * len(start.splits)
    # An addend for each device along the partial axes; of whole numbers every order of addition gives the same sum.
    addends = tuple(sizes[a] for a in start.partial)
    value = np.random.default_rng(0).integers(-50, 50, (*addends, *shape)).astype(np.float32)
    into, out = PartitionSpec(*start.partial, *partition_spec(start)), partition_spec(target)
    steps, device = reshard(start, target, sizes).steps, MeshDevice(sizes)

    def chain(shard):
        shard, spec = shard.reshape(shard.shape[len(addends) :]), start
        for step in steps:
            shard, spec = moved(device, spec, step, shard), step.result
        return shard

    def one_hop(array):
        return jnp.sum(array, tuple(range(len(addends))))

    placed = jax.device_put(value, NamedSharding(mesh, into))
    ours = jax.jit(jax.shard_map(chain, mesh=mesh, in_specs=into, out_specs=out, check_vma=False))
    theirs = jax.jit(one_hop, out_shardings=NamedSharding(mesh, out)).lower(placed).compile().as_text() or ""
    exe = ours.lower(placed).compile()
    right = np.array_equal(exe(placed), value.sum(tuple(range(len(addends)))))
    found = Counter((c.kind, c.axes, c.payload_bytes) for c in read_collectives(exe.as_text(), sizes))
    planned, sent, spec = Counter(), 0.0, start
    for step in steps:
        if step.kind.sends:
            payload = 4 * math.prod(local_shape(shape, spec, sizes))
            planned[step.kind.name, tuple(a for a in sizes if a in step.axes), payload] += 1
            sent += step.kind.wire_bytes(payload, step.axes, sizes)
        spec = step.result
    count = math.prod(sizes.values())
    return Compared(pair, sent, sent_bytes(read_collectives(theirs, sizes), theirs, count), planned, found, right)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, choices=list(MESHES), default=8)
    parser.add_argument("--pairs", type=int, default=250)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--uneven", action="store_true", help="meshes whose axes differ in size")
    given = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", given.devices)
    bad, less, ours, theirs = [], 0, 0.0, 0.0
    for pair in drawn((UNEVEN if given.uneven else MESHES)[given.devices], given.seed, given.pairs):
        each = compared(pair)
        ours, theirs, less = ours + each.ours, theirs + each.one_hop, less + (each.ours < each.one_hop - 1e-6)
        if each.ours > each.one_hop + 1e-6 or each.predicted != each.compiled or not each.right:
            bad.append(each)
            print(each.pair.start, "→", each.pair.target, each, flush=True)
    print(f"{given.pairs} pairs on {given.devices} devices: {ours:,.0f} bytes, one hop {theirs:,.0f}; less in {less}")
    return len(bad)


if __name__ == "__main__":
    os.environ["JAX_PLATFORMS"] = "cpu"
    raise SystemExit(main())
