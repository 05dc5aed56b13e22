"""Finds the arguments that must be positive: of which a root, a logarithm or a broken power is taken.

    v ↦ sqrt(0.99 · v + 0.01 · g²)        v, for a root is taken of a sum of it and a square; g is not asked to be

A sum of positive numbers is positive, and so is a product; a square is anyway. So the demand goes from a root back
through such operations, into loops and branches, and ends where anything else made a value: an exponential, a
difference, a matmul.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import jax
import numpy as np

from ..code.loops import carried
from ..code.operations import Block, Input, Literal, Operation, walk
from .program import Program

_ROOTS = ("sqrt", "rsqrt", "log", "lgamma", "digamma")
_OF_ALL = "add add_any div min concatenate tag rename optimization_barrier".split()
_OF_FIRST = (
    "convert_element_type copy reshape broadcast_in_dim transpose squeeze expand_dims slice rev reduce_sum reduce_max"
    " reduce_min reduce_prod cumsum cumprod cummax cummin dynamic_slice gather reduce_precision sqrt rsqrt"
).split()


def positive_arguments(program: Program) -> frozenset[int]:
    """Returns the numbers of the arguments of which some root or logarithm asks that they are positive."""
    makers: dict[int, Operation] = {}
    before: dict[int, list[Input]] = {}
    todo: list[Input] = []
    for operation in walk(program.code.block):
        makers.update((o, operation) for o in operation.outputs)
        if operation.body:
            before.update(_before(operation, operation.body))
        if operation.name in _ROOTS or (operation.name == "pow" and not _is_whole(program, operation.inputs[1])):
            todo.append(operation.inputs[0])
    seen: set[int] = set()
    while todo:
        value = todo.pop()
        if isinstance(value, int) and value not in seen:
            seen.add(value)
            todo += before[value] if value in before else _asked(makers, value)
    return frozenset(a.value for a in program.arguments if a.value in seen)


def _before(operation: Operation, body: Block) -> Iterator[tuple[int, list[Input]]]:
    """Yields what comes into a body, and from where: from around it, and what is carried from its own end as well."""
    loops = carried(operation) if operation.name in ("scan", "while") else 0
    for i, (inside, outside) in enumerate(zip(body.inputs, operation.inputs, strict=False)):
        yield inside, [outside, body.outputs[i]] if i < loops else [outside]


def _is_whole(program: Program, exponent: Input) -> bool:
    """Says whether a power of numbers below zero is a number: of a whole exponent, and of any complex one."""
    if isinstance(exponent, Literal):
        number = np.asarray(exponent.value)
        return np.iscomplexobj(number) or bool(np.all(number % 1 == 0))
    return jax.numpy.issubdtype(program.code.dtypes[exponent], jax.numpy.integer)


def _asked(makers: Mapping[int, Operation], value: int) -> Iterable[Input]:
    """Returns the inputs that must be positive for a value to be: those of the operation that makes it."""
    maker = makers.get(value)
    if maker is None:
        return ()
    if maker.blocks:
        place = maker.outputs.index(value)
        return [block.outputs[place] for block in maker.blocks if len(block.outputs) == len(maker.outputs)]
    if maker.name == "mul":
        return [factor for factor, count in Counter(_multiplied(makers, value)).items() if count % 2]
    if maker.name == "max":
        clamped = any(isinstance(i, Literal) and np.all(np.asarray(i.value) > 0) for i in maker.inputs)
        return () if clamped else maker.inputs
    if maker.name == "select_n":
        return maker.inputs[1:]
    if maker.name in _OF_FIRST:
        return maker.inputs[:1]
    return maker.inputs if maker.name in _OF_ALL else ()


def _multiplied(makers: Mapping[int, Operation], value: Input) -> Iterator[Input]:
    """Yields the factors of a product, and of factors that are products theirs: the same one twice is a square."""
    maker = makers.get(value) if isinstance(value, int) else None
    if maker is None or maker.name != "mul":
        yield value
    else:
        for factor in maker.inputs:
            yield from _multiplied(makers, factor)
