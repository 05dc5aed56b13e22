"""Predicts the seconds of one collective: alpha-beta costs on rings, tori, switches and nodes.

    seconds("all-gather", nbytes, placement, ("model",))

`nbytes` is V, the bytes of the full array: unsharded along the axes that the collective runs over, sharded along all
others. With n devices:

| | torus, L bytes/s a link | behind one switch, w bytes/s a device |
|---|---|---|
| all-gather, reduce-scatter | V (n-1)/n over 2L a ring, L a line, of all rings at once | V (n-1)/n / w |
| all-reduce | both | both |
| all-to-all | V/4 over the links of the narrowest cut | V (n-1)/n² / w |
| collective-permute | V/n / L | V/n / w |

Latency: on a torus that of hops, which overlap with sending (the greater of both counts); behind switches NCCL's, which
does not (both count). Over several nodes or slices the slower of the two networks counts, each with the bytes that it
carries. Devices of one chip share its links, unless the collective runs over all of them. Within a node of a machine
whose protocols are known, these count instead (`protocols`), but for `book=True`.

Sources: How to Scale Your Model, "Sharded matrices" (rings, several axes at once, all-to-all a quarter of an all-gather
on a bidirectional ring) and "How to Think About GPUs" (switches, nodes): https://jax-ml.github.io/scaling-book/. Its
text leaves out (n-1)/n on rings: `book=True` does so too. Alpha: NCCL's tuning.cc for rings in a node; between nodes
log2 of them, as in its trees (all-reduce) and PAT (all-gather, reduce-scatter; NCCL 2.23).
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...engine.collectives.kinds import EACH, KINDS, PAIRS, RING, Kind
from ...engine.errors import closest, listed
from .hardware import HardwareError, Switch, Torus
from .placed import CHIP, Leg, Nodes, Placement


@dataclasses.dataclass(frozen=True)
class Rate:
    """The latency and the inverse bandwidth of a collective, of the fastest of several ways.

    Attributes:
        latency: seconds before the first byte arrives.
        seconds_per_byte: of the full array.
        overlaps: whether latency overlaps with sending, so that the greater counts, not the sum.
        others: other ways of the same collective: whichever takes the shortest is taken, for each size.
    """

    latency: Any = 0.0
    seconds_per_byte: Any = 0.0
    overlaps: Any = False
    others: tuple[Rate, ...] = ()

    def seconds(self, nbytes: Any) -> Any:
        """Returns the seconds for a full array of `nbytes`; sizes and rates may be arrays, one for each point."""
        ways = [way._alone(nbytes) for way in (self, *self.others)]
        return functools.reduce(np.minimum, ways) if isinstance(ways[0], np.ndarray) else min(ways)

    def _alone(self, nbytes: Any) -> Any:
        sending = nbytes * self.seconds_per_byte
        if isinstance(sending, np.ndarray):
            both = np.where(self.overlaps, np.maximum(sending, self.latency), sending + self.latency)
            return np.where(sending > 0, both, 0.0)
        if not sending:
            return 0.0
        return max(sending, self.latency) if self.overlaps else sending + self.latency


def seconds(kind: str, nbytes: float, placement: Placement, axes: Sequence[str], *, book: bool = False) -> float:
    """Returns the seconds that one collective takes.

    Args:
        kind: one of `KINDS`.
        nbytes: bytes of the full array, unsharded along `axes`.
        placement: the mesh on a machine.
        axes: the mesh axes that it runs over, major first.
        book: whether rings cost V/W, as the scaling book has it, not V/W (n-1)/n.
    """
    if kind not in KINDS:
        raise HardwareError(f"There is no collective `{kind}`.{closest(str(kind), KINDS)} There are {listed(KINDS)}.")
    predicted = rate(KINDS[kind], placement, axes, book=book)
    if not nbytes >= 0:
        raise HardwareError(f"`nbytes` must be the bytes of the full array, 0 or more, not {nbytes:,}.")
    return predicted.seconds(nbytes)


def rate(kind: Kind, placement: Placement, axes: Sequence[str], *, book: bool = False) -> Rate:
    """Returns the rate of a collective, for all sizes; see `seconds`."""
    unknown = [axis for axis in axes if axis not in placement.axes]
    if unknown:
        raise HardwareError(
            f"The mesh has no axis {listed(map(str, unknown))}.{closest(str(unknown[0]), placement.axes)} Its axes are"
            f" {listed(placement.axes)}."
        )
    if len(set(axes)) < len(axes):
        raise HardwareError(
            f"A collective must run over different mesh axes, not {listed(axes)}. Name each of them once."
        )
    if isinstance(placement.hardware.network, Torus):
        return _on_torus(kind, placement, axes, book)
    return _behind_switches(kind, placement, [placement.nodes[axis] for axis in axes], book)


def _inter_node(placement: Placement, count: int, what: str) -> tuple[float, float]:
    """The bandwidth of one device to other nodes or slices, and the latency over `count` of them."""
    inter_node = placement.hardware.inter_node
    if inter_node is None:
        raise HardwareError(
            f"{placement.hardware} has no figure for the network between {what}, and this collective crosses {count:,}"
            f" of them. Give it one: dataclasses.replace(machine, inter_node=InterNode(Figure(...), Figure(...)))."
        )
    shared = placement.hardware.devices_per_chip if isinstance(placement.hardware.network, Torus) else 1
    return inter_node.link.value / shared, math.ceil(math.log2(count)) * inter_node.latency.value


# On a torus


def _on_torus(kind: Kind, placement: Placement, axes: Sequence[str], book: bool) -> Rate:
    torus, machine = placement.hardware.network, placement.hardware
    assert isinstance(torus, Torus)
    every = [leg for axis in axes for leg in placement.legs[axis]]
    legs = [leg for leg in every if leg.along != CHIP and leg.size > 1]
    cores = math.prod(leg.size for leg in every if leg.along == CHIP)
    slices = math.prod(placement.slices[axis] for axis in axes)
    chips = math.prod(leg.size for leg in legs)
    n = chips * cores * slices
    if n == 1:
        return Rate()
    # Devices of one chip that are in different collectives share its links.
    link = torus.link.value * machine.efficiency.network.value * cores / machine.devices_per_chip
    way = {RING: _gather, EACH: _exchange, PAIRS: _permute}[kind.way or RING]
    per_byte = [way(link, legs, chips, n, book)] if legs else []
    hops = (0 if not legs else 1) if kind.way == PAIRS else sum(map(_hops, legs))
    latency = hops * torus.hop_latency.value
    if cores > 1:
        per_byte.append(_shared(kind, cores, n, book) / _chip_link(placement))
    if slices > 1:
        bandwidth, between = _inter_node(placement, slices, "slices")
        per_byte.append(_shared(kind, slices, n, book) / bandwidth)
        latency += between
    return Rate(kind.passes * latency, kind.passes * max(per_byte), overlaps=True)


def _chip_link(placement: Placement) -> float:
    torus = placement.hardware.network
    assert isinstance(torus, Torus)
    if torus.chip is None:
        raise HardwareError(
            f"{placement.hardware} has no figure for the link between the devices of one chip. Give it one:"
            " dataclasses.replace(machine.network, chip=Figure(...))."
        )
    return torus.chip.value


def _shared(kind: Kind, parts: int, n: int, book: bool) -> float:
    """Bytes that one device receives from the other slices (or chips), for each byte of the array.

    All devices of a slice share the traffic between slices: each receives a part, and passes it on within its slice.
    """
    if kind.way == PAIRS:
        return 1 / n
    if kind.way == EACH:
        return (1 - 1 / parts) / n
    return (1.0 if book else 1 - 1 / parts) / (n // parts)


def _hops(leg: Leg) -> int:
    """Hops to the farthest device of a leg."""
    return leg.stride * (leg.size // 2 if leg.ring else leg.size - 1)


def _gather(link: float, legs: Sequence[Leg], chips: int, _n: int, book: bool) -> float:
    """All legs send at once, each a part of the array."""
    together = sum(link * (2 if leg.ring else 1) / leg.stride for leg in legs)
    return (1 if book else (chips - 1) / chips) / together


def _exchange(link: float, legs: Sequence[Leg], chips: int, n: int, _book: bool) -> float:
    """Half of the array lies on either side of the bisection, and half of that crosses it in each direction.

    Over several slices only the part that stays in the slice counts here.
    """
    within = chips / n
    return within * max(1 / 4 / (chips / leg.size * (2 if leg.ring else 1) * link / leg.stride) for leg in legs)


def _permute(link: float, legs: Sequence[Leg], _chips: int, n: int, _book: bool) -> float:
    """Every device sends its shard to its neighbour."""
    return 1 / n / link * max(leg.stride for leg in legs)


# Behind switches


def _behind_switches(kind: Kind, placement: Placement, over: Sequence[Nodes], book: bool) -> Rate:
    switch = placement.hardware.network
    assert isinstance(switch, Switch)
    inside, nodes = (math.prod(getattr(axis, part) for axis in over) for part in ("inside", "nodes"))
    if inside * nodes == 1:
        return Rate()
    if nodes == 1 and switch.protocols is not None and not book:
        first, *others = (Rate(*way) for way in switch.protocols.ways(kind, inside))
        return dataclasses.replace(first, others=tuple(others))
    steps, link = (inside - 1) * switch.step.value, math.inf
    if nodes > 1:
        link, between = _inter_node(placement, nodes, "nodes")
        steps += between
    latency = switch.base.value + kind.passes * steps
    egress = switch.egress.value * placement.hardware.efficiency.network.value
    n = inside * nodes
    if kind.way == EACH:
        # Each device sends every other one a different part, so that no detour saves anything.
        return Rate(latency, max((inside - 1) / n / egress, (n - inside) / n / link) / n)
    if kind.way == PAIRS:
        return Rate(latency, 1 / n / (egress if nodes == 1 else link))
    ways = (_nodewise(inside, nodes, group, book) for group in range(1, inside + 1) if inside % group == 0)
    once = min(before / egress + max(within / egress, across / link) for before, within, across in ways)
    return Rate(latency, once * kind.passes)


def _nodewise(inside: int, nodes: int, group: int, book: bool) -> tuple[float, float, float]:
    """The fractions of a gathered array that one device receives, if groups in each node share the inter-node traffic.

    First devices of different groups gather their group's part within the node; then each device receives its share
    from the other nodes, and the shares of the others in its group from them, both at once.

    Returns:
        Received before the exchange between nodes, within the group, and from other nodes.
    """

    def gathered(size: float, parts: int) -> float:
        return 0.0 if parts == 1 else size * (1 if book else (parts - 1) / parts)

    before = gathered(1 / (group * nodes), inside // group)
    return before, gathered(1.0, group), gathered(1 / group, nodes)
