"""The links that collectives use: of a torus its axes, behind a switch the ports of a device and of its node."""

from __future__ import annotations

from typing import Any

from ..machines.hardware import Switch
from ..machines.placed import CHIP, Placement


def links_of(placement: Placement, axis: str) -> frozenset[Any]:
    """Returns the links that a collective over a mesh axis uses."""
    if isinstance(placement.hardware.network, Switch):
        part = placement.nodes[axis]
        return frozenset({"node"} if part.inside > 1 else ()) | frozenset({"network"} if part.nodes > 1 else ())
    legs = {leg.along for leg in placement.legs[axis] if leg.size > 1}
    network = {"network"} if placement.slices[axis] > 1 else set()
    return frozenset("chip" if along == CHIP else along for along in legs) | network
