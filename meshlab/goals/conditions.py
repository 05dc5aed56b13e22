"""What every condition of a goal answers, and where it takes predicted costs from.

    condition.text                      "sends at most 8 kB": what each device, or the step, does
    condition.problems(program, mesh)   why it asks for something that is not there: a dim, an axis, a place, a machine
    condition.judge(plan, costs)        whether a plan meets it, what was found, and what is to blame where it does not
    condition.priced(plan)              the price of a layout that it bounds, so that a board can tick it before a drop

A plan is judged by what its devices do, by specs, steps and collectives: a rule that another rule undoes counts for
nothing, and two spellings of one layout are judged alike.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, Literal, Protocol, Self

from ..cost.peak_memory.memory import Memory, memory_of
from ..cost.step_time.time import Time
from ..cost.workload.attention import DEFAULT
from ..engine.specs.mesh import Mesh

# The prices of a drop that a condition may bound, as the board has them.
Price = Literal["bytes", "seconds", "peak", "work"]


@dataclasses.dataclass(frozen=True)
class Judged:
    """How far a plan meets a condition.

    Attributes:
        met: whether it does; None while its costs are worked out.
        value: what was found, in few words; "" where there is nothing to say.
        because: what is to blame where it is missed, as far as that is known.
    """

    met: bool | None
    value: str = ""
    because: str = ""


PENDING = Judged(None)


@dataclasses.dataclass(frozen=True)
class Cost:
    """A predicted cost.

    Attributes:
        value: seconds or bytes.
        because: says what most of it is, and why; asked where it misses a bound.
    """

    value: float
    because: Callable[[], str]

    @classmethod
    def of_step(cls, time: Time) -> Self:
        return cls(float(time.estimate), lambda: time.because)

    @classmethod
    def of_peak(cls, memory: Memory) -> Self:
        return cls(int(memory.peak_bytes), lambda: memory.because)


@dataclasses.dataclass(frozen=True)
class Costs:
    """Where the predicted costs of a plan come from; a board has them later, and gives None till then.

    Attributes:
        seconds: gives the estimate of a step; raises a `HardwareError` where there is none.
        peak: gives the donated peak of a device, as the compiler of a platform arranges it.
    """

    seconds: Callable[[], Cost | None]
    peak: Callable[[str], Cost | None]

    @classmethod
    def of(cls, plan: Any) -> Self:
        """Returns those of a plan, worked out when they are asked for."""
        return cls(lambda: Cost.of_step(plan.time), lambda platform: Cost.of_peak(donated(plan, platform)))


def platform_of(mesh: Mesh) -> str:
    """Returns the platform whose compiler a mesh's peaks are predicted for: without a machine the CPU's."""
    return "cpu" if mesh.on is None else mesh.on.hardware.platform


def donated(plan: Any, platform: str, attention: str = DEFAULT) -> Memory:
    """Returns the memory of a device with carried arguments overwritten, for the compiler of a platform."""
    memory = plan.memory if platform == platform_of(plan.mesh) else memory_of(plan, platform)
    return memory.given(attention).donated


class Condition(Protocol):
    """One condition of a goal: frozen data."""

    @property
    def text(self) -> str:
        """What it asks for, as the rest of a sentence that begins with "each device"."""
        ...

    def problems(self, program: Any, mesh: Mesh) -> Iterator[str]:
        """Yields what it asks for and a program or mesh has not got."""
        ...

    def judge(self, plan: Any, costs: Costs) -> Judged:
        """Judges a plan."""
        ...

    def priced(self, plan: Any) -> tuple[Price, float] | None:
        """Returns the price that it bounds, and the most that this may be; None where prices do not tell."""
        return None
