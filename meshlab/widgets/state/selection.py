"""What is selected on the board: a tensor always, and a dim, a device, a collective and a moment of the step, or none.

    explorer.select("params/w1")                the tensor whose shards are shown
    explorer.select(dim="hidden", device=5)     marked in each view
    explorer.select(dim=None)                   no dim

It is one selection for all views of an Explorer, in whatever cell. It is no step that could be undone, and changes no
number. What a new layout still has stays selected; the rest is dropped. The tensor that is shown follows the chip that
was placed last, so that its effect is in the picture, and the collective that is selected, whose arrows are of it.
"""

from __future__ import annotations

import dataclasses
import math
import zlib
from collections import Counter
from typing import Any

from msgspec import UNSET, structs

from ...engine.argument_checks import is_whole
from ...engine.errors import closest, listed, shown
from ...engine.plans.collective import Collective
from ...engine.programs.program import Program
from ..documents.intents import Place, Refused, Select


@dataclasses.dataclass(frozen=True)
class Selection:
    """What is selected.

    Attributes:
        place: the place of the tensor whose shards are shown; None where a program has none.
        dim: a dim of the program.
        device: the number of a device.
        collective: one of the plan's collectives, by its name in `identities`.
        moment: a segment of the timeline, as the page names it.
    """

    place: str | None = None
    dim: str | None = None
    device: int | None = None
    collective: str | None = None
    moment: str | None = None

    def kept(self, plan: Any) -> Selection:
        """Returns what of the selection another plan has as well."""
        there = self.collective if self.collective is not None and self.collective in identities(plan) else None
        places = plan.program.places_values
        return dataclasses.replace(
            self,
            place=self.place if self.place in places else next(iter(places_of(plan.program)), None),
            dim=self.dim if self.dim in plan.program.dims else None,
            device=self.device if self.device is not None and self.device < plan.mesh.size else None,
            collective=there,
            moment=self.moment if there else None,
        )


def following(selection: Selection, intent: Place, plan: Any) -> Selection:
    """Returns the selection after a chip was placed: its tensor if the chip shards that, else the largest sharded."""
    if not intent.axes:
        return selection
    program, dim, axes = plan.program, str(intent.dim), set(intent.axes)

    def is_sharded(place: str) -> bool:
        pairs = zip(program.place(place).dims, plan.spec(place).splits, strict=True)
        return any(name == dim and axes & set(split) for name, split in pairs)

    if selection.place is None or is_sharded(selection.place):
        return selection
    sharded = [place for place in places_of(program) if is_sharded(place)]
    largest = max(sharded, key=lambda place: math.prod(program.place(place).shape), default=selection.place)
    return dataclasses.replace(selection, place=largest)


def selected_after(selection: Selection, intent: Select, plan: Any) -> Selection | Refused:
    changes = {name: value for name, value in structs.asdict(intent).items() if value is not UNSET}
    if changes.get("place", "") is None:
        return Refused("A tensor is always shown.", "Select another one.", "unknown_place")
    for name, value in changes.items():
        refusal = None if value is None else _CHECKS[name](value, plan)
        if refusal is not None:
            return refusal
    moved = collective_of(plan, changes.get("collective"))
    place = None if moved is None or "place" in changes else place_moved(moved, plan.program)
    return dataclasses.replace(selection, **(changes if place is None else changes | {"place": place}))


def places_of(program: Program) -> list[str]:
    """Lists the places that hold a value (an output may be a constant)."""
    return [place for place in program.places if place in program.places_values]


def collective_of(plan: Any, name: str | None) -> Collective | None:
    """Returns the collective of a plan that has a name in `identities`; None where there is none."""
    if name is None:
        return None
    return next((c for c, each in zip(plan.collectives, identities(plan), strict=True) if each == name), None)


def place_moved(collective: Collective, program: Program) -> str | None:
    """Returns the place of the tensor that a collective moves; None where that has none."""
    place = collective.moved.place if collective.moved else None
    return place if place in program.places_values else None


def identities(plan: Any) -> list[str]:
    """Names the collectives of a plan by what they are: one that another layout has as well has the same name there."""
    seen: Counter[str] = Counter()
    names = []
    for c in plan.collectives:
        text = "|".join((c.kind, "+".join(c.axes), c.value, str(c.source), c.because))
        seen[text] += 1
        names.append(f"{zlib.crc32(f'{text}|{seen[text]}'.encode()):08x}")
    return names


def _place(place: Any, plan: Any) -> Refused | None:
    places = places_of(plan.program)
    if place in places:
        return None
    reason = f"There is no value at a place `{place}`.{closest(str(place), places)}"
    return Refused(reason, f"Use one of {listed(places[:8])}.", "unknown_place")


def _dim(dim: Any, plan: Any) -> Refused | None:
    dims = plan.program.dims
    return (
        None if dim in dims else Refused(f"There is no dim {shown(dim)}.{closest(str(dim), dims)}", code="unknown_dim")
    )


def _device(device: Any, plan: Any) -> Refused | None:
    if is_whole(device) and 0 <= device < plan.mesh.size:
        return None
    return Refused(f"There is no device {shown(device)}.", f"They are 0 to {plan.mesh.size - 1:,}.", "unknown_device")


def _collective(name: Any, plan: Any) -> Refused | None:
    return None if name in identities(plan) else Refused("The plan has no such collective.", code="unknown_collective")


def _moment(moment: Any, plan: Any) -> Refused | None:
    return None if isinstance(moment, str) and len(moment) < 80 else Refused("There is no such moment.")


_CHECKS = {"place": _place, "dim": _dim, "device": _device, "collective": _collective, "moment": _moment}
