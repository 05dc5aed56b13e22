"""A mesh names the axes along which devices stand, apart from any model.

    mesh = ml.mesh(data=2, model=4)      # 8 devices; device 5 stands at data=1, model=1

Devices are numbered row-major: the last axis changes fastest. An axis may be one of time (`serial.py`): it has a size
and no devices. A mesh knows no devices; they are found when a plan
runs. Everything up to there costs the same for 8 devices and for 65,536. How a mesh is placed on a machine is carried
along and means nothing here: `meshlab.cost` reads it.
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

from ..argument_checks import is_whole, whole_number
from ..errors import MeshError, shown
from ..tensors.dims import NAME_RULE, is_name, proper
from .serial import Serial

# What 32 bits count, which is how JAX numbers devices.
_MOST = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class Mesh:
    """Named mesh axes with sizes.

    Args:
        shape: (name, size) of each axis, major first; the size of an axis of time is a `Serial`.
        on: how the mesh is placed on a machine, for predictions of time; None where no machine is meant.

    Raises:
        MeshError: an axis has no usable name or size, or a name stands twice; or `on` places it on no machine.
    """

    shape: tuple[tuple[str, int | Serial], ...]
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
                serial = 'a serial axis has {"serial": 8}, and "reduce" and "gather" of "once" or "each"'
                problems.append(f"axis `{name}` was given the size {shown(size)}; {serial}")
            elif not isinstance(size, Serial) and (not is_whole(size) or operator.index(size) < 1):
                problems.append(f"axis `{name}` was given the size {shown(size)}; it must be an integer of at least 1")
        spatial = [size for _, size in self.shape if not isinstance(size, Serial)]
        if not problems and math.prod(map(operator.index, spatial)) > _MOST:
            problems.append(f"it would have more than {_MOST:,} devices")
        names = Counter(name for name, _ in self.shape if isinstance(name, str))
        problems += [f"axis `{name}` stands twice" for name, count in names.items() if count > 1]
        write = "data=2, model=4" if problems or not self.shape else ", ".join(f"{n}={size}" for n, size in self.shape)
        if self.on is not None and not hasattr(self.on, "hardware"):
            problems.append(f"it was given on={shown(self.on)}, which places it on no machine")
            write = f"{shown(self.on if isinstance(self.on, str) else 'v5e')}, {write}"
        if problems:
            raise MeshError("Invalid mesh: " + "; ".join(problems) + f". Write ml.mesh({write}).")
        whole = ((n, s if isinstance(s, Serial) else operator.index(s)) for n, s in self.shape)
        object.__setattr__(self, "shape", tuple(whole))

    @functools.cached_property
    def axes(self) -> Mapping[str, int]:
        """Sizes by axis name, major first; those of serial axes as well."""
        return MappingProxyType({name: s.size if isinstance(s, Serial) else s for name, s in self.shape})

    @functools.cached_property
    def serial(self) -> Mapping[str, Serial]:
        """The serial axes by name: each device runs their blocks one after the other."""
        return MappingProxyType({name: size for name, size in self.shape if isinstance(size, Serial)})

    @functools.cached_property
    def devices(self) -> Mesh:
        """The mesh without its serial axes: the axes along which devices stand."""
        if not self.serial:
            return self
        return Mesh(tuple(axis for axis in self.shape if axis[0] not in self.serial), self.on)

    @property
    def order(self) -> Sequence[tuple[int, ...]] | None:
        """The coordinates of the devices on the machine's slice, row-major; None where they are as JAX lists them."""
        return None if self.on is None else self.on.order(self.devices.axes)

    @functools.cached_property
    def size(self) -> int:
        """The number of devices."""
        return math.prod(size for name, size in self.axes.items() if name not in self.serial)

    def to_dict(self) -> dict[str, Any]:
        """Returns the sizes as JSON-like data, major first; that of a serial axis as `{"serial": 8}`, with its options.

        `ml.mesh(**sizes)` makes the same mesh again, on no machine.
        """
        return {name: size.to_dict() if isinstance(size, Serial) else size for name, size in self.shape}

    def resized(self, sizes: Mapping[str, int]) -> Mesh:
        """Returns the mesh with other sizes of some axes, and on no machine; a serial axis stays one."""
        changed = (
            (name, dataclasses.replace(size, size=sizes.get(name, size.size)))
            if isinstance(size, Serial)
            else (name, sizes.get(name, size))
            for name, size in self.shape
        )
        return Mesh(tuple(changed))

    def coordinates(self, device: int) -> dict[str, int]:
        """Returns where a device stands: its index along each axis of devices.

        Raises:
            MeshError: there is no such device, or it is no integer.
        """
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
