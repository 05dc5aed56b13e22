"""Seconds of one collective: alpha-beta costs on rings, tori, switches and nodes.

    seconds("all-gather", nbytes, placement, ("model",))

`nbytes` is V, the bytes of the full array, unsplit along the axes that the collective runs over; what else splits it
has been divided out. With n devices:

| | torus, L bytes/s a link | behind one switch, w bytes/s a device |
|---|---|---|
| all-gather, reduce-scatter | V (n-1)/n over 2L a ring, L a line, of all rings at once | V (n-1)/n / w |
| all-reduce | both | both |
| all-to-all | V/4 over the links of the narrowest cut | V (n-1)/n² / w |
| collective-permute | V/n / L | V/n / w |

Time to begin: on a torus hops, which overlap with sending (the greater of both counts); behind switches NCCL's, which
do not (both count). Over several nodes the slower of the two networks counts, each with what it carries.

Sources: How to Scale Your Model, "Sharded matrices" (rings, several axes at once, all-to-all a quarter of an all-gather
on a bidirectional ring) and "How to Think About GPUs" (switches, nodes): https://jax-ml.github.io/scaling-book/. Its
text leaves out (n-1)/n on rings: `book=True` does so too. Alpha: NCCL's tuning.cc.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..engine.errors import closest, listed
from .hardware import HardwareError, Switch, Torus
from .topology import Leg, Nodes, Placement

KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")


def seconds(kind: str, nbytes: float, placement: Placement, axes: Sequence[str], *, book: bool = False) -> float:
    """Returns the seconds that one collective takes.

    Args:
        kind: one of `KINDS`.
        nbytes: bytes of the full array, unsplit along `axes`.
        placement: how the mesh lies on a machine.
        axes: the mesh axes that it runs over, major first.
        book: whether rings cost V/W, as the scaling book has it, not V/W (n-1)/n.

    Raises:
        HardwareError: there is no such kind or axis, or the machine has no figure for a network that is crossed.
    """
    if kind not in KINDS:
        raise HardwareError(f"There is no collective `{kind}`.{closest(kind, KINDS)} There are {listed(KINDS)}.")
    known = placement.legs or placement.nodes
    unknown = [axis for axis in axes if axis not in known]
    if unknown:
        raise HardwareError(
            f"The mesh has no axis {listed(unknown)}.{closest(unknown[0], known)} Its axes are {listed(known)}."
        )
    network = placement.hardware.network
    if isinstance(network, Torus):
        return _on_torus(kind, nbytes, network, [leg for axis in axes for leg in placement.legs[axis]], book)
    return _behind_switches(kind, nbytes, placement, [placement.nodes[axis] for axis in axes], book)


# On a torus


def _on_torus(kind: str, nbytes: float, torus: Torus, legs: Sequence[Leg], book: bool) -> float:
    n = math.prod(leg.size for leg in legs)
    if n == 1 or not nbytes:
        return 0.0
    sending = {
        "all-gather": _gather,
        "reduce-scatter": _gather,
        "all-reduce": _gather,
        "all-to-all": _exchange,
        "collective-permute": _permute,
    }[kind](nbytes, torus.link.value, legs, n, book)
    hops = 1 if kind == "collective-permute" else sum(_hops(leg) for leg in legs)
    twice = 2 if kind == "all-reduce" else 1
    return twice * max(sending, hops * torus.hop.value)


def _hops(leg: Leg) -> int:
    """Hops to the farthest device of a stretch."""
    return leg.stride * (math.ceil(leg.size / 2) if leg.ring else leg.size - 1)


def _gather(nbytes: float, link: float, legs: Sequence[Leg], n: int, book: bool) -> float:
    """All stretches send at once, each a part of the array."""
    rate = sum(link * (2 if leg.ring else 1) / leg.stride for leg in legs)
    return nbytes / rate * (1 if book else (n - 1) / n)


def _exchange(nbytes: float, link: float, legs: Sequence[Leg], n: int, _book: bool) -> float:
    """Half of the array lies on either side of a cut, and half of that has to cross it, one way and the other."""
    return max(nbytes / 4 / (n / leg.size * (2 if leg.ring else 1) * link / leg.stride) for leg in legs)


def _permute(nbytes: float, link: float, legs: Sequence[Leg], n: int, _book: bool) -> float:
    """Every device sends what it has to its neighbour."""
    return nbytes / n / link * max(leg.stride for leg in legs)


# Behind switches


def _behind_switches(kind: str, nbytes: float, placement: Placement, over: Sequence[Nodes], book: bool) -> float:
    switch, outside = placement.hardware.network, placement.hardware.outside
    assert isinstance(switch, Switch)
    inside, nodes = (math.prod(getattr(axis, part) for axis in over) for part in ("inside", "nodes"))
    if inside * nodes == 1 or not nbytes:
        return 0.0
    begin = switch.base.value + (inside - 1) * switch.step.value
    if nodes > 1:
        if outside is None:
            raise HardwareError(
                f"{placement.hardware} has no figure for the network between nodes, and this collective crosses"
                f" {nodes:,} of them."
            )
        begin += (nodes - 1) * outside.latency.value
    egress, link = switch.egress.value, outside.link.value if outside else math.inf
    n = inside * nodes
    if kind == "all-to-all":
        # Nothing is gained by way of a neighbour: of what a device has each of the others gets a part.
        return nbytes / n * max((inside - 1) / n / egress, (n - inside) / n / link if nodes > 1 else 0.0) + begin
    if kind == "collective-permute":
        return nbytes / n / (egress if nodes == 1 else link) + begin
    ways = (_nodewise(nbytes, inside, nodes, group, book) for group in range(1, inside + 1) if inside % group == 0)
    once = min(before / egress + max(within / egress, across / link) for before, within, across in ways)
    return once * (2 if kind == "all-reduce" else 1) + begin


def _nodewise(nbytes: float, inside: int, nodes: int, group: int, book: bool) -> tuple[float, float, float]:
    """The bytes that one device takes in of a gathered array, if groups in each node share what comes from outside.

    First those of different groups gather what the node's devices have of a group's part; then every device gets its
    share from the other nodes, and that of the others in its group from them, both at once.
    """

    def gathered(size: float, parts: int) -> float:
        return 0.0 if parts == 1 else size * (1 if book else (parts - 1) / parts)

    before = gathered(nbytes / (group * nodes), inside // group)
    return before, gathered(nbytes, group), gathered(nbytes / group, nodes)
