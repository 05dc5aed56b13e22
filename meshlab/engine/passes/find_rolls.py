"""Rolling: pieces of one array put together in another order, as the shift that they are.

    concatenate(x[5:8], x[0:5])                        jnp.roll(x, 3)                  shift by 3, around the end
    pad(x[3:8], (0, 3)) + pad(x[0:3], (5, 0))          its gradient, as JAX writes it  shift by -3, around the end
    concatenate(zeros(3), x[0:5]), pad(x, (3, 0))[:8]  what came three steps before    shift by 3

Slices and concatenations say nothing of what stays together: each by itself would gather the axis. A shift keeps its
name and its split, and only what goes over the edges of shards is sent.

It is done before axes are named, so that the axes before and behind have one name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..code.operations import Input, Literal, Operation
from ..jax_compat import changed
from ..tensors.shift import shift_p

Makers = Mapping[int, Operation]
# What is put together of more pieces is no shift, nor a piece of one.
_MOST = 4
_SUMS = ("add", "add_any")


class _Piece(NamedTuple):
    """The elements `start` to `stop` of an array along an axis; as many zeros where there is no array."""

    array: int | None
    variable: Any
    start: int
    stop: int


def rolled(operation: Operation, makers: Makers) -> Operation:
    """Returns an operation that puts pieces of one array together as a shift; any other one as it is."""
    axis = _axis(operation, makers)
    pieces = _put_together(operation, 0, axis, makers) if axis is not None else None
    if axis is None or pieces is None or len(pieces) != 2:
        return operation
    arrays = {piece.array: piece.variable for piece in pieces if piece.array is not None}
    size = operation.equation.outvars[0].aval.shape[axis]
    offset = _offset(pieces, size)
    if len(arrays) != 1 or not offset:
        return operation
    ((array, variable),) = arrays.items()
    if variable.aval.shape[axis] != size:
        return operation
    params = {"axis": axis, "offset": offset, "wrap": all(piece.array is not None for piece in pieces)}
    equation = changed(operation.equation, primitive=shift_p, invars=[variable], params=params)
    return dataclasses.replace(operation, name=shift_p.name, equation=equation, inputs=(array,))


def _offset(pieces: Sequence[_Piece], size: int) -> int:
    """By how much two pieces, side by side, are shifted; 0 where they are no shift of the array."""
    first, second = pieces
    behind, ahead = first.stop - first.start, first.start
    if first.array is None:
        return behind if (second.start, second.stop) == (0, size - behind) else 0
    if second.array is None:
        return -ahead if first.stop == size else 0
    return behind if first.stop == size and (second.start, second.stop) == (0, ahead) else 0


def _axis(operation: Operation, makers: Makers) -> int | None:
    """The axis along which an operation puts pieces together; None where it does not, or along several."""
    if operation.name == "concatenate":
        return operation.params["dimension"]
    if operation.name in ("pad", "slice"):
        axes = _changed(operation)
        return axes[0] if len(axes) == 1 else None
    if operation.name not in _SUMS:
        return None
    axes = [_axis(pad, makers) if (pad := _maker(v, makers)) and pad.name == "pad" else None for v in operation.inputs]
    return axes[0] if axes[0] == axes[1] else None


def _maker(value: Input, makers: Makers) -> Operation | None:
    return makers.get(value) if isinstance(value, int) else None


def _changed(operation: Operation) -> list[int]:
    """The axes along which a piece that is cut or padded differs from what it is of."""
    if operation.name == "pad":
        return [axis for axis, config in enumerate(operation.params["padding_config"]) if any(config)]
    before, after = operation.equation.invars[0].aval.shape, operation.equation.outvars[0].aval.shape
    return [axis for axis, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]


# What a value is put together of


def _pieces(value: Input, variable: Any, axis: int, makers: Makers) -> list[_Piece]:
    """The pieces that a value is put together of along an axis; itself where that is not known."""
    made, found = _maker(value, makers), None
    # Of sums only those are looked into that may be a shift themselves: most sums are none.
    if made is not None and made.name not in _SUMS:
        found = _put_together(made, made.outputs.index(value), axis, makers)
    if found is not None and len(found) <= _MOST:
        return found
    return [_Piece(value if isinstance(value, int) else None, variable, 0, variable.aval.shape[axis])]


def _put_together(operation: Operation, place: int, axis: int, makers: Makers) -> list[_Piece] | None:
    """The pieces of an operation's result of a number, along an axis; None where it does not put any together."""
    found = _PIECES.get(operation.name)
    pieces = found(operation, place, axis, makers) if found is not None else None
    return _merged(pieces) if pieces is not None else None


