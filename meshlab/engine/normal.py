"""The normal form of a program, so that what is counted is what a compiler leaves.

XLA removes what is dead, computes equal expressions once, and takes out of a loop what does not change inside. If the
plan counted before that, it would count collectives that never run. So the code is brought into that form first:

    name marks are taken out; equal operations of one block are made one; a loop's operations that depend on nothing
    made inside it move in front of it; what no output needs is dropped.

Operations behind the barrier of a `remat` are never merged with those outside: that they run again is their purpose.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from .code import Block, Code, Input, Literal, Operation
from .flatten import REMAT
from .identities import returned
from .loops import LOOPS, carried
from .rules.elementwise import ELEMENTWISE

_JAXPRS = ("jaxpr", "cond_jaxpr", "body_jaxpr", "branches", "num_consts", "linear", "cond_nconsts", "body_nconsts")
_COMMUTATIVE = ("add", "add_any", "mul", "max", "min", "and", "or", "xor", "eq", "ne")


def normalize(code: Code) -> Code:
    """Returns the same code in normal form; values keep their numbers."""
    shared = _share(code.block, {}, {}, {})
    hoisted, _ = _hoist(shared, set(shared.inputs))
    # What came out of a loop may be what is in front of it already.
    return dataclasses.replace(code, block=_drop_dead(_share(hoisted, {}, {}, {})))


def _share(block: Block, known: dict, renamed: dict[int, Input], makers: dict[int, Operation]) -> Block:
    """Takes out identities and repeated operations; `known` are the operations made so far, outside included."""
    known = dict(known)
    kept = []

    def read(value: Input) -> Input:
        return renamed.get(value, value) if isinstance(value, int) else value

    for found in block.operations:
        inputs = tuple(read(i) for i in found.inputs)
        same = returned(found, inputs, makers)
        if same is not None:
            renamed[found.outputs[0]] = same
            continue
        _rename_unchanged(found, inputs, renamed)
        around = {} if found.name in REMAT else known
        blocks = tuple(_share(block, around, renamed, makers) for block in found.blocks)
        operation = _one_sum(dataclasses.replace(found, inputs=inputs, blocks=blocks), makers)
        key = key_of(operation)
        if key is not None and key in known:
            renamed.update(zip(operation.outputs, known[key], strict=True))
            continue
        if key is not None:
            known[key] = operation.outputs
        kept.append(operation)
        makers.update(dict.fromkeys(operation.outputs, operation))
    return Block(block.inputs, tuple(kept), tuple(read(o) for o in block.outputs))


def _one_sum(operation: Operation, makers: Mapping[int, Operation]) -> Operation:
    """A sum of a sum is one sum over the axes of both, as XLA makes it, and may then be known already."""
    value = operation.inputs[0] if operation.name == "reduce_sum" else None
    maker = makers.get(value) if isinstance(value, int) else None
    if maker is None or maker.name != "reduce_sum":
        return operation
    source = maker.equation.invars[0]
    kept = [axis for axis in range(source.aval.ndim) if axis not in maker.params["axes"]]
    axes = sorted({*maker.params["axes"], *(kept[axis] for axis in operation.params["axes"])})
    equation = operation.equation.replace(invars=[source], params=operation.params | {"axes": tuple(axes)})
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


def key_of(operation: Operation, inner: Mapping[int, int] = MappingProxyType({})):
    """What makes two operations equal, or None where they must not be merged.

    Args:
        operation: the operation, what it reads replaced by now.
        inner: for values of the block that is compared, their numbers counted from its start.
    """
    if operation.name in REMAT or operation.equation.effects:
        return None
    inputs: tuple = tuple(_input_key(i, inner) for i in operation.inputs)
    if operation.name in _COMMUTATIVE:
        inputs = tuple(sorted(inputs, key=str))
    params = ((k, _hashable(v)) for k, v in sorted(operation.params.items()) if k not in _JAXPRS)
    blocks = tuple(_block_key(block, inner) for block in operation.blocks)
    key = (operation.name, inputs, tuple(params), blocks)
    return None if any(v is None for _, v in key[2]) or None in blocks else key


def _block_key(block: Block, inner: Mapping[int, int]):
    """What makes two blocks equal: the same operations on the same values, those made inside counted from the start."""
    numbers = dict(inner)
    for value in block.inputs:
        numbers[value] = len(numbers)
    keys = []
    for operation in block.operations:
        keys.append(key_of(operation, numbers))
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


def _hoist(block: Block, outside: set[int]) -> tuple[Block, set[int]]:
    """Moves what does not change inside a loop in front of it; `outside` are the values known around the block."""
    known = set(outside)
    kept = []
    for operation in block.operations:
        known.update(operation.outputs)
        looped = operation.name in LOOPS
        around = set() if operation.name in REMAT else known
        blocks = []
        for inside in operation.blocks:
            settled, _ = _hoist(inside, around | set(inside.inputs))
            if looped:
                invariant, settled = _split_invariant(settled, known)
                kept += invariant
                known.update(o for op in invariant for o in op.outputs)
            blocks.append(settled)
        kept.append(dataclasses.replace(operation, blocks=tuple(blocks)))
    return Block(block.inputs, tuple(kept), block.outputs), known


def _split_invariant(body: Block, outside: set[int]) -> tuple[list[Operation], Block]:
    known = set(outside) - set(body.inputs)
    invariant, varying = [], []
    for operation in body.operations:
        movable = not operation.blocks and not operation.equation.effects
        if movable and all(i in known for i in operation.reads):
            invariant.append(operation)
            known.update(operation.outputs)
        else:
            varying.append(operation)
    return invariant, Block(body.inputs, tuple(varying), body.outputs)


def _drop_dead(block: Block) -> Block:
    needed = {o for o in block.outputs if isinstance(o, int)}
    kept = []
    for operation in reversed(block.operations):
        if not needed.intersection(operation.outputs) and not operation.equation.effects:
            continue
        needed.update(operation.reads)
        blocks = tuple(map(_drop_dead, operation.blocks))
        needed.update(*map(outside_reads, blocks))
        kept.append(dataclasses.replace(operation, blocks=blocks))
    return Block(block.inputs, tuple(reversed(kept)), block.outputs)


def outside_reads(block: Block) -> set[int]:
    """The values that a block reads from the blocks around it."""
    made = set(block.inputs)
    read: set[int] = set()
    for operation in block.operations:
        read.update(operation.reads)
        read.update(*map(outside_reads, operation.blocks))
        made.update(operation.outputs)
    read.update(o for o in block.outputs if isinstance(o, int))
    return read - made


def uniform_values(code: Code) -> tuple[frozenset[int], frozenset[int]]:
    """Finds the values that hold one number everywhere, and those of them that are zero.

    Returns:
        The numbers of the values that are a scalar broadcast, or made of such element by element, and of those that are
        the constant zero.
    """
    uniform: set[int] = set()
    zeros: set[int] = set()

    def look(block: Block, visit: Callable[[Operation], None]):
        for operation in block.operations:
            visit(operation)
            for inside in operation.blocks:
                look(inside, visit)

    def visit(operation: Operation):
        if operation.name in ELEMENTWISE or operation.name == "broadcast_in_dim":
            known = [isinstance(i, Literal) or i in uniform for i in operation.inputs]
            uniform.update(operation.outputs if all(known) and code.shapes[operation.outputs[0]] else ())
        if operation.name == "broadcast_in_dim" and code.shape_of(operation.inputs[0]) == ():
            uniform.update(operation.outputs)
            source = operation.inputs[0]
            if isinstance(source, Literal) and source.is_zero:
                zeros.update(operation.outputs)

    look(code.block, visit)
    return frozenset(uniform), frozenset(zeros)
