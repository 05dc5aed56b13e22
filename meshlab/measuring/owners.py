"""Finds the steps of a plan that each instruction of the compiled program was made of, by their scopes.

owners = Owners(text)
owners.of("broadcast_add_fusion").steps     (12, 14): the steps of what is fused in it
owners.of("all-reduce.3").steps             (41, 36): those of all the collectives that XLA combined in it
owners.of("copy.7").named                   False: XLA made it without a name; its step is that of its operand
owners.of("add.5").steps                    (30,): it counts the iterations of a loop, which is that step
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from ..engine.jax_programs import numbers_in
from ..engine.verifying.hlo_text import Computation, Instruction, parse_module

# What computes nothing, and may be shared by several steps.
_PASSED_ON = ("parameter", "constant", "get-tuple-element", "tuple", "bitcast")
# What runs instructions of other computations, each with an event of its own.
_AROUND = ("while", "conditional")
# How far to look for a step around an instruction that XLA made without a name.
_DEPTH = 4


class Owner(NamedTuple):
    """The steps of an instruction.

    Attributes:
        steps: their numbers; none where no scope is near.
        named: whether its own name says so, or those of what is fused in it.
    """

    steps: tuple[int, ...]
    named: bool


class Owners:
    """The steps of all instructions of a program."""

    def __init__(self, text: str):
        self._module: Mapping[str, Computation] = parse_module(text)
        self._at = {name: (c, i) for c in self._module.values() for name, i in c.instructions.items()}
        self._readers: dict[str, list[Instruction]] = {}
        for computation in self._module.values():
            for instruction in computation.instructions.values():
                for name in dict.fromkeys(instruction.operand_names):
                    self._readers.setdefault(name, []).append(instruction)
        self._callers = {
            called: i.name
            for _, i in self._at.values()
            if i.opcode in (*_AROUND, "call")
            for _, called in i.mentions()
            if called in self._module
        }
        self._known: dict[str, Owner] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._at

    def instruction(self, name: str) -> Instruction:
        return self._at[name][1]

    def of(self, name: str) -> Owner:
        """Returns the steps of an instruction.

        They are its own, or else those of the nearest around it, operands first, or else those of what runs it.
        """
        if name not in self._known:
            computation, instruction = self._at[name]
            if own := self._own(instruction):
                self._known[name] = Owner(own, True)
            else:
                makers = self._near(instruction, lambda one: self._makers(computation, one))
                readers = self._near(instruction, lambda one: self._readers.get(one.name, []))
                caller = self._callers.get(computation.name)
                self._known[name] = Owner(makers or readers or (self.of(caller).steps if caller else ()), False)
        return self._known[name]

    def is_around(self, name: str, seen: Collection[str]) -> bool:
        """Says whether an instruction only runs others: a loop, branches, or a call of what has events of its own."""
        instruction = self.instruction(name)
        if instruction.opcode in _AROUND:
            return True
        return instruction.opcode == "call" and any(i.name in seen for i in self._called(instruction))

    def _own(self, instruction: Instruction) -> tuple[int, ...]:
        inside = (i for i in self._called(instruction) if i.opcode not in _PASSED_ON)
        return _numbers(inside) or _numbers([instruction])

    def _called(self, instruction: Instruction) -> Iterable[Instruction]:
        """Returns the instructions of a fusion, or of a call."""
        if instruction.opcode not in ("fusion", "call"):
            return []
        called = (name for key, name in instruction.mentions() if key in ("calls", "to_apply"))
        return [i for name in called if name in self._module for i in self._module[name].instructions.values()]

    @staticmethod
    def _makers(computation: Computation, instruction: Instruction) -> list[Instruction]:
        return [computation.instructions[n] for n in instruction.operand_names if n in computation.instructions]

    def _near(self, start: Instruction, beside: Callable[[Instruction], Sequence[Instruction]]) -> tuple[int, ...]:
        """Returns the steps of the first instructions that have any, going from one to those beside it."""
        reached, seen = [start], {start.name}
        for _ in range(_DEPTH):
            reached = [one for each in reached for one in beside(each) if one.name not in seen]
            seen.update(one.name for one in reached)
            if found := next((own for one in reached if (own := self._own(one))), ()):
                return found
        return ()


def _numbers(instructions: Iterable[Instruction]) -> tuple[int, ...]:
    """Returns the numbers of the innermost scopes that instructions are named by, each once."""
    return tuple(dict.fromkeys(scopes[0] for one in instructions for scopes in numbers_in(one.op_name)))
