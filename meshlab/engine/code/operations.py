"""Defines the code of a program: its jaxpr, flattened and numbered.

A jaxpr nests: `jit`, `custom_jvp` and their like wrap more equations. The code of a program is the same list of
equations with such calls inlined, so that what remains is one block of operations, and inside it blocks for loops
(`scan`: its body; `while`: its body and its test), for the branches of a `cond`, and for every rematerialised region
(`remat`). Values are numbered through all blocks; a block reads values of the blocks around it directly, so that a
value is *loop-invariant* where an operation around the loop makes it.

    Block(inputs=(0, 1), operations=(mul 0 1 -> 2, reduce_sum 2 -> 3), outputs=(3,))

Nothing here knows names, layouts or meshes.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..jax_compat import REMAT
from .source import Source, own_function


@dataclasses.dataclass(frozen=True, eq=False)
class Literal:
    """A scalar constant that stands in an operation's inputs."""

    value: Any

    @functools.cached_property
    def is_zero(self) -> bool:
        return not np.any(np.asarray(self.value))


# By the primitives that stand for a function of the user's, what they are called.
_MADE_OF_FUNCTIONS: Mapping[str, str] = dict.fromkeys(REMAT, "{}, computed again")
Input = int | Literal
Scope = tuple[str, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Operation:
    """One equation.

    Attributes:
        name: the primitive's name, as in the jaxpr.
        equation: the jaxpr's equation, whose primitive and parameters are what runs.
        inputs: numbers of values, and literals.
        outputs: numbers of the values that it makes.
        source: the user's line that it comes from.
        backward: whether it runs in the backward pass.
        blocks: the blocks inside: the body, for `scan` and `remat`; the body and the test, for `while`; the branches,
            for `cond`.
        rematerialised: whether it runs again for the backward pass, under `jax.checkpoint`.
        scope: the names of the scopes that it is in (`jax.named_scope`, modules of Flax), outermost first, without what
            differentiation and its like add; none for a sum of cotangents, which is in all of theirs.
    """

    name: str
    equation: Any
    inputs: tuple[Input, ...]
    outputs: tuple[int, ...]
    source: Source | None
    backward: bool
    blocks: tuple[Block, ...] = ()
    rematerialised: bool = False
    scope: Scope = ()

    @functools.cached_property
    def called(self) -> str:
        """What people call it: its primitive; what JAX has made of a function of theirs, by that function."""
        pattern = _MADE_OF_FUNCTIONS.get(self.name)
        if pattern is None:
            return self.name
        names = own_function(self.params["jaxpr"]), *self.scope[-1:], self.source.function if self.source else ""
        return pattern.format(next((name for name in names if name and not name.startswith("<")), "a part"))

    @property
    def body(self) -> Block | None:
        return self.blocks[0] if self.blocks else None

    @property
    def params(self) -> dict[str, Any]:
        return self.equation.params

    @functools.cached_property
    def reads(self) -> tuple[int, ...]:
        """The values among the inputs."""
        return tuple([i for i in self.inputs if isinstance(i, int)])


@dataclasses.dataclass(frozen=True, eq=False)
class Block:
    """Operations in order, with the values that come in and go out."""

    inputs: tuple[int, ...]
    operations: tuple[Operation, ...]
    outputs: tuple[Input, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Code:
    """A flattened jaxpr.

    Attributes:
        block: the outermost block; its inputs are the program's arguments, then its constants.
        shapes: the shape of each value, by number.
        dtypes: the dtype of each value, by number.
        constants: arrays that the function closed over, by number.
        ignored: shardings that the function itself asks for, each with its line; only a layout shards.
        merged: pairs of operations that were taken for equal in bringing it into normal form.
        constraints: the values that the function itself constrains, each with the equation that does; as flattened.
    """

    block: Block
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[Any, ...]
    constants: dict[int, Any]
    ignored: tuple[str, ...] = ()
    merged: tuple[tuple[Operation, Operation], ...] = ()
    constraints: tuple[tuple[int, Any], ...] = ()

    def shape_of(self, value: Input) -> tuple[int, ...]:
        """Returns the shape of an input; literals are scalars."""
        return self.shapes[value] if isinstance(value, int) else ()


def walk(block: Block) -> Iterator[Operation]:
    """Yields every operation of a block and of the blocks inside, outer before inner."""
    for operation in block.operations:
        yield operation
        for inside in operation.blocks:
            yield from walk(inside)


def every_block(block: Block) -> Iterator[Block]:
    """Yields a block and all blocks inside, outer before inner."""
    yield block
    for operation in walk(block):
        yield from operation.blocks


def use_counts(code: Code) -> list[int]:
    """Counts for each value how often it is read: by operations, or as an output of its block."""
    counts = [0] * len(code.shapes)

    def count(block: Block):
        for operation in block.operations:
            for value in operation.reads:
                counts[value] += 1
            for inside in operation.blocks:
                count(inside)
        for value in block.outputs:
            if isinstance(value, int):
                counts[value] += 1

    count(code.block)
    return counts


def item_bytes(dtype: Any) -> float:
    """Returns the bytes of one element: a fraction of one where compilers pack several into a byte, as of int4.

    Typed PRNG keys count with the words of their generator: two of 32 bits for Threefry, four for the others; what has
    no dtype as two.
    """
    if not isinstance(dtype, np.dtype | type):
        return getattr(dtype, "itemsize", 8)
    kind = np.dtype(dtype)
    if kind.itemsize > 1 or kind.kind == "b":
        return kind.itemsize
    return (jnp.iinfo if jnp.issubdtype(kind, np.integer) else jnp.finfo)(kind).bits / 8


def nbytes(elements: int, dtype: Any) -> int:
    return math.ceil(elements * item_bytes(dtype))
