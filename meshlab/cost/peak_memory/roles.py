"""What arrays are for: parameters, gradients, the optimizer's state, activations.

It is told by what a program does with them, not by what they are called:

    an argument that the next call gets anew, and that the backward pass needs     parameters
        and that the forward pass casts to fewer bits before anything else        master copies
    one that the next call gets anew, and that the backward pass knows nothing of  optimizer state
        and whose new value is cast to fewer bits for a new parameter             master copies
    what the backward pass makes, in the shape of a parameter                     gradients
    what the forward pass makes, and the backward pass reads last                 activations

An argument that is not handed on holds parameters if it is a tree of floats, and is an input if not; so is what is
handed on where there is no backward pass, as a cache.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Container, Iterable, Mapping

import jax.numpy as jnp

from ...engine.code.operations import Operation, item_bytes, walk
from ...engine.planning.steps import Move, Part, Step
from ...engine.programs.data import Program

PARAMETERS, GRADIENTS, STATE, MASTERS = "parameters", "gradients", "optimizer state", "master copies"
INPUTS, ACTIVATIONS, TEMPORARIES, OUTPUTS = "inputs", "activations", "temporaries", "outputs"
ROLES = (PARAMETERS, GRADIENTS, STATE, MASTERS, INPUTS, ACTIVATIONS, TEMPORARIES, OUTPUTS)
_CAST = "convert_element_type"


@dataclasses.dataclass(frozen=True)
class Roles:
    """What the arrays of a program are for.

    Attributes:
        arguments: for each argument, by position.
        outputs: for those outputs that the next call gets as arguments, by position.
        donors: for these, the position of the argument.
        shapes: the shapes of parameters.
        backward: the values that the backward pass makes.
        parameters: values that are parameters in fewer bits.
    """

    arguments: tuple[str, ...]
    outputs: Mapping[int, str]
    donors: Mapping[int, int]
    shapes: frozenset[tuple[int, ...]]
    backward: frozenset[int]
    parameters: frozenset[int]

    def is_backward(self, step: Step | None) -> bool:
        """Whether a step is of the backward pass."""
        if isinstance(step, Move):
            return step.value in self.backward
        return step is not None and not isinstance(step, Part) and step.operation.backward


_known: weakref.WeakKeyDictionary[Program, Roles] = weakref.WeakKeyDictionary()


def roles_of(program: Program) -> Roles:
    """Returns what the arrays of a program are for."""
    if program not in _known:
        _known[program] = _roles(program)
    return _known[program]


def _roles(program: Program) -> Roles:
    backward = [operation for operation in walk(program.code.block) if operation.backward]
    needed = _needed(program, (v for operation in backward for v in operation.reads))
    donors = _donors(program)
    casts = _casts(program, needed)
    handed_on = set(donors.values())
    masters = _masters(program, donors)
    found, narrow = [], set()
    for position, argument in enumerate(program.arguments):
        if not backward and position in handed_on:
            found.append(INPUTS)
        elif position not in handed_on:
            found.append(PARAMETERS if _is_tree_of_floats(program, argument.parameter) else INPUTS)
        elif argument.value in needed:
            found.append(MASTERS if argument.value in casts else PARAMETERS)
            narrow |= casts.get(argument.value, set())
        else:
            found.append(MASTERS if position in masters else STATE)
    kinds = zip(program.arguments, found, strict=True)
    weights = (program.code.shapes[a.value] for a, role in kinds if role in (PARAMETERS, MASTERS))
    return Roles(
        tuple(found),
        {output: found[position] for output, position in donors.items()},
        donors,
        frozenset(weights),
        frozenset(v for operation in backward for v in operation.outputs),
        frozenset(narrow),
    )


def _needed(program: Program, values: Iterable[int]) -> set[int]:
    """Values, and all that they are made of."""
    sources: dict[int, list[int]] = {}
    for operation in walk(program.code.block):
        inner: list[int] = []
        for block in operation.blocks:
            inner += [v for v in block.outputs if isinstance(v, int)]
            for value in block.inputs:
                sources.setdefault(value, []).extend(operation.reads)
        for value in operation.outputs:
            sources.setdefault(value, []).extend((*operation.reads, *inner))
    found, waiting = set(), list(values)
    while waiting:
        value = waiting.pop()
        if value not in found:
            found.add(value)
            waiting += sources.get(value, ())
    return found


def _donors(program: Program) -> dict[int, int]:
    """For each output that the next call gets as an argument, by position, that argument's position."""
    places = {place: position for position, place in enumerate(program.outputs)}
    found = {}
    for carry in program.carries:
        for position, argument in enumerate(program.arguments):
            if argument.parameter == carry.parameter:
                output = places.get(carry.place + argument.place[len(carry.parameter) :])
                if output is not None:
                    found[output] = position
    return found


def _casts(program: Program, needed: Container[int]) -> dict[int, set[int]]:
    """Arguments that are cast to fewer bits before anything that the backward pass needs is made of them."""
    dtypes = program.code.dtypes
    readers: dict[int, list[Operation]] = {argument.value: [] for argument in program.arguments}
    for operation in walk(program.code.block):
        for value in operation.reads:
            if value in readers and any(made in needed for made in operation.outputs):
                readers[value].append(operation)

    def narrows(value: int, operation: Operation) -> bool:
        return operation.name == _CAST and item_bytes(dtypes[operation.outputs[0]]) < item_bytes(dtypes[value])

    return {
        value: {operation.outputs[0] for operation in operations}
        for value, operations in readers.items()
        if operations and all(narrows(value, operation) for operation in operations)
    }


def _masters(program: Program, donors: Mapping[int, int]) -> set[int]:
    """Arguments whose new value is cast to fewer bits for another output that is handed on."""
    outputs, makers, dtypes = program.code.block.outputs, program.makers, program.code.dtypes
    positions = {value: donors[o] for o, value in enumerate(outputs) if isinstance(value, int) and o in donors}
    found = set()
    for output in donors:
        value = outputs[output]
        maker = makers.get(value) if isinstance(value, int) else None
        if maker is not None and maker.name == _CAST and isinstance(maker.inputs[0], int):
            source = maker.inputs[0]
            if source in positions and item_bytes(dtypes[source]) > item_bytes(dtypes[maker.outputs[0]]):
                found.add(positions[source])
    return found


def _is_tree_of_floats(program: Program, parameter: str) -> bool:
    leaves = [a for a in program.arguments if a.parameter == parameter]
    dtypes = [program.code.dtypes[a.value] for a in leaves]
    return any(a.place != parameter for a in leaves) and all(jnp.issubdtype(d, jnp.inexact) for d in dtypes)
