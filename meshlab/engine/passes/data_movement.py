"""Builds the terms of operators that move elements: slices, concatenations, transposes, reshapes; and of reductions.

    concatenate([x, y])[:8] → x        x[2:7][1:4] → x[3:6]        x[::-1][::-1] → x        x.T.T → x

Parameters are those of shapes without axes of size 1 (see `terms`), so that adding, moving or removing an axis of size
1 does not change the term.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from ..code.operations import Operation
from ..rules import TRAITS, names_where
from ..rules.traits import IDEMPOTENT
from .algebra import Algebra
from .terms import Number, Shape, Term, Terms, positions, squeezed, text

# Returns the term of an operation's result, or of each if there are several; None where nothing simplifies it.
Builder = Callable[[Algebra, Operation, list[Number]], Number | list[Number] | None]
DATA_MOVEMENT: dict[str, Builder] = {}


def term_of(*names: str) -> Callable[[Any], Any]:
    """Registers the builder of some primitives' terms."""

    def register(function: Builder) -> Builder:
        DATA_MOVEMENT.update(dict.fromkeys(names, function))
        return function

    return register


def _operand_shape(operation: Operation, position: int = 0) -> Shape:
    return tuple(operation.equation.invars[position].aval.shape)


def _result(operation: Operation) -> Any:
    return operation.equation.outvars[0].aval


@term_of(*names_where(lambda traits: traits.identity))
def _same(_algebra: Algebra, _operation: Operation, inputs: list[Number]) -> Number:
    return inputs[0]


@term_of(*names_where(lambda traits: traits.kind == "bitcast" and not traits.identity))
def _reshape(algebra: Algebra, operation: Operation, inputs: list[Number]) -> Number | None:
    if operation.name == "reshape" and operation.params["dimensions"] is not None:
        return None
    return reshaped(algebra.terms, inputs[0], squeezed(_result(operation).shape))


def reshaped(terms: Terms, number: Number, shape: Shape) -> Number:
    """Reshapes a term."""
    while terms[number].name == "reshape":
        (number,) = terms[number].inputs
    term = terms[number]
    return (
        number
        if term.name == "const" or term.shape == shape
        else terms.make("reshape", (), (number,), shape, term.dtype)
    )


@term_of("broadcast_in_dim")
def _broadcast(algebra: Algebra, operation: Operation, inputs: list[Number]) -> Number:
    shape, target = _operand_shape(operation), _result(operation).shape
    where = positions(target)
    axes = tuple(where[a] for a, n in zip(operation.params["broadcast_dimensions"], shape, strict=True) if n != 1)
    return repeated(algebra.terms, inputs[0], axes, squeezed(target))


def repeated(terms: Terms, number: Number, axes: tuple[int, ...], shape: Shape) -> Number:
    """Broadcasts a term, whose axes become `axes` of the shape."""
    term = terms[number]
    if term.name == "const" or term.shape == shape:
        return number
    if term.name == "broadcast":
        return repeated(terms, term.inputs[0], tuple(axes[a] for a in _tuple(term.params)), shape)
    return terms.make("broadcast", axes, (number,), shape, term.dtype)


def _tuple(params: Any) -> tuple[int, ...]:
    return params


@term_of("transpose")
def _transpose(algebra: Algebra, operation: Operation, inputs: list[Number]) -> Number:
    shape = _operand_shape(operation)
    where = positions(shape)
    return transposed(
        algebra.terms, inputs[0], tuple(where[a] for a in operation.params["permutation"] if shape[a] != 1)
    )


def transposed(terms: Terms, number: Number, order: tuple[int, ...]) -> Number:
    """Transposes a term."""
    term = terms[number]
    if term.name == "const" or order == tuple(range(len(order))):
        return number
    if term.name == "transpose":
        first = _tuple(term.params)
        return transposed(terms, term.inputs[0], tuple(first[axis] for axis in order))
    return terms.make("transpose", order, (number,), tuple(term.shape[axis] for axis in order), term.dtype)


@term_of(*names_where(lambda traits: traits.kind == "reduce"))
def _reduce(algebra: Algebra, operation: Operation, inputs: list[Number]) -> Number | None:
    shape = _operand_shape(operation)
    where = positions(shape)
    axes = tuple(sorted(where[a] for a in operation.params["axes"] if shape[a] != 1))
    if any(v is not None for k, v in operation.params.items() if k not in ("axes", "out_sharding")):
        return None
    count = math.prod(shape[a] for a in operation.params["axes"])
    return reduced(algebra, operation.name, inputs[0], axes, count)


