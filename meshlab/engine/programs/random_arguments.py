"""Draws data for a program's arguments, to run it without the user's own.

Floats are drawn around zero, or above it where a root or a logarithm is taken of them (`positive.py`); integers within
what they index: the rows of a gather's table, or the numbers of an iota that they are compared with.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from ..code.operations import Operation, walk
from ..jax_compat import generator
from ..rules import TRAITS
from .positive import positive_arguments
from .program import Program

# Above this many bytes of arguments none are drawn: a host may not hold them.
MOST_DRAWN = 2**30


def drawn_bytes(program: Program) -> int:
    """Returns the bytes of the arguments that would be drawn."""
    return sum(program.value(argument.value).nbytes for argument in program.arguments)


def drawn_arguments(program: Program, seed: int = 0, positive: bool = False, size: float = 1.0) -> tuple[Any, ...]:
    """Draws data for a program's arguments: integers within what they index, floats around zero, or above it.

    Floats around zero, from [-0.5, 0.5), keep a softmax away from its corners, where all layouts would seem to differ.

    Args:
        program: whose arguments.
        seed: of the random numbers.
        positive: draw all floats above zero, and not those alone that must be.
        size: what floats are multiplied by.
    """
    random = np.random.default_rng(seed)
    bounds, above = index_bounds(program), positive_arguments(program)
    leaves = []
    for template, argument in zip(program.templates, program.arguments, strict=True):
        shape, dtype = program.code.shapes[argument.value], program.code.dtypes[argument.value]
        drawn = _draw(random, shape, dtype, bounds.get(argument.value), positive or argument.value in above)
        if jax.numpy.issubdtype(dtype, jax.numpy.inexact):
            drawn = (size * drawn).astype(dtype)
        leaves.append(jax.tree.unflatten(jax.tree.structure(template), [drawn]))
    return jax.tree.unflatten(program.structure, leaves)


def _draw(random: np.random.Generator, shape: tuple[int, ...], dtype: Any, bound: int | None, above: bool) -> Any:
    if jax.numpy.issubdtype(dtype, jax.dtypes.prng_key):
        key = jax.random.key(int(random.integers(2**31)), impl=generator(dtype))
        return jax.random.split(key, shape) if shape else key
    if jax.numpy.issubdtype(dtype, jax.numpy.integer):
        return random.integers(0, bound or 2, shape).astype(dtype)
    if dtype == np.bool_:
        return random.random(shape) < 0.5
    least = 0.05 if above else -0.5
    drawn = random.random(shape) + least
    if jax.numpy.issubdtype(dtype, jax.numpy.complexfloating):
        drawn = drawn + 1j * (random.random(shape) + least)
    return drawn.astype(dtype)


def index_bounds(program: Program) -> dict[int, int]:
    """Returns for integer arguments the size of the table that they index, or of the iota that they equal."""
    bounds: dict[int, int] = {}
    makers = {o: op for op in walk(program.code.block) for o in op.outputs}
    for operation in walk(program.code.block):
        for value, size in _indexed(program, operation, makers):
            for root in _roots(program, value, makers):
                bounds[root] = min(size, bounds.get(root, size))
    return bounds


def _indexed(program: Program, operation: Operation, makers: dict[int, Operation]) -> Iterator[tuple[int, int]]:
    """Yields the values that an operation indexes by, with the size that they index."""
    shapes = program.code.shapes
    traits = TRAITS.get(operation.name)
    if traits is not None and traits.indexes is not None:
        position, size = traits.indexes(operation, tuple(map(program.code.shape_of, operation.inputs)))
        value = operation.inputs[position]
        if isinstance(value, int):
            yield value, size
    if operation.name == "eq":
        left, right = operation.inputs
        for a, b in ((left, right), (right, left)):
            for root in _roots(program, b, makers, through_iota=True) if isinstance(b, int) else ():
                maker = makers.get(root)
                if maker is not None and maker.name == "iota" and isinstance(a, int):
                    yield a, shapes[root][maker.params["dimension"]]


def _roots(program: Program, value: int, makers: dict[int, Operation], through_iota: bool = False) -> list[int]:
    """Returns the arguments (or iotas) that a value of integers comes from."""
    roots, todo, seen = [], [value], set()
    while todo:
        v = todo.pop()
        if v in seen or not jax.numpy.issubdtype(program.code.dtypes[v], jax.numpy.integer):
            continue
        seen.add(v)
        maker = makers.get(v)
        if maker is None or (through_iota and maker.name == "iota"):
            roots.append(v)
        elif not maker.blocks:
            todo += maker.reads
    return roots
