"""Knows the user's program as meshlab does: its operations, with the user's lines, and a name for every axis.

subject = subject_of(jitted, names={"params/*": "embed hidden"})
subject.makers[17]          the operation whose equation has that number
subject.dims(42)            ("batch", "x.1"): the user's names, else that of the first argument which has the axis
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from jax.sharding import NamedSharding, PartitionSpec

from ..engine.code.flatten import flatten
from ..engine.code.loops import LOOPS, carried
from ..engine.code.operations import Code, Operation, walk
from ..engine.code.source import Source, source_of
from ..engine.jax_programs import number_of
from ..engine.programs.signatures import factors_by_operation
from ..engine.programs.spread_names import Names
from ..engine.rules import Factors
from ..engine.specs.spec import Axes
from .jitted import Jitted
from .naming.called import Called, Described
from .naming.given import coming_along, given, naming
from .naming.targets import assigned, held

# How a value is asked for: of each axis its mesh axes; None where anything goes.
Asked = tuple[Axes | None, ...]
_MADE_UP = re.compile(r"~\d+")


class Constrained(NamedTuple):
    """A value that `with_sharding_constraint` constrains.

    Attributes:
        value: that comes out of it.
        spec: as the user has it.
        splits: the mesh axes of each axis; None where anything goes.
        source: the user's line.
        equation: that does it.
    """

    value: int
    spec: PartitionSpec
    splits: Asked
    source: Source | None
    equation: Any


@dataclasses.dataclass(frozen=True, eq=False)
class Subject:
    """The user's program.

    Attributes:
        jitted: as `jit` compiles it.
        code: its operations.
        names: of each value's axes.
        factors: of each operation without blocks.
    """

    jitted: Jitted
    code: Code
    names: tuple[Names, ...]
    factors: Mapping[Operation, Factors]

    @functools.cached_property
    def makers(self) -> dict[int, Operation]:
        """The operations by the numbers of their equations; a constraint is part of what makes its value."""
        numbered = ((number_of(operation.equation), operation) for operation in walk(self.code.block))
        makers = {number: operation for number, operation in numbered if number is not None}
        for value, equation in self.code.constraints:
            own, maker = number_of(equation), self.made_by.get(value)
            if own is not None and maker is not None:
                makers[own] = maker
        return makers

    @functools.cached_property
    def made_by(self) -> dict[int, Operation]:
        """The operation that makes each value."""
        return {value: operation for operation in walk(self.code.block) for value in operation.outputs}

    @functools.cached_property
    def readers(self) -> dict[int, list[Operation]]:
        """The operations that read each value."""
        found: dict[int, list[Operation]] = {}
        for operation in walk(self.code.block):
            for value in operation.reads:
                found.setdefault(value, []).append(operation)
        return found

    @functools.cached_property
    def assigned(self) -> dict[int, str]:
        """The names that the user's lines assign values to."""
        return assigned(self.code, self.readers)

    @functools.cached_property
    def held(self) -> dict[int, str]:
        """The names that the user's lines assign constrained values to."""
        return held(self.code, self.readers)

    @functools.cached_property
    def handed_on(self) -> dict[int, int]:
        """For what a loop or a branch hands to what is inside the value that it comes from."""
        return {
            inside: outside
            for operation in walk(self.code.block)
            for block in operation.blocks
            for inside, outside in zip(block.inputs, operation.inputs, strict=False)
            if isinstance(outside, int)
        }

    @functools.cached_property
    def carried(self) -> frozenset[int]:
        """What loops change from turn to turn, as it stands inside."""
        loops = (operation for operation in walk(self.code.block) if operation.name in LOOPS)
        return frozenset(
            inside
            for loop in loops
            for block in loop.blocks
            for i, inside in enumerate(block.inputs[: carried(loop)])
            if loop.blocks[0].outputs[i] != inside
        )

    @functools.cached_property
    def places(self) -> dict[int, str]:
        """The place of each value that comes in or goes out."""
        block = self.code.block
        results = {v: p for v, p in zip(block.outputs, self.jitted.outputs, strict=True) if isinstance(v, int)}
        return results | dict(zip(block.inputs, self.jitted.arguments, strict=False))

    @functools.cached_property
    def constraints(self) -> tuple[Constrained, ...]:
        """The values that `with_sharding_constraint` constrains."""
        found = []
        for value, equation in self.code.constraints:
            if isinstance(sharding := equation.params.get("sharding"), NamedSharding):
                splits = of_spec(sharding.spec, len(self.names[value]))
                found.append(Constrained(value, sharding.spec, splits, source_of(equation), equation))
        return tuple(found)

    @functools.cached_property
    def on_inputs(self) -> dict[int, Constrained]:
        """The constraints on what comes into the program or a loop, by the numbers of their equations."""
        found = {number_of(one.equation): one for one in self.constraints if one.value not in self.made_by}
        return {number: one for number, one in found.items() if number is not None}

    def dims(self, value: int) -> Names:
        """The names of a value's axes."""
        return self.names[value]

    def passed_on(self, value: int) -> int | None:
        """The one operand of the operation that makes a value, axis by axis; None where there is no such."""
        maker = self.made_by.get(value)
        factors = self.factors.get(maker) if maker is not None else None
        if maker is None or factors is None or len(maker.inputs) != 1 or len(maker.reads) != 1:
            return None
        return maker.reads[0] if factors.operands[0] == factors.results[0] else None

    @functools.cached_property
    def quoted(self) -> Called:
        """Says what a value is called, names in backticks."""
        described = Described(
            self.code,
            self.dims,
            self.made_by,
            self.readers,
            self.places,
            self.held | self.assigned,
            self.handed_on,
            self.carried,
        )
        return Called(described)

    def called(self, value: int) -> str:
        """What a value is called."""
        return self.quoted(value).replace("`", "")

    def shortly(self, value: int) -> str:
        """What axes of a value are called after: its place, the name that it is assigned to, else what makes it."""
        if value in self.handed_on:
            return self.shortly(self.handed_on[value])
        operation = self.made_by.get(value)
        if value in self.places or operation is None:
            return self.places.get(value, "carried" if value in self.carried else "constant")
        return self.assigned.get(value) or self.held.get(value, operation.called)


