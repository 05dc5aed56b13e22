"""`ml.Schedule`: which stage of a pipeline computes what, in which order; a value, judged and drawn as it is."""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..argument_checks import is_whole
from ..errors import MeshError, closest, shown
from . import clock, lanes, pytorch_csv
from .cells import BACKWARD, EQUAL, WEIGHTS, At, Cell, Costs, Needs, Order, Parts, in_order
from .greedy import by_priority
from .orders import NAMED
from .validity import problems, wrong_parts


@dataclasses.dataclass(frozen=True)
class Schedule:
    """A schedule of a pipeline: the cells of each stage in the order in which it computes them.

    Attributes:
        name: "1f1b", or whatever its maker calls it.
        order: by stage its steps. A step is one cell, or a forward cell and then one of the backward pass; a cell has a
            `phase` ("F" forward, "B" backward, or "I" and "W": the gradients of its input and of its weights apart), a
            `micro`-batch, and a `chunk` of those that the stage holds.
        parts: by stage and chunk which part of the model it is, in the order of the forward pass; by default the parts
            are dealt to the stages in turn.

    Raises:
        MeshError: a cell is missing, runs twice, or stages wait for each other; all that is wrong, by stage and cell.

    Example:
        >>> schedule = Schedule.of("1f1b", stages=4, micro=8)
        >>> schedule.bubble(), schedule.bubble(lockstep=True)
        (0.375, 0.6666666666666667)
        >>> schedule.in_flight
        (4.0, 3.0, 2.0, 1.0)
    """

    name: str
    order: Order
    parts: Parts = ()

    def __post_init__(self):
        order = tuple(tuple(tuple(map(_cell, step)) for step in steps) for steps in self.order)
        object.__setattr__(self, "order", order)
        if not self.parts:
            chunks = 1 + max((cell.chunk for steps in order for step in steps for cell in step), default=0)
            object.__setattr__(self, "parts", in_order(len(order), chunks))
        if found := problems(order, self.parts):
            raise MeshError(f"The schedule {shown(self.name)} cannot run: {'; '.join(found)}.")

    @classmethod
    def of(cls, name: str, stages: int, micro: int, chunks: int | None = None) -> Schedule:
        """Returns a schedule of the literature.

        Args:
            name: "paired", "gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v" or "dualpipe-v".
            stages: how many devices the model is cut over.
            micro: how many micro-batches the batch is cut into.
            chunks: how many chunks of the model each stage holds, for "interleaved" and "gpipe"; by default 2 and 1.

        Raises:
            MeshError: an unknown name, or numbers that the schedule does not have.
        """
        if name not in NAMED:
            known = ", ".join(f'"{each}"' for each in NAMED)
            raise MeshError(f"There is no schedule {shown(name)}.{closest(str(name), NAMED)} Schedules are {known}.")
        named = NAMED[name]
        wrong = [f"{what}={shown(n)}" for what, n in (("stages", stages), ("micro", micro)) if not _positive(n)]
        if chunks is not None and not (_positive(chunks) and named.has(chunks)):
            wrong.append(f"chunks={shown(chunks)}; it has {named.chunks_in_words} for each stage")
        if not wrong and named.multiple and micro % stages:
            wrong.append(f"micro={micro}, which must be a multiple of its {stages} stages")
        if not wrong and micro < named.least(stages):
            wrong.append(f"micro={micro}; over {stages} stages it needs at least {named.least(stages)}")
        if wrong:
            raise MeshError(f"The schedule {name} was given {' and '.join(wrong)}.")
        chunks = chunks or named.chunks or 2
        return cls(name, named.order(stages, micro, chunks), named.parts(stages, chunks))

    @classmethod
    def by(
        cls,
        priority: Callable[[int, Cell], Any],
        stages: int,
        micro: int,
        *,
        parts: Parts = (),
        in_flight: float | Sequence[float] | None = None,
        weights_apart: bool = False,
        costs: Costs | tuple[float, float, float] = EQUAL,
        name: str = "by priority",
    ) -> Schedule:
        """Returns the schedule in which each stage, when it is free, runs the cell that comes first by a key.

        Args:
            priority: what cells are compared by, of a stage and a cell; the least of those that can run runs first.
            stages: how many devices the model is cut over.
            micro: how many micro-batches the batch is cut into.
            parts: by stage and chunk the part of the model; one part a stage by default.
            in_flight: how many micro-batches a stage may hold at once, one number or one a stage; any by default.
            weights_apart: whether the gradients of weights are cells of their own.
            costs: how long forward pass, gradients of inputs and gradients of weights of a stage take.
            name: what it is called.

        Example:
            >>> backward_first = lambda stage, cell: (cell.phase == "F", cell.micro)
            >>> schedule = Schedule.by(backward_first, stages=4, micro=8, in_flight=(4, 3, 2, 1))
            >>> schedule.order == Schedule.of("1f1b", stages=4, micro=8).order
            True
        """
        wrong = [f"{what}={shown(n)}" for what, n in (("stages", stages), ("micro", micro)) if not _positive(n)]
        if wrong:
            raise MeshError(f"Schedule.by() was given {' and '.join(wrong)}.")
        parts = parts or in_order(stages)
        most = _one_each(float("inf") if in_flight is None else in_flight, stages)
        if not all(isinstance(each, int | float) and each >= 1 for each in most) or len(most) != stages:
            wrong.append(f"in_flight={shown(in_flight)}, which must be at least 1 for each of {stages} stages")
        wrong += wrong_parts(parts) or ([] if len(parts) == stages else [f"parts for {len(parts)} stages"])
        if wrong:
            raise MeshError(f"Schedule.by() was given {' and '.join(wrong)}.")
        order = by_priority(priority, parts, micro, most=most, weights_apart=weights_apart, costs=Costs(*costs))
        return cls(name, order, parts)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Schedule:
        """Reads a schedule from a CSV file as PyTorch writes it, without its sends, which follow from the cells.

        Raises:
            MeshError: a file that is not there or not a schedule; what cannot be read, by row and column.
        """
        try:
            text = pathlib.Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise MeshError(f"Schedule.read() cannot read {shown(str(path))}: {reason}.") from None
        return cls(pathlib.Path(path).stem, *pytorch_csv.read(text, shown(str(path))))

    def csv(self) -> str:
        """Returns the schedule as CSV, as PyTorch reads it: a row for each stage, a column for each tick.

        Example:
            >>> print(Schedule.of("1f1b", 2, 2).csv(), end="")
            0F0,0F1,,0B0,,0B1
            ,1F0,1B0,1F1,1B1,
        """
        return pytorch_csv.text_of(self.order, self.parts, self.tick_of)

    @property
    def stages(self) -> int:
        """How many devices the model is cut over."""
        return len(self.order)

    @property
    def chunks(self) -> int:
        """How many chunks of the model each stage holds."""
        return len(self.parts[0])

    @functools.cached_property
    def micro(self) -> int:
        """How many micro-batches there are."""
        return 1 + max(cell.micro for steps in self.order for step in steps for cell in step)

    @functools.cached_property
    def needs(self) -> Needs:
        """What each cell waits for."""
        return Needs.of(self.parts, self.order)

    @functools.cached_property
    def tick_of(self) -> Mapping[At, int]:
        """By stage and cell the tick in which it runs, if all stages exchange after each step."""
        return clock.ticks_of(self.order, self.needs)

    @property
    def ticks(self) -> int:
        """How many ticks it takes, if all stages exchange after each step."""
        return 1 + max(self.tick_of.values())

    @functools.cached_property
    def in_flight(self) -> tuple[float, ...]:
        """By stage how many micro-batches' activations it holds at most; a chunk's are its share of the stage's.

        They are held from the forward cell on, until the gradient of the weights is there.
        """
        counts = (clock.most_in_flight(steps, lambda cell: cell.phase in (BACKWARD, WEIGHTS)) for steps in self.order)
        return tuple(count / self.chunks for count in counts)

    def clock(
        self,
        costs: Costs | Sequence[Any] = EQUAL,
        *,
        lockstep: bool = False,
        hop: float = 0.0,
        in_halves: bool = False,
    ) -> clock.Clock:
        """Returns when each cell begins and ends.

        Args:
            costs: how long one micro-batch takes on a stage with all its chunks: its forward pass, the gradients of
                inputs, the gradients of weights. Or one such triple for each part of the model, in its order. In any
                unit.
            lockstep: whether all stages exchange after each step, so that a step takes as long as its longest cell.
            hop: how long it takes to send a result to another stage.
            in_halves: whether in lockstep all stages run forward cells first and then backward ones, in each step.
        """
        by_part = self._costs(costs)
        if not isinstance(hop, int | float) or not 0 <= hop < float("inf"):
            raise MeshError(f"hop={shown(hop)} is not a time; write a number of at least 0.")

        def seconds(at: At) -> float:
            stage, cell = at
            return by_part[self.parts[stage][cell.chunk]].of(cell.phase)

        if lockstep:
            return clock.in_lockstep(self.tick_of, seconds, hop, in_halves=in_halves)
        return clock.free_running(self.order, self.needs, seconds, hop)

    def bubble(
        self,
        costs: Costs | Sequence[Any] = EQUAL,
        *,
        lockstep: bool = False,
        hop: float = 0.0,
        synchronous: bool = True,
    ) -> float:
        """Returns the time that is waited, over the time that the busiest stage works: (p − 1)/m for GPipe and 1F1B.

        Args:
            costs: as for `clock`.
            lockstep: as for `clock`.
            hop: as for `clock`.
            synchronous: whether the step ends for all stages at once. False: each stage goes on to its next step by
                itself, as zero bubble's optimizer lets it; then the longest time from a stage's first cell to its last
                counts (Qi et al., arXiv:2401.10241, section 4).
        """
        by_part, ran = self._costs(costs), self.clock(costs, lockstep=lockstep, hop=hop)
        work = max(self.micro * sum(sum(by_part[part]) for part in parts) for parts in self.parts)
        return (ran.makespan if synchronous else ran.longest_span) / work - 1

    @functools.cached_property
    def waits(self) -> float:
        """The share of the time in lockstep in which the busiest stage waits: (p − 1)/(m + p − 1) for GPipe, `paired`.

        The forward pass and both gradients are taken to last equally long.
        """
        waited = self.bubble(lockstep=True)
        return waited / (1 + waited)

    def figure(self, costs: Costs | Sequence[Any] = EQUAL, *, lockstep: bool = False, hop: float = 0.0) -> Any:
        """Draws a lane for each stage, with its cells and its waiting.

        Args:
            costs: as for `clock`.
            lockstep: as for `clock`.
            hop: as for `clock`.

        Returns:
            A `plotly.graph_objects.Figure`.
        """
        ran, waited = self.clock(costs, lockstep=lockstep, hop=hop), self.bubble(costs, lockstep=lockstep, hop=hop)
        how = " in lockstep" if lockstep else ""
        return lanes.figure(f"{self}{how}: bubble {waited:.1%}, all done at {ran.makespan:g}", self.parts, ran)

    def write_trace(
        self,
        path: str | os.PathLike[str],
        costs: Costs | Sequence[Any] = EQUAL,
        *,
        lockstep: bool = False,
        hop: float = 0.0,
    ) -> None:
        """Writes the lanes as a Chrome trace, which Perfetto opens; a unit of the costs is a microsecond there."""
        lanes.write_trace(path, self.name, self.parts, self.clock(costs, lockstep=lockstep, hop=hop))

    def _costs(self, costs: Costs | Sequence[Any]) -> list[Costs]:
        """The costs of each part of the model."""
        count = self.stages * self.chunks
        given = [*costs] if isinstance(costs, Sequence) else []
        if len(given) == 3 and all(isinstance(each, int | float) for each in given):
            triples, share = [tuple(given)] * count, 1 / self.chunks
        else:
            triples, share = [tuple(each) if isinstance(each, Sequence) else () for each in given], 1.0
        right = (len(each) == 3 and all(isinstance(c, int | float) and c >= 0 for c in each) for each in triples)
        if len(triples) != count or not all(right) or not any(map(any, triples)):
            raise MeshError(
                f"costs={shown(costs)} are not costs; write (forward, gradients of inputs, gradients of weights), "
                f"each at least 0, or one such triple for each of the {count} parts of the model."
            )
        return [Costs(*each).scaled(share) for each in triples]

    def __str__(self):
        return f"{self.name}: {self.stages} stages, {self.micro} micro-batches" + (
            f", {self.chunks} chunks a stage" if self.chunks > 1 else ""
        )

    def __repr__(self):
        return f"<Schedule {self}>"


def _cell(given: Any) -> Cell:
    """A cell as it is given: (phase, micro-batch) or (phase, micro-batch, chunk)."""
    cell = Cell(*given) if isinstance(given, Sequence) and len(given) in (2, 3) else None
    if cell is None or not is_whole(cell.micro) or not is_whole(cell.chunk):
        raise MeshError(f'{shown(given)} is not a cell of a schedule; write ("F", 0): its phase and its micro-batch.')
    return cell


def _one_each(given: Any, stages: int) -> tuple[Any, ...]:
    """One value for each stage, as it is given for each or for all."""
    return tuple(given) if isinstance(given, Sequence) else (given,) * stages


def _positive(number: Any) -> bool:
    return is_whole(number) and number >= 1