def reduced(algebra: Algebra, name: str, number: Number, axes: tuple[int, ...], count: int) -> Number | None:
    """Reduces a term over some of its axes, which have `count` elements together."""
    terms, dtype = algebra.terms, algebra.terms[number].dtype
    term = terms[number]
    if count == 0:
        return None
    if not axes and term.name != "const":
        return number
    if term.name == "const":
        return _reduced_constant(algebra, name, number, count, dtype)
    if name == "reduce_sum" and term.name == "neg":
        inner = reduced(algebra, name, term.inputs[0], axes, count)
        return None if inner is None else algebra.of("neg", inner, dtype=dtype)
    if term.name == name:
        first = _tuple(term.params)
        source = terms[term.inputs[0]]
        left = [axis for axis in range(len(source.shape)) if axis not in first]
        axes, number, term = tuple(sorted((*first, *(left[a] for a in axes)))), term.inputs[0], source
    if len(axes) == len(term.shape):
        # All elements are reduced, in whatever shape.
        while term.name == "reshape":
            number, term = term.inputs[0], terms[term.inputs[0]]
        axes = tuple(range(len(term.shape)))
    shape = tuple(n for axis, n in enumerate(term.shape) if axis not in axes)
    return terms.make(name, axes, (number,), shape, dtype)


def _reduced_constant(algebra: Algebra, name: str, number: Number, count: int, dtype: Any) -> Number | None:
    if name == "reduce_sum":
        return algebra.of("mul", number, algebra.constant(count, dtype), dtype=dtype)
    return number if TRAITS[name].joins in IDEMPOTENT else None


@term_of("dot_general")
def _dot(algebra: Algebra, operation: Operation, inputs: list[Number]) -> Number | None:
    """Writes a contraction that leaves no axis of either operand alone as a sum of elementwise products."""
    contracted, batched = operation.params["dimension_numbers"]
    shapes = [_operand_shape(operation, i) for i in (0, 1)]
    orders = [(*batched[i], *contracted[i]) for i in (0, 1)]
    dtypes = {text(v.aval.dtype) for v in (*operation.equation.invars, *operation.equation.outvars)}
    if any(len(order) != len(shape) for order, shape in zip(orders, shapes, strict=True)) or len(dtypes) > 1:
        return None
    dtype = _result(operation).dtype
    sides = []
    for number, shape, order in zip(inputs, shapes, orders, strict=True):
        where = positions(shape)
        sides.append(transposed(algebra.terms, number, tuple(where[a] for a in order if shape[a] != 1)))
    together = algebra.of("mul", *sides, dtype=dtype)
    ordered = [shapes[0][a] for a in orders[0]]
    riding = len(batched[0])
    where = positions(ordered)
    axes = tuple(where[a] for a in range(riding, len(ordered)) if ordered[a] != 1)
    return reduced(algebra, "reduce_sum", together, axes, math.prod(ordered[riding:]))


@term_of("slice")
def _slice(algebra: Algebra, operation: Operation, inputs: list[Number]) -> Number | None:
    params = operation.params
    strides = params["strides"] or (1,) * len(params["start_indices"])
    ranges = zip(params["start_indices"], params["limit_indices"], strides, strict=True)
    return sliced(algebra.terms, inputs[0], _operand_shape(operation), [range(*r) for r in ranges])


@term_of("dynamic_slice")
def _dynamic_slice(algebra: Algebra, operation: Operation, inputs: list[Number]) -> Number | None:
    shape, sizes = _operand_shape(operation), operation.params["slice_sizes"]
    starts = []
    for axis, number in enumerate(inputs[1:]):
        start = 0 if shape[axis] == sizes[axis] else algebra.number_of(number)
        if start is None:
            return None
        starts.append(max(0, min(int(start), shape[axis] - sizes[axis])))
    return sliced(algebra.terms, inputs[0], shape, [range(s, s + n) for s, n in zip(starts, sizes, strict=True)])


def sliced(terms: Terms, number: Number, shape: Shape, ranges: Sequence[range]) -> Number:
    """Slices a term: takes a range along each axis of its full shape."""
    return _cut(terms, number, [r for r, size in zip(ranges, shape, strict=True) if size != 1])


