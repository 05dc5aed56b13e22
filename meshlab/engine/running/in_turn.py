"""Keeps collectives in one order on all simulated devices, where XLA for CPU would not.

    conditional (an all-gather inside)       started: its all-gather may be yet to come
    all-gather                               may start now, and meet the one inside on another device

XLA for CPU runs an operation when the arrays that it reads are there. Collectives take turns, whatever they read; but a
loop or a branch has had its turn when it is started, and the collectives inside may come later
(`xla/runtime/execution_graph.cc`: a resource makes a scheduling edge). Where one beside it comes first on one device
and last on another, the two wait for each other for ever, or take each other's data. A barrier does not help: it keeps
arrays apart that are not the same, and says nothing of when they are made.

So what XLA has compiled is read, and where that may happen the program is compiled again, with every collective, loop
and branch reading a number of what the last one made.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ..code.flatten import Flattener, flatten
from ..code.loops import LOOPS, carried, trip_count
from ..code.operations import Block, Input, Literal, Operation
from ..collectives.kinds import KINDS
from ..rules.per_shard import bind
from .interpret import run_blocks

# What is made of the function of shards.
Turned = Callable[[Callable], Callable]
Values = dict[int, Any]

_HEADER = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) .*\{$")
_LINE = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = (?:\(.*?\)|\S+) ([a-z][\w\-]*)\(([^)]*)\)(.*)$")
_CALLED = re.compile(r"(?:body|condition|to_apply|\w+_computations?)=(%[\w.\-]+|\{[^}]*\})")
_NAME = re.compile(r"%([\w.\-]+)")
_REGIONS = ("while", "conditional", "call")


def compiled(
    build: Callable[[Turned], Any], arguments: Sequence[Any], options: Mapping[str, Any], platform: str
) -> jax.stages.Compiled:
    """Compiles a function; again, with its collectives in turn, where XLA for CPU would run two at once.

    Args:
        build: returns the function that is compiled. It is given what makes one function of shards of another.
        arguments: what it is lowered for.
        options: of the compiler.
        platform: of the devices.
    """
    made = build(lambda function: function).lower(*arguments).compile(compiler_options=dict(options))
    if platform == "cpu" and any(at_once(made)):
        made = build(in_turn).lower(*arguments).compile(compiler_options=dict(options))
    return made


# What was compiled


class _Line(NamedTuple):
    """What an instruction of HLO reads, which computations it calls, and which part of a tuple it takes."""

    name: str
    opcode: str
    reads: tuple[str, ...]
    calls: tuple[str, ...]
    part: int


def at_once(executable: jax.stages.Compiled) -> Iterator[tuple[str, str]]:
    """Yields the loops and branches of a compiled program with collectives inside, each with what may run beside them.

    That is what stands behind them in its text: a collective in front has ended when they start.
    """
    computations = _computations(executable.as_text() or "")

    @functools.cache
    def communicates(computation: str) -> bool:
        return any(map(has_turn, computations.get(computation, ())))

    def has_turn(line: _Line) -> bool:
        return line.opcode in KINDS or (line.opcode in _REGIONS and any(map(communicates, line.calls)))

    for lines in computations.values():
        turns = {line.name: line.opcode in _REGIONS for line in lines if has_turn(line)}
        if any(turns.values()):
            yield from _unordered(lines, turns)


def _unordered(lines: Sequence[_Line], turns: Mapping[str, bool]) -> Iterator[tuple[str, str]]:
    """Yields pairs of what takes turns, a region first, of which the second one reads no array that the first makes."""
    after: dict[str, Any] = {}
    regions: list[str] = []
    for line in lines:
        read = [after.get(each, frozenset()) for each in line.reads]
        if line.opcode == "tuple":
            after[line.name] = read
        elif line.opcode in ("opt-barrier", "get-tuple-element") and read and isinstance(read[0], list):
            after[line.name] = read[0] if line.opcode == "opt-barrier" else read[0][line.part]
        else:
            known = frozenset().union(*map(_together, read))
            if line.name in turns:
                yield from ((region, line.name) for region in regions if region not in known)
                regions += [line.name] if turns[line.name] else []
                known |= {line.name}
            after[line.name] = known


def _together(after: Any) -> frozenset[str]:
    return frozenset().union(*map(_together, after)) if isinstance(after, list) else after


def _computations(text: str) -> dict[str, list[_Line]]:
    """Reads what is needed here of all lines; `verifying/hlo_text.py` reads all, and takes ten times as long."""
    found: dict[str, list[_Line]] = {}
    lines: list[_Line] = []
    for raw in text.splitlines():
        if match := _LINE.match(raw):
            name, opcode, reads, rest = match.groups()
            part = re.search(r"index=(\d+)", rest) if opcode == "get-tuple-element" else None
            calls = _NAME.findall(" ".join(_CALLED.findall(rest))) if opcode in _REGIONS else ()
            lines.append(_Line(name, opcode, tuple(_NAME.findall(reads)), tuple(calls), int(part[1]) if part else 0))
        elif match := _HEADER.match(raw):
            lines = found.setdefault(match[1], [])
    return found


# What is compiled again


def in_turn(function: Callable) -> Callable:
    """Returns a function of shards in which every collective, loop and branch reads what the one before has made."""

    def run(*arrays: Any) -> Any:
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(*arrays)
        code = flatten(closed, _AsTraced)
        values = {**code.constants, **dict(zip(code.block.inputs, arrays, strict=False))}
        results = map(jnp.asarray, _Turns().run(code.block, values))
        return jax.tree.unflatten(jax.tree.structure(shapes), results)

    return run


class _AsTraced(Flattener):
    """Leaves barriers and operations as they are."""

    parts_barriers = False

    def expanded(self, equation: Any) -> Any | None:
        return None


class _Turns:
    """Runs the operations of a block, and of the blocks inside that are part of it, one collective after the other."""

    def __init__(self):
        self.last: Sequence[Any] = ()

    def run(self, block: Block, values: Values) -> list[Any]:
        """Evaluates a block that reads `values`, to which it adds its results; returns its outputs."""
        for operation in block.operations:
            operands, is_apart = _read(values, operation.inputs), _is_apart(operation)
            has_turn = _communicates(operation) and (is_apart or not operation.blocks)
            for place in _waiting(operation, operands) if has_turn and self.last else ():
                operands[place] = _after(self.last, operands[place])
            results = self.results(operation, operands, values, is_apart)
            values.update(zip(operation.outputs, results, strict=True))
            if has_turn:
                self.last = [jnp.asarray(each) for each in results if jnp.size(each)]
        return _read(values, block.outputs)

    def results(self, operation: Operation, operands: list[Any], values: Values, is_apart: bool) -> Sequence[Any]:
        if not operation.blocks:
            with jax.named_scope("/".join(operation.scope)):
                return bind(operation, operands, operation.params)

        def evaluate(number: int, arrays: Sequence[Any]) -> list[Any]:
            block = operation.blocks[number]
            known = values | dict(zip(block.inputs, arrays, strict=True))
            return (_Turns() if is_apart else self).run(block, known)

        if is_apart or operation.name not in LOOPS:
            return run_blocks(operation, operands, evaluate)
        # XLA makes no loop of one iteration.
        count = carried(operation)
        made = evaluate(0, [*operands[:count], *(stack[0] for stack in operands[count:])])
        return [*made[:count], *(jnp.asarray(each)[None] for each in made[count:])]


def _read(values: Values, inputs: Sequence[Input]) -> list[Any]:
    return [each.value if isinstance(each, Literal) else values[each] for each in inputs]


def _communicates(operation: Operation) -> bool:
    """Says whether an operation reaches other devices, by itself or inside."""
    if operation.blocks:
        return any(_communicates(each) for block in operation.blocks for each in block.operations)
    names = operation.params.get("axis_name", operation.params.get("axes"))
    over = names if isinstance(names, tuple | list | frozenset) else (names,)
    return operation.name != "axis_index" and any(isinstance(each, str) for each in over)


def _is_apart(operation: Operation) -> bool:
    """Says whether an operation's blocks run by themselves: XLA makes no loop of one iteration."""
    return operation.name == "cond" or (operation.name in LOOPS and trip_count(operation) != 1)


def _waiting(operation: Operation, operands: Sequence[Any]) -> Iterable[int]:
    """Returns which operands wait: the number of a branch, the smallest array that a loop carries, or all of them."""
    if operation.name == "cond":
        return (0,)
    if operation.name not in LOOPS:
        return range(len(operands))
    sizes = {jnp.size(each): place for place, each in enumerate(operands[: carried(operation) or None])}
    return [sizes[min(sizes.keys() - {0})]] if sizes.keys() - {0} else ()


def _after(made: Sequence[jax.Array], array: Any) -> Any:
    """Returns an array as it is, once others are there: it reads a number of each, which XLA cannot know to be idle."""
    never = lax.optimization_barrier(jnp.zeros((), jnp.bool_))
    reads = functools.reduce(jnp.logical_or, [jnp.real(each).ravel()[0] > 0 for each in made])
    return jnp.where(jnp.logical_and(never, reads), jnp.zeros_like(array), array)
