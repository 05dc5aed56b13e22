"""What planning makes: of a block, of a repeated layer, of a whole program."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ..programs.outline import Repetition
from ..specs.spec import Axes, Spec
from .step import Step
from .step_keys import Key


class PlannedBlock:
    """The steps of one block, and the specs in which its values are available.

    Attributes:
        depth: in how many blocks it stands.
    """

    def __init__(self, depth: int = 0):
        self.depth = depth
        self.steps: list[Step] = []
        self.available: dict[int, tuple[Spec, ...]] = {}


# The state of one value of an interface: its producer's spec, in how many blocks it stands, the specs in which it is at
# hand there, and its target spec; -1 blocks for a value without an array of its own. A tuple, for there are very many.
InterfaceState = tuple[Spec | None, int, tuple[Spec, ...], Spec | None]


@dataclasses.dataclass(frozen=True, eq=False)
class CachedPlan:
    """The plan of a repetition, in the numbers of its representative.

    Attributes:
        steps: those that it adds to each block, from the outermost to the one that it stands in.
        specs: the producers' specs of the values inside.
        interface: by position in the interface, the states that change.
    """

    steps: tuple[tuple[Step, ...], ...]
    specs: dict[int, Spec]
    interface: tuple[tuple[int, InterfaceState], ...]


@dataclasses.dataclass(frozen=True)
class Planned:
    """The steps of a program, and the specs in which they produce its values.

    Attributes:
        steps: what each device runs, repetitions as `Repeated`.
        outside: the producers' specs of values, of repetitions those of their interfaces.
        inside: for each repetition the producers' specs inside, in the numbers of the representative.
        cuts: of the values in an iteration over an axis in time that devices share otherwise than they were cut, by
            key, the axes of the devices over whose shards they were (`plans/cuts_in_time.py`).
    """

    steps: tuple[Step, ...]
    outside: Mapping[int, Spec]
    inside: Mapping[Repetition, Mapping[int, Spec]]
    cuts: Mapping[Key, Axes] = dataclasses.field(default_factory=dict)

    def producer_specs(self) -> dict[int, Spec]:
        inside = {
            repetition.from_representative[v]: spec
            for repetition, specs in self.inside.items()
            for v, spec in specs.items()
        }
        return inside | dict(self.outside)
