"""Finds the scores of attention, by dims: which the operation `attention` never makes, and fused kernels never store.

    scores = dot(query, key)        [batch, heads, seq, ~seq]
    weights = softmax(scores)       a fused kernel holds one tile of both at a time
    out = dot(weights, value)

Every value with a dim of the queries and all dims of the keys is such a score, or its mask or gradient.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from ..code.operations import Operation, every_block
from ..programs.program import Program, analysis

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


@analysis
def attentions(program: Program) -> frozenset[Scores]:
    """Returns the dims of the scores of each kind of attention in a program.

    Scores are the results of a matmul with contracted and batch dims (heads, say), of which exponentials are taken, and
    these are contracted over all dims of the keys by another matmul.
    """
    kinds: set[Scores] = set()
    for block in every_block(program.code.block):
        makers = {out: operation for operation in block.operations for out in operation.outputs}
        for operation in block.operations:
            if operation.name == "dot_general" and (operation.rematerialised or not operation.backward):
                for value, summed in zip(operation.inputs, operation.params["dimension_numbers"][0], strict=True):
                    if isinstance(value, int):
                        summed_names = frozenset(program.names[value][axis] for axis in summed)
                        kinds |= set(_scores(program, value, summed_names, makers))
    return frozenset(kinds)


@analysis
def scores_of(program: Program) -> Mapping[int, Scores]:
    """Returns each value that is a score, its mask or its gradient, with its kind."""
    # A score of blocks of keys has the dims of one of keys alone: the kind with the most dims comes first.
    kinds = sorted(attentions(program), key=lambda kind: (-len(kind.keys), -len(kind.queries), *map(str, kind.keys)))
    found = {}
    for value, names in enumerate(program.names if kinds else ()):
        kind = next((kind for kind in kinds if kind.keys <= set(names) and kind.queries & set(names)), None)
        if kind is not None:
            found[value] = kind
    return found


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