def _cut(terms: Terms, number: Number, ranges: list[range]) -> Number:
    """Slices a term along the axes that are not of size 1."""
    term = terms[number]
    if term.name == "const" or all(r == range(n) for r, n in zip(ranges, term.shape, strict=True)):
        return number
    if term.name == "slice":
        inner = ranges_of(term)
        # Where one element was taken the axis is gone.
        waiting = iter(ranges)
        through = [r if len(r) == 1 else r[(w := next(waiting)).start : w.stop : w.step] for r in inner]
        return _cut(terms, term.inputs[0], through)
    piece = _piece(terms, number, ranges)
    if piece is not None:
        return piece
    params = tuple((r.start, r.stop, r.step) for r in ranges)
    return terms.make("slice", params, (number,), squeezed([len(r) for r in ranges]), term.dtype)


def ranges_of(term: Term) -> list[range]:
    """Returns the range that a slice takes along each axis."""
    return [range(*r) for r in _tuples(term.params)]


def _tuples(params: Any) -> tuple[tuple[int, int, int], ...]:
    return params


def _piece(terms: Terms, number: Number, ranges: list[range]) -> Number | None:
    """Slices one piece of a concatenation, or the inside of a pad; None where the slice covers more."""
    term = terms[number]
    if term.name == "concatenate":
        along, sizes = term.params  # pyright: ignore[reportGeneralTypeIssues]
        start, wanted = 0, ranges[along]
        for piece, size in zip(term.inputs, sizes, strict=True):
            if len(wanted) and start <= wanted[0] and wanted[-1] < start + size:
                inside = range(wanted.start - start, wanted.stop - start, wanted.step)
                rest = [inside if axis == along else r for axis, r in enumerate(ranges)]
                return _cut(terms, piece, rest if size != 1 else [r for a, r in enumerate(rest) if a != along])
            start += size
    if term.name == "pad":
        source, lows = terms[term.inputs[0]], _tuple(term.params)
        inner = [range(r.start - low, r.stop - low, r.step) for r, low in zip(ranges, lows, strict=True)]
        if len(lows) == len(source.shape) and all(
            len(r) and 0 <= r[0] and r[-1] < n for r, n in zip(inner, source.shape, strict=True)
        ):
            return _cut(terms, term.inputs[0], inner)
    return None


@term_of("dynamic_update_slice")
def _update(algebra: Algebra, operation: Operation, inputs: list[Number]) -> Number | None:
    """Replaces an update of the full array by the update."""
    return inputs[1] if _operand_shape(operation) == _operand_shape(operation, 1) else None


@term_of("scatter")
def _scatter(_algebra: Algebra, operation: Operation, inputs: list[Number]) -> Number | None:
    """Replaces a scatter without indexed axes by its updates."""
    unindexed = _operand_shape(operation, 1)[-1:] == (0,) and operation.params["update_jaxpr"] is None
    return inputs[2] if unindexed and _operand_shape(operation) == _operand_shape(operation, 2) else None


@term_of("tile")
def _tile(_algebra: Algebra, operation: Operation, inputs: list[Number]) -> Number | None:
    return inputs[0] if set(operation.params["reps"]) <= {1} else None


@term_of("concatenate")
def _concatenate(algebra: Algebra, operation: Operation, inputs: list[Number]) -> Number | None:
    along = operation.params["dimension"]
    sizes = [_operand_shape(operation, i)[along] for i in range(len(inputs))]
    return _joined(algebra.terms, inputs, sizes, _result(operation), along)


@term_of("stack")
def _stack(algebra: Algebra, operation: Operation, inputs: list[Number]) -> Number | None:
    result = _result(operation)
    return _joined(algebra.terms, inputs, [1] * len(inputs), result, operation.params["axis"] % len(result.shape))


def _joined(terms: Terms, inputs: list[Number], sizes: list[int], result: Any, along: int) -> Number | None:
    pieces = [(number, size) for number, size in zip(inputs, sizes, strict=True) if size]
    if len(pieces) == 1:
        return pieces[0][0]
    if not pieces:
        return None
    axis = positions(result.shape)[along]
    merged = _merged_slices(terms, pieces, axis)
    if merged is not None:
        return merged
    if len({number for number, _ in pieces}) == 1 and terms[pieces[0][0]].name == "const":
        return pieces[0][0]
    numbers, counts = zip(*pieces, strict=True)
    return terms.make("concatenate", (axis, counts), numbers, squeezed(result.shape), result.dtype)


