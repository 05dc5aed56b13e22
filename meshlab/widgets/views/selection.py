"""What is selected as JSON-like data: names, and of a device its coordinates and the groups that it talks with."""

from __future__ import annotations

import math
from typing import Any, TypedDict

from ..state.selection import Selection

# A group of more devices is listed up to here.
MOST_DEVICES = 64


class DeviceGroupView(TypedDict):
    """The devices that one takes part with in collectives over some mesh axes; of a large group the first ones."""

    key: str
    devices: list[int]
    size: int


class SelectionView(TypedDict):
    """What is selected; of a device its coordinates, its groups, and where its slice of the tensor begins and ends."""

    place: str | None
    dim: str | None
    device: int | None
    collective: str | None
    moment: str | None
    coordinates: dict[str, int]
    groups: list[DeviceGroupView]
    ranges: list[list[int]]


class SelectionPartView(TypedDict):
    selection: SelectionView


def selection_view(selection: Selection, plan: Any, place: str | None) -> SelectionView:
    """Describes a selection, and what its device holds of the tensor at a place."""
    device = selection.device
    return {
        "place": selection.place,
        "dim": selection.dim,
        "device": device,
        "collective": selection.collective,
        "moment": selection.moment,
        "coordinates": {} if device is None else dict(plan.mesh.coordinates(device)),
        "groups": [] if device is None else groups_of(plan, device),
        "ranges": [] if device is None or place is None else [list(each) for each in plan.shard(place, device)],
    }


def groups_of(plan: Any, device: int) -> list[DeviceGroupView]:
    """Lists, for each set of mesh axes that something is sent over, the devices with which a device takes part."""
    used = sorted({tuple(c.axes) for c in plan.collectives}, key=lambda axes: (len(axes), axes))
    return [group_view(plan.mesh, device, axes) for axes in used]


def group_view(mesh: Any, device: int, axes: tuple[str, ...]) -> DeviceGroupView:
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
