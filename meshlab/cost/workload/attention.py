"""Attention computed piece by piece: scores that never lie in memory.

    scores = dot(query, key)        [batch, heads, seq, ~seq]
    weights = softmax(scores)       …: a kernel that computes attention piece by piece holds a tile of these at a time
    out = dot(weights, value)

Whatever has a dim of the queries and all of the keys is such a score, or the mask or the gradient of one. In the
backward pass such a kernel computes the scores anew: five products where the forward pass has two, which a program
that keeps them, with four, has to be charged for.

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
    """The dims of scores that do not ride along in their product.

    Attributes:
        queries: one dim for each position of a query (and for its group, if several share a key).
        keys: those of the positions of keys.
    """

    queries: frozenset[str | None]
    keys: frozenset[str | None]


def attentions(program: Program) -> frozenset[Scores]:
    """Returns the dims of the scores of each kind of attention in a program.

    Scores are products that sum something and have dims that ride along (heads, say); of them exponentials are taken,
    and what comes of these is summed over all dims of the keys in another product.
    """
    found: set[Scores] = set()
    for block in _blocks(program.code.block):
        makers = {out: operation for operation in block.operations for out in operation.outputs}
        for operation in block.operations:
            if operation.name == "dot_general" and not operation.backward:
                for value, summed in zip(operation.inputs, operation.params["dimension_numbers"][0], strict=True):
                    if isinstance(value, int):
                        over = frozenset(program.names[value][axis] for axis in summed)
                        found |= set(_scores(program, value, over, makers))
    return frozenset(found)


def is_score(program: Program, kinds: frozenset[Scores], value: int) -> bool:
    """Whether a value is a score, its mask or its gradient."""
    names = set(program.names[value])
    return any(kind.keys <= names and kind.queries & names for kind in kinds)


def _blocks(block: Block) -> Iterator[Block]:
    yield block
    for operation in walk(block):
        yield from operation.blocks


def _scores(
    program: Program, value: int, over: frozenset[str | None], makers: Mapping[int, Operation]
) -> Iterator[Scores]:
    """The products that an operand of another product is a softmax of."""
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
