"""The proof of a choice: what was minimised, what every other layout costs at least, and who says so."""

from __future__ import annotations

import dataclasses
from typing import Any

from .objective import OBJECTIVES


@dataclasses.dataclass(frozen=True)
class Proof:
    """Why a layout is the best one.

    Attributes:
        method: how it was found.
        objective: "traffic" (bytes that one device sends in one run) or "memory" (bytes that are live on one device at
            once).
        among: which of the legal layouts were compared, in words; empty for all.
        layouts: how many legal layouts there are.
        value: what the layout costs, in bytes, measured on its plan.
        bound: what each of them costs at least, in bytes, as the solver has proved.
        gap: how far the value lies above the bound, as a share of it.
        seconds: how long it took.
    """

    method: str
    objective: str
    among: str
    layouts: int
    value: float
    bound: float
    gap: float
    seconds: float

    def __str__(self):
        objective = OBJECTIVES[self.objective]
        return (
            f"a device {objective.verb} {objective.text(self.value)}, and of {self.layouts:,} legal layouts (one axis a"
            f" dim at most, no rules at places) none{self.among} {objective.verb} less: proved by {self.method}, gap"
            f" {self.gap:.0%}, in {self.seconds:.2f} s"
        )

    def to_dict(self) -> dict[str, Any]:
        """The proof as JSON-able data."""
        return dataclasses.asdict(self)
