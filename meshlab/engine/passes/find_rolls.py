"""Rewrites a concatenation or sum of pieces of one array, such as `jnp.roll` makes, as one shift.

    concatenate(x[5:8], x[0:5])                        jnp.roll(x, 3)                  shift by 3, around the end
    pad(x[3:8], (0, 3)) + pad(x[0:3], (5, 0))          its gradient, as JAX writes it  shift by -3, around the end
    concatenate(zeros(3), x[0:5]), pad(x, (3, 0))[:8]  what came three steps before    shift by 3

A slice or a concatenation by itself would gather the axis. A shift keeps its name and its sharding, and only elements
that cross the edges of shards are sent.

This runs before axes are named, so that the shifted axis keeps its name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..code.operations import Input, Literal, Operation
from ..jax_compat import changed
from ..tensors.shift import shift_p

Producers = Mapping[int, Operation]
# A value of more pieces is no shift, nor a piece of one.
_MOST_PIECES = 4
_SUMS = ("add", "add_any")


class _Piece(NamedTuple):
    """Names the elements `start` to `stop` of an array along an axis; as many zeros where there is no array."""

    array: int | None
    variable: Any
    start: int
    stop: int


def as_shift(operation: Operation, producers: Producers) -> Operation:
    """Rewrites an operation that joins pieces of one array as a shift; returns any other one unchanged."""
    axis = _axis(operation, producers)
    pieces = _joined(operation, 0, axis, producers) if axis is not None else None
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
    """Returns by how much two pieces, side by side, are shifted; 0 where they are no shift of the array."""
    first, second = pieces
    behind, ahead = first.stop - first.start, first.start
    if first.array is None:
        return behind if (second.start, second.stop) == (0, size - behind) else 0
    if second.array is None:
        return -ahead if first.stop == size else 0
    return behind if first.stop == size and (second.start, second.stop) == (0, ahead) else 0


def _axis(operation: Operation, producers: Producers) -> int | None:
    """Returns the axis along which an operation joins pieces; None where it joins none, or along several."""
    if operation.name == "concatenate":
        return operation.params["dimension"]
    if operation.name in ("pad", "slice"):
        axes = _changed(operation)
        return axes[0] if len(axes) == 1 else None
    if operation.name not in _SUMS:
        return None
    pads = [_producer(value, producers) for value in operation.inputs]
    axes = [_axis(pad, producers) if pad and pad.name == "pad" else None for pad in pads]
    return axes[0] if axes[0] == axes[1] else None


def _producer(value: Input, producers: Producers) -> Operation | None:
    return producers.get(value) if isinstance(value, int) else None


def _changed(operation: Operation) -> list[int]:
    """Returns the axes along which a slice or pad changes its operand."""
    if operation.name == "pad":
        return [axis for axis, config in enumerate(operation.params["padding_config"]) if any(config)]
    before, after = operation.equation.invars[0].aval.shape, operation.equation.outvars[0].aval.shape
    return [axis for axis, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]


# The pieces of a value


def _pieces(value: Input, variable: Any, axis: int, producers: Producers) -> list[_Piece]:
    """Returns the pieces that a value is joined of along an axis; the value itself where these are unknown."""
    producer, pieces = _producer(value, producers), None
    # A sum is taken apart only where it may be a shift itself: most are none.
    if producer is not None and producer.name not in _SUMS:
        pieces = _joined(producer, producer.outputs.index(value), axis, producers)
    if pieces is not None and len(pieces) <= _MOST_PIECES:
        return pieces
    return [_Piece(value if isinstance(value, int) else None, variable, 0, variable.aval.shape[axis])]


def _joined(operation: Operation, position: int, axis: int, producers: Producers) -> list[_Piece] | None:
    """Returns the pieces that an operation joins to its result number `position`; None where it joins none."""
    pieces_of = _PIECES.get(operation.name)
    pieces = pieces_of(operation, position, axis, producers) if pieces_of is not None else None
    return _merged(pieces) if pieces is not None else None


def _of_zeros(operation: Operation, _place: int, axis: int, producers: Producers) -> list[_Piece] | None:
    size = operation.equation.outvars[0].aval.shape[axis]
    return [_Piece(None, None, 0, size)] if number(operation.inputs[0], producers) == 0 else None


def _of_concatenation(operation: Operation, _place: int, axis: int, producers: Producers) -> list[_Piece] | None:
    if operation.params["dimension"] != axis:
        return None
    return [piece for v, a in _read(operation) for piece in _pieces(v, a, axis, producers)]


def _of_slice(operation: Operation, _place: int, axis: int, producers: Producers) -> list[_Piece] | None:
    params = operation.params
    if any(stride != 1 for stride in params["strides"] or ()) or set(_changed(operation)) - {axis}:
        return None
    ((value, variable),) = _read(operation)
    return _cut(_pieces(value, variable, axis, producers), params["start_indices"][axis], params["limit_indices"][axis])


def _of_split(operation: Operation, position: int, axis: int, producers: Producers) -> list[_Piece] | None:
    ((value, variable),), sizes = _read(operation), operation.params["sizes"]
    if operation.params["axis"] != axis:
        return None
    start = sum(sizes[:position])
    return _cut(_pieces(value, variable, axis, producers), start, start + sizes[position])


def _of_padding(operation: Operation, _place: int, axis: int, producers: Producers) -> list[_Piece] | None:
    """Returns an array's pieces between zeros, or without its ends."""
    low, high, gap = map(int, operation.params["padding_config"][axis])
    if gap or set(_changed(operation)) - {axis} or number(operation.inputs[1], producers) != 0:
        return None
    value, variable = _read(operation)[0]
    zeros = [_Piece(None, None, 0, max(0, width)) for width in (low, high)]
    pieces = [zeros[0], *_pieces(value, variable, axis, producers), zeros[1]]
    return _cut(pieces, max(0, -low), sum(stop - start for *_, start, stop in pieces) - max(0, -high))


