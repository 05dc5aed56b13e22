"""The step of a pipeline: the loop over micro-batches, cut into pieces that stages run when a schedule says so.

    pre | F | mid | B | post        an iteration: `F` and `B` are the scans over layers, forward and backward

    forward cell      on the first stage pre; then F, of its own layers     → sends what F carries to the next stage
    backward cell     on the last stage mid; then B, of its own layers      → sends what B carries back
                      on the first stage then post

What else a stage needs of another is *passed* on with what F carries, or *returned* with what B carries. What its
backward cell reads of its forward cell is *held*.

Two stacks, as of an encoder and a decoder, are the two chunks of each stage, with cells of their own:

    pre | F | turn | F2 | mid | B2 | back | B | post

The last stage runs `turn` behind its layers of the first stack, and sends what it makes to the first stage, which
begins with the second one; on the way back `back` leads from the second stack to the first, on the last stage as well.

All devices take part in a collective-permute. A piece that has one is run *everywhere*: by all stages, in each tick in
which one of them runs a cell of its phase; what the others make of whatever lies there counts nothing.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..code.loops import carried
from ..schedules.dealing import Round, rounds
from ..schedules.schedule import Schedule
from ..schedules.table import is_paired
from ..specs.spec import Spec
from .step import Inner, Step, only
from .step_keys import Key, Made, Originals, from_around, keys
from .steps import Nested, Result

PRE, FORWARD, MID, BACKWARD, POST = PIECES = "pre", "F", "mid", "B", "post"
TURN, SECOND_FORWARD, SECOND_BACKWARD, BACK = "turn", "F2", "B2", "back"
# By number of stacks the pieces, in the order in which they depend on each other: every second one has a scan.
PIECES_OF = {1: PIECES, 2: (PRE, FORWARD, TURN, SECOND_FORWARD, MID, SECOND_BACKWARD, BACK, BACKWARD, POST)}
# By stack the pieces that have its scans.
FORWARDS, BACKWARDS = (FORWARD, SECOND_FORWARD), (BACKWARD, SECOND_BACKWARD)
# The pieces that one stage alone runs, and whether that is the first one.
ON_ONE_STAGE = {PRE: True, TURN: False, MID: False, BACK: False, POST: True}
# In the cells of which phase each piece is run.
PHASES = {
    **dict.fromkeys((PRE, FORWARD, TURN, SECOND_FORWARD), FORWARD),
    **dict.fromkeys((MID, SECOND_BACKWARD, BACK, BACKWARD, POST), BACKWARD),
}
# In the cells of which stack; `mid` in those of the last one.
_STACKS = {SECOND_FORWARD: 1, SECOND_BACKWARD: 1, MID: -1}


def is_in(name: str, phase: str, stack: int, stacks: int) -> bool:
    """Whether a piece is run in the cells of a phase of one of so many stacks."""
    return PHASES[name] == phase and _STACKS.get(name, 0) % stacks == stack


@dataclasses.dataclass(frozen=True, eq=False)
class Piece:
    """A part of an iteration that a stage runs at once.

    Attributes:
        steps: its own, in order.
        again: what it computes again of other pieces, in front of its own steps: what costs little, and gathers.
        results: what it makes of the results of the loop.
    """

    steps: tuple[Step, ...]
    again: tuple[Step, ...] = ()
    results: tuple[Result, ...] = ()

    @functools.cached_property
    def every(self) -> tuple[Step, ...]:
        """All that it runs."""
        return (*self.again, *self.steps)


@dataclasses.dataclass(frozen=True, eq=False)
class Stack:
    """The scans over the layers of one stack, and what stages send and hold for them.

    Attributes:
        forward: the scan in `F`.
        backward: the one in `B`.
        carried: by scan, forward and backward, the positions of the carries that are sent: all but those that nobody
            reads, neither a layer nor a piece behind the scan.
        passed: what goes from stage to stage beside what the forward scan carries.
        returned: what goes back beside what the backward scan carries.
        held: what a stage keeps of a forward cell for the backward cell of the same micro-batch.
    """

    forward: Nested
    backward: Nested
    carried: tuple[tuple[int, ...], tuple[int, ...]]
    passed: tuple[Key, ...]
    returned: tuple[Key, ...]
    held: tuple[Key, ...]

    def messages(self, original_of: Originals) -> tuple[tuple[Key, ...], tuple[Key, ...]]:
        """Returns what a stage sends on behind a forward cell, and what it sends back behind a backward one."""
        on, back = (
            [carries(scan, original_of, out=True)[position] for position in positions]
            for scan, positions in zip((self.forward, self.backward), self.carried, strict=True)
        )
        return (*on, *self.passed), (*back, *self.returned)


@dataclasses.dataclass(frozen=True, eq=False)
class Staged(Step):
    """The loop over micro-batches of a pipeline.

    Attributes:
        axis: the axis of stages.
        over: the axis in time.
        pieces: by name, in order.
        stacks: of layers, in the order of the forward pass: one, or two.
        stored: what stages read of their own layers that is known in front of the loop; with several chunks they are
            dealt to the stages first, as are the results of layers behind the loop.
        schedule: which stage runs which cell in which tick.
        layers: how many layers each stage has, where not all have as many.
        everywhere: the pieces that all stages run at once.
    """

    axis: str
    over: str
    pieces: Mapping[str, Piece]
    stacks: tuple[Stack, ...]
    stored: tuple[Key, ...]
    schedule: Schedule
    layers: tuple[int, ...] = ()
    everywhere: frozenset[str] = frozenset()

    @property
    def loops(self) -> bool:
        return True

    @property
    def in_time(self) -> str:
        return self.over

    @property
    def blocks_in_time(self) -> int:
        return self.schedule.micro

    @property
    def scans(self) -> dict[str, Nested]:
        """By piece the scans over layers."""
        forward = dict(zip(FORWARDS, (stack.forward for stack in self.stacks), strict=False))
        return forward | dict(zip(BACKWARDS, (stack.backward for stack in self.stacks), strict=False))

    @property
    def chunks(self) -> int:
        """How many chunks of the layers of one stack a stage has."""
        return self.schedule.chunks // len(self.stacks)

    @property
    def held(self) -> tuple[Key, ...]:
        """What a stage keeps of forward cells."""
        return tuple(dict.fromkeys(key for stack in self.stacks for key in stack.held))

    @property
    def results(self) -> tuple[Result, ...]:
        """What is known after the loop."""
        return tuple(result for piece in self.pieces.values() for result in piece.results)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of all pieces, as they are compiled: what a piece computes again stands there again."""
        return tuple(step for piece in self.pieces.values() for step in piece.every)

    @property
    def parts(self) -> tuple[Inner, ...]:
        # As compiled: a branch counts in each tick, whoever takes it.
        ticks = self.schedule.ticks
        return tuple(
            Inner(
                piece.every,
                ticks,
                returned=([result.value for result in piece.results], [result.inside for result in piece.results]),
                runs=self.runs_of(name),
            )
            for name, piece in self.pieces.items()
        )

    def keys(self, original_of: Originals) -> tuple[tuple[Key, ...], tuple[Key, ...]]:
        # What one piece reads of another is not read from around.
        returned = [(result.value, result.inside) for result in self.results]
        return tuple(dict.fromkeys(from_around(self.steps, (), returned, original_of))), keys(*self.made(), original_of)

    def with_parts(self, steps: Iterable[Sequence[Step]]) -> Staged:
        new = dict(zip(map(id, self.steps), itertools.chain.from_iterable(steps), strict=True))
        pieces = {
            name: dataclasses.replace(
                piece,
                steps=tuple(new[id(step)] for step in piece.steps),
                again=tuple(new[id(step)] for step in piece.again),
            )
            for name, piece in self.pieces.items()
        }

        def with_scans(stack: Stack) -> Stack:
            forward, backward = only(Nested, (new[id(stack.forward)], new[id(stack.backward)]))
            return dataclasses.replace(stack, forward=forward, backward=backward)

        return dataclasses.replace(self, pieces=pieces, stacks=tuple(map(with_scans, self.stacks)))

    def made(self) -> Made:
        return [result.value for result in self.results], [result.outside for result in self.results]

    @property
    def routes(self) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
        """Which stage sends to which: on, and back; with several chunks the last one on to the first."""
        count = self.schedule.stages
        on = tuple((stage, (stage + 1) % count) for stage in range(count if self.schedule.chunks > 1 else count - 1))
        return on, tuple((there, here) for here, there in on)

    def runs_of(self, name: str) -> int:
        """Returns how often a stage that runs a piece runs it."""
        if name in self.everywhere:
            return len({tick for (_, cell), tick in self.schedule.tick_of.items() if cell.phase == PHASES[name]})
        return self.schedule.micro * (1 if name in ON_ONE_STAGE else self.chunks)

    @property
    def in_halves(self) -> bool:
        """Whether each tick has a forward and a backward half."""
        return bool(self.everywhere) or is_paired(self.schedule)

    @functools.cached_property
    def dealt(self) -> tuple[tuple[Key, ...], tuple[Key, ...], tuple[Round, ...]]:
        """What is dealt to the stages in front of the loop, what back behind it, and how; nothing with one chunk."""
        # Of two stacks each is one chunk, whose layers lie where they are run.
        each = rounds(self.schedule) if self.chunks > 1 else ()
        own = [(r.value, r.outside) for r in self.results if self.axis in r.outside.axes]
        return (self.stored, tuple(own), each) if each else ((), (), ())

    def messages(self, original_of: Originals) -> tuple[tuple[Key, ...], tuple[Key, ...]]:
        """Returns what stages send on in a tick, and what they send back: for each stack its own."""
        on, back = zip(*(stack.messages(original_of) for stack in self.stacks), strict=True)
        return tuple(dict.fromkeys(sum(on, ()))), tuple(dict.fromkeys(sum(back, ())))

    def hops(self, original_of: Originals) -> Iterator[tuple[Key, float]]:
        """Yields what stages send each other, with how often: a chunk counts as its share of a stage's layers."""
        yield from ((key, self.schedule.ticks) for keys in self.messages(original_of) for key in keys)
        stored, results, turns = self.dealt
        times = sum(not each.stays for each in turns) / self.chunks
        yield from ((key, times) for key in (*stored, *results))

    def leaving(self, name: str, original_of: Originals) -> tuple[Key, ...]:
        """Returns the keys of a piece that outlive it: its results, and what is sent, held, or read by another."""
        made = {key for step in self.pieces[name].every for key in step.makes(original_of)}
        names = [*self.pieces]
        scan = self.scans.get(names[names.index(name) + 1]) if name in ON_ONE_STAGE and name != POST else None
        ends = carries(scan, original_of, out=False) if scan else ()
        results = ((result.value, result.inside) for result in self.pieces[name].results)
        wanted = (*ends, *sum(self.messages(original_of), ()), *self.held, *results)
        return tuple(key for key in dict.fromkeys(wanted) if key in made)

    def __str__(self):
        head = f"{self.axis}: {self.schedule}, {self.schedule.ticks} ticks"
        lines = [head]
        for name, piece in self.pieces.items():
            inside = [f"    {name}", *(f"        {line}" for step in piece.steps for line in str(step).splitlines())]
            lines += inside if piece.steps else []
        return "\n".join(lines)


def carries(scan: Nested, original_of: Originals, *, out: bool) -> tuple[Key, ...]:
    """Returns the keys of what a scan carries, as it comes in or goes out; literals have none."""
    count = carried(scan.operation)
    values, specs = (scan.operation.outputs, scan.results) if out else (scan.operation.inputs, scan.operands)
    return keys(values[:count], specs[:count], original_of)


def beside_carries(scan: Nested) -> Nested:
    """Returns a scan that reads no carry: what it reads besides."""
    count = carried(scan.operation)
    nothing: tuple[Any, ...] = (None,) * count
    return dataclasses.replace(scan, operands=(*nothing, *scan.operands[count:]))


def summed_over(spec: Spec, axis: str) -> Spec:
    """Returns the spec of a value of which only some stages have anything: a partial sum over them."""
    return Spec(spec.splits, tuple(sorted((*spec.partial, axis))))
