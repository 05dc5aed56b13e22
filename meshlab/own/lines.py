"""Finds the fewest `with_sharding_constraint` lines with which XLA's partitioner sends less; each is compiled first.

    hidden = jax.lax.with_sharding_constraint(hidden, NamedSharding(mesh, P("data", None)))   # saves 1.2 MB

What may help is guessed (`candidates.py`). All lines that keep values split say together what they may save; of these,
halves are left out as long as no more is sent without them. What else there is comes one by one, and stays where it
saves.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from jax.sharding import NamedSharding, PartitionSpec

from ..cost.machines.units import bytes_text, seconds_text
from ..engine.code.source import Source
from ..engine.jax_programs import constrained
from .candidates import Candidate, by_hops, kept_split, otherwise
from .decided import Splits
from .jitted import Jitted
from .subject import Subject

Of = TypeVar("Of")


class Cost(NamedTuple):
    """What a compiled program costs.

    Attributes:
        sent: bytes that a device sends in one run.
        memory: bytes that it takes on a device, as XLA for CPUs lays it out.
        seconds: what its collectives take on the machine, one after another; None without one.
    """

    sent: float
    memory: int
    seconds: float | None = None

    def without(self, less: Cost) -> Cost:
        """What it costs more than another."""
        seconds = None if self.seconds is None or less.seconds is None else self.seconds - less.seconds
        return Cost(self.sent - less.sent, self.memory - less.memory, seconds)


# Compiles a program, and says what it costs.
Measure = Callable[[Jitted], Cost]


@dataclasses.dataclass(frozen=True)
class Line:
    """One line to write, or a spec to write in one that is there.

    Attributes:
        candidate: the line.
        saves: what the program costs more without it, all the others in place.
    """

    candidate: Candidate
    saves: Cost

    @property
    def source(self) -> Source:
        """The user's line after which it is written; or the constraint that is changed."""
        return self.candidate.source

    @property
    def code(self) -> str:
        """The line to write; or the spec to write, and in place of which."""
        spec, instead = _written(self.candidate.spec), self.candidate.instead
        if instead is not None:
            return f"{spec} in place of {_written(instead)}"
        value = self.candidate.value
        return f"{value} = jax.lax.with_sharding_constraint({value}, NamedSharding(mesh, {spec}))"

    @property
    def where(self) -> str:
        """Where it is written."""
        of = "after" if self.candidate.instead is None else f"in the constraint on `{self.candidate.value}` at"
        return f"{of} {self.source}"

    def to_dict(self) -> dict[str, Any]:
        """Returns the line as plain data."""
        return {"code": self.code, "where": self.where, "saves": self.saves._asdict()}

    def __str__(self):
        return f"{self.code}   # {self.where}; saves {_saved(self.saves)}"


@dataclasses.dataclass(frozen=True)
class Lines:
    """The lines that mend a program.

    Attributes:
        lines: the most valuable first, those of one value in order; none where none was found that helps.
        before: what the program costs without them.
        after: with them.
    """

    lines: tuple[Line, ...]
    before: Cost
    after: Cost

    def __str__(self):
        if not self.lines:
            return f"No line was found that reduces the traffic of a device below {round(self.before.sent):,} B."
        count = "1 line" if len(self.lines) == 1 else f"{len(self.lines)} lines"
        head = f"{count}: a device sends {round(self.after.sent):,} B, and {round(self.before.sent):,} B without"
        return "\n".join([head, *(f"  {line}" for line in self.lines)])

    __repr__ = __str__


def _saved(saves: Cost) -> str:
    """What a line saves, in words: bytes sent, seconds on a machine, and memory, of which it may take more."""
    took = f", {seconds_text(saves.seconds)} of collectives" if saves.seconds else ""
    held = f"{bytes_text(abs(saves.memory))} of memory"
    less, more = f", {held}" if saves.memory > 0 else "", f", and takes {held} more" if saves.memory < 0 else ""
    return f"{round(saves.sent):,} B sent{took}{less}{more}"


def _written(spec: PartitionSpec) -> str:
    return f"P({', '.join(repr(entry) for entry in spec)})"


def found(subject: Subject, shardings: Mapping[int, Splits | None], before: Cost, measure: Measure) -> Lines:
    """Finds the fewest lines with which less is sent.

    Args:
        subject: the program, its equations numbered.
        shardings: of its values, as decided.
        before: what the program costs as it is.
        measure: compiles a program, and says what it costs.
    """
    known: dict[tuple[Candidate, ...], Cost] = {(): before}

    def cost(candidates: Sequence[Candidate]) -> Cost:
        key = tuple(candidates)
        if key not in known:
            closed = with_lines(subject.jitted, key)
            known[key] = measure(dataclasses.replace(subject.jitted, closed=closed))
        return known[key]

    kept = list(kept_split(subject, shardings))
    if cost(kept).sent < before.sent:
        kept = _fewest(kept, (), functools.partial(_no_more, cost, cost(kept), kept))
    else:
        kept = []
    of_splits = kept
    for further in (*otherwise(subject), *by_hops(subject, shardings)):
        if cost((*kept, *further)).sent < cost(kept).sent:
            kept = [*kept, *further]
    if kept != of_splits:
        kept = _fewest(kept, (), functools.partial(_no_more, cost, cost(kept), kept))
    after = cost(kept)
    lines = [Line(one, cost([other for other in kept if other is not one]).without(after)) for one in kept]
    most: dict[tuple[Source, str], float] = {}  # those of one value stay together, in their order
    for line in lines:
        key = line.source, line.candidate.value
        most[key] = max(most.get(key, 0), line.saves.sent)
    return Lines(tuple(sorted(lines, key=lambda line: -most[line.source, line.candidate.value])), before, after)


def _no_more(
    cost: Callable[[Sequence[Candidate]], Cost], after: Cost, kept: Sequence[Candidate], some: Sequence[Candidate]
) -> bool:
    """Whether no more is sent with some of the candidates, in the order of all of them."""
    return cost([one for one in kept if one in some]).sent <= after.sent


def with_lines(jitted: Jitted, candidates: Iterable[Candidate]) -> Any:
    """Returns the program's jaxpr with lines in force; of those after one line in the order in which they come."""
    specs: dict[int, list[NamedSharding]] = {}
    for one in candidates:
        for number in one.numbers:
            specs.setdefault(number, []).append(NamedSharding(jitted.mesh, one.spec))
    return constrained(jitted.closed, specs)


def _fewest(all_of: list[Of], beside: Sequence[Of], enough: Callable[[Sequence[Of]], bool]) -> list[Of]:
    """Returns some of a list, none of which can be left out, that are enough together with those beside them."""
    if len(all_of) == 1:
        return all_of
    first, second = all_of[: len(all_of) // 2], all_of[len(all_of) // 2 :]
    for half in (first, second):
        if enough((*beside, *half)):
            return _fewest(half, beside, enough)
    of_second = _fewest(second, (*beside, *first), enough)
    return [*_fewest(first, (*beside, *of_second), enough), *of_second]
