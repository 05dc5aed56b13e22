"""Finds the fewest `with_sharding_constraint` lines with which XLA's partitioner sends less; each is compiled first.

    hidden = jax.lax.with_sharding_constraint(hidden, P("data", None))      # train.py:12; saves 1.2 MB

A value that a line of the user's assigns is a candidate where XLA has left an axis whole which the arguments split: the
batch's mesh axes first, for every product reads its rows, then those of weights. All candidates together say what may
be had; of these, halves are left out as long as no more is sent without them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

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


@dataclasses.dataclass(frozen=True)
class Line:
    """One line to write behind another.

    Attributes:
        source: the user's line, which assigns the value.
        value: its name there.
        spec: what it is constrained to.
        saves: bytes that a device sends more without this line, all the others in place.
        number: of the equation that makes the value.
    """

    source: Source
    value: str
    spec: PartitionSpec
    saves: float
    number: int

    @property
    def code(self) -> str:
        """The line to write."""
        entries = ", ".join(repr(entry) for entry in self.spec)
        return f"{self.value} = jax.lax.with_sharding_constraint({self.value}, P({entries}))"

    def to_dict(self) -> dict[str, Any]:
        """Returns the line as plain data."""
        return {"code": self.code, "behind": str(self.source), "saves": self.saves}

    def __str__(self):
        return f"{self.code}   # behind {self.source}; saves {round(self.saves):,} B"


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
    wanted = dict(_candidates(subject, shardings))
    known: dict[frozenset[int], float] = {frozenset(): before}

    def bytes_with(numbers: Iterable[int]) -> float:
        key = frozenset(numbers)
        if key not in known:
            specs = {number: NamedSharding(subject.jitted.mesh, _spec(wanted[number])) for number in key}
            known[key] = sent(dataclasses.replace(subject.jitted, closed=constrained(subject.jitted.closed, specs)))
        return known[key]

    after = bytes_with(wanted)
    if after >= before:
        return Lines((), before, before)
    kept = _fewest(list(wanted), (), lambda numbers: bytes_with(numbers) <= after)
    after = bytes_with(kept)
    saves = {number: bytes_with(n for n in kept if n != number) - after for number in kept}
    lines = [
        Line(operation.source, operation.source.target, _spec(wanted[number]), saves[number], number)
        for number in kept
        if (operation := subject.makers[number]).source is not None and operation.source.target is not None
    ]
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


def _candidates(subject: Subject, shardings: Mapping[int, Splits | None]) -> Iterator[tuple[int, Splits]]:
    """Yields equations that make what a line assigns, where XLA splits it otherwise than the arguments ask for."""
    last: dict[Source, Operation] = {}
    for operation in walk(subject.code.block):
        source = operation.source
        if source is not None and source.target and not operation.backward and not operation.blocks:
            last[source] = operation
    axes_of = _asked(subject)
    for operation in last.values():
        number = number_of(operation.equation)
        if number is None or len(operation.outputs) != 1:
            continue
        (value,) = operation.outputs
        splits = _wanted(subject, value, axes_of)
        if any(splits) and splits != shardings.get(value):
            yield number, splits


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
