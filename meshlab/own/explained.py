"""Lists the collectives of the user's compiled program, each with its line, value, dims and cause.

Where XLA has joined several collectives into one, each operand is listed by itself: they have causes of their own.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from ..engine.code.source import Source
from ..engine.collectives.kinds import EACH, KINDS
from ..engine.jax_programs import numbers_in
from ..engine.specs.spec import Axes
from ..engine.verifying.hlo import HloCollective, read_collectives
from ..engine.verifying.hlo_groups import read_groups
from ..engine.verifying.hlo_text import Computation, Instruction, parse_module
from .causes import Cause, Causes, Found
from .prices import Price
from .started import Starts, printed
from .subject import Constrained, Subject

# How far to look for an instruction of the user's around one that XLA made without a name.
_DEPTH = 4


@dataclasses.dataclass(frozen=True)
class Explained:
    """One collective of the compiled program, or one operand of it.

    Attributes:
        kind: all-reduce, all-gather, reduce-scatter, all-to-all or collective-permute.
        axes: the mesh axes, major first; None where the devices that take part are those of no set of axes.
        payload_bytes: of its operand on one device, one execution.
        wire_bytes: bytes that one device sends, one execution (ring).
        times: executions in one run of the program.
        dtype: of its operand, as it is executed.
        shape: of its operand on one device; of an all-to-all the part that each device gets, where XLA cuts it.
        value: what is sent, as it is called in the user's code.
        dims: the dims concerned.
        source: the user's line; None where XLA has kept no name.
        because: why it is there.
        started_by: the argument, constraint or result that split each of those dims over the axes.
        cause: one of those that `causes.py` lists; None where no operation is known.
        seconds: of one execution alone on its links, on the machine of the mesh that was given; None without one, and
            where the devices are those of no set of axes.
    """

    kind: str
    axes: Axes | None
    payload_bytes: int
    wire_bytes: float
    times: int
    dtype: str
    shape: tuple[int, ...]
    value: str
    dims: tuple[str, ...]
    source: Source | None
    because: str
    started_by: tuple[str, ...] = ()
    cause: str | None = None
    seconds: float | None = None

    @property
    def is_explained(self) -> bool:
        """Whether its line, a dim and its cause are known; of those that the user sends by hand the line."""
        known = self.cause == "manual" or (bool(self.dims) and self.cause not in (None, "own"))
        return known and self.source is not None


def explained(
    subject: Subject, causes: Causes, starts: Starts, text: str, price: Price | None = None
) -> tuple[Explained, ...]:
    """Returns the collectives of a compiled program, in its order; those in which each device is alone send nothing."""
    axes = subject.jitted.axes
    around = _Around(text)
    found = []
    for collective in read_collectives(text, axes, unknown_trips=1):
        if collective.axes == () or not collective.payload_bytes or not collective.times:
            continue
        own = numbers_in(collective.where)
        operands = [*zip(collective.operands, collective.shapes, strict=True)]
        if KINDS[collective.kind].way == EACH:
            # XLA may cut its one operand into those that each device gets.
            operands = [(collective.payload_bytes, collective.shapes[0])]
        joined = len(operands) > 1
        for position, (size, shape) in enumerate(operands):
            numbers = own if own and not joined else around.numbers(collective.name, position) or own
            over = collective.axes or around.varied(collective.name, axes)
            cause = causes.of(numbers, collective.kind, over)
            sent = size * KINDS[collective.kind].sent(around.group(collective.name, math.prod(axes.values())))
            started_by = starts.of(cause.dims, over) if cause else ()
            row = _explained(subject, collective, Operand(size, shape, sent), cause, started_by)
            if price and row.axes:
                dtype = _dtype(subject, cause) or row.dtype
                row = dataclasses.replace(row, seconds=price(row.kind, row.axes, size, dtype, row.dtype))
            found.append(row)
    return tuple(found)


def _dtype(subject: Subject, cause: Cause | None) -> str | None:
    """The dtype of what is sent, as the user has it."""
    values = [*(found.value for found in cause.dims), *cause.operation.outputs] if cause else []
    return str(subject.code.dtypes[values[0]]) if values else None


class Operand(NamedTuple):
    """What a collective sends.

    Attributes:
        payload: its bytes on one device.
        shape: on one device.
        sent: the bytes that one device sends.
    """

    payload: int
    shape: tuple[int, ...]
    sent: float


def _explained(
    subject: Subject, collective: HloCollective, operand: Operand, cause: Cause | None, started_by: tuple[str, ...]
) -> Explained:
    axes = collective.axes
    facts = (collective.kind, axes, operand.payload, operand.sent, collective.times, collective.dtype, operand.shape)
    if cause is None:
        return Explained(*facts, "?", (), None, "XLA has kept no name of what it is made of.")
    values = tuple(dict.fromkeys(found.value for found in _held(subject, cause)))
    dims = tuple(dict.fromkeys(found.dim for found in cause.dims if found.dim))
    sent = values[:1] if cause.name != "summed" else ()
    value = cause.place or next(map(subject.called, (*sent, *cause.operation.outputs)), "?")
    return Explained(
        *facts,
        value,
        dims,
        cause.source,
        sentence(subject, cause, collective.kind, axes),
        started_by,
        cause.name,
    )


def sentence(subject: Subject, cause: Cause, kind: str, axes: Axes | None) -> str:
    """Says in a sentence why a collective is there."""
    held = _held(subject, cause)
    split = dict.fromkeys("+".join(found.axes) for found in held if found.axes)
    made = [found.value for found in held if found.value in cause.operation.outputs]
    read = [subject.called(found.value) for found in held if found.value not in made]
    names = dict.fromkeys(found.dim for found in held if found.dim)
    values = dict.fromkeys(read or map(subject.called, made))
    form = {"otherwise": "several" if made else "otherwise", "stored": "asked"}.get(cause.name) if read else None
    return _SENTENCES[form or cause.name].format(
        dims=_quoted(names) or "an axis",
        dims_are="are" if len(names) > 1 else "is",
        values=_quoted(values),
        values_are="are" if len(values) > 1 else "is",
        over=" and ".join(split) or ("+".join(axes) if axes else "some mesh axes"),
        name=cause.operation.called,
        place=cause.place,
        how=f"it {_done(kind)}",
        done=_done(kind),
        each=_each(subject, held),
        wants=_wants(subject, cause.constraint, values),
    )


def _held(subject: Subject, cause: Cause) -> tuple[Found, ...]:
    """What is split, of what is asked for otherwise: operands; that itself where it is made of them axis by axis."""
    read = tuple(found for found in cause.dims if found.value not in cause.operation.outputs)
    if cause.constraint is None:
        return read if cause.place and read else cause.dims
    value = cause.constraint.value
    same = all(subject.dims(found.value) == subject.dims(value) for found in read)
    return tuple(dict.fromkeys(found._replace(value=value) for found in read)) if same else read


def _each(subject: Subject, dims: Iterable[Found]) -> str:
    """Says of some values how each is split: "`a` and `b` along `a.0` over y, `c` along `a.1` over x"."""
    values: dict[str, list[str]] = {}
    for dim, value, axes in dims:
        values.setdefault(f"along {_quoted([dim]) or 'an axis'} over {'+'.join(axes)}", []).append(
            subject.called(value)
        )
    return ", ".join(f"{_quoted(names)} {how}" for how, names in values.items())


def _wants(subject: Subject, constraint: Constrained | None, values: Collection[str]) -> str:
    """Says what a constraint stands at: one of the values, or what is made of them."""
    if constraint is None:
        return ""
    name = subject.called(constraint.value)
    what = "it" if name in values else f"`{name}`"
    return f"the constraint {printed(constraint.spec)} at {constraint.source or 'an unknown line'} wants {what}"


def _done(kind: str) -> str:
    """What a kind of collective does to an array, in words."""
    known = KINDS[kind]
    return "is moved" if known.moves_blocks else "is gathered" if known.shard and not known.sums else "is summed"


_SENTENCES = {
    "summed": "{name} sums {dims} of {values}, split over {over}.",
    "along": "{name} goes along {dims}, which {dims_are} split over {over}.",
    "otherwise": "{values} {values_are} split along {dims} over {over}, and the other arrays of {name} are not: {how}.",
    "several": "The arrays of {name} are split in several ways, {each}: one {done}.",
    "constrained": "{values} {values_are} split along {dims} over {over}, and {wants} otherwise: {how}.",
    "asked": "{values} {values_are} split along {dims} over {over}, and `{place}` has to come out otherwise: {how}.",
    "stored": "`{place}` must come out with {dims} split otherwise over {over} than it is made.",
    "read": "It is made whole, and read where {dims} of {values} {dims_are} split over {over}.",
    "made": "{dims} of {values} {dims_are} split over {over}, and what reads it needs it whole.",
    "hop": "One hop of a move: {dims} of {values} goes to or from other mesh axes.",
    "manual": "It is your own: {name} says what each device sends.",
    "whole": "{values} {values_are} split along {dims} over {over}, and so is what {name} makes of it; XLA's"
    " partitioner does not run it so: {how}.",
    "own": "No cause was found beside {name}, which XLA's partitioner runs so.",
}


def _quoted(names: Iterable[str]) -> str:
    return " and ".join(f"`{name}`" for name in list(dict.fromkeys(names))[:3])


_Step = Callable[[Instruction], list[Instruction]]


class _Around:
    """Finds the equations around an instruction that has no name of its own, or has joined several."""

    def __init__(self, text: str):
        self.at: dict[str, tuple[Computation, Instruction]] = {
            instruction.name: (computation, instruction)
            for computation in parse_module(text).values()
            for instruction in computation.instructions.values()
        }

    def numbers(self, name: str, position: int) -> tuple[tuple[int, ...], ...]:
        """Returns the equations of the nearest instruction with a name that makes an operand, or reads the result."""
        computation, instruction = self.at[name]
        operand = computation.instructions.get(instruction.operand_names[position])
        makers = self._near([operand] if operand else [], lambda one: self._makers(computation, one))
        readers = self._near([instruction], lambda one: self._readers(computation, one))
        return next((found for one in (*makers, *readers) if (found := numbers_in(one.op_name))), ())

    def group(self, name: str, devices: int) -> int:
        """Returns how many devices take part together; a permute, whose devices send to one other, has two."""
        groups = self.at[name][1].attribute("replica_groups")
        return read_groups(groups, devices).shape[1] if groups is not None else 2

    def varied(self, name: str, axes: Mapping[str, int]) -> Axes:
        """Returns the mesh axes in which devices that take part together differ, if not by all of any set of axes."""
        groups = self.at[name][1].attribute("replica_groups")
        if groups is None:
            return tuple(axes)
        ids = read_groups(groups, math.prod(axes.values()))
        places = np.unravel_index(ids, tuple(axes.values()))
        return tuple(axis for axis, place in zip(axes, places, strict=True) if (place != place[:, :1]).any())

    def _near(
        self, start: list[Instruction], step: Callable[[Instruction], list[Instruction]]
    ) -> Iterator[Instruction]:
        """Yields instructions, what is a step away from them, and so on, near ones first."""
        level = start
        for _ in range(_DEPTH):
            yield from level
            level = list({one.name: one for here in level for one in step(here)}.values())

    def _makers(self, computation: Computation, instruction: Instruction) -> list[Instruction]:
        return [computation.instructions[n] for n in instruction.operand_names if n in computation.instructions]

    def _readers(self, computation: Computation, instruction: Instruction) -> list[Instruction]:
        return [one for one in computation.instructions.values() if instruction.name in one.operand_names]
