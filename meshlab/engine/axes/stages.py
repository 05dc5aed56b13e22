"""An axis of stages is a mesh axis of devices that hold different layers, and pass micro-batches on to each other.

    mesh = ml.mesh(data=2, pipe=ml.stages(4), micro=ml.serial(8))       # 8 devices: 4 stages, each of 2
    program.plan(mesh, "batch:data+micro layers:pipe")                  # a pipeline of 4 stages and 8 micro-batches
    ml.stages(4, layers=(3, 4, 4, 3))                                   # 14 layers: fewer beside embedding and head

What is split over it lies on its devices as on any axis in space: a stage stores its own layers, and updates them. But
a scan over these layers is computed stage by stage, and a schedule (`schedules/`) says which stage has which
micro-batch when.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Mapping
from typing import Any, Self

from ..argument_checks import is_whole
from ..errors import MeshError, aside, listed, shown
from ..schedules.orders import NAMED
from ..schedules.pytorch_csv import read as read_csv
from ..schedules.schedule import Schedule
from .axis import Axis

# A tick is a forward and a backward cell: the only one of them that waits no longer in lockstep than by itself.
DEFAULT = "paired"


@dataclasses.dataclass(frozen=True)
class Stages(Axis):
    """The size of an axis of stages, and their schedule; made by `ml.stages`.

    Attributes:
        schedule: the name of a schedule, or one for as many stages; None: "paired".
        chunks: how many chunks of the layers each stage has, of a schedule that leaves this open; None: its own.
        layers: the number of layers of each stage; None: the same for all.
    """

    schedule: str | Schedule | None = None
    chunks: int | None = None
    layers: tuple[int, ...] | None = None

    maker, noun, unit = "stages", "an axis of stages", "stages"
    meaning = "An axis of stages: each has layers of its own, and micro-batches pass from stage to stage."

    def __post_init__(self):
        if isinstance(self.layers, list):  # as JSON has them
            object.__setattr__(self, "layers", tuple(self.layers))
        super().__post_init__()
        if self.layers:
            object.__setattr__(self, "layers", tuple(map(operator.index, self.layers)))

    def problems(self) -> list[str]:
        found = super().problems()
        wrong_size = bool(found)
        found += [*self._wrong_schedule(wrong_size), *self._wrong_layers(wrong_size)]
        if not found and self.uneven and self.chunk_count > 1:
            chunks = f"{self.chunk_count} chunks for each stage, which must all have the same number of layers"
            found.append(f"layers={self.layers} and {chunks}")
        return found

    def _wrong_layers(self, wrong_size: bool) -> list[str]:
        """Returns what is wrong with the numbers of layers; how many stages there are may be unknown."""
        given = self.layers
        if given is None:
            return []
        if not isinstance(given, tuple) or not all(is_whole(count) and count >= 1 for count in given):
            return [f"layers={shown(given)}, which must have an integer of at least 1 for each stage: (3, 4, 4, 3)"]
        if not wrong_size and len(given) != self.size:
            return [f"layers={shown(given)}, which has {len(given)} numbers for {self.size} stages"]
        return []

    def _wrong_schedule(self, wrong_size: bool) -> list[str]:
        """Returns what is wrong with the schedule and its chunks."""
        found, given = [], self.schedule
        if isinstance(given, Schedule):
            if not wrong_size and given.stages != self.size:
                found.append(f"a schedule of {given.stages} stages, which must have {self.size}")
            if self.chunks not in (None, given.chunks):
                found.append(f"chunks={shown(self.chunks)}, where the schedule has {given.chunks}")
        elif given is not None and (not isinstance(given, str) or given not in NAMED):
            found.append(
                f"schedule={shown(given)}, which must be one of {listed(NAMED)}, or an ml.Schedule{aside(given, NAMED)}"
            )
        elif self.chunks is not None and not (is_whole(self.chunks) and self.chunks >= 1):
            found.append(f"chunks={shown(self.chunks)}, which must be an integer of at least 1")
        elif self.chunks is not None and not (named := NAMED[given or DEFAULT]).has(self.chunks):
            found.append(f"chunks={self.chunks}, where {given or DEFAULT} has {named.chunks_in_words} for each stage")
        return found

    @property
    def uneven(self) -> tuple[int, ...]:
        """How many layers each stage has, where not all have as many; () where they do."""
        return self.layers if self.layers and len(set(self.layers)) > 1 else ()

    @property
    def counts(self) -> str:
        """How many layers the stages have, "3, 4, 4 and 3 layers"; "" where all have as many."""
        *most, last = map(str, self.uneven or ("",))
        return f"{', '.join(most)} and {last} layers" if most else ""

    @property
    def in_words(self) -> str:
        return f"{self.meaning} These have {self.counts}." if self.uneven else self.meaning

    def resized(self, size: int) -> Self:
        """Returns the axis with another number of stages, which have as many layers each where that changes."""
        layers = self.layers if size == self.size else None
        return dataclasses.replace(self, size=size, layers=layers)

    @property
    def chunk_count(self) -> int:
        """How many chunks of the layers each stage has."""
        if isinstance(self.schedule, Schedule):
            return self.schedule.chunks
        return self.chunks or NAMED[self.schedule or DEFAULT].chunks or 2

    def order(self, micro: int) -> Schedule:
        """Returns the schedule for so many micro-batches.

        Raises:
            MeshError: it has none for so many.
        """
        if isinstance(self.schedule, Schedule):
            if self.schedule.micro != micro:
                text = f"The schedule {self.schedule.name} has {self.schedule.micro} micro-batches, and there are"
                raise MeshError(f"{text} {micro}.")
            return self.schedule
        return Schedule.of(self.schedule or DEFAULT, self.size, micro, self.chunks)

    def to_dict(self) -> Any:
        if isinstance(self.schedule, Schedule):
            written = {"name": self.schedule.name, "csv": self.schedule.csv()}
            return {**super().to_dict(), "schedule": written}
        return super().to_dict()

    @classmethod
    def read(cls, given: Mapping[Any, Any]) -> Self | None:
        written = given.get("schedule")
        if isinstance(written, Mapping):
            name, text = written.get("name"), written.get("csv")
            if not isinstance(name, str) or not isinstance(text, str):
                return None
            try:
                return super().read({**given, "schedule": Schedule(name, *read_csv(text, shown(name)))})
            except MeshError:
                return None
        return super().read(given)


@dataclasses.dataclass(frozen=True)
class TwoStacks(Stages):
    """An axis of stages that has two stacks of layers, of an encoder and a decoder: each is a chunk of all stages."""

    @property
    def chunk_count(self) -> int:
        """How many chunks of the layers of one stack each stage has."""
        return 1

    def order(self, micro: int) -> Schedule:
        if isinstance(self.schedule, Schedule):
            found = super().order(micro)
            name, chunks = found.name, found.chunks
        else:
            found, name = None, self.schedule or "interleaved"
            chunks = self.chunks or (2 if NAMED[name].has(2) else 1)
        if chunks != 2:
            text = f"The schedule {name} has {chunks} chunk{'s' * (chunks > 1)} for each stage"
            raise MeshError(f"{text}, and two stacks of layers need 2, one each.")
        return found or Schedule.of(name, self.size, micro, 2)

    @classmethod
    def of(cls, stages: Stages) -> Self:
        """Returns an axis of stages as it has two stacks."""
        return cls(stages.size, stages.schedule, stages.chunks, stages.layers)


def stages(
    size: int,
    schedule: str | Schedule | None = None,
    chunks: int | None = None,
    layers: tuple[int, ...] | None = None,
) -> Stages:
    """Makes the size of a mesh axis of stages, whose devices hold different layers of a pipeline.

    Args:
        size: the number of stages, which are devices along the axis.
        schedule: which stage computes what when: "paired", "gpipe", "1f1b" and others by name (see `ml.Schedule.of`),
            or an `ml.Schedule` for as many stages. None: "paired", which is the best one where all stages exchange
            after each step, as they do here; for an encoder and a decoder "interleaved", with one chunk for each.
        chunks: for "interleaved" and "gpipe", how many chunks of the layers each stage has; None: two, and one.
        layers: the number of layers of each stage: for example fewer on the first and the last, which also have the
            embedding and the head. None: the same number on all.

    Example:
        >>> str(stages(4)), str(stages(4, "1f1b")), str(stages(4, layers=(3, 4, 4, 3)))
        ('stages(4)', 'stages(4, schedule="1f1b")', 'stages(4, layers=(3, 4, 4, 3))')
    """
    return Stages(size, schedule, chunks, layers)
