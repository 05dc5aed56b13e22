"""Places a mesh on a machine: decides which of its axes are rings, lines, chips, nodes or slices.

    place_mesh(hardware("v5e"), (4, 4), Mesh((("data", 4), ("model", 4))))
        data    4 devices along axis 0 of the slice, a line (a v5e wraps at 16 only)
        model   4 devices along axis 1, a line

On a torus every mesh axis takes whole axes of the slice where sizes allow, the last mesh axis first, since it sends
most. The others are folded: an axis of 32 on a slice of 16 x 16 is two lines of 16; of two that share an axis of 16 the
outer has neighbours several hops apart. Where JAX lists two devices for one chip, the last mesh axis takes both. The
first mesh axis goes over several slices, if there are any.

Behind switches devices are numbered node by node: an axis of 16 whose neighbours are adjacent has 8 in each of 2 nodes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ...engine.errors import aside, listed, shown
from ...engine.specs.mesh import Mesh
from .hardware import Hardware, HardwareError, Switch, Torus
from .placed import ACROSS, CHIP, INSIDE, AxisPlacement, Leg, Nodes, Placement

# The chips of one host of a torus with three axes, in the order that names a slice of that size: v4:2x2x1, not 1x2x2
# (https://cloud.google.com/tpu/docs/v5p, https://cloud.google.com/tpu/docs/v4).
HOST = (2, 2, 1)


def slice_shape(machine: Hardware, devices: int) -> tuple[int, ...]:
    """Returns the shape of the smallest slice with a number of devices, as even as possible.

    Cloud TPU does the same: by default a slice is the one most like a cube of those that can be rented. Slices made of
    cubes have axes of at most 4, or multiples of 4 (https://cloud.google.com/tpu/docs/types-topologies); where none of
    them has that number of devices, the slice is a part of one.
    """
    if isinstance(machine.network, Switch):
        domain = machine.network.domain
        if devices > domain and devices % domain:
            part = math.gcd(devices, domain)
            raise HardwareError(
                f"{devices:,} devices are not a whole number of nodes of {domain} ({machine}). Parts of nodes must be"
                f" written behind the machine: `{machine.name}:{devices // part}x{part}`."
            )
        return (max(1, devices // domain), min(devices, domain))
    torus, cores, limits = machine.network, machine.devices_per_chip, machine.network.limits
    chips = max(1, devices // cores)
    shapes = shapes_of(torus, chips)
    if not shapes or (devices > 1 and devices % cores):
        most = math.prod(limits) * cores
        pairs = f", {cores} to a chip" if cores > 1 else ""
        example = "x".join(map(str, (min(limit, 4) for limit in limits)))
        raise HardwareError(
            f"No slice of {machine} has {devices:,} devices: axes go up to {' x '.join(map(str, limits))}"
            f" ({most:,} devices{pairs}). Write several slices ahead of the shape: `{machine.name}:2*{example}`."
        )
    return as_called(min(shapes, key=lambda shape: not _is_rented(torus, shape)))


def shapes_of(torus: Torus, chips: int) -> list[tuple[int, ...]]:
    """Lists the shapes of a slice with a number of chips, shorter axes first, the most even shape first."""
    shapes = itertools.product(*(_divisors(chips, limit) for limit in torus.limits))
    fitting = [shape for shape in shapes if math.prod(shape) == chips and list(shape) == sorted(shape)]
    return sorted(fitting, key=lambda shape: (max(shape) - min(shape), shape))


def _is_rented(torus: Torus, shape: tuple[int, ...]) -> bool:
    """Whether a slice can be rented, judged by its shape; see `slice_shape`."""
    return torus.wraps != "cubes" or max(shape) <= 4 or all(size % 4 == 0 for size in shape)


def as_called(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape of a slice, given shorter axes first, in the order of its name: one host is 2x2x1."""
    return HOST if shape == tuple(sorted(HOST)) else shape


def _divisors(number: int, limit: int) -> list[int]:
    """The divisors of a number up to a limit, smallest first."""
    small = [n for n in range(1, min(limit, math.isqrt(number)) + 1) if number % n == 0]
    return sorted({n for one in small for n in (one, number // one) if n <= limit})


def devices_of(machine: Hardware, shape: Sequence[int], count: int = 1) -> int:
    return math.prod(shape) * count * (machine.devices_per_chip if isinstance(machine.network, Torus) else 1)


def check_shape(machine: Hardware, shape: Sequence[int], devices: int, count: int = 1) -> tuple[int, ...]:
    """Returns the shape of a slice, or of all nodes; refuses one that does not exist or that the mesh does not fill."""
    network, text = machine.network, (f"{count}*" if count != 1 else "") + "x".join(map(str, shape))
    problems, checked = [], tuple(shape)
    if isinstance(network, Torus):
        if len(shape) != len(network.limits):
            problems.append(f"it has {len(shape)} axes, and the machine {len(network.limits)}")
        else:
            problems += [
                f"axis {axis} is {size} long, and must be at most {limit}"
                for axis, (size, limit) in enumerate(zip(shape, network.limits, strict=True))
                if size > limit
            ]
    else:
        checked = (math.prod(shape[:-1]) * count, shape[-1])
        if shape[-1] > network.domain:
            problems.append(f"a node has {network.domain} devices, not {shape[-1]}")
    there = devices_of(machine, shape, count)
    if not there:
        problems.append("sizes, and the number of slices, must be at least 1")
    # A mesh may use one device of a chip alone.
    elif there != devices and not (devices == count == math.prod(shape) == 1):
        problems.append(f"it has {there:,} devices, and the mesh {devices:,}")
    if problems:
        raise HardwareError(f"{machine} has no slice {text} for this mesh: {'; '.join(problems)}.")
    return checked


def place_mesh(
    machine: Hardware,
    shape: Sequence[int] | None,
    mesh: Mesh,
    *,
    count: int = 1,
    requested: Mapping[str, AxisPlacement] = MappingProxyType({}),
) -> Placement:
    """Places a mesh on a machine.

    Args:
        machine: the machine.
        shape: of a slice; None for one that is as even as possible.
        mesh: the mesh.
        count: the number of slices.
        requested: for mesh axes whose placement is not derived: the axis of the slice, or several, major first; behind
            switches "inside" a node or "across" nodes, as many as there are for it.
    """
    mesh = mesh.devices
    _check_requested(machine, mesh, requested)
    if shape is None:
        shape = slice_shape(machine, mesh.size // count)
    checked = check_shape(machine, shape, mesh.size, count)
    if isinstance(machine.network, Switch):
        # A shape may leave a part of each node out.
        return Placement(machine, checked, nodes=_over_nodes(checked[1], mesh, requested), requested=dict(requested))
    slices = _over_slices(mesh, count)
    rest = Mesh(tuple((name, size // slices[name]) for name, size in mesh.axes.items()))
    chips = _over_chips(rest, machine.devices_per_chip)
    outer = Mesh(tuple((name, size // chips[name]) for name, size in rest.axes.items()))
    legs = _over_torus(machine.network, checked, outer, requested)
    for name, part in chips.items():
        if part > 1:
            legs[name] = (*legs[name], Leg(CHIP, part))
    return Placement(machine, checked, count, legs, slices, requested=dict(requested))


def _check_requested(machine: Hardware, mesh: Mesh, requested: Mapping[str, AxisPlacement]):
    problems = []
    for name in requested:
        if name not in mesh.axes:
            problems.append(f"the mesh has no axis `{name}`{aside(name, mesh.axes)}; it has {listed(mesh.axes)}")
    network = machine.network
    for name, request in requested.items():
        if isinstance(network, Switch):
            if not isinstance(request, str) or request not in (INSIDE, ACROSS):
                problems.append(
                    f'`{name}` must be placed "{INSIDE}" a node or "{ACROSS}" nodes of {machine}, not {shown(request)}'
                )
        else:
            axes, there = request if isinstance(request, tuple) else (request,), range(len(network.limits))
            is_axis = [isinstance(axis, int) and not isinstance(axis, bool) and axis in there for axis in axes]
            if not axes or not all(is_axis) or len(set(axes)) < len(axes):
                problems.append(
                    f"`{name}` must be placed along one of the axes {listed(map(str, there))} of a slice of {machine},"
                    f" or a tuple of several, major first, not {shown(request)}"
                )
    if problems:
        raise HardwareError(f"Invalid placement: {'; '.join(problems)}.")


def filling_order(mesh: Mesh, requested: Mapping[str, AxisPlacement]) -> list[str]:
    """Returns the mesh axes in the order in which they fill nodes.

    Devices are numbered row-major: the last mesh axis is placed first, unless users request others inside nodes.
    """
    ranks: Mapping[AxisPlacement | None, int] = {INSIDE: 0, None: 1, ACROSS: 2}
    return sorted([name for name, _ in reversed(list(mesh.axes.items()))], key=lambda name: ranks[requested.get(name)])


def _over_nodes(domain: int, mesh: Mesh, requested: Mapping[str, AxisPlacement]) -> dict[str, Nodes]:
    parts, room = {}, min(domain, mesh.size)
    for name in filling_order(mesh, requested):
        inside = min(size := mesh.axes[name], room)
        if size % inside or room % inside:
            raise HardwareError(
                f"The mesh axis `{name}` of {size} straddles a node boundary: the axes after it leave"
                f" {room} of the {domain} devices of a node. Choose sizes that divide the node; list axes inside a"
                " node last."
            )
        parts[name] = Nodes(inside, size // inside)
        _check_nodes(name, requested.get(name), parts[name], domain)
        room //= inside
    return {name: parts[name] for name, _ in mesh.axes.items()}


def _check_nodes(name: str, request: AxisPlacement | None, part: Nodes, domain: int):
    """Refuses a mesh axis that is requested inside a node and does not fit, or across nodes and fits in one."""
    size, problem = part.inside * part.nodes, None
    if request == INSIDE and part.nodes > 1:
        problem = f'"{INSIDE}" a node, and one of {domain} has room for {part.inside} of it'
    elif request == ACROSS and part.nodes == 1 < size:
        problem = f'"{ACROSS}" nodes, and one node of {domain} is all that is left for it'
    if problem:
        raise HardwareError(
            f"Invalid placement: `{name}` of {size:,} cannot be placed {problem}. Leave that out, or give the mesh"
            " other sizes or nodes."
        )


def _over_slices(mesh: Mesh, count: int) -> dict[str, int]:
    """The number of slices that each mesh axis goes over: the first axes, since the network between slices is slowest.

    There is always room: the mesh fills all slices, and so has every prime factor of `count`.
    """
    slices = {}
    for name, size in mesh.axes.items():
        slices[name] = math.gcd(size, count)
        count //= slices[name]
    return slices


def _over_chips(mesh: Mesh, cores: int) -> dict[str, int]:
    """The number of devices of one chip that each mesh axis takes: the last axes first."""
    chips = {name: 1 for name, _ in mesh.axes.items()}
    for name, size in reversed(list(mesh.axes.items())):
        chips[name] = math.gcd(size, cores)
        cores //= chips[name]
    return chips


def _over_torus(
    torus: Torus, shape: tuple[int, ...], mesh: Mesh, requested: Mapping[str, AxisPlacement]
) -> dict[str, tuple[Leg, ...]]:
    """The legs of each mesh axis: those requested, then whole axes of the slice, then parts, inner before outer ones.

    All mesh axes find room: mesh and slice have as many devices, and so the same prime factors.
    """
    rings = torus.rings(shape)
    # Of each axis of the slice: the size that is left, and the hops from one device to the next.
    left, stride = list(shape), [1] * len(shape)
    legs: dict[str, tuple[Leg, ...]] = {name: () for name, size in mesh.axes.items() if size == 1}
    waiting = [(name, size) for name, size in reversed(list(mesh.axes.items())) if size > 1]

    def folded(name: str, size: int, axes: Sequence[int]):
        folds, rest = [], size
        for axis in axes:
            part = math.gcd(left[axis], rest)
            if part > 1:
                outermost = part == left[axis]
                folds.append(Leg(axis, part, stride[axis], rings[axis] and outermost))
                left[axis] //= part
                stride[axis] *= part
                rest //= part
        if rest > 1:
            raise HardwareError(
                f"The mesh axis `{name}` of {size} does not fit along axis {listed(map(str, axes))} of the slice"
                f" {'x'.join(map(str, shape))}, of which the others leave {listed(str(left[axis]) for axis in axes)}."
            )
        legs[name] = tuple(reversed(folds))

    for name, size in [axis for axis in waiting if axis[0] in requested]:
        request = requested[name]
        # The last axis of a request is the minor one, and is filled first.
        folded(name, size, list(reversed(request)) if isinstance(request, tuple) else [request])  # type: ignore[list-item]
        waiting.remove((name, size))
    for name, size in list(waiting):
        whole = _whole_axes(left, stride, size)
        if whole is not None:
            legs[name] = tuple(Leg(axis, left[axis], 1, rings[axis]) for axis in whole)
            for axis in whole:
                left[axis] = 1
            waiting.remove((name, size))
    for name, size in waiting:
        folded(name, size, sorted(range(len(left)), key=lambda axis: -left[axis]))
    return {name: legs[name] for name, _ in mesh.axes.items()}


def _whole_axes(left: Sequence[int], stride: Sequence[int], size: int) -> tuple[int, ...] | None:
    """The fewest untouched axes of the slice whose product is a mesh axis."""
    untouched = [axis for axis, n in enumerate(left) if n > 1 and stride[axis] == 1]
    for count in range(1, len(untouched) + 1):
        for axes in itertools.combinations(untouched, count):
            if math.prod(left[axis] for axis in axes) == size:
                return axes
    return None
