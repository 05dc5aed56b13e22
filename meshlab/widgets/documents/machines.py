"""The machine that a mesh is placed on, as the Explorer's document has it: text, and placements of mesh axes.

    machine = Machine("v5e:4x4", (("model", 0),))
    mesh_on(machine, (("data", 4), ("model", 4)))        the mesh, placed so
    machine_on(mesh)                                  and back

The user's own machines have names too; the machines themselves come along in `custom`, since a document is text. Where
a mesh does not fit, the error names a slice that does.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from ...cost.machines.attached import ATTACHED, attached, folder
from ...cost.machines.hardware import Hardware, HardwareError, Switch, Torus, hardware, known, read
from ...cost.machines.meshes import slice_of
from ...cost.machines.placed import AxisPlacement, Placement
from ...cost.machines.placement import as_called, place_mesh, shapes_of, slice_shape
from ...engine.specs.mesh import Mesh
from .document import Machine, MeshSizes

CustomMachines = Mapping[str, Hardware]
# Another placement of a mesh axis, and the changes that it needs.
Choice = tuple[AxisPlacement, dict[str, AxisPlacement | None]]
NONE: CustomMachines = MappingProxyType({})
MOST_SHAPES = 16
# Machines of more than two slices are not offered where a slice is smaller than a host.
LEAST_SLICE = 4


def machine_on(mesh: Mesh) -> tuple[Machine | None, CustomMachines]:
    """Returns the machine of a mesh as a document has it, and the machine itself if it is the user's own."""
    if not isinstance(mesh.on, Placement):
        return None, NONE
    placement, machine = mesh.on, mesh.on.hardware
    name, custom = machine.name, NONE
    if is_measured(machine):
        name = ATTACHED
    elif known().get(name) != machine:
        custom = {name: machine}
    return written(name, placement), custom


def written(name: str, placement: Placement) -> Machine:
    """Returns a placement as a document has it."""
    return Machine(f"{name}:{placement.slice}", tuple(sorted(placement.requested.items())))


def is_measured(machine: Hardware) -> bool:
    """Returns whether a machine is one that `meshlab calibrate` wrote."""
    path = folder() / f"{machine.name}.toml"
    return path.exists() and read(path) == machine


def named(name: str, custom: CustomMachines = NONE) -> tuple[str, Hardware]:
    """Returns a machine by its name, and that name as it is usually written."""
    if name in custom:
        return name, custom[name]
    if name == ATTACHED:
        return name, attached()
    machine = hardware(name)
    return machine.name, machine


def mesh_on(machine: Machine | None, axes: MeshSizes, custom: CustomMachines = NONE) -> Mesh:
    bare = Mesh(axes)
    if machine is None:
        return bare
    name, shape, count = slice_of(machine.on)
    return Mesh(axes, place_mesh(named(name, custom)[1], shape, bare, count=count, requested=dict(machine.along)))


def as_written(machine: Machine, axes: MeshSizes, custom: CustomMachines = NONE) -> Machine:
    """Returns a machine with its slice's shape, by its usual name."""
    name, _ = named(slice_of(machine.on)[0], custom)
    return written(name, mesh_on(machine, axes, custom).on)


# Choices


def fit(name: str, axes: MeshSizes, custom: CustomMachines = NONE, most: int = MOST_SHAPES) -> tuple[str, ...]:
    """Returns the slices of a machine that can be had and that a mesh fits, as they are written, the usual one first.

    Args:
        name: the machine's.
        axes: name and size of each mesh axis.
        custom: the user's own machines, by name.
        most: how many to look for.
    """
    if name in custom or name == ATTACHED:
        return _fit(named(name, custom)[1], Mesh(axes), most)
    return _fit_known(name, axes, most)


@functools.lru_cache(maxsize=512)
def _fit_known(name: str, axes: MeshSizes, most: int) -> tuple[str, ...]:
    return _fit(hardware(name), Mesh(axes), most)


def _fit(machine: Hardware, mesh: Mesh, most: int) -> tuple[str, ...]:
    fitting: dict[str, None] = {}
    for shape, count in itertools.chain([(None, 1)], _slices(machine, mesh)):
        if len(fitting) >= most:
            break
        with contextlib.suppress(HardwareError):
            placement = place_mesh(machine, shape, mesh, count=count)
            if not isinstance(machine.network, Torus) or machine.network.offers(placement.shape):
                fitting[placement.slice] = None
    return tuple(fitting)


def _slices(machine: Hardware, mesh: Mesh) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yields slices with as many devices as a mesh, the most even first; then several smaller ones."""
    if isinstance(machine.network, Switch):
        for inside in range(min(machine.network.domain, mesh.size), 0, -1):
            if mesh.size % inside == 0:
                yield (mesh.size // inside, inside), 1
        return
    chips, left = divmod(mesh.size, machine.devices_per_chip)
    if left == 0:
        yield from ((as_called(shape), 1) for shape in shapes_of(machine.network, chips))
    for count in range(2, mesh.size + 1 if machine.inter_node else 2):
        if mesh.size // count < LEAST_SLICE and count > 2:
            return
        if mesh.size % count == 0:
            try:
                yield slice_shape(machine, mesh.size // count), count
            except HardwareError:
                continue


def placements_of(mesh: Mesh) -> dict[str, list[Choice]]:
    """Returns, for each mesh axis, its other placements, and the changes that each needs.

    A placement that does not go with those asked for of the other axes has these derived again.
    """
    placement: Placement = mesh.on
    choices: dict[str, list[Choice]] = {}
    for name, size in mesh.devices.axes.items():
        choices[name] = []
        for where in _candidates(placement, size):
            others: dict[str, AxisPlacement | None] = {axis: None for axis in placement.requested if axis != name}
            alone: dict[str, AxisPlacement | None] = {name: where}
            for changes in (alone, others | alone):
                if placement_with(mesh, changes) is not None:
                    choices[name].append((where, changes))
                    break
    return choices


def _candidates(placement: Placement, size: int) -> list[AxisPlacement]:
    if size == 1:
        return []
    if isinstance(placement.hardware.network, Switch):
        return ["inside", "across"] if placement.shape[0] > 1 else []
    long = [axis for axis, n in enumerate(placement.shape) if n > 1]
    if len(long) < 2:
        return []
    pairs = [(a, b) for a in long for b in long if a != b]
    all_of_it = [tuple(long)] if len(long) > 2 and math.prod(placement.shape) <= size else []
    return [*long, *pairs, *all_of_it]


def placement_with(mesh: Mesh, changes: Mapping[str, Any]) -> Placement | None:
    """Returns the placement of a mesh after some axes are placed otherwise, or None where there is none."""
    old: Placement = mesh.on
    asked: dict[str, AxisPlacement | None] = {**old.requested, **changes}
    requested: dict[str, AxisPlacement] = {name: where for name, where in asked.items() if where is not None}
    try:
        return place_mesh(old.hardware, old.shape, mesh, count=old.count, requested=requested)
    except HardwareError:
        return None
