"""The ways in which NCCL sends between the GPUs of one node; of all it takes the fastest.

    Protocol.of(4.6e-6, 0.8e-6, 13e9)       4.6 µs to begin, 0.8 µs for each step of a ring, 13e9 bytes/s

With V bytes of the full array on n GPUs:

| way | seconds |
|---|---|
| a ring: all-gather, reduce-scatter | base + (n-1) step + V (n-1)/n / bandwidth + V/n / copy |
| a ring: all-reduce | base + 2 (n-1) step + 2 V (n-1)/n / bandwidth + V/n / copy |
| in the switch (NVLS): all-reduce | base + V / bandwidth |
| an exchange: all-to-all | base + (n-1) step + V (n-1)/n² / bandwidth + V/n² / copy |
| an exchange: collective-permute | base + step + V/n / bandwidth |

Each GPU also copies its own part from where it lies to where the result does: of few GPUs that is much of the array.
NCCL has three protocols for rings: LL sends 4 bytes of data with each 4 of flags, LL128 120 of 128, Simple data alone,
behind a barrier; so the first begins soonest and the last sends fastest. Source: NCCL 2.23, src/graph/tuning.cc and
src/device/prims_*.h, https://github.com/NVIDIA/nccl. What is fitted bears these names in the order of its bandwidth:
nobody measured which protocol was taken. The seconds of each way grow with the bytes, and so do the least
of them; an all-reduce takes no longer than to scatter and to gather in a ring, hence no longer than both do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ...engine.collectives.kinds import ALL_REDUCE, EACH, PAIRS, Kind
from ...engine.errors import shown
from .figures import Figure, figure, no_figures, refuse


@dataclasses.dataclass(frozen=True)
class Protocol:
    """One way in which the GPUs of a node send.

    Attributes:
        base: seconds to begin.
        step: seconds for each step of a ring, or for each other GPU of an exchange.
        bandwidth: bytes/s that one GPU sends.
    """

    base: Figure
    step: Figure
    bandwidth: Figure

    def __post_init__(self):
        refuse("protocol", no_figures(self, ["bandwidth"], ["base", "step"]))

    @classmethod
    def of(cls, base: float, step: float, bandwidth: float) -> Protocol:
        """Makes a protocol from plain numbers."""
        return cls(figure(base), figure(step), figure(bandwidth))


@dataclasses.dataclass(frozen=True)
class Protocols:
    """The ways in which the GPUs of a node send.

    Attributes:
        rings: protocols of rings, by name.
        exchanges: of all-to-alls and collective-permutes.
        copy: bytes/s at which a GPU copies its own part.
        in_switch: of all-reduces that the switch itself sums; None where it cannot.
    """

    rings: Mapping[str, Protocol]
    exchanges: Mapping[str, Protocol]
    copy: Figure
    in_switch: Protocol | None = None

    def __post_init__(self):
        problems = [
            f'`{name}` must give protocols by name, {{"LL": ml.Protocol.of(...)}}, not {shown(ways)}'
            for name, ways in (("rings", self.rings), ("exchanges", self.exchanges))
            if not isinstance(ways, Mapping) or not ways or not all(isinstance(w, Protocol) for w in ways.values())
        ]
        problems += no_figures(self, ["copy"])
        if not isinstance(self.in_switch, Protocol | None):
            problems.append(f"`in_switch` must be an ml.Protocol, not {shown(self.in_switch)}")
        refuse("protocols", problems)

    def ways(self, kind: Kind, n: int) -> list[tuple[float, float]]:
        """Returns the latency, and the seconds for each byte of the full array, of each way of a collective.

        Args:
            kind: of the collective.
            n: the number of GPUs, at least 2.
        """
        if kind.way == EACH:
            return [self._way(way, n - 1, (n - 1) / n / n, 1 / n / n) for way in self.exchanges.values()]
        if kind.way == PAIRS:
            return [self._way(way, 1, 1 / n) for way in self.exchanges.values()]
        turns = kind.passes * (n - 1)
        ways = [self._way(way, turns, turns / n, 1 / n) for way in self.rings.values()]
        if kind is ALL_REDUCE and self.in_switch is not None:
            ways.append(self._way(self.in_switch, 1, 1.0))
        return ways

    def _way(self, way: Protocol, steps: int, sent: float, own: float = 0.0) -> tuple[float, float]:
        """Returns the latency, and the seconds for each byte: of what is sent, and of the own part."""
        latency = way.base.value + steps * way.step.value
        return latency, sent / way.bandwidth.value + own / self.copy.value


def read_protocols(data: Mapping[str, Any], read: Any) -> Protocols:
    """Reads the protocols of a machine's file.

    Args:
        data: the table `[protocols]`: `copy`, `rings` and `exchanges` by name, and perhaps `in_switch`.
        read: reads a figure.
    """

    def protocol(table: Mapping[str, Any]) -> Protocol:
        return Protocol(*(read(table[field.name]) for field in dataclasses.fields(Protocol)))

    rings, exchanges = ({name: protocol(way) for name, way in data[key].items()} for key in ("rings", "exchanges"))
    return Protocols(rings, exchanges, read(data["copy"]), protocol(data["in_switch"]) if "in_switch" in data else None)
