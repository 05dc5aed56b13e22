"""What every step of a plan answers: what it runs, reads and makes, and what runs inside it.

    step.keys(originals)     the keys that it reads, and those that it makes
    step.parts               the steps inside a loop, branches or a region, with how often they run
    step.collective          what it sends

Who walks through steps asks them, and names a kind of step only where something is said of that kind alone: so a kind
that is added, in `steps.py`, is known to all of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Self, TypeVar

from ..code.operations import Operation
from ..collectives.reshard import ReshardStep
from ..programs.outline import Repetition
from ..specs.spec import Spec
from .step_keys import Border, Key, Made, Originals, from_around, keys

Change = Callable[[Spec], Spec]


@dataclasses.dataclass(frozen=True)
class Inner:
    """Steps that run inside another.

    Attributes:
        steps: in order; they read the values around them by themselves.
        times: how often they run in one run of the step; each of several branches counts as if it ran.
        given: the values that they begin with.
        returned: the values that they return.
        runs: how often a device runs them in truth, where it takes a branch in fewer turns than it is counted in; None:
            as often as they count.
    """

    steps: tuple[Step, ...]
    times: int = 1
    given: Made = ((), ())
    returned: Border = ((), ())
    runs: int | None = None


class Step:
    """What every step answers.

    Attributes:
        per_shard: whether it communicates by a per-shard implementation.
        droppable: whether it does nothing but make keys, so that it goes where none of them is read.
        shared: whether its steps are those of several repetitions: it is written out before it is read.
    """

    per_shard: bool = False
    droppable: bool = False
    shared: bool = False

    @property
    def collective(self) -> ReshardStep | None:
        """What it sends, if it is a collective."""
        return None

    @property
    def named(self) -> int | None:
        """The value that it moves, under the name that it is asked for by; None where it makes a value of its own."""
        return None

    @property
    def title(self) -> str:
        """What it is called: its operation, or the kind of its collective; "" for a loop that no operation is."""
        return self.runs.called if self.runs else ""

    @property
    def runs(self) -> Operation | None:
        """The operation that it runs; None of a move, and of a loop that no operation is."""
        return None

    @property
    def serves(self) -> Operation | None:
        """The operation that it runs; of a move the one that it is for, if there is one."""
        return self.runs

    @property
    def backward(self) -> bool:
        return self.serves is not None and self.serves.backward

    @property
    def computes(self) -> Operation | None:
        """The operation that it computes by itself: what has parts, or makes a constant, computes none."""
        return None

    @property
    def primitive(self) -> str:
        """The name of the primitive that it computes, "" for none."""
        return ""

    @property
    def loops(self) -> bool:
        """Whether its parts run again and again."""
        return False

    @property
    def in_time(self) -> str | None:
        """The axis in time whose blocks its parts go through."""
        return None

    @property
    def blocks_in_time(self) -> int:
        """How many blocks of that axis there are; 1 without one."""
        return 1

    @property
    def parts(self) -> tuple[Inner, ...]:
        return ()

    def with_parts(self, steps: Iterable[Sequence[Step]]) -> Self:
        return self

    def read(self) -> Border:
        """Returns the values that it reads itself, and their specs."""
        return (), ()

    def made(self) -> Made:
        """Returns the values that it makes, and their specs."""
        return (), ()

    def keys(self, original_of: Originals) -> tuple[tuple[Key, ...], tuple[Key, ...]]:
        """Returns the keys that it reads, in order, one perhaps twice, and those that it makes.

        Its parts' keys from around are among those that it reads, each once.

        Args:
            original_of: the originals of renames and tags, by number (`Program.original_of`).
        """
        around: dict[Key, None] = {}
        for part in self.parts:
            given, returned = keys(*part.given, original_of), keys(*part.returned, original_of)
            around.update(dict.fromkeys(from_around(part.steps, given, returned, original_of)))
        return (*keys(*self.read(), original_of), *around), keys(*self.made(), original_of)

    def reads(self, original_of: Originals) -> tuple[Key, ...]:
        return self.keys(original_of)[0]

    def makes(self, original_of: Originals) -> tuple[Key, ...]:
        return self.keys(original_of)[1]

    def hops(self, original_of: Originals) -> Iterable[tuple[Key, float]]:
        """Returns what stages send each other, with how often."""
        return ()

    def specs(self) -> Iterator[Spec]:
        """Yields every spec that it, or a step inside, mentions."""
        yield from filter(None, (*self.read()[1], *self.made()[1]))
        for part in self.parts:
            yield from filter(None, (*part.given[1], *part.returned[1]))
            for step in part.steps:
                yield from step.specs()

    def kept(self, is_read: Callable[[int, Spec], bool]) -> Self | None:
        """Returns what is left of it where only some of what it makes is read; None for nothing."""
        if self.droppable and not any(is_read(value, spec) for value, spec in zip(*self.made(), strict=True)):
            return None
        return self

    def under(self, change: Change) -> Self:
        """Returns it with every spec changed; itself where that changes none."""
        return self

    def renumbered(self, repetition: Repetition) -> Self:
        """Returns it in the numbers of a repetition, from those of the representative."""
        raise AssertionError(f"no {type(self).__name__} is in a repetition")

    def written(self) -> tuple[Step, ...]:
        """Returns it with all repetitions inside written out."""
        return (self.with_parts([unfolded(part.steps) for part in self.parts]) if self.parts else self,)


def unfolded(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Returns steps with all repetitions written out, in the program's own numbers."""
    return tuple([written for step in steps for written in step.written()])


AnyStep = TypeVar("AnyStep", bound=Step)


def only(kind: type[AnyStep], steps: Iterable[Step]) -> Iterator[AnyStep]:
    return (step for step in steps if isinstance(step, kind))
