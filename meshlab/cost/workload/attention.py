"""Finds the scores of attention, which fused attention kernels (FlashAttention) never store in memory.

    scores = dot(query, key)        [batch, heads, seq, ~seq]
    weights = softmax(scores)       a fused kernel holds one tile of both at a time
    out = dot(weights, value)

Every value with a dim of the queries and all dims of the keys is such a score, or its mask or gradient. In the backward
pass such a kernel recomputes the scores: five matmuls where the forward pass has two. A program that stores them has
four, and is charged for the fifth.

How it is run is an assumption (`ATTENTION`): users of GPUs and TPUs run fused kernels, which leave out the tiles that a
causal mask hides. Scores that a collective sends, partial sums over a split head say, are in memory however it is run.

Source: Dao et al. 2022, FlashAttention (https://arxiv.org/abs/2205.14135), section 3 and appendix B.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping

from ...engine.code.operations import Block, Operation, walk
from ...engine.planning.shared_steps import counted_only
from ...engine.planning.steps import Move
from ...engine.plans.plan_data import Plan
from ...engine.programs.program import Program, analysis
from .causal_masks import causal_masks

# How attention is run: as users of the platform do; its scores stored, as the program has them; in a fused kernel; in
# one that leaves out what a causal mask hides.
ATTENTION = DEFAULT, STORED, FLASH, CAUSAL = "default", "stored", "flash", "causal"
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


def as_run(attention: str, platform: str, plan: Plan) -> str:
    """Returns how attention is run, "stored", "flash" or "causal"; `DEFAULT` is as users of a platform run it."""
    if attention != DEFAULT:
        return attention
    if platform == "cpu" or not fusable(plan):
        return STORED
    return CAUSAL if masked(plan.program) else FLASH


def fusable(plan: Plan) -> Mapping[int, Scores]:
    """Returns each value that is a score, its mask or its gradient, of kinds of which no collective sends any."""
    return plan.once(_fusable)


def _fusable(plan: Plan) -> Mapping[int, Scores]:
    scores = scores_of(plan.program)
    if not scores:
        return scores
    moves = (step for step, _ in counted_only(Move, plan.planned.steps) if step.collective)
    sent = {scores[step.value] for step in moves if step.value in scores}
    return {value: kind for value, kind in scores.items() if kind not in sent} if sent else scores


@analysis
def attentions(program: Program) -> frozenset[Scores]:
    """Returns the dims of the scores of each kind of attention in a program.

    Scores are the results of a matmul with contracted and batch dims (heads, say), of which exponentials are taken, and
    these are contracted over all dims of the keys by another matmul.
    """
    kinds: set[Scores] = set()
    for block in _blocks(program.code.block):
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


@analysis
def masked(program: Program) -> Mapping[Scores, tuple[str, str]]:
    """Returns the kinds of scores that a causal mask hides, with the dims of the positions of queries and keys."""
    pairs = {}
    for kind, mask in itertools.product(attentions(program), causal_masks(program)):
        queries, keys = kind.queries & mask, kind.keys & mask
        if len(queries) == 1 and keys == kind.keys and len(mask - queries) == 1:
            pairs[kind] = (*queries, *keys)
    return pairs


@analysis
def supposed(program: Program) -> Mapping[Scores, tuple[str, str]]:
    """Returns the kinds of scores that a causal mask hides if all do: of as many queries as keys."""
    pairs, dims = {}, program.dims
    for kind in attentions(program):
        for query, key in itertools.product(kind.queries, kind.keys):
            if len(kind.keys) == 1 and query is not None and key is not None and dims.get(query) == dims.get(key):
                pairs[kind] = query, key
    return masked(program) or pairs


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
