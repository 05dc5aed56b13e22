"""In which order the steps of a block begin, which of its collectives begin ahead, and the clock by which they run."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from typing import Any

from ...engine.planning.step_keys import Key
from ..workload.scenario import Numbers
from .fusion import Fusion


@dataclasses.dataclass
class Clock:
    """The times at which the next kernel can begin, each value is ready, each link is free, and all of them are.

    Where collectives go piece by piece: of what is gathered when all of it is there, and in how many pieces it comes;
    of each kernel, by position, when it began and ended.
    """

    now: Numbers = 0.0
    idle: Numbers = 0.0
    ready: dict[int, Numbers] = dataclasses.field(default_factory=dict)
    free: dict[Any, Numbers] = dataclasses.field(default_factory=dict)
    whole: dict[int, tuple[Numbers, Numbers]] = dataclasses.field(default_factory=dict)
    ran: dict[int, tuple[Numbers, Numbers]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Prefetched:
    """The keys of an iteration whose collectives overlap with other iterations, where weights are prefetched.

    Attributes:
        constant: inputs that no iteration changes.
        stacked: outputs that no iteration reads.
    """

    constant: frozenset[Key]
    stacked: frozenset[Key]

    def overlaps(self, fusion: Fusion, position: int) -> bool:
        """Whether the collective at a position only reads constant inputs, or only makes stacked outputs."""
        flow = fusion.flow
        ahead = all(flow.keys[n] in self.constant for n in fusion.loaded(position))
        return ahead or all(flow.keys[n] in self.stacked and not flow.users[n] for n in flow.makes[position])


def order_of(fusion: Fusion) -> list[int]:
    """Returns the positions of kernels and collectives, in the order in which they begin.

    A partial sum is reduced as soon as it is made; all else keeps the plan's order.
    """
    flow = fusion.flow
    behind: dict[int, list[int]] = defaultdict(list)
    for position, step in enumerate(flow.steps):
        if fusion.is_gone(position):
            continue
        first = position
        if (via := step.collective) and via.kind.sums:
            maker = max((flow.maker[number] for number in fusion.loaded(position)), default=-1)
            first = maker if 0 <= maker < position else position
        behind[first].append(position)
    return [position for first in sorted(behind) for position in behind[first]]
