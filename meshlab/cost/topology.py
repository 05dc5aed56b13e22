"""How a mesh lies on a machine: which of its axes are rings, lines or nodes, and what their links carry.

    place(hardware("v5e"), (4, 4), Mesh((("data", 4), ("model", 4))))

        data    4 devices along axis 0 of the slice, a line (a v5e wraps at 16 only)
        model   4 devices along axis 1, a line

On a torus every mesh axis takes whole axes of the slice where sizes allow, the last mesh axis first, for that one sends
most; what is left is folded: an axis of 32 on a slice of 16 x 16 is two lines of 16, one that shares an axis of 16 with
another is its inner or its outer part, and the outer part's neighbours are several hops apart.

Behind switches devices are numbered node by node: an axis of 16 whose neighbours are next to each other is 8 in each of
2 nodes of 8.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence

from ..engine.mesh import Mesh
from .hardware import Hardware, HardwareError, Switch, Torus


@dataclasses.dataclass(frozen=True)
class Leg:
    """A stretch of a mesh axis along one axis of a torus.

    Attributes:
        along: the axis of the slice.
        size: how many devices it counts.
        stride: how many links lie between two of them; so many stretches share each link.
        ring: whether the last is the first one's neighbour.
    """

    along: int
    size: int
    stride: int = 1
    ring: bool = False


@dataclasses.dataclass(frozen=True)
class Nodes:
    """A mesh axis behind switches.

    Attributes:
        inside: how many of its devices are in one node.
        nodes: over how many nodes it goes.
    """

    inside: int
    nodes: int


@dataclasses.dataclass(frozen=True)
class Placement:
    """A mesh on a machine.

    Attributes:
        hardware: the machine.
        shape: of the slice, by axis of its torus; (nodes, devices of a node) behind switches.
        legs: on a torus, the stretches of each mesh axis, major first.
        nodes: behind switches, how each mesh axis is divided.
    """

    hardware: Hardware
    shape: tuple[int, ...]
    legs: dict[str, tuple[Leg, ...]]
    nodes: dict[str, Nodes]


def slice_shape(machine: Hardware, devices: int) -> tuple[int, ...]:
    """Returns the shape of the smallest slice with so many devices, as even as it can be.

    Raises:
        HardwareError: no slice has so many devices.
    """
    if isinstance(machine.network, Switch):
        domain = machine.network.domain
        if devices > domain and devices % domain:
            raise HardwareError(f"{devices} devices are no whole number of nodes of {domain} ({machine}).")
        return (max(1, devices // domain), min(devices, domain))
    limits = machine.network.limits
    shapes = [
        shape
        for shape in itertools.product(*([n for n in range(1, limit + 1) if devices % n == 0] for limit in limits))
        if math.prod(shape) == devices and list(shape) == sorted(shape)
    ]
    if not shapes:
        most = math.prod(limits)
        raise HardwareError(
            f"No slice of {machine} has {devices:,} devices: axes go up to {' x '.join(map(str, limits))}"
            f" ({most:,} devices)."
        )
    return min(shapes, key=lambda shape: (max(shape) - min(shape), shape))


def check_shape(machine: Hardware, shape: Sequence[int], devices: int) -> tuple[int, ...]:
    """Returns a slice's shape if there is such a slice and the mesh fills it.

    Raises:
        HardwareError: it has another number of axes, is too long, or has another number of devices.
    """
    network, text = machine.network, "x".join(map(str, shape))
    problems = []
    if isinstance(network, Torus):
        if len(shape) != len(network.limits):
            problems.append(f"it has {len(shape)} axes, and the machine {len(network.limits)}")
        else:
            problems += [
                f"axis {axis} is {size} long, and at most {limit} are there"
                for axis, (size, limit) in enumerate(zip(shape, network.limits, strict=True))
                if not 1 <= size <= limit
            ]
    elif shape[-1] > network.domain:
        problems.append(f"a node has {network.domain} devices, not {shape[-1]}")
    if math.prod(shape) != devices:
        problems.append(f"it has {math.prod(shape):,} devices, and the mesh {devices:,}")
    if problems:
        raise HardwareError(f"{machine} has no slice {text} for this mesh: {'; '.join(problems)}.")
    return tuple(shape)


def place(machine: Hardware, shape: Sequence[int] | None, mesh: Mesh) -> Placement:
    """Lays a mesh on a machine.

    Args:
        machine: the machine.
        shape: of the slice; None for one that is as even as it can be.
        mesh: the mesh.

    Raises:
        HardwareError: there is no such slice, or the mesh does not fit it.
    """
    found = slice_shape(machine, mesh.size) if shape is None else check_shape(machine, shape, mesh.size)
    if isinstance(machine.network, Switch):
        return Placement(machine, found, {}, _over_nodes(machine.network.domain, mesh))
    return Placement(machine, found, _over_torus(machine.network, found, mesh), {})


def _over_nodes(domain: int, mesh: Mesh) -> dict[str, Nodes]:
    """Devices are numbered row-major: the last mesh axis counts neighbours in a node."""
    found, room = {}, min(domain, mesh.size)
    for name, size in reversed(mesh.shape):
        inside = min(size, room)
        if size % inside or room % inside:
            raise HardwareError(
                f"The mesh axis `{name}` of {size} does not fill nodes of {domain}: it would cut across what the axes"
                f" behind it leave of one, {room} devices. Give the axes sizes that divide a node, those inside last."
            )
        found[name] = Nodes(inside, size // inside)
        room //= inside
    return found


def _over_torus(torus: Torus, shape: tuple[int, ...], mesh: Mesh) -> dict[str, tuple[Leg, ...]]:
    """Whole axes of the slice first, then what is left of them, inner parts before outer ones.

    All mesh axes find room, since mesh and slice have as many devices: of each prime factor there is enough.
    """
    rings = torus.rings(shape)
    # Of each axis of the slice: what is left, and how far apart its devices are by now.
    left, stride = list(shape), [1] * len(shape)
    legs: dict[str, tuple[Leg, ...]] = {name: () for name, size in mesh.shape if size == 1}
    waiting = [(name, size) for name, size in reversed(mesh.shape) if size > 1]
    for name, size in list(waiting):
        whole = _whole_axes(left, stride, size)
        if whole is not None:
            legs[name] = tuple(Leg(axis, left[axis], 1, rings[axis]) for axis in whole)
            for axis in whole:
                left[axis] = 1
            waiting.remove((name, size))
    for name, size in waiting:
        found, rest = [], size
        for axis in sorted(range(len(left)), key=lambda a: -left[a]):
            part = math.gcd(left[axis], rest)
            if part > 1:
                outermost = part == left[axis]
                found.append(Leg(axis, part, stride[axis], rings[axis] and outermost))
                left[axis] //= part
                stride[axis] *= part
                rest //= part
        legs[name] = tuple(found)
    return {name: legs[name] for name, _ in mesh.shape}


def _whole_axes(left: Sequence[int], stride: Sequence[int], size: int) -> tuple[int, ...] | None:
    """The fewest untouched axes of the slice whose product is a mesh axis."""
    untouched = [axis for axis, n in enumerate(left) if n > 1 and stride[axis] == 1]
    for count in range(1, len(untouched) + 1):
        for axes in itertools.combinations(untouched, count):
            if math.prod(left[axis] for axis in axes) == size:
                return axes
    return None
