"""Networks: between the devices of a slice or a node, and between slices or nodes.

    Torus.of(16, 16, link=4.5e10)           links of 45e9 bytes/s one way, in slices of up to 16 x 16
    Switch.of(8, egress=3.7e11)             nodes of eight, each of which sends 370e9 bytes/s

`collective_time` predicts the seconds of collectives on them, and `placement` maps mesh axes to them.
"""

from __future__ import annotations

import dataclasses
import math

from ...engine.errors import closest, listed, shown
from .figures import Figure, figure, is_count, no_counts, no_figures, refuse
from .protocols import Protocols

_WRAPS = ("whole", "cubes", "all", "none")


@dataclasses.dataclass(frozen=True)
class Torus:
    """A torus or a grid: each device has two links along each axis.

    Attributes:
        limits: the longest that a slice can be, by axis.
        wraps: which axes of a slice are rings: "whole", those as long as the limit; "cubes", all, if each size is a
            multiple of 4; "all"; or "none".
        link: bytes/s of one link, one way.
        hop_latency: seconds from one device to the next.
        chip: bytes/s between two devices of one chip, one way, where a chip has several.
        specified: bytes/s of one link as the maker specifies it; programs reach `link`.
        reduce_scatter_as_all_reduce: whether the compiler makes all-reduces of some reduce-scatters among all devices
            (`xla_substitutes`).
        all_gather_as_all_reduce: whether it makes all-reduces of some all-gathers.
        slices: shapes that its vendor lists, shorter axes first; any, if there are none. Of "cubes", those of less than
            a cube: any number of whole cubes makes a slice.
    """

    limits: tuple[int, ...]
    wraps: str
    link: Figure
    hop_latency: Figure
    chip: Figure | None = None
    specified: Figure | None = None
    reduce_scatter_as_all_reduce: bool = False
    all_gather_as_all_reduce: bool = False
    slices: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self):
        problems = no_figures(self, ["link"], ["hop_latency"])
        problems += no_figures(self, [name for name in ("chip", "specified") if getattr(self, name) is not None])
        if not isinstance(self.limits, tuple) or not self.limits or not all(map(is_count, self.limits)):
            problems.append(f"`limits` must be the longest of each axis, as in (16, 16), not {self.limits!r}")
        if not isinstance(self.wraps, str) or self.wraps not in _WRAPS:
            problems.append(f"`wraps` is {self.wraps!r}.{closest(self.wraps, _WRAPS)} There are {listed(_WRAPS)}")
        for name in ("reduce_scatter_as_all_reduce", "all_gather_as_all_reduce"):
            if not isinstance(getattr(self, name), bool):
                problems.append(f"`{name}` must be True or False, not {getattr(self, name)!r}")
        refuse("torus", problems)

    @classmethod
    def of(cls, *limits: int, link: float, hop_latency: float = 1e-6, wraps: str = "all") -> Torus:
        """Makes a torus from plain numbers."""
        return cls(limits, wraps, figure(link), figure(hop_latency))

    @property
    def largest(self) -> int:
        """The number of chips of the largest slice."""
        return math.prod(self.limits)

    def offers(self, shape: tuple[int, ...]) -> bool:
        """Returns whether a slice of this shape can be had."""
        cubes = self.wraps == "cubes" and all(size % 4 == 0 for size in shape)
        return not self.slices or cubes or tuple(sorted(shape)) in self.slices

    def rings(self, shape: tuple[int, ...]) -> tuple[bool, ...]:
        """Returns, for each axis of a slice, whether it wraps around."""
        if self.wraps == "cubes":
            cubes = all(size % 4 == 0 for size in shape)
            return tuple(cubes and size > 2 for size in shape)
        if self.wraps == "whole":
            return tuple(size == limit for size, limit in zip(shape, self.limits, strict=True))
        return tuple(self.wraps == "all" and size > 2 for size in shape)


@dataclasses.dataclass(frozen=True)
class Switch:
    """Devices behind one switch: a node.

    Attributes:
        domain: the number of devices behind one switch.
        egress: bytes/s that one device sends.
        base: latency of a collective, in seconds.
        step: seconds for each step of a ring.
        protocols: the ways in which collectives within a node are sent, where they are known; without them, and
            between nodes, bytes go by `egress`, behind `base` and a `step` for each step of a ring.
    """

    domain: int
    egress: Figure
    base: Figure
    step: Figure
    protocols: Protocols | None = None

    def __post_init__(self):
        problems = [*no_counts(self, "domain"), *no_figures(self, ["egress"], ["base", "step"])]
        if not isinstance(self.protocols, Protocols | None):
            problems.append(f"`protocols` must be an ml.Protocols, not {shown(self.protocols)}")
        refuse("switch", problems)

    @classmethod
    def of(cls, domain: int, egress: float, base: float = 0.0, step: float = 0.0) -> Switch:
        """Makes a switch from plain numbers."""
        return cls(domain, figure(egress), figure(base), figure(step))


@dataclasses.dataclass(frozen=True)
class InterNode:
    """The inter-node network: between nodes, or between slices (DCN).

    Attributes:
        link: bytes/s of one device, one way.
        latency: seconds to another node or slice.
    """

    link: Figure
    latency: Figure

    def __post_init__(self):
        refuse("inter-node network", no_figures(self, ["link"], ["latency"]))
