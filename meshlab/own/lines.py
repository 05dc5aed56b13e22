"""Finds the fewest `with_sharding_constraint` lines with which XLA's partitioner sends less; each is compiled first.

    hidden = jax.lax.with_sharding_constraint(hidden, NamedSharding(mesh, P("data", None)))   # saves 1.2 MB

A value that a line of the user's assigns is a candidate where XLA has left an axis whole which the arguments split: the
batch's mesh axes first, for every product reads its rows, then those of weights. All candidates together say what may
be had; of these, halves are left out as long as no more is sent without them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from jax.sharding import NamedSharding, PartitionSpec

from ..engine.code.operations import Operation, walk
from ..engine.code.source import Source
from ..engine.jax_programs import constrained, number_of
from ..engine.specs.spec import Axes
from .decided import Splits
from .jitted import Jitted
from .subject import Subject

# Bytes that a device sends in one run of a program, as compiled.
Sent = Callable[[Jitted], float]


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
        saves: bytes that a device sends more without this line, all the others in place.
        numbers: of the equations that make the value: several, where the line is run more than once or makes a tree.
    """

    source: Source
    value: str
    spec: PartitionSpec
    saves: float
    numbers: tuple[int, ...]

    @property
    def code(self) -> str:
        """The line to write."""
        entries = ", ".join(repr(entry) for entry in self.spec)
        return f"{self.value} = jax.lax.with_sharding_constraint({self.value}, NamedSharding(mesh, P({entries})))"

    def to_dict(self) -> dict[str, Any]:
        """Returns the line as plain data."""
        return {"code": self.code, "after": str(self.source), "saves": self.saves}

    def __str__(self):
        return f"{self.code}   # after {self.source}; saves {round(self.saves):,} B"


@dataclasses.dataclass(frozen=True)
class Lines:
    """The lines that mend a program.

    Attributes:
        lines: the most valuable first; none where none was found that helps.
        before: bytes that a device sends without them.
        after: with them.
    """

    lines: tuple[Line, ...]
    before: float
    after: float

    def __str__(self):
        if not self.lines:
            return f"No line was found with which a device sends less than {round(self.before):,} B."
        count = "1 line" if len(self.lines) == 1 else f"{len(self.lines)} lines"
        head = f"{count}: a device sends {round(self.after):,} B, and {round(self.before):,} B without"
        return "\n".join([head, *(f"  {line}" for line in self.lines)])

    __repr__ = __str__


def found(subject: Subject, shardings: Mapping[int, Splits | None], before: float, sent: Sent) -> Lines:
    """Finds the fewest lines with which less is sent.

    Args:
        subject: the program, its equations numbered.
        shardings: of its values, as decided.
        before: bytes that a device sends as it is.
        sent: compiles a program, and counts.
    """
    wanted = list(_candidates(subject, shardings))
    known: dict[frozenset[int], float] = {frozenset(): before}

    def bytes_with(positions: Iterable[int]) -> float:
        key = frozenset(positions)
        if key not in known:
            mesh, closed = subject.jitted.mesh, subject.jitted.closed
            specs = {n: NamedSharding(mesh, _spec(wanted[p].splits)) for p in key for n in wanted[p].numbers}
            known[key] = sent(dataclasses.replace(subject.jitted, closed=constrained(closed, specs)))
        return known[key]

    after = bytes_with(range(len(wanted)))
    if after >= before:
        return Lines((), before, before)
    kept = _fewest(list(range(len(wanted))), (), lambda positions: bytes_with(positions) <= after)
    after = bytes_with(kept)
    lines = []
    for position in kept:
        source, numbers, splits = wanted[position]
        saves = bytes_with(p for p in kept if p != position) - after
        lines.append(Line(source, source.target or "", _spec(splits), saves, numbers))
    return Lines(tuple(sorted(lines, key=lambda line: -line.saves)), before, after)


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

    Of a line that is run several times, or assigns a tree, a constraint holds all values: those that other lines read.
    """
    outputs = {value for value in subject.code.block.outputs if isinstance(value, int)}
    by_line: dict[Source, list[Operation]] = {}
    for operation in walk(subject.code.block):
        source = operation.source
        if source is not None and source.target and not operation.backward:
            by_line.setdefault(source, []).append(operation)
    axes_of = _asked(subject)
    for source, operations in by_line.items():
        made = [operation for operation in operations if _is_read_elsewhere(subject, operation, source, outputs)]
        numbers = [number_of(operation.equation) for operation in made]
        wanted = {_wanted(subject, operation.outputs[0], axes_of) for operation in made if len(operation.outputs) == 1}
        single = all(len(operation.outputs) == 1 and not operation.blocks for operation in made)
        if not made or None in numbers or len(wanted) != 1 or not single:
            continue
        (splits,) = wanted
        if any(splits) and any(splits != shardings.get(operation.outputs[0]) for operation in made):
            yield Candidate(source, tuple(n for n in numbers if n is not None), splits)


def _is_read_elsewhere(subject: Subject, operation: Operation, source: Source, outputs: Collection[int]) -> bool:
    return any(
        value in outputs or any(reader.source != source for reader in subject.readers.get(value, ()))
        for value in operation.outputs
    )


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
