"""Finds the scores of attention, which fused attention kernels (FlashAttention) never store in memory.

    scores = dot(query, key)        [batch, heads, seq, ~seq]
    weights = softmax(scores)       a fused kernel holds one tile of both at a time
    out = dot(weights, value)

Every value with a dim of the queries and all dims of the keys is such a score, or its mask or gradient. In the backward
pass such a kernel recomputes the scores: five matmuls where the forward pass has two. A program that stores them has
four, and is charged for the fifth.

Source: Dao et al. 2022, FlashAttention (https://arxiv.org/abs/2205.14135), section 3 and appendix B.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from ...engine.code.operations import Block, Operation, walk
from ...engine.programs.data import Program

# The name of an axis of size 1.
_ONE: frozenset[str | None] = frozenset({None})


@dataclasses.dataclass(frozen=True)
class Scores:
    """The free dims of the matmul that makes scores.

    Attributes:
        queries: the dim of the queries' positions (and of their group, if several share a key).
        keys: the dims of the keys' positions.
    """

    queries: frozenset[str | None]
    keys: frozenset[str | None]


def attentions(program: Program) -> frozenset[Scores]:
    """Returns the dims of the scores of each kind of attention in a program.

    Scores are the results of a matmul with contracted and batch dims (heads, say), of which exponentials are taken, and
    these are contracted over all dims of the keys by another matmul.
    """
    kinds: set[Scores] = set()
    for block in _blocks(program.code.block):
        makers = {out: operation for operation in block.operations for out in operation.outputs}
        for operation in block.operations:
            if operation.name == "dot_general" and not operation.backward:
                for value, summed in zip(operation.inputs, operation.params["dimension_numbers"][0], strict=True):
                    if isinstance(value, int):
                        summed_names = frozenset(program.names[value][axis] for axis in summed)
                        kinds |= set(_scores(program, value, summed_names, makers))
    return frozenset(kinds)


def is_score(program: Program, kinds: frozenset[Scores], value: int) -> bool:
    """Returns whether a value is a score, its mask or its gradient."""
    names = set(program.names[value])
    return any(kind.keys <= names and kind.queries & names for kind in kinds)


def _blocks(block: Block) -> Iterator[Block]:
    yield block
    for operation in walk(block):
        yield from operation.blocks


def _scores(
    program: Program, value: int, over: frozenset[str | None], makers: Mapping[int, Operation]
) -> Iterator[Scores]:
    """The scores of which an operand of a matmul is a softmax."""
    seen, waiting, exponentials = set(), [value], False
    while waiting:
        number = waiting.pop(0)
        maker = makers.get(number)
        if maker is None or number in seen:
            continue
        seen.add(number)
        exponentials |= maker.name in ("exp", "exp2")
        if maker.name != "dot_general":
            waiting += maker.reads
            continue
        ((first, _), (riding, _)), names = maker.params["dimension_numbers"], program.names[number]
        left = len(program.code.shape_of(maker.inputs[0])) - len(first) - len(riding)
        sides = frozenset(names[len(riding) :][:left]) - _ONE, frozenset(names[len(riding) + left :]) - _ONE
        for queries, keys in (sides, sides[::-1]):
            if exponentials and first and riding and keys and keys == over - _ONE and queries:
                yield Scores(queries, keys)
