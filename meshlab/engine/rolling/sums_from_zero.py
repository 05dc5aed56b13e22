"""Starts sums over layers from zero, so that the first layer adds to them as the others do.

    layer 2    g2 = back(w2, s)                    g2 = back(w2, s)    t2 = 0 + g2
    layer 1    g1 = back(w1, s)    t1 = g2 + g1    g1 = back(w1, s)    t1 = t2 + g1
    layer 0    g0 = back(w0, s)    t0 = t1 + g0    g0 = back(w0, s)    t0 = t1 + g0

JAX adds up the gradients of what all layers read, such as the encoder's end or a weight that they share, as soon as it
has them. The first of them is the sum so far, so the first layer has one equation less than the others. In the backward
pass of a scan the sum is carried, and starts from zero: so it does here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from jax.extend.core import Literal

from ..jax_programs import added_to_zero, reading
from .additions import NOWHERE, Term, sums_of
from .equation_kinds import multiplies, numbers_of
from .loops import Family


def sums_from_zero(equations: Sequence[Any], outputs: Collection[Any], families: Collection[Family]) -> list[Any]:
    """Returns a program's equations, in which sums to which each layer adds start from zero.

    Args:
        equations: of the program, in order.
        outputs: its results.
        families: those of its arguments.
    """
    fewest, last_read = min(map(len, families)), _last_read(equations, families)
    numbers = numbers_of(equations)
    changed, order = list(equations), list(range(len(equations)))
    # By shape and dtype the zero, and the equations that make it.
    zeros: dict[Any, tuple[Any, list[Any]]] = {}

    def kind(term: Term) -> tuple[int, int] | None:
        if term.maker == NOWHERE:
            return None
        value = equations[term.row].invars[term.column]
        return int(numbers[term.maker]), equations[term.maker].outvars.index(value)

    # In the order of the second layer's additions, which the first layer's then have as well.
    starting: list[tuple[Term, Term]] = []
    for terms in sums_of(equations, outputs):
        kinds = list(map(kind, terms))
        alike = [term for term, each in zip(terms, kinds, strict=True) if each == kinds[0]]
        # Terms of one layer are a sum of its own, as the gradients of what query, key and value are made of.
        layers = len({last_read[term.maker] for term in alike})
        if kinds[0] is not None and len(alike) >= fewest and layers >= max(2, fewest - 1):
            starting.append((alike[0], alike[1]))
    for first, second in sorted(starting, key=lambda pair: pair[1].row):
        # Terms between which nothing is multiplied are no layers'.
        if not any(map(multiplies, equations[first.maker + 1 : second.row])):
            continue
        before = changed[first.row]
        term = before.invars[first.column]
        *made, added = added_to_zero(changed[second.row], second.column, term)
        zero, _ = zeros.setdefault((term.aval.shape, term.aval.dtype), (added.invars[1 - second.column], made))
        added = reading(added, [term if v is term else zero for v in added.invars], added.outvars)
        reads = [added.outvars[0] if i == first.column else v for i, v in enumerate(before.invars)]
        changed[first.row] = reading(before, reads, before.outvars)
        behind = order.index(second.row) - order.index(second.maker)
        order.insert(order.index(first.maker) + behind, len(changed))
        changed.append(added)
    return [*(each for _, made in zeros.values() for each in made), *(changed[row] for row in order)]


def _last_read(equations: Sequence[Any], families: Collection[Family]) -> list[int]:
    """Returns for each equation the layer whose weights were read last; -1 before any was."""
    layer = {v: index for family in families for index, v in enumerate(family)}
    last, found = -1, []
    for equation in equations:
        read = [layer.get(v, -1) for v in equation.invars if not isinstance(v, Literal)]
        if len(own := set(read) - {-1}) == 1:
            (last,) = own
            # What is made of weights alone is read as they are: they may be cast in front of all layers.
            layer.update(dict.fromkeys(equation.outvars, last) if own == set(read) else {})
        found.append(last)
    return found
