"""Assigns roles to arrays: parameters, gradients, the optimizer's state, activations.

Roles follow from the program's dataflow, not from names:

    a carried argument, which the backward pass needs                             parameters
        and which the forward pass casts to fewer bits before anything else       master copies
    a carried argument, which the backward pass does not read                     optimizer state
        and whose new value is cast to fewer bits for a new parameter             master copies
    a parameter in any form, on a device that does not store all of it            gathered weights
    a result of the backward pass, in the shape of a parameter                    gradients
    a result of the forward pass, which the backward pass reads last              activations
        or which a stage of a pipeline holds for it                               activations

An argument that is not carried to the next call holds parameters if it is a tree of floats, and is an input otherwise.
Without a backward pass every carried argument (a KV cache, say) is an input.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Mapping, Sequence

import jax.numpy as jnp

from ...engine.code.operations import Operation, item_bytes, walk
from ...engine.planning.step import Step
from ...engine.programs.program import Program, analysis
from ...engine.programs.trained import backward_operations, donors, needed
from ...engine.rules import names_where

PARAMETERS, GRADIENTS, STATE, MASTERS = "parameters", "gradients", "optimizer state", "master copies"
GATHERED = "gathered weights"
INPUTS, ACTIVATIONS, TEMPORARIES, OUTPUTS = "inputs", "activations", "temporaries", "outputs"
ROLES = (PARAMETERS, GATHERED, GRADIENTS, STATE, MASTERS, INPUTS, ACTIVATIONS, TEMPORARIES, OUTPUTS)
_CAST = "convert_element_type"
# Operations whose result has the elements of their operand.
_FORMS = names_where(lambda traits: traits.keeps and traits.kind != "broadcast") | {"rename", "tag", _CAST}


@dataclasses.dataclass(frozen=True)
class ArrayRoles:
    """The roles of the arrays of a program.

    Attributes:
        arguments: of each argument, by position.
        outputs: of the outputs that are carried to the next call, by position.
        donors: for these outputs, the position of the argument.
        shapes: the shapes of parameters.
        backward: the values of the backward pass.
        parameters: the values that are parameters cast to fewer bits.
        weights: for each value that is a parameter in some form, or an iteration's slice of one, the argument's.
    """

    arguments: tuple[str, ...]
    outputs: Mapping[int, str]
    donors: Mapping[int, int]
    shapes: frozenset[tuple[int, ...]]
    backward: frozenset[int]
    parameters: frozenset[int]
    weights: Mapping[int, int]

    def is_backward(self, step: Step | None) -> bool:
        """Returns whether a step belongs to the backward pass."""
        if step is None or step.runs:
            return step is not None and step.runs is not None and step.runs.backward
        return not step.parts and not self.backward.isdisjoint(step.made()[0])


@analysis
def roles_of(program: Program) -> ArrayRoles:
    """Returns the roles of the arrays of a program."""
    backward = backward_operations(program)
    read = needed(program, (v for operation in backward for v in operation.reads))
    donated = donors(program)
    casts = _casts(program, read)
    carried = set(donated.values())
    masters = _masters(program, donated)
    argument_roles, narrow = [], set()
    for position, argument in enumerate(program.arguments):
        if not backward and position in carried:
            argument_roles.append(INPUTS)
        elif position not in carried:
            argument_roles.append(PARAMETERS if _is_tree_of_floats(program, argument.parameter) else INPUTS)
        elif argument.value in read:
            argument_roles.append(MASTERS if argument.value in casts else PARAMETERS)
            narrow |= casts.get(argument.value, set())
        else:
            argument_roles.append(MASTERS if position in masters else STATE)
    kinds = zip(program.arguments, argument_roles, strict=True)
    weights = [a.value for a, role in kinds if role in (PARAMETERS, MASTERS)]
    return ArrayRoles(
        tuple(argument_roles),
        {output: argument_roles[position] for output, position in donated.items()},
        donated,
        frozenset(program.code.shapes[value] for value in weights),
        frozenset(v for operation in backward for v in operation.outputs),
        frozenset(narrow),
        _forms(program, weights),
    )


def _forms(program: Program, weights: Sequence[int]) -> dict[int, int]:
    """Returns the values that some are in another form: cast, transposed, reshaped, or sliced by a loop."""
    found = {value: value for value in weights}
    for operation in walk(program.code.block):
        for block in operation.blocks:
            found |= {v: found[outer] for v in block.inputs if (outer := program.outermost(v)) in found}
        read = operation.inputs[0] if operation.inputs else None
        if operation.name in _FORMS and isinstance(read, int) and read in found:
            found |= dict.fromkeys(operation.outputs, found[read])
    return found


def _casts(program: Program, needed: Container[int]) -> dict[int, set[int]]:
    """Arguments that every operation needed by the backward pass casts to fewer bits first."""
    dtypes = program.code.dtypes
    readers: dict[int, list[Operation]] = {argument.value: [] for argument in program.arguments}
    for operation in walk(program.code.block):
        for value in operation.reads:
            if value in readers and any(output in needed for output in operation.outputs):
                readers[value].append(operation)

    def narrows(value: int, operation: Operation) -> bool:
        return operation.name == _CAST and item_bytes(dtypes[operation.outputs[0]]) < item_bytes(dtypes[value])

    return {
        value: {operation.outputs[0] for operation in operations}
        for value, operations in readers.items()
        if operations and all(narrows(value, operation) for operation in operations)
    }


def _masters(program: Program, donors: Mapping[int, int]) -> set[int]:
    """Arguments whose new value is cast to fewer bits for another carried output."""
    outputs, makers, dtypes = program.code.block.outputs, program.makers, program.code.dtypes
    positions = {value: donors[o] for o, value in enumerate(outputs) if isinstance(value, int) and o in donors}
    masters = set()
    for output in donors:
        value = outputs[output]
        maker = makers.get(value) if isinstance(value, int) else None
        if maker is not None and maker.name == _CAST and isinstance(maker.inputs[0], int):
            source = maker.inputs[0]
            if source in positions and item_bytes(dtypes[source]) > item_bytes(dtypes[maker.outputs[0]]):
                masters.add(positions[source])
    return masters


def _is_tree_of_floats(program: Program, parameter: str) -> bool:
    leaves = [a for a in program.arguments if a.parameter == parameter]
    dtypes = [program.code.dtypes[a.value] for a in leaves]
    return any(a.place != parameter for a in leaves) and all(jnp.issubdtype(d, jnp.inexact) for d in dtypes)
