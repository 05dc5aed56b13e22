"""Finds what the backward pass computes again, by `jax.checkpoint` or by hand: each value with that of the first run.

    forward     scores = dot_general(q, k)        [batch, heads, seq, ~seq]
    backward    again = dot_general(q, k)         the same, of the same values: it has the same names, made-up ones too

Two values are the same where the same operation makes both of the same values. A value of the block around a loop is
sliced alike in both loops, and a slice of what a loop has stacked (its saved values) is what that loop put there.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping

import numpy as np

from ..code.loops import carried
from ..code.operations import Block, Code, Input, Operation, walk
from ..jax_compat import REMAT
from ..passes.value_terms import params_key

# Values go through these as they are.
_SAME = ("optimization_barrier", "tag")


def recomputed(code: Code) -> Mapping[int, int]:
    """Returns the values that the backward pass computes again, each with the value of the first run.

    Values that follow from no argument (positions, zeros) are left out: those of different dims are alike.
    """
    if not any(operation.backward for operation in walk(code.block)):
        return {}
    numbering = _Numbering(code)
    numbering.block(code.block)
    return numbering.pairs()


class _Numbering:
    """Numbers values: equal numbers for equal values of the first run and the second."""

    def __init__(self, code: Code):
        self.numbers: dict[Hashable, int] = {}
        self.of: dict[int, int] = {v: self.number(("input", v)) for v in code.block.inputs}
        self.of |= {v: self.number(("constant", id(array))) for v, array in code.constants.items()}
        # What follows from no argument; and of what a loop stacks, what it puts there in an iteration.
        self.fixed = {self.of[v] for v in code.constants}
        self.stacked: dict[int, int] = {}
        # The operations met, with the block that each stands in.
        self.met: list[tuple[Operation, Block]] = []

    def number(self, key: Hashable) -> int:
        return self.numbers.setdefault(key, len(self.numbers))

    def read(self, value: Input) -> int:
        if isinstance(value, int):
            return self.of[value]
        array = np.asarray(value.value)
        number = self.number(("literal", str(array.dtype), array.tobytes()))
        self.fixed.add(number)
        return number

    def pairs(self) -> dict[int, int]:
        """Pairs values of equal numbers, in order: of several that are alike the second runs follow the first ones."""
        first: dict[int, list[int]] = defaultdict(list)
        for operation, _ in self.met:
            for value in operation.outputs if not operation.backward else ():
                first[self.of[value]].append(value)
        seen: Counter[tuple[Block, int]] = Counter()
        pairs = {}
        for operation, block in self.met:
            for value in operation.outputs if operation.backward else ():
                number = self.of[value]
                alike = first[number]
                if not alike:
                    alike.append(value)
                elif number not in self.fixed:
                    pairs[value] = alike[min(seen[block, number], len(alike) - 1)]
                seen[block, number] += 1
        return pairs

    def block(self, block: Block):
        for operation in block.operations:
            self.met.append((operation, block))
            if operation.name == "scan":
                self.scan(operation, operation.blocks[0])
            elif operation.name == "while":
                self.loop(operation)
            elif operation.name in REMAT:
                inside = operation.blocks[0]
                self.of |= {v: self.read(given) for v, given in zip(inside.inputs, operation.inputs, strict=True)}
                self.block(inside)
                self.of |= {v: self.read(made) for v, made in zip(operation.outputs, inside.outputs, strict=True)}
            elif operation.blocks:
                self.branches(operation)
            elif operation.name in _SAME:
                self.of[operation.outputs[0]] = self.read(operation.inputs[0])
            else:
                self.operation(operation)

    def operation(self, operation: Operation):
        inputs = tuple(self.read(value) for value in operation.inputs)
        params = params_key(operation.equation)
        made = operation.outputs if params is None else params
        for at, value in enumerate(operation.outputs):
            self.of[value] = self.number((operation.name, made, inputs, at))
            if self.fixed.issuperset(inputs):
                self.fixed.add(self.of[value])

    def branches(self, operation: Operation):
        for inside in operation.blocks:
            self.of |= {v: self.number(("branch", v)) for v in inside.inputs}
            self.block(inside)
        choice = self.read(operation.inputs[0])
        for at, value in enumerate(operation.outputs):
            made = tuple(self.read(inside.outputs[at]) for inside in operation.blocks)
            self.of[value] = self.number(("cond", choice, made))

    def scan(self, operation: Operation, body: Block):
        count = carried(operation)
        self.carries(operation, body.inputs[:count])
        for inside, outside in zip(body.inputs[count:], operation.inputs[count:], strict=True):
            stack = self.read(outside)
            self.of[inside] = self.stacked[stack] if stack in self.stacked else self.number(("slice", stack))
        self.block(body)
        self.last(operation, operation.outputs[:count], body)
        for made, value in zip(body.outputs[count:], operation.outputs[count:], strict=True):
            self.of[value] = self.number(("stack", self.read(made)))
            self.stacked[self.of[value]] = self.read(made)

    def loop(self, operation: Operation):
        body, test = operation.blocks
        self.carries(operation, body.inputs)
        self.of |= {v: self.of[inside] for v, inside in zip(test.inputs, body.inputs, strict=True)}
        self.block(body)
        self.block(test)
        self.last(operation, operation.outputs, body)

    def carries(self, operation: Operation, inside: tuple[int, ...]):
        """Numbers a carry of a loop by what it starts from, and where the loop stands."""
        seen: Counter[int] = Counter()
        for value, start in zip(inside, operation.inputs, strict=False):
            number = self.read(start)
            self.of[value] = self.number(("carry", operation.source, operation.name, number, seen[number]))
            seen[number] += 1

    def last(self, operation: Operation, outputs: tuple[int, ...], body: Block):
        for value, inside, made in zip(outputs, body.inputs, body.outputs, strict=False):
            self.of[value] = self.number(("last", self.of[inside], self.read(made)))
