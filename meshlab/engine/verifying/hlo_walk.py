"""Counts how often each computation of a compiled program runs.

A program is a tree of calls from its entry: fusions and calls run once, a loop's body as often as its trip count says,
its condition once more, and of a conditional's branches one. `visits` walks to every computation in which a collective
stands, with the product of the trip counts on the way.

    ENTRY --while, 10 trips--> body --while, 3 trips--> inner body        visited with times=30

XLA for CPU and GPU writes a loop's trip count into the text. Where it does not, the count is inferred from the three
things that fix it, each a constant: where the counter starts, what is added to it, and what it is compared with.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..errors import RunError
from .hlo_text import MOVING, Computation, Instruction

Module = Mapping[str, Computation]

# Attributes that mention instructions, not computations.
_NOT_CALLS = ("control-predecessors", "origin")
_SAME = ("copy", "copy-start", "copy-done", "bitcast", "convert", "opt-barrier")
_FLIPPED = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE"}


@dataclasses.dataclass(frozen=True)
class Visit:
    """One way to reach a computation.

    Attributes:
        computation: that is reached.
        times: how often it runs by this way.
        conditional: whether the way goes through a branch.
    """

    computation: Computation
    times: int
    conditional: bool


def moves(instruction: Instruction) -> bool:
    """Tells whether an instruction moves data between devices; the end of an asynchronous one does not."""
    if instruction.opcode in ("send", "recv"):
        return instruction.attribute("is_host_transfer") != "true"
    return instruction.opcode.removesuffix("-start") in MOVING


def visits(module: Module, unknown_trips: int | None, wanted: Callable[[Instruction], bool] = moves) -> Iterator[Visit]:
    """Yields every computation in which a collective stands, there or deeper, once for each way to it.

    Args:
        module: the program.
        unknown_trips: taken for a loop whose trip count is not known; None makes that an error.
        wanted: which instructions are looked for, if not collectives.
    """
    moving = _holding(module, wanted)
    waiting = [Visit(next(c for c in module.values() if c.entry), 1, False)]
    reached = set()
    while waiting:
        visit = waiting.pop(0)
        yield visit
        reached.add(visit.computation.name)
        for instruction in visit.computation.instructions.values():
            for key, called in _calls(instruction, module):
                if called in moving:
                    times = visit.times * _executions(instruction, key, visit.computation, module, unknown_trips)
                    branch = visit.conditional or instruction.opcode == "conditional"
                    waiting.append(Visit(module[called], times, branch))
    if unreached := sorted(moving - reached):
        raise RunError(
            f"A collective is in the computation `%{unreached[0]}`, which no known call reaches,"
            " so its executions cannot be counted."
        )


def _calls(instruction: Instruction, module: Module) -> Iterator[tuple[str, str]]:
    """Yields (attribute, computation) for every computation that an instruction calls."""
    # The end of an asynchronous call mentions again what its start has called.
    if instruction.opcode.endswith(("-done", "-update")):
        return
    for key, name in instruction.mentions():
        if name in module and key not in _NOT_CALLS:
            yield key, name


def _holding(module: Module, wanted: Callable[[Instruction], bool]) -> set[str]:
    """Returns the computations in which an instruction that is looked for stands, there or deeper."""
    calls = {
        computation.name: {name for i in computation.instructions.values() for _, name in _calls(i, module)}
        for computation in module.values()
    }
    moving = {c.name for c in module.values() if any(map(wanted, c.instructions.values()))}
    while grown := {name for name in calls if name not in moving and calls[name] & moving}:
        moving |= grown
    return moving


def _executions(caller: Instruction, key: str, computation: Computation, module: Module, unknown: int | None) -> int:
    """Returns how often one execution of `caller` runs the computation that its attribute `key` names."""
    if caller.opcode != "while":
        return 1
    trips = trip_count(caller, computation, module)
    trips = unknown if trips is None else trips
    if trips is None:
        raise RunError(
            f"The trip count of the loop `%{caller.name}` is not in the compiled text, and it contains a collective."
            " Use a loop of fixed length (lax.scan), or pass its trip count as unknown_trips."
        )
    return trips + 1 if key == "condition" else trips


def trip_count(loop: Instruction, computation: Computation, module: Module) -> int | None:
    """Returns the trip count of a `while`: what XLA wrote, else what follows from constants, else None."""
    if written := re.search(r"known_trip_count\W+n\W+(\d+)", loop.attributes):
        return int(written[1])
    called = dict(loop.mentions())
    condition, body = module.get(called.get("condition", "")), module.get(called.get("body", ""))
    if condition is None or body is None:
        return None
    test = _expression(condition.root, condition, module, _carry)
    if test is None or test[0] != "compare":
        return None
    _, direction, left, right = test
    if left is not None and left[0] == "constant":
        direction, left, right = _FLIPPED.get(direction), right, left
    if left is None or right is None or left[0] != "carried" or right[0] != "constant":
        return None
    start = _item(_expression(loop.operand_names[0], computation, module, _unknown), left[1])
    step = _item(_expression(body.root, body, module, _carry), left[1])
    if start is None or start[0] != "constant" or step is None or step[:2] != ("add", left):
        return None
    return _count(start[1], step[2], direction, right[1])


def _carry(place: int) -> Any:
    return ("carry",) if place == 0 else None


def _unknown(_place: int) -> Any:
    return None


def _count(start: int, step: Any, direction: str | None, bound: int) -> int | None:
    if step is None or step[0] != "constant" or not step[1]:
        return None
    step = step[1]
    if direction in ("LT", "LE") and step > 0:
        return len(range(start, bound + (direction == "LE"), step))
    if direction in ("GT", "GE") and step < 0:
        return len(range(start, bound - (direction == "GE"), step))
    return None


def _item(value: Any, index: int) -> Any:
    if value == ("carry",):
        return ("carried", index)
    return value[1](index) if value is not None and value[0] == "tuple" else None


def _expression(name: str, computation: Computation, module: Module, argument: Callable[[int], Any]) -> Any:
    """Returns the expression of a value, as far as loops' counters need it, or None.

    Values are ("constant", n), ("carry",): the loop's carried tuple, ("carried", index): an item of it,
    ("tuple", index -> item), ("add", a, b) and ("compare", direction, a, b). Nothing is looked at before it is asked
    for: a loop carries a whole model beside its counter.

    Args:
        name: of the value.
        computation: in which it is made.
        module: the program.
        argument: the expressions of the computation's parameters, by number.
    """
    instruction = computation.instructions[name]
    opcode = instruction.opcode

    def operand(place: int) -> Any:
        return _expression(instruction.operand_names[place], computation, module, argument)

    if opcode == "constant":
        return ("constant", int(instruction.operands[0])) if re.fullmatch(r"-?\d+", instruction.operands[0]) else None
    if opcode == "parameter":
        return argument(int(instruction.operands[0]))
    if opcode in _SAME:
        return operand(0)
    if opcode in ("fusion", "call"):
        called = [module[name] for _, name in _calls(instruction, module)]
        return _expression(called[0].root, called[0], module, operand) if called else None
    if opcode == "get-tuple-element":
        return _item(operand(0), int(instruction.attribute("index") or 0))
    if opcode == "tuple":
        return ("tuple", operand)
    if opcode == "compare":
        return ("compare", instruction.attribute("direction") or "", operand(0), operand(1))
    if opcode != "add" or "[]" not in instruction.type:
        return None
    # A sum of a counter and a constant, in either order.
    first, second = sorted((operand(0), operand(1)), key=lambda part: part is None or part[0] == "constant")
    return ("add", first, second)
