"""Where the devices of a mesh stand: on no machine by mesh axes, else on its slices, torus, chips and nodes.

    sites = sites_of(mesh)
    [level.name for level in sites.levels]      ["slice", "axis 0", "axis 1"], outermost first
    sites.positions[5]                          the position of device 5 along each level

Levels are what a drawing nests: slices have tori in them, tori chips, chips devices; behind switches nodes have
devices. Everything is an array over all devices, so that 65,536 take milliseconds.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from ....cost.machines.hardware import Switch
from ....cost.machines.placed import CHIP, Leg, Placement
from ....cost.machines.placement import filling_order
from ....engine.specs.mesh import Mesh


@dataclasses.dataclass(frozen=True)
class Level:
    """One level of positions.

    Attributes:
        name: "slice", "axis 0" of a torus, "core", or the mesh axis.
        size: the number of positions.
        axes: the mesh axes that have devices along it, neighbours first, each with its size there and its stride.
        place: what has these positions: "mesh", "slice", "torus", "chip", "nodes" or "node".
        ring: the mesh axis that joins the last with the first; "" for none.
        each: how many indices of its mesh axis are at a position, where the rest of the axis is inside of it.
    """

    name: str
    size: int
    axes: tuple[tuple[str, int, int], ...]
    place: str
    ring: str = ""
    each: int = 1

    def joins(self, position: int) -> str:
        """Returns the mesh axis along which the device at a position and the next are neighbours; "" for none."""
        return next((name for name, size, stride in self.axes if (position + 1) // stride % size), "")


@dataclasses.dataclass(frozen=True, eq=False)
class Sites:
    """The positions of all devices.

    Attributes:
        levels: outermost first.
        positions: int [devices, levels]: of each device, along each level.
    """

    levels: tuple[Level, ...]
    positions: np.ndarray


def sites_of(mesh: Mesh) -> Sites:
    """Returns where the devices of a mesh stand, on its machine where it has one.

    Returns:
        The levels, and the positions of its devices, of which no two are the same.
    """
    mesh = mesh.devices
    indices = indices_of(mesh)
    if mesh.on is None:
        levels = [Level(name, size, ((name, size, 1),), "mesh") for name, size in mesh.axes.items()]
        return _sites(levels, [indices[name] for name in mesh.axes], mesh)
    placement: Placement = mesh.on
    if isinstance(placement.hardware.network, Switch):
        return _on_nodes(placement, mesh, indices)
    return _on_torus(placement, mesh, indices)


def indices_of(mesh: Mesh) -> dict[str, np.ndarray]:
    """Returns, for each mesh axis of devices, the index of every device along it: int [devices]."""
    axes = mesh.devices.axes
    shape = tuple(axes.values())
    grids = np.unravel_index(np.arange(mesh.size), shape) if shape else ()
    return {name: grid for name, grid in zip(axes, grids, strict=True)}


def _sites(levels: Sequence[Level], positions: Sequence[np.ndarray], mesh: Mesh) -> Sites:
    kept = [i for i, level in enumerate(levels) if level.size > 1] or list(range(len(levels)))[-1:]
    if not kept:  # a mesh without axes
        return Sites((Level("device", 1, (), "mesh"),), np.zeros((mesh.size, 1), int))
    return Sites(tuple(levels[i] for i in kept), np.stack([positions[i] for i in kept], axis=1))


def _digits(index: np.ndarray, sizes: Sequence[int]) -> list[np.ndarray]:
    """Takes indices apart into digits of these sizes, major first."""
    digits = []
    for size in reversed(sizes):
        index, digit = np.divmod(index, size)
        digits.append(digit)
    return digits[::-1]


def _on_torus(placement: Placement, mesh: Mesh, indices: dict[str, np.ndarray]) -> Sites:
    slices, core = np.zeros(mesh.size, int), np.zeros(mesh.size, int)
    chips = [np.zeros(mesh.size, int) for _ in placement.shape]
    for name, index in indices.items():
        legs, over = placement.legs[name], placement.slices.get(name, 1)
        first, *digits = _digits(index, [over, *(leg.size for leg in legs)])
        slices = slices * over + first
        for leg, digit in zip(legs, digits, strict=True):
            if leg.along == CHIP:
                core = core * leg.size + digit
            else:
                chips[leg.along] = chips[leg.along] + digit * leg.stride
    over_slices = [(name, count, 1) for name, count in placement.slices.items() if count > 1]
    cores = [(name, leg) for name, legs in placement.legs.items() for leg in legs if leg.along == CHIP]
    levels = [Level("slice", placement.count, tuple(over_slices), "slice")]
    levels += [_torus_level(placement, axis) for axis in range(len(placement.shape))]
    size = math.prod(leg.size for _, leg in cores)
    levels.append(Level("core", size, tuple((name, leg.size, 1) for name, leg in cores if leg.size > 1), "chip"))
    return _sites(levels, [slices, *chips, core], mesh)


def _torus_level(placement: Placement, axis: int) -> Level:
    pairs = [(name, leg) for name, legs in placement.legs.items() for leg in legs if leg.along == axis and leg.size > 1]
    along: list[tuple[str, Leg]] = sorted(pairs, key=lambda pair: pair[1].stride)
    ring = next((name for name, leg in along if leg.ring), "")
    axes = tuple((name, leg.size, leg.stride) for name, leg in along)
    return Level(f"axis {axis}", placement.shape[axis], axes, "torus", ring)


def _on_nodes(placement: Placement, mesh: Mesh, indices: dict[str, np.ndarray]) -> Sites:
    levels, positions = [], []
    order = filling_order(mesh, placement.requested)[::-1]
    sizes = {name: (part.nodes, part.inside) for name, part in placement.nodes.items()}
    parts = {name: _digits(indices[name], sizes[name]) for name in order}
    for place, digit in (("nodes", 0), ("node", 1)):
        for name in order:
            size = sizes[name][digit]
            levels.append(Level(name, size, ((name, size, 1),), place, each=1 if digit else sizes[name][1]))
            positions.append(parts[name][digit])
    return _sites(levels, positions, mesh)
