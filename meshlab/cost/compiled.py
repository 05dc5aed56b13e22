"""What a compiler made of a plan: see `compilers.py`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from ..engine.hlo import HloCollective, read_collectives
from .targets import Target

if TYPE_CHECKING:
    from ..engine.plan import Plan


@dataclasses.dataclass(frozen=True, eq=False)
class Compiled:
    plan: Plan
    target: Target
    donate: bool
    answer: dict
    hlo: str

    @property
    def collectives(self) -> tuple[HloCollective, ...]:
        return read_collectives(self.hlo, self.plan.mesh.axes, unknown_trips=1)


def compiled_from(plan: Plan, target: Target, donate: bool, answer: dict[str, Any], text: str) -> Compiled:
    return Compiled(plan, target, donate, answer, text)
