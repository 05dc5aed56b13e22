"""Says how a mesh lies on a machine, as data: which axes are rings, lines, chips, nodes or slices.

    Placement(hardware("v5e"), (4, 4), legs={"data": (Leg(0, 4),), "model": (Leg(1, 4),)})

`placement.py` decides it.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from ...engine.errors import closest, listed, shown
from .hardware import Hardware, HardwareError, Switch

CHIP = -1  # the `along` of a leg among the devices of one chip
INSIDE: Final = "inside"
ACROSS: Final = "across"
# An axis of the slice, or several, major first; behind switches "inside" a node, or "across" nodes or slices.
AxisPlacement = int | tuple[int, ...] | Literal["inside", "across"]


@dataclasses.dataclass(frozen=True)
class Leg:
    """The part of a mesh axis along one axis of a torus.

    Attributes:
        along: the axis of the slice; `CHIP` for the devices of one chip.
        size: its number of devices.
        stride: the number of links from one to the next; as many legs share each link.
        ring: whether the last is a neighbour of the first.
    """

    along: int
    size: int
    stride: int = 1
    ring: bool = False


@dataclasses.dataclass(frozen=True)
class Nodes:
    """A mesh axis behind switches.

    Attributes:
        inside: the number of its devices in one node.
        nodes: the number of nodes that it goes over.
    """

    inside: int
    nodes: int


@dataclasses.dataclass(frozen=True)
class Placement:
    """A mesh on a machine.

    Attributes:
        hardware: the machine.
        shape: of one slice, in chips by axis of its torus; (nodes, devices of a node) behind switches.
        count: the number of slices; 1 behind switches.
        legs: on a torus, the legs of each mesh axis, major first.
        slices: on a torus, the number of slices that each mesh axis goes over.
        nodes: behind switches, the parts of each mesh axis.
        requested: the user's choices; all else is derived.
    """

    hardware: Hardware
    shape: tuple[int, ...]
    count: int = 1
    legs: Mapping[str, tuple[Leg, ...]] = dataclasses.field(default_factory=dict)
    slices: Mapping[str, int] = dataclasses.field(default_factory=dict)
    nodes: Mapping[str, Nodes] = dataclasses.field(default_factory=dict)
    requested: Mapping[str, AxisPlacement] = dataclasses.field(default_factory=dict, compare=False)

    @property
    def axes(self) -> tuple[str, ...]:
        """The mesh axes."""
        return tuple(self.legs or self.nodes)

    @property
    def slice(self) -> str:
        """The slice as it is written behind a machine's name: `4x4`, `2*16x16`."""
        return (f"{self.count}*" if self.count > 1 else "") + "x".join(map(str, self.shape))

    def order(self, axes: Iterable[str]) -> list[tuple[int, int, int, int]] | None:
        """Returns the coordinates of the devices on a slice: three of the chip, and the number within the chip.

        Args:
            axes: the mesh axes along which devices are numbered, row-major.

        Returns:
            None behind switches and on several slices, where devices are numbered as they are listed.
        """
        if not self.legs or self.count > 1:
            return None
        legs = [leg for axis in axes for leg in self.legs[axis]]
        return [_coordinates(legs, indices) for indices in itertools.product(*(range(leg.size) for leg in legs))]

    def describe(self, axis: str) -> str:
        """Returns the placement of one mesh axis as text."""
        if axis not in self.axes:
            raise HardwareError(
                f"There is no mesh axis {shown(axis)}.{closest(axis, self.axes)} There are {listed(self.axes)}."
            )
        if isinstance(self.hardware.network, Switch):
            part = self.nodes[axis]
            within = f"{part.inside} in a node" if part.inside > 1 else ""
            across = f"over {part.nodes:,} nodes" if part.nodes > 1 else ""
            return ", ".join(filter(None, (within, across))) or "one device"
        slices = [f"over {self.slices[axis]} slices"] * (self.slices[axis] > 1)
        legs = [*slices, *(_leg_text(leg) for leg in self.legs[axis] if leg.size > 1)]
        return ", ".join(legs) or "one device"

    def __str__(self):
        return f"{self.hardware}, {f'{self.count} slices of ' * (self.count > 1)}{'x'.join(map(str, self.shape))}"


def _coordinates(legs: Sequence[Leg], indices: Sequence[int]) -> tuple[int, int, int, int]:
    at = [0, 0, 0, 0]
    for leg, index in zip(legs, indices, strict=True):
        at[3 if leg.along == CHIP else leg.along] += index * leg.stride
    return at[0], at[1], at[2], at[3]


def _leg_text(leg: Leg) -> str:
    if leg.along == CHIP:
        return f"the {leg.size} devices of a chip"
    apart = f", {leg.stride} hops apart" if leg.stride > 1 else ""
    return f"{leg.size} along axis {leg.along}, {'a ring' if leg.ring else 'a line'}{apart}"
