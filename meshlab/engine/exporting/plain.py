"""Takes out of a code what JAX's functions add to it by themselves, and would add again.

i = clamp(0, i, 3); cond i …                        lax.switch clamps its index
i = select_n(i < 0, i, i + 8); dynamic_slice x i    lax.dynamic_slice counts negative indices from the end
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from ..code.operations import Block, Input, Literal, Operation, walk
from ..jax_compat import changed

Makers = Mapping[int, Operation]
Change = Callable[[Operation, Makers], Operation]


def plain(block: Block) -> Block:
    """Returns a block whose operations read what their functions are given; what is read no more is still there."""
    return _plain(block, {output: operation for operation in walk(block) for output in operation.outputs})


def _plain(block: Block, makers: Makers) -> Block:
    operations = []
    for operation in block.operations:
        blocks = tuple(_plain(inside, makers) for inside in operation.blocks)
        change = _GIVEN.get(operation.name)
        given = change(operation, makers) if change is not None else operation
        operations.append(dataclasses.replace(given, blocks=blocks))
    return Block(block.inputs, tuple(operations), block.outputs)


def _maker(value: Input, name: str, makers: Makers) -> Operation | None:
    """Returns the operation of a primitive that makes a value; None where another one does."""
    maker = makers.get(value) if isinstance(value, int) else None
    return maker if maker is not None and maker.name == name else None


def _not_clamped(operation: Operation, makers: Makers) -> Operation:
    index, *others = operation.inputs
    clamp, cast = (_maker(index, name, makers) for name in ("clamp", "convert_element_type"))
    if clamp is not None:
        index = clamp.inputs[1]
    elif cast is not None and cast.equation.invars[0].aval.dtype.name == "bool":
        (index,) = cast.inputs
    return dataclasses.replace(operation, inputs=(index, *others))


def _from_the_end(first: int) -> Change:
    """Takes it that the inputs of an operation from the `first` on are indices."""

    def given(operation: Operation, makers: Makers) -> Operation:
        before = operation.inputs[first:]
        starts = tuple(_index(value, makers) for value in before)
        from_the_end = tuple(isinstance(a, Literal) or a != b for a, b in zip(before, starts, strict=True))
        equation = operation.equation
        if not all(from_the_end):
            asked = from_the_end if starts != before else False
            equation = changed(equation, params=equation.params | {"allow_negative_indices": asked})
        return dataclasses.replace(operation, inputs=(*operation.inputs[:first], *starts), equation=equation)

    return given


def _index(value: Input, makers: Makers) -> Input:
    chosen = _maker(value, "select_n", makers)
    tested = chosen and _maker(chosen.inputs[0], "lt", makers)
    if chosen is None or tested is None or len(chosen.inputs) != 3 or tested.inputs[0] != chosen.inputs[1]:
        return value
    moved = _maker(chosen.inputs[2], "add", makers)
    is_zero = isinstance(tested.inputs[1], Literal) and tested.inputs[1].is_zero
    return chosen.inputs[1] if moved is not None and is_zero and moved.inputs[0] == chosen.inputs[1] else value


_GIVEN: Mapping[str, Change] = {
    "cond": _not_clamped,
    "dynamic_slice": _from_the_end(1),
    "dynamic_update_slice": _from_the_end(2),
}
