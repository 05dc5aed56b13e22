"""The proof of a choice: what it costs, what every other layout costs at least, what was searched and what was not."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..engine.specs.layout import Layout
from .objective import OBJECTIVES


@dataclasses.dataclass(frozen=True)
class Proof:
    """Why a layout is the best one, or how far it can be from that.

    Attributes:
        method: how it was found.
        objective: "time" (seconds of a step), "memory" (bytes at the peak), "traffic" (bytes that one device sends in
            one run) or "live" (bytes that are live on one device at once, as Mesh TensorFlow counts).
        searched: which layouts were compared, in words.
        not_searched: which were not.
        layouts: how many there are: of all but "live" the ways to compute, each of which is stored in many.
        value: what the layout costs, in seconds or bytes, measured on its plan.
        bound: what each of them costs at least, as is proved.
        gap: the share of the value by which another one could cost less.
        seconds: how long it took.
        plans: how many layouts were planned; 0 where that is not counted.
        ties: layouts that cost at most 0.5 % more.
        made: the single changes that made the incumbent better than the best layout of the space, in words.
    """

    method: str
    objective: str
    searched: str
    not_searched: str
    layouts: int
    value: float
    bound: float
    gap: float
    seconds: float
    plans: int = 0
    ties: tuple[Layout, ...] = ()
    made: tuple[str, ...] = ()

    def __str__(self):
        objective = OBJECTIVES[self.objective]
        plans = f", {self.plans:,} plans" if self.plans else ""
        bound = f"lower bound {objective.text(self.bound)}, gap {self._gap()}" if self.gap else "no gap"
        ties = f", {len(self.ties)} more within 0.5%" if self.ties else ""
        made = f"; the best layout of the space was changed: {', '.join(self.made)}" if self.made else ""
        return (
            f"A device {objective.verb} {objective.text(self.value)}: {bound}{ties} ({self.method},"
            f" {self.seconds:.2f} s{plans}{made}). Searched: {self.searched}. Not searched: {self.not_searched}."
        )

    def _gap(self) -> str:
        return f"{self.gap:.0%}" if self.gap >= 0.1 else f"{self.gap:.1%}"

    def to_dict(self) -> dict[str, Any]:
        """The proof as JSON-able data."""
        data = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return data | {"ties": [layout.to_dict() for layout in self.ties], "made": list(self.made)}