def _merged_slices(terms: Terms, pieces: list[tuple[Number, int]], axis: int) -> Number | None:
    """Merges consecutive slices of one term into one slice."""
    if any(terms[number].name != "slice" for number, _ in pieces):
        return None
    sources = {terms[number].inputs for number, _ in pieces}
    all_ranges = [ranges_of(terms[number]) for number, _ in pieces]
    if len(sources) > 1 or any(len(ranges) <= axis for ranges in all_ranges):
        return None
    others = {tuple(r for a, r in enumerate(ranges) if a != axis) for ranges in all_ranges}
    runs = [ranges[axis] for ranges in all_ranges]
    consecutive = all(a.stop == b.start for a, b in itertools.pairwise(runs)) and all(r.step == 1 for r in runs)
    # An axis of which one element was taken before is not the one that the pieces are joined on.
    if len(others) > 1 or not consecutive or any(len(r) == 1 for r in all_ranges[0][:axis]):
        return None
    ((source,),) = sources
    merged = [*all_ranges[0][:axis], range(runs[0].start, runs[-1].stop), *all_ranges[0][axis + 1 :]]
    return _cut(terms, source, merged)


@term_of("pad")
def _pad(algebra: Algebra, operation: Operation, inputs: list[Number]) -> Number | None:
    config, shape = operation.params["padding_config"], _operand_shape(operation)
    if all(tuple(c) == (0, 0, 0) for c in config):
        return inputs[0]
    # Where an axis of size 1 grows, the axes of what is padded are no longer those of the result.
    simple = all(low >= 0 and high >= 0 and gap == 0 for low, high, gap in config)
    if not simple or any(n == 1 and tuple(c) != (0, 0, 0) for n, c in zip(shape, config, strict=True)):
        return None
    lows = tuple(int(c[0]) for c, n in zip(config, shape, strict=True) if n != 1)
    result = _result(operation)
    return algebra.terms.make("pad", lows, inputs, squeezed(result.shape), result.dtype)


@term_of("rev")
def _reverse(algebra: Algebra, operation: Operation, inputs: list[Number]) -> Number:
    terms, shape = algebra.terms, _operand_shape(operation)
    where = positions(shape)
    axes = frozenset(where[a] for a in operation.params["dimensions"] if shape[a] != 1)
    (number,) = inputs
    if terms[number].name == "rev":
        axes ^= frozenset(_tuple(terms[number].params))
        (number,) = terms[number].inputs
    term = terms[number]
    if not axes or term.name == "const":
        return number
    return terms.make("rev", tuple(sorted(axes)), (number,), term.shape, term.dtype)


@term_of("iota")
def _iota(algebra: Algebra, operation: Operation, _inputs: list[Number]) -> Number:
    result, along = _result(operation), operation.params["dimension"]
    size = result.shape[along]
    if size == 1:
        return algebra.constant(0, result.dtype)
    line = algebra.terms.make("iota", (), (), (size,), result.dtype)
    return repeated(algebra.terms, line, (positions(result.shape)[along],), squeezed(result.shape))


@term_of("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
def _run(_algebra: Algebra, operation: Operation, inputs: list[Number]) -> Number | None:
    """Drops a running sum, product or extreme along an axis of size 1."""
    return inputs[0] if _operand_shape(operation)[operation.params["axis"]] == 1 else None


@term_of("sort")
def _sort(_algebra: Algebra, operation: Operation, inputs: list[Number]) -> list[Number] | None:
    """Drops a sort along an axis of size 1."""
    return inputs if _operand_shape(operation)[operation.params["dimension"]] == 1 else None


@term_of("split")
def _split(algebra: Algebra, operation: Operation, inputs: list[Number]) -> list[Number]:
    shape, axis, start = _operand_shape(operation), operation.params["axis"], 0
    pieces = []
    for size in operation.params["sizes"]:
        ranges = [range(start, start + size) if a == axis else range(n) for a, n in enumerate(shape)]
        pieces.append(sliced(algebra.terms, inputs[0], shape, ranges))
        start += size
    return pieces


@term_of("unstack")
def _unstack(algebra: Algebra, operation: Operation, inputs: list[Number]) -> list[Number]:
    shape = _operand_shape(operation)
    axis = operation.params["axis"] % len(shape)
    pieces = ([range(i, i + 1) if a == axis else range(n) for a, n in enumerate(shape)] for i in range(shape[axis]))
    return [sliced(algebra.terms, inputs[0], shape, ranges) for ranges in pieces]
