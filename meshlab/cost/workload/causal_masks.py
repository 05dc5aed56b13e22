"""Finds causal masks: of a row of queries and a row of keys, each query sees the keys up to itself.

    arange(seq) >= arange(kv)                   a comparison of positions, or of their difference with a number
    select(mask, scores, -1e30)                 by which what is hidden becomes a large negative number

A fused attention kernel leaves out the tiles that such a mask hides. A mask that is an argument of the program, or that
depends on one (segments, positions), is not known before the program runs, and hides nothing here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ...engine.code.operations import Input, Literal, Operation, walk
from ...engine.programs.program import Program, analysis

_COMPARISONS = ("ge", "gt", "le", "lt")
# Through these a position stays a position, along the same axis.
_SAME = ("convert_element_type", "rename", "tag", "copy")
_SHIFTS = ("add", "sub", *_SAME)
# Through these a mask stays a mask, and a large negative number one.
_CARRIERS = ("broadcast_in_dim", "reshape", "and", "not", "squeeze", "transpose", *_SAME)
# What a mask makes of scores: anything below this is taken to hide them.
_HIDDEN = -1e3


@analysis
def causal_masks(program: Program) -> frozenset[frozenset[str]]:
    """Returns the dims of the positions, of queries and of keys, between which there is a causal mask."""
    makers = {out: operation for operation in walk(program.code.block) for out in operation.outputs}
    # By the number of a mask, the axes of the two positions.
    masks: dict[int, list[int]] = {}
    found: set[frozenset[str]] = set()
    for operation in walk(program.code.block):
        read = next((value for value in operation.reads if value in masks), None)
        if operation.name in _COMPARISONS:
            axes = _compared(operation, makers, program)
        elif read is not None and (operation.name in _CARRIERS or operation.name == "select_n"):
            axes = _carried(operation, masks[read], program)
        else:
            continue
        if axes is None:
            continue
        (out,) = operation.outputs
        if operation.name != "select_n" or _is_mask(operation, program):
            masks[out] = axes
        elif any(_is_hidden(case, makers) for case in operation.inputs[1:]):
            found.add(frozenset(name for axis in axes if (name := program.names[out][axis]) is not None))
    return frozenset(found)


def _carried(operation: Operation, axes: list[int], program: Program) -> list[int] | None:
    """The axes that those of a mask are in the result of what carries it on; None where they are lost."""
    if operation.name == "broadcast_in_dim":
        return [operation.params["broadcast_dimensions"][axis] for axis in axes]
    if operation.name == "transpose":
        return [operation.params["permutation"].index(axis) for axis in axes]
    if operation.name in ("reshape", "squeeze"):
        # Only axes of one element come and go.
        before, after = (program.code.shapes[v] for v in (operation.reads[0], operation.outputs[0]))
        long = [[i for i, size in enumerate(shape) if size != 1] for shape in (before, after)]
        same = [before[i] for i in long[0]] == [after[i] for i in long[1]]
        return [long[1][long[0].index(axis)] for axis in axes] if same and set(axes) <= set(long[0]) else None
    return axes


def _compared(operation: Operation, makers: Mapping[int, Operation], program: Program) -> list[int] | None:
    """The axes of the positions that a comparison compares, if it does."""
    one, other = operation.inputs
    if isinstance(other, Literal) and isinstance(one, int):
        difference = _beyond(makers.get(one), makers)
        if difference is None or difference.name != "sub":
            return None
        one, other = difference.inputs
    axes = {axis for side in (one, other) if (axis := _position(side, makers, program)) is not None}
    return sorted(axes) if len(axes) == 2 else None


def _is_mask(operation: Operation, program: Program) -> bool:
    """Whether an operation selects between yes and no, as `tril` of a mask does."""
    return operation.name == "select_n" and np.dtype(program.code.dtypes[operation.outputs[0]]).kind == "b"


def _beyond(maker: Operation | None, makers: Mapping[int, Operation]) -> Operation | None:
    """The operation before renames and conversions."""
    while maker is not None and maker.name in _SAME:
        maker = makers.get(maker.reads[0])
    return maker


def _position(value: Input, makers: Mapping[int, Operation], program: Program) -> int | None:
    """The axis along which a value counts positions: 0, 1, 2, … or so many more; None if it does not."""
    axis, steps = None, list(_back(value, makers))
    if not steps or steps[-1].name != "iota":
        return None
    for operation in reversed(steps):
        if operation.name == "iota":
            axis = operation.params["dimension"]
        elif operation.name == "broadcast_in_dim":
            axis = operation.params["broadcast_dimensions"][axis]
        elif operation.name == "reshape":
            axis = _reshaped(operation, axis, program)
        if axis is None:
            return None
    return axis


def _back(value: Input, makers: Mapping[int, Operation]) -> Iterator[Operation]:
    """The operations that make a value, from the last one to the first; nothing where several are read on the way."""
    while isinstance(value, int) and (maker := makers.get(value)) is not None:
        yield maker
        if maker.name not in ("broadcast_in_dim", "reshape", *_SHIFTS) or len(maker.reads) != 1:
            return
        value = maker.reads[0]


def _reshaped(operation: Operation, axis: int | None, program: Program) -> int | None:
    """The only axis of a reshape's result that is longer than one, if it had only one before."""
    before, after = (program.code.shapes[value] for value in (operation.reads[0], operation.outputs[0]))
    longer = [i for i, size in enumerate(after) if size != 1]
    return longer[0] if axis is not None and len(longer) == 1 and sum(size != 1 for size in before) == 1 else None


def _is_hidden(case: Input, makers: Mapping[int, Operation]) -> bool:
    """Whether a value is one large negative number."""
    number: Any = case
    while isinstance(number, int):
        maker = makers.get(number)
        if maker is None or maker.name not in _CARRIERS or not maker.inputs:
            return False
        number = maker.inputs[0]
    return np.ndim(number.value) == 0 and float(np.real(np.asarray(number.value, np.complex128))) < _HIDDEN


def unmasked(rows: Any, columns: Any) -> Any:
    """Returns the share of scores that a causal mask leaves the device that has most of them.

    Positions are divided in order: of n parts of the queries the last one sees nearly all keys, 1 - 1/2n of them, twice
    the mean. Where keys are divided as well, the last queries and the first keys meet on one device.

    Args:
        rows: into how many parts the queries are divided; a number, or an array.
        columns: into how many parts the keys are.
    """
    # Of a block of 1/rows x 1/columns, above the diagonal lies a triangle with sides of length `beyond`.
    beyond = np.maximum(1 / rows + 1 / columns - 1, 0.0)
    share = 1 - beyond * beyond / 2 * rows * columns
    return share if isinstance(share, np.ndarray) else float(share)
