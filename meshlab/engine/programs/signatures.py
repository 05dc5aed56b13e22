"""Tells which operations are over the same axes: equal factors, whose axes have equal names.

A step of training is some hundreds of operations, but few that differ in this: what follows from it is worked out once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

from ..code.operations import Code, Operation, walk
from ..rules import Factors, factors_of
from .naming import Cuts, facts_of
from .small_slices import small_slices
from .spread_names import Names

# The names of factors, by number.
FactorNames = tuple[tuple[int, str], ...]


def factors_by_operation(
    code: Code, uniform: Collection[int], zeros: Collection[int], materialisable: Collection[int]
) -> dict[Operation, Factors]:
    """Returns the factors of every operation without blocks; equal ones are one object."""
    little = small_slices(code, materialisable)
    alike: dict[Hashable, Factors] = {}
    found = {}
    for operation in walk(code.block):
        if not operation.blocks:
            made = factors_of(operation, facts_of(code, operation, uniform, zeros, little))
            found[operation] = alike.setdefault(made.key, made)
    return found


def renamed(names: Sequence[Names], name_of: Callable[[str | None], str | None]) -> tuple[Names, ...]:
    """Returns the names of all values' axes under other names; many values have the same."""
    known: dict[Names, Names] = {}
    for own in names:
        if own not in known:
            known[own] = tuple(map(name_of, own))
    return tuple([known[own] for own in names])


def signatures(factors: Mapping[Operation, Factors], names: Sequence[Names], cuts: Cuts) -> dict[Operation, int]:
    """Numbers operations: equal numbers for equal factors, names and cuts.

    Args:
        factors: of each operation; equal ones are one object.
        names: of each value's axes; None for those that no rule may shard.
        cuts: where names are cut, by the first result.
    """
    numbers: dict[Hashable, int] = {}
    found = {}
    for operation, own in factors.items():
        read = tuple([names[v] if isinstance(v, int) else None for v in operation.inputs])
        made = tuple([names[v] for v in operation.outputs])
        key = id(own), read, made, _cut(operation, cuts)
        found[operation] = numbers.setdefault(key, len(numbers))
    return found


def factor_names(
    numbers: Mapping[Operation, int], factors: Mapping[Operation, Factors], names: Sequence[Names], cuts: Cuts
) -> dict[Operation, FactorNames]:
    """Returns the name of each factor of an operation: that of the result, where it has the factor.

    So the name of an operand never stands in for one of the result that no rule may shard, since nobody gave it. Equal
    ones are one object.

    Args:
        numbers: the operations' `signatures`, which were made of the other arguments.
        factors: of each operation.
        names: of each value's axes.
        cuts: where names are cut.
    """
    known: dict[int, FactorNames] = {}
    alike: dict[FactorNames, FactorNames] = {}
    for operation, number in numbers.items():
        if number not in known:
            found = _factor_names(operation, factors[operation], names, _cut(operation, cuts))
            known[number] = alike.setdefault(found, found)
    return {operation: known[number] for operation, number in numbers.items()}


def _cut(operation: Operation, cuts: Cuts) -> frozenset[tuple[int, int]]:
    return cuts.get(operation.outputs[0], frozenset()) if operation.outputs else frozenset()


def _factor_names(
    operation: Operation, factors: Factors, names: Sequence[Names], cut: frozenset[tuple[int, int]]
) -> FactorNames:
    found: dict[int, str | None] = {}
    for position, (value, axes) in enumerate(zip(operation.inputs, factors.operands, strict=True)):
        if isinstance(value, int):
            for axis, (factor, name) in enumerate(zip(axes, names[value], strict=True)):
                if factor >= 0 and name and (position, axis) not in cut:
                    found[factor] = name
    for value, axes in zip(operation.outputs, factors.results, strict=True):
        found.update((factor, name) for factor, name in zip(axes, names[value], strict=True) if factor >= 0)
    return tuple((factor, name) for factor, name in found.items() if name)
