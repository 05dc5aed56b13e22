"""Lists the collectives of the user's compiled program, each with its line, value, dims and cause.

Where XLA has joined several collectives into one, each operand is listed by itself: they have causes of their own.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

from ..engine.code.operations import Operation
from ..engine.code.source import Source
from ..engine.collectives.kinds import EACH, KINDS
from ..engine.jax_programs import numbers_in
from ..engine.specs.spec import Axes
from ..engine.verifying.hlo import HloCollective, read_collectives
from .around import Around
from .causes import Cause, Causes
from .prices import Price
from .sentences import held, sentence
from .started import Starts
from .subject import Subject

_TURNS, _BRANCH = "each iteration of a loop whose trip count depends on data", "each time its branch is taken"
# What a sum over all collectives counts of these.
COUNTED = {_TURNS: "one iteration of each loop whose trip count depends on data", _BRANCH: "every branch"}
_SUMS = ("looked_up", "summed")
# Causes by which the operation's result is sent, and not what it reads.
_OF_RESULTS = (*_SUMS, "read")


@dataclasses.dataclass(frozen=True)
class Explained:
    """One collective of the compiled program, or one operand of it.

    Attributes:
        kind: all-reduce, all-gather, reduce-scatter, all-to-all or collective-permute.
        axes: the mesh axes, major first; None where the devices that take part are those of no set of axes.
        payload_bytes: of its operand on one device, one execution.
        wire_bytes: bytes that one device sends, one execution (ring).
        times: executions in one run of the program; see `counted`.
        dtype: of its operand, as it is executed.
        shape: of its operand on one device; of an all-to-all the part that each device gets, where XLA cuts it.
        value: what is sent, as it is called in the user's code, or what it is of.
        dims: the dims concerned.
        source: the user's line; of the backward pass the one that is differentiated. None where XLA has kept no name.
        because: why it is there.
        started_by: the argument, constraint or result that split each of those dims over the axes.
        cause: one of those that `causes.py` lists; None where no operation is known.
        phase: "backward pass", or "recomputed under jax.checkpoint"; None for all else.
        counted: what only a run tells of its executions: of a loop that stops by its data `times` has one turn, and a
            branch counts as if it were taken.
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
    phase: str | None = None
    counted: tuple[str, ...] = ()
    seconds: float | None = None

    @property
    def is_explained(self) -> bool:
        """Whether its line, a dim and its cause are known; of those that the user sends by hand the line.

        What is stored may be an argument, which no line makes.
        """
        known = self.cause == "manual" or (bool(self.dims) and self.cause not in (None, "own"))
        return known and (self.source is not None or self.cause == "stored")


def explained(
    subject: Subject, causes: Causes, starts: Starts, text: str, price: Price | None = None
) -> tuple[Explained, ...]:
    """Returns the collectives of a compiled program, in its order; those in which each device is alone send nothing."""
    around, axes = Around(text), subject.jitted.axes
    found = []
    once, twice = (read_collectives(text, axes, unknown_trips=trips) for trips in (1, 2))
    for collective, again in zip(once, twice, strict=True):
        if collective.axes == () or not collective.payload_bytes or not collective.times:
            continue
        over = collective.axes or around.varied(collective.name, axes)
        parts = KINDS[collective.kind].sent(around.group(collective.name, math.prod(axes.values())))
        of = (_TURNS, again.times != collective.times), (_BRANCH, collective.conditional)
        counted = tuple(what for what, holds in of if holds)
        for position, (size, shape) in enumerate(_operands(collective)):
            cause = _cause(causes, around, collective, position, over)
            started_by = starts.of(cause.dims, over, cause.name in _SUMS) if cause else ()
            row = _explained(subject, collective, Operand(size, shape, size * parts), cause, started_by)
            found.append(dataclasses.replace(row, counted=counted, seconds=_seconds(subject, row, cause, price)))
    return tuple(found)


def _operands(collective: HloCollective) -> list[tuple[int, tuple[int, ...]]]:
    """The bytes and the shape of each operand on one device."""
    if KINDS[collective.kind].way == EACH:
        # XLA may cut its one operand into those that each device gets.
        return [(collective.payload_bytes, collective.shapes[0])]
    return [*zip(collective.operands, collective.shapes, strict=True)]


def _cause(causes: Causes, around: Around, collective: HloCollective, position: int, over: Axes) -> Cause | None:
    """The cause of one operand: of what the collective is named after, else of what is around it."""
    own, is_joined = numbers_in(collective.where), len(_operands(collective)) > 1
    numbers = own if own and not is_joined else around.numbers(collective.name, position) or own
    cause = causes.of(numbers, collective.kind, over)
    if cause is None and (passed := around.passed(collective.name, position)):
        return causes.of_passed(*passed, over)
    return cause


def _seconds(subject: Subject, row: Explained, cause: Cause | None, price: Price | None) -> float | None:
    if price is None or not row.axes:
        return None
    return price(row.kind, row.axes, row.payload_bytes, _dtype(subject, cause) or row.dtype, row.dtype)


def _dtype(subject: Subject, cause: Cause | None) -> str | None:
    """The dtype of what is sent, as the user has it."""
    values = [*(found.value for found in cause.dims), *cause.made] if cause else []
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
        return Explained(*facts, "?", (), None, "XLA kept no name of its origin.")
    return Explained(
        *facts,
        _sent(subject, cause),
        tuple(dict.fromkeys(found.dim for found in cause.dims if found.dim)),
        cause.source,
        sentence(subject, cause, collective.kind, axes),
        started_by,
        cause.name,
        phase_of(cause.operation) if cause.operation else None,
    )


def _sent(subject: Subject, cause: Cause) -> str:
    """What is sent: a result that must come out otherwise, adds up, or is read otherwise; else what is split."""
    if cause.place and cause.operation:
        return cause.place
    split = [found.value for found in held(subject, cause)]
    values = [*cause.made, *split] if cause.name in _OF_RESULTS else [*split, *cause.made]
    return subject.called(values[0]) if values else "?"


def phase_of(operation: Operation) -> str | None:
    """Returns which pass an operation is of, where that is not the forward pass."""
    if operation.rematerialised:
        return "recomputed under jax.checkpoint"
    return "backward pass" if operation.backward else None
