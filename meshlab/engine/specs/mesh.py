"""A mesh names the axes along which devices stand, apart from any model.

    mesh = ml.mesh(data=2, model=4)      # 8 devices; device 5 stands at data=1, model=1

Devices are numbered row-major: the last axis changes fastest. An axis may be one in time (`axes/`): it has a size and
no devices. A mesh knows no devices; they are found when a plan runs. Everything up to there costs the same for 8
devices and for 65,536. How a mesh is placed on a machine is carried along and means nothing here: `meshlab.cost` reads
it.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ..argument_checks import is_whole, whole_number
from ..axes.axis import Axis, Devices, InTime
from ..axes.axis_kinds import KINDS, axis_of, size_of
from ..axes.stages import Stages
from ..errors import MeshError, shown
from ..tensors.dims import NAME_RULE, is_name, proper

# What 32 bits count, which is how JAX numbers devices.
_MOST = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class Mesh:
    """Named mesh axes with sizes.

    Args:
        shape: (name, size) of each axis, major first; the size of an axis in time is an `Axis`, as of `ml.serial`.
        on: how the mesh is placed on a machine, for predictions of time; None where no machine is meant.
    """

    shape: tuple[tuple[str, int | Axis], ...]
    on: Any = dataclasses.field(default=None, hash=False)

    def __post_init__(self):
        pairs = isinstance(self.shape, tuple | list) and all(
            isinstance(axis, tuple | list) and len(axis) == 2 for axis in self.shape
        )
        if not pairs:
            raise MeshError(
                f"A mesh was given {shown(self.shape)} for its axes, and not pairs of a name and a size. Write"
                " ml.mesh(data=2, model=4)."
            )
        problems = []
        for name, size in self.shape:
            if not is_name(name):
                problems.append(f"an axis was named {shown(name)}; {NAME_RULE}.{proper(name)}".rstrip("."))
            elif isinstance(size, Mapping):
                entries = "; ".join(kind.entry() for kind in KINDS.values())
                problems.append(f"axis `{name}` was given the size {shown(size)}; {entries}")
            elif not isinstance(size, Axis) and (not is_whole(size) or operator.index(size) < 1):
                problems.append(f"axis `{name}` was given the size {shown(size)}; it must be an integer of at least 1")
        in_space = (size for _, size in self.shape if not isinstance(size, InTime))
        if not problems and math.prod(axis_of(size).size for size in in_space) > _MOST:
            problems.append(f"it would have more than {_MOST:,} devices")
        names = Counter(name for name, _ in self.shape if isinstance(name, str))
        problems += [f"axis `{name}` appears twice" for name, count in names.items() if count > 1]
        write = "data=2, model=4"
        if self.shape and not problems:
            write = ", ".join(f"{name}={axis_of(size).source}" for name, size in self.shape)
        if self.on is not None and not hasattr(self.on, "hardware"):
            problems.append(f"it was given on={shown(self.on)}, which is not a placement on a machine")
            write = f"{shown(self.on if isinstance(self.on, str) else 'v5e')}, {write}"
        if problems:
            raise MeshError("Invalid mesh: " + "; ".join(problems) + f". Write ml.mesh({write}).")
        object.__setattr__(self, "shape", tuple((name, size_of(axis_of(size))) for name, size in self.shape))

    @functools.cached_property
    def kinds(self) -> Mapping[str, Axis]:
        """What each axis is, by its name, major first."""
        return MappingProxyType({name: axis_of(size) for name, size in self.shape})

    @functools.cached_property
    def axes(self) -> Mapping[str, int]:
        """Sizes by axis name, major first; axes in time included."""
        return MappingProxyType({name: axis.size for name, axis in self.kinds.items()})

    @functools.cached_property
    def in_time(self) -> Mapping[str, InTime]:
        """The axes in time by name: each device runs their blocks one after the other."""
        return MappingProxyType({name: axis for name, axis in self.kinds.items() if isinstance(axis, InTime)})

    @functools.cached_property
    def stages(self) -> Mapping[str, Stages]:
        """The axes of stages by name: devices along them pass micro-batches on to each other."""
        return MappingProxyType({name: axis for name, axis in self.kinds.items() if isinstance(axis, Stages)})

    @functools.cached_property
    def devices(self) -> Mesh:
        """The mesh without its axes in time: the axes along which devices stand."""
        if not self.in_time:
            return self
        return Mesh(tuple(axis for axis in self.shape if axis[0] not in self.in_time), self.on)

    @property
    def order(self) -> Sequence[tuple[int, ...]] | None:
        """The coordinates of the devices on the machine's slice, row-major; None where they are as JAX lists them."""
        return None if self.on is None else self.on.order(self.devices.axes)

    @functools.cached_property
    def size(self) -> int:
        """The number of devices."""
        return math.prod(size for name, size in self.axes.items() if name not in self.in_time)

    def to_dict(self) -> dict[str, Any]:
        """Returns the sizes as JSON-like data, major first; that of an axis in time as its kind writes it.

        `ml.mesh(**sizes)` makes the same mesh again, on no machine.
        """
        return {name: axis.to_dict() for name, axis in self.kinds.items()}

    def resized(self, sizes: Mapping[str, int]) -> Mesh:
        """Returns the mesh with other sizes of some axes, which stay what they are, and on no machine."""
        resized = ((name, axis, sizes.get(name, axis.size)) for name, axis in self.kinds.items())
        return Mesh(tuple((n, size if isinstance(axis, Devices) else axis.resized(size)) for n, axis, size in resized))

    @property
    def sources(self) -> str:
        """The sizes as a person writes them in Python, `data=2, micro=ml.serial(8)`."""
        return ", ".join(f"{name}={axis.source}" for name, axis in self.kinds.items())

    def coordinates(self, device: int) -> dict[str, int]:
        """Returns where a device stands: its index along each axis of devices."""
        device = whole_number("The mesh", "device", device, error=MeshError)
        if not 0 <= device < self.size:
            raise MeshError(f"Device {device} was asked for; this mesh ({self}) has the devices 0 to {self.size - 1}.")
        indices = {}
        axes = self.devices.axes
        for name, size in reversed(tuple(axes.items())):
            device, indices[name] = divmod(device, size)
        return {name: indices[name] for name in axes}

    @property
    def _machine(self) -> str:
        return "" if self.on is None else f" on {self.on}"

    def __str__(self):
        return (" × ".join(f"{name}={size}" for name, size in self.shape) or "one device") + self._machine

    def __repr__(self):
        if self.on is None:
            return f"Mesh(shape={self.shape!r}, on=None)"
        # A machine is many figures, each with its source.
        return f"mesh({', '.join(f'{name}={size}' for name, size in self.shape)}){self._machine}"


def groups_of(mesh: Mesh, axes: Sequence[str]) -> np.ndarray:
    """Returns the devices of each group over mesh axes, in the order of the group: [groups, devices].

    Example:
        >>> groups_of(ml.mesh(data=2, model=2), ["data"]).tolist()
        [[0, 2], [1, 3]]
    """
    sizes = mesh.devices.axes
    names = list(sizes)
    devices = np.arange(mesh.size).reshape(tuple(sizes.values()))
    order = [names.index(name) for name in (*(name for name in names if name not in axes), *axes)]
    return devices.transpose(order).reshape(-1, math.prod(sizes[axis] for axis in axes))