def of_spec(spec: PartitionSpec, rank: int) -> Asked:
    """Returns the mesh axes of each axis of an array, as a spec has them."""
    known: dict[Any, Axes | None] = {None: (), PartitionSpec.UNCONSTRAINED: None}
    entries: tuple[Any, ...] = (*spec, *[None] * (rank - len(spec)))
    return tuple(known[e] if e in known else e if isinstance(e, tuple) else (e,) for e in entries)


def subject_of(jitted: Jitted, names: Mapping[str, Any] | None = None) -> Subject:
    """Names a program whose equations are numbered.

    Args:
        jitted: the program.
        names: the dims of arguments by their places or globs over them: {"params/w1": "embed hidden"}; see `given`.

    Raises:
        OwnError: a glob matches no argument, an argument has another number of axes, or two names meet on one axis.
    """
    code = flatten(jitted.closed)
    by_hand = given(code, jitted.arguments, names or {}, jitted.axes)
    named = naming(code, by_hand, coming_along(code, jitted.arguments, jitted.named, jitted.axes))
    subject = Subject(jitted, code, named.names, factors_by_operation(code, (), (), ()))
    called = _called_by_values(subject, _called_by_arguments(jitted, code, named.names))
    readable = tuple(tuple(name and _readable(name, called) for name in row) for row in named.names)
    return dataclasses.replace(subject, names=readable)


def _called_by_arguments(jitted: Jitted, code: Code, names: tuple[Names, ...]) -> dict[str, str]:
    """Names for axes that nobody named: after the first argument that has them and others, else after the first."""
    called: dict[str, str] = {}
    arguments = list(zip(code.block.inputs, jitted.arguments, strict=False))
    arguments.sort(key=lambda pair: len(names[pair[0]]) < 2)
    axes = [
        (name, f"{place}.{axis}")
        for value, place in arguments
        for axis, name in enumerate(names[value])
        if name and _MADE_UP.search(name)
    ]
    for name, axis in axes:
        called.setdefault(name, axis)
    for name, axis in axes:  # a part of an axis that stands nowhere by itself
        for made_up in _MADE_UP.findall(name):
            called.setdefault(made_up, axis)
    return called


def _called_by_values(subject: Subject, called: Mapping[str, str]) -> dict[str, str]:
    """The same, and names for axes that no argument has: after the first value that has them, `shard_map.0`."""
    every = dict(called)
    inside = {
        operation: [v for block in operation.blocks for v in block.inputs] for operation in walk(subject.code.block)
    }
    values = [value for operation, inputs in inside.items() for value in (*operation.outputs, *inputs)]
    axes = [(name, value, i) for value in values for i, name in enumerate(subject.dims(value)) if name]
    for alone in (True, False):  # a part of an axis may stand nowhere by itself
        for name, value, axis in axes:
            for made_up in _MADE_UP.findall(name):
                if made_up not in every and (made_up == name or not alone):
                    own = subject.shortly(value)
                    others = itertools.chain((own,), (f"{own}_{number}" for number in itertools.count(2)))
                    free = (f"{one}.{axis}" for one in others if f"{one}.{axis}" not in every.values())
                    every[made_up] = next(free)
    return every


def _readable(name: str, called: Mapping[str, str]) -> str:
    return called.get(name) or _MADE_UP.sub(lambda found: called.get(found[0], found[0]), name)
