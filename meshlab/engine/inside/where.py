"""Says where a value of a step is: its name, its line, the iteration, and the devices.

`scale` (log) at model.py:16, in iteration 2 of 4, on devices 0, 1
"""

from __future__ import annotations

import dataclasses

from ..code.source import Source
from ..errors import first_of
from ..planning.steps import move_of
from ..plans.plan_data import Plan
from ..programs.values import Value
from .probing import Tap, is_closed
from .search import Hit

# How many devices are listed by number.
_MOST = 8


@dataclasses.dataclass(frozen=True)
class Place:
    """A value of a step, where it is on some devices at some time; prints as a phrase.

    Attributes:
        value: the value.
        source: the user's line that made it; for a move, the line that needs it.
        made_by: the operation that made it, or the collective that moved it; "" for an argument.
        iterations: the iteration of each loop around it, outermost first, from 0.
        times: how often each of these loops runs.
        devices: their numbers; empty if that is not known.
        every: whether they are all devices.
    """

    value: Value
    source: Source | None
    made_by: str
    iterations: tuple[int, ...]
    times: tuple[int, ...]
    devices: tuple[int, ...]
    every: bool

    def __str__(self) -> str:
        text = f"`{self.value.label}`" + (f" ({self.made_by})" if self.made_by else "")
        text += f" at {self.source}" if self.source is not None else ""
        pairs = zip(self.iterations, self.times, strict=True)
        text += "".join(f", in iteration {iteration} of {times}" for iteration, times in pairs)
        if self.devices:
            numbers = first_of([str(device) for device in self.devices], _MOST)
            text += ", on all devices" if self.every else f", on device{'s' * (len(self.devices) > 1)} {numbers}"
        return text


@dataclasses.dataclass(frozen=True)
class Finding:
    """What was found at a place.

    Attributes:
        place: the value, with its line, its iteration and its devices.
    """

    place: Place

    @property
    def value(self) -> Value:
        """The value in which it was found."""
        return self.place.value

    @property
    def source(self) -> Source | None:
        """The user's line that made it; None for an argument."""
        return self.place.source

    @property
    def iterations(self) -> tuple[int, ...]:
        """The iteration of each loop around it in which it comes first, outermost first, from 0."""
        return self.place.iterations

    @property
    def devices(self) -> tuple[int, ...]:
        """The devices that have it then, by number; empty for a partial sum that differs."""
        return self.place.devices


def place(plan: Plan, hit: Hit) -> Place:
    """Returns where something was found in a plan."""
    tap = hit.tap
    value = plan.program.value(tap.number)
    loops = tuple(loop.times or 0 for loop in tap.loops)
    every = len(hit.devices) == plan.mesh.size
    return Place(value, line(plan, tap), made_by(tap), hit.iterations, loops, hit.devices, every)


def line(plan: Plan, tap: Tap) -> Source | None:
    """Returns the user's line of a value: that made it, or, where a move made this copy of it, that it is for."""
    move = tap.step and move_of(tap.step)
    if move and move.serves is not None and move.serves.source is not None:
        return move.serves.source
    return plan.program.value(tap.number).source


def made_by(tap: Tap) -> str:
    """Returns what made a value so, as text."""
    step = tap.step
    if step is None:
        return ""
    if move := move_of(step):
        return f"{move.title} over {'+'.join(move.via.axes)}"
    return step.title or ("the pipeline" if is_closed(step) else f"the loop over {step.in_time}")