def _of_zeros(operation: Operation, _place: int, axis: int, makers: Makers) -> list[_Piece] | None:
    size = operation.equation.outvars[0].aval.shape[axis]
    return [_Piece(None, None, 0, size)] if number(operation.inputs[0], makers) == 0 else None


def _of_concatenation(operation: Operation, _place: int, axis: int, makers: Makers) -> list[_Piece] | None:
    if operation.params["dimension"] != axis:
        return None
    return [piece for v, a in _read(operation) for piece in _pieces(v, a, axis, makers)]


def _of_slice(operation: Operation, _place: int, axis: int, makers: Makers) -> list[_Piece] | None:
    params = operation.params
    if any(stride != 1 for stride in params["strides"] or ()) or set(_changed(operation)) - {axis}:
        return None
    ((value, variable),) = _read(operation)
    return _cut(_pieces(value, variable, axis, makers), params["start_indices"][axis], params["limit_indices"][axis])


def _of_split(operation: Operation, place: int, axis: int, makers: Makers) -> list[_Piece] | None:
    ((value, variable),), sizes = _read(operation), operation.params["sizes"]
    if operation.params["axis"] != axis:
        return None
    start = sum(sizes[:place])
    return _cut(_pieces(value, variable, axis, makers), start, start + sizes[place])


def _of_padding(operation: Operation, _place: int, axis: int, makers: Makers) -> list[_Piece] | None:
    """Zeros around an array, or the ends cut off it."""
    low, high, gap = map(int, operation.params["padding_config"][axis])
    if gap or set(_changed(operation)) - {axis} or number(operation.inputs[1], makers) != 0:
        return None
    value, variable = _read(operation)[0]
    zeros = [_Piece(None, None, 0, max(0, width)) for width in (low, high)]
    found = [zeros[0], *_pieces(value, variable, axis, makers), zeros[1]]
    return _cut(found, max(0, -low), sum(stop - start for *_, start, stop in found) - max(0, -high))


def _of_sum(operation: Operation, _place: int, axis: int, makers: Makers) -> list[_Piece] | None:
    """Two arrays, each of which is zero where the other one is not."""
    left, right = (_pieces(v, a, axis, makers) for v, a in _read(operation))
    if len(left) != 2 or len(right) != 2 or left[0].array is None:
        left, right = right, left
    if len(left) != 2 or len(right) != 2 or left[1].array is not None or right[0].array is not None:
        return None
    return [left[0], right[1]] if left[0].stop - left[0].start == right[0].stop else None


_PIECES: dict[str, Callable[[Operation, int, int, Makers], list[_Piece] | None]] = {
    "broadcast_in_dim": _of_zeros,
    "concatenate": _of_concatenation,
    "slice": _of_slice,
    "split": _of_split,
    "pad": _of_padding,
    **dict.fromkeys(_SUMS, _of_sum),
}


def _read(operation: Operation) -> list[tuple[Input, Any]]:
    return list(zip(operation.inputs, operation.equation.invars, strict=True))


def _cut(pieces: Iterable[_Piece], start: int, stop: int) -> list[_Piece]:
    """What stands between two places of some pieces."""
    found, place = [], 0
    for piece in pieces:
        size = piece.stop - piece.start
        first, last = max(0, start - place), min(size, stop - place)
        if first < last:
            found.append(piece._replace(start=piece.start + first, stop=piece.start + last))
        place += size
    return found


def _merged(pieces: Iterable[_Piece]) -> list[_Piece]:
    """The same pieces, those that follow one another in their array joined, and without empty ones."""
    found: list[_Piece] = []
    for piece in pieces:
        last = found[-1] if found else None
        if last is not None and last.array == piece.array and (piece.array is None or last.stop == piece.start):
            found[-1] = last._replace(stop=last.stop + piece.stop - piece.start)
        elif piece.start < piece.stop:
            found.append(piece if piece.array is not None else _Piece(None, None, 0, piece.stop - piece.start))
    return found


def number(value: Input, makers: Makers) -> Any:
    """The number that a scalar is known to be, through casts; None where it is not."""
    if isinstance(value, Literal):
        return np.asarray(value.value).item()
    made = makers.get(value)
    return number(made.inputs[0], makers) if made is not None and made.name == "convert_element_type" else None
