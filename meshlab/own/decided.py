"""Reads how each value of a program is sharded, as XLA's propagation decided, before its partitioner ran.

    decided(code, numbers, compiled.before, axes)      {0: Spec((("data",), ())), 17: …}

Every instruction there is whole, with its sharding. One that is made of a numbered equation, and has the shape of its
result, is that value; what it reads are the equation's operands, among them those that loops hand over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from ..engine.code.operations import Code, Operation
from ..engine.jax_programs import numbers_in
from ..engine.specs.spec import Axes
from ..engine.verifying.hlo_text import Computation, Instruction, parse_module, shapes
from .hlo_shardings import of_each, splits

Splits = tuple[Axes, ...]


def decided(
    code: Code, makers: Mapping[int, Operation], before: str, axes: Mapping[str, int]
) -> dict[int, Splits | None]:
    """Returns the mesh axes of each axis of each value, by number; None where they are no whole mesh axes.

    Args:
        code: the program.
        makers: its operations by the numbers of their equations.
        before: the program's text before the partitioner.
        axes: the mesh's sizes by name, major first.
    """
    found: dict[int, Splits | None] = {}
    for computation in parse_module(before).values():
        for instruction in computation.instructions.values():
            if computation.entry and instruction.opcode == "parameter":
                position = int(instruction.operands[0])
                if position < len(code.block.inputs):
                    found[code.block.inputs[position]] = _splits(
                        instruction, code.shapes[code.block.inputs[position]], axes
                    )
            for innermost, *_ in numbers_in(instruction.op_name)[:1]:
                operation = makers.get(innermost)
                if operation is not None and not operation.blocks:
                    made = _around(code, operation, computation, instruction, found)
                    found |= {value: _splits(one, code.shapes[value], axes) for value, one in made}
    return found


def _around(
    code: Code, operation: Operation, computation: Computation, instruction: Instruction, known: Collection[int]
) -> Iterator[tuple[int, Instruction]]:
    """Yields the result of an operation, if an instruction makes it, and of its operands those that are not known.

    An operation with several results makes one instruction for each, in order. A reduction's instruction reads one more
    array than the operation does: what it starts with.
    """
    made = [o for o in operation.outputs if shapes(instruction.type) == (code.shapes[o],)]
    if made:
        value = next((o for o in made if o not in known), made[-1])
        yield value, instruction
    operands = [computation.instructions.get(name) for name in instruction.operand_names]
    for value, operand in zip(operation.inputs, operands, strict=False):
        if isinstance(value, int) and operand is not None and value not in known:
            if shapes(operand.type) == (code.shapes[value],):
                yield value, operand


def _splits(instruction: Instruction, shape: tuple[int, ...], axes: Mapping[str, int]) -> Splits | None:
    printed = instruction.attribute("sharding")
    return splits(of_each(printed)[0], axes, len(shape)) if printed else ((),) * len(shape)
