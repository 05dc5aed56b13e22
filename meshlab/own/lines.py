"""Finds the fewest `with_sharding_constraint` lines with which XLA's partitioner sends less; each is compiled first.

    hidden = jax.lax.with_sharding_constraint(hidden, NamedSharding(mesh, P("data", None)))   # saves 1.2 MB

A value that a line of the user's assigns is a candidate where XLA has left an axis whole which the arguments split: the
batch's mesh axes first, for every product reads its rows, then those of weights. All candidates together say what may
be had; of these, halves are left out as long as no more is sent without them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from jax.sharding import NamedSharding, PartitionSpec

from ..cost.machines.units import bytes_text, seconds_text
from ..engine.code.operations import Operation, walk
from ..engine.code.source import Source
from ..engine.jax_programs import constrained, number_of
from ..engine.specs.spec import Axes
from .decided import Splits
from .jitted import Jitted
from .subject import Subject


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


class Candidate(NamedTuple):
    """A line of the user's, the equations that make what it assigns, and how that would be split."""

    source: Source
    numbers: tuple[int, ...]
    splits: Splits


@dataclasses.dataclass(frozen=True)
class Line:
    """One line to write after another.

    Attributes:
        source: the user's line, which assigns the value.
        value: its name there.
        spec: what it is constrained to.
        saves: what the program costs more without this line, all the others in place.
        numbers: of the equations that make the value: several, where the line is run more than once or makes a tree.
    """

    source: Source
    value: str
    spec: PartitionSpec
    saves: Cost
    numbers: tuple[int, ...]

    @property
    def code(self) -> str:
        """The line to write."""
        entries = ", ".join(repr(entry) for entry in self.spec)
        return f"{self.value} = jax.lax.with_sharding_constraint({self.value}, NamedSharding(mesh, P({entries})))"

    def to_dict(self) -> dict[str, Any]:
        """Returns the line as plain data."""
        return {"code": self.code, "after": str(self.source), "saves": self.saves._asdict()}

    def __str__(self):
        return f"{self.code}   # after {self.source}; saves {_saved(self.saves)}"


@dataclasses.dataclass(frozen=True)
class Lines:
    """The lines that mend a program.

    Attributes:
        lines: the most valuable first; none where none was found that helps.
        before: what the program costs without them.
        after: with them.
    """

    lines: tuple[Line, ...]
    before: Cost
    after: Cost

    def __str__(self):
        if not self.lines:
            return f"No line was found with which a device sends less than {round(self.before.sent):,} B."
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


def found(subject: Subject, shardings: Mapping[int, Splits | None], before: Cost, measure: Measure) -> Lines:
    """Finds the fewest lines with which less is sent.

    Args:
        subject: the program, its equations numbered.
        shardings: of its values, as decided.
        before: what the program costs as it is.
        measure: compiles a program, and says what it costs.
    """
    wanted = list(_candidates(subject, shardings))
    known: dict[frozenset[int], Cost] = {frozenset(): before}

    def cost_with(positions: Iterable[int]) -> Cost:
        key = frozenset(positions)
        if key not in known:
            mesh, closed = subject.jitted.mesh, subject.jitted.closed
            specs = {n: NamedSharding(mesh, _spec(wanted[p].splits)) for p in key for n in wanted[p].numbers}
            known[key] = measure(dataclasses.replace(subject.jitted, closed=constrained(closed, specs)))
        return known[key]

    after = cost_with(range(len(wanted)))
    if after.sent >= before.sent:
        return Lines((), before, before)
    kept = _fewest(list(range(len(wanted))), (), lambda positions: cost_with(positions).sent <= after.sent)
    after = cost_with(kept)
    lines = []
    for position in kept:
        source, numbers, splits = wanted[position]
        saves = cost_with(p for p in kept if p != position).without(after)
        lines.append(Line(source, source.target or "", _spec(splits), saves, numbers))
    return Lines(tuple(sorted(lines, key=lambda line: -line.saves.sent)), before, after)


def _fewest(numbers: list[int], beside: Sequence[int], enough: Callable[[Sequence[int]], bool]) -> list[int]:
    """Returns some of the numbers, none of which can be left out, that are enough together with those beside them."""
    if len(numbers) == 1:
        return numbers
    first, second = numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]
    for half in (first, second):
        if enough((*beside, *half)):
            return _fewest(half, beside, enough)
    of_second = _fewest(second, (*beside, *first), enough)
    return [*_fewest(first, (*beside, *of_second), enough), *of_second]


def _candidates(subject: Subject, shardings: Mapping[int, Splits | None]) -> Iterator[Candidate]:
    """Yields lines that assign values which XLA splits otherwise than the arguments ask for.

    Of a line that is run several times, or assigns a tree, a constraint holds all values.
    """
    by_line: dict[Source, list[Operation]] = {}
    for operation in walk(subject.code.block):
        source = operation.source
        if source is not None and source.target and not operation.backward:
            by_line.setdefault(source, []).append(operation)
    axes_of = _asked(subject)
    for source, operations in by_line.items():
        made = [one for one in operations if any(subject.assigned.get(v) == source.target for v in one.outputs)]
        numbers = [number_of(operation.equation) for operation in made]
        wanted = {_wanted(subject, operation.outputs[0], axes_of) for operation in made if len(operation.outputs) == 1}
        single = all(len(operation.outputs) == 1 and not operation.blocks for operation in made)
        if not made or None in numbers or len(wanted) != 1 or not single:
            continue
        (splits,) = wanted
        if any(splits) and any(splits != shardings.get(operation.outputs[0]) for operation in made):
            yield Candidate(source, tuple(n for n in numbers if n is not None), splits)


def _asked(subject: Subject) -> dict[str, Axes]:
    """The mesh axes of each dim: those of arguments that do not come back, as a batch, before those of others."""
    jitted, code = subject.jitted, subject.code
    results = {(code.shapes[v], code.dtypes[v]) for v in code.block.outputs if isinstance(v, int)}
    arguments = list(zip(code.block.inputs, jitted.inputs, strict=False))
    arguments.sort(key=lambda pair: (code.shapes[pair[0]], code.dtypes[pair[0]]) in results)
    asked: dict[str, Axes] = {}
    for value, sharding in arguments:
        for name, entry in zip(subject.dims(value), sharding.spec if sharding is not None else (), strict=False):
            if name and entry is not None:
                asked.setdefault(name, tuple(entry) if isinstance(entry, tuple) else (entry,))
    return asked


def _wanted(subject: Subject, value: int, axes_of: Mapping[str, Axes]) -> Splits:
    """How a value would be split: each mesh axis once, where the axis divides."""
    jitted, names, shape = subject.jitted, subject.dims(value), subject.code.shapes[value]
    splits: list[Axes] = [() for _ in shape]
    used: set[str] = set()
    for name, axes in axes_of.items():
        if name in names:
            at = names.index(name)
            free, parts = [], 1
            for axis in axes:
                if axis not in used and shape[at] % (parts * jitted.axes[axis]) == 0:
                    free.append(axis)
                    parts *= jitted.axes[axis]
            splits[at] = tuple(free)
            used.update(free)
    return tuple(splits)


def _spec(splits: Splits) -> PartitionSpec:
    return PartitionSpec(*(axes[0] if len(axes) == 1 else axes or None for axes in splits))
