"""Finds collectives that the compiler merged: the plan counts two, the compiled program runs one.

The plan's normal form knows one value again in the spellings that training steps mix (`passes/identities.py`); XLA
knows hundreds more. Where the compiled program has fewer collectives than were predicted, that is no error if each
missing one has its like among those that are there: the same kind over the same axes, of an operand of the same dtype
and shape. Such a one is *merged*, and listed by name. Anything else that differs is a difference.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Iterable

from ..collectives.kinds import ALL_TO_ALL
from ..plans.collective import Collective
from .hlo import HloCollective

# What XLA may cut into one operand for each device.
_CUT = ALL_TO_ALL.name
# Kind, axes, dtype, and the sizes of the operand's axes: in ascending order, for compilers turn and reshape arrays. Of
# an all-to-all it is the number of its elements.
Like = tuple[str, tuple[str, ...], str, tuple[int, ...]]


@dataclasses.dataclass(frozen=True)
class MergedCollective:
    """Predicted collectives of which the compiled program has fewer, and their like.

    Attributes:
        kind: all-reduce, all-gather, reduce-scatter, all-to-all or collective-permute.
        axes: the mesh axes, in the mesh's order.
        dtype: of the operand, as it is executed.
        shape: the sizes of the operand's axes on one device, in ascending order; of an all-to-all its elements.
        predicted: executions, as planned.
        compiled: executions in the compiled program.
        payload_bytes: of one execution, on one device.
        values: the names of the values sent, each with the user's line.
    """

    kind: str
    axes: tuple[str, ...]
    dtype: str
    shape: tuple[int, ...]
    predicted: int
    compiled: int
    payload_bytes: int
    values: tuple[str, ...]

    def __str__(self):
        shape = "×".join(map(str, self.shape)) or "scalar"
        return (
            f"merged by the compiler: {self.kind} over {'+'.join(self.axes)} of {self.dtype}[{shape}] runs"
            f" {_often(self.compiled)} where {self.predicted} were predicted, each of {self.payload_bytes:,} B:"
            f" {', '.join(self.values)}"
        )


def _often(times: int) -> str:
    return "once" if times == 1 else f"{times} times"


def merged(
    planned: Iterable[Collective],
    compiled: Iterable[HloCollective],
    axes: Iterable[str],
    executed: Callable[[str], str],
) -> tuple[MergedCollective, ...] | None:
    """Returns the collectives that the compiler merged, or None where the two differ by anything else.

    Args:
        planned: a plan's collectives.
        compiled: those of the compiled program.
        axes: the mesh's, in order.
        executed: the dtype in which a platform executes a collective of another dtype.
    """
    order = {axis: place for place, axis in enumerate(axes)}
    expected: Counter[Like] = Counter()
    planned_alike: dict[Like, list[Collective]] = {}
    for c in planned:
        like = c.kind, tuple(sorted(c.axes, key=order.__getitem__)), executed(c.dtype), _sizes(c.kind, c.shape)
        expected[like] += c.counted
        planned_alike.setdefault(like, []).append(c)
    there: Counter[Like] = Counter()
    payload: dict[Like, int] = {}
    for c in compiled:
        pieces = [((shape,), size) for shape, size in zip(c.shapes, c.operands, strict=True)]
        for shapes, size in [(c.shapes, c.payload_bytes)] if c.kind == _CUT else pieces:
            like = c.kind, c.axes or ("?",), c.dtype, _sizes(c.kind, *shapes)
            if c.axes != () and size and c.times:
                there[like] += c.times
                payload[like] = size
    expected = Counter({like: n for like, n in expected.items() if n and 0 not in like[3]})
    if there - expected or any(like not in there for like in expected):
        return None
    return tuple(
        MergedCollective(
            *like, expected[like], there[like], payload[like], tuple(dict.fromkeys(map(_name, planned_alike[like])))
        )
        for like in expected - there
    )


def _sizes(kind: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    if kind == _CUT:
        return (sum(map(math.prod, shapes)),)
    (shape,) = shapes
    return tuple(sorted(size for size in shape if size != 1))


def _name(collective: Collective) -> str:
    return f"{collective.value} ({collective.source})" if collective.source else collective.value
