"""Finds what stands around a collective in the compiled program: equations, arguments and results, and who takes part.

around = Around(text)
around.numbers("all-reduce.3", 0)       of the equations of the nearest instruction that has a name
around.passed("all-gather.1", 0)        (2, [0]): it is between the third argument and the first result
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from ..engine.jax_programs import numbers_in
from ..engine.specs.spec import Axes
from ..engine.verifying.hlo_groups import read_groups
from ..engine.verifying.hlo_text import Computation, Instruction, parse_module

# How far to look for an instruction of the user's around one that XLA made without a name.
_DEPTH = 4
_Step = Callable[[Instruction], list[Instruction]]


class Around:
    """Finds the equations around an instruction that has no name of its own, or has joined several."""

    def __init__(self, text: str):
        self.at: dict[str, tuple[Computation, Instruction]] = {}
        self.read: dict[str, list[Instruction]] = {}  # by the name of what is read: names are the module's
        for computation in parse_module(text).values():
            for instruction in computation.instructions.values():
                self.at[instruction.name] = computation, instruction
                for name in dict.fromkeys(instruction.operand_names):
                    self.read.setdefault(name, []).append(instruction)

    def numbers(self, name: str, position: int) -> tuple[tuple[int, ...], ...]:
        """Returns the equations of the nearest instruction with a name that makes an operand, or reads the result."""
        computation, instruction = self.at[name]
        operand = computation.instructions.get(instruction.operand_names[position])
        makers = self._near([operand] if operand else [], lambda one: self._makers(computation, one))
        readers = self._near([instruction], self._readers)
        return next((found for one in (*makers, *readers) if (found := numbers_in(one.op_name))), ())

    def passed(self, name: str, position: int) -> tuple[int, list[int]] | None:
        """Returns the numbers of the argument and of the results between which it stands; None if of several."""
        computation, instruction = self.at[name]
        operand = computation.instructions.get(instruction.operand_names[position])
        before = self._all([operand] if operand else [], lambda one: self._makers(computation, one))
        after = self._all([instruction], self._readers)
        arguments = [int(one.operands[0]) for one in before if one.opcode == "parameter"]
        root = computation.instructions[computation.root]
        if not computation.entry or len(arguments) != 1 or root not in after:
            return None
        made = {one.name for one in after}
        results = [i for i, one in enumerate(root.operand_names) if one in made] if root.opcode == "tuple" else [0]
        return arguments[0], results

    @staticmethod
    def _all(start: list[Instruction], step: _Step) -> list[Instruction]:
        """Returns instructions, and all that is any number of steps away from them."""
        found = {one.name: one for one in start}
        waiting = list(start)
        while waiting:
            new = {one.name: one for one in step(waiting.pop()) if one.name not in found}
            found |= new
            waiting += new.values()
        return list(found.values())

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

    @staticmethod
    def _near(start: list[Instruction], step: _Step) -> Iterator[Instruction]:
        """Yields instructions, what is a step away from them, and so on, near ones first."""
        level = start
        for _ in range(_DEPTH):
            yield from level
            level = list({one.name: one for here in level for one in step(here)}.values())

    @staticmethod
    def _makers(computation: Computation, instruction: Instruction) -> list[Instruction]:
        return [computation.instructions[n] for n in instruction.operand_names if n in computation.instructions]

    def _readers(self, instruction: Instruction) -> list[Instruction]:
        return self.read.get(instruction.name, [])