def _of_sum(operation: Operation, _place: int, axis: int, producers: Producers) -> list[_Piece] | None:
    """Joins two arrays, each of which is zero where the other one is not."""
    left, right = (_pieces(v, a, axis, producers) for v, a in _read(operation))
    if len(left) != 2 or len(right) != 2 or left[0].array is None:
        left, right = right, left
    if len(left) != 2 or len(right) != 2 or left[1].array is not None or right[0].array is not None:
        return None
    return [left[0], right[1]] if left[0].stop - left[0].start == right[0].stop else None


_PIECES: dict[str, Callable[[Operation, int, int, Producers], list[_Piece] | None]] = {
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
    """Cuts joined pieces to the elements `start` to `stop`."""
    cut, position = [], 0
    for piece in pieces:
        size = piece.stop - piece.start
        first, last = max(0, start - position), min(size, stop - position)
        if first < last:
            cut.append(piece._replace(start=piece.start + first, stop=piece.start + last))
        position += size
    return cut


def _merged(pieces: Iterable[_Piece]) -> list[_Piece]:
    """Merges pieces that follow one another in their array, and drops empty ones."""
    merged: list[_Piece] = []
    for piece in pieces:
        last = merged[-1] if merged else None
        if last is not None and last.array == piece.array and (piece.array is None or last.stop == piece.start):
            merged[-1] = last._replace(stop=last.stop + piece.stop - piece.start)
        elif piece.start < piece.stop:
            merged.append(piece if piece.array is not None else _Piece(None, None, 0, piece.stop - piece.start))
    return merged


def number(value: Input, producers: Producers) -> Any:
    """Returns the number of a constant scalar, looking through casts; None for any other value."""
    if isinstance(value, Literal):
        return np.asarray(value.value).item()
    cast = producers.get(value)
    return number(cast.inputs[0], producers) if cast is not None and cast.name == "convert_element_type" else None
