"""Sharing: what is computed twice is computed once, and what returns what is there already is not computed.

A compiler merges equal expressions, and takes a loop that turns twice alike for one; so must the plan, or it would
count collectives that never run. Operations behind the barrier of a `remat` are never merged with those outside: that
they run again is their purpose.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .code import Block, Input, Literal, Operation
from .identities import returned
from .jax_compat import REMAT, changed, has_effects, own_params
from .loops import LOOPS, carried

_COMMUTATIVE = ("add", "add_any", "mul", "max", "min", "and", "or", "xor", "eq", "ne")


class Sharing:
    """Takes identities and repeated operations out of blocks. Used once.

    Args:
        names: the names of each value's axes, by number, or none.
    """

    def __init__(self, names: Sequence[Any] = ()):
        self.names = names
        self.renamed: dict[int, Input] = {}
        self.makers: dict[int, Operation] = {}

    def read(self, value: Input) -> Input:
        """The value that is read in the place of one."""
        return self.renamed.get(value, value) if isinstance(value, int) else value

    def block(self, block: Block, known: Mapping[Any, tuple[int, ...]]) -> Block:
        """Returns a block without what is in `known`, the operations made so far, outside included."""
        known = dict(known)
        kept = []
        for found in block.operations:
            inputs = tuple(map(self.read, found.inputs))
            same = returned(found, inputs, self.makers)
            if same is not None:
                self.renamed[found.outputs[0]] = same
                continue
            _rename_unchanged(found, inputs, self.renamed)
            around = {} if found.name in REMAT else known
            blocks = tuple(self.block(inside, around) for inside in found.blocks)
            operation = _one_sum(dataclasses.replace(found, inputs=inputs, blocks=blocks), self.makers)
            key = key_of(operation, {}, self.names)
            if key is not None and key in known:
                self.renamed.update(zip(operation.outputs, known[key], strict=True))
                continue
            if key is not None:
                known[key] = operation.outputs
            kept.append(operation)
            self.makers.update(dict.fromkeys(operation.outputs, operation))
        return Block(block.inputs, tuple(kept), tuple(map(self.read, block.outputs)))


def _one_sum(operation: Operation, makers: Mapping[int, Operation]) -> Operation:
    """A sum of a sum is one sum over the axes of both, as XLA makes it, and may then be known already."""
    value = operation.inputs[0] if operation.name == "reduce_sum" else None
    maker = makers.get(value) if isinstance(value, int) else None
    if maker is None or maker.name != "reduce_sum":
        return operation
    source = maker.equation.invars[0]
    kept = [axis for axis in range(source.aval.ndim) if axis not in maker.params["axes"]]
    axes = sorted({*maker.params["axes"], *(kept[axis] for axis in operation.params["axes"])})
    equation = changed(operation.equation, invars=[source], params=operation.params | {"axes": tuple(axes)})
    return dataclasses.replace(operation, equation=equation, inputs=maker.inputs)


def _rename_unchanged(operation: Operation, inputs: tuple[Input, ...], renamed: dict[int, Input]):
    """What a loop carries and never changes is what came in: its blocks, and what follows, read that instead."""
    body = operation.body
    if operation.name not in LOOPS or body is None:
        return
    for position in range(carried(operation)):
        if body.outputs[position] == body.inputs[position]:
            renamed.update((block.inputs[position], inputs[position]) for block in operation.blocks)
            renamed[operation.outputs[position]] = inputs[position]


def key_of(operation: Operation, inner: Mapping[int, int], names: Sequence[Any]):
    """What makes two operations equal, or None where they must not be merged.

    Args:
        operation: the operation, what it reads replaced by now.
        inner: for values of the block that is compared, their numbers counted from its start.
        names: the names of each value's axes.
    """
    if operation.name in REMAT or has_effects(operation.equation):
        return None
    inputs: tuple = tuple(_input_key(i, inner) for i in operation.inputs)
    if operation.name in _COMMUTATIVE:
        inputs = tuple(sorted(inputs, key=str))
    params = ((k, _hashable(v)) for k, v in sorted(own_params(operation.equation).items()))
    blocks = tuple(_block_key(block, inner, names) for block in operation.blocks)
    called = tuple(names[o] for o in operation.outputs) if names else ()
    key = (operation.name, inputs, tuple(params), blocks, called)
    return None if any(v is None for _, v in key[2]) or None in blocks else key


def _block_key(block: Block, inner: Mapping[int, int], names: Sequence[Any]):
    """What makes two blocks equal: the same operations on the same values, those made inside counted from the start."""
    numbers = dict(inner)
    for value in block.inputs:
        numbers[value] = len(numbers)
    keys = []
    for operation in block.operations:
        keys.append(key_of(operation, numbers, names))
        for value in operation.outputs:
            numbers[value] = len(numbers)
    outputs = tuple(_input_key(o, numbers) for o in block.outputs)
    return None if None in keys else (len(block.inputs), tuple(keys), outputs)


def _input_key(value: Input, inner: Mapping[int, int]):
    if isinstance(value, Literal):
        return _literal_key(value)
    return ("inner", inner[value]) if value in inner else value


def _literal_key(literal: Literal):
    array = np.asarray(literal.value)
    return (str(array.dtype), array.tobytes())


def _hashable(value):
    """A stand-in that compares as the value does; None where there is none."""
    try:
        hash(value)
    except TypeError:
        return None
    return (type(value).__name__, value) if not callable(value) else None
