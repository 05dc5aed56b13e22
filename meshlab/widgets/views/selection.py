"""What is selected as JSON-like data: names, and of a device its coordinates and the groups that it talks with."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from ..state.selection import Selection

# A group of more devices is listed up to here.
MOST_DEVICES = 64


def selection_view(selection: Selection, plan: Any, place: str | None) -> dict:
    """Describes a selection, and what its device holds of the tensor at a place."""
    device = selection.device
    return dataclasses.asdict(selection) | {
        "coordinates": {} if device is None else dict(plan.mesh.coordinates(device)),
        "groups": [] if device is None else groups_of(plan, device),
        "ranges": [] if device is None or place is None else [list(each) for each in plan.shard(place, device)],
    }


def groups_of(plan: Any, device: int) -> list[dict]:
    """Lists, for each set of mesh axes that something is sent over, the devices with which a device takes part."""
    used = sorted({tuple(c.axes) for c in plan.collectives}, key=lambda axes: (len(axes), axes))
    return [group_view(plan.mesh, device, axes) for axes in used]


def group_view(mesh: Any, device: int, axes: tuple[str, ...]) -> dict:
    """Describes the group of a device over some mesh axes: the others that differ from it on these alone."""
    mesh = mesh.devices
    strides, stride = {}, mesh.size
    for name, size in mesh.axes.items():
        stride //= size
        strides[name] = stride
    here = mesh.coordinates(device)
    members = [device - sum(here[axis] * strides[axis] for axis in axes)]
    for axis in sorted(axes, key=list(mesh.axes).index):
        members = [first + i * strides[axis] for first in members for i in range(mesh.axes[axis])][:MOST_DEVICES]
    size = math.prod(mesh.axes[axis] for axis in axes)
    return {"key": "+".join(axes), "devices": members, "size": size}
