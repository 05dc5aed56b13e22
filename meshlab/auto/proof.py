"""The proof of a choice: what was minimised, what every other layout costs at least, and who says so."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..engine.specs.layout import Layout
from .objective import OBJECTIVES

_TOLD = 3


@dataclasses.dataclass(frozen=True)
class Proof:
    """Why a layout is the best one, or how far it can be from that.

    Attributes:
        method: how it was found.
        objective: "time" (seconds of a step), "memory" (bytes at the peak), "traffic" (bytes that one device sends in
            one run) or "live" (bytes that are live on one device at once, as Mesh TensorFlow counts).
        among: which layouts were compared, in words.
        layouts: how many there are: of "time" and "memory" the ways to compute, each of which is stored in many.
        value: what the layout costs, in seconds or bytes, measured on its plan.
        bound: what each of them costs at least, as is proved.
        gap: the share of the value by which another one could cost less.
        seconds: how long it took.
        plans: how many layouts were planned; 0 where that is not counted.
        ties: layouts that cost at most 0.5 % more.
    """

    method: str
    objective: str
    among: str
    layouts: int
    value: float
    bound: float
    gap: float
    seconds: float
    plans: int = 0
    ties: tuple[Layout, ...] = ()

    def __str__(self):
        objective = OBJECTIVES[self.objective]
        plans = f" and {self.plans:,} plans" if self.plans else ""
        less = f"less than {objective.text(self.bound)}" if self.gap else "less"
        return (
            f"a device {objective.verb} {objective.text(self.value)}, and {self.among} {objective.verb} {less}:"
            f" proved by {self.method}, gap {self._gap()}, in {self.seconds:.2f} s{plans}{self._ties()}"
        )

    def _gap(self) -> str:
        return f"{self.gap:.0%}" if not self.gap or self.gap >= 0.1 else f"{self.gap:.1%}"

    def _ties(self) -> str:
        if not self.ties:
            return ""
        told = "; ".join(str(layout) or "nothing sharded" for layout in self.ties[:_TOLD])
        more = f"; and {len(self.ties) - _TOLD:,} more" if len(self.ties) > _TOLD else ""
        return f"; as good within 0.5%: {told}{more}"

    def to_dict(self) -> dict[str, Any]:
        """The proof as JSON-able data."""
        data = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return data | {"ties": [layout.to_dict() for layout in self.ties]}
