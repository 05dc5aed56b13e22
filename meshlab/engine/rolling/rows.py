"""Finds layers that are rows of arrays, which a program reads one by one: `params["w"][i]`.

    w0 = w[0]       w1 = w[1]                       (w0, w1) is a family, and w its stack
    p1 = pad(g1)    p0 = pad(g0)    g = p1 + p0     g = concatenate(g0, g1)

JAX's gradient of a row is an array with zeros around the row's own, and that of the array is the sum of these. Joined,
they are what the backward pass of a scan returns.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jax.extend.core import Literal

from ..jax_programs import concatenation, reading, variables_like, within
from .additions import NOWHERE, Term, sums_of
from .equation_kinds import index_of, numbers_of
from .loops import Family

# Layers are at least so many.
_LEAST = 2


def has_rows(equation: Any) -> bool:
    """Says whether several rows of arrays are read inside a call, or padded."""
    rows = (each for each in within(equation) if index_of(each) is not None or _padded(each) is not None)
    return len(list(rows)) >= _LEAST


def rows_apart(
    equations: Sequence[Any], outputs: Collection[Any], arrays: Collection[Any]
) -> tuple[list[Any], dict[Family, Any]]:
    """Returns a program without the reading of rows, and the families of rows with the arrays that they stack.

    Args:
        equations: of the program, in order.
        outputs: its results.
        arrays: its arguments; rows are those of these, or of what is made of one of them element by element.
    """
    read = Counter(v for each in equations for v in each.invars if not isinstance(v, Literal))
    read.update(outputs)
    pairs = zip(equations, numbers_of(equations).tolist(), strict=True)
    uses = [(v, kind) for each, kind in pairs for v in each.invars if not isinstance(v, Literal)]
    first_use = dict(reversed(uses))
    families: dict[Family, Any] = {}
    same: dict[Any, Any] = {}
    dropped: set[int] = set()
    for array, rows in _rows_read(equations, arrays).items():
        if len(rows) < _LEAST or len(rows) < array.aval.shape[0]:
            continue
        each = [[equations[squeeze].outvars[0] for _, squeeze in rows[index]] for index in range(len(rows))]
        # What is done with the two rows of a batch of inputs and targets is not the same.
        if len({first_use.get(row) for row, *_ in each}) > 1:
            continue
        families[tuple(first for first, *_ in each)] = array
        same.update((other, first) for first, *others in each for other in others)
        for cut, squeeze in itertools.chain(*rows.values()):
            # A result that is a row is cut out for itself, where another row is the same.
            if equations[squeeze].outvars[0] not in same.keys() & set(outputs):
                dropped.update((squeeze, cut) if read[equations[cut].outvars[0]] == 1 else (squeeze,))
    if not families:
        return list(equations), {}
    joined: dict[Any, list[Any]] = {}
    for terms in sums_of(equations, outputs):
        (total,) = equations[terms[-1].row].outvars
        if made := _joined(equations, terms):
            joined[total] = made
            makers = {each.maker for each in terms if _padded_at(equations, each) is not None}
            dropped.update(row for row in makers if read[equations[row].outvars[0]] == 1)
            dropped.update(each.row for each in terms)
    left = [each for row, each in enumerate(equations) if row not in dropped]
    return list(_written(left, joined, same)), families


def _rows_read(equations: Sequence[Any], arrays: Collection[Any]) -> dict[Any, dict[int, list[tuple[int, int]]]]:
    """Returns by array and index which equations read a row: that which cuts it out, and that which drops its axis."""
    known, cuts = set(arrays), dict[Any, tuple[Any, int, int]]()
    rows: dict[Any, dict[int, list[tuple[int, int]]]] = {}
    for row, equation in enumerate(equations):
        read = [v for v in equation.invars if not isinstance(v, Literal)]
        if len(read) != 1:
            continue
        (value,) = read
        if value in cuts and _drops_axis(equation):
            array, index, cut = cuts[value]
            rows.setdefault(array, {}).setdefault(index, []).append((cut, row))
        elif value in known and (index := index_of(equation)) is not None:
            cuts[equation.outvars[0]] = value, index, row
        elif value in known and all(v.aval.shape == value.aval.shape for v in equation.outvars):
            known.update(equation.outvars)
    return rows


def _drops_axis(equation: Any) -> bool:
    return equation.primitive.name == "squeeze" and tuple(equation.params["dimensions"]) == (0,)


def _padded(equation: Any) -> int | None:
    """Returns the index of the row around which an equation puts zeros; None for others."""
    if equation.primitive.name != "pad" or not isinstance(equation.invars[1], Literal):
        return None
    row, zero = equation.invars
    if isinstance(row, Literal) or not row.aval.shape:
        return None
    (before, after, between), *others = equation.params["padding_config"]
    is_row = row.aval.shape[0] == 1 and min(before, after) >= 0 and not between
    is_zero = not np.asarray(zero.val).any()
    return int(before) if is_row and is_zero and not any(map(any, others)) else None


def _padded_at(equations: Sequence[Any], term: Term) -> int | None:
    return None if term.maker == NOWHERE else _padded(equations[term.maker])


def _joined(equations: Sequence[Any], terms: Sequence[Term]) -> list[Any]:
    """Returns equations for a sum of all rows of an array, and maybe of more; none where rows are missing."""
    last = equations[terms[-1].row]
    rows: dict[int, list[Any]] = {}
    values: list[Any] = []
    for term in terms:
        index = _padded_at(equations, term)
        if index is None:
            values.append(equations[term.row].invars[term.column])
        else:
            rows.setdefault(index, []).append(equations[term.maker].invars[0])
    if len(rows) < _LEAST or len(rows) < last.outvars[0].aval.shape[0] or len(set(map(len, rows.values()))) > 1:
        return []
    made = [concatenation(last, each) for each in zip(*(rows[index] for index in range(len(rows))), strict=True)]
    values = [*(each.outvars[0] for each in made), *values]
    total = values[0]
    for value in values[1:]:
        made.append(reading(last, [total, value], variables_like(last.outvars)))
        total = made[-1].outvars[0]
    return [*made[:-1], reading(made[-1], made[-1].invars, last.outvars)]


def _written(equations: Sequence[Any], joined: Mapping[Any, Sequence[Any]], same: Mapping[Any, Any]) -> Iterator[Any]:
    """Yields equations with sums in front of what first reads them, behind all iterations that make their terms."""
    waiting = dict(joined)

    def written(equation: Any) -> Iterator[Any]:
        reads = [v if isinstance(v, Literal) else same.get(v, v) for v in equation.invars]
        for value in reads:
            if not isinstance(value, Literal) and value in waiting:
                for each in waiting.pop(value):
                    yield from written(each)
        yield reading(equation, reads, equation.outvars)

    for equation in equations:
        yield from written(equation)
    while waiting:
        for each in waiting.pop(next(iter(waiting))):
            yield from written(each)
