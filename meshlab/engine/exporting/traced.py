"""Traces what each device runs, by the same lowering that runs the plan, and notes which array is which value.

    traced = trace(plan)
    traced.code             operations on shards, in order: what `lowered(plan, mesh)` is, with calls inlined
    traced.step(operation)  the step of the plan that it belongs to
    traced.notes[17]        Note(number=4, spec=[data, ·], step=…): value 17 of the code is value 4 of the program

Steps stand in scopes of their own, and what they make is noted by a mark, which computes nothing; so the code is the
lowering's, operation by operation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .. import own_primitives
from ..code.flatten import Flattener, flatten
from ..code.operations import Block, Code, Input, Operation
from ..jax_programs import numbers_in, of_each_device
from ..passes.normalize import drop_dead
from ..planning.shared_steps import WrittenOut
from ..planning.step import Step
from ..plans.plan_data import Plan
from ..running.in_scopes import InScopes
from ..running.lower import Shards, device_function, partition_spec
from ..running.run import abstract_arguments, abstract_mesh
from ..specs.spec import Spec
from ..tensors.marks import mark_tag
from .plain import plain

# No tag of a user's begins so.
_NOTE = "\N{NUMBER SIGN}note "


class Note(NamedTuple):
    """Which value of the program an array is, and what made it so.

    Attributes:
        number: of the value.
        spec: how it is sharded.
        step: the step that made it; None of what comes into a block.
    """

    number: int
    spec: Spec
    step: Step | None


@dataclasses.dataclass(frozen=True)
class Traced:
    """The program of each device.

    Attributes:
        code: its operations, on shards.
        whole: the same with what JAX's functions add by themselves, which `code` has not.
        notes: which values of the program the values of the code are, by number.
        steps: the steps of the plan, by number.
    """

    code: Code
    whole: Code
    notes: Mapping[int, Note]
    steps: Sequence[WrittenOut]

    def step(self, operation: Operation) -> Step | None:
        """Returns the step that an operation belongs to."""
        numbers = numbers_in("/".join(operation.scope))
        return self.steps[numbers[0][0]].step if numbers else None


class _Noting(InScopes):
    """Runs steps, each in a scope of its own, and marks what they make."""

    def __init__(self, plan: Plan):
        super().__init__(plan)
        self.notes: list[Note] = []

    def run(self, steps: Sequence[Step], shards: Shards):
        for step in steps:
            super().run((step,), shards)
            for key in dict.fromkeys((*zip(*step.made(), strict=True), *step.makes(self.original_of))):
                if key in shards:
                    shards[key] = self.noted(Note(*key, step), shards[key])

    def noted(self, note: Note, array: Any) -> Any:
        self.notes.append(note)
        return mark_tag(jnp.asarray(array), f"{_NOTE}{len(self.notes) - 1}")

    def inside(self, step: Any, shards: Shards, number: int, arrays: Sequence[Any]) -> list[Any]:
        keys = zip(step.operation.blocks[number].inputs, step.blocks[number].inputs, strict=True)
        marked = [self.noted(Note(*key, None), array) for key, array in zip(keys, arrays, strict=True)]
        return super().inside(step, shards, number, marked)


class _Flattener(Flattener):
    """Leaves notes alone, and expands all other primitives of ours: the file has JAX's alone."""

    parts_barriers = False

    def expanded(self, equation: Any) -> Any | None:
        if _note_of(equation) is not None:
            return None
        ours = own_primitives.expanded(equation)
        return super().expanded(equation) if ours is None else ours


def _note_of(equation: Any) -> int | None:
    """Returns the number of the note that an equation is."""
    tag = equation.params.get("tag") if equation.primitive.name == "tag" else None
    return int(tag.removeprefix(_NOTE)) if tag is not None and tag.startswith(_NOTE) else None


def trace(plan: Plan) -> Traced:
    """Traces what each device of a plan runs."""
    noting = _Noting(plan)
    code = on_shards(plan, device_function(plan, noting))
    instead: dict[Input, Input] = {}
    notes: dict[int, Note] = {}
    whole = dataclasses.replace(code, block=drop_dead(_without_notes(code.block, instead, notes, noting.notes)))
    arguments = zip(plan.program.arguments, whole.block.inputs, strict=False)
    notes |= {value: Note(a.value, plan.argument_specs[a.value], None) for a, value in arguments}
    return Traced(dataclasses.replace(code, block=drop_dead(plain(whole.block))), whole, notes, noting.steps)


def on_shards(plan: Plan, function: Any) -> Code:
    """Returns the code of a function of shards that a plan's devices run."""
    mesh = abstract_mesh(plan.mesh)
    arguments = tuple(partition_spec(plan.argument_specs[a.value]) for a in plan.program.arguments)
    outputs = tuple(map(partition_spec, plan.output_specs))
    whole = jax.shard_map(function, mesh=mesh, in_specs=arguments, out_specs=outputs, check_vma=False)
    closed = jax.make_jaxpr(whole)(*abstract_arguments(plan, mesh))
    code = flatten(of_each_device(closed), _Flattener)
    return dataclasses.replace(code, block=drop_dead(code.block))


def _without_notes(block: Block, instead: dict[Input, Input], notes: dict[int, Note], known: Sequence[Note]) -> Block:
    """Returns a block without notes: what was noted stands in their place; `notes` has what they say.

    Args:
        block: the block.
        instead: what stands in the place of a note's result, of all blocks around.
        notes: what is noted of each value; the first note of a value counts.
        known: the notes by their numbers.
    """
    operations = []
    for operation in block.operations:
        number = _note_of(operation.equation)
        inputs = tuple(instead.get(value, value) for value in operation.inputs)
        if number is not None:
            (instead[operation.outputs[0]],) = inputs
            if isinstance(inputs[0], int):
                notes.setdefault(inputs[0], known[number])
            continue
        blocks = tuple(_without_notes(inside, instead, notes, known) for inside in operation.blocks)
        operations.append(dataclasses.replace(operation, inputs=inputs, blocks=blocks))
    outputs = tuple(instead.get(value, value) for value in block.outputs)
    return Block(block.inputs, tuple(operations), outputs)
